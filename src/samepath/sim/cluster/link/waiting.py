"""Waiting for sockets, for other threads and for file descriptors, all at once."""

import math
import os
from threading import Lock

from samepath.sim.cluster.link.events import Ready, Woken
from samepath.sim.cluster.link.extra import zmq


class Waiter:
    """A poller. All but ``wake`` belongs to one thread."""

    def __init__(self, *sockets: "zmq.Socket[bytes]") -> None:
        self._poller = zmq.Poller()
        for socket in sockets:
            self._poller.register(socket, zmq.POLLIN)
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poller.register(self._bell, zmq.POLLIN)
        self._lock = Lock()
        self._watched: dict[int, object] = {}

    def wake(self) -> None:
        """End the current or the next wait; any thread may call it, also when all is closed."""
        with self._lock:
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def watch(self, fd: int, key: object) -> None:
        """Report ``Ready(key)`` at every wait as long as ``fd`` can be read."""
        self._poller.register(fd, zmq.POLLIN | zmq.POLLERR)
        self._watched[fd] = key

    def unwatch(self, fd: int) -> None:
        """No longer."""
        if self._watched.pop(fd, None) is not None:
            self._poller.unregister(fd)

    def wait(self, timeout_s: float | None) -> tuple[set[object], list[Woken | Ready]]:
        """The sockets that have something, and what else has happened."""
        timeout_ms = None if timeout_s is None else max(0, math.ceil(timeout_s * 1000.0))
        sockets: set[object] = set()
        events: list[Woken | Ready] = []
        for source, _ in self._poller.poll(timeout_ms):
            if not isinstance(source, int):
                sockets.add(source)
            elif source == self._bell:
                os.eventfd_read(self._bell)
                events.append(Woken())
            else:
                events.append(Ready(self._watched[source]))
        return sockets, events

    def close(self) -> None:
        """No more waiting; the watched descriptors stay open, they are not ours."""
        with self._lock:
            if self._bell >= 0:
                os.close(self._bell)
                self._bell = -1
