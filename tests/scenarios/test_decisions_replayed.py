"""Replayed input: decisions kept by their bits and applied by simulated time, with nobody asked."""

import math
from dataclasses import fields

import pytest

from samepath.core.errors import InputError
from samepath.core.states import VehicleCommand, WalkerCommand
from samepath.scenarios import agents
from samepath.scenarios.agents import CHANNELS, DecisionRecorder, DecisionReplay, Decisions, WorldView
from samepath.scenarios.model import build_scenario, load_scenario
from samepath.simulator.simulation import Simulation, SimulationSettings

TYPES = {1: "vehicle.tesla.model3", 2: "walker.pedestrian.0001"}
NOBODY = frozenset()


def at(time_s, here=(1, 2)):
    return WorldView(0, time_s, dict.fromkeys(here), TYPES)


def taped(*notes):
    decisions = DecisionRecorder()
    for time_s, commands, finished in notes:
        decisions.note(time_s, (2, 1), commands, frozenset(finished))
    return decisions.decisions


def run(simulation):
    results = [simulation.step()]
    while results[-1].ended is None:
        results.append(simulation.step())
    return results


def test_only_what_has_changed_is_kept_and_a_zero_of_another_sign_has():
    still, minus = VehicleCommand(steer=0.0), VehicleCommand(steer=-0.0)
    found = taped((0.0, {1: still}, ()), (0.05, {1: still}, ()), (0.1, {1: minus}, ()), (0.15, {1: minus}, (1,)))
    assert found.time_s == (0.0, 0.1, 0.15)
    assert [math.copysign(1.0, row[1]) for row in found.values] == [1.0, -1.0, -1.0]
    assert [row[-1] for row in found.values] == [0.0, 0.0, 1.0]


def test_who_was_told_nothing_yet_is_told_nothing_and_may_have_finished_all_the_same():
    found = taped((0.0, {}, (2,)), (0.05, {2: WalkerCommand()}, (2,)))
    replay = DecisionReplay(found, TYPES)
    assert replay.commands(at(0.0)) == {}
    assert replay.finished(0.0) == {2}
    assert replay.commands(at(0.05)) == {2: WalkerCommand()}


def test_commands_hold_until_the_next_and_the_last_for_good():
    first, second, walk = VehicleCommand(0.3, -0.1), VehicleCommand(brake=1.0, hand_brake=True), WalkerCommand(0.6, 0.8, 1.4)
    replay = DecisionReplay(taped((0.0, {1: first, 2: walk}, ()), (0.1, {2: walk, 1: second}, ())), TYPES)
    assert replay.commands(at(0.0999)) == {1: first, 2: walk}
    assert list(replay.commands(at(0.1 - 1e-12))) == [1, 2], "by id, and a sum of steps may be rounded"
    assert replay.commands(at(0.1 - 1e-12))[1] == second
    assert replay.commands(at(1e6)) == {1: second, 2: walk}
    assert replay.commands(at(0.2, here=(2,))) == {2: walk}, "who is gone is told nothing"


EVERY = {"float": [0.37, -0.37], "bool": [True], "int | None": [-1, 0, 3]}


@pytest.mark.parametrize(("number", "kind"), [(1, VehicleCommand), (2, WalkerCommand)])
def test_whatever_can_be_told_comes_back_as_it_was(number, kind):
    """A field that commands get one day and replays forget would be found here."""
    asked = [
        kind(**{field.name: value})
        for field in fields(kind)
        for value in EVERY[str(getattr(field.type, "__name__", field.type))]
    ]
    assert len(asked) >= len(fields(kind))
    for command in asked:
        replay = DecisionReplay(taped((0.0, {number: command}, ())), TYPES)
        assert replay.commands(at(0.0)) == {number: command}
        assert agents._in_numbers(command) == command


