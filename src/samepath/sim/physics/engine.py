"""The physics engine: Rapier behind a few verbs, in CARLA's frame, every order fixed by actor id.

What makes it repeat to the bit: bodies are added, driven and read in the order of their ids, contacts are sorted before they
are summed, the step is a fixed float, and no number passes through libm. One thread or several give the same bits.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import numpy as np
import rapier3d
from numpy.typing import NDArray

from samepath.base.errors import SimulatorError
from samepath.sim.physics.bodies import half_size, parts_of
from samepath.sim.physics.contacts import GROUND, SCENERY_BIT, ContactSum
from samepath.sim.physics.drivetrain import GRAVITY_MPS2, drive
from samepath.sim.physics.frames import Quaternion, Triple, forward_of, mirrored, mirrored_spin, quaternion_of
from samepath.sim.physics.wheels import apply_forces, fit_wheels
from samepath.sim.world.catalogue import ActorType, VehicleType, WalkerType, actor_type
from samepath.sim.world.records import Collision, Pose, Vector, VehicleCommand, WalkerCommand

_EVENTS: Final = rapier3d.ActiveEvents.COLLISION_EVENTS | rapier3d.ActiveEvents.CONTACT_FORCE_EVENTS


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


@dataclass
class _Body:
    """An actor's body. Mutable: owned by the engine alone."""

    kind: ActorType
    handle: Any
    vehicle: Any = None
    command: VehicleCommand | WalkerCommand | None = None
    gear: int = 1
    tyre_friction: float = 0.0
    fallen: bool = False
    force_n: Triple = (0.0, 0.0, 0.0)


class BodyState(NamedTuple):
    """A body after a step, in CARLA's frame; the rotation is Rapier's quaternion."""

    position_m: Triple
    rotation: Quaternion
    velocity_mps: Triple
    spin_radps: Triple


