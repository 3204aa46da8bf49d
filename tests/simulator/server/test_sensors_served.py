"""Sensors against closed forms: what they say is what physics did."""

import math
import struct
from importlib.util import find_spec

import msgpack
import numpy as np
import pytest
from test_episode import MODEL3, place, spawn, state
from test_vehicle_methods import on_the_straight

from samepath.core.errors import SamepathError
from samepath.simulator.carla import streams as frames
from samepath.simulator.sensors.cameras import CAMERA_KINDS
from samepath.simulator.sensors.images import depth_of
from samepath.simulator.sensors.labels import Label
from tests.support.serving import call, described, episode, ticks

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="sensors that see need numba")


def attach(host, name, parent, where=None, **attributes):
    """Attach a sensor, listen to it, and return its stream."""
    actor = call(host, "spawn_actor_with_parent", described(name, **attributes), where or place(), parent, 0, "")
    stream_id = struct.unpack("<I", actor.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    return actor.id, stream_id


def messages(host, stream_id):
    found = []
    for payload in host.context.outbox.of(stream_id):
        sensor_type, frame, elapsed_s, *transform = struct.unpack_from("<QQd6f", payload)
        found.append((sensor_type, frame, elapsed_s, transform, msgpack.unpackb(payload[48:])))
    return found


def test_the_header_says_exactly_what_the_state_says():
    host = episode()
    car = spawn(host).id
    sensor, stream_id = attach(host, "sensor.other.gnss", car, place(x=1.6, z=1.7, yaw=30.0, pitch=5.0))
    call(host, "apply_control_to_vehicle", car, (0.75, 0.2, 0.0, False, False, False, 0))
    for _ in range(30):
        ticks(host, 1)
        sensor_type, frame, elapsed_s, transform, _ = messages(host, stream_id)[-1]
        assert (sensor_type, frame, elapsed_s) == (4, host.frame, host.elapsed_s)
        assert np.array_equal(np.array(transform, np.float32), state(host, sensor)["motion"][:6])


@pytest.mark.parametrize(("tick_s", "expected"), [(0.0, 50), (0.05, 50), (0.1, 25), (1.0, 3), (0.12, 21)])
def test_a_sensor_speaks_at_once_and_then_at_its_rate(tick_s, expected):
    host = episode()
    car = spawn(host).id
    _, stream_id = attach(host, "sensor.other.imu", car, sensor_tick=tick_s)
    ticks(host, 50)
    found = messages(host, stream_id)
    assert len(found) == expected
    assert found[0][1] == 2


def test_the_receiver_agrees_with_the_clients_own_map():
    carla = pytest.importorskip("carla")
    host = episode()
    theirs = carla.Map("t-junction", host.map.road_map.xodr)
    car = spawn(host).id
    _, stream_id = attach(host, "sensor.other.gnss", car)
    for x, y, z in ((0.0, 0.0, 0.0), (150.0, -70.0, 3.0), (-120.0, 66.0, 12.5)):
        call(host, "set_actor_simulate_physics", car, False)
        call(host, "set_actor_location", car, [x, y, z])
        ticks(host, 1)
        wanted = theirs.transform_to_geolocation(carla.Location(x, y, z))
        assert messages(host, stream_id)[-1][4] == pytest.approx([wanted.latitude, wanted.longitude, wanted.altitude], abs=1e-9)


def test_a_receiver_beyond_the_map_is_silent_and_the_log_says_so_once():
    host = episode()
    sensor = call(host, "spawn_actor", described("sensor.other.gnss"), place(x=5e6))
    stream_id = struct.unpack("<I", sensor.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    ticks(host, 5)
    assert host.context.outbox.of(stream_id) == []
    assert len([line for line in host.context.outbox.lines if "is silent" in line]) == 1
    call(host, "set_actor_location", sensor.id, [0.0, 0.0, 5.0])
    ticks(host, 2)
    assert len(messages(host, stream_id)) == 2


def noisy(seed, count=20, *, other_first=False):
    host = episode()
    car = spawn(host).id
    call(host, "set_actor_simulate_physics", car, False)
    names = {"noise_lat_stddev": 1e-4, "noise_lon_bias": 0.5, "noise_alt_stddev": 2.0, "noise_seed": seed}
    _, stream_id = attach(host, "sensor.other.gnss", car, **names)
    if other_first:
        attach(host, "sensor.other.gnss", car, **names)
    ticks(host, count)
    return np.array([message[4] for message in messages(host, stream_id)])


def test_noise_repeats_with_its_seed_and_is_moved_by_nobody_else():
    first = noisy(5)
    assert np.array_equal(first, noisy(5))
    assert np.array_equal(first, noisy(5, other_first=True))
    assert not np.array_equal(first, noisy(6))
    many = noisy(5, 400)
    assert np.array_equal(first, many[:20])
    plain = noisy(5) - noisy(5)
    assert not plain.any()
    assert math.isclose(many[:, 2].std(), 2.0, rel_tol=0.15)
    assert math.isclose(many[:, 0].std(), 1e-4, rel_tol=0.15)
    assert len(set(many[:, 1])) == 1


def test_a_unit_at_rest_feels_gravity_and_north():
    host = episode()
    car = spawn(host).id
    call(host, "set_actor_simulate_physics", car, False)
    _, stream_id = attach(host, "sensor.other.imu", car)
    for yaw, compass in ((-90.0, 0.0), (0.0, math.pi / 2), (90.0, math.pi), (180.0, 1.5 * math.pi)):
        call(host, "set_actor_transform", car, place(z=1.0, yaw=yaw))
        ticks(host, 2)
        accelerometer, gyroscope, found = messages(host, stream_id)[-1][4]
        assert accelerometer == pytest.approx([0.0, 0.0, 9.81])
        assert gyroscope == pytest.approx([0.0, 0.0, 0.0])
        assert 0.0 <= found <= 2.0 * math.pi
        assert abs(math.remainder(found - compass, 2.0 * math.pi)) < 1e-6
    call(host, "set_imui_gravity", 1.62)
    ticks(host, 1)
    assert messages(host, stream_id)[-1][4][0][2] == pytest.approx(1.62)
    tilted = episode()
    car = spawn(tilted).id
    call(tilted, "set_actor_simulate_physics", car, False)
    _, stream_id = attach(tilted, "sensor.other.imu", car, place(pitch=90.0))
    ticks(tilted, 2)
    assert messages(tilted, stream_id)[-1][4][0] == pytest.approx([9.81, 0.0, 0.0], abs=1e-6)


def test_a_unit_feels_what_physics_did():
    host = episode("oval")
    car = on_the_straight(host)
    _, stream_id = attach(host, "sensor.other.imu", car)
    call(host, "apply_control_to_vehicle", car, (1.0, 0.0, 0.0, False, False, False, 0))
    ticks(host, 40)
    forward = messages(host, stream_id)[-1][4][0][0]
    assert math.isclose(forward, float(state(host, car)["motion"][13]), abs_tol=0.1)  # the car looks along +y
    assert forward > 1.0
    call(host, "apply_control_to_vehicle", car, (0.5, 0.5, 0.0, False, False, False, 0))
    ticks(host, 30)
    _, gyroscope, _ = messages(host, stream_id)[-1][4]
    assert math.isclose(gyroscope[2], math.radians(float(state(host, car)["motion"][11])), rel_tol=0.02)
    assert gyroscope[2] > 0.1  # clockwise


def test_two_cars_that_meet_tell_both_sensors_with_opposite_impulses():
    host = episode("oval")
    a = on_the_straight(host)
    b = spawn(host, "vehicle.audi.tt", transform=place(34.0, -185.0, 0.3, yaw=-90.0)).id
    ticks(host, 20)
    _, of_a = attach(host, "sensor.other.collision", a)
    _, of_b = attach(host, "sensor.other.collision", b)
    call(host, "set_actor_target_velocity", a, [0.0, 12.0, 0.0])
    momentum = host.world.kind(a).mass_kg * 12.0
    ticks(host, 40)
    felt_a, felt_b = messages(host, of_a), messages(host, of_b)
    assert felt_a
    assert [item[1] for item in felt_a] == [item[1] for item in felt_b]
    assert felt_a[0][0] == 0
    this, other, _ = felt_a[0][4]
    assert (this[0], other[0], other[2][1]) == (a, b, "vehicle.audi.tt")
    total_a = np.sum([item[4][2] for item in felt_a], axis=0)
    total_b = np.sum([item[4][2] for item in felt_b], axis=0)
    assert np.allclose(total_a, -total_b)
    assert -2.0 * momentum < total_a[1] < -0.2 * momentum
    assert len({(item[1], item[4][1][0]) for item in felt_a}) == len(felt_a)  # once per pair and frame


def test_a_wall_is_nobody_with_a_name():
    host = episode()
    car = spawn(host).id
    house = next(thing for thing in host.map.objects if "building" in thing.name)
    box = house.bounding_box
    ticks(host, 20)
    _, stream_id = attach(host, "sensor.other.collision", car)
    call(host, "set_actor_transform", car, place(box.location.x - box.extent.x - 8.0, box.location.y, 0.3))
    call(host, "set_actor_target_velocity", car, [15.0, 0.0, 0.0])
    ticks(host, 40)
    found = messages(host, stream_id)
    assert found
    other = found[0][4][1]
    assert other[0] == 0
    assert other[2][1:] == ["static.building", []]
    assert found[0][4][2][0] < -1000.0


def test_driving_over_the_road_is_no_collision():
    host = episode("oval")
    car = on_the_straight(host)
    _, stream_id = attach(host, "sensor.other.collision", car)
    call(host, "apply_control_to_vehicle", car, (1.0, 0.0, 0.0, False, False, False, 0))
    ticks(host, 100)
    assert messages(host, stream_id) == []


def test_the_obstacle_sensor_says_what_is_ahead_and_how_far():
    host = episode("oval")
    a = on_the_straight(host)
    b = spawn(host, "vehicle.audi.tt", transform=place(34.0, -190.0, 0.3, yaw=90.0)).id
    ticks(host, 20)
    sensor, near = attach(host, "sensor.other.obstacle", a, place(x=2.0, z=1.0), distance=4.0)
    _, far = attach(host, "sensor.other.obstacle", a, place(x=2.0, z=1.0), distance=20.0, hit_radius=0.3)
    _, behind = attach(host, "sensor.other.obstacle", a, place(x=-2.0, z=1.0, yaw=180.0), distance=5.0)
    ticks(host, 1)
    assert messages(host, near) == []
    assert messages(host, behind) == []
    ((sensor_type, _, _, _, (_, other, distance)),) = messages(host, far)
    assert sensor_type == 7
    assert (other[0], other[2][1]) == (b, "vehicle.audi.tt")
    gap = 10.0 - 2.0 - host.world.kind(b).length_m / 2 - 0.3
    assert math.isclose(distance, gap, abs_tol=0.3)
    call(host, "set_actor_location", b, [34.0, -195.0, 0.3])
    ticks(host, 1)
    assert messages(host, near)[0][4][0][0] == sensor


def test_the_obstacle_sensor_can_leave_out_what_never_moves():
    host = episode()
    car = spawn(host, MODEL3).id
    house = next(thing for thing in host.map.objects if "building" in thing.name)
    box = house.bounding_box
    call(host, "set_actor_simulate_physics", car, False)
    call(host, "set_actor_transform", car, place(box.location.x - box.extent.x - 6.0, box.location.y, 0.1))
    _, everything = attach(host, "sensor.other.obstacle", car, place(z=1.5), distance=15.0)
    _, movers = attach(host, "sensor.other.obstacle", car, place(z=1.5), distance=15.0, only_dynamics="true")
    ticks(host, 1)
    assert messages(host, everything)[0][4][1][2][1] == "static.building"
    assert messages(host, movers) == []


def test_a_lane_invasion_sensor_is_there_and_leaves_the_work_to_the_client():
    host = episode()
    car = spawn(host).id
    _, stream_id = attach(host, "sensor.other.lane_invasion", car)
    ticks(host, 5)
    assert host.context.outbox.of(stream_id) == []


@needs_numba
def test_only_what_can_be_measured_is_in_the_library():
    host = episode()
    ids = [item[1] for item in msgpack.unpackb(call(host, "get_actor_definitions"))]
    assert (
        {name for name, _ in EYES}
        < {actor_id for actor_id in ids if actor_id.startswith("sensor.")}
        <= set(frames.SENSOR_TYPES)
    )
    for name in (actor_id for actor_id in ids if actor_id.startswith("sensor.")):
        spawn(host, name)


SMALL = {"image_size_x": 180, "image_size_y": 120}
CAMERAS = [name for name in frames.SENSOR_TYPES if name in CAMERA_KINDS]
EYES = [
    *((name, SMALL) for name in CAMERAS),
    ("sensor.lidar.ray_cast", {"range": 50.0, "channels": 16, "noise_stddev": 0.02}),
    ("sensor.lidar.ray_cast_semantic", {"range": 50.0, "channels": 16}),
    ("sensor.other.radar", {"noise_seed": 3}),
]


def seen(count=6, listeners=EYES):
    """Drive a car with eyes; returns the episode and, by sensor, its messages as they are sent."""
    host = episode()
    car = spawn(host).id
    streams = {name: attach(host, name, car, place(x=0.5, z=2.2), **given)[1] for name, given in EYES}
    host.connections.subscriptions = {streams[name] for name, _ in listeners}
    call(host, "apply_control_to_vehicle", car, (0.75, 0.3, 0.0, False, False, False, 0))
    ticks(host, count)
    return host, {name: host.context.outbox.of(stream_id) for name, stream_id in streams.items()}


@needs_numba
def test_eyes_send_every_frame_and_two_servers_send_the_same_bytes():
    host, first = seen()
    for name, sent in first.items():
        heads = [struct.unpack_from("<QQd", message) for message in sent]
        assert [head[:2] for head in heads] == [(frames.SENSOR_TYPES[name], frame) for frame in range(2, 8)]
    assert host.context.outbox.lines == []
    assert seen()[1] == first
    # Who listens to nothing else gets the same, and nothing is made for nobody.
    for lone in EYES:
        others = seen(listeners=[lone])[1]
        assert others.pop(lone[0]) == first[lone[0]]
        assert not any(others.values())


@needs_numba
def test_images_have_the_size_that_was_wanted_and_agree_with_one_another():
    sent = seen(3)[1]
    images = {}
    for name in CAMERAS:
        payload = sent[name][-1][48:]
        assert struct.unpack_from("<IIf", payload) == (180, 120, 90.0)
        kind = np.float32 if name.endswith("flow") else np.uint8
        images[name.rpartition(".")[2]] = np.frombuffer(payload, kind, offset=12).reshape(120, 180, -1)
    labels = images["semantic_segmentation"][..., 2]
    assert np.array_equal(labels, images["instance_segmentation"][..., 2])
    sky = depth_of(images["depth"]) >= 1000.0
    assert 0.1 < sky.mean() < 0.9
    assert np.array_equal(sky, labels == 11)
    assert len(np.unique(images["rgb"].reshape(-1, 4), axis=0)) > 100
    assert images["optical_flow"].shape == (120, 180, 2)
    assert np.abs(images["optical_flow"]).max() > 0.0  # the car moves


@needs_numba
@pytest.mark.parametrize(("name", "size"), [("sensor.lidar.ray_cast", 16), ("sensor.lidar.ray_cast_semantic", 24)])
def test_points_per_channel_sum_up(name, size):
    for message in seen(3)[1][name]:
        _, channels = struct.unpack_from("<fI", message, 48)
        counts = np.frombuffer(message, "<u4", channels, 56)
        assert channels == 16
        assert counts.sum() > 100
        assert counts.sum() * size == len(message) - 56 - 4 * channels


@needs_numba
@pytest.mark.parametrize("name", ["sensor.camera.depth", "sensor.lidar.ray_cast", "sensor.other.radar"])
def test_eyes_keep_their_rate(name):
    host = episode()
    _, stream_id = attach(host, name, spawn(host).id, place(z=2.2), sensor_tick=1.0)
    ticks(host, 50)
    assert [struct.unpack_from("<QQ", payload)[1] for payload in host.context.outbox.of(stream_id)] == [2, 22, 42]


@needs_numba
def test_a_radar_sees_a_car_come_and_a_lidar_names_it():
    host = episode("oval")
    own = on_the_straight(host)
    other = spawn(host, "vehicle.audi.tt", transform=place(34.0, -185.0, 0.3, yaw=-90.0)).id
    ticks(host, 20)
    radar = attach(host, "sensor.other.radar", own, place(x=2.5, z=0.8), horizontal_fov=10.0, vertical_fov=4.0)[1]
    lidar = attach(host, "sensor.lidar.ray_cast_semantic", own, place(z=2.0), range=40.0)[1]
    call(host, "set_actor_target_velocity", other, [0.0, -8.0, 0.0])
    ticks(host, 2)
    found = np.frombuffer(host.context.outbox.of(radar)[-1], "<f4", offset=48).reshape(-1, 4)
    nearing = found[found[:, 0] < -6.0]
    assert len(nearing) > 3
    assert np.all(np.abs(nearing[:, 3] - nearing[0, 3]) < 5.0)
    message = host.context.outbox.of(lidar)[-1]
    points = np.frombuffer(message, "<u4", offset=56 + 4 * 32).reshape(-1, 6)
    assert other in points[:, 4]


@needs_numba
def test_what_a_client_changes_is_seen():
    host = episode()
    stream_id = attach(host, "sensor.camera.rgb", spawn(host).id, place(x=0.5, z=2.2), **SMALL)[1]
    pictures = []

    def look():
        ticks(host, 1)
        pictures.append(host.context.outbox.of(stream_id)[-1][48:])

    look()
    weather = call(host, "get_weather_parameters")
    call(host, "set_weather_parameters", weather._replace(sun_altitude_angle=-40.0))
    look()
    call(host, "set_weather_parameters", weather._replace(fog_density=1e9))
    look()
    assert len(set(pictures)) == 3
    light = [float(np.frombuffer(picture, np.uint8, offset=12).reshape(-1, 4)[:, :3].mean()) for picture in pictures]
    assert light[1] < 0.6 * light[0]


@needs_numba
@pytest.mark.parametrize("label", [Label.BUILDINGS, Label.VEGETATION])
def test_scenery_that_is_taken_away_is_not_seen(label):
    host = episode()
    camera = call(host, "spawn_actor", described("sensor.camera.semantic_segmentation", **SMALL), place(z=150.0, pitch=-90.0))
    stream_id = struct.unpack("<I", camera.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    counts = []
    for on in (True, False, True):
        host.show_label(label, on=on)
        ticks(host, 1)
        image = np.frombuffer(host.context.outbox.of(stream_id)[-1], np.uint8, offset=60).reshape(-1, 4)
        counts.append(int((image[:, 2] == label).sum()))
    assert counts[0] == counts[2] > counts[1]


@needs_numba
def test_attributes_out_of_range_are_refused_by_name_and_limit():
    wrong = {
        "sensor.camera.rgb": ("fov", 200.0, "170"),
        "sensor.camera.depth": ("image_size_x", 0, "8192|8388608"),
        "sensor.lidar.ray_cast": ("channels", 5000, "1024"),
        "sensor.lidar.ray_cast_semantic": ("horizontal_fov", 400.0, "360"),
        "sensor.other.radar": ("vertical_fov", 180.0, "175"),
    }
    host = episode()
    for name, (attribute, value, limit) in wrong.items():
        with pytest.raises(SamepathError, match=limit) as error:
            call(host, "spawn_actor", described(name, **{attribute: value}), place())
        assert name in str(error.value)


@needs_numba
@pytest.mark.parametrize(
    ("kind", "given", "whole"),
    [
        # How KITTI-CARLA writes it.
        (
            "sensor.lidar.ray_cast",
            {"points_per_second": "1388888.9", "channels": "16.99", "noise_seed": "-3.5"},
            {"points_per_second": "1388888", "channels": "16", "noise_seed": "-3"},
        ),
        ("sensor.camera.rgb", {"image_size_x": "64.9", "image_size_y": "48.0"}, {"image_size_x": "64", "image_size_y": "48"}),
        ("sensor.camera.dvs", {"image_size_x": "64.9", "image_size_y": "48.2"}, {"image_size_x": "64", "image_size_y": "48"}),
        ("sensor.other.radar", {"points_per_second": "1500.5"}, {"points_per_second": "1500"}),
    ],
)
def test_decimals_of_a_whole_number_are_cut_off(kind, given, whole):
    def messages(attributes):
        host = episode()
        actor, stream_id = attach(host, kind, spawn(host).id, place(x=0.5, z=2.2), **attributes)
        host.connections.subscriptions = {stream_id}
        ticks(host, 2)
        kept = {attribute.id: attribute.value for attribute in host.actors.find(actor).record.description.attributes}
        assert {name: kept[name] for name in attributes} == attributes, "clients get back what they gave, as from CARLA"
        return host.context.outbox.of(stream_id)

    assert messages(given) == messages(whole)
    assert messages(given)


@needs_numba
def test_cut_off_below_its_limit_a_whole_number_is_refused():
    with pytest.raises(SamepathError, match=r"channels: a whole number from 1 to 1024 was wanted, but '0\.9' came"):
        call(episode(), "spawn_actor", described("sensor.lidar.ray_cast", channels="0.9"), place())


def test_without_the_compiler_the_answer_says_what_to_install(monkeypatch):
    monkeypatch.setattr("samepath.simulator.sensors.sensor.find_spec", lambda _: None)
    for name, _ in EYES:
        with pytest.raises(SamepathError, match=r"not supported by samepath: .*pip install 'samepath\[sensors\]'"):
            call(episode(), "spawn_actor", described(name), place())


@needs_numba
def test_a_cameras_gbuffers_are_what_other_cameras_at_its_place_draw():
    host = episode()
    car, size = spawn(host).id, {"image_size_x": 64, "image_size_y": 48, "fov": 100}
    camera, own = attach(host, "sensor.camera.rgb", car, place(x=1.5, z=2.0), **size)
    others = {
        gbuffer: attach(host, f"sensor.camera.{kind}", car, place(x=1.5, z=2.0), **size)[1]
        for gbuffer, kind in ((1, "depth"), (3, "normals"), (12, "semantic_segmentation"))
    } | {0: own}
    streams = {gbuffer: _gbuffer(host, camera, gbuffer) for gbuffer in range(13)}
    assert len(set(streams.values())) == 13
    ticks(host, 3)
    outbox = host.context.outbox
    for gbuffer, stream_id in streams.items():
        found = outbox.of(stream_id)
        assert len(found) == 3
        assert all(struct.unpack_from("<Q", message)[0] == frames.GBUFFER for message in found)
        if gbuffer in others:
            assert [message[8:] for message in found] == [message[8:] for message in outbox.of(others[gbuffer])]
        else:
            assert found[-1][48:] == struct.pack("<IIf", 64, 48, 100.0) + b"\0\0\0\xff" * (64 * 48)


@needs_numba
def test_gbuffers_need_no_listener_of_the_camera_and_end_with_it():
    host = episode()
    car = spawn(host).id
    actor = call(host, "spawn_actor_with_parent", described("sensor.camera.rgb", image_size_x=32), place(z=2.0), car, 0, "")
    depth = _gbuffer(host, actor.id, 1)
    ticks(host, 2)
    again = call(host, "get_gbuffer_token", actor.id, 1)  # CARLA's client asks again before it stops listening
    assert struct.unpack("<I", again[:4])[0] == depth
    assert len(host.context.outbox.of(depth)) == 2
    assert depth in host.connections.subscriptions
    call(host, "destroy_actor", actor.id)
    assert depth not in host.connections.subscriptions
    ticks(host, 2)
    assert len(host.context.outbox.of(depth)) == 2


def _gbuffer(host, camera, gbuffer):
    return struct.unpack("<I", call(host, "get_gbuffer_token", camera, gbuffer)[:4])[0]


@needs_numba
def test_only_colour_cameras_have_gbuffers():
    host = episode()
    car = spawn(host).id
    camera, _ = attach(host, "sensor.camera.rgb", car, image_size_x=32, image_size_y=32)
    depth, _ = attach(host, "sensor.camera.depth", car, image_size_x=32, image_size_y=32)
    assert call(host, "are_gbuffers_enabled", camera)
    assert not call(host, "are_gbuffers_enabled", depth)
    for actor, gbuffer, words in ((depth, 1, "only sensor.camera.rgb"), (camera, 13, "below 13"), (car, 1, "a sensor")):
        with pytest.raises(SamepathError, match=words):
            call(host, "get_gbuffer_token", actor, gbuffer)
