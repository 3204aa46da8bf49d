"""Lanes: where they are at any s, which follows which, and their sampled centre lines, waypoints and spawn points.

Borders and centres are evaluated exactly and in OpenDRIVE's frame; what leaves this module as a sample is in CARLA's frame and
on the grid. How many samples a stretch gets is decided on grid points too, so that the last bit of a sine has no say in it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from samepath.simulator.maps.geometry import (
    Floats,
    cubic_at,
    frozen,
    frozen_points,
    geometry_at,
    on_grid,
    to_carla,
    yaw_to_carla,
)
from samepath.simulator.maps.records import Junction, Lane, LaneSection, OpenDrive, Road, RoadLink

KERB_HEIGHT_M: Final = 0.125
RAISED_KINDS: Final = frozenset({"sidewalk", "curb"})
LINE_STATION_M: Final = 10.0
CURVE_STATION_M: Final = 0.5

SPAWN_LIFT_M: Final = 0.5
SPAWN_SPACING_M: Final = 20.0
SPAWN_MARGIN_M: Final = 10.0
LINE_STEP_M: Final = 0.5
CURVE_STEP_M: Final = 0.25
DOUBLINGS_MAX: Final = 4


class Border(NamedTuple):
    """A lateral coordinate (positive to the left of the reference line) and its slope dt/ds."""

    t_m: float
    slope: float


class CentrePoint(NamedTuple):
    """The middle of a lane in OpenDRIVE's frame; the heading is that of driving, not of the reference line."""

    x_m: float
    y_m: float
    z_m: float
    heading_rad: float
    width_m: float


def width_m(section: LaneSection, lane: Lane, s_m: float) -> float:
    """Width of the lane at ``s_m``, never below 0."""
    piece = cubic_at(lane.widths, s_m - section.start_m)
    return max(0.0, piece.value(s_m - section.start_m)) if piece else 0.0


def borders(road: Road, section: LaneSection, lane: Lane, s_m: float) -> tuple[Border, Border]:
    """Inner (towards the reference line) and outer border: lane offset plus the widths of all lanes inside."""
    inner = outer = _offset(road, s_m)
    sign = 1 if lane.id > 0 else -1
    at_m = s_m - section.start_m
    for lane_id in range(sign, lane.id + sign, sign):
        inner = outer
        outer = _beyond(section, lane_id, inner, at_m)
    return inner, outer


def _offset(road: Road, s_m: float) -> Border:
    """Where the lanes of both sides begin."""
    offset = cubic_at(road.lane_offset, s_m)
    return Border(offset.value(s_m), offset.slope(s_m)) if offset else Border(0.0, 0.0)


def _beyond(section: LaneSection, lane_id: int, inner: Border, at_m: float) -> Border:
    """The outer border of a lane, from its inner one."""
    lane = section.lane(lane_id)
    piece = cubic_at(lane.widths, at_m) if lane else None
    if piece is None:
        return inner
    sign = 1 if lane_id > 0 else -1
    value = piece.value(at_m)
    return Border(inner.t_m + sign * max(0.0, value), inner.slope + sign * (piece.slope(at_m) if value > 0.0 else 0.0))


class SectionBorders:
    """:func:`borders` for all lanes of a section, which ask for the same places one after the other.

    Each border is a sum over the lanes inside; kept, it is the next lane's inner one. Without that, a hundred lanes of a few
    bytes each would cost five thousand sums a place. Of a long road not all places are kept at a time.
    """

    KEPT_MOST: Final = 200_000

    def __init__(self, road: Road, section: LaneSection) -> None:
        self._road, self._section = road, section
        self._known: dict[tuple[bool, float], list[Border]] = {}
        self._count = 0

    def at(self, lane: Lane, s_m: float) -> tuple[Border, Border]:
        """Inner and outer border of a lane."""
        is_left, number = lane.id > 0, abs(lane.id)
        if self._count > self.KEPT_MOST:
            self._known.clear()
            self._count = 0
        known = self._known.setdefault((is_left, s_m), [])
        if not known:
            known.append(_offset(self._road, s_m))
        at_m, before = s_m - self._section.start_m, len(known)
        while len(known) <= number:
            known.append(_beyond(self._section, len(known) if is_left else -len(known), known[-1], at_m))
        self._count += len(known) - before
        return known[max(number - 1, 0)], known[number]


def heights_m(section: LaneSection, lane: Lane, s_m: float) -> tuple[float, float]:
    """Height of the surface above the road at the inner and outer border; a sidewalk without a record gets a kerb."""
    at_m = s_m - section.start_m
    found = None
    for height in lane.heights:
        if found is None or height.s_offset_m <= at_m:
            found = height
    if found is not None:
        return found.inner_m, found.outer_m
    raised_m = KERB_HEIGHT_M if lane.kind in RAISED_KINDS else 0.0
    return raised_m, raised_m


