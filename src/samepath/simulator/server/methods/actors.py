"""Actors: the library they come from, spawning, destroying, moving, pushing; and the messages that radio sensors send."""

from functools import cache
from typing import Final

from samepath.core.catalogue import WalkerType
from samepath.core.states import Pose, Vector, WalkerCommand
from samepath.simulator.carla import blueprints
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError, Raw, flag, number, pack, text, u8, u32
from samepath.simulator.physics.frames import axes_of, forward_of, quaternion_of
from samepath.simulator.server.actors import ActorEntry, VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.radio import CustomRadioSensor
from samepath.simulator.server.rpc import Sender
from samepath.simulator.server.sensors import SensorEntry, sensor_models
from samepath.simulator.server.ticking import destroy, let_die, spawn

TABLE: Final = Table()

# Calls that threads of CARLA's client make by themselves, while actors come and go. Nothing catches an error there: it ends the
# user's process (``terminate called ...``). So none of them may fail because an actor has vanished:
# - Traffic manager (``TrafficManagerLocal::Run``): get_actor_bounding_box gives an empty box, as in CARLA;
#   set_actor_simulate_physics does nothing (CARLA gives an error, and its users know the abort); get_actors_by_id leaves
#   unknown ids out; apply_batch has its errors in the answers of the commands; an error of destroy_actor is caught in the
#   client, one of set_actor_target_velocity not read; get_episode_settings, get_weather_parameters and
#   get_vehicle_light_states name no actor.
# - State stream (``Episode::Listen``), when lights or the episode changed: query_lights_state, update_lights_state,
#   get_map_info, get_map_data, get_required_files, request_file name no actor.
# - Walker navigation, in the user's own tick() and wait_for_tick(), where an error that is not theirs ends the script:
#   set_actor_collisions does nothing (an error in CARLA); get_actors_by_id, apply_batch, destroy_actor as above; an error of
#   set_actor_dead is not read.
# - Streams of sensors, lane invasion: no calls.

# CARLA takes angular impulses and torques in Unreal's units: kg cm² and degrees.
_UNREAL_TURN: Final = 3.141592653589793 / 180.0 * 1e-4
# How fast somebody falls over at first who dies on their feet.
_TOPPLE_DEGPS: Final = 90.0


@cache
def _library() -> Raw:
    """All blueprints but those of sensors that nothing measures for yet."""
    there = [
        blueprint
        for blueprint in blueprints.library()
        if not blueprint.id.startswith("sensor.") or blueprint.id in sensor_models()
    ]
    return Raw(
        pack(
            [
                (blueprint.uid, blueprint.id, blueprint.tags, [_attribute(a) for a in blueprint.attributes])
                for blueprint in there
            ]
        )
    )


def _attribute(attribute: blueprints.BlueprintAttribute) -> tuple[object, ...]:
    return attribute.id, int(attribute.type), attribute.value, attribute.recommended, attribute.modifiable, attribute.restricted


@TABLE.query(quick=True)
def get_actor_definitions(_: Episode) -> Raw:
    """The blueprint library."""
    return _library()


@TABLE.query()
def get_spectator(episode: Episode) -> r.Actor:
    """The spectator."""
    return episode.spectator.record


@TABLE.query(r.actor_ids, sender=True)
def get_actors_by_id(episode: Episode, sender: Sender, ids: tuple[int, ...]) -> list[r.Actor]:
    """Actors in the order in which they were asked for, each once; unknown ids are left out.

    CARLA's server repeats an actor whose id is repeated, and its client, which keeps actors by id, does nothing with the second
    one (``CachedActorList``). Repeated they would be a lever: few bytes of ids would ask for hundreds of megabytes. Records can
    be long by themselves, as clients choose the attributes, so the answer is measured before it is made.
    """
    found: list[r.Actor] = []
    size_bytes, most_bytes = 0, episode.context.limits.answer_bytes
    for actor_id in dict.fromkeys(ids):
        entry = episode.actors.find(actor_id)
        if entry is None:
            continue
        record = episode.shown(entry.record, sender)
        size_bytes += len(pack(record))
        if size_bytes > most_bytes:
            raise CallError(
                f"get_actors_by_id: an answer of at most {most_bytes} bytes was wanted, but these {len(ids)} ids make a "
                "longer one: ask for fewer of them at a time"
            )
        found.append(record)
    return found


