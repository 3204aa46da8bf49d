"""Two sessions side by side: the first thing that differed, and what that says about where it came from. Pure.

The two are walked through in the order of cause and effect. Of each tick first the calls, in their order, each with its
answer; then the state that the tick gave; then what sensors measured of it. So when something differs, everything that could
have caused it on the other side was equal: a *call* that differs after equal states, answers and measurements is the script's
doing; a *state*, an answer or a measurement that differs after equal calls at equal ticks is the simulator's.

What may differ without meaning is left out: ids and frames are relative, tokens, ports, wall clocks and request ids are not
looked at (``methods.py``), calls that read are not counted, but their answers are compared where both runs asked alike.
Actors that the script did not spawn (traffic lights) run by the wall clock until it makes the world synchronous: where they
differ at its first tick, that is noted, and they are left out from there on.

In asynchronous mode the server's clock decides which tick a call meets, so nobody can be told apart by it: differences there
are the mode's.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from samepath.sessions.methods import Ids, actor_of, command_index, first_unlike, plain_arguments, plain_result
from samepath.sessions.recording import ROW_BYTES, Rows, SessionRecording
from samepath.sessions.timeline import PlacedCall, StateCursor, Stretch, Timeline, content, ids_of, lanes_at, timeline_of

_NOBODY: Final = "nothing more"
# How far away the same call is looked for in the other run before it counts as another one.
_NEAR_TICKS: Final = 20
# What ends a session tidily, once the world is asynchronous again: how far actors coast meanwhile, and how many batches a
# traffic manager still sends, is the wall clock's, and nobody looks at it any more.
_CLEANING: Final = frozenset({"set_episode_settings", "destroy_actor", "stop_recorder"})
_DESTROY: Final = 1

_MOTION: Final = (
    "x", "y", "z", "pitch", "yaw", "roll", "velocity.x", "velocity.y", "velocity.z", "angular_velocity.x",
    "angular_velocity.y", "angular_velocity.z", "acceleration.x", "acceleration.y", "acceleration.z",
)  # fmt: skip
_FIELDS: Final[dict[str, list[tuple[str, int, str]]]] = {
    "vehicle.": [
        ("throttle", 65, "<f4"), ("steer", 69, "<f4"), ("brake", 73, "<f4"), ("hand_brake", 77, "u1"), ("reverse", 78, "u1"),
        ("manual_gear_shift", 79, "u1"), ("gear", 80, "<i4"), ("speed_limit", 84, "<f4"), ("traffic_light_state", 88, "u1"),
        ("is_at_traffic_light", 89, "u1"), ("traffic_light", 90, "<u4"), ("failure_state", 94, "u1"),
    ],
    "walker.": [
        ("direction.x", 65, "<f4"), ("direction.y", 69, "<f4"), ("direction.z", 73, "<f4"), ("speed", 77, "<f4"),
        ("jump", 81, "u1"),
    ],
    "traffic.traffic_light": [
        ("green_time", 97, "<f4"), ("yellow_time", 101, "<f4"), ("red_time", 105, "<f4"), ("elapsed_time", 109, "<f4"),
        ("pole_index", 113, "<u4"), ("frozen", 117, "u1"), ("state", 118, "u1"),
    ],
}  # fmt: skip
_LIGHT_ID: Final = slice(90, 94)


class DifferenceKind(StrEnum):
    """What differed first."""

    BEGINNING = "beginning"
    CALL = "call"
    ARRIVAL = "arrival"
    ANSWER = "answer"
    STATE = "state"
    SENSOR = "sensor"


class SessionSource(StrEnum):
    """Where a difference came from."""

    NONE = "none"
    SCRIPT = "script"
    SIMULATOR = "simulator"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SessionDifference:
    """The first difference. ``tick`` counts from the switch to synchronous mode; None in asynchronous mode.

    ``frames`` and ``calls`` (numbers in the recordings) are of both sessions, None where one has nothing there. ``actor`` is
    the id in the first session. ``values`` are of ``field``; ``fields`` are all that differ of this actor.
    """

    kind: DifferenceKind
    synchronous: bool
    tick: int | None
    frames: tuple[int | None, int | None]
    calls: tuple[int | None, int | None] = (None, None)
    connection: int | None = None
    method: str = ""
    actor: int | None = None
    actor_type: str = ""
    field: str = ""
    values: tuple[Any, Any] = (None, None)
    fields: tuple[str, ...] = ()
    actors: int = 0


@dataclass(frozen=True)
class SessionComparison:
    """What came of comparing two sessions; ``complete`` says whether both recordings go to their ends."""

    difference: SessionDifference | None
    source: SessionSource
    ticks: int
    calls: int
    notes: tuple[str, ...] = ()
    asynchronous: bool = False
    complete: bool = True
    crossed: bool = False


@dataclass
class _Notes:
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


def compare_sessions(first: SessionRecording, second: SessionRecording) -> SessionComparison:
    """Compare two recordings of a script."""
    return compare_timelines(timeline_of(first), timeline_of(second))


def compare_timelines(first: Timeline, second: Timeline) -> SessionComparison:
    """Compare two sessions that are sorted already."""
    return _Comparing(first, second).run()


class _Comparing:
    def __init__(self, a: Timeline, b: Timeline) -> None:
        self.a, self.b = a, b
        self.rows = StateCursor(a), StateCursor(b)
        self.same_ids = a.ids.agrees(b.ids)
        self.own = frozenset(a.ids(actor) for actor in a.own)
        self.notes = _Notes()
        self.ticks = self.calls = 0
        self.inherited: set[int] = set()
        self.crossed = False  # calls of two connections came in another order, and nothing else had differed

    def run(self) -> SessionComparison:
        beginning = self._beginning()
        if beginning is not None:
            return self._result(beginning, asynchronous=False)
        difference = None
        pairs = list(zip(self.a.stretches, self.b.stretches, strict=False))
        has_ticked = False
        for number, (ours, theirs) in enumerate(pairs):
            if ours.synchronous != theirs.synchronous:
                break
            if ours.synchronous:
                has_ticked = True
                difference = self._synchronous(
                    ours, theirs, after_real_time=number > 0 and not pairs[number - 1][0].synchronous
                )
            else:
                difference = self._asynchronous(ours, theirs, cleaning=has_ticked)
            if difference is not None:
                break
        return self._result(difference, asynchronous=not has_ticked)

    def _beginning(self) -> SessionDifference | None:
        """Did both sessions find the same world? Where one finds what another left behind, nobody is to blame for the rest."""
        for name, ours, theirs in (
            ("settings", self.a.first_settings, self.b.first_settings),
            ("number of actors", self.a.first_actors, self.b.first_actors),
        ):
            if ours is not None and theirs is not None and ours != theirs:
                return SessionDifference(DifferenceKind.BEGINNING, False, None, (None, None), field=name, values=(ours, theirs))
        return None

    def _result(self, difference: SessionDifference | None, *, asynchronous: bool) -> SessionComparison:
        cut = [timeline.recording for timeline in (self.a, self.b) if timeline.recording.truncated]
        for recording in cut:
            self.notes.add(f"{recording.name}: {recording.truncated}")
        source = SessionSource.NONE
        if difference is not None:
            is_missing = None in difference.calls and difference.kind is DifferenceKind.CALL
            if difference.kind is DifferenceKind.BEGINNING:
                source = SessionSource.UNKNOWN
            elif difference.kind in (DifferenceKind.CALL, DifferenceKind.ARRIVAL) or not difference.synchronous or self.crossed:
                source = SessionSource.UNKNOWN if cut and is_missing else SessionSource.SCRIPT
            else:
                source = SessionSource.SIMULATOR
        elif cut:
            source = SessionSource.UNKNOWN
        return SessionComparison(
            difference, source, self.ticks, self.calls, tuple(self.notes.lines), asynchronous, not cut, self.crossed
        )

    # Synchronous: tick by tick.

    def _synchronous(self, ours: Stretch, theirs: Stretch, *, after_real_time: bool) -> SessionDifference | None:
        self.inherited = set()
        acts = _by_tick(ours.acts), _by_tick(theirs.acts)
        lanes = dict(lanes_at(ours.acts, None)), dict(lanes_at(theirs.acts, None))
        reads = _reads(ours), _reads(theirs)
        for tick in range(max(ours.last_tick, theirs.last_tick) + 1):
            difference = self._calls_of(tick, acts, lanes, reads, (ours, theirs))
            if difference is None and tick + 1 in ours.states and tick + 1 in theirs.states:
                numbers = ours.states[tick + 1], theirs.states[tick + 1]
                self.ticks += 1
                if after_real_time and tick == 0:
                    self._inherit(numbers)
                difference = self._state_of(tick + 1, numbers) or self._sensors_of(tick + 1, ours, theirs)
            if difference is not None:
                return difference
        return None

    def _calls_of(
        self,
        tick: int,
        acts: tuple[dict[int, list[PlacedCall]], dict[int, list[PlacedCall]]],
        lanes: tuple[dict[int, list[PlacedCall]], dict[int, list[PlacedCall]]],
        reads: "tuple[_Reads, _Reads]",
        stretches: tuple[Stretch, Stretch],
    ) -> SessionDifference | None:
        """The first call of a tick, or answer to one, that differs."""
        here = acts[0].get(tick, []), acts[1].get(tick, [])
        found: list[tuple[int, SessionDifference]] = []
        for lane in sorted({act.lane for act in (*here[0], *here[1])}):
            ours, theirs = ([act for act in side if act.lane == lane] for side in here)
            found += self._first_of_lane(tick, ours, theirs, (lanes[0].get(lane, []), lanes[1].get(lane, [])))
        asked = reads[0].get(tick, {}), reads[1].get(tick, {})
        for key in asked[0]:
            for ours_read, their_read in zip(asked[0][key], asked[1].get(key, []), strict=False):
                if (difference := self._answer_of(tick, ours_read, their_read)) is not None:
                    found.append((ours_read.call.number, difference))
        self.calls += len(here[0])
        orders = [[act.lane for act in side] for side in here]
        if orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]):
            # An answer that differs, such as the id of an actor, may come of this.
            self.crossed = True
            self.notes.add(f"calls of different connections came in another order, first at tick {tick}")
        return min(found, key=lambda item: item[0])[1] if found else None

    def _first_of_lane(
        self,
        tick: int,
        ours: list[PlacedCall],
        theirs: list[PlacedCall],
        lanes: tuple[list[PlacedCall], list[PlacedCall]],
    ) -> list[tuple[int, SessionDifference]]:
        for a, b in zip(ours, theirs, strict=False):
            difference = self._call_of(tick, a, b, lanes) or self._answer_of(tick, a, b)
            if difference is not None:
                return [(a.call.number, difference)]
        if len(ours) > len(theirs):
            extra = ours[len(theirs)]
            later = self._same_later(extra, lanes[1], tick)
            return [(extra.call.number, self._arrival(tick, extra, later) if later else self._missing(tick, extra, None))]
        if len(theirs) > len(ours):
            extra = theirs[len(ours)]
            later = self._same_later(extra, lanes[0], tick)
            return [(extra.call.number, self._arrival(tick, later, extra) if later else self._missing(tick, None, extra))]
        return []

    def _same_later(self, wanted: PlacedCall, lane: list[PlacedCall], tick: int) -> PlacedCall | None:
        """The same call in the other run, at this tick or a few later."""
        near = (act for act in lane if tick <= act.tick <= tick + _NEAR_TICKS)
        return next((act for act in near if self._same_arguments(wanted, act)), None)

    def _same_arguments(self, a: PlacedCall, b: PlacedCall) -> bool:
        """Are two calls, of either run, the same call?"""
        if a.call.method != b.call.method:
            return False
        if a.call.arguments.digest == b.call.arguments.digest and self.same_ids:
            return True
        plain = self._plain(a), self._plain(b)
        if plain[0] is None or plain[1] is None:
            return a.call.arguments.digest == b.call.arguments.digest
        return _same_values(plain[0], plain[1])

    def _plain(self, act: PlacedCall) -> list[Any] | None:
        arguments = act.arguments
        return None if arguments is None else plain_arguments(act.call.method, arguments, act.ids)

    def _call_of(
        self, tick: int | None, a: PlacedCall, b: PlacedCall, lanes: tuple[list[PlacedCall], list[PlacedCall]] | None = None
    ) -> SessionDifference | None:
        """How a pair of calls differs; the same call elsewhere nearby is one that arrived at another moment."""
        if self._same_arguments(a, b):
            return None
        if lanes is not None and tick is not None:
            later = self._same_later(a, lanes[1], tick), self._same_later(b, lanes[0], tick)
            # Two of one method may be alike by chance; then both must be there, in the other order.
            if later[0] is not None and (later[1] is not None or a.call.method != b.call.method):
                return self._arrival(tick, a, later[0])
            if later[1] is not None and a.call.method != b.call.method:
                return self._arrival(tick, later[1], b)
        if a.call.method != b.call.method:
            return self._between(DifferenceKind.CALL, tick, a, b, "method", (_words(a), _words(b)))
        ours, theirs = self._plain(a), self._plain(b)
        if ours is None or theirs is None:
            sizes = a.call.arguments.size_bytes, b.call.arguments.size_bytes
            return self._between(DifferenceKind.CALL, tick, a, b, "long arguments", sizes)
        method, ordinal, name, x, y = first_unlike(a.call.method, ours, theirs)
        actor = self.a.ids.actor(ordinal)
        found = self._between(DifferenceKind.CALL, tick, a, b, name, (x, y))
        return replace(found, method=method, actor=actor, actor_type=self.a.types.get(actor or 0, ""))

    def _between(
        self,
        kind: DifferenceKind,
        tick: int | None,
        a: PlacedCall | None,
        b: PlacedCall | None,
        name: str,
        values: tuple[Any, Any],
    ) -> SessionDifference:
        """A difference of two calls, or of one and none."""
        there, timeline = (a, self.a) if a is not None else (b, self.b)
        if there is None:
            raise ValueError("a call of one side was wanted")
        actor = actor_of(there.call.method, there.arguments or [])
        return SessionDifference(
            kind,
            tick is not None,
            tick,
            frames=(a.call.frame if a else None, b.call.frame if b else None),
            calls=(a.call.number if a else None, b.call.number if b else None),
            connection=there.lane + 1,
            method=there.call.method,
            actor=actor,
            actor_type=timeline.types.get(actor or 0, ""),
            field=name,
            values=values,
        )

    def _missing(self, tick: int | None, a: PlacedCall | None, b: PlacedCall | None) -> SessionDifference:
        return self._between(DifferenceKind.CALL, tick, a, b, "call", (_words(a), _words(b)))

    def _arrival(self, tick: int | None, a: PlacedCall, b: PlacedCall) -> SessionDifference:
        same = a.tick == b.tick
        return self._between(DifferenceKind.ARRIVAL, tick, a, b, "order" if same else "tick", (a.tick, b.tick))

    def _answer_of(self, tick: int | None, a: PlacedCall, b: PlacedCall) -> SessionDifference | None:
        ours, theirs = a.answer, b.answer
        if ours is None or theirs is None or ours.result.digest == theirs.result.digest:
            return None
        values = content(ours.result), content(theirs.result)
        if values[0] is None or values[1] is None:
            sizes = ours.result.size_bytes, theirs.result.size_bytes
            return self._between(DifferenceKind.ANSWER, tick, a, b, "long answer", sizes)
        plain = plain_result(a.call.method, values[0], self.a.ids), plain_result(a.call.method, values[1], self.b.ids)
        if _same_values(plain[0], plain[1]):
            return None
        _, _, name, x, y = first_unlike("", [plain[0]], [plain[1]])
        return self._between(DifferenceKind.ANSWER, tick, a, b, name.replace("argument", "value"), (x, y))

    # States and sensors.

    def _inherit(self, numbers: tuple[int, int]) -> None:
        """Actors of the map that differ when the synchronous mode begins have run by the wall clock until then."""
        ours, theirs = self._tables(numbers)
        for actor in sorted(ours.keys() & theirs.keys()):
            if ours[actor] != theirs[actor] and actor not in self.own:
                self.inherited.add(actor)
        if self.inherited:
            some = self.a.ids.actor(min(self.inherited)) or 0
            self.notes.add(
                f"{len(self.inherited)} actors of the map, such as {self.a.types.get(some, 'actor')} {some}, were in another "
                "state when synchronous mode began: the world had run by the wall clock until then, and they are not compared"
            )

    def _tables(self, numbers: tuple[int, int]) -> tuple[dict[int, bytes], dict[int, bytes]]:
        rows = self.rows[0].at(numbers[0]), self.rows[1].at(numbers[1])
        return self._table(rows[0], self.a.ids), self._table(rows[1], self.b.ids)

    def _table(self, rows: Rows, ids: Ids) -> dict[int, bytes]:
        if not self.same_ids:
            rows = rows.copy()
            rows[:, _LIGHT_ID] = 0  # the id of a traffic light, in vehicles; its state stands beside it
        return {ids(int(actor)): row[4:].tobytes() for actor, row in zip(ids_of(rows), rows, strict=True)}

    def _state_of(self, tick: int, numbers: tuple[int, int]) -> SessionDifference | None:
        states = self.a.states[numbers[0]], self.b.states[numbers[1]]
        frames = states[0].frame, states[1].frame
        rows = self.rows[0].at(numbers[0]), self.rows[1].at(numbers[1])
        if states[0].delta_s != states[1].delta_s:
            deltas = states[0].delta_s, states[1].delta_s
            return SessionDifference(DifferenceKind.STATE, True, tick, frames, field="delta_seconds", values=deltas)
        if self.same_ids and np.array_equal(rows[0], rows[1]):
            return None
        return self._unlike(tick, frames, *self._tables(numbers), synchronous=True, own_only=False)

    def _unlike(
        self,
        tick: int | None,
        frames: tuple[int, int],
        ours: dict[int, bytes],
        theirs: dict[int, bytes],
        *,
        synchronous: bool,
        own_only: bool,
    ) -> SessionDifference | None:
        """The first actor that differs; of asynchronous worlds only the session's own are looked at."""
        wanted = [
            actor
            for actor in sorted(ours.keys() | theirs.keys())
            if actor not in self.inherited and (not own_only or actor in self.own)
        ]
        different = [actor for actor in wanted if ours.get(actor) != theirs.get(actor)]
        if not different:
            return None
        actor = different[0]
        ids = self.a.ids.actor(actor), self.b.ids.actor(actor)
        kind = self.a.types.get(ids[0] or 0) or self.b.types.get(ids[1] or 0, "")
        whole = SessionDifference(
            DifferenceKind.STATE, synchronous, tick, frames, actor=ids[0], actor_type=kind, actors=len(different)
        )
        if actor not in ours or actor not in theirs:
            values = "there" if actor in ours else "not there", "there" if actor in theirs else "not there"
            return replace(whole, field="presence", values=values, fields=("presence",))
        fields = list(_unlike_fields(kind, ours[actor], theirs[actor]))
        name, x, y = fields[0]
        return replace(whole, field=name, values=(x, y), fields=tuple(name for name, _, _ in fields))

    def _sensors_of(self, tick: int, ours: Stretch, theirs: Stretch) -> SessionDifference | None:
        sides = [_by_sensor(stretch.frames.get(tick, [])) for stretch in (ours, theirs)]
        frames = ours.first_frame + tick, theirs.first_frame + tick
        for sensor in sorted(sides[0].keys() & sides[1].keys()):
            # A listener may come late or leave early: only what both have is compared.
            for (kind, x), (_, y) in zip(sides[0][sensor], sides[1][sensor], strict=False):
                if x != y:
                    return SessionDifference(
                        DifferenceKind.SENSOR, True, tick, frames, field=_sensor_name(kind), values=(x.hex()[:12], y.hex()[:12])
                    )
        return None

    # Asynchronous: call by call.

    def _asynchronous(self, ours: Stretch, theirs: Stretch, *, cleaning: bool) -> SessionDifference | None:
        lanes = dict(lanes_at(ours.acts, None)), dict(lanes_at(theirs.acts, None))
        found: list[tuple[int, SessionDifference]] = []
        if cleaning and all(_is_cleaning(act, self.a) for act in (*ours.acts, *theirs.acts)):
            self._skim(ours, theirs)
            return None
        pairs = []
        for lane in sorted(lanes[0].keys() | lanes[1].keys()):
            mine, other = lanes[0].get(lane, []), lanes[1].get(lane, [])
            for a, b in zip(mine, other, strict=False):
                difference = self._call_of(None, a, b) or self._answer_of(None, a, b)
                if difference is not None:
                    found.append((a.call.number, difference))
                    break
                pairs.append((a, b))
            else:
                if len(mine) != len(other):
                    extra = mine[len(other)] if len(mine) > len(other) else other[len(mine)]
                    a_side = extra if len(mine) > len(other) else None
                    found.append((extra.call.number, self._missing(None, a_side, extra if a_side is None else None)))
        self.calls += len(pairs)
        first = min(found, key=lambda item: item[0])[1] if found else None
        limit = min([number for number, _ in found], default=None)
        state = self._states_at_calls(ours, theirs, [pair for pair in pairs if limit is None or pair[0].call.number <= limit])
        return state or first

    def _skim(self, ours: Stretch, theirs: Stretch) -> None:
        for cursor, stretch in zip(self.rows, (ours, theirs), strict=True):
            if stretch.last_state >= 0:
                cursor.at(stretch.last_state)

    def _states_at_calls(
        self, ours: Stretch, theirs: Stretch, pairs: list[tuple[PlacedCall, PlacedCall]]
    ) -> SessionDifference | None:
        """Did actors of the session stand elsewhere when the same call came, or at the end?"""
        for a, b in sorted(pairs, key=lambda pair: pair[0].call.number):
            difference = self._own_states(a.state, b.state)
            if difference is not None:
                start = ours.acts[0].call.frame, theirs.acts[0].call.frame
                arrived = a.call.frame - start[0], b.call.frame - start[1]
                return SessionDifference(
                    DifferenceKind.ARRIVAL if arrived[0] != arrived[1] else DifferenceKind.STATE,
                    False,
                    None,
                    frames=(a.call.frame, b.call.frame),
                    calls=(a.call.number, b.call.number),
                    connection=a.lane + 1,
                    method=a.call.method,
                    actor=difference.actor,
                    actor_type=difference.actor_type,
                    field=difference.field,
                    values=difference.values if arrived[0] == arrived[1] else arrived,
                    fields=difference.fields,
                )
        if ours.last_state >= 0 and theirs.last_state >= 0:
            return self._own_states(ours.last_state, theirs.last_state)
        return None

    def _own_states(self, ours: int, theirs: int) -> SessionDifference | None:
        if ours < 0 or theirs < 0:
            return None
        tables = self._tables((ours, theirs))
        frames = self.a.states[ours].frame, self.b.states[theirs].frame
        # Somebody who is there in one and not yet in the other was spawned a moment ago.
        both = tables[0].keys() & tables[1].keys()
        mine, other = ({actor: table[actor] for actor in both} for table in tables)
        return self._unlike(None, frames, mine, other, synchronous=False, own_only=True)


