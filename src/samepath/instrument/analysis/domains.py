"""Domains of permissible variance: the largest region of conditions and phases in which the tolerance holds.

The paper's «pre-collision and up to 75 % CPU». A region is a set of scenarios, a phase (whole runs, or only what is before the
first collision) and a limit on each factor; it is the largest by the number of (cell, phase) pairs that it admits.

Records come first, then :func:`find_domains`. Behind it stand two parts. :func:`largest_region` is pure geometry: points with
one level on every axis, some of which fail, and the heaviest box without a failing one. The rest turns cells into such points
and describes the box that was found, with the evidence inside it and the nearest counter-example on each side.

Why a search and not a fit: levels are few and measured, so the answer can be exact, and every limit it names has a cell behind
it.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.factors import (
    Level,
    StudyFactor,
    by_scenario,
    by_variant,
    find_factors,
    joined,
    level_of,
    level_words,
    load_missed,
    number,
    title,
    variant_of,
)
from samepath.instrument.analysis.verdict import (
    Criterion,
    clean_cells_upper,
    each_cell_upper,
    worst,
)

WHOLE: Final = "whole run"
ALL: Final = "all scenarios"
# The search for the largest region gives up proving it largest after this many boxes.
MAX_BOXES: Final = 20_000


@dataclass(frozen=True)
class FactorLimit:
    """How a domain restricts one factor, by the levels of its cells.

    An ordered factor has ``lowest`` and ``highest``; one without an order has ``levels``. ``excluded`` are the levels left out.
    """

    factor: str
    ordered: bool
    lowest: float | None
    highest: float | None
    levels: tuple[Level, ...]
    excluded: tuple[Level, ...]

    @property
    def restricts(self) -> bool:
        """Is any measured level left out?"""
        return bool(self.excluded)

    def words(self) -> str:
        """Say which levels are admitted: ``up to 75 % CPU load``."""
        if not self.ordered or self.lowest is None or self.highest is None:
            return f"{title(self.factor)} {joined([level_words(self.factor, level) for level in self.levels], 'or')}"
        low, high = level_words(self.factor, self.lowest), level_words(self.factor, self.highest)
        below = any(number(level) < self.lowest for level in self.excluded)
        above = any(number(level) > self.highest for level in self.excluded)
        if above and not below and high.endswith("%"):
            return f"up to {high} {title(self.factor)}"
        if below != above:
            return f"{title(self.factor)} {f'up to {high}' if above else f'from {low}'}"
        return f"{title(self.factor)} {low}" if low == high else f"{title(self.factor)} {low} to {high}"


@dataclass(frozen=True)
class CounterExample:
    """A cell just outside a domain in which the tolerance does not hold. ``beyond_what`` is the limit that it oversteps."""

    cell: str
    scenario: str
    beyond_what: str
    phase: str
    repeats: int
    beyond: int
    max_sigma_m: float | None
    max_deviation_m: float | None
    reason: str

    def words(self) -> str:
        """Say it in a few words."""
        return f"{self.beyond_what} ({self.cell}: {self.reason})"


@dataclass(frozen=True)
class Domain:
    """The largest region of one variant in which the tolerance holds, and the evidence for it.

    ``scope`` is "all scenarios", or the one scenario that the domain is about. ``scenarios`` are those admitted, out of
    ``scenarios_measured``. ``phase`` is "whole run" or "before collision" (or whatever splits the runs). ``beyond`` of
    ``repeats`` repeats are beyond the tolerance in the region. ``rate_upper`` bounds their mean true rate over the region,
    weighted by repeats; ``rate_upper_cell`` bounds the rate of any single cell in it. Both hold together with
    ``confidence``, and pay for the choice of the region and the phase.
    ``missed`` are the admitted cells whose load missed its target: they count with the load that was measured.
    ``unmeasured`` counts the combinations of levels inside the region that no cell covers. ``verdict`` is the worst inside;
    None where there is no domain. ``whole_run`` is the largest region for whole runs, where the domain is of a phase and
    there is one; ``before_split`` the largest for the phase before, where the domain is of whole runs and that one reaches
    farther. ``complete`` is False where the search was cut short.
    """

    variant: str
    simulator: str
    scope: str
    scenarios: tuple[str, ...]
    scenarios_measured: tuple[str, ...]
    phase: str
    limits: tuple[FactorLimit, ...]
    cells: tuple[str, ...]
    cells_measured: int
    repeats: int
    beyond: int
    rate_upper: float | None
    rate_upper_cell: float | None
    confidence: float
    tolerance_m: float
    max_sigma_m: float | None
    max_deviation_m: float | None
    verdict: Verdict | None
    outside: tuple[CounterExample, ...]
    missed: tuple[str, ...]
    unmeasured: int
    whole_run: "Domain | None"
    before_split: "Domain | None"
    complete: bool

    @property
    def empty(self) -> bool:
        """Does the tolerance hold nowhere?"""
        return not self.cells

    @property
    def everything(self) -> bool:
        """Does the tolerance hold in every cell, in whole runs?"""
        return len(self.cells) == self.cells_measured and self.phase == WHOLE

    @property
    def title(self) -> str:
        """What the domain is about."""
        return ", ".join(name for name in (self.variant, self.scope) if name)

    def region(self) -> str:
        """Say the region alone: ``before the first collision and up to 75 % CPU load``."""
        left_out = [scenario for scenario in self.scenarios_measured if scenario not in self.scenarios]
        but = f"all scenarios but {joined(left_out)}"
        where = f"in {joined(self.scenarios) if len(self.scenarios) <= len(left_out) else but}" if left_out else ""
        parts = [phase_words(self.phase)] if self.phase != WHOLE else []
        parts += [limit.words() for limit in self.limits if limit.restricts]
        free = [limit.words() for limit in self.limits if not limit.restricts]
        text = ", ".join(part for part in (where, joined(parts) if parts else "") if part)
        if not free:
            return text or "everywhere"
        return f"{text} (measured: {', '.join(free)})" if text else f"everywhere ({', '.join(free)})"

    def words(self) -> str:
        """Say the domain and its evidence in one line."""
        limit = format_length(self.tolerance_m)
        if self.empty:
            example = f"not held even {self.outside[0].words()}" if self.outside else "held nowhere"
            return f"no domain of permissible variance: {limit} is {example}"
        text = f"{self.region()}: permissible ({self.evidence()})"
        if self.outside:
            text += f"; not {joined([example.words() for example in self.outside], 'or')}"
        if self.whole_run is not None:
            text += f"; whole runs: {self.whole_run.region()}"
        if self.before_split is not None:
            text += f"; also {self.before_split.region()}"
        if self.unmeasured:
            text += f"; {self.unmeasured} combinations of these levels were not measured"
        if self.missed:
            text += f"; counted with the load measured, not the one asked: {joined(self.missed)}"
        return text if self.complete else f"{text}; there may be a larger one: the search was cut short"

    def evidence(self) -> str:
        """Say what the region rests on."""
        if self.rate_upper is None or self.rate_upper_cell is None:
            return "no repeats"
        alike = {Verdict.BIT_IDENTICAL: "every repeat bit-identical, ", Verdict.IDENTICAL_AT_RESOLUTION: "all logs equal, "}
        text = f"{alike.get(self.verdict, '') if self.verdict else ''}{self.beyond} of {self.repeats} repeats beyond "
        text += f"{format_length(self.tolerance_m)}; the true rate is below {_percent(self.rate_upper)}"
        if len(self.cells) > 1:
            text += f" on average over its {len(self.cells)} cells"
            text += f", below {_percent(self.rate_upper_cell)} in any one of them"
        text += f", {_percent(self.confidence)} confidence, selection included"
        if self.max_deviation_m:
            text += f"; largest deviation {format_length(self.max_deviation_m)}"
        return text


def phase_words(phase: str) -> str:
    """Print a phase in a sentence."""
    event = phase.removeprefix("before ")
    return phase if phase == WHOLE or event.startswith("tick ") else f"before the first {event}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} %"


def find_domains(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> tuple[Domain, ...]:
    """Find the domains of each variant: over all scenarios first, then of each scenario where there are several."""
    domains = []
    for members in by_variant(cells).values():
        factors = find_factors(members)
        scenarios = by_scenario(members)
        domains.append(_domain(members, ALL if len(scenarios) > 1 else next(iter(scenarios)), factors, confidence))
        if len(scenarios) > 1:
            domains += [_domain(group, name, factors, confidence) for name, group in scenarios.items()]
    return tuple(domains)


class LimitShape(StrEnum):
    """Which sets of levels may be admitted on an axis.

    A load is limited from above only: «up to 75 %» is what a lab can enforce, and less load never has to be excluded. Other
    ordered factors may have any run of neighbouring levels; those without an order any set.
    """

    UP_TO = "up to"
    RANGE = "range"
    SET = "set"


Box = tuple[int, ...]  # for every axis a bit per admitted level


@dataclass(frozen=True)
class SearchAxis:
    """``count`` levels, numbered from 0 in their order, and the shape that limits on them may have."""

    count: int
    shape: LimitShape


@dataclass(frozen=True)
class SearchPoint:
    """One measurement: a level on every axis, what it counts for, and whether the tolerance holds there."""

    levels: tuple[int, ...]
    weight: int
    passes: bool


@dataclass(frozen=True)
class Region:
    """The box found: levels admitted on each axis, and the weight of the points within. Not ``complete``: cut short."""

    admitted: tuple[tuple[int, ...], ...]
    weight: int
    complete: bool

    def admits(self, levels: Sequence[int]) -> bool:
        """Is a point in the box?"""
        return all(level in axis for level, axis in zip(levels, self.admitted, strict=True))

    @property
    def rank(self) -> tuple[int, int, int]:
        """Weight, levels of the first axis, levels of all axes: more is better."""
        return self.weight, len(self.admitted[0]), sum(len(axis) for axis in self.admitted)


def largest_region(axes: Sequence[SearchAxis], points: Sequence[SearchPoint], max_boxes: int = MAX_BOXES) -> Region | None:
    """Find the box without failing points that holds the most weight; None where there is none.

    A box admits some levels of every axis, in the axis's :class:`LimitShape`. A clean box must leave each failing point out on
    at least one axis. So the search starts from the whole space, takes the best box that waits, and cuts it at one failing
    point in it: one or two smaller boxes per axis, among which every clean box within the old one still fits. Cutting never
    adds weight or levels; hence the first box taken that has no failing point is the best there is (best-first branch and
    bound).

    Ties go to the box with more levels on the first axis, then to the one with more levels in all, then to the first in the
    order of their levels. After ``max_boxes`` boxes the search ends with a box that cannot be widened, and the region says so.
    """
    space = _Space(axes, points)
    whole: Box = tuple((1 << axis.count) - 1 for axis in axes)
    # Different cuts lead to the same box: without ``seen`` the search would look at it once for every order of them.
    waiting, seen = [space.ranked(whole)], {whole}
    for _ in range(max_boxes):
        if not waiting:
            return None
        rank = heapq.heappop(waiting)
        # Nothing that passes is left in the best box, so there is nothing in any other.
        if rank[0] == 0:
            return None
        box = rank[-1]
        failing = space.first_failing(box)
        if failing is None:
            return space.region(box, complete=True)
        for part in space.without(box, failing):
            if part not in seen:
                seen.add(part)
                heapq.heappush(waiting, space.ranked(part))
    # Cut short: a box that is only known to be clean and not to grow is better than none, and says what it is.
    around = [space.grow(point) for point in points if point.passes]
    grown = [space.ranked(box) for box in around if box is not None]
    return space.region(min(grown)[-1], complete=False) if grown else None


class _Space:
    """Points as bits of whole numbers, so that a box's points are found by a few and-operations."""

    def __init__(self, axes: Sequence[SearchAxis], points: Sequence[SearchPoint]) -> None:
        self._axes = axes
        self._points = points
        self._at = [[0] * axis.count for axis in axes]
        self._failing = 0
        self._passing: dict[int, int] = {}
        for index, point in enumerate(points):
            for axis, level in enumerate(point.levels):
                self._at[axis][level] |= 1 << index
            if point.passes:
                self._passing[point.weight] = self._passing.get(point.weight, 0) | 1 << index
            else:
                self._failing |= 1 << index

    def ranked(self, box: Box) -> tuple[int, int, int, Box]:
        """Order boxes, best first."""
        inside = self._inside(box)
        weight = sum(weight * (inside & members).bit_count() for weight, members in self._passing.items())
        levels = [axis.bit_count() for axis in box]
        return -weight, -levels[0], -sum(levels), box

    def first_failing(self, box: Box) -> SearchPoint | None:
        """Return the first failing point in the box."""
        failing = self._inside(box) & self._failing
        return self._points[(failing & -failing).bit_length() - 1] if failing else None

    def without(self, box: Box, point: SearchPoint) -> list[Box]:
        """Return the largest boxes within ``box`` that leave the point out, one or two for each axis."""
        parts = []
        for index, (axis, level) in enumerate(zip(self._axes, point.levels, strict=True)):
            below, above = (1 << level) - 1, -1 << (level + 1)
            kept = {LimitShape.UP_TO: (below,), LimitShape.RANGE: (below, above), LimitShape.SET: (below | above,)}[axis.shape]
            parts += [(*box[:index], box[index] & mask, *box[index + 1 :]) for mask in kept if box[index] & mask]
        return parts

    def grow(self, point: SearchPoint) -> Box | None:
        """Widen the smallest box around a point, level by level, until every step would take in a failing point."""
        box: Box = tuple(
            (2 << level) - 1 if axis.shape is LimitShape.UP_TO else 1 << level
            for axis, level in zip(self._axes, point.levels, strict=True)
        )
        if self.first_failing(box) is not None:
            return None
        steps = [(index, level) for index, axis in enumerate(self._axes) for level in range(axis.count)]
        widened = True
        while widened:
            widened = False
            for index, level in steps:
                neighbour = (box[index] << 1 | box[index] >> 1) >> level & 1 or self._axes[index].shape is LimitShape.SET
                wider = (*box[:index], box[index] | 1 << level, *box[index + 1 :])
                if neighbour and wider != box and self.first_failing(wider) is None:
                    box, widened = wider, True
        return box

    def region(self, box: Box, *, complete: bool) -> Region:
        """Spell a box out."""
        admitted = tuple(tuple(level for level in range(axis.bit_length()) if axis >> level & 1) for axis in box)
        return Region(admitted, -self.ranked(box)[0], complete)

    def _inside(self, box: Box) -> int:
        inside = -1
        for members, axis in zip(self._at, box, strict=True):
            found = 0
            for level, here in enumerate(members):
                if axis >> level & 1:
                    found |= here
            inside &= found
        return inside


