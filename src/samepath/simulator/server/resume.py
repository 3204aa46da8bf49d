"""Going on after a crash: the last good snapshot, and what happened since played again from the journal.

While that is done nothing is drawn (but what event cameras must remember), nobody is told anything and no file is touched: it
has all happened before. Every tick must come out with the digest that the journal has for it. If one does not, an earlier
snapshot is tried; if none leads to the same world, nothing is resumed, because a world that merely resembles the one that
clients know is worse than none.

The journal is cut behind what was played, and a new part begun: bytes after the last whole record belong to something that
nobody has had an answer to. All clients count as gone; calls by ticket that they send again are not made twice.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from samepath.core.errors import InputError, SamepathError, SimulatorError
from samepath.simulator.maps import RoadMap
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.server import snapshot
from samepath.simulator.server.episode import Episode, EpisodeContext, NoCaller
from samepath.simulator.server.journal import (
    FORMAT,
    EpisodeJournal,
    JournalOrigin,
    JournalRecord,
    JournalSettings,
    RecordKind,
    lock,
    numbers_of,
    part_path,
    read_part,
    snapshot_path,
    states_sum,
)
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, RenderResult, SceneView, SensorRenderer
from samepath.simulator.server.rpc import parse
from samepath.simulator.server.snapshot import check_made_by
from samepath.simulator.server.ticking import tick

_START: Final = 0


@dataclass(frozen=True)
class JournalConfig:
    """That a journal is kept, where and how. ``resume``: the one that is there is gone on with, see :func:`resume`.

    ``extra`` is plain data that :func:`origin_of` gives back to whoever resumes.
    """

    folder: Path
    settings: JournalSettings = field(default_factory=JournalSettings)
    resume: bool = False
    whole_ticks: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResumedEpisode:
    """An episode that goes on. ``part`` is the journal's next one, ``lock`` the handle of its lock (None: read-only)."""

    episode: Episode
    origin: JournalOrigin
    part: int
    lock: int | None


class _FormerCaller(NoCaller):
    """A client that called before the crash; nobody is there to be answered."""

    def __init__(self, home: int, stream_port: int | None) -> None:
        self.home = home
        self.stream_port = stream_port


class _NullPublisher:
    """Takes what was sent before the crash."""

    def publish(self, stream_id: int, payload: bytes) -> None:
        pass

    def prepare(self, payload: bytes) -> None:
        pass

    def expect(self, stream_id: int, home: int) -> None:
        pass

    def forget(self, stream_id: int) -> None:
        pass


class _ReplayRenderer:
    """Renders only what a sensor must remember for its next measurement: the image that an event camera compares with."""

    wants_every_tick = False

    def __init__(self, real: SensorRenderer) -> None:
        self._renderer = real if isinstance(real, LocalRenderer) else LocalRenderer()
        self.episode: Episode | None = None  # that is played; its map may change on the way

    def prepare(self, road_map: RoadMap) -> None:
        pass

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        wanted = [request for request in requests if request.type_id == EVENTS or request.memory]
        if not wanted or self.episode is None:
            return []
        self._renderer.prepare(self.episode.scene.road_map)
        return [replace(result, payload=b"") for result in self._renderer.render(view, wanted)]

    def close(self) -> None:
        pass


class _DifferentError(SimulatorError):
    """What was played again came out differently."""


@dataclass(frozen=True)
class _Tail:
    """The records to play, and where the journal is to be cut: the part, and its size there."""

    records: list[JournalRecord]
    part: int
    size: int
    why: str = ""


