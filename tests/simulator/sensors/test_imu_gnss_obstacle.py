"""Sensors without a picture: what they feel, where they are, what is in their way."""

import math

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.core.states import Pose, Vector, VehicleCommand
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.inertial import GeoOrigin, Gnss, Imu, ObstacleDetector, acceleration_of, origin_of, to_globe
from samepath.simulator.sensors.sensor import NoiseKey
from samepath.simulator.world.world import World

G = 9.81
HERE, STILL, NO_CHANCE = Pose(), Vector(), NoiseKey()


def imu(pose=HERE, acceleration=STILL, spin=STILL, chance=NO_CHANCE, **attributes):
    return Imu.from_attributes(attributes, strict=True).measure(pose, acceleration, spin, G, chance)


def test_a_resting_accelerometer_feels_gravity_upwards():
    assert imu().accelerometer_mps2 == (0.0, 0.0, G)
    on_its_nose = imu(Pose(pitch_deg=-90.0)).accelerometer_mps2
    assert on_its_nose == pytest.approx((-G, 0.0, 0.0), abs=1e-9)


def test_acceleration_and_turning_are_felt_in_the_sensors_frame():
    found = imu(Pose(yaw_deg=90.0), Vector(0.0, 3.0, 0.0), Vector(0.0, 0.0, 90.0))
    assert found.accelerometer_mps2 == pytest.approx((3.0, 0.0, G))
    assert found.gyroscope_radps == pytest.approx((0.0, 0.0, math.pi / 2))


@pytest.mark.parametrize(("yaw_deg", "compass_deg"), [(-90.0, 0.0), (0.0, 90.0), (90.0, 180.0), (180.0, 270.0), (-91.0, 359.0)])
def test_the_compass_counts_clockwise_from_north(yaw_deg, compass_deg):
    assert math.degrees(imu(Pose(yaw_deg=yaw_deg)).compass_rad) == pytest.approx(compass_deg)


def test_noise_has_its_deviation_and_bias_per_axis():
    attributes = {"noise_accel_stddev_y": 0.5, "noise_gyro_stddev_z": 0.1, "noise_gyro_bias_x": 0.25, "noise_seed": 3}
    found = [imu(chance=NoiseKey(0, 1, tick), **attributes) for tick in range(2000)]
    accelerations = np.array([reading.accelerometer_mps2 for reading in found])
    turnings = np.array([reading.gyroscope_radps for reading in found])
    np.testing.assert_allclose(accelerations.std(axis=0), [0.0, 0.5, 0.0], atol=0.03)
    np.testing.assert_allclose(turnings.std(axis=0), [0.0, 0.0, 0.1], atol=0.006)
    np.testing.assert_allclose(turnings.mean(axis=0), [0.25, 0.0, 0.0], atol=0.01)
    assert found[5] == imu(chance=NoiseKey(99, 1, 5), **attributes)  # the attribute's seed counts


def test_acceleration_needs_two_velocities():
    assert acceleration_of(None, Vector(1.0, 2.0, 3.0), 0.05) == Vector()
    assert acceleration_of(Vector(1.0, 2.0, 3.0), Vector(1.5, 2.0, 2.0), 0.5) == Vector(1.0, 0.0, -2.0)


def test_the_receiver_agrees_with_the_official_client():
    carla = pytest.importorskip("carla")
    for name in ("town", "t-junction"):
        road_map = load_map(name)
        theirs = carla.Map(name, road_map.xodr)
        origin = origin_of(road_map.georeference)
        for point in ((0.0, 0.0, 0.0), (120.5, -77.25, 3.0), (-5000.0, 9000.0, -20.0)):
            expected = theirs.transform_to_geolocation(carla.Location(*point))
            found = to_globe(origin, *point)
            assert found.latitude_deg == pytest.approx(expected.latitude, abs=1e-10)
            assert found.longitude_deg == pytest.approx(expected.longitude, abs=1e-10)
            assert found.altitude_m == pytest.approx(expected.altitude, abs=1e-6)


def test_a_georeference_without_an_origin_is_carlas_own():
    assert origin_of("") == GeoOrigin(42.0, 2.0)
    assert origin_of("+proj=tmerc +lat_0=49.5 +lon_0=8.25 +k=1") == GeoOrigin(49.5, 8.25)
    assert origin_of("+lat_0=north +lon_0=8") == GeoOrigin(42.0, 2.0)


def test_the_receivers_noise_has_its_deviation_and_bias():
    attributes = {"noise_lat_stddev": 1e-5, "noise_alt_bias": 2.5, "noise_seed": 1}
    receiver = Gnss.from_attributes(attributes, strict=True)
    found = np.array([receiver.measure(GeoOrigin(), 10.0, 20.0, 1.0, NoiseKey(0, 0, tick)) for tick in range(1000)])
    exact = to_globe(GeoOrigin(), 10.0, 20.0, 1.0)
    assert found[:, 0].std() == pytest.approx(1e-5, rel=0.1)
    assert np.all(found[:, 1] == exact.longitude_deg)
    assert np.all(found[:, 2] == 3.5)


def test_a_place_off_the_globe_is_refused():
    with pytest.raises(InputError, match="within 1e"):
        to_globe(GeoOrigin(), 2e7, 0.0, 0.0)


def test_the_ball_meets_what_is_ahead_and_not_its_own_car():
    world = World()
    own = world.spawn("vehicle.tesla.model3", Pose(z_m=0.3))
    other = world.spawn("vehicle.audi.tt", Pose(x_m=20.0, z_m=0.3))
    for _ in range(20):
        world.apply(own, VehicleCommand(brake=1.0))
        world.tick()
    pose = Pose(2.0, 0.0, 1.0)
    sensor = ObstacleDetector.from_attributes({"distance": 30, "hit_radius": "0.5"})
    found = sensor.look(world, pose, own)
    assert found.what == other
    # From x = 2 to the rear of a car 4.18 m long, less the ball.
    assert found.distance_m == pytest.approx(20.0 - 2.09 - 2.0 - 0.5, abs=0.05)
    assert ObstacleDetector.from_attributes({"distance": 5}).look(world, pose, own) is None
    assert sensor.look(world, pose._replace(yaw_deg=90.0), own) is None


@pytest.mark.parametrize(
    ("build", "attributes", "words"),
    [
        (
            Imu,
            {"noise_accel_stddev_x": -1},
            "sensor.other.imu: noise_accel_stddev_x: a number from 0 to 1000000 m/s² was wanted",
        ),
        (Gnss, {"noise_lat_stddev": "x"}, "sensor.other.gnss: noise_lat_stddev: a number from 0 to 1000000 degrees was wanted"),
        (ObstacleDetector, {"distance": 0}, "sensor.other.obstacle: distance: a number above 0 and at most 10000 m was wanted"),
        (
            ObstacleDetector,
            {"only_dynamics": "yes"},
            "sensor.other.obstacle: only_dynamics: true or false was wanted, but 'yes'",
        ),
    ],
)
def test_attributes_out_of_range_are_refused_by_name_and_limit(build, attributes, words):
    with pytest.raises(InputError) as refused:
        build.from_attributes(attributes)
    assert words in str(refused.value)
