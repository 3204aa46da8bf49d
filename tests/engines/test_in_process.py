"""Playing a script in an engine: the loops, on a world whose motion is known; what is refused; fresh processes."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import VehicleCommand
from samepath.core.streams import stream
from samepath.engines import in_process
from samepath.engines.conformance import run_once, run_request
from samepath.engines.in_process import (
    FirstContacts,
    InProcessContact,
    InProcessSimulator,
    InProcessWorld,
    StepAccumulator,
    angle_columns_deg,
    angles_deg,
    read_settings,
)
from samepath.engines.interface import DURATION, RunRequest
from samepath.engines.mujoco import MuJoCo
from samepath.engines.panda3d import Panda3D
from samepath.engines.pymunk import Pymunk
from samepath.engines.resampling import RESAMPLING
from samepath.scenarios.scripts import PlanarState, VehicleController, read_script
from tests.support.frame_clock import FrameClock

SPEED_MPS = 8.0


class StraightWorld(InProcessWorld):
    """Everybody drives along x at one speed, whatever the drivers say; at ``touch_s`` the first two touch."""

    def __init__(self, script, settings, touch_s):
        self.numbers = [role.number for role in script.roles]
        self.step_s, self.backlog = settings.step_s, StepAccumulator(settings.step_s, settings.max_steps)
        self.time_s, self.asked, self.touch_s = 0.0, 0, touch_s
        self.steps, self.told = 0, []

    def observe(self, number):
        self.asked += 1
        return PlanarState(SPEED_MPS * self.time_s, float(number), 0.0, SPEED_MPS, 0.0)

    def command(self, number, command):
        self.told.append((self.time_s, number, command))

    def states(self):
        still = dict.fromkeys((*POSITION, *ROTATION, *VELOCITY), 0.0)
        return {n: {**still, "x_m": SPEED_MPS * self.time_s, "y_m": float(n), "vx_mps": SPEED_MPS} for n in self.numbers}

    def step(self, count):
        self.steps += count
        self.time_s += count * self.step_s

    def advance(self, frame_s, on_step):
        for _ in range(self.backlog.due(frame_s)):
            self.step(1)
            on_step()

    def step_variable(self, frame_s):
        self.time_s += frame_s

    def contacts(self):
        if self.time_s - SETTLED_S < self.touch_s:
            return []
        self.touch_s = math.inf
        return [InProcessContact(1, 2, (3.0, 0.0, 0.0))]


SETTLED_S = 1.0


class Straight(InProcessSimulator):
    """An adapter of the world above; numpy stands for the engine's package."""

    name, summary, package, oldest = "straight", "drives on", "numpy", (1,)
    modes = ("synchronous", "game-loop", "variable-step")
    touch_s = 0.52

    def world(self, script, settings, values):
        self.made = StraightWorld(script, settings, self.touch_s)
        return self.made


def play(mode, clock=None, duration_s=2.0, **settings):
    simulator = Straight({"mode": mode, **settings}, clock or FrameClock())
    return simulator, run_request(simulator, RunRequest("table1-test2", 0, duration_s=duration_s))


def test_in_step_every_tick_asks_each_driver_once_and_has_so_many_steps():
    simulator, repeat = play("synchronous", substeps=5)
    assert simulator.made.asked == 2 * 40
    assert simulator.made.steps == 5 * (20 + 40)  # a second to settle, then two seconds
    assert (repeat.end.tick, repeat.end.reason) == (40, DURATION)
    assert repeat.tick.tolist() == [tick for tick in range(1, 41) for _ in range(2)]


def test_a_game_loop_asks_drivers_once_a_frame_and_logs_steps_of_the_engine():
    simulator, repeat = play("game-loop", FrameClock(0.0, 0.003, 0.011))
    frames = simulator.made.asked / 2
    assert frames == pytest.approx(2.0 / (1 / 60 + 0.014 / 3), rel=0.02)
    x_m = repeat.values[repeat.actor == 1][:, 0]
    assert np.diff(x_m) == pytest.approx(0.05 * SPEED_MPS, rel=1e-9)


