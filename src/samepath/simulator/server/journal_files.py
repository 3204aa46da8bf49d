"""The files of a journal: records in parts and a snapshot now and then, so that a power cut leaves a whole row of them.

``part-000007.journal`` holds what happened after ``snapshot-000007.episode``; part 0 begins with the world's first moment. A
part is a row of records, each with its length and a checksum that covers all records before it too, so that none can be missing
or exchanged. Where a part ends within a record, its writer died there: what is before holds. The first record of a part names
the part that it follows, that part's size and its checksum: a row of parts has no gap either, although the kernel may write a
later part before the end of an earlier one. A row is read up to the first thing that does not fit.

Who waits for what:

- The episode's thread hands records to the kernel (:meth:`JournalFiles.flush`), begins parts, and does not wait for the disk
  (but at the start, and where an error makes it write a part anew), unless the journal is ``durable``: then it does before
  every answer.
- A second thread syncs the part, ``sync_every_s`` after the first record that is not on disk. It also puts snapshots away, in
  this order: the end of the part before; the snapshot, under another name; its name; the head of the part that follows it. Only
  when all of that is on disk is anything older removed, and the snapshot before is kept even then, with all that followed it.
- A part is synced by one thread at a time: the kernel tells an error to one of those who ask, and the other would believe that
  all is well.

What fails: a snapshot that cannot be put away is said once and tried again when the next is due, under another name; nothing
older is touched. A part whose sync failed may be gone however often it is synced again (see :mod:`samepath.core.files`), so it
is written anew to another file that takes its name, from what can be read of it; its checksum tells whether that is all of it.
If that fails, and where a record cannot be written at all, the journal ends with a line in the log; what was there stays.
"""

import contextlib
import errno
import fcntl
import heapq
import itertools
import os
import queue
import re
import struct
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, StoreError
from samepath.core.files import SYSTEM_DISK, Disk, write_bytes_atomically

FORMAT: Final = 2
LOCK_FILE: Final = ".lock"
LOST: Final = ".lost"
_HEAD: Final = struct.Struct("<II")
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Any])
_MOST_BYTES: Final = 1 << 28
# After 115 days of a snapshot every 10 s a number has seven digits.
_PART: Final = re.compile(r"part-(\d{6,})\.journal")
_SNAPSHOT: Final = re.compile(r"snapshot-(\d{6,})\.episode")
_PARTIAL: Final = re.compile(r"\..*\.partial")
_KEPT: Final = 2  # snapshots: if the newest cannot be read, there is a way back
# Snapshots that are kept when a server resumes: it may fail in its first tick, and then the next one must go back further.
_KEPT_AT_RESUME: Final = 5


class RecordKind(IntEnum):
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
    FAILED = 11  # a command failed and ended the episode; for people, it is not played [what it was, its bytes, the error]
    SENT = 12  # what sensors sent of a tick, where everything is kept [messages, their digest]


class JournalRecord(NamedTuple):
    """A record, where it ends in its part, and the checksum up to there."""

    kind: RecordKind
    fields: list[Any]
    end: int
    checksum: int


class JournalPart(NamedTuple):
    """What a part holds; ``torn`` says that bytes follow that are no record."""

    records: tuple[JournalRecord, ...]
    size: int
    torn: bool

    @property
    def checksum(self) -> int:
        """Of all its records."""
        return self.records[-1].checksum if self.records else 0


class Followed(NamedTuple):
    """Where a part goes on: behind so many bytes of another, with this checksum up to there."""

    part: int
    size: int
    checksum: int


@dataclass(frozen=True)
class JournalTail:
    """The records since a snapshot, and where the journal is to be cut behind them: the part, and its size there.

    ``left_out`` are the records behind that place, where fewer than all were asked for.
    """

    records: list[JournalRecord]
    part: int
    size: int
    why: str = ""
    left_out: tuple[JournalRecord, ...] = ()


def part_path(folder: Path, number: int) -> Path:
    """Where a part is."""
    return folder / f"part-{number:06d}.journal"


def snapshot_path(folder: Path, number: int) -> Path:
    """Where the snapshot before a part is."""
    return folder / f"snapshot-{number:06d}.episode"


