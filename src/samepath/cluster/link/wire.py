"""The link between a main server and its nodes, as bytes and counts. Pure: no socket, no memory, no clock.

What the link guarantees, and where:

* **Order.** Messages of one sender arrive in the order in which they were sent (one TCP connection, one ZeroMQ pipe), however
  their bulk travels: a packet is handed out only once all of its bulk is there.
* **Loss.** Nothing is lost while a connection lives. A connection is never resumed: when it ends, both sides are told after the
  last message that arrived, and whatever was under way is gone. So a node that reconnects is a new node, and the scheduler
  gives what was lost to another.
* **Limits.** Everything that a peer could make grow has a bound in :class:`LinkLimits`. A sender counts what its peer has not
  read (:class:`FlowControl`); main never waits for a node, it fails the send instead.
* **Shared memory.** On one host bulk is written once into a memory segment and only its place is sent. A place is reused when
  every reader has acknowledged the packet that named it, never earlier.
* **From node to node.** What a node wrote for another node of the same host stays where it is: main passes on its place
  (:class:`ArenaPart`), and acknowledges the packet that brought it only when the other node has read it (:class:`Lease`). So
  the order is main's, and the bytes never pass through main.
* **Pipes.** On one host packets go through a pair of pipes rather than ZeroMQ's own threads and sockets (``channel.py``). What
  does not fit into one goes over ZeroMQ, and a mark in the pipe says where it belongs: there is one order of all packets.

A **packet** is one ZeroMQ frame: a header, one :class:`PartRef` for each part of the bulk, the message, and the small parts of
the bulk. Large parts follow as frames of their own or lie in shared memory. Every header also acknowledges: it says how many
packets of the other side its sender has read.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, NamedTuple, Protocol, TypeVar

from samepath.cluster.link.compression import PackedError, PackedPart
from samepath.core.errors import InputError, SamepathError

try:
    import lz4.block  # noqa: F401 - for the link's compression: one that is missing is told here, not at the first frame
    import msgspec
    import zmq
except ImportError as error:
    _missing = "pyzmq" if error.name == "zmq" else error.name
    raise InputError(f"the cluster needs {_missing}, which is not installed: pip install 'samepath[cluster]'") from None

__all__ = ["msgspec", "zmq"]

_MIB: Final = 1 << 20


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
    """Bytes of an authenticated peer that are no packet of this link. Never leaves the package."""


@dataclass(frozen=True)
class LinkLimits:
    """How large messages may be, and how much may wait for a peer that does not read."""

    message_bytes: int = 16 * _MIB  # one message, its bulk not counted
    bulk_bytes: int = 64 * _MIB  # one part of the bulk; a cluster derives it from what its server allows (``link_limits``)
    bulk_parts: int = 4096  # of one message
    inline_bytes: int = 2048  # bulk up to this size travels within the packet: a frame of its own would cost more
    waiting_messages: int = 16_384  # sent and not known to be read
    waiting_bytes: int = 256 * _MIB  # the same in bytes, those in shared memory included
    broadcast_bytes: int = 1 * _MIB  # of shared memory that all nodes read, at first; it grows when something does not fit
    broadcast_bytes_max: int = 64 * _MIB  # then bulk travels over the wire
    arena_bytes: int = 4 * _MIB  # of shared memory for one node's results at first
    arena_bytes_max: int = 256 * _MIB
    messages_per_poll: int = 1024  # so that one talkative node cannot keep main from everybody else
    ack_messages: int = 256  # acknowledge after so many messages at the latest
    connect_s: float = 30.0  # for a node to find its main server
    stuck_s: float = 60.0  # for a node to wait until its main server reads

    @property
    def frame_bytes(self) -> int:
        """The longest frame: a part of the bulk, or a message with all its small parts."""
        return max(self.bulk_bytes, self.message_bytes + self.bulk_parts * (self.inline_bytes + 32) + 64)


@dataclass(frozen=True, slots=True)
class Received:
    """A message. The bulk was copied out of shared memory or off the wire: it may be kept as long as one likes."""

    peer: bytes
    message: bytes
    bulk: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceivedInPlace:
    """The same, with large parts of the bulk left as they are: where the node wrote them, until the next poll, or packed."""

    peer: bytes
    message: bytes
    bulk: "tuple[bytes | ArenaPart | PackedPart, ...]" = ()


@dataclass(frozen=True, slots=True)
class Woken:
    """Another thread has called ``wake``, once or more often."""


@dataclass(frozen=True, slots=True)
class Readable:
    """A watched file descriptor can be read."""

    key: object


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to a peer has ended. It comes after the last message of that peer, once, and the peer is forgotten."""

    peer: bytes