def test_time_that_an_engine_drops_is_not_in_its_trace():
    """A stall of a second is 10 steps for the engine: the trace runs on the engine's clock and has no jump."""
    _, repeat = play("game-loop", FrameClock(*[0.0] * 30, 1.0))
    x_m = repeat.values[repeat.actor == 1][:, 0]
    assert np.diff(x_m) == pytest.approx(0.05 * SPEED_MPS, rel=1e-9)


def test_a_variable_step_is_resampled_with_a_bound_and_a_note():
    simulator, repeat = play("variable-step", FrameClock(0.0, 0.02, 0.001))
    bound = repeat.channels.index(RESAMPLING)
    assert not simulator.described({"mode": "variable-step"}).capabilities.lossless
    x_m = repeat.values[repeat.actor == 1][:, 0] - SETTLED_S * SPEED_MPS
    # On steady motion a line between frames is exact, and the bound says so.
    assert x_m == pytest.approx(SPEED_MPS * 0.05 * np.arange(1, 41), abs=1e-9)
    assert repeat.values[:, bound].max() < 1e-9
    notes = [event.detail for event in repeat.events if event.kind == "note"]
    assert len(notes) == 1
    assert "linear between neighbours" in notes[0]


def test_a_resampled_tick_has_the_commands_that_led_to_it(monkeypatch):
    def decide(controller, seen, time_s):
        return VehicleCommand(throttle=time_s % 1.0)

    monkeypatch.setattr(VehicleController, "decide", decide)
    simulator, repeat = play("variable-step", FrameClock(0.0, 0.02, 0.001))
    found = repeat.values[repeat.actor == 1][:, repeat.channels.index("throttle_ratio")]
    given = [(time_s - SETTLED_S, command.throttle) for time_s, number, command in simulator.made.told if number == 1]
    wanted = [[throttle for time_s, throttle in given if time_s < tick * 0.05 - 1e-9][-1] for tick in range(1, 41)]
    assert len(set(wanted)) > 20
    assert found.tolist() == wanted


@pytest.mark.parametrize("mode", ["synchronous", "game-loop", "variable-step"])
def test_a_touch_is_of_the_tick_at_or_after_it(mode):
    _, repeat = play(mode)
    assert [(e.tick, e.actor, e.other, e.impulse_ns) for e in repeat.events if e.kind == "collision"] == [
        (11, 1, 2, (3.0, 0.0, 0.0))
    ]


def test_a_touch_after_the_end_is_not_of_the_run():
    _, repeat = play("variable-step", duration_s=0.5)
    assert not [event for event in repeat.events if event.kind == "collision"]


def test_only_synchronous_steps_promise_bits():
    promised = {mode: Straight().described({"mode": mode}).capabilities.deterministic for mode in Straight.modes}
    assert promised == {"synchronous": True, "game-loop": False, "variable-step": False}
    assert not Pymunk().described({"threads": 2}).capabilities.deterministic


def test_a_backlog_drops_what_is_beyond_its_most_steps():
    backlog = StepAccumulator(0.25, 3)
    assert [backlog.due(frame_s) for frame_s in (0.125, 0.125, 10.0, 0.25, 0.375)] == [0, 1, 3, 1, 1]
    assert backlog.due(0.125) == 1


def test_touches_are_told_once_by_the_lower_number():
    touches = FirstContacts()
    touches.add(2, 1, (5.0, -1.0, 0.0))
    touches.add(1, 2, (9.0, 9.0, 9.0))
    touches.add(2, None, (1.0, 0.0, 0.0))
    assert touches.take() == [InProcessContact(1, 2, (-5.0, 1.0, -0.0)), InProcessContact(2, None, (1.0, 0.0, 0.0))]
    assert touches.take() == []


@pytest.mark.parametrize(("roll", "pitch", "yaw"), [(0.0, 0.0, 0.0), (3.0, -2.0, 111.8), (-20.0, 10.0, -170.0)])
def test_angles_are_those_of_carla(roll, pitch, yaw):
    """CARLA's yaw, pitch and roll are, in a right-handed frame with y to the left, turns by -yaw, -pitch, roll."""
    turned = Rotation.from_euler("ZYX", [-yaw, -pitch, roll], degrees=True).as_matrix()
    forward, left, up = turned.T
    ours = (forward[0], -forward[1], forward[2])
    assert angles_deg(ours, -left[2], up[2]) == pytest.approx((roll, pitch, yaw))


