"""Lanes as numbers: waypoints, sampled centre lines, and the places where vehicles can appear."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.sim.maps.frames import Floats, frozen, frozen_points, on_grid, to_carla, yaw_to_carla
from samepath.sim.maps.lanes import centre
from samepath.sim.maps.links import LaneKey
from samepath.sim.maps.records import Lane, LaneSection, OpenDrive, Road

SPAWN_LIFT_M: Final = 0.5
SPAWN_SPACING_M: Final = 20.0
SPAWN_MARGIN_M: Final = 10.0
_STEP_M: Final = 0.5
_CURVE_STEP_M: Final = 0.25
_DOUBLINGS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Waypoint:
    """A point in the middle of a lane; ``s_m`` is the road's coordinate, ``yaw_deg`` the direction of driving."""

    road_id: int
    section_id: int
    lane_id: int
    s_m: float
    x_m: float
    y_m: float
    z_m: float
    yaw_deg: float
    lane_width_m: float
    is_junction: bool
    lane_type: str

    @property
    def key(self) -> LaneKey:
        """The lane it lies on."""
        return LaneKey(self.road_id, self.section_id, self.lane_id)


@dataclass(frozen=True, eq=False, slots=True)
class LaneLine:
    """The centre line of a lane in the direction of driving: points at most 0.5 m apart; arrays are read-only."""

    key: LaneKey
    kind: str
    is_junction: bool
    s_m: Floats
    points: Floats
    yaw_deg: Floats
    width_m: Floats


def lane_line(road: Road, section: LaneSection, lane: Lane) -> LaneLine:
    """Sample a lane so that neighbours are at most 0.5 m apart, which in bends depends on how far out the lane lies."""
    stations: list[float] = [section.start_m]
    for piece in road.plan:
        start_m, end_m = max(piece.start_m, section.start_m), min(piece.start_m + piece.length_m, section.end_m)
        if end_m - start_m > 1e-6:
            parts = _parts(road, section, lane, (start_m, end_m), bent=not piece.curve.is_straight)
            stations.extend(start_m + (end_m - start_m) * part / parts for part in range(1, parts + 1))
    if section.end_m - stations[-1] > 1e-6:
        stations.append(section.end_m)
    stations[-1] = section.end_m
    if lane.id > 0:
        stations.reverse()
    middles = [centre(road, section, lane, s_m) for s_m in stations]
    return LaneLine(
        LaneKey(road.id, section.index, lane.id),
        lane.kind,
        road.junction_id is not None,
        frozen(np.array([on_grid(s_m) for s_m in stations])),
        frozen_points([to_carla(middle.x_m, middle.y_m, middle.z_m) for middle in middles]),
        frozen(np.array([yaw_to_carla(middle.heading_rad) for middle in middles])),
        frozen(np.array([on_grid(middle.width_m) for middle in middles])),
    )


def _parts(road: Road, section: LaneSection, lane: Lane, span_m: tuple[float, float], *, bent: bool) -> int:
    """Into how many parts a stretch is cut; decided on grid points, so that the last bit of a sine has no say."""
    start_m, end_m = span_m
    parts = math.ceil((end_m - start_m) / (_CURVE_STEP_M if bent else _STEP_M))
    for _ in range(_DOUBLINGS_MAX if bent else 0):
        middles = [centre(road, section, lane, start_m + (end_m - start_m) * part / parts) for part in range(parts + 1)]
        points = [to_carla(middle.x_m, middle.y_m, middle.z_m) for middle in middles]
        if all(math.dist(a, b) <= _STEP_M for a, b in pairwise(points)):
            break
        parts *= 2
    return parts


def spawn_points(document: OpenDrive) -> Iterator[tuple[float, float, float, float]]:
    """Where vehicles can appear; see :attr:`RoadMap.spawn_points`."""
    for road in document.roads:
        if road.junction_id is not None:
            continue
        for section in road.sections:
            for lane in section.lanes:
                room_m = section.end_m - section.start_m - 2 * SPAWN_MARGIN_M
                if lane.kind != "driving" or room_m < 0.0:
                    continue
                for index in range(int(room_m / SPAWN_SPACING_M) + 1):
                    middle = centre(road, section, lane, section.start_m + SPAWN_MARGIN_M + index * SPAWN_SPACING_M)
                    x_m, y_m, z_m = to_carla(middle.x_m, middle.y_m, middle.z_m + SPAWN_LIFT_M)
                    yield x_m, y_m, z_m, yaw_to_carla(middle.heading_rad)