LinkEvent = Received | ReceivedInPlace | Woken | Readable | Disconnected


@dataclass(slots=True)
class LinkCounts:
    """What has gone over a main server's link so far; for status and metrics."""

    sent: int = 0
    received: int = 0
    shared_bytes: int = 0  # bulk of nodes that came through shared memory
    passed_bytes: int = 0  # of that what other nodes read where it lay, and never came here
    wire_bytes: int = 0  # everything of nodes that came over the wire
    dropped: int = 0  # messages of disconnected or unknown peers
    malformed: int = 0


# Raised whenever a packet or one of the control messages below changes. It is the first byte of every packet, so that two
# versions can at least tell each other why they do not talk.
VERSION: Final = 4
IDENTITY_BYTES: Final = 16

Buffer = bytes | memoryview


class PacketKind(IntEnum):
    """What a packet is for; all but DATA are between the two links and carry one of the control messages below."""

    DATA = 0
    HELLO = 1  # a node's first packet
    ACK = 2  # nothing but the header's count of packets read
    MAP = 3  # main offers a segment of shared memory
    MAPPED = 4  # the node's reply to the offer
    GROW = 5  # the node wants a larger arena
    REFUSED = 6  # main speaks another version
    UNMAP = 7  # main: an arena that another node wrote is not named any more
    PIPES = 8  # main offers a pair of pipes
    PIPED = 9  # the sender's last packet that is not in the pipe's order; a node's says whether it could open the pipes


class Via(IntEnum):
    """How a part of the bulk travels."""

    INLINE = 0
    FRAME = 1
    SHARED = 2
    NEIGHBOUR = 3  # in the arena of another node of this host; only main says so
    PACKED = 4  # compressed, in a frame of its own; the generation is the codec, the offset the size of what it contains


class PartRef(NamedTuple):
    """Where a part of the bulk is; generation and offset count for shared memory only."""

    via: int
    generation: int
    offset: int
    length: int


class Extent(NamedTuple):
    """Shared memory that a packet refers to, from its first position to behind its last; positions only grow."""

    generation: int
    start: int
    end: int


class Packet(NamedTuple):
    """A packet, taken apart; ``inline`` holds the small parts of the bulk in their order."""

    kind: int
    read: int
    message: bytes
    parts: tuple[PartRef, ...]
    inline: tuple[bytes, ...]


_HEADER: Final = struct.Struct("<BBHQ")  # version, kind, parts of the bulk, packets read
_PART: Final = struct.Struct("<BIQQ")


def pack(kind: int, read: int, message: bytes, parts: Sequence[PartRef] = (), inline: Sequence[Buffer] = ()) -> bytes:
    """One packet as one frame."""
    header = _HEADER.pack(VERSION, kind, len(parts), read)
    if not parts:
        return header + message
    return b"".join((header, *(_PART.pack(*part) for part in parts), message, *inline))


