"""What a study may vary about AirSim: how time passes, which of its cars play, and how it is reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.remote import RemoteSettings, remote_values
from samepath.simulators.values import choice, number, whole

# How a step is asked for: so many seconds of the program's clock, or so many frames of its.
TIME: Final = "time"
FRAMES: Final = "frames"

SETTINGS: Final[Mapping[str, Scalar]] = {
    "port": 41451,
    "vehicles": "Car1, Car2",
    "continue_for": TIME,
    "frames": 2,
    "time_scale": 1.0,
}


@dataclass(frozen=True)
class AirSimSettings(RemoteSettings):
    """The same, checked. ``vehicles`` are names of settings.json, in the order of actors; ``clock_speed`` is its ClockSpeed."""

    vehicles: tuple[str, ...]
    continue_for: str
    frames: int
    clock_speed: float

    @property
    def time_scale(self) -> float:
        """How many simulated seconds a second of the wall clock is."""
        return self.clock_speed


def read_settings(values: Mapping[str, Scalar]) -> AirSimSettings:
    """Check a study's plain values."""
    names = tuple(name.strip() for name in str(values["vehicles"]).split(",") if name.strip())
    if not names or len(set(names)) != len(names):
        raise InputError(f"vehicles: distinct names by commas were wanted, such as Car1, Car2, but {values['vehicles']!r} came")
    # The client counts whole seconds; with less than one it gives up an answer that has just been asked for.
    number(values, "timeout_s", 1.0, 3600.0)
    return AirSimSettings(
        **remote_values(values),
        vehicles=names,
        continue_for=choice(values, "continue_for", (TIME, FRAMES)),
        frames=whole(values, "frames", 1, 1000),
        clock_speed=number(values, "time_scale", 0.01, 100.0),
    )
