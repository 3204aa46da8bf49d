"""What actors are made of: components, bones and sockets, under CARLA's names.

Our walkers are drawn from a handful of joints, and that is what their skeletons are made of: CARLA's names at the places where
the picture has its hips, knees, ankles, shoulders, elbows and hands, with simple proportions for what lies between (spine,
neck, eyes, fingers). A bone looks along the line to the next one. Vehicles have CARLA's bones of a body and four wheels, and
each lamp of their pictures is a component, as in CARLA.
"""

import math
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from samepath.core.catalogue import CATALOGUE, VehicleType, WalkerType
from samepath.core.states import Pose
from samepath.core.trig import atan2, to_degrees
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError, text, u32
from samepath.simulator.physics.drivetrain import wheel_places_m
from samepath.simulator.physics.frames import Quaternion, angles_of, attached_pose, axes_of, quaternion_of, times
from samepath.simulator.sensors.meshes import vehicle
from samepath.simulator.sensors.meshes.builder import HEAD, TAIL
from samepath.simulator.sensors.meshes.people import limbs_of
from samepath.simulator.sensors.renderer import Lamp
from samepath.simulator.server.actors import ActorEntry, WalkerEntry
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import Table

Point = tuple[float, float, float]


class Bone(NamedTuple):
    """A bone: its parent by number (-1: none), and where it is: in the world, in the actor, and seen from its parent."""

    name: str
    parent: int
    world: Pose
    component: Pose
    relative: Pose


_FINGERS: Final = ("Thumb", "Index", "Middle", "Ring", "Pinky")
_VEHICLE_BONES: Final = ("Vehicle_Base", "Wheel_Front_Left", "Wheel_Front_Right", "Wheel_Rear_Left", "Wheel_Rear_Right")
MESH, BOUNDS, CAPSULE, ROOT = "VehicleMesh", "VehicleBounds", "CollisionCylinder", "DefaultSceneRoot"
_BODY: Final = "CharacterMesh0"
# What shines together is so many components of CARLA's.
_LAMPS: Final = {
    int(HEAD): ("front-position", "front-low_beam", "front-high_beam"),
    int(TAIL): ("back-position", "back-brake"),
    int(Lamp.REVERSE): ("back-reverse",),
    int(Lamp.SPECIAL_1): ("special1",),
}
_BLINKERS: Final = {int(Lamp.RIGHT_BLINKER), int(Lamp.LEFT_BLINKER)}
_MIDDLE_M: Final = 0.1  # a lamp no further than this from the middle is on neither side


def walker_bones(kind: WalkerType, pose: Pose, walked_m: float | None) -> tuple[Bone, ...]:
    """The skeleton of a walker at a pose, which is that of its middle."""
    places = _walker_places(kind.height_m, walked_m)
    numbers = {name: index for index, (name, _, _, _) in enumerate(places)}
    found: list[Bone] = []
    # Every rotation is worked out once: sixty bones and three poses each would be sixteen thousand calls of functions.
    turned = quaternion_of(pose)
    axes = axes_of(turned)
    rotations: list[Quaternion] = []
    for name, parent, place, towards in places:
        x, y, z = place
        pitch, yaw = _direction(place, towards)
        component = Pose(x, y, z - 0.5 * kind.height_m, pitch_deg=pitch, yaw_deg=yaw)
        rotation = quaternion_of(component)
        rotations.append(rotation)
        forward, right, up = axes
        at = [
            origin + component.x_m * forward[part] + component.y_m * right[part] + component.z_m * up[part]
            for part, origin in enumerate(pose[:3])
        ]
        world = Pose(at[0], at[1], at[2], *angles_of(times(turned, rotation)))
        number = numbers[parent] if parent else -1
        relative = component
        if number >= 0:
            w, i, j, k = rotations[number]
            before = found[number].component
            gap = (component.x_m - before.x_m, component.y_m - before.y_m, component.z_m - before.z_m)
            seen = [sum(a * b for a, b in zip(axis, gap, strict=True)) for axis in axes_of((w, i, j, k))]
            relative = Pose(seen[0], seen[1], seen[2], *angles_of(times((w, -i, -j, -k), rotation)))
        found.append(Bone(name, number, world, component, relative))
    return tuple(found)


