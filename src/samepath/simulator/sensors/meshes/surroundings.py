"""What surrounds actors: buildings, the ground, trees, and what stands along a street.

Buildings rise over any outline: walls with windows, doors, gables or flat roofs. What lies flat (roads, sidewalks, kerbs,
paint, grass) is cut into squares, so that a camera draws only those in sight. Trees are a trunk and a crown of lumps, inside
the cones that physics and rays know of. Along streets stand lamps, posts, signs, traffic lights and walls.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.core.trig import sincos_deg
from samepath.simulator.maps.surfaces import Mesh
from samepath.simulator.sensors.labels import OF_SURFACE, Label
from samepath.simulator.sensors.meshes.builder import (
    BLACK,
    FOOT_M,
    WHITE,
    Colour,
    MeshModel,
    MeshShape,
    Point,
    ShapeBuilder,
    circle,
    grey,
)
from samepath.simulator.sensors.renderer import F64, Lamp, Material

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


def building(outline: Sequence[tuple[float, float]], height_m: float, look: int) -> MeshModel:
    """A building over an outline that runs in the winding of a face that looks up; ``look`` picks colours and the roof."""
    gabled = len(outline) == 4 and height_m <= _GABLE_MAX_M and look % 3 != 2
    levels = tuple(_building(outline, height_m, look, level, gabled=gabled) for level in range(2))
    return MeshModel(levels, shadow=_massing(outline, height_m, gabled=gabled))


def _edges(outline: Sequence[tuple[float, float]]) -> list[tuple[tuple[float, float], tuple[float, float], float]]:
    ends = [*outline[1:], outline[0]]
    return [(a, b, math.sqrt((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2)) for a, b in zip(outline, ends, strict=True)]


def _building(outline: Sequence[tuple[float, float]], height_m: float, look: int, level: int, *, gabled: bool) -> MeshShape:
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
    from samepath.simulator.maps.surfaces import triangulate

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


def _massing(outline: Sequence[tuple[float, float]], height_m: float, *, gabled: bool) -> MeshShape:
    """Only what casts the shadow."""
    from samepath.simulator.maps.surfaces import triangulate

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


SQUARE_M: Final = 32.0
_FAR_M: Final = 1600.0
_GRASS: Final[Colour] = (0.085, 0.125, 0.040)
_LOOKS: Final[dict[str, tuple[Colour, Material]]] = {
    "road": ((0.098, 0.097, 0.098), Material.ROAD),
    "sidewalk": ((0.31, 0.30, 0.28), Material.PAVING),
    "kerb": ((0.36, 0.35, 0.33), Material.PLAIN),
    "ground": (_GRASS, Material.GRASS),
    "lane-marking": ((0.62, 0.62, 0.60), Material.PAINT),
    "crosswalk": ((0.62, 0.62, 0.60), Material.PAINT),
}


@dataclass(frozen=True, eq=False, slots=True)
class Square:
    """A piece of ground in its own frame, and where that is."""

    shape: MeshShape
    origin: Point


def is_ground(mesh: Mesh) -> bool:
    """Does a map's mesh lie flat?"""
    return mesh.label in _LOOKS


def squares(meshes: Iterable[Mesh], extra: Sequence[tuple[str, F64]] = ()) -> list[Square]:
    """Cut a map's flat meshes into squares; ``extra`` are further triangles f64[n, 3, 3] by label of surface.

    The large quad below everything is cut along the squares' borders, the others go where their middle lies.
    """
    found: dict[tuple[int, int], list[tuple[str, F64]]] = {}
    for mesh in meshes:
        if not is_ground(mesh):
            continue
        corners = mesh.vertices[mesh.triangles]
        if mesh.name == "ground":
            corners = _tiles(mesh)
        _deal(found, mesh.label, corners)
    for label, corners in extra:
        _deal(found, label, corners)
    return [_square(key, parts) for key, parts in sorted(found.items())]


def _deal(found: dict[tuple[int, int], list[tuple[str, F64]]], label: str, corners: F64) -> None:
    middle = (corners[:, 0] + corners[:, 1] + corners[:, 2]) / 3.0
    keys = np.floor(middle[:, :2] / SQUARE_M).astype(np.int64)
    for key in sorted({(int(i), int(j)) for i, j in keys}):
        inside = (keys[:, 0] == key[0]) & (keys[:, 1] == key[1])
        found.setdefault(key, []).append((label, corners[inside]))


