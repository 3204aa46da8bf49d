"""The inertial measurement unit on the wire.

The acceleration is the change of the velocity of the very point where the sensor is fixed, over one tick; gravity is CARLA's
``imui_gravity``.
"""

from typing import Any

from samepath.sim.sensors.imu import Imu, acceleration_of
from samepath.sim.sensors.noise import Chance
from samepath.sim.server import frames
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, given
from samepath.sim.world.records import Vector


class ImuSensor:
    """Accelerometer, gyroscope and compass."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._imu = Imu.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0
        self._velocity: Vector | None = None
        self._acceleration = Vector()

    def feel(self, sight: Sight) -> None:
        """Follow the velocity of the point where the sensor is fixed."""
        self._count += 1
        now = Vector()
        if sight.bearer is not None:
            now = sight.world.velocity_at(sight.bearer, Vector(sight.pose.x_m, sight.pose.y_m, sight.pose.z_m))
        self._acceleration = acceleration_of(self._velocity, now, sight.delta_s)
        self._velocity = now

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [self._count, None if self._velocity is None else list(self._velocity), list(self._acceleration)]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._count, velocity, acceleration = data
        self._velocity = None if velocity is None else Vector(*velocity)
        self._acceleration = Vector(*acceleration)

    def measure(self, sight: Sight) -> list[bytes]:
        """One measurement."""
        spin = Vector() if sight.bearer is None else sight.world.state(sight.bearer).angular_velocity_degps
        chance = Chance(sensor=self._ordinal, tick=self._count)
        found = self._imu.measure(sight.pose, self._acceleration, spin, sight.gravity_mps2, chance)
        return [frames.imu(found.accelerometer_mps2, found.gyroscope_radps, found.compass_rad)]
