"""Putting actors into an episode and taking them out."""

from typing import Final

from samepath.sim.sensors.budget import check_rays
from samepath.sim.sensors.mounts import seen_from
from samepath.sim.server import blueprints
from samepath.sim.server.actors import Entry, VehicleEntry, WalkerEntry
from samepath.sim.server.blueprints import Blueprint
from samepath.sim.server.codec import token
from samepath.sim.server.episode import DEFAULT_STEP_S, Episode
from samepath.sim.server.errors import CallError
from samepath.sim.server.physics_control import FRICTION_SCALE
from samepath.sim.server.records import Actor, AttributeValue, BoundingBox, Description, Transform, pose_of
from samepath.sim.server.sensing import SensorEntry
from samepath.sim.server.sensors import instrument
from samepath.sim.server.sensors.instrument import given, real
from samepath.sim.server.sensors.seeing import SEEING
from samepath.sim.world.catalogue import VehicleType, WalkerType, actor_type
from samepath.sim.world.pieces import FrictionVolume
from samepath.sim.world.records import Pose, Vector
from samepath.sim.world.world import SpawnRefusedError

# CARLA's own words: scripts look for them.
COLLISION: Final = "Spawn failed because of collision at spawn position"
INVALID: Final = "Spawn failed because of invalid actor description"
_FRICTION_TRIGGER: Final = "static.trigger.friction"
_CM: Final = 100.0
_STEP_UP_M: Final = 2.0
_GAP_M: Final = 0.02


def spawn(
    episode: Episode, description: Description, transform: Transform, parent_id: int = 0, *, overlapping: bool = False
) -> Entry:
    """Put an actor into the episode; with a parent the transform is relative to it, and it may be inside it."""
    if len(episode.actors) >= episode.place.limits.actors:
        raise CallError(f"there are {len(episode.actors)} actors already: samepath serve takes no more")
    blueprint = _blueprint(description)
    parent = None
    if parent_id:
        parent = episode.actors.find(parent_id)
        if parent is None:
            raise CallError("unable to attach actor: parent actor not found")
    relative = pose_of(transform)
    pose = relative if parent is None else seen_from(episode.pose(parent), relative)
    entry = _entry(episode, blueprint, _full(blueprint, description), pose, parent_id, overlapping=overlapping)
    if parent is not None:
        entry.relative = relative
        parent.children.append(entry.id)
    episode.actors.add(entry)
    return entry


def _blueprint(description: Description) -> Blueprint:
    found = {one.id: one for one in blueprints.library()}.get(description.id)
    if found is None:
        raise CallError(INVALID)
    return found


def _full(blueprint: Blueprint, description: Description) -> Description:
    """The description with every attribute of its blueprint, as CARLA gives it back."""
    given = {one.id: one for one in description.attributes}
    values = tuple(given.get(one.id, AttributeValue(one.id, int(one.type), one.value)) for one in blueprint.attributes)
    return Description(blueprint.uid, blueprint.id, values)


def _entry(
    episode: Episode, blueprint: Blueprint, description: Description, pose: Pose, parent_id: int, *, overlapping: bool
) -> Entry:
    box = BoundingBox(Vector(*blueprint.box_centre_m), Vector(*blueprint.box_half_m))
    tags = bytes([blueprint.label]) if blueprint.label else b""
    if blueprint.body:
        return _with_body(episode, blueprint, (description, box, tags, parent_id), pose, overlapping=overlapping)
    if blueprint.id.startswith("sensor."):
        ordinal = episode.next_actor_id - episode.first_actor_id
        inside = instrument(description, ordinal)
        _check_image(description, episode.place.limits.image_pixels)
        check_rays(description.id, given(description), episode.settings.fixed_delta_seconds or DEFAULT_STEP_S)
        if isinstance(inside, SEEING):
            episode.place.workshop.prepare(episode.scene.road_map)
        period_s = max(real(description, "sensor_tick", 0.0), 0.0)
        stream_id = episode.new_stream_id()
        record = Actor(episode.new_actor_id(), parent_id, description, box, tags, token(stream_id, episode.place.stream_port))
        return SensorEntry(record, blueprint, pose, instrument=inside, stream_id=stream_id, period_s=period_s)
    volume = _volume(episode, description, pose) if blueprint.id == _FRICTION_TRIGGER else None
    return Entry(Actor(episode.new_actor_id(), parent_id, description, box, tags, b""), blueprint, pose, volume=volume)


