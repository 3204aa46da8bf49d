"""Vehicles: pedals, physics, lights, doors, telemetry; and walkers' legs."""

import math
from typing import Final, NamedTuple

from samepath.core.catalogue import VehicleType
from samepath.core.states import Vector, WalkerCommand
from samepath.core.trig import sincos_deg, to_degrees
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError, Reader, flag, number, struct_of, u8, u32
from samepath.simulator.physics.drivetrain import AIR_DENSITY_KGPM3, GRAVITY_MPS2, gear_ratio, wheel_rpm
from samepath.simulator.physics.frames import axes_of, forward_of, quaternion_of
from samepath.simulator.server import physics_control as pc
from samepath.simulator.server.actors import VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.rpc import Sender
from samepath.simulator.server.ticking import command_of, substeps_of

TABLE: Final = Table()
ALL_DOORS: Final = 6
_DOORS: Final = frozenset(range(ALL_DOORS))

_light_flags: Final[Reader[int]] = struct_of(lambda flags: flags, u32)


class WheelTelemetry(NamedTuple):
    """What a wheel does."""

    tire_friction: float
    lat_slip: float
    long_slip: float
    omega: float
    tire_load: float
    normalized_tire_load: float
    torque: float
    long_force: float
    lat_force: float
    normalized_long_force: float
    normalized_lat_force: float


class Telemetry(NamedTuple):
    """What a vehicle does."""

    speed: float
    steer: float
    throttle: float
    brake: float
    engine_rpm: float
    gear: int
    drag: float
    wheels: tuple[WheelTelemetry, ...]


def _vehicle(episode: Episode, actor_id: int) -> VehicleEntry:
    return episode.actors.get(actor_id, VehicleEntry, "a vehicle")


def _kind(episode: Episode, actor_id: int) -> VehicleType:
    kind = episode.world.kind(actor_id)
    if not isinstance(kind, VehicleType):
        raise CallError(f"actor {actor_id} is no vehicle")
    return kind


@TABLE.void(u32, r.vehicle_control, sender=True)
def apply_control_to_vehicle(episode: Episode, sender: Sender, actor_id: int, control: r.VehicleControl) -> None:
    """Take the pedals."""
    entry = _vehicle(episode, actor_id)
    if not episode.obeys(actor_id, sender):
        return
    # The controller would move the pedals again at the next tick.
    if entry.ackermann.target is not None:
        entry.ackermann.release()
    entry.control = control
    episode.world.apply(actor_id, command_of(control))
    episode.actors.rewrite(entry)


@TABLE.void(u32, r.ackermann_control, sender=True)
def apply_ackermann_control_to_vehicle(episode: Episode, sender: Sender, actor_id: int, control: r.AckermannControl) -> None:
    """Drive by speed and angle."""
    entry = _vehicle(episode, actor_id)
    if episode.obeys(actor_id, sender):
        entry.ackermann.aim(control)


@TABLE.query(u32)
def get_ackermann_controller_settings(episode: Episode, actor_id: int) -> r.AckermannSettings:
    """The gains."""
    return _vehicle(episode, actor_id).ackermann.settings


@TABLE.void(u32, r.ackermann_settings)
def apply_ackermann_controller_settings(episode: Episode, actor_id: int, settings: r.AckermannSettings) -> None:
    """Change the gains."""
    _vehicle(episode, actor_id).ackermann.settings = settings


@TABLE.void(u32, r.walker_control, sender=True)
def apply_control_to_walker(episode: Episode, sender: Sender, actor_id: int, control: r.WalkerControl) -> None:
    """Let a walker walk."""
    entry = episode.actors.get(actor_id, WalkerEntry, "a walker")
    if not episode.obeys(actor_id, sender):
        return
    entry.control = control
    x, y, _ = control.direction
    length = math.sqrt(x * x + y * y)
    x, y = (x / length, y / length) if length > 0.0 else (0.0, 0.0)
    episode.world.apply(actor_id, WalkerCommand(x, y, control.speed, jump=control.jump, face_ahead=True))
    episode.actors.rewrite(entry)


@TABLE.query(u32)
def get_physics_control(episode: Episode, actor_id: int) -> r.PhysicsControl:
    """A vehicle's physics, as it is now."""
    entry = _vehicle(episode, actor_id)
    pose, kind = episode.pose(entry), _kind(episode, actor_id)
    control = entry.physics or pc.control_of(kind, pose)
    wheels = tuple(wheel._replace(position=pc.wheel_place_cm(kind, index, pose)) for index, wheel in enumerate(control.wheels))
    control = control._replace(wheels=wheels)
    patch = episode.world.tyre_friction(actor_id)
    return control if patch is None else pc.with_friction(control, patch)


@TABLE.void(u32, r.physics_control)
def apply_physics_control(episode: Episode, actor_id: int, control: r.PhysicsControl) -> None:
    """Change a vehicle's physics."""
    entry = _vehicle(episode, actor_id)
    if entry.base is None:
        raise CallError(f"actor {actor_id} has no physics")
    episode.world.refit(actor_id, pc.kind_from(entry.base, control))
    entry.physics = control


@TABLE.query(u32)
def get_vehicle_light_state(episode: Episode, actor_id: int) -> tuple[int]:
    """A vehicle's lights."""
    return (_vehicle(episode, actor_id).lights,)


