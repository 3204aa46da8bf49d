"""Monitors applied to a cell: every repeat gets a verdict and a margin, every moment an envelope of margins.

A cell is read once, in blocks, for all monitors together. A monitor that cannot be applied to a cell (an actor that is not in
the scenario, a channel that was not logged) says why and judges nothing: no verdict is made up.

In the same reading coverage is found: which situations a test came to, repeat by repeat, and whether that is the same in all of
them. A test that passes in every repeat may still test other things each time. A situation is a lane that was driven on, a band
of speed, a band of distance to the nearest other actor, a collision between two actors, any other event, a way to end.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from samepath.core.errors import InputError, SamepathError
from samepath.instrument.monitors.expression import Formula, Judged
from samepath.instrument.monitors.view import BASE_CHANNELS, Floats, MonitoredScene, NotApplicableError, RunsView
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import Actor, Event, EventKind, RunEnd

SPEED_BANDS_MPS: Final = (0.1, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0)
DISTANCE_BANDS_M: Final = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_MOST_SITUATIONS: Final = 10_000
# Of so many actors distances to the nearest other are looked at: pairs grow with the square.
_MOST_PAIRED: Final = 30


@dataclass(frozen=True, order=True)
class CoveredSituation:
    """Something that happens to an actor (0: to the whole run)."""

    kind: str  # "lane", "speed", "distance", "collision", "event" or "end"
    actor: int
    what: str

    def words(self) -> str:
        who = f"actor {self.actor}, " if self.actor else ""
        return f"{who}{self.kind} {self.what}"


@dataclass(frozen=True)
class CellCoverage:
    """In how many repeats each situation came about. Stable: each in all of them."""

    repeats: int
    situations: tuple[tuple[CoveredSituation, int], ...]

    @property
    def unstable(self) -> tuple[tuple[CoveredSituation, int], ...]:
        """Situations that only some repeats came to, the rarest first."""
        some = [entry for entry in self.situations if entry[1] < self.repeats]
        return tuple(sorted(some, key=lambda entry: (entry[1], entry[0])))

    @property
    def stable(self) -> bool:
        """Does every repeat come to the same situations?"""
        return not self.unstable

    def words(self) -> str:
        """Say it in one line."""
        total = len(self.situations)
        if self.stable:
            return f"all {self.repeats} repeats come to the same {total} situations"
        rare, count = self.unstable[0]
        return (
            f"{total - len(self.unstable)} of {total} situations come about in every repeat; "
            f"{rare.words()} in {count} of {self.repeats}"
        )


class CoverageFinder:
    """Collects situations, block by block."""

    def __init__(self) -> None:
        self._counts: Counter[CoveredSituation] = Counter()
        self._repeats = 0

    def look(self, view: RunsView) -> None:
        """Look at more repeats."""
        self._repeats += len(view.repeats)
        everybody = view.ids("all")
        for actor in everybody:
            self._bands(actor, "speed", view.speed(actor), SPEED_BANDS_MPS, "m/s")
            if len(everybody) > 1 and actor in everybody[:_MOST_PAIRED]:
                distance = view.nearest(actor, everybody, view.distance)
                self._bands(actor, "distance", distance, DISTANCE_BANDS_M, "m")
            if view.scene.roads is not None and not view.is_walker(actor):
                self._lanes(view, actor)
        for run in view.runs:
            found = {
                CoveredSituation("collision", event.actor or 0, _partner(event.other))
                if event.kind == EventKind.COLLISION
                else CoveredSituation("event", event.actor or 0, event.kind)
                for event in run.events
                if event.kind != EventKind.END
            }
            self._counts.update(sorted({*found, CoveredSituation("end", 0, run.end.reason)}))

    def _bands(self, actor: int, kind: str, values: Floats, bands: tuple[float, ...], unit: str) -> None:
        edges = np.array(bands)
        place = np.searchsorted(edges, values, "right")
        for index in range(len(bands) + 1):
            count = int(((place == index) & np.isfinite(values)).any(axis=1).sum())
            if count:
                self._counts[CoveredSituation(kind, actor, _band(bands, index, unit))] += count

    def _lanes(self, view: RunsView, actor: int) -> None:
        numbers = view.on_road(actor, lambda roads, x, y: roads.lane_number(x, y), "lane number")
        names = view.roads.lane_names()
        for number in np.unique(numbers[np.isfinite(numbers)]).astype(int).tolist():
            count = int((numbers == number).any(axis=1).sum())
            self._counts[CoveredSituation("lane", actor, names[number])] += count

    def result(self) -> CellCoverage:
        """What was found, by name."""
        # Of too many those are kept that only some repeats came to: cut off by name, an unstable cell could be called stable.
        rare_first = sorted(self._counts.items(), key=lambda entry: (entry[1] == self._repeats, entry[0]))
        return CellCoverage(self._repeats, tuple(sorted(rare_first[:_MOST_SITUATIONS])))


def _band(bands: tuple[float, ...], index: int, unit: str) -> str:
    if index == 0:
        return f"below {bands[0]:g} {unit}"
    if index == len(bands):
        return f"from {bands[-1]:g} {unit} on"
    return f"{bands[index - 1]:g} to {bands[index]:g} {unit}"


def _partner(other: int | None) -> str:
    return "with scenery" if other is None else f"with actor {other}"


# A lane is looked for once per place; margins of a repeat are one number each. This many of either is beyond any study.
MOST_MONITORS: Final = 200


@dataclass(frozen=True)
class Monitor:
    """An assertion: a formula, or a function of the user's own that gives margins. ``scenarios`` empty: all."""

    name: str
    formula: Formula | None = None
    function: "Callable[[MonitoredRun], Any] | None" = None
    each: str | int | None = None
    scenarios: tuple[str, ...] = ()
    source: str = ""  # what was written: the expression, or the function's name
    unit: str = ""


