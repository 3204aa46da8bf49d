"""Where people walk on a map: sidewalks, crossings and roads in few, large convex polygons.

Every street is cut across at the edges of its crossings and as finely as it bends, and lengthwise into sidewalk, ramp,
carriageway, ramp, sidewalk; neighbours share their corners. The sidewalk keeps the radius of a person away from kerb and
walls; the ramp joins its height to that of the road. A junction is filled between the ends of its roads and the sidewalks
around it, corner by corner, so that people get from every street to every other.

Polygons run clockwise for somebody who sees x to the right and CARLA's y upwards on paper; an edge's neighbour is the other
polygon with the same two corners. The server sends them to CARLA's client as a file (``simulator/server/navmesh.py``), and the
walkers of our own traffic go over them (``simulator/traffic``).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.maps.lanes import borders, heights_m, place
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.maps.records import LaneSection, OpenDrive, Road, RoadObject
from samepath.simulator.maps.surfaces import RING_CORNERS_MAX, Point, is_simple, ring_area_m2, triangulate

Floats = NDArray[np.float64]

PERSON_RADIUS_M: Final = 0.3
SIDEWALK, CROSSWALK, ROAD = (1, 0x02), (2, 0x04), (3, 0x08)  # CARLA's area and flags
_SAG_M: Final = 0.05
_STRAIGHT_M: Final = 20.0
_BENT_M: Final = 2.0
_NARROW_M: Final = 0.1
_MERGE_M: Final = 0.02
_STEEP_M: Final = 0.5
_RAMP_M: Final = PERSON_RADIUS_M
_JOIN_M: Final = 0.05
_CROSSING_M: Final = 3.0
_CROSSING_REACH_M: Final = 20.0


class _StreetLine(NamedTuple):
    """A line along a street: lateral coordinate and height above the road."""

    t_m: float
    z_m: float


class _Band(NamedTuple):
    """A strip along a street, left and right border."""

    kind: tuple[int, int]
    left: _StreetLine
    right: _StreetLine


class WalkPolygon(NamedTuple):
    """A convex polygon of corner numbers, with CARLA's area and flags."""

    corners: tuple[int, ...]
    area: int
    flags: int


@dataclass(frozen=True, eq=False)
class WalkMesh:
    """Corners in CARLA's frame, float64[n, 3], and the polygons over them."""

    points: Floats
    polygons: tuple[WalkPolygon, ...]


def neighbours(polygons: Sequence[WalkPolygon]) -> list[list[int]]:
    """For each edge of each polygon the polygon beyond it, counted from 1; 0: none, or more than one."""
    owners: dict[tuple[int, int], list[int]] = {}
    for number, polygon in enumerate(polygons):
        for edge in _edges(polygon):
            owners.setdefault(edge, []).append(number)
    found = []
    for number, polygon in enumerate(polygons):
        row = []
        for edge in _edges(polygon):
            both = owners[edge]
            row.append(both[0] + both[1] - number + 1 if len(both) == 2 else 0)
        found.append(row)
    return found


def _edges(polygon: WalkPolygon) -> list[tuple[int, int]]:
    corners = polygon.corners
    return [(min(a, b), max(a, b)) for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)]


def walk_mesh(road_map: RoadMap) -> WalkMesh:
    """All polygons, in the order of the file: roads, then what lies between their ends."""
    corners = _Corners()
    polygons: list[WalkPolygon] = []
    document = road_map.document
    mouths = _mouths(document)
    at_mouths = _crossings_at_mouths(road_map, mouths)
    for road in document.roads:
        crossings = [_crossing_span_m(thing) for thing in road.objects if thing.kind == "crosswalk"]
        crossings += at_mouths.get(road.id, [])
        for section in road.sections:
            for low_m, high_m in pairwise(_stations_m(road, section, crossings)):
                middle_m = 0.5 * (low_m + high_m)
                crossed = any(start_m <= middle_m <= end_m for start_m, end_m in crossings)
                near, far = (list(_bands(road, section, s_m)) for s_m in (low_m, high_m))
                # A strip begins or ends between these two cuts: there is nothing on the other side to join it to.
                if [band.kind for band in near] != [band.kind for band in far]:
                    continue
                for first, last in zip(near, far, strict=True):
                    kind = CROSSWALK if crossed and first.kind == ROAD else first.kind
                    ring = (
                        _point(road, low_m, first.left), _point(road, low_m, first.right),
                        _point(road, high_m, last.right), _point(road, high_m, last.left),
                    )  # fmt: skip
                    polygons.extend(_polygons(corners, ring, kind))
    for junction in document.junctions:
        around = _around(document, junction.id, mouths.get(junction.id, []))
        for triangle in triangulate(around) if around else ():
            polygons.extend(_polygons(corners, triangle, ROAD))
    return WalkMesh(np.array(corners.points, np.float64).reshape(-1, 3), tuple(polygons))