def unpack(frame: bytes, frames_after: int, limits: LinkLimits) -> Packet:
    """Take a packet apart; anything but a packet is a MalformedError."""
    if len(frame) < _HEADER.size:
        raise MalformedError(f"{len(frame)} bytes are no packet")
    version, kind, count, read = _HEADER.unpack_from(frame)
    if version != VERSION or kind > PacketKind.PIPED:
        raise MalformedError(f"version {version}, kind {kind}")
    start = _HEADER.size + count * _PART.size
    if len(frame) < start or count > limits.bulk_parts:
        raise MalformedError(f"{count} parts in {len(frame)} bytes")
    parts = tuple(PartRef._make(fields) for fields in _PART.iter_unpack(frame[_HEADER.size : start])) if count else ()
    if any(part.via > Via.PACKED or part.length > limits.bulk_bytes for part in parts):
        raise MalformedError("a part of an unknown kind, or too large")
    if any(part.via == Via.PACKED and part.offset > limits.bulk_bytes for part in parts):
        raise MalformedError("a part that is too large when it is unpacked")
    if sum(part.via in {Via.FRAME, Via.PACKED} for part in parts) != frames_after:
        raise MalformedError(f"{frames_after} frames follow")
    # The message has no length of its own: it is what lies between the references and the inline parts.
    at = len(frame) - sum(part.length for part in parts if part.via == Via.INLINE)
    if not 0 <= at - start <= limits.message_bytes:
        raise MalformedError(f"a message of {at - start} bytes")
    message, inline = frame[start:at], []
    for part in parts:
        if part.via == Via.INLINE:
            inline.append(frame[at : at + part.length])
            at += part.length
    return Packet(kind, read, message, parts, tuple(inline))


def check_sizes(message: bytes, bulk: "Sequence[Buffer | ArenaPart | PackedPart]", limits: LinkLimits) -> list[int]:
    """The sizes of the parts of the bulk; a TooLargeError for what the link does not take."""
    if len(message) > limits.message_bytes or len(bulk) > limits.bulk_parts:
        raise TooLargeError(
            f"a message of {len(message)} bytes with {len(bulk)} parts is beyond the limits of the link, "
            f"{limits.message_bytes} bytes and {limits.bulk_parts} parts"
        )
    sizes = [part.nbytes if isinstance(part, memoryview) else len(part) for part in bulk]
    if max(sizes, default=0) > limits.bulk_bytes:
        raise TooLargeError(f"a part of {max(sizes)} bytes is beyond the limit of the link, {limits.bulk_bytes} bytes")
    return sizes


def pack_bulk(
    read: int,
    message: bytes,
    bulk: "Sequence[Buffer | ArenaPart | PackedPart]",
    store: Callable[[Buffer, int], tuple[PartRef, Extent] | None] | None,
    limits: LinkLimits,
    neighbours: "Callable[[ArenaPart], bool] | None" = None,
) -> tuple[list[Buffer], int, Extent | None]:
    """The frames of a DATA packet, its size in all, and the shared memory it refers to.

    ``store`` copies a part into shared memory, or returns None where there is no room; then the part goes over the wire.
    ``neighbours`` says whether the receiver can read a part of another node's arena where it lies.
    """
    # Looked at before anything is put into shared memory: what is refused leaves nothing behind.
    sizes = check_sizes(message, bulk, limits)
    parts: list[PartRef] = []
    inline: list[Buffer] = []
    frames: list[Buffer] = []
    start, end, generation = -1, -1, 0
    for number, (part, length) in enumerate(zip(bulk, sizes, strict=True)):
        if isinstance(part, PackedPart):
            sizes[number] = len(part.data)
            parts.append(PartRef(Via.PACKED, part.codec, part.length, len(part.data)))
            frames.append(part.data)
            continue
        if length <= limits.inline_bytes:
            parts.append(PartRef(Via.INLINE, 0, 0, length))
            inline.append(part.read() if isinstance(part, ArenaPart) else part)
            continue
        if isinstance(part, ArenaPart):
            if neighbours is not None and neighbours(part):
                parts.append(part.reference._replace(via=Via.NEIGHBOUR))
                continue
            part = part.read()  # noqa: PLW2901 - the same bytes
        stored = store(part, length) if store is not None else None
        if stored is None:
            parts.append(PartRef(Via.FRAME, 0, 0, length))
            frames.append(part)
            continue
        reference, extent = stored
        parts.append(reference)
        start, end, generation = extent.start if start < 0 else start, extent.end, extent.generation
    first = pack(PacketKind.DATA, read, message, parts, inline)
    return [first, *frames], sum(sizes) + len(first), Extent(generation, start, end) if start >= 0 else None


_P = TypeVar("_P")