def numbers_of(folder: Path, disk: Disk = SYSTEM_DISK) -> tuple[list[int], list[int]]:
    """The numbers of all parts and all snapshots in a folder, rising."""
    try:
        names = disk.names(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from error
    parts, snapshots = (
        sorted(int(found[1]) for found in map(pattern.fullmatch, names) if found is not None) for pattern in (_PART, _SNAPSHOT)
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


def read_part(path: Path, disk: Disk = SYSTEM_DISK) -> JournalPart:
    """All records of a part, up to the first that is not whole."""
    try:
        return _parse(disk.read(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _parse(data: bytes) -> JournalPart:
    found: list[JournalRecord] = []
    at = total = 0
    while True:
        start = at + _HEAD.size
        if start > len(data):
            break
        length, wanted = _HEAD.unpack_from(data, at)
        content = data[start : start + length]
        total = zlib.crc32(content, total)
        # No record is empty. What a power cut leaves of a file that was never synced may be all zeros, and the checksum of
        # nothing is zero.
        if not 0 < length <= _MOST_BYTES or len(content) != length or total != wanted:
            break
        kind, *fields = _decoder.decode(content)
        at = start + length
        found.append(JournalRecord(RecordKind(kind), fields, at, total))
    return JournalPart(tuple(found), at, at != len(data))


def read_tail(folder: Path, start: int, *, whole_ticks: bool = False, back: int = 0, disk: Disk = SYSTEM_DISK) -> JournalTail:
    """Everything since a snapshot, up to the first record that is missing or torn; with ``whole_ticks`` up to a tick's end.

    ``back`` 1 reads up to the end of the last tick, 2 up to that of the tick before, and so on; where there are fewer ticks,
    nothing is left but the snapshot.
    """
    numbers, _ = numbers_of(folder, disk)
    parts = {number: _read_own(folder, number, disk) for number in numbers if number >= start}
    placed: list[tuple[int, JournalRecord]] = []
    at: int | None = start
    last = start
    while at is not None:
        last, part = at, parts.get(at, _NO_PART)
        at, size = _next_part(last, part, parts)
        placed.extend((last, record) for record in part.records if record.end <= size)
    is_broken = any(number > last and part.records for number, part in parts.items())
    why = f"part {last} of the journal is damaged: what came after it is lost" if is_broken else ""
    left_out: tuple[JournalRecord, ...] = ()
    if back or whole_ticks:
        ticks = [index for index, (_, record) in enumerate(placed) if record.kind is RecordKind.TICK]
        end = ticks[-(back or 1)] + 1 if len(ticks) >= (back or 1) else 1
        left_out = tuple(record for _, record in placed[end:]) if back else ()
        placed = placed[:end]
    ends = [record.fields[0] for _, record in placed[-1:] if record.kind is RecordKind.END]
    if ends and not why:
        why = f"the journal was ended: {ends[0]}"
    last, size = (placed[-1][0], placed[-1][1].end) if placed else (last, 0)
    return JournalTail([record for _, record in placed], last, size, why, left_out)


_NO_PART: Final = JournalPart((), 0, torn=False)


def _read_own(folder: Path, number: int, disk: Disk) -> JournalPart:
    """A part, if it is the one that its name says."""
    part = read_part(part_path(folder, number), disk)
    head = part.records[0] if part.records else None
    return part if head is not None and head.kind is RecordKind.HEAD and head.fields[0].get("part") == number else _NO_PART


def _next_part(number: int, part: JournalPart, parts: Mapping[int, JournalPart]) -> tuple[int | None, int]:
    """The part that follows another, None: there is none; and up to where the other one counts.

    That may be before its end: what stood behind was cut off by a resume, and a power cut has brought it back.
    """
    places = {(0, 0), *((record.end, record.checksum) for record in part.records)}
    for other in sorted(parts):
        followed = parts[other].records[0].fields[0].get("follows") if other > number and parts[other].records else None
        if followed is not None and followed[0] == number and (followed[1], followed[2]) in places:
            return other, followed[1]
    return None, part.size


def cut(folder: Path, start: int, tail: JournalTail, disk: Disk = SYSTEM_DISK) -> None:
    """Cut the journal behind ``tail``. Parts beyond it, and snapshots that did not lead there, are set aside as ``*.lost``.

    A snapshot that stayed might be believed next time, because what spoke against it is no longer there. None of this needs to
    be synced: the next part says what it follows, and it counts only when it is on disk itself, with all of its folder. Records
    that are left out on purpose stay in a copy of their part, also as ``*.lost``, unless the disk does not take it.
    """
    parts, snapshots = numbers_of(folder, disk)
    for path in (
        *(part_path(folder, number) for number in parts if number > tail.part),
        *(snapshot_path(folder, number) for number in snapshots if number > start),
    ):
        disk.rename(path, path.with_suffix(LOST))
    if tail.part in parts:
        path = part_path(folder, tail.part)
        if tail.left_out and tail.size < len(disk.read(path)):
            with contextlib.suppress(OSError, StoreError):
                write_bytes_atomically(path.with_suffix(LOST), disk.read(path), disk=disk)
        handle = disk.open(path)
        try:
            disk.truncate(handle, tail.size)
        finally:
            disk.close(handle)


class Background(Protocol):
    """Does what may have to wait for the disk, one job at a time and in order."""

    def submit(self, job: Callable[[], None], after_s: float = 0.0) -> None:
        """Have something done, not before so many seconds have passed; what waits for its time lets others go first."""
        ...

    def drain(self) -> None:
        """Wait until all that was submitted is done, but for what waits for its time."""
        ...

    def close(self) -> None:
        """Do the same, and end."""
        ...


class BackgroundThread:
    """A thread for it, which starts with the first job and ends with the process, however that ends."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._jobs: queue.SimpleQueue[tuple[float, Callable[[], None] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None], after_s: float = 0.0) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="samepath journal", daemon=True)
            self._thread.start()
        self._jobs.put((SYSTEM_CLOCK.monotonic_s() + after_s if after_s else 0.0, job))

    def drain(self) -> None:
        if self._thread is not None:
            done = threading.Event()
            self._jobs.put((0.0, done.set))
            done.wait()

    def close(self) -> None:
        if self._thread is not None:
            self._jobs.put((0.0, None))
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        later: list[tuple[float, int, Callable[[], None]]] = []
        order = itertools.count()
        while True:
            wait_s = max(0.0, later[0][0] - SYSTEM_CLOCK.monotonic_s()) if later else None
            if wait_s == 0.0:
                self._do(heapq.heappop(later)[2])
                continue
            try:
                due_s, job = self._jobs.get(timeout=wait_s)
            except queue.Empty:
                continue
            if job is None:
                return
            if due_s:
                heapq.heappush(later, (due_s, next(order), job))
            else:
                self._do(job)

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            # Jobs deal with the disk's errors; this is one of ours. Whoever drains must not wait for a thread that died of it.
            self._log(f"error of ours in the journal's thread: {type(error).__name__}: {error}")


class PartWriter:
    """Adds records to a new part: collected in memory, and handed to the kernel in one piece by :meth:`flush`.

    ``sync_error`` is set where the disk failed to take the part: then it is only good once it was written anew.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.size = 0
        self.sync_error: OSError | None = None
        self._disk = disk
        self._has_name = False  # on disk
        self._sum = self._flushed_sum = 0
        self._held = bytearray()
        self._handle = disk.create(path)

    @property
    def checksum(self) -> int:
        """Of all that was handed over."""
        return self._flushed_sum

    def add(self, kind: RecordKind, *fields: object) -> None:
        """Add a record."""
        content = _encoder.encode((int(kind), *fields))
        self._sum = zlib.crc32(content, self._sum)
        self._held += _HEAD.pack(len(content), self._sum)
        self._held += content

    def flush(self, *, durable: bool) -> bool:
        """Hand over what was added, and wait for the disk if ``durable``; was there anything?

        What does not fit onto the disk is taken back, up to the last whole piece.
        """
        if not self._held:
            return False
        if self.sync_error is not None:
            self._renew()
        # One write for all of it: the kernel takes a whole piece or nothing of it that counts.
        held, self._held = bytes(self._held), bytearray()
        try:
            self._append(held)
        except OSError:
            # A torn piece would hide everything that might be written after it.
            self._sum = self._flushed_sum
            with contextlib.suppress(OSError):
                self._disk.truncate(self._handle, self.size)
            raise
        self.size += len(held)
        self._flushed_sum = self._sum
        if durable:
            self.sync()
            if self.sync_error is not None:
                self._renew(held)
        return True

    def _append(self, held: bytes) -> None:
        if self._disk.append(self._handle, held) != len(held):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Wait until what was handed over is on disk, under its name; ``sync_error`` says that it is not."""
        if self.sync_error is not None:
            return  # asked again, the kernel would say that all is well
        try:
            self._disk.sync(self._handle)
            if not self._has_name:
                self._disk.sync_folder(self.path.parent)
                self._has_name = True
        except OSError as error:
            self.sync_error = error

    def _renew(self, unsynced: bytes = b"") -> None:
        """Write the part anew, to another file that takes its name. Of ``unsynced``, its end, nothing is read back."""
        known = self._disk.read(self.path)[: self.size - len(unsynced)] + unsynced
        if len(known) != self.size or _parse(known).checksum != self._flushed_sum:
            raise OSError(errno.EIO, f"{self.sync_error}, and it does not hold any more what was written to it")
        write_bytes_atomically(self.path, known, disk=self._disk)
        broken, self._handle = self._handle, self._disk.open(self.path)
        self._disk.close(broken)
        self.sync_error, self._has_name = None, True

    def close(self) -> None:
        """Sync the part and let go of it; raises if it is not on disk."""
        try:
            self.sync()
            if self.sync_error is not None:
                self._renew()
        finally:
            self._disk.close(self._handle)

    def discard(self) -> None:
        """Let go of the part as it is; what can be synced of it is."""
        self.sync()
        self._disk.close(self._handle)


class JournalFiles:
    """Writes the files of one journal, see the top of this module. All calls come from one thread, that of the episode.

    With ``keep_all`` nothing is ever removed, so that the whole session can be replayed from its first moment.
    """

    def __init__(
        self,
        folder: Path,
        log: Callable[[str], None],
        *,
        durable: bool = False,
        sync_every_s: float = 1.0,
        disk: Disk = SYSTEM_DISK,
        background: Background | None = None,
        keep_all: bool = False,
    ) -> None:
        self.folder = folder
        self._keep_all = keep_all
        self._log = log
        self._durable = durable
        self._sync_every_s = sync_every_s
        self._disk = disk
        self._background = background if background is not None else BackgroundThread(log)
        self._part: PartWriter | None = None
        self._number = 0
        self._sync_is_due = False  # set when a sync is asked for, taken back by the background when it begins
        self._is_storing = False  # the same for a snapshot
        self._safe: list[int] = []  # snapshots that are on disk; 0 stands for the beginning. The background's
        self._complained = False  # of a snapshot; the background's

    @property
    def is_on(self) -> bool:
        """Is anything written?"""
        return self._part is not None

    @property
    def is_storing(self) -> bool:
        """Is a snapshot being put away? A second one would only wait behind it, in memory."""
        return self._is_storing

    def begin(
        self,
        number: int,
        head: Mapping[str, Any],
        others: Sequence[tuple[Any, ...]] = (),
        packed: bytes | None = None,
        name: str = "the beginning",
    ) -> None:
        """Begin with part ``number``, which follows the one before it in the folder, and wait until that is on disk.

        ``head`` is what the part belongs to, ``others`` are records that stand behind it, ``packed`` is a snapshot that was
        taken just now and ``name`` what the log calls it.
        """
        followed = None
        self._safe = [0]
        if number:
            before = part_path(self.folder, number - 1)
            known = read_part(before, self._disk) if before.name in self._disk.names(self.folder) else _NO_PART
            followed = Followed(number - 1, known.size, known.checksum)
            self._safe = [0, *numbers_of(self.folder, self._disk)[1]]
        for left in self._disk.names(self.folder):
            if _PARTIAL.fullmatch(left) is not None:
                with contextlib.suppress(OSError):
                    self._disk.remove(self.folder / left)
        part = self._start(number, head, others, followed)
        if part is not None:
            self._background.submit(
                self._sync if packed is None else partial(self._store, number, packed, name, part, _KEPT_AT_RESUME)
            )
            self._background.drain()

    def _start(
        self, number: int, head: Mapping[str, Any], others: Sequence[tuple[Any, ...]], followed: Followed | None
    ) -> PartWriter | None:
        """Begin a part. If that fails the journal ends: what came later would stand beside a torn beginning of this one."""
        path, part = part_path(self.folder, number), None
        try:
            part = PartWriter(path, self._disk)
            part.add(RecordKind.HEAD, {**head, "format": FORMAT, "part": number, "follows": followed})
            for kind, *fields in others:
                part.add(kind, *fields)
            part.flush(durable=self._durable)
        except (OSError, StoreError) as error:
            if part is not None:
                part.discard()
            self.end(f"{path} cannot be written: {_words(error)}")
            return None
        self._number, self._part = number, part
        return part

    def add(self, kind: RecordKind, *fields: object) -> None:
        """Add a record."""
        if self._part is not None:
            self._part.add(kind, *fields)

    def flush(self) -> None:
        """Hand over to the kernel what was added; before anybody is told."""
        part = self._part
        if part is None:
            return
        try:
            added = part.flush(durable=self._durable)
        except (OSError, StoreError) as error:
            self.end(f"{part.path} cannot be written: {_words(error)}")
            return
        if added and not self._durable and not self._sync_is_due:
            self._sync_is_due = True
            self._background.submit(self._sync, self._sync_every_s)

    def store(self, packed: bytes, name: str, head: Mapping[str, Any], others: Sequence[tuple[Any, ...]] = ()) -> bool:
        """Begin the next part, and have the snapshot put away that was taken just now; ``name`` is what the log calls it."""
        self.flush()
        before = self._part
        if before is None:
            return False
        after = self._start(self._number + 1, head, others, Followed(self._number, before.size, before.checksum))
        if after is None:
            return False
        self._is_storing = True
        self._background.submit(partial(self._close, before))
        self._background.submit(partial(self._store, self._number, packed, name, after))
        return True

    def _sync(self) -> None:
        """In the background, as all down to :meth:`_store`."""
        self._sync_is_due = False
        if self._part is not None:
            self._sync_part(self._part)

    def _sync_part(self, part: PartWriter) -> bool:
        if part.sync_error is None:
            part.sync()
            if part.sync_error is not None:
                why = _words(part.sync_error)
                self._log(f"the disk did not take {part.path} ({why}): it is written anew with the next record")
        return part.sync_error is None

    def _close(self, part: PartWriter) -> None:
        try:
            part.close()
        except (OSError, StoreError) as error:
            self._log(f"the end of {part.path} may be gone after a power cut: {_words(error)}")

    def _store(self, number: int, packed: bytes, name: str, part: PartWriter, kept: int = _KEPT) -> None:
        """Put a snapshot away, then remove what is older than the last ``kept`` snapshots."""
        try:
            write_bytes_atomically(snapshot_path(self.folder, number), packed, disk=self._disk)
        except StoreError as error:
            if not self._complained:
                self._log(f"no snapshot at {name}, resuming will take longer: {error}")
            self._complained = True
            return
        finally:
            self._is_storing = False
        self._complained = False
        # The episode's thread has synced the part already if the journal is durable, and may be doing so now.
        if not self._durable and not self._sync_part(part):
            return
        self._safe = [*self._safe, number][-kept:]
        if self._keep_all:
            return
        with contextlib.suppress(InputError):
            for found, path_of in zip(numbers_of(self.folder, self._disk), (part_path, snapshot_path), strict=True):
                for old in (earlier for earlier in found if earlier < self._safe[0]):
                    with contextlib.suppress(OSError):
                        self._disk.remove(path_of(self.folder, old))

    def end(self, why: str) -> None:
        """Stop writing, and say so: in the log, and in the journal if that is possible."""
        self._log(f"the journal ends, the server goes on without: {why}")
        part = self._finish(why)
        if part is not None:
            self._background.submit(part.discard)

    def _finish(self, why: str) -> PartWriter | None:
        part, self._part = self._part, None
        if part is not None:
            part.add(RecordKind.END, why)
            with contextlib.suppress(OSError, StoreError):
                part.flush(durable=False)
        return part

    def drain(self) -> None:
        """Wait until the background has done what it was given."""
        self._background.drain()

    def close(self) -> None:
        """The server stops: everything is on disk when this returns."""
        part = self._finish("the server was stopped")
        if part is not None:
            self._background.submit(partial(self._close, part))
        self._background.close()


def _words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
