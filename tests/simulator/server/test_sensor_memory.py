"""Hours of sensors that come and go: what is kept of them is bounded by those that live."""

import gc
import itertools
import sys

import numpy as np
import pytest

pytest.importorskip("numba")

from samepath.simulator.server.rendering import LocalRenderer
from tests.support.serving import call, described, episode, ticks

AT = [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
KINDS = (
    ("sensor.camera.dvs", {"image_size_y": 32}, "image_size_x"),
    ("sensor.camera.rgb", {"image_size_y": 32}, "image_size_x"),
    ("sensor.camera.optical_flow", {"image_size_y": 32}, "image_size_x"),
    ("sensor.lidar.ray_cast", {"points_per_second": 20_000}, "range"),
    ("sensor.lidar.ray_cast_semantic", {"points_per_second": 20_000}, "range"),
    ("sensor.other.radar", {}, "range"),
)


def held_bytes(root):
    """The bytes of all arrays and texts that can be reached from an object, modules and types left out."""
    seen, todo, total = set(), [root], 0
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (type, type(sys))) or callable(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            total += thing.nbytes
        elif isinstance(thing, (bytes, bytearray)):
            total += len(thing)
        else:
            todo += gc.get_referents(thing)
    return total


def come(host, kind, attributes):
    """A sensor that somebody listens to."""
    record = call(host, "spawn_actor", described(kind, **attributes), AT)
    host.connections.subscriptions.add(host.actors.find(record.id).stream_id)
    return record.id


def test_nothing_of_the_size_of_a_picture_or_a_scan_outlives_its_sensor():
    host = episode()
    renderer = host.context.renderer
    assert isinstance(renderer, LocalRenderer)
    lidar = come(host, "sensor.lidar.ray_cast", {"points_per_second": 20_000})
    ticks(host, 2)
    alone_bytes = held_bytes(renderer._models)
    for generation in range(12):
        gone = [come(host, kind, {**fixed, varied: 40 + generation}) for kind, fixed, varied in KINDS]
        ticks(host, 2)
        for number in gone:
            call(host, "destroy_actor", number)
    ticks(host, 1)
    # The rays of the one that lives, and of each that is gone a few numbers: a table of an event camera is the largest of them.
    assert held_bytes(renderer._models) < alone_bytes + 12 * len(KINDS) * 10_000
    call(host, "destroy_actor", lidar)


def test_models_of_sensors_that_are_gone_are_let_go_of_also_when_nothing_is_due_any_more():
    host = episode()
    renderer = host.context.renderer
    gone = [come(host, "sensor.camera.rgb", {"image_size_x": 40 + k, "image_size_y": 32}) for k in range(5)]
    ticks(host, 1)
    assert len(renderer._models) == 5
    for number in gone:
        call(host, "destroy_actor", number)
    ticks(host, 110)
    assert renderer._models == {}


def test_another_map_takes_everything_of_the_last_one_with_it():
    host = episode()
    come(host, "sensor.camera.dvs", {"image_size_x": 40, "image_size_y": 32})
    ticks(host, 2)
    for name in ("oval", "t-junction", "oval"):
        call(host, "load_new_episode", name, False, 0xFFFF)
        come(host, "sensor.camera.rgb", {"image_size_x": 40, "image_size_y": 32})
        assert host.context.renderer._models == {}
        ticks(host, 1)
        assert len(host.context.renderer._models) == 1


def test_a_sensor_that_measures_seldom_gives_the_same_bytes_after_its_model_was_let_go_of(monkeypatch):
    def sent(kept):
        monkeypatch.setattr("samepath.simulator.server.rendering._MODEL_TICKS", kept)
        host = episode()
        kinds = [("sensor.lidar.ray_cast", {"points_per_second": 20_000}), ("sensor.camera.dvs", {"image_size_x": 40})]
        for kind, attributes in kinds:
            come(host, kind, {**attributes, "sensor_tick": 0.25})
        ticks(host, 16)
        streams = [entry.stream_id for entry in host.actors if entry.type_id.startswith("sensor.")]
        return [host.context.outbox.of(stream) for stream in streams]

    assert sent(0) == sent(100)


def test_more_models_than_are_kept_stay_as_long_as_all_of_them_measure(monkeypatch):
    monkeypatch.setattr("samepath.simulator.server.rendering._MODELS_KEPT", 2)
    host = episode()
    for width in range(40, 45):
        come(host, "sensor.camera.rgb", {"image_size_x": width, "image_size_y": 32})
    ticks(host, 3)
    models = [model for model, _ in host.context.renderer._models.values()]
    ticks(host, 1)
    now = [model for model, _ in host.context.renderer._models.values()]
    assert all(a is b for a, b in itertools.zip_longest(models, now))
