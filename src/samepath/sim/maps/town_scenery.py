"""What stands along the streets of the town: lamps, trees, houses, garden walls; all where there is room."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from samepath.sim.maps.writer import LANE_WIDTH_M, SIDEWALK_WIDTH_M, thing

LAMP_EVERY_M, TREE_EVERY_M, HOUSE_EVERY_M = 38.0, 26.0, 24.0
# Beyond the sidewalk: lamps, trees, the middles of houses.
LAMP_M, TREE_M, HOUSE_M = 0.4, 3.0, 10.5
# From the middle of a house to the sidewalk of any street, and to the middle of any other house.
HOUSE_CLEAR_M, HOUSE_APART_M = 9.75, 20.0
_SMALL_CLEAR_M: Final = 0.3
_ARC_PARTS: Final = 6


@dataclass(frozen=True, slots=True)
class Run:
    """A straight or bent piece of a street: where it starts and from which s on, which way it runs, how it bends."""

    road_id: int
    lanes: int
    s_m: float
    x_m: float
    y_m: float
    heading_rad: float
    length_m: float
    curvature_per_m: float = 0.0

    def at(self, along_m: float, left_m: float = 0.0) -> tuple[float, float]:
        """A point ``along_m`` further and ``left_m`` to the left."""
        half_rad = 0.5 * self.curvature_per_m * along_m
        chord_m = along_m * (math.sin(half_rad) / half_rad if half_rad else 1.0)
        heading_rad = self.heading_rad + 2.0 * half_rad
        return (
            self.x_m + chord_m * math.cos(self.heading_rad + half_rad) - left_m * math.sin(heading_rad),
            self.y_m + chord_m * math.sin(self.heading_rad + half_rad) + left_m * math.cos(heading_rad),
        )

    @property
    def edge_m(self) -> float:
        """From the middle of the street to the outer edge of its sidewalk."""
        return self.lanes * LANE_WIDTH_M + SIDEWALK_WIDTH_M


def sights(runs: Sequence[Run], squares: Sequence[tuple[float, float, float]]) -> dict[int, list[str]]:
    """Objects for each road. ``squares`` are further places to keep free: x, y and how far around."""
    segments = [_segment(run, part) for run in runs for part in range(_ARC_PARTS if run.curvature_per_m else 1)]
    found: dict[int, list[str]] = {run.road_id: [] for run in runs}
    houses: list[tuple[float, float]] = []
    numbers = {run.road_id: count(100 * run.road_id) for run in runs}

    def clear_m(x_m: float, y_m: float) -> float:
        streets = min(_distance_m(x_m, y_m, a, b) - edge_m for a, b, edge_m in segments)
        return min(streets, *(math.dist((x_m, y_m), (sx, sy)) - around_m for sx, sy, around_m in squares))

    for run in runs:
        if run.curvature_per_m:
            continue
        add = found[run.road_id].append
        number = numbers[run.road_id]
        for index, (s_m, side) in enumerate(_places(run, HOUSE_EVERY_M)):
            t_m = side * (run.edge_m + HOUSE_M)
            x_m, y_m = run.at(s_m, t_m)
            apart_m = min((math.dist((x_m, y_m), other) for other in houses), default=math.inf)
            if clear_m(x_m, y_m) >= HOUSE_CLEAR_M and apart_m >= HOUSE_APART_M:
                houses.append((x_m, y_m))
                size = f'length="{14 + index % 3}" width="{9 + index % 2}" height="{6 + 3 * (index % 4)}"'
                add(thing(next(number), "building", run.s_m + s_m, t_m, size))
                wall_m = side * (run.edge_m + 2.0)
                if index % 4 == 1 and clear_m(*run.at(s_m - 4.0, wall_m)) > 1.0 and clear_m(*run.at(s_m + 4.0, wall_m)) > 1.0:
                    add(thing(next(number), "wall", run.s_m + s_m, wall_m, 'length="8" width="0.3" height="1"'))
        for kind, every_m, beyond_m, size in (
            ("pole", LAMP_EVERY_M, LAMP_M, 'radius="0.1" height="6"'),
            ("tree", TREE_EVERY_M, TREE_M, 'radius="1.5" height="6"'),
        ):
            for s_m, side in _places(run, every_m):
                t_m = side * (run.edge_m + beyond_m)
                if clear_m(*run.at(s_m, t_m)) >= min(_SMALL_CLEAR_M, beyond_m):
                    add(thing(next(number), kind, run.s_m + s_m, t_m, size))
    return found


def _places(run: Run, every_m: float) -> Iterator[tuple[float, float]]:
    """Places along a street on its left and right, centred between its ends, the right ones half a step on."""
    steps = int((run.length_m - 6.0) / every_m)
    first_m = 0.5 * (run.length_m - steps * every_m)
    for step in range(steps + 1):
        for side, ahead_m in ((1.0, 0.0), (-1.0, 0.5 * every_m)):
            s_m = round(first_m + step * every_m + ahead_m, 3)
            if s_m <= run.length_m - 3.0:
                yield s_m, side


def _segment(run: Run, part: int) -> tuple[tuple[float, float], tuple[float, float], float]:
    parts = _ARC_PARTS if run.curvature_per_m else 1
    return run.at(run.length_m * part / parts), run.at(run.length_m * (part + 1) / parts), run.edge_m


def _distance_m(x_m: float, y_m: float, a: tuple[float, float], b: tuple[float, float]) -> float:
    step_x, step_y = b[0] - a[0], b[1] - a[1]
    part = ((x_m - a[0]) * step_x + (y_m - a[1]) * step_y) / (step_x * step_x + step_y * step_y)
    part = min(max(part, 0.0), 1.0)
    return math.hypot(x_m - a[0] - part * step_x, y_m - a[1] - part * step_y)
