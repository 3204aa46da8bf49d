"""Radio sensors at the level of the wire, read with the C structs of CARLA's headers, and by CARLA's own client."""

import ctypes as c
import itertools
import json
import math
import os
import struct
import subprocess
import sys
from dataclasses import replace

import pytest
from test_episode import described, place, spawn
from test_sensors_served import attach

from samepath.core.errors import SamepathError
from samepath.simulator.carla import v2x
from samepath.simulator.sensors.inertial import to_globe
from samepath.simulator.sensors.radio import CAM_NAME
from samepath.simulator.server import snapshot
from tests.support import SUPPORT
from tests.support.serving import Box, call, episode, served, ticks


def struct_of(name, *fields):
    return type(name, (c.Structure,), {"_fields_": fields})


# LibITS.h of CARLA 0.9.16 as a C compiler lays it out: ``long`` has 64 bits, a vector three pointers.
LONG, FLAG, BYTE = c.c_int64, c.c_bool, c.c_uint8
PAIR = struct_of("Pair", ("value", LONG), ("trust", LONG))
VECTOR = struct_of("Vector", ("pointers", c.c_uint64 * 3))
ZONE = struct_of("Zone", ("latitude", LONG), ("longitude", LONG), ("id", LONG), ("has_id", FLAG))
BASIC = struct_of("Basic", ("type", LONG), ("latitude", LONG), ("longitude", LONG), ("ellipse", LONG * 3), ("altitude", PAIR))
HIGH = struct_of(
    "High", ("heading", PAIR), ("speed", PAIR), ("direction", LONG), ("length", PAIR), ("width", LONG), ("ahead", PAIR),
    ("curvature", PAIR), ("mode", LONG), ("yaw_rate", PAIR), ("has_pedals", FLAG), ("pedals", BYTE), ("has_lane", FLAG),
    ("lane", LONG), ("has_wheel", FLAG), ("wheel", PAIR), ("has_lateral", FLAG), ("lateral", PAIR), ("has_vertical", FLAG),
    ("vertical", PAIR), ("has_class", FLAG), ("class_", LONG), ("has_zone", FLAG), ("zone", ZONE),
)  # fmt: skip
CAM = struct_of(
    "Cam", ("power", c.c_float), ("version", LONG), ("message", LONG), ("station", LONG), ("generated_ms", LONG),
    ("basic", BASIC), ("high_present", LONG), ("high", HIGH), ("zones", LONG), ("zone_list", VECTOR), ("low_present", LONG),
    ("role", LONG), ("lights", BYTE), ("points", LONG), ("point_list", VECTOR),
)  # fmt: skip
CUSTOM = struct_of(
    "Custom", ("power", c.c_float), ("version", LONG), ("message", LONG), ("station", LONG), ("text", c.c_char * 100)
)


def heard(host, stream_id, kind):
    found = []
    for payload in host.context.outbox.of(stream_id):
        (sensor_type,) = struct.unpack_from("<Q", payload)
        assert sensor_type == (20 if kind is CAM else 21)
        body = payload[48:]
        assert len(body) % c.sizeof(kind) == 0
        found.append([kind.from_buffer_copy(body, at) for at in range(0, len(body), c.sizeof(kind))])
    return found


def test_the_structs_are_as_large_as_a_compiler_makes_them():
    assert c.sizeof(CAM) == 8 + v2x.CAM_BYTES == 464
    assert c.sizeof(CUSTOM) == 8 + v2x.CUSTOM_BYTES == 136


def two_cars(gap_m=30.0):
    """Two cars one behind the other on the oval's straight, which runs along y."""
    host = episode("oval")
    cars = [spawn(host, transform=place(34.0, y, 0.3, yaw=90.0)).id for y in (-200.0, -200.0 + gap_m)]
    ticks(host, 20)
    return host, cars


