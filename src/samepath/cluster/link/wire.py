"""The bytes of the link. Pure: frames in, letters out, and the other way round.

A letter is one frame: a head, where each part of the bulk lies, the message, and the small parts of the bulk themselves. Large
parts either follow as frames of their own or lie in shared memory, of which only the place is told. Every letter also says how
many letters of the other side its sender has read so far.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from samepath.core.errors import InputError, SamepathError

# What can go wrong between a main server and its nodes; each is one line.


class LinkError(SamepathError):
    """The link to a peer cannot be made or kept."""


class LinkRefusedError(LinkError):
    """The other side does not let us in, or is not who it should be."""


class LinkLostError(LinkError):
    """The main server has gone away, or has cut this node off."""


class PeerGoneError(LinkError):
    """A message for a peer that is not, or no longer, connected."""


class PeerStuckError(LinkError):
    """A peer that does not read: so much is waiting for it that nothing more is taken."""


class TooLargeError(LinkError):
    """A message that is larger than the link takes; nothing was sent, and the link is as it was."""


class MalformedError(Exception):
    """Bytes of an authenticated peer that are no message of this link. Never leaves the package."""


# Bounds of the link. Everything a peer can make grow is held by one of these numbers.

_MIB: Final = 1 << 20


@dataclass(frozen=True)
class LinkLimits:
    """How large messages may be, and how much may wait for a peer that does not read."""

    message_bytes: int = 16 * _MIB  # one message, its bulk not counted
    bulk_bytes: int = 64 * _MIB + (1 << 16)  # one part of the bulk: the largest picture that a server draws, and its head
    bulk_parts: int = 4096  # of one message
    embedded_bytes: int = 2048  # bulk up to this size travels within the message itself
    waiting_messages: int = 16_384  # sent and not known to be read
    waiting_bytes: int = 256 * _MIB  # the same in bytes, those in shared memory included
    board_bytes: int = 1 * _MIB  # of shared memory for all nodes at first
    board_bytes_max: int = 64 * _MIB  # then bulk travels over the wire
    arena_bytes: int = 4 * _MIB  # of shared memory for one node's results at first
    arena_bytes_max: int = 256 * _MIB
    messages_per_poll: int = 1024
    report_messages: int = 256  # say what has been read after so many messages at the latest
    connect_s: float = 30.0  # for a node to find its main server
    stuck_s: float = 60.0  # for a node to wait until its main server reads

    @property
    def frame_bytes(self) -> int:
        """The longest frame: a part of the bulk, or a message with all its small parts."""
        return max(self.bulk_bytes, self.message_bytes + self.bulk_parts * (self.embedded_bytes + 32) + 64)


VERSION: Final = 1
DATA, HELLO, REPORT, MAP, MAPPED, WANT, REFUSED = range(7)
EMBEDDED, FRAME, SHARED = range(3)
BOARD, ARENA = range(2)
GREETING: Final = b"samepath link"
IDENTITY_BYTES: Final = 16

_HEAD: Final = struct.Struct("<BBHQ")  # version, kind, parts of the bulk, letters read
_PLACE: Final = struct.Struct("<BIQQ")  # how, generation, offset, length
_HELLO: Final = struct.Struct("<13sB")
_MAP: Final = struct.Struct("<BIIIQ16s")
_MAPPED: Final = struct.Struct("<BIB16s")
_WANT: Final = struct.Struct("<Q")


Buffer = bytes | memoryview


class Place(NamedTuple):
    """Where a part of the bulk is."""

    how: int
    generation: int
    offset: int
    length: int


class Letter(NamedTuple):
    """A letter, taken apart; ``embedded`` holds the small parts in their order."""

    kind: int
    read: int
    message: bytes
    places: tuple[Place, ...]
    embedded: tuple[bytes, ...]


@dataclass(frozen=True)
class Offer:
    """A segment of shared memory that main has made, and how a process of this host finds it."""

    which: int
    generation: int
    pid: int
    fd: int
    size: int
    identity: bytes


@dataclass(frozen=True)
class Answer:
    """What a node read in the segment: the proof that it is on the same host. Nothing if it could not."""

    which: int
    generation: int
    opened: bool
    nonce: bytes


def pack(kind: int, read: int, message: bytes, places: Sequence[Place] = (), embedded: Sequence[Buffer] = ()) -> bytes:
    """One letter as one frame."""
    head = _HEAD.pack(VERSION, kind, len(places), read)
    if not places:
        return head + message
    return b"".join((head, *(_PLACE.pack(*place) for place in places), message, *embedded))


def unpack(frame: bytes, frames_after: int, limits: LinkLimits) -> Letter:
    """Take a letter apart; anything but a letter is a MalformedError."""
    if len(frame) < _HEAD.size:
        raise MalformedError(f"{len(frame)} bytes are no letter")
    version, kind, count, read = _HEAD.unpack_from(frame)
    if version != VERSION or kind > REFUSED:
        raise MalformedError(f"version {version}, kind {kind}")
    if not count:
        if frames_after:
            raise MalformedError(f"{frames_after} frames too many")
        return _within(Letter(kind, read, frame[_HEAD.size :], (), ()), limits)
    start = _HEAD.size + count * _PLACE.size
    if len(frame) < start or count > limits.bulk_parts:
        raise MalformedError(f"{count} parts in {len(frame)} bytes")
    places = tuple(Place._make(fields) for fields in _PLACE.iter_unpack(frame[_HEAD.size : start]))
    if max(places)[0] > SHARED or max(place.length for place in places) > limits.bulk_bytes:
        raise MalformedError("a part of an unknown kind, or too large")
    if sum(place.how == FRAME for place in places) != frames_after:
        raise MalformedError(f"{frames_after} frames follow")
    at = len(frame) - sum(place.length for place in places if place.how == EMBEDDED)
    if at < start:
        raise MalformedError("parts longer than the letter")
    message, embedded = frame[start:at], []
    for place in places:
        if place.how == EMBEDDED:
            embedded.append(frame[at : at + place.length])
            at += place.length
    return _within(Letter(kind, read, message, places, tuple(embedded)), limits)


def _within(letter: Letter, limits: LinkLimits) -> Letter:
    if len(letter.message) > limits.message_bytes:
        raise MalformedError(f"a message of {len(letter.message)} bytes")
    return letter


def pack_hello(*, shared_memory: bool) -> bytes:
    """The first letter of a node."""
    return _HELLO.pack(GREETING, shared_memory)


def unpack_hello(letter: Letter) -> bool:
    """Whether the node wants shared memory."""
    greeting, shared = _unpacked(_HELLO, letter.message)
    if letter.kind != HELLO or greeting != GREETING:
        raise MalformedError("no greeting")
    return bool(shared)


def pack_offer(offer: Offer) -> bytes:
    """Where a segment is to be found."""
    return _MAP.pack(offer.which, offer.generation, offer.pid, offer.fd, offer.size, offer.identity)


def unpack_offer(message: bytes) -> Offer:
    """The same, read."""
    return Offer(*_unpacked(_MAP, message))


def pack_answer(answer: Answer) -> bytes:
    """What came of an offer."""
    return _MAPPED.pack(answer.which, answer.generation, answer.opened, answer.nonce)


def unpack_answer(message: bytes) -> Answer:
    """The same, read."""
    which, generation, opened, nonce = _unpacked(_MAPPED, message)
    return Answer(which, generation, bool(opened), nonce)


def pack_want(size: int) -> bytes:
    """A node wants so many bytes of shared memory."""
    return _WANT.pack(size)


def unpack_want(message: bytes) -> int:
    """The same, read."""
    return int(_unpacked(_WANT, message)[0])


def _unpacked(form: struct.Struct, message: bytes) -> tuple[Any, ...]:
    if len(message) != form.size:
        raise MalformedError(f"{len(message)} bytes instead of {form.size}")
    return form.unpack(message)


# What a link reports when it is polled.


@dataclass(frozen=True, slots=True)
class Received:
    """A message. The bulk was copied out of shared memory or off the wire: it may be kept as long as one likes."""

    peer: bytes
    message: bytes
    bulk: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Woken:
    """Another thread has called ``wake``, once or more often."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A watched file descriptor can be read."""

    key: object


@dataclass(frozen=True, slots=True)
class Gone:
    """The connection to a peer has ended. It comes after the last message of that peer, once, and the peer is forgotten."""

    peer: bytes


@dataclass(slots=True)
class LinkCounts:
    """What has gone over a main server's link so far; for status and metrics."""

    sent: int = 0
    received: int = 0
    shared_bytes: int = 0  # bulk of nodes that came through shared memory
    wire_bytes: int = 0  # everything of nodes that came over the wire
    dropped: int = 0  # messages of forgotten or unknown peers
    malformed: int = 0


Event = Received | Woken | Ready | Gone


# What the cluster needs beside samepath itself.

try:
    import zmq
except ImportError:
    raise InputError("the cluster needs pyzmq, which is not installed: pip install 'samepath[cluster]'") from None

__all__ = ["zmq"]
