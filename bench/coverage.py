"""Statements and how often they are wrong: simulated runs whose truth is known, and a search for the worst truth.

Each statement is what the report or a console line says. A statement is wrong if its bound excludes the truth, or if it
names clusters in repeats of one mode. The promised error is 5 % each. The simulations use the functions that the report
uses; only the runs are drawn from known distributions. ``before`` counts how often the same statement is wrong without
the correction for selection.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from bench.tools import save, show, verdict
from samepath.core.streams import stream
from samepath.instrument.analysis.domains import (
    LimitShape,
    SearchAxis,
    SearchPoint,
    largest_region,
    shared_confidence,
)
from samepath.instrument.analysis.outcomes import Outcome, Pattern, find_clusters
from samepath.instrument.analysis.stopping import LEAST
from samepath.instrument.analysis.verdict import (
    all_alike_upper,
    anytime_bounds,
    clean_cells_upper,
    clopper_pearson,
    confidence_sequence,
    largest_outcome_upper,
    rate_bounds,
)

STUDIES: Final = int(os.environ.get("SAMEPATH_BENCH_STUDIES", "2000"))
PROMISED: Final = 0.05
SURE: Final = 1 - PROMISED
_EXACT: Final = 1e-9
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SENTENCES: Final = {
    "domain": "«the true rate is below X on average over its cells, below Y in any one of them, selection included»",
    "rate": "«the true share of runs that are not of the most frequent outcome is above X and below Y» (each)",
    "all alike": "«true rate of divergence on average below X», where no cell varies",
    "any time": "«if you look after every repeat and stop when you like, the bound is X»",
    "until": "«rate is at most X, below the target», «rate is at least X, above the target»",
    "clusters": "«bifurcation into N clusters», «one cluster and outliers»",
}


@dataclass(frozen=True)
class Row:
    """How often a statement is wrong in one world; ``studies`` 0: computed exactly, not drawn.

    ``promised`` is the allowed share. A power row has none: ``wrong`` then counts what is found.
    """

    statement: str
    world: str
    share: float
    studies: int
    before: float | None = None
    promised: float | None = PROMISED

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson, 95 %, of the simulated share."""
        if not self.studies:
            return self.share, self.share
        found = round(self.share * self.studies)
        low, _ = clopper_pearson(found, self.studies, 0.975)
        return low, clopper_pearson(found, self.studies, 0.975)[1]

    @property
    def met(self) -> bool:
        """Return True unless the share is above the promise by more than the simulation's error."""
        if self.promised is None:
            return True
        if not self.studies:
            return self.share <= self.promised + _EXACT
        found = round(self.share * self.studies)
        return clopper_pearson(found, self.studies, 0.999)[0] <= self.promised


@cache
def _clean(clean: int, cells: int, inside: int, runs: int, sure: float) -> tuple[float, float]:
    return clean_cells_upper(clean, cells, [runs] * inside, sure)


def domain_row(name: str, rates: Floats, runs: int, studies: int) -> Row:
    """Draw the runs beyond the tolerance of ``rates[scenario, load]``, choose the region, and ask its bounds."""
    chance = stream(21, "domain", name)
    scenarios, loads = rates.shape
    axes = [SearchAxis(scenarios, LimitShape.SET), SearchAxis(loads, LimitShape.UP_TO)]
    wrong = wrong_before = 0
    for clean in chance.binomial(runs, rates, (studies, scenarios, loads)) == 0:
        points = [
            SearchPoint((scenario, load), 1, bool(clean[scenario, load]))
            for scenario in range(scenarios)
            for load in range(loads)
        ]
        region = largest_region(axes, points)
        if region is None:
            continue
        chosen = np.zeros_like(clean)
        chosen[np.ix_(*region.admitted)] = True
        inside = int(chosen.sum())
        sure = shared_confidence(SURE, all_pass=bool(clean.all()))
        mean, each = _clean(int(clean.sum()), clean.size, inside, runs, sure)
        true_mean, true_worst = float(rates[chosen].mean()), float(rates[chosen].max())
        wrong += mean < true_mean or each < true_worst
        wrong_before += clopper_pearson(0, inside * runs, SURE)[1] < true_mean
    return Row("domain", f"{name}, {runs} runs a cell", wrong / studies, studies, wrong_before / studies)


