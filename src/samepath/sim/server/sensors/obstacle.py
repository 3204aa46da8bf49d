"""The obstacle sensor on the wire: an event for the first thing in the way."""

from typing import Any

from samepath.sim.sensors import obstacle
from samepath.sim.server import frames
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, given


class ObstacleSensor:
    """Looks ahead after every tick."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._sensor = obstacle.ObstacleSensor.from_attributes(given(description))

    def feel(self, sight: Sight) -> None:
        """Nothing to follow."""

    def state(self) -> list[Any]:
        """Nothing is carried from tick to tick."""
        return []

    def restore(self, data: list[Any]) -> None:
        """Take up nothing."""

    def measure(self, sight: Sight) -> list[bytes]:
        """An event, or none."""
        met = self._sensor.look(sight.world, sight.pose, None if sight.parent is None else sight.parent.id)
        if met is None:
            return []
        other = sight.scenery(met.what) if isinstance(met.what, str) else sight.actor(met.what)
        return [frames.obstacle(sight.this, other, met.distance_m)]
