"""A study file becomes a plan: every simulator on every scenario under every combination, spelled out cell by cell."""

import json

import pytest

from samepath.core.errors import SamepathError
from samepath.core.verdicts import Verdict
from samepath.instrument.conditions.process import AT_START
from samepath.instrument.study.levels import START_CONDITIONS
from samepath.instrument.study.plan import load_plan, make_plan
from samepath.instrument.study.records import Combination, Execution, Factor, Isolation, Judging, Order, Plan

WHOLE = """
name: mine
description: what is asked
design:
  simulators:
    - samepath
    - simulator: samepath-game-loop
      as: game loop
      settings: {mode: real-time}
      repeats: 50
      expect: within-tolerance
  scenarios: [table1-test1, table1-test2]
  tolerance: 5 mm
  repeats: 20
  duration: 20 s
  log_every: 2
  seed: 3
settings:
  substeps: [1, 4]
conditions:
  cpu_load: [0, 50%, 75%]
  nice: 5
execution:
  isolation: batch
  repeats_per_process: 10
  processes: 2
  watchdog: 90 s
  order: split-plot
  blocks: 2
  settle: 2 s
  load_tool: samepath
analysis:
  criterion: sigma
  split_at: t=6s
  structure: report
  restrict: [cpu_load<=75%, phase=before]
  confidence: 99%
full:
  design: {repeats: 1000}
  conditions: {cpu_load: [0, 95%]}
"""
SMALL = "name: small\ndesign: {simulators: samepath, scenarios: table1-test1, repeats: 4}\n"


def names(text, **options):
    return [cell.name for cell in make_plan(text, "mine.yaml", **options).cells]


def test_every_simulator_meets_every_scenario_under_every_combination_of_levels():
    plan = make_plan(WHOLE, "mine.yaml")
    assert len(plan.cells) == 2 * 2 * 2 * 3
    found = {(c.variant, c.scenario, c.settings["substeps"], c.condition["cpu_load"]) for c in plan.cells}
    assert len(found) == 24
    assert all(cell.condition["nice"] == 5 for cell in plan.cells), "a single value is held"
    assert plan.factors == (Factor("substeps", "setting", (1, 4)), Factor("cpu_load", "condition", (0.0, 0.5, 0.75)))
    game = [cell for cell in plan.cells if cell.variant == "game loop"]
    assert all(cell.simulator == "samepath-game-loop" and cell.settings["mode"] == "real-time" for cell in game)
    assert {cell.repeats for cell in game} == {50}
    assert {cell.expect for cell in game} == {Verdict.WITHIN_TOLERANCE}
    assert {cell.repeats for cell in plan.cells if cell.variant == "samepath"} == {20}
    assert plan.repeats == 12 * 20 + 12 * 50


def test_every_key_of_a_file_arrives():
    plan = make_plan(WHOLE, "mine.yaml")
    assert (plan.name, plan.description, plan.seed, plan.log_every) == ("mine", "what is asked", 3, 2)
    assert (plan.tolerance_m, plan.duration_s, plan.combination) == (0.005, 20.0, Combination.FULL)
    assert plan.execution == Execution(Isolation.BATCH, 10, 2, 90.0, Order.SPLIT_PLOT, 2, 2.0, "samepath")
    assert plan.judging == Judging("sigma", "t=6s", "report", ("cpu_load<=75%", "phase=before"), 0.99)


def test_what_a_file_does_not_say_has_the_documented_default():
    plan = make_plan("name: x\ndesign: {simulators: a, scenarios: b}", "x")
    assert (plan.tolerance_m, plan.seed, plan.log_every, plan.duration_s, plan.repeats) == (0.01, 0, 1, None, 100)
    assert (plan.execution, plan.judging, plan.notes) == (Execution(), Judging(), ())


def test_a_plan_goes_through_json_unchanged():
    for text in (WHOLE, SMALL + "conditions: {aslr: [on, off], cores: [all, 0-1], hash_seed: [0, random]}"):
        plan = make_plan(text, "mine.yaml")
        assert Plan.from_dict(json.loads(json.dumps(plan.as_dict(), allow_nan=False))) == plan


