"""What figures over a factor draw: which cells make a line, and where each one stands."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.analysis.asked import LOADS
from samepath.analysis.cell import CellAnalysis
from samepath.analysis.factors import Level, StudyFactor, level_of, level_words, number, title, variant_of

MAX_LINES: Final = 6
MAX_HUES: Final = 4


@dataclass(frozen=True)
class Point:
    """A cell on the axis of a factor; ``sigma_m`` is None where the cell has no such figure.

    ``place`` is the load that was measured, else the level's number, else its rank. ``missed``: the load is not what was asked.
    """

    level: Level
    place: float
    sigma_m: float | None
    missed: bool


@dataclass(frozen=True)
class Line:
    """A series of cells in the order of the factor's levels."""

    label: str
    points: tuple[Point, ...]

    @property
    def widest_m(self) -> float:
        """The largest sigma of the line."""
        return max((one.sigma_m for one in self.points if one.sigma_m is not None), default=0.0)


@dataclass(frozen=True)
class Group:
    """The deviations of single repeats at one level of a factor, and at one of a second factor (``hue``) where there is one."""

    level: Level
    hue: Level
    deviations_m: tuple[float, ...]
    missed: bool


def measured_load(cell: CellAnalysis, factor: StudyFactor) -> float | None:
    """Return the share of a load that a cell really had; None where the factor is no such load, or nothing was read."""
    if factor.kind != "condition" or factor.name not in LOADS:
        return None
    check = next((one for one in cell.conditions if one.name == factor.name), None)
    return None if check is None or not isinstance(check.measured, float) else check.measured


def is_share(factor: StudyFactor) -> bool:
    """Is the factor's axis a percentage of the machine?"""
    return factor.kind == "condition" and factor.name in LOADS


def missed_level(cell: CellAnalysis, factor: StudyFactor) -> bool:
    """Was something else measured than the factor's level?"""
    return factor.kind == "condition" and any(one.name == factor.name and one.missed for one in cell.conditions)


def members(cells: Iterable[CellAnalysis], factor: StudyFactor) -> list[CellAnalysis]:
    """Return the cells of the factor's variant."""
    return [cell for cell in cells if variant_of(cell.header) == factor.variant]


def others(factor: StudyFactor, factors: Sequence[StudyFactor]) -> list[StudyFactor]:
    """Return the other factors of the same variant."""
    return [one for one in factors if one.variant == factor.variant and (one.kind, one.name) != (factor.kind, factor.name)]


def lines_over(
    factor: StudyFactor,
    factors: Sequence[StudyFactor],
    cells: Sequence[CellAnalysis],
    sigma: Callable[[CellAnalysis], float | None],
) -> tuple[tuple[Line, ...], bool]:
    """Make a line per scenario and per combination of the other factors; where that is too many, one per scenario.

    The second result says whether a point is the worst of several cells that differ in something else.
    """
    own = members(cells, factor)
    rest = others(factor, factors)
    scenarios = {cell.header.scenario for cell in own}
    for chosen in (rest, []):
        groups: dict[str, list[CellAnalysis]] = {}
        for cell in own:
            groups.setdefault(_label(cell, chosen, named=len(scenarios) > 1 or not chosen), []).append(cell)
        if len(groups) <= max(MAX_LINES, len(scenarios)):
            break
    lines = tuple(Line(label, tuple(_points(factor, group, sigma))) for label, group in groups.items())
    folded = any(len(group) > len(line.points) for group, line in zip(groups.values(), lines, strict=True))
    return tuple(one for one in lines if one.points), folded


def find_hue(factor: StudyFactor, factors: Sequence[StudyFactor]) -> StudyFactor | None:
    """Choose the factor by which boxes are told apart within a level: a load before anything else."""
    fitting = [one for one in others(factor, factors) if len(one.levels) <= MAX_HUES]
    return next(iter(sorted(fitting, key=lambda one: not one.load)), None)


def groups_over(factor: StudyFactor, hue: StudyFactor | None, cells: Iterable[CellAnalysis]) -> Iterator[Group]:
    """Yield the deviations of single repeats, level by level; repeats that differ in a third factor are put together."""
    own = members(cells, factor)
    for level in factor.levels:
        for tone in (None,) if hue is None else hue.levels:
            chosen = [
                cell for cell in own if same(level_of(cell, factor), level) and (hue is None or same(level_of(cell, hue), tone))
            ]
            if chosen:
                yield Group(
                    level,
                    tone,
                    tuple(one.max_deviation_m for cell in chosen for one in cell.deviations),
                    any(missed_level(cell, one) for cell in chosen for one in (factor, hue) if one is not None),
                )


def same(one: Level, other: Level) -> bool:
    """Compare levels: on and 1 are not the same."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def axis_name(factor: StudyFactor, *, measured: bool) -> str:
    """Name the axis of a factor."""
    if not is_share(factor):
        return title(factor.name)
    what = {"cpu_load": "CPU utilisation", "gpu_load": "GPU utilisation"}.get(factor.name, title(factor.name))
    return f"{what}, {'measured (ticks: asked)' if measured else 'asked'}"


def _label(cell: CellAnalysis, chosen: Sequence[StudyFactor], *, named: bool) -> str:
    parts = [cell.header.scenario] if named else []
    parts += [f"{title(one.name)} {level_words(one.name, level_of(cell, one))}" for one in chosen]
    return ", ".join(parts)


def _points(
    factor: StudyFactor, cells: Sequence[CellAnalysis], sigma: Callable[[CellAnalysis], float | None]
) -> Iterator[Point]:
    for rank, level in enumerate(factor.levels):
        chosen = [cell for cell in cells if same(level_of(cell, factor), level)]
        if not chosen:
            continue
        worst = max(chosen, key=lambda cell: -1.0 if (value := sigma(cell)) is None else value)
        measured = measured_load(worst, factor)
        asked = number(level) if is_share(factor) else float(rank)
        yield Point(level, asked if measured is None else measured, sigma(worst), missed_level(worst, factor))
