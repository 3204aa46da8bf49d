"""Script or simulator: two sessions side by side, made by hand so that the truth is known."""

import pytest

from samepath.sessions.causes import describe
from samepath.sessions.compare import DifferenceKind, SessionSource, compare_sessions
from samepath.sessions.recording import read_session
from tests.support.sessions import MadeSession, row

CAR = 7


@pytest.fixture
def make(tmp_path):
    def made(name, frame=10):
        return MadeSession(tmp_path / name, frame).connect()

    return made


def drive(session, car=CAR, ticks=5, throttle=lambda tick: 0.1 * tick, x=float, other=3):
    """A car that is driven in a synchronous world with another actor in it."""
    session.state(row(other)).synchronous().tick(row(other)).spawn(car)
    for tick in range(ticks):
        session.drive(car, throttle(tick)).tick(row(other), row(car, x(tick)))
    return session


def test_the_same_session_at_other_frames_and_with_other_ids_is_the_same(make):
    found = compare_sessions(drive(make("a")).done(), drive(make("b", frame=500), car=90, other=80).done())
    assert found.difference is None
    assert found.source is SessionSource.NONE
    assert found.ticks == 6


def test_a_call_with_another_value_after_equal_states_is_the_scripts(make):
    first = drive(make("a")).done()
    second = drive(make("b", frame=50), throttle=lambda tick: 0.1 * tick if tick != 3 else 0.9, car=8).done()
    found = compare_sessions(first, second)
    assert found.source is SessionSource.SCRIPT
    difference = found.difference
    assert (difference.kind, difference.tick, difference.method) == (DifferenceKind.CALL, 4, "apply_control_to_vehicle")
    assert (difference.actor, difference.actor_type, difference.field) == (CAR, "vehicle.tesla.model3", "throttle")
    assert difference.values == (pytest.approx(0.3), 0.9)
    assert "throttle is 0.3 in run 1 and 0.9 in run 2" in describe(difference)


def spawn_command(*, kind="vehicle.audi.a2", colour="1,2,3", x=1.0, parent=None, throttle=0.5):
    attributes = [["color", 5, colour], ["role_name", 4, "hero"]]
    after = [[[2, [0, [throttle, 0.0, 0.0, False, False, False, 0]]]]]
    whole = [[3, kind, attributes], [[x, 2.0, 0.5], [0.0, 90.0, 0.0]]]
    return [[0, [*whole, [False] if parent is None else [True, parent], 0, "", after]]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "vehicle.audi.tt"}, "blueprint is vehicle.audi.a2 in run 1 and vehicle.audi.tt in run 2"),
        ({"colour": "9,9,9"}, "attribute 'color' is 1,2,3 in run 1 and 9,9,9 in run 2"),
        ({"x": 1.5}, "x is 1 in run 1 and 1.5 in run 2"),
        ({"throttle": 0.75}, "do_after apply_control_to_vehicle throttle is 0.5 in run 1 and 0.75 in run 2"),
        ({"parent": 3}, "parent is absent in run 1 and actor number 1 in run 2"),
    ],
)
def test_of_a_command_that_differs_the_nested_field_is_named(make, change, words):
    def session(name, command):
        made = make(name).state(row(3)).synchronous().tick(row(3))
        return made.call("apply_batch", [command], False).tick(row(3)).done()

    found = compare_sessions(session("a", spawn_command()), session("b", spawn_command(**change)))
    assert found.source is SessionSource.SCRIPT
    assert f"The call spawn_actor differs at tick 1 (frames 12 and 12): {words}." in describe(found.difference)


def test_of_a_spawn_that_differs_the_field_is_named(make):
    def session(name, **change):
        ((_, (description, transform, *_)),) = spawn_command(**change)
        made = make(name).state(row(3)).synchronous().tick(row(3))
        return made.call("spawn_actor", description, transform).tick(row(3)).done()

    found = compare_sessions(session("a"), session("b", colour="9,9,9"))
    assert "attribute 'color' is 1,2,3 in run 1 and 9,9,9 in run 2" in describe(found.difference)


def test_a_state_that_differs_after_equal_calls_is_the_simulators(make):
    second = drive(make("b"), x=lambda tick: float(tick) + (1e-6 if tick == 2 else 0.0))
    found = compare_sessions(drive(make("a")).done(), second.done())
    assert found.source is SessionSource.SIMULATOR
    assert (found.difference.kind, found.difference.tick, found.difference.field) == (DifferenceKind.STATE, 4, "x")
    assert found.difference.actor == CAR
    assert found.difference.frames == (15, 15)


