"""What lies flat: road, junctions, sidewalks with kerbs, painted lines, the ground; as meshes and as polygons.

Winding, chosen once: for every triangle (a, b, c) the cross product (b - a) x (c - a), computed from CARLA's coordinates as
plain numbers, points up for horizontal surfaces and outwards for solids. As CARLA's frame is left-handed, such a triangle runs
clockwise for somebody who looks down on the real road.

Orientation is decided in whole numbers on the grid, exactly: a test in floats could see a thin triangle turned one way on one
machine and the other way on another. A junction is one simple ring around all its mouths and corners, so that no gap is left
between the turns.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from samepath.simulator.maps.geometry import GRID_PER_M, Floats, frozen_points, on_grid, to_carla
from samepath.simulator.maps.lanes import RAISED_KINDS, borders, centre, drivable_span, heights_m, place, stations_m
from samepath.simulator.maps.records import Junction, Lane, LaneSection, OpenDrive, Road, RoadMark

Point = tuple[float, float, float]
Ints = npt.NDArray[np.int32]

GROUND_LABELS: Final = frozenset({"road", "sidewalk", "kerb", "ground"})
PHYSICAL_LABELS: Final = frozenset({"road", "sidewalk", "kerb", "ground", "building", "pole", "barrier"})

_TOUCH_M: Final = 0.3
_FLAT_M: Final = 0.02
RING_CORNERS_MAX: Final = 2000
GROUND_DROP_M: Final = 0.0625
GROUND_MARGIN_M: Final = 100.0
PAINT_LIFT_M: Final = 2.0**-7
DASH_M: Final = 2.0
DASH_PERIOD_M: Final = 6.0

Rings = Mapping[int, tuple[Point, ...] | None]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False, slots=True)
class Mesh:
    """Triangles with a semantic label; ``vertices`` float64[n, 3] in CARLA's frame, ``triangles`` int32[m, 3], read-only."""

    vertices: Floats
    triangles: Ints
    label: str
    name: str

    @property
    def is_physical(self) -> bool:
        """Does a wheel or a body feel it?"""
        return self.label in PHYSICAL_LABELS


@dataclass(frozen=True, eq=False, slots=True)
class Polygon:
    """A closed ring, float64[n, 3] in CARLA's frame; the last corner joins the first."""

    vertices: Floats
    label: str
    name: str


@dataclass(frozen=True, slots=True)
class _ArmMouth:
    """Where an arm meets the junction; first and last corner in the order of rising angle around the junction's middle."""

    first: Point
    last: Point


class MeshBuilder:
    """Collects triangles; equal vertices are shared, triangles without area are left out."""

    def __init__(self, label: str, name: str) -> None:
        self.label = label
        self.name = name
        self._indices: dict[Point, int] = {}
        self._triangles: list[tuple[int, int, int]] = []

    def triangle(self, a: Point, b: Point, c: Point) -> None:
        """Add one triangle."""
        if has_area(a, b, c):
            first, second, third = (self._indices.setdefault(point, len(self._indices)) for point in (a, b, c))
            self._triangles.append((first, second, third))

    def quad(self, a: Point, b: Point, c: Point, d: Point) -> None:
        """Add a quad whose corners run in the winding of the mesh."""
        self.triangle(a, b, c)
        self.triangle(a, c, d)

    def strip(self, left: Sequence[Point], right: Sequence[Point]) -> None:
        """Add the surface between two borders, as seen by somebody who walks along them; it faces up."""
        for i in range(len(left) - 1):
            self.quad(left[i], left[i + 1], right[i + 1], right[i])

    def ring(self, points: Sequence[Point]) -> None:
        """Add the surface inside a simple ring; it faces up."""
        for a, b, c in triangulate(points):
            self.triangle(a, b, c)

    def prism(self, base: Sequence[Point], height_m: float) -> None:
        """Add walls and a roof over a ring that runs in the winding of the mesh."""
        top = [(x, y, z + height_m) for x, y, z in base]
        for i in range(len(base)):
            j = (i + 1) % len(base)
            self.quad(base[i], base[j], top[j], top[i])
        self.ring(top)

    def mesh(self) -> Mesh | None:
        """The finished mesh, or None without triangles."""
        if not self._triangles:
            return None
        triangles = np.array(self._triangles, dtype=np.int32)
        triangles.flags.writeable = False
        return Mesh(frozen_points(list(self._indices)), triangles, self.label, self.name)


