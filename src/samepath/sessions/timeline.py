"""A recording in the order in which things cause each other: stretches of one mode, in them ticks, in them calls and states.

In synchronous mode time is counted: a state is a function of the calls before its tick, and a call is one of the states,
answers and measurements that its script had seen. A stretch begins with the answer that switched the mode, or that loaded a
map, and its ticks count from there. So two sessions are laid side by side tick by tick, whatever frame the server was at when
the script came.

In asynchronous mode the world goes on by the wall clock, and there are no ticks to compare by: calls are laid side by side in
their order, and with each the newest state at the moment it came.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from samepath.sessions.methods import HOUSEKEEPING, Ids, actors_in, is_read, spawned_in, value_of
from samepath.sessions.recording import (
    Rows,
    SessionAnswer,
    SessionCall,
    SessionConnection,
    SessionContent,
    SessionFrame,
    SessionRecording,
    SessionRows,
    SessionState,
)
from samepath.sessions.wire import SessionWireError, unpacked

# Reads that the client, or a traffic manager in it, makes as often as it likes: nobody learns from their number.
_POLLS: Final = frozenset(
    {"version", "get_episode_settings", "get_required_files", "request_file", "query_lights_state", "get_vehicle_light_states"}
)
_SETTINGS: Final = "set_episode_settings"
_LOAD: Final = "load_new_episode"
TICK: Final = "tick_cue"


@dataclass
class PlacedCall:
    """A call at its place. ``lane`` numbers connections in the order in which they came; ``state`` counts states before it."""

    call: SessionCall
    lane: int
    tick: int
    state: int
    acts_before: int
    ids: Ids
    answer: SessionAnswer | None = None

    @property
    def arguments(self) -> list[Any] | None:
        """The arguments behind CARLA's metadata; None where they were too long to keep."""
        values = content(self.call.arguments)
        return values[1:] if isinstance(values, list) else None


@dataclass
class Stretch:
    """A part of a session in one mode."""

    synchronous: bool
    first_frame: int
    first_state: int
    acts: list[PlacedCall] = field(default_factory=list)
    reads: list[PlacedCall] = field(default_factory=list)
    states: dict[int, int] = field(default_factory=dict)  # tick -> number of the state in the session
    frames: dict[int, list[tuple[int, int, bytes]]] = field(default_factory=dict)  # tick -> (sensor, its type, digest)
    last_state: int = -1

    @property
    def last_tick(self) -> int:
        """The last tick of which anything is known."""
        return max([-1, *self.states, *[act.tick for act in self.acts]])


@dataclass
class Timeline:
    """A session, sorted. ``types`` are those of actors by id, ``own`` the ids that the session itself spawned."""

    recording: SessionRecording
    stretches: list[Stretch]
    states: list[SessionState]
    ids: Ids
    types: dict[int, str]
    own: frozenset[int]
    lanes: int
    traffic_managers: int
    first_settings: tuple[Any, ...] | None = None  # of the world, as the session found it
    first_actors: int | None = None

    @property
    def ticks(self) -> int:
        """Ticks in synchronous mode."""
        return sum(max(0, *stretch.states, 0) for stretch in self.stretches if stretch.synchronous)

    @property
    def calls(self) -> int:
        return sum(isinstance(event, SessionCall) for event in self.recording.events)


def content(kept: SessionContent) -> Any:  # noqa: ANN401 - from the wire
    """What was sent; None where it was too long to keep, or no MessagePack."""
    if not kept.is_whole:
        return None
    try:
        return unpacked(kept.data)
    except SessionWireError:
        return None


