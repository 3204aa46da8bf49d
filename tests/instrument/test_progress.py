"""What is shown while a study runs."""

from samepath.core.units import format_duration
from samepath.instrument.execution.run import StudyProgress
from samepath.instrument.progress import parts
from samepath.instrument.study.records import PlannedCell

CELL = PlannedCell("game loop, cpu_load 75 %", "g", "samepath-game-loop", "table1-test2", {}, {"cpu_load": 0.75}, 100)


def test_progress_says_cells_repeats_load_sigma_and_time_left():
    now = StudyProgress("running", CELL, 12, 40, 400, 3, 8, 1, {"cpu_load": 0.75}, {"cpu_load": 0.7421}, 0.0012, 200.0)
    assert parts(now) == [
        "cells 3 of 8",
        "now game loop, cpu_load 75 %: 12 of 100",
        "cpu_load 74 % (asked 75 %)",
        "max sigma so far 1.2 mm (preliminary)",
        "1 failed",
        "about 3 min left",
    ]


def test_what_is_not_known_is_not_said():
    now = StudyProgress("settling", CELL, 0, 0, 400, 0, 8, 0, {"cpu_load": 0.75}, {}, None, None)
    assert parts(now) == ["cells 0 of 8", "now game loop, cpu_load 75 %: 0 of 100", "cpu_load ? (asked 75 %)"]
    exact = StudyProgress("running", CELL, 2, 2, 400, 0, 8, 0, {}, {}, 0.0, None)
    assert "max sigma so far 0 (preliminary)" in parts(exact)


def test_times_are_written_for_people():
    assert [format_duration(seconds) for seconds in (0.2, 40, 89, 200, 5399, 7500)] == [
        "0 s",
        "40 s",
        "89 s",
        "3 min",
        "1 h 30 min",
        "2 h 5 min",
    ]
