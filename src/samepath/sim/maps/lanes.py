"""Where lanes are: exact evaluation of borders and centres at any s, still in OpenDRIVE's frame."""

import math
from itertools import pairwise
from typing import Final, NamedTuple

from samepath.sim.maps.frames import to_carla
from samepath.sim.maps.geometry import cubic_at, geometry_at
from samepath.sim.maps.records import Lane, LaneSection, Road

KERB_HEIGHT_M: Final = 0.125
RAISED_KINDS: Final = frozenset({"sidewalk", "curb"})
_LINE_STATION_M: Final = 10.0
_CURVE_STATION_M: Final = 0.5


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
    offset = cubic_at(road.lane_offset, s_m)
    t_m, slope = (offset.value(s_m), offset.slope(s_m)) if offset else (0.0, 0.0)
    inner = outer = Border(t_m, slope)
    sign = 1 if lane.id > 0 else -1
    at_m = s_m - section.start_m
    for lane_id in range(sign, lane.id + sign, sign):
        between = section.lane(lane_id)
        piece = cubic_at(between.widths, at_m) if between else None
        inner = outer
        if piece is not None:
            value = piece.value(at_m)
            outer = Border(inner.t_m + sign * max(0.0, value), inner.slope + sign * (piece.slope(at_m) if value > 0.0 else 0.0))
    return inner, outer


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


def centre(road: Road, section: LaneSection, lane: Lane, s_m: float) -> CentrePoint:
    """The middle of a lane at ``s_m``.

    A point at lateral coordinate t moves by (1 - curvature * t) along and dt/ds across the reference line per metre of s,
    which gives the heading of a lane that widens or shifts.
    """
    inner, outer = borders(road, section, lane, s_m)
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
    return _LINE_STATION_M if straight else _CURVE_STATION_M
