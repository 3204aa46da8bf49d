"""Going on after a crash: the last good snapshot, and what happened since played again from the journal.

While that is done nothing is drawn (but what event cameras must remember), nobody is told anything and no file is touched: it
has all happened before. Every tick must come out with the digest that the journal has for it. If one does not, an earlier
snapshot is tried; if none leads to the same world, nothing is resumed, because a world that merely resembles the one that
clients know is worse than none.

A client's call may make every later tick fail. So a copy of the world tries the next tick first. If that fails, the server
goes on at the end of an earlier tick, without the calls since then: 1 tick back, 2, 4, and so on, until the next tick succeeds.
One line of the log says what was left out. A server that fails again before it has made as many ticks as it went back goes back
four times as far. If nothing in the journal helps, the server begins with a new world.

The journal is cut behind what was played, and a new part begun: bytes after the last whole record belong to something that
nobody has had an answer to. All clients count as gone; calls by ticket that they send again are not made twice.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgpack

from samepath.core.errors import InputError, SamepathError, SimulatorError
from samepath.simulator.maps import RoadMap
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.server import snapshot
from samepath.simulator.server.commands import (
    CallerGone,
    Command,
    MapReceived,
    NodeLeft,
    ServerResumed,
    StreamUnheard,
    WorldStep,
    apply,
)
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.journal import (
    WENT_BACK,
    EpisodeJournal,
    JournalOrigin,
    JournalSettings,
    SentMessages,
    states_sum,
)
from samepath.simulator.server.journal_files import (
    FORMAT,
    JournalRecord,
    JournalTail,
    RecordKind,
    cut,
    lock,
    numbers_of,
    part_path,
    read_part,
    read_tail,
    snapshot_path,
)
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, RenderResult, SceneView, SensorRenderer
from samepath.simulator.server.rpc import checked_call, parse
from samepath.simulator.server.snapshot import check_made_by
from samepath.simulator.server.ticking import step_of

_START: Final = 0
_TICKING: Final = frozenset({"tick_cue", "apply_batch"})
# How many methods a line in the log names, and how long the cause of a failure in it may be.
_NAMED_MAX: Final = 8
_CAUSE_CHARACTERS_MAX: Final = 200
STREAM_PORT: Final = "stream_port"


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
    """An episode that goes on. ``part`` is the journal's next one, ``lock`` the handle of its lock (None: read-only).

    ``back`` is by how many ticks it goes on before the end of the journal, because a tick failed there.
    """

    episode: Episode
    origin: JournalOrigin
    part: int
    lock: int | None
    back: int = 0


class _FormerCaller:
    """A client that called before the crash; nobody is there to be answered."""

    def __init__(self, home: int, stream_port: int | None) -> None:
        self.home = home
        self.stream_port = stream_port

    def answer(self, call_id: int | None, result: bytes) -> None:
        pass


class NullPublisher:
    """Takes what was sent when it happened: nobody is told again."""

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
        # In a cluster no node is there yet: main, which never draws otherwise, does so until the world is where it was.
        self._renderer = real if isinstance(real, LocalRenderer) else LocalRenderer()
        self.episode: Episode | None = None  # that is played; its map may change on the way

    def prepare(self, road_map: RoadMap) -> None:
        pass

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        wanted = [request for request in requests if request.type_id == EVENTS or request.memory]
        if not wanted or self.episode is None:
            return []
        # At every picture: the calls that are played may load another map, and nobody tells this renderer. The map it has costs
        # nothing.
        self._renderer.prepare(self.episode.map.road_map)
        # Only what the sensor remembers is of use: the picture itself went out before the crash.
        return [replace(result, payload=b"") for result in self._renderer.render(view, wanted)]

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass


class _DifferentError(SimulatorError):
    """What was played again came out differently."""


def open_episode(context: EpisodeContext, map_name: str, config: JournalConfig | None) -> tuple[Episode, EpisodeJournal | None]:
    """A fresh episode on a map, or the one of a journal; and the journal to keep of it, if one is wanted."""
    if config is None:
        return Episode(context, map_name), None
    if config.resume:
        resumed = resume(config.folder, context, whole_ticks=config.whole_ticks)
        journal = EpisodeJournal(config.folder, resumed.origin, context.log, config.settings, context.clock)
        journal.go_on(resumed.episode, resumed.part, resumed.lock, resumed.back)
        return resumed.episode, journal
    origin = JournalOrigin(
        map_name,
        context.maps.aliases,
        context.data_folder,
        context.draw_debug,
        context.limits,
        # Tokens carry the port, and sensors may send a token: a replay sends the same bytes only under the same port.
        {**config.extra, STREAM_PORT: context.stream_port} if config.settings.keep_all else config.extra,
        context.maps.files,
        context.traffic,
        context.weather_felt,
    )
    sent = SentMessages(context.outbox) if config.settings.keep_all else None
    episode = Episode(context if sent is None else replace(context, outbox=sent), map_name)
    journal = EpisodeJournal(config.folder, origin, context.log, config.settings, context.clock, sent=sent)
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

    That is after the last call that anybody can have had an answer to; with ``whole_ticks`` after the last tick. Where the next
    tick fails, it is an earlier tick, see the top of this module.
    """
    # Before the lock, which makes a file: a folder that is no journal, or that of other code, stays as it is.
    origin = origin_of(folder)
    handle = lock(folder, reading=True)
    try:
        return _resume(folder, context, origin, handle, whole_ticks=whole_ticks)
    except BaseException:
        if handle is not None:
            os.close(handle)
        raise