def _tiles(mesh: Mesh) -> F64:
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    xs, ys = (_cuts(float(low[k]), float(high[k])) for k in (0, 1))
    z = float(low[2])
    made = []
    for x0, x1 in pairwise(xs):
        for y0, y1 in pairwise(ys):
            a, b, c, d = (x0, y0, z), (x1, y0, z), (x1, y1, z), (x0, y1, z)
            made.extend([(a, b, c), (a, c, d)])
    return np.array(made)


def _cuts(low: float, high: float) -> list[float]:
    first, last = int(np.floor(low / SQUARE_M)) + 1, int(np.ceil(high / SQUARE_M))
    return [low, *(SQUARE_M * k for k in range(first, last)), high]


def _square(key: tuple[int, int], parts: Sequence[tuple[str, F64]]) -> Square:
    origin = (SQUARE_M * (key[0] + 0.5), SQUARE_M * (key[1] + 0.5), 0.0)
    # Paint comes last: what is under it is then hidden by fewer writes.
    ordered = sorted(parts, key=lambda part: _LOOKS[part[0]][1] == Material.PAINT)
    corners = np.concatenate([part for _, part in ordered]) - np.array(origin)
    labels = np.concatenate([np.full(len(part), int(OF_SURFACE[name]), np.uint8) for name, part in ordered])
    materials = np.concatenate([np.full(len(part), int(_LOOKS[name][1]), np.uint8) for name, part in ordered])
    colours = np.concatenate([np.tile(np.array(_LOOKS[name][0], np.float32), (len(part), 1)) for name, part in ordered])
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normals = np.column_stack([
        u[:, 1] * v[:, 2] - u[:, 2] * v[:, 1], u[:, 2] * v[:, 0] - u[:, 0] * v[:, 2], u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    ])  # fmt: skip
    size = np.sqrt(normals[:, 0] * normals[:, 0] + normals[:, 1] * normals[:, 1] + normals[:, 2] * normals[:, 2])
    points, faces = np.unique(corners.astype(np.float32).reshape(-1, 3), axis=0, return_inverse=True)
    count = len(corners)
    shape = MeshShape(
        points, faces.reshape(-1, 3).astype(np.int32), (normals / size[:, None]).astype(np.float32), colours, labels, materials,
        np.zeros(count, np.uint16), np.full(count, -1, np.int32), np.zeros((0, 8), np.float32),
    )  # fmt: skip
    return Square(shape, origin)


def far_ground(low: tuple[float, float], high: tuple[float, float], z: float) -> MeshShape:
    """Open country around the map, as far as one can see."""
    builder = ShapeBuilder(Label.TERRAIN).brush(_GRASS, Material.GRASS)
    xs = (low[0] - _FAR_M, low[0], high[0], high[0] + _FAR_M)
    ys = (low[1] - _FAR_M, low[1], high[1], high[1] + _FAR_M)
    for i in range(3):
        for j in range(3):
            if i == j == 1:
                continue
            x0, x1, y0, y1 = xs[i], xs[i + 1], ys[j], ys[j + 1]
            builder.quad((x0, y0, z), (x1, y0, z), (x1, y1, z), (x0, y1, z))
    return builder.shape()


LOOKS: Final = 5
_GREENS: Final[tuple[Colour, ...]] = (
    (0.060, 0.135, 0.030), (0.085, 0.150, 0.030), (0.045, 0.110, 0.035), (0.120, 0.140, 0.030), (0.070, 0.120, 0.025),
)  # fmt: skip
_BARK: Final[Colour] = (0.11, 0.075, 0.05)


def tree(height_m: float, radius_m: float, look: int) -> MeshModel:
    """A tree; ``look`` picks its colour and its lumps."""
    return MeshModel(
        tuple(_tree(height_m, radius_m, look, level) for level in range(3)), shadow=_tree(height_m, radius_m, look, 2)
    )


def _uneven(j: int, k: int, look: int) -> float:
    """A number in 0.8..1.1 for each lump of a crown."""
    mixed = (j * 7349 + k * 3571 + look * 9973 + 17) * 2654435761 & 0xFFFFFFFF
    return 0.8 + 0.3 * (mixed >> 20) / 4095.0


