"""Main's shared memory: one board that all nodes of this host read, and an arena for each of them to write to."""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from samepath.cluster.link.sockets import Account, Piece
from samepath.cluster.link.wire import (
    ARENA,
    BOARD,
    DATA,
    EMBEDDED,
    FRAME,
    SHARED,
    Answer,
    Buffer,
    Letter,
    LinkLimits,
    MalformedError,
    Offer,
    Place,
    TooLargeError,
    pack,
)

# Shared memory between a main server and nodes on the same host.
#
# Main makes every segment, as an unnamed file in memory (``memfd_create``): it is in no folder, needs no room in
# ``/dev/shm``, and is gone when the last process that uses it is, however that process ended. A node opens it through
# ``/proc/PID/fd``, which the kernel allows to processes of the same user on the same host only. It cannot be shrunk
# or grown, so that nobody can pull memory away under another; the board can be written by main alone.
#
# The first page holds an identity, which main tells, and a nonce, which it does not: who knows the nonce has read the
# page.

_PAGE: Final = 4096
_MAGIC: Final = b"samepath"
_ID_BYTES: Final = 16
_NAME: Final = "samepath-link"
_F_SEAL_FUTURE_WRITE: Final = 0x10  # not in Python's fcntl everywhere


class Segment:
    """A piece of shared memory. Only bytes are ever handed out, so that it can be closed at any time."""

    def __init__(self, memory: mmap.mmap, fd: int, size: int) -> None:
        self._memory = memory
        self._fd = fd
        self.size = size
        self.identity = memory[len(_MAGIC) : len(_MAGIC) + _ID_BYTES]
        self.nonce = memory[len(_MAGIC) + _ID_BYTES : len(_MAGIC) + 2 * _ID_BYTES]

    @classmethod
    def make(cls, size: int, *, nodes_write: bool) -> Self:
        """Main's side. All memory is taken at once, so that there is an OSError here rather than a fault later."""
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(fd, 0, _PAGE + size)
            memory = mmap.mmap(fd, _PAGE + size)
            memory[: len(_MAGIC) + 2 * _ID_BYTES] = _MAGIC + os.urandom(2 * _ID_BYTES)
            if not nodes_write:
                _seal_against_writing(fd)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(fd)
            raise
        return cls(memory, fd, size)

    @classmethod
    def open(cls, offer: Offer, *, write: bool) -> Self:
        """A node's side; an OSError if the segment cannot be reached from here."""
        path = f"/proc/{offer.pid}/fd/{offer.fd}"
        # With another PID namespace this is somebody else's file: look before opening, and compare the identity after it.
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):  # noqa: PTH115 - a Path has no business with it
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

    def offer(self, which: int, generation: int) -> Offer:
        """How a node finds it."""
        return Offer(which, generation, os.getpid(), self._fd, self.size, self.identity)

    def write(self, offset: int, data: bytes | memoryview, length: int) -> None:
        """Copy in; the caller has seen to it that there is room."""
        self._memory[_PAGE + offset : _PAGE + offset + length] = data

    def read(self, offset: int, length: int) -> bytes:
        """Copy out; the caller has checked the bounds."""
        return self._memory[_PAGE + offset : _PAGE + offset + length]

    def close(self) -> None:
        """Let go of it."""
        self._memory.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _seal_against_writing(fd: int) -> None:
    """Nobody but who has it in memory already can write to it."""
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # kernels before 5.1: nodes are trusted not to write to the board
            raise


# A node as its main server sees it: the connection, what waits for it, and the memory it writes its results to.


@dataclass(slots=True)
class Arena:
    """Shared memory that one node writes to and main reads."""

    segment: Segment
    generation: int


