"""Running a study: nothing finished is lost or run twice, failures do not end it, and equal studies are equal files."""

import json

import pytest

from samepath.core.errors import SimulatorError, StoreError, StudyError
from samepath.engines.interface import CommandLog
from samepath.instrument.execution.folder import load_commands, read_journal, save_commands, stored_cells
from samepath.instrument.execution.rehearsal import check_plan, not_rehearsed, rehearse
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.records import Isolation, Order
from tests.support.plans import cell, plan


def small(repeats=6, **how):
    exact, noisy = cell("control-exact", "exact", repeats=repeats), cell("control-gaussian", "noisy", repeats=repeats)
    return plan(exact, noisy, **how)


def files(folder):
    kinds = ("cell.json", "states.parquet", "runs.parquet")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.name.endswith(kinds)}


def numbers(study, folder):
    return [[run.repeat for run in stored.runs] for stored in stored_cells(study, folder)]


class StopError(Exception):
    """Stands for anything that ends a study in the middle."""


def test_every_repeat_of_every_cell_is_run_and_what_the_host_did_lies_beside_it(tmp_path):
    study = small()
    run_plan(study, tmp_path)
    cells = stored_cells(study, tmp_path)
    assert numbers(study, tmp_path) == [list(range(6))] * 2
    logs = list(cells[0].host_logs())
    assert [number for number, _ in logs] == list(range(6))
    assert all(len(log.latency_s) == 200 for _, log in logs), "one latency per tick"
    assert [log.measured["position"] for _, log in logs] == list(range(6))
    assert all({"cpu_load", "nice", "cores", "isolation"} <= set(log.measured) for _, log in logs)
    header = cells[1].header
    assert header.settings["sigma_m"] == 0.001, "defaults are recorded too"
    assert header.settings["isolation"] == "inline"


@pytest.mark.parametrize("stop_at", [1, 5, 6, 9])
def test_a_study_that_was_stopped_goes_on_and_ends_with_the_same_bytes(tmp_path, stop_at):
    run_plan(small(), tmp_path / "whole")

    def stop(progress):
        if progress.total_done == stop_at:
            raise StopError

    with pytest.raises(StopError):
        run_plan(small(), tmp_path / "cut", stop)
    (tmp_path / "cut" / "cells" / "exact" / ".part-000000.states.parquet.1.partial").write_text("left by a killed process")
    seen = []
    run_plan(small(), tmp_path / "cut", lambda progress: seen.append(progress.total_done))
    assert seen[-1] == 12
    assert seen == sorted(seen)
    repeats = [entry for entry in read_journal(tmp_path / "cut") if entry["what"] == "repeat"]
    assert len(repeats) == 12, "nothing finished was run again"
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert not list((tmp_path / "cut").rglob("*.partial"))


def test_a_store_that_cannot_be_read_is_refused_in_one_line_and_what_is_finished_is_kept(tmp_path):
    def block(progress):
        if progress.total_done == 6:
            (tmp_path / "s" / "cells" / "noisy" / "cell.json").mkdir(parents=True, exist_ok=True)  # reading it is an OSError

    with pytest.raises(StoreError, match=r"noisy cannot be read: .*; what is finished is kept"):
        run_plan(small(), tmp_path / "s", block)
    (tmp_path / "s" / "cells" / "noisy" / "cell.json").rmdir()
    run_plan(small(), tmp_path / "s")
    assert numbers(small(), tmp_path / "s") == [list(range(6))] * 2


@pytest.mark.parametrize("isolation", [Isolation.PROCESS, Isolation.BATCH])
def test_processes_blocks_and_any_order_give_the_same_bytes(tmp_path, isolation):
    run_plan(small(), tmp_path / "one")
    many = small(isolation=isolation, processes=2, repeats_per_process=2, blocks=3, order=Order.RANDOM)
    run_plan(many, tmp_path / "many")
    slots = [(entry["block"], entry["cell"]) for entry in read_journal(tmp_path / "many") if entry["what"] == "slot"]
    assert slots == [(slot.block, many.cells[slot.cell].name) for slot in many.slots], "the plan's order was followed"
    for by_many, other in zip(stored_cells(many, tmp_path / "many"), stored_cells(small(), tmp_path / "one"), strict=True):
        assert [run.digest for run in by_many.runs] == [run.digest for run in other.runs]