@TABLE.void(u32, _light_flags)
def set_vehicle_light_state(episode: Episode, actor_id: int, flags: int) -> None:
    """Switch a vehicle's lights."""
    _vehicle(episode, actor_id).lights = flags


@TABLE.query()
def get_vehicle_light_states(episode: Episode) -> list[tuple[int, int]]:
    """The lights of all vehicles."""
    return [(entry.id, entry.lights) for entry in episode.actors.all(VehicleEntry)]


@TABLE.void(u32, u8)
def open_vehicle_door(episode: Episode, actor_id: int, door: int) -> None:
    """Open a door, or all; kept, not felt."""
    _vehicle(episode, actor_id).open_doors |= _doors(door)


@TABLE.void(u32, u8)
def close_vehicle_door(episode: Episode, actor_id: int, door: int) -> None:
    """Close a door, or all."""
    _vehicle(episode, actor_id).open_doors -= _doors(door)


def _doors(door: int) -> frozenset[int]:
    if door > ALL_DOORS:
        raise CallError(f"a door from 0 to {ALL_DOORS} was wanted, but {door} came")
    return _DOORS if door == ALL_DOORS else frozenset({door})


@TABLE.void(u32, u8, number, idle="in CARLA it turns the picture of a wheel, not the vehicle; our wheels are drawn straight")
def set_wheel_steer_direction(episode: Episode, actor_id: int, wheel: int, angle_deg: float) -> None:
    _vehicle(episode, actor_id)
    _wheel_index(wheel)


@TABLE.query(u32, u8)
def get_wheel_steer_angle(episode: Episode, actor_id: int, wheel: int) -> float:
    """How far a wheel is turned, in degrees, to the right."""
    _vehicle(episode, actor_id)
    return -to_degrees(float(episode.world.wheels(actor_id)[_wheel_index(wheel)].steering))


def _wheel_index(wheel: int) -> int:
    if wheel > 3:
        raise CallError(f"a wheel from 0 to 3 was wanted, but {wheel} came")
    return wheel


@TABLE.query(u32)
def get_telemetry_data(episode: Episode, actor_id: int) -> Telemetry:
    """What a vehicle and its wheels do."""
    entry, kind = _vehicle(episode, actor_id), _kind(episode, actor_id)
    state = episode.world.state(actor_id)
    forward = forward_of(quaternion_of(state.pose))
    speed_mps = sum(a * b for a, b in zip(forward, state.velocity_mps, strict=True))
    gear = episode.world.gear(actor_id)
    turns_rpm = wheel_rpm(kind, speed_mps)
    control = entry.control
    return Telemetry(
        speed=speed_mps,
        steer=control.steer,
        throttle=control.throttle,
        brake=control.brake,
        engine_rpm=turns_rpm * gear_ratio(kind, gear),
        gear=gear,
        drag=0.5 * AIR_DENSITY_KGPM3 * kind.drag_area_m2 * speed_mps * speed_mps,
        wheels=tuple(_wheel(episode, actor_id, kind, index) for index in range(4)),
    )


def _wheel(episode: Episode, actor_id: int, kind: VehicleType, index: int) -> WheelTelemetry:
    """A wheel of ours rolls without slipping along its track and slips aside; forces are those of the last substep."""
    wheel, pose = episode.world.wheels(actor_id)[index], episode.world.state(actor_id).pose
    place = pc.wheel_place_cm(kind, index, pose)
    velocity = episode.world.velocity_at(actor_id, Vector(place.x / 100.0, place.y / 100.0, place.z / 100.0))
    axes = axes_of(quaternion_of(pose))
    along_mps, aside_mps = (sum(a * b for a, b in zip(axis, velocity, strict=True)) for axis in axes[:2])
    sin, cos = sincos_deg(-to_degrees(float(wheel.steering)))
    along_mps, aside_mps = along_mps * cos + aside_mps * sin, aside_mps * cos - along_mps * sin
    load_n, radius_m, rest_n = float(wheel.wheel_suspension_force), float(wheel.radius), kind.mass_kg * GRAVITY_MPS2 / 4
    substep_s = episode.delta_s / substeps_of(episode, episode.delta_s) if episode.delta_s else 1.0
    # With the axle to the left Rapier's wheels push backwards where the number is positive.
    forward_n, side_n = -float(wheel.forward_impulse) / substep_s, float(wheel.side_impulse) / substep_s
    return WheelTelemetry(
        tire_friction=float(wheel.friction_slip) / kind.side_grip * pc.FRICTION_SCALE,
        lat_slip=math.atan2(aside_mps, abs(along_mps)) if along_mps or aside_mps else 0.0,
        long_slip=0.0,
        omega=along_mps / radius_m,
        tire_load=load_n,
        normalized_tire_load=load_n / rest_n,
        torque=forward_n * radius_m,
        long_force=forward_n,
        lat_force=side_n,
        normalized_long_force=forward_n / rest_n,
        normalized_lat_force=side_n / rest_n,
    )


@TABLE.void(u32, flag, idle="CARLA draws it into its window; we have none")
def show_vehicle_debug_telemetry(episode: Episode, actor_id: int, on: bool) -> None:
    _vehicle(episode, actor_id)
