"""What a comparison must know of CARLA's methods: which of them change nothing, what in them may differ in equal runs, names.

Equal runs differ in numbers that a server gives out as it goes: ids of actors and streams go on across reloads, frames count
from the server's start, tokens hold ports. Here these are brought to a common form: actors by the order in which the session
met them, frames and tokens left out (ticks are compared elsewhere). Everything else is compared as it was sent, bit by bit.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from samepath.simulator.carla import records as r

# Reads by other names than get_..., is_..., are_..., show_recorder_...
_READS: Final = frozenset({"version", "query_lights_state", "request_file", "project_point", "cast_ray"})
_READ_PREFIXES: Final = ("get_", "is_", "are_", "show_recorder_")
# These begin like reads and are none: a pose is taken over by the walker.
_NO_READS: Final = frozenset({"get_pose_from_animation"})
# What CARLA's client does for itself: telling the server where its traffic manager listens.
HOUSEKEEPING: Final = frozenset({"add_traffic_manager_running", "destroy_traffic_manager", "update_lights_state"})

# Answers that hold actors: kept whole, because the comparison learns from them who is who.
ACTOR_ANSWERS: Final = frozenset({"spawn_actor", "spawn_actor_with_parent", "get_actors_by_id", "get_spectator", "apply_batch"})
# Answers of which only matters whether there is an error.
_VALUE_FREE: Final = frozenset(
    {"tick_cue", "set_episode_settings", "get_episode_info", "get_sensor_token", "get_gbuffer_token"}
)
_ID_LISTS: Final = frozenset({"get_group_traffic_lights"})
_BOXES: Final = frozenset({"get_actor_bounding_box"})
# Methods without an actor as their first argument; every other one has it there.
_NO_ACTOR: Final = frozenset(
    {
        "version", "get_episode_info", "get_sensor_token", "get_episode_settings", "set_episode_settings", "tick_cue",
        "query_lights_state", "update_lights_state", "update_day_night_cycle", "get_available_maps", "load_new_episode",
        "copy_opendrive_to_file", "get_map_info", "get_map_data", "get_required_files", "request_file", "get_navigation_mesh",
        "load_map_layer", "unload_map_layer", "get_actor_definitions", "get_spectator", "get_all_level_BBs",
        "get_environment_objects", "enable_environment_objects", "get_weather_parameters", "set_weather_parameters",
        "get_imui_gravity", "set_imui_gravity", "project_point", "cast_ray", "get_names_of_all_objects",
        "apply_color_texture_to_objects", "apply_float_color_texture_to_objects", "draw_debug_shape", "clear_debug_shape",
        "clear_debug_string", "set_annotations_traverse_translucency", "get_actors_by_id", "spawn_actor",
        "spawn_actor_with_parent", "apply_batch", "get_vehicle_light_states", "freeze_all_traffic_lights",
        "reset_all_traffic_lights", "enable_sensor_for_ros", "disable_sensor_for_ros", "is_sensor_enabled_for_ros",
        "is_traffic_manager_running", "get_traffic_manager_running", "add_traffic_manager_running", "destroy_traffic_manager",
        "start_recorder", "stop_recorder", "show_recorder_file_info", "show_recorder_collisions",
        "show_recorder_actors_blocked", "replay_file", "stop_replayer", "set_replayer_time_factor", "set_replayer_ignore_hero",
        "set_replayer_ignore_spectator",
    }
)  # fmt: skip

_VECTOR: Final = ("x", "y", "z")
_TRANSFORM: Final = ("x", "y", "z", "pitch", "yaw", "roll")
# The arguments behind the actor (or all of them, where there is none), by name; what is nested is laid flat.
_NAMES: Final[dict[str, Sequence[str]]] = {
    "apply_control_to_vehicle": r.VehicleControl._fields,
    "apply_ackermann_control_to_vehicle": r.AckermannControl._fields,
    "apply_control_to_walker": ("direction.x", "direction.y", "direction.z", "speed", "jump"),
    "set_actor_transform": _TRANSFORM,
    "set_walker_state": (*_TRANSFORM, "speed"),
    "set_actor_location": _VECTOR,
    "set_actor_target_velocity": _VECTOR,
    "set_actor_target_angular_velocity": _VECTOR,
    "enable_actor_constant_velocity": _VECTOR,
    "add_actor_impulse": _VECTOR,
    "add_actor_force": _VECTOR,
    "add_actor_torque": _VECTOR,
    "add_actor_angular_impulse": _VECTOR,
    "set_actor_simulate_physics": ("enabled",),
    "set_actor_enable_gravity": ("enabled",),
    "set_actor_autopilot": ("enabled",),
    "set_vehicle_light_state": ("lights",),
    "set_traffic_light_state": ("state",),
    "set_weather_parameters": r.WeatherParameters._fields,
}
_SPAWN: Final = 0
_COMMANDS: Final = {0: "spawn_actor", 20: "console_command"} | {
    index: name
    for index, name in enumerate(
        (
            "", "destroy_actor", "apply_control_to_vehicle", "apply_ackermann_control_to_vehicle", "apply_control_to_walker",
            "apply_physics_control", "set_actor_transform", "set_walker_state", "set_actor_target_velocity",
            "set_actor_target_angular_velocity", "add_actor_impulse", "add_actor_force", "add_actor_angular_impulse",
            "add_actor_torque", "set_actor_simulate_physics", "set_actor_enable_gravity", "set_actor_autopilot",
            "show_vehicle_debug_telemetry", "set_vehicle_light_state", "set_actor_location", "", "set_traffic_light_state",
        )
    )
    if name
}  # fmt: skip


def is_read(method: str) -> bool:
    """Does a call of this method leave the world as it is?"""
    return method in _READS or (method.startswith(_READ_PREFIXES) and method not in _NO_READS)


def actor_of(method: str, arguments: list[Any]) -> int | None:
    """The actor that a call is for; ``arguments`` are those behind CARLA's metadata."""
    if method not in _NO_ACTOR and arguments and type(arguments[0]) is int:
        return int(arguments[0])
    return None