def open_episode(context: EpisodeContext, map_name: str, config: JournalConfig | None) -> tuple[Episode, EpisodeJournal | None]:
    """A fresh episode on a map, or the one of a journal; and the journal to keep of it, if one is wanted."""
    if config is None:
        return Episode(context, map_name), None
    if config.resume:
        resumed = resume(config.folder, context, whole_ticks=config.whole_ticks)
        journal = EpisodeJournal(config.folder, resumed.origin, context.log, config.settings, context.clock)
        journal.go_on(resumed.episode, resumed.part, resumed.lock)
        return resumed.episode, journal
    origin = JournalOrigin(
        map_name, context.maps.aliases, context.data_folder, context.draw_debug, context.limits, config.extra
    )
    episode = Episode(context, map_name)
    journal = EpisodeJournal(config.folder, origin, context.log, config.settings, context.clock)
    journal.begin(episode)
    return episode, journal


def _silent(_: str) -> None:
    pass


def origin_of(folder: Path) -> JournalOrigin:
    """What a journal's world began with; refuses a journal that other code wrote, by name."""
    parts, _ = numbers_of(folder)
    for number in reversed(parts):
        records = read_part(part_path(folder, number)).records
        if records and records[0].kind is RecordKind.HEAD:
            return JournalOrigin.of(_checked(folder, records[0].fields[0])["origin"])
    raise InputError(f"{folder} holds no journal of samepath: give the folder that the server kept its journal in")


def _checked(folder: Path, head: dict[str, Any]) -> dict[str, Any]:
    if head.get("format") != FORMAT:
        raise InputError(f"{folder}: a journal of format {FORMAT} was wanted, but {head.get('format')} came")
    check_made_by(head["made_by"], f"the journal in {folder}")
    return head


def resume(folder: Path, context: EpisodeContext, *, whole_ticks: bool = False) -> ResumedEpisode:
    """Build the episode that a journal was kept of, as it was when the server ended, and cut the journal there.

    That is after the last call that anybody can have had an answer to; with ``whole_ticks`` after the last tick.
    """
    origin = origin_of(folder)
    handle = lock(folder, reading=True)
    parts, snapshots = numbers_of(folder)
    renderer = _ReplayRenderer(context.renderer)
    rehearsing = replace(context, outbox=_NullPublisher(), log=_silent, renderer=renderer)
    for start in [*reversed(snapshots), *(_START for part in parts if part == _START)]:
        context.maps.forget()
        tail = _tail_of(folder, start, parts, whole_ticks=whole_ticks)
        try:
            episode = _start(folder, start, origin, rehearsing)
            renderer.episode = episode
            _play(episode, tail.records)
        except InputError:
            raise
        except SamepathError as error:
            where = f"snapshot {start}" if start else "the beginning"
            context.log(f"{where} does not lead to where the server was ({error}); an earlier one is tried")
            continue
        if tail.why:
            context.log(tail.why)
        if handle is not None:
            _cut(folder, tail, parts)
        snapshot.go_live(episode, context)
        context.log(f"resumed from {f'snapshot {start}' if start else 'the beginning'}: frame {episode.frame}")
        return ResumedEpisode(episode, origin, max((*parts, *snapshots)) + 1, handle)
    if handle is not None:
        os.close(handle)
    raise InputError(f"{folder} cannot be resumed: no snapshot in it is whole and leads to where the server was")


def _start(folder: Path, number: int, origin: JournalOrigin, context: EpisodeContext) -> Episode:
    if number == _START:
        episode = Episode(context, origin.map_name)
        episode.rehearsed = True
        return episode
    try:
        packed = snapshot_path(folder, number).read_bytes()
    except OSError as error:
        raise SimulatorError(f"{snapshot_path(folder, number).name} cannot be read: {error.strerror or error}") from error
    return snapshot.restore(packed, context)


