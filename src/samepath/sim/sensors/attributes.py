"""Attributes of sensors as CARLA's blueprints have them: names, defaults and limits; text or numbers in, numbers out.

What lies outside its limits is refused by name: nothing is clipped in silence.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.base.errors import InputError
from samepath.base.suggest import unknown

Given = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A number and its limits; ``above`` says that the least one is itself too small."""

    default: float
    least: float
    most: float
    unit: str = ""
    whole: bool = False
    above: bool = False

    @property
    def wanted(self) -> str:
        """The limits in words."""
        number = "a whole number" if self.whole else "a number"
        unit = f" {self.unit}" if self.unit else ""
        least, most = (f"{int(one)}" if self.whole else f"{one:.10g}" for one in (self.least, self.most))
        return f"{number} {f'above {least} and at most' if self.above else f'from {least} to'} {most}{unit}"


class Flag:
    """True or false."""

    def __init__(self, *, default: bool) -> None:
        self.default = default


Table = Mapping[str, Attribute | Flag]
SENSOR_TICK: Final = Attribute(0.0, 0.0, 86400.0, "s")
SEED: Final = Attribute(0, -(2.0**53), 2.0**53, whole=True)


def read(sensor: str, given: Given, table: Table, *, strict: bool = False) -> dict[str, float]:
    """Return the value of every attribute in ``table``, from ``given`` or by default.

    ``strict`` refuses names that are not in the table; without it they are somebody else's.
    """
    if strict:
        for name in given:
            if name not in table:
                raise unknown(f"attribute of {sensor}", name, table)
    return {name: _value(f"{sensor}: {name}", given.get(name, kind.default), kind) for name, kind in table.items()}


def _value(where: str, came: object, kind: Attribute | Flag) -> float:
    if isinstance(kind, Flag):
        word = str(came).lower()
        if word not in ("true", "false", "1", "0"):
            raise InputError(f"{where}: true or false was wanted, but {_shown(came)} came")
        return float(word in ("true", "1"))
    try:
        value = math.nan if isinstance(came, bool) else float(str(came))
    except ValueError:
        value = math.nan
    inside = kind.least <= value <= kind.most and not (kind.above and value == kind.least)
    if not inside or (kind.whole and value != int(value)):
        raise InputError(f"{where}: {kind.wanted} was wanted, but {_shown(came)} came")
    return value


def _shown(came: object) -> str:
    text = repr(came)
    return text if len(text) <= 40 else f"{text[:37]}..."
