"""What a study may vary about TORCS: who races where, and for how long."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.values import choice, number, whole, word

# Fixed in TORCS's source: physics steps every 2 ms, robots are asked every tenth of them.
STEP_S: Final = 0.002
STEPS_PER_TICK: Final = 25
TICK_S: Final = STEP_S * STEPS_PER_TICK

SYNCHRONOUS: Final = "synchronous"
MODES: Final = (SYNCHRONOUS,)
MOST_CARS: Final = 10

SETTINGS: Final[Mapping[str, Scalar]] = {
    "program": "",
    "mode": SYNCHRONOUS,
    "track": "aalborg",
    "drivers": "inferno 1, olethros 1",
    "laps": 1,
    "timeout_s": 20.0,
}
_TRACK: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DRIVER: Final = re.compile(r"([A-Za-z0-9_-]{1,31})\s+(\d{1,3})")


@dataclass(frozen=True)
class RaceDriver:
    """One of the drivers a robot of TORCS offers: the robot's name and the driver's number in it."""

    module: str
    index: int


@dataclass(frozen=True)
class TorcsSettings:
    """The same, checked. ``program`` is empty where TORCS is to be found by its usual name."""

    program: str
    track: str
    drivers: tuple[RaceDriver, ...]
    laps: int
    timeout_s: float


def read_settings(values: Mapping[str, Scalar]) -> TorcsSettings:
    """Check a study's plain values."""
    choice(values, "mode", MODES)
    return TorcsSettings(
        program=str(values["program"]).strip(),
        track=_track(word(values, "track")),
        drivers=_drivers(word(values, "drivers")),
        laps=whole(values, "laps", 1, 100),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
    )


def _track(name: str) -> str:
    if not _TRACK.fullmatch(name):
        raise InputError(f"track: the name of a track was wanted, such as aalborg, but {name!r} came")
    return name


def _drivers(text: str) -> tuple[RaceDriver, ...]:
    found = [_DRIVER.fullmatch(part.strip()) for part in text.split(",")]
    drivers = [RaceDriver(one[1], int(one[2])) for one in found if one is not None]
    if len(drivers) < len(found) or not 2 <= len(drivers) <= MOST_CARS or len(set(drivers)) < len(drivers):
        raise InputError(
            f"drivers: 2 to {MOST_CARS} different ones were wanted, each a robot and a number, such as "
            f"'{SETTINGS['drivers']}', but {text!r} came"
        )
    return tuple(drivers)
