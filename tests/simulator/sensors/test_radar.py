"""The radar: inside its cone, at the right depth, and with the speed at which the distance grows."""

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.core.states import Pose, Vector
from samepath.simulator.sensors.radar import DETECTION, Radar
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.sensor import NoiseKey
from tests.support.ray_scenes import box, scene_of

POSE = Pose(0.0, 0.0, 1.0)


@pytest.fixture(scope="module")
def caster():
    return RayCaster()


def detect(caster, scene, attributes=(), *, own=(0.0, 0.0, 0.0), others=(), tick=1, interval_s=0.05, pose=POSE):
    radar = Radar.from_attributes(dict(attributes), strict=True)
    return radar.begin(caster, scene, pose, Vector(*own), dict(others), interval_s, NoiseKey(0, 1, tick))()


def walls():
    """A wall 30 m ahead that fills the view, and nothing else."""
    return scene_of([box(1.0, 200.0, 200.0)], [], [(0, Pose(30.5))])


def test_every_ray_meets_a_wall_that_fills_the_view(caster):
    found = detect(caster, walls())
    assert found.dtype == DETECTION
    assert DETECTION.itemsize == 16
    assert len(found) == 75  # 1500 a second for 0.05 s
    away = 30.0 / (np.cos(found["azimuth"].astype(float)) * np.cos(found["altitude"].astype(float)))
    np.testing.assert_allclose(found["depth"], away, rtol=1e-6)


def test_rays_stay_inside_the_ellipse_and_fill_it(caster):
    found = detect(caster, walls(), {"horizontal_fov": 60, "vertical_fov": 20, "points_per_second": 40_000, "range": 500})
    right = np.tan(found["azimuth"].astype(float)) / np.tan(np.radians(30))
    up = np.tan(found["altitude"].astype(float)) / np.cos(found["azimuth"].astype(float)) / np.tan(np.radians(10))
    radius = np.hypot(right, up)
    assert len(found) == 2000
    assert radius.max() <= 1.0 + 1e-6
    # A random share of the radius: half of them in the inner half.
    assert np.mean(radius < 0.5) == pytest.approx(0.5, abs=0.06)
    assert abs(np.mean(right)) < 0.05


def test_what_comes_nearer_has_a_negative_velocity(caster):
    found = detect(caster, walls(), others={1: Vector(-12.0, 0.0, 0.0)})
    expected = -12.0 * np.cos(found["azimuth"].astype(float)) * np.cos(found["altitude"].astype(float))
    np.testing.assert_allclose(found["velocity"], expected, rtol=1e-5)


def test_the_radars_own_motion_counts_too(caster):
    found = detect(caster, walls(), own=(5.0, 0.0, 0.0), others={1: Vector(5.0, 0.0, 0.0)})
    np.testing.assert_allclose(found["velocity"], 0.0, atol=1e-6)
    # On a radar turned to the left, which drives ahead, what stands ahead is at its right and comes nearer.
    scene = scene_of([box(400.0, 400.0, 1.0)], [(0, Pose(0.0, 0.0, -5.5))])
    found = detect(caster, scene, {"range": 300}, own=(5.0, 0.0, 0.0), pose=Pose(0.0, 0.0, 1.0, 0.0, -45.0, 0.0))
    assert len(found) == 75
    assert np.all(found["velocity"] < 0)


def test_nothing_in_reach_is_no_detection(caster):
    assert len(detect(caster, walls(), {"range": 29.0})) == 0


def test_rays_belong_to_the_tick(caster):
    assert detect(caster, walls(), tick=4).tobytes() == detect(caster, walls(), tick=4).tobytes()
    assert detect(caster, walls(), tick=4).tobytes() != detect(caster, walls(), tick=5).tobytes()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"range": -5}, "range: a number above 0 and at most 10000 m was wanted, but -5 came"),
        ({"horizontal_fov": 0}, "horizontal_fov: a number above 0 and at most 175 degrees was wanted, but 0 came"),
        ({"vertical_fov": 400}, "vertical_fov: a number above 0 and at most 175 degrees was wanted, but 400 came"),
        ({"points_per_second": -1}, "points_per_second: a whole number from 1 to 1000000000 was wanted, but -1 came"),
    ],
)
def test_attributes_out_of_range_are_refused_by_name_and_limit(attributes, words):
    with pytest.raises(InputError) as refused:
        Radar.from_attributes(attributes)
    assert str(refused.value) == f"sensor.other.radar: {words}"