def test_a_station_says_where_it_is_and_how_it_moves():
    host, (first, second) = two_cars()
    attach(host, CAM_NAME, first)
    _, stream_id = attach(host, CAM_NAME, second)
    call(host, "set_vehicle_light_state", first, [2 | 32])
    call(host, "apply_control_to_vehicle", first, (1.0, 0.0, 0.0, False, False, False, 0))
    ticks(host, 30)
    said = heard(host, stream_id, CAM)[-1][0]
    body = host.world.state(first)
    globe = to_globe(host.map.origin, body.pose.x_m, body.pose.y_m, body.pose.z_m)
    assert (said.version, said.message, said.station) == (2, 2, first)
    # The last message is at most as old as a change of 0.5 m/s takes.
    assert 0 <= host.elapsed_s * 1000 - said.generated_ms <= 250
    assert said.basic.type == 5
    assert said.basic.latitude == pytest.approx(globe.latitude_deg * 1e7, abs=1e3 * body.velocity_mps.y)
    assert said.high_present == 1
    # Facing along y, which is south: 180 degrees in tenths. Speed in cm/s, at most a message's age ago.
    assert said.high.heading.value == 1800
    assert said.high.speed.value == pytest.approx(body.velocity_mps.y * 100, abs=100)
    assert said.high.length.value == 48
    assert said.high.has_vertical
    assert said.high.vertical.value == pytest.approx(98, abs=10)
    low = [message[0] for message in heard(host, stream_id, CAM) if message[0].low_present]
    # Low beam is the standard's first light, the left blinker its third; both count from the highest bit.
    assert low[-1].lights == 0b1010_0000


def test_how_often_a_station_speaks_depends_on_what_it_does():
    host, (first, second) = two_cars()
    attach(host, CAM_NAME, first)
    _, stream_id = attach(host, CAM_NAME, second)
    ticks(host, 100)
    standing = len(heard(host, stream_id, CAM))
    call(host, "apply_control_to_vehicle", first, (1.0, 0.0, 0.0, False, False, False, 0))
    ticks(host, 100)
    moving = len(heard(host, stream_id, CAM)) - standing
    # Once a second while nothing changes; every 0.1 s while the speed changes by 0.5 m/s in less.
    assert 5 <= standing <= 7
    assert moving > 25


def test_a_walker_says_only_where_it_is():
    host, (_, second) = two_cars()
    walker = spawn(host, "walker.pedestrian.0001", transform=place(40.0, -190.0, 1.2)).id
    attach(host, CAM_NAME, walker)
    _, stream_id = attach(host, CAM_NAME, second)
    ticks(host, 3)
    (said,) = heard(host, stream_id, CAM)[0]
    assert (said.basic.type, said.station, said.high_present, said.low_present) == (1, walker, 0, 0)


def test_a_text_arrives_in_the_next_tick_and_nobody_hears_himself():
    host, (first, second) = two_cars()
    sender, own = attach(host, "sensor.other.v2x_custom", first)
    _, stream_id = attach(host, "sensor.other.v2x_custom", second)
    call(host, "send", sender, "mind the gap")
    ticks(host, 3)
    ((said,),) = heard(host, stream_id, CUSTOM)
    assert (said.text, said.station, said.message) == (b"mind the gap", first, 0)
    # 21.5 dBm and 10 dBi less 32.4 + 20 log10(5.9) + 20 log10(30), with a fading of 3.3 dB.
    assert said.power == pytest.approx(-45.9, abs=12.0)
    assert heard(host, own, CUSTOM) == []


