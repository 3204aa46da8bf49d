"""The studies that come with samepath: each can be run, in both sizes, and asks what it says."""

import itertools

import pytest

from samepath.core.verdicts import Verdict
from samepath.engines.registry import BUILT_IN
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.study.plan import built_in_studies, load_plan
from samepath.instrument.study.records import Combination, Isolation, Order

SIZES = [
    (name, full) for name, text in built_in_studies().items() for full in ([False, True] if "\nfull:" in text else [False])
]


@pytest.mark.parametrize(("name", "full"), SIZES)
def test_every_built_in_study_can_be_run_in_every_size(name, full):
    plan = load_plan(name, full=full)
    check_plan(plan, here=False)  # other people's engines need not be installed
    assert plan.name == name
    assert plan.description
    if full:
        assert max(cell.repeats for cell in plan.cells) == 1000


def levels(plan, name):
    return list(dict.fromkeys(cell.condition[name] for cell in plan.cells))


def test_the_case_study_is_the_papers():
    plan = load_plan("case-study")
    assert {cell.scenario for cell in plan.cells} == {f"table1-test{number}" for number in range(1, 7)}
    assert levels(plan, "cpu_load") == [0.0, 0.5, 0.75, 0.95]
    assert levels(load_plan("case-study", full=True), "cpu_load") == [0.0, 0.25, 0.5, 0.75, 0.95]
    assert len(plan.cells) == 6 * 2 * 4
    assert {(cell.variant, cell.expect) for cell in plan.cells} == {("lockstep", Verdict.BIT_IDENTICAL), ("game loop", None)}
    assert plan.judging.restrict == ("cpu_load<=0.75", "phase=before")
    assert plan.execution.order is Order.SPLIT_PLOT
    loads = [plan.cells[slot.cell].condition["cpu_load"] for slot in plan.slots]
    assert sum(a != b for a, b in itertools.pairwise(loads)) == 3, "each load is set once"
    assert plan.tolerance_m == 0.01


def test_what_a_study_says_of_fresh_processes_is_what_it_runs():
    said = [name for name, text in built_in_studies().items() if "fresh process" in text]
    assert "table1" in said
    for name in said:
        plan = load_plan(name)
        assert {plan.isolation_of(cell) for cell in plan.cells} <= {Isolation.PROCESS, Isolation.COLD}, name


def test_the_time_scale_study_hurries_the_loop_of_the_case_study_and_changes_nothing_else():
    plan = load_plan("time-scale")
    assert [factor.levels for factor in plan.factors if factor.name == "time_scale"] == [(1, 2, 5, 10, 20)]
    assert levels(plan, "cpu_load") == [0.0, 0.75]
    case = next(cell for cell in load_plan("case-study").cells if cell.variant == "game loop")
    for cell in plan.cells:
        assert (cell.simulator, cell.variant) == (case.simulator, case.variant)
        assert {name: value for name, value in cell.settings.items() if name != "time_scale"} == case.settings


def test_the_studies_vary_what_they_are_named_after():
    assert levels(load_plan("nice"), "nice") == [0, -20, 19]
    assert levels(load_plan("isolation"), "isolation") == ["process", "batch", "cold"]
    assert levels(load_plan("controller"), "controller") == ["in-loop", "replayed"]
    assert {cell.scenario for cell in load_plan("look-ahead").cells} == {"draft-test6", "draft-test7", "draft-test8"}
    assert {cell.scenario for cell in load_plan("roundabout").cells} == {f"draft-test{number}" for number in range(1, 6)}
    assert {cell.scenario for cell in load_plan("far-from-origin").cells} == {f"far-{km}km" for km in (0, 1, 10, 100)}
    types = {"car", "truck", "bus", "bicycle", "motorcycle", "walker"}
    assert {cell.scenario for cell in load_plan("actor-types").cells} == {f"meet-{kind}" for kind in types}
    pinning = load_plan("pinning")
    assert {(cell.condition["cores"], cell.condition["numa"]) for cell in pinning.cells} == {
        ("all", "default"),
        ("one", "default"),
        ("all", "local"),
        ("all", "interleave"),
    }
    environment = load_plan("environment")
    assert {factor.name for factor in environment.factors} == {"hash_seed", "aslr", "threads", "scheduler"}
    assert environment.execution.isolation is Isolation.COLD


def test_sensors_ride_along_or_do_not_in_lockstep_and_in_a_game_loop():
    plan = load_plan("sensors")
    assert {factor.name for factor in plan.factors} == {"sensors", "cpu_load"}
    assert {cell.settings["sensors"] for cell in plan.cells} == {"none", "small"}
    assert {cell.settings["sensor_samples"] for cell in plan.cells} == {1}, "the first frame that differs is kept"
    assert {(cell.variant, cell.expect) for cell in plan.cells} == {("lockstep", Verdict.BIT_IDENTICAL), ("game loop", None)}
    assert levels(plan, "cpu_load") == [0.0, 0.95]


def test_the_settings_are_screened_in_a_quarter_of_all_combinations_and_the_plan_says_what_that_costs():
    plan = load_plan("settings")
    assert plan.combination is Combination.FRACTIONAL
    assert {factor.kind for factor in plan.factors} == {"setting"}
    assert (len(plan.factors), len(plan.cells)) == (6, 16)
    assert plan.notes[:2] == (
        "fractional-factorial: 16 of 64 combinations are run",
        "effects of one factor are clear of those of two",
    )


