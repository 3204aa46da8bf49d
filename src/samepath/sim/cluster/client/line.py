"""One connection to a server or a node: requests out, answers in, in MessagePack-RPC as CARLA's client speaks it."""

import socket
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgpack

from samepath.base.errors import InputError
from samepath.sim.server.codec import Reader, WireError, long_text, pack, struct_of, u64, variant
from samepath.sim.server.tickets import Outcome, packed, status

_READ_BYTES: Final = 1 << 18
_ANSWER_BYTES: Final = 256 << 20
_METADATA: Final = (False,)  # CARLA's first argument: somebody waits for the answer
_CALL, _TICKET = "samepath_call", "samepath_ticket"

_outcome: Final[Reader[Outcome]] = struct_of(Outcome, status, long_text, packed, u64)
_error: Final[Reader[str]] = struct_of(lambda message: message, long_text)
_response: Final = struct_of(lambda one: one, variant([_error, _outcome]))


class Address(NamedTuple):
    """Where a server listens for calls."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class LineLostError(Exception):
    """A connection is of no more use; the text says why."""


class Request(NamedTuple):
    """A call by ticket as it goes out, as often as need be."""

    number: int
    arguments: bytes

    @classmethod
    def of(cls, client: str, number: int, method: str, arguments: bytes) -> "Request":
        """Write the call of a method whose arguments are packed."""
        return cls(number, pack((_METADATA, client, number, method, arguments)))


class Reply(NamedTuple):
    """What came back for a request: an outcome, or the words with which the request itself was refused."""

    number: int
    outcome: Outcome | None
    refusal: str = ""


class Line:
    """A connection, and the requests it has not answered yet, by the id they were sent with."""

    def __init__(self, address: Address, timeout_s: float, now_s: float) -> None:
        self.address = address
        self.heard_s = now_s
        self.answers = 0
        self.outgoing = bytearray()
        self.unanswered: dict[int, Request] = {}
        self._next_id = 1
        self._unpacker = msgpack.Unpacker(max_buffer_size=_ANSWER_BYTES, raw=False, strict_map_key=True)
        try:
            self.socket = socket.create_connection(address, timeout_s)
        except (OSError, OverflowError, UnicodeError) as error:
            raise LineLostError(f"{address}: {getattr(error, 'strerror', None) or error}") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def greet(self, client: str, timeout_s: float) -> None:
        """Ask something harmless and wait for the answer: is this a server that knows tickets?"""
        try:
            self.socket.settimeout(timeout_s)
            self.socket.sendall(_message(0, _TICKET, pack((_METADATA, client, 1))))
            answers = self._take(self.socket.recv(_READ_BYTES))
            while not answers:
                answers = self._take(self.socket.recv(_READ_BYTES))
        except OSError as error:
            self.close()
            raise LineLostError(f"{self.address}: {error.strerror or error}") from None
        except LineLostError:
            self.close()
            raise
        if answers[0][2] is not None:
            self.close()
            raise LineLostError(f"{self.address}: this server has no tickets")

    def ready(self) -> None:
        """From now on nobody waits in here."""
        self.socket.setblocking(False)

    def put(self, request: Request, now_s: float) -> None:
        """Add a request to what is to be sent."""
        if not self.unanswered:
            self.heard_s = now_s  # silence counts from here
        call_id, self._next_id = self._next_id, self._next_id % 0xFFFF_FFFF + 1
        self.unanswered[call_id] = request
        self.outgoing += _message(call_id, _CALL, request.arguments)

    def send(self) -> None:
        """Send as much as can be sent now."""
        while self.outgoing:
            try:
                del self.outgoing[: self.socket.send(self.outgoing)]
            except BlockingIOError:
                return
            except OSError as error:
                raise LineLostError(f"{self.address}: {error.strerror or error}") from None

    def receive(self, now_s: float) -> Iterator[Reply]:
        """Take what has come, one after the other: what follows may be broken."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LineLostError(f"{self.address}: {error.strerror or error}") from None
        self.heard_s = now_s
        for one in self._take(data):
            yield self._reply(one)

    def _take(self, data: bytes) -> list[list[Any]]:
        if not data:
            raise LineLostError(f"{self.address}: the connection was closed")
        try:
            self._unpacker.feed(data)
            answers = list(self._unpacker)
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise LineLostError(f"{self.address}: no MessagePack came ({type(error).__name__})") from None
        if not all(type(one) is list and len(one) == 4 and one[0] == 1 for one in answers):
            raise LineLostError(f"{self.address}: no answer to a call came")
        return answers

    def _reply(self, answer: list[Any]) -> Reply:
        _, call_id, refusal, response = answer
        if type(call_id) is not int or call_id not in self.unanswered:
            raise LineLostError(f"{self.address}: an answer came that nobody had asked for")
        outcome = None
        if refusal is None:
            try:
                worked, content = _response(response)
            except WireError as error:
                raise LineLostError(f"{self.address}: an answer of unknown shape came ({error})") from None
            outcome, refusal = (content, "") if worked else (None, content)
        self.answers += 1
        return Reply(self.unanswered.pop(call_id).number, outcome, str(refusal))

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def _message(call_id: int, method: str, arguments: bytes) -> bytes:
    return b"\x94\x00" + pack(call_id) + pack(method) + arguments


def address_of(text: str) -> Address:
    """Read ``host:port``, with an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and bare and port.isascii() and port.isdigit() and 0 < int(port) <= 0xFFFF) or (":" in bare and bare == host):
        raise InputError(f"an address such as 127.0.0.1:2000 was wanted, but {text!r} came")
    return Address(bare, int(port))