def _lump(
    builder: ShapeBuilder, middle: Point, radius_m: float, half_height_m: float, look: int, rounds: int, slices: int
) -> None:
    """A ball with dents."""
    x, y, z = middle
    rings = []
    for j in range(1, rounds + 1):
        s, c = sincos_deg(180.0 * j / (rounds + 1))
        ring = []
        for k in range(slices):
            sine, cosine = sincos_deg(360.0 * (k + 0.5 * (j & 1)) / slices)
            part = _uneven(j, k, look)
            ring.append((x + radius_m * s * part * cosine, y + radius_m * s * part * sine, z - half_height_m * c * part))
        rings.append(ring)
    builder.loft(rings, start=False, end=False)
    low, high = (x, y, z - half_height_m), (x, y, z + half_height_m)
    for k in range(slices):
        j = (k + 1) % slices
        builder.triangle(low, rings[0][j], rings[0][k])
        builder.triangle(high, rings[-1][k], rings[-1][j])


def _tree(height_m: float, radius_m: float, look: int, level: int) -> MeshShape:
    builder = ShapeBuilder(Label.VEGETATION)
    builder.brush(_BARK, label=Label.VEGETATION)
    builder.pole((0.0, 0.0, FOOT_M), 0.15, 0.11, 0.5 * height_m - FOOT_M, (7, 5, 3)[level])
    red, green, blue = _GREENS[look % LOOKS]
    middle, half = 0.67 * height_m, 0.33 * height_m
    if level == 2:
        builder.brush((red, green, blue), Material.FOLIAGE)
        _lump(builder, (0.0, 0.0, middle), radius_m, half, look, 2, 6)
        return builder.shape()
    rounds, slices = ((5, 9), (3, 6))[level]
    builder.brush((red, green, blue), Material.FOLIAGE)
    _lump(builder, (0.0, 0.0, middle + 0.04 * height_m), 0.82 * radius_m, 0.9 * half, look, rounds, slices)
    for k in range(4 if level == 0 else 2):
        sine, cosine = sincos_deg(90.0 * k + 40.0 * look if level == 0 else 180.0 * k + 40.0 * look)
        shade = 0.86 + 0.09 * k
        builder.brush((red * shade, green * shade, blue * shade), Material.FOLIAGE)
        place = (0.48 * radius_m * cosine, 0.48 * radius_m * sine, middle - (0.10 + 0.05 * (k & 1)) * height_m)
        _lump(builder, place, 0.56 * radius_m, 0.55 * half, look + k + 1, max(rounds - 2, 2), max(slices - 2, 5))
    return builder.shape()


LAMP_POOL_M: Final = 9.0
_STEEL: Final[Colour] = (0.23, 0.24, 0.25)
_STONE: Final[Colour] = (0.36, 0.34, 0.31)
_RED: Final[Colour] = (0.52, 0.012, 0.015)

# Which bars of a seven-part figure make a digit: top, upper right, lower right, bottom, lower left, upper left, middle.
_DIGITS: Final = ("012345", "12", "01346", "01236", "1256", "02356", "023456", "012", "0123456", "012356")
_LIGHTS: Final = (((0.75, 0.02, 0.015), Lamp.RED), ((0.75, 0.38, 0.01), Lamp.YELLOW), ((0.02, 0.60, 0.20), Lamp.GREEN))


def street_lamp(height_m: float, radius_m: float) -> MeshModel:
    """A lamp post whose arm reaches along +x over the street."""

    def build(level: int) -> MeshShape:
        builder = ShapeBuilder(Label.POLES).brush(_STEEL)
        builder.pole((0.0, 0.0, FOOT_M), radius_m, 0.6 * radius_m, height_m - FOOT_M, (8, 6, 3)[level])
        reach = 0.28 * height_m
        builder.tube((0.0, 0.0, height_m - 0.15), (reach, 0.0, height_m + 0.12), 0.05, 0.035, (6, 4, 3)[level])
        if level < 2:
            builder.box((reach - 0.05, -0.13, height_m + 0.06), (reach + 0.62, 0.13, height_m + 0.17))
            builder.brush((1.0, 0.86, 0.62), lamp=int(Lamp.STREET))
            builder.box((reach + 0.02, -0.10, height_m + 0.03), (reach + 0.56, 0.10, height_m + 0.062))
        return builder.shape()

    return MeshModel(tuple(build(level) for level in range(3)), shadow=build(2))


def post(height_m: float, radius_m: float) -> MeshModel:
    """A plain pole."""

    def build(sides: int) -> MeshShape:
        builder = ShapeBuilder(Label.POLES).brush(_STEEL)
        builder.pole((0.0, 0.0, FOOT_M), radius_m, radius_m, height_m - FOOT_M, sides)
        return builder.shape()

    return MeshModel((build(8), build(4)), shadow=build(4))


def _post(builder: ShapeBuilder, height_m: float, level: int) -> None:
    builder.brush(grey(0.34), label=Label.POLES).pole((0.0, 0.0, FOOT_M), 0.04, 0.04, height_m - FOOT_M, (8, 4, 3)[level])