def _check_image(description: Description, most: int) -> None:
    """A server's images are smaller than those of a rig: every client may ask for them."""
    width, height = (real(description, f"image_size_{axis}", 1.0) for axis in "xy")
    if width * height > most:
        raise CallError(
            f"{description.id}: image_size_x times image_size_y: at most {most} was wanted, but {width:g} x {height:g} came"
        )


def _with_body(
    episode: Episode,
    blueprint: Blueprint,
    parts: tuple[Description, BoundingBox, bytes, int],
    pose: Pose,
    *,
    overlapping: bool,
) -> Entry:
    description, box, tags, parent_id = parts
    kind = actor_type(blueprint.body)
    if isinstance(kind, WalkerType):
        pose = _on_the_ground(episode, kind, pose)
    number = episode.next_actor_id
    try:
        episode.world.spawn(blueprint.body, pose, number, overlapping=overlapping or bool(parent_id))
    except SpawnRefusedError as error:
        raise CallError(COLLISION) from error
    episode.new_actor_id()
    record = Actor(number, parent_id, description, box._replace(actor_id=number), tags, b"")
    if parent_id:
        episode.world.set_simulated(number, on=False)
        episode.world.set_collisions(number, on=False)
    if isinstance(kind, VehicleType):
        sticky = description.get("sticky_control", "true").lower() != "false"
        return VehicleEntry(record, blueprint, pose, has_body=True, base=kind, sticky=sticky)
    if isinstance(kind, WalkerType):
        return WalkerEntry(record, blueprint, pose, has_body=True)
    return Entry(record, blueprint, pose, has_body=True)


def _on_the_ground(episode: Episode, kind: WalkerType, pose: Pose) -> Pose:
    """Lift a walker whose feet would be in the ground; their place is their middle."""
    half_m = kind.height_m / 2
    hit = episode.world.cast_ray(
        Vector(pose.x_m, pose.y_m, pose.z_m + _STEP_UP_M), Vector(z=-1.0), _STEP_UP_M + half_m, fixed_only=True
    )
    if hit is None:
        return pose
    return pose._replace(z_m=max(pose.z_m, pose.z_m + _STEP_UP_M - hit[0] + half_m + _GAP_M))


def _volume(episode: Episode, description: Description, pose: Pose) -> int:
    """A patch of ground with another friction; CARLA gives half sizes in centimetres."""
    half_x_m, half_y_m, half_z_m = (abs(real(description, f"extent_{axis}", 1.0)) / _CM for axis in "xyz")
    friction = min(max(real(description, "friction", 3.5), 0.0), 1e3) / FRICTION_SCALE
    return episode.world.add_friction_volume(
        FrictionVolume(pose.x_m, pose.y_m, half_x_m, half_y_m, friction, pose.z_m, half_z_m, pose.yaw_deg)
    )


def destroy(episode: Episode, actor_id: int) -> None:
    """Take an actor out; whatever was attached to it stays where it is."""
    entry = episode.actors.find(actor_id)
    if entry is None:
        raise CallError("unable to destroy actor: not found")
    if entry is episode.spectator or entry.blueprint is None:
        raise CallError(f"unable to destroy actor: the {entry.type_id} belongs to the map")
    if entry.has_body:
        episode.world.destroy(actor_id)
    if entry.volume is not None:
        episode.world.remove_friction_volume(entry.volume)
    if isinstance(entry, SensorEntry):
        episode.listened.end(entry.stream_id)
        episode.place.outbox.forget(entry.stream_id)
    parent = episode.actors.find(entry.record.parent_id)
    if parent is not None:
        parent.children.remove(actor_id)
    for child_id in entry.children:
        child = episode.actors.find(child_id)
        if child is not None:
            child.relative = None
            child.record = child.record._replace(parent_id=0)
    episode.actors.remove(actor_id)