def roadside(host, kind, *, x=38.0, y=-185.0, z=5.0, **attributes):
    """A radio without a parent; returns its id and its stream."""
    actor = call(host, "spawn_actor", described(kind, **attributes), place(x, y, z))
    stream_id = struct.unpack("<I", actor.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    return actor.id, stream_id


@pytest.mark.parametrize("model", ["winner", "geometric"])
def test_a_radio_without_a_parent_sends_to_cars_and_to_other_radios_beside_the_road(model):
    host, (first, _) = two_cars()
    kind, given = "sensor.other.v2x_custom", {"path_loss_model": model}
    sender, own = roadside(host, kind, **given)
    _, car = attach(host, kind, first, **given)
    # As high as the sender above the same ground: the way whose two rays would cancel at height 0.
    _, mast = roadside(host, kind, y=-160.0, **given)
    _, low = roadside(host, kind, y=-170.0, z=0.0, **given)
    call(host, "send", sender, "ice ahead")
    ticks(host, 3)
    for stream_id in (car, mast, low):
        ((said,),) = heard(host, stream_id, CUSTOM)
        assert (said.text, said.station) == (b"ice ahead", sender)
        assert -110.0 < said.power < 0.0
    assert heard(host, own, CUSTOM) == []


def test_a_radio_on_a_traffic_light_sends_under_the_lights_id():
    host = episode("town")
    light = next(entry for entry in host.actors if entry.type_id == "traffic.traffic_light")
    sender, _ = attach(host, "sensor.other.v2x_custom", light.id, place(z=4.0))
    _, beside = attach(host, "sensor.other.v2x_custom", light.id, place(z=3.0))
    pose = host.pose(light)
    _, stream_id = roadside(host, "sensor.other.v2x_custom", x=pose.x_m + 10.0, y=pose.y_m, z=3.0, network_profile="5g")
    call(host, "send", sender, "red")
    ticks(host, 4)
    ((said,),) = heard(host, stream_id, CUSTOM)
    assert (said.text, said.station) == (b"red", light.id)
    assert heard(host, beside, CUSTOM) == []


def test_a_station_beside_the_road_says_twice_a_second_where_it_is():
    host, (first, _) = two_cars()
    sender, _ = roadside(host, CAM_NAME)
    _, stream_id = attach(host, CAM_NAME, first)
    ticks(host, 60)
    said = [message for messages in heard(host, stream_id, CAM) for message in messages if message.station == sender]
    assert len(said) == 6
    times_ms = [message.generated_ms for message in said]
    assert {later - sooner for sooner, later in itertools.pairwise(times_ms)} == {500}
    globe = to_globe(host.map.origin, 38.0, -185.0, 5.0)
    for message in said:
        # 15: a road side unit, 2: its container, here without protected zones.
        assert (message.basic.type, message.high_present, message.zones, message.low_present) == (15, 2, 0, 0)
        assert message.basic.latitude == pytest.approx(globe.latitude_deg * 1e7, abs=10)
        assert message.basic.longitude == pytest.approx(globe.longitude_deg * 1e7, abs=10)
        assert message.basic.altitude.value == 500


def test_a_prop_with_a_radio_is_a_station_beside_the_road():
    host, (first, _) = two_cars()
    prop = call(host, "spawn_actor", described("static.prop.streetbarrier"), place(38.0, -185.0, 0.5)).id
    attach(host, CAM_NAME, prop)
    _, stream_id = attach(host, CAM_NAME, first)
    ticks(host, 2)
    (said,) = heard(host, stream_id, CAM)[0]
    assert (said.station, said.basic.type, said.high_present) == (prop, 15, 2)


def test_a_station_beyond_the_edge_of_the_map_is_silent_and_the_world_goes_on():
    host, (first, _) = two_cars()
    roadside(host, CAM_NAME, x=1e8)
    _, stream_id = attach(host, CAM_NAME, first)
    ticks(host, 3)
    assert heard(host, stream_id, CAM) == []
    assert len([line for line in host.context.outbox.lines if "is silent" in line]) == 1


def test_a_network_is_late_and_by_the_same_every_time():
    def arrivals():
        host, (first, second) = two_cars()
        sender, _ = attach(host, "sensor.other.v2x_custom", first)
        _, stream_id = attach(host, "sensor.other.v2x_custom", second, network_profile="5g")
        frames = []
        for number in range(40):
            call(host, "send", sender, f"message {number}")
            before = len(host.context.outbox.of(stream_id))
            ticks(host, 1)
            frames.append(len(host.context.outbox.of(stream_id)) - before)
        return frames, [[(message.text, message.power) for message in some] for some in heard(host, stream_id, CUSTOM)]

    first, second = arrivals(), arrivals()
    assert first == second
    # At least 15 ms: never in the tick of 50 ms in which it was sent, and nearly always in the next.
    assert first[0][0] == 0
    assert sum(first[0]) >= 35


def test_who_is_beyond_the_filter_hears_nothing():
    host = episode("town")
    points = host.map.spawn_points
    far = max(range(len(points)), key=lambda n: math.dist(points[n][0][:2], points[0][0][:2]))
    cars = [spawn(host, at=number).id for number in (0, far)]
    sender, _ = attach(host, "sensor.other.v2x_custom", cars[0])
    limit_m = math.dist(points[far][0][:2], points[0][0][:2]) - 1.0
    _, stream_id = attach(host, "sensor.other.v2x_custom", cars[1], filter_distance=limit_m, network_profile="5g")
    call(host, "send", sender, "far away")
    ticks(host, 5)
    assert heard(host, stream_id, CUSTOM) == []


def test_texts_that_do_not_fit_and_sensors_that_do_not_speak_are_refused():
    host, (first, _) = two_cars()
    sender, _ = attach(host, "sensor.other.v2x_custom", first)
    listener, _ = attach(host, CAM_NAME, first)
    with pytest.raises(SamepathError, match="at most 99 bytes"):
        call(host, "send", sender, "x" * 100)
    with pytest.raises(SamepathError, match="v2x_custom sends"):
        call(host, "send", listener, "x")
    with pytest.raises(SamepathError, match="did you mean '5g'"):
        attach(host, "sensor.other.v2x_custom", first, network_profile="6g")


def test_what_is_under_way_survives_a_snapshot():
    host, (first, second) = two_cars()
    sender, _ = attach(host, "sensor.other.v2x_custom", first)
    _, stream_id = attach(host, "sensor.other.v2x_custom", second, network_profile="5g")
    attach(host, CAM_NAME, first)
    roadside(host, CAM_NAME)
    _, cams = attach(host, CAM_NAME, second, network_profile="wifi")
    call(host, "send", sender, "kept")
    ticks(host, 1)
    again = snapshot.restore(snapshot.take(host), replace(host.context, outbox=Box()))
    again.connections = host.connections
    count = len(host.context.outbox.of(cams))
    ticks(host, 30)
    ticks(again, 30)
    assert heard(again, stream_id, CUSTOM)[0][0].text == b"kept"
    assert again.context.outbox.of(cams) == host.context.outbox.of(cams)[count:]


def test_carlas_own_client_reads_it(tmp_path):
    pytest.importorskip("carla")
    with served(map_name="t-junction", data_folder=tmp_path / "data") as server:
        done = subprocess.run(
            [sys.executable, str(SUPPORT / "wheel_v2x_script.py"), str(server.port)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "CARLA_CACHE_DIR": str(tmp_path / "cache")},
        )
        assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    message, power = found["text"]
    assert message["Message"] == "mind the gap"
    assert message["Header"] == {"Protocol Version": 2, "Message ID": "CUSTOM", "Station ID": found["cars"][0]}
    assert -100.0 < power < 0.0
    said = [said_message["Message"]["CAM Parameters"] for _, said_message, _ in found["said"]]
    speeds = [
        parameters["High Frequency Container"]["Basic Vehicle Container High Frequency"]["Speed"]["Value"]
        for parameters in said
    ]
    assert {parameters["Basic Container"]["Station Type"] for parameters in said} == {"Passenger Car"}
    beside = found["beside"]
    assert beside["Header"]["Station ID"] == found["roadside"]
    parameters = beside["Message"]["CAM Parameters"]
    assert parameters["Basic Container"]["Station Type"] == "Road Side Unit"
    assert parameters["High Frequency Container"] == {
        "High Frequency Container Present": "RSU Container High Frequency",
        "RSU Container High Frequency": {"Protected Communication Zone": []},
    }
    assert speeds == sorted(speeds)
    assert speeds[-1] > 300
