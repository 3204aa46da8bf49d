"""Sensors that need no picture: inertial measurement unit, satellite receiver, obstacle detector.

IMU: acceleration with gravity, turning and heading, as the sensor feels them. Gravity points up, as a resting accelerometer
feels it. The compass is 0 when facing north, which is -y, and grows clockwise.

GNSS: where the sensor is on the globe, as CARLA 0.9.16's client works it out from the map. The client reads ``+lat_0`` and
``+lon_0`` of the map's georeference (42 and 2 where they are missing) and inverts a spherical transverse Mercator projection
with scale 0.9996 about that point; y counts northwards. A receiver that did better would disagree with
``carla.Map.transform_to_geolocation``. Angles come from :mod:`samepath.core.trig`: no bit depends on the machine.

Obstacle detector: a ball that flies ahead, and the first thing it meets. The ground is no obstacle.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np

from samepath.core.errors import InputError
from samepath.core.states import Pose, Vector
from samepath.core.trig import atan2, cos, sin, to_degrees, to_radians
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.sensor import (
    SEED,
    SENSOR_TICK,
    FlagAttribute,
    GivenAttributes,
    NoiseKey,
    NumberAttribute,
    normals,
    read_attributes,
)
from samepath.simulator.world.world import World

IMU_NAME: Final = "sensor.other.imu"
_AXES: Final = ("x", "y", "z")
_NORTH_DEG: Final = 90.0
IMU: Final[Mapping[str, NumberAttribute]] = MappingProxyType(
    {
        **{f"noise_accel_stddev_{axis}": NumberAttribute(0.0, 0.0, 1e6, "m/s²") for axis in _AXES},
        **{f"noise_gyro_stddev_{axis}": NumberAttribute(0.0, 0.0, 1e6, "rad/s") for axis in _AXES},
        **{f"noise_gyro_bias_{axis}": NumberAttribute(0.0, -1e6, 1e6, "rad/s") for axis in _AXES},
        "noise_seed": SEED,
        "sensor_tick": SENSOR_TICK,
    }
)


@dataclass(frozen=True, slots=True)
class ImuReading:
    """One measurement, in the sensor's frame."""

    accelerometer_mps2: Vector
    gyroscope_radps: Vector
    compass_rad: float

    def to_bytes(self) -> bytes:
        """Seven float64 numbers, for files and digests; the wire has its own form."""
        return np.array([*self.accelerometer_mps2, *self.gyroscope_radps, self.compass_rad], "<f8").tobytes()


@dataclass(frozen=True, slots=True)
class Imu:
    """An inertial measurement unit with CARLA's attributes."""

    values: Mapping[str, float]

    @classmethod
    def from_attributes(cls, given: GivenAttributes, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read_attributes(IMU_NAME, given, IMU, strict=strict))

    def measure(
        self, pose: Pose, acceleration_mps2: Vector, spin_degps: Vector, gravity_mps2: float, noise_key: NoiseKey
    ) -> ImuReading:
        """Measure at a pose; the acceleration of that very point and its parent's turning are in the world's frame."""
        values, axes = self.values, axes_of(quaternion_of(pose))
        x, y, z = acceleration_mps2
        felt = _seen((x, y, z + gravity_mps2), axes)
        turning = _seen(tuple(to_radians(rate) for rate in spin_degps), axes)
        # Nothing is drawn for a sensor without noise, and one with noise has a stream of its own for each tick: whether a
        # sensor is noisy moves no number of any other.
        noise = [0.0] * 6
        if any(values[f"noise_{kind}_stddev_{axis}"] for kind in ("accel", "gyro") for axis in _AXES):
            noise = normals(NoiseKey(int(values["noise_seed"]), noise_key.sensor, noise_key.tick).stream("imu"), 6).tolist()
        return ImuReading(
            Vector(*(felt[k] + values[f"noise_accel_stddev_{axis}"] * noise[k] for k, axis in enumerate(_AXES))),
            Vector(
                *(
                    turning[k] + values[f"noise_gyro_bias_{axis}"] + values[f"noise_gyro_stddev_{axis}"] * noise[3 + k]
                    for k, axis in enumerate(_AXES)
                )
            ),
            to_radians((pose.yaw_deg + _NORTH_DEG) % 360.0),
        )


def acceleration_of(before_mps: Vector | None, now_mps: Vector, step_s: float) -> Vector:
    """The change of a point's velocity over a step; none before there were two."""
    if before_mps is None:
        return Vector()
    x, y, z = ((now - before) / step_s for now, before in zip(now_mps, before_mps, strict=True))
    return Vector(x, y, z)


def _seen(vector: tuple[float, ...], axes: tuple[tuple[float, float, float], ...]) -> list[float]:
    return [axis[0] * vector[0] + axis[1] * vector[1] + axis[2] * vector[2] for axis in axes]


GNSS_NAME: Final = "sensor.other.gnss"
_EARTH_RADIUS_M: Final = 6378137.0
_SCALE: Final = 0.9996
# Up to here the argument of ``_hyperbolic`` stays below 0.16, where what its series leaves out does not show.
_FARTHEST_M: Final = 1e6
_GEO_AXES: Final = ("lat", "lon", "alt")
_UNITS: Final = ("degrees", "degrees", "m")
GNSS: Final[Mapping[str, NumberAttribute]] = MappingProxyType(
    {
        **{f"noise_{axis}_stddev": NumberAttribute(0.0, 0.0, 1e6, unit) for axis, unit in zip(_GEO_AXES, _UNITS, strict=True)},
        **{f"noise_{axis}_bias": NumberAttribute(0.0, -1e6, 1e6, unit) for axis, unit in zip(_GEO_AXES, _UNITS, strict=True)},
        "noise_seed": SEED,
        "sensor_tick": SENSOR_TICK,
    }
)


