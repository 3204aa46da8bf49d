"""The world behind the wire, without a wire: actors, time, maps, and that it repeats itself."""

import math
import struct

import numpy as np
import pytest

from samepath.core.errors import SamepathError
from samepath.simulator.carla import blueprints
from samepath.simulator.carla import streams as frames
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.recorder_file import open_log
from samepath.simulator.carla.records import Transform, pose_of
from samepath.simulator.maps import load_map
from samepath.simulator.server.commands import apply
from samepath.simulator.server.ticking import COLLISION, INVALID, substeps_of
from samepath.simulator.server.ticking import tick as step
from tests.support.map_texts import ends_at
from tests.support.serving import Somebody, call, described, episode, ticks

MODEL3 = "vehicle.tesla.model3"
SETTINGS = "get_episode_settings"


def spawn(host, name=MODEL3, at=0, transform=None, **attributes):
    where = host.map.spawn_points[at] if transform is None else transform
    return call(host, "spawn_actor", described(name, **attributes), where)


def place(x=0.0, y=0.0, z=0.0, yaw=0.0, pitch=0.0):
    return [[x, y, z], [pitch, yaw, 0.0]]


def states(host):
    """The last state message as rows."""
    payload = host.context.outbox.of(frames.WORLD_STREAM)[-1]
    return np.frombuffer(payload[84:], frames.ACTOR_STATE)


def state(host, actor_id):
    rows = states(host)
    return rows[rows["id"] == actor_id][0]


def change_settings(host, **changes):
    settings = host.settings._replace(**changes)
    step = settings.fixed_delta_seconds
    return call(host, "set_episode_settings", (*settings[:2], (False,) if step is None else (True, step), *settings[3:]))


def test_a_tick_advances_frame_and_time_by_the_fixed_step():
    host = episode()
    first = call(host, "tick_cue")
    assert call(host, "tick_cue") == first + 1
    sensor_type, frame, elapsed_s = struct.unpack_from("<QQd", host.context.outbox.sent[-1][1])
    assert (sensor_type, frame, elapsed_s) == (17, first + 1, 2 * float(np.float32(0.05)))


@pytest.mark.parametrize("uptime_s", [(), (0.31,), (1.0,) * 900, (1 / 30, 0.034, 0.0329) * 500])
def test_how_often_a_tenth_of_a_second_passes_does_not_depend_on_how_long_the_server_has_run(uptime_s):
    host = episode()
    for step_s in uptime_s:
        step(host, step_s)
    last_s, fired = host.elapsed_s, []
    for number in range(2000):
        call(host, "tick_cue")
        ((_, payload),) = host.context.outbox.sent[-1:]
        (now_s,) = struct.unpack_from("<d", payload, 16)
        if now_s - last_s >= 0.1:
            fired.append(number)
            last_s = now_s
    assert fired == list(range(1, 2000, 2))


@pytest.mark.parametrize("steps_s", [(0.05,) * 7, (0.033, 0.0501, 0.2, 1e-5, 3.0)])
def test_time_is_the_sum_of_the_steps_that_clients_are_told(steps_s):
    host, told_s = episode(), 0.0
    for step_s in steps_s:
        step(host, step_s)
        _, payload = host.context.outbox.sent[-1]
        (elapsed_s,), (delta_s,) = struct.unpack_from("<d", payload, 16), struct.unpack_from("<f", payload, 48 + 16)
        told_s += delta_s
        assert elapsed_s == told_s


def test_a_recording_has_the_same_times(tmp_path):
    host = episode(folder=tmp_path)
    call(host, "start_recorder", "times.log", False)
    ticks(host, 1)
    start_s = host.elapsed_s
    ticks(host, 100)
    wanted_s = host.elapsed_s
    call(host, "stop_recorder")
    assert list(open_log(tmp_path / "times.log").frames())[-1].elapsed_s == pytest.approx(wanted_s - start_s, abs=1e-13)


