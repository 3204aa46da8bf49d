"""Exact variance against exact rational arithmetic, over numbers chosen to hurt."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from samepath.instrument.analysis import exact
from samepath.instrument.analysis.exact import SpreadAccumulator, exact_columns, round_fraction, spread_of, sqrt_fraction
from tests.conftest import ulps_apart

finite = st.floats(allow_nan=False, allow_infinity=False)
magnitudes = st.one_of(
    finite,
    st.floats(-1e3, 1e3),
    st.floats(min_value=-5e-320, max_value=5e-320),  # denormals
    st.builds(lambda offset, rest: offset + rest, st.sampled_from([1e15, -3e11, 7.7e4]), st.floats(-1e-3, 1e-3)),
    st.sampled_from([0.0, -0.0, 0.1, math.nextafter(0.1, 1), 1e308, -1e308, 5e-324]),
)


def oracle(values):
    fractions = [Fraction(float(value)) for value in values]
    mean = sum(fractions, Fraction(0)) / len(fractions)
    variance = sum(((fraction - mean) ** 2 for fraction in fractions), Fraction(0)) / (len(fractions) - 1)
    return mean, variance, max(abs(fraction - mean) for fraction in fractions)


def assert_agrees(values):
    spread = spread_of(values)
    for column in range(values.shape[1]):
        mean, variance, deviation = oracle(values[:, column])
        assert ulps_apart(spread.variance[column], round_fraction(variance)) <= 1
        assert ulps_apart(spread.sigma[column], sqrt_fraction(variance)) <= 1
        negligible = Fraction(float(max(values[:, column]))) - Fraction(float(min(values[:, column])))
        negligible /= 2**58
        for found, true in ((spread.mean[column], mean), (spread.max_deviation[column], deviation)):
            assert ulps_apart(found, round_fraction(true)) <= 1 or abs(Fraction(float(found)) - true) <= negligible


@settings(max_examples=400, deadline=None)
@given(st.lists(magnitudes, min_size=2, max_size=40))
def test_variance_sigma_mean_and_deviation_are_within_one_ulp_of_rational_arithmetic(values):
    assert_agrees(np.array(values)[:, None])


@settings(max_examples=60, deadline=None)
@given(
    nps.arrays(np.float64, st.tuples(st.integers(2, 9), st.integers(1, 4)), elements=st.floats(-1e6, 1e6)),
    st.sampled_from([1e16, -1e9, 1.0, 1e-300]),
)
def test_a_huge_common_offset_costs_no_bits(values, offset):
    assert_agrees(values + offset)


@pytest.mark.parametrize("seed", range(8))
def test_thousands_of_repeats_in_many_chunks_agree_too(seed):
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.integers(-12, 12, 3)
    values = random.normal(0, 1, (1500, 3)) * scale + random.uniform(-1e4, 1e4, 3)
    values[random.integers(0, 1500, 20), :] *= 10.0 ** random.integers(-8, 8)
    assert_agrees(values)


@settings(max_examples=200, deadline=None)
@given(finite, st.integers(2, 1100))
def test_identical_values_have_exactly_zero_spread(value, repeats):
    spread = spread_of(np.full((repeats, 1), value))
    assert spread.sigma[0] == 0.0
    assert spread.variance[0] == 0.0
    assert spread.max_deviation[0] == 0.0
    assert spread.mean[0] == value


def test_numpy_sees_variance_where_there_is_none_and_we_do_not():
    values = np.full((1000, 1), 100.1)
    assert np.var(values, axis=0)[0] > 0
    assert spread_of(values).variance[0] == 0.0


def test_one_ulp_of_difference_in_one_repeat_is_seen():
    values = np.full((1000, 1), 0.1)
    values[777] = math.nextafter(0.1, 1)
    assert spread_of(values).sigma[0] > 0
    assert_agrees(values)


@settings(max_examples=100, deadline=None)
@given(nps.arrays(np.float64, (30, 3), elements=st.floats(-1e5, 1e5)), st.lists(st.integers(1, 29), max_size=5))
def test_how_the_repeats_are_cut_into_blocks_does_not_change_a_bit_of_a_proved_result(values, cuts):
    whole = SpreadAccumulator(3)
    whole.add(values)
    cut = SpreadAccumulator(3)
    for part in np.split(values, sorted(set(cuts))):
        cut.add(part)
    for name in ("mean", "variance", "sigma", "max_deviation", "range"):
        for a, b in zip(getattr(whole.result(), name), getattr(cut.result(), name), strict=True):
            assert ulps_apart(a, b) <= 1


@settings(max_examples=100, deadline=None)
@given(nps.arrays(np.float64, (12, 4), elements=st.floats(-1e5, 1e5)), nps.arrays(np.bool_, (12, 4)))
def test_absent_values_count_for_nothing_whatever_stands_there(values, present):
    rubbish = np.where(present, values, np.nan)
    spread = spread_of(rubbish, present)
    for column in range(4):
        chosen = values[present[:, column], column]
        assert spread.count[column] == len(chosen)
        if len(chosen) > 1:
            alone = spread_of(chosen[:, None])
            assert ulps_apart(spread.sigma[column], alone.sigma[0]) <= 1
        else:
            assert np.isnan(spread.sigma[column])


def test_columns_that_cannot_be_proved_are_named_and_computed_by_fractions(monkeypatch):
    monkeypatch.setattr(exact, "_SQUARE_ERROR", 1.0)
    values = np.random.default_rng(3).normal(5, 1, (40, 2))
    accumulator = SpreadAccumulator(2)
    accumulator.add(values)
    assert accumulator.result().uncertified.tolist() == [0, 1]
    assert spread_of(values).uncertified.size == 0
    assert_agrees(values)


def test_differences_beyond_the_range_of_float64_still_have_the_right_sigma():
    values = np.array([[1.7e308], [-1.7e308], [1.0]])
    spread = spread_of(values)
    assert ulps_apart(spread.sigma[0], sqrt_fraction(exact_columns(values)[0].variance)) <= 1
    assert spread.variance[0] == np.inf


def test_a_block_of_the_wrong_width_is_refused():
    with pytest.raises(ValueError, match="was wanted"):
        SpreadAccumulator(3).add(np.zeros((2, 4)))