class GeoOrigin(NamedTuple):
    """Where the map's origin lies on the globe."""

    latitude_deg: float = 42.0
    longitude_deg: float = 2.0


class GnssReading(NamedTuple):
    """One measurement."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float

    def to_bytes(self) -> bytes:
        """Three float64 numbers, for files and digests; the wire has its own form."""
        return np.array(self, "<f8").tobytes()


@dataclass(frozen=True, slots=True)
class Gnss:
    """A satellite receiver with CARLA's attributes."""

    values: Mapping[str, float]

    @classmethod
    def from_attributes(cls, given: GivenAttributes, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read_attributes(GNSS_NAME, given, GNSS, strict=strict))

    def measure(self, origin: GeoOrigin, x_m: float, y_m: float, z_m: float, noise_key: NoiseKey) -> GnssReading:
        """Measure at a point of the map."""
        values, noise = self.values, [0.0, 0.0, 0.0]
        if any(values[f"noise_{axis}_stddev"] for axis in _GEO_AXES):
            noise = normals(NoiseKey(int(values["noise_seed"]), noise_key.sensor, noise_key.tick).stream("gnss"), 3).tolist()
        exact = to_globe(origin, x_m, y_m, z_m)
        return GnssReading(
            *(
                value + values[f"noise_{axis}_stddev"] * error + values[f"noise_{axis}_bias"]
                for value, axis, error in zip(exact, _GEO_AXES, noise, strict=True)
            )
        )


def origin_of(georeference: str) -> GeoOrigin:
    """Read the origin from a projection string."""
    found: dict[str, float] = {}
    for part in georeference.split(" "):
        key, _, value = part.strip().partition("=")
        if key in ("+lat_0", "+lon_0"):
            try:
                found[key] = float(value)
            except ValueError:
                return GeoOrigin()
    return GeoOrigin(found["+lat_0"], found["+lon_0"]) if len(found) == 2 else GeoOrigin()


def to_globe(origin: GeoOrigin, x_m: float, y_m: float, z_m: float) -> GnssReading:
    """Return latitude and longitude in degrees, and the altitude in metres, of a point of the map."""
    if not (abs(x_m) <= _FARTHEST_M and abs(y_m) <= _FARTHEST_M):
        raise InputError(f"a point within {_FARTHEST_M:g} m of the map's origin was wanted, but ({x_m:g}, {y_m:g}) came")
    east = x_m / (_SCALE * _EARTH_RADIUS_M)
    north_rad = y_m / (_SCALE * _EARTH_RADIUS_M) + to_radians(origin.latitude_deg)
    sinh, cosh = _hyperbolic(east)
    sine = sin(north_rad) / cosh
    # An arc sine; of its own there is none in core.trig, and that of math is the machine's. Rounding may put a sine beyond one.
    latitude_rad = atan2(sine, math.sqrt(max(1.0 - sine * sine, 0.0)))
    turn_rad = atan2(sinh, cos(north_rad))
    return GnssReading(to_degrees(latitude_rad), to_degrees(to_radians(origin.longitude_deg) + turn_rad), z_m)


def _hyperbolic(x: float) -> tuple[float, float]:
    """Hyperbolic sine and cosine by their series; below 0.2 the first term left out is below 1e-17 of the sum."""
    square = x * x
    sinh = x * (
        1.0 + square / 6.0 * (1.0 + square / 20.0 * (1.0 + square / 42.0 * (1.0 + square / 72.0 * (1.0 + square / 110.0))))
    )
    cosh = 1.0 + square / 2.0 * (1.0 + square / 12.0 * (1.0 + square / 30.0 * (1.0 + square / 56.0 * (1.0 + square / 90.0))))
    return sinh, cosh


OBSTACLE_NAME: Final = "sensor.other.obstacle"
OBSTACLE: Final[Mapping[str, NumberAttribute | FlagAttribute]] = MappingProxyType(
    {
        "distance": NumberAttribute(5.0, 0.0, 10_000.0, "m", above=True),
        "hit_radius": NumberAttribute(0.5, 0.0, 100.0, "m", above=True),
        "only_dynamics": FlagAttribute(default=False),
        "debug_linetrace": FlagAttribute(default=False),
        "sensor_tick": SENSOR_TICK,
    }
)


class DetectedObstacle(NamedTuple):
    """What is in the way: how far the ball flew, and an actor's id or a name of scenery."""

    distance_m: float
    what: int | str


@dataclass(frozen=True, slots=True)
class ObstacleDetector:
    """An obstacle sensor with CARLA's attributes."""

    values: Mapping[str, float]

    @classmethod
    def from_attributes(cls, given: GivenAttributes, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read_attributes(OBSTACLE_NAME, given, OBSTACLE, strict=strict))

    def look(self, world: World, pose: Pose, parent_id: int | None = None) -> DetectedObstacle | None:
        """Look ahead from a pose, past the actor that carries the sensor."""
        hit = world.sweep_ball(
            Vector(pose.x_m, pose.y_m, pose.z_m),
            Vector(*axes_of(quaternion_of(pose))[0]),
            self.values["distance"],
            self.values["hit_radius"],
            without=parent_id,
            moving_only=bool(self.values["only_dynamics"]),
        )
        return None if hit is None else DetectedObstacle(*hit)
