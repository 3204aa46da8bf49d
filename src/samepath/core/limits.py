"""Limits of single quantities: ``speed: 0.1 m/s``, ``walkers position: 5 cm``, ``3 orientation: 2 deg``, ``sensors: same``.

The tolerance of a study is about positions. A limit says how far another quantity may stray, for everybody, for one actor, or
for types; for positions it stands in the tolerance's place for whom it names. Of several that name the same actor the last
counts.
"""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.channels import ACCELERATION, COMMANDS, POSITION, ROTATION
from samepath.core.errors import InputError, unknown
from samepath.core.units import ANGLE_UNITS_DEG, DURATION_UNITS_S, LENGTH_UNITS_M, SPEED_UNITS_MPS, parse_quantity

SPEED: Final = "speed_mps"
_ACCELERATION_UNITS: Final = {"m/s²": 1.0, "g": 9.80665}


@dataclass(frozen=True)
class LimitedQuantity:
    """What can be limited: the channels it is read from, its unit, and how a limit is written."""

    channels: tuple[str, ...]
    unit: str
    units: Mapping[str, float]
    example: str


QUANTITIES: Final[Mapping[str, LimitedQuantity]] = {
    "position": LimitedQuantity(POSITION, "m", LENGTH_UNITS_M, "1 cm"),
    "orientation": LimitedQuantity(ROTATION, "deg", ANGLE_UNITS_DEG, "0.5 deg"),
    "speed": LimitedQuantity((SPEED,), "m/s", SPEED_UNITS_MPS, "0.1 m/s"),
    "acceleration": LimitedQuantity(ACCELERATION, "m/s²", _ACCELERATION_UNITS, "0.5 m/s2"),
    "commands": LimitedQuantity(tuple(sorted(COMMANDS)), "", {"%": 0.01}, "0.05"),
    "event-time": LimitedQuantity((), "s", DURATION_UNITS_S, "50 ms"),
    "sensors": LimitedQuantity((), "", {}, "same"),
}
_KEY: Final = re.compile(r"(?:(\S+)\s+)?([a-z-]+)")


@dataclass(frozen=True)
class ChannelLimit:
    """How far a quantity may stray; ``of`` is whom it is about: an id, a pattern of types, or empty for everybody."""

    quantity: str
    limit: float
    of: str = ""

    @property
    def name(self) -> str:
        """As it was written."""
        return f"{self.of} {self.quantity}" if self.of else self.quantity

    def about(self, actor: int, kinds: tuple[str, ...]) -> bool:
        """Is it about an actor of these types?"""
        if not self.of:
            return True
        if self.of.isdigit():
            return int(self.of) == actor
        walker = any(word in kind.lower() for kind in kinds for word in ("walker", "pedestrian"))
        if self.of in ("walkers", "vehicles"):
            return walker == (self.of == "walkers")
        return any(fnmatch.fnmatchcase(kind, self.of) for kind in kinds)


def parse_limit(key: str, value: object) -> ChannelLimit:
    """Read one limit."""
    match = _KEY.fullmatch(str(key).strip())
    if match is None:
        raise InputError(f"a limit such as 'speed' or 'walkers position' was wanted, but {key!r} came")
    of, name = match[1] or "", match[2]
    quantity = QUANTITIES.get(name)
    if quantity is None:
        raise unknown("quantity", name, QUANTITIES)
    if name in ("event-time", "sensors") and of:
        raise InputError(f"{name} is limited for all together, but {of!r} came: leave it out")
    if name == "sensors":
        if value != "same":
            raise InputError(f"sensors: same was wanted, but {value!r} came: frames are equal or they are not")
        return ChannelLimit(name, 0.0)
    # A unit has no digits to the reader of quantities.
    limit = parse_quantity(str(value).replace("m/s2", "m/s²"), quantity.units, f"limit of {name}", quantity.example)
    if limit < 0:
        raise InputError(f"{key}: a limit of at least 0 was wanted, but {value!r} came")
    return ChannelLimit(name, limit, of)


def read_limits(given: Mapping[str, object]) -> tuple[ChannelLimit, ...]:
    """Read limits as a study file has them."""
    return tuple(parse_limit(key, value) for key, value in given.items())
