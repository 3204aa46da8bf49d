"""Poses as vectors: forward, right and up, for many poses at once, with the bits of :mod:`samepath.base.trig`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samepath.base import trig
from samepath.base.errors import InputError
from samepath.sim.world.records import Pose

F64 = NDArray[np.float64]


def sincos_deg(angles_deg: F64) -> tuple[F64, F64]:
    """Sines and cosines, each the same bits as :func:`samepath.base.trig.sincos_deg`; products and sums of numpy are exact."""
    size = np.abs(angles_deg)
    if not np.all(size <= trig.LIMIT_DEG):
        raise InputError(f"angles within ±{trig.LIMIT_DEG:g} degrees were wanted, but a larger one came, or none at all")
    k = np.floor(size / 90.0 + 0.5)
    rest_deg = size - 90.0 * k
    r, c = rest_deg * trig._RAD_PER_DEG, rest_deg * trig._RAD_PER_DEG_REST
    z = r * r
    high = trig._S11 + z * (trig._S13 + z * (trig._S15 + z * trig._S17))
    series = trig._S3 + z * (trig._S5 + z * (trig._S7 + z * (trig._S9 + z * high)))
    sine = r + (r * z * series + c * (1.0 - 0.5 * z))
    high = trig._C12 + z * (trig._C14 + z * (trig._C16 + z * trig._C18))
    series = trig._C4 + z * (trig._C6 + z * (trig._C8 + z * (trig._C10 + z * high)))
    half = 0.5 * z
    first = 1.0 - half
    cosine = first + (((1.0 - first) - half) + (z * z * series - r * c))
    quarter = k.astype(np.int64) & 3
    # As in the scalar function: each quarter turn takes (s, c) to (c, 0 - s), and a zero keeps the sign +.
    turned_s = np.choose(quarter, [sine, cosine, 0.0 - sine, 0.0 - cosine])
    turned_c = np.choose(quarter, [cosine, 0.0 - sine, 0.0 - cosine, 0.0 - (0.0 - sine)])
    return np.where(angles_deg < 0.0, 0.0 - turned_s, turned_s), turned_c


def places_and_axes(poses: Sequence[Pose]) -> tuple[F64, F64]:
    """Positions f64[n, 3] and axes f64[n, 3, 3]: rows are the forward, right and up vectors, in CARLA's frame."""
    numbers = np.array(poses, np.float64).reshape(-1, 6)
    (sr, sp, sy), (cr, cp, cy) = (part.T for part in sincos_deg(numbers[:, 3:]))
    axes = np.empty((len(numbers), 3, 3))
    axes[:, 0, 0], axes[:, 0, 1], axes[:, 0, 2] = cp * cy, cp * sy, sp
    axes[:, 1, 0], axes[:, 1, 1], axes[:, 1, 2] = sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, 0.0 - sr * cp
    axes[:, 2, 0], axes[:, 2, 1], axes[:, 2, 2] = 0.0 - cr * sp * cy - sr * sy, sr * cy - cr * sp * sy, cr * cp
    return np.ascontiguousarray(numbers[:, :3]), axes
