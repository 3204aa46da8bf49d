"""The LiDAR: rays where CARLA sends them, points lost as documented, noise that belongs to one sensor and tick."""

import numpy as np
import pytest

from samepath.core.errors import InputError, UnknownNameError
from samepath.core.states import Pose
from samepath.simulator.sensors.lidar import POINT, SEMANTIC_POINT, Lidar
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.sensor import NoiseKey
from tests.support.ray_scenes import crowd, scene_of, street

POSE = Pose(0.0, 0.0, 2.0)
QUIET = {"dropoff_general_rate": 0, "dropoff_intensity_limit": 0, "dropoff_zero_intensity": 0}


@pytest.fixture(scope="module")
def caster():
    return RayCaster()


@pytest.fixture(scope="module")
def scene():
    return street()


def scan(caster, scene, attributes, *, pose=POSE, elapsed_s=0.0, interval_s=0.05, semantic=False, chance=None):
    lidar = Lidar.from_attributes(attributes, semantic=semantic, strict=True)
    return lidar.scan(caster, scene, pose, elapsed_s, interval_s, chance or NoiseKey())


def xyz(points):
    return np.stack([points[name] for name in "xyz"], axis=-1).astype(float)


def test_carlas_defaults_give_its_number_of_rays_and_half_a_turn(caster, scene):
    # 56000 points a second on 32 lasers make 87.5 rays each in 0.05 s; CARLA rounds that up.
    found = scan(caster, scene, {"range": 500.0, "upper_fov": -5.0, **QUIET})
    assert found.counts.tolist() == [88] * 32
    assert found.horizontal_angle_rad == pytest.approx(np.pi)
    # The first ray looks back (-180 degrees) and half a turn follows, clockwise, that is over the left.
    first = found.points[:88]
    assert first["x"][0] < 0
    assert abs(first["y"][0]) < 1e-3
    assert np.all(first["y"][1:] < 0)


def test_two_halves_of_a_turn_look_where_one_whole_turn_looks(caster, scene):
    attributes = {
        "points_per_second": 6400,
        "channels": 4,
        "rotation_frequency": 10.0,
        "range": 300.0,
        "upper_fov": -4.0,
        **QUIET,
    }
    halves = [scan(caster, scene, attributes, elapsed_s=start_s) for start_s in (0.0, 0.05)]
    whole = scan(caster, scene, attributes, interval_s=0.1)
    joined = np.concatenate([scanned.points.reshape(4, 80) for scanned in halves], axis=1)
    np.testing.assert_allclose(xyz(joined.reshape(-1)), xyz(whole.points), atol=1e-3)


def test_the_payload_is_carlas(caster, scene):
    found = scan(caster, scene, {"channels": 3, "points_per_second": 600, "range": 80.0})
    raw = found.to_bytes()
    angle, channels = np.frombuffer(raw[:4], "<f4")[0], np.frombuffer(raw[4:8], "<u4")[0]
    counts = np.frombuffer(raw[8:20], "<u4")
    points = np.frombuffer(raw[20:], "<f4").reshape(-1, 4)
    assert (float(angle), channels, counts.tolist()) == (np.float32(found.horizontal_angle_rad), 3, found.counts.tolist())
    assert len(points) == counts.sum() == len(found.points)
    assert points[:, 3].tolist() == found.points["intensity"].tolist()
    assert POINT.itemsize == 16
    assert SEMANTIC_POINT.itemsize == 24


def test_points_lie_on_what_is_there_in_the_sensors_frame(caster, scene):
    one_turn = {"channels": 16, "points_per_second": 16 * 360 * 10, "range": 30.0, "upper_fov": 20.0, "lower_fov": -40.0}
    # Turned by 90 degrees the wall, which stands ahead in the world at x = 20, is on the left.
    points = scan(caster, scene, one_turn, pose=POSE._replace(yaw_deg=90.0), semantic=True, interval_s=0.1).points
    assert set(points["label"].tolist()) == {1, 4, 14}
    wall, car, road = (points[points["label"] == label] for label in (4, 14, 1))
    np.testing.assert_allclose(wall["y"], -20.0, atol=1e-5)
    np.testing.assert_allclose(road["z"], -2.0, atol=1e-5)
    assert car["x"].min() > 7.6
    assert set(car["object"].tolist()) == {1}
    assert set(road["object"].tolist()) == {0}
    # Straight on, the cosine is that of the elevation.
    ahead = wall[np.argmin(np.hypot(wall["x"], wall["z"]))]
    assert ahead["cosine"] == pytest.approx(-ahead["y"] / np.linalg.norm(xyz(ahead)), abs=1e-6)


