"""From pedals to the road: torque curve, automatic gearbox, drag and rolling resistance, and the four wheels they act on.

A wheel is a ray with a spring and a damper (Rapier's ray-cast vehicle): it feels only what never moves.
"""

from typing import Final, NamedTuple

import rapier3d

from samepath.core.catalogue import Engine, VehicleType
from samepath.core.states import VehicleCommand
from samepath.core.trig import to_radians

AIR_DENSITY_KGPM3: Final = 1.204
GRAVITY_MPS2: Final = 9.81
_TWO_PI: Final = 6.283185307179586
# The part of the weight on the driven wheels.
_DRIVEN_SHARE: Final = {"front": 0.55, "rear": 0.5, "all": 1.0}
_UPRIGHT_SHARE: Final = 0.8  # a motorcycle squats onto its rear wheel when it accelerates
# Below this speed brakes hold instead of slowing, and resistance fades out, so that a vehicle comes to rest.
_CREEP_MPS: Final = 0.5
_HALVINGS: Final = 24


class WheelOrders(NamedTuple):
    """What wheels were last told to do, and by which command: Rapier keeps it until it is told otherwise."""

    command: VehicleCommand
    engine_n: float
    front_brake_ns: float
    rear_brake_ns: float
    steering_rad: float


class DriveForces(NamedTuple):
    """What acts for one tick: along the vehicle for its driven wheels, at the brakes of all and of the rear, and drag."""

    engine_n: float
    brake_n: float
    hand_brake_n: float
    resistance_n: float
    gear: int
    speed_mps: float = 0.0


def engine_torque_nm(engine: Engine, rpm: float) -> float:
    """Interpolate the torque curve; nothing beyond its last point."""
    curve = engine.torque_curve
    rpm_a, torque_a = curve[0]
    if rpm <= rpm_a:
        return torque_a
    for rpm_b, torque_b in curve:
        if rpm <= rpm_b:
            return torque_a + (torque_b - torque_a) * (rpm - rpm_a) / (rpm_b - rpm_a)
        rpm_a, torque_a = rpm_b, torque_b
    return 0.0


def wheel_rpm(vehicle: VehicleType, speed_mps: float) -> float:
    """Turns per minute of a wheel that does not slip."""
    return abs(speed_mps) / (_TWO_PI * vehicle.wheel_radius_m) * 60.0


def gear_ratio(vehicle: VehicleType, gear: int) -> float:
    """Turns of the engine per turn of the wheels; 0 in neutral."""
    if gear == 0:
        return 0.0
    engine = vehicle.engine
    return (engine.reverse_ratio if gear < 0 else engine.gear_ratios[gear - 1]) * engine.final_ratio


def next_gear(vehicle: VehicleType, command: VehicleCommand, turns_rpm: float, gear: int) -> int:
    """The gear for the next tick: the one asked for, or the gearbox's own choice, at most one step from the last."""
    engine = vehicle.engine
    ratios = engine.gear_ratios
    if command.manual_gear is not None:
        return max(-1, min(command.manual_gear, len(ratios)))
    if command.reverse:
        return -1
    gear = max(gear, 1)
    if not vehicle.automatic:
        return gear
    rpm = turns_rpm * ratios[gear - 1] * engine.final_ratio
    down_rpm, up_rpm = engine.shifts_at_rpm(gear)
    if rpm > up_rpm and gear < len(ratios):
        gear += 1
    elif rpm < down_rpm and gear > 1:
        gear -= 1
    return gear


def _slipping_n(vehicle: VehicleType, throttle: float, turns_rpm: float, ratio: float, most_n: float) -> float:
    """The force of an engine whose wheels spin ahead in proportion to it: where both agree, found by halving."""
    low_n, high_n = 0.0, most_n
    for _ in range(_HALVINGS):
        middle_n = 0.5 * (low_n + high_n)
        rpm = turns_rpm * (1.0 + vehicle.slip_per_n * middle_n) * ratio
        given_n = engine_torque_nm(vehicle.engine, rpm) * throttle * ratio * vehicle.engine.efficiency / vehicle.wheel_radius_m
        if given_n > middle_n:
            low_n = middle_n
        else:
            high_n = middle_n
    return low_n


