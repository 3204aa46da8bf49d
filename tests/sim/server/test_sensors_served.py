"""Sensors against closed forms: what they say is what physics did."""

import math
import struct

import msgpack
import numpy as np
import pytest
from serving import call, described, episode, ticks
from test_episode import MODEL3, place, spawn, state
from test_vehicle_methods import on_the_straight

from samepath.sim.server import frames


def attach(host, name, parent, where=None, **attributes):
    """Attach a sensor, listen to it, and return its stream."""
    actor = call(host, "spawn_actor_with_parent", described(name, **attributes), where or place(), parent, 0, "")
    stream_id = struct.unpack("<I", actor.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    return actor.id, stream_id


def messages(host, stream_id):
    found = []
    for payload in host.place.outbox.of(stream_id):
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
    theirs = carla.Map("t-junction", host.scene.road_map.xodr)
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
    assert host.place.outbox.of(stream_id) == []
    assert len([line for line in host.place.outbox.lines if "is silent" in line]) == 1
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
    return np.array([one[4] for one in messages(host, stream_id)])


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
    assert [one[1] for one in felt_a] == [one[1] for one in felt_b]
    assert felt_a[0][0] == 0
    this, other, _ = felt_a[0][4]
    assert (this[0], other[0], other[2][1]) == (a, b, "vehicle.audi.tt")
    total_a = np.sum([one[4][2] for one in felt_a], axis=0)
    total_b = np.sum([one[4][2] for one in felt_b], axis=0)
    assert np.allclose(total_a, -total_b)
    assert -2.0 * momentum < total_a[1] < -0.2 * momentum
    assert len({(one[1], one[4][1][0]) for one in felt_a}) == len(felt_a)  # once per pair and frame


def test_a_wall_is_nobody_with_a_name():
    host = episode()
    car = spawn(host).id
    house = next(one for one in host.scene.objects if "building" in one.name)
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
    house = next(one for one in host.scene.objects if "building" in one.name)
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
    assert host.place.outbox.of(stream_id) == []


def test_only_what_can_be_measured_is_in_the_library():
    ids = [one[1] for one in msgpack.unpackb(call(episode(), "get_actor_definitions"))]
    assert {one for one in ids if one.startswith("sensor.")} <= set(frames.SENSOR_TYPES)
    for name in (one for one in ids if one.startswith("sensor.")):
        spawn(episode(), name)