@dataclass(frozen=True)
class MonitorSet:
    """All monitors of a file, and what they know of the scene. ``covers``: is coverage asked for?"""

    monitors: tuple[Monitor, ...]
    scene: MonitoredScene = field(default_factory=MonitoredScene)
    covers: bool = True
    source: str = ""


@dataclass(frozen=True)
class RepeatVerdict:
    """What a monitor says of one repeat; ``passes`` None where it says nothing. ``tick`` is where the margin is smallest."""

    repeat: int
    passes: bool | None
    margin: float
    tick: int | None


@dataclass(frozen=True)
class MonitorTrace:
    """A monitor over a cell. ``low`` and ``high`` are the envelope of the margin at every tick, over all repeats."""

    name: str
    source: str
    unit: str
    verdicts: tuple[RepeatVerdict, ...]
    ticks: np.ndarray[Any, np.dtype[np.int64]]
    low: Floats
    high: Floats
    not_applicable: str = ""


@dataclass(frozen=True)
class MonitoredCell:
    """Everything that monitors found in a cell."""

    traces: tuple[MonitorTrace, ...]
    coverage: CellCoverage | None


class MonitoredRun:
    """One repeat, as a function of the user's own sees it: arrays over ticks, NaN where an actor is not there."""

    def __init__(self, view: RunsView, row: int) -> None:
        self._view, self._row = view, row
        run = view.runs[row]
        self.repeat: int = run.repeat
        self.scenario: str = view.header.scenario
        self.ticks, self.time_s, self.step_s = view.ticks, view.time_s, view.step_s
        self.actors: tuple[Actor, ...] = run.actors
        self.events: tuple[Event, ...] = run.events
        self.end: RunEnd = run.end

    def ids(self, name: str | int) -> tuple[int, ...]:
        """The actors that a word stands for: ego, others, all, vehicles, walkers, or a name given under actors."""
        return self._view.ids(name)

    def channel(self, name: str, actor: int) -> Floats:
        """A channel of the log, such as x_m."""
        return np.asarray(self._view.channel(name, actor)[self._row], np.float64)

    def speed(self, actor: int) -> Floats:
        """Speed on the ground."""
        return np.asarray(self._view.speed(actor)[self._row], np.float64)

    def acceleration(self, actor: int) -> Floats:
        """Change of speed."""
        return np.asarray(self._view.acceleration(actor)[self._row], np.float64)

    def distance(self, a: int, b: int) -> Floats:
        """Between the actors' points."""
        return np.asarray(self._view.distance(a, b)[self._row], np.float64)

    def gap(self, a: int, b: int) -> Floats:
        """Between outlines."""
        return np.asarray(self._view.gap(a, b)[self._row], np.float64)

    def ttc(self, a: int, b: int) -> Floats:
        """Time until outlines touch."""
        return np.asarray(self._view.time_to_collision(a, b)[self._row], np.float64)


