"""``samepath replay`` and ``samepath fork``: from a study's folder and from files; exit codes; bad input is one line."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

import samepath
from samepath.cli.app import app
from samepath.cli.serve import check_record
from samepath.core.errors import InputError, SamepathError
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.rpc import RawRpc

pytestmark = pytest.mark.slow
STUDY = """
name: for-replays
design:
  simulators:
    - {simulator: samepath-game-loop, as: loop, settings: {mode: variable, time_scale: 200.0, frame_cost_s: 0.0}}
    - {simulator: samepath, as: lockstep}
  scenarios: [table1-test2]
  duration: 7 s
  repeats: 2
execution: {isolation: inline}
"""
OTHER = "    - {simulator: pymunk, as: other, settings: {mode: game-loop, time_scale: 50.0}}\n"
needs_pymunk = pytest.mark.skipif(find_spec("pymunk") is None, reason="pymunk is not installed: pip install 'samepath[pymunk]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("study")
    file = place / "study.yaml"
    file.write_text(STUDY.replace("  scenarios", f"{OTHER}  scenarios") if find_spec("pymunk") else STUDY)
    result = CliRunner().invoke(app, ["study", str(file), "--out", str(place / "run")])
    assert (place / "run" / "study.json").exists(), result.output
    return place / "run"


@pytest.fixture(scope="module")
def file(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "loop.recording"
    code, text = invoke("replay", folder, "--cell", "loop", "--repeat", 1, "--save", path)
    assert code == 0, text
    return path


def invoke(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if isinstance(result.exception, SamepathError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_any_repeat_of_a_study_is_replayed_without_having_been_recorded(folder):
    for cell, repeat in (("loop", 0), ("loop", 1), ("lockstep", 0)):
        code, text = invoke("replay", folder, "--cell", cell, "--repeat", repeat, "--until", 100)
        assert code == 0
        assert "tick 100" in text or "tick 101" in text or "tick 102" in text
        assert "steps as recorded, to the bit" in text
        assert re.search(r"^ +1 +vehicle\.mercedes\.coupe", text, re.MULTILINE)
    code, text = invoke("replay", folder, "--cell", "loop", "--repeat", 0, "--check")
    assert (code, "as recorded, to the bit" in text) == (0, True)


def test_a_file_is_replayed_checked_and_told_as_json(file):
    code, text = invoke("replay", file, "--json")
    plain = json.loads(text)
    assert code == 0
    assert plain["step"] == plain["steps"]
    assert [actor["id"] for actor in plain["actors"]] == [1, 2]
    code, text = invoke("replay", file, "--check", "--json")
    assert (code, json.loads(text)) == (0, {"same": True, "steps": plain["steps"], "frames": 0})


def test_the_library_opens_both(folder, file):
    with samepath.replay(file) as from_file, samepath.replay(folder, cell="loop", repeat=1) as other:
        assert from_file.play().world.digest == other.play().world.digest
        assert repr(from_file).startswith(f"<replay of {file}: step {from_file.steps} of {from_file.steps}")


@pytest.mark.parametrize("cell", ["loop", "lockstep", pytest.param("other", marks=needs_pymunk)])
def test_inputs_of_one_run_played_again_tell_whether_the_simulator_alone_repeats(folder, cell):
    found = samepath.open_loop(folder, 2, cell=cell, repeat=0, inline=True)
    assert found.same
    assert "alone repeats" in found.words()


def test_open_loop_in_fresh_processes(file):
    code, text = invoke("replay", file, "--repeats", 2, "--json")
    plain = json.loads(text)
    assert (code, plain["same"], plain["outcomes"], plain["replays"]) == (0, True, 1, 2)


@needs_pymunk
def test_a_simulator_that_does_not_repeat_is_named(folder, monkeypatch):
    from samepath.engines.pymunk import engine

    command, calls = engine.PymunkWorld.command, []

    def unsteady(self, number, told):
        calls.append(number)
        command(self, number, replace(told, throttle=told.throttle * (1 - 1e-3 * (len(calls) % 7))))

    monkeypatch.setattr(engine.PymunkWorld, "command", unsteady)
    found = samepath.open_loop(folder, 3, cell="other", repeat=0, inline=True)
    assert not found.repeats
    assert "The simulator itself is a source. First difference among the replays: tick" in found.words()


def test_a_fork_says_who_parts_and_exits_with_1(file, tmp_path):
    figure, saved = tmp_path / "fork.svg", tmp_path / "fork.recording"
    code, text = invoke(
        "fork", file, "--at", 100, "--set", "actor=2", "throttle=0", "brake=1", "--figure", figure, "--save", saved
    )
    assert code == 1
    assert "open loop: actor 2: throttle 0.0, brake 1.0" in text
    assert "parts at tick" in text
    assert "<svg" in figure.read_text()
    assert invoke("replay", saved)[0] == 0
    code, text = invoke("fork", file, "--at", 100, "--set", "actor=2 brake=1", "--set", "actor=1,throttle=0", "--json")
    assert (code, len(json.loads(text)["changes"])) == (1, 2)


def test_a_fork_that_changes_nothing_exits_with_0(folder):
    code, text = invoke(
        "fork", folder, "--cell", "lockstep", "--repeat", 0, "--at", 3, "--until", 40, "--set", "actor=1", "brake=1"
    )
    assert code == 0, "until then the car waits with its brake on"
    assert "changes no bit" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["replay", "{folder}"], "--cell: one of"),
        (["replay", "{folder}", "--cell", "lop"], "did you mean 'loop"),
        (["replay", "{folder}", "--cell", "loop"], "--repeat: "),
        (["replay", "{folder}", "--cell", "loop", "--repeat", "7"], "but 7 came"),
        pytest.param(
            ["replay", "{folder}", "--cell", "other", "--repeat", "0"],
            "recordings are kept of samepath and samepath-game-loop",
            marks=needs_pymunk,
        ),
        (["replay", "{file}", "--repeat", "7"], "--cell and --repeat are of a study's folder"),
        (["replay", "{file}", "--until", "9999"], "the run ended at tick"),
        (["replay", "{file}", "--check", "--until", "3"], "--check is for itself: leave out --until"),
        (["replay", "{file}", "--view", "--out", "a.gif"], "*.html or *.png"),
        (["replay", "/no/such/file"], "cannot be read: No such file or directory"),
        (["fork", "{file}", "--at", "3"], "--set: what to change was wanted"),
        (["fork", "{file}", "--at", "9999", "--set", "actor=1 brake=1"], "--at: a tick from 0 to"),
        (["fork", "{file}", "brake=1", "--set", "actor=1", "--set", "actor=2"], "each needs quotes"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(folder, file, arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = invoke(*(argument.format(folder=folder, file=file) for argument in arguments))
    assert code == 2
    assert told in text
    assert "\n" not in text.strip()


def test_the_shell_opens_at_the_tick_with_the_world_in_it(file):
    typed = "print('at', replay.tick >= 60, world.tick_count == replay.position)\nback(3); print(actor(1).id)\n"
    command = [sys.executable, "-m", "samepath", "replay", str(file), "--until", "60", "--shell"]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, check=True)
    assert "at True True" in done.stdout
    assert "replay, world, step(), back()" in done.stderr


def test_a_view_is_drawn_where_it_is_asked_for(file, tmp_path):
    pytest.importorskip("numba")
    code, text = invoke("replay", file, "--until", 50, "--view", "--out", tmp_path / "a.html", "--actor", 2)
    assert code == 0
    assert f"drawn: {tmp_path / 'a.html'}" in text
    assert (tmp_path / "a.html").stat().st_size > 10_000


def test_a_server_records_and_the_session_is_replayed_without_its_client(tmp_path):
    path = tmp_path / "session.recording"
    command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--record", str(path), "--data", str(tmp_path / "d")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        port = int(re.search(r"on 127\.0\.0\.1:(\d+)", line)[1])
        try:
            with RawRpc("127.0.0.1", port) as client:
                client.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
                for _ in range(5):
                    client.value("tick_cue")
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
        assert process.wait(30) == 0, rest
    assert "recorded to" in rest
    assert not list(tmp_path.glob("*.journal"))
    code, text = invoke("replay", path, "--json")
    assert code == 0
    assert json.loads(text)["steps"] >= 5
    assert invoke("replay", path, "--check")[0] == 0
    code, text = invoke("fork", path, "--at", 1, "--set", "actor=1 brake=1")
    assert (code, "the recording of a run was wanted, but that of 'served' came" in text) == (2, True)


def test_a_recording_that_cannot_be_is_refused_before_the_server_begins(tmp_path):
    with pytest.raises(InputError, match="leave out --resume and --restart"):
        check_record(tmp_path / "a", going_on=True)
    (tmp_path / "a").write_text("")
    with pytest.raises(InputError, match="a file that is not there yet was wanted"):
        check_record(tmp_path / "a", going_on=False)
    with pytest.raises(InputError, match="is no folder: make it first"):
        check_record(tmp_path / "no" / "a", going_on=False)
