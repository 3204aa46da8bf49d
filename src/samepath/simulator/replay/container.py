r"""The file that a recording is: named parts behind a table that says of each how long it is and what its bytes are called.

::

    samepath recording 1\n           the format, for people and programs
    table length, table             one row per part: name, length, length when unpacked, digest; msgpack
    digest of all of the above      which names the whole recording: the table has the digests of the parts
    parts                           back to back, each packed by zlib

A reader looks at the first line, then at the table and its digest, then at the size of the file, then at each part's digest,
and unpacks last. So a file of somebody else's, of a newer format, one that is cut short and one in which a bit has turned are
told apart, in this order, and nothing of any of them is used. Every length has a bound, also that of what is unpacked.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from samepath.core.digests import LINK_BYTES, link
from samepath.core.errors import InputError, printable
from samepath.core.files import write_bytes_atomically

FORMAT: Final = 1
_WORDS: Final = b"samepath recording "
_TABLE_MOST: Final = 1 << 20
_FILE_MOST: Final = 1 << 32
# What one part may be when it is unpacked: 5 million inputs, or an hour of a served town, take a tenth of it.
_PART_MOST: Final = 1 << 31
_LENGTH_BYTES: Final = 4
SUFFIX: Final = ".recording"


class _Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: str
    size: int
    unpacked: int
    digest: bytes


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[_Row])


class RecordingDamagedError(InputError):
    """A file that was a recording once, or part of one."""


def is_recording(path: Path) -> bool:
    """Does a file begin as a recording does, of any format?"""
    try:
        with path.open("rb") as file:
            return file.read(len(_WORDS)) == _WORDS
    except OSError:
        return False


def write_parts(path: Path, parts: Mapping[str, bytes]) -> str:
    """Write a recording, whole or not at all; return its name: 32 hex digits over every bit of it."""
    packed = {name: zlib.compress(content, 6) for name, content in parts.items()}
    rows = [_Row(name, len(data), len(parts[name]), link(b"", data)) for name, data in packed.items()]
    head = _head(_encoder.encode(rows))
    write_bytes_atomically(path, b"".join([head, link(b"", head), *packed.values()]))
    return link(b"", head).hex()


def _head(table: bytes) -> bytes:
    return _WORDS + f"{FORMAT}\n".encode() + len(table).to_bytes(_LENGTH_BYTES, "little") + table


def read_parts(path: Path) -> tuple[str, dict[str, bytes]]:
    """Read a recording; return its name and its parts. Whatever is not whole is refused in one line."""
    try:
        size = path.stat().st_size
        if size > _FILE_MOST:
            raise InputError(f"{path}: a recording of at most {_FILE_MOST >> 20} MiB was wanted, but {size >> 20} MiB came")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    start = _after_first_line(path, data)
    length = int.from_bytes(data[start : start + _LENGTH_BYTES], "little")
    end = start + _LENGTH_BYTES + length
    if length > _TABLE_MOST or len(data) < end + LINK_BYTES:
        raise _cut(path, f"its table ends at byte {end + LINK_BYTES}, but there are {len(data)}")
    name = link(b"", data[:end])
    if data[end : end + LINK_BYTES] != name:
        raise RecordingDamagedError(f"{path} is damaged: its table is not the one that was written; restore the file")
    rows = _rows(path, data[start + _LENGTH_BYTES : end])
    at = end + LINK_BYTES
    wanted = at + sum(row.size for row in rows)
    if wanted != len(data):
        raise _cut(path, f"{wanted} bytes were wanted, but {len(data)} came")
    parts: dict[str, bytes] = {}
    for row in rows:
        parts[row.name] = _part(path, row, data[at : at + row.size])
        at += row.size
    return name.hex(), parts


def _after_first_line(path: Path, data: bytes) -> int:
    line, newline, _ = data[:64].partition(b"\n")
    # A file that ends within the first line has too little to be anything.
    if not line.startswith(_WORDS):
        came = printable(line[:20].decode("utf-8", "replace"))
        raise InputError(f"{path}: a recording of samepath was wanted, but the file begins with {came!r}")
    number = line[len(_WORDS) :]
    if not newline or not number.isdigit():
        raise _cut(path, "it ends within its first line") if not newline else _foreign(path)
    if int(number) != FORMAT:
        hint = "a newer samepath wrote it: update" if int(number) > FORMAT else "an older samepath wrote it: use that one"
        raise InputError(f"{path}: a recording of format {FORMAT} was wanted, but format {int(number)} came; {hint}")
    return len(line) + 1


def _foreign(path: Path) -> InputError:
    return InputError(f"{path}: a recording of samepath was wanted, but its first line names no format")


def _cut(path: Path, why: str) -> RecordingDamagedError:
    return RecordingDamagedError(f"{path} is cut short or damaged ({why}): restore the file, or record the run again")


def _rows(path: Path, table: bytes) -> list[_Row]:
    try:
        rows = _decoder.decode(table)
    except msgspec.MsgspecError as error:
        raise RecordingDamagedError(f"{path} is damaged: its table cannot be read ({error})") from error
    if len({row.name for row in rows}) != len(rows) or any(not 0 <= row.unpacked <= _PART_MOST or row.size < 0 for row in rows):
        raise RecordingDamagedError(f"{path} is damaged: its table names parts that cannot be")
    return rows


def _part(path: Path, row: _Row, packed: bytes) -> bytes:
    if link(b"", packed) != row.digest:
        raise RecordingDamagedError(f"{path} is damaged: part {row.name!r} is not the one that was written; restore the file")
    unpacker = zlib.decompressobj()
    try:
        # One byte more than it may be: a part that says it is small and is not never fills the memory.
        content = unpacker.decompress(packed, row.unpacked + 1)
    except zlib.error as error:
        raise RecordingDamagedError(f"{path} is damaged: part {row.name!r} cannot be unpacked") from error
    if len(content) != row.unpacked or not unpacker.eof:
        raise RecordingDamagedError(f"{path} is damaged: part {row.name!r} is not as long as it says")
    return content
