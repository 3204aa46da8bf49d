"""Finding the domains of permissible variance: cells and their phases become points, and the largest clean box is described."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.domains import WHOLE, CounterExample, Domain, Limit, phase_words
from samepath.analysis.factors import (
    Level,
    StudyFactor,
    by_scenario,
    by_variant,
    find_factors,
    level_of,
    level_words,
    load_missed,
    number,
    title,
    variant_of,
)
from samepath.analysis.inference import clopper_pearson
from samepath.analysis.regions import Axis, Point, Region, Shape, largest_region
from samepath.analysis.verdict import worst
from samepath.base.verdicts import Verdict

ALL: Final = "all scenarios"


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
    def axes(self) -> list[Axis]:
        shapes = [Shape.UP_TO if one.load else Shape.RANGE if one.ordered else Shape.SET for one in self.factors]
        return [Axis(len(levels), shape) for levels, shape in zip(self.levels, [Shape.SET, *shapes], strict=True)]

    def place(self, cell: CellAnalysis) -> tuple[int, ...]:
        values = [cell.header.scenario, *(_coordinate(cell, one) for one in self.factors)]
        return tuple(levels.index(value) for levels, value in zip(self.levels, values, strict=True))


def _domain(cells: list[CellAnalysis], scope: str, factors: Sequence[StudyFactor], confidence: float) -> Domain:
    grid = _grid(cells, factors)
    wholes = [_whole(cell, grid) for cell in cells]
    befores = [part for cell in cells if (part := _before(cell, grid)) is not None]
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
    odd = {one.repeat for one in cell.deviations if one.max_deviation_m > options.tolerance_m}
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
        beyond=sum(one.max_deviation_before_m > cell.options.tolerance_m for one in cell.deviations),
    )


def _point(part: _Part) -> Point:
    return Point(part.levels, part.weight, part.verdict.passes)


def _describe(
    cells: list[CellAnalysis], scope: str, grid: _Grid, parts: list[_Part], region: Region | None, confidence: float
) -> Domain:
    inside = [] if region is None else [part for part in parts if region.admits(part.levels)]
    header = cells[0].header
    repeats, beyond = sum(part.cell.repeats for part in inside), sum(part.beyond for part in inside)
    uppers = [clopper_pearson(part.beyond, part.cell.repeats, confidence)[1] for part in inside]
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
        rate_upper=clopper_pearson(beyond, repeats, confidence)[1] if inside else None,
        rate_upper_cell=max(uppers, default=None),
        confidence=confidence,
        tolerance_m=cells[0].options.tolerance_m,
        max_sigma_m=max((part.max_sigma_m for part in inside if part.max_sigma_m is not None), default=None),
        max_deviation_m=max((part.max_deviation_m for part in inside if part.max_deviation_m is not None), default=None),
        verdict=worst([part.verdict for part in inside]) if inside else None,
        outside=() if region is None else tuple(_outside(grid, region, parts)),
        missed=tuple(
            part.cell.header.cell for part in inside if any(load_missed(part.cell, one) is not None for one in grid.factors)
        ),
        unmeasured=_unmeasured(grid, inside),
        whole_run=None,
        before_split=None,
        complete=region is None or region.complete,
    )


def _limits(grid: _Grid, region: Region, inside: list[_Part]) -> list[Limit]:
    limits = []
    for index, factor in enumerate(grid.factors, start=1):
        names = grid.levels[index]
        held = [names[level] for level in sorted({part.levels[index] for part in inside})]
        excluded = tuple(name for level, name in enumerate(names) if level not in region.admitted[index])
        lowest, highest = (number(held[0]), number(held[-1])) if factor.ordered else (None, None)
        limits.append(Limit(factor.name, factor.ordered, lowest, highest, tuple(held), excluded))
    return limits


def _unmeasured(grid: _Grid, inside: list[_Part]) -> int:
    """How many combinations of the levels inside, as they were asked for, have no cell."""
    asked = {(part.cell.header.scenario, *(level_of(part.cell, one) for one in grid.factors)) for part in inside}
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