@TABLE.value(r.description, r.transform, sender=True)
def spawn_actor(episode: Episode, sender: Sender, description: r.Description, transform: r.Transform) -> r.Actor:
    """Put an actor into the world."""
    return episode.shown(spawn(episode, description, transform).record, sender)


@TABLE.value(r.description, r.transform, u32, u8, text, sender=True)
def spawn_actor_with_parent(
    episode: Episode,
    sender: Sender,
    description: r.Description,
    transform: r.Transform,
    parent_id: int,
    _attachment: int,
    _socket: str,
) -> r.Actor:
    """Attach an actor to another; spring arms are rigid here."""
    if not parent_id:
        raise CallError("unable to attach actor: parent actor not found")
    return episode.shown(spawn(episode, description, transform, parent_id).record, sender)


@TABLE.value(u32)
def destroy_actor(episode: Episode, actor_id: int) -> bool:
    """Take an actor out of the world."""
    destroy(episode, actor_id)
    return True


@TABLE.query(u32)
def get_actor_bounding_box(episode: Episode, actor_id: int) -> r.BoundingBox:
    """An actor's box; one that has vanished has an empty one."""
    entry = episode.actors.find(actor_id)
    return entry.record.bounding_box if entry is not None else r.BoundingBox()


@TABLE.void(u32, r.vector)
def set_actor_location(episode: Episode, actor_id: int, location: Vector) -> None:
    """Put an actor elsewhere."""
    entry = episode.actors.get(actor_id, ActorEntry, "an actor")
    before = entry.relative or episode.pose(entry)
    _put(episode, entry, before._replace(x_m=location.x, y_m=location.y, z_m=location.z))


@TABLE.void(u32, r.transform)
def set_actor_transform(episode: Episode, actor_id: int, transform: r.Transform) -> None:
    """Put an actor elsewhere and turn it; for an attached one relative to its parent."""
    _put(episode, episode.actors.get(actor_id, ActorEntry, "an actor"), r.pose_of(transform))


def _put(episode: Episode, entry: ActorEntry, pose: Pose) -> None:
    if entry.relative is not None:
        entry.relative = pose
    elif entry.has_body:
        episode.world.set_pose(entry.id, pose)
    elif entry.blueprint is None and entry is not episode.spectator:
        raise CallError(f"actor {entry.id} is a {entry.type_id}: it belongs to the map and stays where it is")
    else:
        entry.pose = pose
        episode.actors.place(entry)


@TABLE.void(u32, r.transform, number)
def set_walker_state(episode: Episode, actor_id: int, transform: r.Transform, speed_mps: float) -> None:
    """Put a walker, given by its feet, where a client's own simulation has it."""
    entry = episode.actors.get(actor_id, WalkerEntry, "a walker")
    if entry.is_dead:
        raise CallError(f"set_walker_state: Walker is already dead.  Actor Id: {actor_id}")  # CARLA's words
    kind = episode.world.kind(actor_id)
    lift_m = kind.height_m / 2 if isinstance(kind, WalkerType) else 0.0
    pose = r.pose_of(transform)
    episode.world.set_pose(actor_id, pose._replace(z_m=pose.z_m + lift_m))
    forward = _forward(pose)
    entry.control = r.WalkerControl(forward, speed_mps)
    if episode.world.simulated(actor_id):
        episode.world.apply(actor_id, WalkerCommand(forward.x, forward.y, speed_mps))
    episode.actors.rewrite(entry)


def _forward(pose: Pose) -> Vector:
    return Vector(*forward_of(quaternion_of(pose)))


@TABLE.void(u32, r.vector)
def set_actor_target_velocity(episode: Episode, actor_id: int, velocity_mps: Vector) -> None:
    """Set an actor's velocity."""
    episode.body(actor_id)
    episode.world.set_velocity(actor_id, velocity_mps)


@TABLE.void(u32, r.vector)
def set_actor_target_angular_velocity(episode: Episode, actor_id: int, spin_degps: Vector) -> None:
    """Set an actor's angular velocity."""
    episode.body(actor_id)
    episode.world.set_spin(actor_id, spin_degps)


@TABLE.void(u32, r.vector)
def enable_actor_constant_velocity(episode: Episode, actor_id: int, velocity_mps: Vector) -> None:
    """Hold an actor at a velocity, as seen from the actor itself."""
    episode.body(actor_id)
    episode.world.hold_velocity(actor_id, velocity_mps)