class _Builder:
    """Walks through a recording once."""

    def __init__(self, recording: SessionRecording) -> None:
        self.recording = recording
        self.ids = Ids()
        self._rows = SessionRows()
        self.stretches = [Stretch(False, 0, 0)]
        self.states: list[SessionState] = []
        self.lanes: dict[int, int] = {}
        self.sensors: dict[int, int] = {}
        self.placed: dict[int, PlacedCall] = {}
        self.types: dict[int, str] = {}
        self.own: set[int] = set()
        self.managers = 0
        self.mode_known = False
        self.first_settings: tuple[Any, ...] | None = None
        self.first_actors: int | None = None

    def build(self) -> Timeline:
        for event in self.recording.events:
            if isinstance(event, SessionCall):
                self._call(event)
            elif isinstance(event, SessionAnswer):
                self._answer(event)
            elif isinstance(event, SessionState):
                self._state(event)
            elif isinstance(event, SessionFrame):
                stretch = self.stretches[-1]
                sensor = self.sensors.setdefault(event.stream, len(self.sensors))
                found = stretch.frames.setdefault(max(0, event.frame - stretch.first_frame), [])
                found.append((sensor, event.sensor_type, event.digest))
            elif isinstance(event, SessionConnection) and event.stream is None:
                self.lanes.setdefault(event.connection, len(self.lanes))
        own, lanes = frozenset(self.own), max(1, len(self.lanes))
        first = self.first_settings, self.first_actors
        return Timeline(self.recording, self.stretches, self.states, self.ids, self.types, own, lanes, self.managers, *first)

    def _call(self, call: SessionCall) -> None:
        stretch = self.stretches[-1]
        lane = self.lanes.setdefault(call.connection, len(self.lanes))
        tick = max(0, call.frame - stretch.first_frame)
        placed = PlacedCall(call, lane, tick, len(self.states) - 1, len(stretch.acts), self.ids)
        self.placed[call.number] = placed
        self.managers += call.method == "add_traffic_manager_running"
        if call.method == "get_sensor_token":
            match placed.arguments:
                case [int() as stream]:
                    self.sensors.setdefault(stream, len(self.sensors))
        if is_read(call.method):
            if call.method not in _POLLS:
                stretch.reads.append(placed)
        elif call.method not in HOUSEKEEPING and (stretch.synchronous or call.method != TICK) and not _is_empty_batch(placed):
            # In asynchronous mode ticks are the client's own, until the step that it set has arrived.
            stretch.acts.append(placed)

    def _answer(self, answer: SessionAnswer) -> None:
        placed = self.placed.get(answer.number)
        if placed is None:
            return
        placed.answer = answer
        method = placed.call.method
        if method in (_SETTINGS, _LOAD) and not answer.refused:
            self._change_mode(placed, answer)
        elif method == "get_episode_settings" and not self.mode_known:
            match value_of(content(answer.result)):
                case [bool() as synchronous, *rest]:
                    self.mode_known = True
                    self.first_settings = (synchronous, *rest)
                    if synchronous:
                        self._begin(synchronous=True, frame=answer.frame)
        result = content(answer.result)
        if result is not None:
            self.types.update(actors_in(method, result))
            new = spawned_in(method, placed.arguments or [], result)
            self.types.update(new)
            for actor, _ in new:
                self.own.add(actor)
                self.ids.meet(actor)

    def _change_mode(self, placed: PlacedCall, answer: SessionAnswer) -> None:
        self.mode_known = True
        now, frame = self.stretches[-1].synchronous, answer.frame
        match placed.call.method, placed.arguments:
            case "set_episode_settings", [[bool() as synchronous, *_], *_]:
                value = value_of(content(answer.result))
                if synchronous != now:
                    self._begin(synchronous=synchronous, frame=value if type(value) is int else frame)
            case "load_new_episode", [_, bool() as reset, *_]:
                self._begin(synchronous=now and not reset, frame=frame)

    def _begin(self, *, synchronous: bool, frame: int) -> None:
        self.stretches.append(Stretch(synchronous, frame, len(self.states)))

    def _state(self, state: SessionState) -> None:
        if state.positions is None:  # else the same actors are there as before
            for actor in np.sort(ids_of(self._rows.apply(state))).tolist():
                self.ids.meet(actor)
        if self.first_actors is None:
            self.first_actors = state.actors
        stretch = self.stretches[-1]
        tick = state.frame - stretch.first_frame
        if tick > 0 or not stretch.synchronous:  # others were made before the mode was switched, and came after
            stretch.states[max(0, tick)] = len(self.states)
            stretch.last_state = len(self.states)
        self.states.append(state)


def _is_empty_batch(placed: PlacedCall) -> bool:
    """A batch of nothing, without a tick. A traffic manager that drives nobody sends them as fast as its thread runs."""
    return placed.call.method == "apply_batch" and placed.arguments in ([[], False], [[]])


def ids_of(rows: Rows) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """The actors of rows."""
    return np.ascontiguousarray(rows[:, :4]).view("<u4").reshape(-1)


class StateCursor:
    """The rows of states, asked for in rising order."""

    def __init__(self, timeline: Timeline) -> None:
        self._states = iter(timeline.states)
        self._table = SessionRows()
        self._at = -1

    def at(self, number: int) -> Rows:
        """The rows of the state with this number; -1 is before the first."""
        while self._at < number:
            self._table.apply(next(self._states))
            self._at += 1
        return self._table.rows


def timeline_of(recording: SessionRecording) -> Timeline:
    """Sort a recording."""
    return _Builder(recording).build()


def lanes_at(acts: list[PlacedCall], tick: int | None) -> Iterator[tuple[int, list[PlacedCall]]]:
    """For each connection that has some, its calls (at a tick), in order."""
    lanes: dict[int, list[PlacedCall]] = {}
    for act in acts:
        if tick is None or act.tick == tick:
            lanes.setdefault(act.lane, []).append(act)
    yield from sorted(lanes.items())
