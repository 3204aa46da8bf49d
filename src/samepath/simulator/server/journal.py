"""A journal of everything that decides what happens in an episode, so that a server that dies can be continued.

What is written: calls in the order in which they were made, as the very bytes that came; ticks of the wall clock with their
length; clients and nodes that went; maps that clients sent. After every tick stands what came of it, as a digest, so that a
resume can tell whether it got to the same world. Answers and sensor data are not written: they follow from the rest.

What holds: everything is in the hands of the kernel before a client gets an answer that depends on it
(:meth:`EpisodeJournal.flush` is called before the outbox is handed over). When the process dies, nothing is lost that anybody
knows of. A power cut may take the last seconds, unless the journal is ``durable``, which waits for the disk at every tick.

The files: ``part-000007.journal`` holds what happened after ``snapshot-000007.episode``; part 0 begins with the world's first
moment. A part is a row of records, each with its length and a checksum that covers all records before it too, so that none can
be missing or exchanged. Where a part ends within a record, its writer died there: what is before holds. A snapshot is written
under another name, renamed when it is whole, and only then a new part begun: at every moment there is a snapshot with all that
came after it. One process at a time: the folder is locked (``flock``, which ends with the process, however that ends).

The journal must never stop the world: what cannot be written ends the journal with one line in the log, and the server goes on.
All calls come from the episode's thread.
"""

import contextlib
import errno
import fcntl
import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import make_folder, sync_folder, write_atomically
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.maps import RoadMap
from samepath.simulator.server import snapshot
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.maps import SENT
from samepath.simulator.server.rpc import Call, Caller
from samepath.simulator.server.runner import CallerGone, InboxEvent, StreamUnheard
from samepath.simulator.server.snapshot import made_by

_HEAD: Final = struct.Struct("<II")
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Any])
_MOST_BYTES: Final = 1 << 28
_PART: Final = re.compile(r"part-(\d{6})\.journal")
_SNAPSHOT: Final = re.compile(r"snapshot-(\d{6})\.episode")
LOCK_FILE: Final = ".lock"


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


class JournalRecord(NamedTuple):
    """A record, and where it ends in its part."""

    kind: RecordKind
    fields: list[Any]
    end: int


class JournalPart(NamedTuple):
    """What a part holds; ``torn`` says that bytes follow that are no record."""

    records: tuple[JournalRecord, ...]
    size: int
    torn: bool


FORMAT: Final = 1
_KEPT: Final = 2


@dataclass(frozen=True)
class JournalSettings:
    """How often a snapshot is taken: after so many seconds of the wall clock, or ticks, whichever comes first; None: never.

    ``durable`` waits for the disk at every tick: nothing is lost in a power cut either.
    """

    every_s: float | None = 10.0
    every_ticks: int | None = None
    durable: bool = False


