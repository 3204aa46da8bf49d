"""Effects: which factor matters, and whether it changes how far repeats are apart or how often they part.

What is compared are pairs of repeats of one cell (:class:`~samepath.analysis.divergence.PairDistance`): does the simulator take
the same path twice at this level, and at that one?
"""

from dataclasses import dataclass

from samepath.analysis.domains import WHOLE, phase_words
from samepath.analysis.factors import Level, level_words
from samepath.base.units import format_length


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
class Size:
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
class Rate:
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
    size: Size
    diverging: Rate
    beyond: Rate
    levels: tuple[Level, ...]
    max_sigma_m: tuple[float, ...]
    tolerance_m: float

    @property
    def shown(self) -> bool:
        """Is any effect shown beyond chance?"""
        return any(one.shown for one in self._evidence)

    @property
    def tellable(self) -> bool:
        """Could so many repeats have shown any effect?"""
        return any(one.tellable for one in self._evidence)

    @property
    def best(self) -> Evidence | None:
        """The strongest evidence; None where nothing varied at all."""
        known = [one for one in self._evidence if one.corrected is not None]
        return min(known, key=lambda one: one.corrected or 0.0, default=None)

    @property
    def strength(self) -> float:
        """The largest effect that is shown, from 0 to 1, whatever the number of repeats."""
        sizes = [abs(2 * self.size.superiority - 1)] if self.size.evidence.shown else []
        return max([*sizes, *(abs(one.difference) for one in (self.diverging, self.beyond) if one.evidence.shown)], default=0.0)

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
            levels = ", ".join(level_words(self.factor, one) for one in self.levels)
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
        return tuple(one for one in self.effects if one.ordered and one.scenario is not None)

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
