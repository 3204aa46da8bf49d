"""What stands about, the weather, street lights, rays, shapes that clients draw."""

import math
from typing import Final

from samepath.core.states import Vector
from samepath.simulator.carla import blueprints
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError, array_of, flag, number, text, u8, u32
from samepath.simulator.physics.frames import point_from
from samepath.simulator.server.actors import ActorEntry, SignEntry
from samepath.simulator.server.debug import DebugShape, debug_shape
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.rpc import Sender
from samepath.simulator.world.signals import TrafficLightState

TABLE: Final = Table()
# Clients name themselves: without a bound, one that takes a new name for every call would fill the memory. Whoever comes later
# still gets the lights; it is only not told when they change.
_CLIENTS_MAX: Final = 64
_NOWHERE: Final = r.LabelledPoint(Vector(), blueprints.NONE)


@TABLE.query(u8)
def get_all_level_BBs(episode: Episode, label: int) -> list[r.BoundingBox]:  # noqa: N802 - CARLA's name
    """The boxes of everything with a label, actors included."""
    still = [thing.bounding_box for thing in episode.map.objects if _is(thing.label, label) and thing.id not in episode.hidden]
    bodies = [entry for entry in episode.actors if entry.has_body]
    return still + [_box(episode, entry) for entry in bodies if any(_is(tag, label) for tag in entry.record.semantic_tags)]


def _is(label: int, wanted: int) -> bool:
    return wanted in (blueprints.ANY, label)


def _box(episode: Episode, entry: ActorEntry) -> r.BoundingBox:
    """An actor's box in the world."""
    pose, box = episode.pose(entry), entry.record.bounding_box
    middle = Vector(*point_from(pose, box.location))
    return r.BoundingBox(middle, box.extent, r.transform_of(pose).rotation, entry.id)


@TABLE.query(u8)
def get_environment_objects(episode: Episode, label: int) -> list[r.EnvironmentObject]:
    """The scenery with a label."""
    return [thing for thing in episode.map.objects if _is(thing.label, label)]


@TABLE.void(r.object_ids, flag)
def enable_environment_objects(episode: Episode, ids: tuple[int, ...], on: bool) -> None:
    """Put scenery back, or take it away: it is neither seen nor felt."""
    episode.show_objects(set(ids), on=on)


@TABLE.query()
def get_names_of_all_objects(episode: Episode) -> list[str]:
    """The names of all scenery."""
    return [thing.name for thing in episode.map.objects]


@TABLE.query()
def get_weather_parameters(episode: Episode) -> r.WeatherParameters:
    """The weather."""
    return episode.weather


@TABLE.void(r.weather)
def set_weather_parameters(episode: Episode, weather: r.WeatherParameters) -> None:
    """Change the weather: seen by cameras, and felt where the server was started so."""
    episode.set_weather(weather)


@TABLE.query()
def get_imui_gravity(episode: Episode) -> float:
    """What an accelerometer at rest shows."""
    return episode.gravity_mps2


@TABLE.void(number)
def set_imui_gravity(episode: Episode, gravity_mps2: float) -> None:
    """Change that; the world's own gravity stays."""
    episode.gravity_mps2 = gravity_mps2


@TABLE.query(r.vector, r.vector, number)
def project_point(episode: Episode, location: Vector, direction: Vector, reach_m: float) -> tuple[bool, r.LabelledPoint]:
    """The first thing in a direction."""
    length = math.sqrt(sum(part * part for part in direction))
    # A direction of no length leads nowhere; divided by it, the point would be no number.
    if length <= 0.0 or reach_m <= 0.0:
        return False, _NOWHERE
    ahead = Vector(*(part / length for part in direction))
    hit = episode.world.cast_ray(location, ahead, reach_m)
    if hit is None:
        return False, _NOWHERE
    point = Vector(*(at + hit[0] * step for at, step in zip(location, ahead, strict=True)))
    return True, r.LabelledPoint(point, _label(episode, hit[1]))


@TABLE.query(r.vector, r.vector)
def cast_ray(episode: Episode, begin: Vector, end: Vector) -> list[r.LabelledPoint]:
    """Everything between two points, nearest first."""
    way = [b - a for a, b in zip(begin, end, strict=True)]
    length_m = math.sqrt(sum(part * part for part in way))
    if length_m <= 0.0:
        return []
    hits = episode.world.ray_hits(begin, Vector(*(part / length_m for part in way)), length_m)
    return [r.LabelledPoint(Vector(*hit.point_m), _label(episode, hit.what)) for hit in hits]


