"""Partings: where two runs part for the first time, in everything that differs there, and who follows when.

Digests are chained per actor, so that «equal up to its i-th row» is one comparison: the first row of an actor that differs is
found by bisection, not by reading the rows. What differs at the first tick is listed in causal order, because the first name in
that list is what a reader looks at first: how long the step was, then commands, then what they moved, accelerations before
velocities before positions. Each difference comes with both values, in the channel's unit and in units in the last place, of
float64 and of float32: a parting of one float32 unit is a rounding, one of a million is not.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import (
    ACCELERATION,
    ANGULAR_VELOCITY,
    COMMANDS,
    POSITION,
    RESAMPLING,
    ROTATION,
    VEHICLE_CONTROL,
    VELOCITY,
    unit_of,
)
from samepath.instrument.analysis.divergence import event_words_in_full, first_event_difference, last_common_event
from samepath.instrument.traces.records import Repeat

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A tick of hundreds of actors that all differ in twenty channels tells no more than its first so many.
FIELDS_MOST: Final = 200
_RANKS: Final = (
    ("command", COMMANDS),
    ("state", frozenset((*ACCELERATION, VEHICLE_CONTROL[-1]))),
    ("state", frozenset((*VELOCITY, *ANGULAR_VELOCITY))),
    ("state", frozenset((*POSITION, *ROTATION))),
)


class Part(StrEnum):
    """What kind of thing differs, in causal order."""

    TIME = "time"
    COMMAND = "command"
    STATE = "state"
    PRESENCE = "presence"
    EVENT = "event"
    END = "end"


@dataclass(frozen=True)
class FieldDifference:
    """One field that differs at the parting. Numbers that are not there (a channel that does not apply) are None.

    ``difference`` is b - a in ``unit``; ``ulp64`` and ``ulp32`` count the float64 and float32 numbers from a to b, the latter
    after rounding to float32. All three are None where there is nothing to subtract.
    """

    part: Part
    name: str
    actor: int | None
    a: float | str | None
    b: float | str | None
    unit: str = ""
    difference: float | None = None
    ulp64: int | None = None
    ulp32: int | None = None

    def words(self) -> str:
        """Say it: name, both values, how far they are apart."""
        who = "" if self.actor is None else f" of actor {self.actor}"
        text = f"{self.name}{who}: {_show(self.a)} and {_show(self.b)}"
        if self.difference is None:
            return text
        unit = "" if self.unit in ("1", "0/1") else f" {self.unit}"
        ulps = f"{_count(self.ulp32)} float32 or {_count(self.ulp64)} float64 units in the last place"
        return f"{text} ({abs(self.difference):.3g}{unit} apart, {ulps})"


@dataclass(frozen=True)
class Follower:
    """When an actor's own history parts, and how far the two runs of it come apart at most."""

    actor: int
    actor_type: str
    tick: int
    time_s: float
    max_distance_m: float | None
    max_tick: int | None


@dataclass(frozen=True)
class DistanceSeries:
    """How far apart two runs of an actor are, at the ticks that both have; arrays are read-only."""

    actor: int
    ticks: Ints
    distance_m: Floats


@dataclass(frozen=True)
class Parting:
    """Where run ``b`` parts from run ``a``: equal to the bit up to ``last_common_tick`` (None: from the start on).

    ``fields`` differ at ``tick``, in causal order; ``fields_left_out`` more do. ``followers`` are all actors that ever part,
    the first ones first. ``distance_m`` is how far the actor of the first field is apart at that tick.
    """

    a: int
    b: int
    tick: int
    time_s: float
    last_common_tick: int | None
    actor: int | None
    actor_type: str
    fields: tuple[FieldDifference, ...]
    fields_left_out: int
    distance_m: float | None
    last_common_event: str
    followers: tuple[Follower, ...]
    series: tuple[DistanceSeries, ...]


