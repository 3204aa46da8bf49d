"""The tutorials are true: their files are written as they stand there, their commands run, and print what stands there."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.cli.test_docs_of_golden import ROOT, as_written, assert_commands_exist, steps
from tests.support.carla_process import served

# A file of a tutorial: its name in the paragraph before the block that holds it.
FILE = re.compile(r"(?<=\n)(?:[^\n`]*)`(?P<name>[\w-]+\.(?:py|yaml|csv))`(?:[^\n]+\n)+\n```\w+\n(?P<text>.*?)```", re.DOTALL)


def page(name):
    return (ROOT / "docs" / "tutorials" / f"{name}.md").read_text("utf-8")


def lay_out(name, folder):
    """Write the files of a tutorial; returns their names."""
    files = {found["name"]: found["text"] for found in FILE.finditer(page(name))}
    for file, text in files.items():
        (folder / file).write_text(text)
    return list(files)


def follow(name, quick, folder, was="", now=""):
    """Do what a tutorial says, command by command."""
    followed = 0
    for block in re.findall(r"```console\n(.*?)```", page(name), re.DOTALL):
        for command, output in steps(block):
            words = shlex.split(command.replace(was, now) if was else command)
            if words[0] == "samepath":
                done = quick(*words[1:], cwd=folder)
            elif words[0] == "python":
                done = subprocess.run([sys.executable, *words[1:]], cwd=folder, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
            else:
                done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=True)
            expected = output.replace(was, now) if was else output
            assert not output or as_written(expected, done.stdout), (
                f"{command} printed\n{done.stdout}{done.stderr}instead of\n{expected}"
            )
            followed += 1
    return followed


@pytest.fixture
def on_path(monkeypatch, tmp_path):
    """A folder whose modules every process that is started finds."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "src")]))
    return tmp_path


def test_a_simulator_of_your_own_in_fifty_lines(quick, on_path):
    assert lay_out("own-simulator", on_path) == ["crossing_sim.py", "crossing.yaml"]
    assert len((on_path / "crossing_sim.py").read_text().splitlines()) <= 50
    assert follow("own-simulator", quick, on_path) == 3


def test_a_controller_is_told_from_its_world(quick, on_path):
    assert lay_out("ego-controller", on_path) == ["my_controller.py", "ego.yaml", "who.yaml"]
    assert follow("ego-controller", quick, on_path) == 2


def test_gates_of_a_repository(quick, tmp_path):
    assert lay_out("gate", tmp_path) == ["crossing.yaml", "test_planner.py", "logs.csv"]
    assert follow("gate", quick, tmp_path) == 6
    assert (tmp_path / "junit.xml").read_text("utf-8").count("<failure") == 1


def test_a_data_set_is_written_and_read(quick, tmp_path):
    assert lay_out("dataset", tmp_path) == ["read.py"]
    assert follow("dataset", quick, tmp_path) == 2


def test_a_server_of_carlas_protocol_is_assessed(quick, tmp_path):
    pytest.importorskip("carla")
    assert lay_out("assess-carla", tmp_path) == ["my-carla.yaml"]
    with served() as (_, port):
        study = tmp_path / "my-carla.yaml"
        study.write_text(study.read_text().replace("port: 2000", f"port: {port}"))
        assert follow("assess-carla", quick, tmp_path, "port=2000", f"port={port}") == 2


@pytest.mark.cluster
def test_it_does_not_matter_which_server_of_a_cluster_draws(tmp_path):
    pytest.importorskip("carla")
    from tests.support.clustering import clustered

    assert lay_out("cluster", tmp_path) == ["camera.py"]

    def pictures(port):
        command = [sys.executable, "camera.py", str(port)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with clustered(2) as cluster:
        through_a_node = pictures(cluster.nodes[-1].port)
    with served() as (_, port):
        alone = pictures(port)
    assert through_a_node == alone
    assert alone.startswith("20 pictures: ")


def test_every_command_that_a_tutorial_speaks_of_exists():
    for path in (ROOT / "docs" / "tutorials").glob("*.md"):
        text = path.read_text("utf-8")
        spoken = re.findall(r"^(samepath [^#\n]+)", text, re.MULTILINE) + re.findall(r"`(samepath [^`]+)`", text)
        assert_commands_exist([command for command in spoken if "\n" not in command])
