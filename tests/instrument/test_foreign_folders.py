"""A study is code, its folder is data: what is read from a folder of somebody else's is never run."""

import json
import sys

import pytest

from samepath.core.errors import StoreError
from samepath.instrument.evaluation import analyse, check, load, store
from samepath.instrument.execution.folder import StudyRecord, begin, read_record
from samepath.instrument.execution.rehearsal import Rehearsal
from tests.support.plans import cell, plan

EVIL = "samepath_evil_module"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A finished study with a cell of each kind that runs code of the study's choice, and with a cell that is missing."""
    mark = tmp_path / "was-run"
    (tmp_path / f"{EVIL}.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\nEvil.name = 'evil'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    evil = {
        "adapter": (f"{EVIL}:Evil", {}),
        "command": ("command", {"program": str(program), "arguments": f"; touch {mark}"}),
        "gymnasium": ("gymnasium", {"environment": f"{EVIL}:Evil", "module": EVIL}),
        "not-run": (f"{EVIL}:Evil", {}),
    }
    cells = [cell(simulator, name, repeats=2, settings=settings) for name, (simulator, settings) in evil.items()]
    study = tmp_path / "study"
    rows = "".join(f"{name},{r},{t},{t + r / 8},0\n" for name in list(evil)[:-1] for r in range(2) for t in range(3))
    log = tmp_path / "log.csv"
    log.write_text("cell,repeat,tick,x,y\n" + rows)
    study.mkdir()
    rehearsals = tuple(Rehearsal(simulator, "s", settings, 0.1, 0.05, 600, 1000, 500) for simulator, settings in evil.values())
    words = f"samepath study evil; touch {mark}"
    begin(study, StudyRecord(plan(*cells), words, {"host": f"$(touch {mark})"}, (words,), {}, rehearsals))
    store(load(log), tmp_path / "traces")
    (tmp_path / "traces" / "cells").rename(study / "cells")
    return study


def test_reading_judging_and_reporting_a_folder_runs_nothing_that_it_names(folder, tmp_path):
    assert [len(trace.runs) for trace in load(folder)] == [2, 2, 2]
    report = analyse(folder, progress=False)
    page = report.write(tmp_path)
    assert not check(folder, tolerance="1 cm", progress=False).passes
    assert page.exists()
    assert "not-run" in report.to_json()
    assert not (tmp_path / "was-run").exists()
    assert EVIL not in sys.modules


@pytest.mark.parametrize("place", ["../elsewhere", "/etc", "a/b", "..", ".", ""])
def test_a_cell_lies_in_its_studys_folder_and_nowhere_else(folder, place):
    path = folder / "study.json"
    fields = json.loads(path.read_text())
    fields["plan"]["cells"][0]["folder"] = place
    path.write_text(json.dumps(fields))
    with pytest.raises(StoreError, match=r"study\.json is damaged \(a cell in folder") as caught:
        read_record(folder)
    assert "\n" not in str(caught.value)
