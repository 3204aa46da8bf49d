"""A journal of everything that decides what happens in an episode, so that a server that dies can be continued.

What is written: calls in the order in which they were made, as the very bytes that came; ticks of the wall clock with their
length; clients and nodes that went; maps that clients sent. After every tick stands what came of it, as a digest, so that a
resume can tell whether it got to the same world. Answers and sensor data are not written: they follow from the rest.

What holds: everything is in the hands of the kernel before a client gets an answer that depends on it
(:meth:`EpisodeJournal.flush` is called before the outbox is handed over). When the process dies, nothing is lost that anybody
knows of. A power cut takes at most what is younger than ``sync_every_s`` and the time that the disk needs for it; nothing that
anybody was answered, if the journal is ``durable``. How the files do that: :mod:`samepath.simulator.server.journal_files`.
One process at a time: the folder is locked (``flock``, which ends with the process, however that ends).

The journal must never stop the world: what cannot be written ends the journal with one line in the log, and the server goes on.
All calls come from the episode's thread. What a snapshot holds is taken there, between two ticks, and put away by another.
"""

import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.digests import first_link, link
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import make_folder_durably
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.server import snapshot
from samepath.simulator.server.commands import (
    CallerGone,
    Command,
    MapReceived,
    NodeLeft,
    StreamUnheard,
    WorldStep,
    describe,
)
from samepath.simulator.server.episode import Episode, Publisher
from samepath.simulator.server.journal_files import JournalFiles, RecordKind, lock, numbers_of, part_path, read_part
from samepath.simulator.server.rpc import Call, Caller
from samepath.simulator.server.snapshot import made_by
from samepath.simulator.traffic.traffic import TrafficSettings

_NOTHING_SENT: Final = first_link("sent")
# In the head of the part that a resume begins: how many ticks it left out.
WENT_BACK: Final = "went_back"


@dataclass(frozen=True)
class JournalSettings:
    """How often a snapshot is taken: after so many seconds of the wall clock, or ticks, whichever comes first; None: never.

    ``durable`` waits for the disk before every answer: a power cut takes nothing that anybody was told. Without it the disk is
    given ``sync_every_s`` of the wall clock. ``keep_all`` is for recordings: nothing is removed when a snapshot makes it
    needless for a resume, and behind every tick stands a digest of what sensors sent.
    """

    every_s: float | None = 10.0
    every_ticks: int | None = None
    durable: bool = False
    sync_every_s: float = 1.0
    keep_all: bool = False


