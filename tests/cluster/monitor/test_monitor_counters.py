"""What the main server remembers, held against the slow and obvious way of computing it."""

import math
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.cluster.monitor.counters import (
    Buckets,
    CommandStats,
    Lateness,
    Meter,
    ProblemLog,
    Quantiles,
    RecentValues,
    TickTimes,
)
from samepath.cluster.monitor.status import CommandRecord, StatusBoard

TIMES = st.lists(st.integers(0, 20_000), max_size=60).map(lambda ms: [time_ms / 1000 for time_ms in sorted(ms)])
VALUES = st.lists(st.floats(-1e6, 1e6), max_size=80)


@given(TIMES, st.integers(0, 12_000))
def test_a_rate_is_what_happened_in_the_window_over_its_length(times_s, wait_ms):
    began_s = 100.0
    meter = Meter(began_s, window_s=5.0)
    for time_s in times_s:
        meter.add(began_s + time_s)
    now_s = began_s + (times_s[-1] if times_s else 0.0) + wait_ms / 1000
    # Slots are a tenth of a second: the window begins with the slot fifty before the present one.
    slot = math.floor((now_s - began_s) / 0.1)
    first = max(slot - 50, 0)
    inside = sum(math.floor((began_s + time_s - began_s) / 0.1) >= first for time_s in times_s)
    covered_s = max(now_s - began_s - first * 0.1, 0.1)
    assert meter.per_s(now_s) == pytest.approx(inside / covered_s)
    assert meter.total == len(times_s)


def test_a_steady_rate_is_seen_as_it_is_and_silence_ends_it():
    meter = Meter(0.0)
    for tick in range(1, 1001):
        meter.add(tick / 40, count=3)
    assert meter.per_s(25.0) == pytest.approx(120, rel=0.02)
    assert meter.per_s(27.6) == pytest.approx(60, rel=0.05)
    assert meter.per_s(31.0) == 0.0
    assert meter.total == 3000


def test_a_meter_does_not_grow():
    meter = Meter(0.0)
    for tick in range(20_000):
        meter.add(tick / 100)
    assert len(meter._slots) <= 51


@given(VALUES, st.integers(1, 20))
def test_the_last_values_and_their_mean(values, size):
    recent = RecentValues(size)
    for value in values:
        recent.add(value)
    kept = values[-size:]
    assert recent.values == tuple(kept)
    assert recent.last == (kept[-1] if kept else None)
    assert recent.mean == (math.fsum(kept) / len(kept) if kept else None)


@given(VALUES, st.integers(1, 20), st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_exact_over_the_last_values(values, size, part):
    quantiles = Quantiles(size)
    for value in values:
        quantiles.add(value)
    kept = values[-size:]
    found = quantiles.quantile(part)
    if not kept:
        assert found is None
        return
    # The definition itself: the smallest value that at least this part does not exceed.
    wanted = min(value for value in kept if sum(other <= value for other in kept) >= part * len(kept))
    assert found == wanted
    assert quantiles.max == max(values)
    assert quantiles.count == len(values)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_would_spoil_the_order_is_refused(value):
    with pytest.raises(ValueError, match="finite"):
        Quantiles().add(value)


@given(VALUES)
def test_buckets_count_every_value_once_where_it_belongs(values):
    bounds_s = (-10.0, 0.0, 1.0, 1000.0)
    buckets = Buckets(bounds_s)
    for value in values:
        buckets.add(value)
    found = buckets.histogram()
    edges = (-math.inf, *bounds_s, math.inf)
    assert found.counts == tuple(sum(low < value <= high for value in values) for low, high in pairwise(edges))
    assert found.sum_s == pytest.approx(math.fsum(values), abs=1e-6)


def test_ticks_are_counted_in_every_way_at_once():
    ticks = TickTimes(0.0)
    assert (ticks.ticks, ticks.recent.last, ticks.recent.mean, ticks.per_s(0.0)) == (0, None, None, 0.0)
    for tick in range(1, 201):
        ticks.add(0.02 if tick > 100 else 9.0, tick / 20)
    assert ticks.ticks == 200
    assert ticks.recent.mean == pytest.approx(0.02)
    assert ticks.per_s(10.0) == pytest.approx(20, rel=0.03)
    assert sum(ticks.buckets.histogram().counts) == 200
    assert ticks.buckets.histogram().counts[-1] == 100


def test_on_time_is_not_late_and_the_worst_is_kept():
    lateness = Lateness()
    for late_s in (-0.5, 0.0, 0.002, 0.03, 0.001):
        lateness.late(late_s)
    lateness.drop(2)
    lateness.drop()
    assert (lateness.late_frames, lateness.dropped_frames, lateness.worst_s) == (3, 3, 0.03)


def test_commands_give_quantiles_of_the_recent_and_the_maximum_of_all():
    commands = CommandStats()
    assert commands.status().latency_s_median is None
    for number in range(1, 2001):
        commands.add(CommandRecord(f"1.1.{number}", 7, "apply", number, 5.0 if number == 1 else number / 1e6, number % 4 != 0))
    found = commands.status()
    assert (found.count, found.overruled) == (2000, 500)
    assert found.latency_s_median == 1500 / 1e6
    assert found.latency_s_p99 == 1990 / 1e6
    assert found.latency_s_max == 5.0
    assert [command.frame for command in found.last] == list(range(1981, 2001))
    assert sum(found.latencies.counts) == 2000


def test_lines_of_problems_are_few_short_and_harmless_to_a_terminal():
    problems = ProblemLog()
    for frame in range(50):
        problems.add(frame, f"node-2\x1b[2J said\n {frame} " + "x" * 1000)
    assert len(problems.lines) == 20
    assert problems.lines[-1].startswith("tick 49: node-2?[2J said? 49 x")
    assert all(line.isprintable() and len(line) < 330 for line in problems.lines)


def test_a_board_shows_the_last_status_and_says_when_another_is_due():
    from tests.support.watched_clusters import working

    board = StatusBoard(every_s=0.25)
    assert board.read() is None
    assert board.due(0.0)
    status = working()
    board.publish(status, 10.0)
    assert board.read() is status
    assert not board.due(10.2)
    assert board.due(10.25)


def test_nothing_here_grows_with_time():
    quantiles, commands = Quantiles(100), CommandStats()
    for number in range(5000):
        quantiles.add(number * 7919 % 1000)
        commands.add(CommandRecord("1.1.1", 1, "apply", number, 0.001, True))
    assert len(quantiles._sorted) == len(quantiles._by_age) == 100
    assert sys.getsizeof(commands._last) < 4096
