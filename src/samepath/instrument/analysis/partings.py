"""Partings: where two runs part for the first time, in everything that differs there, and who follows when.

Digests are chained per actor, so that «equal up to its i-th row» is one comparison: the first row of an actor that differs is
found by bisection, not by reading the rows. What differs at the first tick is listed in causal order, because the first name in
that list is what a reader looks at first: how long the step was, then commands, then what they moved, accelerations before
velocities before positions. Each difference comes with both values, in the channel's unit and in units in the last place, of
float64 and of float32: a parting of one float32 unit is a rounding, one of a million is not.

Growth: how two runs come apart after they have parted, by one rule with its numbers in sight.

The distance d of two runs at a tick is that of the actor farthest apart. From the first tick at which it is not zero:

1. It never reaches ``GROWS`` times its first value. If it also stays above half of its largest it is a ``step``, made at the
   parting itself; otherwise ``bounded``: it goes up and down.
2. Between two neighbouring ticks ln d rises by at least ``JUMPS`` and by at least half of its whole rise: a ``step``. An event
   within a tick of it, in either run, is its name.
3. Two curves are fitted to ln d, over the ticks until d is half of its largest: exponential, ln d = c + r t, and power,
   ln d = c + p ln t with t from the tick before the parting. It is ``exponential``, chaos, with the rate r per second and the
   time ln 2 / r in which d doubles, if that curve explains ``SURE`` of the variance, leaves less than half of the squares that
   the power leaves, and d rises by ``CHAOS`` times at least: over less, the two look alike. It is ``linear``, a timing that
   differs (p near 1) or an acceleration (p near 2), if the power explains ``FAIR`` of it and p is from ``SLOWEST`` to
   ``FASTEST``.
4. Anything else, and less than ``POINTS`` ticks, is ``undecided``.

Sampling: were two runs logged at other moments? Then their rows differ, and their paths may not.

A log that a script writes whenever it gets round to it has other moments in every repeat, whether or not its time column says
so. Row by row such logs part at once, and a spread computed from them is mostly the road driven between two moments. So each
row of one run is looked for on the paths of the other, at *one* moment for all actors, no farther off than the time between two
rows: the moment is that of the actor that moves fastest, and everybody else must be in place then as well. The straight line
between two samples is off by at most an eighth of the second difference there (h² |a| / 8), and each number by the rounding of
the log. Where all rows of everybody lie within that, nobody can tell the paths apart: the moments differ. Where a car has
driven otherwise, no common moment puts it and the others back in place.
"""

import math
from dataclasses import dataclass, replace
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
from samepath.core.units import format_length
from samepath.instrument.analysis.divergence import (
    FirstDivergence,
    RepeatDeviation,
    event_words,
    event_words_in_full,
    first_event_difference,
    last_common_event,
    with_state_digests,
)
from samepath.instrument.analysis.outcomes import Outcome
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import Event, EventKind, Repeat

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

    @property
    def is_of_resampling(self) -> bool:
        """Return True if the runs differ in nothing but how far resampling may be off."""
        return all(field.name == RESAMPLING for field in self.fields)

    @property
    def first(self) -> FirstDivergence:
        """The first difference alone: the first field in causal order, and the others of the same actor."""
        field = self.fields[0]
        return FirstDivergence(
            reference_repeat=self.a,
            repeat=self.b,
            tick=self.tick,
            time_s=self.time_s,
            actor=self.actor,
            actor_type=self.actor_type,
            field=field.name,
            reference_value=field.a,
            value=field.b,
            distance_m=self.distance_m,
            differing_fields=tuple(other.name for other in self.fields if other.actor == field.actor),
            last_common_event=self.last_common_event,
        )


