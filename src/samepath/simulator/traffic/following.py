"""How a driver holds speed and lane: the intelligent driver model, pedals for a wanted acceleration, and pure pursuit.

*Intelligent driver model* (Treiber, Hennecke, Helbing, Congested traffic states in empirical observations and microscopic
simulations, 2000): a = a_max (1 - (v / v0)⁴ - (s* / s)²) with the gap s to who is in front, and the gap that is wanted
s* = s0 + v T + v dv / (2 sqrt(a_max b)), where dv is how fast the gap closes.

*Pedals* turn a wanted acceleration into what the drivetrain needs for it. A driver knows the car: the very functions that
physics uses say which gear it is in and what the engine gives. So no integral builds up, and only the gear is remembered.

Only +, -, *, / and square roots are used, and our own arc tangent: the bits are the same on every machine.
"""

import math
from typing import Final

from samepath.core.catalogue import VehicleType
from samepath.core.states import VehicleCommand
from samepath.core.trig import atan2, to_radians
from samepath.simulator.physics.drivetrain import (
    AIR_DENSITY_KGPM3,
    GRAVITY_MPS2,
    engine_torque_nm,
    gear_ratio,
    next_gear,
    steering_left,
    wheel_rpm,
)

ACCELERATION_MPS2: Final = 1.8
COMFORTABLE_MPS2: Final = 2.0
HEADWAY_S: Final = 1.2
STANDING_GAP_M: Final = 2.0
# Nobody brakes harder than a dry road holds.
HARDEST_MPS2: Final = 7.5
_ROOT: Final = 2.0 * math.sqrt(ACCELERATION_MPS2 * COMFORTABLE_MPS2)
# Nearer than this nobody drives up to who stands in front.
_TOUCH_M: Final = 0.5
_STANDS_MPS: Final = 0.25
_COASTING: Final = VehicleCommand()


def free_mps2(speed_mps: float, wanted_mps: float) -> float:
    """The acceleration on a road with nobody in front; who is too fast slows down in comfort."""
    ratio = speed_mps / wanted_mps
    square = ratio * ratio
    return max(ACCELERATION_MPS2 * (1.0 - square * square), -COMFORTABLE_MPS2)


def follow_mps2(speed_mps: float, wanted_mps: float, gap_m: float, front_mps: float) -> float:
    """The acceleration behind somebody who drives at ``front_mps``, ``gap_m`` in front."""
    gap_m = max(gap_m, 0.1)
    wanted_m = STANDING_GAP_M + max(0.0, speed_mps * HEADWAY_S + speed_mps * (speed_mps - front_mps) / _ROOT)
    part = wanted_m / gap_m
    found = free_mps2(speed_mps, wanted_mps) - ACCELERATION_MPS2 * part * part
    # What it takes to stop behind somebody who brakes as hard as can be; the model alone allows itself to be late.
    left_m = gap_m - _TOUCH_M + front_mps * front_mps / (2.0 * HARDEST_MPS2)
    if left_m < speed_mps * speed_mps / (2.0 * 0.6 * HARDEST_MPS2):
        found = min(found, -speed_mps * speed_mps / (2.0 * max(left_m, 0.05)))
    return max(found, -HARDEST_MPS2)


def stop_mps2(speed_mps: float, wanted_mps: float, left_m: float) -> float:
    """The acceleration of somebody who has to stop ``left_m`` further on: right there, not a car's gap before."""
    return follow_mps2(speed_mps, wanted_mps, left_m + STANDING_GAP_M - 0.3, 0.0)


def pedals(kind: VehicleType, wanted_mps2: float, speed_mps: float, gear: int) -> tuple[float, float, int]:
    """Throttle, brake and the gear that the car will be in, for a wanted acceleration."""
    turns_rpm = wheel_rpm(kind, speed_mps)
    gear = next_gear(kind, _COASTING, turns_rpm, gear)
    if speed_mps < _STANDS_MPS and wanted_mps2 <= 0.0:
        return 0.0, 1.0, gear
    drag_n = 0.5 * AIR_DENSITY_KGPM3 * kind.drag_area_m2 * speed_mps * speed_mps
    rolling_n = kind.rolling_resistance * kind.mass_kg * GRAVITY_MPS2
    force_n = kind.mass_kg * wanted_mps2 + drag_n + rolling_n
    if force_n <= 0.0:
        return 0.0, min(1.0, -force_n / kind.max_brake_n), gear
    ratio = gear_ratio(kind, gear)
    most_n = engine_torque_nm(kind.engine, turns_rpm * ratio) * ratio * kind.engine.efficiency / kind.wheel_radius_m
    return (min(1.0, force_n / most_n) if most_n > 0.0 else 0.0), 0.0, gear


def steer(kind: VehicleType, to_x_m: float, to_y_m: float, forward: tuple[float, float], speed_mps: float) -> float:
    """Pure pursuit: the steer ratio for a point seen from the rear axle (see ``scenarios/drivers.py``)."""
    forward_x, forward_y = forward
    ahead_m = to_x_m * forward_x + to_y_m * forward_y
    right_m = to_y_m * forward_x - to_x_m * forward_y
    square = to_x_m * to_x_m + to_y_m * to_y_m
    if square == 0.0 or ahead_m < 0.0:
        return 0.0 if square == 0.0 else (-1.0 if right_m < 0.0 else 1.0)
    angle_rad = atan2(2.0 * kind.wheel_base_m * right_m, square)
    most_deg = kind.wheels[0].max_steer_deg if kind.wheels else kind.max_steer_deg
    most_rad = to_radians(most_deg)
    if kind.steering_curve:
        most_rad *= steering_left(kind, abs(speed_mps))
    return max(-1.0, min(1.0, angle_rad / most_rad))
