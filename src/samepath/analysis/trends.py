"""Trends: does the spread depend on a condition that was varied? Said in words, with the evidence beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from samepath.analysis.cell import CellAnalysis
from samepath.base.units import format_length

SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Trend:
    """How max sigma of one scenario behaves over the levels of one numeric condition.

    ``p_value`` is that of a one-sided Mann-Whitney test that single repeats stray farther at the highest level than at the
    lowest; None where all deviations are zero.
    """

    simulator: str
    scenario: str
    condition: str
    levels: tuple[float, ...]
    max_sigma_m: tuple[float, ...]
    p_value: float | None

    @property
    def grows(self) -> bool:
        """Does the spread grow, beyond chance?"""
        return self.p_value is not None and self.p_value < SIGNIFICANT and self.max_sigma_m[-1] > self.max_sigma_m[0]

    def words(self) -> str:
        """Say it in one sentence."""
        who = f"{self.simulator}, {self.scenario}"
        if not any(self.max_sigma_m):
            return f"{who}: no spread at any {self.condition} ({', '.join(f'{level:g}' for level in self.levels)})."
        steps = ", ".join(f"{format_length(s)} at {level:g}" for level, s in zip(self.levels, self.max_sigma_m, strict=True))
        if self.grows:
            return f"{who}: max sigma grows with {self.condition}: {steps} (p = {self.p_value:.2g})."
        return f"{who}: max sigma does not clearly grow with {self.condition}: {steps} (p = {self.p_value:.2g})."


def find_trends(cells: Sequence[CellAnalysis]) -> tuple[Trend, ...]:
    """Compare cells that differ in one numeric condition only."""
    groups: dict[tuple[str, str, str, object], dict[float, CellAnalysis]] = {}
    for cell in cells:
        for name, value in sorted(cell.header.condition.items()):
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            others = tuple(sorted((k, v) for k, v in cell.header.condition.items() if k != name))
            settings = tuple(sorted(cell.header.settings.items()))
            key = (cell.header.simulator, cell.header.scenario, name, (others, settings))
            groups.setdefault(key, {})[float(value)] = cell
    found = []
    for (simulator, scenario, name, _), levels in groups.items():
        if len(levels) > 1:
            found.append(_trend(simulator, scenario, name, dict(sorted(levels.items()))))
    return tuple(found)


def _trend(simulator: str, scenario: str, condition: str, levels: dict[float, CellAnalysis]) -> Trend:
    from scipy import stats

    cells = list(levels.values())
    low, high = ([one.max_deviation_m for one in cell.deviations] for cell in (cells[0], cells[-1]))
    p_value = None
    if any(low) or any(high):
        p_value = float(stats.mannwhitneyu(high, low, alternative="greater").pvalue)
    sigmas = tuple(cell.summary.max_sigma_m or 0.0 for cell in cells)
    return Trend(simulator, scenario, condition, tuple(levels), sigmas, p_value)