def test_the_script_is_not_blamed_for_reacting_to_another_state(make):
    """A state differs at tick 4, and calls from tick 5 on: it was the state."""
    second = drive(make("b"), x=lambda tick: float(tick) * 1.5, throttle=lambda tick: 0.1 * tick if tick < 3 else 0.7)
    assert compare_sessions(drive(make("a")).done(), second.done()).source is SessionSource.SIMULATOR


def test_the_simulator_is_not_blamed_for_what_another_call_did(make):
    second = drive(
        make("b"), x=lambda tick: float(tick) if tick < 2 else 9.0, throttle=lambda tick: 0.1 * tick if tick < 2 else 0.7
    )
    assert compare_sessions(drive(make("a")).done(), second.done()).source is SessionSource.SCRIPT


def test_an_answer_that_differs_is_the_simulators_also_to_a_call_that_reads(make):
    def session(name, mass):
        made = make(name).state(row(3)).synchronous().tick(row(3)).spawn(CAR)
        made.call("get_physics_control", CAR, result=[[1, [mass]]])
        return made.drive(CAR, mass / 1e4).tick(row(3), row(CAR)).done()

    found = compare_sessions(session("a", 1500.0), session("b", 1600.0))
    assert found.source is SessionSource.SIMULATOR
    assert (found.difference.kind, found.difference.method) == (DifferenceKind.ANSWER, "get_physics_control")
    assert found.difference.values == (1500.0, 1600.0)


def test_sensor_data_that_differs_of_equal_states_is_the_simulators(make):
    def session(name, digest):
        made = drive(make(name), ticks=2).tick(row(3), row(CAR, 1.0)).sensor(digest)
        return made.tick(row(3), row(CAR, 1.0)).sensor(b"s").done()

    found = compare_sessions(session("a", b"x"), session("b", b"y"))
    assert found.source is SessionSource.SIMULATOR
    assert (found.difference.kind, found.difference.field) == (DifferenceKind.SENSOR, "sensor.other.gnss")


def test_how_often_somebody_reads_says_nothing(make):
    second = make("b").state(row(3)).synchronous().tick(row(3)).call("get_episode_settings").call("get_actors_by_id", [3])
    second.spawn(CAR)
    for tick in range(5):
        second.drive(CAR, 0.1 * tick).call("get_vehicle_light_states").tick(row(3), row(CAR, float(tick)))
    assert compare_sessions(drive(make("a")).done(), second.done()).difference is None


def test_the_same_call_at_another_tick_is_an_arrival(make):
    def session(name, at):
        made = make(name).state(row(3)).synchronous().tick(row(3)).spawn(CAR)
        for tick in range(6):
            if tick == at:
                made.drive(CAR, 0.5)
            made.tick(row(3), row(CAR))
        return made.done()

    found = compare_sessions(session("a", 2), session("b", 4))
    assert found.source is SessionSource.SCRIPT
    assert (found.difference.kind, found.difference.values) == (DifferenceKind.ARRIVAL, (3, 5))


def test_a_script_that_stops_earlier_has_made_fewer_calls(make):
    found = compare_sessions(drive(make("a")).done(), drive(make("b"), ticks=3).done())
    assert found.source is SessionSource.SCRIPT
    assert found.difference.values == ("apply_control_to_vehicle for actor 7", "nothing more")


def test_a_recording_that_was_cut_off_proves_nothing_beyond_its_end(make):
    whole = drive(make("a"))
    first = whole.done()
    cut = whole.path.with_name("cut")
    cut.write_bytes(whole.path.read_bytes()[:-400])
    found = compare_sessions(first, read_session(cut))
    assert found.source is SessionSource.UNKNOWN
    assert not found.complete
    assert any("its writer was stopped" in note for note in found.notes)


def test_a_map_that_ran_by_the_clock_before_the_session_is_noted_and_not_blamed(make):
    def session(name, phase):
        made = make(name).state(row(3, b109=phase)).synchronous().tick(row(3, b109=phase + 1)).spawn(CAR)
        for tick in range(3):
            made.drive(CAR, 0.5).tick(row(3, b109=phase + 2 + tick), row(CAR, float(tick)))
        return made.done()

    found = compare_sessions(session("a", 10), session("b", 20))
    assert found.difference is None
    assert "1 actors of the map" in found.notes[0]


def test_a_traffic_light_that_parts_later_is_the_simulators(make):
    def session(name, last):
        made = make(name).state(row(3)).synchronous().tick(row(3)).tick(row(3)).tick(row(3, b109=last))
        return made.done()

    found = compare_sessions(session("a", 1), session("b", 2))
    assert found.source is SessionSource.SIMULATOR


def asynchronous(session, x, delay=0):
    session.state(row(3)).spawn(CAR).state(row(3), row(CAR, 0.0))
    session.drive(CAR, 0.5)
    for _ in range(delay):
        session.state(row(3), row(CAR, x))
    session.state(row(3), row(CAR, x)).drive(CAR, 0.0)
    return session.done()


