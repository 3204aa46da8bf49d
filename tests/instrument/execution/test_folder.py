"""A study's folder: one samepath at a time, one study for ever, and a journal that survives a torn line."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from samepath.core.errors import StoreError, StudyError
from samepath.instrument.execution.folder import (
    JOURNAL_FILE,
    Journal,
    StudyRecord,
    absent_cells,
    begin,
    found_record,
    locked,
    read_journal,
    read_record,
)
from samepath.instrument.execution.rehearsal import Rehearsal
from samepath.instrument.execution.run import run_plan
from tests.support.plans import cell, plan

PLAN = plan(cell("control-exact", "exact"), cell("control-gaussian", "noisy", condition={"cpu_load": 0.5}))
RECORD = StudyRecord(
    PLAN,
    "samepath study small",
    {"host": "here"},
    ("samepath study small",),
    {"noisy": "no CPU"},
    (Rehearsal("control-exact", "crossing", {}, 0.1, 0.05, 600, 1000, 500),),
)


def test_a_record_comes_back_whole(tmp_path):
    begin(tmp_path, RECORD)
    assert read_record(tmp_path) == RECORD
    fields = json.loads((tmp_path / "study.json").read_text())
    assert fields["fingerprint"] == PLAN.fingerprint
    assert (fields["version"], fields["tolerance_m"], fields["name"]) == (2, 0.01, "small")


def test_a_folder_is_only_continued_under_the_same_plan(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    begin(folder, RECORD)
    again = begin(folder, replace(RECORD, commands=("samepath resume s",), provenance={"host": "there"}))
    assert again.commands == ("samepath study small", "samepath resume s")
    assert again.provenance == {"host": "here"}, "where the study began"
    with pytest.raises(StudyError, match="holds another study"):
        found_record(folder, replace(PLAN, seed=2))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(StudyError, match="not an empty folder"):
        found_record(tmp_path / "full", PLAN)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', '{"version": 1}', ""])
def test_a_damaged_or_foreign_record_is_refused_in_words(tmp_path, text):
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(StoreError, match=r"study\.json"):
        read_record(tmp_path)


def test_a_second_samepath_on_a_folder_is_refused_by_name(tmp_path):
    script = "import sys; from pathlib import Path; from samepath.instrument.execution.folder import locked\n"
    script += "with locked(Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(tmp_path / "s")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"in\n"
        with pytest.raises(StudyError, match=rf"in use by another samepath \(process {first.pid}\)"), locked(tmp_path / "s"):
            pass
        first.kill()
    with locked(tmp_path / "s"):
        assert (tmp_path / "s" / ".lock").read_text() == f"{os.getpid()}\n"
    assert not (tmp_path / "s").exists() or not any((tmp_path / "s").iterdir()), "nothing came of it, nothing is left"


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "s"):
        with pytest.raises(StudyError, match="is not a folder"), locked(folder):
            pass
    with pytest.raises((StudyError, StoreError), match="proc"), locked(tmp_path.__class__("/proc/samepath")):
        pass


def test_a_torn_line_of_the_journal_is_left_out_and_harms_no_other(tmp_path):
    with Journal(tmp_path) as journal:
        journal.add("begun", command="a")
        journal.add("repeat", cell="x", repeat=0)
    text = (tmp_path / JOURNAL_FILE).read_bytes()
    for cut in range(1, len(text.splitlines()[1])):
        (tmp_path / JOURNAL_FILE).write_bytes(text[:-cut])
        with Journal(tmp_path) as journal:
            journal.add("resumed", command="b")
        kinds = [entry["what"] for entry in read_journal(tmp_path)]
        assert kinds in (["begun", "resumed"], ["begun", "repeat", "resumed"])
    assert read_journal(tmp_path / "nowhere") == []


def test_cells_without_figures_say_why(tmp_path):
    cells = (
        cell("control-exact", "good"),
        cell("control-exact", "forbidden"),
        cell("Faulty", "broken", settings={"fault": "error", "at": 1}),
        cell("control-exact", "later"),
    )
    study = plan(*cells)
    run_plan(study, tmp_path, left_out=["forbidden", "later"])
    record = replace(RECORD, plan=study, not_applicable={"forbidden": "no permission"})
    found = [(absent.cell.name, absent.kind, absent.reason) for absent in absent_cells(record, tmp_path)]
    assert found[0] == ("forbidden", "not applicable", "no permission")
    assert found[1][:2] == ("broken", "failed")
    assert found[1][2] == "given up after 3 failures in a row: engine on fire"
    assert found[2][:2] == ("later", "not run")
    assert len(found) == 3