@dataclass(frozen=True)
class _Part:
    """A phase of a cell, as a point of the search."""

    cell: CellAnalysis
    phase: str
    levels: tuple[int, ...]
    weight: int
    verdict: Verdict
    reason: str
    max_sigma_m: float | None
    max_deviation_m: float | None
    beyond: int


@dataclass(frozen=True)
class _Grid:
    """The axes of one scope: scenarios first, then the factors that vary in it; ``levels`` names the levels of each axis."""

    factors: tuple[StudyFactor, ...]
    levels: tuple[tuple[Level, ...], ...]

    @property
    def axes(self) -> list[SearchAxis]:
        shapes = [
            LimitShape.UP_TO if factor.load else LimitShape.RANGE if factor.ordered else LimitShape.SET
            for factor in self.factors
        ]
        return [SearchAxis(len(levels), shape) for levels, shape in zip(self.levels, [LimitShape.SET, *shapes], strict=True)]

    def place(self, cell: CellAnalysis) -> tuple[int, ...]:
        values = [cell.header.scenario, *(_coordinate(cell, factor) for factor in self.factors)]
        return tuple(levels.index(value) for levels, value in zip(self.levels, values, strict=True))


def _domain(cells: list[CellAnalysis], scope: str, factors: Sequence[StudyFactor], confidence: float) -> Domain:
    grid = _grid(cells, factors)
    wholes = [_whole(cell, grid) for cell in cells]
    befores = [part for cell in cells if (part := _before(cell, grid)) is not None]
    # Where nothing ever collides, «before the first collision» is the whole run under another name.
    split = any(cell.boundary.first_tick is not None for cell in cells)
    whole = largest_region(grid.axes, [_point(part) for part in wholes])
    before = largest_region(grid.axes, [_point(part) for part in befores]) if split and befores else None
    domain = _describe(cells, scope, grid, wholes, whole, confidence)
    if before is None:
        return replace(domain, outside=_nearest_failure(befores if split and befores else wholes)) if domain.empty else domain
    early = _describe(cells, scope, grid, befores, before, confidence)
    after = _after_split([part for part in wholes if before.admits(part.levels)], early.phase)
    early = replace(early, outside=(*early.outside, *after))
    if whole is None or before.rank > whole.rank:
        return replace(early, whole_run=None if domain.empty else domain)
    farther = any(before.admits(part.levels) and not whole.admits(part.levels) for part in befores)
    return replace(domain, before_split=early if farther else None)


