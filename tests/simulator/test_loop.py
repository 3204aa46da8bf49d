"""The game loop on a clock of our own: no test waits, and every step can be worked out on paper."""

from itertools import islice

import numpy as np
import pytest

from samepath.core.errors import InputError, UnknownNameError
from samepath.scenarios.model import load_scenario
from samepath.simulator import game_loop
from samepath.simulator.game_loop import GameLoop, InlineDecider, LoopSettings, StepPacer, ThreadedDecider, frame_work
from samepath.simulator.simulation import Simulation

SCENARIO = load_scenario("table1-test2")
MANY = 1_000_000


class HandClock:
    """Time passes only when a frame is worked on or somebody sleeps."""

    def __init__(self, frame_costs_s):
        self.now_s = 0.0
        self._costs_s = iter(frame_costs_s)

    def monotonic_s(self):
        return self.now_s

    def sleep_s(self, seconds):
        self.now_s += seconds

    def utc_iso(self):
        return "2000-01-01T00:00:00+00:00"

    def work(self):
        self.now_s += next(self._costs_s)


def frames_of(settings, costs_s):
    simulation, clock = Simulation(SCENARIO), HandClock(costs_s)
    loop = GameLoop(simulation, settings, clock, work=clock.work)
    frames = list(islice(loop.frames(), len(costs_s)))
    return loop, frames


def digest_after(ticks):
    simulation = Simulation(SCENARIO)
    for _ in range(ticks):
        simulation.step()
    return simulation.world.digest


def test_lockstep_through_the_loop_is_the_simulation_alone_to_the_bit():
    loop, frames = frames_of(LoopSettings(), [0.3] * 400)
    assert frames[-1].ended == "every actor reached its last waypoint"
    assert loop.simulation.world.digest == digest_after(len(frames))
    assert (loop.deadline_misses, loop.frame_count, loop.step_count) == (0, len(frames), len(frames))


def test_a_variable_step_is_as_long_as_the_frame_before_and_no_longer_than_its_cap():
    loop, frames = frames_of(LoopSettings("variable", max_step_s=0.08), [0.01, 0.03, 0.2, 0.02, 0.02])
    assert [frame.step_s for frame in frames] == pytest.approx([0.05, 0.01, 0.03, 0.08, 0.02])
    assert [frame.late for frame in frames] == [False, False, False, True, False]
    assert [frame.wall_s for frame in frames[1:]] == pytest.approx([0.01, 0.03, 0.2, 0.02])
    assert loop.deadline_misses == 1
    assert loop.mean_step_s == pytest.approx(0.19 / 5)


def test_the_time_scale_stretches_a_frame():
    _, frames = frames_of(LoopSettings("variable", time_scale=20.0), [0.001, 0.002, 0.001])
    assert [frame.step_s for frame in frames] == pytest.approx([0.05, 0.02, 0.04])


def test_a_semi_fixed_frame_is_cut_into_steps_of_at_most_the_cap():
    loop, frames = frames_of(LoopSettings("semi-fixed", max_step_s=0.02, catch_up_steps=3), [0.045, 0.02, 0.3, 0.01])
    assert [len(frame.steps) for frame in frames] == [3, 3, 1, 3]
    assert [frame.step_s for frame in frames] == pytest.approx([0.05, 0.045, 0.02, 0.06])
    assert [frame.late for frame in frames] == [False, False, False, True]
    assert loop.deadline_misses == 1


def test_real_time_on_time_is_lockstep_to_the_bit_and_waits_for_the_clock():
    loop, frames = frames_of(LoopSettings("real-time", time_scale=2.0), [0.01] * 150)
    assert loop.deadline_misses == 0
    assert loop.simulation.world.digest == digest_after(150)
    assert [frame.wall_s for frame in frames[1:]] == pytest.approx([0.025] * 149)


