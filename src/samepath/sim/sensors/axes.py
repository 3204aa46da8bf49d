"""Poses as vectors: forward, right and up, for many poses at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samepath.base.trig_arrays import sincos_deg
from samepath.sim.world.records import Pose

F64 = NDArray[np.float64]


def places_and_axes(poses: Sequence[Pose]) -> tuple[F64, F64]:
    """Positions f64[n, 3] and axes f64[n, 3, 3]: rows are the forward, right and up vectors, in CARLA's frame."""
    numbers = np.array(poses, np.float64).reshape(-1, 6)
    (sr, sp, sy), (cr, cp, cy) = (part.T for part in sincos_deg(numbers[:, 3:]))
    axes = np.empty((len(numbers), 3, 3))
    axes[:, 0, 0], axes[:, 0, 1], axes[:, 0, 2] = cp * cy, cp * sy, sp
    axes[:, 1, 0], axes[:, 1, 1], axes[:, 1, 2] = sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, 0.0 - sr * cp
    axes[:, 2, 0], axes[:, 2, 1], axes[:, 2, 2] = 0.0 - cr * sp * cy - sr * sy, sr * cy - cr * sp * sy, cr * cp
    return np.ascontiguousarray(numbers[:, :3]), axes
