"""What a server lets a client ask for, and what the link of a cluster carries: one is derived from the other."""

import msgpack
import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.messages import join_tick
from samepath.cluster.settings import link_limits, tick_bytes
from samepath.core.states import Pose, Vector
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import ACTOR_STATE, FrameTime, header
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.weather import SceneWeather
from samepath.simulator.server.debug import DebugBox, DebugShape, DebugText
from samepath.simulator.server.rendering import SceneView
from samepath.simulator.server.sensors import SENSOR_MODELS, VisualSensor, build_sensor
from tests.support.serving import call, described, episode

LIMITS = ServerLimits()
LINK = link_limits(LIMITS)
HEAD_BYTES = len(header(0, FrameTime(0, 0.0)))
STEP_S = 0.05
VISUAL = [
    blueprint.id
    for blueprint in blueprints.library()
    if blueprint.id in SENSOR_MODELS and issubclass(SENSOR_MODELS[blueprint.id], VisualSensor)
]


def largest(kind):
    """The attributes with which a sensor of a kind sends and remembers most, of those that a server takes."""
    if kind.startswith("sensor.camera."):
        resting = {"refractory_period_ns": 1} if kind.endswith("dvs") else {}
        return {"image_size_x": 4096, "image_size_y": LIMITS.image_pixels // 4096, **resting}
    if kind == "sensor.other.radar":
        return {"points_per_second": int((1 << 16) / STEP_S)}
    point_bytes, channels = (24 if kind.endswith("semantic") else 16), 1024
    columns = (LIMITS.measurement_bytes - 8 - 4 * channels) // (channels * point_bytes)
    return {"channels": channels, "points_per_second": int(columns * channels / STEP_S)}


@pytest.mark.parametrize("kind", VISUAL)
def test_every_allowed_sensor_fits_the_link(kind):
    model = build_sensor(described(kind, **largest(kind)), 0, weather_felt=False)
    model.check_size(STEP_S, LIMITS.measurement_bytes)
    size = model._size(STEP_S)
    assert max(size) + HEAD_BYTES <= LINK.bulk_bytes
    assert max(size) > 1 << 19  # it is a large one
    assert LIMITS.measurement_bytes + HEAD_BYTES <= LINK.bulk_bytes


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("sensor.camera.rgb", {"image_size_x": 4097, "image_size_y": 2048}),
        ("sensor.camera.dvs", {"image_size_x": 4096, "image_size_y": 2049}),
        ("sensor.lidar.ray_cast", {"channels": 64, "points_per_second": 170_000_000}),
        ("sensor.lidar.ray_cast_semantic", {"channels": 64, "points_per_second": 115_000_000}),
    ],
)
def test_a_sensor_that_the_link_could_not_carry_is_refused_as_it_is_spawned(kind, attributes):
    host = episode()
    actors = len(host.actors)
    with pytest.raises(CallError, match="was wanted, but") as refused:
        call(host, "spawn_actor", described(kind, **attributes), [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    assert "\n" not in str(refused.value)
    assert len(host.actors) == actors


def test_every_allowed_answer_call_and_map_fits_the_link():
    assert LIMITS.answer_bytes + 64 <= LINK.bulk_bytes
    assert LIMITS.message_bytes <= LINK.bulk_bytes
    assert LIMITS.opendrive_bytes <= LINK.bulk_bytes
    assert tick_bytes(LIMITS) <= LINK.bulk_bytes


def test_a_part_of_the_bulk_fits_a_frame_and_shared_memory_and_does_not_fill_the_link():
    assert LINK.bulk_bytes <= min(LINK.frame_bytes, LINK.broadcast_bytes_max, LINK.arena_bytes_max)
    assert 2 * LINK.bulk_bytes < LINK.waiting_bytes


def test_the_largest_tick_is_as_large_as_was_counted_at_most():
    limits = ServerLimits(actors=300, debug_shapes=300, debug_text_characters=100_000, opendrive_bytes=0)
    looks = tuple(
        ActorAppearance(2**31 + number, "vehicle.mercedes.coupe_2020", Pose(1e9, 1e9, 1e9, 1e9, 1e9, 1e9), (255, 255, 255))
        for number in range(limits.actors)
    )
    box = DebugBox((Vector(1e9, 1e9, 1e9), Vector(1e9, 1e9, 1e9), (1e9, 1e9, 1e9), 2**32 - 1), (1e9, 1e9, 1e9), 1e9)
    texts = [DebugText(Vector(1e9, 1e9, 1e9), "\N{ROLLING ON THE FLOOR LAUGHING}" * 1000, True) for _ in range(100)]
    shapes = [DebugShape(shape, (255, 255, 255, 255), 1e9, True) for shape in (*texts, *[box] * 200)]
    past = tuple((look.id, look.pose) for look in looks)
    view = SceneView(1, 2, 3, looks, (Vector(),) * len(looks), SceneWeather(), tuple(range(0)), (), past, tuple(shapes))
    state = bytes(limits.actors * ACTOR_STATE.itemsize)
    # Weather, counts and names of types are there once, however many actors there are.
    assert len(join_tick(state, view.pack())) <= tick_bytes(limits) + 4096


def test_the_texts_of_debug_shapes_are_bounded_together_and_the_oldest_go_first():
    host = episode(limits=ServerLimits(debug_text_characters=10_000))
    for k in range(10):
        call(host, "draw_debug_shape", [[4, [[0.0, 0.0, 0.0], str(k) * 3_000, False]], [255, 0, 0], -1.0, True])
    assert [shape.shape.text[0] for shape in host.debug.shapes] == ["7", "8", "9"]
    host.debug.restore(msgpack.unpackb(msgpack.packb(host.debug.state())))
    call(host, "draw_debug_shape", [[4, [[0.0, 0.0, 0.0], "x" * 3_000, False]], [255, 0, 0], -1.0, True])
    assert [shape.shape.text[0] for shape in host.debug.shapes] == ["8", "9", "x"]
    call(host, "clear_debug_string")
    assert host.debug.shapes == ()