def centre(road: Road, section: LaneSection, lane: Lane, s_m: float, edges: SectionBorders | None = None) -> CentrePoint:
    """The middle of a lane at ``s_m``; ``edges`` are those of the section, where they are asked for again and again.

    A point at lateral coordinate t moves by (1 - curvature * t) along and dt/ds across the reference line per metre of s,
    which gives the heading of a lane that widens or shifts.
    """
    inner, outer = borders(road, section, lane, s_m) if edges is None else edges.at(lane, s_m)
    t_m, slope = 0.5 * (inner.t_m + outer.t_m), 0.5 * (inner.slope + outer.slope)
    pose = road.pose(s_m)
    low_m, high_m = heights_m(section, lane, s_m)
    heading_rad = pose.heading_rad + math.atan2(slope, 1.0 - pose.curvature_per_m * t_m)
    return CentrePoint(
        pose.x_m - t_m * math.sin(pose.heading_rad),
        pose.y_m + t_m * math.cos(pose.heading_rad),
        road.elevation_m(s_m) + 0.5 * (low_m + high_m),
        heading_rad + math.pi if lane.id > 0 else heading_rad,
        abs(outer.t_m - inner.t_m),
    )


def place(road: Road, s_m: float, t_m: float, z_m: float = 0.0) -> tuple[float, float, float]:
    """The point (s, t) of a road, ``z_m`` above it, in CARLA's frame and on the grid."""
    pose = road.pose(s_m)
    return to_carla(
        pose.x_m - t_m * math.sin(pose.heading_rad),
        pose.y_m + t_m * math.cos(pose.heading_rad),
        road.elevation_m(s_m) + z_m,
    )


def drivable_span(road: Road, section: LaneSection, s_m: float) -> tuple[float, float] | None:
    """Lateral coordinates (left, right) of the drivable lanes that touch the reference line; None without any."""
    ends_m: list[float] = []
    found = False
    for sign in (1, -1):
        lane_id = sign
        lane = section.lane(lane_id)
        offset = cubic_at(road.lane_offset, s_m)
        end_m = offset.value(s_m) if offset else 0.0
        while lane is not None and lane.is_drivable:
            found = True
            end_m = borders(road, section, lane, s_m)[1].t_m
            lane_id += sign
            lane = section.lane(lane_id)
        ends_m.append(end_m)
    return (ends_m[0], ends_m[1]) if found else None


def stations_m(road: Road, section: LaneSection) -> tuple[float, ...]:
    """Where surfaces are cut: at every change of a formula, and between as finely as the road bends."""
    cuts = {section.start_m, section.end_m}
    cuts.update(piece.start_m for piece in road.plan)
    cuts.update(piece.start_m for piece in (*road.elevation, *road.lane_offset))
    for lane in section.lanes:
        cuts.update(section.start_m + piece.start_m for piece in lane.widths)
        cuts.update(section.start_m + height.s_offset_m for height in lane.heights)
    inside = sorted(cut for cut in cuts if section.start_m <= cut <= section.end_m)
    result = [inside[0]]
    for start_m, end_m in pairwise(inside):
        if end_m - start_m < 1e-6 and end_m != section.end_m:
            continue
        parts = max(1, math.ceil((end_m - result[-1]) / _station_step_m(road, section, start_m) - 1e-9))
        first_m = result[-1]
        result.extend(first_m + (end_m - first_m) * part / parts for part in range(1, parts))
        result.append(end_m)
    return tuple(result)


def _station_step_m(road: Road, section: LaneSection, s_m: float) -> float:
    pieces = [cubic_at(road.elevation, s_m), cubic_at(road.lane_offset, s_m)]
    pieces.extend(cubic_at(lane.widths, s_m - section.start_m) for lane in section.lanes)
    straight = geometry_at(road.plan, s_m).curve.is_straight and all(piece is None or piece.is_linear for piece in pieces)
    return LINE_STATION_M if straight else CURVE_STATION_M


class LaneKey(NamedTuple):
    """A lane of a section of a road; sorts by road, section, lane."""

    road_id: int
    section_id: int
    lane_id: int


def lane_successors(document: OpenDrive) -> dict[LaneKey, tuple[LaneKey, ...]]:
    """The lanes that can be driven onto from the end of each lane, without repeats, in the order of the file."""
    roads = {road.id: road for road in document.roads}
    junctions = {junction.id: junction for junction in document.junctions}
    return {
        LaneKey(road.id, section.index, lane.id): tuple(dict.fromkeys(_following(road, section.index, lane, roads, junctions)))
        for road in document.roads
        for section in road.sections
        for lane in section.lanes
        if lane.id != 0
    }