def _grid(cells: Sequence[CellAnalysis], factors: Sequence[StudyFactor]) -> _Grid:
    varied, levels = [], [tuple[Level, ...](by_scenario(cells))]
    for factor in factors:
        found = list(dict.fromkeys(_coordinate(cell, factor) for cell in cells))
        if len(found) > 1:
            varied.append(factor)
            levels.append(tuple(sorted(found, key=number) if factor.ordered else found))
    return _Grid(tuple(varied), tuple(levels))


def _coordinate(cell: CellAnalysis, factor: StudyFactor) -> Level:
    """Where a cell stands on a factor's axis: a load that missed its target stands where it was measured."""
    missed = load_missed(cell, factor)
    return level_of(cell, factor) if missed is None else missed


def _whole(cell: CellAnalysis, grid: _Grid) -> _Part:
    """A whole run counts for as many pairs as it has phases."""
    options, summary = cell.options, cell.summary
    odd = set(cell.beyond)
    if options.structure_fails:
        odd |= {repeat for finding in cell.findings for repeat in finding.repeats}
    phases = sum(phase.judgement is not None for phase in (cell.before, cell.after))
    return _Part(
        cell=cell,
        phase=WHOLE,
        levels=grid.place(cell),
        weight=max(1, phases),
        verdict=cell.judgement.verdict,
        reason=cell.judgement.reason,
        max_sigma_m=summary.max_sigma_m,
        max_deviation_m=summary.max_deviation_m,
        beyond=len(odd),
    )