def domain_rows(studies: int) -> Iterator[Row]:
    """The rows of equal cells, and cells of unequal rates."""
    for rate, scenarios, loads, runs in (
        (0.10, 12, 1, 10),
        (0.05, 6, 4, 10),
        (0.02, 6, 4, 20),
        (0.01, 12, 1, 10),
        (0.25, 12, 1, 10),
        (0.10, 1, 4, 10),
        (0.05, 2, 1, 50),
        (0.20, 6, 1, 20),
    ):
        rates = np.full((scenarios, loads), rate)
        name = f"{100 * rate:g} % in each of {scenarios} scenarios x {loads} loads"
        yield domain_row(name, rates, runs, studies)
    mixed = np.repeat(np.geomspace(0.01, 0.4, 12)[:, None], 1, axis=1)
    yield domain_row("1 % to 40 % over 12 scenarios", mixed, 10, studies)
    growing = np.tile(np.array([0.01, 0.03, 0.1, 0.3]), (6, 1))
    yield domain_row("1 %, 3 %, 10 %, 30 % at 4 loads, 6 scenarios", growing, 10, studies)
    half = np.where(np.arange(12)[:, None] % 2, 0.2, 0.0)
    yield domain_row("6 of 12 scenarios exact, 20 % in the others", half, 10, studies)


def domain_error(cells: int, groups: Sequence[tuple[int, float]], error: float = PROMISED) -> float:
    """Exact error of both bounds together for groups of (cells, -runs ln(1 - rate)); other cells are never clean."""
    counts = np.arange(1, cells + 1)
    bounds = [clean_cells_upper(int(k), cells, [1] * int(k), 1 - error) for k in counts]
    total = np.array([0.0, *(-k * np.log1p(-mean) for k, (mean, _) in zip(counts, bounds, strict=True))])
    each = np.array([0.0, *(-np.log1p(-single) for _, single in bounds)])
    chance: Floats = np.ones(())
    for size, weight in groups:
        chance = np.multiply.outer(chance, stats.binom.pmf(np.arange(size + 1), size, np.exp(-weight)))
    clean = np.meshgrid(*[np.arange(size + 1) for size, _ in groups], indexing="ij")
    number = sum(clean)
    wrong = sum(n * weight for n, (_, weight) in zip(clean, groups, strict=True)) > total[number] + _EXACT
    for n, (_, weight) in zip(clean, groups, strict=True):
        wrong = wrong | ((n > 0) & (weight > each[number] + _EXACT))
    return float(chance[wrong].sum())


def domain_search(climbs: int) -> Row:
    """Climb to the worst rates: two groups of cells of any rate, exact cells, and cells that are never clean."""
    chance = stream(22, "domain search")
    worst, at = 0.0, ""
    for cells in (2, 3, 4, 6, 8, 12, 24):
        for _ in range(climbs):
            exact, first, second = (int(n) for n in chance.multinomial(cells, chance.dirichlet(np.ones(4)))[:3])
            weights, step = chance.uniform(0.05, 7.0, 2), 0.5
            here = 0.0
            for _ in range(30):
                tried = np.abs(weights + step * chance.normal(size=2))
                groups = [(exact, 0.0), (first, float(tried[0])), (second, float(tried[1]))]
                found = domain_error(cells, groups)
                if found >= here:
                    weights, here = tried, found
                else:
                    step *= 0.93
            if here > worst:
                worst = here
                at = f"{cells} cells, {first} and {second} of -n ln(1-p) {weights[0]:.2f} and {weights[1]:.2f}, {exact} exact"
    return Row("domain", f"worst found: {at}", worst, 0)


def many(count: int) -> Floats:
    """Equally frequent outcomes."""
    return np.full(count, 1 / count)


def one_and_rest(rate: float, rest: int) -> Floats:
    """One frequent outcome, and the rest in equal shares."""
    return np.array([1 - rate, *([rate / rest] * rest)])


