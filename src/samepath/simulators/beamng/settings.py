"""What a study may vary about BeamNG.tech: how time passes, which cars play where, and how the program is reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.remote import TICK_S, RemoteSettings, remote_values
from samepath.simulators.values import whole

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
    """The same, checked. ``vehicles`` are models, one for all or one for each actor; ``home`` is empty where it runs."""

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
