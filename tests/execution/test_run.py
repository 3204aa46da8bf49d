"""Running a study: nothing finished is lost, nothing is run twice, and equal studies are equal files."""

import pytest

from samepath.base.errors import SimulatorError, StudyError
from samepath.execution.folder import open_folder, read_record
from samepath.execution.run import run_plan, stored_cells
from samepath.study.plan import make_plan

STUDY = """
name: small
repeats: 6
cells:
  - {simulator: control-exact, scenario: crossing, name: exact}
  - {simulator: control-gaussian, scenario: crossing, name: noisy}
"""


def files(folder):
    kinds = ("cell.json", "states.parquet", "runs.parquet")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.name.endswith(kinds)}


class StopError(Exception):
    """Stands for anything that ends a study in the middle."""


def test_every_repeat_of_every_cell_is_run_and_host_samples_lie_beside_it(tmp_path):
    plan = make_plan(STUDY, "small")
    run_plan(plan, tmp_path, lambda progress: None)
    cells = stored_cells(plan, tmp_path)
    assert [len(cell.runs) for cell in cells] == [6, 6]
    logs = list(cells[0].host_logs())
    assert [number for number, _ in logs] == list(range(6))
    assert all(len(log.latency_s) == 200 for _, log in logs), "one latency per tick"
    assert cells[1].header.settings["sigma_m"] == 0.001, "defaults are recorded too"


@pytest.mark.parametrize("stop_at", [1, 5, 6, 9])
def test_a_study_that_was_stopped_goes_on_and_ends_with_the_same_bytes(tmp_path, stop_at):
    plan = make_plan(STUDY, "small")
    run_plan(plan, tmp_path / "whole", lambda progress: None)

    def stop(progress):
        if progress.total_done == stop_at:
            raise StopError

    with pytest.raises(StopError):
        run_plan(plan, tmp_path / "cut", stop)
    seen = []
    run_plan(plan, tmp_path / "cut", lambda progress: seen.append(progress.total_done))
    assert seen[-1] == 12
    assert seen == sorted(seen)
    assert len(seen) <= 12 - stop_at + 2, "nothing finished was run again"
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_a_study_can_grow(tmp_path):
    run_plan(make_plan(STUDY, "small"), tmp_path / "a", lambda progress: None)
    run_plan(make_plan(STUDY, "small", repeats=9), tmp_path / "a", lambda progress: None)
    run_plan(make_plan(STUDY, "small", repeats=9), tmp_path / "b", lambda progress: None)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_study_does_not_shrink_in_silence(tmp_path):
    run_plan(make_plan(STUDY, "small", repeats=9), tmp_path, lambda progress: None)
    with pytest.raises(StudyError, match="more than the 6 asked for"):
        run_plan(make_plan(STUDY, "small"), tmp_path, lambda progress: None)


def test_a_folder_is_only_continued_under_the_same_plan(tmp_path):
    plan = make_plan(STUDY, "small")
    open_folder(tmp_path / "s", plan, "samepath study small", {})
    open_folder(tmp_path / "s", plan, "samepath study small", {})
    assert read_record(tmp_path / "s").name == "small"
    with pytest.raises(StudyError, match="holds another study"):
        open_folder(tmp_path / "s", make_plan(STUDY.replace("name: small", "name: other"), "x"), "", {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(StudyError, match="not an empty folder"):
        open_folder(tmp_path / "full", plan, "", {})


def test_fresh_processes_give_the_same_bytes_as_one(tmp_path):
    grouped = STUDY.replace("repeats: 6", "repeats: 6\nprocesses: 2\nrepeats_per_process: 2")
    run_plan(make_plan(STUDY, "small"), tmp_path / "one", lambda progress: None)
    run_plan(make_plan(grouped, "small"), tmp_path / "many", lambda progress: None)
    assert files(tmp_path / "one") == files(tmp_path / "many")


def test_a_fault_in_a_process_is_told_in_words_and_what_was_finished_is_kept(tmp_path):
    cells = "cells:\n  - {simulator: 'broken_simulator:Broken', scenario: s}\n"
    plan = make_plan(f"name: x\nrepeats: 4\nprocesses: 1\nrepeats_per_process: 1\n{cells}", "x")
    with pytest.raises(SimulatorError, match="repeat 2: engine on fire"):
        run_plan(plan, tmp_path, lambda progress: None)
    assert [run.repeat for run in stored_cells(plan, tmp_path)[0].runs] == [0, 1]
