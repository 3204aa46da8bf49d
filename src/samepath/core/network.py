"""Addresses to serve on: which of them let others in; taking a port, with one line where that cannot be done; descriptors.

What serves on an address that others can reach must say so or ask for keys, so that all who listen ask here what theirs means.

A process may open only so many files, sockets included. :func:`allow_descriptors` asks the system for as many as are needed;
where a process has none left, a :class:`Listener` lets clients wait in the kernel's queue until there is one.
"""

import asyncio
import errno
import ipaddress
import resource
import socket
from collections.abc import Callable
from typing import Final

from samepath.core.errors import InputError

# Connections taken at one go: others' work goes on in between.
_ACCEPT_AT_ONCE: Final = 64
# How often a process without descriptors looks for one. Files and pipes free them too, so there is no event to wait for.
_RETRY_S: Final = 0.2
# How soon the same complaint may come again.
_SAY_AGAIN_S: Final = 60.0
_NOTHING_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# A machine that vanished without a word (power, network) is given up after about two minutes, and with it its descriptor. A
# client that is merely silent answers these probes: it may stay for days.
_PROBES: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


class PortTakenError(InputError):
    """Another program listens on the port."""


def is_loopback(host: str) -> bool:
    """Can this address be reached from this machine only?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Does this address stand for all of a machine's?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host or host == "*"


def allow_descriptors(wanted: int) -> int:
    """Let this process open so many descriptors if the system permits it; returns how many it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(soft, allowed)


class Listener:
    """A port that is taken; clients are let in from :meth:`start_serving` on.

    ``asyncio`` has a server of its own, but when a process has no descriptors left that one prints a traceback for each of 100
    attempts, and begins 100 more a second later for each of them (seen: 50,400 lines in 10 s, half a core).
    """

    def __init__(self, protocol: Callable[[], asyncio.Protocol], taken: socket.socket, log: Callable[[str], None]) -> None:
        self._protocol = protocol
        self._socket = taken
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._said_s = -_SAY_AGAIN_S
        self._arriving: set[asyncio.Task[object]] = set()  # the loop itself holds tasks weakly
        self.port = int(taken.getsockname()[1])

    def start_serving(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Let nobody in any more; whoever is in stays."""
        if self._retry is not None:
            self._retry.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                client, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NOTHING_LEFT:
                    raise
                self._pause(error)
                return
            client.setblocking(False)
            # The second of two short answers must not wait until the first was acknowledged: a client that has nothing to say
            # does that after 40 ms, and a traffic manager's tick took so long. asyncio does this for sockets of its own only.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _PROBES:
                client.setsockopt(socket.IPPROTO_TCP, option, value)
            arriving = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, client))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arrived)

    def _arrived(self, arriving: "asyncio.Task[object]") -> None:
        self._arriving.discard(arriving)
        if not arriving.cancelled() and isinstance(error := arriving.exception(), OSError):
            self._log(f"a client of port {self.port} was lost on its way in: {error}")

    def _pause(self, error: OSError) -> None:
        """Let those who come wait: the kernel would report the same client again and again."""
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(_RETRY_S, self._resume)
        now_s = self._loop.time()
        if now_s - self._said_s >= _SAY_AGAIN_S:
            self._said_s = now_s
            self._log(
                f"port {self.port} lets nobody in for now ({error.strerror}): it goes on as soon as a descriptor is free; "
                "ulimit -n says how many there are"
            )

    def _resume(self) -> None:
        self._retry = None
        self.start_serving()


async def listen(
    protocol: Callable[[], asyncio.Protocol], host: str, port: int, log: Callable[[str], None] = lambda line: None
) -> Listener:
    """Take a port, without serving yet. ``log`` is told when clients must wait for want of descriptors."""
    # The client's streams speak IPv4 only; with one family a free port is the same for all addresses.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = None
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        taken = socket.socket(family, socket.SOCK_STREAM)
        taken.setblocking(False)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(found[0][4])
        taken.listen(100)
    except (OSError, OverflowError, UnicodeError) as error:
        if taken is not None:
            taken.close()
        reason = getattr(error, "strerror", None) or error
        kind = PortTakenError if isinstance(error, OSError) and error.errno == errno.EADDRINUSE else InputError
        raise kind(f"{host}:{port} cannot be served ({reason}): choose another --port or --host") from error
    return Listener(protocol, taken, log)