def _walker_places(height_m: float, walked_m: float | None) -> list[tuple[str, str, Point, Point]]:
    """Name, parent, place, and where it points to; parents come first."""
    h = height_m
    sides = dict(zip("RL", limbs_of(h, walked_m), strict=True))
    lean_m = 0.02 * h if walked_m is not None else 0.0
    ups = ((0.0, 0.54), (0.4, 0.62), (0.7, 0.72), (0.9, 0.84), (1.0, 0.9))
    hips, spine, chest, neck, head = ((part * lean_m, 0.0, up * h) for part, up in ups)
    found: list[tuple[str, str, Point, Point]] = [
        ("crl_root", "", (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
        ("crl_hips__C", "crl_root", hips, spine),
        ("crl_spine__C", "crl_hips__C", spine, chest),
        ("crl_spine01__C", "crl_spine__C", chest, neck),
        ("crl_neck__C", "crl_spine01__C", neck, head),
        ("crl_Head__C", "crl_neck__C", head, (head[0], 0.0, h)),
    ]
    for letter, sign in (("R", 1.0), ("L", -1.0)):
        eye = (head[0] + 0.05 * h, sign * 0.018 * h, 0.935 * h)
        found.append((f"crl_eye__{letter}", "crl_Head__C", eye, (eye[0] + 1.0, eye[1], eye[2])))
    for letter, sign in (("L", -1.0), ("R", 1.0)):
        limb = sides[letter]
        inner = (chest[0], sign * 0.05 * h, 0.80 * h)
        found += [
            (f"crl_shoulder__{letter}", "crl_spine01__C", inner, limb.shoulder),
            (f"crl_arm__{letter}", f"crl_shoulder__{letter}", limb.shoulder, limb.elbow),
            (f"crl_foreArm__{letter}", f"crl_arm__{letter}", limb.elbow, limb.hand),
            (f"crl_hand__{letter}", f"crl_foreArm__{letter}", limb.hand, _beyond(limb.elbow, limb.hand, 0.1 * h)),
        ]
        for number, finger in enumerate(_FINGERS):
            before, at = f"crl_hand__{letter}", limb.hand
            spread = (0.004 * h * (1 - number), -sign * 0.006 * h * (number - 2), 0.0)
            for joint in ("", "01", "02", "End"):
                after = _moved(_beyond(limb.elbow, at, 0.012 * h), spread)
                found.append((f"crl_hand{finger}{joint}__{letter}", before, after, _beyond(limb.elbow, after, 0.012 * h)))
                before, at, spread = f"crl_hand{finger}{joint}__{letter}", after, (0.0, 0.0, 0.0)
    for letter in ("R", "L"):
        limb = sides[letter]
        ball = _between(limb.ankle, limb.toe, 0.6)
        found += [
            (f"crl_thigh__{letter}", "crl_hips__C", limb.hip, limb.knee),
            (f"crl_leg__{letter}", f"crl_thigh__{letter}", limb.knee, limb.ankle),
            (f"crl_foot__{letter}", f"crl_leg__{letter}", limb.ankle, limb.toe),
            (f"crl_toe__{letter}", f"crl_foot__{letter}", ball, limb.toe),
            (f"crl_toeEnd__{letter}", f"crl_toe__{letter}", limb.toe, _beyond(ball, limb.toe, 0.02 * h)),
        ]
    return found


def _beyond(start: Point, end: Point, by_m: float) -> Point:
    """A point so far behind ``end`` on the line from ``start``."""
    length = math.dist(start, end) or 1.0
    x, y, z = (b + (b - a) / length * by_m for a, b in zip(start, end, strict=True))
    return x, y, z


def _between(start: Point, end: Point, part: float) -> Point:
    x, y, z = (a + part * (b - a) for a, b in zip(start, end, strict=True))
    return x, y, z


def _moved(point: Point, by: Point) -> Point:
    x, y, z = (a + b for a, b in zip(point, by, strict=True))
    return x, y, z


def _direction(start: Point, end: Point) -> tuple[float, float]:
    """Pitch and yaw of the line between two points, in degrees."""
    dx, dy, dz = (b - a for a, b in zip(start, end, strict=True))
    flat = math.sqrt(dx * dx + dy * dy)
    return to_degrees(atan2(dz, flat)), to_degrees(atan2(dy, dx)) if flat > 1e-9 else 0.0


def vehicle_bones(kind: VehicleType, pose: Pose, steer_deg: tuple[float, ...]) -> tuple[Bone, ...]:
    """The body on the ground under a vehicle's middle, and the middles of its wheels."""
    base = Pose()
    found = [Bone(_VEHICLE_BONES[0], -1, pose, base, base)]
    for name, (x_m, left_m), angle_deg in zip(_VEHICLE_BONES[1:], wheel_places_m(kind), steer_deg, strict=True):
        place = Pose(x_m, -left_m, kind.wheel_radius_m, yaw_deg=angle_deg)
        found.append(Bone(name, 0, attached_pose(pose, place), place, place))
    return tuple(found)


@cache
def vehicle_lamps(name: str) -> dict[str, Point]:
    """The lamps that the picture of a type of vehicle has, such as ``front-blinker-r-1``, and their middles; in order."""
    kind = CATALOGUE[name]
    if not isinstance(kind, VehicleType):
        return {}
    shape = vehicle(kind).levels[0]
    boxes: dict[str, list[Point]] = {}
    for flags, corners in zip(shape.lamps.tolist(), shape.vertices.astype(np.float64)[shape.faces].tolist(), strict=True):
        x, y = corners[0][:2]
        side = "" if abs(y) <= _MIDDLE_M or flags == Lamp.SPECIAL_1 else "-r" if y > 0.0 else "-l"
        blinker = ("front-blinker" if x > 0.0 else "back-blinker",)
        for lamp in blinker if flags in _BLINKERS else _LAMPS.get(flags, ()):
            boxes.setdefault(f"{lamp}{side}-1", []).extend(corners)
    return {lamp: _middle(boxes[lamp]) for lamp in sorted(boxes)}


def _middle(points: list[Point]) -> Point:
    """Of their box."""
    x, y, z = (0.5 * (min(along) + max(along)) for along in zip(*points, strict=True))
    return x, y, z


def components(kind: object, centre_m: Point) -> dict[str, Pose]:
    """The components of an actor by name, and where they are in it; ``centre_m`` is the middle of its box."""
    middle = Pose(*centre_m)
    if isinstance(kind, VehicleType):
        lamps = {name: Pose(*at, yaw_deg=0.0 if at[0] > 0.0 else 180.0) for name, at in vehicle_lamps(kind.name).items()}
        return {MESH: Pose(), BOUNDS: middle, **lamps}
    if isinstance(kind, WalkerType):
        return {CAPSULE: Pose(), _BODY: Pose(z_m=-0.5 * kind.height_m)}
    return {ROOT: Pose()}


TABLE: Final = Table()


def _actor(episode: Episode, actor_id: int) -> ActorEntry:
    return episode.actors.get(actor_id, ActorEntry, "an actor")


def _bones(episode: Episode, actor_id: int) -> tuple[Bone, ...]:
    """An actor's bones; only walkers and vehicles have any."""
    entry = _actor(episode, actor_id)
    if not entry.has_body:
        return ()
    kind, pose = episode.world.kind(actor_id), episode.pose(entry)
    if isinstance(kind, WalkerType):
        return walker_bones(kind, pose, episode.viewer.walked_m(actor_id))
    if isinstance(kind, VehicleType):
        angles = tuple(-to_degrees(float(wheel.steering)) for wheel in episode.world.wheels(actor_id))
        return vehicle_bones(kind, pose, angles)
    return ()


def _components(episode: Episode, actor_id: int) -> dict[str, Pose]:
    entry = _actor(episode, actor_id)
    kind = episode.world.kind(actor_id) if entry.has_body else None
    x, y, z = entry.record.bounding_box.location
    return components(kind, (x, y, z))


def _component(episode: Episode, actor_id: int, name: str) -> Pose:
    found = _components(episode, actor_id)
    if name not in found:
        raise CallError(f"actor {actor_id} has no component {name[:100]!r}; it has: {', '.join(found)}")
    return found[name]


@TABLE.query(u32)
def get_actor_component_names(episode: Episode, actor_id: int) -> tuple[str, ...]:
    """The names of an actor's components."""
    return tuple(_components(episode, actor_id))


@TABLE.query(u32, text)
def get_actor_component_world_transform(episode: Episode, actor_id: int, name: str) -> r.Transform:
    """Where a component is."""
    relative = _component(episode, actor_id, name)
    return r.transform_of(attached_pose(episode.pose(_actor(episode, actor_id)), relative))


@TABLE.query(u32, text)
def get_actor_component_relative_transform(episode: Episode, actor_id: int, name: str) -> r.Transform:
    """Where a component is in its actor."""
    return r.transform_of(_component(episode, actor_id, name))


@TABLE.query(u32)
def get_actor_bone_names(episode: Episode, actor_id: int) -> tuple[str, ...]:
    """The names of an actor's bones; parents come before their children."""
    return tuple(bone.name for bone in _bones(episode, actor_id))


@TABLE.query(u32)
def get_actor_bone_world_transforms(episode: Episode, actor_id: int) -> tuple[r.Transform, ...]:
    """Where an actor's bones are."""
    return tuple(r.transform_of(bone.world) for bone in _bones(episode, actor_id))


@TABLE.query(u32)
def get_actor_bone_relative_transforms(episode: Episode, actor_id: int) -> tuple[r.Transform, ...]:
    """Where an actor's bones are, each seen from its parent."""
    return tuple(r.transform_of(bone.relative) for bone in _bones(episode, actor_id))


@TABLE.query(u32)
def get_vehicle_bone_world_transforms(episode: Episode, actor_id: int) -> tuple[r.Transform, ...]:
    """Where a vehicle's body and wheels are."""
    return tuple(r.transform_of(bone.world) for bone in _bones(episode, actor_id))


@TABLE.query(u32)
def get_bones_transform(episode: Episode, actor_id: int) -> tuple[object, ...]:
    """A walker's skeleton: of each bone its name and where it is in the world, in the walker, and seen from its parent."""
    episode.actors.get(actor_id, WalkerEntry, "a walker")
    bones = _bones(episode, actor_id)
    return (tuple((bone.name, *(r.transform_of(pose) for pose in bone[2:5])) for bone in bones),)


@TABLE.query(u32, idle="nobody has any")
def get_actor_socket_names(episode: Episode, actor_id: int) -> tuple[str, ...]:
    """None."""
    _actor(episode, actor_id)
    return ()


@TABLE.query(u32, idle="nobody has any")
def get_actor_socket_world_transforms(episode: Episode, actor_id: int) -> tuple[r.Transform, ...]:
    """None."""
    _actor(episode, actor_id)
    return ()


@TABLE.query(u32, idle="nobody has any")
def get_actor_socket_relative_transforms(episode: Episode, actor_id: int) -> tuple[r.Transform, ...]:
    """None."""
    _actor(episode, actor_id)
    return ()
