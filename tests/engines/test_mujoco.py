"""MuJoCo, where it is installed."""

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo is not installed: pip install 'samepath[mujoco]'")

from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.interface import Preset, RunRequest
from samepath.engines.mujoco import MuJoCo
from samepath.engines.mujoco.engine import mjcf_of
from samepath.scenarios.scripts import read_script
from tests.support.frame_clock import FrameClock
from tests.support.shared_runs import share_runs

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed: pip install 'samepath[mujoco]'")
RUNS = {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_mujoco_conforms(check, monkeypatch):
    share_runs(monkeypatch, RUNS, "mujoco")
    check(lambda: Preset(MuJoCo(), {}, ["table1-test2"]))


def test_a_car_weighs_what_the_script_says():
    script = read_script("table1-test2")
    model = mujoco.MjModel.from_xml_string(mjcf_of(script, 0.005))
    for role in script.roles:
        assert model.body_subtreemass[model.body(f"car{role.number}").id] == pytest.approx(role.body.mass_kg)


def test_cars_stand_level_where_the_script_says():
    repeat = run_request(MuJoCo(), RunRequest("table1-test2", 0, duration_s=0.05))
    index = [repeat.channels.index(name) for name in ("x_m", "y_m", "z_m", "roll_deg", "pitch_deg", "yaw_deg")]
    role = read_script("table1-test2").roles[0]
    wanted = (role.start.x_m, role.start.y_m, 0.0, 0.0, 0.0, role.start.yaw_deg)
    assert repeat.values[repeat.actor == 1][0, index] == pytest.approx(wanted, abs=0.01)


def test_the_cars_collide_and_the_first_is_held_back():
    repeat = run_once(MuJoCo(), "table1-test2")
    (hit,) = [event for event in repeat.events if event.kind == "collision"]
    assert (hit.actor, hit.other) == (1, 2)
    columns = [repeat.channels.index(name) for name in ("vx_mps", "vy_mps")]
    before, after = (
        repeat.values[(repeat.actor == 1) & (repeat.tick == tick)][0, columns] for tick in (hit.tick - 1, hit.tick + 1)
    )
    change = after - before
    assert np.dot(change, hit.impulse_ns[:2]) > 0.8 * np.linalg.norm(change) * np.linalg.norm(hit.impulse_ns[:2])


def test_brakes_stop_a_car_at_its_last_waypoint():
    repeat = run_once(MuJoCo(), "table1-test1")
    assert repeat.end.reason == "every actor reached its last waypoint"
    last = repeat.values[repeat.tick == repeat.end.tick]
    assert last[:, :2] == pytest.approx(np.array([[8.6, 4.33], [-6.78, -1.83]]), abs=0.7)


def test_a_game_loop_is_as_repeatable_as_its_clock():
    def digest(*late_s):
        simulator = MuJoCo({"mode": "game-loop"}, FrameClock(*late_s))
        return run_request(simulator, RunRequest("table1-test2", 0, duration_s=3.0)).digest

    assert digest(0.0, 0.004) == digest(0.0, 0.004)
    assert digest(0.0, 0.004) != digest(0.0, 0.0043)