@dataclass(frozen=True)
class JournalOrigin:
    """What a journal's world began with. ``extra`` is plain data of whoever keeps the journal."""

    map_name: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    data_folder: Path = Path("serve-data")
    draw_debug: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """The origin as plain data."""
        return {
            "map_name": self.map_name,
            "aliases": dict(self.aliases),
            "data_folder": str(self.data_folder.absolute()),
            "draw_debug": self.draw_debug,
            "limits": asdict(self.limits),
            "extra": dict(self.extra),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "JournalOrigin":
        """The origin of :meth:`plain`."""
        return cls(**{**data, "data_folder": Path(data["data_folder"]), "limits": ServerLimits(**data["limits"])})


def _write(packed: bytes, path: Path) -> None:
    path.write_bytes(packed)


def states_sum(episode: Episode) -> int:
    """A checksum of the state of everybody, as clients see it."""
    return zlib.crc32(episode.actors.states.tobytes())


class EpisodeJournal:
    """Writes the journal of one server, see the top of this module."""

    def __init__(
        self,
        folder: Path,
        origin: JournalOrigin,
        log: Callable[[str], None],
        settings: JournalSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.folder = folder
        self._origin = origin
        self._log = log
        self._settings = settings or JournalSettings()
        self._clock = clock
        self._part: PartWriter | None = None
        self._lock: int | None = None
        self._number = 0
        self._callers: dict[int, tuple[Caller, int]] = {}
        self._next_caller = 1
        self._map: RoadMap | None = None
        self._frame = 0
        self._episode_id = 0
        self._snapshot_s = clock.monotonic_s()
        self._snapshot_frame = 0
        self._complained = self._playing = False

    @property
    def is_on(self) -> bool:
        """Is anything written?"""
        return self._part is not None

    def begin(self, episode: Episode) -> None:
        """Begin with an episode that was just made, in a folder that holds no journal yet."""
        make_folder(self.folder)
        self._lock = lock(self.folder)
        self._drop_empty()
        if any(numbers_of(self.folder)):
            self.close()
            raise InputError(f"{self.folder} holds a journal already: resume it, or give an empty folder")
        self._see(episode)
        self._start_part(0)

    def _drop_empty(self) -> None:
        """A journal in which nothing happened, such as that of a server whose port was taken, is none."""
        parts, snapshots = numbers_of(self.folder)
        path = part_path(self.folder, 0)
        if (
            parts == [0]
            and not snapshots
            and {record.kind for record in read_part(path).records} <= {RecordKind.HEAD, RecordKind.END}
        ):
            path.unlink()

    def go_on(self, episode: Episode, number: int, handle: int | None) -> None:
        """Go on after a resume with part ``number``; ``handle`` holds the folder's lock, None: it is read-only."""
        self._lock, self._number = handle, number - 1
        self._see(episode)
        if handle is None:
            self._log(f"{self.folder} is read-only: the server goes on without a journal")
            return
        if not self._snapshot(episode) and self._complained:
            self._start_part(number)
        self._add(RecordKind.RESUMED)
        self.flush()

    def _see(self, episode: Episode) -> None:
        self._frame, self._episode_id = episode.frame, episode.id
        self._snapshot_frame, self._snapshot_s = episode.frame, self._clock.monotonic_s()
        self._map = episode.context.maps.sent

    def did(self, episode: Episode, work: InboxEvent) -> None:
        """Something was done in the episode's thread."""
        if self._part is None:
            return
        if isinstance(work, Call):
            if work.method.quick:
                return
            self._add_map(episode)
            self._add(RecordKind.CALL, self._caller(work.caller), work.raw)
            if not work.raw:
                self._end(f"a call of {work.method.name} came without its bytes")
            self._after(episode)
        elif isinstance(work, StreamUnheard):
            self._add(RecordKind.UNHEARD, work.stream_id, work.home)
        elif isinstance(work, CallerGone) and id(work.caller) in self._callers:
            self._add(RecordKind.GONE, self._callers.pop(id(work.caller))[1])

    def left(self, home: int) -> None:
        """A node has gone, and all who listened there."""
        self._add(RecordKind.LEFT, home)

    def ticked(self, episode: Episode, step_s: float) -> None:
        """The world ticked by itself."""
        if self._part is not None:
            self._add(RecordKind.STEP, step_s)
            self._after(episode)

    def _after(self, episode: Episode) -> None:
        """A call or a step is done: if the world ticked in it, the tick is complete."""
        self._episode_id = episode.id
        if episode.frame == self._frame:
            return
        self._frame = episode.frame
        self._add(RecordKind.TICK, episode.frame, bytes.fromhex(episode.world.digest), states_sum(episode))
        self.flush()
        was_playing, self._playing = self._playing, episode.player is not None and not episode.player.is_over
        # What was played came from a file that may be written over: it is not to be needed again.
        if self._is_due(episode) or (was_playing and not self._playing):
            self.snapshot(episode)

    def _add_map(self, episode: Episode) -> None:
        """Write down a map that a client sent: the one that was loaded by this call, or else the last that came."""
        loaded = episode.scene.road_map if episode.id != self._episode_id and episode.scene.name == SENT else None
        for road_map in (loaded, episode.context.maps.sent):
            if road_map is not None and road_map is not self._map:
                self._map = road_map
                self._add(RecordKind.MAP, road_map.xodr)
                return

    def _caller(self, caller: Caller) -> int:
        """The number of a client; it is introduced with its first call. The object is kept, so that its id is its own."""
        known = self._callers.get(id(caller))
        if known is not None:
            return known[1]
        number, self._next_caller = self._next_caller, self._next_caller + 1
        self._callers[id(caller)] = (caller, number)
        self._introduce(caller, number)
        return number

    def _introduce(self, caller: Caller, number: int) -> None:
        name = str(getattr(caller, "name", "somebody"))  # for whoever reads the journal
        self._add(RecordKind.CALLER, number, name, caller.home, caller.stream_port)

    def _add(self, kind: RecordKind, *fields: object) -> None:
        if self._part is not None:
            self._part.add(kind, *fields)

    def flush(self) -> None:
        """Hand over to the kernel what happened so far; before anybody is told."""
        if self._part is None:
            return
        try:
            self._part.flush()
        except OSError as error:
            self._end(f"{self._part.path} cannot be written: {error.strerror or error}")

    def _is_due(self, episode: Episode) -> bool:
        every_s, every_ticks = self._settings.every_s, self._settings.every_ticks
        if every_ticks is not None and episode.frame - self._snapshot_frame >= every_ticks:
            return True
        return every_s is not None and self._clock.monotonic_s() - self._snapshot_s >= every_s

    def snapshot(self, episode: Episode) -> bool:
        """Take a snapshot and begin a new part; what prevents it is said once, and the part goes on."""
        return self.is_on and self._snapshot(episode)

    def _snapshot(self, episode: Episode) -> bool:
        self._snapshot_s, self._snapshot_frame = self._clock.monotonic_s(), episode.frame
        number = self._number + 1
        try:
            packed = snapshot.take(episode)
            path = snapshot_path(self.folder, number)
            write_atomically(path, partial(_write, packed), durable=self._settings.durable)
        except Exception as error:
            # Whatever it is, the world goes on; an error of ours has a name in front.
            ours = "" if isinstance(error, SamepathError) else f"{type(error).__name__}: "
            if not self._complained:
                self._log(f"no snapshot at frame {episode.frame}, resuming will take longer: {ours}{error}")
            self._complained = True
            return False
        self._complained = False
        self._start_part(number)
        self._forget_old(number)
        return self.is_on

    def _start_part(self, number: int) -> None:
        before, self._part = self._part, None
        path = part_path(self.folder, number)
        try:
            self._part = PartWriter(path, durable=self._settings.durable)
        except OSError as error:
            self._log(f"the journal ends, the server goes on without: {path} cannot be written: {error.strerror or error}")
            return
        finally:
            if before is not None:
                before.close()
        self._number = number
        head = {"format": FORMAT, "part": number, "made_by": made_by(), "origin": self._origin.plain()}
        self._add(RecordKind.HEAD, head)
        for caller, caller_number in self._callers.values():
            self._introduce(caller, caller_number)
        self.flush()

    def _forget_old(self, number: int) -> None:
        """Keep the last two snapshots and the parts since the older: if the newest cannot be read, there is a way back."""
        oldest = number - _KEPT + 1
        with contextlib.suppress(InputError, OSError):
            for found, path_of in zip(numbers_of(self.folder), (part_path, snapshot_path), strict=True):
                for old in (kept for kept in found if kept < oldest):
                    path_of(self.folder, old).unlink(missing_ok=True)

    def _end(self, why: str) -> None:
        """Stop writing, and say so: in the log, and in the journal if that is possible."""
        part, self._part = self._part, None
        self._log(f"the journal ends, the server goes on without: {why}")
        if part is not None:
            self._finish(part, why)

    @staticmethod
    def _finish(part: "PartWriter", why: str) -> None:
        try:
            part.add(RecordKind.END, why)
            part.flush()
        except OSError:
            pass
        finally:
            part.close()

    def close(self) -> None:
        """The server stops; it can be resumed all the same."""
        part, self._part = self._part, None
        if part is not None:
            self._finish(part, "the server was stopped")
        handle, self._lock = self._lock, None
        if handle is not None:
            os.close(handle)


def part_path(folder: Path, number: int) -> Path:
    """Where a part is."""
    return folder / f"part-{number:06d}.journal"


def snapshot_path(folder: Path, number: int) -> Path:
    """Where the snapshot before a part is."""
    return folder / f"snapshot-{number:06d}.episode"


def numbers_of(folder: Path) -> tuple[list[int], list[int]]:
    """The numbers of all parts and all snapshots in a folder, rising."""
    try:
        names = sorted(path.name for path in folder.iterdir())
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
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if durable:
            sync_folder(path.parent)

    def add(self, kind: RecordKind, *fields: object) -> None:
        """Add a record."""
        content = _encoder.encode((int(kind), *fields))
        self._sum = zlib.crc32(content, self._sum)
        self._held += _HEAD.pack(len(content), self._sum)
        self._held += content

    def flush(self) -> None:
        """Hand over what was added; what does not fit onto the disk is taken back, up to the last whole piece."""
        if not self._held:
            return
        # One write for all of it: the kernel takes a whole piece or nothing of it that counts.
        held, self._held = self._held, bytearray()
        try:
            self._write(held)
        except OSError:
            # A torn piece would hide everything that might be written after it.
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


def read_part(path: Path) -> JournalPart:
    """All records of a part, up to the first that is not whole."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    found: list[JournalRecord] = []
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
        kind, *fields = _decoder.decode(content)
        at = start + length
        found.append(JournalRecord(RecordKind(kind), fields, at))
    return JournalPart(tuple(found), at, at != len(data))
