"""ZeroMQ and the kernel: sockets as the link needs them, who is let in, and waiting for everything at once."""

import math
import os
import socket as sockets
from collections.abc import Callable
from threading import Lock
from typing import Final

from samepath.cluster.link.keys import Keys
from samepath.cluster.link.wire import LinkLimits, Readable, Woken, zmq
from samepath.core.errors import InputError

_PORT_MAX: Final = 65_535
_ZAP: Final = "inproc://zeromq.zap.01"  # fixed by ZeroMQ (RFC 27)
_KEY_BYTES: Final = 32


def configure(socket: "zmq.Socket[bytes]", keys: Keys, limits: LinkLimits) -> None:
    """What both ends of the link need: keys, bounds, and a sign of life on an idle connection."""
    socket.linger = 0
    socket.curve_secretkey = keys.secret.encode("ascii")
    socket.curve_publickey = keys.public.encode("ascii")
    # The link counts what is under way by itself (FlowControl); these bounds only stand behind that, twice as high
    # so that it is always the link that says no: its error names the peer and what waits for it.
    socket.sndhwm = socket.rcvhwm = 2 * limits.waiting_messages
    socket.maxmsgsize = limits.frame_bytes
    # A main server that is busy with a tick answers a handshake later. How long to wait for that is the node's decision
    # (connect_s), so ZeroMQ must not give up before it.
    socket.handshake_ivl = round(2000.0 * limits.connect_s)
    # A host that vanished without a word (power, cable) is noticed after 10 + 3 x 5 s also where nobody sends anything.
    socket.tcp_keepalive = 1
    socket.tcp_keepalive_idle, socket.tcp_keepalive_intvl, socket.tcp_keepalive_cnt = 10, 5, 3


def listen(socket: "zmq.Socket[bytes]", host: str, port: int, keys: Keys, limits: LinkLimits) -> tuple[str, int]:
    """Bind a ROUTER; every connection needs a key, also on this host. Returns the endpoint and its port."""
    socket.router_mandatory = True
    socket.curve_server = True
    socket.zap_domain = b"samepath"
    configure(socket, keys, limits)
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


class Authenticator:
    """Decides which keys are let in (ZeroMQ's ZAP protocol) and follows which connections have ended. Belongs to one thread.

    ZeroMQ asks at ``zap`` for every handshake and reports on ``monitor`` what became of connections. pyzmq's own authenticator
    runs in a thread with a fixed list of keys; this one asks ``allowed`` in main's thread, as keys come with every new node.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        socket: "zmq.Socket[bytes]",
        allowed: Callable[[str], bool] | None,
        log: Callable[[str], None],
    ) -> None:
        self._allowed = allowed
        self._log = log
        self.zap = context.socket(zmq.REP)
        self.zap.linger = 0
        self.zap.bind(_ZAP)
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        self.monitor = socket.get_monitor_socket(events | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        self._open: set[int] = set()
        self.refused = 0

    def answer(self) -> None:
        """Answer all handshakes that wait."""
        from zmq.utils import z85

        while True:
            try:
                request = self.zap.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            version, number, _domain, address, _routing, mechanism, *credentials = request
            key = ""
            if mechanism == b"CURVE" and len(credentials) == 1 and len(credentials[0]) == _KEY_BYTES:
                key = z85.encode(credentials[0]).decode("ascii")
            if key and self._lets_in(key):
                reply = [b"200", b"OK", key.encode("ascii")]
            else:
                self.refused += 1
                self._log(f"a node at {address.decode('ascii', 'replace')} was refused: its key {key} is not known here")
                reply = [b"400", b"unknown key", b""]
            self.zap.send_multipart([version, number, *reply, b""])

    def ended(self) -> list[int]:
        """File descriptors of the connections that have ended since; those that were turned away are logged."""
        from zmq.utils.monitor import parse_monitor_message

        ended: list[int] = []
        while True:
            try:
                event = parse_monitor_message(self.monitor.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return ended
            kind, value = event["event"], event["value"]
            if kind == zmq.EVENT_ACCEPTED:
                self._open.add(value)
            elif kind == zmq.EVENT_DISCONNECTED:
                self._open.discard(value)
                ended.append(value)
            elif kind == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self.refused += 1
                self._log("a connection was refused: it does not know this main server's public key, or is no node")
            else:
                self.refused += 1
                self._log("a connection broke off before it was let in: it died, had no key, or is no node")

    def is_open(self, fd: int) -> bool:
        """Is this a connection that has not ended, as far as was read?"""
        return fd in self._open

    def _lets_in(self, key: str) -> bool:
        try:
            return self._allowed is None or self._allowed(key)
        except Exception as error:  # a key that cannot be looked up is not let in
            self._log(f"a key could not be looked up: {error}")
            return False


class Poller:
    """Waits for sockets, for other threads and for file descriptors, all at once. All but ``wake`` belongs to one thread."""

    def __init__(self, *sockets: "zmq.Socket[bytes]") -> None:
        self._poller = zmq.Poller()
        for socket in sockets:
            self._poller.register(socket, zmq.POLLIN)
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poller.register(self._wakeup, zmq.POLLIN)
        self._lock = Lock()
        self._watched: dict[int, object] = {}

    def wake(self) -> None:
        """End the current or the next wait; any thread may call it, also when all is closed."""
        with self._lock:
            if self._wakeup >= 0:
                os.eventfd_write(self._wakeup, 1)

    def watch(self, fd: int, key: object) -> None:
        """Report ``Readable(key)`` at every wait as long as ``fd`` can be read."""
        self._poller.register(fd, zmq.POLLIN | zmq.POLLERR)
        self._watched[fd] = key

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._poller.unregister(fd)

    def wait(self, timeout_s: float | None) -> tuple[set[object], list[Woken | Readable]]:
        """The sockets that have something, and what else has happened."""
        timeout_ms = None if timeout_s is None else max(0, math.ceil(timeout_s * 1000.0))
        ready: set[object] = set()
        events: list[Woken | Readable] = []
        for source, _ in self._poller.poll(timeout_ms):
            if not isinstance(source, int):
                ready.add(source)
            elif source == self._wakeup:
                os.eventfd_read(self._wakeup)
                events.append(Woken())
            else:
                events.append(Readable(self._watched[source]))
        return ready, events

    def close(self) -> None:
        """No more waiting; the watched descriptors stay open, they are not ours."""
        with self._lock:
            if self._wakeup >= 0:
                os.close(self._wakeup)
                self._wakeup = -1
