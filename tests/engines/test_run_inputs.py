"""What went into a run is taken down, and gives the run again: every mode of the game loop, every source of non-determinism."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.core.states import VehicleCommand, WalkerCommand
from samepath.engines import registry
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest
from samepath.engines.samepath import Samepath
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.scenarios.run_inputs import (
    FINISHED,
    InputFeed,
    InputRecorder,
    command_of,
    command_values,
)
from samepath.simulator.sources import SOURCES
from tests.engines.test_replays import GOLDEN, BeatClock, told

REAL_TIME = {"mode": "real-time", "time_scale": 400.0, "frame_cost_s": 0.0}
THREADED = {**REAL_TIME, "controllers": "thread"}
VARIABLE = {"mode": "variable", "time_scale": 100.0, "frame_cost_s": 0.0}
SEMI_FIXED = {**VARIABLE, "mode": "semi-fixed", "max_step_s": 0.02}
LOCKSTEP = {"mode": "lockstep", "frame_cost_s": 0.0}
RIG = """
name: eye
sensors:
  - {name: front, type: sensor.camera.rgb, at: [1.5, 0, 1.4], attributes: {image_size_x: 32, image_size_y: 24}}
  - {name: imu, type: sensor.other.imu, at: [0, 0, 1]}
"""


class StoppedClock:
    """Whoever asks it has not replayed."""

    def __getattr__(self, name):
        raise AssertionError("a replay asks no clock")


def again(request, log, simulator=None):
    return run_request(simulator or SamepathGameLoop(clock=StoppedClock()), replace(request, repeat=1, inputs=log))


def kinds(log):
    return {entry.kind for entry in log}


def assert_same_run(one, other):
    assert np.array_equal(one.digests, other.digests)
    assert told(one) == told(other)
    assert one.end == other.end
    assert [(f.tick, f.sensor, f.digest) for f in one.sensors] == [(f.tick, f.sensor, f.digest) for f in other.sensors]


ON_THE_CLOCK = {
    "real-time": REAL_TIME,
    "thread": THREADED,
    "variable": VARIABLE,
    "variable-thread": {**VARIABLE, "controllers": "thread"},
    "semi-fixed": SEMI_FIXED,
}


@pytest.mark.parametrize(
    ("scenario", "mode"),
    [*(("table1-test2", mode) for mode in ON_THE_CLOCK), ("table1-test4", "variable-thread"), ("draft-test7", "semi-fixed")],
)
def test_a_run_on_the_wall_clock_comes_back_bit_for_bit_without_a_clock(scenario, mode):
    settings = ON_THE_CLOCK[mode]
    request = RunRequest(scenario, 0, settings=settings)
    run = run_request(SamepathGameLoop(), request)
    replayed = again(request, run.inputs)
    assert_same_run(run, replayed)
    # A replay's own inputs are those that it was given: it can be replayed again, and explained.
    assert [e for e in replayed.inputs if e.kind is not InputKind.COMMAND] == [
        e for e in run.inputs if e.kind is not InputKind.COMMAND
    ]
    assert (InputKind.STEP in kinds(run.inputs)) == (settings["mode"] in ("variable", "semi-fixed"))


@pytest.mark.parametrize(
    ("source", "scenario"), [(name, "draft-test7" if "queue" in name else "table1-test2") for name in sorted(SOURCES)]
)
def test_a_run_with_a_source_of_non_determinism_comes_back_bit_for_bit(source, scenario):
    request = RunRequest(scenario, 0, settings={**LOCKSTEP, "time_scale": 400.0, "sources": source}, duration_s=5.0)
    run = run_request(SamepathGameLoop(), request)
    assert_same_run(run, again(request, run.inputs))


def test_all_sources_that_go_together_come_back_bit_for_bit():
    names = [name for name in SOURCES if name not in ("hash-order", "unstable-queue")]
    settings = {**VARIABLE, "sources": ",".join(names), "gusts_n": 80.0, "panels": 16}
    request = RunRequest("table1-test6", 0, settings=settings, duration_s=8.0)
    run = run_request(SamepathGameLoop(), request)
    assert_same_run(run, again(request, run.inputs))


def test_sensors_of_a_run_with_varying_steps_measure_the_same_bytes(tmp_path):
    rig = tmp_path / "rig.yaml"
    rig.write_text(RIG)
    request = RunRequest("table1-test2", 0, settings={**VARIABLE, "sensors": str(rig)}, duration_s=1.0)
    run = run_request(SamepathGameLoop(), request)
    assert len({frame.sensor for frame in run.sensors}) == 2
    assert_same_run(run, again(request, run.inputs))


@pytest.mark.parametrize("scenario", sorted(GOLDEN)[::5])
def test_lockstep_has_the_pinned_bits_and_nothing_went_in(scenario):
    run = run_request(Samepath(), RunRequest(scenario, 0))
    assert run.digest == GOLDEN[scenario]
    assert len(run.inputs) == 0
    assert run_request(Samepath(), RunRequest(scenario, 1, inputs=run.inputs)).digest == GOLDEN[scenario]


MEDDLER = """
from samepath.core.states import VehicleCommand
calls = []
def drive(view, actor_id):
    calls.append(view.tick)
    return VehicleCommand(throttle=0.3 + 0.1 * (len(calls) % 7))
"""
SCENARIO = """
name: two
duration: 3 s
end: duration
actors:
  - {id: 1, type: vehicle.tesla.model3, path: [[0, 0]], controller: "MODULE:drive"}
  - {id: 2, type: vehicle.tesla.model3, path: [[0, 20], [60, 20]]}
