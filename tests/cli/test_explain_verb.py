"""``samepath explain``: sentences, JSON, a figure; bad input is one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import samepath
from samepath.cli.app import app
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.core.units import format_length
from samepath.engines.interface import RunRequest
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.recordings import record
from samepath.instrument.traces.store import store_repeats
from tests.conftest import header, straight_run
from tests.support.late_logs import late_log


def run(repeat, at=None, value=0.0):
    log = InputLog([Input(4, InputKind.DRAW, "gust", 2, (value,))])
    moved = lambda tick, actor: value if at is not None and tick >= at and actor == 2 else 0.0  # noqa: E731
    return replace(straight_run(repeat, shift=moved), inputs=log)


@pytest.fixture
def folder(tmp_path):
    store_repeats(tmp_path / "runs" / "flaky", header(cell="flaky"), [*map(run, range(9)), run(9, 5, 0.25), run(10, 5, 0.25)])
    store_repeats(tmp_path / "runs" / "calm", header(cell="calm"), [run(0), run(1)])
    return tmp_path / "runs"


def invoke(*arguments):
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return str(result.exception)
    return result.output


def test_it_says_where_and_why_in_plain_sentences(folder):
    text = invoke(folder)
    assert "flaky: 11 repeats fall into 2 outcomes." in text
    assert "Repeat 9 (as 1 other does) parts from repeat 0 at tick 5 (0.5 s): actor 2 (car), 25 cm apart, in 1 field." in text
    assert "Cause: random-stream. The stream 'gust' for actor 2 gave 0.0 and 0.25 at step 4." in text
    assert "1 other cell: the same to the bit." in text


def test_json_has_the_cause_and_every_cell(folder):
    plain = json.loads(invoke(folder, "--json"))
    assert plain["cause"] == "random-stream"
    assert {cell["cell"]: cell["cause"] for cell in plain["cells"]} == {"calm": "none", "flaky": "random-stream"}


def test_two_repeats_and_two_traces(folder):
    assert "the same to the bit" in invoke(folder, "--cell", "flaky", "--repeat", 0, "--repeat", 1)
    assert json.loads(invoke(folder, "--cell", "flaky", "--repeat", 1, "--repeat", 9, "--json"))["cause"] == "random-stream"
    assert "the same to the bit" in invoke(folder / "flaky", folder / "calm")


def test_the_figure_is_an_svg_of_the_first_parting(folder, tmp_path):
    invoke(folder, "--figure", tmp_path / "parting.svg")
    text = (tmp_path / "parting.svg").read_text("utf-8")
    assert text.startswith("<svg")
    assert "part: random-stream" in text
    again = tmp_path / "again.svg"
    invoke(folder, "--figure", again)
    assert again.read_text("utf-8") == text, "equal numbers are equal bytes"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cell", "flakey"], "did you mean 'flaky'"),
        (["--repeat", "1"], "--repeat: two repeats were wanted"),
        (["--cell", "flaky", "--repeat", "0", "--repeat", "99"], "was wanted, but 99 came"),
        (["--repeat", "0", "--repeat", "2"], "holds 2 cells ('calm', 'flaky'): name one with --cell"),
        (["--cell", "calm", "--figure", "x.svg"], "--figure: runs whose states part were wanted"),
    ],
)
def test_bad_input_is_one_line(folder, arguments, words):
    text = invoke(folder, *arguments)
    assert words in text
    assert "\n" not in text.strip()


def test_a_folder_without_traces_is_refused_by_name(tmp_path):
    assert "holds no traces" in invoke(tmp_path)
    assert "does not exist" in invoke(tmp_path / "nowhere")
    assert "two repeats to compare were wanted" in invoke(_alone(tmp_path))


def _alone(tmp_path):
    store_repeats(tmp_path / "one", header(cell="one"), [run(0)])
    return tmp_path / "one"


def test_the_library_gives_the_same(folder):
    explained = samepath.explain(folder)
    assert (explained.header.cell, explained.cause) == ("flaky", "random-stream")
    assert samepath.explain(folder / "flaky", repeats=(0, 1)).cause == "none"
    assert samepath.explain(folder, cell="calm").cause == "none"
    assert samepath.explain(folder / "calm", folder / "flaky").cause == "none"
    assert explained.words() in invoke(folder)


def test_two_recordings_are_played_and_explained(tmp_path):
    settings = {"mode": "lockstep", "sources": "unseeded-random", "frame_cost_s": 0.0}
    for name in ("a.rec", "b.rec"):
        request = RunRequest("table1-test2", 0, 0, settings, duration_s=0.5)
        recording, _ = record(request, SamepathGameLoop())
        recording.write(tmp_path / name)
    plain = json.loads(invoke(tmp_path / "a.rec", tmp_path / "b.rec", "--json"))
    assert plain["cause"] == "unknown", "two runs cannot show that a draw acts"
    assert plain["partings"][0]["inputs"][0]["kind"] == "draw"
    assert plain["partings"][0]["tick"] == 1
    assert "the same to the bit" in invoke(tmp_path / "a.rec", tmp_path / "a.rec")


def test_a_log_that_was_written_at_other_moments_is_told_as_that(tmp_path):
    """The world is the same to the bit; a script has looked a tick later now and then, and its time column does not say so."""
    path = late_log(tmp_path / "looked.txt", lambda repeat, row: int((row * repeat) % 3 == 2))
    plain = json.loads(invoke(path, "--json"))
    assert plain["cause"] == "unknown"
    for parting in plain["partings"]:
        assert parting["sampling"]["same_paths"]
        assert "The moments differ, not the paths" in parting["evidence"][0]
        assert "log at moments of simulated time" in parting["to_record"]
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text("utf-8")
    sentence = plain["partings"][0]["evidence"][0]
    assert f"{sentence[0].upper()}{sentence[1:]}." in page, "the page quotes this very log"
    (cell,) = samepath.analyse(path, progress=False).cells
    assert f"a max sigma of {format_length(cell.summary.max_sigma_m)}" in page
    assert "the same to the bit" in invoke(late_log(tmp_path / "even.txt", lambda repeat, row: 1))