def _resume(
    folder: Path, context: EpisodeContext, origin: JournalOrigin, handle: int | None, *, whole_ticks: bool
) -> ResumedEpisode:
    renderer = _ReplayRenderer(context.renderer)
    rehearsing = replace(context, outbox=NullPublisher(), log=_silent, renderer=renderer, on_command=lambda _actor, _rank: None)
    reach = _reach(folder)
    back, cause = _failure_after_resume(folder, reach)
    while True:
        start, tail, episode = _rebuild(folder, origin, rehearsing, context.log, back, whole_ticks=whole_ticks)
        why = _next_tick_error(episode, rehearsing)
        if not why:
            break
        if back > reach:
            raise InputError(f"{folder} cannot be resumed: the next tick fails even in a new world: {why}")
        back = min(max(1, 2 * back), reach) if back < reach else reach + 1
        cause = cause or why
    if tail.why:
        context.log(tail.why)
    if back:
        where = f"going on at frame {episode.frame}" if back <= reach else "going on with a new world"
        context.log(
            f"the next tick fails at the end of the journal ({cause}): {where} without the last "
            f"{_left_out(tail.left_out)}, which are kept in {folder}"
        )
    if handle is not None:
        # Before the episode goes live: what is answered from then on must not be written behind bytes that nobody was
        # answered to.
        cut(folder, start, tail)
    snapshot.go_live(episode, context)
    context.log(f"resumed from {f'snapshot {start}' if start else 'the beginning'}: frame {episode.frame}")
    return ResumedEpisode(episode, origin, tail.part + 1, handle, back)


def _starts(folder: Path) -> list[int]:
    """Return the snapshots to begin with, newest first, since least has to be played from it. Part 0 needs no snapshot."""
    parts, snapshots = numbers_of(folder)
    return [*reversed(snapshots), *(_START for part in parts if part == _START)]


def _ticks(records: Iterable[JournalRecord]) -> int:
    return sum(record.kind is RecordKind.TICK for record in records)


def _reach(folder: Path) -> int:
    """Return how many ticks a resume can go back: all that are in the journal, and to the snapshot before them."""
    starts = _starts(folder)
    return _ticks(read_tail(folder, starts[-1]).records) + 1 if starts else 0