def _tail_of(folder: Path, start: int, parts: list[int], *, whole_ticks: bool) -> _Tail:
    """Everything since a snapshot, up to the first part that is missing or torn."""
    placed: list[tuple[int, JournalRecord]] = []
    why, number = "", start
    while number in parts:
        part = read_part(part_path(folder, number))
        placed.extend((number, record) for record in part.records)
        if part.torn and number != parts[-1]:
            why = f"part {number} of the journal is damaged: what came after it is lost"
            break
        number += 1
    ticks = [index for index, (_, record) in enumerate(placed) if record.kind is RecordKind.TICK]
    if whole_ticks:
        placed = placed[: ticks[-1] + 1 if ticks else 1]
    ends = [record.fields[0] for _, record in placed[-1:] if record.kind is RecordKind.END]
    if ends and not why:
        why = f"the journal was ended: {ends[0]}"
    last, size = (placed[-1][0], placed[-1][1].end) if placed else (start, 0)
    return _Tail([record for _, record in placed], last, size, why)


def _cut(folder: Path, tail: _Tail, parts: list[int]) -> None:
    """Cut the journal behind what was played; parts beyond are set aside."""
    for number in parts:
        path = part_path(folder, number)
        if number == tail.part:
            os.truncate(path, tail.size)
        elif number > tail.part:
            path.rename(path.with_suffix(".lost"))


def _play(episode: Episode, records: Sequence[JournalRecord]) -> None:
    callers: dict[int, _FormerCaller] = {}
    for record in records:
        _PLAYS[record.kind](episode, callers, *record.fields)


def _call(episode: Episode, callers: dict[int, _FormerCaller], caller: int, message: bytes) -> None:
    request = parse(message, episode.context.limits)
    method = methods()[request.name]
    episode.caller = callers[caller]
    arguments = method.read(request.arguments) if method.handler is not None else ()
    method.run(episode, arguments, _silent)


def _step(episode: Episode, _: dict[int, _FormerCaller], step_s: float) -> None:
    # A tick that failed then fails now, and the world goes on as it did.
    with contextlib.suppress(Exception):
        tick(episode, step_s)


def _check_tick(episode: Episode, _: dict[int, _FormerCaller], frame: int, digest: bytes, states: int) -> None:
    came = (episode.frame, bytes.fromhex(episode.world.digest), states_sum(episode))
    if came != (frame, digest, states):
        raise _DifferentError(f"frame {frame} came out differently when it was played again")


def _introduce(
    _: Episode, callers: dict[int, _FormerCaller], number: int, _name: str, home: int, stream_port: int | None
) -> None:
    # A part introduces again who was there before it; whoever registered something must stay the same object.
    callers.setdefault(number, _FormerCaller(home, stream_port))


def _unheard(episode: Episode, _: dict[int, _FormerCaller], stream_id: int, home: int) -> None:
    episode.subscriptions.discard(stream_id, home)


def _left(episode: Episode, _: dict[int, _FormerCaller], home: int) -> None:
    episode.subscriptions.leave(home)


def _gone(episode: Episode, callers: dict[int, _FormerCaller], number: int) -> None:
    former = callers.pop(number, None)
    for port in [port for port, (_, owner) in episode.traffic_managers.items() if owner is former]:
        del episode.traffic_managers[port]


def _receive(episode: Episode, _: dict[int, _FormerCaller], xodr: str) -> None:
    episode.context.maps.receive(xodr, tried=True)  # it was when it was sent: only those that were taken are in a journal


def _all_gone(episode: Episode, callers: dict[int, _FormerCaller]) -> None:
    callers.clear()
    snapshot.let_go(episode)


def _nothing(_: Episode, _callers: dict[int, _FormerCaller], *_fields: object) -> None:
    pass


_PLAYS: Final[dict[RecordKind, Callable[..., None]]] = {
    RecordKind.HEAD: _nothing,
    RecordKind.CALLER: _introduce,
    RecordKind.CALL: _call,
    RecordKind.STEP: _step,
    RecordKind.TICK: _check_tick,
    RecordKind.UNHEARD: _unheard,
    RecordKind.GONE: _gone,
    RecordKind.MAP: _receive,
    RecordKind.LEFT: _left,
    RecordKind.RESUMED: _all_gone,
    RecordKind.END: _nothing,
}
