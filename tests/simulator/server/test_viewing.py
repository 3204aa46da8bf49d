"""Views and orders: what is written is what is read, to the bit, and nothing else is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.states import Pose, Vector
from samepath.simulator.carla.codec import WireError
from samepath.simulator.carla.records import BoundingBox, Colour, Rotation
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.renderer import Lamp
from samepath.simulator.sensors.weather import SceneWeather
from samepath.simulator.server.debug import DebugArrow, DebugBox, DebugLine, DebugPoint, DebugShape, DebugText
from samepath.simulator.server.rendering import ROUND_BYTES, RenderRequest, SceneView, pack_requests, rounds, unpack_requests

real = st.floats(-1e6, 1e6)
poses = st.builds(Pose, real, real, real, real, real, real)
looks = st.builds(
    ActorAppearance,
    st.integers(1, 1 << 31),
    st.sampled_from(["vehicle.tesla.model3", "walker.pedestrian.0001"]),
    poses,
    st.none() | st.tuples(real, real, real),
    st.integers(0, 2047).map(Lamp),
    st.none() | st.floats(0.0, 1e4),
)
line = DebugLine(Vector(1.0, 2.0, 3.0), Vector(4.0, 5.0, 6.0), 0.1)
SHAPES = (
    DebugShape(DebugPoint(Vector(1.5, 2.0, 3.0), 0.2), Colour(1, 2, 3), 0.5, False),
    DebugShape(line, Colour(255, 0, 0), -1.0, True),
    DebugShape(DebugArrow(line, 0.3), Colour(0, 0, 9), 0.0, False, hud=True),
    DebugShape(DebugBox(BoundingBox(Vector(1.0), Vector(2.0)), Rotation(1.0, 2.0, 3.0), 0.1), Colour(0, 1, 0), 1.0, False),
    DebugShape(DebugText(Vector(0.0, 0.0, 5.0), "hello", True), Colour(9, 9, 9), 2.0, False),
)


@given(st.lists(looks, max_size=6), st.booleans(), st.lists(st.integers(0, 4), max_size=5))
def test_a_view_is_read_as_it_was_written(seen, with_past, lights):
    view = SceneView(
        3, 17, 5, tuple(seen), tuple(Vector(0.1 * k, -0.0, 1e-300) for k in range(len(seen))), SceneWeather(fog_density=3.25),
        tuple(lights), ("a tree", "b"), tuple((item.id, item.pose) for item in seen) if with_past else None, SHAPES,
    )  # fmt: skip
    found = SceneView.unpack(view.pack())
    assert found == view
    assert found.pack() == view.pack()


@given(poses, st.none() | poses, st.binary(max_size=20))
def test_orders_are_read_as_they_were_written(pose, was, memory):
    order = RenderRequest(
        7, 9, "sensor.camera.rgb", (("fov", "90"),), bytes(8) + (41).to_bytes(8, "little") + bytes(32), pose, was, 3, 12, 0.6,
        0.05, Vector(1.0, -2.0, 0.0), memory,
    )  # fmt: skip
    assert order.frame == 41
    data, memories = pack_requests((order, order))
    assert memories == ((memory, memory) if memory else ())
    assert unpack_requests(data, memories) == (order, order)
    if memory:
        with pytest.raises(WireError, match="remembers"):
            unpack_requests(data, memories[1:])


def sized(number, size_bytes, text=""):
    return RenderRequest(number, number, "sensor.camera.rgb", (("role_name", text),), b"", Pose(), None, 0, 0, 0.0, 0.05,
                         size_bytes=size_bytes)  # fmt: skip


@given(st.lists(st.integers(0, 2 * ROUND_BYTES), max_size=12))
def test_requests_are_cut_into_rounds_that_bring_no_more_than_is_meant(sizes):
    requests = tuple(sized(number, size_bytes) for number, size_bytes in enumerate(sizes))
    found = rounds(requests)
    assert tuple(request for part in found for request in part) == requests
    assert all(len(part) == 1 or sum(request.size_bytes for request in part) <= ROUND_BYTES for part in found)


def test_many_requests_and_long_texts_make_rounds_too():
    assert [len(part) for part in rounds([sized(number, 0) for number in range(2500)])] == [1000, 1000, 500]
    wordy = [sized(number, 0, "x" * 4000 + str(number)) for number in range(1200)]
    assert max(len(pack_requests(part)[0]) for part in rounds(wordy)) < 5 << 20


@given(st.binary(max_size=60))
def test_junk_is_refused(data):
    for read in (SceneView.unpack, unpack_requests):
        try:
            read(data)
        except WireError:
            continue
        assert data == b"\x90"  # an empty list of orders is one
        assert read is unpack_requests


def test_a_view_with_a_part_missing_is_refused():
    whole = SceneView(1, 1, 1, (), (), SceneWeather()).pack()
    with pytest.raises(WireError):
        SceneView.unpack(whole[:-1])
