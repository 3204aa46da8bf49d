"""Panda3D with Bullet, where it is installed."""

from contextlib import ExitStack

import numpy as np
import pytest

from samepath.core.errors import SimulatorError
from samepath.core.states import VehicleCommand
from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.in_process import read_settings
from samepath.engines.interface import Preset, RunRequest
from samepath.engines.panda3d import Panda3D
from samepath.scenarios.scripts import read_script
from tests.support.frame_clock import FrameClock
from tests.support.shared_runs import share_runs

pytest.importorskip("panda3d", reason="Panda3D is not installed: pip install 'samepath[panda3d]'")
RUNS = {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_panda3d_conforms(check, monkeypatch):
    share_runs(monkeypatch, RUNS, "panda3d")
    check(lambda: Preset(Panda3D(), {}, ["table1-test2"]))


@pytest.fixture
def make():
    """Make worlds, and close them."""
    from samepath.engines.panda3d.engine import PandaWorld

    script, settings = read_script("table1-test2"), read_settings(Panda3D().info().settings, Panda3D.modes)
    with ExitStack() as stack:

        def make_one():
            world = PandaWorld(script, settings)
            stack.callback(world.close)
            return world

        yield make_one


def test_cars_stand_where_the_script_says_and_both_directions_are_ours(make):
    world = make()
    world.step(120)
    for role in read_script("table1-test2").roles:
        state, seen = world.states()[role.number], world.observe(role.number)
        assert (state["x_m"], state["y_m"]) == pytest.approx((role.start.x_m, role.start.y_m), abs=0.01)
        assert (state["z_m"], state["roll_deg"], state["pitch_deg"]) == pytest.approx((0.0, 0.0, 0.0), abs=0.01)
        assert state["yaw_deg"] == pytest.approx(role.start.yaw_deg, abs=0.01)
        assert (seen.x_m, seen.y_m, seen.yaw_deg) == pytest.approx((state["x_m"], state["y_m"], state["yaw_deg"]), abs=0.01)


def test_steering_to_the_right_turns_to_the_right(make):
    world = make()
    before = world.observe(1).yaw_deg
    world.command(1, VehicleCommand(throttle=0.5, steer=0.3))
    world.step(240)
    assert world.observe(1).yaw_deg > before + 5


def test_transforms_do_not_pile_up(make):
    from panda3d.core import TransformState

    world = make()
    world.step(6)
    before = TransformState.getNumStates()
    for _ in range(50):
        world.step(6)
    assert TransformState.getNumStates() <= before + 50


def test_the_log_does_not_depend_on_how_frames_cut_the_steps(make):
    """A node's transform would: Panda3D moves it on by the time that is left over."""

    def log(frames_s):
        world, found = make(), []
        world.step(60)
        world.command(1, VehicleCommand(throttle=1.0, steer=0.1))
        for frame_s in frames_s:
            world.advance(frame_s, lambda: found.append(world.states()[1]))
        return found

    short, long = log([0.01] * 120), log([0.031, 0.017] * 25)
    assert len(short) > 100
    assert short[:100] == long[:100]


def test_what_goes_wrong_in_a_callback_is_raised_and_not_printed(capfd):
    def stop(tick):
        if tick == 5:
            raise SimulatorError("stop here")

    simulator = Panda3D({"mode": "game-loop"}, FrameClock())
    with pytest.raises(SimulatorError, match="stop here"):
        run_request(simulator, RunRequest("table1-test2", 0, duration_s=2.0), stop)
    assert capfd.readouterr().err == ""


def test_synchronous_steps_are_those_of_the_usual_call(make):
    """doPhysics(step, 0) steps as doPhysics(step, 1, step) does, to the bit."""
    usual, ours, found = make(), make(), []
    for world in (usual, ours):
        world.command(1, VehicleCommand(throttle=1.0, steer=0.1))
    ours.step(240)
    for _ in range(240):
        usual.advance(1 / 120, lambda: found.append(usual.states()[1]))
    assert len(found) == 240
    assert found[-1] == ours.states()[1]


def test_the_cars_collide_as_bullet_tells_and_momentum_is_passed_on():
    repeat = run_once(Panda3D(), "table1-test2")
    (hit,) = [event for event in repeat.events if event.kind == "collision"]
    assert (hit.actor, hit.other) == (1, 2)
    columns = [repeat.channels.index(name) for name in ("vx_mps", "vy_mps")]
    speeds = {
        tick: repeat.values[(repeat.actor == 1) & (repeat.tick == tick)][0, columns] for tick in (hit.tick - 1, hit.tick + 1)
    }
    change = 1600.0 * (speeds[hit.tick + 1] - speeds[hit.tick - 1])
    assert np.dot(change, hit.impulse_ns[:2]) > 0.8 * np.linalg.norm(change) * np.linalg.norm(hit.impulse_ns[:2])


@pytest.mark.parametrize("mode", ["game-loop", "variable-step"])
def test_a_game_loop_is_as_repeatable_as_its_clock(mode):
    def digest(*late_s):
        simulator = Panda3D({"mode": mode}, FrameClock(*late_s))
        return run_request(simulator, RunRequest("table1-test2", 0, duration_s=3.0)).digest

    assert digest(0.0, 0.004) == digest(0.0, 0.004)
    assert digest(0.0, 0.004) != digest(0.0, 0.0041)