def spawned_in(method: str, arguments: list[Any], result: Any) -> list[tuple[int, str]]:  # noqa: ANN401 - from the wire
    """The actors, id and type, that an answer says it has put into the world."""
    if method in ("spawn_actor", "spawn_actor_with_parent"):
        return [(actor[0], _type(actor)) for actor in _actors(value_of(result))]
    found = []
    if method == "apply_batch" and isinstance(result, list) and arguments and isinstance(arguments[0], list):
        for command, answer in zip(arguments[0], result, strict=False):
            match command, answer:
                case [[0, [[_, str() as kind, *_], *_]]], [[1, int() as actor]]:
                    found.append((actor, kind))
    return found


def actors_in(method: str, result: Any) -> list[tuple[int, str]]:  # noqa: ANN401 - from the wire
    """All actors, id and type, that an answer describes."""
    if method not in ACTOR_ANSWERS or method == "apply_batch":
        return []
    return [(actor[0], _type(actor)) for actor in _actors(value_of(result))]


def value_of(result: Any) -> Any:  # noqa: ANN401 - from the wire
    """The value in CARLA's wrapper of answers; None where there is an error instead."""
    match result:
        case [[1, value]]:
            return value
    return None


def _actors(value: Any) -> Iterator[list[Any]]:  # noqa: ANN401 - from the wire
    """Every actor's record in a value: an id, a parent, a description, a box, tags and a token."""
    if isinstance(value, list):
        if len(value) == 6 and type(value[0]) is int and type(value[1]) is int and isinstance(value[2], list):
            yield value
        else:
            for item in value:
                yield from _actors(item)


def _type(actor: list[Any]) -> str:
    description = actor[2]
    return str(description[1]) if len(description) > 1 else "?"


