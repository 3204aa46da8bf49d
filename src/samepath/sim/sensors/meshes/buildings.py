"""Buildings over any outline: walls with windows, doors, gables or flat roofs."""

import math
from collections.abc import Sequence
from typing import Final

from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import FOOT_M, Colour, Point, Shape, ShapeBuilder, grey
from samepath.sim.sensors.scene import Material

_WALLS: Final[tuple[Colour, ...]] = (
    (0.60, 0.52, 0.38), (0.30, 0.115, 0.075), (0.64, 0.62, 0.57), (0.50, 0.33, 0.15), (0.34, 0.35, 0.36),
    (0.38, 0.45, 0.50), (0.52, 0.34, 0.27), (0.24, 0.16, 0.11), (0.55, 0.56, 0.44),
)  # fmt: skip
_ROOFS: Final[tuple[Colour, ...]] = ((0.26, 0.075, 0.04), (0.085, 0.085, 0.095), (0.19, 0.10, 0.06), (0.13, 0.12, 0.12))
_DOORS: Final[tuple[Colour, ...]] = ((0.10, 0.03, 0.02), (0.02, 0.07, 0.05), (0.03, 0.05, 0.12), (0.05, 0.04, 0.035))
_STOREY_M: Final = 3.0
_WINDOW_M: Final = 2.6
_GABLE_MAX_M: Final = 9.5
_EAVES_M: Final = 0.45


def building(outline: Sequence[tuple[float, float]], height_m: float, look: int) -> Model:
    """A building over an outline that runs in the winding of a face that looks up; ``look`` picks colours and the roof."""
    gabled = len(outline) == 4 and height_m <= _GABLE_MAX_M and look % 3 != 2
    levels = tuple(_building(outline, height_m, look, level, gabled=gabled) for level in range(2))
    return Model(levels, shadow=_massing(outline, height_m, gabled=gabled))