def _rebuild(
    folder: Path,
    origin: JournalOrigin,
    context: EpisodeContext,
    log: Callable[[str], None],
    back: int,
    *,
    whole_ticks: bool,
) -> tuple[int, JournalTail, Episode]:
    """Build the episode of a place in the journal, ``back`` ticks before its end; before all of it there is a new world.

    Returns the snapshot that leads there, the records since then, and the episode.
    """
    for start in (starts := _starts(folder)):
        # Also the map that an attempt before this one took from its journal: each begins with nothing.
        context.maps.forget()
        tail = read_tail(folder, start, whole_ticks=whole_ticks, back=back)
        missing = back - _ticks((*tail.records, *tail.left_out)) - 1
        if missing > 0 and start != starts[-1]:
            continue  # the place lies before this snapshot
        if missing > 0:
            # Nothing is cut: the next part, with its snapshot of the new world, simply follows the last one.
            whole = read_tail(folder, start)
            new = JournalTail([], whole.part, whole.size, whole.why)
            return _START, replace(new, left_out=tuple(whole.records)), _start(folder, _START, origin, context)
        try:
            episode = _start(folder, start, origin, context)
            if isinstance(context.renderer, _ReplayRenderer):
                context.renderer.episode = episode
            _play(episode, tail.records)
        # Refused, not broken: other code made it, and an earlier snapshot would be refused as well.
        except InputError:
            raise
        except SamepathError as error:
            where = f"snapshot {start}" if start else "the beginning"
            log(f"{where} does not lead to where the server was ({error}); an earlier one is tried")
            continue
        return start, tail, episode
    raise InputError(f"{folder} cannot be resumed: no snapshot in it is whole and leads to where the server was")


