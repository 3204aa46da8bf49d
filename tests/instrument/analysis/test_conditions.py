"""What was asked of the host is held against what was measured."""

import pytest

from samepath.instrument.analysis.conditions import LOAD_MARGIN, ProcessPosition, check_conditions, read_host
from samepath.instrument.traces.records import HostLog, HostSample
from tests.conftest import header
from tests.support.study_cells import cell, run


def samples(*spans_and_ratios, gpu=None):
    wall_s, found = 0.0, []
    for span_s, ratio in spans_and_ratios:
        wall_s += span_s
        found.append(HostSample(0, wall_s, ratio, (ratio,), gpu))
    return tuple(found)


def check(condition, *logs):
    (found,) = check_conditions(header(condition=condition), enumerate(logs))
    return found


def test_a_load_is_the_mean_over_time_and_the_range_that_of_single_repeats():
    long = HostLog(samples((3.0, 0.8), (1.0, 0.4)))
    short = HostLog(samples((1.0, 0.2)))
    found = check({"cpu_load": 0.6}, long, short)
    assert found.measured == pytest.approx((3 * 0.8 + 0.4 + 0.2) / 5)
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.7))
    assert not found.missed
    assert found.words() == "cpu_load: 60 % asked, 60 % measured (20 % to 70 % in single repeats)"


def test_what_the_executor_measured_goes_before_the_samples():
    log = HostLog(samples((1.0, 0.1)), measured={"cpu_load": 0.74})
    assert check({"cpu_load": 0.75}, log).measured == 0.74


@pytest.mark.parametrize(
    ("asked", "measured", "missed"),
    [(0.95, 0.91, False), (0.95, 0.89, True), (0.25, 0.31, True), (0.0, 0.4, False), (0.5, 0.5 + LOAD_MARGIN / 2, False)],
)
def test_a_load_is_missed_by_more_than_five_points_and_no_load_never(asked, measured, missed):
    assert check({"cpu_load": asked}, HostLog(measured={"cpu_load": measured})).missed is missed


def test_a_missed_load_says_by_how_much():
    words = check({"cpu_load": 0.95}, HostLog(measured={"cpu_load": 0.85})).words()
    assert words == "cpu_load: 95 % asked, 85 % measured: missed by 10 points, more than 5"


def test_the_cpu_is_told_even_where_nothing_was_asked():
    found = check({}, HostLog(samples((1.0, 0.12))))
    assert (found.asked, found.measured, found.missed) == (None, pytest.approx(0.12), False)
    assert found.words() == "cpu_load: none asked, 12 % measured"
    assert check({"cpu_load": 0.0}, HostLog(samples((1.0, 0.12)))).words() == "cpu_load: none added, 12 % measured"


def test_a_gpu_is_read_from_the_samples_too():
    found, cpu = check_conditions(header(condition={"gpu_load": 0.5}), [(0, HostLog(samples((1.0, 0.1), gpu=0.52)))])
    assert found.measured == pytest.approx(0.52)
    assert (cpu.name, cpu.asked) == ("cpu_load", None)


@pytest.mark.parametrize(
    ("name", "asked", "read", "missed"),
    [
        ("nice", -20, -20, False),
        ("nice", -20, 0, True),
        ("cores", "one", "3", False),
        ("cores", "one", "0-1", True),
        ("cores", "all", "0-1", False),
        ("cores", "0,2-3", "0,2,3", False),
        ("cores", "0,2-3", "0-3", True),
        ("hash_seed", "random", 1234, False),
        ("aslr", False, False, False),
        ("aslr", False, True, True),
        ("aslr", True, "on", False),
        ("scheduler", "fifo", "other", True),
        ("instances", 2, 2, False),
    ],
)
def test_a_level_is_missed_where_it_reads_back_as_something_else(name, asked, read, missed):
    assert check({name: asked}, HostLog(measured={name: read})).missed is missed


def test_all_values_read_back_are_told_and_one_wrong_repeat_is_enough():
    found = check({"nice": 5}, HostLog(measured={"nice": 5}), HostLog(measured={"nice": 0}))
    assert (found.measured, found.missed) == ((0, 5), True)
    assert found.words() == "nice: 5 asked, but 0 and 5 read back"


def test_what_was_not_read_back_is_said_to_be_unknown():
    found = check({"numa": "local"}, HostLog())
    assert (found.measured, found.missed) == (None, False)
    assert found.words() == "numa: local asked, not read back"
    assert check({"memory_load": 0.5}, HostLog()).words() == "memory_load: 50 % asked, not read back"


def test_imported_logs_have_nothing_to_check():
    assert check_conditions(header(), [(0, HostLog()), (1, HostLog())]) == ()


def test_a_cells_analysis_knows_its_conditions_and_where_its_repeats_were_run():
    measured = {"cpu_load": 0.5, "isolation": "batch"}
    found = cell([run(n, measured={**measured, "position": n % 2}) for n in range(4)], condition={"cpu_load": 0.5})
    assert [condition.measured for condition in found.conditions] == [0.5]
    assert found.places[1:3] == (ProcessPosition(1, "batch", 1), ProcessPosition(2, "batch", 0))
    assert read_host(header(), [(0, HostLog())])[1] == ()
