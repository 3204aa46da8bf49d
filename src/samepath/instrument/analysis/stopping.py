r"""When to stop repeating: rules that may look after every repeat and still keep their word.

Who looks again and again and stops when it pleases finds what is not there, unless the bound holds at every moment at once.

*Rate.* The rate of divergence is the probability that a run is not of the most frequent outcome. The bounds of
:func:`anytime_bounds` hold at all n simultaneously, also where another outcome becomes the largest class on the way. So
«below the target» is wrong in at most 5 % of studies, and so is «above the target», however often the rule was asked.

*Sigma.* The first repeats choose the place (tick, actor, axis) that spreads most; the others measure it there, so that the
choice is no part of the measurement. For normally distributed repeats :math:`(n-1)s^2/\sigma^2` has a chi-square distribution
with n - 1 degrees. Looks are at 1.25 times as many repeats as the last time, and the k-th look spends
:math:`6\alpha/(\pi^2k^2)` of the error, which adds up to :math:`\alpha`. Repeats that are not normal (two outcomes, say)
are not covered: the words say so.
"""

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION
from samepath.instrument.analysis.verdict import (
    CONFIDENCE,
    RateBounds,
    anytime_bounds,
    may_stop,
    repeats_needed,
    repeats_until_stop,
)
from samepath.instrument.traces.records import Repeat

PILOT: Final = 10
_FIRST_LOOK: Final = 20
# Fewer would decide about the rate and leave nothing to measure the spread with.
LEAST: Final = 10
_GROWTH: Final = 1.25


@dataclass
class RateRule:
    """Stops when the rate of divergence is shown to be below the target, or above it."""

    target: float
    confidence: float = CONFIDENCE
    repeats: int = 0
    _sizes: dict[str, int] = field(default_factory=dict)
    _first_seen: dict[str, int] = field(default_factory=dict)

    @property
    def divergent(self) -> int:
        """How many repeats are not of the largest outcome."""
        return self.repeats - max(self._sizes.values(), default=0)

    def add(self, repeat: Repeat) -> str:
        """Take in a repeat; say why to stop, or nothing."""
        return self.add_digest(repeat.digest)

    def add_digest(self, digest: str) -> str:
        """The same, by the name of the run."""
        self.repeats += 1
        self._sizes[digest] = self._sizes.get(digest, 0) + 1
        self._first_seen.setdefault(digest, self.repeats)
        if self.repeats < LEAST:
            return ""
        # Of equally large classes ``max`` takes the one seen first, which has the larger share of the error.
        largest = max(self._sizes, key=lambda name: self._sizes[name])
        first = self._first_seen[largest]
        lower, upper = anytime_bounds(self.divergent, self.repeats, self.confidence, first)
        bounds = RateBounds(self.divergent, self.repeats, self.confidence, lower, upper, lower, upper)
        return may_stop(bounds, self.target) or ""

    def left(self) -> str:
        """Say what it would take at least."""
        if self.divergent:
            return f"{self.divergent} of {self.repeats} are not of the largest outcome: not decided yet"
        needed = repeats_until_stop(self.target, self.confidence)
        more = max(0, needed - self.repeats)
        return f"{more} more without divergence show a rate below {100 * self.target:g} %"


@dataclass
class SigmaRule:
    """Stops when sigma at the widest place is known within a share of itself."""

    within: float
    confidence: float = CONFIDENCE
    _pilot: list[Repeat] = field(default_factory=list)
    _place: tuple[int, int, int] | None = None  # tick, actor, column
    _values: list[float] = field(default_factory=list)
    _looks: int = 0
    _next: float = _FIRST_LOOK
    _width: float = math.inf

    def add(self, repeat: Repeat) -> str:
        """Take in a repeat; say why to stop, or nothing."""
        if self._place is None:
            self._pilot.append(repeat)
            if len(self._pilot) == PILOT:
                self._place = widest(self._pilot)
                self._pilot.clear()
            return ""
        tick, actor, column = self._place
        row = np.flatnonzero((repeat.tick == tick) & (repeat.actor == actor))
        if len(row):
            self._values.append(float(repeat.values[row[0], column]))
        return self._look()

    def _look(self) -> str:
        count = len(self._values)
        if count < self._next:
            return ""
        self._looks += 1
        self._next = math.ceil(count * _GROWTH)
        error = 6 * (1 - self.confidence) / (math.pi * self._looks) ** 2
        low, high = sigma_factors(count, error)
        spread = sample_sigma(np.array(self._values))
        if spread == 0:
            return ""
        self._width = max(1 - low, high - 1)
        if self._width <= self.within:
            return (
                f"sigma is known within {100 * self._width:.3g} % after {count} repeats at its widest place "
                f"({100 * self.confidence:.4g} % confidence, if repeats are normally distributed)"
            )
        return ""

    def left(self) -> str:
        """Say how far it is."""
        if math.isinf(self._width):
            return f"sigma is to be known within {100 * self.within:g} %"
        return f"sigma is known within {100 * self._width:.3g} %, {100 * self.within:g} % are wanted"