def surface_meshes(document: OpenDrive, rings: Rings, box: Box) -> Iterator[Mesh]:
    """Every flat mesh, in the order of the file; ``rings`` holds the outline of each junction that has one."""
    for road in document.roads:
        covered = road.junction_id is not None and rings.get(road.junction_id) is not None
        yield from _road_meshes(road, covered=covered)
        yield from _finished(_kerb_mesh(road))
        yield from _finished(_paint_mesh(road))
    for junction in document.junctions:
        ring = rings[junction.id]
        if ring is not None:
            builder = MeshBuilder("road", f"junction {junction.id}")
            builder.ring(ring)
            yield from _finished(builder)
    yield ground_mesh(document, box)


def _finished(builder: MeshBuilder) -> Iterator[Mesh]:
    mesh = builder.mesh()
    if mesh is not None:
        yield mesh


def _road_meshes(road: Road, *, covered: bool) -> Iterator[Mesh]:
    """Surfaces by label; the drivable part of a connecting road is left to its junction where that has a ring."""
    builders = {label: MeshBuilder(label, f"road {road.id}") for label in ("road", "sidewalk", "ground")}
    for section in road.sections:
        for lane in section.lanes:
            if lane.id == 0 or (covered and lane.is_drivable):
                continue
            label = "sidewalk" if lane.kind in RAISED_KINDS else "ground" if lane.kind == "none" else "road"
            left, right = lane_edges(road, section, lane)
            builders[label].strip(left, right)
    for builder in builders.values():
        yield from _finished(builder)


def lane_edges(road: Road, section: LaneSection, lane: Lane) -> tuple[list[Point], list[Point]]:
    """The left and right edge of a lane's surface along rising s."""
    inner: list[Point] = []
    outer: list[Point] = []
    for s_m in stations_m(road, section):
        near, far = borders(road, section, lane, s_m)
        low_m, high_m = heights_m(section, lane, s_m)
        inner.append(place(road, s_m, near.t_m, low_m))
        outer.append(place(road, s_m, far.t_m, high_m))
    return (outer, inner) if lane.id > 0 else (inner, outer)


def _kerb_mesh(road: Road) -> MeshBuilder:
    """Walls around everything raised: towards the road, outwards down to the ground, and across the ends."""
    builder = MeshBuilder("kerb", f"road {road.id}")
    for section in road.sections:
        feet_m = [on_grid(road.elevation_m(s_m) - GROUND_DROP_M) for s_m in stations_m(road, section)]
        for lane in section.lanes:
            if lane.id == 0 or lane.kind not in RAISED_KINDS:
                continue
            left, right = lane_edges(road, section, lane)
            if not _is_raised(section, lane.id, 1):
                _wall(builder, left[::-1], feet_m[::-1])
            if not _is_raised(section, lane.id, -1):
                _wall(builder, right, feet_m)
            if road.predecessor is None and section.index == 0:
                _wall(builder, [left[0], right[0]], [feet_m[0]] * 2)
            if road.successor is None and section.index == len(road.sections) - 1:
                _wall(builder, [right[-1], left[-1]], [feet_m[-1]] * 2)
    return builder


def _is_raised(section: LaneSection, lane_id: int, step: int) -> bool:
    """Is the neighbour of a lane, towards rising (1) or falling (-1) ids, raised too?"""
    neighbour = section.lane(lane_id + step)
    return neighbour is not None and neighbour.kind in RAISED_KINDS


def _wall(builder: MeshBuilder, top: list[Point], feet_m: list[float]) -> None:
    """A wall from ``top`` down to ``feet_m``; it faces to the right of somebody who walks along ``top`` on the real road."""
    bottom = [(x, y, foot_m) for (x, y, _), foot_m in zip(top, feet_m, strict=True)]
    for i in range(len(top) - 1):
        builder.quad(top[i], top[i + 1], bottom[i + 1], bottom[i])