@dataclass(slots=True)
class Peer:
    """One connection of a node."""

    identity: bytes
    key: str
    fd: int
    line: socket.socket  # a second handle of the connection, to cut it
    account: Account
    wants_memory: bool
    proof: tuple[int, bytes] = (-1, b"")  # of the board last offered: generation and nonce
    board: int = -1  # generation of the board it is proved to read
    arenas: tuple[Arena, ...] = ()  # the last one, and the one before until the node has gone over
    malformed: int = 0

    def arena(self, generation: int) -> Segment | None:
        """The arena of that generation."""
        for one in self.arenas:
            if one.generation == generation:
                return one.segment
        return None

    def drop_arenas_before(self, generation: int) -> None:
        """Free what the node no longer writes to."""
        for one in self.arenas:
            if one.generation < generation:
                self.drop_arena(one.generation)

    def drop_arena(self, generation: int) -> None:
        """Free one that the node does not write to."""
        for one in self.arenas:
            if one.generation == generation:
                one.segment.close()
        self.arenas = tuple(one for one in self.arenas if one.generation != generation)

    def cut(self) -> None:
        """End the connection, for both sides, and free its memory."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        self.line.close()
        for one in self.arenas:
            one.segment.close()
        self.arenas = ()


def second_handle(fd: int) -> socket.socket:
    """Another handle of a connection whose first one belongs to ZeroMQ."""
    double = os.dup(fd)
    try:
        return socket.socket(fileno=double)
    except OSError:
        os.close(double)
        raise


# Room in shared memory, given out in a circle. Pure: it counts, and touches no memory.
#
# Positions only grow; a position's offset is its remainder by the capacity. A piece never wraps around the end.


class Ring:
    """Who may write where. Pieces are reserved at the head and become free again from the tail."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.head = 0
        self.tail = 0

    def reserve(self, length: int) -> int | None:
        """The position of a free piece, or None if there is none."""
        if self.tail == self.head:  # empty: begin at the start again, where the memory is still warm
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


# How bulk gets into a letter and out of it: within it, as frames behind it, or through shared memory.

_LINE_BYTES = 64  # no two pieces share a cache line