def _plate(builder: ShapeBuilder, ring: Sequence[tuple[float, float]], x: float, thick_m: float) -> None:
    """A flat plate across x that looks along -x; the ring holds y and z, clockwise for somebody who looks at its face."""
    face = [(x - thick_m, y, z) for y, z in ring]
    back = [(x, y, z) for y, z in ring]
    builder.loft([back[::-1], face[::-1]])


def _ring(count: int, radius_m: float, z: float, turn_deg: float) -> list[tuple[float, float]]:
    found = []
    for k in range(count):
        s, c = sincos_deg(turn_deg + 360.0 * k / count)
        found.append((radius_m * s, z + radius_m * c))
    return found


def _figure(builder: ShapeBuilder, digit: int, y: float, z: float, size_m: float, x: float) -> None:
    """A digit of bars; +y is to the right of somebody who looks along +x at it."""
    half, thick = 0.5 * size_m, 0.2 * size_m
    wide = 0.52 * size_m
    bars = (
        (-wide, half - thick, wide, half), (wide - thick, 0.0, wide, half), (wide - thick, -half, wide, 0.0),
        (-wide, -half, wide, -half + thick), (-wide, -half, -wide + thick, 0.0), (-wide, 0.0, -wide + thick, half),
        (-wide, -0.5 * thick, wide, 0.5 * thick),
    )  # fmt: skip
    for bar in _DIGITS[digit]:
        y0, z0, y1, z1 = bars[int(bar)]
        builder.quad(
            (x, y + 0.62 * y0, z + z0), (x, y + 0.62 * y0, z + z1), (x, y + 0.62 * y1, z + z1), (x, y + 0.62 * y1, z + z0)
        )


def sign(kind: str, value: float | None, low_m: float, size_m: float, width_m: float) -> MeshModel:
    """A traffic sign on its post: OpenDRIVE's types 205 (give way), 206 (stop), 274 (speed limit); others are blank."""

    def build(level: int) -> MeshShape:
        builder = ShapeBuilder(Label.TRAFFIC_SIGNS)
        radius, middle = 0.5 * size_m, low_m + 0.5 * size_m
        _post(builder, middle + 0.2 * size_m, level)
        x = -0.045
        if kind == "206":
            builder.brush(WHITE)
            _plate(builder, _ring(8, 1.06 * radius, middle, 22.5), x, 0.02)
            builder.brush(_RED)
            _plate(builder, _ring(8, 0.96 * radius, middle, 22.5), x - 0.02, 0.005)
            builder.brush(WHITE)
            if level == 0:
                _word_stop(builder, middle, 0.30 * size_m, x - 0.028)
            elif level == 1:
                _bar(builder, middle, 0.33 * size_m, 0.10 * size_m, x - 0.028)
        elif kind == "205":
            builder.brush(_RED)
            _plate(builder, _ring(3, 1.1 * radius, middle, 180.0), x, 0.02)
            builder.brush(WHITE)
            _plate(builder, _ring(3, 0.66 * radius, middle, 180.0), x - 0.02, 0.005)
        elif kind == "274":
            builder.brush(_RED)
            _plate(builder, _ring((20, 10, 6)[level], radius, middle, 0.0), x, 0.02)
            builder.brush(WHITE)
            _plate(builder, _ring((20, 10, 6)[level], 0.78 * radius, middle, 0.0), x - 0.02, 0.005)
            if level == 0 and value is not None:
                builder.brush(BLACK)
                digits = f"{value:.0f}"
                for k, digit in enumerate(digits):
                    y = (k - 0.5 * (len(digits) - 1)) * 0.32 * size_m
                    _figure(builder, int(digit), y, middle, 0.40 * size_m, x - 0.028)
        else:
            builder.brush((0.06, 0.12, 0.42))
            half = 0.5 * width_m
            _plate(builder, [(-half, low_m + size_m), (half, low_m + size_m), (half, low_m), (-half, low_m)], x, 0.02)
        return builder.shape()

    return MeshModel(tuple(build(level) for level in range(3)), shadow=build(2))


def _bar(builder: ShapeBuilder, z: float, half_m: float, thick_m: float, x: float) -> None:
    builder.quad((x, -half_m, z - thick_m), (x, -half_m, z + thick_m), (x, half_m, z + thick_m), (x, half_m, z - thick_m))


