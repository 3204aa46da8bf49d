"""Who makes time pass: we, step by step, or the server by itself."""

import queue
from contextlib import suppress
from typing import Any, Protocol

from samepath.base.errors import SimulatorError
from samepath.simulators.carla.link import Link


class ServerClock(Protocol):
    """Hands out the server's snapshots, oldest first."""

    def advance(self) -> list[Any]:
        """Wait for at least one more frame and return all that are there."""
        ...

    def close(self) -> None:
        """Let go of the server."""
        ...


class Synchronous:
    """The server waits for us. Frames must follow each other: if they do not, somebody else ticks the same server."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # The client may not have seen yet what it ticked itself while it loaded the world.
        self._frame: int | None = None

    def advance(self) -> list[Any]:
        """Let the server make one step."""
        world = self._link.world
        world.tick(self._link.settings.timeout_s)
        snapshot = world.get_snapshot()
        if self._frame is not None and snapshot.frame != self._frame + 1:
            raise SimulatorError(
                f"frame {snapshot.frame} came after {self._frame}: another client ticks the server at "
                f"{self._link.settings.address}; a study needs it alone"
            )
        self._frame = snapshot.frame
        return [snapshot]

    def close(self) -> None:
        """Nothing is held."""


class Asynchronous:
    """The server runs on; frames that arrive while we are busy wait here."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._callback = link.world.on_tick(self._frames.put)

    def advance(self) -> list[Any]:
        """Return what has come since the last time, waiting for the first."""
        settings = self._link.settings
        try:
            found = [self._frames.get(timeout=settings.timeout_s)]
        except queue.Empty:
            raise RuntimeError("time-out") from None
        while not self._frames.empty():
            found.append(self._frames.get())
        return found

    def close(self) -> None:
        """Hear no more."""
        with suppress(RuntimeError):
            self._link.world.remove_on_tick(self._callback)


def clock_of(link: Link) -> ServerClock:
    """Return the clock that the settings ask for."""
    return Synchronous(link) if link.settings.synchronous else Asynchronous(link)
