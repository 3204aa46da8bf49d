"""Effects: which factor matters, and whether it changes how far repeats are apart or how often they part.

Pairs of repeats of one cell are compared (``divergence.PairDistance``): does the simulator take the same path twice at this
level of a factor, and at that one? Records come first, then :func:`find_effects`, then the tests it uses.

What makes the p-values trustworthy:

- Only like is compared with like. Repeats are compared within strata, in which every other factor is equal; the strata of one
  question are combined by Stouffer's method, z-values with their signs weighted by the root of the number of repeats, so that
  opposite effects cancel instead of adding up. Where no two cells are equal but for the factor, the effect says so
  (``matched``).
- Tests are two-sided and based on ranks or counts. Deviations after a collision are far from normal, and a t-test would be led
by
  a few of them.
- All p-values of a study are corrected together (Benjamini and Hochberg): a study asks hundreds of questions, and at 5 % each,
  dozens would look like effects.
- «No effect shown» and «too few repeats to tell» are different answers. Every test knows the smallest p-value that so many
  repeats could have given (``attainable``), and that one is put in its place among the others to see whether it would have
  passed (``tellable``).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.domains import WHOLE, phase_words
from samepath.instrument.analysis.factors import (
    Level,
    StudyFactor,
    by_scenario,
    by_variant,
    find_factors,
    level_of,
    level_words,
    number,
)

METHOD: Final = "Benjamini and Hochberg's procedure"
# Up to this many arrangements are all gone through: ranks with many ties are far from normal in small samples.
MAX_ARRANGEMENTS: Final = 4000


@dataclass(frozen=True)
class Evidence:
    """One test. ``p_value`` is None where nothing varied at any level; ``corrected`` is that among all tests of the study.

    ``attainable`` is the smallest p-value that so many repeats could give; ``tellable`` whether it would have been enough;
    ``shown`` whether the corrected p-value is below the threshold.
    """

    p_value: float | None
    corrected: float | None
    attainable: float
    tellable: bool
    shown: bool

    def words(self) -> str:
        """Print the corrected p-value."""
        return "nothing varied" if self.corrected is None else f"corrected p = {self.corrected:.2g}"


@dataclass(frozen=True)
class DistanceChange:
    """How far repeats are apart at two levels.

    ``superiority`` is the probability that two repeats at ``high`` are farther apart than two at ``low``, ties counting half.
    """

    superiority: float
    median_low_m: float
    median_high_m: float
    evidence: Evidence

    @property
    def ratio(self) -> float | None:
        """How many times farther apart the median pair is; None where it is not apart at ``low``."""
        return self.median_high_m / self.median_low_m if self.median_low_m > 0 else None


@dataclass(frozen=True)
class RateChange:
    """How often something happens at two levels."""

    low: float
    high: float
    evidence: Evidence

    @property
    def difference(self) -> float:
        """The risk difference: higher level less lower."""
        return self.high - self.low


@dataclass(frozen=True)
class Effect:
    """What one factor does, from level ``low`` to level ``high``, in one scenario (None: in all together) and phase.

    ``matched``: everything else is equal between the repeats compared; otherwise levels are compared over all cells of a
    scenario, whatever else differs between them. ``size`` is how far two repeats are apart; of an ordered factor all levels
    are tested for a trend. ``diverging`` is the share of repeats that are not of their cell's largest outcome, ``beyond`` the
    share of pairs that are farther apart than the tolerance, or different in structure. In ``still`` of the ``strata`` no pair
    is apart at any level; these have no part in ``size``. ``levels`` and ``max_sigma_m`` give the largest sigma at every level.
    """

    variant: str
    simulator: str
    factor: str
    kind: str
    ordered: bool
    scenario: str | None
    phase: str
    low: Level
    high: Level
    matched: bool
    strata: int
    still: int
    repeats_low: int
    repeats_high: int
    size: DistanceChange
    diverging: RateChange
    beyond: RateChange
    levels: tuple[Level, ...]
    max_sigma_m: tuple[float, ...]
    tolerance_m: float

    @property
    def shown(self) -> bool:
        """Is any effect shown beyond chance?"""
        return any(evidence.shown for evidence in self._evidence)

    @property
    def tellable(self) -> bool:
        """Could so many repeats have shown any effect?"""
        return any(evidence.tellable for evidence in self._evidence)

    @property
    def best(self) -> Evidence | None:
        """The strongest evidence; None where nothing varied at all."""
        known = [evidence for evidence in self._evidence if evidence.corrected is not None]
        return min(known, key=lambda evidence: evidence.corrected or 0.0, default=None)

    @property
    def strength(self) -> float:
        """The largest effect that is shown, from 0 to 1, whatever the number of repeats."""
        sizes = [abs(2 * self.size.superiority - 1)] if self.size.evidence.shown else []
        return max(
            [*sizes, *(abs(rate.difference) for rate in (self.diverging, self.beyond) if rate.evidence.shown)], default=0.0
        )

    @property
    def grows(self) -> bool:
        """Is it an ordered factor with which the spread grows, beyond chance?"""
        farther = self.size.evidence.shown and self.size.superiority > 0.5
        return self.ordered and farther and self.max_sigma_m[-1] > self.max_sigma_m[0]

    @property
    def where(self) -> str:
        """Which scenario and phase it is about."""
        return f"{self.scenario or 'all scenarios'}{'' if self.phase == WHOLE else f', {phase_words(self.phase)}'}"

    def words(self) -> str:
        """Say in one line what the factor does there."""
        return f"{self.variant}, {self.where}: {self.statement()}"

    def statement(self) -> str:
        """Say whether the factor matters, and the evidence."""
        if not self.shown:
            return f"{self.factor} {self._nothing_shown()}{self._unmatched()}"
        low, high = level_words(self.factor, self.low), level_words(self.factor, self.high)
        parts = []
        if self.size.evidence.shown:
            share, ratio = self.size.superiority, self.size.ratio
            times = "" if not ratio else f", {_times(ratio)} times as far in the median"
            way = "farther apart" if share >= 0.5 else "nearer to each other"
            chance = _probability(max(share, 1 - share))
            parts.append(f"two repeats are {way} than at {low} with probability {chance}{times} ({self.size.evidence.words()})")
        for rate, what in (
            (self.diverging, "of the repeats diverge"),
            (self.beyond, f"of the pairs are more than {format_length(self.tolerance_m)} apart"),
        ):
            if rate.evidence.shown:
                parts.append(f"{_percent(rate.high)} {what} instead of {_percent(rate.low)} ({rate.evidence.words()})")
        still = f"; nothing is apart in {self.still} of {self.strata} comparisons" if self.still else ""
        return f"{self.factor} matters: at {high} {'; '.join(parts)}{still}{self._unmatched()}"

    def growth_words(self) -> str:
        """Say whether max sigma grows with an ordered factor, with the sigma at each level."""
        who = f"{self.variant}, {self.where}"
        if not any(self.max_sigma_m):
            levels = ", ".join(level_words(self.factor, level) for level in self.levels)
            return f"{who}: no spread at any {self.factor} ({levels})."
        steps = ", ".join(
            f"{format_length(sigma_m)} at {level_words(self.factor, level)}"
            for level, sigma_m in zip(self.levels, self.max_sigma_m, strict=True)
        )
        told = self.tellable or self.grows
        verb = "rises" if self.grows else "does not clearly rise" if told else "cannot be told to rise or not"
        return f"{who}: max sigma {verb} with {self.factor}: {steps} ({self.size.evidence.words()})."

    @property
    def _evidence(self) -> tuple[Evidence, ...]:
        return self.size.evidence, self.diverging.evidence, self.beyond.evidence

    def _nothing_shown(self) -> str:
        best, count = self.best, f"{self.repeats_low} and {self.repeats_high} repeats"
        if not self.tellable:
            return f"cannot be told to matter or not: {count} are too few to show any effect"
        if best is None:
            return f"does not show an effect: no repeat differs at any level ({count})"
        return f"does not show an effect ({best.words()})"

    def _unmatched(self) -> str:
        return "" if self.matched else "; other factors are not equal between the levels compared"


@dataclass(frozen=True)
class FactorRank:
    """A factor's place among the factors of its variant: 1 matters most. ``matters`` is None where it cannot be told."""

    rank: int
    variant: str
    factor: str
    matters: bool | None
    strongest: Effect

    def words(self) -> str:
        """Say in one line whether the factor matters, where that shows most, and how."""
        return self.strongest.words()