def test_repeats_that_wait_to_be_packed_do_not_fill_the_disk(tmp_path, monkeypatch):
    run_plan(small(blocks=3), tmp_path / "usual")
    monkeypatch.setattr("samepath.instrument.execution.run.SPOOL_BYTES", 100_000)
    most = []

    def look(progress):
        most.append(sum(path.stat().st_size for path in (tmp_path / "tight").rglob("spool/*.arrow")))

    run_plan(small(blocks=3), tmp_path / "tight", look)
    assert 100_000 < max(most) < 400_000, "about four repeats at once, where twelve would be 800 kB"
    assert files(tmp_path / "tight") == files(tmp_path / "usual")


def test_a_study_can_grow(tmp_path):
    run_plan(small(), tmp_path / "a")
    run_plan(small(9), tmp_path / "a")
    run_plan(small(9), tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_study_does_not_shrink_in_silence(tmp_path):
    run_plan(small(9), tmp_path)
    with pytest.raises(StudyError, match="more than the 6 asked for"):
        run_plan(small(), tmp_path)


def test_a_failed_repeat_does_not_end_the_study_and_is_tried_again(tmp_path):
    mark = tmp_path / "mark"
    shaky = cell("Faulty", "shaky", repeats=4, settings={"fault": "until-mark", "at": 2, "mark": str(mark)})
    study = plan(shaky, cell("control-exact", "exact"), isolation=Isolation.PROCESS)
    result = run_plan(study, tmp_path / "s")
    failures = [(failure.cell, failure.repeat, failure.reason) for failure in result.failures]
    assert failures == [("shaky", 2, "not yet"), ("shaky", 3, "not yet")]
    assert result.given_up == {}
    assert numbers(study, tmp_path / "s") == [[0, 1], [0, 1, 2, 3]]
    mark.touch()
    assert run_plan(study, tmp_path / "s").failures == ()
    assert numbers(study, tmp_path / "s") == [[0, 1, 2, 3]] * 2


def test_three_failures_in_a_row_give_up_the_rest_of_a_cell_in_all_its_blocks(tmp_path):
    broken = cell("Faulty", "broken", repeats=12, settings={"fault": "bug", "at": 3})
    study = plan(broken, cell("control-exact", "exact", repeats=6), blocks=2)
    result = run_plan(study, tmp_path)
    assert len(result.failures) == 3
    assert result.given_up["broken"].startswith("given up after 3 failures in a row: ZeroDivisionError")
    assert numbers(study, tmp_path) == [[0, 1, 2], list(range(6))]
    journal = read_journal(tmp_path)
    assert [entry["what"] for entry in journal if entry.get("cell") == "broken"].count("given up") == 1
    assert "Traceback" in next(entry["detail"] for entry in journal if entry["what"] == "failed")


def test_cells_that_the_host_does_not_permit_are_left_out(tmp_path):
    study = small()
    run_plan(study, tmp_path, left_out=["noisy"])
    assert [stored.header.cell for stored in stored_cells(study, tmp_path)] == ["exact"]


def test_loads_are_held_and_what_was_asked_and_measured_is_kept(tmp_path):
    loaded = cell("control-exact", "loaded", repeats=3, condition={"cpu_load": 0.3, "instances": 2, "nice": 3})
    study = plan(loaded, isolation=Isolation.PROCESS, settle_s=0.5)
    seen = []
    run_plan(study, tmp_path, seen.append)
    (stored,) = stored_cells(study, tmp_path)
    assert stored.header.condition == {"cpu_load": 0.3, "instances": 2, "nice": 3}
    for _, log in stored.host_logs():
        assert log.measured["instances"] == 2
        assert log.measured["nice"] == 3
        assert 0 < log.measured["cpu_load"] <= 1
    (slot,) = [entry for entry in read_journal(tmp_path) if entry["what"] == "slot"]
    assert slot["asked"] == {"cpu_load": 0.3, "instances": 2}
    assert slot["settled"]["cpu_load"] > 0
    assert seen[-1].asked["cpu_load"] == 0.3
    assert seen[-1].max_sigma_m == 0.0


def test_replayed_commands_are_recorded_once_and_told_apart_from_the_controller(tmp_path):
    in_loop = cell("Wavering", "loop", condition={"controller": "in-loop"})
    replayed = cell("Wavering", "replay", condition={"controller": "replayed"})
    study = plan(in_loop, replayed, isolation=Isolation.PROCESS)
    run_plan(study, tmp_path)
    first, second = stored_cells(study, tmp_path)
    assert len({run.digest for run in first.runs}) == 4
    assert len({run.digest for run in second.runs}) == 1
    assert {log.measured["controller"] for _, log in second.host_logs()} == {"replayed"}
    commands = load_commands(tmp_path / "cells" / "replay")
    grown = plan(
        in_loop, cell("Wavering", "replay", condition={"controller": "replayed"}, repeats=6), isolation=Isolation.PROCESS
    )
    run_plan(grown, tmp_path)
    assert load_commands(tmp_path / "cells" / "replay") == commands
    assert len({run.digest for run in stored_cells(grown, tmp_path)[1].runs}) == 1, "later repeats replay the same commands"
    (tmp_path / "cells" / "replay" / "commands.json").unlink()
    more = plan(
        in_loop, cell("Wavering", "replay", condition={"controller": "replayed"}, repeats=8), isolation=Isolation.PROCESS
    )
    assert "is gone" in run_plan(more, tmp_path).given_up["replay"]


def test_commands_come_back_bit_for_bit(tmp_path):
    values = tuple((x, float("inf") if x > 2 else 0.1 + 0.2) for x in (1 / 3, 5e-324, 1e308, -0.0))
    log = CommandLog(("a", "b"), (0.0, 0.1, 0.2, 0.1 + 0.2), (1, 1, 2, 2), values)
    save_commands(tmp_path, log)
    back = load_commands(tmp_path)
    assert back == log
    assert str(back) == str(log), "the sign of zero too"
    assert load_commands(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (cell("control-exat"), "did you mean 'control-exact'"),
        (cell("control-gaussian", settings={"sigma": 1.0}), "did you mean 'sigma_m'"),
        (cell("samepath", scenario="table1-tset1"), "did you mean 'table1-test1'"),
        (cell("Telling", condition={"controller": "replayed"}), "cannot replay commands"),
    ],
)
def test_what_would_fail_later_is_refused_before_the_first_run(broken, words):
    with pytest.raises((StudyError, SimulatorError, Exception), match=words):
        check_plan(plan(broken))


