"""The ego controller as a source of its own: one world with controllers in the loop, and with what they decided replayed."""

import json
import threading
from dataclasses import replace
from itertools import accumulate, cycle
from pathlib import Path

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.engines.conformance import run_request
from samepath.engines.interface import CommandLog, RunRequest
from samepath.engines.samepath import Samepath
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.simulator import log_of
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.agents import DecisionRecorder

GOLDEN = json.loads((Path(__file__).parents[1] / "simulator" / "world" / "golden.json").read_text())["digests"]
THREADED = {"mode": "real-time", "controllers": "thread", "time_scale": 400.0, "frame_cost_s": 0.0}
LOCKSTEP = {"mode": "lockstep", "frame_cost_s": 0.0}


class BeatClock:
    """Every look at it finds that the next of these times has passed, over and over."""

    def __init__(self, *beats_s):
        self._times_s = accumulate(cycle(beats_s))

    def monotonic_s(self):
        return next(self._times_s)

    def sleep_s(self, seconds):
        pass

    def utc_iso(self):
        return "2000-01-01T00:00:00+00:00"


def run_and_record(simulator, request):
    """Run once, and return the run and what its controllers decided in that very run."""
    info, decisions = simulator.described(request.settings), DecisionRecorder()
    recorder = Recorder(request.repeat, info.channels, info.step_s)
    simulator.play(request, recorder, decisions)
    return recorder.finish(), log_of(decisions)


def told(repeat):
    """A run's events without what it says of the host's frames."""
    return tuple(event for event in repeat.events if event.kind != "late-frames")


@pytest.mark.parametrize("scenario", sorted(GOLDEN))
def test_a_replay_in_lockstep_has_the_pinned_bits_of_the_run_with_controllers(scenario):
    simulator, request = Samepath(), RunRequest(scenario, 0)
    log = simulator.record_commands(request)
    assert run_request(simulator, replace(request, repeat=1, commands=log)).digest == GOLDEN[scenario]


@pytest.mark.parametrize("settings", [{"step_s": 0.025}, {"step_s": 0.01, "substeps": 2}, {"substeps": 1}])
def test_finer_steps_than_the_traces_ticks_are_recorded_step_by_step(settings):
    simulator, request = Samepath(), RunRequest("table1-test4", 0, settings=settings)
    log = simulator.record_commands(request)
    assert run_request(simulator, replace(request, commands=log)).digest == run_request(simulator, request).digest
    per_actor = np.unique(np.array(log.actors), return_counts=True)[1]
    assert len(set(log.time_s)) == per_actor.max(), "a vehicle gets a new command in nearly every step"
    if "step_s" in settings:
        assert per_actor.max() > 400


@pytest.mark.parametrize("scenario", ["table1-test2", "table1-test4", "table1-test6"])
def test_what_controllers_in_a_thread_decided_is_replayed_bit_for_bit_on_any_fixed_clock(scenario):
    """With the controllers in a thread the run is whatever the scheduler made of it; its replay is always that run."""
    request = RunRequest(scenario, 0, settings=THREADED)
    in_loop, log = run_and_record(SamepathGameLoop(), request)
    assert in_loop.digest != GOLDEN[scenario], "in the first frame no command has arrived yet"
    replays = [
        run_request(SamepathGameLoop(), replace(request, settings=settings, commands=log))
        for settings in (LOCKSTEP, THREADED, THREADED, {**THREADED, "time_scale": 5000.0}, {**THREADED, "catch_up_steps": 1})
    ]
    replays.append(run_request(Samepath(), replace(request, settings={}, commands=log)))
    assert len({replay.digest for replay in replays}) == 1
    assert np.array_equal(replays[0].digests, in_loop.digests)
    assert told(replays[0]) == told(in_loop)
    assert replays[0].end == in_loop.end


def test_a_replay_starts_no_thread_of_controllers():
    simulator, request = SamepathGameLoop(), RunRequest("table1-test2", 0, settings=THREADED, duration_s=2.0)
    seen = {True: set(), False: set()}

    def run(replayed, commands):
        recorder = Recorder(0, simulator.described(request.settings).channels, 0.05)
        names = seen[replayed]
        simulator.run(
            replace(request, commands=commands),
            recorder,
            lambda tick: names.update(thread.name for thread in threading.enumerate()),
        )

    run(False, None)
    run(True, simulator.record_commands(request))
    assert "controllers" in seen[False]
    assert "controllers" not in seen[True]


@pytest.mark.parametrize("mode", ["variable", "semi-fixed"])
def test_steps_that_vary_come_back_bit_for_bit_where_they_begin_at_the_same_times(mode):
    settings = {"mode": mode, "time_scale": 1.0, "max_step_s": 0.04, "frame_cost_s": 0.0}
    request = RunRequest("table1-test4", 0, settings=settings)
    beats = (0.011, 0.052, 0.027, 0.09)
    in_loop, log = run_and_record(SamepathGameLoop(clock=BeatClock(*beats)), request)
    again = run_request(SamepathGameLoop(clock=BeatClock(*beats)), replace(request, commands=log))
    assert again.digest == in_loop.digest


def test_steps_that_begin_at_other_times_take_what_holds_then():
    settings = {"mode": "variable", "time_scale": 1.0, "frame_cost_s": 0.0}
    request = RunRequest("table1-test3", 0, settings=settings)
    in_loop, log = run_and_record(SamepathGameLoop(clock=BeatClock(0.05)), request)
    other = run_request(SamepathGameLoop(clock=BeatClock(0.02)), replace(request, commands=log))
    assert other.digest != in_loop.digest
    assert other.end.reason == in_loop.end.reason
    assert other.end.tick == pytest.approx(in_loop.end.tick, abs=1)
    throttle = other.channels.index("throttle_ratio")
    asked = {row[0] for row in log.values}
    rows = other.values[(other.actor == 1), throttle]
    assert set(rows[~np.isnan(rows)].tolist()) <= asked, "commands are held, never mixed"


def test_a_walkers_lots_are_the_controllers_and_a_replay_is_without_them():
    """Which of the two varies? Here the planner of a walker, which draws lots: replayed, the world repeats itself."""
    settings = {**LOCKSTEP, "sources": "random-queue"}
    request = RunRequest("draft-test7", 0, settings=settings)
    simulator = SamepathGameLoop()
    first = run_request(simulator, request).digest
    assert any(run_request(simulator, request).digest != first for _ in range(40))
    log = simulator.record_commands(request)
    assert len({run_request(simulator, replace(request, repeat=n, commands=log)).digest for n in range(3)}) == 1


def test_the_worlds_own_chance_stays_in_a_replay():
    """And here it is the world: gusts from entropy blow in the replay as well."""
    request = RunRequest("table1-test2", 0, settings={**LOCKSTEP, "sources": "unseeded-random"}, duration_s=6.0)
    simulator = SamepathGameLoop()
    log = simulator.record_commands(request)
    assert len({run_request(simulator, replace(request, repeat=n, commands=log)).digest for n in range(3)}) == 3


def test_a_log_of_another_simulator_or_scenario_is_refused_in_one_line():
    foreign = CommandLog(("pedal",), (0.0,), (1,), ((1.0,),))
    with pytest.raises(InputError, match="were wanted, but pedal came: record them again") as caught:
        run_request(Samepath(), RunRequest("table1-test2", 0, commands=foreign))
    assert "\n" not in str(caught.value)
    three = Samepath().record_commands(RunRequest("table1-test4", 0, duration_s=0.1))
    with pytest.raises(InputError, match=r"actors \[3\] are not in the scenario"):
        run_request(Samepath(), RunRequest("table1-test2", 0, commands=three))
