"""Where things are on the roads of a map: the places of a file, and the way along lanes.

An entity on a lane keeps the lane's middle at a distance; one that is on no lane, or across it, goes straight on. Angles are
turned into directions by the portable functions of ``core``, so that a plan has the same bits on every machine.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError
from samepath.core.trig import sincos_deg, wrap_deg
from samepath.openscenario.records import (
    FilePlace,
    Heading,
    LanePlace,
    RelativeToLane,
    RelativeToObject,
    RelativeToRoad,
    RelativeToWorld,
    RoadPlace,
    RouteStart,
    WorldPlace,
)
from samepath.simulator.maps import RoadMap, Waypoint, load_map
from samepath.simulator.maps.lanes import LaneKey, place
from samepath.simulator.maps.records import LaneSection, Road

FLAT: Final = "flat"
# Nearer to along or against a lane than this, and a vehicle follows it; else it crosses.
_FOLLOWS_DEG: Final = 45.0
_BESIDE_M: Final = 2.0
# Lanes looked through for the way to a place: a town has some thousand.
_SEARCHED_MAX: Final = 20_000


@dataclass(frozen=True)
class Spot:
    """Where an entity's own point is. On a lane: ``offset_m`` right of its middle; ``against``: facing its traffic."""

    x_m: float
    y_m: float
    yaw_deg: float
    lane: Waypoint | None = None
    offset_m: float = 0.0
    against: bool = False

    def local(self, x_m: float, y_m: float) -> tuple[float, float]:
        """A point seen from here: ahead and to the right."""
        sine, cosine = sincos_deg(self.yaw_deg)
        dx, dy = x_m - self.x_m, y_m - self.y_m
        return dx * cosine + dy * sine, dy * cosine - dx * sine

    def shifted(self, ahead_m: float, right_m: float) -> tuple[float, float]:
        """The point so far ahead and to the right."""
        sine, cosine = sincos_deg(self.yaw_deg)
        return self.x_m + ahead_m * cosine - right_m * sine, self.y_m + ahead_m * sine + right_m * cosine


def turned_deg(a_deg: float, b_deg: float) -> float:
    """How far two headings are apart, from 0 to 180."""
    return abs(wrap_deg(a_deg - b_deg))


