"""Extreme numbers that a client may send: each is refused, or leaves a server that ticks.

Here are some of them; ``SAMEPATH_BENCH_FUZZ=numbers python -m bench fuzz`` tries all.
"""

import pytest

from samepath.core.streams import stream
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.records import Settings, write_settings
from samepath.simulator.sensors.sensor import is_due
from samepath.simulator.server.methods import methods
from tests.support.extremes import NUMBERS, Trial, all_attributes, all_calls
from tests.support.serving import call, described, episode, ticks

TINY = 5e-324
CALLS, ATTRIBUTES = 120, 60


@pytest.fixture
def trial(tmp_path):
    found = Trial(tmp_path)
    yield found
    found.close()


def some(count, name, found):
    """A choice that is the same in every run."""
    return [found[index] for index in sorted(stream(3, "extremes", name).choice(len(found), count, replace=False).tolist())]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_some_numbers_in_some_places_leave_a_server_that_ticks(trial):
    for name, arguments in some(CALLS, "calls", all_calls(trial.scene)):
        trial.call(name, arguments)
    for blueprint, name, text in some(ATTRIBUTES, "attributes", all_attributes()):
        trial.attribute(blueprint, name, text)
    assert trial.figures.failures == ()
    assert 0 < trial.figures.refused < trial.figures.tried == CALLS + ATTRIBUTES


def test_every_method_that_takes_a_number_is_tried(trial):
    tried = {name for name, _ in all_calls(trial.scene)}
    numbers = {method.name for method in methods().values() if method.handler is not None and method.readers}
    texts_only = {
        "copy_opendrive_to_file", "get_required_files", "query_lights_state", "request_file", "load_new_episode",
        "samepath_call", "samepath_ticket", "apply_batch", "start_recorder", "stop_replayer", "clear_debug_string",
    }  # fmt: skip
    flags_only = {name for name in numbers if not any(_takes_numbers(reader) for reader in methods()[name].readers)}
    assert numbers - tried <= texts_only | flags_only


def _takes_numbers(reader):
    try:
        reader(1)
    except Exception as error:
        return "true or false" not in str(error)
    return True


@pytest.mark.parametrize("number", [TINY, 1e-300, 1e-9, -1.0, 0.0])
def test_a_substep_shorter_than_any_is_refused_by_name(number):
    host = episode()
    settings = Settings(synchronous_mode=True, fixed_delta_seconds=0.05, max_substep_delta_time=number)
    with pytest.raises(CallError, match=r"max_substep_delta_time: expected at least 1e-06 s, got "):
        call(host, "set_episode_settings", write_settings(settings))
    ticks(host, 2)


@pytest.mark.parametrize("number", [TINY, 1e-9, -0.1, 10.1])
def test_a_step_that_no_tick_has_is_refused_by_name(number):
    host = episode()
    settings = Settings(synchronous_mode=True, fixed_delta_seconds=number)
    with pytest.raises(
        CallError, match=r"fixed_delta_seconds: expected none, or a step of at least 0\.0001 and at most 10 s, got"
    ):
        call(host, "set_episode_settings", write_settings(settings))
    assert host.settings.fixed_delta_seconds == 0.05


@pytest.mark.parametrize("tick", [TINY, 1e-300, 1e-9, 0.0])
def test_a_sensor_with_the_shortest_period_measures_at_every_tick(tick):
    host = episode()
    made = call(host, "spawn_actor", described("sensor.other.imu", sensor_tick=tick), [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    stream_id = host.actors.find(made.id).stream_id
    call(host, "get_sensor_token", stream_id)
    ticks(host, 5)
    assert len(host.context.outbox.of(stream_id)) == 5


@pytest.mark.parametrize("period_s", [1e-4, 0.013, 0.02, 0.0249, 0.025])
def test_a_period_of_less_than_half_a_step_is_due_at_every_tick_also_by_the_long_way(period_s):
    """The short way must return what the sums of all other periods return."""
    from math import floor

    step_s, slack_s = 0.05, 0.05 * 1e-3
    for tick in range(1, 2000):
        elapsed_s = tick * step_s
        by_sums = floor((elapsed_s + slack_s) / period_s) > floor((elapsed_s - step_s + slack_s) / period_s)
        assert is_due(period_s, elapsed_s, step_s) == by_sums


def test_a_radio_beyond_the_edge_of_its_map_is_silent_and_the_log_says_so_once():
    host = episode()
    spots = host.map.spawn_points
    cars = [call(host, "spawn_actor", described("vehicle.audi.tt"), spots[number]).id for number in range(2)]
    place = [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    for car in cars:
        call(host, "spawn_actor_with_parent", described("sensor.other.v2x"), place, car, 0, "")
    ticks(host, 1)
    call(host, "set_actor_simulate_physics", cars[0], False)
    call(host, "set_actor_location", cars[0], [-1e9, 1.0, 1.0])
    ticks(host, 30)
    silent = [line for line in host.context.outbox.lines if "is silent" in line]
    assert len(silent) == 1
    assert "a point within 1e+06 m of the map's origin was wanted" in silent[0]


def test_the_numbers_are_extreme():
    assert {repr(number) for number in NUMBERS} >= {"5e-324", "1e+308", "-0.0", "inf", "nan", str(2**31), str(2**64 - 1)}
