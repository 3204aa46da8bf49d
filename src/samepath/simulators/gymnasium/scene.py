"""Our script in highway-env's terms. Its y looks down the screen and its headings turn clockwise, as ours do.

A vehicle is a bicycle with an axle at each bumper. It is steered by an angle that makes the bend our driver asked for with the
script's wheels, and pushed by what its pedals' forces are over its mass.
"""

import math
from dataclasses import dataclass

from samepath.simulators.scripts import Role, VehicleCommand, brake_force_n, drive_force_n


@dataclass(frozen=True)
class Action:
    """What a vehicle of highway-env is told."""

    steering_rad: float
    acceleration_mps2: float


def action_of(role: Role, command: VehicleCommand, speed_mps: float, step_s: float) -> Action:
    """Return a driver's command as an action for one step; brakes stop a vehicle, and never push it back."""
    brake = 1.0 if command.hand_brake else command.brake
    force_n = drive_force_n(role, command.throttle, speed_mps)
    slower_mps2 = min(brake_force_n(role, brake) / role.body.mass_kg, max(0.0, speed_mps) / step_s)
    return Action(_steering_rad(role, command.steer), force_n / role.body.mass_kg - slower_mps2)


def _steering_rad(role: Role, steer: float) -> float:
    if role.wheels is None or steer == 0.0:
        return 0.0
    bend = math.tan(math.radians(steer * role.wheels.max_steer_deg)) / role.wheels.wheel_base_m
    return math.atan(bend * role.body.length_m)
