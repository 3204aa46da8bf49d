"""CARLA's own client, run several times: each kind of script is told from the others, with the line that does it."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import samepath
from samepath.cli.app import app
from samepath.core.errors import InputError, SamepathError
from samepath.sessions.compare import SessionSource, compare_sessions
from samepath.sessions.recording import SessionCall, SessionState, read_session
from samepath.sessions.servers import ServerKind
from samepath.sessions.twice import compare_recorded, twice
from tests.support import ROOT
from tests.support.serve_processes import serve_pool
from tests.support.sessions import SCRIPTS

pytest.importorskip("carla")


def run(name, *arguments, **settings):
    """Run a script of ours twice, as the command line does."""
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *map(str, arguments)]
    return twice(command, **{"port": 0, "timeout_s": 60.0, "pinned_runs": 2, **settings})


@pytest.fixture(scope="module")
def unseeded():
    return run("unseeded")


@pytest.fixture(scope="module")
def clean_but_served_at_random():
    return run("clean", sources=("unseeded-random",))


def test_a_clean_script_takes_the_same_path():
    report = run("clean", runs=3)
    assert report.same
    assert (report.source, report.cause, report.first_difference) == ("none", "none", None)
    assert report.outcomes == ((1, 2, 3),)
    assert report.ticks == 12
    assert report.words() == "The same: 3 of 3 runs (25 calls, 12 ticks), to the bit."


def test_traffic_walkers_sensors_and_a_reload_done_right_take_the_same_path(free_port):
    report = run("clean_traffic", free_port, map_name="town")
    assert report.same, report.words()


# What is wrong with each script: its cause, the line that does it, the line of the call that differs first, what is said of it.
WRONG = {
    "unseeded": ("random without seed (unseeded.py:9)", "unseeded.py:10", "drawn without a seed at unseeded.py:9"),
    "wall_clock": ("wall clock", "wall_clock.py:10", "4 of 4 runs with another clock"),
    "threaded": ("thread (threaded.py:21)", None, "2 threads call CARLA: MainThread, driver"),
    "set_order": ("hash order", "set_order.py:7", "4 of 4 runs with another hash order"),
    # No experiment can hold these: they are said, and not named.
    "asynchronous": ("unknown", None, "the world was in asynchronous mode"),
    "two_clients": ("unknown", None, "2 clients of 2 processes call the server"),
    "traffic_manager": ("unsynchronised traffic manager (traffic_manager.py:6)", None, "never calls set_synchronous_mode"),
}
# Threads and processes that race may end alike once, or twice; and of the 720 orders of six names two may be the same.
BY_LUCK = ("asynchronous", "two_clients", "traffic_manager", "set_order")


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_script_is_named_with_its_line(name, free_port, unseeded):
    cause, line, said = WRONG[name]
    report = unseeded if name == "unseeded" else run(name, free_port)
    for _ in range(3 if name in BY_LUCK else 0):
        if not report.same:
            break
        report = run(name, free_port)
    assert not report.same
    assert report.source == "script"
    assert report.cause.startswith(cause), report.words()
    assert line is None or report.first_difference["line"] == line
    assert any(said in words for words in report.evidence), report.evidence
    assert report.advice
    found = json.loads(report.to_json())
    assert {"same", "runs", "source", "cause", "first_difference"} <= set(found)
    assert found["first_difference"]["runs"] == [1, 2]


def shape(text):
    """A text without its numbers."""
    # Which number differs first, and how many, is up to chance where a simulator is.
    return re.sub(r"-?[0-9]+(\.[0-9]+)?", "#", re.sub(r"\b\w+ of actor", "# of actor", text))


def test_the_page_shows_what_is_said(unseeded, clean_but_served_at_random):
    """Of the page's examples the script is the one that is run, and the words are those that come, numbers aside."""
    page = (ROOT / "docs" / "twice.md").read_text("utf-8")
    for name in ("drive", "unseeded", "clean", "threaded", "traffic_manager"):
        assert f"```python\n{(SCRIPTS / f'{name}.py').read_text('utf-8')}```" in page, name
    for words in (unseeded.words(), clean_but_served_at_random.words()):
        assert shape(words) in shape(page), words