class Store:
    """A segment that this side writes to. A new generation replaces it when it is too small."""

    def __init__(self, segment: Segment, generation: int) -> None:
        self.segment = segment
        self.generation = generation
        self.ring = Ring(segment.size)

    def put(self, data: Buffer, length: int) -> tuple[Place, Piece] | None:
        """Copy a part of the bulk in; None if there is no room for it now."""
        start = self.ring.reserve(-(-length // _LINE_BYTES) * _LINE_BYTES)
        if start is None:
            return None
        offset = start % self.ring.capacity
        self.segment.write(offset, data, length)
        return Place(SHARED, self.generation, offset, length), Piece(self.generation, start, self.ring.head)


Put = Callable[[Buffer, int], tuple[Place, Piece] | None]


def compose(
    read: int, message: bytes, bulk: Sequence[Buffer], put: Put | None, limits: LinkLimits
) -> tuple[list[Buffer], int, Piece | None]:
    """The frames of a letter with bulk, its size in all, and the shared memory it refers to."""
    if len(message) > limits.message_bytes or len(bulk) > limits.bulk_parts:
        raise TooLargeError(
            f"a message of {len(message)} bytes with {len(bulk)} parts is beyond the limits of the link, "
            f"{limits.message_bytes} bytes and {limits.bulk_parts} parts"
        )
    # Looked at before anything is put into shared memory: what is refused leaves nothing behind.
    sizes = [len(part) if isinstance(part, bytes) else part.nbytes for part in bulk]
    if max(sizes, default=0) > limits.bulk_bytes:
        raise TooLargeError(f"a part of {max(sizes)} bytes is beyond the limit of the link, {limits.bulk_bytes} bytes")
    places: list[Place] = []
    embedded: list[Buffer] = []
    frames: list[Buffer] = []
    start, end, generation, size = -1, -1, 0, 0
    for part, length in zip(bulk, sizes, strict=True):
        size += length
        if length <= limits.embedded_bytes:
            places.append(Place(EMBEDDED, 0, 0, length))
            embedded.append(part)
            continue
        stored = put(part, length) if put is not None else None
        if stored is None:
            places.append(Place(FRAME, 0, 0, length))
            frames.append(part)
            continue
        place, piece = stored
        places.append(place)
        start, end, generation = piece.start if start < 0 else start, piece.end, piece.generation
    letter = pack(DATA, read, message, places, embedded)
    return [letter, *frames], size + len(letter), Piece(generation, start, end) if start >= 0 else None


def gather(letter: Letter, after: Sequence[bytes], find: Callable[[int], Segment | None]) -> tuple[tuple[bytes, ...], int]:
    """The bulk of a letter, copied out of the memory of its generation where it lies there; and how much lay there."""
    bulk: list[bytes] = []
    frames, embedded, shared_bytes = iter(after), iter(letter.embedded), 0
    for place in letter.places:
        if place.how == SHARED:
            segment = find(place.generation)
            if segment is None or place.offset + place.length > segment.size:
                raise MalformedError(f"memory that is not there: {place}")
            bulk.append(segment.read(place.offset, place.length))
            shared_bytes += place.length
            continue
        part = next(frames if place.how == FRAME else embedded)
        if len(part) != place.length:
            raise MalformedError(f"a part of {len(part)} bytes instead of {place.length}")
        bulk.append(part)
    return tuple(bulk), shared_bytes


class Memory:
    """Makes, replaces and frees segments. Where memory cannot be had, bulk goes over the wire, and that is said once."""

    def __init__(self, limits: LinkLimits, peers: Callable[[], Iterable[Peer]], log: Callable[[str], None]) -> None:
        self._limits = limits
        self._peers = peers
        self._log = log
        self._said = False
        self._floor = 0
        self._short_of = 0
        self._arenas = 0
        segment = self._make(limits.board_bytes, nodes_write=False)
        self._board = Store(segment, 0) if segment is not None else None

    def offer_board(self, peer: Peer) -> Offer | None:
        """Where a node finds the board; what it should read there is kept to compare."""
        if self._board is None:
            return None
        peer.proof = (self._board.generation, self._board.segment.nonce)
        return self._board.segment.offer(BOARD, self._board.generation)

    def offer_arena(self, peer: Peer, size: int = 0) -> Offer | None:
        """Make an arena for a node, larger than the last one; None if it is as large as may be or there is no memory."""
        last = peer.arenas[-1].segment.size if peer.arenas else 0
        size = power_of_two(max(size, 2 * last, self._limits.arena_bytes), self._limits.arena_bytes_max)
        if size <= last or len(peer.arenas) > 1:
            return None
        segment = self._make(size, nodes_write=True)
        if segment is None:
            return None
        self._arenas += 1
        peer.arenas = (*peer.arenas, Arena(segment, self._arenas))
        return segment.offer(ARENA, self._arenas)

    def accept(self, peer: Peer, answer: Answer) -> Offer | None:
        """A node says what it read in a segment: proof or not. Returns what to offer it next."""
        if answer.which == ARENA:
            if not answer.opened:
                peer.drop_arena(answer.generation)
            elif peer.arena(answer.generation) is not None:
                peer.drop_arenas_before(answer.generation)
            return None
        if self._board is not None and peer.proof[0] != self._board.generation:
            return self.offer_board(peer)  # it was replaced while the node was looking for it
        if answer.generation != peer.proof[0]:
            return None  # about an older one
        if answer.opened and answer.nonce == peer.proof[1]:
            peer.board = answer.generation
            return None if peer.arenas else self.offer_arena(peer)
        self._say(f"node {peer.identity.hex()[-8:]} is on another host or may not read this one's memory")
        return None

    def begin(self) -> None:
        """A letter is being written: what is put on the board from now on must stay, though no node is known to need it yet."""
        self._floor = self._board.ring.head if self._board is not None else 0

    def reads_board(self, peer: Peer) -> bool:
        """Has this node proved that it can read the board as it is now?"""
        return self._board is not None and peer.board == self._board.generation

    def put(self, data: Buffer, length: int) -> tuple[Place, Piece] | None:
        """Put a part of the bulk on the board; None if there is no room."""
        board = self._board
        if board is None:
            return None
        found = board.put(data, length)
        if found is None:
            starts = (peer.account.oldest(board.generation) for peer in self._peers())
            board.ring.release(min((self._floor, *(start for start in starts if start is not None))))
            found = board.put(data, length)
        if found is None:
            self._short_of = max(self._short_of, length)
        return found

    def grown(self) -> bool:
        """Make the board larger if there was no room on it; the nodes must be shown the new one before it is used for them.

        The old one is let go of at once: nodes that may have to read it have it open.
        """
        board, wanted = self._board, self._short_of
        self._short_of = 0
        if board is None or not wanted:
            return False
        size = power_of_two(max(2 * board.segment.size, 2 * wanted), self._limits.board_bytes_max)
        if size <= board.segment.size:
            return False
        segment = self._make(size, nodes_write=False)
        if segment is None:
            return False
        board.segment.close()
        self._board = Store(segment, board.generation + 1)
        return True

    def close(self) -> None:
        """Free the board; the arenas go with their nodes."""
        if self._board is not None:
            self._board.segment.close()
            self._board = None

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


# Keeping the memory of images that come and go with every tick.

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MIB: Final = 1 << 20


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