def find_first(
    cell: CellTrace, outcomes: tuple[Outcome, ...], deviations: tuple[RepeatDeviation, ...]
) -> FirstDivergence | None:
    """Return the earliest divergence from the largest outcome; ties go to the lowest repeat.

    A run that differs in nothing but how far resampling may be off comes last.
    """
    ticks = sorted((found.divergent_tick, found.repeat) for found in deviations if found.divergent_tick is not None)
    if not ticks:
        return None
    reference = cell.load(outcomes[0].repeats[0])
    others: Parting | None = None
    for repeat in dict.fromkeys(_first_of(outcomes, repeat) for _, repeat in ticks):
        parting = find_parting(reference, cell.load(repeat), cell.header.step_s)
        if parting is not None and not parting.is_of_resampling:
            return parting.first
        others = others or parting
    return None if others is None else others.first


def _first_of(outcomes: tuple[Outcome, ...], repeat: int) -> int:
    """Return the lowest repeat that has the same bits as this one."""
    return next(outcome.repeats[0] for outcome in outcomes if repeat in outcome.repeats)


def find_parting(a: Repeat, b: Repeat, step_s: float) -> Parting | None:
    """Compare two runs: states, presence, types, events, end. None if they are the same to the bit.

    Report, ``explain``, ``check``, golden files and the pytest plugin name the first divergence by this function. How far
    resampling may be off is no quantity of the world: it counts only where nothing else differs.
    """
    if a.digest == b.digest:
        return None
    types = {actor.id: actor.type for actor in (*a.actors, *b.actors)}
    rows = {actor: (np.flatnonzero(a.actor == actor), np.flatnonzero(b.actor == actor)) for actor in sorted(types)}
    events, ends = first_event_difference(a.events, b.events), a.end != b.end
    ticks = _ticks_of_actors(with_state_digests(a), with_state_digests(b), rows)
    if not ticks and events is None and not ends:
        ticks = _ticks_of_actors(a, b, rows)
        if not ticks:
            return None
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
        distance_m=None if first is None else _distance_at(a, b, rows[first], tick),
        last_common_event=last_common_event(a, b, tick),
        followers=tuple(
            _follower(a, b, actor, types[actor], ticks[actor], far.get(actor), step_s)
            for actor in sorted(ticks, key=lambda actor: (ticks[actor], actor))
        ),
        series=series,
    )


def _ticks_of_actors(a: Repeat, b: Repeat, rows: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]]) -> dict[int, int]:
    """Return the tick from which each actor's history differs, without actors whose histories are equal."""
    firsts = {actor: first_difference(a, b, *both) for actor, both in rows.items()}
    return {actor: _tick_at(a, b, *rows[actor], index) for actor, index in firsts.items() if index is not None}


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
    here, there = (next((listed.type for listed in run.actors if listed.id == actor), "") for run in (a, b))
    if here != there:
        found.append(FieldDifference(Part.PRESENCE, "type", actor, here, there))
    return found


def _rank(field: FieldDifference, channels: tuple[str, ...]) -> tuple[int, int, int]:
    """Where a field stands in causal order; actors by id, channels as the trace has them."""
    at = channels.index(field.name) if field.name in channels else -1
    return causal_rank(field.name), field.actor or 0, at


def causal_rank(name: str) -> int:
    """Return where a field comes in causal order: time, commands, accelerations, velocities, places, others, presence."""
    if name == "time_s":
        return 0
    if name in ("presence", "type"):
        return len(_RANKS) + 2
    # Other channels follow from motion. How far resampling is off is no quantity of the world.
    ranks = [index for index, (_, names) in enumerate(_RANKS) if name in names]
    return 1 + (ranks[0] if ranks else len(_RANKS) + (2 if name == RESAMPLING else 0))


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


def _distance_at(a: Repeat, b: Repeat, rows: tuple[NDArray[np.intp], NDArray[np.intp]], tick: int) -> float | None:
    row_a, row_b = _row_at(a, rows[0], tick), _row_at(b, rows[1], tick)
    axes = [a.channels.index(name) for name in POSITION if name in a.channels]
    if row_a is None or row_b is None or not axes:
        return None
    distance_m = math.dist(a.values[row_a, axes].tolist(), b.values[row_b, axes].tolist())
    return distance_m if math.isfinite(distance_m) else None


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