def test_full_replaces_what_it_names_and_nothing_else():
    small, full = make_plan(WHOLE, "mine.yaml"), make_plan(WHOLE, "mine.yaml", full=True)
    assert {cell.condition["cpu_load"] for cell in full.cells} == {0.0, 0.95}
    assert {cell.repeats for cell in full.cells} == {1000, 50}, "what a simulator says for itself is its own"
    assert {cell.settings["substeps"] for cell in full.cells} == {1, 4}
    assert (full.execution, full.judging, full.seed) == (small.execution, small.judging, small.seed)
    with pytest.raises(SamepathError, match="no key 'full'"):
        make_plan(SMALL, "mine.yaml", full=True)


def test_a_stage_whose_lines_are_all_comments_is_an_empty_one():
    text = f"{SMALL}settings:\nconditions:\nexecution:\nanalysis:\nfull:\n"
    assert make_plan(text, "x") == make_plan(SMALL, "x")
    assert make_plan(f"{SMALL}full:\n  design:\n", "x", full=True) == make_plan(SMALL, "x")


def test_names_say_what_differs():
    assert names(SMALL) == ["samepath, table1-test1"]
    assert names(f"{SMALL}conditions: {{cpu_load: [0, 75%]}}") == ["cpu_load 0 %", "cpu_load 75 %"]
    assert "game loop, table1-test2, substeps 4, cpu_load 75 %" in names(WHOLE)
    levels = "conditions: {nice: [-20, 0], aslr: [on, off], controller: [in-loop, replayed]}"
    assert names(SMALL + levels)[1] == "nice -20, aslr on, controller replayed"
    assert names(f"{SMALL}settings: {{step_s: [0.05, 0.025]}}") == ["step_s 0.05", "step_s 0.025"]


def test_folders_are_told_apart_even_where_names_look_alike():
    cells = ["a b", "a-b", "A b", "日本", "中国", "x" * 99, "..", "a/b"]
    listed = [{"simulator": "s", "scenario": "c", "name": name, "repeats": 2} for name in cells]
    plan = make_plan(json.dumps({"name": "x", "design": {"cells": listed}}), "x")
    assert [cell.name for cell in plan.cells] == cells
    folders = [cell.folder for cell in plan.cells]
    assert folders == ["a-b", "a-b-2", "A-b-3", "cell", "cell-2", "x" * 99, "cell-3", "a-b-4"]
    assert len({folder.lower() for folder in folders}) == len(cells)


def test_a_folder_of_a_very_long_name_fits_into_any_file_system():
    path = "/".join(["scenarios"] * 60) + ".yaml"
    other = path.replace("scenarios/scenarios.yaml", "scenarios/scenarioz.yaml")
    plan = make_plan(json.dumps({"name": "x", "design": {"simulators": "s", "scenarios": [path, other]}}), "x")
    assert len({cell.folder for cell in plan.cells}) == 2
    assert all(len(cell.folder) < 150 for cell in plan.cells)


def test_a_simulators_own_levels_come_before_the_stages():
    text = """
name: x
design:
  simulators:
    - {simulator: a, conditions: {cpu_load: [0, 95%]}}
    - {simulator: b, conditions: {cpu_load: 50%}, settings: {mode: [fast, slow]}}
    - c
  scenarios: s
settings: {mode: idle}
conditions: {cpu_load: [0, 50%, 95%]}
"""
    plan = make_plan(text, "x")
    levels = {}
    for cell in plan.cells:
        levels.setdefault(cell.simulator, []).append((cell.settings["mode"], cell.condition["cpu_load"]))
    assert levels == {
        "a": [("idle", 0.0), ("idle", 0.95)],
        "b": [("fast", 0.5), ("slow", 0.5)],
        "c": [("idle", 0.0), ("idle", 0.5), ("idle", 0.95)],
    }
    assert Factor("cpu_load", "condition", (0.0, 0.5, 0.95)) in plan.factors