def _word_stop(builder: ShapeBuilder, z: float, size_m: float, x: float) -> None:
    """The word STOP out of bars: S and O are figures, T and P have their own."""
    step = 0.75 * size_m
    _figure(builder, 5, -1.5 * step, z, size_m, x)
    _figure(builder, 0, 0.5 * step, z, size_m, x)
    half, thin = 0.5 * size_m, 0.10 * size_m
    for y, z0, z1, wide in ((-0.5 * step, half - 2 * thin, half, 0.3 * size_m), (-0.5 * step, -half, half, thin)):
        builder.quad((x, y - wide, z + z0), (x, y - wide, z + z1), (x, y + wide, z + z1), (x, y + wide, z + z0))
    y = 1.5 * step
    for y0, y1, z0, z1 in (
        (-3.0, -1.0, -half, half),
        (-3.0, 3.0, half - 2 * thin, half),
        (-3.0, 3.0, -thin, thin),
        (1.0, 3.0, 0.0, half),
    ):
        a, b = y + y0 * thin, y + y1 * thin
        builder.quad((x, a, z + z0), (x, a, z + z1), (x, b, z + z1), (x, b, z + z0))


def traffic_light(low_m: float, size_m: float, width_m: float) -> MeshModel:
    """A traffic light that looks along -x, towards those it speaks to."""

    def build(level: int) -> MeshShape:
        builder = ShapeBuilder(Label.TRAFFIC_LIGHT)
        builder.brush(grey(0.30), label=Label.POLES).pole(
            (0.06, 0.0, FOOT_M), 0.06, 0.05, low_m + 0.8 * size_m - FOOT_M, (8, 5, 3)[level]
        )
        half, deep = 0.5 * width_m, 0.22
        builder.brush((0.03, 0.035, 0.03))
        builder.box((-deep, -half, low_m), (0.0, half, low_m + size_m))
        if level < 2:
            builder.box((-0.02, -half - 0.07, low_m - 0.07), (0.005, half + 0.07, low_m + size_m + 0.07))
        radius = min(0.38 * width_m, 0.15 * size_m)
        for k, (colour, lamp) in enumerate(_LIGHTS):
            z = low_m + size_m * (5 - 2 * k) / 6
            builder.brush(colour, lamp=int(lamp))
            builder.fan([(-deep - 0.006, y, at) for y, at in _ring((14, 8, 4)[level], radius, z, 0.0)])
            if level == 0:
                builder.brush((0.02, 0.022, 0.02))
                _visor(builder, -deep, z, radius + 0.02)
        return builder.shape()

    return MeshModel(tuple(build(level) for level in range(3)), shadow=build(2))


def _visor(builder: ShapeBuilder, x: float, z: float, radius_m: float) -> None:
    """A half-open hood over a lamp, seen from outside and inside."""
    arc: list[tuple[float, float]] = []
    for k in range(7):
        s, c = sincos_deg(-100.0 + 200.0 * k / 6)
        arc.append((radius_m * s, z + radius_m * c))
    for (y0, z0), (y1, z1) in pairwise(arc):
        near: tuple[Point, Point] = ((x, y0, z0), (x, y1, z1))
        far: tuple[Point, Point] = ((x - 0.16, y0, z0), (x - 0.16, y1, z1))
        builder.quad(near[0], near[1], far[1], far[0])
        builder.quad(far[0], far[1], near[1], near[0])


def wall(outline: Sequence[tuple[float, float]], height_m: float, look: int) -> MeshModel:
    """A wall or barrier over an outline; hedges in between."""
    colours: tuple[Colour, ...] = (_STONE, (0.30, 0.13, 0.09), (0.42, 0.40, 0.36))
    builder = ShapeBuilder(Label.WALLS).brush(colours[look % 3])
    base = [(x, y, FOOT_M) for x, y in outline]
    builder.prism(base, height_m - FOOT_M)
    return MeshModel((builder.shape(),), shadow=builder.shape())


def drum(radius_m: float, height_m: float, sides: int, label: Label, colour: Colour) -> MeshModel:
    """A round thing that stands about."""
    builder = ShapeBuilder(label).brush(colour)
    builder.prism(circle(0.0, 0.0, FOOT_M, radius_m, sides), height_m - FOOT_M)
    return MeshModel((builder.shape(),), shadow=builder.shape())


def block(outline: Sequence[tuple[float, float]], height_m: float, label: Label, colour: Colour) -> MeshModel:
    """A plain thing over an outline."""
    builder = ShapeBuilder(label).brush(colour)
    builder.prism([(x, y, FOOT_M) for x, y in outline], height_m - FOOT_M)
    return MeshModel((builder.shape(),), shadow=builder.shape())
