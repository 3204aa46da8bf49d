"""Every payload byte by byte: a stream that is off by one makes the client crash."""

import math
import struct

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.states import Vector
from samepath.simulator.carla import records as r
from samepath.simulator.carla import streams as frames

MOMENT = frames.FrameTime(7, 1.25)
FINITE = st.floats(-1e6, 1e6)
VECTOR = st.builds(Vector, FINITE, FINITE, FINITE)


def test_the_header_has_48_bytes_in_order():
    found = frames.header(4, MOMENT, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    assert len(found) == 48
    assert struct.unpack("<QQdffffff", found) == (4, 7, 1.25, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


def test_a_message_is_its_length_and_its_payload():
    assert frames.framed(b"abc") == b"\x03\x00\x00\x00abc"


def test_the_registry_is_that_of_the_client_0_9_16():
    order = sorted(frames.SENSOR_TYPES, key=frames.SENSOR_TYPES.__getitem__)
    assert [frames.SENSOR_TYPES[name] for name in order] == [*range(17), 20, 21]
    assert frames.WORLD_OBSERVER == 17
    assert order[0] == "sensor.other.collision"
    assert order[13] == "sensor.camera.rgb"


def test_an_actor_is_119_bytes_and_every_field_is_in_its_place():
    states = frames.ActorStates(2)
    row = states.rows
    row["id"][1], row["state"][1] = 0x01020304, frames.ACTIVE
    row["motion"][1] = np.arange(15)
    states.put_vehicle_control(1, r.VehicleControl(0.5, -0.25, 0.125, hand_brake=True, manual_gear_shift=True, gear=3))
    row["gear"][1], row["speed_limit"][1], row["light_state"][1], row["at_light"][1] = -1, 50.0, 2, 1
    row["light_id"][1], row["failure"][1] = 77, 1
    block = states.tobytes()
    assert len(block) == 2 * 119
    assert block[:119] == bytes(119)
    record = block[119:]
    assert struct.unpack_from("<IB15f", record) == (0x01020304, 1, *map(float, range(15)))
    vehicle = struct.unpack_from("<fffBBBifBBIB", record, 65)
    assert vehicle == (0.5, -0.25, 0.125, 1, 0, 1, -1, 50.0, 2, 1, 77, 1)
    assert record[65 + 30 :] == bytes(119 - 95)


def test_a_walker_and_a_light_use_the_same_bytes_otherwise():
    states = frames.ActorStates(2)
    states.put_walker_control(0, r.WalkerControl(Vector(0.0, -1.0, 0.0), 1.5, jump=True))
    row = states.rows
    row["sign_id"][1] = b"light 12"
    for name, value in {
        "green_s": 10,
        "yellow_s": 3,
        "red_s": 2,
        "elapsed_s": 1.5,
        "pole": 4,
        "frozen": 1,
        "colour": 2,
    }.items():
        row[name][1] = value
    block = states.tobytes()
    assert struct.unpack_from("<ffffB", block, 65) == (0.0, -1.0, 0.0, 1.5, 1)
    light = struct.unpack_from("<32sffffIBB", block, 119 + 65)
    assert light == (b"light 12" + bytes(24), 10.0, 3.0, 2.0, 1.5, 4, 1, 2)


def test_the_state_is_header_block_and_rows():
    states = frames.ActorStates(3)
    found = frames.episode_state(MOMENT, 5, 12.5, 0.05, frames.MAP_CHANGED, states)
    assert len(found) == 48 + 36 + 3 * 119
    assert struct.unpack_from("<QQd", found) == (17, 7, 1.25)
    episode_id, wall_s, delta_s, x, y, z, flags = struct.unpack_from("<QdfiiiI", found, 48)
    assert (episode_id, wall_s, x, y, z, flags) == (5, 12.5, 0, 0, 0, 1)
    assert np.float32(delta_s) == np.float32(0.05)


ACTOR = st.builds(
    r.Actor,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.builds(
        r.Description,
        st.integers(0, 2**32 - 1),
        st.text(max_size=10),
        st.lists(st.builds(r.AttributeValue, st.text(max_size=5), st.integers(0, 5), st.text(max_size=5)), max_size=3),
    ),
    st.builds(r.BoundingBox, VECTOR, VECTOR, st.builds(r.Rotation, FINITE, FINITE, FINITE), st.integers(0, 2**32 - 1)),
    st.binary(max_size=2),
    st.sampled_from([b"", bytes(24)]),
)


def is_actor(found):
    number, parent, (uid, name, attributes), (middle, half, turn, box_id), tags, token = found
    assert all(isinstance(value, int) for value in (number, parent, uid, box_id))
    assert isinstance(name, str)
    assert all(len(attribute) == 3 and isinstance(attribute[1], int) for attribute in attributes)
    assert [len(value) for value in (middle, half, turn)] == [3, 3, 3]
    assert isinstance(tags, bytes)
    assert isinstance(token, bytes)
    assert len(token) in (0, 24)


@settings(max_examples=40, deadline=None)
@given(ACTOR, ACTOR, st.builds(Vector, FINITE, FINITE, FINITE), FINITE)
def test_events_are_two_actors_and_what_happened(this, other, impulse, distance):
    a, b, felt = msgpack.unpackb(frames.collision(this, other, impulse))
    is_actor(a)
    is_actor(b)
    assert felt == list(impulse)
    a, b, far = msgpack.unpackb(frames.obstacle(this, other, distance))
    is_actor(a)
    is_actor(b)
    assert far == distance


@settings(max_examples=40, deadline=None)
@given(st.lists(FINITE, min_size=7, max_size=7))
def test_measurements_are_numbers_in_order(values):
    assert msgpack.unpackb(frames.gnss(*values[:3])) == values[:3]
    found = msgpack.unpackb(frames.imu(Vector(*values[:3]), Vector(*values[3:6]), values[6]))
    assert found == [values[:3], values[3:6], values[6]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_never_leaves(bad):
    with pytest.raises(ValueError, match="no measurement"):
        frames.gnss(bad, 0.0, 0.0)
    with pytest.raises(ValueError, match="no measurement"):
        frames.imu(Vector(), Vector(0.0, bad, 0.0), 0.0)
