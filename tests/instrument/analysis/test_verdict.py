"""Bounds of the rate of divergence, against SciPy's own exact test and against simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from samepath.instrument.analysis.assertions import flip_upper
from samepath.instrument.analysis.verdict import (
    all_alike_upper,
    chance_to_see,
    clean_cells_upper,
    clopper_pearson,
    confidence_sequence,
    largest_outcome_upper,
    may_stop,
    rate_bounds,
    repeats_needed,
    repeats_until_stop,
)


@pytest.mark.parametrize(("repeats", "upper"), [(100, 0.0295), (3000, 0.000998)])
def test_no_divergence_bounds_the_rate_only_so_far(repeats, upper):
    assert rate_bounds(0, repeats).upper == pytest.approx(upper, rel=2e-3)
    assert rate_bounds(0, repeats).upper == pytest.approx(1 - 0.05 ** (1 / repeats), rel=1e-12)


@pytest.mark.parametrize(("divergent", "repeats"), [(0, 10), (3, 1000), (5, 12), (12, 12), (1, 1)])
def test_bounds_agree_with_scipys_exact_binomial_test(divergent, repeats):
    lower, upper = clopper_pearson(divergent, repeats, 0.95)
    less = stats.binomtest(divergent, repeats, alternative="less").proportion_ci(0.95, "exact")
    greater = stats.binomtest(divergent, repeats, alternative="greater").proportion_ci(0.95, "exact")
    assert upper == pytest.approx(less.high, rel=1e-9)
    assert lower == pytest.approx(greater.low, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("rate", "probability", "needed"), [(0.001, 0.95, 2995), (0.01, 0.95, 299), (0.5, 0.5, 1), (0.1, 0.999, 66)]
)
def test_the_repeats_needed_to_see_a_rate_are_the_fewest_that_do(rate, probability, needed):
    assert repeats_needed(rate, probability) == needed
    assert chance_to_see(rate, needed) >= probability - 1e-12
    assert needed == 1 or chance_to_see(rate, needed - 1) < probability


def test_the_confidence_sequence_holds_at_every_n_at_once():
    """Peek after each of 400 repeats, 600 times over: the truth may be outside in at most 5 % of the histories."""
    random = np.random.default_rng(11)
    for rate in (0.02, 0.3):
        histories = np.cumsum(random.random((600, 400)) < rate, axis=1)
        bounds = {}
        missed = 0
        for history in histories:
            for trials, successes in enumerate(history.tolist(), start=1):
                if (successes, trials) not in bounds:
                    bounds[successes, trials] = confidence_sequence(successes, trials, 0.95)
                lower, upper = bounds[successes, trials]
                if not lower <= rate <= upper:
                    missed += 1
                    break
        assert missed / 600 <= 0.05


def test_peeking_with_clopper_pearson_would_not_hold():
    """The reason for the stopping rule: the fixed-n bound, asked at every n, misses more often than it claims."""
    random = np.random.default_rng(5)
    rate, missed = 0.3, 0
    for history in np.cumsum(random.random((300, 300)) < rate, axis=1):
        trials = np.arange(1, 301)
        lower = np.where(history > 0, stats.beta.ppf(0.05, np.maximum(history, 1), trials - history + 1), 0.0)
        upper = np.where(history < trials, stats.beta.ppf(0.95, history + 1, np.maximum(trials - history, 1)), 1.0)
        missed += bool(np.any((rate < lower) | (rate > upper)))
    assert missed / 300 > 0.10


def test_the_stopping_rule_accepts_after_the_stated_number_of_clean_repeats_and_not_before():
    needed = repeats_until_stop(0.01)
    assert may_stop(rate_bounds(0, needed), 0.01) is not None
    assert may_stop(rate_bounds(0, needed - 1), 0.01) is None


def test_the_stopping_rule_rejects_a_rate_that_is_plainly_too_high():
    assert "above the target" in may_stop(rate_bounds(50, 100), 0.01)


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="came"):
        rate_bounds(5, 4)
    with pytest.raises(ValueError, match="came"):
        repeats_needed(0, 0.5)


def test_bounds_are_ordered():
    for divergent in range(11):
        bounds = rate_bounds(divergent, 10)
        assert 0 <= bounds.anytime_lower <= bounds.lower <= divergent / 10 <= bounds.upper <= bounds.anytime_upper <= 1
        assert not math.isnan(bounds.anytime_upper)


def test_runs_that_all_differ_leave_the_rate_of_divergence_without_an_upper_bound():
    bounds = rate_bounds(9, 10)
    assert (bounds.upper, bounds.anytime_upper) == (1.0, 1.0)
    assert bounds.lower > 0.6


@pytest.mark.parametrize("chances", [[1 / 3] * 3, [0.1] * 10, [0.5, 0.5], [0.6, 0.3, 0.1]])
@pytest.mark.parametrize("runs", [3, 8, 12])
def test_the_upper_bound_holds_exactly_for_several_outcomes(chances, runs):
    """The distribution of the largest class, exactly: from the number of ways to fill the classes."""
    truth = 1 - max(chances)
    wrong = sum(
        chance_of_largest(chances, runs, alike)
        for alike in range(1, runs + 1)
        if largest_outcome_upper(runs - alike, runs, 0.95) < truth - 1e-12
    )
    assert wrong <= 0.05


def chance_of_largest(chances, runs, alike):
    """P(the largest class has ``alike`` runs), by the exponential generating function."""

    def at_most(size):
        ways = np.array([1.0])
        for chance in chances:
            terms = [chance**k / math.factorial(k) for k in range(size + 1)]
            ways = np.convolve(ways, terms)[: runs + 1]
        return ways[runs] * math.factorial(runs) if len(ways) > runs else 0.0

    return at_most(alike) - at_most(alike - 1)


def test_a_single_outcome_of_two_is_bounded_as_a_flip_rate():
    for divergent in range(4):
        expected = flip_upper(divergent, 20, 0.95)
        assert largest_outcome_upper(divergent, 20, 0.95) == pytest.approx(expected, rel=1e-9)


def test_the_mean_rate_of_cells_without_divergence_counts_no_first_run():
    assert all_alike_upper([10] * 24, 0.95) == pytest.approx(1 - 0.05 ** (1 / 216))
    assert all_alike_upper([10], 0.95) == largest_outcome_upper(0, 10, 0.95)


def test_a_region_of_all_cells_needs_no_correction_and_a_chosen_one_does():
    mean, each = clean_cells_upper(12, 12, [10] * 12, 0.95)
    assert mean == pytest.approx(1 - 0.05 ** (1 / 120))
    assert each == pytest.approx(1 - 0.05 ** (1 / 10))
    mean, each = clean_cells_upper(1, 12, [10], 0.95)
    assert mean == each == pytest.approx(1 - (1 - 0.95 ** (1 / 12)) ** (1 / 10))
