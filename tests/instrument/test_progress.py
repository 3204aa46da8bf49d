"""What is shown while a study runs."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from rich.console import Console

from samepath.core.units import format_duration
from samepath.instrument import progress
from samepath.instrument.execution.run import StudyProgress
from samepath.instrument.progress import StderrDisplay, parts
from samepath.instrument.study.records import PlannedCell
from tests.support.frame_clock import FrameClock

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


class Notebook:
    """IPython's display as far as it is used: ``outputs`` are the areas below the cell, ``drawn`` counts what went there."""

    def __init__(self):
        self.outputs = []
        self.drawn = 0

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.outputs.append(None)
        return Area(self, len(self.outputs) - 1).update(data, raw=raw)


class Area:
    def __init__(self, notebook, place):
        self._notebook, self._place = notebook, place

    def update(self, data, *, raw):
        assert raw
        self._notebook.outputs[self._place] = data
        self._notebook.drawn += 1
        return self


@pytest.fixture
def clock(monkeypatch):
    clock = FrameClock()
    monkeypatch.setattr(progress, "SYSTEM_CLOCK", clock)
    return clock


@pytest.fixture
def notebook(monkeypatch, clock):
    notebook = Notebook()
    module = ModuleType("IPython.display")
    module.display = notebook.display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "stderr_console", lambda: Console(force_jupyter=True))
    return notebook


def test_in_a_notebook_a_night_of_progress_is_one_line_that_is_drawn_again(notebook, clock, capsys):
    now = StudyProgress("running", CELL, 0, 0, 3000, 3, 8, 0, {}, {}, None, None)
    display = StderrDisplay()
    with display.steps("rehearsing", 3) as advance:
        for name in ("a", "b", "c"):
            advance(name, None)
    assert notebook.outputs[0]["text/plain"] == "samepath: rehearsing c, 3 of 3"
    with display.study(3000) as show:
        for done in range(3000):
            clock.sleep_s(0.1)
            show(replace(now, total_done=done))
    shown = "samepath: running, 2999 of 3000 repeats, cells 3 of 8, now game loop, cpu_load 75 %: 0 of 100"
    assert [output["text/plain"] for output in notebook.outputs] == [shown]
    assert notebook.outputs[0]["text/html"] == f'<progress value="2999" max="3000"></progress> {shown}'
    assert notebook.drawn <= 3 + 300 + 1
    assert capsys.readouterr() == ("", "")


def test_names_in_a_notebook_are_text_and_no_markup(notebook):
    with StderrDisplay().steps("analysing", 2) as advance:
        advance("<script>", None)
    assert notebook.outputs[0]["text/html"].endswith("</progress> samepath: analysing &lt;script&gt;, 1 of 2")


def test_where_nothing_can_be_drawn_again_there_is_a_line_now_and_then(clock, monkeypatch, capsys):
    monkeypatch.setattr(progress, "stderr_console", lambda: Console(stderr=True, force_terminal=False, force_jupyter=False))
    now = StudyProgress("running", CELL, 0, 0, 100, 3, 8, 0, {}, {}, None, None)
    with StderrDisplay().study(100) as show:
        for done in range(100):
            clock.sleep_s(0.5)
            show(replace(now, total_done=done))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[1] for line in lines] == [f" {done} of 100 repeats" for done in (19, 39, 59, 79, 99)]