@dataclass(frozen=True)
class JournalOrigin:
    """What a journal's world began with. ``extra`` is plain data of whoever keeps the journal."""

    map_name: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    data_folder: Path = Path("serve-data")
    draw_debug: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    extra: Mapping[str, Any] = field(default_factory=dict)
    map_files: Mapping[str, Path] = field(default_factory=dict)
    traffic: TrafficSettings | None = None
    weather_felt: bool = False

    def plain(self) -> dict[str, Any]:
        """The origin as plain data."""
        return {
            "map_name": self.map_name,
            "aliases": dict(self.aliases),
            "data_folder": str(self.data_folder.absolute()),
            "draw_debug": self.draw_debug,
            "limits": asdict(self.limits),
            "extra": dict(self.extra),
            "map_files": {name: str(path) for name, path in self.map_files.items()},
            **({} if self.traffic is None else {"traffic": asdict(self.traffic)}),
            **({"weather_felt": True} if self.weather_felt else {}),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "JournalOrigin":
        """The origin of :meth:`plain`."""
        files = {name: Path(path) for name, path in data.get("map_files", {}).items()}
        traffic = TrafficSettings(**data["traffic"]) if "traffic" in data else None
        read = {
            "data_folder": Path(data["data_folder"]),
            "limits": ServerLimits(**data["limits"]),
            "map_files": files,
            "traffic": traffic,
        }
        return cls(**{**data, **read})


def states_sum(episode: Episode) -> int:
    """A checksum of the state of everybody, as clients see it."""
    # A checksum is enough: it is compared with what the same code makes of the same calls, not with what somebody made up.
    return zlib.crc32(episode.actors.states.tobytes())


class SentMessages:
    """Passes on what an episode sends, and names what sensors sent since it was last asked, by every bit.

    The world's own stream is left out: it carries the wall time at which a state was sent.
    """

    def __init__(self, outbox: Publisher) -> None:
        self._outbox = outbox
        self._count, self._digest = 0, _NOTHING_SENT

    def publish(self, stream_id: int, payload: bytes) -> None:
        if stream_id != WORLD_STREAM:
            self._count += 1
            self._digest = link(self._digest, stream_id.to_bytes(8, "little") + payload)
        self._outbox.publish(stream_id, payload)

    def prepare(self, payload: bytes) -> None:
        self._outbox.prepare(payload)

    def expect(self, stream_id: int, home: int) -> None:
        self._outbox.expect(stream_id, home)

    def forget(self, stream_id: int) -> None:
        self._outbox.forget(stream_id)

    def take(self) -> tuple[int, bytes]:
        """How many messages there were, and their digest; the next ones are counted anew."""
        found = self._count, self._digest
        self._count, self._digest = 0, _NOTHING_SENT
        return found


class EpisodeJournal:
    """Writes the journal of one server, see the top of this module. ``files`` are made for ``folder`` unless some are given."""

    def __init__(
        self,
        folder: Path,
        origin: JournalOrigin,
        log: Callable[[str], None],
        settings: JournalSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        files: JournalFiles | None = None,
        sent: "SentMessages | None" = None,
    ) -> None:
        self.folder = folder
        self._sent = sent
        self._origin = origin
        self._log = log
        self._settings = settings or JournalSettings()
        self._clock = clock
        self._files = files or JournalFiles(
            folder,
            log,
            durable=self._settings.durable,
            sync_every_s=self._settings.sync_every_s,
            keep_all=self._settings.keep_all,
        )
        self._lock: int | None = None
        self._callers: dict[int, tuple[Caller, int]] = {}
        self._next_caller = 1
        self._frame = 0
        self._snapshot_s = clock.monotonic_s()
        self._snapshot_frame = 0
        self._snapshot_is_late = False
        self._complained = self._playing = False

    @property
    def is_on(self) -> bool:
        """Is anything written?"""
        return self._files.is_on

    def begin(self, episode: Episode) -> None:
        """Begin with an episode that was just made, in a folder that holds no journal yet."""
        make_folder_durably(self.folder)
        self._lock = lock(self.folder)
        # Under the lock: a journal that is empty now may be that of a server that has just begun.
        self._drop_empty()
        if any(numbers_of(self.folder)):
            self.close()
            raise InputError(f"{self.folder} holds a journal already: resume it, or give an empty folder")
        self._see(episode)
        self._files.begin(0, self._head())

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

    def go_on(self, episode: Episode, number: int, handle: int | None, back: int = 0) -> None:
        """Go on after a resume with part ``number``; ``handle`` holds the folder's lock, None: it is read-only.

        ``back`` is how many ticks were left out.
        """
        self._lock = handle
        self._see(episode)
        if handle is None:
            self._log(f"{self.folder} is read-only: the server goes on without a journal")
            return
        # A snapshot at once: whoever resumes next need not play again what was played just now.
        packed = self._take(episode)
        head = {**self._head(), **({WENT_BACK: back} if back else {})}
        self._files.begin(number, head, [(RecordKind.RESUMED,)], packed, f"frame {episode.frame}")

    def _see(self, episode: Episode) -> None:
        self._frame = episode.frame
        self._snapshot_frame, self._snapshot_s = episode.frame, self._clock.monotonic_s()

    def applied(self, episode: Episode, command: Command) -> None:
        """A command was applied. One that failed is not written: a resumed world stands before it (but see :meth:`failed`)."""
        if not self.is_on:
            return
        match command:
            # Quick calls only look at what the episode has published: nothing follows from them.
            case Call() if not command.method.quick:
                self._add(RecordKind.CALL, self._caller(command.caller), command.raw)
                # What cannot be played again would let a resume come out elsewhere: better no journal from here on than one
                # that lies.
                if not command.raw:
                    self._files.end(f"a call of {command.method.name} came without its bytes")
            case WorldStep():
                self._add(RecordKind.STEP, command.step_s)
            case StreamUnheard():
                self._add(RecordKind.UNHEARD, command.stream_id, command.home)
            # Who never called is not known here, and has left nothing behind.
            case CallerGone() if id(command.caller) in self._callers:
                self._add(RecordKind.GONE, self._callers.pop(id(command.caller))[1])
            case NodeLeft():
                self._add(RecordKind.LEFT, command.home)
            case MapReceived():
                self._add(RecordKind.MAP, command.road_map.xodr)
        self._after(episode)

    def failed(self, command: Command | None, words: str) -> None:
        """The episode is over because a command failed: it is written down for whoever looks for the cause, never played."""
        raw = command.raw if isinstance(command, Call) else b""
        self._add(RecordKind.FAILED, describe(command), raw, words)
        # At once: there will be no answer to wait for it, and the process is about to end.
        self.flush()

    def _after(self, episode: Episode) -> None:
        """If the world ticked, the tick is complete."""
        if episode.frame == self._frame:
            return
        self._frame = episode.frame
        # Behind the call that ticked: a resume applies that call, then holds the world against this record.
        self._add(RecordKind.TICK, episode.frame, bytes.fromhex(episode.world.digest), states_sum(episode))
        if self._sent is not None:
            self._add(RecordKind.SENT, *self._sent.take())
        self.flush()
        was_playing, self._playing = self._playing, episode.player is not None and not episode.player.is_over
        # What was played came from a file that may be written over: it is not to be needed again.
        if self._is_due(episode) or (was_playing and not self._playing):
            self.snapshot(episode)

    def _caller(self, caller: Caller) -> int:
        """The number of a client; it is introduced with its first call. The object is kept, so that its id is its own."""
        known = self._callers.get(id(caller))
        if known is not None:
            return known[1]
        number, self._next_caller = self._next_caller, self._next_caller + 1
        self._callers[id(caller)] = (caller, number)
        self._add(*_introduction(caller, number))
        return number

    def _add(self, kind: RecordKind, *fields: object) -> None:
        self._files.add(kind, *fields)

    def flush(self) -> None:
        """Hand over to the kernel what happened so far, to the disk if the journal is ``durable``; before anybody is told."""
        self._files.flush()

    def drain(self) -> None:
        """Wait until the snapshot that was taken last is put away."""
        self._files.drain()

    def _is_due(self, episode: Episode) -> bool:
        every_s, every_ticks = self._settings.every_s, self._settings.every_ticks
        if self._snapshot_is_late:
            return True
        if every_ticks is not None and episode.frame - self._snapshot_frame >= every_ticks:
            return True
        # The wall clock may decide when a snapshot is taken, because taking one changes nothing of the world.
        return every_s is not None and self._clock.monotonic_s() - self._snapshot_s >= every_s

    def snapshot(self, episode: Episode) -> bool:
        """Take a snapshot, begin a new part and have it put away; what prevents it is said once, and the journal goes on."""
        if not self.is_on:
            return False
        # A disk that is slower than snapshots are due gets the next one when it is done with the last.
        self._snapshot_is_late = self._files.is_storing
        packed = None if self._snapshot_is_late else self._take(episode)
        if packed is None:
            return False
        # A part is read without those before its snapshot: who is there already is introduced again.
        others = [_introduction(caller, number) for caller, number in self._callers.values()]
        return self._files.store(packed, f"frame {episode.frame}", self._head(), others)

    def _take(self, episode: Episode) -> bytes | None:
        # Also where it fails: what prevents it is tried again when the next is due, not at every tick.
        self._snapshot_s, self._snapshot_frame = self._clock.monotonic_s(), episode.frame
        try:
            packed = snapshot.take(episode)
        except Exception as error:
            # Whatever it is, the world goes on; an error of ours has a name in front.
            ours = "" if isinstance(error, SamepathError) else f"{type(error).__name__}: "
            if not self._complained:
                self._log(f"no snapshot at frame {episode.frame}, resuming will take longer: {ours}{error}")
            self._complained = True
            return None
        self._complained = False
        return packed

    def _head(self) -> dict[str, Any]:
        return {"made_by": made_by(), "origin": self._origin.plain()}

    def close(self) -> None:
        """The server stops; it can be resumed all the same."""
        # The lock last: whoever gets it finds a journal that nobody writes to.
        self._files.close()
        handle, self._lock = self._lock, None
        if handle is not None:
            os.close(handle)


def _introduction(caller: Caller, number: int) -> tuple[Any, ...]:
    name = str(getattr(caller, "name", "somebody"))  # for whoever reads the journal
    return RecordKind.CALLER, number, name, caller.home, caller.stream_port