GROWS: Final = 3.0
JUMPS: Final = math.log(10.0)
CHAOS: Final = 1000.0
SURE, FAIR = 0.9, 0.8
SLOWEST, FASTEST = 0.5, 3.0
POINTS: Final = 8


class GrowthKind(StrEnum):
    """How the distance grows."""

    NONE = "none"
    EXPONENTIAL = "exponential"
    STEP = "step"
    LINEAR = "linear"
    BOUNDED = "bounded"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Growth:
    """How two runs come apart.

    ``rate_per_s`` and ``doubling_s`` are of exponential growth, ``speed_mps`` and ``power`` of linear growth, ``jump_tick`` and
    ``event`` of a step (``event`` is empty where nothing was reported there).
    """

    kind: GrowthKind
    first_m: float = 0.0
    max_m: float = 0.0
    last_m: float = 0.0
    rate_per_s: float | None = None
    doubling_s: float | None = None
    speed_mps: float | None = None
    power: float | None = None
    jump_tick: int | None = None
    event: str = ""

    def words(self) -> str:
        """Say it in one sentence."""
        ends = f"from {format_length(self.first_m)} to at most {format_length(self.max_m)}"
        match self.kind:
            case GrowthKind.NONE:
                return "no position ever differs"
            case GrowthKind.EXPONENTIAL:
                pace = f"{self.rate_per_s:.3g} per second, doubling every {self.doubling_s:.3g} s"
                return f"the distance grows exponentially ({pace}), {ends}: chaos makes a small difference large"
            case GrowthKind.STEP:
                what = f", the {self.event}" if self.event else ", where no event was reported"
                return f"the distance jumps at tick {self.jump_tick}{what}; it goes {ends}"
            case GrowthKind.LINEAR:
                how = (
                    "as time passes"
                    if self.power is not None and self.power < 1.5
                    else f"as time to the power {self.power:.2g}"
                )
                pace = f"about {self.speed_mps:.2g} m/s"
                return f"the distance grows {how}, {pace}, {ends}: as a difference of timing does, not chaos"
            case GrowthKind.BOUNDED:
                return f"the distance does not grow: it goes {ends} and comes back"
            case GrowthKind.UNDECIDED:
                return f"the distance goes {ends}; its growth is of no plain kind"


def find_growth(parting: Parting, events_a: tuple[Event, ...], events_b: tuple[Event, ...], step_s: float) -> Growth:
    """Say how the distance of two runs grows after they have parted."""
    ticks, distance_m = farthest(parting)
    positive = np.flatnonzero(distance_m > 0)
    if not len(positive):
        return Growth(GrowthKind.NONE)
    ticks, distance_m = ticks[positive[0] :], distance_m[positive[0] :]
    kept = distance_m > 0  # runs that meet again for a tick have no logarithm there
    ticks, d = ticks[kept], distance_m[kept]
    first_m, max_m, last_m = float(d[0]), float(d.max()), float(d[-1])
    sizes = Growth(GrowthKind.UNDECIDED, first_m, max_m, last_m)
    if max_m < GROWS * first_m:
        return _without_growth(ticks, d, sizes, events_a, events_b)
    y = np.log(d)
    rises = np.diff(y)
    jump = int(np.argmax(rises))
    if rises[jump] >= max(JUMPS, 0.5 * (y.max() - y[0])):
        at = int(ticks[jump + 1])
        return replace(sizes, kind=GrowthKind.STEP, jump_tick=at, event=_event_at(at, events_a, events_b))
    half = int(np.flatnonzero(d >= 0.5 * max_m)[0]) + 1
    return _fitted(ticks[:half], d[:half], sizes, step_s)


