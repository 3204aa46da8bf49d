"""Wheels: four rays with spring and damper, and how forces reach them."""

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


def fit_wheels(chassis: Any, kind: VehicleType, friction: float) -> Any:  # noqa: ANN401 - Rapier's handle and vehicle
    """Build the ray-cast vehicle; done again when the tyres' friction changes, since Rapier fixes it at birth."""
    tuning = rapier3d.WheelTuning(
        suspension_stiffness=_SUSPENSION_STIFFNESS,
        suspension_compression=2.4,
        suspension_damping=3.4,
        max_suspension_travel=0.25,
        side_friction_stiffness=1.0,
        friction_slip=friction,
        max_suspension_force=kind.mass_kg * 40.0,
    )
    vehicle = rapier3d.DynamicRayCastVehicleController(chassis)
    vehicle.index_up_axis, vehicle.index_forward_axis = 2, 0
    height_m = kind.wheel_radius_m + _SUSPENSION_REST_M - GRAVITY_MPS2 / (4 * _SUSPENSION_STIFFNESS)
    down, axle = (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)
    for x_m in (kind.wheel_base_m / 2, -kind.wheel_base_m / 2):
        for y_m in (kind.track_m / 2, -kind.track_m / 2):
            vehicle.add_wheel((x_m, y_m, height_m), down, axle, _SUSPENSION_REST_M, kind.wheel_radius_m, tuning)
    return vehicle


def apply_forces(vehicle: Any, kind: VehicleType, command: VehicleCommand, forces: DriveForces, dt_s: float) -> None:  # noqa: ANN401
    """Spread forces over the wheels: 0 and 1 in front, 2 and 3 behind. Rapier's brake is an impulse per step."""
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
