"""Read a recorder file frame by frame. Whatever does not fit is an InputError of one line with the place in the file.

A file that ends within a frame is one whose simulator died while it wrote: what is before that frame is read (``Log.is_cut``).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final

from samepath.base.errors import InputError
from samepath.traces.carla_log import packets as pk
from samepath.traces.carla_log.records import MAGIC, VERSION, Content, Frame, LogHeader

# No frame of a world that our limits allow comes near; a larger number is damage.
PACKET_MAX_BYTES: Final = 64 * 1024 * 1024
_HEADER_MAX_BYTES: Final = 4 * 65536
_STARTED_BYTES: Final = 8
# Where one frame ends and the next, whose number follows, begins: a last packet that seems too long and holds this is damage.
_NEXT_FRAME: Final = pk.HEAD.pack(pk.FRAME_END, 0) + pk.HEAD.pack(pk.FRAME_START, pk.FRAME.size)


def is_log(head: bytes) -> bool:
    """Does a file with this beginning claim to be a recording?"""
    return head[2:4] == len(MAGIC).to_bytes(2, "little") and head[4 : 4 + len(MAGIC)] == MAGIC.encode()


def open_log(path: Path) -> "Log":
    """Open a recording and read its header."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if not is_log(head):
        raise InputError(f"{path} is not a CARLA recorder file: it does not begin with {MAGIC}")
    version = int.from_bytes(head[:2], "little")
    if not 1 <= version <= VERSION:
        raise InputError(f"{path}: a recording of version 1 or {VERSION} was wanted, but {version} came")
    started_at = 4 + len(MAGIC)
    cursor = pk.Cursor(head[started_at + _STARTED_BYTES :], f"{path}: header")
    map_name = cursor.string()
    started = int.from_bytes(head[started_at : started_at + _STARTED_BYTES], "little", signed=True)
    size = started_at + _STARTED_BYTES + pk.COUNT.size + len(map_name.encode("utf-8"))
    return Log(path, LogHeader(map_name, started, version), size)


@dataclass(frozen=True)
class Log:
    """A recording on disk; frames are read when they are asked for, a packet at a time."""

    path: Path
    header: LogHeader
    first_byte: int

    @property
    def is_cut(self) -> bool:
        """Does the file end within a frame, which is left out?"""
        return self._whole[2]

    def frames(self) -> Iterator[Frame]:
        """All whole frames, in order."""
        start: tuple[int, float, float] | None = None
        fields: dict[str, Any] = {}
        for number, at, data in self._packets(skip=False):
            where = f"{self.path}, byte {at}"
            if number == pk.FRAME_START:
                if start is not None:
                    raise InputError(f"{where}: the end of frame {start[0]} was wanted, but another frame begins")
                start, fields = _start(data, where), {}
            elif start is None:
                raise InputError(f"{where}: the start of a frame was wanted, but packet {number} came")
            elif number == pk.FRAME_END:
                frame, duration_s, elapsed_s = start
                yield Frame(frame, elapsed_s, duration_s, Content(**fields))
                start = None
            else:
                _read_into(fields, number, data, where)

    @property
    def extent(self) -> tuple[int, float]:
        """The number of the last frame and when it began; 0, 0.0 without frames. Reads no more than the heads of packets."""
        return self._whole[:2]

    @cached_property
    def _whole(self) -> tuple[int, float, bool]:
        """The number of the last whole frame, when it began, and whether anything follows it."""
        last, this, end = (0, 0.0), (0, 0.0), self.first_byte
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}") from error
        for number, at, data in self._packets(skip=True):
            if number == pk.FRAME_START:
                frame, _, elapsed_s = _start(data, f"{self.path}, byte {at}")
                this = (frame, elapsed_s)
            elif number == pk.FRAME_END:
                last, end = this, at + pk.HEAD.size
        return *last, end < size

    def _packets(self, *, skip: bool) -> Iterator[tuple[int, int, bytes]]:
        """Packet id, place, content; with ``skip`` only the content of frame starts."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(self.first_byte)
                yield from self._from_file(file, size, skip=skip)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}") from error

    def _from_file(self, file: BinaryIO, size: int, *, skip: bool) -> Iterator[tuple[int, int, bytes]]:
        at, frame = self.first_byte, 0
        while at < size:
            head = file.read(pk.HEAD.size)
            if len(head) < pk.HEAD.size:
                return
            number, length = pk.HEAD.unpack(head)
            left = size - at - pk.HEAD.size
            if length > PACKET_MAX_BYTES or (length > left and _beginning_after(frame) in file.read(left)):
                raise InputError(f"{self.path}, byte {at}: packet {number} claims {length} bytes, but {left} are left")
            if length > left:
                return
            if skip and number != pk.FRAME_START:
                file.seek(length, 1)
                yield number, at, b""
            else:
                data = file.read(length)
                frame = int.from_bytes(data[:8], "little") if number == pk.FRAME_START else frame
                yield number, at, data
            at += pk.HEAD.size + length


def _beginning_after(frame: int) -> bytes:
    """How the frame after this one begins."""
    return _NEXT_FRAME + ((frame + 1) % (1 << 64)).to_bytes(8, "little")


def _start(data: bytes, where: str) -> tuple[int, float, float]:
    if len(data) != pk.FRAME.size:
        raise InputError(f"{where}: a frame's start of {pk.FRAME.size} bytes was wanted, but {len(data)} came")
    number, duration_s, elapsed_s = pk.FRAME.unpack(data)
    if not (math.isfinite(duration_s) and 0.0 <= elapsed_s < math.inf):
        raise InputError(f"{where}: frame {number} has no proper time: {elapsed_s} s, {duration_s} s long")
    return int(number), float(duration_s), float(elapsed_s)


def _read_into(fields: dict[str, Any], number: int, data: bytes, where: str) -> None:
    """Add a packet's records to a frame; packets that are not known are read past."""
    if number == pk.ADDED:
        fields["added"] = fields.get("added", ()) + pk.unpack_added(data, where)
    elif number == pk.REMOVED:
        fields["removed"] = fields.get("removed", ()) + pk.unpack_removed(data, where)
    elif number in {pk.VISUAL_TIME, pk.PLATFORM_TIME}:
        cursor = pk.Cursor(data, f"{where}: clock")
        fields["visual_s" if number == pk.VISUAL_TIME else "platform_s"] = float(cursor.take(pk.CLOCK)[0])
        cursor.finish()
    elif number in pk.BY_ID:
        layout = pk.BY_ID[number]
        fields[layout.field] = fields.get(layout.field, ()) + pk.unpack(layout, data, where)
