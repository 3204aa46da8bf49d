"""The physics engine: Rapier behind a few verbs, in CARLA's frame, every order fixed by actor id.

What makes it repeat to the bit: bodies are added, driven and read in the order of their ids, contacts are sorted before they
are summed, the step is a fixed float, and no number passes through libm. One thread or several give the same bits.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import numpy as np
import rapier3d
from numpy.typing import NDArray

from samepath.core.catalogue import ActorType, VehicleType
from samepath.core.errors import SimulatorError
from samepath.core.states import Collision, Pose, Vector, VehicleCommand, WalkerCommand
from samepath.core.trig import atan2, to_degrees
from samepath.simulator.physics.actors import NOTHING, ActorBodies, ActorBody, BodyState, BrokenActorsError, half_size, isometry
from samepath.simulator.physics.drivetrain import GRAVITY_MPS2, apply_forces, drive
from samepath.simulator.physics.frames import Triple, forward_of, mirrored, quaternion_of

# Contacts: from Rapier's forces in each substep to one impulse per pair and tick.

# Tags of colliders: an actor's id, the ground, or scenery by its number beyond this bit.
GROUND: Final = 0
SCENERY_BIT: Final = 1 << 40


class ContactSum:
    """Sums the impulses of a tick per pair of tags, the lower one first; touching the ground does not count."""

    def __init__(self, events: Any, colliders: Any) -> None:  # noqa: ANN401 - Rapier's own objects
        self._events = events
        self._colliders = colliders
        self._sums: dict[tuple[int, int], list[float]] = {}

    def add(self, dt_s: float) -> None:
        """Add what one substep of ``dt_s`` reported; sorted, because threads may report in any order."""
        if not len(self._events):
            return
        forces = self._events.drain_contact_force_events()
        self._events.drain_collision_events()
        found = []
        for event in forces:
            a = int(self._colliders[event.collider1].user_data)
            b = int(self._colliders[event.collider2].user_data)
            if GROUND in (a, b):
                continue
            total = event.total_force
            # Rapier's force acts on the second collider; ours on the lower tag.
            sign = 1.0 if a > b else -1.0
            found.append((min(a, b), max(a, b), sign * total.x, sign * total.y, sign * total.z))
        for a, b, x, y, z in sorted(found):
            impulse = self._sums.setdefault((a, b), [0.0, 0.0, 0.0])
            impulse[0] += x * dt_s
            impulse[1] += y * dt_s
            impulse[2] += z * dt_s

    def totals(self) -> list[tuple[tuple[int, int], Triple]]:
        """Return the pairs and the impulses in N s that act on their first members, in order."""
        return [(pair, (x, y, z)) for pair, (x, y, z) in sorted(self._sums.items())]


# Questions to the physics that change nothing: what stands somewhere, what a ray or a moving ball meets.

# Who was met: an actor's id, a name of scenery or 'ground'.
BodyRef = int | str


class RayHit(NamedTuple):
    """Something a ray passes through: how far along, where, and what it is."""

    distance_m: float
    point_m: Triple
    what: BodyRef


class Queries:
    """Asks Rapier's query pipeline; ``scenery`` are the names behind the tags of what never moves."""

    def __init__(self, world: rapier3d.PhysicsWorld, scenery: list[str]) -> None:
        self._world = world
        self._scenery = scenery
        self._fixed = rapier3d.QueryFilter.only_fixed()

    def _name(self, handle: Any) -> BodyRef:  # noqa: ANN401 - Rapier's handle
        tag = int(self._world.colliders[handle].user_data)
        return "ground" if tag == GROUND else tag if tag < SCENERY_BIT else self._scenery[tag - SCENERY_BIT]

    def occupant(self, kind: ActorType, pose: Pose) -> BodyRef | None:
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

    def cast_ray(self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool) -> tuple[float, BodyRef] | None:
        """Return the distance to the first thing a ray meets and what it is."""
        ray = rapier3d.Ray(mirrored(*start), mirrored(*direction))
        hit = self._world.query_pipeline.cast_ray(ray, reach_m, True, self._fixed if fixed_only else None)
        return None if hit is None else (float(hit[1]), self._name(hit[0]))

    def ray_hits(self, start: Vector, direction: Vector, reach_m: float) -> tuple[RayHit, ...]:
        """Return everything a ray of unit direction passes through, nearest first; each thing where it is entered."""
        found: list[RayHit] = []

        def note(handle: Any, hit: Any) -> bool:  # noqa: ANN401 - Rapier's handle and intersection
            far_m = float(hit.time_of_impact)
            point = tuple(at + far_m * step for at, step in zip(start, direction, strict=True))
            found.append(RayHit(far_m, (point[0], point[1], point[2]), self._name(handle)))
            return True

        ray = rapier3d.Ray(mirrored(*start), mirrored(*direction))
        self._world.query_pipeline.intersect_ray(ray, reach_m, True, note)
        return tuple(sorted(found, key=lambda one: (one.distance_m, str(one.what))))

    def sweep_ball(
        self, start: Vector, direction: Vector, reach_m: float, radius_m: float, *, without: int | None, moving_only: bool
    ) -> tuple[float, BodyRef] | None:
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