def find_parting(a: Repeat, b: Repeat, step_s: float) -> Parting | None:
    """Compare two runs; None if they are the same to the bit, events and end included."""
    if a.digest == b.digest:
        return None
    types = {actor.id: actor.type for actor in (*a.actors, *b.actors)}
    rows = {actor: (np.flatnonzero(a.actor == actor), np.flatnonzero(b.actor == actor)) for actor in sorted(types)}
    firsts = {actor: first_difference(a, b, *both) for actor, both in rows.items()}
    ticks = {actor: _tick_at(a, b, *rows[actor], index) for actor, index in firsts.items() if index is not None}
    events, ends = first_event_difference(a.events, b.events), a.end != b.end
    candidates = list(ticks.values())
    if events is not None:
        candidates.append(min(event.tick for event in events if event is not None))
    if ends:
        candidates.append(min(a.end.tick, b.end.tick))
    tick = min(candidates)
    fields = [field for actor in ticks if ticks[actor] == tick for field in _state_fields(a, b, rows[actor], actor, tick)]
    fields.sort(key=lambda field: _rank(field, a.channels))
    if events is not None and min(event.tick for event in events if event is not None) == tick:
        here, there = ("none" if event is None else event_words_in_full(event) for event in events)
        fields.append(FieldDifference(Part.EVENT, "event", None, here, there))
    if ends and min(a.end.tick, b.end.tick) == tick:
        here, there = (f"{run.end.reason} at tick {run.end.tick}" for run in (a, b))
        fields.append(FieldDifference(Part.END, "end", None, here, there))
    series = tuple(found for actor in rows if (found := _series(a, b, rows[actor], actor)) is not None)
    far = {distances.actor: distances for distances in series}
    first = fields[0].actor if fields else None
    return Parting(
        a=a.repeat,
        b=b.repeat,
        tick=tick,
        time_s=_time_at(a, b, tick, step_s),
        last_common_tick=_last_common(a, b, tick),
        actor=first,
        actor_type=types.get(first, "") if first is not None else "",
        fields=tuple(fields[:FIELDS_MOST]),
        fields_left_out=max(0, len(fields) - FIELDS_MOST),
        distance_m=_distance_at(far.get(first), tick) if first is not None else None,
        last_common_event=last_common_event(a, b, tick),
        followers=tuple(
            _follower(a, b, actor, types[actor], ticks[actor], far.get(actor), step_s)
            for actor in sorted(ticks, key=lambda actor: (ticks[actor], actor))
        ),
        series=series,
    )


def first_difference(a: Repeat, b: Repeat, rows_a: NDArray[np.intp], rows_b: NDArray[np.intp]) -> int | None:
    """Return the first of an actor's rows that differs, by bisection over its chain; None if the two histories are equal."""
    low, high = 0, min(len(rows_a), len(rows_b))
    while low < high:
        middle = (low + high) // 2
        if np.array_equal(a.digests[rows_a[middle]], b.digests[rows_b[middle]]):
            low = middle + 1
        else:
            high = middle
    return None if low == len(rows_a) == len(rows_b) else low


def ulp_distance(a: float, b: float, bits: int) -> int:
    """Count the floats of this width from ``a`` to ``b``: 1 for neighbours, 0 for equal ones; 0.0 and -0.0 are one apart."""
    kind = (np.float64, np.int64) if bits == 64 else (np.float32, np.int32)
    return abs(_ordinal(b, *kind) - _ordinal(a, *kind))


def _ordinal(value: float, floating: type[np.floating], integer: type[np.signedinteger]) -> int:
    with np.errstate(over="ignore"):  # beyond float32: infinity, the next after its largest
        bits = int(np.array([value], floating).view(integer)[0])
    # Negative floats count backwards: below -0.0, which is the one before 0.0.
    return bits if bits >= 0 else int(np.iinfo(integer).min) - bits - 1


def _tick_at(a: Repeat, b: Repeat, rows_a: NDArray[np.intp], rows_b: NDArray[np.intp], index: int) -> int:
    there = [int(run.tick[rows[index]]) for run, rows in ((a, rows_a), (b, rows_b)) if index < len(rows)]
    return min(there)


def _row_at(run: Repeat, rows: NDArray[np.intp], tick: int) -> int | None:
    position = int(np.searchsorted(run.tick[rows], tick))
    return int(rows[position]) if position < len(rows) and run.tick[rows[position]] == tick else None


