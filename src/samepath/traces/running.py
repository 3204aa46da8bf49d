"""A quick look at the spread while repeats still come in: preliminary, in plain floating point, but 0 where nothing differs."""

import math

import numpy as np
from numpy.typing import NDArray

from samepath.traces.channels import POSITION
from samepath.traces.records import Repeat

Floats = NDArray[np.float64]


class RunningSpread:
    """Sample deviation of every actor's position at every tick that the first repeat has; later ones are added one by one.

    Welford's method on differences from the first repeat: identical repeats give exactly 0. Pairs of tick and actor that the
    first repeat does not have are left out, which is one reason why the figure is preliminary.
    """

    def __init__(self) -> None:
        self._first: Repeat | None = None
        self._columns: list[int] = []
        self._count = np.empty(0)
        self._mean = self._squares = np.empty((0, 0))

    def add(self, repeat: Repeat) -> None:
        """Take in a repeat."""
        if self._first is None:
            self._first = repeat
            self._columns = [index for index, name in enumerate(repeat.channels) if name in POSITION]
            self._count = np.ones(len(repeat.tick))
            self._mean = np.zeros((len(repeat.tick), len(self._columns)))
            self._squares = np.zeros_like(self._mean)
            return
        here, there = self._common(self._first, repeat)
        self._count[here] += 1
        away = repeat.values[there][:, self._columns] - self._first.values[here][:, self._columns]
        before = away - self._mean[here]
        self._mean[here] += before / self._count[here, None]
        self._squares[here] += before * (away - self._mean[here])

    @property
    def max_sigma_m(self) -> float | None:
        """The largest deviation of any axis so far; None before two repeats can be compared."""
        seen = self._count > 1
        if not seen.any() or not self._columns:
            return None
        variance = self._squares[seen] / (self._count[seen, None] - 1)
        return math.sqrt(max(0.0, float(np.max(variance))))

    @staticmethod
    def _common(a: Repeat, b: Repeat) -> tuple[NDArray[np.intp] | slice, NDArray[np.intp] | slice]:
        """Return the rows of two repeats that are about the same tick and actor."""
        if np.array_equal(a.tick, b.tick) and np.array_equal(a.actor, b.actor):
            return slice(None), slice(None)
        pairs = [np.rec.fromarrays([one.tick, one.actor]) for one in (a, b)]
        _, here, there = np.intersect1d(pairs[0], pairs[1], assume_unique=True, return_indices=True)
        return here, there
