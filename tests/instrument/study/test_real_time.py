"""``--real-time``: the same study with every game loop at real time, and nothing else changed."""

import pytest

from samepath.core.errors import StudyError
from samepath.engines import registry
from samepath.instrument.study.plan import in_real_time, load_plan
from samepath.instrument.study_run import plan_of, preview_study

STUDY = {
    "name": "two",
    "design": {
        "simulators": [
            "samepath",
            {"simulator": "samepath-game-loop", "settings": {"mode": "real-time", "time_scale": 50}},
            "control-exact",
        ],
        "scenarios": "table1-test1",
    },
}


def test_only_the_scale_of_simulators_that_have_one_is_set():
    plan = load_plan("case-study")
    slow = in_real_time(plan, {"samepath-game-loop"})
    assert (slow.name, slow.description) == ("case-study-real-time", f"{plan.description}, in real time")
    assert slow.slots == plan.slots
    assert slow.fingerprint != plan.fingerprint
    for before, after in zip(plan.cells, slow.cells, strict=True):
        assert (before.name, before.folder, before.condition, before.repeats) == (
            after.name,
            after.folder,
            after.condition,
            after.repeats,
        )
        wanted = {**before.settings, "time_scale": 1} if before.simulator == "samepath-game-loop" else before.settings
        assert after.settings == wanted


@pytest.mark.parametrize(
    "name", ["case-study", "engines", "lost-collision", "godot-ladder", "lockstep-cure", "load", "game-loop"]
)
def test_no_loop_of_a_built_in_study_hurries_in_real_time(name):
    scales = set()
    for cell in plan_of(name, real_time=True).cells:
        with registry.create(cell.simulator) as simulator:
            scales.add(simulator.described(cell.settings).time_scale)
    assert scales in ({None, 1.0}, {1.0})


def test_a_scale_that_a_file_asks_for_is_replaced():
    fast, slow = plan_of(STUDY), plan_of(STUDY, real_time=True)
    assert [cell.settings.get("time_scale") for cell in fast.cells] == [None, 50, None]
    assert [cell.settings.get("time_scale") for cell in slow.cells] == [None, 1, None]


def test_a_study_that_varies_the_scale_is_refused():
    with pytest.raises(StudyError, match="varies time_scale itself: leave out --real-time"):
        plan_of("time-scale", real_time=True)


def test_the_preview_is_of_the_slow_study_and_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = {
        "name": "short",
        "design": {**STUDY["design"], "simulators": ["samepath-game-loop"], "duration": "0.2 s", "repeats": 2},
    }
    preview = preview_study(study, real_time=True, progress=False)
    assert str(preview.folder) == "runs/short-real-time"
    assert preview.plan.cells[0].settings["time_scale"] == 1