def test_channels_run_from_the_upper_to_the_lower_one(caster, scene):
    found = scan(caster, scene, {"channels": 5, "upper_fov": -5.0, "lower_fov": -45.0, "range": 100.0, **QUIET})
    points = xyz(found.points)
    elevation_deg = np.degrees(np.arcsin(points[:, 2] / np.linalg.norm(points, axis=1)))
    expected = np.repeat([-5.0, -15.0, -25.0, -35.0, -45.0], found.counts)
    np.testing.assert_allclose(elevation_deg, expected, atol=1e-4)


def test_a_narrow_scanner_stays_within_its_horizontal_angle(caster, scene):
    attributes = {
        "horizontal_fov": 60.0,
        "channels": 2,
        "points_per_second": 12000,
        "range": 200.0,
        "upper_fov": -10.0,
        **QUIET,
    }
    points = scan(caster, scene, attributes, interval_s=0.1).points
    azimuth_deg = np.degrees(np.arctan2(points["y"], points["x"]))
    assert azimuth_deg.min() == pytest.approx(-30.0, abs=1e-3)
    assert azimuth_deg.max() < 30.0
    assert azimuth_deg.max() > 29.0


def test_intensity_falls_off_with_the_air(caster, scene):
    found = scan(caster, scene, {"atmosphere_attenuation_rate": 0.01, "range": 100.0, **QUIET})
    distance_m = np.linalg.norm(xyz(found.points), axis=1)
    np.testing.assert_allclose(found.points["intensity"], np.exp(-0.01 * distance_m), rtol=1e-6)


def lost_share(caster, scene, **attributes):
    settings = {"channels": 32, "points_per_second": 32 * 2000, "upper_fov": -10.0, "lower_fov": -40.0, "range": 100.0}
    kept = scan(caster, scene, {**settings, **QUIET, **attributes}, interval_s=1.0)
    every = scan(caster, scene, {**settings, **QUIET}, interval_s=1.0)
    return 1.0 - len(kept.points) / len(every.points), every


def test_points_are_lost_at_the_general_rate(caster, scene):
    share, every = lost_share(caster, scene, dropoff_general_rate=0.45)
    assert share == pytest.approx(0.45, abs=5 * np.sqrt(0.25 / len(every.points)))


def test_faint_points_are_lost_as_documented(caster, scene):
    # With this air the road returns intensities on both sides of the limit.
    share, every = lost_share(
        caster, scene, atmosphere_attenuation_rate=0.1, dropoff_intensity_limit=0.6, dropoff_zero_intensity=0.9
    )
    intensity = np.exp(-0.1 * np.linalg.norm(xyz(every.points), axis=1))
    expected = np.where(intensity > 0.6, 0.0, 0.9 * (1.0 - intensity / 0.6)).mean()
    assert 0.05 < expected < 0.6
    assert share == pytest.approx(expected, abs=5 * np.sqrt(0.25 / len(every.points)))


def test_the_semantic_scanner_sees_what_one_without_losses_sees(caster):
    scene, common = crowd(), {"channels": 16, "points_per_second": 64000, "range": 50.0}
    plain = scan(caster, scene, {**common, **QUIET})
    semantic = scan(caster, scene, common, semantic=True)
    assert plain.counts.tolist() == semantic.counts.tolist()
    for name in "xyz":
        assert plain.points[name].tobytes() == semantic.points[name].tobytes()


def test_noise_moves_points_along_their_rays(caster, scene):
    settings = {"channels": 32, "points_per_second": 640_000, "range": 60.0, "upper_fov": -10.0, **QUIET}
    exact = xyz(scan(caster, scene, settings).points)
    noisy = xyz(scan(caster, scene, {**settings, "noise_stddev": 0.2}).points)
    moved_m = np.linalg.norm(noisy, axis=1) - np.linalg.norm(exact, axis=1)
    assert moved_m.std() == pytest.approx(0.2, rel=0.02)
    assert abs(moved_m.mean()) < 0.01
    np.testing.assert_allclose(np.cross(noisy, exact), 0.0, atol=1e-3)