def _is_cleaning(act: PlacedCall, timeline: Timeline) -> bool:
    if act.call.method != "apply_batch":
        return act.call.method in _CLEANING
    match act.arguments:
        case [list() as commands, *_]:
            return timeline.traffic_managers > 0 or all(command_index(command) == _DESTROY for command in commands)
    return False


def _words(act: PlacedCall | None) -> str:
    if act is None:
        return _NOBODY
    actor = actor_of(act.call.method, act.arguments or [])
    return act.call.method + (f" for actor {actor}" if actor is not None else "")


def _by_tick(acts: Iterable[PlacedCall]) -> dict[int, list[PlacedCall]]:
    found: dict[int, list[PlacedCall]] = {}
    for act in acts:
        found.setdefault(act.tick, []).append(act)
    return found


_Reads = dict[int, dict[Any, list[PlacedCall]]]


def _reads(stretch: Stretch) -> _Reads:
    """Reads that can be compared, by tick, then by their place between acts, the connection and what was asked."""
    found: _Reads = {}
    for read in stretch.reads:
        key = read.acts_before, read.lane, read.call.method, read.call.arguments.digest
        found.setdefault(read.tick, {}).setdefault(key, []).append(read)
    return found


def _by_sensor(frames: list[tuple[int, int, bytes]]) -> dict[int, list[tuple[int, bytes]]]:
    found: dict[int, list[tuple[int, bytes]]] = {}
    for sensor, kind, digest in frames:
        found.setdefault(sensor, []).append((kind, digest))
    return found


