"""Domains of permissible variance: the largest region of conditions and phases in which the tolerance holds.

The paper's «pre-collision and up to 75 % CPU». A region is a set of scenarios, a phase (whole runs, or only what is before the
first collision) and a limit on each factor; it is the largest by the number of (cell, phase) pairs that it admits.
"""

from dataclasses import dataclass
from typing import Final

from samepath.analysis.factors import Level, joined, level_words, number, title
from samepath.base.units import format_length
from samepath.base.verdicts import Verdict

WHOLE: Final = "whole run"
ALL: Final = "all scenarios"


@dataclass(frozen=True)
class Limit:
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
            return f"{title(self.factor)} {joined([level_words(self.factor, one) for one in self.levels], 'or')}"
        low, high = level_words(self.factor, self.lowest), level_words(self.factor, self.highest)
        below = any(number(one) < self.lowest for one in self.excluded)
        above = any(number(one) > self.highest for one in self.excluded)
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
    ``repeats`` repeats are beyond the tolerance in the region; ``rate_upper`` bounds their true rate over the region as a
    whole, ``rate_upper_cell`` that in any single cell (the smallest sample decides), both exact and with ``confidence``.
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
    limits: tuple[Limit, ...]
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
        return ", ".join(one for one in (self.variant, self.scope) if one)

    def region(self) -> str:
        """Say the region alone: ``before the first collision and up to 75 % CPU load``."""
        left_out = [one for one in self.scenarios_measured if one not in self.scenarios]
        but = f"all scenarios but {joined(left_out)}"
        where = f"in {joined(self.scenarios) if len(self.scenarios) <= len(left_out) else but}" if left_out else ""
        parts = [phase_words(self.phase)] if self.phase != WHOLE else []
        parts += [one.words() for one in self.limits if one.restricts]
        free = [one.words() for one in self.limits if not one.restricts]
        text = ", ".join(one for one in (where, joined(parts) if parts else "") if one)
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
            text += f"; not {joined([one.words() for one in self.outside], 'or')}"
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
            text += f" over all {len(self.cells)} cells, below {_percent(self.rate_upper_cell)} in any one of them"
        text += f", {_percent(self.confidence)} confidence"
        if self.max_deviation_m:
            text += f"; largest deviation {format_length(self.max_deviation_m)}"
        return text


def phase_words(phase: str) -> str:
    """Print a phase in a sentence."""
    event = phase.removeprefix("before ")
    return phase if phase == WHOLE or event.startswith("tick ") else f"before the first {event}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} %"
