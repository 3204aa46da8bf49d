"""Waiting for sockets, for other threads and for file descriptors, all at once."""

import math
import os
import socket as sockets
from collections import deque
from threading import Lock
from typing import Final, NamedTuple

from samepath.cluster.link.keys import Keys
from samepath.cluster.link.wire import LinkLimits, MalformedError, Ready, Woken, zmq
from samepath.core.errors import InputError


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


# The socket of a main server: where it listens, and what both ends have in common.

_PORT_MAX: Final = 65_535


def dress(socket: "zmq.Socket[bytes]", keys: Keys, limits: LinkLimits) -> None:
    """What both ends of the link need: keys, bounds, and a sign of life on an idle connection."""
    socket.linger = 0
    socket.curve_secretkey = keys.secret.encode("ascii")
    socket.curve_publickey = keys.public.encode("ascii")
    # The link counts what is under way by itself; these bounds only stand behind that.
    socket.sndhwm = socket.rcvhwm = 2 * limits.waiting_messages
    socket.maxmsgsize = limits.frame_bytes
    # A main server that is busy opens the door later; how long a node waits for that, the node itself decides.
    socket.handshake_ivl = round(2000.0 * limits.connect_s)
    socket.tcp_keepalive = 1
    socket.tcp_keepalive_idle, socket.tcp_keepalive_intvl, socket.tcp_keepalive_cnt = 10, 5, 3


def listen(socket: "zmq.Socket[bytes]", host: str, port: int, keys: Keys, limits: LinkLimits) -> tuple[str, int]:
    """Bind a ROUTER; every connection needs a key, also on this host. Returns the endpoint and its port."""
    socket.router_mandatory = True
    socket.curve_server = True
    socket.zap_domain = b"samepath"
    dress(socket, keys, limits)
    if not 0 <= port <= _PORT_MAX:
        raise InputError(f"the main server cannot listen on {host}:{port}: a port is a number from 0 to {_PORT_MAX}")
    try:
        family, _, _, _, address = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"the main server cannot listen on {host}:{port}: {error}; give an address of this host") from None
    socket.ipv6 = family == sockets.AF_INET6
    shown = f"[{address[0]}]" if family == sockets.AF_INET6 else str(address[0])
    try:
        socket.bind(f"tcp://{shown}:{port or '*'}")
    except zmq.ZMQError as error:
        if error.errno == zmq.EADDRINUSE:
            busy = f"another main server (or something else) listens on {host}:{port}"
            raise InputError(f"{busy}: stop it, or choose another port") from None
        raise InputError(
            f"the main server cannot listen on {host}:{port}: {error.strerror}; give an address of this host"
        ) from None
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return endpoint, int(endpoint.rpartition(":")[2])


# How much waits for a peer. Pure.
#
# Each side counts the letters it has sent, and every letter that comes back says how many of them were read. So both
# know what is under way, however the wire buffers it, and when a piece of shared memory may be used again.


class Piece(NamedTuple):
    """Shared memory that a letter refers to, from the first position to behind the last."""

    generation: int
    start: int
    end: int


class Account:
    """Letters sent to one peer and not known to be read, and letters of that peer not reported as read."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._sizes: deque[int] = deque()
        self._pieces: deque[tuple[int, Piece]] = deque()
        self.waiting_bytes = 0
        self.sent = 0
        self.received = 0
        self._reported = 0
        self._unreported_bytes = 0

    @property
    def waiting(self) -> int:
        """Letters that were sent and not known to be read."""
        return len(self._sizes)

    def is_full(self) -> bool:
        """Is so much waiting that nothing more should be sent?"""
        return self.waiting >= self._limits.waiting_messages or self.waiting_bytes >= self._limits.waiting_bytes

    def post(self, size: int, piece: Piece | None) -> None:
        """A letter was sent; it also says how much was read here."""
        self.sent += 1
        self.waiting_bytes += size
        self._sizes.append(size)
        if piece is not None:
            self._pieces.append((self.sent, piece))
        self._reported, self._unreported_bytes = self.received, 0

    def settle(self, read: int) -> Piece | None:
        """The peer has read so many letters in all; returns the last piece of memory that this sets free."""
        before = self.sent - len(self._sizes)
        if not before <= read <= self.sent:
            raise MalformedError(f"{read} letters read of {self.sent}, after {before}")
        for _ in range(read - before):
            self.waiting_bytes -= self._sizes.popleft()
        freed = None
        while self._pieces and self._pieces[0][0] <= read:
            freed = self._pieces.popleft()[1]
        return freed

    def oldest(self, generation: int) -> int | None:
        """Where the oldest memory of a generation begins that this peer may still read."""
        for _, piece in self._pieces:
            if piece.generation == generation:
                return piece.start
        return None

    def take(self, size: int) -> None:
        """A letter of the peer has been read."""
        self.received += 1
        self._unreported_bytes += size

    def owes_report(self, memory_bytes: int) -> bool:
        """Has so much been read, and nothing sent since, that the peer should be told?"""
        if self.received - self._reported >= self._limits.report_messages:
            return True
        return self._unreported_bytes >= max(memory_bytes, self._limits.board_bytes) // 4