@TABLE.void(u32)
def disable_actor_constant_velocity(episode: Episode, actor_id: int) -> None:
    """Let go."""
    episode.body(actor_id)
    episode.world.hold_velocity(actor_id, None)


@TABLE.void(u32, r.vector)
def add_actor_impulse(episode: Episode, actor_id: int, impulse_ns: Vector) -> None:
    """Push an actor at once."""
    episode.body(actor_id)
    episode.world.add_impulse(actor_id, impulse_ns)


@TABLE.void(u32, r.vector, r.vector)
def add_actor_impulse_at_location(episode: Episode, actor_id: int, impulse_ns: Vector, at_m: Vector) -> None:
    """Push an actor at a point of the world."""
    episode.body(actor_id)
    episode.world.add_impulse(actor_id, impulse_ns, at_m)


@TABLE.void(u32, r.vector)
def add_actor_force(episode: Episode, actor_id: int, force_n: Vector) -> None:
    """Push an actor throughout the next tick."""
    episode.body(actor_id)
    episode.world.add_force(actor_id, force_n)


@TABLE.void(u32, r.vector, r.vector)
def add_actor_force_at_location(episode: Episode, actor_id: int, force_n: Vector, at_m: Vector) -> None:
    """Push an actor at a point of the world throughout the next tick."""
    episode.body(actor_id)
    episode.world.add_force(actor_id, force_n, at_m)


@TABLE.void(u32, r.large_vector)
def add_actor_angular_impulse(episode: Episode, actor_id: int, impulse: Vector) -> None:
    """Turn an actor at once."""
    episode.body(actor_id)
    episode.world.add_angular_impulse(actor_id, _turn(impulse))


@TABLE.void(u32, r.large_vector)
def add_actor_torque(episode: Episode, actor_id: int, torque: Vector) -> None:
    """Turn an actor throughout the next tick."""
    episode.body(actor_id)
    episode.world.add_torque(actor_id, _turn(torque))


def _turn(value: Vector) -> Vector:
    return Vector(value.x * _UNREAL_TURN, value.y * _UNREAL_TURN, value.z * _UNREAL_TURN)


@TABLE.void(u32, flag)
def set_actor_simulate_physics(episode: Episode, actor_id: int, on: bool) -> None:
    """Let physics move an actor, or not; nothing happens to one that has vanished."""
    entry = episode.actors.find(actor_id)
    if entry is not None and entry.has_body and entry.relative is None:
        episode.world.set_simulated(actor_id, on=on)


@TABLE.void(u32, flag)
def set_actor_collisions(episode: Episode, actor_id: int, on: bool) -> None:
    """Let an actor touch others, or not; nothing happens to one that has vanished."""
    entry = episode.actors.find(actor_id)
    if entry is not None and entry.has_body:
        episode.world.set_collisions(actor_id, on=on)


@TABLE.void(u32, flag)
def set_actor_enable_gravity(episode: Episode, actor_id: int, on: bool) -> None:
    """Let gravity pull an actor, or not."""
    episode.body(actor_id)
    episode.world.set_gravity(actor_id, on=on)


@TABLE.void(u32)
def set_actor_dead(episode: Episode, actor_id: int) -> None:
    """Let a walker fall, to be taken out later; a vehicle merely stops being driven."""
    entry = episode.body(actor_id)
    if isinstance(entry, WalkerEntry):
        let_die(episode, entry)
        # Forward: a body that nothing has pushed would balance on its feet for seconds.
        _, right, _ = axes_of(quaternion_of(episode.pose(entry)))
        episode.world.set_spin(actor_id, Vector(*(part * _TOPPLE_DEGPS for part in right)))
    elif not isinstance(entry, VehicleEntry):
        raise CallError(f"actor {actor_id} is a {entry.type_id}: it was never alive")


@TABLE.void(u32, flag, idle="the client's own traffic manager drives")
def set_actor_autopilot(episode: Episode, actor_id: int, on: bool) -> None:
    episode.actors.get(actor_id, VehicleEntry, "a vehicle")


@TABLE.void(u32, text)
def send(episode: Episode, actor_id: int, message: str) -> None:
    """Send a text from a ``sensor.other.v2x_custom`` in the next tick."""
    entry = episode.actors.get(actor_id, SensorEntry, "a sensor")
    if not isinstance(entry.model, CustomRadioSensor):
        raise CallError(f"actor {actor_id} is a {entry.type_id}: only sensor.other.v2x_custom sends messages")
    entry.model.send(message)
