"""Traffic lights."""

from typing import Final

from samepath.sim.server import records as r
from samepath.sim.server.actors import SignEntry
from samepath.sim.server.codec import flag, number, u8, u32
from samepath.sim.server.episode import Episode
from samepath.sim.server.errors import CallError
from samepath.sim.server.methods.table import Table
from samepath.sim.world.records import Vector
from samepath.sim.world.signals import Light

TABLE: Final = Table()


def _light(episode: Episode, actor_id: int) -> int:
    entry = episode.actors.get(actor_id, SignEntry, "a traffic light")
    if entry.light is None:
        raise CallError(f"actor {actor_id} is a {entry.type_id}, not a traffic light")
    return entry.light


def _set(episode: Episode, actor_id: int) -> int:
    """A light that a client changes."""
    episode.lights_set = True
    return _light(episode, actor_id)


@TABLE.void(u32, u8)
def set_traffic_light_state(episode: Episode, actor_id: int, state: int) -> None:
    """Make a light show something until it next changes."""
    if state > max(Light):
        raise CallError(f"a state from 0 to {max(Light)} was wanted, but {state} came")
    episode.signals.set_shown(_set(episode, actor_id), Light(state))


@TABLE.void(u32, number)
def set_traffic_light_green_time(episode: Episode, actor_id: int, time_s: float) -> None:
    """How long it stays green."""
    episode.signals.set_times(_set(episode, actor_id), green_s=time_s)


@TABLE.void(u32, number)
def set_traffic_light_yellow_time(episode: Episode, actor_id: int, time_s: float) -> None:
    """How long it stays yellow."""
    episode.signals.set_times(_set(episode, actor_id), yellow_s=time_s)


@TABLE.void(u32, number)
def set_traffic_light_red_time(episode: Episode, actor_id: int, time_s: float) -> None:
    """How long the junction stays clear after it."""
    episode.signals.set_times(_set(episode, actor_id), red_s=time_s)


@TABLE.void(u32, flag)
def freeze_traffic_light(episode: Episode, actor_id: int, on: bool) -> None:
    """Stop the clock of its junction."""
    episode.signals.freeze(_set(episode, actor_id), frozen=on)


@TABLE.void(flag)
def freeze_all_traffic_lights(episode: Episode, on: bool) -> None:
    """Stop all clocks."""
    episode.lights_set = True
    episode.signals.freeze_all(frozen=on)


@TABLE.void(u32)
def reset_traffic_light_group(episode: Episode, actor_id: int) -> None:
    """Start its junction anew."""
    episode.signals.reset_group(_set(episode, actor_id))


@TABLE.void()
def reset_all_traffic_lights(episode: Episode) -> None:
    """Start every junction anew."""
    episode.signals.reset_all()


@TABLE.value(u32)
def get_group_traffic_lights(episode: Episode, actor_id: int) -> list[int]:
    """The lights of the same junction, by actor id."""
    together = set(episode.signals.together(_light(episode, actor_id)))
    return [one.id for one in episode.actors.all(SignEntry) if one.light in together]


@TABLE.value(u32)
def get_light_boxes(episode: Episode, actor_id: int) -> list[r.BoundingBox]:
    """The box of the light itself, in the world."""
    signal = episode.scene.signals.lights[_light(episode, actor_id)].signal
    half = Vector(0.02, signal.width_m / 2, signal.height_m / 2)
    middle = Vector(signal.x_m, signal.y_m, signal.z_m + half.z)
    return [r.BoundingBox(middle, half, r.Rotation(yaw=signal.yaw_deg))]