def _before(cell: CellAnalysis, grid: _Grid) -> _Part | None:
    judgement, summary = cell.before.judgement, cell.before.summary
    if judgement is None:
        return None
    return _Part(
        cell=cell,
        phase=cell.before.name,
        levels=grid.place(cell),
        weight=1,
        verdict=judgement.verdict,
        reason=judgement.reason,
        max_sigma_m=summary.max_sigma_m,
        max_deviation_m=summary.max_deviation_m,
        beyond=len(cell.beyond_before),
    )


def _point(part: _Part) -> SearchPoint:
    return SearchPoint(part.levels, part.weight, part.verdict.passes)


def shared_confidence(confidence: float, *, all_pass: bool) -> float:
    """Return the confidence of a domain's bounds, given that whole runs or a phase may be chosen.

    Each of the two families of cells has half of the error. If all whole runs pass, nothing is
    chosen, and they may have all of it: no other domain is named in that case.
    """
    return confidence if all_pass else 1 - (1 - confidence) / 2


def _rate_uppers(parts: list[_Part], inside: list[_Part], confidence: float) -> tuple[float | None, float | None]:
    """Bound the rate of repeats beyond the tolerance, over a region and in any one of its cells."""
    if not inside:
        return None, None
    passing = sum(part.verdict.passes for part in parts)
    all_pass = passing == len(parts) and parts[0].phase == WHOLE
    sure = shared_confidence(confidence, all_pass=all_pass)
    # Judged by sigma, a cell may pass with repeats beyond the tolerance.
    clean = all(
        part.cell.options.criterion is Criterion.DEVIATION and not part.cell.grown and not (part.verdict.passes and part.beyond)
        for part in parts
    )
    if clean:
        return clean_cells_upper(passing, len(parts), [part.cell.repeats for part in inside], sure)
    counts = [(part.beyond, part.cell.repeats) for part in inside]
    grown = any(part.cell.grown for part in parts)
    return each_cell_upper(counts, len(parts), sure, grown=grown)


