"""Places and axes of poses, compiled: hundreds of cameras and actors are turned at every tick.

Bit for bit what :func:`samepath.simulator.physics.frames.places_and_axes` gives (a test compares them): the same sums and
products in the same order, of the same coefficients, which are handed in, as compiled code is kept by this folder's sources.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from samepath.core import trig
from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.simulator.sensors.raster.arrays import F64, Number
from samepath.simulator.sensors.raster.compiled import compiled, compiled_entry

_SERIES: Final = np.array([
    trig._RAD_PER_DEG, trig._RAD_PER_DEG_REST,
    trig._S3, trig._S5, trig._S7, trig._S9, trig._S11, trig._S13, trig._S15, trig._S17,
    trig._C4, trig._C6, trig._C8, trig._C10, trig._C12, trig._C14, trig._C16, trig._C18,
])  # fmt: skip


def places_and_axes(poses: Sequence[Pose]) -> tuple[F64, F64]:
    """Positions f64[n, 3] and axes f64[n, 3, 3]: rows are the forward, right and up vectors, in CARLA's frame."""
    numbers = np.fromiter(chain.from_iterable(poses), np.float64, 6 * len(poses)).reshape(-1, 6)
    place, axes = np.empty((len(poses), 3)), np.empty((len(poses), 3, 3))
    if not _turn(numbers, _SERIES, trig.LIMIT_DEG, place, axes):
        raise InputError(f"angles within ±{trig.LIMIT_DEG:g} degrees were wanted")
    return place, axes


@compiled_entry
def _turn(numbers: F64, series: F64, limit_deg: Number, place: F64, axes: F64) -> bool:
    """Write places and axes; False where an angle is out of range or no number."""
    for i in range(numbers.shape[0]):
        for k in range(3):
            place[i, k] = numbers[i, k]
            if not abs(numbers[i, 3 + k]) <= limit_deg:
                return False
        sr, cr = _sine_and_cosine(numbers[i, 3], series)
        sp, cp = _sine_and_cosine(numbers[i, 4], series)
        sy, cy = _sine_and_cosine(numbers[i, 5], series)
        axes[i, 0, 0], axes[i, 0, 1], axes[i, 0, 2] = cp * cy, cp * sy, sp
        axes[i, 1, 0], axes[i, 1, 1], axes[i, 1, 2] = sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, 0.0 - sr * cp
        axes[i, 2, 0], axes[i, 2, 1], axes[i, 2, 2] = 0.0 - cr * sp * cy - sr * sy, sr * cy - cr * sp * sy, cr * cp
    return True


@compiled
def _sine_and_cosine(angle_deg: Number, series: F64) -> Number:
    size = abs(angle_deg)
    quarters = np.floor(size / 90.0 + 0.5)
    rest_deg = size - 90.0 * quarters
    r, c = rest_deg * series[0], rest_deg * series[1]
    z = r * r
    high = series[6] + z * (series[7] + z * (series[8] + z * series[9]))
    odd = series[2] + z * (series[3] + z * (series[4] + z * (series[5] + z * high)))
    sine = r + (r * z * odd + c * (1.0 - 0.5 * z))
    high = series[14] + z * (series[15] + z * (series[16] + z * series[17]))
    even = series[10] + z * (series[11] + z * (series[12] + z * (series[13] + z * high)))
    half = 0.5 * z
    first = 1.0 - half
    cosine = first + (((1.0 - first) - half) + (z * z * even - r * c))
    # What turning (cosine, sine) by quarters gives, each change of sign made by 0 - x.
    k = np.int64(quarters) & 3
    if k == 1:
        sine, cosine = cosine, 0.0 - sine
    elif k == 2:
        sine, cosine = 0.0 - sine, 0.0 - cosine
    elif k == 3:
        sine, cosine = 0.0 - cosine, 0.0 - (0.0 - sine)
    return (0.0 - sine if angle_deg < 0.0 else sine), cosine
