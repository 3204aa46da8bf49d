"""The quick look at the spread: right to rounding, and exactly 0 where nothing differs."""

import statistics

import pytest

from samepath.core.streams import stream
from samepath.instrument.traces.recorder import RunningSpread
from tests.conftest import straight_run


def added(*repeats):
    spread = RunningSpread()
    for repeat in repeats:
        spread.add(repeat)
    return spread


def test_identical_repeats_have_exactly_no_spread():
    assert added(*(straight_run(number) for number in range(5))).max_sigma_m == 0.0


def test_nothing_is_said_before_two_repeats():
    assert added().max_sigma_m is None
    assert added(straight_run(0)).max_sigma_m is None


def test_the_largest_sample_deviation_of_any_axis_is_found():
    shifts = stream(1, "test", "running").normal(0, 0.01, 30).tolist()
    runs = [
        straight_run(n, shift=lambda tick, actor, s=s: s if (tick, actor) == (7, 2) else s / 9) for n, s in enumerate(shifts)
    ]
    assert added(*runs).max_sigma_m == pytest.approx(statistics.stdev(shifts), rel=1e-9)


def test_only_what_all_have_is_compared_where_lengths_and_actors_differ():
    long, short = straight_run(0, ticks=20, actors=3), straight_run(1, ticks=9, actors=2, shift=lambda tick, actor: 0.5)
    assert added(long, short).max_sigma_m == pytest.approx(statistics.stdev([0, 0.5]))
    assert added(short, long).max_sigma_m == pytest.approx(statistics.stdev([0, 0.5]))