def drive(
    vehicle: VehicleType, command: VehicleCommand, speed_mps: float, gear: int, tyre_friction: float, weight: float = 1.0
) -> DriveForces:
    """Work out the forces for a tick from the signed forward speed; the gear shifts by at most one per tick.

    Neither engine nor brakes exceed what the tyres can hold: every vehicle has traction control and anti-lock brakes.
    ``weight`` is 0 for a vehicle that gravity does not pull onto its wheels.
    """
    engine = vehicle.engine
    turns_rpm = wheel_rpm(vehicle, speed_mps)
    gear = next_gear(vehicle, command, turns_rpm, gear)
    ratio = gear_ratio(vehicle, gear)
    torque_nm = engine_torque_nm(engine, turns_rpm * ratio) * command.throttle
    force_n = torque_nm * ratio * engine.efficiency / vehicle.wheel_radius_m
    if vehicle.slip_per_n > 0.0:
        force_n = _slipping_n(vehicle, command.throttle, turns_rpm, ratio, force_n)
    grip_n = tyre_friction * vehicle.mass_kg * GRAVITY_MPS2 * weight
    share = _UPRIGHT_SHARE if vehicle.upright else _DRIVEN_SHARE[vehicle.driven]
    force_n = min(force_n, grip_n * share)
    fade = min(abs(speed_mps) / _CREEP_MPS, 1.0)
    drag_n = 0.5 * AIR_DENSITY_KGPM3 * vehicle.drag_area_m2 * speed_mps * speed_mps
    # What the wheels hold back passes through the tyres: on ice without friction nothing does.
    rolling_n = min(vehicle.rolling_resistance * vehicle.mass_kg * GRAVITY_MPS2 * fade, grip_n)
    if vehicle.wheels:
        brake_n = command.brake * vehicle.max_brake_n
    else:
        brake_n = command.brake * vehicle.brake_force_n_per_kg * vehicle.mass_kg
    return DriveForces(
        -force_n if gear < 0 else force_n,
        min(brake_n, grip_n),
        0.4 * grip_n if command.hand_brake else 0.0,
        drag_n + rolling_n,
        gear,
        speed_mps,
    )


# Which axles are driven: front, rear.
_DRIVEN: Final = {"front": (True, False), "rear": (False, True), "all": (True, True)}
_SUSPENSION_STIFFNESS: Final = 32.0
_SUSPENSION_REST_M: Final = 0.30


def fit_wheels(
    chassis: rapier3d.RigidBodyHandle, kind: VehicleType, friction: float | None, grip: float = 1.0
) -> rapier3d.DynamicRayCastVehicleController:
    """Build the ray-cast vehicle; done again when the tyres' friction changes, since Rapier fixes it at birth.

    ``friction`` None leaves every wheel its own, of which ``grip`` is what a wet road leaves.
    """
    vehicle = rapier3d.DynamicRayCastVehicleController(chassis)
    vehicle.index_up_axis, vehicle.index_forward_axis = 2, 0
    down, axle = (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)
    for index, (x_m, y_m) in enumerate(wheel_places_m(kind)):
        own = kind.wheels[index] if kind.wheels else None
        radius_m = own.radius_m if own else kind.wheel_radius_m
        tuning = rapier3d.WheelTuning(
            suspension_stiffness=_SUSPENSION_STIFFNESS,
            suspension_compression=2.4,
            suspension_damping=3.4,
            max_suspension_travel=0.25,
            side_friction_stiffness=own.side_stiffness if own else 1.0,
            friction_slip=(friction if friction is not None else (own.friction if own else kind.tyre_friction) * grip)
            * kind.side_grip,
            max_suspension_force=kind.mass_kg * 40.0,
        )
        height_m = radius_m + _SUSPENSION_REST_M - GRAVITY_MPS2 / (4 * _SUSPENSION_STIFFNESS)
        vehicle.add_wheel((x_m, y_m, height_m), down, axle, _SUSPENSION_REST_M, radius_m, tuning)
    return vehicle


