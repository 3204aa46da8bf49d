"""Comparing repeats between levels of a factor: how far they stray, how often something happens, and what chance explains.

All tests are two-sided and rank- or count-based. Strata, within which everything else is equal, are combined by Stouffer's
method: z-values with their signs, weighted by the root of the number of repeats, so that opposite effects cancel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

# Up to this many arrangements all of them are gone through, because ranks with many ties are far from normal in small samples.
MAX_ARRANGEMENTS: Final = 4000


@dataclass(frozen=True)
class Signed:
    """The outcome of one test or of several together: two-sided p-value, sign of the effect, and how many repeats it rests on.

    ``p_value`` is None where nothing varied; ``attainable`` is the smallest p-value that so many repeats can give.
    """

    p_value: float | None
    sign: int
    repeats: int
    attainable: float


def superiority(low: Sequence[float], high: Sequence[float]) -> float:
    """Return the probability that a value of ``high`` exceeds one of ``low``, ties counting half (U / n1 n2)."""
    from scipy import stats

    return float(stats.mannwhitneyu(high, low, method="asymptotic").statistic) / (len(low) * len(high))


def compare_sizes(groups: Sequence[Sequence[float]], ranks: Sequence[float]) -> Signed:
    """Test whether values grow or shrink with the rank of their group.

    Two groups are compared by Mann and Whitney's test. More, in their order, by Kendall's tau between rank and value, which is
    the test of Jonckheere and Terpstra.
    """
    from scipy import stats

    counts = [len(group) for group in groups]
    values = [value for group in groups for value in group]
    attainable = min(1.0, 2 / _arrangements(counts))
    if min(values) == max(values):
        return Signed(None, 0, len(values), attainable)
    if len(groups) == 2:
        low, high = groups
        share = superiority(low, high)
        # SciPy permutes groups of two or more only.
        if min(counts) > 1 and len(set(values)) < len(values) and _arrangements(counts) <= MAX_ARRANGEMENTS:
            every = stats.PermutationMethod(n_resamples=MAX_ARRANGEMENTS)
            p_value = float(stats.mannwhitneyu(high, low, method=every).pvalue)
        else:
            p_value = float(stats.mannwhitneyu(high, low).pvalue)
        return Signed(max(p_value, attainable), _sign(share - 0.5), len(values), attainable)
    at = [rank for rank, group in zip(ranks, groups, strict=True) for _ in group]
    trend = stats.kendalltau(at, values)
    return Signed(max(float(trend.pvalue), attainable), _sign(float(trend.statistic)), len(values), attainable)


def compare_rates(low: tuple[int, int], high: tuple[int, int]) -> Signed:
    """Compare two (how many, of how many) by Fisher's exact test."""
    from scipy import stats

    repeats = low[1] + high[1]
    attainable = float(stats.fisher_exact(np.array([[0, low[1]], [high[1], 0]])).pvalue)
    if low[0] + high[0] in (0, repeats):
        return Signed(None, 0, repeats, attainable)
    table = np.array([[low[0], low[1] - low[0]], [high[0], high[1] - high[0]]])
    p_value = float(stats.fisher_exact(table).pvalue)
    return Signed(min(1.0, p_value), _sign(high[0] / high[1] - low[0] / low[1]), repeats, attainable)


def combine(strata: Sequence[Signed]) -> Signed:
    """Put the strata of one question together; a stratum in which nothing varied has no say."""
    repeats = sum(one.repeats for one in strata)
    attainable = _stouffer([(one.attainable, 1, one.repeats) for one in strata])[0]
    telling = [(one.p_value, one.sign, one.repeats) for one in strata if one.p_value is not None]
    if not telling:
        return Signed(None, 0, repeats, attainable)
    return Signed(*_stouffer(telling), repeats, attainable)


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
