"""The bodies of actors: shapes, masses and where their origin lies."""

from typing import Any

import rapier3d

from samepath.sim.physics.frames import Triple, mirrored, quaternion_of
from samepath.sim.world.catalogue import ActorType, PropType, VehicleType, WalkerType
from samepath.sim.world.records import Pose


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
