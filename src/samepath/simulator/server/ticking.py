"""One tick of an episode, and what changes who is in it.

The order within a tick is part of what clients rely on, and of what makes it repeatable: controllers and lights decide from the
state before; physics steps once; attached actors follow their parents, older ones first; then the state of everybody is written
and sent, then sensors measure that same state, then the recorder writes it. A clock is read for one thing only: the wall time
that each state carries, as CARLA's does; nothing depends on it.

Traffic of our own in a served world: who it is, and what they do in a tick.

It comes with the first tick that a client asks for in synchronous mode, behind whatever clients have put there before, and all
lights then begin anew. Before that, time passes by the wall clock, and how much of it passed must leave no trace. In
asynchronous mode it comes when a client has put its first actor there: from then on the wall clock counts anyway.

It goes on like any script of a client would: through commands to actors that clients see, may sense, and may destroy. Nobody
else can drive them: the traffic's word is said anew at every tick. Its waiting times are counted in ticks of the usual length.
"""

import math
from typing import Final

import numpy as np

from samepath.core.catalogue import VehicleType, WalkerType, actor_type
from samepath.core.channels import VELOCITY
from samepath.core.errors import InputError, SamepathError
from samepath.core.states import Collision, Pose, Vector, VehicleCommand
from samepath.core.trig import to_radians
from samepath.simulator.carla import blueprints
from samepath.simulator.carla import streams as frames
from samepath.simulator.carla.blueprints import Blueprint
from samepath.simulator.carla.codec import CallError, token
from samepath.simulator.carla.records import (
    Actor,
    AttributeValue,
    BoundingBox,
    Description,
    Transform,
    VehicleControl,
    WalkerControl,
    pose_of,
    transform_of,
)
from samepath.simulator.physics.actors import BrokenActorsError
from samepath.simulator.physics.frames import attached_pose, forward_of, quaternion_of
from samepath.simulator.sensors.sensor import check_rays
from samepath.simulator.server.actors import STANDING, ActorEntry, SignEntry, VehicleEntry, WalkerEntry, WrittenLights
from samepath.simulator.server.episode import DEFAULT_STEP_S, Episode
from samepath.simulator.server.physics_control import FRICTION_SCALE, served_type
from samepath.simulator.server.radio import exchange
from samepath.simulator.server.sensors import SensorEntry, VisualSensor, build_sensor, given, real, sense
from samepath.simulator.simulation import ground_height_m
from samepath.simulator.traffic.traffic import Newcomer, Traffic, newcomers
from samepath.simulator.world.signals import TrafficLightState
from samepath.simulator.world.state_table import STATE_FIELDS
from samepath.simulator.world.world import FrictionVolume, SpawnRefusedError


def traffic_of(episode: Episode) -> Traffic | None:
    """Who decides for the traffic of an episode; nobody where none is wanted."""
    wanted = episode.context.traffic
    return None if wanted is None else Traffic(episode.map.road_map, wanted, DEFAULT_STEP_S, episode.first_actor_id)


def beginners(episode: Episode) -> tuple[Newcomer, ...]:
    """Who is to be put into the world; on a map that has no room for them nobody, and the log says why."""
    wanted = episode.context.traffic
    if wanted is None:
        return ()
    taken = [(state.pose.x_m, state.pose.y_m) for state in episode.world.states().values()]
    try:
        return newcomers(episode.map.road_map, wanted, taken)
    except InputError as error:
        episode.context.log(f"no traffic on map {episode.map.name}: {error}")
        return ()


def command_traffic(episode: Episode, traffic: Traffic) -> None:
    """Tell every actor of the traffic what to do in the tick that begins."""
    world, actors = episode.world, episode.actors
    types = {actor.id: actor.type for actor in world.actors}
    for number, command in traffic.decide(world.states(), types, episode.signals.shown()).items():
        entry = actors.find(number)
        if isinstance(command, VehicleCommand) and isinstance(entry, VehicleEntry):
            entry.control = VehicleControl(command.throttle, command.steer, command.brake)
        elif isinstance(entry, WalkerEntry) and not isinstance(command, VehicleCommand):
            entry.control = WalkerControl(Vector(command.direction_x, command.direction_y), command.speed_mps)
        else:
            continue
        world.apply(number, command)
        actors.rewrite(entry)


