"""The gate of a main server: which keys are let in, which connections have ended, and which were turned away."""

from collections.abc import Callable
from typing import Final

from samepath.sim.cluster.link.extra import zmq

_ZAP: Final = "inproc://zeromq.zap.01"
_KEY_BYTES: Final = 32


class Gate:
    """Answers the questions of ZeroMQ's handshake (ZAP) and reads what it reports of connections. Belongs to one thread."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        socket: "zmq.Socket[bytes]",
        allowed: Callable[[str], bool] | None,
        log: Callable[[str], None],
    ) -> None:
        self._allowed = allowed
        self._log = log
        self.door = context.socket(zmq.REP)
        self.door.linger = 0
        self.door.bind(_ZAP)
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        self.monitor = socket.get_monitor_socket(events | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        self._open: set[int] = set()
        self.refused = 0

    def answer(self) -> None:
        """Answer all who wait at the door."""
        from zmq.utils import z85

        while True:
            try:
                request = self.door.recv_multipart(zmq.DONTWAIT)
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
            self.door.send_multipart([version, number, *reply, b""])

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
        except Exception as error:  # whatever it is, the answer at the door is no
            self._log(f"a key could not be looked up: {error}")
            return False
