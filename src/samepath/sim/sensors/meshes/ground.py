"""What lies flat, cut into squares so that a camera draws only those in sight: roads, sidewalks, kerbs, paint, grass."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.sim.maps.mesh import Mesh
from samepath.sim.sensors.labels import OF_SURFACE, Label
from samepath.sim.sensors.meshes.builder import Colour, Point, Shape, ShapeBuilder
from samepath.sim.sensors.scene import F64, Material

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

    shape: Shape
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
    shape = Shape(
        points, faces.reshape(-1, 3).astype(np.int32), (normals / size[:, None]).astype(np.float32), colours, labels, materials,
        np.zeros(count, np.uint16), np.full(count, -1, np.int32), np.zeros((0, 8), np.float32),
    )  # fmt: skip
    return Square(shape, origin)


def far_ground(low: tuple[float, float], high: tuple[float, float], z: float) -> Shape:
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