WORLDS: Final[dict[str, Floats]] = {
    "two equal outcomes": many(2),
    "three equal outcomes": many(3),
    "ten equal outcomes": many(10),
    "100 equal outcomes": many(100),
    "5 % diverge": one_and_rest(0.05, 1),
    "30 % diverge": one_and_rest(0.3, 1),
    "30 % diverge, all otherwise": one_and_rest(0.3, 1000),
    "60 % diverge, all otherwise": one_and_rest(0.6, 1000),
    "45 % and 40 %, and 15 others": np.array([0.45, 0.4, *([0.01] * 15)]),
}


def rate_rows(studies: int) -> Iterator[Row]:
    """Upper and lower bound of the rate of divergence, each."""
    for (name, chances), runs in itertools.product(WORLDS.items(), (3, 10, 20, 50, 100)):
        largest = stream(23, name, runs).multinomial(runs, chances, studies).max(axis=1)
        truth = 1 - float(chances.max())
        upper, lower, before = np.ones(runs + 1), np.zeros(runs + 1), np.ones(runs + 1)
        for alike in range(1, runs + 1):
            bounds = rate_bounds(runs - alike, runs, SURE)
            upper[alike], lower[alike] = bounds.upper, bounds.lower
            before[alike] = clopper_pearson(runs - alike, runs, SURE)[1]
        too_low = float(np.mean(upper[largest] < truth - _EXACT))
        yield Row(
            "rate", f"{name}, {runs} runs: upper bound", too_low, studies, float(np.mean(before[largest] < truth - _EXACT))
        )
        too_high = float(np.mean(lower[largest] > truth + _EXACT))
        yield Row("rate", f"{name}, {runs} runs: lower bound", too_high, studies, too_high)
    for runs in (3, 10, 20, 50, 100):
        fails = float(largest_outcome_upper(runs - 1, runs, SURE) < 1)
        fails_before = float(clopper_pearson(runs - 1, runs, SURE)[1] < 1)
        yield Row("rate", f"all {runs} runs differ: upper bound", fails, 0, fails_before)


def largest_class(chances: Sequence[tuple[float, int]], runs: int) -> Floats:
    """Exact distribution of the size of the largest class; ``chances`` are (probability, outcomes of it)."""
    at_most = np.zeros(runs + 1)
    sizes = np.arange(runs + 1)
    for size in range(1, runs + 1):
        ways = np.zeros(runs + 1)
        ways[0] = 1.0
        for chance, outcomes in chances:
            terms = np.where(sizes <= size, np.exp(special.xlogy(sizes, chance) - special.gammaln(sizes + 1)), 0.0)
            for _ in range(outcomes):
                ways = np.convolve(ways, terms)[: runs + 1]
        at_most[size] = ways[runs] * np.exp(special.gammaln(runs + 1))
    return np.diff(at_most, prepend=0.0)


def rate_search(steps: int) -> Row:
    """Search the probability of the most frequent outcomes, with the rest in one outcome or in many."""
    worst, at = 0.0, ""
    for runs in (2, 3, 5, 8, 12, 20):
        upper = np.array([1.0, *(largest_outcome_upper(runs - m, runs, SURE) for m in range(1, runs + 1))])
        # Just above a bound is where that bound is wrong: the worst rates are there.
        rates = {float(rate) + 1e-7 for rate in upper if rate < 1} | set(np.linspace(0.02, 0.95, steps).tolist())
        for rate in rates:
            most = 1 - rate
            if most <= 0.02:
                continue
            for copies in range(1, int(1 / most) + 1):
                left = 1 - copies * most
                for spread in (1, 2, 12):
                    if left / spread > most:
                        continue
                    found = largest_class([(most, copies), (left / spread, spread)], runs)
                    wrong = float(found[upper < rate - _EXACT].sum())
                    if wrong > worst:
                        worst = wrong
                        at = f"{copies} outcomes of {100 * most:.3g} %, {100 * left:.3g} % in {spread} others, {runs} runs"
    return Row("rate", f"worst found: {at}: upper bound", worst, 0)


