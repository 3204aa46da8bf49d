"""When sensors measure: at once, then every sensor_tick simulated seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.simulator.sensors.sensor import interval_s, is_due


def due_ticks(period_s, step_s, ticks):
    return [tick for tick in range(ticks) if is_due(period_s, tick * step_s, step_s)]


def test_fifty_ticks_of_a_twentieth_of_a_second_with_a_period_of_one_give_three():
    assert due_ticks(1.0, 0.05, 50) == [0, 20, 40]


def test_without_a_period_every_tick_is_due():
    assert due_ticks(0.0, 0.05, 5) == [0, 1, 2, 3, 4]
    assert due_ticks(0.01, 0.05, 5) == [0, 1, 2, 3, 4]


def test_a_period_between_ticks_keeps_its_pace_on_average():
    assert due_ticks(0.12, 0.05, 13) == [0, 3, 5, 8, 10, 12]


@given(st.integers(1, 40), st.sampled_from([0.05, 0.1, 1 / 3, 0.001, 1 / 60]))
def test_a_whole_number_of_steps_is_kept_for_ever(every, step_s):
    assert due_ticks(every * step_s, step_s, 2000) == list(range(0, 2000, every))


def test_sums_of_steps_round_but_no_measurement_is_lost():
    elapsed_s, found = 0.0, 0
    for _ in range(20_000):
        found += is_due(0.1, elapsed_s, 0.05)
        elapsed_s += 0.05
    assert found == 10_000


@pytest.mark.parametrize(("period_s", "expected_s"), [(0.0, 0.05), (0.05, 0.05), (0.1, 0.1), (0.12, 0.15), (1.0, 1.0)])
def test_a_measurement_stands_for_the_time_since_the_last(period_s, expected_s):
    assert interval_s(period_s, 0.05) == pytest.approx(expected_s)
