"""The analysis of one cell, end to end: two readings of the trace, one record of results.

With it goes how long frames took, and in them the game and drawing, over all repeats: what Unreal's ``stat unit`` shows. The
paper asks for it twice: to watch an engine with it (Section IV-E), and to log the latency of the game loop beside actors'
positions (Section VII-D2). Times are the host's: no figure of them is in a digest or a verdict.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import ChannelLimit
from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument.analysis.assertions import CellAssertions, assess
from samepath.instrument.analysis.conditions import ConditionCheck, PaceFinder, ProcessPosition, RunPace, read_host
from samepath.instrument.analysis.divergence import (
    Finding,
    FirstDivergence,
    PairDistance,
    RepeatDeviation,
    Scan,
    find_differences,
    scan,
)
from samepath.instrument.analysis.explain import ExplainedParting, explain_first
from samepath.instrument.analysis.outcomes import (
    MAX_CLUSTERED,
    Clusters,
    EndingGroup,
    Outcome,
    OutcomeTree,
    classify,
    find_clusters,
    find_endings,
    grow_tree,
)
from samepath.instrument.analysis.partings import find_first
from samepath.instrument.analysis.phases import COLLISION, PhaseBoundary, Split, find_boundary
from samepath.instrument.analysis.sensors import SensorAnalysis, analyse_sensors
from samepath.instrument.analysis.spread import Accuracy, CellSpread, SpreadSummary, compare, measure, summarise
from samepath.instrument.analysis.verdict import (
    Criterion,
    Judgement,
    LimitResult,
    RateBounds,
    default_actors,
    judge,
    judge_limits,
    limit_summary,
    position_beyond,
    rate_bounds,
)
from samepath.instrument.monitors.monitor import MonitorSet, watch_cell
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import Actor, Header, HostLog

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TimeSummary:
    """Seconds: in the median frame, in all but one of a hundred, and in the longest."""

    median_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, values_s: Floats) -> "TimeSummary":
        """Summarise the times of at least one frame."""
        median_s, p99_s = np.quantile(values_s, [0.5, 0.99], method="inverted_cdf").tolist()
        return cls(median_s, p99_s, float(values_s.max()))

    def words(self) -> str:
        """Print it in milliseconds: ``2.51 ms (99 %: 4.1 ms)``."""
        return f"{1e3 * self.median_s:.3g} ms (99 %: {1e3 * self.p99_s:.3g} ms)"


@dataclass(frozen=True)
class FrameTimes:
    """The frames of a cell: a whole one until the next began, the work in it but for drawing, and drawing."""

    frames: int
    frame: TimeSummary
    game: TimeSummary
    draw: TimeSummary

    def words(self) -> str:
        """Say it in one line."""
        parts = f"frame {self.frame.words()}, game {self.game.words()}, draw {self.draw.words()}"
        return f"{self.frames} frames, in the median: {parts}"


class FrameTimesFinder:
    """Notes the frames of every repeat while somebody else reads the host logs."""

    def __init__(self) -> None:
        self._columns: tuple[list[Floats], list[Floats], list[Floats]] = ([], [], [])

    def watch(self, host_logs: Iterable[tuple[int, HostLog]]) -> Iterator[tuple[int, HostLog]]:
        """Yield the logs as they come."""
        for repeat, log in host_logs:
            for column, values in zip(self._columns, (log.frame_s, log.game_s, log.draw_s), strict=True):
                if len(values):
                    column.append(values)
            yield repeat, log

    def result(self) -> FrameTimes | None:
        """Return what was found; None where the engine tells no times of frames."""
        if not all(self._columns):
            return None
        frame, game, draw = (np.concatenate(column) for column in self._columns)
        return FrameTimes(len(frame), TimeSummary.of(frame), TimeSummary.of(game), TimeSummary.of(draw))


Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class AnalysisOptions:
    """How to judge. The defaults are the paper's case study: 1 cm, split at the first collision."""

    tolerance_m: float = 0.01
    criterion: Criterion = Criterion.DEVIATION
    split: Split = COLLISION
    confidence: float = 0.95
    structure_fails: bool = True
    monitors: MonitorSet | None = None
    limits: tuple[ChannelLimit, ...] = ()
    references: tuple[CellTrace, ...] = ()


