"""Trends: does the spread depend on a condition that was varied? Said in words, with the evidence beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from samepath.analysis.cell import CellAnalysis
from samepath.base.units import format_length

SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Trend:
    """How max sigma of one scenario behaves over the levels of one numeric condition.

    ``phase`` is empty for whole runs. ``p_value`` is that of a one-sided Mann-Whitney test that single repeats stray farther at
    the highest level than at the lowest; None where all deviations are zero.
    """

    simulator: str
    scenario: str
    condition: str
    phase: str
    levels: tuple[float, ...]
    max_sigma_m: tuple[float, ...]
    p_value: float | None

    @property
    def grows(self) -> bool:
        """Does the spread grow, beyond chance?"""
        return self.p_value is not None and self.p_value < SIGNIFICANT and self.max_sigma_m[-1] > self.max_sigma_m[0]

    def words(self) -> str:
        """Say it in one sentence."""
        who = f"{self.simulator}, {self.scenario}" + (f", {self.phase}" if self.phase else "")
        if not any(self.max_sigma_m):
            return f"{who}: no spread at any {self.condition} ({', '.join(f'{level:g}' for level in self.levels)})."
        steps = ", ".join(f"{format_length(s)} at {level:g}" for level, s in zip(self.levels, self.max_sigma_m, strict=True))
        verb = "grows" if self.grows else "does not clearly grow"
        chance = "" if self.p_value is None else f" (p = {self.p_value:.2g})"
        return f"{who}: max sigma {verb} with {self.condition}: {steps}{chance}."


def find_trends(cells: Sequence[CellAnalysis]) -> tuple[Trend, ...]:
    """Compare cells that differ in one numeric condition only: whole runs, and the phase before the first collision.

    After a collision paths may be metres apart at any level, which hides what a condition does before it.
    """
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
    for (simulator, plain_scenario, name, _), by_level in groups.items():
        if len(by_level) < 2:
            continue
        levels = tuple(sorted(by_level))
        chosen = [by_level[level] for level in levels]
        scenario = plain_scenario + _told_apart(chosen[0], cells)
        if any(cell.boundary.first_tick is not None for cell in chosen):
            early = [[one.max_deviation_before_m for one in cell.deviations] for cell in chosen]
            sigmas = tuple(cell.before.summary.max_sigma_m or 0.0 for cell in chosen)
            found.append(Trend(simulator, scenario, name, chosen[0].before.name, levels, sigmas, _p_value(early)))
        whole = [[one.max_deviation_m for one in cell.deviations] for cell in chosen]
        sigmas = tuple(cell.summary.max_sigma_m or 0.0 for cell in chosen)
        found.append(Trend(simulator, scenario, name, "", levels, sigmas, _p_value(whole)))
    return tuple(found)


def _told_apart(cell: CellAnalysis, cells: Sequence[CellAnalysis]) -> str:
    """Name the settings in which cells of one simulator and scenario differ."""
    header = cell.header
    alike = [one.header for one in cells if (one.header.simulator, one.header.scenario) == (header.simulator, header.scenario)]
    varied = [name for name, value in header.settings.items() if any(one.settings.get(name) != value for one in alike)]
    return f" ({', '.join(f'{name}={header.settings[name]}' for name in varied)})" if varied else ""


def _p_value(deviations_m: list[list[float]]) -> float | None:
    """Test the highest level against the lowest."""
    low, high = deviations_m[0], deviations_m[-1]
    if not any(low) and not any(high):
        return None
    from scipy import stats

    return float(stats.mannwhitneyu(high, low, alternative="greater").pvalue)
