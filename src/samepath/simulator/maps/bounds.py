"""How large the numbers of a map may be, each by what it means, and how much work a map may be as a whole.

A map may come from anybody. Five hundred bytes can name a lane 10^9, or a road mark that begins 10^9 m before its road. So each
number is held against its bound where it is read, and what many allowed numbers come to together is estimated before anything
is built. The bounds leave room above what CARLA's towns have, which is written beside them.
"""

import math
from itertools import pairwise
from typing import Final

from samepath.core.errors import InputError
from samepath.simulator.maps.geometry import Arc, Geometry, ParamPoly3, Spiral
from samepath.simulator.maps.records import Junction, LaneSection, OpenDrive, Road

LANE_ID_MAX: Final = 100  # on either side; Town06: 10
ROAD_MAX_M: Final = 1e5  # Town04: 0.6 km
POSITION_MAX_M: Final = 1e7  # room for UTM coordinates
HEADING_MAX_RAD: Final = 1e3
CURVATURE_MAX_PER_M: Final = 1e3  # Town07: 1
TURN_MAX_RAD: Final = 100.0  # of one arc or spiral: sixteen full circles
WIDTH_MAX_M: Final = 100.0  # of a lane; Town06: 5
OFFSET_MAX_M: Final = 1e3  # beside the road: lane offsets, objects, signals; Town06: 120
ELEVATION_MAX_M: Final = 1e4
RAISED_MAX_M: Final = 100.0  # of a lane above its road
SIZE_MAX_M: Final = 1e3  # of an object in any direction; our oval: 280
CORNERS_MAX: Final = 1000  # of one outline
SIGNAL_SIZE_MAX_M: Final = 100.0
SIGNAL_VALUE_MAX: Final = 1e6
MARK_WIDTH_MAX_M: Final = 10.0
SPEED_MAX: Final = 1e4
BESIDE_M: Final = 1.0  # by how much a place along a road may miss it, as rounding makes it
CORNER_BESIDE_M: Final = 100.0  # the same for corners: crossings and guard rails may go on past the end of their road
JUMP_MAX_M: Final = 10.0  # between two pieces of a reference line
STRETCH_MAX: Final = 4.0  # how much longer a curve may be than its declared length
WORK_MAX: Final = 5e7  # steps, see below; Town04: 8e6

# How densely lanes.py, lane_lines.py and scenery.py sample, and how many steps a point costs; a step takes about a microsecond.
_STATION_M, _STRAIGHT_STATION_M = 0.5, 10.0
_POINT_M, _STRAIGHT_POINT_M = 0.25, 0.5
_DENSER_MOST: Final = 16.0
_RING_MOST: Final = 2000
_DASH_M: Final = 6.0
_POLYNOMIAL: Final = 12.0
_SPIRAL_PART: Final = 4.0
_SURFACES: Final = 4.0  # how often a lane's edges are walked: road, kerb, polygons, junction


def check_work(document: OpenDrive, name: str) -> None:
    """Refuse a map whose building would take far longer than that of any town."""
    total, worst, worst_road = 0.0, 0.0, 0
    of_junction: dict[int, float] = {}
    for road in document.roads:
        work, points = _road_work(road)
        total += work
        if work > worst:
            worst, worst_road = work, road.id
        if road.junction_id is not None:
            of_junction[road.junction_id] = of_junction.get(road.junction_id, 0.0) + points
    total += sum(
        _junction_work(junction, of_junction.get(junction.id, 0.0), len(document.roads)) for junction in document.junctions
    )
    signals = sum(len(road.signals) for road in document.roads)
    total += 0.02 * signals * (signals + sum(len(road.signal_references) for road in document.roads))
    if total > WORK_MAX:
        raise InputError(
            f"map {name!r}: a map of at most {WORK_MAX:.3g} steps of work was wanted, but this one would take about "
            f"{total:.3g}, {worst:.3g} of them for road {worst_road}: shorten its roads, straighten them or leave lanes out"
        )


def _road_work(road: Road) -> tuple[float, float]:
    """Steps of work for a road, and how many points its edges have."""
    pose = max(_pose_work(piece) for piece in road.plan)
    work = sum((8 + 2 * len(thing.outline)) * pose + len(thing.outline) ** 2 / 4 for thing in road.objects)
    work += sum(_crossing_m(road, index) for index, thing in enumerate(road.objects) if thing.kind == "crosswalk")
    work += 20 * pose * (len(road.signals) + len(road.signal_references))
    points = 0.0
    for section in road.sections:
        section_work, section_points = _section_work(road, section)
        work += section_work
        points += section_points
    return work, points


