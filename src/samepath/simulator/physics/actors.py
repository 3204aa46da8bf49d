"""The bodies of actors in a Rapier world: put in, taken out, moved, pushed and changed from outside, between steps."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import rapier3d

from samepath.core.catalogue import ActorType, PropType, VehicleType, WalkerType, type_from, type_to
from samepath.core.errors import SimulatorError
from samepath.core.states import Pose, Vector, VehicleCommand, WalkerCommand
from samepath.simulator.physics.drivetrain import fit_wheels
from samepath.simulator.physics.frames import Quaternion, Triple, mirrored, mirrored_spin, quaternion_of

# The bodies of actors: shapes, masses and where their origin lies.


def isometry(pose: Pose, lift_m: float = 0.0) -> Any:  # noqa: ANN401 - Rapier's own record
    """A pose in Rapier's frame."""
    return rapier3d.Isometry3(mirrored(pose.x_m, pose.y_m, pose.z_m + lift_m), rapier3d.Rotation3(*quaternion_of(pose)))


def half_size(kind: ActorType) -> tuple[Triple, float]:
    """Half of an actor's box, and how far its centre is above the actor's origin."""
    if isinstance(kind, VehicleType):
        half_height = (kind.height_m - kind.clearance_m) / 2
        return (kind.length_m / 2, kind.width_m / 2, half_height), kind.clearance_m + half_height
    if isinstance(kind, WalkerType):
        return (kind.radius_m, kind.radius_m, kind.height_m / 2 * 0.95), 0.0
    return (kind.length_m / 2, kind.width_m / 2, kind.height_m / 2), kind.height_m / 2


def _box_inertia(mass_kg: float, size_m: Triple) -> Triple:
    x, y, z = (one * one for one in size_m)
    return mass_kg / 12 * (y + z), mass_kg / 12 * (x + z), mass_kg / 12 * (x + y)


def vehicle_parts(kind: VehicleType) -> tuple[Any, Any]:
    """The origin is on the ground under the middle; the centre of mass lies at 38 % of the height unless it is given."""
    half, lift = half_size(kind)
    body = rapier3d.RigidBody.dynamic().can_sleep(False)
    if kind.upright:
        body = body.enabled_rotations((False, False, True))
    collider = rapier3d.Collider.cuboid(*half).translation((0.0, 0.0, lift)).mass_properties(vehicle_mass(kind))
    return body, collider.friction(0.4).restitution(0.1)


def vehicle_mass(kind: VehicleType) -> Any:  # noqa: ANN401 - Rapier's own record
    """A vehicle's mass, seen from the middle of its box; its inertia is that of a solid of its size."""
    lift = half_size(kind)[1]
    size_m = (kind.length_m, kind.width_m, kind.height_m)
    centre = (0.0, 0.0, 0.38 * kind.height_m - lift)
    if kind.centre_of_mass_m is not None:
        x, y, z = mirrored(*kind.centre_of_mass_m)
        centre = (x, y, z - lift)
    return rapier3d.MassProperties(centre, kind.mass_kg, _box_inertia(kind.mass_kg, size_m))


def walker_parts(kind: WalkerType) -> tuple[Any, Any]:
    """An upright capsule about its middle, as CARLA's walkers are placed; frictionless, since legs do not drag."""
    body = rapier3d.RigidBody.dynamic().can_sleep(False).enabled_rotations((False, False, False))
    half_height = kind.height_m / 2 - kind.radius_m
    collider = rapier3d.Collider.capsule_from_endpoints((0.0, 0.0, -half_height), (0.0, 0.0, half_height), kind.radius_m)
    slippery = collider.friction(0.0).friction_combine_rule(rapier3d.CoefficientCombineRule.MIN)
    return body, slippery.mass(kind.mass_kg).restitution(0.0)


def prop_parts(kind: PropType) -> tuple[Any, Any]:
    """A box on the ground, fixed if it has no mass."""
    half, lift = half_size(kind)
    body = rapier3d.RigidBody.dynamic() if kind.mass_kg else rapier3d.RigidBody.fixed()
    collider = rapier3d.Collider.cuboid(*half).translation((0.0, 0.0, lift)).friction(0.6)
    return body, collider.mass(kind.mass_kg) if kind.mass_kg else collider


def parts_of(kind: ActorType) -> tuple[Any, Any]:
    """Return Rapier's builders of an actor's body and collider."""
    if isinstance(kind, VehicleType):
        return vehicle_parts(kind)
    if isinstance(kind, WalkerType):
        return walker_parts(kind)
    return prop_parts(kind)


# One actor's body as the engine keeps it, and as plain data in a snapshot.