@pytest.mark.parametrize("uptime_s", [(), (0.31,), (1 / 3,) * 99])
def test_how_long_a_shape_is_drawn_does_not_depend_on_how_long_the_server_has_run(uptime_s):
    host, seen = episode(), []
    for step_s in uptime_s:
        step(host, step_s)
    call(host, "draw_debug_shape", ((0, ((0.0, 0.0, 0.0), 1.0)), (1, 2, 3), float(np.float32(0.1)), False))
    for _ in range(5):
        call(host, "tick_cue")
        seen.append(len(host.debug.shapes))
    assert seen == [1, 1, 0, 0, 0]


def test_a_synchronous_world_without_a_step_of_its_own_still_repeats_itself():
    host = episode()
    change_settings(host, fixed_delta_seconds=None)
    call(host, "tick_cue")
    assert host.delta_s == 0.05


def test_a_step_of_nothing_means_none_and_one_that_is_too_long_is_refused():
    host = episode()
    change_settings(host, fixed_delta_seconds=0.0)
    assert host.settings.fixed_delta_seconds is None
    with pytest.raises(SamepathError, match="at most 10 s"):
        change_settings(host, fixed_delta_seconds=10.5)


@pytest.mark.parametrize(
    ("step_s", "substep_s", "most", "expected"),
    [(0.05, 0.01, 10, 5), (0.1, 0.01, 10, 10), (0.1, 0.01, 5, 5), (0.033, 0.01, 10, 4), (0.01, 0.01, 10, 1), (0.3, 0.1, 16, 3)],
)
def test_physics_divides_a_step_as_the_settings_say(step_s, substep_s, most, expected):
    host = episode()
    change_settings(host, max_substep_delta_time=substep_s, max_substeps=most)
    assert substeps_of(host, step_s) == expected
    change_settings(host, substepping=False)
    assert substeps_of(host, step_s) == 1


def test_a_vehicle_appears_where_it_was_put_and_only_once():
    host = episode()
    actor = spawn(host)
    assert actor.description.id == MODEL3
    assert len(actor.description.attributes) > 5
    assert actor.bounding_box.extent.x > 2.0
    assert actor.semantic_tags == b"\x0e"
    with pytest.raises(SamepathError, match=COLLISION):
        spawn(host)
    ticks(host, 1)
    where = pose_of(host.map.spawn_points[0])
    assert np.allclose(state(host, actor.id)["motion"][:2], where[:2], atol=1e-3)


def test_nonsense_is_not_spawned():
    host = episode()
    with pytest.raises(SamepathError, match=INVALID):
        call(host, "spawn_actor", (1, "vehicle.no.such", ()), place())
    with pytest.raises(SamepathError, match="parent actor not found"):
        call(host, "spawn_actor_with_parent", described("sensor.other.gnss"), place(), 999, 0, "")
    with pytest.raises(SamepathError, match="noise_lat_bias"):
        spawn(host, "sensor.other.gnss", noise_lat_bias="much")
    with pytest.raises(SamepathError, match=r"not supported by samepath: sensor\.other\.rss"):
        spawn(host, "sensor.other.rss")


def test_there_is_room_for_so_many_and_no_more():
    host = episode(limits=ServerLimits(actors=5))
    while len(host.actors) < 5:
        spawn(host, "sensor.other.gnss")
    with pytest.raises(SamepathError, match="takes no more"):
        spawn(host, "sensor.other.gnss")


def test_ids_are_never_used_again_not_even_after_a_reload():
    host = episode()
    first = spawn(host).id
    call(host, "destroy_actor", first)
    second = spawn(host).id
    call(host, "load_new_episode", "", False, 0xFFFF)
    third = spawn(host).id
    assert first < second < third
    assert call(host, "get_actors_by_id", [first, second, third])[0].id == third
    assert len(call(host, "get_actors_by_id", [first, second, third])) == 1