def _without_growth(ticks: Ints, d: Floats, sizes: Growth, events_a: tuple[Event, ...], events_b: tuple[Event, ...]) -> Growth:
    if len(d) < POINTS:
        return sizes
    if d.min() < 0.5 * d.max():
        return replace(sizes, kind=GrowthKind.BOUNDED)
    at = int(ticks[0])
    return replace(sizes, kind=GrowthKind.STEP, jump_tick=at, event=_event_at(at, events_a, events_b))


def _fitted(ticks: Ints, d: Floats, sizes: Growth, step_s: float) -> Growth:
    if len(d) < POINTS:
        return sizes
    since_s = (ticks - ticks[0] + 1) * step_s
    y = np.log(d)
    whole = float(np.sum((y - y.mean()) ** 2))
    rate_per_s, exponential = _fit(since_s, y)
    power, powered = _fit(np.log(since_s), y)
    rises = sizes.max_m >= CHAOS * sizes.first_m
    if rises and rate_per_s > 0 and exponential < 0.5 * powered and exponential <= (1 - SURE) * whole:
        return replace(sizes, kind=GrowthKind.EXPONENTIAL, rate_per_s=rate_per_s, doubling_s=math.log(2.0) / rate_per_s)
    if SLOWEST <= power <= FASTEST and powered <= (1 - FAIR) * whole:
        return replace(sizes, kind=GrowthKind.LINEAR, speed_mps=float(np.median(d / since_s)), power=power)
    return sizes


def farthest(parting: Parting) -> tuple[Ints, Floats]:
    """The distance of the actor farthest apart at every tick from the parting on."""
    ticks = np.unique(np.concatenate([series.ticks for series in parting.series] or [np.empty(0, np.int64)]))
    most = np.zeros(len(ticks))
    for series in parting.series:
        at = np.searchsorted(ticks, series.ticks)
        most[at] = np.maximum(most[at], series.distance_m)
    since = ticks >= parting.tick
    return ticks[since], most[since]


def _fit(x: Floats, y: Floats) -> tuple[float, float]:
    """Fit a line; return its slope and the sum of squares that it leaves."""
    centred = x - x.mean()
    slope = float(np.sum(centred * (y - y.mean())) / np.sum(centred * centred))
    left = y - y.mean() - slope * centred
    return slope, float(np.sum(left * left))


def _event_at(tick: int, events_a: tuple[Event, ...], events_b: tuple[Event, ...]) -> str:
    """Name what happened within a tick of ``tick``: what one run alone has first, then collisions, then the nearest."""
    both = {event.to_bytes() for event in events_a} & {event.to_bytes() for event in events_b}
    every = (*events_a, *events_b)
    near = [
        (event.to_bytes() in both, event.kind != EventKind.COLLISION, abs(event.tick - tick), index)
        for index, event in enumerate(every)
        if abs(event.tick - tick) <= 1 and event.kind != EventKind.SPAWN
    ]
    return event_words(every[min(near)[-1]]) if near else ""


# The second difference is itself taken from samples: it may be larger between two of them.
_MARGIN: Final = 2.0
_DECIMALS_MOST: Final = 9
# So many rows are looked for, evenly spread: more would only tell the same again.
_ROWS_MOST: Final = 400
_LEAST_ROWS: Final = 5