def test_a_tool_that_is_not_there_is_refused_where_it_is_needed(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    check_plan(plan(cell("control-exact"), load_tool="stress-ng"))
    with pytest.raises(StudyError, match=r"load_tool: stress-ng was asked for, but it is not installed"):
        check_plan(plan(cell("control-exact", condition={"cpu_load": 0.5}), load_tool="stress-ng"))


def test_a_duration_is_refused_where_the_simulator_has_no_such_end():
    check_plan(plan(cell("Wavering"), duration_s=1.0))
    with pytest.raises(StudyError, match="cannot end a run"):
        check_plan(plan(cell("Telling"), duration_s=1.0))


def test_a_rehearsal_tries_each_kind_of_run_once_and_keeps_nothing(tmp_path):
    a, b = cell("control-exact", "a", condition={"cpu_load": 0.5}), cell("control-exact", "b")
    c = cell("control-gaussian", "c", settings={"sigma_m": 0.5})
    study = plan(a, b, c)
    assert [tried_cell.name for tried_cell in not_rehearsed(study.cells, ())] == ["a", "c"]
    tried = []
    found = rehearse(study, study.cells, (), tried.append)
    assert tried == ["a", "c"]
    assert [rehearsal.rows for rehearsal in found] == [800, 800]
    assert all(rehearsal.spool_bytes > rehearsal.stored_bytes > 1000 for rehearsal in found)
    assert all(rehearsal.cost_s > rehearsal.run_s > 0 for rehearsal in found)
    assert rehearse(study, study.cells, found) == found, "what is known is not tried again"
    assert json.loads(json.dumps([rehearsal.as_dict() for rehearsal in found]))[1]["settings"] == {"sigma_m": 0.5}


def test_a_rehearsal_that_fails_refuses_the_study():
    broken = cell("Faulty", "broken", settings={"fault": "error", "at": 0})
    with pytest.raises(SimulatorError, match="cell 'broken' was tried before the study and failed: engine on fire"):
        rehearse(plan(broken), [broken], ())