def test_who_was_destroyed_is_gone_from_the_state():
    host = episode()
    actor = spawn(host)
    ticks(host, 1)
    assert actor.id in states(host)["id"]
    call(host, "destroy_actor", actor.id)
    ticks(host, 1)
    assert actor.id not in states(host)["id"]
    with pytest.raises(SamepathError, match="not found"):
        call(host, "destroy_actor", actor.id)
    with pytest.raises(SamepathError, match="belongs to the map"):
        call(host, "destroy_actor", host.spectator.id)


def test_what_is_attached_moves_along_and_stays_behind_alone():
    host = episode()
    car = spawn(host)
    sensor = call(host, "spawn_actor_with_parent", described("sensor.other.gnss"), place(x=1.5, z=2.0), car.id, 0, "")
    assert sensor.parent_id == car.id
    call(host, "apply_control_to_vehicle", car.id, (1.0, 0.3, 0.0, False, False, False, 0))
    ticks(host, 60)
    body, fixed = state(host, car.id)["motion"], state(host, sensor.id)["motion"]
    assert math.isclose(math.dist(body[:3], fixed[:3]), 2.5, abs_tol=1e-4)
    assert body[4] == fixed[4]
    call(host, "destroy_actor", car.id)
    ticks(host, 5)
    assert np.array_equal(state(host, sensor.id)["motion"], fixed)
    call(host, "destroy_actor", sensor.id)


def test_a_prop_can_be_carried_on_the_roof():
    host = episode()
    car = spawn(host)
    box = call(host, "spawn_actor_with_parent", described("static.prop.box01"), place(z=1.6), car.id, 0, "")
    call(host, "set_actor_target_velocity", car.id, [5.0, 0.0, 0.0])
    ticks(host, 20)
    body, carried = state(host, car.id)["motion"], state(host, box.id)["motion"]
    assert math.dist(body[:2], carried[:2]) < 0.2
    assert carried[2] > 1.2


def test_a_batch_does_all_it_can_and_says_what_it_could_not():
    host = episode()
    car = described(MODEL3)
    where = host.map.spawn_points
    future = [[8, [0, [3.0, 0.0, 0.0]]]]
    commands = [
        [[0, [car, where[0], [False], 0, "", [future]]]],
        [[0, [car, where[0], [False], 0, "", []]]],
        [[20, ["r.ScreenPercentage 50"]]],
        [[0, [car, [[float("nan"), 0, 0], [0, 0, 0]], [False], 0, "", []]]],
        [[0, [car, where[1], [False], 0, "", []]]],
        [[1, [4_000_000]]],
        "nonsense",
    ]
    answers = call(host, "apply_batch", commands, True)
    assert [answer[0][0] for answer in answers] == [1, 0, 0, 0, 1, 0, 0]
    assert answers[1][0][1] == (COLLISION,)
    assert "not supported by samepath" in answers[2][0][1][0]
    first = answers[0][0][1]
    assert state(host, first)["motion"][6] > 2.5  # what followed the spawn, and the tick at the end


def test_a_batch_spawns_what_is_attached():
    host = episode()
    car = spawn(host)
    (answer,) = call(host, "apply_batch", [[[0, [described("sensor.other.imu"), place(), [True, car.id], 0, "", []]]]], False)
    assert host.actors.find(answer[0][1]).record.parent_id == car.id


def test_a_reload_begins_a_new_episode_and_frames_go_on():
    host = episode()
    spawn(host)
    ticks(host, 3)
    frame, number = host.frame, host.id
    call(host, "load_new_episode", "", False, 0xFFFF)
    assert host.settings.synchronous_mode
    assert (host.frame, host.elapsed_s) == (frame, 0.0)
    assert host.id == number + 1
    assert len(host.context.outbox.prepared) == 1  # for who connects; nobody is disturbed who is connected
    ticks(host, 1)
    assert host.frame == frame + 1
    assert not [actor for actor in host.actors if actor.has_body]
    call(host, "load_new_episode", "", True, 0xFFFF)
    assert not host.settings.synchronous_mode