def test_a_simulator_that_does_not_repeat_itself_is_told_from_the_script(clean_but_served_at_random):
    report = clean_but_served_at_random
    assert (report.same, report.source) == (False, "simulator")
    difference = report.first_difference
    assert (difference["kind"], difference["actor_type"]) == ("state", "vehicle.tesla.model3")
    assert difference["fields"]
    assert "The source is the simulator" in report.words()


@pytest.fixture(scope="module")
def pool():
    with serve_pool() as pool:
        yield pool


def test_a_server_that_runs_already_is_reloaded_between_runs(pool, tmp_path):
    with pool.serve(tmp_path) as server:
        address = f"127.0.0.1:{server.ready().port}"
        report = run("clean", server=address, keep=tmp_path / "kept")
        assert report.same, report.words()
        assert run("unseeded", server=address, investigate=False).source == "script"
    # The same again from the recordings alone, as people have them who used the proxy.
    kept = [tmp_path / "kept" / f"run-{number}" / "session.samepath" for number in (1, 2)]
    assert compare_recorded(*kept).same
    episodes = [{event.episode for event in read_session(path).events if isinstance(event, SessionState)} for path in kept]
    assert episodes[0] != episodes[1]


def test_a_served_world_that_is_told_not_to_repeat_itself_is_found_out(pool, tmp_path):
    with pool.serve(tmp_path, "--source", "unseeded-random") as server:
        report = run("clean", server=f"127.0.0.1:{server.ready().port}")
        assert any("does not repeat itself, on purpose" in line for line in server.lines)
    assert (report.same, report.source) == (False, "simulator")


@pytest.mark.parametrize("synchronous", [True, False])
def test_the_proxy_stands_between_carlas_client_and_a_server(pool, tmp_path, synchronous):
    """As people use it: samepath proxy, a script that knows nothing of it, twice; then the recordings."""
    name = "clean" if synchronous else "asynchronous"
    recordings = [tmp_path / "one.samepath", tmp_path / "two.samepath"]
    with pool.serve(tmp_path) as server:
        server.ready()
        for number, path in enumerate(recordings):
            with server.client() as client:
                client.ask("load_new_episode", "", True, 0xFFFF)
            command = [sys.executable, "-m", "samepath", "proxy", "--server", f"127.0.0.1:{server.port}", "--port", "0"]
            with subprocess.Popen([*command, "--out", str(path)], stderr=subprocess.PIPE, text=True) as proxy:
                port = proxy.stderr.readline().split("127.0.0.1:")[1].split()[0]
                environment = {**os.environ, "CARLA_PORT": port, "CARLA_CACHE_DIR": str(tmp_path / f"cache-{number}")}
                script = [sys.executable, str(SCRIPTS / f"{name}.py")]
                subprocess.run(script, env=environment, check=True, timeout=60, capture_output=True)
                proxy.terminate()
                assert "bytes changed in tokens: " in proxy.stderr.read()
            assert proxy.returncode == 0
    first, second = (read_session(path) for path in recordings)
    assert first.truncated == second.truncated == ""
    found = compare_sessions(first, second)
    assert (found.difference is None) == synchronous
    assert found.source is (SessionSource.NONE if synchronous else SessionSource.SCRIPT)
    calls = [event.method for event in first.events if isinstance(event, SessionCall)]
    assert calls.count("apply_control_to_vehicle") == (10 if synchronous else 2)


