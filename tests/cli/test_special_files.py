"""Verbs that are given a pipe or a device end with one line. Opening a pipe would wait for ever, a device has no end."""

import os
import threading

import pytest

COMMANDS = [
    "map x.xodr",
    "analyse x.csv",
    "analyse x.parquet",
    "analyse x.log",
    "analyse folder",
    "import x.csv --out o",
    "check x.csv --tolerance 1cm",
    "explain x.csv",
    "report x.csv",
    "tolerance x.csv",
    "view x.rec",
    "replay x.rec",
    "golden check x.json",
    "golden write g.json x.csv",
    "study x.yaml",
    "shrink x.yaml",
    "script x.xosc",
    "script x.txt",
    "record x.yaml --out o",
    "record glancing --rig x.yaml --out o",
    "analyse folder --monitors x.yaml",
    "twice --recorded x.log --recorded x.log",
    "serve --map x.xodr --port 0",
    "serve --maps x.xodr --port 0",
]


@pytest.fixture(scope="module")
def pipes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipes")
    (folder / "folder").mkdir()
    for suffix in ("xodr", "csv", "parquet", "log", "rec", "json", "yaml", "xosc", "txt"):
        os.mkfifo(folder / f"x.{suffix}")
    os.mkfifo(folder / "folder" / "a.csv")
    return folder


@pytest.fixture
def released(pipes):
    """A command that opens a pipe all the same finds its end after a minute, so that the test fails instead of waiting."""

    def release():
        for path in pipes.glob("**/*.*"):
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))

    timer = threading.Timer(60.0, release)
    timer.start()
    yield pipes
    timer.cancel()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_is_refused_in_one_line(command, released, refused):
    line = refused(*command.split(), cwd=released)
    assert "expected a regular file, got a named pipe" in line


@pytest.mark.parametrize("verb", ["analyse", "view", "replay", "golden check"])
def test_a_device_without_an_end_is_refused_in_one_line(verb, refused):
    assert "/dev/zero: expected a regular file, got a device" in refused(*verb.split(), "/dev/zero")
