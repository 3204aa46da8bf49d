"""Where walkers of the traffic go: sidewalks and crossings of the walkers' mesh, as a graph of convex polygons.

Two polygons that share an edge are joined by it; a way is a row of polygons, and a walker goes from edge to edge, keeping to
the right of each, so that those who meet pass each other. Everything is worked out once per map.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from samepath.core.errors import InputError
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.maps.surfaces import GROUND_LABELS
from samepath.simulator.maps.walking import CROSSWALK, PERSON_RADIUS_M, SIDEWALK, neighbours, walk_mesh
from samepath.simulator.traffic.roads import Crossing, RoadNet

# How near to the end of an edge one goes through it, and how far to the right of its middle at most.
_EDGE_M: Final = 0.25
_RIGHT_MOST_M: Final = 1.0
_CROSSING_REACH_M: Final = 15.0
# People go out of their way so far to spare themselves a crossing.
_CROSSING_COST_M: Final = 60.0
# What stands on a walkway and is no wider is walked around; the mesh itself leaves out what is larger.
_POST_WIDEST_M: Final = 1.5
_HEAD_M: Final = 2.0

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Doorway:
    """An edge to another polygon: its ends, left and right for who goes through."""

    to: int
    left: Place
    right: Place
    point: Place
    """Where one goes through: to the right of the middle."""


@dataclass(frozen=True, eq=False, slots=True)
class Walkway:
    """A convex polygon to walk on; ``edges`` are (x, y, inward x, inward y) of its sides."""

    number: int
    middle: Place
    height_m: float
    edges: tuple[tuple[float, float, float, float], ...]
    doorways: tuple[Doorway, ...]
    crossing: int
    """The crossing it is a part of; -1: none that cars drive over."""
    area_m2: float
    is_sidewalk: bool

    def holds(self, x_m: float, y_m: float, inside_m: float = 0.0) -> bool:
        """Is a point within, and so far from every side?"""
        return all((x_m - x) * to_x + (y_m - y) * to_y >= inside_m for x, y, to_x, to_y in self.edges)


@dataclass(frozen=True, eq=False)
class WalkNet:
    """All walkways that can be reached from each other: the largest such part of a map."""

    ways: tuple[Walkway, ...]
    posts: tuple[tuple[float, float, float], ...] = ()
    """What stands on them, such as posts of signs: x, y, radius."""
    posts_of: tuple[tuple[int, ...], ...] = ()
    """By walkway: the posts on it, or just beside."""

    def route(self, start: int, goal: int) -> list[int]:
        """The shortest row of walkways from one to another, both included; ties go to the lower number."""
        best = {start: 0.0}
        came: dict[int, int] = {}
        middle = self.ways[goal].middle
        queue = [(math.dist(self.ways[start].middle, middle), start)]
        done: set[int] = set()
        while queue:
            _, number = heapq.heappop(queue)
            if number == goal:
                break
            if number in done:
                continue
            done.add(number)
            way = self.ways[number]
            for door in way.doorways:
                other = self.ways[door.to]
                cost = best[number] + _far_m(way.middle, door.point) + _far_m(door.point, other.middle)
                if other.crossing >= 0 and way.crossing < 0:
                    cost += _CROSSING_COST_M
                if cost < best.get(door.to, math.inf):
                    best[door.to] = cost
                    came[door.to] = number
                    heapq.heappush(queue, (cost + _far_m(other.middle, middle), door.to))
        row = [goal]
        while row[-1] != start:
            row.append(came[row[-1]])
        return row[::-1]

    def door(self, number: int, to: int) -> Doorway:
        """The edge between two neighbours."""
        return next(door for door in self.ways[number].doorways if door.to == to)


def _far_m(a: Place, b: Place) -> float:
    dx, dy = a[0] - b[0], a[1] - b[1]
    return math.sqrt(dx * dx + dy * dy)


@lru_cache(maxsize=4)
def walk_net(road_map: RoadMap, net: RoadNet) -> WalkNet:
    """Work it out; once per map and process."""
    mesh = walk_mesh(road_map)
    beyond = neighbours(mesh.polygons)
    areas = (SIDEWALK[0], CROSSWALK[0])
    kept = _largest_part([polygon.area in areas for polygon in mesh.polygons], beyond)
    if not kept:
        raise InputError(f"map {road_map.name!r} has no sidewalks: walkers have nowhere to go")
    numbers = {old: new for new, old in enumerate(kept)}
    ways: list[Walkway] = []
    for new, old in enumerate(kept):
        polygon = mesh.polygons[old]
        ring: list[Place] = [(float(mesh.points[c][0]), float(mesh.points[c][1])) for c in polygon.corners]
        count = len(ring)
        middle = (sum(x for x, _ in ring) / count, sum(y for _, y in ring) / count)
        doors, edges = [], []
        for index in range(count):
            a, b = ring[index], ring[(index + 1) % count]
            length_m = _far_m(a, b)
            if length_m <= 0.0:
                continue
            # The normal that points to the middle.
            to_x, to_y = (a[1] - b[1]) / length_m, (b[0] - a[0]) / length_m
            if (middle[0] - a[0]) * to_x + (middle[1] - a[1]) * to_y < 0.0:
                to_x, to_y = -to_x, -to_y
            edges.append((a[0], a[1], to_x, to_y))
            other = beyond[old][index] - 1
            if other in numbers:
                doors.append(_doorway(numbers[other], a, b, (-to_x, -to_y), length_m))
        height_m = sum(float(mesh.points[c][2]) for c in polygon.corners) / count
        crossing = -1 if polygon.area == SIDEWALK[0] else _crossing_of(middle, net.crossings)
        area_m2 = abs(sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(ring, [*ring[1:], ring[0]], strict=True))) / 2.0
        ways.append(Walkway(new, middle, height_m, tuple(edges), tuple(doors), crossing, area_m2, polygon.area == SIDEWALK[0]))
    posts = tuple(_posts(road_map, ways))
    posts_of = tuple(
        tuple(n for n, (x_m, y_m, radius_m) in enumerate(posts) if way.holds(x_m, y_m, -radius_m - 2.0 * PERSON_RADIUS_M))
        for way in ways
    )
    return WalkNet(tuple(ways), posts, posts_of)


def _posts(road_map: RoadMap, ways: list[Walkway]) -> Iterator[tuple[float, float, float]]:
    """Slender scenery on walkways, in the order of the map."""
    for mesh in road_map.meshes:
        if not mesh.is_physical or mesh.label in GROUND_LABELS:
            continue
        (low_x, low_y, low_z), (high_x, high_y, _) = mesh.vertices.min(axis=0).tolist(), mesh.vertices.max(axis=0).tolist()
        if max(high_x - low_x, high_y - low_y) > _POST_WIDEST_M or low_z > _HEAD_M:
            continue
        x_m, y_m = (low_x + high_x) / 2.0, (low_y + high_y) / 2.0
        radius_m = _far_m((low_x, low_y), (high_x, high_y)) / 2.0
        if any(way.holds(x_m, y_m, -radius_m - PERSON_RADIUS_M) for way in ways):
            yield x_m, y_m, radius_m


def _doorway(to: int, a: Place, b: Place, out: Place, length_m: float) -> Doorway:
    # CARLA's y is to the right of x: who walks along ``out`` has (-out_y, out_x) on the right.
    right_x, right_y = -out[1], out[0]
    left, right = (a, b) if (b[0] - a[0]) * right_x + (b[1] - a[1]) * right_y > 0.0 else (b, a)
    aside_m = max(0.0, min(length_m / 2.0 - _EDGE_M, _RIGHT_MOST_M))
    part = 0.5 + aside_m / length_m
    return Doorway(to, left, right, (left[0] + part * (right[0] - left[0]), left[1] + part * (right[1] - left[1])))


def _crossing_of(middle: Place, crossings: tuple[Crossing, ...]) -> int:
    best, best_m = -1, _CROSSING_REACH_M
    for crossing in crossings:
        count = len(crossing.ring)
        centre = (sum(x for x, _ in crossing.ring) / count, sum(y for _, y in crossing.ring) / count)
        far_m = _far_m(middle, centre)
        if far_m < best_m:
            best, best_m = crossing.number, far_m
    return best


def _largest_part(is_way: list[bool], beyond: list[list[int]]) -> list[int]:
    seen = [False] * len(is_way)
    best: list[int] = []
    for start, wanted in enumerate(is_way):
        if not wanted or seen[start]:
            continue
        part, pending = [], [start]
        seen[start] = True
        while pending:
            number = pending.pop()
            part.append(number)
            for other in beyond[number]:
                if other and is_way[other - 1] and not seen[other - 1]:
                    seen[other - 1] = True
                    pending.append(other - 1)
        if len(part) > len(best):
            best = part
    return sorted(best)