class _RoadMouth(NamedTuple):
    """Where a road meets a junction: the corners of its carriageway's cells there, in the order of a walk around it."""

    road: Road
    s_m: float
    points: tuple[Point, ...]

    @property
    def middle(self) -> tuple[float, float]:
        first, last = self.points[0], self.points[-1]
        return 0.5 * (first[0] + last[0]), 0.5 * (first[1] + last[1])


def _mouths(document: OpenDrive) -> dict[int, list[_RoadMouth]]:
    """All of them, by junction, in the order of the file."""
    found: dict[int, list[_RoadMouth]] = {}
    for road in document.roads:
        if road.junction_id is not None:
            continue
        ends = ((road.predecessor, 0.0, road.sections[0]), (road.successor, road.length_m, road.sections[-1]))
        for link, s_m, section in ends:
            if link is None or link.kind != "junction":
                continue
            bands = [band for band in _bands(road, section, s_m) if band.kind == ROAD]
            points = [_point(road, s_m, border) for band in bands for border in (band.left, band.right)]
            points = list(dict.fromkeys(points))
            if len(points) > 1:
                found.setdefault(link.id, []).append(_RoadMouth(road, s_m, tuple(points if s_m == 0.0 else points[::-1])))
    return found


def _crossings_at_mouths(road_map: RoadMap, mouths: dict[int, list[_RoadMouth]]) -> dict[int, list[tuple[float, float]]]:
    """Crossings that are painted inside a junction, as CARLA's towns have them: people cross at the end of the road beside."""
    found: dict[int, list[tuple[float, float]]] = {}
    junction_of = {road.id: road.junction_id for road in road_map.document.roads}
    for polygon in road_map.crosswalks:
        junction_id = junction_of[int(polygon.name.split()[1])]
        near = [] if junction_id is None else mouths.get(junction_id, [])
        x_m, y_m = (float(value) for value in polygon.vertices[:, :2].mean(axis=0))
        away = [(math.dist(mouth.middle, (x_m, y_m)), index) for index, mouth in enumerate(near)]
        if not away or min(away)[0] > _CROSSING_REACH_M:
            continue
        mouth = near[min(away)[1]]
        width_m = min(_CROSSING_M, 0.5 * mouth.road.length_m)
        span = (0.0, width_m) if mouth.s_m == 0.0 else (mouth.road.length_m - width_m, mouth.road.length_m)
        if span not in found.setdefault(mouth.road.id, []):
            found[mouth.road.id].append(span)
    return found


def _around(document: OpenDrive, junction_id: int, mouths: list[_RoadMouth]) -> list[Point]:
    """The ring around a junction: along its mouths, and from one to the next along the sidewalk that joins them.

    Its corners are corners of the roads' and sidewalks' own polygons, so that people step from one to the other anywhere. Where
    no simple ring comes of that, the mouths are joined straight; where that is none either, nobody walks there.
    """
    if len(mouths) < 2:
        return []
    x_m = math.fsum(mouth.middle[0] for mouth in mouths) / len(mouths)
    y_m = math.fsum(mouth.middle[1] for mouth in mouths) / len(mouths)
    mouths = sorted(mouths, key=lambda mouth: math.atan2(mouth.middle[1] - y_m, mouth.middle[0] - x_m))
    edges = list(_sidewalk_edges(document, junction_id))
    for kerbs in (edges, []):
        ring: list[Point] = []
        for mouth, following in zip(mouths, [*mouths[1:], mouths[0]], strict=True):
            ring.extend((*mouth.points, *_joining(kerbs, mouth.points[-1], following.points[0])))
        ring = [point for point, after in zip(ring, [*ring[1:], ring[0]], strict=True) if math.dist(point, after) > _MERGE_M]
        if 3 <= len(ring) <= RING_CORNERS_MAX and is_simple(ring) and ring_area_m2(ring) > 0.0:
            return ring
    return []