def cli(*arguments):
    command = [sys.executable, "-m", "samepath", "twice", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def invoke(*arguments):
    """The same in this process, for what only reads recordings."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if isinstance(result.exception, SamepathError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_the_command_line_keeps_its_contract(tmp_path):
    same = cli("--json", "--port", 0, "--keep", tmp_path / "kept", "--", sys.executable, SCRIPTS / "clean.py")
    assert same.returncode == 0, same.stderr
    assert {key: json.loads(same.stdout)[key] for key in ("same", "runs", "source", "cause", "first_difference")} == {
        "same": True, "runs": 2, "source": "none", "cause": "none", "first_difference": None,
    }  # fmt: skip
    recorded = [tmp_path / "kept" / "run-1" / "session.samepath", tmp_path / "kept" / "run-2" / "session.samepath"]
    assert invoke("twice", "--recorded", recorded[0], "--recorded", recorded[1])[0] == 0
    parts = cli(
        "--json", "--no-cause", "--port", 0, "--keep", tmp_path / "parted", "--", sys.executable, SCRIPTS / "unseeded.py"
    )
    assert parts.returncode == 1
    assert json.loads(parts.stdout)["source"] == "script"
    # The same from what was recorded, by the verb for runs of any kind.
    parted = [tmp_path / "parted" / f"run-{number}" / "session.samepath" for number in (1, 2)]
    explained = json.loads(invoke("explain", "--json", *parted)[1])
    assert (explained["cause"], explained["source"]) == ("command-value", "script")
    assert explained["first_difference"]["method"] == "apply_control_to_vehicle"
    assert json.loads(invoke("explain", "--json", *recorded)[1])["cause"] == "none"
    assert "The source is the script" in invoke("explain", *parted)[1]
    for odd, words in (([parted[0]], "name a second one"), ([parted[0], SCRIPTS / "clean.py"], "does not: name two that do")):
        code, line = invoke("explain", *odd)
        assert (code, words in line) == (2, True), line
    (tmp_path / "bad").write_bytes(recorded[0].read_bytes()[:-30] + b"x" * 30)
    bad = cli("--recorded", tmp_path / "bad", "--recorded", recorded[1])
    assert bad.returncode == 2
    assert bad.stderr.startswith("samepath: ")
    assert bad.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "settings", "words"),
    [
        ([], {}, "a script to run was wanted"),
        (["/no/such/program"], {}, "could not be started"),
        ([sys.executable, "-c", "raise SystemExit(3)"], {}, "ended by itself with exit code 3 and never called the server"),
        ([sys.executable, "-c", "print('far')"], {"map_name": "nowhere"}, "map 'nowhere' not found"),
        (["true"], {"runs": 1}, "2 to 1000 runs were wanted"),
        (["true"], {"server": "127.0.0.1:1"}, "cannot be reached"),
        (["true"], {"server": "here:x"}, "HOST:PORT was wanted"),
    ],
)
def test_bad_input_is_one_line(command, settings, words):
    with pytest.raises(InputError, match=words):
        twice(command, **{"port": 0, **settings})


HANGS = """
import os, time, carla
client = carla.Client("127.0.0.1", int(os.environ["CARLA_PORT"]))
client.get_world()
time.sleep(600)
"""


def test_a_script_that_does_not_end_is_stopped_and_said_so():
    # Long enough to import CARLA's client on a busy machine: one that has not called anybody by then is told something else.
    with pytest.raises(InputError, match="did not end within 20 s and was stopped"):
        twice([sys.executable, "-c", HANGS], port=0, timeout_s=20.0)


def test_a_program_that_cannot_be_watched_is_judged_by_its_calls():
    """Python with -E takes no PYTHONPATH, as a program that is not Python takes none."""
    command = [sys.executable, "-E", str(SCRIPTS / "unseeded.py")]
    report = twice(command, port=0, timeout_s=60.0, pinned_runs=2)
    assert (report.source, report.cause) == ("script", "unknown")
    assert any("no Python script that can be watched" in note for note in report.notes)
    assert report.first_difference["field"] == "throttle"


def test_it_is_part_of_the_library():
    assert samepath.twice is twice


def test_fresh_servers_offer_the_users_maps_and_speak_an_older_version(tmp_path):
    text = (ROOT / "src" / "samepath" / "simulator" / "maps" / "data" / "oval.xodr").read_text("utf-8")
    (tmp_path / "Town01.xodr").write_text(text, "utf-8")
    settings = ServerKind("oval", (), (str(tmp_path),), "0.9.15").settings(tmp_path / "data")
    assert (settings.map_name, settings.protocol) == ("oval", "0.9.15")
    assert settings.map_files == {"Town01": tmp_path / "Town01.xodr"}
    with pytest.raises(InputError, match="--protocol: one of"):
        ServerKind(protocol="0.9.5").settings(tmp_path)


def test_a_server_that_runs_already_has_its_maps(tmp_path):
    with pytest.raises(InputError, match="has its maps and its version"):
        twice(["true"], server="127.0.0.1:1", maps=[tmp_path])