def alike_rows() -> Iterator[Row]:
    """No cell varies: the error of the mean's bound, exactly, with equal rates and with all in one cell."""
    for cells, runs in ((24, 10), (24, 2), (3, 10), (6, 5), (2, 100)):
        upper = all_alike_upper([runs] * cells, SURE)
        before = clopper_pearson(0, cells * runs, SURE)[1]
        for name, spread in (("equal rates", cells), ("all divergence in one cell", 1)):
            found = [
                _all_alike(bound * cells / spread + 1e-7, runs) ** spread if bound * cells / spread < 1 else 0.0
                for bound in (upper, before)
            ]
            yield Row("all alike", f"{cells} cells of {runs} runs, {name}, just above the bound", found[0], 0, found[1])


def _all_alike(rate: float, runs: int) -> float:
    """The largest chance that all runs are alike at a rate of divergence."""
    most = 1 - rate
    copies = int(1 / most)
    return float(copies * most**runs + max(0.0, 1 - copies * most) ** runs)


class Decisions:
    """For which numbers of divergent runs the rule stops, tabulated from the bounds that the rule uses."""

    def __init__(self, target: float, most: int) -> None:
        self.target, self.most = target, most
        self.above = self._rejects(lambda unlike, runs: anytime_bounds(unlike, runs, SURE)[0] > target)
        self._below: dict[int, Ints] = {}

    def below(self, first: int) -> Ints:
        """Of each number of runs, the most divergent ones that accept; ``first`` is the run that first showed the outcome."""
        if first not in self._below:
            self._below[first] = self._accepts(
                lambda unlike, runs: anytime_bounds(unlike, runs, SURE, first)[1] <= self.target, first - 1, first + 1
            )
        return self._below[first]

    @cached_property
    def against_first(self) -> tuple[Ints, Ints]:
        """The same without the correction: every run against the first one, (accept, reject)."""
        accept = self._accepts(lambda unlike, runs: confidence_sequence(unlike, runs, SURE)[1] <= self.target, 0, 1)
        return accept, self._rejects(lambda unlike, runs: confidence_sequence(unlike, runs, SURE)[0] > self.target)

    def _accepts(self, decides: Callable[[int, int], bool], fewest: int, least_runs: int) -> Ints:
        table, most = np.full(self.most + 1, -1), fewest - 1
        for runs in range(least_runs, self.most + 1):
            while most + 1 < runs and decides(most + 1, runs):
                most += 1
            table[runs] = most if most >= fewest else -1
        return table

    def _rejects(self, decides: Callable[[int, int], bool]) -> Ints:
        table, fewest = np.full(self.most + 1, self.most + 1), 0
        for runs in range(1, self.most + 1):
            while fewest <= runs and not decides(fewest, runs):
                fewest += 1
            table[runs] = fewest
        return table


@dataclass(frozen=True)
class Stops:
    """Of each study: accepted, rejected, and after how many runs it stopped."""

    accepted: NDArray[np.bool_]
    rejected: NDArray[np.bool_]
    runs: Ints


def until_stops(decisions: Decisions, drawn: Ints, *, corrected: bool = True) -> Stops:
    """Apply the rule to studies of drawn outcomes, ``[study, run]``; not ``corrected``: against the first run only."""
    studies, most = drawn.shape
    number = np.arange(1, most + 1)
    if corrected:
        names = np.unique(drawn)
        sizes = np.stack([np.cumsum(drawn == name, axis=1) for name in names])
        firsts = np.stack([np.where((drawn == name).any(1), (drawn == name).argmax(1), most) for name in names]) + 1
        # Of equally large classes the rule takes the one seen first.
        order = sizes * (most + 2) - firsts[:, :, None]
        largest = order.argmax(axis=0)
        unlike = number - np.take_along_axis(sizes, largest[None], 0)[0]
        seen = firsts[largest, np.arange(studies)[:, None]]
        bad = unlike >= decisions.above[number]
        good = np.zeros_like(bad)
        for first in np.unique(seen):
            good |= (seen == first) & (unlike <= decisions.below(int(first))[number])
        bad[:, : LEAST - 1] = good[:, : LEAST - 1] = False
    else:
        unlike = np.cumsum(drawn != drawn[:, :1], axis=1)
        accept, reject = decisions.against_first
        bad, good = unlike >= reject[number - 1], unlike <= accept[number - 1]
        bad[:, : LEAST - 1] = good[:, : LEAST - 1] = False
    at_good = np.where(good.any(1), good.argmax(1), most)
    at_bad = np.where(bad.any(1), bad.argmax(1), most)
    return Stops(at_good < at_bad, at_bad < at_good, np.minimum(np.minimum(at_good, at_bad) + 1, most))


