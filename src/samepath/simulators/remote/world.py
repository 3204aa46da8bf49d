"""What an adapter must offer to be played with from afar: looks at the cars, commands to them, and time that passes."""

import socket
from abc import ABC, abstractmethod
from typing import Final, NamedTuple

from samepath.base.errors import SimulatorError
from samepath.simulators.scripts import Seen, VehicleCommand

# Whether anybody listens is known at once, or the machine is out of reach.
_FIND_S: Final = 5.0


class Look(NamedTuple):
    """An actor at a moment of the program's clock, since the run began: its state, and what its driver sees of it."""

    number: int
    time_s: float
    state: dict[str, float]
    seen: Seen


class Contact(NamedTuple):
    """Somebody touched somebody, or scenery (``other`` None, named by ``detail``); no impulse is told."""

    time_s: float
    actor: int
    other: int | None
    detail: str


class RemoteWorld(ABC):
    """A script set up in the program, standing still. Everything is in our frame and units."""

    @abstractmethod
    def look(self) -> list[Look]:
        """Ask where everybody is, by number; in a running program each has a moment of its own."""

    @abstractmethod
    def command(self, number: int, command: VehicleCommand) -> None:
        """Put an actor under a command, until the next one."""

    @abstractmethod
    def step(self) -> None:
        """Let the program run for as long as drivers are not asked, and stand still again."""

    @abstractmethod
    def run(self) -> None:
        """Let the program run on by itself."""

    @abstractmethod
    def contacts(self) -> list[Contact]:
        """Return who touched since this was last asked."""

    @abstractmethod
    def close(self) -> None:
        """Leave the program to itself, and the connection; must not fail where the program is gone."""


def find_server(name: str, host: str, port: int, how_to: str) -> None:
    """Does anybody listen there? A client would try again and again before it says no."""
    try:
        socket.create_connection((host, port), timeout=_FIND_S).close()
    except OSError as error:
        raise SimulatorError(f"{name} does not answer at {host}:{port} ({error.strerror or error}): {how_to}") from error
