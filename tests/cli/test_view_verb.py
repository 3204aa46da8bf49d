"""``samepath view`` and ``samepath demo``: from folders, logs and recordings to a page; bad input is one line."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

import samepath
from samepath.cli.app import app
from samepath.core.errors import SamepathError
from samepath.instrument.viewer.page import MAGIC
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.rpc import RawRpc

LOG = "repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n"


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(LOG)
    return file


def index_in(page):
    return json.loads(re.search(r'id="index">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1])


def test_a_log_becomes_one_file(log, tmp_path):
    out = tmp_path / "runs.html"
    result = CliRunner().invoke(app, ["view", str(log), "--out", str(out)])
    assert result.exit_code == 0, result.output
    (cell,) = index_in(out)["cells"]
    assert (cell["repeats"], cell["outcomes"], cell["parting_tick"], cell["max_spread_m"]) == (2, 2, 1, 0.5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing-here"], "does not exist"),
        (["{log}", "--out", "x.png"], "--out: a name that ends in .html was wanted"),
        (["{log}", "--cell", "lgo"], "did you mean"),
        (["{log}", "--repeats", "1-"], "--repeats: numbers and ranges were wanted"),
        (["{log}", "--repeats", "7", "--out", "x.html"], "none of the repeats"),
        (["{log}", "--repeats", "3-1"], "a range that rises"),
    ],
)
def test_bad_input_is_one_line(log, arguments, told):
    result = CliRunner().invoke(app, ["view", *(argument.format(log=log) for argument in arguments)])
    assert result.exit_code != 0
    assert isinstance(result.exception, SamepathError)
    assert told in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize("behind", [(), ("sh", "-c", 'trap "" INT; exec "$@"', "sh")], ids=["alone", "interrupts ignored"])
def test_it_serves_on_loopback_until_it_is_interrupted(log, behind):
    command = [*behind, sys.executable, "-m", "samepath", "view", str(log), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
            with urllib.request.urlopen(f"{url}cell-0.bin", timeout=30) as answer:
                assert answer.read().startswith(MAGIC)
        finally:
            process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in said


def test_a_recorded_session_of_a_server_is_shown_on_its_map(tmp_path):
    file = tmp_path / "session.recording"
    serve = ["serve", "--port", "0", "--map", "t-junction", "--record", str(file), "--data", str(tmp_path / "d")]
    with subprocess.Popen([sys.executable, "-m", "samepath", *serve], stderr=subprocess.PIPE, text=True) as process:
        try:
            port = int(re.search(r"on 127\.0\.0\.1:(\d+)", process.stderr.readline())[1])
            with RawRpc("127.0.0.1", port) as client:
                client.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
                client.ask("spawn_actor", [0, "vehicle.audi.tt", []], client.value("get_map_info")[1][0])
                for _ in range(5):
                    client.value("tick_cue")
        finally:
            process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(30) == 0, said
    page = samepath.view(file, progress=False).write(tmp_path / "view.html")
    index = index_in(page)
    assert index["grounds"] == ["t-junction"]
    assert index["cells"][0]["repeats"] == 1


def test_the_demo_finds_a_divergence_explains_it_and_draws_it(tmp_path):
    folder = tmp_path / "demo"
    result = CliRunner().invoke(app, ["demo", "--out", str(folder), "--no-open"])
    assert result.exit_code == 0, result.output
    assert "lockstep: all 6 repeats are the same to the bit" in result.stdout
    assert re.search(r"game loop: \d different runs, up to [\d.]+ \w?m from their mean", result.stdout)
    assert re.search(r"They part at [\d.]+ s: repeat \d parts from repeat \d", result.stdout)
    assert "Cause: step-length." in result.stdout
    cells = index_in(folder / "view.html")["cells"]
    assert [cell["outcomes"] > 1 for cell in cells] == [False, True]
    assert 'class="look"' in (folder / "report.html").read_text("utf-8")
    served = samepath.view(folder, progress=False).write(tmp_path / "served.html")
    assert [cell["name"] for cell in index_in(served)["cells"]] == [cell["name"] for cell in cells]
    assert f"viewer: {folder / 'view.html'}#cell=1,0&tick=" in result.stdout
