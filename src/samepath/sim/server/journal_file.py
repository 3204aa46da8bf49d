"""The files of a journal: numbered parts, each a row of records with length and checksum, and a snapshot before each part.

``part-000007.journal`` holds what happened after ``snapshot-000007.episode``; part 0 begins with the world's first moment. The
checksum of a record covers all before it in its part, so that none can be missing. Where a part ends within a record, whoever
wrote it died there: what is before holds.
"""

import contextlib
import errno
import fcntl
import os
import re
import struct
import zlib
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack

from samepath.base.errors import InputError
from samepath.base.files import sync_folder

_HEAD: Final = struct.Struct("<II")
_MOST_BYTES: Final = 1 << 28
_PART: Final = re.compile(r"part-(\d{6})\.journal")
_SNAPSHOT: Final = re.compile(r"snapshot-(\d{6})\.episode")
LOCK_FILE: Final = ".lock"


class Kind(IntEnum):
    """What a record says; the fields that follow are in brackets."""

    HEAD = 0  # a part begins [what it belongs to]
    CALLER = 1  # a client calls for the first time [number, name, home, stream port]
    CALL = 2  # a call was done [caller, the message as it came]
    STEP = 3  # the world ticked by itself [seconds]
    TICK = 4  # a tick is complete [frame, digest of the world, checksum of all states]
    UNHEARD = 5  # nobody listens to a stream any more [stream, home]
    GONE = 6  # a client has gone [caller]
    MAP = 7  # the map that a client sent [OpenDRIVE]
    RESUMED = 8  # the server before this one died, and all its clients are gone []
    LEFT = 9  # a node has gone, and its listeners with it [home]
    END = 10  # the journal ends here on purpose [why]


class Record(NamedTuple):
    """A record, and where it ends in its part."""

    kind: Kind
    fields: list[Any]
    end: int


class Part(NamedTuple):
    """What a part holds; ``torn`` says that bytes follow that are no record."""

    records: tuple[Record, ...]
    size: int
    torn: bool


def part_path(folder: Path, number: int) -> Path:
    """Where a part is."""
    return folder / f"part-{number:06d}.journal"


def snapshot_path(folder: Path, number: int) -> Path:
    """Where the snapshot before a part is."""
    return folder / f"snapshot-{number:06d}.episode"


def numbers_of(folder: Path) -> tuple[list[int], list[int]]:
    """The numbers of all parts and all snapshots in a folder, rising."""
    try:
        names = sorted(one.name for one in folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from error
    parts, snapshots = (
        [int(found[1]) for found in map(pattern.fullmatch, names) if found is not None] for pattern in (_PART, _SNAPSHOT)
    )
    return parts, snapshots


def lock(folder: Path, *, reading: bool = False) -> int | None:
    """Keep others from a journal while this process lives; None: its folder is read-only, and so nobody writes there."""
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if reading and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return None
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InputError(f"{folder} is the journal of a server that is running: stop that one, or choose another") from error
    return handle


class PartWriter:
    """Adds records to a new part: collected in memory, and handed to the kernel in one piece by :meth:`flush`."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path = path
        self.size = 0
        self._durable = durable
        self._sum = self._flushed_sum = 0
        self._held = bytearray()
        self._packer = msgpack.Packer(use_bin_type=True)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if durable:
            sync_folder(path.parent)

    def add(self, kind: Kind, *fields: object) -> None:
        """Add a record."""
        content: bytes = self._packer.pack((int(kind), *fields))
        self._sum = zlib.crc32(content, self._sum)
        self._held += _HEAD.pack(len(content), self._sum)
        self._held += content

    def flush(self) -> None:
        """Hand over what was added; what does not fit onto the disk is taken back, up to the last whole piece."""
        if not self._held:
            return
        held, self._held = self._held, bytearray()
        try:
            self._write(held)
        except OSError:
            self._sum = self._flushed_sum
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self.size)
            raise
        self.size += len(held)
        self._flushed_sum = self._sum

    def _write(self, held: bytearray) -> None:
        if os.write(self._handle, held) != len(held):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._durable:
            os.fsync(self._handle)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


def read_part(path: Path) -> Part:
    """All records of a part, up to the first that is not whole."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    found: list[Record] = []
    at = total = 0
    while True:
        start = at + _HEAD.size
        if start > len(data):
            break
        length, wanted = _HEAD.unpack_from(data, at)
        content = data[start : start + length]
        total = zlib.crc32(content, total)
        if length > _MOST_BYTES or len(content) != length or total != wanted:
            break
        kind, *fields = msgpack.unpackb(content, raw=False, strict_map_key=True)
        at = start + length
        found.append(Record(Kind(kind), fields, at))
    return Part(tuple(found), at, at != len(data))


def cut(path: Path, size: int) -> None:
    """Take off what follows the last record that counts."""
    os.truncate(path, size)
