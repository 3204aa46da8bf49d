"""Plays again what a server did for its clients, without any of them: every call in its order, every tick with its length.

What is recorded is the server's journal from its first moment (``samepath serve --record``): calls as the very bytes that came,
ticks of the wall clock with their length, clients that went, maps that were sent. A traffic manager, walkers' controllers and
everything else on the client's side are in it by what they asked for. Behind each tick stand the digest of the world, a sum of
all states as clients see them, and a digest of every byte that sensors sent; a replay is held against them, the sensors' if
they are wanted, because drawing takes most of the time.

A recording is one file; the journal's folder of a server that was killed before it could pack it will do as well. A journal of
which something was removed, as one for resuming is kept, is refused: it does not begin at the beginning.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from samepath.core.errors import InputError, SamepathError
from samepath.core.files import SYSTEM_DISK, Disk, SystemDisk
from samepath.core.states import Command, WalkerCommand
from samepath.simulator.maps import RoadMap
from samepath.simulator.replay.recording import RecordingDamagedError, made_with, versions, write_parts
from samepath.simulator.replay.replay import SERVED, Replay, ReplayDiffersError
from samepath.simulator.server import snapshot
from samepath.simulator.server.actors import VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.journal import JournalOrigin, SentMessages
from samepath.simulator.server.journal_files import JournalRecord, RecordKind, numbers_of, part_path, read_part, read_tail
from samepath.simulator.server.maps import MapLibrary
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, RenderResult, SceneView, SensorRenderer
from samepath.simulator.server.resume import STREAM_PORT, NullPublisher, RecordPlayer
from samepath.simulator.server.ticking import command_of
from samepath.simulator.world.world import World

if TYPE_CHECKING:
    from samepath.simulator.sensors.renderer import RenderScene


@dataclass(frozen=True)
class ServedRecording:
    """The journal of a server, whole. ``ended``: how it was ended; empty where the server was killed."""

    origin: JournalOrigin
    records: Sequence[JournalRecord]
    ended: str
    made_by: Mapping[str, str]

    @property
    def ticks(self) -> int:
        """How many ticks there were."""
        return sum(record.kind is RecordKind.TICK for record in self.records)

    @property
    def calls(self) -> int:
        """How many calls there were that may change something."""
        return sum(record.kind is RecordKind.CALL for record in self.records)


class _PackedFolder(SystemDisk):
    """The files of a journal as they lie in a recording; nothing can be written."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def read(self, path: Path) -> bytes:
        try:
            return self._files[path.name]
        except KeyError as error:
            raise FileNotFoundError(2, "no such part", str(path)) from error

    def names(self, folder: Path) -> list[str]:
        return sorted(self._files)


def pack_journal(folder: Path, path: Path) -> str:
    """Write a journal that kept everything to one file; return the recording's name."""
    recording = read_folder(folder)
    head = {"what": SERVED, "ended": recording.ended, "made_by": versions()}
    parts, _ = numbers_of(folder)
    files = {part_path(folder, number).name: part_path(folder, number).read_bytes() for number in parts}
    return write_parts(path, {"head": json.dumps(head).encode(), **files})


def read_folder(folder: Path) -> ServedRecording:
    """Read the journal's folder of a server that was killed before it could pack it; whole ticks count."""
    return _read(folder, SYSTEM_DISK, versions(), str(folder))


