"""A report says how its runs were made: in how many processes, how fast, and with what in place of rendering."""

import io
import json

import pytest
from rich.console import Console

from samepath.engines import registry
from samepath.instrument.analysis.study import Restriction
from samepath.instrument.report.console import print_document
from samepath.instrument.report.document import Document, to_json
from samepath.instrument.report.html import render_html
from samepath.instrument.report.published import UNLIKE_PUBLISHED, how_run_notes, isolation_words, time_words
from tests.support.study_cells import cell, elsewhere, run


def ran(isolation, together, repeats=12, **header):
    """A cell of the two cars; ``together`` repeats share a process."""
    runs = [run(n, measured={"isolation": isolation, "position": n % together}) for n in range(repeats)]
    return cell(runs, **header)


def report(*cells):
    return Document("x", cells, Restriction(), "samepath study x")


def printed(document, width=160):
    stream = io.StringIO()
    print_document(Console(file=stream, width=width), document)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("isolation", "together", "processes", "shared"),
    [
        ("process", 1, "12 processes", "a fresh process for every repeat, forked from one that had run nothing"),
        ("batch", 5, "3 processes", "several repeats in a process: what one leaves, the next finds"),
        ("cold", 1, "12 processes", "a new interpreter for every repeat"),
        ("inline", 12, "1 process", "one repeat after the other in samepath's own process"),
    ],
)
def test_the_processes_are_counted_and_what_is_shared_is_said(isolation, together, processes, shared):
    found = ran(isolation, together)
    assert isolation_words(found) == (processes, shared)
    told = json.loads(to_json(report(found)))["cells"][0]
    assert (told["isolation"], told["processes"]) == ([isolation], int(processes.split()[0]))
    assert f"12 repeats in {processes}: {shared}." in printed(report(found))
    page = render_html(report(found))
    assert processes in page
    assert shared.replace("'", "&#39;") in page


def test_what_nobody_noted_is_not_told():
    found = cell([run(n) for n in range(3)])
    assert isolation_words(found) == time_words(found) == ("", "")
    assert how_run_notes([found], beside_published=True) == ()
    told = json.loads(to_json(report(found)))["cells"][0]
    assert (told["isolation"], told["processes"], told["time_scale"], told["frame_work_s"]) == ([], None, None, 0.0)


def test_a_hurried_loop_is_told_beside_the_published_figures():
    still = ran("process", 1, variant="lockstep", scenario="table1-test1", cell="a")
    loop = elsewhere(still, variant="game loop", time_scale=20.0, frame_work_s=0.001, cell="b")
    slow = elsewhere(still, variant="slow loop", time_scale=1.0, cell="c")
    fast = elsewhere(loop, variant="other loop", cell="d")
    document = report(still, loop, slow, fast)
    wanted = (
        "Run by the wall clock at 20 times real time: game loop and other loop; "
        "1 ms of arithmetic in each frame stands for rendering.",
        "Run by the wall clock at real time: slow loop.",
        UNLIKE_PUBLISHED,
        "48 repeats in 48 processes: a fresh process for every repeat, forked from one that had run nothing.",
    )
    assert how_run_notes(document.cells, beside_published=True) == wanted
    page, text = render_html(document), " ".join(printed(document).split())
    for words in wanted:
        assert words.replace("'", "&#39;") in page
        assert words in text
    told = json.loads(to_json(document))["cells"]
    assert [(row["time_scale"], row["frame_work_s"]) for row in told] == [(None, 0.0), (20.0, 0.001), (1.0, 0.0), (20.0, 0.001)]


@pytest.mark.parametrize(
    ("name", "settings", "scale", "work_s"),
    [
        ("samepath", {}, None, 0.0),
        ("samepath-game-loop", {}, 20.0, 0.001),
        ("samepath-game-loop", {"mode": "real-time", "time_scale": 1}, 1.0, 0.001),
        ("samepath-game-loop", {"mode": "lockstep"}, None, 0.001),
        ("samepath-game-loop", {"mode": "lockstep", "sources": "async-controller", "frame_cost_s": 0.0}, 20.0, 0.0),
        ("samepath-game-loop", {"mode": "lockstep", "sources": "bit-flip, wall-clock-step"}, 20.0, 0.001),
        ("carla", {}, None, 0.0),
        ("carla", {"synchronous": False}, 1.0, 0.0),
        ("mujoco", {"time_scale": 4}, None, 0.0),
        ("mujoco", {"mode": "game-loop", "time_scale": 4}, 4.0, 0.0),
        ("godot", {"mode": "game-loop", "time_scale": 4}, 4.0, 0.0),
        ("airsim", {"mode": "game-loop", "time_scale": 2.0}, 2.0, 0.0),
        ("control-exact", {}, None, 0.0),
    ],
)
def test_simulators_say_how_fast_they_go_by_the_clock(name, settings, scale, work_s):
    with registry.create(name) as simulator:
        info = simulator.described(settings)
    assert (info.time_scale, info.frame_work_s) == (scale, work_s)
