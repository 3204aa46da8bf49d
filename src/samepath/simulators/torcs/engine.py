"""What our module tells from inside TORCS, in our frame and units. Nothing is rounded on the way.

TORCS's numbers have 32 bits; they are widened. A car is where the middle of its mass is. TORCS's frame is right-handed with z
up: its y is the other way round than ours, and so are turns about z. Its pitch is positive with the nose down, ours with the
nose up.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.trig import to_degrees
from samepath.simulators.processes.telling import Contact
from samepath.traces.channels import POSITION, ROTATION, VELOCITY

CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY, "wz_degps", "throttle_ratio", "steer_ratio", "brake_ratio", "gear_index")
# What is told of a car: place, angles, velocity, how fast it turns, steering, pedals, gear.
CAR: Final = np.dtype([("real", "<f4", 14)])
_DEG_PER_RAD: Final = to_degrees(1.0)


def rows(cars: NDArray[Any]) -> NDArray[np.float64]:
    """Return states as float64[tick, car, channel], in the order of :data:`CHANNELS`."""
    real = np.moveaxis(cars["real"].astype(np.float64), -1, 0)
    x, y, z, roll, pitch, yaw, vx, vy, vz, turn, steer, throttle, brake, gear = real
    yaw_deg = (180.0 - yaw * _DEG_PER_RAD) % 360.0 - 180.0
    angles = (roll * _DEG_PER_RAD, -pitch * _DEG_PER_RAD, yaw_deg)
    return np.stack((x, -y, z, *angles, vx, -vy, vz, -turn * _DEG_PER_RAD, throttle, -steer, brake, gear), axis=-1)


def in_our_frame(one: Contact) -> Contact:
    """Return a contact with its impulse along our axes."""
    x, y, z = one.impulse_ns
    return Contact(one.tick, one.actor, one.other, (x, -y, z))