class Physics:
    """A Rapier world."""

    def __init__(self, settings: PhysicsSettings) -> None:
        if settings.substeps < 1 or not settings.step_s > 0:
            raise SimulatorError(f"a step above 0 s and at least 1 substep were wanted, not {settings}")
        self.settings = settings
        self._world = rapier3d.PhysicsWorld(gravity=(0.0, 0.0, -GRAVITY_MPS2))
        self._scenery: list[str] = []
        self._bodies: dict[int, _Body] = {}
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
        position = _isometry(pose, size_m[2] / 2)
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

    def add(self, actor_id: int, kind: ActorType, pose: Pose, *, in_order: bool = True) -> None:
        """Add an actor's body. Ids rise and are never reused, so that the order of bodies is the order of ids.

        Without ``in_order`` Rapier meets the bodies as they come, the way engines do that leave it to a container.
        """
        if actor_id in self._bodies or (in_order and self._bodies and actor_id <= max(self._bodies)):
            raise SimulatorError(f"actor id {actor_id} must be above all before it: ids are never reused")
        body, collider = parts_of(kind)
        body = body.position(_isometry(pose))
        handle = self._world.add_body(
            body, [collider.user_data(actor_id).active_events(_EVENTS).contact_force_event_threshold(0.0)]
        )
        self._bodies[actor_id] = _Body(kind, handle)
        if isinstance(kind, VehicleType):
            self._fit_wheels(self._bodies[actor_id], kind.tyre_friction)
        self._world.update_query_pipeline()

    def _fit_wheels(self, body: _Body, friction: float) -> None:
        if not isinstance(body.kind, VehicleType):
            raise SimulatorError(f"{body.kind.name} has no wheels")
        body.vehicle = fit_wheels(body.handle, body.kind, friction)
        body.tyre_friction = friction

    def remove(self, actor_id: int) -> None:
        """Take an actor's body out of the world."""
        self._world.remove_body(self._bodies.pop(actor_id).handle)
        self._world.update_query_pipeline()

    def command(self, actor_id: int, command: VehicleCommand | WalkerCommand) -> None:
        """Set what drives a body from the next step on."""
        self._bodies[actor_id].command = command

    def set_tyre_friction(self, actor_id: int, friction: float) -> None:
        """Change the friction of a vehicle's tyres."""
        body = self._bodies[actor_id]
        if body.tyre_friction != friction:
            self._fit_wheels(body, friction)

    def set_pose(self, actor_id: int, pose: Pose) -> None:
        """Put a body elsewhere; its velocity stays."""
        body = self._world.rigid_bodies[self._bodies[actor_id].handle]
        body.position = _isometry(pose)
        self._world.update_query_pipeline()

    def set_velocity(self, actor_id: int, velocity_mps: Vector, spin_radps: Vector | None = None) -> None:
        """Set a body's velocity, and its angular velocity if given."""
        body = self._world.rigid_bodies[self._bodies[actor_id].handle]
        body.linvel = rapier3d.Vec3(*mirrored(velocity_mps.x, velocity_mps.y, velocity_mps.z))
        if spin_radps is not None:
            body.angvel = rapier3d.Vec3(*mirrored_spin(spin_radps.x, spin_radps.y, spin_radps.z))

    def add_impulse(self, actor_id: int, impulse_ns: Vector) -> None:
        """Push a body at its centre of mass, at once."""
        body = self._world.rigid_bodies[self._bodies[actor_id].handle]
        body.apply_impulse(mirrored(impulse_ns.x, impulse_ns.y, impulse_ns.z))

    def add_force(self, actor_id: int, force_n: Vector) -> None:
        """Push a body at its centre of mass throughout the next tick."""
        body = self._bodies[actor_id]
        x, y, z = body.force_n
        body.force_n = (x + force_n.x, y + force_n.y, z + force_n.z)

    def gear(self, actor_id: int) -> int:
        """Return a vehicle's gear; -1 is reverse."""
        return self._bodies[actor_id].gear

    def fallen(self, actor_id: int) -> bool:
        """Has a walker been knocked down?"""
        return self._bodies[actor_id].fallen

    def knock_down(self, actor_id: int) -> None:
        """Let a walker fall: it no longer walks and may turn over."""
        body = self._bodies[actor_id]
        body.fallen = True
        rigid = self._world.rigid_bodies[body.handle]
        rigid.enabled_rotations = (True, True, True)

    def step(self, step_s: float | None = None) -> list[Collision]:
        """Advance by one tick; return the collisions, by actor id, with the impulse of all substeps together.

        A game loop may pass a step of its own; it is divided into the same number of substeps.
        """
        settings = self.settings
        bodies = self._world.rigid_bodies
        moving = [(one, bodies[one.handle]) for one in self._bodies.values()]
        dt = settings.substep_s if step_s is None else step_s / settings.substeps
        vehicles = [self._set_drive(one, rigid, dt) for one, rigid in moving if one.vehicle is not None]
        walkers = [(one, rigid) for one, rigid in moving if isinstance(one.kind, WalkerType) and not one.fallen]
        for one, rigid in moving:
            if one.force_n != (0.0, 0.0, 0.0):
                rigid.add_force(mirrored(*one.force_n))
        contacts = ContactSum(self._events, self._world.colliders)
        world, parts = self._world, self._parts
        world.integration_parameters.dt = dt
        for _ in range(settings.substeps):
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
            if one.vehicle is not None or one.force_n != (0.0, 0.0, 0.0):
                rigid.reset_forces()
                one.force_n = (0.0, 0.0, 0.0)
        return [self._collision(pair, impulse_ns) for pair, impulse_ns in contacts.totals()]

    def _set_drive(self, body: _Body, rigid: Any, dt: float) -> Any:  # noqa: ANN401 - Rapier's own objects
        kind, vehicle = body.kind, body.vehicle
        command = body.command if isinstance(body.command, VehicleCommand) else VehicleCommand()
        if not isinstance(kind, VehicleType):
            raise SimulatorError(f"{kind.name} is not a vehicle")
        rotation, velocity = rigid.rotation, rigid.linvel
        forward = forward_of((rotation.w, rotation.i, rotation.j, rotation.k))
        speed_mps = velocity.x * forward[0] - velocity.y * forward[1] + velocity.z * forward[2]
        forces = drive(kind, command, speed_mps, body.gear, body.tyre_friction)
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
            names = [number for number, one in self._bodies.items() if (one.handle.index, one.handle.generation) in broken]
            raise SimulatorError(f"the state of actors {names} became infinite or no number: check forces and poses")

    def state(self, actor_id: int) -> BodyState:
        """Read one body."""
        rigid = self._world.rigid_bodies[self._bodies[actor_id].handle]
        at, turn, speed, spin = rigid.translation, rigid.rotation, rigid.linvel, rigid.angvel
        return BodyState(
            (at.x, -at.y, at.z), (turn.w, turn.i, turn.j, turn.k), (speed.x, -speed.y, speed.z), (-spin.x, spin.y, -spin.z)
        )

    def occupant(self, kind: ActorType, pose: Pose) -> int | str | None:
        """Return what stands where an actor of this kind would: an actor's id, a name of scenery, or None if it is free."""
        half, lift = half_size(kind)
        shape = rapier3d.SharedShape.cuboid(*(0.98 * one for one in half))
        position = _isometry(pose, lift)
        found: list[int] = []
        colliders = self._world.colliders

        def note(handle: Any) -> bool:  # noqa: ANN401 - Rapier's handle
            found.append(int(colliders[handle].user_data))
            return True

        self._world.query_pipeline.intersect_shape(position, shape, note)
        tags = sorted(tag for tag in found if tag != GROUND)
        if not tags:
            return None
        return tags[0] if tags[0] < SCENERY_BIT else self._scenery[tags[0] - SCENERY_BIT]

    def cast_ray(
        self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool = False
    ) -> tuple[float, int | str] | None:
        """Return the distance to the first thing a ray meets and what it is (an actor's id, scenery's name or 'ground')."""
        ray = rapier3d.Ray(mirrored(start.x, start.y, start.z), mirrored(direction.x, direction.y, direction.z))
        hit = self._world.query_pipeline.cast_ray(ray, reach_m, True, self._wheel_filter if fixed_only else None)
        if hit is None:
            return None
        tag = int(self._world.colliders[hit[0]].user_data)
        what: int | str = "ground" if tag == GROUND else tag if tag < SCENERY_BIT else self._scenery[tag - SCENERY_BIT]
        return float(hit[1]), what

    def snapshot(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return plain data and blobs from which :meth:`restore` goes on bit for bit."""
        blobs = [self._world.snapshot()]
        bodies = []
        for number, one in self._bodies.items():
            wheels = None
            if one.vehicle is not None:
                wheels = len(blobs)
                blobs.append(one.vehicle.to_bytes())
            command = None if one.command is None else [type(one.command).__name__, one.command.__dict__]
            bodies.append(
                {
                    "id": number,
                    "type": one.kind.name,
                    "handle": [one.handle.index, one.handle.generation],
                    "wheels": wheels,
                    "command": command,
                    "gear": one.gear,
                    "tyre_friction": one.tyre_friction,
                    "fallen": one.fallen,
                    "force_n": list(one.force_n),
                }
            )
        return {"settings": self.settings.__dict__, "scenery": self._scenery, "bodies": bodies}, blobs

    @classmethod
    def restore(cls, data: dict[str, Any], blobs: list[bytes]) -> "Physics":
        """Build the engine that :meth:`snapshot` was taken of."""
        physics = cls.__new__(cls)
        physics.settings = PhysicsSettings(**data["settings"])
        physics._world = rapier3d.PhysicsWorld.restore(blobs[0])
        physics._scenery = list(data["scenery"])
        physics._bodies = {}
        commands: dict[str, type[VehicleCommand | WalkerCommand]] = {
            "VehicleCommand": VehicleCommand,
            "WalkerCommand": WalkerCommand,
        }
        for one in data["bodies"]:
            command = one["command"]
            physics._bodies[one["id"]] = _Body(
                kind=actor_type(one["type"]),
                handle=rapier3d.RigidBodyHandle.from_raw_parts(*one["handle"]),
                vehicle=None
                if one["wheels"] is None
                else rapier3d.DynamicRayCastVehicleController.from_bytes(blobs[one["wheels"]]),
                command=None if command is None else commands[command[0]](**command[1]),
                gear=one["gear"],
                tyre_friction=one["tyre_friction"],
                fallen=one["fallen"],
                force_n=(one["force_n"][0], one["force_n"][1], one["force_n"][2]),
            )
        physics._prepare()
        return physics


def _isometry(pose: Pose, lift_m: float = 0.0) -> Any:  # noqa: ANN401 - Rapier's own record
    return rapier3d.Isometry3(mirrored(pose.x_m, pose.y_m, pose.z_m + lift_m), rapier3d.Rotation3(*quaternion_of(pose)))


def _walk(body: _Body, rigid: Any) -> None:  # noqa: ANN401 - Rapier's body
    """Hold a walker's horizontal velocity at what it wants; what happens to its height is physics."""
    command = body.command if isinstance(body.command, WalkerCommand) else WalkerCommand()
    speed = command.speed_mps
    rigid.linvel = (command.direction_x * speed, -command.direction_y * speed, rigid.linvel.z)
