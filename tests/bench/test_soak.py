"""What a soak says of a series: a leak is found, jitter is tolerated, and a step that was taken once is no leak."""

import numpy as np
import pytest

from bench import __main__ as bench
from bench import soak
from samepath.core.streams import stream

TIMES_S = [10.0 * number for number in range(180)]  # half an hour
BOUND = soak.BOUNDS["memory_mib"]
JITTER = stream(1, "test", "soak").normal(0.0, 3.0, len(TIMES_S))


def of(values):
    return soak.trend(TIMES_S, list(values), BOUND)


def test_a_level_series_is_flat():
    found = of(np.full(180, 200.0))
    assert found.is_flat
    assert (found.growth, found.growth_least) == (0.0, 0.0)


def test_jitter_is_no_leak():
    assert of(200.0 + JITTER).is_flat


def test_a_leak_below_the_jitter_of_single_samples_is_found():
    # A MiB a minute: 15 in the half that is judged, where 8 are allowed.
    found = of(200.0 + np.array(TIMES_S) / 60.0 + JITTER)
    assert not found.is_flat
    assert found.growth == pytest.approx(15.0, abs=2.0)


def test_growth_in_the_first_half_is_warming_up():
    assert of(200.0 + np.minimum(np.array(TIMES_S), 800.0) + JITTER).is_flat


def test_one_step_is_no_leak_and_neither_are_a_few_samples_that_are_far_out():
    assert of(np.where(np.array(TIMES_S) > 1700.0, 240.0, 200.0) + JITTER).is_flat
    assert of(np.where(np.arange(180) % 17 == 0, 900.0, 200.0) + JITTER).is_flat


def test_a_saw_that_comes_back_down_is_no_leak_and_one_that_does_not_is():
    saw = 40.0 * (np.arange(180) % 12) / 12.0
    assert of(200.0 + saw).is_flat
    assert not of(200.0 + saw + np.array(TIMES_S) / 20.0).is_flat


def test_descriptors_that_stay_open_one_by_one_are_found():
    bound = soak.BOUNDS["descriptors"]
    assert not soak.trend(TIMES_S, [30.0 + number // 5 for number in range(180)], bound).is_flat
    assert soak.trend(TIMES_S, [30.0 + number % 9 for number in range(180)], bound).is_flat


def test_the_bound_grows_with_the_time_but_is_never_below_the_jitter():
    assert BOUND.over(60.0) == BOUND.at_least
    assert BOUND.over(7200.0) == 2.0 * BOUND.per_hour


def test_of_a_few_samples_nothing_is_said():
    assert soak.trend(TIMES_S[:10], [1.0] * 10, BOUND) is None


def test_it_runs_only_when_it_is_named():
    assert "soak" not in bench.BENCHMARKS
    assert "soak" in bench.WHEN_NAMED