def _describe(
    cells: list[CellAnalysis], scope: str, grid: _Grid, parts: list[_Part], region: Region | None, confidence: float
) -> Domain:
    inside = [] if region is None else [part for part in parts if region.admits(part.levels)]
    header = cells[0].header
    repeats, beyond = sum(part.cell.repeats for part in inside), sum(part.beyond for part in inside)
    rate_upper, rate_upper_cell = _rate_uppers(parts, inside, confidence)
    scenarios = tuple(by_scenario(part.cell for part in inside))
    return Domain(
        variant=variant_of(header),
        simulator=header.simulator,
        scope=scope,
        scenarios=scenarios,
        scenarios_measured=tuple(by_scenario(cells)),
        phase=parts[0].phase,
        limits=() if region is None else tuple(_limits(grid, region, inside)),
        cells=tuple(part.cell.header.cell for part in inside),
        cells_measured=len(cells),
        repeats=repeats,
        beyond=beyond,
        rate_upper=rate_upper,
        rate_upper_cell=rate_upper_cell,
        confidence=confidence,
        tolerance_m=cells[0].options.tolerance_m,
        max_sigma_m=max((part.max_sigma_m for part in inside if part.max_sigma_m is not None), default=None),
        max_deviation_m=max((part.max_deviation_m for part in inside if part.max_deviation_m is not None), default=None),
        verdict=worst([part.verdict for part in inside]) if inside else None,
        outside=() if region is None else tuple(_outside(grid, region, parts)),
        missed=tuple(
            part.cell.header.cell
            for part in inside
            if any(load_missed(part.cell, factor) is not None for factor in grid.factors)
        ),
        unmeasured=_unmeasured(grid, inside),
        whole_run=None,
        before_split=None,
        complete=region is None or region.complete,
    )