@dataclass(frozen=True)
class Phase:
    """A part of the runs: its figures and its own verdict. ``judgement`` is None where the phase is empty."""

    name: str
    summary: SpreadSummary
    judgement: Judgement | None


@dataclass(frozen=True)
class CellAnalysis:
    """Everything known about a cell. Arrays are read-only and only for drawing.

    ``conditions`` holds what was asked of the host against what was measured; ``places`` says where each repeat was run;
    ``sensors`` compares what was sensed; ``pace`` is how fast it ran, ``frame_times`` how long frames took. They are empty
    where nobody noted it, as in imported logs. ``endings`` groups repeats by what the test came to. ``why`` explains the
    first divergence. ``assertions`` is what monitors say, None where there are none. ``limits`` are the quantities that
    were limited besides positions, and ``beyond`` and ``beyond_before`` the repeats that overstep the tolerance or a limit,
    in whole runs and before the split. ``accuracy`` compares with a reference, where one was given.
    """

    header: Header
    repeats: int
    actors: tuple[Actor, ...]
    options: AnalysisOptions
    spread: CellSpread
    summary: SpreadSummary
    judgement: Judgement
    judgement_by_sigma: Judgement
    findings: tuple[Finding, ...]
    boundary: PhaseBoundary
    first_collision_tick: int | None
    before: Phase
    after: Phase
    after_involved: Phase
    after_uninvolved: Phase
    before_own: Phase
    outcomes: tuple[Outcome, ...]
    tree: OutcomeTree
    clusters: Clusters
    bounds: RateBounds
    deviations: tuple[RepeatDeviation, ...]
    pairs: tuple[PairDistance, ...]
    beyond_tolerance: int
    first_divergence: FirstDivergence | None
    paths: dict[int, Floats]
    conditions: tuple[ConditionCheck, ...] = ()
    places: tuple[ProcessPosition, ...] = ()
    sensors: tuple[SensorAnalysis, ...] = ()
    endings: tuple[EndingGroup, ...] = ()
    pace: RunPace | None = None
    frame_times: FrameTimes | None = None
    why: ExplainedParting | None = None
    assertions: CellAssertions | None = None
    limits: tuple[LimitResult, ...] = ()
    beyond: frozenset[int] = frozenset()
    beyond_before: frozenset[int] = frozenset()
    accuracy: Accuracy | None = None
    # The number of repeats was decided while they were made.
    grown: bool = False

    @property
    def divergent(self) -> int:
        """How many repeats are not of the largest outcome."""
        return self.bounds.divergent

    def __repr__(self) -> str:
        # Not the dataclass's own: that prints every array, 3 MB of text for nine small cells at the end of a notebook's input.
        figures = (("max sigma", self.summary.max_sigma_m), ("max deviation", self.summary.max_deviation_m))
        known = [f"{name} {format_length(figure_m)}" for name, figure_m in figures if figure_m is not None]
        words = [self.judgement.verdict.value, f"{self.repeats} repeats", *known]
        limit = format_length(self.options.tolerance_m)
        return f"<CellAnalysis {self.header.cell!r} of {self.header.experiment!r}: {', '.join(words)}, tolerance {limit}>"


