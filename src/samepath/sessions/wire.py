"""CARLA's two wires as a proxy sees them: bytes cut into messages, and the few bytes of a message that a proxy must know.

Calls and answers are MessagePack arrays without lengths; only their heads are unpacked. Streams are messages with a length
first, of which the first 48 bytes are a header; long ones (pictures) are digested as they pass and never held.

A token is where a client is told to fetch a stream: an id, a port, and mostly no address, which means "the host you called".
CARLA's client asks for the token before each subscription (``get_sensor_token``) and connects to exactly that one, so this
answer is the only place where a proxy has to change bytes: the port, and the address where there is one.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from samepath.core.digests import LINK_BYTES
from samepath.core.errors import SamepathError
from samepath.simulator.carla.streams import ACTOR_STATE, SENSOR_TYPES, WORLD_OBSERVER

CALL_BYTES_MOST: Final = 64 << 20
ANSWER_BYTES_MOST: Final = 512 << 20
_STATE_BYTES_MOST: Final = 32 << 20
_EVENT_BYTES_MOST: Final = 1 << 20
_EVENTS: Final = frozenset({SENSOR_TYPES["sensor.other.collision"], SENSOR_TYPES["sensor.other.obstacle"]})
_REQUEST, _RESPONSE, _NOTIFICATION = 0, 1, 2
_HEADER: Final = struct.Struct("<QQd")
HEADER_BYTES: Final = 48
_EPISODE: Final = struct.Struct("<QdfiiiI")
_TOKEN: Final = struct.Struct("<IHBB16s")
_ADDRESS_NOT_SET, _ADDRESS_V4 = 0, 1
TOKEN_METHODS: Final = frozenset({"get_sensor_token", "get_gbuffer_token"})
# How an answer with a token begins: a value, in it a struct of one field (or none), in it 24 bytes.
_TOKEN_ANSWERS: Final = (b"\x91\x92\x01\x91\xc4\x18", b"\x91\x92\x01\xc4\x18")


class SessionWireError(SamepathError):
    """Bytes that are no call, no answer or no stream."""


class CallHead(NamedTuple):
    """A call: its id (None: no answer will come), its method, and its arguments as they are packed."""

    id: int | None
    method: str
    arguments: bytes


class AnswerHead(NamedTuple):
    """An answer: the id of its call, whether the call was refused, and the result (or refusal) as it is packed."""

    id: int
    refused: bool
    result: bytes


def read_call(message: bytes) -> CallHead:
    """Read the head of a call."""
    unpacker, size = _opened(message)
    kind = unpacker.unpack()
    if (kind, size) not in ((_REQUEST, 4), (_NOTIFICATION, 3)):
        raise SessionWireError("no call")
    call_id = unpacker.unpack() if size == 4 else None
    method = unpacker.unpack()
    if not isinstance(method, str) or len(method) > 256 or not (call_id is None or type(call_id) is int):
        raise SessionWireError("no call")
    return CallHead(call_id, method, message[unpacker.tell() :])


def read_answer(message: bytes) -> AnswerHead:
    """Read the head of an answer."""
    unpacker, size = _opened(message)
    if size != 4 or unpacker.unpack() != _RESPONSE:
        raise SessionWireError("no answer")
    call_id = unpacker.unpack()
    if type(call_id) is not int:
        raise SessionWireError("no answer")
    start = unpacker.tell()
    refused = message[start] != 0xC0
    if refused:
        unpacker.skip()
        return AnswerHead(call_id, True, message[start : unpacker.tell()])
    return AnswerHead(call_id, False, message[start + 1 :])


def _opened(message: bytes) -> tuple[Any, int]:
    """An unpacker past the head of an array, and how long the array is."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(message), 1), raw=False, unicode_errors="replace")
    unpacker.feed(message)
    try:
        return unpacker, unpacker.read_array_header()
    except (ValueError, msgpack.UnpackException) as error:
        raise SessionWireError(f"no array ({type(error).__name__})") from None


def is_waited_for(arguments: bytes) -> bool:
    """Does the caller wait for the answer? The first argument of every call says so."""
    try:
        values = unpacked(arguments)
    except SessionWireError:
        return True
    return not (isinstance(values, list) and values and values[0] == [True])