def read_served(path: Path, parts: Mapping[str, bytes]) -> ServedRecording:
    """Read the recording of a server."""
    try:
        head = json.loads(parts["head"])
        made_by = dict(head["made_by"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingDamagedError(f"{path} is no recording that this samepath knows ({error!r})") from error
    return _read(path, _PackedFolder({name: data for name, data in parts.items() if name != "head"}), made_by, str(path))


def _read(folder: Path, disk: Disk, made_by: Mapping[str, str], name: str) -> ServedRecording:
    parts, _ = numbers_of(folder, disk)
    if not parts:
        raise InputError(f"{name}: the journal of a server was wanted, but there is none")
    if parts[0] != 0:
        raise InputError(
            f"{name}: the journal begins with part {parts[0]}, what came before it was not kept: record with serve --record"
        )
    try:
        first = read_part(part_path(folder, 0), disk).records
        origin = JournalOrigin.of(first[0].fields[0]["origin"]) if first and first[0].kind is RecordKind.HEAD else None
        tail = read_tail(folder, 0, disk=disk)
        whole = read_tail(folder, 0, whole_ticks=True, disk=disk)
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise RecordingDamagedError(f"{name}: the journal in it cannot be read ({error!r})") from error
    if origin is None:
        raise RecordingDamagedError(f"{name}: the journal in it does not say what the world began with")
    ends = [record.fields[0] for record in tail.records[-1:] if record.kind is RecordKind.END]
    # Behind the last tick stand what sensors sent of it, and calls that nothing came of any more.
    behind = tail.records[len(whole.records) : len(whole.records) + 1]
    records = [*whole.records, *(record for record in behind if record.kind is RecordKind.SENT)]
    if not any(record.kind is RecordKind.TICK for record in records):
        raise InputError(f"{name}: the server made no tick, so that there is nothing to replay")
    return ServedRecording(origin, records, str(ends[0]) if ends else "", made_by)


class _Blind:
    """Draws nothing: the world does not depend on what is seen of it."""

    wants_every_tick = False

    def prepare(self, road_map: RoadMap) -> None:
        pass

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        return []

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Drawing:
    """Draws as the server did. Whoever replays calls tells it nothing of maps that are loaded, so it looks for itself."""

    wants_every_tick = False

    def __init__(self, replay: "ServedReplay") -> None:
        self._replay = replay
        self._renderer = LocalRenderer()

    def prepare(self, road_map: RoadMap) -> None:
        self._renderer.prepare(road_map)

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        self._renderer.prepare(self._replay.episode.map.road_map)
        return self._renderer.render(view, requests)

    def idle(self) -> None:
        self._renderer.idle()

    def close(self) -> None:
        self._renderer.close()


class ServedReplay(Replay):
    """The replay of what a server did. A step is a tick. ``sensors``: they measure too, and are held against the recording."""

    def __init__(self, recording: ServedRecording, name: str = "recording", *, sensors: bool = False) -> None:
        super().__init__(name, recording.ticks)
        self.recording = recording
        # Behind each tick, where the next record is: a tick ends with what sensors sent of it.
        self._ends = [0]
        for index, record in enumerate(recording.records):
            if record.kind is RecordKind.TICK:
                self._ends.append(index + 1)
            elif record.kind is RecordKind.SENT and self._ends[-1] == index:
                self._ends[-1] = index + 1
        self._sensors = sensors
        self._sent = SentMessages(NullPublisher())
        self._renderer: SensorRenderer = _Drawing(self) if sensors else _Blind()
        origin = recording.origin
        self._context = EpisodeContext(
            MapLibrary(origin.aliases, _silent, origin.limits, origin.map_files),
            self._sent,
            origin.data_folder,
            int(origin.extra.get(STREAM_PORT, 0)),
            origin.limits,
            _silent,
            origin.draw_debug,
            renderer=self._renderer,
            traffic=origin.traffic,
            weather_felt=origin.weather_felt,
        )
        self._start()

    @property
    def world(self) -> World:
        return self.episode.world

    @property
    def ended(self) -> str:
        return self.recording.ended or "the server was killed"

    @property
    def time_s(self) -> float:
        return self.episode.elapsed_s

    @property
    def tick(self) -> int:
        return self.position

    def _commands(self) -> Mapping[int, Command]:
        found: dict[int, Command] = {}
        for entry in self.episode.actors:
            if isinstance(entry, VehicleEntry):
                found[entry.id] = command_of(entry.control)
            elif isinstance(entry, WalkerEntry):
                direction = entry.control.direction
                found[entry.id] = WalkerCommand(direction.x, direction.y, entry.control.speed, entry.control.jump)
        return found

    def _start(self) -> None:
        # The map that a client sent in the session before belongs to that: each begins with nothing.
        self._context.maps.forget()
        self.episode = Episode(self._context, self.recording.origin.map_name)
        # It has all happened before: no file is touched.
        self.episode.rehearsed = True
        self._player = RecordPlayer()

    def _forward(self) -> None:
        start, end = self._ends[self.position], self._ends[self.position + 1]
        try:
            for record in self.recording.records[start:end]:
                if record.kind is RecordKind.SENT:
                    self._hold_sent(*record.fields)
                else:
                    self._player.play(self.episode, record)
        except (InputError, ReplayDiffersError):
            raise
        except SamepathError as error:
            raise self._differs(str(error)) from error

    def _hold_sent(self, count: int, digest: bytes) -> None:
        came = self._sent.take()
        if self._sensors:
            self.frames += count
            if came != (count, digest):
                tick = self.position + 1
                raise self._differs(f"{came[0]} messages of sensors at tick {tick} are not the {count} that were recorded")

    def _differs(self, what: str) -> ReplayDiffersError:
        return ReplayDiffersError(f"{self.name}: {what}{made_with(self.recording.made_by)}")

    def _check(self) -> None:
        # Each tick was held against its record when it was played; this is for the way back.
        index = self._ends[self.position] - 1
        record = self.recording.records[index]
        if record.kind is RecordKind.SENT:
            record = self.recording.records[index - 1]
        frame, digest, _ = record.fields
        if (self.episode.frame, bytes.fromhex(self.world.digest)) != (frame, digest):
            raise self._differs(f"tick {self.position} came out differently from what was recorded")

    def _snapshot(self) -> bytes | None:
        return None if snapshot.obstacle(self.episode) else snapshot.take(self.episode)

    def _restore(self, packed: bytes) -> None:
        self._context.maps.forget()
        self.episode = snapshot.restore(packed, self._context)
        self._player = RecordPlayer()

    def _go_back(self, step: int) -> None:
        super()._go_back(step)
        # Who calls is no part of a snapshot.
        for record in self.recording.records[: self._ends[step]]:
            self._player.meet(record)
        self._sent.take()

    def scene(self) -> "RenderScene":
        from samepath.simulator.sensors.scene_builder import scene_builder_of
        from samepath.simulator.sensors.sensor import require_sensors

        require_sensors()
        view = self.episode.viewer.view()
        builder = scene_builder_of(self.episode.map.road_map)
        return builder.scene(view.looks, view.weather, lights=view.lights, hidden=frozenset(view.hidden), tick=view.tick)

    def until(self, tick: int) -> "ServedReplay":
        """Go to a tick of the session, counted from 1, in either direction."""
        if not 0 <= tick <= self.steps:
            raise InputError(f"a tick from 0 to {self.steps} was wanted, but {tick} came")
        return self.go_to(tick)

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**super().facts, "frame": self.episode.frame, "map": self.episode.map.name}

    def close(self) -> None:
        self._context.maps.close()
        self._renderer.close()


def _silent(_: str) -> None:
    pass
