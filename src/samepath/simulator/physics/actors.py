"""The body of one actor: its shape, mass and origin in Rapier, what the engine keeps beside it, and both as plain data.

Vehicles and props have their origin on the ground under their middle, walkers in the middle of their capsule, as in CARLA.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import rapier3d

from samepath.core.catalogue import ActorType, PropType, VehicleType, WalkerType, type_from, type_to
from samepath.core.errors import SimulatorError
from samepath.core.states import Pose, VehicleCommand, WalkerCommand
from samepath.simulator.physics.drivetrain import WheelOrders, fit_wheels
from samepath.simulator.physics.frames import Quaternion, Triple, mirrored, quaternion_of

# Rapier's builders of a body and of its only collider.
Parts = tuple[rapier3d.RigidBodyBuilder, rapier3d.ColliderBuilder]


def isometry(pose: Pose, lift_m: float = 0.0) -> rapier3d.Isometry3:
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
    x, y, z = (side * side for side in size_m)
    return mass_kg / 12 * (y + z), mass_kg / 12 * (x + z), mass_kg / 12 * (x + y)


def vehicle_parts(kind: VehicleType) -> Parts:
    """The origin is on the ground under the middle; the centre of mass lies at 38 % of the height unless it is given."""
    half, lift = half_size(kind)
    body = rapier3d.RigidBody.dynamic().can_sleep(False)
    if kind.upright:
        body = body.enabled_rotations((False, False, True))
    collider = rapier3d.Collider.cuboid(*half).translation((0.0, 0.0, lift)).mass_properties(vehicle_mass(kind))
    return body, collider.friction(0.4).restitution(0.1)


def vehicle_mass(kind: VehicleType) -> rapier3d.MassProperties:
    """A vehicle's mass, seen from the middle of its box; its inertia is that of a solid of its size."""
    lift = half_size(kind)[1]
    size_m = (kind.length_m, kind.width_m, kind.height_m)
    centre = (0.0, 0.0, 0.38 * kind.height_m - lift)
    if kind.centre_of_mass_m is not None:
        x, y, z = mirrored(*kind.centre_of_mass_m)
        centre = (x, y, z - lift)
    return rapier3d.MassProperties(centre, kind.mass_kg, _box_inertia(kind.mass_kg, size_m))


def walker_parts(kind: WalkerType) -> Parts:
    """An upright capsule about its middle, as CARLA's walkers are placed; frictionless, since legs do not drag."""
    body = rapier3d.RigidBody.dynamic().can_sleep(False).enabled_rotations((False, False, False))
    half_height = kind.height_m / 2 - kind.radius_m
    collider = rapier3d.Collider.capsule_from_endpoints((0.0, 0.0, -half_height), (0.0, 0.0, half_height), kind.radius_m)
    slippery = collider.friction(0.0).friction_combine_rule(rapier3d.CoefficientCombineRule.MIN)
    return body, slippery.mass(kind.mass_kg).restitution(0.0)


def prop_parts(kind: PropType) -> Parts:
    """A box on the ground, fixed if it has no mass."""
    half, lift = half_size(kind)
    body = rapier3d.RigidBody.dynamic() if kind.mass_kg else rapier3d.RigidBody.fixed()
    collider = rapier3d.Collider.cuboid(*half).translation((0.0, 0.0, lift)).friction(0.6)
    return body, collider.mass(kind.mass_kg) if kind.mass_kg else collider


def parts_of(kind: ActorType) -> Parts:
    """Return Rapier's builders of an actor's body and collider."""
    if isinstance(kind, VehicleType):
        return vehicle_parts(kind)
    if isinstance(kind, WalkerType):
        return walker_parts(kind)
    return prop_parts(kind)


NOTHING: Final[Triple] = (0.0, 0.0, 0.0)
_COMMANDS: Final[dict[str, type[VehicleCommand | WalkerCommand]]] = {
    kind.__name__: kind for kind in (VehicleCommand, WalkerCommand)
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

    ``friction`` None leaves every wheel its own, of which ``grip`` is the part that a wet road leaves. ``torque_nm`` is in
    Rapier's frame; both pushes last for the next tick. ``told`` is what the wheels know already, and
    ``tyre_friction`` follows from the rest, for all wheels taken together; a snapshot has no need of them.
    """

    kind: ActorType
    handle: rapier3d.RigidBodyHandle
    vehicle: rapier3d.DynamicRayCastVehicleController | None = None
    command: VehicleCommand | WalkerCommand | None = None
    gear: int = 1
    friction: float | None = None
    grip: float = 1.0
    fallen: bool = False
    force_n: Triple = NOTHING
    torque_nm: Triple = NOTHING
    simulated: bool = True
    weight: float = 1.0
    told: WheelOrders | None = None
    tyre_friction: float = 0.0

    def __post_init__(self) -> None:
        self._set_tyre_friction()

    def _set_tyre_friction(self) -> None:
        if self.friction is not None:
            self.tyre_friction = self.friction
        else:
            self.tyre_friction = self.kind.mean_friction * self.grip if isinstance(self.kind, VehicleType) else 0.0

    def fit(self, friction: float | None, grip: float) -> None:
        """Fit a vehicle's wheels."""
        if not isinstance(self.kind, VehicleType):
            raise SimulatorError(f"{self.kind.name} has no wheels")
        self.vehicle = fit_wheels(self.handle, self.kind, friction, grip)
        self.friction, self.grip, self.told = friction, grip, None
        self._set_tyre_friction()

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
            "grip": self.grip,
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
            grip=data.get("grip", 1.0),  # snapshots of before have none
            fallen=data["fallen"],
            force_n=(data["force_n"][0], data["force_n"][1], data["force_n"][2]),
            torque_nm=(data["torque_nm"][0], data["torque_nm"][1], data["torque_nm"][2]),
            simulated=data["simulated"],
            weight=data["weight"],
        )