# CARLA's own words: scripts look for them.
COLLISION: Final = "Spawn failed because of collision at spawn position"
INVALID: Final = "Spawn failed because of invalid actor description"
_FRICTION_TRIGGER: Final = "static.trigger.friction"
_VELOCITY: Final = [STATE_FIELDS.index(name) for name in VELOCITY]
_CM: Final = 100.0
# A walker whose feet would be in the ground is lifted: the ground is looked for from this far above, and a small
# gap is left.
_STEP_UP_M: Final = 2.0
_GAP_M: Final = 0.02
# A vehicle that stands still has a speed of 0, as in CARLA, whose traffic manager lets nobody go from a stop sign who has more
# than 1 mm/s. In Rapier what gravity adds in a substep is taken back by the springs only in the next one: 4 cm/s downwards.
_STANDING_MPS, _SAGGING_MPS = 0.01, 0.06
_KMH: Final = 3.6
_NO_LIMIT_KMH: Final = 130.0
# How far a vehicle moves before its speed limit is looked up again.
_LOOK_UP_EVERY_M: Final = 2.0
# How far behind a vehicle a speed sign counts as just passed: more than it drives from one look to the next.
_SIGN_REACH_M: Final = 6.0
# Whatever a client or the wall clock asks for, a tick is this long: never 0, never more than ten seconds.
SHORTEST_STEP_S: Final = 1e-4
LONGEST_STEP_S: Final = 10.0
# In a tick of more than a second physics steps no further than this, however few substeps a client wants: at 50 km/h it is
# 1.4 m, and springs stay springs.
_LONG_STEP_S: Final = 1.0
_LONGEST_SUBSTEP_S: Final = 0.1
_SUBSTEPS_MAX: Final = 100
# No tick has shorter substeps.
SHORTEST_SUBSTEP_S: Final = SHORTEST_STEP_S / _SUBSTEPS_MAX
# Below this an actor has fallen off the edge of the map.
_BOTTOM_M: Final = -500.0
# A walker that is not invincible dies of a vehicle of at least this speed: who is nudged in a car park, or walks into a car
# that stands, lives. In CARLA 0.9.16 this is in the walkers' Unreal assets, which are not public; the number is that of its
# successor, where it is in the code (``AWalkerBase::VehicleKillSpeed``).
_DEADLY_MPS: Final = 2.1
# For how long CARLA leaves a dead walker lying (``AWalkerBase::AfterLifeSpan``).
_LIES_S: Final = 10.0
# What ``FString::ToBool`` takes for true, with which CARLA reads attributes.
_TRUE: Final = frozenset({"true", "yes", "on", "1"})


class TickAbandonedError(Exception):
    """The server stops, and a tick that waits for something is not waited for. The episode is over, but nothing has failed."""


class TickFailedError(Exception):
    """A tick did not come to its end. No :class:`SamepathError`, because no client can mend it: the episode is over."""


def tick(episode: Episode, step_s: float) -> None:
    """Advance the world by a step and send what came of it: the state first, then the sensors.

    Whatever is raised in here ends the episode. What clients can cause is dealt with where it is caused: an actor that physics
    cannot compute is taken out, a sensor that cannot measure is silent, a recording that cannot be written or played ends.
    """
    try:
        _tick(episode, step_s)
    except SamepathError as error:
        raise TickFailedError(f"tick {episode.frame} was not finished: {error}") from error


