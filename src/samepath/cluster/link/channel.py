"""Packets through a pair of pipes between two processes of one host.

ZeroMQ hands every message from the sender's thread to a thread of its own, through a TCP socket with encryption to a second
one, and from there to the reader: three wake-ups for a few hundred bytes, which is most of what a tick in lockstep costs. A
pipe is one: the sender writes, the reader wakes. It is used once a node has proved that it is on main's host (``memory.py``);
connections, keys and ends of connections stay ZeroMQ's, and so do packets that are too long for a pipe.

Main makes the pipes; the node opens them through ``/proc/PID/fd``, which the kernel allows to processes of the same user on the
same host only. A packet is written at once or not at all (POSIX: up to ``PIPE_BUF`` bytes), behind its length. A length of 0 is
a *mark*: the packet in this place comes over ZeroMQ. So there is one order of all packets, the pipe's, and both sides know it.
What a full pipe does not take waits here; how much that may be is bounded by :class:`~samepath.cluster.link.wire.FlowControl`.
"""

import fcntl
import os
import select
import struct
from collections import deque
from contextlib import suppress
from typing import Final

from samepath.cluster.link.wire import MalformedError, PipesOffer
from samepath.core.clock import SYSTEM_CLOCK

_LENGTH: Final = struct.Struct("<I")
PACKET_MOST: Final = select.PIPE_BUF - _LENGTH.size
"""The longest packet that is written in one piece."""
_READ_BYTES: Final = 1 << 18
_MARK: Final = _LENGTH.pack(0)


class PipeChannel:
    """One side's ends of the two pipes. ``read_fd`` is -1 once the other side is gone."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self._write_fd = write_fd
        self._came: deque[bytes] = deque()
        self._rest = b""
        self._unsent: deque[bytes] = deque()

    @property
    def has_unsent(self) -> bool:
        """Does something wait because the pipe is full?"""
        return bool(self._unsent)

    def put(self, packet: bytes) -> None:
        """Send a packet of at most PACKET_MOST bytes."""
        self._put(_LENGTH.pack(len(packet)) + packet)

    def put_mark(self) -> None:
        """Say that the packet in this place comes over ZeroMQ."""
        self._put(_MARK)

    def _put(self, data: bytes) -> None:
        if self._unsent or not self._write(data):
            self._unsent.append(data)

    def _write(self, data: bytes) -> bool:
        try:
            os.write(self._write_fd, data)
        except BlockingIOError:
            return False
        except BrokenPipeError:
            pass  # the other side is gone, which ZeroMQ reports; nobody will read this
        return True

    def flush(self) -> None:
        """Send what waits, as far as it goes."""
        while self._unsent and self._write(self._unsent[0]):
            self._unsent.popleft()

    def take(self) -> bytes | None:
        """The next packet that has come; empty for a mark, None if there is none."""
        if not self._came:
            self._read()
        return self._came.popleft() if self._came else None

    def put_back_mark(self) -> None:
        """What the mark stands for is not here yet."""
        self._came.appendleft(b"")

    def _read(self) -> None:
        if self.read_fd < 0:
            return
        try:
            data = os.read(self.read_fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close_read()
            return
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        while size - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, at)
            if length > PACKET_MOST:
                self._close_read()
                raise MalformedError(f"a packet of {length} bytes in a pipe")
            end = at + _LENGTH.size + length
            if end > size:
                break
            self._came.append(data[at + _LENGTH.size : end])
            at = end
        self._rest = data[at:]

    def _close_read(self) -> None:
        if self.read_fd >= 0:
            os.close(self.read_fd)
            self.read_fd = -1

    def close(self, linger_s: float = 0.0) -> None:
        """Close both ends; what waits is given so long to leave."""
        end_s = SYSTEM_CLOCK.monotonic_s() + linger_s
        self.flush()
        while self._unsent and (left_s := end_s - SYSTEM_CLOCK.monotonic_s()) > 0.0:
            room = select.poll()
            room.register(self._write_fd, select.POLLOUT)
            room.poll(1000.0 * left_s)
            self.flush()
        self._unsent.clear()
        self._close_read()
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1


class OfferedPipes:
    """Main's side until the node has opened its ends: all four are open here, or there would be nothing to be opened."""

    def __init__(self) -> None:
        self._down = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._up = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except BaseException:
            self._close(*self._down)
            raise
        for fd in (self._down[0], self._up[0]):
            with suppress(OSError):  # beyond what a user may have in pipes they stay as they are, and more waits outside
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _READ_BYTES)

    def offer(self) -> PipesOffer:
        """How a node finds its ends."""
        down, up = self._down[0], self._up[1]
        return PipesOffer(os.getpid(), down, up, (_name(os.getpid(), down), _name(os.getpid(), up)))

    def accept(self) -> PipeChannel:
        """The node has opened its ends: what is left are ours, so that each side sees the other's end."""
        self._close(self._down[0], self._up[1])
        return PipeChannel(self._up[0], self._down[1])

    def close(self) -> None:
        self._close(*self._down, *self._up)

    @staticmethod
    def _close(*fds: int) -> None:
        for fd in fds:
            os.close(fd)


def opened(offer: PipesOffer) -> PipeChannel:
    """A node's ends; an OSError if they cannot be reached from here."""
    for fd, name in zip((offer.down, offer.up), offer.names, strict=True):
        # With another PID namespace this is somebody else's file: look before opening.
        if _name(offer.pid, fd) != name:
            raise FileNotFoundError(f"{name} is not on this host")
    down = os.open(f"/proc/{offer.pid}/fd/{offer.down}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        up = os.open(f"/proc/{offer.pid}/fd/{offer.up}", os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except BaseException:
        os.close(down)
        raise
    return PipeChannel(down, up)


def _name(pid: int, fd: int) -> str:
    return os.readlink(f"/proc/{pid}/fd/{fd}")  # noqa: PTH115 - a Path would follow the link
