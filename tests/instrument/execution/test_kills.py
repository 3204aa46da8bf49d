"""What a study leaves behind when it is killed: whole files, no process, and a folder that can be gone on with."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import uuid

import pytest

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StoreError
from samepath.core.streams import stream
from samepath.instrument.execution.folder import StudyRecord, begin, read_journal, stored_cells
from samepath.instrument.execution.rehearsal import rehearse
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import make_plan
from tests.support import ROOT
from tests.support.plans import marked_processes

STUDY = """
name: small
design:
  cells:
    - {simulator: control-exact, scenario: crossing, name: exact}
    - {simulator: control-gaussian, scenario: crossing, name: noisy}
    - {simulator: control-exact, scenario: crossing, name: loaded, condition: {cpu_load: 0.2, instances: 2}}
  repeats: 16
execution: {isolation: process, blocks: 2, settle: 0 s, load_tool: samepath}
"""
QUIET = """
name: quiet
design:
  cells:
    - {simulator: control-exact, scenario: crossing, name: exact}
    - {simulator: control-gaussian, scenario: crossing, name: noisy}
  repeats: 14
execution: {isolation: inline}
"""
HANGING = """
name: hanging
design:
  cells:
    - simulator: tests.support.odd_simulators:Faulty
      scenario: s
      settings: {{fault: hang-with-child, at: 1, mark: '{mark}'}}
      condition: {{cpu_load: 0.3, memory_load: 0.2, instances: 2}}
  repeats: 4
execution: {{isolation: {isolation}, settle: 0 s, load_tool: samepath}}
"""
LONGEST_S = 300.0


class Study:
    """A samepath in a folder of its own; all that it starts carries a mark in its environment."""

    def __init__(self, folder, text):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "x.yaml").write_text(text)
        self.mark = uuid.uuid4().hex
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, "SAMEPATH_TEST_MARK": self.mark, "PYTHONPATH": path}

    def start(self, *arguments, **how):
        command = [sys.executable, "-m", "samepath", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes, **how)

    def entries(self, what):
        return [entry for entry in read_journal(self.folder / "out") if entry["what"] == what]

    def wait(self, process, until):
        """Wait until something is so; a study that ends before that, or takes for ever, is an error."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while not until():
            assert process.poll() is None, process.communicate()
            assert SYSTEM_CLOCK.monotonic_s() - start_s < LONGEST_S
            SYSTEM_CLOCK.sleep_s(0.01)

    @staticmethod
    def finish(process):
        """Wait for the end; whoever holds the pipes open that long should have ended too."""
        return process.communicate(timeout=LONGEST_S)

    def nothing_left(self):
        """The kernel needs a moment to end what has lost its parent."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while (left := marked_processes(self.mark)) and SYSTEM_CLOCK.monotonic_s() - start_s < 30:
            SYSTEM_CLOCK.sleep_s(0.01)
        return not left


def files(folder):
    kinds = ("states.parquet", "runs.parquet", "cell.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.name.endswith(kinds)}


def test_a_study_that_is_killed_again_and_again_ends_as_if_it_never_was(tmp_path):
    plan, killed = make_plan(STUDY, "x.yaml"), Study(tmp_path / "a", STUDY)
    run_plan(plan, tmp_path / "whole")
    moments = stream(1, "test", "kills").integers(1, 6, 3).tolist()
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
    assert {cell["repeats"] for cell in json.loads(stdout)["cells"]} == {16}
    assert files(killed.folder / "out") == files(tmp_path / "whole")
    assert len(files(killed.folder / "out")) == 9
    assert [[run.repeat for run in cell.runs] for cell in stored_cells(plan, killed.folder / "out")] == [list(range(16))] * 3
    assert [entry["what"] for entry in read_journal(killed.folder / "out")].count("resumed") == 3
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


def test_a_study_that_is_told_to_end_reports_what_it_has_and_leaves_nothing_running(tmp_path):
    study = Study(tmp_path / "a", STUDY.replace("repeats: 16", "repeats: 200"))
    process = study.start("study", "x.yaml", "--out", "out")
    study.wait(process, lambda: len(study.entries("repeat")) >= 3)
    process.send_signal(signal.SIGTERM)
    stdout, stderr = study.finish(process)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "Interrupted" in stdout
    assert "samepath resume out" in (study.folder / "out" / "report.html").read_text()
    assert len(study.entries("interrupted")) == 1
    assert study.nothing_left()


def test_a_full_disk_is_told_in_one_line_and_harms_nothing(tmp_path):
    study, plan = Study(tmp_path / "a", QUIET), make_plan(QUIET, "x.yaml", 3)
    (study.folder / "out").mkdir()
    record = StudyRecord(plan, "samepath study x.yaml", {}, rehearsals=rehearse(plan, plan.cells, ()))
    begin(study.folder / "out", record)
    run_plan(plan, study.folder / "out")
    before = files(study.folder / "out")
    # A file may grow a little, then no more: the journal hits this limit in the middle of a line.
    limit = (study.folder / "out" / "journal.jsonl").stat().st_size + 3000

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    study.environment["PYTHONDONTWRITEBYTECODE"] = "1"  # half a module's would be kept, and every later process trip over it
    full = study.start("study", "x.yaml", "--out", "out", preexec_fn=little_room)
    _, stderr = study.finish(full)
    assert full.returncode == 2, stderr
    (line,) = stderr.splitlines()
    assert "could not be written" in line
    assert "samepath resume out" in line
    assert files(study.folder / "out") == before
    assert study.nothing_left()
    resumed = study.start("resume", "out", "--json")
    stdout, stderr = study.finish(resumed)
    assert resumed.returncode == 0, stderr
    assert {cell["repeats"] for cell in json.loads(stdout)["cells"]} == {14}


def test_a_disk_that_is_full_while_parts_are_packed_keeps_what_was_there(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        large = make_plan(QUIET, "x.yaml", 60)
        run_plan(make_plan(QUIET, "x.yaml", 3), disk / "out")
        before = files(disk / "out")
        with pytest.raises(StoreError, match="No space left on device"):
            run_plan(large, disk / "out")
        assert files(disk / "out") == before
        stored = [len(cell.runs) for cell in stored_cells(large, disk / "out")]
        assert 3 < sum(stored) < 120
        shutil.copytree(disk / "out", tmp_path / "out")
    finally:
        subprocess.run(["umount", disk], check=True)
    run_plan(large, tmp_path / "out")
    assert [len(stored.runs) for stored in stored_cells(large, tmp_path / "out")] == [60, 60]
