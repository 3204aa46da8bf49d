"""What can be done to the actors of a world from outside, and asked about them, between two ticks.

Everything here happens at once, except forces, which act throughout the next tick, and is part of the world's digest.
"""

from dataclasses import dataclass
from typing import Any

from samepath.base.digests import link
from samepath.base.errors import SimulatorError
from samepath.base.trig import to_degrees, to_radians
from samepath.sim.physics.engine import Hit, Met, Physics, PhysicsSettings
from samepath.sim.physics.frames import angles_of
from samepath.sim.world.catalogue import ActorType, VehicleType, WalkerType
from samepath.sim.world.records import ActorState, Pose, Vector


@dataclass(frozen=True)
class WorldActor:
    """Who is in the world."""

    id: int
    type: str


class Touches:
    """The hands on a world."""

    _physics: Physics
    _actors: dict[int, WorldActor]
    _states: dict[int, ActorState]
    _held: dict[int, Vector]
    _digest: bytes

    @property
    def settings(self) -> PhysicsSettings:
        """What is held equal."""
        return self._physics.settings

    def kind(self, actor_id: int) -> ActorType:
        """Return an actor's type, as it is now."""
        self._known(actor_id)
        return self._physics.kind(actor_id)

    def set_pose(self, actor_id: int, pose: Pose) -> None:
        """Put an actor elsewhere."""
        self._known(actor_id)
        self._physics.set_pose(actor_id, pose)
        self._states[actor_id] = self._read(actor_id, None)
        self._digest = link(self._digest, f"pose {actor_id} {pose!r}".encode())

    def set_velocity(self, actor_id: int, velocity_mps: Vector) -> None:
        """Set an actor's velocity."""
        self._known(actor_id)
        self._physics.set_velocity(actor_id, velocity_mps)
        self._states[actor_id] = self._read(actor_id, None)
        self._digest = link(self._digest, f"velocity {actor_id} {velocity_mps!r}".encode())

    def set_spin(self, actor_id: int, spin_degps: Vector) -> None:
        """Set an actor's angular velocity."""
        self._known(actor_id)
        self._physics.set_spin(actor_id, Vector(*(to_radians(one) for one in spin_degps)))
        self._states[actor_id] = self._read(actor_id, None)
        self._note("spin", actor_id, spin_degps)

    def hold_velocity(self, actor_id: int, velocity_mps: Vector | None) -> None:
        """Give an actor this velocity, seen from the actor itself, before every tick from now on; None lets go."""
        self._known(actor_id)
        if velocity_mps is None:
            self._held.pop(actor_id, None)
        else:
            self._held[actor_id] = velocity_mps
        self._note("hold", actor_id, velocity_mps)

    def add_impulse(self, actor_id: int, impulse_ns: Vector, at_m: Vector | None = None) -> None:
        """Push an actor, at once, at its centre of mass or at a point of the world."""
        self._known(actor_id)
        self._physics.add_impulse(actor_id, impulse_ns, at_m)
        self._note("impulse", actor_id, impulse_ns, at_m)

    def add_angular_impulse(self, actor_id: int, impulse_nms: Vector) -> None:
        """Turn an actor, at once."""
        self._known(actor_id)
        self._physics.add_angular_impulse(actor_id, impulse_nms)
        self._note("angular impulse", actor_id, impulse_nms)

    def add_force(self, actor_id: int, force_n: Vector, at_m: Vector | None = None) -> None:
        """Push an actor throughout the next tick, at its centre of mass or at a point of the world."""
        self._known(actor_id)
        self._physics.add_force(actor_id, force_n, at_m)
        self._note("force", actor_id, force_n, at_m)

    def add_torque(self, actor_id: int, torque_nm: Vector) -> None:
        """Turn an actor throughout the next tick."""
        self._known(actor_id)
        self._physics.add_torque(actor_id, torque_nm)
        self._note("torque", actor_id, torque_nm)

    def set_simulated(self, actor_id: int, *, on: bool) -> None:
        """Let physics move an actor, or leave it where it is put; others still bump into it."""
        self._known(actor_id)
        self._physics.set_simulated(actor_id, on=on)
        self._states[actor_id] = self._read(actor_id, None)
        self._note("simulated", actor_id, on)

    def simulated(self, actor_id: int) -> bool:
        """Does physics move an actor?"""
        self._known(actor_id)
        return self._physics.simulated(actor_id)

    def set_collisions(self, actor_id: int, *, on: bool) -> None:
        """Let an actor touch others, or pass through everything."""
        self._known(actor_id)
        self._physics.set_collisions(actor_id, on=on)
        self._note("collisions", actor_id, on)

    def set_gravity(self, actor_id: int, *, on: bool) -> None:
        """Let gravity pull an actor, or not."""
        self._known(actor_id)
        self._physics.set_gravity(actor_id, on=on)
        self._note("gravity", actor_id, on)

    def refit(self, actor_id: int, kind: VehicleType) -> None:
        """Turn a vehicle into one with other numbers (mass, engine, wheels, ...) of the same name and size."""
        self._known(actor_id)
        self._physics.refit(actor_id, kind)
        self._note("refit", actor_id, kind)

    def velocity_at(self, actor_id: int, point_m: Vector) -> Vector:
        """Return how fast a point of the world would move if it were fixed to an actor."""
        self._known(actor_id)
        return self._physics.velocity_at(actor_id, point_m)

    def wheels(self, actor_id: int) -> list[Any]:
        """Return Rapier's wheels of a vehicle: front left, front right, rear left, rear right."""
        self._known(actor_id)
        return self._physics.wheels(actor_id)

    def tyre_friction(self, actor_id: int) -> float | None:
        """Return the friction of the patch of ground a vehicle is on, None where its wheels have their own."""
        self._known(actor_id)
        return self._physics.tyre_friction(actor_id)

    def knock_down(self, actor_id: int) -> None:
        """Let a walker fall: it no longer walks."""
        if not isinstance(self.kind(actor_id), WalkerType):
            raise SimulatorError(f"actor {actor_id} is no walker")
        self._physics.knock_down(actor_id)

    def cast_ray(
        self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool = False
    ) -> tuple[float, int | str] | None:
        """Return the distance to the first thing a ray meets, and what it is; ``fixed_only``: passing through actors."""
        return self._physics.cast_ray(start, direction, reach_m, fixed_only=fixed_only)

    def ray_hits(self, start: Vector, direction: Vector, reach_m: float) -> tuple[Hit, ...]:
        """Return everything a ray of unit direction passes through, nearest first."""
        return self._physics.ray_hits(start, direction, reach_m)

    def sweep_ball(
        self,
        start: Vector,
        direction: Vector,
        reach_m: float,
        radius_m: float,
        *,
        without: int | None = None,
        moving_only: bool = False,
    ) -> tuple[float, Met] | None:
        """Return how far a ball flies before it meets something other than the ground, and what."""
        return self._physics.sweep_ball(start, direction, reach_m, radius_m, without=without, moving_only=moving_only)

    def _read(self, actor_id: int, before: ActorState | None, step_s: float | None = None) -> ActorState:
        body = self._physics.state(actor_id)
        roll, pitch, yaw = angles_of(body.rotation)
        velocity = Vector(*body.velocity_mps)
        x, y, z = body.spin_radps
        spin = Vector(to_degrees(x), to_degrees(y), to_degrees(z))
        acceleration = Vector()
        if before is not None:
            dt, old = step_s or self.settings.step_s, before.velocity_mps
            acceleration = Vector((velocity.x - old.x) / dt, (velocity.y - old.y) / dt, (velocity.z - old.z) / dt)
        return ActorState(actor_id, Pose(*body.position_m, roll, pitch, yaw), velocity, spin, acceleration)

    def _note(self, what: str, actor_id: int, *values: object) -> None:
        given = " ".join(repr(one) for one in values if one is not None)
        self._digest = link(self._digest, f"{what} {actor_id} {given}".encode())

    def _known(self, actor_id: int) -> None:
        if actor_id not in self._actors:
            here = ", ".join(map(str, self._actors)) or "nobody"
            raise SimulatorError(f"there is no actor {actor_id} in the world; there are: {here}")
