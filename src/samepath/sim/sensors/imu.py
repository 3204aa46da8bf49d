"""The inertial measurement unit: acceleration with gravity, turning and heading, as the sensor feels them. Pure.

Gravity points up, as a resting accelerometer feels it. The compass is 0 when facing north, which is -y, and grows clockwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from samepath.base.trig import to_radians
from samepath.sim.physics.frames import axes_of, quaternion_of
from samepath.sim.sensors.attributes import SEED, SENSOR_TICK, Attribute, Given, read
from samepath.sim.sensors.noise import Chance, normals
from samepath.sim.world.records import Pose, Vector

NAME: Final = "sensor.other.imu"
_AXES: Final = ("x", "y", "z")
_NORTH_DEG: Final = 90.0
IMU: Final[Mapping[str, Attribute]] = MappingProxyType(
    {
        **{f"noise_accel_stddev_{axis}": Attribute(0.0, 0.0, 1e6, "m/s²") for axis in _AXES},
        **{f"noise_gyro_stddev_{axis}": Attribute(0.0, 0.0, 1e6, "rad/s") for axis in _AXES},
        **{f"noise_gyro_bias_{axis}": Attribute(0.0, -1e6, 1e6, "rad/s") for axis in _AXES},
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
    def from_attributes(cls, given: Given, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read(NAME, given, IMU, strict=strict))

    def measure(
        self, pose: Pose, acceleration_mps2: Vector, spin_degps: Vector, gravity_mps2: float, chance: Chance
    ) -> ImuReading:
        """Measure at a pose; the acceleration of that very point and the bearer's turning are in the world's frame."""
        values, axes = self.values, axes_of(quaternion_of(pose))
        x, y, z = acceleration_mps2
        felt = _seen((x, y, z + gravity_mps2), axes)
        turning = _seen(tuple(to_radians(one) for one in spin_degps), axes)
        noise = [0.0] * 6
        if any(values[f"noise_{kind}_stddev_{axis}"] for kind in ("accel", "gyro") for axis in _AXES):
            noise = normals(Chance(int(values["noise_seed"]), chance.sensor, chance.tick).stream("imu"), 6).tolist()
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
