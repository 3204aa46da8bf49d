"""What actors are made of: components, bones, sockets; see ``skeletons.py``."""

from typing import Final

from samepath.core.catalogue import VehicleType, WalkerType
from samepath.core.states import Pose
from samepath.core.trig import to_degrees
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError, text, u32
from samepath.simulator.physics.frames import attached_pose
from samepath.simulator.server.actors import ActorEntry, WalkerEntry
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.skeletons import Bone, components, vehicle_bones, walker_bones

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