def _limits(grid: _Grid, region: Region, inside: list[_Part]) -> list[FactorLimit]:
    limits = []
    for index, factor in enumerate(grid.factors, start=1):
        names = grid.levels[index]
        held = [names[level] for level in sorted({part.levels[index] for part in inside})]
        excluded = tuple(name for level, name in enumerate(names) if level not in region.admitted[index])
        lowest, highest = (number(held[0]), number(held[-1])) if factor.ordered else (None, None)
        limits.append(FactorLimit(factor.name, factor.ordered, lowest, highest, tuple(held), excluded))
    return limits


def _unmeasured(grid: _Grid, inside: list[_Part]) -> int:
    """How many combinations of the levels inside, as they were asked for, have no cell."""
    asked = {(part.cell.header.scenario, *(level_of(part.cell, factor) for factor in grid.factors)) for part in inside}
    total = 1
    for axis in zip(*asked, strict=True):
        total *= len(set(axis))
    return total - len(asked) if asked else 0


def _outside(grid: _Grid, region: Region, parts: list[_Part]) -> list[CounterExample]:
    """For each side on which the region ends, the worst cell that oversteps that side alone and by least."""
    found = []
    for index, (names, admitted) in enumerate(zip(grid.levels, region.admitted, strict=True)):
        rest = [axis for axis in range(len(grid.levels)) if axis != index]
        near = [
            part
            for part in parts
            if not part.verdict.passes
            and part.levels[index] not in admitted
            and all(part.levels[axis] in region.admitted[axis] for axis in rest)
        ]
        factor = grid.factors[index - 1] if index else None
        ordered = factor is not None and factor.ordered
        sides = (admitted[-1] + 1, admitted[0] - 1) if ordered else range(len(names))
        for side in sides:
            beyond = [part for part in near if part.levels[index] == side]
            if beyond:
                found.append(_example(max(beyond, key=_far), _level_phrase(factor, names[side])))
    return found


def _level_phrase(factor: StudyFactor | None, level: Level) -> str:
    if factor is None:
        return f"in {level}"
    text = level_words(factor.name, level)
    return f"at {text} {title(factor.name)}" if text.endswith("%") else f"with {title(factor.name)} {text}"


def _after_split(wholes: list[_Part], phase: str) -> list[CounterExample]:
    """The worst cell of a domain of a phase whose whole runs break the tolerance."""
    broken = [part for part in wholes if not part.verdict.passes]
    event = phase_words(phase).removeprefix("before ")
    return [_example(max(broken, key=_far), f"after {event}")] if broken else []


def _nearest_failure(parts: list[_Part]) -> tuple[CounterExample, ...]:
    """Where nothing holds: the failing cell with the lowest levels, the least far off of these."""
    failing = [part for part in parts if not part.verdict.passes]
    if not failing:
        return ()
    mildest = min(failing, key=lambda part: (sum(part.levels[1:]), part.max_deviation_m or 0.0, part.levels))
    return (_example(mildest, "in whole runs" if mildest.phase == WHOLE else phase_words(mildest.phase)),)


def _far(part: _Part) -> float:
    return part.max_deviation_m or 0.0


def _example(part: _Part, what: str) -> CounterExample:
    return CounterExample(
        cell=part.cell.header.cell,
        scenario=part.cell.header.scenario,
        beyond_what=what,
        phase=part.phase,
        repeats=part.cell.repeats,
        beyond=part.beyond,
        max_sigma_m=part.max_sigma_m,
        max_deviation_m=part.max_deviation_m,
        reason=part.reason,
    )
