"""The log's own resolution: how fine the stored numbers are.

Two identical logs prove that the runs were identical only as finely as the log can tell. Numbers printed with three decimals
lie on a grid of 1 mm; the grid is found from the values themselves, so it does not matter what the log claims to be.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_DECIMALS = 12


class GridKind(StrEnum):
    """What the stored numbers look like."""

    LOSSLESS = "lossless"
    DECIMAL = "decimal"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


@dataclass(frozen=True)
class Resolution:
    """The finest difference the log can show; 0.0 when it holds full float64 numbers."""

    step_m: float
    kind: GridKind

    @property
    def limits_equality(self) -> bool:
        """Can equal logs come from unequal runs?"""
        return self.step_m > 0


class ResolutionFinder:
    """Streams position values and finds the coarsest grid that all of them lie on."""

    def __init__(self) -> None:
        self._decimals = 0
        self._float32 = True
        self._float32_cm = True
        self._largest = 0.0

    def add(self, values: Floats) -> None:
        """Look at more values; NaN (absent) is passed over."""
        finite = values[np.isfinite(values)]
        if finite.size == 0:
            return
        self._largest = max(self._largest, float(np.abs(finite).max()))
        with np.errstate(over="ignore", under="ignore"):  # numbers beyond float32's range are no float32
            self._float32 = self._float32 and bool(np.all(finite.astype(np.float32) == finite))
            # Unreal counts in centimetres: its numbers are 32-bit floats only in that unit.
            as_cm = (finite * 100.0).astype(np.float32).astype(np.float64)
            self._float32_cm = self._float32_cm and bool(np.all(as_cm / 100.0 == finite))
        while self._decimals <= MAX_DECIMALS and not _on_grid(finite, self._decimals):
            self._decimals += 1

    def result(self) -> Resolution:
        """Name the grid of what has been seen."""
        if self._decimals <= MAX_DECIMALS:
            return Resolution(10.0**-self._decimals, GridKind.DECIMAL)
        if self._float32:
            return Resolution(float(np.spacing(np.float32(self._largest))), GridKind.FLOAT32)
        if self._float32_cm:
            return Resolution(float(np.spacing(np.float32(self._largest * 100.0))) / 100.0, GridKind.FLOAT32)
        return Resolution(0.0, GridKind.FLOAT64)


def _on_grid(values: Floats, decimals: int) -> bool:
    """Is every value the float64 nearest to a decimal number with so many decimals?

    k / 10**d is correctly rounded for whole k below 2**53, so it equals what any correct parser makes of the printed text.
    """
    scale = 10.0**decimals
    with np.errstate(over="ignore"):  # what overflows is above 2**53 and on no grid
        whole = np.rint(values * scale)
    return bool(np.all(np.abs(whole) < 2.0**53) and np.all(whole / scale == values))