def _state_fields(
    a: Repeat, b: Repeat, rows: tuple[NDArray[np.intp], NDArray[np.intp]], actor: int, tick: int
) -> list[FieldDifference]:
    row_a, row_b = _row_at(a, rows[0], tick), _row_at(b, rows[1], tick)
    if row_a is None or row_b is None:
        here, there = ("absent" if row is None else "present" for row in (row_a, row_b))
        return [FieldDifference(Part.PRESENCE, "presence", actor, here, there)]
    found = []
    values_a, values_b = [a.time_s[row_a], *a.values[row_a]], [b.time_s[row_b], *b.values[row_b]]
    for name, x, y in zip(("time_s", *a.channels), map(float, values_a), map(float, values_b), strict=True):
        if np.float64(x).tobytes() == np.float64(y).tobytes() or (math.isnan(x) and math.isnan(y)):
            continue
        part = Part.TIME if name == "time_s" else Part.COMMAND if name in COMMANDS else Part.STATE
        if math.isnan(x) or math.isnan(y):
            known_x, known_y = (None if math.isnan(value) else value for value in (x, y))
            found.append(FieldDifference(part, name, actor, known_x, known_y, unit_of(name)))
        else:
            apart = (y - x, ulp_distance(x, y, 64), ulp_distance(x, y, 32))
            found.append(FieldDifference(part, name, actor, x, y, unit_of(name), *apart))
    if not found:
        # Equal numbers of unlike actors: an id that is another type in the other run.
        here, there = (next((listed.type for listed in run.actors if listed.id == actor), "") for run in (a, b))
        found.append(FieldDifference(Part.PRESENCE, "type", actor, here, there))
    return found


def _rank(field: FieldDifference, channels: tuple[str, ...]) -> tuple[int, int, int]:
    """Where a field stands in causal order; actors by id, channels as the trace has them."""
    at = channels.index(field.name) if field.name in channels else -1
    if field.part is Part.TIME:
        rank = 0
    elif field.part is Part.PRESENCE:
        rank = len(_RANKS) + 2
    else:
        # What is no quantity of motion follows from it; how far resampling is off is no quantity of the world at all.
        ranks = [index for index, (_, names) in enumerate(_RANKS) if field.name in names]
        rank = 1 + (ranks[0] if ranks else len(_RANKS) + (2 if field.name == RESAMPLING else 0))
    return rank, field.actor or 0, at


def _series(a: Repeat, b: Repeat, rows: tuple[NDArray[np.intp], NDArray[np.intp]], actor: int) -> DistanceSeries | None:
    axes = [a.channels.index(name) for name in POSITION if name in a.channels]
    ticks, here, there = np.intersect1d(a.tick[rows[0]], b.tick[rows[1]], assume_unique=True, return_indices=True)
    apart = a.values[rows[0][here]][:, axes] - b.values[rows[1][there]][:, axes]
    distance_m = np.sqrt(np.sum(apart * apart, axis=1))
    if not len(ticks) or not np.any(distance_m > 0):
        return None
    for array in (ticks, distance_m):
        array.setflags(write=False)
    return DistanceSeries(actor, ticks, distance_m)


def _distance_at(series: DistanceSeries | None, tick: int) -> float | None:
    if series is None:
        return None
    position = int(np.searchsorted(series.ticks, tick))
    there = position < len(series.ticks) and series.ticks[position] == tick
    return float(series.distance_m[position]) if there else None


def _follower(
    a: Repeat, b: Repeat, actor: int, actor_type: str, tick: int, series: DistanceSeries | None, step_s: float
) -> Follower:
    worst = int(np.argmax(series.distance_m)) if series is not None else None
    most = None if series is None or worst is None else (float(series.distance_m[worst]), int(series.ticks[worst]))
    return Follower(actor, actor_type, tick, _time_at(a, b, tick, step_s), *(most or (None, None)))


def _time_at(a: Repeat, b: Repeat, tick: int, step_s: float) -> float:
    """When a tick was: as logged, else by the step. Both runs may have logged it; then it is the first run's time."""
    for run in (a, b):
        position = int(np.searchsorted(run.tick, tick))
        if position < len(run.tick) and run.tick[position] == tick:
            return float(run.time_s[position])
    return tick * step_s


def _last_common(a: Repeat, b: Repeat, tick: int) -> int | None:
    """The last tick before ``tick`` that both runs logged: up to it they are equal."""
    before = [run.tick[: int(np.searchsorted(run.tick, tick))] for run in (a, b)]
    ticks = [int(found[-1]) for found in before if len(found)]
    return min(ticks) if len(ticks) == 2 else None


def _show(value: float | str | None) -> str:
    return "not there" if value is None else repr(value) if isinstance(value, float) else value


def _count(units: int | None) -> str:
    """A number as it is while it can be read, then its size."""
    return str(units) if units is None or units < 1_000_000 else f"{units:.1e}"