def test_a_single_cell_is_crossed_with_the_factors_it_does_not_fix_itself():
    text = """
name: x
design:
  cells:
    - {simulator: a, scenario: s, name: fixed, condition: {cpu_load: 95%}, settings: {mode: slow}}
    - {simulator: b, scenario: s}
settings: {mode: fast}
conditions: {cpu_load: [0, 50%], nice: [0, 5]}
"""
    plan = make_plan(text, "x")
    assert [cell.name for cell in plan.cells] == [
        "fixed, nice 0",
        "fixed, nice 5",
        "b, s, cpu_load 0 %, nice 0",
        "b, s, cpu_load 0 %, nice 5",
        "b, s, cpu_load 50 %, nice 0",
        "b, s, cpu_load 50 %, nice 5",
    ]
    assert plan.cells[0].condition == {"cpu_load": 0.95, "nice": 0}
    assert plan.cells[0].settings == {"mode": "slow"}


def test_cells_that_use_one_simulator_in_different_ways_are_variants_of_it():
    text = """
name: x
design:
  cells:
    - {simulator: a, scenario: s, name: one, settings: {k: 1}}
    - {simulator: a, scenario: s, name: two, settings: {k: 2}}
    - {simulator: a, scenario: s, name: three, as: third way, settings: {k: 3}}
    - {simulator: b, scenario: s, name: four}
    - {simulator: b, scenario: t, name: five}
"""
    assert [cell.variant for cell in make_plan(text, "x").cells] == ["one", "two", "third way", "b", "b"]


def test_fewer_repeats_than_stated_lose_the_power_to_expect_anything():
    assert {cell.expect for cell in make_plan(WHOLE, "x", repeats=30).cells} == {None}
    more = make_plan(WHOLE, "x", repeats=60)
    assert {cell.repeats for cell in more.cells} == {60}
    assert Verdict.WITHIN_TOLERANCE in {cell.expect for cell in more.cells}
    with pytest.raises(SamepathError, match="one run cannot be compared"):
        make_plan(WHOLE, "x", repeats=1)


def test_the_fingerprint_covers_what_is_held_but_lets_a_study_grow():
    plan = make_plan(WHOLE, "x")
    same = [("repeats: 20", "repeats: 40"), ("order: split-plot", "order: listed"), ("blocks: 2", "blocks: 1")]
    same += [("criterion: sigma", "criterion: deviation"), ("tolerance: 5 mm", "tolerance: 1 cm")]
    other = [("seed: 3", "seed: 4"), ("nice: 5", "nice: 6"), ("substeps: [1, 4]", "substeps: [1, 5]"), ("log_every: 2", "")]
    other += [("duration: 20 s", ""), ("per_process: 10", "per_process: 5"), ("mode: real-time", "mode: variable")]
    for old, new in same:
        assert make_plan(WHOLE.replace(old, new), "y").fingerprint == plan.fingerprint, new
    for old, new in other:
        assert make_plan(WHOLE.replace(old, new), "x").fingerprint != plan.fingerprint, old


def test_a_condition_that_needs_a_new_interpreter_gets_one_and_the_plan_says_so():
    assert set(START_CONDITIONS) == set(AT_START), "study and conditions agree on what needs a new interpreter"
    assert make_plan(SMALL, "x").execution.isolation is Isolation.PROCESS
    assert make_plan(f"{SMALL}conditions: {{nice: 5}}", "x").execution.isolation is Isolation.PROCESS
    assert make_plan(f"{SMALL}conditions: {{hash_seed: 0}}", "x").execution.isolation is Isolation.COLD
    varied = make_plan(f"{SMALL}conditions: {{isolation: [process, cold]}}", "x")
    assert [varied.isolation_of(cell) for cell in varied.cells] == [Isolation.PROCESS, Isolation.COLD]


def test_studies_are_found_by_name_and_by_path(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(SMALL)
    assert load_plan(str(path), 7).repeats == 7
    with pytest.raises(SamepathError, match="did you mean 'controls'"):
        load_plan("control")
    for name in (tmp_path / "none.yaml", tmp_path, f"{'x' * 5000}.yaml", "a\0b.yaml"):
        with pytest.raises(SamepathError, match="cannot be read"):
            load_plan(str(name))
    path.write_bytes(b"name: \xff\xfe")
    with pytest.raises(SamepathError, match="cannot be read"):
        load_plan(str(path))