def _sidewalk_edges(document: OpenDrive, junction_id: int) -> Iterator[list[Point]]:
    """Both edges of the sidewalks' cells in a junction, along its roads."""
    for road in document.roads:
        if road.junction_id != junction_id:
            continue
        for section in road.sections:
            stations = _stations_m(road, section, [])
            rows = [list(_bands(road, section, s_m)) for s_m in stations]
            if not rows[0] or any(len(row) != len(rows[0]) for row in rows):
                continue
            for index in range(len(rows[0])):
                for side in ("left", "right"):
                    yield [_point(road, s_m, getattr(row[index], side)) for s_m, row in zip(stations, rows, strict=True)]


def _joining(edges: list[list[Point]], start: Point, end: Point) -> list[Point]:
    for edge in edges:
        for line in (edge, edge[::-1]):
            if math.dist(line[0], start) < _JOIN_M and math.dist(line[-1], end) < _JOIN_M:
                return line[1:-1]
    return []


class _Corners:
    """Numbers points; those within two centimetres are one."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._cells: dict[tuple[int, int], list[int]] = {}

    def number(self, point: Point) -> int:
        """The number of a point."""
        cell_x, cell_y = math.floor(point[0] / _MERGE_M), math.floor(point[1] / _MERGE_M)
        for x in (cell_x - 1, cell_x, cell_x + 1):
            for y in (cell_y - 1, cell_y, cell_y + 1):
                for known in self._cells.get((x, y), ()):
                    other = self.points[known]
                    # A point of a bridge is not that of the street below it.
                    if math.dist(point[:2], other[:2]) <= _MERGE_M and abs(point[2] - other[2]) <= _STEEP_M:
                        return known
        self._cells.setdefault((cell_x, cell_y), []).append(len(self.points))
        self.points.append(point)
        return len(self.points) - 1


def _polygons(corners: _Corners, ring: tuple[Point, ...], kind: tuple[int, int]) -> Iterator[WalkPolygon]:
    """A cell as one polygon, or as two triangles where it is not convex."""
    numbers = list(dict.fromkeys(corners.number(point) for point in ring))
    if len(numbers) < 3:
        return
    for group in [numbers] if len(numbers) == 3 or _is_convex(corners, numbers) else [numbers[:3], [numbers[0], *numbers[2:]]]:
        area_m2 = _area_m2(corners, group)
        if abs(area_m2) > _MERGE_M * _MERGE_M:
            # Detour's polygons run the other way round than our meshes.
            yield WalkPolygon(tuple(group if area_m2 < 0.0 else group[::-1]), *kind)


def _turn(corners: _Corners, a: int, b: int, c: int) -> float:
    (ax, ay, _), (bx, by, _), (cx, cy, _) = (corners.points[number] for number in (a, b, c))
    return (bx - ax) * (cy - by) - (by - ay) * (cx - bx)


def _is_convex(corners: _Corners, numbers: list[int]) -> bool:
    turns = [_turn(corners, *(numbers[(at + step) % len(numbers)] for step in range(3))) for at in range(len(numbers))]
    return all(turn > 0.0 for turn in turns) or all(turn < 0.0 for turn in turns)


def _area_m2(corners: _Corners, numbers: list[int]) -> float:
    points = [corners.points[number] for number in numbers]
    return 0.5 * math.fsum(a[0] * b[1] - a[1] * b[0] for a, b in zip(points, [*points[1:], points[0]], strict=True))


def _point(road: Road, s_m: float, border: _StreetLine) -> Point:
    return place(road, s_m, border.t_m, border.z_m)


def _bands(road: Road, section: LaneSection, s_m: float) -> Iterator[_Band]:
    """The strips of a street at ``s_m``, from left to right; in a junction only its sidewalks."""
    spans: list[tuple[bool, _StreetLine, _StreetLine]] = []
    for lane in section.lanes:
        if lane.id == 0 or lane.kind == "none":
            continue
        inner, outer = borders(road, section, lane, s_m)
        low_m, high_m = heights_m(section, lane, s_m)
        edges = (_StreetLine(outer.t_m, high_m), _StreetLine(inner.t_m, low_m))
        left, right = edges if lane.id > 0 else edges[::-1]
        walk = lane.kind == "sidewalk"
        if left.t_m - right.t_m < _NARROW_M:
            continue
        if spans and spans[-1][0] == walk and abs(spans[-1][2].t_m - left.t_m) < _MERGE_M:
            spans[-1] = (walk, spans[-1][1], right)
        else:
            spans.append((walk, left, right))
    for index, (walk, left, right) in enumerate(spans):
        before = index > 0 and spans[index - 1][0] != walk and abs(spans[index - 1][2].t_m - left.t_m) < _MERGE_M
        after = index + 1 < len(spans) and spans[index + 1][0] != walk and abs(spans[index + 1][1].t_m - right.t_m) < _MERGE_M
        if walk:
            yield from _sidewalk(left, right)
        elif road.junction_id is None:
            yield from _carriageway(
                left, right, spans[index - 1][2] if before else None, spans[index + 1][1] if after else None
            )


def _sidewalk(left: _StreetLine, right: _StreetLine) -> Iterator[_Band]:
    """A sidewalk less the radius of a person on either side."""
    inset_m = min(_RAMP_M, (left.t_m - right.t_m) / 4)
    yield _Band(SIDEWALK, _StreetLine(left.t_m - inset_m, left.z_m), _StreetLine(right.t_m + inset_m, right.z_m))


def _carriageway(
    left: _StreetLine, right: _StreetLine, kerb_left: _StreetLine | None, kerb_right: _StreetLine | None
) -> Iterator[_Band]:
    """The road between kerbs: where a sidewalk is beside it, a ramp leads up onto it."""
    inner_left = _StreetLine(left.t_m - _RAMP_M, left.z_m) if kerb_left else left
    inner_right = _StreetLine(right.t_m + _RAMP_M, right.z_m) if kerb_right else right
    if kerb_left:
        yield _Band(ROAD, _StreetLine(left.t_m + _RAMP_M, kerb_left.z_m), inner_left)
    if inner_left.t_m - inner_right.t_m > _NARROW_M:
        yield _Band(ROAD, inner_left, inner_right)
    if kerb_right:
        yield _Band(ROAD, inner_right, _StreetLine(right.t_m - _RAMP_M, kerb_right.z_m))


def _crossing_span_m(thing: RoadObject) -> tuple[float, float]:
    """From where to where a crossing covers its road."""
    cosine, sine = math.cos(thing.heading_rad), math.sin(thing.heading_rad)
    if thing.outline:
        along_m = [
            corner.first_m if corner.is_road else thing.s_m + corner.first_m * cosine - corner.second_m * sine
            for corner in thing.outline
        ]
    else:
        reach_m = 0.5 * (abs(thing.length_m * cosine) + abs(thing.width_m * sine))
        along_m = [thing.s_m - reach_m, thing.s_m + reach_m]
    return min(along_m), max(along_m)


def _stations_m(road: Road, section: LaneSection, crossings: list[tuple[float, float]]) -> list[float]:
    """Where a street is cut across: at its ends, at crossings, wherever a formula changes, and as finely as it bends."""
    cuts = {section.start_m, section.end_m}
    cuts.update(s_m for span in crossings for s_m in span)
    cuts.update(piece.start_m for piece in road.plan)
    cuts.update(piece.start_m for piece in (*road.elevation, *road.lane_offset))
    cuts.update(section.start_m + piece.start_m for lane in section.lanes for piece in lane.widths)
    inside = sorted(cut for cut in cuts if section.start_m <= cut <= section.end_m)
    kept = [inside[0]]
    for cut in inside[1:]:
        if cut - kept[-1] < _NARROW_M:
            if cut == section.end_m and len(kept) > 1:
                kept[-1] = cut
            continue
        kept.append(cut)
    result = [kept[0]]
    for low_m, high_m in pairwise(kept):
        parts = max(1, math.ceil((high_m - low_m) / _step_m(road, section, 0.5 * (low_m + high_m)) - 1e-6))
        result.extend(low_m + (high_m - low_m) * part / parts for part in range(1, parts + 1))
    return result


def _step_m(road: Road, section: LaneSection, s_m: float) -> float:
    """How long a cell may be so that the arc it stands for bulges by no more than five centimetres."""
    curvature = abs(road.pose(s_m).curvature_per_m)
    cubics = [*road.elevation, *road.lane_offset, *(piece for lane in section.lanes for piece in lane.widths)]
    limit_m = _STRAIGHT_M if all(piece.is_linear for piece in cubics) else _BENT_M
    return min(limit_m, math.sqrt(8.0 * _SAG_M / curvature)) if curvature > 1e-9 else limit_m
