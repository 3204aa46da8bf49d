"""Building one mesh: points in metres, x forward, y right, z up; faces look outwards.

Only +, -, *, / and square roots of Python floats, and sines of :mod:`samepath.base.trig`: the same bits everywhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.base.trig import sincos_deg
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.scene import F32, I32, U8, U16, Material

Point = tuple[float, float, float]
Colour = tuple[float, float, float]

_NO_AREA_M2: Final = 1e-9
FOOT_M: Final = -0.12
"""What stands on the ground reaches a little into it: grass lies lower than roads."""
BLACK: Final[Colour] = (0.012, 0.012, 0.014)
WHITE: Final[Colour] = (0.78, 0.78, 0.76)


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """One finished mesh; arrays as in :class:`~samepath.sim.sensors.scene.Shapes`."""

    vertices: F32
    faces: I32
    normals: F32
    colours: F32
    labels: U8
    materials: U8
    lamps: U16
    mappings: I32
    mapping: F32


class ShapeBuilder:
    """Collects faces painted with the brush of the moment."""

    def __init__(self, label: Label = Label.NONE) -> None:
        self._label = label
        self._brush: tuple[Colour, Material, Label, int, int] = ((0.5, 0.5, 0.5), Material.PLAIN, label, 0, -1)
        self._indices: dict[Point, int] = {}
        self._faces: list[tuple[int, int, int]] = []
        self._normals: list[Point] = []
        self._brushes: list[tuple[Colour, Material, Label, int, int]] = []
        self._mapping: list[tuple[float, ...]] = []

    def brush(
        self, colour: Colour, material: Material = Material.PLAIN, label: Label | None = None, lamp: int = 0
    ) -> "ShapeBuilder":
        """Take up another colour."""
        self._brush = (colour, material, self._label if label is None else label, lamp, -1)
        return self

    def windows(self, colour: Colour, along: Sequence[float], up: Sequence[float]) -> "ShapeBuilder":
        """Paint walls with windows: u and v are the products of x, y, z, 1 with ``along`` and ``up``."""
        self._mapping.append((*along, *up))
        self._brush = (colour, Material.FACADE, self._label, 0, len(self._mapping) - 1)
        return self

    def triangle(self, a: Point, b: Point, c: Point) -> None:
        """Add a face, unless it has no area."""
        ux, uy, uz, vx, vy, vz = b[0] - a[0], b[1] - a[1], b[2] - a[2], c[0] - a[0], c[1] - a[1], c[2] - a[2]
        nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        size = math.sqrt(nx * nx + ny * ny + nz * nz)
        if size < _NO_AREA_M2:
            return
        first, second, third = (self._indices.setdefault(point, len(self._indices)) for point in (a, b, c))
        self._faces.append((first, second, third))
        self._normals.append((nx / size, ny / size, nz / size))
        self._brushes.append(self._brush)

    def quad(self, a: Point, b: Point, c: Point, d: Point) -> None:
        """Add a face of four corners, cut along a-c."""
        self.triangle(a, b, c)
        self.triangle(a, c, d)

    def fan(self, ring: Sequence[Point]) -> None:
        """Add a convex face."""
        for k in range(1, len(ring) - 1):
            self.triangle(ring[0], ring[k], ring[k + 1])

    def loft(self, rings: Sequence[Sequence[Point]], *, start: bool = True, end: bool = True, close: bool = True) -> None:
        """Join rings of as many points each; seen from outside they run so that the next ring lies to the left.

        ``start`` and ``end`` close the first and last ring; without ``close`` the rings are open lines.
        """
        count = len(rings[0])
        for low, high in pairwise(rings):
            for k in range(count if close else count - 1):
                j = (k + 1) % count
                self.quad(low[k], low[j], high[j], high[k])
        if start:
            self.fan(list(rings[0])[::-1])
        if end:
            self.fan(rings[-1])

    def box(self, low: Point, high: Point) -> None:
        """Add an upright box."""
        (x0, y0, z0), (x1, y1, z1) = low, high
        base = [(x0, y0, z0), (x1, y0, z0), (x1, y1, z0), (x0, y1, z0)]
        self.loft([base, [(x, y, z1) for x, y, _ in base]])

    def prism(self, base: Sequence[Point], height_m: float, *, bottom: bool = False) -> None:
        """Add walls and a roof over a ring that runs in the winding of a face that looks up."""
        self.loft([base, [(x, y, z + height_m) for x, y, z in base]], start=bottom)

    def pole(self, foot: Point, radius_m: float, top_radius_m: float, height_m: float, sides: int) -> None:
        """Add an upright pole."""
        x, y, z = foot
        self.loft([circle(x, y, z, radius_m, sides), circle(x, y, z + height_m, top_radius_m, sides)], start=False)

    def tube(self, a: Point, b: Point, radius_m: float, end_radius_m: float, sides: int, *, start: bool = True) -> None:
        """Add a straight tube from ``a`` to ``b``."""
        ax, ay, az = (b[k] - a[k] for k in range(3))
        size = math.sqrt(ax * ax + ay * ay + az * az)
        ax, ay, az = ax / size, ay / size, az / size
        # Any direction across: away from the axis the tube runs along most.
        hx, hy, hz = (0.0, 0.0, 1.0) if abs(az) < 0.9 else (1.0, 0.0, 0.0)
        ux, uy, uz = hy * az - hz * ay, hz * ax - hx * az, hx * ay - hy * ax
        size = math.sqrt(ux * ux + uy * uy + uz * uz)
        ux, uy, uz = ux / size, uy / size, uz / size
        vx, vy, vz = ay * uz - az * uy, az * ux - ax * uz, ax * uy - ay * ux
        rings = []
        for (x, y, z), radius in ((a, radius_m), (b, end_radius_m)):
            ring = []
            for k in range(sides):
                s, c = sincos_deg(360.0 * k / sides)
                ring.append((x + radius * (c * ux + s * vx), y + radius * (c * uy + s * vy), z + radius * (c * uz + s * vz)))
            rings.append(ring)
        self.loft(rings, start=start)

    def disc(self, middle: Point, radius_m: float, sides: int, facing: float) -> None:
        """Add an upright disc that looks along +y (``facing`` 1) or -y (-1)."""
        x, y, z = middle
        ring = []
        for k in range(sides):
            s, c = sincos_deg(360.0 * (k + 0.5) / sides)
            ring.append((x + radius_m * s, y, z + radius_m * c))
        self.fan(ring if facing > 0.0 else ring[::-1])

    def ball(self, middle: Point, size: Point, rounds: int, slices: int) -> None:
        """Add an ellipsoid of ``rounds`` rings between its poles."""
        x, y, z = middle
        rings = []
        for j in range(1, rounds + 1):
            s, c = sincos_deg(180.0 * j / (rounds + 1))
            rings.append([
                (x + size[0] * s * cosine, y + size[1] * s * sine, z - size[2] * c)
                for sine, cosine in (sincos_deg(360.0 * k / slices) for k in range(slices))
            ])  # fmt: skip
        self.loft(rings, start=False, end=False)
        low, high = (x, y, z - size[2]), (x, y, z + size[2])
        for k in range(slices):
            j = (k + 1) % slices
            self.triangle(low, rings[0][j], rings[0][k])
            self.triangle(high, rings[-1][k], rings[-1][j])

    def shape(self) -> Shape:
        """The finished mesh."""
        brushes = self._brushes
        return Shape(
            np.array(list(self._indices), np.float32).reshape(-1, 3),
            np.array(self._faces, np.int32).reshape(-1, 3),
            np.array(self._normals, np.float32).reshape(-1, 3),
            np.array([one[0] for one in brushes], np.float32).reshape(-1, 3),
            np.array([one[2] for one in brushes], np.uint8),
            np.array([one[1] for one in brushes], np.uint8),
            np.array([one[3] for one in brushes], np.uint16),
            np.array([one[4] for one in brushes], np.int32),
            np.array(self._mapping, np.float32).reshape(-1, 8),
        )


def circle(x: float, y: float, z: float, radius_m: float, sides: int) -> list[Point]:
    """A level ring in the winding of a face that looks up."""
    ring = []
    for k in range(sides):
        s, c = sincos_deg(360.0 * k / sides)
        ring.append((x + radius_m * c, y + radius_m * s, z))
    return ring


def grey(level: float) -> Colour:
    """A grey."""
    return level, level, level
