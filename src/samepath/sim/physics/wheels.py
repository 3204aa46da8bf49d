"""Wheels: four rays with spring and damper, and how forces reach them."""

from itertools import pairwise
from typing import Any, Final

import rapier3d

from samepath.base.trig import to_radians
from samepath.sim.physics.drivetrain import GRAVITY_MPS2, DriveForces
from samepath.sim.world.catalogue import VehicleType
from samepath.sim.world.records import VehicleCommand

# Which axles are driven: front, rear.
_DRIVEN: Final = {"front": (True, False), "rear": (False, True), "all": (True, True)}
_SUSPENSION_STIFFNESS: Final = 32.0
_SUSPENSION_REST_M: Final = 0.30


def fit_wheels(chassis: Any, kind: VehicleType, friction: float | None) -> Any:  # noqa: ANN401 - Rapier's handle and vehicle
    """Build the ray-cast vehicle; done again when the tyres' friction changes, since Rapier fixes it at birth.

    ``friction`` None leaves every wheel its own.
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
            friction_slip=friction if friction is not None else own.friction if own else kind.tyre_friction,
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
    if not curve or speed_mps <= curve[0][0]:
        return curve[0][1] if curve else 1.0
    for (slow_mps, slow), (fast_mps, fast) in pairwise(curve):
        if speed_mps <= fast_mps:
            return slow + (fast - slow) * (speed_mps - slow_mps) / (fast_mps - slow_mps)
    return curve[-1][1]


def apply_forces(vehicle: Any, kind: VehicleType, command: VehicleCommand, forces: DriveForces, dt_s: float) -> None:  # noqa: ANN401
    """Spread forces over the wheels: 0 and 1 in front, 2 and 3 behind. Rapier's brake is an impulse per step."""
    if kind.wheels:
        _apply_to_own_wheels(vehicle, kind, command, forces, dt_s)
        return
    steering_rad = -to_radians(command.steer * kind.max_steer_deg)
    front, rear = _DRIVEN[kind.driven]
    # With the axle along +y a negative force drives forward.
    engine_n = -forces.engine_n / (2 if front and rear else 1) / 2
    front_ns = forces.brake_n * 0.3 * dt_s
    rear_ns = (forces.brake_n * 0.2 + forces.hand_brake_n / 2) * dt_s
    for wheel in (0, 1):
        vehicle.apply_engine_force(wheel, engine_n if front else 0.0)
        vehicle.set_brake(wheel, front_ns)
        vehicle.set_steering(wheel, steering_rad)
    for wheel in (2, 3):
        vehicle.apply_engine_force(wheel, engine_n if rear else 0.0)
        vehicle.set_brake(wheel, rear_ns)


def _apply_to_own_wheels(
    vehicle: Any,  # noqa: ANN401 - Rapier's vehicle
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
