"""The channels of a trace: what a number in a column means, its unit, and limits of how far it may stray.

Frame: CARLA's. x forward (east), y right, z up, left-handed, metres; angles in degrees. The unit stands last in the name.
Any other name is a channel too, if it is a plain identifier that ends in its unit (``battery_ratio``).
"""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError, unknown
from samepath.core.units import ANGLE_UNITS_DEG, DURATION_UNITS_S, LENGTH_UNITS_M, SPEED_UNITS_MPS, parse_quantity

POSITION: Final = ("x_m", "y_m", "z_m")
ROTATION: Final = ("roll_deg", "pitch_deg", "yaw_deg")
VELOCITY: Final = ("vx_mps", "vy_mps", "vz_mps")
ANGULAR_VELOCITY: Final = ("wx_degps", "wy_degps", "wz_degps")
ACCELERATION: Final = ("ax_mps2", "ay_mps2", "az_mps2")
VEHICLE_CONTROL: Final = (
    "throttle_ratio",
    "steer_ratio",
    "brake_ratio",
    "hand_brake_bool",
    "reverse_bool",
    "gear_index",
)
WALKER_CONTROL: Final = ("walk_x_ratio", "walk_y_ratio", "walk_z_ratio", "walk_speed_mps")

# What somebody tells an actor to do. The gear is the gearbox's, not the driver's.
COMMANDS: Final = frozenset((*VEHICLE_CONTROL[:-1], *WALKER_CONTROL))

STANDARD: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, *ACCELERATION, *VEHICLE_CONTROL, *WALKER_CONTROL)

# Angles wrap: 179.9 and -179.9 are 0.2 degrees apart, so their spread is taken after unwrapping about the first repeat.
ANGLES: Final = frozenset(ROTATION)

# How far off a state may be that was put between two frames of an engine: a trace that has this channel was resampled.
RESAMPLING: Final = "resampling_m"

KEY_COLUMNS: Final = frozenset({"experiment", "cell", "repeat", "actor", "actor_type", "tick", "time_s", "digest"})

# No quantity of a driving world is larger, and squares of anything smaller are still numbers.
LARGEST: Final = 1e100

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def check_channels(channels: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``channels`` if they can be columns of a trace: named, distinct, position among them."""
    for name in channels:
        if not _NAME.fullmatch(name) or name in KEY_COLUMNS:
            raise InputError(f"channel {name!r}: a plain name that ends in its unit was wanted, such as battery_ratio")
    if len(set(channels)) != len(channels):
        raise InputError(f"channels must be distinct, but {', '.join(channels)} came")
    missing = [name for name in POSITION[:2] if name not in channels]
    if missing:
        raise InputError(f"a trace needs at least x_m and y_m, but {', '.join(missing)} is missing")
    return channels


def unit_of(channel: str) -> str:
    """Return the unit a channel's name ends in."""
    unit = channel.rpartition("_")[2]
    return {"mps": "m/s", "degps": "deg/s", "mps2": "m/s²", "ratio": "1", "bool": "0/1", "index": "1"}.get(unit, unit)


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
    """How far a quantity may stray: ``speed: 0.1 m/s``, ``walkers position: 5 cm``, ``sensors: same``.

    The tolerance of a study is about positions. A limit is about another quantity, or for positions stands in the tolerance's
    place for whom it names. ``of`` is whom it is about: an id, a pattern of types, or empty for everybody. Of several that
    name the same actor the last counts.
    """

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