def wheel_places_m(kind: VehicleType) -> tuple[tuple[float, float], ...]:
    """Where the wheels are, (x, y) in the vehicle's right-handed frame: front left, front right, rear left, rear right."""
    x_m, y_m = kind.wheel_base_m / 2, kind.track_m / 2
    return (x_m, y_m), (x_m, -y_m), (-x_m, y_m), (-x_m, -y_m)


def steering_left(kind: VehicleType, speed_mps: float) -> float:
    """The part of the steering that is left at a speed."""
    curve = kind.steering_curve
    if not curve:
        return 1.0
    slow_mps, slow = curve[0]
    if speed_mps <= slow_mps:
        return slow
    for fast_mps, fast in curve:
        if speed_mps <= fast_mps:
            return slow + (fast - slow) * (speed_mps - slow_mps) / (fast_mps - slow_mps)
        slow_mps, slow = fast_mps, fast
    return slow


def apply_forces(
    vehicle: rapier3d.DynamicRayCastVehicleController,
    kind: VehicleType,
    command: VehicleCommand,
    forces: DriveForces,
    dt_s: float,
    told: WheelOrders | None = None,
) -> WheelOrders | None:
    """Spread forces over the wheels: 0 and 1 in front, 2 and 3 behind. Rapier's brake is an impulse per step.

    ``told`` is what the last call has returned for the same wheels: what is still the same is not said again. None: say all.
    """
    if kind.wheels:
        _apply_to_own_wheels(vehicle, kind, command, forces, dt_s)
        return None
    steering_rad = -to_radians(command.steer * kind.max_steer_deg)
    if kind.steering_curve:
        steering_rad *= steering_left(kind, abs(forces.speed_mps))
    front, rear = _DRIVEN[kind.driven]
    # With the axle along +y a negative force drives forward.
    engine_n = -forces.engine_n / (2 if front and rear else 1) / 2
    front_ns = forces.brake_n * 0.3 * dt_s
    rear_ns = (forces.brake_n * 0.2 + forces.hand_brake_n / 2) * dt_s
    # Numbers of another command are said even if they are equal: 0 and -0 are, and give other bits. Those of one command have
    # one sign.
    if told is not None and told.command is not command:
        told = None
    if told is None or told.engine_n != engine_n:
        if front:
            vehicle.apply_engine_force(0, engine_n)
            vehicle.apply_engine_force(1, engine_n)
        if rear:
            vehicle.apply_engine_force(2, engine_n)
            vehicle.apply_engine_force(3, engine_n)
    if told is None or told.front_brake_ns != front_ns:
        vehicle.set_brake(0, front_ns)
        vehicle.set_brake(1, front_ns)
    if told is None or told.rear_brake_ns != rear_ns:
        vehicle.set_brake(2, rear_ns)
        vehicle.set_brake(3, rear_ns)
    if told is None or told.steering_rad != steering_rad:
        vehicle.set_steering(0, steering_rad)
        vehicle.set_steering(1, steering_rad)
    return WheelOrders(command, engine_n, front_ns, rear_ns, steering_rad)


def _apply_to_own_wheels(
    vehicle: rapier3d.DynamicRayCastVehicleController,
    kind: VehicleType,
    command: VehicleCommand,
    forces: DriveForces,
    dt_s: float,
) -> None:
    """The same for wheels that are not alike: each gets its share of the brakes and turns as far as it may."""
    driven = [_DRIVEN[kind.driven][axle] for axle in (0, 0, 1, 1)]
    engine_n = -forces.engine_n / sum(driven)
    brake_share = forces.brake_n / kind.max_brake_n if kind.max_brake_n else 0.0
    steer = -to_radians(command.steer) * steering_left(kind, abs(forces.speed_mps))
    for index, wheel in enumerate(kind.wheels):
        hand_n = min(wheel.hand_brake_n, forces.hand_brake_n) if command.hand_brake else 0.0
        vehicle.apply_engine_force(index, engine_n if driven[index] else 0.0)
        vehicle.set_brake(index, (wheel.brake_n * brake_share + hand_n) * dt_s)
        vehicle.set_steering(index, steer * wheel.max_steer_deg)