def test_a_map_can_have_another_name_and_the_log_says_so():
    host = episode(aliases={"Town03": "t-junction"})
    call(host, "load_new_episode", "/Game/Carla/Maps/Town03", True, 0xFFFF)
    assert call(host, "get_map_info")[0] == "samepath/t-junction/Town03"
    assert any("Town03 was asked for: t-junction is served" in line for line in host.context.outbox.lines)
    assert "/Game/Carla/Maps/Town03" in call(host, "get_available_maps")
    with pytest.raises(SamepathError, match=r"not found; there are: .*t-junction.*Town03"):
        call(host, "load_new_episode", "Town07", True, 0xFFFF)
    assert host.map.name == "Town03"


@pytest.mark.parametrize("aliases", [{"Town03": "nowhere"}, {"": "town"}, {"a/b": "town"}, {"town": "t-junction"}])
def test_an_alias_that_cannot_be_is_refused_at_the_start(aliases):
    with pytest.raises(SamepathError, match="alias"):
        episode(aliases=aliases)


PARAMETERS = (2.0, 50.0, 1.0, 0.6, True, True, True)


def test_a_client_can_send_a_map():
    host = episode()
    xodr = load_map("double-mini-roundabout").xodr
    received = call(host, "copy_opendrive_to_file", xodr, PARAMETERS)
    assert "OpenDriveMap" not in str(call(host, "get_available_maps"))  # it was read beside the world, in any thread
    apply(host, received)
    call(host, "load_new_episode", "OpenDriveMap", True, 0xFFFF)
    assert call(host, "get_map_data") == xodr
    name, points = call(host, "get_map_info")
    assert name == "Carla/Maps/OpenDriveMap"
    assert points
    spawn(host)


def test_of_a_map_with_dead_links_the_log_says_where_roads_end():
    host = episode()
    apply(host, call(host, "copy_opendrive_to_file", ends_at("junction", 8), PARAMETERS))
    call(host, "load_new_episode", "OpenDriveMap", True, 0xFFFF)
    (line,) = [line for line in host.context.outbox.lines if "that the file does not hold" in line]
    assert line.startswith("map OpenDriveMap: 1 link leads to roads or junctions that the file does not hold, such as: road 7")
    ticks(host, 2)


def test_a_map_that_is_none_or_too_large_is_refused_in_one_line():
    host = episode(limits=ServerLimits(opendrive_bytes=200_000, road_m=1_000.0))
    for text, words in (
        ("<OpenDRIVE", "OpenDriveMap"),
        ("x" * 200_001, "at most 200000 bytes"),
        (load_map("t-junction").xodr.replace('length="176"', 'length="9999999"'), "length"),
        (load_map("double-mini-roundabout").xodr, "at most 1000 m together"),
    ):
        with pytest.raises(SamepathError, match=words) as error:
            call(host, "copy_opendrive_to_file", text, PARAMETERS)
        assert "\n" not in str(error.value)
    with pytest.raises(SamepathError, match="not found"):
        call(host, "load_new_episode", "OpenDriveMap", True, 0xFFFF)


def test_a_map_that_is_a_bomb_is_refused_quickly():
    host = episode()
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]><OpenDRIVE>&c;</OpenDRIVE>'
    with pytest.raises(SamepathError):
        call(host, "copy_opendrive_to_file", bomb, PARAMETERS)


def test_the_spectator_goes_where_it_is_put():
    host = episode()
    call(host, "set_actor_transform", host.spectator.id, place(1.0, 2.0, 30.0, yaw=45.0, pitch=-30.0))
    ticks(host, 1)
    assert state(host, host.spectator.id)["motion"][:6].tolist() == [1.0, 2.0, 30.0, -30.0, 45.0, 0.0]
    call(host, "set_actor_location", host.spectator.id, [5.0, 6.0, 7.0])
    ticks(host, 1)
    assert state(host, host.spectator.id)["motion"][:6].tolist() == [5.0, 6.0, 7.0, -30.0, 45.0, 0.0]
    with pytest.raises(SamepathError, match="no body"):
        call(host, "add_actor_impulse", host.spectator.id, [1.0, 0.0, 0.0])


