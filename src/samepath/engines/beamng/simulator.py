"""The adapter of BeamNG.tech, written against the documented API of BeamNGpy. Not run against the program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError, SimulatorError
from samepath.engines.in_process import TICK_S
from samepath.engines.interface import Scalar, whole
from samepath.engines.remote import RemoteSettings, RemoteSimulator, RemoteWorld, find_server, remote_values
from samepath.scenarios.scripts import Script

LOOPBACK: Final = ("127.0.0.1", "localhost")

SETTINGS: Final[Mapping[str, Scalar]] = {
    "port": 25252,
    "timeout_s": 120.0,
    "home": "",
    "level": "smallgrid",
    "vehicles": "etk800",
    "steps_per_second": 60,
    "steer_sign": 1,
}


@dataclass(frozen=True)
class BeamNGSettings(RemoteSettings):
    """What a study may vary about BeamNG.tech, checked.

    ``vehicles`` are models, one for all or one for each actor; ``home`` is empty where the program runs already.
    """

    home: str
    vehicles: tuple[str, ...]
    steps_per_second: int
    steer_sign: int

    @property
    def exact(self) -> bool:
        """Steps of the program add up to ticks."""
        return self.synchronous

    @property
    def steps(self) -> int:
        """How many steps of the program are a tick."""
        return round(self.steps_per_second * TICK_S)

    def model(self, index: int) -> str:
        """Return the model of an actor, by its place in the script."""
        return self.vehicles[index % len(self.vehicles)]


def read_settings(values: Mapping[str, Scalar]) -> BeamNGSettings:
    """Check a study's plain values."""
    models = tuple(name.strip() for name in str(values["vehicles"]).split(",") if name.strip())
    if not models:
        raise InputError(f"vehicles: a model of BeamNG's was wanted, such as etk800, but {values['vehicles']!r} came")
    read = BeamNGSettings(
        **remote_values(values),
        home=str(values["home"]).strip(),
        vehicles=models,
        steps_per_second=whole(values, "steps_per_second", 20, 2000),
        steer_sign=whole(values, "steer_sign", -1, 1),
    )
    if read.steps_per_second % round(1 / TICK_S):
        raise InputError(
            f"steps_per_second: a multiple of {round(1 / TICK_S)} was wanted, so that steps add up to ticks of {TICK_S:g} s, "
            f"but {read.steps_per_second} came"
        )
    if not read.steer_sign:
        raise InputError("steer_sign: 1 or -1 was wanted, but 0 came")
    if read.home and read.host not in LOOPBACK:
        raise InputError(f"home: a program that is started here listens at {LOOPBACK[0]} only, but host is {read.host}")
    if not read.level:
        raise InputError("level: a level of BeamNG's was wanted, such as smallgrid, but none came")
    return read


class BeamNG(RemoteSimulator[BeamNGSettings]):
    """Soft-bodied cars of BeamNG.tech, which runs already or is started from its ``home``.

    Its documentation says of deterministic mode that it does not make every scenario deterministic, so no bits are promised.
    """

    name = "beamng"
    summary = "cars of BeamNG.tech, through beamngpy: promises nothing; not run against the real program"
    package = "beamngpy"
    oldest = (1, 36)
    own_settings = SETTINGS

    def read(self, values: Mapping[str, Scalar]) -> BeamNGSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def unreachable(self, settings: BeamNGSettings) -> str:
        """Ask whether anybody listens, or whether it can be started."""
        from samepath.engines.beamng.engine import HOW_TO, NAME, binary_of

        try:
            if settings.home:
                binary_of(settings.home)
            else:
                find_server(NAME, settings.host, settings.port, HOW_TO)
        except SimulatorError as error:
            return str(error)
        return ""

    def world(self, script: Script, settings: BeamNGSettings) -> RemoteWorld:
        """Connect, and set up a script."""
        from samepath.engines.beamng.engine import BeamNGConnection, BeamNGWorld

        return BeamNGWorld(BeamNGConnection(settings), script, settings)
