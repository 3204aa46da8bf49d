"""Simulators that are not installed: refused before a study starts, or left out where the study says so."""

import json

import pytest

from samepath.core.errors import StudyError
from samepath.instrument.execution.folder import NOT_APPLICABLE, StudyRecord, absent_cells, begin
from samepath.instrument.execution.rehearsal import check_plan, not_applicable, rehearse
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import make_plan
from samepath.instrument.study.records import Plan

REASON = "no-such-engine is not installed (no-such-engine was not found): install it, or give its path as the setting program"


def study(**how):
    missing = {
        "simulator": "command",
        "as": "engine",
        "settings": {"program": "no-such-engine", "scenarios": "crossing"},
        **how,
    }
    design = {"simulators": ["control-exact", missing], "scenarios": "crossing", "repeats": 2}
    return make_plan(json.dumps({"name": "engines", "design": design}), "engines")


def test_a_simulator_that_is_not_installed_is_refused_with_what_to_do():
    with pytest.raises(StudyError, match=r"^cell 'engine': no-such-engine is not installed .* install it"):
        check_plan(study())
    check_plan(study(), here=False)  # another host may have it


def test_an_optional_one_is_left_out_and_the_study_goes_on(tmp_path):
    plan = study(optional=True)
    check_plan(plan)
    left_out = not_applicable(plan)
    assert left_out == {"engine": REASON}
    rehearsals = rehearse(plan, [cell for cell in plan.cells if cell.name not in left_out], ())
    record = begin(tmp_path, StudyRecord(plan, "", {}, (), left_out, rehearsals))
    assert run_plan(plan, tmp_path, rehearsals=rehearsals, left_out=tuple(left_out)).failures == ()
    (absent,) = absent_cells(record, tmp_path)
    assert (absent.cell.name, absent.kind, absent.reason) == ("engine", NOT_APPLICABLE, REASON)


def test_whether_something_may_be_left_out_changes_no_study():
    plan, other = study(), study(optional=True)
    assert plan.fingerprint == other.fingerprint
    assert Plan.from_dict(json.loads(json.dumps(other.as_dict()))) == other
    older = json.loads(json.dumps(plan.as_dict()))
    for cell in older["cells"]:
        del cell["optional"]
    assert Plan.from_dict(older) == plan


def test_a_single_cell_may_be_optional_too():
    cell = {"simulator": "command", "scenario": "table1-test2", "settings": {"program": "no-such-engine"}, "optional": True}
    plan = make_plan(json.dumps({"name": "one", "design": {"cells": [cell], "repeats": 2}}), "one")
    assert list(not_applicable(plan)) == [plan.cells[0].name]
