"""From OpenDRIVE's frame to CARLA's, and onto the grid: the only place where either happens.

OpenDRIVE is right-handed (x east, y north, z up, headings counter-clockwise in radians); CARLA is left-handed (y south,
yaw clockwise seen from above, in degrees). Every public number of a map has passed through :func:`to_carla`.

Coordinates are rounded to a grid of 2**-20 m (just under a micrometre). Sine and cosine of different CPUs may differ in the
last bit, some 1e-14 m at the edge of a town; on the grid that difference is gone. Multiples of 2**-20 below 2**32 m are
exact in binary64, and so are their integer coordinates, on which orientation tests are exact.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

GRID_PER_M: Final = 1 << 20
Floats = npt.NDArray[np.float64]


def on_grid(value: float) -> float:
    """Round to the nearest multiple of 2**-20; ties to even, and no negative zero."""
    return round(value * GRID_PER_M) / GRID_PER_M + 0.0


def to_carla(x_m: float, y_m: float, z_m: float) -> tuple[float, float, float]:
    """A point of OpenDRIVE in CARLA's frame, on the grid."""
    return on_grid(x_m), on_grid(-y_m), on_grid(z_m)


def yaw_to_carla(heading_rad: float) -> float:
    """A heading of OpenDRIVE as CARLA's yaw in degrees in [-180, 180), on the grid."""
    yaw_deg = on_grid(math.remainder(-math.degrees(heading_rad), 360.0))
    return -180.0 if yaw_deg == 180.0 else yaw_deg


def from_carla(x_m: float, y_m: float) -> tuple[float, float]:
    """A point of CARLA's ground plane in OpenDRIVE's frame."""
    return x_m, -y_m


def frozen_points(points: list[tuple[float, float, float]]) -> Floats:
    """Points as a read-only array of shape [n, 3]."""
    return frozen(np.array(points, dtype=np.float64).reshape(-1, 3))


def frozen(array: Floats) -> Floats:
    """The same array, read-only."""
    array.flags.writeable = False
    return array