def lane_predecessors(successors: dict[LaneKey, tuple[LaneKey, ...]]) -> dict[LaneKey, tuple[LaneKey, ...]]:
    """The same graph, turned round."""
    found: dict[LaneKey, list[LaneKey]] = {key: [] for key in successors}
    for key, following in successors.items():
        for other in following:
            found[other].append(key)
    return {key: tuple(before) for key, before in found.items()}


def _following(
    road: Road, section_id: int, lane: Lane, roads: dict[int, Road], junctions: dict[int, Junction]
) -> Iterator[LaneKey]:
    """Right lanes (negative ids) run with s, left lanes against it."""
    forward = lane.id < 0
    linked = lane.successor if forward else lane.predecessor
    beyond = section_id + (1 if forward else -1)
    if 0 <= beyond < len(road.sections):
        if linked and road.sections[beyond].lane(linked) is not None:  # the centre lane, 0, is no lane to drive onto
            yield LaneKey(road.id, beyond, linked)
        return
    link = road.successor if forward else road.predecessor
    if link is None:
        return
    if link.kind == "junction":
        yield from _through(junctions[link.id], road.id, lane.id, roads)
    elif linked is not None:
        yield from _onto(roads[link.id], link, linked)


def _onto(road: Road, link: RoadLink, lane_id: int) -> Iterator[LaneKey]:
    section = road.sections[0 if link.contact == "start" else -1]
    if lane_id != 0 and section.lane(lane_id) is not None:
        yield LaneKey(road.id, section.index, lane_id)


def _through(junction: Junction, road_id: int, lane_id: int, roads: dict[int, Road]) -> Iterator[LaneKey]:
    for connection in junction.connections:
        if connection.incoming_road == road_id:
            for from_id, to_id in connection.lane_links:
                if from_id == lane_id:
                    target = RoadLink("road", connection.connecting_road, connection.contact)
                    yield from _onto(roads[connection.connecting_road], target, to_id)


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


def lane_lines(road: Road, section: LaneSection) -> Iterator[LaneLine]:
    """The lanes of a section but for the middle, sampled."""
    edges = SectionBorders(road, section)
    return (_lane_line(road, section, lane, edges) for lane in section.lanes if lane.id != 0)


def _lane_line(road: Road, section: LaneSection, lane: Lane, edges: SectionBorders) -> LaneLine:
    """Sample a lane so that neighbours are at most 0.5 m apart, which in bends depends on how far out the lane lies."""
    stations: list[float] = [section.start_m]
    for piece in road.plan:
        start_m, end_m = max(piece.start_m, section.start_m), min(piece.start_m + piece.length_m, section.end_m)
        if end_m - start_m > 1e-6:
            parts = _parts(road, section, lane, (start_m, end_m), edges, bent=not piece.curve.is_straight)
            stations.extend(start_m + (end_m - start_m) * part / parts for part in range(1, parts + 1))
    if section.end_m - stations[-1] > 1e-6 or len(stations) == 1:  # a line has two ends, however short it is
        stations.append(section.end_m)
    stations[-1] = section.end_m
    if lane.id > 0:
        stations.reverse()
    middles = [centre(road, section, lane, s_m, edges) for s_m in stations]
    return LaneLine(
        LaneKey(road.id, section.index, lane.id),
        lane.kind,
        road.junction_id is not None,
        frozen(np.array([on_grid(s_m) for s_m in stations])),
        frozen_points([to_carla(middle.x_m, middle.y_m, middle.z_m) for middle in middles]),
        frozen(np.array([yaw_to_carla(middle.heading_rad) for middle in middles])),
        frozen(np.array([on_grid(middle.width_m) for middle in middles])),
    )


def _parts(
    road: Road, section: LaneSection, lane: Lane, span_m: tuple[float, float], edges: SectionBorders, *, bent: bool
) -> int:
    """Into how many parts a stretch is cut; decided on grid points, so that the last bit of a sine has no say."""
    start_m, end_m = span_m
    parts = math.ceil((end_m - start_m) / (CURVE_STEP_M if bent else LINE_STEP_M))
    for _ in range(DOUBLINGS_MAX if bent else 0):
        stations = [start_m + (end_m - start_m) * part / parts for part in range(parts + 1)]
        middles = [centre(road, section, lane, s_m, edges) for s_m in stations]
        points = [to_carla(middle.x_m, middle.y_m, middle.z_m) for middle in middles]
        if all(math.dist(a, b) <= LINE_STEP_M for a, b in pairwise(points)):
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