def _tick(episode: Episode, step_s: float) -> None:
    step_s = min(max(step_s, SHORTEST_STEP_S), LONGEST_STEP_S)
    episode.ranks.clear()
    _drive_traffic(episode)
    _drive_ackermann(episode, step_s)
    episode.signals.tick(step_s)
    sent_s = frames.as_sent(step_s)
    _play(episode, sent_s)
    deadly = _deadly(episode)
    collisions = _step(episode, step_s)
    episode.advance(step_s, sent_s)
    _strike(episode, collisions, deadly)
    _take_out_dead(episode)
    _let_go(episode)
    _carry(episode)
    episode.actors.fill(episode.world)
    _catch_fallen(episode)
    _write_vehicles(episode)
    _write_walkers(episode)
    _write_lights(episode)
    publish(episode)
    exchange(episode)
    sense(episode, collisions)
    _record(episode, collisions)
    episode.context.after_tick(episode, collisions)
    episode.debug.fade(episode.elapsed_s)


def step_of(episode: Episode) -> float:
    """How long a tick is in synchronous mode."""
    step_s = episode.settings.fixed_delta_seconds
    return step_s or DEFAULT_STEP_S


def substeps_of(episode: Episode, step_s: float) -> int:
    """Into how many steps physics divides a tick: steps of at most the wanted size, but not more of them than wanted.

    Unless they would be longer than physics can bear: a tick of 3 s, as in CARLA's lidar_to_camera.py, is at least 30 steps.
    """
    settings = episode.settings
    least = math.ceil(step_s / _LONGEST_SUBSTEP_S - 1e-6) if step_s > _LONG_STEP_S else 1
    if not settings.substepping or settings.max_substep_delta_time <= 0.0:
        return least
    # A step that is a whole number of substeps up to rounding is divided into exactly so many.
    wanted = math.ceil(step_s / max(settings.max_substep_delta_time, SHORTEST_SUBSTEP_S) - 1e-6)
    return max(least, min(wanted, settings.max_substeps, _SUBSTEPS_MAX))


def command_of(control: VehicleControl) -> VehicleCommand:
    """What the world makes of pedals and wheel: out of range is at its end."""
    return VehicleCommand(
        throttle=min(max(control.throttle, 0.0), 1.0),
        steer=min(max(control.steer, -1.0), 1.0),
        brake=min(max(control.brake, 0.0), 1.0),
        hand_brake=control.hand_brake,
        reverse=control.reverse,
        manual_gear=control.gear if control.manual_gear_shift else None,
    )


def _play(episode: Episode, sent_s: float) -> None:
    """Put actors where the recording that is played has them; one that cannot be played to its end is stopped there."""
    if episode.player is None:
        return
    try:
        episode.player.tick(episode, sent_s)
    except SamepathError as error:
        episode.context.log(f"the replay ends: {error}")
        episode.player.stop(episode, keep=True)
        episode.player = None


def _record(episode: Episode, collisions: tuple[Collision, ...]) -> None:
    """Write the tick to the recording; one that cannot be written, or has grown too large, ends."""
    recorder = episode.recorder
    if recorder is None:
        return
    try:
        recorder.tick(episode, collisions)
        full = recorder.is_full
    except InputError as error:
        episode.context.log(f"the recording ends: {error}")
        full = True
    if full:
        episode.end_recording()


def _step(episode: Episode, step_s: float) -> tuple[Collision, ...]:
    """Let physics work; an empty world is left alone.

    What Rapier does with contacts depends on how many steps it has made before: the time a server stood idle, which is the
    wall clock's, must leave no trace.
    """
    if not episode.world.actors:
        return ()
    episode.context.before_step(episode.world)
    try:
        return episode.world.tick(step_s, substeps_of(episode, step_s))
    except BrokenActorsError as error:
        for number in error.actors:
            destroy(episode, number)
        episode.context.log(f"{error}; they were taken out of the world")
        return ()


