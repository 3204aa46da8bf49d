"""The commands of a batch: CARLA's variant by index, each with the actor it is for first."""

from typing import Any, Final, NamedTuple

from samepath.sim.server import records as r
from samepath.sim.server.codec import Reader, WireError, array_of, came, flag, number, optional, struct_of, text, u8, u32
from samepath.sim.server.limits import Limits

_LIMITS: Final = Limits()


class Spawn(NamedTuple):
    """Put an actor into the world, then do more with it."""

    description: r.Description
    transform: r.Transform
    parent: int | None
    attachment: int
    socket: str
    do_after: tuple["BatchCommand", ...]


class Touch(NamedTuple):
    """Do something with one actor: the method that does it, and its arguments after the actor."""

    method: str
    actor: int
    arguments: tuple[Any, ...]


class Console(NamedTuple):
    """A line for the console that we do not have."""

    line: str


class Broken(NamedTuple):
    """A command that could not be read; the others of its batch can."""

    message: str


BatchCommand = Spawn | Touch | Console | Broken


def _touch(method: str, *readers: Reader[Any]) -> Reader[Touch]:
    def build(actor: int, *arguments: Any) -> Touch:  # noqa: ANN401 - checked by the readers
        return Touch(method, actor, arguments)

    return struct_of(build, u32, *readers)


_SPAWN, _CONSOLE = 0, 20
# By index; the methods are those a client could have called one by one.
_TOUCHES: Final[dict[int, Reader[Touch]]] = {
    1: _touch("destroy_actor"),
    2: _touch("apply_control_to_vehicle", r.vehicle_control),
    3: _touch("apply_ackermann_control_to_vehicle", r.ackermann_control),
    4: _touch("apply_control_to_walker", r.walker_control),
    5: _touch("apply_physics_control", r.physics_control),
    6: _touch("set_actor_transform", r.transform),
    7: _touch("set_walker_state", r.transform, number),
    8: _touch("set_actor_target_velocity", r.vector),
    9: _touch("set_actor_target_angular_velocity", r.vector),
    10: _touch("add_actor_impulse", r.vector),
    11: _touch("add_actor_force", r.vector),
    12: _touch("add_actor_angular_impulse", r.large_vector),
    13: _touch("add_actor_torque", r.large_vector),
    14: _touch("set_actor_simulate_physics", flag),
    15: _touch("set_actor_enable_gravity", flag),
    16: _touch("set_actor_autopilot", flag),
    17: _touch("show_vehicle_debug_telemetry", flag),
    18: _touch("set_vehicle_light_state", u32),
    19: _touch("set_actor_location", r.vector),
    21: _touch("set_traffic_light_state", u8),
}
COUNT: Final = 22
_console: Final = struct_of(Console, text)


def _spawn(depth: int) -> Reader[Spawn]:
    fields = (r.description, r.transform, optional(u32), u8, text, array_of(lambda one: _command(one, depth + 1), 1000))
    return struct_of(Spawn, *fields)


_SPAWNS: Final = tuple(_spawn(depth) for depth in range(_LIMITS.batch_depth + 1))


def _command(value: Any, depth: int) -> BatchCommand:  # noqa: ANN401 - anything may come
    if depth > _LIMITS.batch_depth:
        raise WireError(f"commands may follow one another at most {_LIMITS.batch_depth} deep")
    if type(value) is not list or len(value) != 1:
        raise WireError(f"a command was wanted, but {came(value)} came")
    inner = value[0]
    if type(inner) is not list or len(inner) != 2 or type(inner[0]) is not int:
        raise WireError(f"a command was wanted, but {came(inner)} came")
    index, fields = inner
    if index == _SPAWN:
        return _SPAWNS[depth](fields)
    if index == _CONSOLE:
        return _console(fields)
    touch = _TOUCHES.get(index)
    if touch is None:
        raise WireError(f"a command from 0 to {COUNT - 1} was wanted, but {came(index)} came")
    return touch(fields)


def command(value: Any) -> BatchCommand:  # noqa: ANN401 - anything may come
    """Read one command."""
    try:
        return _command(value, 0)
    except WireError as error:
        return Broken(str(error))


batch: Final = array_of(command, _LIMITS.batch_commands)
