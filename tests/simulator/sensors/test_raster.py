"""The rasteriser: where pixels are, what covers them, and triangles that try to break it."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError, UnknownNameError
from samepath.core.states import Pose
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import FAR_M, Camera, Channel, Lamp, create_renderer
from tests.support.camera_scenes import SKY, WEATHERS, bare_scene, cameras, digest, instances, looks, street, street_scene

SEEN = Channel.DEPTH | Channel.LABEL
WIDTH, HEIGHT = 64, 48
AT_ORIGIN = Pose()


@pytest.fixture(scope="module")
def renderer():
    made = create_renderer("software", threads=1, detail=0.0)
    yield made
    made.close()


def draw(renderer, triangles, pose=AT_ORIGIN, width=WIDTH, height=HEIGHT, fov_deg=90.0, labels=None):
    return renderer.render(bare_scene(triangles, labels), [Camera(pose, width, height, fov_deg, SEEN)])[0]


def rays(width=WIDTH, height=HEIGHT, fov_deg=90.0):
    """The directions of all pixels for a camera at the origin that looks along x."""
    focal = 0.5 * width / np.tan(np.radians(fov_deg / 2))
    right, down = np.meshgrid((np.arange(width) + 0.5 - width / 2) / focal, (np.arange(height) + 0.5 - height / 2) / focal)
    return np.stack([np.ones_like(right), right, -down], axis=-1)


def struck(triangle, directions):
    """Depth where rays from the origin meet a face turned to them, infinite elsewhere; and how far from its edges, in sines."""
    a, b, c = (np.asarray(point, float) for point in triangle)
    normal = np.cross(b - a, c - a)
    along = directions @ normal
    with np.errstate(all="ignore"):
        depth = (a @ normal) / along
        size = np.linalg.norm(directions, axis=-1)
        sides = [np.cross(q, p) for p, q in ((a, b), (b, c), (c, a))]
        inside = np.stack([directions @ side / (size * np.linalg.norm(side)) for side in sides])
    hit = (inside > 0).all(axis=0) & (along < 0) & (depth > 0.05)
    return np.where(hit, depth, np.inf), np.abs(inside).min(axis=0)


def test_a_point_is_seen_where_the_pinhole_formula_says(renderer):
    # A small square 10 m ahead, 2 m to the right and 1 m up: column 32 + 32 * 2 / 10, row 24 - 32 * 1 / 10.
    y, z, half = 2.0, 1.0, 0.16
    corners = [(10, y - half, z - half), (10, y - half, z + half), (10, y + half, z + half), (10, y + half, z - half)]
    frame = draw(renderer, [[corners[0], corners[1], corners[2]], [corners[0], corners[2], corners[3]]], labels=[3, 3])
    rows, columns = np.nonzero(frame.label == 3)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == {(20, 38)}
    assert frame.depth_m[20, 38] == pytest.approx(10.0, abs=1e-5)


def test_depth_is_along_the_optical_axis_and_not_along_the_ray(renderer):
    frame = draw(renderer, [[(7, -90, -90), (7, 0, 130), (7, 90, -90)]], labels=[3])
    assert (frame.label == 3).all()
    np.testing.assert_allclose(frame.depth_m, 7.0, rtol=1e-6)


def test_the_sky_is_a_thousand_metres_away_and_so_is_all_beyond(renderer):
    frame = draw(renderer, [[(2000, -500, -500), (2000, 0, 700), (2000, 500, -500)]], labels=[3])
    assert {3, SKY} == set(np.unique(frame.label))
    assert (frame.depth_m == FAR_M).all()


def test_faces_seen_from_behind_are_not_there(renderer):
    triangle = [(5, -9, -9), (5, 0, 9), (5, 9, -9)]
    assert (draw(renderer, [triangle]).label != SKY).any()
    assert (draw(renderer, [triangle[::-1]]).label == SKY).all()


def test_neighbours_leave_no_pixel_out_and_share_none(renderer):
    generator = np.random.Generator(np.random.Philox(5))
    grid = np.stack(np.meshgrid(np.linspace(-30, 30, 10), np.linspace(-25, 25, 8), indexing="ij"), axis=-1)
    grid[1:-1, 1:-1] += generator.uniform(-1.5, 1.5, grid[1:-1, 1:-1].shape)
    wall = np.concatenate([np.full((*grid.shape[:2], 1), 12.0) + generator.uniform(-0.3, 0.3, (10, 8, 1)), grid], axis=-1)
    a, b, c, d = wall[:-1, :-1], wall[:-1, 1:], wall[1:, 1:], wall[1:, :-1]
    triangles = np.concatenate([np.stack([a, b, c], axis=2).reshape(-1, 3, 3), np.stack([a, c, d], axis=2).reshape(-1, 3, 3)])
    frame = draw(renderer, triangles, width=301, height=203)
    assert (frame.label != SKY).all()
    # Drawn one by one, every pixel belongs to exactly one of them: a wall that is bent, but nowhere folded over.
    owners = np.zeros((48, 64), int)
    for triangle in triangles:
        owners += draw(renderer, [triangle], labels=[3]).label == 3
    assert (owners == 1).all()


coordinate = st.floats(-30.0, 30.0).map(lambda x: float(np.float32(x)))
point = st.tuples(coordinate, coordinate, coordinate)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(point, point, point), min_size=1, max_size=4))
def test_triangles_anywhere_also_through_the_camera_agree_with_rays(triangles):
    renderer = SoftwareRenderer(1, detail=0.0)
    frame = renderer.render(bare_scene(triangles, [3] * len(triangles)), [Camera(Pose(), WIDTH, HEIGHT, 90.0, SEEN)])[0]
    nearest, clear = np.full((HEIGHT, WIDTH), np.inf), np.ones((HEIGHT, WIDTH), bool)
    for triangle in triangles:
        depth, edge = struck(triangle, rays())
        flat = np.abs(rays() @ np.cross(np.subtract(triangle[1], triangle[0]), np.subtract(triangle[2], triangle[0])))
        clear &= (edge > 1e-3) & (flat > 1e-4)
        nearest = np.minimum(nearest, depth)
    # What the near plane cuts is cut by depth, so hits just there may go either way.
    clear &= ~(nearest < 0.051)
    expected = np.isfinite(nearest)
    np.testing.assert_array_equal((frame.label == 3)[clear], expected[clear])
    both = clear & expected
    np.testing.assert_allclose(frame.depth_m[both], np.minimum(nearest[both], FAR_M), rtol=2e-3)
    renderer.close()


@pytest.mark.parametrize(
    "triangle",
    [
        [(5, 1, 1), (5, 1, 1), (5, 1, 1)],
        [(5, -9, 0), (5, 0, 0), (5, 9, 0)],
        [(-5, -9, -9), (-5, 0, 9), (-5, 9, -9)],
        [(0, -9, -9), (0, 0, 9), (0, 9, -9)],
        [(0.01, -9, -9), (0.01, 0, 9), (0.01, 9, -9)],
        [(1e6, 0, 0), (5, -1e6, 0), (5, 0, 1e6)],
        [(1e18, 0, 0), (5, -1e18, 0), (5, 0, 1e18)],
    ],
    ids=["a point", "a line", "behind", "in the plane of the camera", "too near", "very large", "beyond all measure"],
)
def test_triangles_that_cannot_be_seen_do_no_harm(renderer, triangle):
    wall = [(20, -90, -90), (20, 0, 190), (20, 90, -90)]
    frame = draw(renderer, [triangle, wall], labels=[4, 3])
    assert set(np.unique(frame.label)) <= {3, 4}
    assert np.isfinite(frame.depth_m).all()


@pytest.mark.parametrize("reach_m", [1e2, 1e4, 1e6])
def test_a_ground_that_reaches_far_behind_the_camera_is_seen_up_to_the_horizon(renderer, reach_m):
    a, b, c, d = ((x, y, 0.0) for x, y in ((-reach_m, -reach_m), (reach_m, -reach_m), (reach_m, reach_m), (-reach_m, reach_m)))
    frame = draw(renderer, [[a, b, c], [a, c, d]], Pose(z_m=1.5), labels=[1, 1])
    down = -rays()[..., 2]
    expected = np.where(down > 0, 1.5 / np.where(down > 0, down, 1.0), np.inf)
    seen = expected < 0.99 * reach_m
    assert ((frame.label == 1) == (expected <= reach_m))[seen | (down < 0)].all()
    np.testing.assert_allclose(frame.depth_m[seen], np.minimum(expected[seen], FAR_M), rtol=1e-3)


def test_normals_are_those_of_the_faces(renderer):
    camera = Camera(Pose(), 8, 6, 60.0, Channel.NORMAL)
    frame = renderer.render(bare_scene([[(7, -90, -90), (7, 0, 130), (7, 90, -90)]]), [camera])[0]
    assert (frame.normal == (-127, 0, 0)).all()


def test_flow_is_how_far_a_pixel_has_moved(renderer):
    scene = bare_scene([[(10, -90, -90), (10, 0, 190), (10, 90, -90)]])
    moved = instances([(1, Pose(y_m=0.5, z_m=0.25), 77)])
    still = scene.moving
    scene = replace(scene, moving=replace(moved, was_position=still.position, was_axes=still.axes))
    frame = renderer.render(scene, [Camera(Pose(), 40, 20, 90.0, Channel.FLOW)])[0]
    # 0.5 m to the right at 10 m, of a picture 20 m wide there: a twentieth of half its width; 0.25 m up of 10 m.
    np.testing.assert_allclose(frame.flow[..., 0], 0.05, atol=1e-6)
    np.testing.assert_allclose(frame.flow[..., 1], 0.05, atol=1e-6)


def test_a_turning_camera_moves_the_sky_and_the_picture_alike(renderer):
    camera = Camera(Pose(yaw_deg=1.0), 40, 20, 90.0, Channel.FLOW | Channel.LABEL, Pose())
    frame = renderer.render(bare_scene([[(30, -90, -90), (30, 0, 3), (30, 90, -90)]]), [camera])[0]
    assert {SKY} < set(np.unique(frame.label))
    # Turning to the right moves everything to the left: by tan(1 degree) of half the width in the middle.
    assert frame.flow[10, 20, 0] == pytest.approx(-np.tan(np.radians(1.0)), rel=2e-3)
    assert (frame.flow[..., 0] < 0).all()


def test_what_is_hidden_or_coarser_changes_few_labels(renderer):
    scene, views = street_scene(), cameras(Channel.LABEL, 240, 160)
    fine = renderer.render(scene, views)
    coarse = SoftwareRenderer(1).render(scene, views)
    for a, b in zip(fine, coarse, strict=True):
        assert np.mean(a.label == b.label) > 0.985


def test_samples_soften_colours_and_nothing_else(renderer):
    scene = street_scene()
    views = cameras()
    (plain, *_), (soft, *_) = renderer.render(scene, views), renderer.render(scene, cameras(samples=2))
    for name in ("depth_m", "label", "instance", "normal", "flow"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(soft, name))
    assert 0 < np.abs(plain.bgra.astype(int) - soft.bgra.astype(int)).mean() < 12


def test_frames_are_written_over_only_when_handed_back(renderer):
    scene, views = street_scene(), cameras(SEEN)
    first = renderer.render(scene, views)
    before = digest(first)
    second = renderer.render(scene, [*views[1:], views[0]])
    assert digest(first) == before
    again = renderer.render(scene, views, second)
    assert again is second
    assert digest(again) == before
    assert renderer.render(scene, views[:1], second) is not second


def test_cameras_of_different_sizes_and_channels_share_a_call(renderer):
    scene, (first, other, _) = street_scene(), cameras()
    small = Camera(first.pose, 31, 17, 100.0, Channel.INSTANCE)
    together = renderer.render(scene, [first, small, other])
    assert together[1].bgra is None
    assert together[1].instance.shape == (17, 31)
    for k, camera in enumerate((first, small, other)):
        assert digest([together[k]]) == digest(renderer.render(scene, [camera]))
    assert len(renderer.render(scene, [])) == 0


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(renderer, number):
    triangle = [(5, -9, -9), (5, 0, 9), (5, 9, -9)]
    scene = bare_scene([triangle])
    with pytest.raises(InputError, match="finite"):
        renderer.render(scene, [Camera(Pose(x_m=number), 8, 8, 90.0)])
    with pytest.raises(InputError, match="finite"):
        renderer.render(replace(scene, moving=instances([(1, Pose(y_m=number), 5)])), [Camera(Pose(), 8, 8, 90.0)])
    with pytest.raises(InputError, match="finite"), np.errstate(all="ignore"):
        bare_scene([[(number, 0, 0), *triangle[1:]]])


def test_what_was_drawn_before_does_not_matter():
    """Head lamps pass by, cameras look elsewhere, weathers change: the last picture is that of a fresh renderer."""
    worn = SoftwareRenderer(1)
    for shift_m, weather, k in (
        (-30.0, "night", 0),
        (0.0, "noon", 1),
        (-12.0, "night", 2),
        (-3.0, "night", 1),
        (0.0, "night", 0),
    ):
        scene = street().scene(looks(shift_m, Lamp.LOW_BEAM), WEATHERS[weather])
        frames = worn.render(scene, cameras()[k : k + 1])
    assert digest(frames) == digest(SoftwareRenderer(1).render(scene, cameras()[:1]))


def test_a_missing_library_is_named_with_the_way_to_get_it():
    script = (
        "import sys; sys.modules['numba'] = None;"
        "from samepath.simulator.sensors.renderer import create_renderer; create_renderer()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "renderer 'software' needs numba: pip install 'samepath[sensors]'" in done.stderr.splitlines()[-1]


def test_what_a_renderer_cannot_do_is_refused_in_one_line():
    with pytest.raises(UnknownNameError, match="did you mean 'software'"):
        create_renderer("sofware")
    with pytest.raises(InputError, match="1 to 1024 threads"):
        create_renderer("software", threads=0)
    with pytest.raises(InputError, match="samples"):
        SoftwareRenderer(1).render(bare_scene([[(5, 0, 0), (5, 1, 0), (5, 0, 1)]]), [Camera(Pose(), 4, 4, 90.0, samples=9)])