GOOD = taped((0.0, {1: VehicleCommand()}, ()), (0.1, {1: VehicleCommand(1.0)}, ()))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Decisions(GOOD.time_s[:1], GOOD.actors, GOOD.values), "as many times"),
        (Decisions(GOOD.time_s, (1, 7), GOOD.values), r"actors \[7\] are not in the scenario"),
        (Decisions((0.1, 0.0), GOOD.actors, GOOD.values), "never fall"),
        (Decisions((0.0, math.nan), GOOD.actors, GOOD.values), "never fall"),
        (Decisions(GOOD.time_s, GOOD.actors, ((0.0,), (0.0,))), f"{len(CHANNELS)} numbers each"),
        (Decisions(GOOD.time_s, GOOD.actors, ((math.inf,) * len(CHANNELS),) * 2), f"{len(CHANNELS)} numbers each"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_anything_moves(broken, words):
    with pytest.raises(InputError, match=words) as caught:
        DecisionReplay(broken, TYPES)
    assert "\n" not in str(caught.value)


def test_a_snapshot_of_a_replay_goes_on_bit_for_bit():
    decisions, scenario = DecisionRecorder(), load_scenario("table1-test4")
    run(Simulation(scenario, record_to=decisions))
    replayed = Simulation(scenario, SimulationSettings(duration_s=9.0), decisions=decisions.decisions)
    for _ in range(130):
        replayed.step()
    restored = Simulation.restore(replayed.snapshot())
    assert restored.replays
    assert run(restored) == run(replayed), "the pedestrian is hit at tick 139 and removed"
    assert restored.world.digest == replayed.world.digest
    assert replayed.world.tick_count == 180


def test_who_was_removed_has_nothing_left_to_do():
    """So that a replay whose steps vary, and where nobody is hit, still ends when the others have finished."""
    decisions = DecisionRecorder()
    run(Simulation(load_scenario("table1-test4"), record_to=decisions))
    found = decisions.decisions
    entries = zip(found.time_s, found.actors, found.values, strict=True)
    time_s, values = [(time_s, values) for time_s, actor, values in entries if actor == 3][-1]
    assert time_s == pytest.approx(138 * 0.05), "the beginning of tick 139"
    assert values[-2:] == (1.0, 1.0)


def coarse_throttle(view, actor_id):
    """A user's controller that computes in 32 bits, as learned ones do."""
    import numpy as np

    return VehicleCommand(throttle=np.float32(0.03) * (1 + view.tick % 7), steer=np.float32(0.013), reverse=0)


def never(view, actor_id):
    raise AssertionError("a controller was asked")


def one_vehicle(**driver):
    actor = {"id": 1, "type": "vehicle.tesla.model3", "path": [[0, 0]], **driver}
    return build_scenario({"name": "one", "duration": 4, "end": "duration", "actors": [actor]}, "one")


def test_a_users_controller_is_replayed_to_the_bit_and_neither_asked_nor_started():
    decisions = DecisionRecorder()
    in_loop = Simulation(one_vehicle(controller=f"{__name__}:coarse_throttle"), record_to=decisions)
    run(in_loop)
    assert in_loop.world.state(1).velocity_mps.x > 1
    assert {type(value) for row in decisions.decisions.values for value in row} == {float}, "as plain as a file can hold them"
    for driver in ({"controller": f"{__name__}:never"}, {"process": ["/no/such/program"]}):
        replayed = Simulation(one_vehicle(**driver), decisions=decisions.decisions)
        run(replayed)
        assert replayed.world.digest == in_loop.world.digest
        assert replayed.commands == in_loop.commands
        assert replayed.agents == {}


def test_a_controllers_words_instead_of_numbers_are_told_in_one_line():
    simulation = Simulation(one_vehicle(controller=f"{__name__}:speaks"))
    with pytest.raises(Exception, match="failed at tick 0: ValueError: could not convert"):
        simulation.step()


def speaks(view, actor_id):
    return VehicleCommand(throttle="full")