@dataclass(frozen=True)
class Sampling:
    """Two runs that were logged at other moments, as far as their paths tell.

    ``shift_low_s`` to ``shift_high_s``: how much later on the path of the second run the rows of the first are. ``apart_m`` is
    how far paths are apart at the row where that exceeds ``open_m`` most, which is what sampling and rounding leave open there.
    """

    rows: int
    moments_elsewhere: int
    shift_low_s: float
    shift_high_s: float
    apart_m: float
    open_m: float

    @property
    def same_paths(self) -> bool:
        """Is no difference of the paths to be seen?"""
        return self.apart_m <= self.open_m

    def words(self) -> str:
        """Say it in one sentence."""
        low, high = f"{self.shift_low_s:.3g}", f"{self.shift_high_s:.3g}"
        when = f"{low} s" if low == high else f"{low} to {high} s"
        apart, room = format_length(self.apart_m), format_length(self.open_m)
        if self.same_paths:
            return (
                f"the runs were logged at other moments: every row of one is on the paths of the other {when} later, for all "
                f"actors at once, within {apart} where sampling and rounding leave {room} open. "
                "The moments differ, not the paths"
            )
        return (
            f"the runs were logged at other moments ({self.moments_elsewhere} are in one log only), and their paths differ as "
            f"well: {apart} apart where sampling and rounding leave {room} open"
        )


