"""A session in one file: every call, every answer, every state that went between CARLA clients and a server, in order.

The file is written while the session runs and is never changed: a line that says what it is, then records. A record is its
length (4 bytes), its link of the chain (16 bytes) and a MessagePack array. A link is the digest of the link before and the
array, so that a flipped bit, a record that is missing or one that was put in is found at its place. The last record says that
the session ended; without it, or with half of a record at the end, the process that wrote was killed: what is there is good up
to that point, the reader says so, and whoever compares must not take the end of the file for the end of the session.

Values are whole where they are small. A long argument or answer (a map, a library of blueprints) is kept as its digest and
size: enough to tell that two are equal. Of a state only the rows of actors that changed are written; :class:`SessionRows` puts
them together again.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import LINK_BYTES, first_link, link
from samepath.core.errors import StoreError
from samepath.core.files import regular
from samepath.simulator.carla.streams import ACTOR_STATE

MAGIC: Final = b"samepath session recording\n"
VERSION: Final = 1
RECORDING_BYTES_MOST: Final = 4 << 30
_RECORD_BYTES_MOST: Final = 64 << 20
_LENGTH_BYTES: Final = 4
# What waits in memory before it is handed to the kernel; the proxy also flushes a few times a second.
_BUFFER_BYTES: Final = 1 << 16
ROW_BYTES: Final = ACTOR_STATE.itemsize
ACTORS_MOST: Final = 100_000

Rows = NDArray[np.uint8]

_Meta = msgspec.Meta
Count = Annotated[int, _Meta(ge=0, le=2**63 - 1)]
Frame = Annotated[int, _Meta(ge=0, le=2**63 - 1)]
Uint32 = Annotated[int, _Meta(ge=0, le=2**32 - 1)]
Name = Annotated[str, _Meta(max_length=4096)]
Digest = Annotated[bytes, _Meta(min_length=LINK_BYTES, max_length=LINK_BYTES)]
# Comparisons with NaN are false: bounds on both sides refuse what is not finite.
Seconds = Annotated[float, _Meta(ge=-1e12, le=1e12)]


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """A record: an array of its name and its fields."""


class SessionHeader(_Record, frozen=True):
    """The first record. Unknown facts are a newer version's: this one must be readable by all that follow."""

    version: Count
    samepath: Name
    facts: dict[str, Name]