class Ids:
    """Actors by the order in which a session met them, from 1: that is what is compared. 0 is nobody and stays so."""

    def __init__(self) -> None:
        self._ordinals: dict[int, int] = {}
        self._ids: list[int] = []

    def meet(self, actor: int) -> None:
        """Take note of an actor; the first time counts."""
        if actor > 0 and actor not in self._ordinals:
            self._ids.append(actor)
            self._ordinals[actor] = len(self._ids)

    def __call__(self, actor: Any) -> Any:  # noqa: ANN401 - from the wire
        """The ordinal of an actor; of one that was never met, its id in words."""
        return self._ordinals.get(actor, f"id {actor}") if type(actor) is int and actor > 0 else actor

    def actor(self, ordinal: Any) -> int | None:  # noqa: ANN401 - what a comparison came upon
        """The id of an actor in this session."""
        return self._ids[ordinal - 1] if type(ordinal) is int and 0 < ordinal <= len(self._ids) else None

    def agrees(self, other: "Ids") -> bool:
        """Do both sessions give whoever they both know the same id?"""
        return all(a == b for a, b in zip(self._ids, other._ids, strict=False))


def plain_arguments(method: str, arguments: list[Any], ids: Ids) -> list[Any]:
    """The arguments of an act in common form."""
    if method == "apply_batch" and arguments and isinstance(arguments[0], list):
        return [[_plain_command(command, ids) for command in arguments[0]], *arguments[1:]]
    if method == "spawn_actor_with_parent" and len(arguments) > 2:
        return [*arguments[:2], ids(arguments[2]), *arguments[3:]]
    if method == "load_new_episode":
        return arguments
    if actor_of(method, arguments) is not None:
        return [ids(arguments[0]), *arguments[1:]]
    return arguments


def command_index(command: Any) -> int | None:  # noqa: ANN401 - from the wire
    """Which command of a batch it is."""
    match command:
        case [[int() as index, list()]]:
            return index
    return None


def _plain_command(command: Any, ids: Ids) -> Any:  # noqa: ANN401 - from the wire
    match command:
        case [[0, [description, transform, [True, parent], *rest]]]:
            return [[_SPAWN, [description, transform, [True, ids(parent)], *rest]]]
        case [[0, [description, transform, [False], _, _, *rest]]]:
            # Without a parent the kind of attachment is whatever was in the client's memory.
            return [[_SPAWN, [description, transform, [False], 0, "", *rest]]]
        case [[int() as index, [actor, *rest]]] if index != _SPAWN:
            return [[index, [ids(actor), *rest]]]
    return command


def plain_result(method: str, result: Any, ids: Ids) -> Any:  # noqa: ANN401 - from the wire
    """A result in common form."""
    if method in _VALUE_FREE:
        return "a value" if value_of(result) is not None else result
    value = value_of(result)
    if method in _ID_LISTS and isinstance(value, list):
        return [ids(actor) for actor in value]
    if method in _BOXES and isinstance(value, list):
        return _plain_box(value, ids)
    if method == "apply_batch" and isinstance(result, list):
        return [[[1, ids(answer[0][1])]] if _is_done(answer) else answer for answer in result]
    if method in ACTOR_ANSWERS and value is not None:
        return [_plain_actor(actor, ids) for actor in _actors(value)]
    return result


def _is_done(answer: Any) -> bool:  # noqa: ANN401 - from the wire
    match answer:
        case [[1, int()]]:
            return True
    return False


def _plain_actor(actor: list[Any], ids: Ids) -> list[Any]:
    number, parent, description, box, tags, _ = actor
    return [ids(number), ids(parent), description, _plain_box(box, ids), tags]


def _plain_box(box: Any, ids: Ids) -> Any:  # noqa: ANN401 - from the wire
    return [*box[:3], ids(box[3])] if isinstance(box, list) and len(box) == 4 else box


def first_unlike(method: str, ours: list[Any], theirs: list[Any]) -> tuple[str, Any, str, Any, Any]:
    """Where the arguments of two calls part: the method (of the command in a batch), its actor, the argument, both values.

    The actor is an ordinal, as in the arguments; None: there is none.
    """
    if method == "apply_batch":
        found = _unlike_command(ours, theirs)
        if found is not None:
            return found
    if method in ("spawn_actor", "spawn_actor_with_parent"):
        return method, None, *_unlike_spawn(ours, theirs)
    actor = ours[0] if method and method not in _NO_ACTOR and ours and theirs and ours[0] == theirs[0] else None
    rest = (ours[1:], theirs[1:]) if actor is not None else (ours, theirs)
    name, a, b = _unlike_leaf(method, *rest)
    return method, actor, name, a, b