def unpack_bulk(
    packet: Packet, after: Sequence[bytes], fetch: Callable[[PartRef], _P | None]
) -> tuple[tuple[bytes | PackedPart | _P, ...], int]:
    """The bulk of a packet, and how much of it came through shared memory, which ``fetch`` reads (None: it is not there)."""
    bulk: list[bytes | PackedPart | _P] = []
    frames, inline, shared_bytes = iter(after), iter(packet.inline), 0
    part: bytes | _P | None
    for reference in packet.parts:
        if reference.via == Via.PACKED:
            data = next(frames)
            if len(data) != reference.length:
                raise MalformedError(f"a part of {len(data)} bytes instead of {reference.length}")
            bulk.append(PackedPart(data, reference.generation, reference.offset))
            continue
        if reference.via >= Via.SHARED:
            part = fetch(reference)
            if part is None:
                raise MalformedError(f"memory that is not there: {reference}")
            shared_bytes += reference.length
        else:
            part = next(frames if reference.via == Via.FRAME else inline)
            if len(part) != reference.length:
                raise MalformedError(f"a part of {len(part)} bytes instead of {reference.length}")
        bulk.append(part)
    return tuple(bulk), shared_bytes


def read_parts(bulk: Iterable[bytes | PackedPart]) -> tuple[bytes, ...]:
    """The bulk with packed parts unpacked; a MalformedError for one that is not what it says."""
    try:
        return tuple(part.read() if isinstance(part, PackedPart) else part for part in bulk)
    except PackedError as error:
        raise MalformedError(str(error)) from None


class SegmentUse(IntEnum):
    """A segment is either the one that main writes for all nodes of its host, or the one that a single node writes.

    A node may also read the arena that another one writes, its neighbour's.
    """

    BROADCAST = 0
    ARENA = 1
    NEIGHBOUR = 2


_Generation = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Key = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]