def _next_tick_error(episode: Episode, context: EpisodeContext) -> str:
    """Return why the next tick fails; empty: it does not. A copy makes that tick, the episode stays as it is."""
    if snapshot.obstacle(episode):
        return ""  # it cannot be copied, which does not mean that anything is wrong with it
    sent = context.maps.sent
    try:
        copy = snapshot.restore(snapshot.take(episode), context)
        # As when it goes live: no client is connected.
        apply(copy, ServerResumed())
        apply(copy, WorldStep(step_of(copy)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except MemoryError:
        return ""  # the machine's fault: no call of a client's is left out because of it
    except BaseException as error:  # a panic of the physics is no Exception
        return f"{type(error).__name__}: {' '.join(str(error).split())[:_CAUSE_CHARACTERS_MAX]}"
    finally:
        if sent is not None:
            context.maps.keep(sent)  # the copy has read the map again, and the episode keeps its map object
    return ""


def _failure_after_resume(folder: Path, reach: int) -> tuple[int, str]:
    """Return how many ticks to leave out because the last resume did not help, and what failed; 0: it did, or was none.

    A server that resumed and failed in a tick, before it had made more ticks than it had gone back, failed at the same place.
    """
    parts, _ = numbers_of(folder)
    records = read_part(part_path(folder, parts[-1])).records if parts else ()
    kinds = [record.kind for record in records]
    if RecordKind.RESUMED not in kinds or RecordKind.FAILED not in kinds:
        return 0, ""
    went_back, made = int(records[0].fields[0].get(WENT_BACK, 0)), _ticks(records)
    what, raw, words = next(record for record in records if record.kind is RecordKind.FAILED).fields
    if made > went_back or (raw and _method_of(raw) not in _TICKING):
        return 0, ""
    back = max(1, 4 * went_back)
    # The first place of all, unless the last server began there.
    if back > reach:
        back = reach if reach > made + 1 else reach + 1
    return back, words.partition("\n")[0] or what


def _method_of(message: bytes) -> str:
    name: str = msgpack.unpackb(message)[2]
    return name


def _left_out(records: Sequence[JournalRecord]) -> str:
    """Describe records in a few words."""
    names = Counter(_method_of(record.fields[1]) for record in records if record.kind is RecordKind.CALL)
    listed = ", ".join(f"{count} {name}" for name, count in names.most_common(_NAMED_MAX))
    more = ", ..." if len(names) > _NAMED_MAX else ""
    return f"{_ticks(records)} ticks and {names.total()} calls{f' ({listed}{more})' if listed else ''}"


def _start(folder: Path, number: int, origin: JournalOrigin, context: EpisodeContext) -> Episode:
    if number == _START:
        episode = Episode(context, origin.map_name)
        # It has all happened before: no file is touched, so that recordings are not written twice.
        episode.rehearsed = True
        return episode
    try:
        packed = snapshot_path(folder, number).read_bytes()
    except OSError as error:
        raise SimulatorError(f"{snapshot_path(folder, number).name} cannot be read: {error.strerror or error}") from error
    return snapshot.restore(packed, context)


def _play(episode: Episode, records: Sequence[JournalRecord]) -> None:
    player = RecordPlayer()
    for record in records:
        player.play(episode, record)


class RecordPlayer:
    """Applies the commands of a journal, in their order, and holds every tick against its digest."""

    def __init__(self) -> None:
        self._callers: dict[int, _FormerCaller] = {}

    def play(self, episode: Episode, record: JournalRecord) -> None:
        """Play one record; :class:`SimulatorError` says that it did not come out as it did then."""
        self.meet(record)
        if record.kind is RecordKind.TICK:
            _check_tick(episode, *record.fields)
        elif record.kind in _COMMANDS:
            command = _COMMANDS[record.kind](episode, self._callers, *record.fields)
            try:
                apply(episode, command)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a panic of the physics is no Exception
                # It did not fail then, or it would not stand in the journal.
                raise _DifferentError(f"{record.kind.name.lower()} failed when it was played again: {error!r}") from error

    def meet(self, record: JournalRecord) -> None:
        """Take note of who calls. All that is left of a record whose effects come with a snapshot."""
        if record.kind is RecordKind.CALLER:
            number, _, home, stream_port = record.fields
            # A part introduces again who was there before it; whoever registered something must stay the same object.
            self._callers.setdefault(number, _FormerCaller(home, stream_port))
        elif record.kind is RecordKind.RESUMED:
            # The server that went on then counted its clients from 1 again: the same numbers, other people.
            self._callers.clear()


def _check_tick(episode: Episode, frame: int, digest: bytes, states: int) -> None:
    # The digest is that of the whole history, of the world alone; the sum also covers what clients see beside it, such as
    # lights.
    came = (episode.frame, bytes.fromhex(episode.world.digest), states_sum(episode))
    if came != (frame, digest, states):
        raise _DifferentError(f"frame {frame} came out differently when it was played again")


_Callers = dict[int, _FormerCaller]


def _call(episode: Episode, callers: _Callers, number: int, message: bytes) -> Command:
    return checked_call(methods(), parse(message, episode.context.limits), callers[number], message)


def _map(episode: Episode, _: _Callers, xodr: str) -> Command:
    # It was tried when it was sent: only those that were taken are in a journal.
    return MapReceived(episode.context.maps.read(xodr, tried=True))


_COMMANDS: Final[dict[RecordKind, Callable[..., Command]]] = {
    RecordKind.CALL: _call,
    RecordKind.STEP: lambda _episode, _callers, step_s: WorldStep(step_s),
    RecordKind.UNHEARD: lambda _episode, _callers, stream_id, home: StreamUnheard(stream_id, home),
    RecordKind.GONE: lambda _episode, callers, number: CallerGone(callers.pop(number, _FormerCaller(0, None))),
    RecordKind.MAP: _map,
    RecordKind.LEFT: lambda _episode, _callers, home: NodeLeft(home),
    RecordKind.RESUMED: lambda _episode, _callers: ServerResumed(),
}