def _deadly(episode: Episode) -> frozenset[int]:
    """Who is fast enough to kill a walker, if there is one to be killed.

    Asked before the step: a bicycle that hits somebody has lost most of its speed after it.
    """
    if not any(entry.mortal and not entry.is_dead for entry in episode.actors.all(WalkerEntry)):
        return frozenset()
    ids, rows = episode.world.state_array()
    x, y, z = rows[:, _VELOCITY].T
    return frozenset(ids[x * x + y * y + z * z >= _DEADLY_MPS**2].tolist())


def _strike(episode: Episode, collisions: tuple[Collision, ...], deadly: frozenset[int]) -> None:
    """Let walkers die who were hit by a vehicle in this step."""
    if not deadly:
        return
    # A recording that is being played says itself where its walkers are, and when they leave.
    played = frozenset(episode.player.ids.values()) if episode.player is not None else frozenset()
    for hit in collisions:
        for struck, by in ((hit.actor, hit.other), (hit.other, hit.actor)):
            entry = None if struck is None else episode.actors.find(struck)
            if not isinstance(entry, WalkerEntry) or not entry.mortal or entry.is_dead or by not in deadly:
                continue
            if entry.id not in played and isinstance(episode.actors.find(by), VehicleEntry):
                let_die(episode, entry)


def let_die(episode: Episode, entry: WalkerEntry) -> None:
    """Let a walker fall. It lies there for some time, and then is taken out."""
    entry.leaves_at_s = episode.elapsed_s + _LIES_S
    entry.control = STANDING
    if entry.relative is None:
        # Somebody whom a client has led, without physics, would be left standing.
        episode.world.set_simulated(entry.id, on=True)
    episode.world.knock_down(entry.id)
    episode.actors.rewrite(entry)


def _take_out_dead(episode: Episode) -> None:
    due = [entry.id for entry in episode.actors.all(WalkerEntry) if (entry.leaves_at_s or math.inf) <= episode.elapsed_s]
    for number in due:
        destroy(episode, number)


def _catch_fallen(episode: Episode) -> None:
    """Take out who has fallen off the edge of the world, as CARLA does."""
    heights_m = episode.world.state_array()[1][:, 2]
    if heights_m.size and heights_m.min() < _BOTTOM_M:
        fallen = [entry.id for entry in episode.actors if entry.has_body and episode.world.state(entry.id).pose.z_m < _BOTTOM_M]
        for number in fallen:
            destroy(episode, number)
        if fallen:
            episode.context.log(f"actors {fallen} fell off the edge of the world and were taken out")
            episode.actors.fill(episode.world)


def _drive_traffic(episode: Episode) -> None:
    """Let the server's own traffic decide; when it counts what has been ticked, it is put there."""
    if episode.traffic_due and (episode.settings.synchronous_mode or episode.world.actors):
        episode.traffic_due = False
        episode.signals.reset_all()
        episode.traffic = traffic_of(episode)
        for newcomer in beginners(episode):
            height_m = ground_height_m(episode.world, newcomer.x_m, newcomer.y_m) + newcomer.lift_m
            pose = Pose(newcomer.x_m, newcomer.y_m, height_m, yaw_deg=newcomer.yaw_deg)
            try:
                number = put(episode, newcomer.type, pose).id
            except CallError as error:
                # A client was there first, or has filled the world.
                episode.context.log(f"the traffic has one {newcomer.type} fewer: {error}")
                continue
            if episode.traffic is not None:
                episode.traffic.add(number, newcomer, episode.world.kind(number))
    if episode.traffic is not None:
        command_traffic(episode, episode.traffic)


def _drive_ackermann(episode: Episode, step_s: float) -> None:
    for entry in episode.actors.all(VehicleEntry):
        if entry.ackermann.target is None or entry.base is None:
            continue
        state = episode.world.state(entry.id)
        forward = forward_of(quaternion_of(state.pose))
        speed_mps = sum(a * b for a, b in zip(forward, state.velocity_mps, strict=True))
        kind = episode.world.kind(entry.id)
        max_steer_rad = to_radians(getattr(kind, "max_steer_deg", 0.0))
        entry.control = entry.ackermann.drive(speed_mps, max_steer_rad, step_s)
        episode.world.apply(entry.id, command_of(entry.control))
        episode.actors.rewrite(entry)


