"""The adapter of AirSim, written against the documented API of the client ``cosysairsim``. Not run against the program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError, SimulatorError
from samepath.engines.interface import Scalar, choice, number, whole
from samepath.engines.remote import RemoteSettings, RemoteSimulator, RemoteWorld, find_server, remote_values
from samepath.scenarios.scripts import Script

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
    """What a study may vary about AirSim, checked.

    ``vehicles`` are names of settings.json, in the order of actors; ``clock_speed`` is its ClockSpeed.
    """

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


class AirSim(RemoteSimulator[AirSimSettings]):
    """Cars of AirSim 1.8 or Cosys-AirSim, which the user has started in car mode."""

    name = "airsim"
    summary = "cars of AirSim or Cosys-AirSim, through cosysairsim: promises nothing; not run against the real program"
    package = "cosysairsim"
    oldest = (3, 0)
    own_settings = SETTINGS

    def read(self, values: Mapping[str, Scalar]) -> AirSimSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def unreachable(self, settings: AirSimSettings) -> str:
        """Ask whether anybody listens."""
        from samepath.engines.airsim.engine import HOW_TO

        try:
            find_server("AirSim", settings.host, settings.port, HOW_TO)
        except SimulatorError as error:
            return str(error)
        return ""

    def world(self, script: Script, settings: AirSimSettings) -> RemoteWorld:
        """Connect, and set up a script."""
        from samepath.engines.airsim.engine import AirSimConnection, AirSimWorld

        return AirSimWorld(AirSimConnection(settings), script, settings)