__all__ = ["BodyRef", "BodyState", "BrokenActorsError", "Physics", "PhysicsSettings", "RayHit"]

# Upwards speed of a leap, and how slow a walker must rise or fall to count as standing.
_JUMP_MPS: Final = 4.2
_STANDS_MPS: Final = 0.05


@dataclass(frozen=True)
class PhysicsSettings:
    """What is held equal in a run: the step of the world and how finely physics divides it.

    ``threads`` 0 computes in the caller's thread, which is quickest for small worlds: handing a step to a pool of threads of
    its own costs more than the step. The bits are the same.
    """

    step_s: float = 0.05
    substeps: int = 5
    solver_iterations: int = 4
    threads: int = 0

    @property
    def substep_s(self) -> float:
        """Seconds per physics step."""
        return self.step_s / self.substeps


class Physics(ActorBodies):
    """A Rapier world."""

    def __init__(self, settings: PhysicsSettings) -> None:
        if settings.substeps < 1 or not settings.step_s > 0:
            raise SimulatorError(f"a step above 0 s and at least 1 substep were wanted, not {settings}")
        super().__init__(rapier3d.PhysicsWorld(gravity=(0.0, 0.0, -GRAVITY_MPS2)))
        self.settings = settings
        self._scenery: list[str] = []
        self._prepare()

    def _prepare(self) -> None:
        self._world.set_num_threads(self.settings.threads or None)
        parameters = self._world.integration_parameters
        parameters.dt = self.settings.substep_s
        parameters.num_solver_iterations = self.settings.solver_iterations
        self._events = cast(Any, rapier3d.ChannelEventCollector())
        self._world.event_handler = self._events
        self._wheel_filter = rapier3d.QueryFilter.only_fixed()
        self._parts = (self._world.rigid_bodies, self._world.colliders, self._world.query_pipeline)
        self._queries = Queries(self._world, self._scenery)
        self._world.update_query_pipeline()

    def add_static(self, name: str, vertices: NDArray[np.float64], triangles: NDArray[np.int32], *, ground: bool) -> None:
        """Add a mesh that never moves; touching ``ground`` is no collision."""
        points = np.asarray(vertices, np.float64) * np.array([1.0, -1.0, 1.0])
        # The mirror turns every triangle over; turned back, its upper side is the one that carries.
        triangles = np.asarray(triangles)[:, ::-1]
        flags = rapier3d.TriMeshFlags.FIX_INTERNAL_EDGES
        collider = rapier3d.Collider.trimesh(points, np.asarray(triangles, np.uint32), flags).friction(0.9)
        self._add_fixed(name, collider, ground=ground)

    def add_ground(self, half_size_m: float = 1000.0) -> None:
        """Add a flat ground at height 0."""
        collider = rapier3d.Collider.cuboid(half_size_m, half_size_m, 1.0).translation((0.0, 0.0, -1.0)).friction(0.9)
        self._add_fixed("ground", collider, ground=True)

    def add_box(self, name: str, pose: Pose, size_m: Triple) -> None:
        """Add a box of scenery standing on its pose."""
        position = isometry(pose, size_m[2] / 2)
        collider = rapier3d.Collider.cuboid(size_m[0] / 2, size_m[1] / 2, size_m[2] / 2).position(position).friction(0.6)
        self._add_fixed(name, collider, ground=False)

    def _add_fixed(self, name: str, collider: Any, *, ground: bool) -> None:  # noqa: ANN401 - Rapier's builder
        if ground:
            tag = GROUND
        else:
            self._scenery.append(name)
            tag = SCENERY_BIT + len(self._scenery) - 1
        self._world.add_collider(collider.user_data(tag))
        self._world.update_query_pipeline()

    def show_scenery(self, names: frozenset[str], *, on: bool) -> None:
        """Put pieces of scenery back in their place, or take them away."""
        tags = {SCENERY_BIT + index for index, name in enumerate(self._scenery) if name in names}
        for handle in self._world.colliders.handles():
            collider = self._world.colliders[handle]
            if int(collider.user_data) in tags:
                collider.is_enabled = on
        # Queries forget what is disabled only when contacts are looked for again.
        self._world.detect_collisions()

    def step(self, step_s: float | None = None, substeps: int | None = None) -> list[Collision]:
        """Advance by one tick; return the collisions, by actor id, with the impulse of all substeps together.

        A game loop may pass a step of its own; it is divided into the same number of substeps unless another is given.
        """
        settings = self.settings
        count = settings.substeps if substeps is None else substeps
        bodies = self._world.rigid_bodies
        moving = [(one, bodies[one.handle]) for one in self._bodies.values() if one.simulated]
        dt = (settings.step_s if step_s is None else step_s) / count
        vehicles = [self._set_drive(one, rigid, dt) for one, rigid in moving if one.vehicle is not None]
        walkers = [(one, rigid) for one, rigid in moving if self.is_walking(one)]
        for one, rigid in walkers:
            _prepare_walk(one, rigid)
        for one, rigid in moving:
            if one.force_n != NOTHING:
                rigid.add_force(mirrored(*one.force_n))
            if one.torque_nm != NOTHING:
                rigid.add_torque(one.torque_nm)
        contacts = ContactSum(self._events, self._world.colliders)
        world, parts = self._world, self._parts
        world.integration_parameters.dt = dt
        for _ in range(count):
            for vehicle in vehicles:
                vehicle.update_vehicle(dt, *parts, self._wheel_filter)
            for one, rigid in walkers:
                _walk(one, rigid)
            world.step()
            contacts.add(dt)
            self._check_finite()
        # Wheels only feel what never moves, so that queries need not follow every substep.
        world.update_query_pipeline()
        for one, rigid in moving:
            if one.vehicle is not None or one.force_n != NOTHING:
                rigid.reset_forces()
                one.force_n = NOTHING
            if one.torque_nm != NOTHING:
                rigid.reset_torques()
                one.torque_nm = NOTHING
        return [self._collision(pair, impulse_ns) for pair, impulse_ns in contacts.totals()]

    def _set_drive(self, body: ActorBody, rigid: Any, dt: float) -> Any:  # noqa: ANN401 - Rapier's own objects
        kind, vehicle = body.kind, body.vehicle
        command = body.command if isinstance(body.command, VehicleCommand) else VehicleCommand()
        if not isinstance(kind, VehicleType):
            raise SimulatorError(f"{kind.name} is not a vehicle")
        rotation, velocity = rigid.rotation, rigid.linvel
        forward = forward_of((rotation.w, rotation.i, rotation.j, rotation.k))
        speed_mps = velocity.x * forward[0] - velocity.y * forward[1] + velocity.z * forward[2]
        friction = kind.mean_friction if body.friction is None else body.friction
        forces = drive(kind, command, speed_mps, body.gear, friction, body.weight)
        body.gear = forces.gear
        apply_forces(vehicle, kind, command, forces, dt)
        if forces.resistance_n:
            size = -forces.resistance_n if speed_mps > 0 else forces.resistance_n
            rigid.add_force((size * forward[0], -size * forward[1], size * forward[2]))
        return vehicle

    def _collision(self, pair: tuple[int, int], impulse_ns: Triple) -> Collision:
        actor, other = pair
        impulse = Vector(*mirrored(*impulse_ns))
        if other >= SCENERY_BIT:
            return Collision(actor, None, impulse, self._scenery[other - SCENERY_BIT])
        return Collision(actor, other, impulse)

    def _check_finite(self) -> None:
        quarantine = self._world.quarantine
        if not quarantine.is_empty():
            broken = {(one.index, one.generation) for one in quarantine.bodies}
            raise BrokenActorsError(
                [number for number, one in self._bodies.items() if (one.handle.index, one.handle.generation) in broken]
            )

    def occupant(self, kind: ActorType, pose: Pose) -> BodyRef | None:
        """Return what stands where an actor of this kind would: an actor's id, a name of scenery, or None if it is free."""
        return self._queries.occupant(kind, pose)

    def cast_ray(
        self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool = False
    ) -> tuple[float, BodyRef] | None:
        """Return the distance to the first thing a ray meets and what it is (an actor's id, scenery's name or 'ground')."""
        return self._queries.cast_ray(start, direction, reach_m, fixed_only=fixed_only)

    def ray_hits(self, start: Vector, direction: Vector, reach_m: float) -> tuple[RayHit, ...]:
        """Return everything a ray of unit direction passes through, nearest first."""
        return self._queries.ray_hits(start, direction, reach_m)

    def sweep_ball(
        self, start: Vector, direction: Vector, reach_m: float, radius_m: float, *, without: int | None, moving_only: bool
    ) -> tuple[float, BodyRef] | None:
        """Return how far a ball flies before it meets something other than the ground or the actor ``without``."""
        return self._queries.sweep_ball(start, direction, reach_m, radius_m, without=without, moving_only=moving_only)

    def snapshot(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return plain data and blobs from which :meth:`restore` goes on bit for bit."""
        blobs = [self._world.snapshot()]
        bodies = [one.to_data(number, blobs) for number, one in self._bodies.items()]
        return {"settings": self.settings.__dict__, "scenery": self._scenery, "bodies": bodies}, blobs

    @classmethod
    def restore(cls, data: dict[str, Any], blobs: list[bytes]) -> "Physics":
        """Build the engine that :meth:`snapshot` was taken of."""
        physics = cls.__new__(cls)
        ActorBodies.__init__(physics, rapier3d.PhysicsWorld.restore(blobs[0]))
        physics.settings = PhysicsSettings(**data["settings"])
        physics._scenery = list(data["scenery"])
        physics._bodies = {one["id"]: ActorBody.from_data(one, blobs) for one in data["bodies"]}
        physics._prepare()
        return physics


def _walk(body: ActorBody, rigid: Any) -> None:  # noqa: ANN401 - Rapier's body
    """Hold a walker's horizontal velocity at what it wants; what happens to its height is physics."""
    command = body.command if isinstance(body.command, WalkerCommand) else WalkerCommand()
    speed = command.speed_mps
    rigid.linvel = (command.direction_x * speed, -command.direction_y * speed, rigid.linvel.z)


def _prepare_walk(body: ActorBody, rigid: Any) -> None:  # noqa: ANN401 - Rapier's body
    """Turn a walker to where it goes and let it leap, where its command says so."""
    command = body.command
    if not isinstance(command, WalkerCommand):
        return
    if command.face_ahead and command.speed_mps and (command.direction_x or command.direction_y):
        yaw = quaternion_of(Pose(yaw_deg=to_degrees(atan2(command.direction_y, command.direction_x))))
        rigid.rotation = rapier3d.Rotation3(*yaw)
    if command.jump and abs(rigid.linvel.z) < _STANDS_MPS:
        rigid.linvel = (rigid.linvel.x, rigid.linvel.y, _JUMP_MPS)
