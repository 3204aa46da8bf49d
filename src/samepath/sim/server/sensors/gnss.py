"""The satellite receiver on the wire."""

from typing import Any

from samepath.sim.sensors.gnss import Gnss
from samepath.sim.sensors.noise import Chance
from samepath.sim.server import frames
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, given


class GnssSensor:
    """Latitude, longitude and altitude, consistent with the client's own map."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._gnss = Gnss.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0

    def feel(self, sight: Sight) -> None:
        """Count the ticks, which name the noise."""
        self._count += 1

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [self._count]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        (self._count,) = data

    def measure(self, sight: Sight) -> list[bytes]:
        """One measurement."""
        pose = sight.pose
        chance = Chance(sensor=self._ordinal, tick=self._count)
        return [frames.gnss(*self._gnss.measure(sight.scene.origin, pose.x_m, pose.y_m, pose.z_m, chance))]
