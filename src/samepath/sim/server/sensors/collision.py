"""The collision sensor: one event per thing its bearer touched in a tick, with the impulse that acted on the bearer."""

from typing import Any

from samepath.sim.server import frames
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight
from samepath.sim.world.records import Vector


class CollisionSensor:
    """Reports what physics reported; the ground is not worth an event."""

    def __init__(self, description: Description, ordinal: int) -> None:
        pass

    def feel(self, sight: Sight) -> None:
        """Nothing to follow: touching is an event of one tick."""

    def state(self) -> list[Any]:
        """Nothing is carried from tick to tick."""
        return []

    def restore(self, data: list[Any]) -> None:
        """Take up nothing."""

    def measure(self, sight: Sight) -> list[bytes]:
        """One event per pair, in the order of actor ids."""
        if sight.parent is None:
            return []
        found = []
        for one in sight.collisions:
            if one.actor == sight.parent.id:
                other = sight.scenery(one.scenery) if one.other is None else sight.actor(one.other)
                found.append(frames.collision(sight.parent, other, one.impulse_ns))
            elif one.other == sight.parent.id:
                impulse_ns = Vector(-one.impulse_ns.x, -one.impulse_ns.y, -one.impulse_ns.z)
                found.append(frames.collision(sight.parent, sight.actor(one.actor), impulse_ns))
        return found
