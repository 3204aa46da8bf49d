"""``samepath serve`` as a process: it starts, says what it does, and ends cleanly."""

import re
import signal
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.errors import SamepathError
from samepath.simulator.sensors.renderer import create_renderer


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "samepath", "serve", *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(ending, tmp_path):
    process = start("--port", "0", "--data", str(tmp_path / "data"))
    with process:
        line = process.stderr.readline()
        found = re.search(r"serving map t-junction on 127\.0\.0\.1:(\d+), streams on (\d+)", line)
        assert found, line
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=60):
            process.send_signal(ending)
            rest = process.stderr.read()
        assert process.wait(60) == 0
    assert "stopping" in rest
    assert "Traceback" not in rest
    assert not (tmp_path / "data").exists()  # nothing is made before it is needed


def test_a_server_that_was_killed_goes_on_where_it_was(tmp_path):
    folder = str(tmp_path / "journal")
    with start("--port", "0", "--map", "oval", "--journal", folder) as process:
        assert "serving map oval" in process.stderr.readline()
        process.kill()
        process.stderr.read()
    with start("--port", "0", "--journal", folder, "--resume") as process:
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(60) == 0
    assert "resumed from the beginning: frame" in lines[0]
    assert "serving map oval" in lines[1]


def test_it_says_what_it_means_to_listen_to_others():
    process = start("--port", "0", "--host", "0.0.0.0")
    with process:
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        process.wait(60)
    assert "0.0.0.0 is not loopback" in lines[1]
    assert "no password" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--map", "nowhere"], "there are: double-mini-roundabout"),
        (["--alias", "Town03"], "NAME=MAP was wanted"),
        (["--alias", "Town03=nowhere"], "there is no map 'nowhere'"),
        (["--alias", "A=town", "--alias", "A=oval"], "given twice"),
        (["--host", "no.such.host.invalid"], "cannot be served"),
        (["--resume"], "give --journal FOLDER"),
        (["--resume", "--journal", "/dev/null"], "/dev/null cannot be read"),
        (["--journal-durable"], "--journal-durable: a journal to wait for was wanted"),
        (["--journal", "/dev/null/journal"], "could not be created"),
        (["--renderer", "opengll"], "unknown renderer 'opengll': did you mean 'opengl'?"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(arguments, words):
    found = CliRunner().invoke(app, ["serve", "--port", "0", *arguments])
    assert isinstance(found.exception, SamepathError)
    assert words in str(found.exception)
    assert "\n" not in str(found.exception)


def test_a_port_that_is_taken_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = CliRunner().invoke(app, ["serve", "--port", str(port)])
    assert isinstance(found.exception, SamepathError)
    assert "choose another --port" in str(found.exception)


def test_who_draws_is_said_where_it_depends_on_a_driver(tmp_path):
    try:
        made = create_renderer("opengl")
    except SamepathError as error:
        pytest.skip(str(error))
    made.close()
    process = start("--port", "0", "--renderer", "opengl", "--data", str(tmp_path / "data"))
    with process:
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(60) == 0
    assert "cameras are drawn by opengl (" in lines[1]
    assert made.facts["gl_renderer"] in lines[1]
