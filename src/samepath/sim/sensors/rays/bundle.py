"""A bundle of rays: all from one point, in the frame of the sensor, sorted so that a face finds those that may meet it.

The elevation of a ray is that of its row and its azimuth that of its column. Directions are x forward, y right, z up:

    (cos elevation cos azimuth, cos elevation sin azimuth, sin elevation).

A LiDAR has one row per channel and every column in each; a radar has a row and a column of its own for every ray. Angles are
compared without trigonometry: by the share of y in |x| + |y|, counted on from quadrant to quadrant (0..4), and the share of z
in |z| + the distance on the ground (-1..1). Both grow with the angle. Tables give the rows and columns of each small range.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

BINS: Final = 8192


@dataclass(frozen=True, eq=False, slots=True)
class Bundle:
    """Rays, rows by rising elevation, columns by rising azimuth.

    Row ``r`` holds columns ``first[r]`` up to ``last[r]``; the ray of its column ``c`` has the number ``number[r] + c``.
    ``rows_before`` i32[BINS + 1] and ``columns_before`` i32[BINS + 1] count what lies below each small range of angles.
    """

    row_cos: F64
    row_sin: F64
    column_cos: F64
    column_sin: F64
    first: I32
    last: I32
    number: I32
    count: int
    rows_before: I32
    columns_before: I32

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Everything as the compiled loops take it."""
        turns = (self.row_cos, self.row_sin, self.column_cos, self.column_sin)
        return (*turns, self.first, self.last, self.number, self.rows_before, self.columns_before)


def fan(sin_elevation: F64, cos_elevation: F64, sin_azimuth: F64, cos_azimuth: F64) -> tuple[Bundle, NDArray[np.intp]]:
    """Every elevation with every azimuth; the second value has the number of each ray, by row and column as they were given."""
    rows, columns = _by_elevation(sin_elevation, cos_elevation), _by_azimuth(sin_azimuth, cos_azimuth)
    height, width = len(rows), len(columns)
    bundle = Bundle(
        row_cos=cos_elevation[rows],
        row_sin=sin_elevation[rows],
        column_cos=cos_azimuth[columns],
        column_sin=sin_azimuth[columns],
        first=np.zeros(height, np.int32),
        last=np.full(height, width, np.int32),
        number=np.arange(height, dtype=np.int32) * np.int32(width),
        count=height * width,
        rows_before=_before(_elevation_share(sin_elevation, cos_elevation)[rows], -1.0, 1.0),
        columns_before=_before(_azimuth_share(sin_azimuth, cos_azimuth)[columns], 0.0, 4.0),
    )
    return bundle, np.argsort(rows)[:, None] * width + np.argsort(columns)[None, :]


def sheaf(sin_elevation: F64, cos_elevation: F64, sin_azimuth: F64, cos_azimuth: F64) -> tuple[Bundle, NDArray[np.intp]]:
    """Single rays, each with its own elevation and azimuth; the second value has the number of each ray."""
    rows, columns = _by_elevation(sin_elevation, cos_elevation), _by_azimuth(sin_azimuth, cos_azimuth)
    count = len(rows)
    place = np.argsort(columns)[rows].astype(np.int32)
    bundle = Bundle(
        row_cos=cos_elevation[rows],
        row_sin=sin_elevation[rows],
        column_cos=cos_azimuth[columns],
        column_sin=sin_azimuth[columns],
        first=place,
        last=place + np.int32(1),
        number=np.arange(count, dtype=np.int32) - place,
        count=count,
        rows_before=_before(_elevation_share(sin_elevation, cos_elevation)[rows], -1.0, 1.0),
        columns_before=_before(_azimuth_share(sin_azimuth, cos_azimuth)[columns], 0.0, 4.0),
    )
    return bundle, np.argsort(rows)


def _azimuth_share(sine: F64, cosine: F64) -> F64:
    """The azimuth's stand-in, as :func:`samepath.sim.sensors.rays.cast.azimuth_share` has it."""
    share = np.abs(sine) / (np.abs(cosine) + np.abs(sine))
    half = np.where(cosine >= 0.0, share, 2.0 - share)
    found: F64 = np.where(sine >= 0.0, half, 4.0 - half)
    return found


def _elevation_share(sine: F64, cosine: F64) -> F64:
    share: F64 = sine / (np.abs(sine) + cosine)
    return share


def _by_azimuth(sine: F64, cosine: F64) -> NDArray[np.intp]:
    return np.argsort(_azimuth_share(sine, cosine), kind="stable")


def _by_elevation(sine: F64, cosine: F64) -> NDArray[np.intp]:
    return np.argsort(_elevation_share(sine, cosine), kind="stable")


def _before(shares: F64, low: float, high: float) -> I32:
    """How many of the rising ``shares`` lie in ranges before each of ``BINS`` equal ones."""
    ranges = np.clip(((shares - low) * (BINS / (high - low))).astype(np.int64), 0, BINS - 1)
    return np.searchsorted(ranges, np.arange(BINS + 1)).astype(np.int32)