def analyse_cell(cell: CellTrace, options: AnalysisOptions | None = None) -> CellAnalysis:
    """Measure, compare, explain and judge one cell."""
    options = options or AnalysisOptions()
    count = len(cell.runs)
    if count < 2:
        raise InputError(f"cell {cell.header.cell!r}: at least 2 repeats are needed to compare, but {count} came")
    if cell.columns == 0:
        raise InputError(f"cell {cell.header.cell!r}: none of its {count} repeats logged a state: nothing to compare")
    spread = measure(cell, _growth_sizes(count))
    outcomes = classify(cell)
    boundary = find_boundary(cell, options.split)
    found = scan(cell, spread, outcomes, MAX_CLUSTERED, boundary.before(spread))
    # Known only after the second reading. Repeats of one outcome have the same bits, so that of its first is that of all.
    split_ticks = {deviation.repeat: deviation.divergent_tick for deviation in found.deviations}
    outcomes = tuple(replace(outcome, split_tick=split_ticks[outcome.repeats[0]]) for outcome in outcomes)
    findings = find_differences(cell, spread)
    sensors = analyse_sensors(cell)
    summary = summarise(spread)
    structural = tuple(finding.message for finding in findings) if options.structure_fails else ()
    before, after = boundary.before(spread), boundary.after(spread)
    bounded = _Bounded.of(cell, spread, sensors, options, found, before)
    # An actor whose position has a limit of its own is not held against the tolerance as well.
    judged_summary = summary if bounded.mask is None else summarise(spread, bounded.mask)
    judged = {
        criterion: judge(
            identical=len(outcomes) == 1,
            resolution=spread.resolution,
            max_sigma_m=judged_summary.max_sigma_m,
            max_deviation_m=judged_summary.max_deviation_m,
            structural=structural,
            tolerance_m=options.tolerance_m,
            criterion=criterion,
            kept=bounded.kept,
            broken=bounded.broken,
            sensed=next((sensor.words(cell.header.step_s) for sensor in sensors if not sensor.identical), ""),
        )
        # By sigma as well, whatever was asked for: it is the paper's criterion, and reports show both.
        for criterion in Criterion
    }
    divergent = sum(len(outcome.repeats) for outcome in outcomes[1:])
    first_of_largest = [run.repeat for run in cell.runs].index(outcomes[0].repeats[0]) + 1
    phase = _PhaseBuilder(spread, options, count, found, bounded)
    pace, frame_times = PaceFinder(cell.header.step_s), FrameTimesFinder()
    first = find_first(cell, outcomes, found.deviations)
    # One reading of the logs serves all three: each hands on to the next what it has looked at.
    conditions, places = read_host(cell.header, frame_times.watch(pace.watch(cell.host_logs())))
    return CellAnalysis(
        header=cell.header,
        repeats=count,
        actors=cell.actors,
        options=options,
        spread=spread,
        summary=summary,
        judgement=judged[options.criterion],
        judgement_by_sigma=judged[Criterion.SIGMA],
        findings=findings,
        boundary=boundary,
        first_collision_tick=find_boundary(cell, COLLISION).first_tick,
        before=phase(f"before {options.split.name}", before, early=True),
        after=phase(f"after {options.split.name}", after),
        after_involved=phase(f"after {options.split.name}, involved", boundary.after(spread, involved=True)),
        after_uninvolved=phase(f"after {options.split.name}, not involved", boundary.after(spread, involved=False)),
        before_own=phase(f"before own {options.split.name}", boundary.before_own(spread)),
        outcomes=outcomes,
        tree=grow_tree(outcomes, found.digests, {run.repeat: run.events for run in cell.runs}, spread.ticks),
        clusters=find_clusters(
            outcomes,
            found.features,
            spread.resolution.step_m if spread.resolution.limits_equality else 0.0,
        ),
        bounds=rate_bounds(divergent, count, options.confidence, first_of_largest),
        deviations=found.deviations,
        pairs=found.pairs,
        beyond_tolerance=len(bounded.beyond),
        first_divergence=first,
        paths=found.paths,
        conditions=conditions,
        places=places,
        sensors=sensors,
        endings=find_endings(cell.runs),
        pace=pace.result(),
        frame_times=frame_times.result(),
        why=None if first is None else explain_first(cell, first.reference_repeat, first.repeat),
        accuracy=_accuracy(cell, spread, options),
        limits=bounded.results,
        beyond=bounded.beyond,
        beyond_before=bounded.beyond_before,
        assertions=None if options.monitors is None else assess(watch_cell(cell, options.monitors), options.confidence),
    )