StopRule = RateRule | SigmaRule


def sigma_factors(count: int, error: float) -> tuple[float, float]:
    """Between which multiples of the sample's sigma the true one lies, but for ``error``; normal repeats."""
    from scipy import stats

    degrees = count - 1
    low = math.sqrt(degrees / float(stats.chi2.ppf(1 - error / 2, degrees)))
    high = math.sqrt(degrees / float(stats.chi2.ppf(error / 2, degrees)))
    return low, high


def sample_sigma(values: NDArray[np.float64]) -> float:
    """Sample standard deviation; equal values give exactly 0."""
    apart = values - values[0]
    mean = math.fsum(apart) / len(apart)
    return math.sqrt(math.fsum((apart - mean) ** 2) / max(1, len(apart) - 1))


def widest(repeats: list[Repeat]) -> tuple[int, int, int]:
    """Return where some repeats spread most: tick, actor, column; of places that all of them have."""
    first = repeats[0]
    columns = [index for index, name in enumerate(first.channels) if name in POSITION]
    alike = [r for r in repeats if np.array_equal(r.tick, first.tick) and np.array_equal(r.actor, first.actor)]
    stacked = np.array([r.values[:, columns] - first.values[:, columns] for r in alike])
    spread = np.ptp(stacked, axis=0)
    row, column = np.unravel_index(int(np.argmax(spread)), spread.shape)
    return int(first.tick[row]), int(first.actor[row]), columns[int(column)]


def repeats_for_power(rate: float, above: float, power: float, confidence: float = CONFIDENCE) -> int:
    """Return how many repeats show with ``power`` that a true ``rate`` is below ``above``: exact, one look at the end.

    With n repeats the rate is shown to be below if at most c of them diverge, where c is the largest count whose
    Clopper-Pearson bound is below; the power is the chance of at most c.
    """
    from scipy import stats

    if not 0 <= rate < above < 1:
        raise ValueError(f"a rate below the limit was wanted, but {rate} and {above} came")

    def strength(repeats: int) -> float:
        # The bound of c is below ``above`` exactly if at most c of n have at most the stated error at that rate.
        most = int(stats.binom.ppf(1 - confidence, repeats, above))
        while most >= 0 and float(stats.binom.cdf(most, repeats, above)) > 1 - confidence:
            most -= 1
        return 0.0 if most < 0 else float(stats.binom.cdf(most, repeats, rate))

    repeats = math.ceil(math.log(1 - confidence) / math.log1p(-above))
    # The power goes up in saw-teeth: every n is looked at, so that the answer is the smallest.
    while strength(repeats) < power:
        repeats += max(1, repeats // 2000)
        if repeats > 10**7:
            raise ValueError("more than ten million repeats would be needed")
    return repeats


@dataclass(frozen=True)
class PlannedSize:
    """How many repeats a question needs, and what fewer would give."""

    rate: float
    power: float
    confidence: float
    to_see: int
    to_accept: int
    to_accept_growing: int
    to_accept_half: int

    def words(self) -> tuple[str, ...]:
        """Say it in lines."""
        rate, power, sure = f"{100 * self.rate:.4g} %", f"{100 * self.power:.4g} %", f"{100 * self.confidence:.4g} %"
        return (
            f"{self.to_see} repeats show at least one divergence of a rate of {rate}, with a power of {power}.",
            f"{self.to_accept} repeats without any divergence show that the rate is below {rate} ({sure} confidence).",
            f"{self.to_accept_growing} do so where one looks after every repeat: repeats: {{until: rate < {rate}, max: ...}}.",
            f"{self.to_accept_half} repeats show it with a power of {power} if the true rate is half of that.",
            f"Run exactly {self.to_accept_half} for that: power rises in saw-teeth, so a few more repeats may have less.",
        )


def plan_size(rate: float, power: float, confidence: float = CONFIDENCE) -> PlannedSize:
    """Work out how many repeats are needed for a rate."""
    return PlannedSize(
        rate,
        power,
        confidence,
        repeats_needed(rate, power),
        repeats_needed(rate, confidence),
        repeats_until_stop(rate, confidence),
        repeats_for_power(rate / 2, rate, power, confidence),
    )