def _let_go(episode: Episode) -> None:
    """A vehicle without sticky control forgets its pedals after every tick."""
    for entry in episode.actors.all(VehicleEntry):
        if not entry.sticky and entry.control != VehicleControl():
            entry.control = VehicleControl()
            episode.world.apply(entry.id, VehicleCommand())
            episode.actors.rewrite(entry)


def _carry(episode: Episode) -> None:
    """Move what is attached with what it is attached to; parents are older than their children."""
    for entry in episode.actors.attached:
        if entry.relative is None:
            continue
        parent = episode.actors.find(entry.record.parent_id)
        if parent is None:
            continue
        entry.pose = attached_pose(episode.pose(parent), entry.relative)
        if entry.has_body:
            episode.world.set_pose(entry.id, entry.pose)
        else:
            episode.actors.place(entry)


def _write_vehicles(episode: Episode) -> None:
    vehicles = episode.actors.all(VehicleEntry)
    if not vehicles:
        return
    roll = episode.actors.roll
    rows, table = roll.rows, episode.actors.states.rows
    table["gear"][rows] = episode.world.gears(roll.ids)
    motion = table["motion"][rows].astype(np.float64)
    speed_mps = np.hypot(motion[:, 6], motion[:, 7])
    standing = (speed_mps < _STANDING_MPS) & (np.abs(motion[:, 8]) < _SAGGING_MPS)
    if standing.any():
        motion[standing, 6:9] = speed_mps[standing] = 0.0
        table["motion"][rows] = motion
    for entry, (x_m, y_m) in zip(vehicles, motion[:, :2].tolist(), strict=True):
        before_x, before_y = entry.looked_up_at
        if abs(x_m - before_x) + abs(y_m - before_y) >= _LOOK_UP_EVERY_M:
            _look_up_limit(episode, entry, x_m, y_m)
            table["speed_limit"][episode.actors.row(entry.id)] = entry.speed_limit_kmh
    served = episode.map
    if not served.signals.lights and served.stop_signs is None:
        table["light_state"][rows] = int(TrafficLightState.GREEN)
        return
    where = (motion[:, 0], motion[:, 1], motion[:, 4], roll.half_m, speed_mps)
    lights = served.stop_lines.lights_ahead(*where)
    shown, light_ids = np.full(len(vehicles), int(TrafficLightState.GREEN), np.uint8), np.zeros(len(vehicles), np.uint32)
    if served.stop_signs is not None:
        # At a stop sign CARLA reports red and no light: its traffic manager then lets one vehicle after the other go.
        shown[served.stop_signs.lights_ahead(*where) >= 0] = int(TrafficLightState.RED)
    for index, (entry, light) in enumerate(zip(vehicles, lights.tolist(), strict=True)):
        entry.light_number = light
        if light >= 0:
            shown[index], light_ids[index] = int(episode.signals.shows(light)), roll.lights.get(light, 0)
    table["at_light"][rows] = lights >= 0
    table["light_state"][rows] = shown
    table["light_id"][rows] = light_ids


def _look_up_limit(episode: Episode, entry: VehicleEntry, x_m: float, y_m: float) -> None:
    """Look up the speed limit of a vehicle that has moved on.

    Off the road, and on roads of which the map says nothing (the junctions of CARLA's towns), the last one holds.
    """
    entry.looked_up_at = (x_m, y_m)
    here = episode.map.lanes.find(x_m, y_m)
    road_map, signs = episode.map.road_map, episode.map.speed_signs
    if here is None:
        return
    if signs is not None:
        against = here.lane.lane_id > 0
        for s_m, low, high, limit_kmh in signs.get(here.lane.road_id, ()):
            behind_m = s_m - here.s_m if against else here.s_m - s_m
            if low <= here.lane.lane_id <= high and 0.0 <= behind_m < _SIGN_REACH_M:
                entry.speed_limit_kmh = limit_kmh
    elif road_map.has_speed_limit(here.lane.road_id):
        limit_mps = road_map.speed_limit_mps(here.lane.road_id, here.s_m)
        entry.speed_limit_kmh = _NO_LIMIT_KMH if limit_mps is None else limit_mps * _KMH


