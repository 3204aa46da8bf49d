"""What comes over the wire is read back exactly as it was written, or refused; nothing else can happen."""

import math

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.states import Pose, Vector
from samepath.simulator.carla import codec
from samepath.simulator.carla import records as commands
from samepath.simulator.carla import records as r
from samepath.simulator.server import debug

NUMBER = st.floats(-1e9, 1e9)
VECTOR = st.builds(Vector, NUMBER, NUMBER, NUMBER)
ROTATION = st.builds(r.Rotation, NUMBER, NUMBER, NUMBER)
TRANSFORM = st.builds(r.Transform, VECTOR, ROTATION)
POINT2 = st.builds(r.Point2, NUMBER, NUMBER)
TEXT = st.text(max_size=20)
U8, U32 = st.integers(0, 255), st.integers(0, 2**32 - 1)
BOX = st.builds(r.BoundingBox, VECTOR, VECTOR, ROTATION, U32)
DESCRIPTION = st.builds(r.Description, U32, TEXT, st.lists(st.builds(r.AttributeValue, TEXT, U8, TEXT), max_size=3).map(tuple))
CONTROL = st.builds(r.VehicleControl, NUMBER, NUMBER, NUMBER, st.booleans(), st.booleans(), st.booleans(), st.integers(-5, 10))
WHEEL = st.builds(r.WheelPhysicsControl, *[NUMBER] * 9, VECTOR)
CURVE = st.lists(POINT2, max_size=3).map(tuple)
GEAR = st.builds(r.Gear, NUMBER, NUMBER, NUMBER)
PHYSICS = st.builds(
    r.PhysicsControl,
    CURVE, *[NUMBER] * 5, st.booleans(), NUMBER, NUMBER, NUMBER, st.lists(GEAR, max_size=3).map(tuple),
    NUMBER, NUMBER, VECTOR, CURVE, st.lists(WHEEL, max_size=4).map(tuple), st.booleans(),
)  # fmt: skip
COLOUR = st.builds(r.Colour, U8, U8, U8)
LIGHT = st.builds(r.StreetLight, U32, VECTOR, NUMBER, U8, COLOUR, st.booleans())
PAIRS = [
    (r.vector, VECTOR),
    (r.transform, TRANSFORM),
    (r.bounding_box, BOX),
    (r.description, DESCRIPTION),
    (r.vehicle_control, CONTROL),
    (r.ackermann_control, st.builds(r.AckermannControl, *[NUMBER] * 5)),
    (r.ackermann_settings, st.builds(r.AckermannSettings, *[NUMBER] * 6)),
    (r.walker_control, st.builds(r.WalkerControl, VECTOR, NUMBER, st.booleans())),
    (r.physics_control, PHYSICS),
    (r.weather, st.builds(r.WeatherParameters, *[NUMBER] * 14)),
    (r.light_state, LIGHT),
    (r.opendrive_parameters, st.builds(r.OpenDriveParameters, *[NUMBER] * 4, *[st.booleans()] * 3)),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


SETTINGS_REST = (NUMBER, st.booleans(), NUMBER, NUMBER, st.booleans())


def over_the_wire(value):
    return msgpack.unpackb(codec.pack(value), strict_map_key=False)


@pytest.mark.parametrize(("reader", "strategy"), PAIRS, ids=lambda item: getattr(item, "__name__", "") or None)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_record_is_read_as_it_was_written(reader, strategy, data):
    value = data.draw(strategy)
    assert reader(over_the_wire(value)) == value


@settings(max_examples=60, deadline=None)
@given(
    st.builds(r.Settings, *[st.booleans()] * 2, st.none() | NUMBER, st.booleans(), NUMBER, st.integers(-5, 99), *SETTINGS_REST)
)
def test_settings_carry_an_optional_step(value):
    assert r.settings(over_the_wire(r.write_settings(value))) == value


READERS = [reader for reader, _ in PAIRS] + [r.settings, debug.debug_shape, codec.optional(codec.u32), r.actor_ids]


@settings(max_examples=200, deadline=None)
@given(ANYTHING, st.sampled_from(range(len(READERS))))
def test_anything_else_is_refused_and_nothing_worse(value, index):
    try:
        READERS[index](value)
    except codec.WireError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300


@settings(max_examples=150, deadline=None)
@given(ANYTHING)
def test_a_command_that_cannot_be_read_is_marked_and_spoils_no_other(value):
    found = commands.batch([value, [[1, [7]]]])
    assert found[1] == commands.ActorCommand("destroy_actor", 7, ())


@settings(max_examples=100, deadline=None)
@given(DESCRIPTION, TRANSFORM, st.none() | U32, CONTROL)
def test_a_spawn_with_what_follows_it_is_read_whole(description, transform, parent, control):
    after = [[2, [0, control]]]
    spawn = [[0, [description, transform, codec.write_optional(parent), 0, "", [after]]]]
    found = commands.command(over_the_wire(spawn))
    follows = (commands.ActorCommand("apply_control_to_vehicle", 0, (control,)),)
    assert found == commands.SpawnCommand(description, transform, parent, 0, "", follows)


def test_commands_that_follow_one_another_for_ever_are_refused():
    inner = [[1, [7]]]
    for _ in range(20):
        inner = [[0, [[0, "x", []], [[0, 0, 0], [0, 0, 0]], [False], 0, "", [inner]]]]
    assert isinstance(commands.command(inner), commands.BrokenCommand)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e10, True, None, "1", 2**70, b"1", [1.0]])
def test_what_is_no_number_of_this_world_is_no_number(value):
    with pytest.raises(codec.WireError):
        codec.number(value)


def test_numbers_may_come_as_integers():
    assert codec.number(3) == 3.0
    assert type(codec.number(3)) is float


def test_the_token_has_24_bytes_and_leaves_the_address_to_the_client():
    token = codec.token(0x01020304, 2001)
    assert token == bytes.fromhex("04030201d1070100") + bytes(16)


def test_answers_have_the_shapes_the_client_expects():
    def unpacked(result):
        return msgpack.unpackb(codec.answer(7, result))

    assert unpacked(codec.value_result(5)) == [1, 7, None, [[1, 5]]]
    assert unpacked(codec.value_error("no")) == [1, 7, None, [[0, ["no"]]]]
    assert unpacked(codec.void_result()) == [1, 7, None, [[False]]]
    assert unpacked(codec.void_error("no")) == [1, 7, None, [[True, ["no"]]]]
    assert msgpack.unpackb(codec.refusal(7, "no")) == [1, 7, "no", None]
    assert codec.pack(codec.Raw(b"\x05")) == b"\x05"
    assert codec.write_optional(None) == (False,)


@settings(max_examples=50, deadline=None)
@given(TRANSFORM)
def test_a_transform_and_a_pose_are_the_same_place(value):
    pose = r.pose_of(value)
    assert pose == Pose(*value.location, value.rotation.roll, value.rotation.pitch, value.rotation.yaw)
    assert r.transform_of(pose) == value
