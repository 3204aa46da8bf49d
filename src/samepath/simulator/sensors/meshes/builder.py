"""Building meshes: points in metres, x forward, y right, z up; faces look outwards.

The last step gathers all meshes into one set of arrays. Only +, -, *, / and square roots of Python floats, and sines of
:mod:`samepath.core.trig`: the same bits everywhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.core.errors import InputError
from samepath.core.trig import sincos_deg
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.renderer import F32, I32, U8, U16, Lamp, Material, Shapes

Point = tuple[float, float, float]
Colour = tuple[float, float, float]

_NO_AREA_M2: Final = 1e-9
FOOT_M: Final = -0.12
"""What stands on the ground reaches a little into it: grass lies lower than roads."""

BLACK: Final[Colour] = (0.012, 0.012, 0.014)
WHITE: Final[Colour] = (0.78, 0.78, 0.76)


@dataclass(frozen=True, eq=False, slots=True)
class MeshShape:
    """One finished mesh; arrays as in :class:`~samepath.simulator.sensors.renderer.Shapes`."""

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

    def shape(self) -> MeshShape:
        """The finished mesh."""
        brushes = self._brushes
        return MeshShape(
            np.array(list(self._indices), np.float32).reshape(-1, 3),
            np.array(self._faces, np.int32).reshape(-1, 3),
            np.array(self._normals, np.float32).reshape(-1, 3),
            np.array([brush[0] for brush in brushes], np.float32).reshape(-1, 3),
            np.array([brush[2] for brush in brushes], np.uint8),
            np.array([brush[1] for brush in brushes], np.uint8),
            np.array([brush[3] for brush in brushes], np.uint16),
            np.array([brush[4] for brush in brushes], np.int32),
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


# Parts that many vehicles share: wheels, lamps, plates.
GLASS: Final[Colour] = (0.045, 0.055, 0.065)
PLASTIC: Final[Colour] = (0.022, 0.022, 0.024)
HEAD: Final = Lamp.POSITION | Lamp.LOW_BEAM | Lamp.HIGH_BEAM
TAIL: Final = Lamp.POSITION | Lamp.LOW_BEAM | Lamp.BRAKE


def wheel(
    builder: ShapeBuilder, x: float, side: float, half_width_m: float, radius_m: float, width_m: float, sides: int
) -> None:
    """A wheel on the right (``side`` 1) or left (-1), its outer face ``half_width_m`` from the middle."""
    outer, inner = side * half_width_m, side * (half_width_m - width_m)
    rings = []
    for y in (min(inner, outer), max(inner, outer)):
        ring: list[Point] = []
        for k in range(sides):
            s, c = sincos_deg(360.0 * (k + 0.5) / sides)
            ring.append((x + radius_m * s, y, radius_m + radius_m * c))
        rings.append(ring)
    builder.brush(BLACK)
    # From afar nobody looks at a wheel from inside.
    builder.loft(rings, start=sides > 10 or side < 0.0, end=sides > 10 or side > 0.0)
    if sides > 6:
        builder.brush(grey(0.32)).disc((x, outer + 0.004 * side, radius_m), 0.66 * radius_m, sides, side)
    if sides > 10:
        builder.brush(grey(0.05))
        for k in range(5):
            s, c = sincos_deg(72.0 * k)
            across, along = 0.16 * radius_m, 0.56 * radius_m
            y = outer + 0.008 * side
            corners = [
                (x + 0.22 * radius_m * s, y, radius_m + 0.22 * radius_m * c),
                (x + along * s + across * c, y, radius_m + along * c - across * s),
                (x + along * s - across * c, y, radius_m + along * c + across * s),
            ]
            builder.fan(corners if side < 0.0 else corners[::-1])


def arch(
    builder: ShapeBuilder, x: float, side: float, half_width_m: float, radius_m: float, wheel_m: float, low_m: float
) -> None:
    """The dark opening above a wheel, down to the sill."""
    y = side * half_width_m
    ring = []
    for k in range(9):
        s, c = sincos_deg(-90.0 + 22.5 * k)
        ring.append((x + radius_m * s, y, max(wheel_m + radius_m * c, low_m)))
    if low_m < wheel_m:
        ring.extend([(x + radius_m, y, low_m), (x - radius_m, y, low_m)])
    builder.brush(grey(0.006))
    middle = (x, y, wheel_m)
    for k in range(len(ring)):
        a, b = ring[k], ring[(k + 1) % len(ring)]
        builder.triangle(middle, *((a, b) if side > 0.0 else (b, a)))


def lamps(
    builder: ShapeBuilder,
    x: float,
    direction: float,
    inner_m: float,
    outer_m: float,
    low_m: float,
    high_m: float,
    *,
    rich: bool,
) -> None:
    """Lamps in front (``direction`` 1) or behind (-1) at ``x``, from ``inner_m`` to ``outer_m`` off the middle."""
    back, face = x - 0.10 * direction, x + 0.012 * direction
    x0, x1 = min(back, face), max(back, face)
    front = direction > 0.0
    for side, blinker in ((1.0, Lamp.RIGHT_BLINKER), (-1.0, Lamp.LEFT_BLINKER)):
        split = inner_m + (outer_m - inner_m) * (0.74 if rich else 1.0)
        y0, y1 = sorted((side * inner_m, side * split))
        if front:
            builder.brush((0.80, 0.82, 0.84), lamp=int(HEAD))
        else:
            builder.brush((0.42, 0.012, 0.012), lamp=int(TAIL))
        builder.box((x0, y0, low_m), (x1, y1, high_m))
        if rich:
            y0, y1 = sorted((side * split, side * outer_m))
            builder.brush((0.75, 0.28, 0.02), lamp=int(blinker)).box((x0, y0, low_m), (x1, y1, high_m))
            if not front:
                y0, y1 = sorted((side * inner_m * 0.86, side * inner_m))
                builder.brush((0.7, 0.7, 0.68), lamp=int(Lamp.REVERSE)).box((x0, y0, low_m), (x1, y1, high_m))


def plate(builder: ShapeBuilder, x: float, direction: float, z: float) -> None:
    """A number plate."""
    face = x + 0.02 * direction
    builder.brush(WHITE).box((min(x, face), -0.26, z - 0.055), (max(x, face), 0.26, z + 0.055))


# Radius in pixels below which the next coarser mesh is drawn.
COARSER_PX: Final = (34.0, 11.0)


@dataclass(frozen=True, eq=False, slots=True)
class MeshModel:
    """A thing in falling detail; ``shadow`` casts its shadow."""

    levels: tuple[MeshShape, ...]
    shadow: MeshShape | None = None


class MeshBank:
    """Gathers models; the number of a model is that of its most detailed mesh."""

    def __init__(self) -> None:
        self._shapes: list[MeshShape] = []
        self._coarser: list[int] = []
        self._coarser_px: list[float] = []
        self._shadow: list[int] = []

    def add(self, model: MeshModel, coarser_px: Sequence[float] = COARSER_PX) -> int:
        """Add a model and return its number."""
        shadow = -1 if model.shadow is None else self._add(model.shadow)
        following = number = -1
        for level in range(len(model.levels) - 1, -1, -1):
            number = self._add(model.levels[level])
            if following >= 0:
                self._coarser[number], self._coarser_px[number] = following, coarser_px[level]
            self._shadow[number] = shadow
            following = number
        return number

    def _add(self, shape: MeshShape) -> int:
        self._shapes.append(shape)
        self._coarser.append(-1)
        self._coarser_px.append(0.0)
        self._shadow.append(-1)
        return len(self._shapes) - 1

    def shapes(self) -> Shapes:
        """Everything in one."""
        all_of = self._shapes
        for shape in all_of:
            if not np.isfinite(shape.vertices).all():
                raise InputError("finite coordinates were wanted for the vertices of a mesh, but others came")
        vertex_counts = [len(shape.vertices) for shape in all_of]
        face_counts = [len(shape.faces) for shape in all_of]
        mapping_counts = [len(shape.mapping) for shape in all_of]
        first_vertex, first_face, first_mapping = (
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32) for counts in (vertex_counts, face_counts, mapping_counts)
        )
        spheres = [_sphere(shape) for shape in all_of]
        made = Shapes(
            vertices=np.concatenate([shape.vertices for shape in all_of]),
            faces=np.concatenate([shape.faces + first for shape, first in zip(all_of, first_vertex, strict=False)]).astype(
                np.int32
            ),
            normals=np.concatenate([shape.normals for shape in all_of]),
            colours=np.concatenate([shape.colours for shape in all_of]),
            labels=np.concatenate([shape.labels for shape in all_of]),
            materials=np.concatenate([shape.materials for shape in all_of]),
            lamps=np.concatenate([shape.lamps for shape in all_of]),
            mappings=np.concatenate(
                [
                    np.where(shape.mappings >= 0, shape.mappings + first, -1)
                    for shape, first in zip(all_of, first_mapping, strict=False)
                ]
            ).astype(np.int32),
            mapping=np.concatenate([shape.mapping for shape in all_of]).astype(np.float32),
            first_vertex=first_vertex,
            first_face=first_face,
            centre=np.array([centre for centre, _ in spheres], np.float32).reshape(-1, 3),
            radius=np.array([radius for _, radius in spheres], np.float32),
            coarser=np.array(self._coarser, np.int32),
            coarser_px=np.array(self._coarser_px, np.float32),
            shadow=np.array(self._shadow, np.int32),
        )
        for name in Shapes.__slots__:
            getattr(made, name).flags.writeable = False
        return made


def _sphere(shape: MeshShape) -> tuple[tuple[float, ...], float]:
    """A sphere about the middle of the bounding box, a little larger than needed, so that rounding cuts nothing off."""
    if not len(shape.vertices):
        return (0.0, 0.0, 0.0), 0.0
    points = shape.vertices.astype(np.float64)
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    away = points - centre
    square = away[:, 0] * away[:, 0] + away[:, 1] * away[:, 1] + away[:, 2] * away[:, 2]
    return tuple(float(part) for part in centre), float(np.sqrt(square.max())) * 1.0001 + 1e-4
