"""Finding effects: which repeats are compared with which, and all p-values of a study corrected together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.comparisons import Signed, combine, compare_rates, compare_sizes, correct, superiority
from samepath.analysis.domains import WHOLE
from samepath.analysis.effects import Effect, Effects, Evidence, FactorRank, Rate, Size
from samepath.analysis.factors import Level, StudyFactor, by_scenario, by_variant, find_factors, level_of, number

METHOD: Final = "Benjamini and Hochberg's procedure"


def find_effects(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> Effects:
    """Ask of every factor of every variant what it does, in each scenario and phase and in all scenarios together."""
    questions = [
        question
        for members in by_variant(cells).values()
        for factors in (find_factors(members),)
        for factor in factors
        for question in _questions(factor, factors, members)
    ]
    tests = [test for question in questions for test in question.tests]
    evidence = iter(_judge(tests, 1 - confidence))
    effects = tuple(question.answer(next(evidence), next(evidence), next(evidence)) for question in questions)
    counted = sum(test.p_value is not None for test in tests)
    return Effects(effects, _rank(effects), METHOD, counted, 1 - confidence)


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
        return sum(one.differs_before for cell in self.cells for one in cell.deviations), self.repeats

    @property
    def beyond(self) -> tuple[int, int]:
        """How many pairs are farther apart than the tolerance or differ in structure, of how many."""
        count = 0
        for cell in self.cells:
            odd: set[int] = set()
            if self.phase == WHOLE and cell.options.structure_fails:
                odd = {repeat for finding in cell.findings for repeat in finding.repeats}
            for pair in cell.pairs:
                apart_m = pair.apart_m if self.phase == WHOLE else pair.apart_before_m
                count += apart_m > cell.options.tolerance_m or pair.first in odd or pair.second in odd
        return count, sum(len(cell.pairs) for cell in self.cells)

    @property
    def max_sigma_m(self) -> float:
        summaries = [cell.summary if self.phase == WHOLE else cell.before.summary for cell in self.cells]
        return max((one.max_sigma_m or 0.0 for one in summaries), default=0.0)


# Cells of one scenario that are equal but for the level of a factor.
Group = dict[Level, tuple[CellAnalysis, ...]]


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
    def tests(self) -> tuple[Signed, Signed, Signed]:
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
            still=sum(not any(any(sample.apart_m) for sample in one.values()) for one in self.strata),
            repeats_low=sum(one.repeats for one in lows),
            repeats_high=sum(one.repeats for one in highs),
            size=Size(share, median_low_m, median_high_m, size),
            diverging=Rate(_share(one.diverging for one in lows), _share(one.diverging for one in highs), diverging),
            beyond=Rate(_share(one.beyond for one in lows), _share(one.beyond for one in highs), beyond),
            levels=tuple(levels),
            max_sigma_m=tuple(max(one[level].max_sigma_m for one in self.strata if level in one) for level in levels),
            tolerance_m=self.tolerance_m,
        )

    @property
    def _both(self) -> list[tuple[_Sample, _Sample]]:
        return [(one[self.low], one[self.high]) for one in self.strata if self.low in one and self.high in one]


def _questions(factor: StudyFactor, factors: Sequence[StudyFactor], cells: Sequence[CellAnalysis]) -> Iterator[_Question]:
    others = [one for one in factors if one != factor]
    scenarios = {name: _strata(factor, others, group) for name, group in by_scenario(cells).items()}
    scenarios = {name: found for name, found in scenarios.items() if found[1]}
    scopes: list[tuple[str | None, list[tuple[bool, list[Group]]]]] = [(name, [one]) for name, one in scenarios.items()]
    if len(scopes) > 1:
        scopes.insert(0, (None, list(scenarios.values())))
    for scenario, parts in scopes:
        strata = [stratum for _, found in parts for stratum in found]
        for phase in _phases(strata):
            for low, high in _contrasts(factor, strata):
                chosen = strata if factor.ordered else [one for one in strata if low in one and high in one]
                yield _Question(
                    factor=factor,
                    simulator=cells[0].header.simulator,
                    scenario=scenario,
                    phase=phase,
                    low=low,
                    high=high,
                    matched=all(matched for matched, _ in parts),
                    strata=tuple({level: _Sample(members, phase) for level, members in one.items()} for one in chosen),
                    tolerance_m=cells[0].options.tolerance_m,
                )


def _phases(strata: Sequence[Group]) -> list[str]:
    """Whole runs, and what is before the split where there is anything on both sides of it."""
    cells = [cell for stratum in strata for members in stratum.values() for cell in members]
    split = [cell for cell in cells if cell.before.judgement is not None and cell.after.judgement is not None]
    return [WHOLE, split[0].before.name] if split else [WHOLE]


def _strata(factor: StudyFactor, others: Sequence[StudyFactor], cells: Sequence[CellAnalysis]) -> tuple[bool, list[Group]]:
    """Group the cells of one scenario so that all else is equal within a group; where none are equal, all form one group."""
    groups: dict[tuple[Level, ...], Group] = {}
    for cell in cells:
        group = groups.setdefault(tuple(level_of(cell, one) for one in others), {})
        level = level_of(cell, factor)
        group[level] = (*group.get(level, ()), cell)
    matched = [group for group in groups.values() if len(group) > 1]
    if matched:
        return True, matched
    merged: Group = {}
    for group in groups.values():
        for level, members in group.items():
            merged[level] = (*merged.get(level, ()), *members)
    return False, [merged] if len(merged) > 1 else []


def _contrasts(factor: StudyFactor, strata: Sequence[Group]) -> list[tuple[Level, Level]]:
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


def _judge(tests: Sequence[Signed], threshold: float) -> list[Evidence]:
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
        found.sort(key=lambda one: (order[one[0]], -one[1].strength, _p_value(one[1])))
        ranks += [FactorRank(rank, variant, one.factor, matters, one) for rank, (matters, one) in enumerate(found, start=1)]
    return tuple(ranks)


def _matters(effects: Sequence[Effect]) -> bool | None:
    if any(one.shown for one in effects):
        return True
    return False if any(one.tellable for one in effects) else None


def _importance(effect: Effect) -> tuple[bool, bool, float, float]:
    """What is shown before what is not, all scenarios together before a single one, strong before weak."""
    return effect.shown, effect.scenario is None, effect.strength, -_p_value(effect)


def _p_value(effect: Effect) -> float:
    best = effect.best
    return 1.0 if best is None or best.corrected is None else best.corrected


def _share(counts: Iterable[tuple[int, int]]) -> float:
    known = list(counts)
    return sum(count for count, _ in known) / sum(total for _, total in known)