NOTHING: Final[Triple] = (0.0, 0.0, 0.0)
_COMMANDS: Final[dict[str, type[VehicleCommand | WalkerCommand]]] = {
    one.__name__: one for one in (VehicleCommand, WalkerCommand)
}


class BrokenActorsError(SimulatorError):
    """The state of some actors became infinite or no number; ``actors`` are their ids."""

    def __init__(self, actors: list[int]) -> None:
        super().__init__(f"the state of actors {actors} became infinite or no number: check forces and poses")
        self.actors = actors


class BodyState(NamedTuple):
    """A body after a step, in CARLA's frame; the rotation is Rapier's quaternion."""

    position_m: Triple
    rotation: Quaternion
    velocity_mps: Triple
    spin_radps: Triple


@dataclass
class ActorBody:
    """An actor's body. Mutable: owned by the engine alone.

    ``friction`` None leaves every wheel its own. ``torque_nm`` is in Rapier's frame; both pushes last for the next tick.
    """

    kind: ActorType
    handle: Any
    vehicle: Any = None
    command: VehicleCommand | WalkerCommand | None = None
    gear: int = 1
    friction: float | None = None
    fallen: bool = False
    force_n: Triple = NOTHING
    torque_nm: Triple = NOTHING
    simulated: bool = True
    weight: float = 1.0

    @property
    def tyre_friction(self) -> float:
        """The friction of the tyres, all wheels taken together."""
        if self.friction is not None:
            return self.friction
        return self.kind.mean_friction if isinstance(self.kind, VehicleType) else 0.0

    def fit(self, friction: float | None) -> None:
        """Fit a vehicle's wheels."""
        if not isinstance(self.kind, VehicleType):
            raise SimulatorError(f"{self.kind.name} has no wheels")
        self.vehicle = fit_wheels(self.handle, self.kind, friction)
        self.friction = friction

    def to_data(self, number: int, blobs: list[bytes]) -> dict[str, Any]:
        """Return plain data; wheels are added to ``blobs``."""
        wheels = None
        if self.vehicle is not None:
            wheels = len(blobs)
            blobs.append(self.vehicle.to_bytes())
        return {
            "id": number,
            "type": type_to(self.kind),
            "handle": [self.handle.index, self.handle.generation],
            "wheels": wheels,
            "command": None if self.command is None else [type(self.command).__name__, self.command.__dict__],
            "gear": self.gear,
            "friction": self.friction,
            "fallen": self.fallen,
            "force_n": list(self.force_n),
            "torque_nm": list(self.torque_nm),
            "simulated": self.simulated,
            "weight": self.weight,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any], blobs: list[bytes]) -> "ActorBody":
        """Read what :meth:`to_data` wrote."""
        command, wheels = data["command"], data["wheels"]
        return cls(
            kind=type_from(data["type"]),
            handle=rapier3d.RigidBodyHandle.from_raw_parts(*data["handle"]),
            vehicle=None if wheels is None else rapier3d.DynamicRayCastVehicleController.from_bytes(blobs[wheels]),
            command=None if command is None else _COMMANDS[command[0]](**command[1]),
            gear=data["gear"],
            friction=data["friction"],
            fallen=data["fallen"],
            force_n=(data["force_n"][0], data["force_n"][1], data["force_n"][2]),
            torque_nm=(data["torque_nm"][0], data["torque_nm"][1], data["torque_nm"][2]),
            simulated=data["simulated"],
            weight=data["weight"],
        )


_EVENTS: Final = rapier3d.ActiveEvents.COLLISION_EVENTS | rapier3d.ActiveEvents.CONTACT_FORCE_EVENTS


