"""The obstacle sensor: a ball that flies ahead; an event for the first thing it meets. The ground is no obstacle."""

from samepath.sim.physics.frames import axes_of, quaternion_of
from samepath.sim.server import frames
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, real, yes
from samepath.sim.world.records import Vector


class ObstacleSensor:
    """Looks ``distance`` metres ahead with a ball of ``hit_radius``."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._reach_m = max(real(description, "distance", 5.0), 0.0)
        self._radius_m = max(real(description, "hit_radius", 0.5), 1e-3)
        self._moving_only = yes(description, "only_dynamics")

    def feel(self, sight: Sight) -> None:
        """Nothing to follow."""

    def measure(self, sight: Sight) -> list[bytes]:
        """An event, or none."""
        pose = sight.pose
        ahead = Vector(*axes_of(quaternion_of(pose))[0])
        hit = sight.world.sweep_ball(
            Vector(pose.x_m, pose.y_m, pose.z_m),
            ahead,
            self._reach_m,
            self._radius_m,
            without=None if sight.parent is None else sight.parent.id,
            moving_only=self._moving_only,
        )
        if hit is None:
            return []
        distance_m, what = hit
        other = sight.scenery(what) if isinstance(what, str) else sight.actor(what)
        return [frames.obstacle(sight.this, other, distance_m)]
