"""One tick of an episode: controllers, lights, physics, attached actors, the state of everybody, sensors."""

import math
from typing import Final

import numpy as np

from samepath.base.errors import InputError
from samepath.base.trig import to_radians
from samepath.sim.physics.engine import BrokenActorsError
from samepath.sim.physics.frames import forward_of, quaternion_of
from samepath.sim.sensors.mounts import seen_from
from samepath.sim.server import frames
from samepath.sim.server.actors import SignEntry, VehicleEntry, WalkerEntry
from samepath.sim.server.episode import DEFAULT_STEP_S, Episode
from samepath.sim.server.records import VehicleControl
from samepath.sim.server.sensing import sense
from samepath.sim.server.spawning import destroy
from samepath.sim.world.records import Collision, VehicleCommand
from samepath.sim.world.signals import Light

_KMH: Final = 3.6
_NO_LIMIT_KMH: Final = 130.0
_LOOK_UP_EVERY_M: Final = 2.0
_LEAST_STEP_S, _LONGEST_STEP_S = 1e-4, 1.0
_SUBSTEPS_MAX: Final = 100
_BOTTOM_M: Final = -500.0


def step_of(episode: Episode) -> float:
    """How long a tick is in synchronous mode."""
    step_s = episode.settings.fixed_delta_seconds
    return step_s or DEFAULT_STEP_S


def substeps_of(episode: Episode, step_s: float) -> int:
    """Into how many steps physics divides a tick: steps of at most the wanted size, but not more of them than wanted."""
    settings = episode.settings
    if not settings.substepping or settings.max_substep_delta_time <= 0.0:
        return 1
    # A step that is a whole number of substeps up to rounding is divided into exactly so many.
    wanted = math.ceil(step_s / settings.max_substep_delta_time - 1e-6)
    return max(1, min(wanted, settings.max_substeps, _SUBSTEPS_MAX))


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


def tick(episode: Episode, step_s: float) -> None:
    """Advance the world by a step and send what came of it: the state first, then the sensors."""
    step_s = min(max(step_s, _LEAST_STEP_S), _LONGEST_STEP_S)
    episode.ranks.clear()
    _drive_ackermann(episode, step_s)
    episode.signals.tick(step_s)
    sent_s = frames.as_sent(step_s)
    if episode.player is not None:
        episode.player.tick(episode, sent_s)
    collisions = _step(episode, step_s)
    episode.frame += 1
    episode.delta_s = step_s
    episode.elapsed_s += sent_s
    _let_go(episode)
    _carry(episode)
    episode.actors.fill(episode.world)
    _catch_fallen(episode)
    _write_vehicles(episode)
    _write_walkers(episode)
    _write_lights(episode)
    publish(episode)
    sense(episode, collisions)
    _record(episode, collisions)
    episode.debug.fade(episode.elapsed_s)


def _record(episode: Episode, collisions: tuple[Collision, ...]) -> None:
    """Write the tick to the recording; one that cannot be written, or has grown too large, ends."""
    recorder = episode.recorder
    if recorder is None:
        return
    try:
        recorder.tick(episode, collisions)
        full = recorder.is_full
    except InputError as error:
        episode.place.log(f"the recording ends: {error}")
        full = True
    if full:
        recorder.close()
        episode.recorder = None


def _step(episode: Episode, step_s: float) -> tuple[Collision, ...]:
    """Let physics work; an empty world is left alone.

    What Rapier does with contacts depends on how many steps it has made before: the time a server stood idle, which is the
    wall clock's, must leave no trace.
    """
    if not episode.world.actors:
        return ()
    try:
        return episode.world.tick(step_s, substeps_of(episode, step_s))
    except BrokenActorsError as error:
        for number in error.actors:
            destroy(episode, number)
        episode.place.log(f"{error}; they were taken out of the world")
        return ()


def _catch_fallen(episode: Episode) -> None:
    """Take out who has fallen off the edge of the world, as CARLA does."""
    heights_m = episode.actors.states.rows["motion"][:, 2]
    if heights_m.size and heights_m.min() < _BOTTOM_M:
        fallen = [one.id for one in episode.actors if one.has_body and episode.world.state(one.id).pose.z_m < _BOTTOM_M]
        for number in fallen:
            destroy(episode, number)
        if fallen:
            episode.place.log(f"actors {fallen} fell off the edge of the world and were taken out")
            episode.actors.fill(episode.world)


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
    for entry in episode.actors:
        if entry.relative is None:
            continue
        parent = episode.actors.find(entry.record.parent_id)
        if parent is None:
            continue
        entry.pose = seen_from(episode.pose(parent), entry.relative)
        if entry.has_body:
            episode.world.set_pose(entry.id, entry.pose)
        else:
            episode.actors.place(entry)