@dataclass(frozen=True)
class Effects:
    """All effects of a study. ``ranks`` has the factors in order; ``tests`` p-values were corrected together by ``method``."""

    effects: tuple[Effect, ...]
    ranks: tuple[FactorRank, ...]
    method: str
    tests: int
    threshold: float

    def growth(self) -> tuple[Effect, ...]:
        """Return the effects of ordered factors in single scenarios: what max sigma does over their levels."""
        return tuple(effect for effect in self.effects if effect.ordered and effect.scenario is not None)

    def words(self) -> str:
        """Say how evidence was judged."""
        return f"{self.tests} p-values corrected by {self.method}; an effect is shown below {self.threshold:.2g}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} %"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _probability(share: float) -> str:
    """Print a probability to two figures; what is not certain never prints as 1."""
    return "1" if share == 1 else f"{share:.2f}" if share < 0.995 else "more than 0.99"


def find_effects(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> Effects:
    """Ask of every factor of every variant what it does, in each scenario and phase and in all scenarios together."""
    questions = [
        question
        for members in by_variant(cells).values()
        for factors in (find_factors(members),)
        for factor in factors
        for question in _questions(factor, factors, members)
    ]
    # All p-values of the study are corrected together: asked of enough factors, chance alone answers some with yes.
    tests = [test for question in questions for test in question.tests]
    evidence = iter(_judge(tests, 1 - confidence))
    effects = tuple(question.answer(next(evidence), next(evidence), next(evidence)) for question in questions)
    counted = sum(test.p_value is not None for test in tests)
    return Effects(effects, _rank(effects), METHOD, counted, 1 - confidence)


# Cells of one scenario that are equal but for the level of a factor.
Stratum = dict[Level, tuple[CellAnalysis, ...]]


@dataclass(frozen=True)
class _Sample:
    """The repeats of one stratum at one level."""

    cells: tuple[CellAnalysis, ...]
    phase: str

    @property
    def repeats(self) -> int:
        return sum(cell.repeats for cell in self.cells)

    @property
    def apart_m(self) -> list[float]:
        whole = self.phase == WHOLE
        return [pair.apart_m if whole else pair.apart_before_m for cell in self.cells for pair in cell.pairs]

    @property
    def diverging(self) -> tuple[int, int]:
        """How many repeats are not like most of their cell, of how many."""
        if self.phase == WHOLE:
            return sum(cell.divergent for cell in self.cells), self.repeats
        return sum(deviation.differs_before for cell in self.cells for deviation in cell.deviations), self.repeats

    @property
    def beyond(self) -> tuple[int, int]:
        """How many pairs are farther apart than the tolerance or differ in structure, of how many."""
        count = 0
        for cell in self.cells:
            # Two repeats with other actors or other collisions are beyond any tolerance, however near their paths are.
            odd: set[int] = set()
            if self.phase == WHOLE and cell.options.structure_fails:
                odd = {repeat for finding in cell.findings for repeat in finding.repeats}
            if cell.limits:
                odd |= cell.beyond if self.phase == WHOLE else cell.beyond_before
            for pair in cell.pairs:
                apart_m = pair.apart_m if self.phase == WHOLE else pair.apart_before_m
                count += apart_m > cell.options.tolerance_m or pair.first in odd or pair.second in odd
        return count, sum(len(cell.pairs) for cell in self.cells)

    @property
    def max_sigma_m(self) -> float:
        summaries = [cell.summary if self.phase == WHOLE else cell.before.summary for cell in self.cells]
        return max((summary.max_sigma_m or 0.0 for summary in summaries), default=0.0)


@dataclass(frozen=True)
class SignedResult:
    """The outcome of one test or of several together: two-sided p-value, sign of the effect, and how many repeats it rests on.

    ``p_value`` is None where nothing varied; ``attainable`` is the smallest p-value that so many repeats can give.
    """

    p_value: float | None
    sign: int
    repeats: int
    attainable: float


@dataclass(frozen=True)
class _Question:
    """A factor's effect from ``low`` to ``high`` over some strata, before all p-values are known."""

    factor: StudyFactor
    simulator: str
    scenario: str | None
    phase: str
    low: Level
    high: Level
    matched: bool
    strata: tuple[dict[Level, _Sample], ...]
    tolerance_m: float

    @property
    def tests(self) -> tuple[SignedResult, SignedResult, SignedResult]:
        """How far, how often at all, how often beyond the tolerance."""
        sizes = []
        for stratum in self.strata:
            levels = sorted(stratum, key=number) if self.factor.ordered else [self.low, self.high]
            ranks = [float(rank) for rank in range(len(levels))]
            sizes.append(compare_sizes([stratum[level].apart_m for level in levels], ranks))
        both = self._both
        diverging = [compare_rates(low.diverging, high.diverging) for low, high in both]
        beyond = [compare_rates(low.beyond, high.beyond) for low, high in both]
        return combine(sizes), combine(diverging), combine(beyond)

    def answer(self, size: Evidence, diverging: Evidence, beyond: Evidence) -> Effect:
        """Put the effect together with its evidence."""
        both = self._both
        lows, highs = [low for low, _ in both], [high for _, high in both]
        # Strata in which all repeats are together say nothing about how far apart they are elsewhere.
        telling = [(low, high) for low, high in both if any(low.apart_m) or any(high.apart_m)] or both
        weights = [len(low.apart_m) * len(high.apart_m) for low, high in telling]
        shares = [superiority(low.apart_m, high.apart_m) for low, high in telling]
        share = sum(w * s for w, s in zip(weights, shares, strict=True)) / sum(weights)
        median_low_m = median(apart_m for low, _ in telling for apart_m in low.apart_m)
        median_high_m = median(apart_m for _, high in telling for apart_m in high.apart_m)
        levels = [level for level in self.factor.levels if any(level in stratum for stratum in self.strata)]
        return Effect(
            variant=self.factor.variant,
            simulator=self.simulator,
            factor=self.factor.name,
            kind=self.factor.kind,
            ordered=self.factor.ordered,
            scenario=self.scenario,
            phase=self.phase,
            low=self.low,
            high=self.high,
            matched=self.matched,
            strata=len(self.strata),
            still=sum(not any(any(sample.apart_m) for sample in stratum.values()) for stratum in self.strata),
            repeats_low=sum(sample.repeats for sample in lows),
            repeats_high=sum(sample.repeats for sample in highs),
            size=DistanceChange(share, median_low_m, median_high_m, size),
            diverging=RateChange(
                _share(sample.diverging for sample in lows), _share(sample.diverging for sample in highs), diverging
            ),
            beyond=RateChange(_share(sample.beyond for sample in lows), _share(sample.beyond for sample in highs), beyond),
            levels=tuple(levels),
            max_sigma_m=tuple(
                max(stratum[level].max_sigma_m for stratum in self.strata if level in stratum) for level in levels
            ),
            tolerance_m=self.tolerance_m,
        )

    @property
    def _both(self) -> list[tuple[_Sample, _Sample]]:
        return [
            (stratum[self.low], stratum[self.high]) for stratum in self.strata if self.low in stratum and self.high in stratum
        ]


def _questions(factor: StudyFactor, factors: Sequence[StudyFactor], cells: Sequence[CellAnalysis]) -> Iterator[_Question]:
    others = [other for other in factors if other != factor]
    scenarios = {name: _strata(factor, others, group) for name, group in by_scenario(cells).items()}
    scenarios = {name: found for name, found in scenarios.items() if found[1]}
    scopes: list[tuple[str | None, list[tuple[bool, list[Stratum]]]]] = [(name, [found]) for name, found in scenarios.items()]
    if len(scopes) > 1:
        scopes.insert(0, (None, list(scenarios.values())))
    for scenario, parts in scopes:
        strata = [stratum for _, found in parts for stratum in found]
        for phase in _phases(strata):
            for low, high in _contrasts(factor, strata):
                chosen = strata if factor.ordered else [stratum for stratum in strata if low in stratum and high in stratum]
                yield _Question(
                    factor=factor,
                    simulator=cells[0].header.simulator,
                    scenario=scenario,
                    phase=phase,
                    low=low,
                    high=high,
                    matched=all(matched for matched, _ in parts),
                    strata=tuple({level: _Sample(members, phase) for level, members in stratum.items()} for stratum in chosen),
                    tolerance_m=cells[0].options.tolerance_m,
                )


def _phases(strata: Sequence[Stratum]) -> list[str]:
    """Whole runs, and what is before the split where there is anything on both sides of it."""
    cells = [cell for stratum in strata for members in stratum.values() for cell in members]
    split = [cell for cell in cells if cell.before.judgement is not None and cell.after.judgement is not None]
    return [WHOLE, split[0].before.name] if split else [WHOLE]


def _strata(factor: StudyFactor, others: Sequence[StudyFactor], cells: Sequence[CellAnalysis]) -> tuple[bool, list[Stratum]]:
    """Group the cells of one scenario so that all else is equal within a group; where none are equal, all form one group."""
    groups: dict[tuple[Level, ...], Stratum] = {}
    for cell in cells:
        group = groups.setdefault(tuple(level_of(cell, other) for other in others), {})
        level = level_of(cell, factor)
        group[level] = (*group.get(level, ()), cell)
    matched = [group for group in groups.values() if len(group) > 1]
    if matched:
        return True, matched
    merged: Stratum = {}
    for group in groups.values():
        for level, members in group.items():
            merged[level] = (*merged.get(level, ()), *members)
    return False, [merged] if len(merged) > 1 else []


def _contrasts(factor: StudyFactor, strata: Sequence[Stratum]) -> list[tuple[Level, Level]]:
    """Which levels are held against each other: of an ordered factor the two farthest apart, else each against the base."""
    levels = [level for level in factor.levels if any(level in stratum for stratum in strata)]
    pairs = [
        (low, high)
        for index, low in enumerate(levels)
        for high in levels[index + 1 :]
        if any(low in stratum and high in stratum for stratum in strata)
    ]
    if factor.ordered:
        return [max(pairs, key=lambda pair: number(pair[1]) - number(pair[0]))]
    based = [pair for pair in pairs if pair[0] == levels[0]]
    return based or pairs


def _judge(tests: Sequence[SignedResult], threshold: float) -> list[Evidence]:
    """Correct all p-values together, and ask of each whether the best possible one would have passed among the others."""
    known = [test.p_value for test in tests if test.p_value is not None]
    corrected = iter(correct(known))
    evidence = []
    position = 0
    for test in tests:
        if test.p_value is None:
            tellable = correct([*known, test.attainable])[-1] < threshold
            evidence.append(Evidence(None, None, test.attainable, tellable, shown=False))
            continue
        value = next(corrected)
        best = correct([*known[:position], min(test.attainable, test.p_value), *known[position + 1 :]])[position]
        evidence.append(Evidence(test.p_value, value, test.attainable, best < threshold, shown=value < threshold))
        position += 1
    return evidence


def _rank(effects: Sequence[Effect]) -> tuple[FactorRank, ...]:
    """Order the factors of each variant: those that matter by the size of their effect, then those that cannot be told."""
    groups: dict[str, dict[str, list[Effect]]] = {}
    for effect in effects:
        groups.setdefault(effect.variant, {}).setdefault(effect.factor, []).append(effect)
    ranks = []
    for variant, factors in groups.items():
        found = [(_matters(members), max(members, key=_importance)) for members in factors.values()]
        order = {True: 0, None: 1, False: 2}
        found.sort(key=lambda entry: (order[entry[0]], -entry[1].strength, _p_value(entry[1])))
        ranks += [
            FactorRank(rank, variant, effect.factor, matters, effect) for rank, (matters, effect) in enumerate(found, start=1)
        ]
    return tuple(ranks)


def _matters(effects: Sequence[Effect]) -> bool | None:
    if any(effect.shown for effect in effects):
        return True
    return False if any(effect.tellable for effect in effects) else None


def _importance(effect: Effect) -> tuple[bool, bool, float, float]:
    """What is shown before what is not, all scenarios together before a single one, strong before weak."""
    return effect.shown, effect.scenario is None, effect.strength, -_p_value(effect)


def _p_value(effect: Effect) -> float:
    best = effect.best
    return 1.0 if best is None or best.corrected is None else best.corrected


def _share(counts: Iterable[tuple[int, int]]) -> float:
    known = list(counts)
    return sum(count for count, _ in known) / sum(total for _, total in known)


def compare_sizes(groups: Sequence[Sequence[float]], ranks: Sequence[float]) -> SignedResult:
    """Test whether values grow or shrink with the rank of their group.

    Two groups are compared by Mann and Whitney's test. More, in their order, by Kendall's tau between rank and value, which is
    the test of Jonckheere and Terpstra.
    """
    from scipy import stats

    counts = [len(group) for group in groups]
    values = [value for group in groups for value in group]
    attainable = min(1.0, 2 / _arrangements(counts))
    if min(values) == max(values):
        return SignedResult(None, 0, len(values), attainable)
    if len(groups) == 2:
        low, high = groups
        share = superiority(low, high)
        # SciPy permutes groups of two or more only.
        if min(counts) > 1 and len(set(values)) < len(values) and _arrangements(counts) <= MAX_ARRANGEMENTS:
            every = stats.PermutationMethod(n_resamples=MAX_ARRANGEMENTS)
            p_value = float(stats.mannwhitneyu(high, low, method=every).pvalue)
        else:
            p_value = float(stats.mannwhitneyu(high, low).pvalue)
        return SignedResult(max(p_value, attainable), _sign(share - 0.5), len(values), attainable)
    at = [rank for rank, group in zip(ranks, groups, strict=True) for _ in group]
    trend = stats.kendalltau(at, values)
    return SignedResult(max(float(trend.pvalue), attainable), _sign(float(trend.statistic)), len(values), attainable)


def compare_rates(low: tuple[int, int], high: tuple[int, int]) -> SignedResult:
    """Compare two (how many, of how many) by Fisher's exact test."""
    from scipy import stats

    repeats = low[1] + high[1]
    attainable = float(stats.fisher_exact(np.array([[0, low[1]], [high[1], 0]])).pvalue)
    if low[0] + high[0] in (0, repeats):
        return SignedResult(None, 0, repeats, attainable)
    table = np.array([[low[0], low[1] - low[0]], [high[0], high[1] - high[0]]])
    p_value = float(stats.fisher_exact(table).pvalue)
    return SignedResult(min(1.0, p_value), _sign(high[0] / high[1] - low[0] / low[1]), repeats, attainable)


def superiority(low: Sequence[float], high: Sequence[float]) -> float:
    """Return the probability that a value of ``high`` exceeds one of ``low``, ties counting half (U / n1 n2)."""
    from scipy import stats

    return float(stats.mannwhitneyu(high, low, method="asymptotic").statistic) / (len(low) * len(high))


def combine(strata: Sequence[SignedResult]) -> SignedResult:
    """Put the strata of one question together; a stratum in which nothing varied has no say."""
    repeats = sum(stratum.repeats for stratum in strata)
    attainable = _stouffer([(stratum.attainable, 1, stratum.repeats) for stratum in strata])[0]
    telling = [(stratum.p_value, stratum.sign, stratum.repeats) for stratum in strata if stratum.p_value is not None]
    if not telling:
        return SignedResult(None, 0, repeats, attainable)
    return SignedResult(*_stouffer(telling), repeats, attainable)


def correct(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Benjamini and Hochberg's procedure."""
    if not p_values:
        return []
    from scipy import stats

    corrected: list[float] = stats.false_discovery_control(list(p_values), method="bh").tolist()
    return corrected


def _stouffer(parts: Sequence[tuple[float, int, int]]) -> tuple[float, int]:
    """Combine (p-value, sign, weight); a single part is returned as it is."""
    if len(parts) == 1:
        return parts[0][0], parts[0][1]
    from scipy import stats

    total = math.fsum(sign * math.sqrt(count) * float(stats.norm.isf(p / 2)) for p, sign, count in parts)
    z = total / math.sqrt(sum(count for _, _, count in parts))
    return min(1.0, float(2 * stats.norm.sf(abs(z)))), _sign(z)


def _arrangements(counts: Sequence[int]) -> int:
    """In how many ways the values can be dealt to groups of these sizes."""
    total, ways = 0, 1
    for count in counts:
        total += count
        ways *= math.comb(total, count)
    return ways


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
