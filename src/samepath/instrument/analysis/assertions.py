"""Do assertions flip? Verdicts of monitors over repeats: how often they disagree, by how much, and what margin variance needs.

*Flip rate*: the share of repeats whose verdict is not the usual one. Its upper bound is exact. Which verdict is the usual one
is itself read off the sample, so that Clopper-Pearson's bound would fail up to twice as often as stated near one half; the one
here is found in the same way, but for the count of the *rarer* verdict: the largest rate m at which k or fewer of the rarer are
not too rare, P(K <= k) + P(K >= n - k) at m. Far from one half the two bounds are the same number.

*Margin needed*: the range of margins seen. By Wilks (1941) the range of n repeats holds at least a share b of all repeats with
confidence 1 - n b^(n-1) + (n-1) b^n, whatever the distribution. So a run that passes by more than this range speaks for at
least that share of all runs: none of them can be as far below it as to fail.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.instrument.monitors.monitor import CellCoverage, MonitoredCell, MonitorSet, MonitorTrace

Floats = NDArray[np.float64]
_MOST_LISTED: Final = 20


@dataclass(frozen=True)
class Assertion:
    """What a monitor's verdicts over all repeats of a cell come to.

    ``margin_*`` are over the repeats' own margins; those without a bound (a time to a collision that never comes) are counted
    in ``unbounded`` and left out of sigma and range. ``minority`` are repeats with the rarer verdict (20 at most).
    ``needed_share`` is the share of all runs that a run with more than ``margin_needed`` speaks for.
    """

    name: str
    source: str
    unit: str
    passes: int
    fails: int
    silent: int
    flip_rate: float | None
    flip_rate_upper: float | None
    confidence: float
    margin_min: float | None
    margin_max: float | None
    margin_mean: float | None
    margin_sigma: float | None
    margin_needed: float | None
    needed_share: float | None
    unbounded: int
    minority: tuple[int, ...]
    worst_repeat: int | None
    worst_tick: int | None
    not_applicable: str
    verdicts: tuple[bool | None, ...]
    margins: Floats
    ticks: NDArray[np.int64]
    low: Floats
    high: Floats

    @property
    def flips(self) -> bool:
        """Do repeats disagree?"""
        return self.passes > 0 and self.fails > 0

    @property
    def judged(self) -> int:
        """Repeats with a verdict."""
        return self.passes + self.fails

    def words(self) -> str:
        """Say it in one line."""
        if self.not_applicable:
            return f"{self.name} is not judged here: {self.not_applicable}"
        if not self.judged:
            return f"{self.name} is not judged here: no repeat has a moment that it is about"
        if self.flips:
            text = f"{self.name} passes in {self.passes} of {self.judged}"
        elif self.fails:
            text = f"{self.name} fails in all {self.judged}"
        else:
            text = f"{self.name} passes in all {self.judged}"
        if self.margin_needed and self.needed_share is not None:
            room = quantity(self.margin_needed, self.unit)
            return f"{text}; keep {room} of margin, and a single run speaks for {100 * self.needed_share:.3g} % of all"
        return text

    def limits(self) -> str:
        """Say what so many repeats cannot exclude."""
        if self.flip_rate_upper is None:
            return ""
        return f"flip rate at most {100 * self.flip_rate_upper:.3g} % ({100 * self.confidence:.4g} % confidence)"


@dataclass(frozen=True)
class CellAssertions:
    """All assertions of a cell, and what its repeats came to."""

    assertions: tuple[Assertion, ...]
    coverage: CellCoverage | None

    @property
    def flips(self) -> bool:
        """Does any assertion flip?"""
        return any(assertion.flips for assertion in self.assertions)


def assess(cell: MonitoredCell, confidence: float) -> CellAssertions:
    """Sum up what monitors found in a cell."""
    return CellAssertions(tuple(_assertion(trace, confidence) for trace in cell.traces), cell.coverage)


def _assertion(trace: MonitorTrace, confidence: float) -> Assertion:
    judged = [verdict for verdict in trace.verdicts if verdict.passes is not None]
    fails = [verdict.repeat for verdict in judged if not verdict.passes]
    passes = [verdict.repeat for verdict in judged if verdict.passes]
    margins = np.array([verdict.margin for verdict in judged])
    finite = margins[np.isfinite(margins)]
    worst = min(judged, key=lambda verdict: (verdict.margin, verdict.repeat), default=None)
    rarer = fails if len(fails) <= len(passes) else passes
    needed = float(finite.max() - finite.min()) if len(finite) > 1 else None
    return Assertion(
        name=trace.name,
        source=trace.source,
        unit=trace.unit,
        passes=len(passes),
        fails=len(fails),
        silent=len(trace.verdicts) - len(judged),
        flip_rate=len(rarer) / len(judged) if judged else None,
        flip_rate_upper=flip_upper(len(rarer), len(judged), confidence) if judged else None,
        confidence=confidence,
        margin_min=None if worst is None else worst.margin,
        margin_max=None if worst is None else float(margins.max()),
        margin_mean=float(finite[0]) + math.fsum(finite - finite[0]) / len(finite) if len(finite) else None,
        margin_sigma=sigma_of(finite),
        margin_needed=needed,
        needed_share=None if needed is None or len(finite) < len(judged) else wilks_share(len(finite), confidence),
        unbounded=len(margins) - len(finite),
        minority=tuple(rarer[:_MOST_LISTED]),
        worst_repeat=None if worst is None else worst.repeat,
        worst_tick=None if worst is None else worst.tick,
        not_applicable=trace.not_applicable,
        verdicts=tuple(verdict.passes for verdict in trace.verdicts),
        margins=np.array([verdict.margin for verdict in trace.verdicts]),
        ticks=trace.ticks,
        low=trace.low,
        high=trace.high,
    )


def sigma_of(values: Floats) -> float | None:
    """Sample standard deviation (n - 1), as everywhere here; taken from the first value, so that equal ones give exactly 0."""
    if len(values) < 2:
        return None
    apart = values - values[0]
    mean = math.fsum(apart) / len(apart)
    return math.sqrt(math.fsum((apart - mean) ** 2) / (len(apart) - 1))


def flip_upper(rarer: int, judged: int, confidence: float) -> float:
    """Upper bound of the rate of the rarer verdict, valid at every true rate; see the module."""
    from scipy import optimize, stats

    def chance(rate: float) -> float:
        return float(stats.binom.cdf(rarer, judged, rate) + stats.binom.sf(judged - rarer - 1, judged, rate))

    error = 1 - confidence
    if 2 * rarer >= judged or chance(0.5) >= error:
        return 0.5
    return float(optimize.brentq(lambda rate: chance(rate) - error, 0.0, 0.5, xtol=1e-15))


def wilks_share(repeats: int, confidence: float) -> float:
    """Return which share of all repeats the range of ``repeats`` holds, with ``confidence`` (Wilks 1941)."""
    if repeats < 2:
        return 0.0
    from scipy import stats

    # The share between the extremes of n has the distribution Beta(n - 1, 2), of which the formula above is the upper tail.
    return float(stats.beta.ppf(1 - confidence, repeats - 1, 2))


def quantity(value: float, unit: str) -> str:
    """Print a margin for people."""
    text = f"{value:.3g}"
    return f"{text} {unit}" if unit else text


@dataclass(frozen=True)
class AssertionRow:
    """An assertion over all cells of a study: where it flips, and where it always fails."""

    name: str
    source: str
    passes: int
    fails: int
    flipping: tuple[str, ...]
    failing: tuple[str, ...]
    unlike: bool  # passes throughout in one cell and fails throughout in another of the same scenario
    needed: float | None
    unit: str

    def words(self) -> str:
        """Say it in one line."""
        total = self.passes + self.fails
        text = f"{self.name}: passes in {'all' if not self.fails else f'{self.passes} of'} {total} repeats"
        if self.flipping:
            cells = f"{self.flipping[0]}" if len(self.flipping) == 1 else f"{len(self.flipping)} cells"
            text += f", flips in {cells}"
        elif self.passes and self.fails:
            text += ", all repeats of a cell alike"
        if self.unlike:
            text += ", and its verdict depends on the conditions"
        if self.needed:
            # The range of the repeats of a cell: a run that passes by more would have passed in any of them.
            room = quantity(self.needed, self.unit)
            text += f"; keep {room} of margin" if self.flipping else f"; its margin varies by up to {room} between repeats"
        return text


def assertion_rows(cells: Sequence[tuple[str, str, CellAssertions | None]]) -> tuple[AssertionRow, ...]:
    """Sum assertions up over (cell, scenario, assertions), in the order in which they were written."""
    return tuple(_rows(cells))


def _rows(cells: Sequence[tuple[str, str, CellAssertions | None]]) -> Iterator[AssertionRow]:
    found: dict[str, list[tuple[str, str, Assertion]]] = {}
    for cell, scenario, assessed in cells:
        for assertion in () if assessed is None else assessed.assertions:
            found.setdefault(assertion.name, []).append((cell, scenario, assertion))
    for name, entries in found.items():
        scenarios = dict.fromkeys(scenario for _, scenario, _ in entries)
        unlike = any(
            len(
                {
                    assertion.passes > 0
                    for _, scenario, assertion in entries
                    if scenario == asked and assertion.judged and not assertion.flips
                }
            )
            > 1
            for asked in scenarios
        )
        needed = [assertion.margin_needed for _, _, assertion in entries if assertion.margin_needed is not None]
        yield AssertionRow(
            name=name,
            source=entries[0][2].source,
            passes=sum(assertion.passes for _, _, assertion in entries),
            fails=sum(assertion.fails for _, _, assertion in entries),
            flipping=tuple(cell for cell, _, assertion in entries if assertion.flips),
            failing=tuple(cell for cell, _, assertion in entries if assertion.fails and not assertion.passes),
            unlike=unlike,
            needed=max(needed, default=None),
            unit=entries[0][2].unit,
        )


def check_applied(cells: Sequence[tuple[str, str, CellAssertions | None]], monitors: MonitorSet) -> None:
    """Refuse a monitor that could be applied to no cell at all: a slip of the pen would look like a clean bill."""
    found = [assertion for _, _, assessed in cells if assessed is not None for assertion in assessed.assertions]
    for monitor in monitors.monitors:
        mine = [assertion for assertion in found if assertion.name == monitor.name]
        if any(not assertion.not_applicable for assertion in mine):
            continue
        if mine:
            raise InputError(f"monitor {monitor.name!r} fits no cell: {mine[0].not_applicable}")
        came, wanted = ", ".join(dict.fromkeys(scenario for _, scenario, _ in cells)), ", ".join(monitor.scenarios)
        raise InputError(f"monitor {monitor.name!r} fits no cell: its scenarios are {wanted}, but {came} came")