def _accuracy(cell: CellTrace, spread: CellSpread, options: AnalysisOptions) -> Accuracy | None:
    """Compare with the reference of the cell's scenario, or with the only one there is."""
    if not options.references:
        return None
    mine = [reference for reference in options.references if reference.header.scenario == cell.header.scenario]
    if not mine and len(options.references) > 1:
        names = ", ".join(reference.header.scenario for reference in options.references)
        raise InputError(f"cell {cell.header.cell!r}: none of the references is of {cell.header.scenario!r}: {names}")
    return compare(cell, spread, (mine or options.references)[0])


@dataclass(frozen=True)
class _Bounded:
    """What limits of single quantities say; without any, what the tolerance alone does. ``mask`` None: all pairs count."""

    results: tuple[LimitResult, ...]
    mask: Bools | None
    beyond: frozenset[int]
    beyond_before: frozenset[int]

    @property
    def broken(self) -> str:
        return limit_summary(self.results) if any(result.beyond_limit for result in self.results) else ""

    @property
    def broken_before(self) -> str:
        return limit_summary([result for result in self.results if result.before_limit])

    @property
    def kept(self) -> str:
        return limit_summary(self.results)

    @classmethod
    def of(
        cls,
        cell: CellTrace,
        spread: CellSpread,
        sensors: tuple[SensorAnalysis, ...],
        options: AnalysisOptions,
        found: Scan,
        before: Bools,
    ) -> "_Bounded":
        if not options.limits:
            far = frozenset(
                deviation.repeat for deviation in found.deviations if deviation.max_deviation_m > options.tolerance_m
            )
            early = frozenset(
                deviation.repeat for deviation in found.deviations if deviation.max_deviation_before_m > options.tolerance_m
            )
            return cls((), None, far, early)
        results = judge_limits(cell, spread, sensors, options.limits, options.criterion, before)
        actors = default_actors(cell, options.limits)
        whole, early_ones = position_beyond(cell, spread, actors, before, options.tolerance_m)
        return cls(
            results,
            np.tile(actors, len(spread.ticks)),
            frozenset({*whole, *(repeat for result in results for repeat in result.beyond)}),
            frozenset({*early_ones, *(repeat for result in results for repeat in result.beyond_before)}),
        )


@dataclass(frozen=True)
class _PhaseBuilder:
    spread: CellSpread
    options: AnalysisOptions
    repeats: int
    found: Scan
    bounded: _Bounded

    def __call__(self, name: str, mask: Bools, *, early: bool = False) -> Phase:
        """Judge the pairs of ``mask``: identical if every repeat has the same history there, whatever happens elsewhere."""
        summary = summarise(self.spread, mask)
        if summary.pairs == 0:
            return Phase(name, summary, None)
        own = self.bounded.mask
        judged = summary if own is None else summarise(self.spread, mask & own)
        broken = self.bounded.broken_before if early else self.bounded.broken
        identical = bool(np.all(self.found.identical[mask]))
        count = self.spread.channels[self.spread.axes[0]].count
        uneven = bool(np.any(mask & (count > 0) & (count < self.repeats)))
        structural = ("not every repeat has the same actors and ticks in this phase",) if uneven else ()
        judgement = judge(
            identical=identical,
            resolution=self.spread.resolution,
            max_sigma_m=judged.max_sigma_m,
            max_deviation_m=judged.max_deviation_m,
            structural=structural if self.options.structure_fails else (),
            broken=broken,
            tolerance_m=self.options.tolerance_m,
            criterion=self.options.criterion,
        )
        return Phase(name, summary, judgement)


def _growth_sizes(count: int) -> list[int]:
    """10, 20, 50, 100, 200, ... below ``count``."""
    sizes = [factor * 10**power for power in range(1, 10) for factor in (1, 2, 5)]
    return [size for size in sizes if size < count]