def _write_vehicles(episode: Episode) -> None:
    vehicles = episode.actors.all(VehicleEntry)
    if not vehicles:
        return
    rows = episode.actors.rows(vehicles)
    table = episode.actors.states.rows
    table["gear"][rows] = [episode.world.gear(one.id) for one in vehicles]
    motion = table["motion"][rows].astype(np.float64)
    for entry, (x_m, y_m) in zip(vehicles, motion[:, :2].tolist(), strict=True):
        _look_up_limit(episode, entry, x_m, y_m)
    table["speed_limit"][rows] = [one.speed_limit_kmh for one in vehicles]
    if not episode.scene.signals.lights:
        table["light_state"][rows] = int(Light.GREEN)
        return
    speed_mps = np.hypot(motion[:, 6], motion[:, 7])
    half_m = np.array([one.record.bounding_box.extent.x for one in vehicles])
    lights = episode.scene.stop_lines.lights_ahead(motion[:, 0], motion[:, 1], motion[:, 4], half_m, speed_mps).tolist()
    signs = {one.light: one.id for one in episode.actors.all(SignEntry) if one.light is not None}
    for entry, light in zip(vehicles, lights, strict=True):
        entry.light_number = light
    table["at_light"][rows] = [light >= 0 for light in lights]
    table["light_state"][rows] = [int(episode.signals.shows(one) if one >= 0 else Light.GREEN) for one in lights]
    table["light_id"][rows] = [signs.get(one, 0) for one in lights]


def _look_up_limit(episode: Episode, entry: VehicleEntry, x_m: float, y_m: float) -> None:
    """Look up the speed limit again when a vehicle has moved on; off the road the last one holds."""
    before_x, before_y = entry.looked_up_at
    if abs(x_m - before_x) + abs(y_m - before_y) < _LOOK_UP_EVERY_M:
        return
    entry.looked_up_at = (x_m, y_m)
    here = episode.scene.lanes.find(x_m, y_m)
    if here is not None:
        limit_mps = episode.scene.road_map.speed_limit_mps(here.lane.road_id, here.s_m)
        entry.speed_limit_kmh = _NO_LIMIT_KMH if limit_mps is None else limit_mps * _KMH


def _write_walkers(episode: Episode) -> None:
    """Walkers that a client moves itself have the speed it says they have."""
    for entry in episode.actors.all(WalkerEntry):
        if not episode.world.simulated(entry.id):
            speed = [one * entry.control.speed for one in entry.control.direction]
            episode.actors.states.rows["motion"][episode.actors.row(entry.id), 6:9] = speed


def _write_lights(episode: Episode) -> None:
    signs = [one for one in episode.actors.all(SignEntry) if one.light is not None]
    if not signs:
        return
    rows, table = episode.actors.rows(signs), episode.actors.states.rows
    found = episode.signals.states()
    states = [found[one.light] for one in signs if one.light is not None]
    for name in ("green_s", "yellow_s", "red_s", "elapsed_s", "frozen"):
        table[name][rows] = [getattr(one, name) for one in states]
    table["colour"][rows] = [int(one.shows) for one in states]
    table["pole"][rows] = [episode.scene.signals.lights[one.light].pole for one in signs if one.light is not None]


def write_states(episode: Episode) -> None:
    """Write the state of everybody anew, as it was after the last tick; for an episode that was just built."""
    episode.actors.fill(episode.world)
    _write_vehicles(episode)
    _write_walkers(episode)
    _write_lights(episode)


def publish(episode: Episode) -> None:
    """Send the state of everybody."""
    episode.place.outbox.publish(frames.WORLD_STREAM, _state(episode))
    episode.map_changed = False


def prepare(episode: Episode) -> None:
    """Keep the state of everybody for clients that connect before the next tick."""
    episode.actors.fill(episode.world)
    episode.place.outbox.prepare(_state(episode))


def _state(episode: Episode) -> bytes:
    flags = (frames.MAP_CHANGED if episode.map_changed else 0) | (frames.LIGHTS_CHANGED if episode.lamps.is_news else 0)
    return frames.episode_state(
        episode.moment, episode.id, episode.place.clock.monotonic_s(), episode.delta_s, flags, episode.actors.states
    )
