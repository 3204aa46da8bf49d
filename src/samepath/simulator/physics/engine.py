"""The physics engine: Rapier behind a few verbs, in CARLA's frame, every order fixed by actor id.

What makes it repeat to the bit: bodies are added, driven and read in the order of their ids, contacts are sorted before they
are summed, the step is a fixed float, and no number passes through libm. One thread or several give the same bits, because what
threads report in any order (contacts, hits of a ray) is sorted before it is used. A world that everybody has left is as new:
whoever comes next finds nothing of those before, see ``Physics._renew``.

What wheels feel is everything that never moves, gathered into one mesh. Nearly half of a tick with many vehicles is the rays of
their wheels, four for each vehicle and substep. In the world's own tree a ray first finds its way among hundreds of boxes,
those of all vehicles and of every tree and house, and then among the triangles of the ground. One mesh of all triangles has one
tree, and wheels ask that: it takes a quarter less in ``town``. What a ray meets is the same: the same triangles, with the same
32-bit corners, each tried by the same formula. Only the order in which they are tried is another.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import numpy as np
import rapier3d
from numpy.typing import NDArray

from samepath.core.catalogue import ActorType, PropType, VehicleType, WalkerType
from samepath.core.errors import SimulatorError
from samepath.core.states import Collision, Pose, Vector, VehicleCommand, WalkerCommand
from samepath.core.trig import atan2, to_degrees
from samepath.simulator.physics.actors import (
    NOTHING,
    ActorBody,
    BodyState,
    BrokenActorsError,
    half_size,
    isometry,
    parts_of,
    vehicle_mass,
)
from samepath.simulator.physics.drivetrain import GRAVITY_MPS2, apply_forces, drive
from samepath.simulator.physics.frames import Triple, forward_of, mirrored, mirrored_spin, quaternion_of


def gathered(colliders: rapier3d.ColliderSet) -> rapier3d.PhysicsWorld:
    """A world of the scenery among ``colliders``, its meshes made one; what is hidden is left out.

    It follows from the scenery and the order in which it came, not from anything that has happened: a restored world has the
    very same one.
    """
    world = rapier3d.PhysicsWorld()
    corners, faces, count = [], [], 0
    at_home = rapier3d.Isometry3.identity()
    for handle in sorted(colliders.handles(), key=lambda handle: handle.index):
        fixed = colliders[handle]
        if fixed.parent is not None or not fixed.is_enabled:
            continue
        mesh = fixed.shape.as_trimesh()
        if mesh is None or not fixed.position.bitwise_equal(at_home):
            world.add_collider(rapier3d.Collider.new(fixed.shape).position(fixed.position))
            continue
        corners.append(mesh.vertices)
        faces.append(mesh.indices + np.uint32(count))
        count += len(mesh.vertices)
    if corners:
        world.add_collider(rapier3d.Collider.trimesh(np.concatenate(corners), np.concatenate(faces)))
    # Queries see what a world had when it last looked for contacts.
    world.detect_collisions()
    world.update_query_pipeline()
    return world


# Tags of colliders (Rapier's user data): an actor's id, 0 for the ground, or scenery by its number beyond this bit, which
# is far above any id of an actor (CARLA's have 32 bits).
GROUND: Final = 0
SCENERY_BIT: Final = 1 << 40

# What a query met: an actor's id, a name of scenery, or 'ground'.
BodyRef = int | str

_EVENTS: Final = rapier3d.ActiveEvents.COLLISION_EVENTS | rapier3d.ActiveEvents.CONTACT_FORCE_EVENTS

# Of somebody who lies on the road: people who were hit slide over asphalt with about this friction, and their limbs, which a
# capsule has not, keep them from rolling. With less damping Rapier's contacts set a lying capsule rolling by themselves; with
# more it takes seconds to fall over.
_LYING_FRICTION: Final = 0.6
_LYING_DAMPING_PER_S: Final = 5.0
# Upwards speed of a leap, and how slowly a walker must rise or fall to count as standing.
_JUMP_MPS: Final = 4.2
_STANDS_MPS: Final = 0.05
# From so many bodies on, a pool of one thread takes the steps; measured, see ``Physics._choose_threads``.
_MANY_BODIES: Final = 200
# From so many vehicles on, the scenery is made one mesh for their wheels: it takes 20 ms in ``town``, which eight vehicles have
# back in 25 s of their time.
_MANY_VEHICLES: Final = 8


# Rapier gives a rotation as x, y, z, w; in our frame y has the other sign, and of a spin x and z have.
_RAPIER_ORDER: Final = [0, 1, 2, 6, 3, 4, 5, 7, 8, 9, 10, 11, 12]
_TO_OUR_FRAME: Final = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
_NO_PEDALS: Final = VehicleCommand()


# Where the rays of wheels look: bodies, colliders, and the tree of these.
_Felt = tuple[rapier3d.RigidBodySet, rapier3d.ColliderSet, rapier3d.QueryPipeline]


class _Moving(NamedTuple):
    """What physics moves, each body with Rapier's side of it: everything, and of that the vehicles and who walks."""

    all: list[tuple[ActorBody, rapier3d.RigidBody]]
    vehicles: list[tuple[ActorBody, rapier3d.RigidBody]]
    walkers: list[tuple[ActorBody, rapier3d.RigidBody]]