def draw_outcomes(chances: Floats, studies: int, most: int, name: str) -> Ints:
    """Draw the outcome of every run."""
    edges = np.cumsum(chances)[:-1]
    return np.searchsorted(edges, stream(24, name).random((studies, most)), side="right").astype(np.int64)


def until_rows(studies: int, most: int = 300) -> Iterator[Row]:
    """Both decisions, where they are false: «above» up to the target, «below» from the target on."""
    for target in (0.2, 0.3, 0.05):
        decisions = Decisions(target, most)
        for factor, rest in itertools.product((0.5, 2 / 3, 0.75, 1.0, 1.2), (1, 5)):
            rate = target * factor
            world = f"until rate < {100 * target:g} %, truth {100 * rate:.3g} %, {rest} other outcome{'s' * (rest > 1)}"
            drawn = draw_outcomes(one_and_rest(rate, rest), studies, most, world)
            shares = []
            for corrected in (True, False):
                stops = until_stops(decisions, drawn, corrected=corrected)
                wrong = stops.rejected * (rate <= target) + stops.accepted * (rate >= target)
                shares.append(float(np.mean(wrong)))
            yield Row("until", world, shares[0], studies, shares[1])
        for name, chances in (("two equal outcomes", many(2)), ("ten equal outcomes", many(10))):
            stops = until_stops(decisions, draw_outcomes(chances, studies, most, f"{target} {name}"))
            world = f"until rate < {100 * target:g} %, {name}"
            yield Row("until", world, float(stops.accepted.mean()), studies)


def anytime_rows(studies: int, most: int = 200) -> Iterator[Row]:
    """The bound is asked after every run; one exclusion of the truth makes a study wrong."""
    for name in ("two equal outcomes", "three equal outcomes", "5 % diverge", "30 % diverge"):
        chances = WORLDS[name]
        # Just above the truth, so that a bound equal to the truth is not wrong.
        truth = 1 - float(chances.max()) - _EXACT
        stops = until_stops(Decisions(truth, most), draw_outcomes(chances, studies, most, f"any time {name}"))
        yield Row("any time", f"{name}, asked after each of {most} runs: upper bound", float(stops.accepted.mean()), studies)


def log_uniform(decades: float) -> Callable[[np.random.Generator, tuple[int, ...]], Floats]:
    """Evenly spread over decades."""
    return lambda chance, shape: np.power(10.0, -decades * chance.random(shape))


FAMILIES: Final[dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]]] = {
    "normal": lambda chance, shape: chance.normal(size=shape),
    "uniform": lambda chance, shape: chance.random(shape),
    "Student's t, 3 degrees": lambda chance, shape: chance.standard_t(3, shape),
    "exponential": lambda chance, shape: chance.exponential(size=shape),
    "log-uniform, 2 decades": log_uniform(2),
    "log-uniform, 6 decades": log_uniform(6),
    "log-uniform, 12 decades": log_uniform(12),
}
GROUPED: Final = (Pattern.BIFURCATION, Pattern.OUTLIERS)


def pattern_of(points: Floats) -> Pattern:
    """What the report says of repeats at these points, one row each."""
    outcomes = tuple(Outcome(str(number), (number,)) for number in range(len(points)))
    return find_clusters(outcomes, dict(enumerate(points))).pattern