def test_the_source_that_needs_a_new_interpreter_has_one():
    plan = load_plan("sources")
    cold = [cell.name for cell in plan.cells if plan.isolation_of(cell) is Isolation.COLD]
    assert cold == ["hash-order"]
    assert {cell.variant for cell in plan.cells} == {cell.name for cell in plan.cells}


def test_the_ladder_moves_godots_controllers_and_nothing_else():
    plan = load_plan("godot-ladder")
    assert {cell.simulator for cell in plan.cells} == {"godot"}
    assert levels(plan, "cpu_load") == [0.0, 0.75, 0.95]
    rungs = {cell.variant: (cell.settings.get("mode"), cell.settings.get("controller"), cell.expect) for cell in plan.cells}
    assert rungs == {
        "external process": ("game-loop", "external", None),
        "frame callback": ("game-loop", "frame", None),
        "physics callback": ("game-loop", "physics", None),
        "synchronous": (None, None, Verdict.BIT_IDENTICAL),
    }


def test_the_cure_compares_babylons_defaults_with_its_lockstep_and_nothing_else():
    plan = load_plan("lockstep-cure")
    assert {cell.simulator for cell in plan.cells} == {"babylon"}
    assert levels(plan, "cpu_load") == [0.0, 0.75, 0.95]
    assert {cell.settings.get("time_scale") for cell in plan.cells if cell.expect is None} == {4}
    ways = {cell.variant: (cell.settings.get("mode"), cell.settings.get("controller"), cell.expect) for cell in plan.cells}
    assert ways == {
        "engine defaults": ("defaults", None, None),
        "lockstep, frame callback": ("lockstep", "frame", None),
        "lockstep, step callback": ("lockstep", "physics", None),
        "synchronous": (None, None, Verdict.BIT_IDENTICAL),
    }


def test_every_engine_is_in_the_study_of_engines_and_may_be_missing():
    plan = load_plan("engines")
    assert levels(plan, "cpu_load") == [0.0, 0.75, 0.95]
    engines = (
        set(BUILT_IN) - {"carla", "airsim", "beamng", "command"} - {name for name in BUILT_IN if name.startswith("control-")}
    )
    assert {cell.simulator for cell in plan.cells} == engines, "all that can be started from here"
    assert all(cell.optional or cell.simulator.startswith("samepath") for cell in plan.cells)
    assert all(cell.variant.startswith(cell.simulator) for cell in plan.cells), "so that a variant says whose it is"
    elsewhere = {cell.variant: cell.scenario for cell in plan.cells if cell.scenario != "table1-test2"}
    assert set(elsewhere.values()) == {"sumo-grid", "two-car-race"}
    modes = {(cell.simulator, cell.settings.get("mode", "")) for cell in plan.cells}
    assert {("godot", "game-loop"), ("panda3d", "variable-step"), ("mujoco", "game-loop"), ("babylon", "defaults")} <= modes
    assert {cell.repeats for cell in load_plan("engines", full=True).cells} == {1000}


def test_variants_that_should_be_compared_differ_in_one_setting():
    """Mode alone, where an engine takes the other settings in both; then the report names it alone."""
    settings = {cell.variant: cell.settings for cell in load_plan("engines").cells}
    for setting, other, name in (
        ("godot frame callback", "godot physics callback", "controller"),
        ("panda3d game loop", "panda3d synchronous", "mode"),
        ("mujoco game loop", "mujoco synchronous", "mode"),
        ("pymunk 2 threads", "pymunk 1 thread", "threads"),
        ("babylon defaults", "babylon lockstep", "mode"),
        ("sumo game loop", "sumo synchronous", "mode"),
        ("sumo traffic random", "sumo traffic", "random"),
    ):
        assert {key for key, _ in settings[setting].items() ^ settings[other].items()} == {name}


def test_gpu_load_raises_both_together_as_the_paper_did_and_each_alone():
    plan = load_plan("gpu-load")
    levels_of = {}
    for cell in plan.cells:
        loads = cell.condition.get("cpu_load", 0.0), cell.condition.get("gpu_load", 0.0)
        levels_of.setdefault(cell.variant, []).append(loads)
    five = [0.0, 0.25, 0.5, 0.75, 0.95]
    assert levels_of["cuda, both raised"] == [(level, level) for level in five]
    assert levels_of["cuda, GPU alone"] == [(0.0, level) for level in five]
    assert levels_of["cuda, CPU alone"] == [(level, 0.0) for level in five]
    assert {cell.repeats for cell in plan.cells if cell.variant == "cuda, both raised"} == {50}
    needs_a_card = {cell.variant for cell in plan.cells if cell.optional}
    assert {cell.variant for cell in plan.cells} - needs_a_card == {"software, CPU alone", "lockstep software"}
    exact = {cell.variant for cell in plan.cells if cell.expect is Verdict.BIT_IDENTICAL}
    assert exact == {"lockstep cuda", "lockstep software"}, "opengl promises no bytes"


def test_perception_is_exact_a_hundred_times_in_lockstep_and_shared_out_in_a_game_loop():
    plan = load_plan("perception")
    assert {cell.settings["ego"] for cell in plan.cells} == {"camera"}
    assert {(cell.repeats, cell.expect) for cell in plan.cells if cell.variant == "lockstep"} == {(100, Verdict.BIT_IDENTICAL)}
    loop = [cell for cell in plan.cells if cell.variant == "game loop"]
    assert {cell.condition["controller"] for cell in loop} == {"in-loop", "sees-replayed", "ego-replayed"}