class RayHit(NamedTuple):
    """Something a ray passes through: how far along, where, and what it is."""

    distance_m: float
    point_m: Triple
    what: BodyRef


@dataclass(frozen=True)
class PhysicsSettings:
    """What is held equal in a run: the step of the world and how finely physics divides it.

    ``threads`` 0 leaves it to the engine: a small world is computed in the caller's thread, a large one in one thread of its
    own. The bits are the same, whatever the number.
    """

    step_s: float = 0.05
    substeps: int = 5
    solver_iterations: int = 4
    threads: int = 0

    @property
    def substep_s(self) -> float:
        """Seconds per physics step."""
        return self.step_s / self.substeps


class Physics:
    """A Rapier world: actors by id, scenery by name."""

    def __init__(self, settings: PhysicsSettings) -> None:
        if settings.substeps < 1 or not settings.step_s > 0:
            raise SimulatorError(f"a step above 0 s and at least 1 substep were wanted, not {settings}")
        self.settings = settings
        self._world = rapier3d.PhysicsWorld(gravity=(0.0, 0.0, -GRAVITY_MPS2))
        self._bodies: dict[int, ActorBody] = {}
        self._rigids: dict[int, rapier3d.RigidBody] = {}  # Rapier's side of each: a view that stays until the body is removed
        self._scenery: list[str] = []  # names behind the tags of what never moves
        self.grip = 1.0
        self._ground: rapier3d.PhysicsWorld | None = None
        self._prepare()

    def _prepare(self) -> None:
        # Called for a new world and for a restored one, so that both are set up alike.
        self._threads: int | None = 0  # as Rapier was told; nothing yet
        self._choose_threads()
        parameters = self._world.integration_parameters
        parameters.dt = self.settings.substep_s
        parameters.num_solver_iterations = self.settings.solver_iterations
        self._events = cast(Any, rapier3d.ChannelEventCollector())
        self._world.event_handler = self._events
        self._fixed_only = rapier3d.QueryFilter.only_fixed()
        self._felt: _Felt | None = None  # by wheels; None: to be found anew, since somebody came or went, or scenery did
        rigid_bodies = self._world.rigid_bodies
        self._rigids = {number: rigid_bodies[body.handle] for number, body in self._bodies.items()}
        self._moving: _Moving | None = None  # None: to be found anew, since somebody came, went, fell or was held
        self._tags: dict[rapier3d.ColliderHandle, int] = {}  # of colliders that have touched something
        self._refresh_queries()

    def _choose_threads(self) -> None:
        """Without a wish of the user: Rapier's own way for few bodies, a pool of one thread for many.

        Rapier computes few bodies in the caller's thread, and shares many out over a pool with a thread for every core. Those
        threads wait for each other dozens of times a step: on 16 cores that took a third longer than one thread alone, and on
        a machine whose cores are busy it takes as long as the scheduler likes. A pool of one does everything in one go, but a
        step must be handed to it, which costs more than the step of a few bodies.
        """
        wanted = self.settings.threads or (1 if len(self._bodies) >= _MANY_BODIES else None)
        if wanted != self._threads:
            self._threads = wanted
            self._world.set_num_threads(wanted)

    def add(self, actor_id: int, kind: ActorType, pose: Pose, *, in_order: bool = True) -> None:
        """Add an actor's body. Ids rise and are never reused, so that the order of bodies is the order of ids.

        Without ``in_order`` Rapier meets the bodies as they come, the way engines do that leave it to a container.
        """
        if actor_id in self._bodies or (in_order and self._bodies and actor_id <= max(self._bodies)):
            raise SimulatorError(f"actor id {actor_id} must be above all before it: ids are never reused")
        if not self._bodies:
            self._renew()
        body, collider = parts_of(kind)
        body = body.position(isometry(pose))
        # Contacts are told from the lightest touch on: the impulse of a collision is the sum of all of it.
        handle = self._world.add_body(
            body, [collider.user_data(actor_id).active_events(_EVENTS).contact_force_event_threshold(0.0)]
        )
        self._bodies[actor_id] = ActorBody(kind, handle)
        self._rigids[actor_id] = self._world.rigid_bodies[handle]
        self._moving = self._felt = None
        if isinstance(kind, VehicleType):
            self._bodies[actor_id].fit(None, self.grip)
        self._choose_threads()
        self._refresh_queries()

    def _renew(self) -> None:
        """Begin again with the scenery alone, in the order in which it came.

        Rapier gives the place of the body that left last to the one that comes next, and solves a contact in the order of
        those places. Two cars that are destroyed in the order in which they were spawned, and spawned again, have changed
        places: their collision then comes out by other bits, in every second repeat. How far its trees of bounding boxes have
        been tidied up is such a memory as well. It takes 2 ms in ``town``: the meshes are shared, not built again.
        """
        old = self._world.colliders
        self._world = rapier3d.PhysicsWorld(gravity=(0.0, 0.0, -GRAVITY_MPS2))
        for handle in sorted(old.handles(), key=lambda handle: handle.index):
            fixed = old[handle]
            again = rapier3d.Collider.new(fixed.shape).position(fixed.position).friction(fixed.friction)
            self._world.add_collider(again.user_data(int(fixed.user_data)).enabled(fixed.is_enabled))
        self._prepare()

    def remove(self, actor_id: int) -> None:
        """Take an actor's body out of the world."""
        self._world.remove_body(self._bodies.pop(actor_id).handle)
        del self._rigids[actor_id]
        self._moving = self._felt = None
        self._tags = {}
        self._refresh_queries()

    def kind(self, actor_id: int) -> ActorType:
        """Return an actor's type, as it is now."""
        return self._bodies[actor_id].kind

    def refit(self, actor_id: int, kind: VehicleType) -> None:
        """Turn a vehicle into one with other numbers: mass, engine, wheels; its size stays."""
        body = self._bodies[actor_id]
        if not isinstance(body.kind, VehicleType):
            raise SimulatorError(f"actor {actor_id} is a {body.kind.name}: it has no wheels to change")
        rigid = self._rigid(actor_id)
        body.kind = kind
        collider = self._world.colliders[rigid.colliders[0]]
        collider.mass_properties = vehicle_mass(kind)
        rigid.recompute_mass_properties_from_colliders(self._world.colliders)
        body.fit(body.friction, body.grip)

    def _rigid(self, actor_id: int) -> rapier3d.RigidBody:
        return self._rigids[actor_id]

    def command(self, actor_id: int, command: VehicleCommand | WalkerCommand) -> None:
        """Set what drives a body from the next step on."""
        self._bodies[actor_id].command = command

    def step(self, step_s: float | None = None, substeps: int | None = None) -> list[Collision]:
        """Advance by one tick; return the collisions, by actor id, with the impulse of all substeps together.

        A game loop may pass a step of its own; it is divided into the same number of substeps unless another is given.
        """
        settings = self.settings
        count = settings.substeps if substeps is None else substeps
        moving = self._moving or self._find_moving()
        dt = (settings.step_s if step_s is None else step_s) / count
        vehicles = [_set_drive(body, rigid, dt) for body, rigid in moving.vehicles]
        walkers = moving.walkers
        # Once a tick: a leap is one push, however finely the tick is divided.
        for body, rigid in walkers:
            _prepare_walk(body, rigid)
        for body, rigid in moving.all:
            if body.force_n != NOTHING:
                rigid.add_force(mirrored(*body.force_n))
            if body.torque_nm != NOTHING:
                rigid.add_torque(body.torque_nm)
        contacts = ContactSum(self._events, self._world.colliders, self._tags)
        world, felt = self._world, self._felt or self._find_felt()
        world.integration_parameters.dt = dt
        for _ in range(count):
            # Wheels first: the forces of their springs belong to the step that follows.
            for vehicle in vehicles:
                vehicle.update_vehicle(dt, *felt, self._fixed_only)
            # In every substep, since contacts of the one before have changed it.
            for body, rigid in walkers:
                _walk(body, rigid)
            world.step()
            contacts.add(dt)
            # At once: by the next substep a NaN would have reached whoever it touches.
            self._check_finite()
        # Wheels only feel what never moves: queries follow when somebody asks, not in every substep, nor in every tick.
        self._queries_behind = True
        # Rapier keeps forces until they are reset: without this they would act in every tick from now on.
        for body, rigid in moving.all:
            if body.vehicle is not None or body.force_n != NOTHING:
                rigid.reset_forces()
                body.force_n = NOTHING
            if body.torque_nm != NOTHING:
                rigid.reset_torques()
                body.torque_nm = NOTHING
        return [self._collision(pair, impulse_ns) for pair, impulse_ns in contacts.totals()]

    def _find_felt(self) -> "_Felt":
        """What wheels feel: the scenery as one mesh, unless vehicles are few, or there are props that never move as well."""
        world, bodies = self._world, self._bodies.values()
        self._felt = (world.rigid_bodies, world.colliders, world.query_pipeline)
        has_fixed_props = any(isinstance(body.kind, PropType) and not body.kind.mass_kg for body in bodies)
        if not has_fixed_props and sum(body.vehicle is not None for body in bodies) >= _MANY_VEHICLES:
            ground = self._ground = self._ground or gathered(world.colliders)
            queries = rapier3d.QueryPipeline(ground.broad_phase, ground.narrow_phase, world.rigid_bodies, ground.colliders)
            self._felt = (world.rigid_bodies, ground.colliders, queries)
        return self._felt

    def _find_moving(self) -> "_Moving":
        # In the order of ``_bodies``, that of ids unless a scenario chose otherwise before its first tick: no set, no order of
        # Rapier's.
        everyone = [(body, self._rigids[number]) for number, body in self._bodies.items() if body.simulated]
        self._moving = _Moving(
            everyone,
            [(body, rigid) for body, rigid in everyone if body.vehicle is not None],
            [(body, rigid) for body, rigid in everyone if isinstance(body.kind, WalkerType) and not body.fallen],
        )
        return self._moving

    def _collision(self, pair: tuple[int, int], impulse_ns: Triple) -> Collision:
        actor, other = pair
        impulse = Vector(*mirrored(*impulse_ns))
        if other >= SCENERY_BIT:
            return Collision(actor, None, impulse, self._scenery[other - SCENERY_BIT])
        return Collision(actor, other, impulse)

    def _check_finite(self) -> None:
        quarantine = self._world.quarantine
        if not quarantine.is_empty():
            broken = {(handle.index, handle.generation) for handle in quarantine.bodies}
            raise BrokenActorsError(
                [number for number, body in self._bodies.items() if (body.handle.index, body.handle.generation) in broken]
            )

    def state(self, actor_id: int) -> BodyState:
        """Read one body."""
        return self.states((actor_id,))[0]

    def states(self, actor_ids: Iterable[int]) -> list[BodyState]:
        """Read many bodies."""
        rigids, found = self._rigids, []
        for actor_id in actor_ids:
            rigid = rigids[actor_id]
            # One call for all parts of a vector: with a hundred bodies, reading part by part is a tenth of a tick.
            x, y, z = rigid.translation.to_tuple()
            i, j, k, w = rigid.rotation.to_tuple()
            vx, vy, vz = rigid.linvel.to_tuple()
            ax, ay, az = rigid.angvel.to_tuple()
            found.append(BodyState((x, -y, z), (w, i, j, k), (vx, -vy, vz), (-ax, ay, -az)))
        return found

    def state_array(self, actor_ids: Iterable[int]) -> NDArray[np.float64]:
        """Read many bodies into f64[n, 13]: the numbers of :class:`BodyState`, in its order."""
        numbers: list[float] = []
        rigids = self._rigids
        for actor_id in actor_ids:
            rigid = rigids[actor_id]
            numbers += rigid.translation.to_tuple()
            numbers += rigid.rotation.to_tuple()
            numbers += rigid.linvel.to_tuple()
            numbers += rigid.angvel.to_tuple()
        found = np.array(numbers, np.float64).reshape(-1, len(_RAPIER_ORDER))[:, _RAPIER_ORDER]
        found *= _TO_OUR_FRAME
        return found

    def engine_bodies(self) -> dict[int, BodyState]:
        """Return all of Rapier's rigid bodies, by the actor id that each one's collider carries.

        Uses no table that this class keeps: a check compares those tables with it.
        """
        found = {}
        colliders = self._world.colliders
        for handle in self._world.rigid_bodies.handles():
            rigid = self._world.rigid_bodies[handle]
            x, y, z = rigid.translation.to_tuple()
            i, j, k, w = rigid.rotation.to_tuple()
            vx, vy, vz = rigid.linvel.to_tuple()
            ax, ay, az = rigid.angvel.to_tuple()
            body = BodyState((x, -y, z), (w, i, j, k), (vx, -vy, vz), (-ax, ay, -az))
            found[int(colliders[rigid.colliders[0]].user_data)] = body
        return dict(sorted(found.items()))

    def velocity_at(self, actor_id: int, point_m: Vector) -> Vector:
        """Return how fast a point of the world would move if it were fixed to a body."""
        velocity = self._rigid(actor_id).velocity_at_point(mirrored(*point_m))
        return Vector(*mirrored(velocity.x, velocity.y, velocity.z))

    def gear(self, actor_id: int) -> int:
        """Return a vehicle's gear; -1 is reverse."""
        return self._bodies[actor_id].gear

    def gears(self, actor_ids: Iterable[int]) -> list[int]:
        """Return the gears of many vehicles."""
        bodies = self._bodies
        return [bodies[actor_id].gear for actor_id in actor_ids]

    def wheels(self, actor_id: int) -> list[rapier3d.Wheel]:
        """Return Rapier's wheels of a vehicle: front left, front right, rear left, rear right."""
        vehicle = self._bodies[actor_id].vehicle
        return [] if vehicle is None else list(vehicle.wheels())

    def fallen(self, actor_id: int) -> bool:
        """Has a walker been knocked down?"""
        return self._bodies[actor_id].fallen

    def simulated(self, actor_id: int) -> bool:
        """Does physics move it?"""
        return self._bodies[actor_id].simulated

    def tyre_friction(self, actor_id: int) -> float | None:
        """Return the friction that was set for all tyres, None where wheels have their own."""
        return self._bodies[actor_id].friction

    # Changes from outside, between two steps. They happen at once, except forces and torques: those are kept and act
    # throughout the next tick, as in CARLA.

    def set_pose(self, actor_id: int, pose: Pose) -> None:
        """Put a body elsewhere; its velocity stays."""
        self._rigid(actor_id).position = isometry(pose)
        self._refresh_queries()

    def set_velocity(self, actor_id: int, velocity_mps: Vector, spin_radps: Vector | None = None) -> None:
        """Set a body's velocity, and its angular velocity if given."""
        body = self._rigid(actor_id)
        body.linvel = rapier3d.Vec3(*mirrored(*velocity_mps))
        if spin_radps is not None:
            body.angvel = rapier3d.Vec3(*mirrored_spin(*spin_radps))

    def set_spin(self, actor_id: int, spin_radps: Vector) -> None:
        """Set a body's angular velocity."""
        self._rigid(actor_id).angvel = rapier3d.Vec3(*mirrored_spin(*spin_radps))

    def add_impulse(self, actor_id: int, impulse_ns: Vector, at_m: Vector | None = None) -> None:
        """Push a body, at its centre of mass or at a point of the world, at once."""
        body = self._rigid(actor_id)
        if at_m is None:
            body.apply_impulse(mirrored(*impulse_ns))
        else:
            body.apply_impulse_at_point(mirrored(*impulse_ns), mirrored(*at_m))

    def add_angular_impulse(self, actor_id: int, impulse_nms: Vector) -> None:
        """Turn a body, at once."""
        self._rigid(actor_id).apply_torque_impulse(mirrored_spin(*impulse_nms))

    def add_force(self, actor_id: int, force_n: Vector, at_m: Vector | None = None) -> None:
        """Push a body, at its centre of mass or at a point of the world, throughout the next tick."""
        body = self._bodies[actor_id]
        x, y, z = body.force_n
        body.force_n = (x + force_n.x, y + force_n.y, z + force_n.z)
        if at_m is not None:
            centre = self._rigid(actor_id).center_of_mass
            arm = mirrored(*at_m)
            self._add_torque(body, _cross((arm[0] - centre.x, arm[1] - centre.y, arm[2] - centre.z), mirrored(*force_n)))

    def add_torque(self, actor_id: int, torque_nm: Vector) -> None:
        """Turn a body throughout the next tick."""
        self._add_torque(self._bodies[actor_id], mirrored_spin(*torque_nm))

    @staticmethod
    def _add_torque(body: ActorBody, torque_nm: Triple) -> None:
        x, y, z = body.torque_nm
        body.torque_nm = (x + torque_nm[0], y + torque_nm[1], z + torque_nm[2])

    def set_tyre_friction(self, actor_id: int, friction: float | None) -> None:
        """Change the friction of all tyres of a vehicle; None gives the wheels back their own."""
        body = self._bodies[actor_id]
        if body.friction != friction:
            body.fit(friction, body.grip)

    def set_grip(self, grip: float) -> None:
        """Change what the road leaves of all tyres' own friction."""
        self.grip = grip
        for body in self._bodies.values():
            if body.vehicle is not None and body.grip != grip:
                body.fit(body.friction, grip)

    def set_simulated(self, actor_id: int, *, on: bool) -> None:
        """Let physics move a body, or leave it where it is put; others still bump into it."""
        body, types = self._bodies[actor_id], rapier3d.RigidBodyType
        # What has no mass is fixed: there is nothing to switch.
        if body.simulated == on or not getattr(body.kind, "mass_kg", 0.0):
            return
        body.simulated = on
        self._moving = None
        rigid = self._rigid(actor_id)
        rigid.body_type = types.DYNAMIC if on else types.KINEMATIC_POSITION_BASED
        # What stands still by decree must not tell of a speed it had.
        if not on:
            rigid.linvel = rapier3d.Vec3(0.0, 0.0, 0.0)
            rigid.angvel = rapier3d.Vec3(0.0, 0.0, 0.0)

    def set_collisions(self, actor_id: int, *, on: bool) -> None:
        """Let a body touch others, or pass through everything."""
        groups = rapier3d.InteractionGroups.all() if on else rapier3d.InteractionGroups.none()
        for handle in self._rigid(actor_id).colliders:
            self._world.colliders[handle].collision_groups = groups

    def set_gravity(self, actor_id: int, *, on: bool) -> None:
        """Let gravity pull a body, or not."""
        self._bodies[actor_id].weight = 1.0 if on else 0.0
        self._rigid(actor_id).gravity_scale = 1.0 if on else 0.0

    def knock_down(self, actor_id: int) -> None:
        """Let a walker fall: it no longer walks and may turn over."""
        self._bodies[actor_id].fallen = True
        self._moving = None
        rigid = self._rigid(actor_id)
        rigid.enabled_rotations = (True, True, True)
        # Legs do not drag, but a body does: without this it would slide for ever, and, being round, roll for ever.
        rigid.angular_damping = _LYING_DAMPING_PER_S
        for handle in rigid.colliders:
            self._world.colliders[handle].friction = _LYING_FRICTION

    def add_static(self, name: str, vertices: NDArray[np.float64], triangles: NDArray[np.int32], *, ground: bool) -> None:
        """Add a mesh that never moves; touching ``ground`` is no collision."""
        points = np.asarray(vertices, np.float64) * np.array([1.0, -1.0, 1.0])
        # The mirror turns every triangle over; turned back, its upper side is the one that carries.
        triangles = np.asarray(triangles)[:, ::-1]
        # A body that slides over the seam of two triangles would bump into the edge between them, which is not there.
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

    def _add_fixed(self, name: str, collider: rapier3d.ColliderBuilder, *, ground: bool) -> None:
        if ground:
            tag = GROUND
        else:
            self._scenery.append(name)
            tag = SCENERY_BIT + len(self._scenery) - 1
        self._world.add_collider(collider.user_data(tag))
        self._ground = self._felt = None
        self._refresh_queries()

    def show_scenery(self, names: frozenset[str], *, on: bool) -> None:
        """Put pieces of scenery back in their place, or take them away."""
        tags = {SCENERY_BIT + index for index, name in enumerate(self._scenery) if name in names}
        for handle in self._world.colliders.handles():
            collider = self._world.colliders[handle]
            if int(collider.user_data) in tags:
                collider.is_enabled = on
        self._ground = self._felt = None
        # Queries forget what is disabled only when contacts are looked for again.
        self._world.detect_collisions()

    # Queries change nothing. They see the bodies as of the last update of the query pipeline, so everything that moves, adds
    # or removes a body outside of a step updates it, and whoever asks first after a step does.

    def _refresh_queries(self) -> None:
        self._queries_behind = False
        self._world.update_query_pipeline()

    def _queries(self) -> rapier3d.QueryPipeline:
        if self._queries_behind:
            self._refresh_queries()
        return self._world.query_pipeline

    def occupant(self, kind: ActorType, pose: Pose) -> BodyRef | None:
        """Return what stands where an actor of this kind would: an actor's id, a name of scenery, or None if it is free."""
        half, lift = half_size(kind)
        # A little smaller than the actor: who stands bumper to bumper does not overlap.
        shape = rapier3d.SharedShape.cuboid(*(0.98 * side for side in half))
        found: list[int] = []
        colliders = self._world.colliders

        def note(handle: rapier3d.ColliderHandle) -> bool:
            found.append(int(colliders[handle].user_data))
            return True

        self._queries().intersect_shape(isometry(pose, lift), shape, note)
        # Sorted: a query reports in an order of its own, and the refusal names one. The ground is where everybody stands.
        tags = sorted(tag for tag in found if tag != GROUND)
        if not tags:
            return None
        return tags[0] if tags[0] < SCENERY_BIT else self._scenery[tags[0] - SCENERY_BIT]

    def cast_ray(self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool) -> tuple[float, BodyRef] | None:
        """Return the distance to the first thing a ray meets and what it is."""
        ray = rapier3d.Ray(mirrored(*start), mirrored(*direction))
        hit = self._queries().cast_ray(ray, reach_m, True, self._fixed_only if fixed_only else None)
        return None if hit is None else (float(hit[1]), self._name(hit[0]))

    def ray_hits(self, start: Vector, direction: Vector, reach_m: float) -> tuple[RayHit, ...]:
        """Return everything a ray of unit direction passes through, nearest first; each thing where it is entered."""
        found: list[RayHit] = []

        def note(handle: rapier3d.ColliderHandle, hit: rapier3d.RayIntersection) -> bool:
            far_m = float(hit.time_of_impact)
            point = tuple(at + far_m * step for at, step in zip(start, direction, strict=True))
            found.append(RayHit(far_m, (point[0], point[1], point[2]), self._name(handle)))
            return True

        ray = rapier3d.Ray(mirrored(*start), mirrored(*direction))
        self._queries().intersect_ray(ray, reach_m, True, note)
        # Where two begin at the same distance their names decide, not the order in which the query came upon them.
        return tuple(sorted(found, key=lambda hit: (hit.distance_m, str(hit.what))))

    def sweep_ball(
        self, start: Vector, direction: Vector, reach_m: float, radius_m: float, *, without: int | None, moving_only: bool
    ) -> tuple[float, BodyRef] | None:
        """Return how far a ball flies before it meets something other than the ground or the actor ``without``, and what."""
        colliders = self._world.colliders

        def counts(handle: rapier3d.ColliderHandle, _: object) -> bool:
            tag = int(colliders[handle].user_data)
            return tag not in (GROUND, without) and not (moving_only and tag >= SCENERY_BIT)

        pose = rapier3d.Isometry3(mirrored(*start), rapier3d.Rotation3(1.0, 0.0, 0.0, 0.0))
        options = rapier3d.ShapeCastOptions.with_max_time_of_impact(reach_m)
        query_filter = rapier3d.QueryFilter.new().predicate(counts)
        shape = rapier3d.SharedShape.ball(radius_m)
        hit = self._queries().cast_shape(pose, mirrored(*direction), shape, options, query_filter)
        return None if hit is None else (float(hit[1].time_of_impact), self._name(hit[0]))

    def _name(self, handle: rapier3d.ColliderHandle) -> BodyRef:
        tag = int(self._world.colliders[handle].user_data)
        return "ground" if tag == GROUND else tag if tag < SCENERY_BIT else self._scenery[tag - SCENERY_BIT]

    def snapshot(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return plain data and blobs from which :meth:`restore` goes on bit for bit."""
        blobs = [self._world.snapshot()]
        # Rapier's snapshot knows bodies and contacts; wheels, gears and commands are kept outside of it and go along.
        bodies = [body.to_data(number, blobs) for number, body in self._bodies.items()]
        return {"settings": self.settings.__dict__, "scenery": self._scenery, "grip": self.grip, "bodies": bodies}, blobs

    @classmethod
    def restore(cls, data: dict[str, Any], blobs: list[bytes]) -> "Physics":
        """Build the engine that :meth:`snapshot` was taken of."""
        physics = cls.__new__(cls)
        physics.settings = PhysicsSettings(**data["settings"])
        physics._world = rapier3d.PhysicsWorld.restore(blobs[0])
        physics._scenery = list(data["scenery"])
        physics.grip = data.get("grip", 1.0)  # snapshots of before have none
        physics._ground = None
        physics._bodies = {body["id"]: ActorBody.from_data(body, blobs) for body in data["bodies"]}
        physics._prepare()
        return physics


class ContactSum:
    """Sums the impulses of a tick per pair of tags, the lower one first; touching the ground does not count."""

    def __init__(self, events: Any, colliders: Any, tags: dict[Any, int]) -> None:  # noqa: ANN401 - Rapier's own objects
        self._events = events
        self._colliders = colliders
        self._tags = tags  # those that were looked up before
        self._sums: dict[tuple[int, int], list[float]] = {}

    def add(self, dt_s: float) -> None:
        """Add what one substep of ``dt_s`` reported; sorted, because threads may report in any order."""
        if not len(self._events):
            return
        forces = self._events.drain_contact_force_events()
        # Nobody wants these, but they would pile up.
        self._events.drain_collision_events()
        found = []
        for event in forces:
            a = self._tag(event.collider1)
            if a == GROUND or (b := self._tag(event.collider2)) == GROUND:
                continue
            total = event.total_force
            # Rapier's force acts on the second collider; ours on the lower tag.
            sign = 1.0 if a > b else -1.0
            found.append((min(a, b), max(a, b), sign * total.x, sign * total.y, sign * total.z))
        # Sums of floats depend on their order.
        for a, b, x, y, z in sorted(found):
            impulse = self._sums.setdefault((a, b), [0.0, 0.0, 0.0])
            impulse[0] += x * dt_s
            impulse[1] += y * dt_s
            impulse[2] += z * dt_s

    def _tag(self, handle: Any) -> int:  # noqa: ANN401 - Rapier's own
        tag = self._tags.get(handle)
        if tag is None:
            tag = self._tags[handle] = int(self._colliders[handle].user_data)
        return tag

    def totals(self) -> list[tuple[tuple[int, int], Triple]]:
        """Return the pairs and the impulses in N s that act on their first members, in order."""
        return [(pair, (x, y, z)) for pair, (x, y, z) in sorted(self._sums.items())]


def _set_drive(body: ActorBody, rigid: rapier3d.RigidBody, dt: float) -> rapier3d.DynamicRayCastVehicleController:
    """Let pedals and wheel act on a vehicle for one tick."""
    kind, vehicle = body.kind, body.vehicle
    command = body.command if isinstance(body.command, VehicleCommand) else _NO_PEDALS
    if not isinstance(kind, VehicleType) or vehicle is None:
        raise SimulatorError(f"{kind.name} is not a vehicle")
    i, j, k, w = rigid.rotation.to_tuple()
    x_mps, y_mps, z_mps = rigid.linvel.to_tuple()
    forward_x, forward_y, forward_z = forward_of((w, i, j, k))
    # Forward is in our frame, the velocity in Rapier's: y has the other sign.
    speed_mps = x_mps * forward_x - y_mps * forward_y + z_mps * forward_z
    forces = drive(kind, command, speed_mps, body.gear, body.tyre_friction, body.weight)
    body.gear = forces.gear
    body.told = apply_forces(vehicle, kind, command, forces, dt, body.told)
    if forces.resistance_n:
        size = -forces.resistance_n if speed_mps > 0 else forces.resistance_n
        rigid.add_force((size * forward_x, -size * forward_y, size * forward_z))
    return vehicle


def _walk(body: ActorBody, rigid: rapier3d.RigidBody) -> None:
    """Hold a walker's horizontal velocity at what it wants; what happens to its height is physics."""
    command = body.command if isinstance(body.command, WalkerCommand) else WalkerCommand()
    speed = command.speed_mps
    rigid.linvel = rapier3d.Vec3(command.direction_x * speed, -command.direction_y * speed, rigid.linvel.z)


def _prepare_walk(body: ActorBody, rigid: rapier3d.RigidBody) -> None:
    """Turn a walker to where it goes and let it leap, where its command says so."""
    command = body.command
    if not isinstance(command, WalkerCommand):
        return
    if command.face_ahead and command.speed_mps and (command.direction_x or command.direction_y):
        yaw = quaternion_of(Pose(yaw_deg=to_degrees(atan2(command.direction_y, command.direction_x))))
        rigid.rotation = rapier3d.Rotation3(*yaw)
    if command.jump and abs(rigid.linvel.z) < _STANDS_MPS:
        rigid.linvel = rapier3d.Vec3(rigid.linvel.x, rigid.linvel.y, _JUMP_MPS)


def _cross(a: Triple, b: Triple) -> Triple:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
