"""The surface of a junction: one simple ring around all its mouths and corners, so that no gap is left between the turns."""

import math
from dataclasses import dataclass
from typing import Final

from samepath.sim.maps.frames import to_carla
from samepath.sim.maps.lanes import centre, drivable_span, place, stations_m
from samepath.sim.maps.mesh import Point, contains, is_simple, ring_area_m2
from samepath.sim.maps.records import Junction, OpenDrive, Road

_TOUCH_M: Final = 0.3
_FLAT_M: Final = 0.02
_CORNERS_MAX: Final = 2000


@dataclass(frozen=True, slots=True)
class _Mouth:
    """Where an arm meets the junction; first and last corner in the order of rising angle around the junction's middle."""

    first: Point
    last: Point


def junction_ring(document: OpenDrive, junction: Junction) -> tuple[Point, ...] | None:
    """The ring around a flat junction, or None where no simple ring holds all its lanes (then it is drawn lane by lane)."""
    roads = [road for road in document.roads if road.junction_id == junction.id]
    mouths = _mouths(document, junction)
    if len(mouths) < 2 or not roads:
        return None
    edges = [edge for road in roads for edge in _edges(road)]
    ring: list[Point] = []
    for mouth, following in zip(mouths, [*mouths[1:], mouths[0]], strict=True):
        ring.extend((mouth.first, mouth.last))
        ring.extend(_corner(edges, mouth.last, following.first))
    ring = [point for point, after in zip(ring, [*ring[1:], ring[0]], strict=True) if point[:2] != after[:2]]
    return tuple(ring) if _is_sound(ring, roads) else None


def _mouths(document: OpenDrive, junction: Junction) -> list[_Mouth]:
    found: list[_Mouth] = []
    for road in document.roads:
        for link, s_m, section in (
            (road.predecessor, 0.0, road.sections[0]),
            (road.successor, road.length_m, road.sections[-1]),
        ):
            if link is None or link.kind != "junction" or link.id != junction.id:
                continue
            span = drivable_span(road, section, s_m)
            if span is not None:
                left, right = (place(road, s_m, t_m) for t_m in span)
                # CARLA's y points south: rising angle in its numbers meets the left edge of an outgoing road first.
                found.append(_Mouth(left, right) if s_m == 0.0 else _Mouth(right, left))
    if not found:
        return []
    x_m = math.fsum(m.first[0] + m.last[0] for m in found) / (2 * len(found))
    y_m = math.fsum(m.first[1] + m.last[1] for m in found) / (2 * len(found))
    return sorted(found, key=lambda m: math.atan2(m.first[1] + m.last[1] - 2 * y_m, m.first[0] + m.last[0] - 2 * x_m))


def _edges(road: Road) -> list[list[Point]]:
    """The left and right edge of a connecting road's drivable part."""
    left: list[Point] = []
    right: list[Point] = []
    for section in road.sections:
        for s_m in stations_m(road, section):
            span = drivable_span(road, section, s_m)
            if span is not None:
                left.append(place(road, s_m, span[0]))
                right.append(place(road, s_m, span[1]))
    return [edge for edge in (left, right) if edge]


def _corner(edges: list[list[Point]], start: Point, end: Point) -> list[Point]:
    """The kerb line from one mouth to the next: the edge that joins them, or nothing (a straight line)."""
    for edge in edges:
        for line in (edge, edge[::-1]):
            if math.dist(line[0], start) < _TOUCH_M and math.dist(line[-1], end) < _TOUCH_M:
                return line[1:-1]
    return []


def _is_sound(ring: list[Point], roads: list[Road]) -> bool:
    heights_m = [point[2] for point in ring]
    if not 3 <= len(ring) <= _CORNERS_MAX or not is_simple(ring) or ring_area_m2(ring) <= 0.0:
        return False
    for road in roads:
        for section in road.sections:
            for lane in section.lanes:
                if lane.kind != "driving":
                    continue
                for s_m in stations_m(road, section)[1:-1]:
                    middle = centre(road, section, lane, s_m)
                    x_m, y_m, z_m = to_carla(middle.x_m, middle.y_m, middle.z_m)
                    heights_m.append(z_m)
                    if not contains(ring, x_m, y_m):
                        return False
    return max(heights_m) - min(heights_m) < _FLAT_M