class ActorBodies:
    """A Rapier world's actors, by id. Everything here happens at once, except forces: they act in the next tick."""

    def __init__(self, world: rapier3d.PhysicsWorld) -> None:
        self._world = world
        self._bodies: dict[int, ActorBody] = {}

    def _rigid(self, actor_id: int) -> Any:  # noqa: ANN401 - Rapier's body
        return self._world.rigid_bodies[self._bodies[actor_id].handle]

    def add(self, actor_id: int, kind: ActorType, pose: Pose, *, in_order: bool = True) -> None:
        """Add an actor's body. Ids rise and are never reused, so that the order of bodies is the order of ids.

        Without ``in_order`` Rapier meets the bodies as they come, the way engines do that leave it to a container.
        """
        if actor_id in self._bodies or (in_order and self._bodies and actor_id <= max(self._bodies)):
            raise SimulatorError(f"actor id {actor_id} must be above all before it: ids are never reused")
        body, collider = parts_of(kind)
        body = body.position(isometry(pose))
        handle = self._world.add_body(
            body, [collider.user_data(actor_id).active_events(_EVENTS).contact_force_event_threshold(0.0)]
        )
        self._bodies[actor_id] = ActorBody(kind, handle)
        if isinstance(kind, VehicleType):
            self._bodies[actor_id].fit(None)
        self._world.update_query_pipeline()

    def remove(self, actor_id: int) -> None:
        """Take an actor's body out of the world."""
        self._world.remove_body(self._bodies.pop(actor_id).handle)
        self._world.update_query_pipeline()

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
        body.fit(body.friction)

    def command(self, actor_id: int, command: VehicleCommand | WalkerCommand) -> None:
        """Set what drives a body from the next step on."""
        self._bodies[actor_id].command = command

    def set_tyre_friction(self, actor_id: int, friction: float | None) -> None:
        """Change the friction of all tyres of a vehicle; None gives the wheels back their own."""
        body = self._bodies[actor_id]
        if body.friction != friction:
            body.fit(friction)

    def tyre_friction(self, actor_id: int) -> float | None:
        """Return the friction that was set for all tyres, None where wheels have their own."""
        return self._bodies[actor_id].friction

    def set_pose(self, actor_id: int, pose: Pose) -> None:
        """Put a body elsewhere; its velocity stays."""
        self._rigid(actor_id).position = isometry(pose)
        self._world.update_query_pipeline()

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

    def set_simulated(self, actor_id: int, *, on: bool) -> None:
        """Let physics move a body, or leave it where it is put; others still bump into it."""
        body, types = self._bodies[actor_id], rapier3d.RigidBodyType
        if body.simulated == on or not getattr(body.kind, "mass_kg", 0.0):
            return
        body.simulated = on
        rigid = self._rigid(actor_id)
        rigid.body_type = types.DYNAMIC if on else types.KINEMATIC_POSITION_BASED
        if not on:
            rigid.linvel = rapier3d.Vec3(0.0, 0.0, 0.0)
            rigid.angvel = rapier3d.Vec3(0.0, 0.0, 0.0)

    def simulated(self, actor_id: int) -> bool:
        """Does physics move it?"""
        return self._bodies[actor_id].simulated

    def set_collisions(self, actor_id: int, *, on: bool) -> None:
        """Let a body touch others, or pass through everything."""
        groups = rapier3d.InteractionGroups.all() if on else rapier3d.InteractionGroups.none()
        for handle in self._rigid(actor_id).colliders:
            self._world.colliders[handle].collision_groups = groups

    def set_gravity(self, actor_id: int, *, on: bool) -> None:
        """Let gravity pull a body, or not."""
        self._bodies[actor_id].weight = 1.0 if on else 0.0
        self._rigid(actor_id).gravity_scale = 1.0 if on else 0.0

    def gear(self, actor_id: int) -> int:
        """Return a vehicle's gear; -1 is reverse."""
        return self._bodies[actor_id].gear

    def wheels(self, actor_id: int) -> list[Any]:
        """Return Rapier's wheels of a vehicle: front left, front right, rear left, rear right."""
        vehicle = self._bodies[actor_id].vehicle
        return [] if vehicle is None else list(vehicle.wheels())

    def fallen(self, actor_id: int) -> bool:
        """Has a walker been knocked down?"""
        return self._bodies[actor_id].fallen

    def knock_down(self, actor_id: int) -> None:
        """Let a walker fall: it no longer walks and may turn over."""
        self._bodies[actor_id].fallen = True
        self._rigid(actor_id).enabled_rotations = (True, True, True)

    def state(self, actor_id: int) -> BodyState:
        """Read one body."""
        rigid = self._world.rigid_bodies[self._bodies[actor_id].handle]
        at, turn, speed, spin = rigid.translation, rigid.rotation, rigid.linvel, rigid.angvel
        return BodyState(
            (at.x, -at.y, at.z), (turn.w, turn.i, turn.j, turn.k), (speed.x, -speed.y, speed.z), (-spin.x, spin.y, -spin.z)
        )

    def velocity_at(self, actor_id: int, point_m: Vector) -> Vector:
        """Return how fast a point of the world would move if it were fixed to a body."""
        velocity = self._rigid(actor_id).velocity_at_point(mirrored(*point_m))
        return Vector(*mirrored(velocity.x, velocity.y, velocity.z))

    def is_walking(self, body: ActorBody) -> bool:
        """Does this body walk by itself?"""
        return isinstance(body.kind, WalkerType) and body.simulated and not body.fallen


def _cross(a: Triple, b: Triple) -> Triple:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
