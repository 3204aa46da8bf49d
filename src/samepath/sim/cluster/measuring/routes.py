"""Closed routes over the lanes of a map: around every block, always to the right, so that no two of them cross.

Each lane has one follower, the one that turns most to the right; where people drive on the right those followers form rings,
which touch but do not cross. Along them vehicles can drive for ever without lights or rules of priority.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.sim.control.vehicle import curvatures_per_m
from samepath.sim.maps import RoadMap
from samepath.sim.maps.lane_lines import LaneLine
from samepath.sim.maps.links import LaneKey, lane_successors
from samepath.sim.navigation.paths import Path, interpolate

Floats = NDArray[np.float64]

SPACING_M: Final = 0.5
_CRUISE_MPS: Final = 7.0
_LATERAL_MPS2: Final = 1.2
_BRAKING_MPS2: Final = 1.5
_DRIVING: Final = "driving"


@dataclass(frozen=True, eq=False)
class Route:
    """A closed route: points every half metre in the direction of driving, float64[n, 2]; the first follows the last."""

    points: Floats

    @property
    def length_m(self) -> float:
        """Once around."""
        return SPACING_M * len(self.points)

    @cached_property
    def xy(self) -> list[tuple[float, float]]:
        """The points as plain numbers."""
        return [(x, y) for x, y in self.points.tolist()]

    @cached_property
    def yaw_deg(self) -> Floats:
        """The direction of driving at each point."""
        ahead = np.roll(self.points, -1, axis=0) - self.points
        return np.degrees(np.arctan2(ahead[:, 1], ahead[:, 0]))

    @cached_property
    def speeds_mps(self) -> list[float]:
        """The speed at each point: less in bends, and little enough before them that gentle braking does."""
        count = len(self.points)
        twice = Path(np.concatenate([self.points, self.points]))
        bends = np.array(curvatures_per_m(twice, 3.0))[count // 2 : count // 2 + count]
        bends = np.roll(bends, count // 2)
        squares = np.minimum(_CRUISE_MPS**2, _LATERAL_MPS2 / np.maximum(bends, 1e-6)).tolist()
        for index in range(2 * count - 2, -1, -1):
            after = squares[(index + 1) % count]
            squares[index % count] = min(squares[index % count], after + 2.0 * _BRAKING_MPS2 * SPACING_M)
        return [float(one) ** 0.5 for one in squares]


def routes_of(road_map: RoadMap) -> tuple[Route, ...]:
    """All closed routes of a map, in the order of its lanes."""
    lines = {line.key: line for line in road_map.lanes if line.kind == _DRIVING}
    after = lane_successors(road_map.document)
    follower = {key: _rightmost([lines[one] for one in after[key] if one in lines]) for key in lines}
    found: list[list[LaneKey]] = []
    seen: set[LaneKey] = set()
    for start in lines:
        ring: list[LaneKey] = []
        at: LaneKey | None = start
        while at is not None and at not in seen:
            seen.add(at)
            ring.append(at)
            at = follower[at]
        if at in ring:
            found.append(ring[ring.index(at) :])
    if not found:
        raise InputError(f"a map on which one can drive in circles was wanted, but {road_map.name} has no closed route")
    return tuple(_route([lines[key] for key in ring]) for ring in found)


def _rightmost(lines: list[LaneLine]) -> LaneKey | None:
    """The lane that turns most to the right; of equals the first."""
    turns = [float((line.yaw_deg[-1] - line.yaw_deg[0] + 180.0) % 360.0 - 180.0) for line in lines]
    return lines[turns.index(max(turns))].key if lines else None


def _route(ring: list[LaneLine]) -> Route:
    points = np.concatenate([line.points[:-1, :2] for line in ring] + [ring[0].points[:1, :2]])
    even = interpolate(points, SPACING_M)
    return Route(even[:-1])