def test_the_weather_is_kept_and_not_felt():
    host = episode()
    weather = [float(number) for number in range(14)]
    call(host, "set_weather_parameters", weather)
    assert list(call(host, "get_weather_parameters")) == weather


def test_who_loads_a_map_sees_the_episode_change():
    """CARLA's client resets its traffic managers when it sees that; otherwise they drive by the map before."""
    host, loader, other = episode("oval"), Somebody(), Somebody()
    before = host.id
    call(host, "load_new_episode", "t-junction", False, 0xFFFF, caller=loader)
    ticks(host, 1)  # as in asynchronous mode, where nobody waits for the client
    assert not host.map_changed
    assert call(host, "get_episode_info", caller=loader)[0] == before
    assert call(host, "get_episode_info", caller=loader)[0] == host.id, "who asks until it changes does not wait for ever"
    assert call(host, "get_episode_info", caller=other)[0] == host.id == before + 1
    call(host, "get_sensor_token", 1, caller=other)
    assert not host.map_changed, "who has loaded nothing is told nothing"
    call(host, "get_sensor_token", 1, caller=loader)
    assert host.map_changed, "the next state says that the map is another"
    assert call(host, "get_episode_info", caller=loader)[0] == host.id
    host.connections.disconnect(loader)
    ticks(host, 1)
    assert not host.map_changed


def test_who_falls_off_the_edge_is_taken_out_with_a_word():
    host = episode()
    car = spawn(host)
    call(host, "set_actor_location", car.id, [5000.0, 5000.0, -499.0])
    ticks(host, 10)
    assert car.id not in host.actors
    assert any("fell off the edge" in line for line in host.context.outbox.lines)


def test_an_actor_whose_numbers_break_is_taken_out_and_the_world_goes_on():
    host = episode()
    bad, good = spawn(host), spawn(host, at=2)  # the first stands before the other, which it cannot run into
    for _ in range(50):
        call(host, "set_actor_target_velocity", bad.id, [1e9, 0.0, 0.0])
        call(host, "add_actor_impulse", bad.id, [1e9, 1e9, 1e9])
        call(host, "add_actor_angular_impulse", bad.id, [1e9, 1e9, 1e9])
        ticks(host, 20)
        if bad.id not in host.actors:
            break
    ticks(host, 5)
    assert good.id in states(host)["id"]
    assert np.isfinite(states(host)["motion"]).all()


