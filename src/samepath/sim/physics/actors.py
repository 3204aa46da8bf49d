"""The bodies of actors in a Rapier world: put in, taken out, moved, pushed and changed from outside, between steps."""

from typing import Any, Final

import rapier3d

from samepath.base.errors import SimulatorError
from samepath.sim.physics.bodies import isometry, parts_of, vehicle_mass
from samepath.sim.physics.body import Body, BodyState
from samepath.sim.physics.frames import Triple, mirrored, mirrored_spin
from samepath.sim.world.catalogue import ActorType, VehicleType, WalkerType
from samepath.sim.world.records import Pose, Vector, VehicleCommand, WalkerCommand

_EVENTS: Final = rapier3d.ActiveEvents.COLLISION_EVENTS | rapier3d.ActiveEvents.CONTACT_FORCE_EVENTS


class ActorBodies:
    """A Rapier world's actors, by id. Everything here happens at once, except forces: they act in the next tick."""

    def __init__(self, world: rapier3d.PhysicsWorld) -> None:
        self._world = world
        self._bodies: dict[int, Body] = {}

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
        self._bodies[actor_id] = Body(kind, handle)
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
    def _add_torque(body: Body, torque_nm: Triple) -> None:
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

    def is_walking(self, body: Body) -> bool:
        """Does this body walk by itself?"""
        return isinstance(body.kind, WalkerType) and body.simulated and not body.fallen


def _cross(a: Triple, b: Triple) -> Triple:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