def find_sampling(a: Repeat, b: Repeat) -> Sampling | None:
    """Look for the rows of one run on the paths of the other; None where other moments explain nothing."""
    paths = _paths(a, b)
    if not paths:
        return None
    moments_a, moments_b = np.unique(a.time_s), np.unique(b.time_s)
    low, high = max(moments_a[0], moments_b[0]), min(moments_a[-1], moments_b[-1])
    within = [moments[(moments >= low) & (moments <= high)] for moments in (moments_a, moments_b)]
    elsewhere = len(np.setxor1d(*within)) + int(moments_a[0] != moments_b[0])
    gap_s = max(float(np.median(np.diff(moments))) for moments in (moments_a, moments_b))
    rows = within[0][:: max(1, -(-len(within[0]) // _ROWS_MOST))]
    # Of the whole log: somebody who stands at a round number does not make it a coarse one.
    rounding_m = _rounding(np.concatenate([path[1] for pair in paths for path in pair]))
    shifts, worst = [], (-np.inf, 0.0, 0.0)
    for at_s in rows.tolist():
        found = _row(paths, at_s, gap_s, rounding_m)
        if found is not None:
            shifts.append(found[0])
            worst = max(worst, (found[1] - found[2], found[1], found[2]))
    if len(shifts) < _LEAST_ROWS:
        return None
    sampling = Sampling(len(shifts), elsewhere, min(shifts), max(shifts), worst[1], worst[2])
    # Other moments are other throughout: a gap or two are findings of their own, and equal moments explain nothing.
    if sampling.same_paths:
        return sampling if elsewhere or sampling.shift_low_s or sampling.shift_high_s else None
    return sampling if elsewhere * 10 >= len(within[0]) else None


# Moments, positions, and how far a straight line between neighbours may be off, of one actor.
_Path = tuple[Floats, Floats, Floats]


def _paths(a: Repeat, b: Repeat) -> list[tuple[_Path, _Path]]:
    axes = [a.channels.index(name) for name in POSITION if name in a.channels]
    found = []
    for actor in sorted({listed.id for listed in a.actors} & {listed.id for listed in b.actors}):
        ours, theirs = ((run.time_s[run.actor == actor], run.values[run.actor == actor][:, axes]) for run in (a, b))
        rising = all(len(path[0]) >= _LEAST_ROWS and np.all(np.diff(path[0]) > 0) for path in (ours, theirs))
        if rising and not np.isnan(ours[1]).any() and not np.isnan(theirs[1]).any():
            found.append(((*ours, _open(*ours)), (*theirs, _open(*theirs))))
    return found


def _row(paths: list[tuple[_Path, _Path]], at_s: float, gap_s: float, rounding_m: float) -> tuple[float, float, float] | None:
    """Find the moment of the second run at which everybody is where the first has them at ``at_s``.

    Returns how much later that is, and the distance and what is left open of the actor who is farthest beyond it.
    """
    there = [(ours, theirs) for ours, theirs in paths if ours[0][0] <= at_s <= ours[0][-1] and _spans(theirs, at_s, gap_s)]
    if not there:
        return None
    ours, theirs = max(there, key=lambda pair: _speed(pair[0], at_s))
    moment_s = _nearest(theirs, _position(ours, at_s), at_s, gap_s)
    worst = (-np.inf, 0.0, 0.0)
    for ours, theirs in there:
        apart_m = float(np.sqrt(np.sum((_position(ours, at_s) - _position(theirs, moment_s)) ** 2)))
        open_m = _at_interval(theirs[2], theirs, moment_s) + _at_interval(ours[2], ours, at_s) + rounding_m
        worst = max(worst, (apart_m - open_m, apart_m, open_m))
    return moment_s - at_s, worst[1], worst[2]


def _spans(path: _Path, at_s: float, gap_s: float) -> bool:
    """Does a path have all moments within a gap of this one? At its ends a row may lie beyond it."""
    return bool(path[0][0] + gap_s <= at_s <= path[0][-1] - gap_s)


def _nearest(path: _Path, point: Floats, at_s: float, gap_s: float) -> float:
    """The moment within a gap of ``at_s`` at which a path is nearest to a point; of equally near ones, the nearest in time."""
    time_s, position, _ = path
    first, last = np.searchsorted(time_s, [at_s - gap_s, at_s + gap_s])
    segments = np.arange(max(0, int(first) - 1), min(len(time_s) - 1, int(last) + 1))
    along = position[segments + 1] - position[segments]
    squares = np.sum(along * along, axis=1)
    share = np.sum((point - position[segments]) * along, axis=1) / np.where(squares > 0, squares, 1.0)
    moments = time_s[segments] + np.clip(share, 0.0, 1.0) * (time_s[segments + 1] - time_s[segments])
    # Where nobody moves every moment is as near: then it is the same one.
    moments = np.append(np.clip(moments, at_s - gap_s, at_s + gap_s), at_s)
    apart = [float(np.sum((point - _position(path, moment)) ** 2)) for moment in moments.tolist()]
    return float(min(zip(apart, np.abs(moments - at_s).tolist(), moments.tolist(), strict=True))[2])


def _position(path: _Path, at_s: float) -> Floats:
    return np.array([np.interp(at_s, path[0], column) for column in path[1].T])


def _speed(path: _Path, at_s: float) -> float:
    interval = _interval(path, at_s)
    moved = path[1][interval + 1] - path[1][interval]
    return float(np.sqrt(np.sum(moved * moved)) / (path[0][interval + 1] - path[0][interval]))


def _interval(path: _Path, at_s: float) -> int:
    return int(np.clip(np.searchsorted(path[0], at_s, side="right") - 1, 0, len(path[0]) - 2))


def _at_interval(values: Floats, path: _Path, at_s: float) -> float:
    """What is left open at a moment; nothing at a sample itself."""
    interval = _interval(path, at_s)
    return 0.0 if at_s in (path[0][interval], path[0][interval + 1]) else float(values[interval])


def _open(time_s: Floats, position: Floats) -> Floats:
    """How far a straight line between two samples may be off, by interval."""
    gaps = np.diff(time_s)
    speeds = np.diff(position, axis=0) / gaps[:, None]
    bends = np.sqrt(np.sum(np.diff(speeds, axis=0) ** 2, axis=1)) / (0.5 * (gaps[1:] + gaps[:-1]))
    # The bend of an interval: of both its ends together, because a start or a stop within it shows half at each.
    ends = np.concatenate(([bends[0]], bends[1:] + bends[:-1], [bends[-1]]))
    result: Floats = _MARGIN * gaps**2 * ends / 8.0
    return result


def _rounding(values: Floats) -> float:
    """How far two rounded positions may be apart that were equal; 0 where a log has all its digits."""
    for decimals in range(_DECIMALS_MOST):
        if np.array_equal(np.round(values, decimals), values):
            return float(10.0**-decimals * np.sqrt(values.shape[1]))
    return 0.0