class _Control(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message between the two links themselves; types and bounds are checked as it is read."""


class LinkHello(_Control, frozen=True, tag="samepath link"):
    """A node's first message; the tag keeps out whoever speaks ZeroMQ and CURVE but is no node."""

    shared_memory: bool


class SegmentOffer(_Control, frozen=True):
    """A segment that main has made, and how a process of this host finds it."""

    use: SegmentUse
    generation: _Generation
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    fd: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    size: Annotated[int, msgspec.Meta(ge=0, le=2**48)]
    identity: _Key


class SegmentReply(_Control, frozen=True):
    """What a node read in the segment: the proof that it is on the same host. Zeros if it could not open it."""

    use: SegmentUse
    generation: _Generation
    opened: bool
    nonce: _Key


class GrowRequest(_Control, frozen=True):
    """A node wants an arena of so many bytes."""

    size: Annotated[int, msgspec.Meta(ge=0, le=2**48)]


class Unmap(_Control, frozen=True):
    """A neighbour's arena that will not be named any more."""

    generation: _Generation


_Descriptor = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class PipesOffer(_Control, frozen=True):
    """Two pipes that main has made, and how a process of this host finds them: the node reads ``down`` and writes ``up``."""

    pid: _Descriptor
    down: _Descriptor
    up: _Descriptor
    names: tuple[Annotated[str, msgspec.Meta(max_length=64)], Annotated[str, msgspec.Meta(max_length=64)]]


class PipesReply(_Control, frozen=True):
    """Whether a node has opened the pipes."""

    opened: bool


_C = TypeVar("_C", bound=_Control)


def pack_control(message: _Control) -> bytes:
    """A control message as bytes."""
    return msgspec.msgpack.encode(message)


def unpack_control(kind: type[_C], data: bytes) -> _C:
    """The control message of that kind; anything else is a MalformedError."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except ValueError as error:  # of msgspec, and of text that is no UTF-8
        raise MalformedError(f"no {kind.__name__}: {error}") from None


class Lease:
    """A packet that was read but is not acknowledged: parts of its bulk are still read where they lie, by so many."""

    __slots__ = ("_flow", "_holders", "_number")

    def __init__(self, flow: "FlowControl", number: int) -> None:
        self._flow = flow
        self._number = number
        self._holders = 1

    def hold(self) -> None:
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._flow.on_released(self._number)


class SharedSegment(Protocol):
    """Memory that another process writes."""

    def read(self, offset: int, length: int) -> bytes | None: ...


class ArenaPart:
    """A part of the bulk where its node wrote it. It stays there until its lease has ended."""

    __slots__ = ("_segment", "lease", "reference")

    def __init__(self, reference: PartRef, segment: SharedSegment, lease: Lease) -> None:
        self.reference = reference
        self.lease = lease
        self._segment = segment

    def __len__(self) -> int:
        return self.reference.length

    def read(self) -> bytes:
        """A copy of it."""
        found = self._segment.read(self.reference.offset, self.reference.length)
        if found is None:
            raise ValueError(f"a part that is not within its arena: {self.reference}")
        return found


class FlowControl:
    """Packets sent to one peer and not known to be read, and packets of that peer not acknowledged yet.

    Each side counts the packets it has sent; the header of every packet that comes back says how many of them were read. So
    both know what is under way, however ZeroMQ and the kernel buffer it, and when shared memory may be used again. Counting
    packets rather than bytes in ZeroMQ's own queues is what lets main give up on a frozen node instead of blocking on it.
    """

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._sizes: deque[int] = deque()
        self._extents: deque[tuple[int, Extent]] = deque()
        self.waiting_bytes = 0
        self.sent = 0
        self.received = 0
        self._acknowledged = 0
        self._unacknowledged_bytes = 0
        self._held: dict[int, None] = {}  # packets that were read and are not done with, in their order
        self._lent: deque[tuple[int, Lease]] = deque()  # by packets sent, what its reader may be reading elsewhere

    @property
    def read(self) -> int:
        """How many packets of the peer are read and done with: what the next header acknowledges."""
        return next(iter(self._held)) - 1 if self._held else self.received

    def lease(self) -> Lease:
        """Hold the packet that is being read: it is acknowledged when the lease has ended."""
        number = self.received + 1
        self._held[number] = None
        return Lease(self, number)

    def on_released(self, number: int) -> None:
        self._held.pop(number, None)

    @property
    def waiting(self) -> int:
        """Packets that were sent and are not known to be read."""
        return len(self._sizes)

    def is_full(self) -> bool:
        """Is so much waiting that nothing more should be sent?"""
        return self.waiting >= self._limits.waiting_messages or self.waiting_bytes >= self._limits.waiting_bytes

    def on_sent(self, size: int, extent: Extent | None, leases: Sequence[Lease] = ()) -> None:
        """A packet was sent; its header has acknowledged all that was read. ``leases`` end when the peer has read it."""
        self.sent += 1
        for lease in leases:
            lease.hold()
            self._lent.append((self.sent, lease))
        self.waiting_bytes += size
        self._sizes.append(size)
        if extent is not None:
            self._extents.append((self.sent, extent))
        self._acknowledged = self.read
        if not self._held:
            self._unacknowledged_bytes = 0

    def on_read_by_peer(self, read: int) -> Extent | None:
        """The peer has read so many packets in all; returns the last extent of memory that this sets free."""
        before = self.sent - len(self._sizes)
        if not before <= read <= self.sent:
            raise MalformedError(f"{read} packets read of {self.sent}, after {before}")
        for _ in range(read - before):
            self.waiting_bytes -= self._sizes.popleft()
        freed = None
        while self._extents and self._extents[0][0] <= read:
            freed = self._extents.popleft()[1]
        while self._lent and self._lent[0][0] <= read:
            self._lent.popleft()[1].release()
        return freed

    def end(self) -> None:
        """The peer is gone: it reads nothing any more."""
        while self._lent:
            self._lent.popleft()[1].release()

    def oldest(self, generation: int) -> int | None:
        """Where the oldest memory of a generation begins that this peer may still read."""
        return next((extent.start for _, extent in self._extents if extent.generation == generation), None)

    def on_received(self, size: int) -> None:
        """A packet of the peer has been read."""
        self.received += 1
        self._unacknowledged_bytes += size

    def owes_ack(self, memory_bytes: int) -> bool:
        """Has so much been read, and nothing sent since, that the peer must be told before it runs out of memory?

        A quarter of its memory: late enough to cost nothing, early enough that it never has to wait.
        """
        if self.read <= self._acknowledged:
            return False  # there is nothing to tell
        if self.read - self._acknowledged >= self._limits.ack_messages:
            return True
        return self._unacknowledged_bytes >= max(memory_bytes, self._limits.broadcast_bytes) // 4