def test_many_angles_have_the_bits_of_single_ones():
    axes = stream(1, "axes").uniform(-1.0, 1.0, (5, 4, 3, 2))
    (fx, fy, fz, right_z, up_z), shape = axes.reshape(5, -1), axes.shape[1:]
    fz[:3], right_z[3] = (1.0000001, -1.5, -0.0), 0.0
    columns = angle_columns_deg(
        tuple(axis.reshape(shape) for axis in (fx, fy, fz)), right_z.reshape(shape), up_z.reshape(shape)
    )
    one_by_one = [
        angles_deg((a, b, c), d, e) for a, b, c, d, e in zip(*(x.tolist() for x in (fx, fy, fz, right_z, up_z)), strict=True)
    ]
    assert np.stack(columns, axis=-1).tobytes() == np.array(one_by_one).tobytes()


@pytest.mark.parametrize("simulator", [Panda3D, Pymunk, MuJoCo], ids=lambda simulator: simulator.name)
def test_readings_are_the_states_of_their_moment_whatever_comes_after(simulator):
    if simulator().unavailable({}):
        pytest.skip(simulator().unavailable({}))
    values = simulator().info().settings
    world = simulator().world(read_script("table1-test2"), read_settings(values, simulator.modes), values)
    readings, states = [], []
    for _ in range(5):
        world.command(2, VehicleCommand(throttle=0.8, steer=0.2))
        world.step(10)
        readings.append(world.reading())
        states.append([list(state.values()) for state in world.states().values()])
    assert world.rows(readings).tobytes() == np.array(states).tobytes()
    assert not np.array_equal(states[0], states[-1])
    world.close()


@pytest.mark.parametrize("simulator", [Panda3D, Pymunk, MuJoCo])
def test_a_missing_or_old_engine_is_told_in_one_line(simulator, monkeypatch):
    monkeypatch.setattr(in_process, "installed_version", lambda package: "")
    name = simulator.name
    assert simulator().unavailable({}) == f"{name} is not installed: pip install 'samepath[{name}]'"
    assert simulator().info().version == "not installed"
    with pytest.raises(SimulatorError, match="is not installed: pip install"):
        run_request(simulator(), RunRequest("table1-test2", 0))
    monkeypatch.setattr(in_process, "installed_version", lambda package: "1.0rc1")
    assert "or newer was wanted, but 1.0rc1 is installed" in simulator().unavailable({})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "variable-stpe"}, "did you mean variable-step"),
        ({"substeps": 0}, "substeps: a whole number from 1"),
        ({"frame_rate_hz": 0.0}, "frame_rate_hz: a number from 1"),
        ({"time_scale": -1.0}, "time_scale: a number from 0.01"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(settings, words):
    with pytest.raises(InputError, match=words):
        Panda3D().described(settings)


def test_pymunk_has_no_variable_step_and_at_most_two_threads():
    with pytest.raises(InputError, match="synchronous or game-loop was wanted"):
        Pymunk().described({"mode": "variable-step"})
    with pytest.raises(InputError, match="threads: a whole number from 1 to 2"):
        Pymunk().described({"threads": 3})


@pytest.mark.parametrize("simulator", [Panda3D, Pymunk, MuJoCo], ids=lambda simulator: simulator.name)
def test_synchronous_steps_give_the_same_bits_in_a_fresh_process(simulator):
    missing = simulator().unavailable({})
    if missing:
        pytest.skip(missing)
    module, word = simulator.__module__, simulator.__name__
    code = f"""
from samepath.engines.conformance import run_once
from {module} import {word}
print(run_once({word}(), "table1-test2").digest)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert told == run_once(simulator(), "table1-test2").digest


def test_what_an_engine_is_not_given_is_refused():
    with pytest.raises(InputError, match="only vehicles that go on after a collision were wanted"):
        in_process.read_plain_script("table1-test3")
