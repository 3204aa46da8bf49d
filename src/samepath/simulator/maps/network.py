"""The road network that everybody else uses: lanes, waypoints, routes between them, surfaces; all in CARLA's frame.

A map is cheap to make: everything is derived on first use. How much work that will be is estimated before (:func:`check_work`),
because a map may come from anybody.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.core.digests import first_link, link
from samepath.core.errors import InputError
from samepath.simulator.maps.geometry import (
    GRID_PER_M,
    Arc,
    Floats,
    Geometry,
    ParamPoly3,
    Spiral,
    from_carla,
    frozen,
    on_grid,
    to_carla,
    yaw_to_carla,
)
from samepath.simulator.maps.lanes import (
    CURVE_STATION_M,
    CURVE_STEP_M,
    DOUBLINGS_MAX,
    LINE_STATION_M,
    LINE_STEP_M,
    LaneKey,
    LaneLine,
    Waypoint,
    centre,
    lane_lines,
    lane_predecessors,
    lane_successors,
    spawn_points,
)
from samepath.simulator.maps.records import Junction, Lane, LaneSection, OpenDrive, Road
from samepath.simulator.maps.scenery import Signal, crosswalk_polygons, scenery_meshes, signal_records
from samepath.simulator.maps.surfaces import (
    DASH_PERIOD_M,
    RING_CORNERS_MAX,
    Box,
    Mesh,
    Point,
    Polygon,
    drivable_polygons,
    junction_ring,
    sidewalk_polygons,
    surface_meshes,
)

_REFINEMENTS: Final = 8
# Lanes that one walk may go through. A map can hold a loop of lanes that is shorter than a grain of dust, and forks that double
# the ways at every metre; half a kilometre of a town is some hundred lanes.
WALK_MAX: Final = 10_000

# For the estimate of work: the limit (Town04: 8e6), the cost of a point on a polynomial and per radian of a spiral, and how
# often a lane's edges are walked (road, kerb, polygons, junction). How densely lanes are sampled comes from where they are
# sampled.
WORK_MAX: Final = 5e7
_POLYNOMIAL: Final = 12.0
_SPIRAL_PART: Final = 4.0
_SURFACES: Final = 4.0


@dataclass(frozen=True, eq=False)
class RoadMap:
    """A map: what was read, and everything derived from it on first use (the result never depends on when)."""

    name: str
    xodr: str = field(repr=False)
    document: OpenDrive = field(repr=False)

    @property
    def georeference(self) -> str:
        """The projection string of the header, empty where there is none."""
        return self.document.georeference

    @property
    def ignored(self) -> tuple[str, ...]:
        """Elements that were read past because they change neither roads nor surfaces."""
        return self.document.ignored

    @property
    def warning(self) -> str:
        """A line about links to roads and junctions that the file does not hold; empty where there are none."""
        dead = self.document.dead_links
        if not dead:
            return ""
        links = "1 link leads" if len(dead) == 1 else f"{len(dead)} links lead"
        return f"{links} to roads or junctions that the file does not hold, such as: {dead[0]}; roads end there"

    @cached_property
    def _roads(self) -> dict[int, Road]:
        return {road.id: road for road in self.document.roads}

    @cached_property
    def _successors(self) -> dict[LaneKey, tuple[LaneKey, ...]]:
        return lane_successors(self.document)

    @cached_property
    def _predecessors(self) -> dict[LaneKey, tuple[LaneKey, ...]]:
        return lane_predecessors(self._successors)

    @cached_property
    def lanes(self) -> tuple[LaneLine, ...]:
        """The centre lines of all lanes (driving, sidewalk, ...), by road in the order of the file, section, lane."""
        return tuple(line for road in self.document.roads for section in road.sections for line in lane_lines(road, section))

    @cached_property
    def bounds_m(self) -> Box:
        """(x_min, y_min, x_max, y_max): the header's box where it holds all lanes, else the lanes' own."""
        corners = np.vstack([polygon.vertices for polygon in (*self.drivable, *self._sidewalks)] or [self.lanes[0].points])
        low, high = corners.min(axis=0), corners.max(axis=0)
        lanes_box = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
        if self.document.box is None:
            return lanes_box
        west, south, east, north = self.document.box
        x_min, y_min, _ = to_carla(west, north, 0.0)
        x_max, y_max, _ = to_carla(east, south, 0.0)
        holds = x_min <= lanes_box[0] and y_min <= lanes_box[1] and lanes_box[2] <= x_max and lanes_box[3] <= y_max
        return (x_min, y_min, x_max, y_max) if holds else lanes_box

    @cached_property
    def _rings(self) -> dict[int, tuple[Point, ...] | None]:
        return {junction.id: junction_ring(self.document, junction) for junction in self.document.junctions}

    @cached_property
    def meshes(self) -> tuple[Mesh, ...]:
        """All triangles, by label; see :mod:`samepath.simulator.maps.surfaces` for the winding."""
        return (*surface_meshes(self.document, self._rings, self.bounds_m), *scenery_meshes(self.document))

    @cached_property
    def drivable(self) -> tuple[Polygon, ...]:
        """Where wheels may be."""
        return drivable_polygons(self.document, self._rings)

    @cached_property
    def _sidewalks(self) -> tuple[Polygon, ...]:
        return sidewalk_polygons(self.document)

    @cached_property
    def crosswalks(self) -> tuple[Polygon, ...]:
        """The crossings."""
        return crosswalk_polygons(self.document)

    @property
    def walkable(self) -> tuple[Polygon, ...]:
        """Where people walk: sidewalks, then crossings."""
        return (*self._sidewalks, *self.crosswalks)

    @cached_property
    def signals(self) -> tuple[Signal, ...]:
        """Signs and traffic lights."""
        return signal_records(self.document)

    @cached_property
    def spawn_points(self) -> tuple[tuple[float, float, float, float], ...]:
        """(x, y, z, yaw_deg) every 20 m on driving lanes outside junctions, 10 m from their ends, 0.5 m above the road."""
        return tuple(spawn_points(self.document))

    @cached_property
    def digest(self) -> str:
        """A name for the exact bits of centre lines, meshes and spawn points: 32 hex digits."""
        chain = first_link("map", self.name)
        for line in self.lanes:
            chain = link(chain, repr((*line.key, line.kind)).encode())
            for array in (line.s_m, line.points, line.yaw_deg, line.width_m):
                chain = link(chain, array.astype("<f8").tobytes())
        for mesh in self.meshes:
            chain = link(chain, f"{mesh.label}\x1f{mesh.name}".encode())
            chain = link(chain, mesh.vertices.astype("<f8").tobytes())
            chain = link(chain, mesh.triangles.astype("<i4").tobytes())
        return link(chain, np.array(self.spawn_points, dtype="<f8").tobytes()).hex()

    def speed_limit_mps(self, road_id: int, s_m: float = 0.0) -> float | None:
        """The road's limit at ``s_m``; None where it has none."""
        found: float | None = None
        for limit in self._road(road_id).speeds:
            if limit.start_m <= s_m:
                found = limit.max_mps
        return found

    def lanes_after(self, key: LaneKey) -> tuple[LaneKey, ...]:
        """The lanes that a driver comes to from the end of one."""
        return self._successors[key]

    def has_speed_limit(self, road_id: int) -> bool:
        """Does the map say anything of the speed on a road, if only that there is no limit?"""
        return bool(self._road(road_id).speeds)

    def _road(self, road_id: int) -> Road:
        road = self._roads.get(road_id)
        if road is None:
            raise InputError(f"map {self.name!r} has no road {road_id}; it has {', '.join(map(str, sorted(self._roads)))}")
        return road

    def _lane(self, key: LaneKey) -> tuple[Road, LaneSection, Lane]:
        road = self._road(key.road_id)
        section = road.sections[key.section_id] if 0 <= key.section_id < len(road.sections) else None
        lane = section.lane(key.lane_id) if section is not None else None
        if section is None or lane is None or lane.id == 0:
            raise InputError(f"map {self.name!r}, road {key.road_id} has no lane {key.lane_id} in section {key.section_id}")
        return road, section, lane

    def waypoint_at(self, road_id: int, section_id: int, lane_id: int, s_m: float) -> Waypoint:
        """The exact middle of a lane at ``s_m`` (clamped to the section)."""
        road, section, lane = self._lane(LaneKey(road_id, section_id, lane_id))
        s_m = on_grid(min(max(s_m, section.start_m), section.end_m))
        middle = centre(road, section, lane, min(max(s_m, section.start_m), section.end_m))
        x_m, y_m, z_m = to_carla(middle.x_m, middle.y_m, middle.z_m)
        yaw_deg, width_m = yaw_to_carla(middle.heading_rad), on_grid(middle.width_m)
        is_junction = road.junction_id is not None
        return Waypoint(road_id, section_id, lane_id, s_m, x_m, y_m, z_m, yaw_deg, width_m, is_junction, lane.kind)

    def waypoint(self, x_m: float, y_m: float) -> Waypoint:
        """The nearest point in the middle of a driving lane; equal distances go to the lane that comes first in the file."""
        if not (math.isfinite(x_m) and math.isfinite(y_m)):
            raise InputError(f"finite coordinates were wanted, but ({x_m}, {y_m}) came")
        starts, steps, lengths, lines, numbers = self._segments
        dx, dy = x_m - starts[:, 0], y_m - starts[:, 1]
        part = np.clip((dx * steps[:, 0] + dy * steps[:, 1]) / lengths, 0.0, 1.0)
        away_x, away_y = dx - part * steps[:, 0], dy - part * steps[:, 1]
        # argmin takes the first of equal distances: the lane that comes first in the file, on every machine.
        best = int(np.argmin(away_x * away_x + away_y * away_y))
        line, number = self.lanes[lines[best]], int(numbers[best])
        s_m = float(line.s_m[number] + part[best] * (line.s_m[number + 1] - line.s_m[number]))
        return self.waypoint_at(*line.key, self._refined(line, number, s_m, from_carla(x_m, y_m)))

    @cached_property
    def _segments(self) -> tuple[Floats, Floats, Floats, list[int], list[int]]:
        """Starts, steps, squared lengths of all pieces of driving centre lines; the line and number each comes from."""
        chosen = [(index, line) for index, line in enumerate(self.lanes) if line.kind == "driving"]
        if not chosen:
            raise InputError(f"map {self.name!r} has no driving lane")
        starts = np.vstack([line.points[:-1, :2] for _, line in chosen])
        steps = np.vstack([line.points[1:, :2] - line.points[:-1, :2] for _, line in chosen])
        lengths = steps[:, 0] * steps[:, 0] + steps[:, 1] * steps[:, 1]
        lines = [index for index, line in chosen for _ in range(len(line.points) - 1)]
        numbers = [number for _, line in chosen for number in range(len(line.points) - 1)]
        return frozen(starts), frozen(steps), frozen(np.maximum(lengths, GRID_PER_M**-2.0)), lines, numbers

    def _refined(self, line: LaneLine, number: int, s_m: float, at: tuple[float, float]) -> float:
        """The foot of the perpendicular on the exact centre line, bracketed by the neighbours of its place on the polyline.

        Regula falsi (Illinois) on how far ahead of the centre line's point the given one lies; without a change of sign in
        the bracket the polyline's answer stands.
        """
        low_m, high_m = sorted(float(line.s_m[index]) for index in (max(number - 1, 0), min(number + 2, len(line.s_m) - 1)))
        low, high = self._ahead(line.key, low_m, at), self._ahead(line.key, high_m, at)
        if not low > 0.0 > high:
            return s_m
        kept = 0
        for _ in range(_REFINEMENTS):
            s_m = low_m + (high_m - low_m) * low / (low - high)
            ahead = self._ahead(line.key, s_m, at)
            if ahead == 0.0:
                break
            if ahead > 0.0:
                low_m, low, high = s_m, ahead, 0.5 * high if kept > 0 else high
                kept = 1
            else:
                high_m, high, low = s_m, ahead, 0.5 * low if kept < 0 else low
                kept = -1
        return s_m

    def _ahead(self, key: LaneKey, s_m: float, at: tuple[float, float]) -> float:
        """How far a point (OpenDRIVE's frame) lies ahead of the lane's middle at ``s_m``, towards rising s."""
        road, section, lane = self._lane(key)
        middle = centre(road, section, lane, s_m)
        along = (at[0] - middle.x_m) * math.cos(middle.heading_rad) + (at[1] - middle.y_m) * math.sin(middle.heading_rad)
        return -along if lane.id > 0 else along

    def next(self, waypoint: Waypoint, distance_m: float) -> tuple[Waypoint, ...]:
        """All waypoints ``distance_m`` further in the direction of driving; several after a fork, none after a dead end.

        As in CARLA the distance is counted along the roads' reference lines.
        """
        return tuple(self._walk(waypoint.key, waypoint.s_m, distance_m, ahead=True))

    def previous(self, waypoint: Waypoint, distance_m: float) -> tuple[Waypoint, ...]:
        """All waypoints ``distance_m`` back."""
        return tuple(self._walk(waypoint.key, waypoint.s_m, distance_m, ahead=False))

    def _walk(self, key: LaneKey, s_m: float, distance_m: float, *, ahead: bool) -> Iterator[Waypoint]:
        if not distance_m > 0.0 or not math.isfinite(distance_m):
            raise InputError(f"a distance of more than 0 was wanted, but {distance_m} came")
        graph = self._successors if ahead else self._predecessors
        found: dict[tuple[LaneKey, float], Waypoint] = {}
        start, pending = key, [(key, s_m, distance_m)]
        seen: set[tuple[LaneKey, float, float]] = set()  # where somebody was with so much left to go: the rest is the same
        while pending:
            key, s_m, left_m = pending.pop()
            if (key, s_m, left_m) in seen:
                continue
            seen.add((key, s_m, left_m))
            if len(seen) > WALK_MAX:
                raise InputError(
                    f"map {self.name!r}: a way of at most {WALK_MAX} lanes was wanted for {distance_m:g} m from road "
                    f"{start.road_id}, lane {start.lane_id}, but there are more: its lanes are too short or fork too often"
                )
            _, section, lane = self._lane(key)
            rising = (lane.id < 0) == ahead
            room_m = section.end_m - s_m if rising else s_m - section.start_m
            if left_m <= room_m:
                point = self.waypoint_at(*key, s_m + left_m if rising else s_m - left_m)
                found.setdefault((key, point.s_m), point)
                continue
            # Reversed, because the last one pushed is the first one taken: branches come out in the order of the file.
            pending.extend((other, self._entry_s_m(other, ahead=ahead), left_m - room_m) for other in reversed(graph[key]))
        yield from found.values()

    def _entry_s_m(self, key: LaneKey, *, ahead: bool) -> float:
        _, section, lane = self._lane(key)
        return section.start_m if (lane.id < 0) == ahead else section.end_m

    def left_lane(self, waypoint: Waypoint) -> Waypoint | None:
        """The lane to the left as the driver sees it, whatever its type; over the reference line it is an oncoming one."""
        lane_id = waypoint.lane_id
        return self._beside(waypoint, -lane_id if abs(lane_id) == 1 else lane_id - (1 if lane_id > 0 else -1))

    def right_lane(self, waypoint: Waypoint) -> Waypoint | None:
        """The lane to the right as the driver sees it, whatever its type."""
        return self._beside(waypoint, waypoint.lane_id + (1 if waypoint.lane_id > 0 else -1))

    def _beside(self, waypoint: Waypoint, lane_id: int) -> Waypoint | None:
        section = self._road(waypoint.road_id).sections[waypoint.section_id]
        if section.lane(lane_id) is None:
            return None
        return self.waypoint_at(waypoint.road_id, waypoint.section_id, lane_id, waypoint.s_m)

    def topology(self) -> tuple[tuple[Waypoint, Waypoint], ...]:
        """For each driving lane its start with the start of each lane that follows; as in CARLA, dead ends have no pair."""
        pairs: list[tuple[Waypoint, Waypoint]] = []
        for key, following in self._successors.items():
            if self._lane(key)[2].kind != "driving":
                continue
            start = self.waypoint_at(*key, self._entry_s_m(key, ahead=True))
            pairs.extend((start, self.waypoint_at(*other, self._entry_s_m(other, ahead=True))) for other in following)
        return tuple(pairs)

    def generate_waypoints(self, distance_m: float) -> tuple[Waypoint, ...]:
        """Waypoints on all driving lanes every ``distance_m`` of s from the start of each section, its end left out."""
        if not distance_m > 0.0 or not math.isfinite(distance_m):
            raise InputError(f"a distance of more than 0 was wanted, but {distance_m} came")
        found: list[Waypoint] = []
        for line in self.lanes:
            if line.kind == "driving":
                _, section, _ = self._lane(line.key)
                count = math.ceil((section.end_m - section.start_m) / distance_m)
                found.extend(self.waypoint_at(*line.key, section.start_m + index * distance_m) for index in range(count))
        return tuple(found)


