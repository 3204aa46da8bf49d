"""Pure pursuit: steer onto the circle through the look-ahead point.

The rear axle drives along a circle that is tangent to the vehicle's direction and passes through the point at (ahead,
right) in its own frame, at distance d. Its curvature is 2 right / d², and a bicycle of wheel base L follows it with the
steering angle atan(2 L right / d²) (Coulter, Implementation of the Pure Pursuit Path Tracking Algorithm, 1992). CARLA's
frame: x forward, y right; a positive angle turns right.
"""

import math
from dataclasses import dataclass

from samepath.base.errors import InputError
from samepath.base.trig import PI, atan2, to_radians


@dataclass(frozen=True)
class Steering:
    """The geometry that turns a curvature into a steering wheel position."""

    wheel_base_m: float = 2.87
    max_steer_deg: float = 70.0

    def __post_init__(self) -> None:
        if not 0.0 < self.wheel_base_m < math.inf:
            raise InputError(f"a positive wheel base was wanted, but {self.wheel_base_m!r} m came")
        if not 0.0 < self.max_steer_deg <= 90.0:
            raise InputError(f"a steering angle in (0, 90] degrees was wanted, but {self.max_steer_deg!r} came")


def pure_pursuit(
    steering: Steering,
    rear_x_m: float,
    rear_y_m: float,
    forward_x: float,
    forward_y: float,
    target_x_m: float,
    target_y_m: float,
) -> float:
    """Return the steer ratio in [-1, 1] that leads the rear axle through the target; (forward_x, forward_y) is a unit vector.

    A target behind the vehicle asks for the full lock on its side, straight behind for the right one.
    """
    to_x, to_y = target_x_m - rear_x_m, target_y_m - rear_y_m
    ahead = to_x * forward_x + to_y * forward_y
    right = to_y * forward_x - to_x * forward_y
    square = to_x * to_x + to_y * to_y
    if square == 0.0:
        return 0.0
    if ahead < 0.0:
        return -1.0 if right < 0.0 else 1.0
    angle_rad = atan2(2.0 * steering.wheel_base_m * right, square)
    return max(-1.0, min(1.0, angle_rad / _max_steer_rad(steering)))


def _max_steer_rad(steering: Steering) -> float:
    return PI / 2.0 if steering.max_steer_deg == 90.0 else to_radians(steering.max_steer_deg)