def _label(episode: Episode, what: int | str) -> int:
    if isinstance(what, str):
        return episode.map.label_of(what)
    tags = episode.actor(what).semantic_tags
    return tags[0] if tags else blueprints.NONE


@TABLE.value(text, sender=True)
def query_lights_state(episode: Episode, sender: Sender, client: str) -> list[r.StreetLight]:
    """The street lights; who asks has been told."""
    told = episode.lamps.told
    if client in told or len(told) < _CLIENTS_MAX:
        told[client] = True
        episode.connections.name(sender.caller, client)
    return list(episode.lamps.states.values())


@TABLE.void(text, array_of(r.light_state), flag)
def update_lights_state(
    episode: Episode,
    client: str,
    lights: tuple[r.StreetLight, ...],
    discard: bool,
) -> None:
    """Switch street lights; the other clients are told with the next state."""
    lamps = episode.lamps
    # Before any of them is switched: a refused call leaves everything as it was.
    unknown = [light.id for light in lights if light.id not in lamps.states]
    if unknown:
        raise CallError(f"there are no street lights {unknown[:5]}")
    for light in lights:
        before = lamps.states[light.id]
        lamps.states[light.id] = before._replace(
            intensity=light.intensity, group=light.group, colour=light.colour, active=light.active
        )
    lamps.told = dict.fromkeys(lamps.told, False)
    if discard:
        lamps.forget(client)
        episode.connections.forget_name(client)
    elif client in lamps.told:
        lamps.told[client] = True


@TABLE.void(debug_shape)
def draw_debug_shape(episode: Episode, shape: DebugShape) -> None:
    """Draw a shape."""
    episode.debug.draw(shape, episode.elapsed_s)


@TABLE.void()
def clear_debug_shape(episode: Episode) -> None:
    """Wipe everything off."""
    episode.debug.clear()


@TABLE.void()
def clear_debug_string(episode: Episode) -> None:
    """Wipe the texts off."""
    episode.debug.clear(texts_only=True)


@TABLE.void(flag, idle="nothing of ours is translucent")
def set_annotations_traverse_translucency(_: Episode, on: bool) -> None:
    pass


def _light(episode: Episode, actor_id: int) -> int:
    entry = episode.actors.get(actor_id, SignEntry, "a traffic light")
    if entry.light is None:
        raise CallError(f"actor {actor_id} is a {entry.type_id}, not a traffic light")
    return entry.light


def _set(episode: Episode, actor_id: int) -> int:
    """A light that a client changes. Its times are no such change: they stay where lights begin anew."""
    episode.lights_set = True
    return _light(episode, actor_id)


@TABLE.void(u32, u8)
def set_traffic_light_state(episode: Episode, actor_id: int, state: int) -> None:
    """Make a light show something until it next changes."""
    if state > max(TrafficLightState):
        raise CallError(f"a state from 0 to {max(TrafficLightState)} was wanted, but {state} came")
    episode.signals.set_shown(_set(episode, actor_id), TrafficLightState(state))


@TABLE.void(u32, number)
def set_traffic_light_green_time(episode: Episode, actor_id: int, time_s: float) -> None:
    """How long it stays green."""
    episode.signals.set_times(_light(episode, actor_id), green_s=time_s)


@TABLE.void(u32, number)
def set_traffic_light_yellow_time(episode: Episode, actor_id: int, time_s: float) -> None:
    """How long it stays yellow."""
    episode.signals.set_times(_light(episode, actor_id), yellow_s=time_s)


@TABLE.void(u32, number)
def set_traffic_light_red_time(episode: Episode, actor_id: int, time_s: float) -> None:
    """How long the junction stays clear after it."""
    episode.signals.set_times(_light(episode, actor_id), red_s=time_s)


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


@TABLE.query(u32)
def get_group_traffic_lights(episode: Episode, actor_id: int) -> list[int]:
    """The lights of the same junction, by actor id."""
    together = set(episode.signals.together(_light(episode, actor_id)))
    return [sign.id for sign in episode.actors.all(SignEntry) if sign.light in together]


@TABLE.query(u32)
def get_light_boxes(episode: Episode, actor_id: int) -> list[r.BoundingBox]:
    """The box of the light itself, in the world."""
    signal = episode.map.signals.lights[_light(episode, actor_id)].signal
    half = Vector(0.02, signal.width_m / 2, signal.height_m / 2)
    middle = Vector(signal.x_m, signal.y_m, signal.z_m + half.z)
    return [r.BoundingBox(middle, half, r.Rotation(yaw=signal.yaw_deg))]
