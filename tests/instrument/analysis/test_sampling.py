"""Logs that were written at other moments: the moments differ, not the paths; and where paths do, that is said."""

import math

import pytest

from samepath.instrument.analysis.partings import find_sampling
from samepath.instrument.traces.recorder import Recorder


def position(actor, time_s):
    """One car on a bend at 8 m/s, a walker on a straight line at 1.4 m/s, one who stands."""
    if actor == 1:
        return 40.0 * math.sin(0.2 * time_s), 40.0 * math.cos(0.2 * time_s)
    return (1.4 * time_s, 3.0) if actor == 2 else (5.0, 5.0)


def logged(repeat, later_s, *, decimals=3, slower=1.0, column_says_so=False, aside_m=0.0):
    """A log every 0.1 s, of the world ``later_s(row)`` after the moment that is written down."""
    recorder = Recorder(repeat, ("x_m", "y_m"), 0.1)
    for actor in (1, 2, 3):
        recorder.actor(actor, "car")
    for row in range(1, 121):
        at_s = row * 0.1 + later_s(row)
        for actor in (1, 2, 3):
            x_m, y_m = position(actor, at_s * (slower if actor == 1 else 1.0))
            values = {"x_m": round(x_m, decimals), "y_m": round(y_m + (aside_m if actor == 2 else 0.0), decimals)}
            recorder.state(row, actor, values, at_s if column_says_so else row * 0.1)
    recorder.end(120, "end of log")
    return recorder.finish()


@pytest.mark.parametrize("says_so", [True, False])
def test_a_log_that_is_a_tick_late_throughout(says_so):
    found = find_sampling(logged(0, lambda row: 0.0), logged(1, lambda row: 0.05, column_says_so=says_so))
    assert found.same_paths
    expected_s = 0.0 if says_so else -0.05
    assert found.shift_low_s == pytest.approx(expected_s, abs=0.01)
    assert "The moments differ, not the paths" in found.words()


def test_a_log_that_is_written_whenever_the_script_gets_round_to_it():
    found = find_sampling(logged(0, lambda row: 0.0), logged(1, lambda row: 0.03 * (row % 3)))
    assert found.same_paths
    assert found.shift_high_s - found.shift_low_s == pytest.approx(0.06, abs=0.02)


def test_a_car_that_drives_otherwise_is_no_matter_of_moments():
    assert find_sampling(logged(0, lambda row: 0.0), logged(1, lambda row: 0.0, slower=1.01)) is None
    aside = find_sampling(logged(0, lambda row: 0.0), logged(1, lambda row: 0.05, column_says_so=True, aside_m=0.1))
    assert not aside.same_paths
    assert "their paths differ as well" in aside.words()


def test_one_car_later_than_the_others_is_no_matter_of_moments():
    """A common moment must put everybody in place: here the walker is 0.05 s later, and the car is not."""
    late = logged(1, lambda row: 0.0)
    walker = logged(2, lambda row: 0.05)
    values = late.values.copy()
    values[late.actor == 2] = walker.values[late.actor == 2]
    mixed = type(late)(**{**vars(late), "values": values})
    found = find_sampling(logged(0, lambda row: 0.0), mixed)
    assert found is None or not found.same_paths


def test_equal_logs_and_short_ones_have_nothing_to_tell():
    assert find_sampling(logged(0, lambda row: 0.0), logged(1, lambda row: 0.0)) is None
