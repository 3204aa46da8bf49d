"""Cars that tell their place and where their axes point, in 32 bits, along our axes: to channels, in our frame and units."""

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samepath.base.trig import to_degrees
from samepath.base.trig_arrays import atan2
from samepath.traces.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY

CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, "throttle_ratio", "steer_ratio", "brake_ratio")
# What is told of a car: place; where forward, up and left point; velocity, spin; how it is driven.
CAR: Final = np.dtype([("real", "<f4", 18), ("command", "<f8", 3)])
_DEG_PER_RAD: Final = to_degrees(1.0)


def rows(cars: NDArray[Any], heights_m: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return states as float64[tick, car, channel], in the order of :data:`CHANNELS`.

    Numbers are widened, not rounded. ``heights_m`` is what the z that is told of each car is above the one that is meant.
    """
    real = np.moveaxis(cars["real"].astype(np.float64), -1, 0)
    x, y, z, fx, fy, fz, _, _, uz, _, _, lz, vx, vy, vz, wx, wy, wz = real
    # A turn that is one way round in a right-handed frame is the other way round in a left-handed one.
    angles = (atan2(lz, uz), atan2(fz, np.sqrt(fx * fx + fy * fy)), atan2(fy, fx), -wx, -wy, -wz)
    roll, pitch, yaw, *spin = (np.asarray(angle) * _DEG_PER_RAD for angle in angles)
    yaw = np.where(yaw < 180.0, yaw, yaw - 360.0)
    columns = (x, y, z - np.asarray(heights_m), roll, pitch, yaw, vx, vy, vz, *spin)
    return np.concatenate([np.stack(columns, axis=-1), cars["command"]], axis=-1)