def _edges(outline: Sequence[tuple[float, float]]) -> list[tuple[tuple[float, float], tuple[float, float], float]]:
    ends = [*outline[1:], outline[0]]
    return [(a, b, math.sqrt((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2)) for a, b in zip(outline, ends, strict=True)]


def _building(outline: Sequence[tuple[float, float]], height_m: float, look: int, level: int, *, gabled: bool) -> Shape:
    builder = ShapeBuilder(Label.BUILDINGS)
    wall, roof = _WALLS[look % len(_WALLS)], _ROOFS[(look // 3) % len(_ROOFS)]
    storeys = max(1, round(height_m / _STOREY_M))
    up = (0.0, 0.0, storeys / height_m, 0.0)
    edges = _edges(outline)
    longest = max(range(len(edges)), key=lambda k: (edges[k][2], -k))
    for number, (a, b, size) in enumerate(edges):
        count = max(1, round(size / _WINDOW_M))
        dx, dy = (b[0] - a[0]) / size * count / size, (b[1] - a[1]) / size * count / size
        if size >= 1.5:
            builder.windows(wall, (dx, dy, 0.0, -(a[0] * dx + a[1] * dy)), up)
        else:
            builder.brush(wall)
        builder.quad((*a, FOOT_M), (*b, FOOT_M), (*b, height_m), (*a, height_m))
        if level == 0 and size >= 6.0:
            _plinth(builder, a, b, size, wall)
            if number in {longest, (longest + 2) % len(edges)}:
                _door(builder, a, b, size, _DOORS[look % len(_DOORS)], count)
    if gabled:
        _gable(builder, outline, height_m, wall, roof, level)
    else:
        _flat_roof(builder, outline, height_m, wall, level)
    return builder.shape()


def _outward(a: tuple[float, float], b: tuple[float, float], size: float) -> tuple[float, float]:
    """The direction away from the building: right of somebody who follows the outline."""
    return (b[1] - a[1]) / size, -(b[0] - a[0]) / size


def _slab(builder: ShapeBuilder, a: tuple[float, float], b: tuple[float, float], size: float, span: tuple[float, float],
          z: tuple[float, float], out_m: float) -> None:  # fmt: skip
    """A flat box on a wall: from ``span[0]`` to ``span[1]`` metres along it, standing out by ``out_m``."""
    ux, uy = (b[0] - a[0]) / size, (b[1] - a[1]) / size
    nx, ny = _outward(a, b, size)
    left, right = (a[0] + ux * span[0], a[1] + uy * span[0]), (a[0] + ux * span[1], a[1] + uy * span[1])
    base = [left, (left[0] + nx * out_m, left[1] + ny * out_m), (right[0] + nx * out_m, right[1] + ny * out_m), right]
    builder.prism([(x, y, z[0]) for x, y in base], z[1] - z[0], bottom=True)


def _plinth(builder: ShapeBuilder, a: tuple[float, float], b: tuple[float, float], size: float, wall: Colour) -> None:
    builder.brush((0.45 * wall[0], 0.45 * wall[1], 0.45 * wall[2]))
    _slab(builder, a, b, size, (0.0, size), (FOOT_M, 0.35), 0.05)


def _door(
    builder: ShapeBuilder, a: tuple[float, float], b: tuple[float, float], size: float, colour: Colour, count: int
) -> None:
    """A door where a window would be, with a frame and a step."""
    middle = (count // 2 + 0.5) * size / count
    builder.brush(grey(0.5))
    _slab(builder, a, b, size, (middle - 0.68, middle + 0.68), (FOOT_M, 2.35), 0.06)
    builder.brush(colour)
    _slab(builder, a, b, size, (middle - 0.52, middle + 0.52), (0.1, 2.2), 0.09)
    builder.brush(grey(0.28))
    _slab(builder, a, b, size, (middle - 0.9, middle + 0.9), (FOOT_M, 0.12), 0.6)


def _ridge(outline: Sequence[tuple[float, float]], height_m: float) -> tuple[list[tuple[float, float]], Point, Point, float]:
    """The outline turned so that its first edge is a long one, and the ends and rise of the ridge above its middle."""
    edges = _edges(outline)
    ring = list(outline) if edges[0][2] >= edges[1][2] else [*outline[1:], outline[0]]
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = ring
    rise_m = 0.36 * min(edges[0][2], edges[1][2])
    return (
        ring,
        (0.5 * (ax + dx), 0.5 * (ay + dy), height_m + rise_m),
        (0.5 * (bx + cx), 0.5 * (by + cy), height_m + rise_m),
        rise_m,
    )


def _gable(
    builder: ShapeBuilder, outline: Sequence[tuple[float, float]], height_m: float, wall: Colour, roof: Colour, level: int
) -> None:
    ring, start, end, rise_m = _ridge(outline, height_m)
    a, b, c, d = ((x, y, height_m) for x, y in ring)
    builder.brush(wall)
    builder.triangle(d, a, start)
    builder.triangle(b, c, end)
    # The roof overhangs on all sides; seen from below it is wood.
    half = 0.5 * math.sqrt((a[0] - d[0]) ** 2 + (a[1] - d[1]) ** 2)
    along = math.sqrt((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2)
    ux, uy = (b[0] - a[0]) / along * _EAVES_M, (b[1] - a[1]) / along * _EAVES_M
    vx, vy = (a[0] - d[0]) / (2 * half) * _EAVES_M, (a[1] - d[1]) / (2 * half) * _EAVES_M
    drop = rise_m * _EAVES_M / half
    near_a, near_b = (a[0] - ux + vx, a[1] - uy + vy, height_m - drop), (b[0] + ux + vx, b[1] + uy + vy, height_m - drop)
    far_c, far_d = (c[0] + ux - vx, c[1] + uy - vy, height_m - drop), (d[0] - ux - vx, d[1] - uy - vy, height_m - drop)
    top_s, top_e = (start[0] - ux, start[1] - uy, start[2]), (end[0] + ux, end[1] + uy, end[2])
    for p, q, r, s in ((near_a, near_b, top_e, top_s), (far_c, far_d, top_s, top_e)):
        builder.brush(roof, Material.PLAIN)
        builder.quad(*((x, y, z + 0.12) for x, y, z in (p, q, r, s)))
        builder.brush((0.16, 0.11, 0.07))
        builder.quad(s, r, q, p)
        builder.quad(p, q, (q[0], q[1], q[2] + 0.12), (p[0], p[1], p[2] + 0.12))
        builder.quad(q, r, (r[0], r[1], r[2] + 0.12), (q[0], q[1], q[2] + 0.12))
        builder.quad(s, p, (p[0], p[1], p[2] + 0.12), (s[0], s[1], s[2] + 0.12))
    if level == 0:
        x, y = 0.7 * start[0] + 0.3 * end[0] + 2.2 * vx, 0.7 * start[1] + 0.3 * end[1] + 2.2 * vy
        builder.brush((0.26, 0.11, 0.08)).box((x - 0.35, y - 0.35, height_m + 0.3), (x + 0.35, y + 0.35, start[2] + 0.7))


def _flat_roof(
    builder: ShapeBuilder, outline: Sequence[tuple[float, float]], height_m: float, wall: Colour, level: int
) -> None:
    from samepath.sim.maps.mesh import triangulate

    builder.brush(grey(0.22))
    for corners in triangulate([(x, y, height_m) for x, y in outline]):
        builder.triangle(*corners)
    if level:
        return
    builder.brush((0.8 * wall[0], 0.8 * wall[1], 0.8 * wall[2]))
    for a, b, size in _edges(outline):
        ux, uy = (b[0] - a[0]) / size, (b[1] - a[1]) / size
        nx, ny = _outward(a, b, size)
        base = [
            (a[0] + 0.12 * (nx - ux), a[1] + 0.12 * (ny - uy)), (b[0] + 0.12 * (nx + ux), b[1] + 0.12 * (ny + uy)),
            (b[0] - 0.18 * nx, b[1] - 0.18 * ny), (a[0] - 0.18 * nx, a[1] - 0.18 * ny),
        ]  # fmt: skip
        builder.prism([(x, y, height_m - 0.15) for x, y in base], 0.65, bottom=True)
    x, y = sum(p[0] for p in outline) / len(outline), sum(p[1] for p in outline) / len(outline)
    builder.brush(grey(0.33)).box((x - 1.4, y - 1.1, height_m), (x + 1.4, y + 1.1, height_m + 1.6))


def _massing(outline: Sequence[tuple[float, float]], height_m: float, *, gabled: bool) -> Shape:
    """Only what casts the shadow."""
    from samepath.sim.maps.mesh import triangulate

    builder = ShapeBuilder(Label.BUILDINGS)
    for a, b, _ in _edges(outline):
        builder.quad((*a, FOOT_M), (*b, FOOT_M), (*b, height_m), (*a, height_m))
    if gabled:
        ring, start, end, _ = _ridge(outline, height_m)
        a3, b3, c3, d3 = ((x, y, height_m) for x, y in ring)
        builder.quad(a3, b3, end, start)
        builder.quad(c3, d3, start, end)
        builder.triangle(d3, a3, start)
        builder.triangle(b3, c3, end)
    else:
        for p, q, r in triangulate([(x, y, height_m) for x, y in outline]):
            builder.triangle(p, q, r)
    return builder.shape()
