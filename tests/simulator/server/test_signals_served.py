"""Traffic lights over the wire, on a map that has some."""

import numpy as np
import pytest
from test_episode import spawn, state, states

from samepath.core.errors import SamepathError
from samepath.simulator.server.actors import SignEntry
from tests.support.serving import call, episode, ticks


@pytest.fixture(scope="module")
def town():
    return episode("town")


@pytest.fixture
def lights(town):
    call(town, "load_new_episode", "", False, 0xFFFF)
    ticks(town, 1)
    return [entry for entry in town.actors.all(SignEntry) if entry.light is not None]


def colours(host, lights):
    return [int(state(host, light.id)["colour"]) for light in lights]


def test_lights_are_actors_with_their_opendrive_ids(town, lights):
    assert lights
    row = state(town, lights[0].id)
    assert row["sign_id"].decode() == lights[0].signal_id
    assert (row["green_s"], row["yellow_s"], row["red_s"]) == (10.0, 3.0, 2.0)
    assert 0 < sum(colour == 2 for colour in colours(town, lights)) < len(lights)
    signs = [entry.type_id for entry in town.actors.all(SignEntry)]
    assert any(sign.startswith("traffic.speed_limit.") for sign in signs)


def test_a_light_can_be_set_frozen_and_reset(town, lights):
    light = lights[0].id
    for colour in (0, 1, 2, 3, 4):
        call(town, "set_traffic_light_state", light, colour)
        ticks(town, 1)
        assert state(town, light)["colour"] == colour
    with pytest.raises(SamepathError, match="a state from 0 to 4"):
        call(town, "set_traffic_light_state", light, 5)
    call(town, "freeze_all_traffic_lights", True)
    ticks(town, 300)
    assert state(town, light)["colour"] == 4
    assert state(town, light)["frozen"] == 1
    call(town, "freeze_all_traffic_lights", False)
    call(town, "reset_all_traffic_lights")
    ticks(town, 1)
    assert state(town, light)["colour"] in (0, 2)


def test_lights_change_in_their_time_and_groups_take_turns(town, lights):
    together = call(town, "get_group_traffic_lights", lights[0].id)
    assert lights[0].id in together
    for item in together:
        call(town, "set_traffic_light_green_time", item, 1.0)
        call(town, "set_traffic_light_yellow_time", item, 0.5)
        call(town, "set_traffic_light_red_time", item, 0.25)
    call(town, "reset_traffic_light_group", lights[0].id)
    seen = []
    for _ in range(200):
        ticks(town, 1)
        seen.append(tuple(int(state(town, item)["colour"]) for item in together))
    assert len(set(seen)) >= 4
    column = [item[together.index(lights[0].id)] for item in seen]
    runs = [len(list(group)) for group in np.split(column, np.flatnonzero(np.diff(column)) + 1)]
    assert any(abs(length - 20) <= 1 for length in runs)  # one second of green
    assert {0, 1, 2} <= set(column)


def test_the_box_of_a_light_is_where_the_light_is(town, lights):
    (box,) = call(town, "get_light_boxes", lights[0].id)
    x, y, z = state(town, lights[0].id)["motion"][:3]
    assert abs(box.location.x - x) < 0.01
    assert abs(box.location.y - y) < 0.01
    assert box.location.z > z


def test_a_vehicle_at_a_light_knows_it(town, lights):
    stop = town.map.signals.lights[lights[0].light].stops[0]
    half = 2.4
    where = [
        [stop.x_m - stop.forward_x * (half + 1.0), stop.y_m - stop.forward_y * (half + 1.0), stop.z_m + 0.3],
        [0.0, stop.yaw_deg, 0.0],
    ]
    car = spawn(town, transform=where).id
    away = spawn(town, at=60).id
    call(town, "freeze_all_traffic_lights", True)
    for colour in (0, 2):
        call(town, "set_traffic_light_state", lights[0].id, colour)
        ticks(town, 2)
        row = state(town, car)
        assert (row["at_light"], row["light_state"], row["light_id"]) == (1, colour, lights[0].id)
    assert (state(town, away)["at_light"], state(town, away)["light_state"]) == (0, 2)
    assert len(states(town)) == len(town.actors)


def test_a_sign_is_no_light(town, lights):
    sign = next(entry for entry in town.actors.all(SignEntry) if entry.light is None)
    with pytest.raises(SamepathError, match="not a traffic light"):
        call(town, "set_traffic_light_state", sign.id, 0)