@dataclass
class _Watch:
    """A monitor at work on a cell."""

    monitor: Monitor
    low: Floats
    high: Floats
    verdicts: list[RepeatVerdict] = field(default_factory=list)
    not_applicable: str = ""

    def look(self, view: RunsView) -> None:
        if self.not_applicable:
            return
        try:
            judged = _judge(self.monitor, view)
        except NotApplicableError as error:
            # What a block lacks the cell lacks: actors and channels are the cell's.
            self.not_applicable, self.verdicts = str(error), []
            return
        except SamepathError as error:
            raise InputError(f"monitor {self.monitor.name!r}: {error}") from error
        self.low = np.fmin(self.low, np.fmin.reduce(judged.margin, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(judged.margin, axis=0))
        at_start = self.monitor.formula is not None and self.monitor.formula.at_start
        for row, repeat in enumerate(view.repeats):
            self.verdicts.append(_verdict(repeat, judged.margin[row], judged.holds[row], view.ticks, at_start=at_start))


def watch_cell(cell: CellTrace, monitors: MonitorSet) -> MonitoredCell:
    """Judge every repeat of a cell by every monitor that is meant for its scenario."""
    scenario = cell.header.scenario
    nothing = np.full(len(cell.ticks), np.nan)
    watches = [
        _Watch(monitor, nothing, nothing)
        for monitor in monitors.monitors
        if not monitor.scenarios or scenario in monitor.scenarios
    ]
    if not watches and not monitors.covers:
        return MonitoredCell((), None)
    asked = {name for watch in watches if watch.monitor.formula for name in watch.monitor.formula.channels}
    everything = any(watch.monitor.function is not None for watch in watches)
    channels = [name for name in cell.header.channels if everything or name in asked or name in BASE_CHANNELS]
    coverage = CoverageFinder() if monitors.covers else None
    for block in cell.blocks(channels):
        view = RunsView(cell, block, monitors.scene)
        for watch in watches:
            watch.look(view)
        if coverage is not None:
            coverage.look(view)
    traces = tuple(
        MonitorTrace(
            name=watch.monitor.name,
            source=watch.monitor.source,
            unit=watch.monitor.unit,
            verdicts=tuple(watch.verdicts),
            ticks=cell.ticks,
            low=watch.low,
            high=watch.high,
            not_applicable=watch.not_applicable,
        )
        for watch in watches
    )
    return MonitoredCell(traces, None if coverage is None else coverage.result())


def _judge(monitor: Monitor, view: RunsView) -> Judged:
    if monitor.function is not None:
        return _called(monitor, view)
    formula = monitor.formula
    if formula is None:
        raise InputError("an expression or a function was wanted")
    if monitor.each is None:
        if formula.each:
            raise InputError("its expression says actor: say of whom, such as for: vehicles")
        return formula.judge(view, 0)
    found = [formula.judge(view, actor) for actor in view.ids(monitor.each)]
    return Judged(np.fmin.reduce([judged.margin for judged in found]), np.fmin.reduce([judged.holds for judged in found]))


def _called(monitor: Monitor, view: RunsView) -> Judged:
    """Ask the user's function, repeat by repeat."""
    rows = []
    for row in range(len(view.repeats)):
        try:
            given = monitor.function(MonitoredRun(view, row))  # type: ignore[misc]
            if isinstance(given, bool | np.bool_):
                given = np.inf if given else -np.inf
            margin = np.broadcast_to(np.asarray(given, np.float64), view.shape[1:])
        except (NotApplicableError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:  # whatever the user's code does wrong is told as the user's
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            wanted = f"{monitor.source} was to return a margin, or one for each of {view.shape[1]} ticks"
            raise InputError(f"{wanted}: {words}") from error
        rows.append(margin)
    margins = np.array(rows)
    return Judged(margins, np.where(np.isnan(margins), np.nan, (margins >= 0).astype(np.float64)))


def _verdict(
    repeat: int, margin: Floats, holds: Floats, ticks: np.ndarray[Any, np.dtype[np.int64]], *, at_start: bool
) -> RepeatVerdict:
    known = np.flatnonzero(~np.isnan(holds))
    if not len(known):
        return RepeatVerdict(repeat, None, float("nan"), None)
    # A formula about the whole run is asked at the first moment that it has a value for, any other at its worst.
    at = int(known[0]) if at_start else int(known[np.argmin(margin[known])])
    passes = bool(holds[at]) if at_start else bool(np.min(holds[known]))
    return RepeatVerdict(repeat, passes, float(margin[at]), int(ticks[at]))