def check_work(document: OpenDrive, name: str) -> None:
    """Refuse a map whose building would take far longer than that of any town, before anything is built.

    Each number of a map has a bound of its own, but a hundred lanes of 100 km with a mark every metre are all allowed numbers.
    The estimate counts steps of about a microsecond: points sampled, times what a point costs on its kind of curve.
    """
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


def _stretch(piece: Geometry, reach_m: float) -> float:
    """How many metres a lane that far beside the reference line can have for each one of it."""
    match piece.curve:
        case Arc() as arc:
            return 1.0 + abs(arc.curvature_per_m) * reach_m
        case Spiral() as spiral:
            return 1.0 + max(abs(spiral.curvature_start_per_m), abs(spiral.curvature_end_per_m)) * reach_m
        case ParamPoly3() as curve:
            return max(1.0, curve.stretch_by) * (1.0 + min(1.0, curve.curvature_max_per_m) * reach_m)
        case _:
            return 1.0


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
        here = part_m / (LINE_STATION_M if straight and is_linear else CURVE_STATION_M) + 1.0
        stations, station_work = stations + here, station_work + here * pose
        denser = 1.0 if straight else 2.0 * min(2.0**DOUBLINGS_MAX, _stretch(piece, reach_m))
        here = denser * (part_m / (LINE_STEP_M if straight else CURVE_STEP_M) + 1.0)
        points, point_work = points + here, point_work + here * pose
    # Looking for a lane by its number goes through those of its section.
    inner = sum(abs(lane.id) * (1.0 + 0.05 * len(lanes)) for lane in lanes)
    raised = sum(len(lane.heights) for lane in lanes)
    marks = sum(_painted_m(section, index) for index in range(len(section.lanes)))
    drawn = marks / max(length_m, 1e-9) * stations + marks / DASH_PERIOD_M + sum(len(lane.marks) for lane in section.lanes)
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
    ring = 2.0 * points if 2.0 * points <= RING_CORNERS_MAX else 0.0
    links = sum(1 + len(connection.lane_links) for connection in junction.connections)
    return 0.2 * roads + 0.1 * ring * ring + 0.1 * points * math.sqrt(min(points, RING_CORNERS_MAX)) + links
