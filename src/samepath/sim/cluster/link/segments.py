"""Shared memory between a main server and nodes on the same host.

Main makes every segment, as an unnamed file in memory (``memfd_create``): it is in no folder, needs no room in ``/dev/shm``,
and is gone when the last process that uses it is, however that process ended. A node opens it through ``/proc/PID/fd``, which
the kernel allows to processes of the same user on the same host only. It cannot be shrunk or grown, so that nobody can pull
memory away under another; the board can be written by main alone.

The first page holds an identity, which main tells, and a nonce, which it does not: who knows the nonce has read the page.
"""

import errno
import fcntl
import mmap
import os
import stat
from typing import Final, Self

from samepath.sim.cluster.link.wire import Offer

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