def test_asynchronous_calls_that_meet_other_ticks_are_the_modes(make):
    found = compare_sessions(asynchronous(make("a"), 1.0), asynchronous(make("b"), 2.0, delay=3))
    assert found.source is SessionSource.SCRIPT
    assert not found.difference.synchronous
    assert (found.difference.kind, found.difference.values) == (DifferenceKind.ARRIVAL, (2, 5))
    assert found.asynchronous


def test_asynchronous_time_in_which_nothing_moved_does_not_count(make):
    assert compare_sessions(asynchronous(make("a"), 0.0), asynchronous(make("b"), 0.0, delay=4)).difference is None


def test_tidying_up_in_asynchronous_mode_is_not_compared(make):
    def session(name, x):
        return drive(make(name)).synchronous(False).state(row(3), row(CAR, x)).call("destroy_actor", CAR).done()

    assert compare_sessions(session("a", 1.0), session("b", 5.0)).difference is None


def test_batches_are_looked_into(make):
    def session(name, brake):
        made = make(name).state(row(3)).synchronous().tick(row(3)).spawn(CAR)
        control = [0.0, 0.0, brake, False, False, False, 0]
        return made.call("apply_batch", [[[14, [CAR, True]]], [[2, [CAR, control]]]], False, result=[]).tick(row(3)).done()

    difference = compare_sessions(session("a", 0.0), session("b", 1.0)).difference
    assert (difference.method, difference.actor, difference.field) == ("apply_control_to_vehicle", CAR, "brake")


def test_batches_of_nothing_are_no_calls_unless_they_tick(make):
    """A traffic manager that drives nobody sends them as fast as its thread runs; Leaderboard starts one before its world."""

    def session(name, empty, ticking=False):
        made = make(name).state(row(3)).synchronous().tick(row(3))
        for _ in range(empty):
            made.call("apply_batch", [], ticking, result=[])
        return made.spawn(CAR).drive(CAR, 0.5).tick(row(3), row(CAR)).done()

    assert compare_sessions(session("a", 0), session("b", 7)).difference is None
    found = compare_sessions(session("c", 0), session("d", 1, ticking=True))
    assert found.source is SessionSource.SCRIPT


def test_what_a_client_leaves_in_its_memory_is_not_compared(make):
    """Without a parent, how to attach is whatever was there: the client does not set it."""

    def session(name, noise):
        spawn = [[0, [[0, "vehicle.a", []], [[0.0] * 3, [0.0] * 3], [False], noise, "", []]]]
        made = make(name).state(row(3)).synchronous()
        return made.call("apply_batch", [spawn], False, result=[[[1, 9]]]).tick(row(3), row(9)).done()

    assert compare_sessions(session("a", 240), session("b", 96)).difference is None


def test_calls_of_two_clients_in_another_order_are_not_the_simulators_fault(make):
    def session(name, order, number):
        made = make(name).connect(2).state(row(3)).synchronous().tick(row(3))
        for connection in order:
            kind = f"vehicle.of_{connection}"
            result = [[1, [number[connection], 0, [0, kind, []], [[0.0] * 3, [1.0] * 3, [0.0] * 3, 0], b"", b""]]]
            made.call("spawn_actor", [0, kind, []], [[0.0] * 3, [0.0] * 3], connection=connection, result=result)
        return made.tick(row(3), row(8, 1.0 * (order[0] == 1)), row(9, 1.0 * (order[0] == 2))).done()

    found = compare_sessions(session("a", (1, 2), {1: 8, 2: 9}), session("b", (2, 1), {2: 8, 1: 9}))
    assert found.source is SessionSource.SCRIPT


def test_a_truth_is_no_one_and_zero_has_a_sign(make):
    def session(name, value):
        made = make(name).state(row(3)).synchronous().tick(row(3))
        return made.call("set_actor_simulate_physics", 3, value, result=[[False]]).tick(row(3)).done()

    assert compare_sessions(session("a", True), session("b", 1)).difference is not None
    assert compare_sessions(session("c", float("nan")), session("d", float("nan"))).difference is None


def test_a_world_that_was_left_in_another_state_is_said_first(make):
    def session(name, step, actors):
        settings = [False, False, [True, step], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]
        made = make(name).call("get_episode_settings", result=[[1, settings]]).state(*actors).synchronous()
        return made.tick(*actors).done()

    first = session("a", 0.05, [row(3)])
    for other in (session("b", 0.1, [row(3)]), session("c", 0.05, [row(3), row(4)])):
        found = compare_sessions(first, other)
        assert found.source is SessionSource.UNKNOWN
        assert found.difference.kind is DifferenceKind.BEGINNING
        assert "The world was another when the script came" in describe(found.difference)