def test_noise_belongs_to_the_seed_the_sensor_and_the_tick(caster, scene):
    def points(seed=0, **chance):
        return scan(
            caster, scene, {"noise_stddev": 0.1, "range": 50.0, "noise_seed": seed}, chance=NoiseKey(**chance)
        ).to_bytes()

    assert points(sensor=1, tick=5) == points(sensor=1, tick=5)
    assert len({points(seed, sensor=s, tick=t) for seed in (0, 7) for s in (1, 2) for t in (5, 6)}) == 8


def test_noise_of_a_ray_does_not_depend_on_what_other_rays_meet(caster):
    attributes = {"noise_stddev": 0.1, "range": 50.0, "upper_fov": -5.0}
    bare = street()
    crowded = scene_of_car_behind()
    kept = [scan(caster, crowd, attributes, chance=NoiseKey(0, 3, 9)).points for crowd in (bare, crowded)]
    before, after = ({tuple(point) for point in points.tolist()} for points in kept)
    # Only rays that now meet the new car have changed.
    assert len(before - after) < 0.4 * len(before)
    assert len(before & after) > 0.6 * len(before)


def scene_of_car_behind():
    from tests.support.ray_scenes import box, floor

    meshes = [floor(), box(1.0, 40.0, 10.0), box()]
    fixed = [(0, Pose()), (1, Pose(20.5, 0.0, 5.0))]
    return scene_of(meshes, fixed, [(2, Pose(0.0, 10.0, 0.7)), (2, Pose(-8.0, -3.0, 0.7))], labels=[1, 4, 14])


def test_too_few_points_for_a_ray_each_give_an_empty_scan(caster, scene):
    found = scan(caster, scene, {"channels": 8, "points_per_second": 10})
    assert found.counts.tolist() == [0] * 8
    assert len(found.to_bytes()) == 4 + 4 + 8 * 4


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"range": -1}, "range: a number above 0 and at most 10000 m was wanted, but -1 came"),
        ({"range": "far"}, "range: a number above 0 and at most 10000 m was wanted, but 'far' came"),
        ({"range": "nan"}, "range: a number above 0"),
        ({"channels": 1_000_000}, "channels: a whole number from 1 to 1024 was wanted, but 1000000 came"),
        ({"channels": 1.5}, "channels: a whole number from 1 to 1024 was wanted, but 1.5 came"),
        ({"channels": True}, "channels: a whole number from 1 to 1024 was wanted, but True came"),
        ({"points_per_second": 0}, "points_per_second: a whole number from 1 to 1000000000 was wanted, but 0 came"),
        ({"horizontal_fov": 0}, "horizontal_fov: a number above 0 and at most 360 degrees was wanted, but 0 came"),
        ({"horizontal_fov": 400}, "horizontal_fov: a number above 0 and at most 360 degrees was wanted, but 400 came"),
        ({"upper_fov": 91}, "upper_fov: a number from -90 to 90 degrees was wanted, but 91 came"),
        ({"upper_fov": -20, "lower_fov": -10}, "upper_fov: at least lower_fov, -10 degrees, was wanted, but -20 came"),
        ({"dropoff_general_rate": 1.1}, "dropoff_general_rate: a number from 0 to 1 was wanted, but 1.1 came"),
        ({"noise_stddev": "-0.1"}, "noise_stddev: a number from 0 to 1000 m was wanted, but '-0.1' came"),
        ({"sensor_tick": -1}, "sensor_tick: a number from 0 to 86400 s was wanted, but -1 came"),
    ],
)
def test_attributes_out_of_range_are_refused_by_name_and_limit(attributes, words):
    with pytest.raises(InputError) as refused:
        Lidar.from_attributes(attributes)
    assert str(refused.value).startswith("sensor.lidar.ray_cast: ")
    assert words in str(refused.value)


def test_more_rays_than_fit_into_memory_are_refused(caster, scene):
    with pytest.raises(InputError, match="points_per_second: at most 16777216 rays in a measurement were wanted, but"):
        scan(caster, scene, {"points_per_second": 10**9})


def test_a_misspelt_attribute_is_named_with_the_nearest_one():
    with pytest.raises(UnknownNameError, match="did you mean 'points_per_second'"):
        Lidar.from_attributes({"points_per_seconds": 1}, strict=True)
    Lidar.from_attributes({"role_name": "front"})
