"""The tests behind effects, against counting every arrangement; and how often they see something in nothing."""

from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from scipy import stats

from samepath.instrument.analysis.effects import SignedResult, combine, compare_rates, compare_sizes, correct, superiority


def exact_p_value(low, high):
    """The two-sided p-value of the rank sum, by dealing the values in every possible way."""
    values = np.array([*low, *high])
    ranks = stats.rankdata(values)
    sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(len(values)), len(high))])
    observed = ranks[len(low) :].sum()
    return min(1.0, 2 * min(np.mean(sums >= observed - 1e-9), np.mean(sums <= observed + 1e-9)))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([0.0] * 5, [0.0, 1.0, 1.0, 1.0, 1.0]),
        ([0.0, 0.0, 1.0], [2.0, 2.0, 3.0]),
        ([1.0, 4.0, 2.0, 8.0], [3.0, 9.0, 10.0, 11.0, 12.0]),
        ([0.0] * 7, [0.0, 0.0, 0.0, 0.0, 0.5, 0.7, 0.9]),
    ],
)
def test_small_samples_are_tested_exactly_ties_or_not(low, high):
    found = compare_sizes([low, high], (0.0, 1.0))
    assert found.p_value == pytest.approx(exact_p_value(low, high))
    assert found.sign == 1


def test_superiority_counts_pairs_and_ties_half():
    low, high = [1.0, 2.0, 3.0], [2.0, 5.0]
    wins = [(b > a) + 0.5 * (b == a) for a in low for b in high]
    assert superiority(low, high) == pytest.approx(sum(wins) / len(wins))


def test_several_levels_are_tested_for_a_trend():
    rising = compare_sizes([[1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0], [5.0, 6.0, 7.0, 8.0]], (0.0, 1.0, 2.0))
    falling = compare_sizes([[5.0, 6.0, 7.0, 8.0], [3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0]], (0.0, 1.0, 2.0))
    assert rising.p_value == pytest.approx(falling.p_value)
    assert rising.p_value < 0.01
    assert (rising.sign, falling.sign) == (1, -1)


def test_no_p_value_is_below_what_so_few_repeats_can_give():
    found = compare_sizes([[0.0] * 3, [1.0] * 3], (0.0, 1.0))
    assert found.p_value == found.attainable == 2 / comb(6, 3)
    three = compare_sizes([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], (0.0, 1.0, 2.0))
    assert three.p_value >= three.attainable == 2 / 90


def test_rates_are_compared_by_fishers_test():
    found = compare_rates((1, 10), (7, 10))
    tables = [stats.hypergeom.pmf(k, 20, 8, 10) for k in range(9)]
    assert found.p_value == pytest.approx(sum(p for p in tables if p <= tables[1] * (1 + 1e-9)))
    assert found.sign == 1
    assert found.attainable == pytest.approx(2 / comb(20, 10))
    assert compare_rates((0, 10), (0, 10)).p_value is None
    assert compare_rates((10, 10), (10, 10)).p_value is None


def test_where_nothing_varies_there_is_no_p_value():
    assert compare_sizes([[0.0] * 5, [0.0] * 5], (0.0, 1.0)).p_value is None
    assert combine([SignedResult(None, 0, 10, 0.01), SignedResult(None, 0, 10, 0.01)]).p_value is None


def test_strata_add_up_where_they_agree_and_cancel_where_they_do_not():
    faint = SignedResult(0.04, 1, 20, 1e-5)
    z = stats.norm.isf(0.02)
    assert combine([faint, faint]).p_value == pytest.approx(2 * stats.norm.sf(sqrt(2) * z))
    assert combine([faint, SignedResult(0.04, -1, 20, 1e-5)]).p_value == pytest.approx(1.0)
    assert combine([faint, SignedResult(None, 0, 20, 1e-5)]).p_value == 0.04, "a stratum in which nothing varied has no say"
    heavy = combine([SignedResult(0.01, 1, 90, 1e-5), SignedResult(0.5, -1, 10, 1e-5)])
    assert heavy.sign == 1
    assert heavy.p_value < 0.05


def test_corrected_p_values_are_benjamini_and_hochbergs():
    assert correct([0.01, 0.04, 0.03, 0.8]) == pytest.approx([0.04, 0.04 * 4 / 3, 0.04 * 4 / 3, 0.8])
    assert correct([]) == []


WORLDS = {
    "noise": lambda random, n: random.normal(0, 0.01, n),
    "rare outliers": lambda random, n: 2.0 * (random.random(n) < 0.1),
    "two ways with noise": lambda random, n: 2.0 * (random.random(n) < 0.3) + random.normal(0, 0.001, n),
    "heavy tails": lambda random, n: 0.01 * random.standard_cauchy(n),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("levels", [2, 4])
def test_pairs_of_repeats_rarely_show_an_effect_where_there_is_none(world, levels):
    """Of 400 comparisons of equal levels about 20 may fall below 5 %; 36 or more have a chance below 1 in 1000."""
    random = np.random.default_rng(levels)
    shown = 0
    for _ in range(400):
        places = [WORLDS[world](random, 30) for _ in range(levels)]
        apart = [np.abs(place[::2] - place[1::2]).tolist() for place in places]
        p_value = compare_sizes(apart, [float(rank) for rank in range(levels)]).p_value
        shown += p_value is not None and p_value < 0.05
    assert shown < 36