def test_real_time_makes_up_for_a_late_frame_with_several_steps_on_the_same_inputs():
    loop, frames = frames_of(LoopSettings("real-time"), [0.01, 0.01, 0.17, 0.01, 0.01])
    assert [len(frame.steps) for frame in frames] == [1, 1, 1, 3, 1]
    assert [frame.late for frame in frames] == [False, False, False, True, False]
    assert loop.deadline_misses == 1
    assert loop.simulation.world.digest != digest_after(loop.step_count)


def test_real_time_gives_up_what_it_cannot_catch_up_with():
    _, frames = frames_of(LoopSettings("real-time", catch_up_steps=4), [0.01, 2.0, 0.01, 0.01])
    assert [len(frame.steps) for frame in frames] == [1, 1, 4, 1]


def test_a_frame_too_short_for_a_step_counts_towards_the_next():
    pace = StepPacer(LoopSettings("variable"), 0.05)
    assert pace.due(4e-6).steps_s == ()
    assert pace.due(2e-5).steps_s == (pytest.approx(2.4e-5),)


def test_agents_start_by_simulated_time_however_short_the_frames():
    simulation, clock = Simulation(SCENARIO), HandClock([0.01] * 600)
    moved_s = None
    for frame in GameLoop(simulation, LoopSettings("variable"), clock, work=clock.work).frames():
        if simulation.world.state(1).velocity_mps.x > 0.2:
            moved_s = frame.time_s
            break
    assert moved_s == pytest.approx(4.3, abs=0.3)


class Seen:
    def __init__(self, tick):
        self.tick = tick


def test_inline_controllers_decide_once_per_control_period():
    asked = []
    inline = InlineDecider(lambda view: asked.append(view.tick) or {1: view.tick})
    assert [inline.commands(Seen(tick))[1] for tick in (0, 0, 1, 1, 3)] == [0, 0, 1, 1, 3]
    assert asked == [0, 1, 3]


def test_a_thread_of_controllers_is_never_waited_for_and_the_newest_view_counts():
    from threading import Event

    go, begun, seen = Event(), Event(), []

    def decide(view):
        seen.append(view.tick)
        begun.set()
        go.wait(60)
        return {1: view.tick}

    threaded = ThreadedDecider(decide)
    assert threaded.commands(Seen(0)) == {}
    assert begun.wait(60)
    assert [threaded.commands(Seen(tick)) for tick in (1, 2, 3)] == [{}, {}, {}]
    go.set()
    assert any(threaded.commands(Seen(3)) == {1: 3} for _ in range(MANY))
    threaded.close()
    assert seen == [0, 3]


def test_what_a_controller_in_a_thread_throws_reaches_the_loop():
    threaded = ThreadedDecider(lambda view: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        for _ in range(MANY):
            threaded.commands(Seen(0))
    threaded.close()


def test_a_frame_without_cost_does_no_work_and_one_with_cost_computes(monkeypatch):
    passes = []
    monkeypatch.setattr(game_loop, "_pass_s", lambda: 1e-5)
    monkeypatch.setattr(game_loop, "_shade", lambda: passes.append(1))
    frame_work(0.0)()
    assert not passes
    frame_work(1e-4)()
    assert len(passes) == 10


def test_the_work_of_a_frame_is_arithmetic_on_every_pixel(monkeypatch):
    pixels = np.full_like(game_loop._PIXELS, np.nan)
    monkeypatch.setattr(game_loop, "_PIXELS", pixels)
    game_loop._shade()
    assert np.isfinite(pixels).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_scale": 0.0}, "time_scale"),
        ({"max_step_s": float("nan")}, "max_step_s"),
        ({"catch_up_steps": 0}, "catch_up_steps"),
        ({"frame_cost_s": -1.0}, "frame_cost_s"),
        ({"controllers": "thread"}, "real-time"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_birth(changes, words):
    with pytest.raises(InputError, match=words):
        LoopSettings(**changes)


def test_an_unknown_mode_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'semi-fixed'"):
        LoopSettings("semifixed")
