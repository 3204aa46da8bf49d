"""CARLA's structs, field by field in their order on the wire, and their readers."""

from typing import Any, Final, NamedTuple

from samepath.core.states import Pose, Vector
from samepath.simulator.carla.codec import (
    ARRAYS,
    LargeArray,
    Reader,
    WireError,
    array_of,
    came,
    flag,
    i32,
    large,
    number,
    optional,
    struct_of,
    text,
    text_of,
    u8,
    u32,
    u64,
)
from samepath.simulator.carla.limits import ServerLimits


class Rotation(NamedTuple):
    """Degrees."""

    pitch: float = 0.0
    yaw: float = 0.0
    roll: float = 0.0


class Transform(NamedTuple):
    """A place and a rotation."""

    location: Vector = Vector()
    rotation: Rotation = Rotation()


class Point2(NamedTuple):
    """A corner point of a curve."""

    x: float
    y: float


class BoundingBox(NamedTuple):
    """A box: its middle, half its size, its rotation, and the actor it belongs to."""

    location: Vector = Vector()
    extent: Vector = Vector()
    rotation: Rotation = Rotation()
    actor_id: int = 0


class AttributeValue(NamedTuple):
    """An attribute of an actor."""

    id: str
    type: int
    value: str


class Description(NamedTuple):
    """What an actor was spawned from."""

    uid: int
    id: str
    attributes: tuple[AttributeValue, ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """The value of an attribute."""
        return next((attribute.value for attribute in self.attributes if attribute.id == name), default)


class Actor(NamedTuple):
    """An actor as clients know it."""

    id: int
    parent_id: int
    description: Description
    bounding_box: BoundingBox
    semantic_tags: bytes
    stream_token: bytes


class Settings(NamedTuple):
    """CARLA's episode settings."""

    synchronous_mode: bool = False
    no_rendering_mode: bool = False
    fixed_delta_seconds: float | None = None
    substepping: bool = True
    max_substep_delta_time: float = 0.01
    max_substeps: int = 10
    max_culling_distance: float = 0.0
    deterministic_ragdolls: bool = True
    tile_stream_distance: float = 3000.0
    actor_active_distance: float = 2000.0
    spectator_as_ego: bool = True


class VehicleControl(NamedTuple):
    """Pedals and wheel."""

    throttle: float = 0.0
    steer: float = 0.0
    brake: float = 0.0
    hand_brake: bool = False
    reverse: bool = False
    manual_gear_shift: bool = False
    gear: int = 0


class AckermannControl(NamedTuple):
    """What the vehicle should do rather than what its pedals should: rad, rad/s, m/s, m/s², m/s³."""

    steer: float = 0.0
    steer_speed: float = 0.0
    speed: float = 0.0
    acceleration: float = 0.0
    jerk: float = 0.0


class AckermannSettings(NamedTuple):
    """Gains of the controllers of speed and of acceleration."""

    speed_kp: float = 0.15
    speed_ki: float = 0.0
    speed_kd: float = 0.25
    accel_kp: float = 0.01
    accel_ki: float = 0.0
    accel_kd: float = 0.01


class WalkerControl(NamedTuple):
    """Where a walker goes."""

    direction: Vector = Vector(1.0, 0.0, 0.0)
    speed: float = 0.0
    jump: bool = False


class Gear(NamedTuple):
    """A forward gear; it is left when the engine turns slower or faster than these parts of its largest speed."""

    ratio: float
    down_ratio: float
    up_ratio: float


class WheelPhysicsControl(NamedTuple):
    """CARLA's wheel; radius and position in centimetres."""

    tire_friction: float
    damping_rate: float
    max_steer_angle: float
    radius: float
    max_brake_torque: float
    max_handbrake_torque: float
    lat_stiff_max_load: float
    lat_stiff_value: float
    long_stiff_value: float
    position: Vector


class PhysicsControl(NamedTuple):
    """CARLA's description of a vehicle's physics."""

    torque_curve: tuple[Point2, ...]
    max_rpm: float
    moi: float
    damping_rate_full_throttle: float
    damping_rate_zero_throttle_clutch_engaged: float
    damping_rate_zero_throttle_clutch_disengaged: float
    use_gear_autobox: bool
    gear_switch_time: float
    clutch_strength: float
    final_ratio: float
    forward_gears: tuple[Gear, ...]
    mass: float
    drag_coefficient: float
    center_of_mass: Vector
    steering_curve: tuple[Point2, ...]
    wheels: tuple[WheelPhysicsControl, ...]
    use_sweep_wheel_collision: bool


class WeatherParameters(NamedTuple):
    """CARLA's weather, with its defaults."""

    cloudiness: float = 0.0
    precipitation: float = 0.0
    precipitation_deposits: float = 0.0
    wind_intensity: float = 0.0
    sun_azimuth_angle: float = 0.0
    sun_altitude_angle: float = 45.0
    fog_density: float = 0.0
    fog_distance: float = 0.0
    fog_falloff: float = 0.2
    wetness: float = 0.0
    scattering_intensity: float = 1.0
    mie_scattering_scale: float = 0.03
    rayleigh_scattering_scale: float = 0.0331
    dust_storm: float = 0.0


class Colour(NamedTuple):
    """Red, green, blue."""

    r: int
    g: int
    b: int


class StreetLight(NamedTuple):
    """A street light; group 2 is street lights."""

    id: int
    location: Vector
    intensity: float
    group: int
    colour: Colour
    active: bool


class LabelledPoint(NamedTuple):
    """Where a ray met something, and CARLA's label of it."""

    location: Vector
    label: int


class EnvironmentObject(NamedTuple):
    """A piece of scenery."""

    transform: Transform
    bounding_box: BoundingBox
    id: int
    name: str
    label: int


class OpenDriveParameters(NamedTuple):
    """How CARLA would turn an OpenDRIVE file into geometry."""

    vertex_distance: float
    max_road_length: float
    wall_height: float
    additional_width: float
    smooth_junctions: bool
    enable_mesh_visibility: bool
    enable_pedestrian_navigation: bool


vector: Final = struct_of(Vector, number, number, number)
large_vector: Final = struct_of(Vector, large, large, large)
rotation: Final = struct_of(Rotation, number, number, number)
transform: Final = struct_of(Transform, vector, rotation)
point2: Final = struct_of(Point2, number, number)
bounding_box: Final = struct_of(BoundingBox, vector, vector, rotation, u32)
attribute_value: Final = struct_of(AttributeValue, text, u8, text)
description: Final = struct_of(Description, u32, text, array_of(attribute_value, 512))
_settings_fields: Final[tuple[Reader[object], ...]] = (
    flag, flag, optional(number), flag, number, i32, number, flag, number, number, flag,
)  # fmt: skip
settings: Final = struct_of(Settings, *_settings_fields)
vehicle_control: Final = struct_of(VehicleControl, number, number, number, flag, flag, flag, i32)
ackermann_control: Final = struct_of(AckermannControl, *[number] * 5)
ackermann_settings: Final = struct_of(AckermannSettings, *[number] * 6)
walker_control: Final = struct_of(WalkerControl, vector, number, flag)
gear: Final = struct_of(Gear, number, number, number)
wheel: Final = struct_of(WheelPhysicsControl, *[number] * 9, vector)
_curve: Final = array_of(point2, 1000)
_control_fields: Final[tuple[Reader[object], ...]] = (
    _curve, *[number] * 5, flag, number, number, number, array_of(gear, 100),
    number, number, vector, _curve, array_of(wheel, 100), flag,
)  # fmt: skip
physics_control: Final = struct_of(PhysicsControl, *_control_fields)
weather: Final = struct_of(WeatherParameters, *[number] * 14)
colour: Final = struct_of(Colour, u8, u8, u8)
light_state: Final = struct_of(StreetLight, u32, vector, number, u8, colour, flag)
opendrive_parameters: Final = struct_of(OpenDriveParameters, number, number, number, number, flag, flag, flag)
actor_ids: Final = array_of(u32)
object_ids: Final = array_of(u64)


def write_settings(value: Settings) -> tuple[object, ...]:
    """Settings as they are written: the step is optional."""
    step = value.fixed_delta_seconds
    return (*value[:2], (False,) if step is None else (True, step), *value[3:])


def pose_of(value: Transform) -> Pose:
    """A transform as the world knows it."""
    at, turn = value
    return Pose(at.x, at.y, at.z, turn.roll, turn.pitch, turn.yaw)


def transform_of(pose: Pose) -> Transform:
    """A pose as clients know it."""
    return Transform(Vector(pose.x_m, pose.y_m, pose.z_m), Rotation(pose.pitch_deg, pose.yaw_deg, pose.roll_deg))


_LIMITS: Final = ServerLimits()
map_text: Final = text_of(_LIMITS.opendrive_bytes)


# The commands of a batch are CARLA's variant by index, each with the actor it is for first.


class SpawnCommand(NamedTuple):
    """Put an actor into the world, then do more with it."""

    description: Description
    transform: Transform
    parent: int | None
    attachment: int
    socket: str
    do_after: tuple["BatchCommand", ...]


class ActorCommand(NamedTuple):
    """Do something with one actor: the method that does it, and its arguments after the actor."""

    method: str
    actor: int
    arguments: tuple[Any, ...]


class ConsoleCommand(NamedTuple):
    """A line for the console that we do not have."""

    line: str


class BrokenCommand(NamedTuple):
    """A command that could not be read; the others of its batch can."""

    message: str


BatchCommand = SpawnCommand | ActorCommand | ConsoleCommand | BrokenCommand


def _actor_command(method: str, *readers: Reader[Any]) -> Reader[ActorCommand]:
    def build(actor: int, *arguments: object) -> ActorCommand:
        return ActorCommand(method, actor, arguments)

    return struct_of(build, u32, *readers)


_SPAWN, _CONSOLE = 0, 20
_SPAWN_FIELDS: Final = 6
# By index; the methods are those a client could have called one by one.
_ACTOR_COMMANDS: Final[dict[int, Reader[ActorCommand]]] = {
    1: _actor_command("destroy_actor"),
    2: _actor_command("apply_control_to_vehicle", vehicle_control),
    3: _actor_command("apply_ackermann_control_to_vehicle", ackermann_control),
    4: _actor_command("apply_control_to_walker", walker_control),
    5: _actor_command("apply_physics_control", physics_control),
    6: _actor_command("set_actor_transform", transform),
    7: _actor_command("set_walker_state", transform, number),
    8: _actor_command("set_actor_target_velocity", vector),
    9: _actor_command("set_actor_target_angular_velocity", vector),
    10: _actor_command("add_actor_impulse", vector),
    11: _actor_command("add_actor_force", vector),
    12: _actor_command("add_actor_angular_impulse", large_vector),
    13: _actor_command("add_actor_torque", large_vector),
    14: _actor_command("set_actor_simulate_physics", flag),
    15: _actor_command("set_actor_enable_gravity", flag),
    16: _actor_command("set_actor_autopilot", flag),
    17: _actor_command("show_vehicle_debug_telemetry", flag),
    18: _actor_command("set_vehicle_light_state", u32),
    19: _actor_command("set_actor_location", vector),
    21: _actor_command("set_traffic_light_state", u8),
}
COUNT: Final = 22
_console: Final = struct_of(ConsoleCommand, text)


def _spawn(depth: int) -> Reader[SpawnCommand]:
    fields = (description, transform, optional(u32), u8, text, array_of(lambda command: _command(command, depth + 1), 1000))
    return struct_of(SpawnCommand, *fields)


_SPAWNS: Final = tuple(_spawn(depth) for depth in range(_LIMITS.batch_depth + 1))


def _command(value: object, depth: int) -> BatchCommand:
    if depth > _LIMITS.batch_depth:
        raise WireError(f"commands may follow one another at most {_LIMITS.batch_depth} deep")
    index, fields = _variant(value)
    if index == _SPAWN:
        return _SPAWNS[depth](fields)
    if index == _CONSOLE:
        return _console(fields)
    reader = _ACTOR_COMMANDS.get(index)
    if reader is None:
        raise WireError(f"a command from 0 to {COUNT - 1} was wanted, but {came(index)} came")
    return reader(fields)


def command(value: object) -> BatchCommand:
    """Read one command."""
    try:
        return _command(value, 0)
    except WireError as error:
        return BrokenCommand(str(error))


def batch(value: object) -> tuple[BatchCommand, ...]:
    """Read the commands of a batch."""
    if not isinstance(value, ARRAYS):
        raise WireError(f"an array of at most {_LIMITS.batch_commands} was wanted, but {came(value)} came")
    _check_commands(value)
    broken, found = 0, []
    for entry in value:
        read = command(entry)
        found.append(read)
        if isinstance(read, BrokenCommand):
            broken += 1
            _check_broken(broken, entry)
    return tuple(found)


def _check_commands(value: list[Any] | LargeArray) -> None:
    """Refuse too many commands before any is read. Those that follow others count too: few bytes could hold many times more."""
    total, broken = 0, 0
    todo: list[object] = [value]
    while todo:
        level = todo.pop()
        if not isinstance(level, ARRAYS):
            continue  # that it is no array is said when it is read
        total += len(level)
        if total > _LIMITS.batch_commands:
            raise WireError(
                f"at most {_LIMITS.batch_commands} commands were wanted, those behind others included, but more came"
            )
        for entry in level:
            match entry:
                case [[0, [_, _, _, _, _, after]]]:
                    todo.append(after)
                case [[_, _]]:
                    pass
                case LargeArray() if (after := _after_large(entry)) is not None:
                    todo.append(after)
                case LargeArray():
                    pass
                case _ if level is value:  # one behind another command makes that one unreadable
                    broken += 1
                    _check_broken(broken, entry)


def _after_large(entry: LargeArray) -> object:
    """The commands behind one that is too large to be unpacked in one step; None: there are none."""
    try:
        index, fields = _variant(entry)
    except WireError:
        return None  # what is wrong is said when it is read
    if index != _SPAWN or not isinstance(fields, ARRAYS) or len(fields) != _SPAWN_FIELDS:
        return None
    *_, after = fields
    return after


def _check_broken(count: int, entry: object) -> None:
    """Refuse a whole batch of which many commands cannot be read."""
    if count > _LIMITS.broken_commands:
        read = command(entry)
        why = f": {read.message}" if isinstance(read, BrokenCommand) else ""
        raise WireError(f"expected commands, got more than {_LIMITS.broken_commands} that cannot be read{why}")


def _variant(value: object) -> tuple[int, object]:
    """The index and the fields of a command."""
    if not isinstance(value, ARRAYS) or len(value) != 1:
        raise WireError(f"a command was wanted, but {came(value)} came")
    (inner,) = value
    if not isinstance(inner, ARRAYS) or len(inner) != 2:
        raise WireError(f"a command was wanted, but {came(inner)} came")
    index, fields = inner
    if type(index) is not int:
        raise WireError(f"a command was wanted, but {came(inner)} came")
    return index, fields
