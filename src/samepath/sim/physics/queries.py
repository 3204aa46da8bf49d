"""Questions to the physics that change nothing: what stands somewhere, what a ray or a moving ball meets."""

from typing import Any, NamedTuple

import rapier3d

from samepath.sim.physics.bodies import half_size, isometry
from samepath.sim.physics.contacts import GROUND, SCENERY_BIT
from samepath.sim.physics.frames import Triple, mirrored
from samepath.sim.world.catalogue import ActorType
from samepath.sim.world.records import Pose, Vector

# Who was met: an actor's id, a name of scenery or 'ground'.
Met = int | str


class Hit(NamedTuple):
    """Something a ray passes through: how far along, where, and what it is."""

    distance_m: float
    point_m: Triple
    what: Met


class Queries:
    """Asks Rapier's query pipeline; ``scenery`` are the names behind the tags of what never moves."""

    def __init__(self, world: rapier3d.PhysicsWorld, scenery: list[str]) -> None:
        self._world = world
        self._scenery = scenery
        self._fixed = rapier3d.QueryFilter.only_fixed()

    def _name(self, handle: Any) -> Met:  # noqa: ANN401 - Rapier's handle
        tag = int(self._world.colliders[handle].user_data)
        return "ground" if tag == GROUND else tag if tag < SCENERY_BIT else self._scenery[tag - SCENERY_BIT]

    def occupant(self, kind: ActorType, pose: Pose) -> Met | None:
        """Return what stands where an actor of this kind would: an actor's id, a name of scenery, or None if it is free."""
        half, lift = half_size(kind)
        shape = rapier3d.SharedShape.cuboid(*(0.98 * one for one in half))
        found: list[int] = []
        colliders = self._world.colliders

        def note(handle: Any) -> bool:  # noqa: ANN401 - Rapier's handle
            found.append(int(colliders[handle].user_data))
            return True

        self._world.query_pipeline.intersect_shape(isometry(pose, lift), shape, note)
        tags = sorted(tag for tag in found if tag != GROUND)
        if not tags:
            return None
        return tags[0] if tags[0] < SCENERY_BIT else self._scenery[tags[0] - SCENERY_BIT]

    def cast_ray(self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool) -> tuple[float, Met] | None:
        """Return the distance to the first thing a ray meets and what it is."""
        ray = rapier3d.Ray(mirrored(*start), mirrored(*direction))
        hit = self._world.query_pipeline.cast_ray(ray, reach_m, True, self._fixed if fixed_only else None)
        return None if hit is None else (float(hit[1]), self._name(hit[0]))

    def ray_hits(self, start: Vector, direction: Vector, reach_m: float) -> tuple[Hit, ...]:
        """Return everything a ray of unit direction passes through, nearest first; each thing where it is entered."""
        found: list[Hit] = []

        def note(handle: Any, hit: Any) -> bool:  # noqa: ANN401 - Rapier's handle and intersection
            far_m = float(hit.time_of_impact)
            point = tuple(at + far_m * step for at, step in zip(start, direction, strict=True))
            found.append(Hit(far_m, (point[0], point[1], point[2]), self._name(handle)))
            return True

        ray = rapier3d.Ray(mirrored(*start), mirrored(*direction))
        self._world.query_pipeline.intersect_ray(ray, reach_m, True, note)
        return tuple(sorted(found, key=lambda one: (one.distance_m, str(one.what))))

    def sweep_ball(
        self, start: Vector, direction: Vector, reach_m: float, radius_m: float, *, without: int | None, moving_only: bool
    ) -> tuple[float, Met] | None:
        """Return how far a ball flies before it meets something other than the ground or the actor ``without``."""
        colliders = self._world.colliders

        def counts(handle: Any, _: Any) -> bool:  # noqa: ANN401 - Rapier's handle and collider
            tag = int(colliders[handle].user_data)
            return tag not in (GROUND, without) and not (moving_only and tag >= SCENERY_BIT)

        pose = rapier3d.Isometry3(mirrored(*start), rapier3d.Rotation3(1.0, 0.0, 0.0, 0.0))
        options = rapier3d.ShapeCastOptions.with_max_time_of_impact(reach_m)
        query_filter = rapier3d.QueryFilter.new().predicate(counts)
        shape = rapier3d.SharedShape.ball(radius_m)
        hit = self._world.query_pipeline.cast_shape(pose, mirrored(*direction), shape, options, query_filter)
        return None if hit is None else (float(hit[1].time_of_impact), self._name(hit[0]))