class Roads:
    """A map's roads, or none."""

    def __init__(self, name: str) -> None:
        self.map: RoadMap | None = None if name == FLAT else load_map(name)
        self._roads: dict[int, Road] = {road.id: road for road in self.map.document.roads} if self.map is not None else {}

    def resolve(self, wanted: FilePlace, spots: Mapping[str, Spot]) -> Spot:  # noqa: PLR0911 - one return per kind of place
        """Find a place of the file; places beside an entity are beside where it is now."""
        match wanted:
            case WorldPlace(x_m, y_m, heading):
                yaw_deg = heading.yaw_deg if heading is not None else None
                return self.attached(x_m, y_m, yaw_deg)
            case LanePlace(road, lane, s_m, offset_m, heading):
                return self._on_lane(road, lane, s_m, offset_m, heading)
            case RoadPlace(road, s_m, t_m, heading):
                return self._beside_road(road, s_m, t_m, heading)
            case RelativeToWorld(entity, dx_m, dy_m, heading):
                there = spots[entity]
                return self.attached(there.x_m + dx_m, there.y_m + dy_m, _turned(there.yaw_deg, heading))
            case RelativeToObject(entity, ahead_m, right_m, heading):
                there = spots[entity]
                return self.attached(*there.shifted(ahead_m, right_m), _turned(there.yaw_deg, heading))
            case RelativeToLane(entity, lanes, ds_m, offset_m, heading, along_lane):
                return self._beside_lane(entity, spots[entity], lanes, ds_m, offset_m, heading, along_lane=along_lane)
            case RelativeToRoad(entity, ds_m, dt_m, heading):
                return self._along_road(entity, spots[entity], ds_m, dt_m, heading)
            case RouteStart():
                return self._on_route(wanted, spots)

    def attached(self, x_m: float, y_m: float, yaw_deg: float | None) -> Spot:
        """A point of the world, on the lane there if it heads along or against one."""
        free = Spot(x_m, y_m, yaw_deg if yaw_deg is not None else 0.0)
        if self.map is None:
            return free
        near = self.map.waypoint(x_m, y_m)
        middle = Spot(near.x_m, near.y_m, near.yaw_deg)
        _, right_m = middle.local(x_m, y_m)
        if math.hypot(x_m - near.x_m, y_m - near.y_m) > near.lane_width_m / 2 + _BESIDE_M:
            return free
        turn_deg = turned_deg(near.yaw_deg, near.yaw_deg if yaw_deg is None else yaw_deg)
        if _FOLLOWS_DEG <= turn_deg <= 180.0 - _FOLLOWS_DEG:
            return free
        return self.spot(near, right_m, against=turn_deg > 90.0)

    def spot(self, lane: Waypoint, offset_m: float, *, against: bool) -> Spot:
        """The spot so far right of a lane's middle."""
        x_m, y_m = Spot(lane.x_m, lane.y_m, lane.yaw_deg).shifted(0.0, offset_m)
        return Spot(x_m, y_m, wrap_deg(lane.yaw_deg + 180.0) if against else lane.yaw_deg, lane, offset_m, against)

    def _road(self, road_id: int) -> Road:
        if self.map is None:
            raise InputError("a position on a road was given, but the file names no road network (LogicFile)")
        road = self._roads.get(road_id)
        if road is None:
            raise InputError(f"a position on road {road_id} was given, but the map {self.map.name!r} has no such road")
        return road

    def _section(self, road: Road, s_m: float) -> LaneSection:
        if s_m > road.length_m + 0.5:
            raise InputError(f"s of at most {road.length_m:g} m was wanted on road {road.id}, but {s_m:g} came")
        return [section for section in road.sections if section.start_m <= s_m or section.index == 0][-1]

    def _at(self, road_id: int, lane: int, s_m: float) -> Waypoint:
        road = self._road(road_id)
        section = self._section(road, s_m)
        if self.map is None or lane == 0 or section.lane(lane) is None:
            known = ", ".join(str(other.id) for other in section.lanes if other.id)
            raise InputError(f"lane {lane} of road {road_id} was wanted at s {s_m:g}, but there are lanes {known} only")
        return self.map.waypoint_at(road_id, section.index, lane, s_m)

    def _on_lane(self, road: int, lane: int, s_m: float, offset_m: float, heading: Heading | None) -> Spot:
        point = self._at(road, lane, s_m)
        # Offsets of a lane are counted across the reference line, whichever way the lane is driven.
        right_m = offset_m if lane < 0 else -offset_m
        spot = self.spot(point, right_m, against=False)
        return self._headed(spot, _turned(spot.yaw_deg, heading))

    def _headed(self, spot: Spot, yaw_deg: float) -> Spot:
        """The same point facing elsewhere: along the lane, against it, or across."""
        if spot.lane is None:
            return Spot(spot.x_m, spot.y_m, yaw_deg)
        turn_deg = turned_deg(spot.lane.yaw_deg, yaw_deg)
        if _FOLLOWS_DEG <= turn_deg <= 180.0 - _FOLLOWS_DEG:
            return Spot(spot.x_m, spot.y_m, yaw_deg)
        return self.spot(spot.lane, spot.offset_m, against=turn_deg > 90.0)

    def _beside_road(self, road_id: int, s_m: float, t_m: float, heading: Heading | None) -> Spot:
        road = self._road(road_id)
        section = self._section(road, s_m)
        x_m, y_m, _ = place(road, s_m, -t_m)
        yaw_deg = -math.degrees(road.pose(s_m).heading_rad)
        best: Waypoint | None = None
        if self.map is not None:
            beside = [self.map.waypoint_at(road_id, section.index, lane.id, s_m) for lane in section.lanes if lane.id]
            near = [(math.hypot(x_m - lane.x_m, y_m - lane.y_m), lane) for lane in beside]
            inside = [(away_m, lane.lane_id, lane) for away_m, lane in near if away_m <= lane.lane_width_m / 2 + 1e-6]
            best = min(inside, default=(0.0, 0, None))[2]
        if best is None:
            return Spot(x_m, y_m, _turned(yaw_deg, heading))
        _, right_m = Spot(best.x_m, best.y_m, best.yaw_deg).local(x_m, y_m)
        # Without a heading it faces as its lane is driven.
        wanted = best.yaw_deg if heading is None else _turned(yaw_deg, heading)
        return self._headed(self.spot(best, right_m, against=False), wanted)

    def _lane_of(self, entity: str, spot: Spot) -> Waypoint:
        if spot.lane is None:
            raise InputError(f"a place along the lane of {entity!r} was given, but {entity!r} is on no lane")
        return spot.lane

    def _beside_lane(
        self, entity: str, spot: Spot, lanes: int, ds_m: float, offset_m: float, heading: Heading | None, *, along_lane: bool
    ) -> Spot:
        lane = self._lane_of(entity, spot)
        there = self.lane_beside(lane, lanes) if lanes else lane
        # ds counts along the road's reference line, dsLane as the lane is driven.
        ahead_m = ds_m if along_lane or there.lane_id < 0 else -ds_m
        point = self._walked(there, -ahead_m if spot.against and along_lane else ahead_m)
        result = self.spot(point, offset_m if point.lane_id < 0 else -offset_m, against=spot.against)
        return result if heading is None else self._headed(result, _turned(point.yaw_deg, heading))

    def _along_road(self, entity: str, spot: Spot, ds_m: float, dt_m: float, heading: Heading | None) -> Spot:
        lane = self._lane_of(entity, spot)
        there = self._walked(lane, ds_m if lane.lane_id < 0 else -ds_m)
        right_m = spot.offset_m + (dt_m if lane.lane_id < 0 else -dt_m)
        result = self.spot(there, right_m, against=spot.against)
        moved = self.attached(result.x_m, result.y_m, result.yaw_deg)
        return moved if heading is None else self._headed(moved, _turned(there.yaw_deg, heading))

    def _walked(self, lane: Waypoint, ahead_m: float) -> Waypoint:
        if ahead_m == 0.0 or self.map is None:
            return lane
        found = self.map.next(lane, ahead_m) if ahead_m > 0 else self.map.previous(lane, -ahead_m)
        if not found:
            raise InputError(f"a place {ahead_m:g} m along road {lane.road_id} was given, but the road ends before")
        return min(found, key=lambda point: (turned_deg(point.yaw_deg, lane.yaw_deg), point.key))

    def _on_route(self, wanted: RouteStart, spots: Mapping[str, Spot]) -> Spot:
        first = self.resolve(wanted.route.places[0], spots)
        lane = self._lane_of("the route", first)
        if wanted.lane is not None and wanted.lane != lane.lane_id:
            lane = self._at(lane.road_id, wanted.lane, lane.s_m)
        if wanted.s_m > 0.0 and self.map is not None:
            goals = [self.resolve(place, spots) for place in wanted.route.places[1:]]
            spot: Spot | None = self.spot(lane, 0.0, against=False)
            left_m = wanted.s_m
            while left_m > 0.0 and spot is not None:
                step_m = min(left_m, 1.0)
                spot = self.forward(spot, step_m, goals)
                left_m -= step_m
            if spot is None or spot.lane is None:
                raise InputError(f"a place {wanted.s_m:g} m along a route was given, but the road ends before")
            lane = spot.lane
        result = self.spot(lane, wanted.offset_m if lane.lane_id < 0 else -wanted.offset_m, against=False)
        return self._headed(result, _turned(lane.yaw_deg, wanted.heading))

    def lane_beside(self, lane: Waypoint, lefts: int) -> Waypoint:
        """The lane so many lanes to the left (negative: right) as the driver sees it."""
        if self.map is None:
            raise InputError("a change of lanes was wanted, but the file names no road network (LogicFile)")
        found: Waypoint | None = lane
        # Beyond the reference line the lanes are driven the other way: what was left stays left on the map.
        flipped = False
        for _ in range(min(abs(lefts), 100)):
            if found is None:
                break
            to_left = (lefts > 0) != flipped
            beside = self.map.left_lane(found) if to_left else self.map.right_lane(found)
            if beside is not None and (beside.lane_id > 0) != (found.lane_id > 0):
                flipped = not flipped
            found = beside
        if found is None:
            side = "left" if lefts > 0 else "right"
            raise InputError(
                f"a lane {abs(lefts)} to the {side} of lane {lane.lane_id} of road {lane.road_id} was wanted: there is none"
            )
        return found

    def has_lane(self, lane: Waypoint, lane_id: int) -> bool:
        """Is there a lane of this id beside another?"""
        return self._section(self._road(lane.road_id), lane.s_m).lane(lane_id) is not None

    def lane_of_id(self, lane: Waypoint, lane_id: int) -> Waypoint:
        """The lane of this id beside another."""
        return self._at(lane.road_id, lane_id, lane.s_m)

    def onto(self, spot: Spot, lane: Waypoint) -> Spot:
        """The same point and direction, told beside another lane's middle."""
        _, right_m = Spot(lane.x_m, lane.y_m, lane.yaw_deg).local(spot.x_m, spot.y_m)
        return self.spot(lane, right_m, against=turned_deg(lane.yaw_deg, spot.yaw_deg) > 90.0)

    def forward(self, spot: Spot, distance_m: float, goals: list[Spot]) -> Spot | None:
        """Further along the lane, or straight on without one; at forks towards the first goal; None where the road ends."""
        if distance_m <= 0.0:
            return spot
        if spot.lane is None or self.map is None:
            return Spot(*spot.shifted(distance_m, 0.0), spot.yaw_deg)
        step_m = distance_m
        for _ in range(2):
            found = self.map.previous(spot.lane, step_m) if spot.against else self.map.next(spot.lane, step_m)
            if not found:
                return None
            point = found[0] if len(found) == 1 else self._chosen(found, spot, goals)
            result = self.spot(point, spot.offset_m, against=spot.against)
            moved_m = math.hypot(result.x_m - spot.x_m, result.y_m - spot.y_m)
            # In a bend the outer lane is longer than the reference line by which the map counts.
            if point.key != spot.lane.key or moved_m == 0.0 or abs(moved_m / distance_m - 1.0) < 1e-4:
                break
            step_m *= distance_m / moved_m
        return result

    def _chosen(self, found: tuple[Waypoint, ...], spot: Spot, goals: list[Spot]) -> Waypoint:
        goal = next((goal.lane for goal in goals if goal.lane is not None), None)
        if goal is not None and not spot.against:
            ranked = [(length, number) for number, point in enumerate(found)
                      if (length := self._lanes_to(point.key, goal)) is not None]  # fmt: skip
            if ranked:
                return found[min(ranked)[1]]
        return min(found, key=lambda point: (self._bend_deg(point), point.key))

    def _bend_deg(self, point: Waypoint) -> float:
        """How far a lane turns from here to its end: without a route, straight on is the way."""
        if self.map is None:
            return 0.0
        section = self._roads[point.road_id].sections[point.section_id]
        end_m = section.end_m if point.lane_id < 0 else section.start_m
        end = self.map.waypoint_at(point.road_id, point.section_id, point.lane_id, end_m)
        return turned_deg(end.yaw_deg, point.yaw_deg)

    def _lanes_to(self, start: LaneKey, goal: Waypoint) -> int | None:
        """Through how many lanes the way to a goal's road leads; None: it does not lead there."""
        if self.map is None:
            return None
        seen, waiting = {start}, deque([(start, 0)])
        while waiting and len(seen) < _SEARCHED_MAX:
            key, length = waiting.popleft()
            if key.road_id == goal.road_id and (key.lane_id > 0) == (goal.lane_id > 0):
                return length
            for after in self.map.lanes_after(key):
                if after not in seen:
                    seen.add(after)
                    waiting.append((after, length + 1))
        return None


def _turned(yaw_deg: float, heading: Heading | None) -> float:
    if heading is None:
        return yaw_deg
    return wrap_deg(yaw_deg + heading.yaw_deg) if heading.is_relative else heading.yaw_deg