def unpacked(data: bytes) -> Any:  # noqa: ANN401 - whatever MessagePack can say
    """Unpack arguments or a result."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="replace")
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise SessionWireError(f"no MessagePack ({type(error).__name__})") from None


class StreamToken(NamedTuple):
    """Where a client is sent for a stream; ``host`` None: to the host it called."""

    stream: int
    port: int
    host: str | None


def redirected(message: bytes, result: bytes, port: int) -> tuple[bytes, StreamToken] | None:
    """An answer with a token, the token leading to ``port`` of the host that was called; None: there is no token in it.

    Also says where it led. As long as before, and the same bytes if it led there already.
    """
    lead = next((lead for lead in _TOKEN_ANSWERS if result.startswith(lead)), None)
    if lead is None or len(result) != len(lead) + _TOKEN.size:
        return None
    stream, was_port, protocol, address_type, address = _TOKEN.unpack(result[len(lead) :])
    host = ".".join(str(part) for part in address[:4]) if address_type == _ADDRESS_V4 else None
    token = StreamToken(stream, was_port, None if host == "0.0.0.0" else host)  # noqa: S104 - looked at, not listened on
    new = _TOKEN.pack(stream, port, protocol, _ADDRESS_NOT_SET, bytes(16))
    return message[: -_TOKEN.size] + new, token


def observer_in(result: bytes) -> int | None:
    """The stream of the world's observer, from the answer to ``get_episode_info``."""
    match unpacked(result):
        case [[1, [_, [bytes() as token]]]] if len(token) == _TOKEN.size:
            return int(_TOKEN.unpack(token)[0])
    return None


@dataclass(frozen=True)
class StreamedState:
    """The state of all actors as it was sent."""

    frame: int
    elapsed_s: float
    delta_s: float
    episode: int
    flags: int
    rows: bytes
    digest: bytes


@dataclass(frozen=True)
class StreamedFrame:
    """What a sensor sent, by its digest."""

    sensor_type: int
    frame: int
    size_bytes: int
    digest: bytes


def _event_digest(body: bytes) -> bytes:
    """Name a collision or an obstacle: who met whom and how hard, without ids and tokens, which may differ in equal runs."""
    try:
        event = [
            [part[2], part[3][:3], part[4]] if isinstance(part, list) and len(part) == 6 else part for part in unpacked(body)
        ]
    except (SessionWireError, TypeError):
        event = []
    return hashlib.blake2b(msgpack.packb(event) if event else body, digest_size=LINK_BYTES).digest()


class StreamCutter:
    """Cuts what a server sends on a stream into messages; holds states whole, and of everything else a digest.

    ``world``: this is the stream of the world's observer, which before 0.9.16 had the number that a camera has since.
    """

    def __init__(self, *, world: bool = False) -> None:
        self._observers = (WORLD_OBSERVER, WORLD_OBSERVER - 1) if world else (WORLD_OBSERVER,)
        self._begin()

    def _begin(self) -> None:
        self._head = bytearray()  # the length and the header
        self._left = 0  # bytes of the payload that are still to come
        self._size = 0
        self._body = bytearray()
        self._digest = hashlib.blake2b(digest_size=LINK_BYTES)
        self._is_state = self._is_event = False

    def feed(self, data: bytes) -> Iterator[StreamedState | StreamedFrame]:
        """Add bytes; yield every message that is complete."""
        view = memoryview(data)
        while view:
            if len(self._head) < 4 + HEADER_BYTES:
                taken = view[: 4 + HEADER_BYTES - len(self._head)]
                self._head += taken
                view = view[len(taken) :]
                if len(self._head) == 4 + HEADER_BYTES:
                    self._open()
                else:
                    continue
            taken = view[: self._left]
            if self._is_state or self._is_event:
                self._body += taken
            self._digest.update(taken)
            self._left -= len(taken)
            view = view[len(taken) :]
            if self._left == 0:
                yield self._closed()

    def _open(self) -> None:
        self._size = int.from_bytes(self._head[:4], "little") - HEADER_BYTES
        if self._size < 0:
            raise SessionWireError(f"a stream's message of {self._size + HEADER_BYTES} bytes, which is less than its header")
        kind = _HEADER.unpack_from(self._head, 4)[0]
        self._is_state = kind in self._observers
        self._is_event = kind in _EVENTS and self._size <= _EVENT_BYTES_MOST
        whole = (self._size - _EPISODE.size) % ACTOR_STATE.itemsize == 0
        if self._is_state and not (_EPISODE.size <= self._size <= _STATE_BYTES_MOST and whole):
            raise SessionWireError(f"a state of {self._size} bytes, which is no whole number of actors")
        self._left = self._size

    def _closed(self) -> StreamedState | StreamedFrame:
        sensor_type, frame, elapsed_s = _HEADER.unpack_from(self._head, 4)
        if not self._is_state:
            digest = _event_digest(bytes(self._body)) if self._is_event else self._digest.digest()
            found = StreamedFrame(sensor_type, frame, self._size, digest)
            self._begin()
            return found
        episode, _, delta_s, *_, flags = _EPISODE.unpack_from(self._body)
        rows = bytes(self._body[_EPISODE.size :])
        digest = hashlib.blake2b(rows, digest_size=LINK_BYTES).digest()
        self._begin()
        return StreamedState(frame, elapsed_s, delta_s, episode, flags, rows, digest)
