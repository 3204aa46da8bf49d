"""Small pictures: right colours, bounded size."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from samepath.cluster.monitor.thumbnails import WIDTH_PX, thumbnail_png
from tests.support.watched_clusters import payload_of

KINDS = ("rgb", "depth", "semantic_segmentation", "instance_segmentation", "normals")


def pixels_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(1, 1), (180, 120), (1440, 961), (241, 7)])
def test_any_picture_becomes_a_small_png(kind, size):
    found = pixels_of(thumbnail_png(f"sensor.camera.{kind}", payload_of(kind, *size)))
    height, width, _ = found.shape
    assert width <= WIDTH_PX
    step = -(-size[0] // WIDTH_PX)
    assert (width, height) == (-(-size[0] // step), -(-size[1] // step))


def test_a_colour_picture_keeps_its_colours():
    found = pixels_of(thumbnail_png("sensor.camera.rgb", payload_of("rgb")))
    height, width, _ = found.shape
    assert tuple(found[2, 2]) == (160, 196, 226)
    assert tuple(found[int(height * 0.58), int(width * 0.46)]) == (168, 44, 40)


def test_depth_grows_lighter_with_distance():
    found = pixels_of(thumbnail_png("sensor.camera.depth", payload_of("depth")))[:, 100, 0].astype(int)
    height = len(found)
    assert found[2] == 255
    below = found[int(height * 0.7) :]
    assert all(below[:-1] >= below[1:])
    assert below[0] > below[-1]


def test_labels_have_colours_of_their_own():
    found = pixels_of(thumbnail_png("sensor.camera.semantic_segmentation", payload_of("semantic_segmentation")))
    assert len(np.unique(found.reshape(-1, 3), axis=0)) == 4


def test_flow_is_coloured_by_direction():
    flow = np.zeros((10, 20, 2), "<f4")
    flow[:, :10, 0], flow[:, 10:, 0] = 0.5, -0.5
    flow[0, 0] = np.nan
    payload = struct.pack("<IIf", 20, 10, 90.0) + flow.tobytes()
    found = pixels_of(thumbnail_png("sensor.camera.optical_flow", payload))
    assert not found[0, 0].any()
    assert tuple(found[5, 2]) != tuple(found[5, 15])


@pytest.mark.parametrize(
    "payload", [b"", b"\0" * 12, struct.pack("<IIf", 4, 4, 90.0) + b"\0" * 63, struct.pack("<IIf", 2**31, 2**31, 90.0)]
)
def test_what_is_no_picture_has_none(payload):
    assert thumbnail_png("sensor.camera.rgb", payload) is None
    assert thumbnail_png("sensor.lidar.ray_cast", payload_of("rgb")) is None
