"""The bytes of the link. Pure: frames in, letters out, and the other way round.

A letter is one frame: a head, where each part of the bulk lies, the message, and the small parts of the bulk themselves. Large
parts either follow as frames of their own or lie in shared memory, of which only the place is told. Every letter also says how
many letters of the other side its sender has read so far.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from samepath.sim.cluster.link.errors import MalformedError
from samepath.sim.cluster.link.limits import LinkLimits

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