def _unlike_command(ours: list[Any], theirs: list[Any]) -> tuple[str, Any, str, Any, Any] | None:
    lists = [given[0] if given and isinstance(given[0], list) else [] for given in (ours, theirs)]
    return _unlike_in_commands(lists[0], lists[1])


def _unlike_in_commands(ours: list[Any], theirs: list[Any]) -> tuple[str, Any, str, Any, Any] | None:
    """The first command of two lists that differs: its method, actor, field and both values."""
    for a, b in zip(ours, theirs, strict=False):
        if a == b:
            continue
        match a, b:
            case [[0, list() as first]], [[0, list() as second]]:
                return "spawn_actor", None, *_unlike_spawn(first, second)
            case [[int() as index, [actor, *first]]], [[int() as other, [same, *second]]] if index == other and actor == same:
                method = _COMMANDS.get(index, f"command {index}")
                return method, actor, *_unlike_leaf(method, first, second)
        words = _command_words(a), _command_words(b)
        if words[0] == words[1]:
            return "apply_batch", None, *_unlike_leaf("", [a], [b])
        return "apply_batch", None, "command", *words
    if len(ours) != len(theirs):
        return "apply_batch", None, "number of commands", len(ours), len(theirs)
    return None


def _unlike_spawn(ours: list[Any], theirs: list[Any]) -> tuple[str, Any, Any]:
    """The first field of two spawns that differs, of commands or of calls, and both values."""
    a, b = dict(_spawn_fields(ours)), dict(_spawn_fields(theirs))
    for name in (*a, *(name for name in b if name not in a)):
        x, y = a.get(name, "absent"), b.get(name, "absent")
        if x == y:
            continue
        if name == "do_after" and isinstance(x, list) and isinstance(y, list):
            found = _unlike_in_commands(x, y)
            if found is not None:
                method, _, inner, x, y = found
                return f"do_after {method if method != 'apply_batch' else ''} {inner}".replace("  ", " "), x, y
        return name, x, y
    return _unlike_leaf("", ours, theirs)


def _spawn_fields(arguments: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a spawn by name; none if its shape is not that of CARLA's client."""
    match arguments:
        case [[_, kind, list() as attributes], transform, *rest]:
            yield "blueprint", kind
            for attribute in attributes:
                match attribute:
                    case [str() as key, _, value]:
                        yield f"attribute {key!r}", value
            for name, (_, value) in zip(_TRANSFORM, _leaves(transform), strict=False):
                yield name, value
            for name, value in zip(("parent", "attachment_type", "socket_name", "do_after"), rest, strict=False):
                match name, value:
                    case "parent", [True, parent]:
                        yield name, f"actor number {parent}"
                    case "parent", [False]:
                        pass
                    case _:
                        yield name, value


def _command_words(command: Any) -> str:  # noqa: ANN401 - from the wire
    match command:
        case [[int() as index, [actor, *_]]]:
            who = f" for actor number {actor}" if type(actor) is int else ""
            return f"{_COMMANDS.get(index, f'command {index}')}{who}"
    return "another command"


def _unlike_leaf(method: str, ours: list[Any], theirs: list[Any]) -> tuple[str, Any, Any]:
    names = _NAMES.get(method, ())
    a, b = list(_leaves(ours)), list(_leaves(theirs))
    for position, ((place, x), (_, y)) in enumerate(zip(a, b, strict=False)):
        if x != y or type(x) is not type(y):
            return names[position] if position < len(names) else f"argument {place}", x, y
    return "number of values", len(a), len(b)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - from the wire
    """Plain values, nested lists laid flat, each with its place such as 2.1."""
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _leaves(item, f"{place}.{number}" if place else str(number))
    else:
        yield place, value
