"""What a study leaves behind when it is killed: whole files, no process, and a folder that can be gone on with."""

import json
import os
import resource
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from plans import marked_processes

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.streams import stream
from samepath.execution.folder import read_record
from samepath.execution.journal import read_journal
from samepath.execution.run import stored_cells

STUDY = """
name: small
design:
  cells:
    - {simulator: control-exact, scenario: crossing, name: exact}
    - {simulator: control-gaussian, scenario: crossing, name: noisy}
    - {simulator: control-exact, scenario: crossing, name: loaded, condition: {cpu_load: 0.2, instances: 2}}
  repeats: 14
execution: {isolation: process, blocks: 2, settle: 0 s, load_tool: samepath}
"""
HANGING = """
name: hanging
design:
  cells:
    - simulator: odd_simulators:Faulty
      scenario: s
      settings: {{fault: hang-with-child, at: 1, mark: '{mark}'}}
      condition: {{cpu_load: 0.3, memory_load: 0.2, instances: 2}}
  repeats: 4
execution: {{isolation: {isolation}, settle: 0 s, load_tool: samepath}}
"""
LONGEST_S = 60.0


class Study:
    """A samepath in a folder of its own; all that it starts carries a mark in its environment."""

    def __init__(self, folder, text):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "x.yaml").write_text(text)
        self.mark = uuid.uuid4().hex
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, "SAMEPATH_TEST_MARK": self.mark, "PYTHONPATH": path}

    def start(self, *arguments, **how):
        command = [sys.executable, "-m", "samepath", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes, **how)

    def entries(self, what):
        return [one for one in read_journal(self.folder / "out") if one["what"] == what]

    def wait(self, process, until):
        """Wait until something is so; a study that ends before that, or takes for ever, is an error."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while not until():
            assert process.poll() is None, process.communicate()
            assert SYSTEM_CLOCK.monotonic_s() - start_s < LONGEST_S
            SYSTEM_CLOCK.sleep_s(0.002)

    @staticmethod
    def finish(process):
        """Wait for the end; whoever holds the pipes open that long should have ended too."""
        return process.communicate(timeout=LONGEST_S)

    def nothing_left(self):
        """The kernel needs a moment to end what has lost its parent."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while (left := marked_processes(self.mark)) and SYSTEM_CLOCK.monotonic_s() - start_s < 10:
            SYSTEM_CLOCK.sleep_s(0.01)
        return not left


def files(folder):
    kinds = ("states.parquet", "runs.parquet", "cell.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.name.endswith(kinds)}


def test_a_study_that_is_killed_again_and_again_ends_as_if_it_never_was(tmp_path):
    undisturbed, killed = Study(tmp_path / "a", STUDY), Study(tmp_path / "b", STUDY)
    whole = undisturbed.start("study", "x.yaml", "--out", "out", "--json")
    moments = stream(1, "test", "kills").integers(1, 12, 3).tolist()
    arguments = ("study", "x.yaml", "--out", "out")
    for more in moments:
        target = len(killed.entries("repeat")) + more
        process = killed.start(*arguments)
        killed.wait(process, lambda target=target: len(killed.entries("repeat")) >= target)
        process.kill()
        killed.finish(process)
        assert killed.nothing_left()
        (killed.folder / "x.yaml").unlink(missing_ok=True)
        arguments = ("resume", "out")
    last = killed.start(*arguments, "--json")
    stdout, stderr = killed.finish(last)
    assert last.returncode == 0, stderr
    assert {cell["repeats"] for cell in json.loads(stdout)["cells"]} == {14}
    undisturbed.finish(whole)
    assert files(killed.folder / "out") == files(undisturbed.folder / "out")
    assert len(files(killed.folder / "out")) == 9
    plan = read_record(killed.folder / "out").plan
    assert [[run.repeat for run in one.runs] for one in stored_cells(plan, killed.folder / "out")] == [list(range(14))] * 3
    assert [one["what"] for one in read_journal(killed.folder / "out")].count("resumed") == 3
    assert killed.nothing_left()


@pytest.mark.parametrize("isolation", ["process", "cold"])
def test_nothing_outlives_a_study_that_is_killed(tmp_path, isolation):
    hanging = tmp_path / "hanging"
    study = Study(tmp_path / "a", HANGING.format(mark=hanging, isolation=isolation))
    process = study.start("study", "x.yaml", "--out", "out")
    study.wait(process, hanging.exists)
    # The measured simulator and what it has started, another instance with its own, two loads, a fork server.
    assert len(marked_processes(study.mark)) >= 6
    process.kill()
    study.finish(process)
    assert study.nothing_left()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_study_reports_what_it_has_and_goes_on(tmp_path, sign):
    study = Study(tmp_path / "a", STUDY.replace("repeats: 14", "repeats: 200"))
    # A test run in the background of a script inherits an ignored SIGINT; a person at a terminal does not.
    process = study.start(
        "study", "x.yaml", "--out", "out", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    )
    study.wait(process, lambda: len(study.entries("repeat")) >= 3)
    process.send_signal(sign)
    stdout, stderr = study.finish(process)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "Interrupted" in stdout
    assert "samepath resume out" in (study.folder / "out" / "report.html").read_text()
    assert len(study.entries("interrupted")) == 1
    assert study.nothing_left()


def test_a_full_disk_is_told_in_one_line_and_harms_nothing(tmp_path):
    study = Study(tmp_path / "a", STUDY)
    first = study.start("study", "x.yaml", "--out", "out", "--repeats", "3")
    study.finish(first)
    before = files(study.folder / "out")
    # The journal is the largest file of this small study: it hits the limit in the middle of a line.
    limit = (study.folder / "out" / "journal.jsonl").stat().st_size + 3000

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    full = study.start("study", "x.yaml", "--out", "out", preexec_fn=little_room)
    _, stderr = study.finish(full)
    assert full.returncode == 2, stderr
    (line,) = [one for one in stderr.splitlines() if one]
    assert "could not be written" in line
    assert "samepath resume out" in line
    assert {name: data for name, data in files(study.folder / "out").items() if "parquet" in name} == {
        name: data for name, data in before.items() if "parquet" in name
    }
    assert study.nothing_left()
    resumed = study.start("resume", "out", "--json")
    stdout, stderr = study.finish(resumed)
    assert resumed.returncode == 0, stderr
    assert {cell["repeats"] for cell in json.loads(stdout)["cells"]} == {14}