def _crossing_m(road: Road, index: int) -> float:
    thing = road.objects[index]
    along_m = [corner.first_m for corner in thing.outline]
    return 4.0 * (max(along_m) - min(along_m) if along_m else thing.length_m + thing.width_m)


def _pose_work(piece: Geometry) -> float:
    """Steps for one point of a piece of the reference line."""
    if isinstance(piece.curve, Spiral):
        turn_rad = max(abs(piece.curve.curvature_start_per_m), abs(piece.curve.curvature_end_per_m)) * piece.length_m
        return 1.0 + _SPIRAL_PART * (1.0 + turn_rad)
    return _POLYNOMIAL if isinstance(piece.curve, ParamPoly3) else 1.0


def _bend_per_m(piece: Geometry) -> float:
    if isinstance(piece.curve, Arc):
        return abs(piece.curve.curvature_per_m)
    if isinstance(piece.curve, Spiral):
        return max(abs(piece.curve.curvature_start_per_m), abs(piece.curve.curvature_end_per_m))
    return 0.0 if piece.curve.is_straight else 1.0


def _section_work(road: Road, section: LaneSection) -> tuple[float, float]:
    """Steps for all lanes of a section: each point costs its place on the reference line and the lanes further in."""
    length_m = section.end_m - section.start_m
    lanes = [lane for lane in section.lanes if lane.id != 0]
    cubics = [*road.elevation, *road.lane_offset, *(piece for lane in lanes for piece in lane.widths)]
    is_linear = all(cubic.is_linear for cubic in cubics)
    reach_m = 3.0 * sum(max((abs(piece.a) for piece in lane.widths), default=0.0) for lane in lanes)
    formulas = len(cubics) + len(road.plan) + sum(len(lane.heights) for lane in lanes)
    stations, station_work, points, point_work = float(formulas), 0.0, 1.0, 0.0
    for piece in road.plan:
        part_m = min(piece.start_m + piece.length_m, section.end_m) - max(piece.start_m, section.start_m)
        if part_m <= 0.0:
            continue
        straight, pose = piece.curve.is_straight, _pose_work(piece)
        here = part_m / (_STRAIGHT_STATION_M if straight and is_linear else _STATION_M) + 1.0
        stations, station_work = stations + here, station_work + here * pose
        denser = 1.0 if straight else 2.0 * min(_DENSER_MOST, 1.0 + _bend_per_m(piece) * reach_m)
        here = denser * (part_m / (_STRAIGHT_POINT_M if straight else _POINT_M) + 1.0)
        points, point_work = points + here, point_work + here * pose
    # Looking for a lane by its number goes through those of its section.
    inner = sum(abs(lane.id) * (1.0 + 0.05 * len(lanes)) for lane in lanes)
    raised = sum(len(lane.heights) for lane in lanes)
    marks = sum(_painted_m(section, index) for index in range(len(section.lanes)))
    drawn = marks / max(length_m, 1e-9) * stations + marks / _DASH_M + sum(len(lane.marks) for lane in section.lanes)
    work = len(lanes) * point_work + inner * points
    work += _SURFACES * (2.0 * len(lanes) * station_work + (inner + 0.1 * raised) * stations)
    work += 0.5 * _SURFACES * len(lanes) * formulas * (1.0 + 0.05 * len(lanes))
    work += drawn * (2.0 * station_work / max(stations, 1.0) + len(lanes))
    return work, stations * len(lanes)


def _painted_m(section: LaneSection, index: int) -> float:
    """How many metres of line are painted for a lane; marks that are out of order may overlap."""
    marks = section.lanes[index].marks
    ends_m = [*(max(0.0, mark.s_offset_m) for mark in marks), section.end_m - section.start_m]
    return sum(max(0.0, end_m - start_m) for start_m, end_m in pairwise(ends_m))


def _junction_work(junction: Junction, points: float, roads: int) -> float:
    """Steps for the ring of a junction: every edge is held against every other, every point of a lane against the ring."""
    ring = 2.0 * points if 2.0 * points <= _RING_MOST else 0.0
    links = sum(1 + len(connection.lane_links) for connection in junction.connections)
    return 0.2 * roads + 0.1 * ring * ring + 0.1 * points * math.sqrt(min(points, _RING_MOST)) + links
