"""The inertial measurement unit: acceleration with gravity, turning and heading, as the sensor feels them.

The acceleration is the change of the velocity of the very point where the sensor is fixed, over one tick; gravity (CARLA's
``imui_gravity``) points up, as a resting accelerometer feels it. The compass is 0 when facing north, which is -y; clockwise.
"""

from typing import Final

from samepath.base.streams import stream
from samepath.base.trig import to_radians
from samepath.sim.server import frames
from samepath.sim.server.attach import into
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, real, seed
from samepath.sim.world.records import Vector

_AXES: Final = ("x", "y", "z")
_NORTH_DEG: Final = 90.0


class Imu:
    """Accelerometer, gyroscope and compass; noise on the first two."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._accelerometer = [abs(real(description, f"noise_accel_stddev_{axis}", 0.0)) for axis in _AXES]
        self._gyroscope = [abs(real(description, f"noise_gyro_stddev_{axis}", 0.0)) for axis in _AXES]
        self._bias = [real(description, f"noise_gyro_bias_{axis}", 0.0) for axis in _AXES]
        self._seed = seed(description)
        self._ordinal = ordinal
        self._count = 0
        self._before: Vector | None = None
        self._acceleration = Vector()

    def feel(self, sight: Sight) -> None:
        """Follow the velocity of the point where the sensor is fixed."""
        self._count += 1
        now = Vector()
        if sight.bearer is not None:
            now = sight.world.velocity_at(sight.bearer, Vector(sight.pose.x_m, sight.pose.y_m, sight.pose.z_m))
        if self._before is not None:
            x, y, z = ((a - b) / sight.delta_s for a, b in zip(now, self._before, strict=True))
            self._acceleration = Vector(x, y, z)
        self._before = now

    def measure(self, sight: Sight) -> list[bytes]:
        """One measurement."""
        x, y, z = self._acceleration
        accelerometer = list(into(sight.pose, (x, y, z + sight.gravity_mps2)))
        turning = Vector()
        if sight.bearer is not None:
            turning = Vector(*(to_radians(one) for one in sight.world.state(sight.bearer).angular_velocity_degps))
        gyroscope = [one + bias for one, bias in zip(into(sight.pose, turning), self._bias, strict=True)]
        if any(self._accelerometer) or any(self._gyroscope):
            noise = stream(self._seed, "imu", self._ordinal, self._count)
            for values, deviations in ((accelerometer, self._accelerometer), (gyroscope, self._gyroscope)):
                values[:] = [one + float(error) for one, error in zip(values, noise.normal(0.0, deviations), strict=True)]
        compass_rad = to_radians((sight.pose.yaw_deg + _NORTH_DEG) % 360.0)
        return [frames.imu(Vector(*accelerometer), Vector(*gyroscope), compass_rad)]