"""


def test_in_lockstep_commands_from_outside_are_inputs_and_are_not_asked_for_again(tmp_path, monkeypatch):
    (tmp_path / "meddler_of_runs.py").write_text(MEDDLER)
    file = tmp_path / "two.yaml"
    file.write_text(SCENARIO.replace("MODULE", "meddler_of_runs"))
    monkeypatch.syspath_prepend(str(tmp_path))
    first = run_request(Samepath(), RunRequest(str(file), 0))
    second = run_request(Samepath(), RunRequest(str(file), 0))
    assert first.digest != second.digest, "the controller counts on from run to run"
    assert {entry.actor for entry in first.inputs} == {1}
    import meddler_of_runs

    asked = len(meddler_of_runs.calls)
    for run in (first, second):
        assert run_request(Samepath(), RunRequest(str(file), 1, inputs=run.inputs)).digest == run.digest
    assert len(meddler_of_runs.calls) == asked


def test_a_late_command_shows_the_step_it_was_decided_on():
    # Every third frame takes as long as three: its steps are all made on what was decided before the first of them.
    settings = {"mode": "real-time", "time_scale": 1.0, "frame_cost_s": 0.0}
    request = RunRequest("table1-test2", 0, settings=settings, duration_s=3.0)
    late = run_request(SamepathGameLoop(clock=BeatClock(0.05, 0.05, 0.15)), request)
    on_time = run_request(SamepathGameLoop(clock=BeatClock(0.05)), request)
    ages = [entry.step - entry.decided_step for entry in late.inputs if entry.decided_step is not None]
    assert set(ages) == {0, 1, 2}
    assert all(entry.step == entry.decided_step for entry in on_time.inputs if entry.decided_step is not None)
    assert_same_run(late, again(request, late.inputs))


def test_controllers_in_a_thread_are_seen_to_decide_from_earlier_steps():
    run = run_request(SamepathGameLoop(), RunRequest("table1-test2", 0, settings=THREADED, duration_s=3.0))
    commands = [entry for entry in run.inputs if entry.kind is InputKind.COMMAND and entry.name != FINISHED]
    assert commands
    assert min(entry.step - entry.decided_step for entry in commands) >= 1


def test_entries_stand_in_causal_order():
    settings = {**VARIABLE, "sources": "unseeded-random,parallel-accumulation,load-order,random-queue", "panels": 8}
    log = run_request(SamepathGameLoop(), RunRequest("table1-test6", 0, settings=settings, duration_s=2.0)).inputs
    rank = {kind: index for index, kind in enumerate(InputKind)}
    places = [(entry.step, rank[entry.kind]) for entry in log]
    assert all(a <= b for a, b in pairwise(places))
    assert kinds(log) >= {InputKind.STEP, InputKind.ORDER, InputKind.COMMAND}


def test_a_log_that_ends_too_soon_or_is_of_another_run_is_refused():
    request = RunRequest("table1-test2", 0, settings=VARIABLE, duration_s=2.0)
    log = run_request(SamepathGameLoop(), request).inputs
    short = InputLog([entry for entry in log if entry.step < 10])
    with pytest.raises(InputError, match="the length of step 10 was wanted, but none was written down"):
        again(request, short)
    gusty = replace(request, settings={**VARIABLE, "sources": "unseeded-random"})
    with pytest.raises(InputError, match="a gust on actor 1 was wanted at step 0"):
        again(gusty, log)
    ordered = replace(request, settings={**VARIABLE, "sources": "hash-order"})
    with pytest.raises(InputError, match="an order of the 2 actors was wanted, but None came"):
        again(ordered, log)


def test_an_engine_that_cannot_play_a_run_again_says_so():
    with pytest.raises(SimulatorError, match="cannot play a run again from what went into it"):
        run_request(
            registry.create("control-exact"),
            RunRequest(registry.create("control-exact").info().scenarios[0], 0, inputs=InputLog()),
        )


@pytest.mark.parametrize(
    "command",
    [
        VehicleCommand(0.25, -0.0, 1.0, hand_brake=True, reverse=True, manual_gear=-1),
        VehicleCommand(1.0, 0.1, 0.0),
        WalkerCommand(0.6, -0.8, 1.4, jump=True, face_ahead=True),
    ],
)
def test_a_command_goes_into_numbers_and_back(command):
    recorder = InputRecorder()
    recorder.step(0, None, [1], {1: command})
    (entry,) = recorder.log
    assert repr(command_of(entry.name, entry.values)) == repr(command)
    assert entry.values == command_values(command)


def test_only_changes_are_listed_by_their_bits_and_an_end_of_commands_is_one():
    recorder = InputRecorder()
    for step, steer in enumerate((0.0, 0.0, -0.0, -0.0)):
        recorder.step(step, None, [1], {1: VehicleCommand(steer=steer)})
    recorder.step(4, None, [1], {})
    assert [(entry.step, entry.name == "no command") for entry in recorder.log] == [(0, False), (2, False), (4, True)]
    feed = InputFeed(recorder.log)
    assert [str(feed.commands(step, [1]).get(1)) for step in (1, 3, 4)] == [
        str(VehicleCommand()),
        str(VehicleCommand(steer=-0.0)),
        "None",
    ]


def test_broken_entries_are_refused():
    for entry, words in (
        (Input(0, InputKind.STEP, values=(0.0,)), "one length above 0 s"),
        (Input(0, InputKind.COMMAND, "pedal", 1, (1.0,)), "a command to a vehicle or a walker"),
        (Input(0, InputKind.COMMAND, FINISHED, None, (1.0,)), "the actor of a command"),
    ):
        with pytest.raises(InputError, match=words):
            InputFeed([entry])
    with pytest.raises(InputError, match="an order of actors by numbers"):
        InputFeed([Input(0, InputKind.ORDER, "actors", text="one two")]).order("actors")
