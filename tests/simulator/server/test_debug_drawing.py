"""Debug shapes in pictures: where they must be, hidden by what is nearer, and only when asked for."""

import struct
from importlib.util import find_spec

import numpy as np
import pytest
from test_episode import place

from tests.support.serving import call, described, episode, ticks

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="sensors that see need numba")

RED = (255, 0, 0)
WIDTH, HEIGHT = 160, 120
EYE_Z_M = 3.0


def picture(*shapes, draw_debug=True, pitch=0.0):
    """Draw shapes, each (kind, shape), and return what a colour camera at (0, 0, 3) that looks along x sees."""
    host = episode(draw_debug=draw_debug)
    attributes = {"image_size_x": WIDTH, "image_size_y": HEIGHT, "fov": 90.0}
    actor = call(host, "spawn_actor", described("sensor.camera.rgb", **attributes), place(z=EYE_Z_M, pitch=pitch))
    stream_id = struct.unpack("<I", actor.stream_token[:4])[0]
    call(host, "get_sensor_token", stream_id)
    for shape in shapes:
        call(host, "draw_debug_shape", (shape, RED, -1.0, True))
    ticks(host, 1)
    payload = host.context.outbox.of(stream_id)[-1]
    return np.frombuffer(payload[60:], np.uint8).reshape(HEIGHT, WIDTH, 4)


def red(image):
    return np.argwhere((image[..., 2] == 255) & (image[..., 1] == 0) & (image[..., 0] == 0))


def test_a_line_is_where_a_pinhole_camera_sees_it():
    # 10 m ahead, 1 m above the eye, from 2 m left to 2 m right; focal length 80 px.
    line = (1, ((10.0, -2.0, EYE_Z_M + 1.0), (10.0, 2.0, EYE_Z_M + 1.0), 0.01))
    found = red(picture(line))
    assert set(found[:, 0]) == {HEIGHT // 2 - 8}
    assert (found[:, 1].min(), found[:, 1].max()) == (WIDTH // 2 - 16, WIDTH // 2 + 16)


def test_what_is_behind_the_ground_is_hidden_but_not_on_the_glass():
    below = ((12.0, -1.0, -2.0), (12.0, 1.0, -2.0), 0.05)
    assert len(red(picture((1, below)))) == 0
    assert len(red(picture((6, below)))) > 5


def test_every_kind_of_shape_is_drawn():
    box = (((12.0, 0.0, EYE_Z_M), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), 0), (0.0, 30.0, 0.0), 0.02)
    line = ((8.0, -1.0, EYE_Z_M), (8.0, 1.0, EYE_Z_M + 1.0), 0.02)
    shapes = [(0, ((6.0, 0.0, EYE_Z_M), 0.3)), (1, line), (2, (line, 0.4)), (3, box), (4, ((9.0, 0.0, EYE_Z_M), "here", False))]
    counts = [len(red(picture(shape))) for shape in shapes]
    assert all(count > 5 for count in counts)
    assert counts[2] > counts[1], "an arrow has a head"


@pytest.mark.parametrize("begin", [(-5.0, 0.3, 2.0), (0.0, 0.0, EYE_Z_M), (1e8, 1e8, 1e8), (1e-3, 50.0, 3.0)])
def test_lines_through_behind_and_far_beyond_the_camera_do_no_harm(begin):
    shapes = (1, (begin, (15.0, 0.0, 2.0), 0.05)), (1, (begin, begin, 1e6)), (0, (begin, 1e9))
    drawn = picture(*shapes)
    assert np.array_equal(drawn, picture(*shapes)), "drawn again, the same bytes"
    line = (6, ((10.0, -2.0, 4.0), (10.0, 2.0, 4.0), 0.05))
    assert len(red(picture(*shapes, line))) >= len(red(picture(line))), "what else is drawn is still there"


def test_without_being_asked_nothing_is_drawn():
    line = (6, ((10.0, -2.0, 4.0), (10.0, 2.0, 4.0), 0.05))
    plain = picture()
    assert np.array_equal(picture(line, draw_debug=False), plain)
    assert np.array_equal(picture(line), picture(line))
    assert not np.array_equal(picture(line), plain)