def _paint_mesh(road: Road) -> MeshBuilder:
    """Lines on the outer borders of lanes (lane 0: on the reference line), a little above the road."""
    builder = MeshBuilder("lane-marking", f"road {road.id}")
    for section in road.sections:
        stations = stations_m(road, section)
        for lane in section.lanes:
            for index, mark in enumerate(lane.marks):
                if mark.kind in {"none", "curb"} or mark.width_m <= 0.0:
                    continue
                start_m = section.start_m + mark.s_offset_m
                following = lane.marks[index + 1 : index + 2]
                end_m = min(section.end_m, section.start_m + following[0].s_offset_m if following else section.end_m)
                for from_m, to_m in _dashes(mark, start_m, end_m) if start_m < end_m else ():
                    between = stations[bisect_right(stations, from_m) : bisect_left(stations, to_m)]
                    _paint_line(builder, road, section, lane, mark.width_m, (from_m, *between, to_m))
    return builder


def _dashes(mark: RoadMark, start_m: float, end_m: float) -> Iterator[tuple[float, float]]:
    if "broken" not in mark.kind:
        yield start_m, end_m
        return
    for index in range(int((end_m - start_m) / DASH_PERIOD_M) + 1):
        from_m = start_m + index * DASH_PERIOD_M
        if from_m + DASH_M <= end_m:
            yield from_m, from_m + DASH_M


def _paint_line(
    builder: MeshBuilder, road: Road, section: LaneSection, lane: Lane, width_m: float, stations: Sequence[float]
) -> None:
    left: list[Point] = []
    right: list[Point] = []
    for s_m in stations:
        t_m = borders(road, section, lane, s_m)[1].t_m
        left.append(place(road, s_m, t_m + 0.5 * width_m, PAINT_LIFT_M))
        right.append(place(road, s_m, t_m - 0.5 * width_m, PAINT_LIFT_M))
    builder.strip(left, right)


def ground_mesh(document: OpenDrive, box: Box) -> Mesh:
    """One large quad a little below the lowest road."""
    lowest_m = min(
        road.elevation_m(s_m) for road in document.roads for section in road.sections for s_m in stations_m(road, section)
    )
    z_m = on_grid(lowest_m - GROUND_DROP_M)
    x_min, y_min, x_max, y_max = (
        on_grid(value + margin) for value, margin in zip(box, (-GROUND_MARGIN_M,) * 2 + (GROUND_MARGIN_M,) * 2, strict=True)
    )
    builder = MeshBuilder("ground", "ground")
    builder.quad((x_min, y_min, z_m), (x_max, y_min, z_m), (x_max, y_max, z_m), (x_min, y_max, z_m))
    (mesh,) = _finished(builder)
    return mesh


def drivable_polygons(document: OpenDrive, rings: Rings) -> tuple[Polygon, ...]:
    """Where wheels may be: the drivable lanes of each road, and each junction as a whole."""
    found = [
        polygon
        for road in document.roads
        if road.junction_id is None or rings.get(road.junction_id) is None
        for polygon in _lane_polygons(road, "road", drivable=True)
    ]
    for junction in document.junctions:
        ring = rings[junction.id]
        if ring is not None:
            found.append(Polygon(frozen_points(list(ring)), "road", f"junction {junction.id}"))
    return tuple(found)


def sidewalk_polygons(document: OpenDrive) -> tuple[Polygon, ...]:
    """Where people walk beside the road."""
    return tuple(polygon for road in document.roads for polygon in _lane_polygons(road, "sidewalk", drivable=False))


def _lane_polygons(road: Road, label: str, *, drivable: bool) -> Iterator[Polygon]:
    for section in road.sections:
        for lane in section.lanes:
            if lane.id != 0 and (lane.is_drivable if drivable else lane.kind == "sidewalk"):
                left, right = lane_edges(road, section, lane)
                name = f"road {road.id} section {section.index} lane {lane.id}"
                yield Polygon(frozen_points([*left, *right[::-1]]), label, name)


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


def _mouths(document: OpenDrive, junction: Junction) -> list[_ArmMouth]:
    found: list[_ArmMouth] = []
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
                found.append(_ArmMouth(left, right) if s_m == 0.0 else _ArmMouth(right, left))
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
    if not 3 <= len(ring) <= RING_CORNERS_MAX or not is_simple(ring) or ring_area_m2(ring) <= 0.0:
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


def _grid(point: Point) -> tuple[int, int, int]:
    return round(point[0] * GRID_PER_M), round(point[1] * GRID_PER_M), round(point[2] * GRID_PER_M)


