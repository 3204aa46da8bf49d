"""Shared memory between a main server and nodes on the same host.

Main makes every segment, as an unnamed file in memory (``memfd_create``): it is in no folder, needs no room in ``/dev/shm``,
and is gone when the last process that uses it is, however that process ended: there is nothing to clean up after a crash. A
node opens it through ``/proc/PID/fd``, which the kernel allows to processes of the same user on the same host only. It cannot
be shrunk or grown, so that nobody can pull memory away under another (that would be a SIGBUS); the broadcast segment can be
written by main alone.

The first page holds an identity, which main tells, and a nonce, which it does not: who knows the nonce has read the page. That
is how main learns that a node is on its host; addresses and host names lie in containers.

There is one **broadcast** segment, which main writes and all nodes read, and one **arena** per node, which the node writes and
main reads, and so may other nodes for which something in it is meant. One that is too small is replaced by the next generation,
never resized. Only copies are handed out, so a segment can be closed at any time without leaving views behind.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from samepath.cluster.link.wire import Buffer, Extent, LinkLimits, PartRef, SegmentOffer, SegmentReply, SegmentUse, Via

_PAGE: Final = 4096
_MAGIC: Final = b"samepath"
_ID_BYTES: Final = 16
_NAME: Final = "samepath-link"
_CACHE_LINE_BYTES: Final = 64  # no two parts share a cache line
_F_SEAL_FUTURE_WRITE: Final = 0x10  # not in Python's fcntl everywhere
_MIB: Final = 1 << 20


class Segment:
    """One shared mapping."""

    def __init__(self, memory: mmap.mmap, fd: int, size: int) -> None:
        self._memory = memory
        self._fd = fd
        self.size = size
        self.identity = memory[len(_MAGIC) : len(_MAGIC) + _ID_BYTES]
        self.nonce = memory[len(_MAGIC) + _ID_BYTES : len(_MAGIC) + 2 * _ID_BYTES]

    @classmethod
    def make(cls, size: int, *, nodes_write: bool) -> Self:
        """Main's side. All memory is taken at once, so that there is an OSError here rather than a SIGBUS later."""
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(fd, 0, _PAGE + size)
            memory = mmap.mmap(fd, _PAGE + size)
            memory[: len(_MAGIC) + 2 * _ID_BYTES] = _MAGIC + os.urandom(2 * _ID_BYTES)
            if not nodes_write:
                # Only mappings that exist already, ours, may write from here on.
                try:
                    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)
                except OSError as error:
                    if error.errno != errno.EINVAL:  # kernels before 5.1: nodes are trusted not to write to it
                        raise
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(fd)
            raise
        return cls(memory, fd, size)

    @classmethod
    def open(cls, offer: SegmentOffer, *, write: bool) -> Self:
        """A node's side; an OSError if the segment cannot be reached from here."""
        path = f"/proc/{offer.pid}/fd/{offer.fd}"
        # With another PID namespace this is somebody else's file: look before opening, and compare the identity after it.
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):  # noqa: PTH115 - a Path would follow the link
            raise OSError(errno.ENOENT, "the segment is not on this host")
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_size != _PAGE + offer.size:
                raise OSError(errno.EINVAL, "the segment has another size")
            memory = mmap.mmap(fd, _PAGE + offer.size, prot=mmap.PROT_READ | (mmap.PROT_WRITE if write else 0))
        finally:
            os.close(fd)
        segment = cls(memory, -1, offer.size)
        if memory[: len(_MAGIC)] != _MAGIC or segment.identity != offer.identity:
            segment.close()
            raise OSError(errno.ENOENT, "the segment is another one")
        return segment

    def offer(self, use: SegmentUse, generation: int) -> SegmentOffer:
        """How a node finds it."""
        return SegmentOffer(use, generation, os.getpid(), self._fd, self.size, self.identity)

    def write(self, offset: int, data: Buffer, length: int) -> None:
        """Copy in; the caller has seen to it that there is room."""
        self._memory[_PAGE + offset : _PAGE + offset + length] = data

    def read(self, offset: int, length: int) -> bytes | None:
        """Copy out; None for what is not within it, as a peer may say anything."""
        if offset + length > self.size:
            return None
        return self._memory[_PAGE + offset : _PAGE + offset + length]

    def close(self) -> None:
        self._memory.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RingAllocator:
    """Room in a segment, given out in a circle. Pure: it counts, and touches no memory.

    Positions only grow; a position's offset is its remainder by the capacity. What is reserved never wraps around the end.
    Room is reserved at the head and becomes free again from the tail, in the same order: readers acknowledge in order too.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.head = 0
        self.tail = 0

    def reserve(self, length: int) -> int | None:
        """The position of so much free room, or None if there is none."""
        if self.tail == self.head:  # empty: begin at the start again, where the memory is still in the cache
            self.head = self.tail = -(-self.head // self.capacity) * self.capacity
        offset = self.head % self.capacity
        start = self.head if offset + length <= self.capacity else self.head - offset + self.capacity
        if start + length - self.tail > self.capacity:
            return None
        self.head = start + length
        return start

    def release(self, position: int) -> None:
        """Everything before ``position`` has been read."""
        self.tail = min(max(self.tail, position), self.head)


class SegmentWriter:
    """A segment that this side writes to."""

    def __init__(self, segment: Segment, generation: int) -> None:
        self.segment = segment
        self.generation = generation
        self.ring = RingAllocator(segment.size)

    def store(self, data: Buffer, length: int) -> tuple[PartRef, Extent] | None:
        """Copy a part of the bulk in; None if there is no room for it now."""
        start = self.ring.reserve(-(-length // _CACHE_LINE_BYTES) * _CACHE_LINE_BYTES)
        if start is None:
            return None
        offset = start % self.ring.capacity
        self.segment.write(offset, data, length)
        return PartRef(Via.SHARED, self.generation, offset, length), Extent(self.generation, start, self.ring.head)


@dataclass(slots=True)
class PeerMemory:
    """Shared memory of one node, as main sees it.

    There are two arenas for a moment when one is replaced: results that the node wrote to the old one may still be under way.
    """

    name: str
    offered: tuple[int, bytes] = (-1, b"")  # the broadcast segment last offered: its generation, and the nonce to be proved
    broadcast: int = -1  # generation of the broadcast segment that the node has proved to read
    arenas: tuple[tuple[int, Segment], ...] = ()  # by generation
    neighbours: dict[int, bool] = field(default_factory=dict)  # generations of others' arenas that it was offered: open there?

    def find(self, reference: PartRef) -> Segment | None:
        """The arena that a part of the bulk lies in; None for what is not within one, as a peer may say anything."""
        for generation, segment in self.arenas:
            if generation == reference.generation and reference.offset + reference.length <= segment.size:
                return segment
        return None

    def fetch(self, reference: PartRef) -> bytes | None:
        """Copy a part of the bulk out of the arena it lies in."""
        segment = self.find(reference)
        return None if segment is None else segment.read(reference.offset, reference.length)

    @property
    def arena_bytes(self) -> int:
        """The size of the latest arena."""
        return self.arenas[-1][1].size if self.arenas else 0

    def drop(self, unwanted: Callable[[int], bool]) -> list[tuple[int, Segment]]:
        """Let go of the arenas of those generations; what was handed out of them may still be read, so they are not closed."""
        dropped = [arena for arena in self.arenas if unwanted(arena[0])]
        self.arenas = tuple(arena for arena in self.arenas if not unwanted(arena[0]))
        return dropped


class MainMemory:
    """Main's side: makes, replaces and frees segments. Where memory cannot be had, bulk goes over the wire; that is said once.

    ``in_use`` gives, for a generation of the broadcast segment, the positions from which on nodes may still read.
    """

    def __init__(self, limits: LinkLimits, in_use: Callable[[int], Iterable[int]], log: Callable[[str], None]) -> None:
        self._limits = limits
        self._in_use = in_use
        self._log = log
        self._said = False
        self._floor = 0
        self._short_of = 0
        self._arenas = 0
        segment = self._make(limits.broadcast_bytes, nodes_write=False)
        self._broadcast = SegmentWriter(segment, 0) if segment is not None else None

    def offer_broadcast(self, peer: PeerMemory) -> SegmentOffer | None:
        """Where a node finds the broadcast segment; what it should read there is kept to compare."""
        if self._broadcast is None:
            return None
        peer.offered = (self._broadcast.generation, self._broadcast.segment.nonce)
        return self._broadcast.segment.offer(SegmentUse.BROADCAST, self._broadcast.generation)

    def offer_arena(self, peer: PeerMemory, size: int = 0) -> SegmentOffer | None:
        """Make an arena for a node, larger than the last one; None if it is as large as may be or there is no memory."""
        size = power_of_two(max(size, 2 * peer.arena_bytes, self._limits.arena_bytes), self._limits.arena_bytes_max)
        if size <= peer.arena_bytes or len(peer.arenas) > 1:
            return None
        segment = self._make(size, nodes_write=True)
        if segment is None:
            return None
        self._arenas += 1
        peer.arenas = (*peer.arenas, (self._arenas, segment))
        return segment.offer(SegmentUse.ARENA, self._arenas)

    def offer_neighbour(self, reader: PeerMemory, writer: PeerMemory, generation: int) -> SegmentOffer | None:
        """Where a node finds an arena of another one; once for each."""
        if generation in reader.neighbours or reader.broadcast < 0:
            return None
        for known, segment in writer.arenas:
            if known == generation:
                reader.neighbours[generation] = False
                return segment.offer(SegmentUse.NEIGHBOUR, generation)
        return None

    def accept_arena(self, peer: PeerMemory, reply: SegmentReply) -> list[tuple[int, Segment]]:
        """A node says whether it could open an arena; returns those that are let go of."""
        if reply.use == SegmentUse.NEIGHBOUR:
            # Who names one that it was not offered, or that is gone, has only lost a way to be sent something.
            if reply.generation in peer.neighbours:
                peer.neighbours[reply.generation] = reply.opened
            return []
        if not reply.opened:
            return peer.drop(lambda generation: generation == reply.generation)
        if any(generation == reply.generation for generation, _ in peer.arenas):
            return peer.drop(lambda generation: generation < reply.generation)  # it writes to the new one from now on
        return []

    def accept(self, peer: PeerMemory, reply: SegmentReply) -> SegmentOffer | None:
        """A node says what it read in the broadcast segment: proof or not. Returns what to offer it next."""
        if self._broadcast is not None and peer.offered[0] != self._broadcast.generation:
            return self.offer_broadcast(peer)  # it was replaced while the node was looking for it
        if reply.generation != peer.offered[0]:
            return None  # about an older one
        if reply.opened and reply.nonce == peer.offered[1]:
            peer.broadcast = reply.generation
            return None if peer.arenas else self.offer_arena(peer)
        self._say(f"node {peer.name} is on another host or may not read this one's memory")
        return None

    def begin(self) -> None:
        """A packet is being written: what is stored from now on must stay, though no node is known to need it yet."""
        self._floor = self._broadcast.ring.head if self._broadcast is not None else 0

    def is_read_by(self, peer: PeerMemory) -> bool:
        """Has this node proved that it can read the broadcast segment as it is now?"""
        return self._broadcast is not None and peer.broadcast == self._broadcast.generation

    def store(self, data: Buffer, length: int) -> tuple[PartRef, Extent] | None:
        """Copy a part of the bulk into the broadcast segment; None if there is no room."""
        broadcast = self._broadcast
        if broadcast is None:
            return None
        found = broadcast.store(data, length)
        if found is None:
            # Looked at only when it is full: the slowest reader decides how much becomes free.
            broadcast.ring.release(min((self._floor, *self._in_use(broadcast.generation))))
            found = broadcast.store(data, length)
        if found is None:
            self._short_of = max(self._short_of, length)
        return found

    def grow(self) -> bool:
        """Replace the broadcast segment by a larger one if there was no room; nodes must be offered it before it is used.

        The old one is let go of at once: nodes that may have to read it have it open.
        """
        broadcast, wanted = self._broadcast, self._short_of
        self._short_of = 0
        if broadcast is None or not wanted:
            return False
        size = power_of_two(max(2 * broadcast.segment.size, 2 * wanted), self._limits.broadcast_bytes_max)
        if size <= broadcast.segment.size:
            return False
        segment = self._make(size, nodes_write=False)
        if segment is None:
            return False
        broadcast.segment.close()
        self._broadcast = SegmentWriter(segment, broadcast.generation + 1)
        return True

    def close(self) -> None:
        """Free the broadcast segment; the arenas go with their nodes."""
        if self._broadcast is not None:
            self._broadcast.segment.close()
            self._broadcast = None

    def _make(self, size: int, *, nodes_write: bool) -> Segment | None:
        try:
            return Segment.make(size, nodes_write=nodes_write)
        except OSError as error:
            self._say(f"{size} bytes of shared memory are not to be had ({error.strerror or error})")
            return None

    def _say(self, reason: str) -> None:
        if not self._said:
            self._said = True
            self._log(f"{reason}: images travel over the wire instead, which is slower")


def power_of_two(size: int, most: int) -> int:
    """The next power of two, bounded."""
    return min(1 << max(size - 1, 1).bit_length(), most)


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def hold_memory(kept_bytes: int = 1024 * _MIB) -> bool:
    """Let this process keep up to so much freed memory for itself; for the start of a main server or a node.

    The C library gives large blocks back to the kernel as soon as they are freed and gets them again, page by page, at the next
    tick. With eight images of 1440x960 a tick that takes several times as long as the copying. Returns whether the C library
    knows the setting; without it everything is the same, but slower.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 32 * _MIB) and mallopt(_M_TRIM_THRESHOLD, kept_bytes))
