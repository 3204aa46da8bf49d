"""Bounds of the rate of divergence, against SciPy's own exact test and against simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from samepath.instrument.analysis.verdict import (
    chance_to_see,
    clopper_pearson,
    confidence_sequence,
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