def _sensor_name(kind: int) -> str:
    from samepath.simulator.carla.streams import SENSOR_TYPES

    return next((name for name, number in SENSOR_TYPES.items() if number == kind), f"sensor type {kind}")


def _same_values(a: Any, b: Any) -> bool:  # noqa: ANN401 - from the wire
    """Equal, with 1, 1.0 and True apart, and a number that is none equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(_same_values(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def _unlike_fields(kind: str, ours: bytes, theirs: bytes) -> Iterator[tuple[str, Any, Any]]:
    """The fields of an actor's state that differ, commands before what they move; the rows are without the id."""
    rows = [np.frombuffer(bytes(4) + row, np.uint8) for row in (ours, theirs)]
    found = False
    for name, at, dtype in next((fields for prefix, fields in _FIELDS.items() if kind.startswith(prefix)), []):
        x, y = (row[at : at + np.dtype(dtype).itemsize].view(dtype)[0] for row in rows)
        if x.tobytes() != y.tobytes():
            found = True
            yield name, x.item(), y.item()
    motions = [row[5:65].view("<f4") for row in (row.copy() for row in rows)]
    for name, x, y in zip(_MOTION, *motions, strict=True):
        if x.tobytes() != y.tobytes():
            found = True
            yield name, float(x), float(y)
    if rows[0][4] != rows[1][4]:
        found = True
        yield "actor_state", int(rows[0][4]), int(rows[1][4])
    if not found:
        at = int(np.flatnonzero(rows[0] != rows[1])[0])
        yield f"byte {at} of {ROW_BYTES}", int(rows[0][at]), int(rows[1][at])