def _write_walkers(episode: Episode) -> None:
    """Walkers that a client moves itself have the speed it says they have."""
    for entry in episode.actors.all(WalkerEntry):
        if not episode.world.simulated(entry.id):
            speed = [part * entry.control.speed for part in entry.control.direction]
            episode.actors.states.rows["motion"][episode.actors.row(entry.id), 6:9] = speed


def _write_lights(episode: Episode) -> None:
    """Write the state of traffic lights: everything when it has changed, else only the time that has passed.

    In a town most of an empty tick would be this: 23 lights, of which none changes in most ticks.
    """
    actors, signals = episode.actors, episode.signals
    table = actors.states.rows
    written = actors.lights
    if written is None or written.signals is not signals or written.version != signals.version:
        signs = [sign for sign in actors.all(SignEntry) if sign.light is not None]
        rows, lights = actors.rows(signs), [sign.light for sign in signs if sign.light is not None]
        found = signals.states()
        states = [found[light] for light in lights]
        for name in ("green_s", "yellow_s", "red_s", "frozen"):
            table[name][rows] = [getattr(state, name) for state in states]
        table["colour"][rows] = [int(state.shows) for state in states]
        table["pole"][rows] = [episode.map.signals.lights[light].pole for light in lights]
        written = actors.lights = WrittenLights(signals, signals.version, np.array(rows, np.int64), np.array(lights, np.int64))
    if len(written.rows):
        table["elapsed_s"][written.rows] = np.array(signals.elapsed_s())[written.lights]


def write_states(episode: Episode) -> None:
    """Write the state of everybody anew, as it was after the last tick; for an episode that was just built."""
    episode.actors.fill(episode.world)
    _write_vehicles(episode)
    _write_walkers(episode)
    _write_lights(episode)


def publish(episode: Episode) -> None:
    """Send the state of everybody."""
    episode.context.outbox.publish(frames.WORLD_STREAM, _state(episode))
    episode.state_sent()


def prepare(episode: Episode) -> None:
    """Keep the state of everybody for clients that connect before the next tick."""
    episode.actors.fill(episode.world)
    episode.context.outbox.prepare(_state(episode))


def _state(episode: Episode) -> bytes:
    flags = (frames.MAP_CHANGED if episode.map_changed else 0) | (frames.LIGHTS_CHANGED if episode.lamps.is_news else 0)
    return frames.episode_state(
        episode.moment, episode.id, episode.context.clock.monotonic_s(), episode.delta_s, flags, episode.actors.states
    )


def spawn(
    episode: Episode, description: Description, transform: Transform, parent_id: int = 0, *, overlapping: bool = False
) -> ActorEntry:
    """Put an actor into the episode; with a parent the transform is relative to it, and it may be inside it."""
    if len(episode.actors) >= episode.context.limits.actors:
        raise CallError(f"there are {len(episode.actors)} actors already: samepath serve takes no more")
    blueprint = _blueprint(description)
    if episode.actors.newest.blueprint is None:
        episode.count_anew()
    parent = None
    if parent_id:
        parent = episode.actors.find(parent_id)
        if parent is None:
            raise CallError("unable to attach actor: parent actor not found")
    relative = pose_of(transform)
    pose = relative if parent is None else attached_pose(episode.pose(parent), relative)
    entry = _entry(episode, blueprint, _full(blueprint, description), pose, parent_id, overlapping=overlapping)
    if parent is not None:
        entry.relative = relative
        parent.children.append(entry.id)
    episode.actors.add(entry)
    return entry


