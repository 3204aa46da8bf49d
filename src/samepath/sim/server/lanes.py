"""Which lane is under a point: a grid over the middle lines of driving lanes, for one look-up per vehicle and metre."""

import math
from typing import Final, NamedTuple

import numpy as np

from samepath.sim.maps import RoadMap
from samepath.sim.maps.links import LaneKey

_CELL_M: Final = 8.0


class OnLane(NamedTuple):
    """A lane under a point, where along its road, and how far its middle is."""

    lane: LaneKey
    s_m: float
    away_m: float


class LaneFinder:
    """Finds lanes. ``reach_m`` is how far from a lane's middle a point may be."""

    def __init__(self, road_map: RoadMap, reach_m: float = 6.0) -> None:
        self._reach_m = reach_m
        cells: dict[tuple[int, int], list[tuple[float, ...]]] = {}
        self._lanes: list[LaneKey] = []
        for line in road_map.lanes:
            if line.kind != "driving":
                continue
            number = len(self._lanes)
            self._lanes.append(line.key)
            for (ax, ay, _), (bx, by, _), a_m, b_m in zip(
                line.points[:-1], line.points[1:], line.s_m[:-1], line.s_m[1:], strict=True
            ):
                row = (ax, ay, bx - ax, by - ay, max((bx - ax) ** 2 + (by - ay) ** 2, 1e-12), a_m, b_m - a_m, number)
                for cell in self._around(ax, ay):
                    cells.setdefault(cell, []).append(row)
        self._cells = {cell: np.array(rows) for cell, rows in cells.items()}

    def _around(self, x_m: float, y_m: float) -> list[tuple[int, int]]:
        reach = self._reach_m
        columns = range(math.floor((x_m - reach) / _CELL_M), math.floor((x_m + reach) / _CELL_M) + 1)
        rows = range(math.floor((y_m - reach) / _CELL_M), math.floor((y_m + reach) / _CELL_M) + 1)
        return [(column, row) for column in columns for row in rows]

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