def script(host):
    """Some of everything; returns the digest of the world and the bytes of all states but the wall clock's."""
    cars = [spawn(host, name, at).id for at, name in enumerate((MODEL3, "vehicle.audi.tt", "vehicle.yamaha.yzf"))]
    walker = spawn(host, "walker.pedestrian.0001", 5).id
    imu = call(
        host,
        "spawn_actor_with_parent",
        described("sensor.other.imu", noise_accel_stddev_x=0.1, noise_seed=7),
        place(),
        cars[0],
        0,
        "",
    )
    stream_id = struct.unpack("<I", imu.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    for tick in range(60):
        for number, car in enumerate(cars):
            control = (0.5 + 0.1 * number, math.sin(tick / 9.0 + number) * 0.3, 0.0, False, False, False, 0)
            call(host, "apply_control_to_vehicle", car, control)
        call(host, "apply_control_to_walker", walker, ([0.0, 1.0, 0.0], 1.0, tick == 30))
        ticks(host, 1)
    first = host.first_actor_id
    rows = [np.frombuffer(payload[84:], frames.ACTOR_STATE).copy() for payload in host.context.outbox.of(frames.WORLD_STREAM)]
    for row in rows:
        row["id"] -= first
    # Frames go on over a reload; what is compared is what was measured.
    measured = [payload[16:] for payload in host.context.outbox.of(stream_id)]
    return [row.tobytes() for row in rows], measured


def test_the_same_calls_give_the_same_bits_in_a_new_world_and_after_a_reload():
    host = episode()
    states_1, measured_1 = script(host)
    assert len(states_1) == len(measured_1) == 60
    host.context.outbox.sent.clear()
    call(host, "load_new_episode", "", False, 0xFFFF)
    states_2, measured_2 = script(host)
    states_3, measured_3 = script(episode())
    assert states_1 == states_3
    assert measured_1 == measured_3 == measured_2
    assert states_1 == states_2


def test_the_time_a_server_stood_idle_leaves_no_trace():
    host = episode()
    ticks(host, 50)
    assert host.world.tick_count == 0
    assert host.frame == 51
    spawn(host)
    ticks(host, 2)
    assert host.world.tick_count == 2


def test_lights_begin_anew_with_synchronous_mode_unless_a_client_set_them():
    host = episode("town")
    change_settings(host, synchronous_mode=False)
    for _ in range(30):
        host.signals.tick(0.37)
    change_settings(host, synchronous_mode=True)
    assert host.signals.snapshot() == type(host.signals)(host.map.signals).snapshot()
    light = next(actor for actor in host.actors if actor.type_id == "traffic.traffic_light")
    call(host, "set_traffic_light_state", light.id, 3)
    change_settings(host, synchronous_mode=False)
    change_settings(host, synchronous_mode=True)
    assert host.signals.shows(light.light) == 3


def test_boxes_objects_and_layers():
    host = episode()
    houses = call(host, "get_environment_objects", blueprints.BUILDINGS)
    assert houses
    assert len({house.id for house in houses}) == len(houses)
    everything = call(host, "get_environment_objects", blueprints.ANY)
    assert len(everything) > len(houses)
    car = spawn(host)
    boxes = call(host, "get_all_level_BBs", 14)
    assert [box.actor_id for box in boxes] == [car.id]
    assert len(call(host, "get_all_level_BBs", blueprints.BUILDINGS)) == len(houses)
    assert set(call(host, "get_names_of_all_objects")) == {item.name for item in everything}


def looks(host, house):
    """What a ray sees that is shot at the middle of a house from above the road."""
    middle = house.bounding_box.location
    return [item.label for item in call(host, "cast_ray", [middle.x, middle.y, 60.0], [middle.x, middle.y, -1.0])]


def test_scenery_can_be_taken_away_and_put_back():
    host = episode()
    house, other = call(host, "get_environment_objects", blueprints.BUILDINGS)[:2]
    assert blueprints.BUILDINGS in looks(host, house)
    call(host, "enable_environment_objects", [house.id], False)
    assert blueprints.BUILDINGS not in looks(host, house)
    assert blueprints.BUILDINGS in looks(host, other)
    call(host, "enable_environment_objects", [house.id], True)
    assert blueprints.BUILDINGS in looks(host, house)
    call(host, "unload_map_layer", 1)
    assert blueprints.BUILDINGS not in looks(host, other)
    call(host, "load_map_layer", 1)
    assert blueprints.BUILDINGS in looks(host, other)
    call(host, "load_new_episode", "", False, 0xFFFF - 1)
    assert blueprints.BUILDINGS not in looks(host, other)


def test_rays_say_where_and_what():
    host = episode()
    car = spawn(host)
    ticks(host, 20)
    x, y = (float(item) for item in state(host, car.id)["motion"][:2])
    hits = call(host, "cast_ray", [x, y, 10.0], [x, y, -10.0])
    assert [hit.label for hit in hits][:1] == [14]
    assert hits[-1].label in (blueprints.ROADS, blueprints.GROUND)
    assert math.isclose(hits[0].location.z, 1.44, abs_tol=0.05)
    assert math.isclose(hits[-1].location.z, 0.0, abs_tol=0.05)
    found, point = call(host, "project_point", [x, y, 10.0], [0.0, 0.0, -2.0], 100.0)
    assert found
    assert point == hits[0]
    assert call(host, "project_point", [x, y, 10.0], [0.0, 0.0, 1.0], 100.0)[0] is False
    assert call(host, "project_point", [x, y, 10.0], [0.0, 0.0, 0.0], 100.0)[0] is False
    assert call(host, "cast_ray", [x, y, 10.0], [x, y, 10.0]) == []


def test_street_lights_are_switched_and_the_others_are_told():
    host = episode()
    lamps = call(host, "query_lights_state", "a:1")
    call(host, "query_lights_state", "b:1")
    assert lamps
    assert not lamps[0].active
    flags = lambda: struct.unpack_from("<I", host.context.outbox.of(frames.WORLD_STREAM)[-1], 80)[0]  # noqa: E731
    ticks(host, 2)
    assert flags() & frames.LIGHTS_CHANGED == 0
    call(host, "update_lights_state", "a:1", [lamps[0]._replace(active=True, intensity=7.0)], False)
    ticks(host, 1)
    assert flags() & frames.LIGHTS_CHANGED
    again = call(host, "query_lights_state", "b:1")
    assert (again[0].active, again[0].intensity) == (True, 7.0)
    ticks(host, 1)
    assert flags() & frames.LIGHTS_CHANGED == 0
    with pytest.raises(SamepathError, match="no street lights"):
        call(host, "update_lights_state", "a:1", [lamps[0]._replace(id=9999)], False)


def test_shapes_stay_for_their_time():
    host = episode(limits=ServerLimits(debug_shapes=3))
    point = (0, ([0.0, 0.0, 1.0], 0.1))
    text = (4, ([0.0, 0.0, 1.0], "hello", False))
    call(host, "draw_debug_shape", (point, (255, 0, 0), 0.12, False))
    call(host, "draw_debug_shape", (text, (255, 0, 0), -1.0, True))
    assert len(host.debug.shapes) == 2
    ticks(host, 4)
    assert [shape.shape.text for shape in host.debug.shapes] == ["hello"]
    for _ in range(5):
        call(host, "draw_debug_shape", (point, (255, 0, 0), 100.0, False))
    assert len(host.debug.shapes) == 3
    call(host, "draw_debug_shape", (text, (0, 0, 0), 100.0, False))
    call(host, "clear_debug_string")
    assert len(host.debug.shapes) == 2
    call(host, "clear_debug_shape")
    assert host.debug.shapes == ()


def test_files_are_known_by_exact_name_only():
    host = episode()
    (name,) = call(host, "get_required_files", "Nav")
    mesh = call(host, "request_file", name)
    assert mesh == call(host, "get_navigation_mesh")
    assert mesh[:4] == b"TESM"
    assert call(host, "get_required_files", "TM") == ()
    for other in ("../" + name, "/etc/passwd", name + "\0", "", name.upper()):
        with pytest.raises(SamepathError, match="no file"):
            call(host, "request_file", other)


def test_a_file_can_be_fetched_after_another_client_has_loaded_another_map():
    host = episode("oval")
    (name,) = call(host, "get_required_files", "")
    mesh = call(host, "request_file", name)
    call(host, "load_new_episode", "t-junction", True, 0xFFFF)
    assert call(host, "request_file", name) == mesh
    for _ in range(8):
        call(host, "load_new_episode", "t-junction", True, 0xFFFF)
    with pytest.raises(SamepathError, match="there is: t-junction"):
        call(host, "request_file", name)


def test_a_transform_of_a_sign_is_the_maps_own():
    host = episode("town")
    light = next(actor for actor in host.actors if actor.type_id == "traffic.traffic_light")
    with pytest.raises(SamepathError, match="belongs to the map"):
        call(host, "set_actor_transform", light.id, Transform())
