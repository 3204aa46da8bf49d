"""Triangle meshes and polygons, with exact orientation tests on the integer grid.

Winding, chosen once: for every triangle (a, b, c) the cross product (b - a) x (c - a), computed from CARLA's coordinates as
plain numbers, points up for horizontal surfaces and outwards for solids. As CARLA's frame is left-handed, such a triangle
runs clockwise for somebody who looks down on the real road.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from samepath.sim.maps.frames import GRID_PER_M, Floats, frozen_points

Point = tuple[float, float, float]
Ints = npt.NDArray[np.int32]

PHYSICAL_LABELS: Final = frozenset({"road", "sidewalk", "kerb", "ground", "building", "pole", "barrier"})


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
    if turn == 0:
        return 1 << 128
    if turn < 0 or any(
        _cross(a, b, grid[r]) >= 0 and _cross(b, c, grid[r]) >= 0 and _cross(c, a, grid[r]) >= 0
        for r in left
        if r not in corners
    ):
        return None
    return (c[0] - a[0]) ** 2 + (c[1] - a[1]) ** 2