def _blueprint(description: Description) -> Blueprint:
    found = {blueprint.id: blueprint for blueprint in blueprints.library()}.get(description.id)
    if found is None:
        raise CallError(INVALID)
    return found


def _full(blueprint: Blueprint, description: Description) -> Description:
    """The description with every attribute of its blueprint, as CARLA gives it back."""
    given = {attribute.id: attribute for attribute in description.attributes}
    values = tuple(
        given.get(attribute.id, AttributeValue(attribute.id, int(attribute.type), attribute.value))
        for attribute in blueprint.attributes
    )
    return Description(blueprint.uid, blueprint.id, values)


def put(episode: Episode, type_id: str, pose: Pose) -> ActorEntry:
    """Put an actor of the server's own into the episode, with the attributes that its blueprint has."""
    return spawn(episode, Description(blueprints.find(type_id).uid, type_id), transform_of(pose))


def _entry(
    episode: Episode, blueprint: Blueprint, description: Description, pose: Pose, parent_id: int, *, overlapping: bool
) -> ActorEntry:
    box = BoundingBox(Vector(*blueprint.box_centre_m), Vector(*blueprint.box_half_m))
    tags = bytes([blueprint.label]) if blueprint.label else b""
    if blueprint.body:
        return _with_body(episode, blueprint, (description, box, tags, parent_id), pose, overlapping=overlapping)
    if blueprint.id.startswith("sensor."):
        ordinal = episode.ordinal(episode.next_actor_id)
        model = build_sensor(description, ordinal, weather_felt=episode.context.weather_felt)
        _check_image(description, episode.context.limits.image_pixels)
        check_rays(description.id, given(description), episode.settings.fixed_delta_seconds or DEFAULT_STEP_S)
        if isinstance(model, VisualSensor):
            step_s = episode.settings.fixed_delta_seconds or DEFAULT_STEP_S
            model.check_size(step_s, episode.context.limits.measurement_bytes)
            episode.context.renderer.prepare(episode.map.road_map)
        period_s = max(real(description, "sensor_tick", 0.0), 0.0)
        stream_id = episode.new_stream_id()
        record = Actor(episode.new_actor_id(), parent_id, description, box, tags, token(stream_id, episode.context.stream_port))
        return SensorEntry(record, blueprint, pose, model=model, stream_id=stream_id, period_s=period_s)
    volume = _volume(episode, description, pose) if blueprint.id == _FRICTION_TRIGGER else None
    return ActorEntry(Actor(episode.new_actor_id(), parent_id, description, box, tags, b""), blueprint, pose, volume=volume)


def _check_image(description: Description, most: int) -> None:
    """A server's images are smaller than those of a rig: every client may ask for them."""
    width, height = (math.trunc(real(description, f"image_size_{axis}", 1.0)) for axis in "xy")
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
) -> ActorEntry:
    description, box, tags, parent_id = parts
    kind = actor_type(blueprint.body)
    if isinstance(kind, VehicleType):
        kind = served_type(kind)
    if isinstance(kind, WalkerType):
        pose = _on_the_ground(episode, kind, pose)
    number = episode.next_actor_id
    try:
        episode.world.spawn(kind, pose, number, overlapping=overlapping or bool(parent_id))
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
        mortal = description.get("is_invincible", "true").lower() not in _TRUE
        return WalkerEntry(record, blueprint, pose, has_body=True, mortal=mortal)
    return ActorEntry(record, blueprint, pose, has_body=True)


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
        for stream_id in entry.streams():
            episode.connections.subscriptions.end(stream_id)
            episode.context.outbox.forget(stream_id)
    parent = episode.actors.find(entry.record.parent_id)
    if parent is not None:
        parent.children.remove(actor_id)
    for child_id in entry.children:
        child = episode.actors.find(child_id)
        if child is not None:
            child.relative = None
            child.record = child.record._replace(parent_id=0)
    episode.actors.remove(actor_id)