def has_area(a: Point, b: Point, c: Point) -> bool:
    """Is the triangle not degenerate? Exact."""
    ax, ay, az = _grid(a)
    bx, by, bz = _grid(b)
    cx, cy, cz = _grid(c)
    ux, uy, uz, vx, vy, vz = bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az
    return uy * vz != uz * vy or uz * vx != ux * vz or ux * vy != uy * vx


def _cross(a: Sequence[int], b: Sequence[int], c: Sequence[int]) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def ring_area_m2(points: Sequence[Point]) -> float:
    """Signed area in the plane; positive in the winding of the mesh."""
    grid = [_grid(point) for point in points]
    twice = sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(grid, [*grid[1:], *grid[:1]], strict=True))
    return twice / 2 / GRID_PER_M**2


def is_simple(points: Sequence[Point]) -> bool:
    """Does no edge cross another? Exact, quadratic: for rings of a few hundred corners."""
    grid = [_grid(point) for point in points]
    count = len(grid)
    for i in range(count):
        a, b = grid[i], grid[(i + 1) % count]
        for j in range(i + 2, count - (i == 0)):
            c, d = grid[j], grid[(j + 1) % count]
            if any(max(a[k], b[k]) < min(c[k], d[k]) or max(c[k], d[k]) < min(a[k], b[k]) for k in (0, 1)):
                continue
            if _cross(a, b, c) * _cross(a, b, d) <= 0 and _cross(c, d, a) * _cross(c, d, b) <= 0:
                return False
    return True


def contains(points: Sequence[Point], x_m: float, y_m: float) -> bool:
    """Is the point inside the ring or on its edge? Exact for points on the grid."""
    grid = [_grid(point) for point in points]
    at = _grid((x_m, y_m, 0.0))
    inside = False
    for a, b in zip(grid, [*grid[1:], *grid[:1]], strict=True):
        side = _cross(a, b, at)
        if side == 0 and min(a[0], b[0]) <= at[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= at[1] <= max(a[1], b[1]):
            return True
        if (a[1] > at[1]) != (b[1] > at[1]) and (side > 0) == (b[1] > a[1]):
            inside = not inside
    return inside


def triangulate(points: Sequence[Point]) -> list[tuple[Point, Point, Point]]:
    """Cut ears off a simple ring, the one with the shortest cut first; exact, always in the same order, facing up."""
    ring = [point for point, following in zip(points, [*points[1:], *points[:1]], strict=True) if point[:2] != following[:2]]
    if ring_area_m2(ring) < 0.0:
        ring.reverse()
    grid = [_grid(point) for point in ring]
    left = list(range(len(ring)))
    cuts = [_cut(grid, left, at) for at in range(len(left))]
    triangles: list[tuple[Point, Point, Point]] = []
    while len(left) > 2:
        ears = [(cut, at) for at, cut in enumerate(cuts) if cut is not None]
        if not ears:
            # An ear that a corner blocked can be free once that corner has become convex.
            cuts = [_cut(grid, left, at) for at in range(len(left))]
            ears = [(cut, at) for at, cut in enumerate(cuts) if cut is not None]
            if not ears:
                break
        _, ear = min(ears)
        i, j, k = left[ear - 1], left[ear], left[(ear + 1) % len(left)]
        if _cross(grid[i], grid[j], grid[k]) > 0:
            triangles.append((ring[i], ring[j], ring[k]))
        left.pop(ear)
        cuts.pop(ear)
        for at in ((ear - 1) % len(left), ear % len(left)):
            cuts[at] = _cut(grid, left, at)
    return triangles


def _cut(grid: Sequence[tuple[int, int, int]], left: Sequence[int], at: int) -> int | None:
    """The squared length of the cut that takes corner ``at`` off, or None where another corner is in the way.

    A corner on a straight edge is taken off last, as its triangle is empty and its neighbours still need it.
    """
    count = len(left)
    corners = (left[at - 1], left[at], left[(at + 1) % count])
    a, b, c = (grid[corner] for corner in corners)
    turn = _cross(a, b, c)
    # Larger than any squared length: taken only when nothing else is left.
    if turn == 0:
        return 1 << 128
    if turn < 0 or any(
        _cross(a, b, grid[r]) >= 0 and _cross(b, c, grid[r]) >= 0 and _cross(c, a, grid[r]) >= 0
        for r in left
        if r not in corners
    ):
        return None
    return (c[0] - a[0]) ** 2 + (c[1] - a[1]) ** 2