class SessionContent(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Bytes as they were sent, or, where they are long, their digest alone (``data`` is empty then, ``size_bytes`` is not)."""

    data: bytes
    digest: Digest
    size_bytes: Count

    @classmethod
    def of(cls, data: bytes, most_bytes: int) -> "SessionContent":
        """Keep bytes, whole if they are few."""
        digest = hashlib.blake2b(data, digest_size=LINK_BYTES).digest()
        return cls(data if len(data) <= most_bytes else b"", digest, len(data))

    @property
    def is_whole(self) -> bool:
        return len(self.data) == self.size_bytes


class SessionCall(_Record, frozen=True):
    """A call on its way to the server; ``number`` counts all calls of the session from 1, in the order they went out.

    ``frame`` is the newest frame that had been seen, ``time_s`` the machine's monotonic clock.
    """

    number: Count
    connection: Count
    method: Name
    arguments: SessionContent
    frame: Frame
    time_s: Seconds


class SessionAnswer(_Record, frozen=True):
    """The answer to call ``number``; ``refused``: the server could not make the call at all."""

    number: Count
    refused: bool
    result: SessionContent
    frame: Frame


class SessionState(_Record, frozen=True):
    """The state of all actors at a frame. ``positions`` are the rows that ``rows`` replaces (32-bit); None: all are new."""

    frame: Frame
    elapsed_s: Seconds
    delta_s: Seconds
    episode: Frame
    flags: Count
    actors: Annotated[int, _Meta(ge=0, le=ACTORS_MOST)]
    digest: Digest
    positions: bytes | None
    rows: bytes


class SessionFrame(_Record, frozen=True):
    """What a sensor sent: its digest, without the header's transform and time."""

    stream: Uint32
    sensor_type: Frame
    frame: Frame
    size_bytes: Count
    digest: Digest


class SessionConnection(_Record, frozen=True):
    """A client came or went; ``stream`` None: for calls, else to listen to that stream."""

    connection: Count
    stream: Uint32 | None
    opened: bool
    time_s: Seconds


class SessionEnd(_Record, frozen=True):
    """The last record of a session that was recorded to its end."""

    why: Name
    rewritten_bytes: Count


SessionEvent = SessionCall | SessionAnswer | SessionState | SessionFrame | SessionConnection
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(
    SessionCall | SessionAnswer | SessionState | SessionFrame | SessionConnection | SessionEnd
)
_header_decoder: Final = msgspec.msgpack.Decoder(SessionHeader)


class SessionRows:
    """The rows of all actors, kept from state to state."""

    def __init__(self) -> None:
        self.rows: Rows = np.empty((0, ROW_BYTES), np.uint8)

    def changes(self, data: bytes) -> tuple[bytes | None, bytes]:
        """Take a new state; returns what of it is worth writing: positions and rows."""
        new = np.frombuffer(data, np.uint8).reshape(-1, ROW_BYTES)
        old, self.rows = self.rows, new
        if new.shape != old.shape:
            return None, data
        changed = np.flatnonzero((new != old).any(axis=1))
        if len(changed) == len(new):
            return None, data
        return changed.astype("<u4").tobytes(), new[changed].tobytes()

    def apply(self, state: SessionState) -> Rows:
        """Put a recorded state together; raises StoreError where it does not fit the one before."""
        rows = np.frombuffer(state.rows, np.uint8)
        if len(rows) % ROW_BYTES:
            raise StoreError(f"the state of frame {state.frame} has no whole number of actors")
        rows = rows.reshape(-1, ROW_BYTES)
        if state.positions is None:
            self.rows = rows
        else:
            at = np.frombuffer(state.positions, "<u4") if len(state.positions) % 4 == 0 else np.empty(0, "<u4")
            if len(at) != len(rows) or (len(at) and int(at.max()) >= len(self.rows)):
                raise StoreError(f"the state of frame {state.frame} does not fit the one before")
            self.rows = self.rows.copy()
            self.rows[at] = rows
        if len(self.rows) != state.actors:
            raise StoreError(f"the state of frame {state.frame} has {len(self.rows)} actors instead of {state.actors}")
        return self.rows


class SessionWriter:
    """Appends to a new file. A file that is there is never touched: a recording is evidence."""

    def __init__(self, path: Path, header: SessionHeader, most_bytes: int = RECORDING_BYTES_MOST) -> None:
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise StoreError(f"{path} is there already, and recordings are never overwritten: choose another name") from None
        except OSError as error:
            raise StoreError(f"{path} could not be written: {error.strerror or error}") from error
        self.path = path
        self.size_bytes = 0
        self.problem = ""
        self._most_bytes = most_bytes
        self._chain = first_link("session", VERSION)
        self._buffer = bytearray(MAGIC)
        self._put(_encoder.encode(header))
        self.flush()

    def add(self, record: SessionEvent | SessionEnd) -> None:
        """Append a record; once something could not be written nothing more is."""
        if self.problem:
            return
        self._put(_encoder.encode(record))
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()
        if self.size_bytes + len(self._buffer) > self._most_bytes:
            self.flush()
            self.problem = f"it has grown beyond {self._most_bytes >> 20} MiB"

    def _put(self, content: bytes) -> None:
        self._chain = link(self._chain, content)
        self._buffer += len(content).to_bytes(_LENGTH_BYTES, "little") + self._chain + content

    def flush(self) -> None:
        """Hand over to the kernel what waits: it survives the death of this process."""
        rest = memoryview(bytes(self._buffer))
        self._buffer.clear()
        try:
            while rest and not self.problem:
                written = self._file.write(rest) or 0
                self.size_bytes += written
                rest = rest[written:]
        except OSError as error:
            self.problem = f"{self.path} could not be written: {error.strerror or error}"

    def close(self, why: str, rewritten_bytes: int = 0) -> None:
        """Say that the session has ended; what could not be written to the end is left without that."""
        self.add(SessionEnd(why, rewritten_bytes))
        self.flush()
        self._file.close()


@dataclass(frozen=True)
class SessionRecording:
    """A recording that was read. ``truncated`` says in words what is missing at its end; empty: nothing is."""

    name: str
    header: SessionHeader
    events: tuple[SessionEvent, ...]
    end: SessionEnd | None
    truncated: str


def is_session(path: Path) -> bool:
    """Is this file the recording of a session, as far as its first bytes tell?"""
    try:
        with regular(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_session(path: Path) -> SessionRecording:
    """Read a recording. What is not one, is newer, or was changed is refused; what is cut off is read up to there."""
    try:
        size_bytes = regular(path).stat().st_size
        if size_bytes > RECORDING_BYTES_MOST + _RECORD_BYTES_MOST:
            raise StoreError(
                f"{path}: a recording of at most {RECORDING_BYTES_MOST >> 20} MiB was wanted, this has {size_bytes >> 20}"
            )
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise StoreError(
                    f"{path} is no recording of a session: one that samepath proxy or samepath twice wrote was wanted"
                )
            contents = _records(path, iter(lambda: file.read(1 << 20), b""))
            return _assembled(path, contents)
    except OSError as error:
        raise StoreError(f"{path} could not be read: {error.strerror or error}") from error


@dataclass(frozen=True)
class _Cut:
    """The file ends within a record."""

    at_byte: int


def _records(path: Path, chunks: Iterator[bytes]) -> Iterator[bytes | _Cut]:
    """The content of each record, its place in the chain checked; at last, where it is so, that half a record follows."""
    chain, buffer, at, offset = first_link("session", VERSION), bytearray(), 0, len(MAGIC)
    head = _LENGTH_BYTES + LINK_BYTES
    for chunk in chunks:
        buffer = buffer[at:] + chunk
        at = 0
        while len(buffer) - at >= head:
            size = int.from_bytes(buffer[at : at + _LENGTH_BYTES], "little")
            if size > _RECORD_BYTES_MOST:
                raise StoreError(f"{path} is damaged at byte {offset}: no record is {size} bytes long")
            if len(buffer) - at < head + size:
                break
            content = bytes(buffer[at + head : at + head + size])
            expected = bytes(buffer[at + _LENGTH_BYTES : at + head])
            chain = link(chain, content)
            if chain != expected:
                raise StoreError(f"{path} is damaged at byte {offset}: what is there is not what was written")
            yield content
            at += head + size
            offset += head + size
    if len(buffer) > at:
        yield _Cut(offset)


def _assembled(path: Path, contents: Iterator[bytes | _Cut]) -> SessionRecording:
    first = next(contents, None)
    if first is None or isinstance(first, _Cut):
        raise StoreError(f"{path} ends within its first lines: nothing was recorded")
    header = _header(path, first)
    events: list[SessionEvent] = []
    end: SessionEnd | None = None
    truncated = ""
    table = SessionRows()
    for content in contents:
        if isinstance(content, _Cut):
            truncated = f"it ends within a record, at byte {content.at_byte}"
            break
        if end is not None:
            raise StoreError(f"{path} is damaged: something follows its end")
        try:
            record = _decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: record {len(events) + 1} cannot be read ({error})") from None
        if isinstance(record, SessionEnd):
            end = record
            continue
        if isinstance(record, SessionState):
            table.apply(record)  # only to check it: a comparison puts states together as it goes
        events.append(record)
    if end is None and not truncated:
        truncated = "its last record is missing"
    return SessionRecording(str(path), header, tuple(events), end, truncated and f"{truncated}: its writer was stopped")


def _header(path: Path, content: bytes) -> SessionHeader:
    try:
        array = msgspec.msgpack.decode(content)
        version = array[1] if isinstance(array, list) and len(array) > 1 and array[0] == SessionHeader.__name__ else None
        if isinstance(version, int) and version > VERSION:
            raise StoreError(f"{path} is of version {version}, this samepath reads up to {VERSION}: install a newer one")
        return _header_decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"{path} is damaged: its first record cannot be read ({error})") from None
