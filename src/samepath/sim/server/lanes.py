"""Which lane is under a point: a grid over the middle lines of driving lanes, for one look-up per vehicle and metre."""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.sim.maps import RoadMap
from samepath.sim.maps.links import LaneKey

_CELL_M: Final = 8.0
_SHORT_M2: Final = 1e-12


class OnLane(NamedTuple):
    """A lane under a point, where along its road, and how far its middle is."""

    lane: LaneKey
    s_m: float
    away_m: float


class LaneFinder:
    """Finds lanes. ``reach_m`` is how far from a lane's middle a point may be."""

    def __init__(self, road_map: RoadMap, reach_m: float = 6.0) -> None:
        self._reach_m = reach_m
        lines = [line for line in road_map.lanes if line.kind == "driving"]
        self._lanes = [line.key for line in lines]
        rows = [_pieces(line.points[:, :2], line.s_m, number) for number, line in enumerate(lines)]
        self._cells = self._grid(np.vstack(rows)) if rows else {}

    def _grid(self, rows: NDArray[np.float64]) -> dict[tuple[int, int], NDArray[np.float64]]:
        """The pieces of lanes by every cell that they can be reached from; in each cell in the order of the map."""
        low = np.floor((rows[:, :2] - self._reach_m) / _CELL_M).astype(np.int64)
        high = np.floor((rows[:, :2] + self._reach_m) / _CELL_M).astype(np.int64)
        cells, numbers = [], []
        span_x, span_y = (int(one) + 1 for one in (high - low).max(axis=0))
        for step in ((x, y) for x in range(span_x) for y in range(span_y)):
            here = low + step
            chosen = np.flatnonzero((here <= high).all(axis=1))
            cells.append(here[chosen])
            numbers.append(chosen)
        keys, order = np.vstack(cells), np.concatenate(numbers)
        turn = np.lexsort((order, keys[:, 1], keys[:, 0]))
        keys, order = keys[turn], order[turn]
        starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])
        groups = np.split(order, starts[1:])
        return {(int(x), int(y)): rows[group] for (x, y), group in zip(keys[starts], groups, strict=True)}

    def find(self, x_m: float, y_m: float) -> OnLane | None:
        """Return the lane whose middle is nearest; ties go to the one that comes first in the map."""
        rows = self._cells.get((math.floor(x_m / _CELL_M), math.floor(y_m / _CELL_M)))
        if rows is None:
            return None
        dx, dy = x_m - rows[:, 0], y_m - rows[:, 1]
        part = np.clip((dx * rows[:, 2] + dy * rows[:, 3]) / rows[:, 4], 0.0, 1.0)
        away = (dx - part * rows[:, 2]) ** 2 + (dy - part * rows[:, 3]) ** 2
        best = int(np.argmin(away))
        if away[best] > self._reach_m**2:
            return None
        row = rows[best]
        return OnLane(self._lanes[int(row[7])], float(row[5] + part[best] * row[6]), math.sqrt(float(away[best])))


def _pieces(points: NDArray[np.float64], s_m: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """Start, step, squared length, s and its step, and the lane's number of every piece of a line."""
    step = np.diff(points, axis=0)
    square = np.maximum((step**2).sum(axis=1), _SHORT_M2)
    return np.column_stack([points[:-1], step, square, s_m[:-1], np.diff(s_m), np.full(len(step), float(number))])