def old_pattern_found(points: Floats) -> NDArray[np.bool_]:
    """Whether a fixed gap of 3 finds clusters in points on a line, ``[study, repeat]``."""
    heights = np.sort(np.diff(np.sort(points, axis=1), axis=1), axis=1)[:, ::-1]
    cuts = min(7, heights.shape[1] - 1)
    return np.asarray((heights[:, :cuts] / heights[:, 1 : cuts + 1] >= 3).any(axis=1))


def cluster_rows(studies: int, counts: Sequence[int] = (10, 12, 15, 20, 30, 50, 100)) -> Iterator[Row]:
    """Repeats of one mode: on a line, and in 3 and 30 independent coordinates."""
    for (name, draw), count in itertools.product(FAMILIES.items(), counts):
        points = draw(stream(25, name, count), (studies, count))
        found = float(np.mean([pattern_of(row[:, None]) in GROUPED for row in points]))
        yield Row("clusters", f"{name}, {count} repeats", found, studies, float(old_pattern_found(points).mean()))
    for width in (3, 30):
        for name, count in itertools.product(("normal", "Student's t, 3 degrees", "log-uniform, 6 decades"), (10, 30)):
            points = FAMILIES[name](stream(26, name, count, width), (studies // 4, count, width))
            found = float(np.mean([pattern_of(row) in GROUPED for row in points]))
            yield Row("clusters", f"{name}, {count} repeats, {width} coordinates", found, studies // 4)


def power_rows(studies: int) -> Iterator[Row]:
    """Real bifurcations: two normal clusters ``apart`` standard deviations from each other."""
    for share, count, apart in itertools.product((0.5, 0.2), (10, 20, 50, 100), (10, 20, 50, 200)):
        chance = stream(27, str(share), count, apart)
        points = chance.normal(size=(studies, count)) + apart * (chance.random((studies, count)) < share)
        found = float(np.mean([pattern_of(row[:, None]) is Pattern.BIFURCATION for row in points]))
        before = float(old_pattern_found(points).mean())
        world = f"{100 * share:g} % in the second cluster, {apart} sigma apart, {count} repeats"
        yield Row("clusters", world, found, studies, before, promised=None)


def all_rows(studies: int, climbs: int, *, quick: bool = False) -> Iterator[Row]:
    """Every statement; ``quick`` leaves out most sizes of the cluster rows."""
    yield from domain_rows(studies)
    yield domain_search(climbs)
    yield from rate_rows(studies)
    yield rate_search(4 if quick else 40)
    yield from alike_rows()
    yield from anytime_rows(studies)
    yield from until_rows(studies)
    yield from cluster_rows(studies, (10, 20) if quick else (10, 12, 15, 20, 30, 50, 100))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"


def _cells(row: Row) -> list[str]:
    low, high = row.interval
    interval = f"{100 * low:.3g} to {100 * high:.3g} %" if row.studies else "exact"
    return [row.statement, row.world, _percent(row.promised), _percent(row.share), interval, _percent(row.before)]


def _stored(row: Row) -> dict[str, object]:
    low, high = row.interval
    return {
        "statement": row.statement,
        "world": row.world,
        "promised": row.promised,
        "simulated": row.share,
        "interval": [low, high],
        "studies": row.studies,
        "before": row.before,
        "met": row.met,
    }


def main() -> bool:
    """Simulate all statements and save what was counted."""
    rows = list(all_rows(STUDIES, climbs=12))
    power = list(power_rows(max(100, STUDIES // 5)))
    head = ["statement", "world", "promised", "wrong", "95 % interval", "before", "aim"]
    show(f"coverage: {STUDIES} simulated studies a row", head, [[*_cells(row), verdict(met=row.met)] for row in rows])
    show("power", ["statement", "world", "", "found", "95 % interval", "before"], [_cells(row) for row in power])
    figures = {
        "studies": STUDIES,
        "sentences": SENTENCES,
        "rows": [_stored(row) for row in rows],
        "power": [_stored(row) for row in power],
    }
    save("coverage", figures)
    return all(row.met for row in rows)
