"""A map's walkable surfaces as a file for CARLA's client: Detour's navigation mesh, one tile of version 7, as ``MSET``.

Detour's axes are x, height, y of CARLA. Polygons have three to six corners. What the polygons are is
``simulator/maps/walking.py``'s matter.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.maps.walking import PERSON_RADIUS_M, SIDEWALK, WalkMesh, WalkPolygon, neighbours, walk_mesh

SET_MAGIC, SET_VERSION = 0x4D534554, 1  # MSET
TILE_MAGIC, TILE_VERSION = 0x444E4156, 7  # DNAV
CORNERS_MAX: Final = 6
# Corners are 16-bit numbers, and the top bit of a neighbour means another tile.
VERTICES_MAX, POLYGONS_MAX = 0xFFFE, 0x7FFE
AGENT_HEIGHT_M, AGENT_RADIUS_M, AGENT_CLIMB_M = 1.8, PERSON_RADIUS_M, 0.3
_NULL_LINK: Final = 0xFFFFFFFF
_EDGE_IS_BORDER: Final = 1
_QUANTA_PER_M: Final = 4.0
_PAD_M: Final = 2.0

_SET_HEADER: Final = struct.Struct("<iii3fffii")
_TILE_PREFIX: Final = struct.Struct("<Ii")
_TILE_HEADER: Final = struct.Struct("<iiiiiI9i3f3f3ff")
_POLYGON: Final = np.dtype(
    [("link", "<u4"), ("corners", "<u2", 6), ("neighbours", "<u2", 6), ("flags", "<u2"), ("count", "u1"), ("area", "u1")]
)
_DETAIL: Final = np.dtype(
    [("vertex_base", "<u4"), ("triangle_base", "<u4"), ("vertices", "u1"), ("triangles", "u1"), ("pad", "<u2")]
)
_NODE: Final = np.dtype([("low", "<u2", 3), ("high", "<u2", 3), ("index", "<i4")])
_LINK_BYTES: Final = 12


def write_mesh(road_map: RoadMap, *, walk_anywhere: bool = False) -> bytes:
    """The navigation mesh of a map as a file.

    Since CARLA 0.9.7 clients keep walkers that they lead to sidewalks and crossings, and take no place on a road as a
    destination, whatever the factor for crossing. With ``walk_anywhere`` they are told that all of it is sidewalk.
    """
    mesh = walk_mesh(road_map)
    if walk_anywhere:
        area, flags = SIDEWALK
        mesh = WalkMesh(mesh.points, tuple(polygon._replace(area=area, flags=flags) for polygon in mesh.polygons))
    return encode(mesh)


def encode(mesh: WalkMesh) -> bytes:
    """The whole file; the same mesh gives the same bytes."""
    polygons = mesh.polygons
    if not polygons:
        raise InputError("there is nothing to walk on: a map with sidewalks was wanted")
    if len(mesh.points) > VERTICES_MAX or len(polygons) > POLYGONS_MAX:
        raise InputError(
            f"a walkable surface of at most {VERTICES_MAX} corners and {POLYGONS_MAX} polygons was wanted, "
            f"but {len(mesh.points)} and {len(polygons)} came"
        )
    points = mesh.points[:, [0, 2, 1]].astype("<f4")
    low = points.min(axis=0) - np.float32(_PAD_M)
    high = points.max(axis=0) + np.float32(_PAD_M)
    beyond = neighbours(polygons)
    rows = np.zeros(len(polygons), _POLYGON)
    details = np.zeros(len(polygons), _DETAIL)
    triangles: list[tuple[int, int, int, int]] = []
    for number, (polygon, row) in enumerate(zip(polygons, beyond, strict=True)):
        count = len(polygon.corners)
        rows["corners"][number, :count] = polygon.corners
        rows["neighbours"][number, :count] = row
        details["triangle_base"][number] = len(triangles)
        details["triangles"][number] = count - 2
        triangles.extend(_fan(count))
    rows["link"] = _NULL_LINK
    rows["flags"] = [polygon.flags for polygon in polygons]
    rows["count"] = [len(polygon.corners) for polygon in polygons]
    rows["area"] = [polygon.area for polygon in polygons]
    links = sum(len(polygon.corners) for polygon in polygons)
    nodes = _tree(points, polygons, low)
    header = _TILE_HEADER.pack(
        TILE_MAGIC, TILE_VERSION, 0, 0, 0, 0,
        len(polygons), len(points), links, len(polygons), 0, len(triangles), len(nodes), 0, len(polygons),
        AGENT_HEIGHT_M, AGENT_RADIUS_M, AGENT_CLIMB_M, *map(float, low), *map(float, high), _QUANTA_PER_M,
    )  # fmt: skip
    parts = (header, points.tobytes(), rows.tobytes(), bytes(_LINK_BYTES * links), details.tobytes())
    tile = b"".join((*parts, np.array(triangles, "u1").tobytes(), nodes.tobytes()))
    poly_bits = max(1, (len(polygons) - 1).bit_length())
    size_m = (float(high[0] - low[0]), float(high[2] - low[2]))
    wrapper = _SET_HEADER.pack(SET_MAGIC, SET_VERSION, 1, *map(float, low), *size_m, 1, 1 << poly_bits)
    return wrapper + _TILE_PREFIX.pack(1 << poly_bits, len(tile)) + tile


def _fan(count: int) -> list[tuple[int, int, int, int]]:
    """Triangles of a polygon, each with two bits per edge that say whether it is an edge of the polygon."""
    found = []
    for index in range(1, count - 1):
        border = (index == 1, True, index == count - 2)
        found.append((0, index, index + 1, sum(_EDGE_IS_BORDER << (2 * edge) for edge, is_so in enumerate(border) if is_so)))
    return found


def _tree(points: NDArray[np.float32], polygons: Sequence[WalkPolygon], low: NDArray[np.float32]) -> NDArray[np.void]:
    """The tree of boxes by which Detour finds polygons near a point: halves along the longest side, depth first."""
    boxes = np.zeros((len(polygons), 2, 3), np.int64)
    for number, polygon in enumerate(polygons):
        own = (points[list(polygon.corners)] - low) * np.float32(_QUANTA_PER_M)
        boxes[number, 0] = np.clip(np.floor(own.min(axis=0)), 0, 0xFFFF)
        boxes[number, 1] = np.clip(np.ceil(own.max(axis=0)), 0, 0xFFFF)
    nodes: list[tuple[list[int], list[int], int]] = []

    def divide(members: list[int]) -> None:
        lowest, highest = boxes[members, 0].min(axis=0), boxes[members, 1].max(axis=0)
        place = len(nodes)
        nodes.append((lowest.tolist(), highest.tolist(), members[0]))
        if len(members) > 1:
            axis = int(np.argmax(highest - lowest))
            ordered = sorted(members, key=lambda number: (int(boxes[number, 0, axis] + boxes[number, 1, axis]), number))
            divide(ordered[: len(ordered) // 2])
            divide(ordered[len(ordered) // 2 :])
            nodes[place] = (lowest.tolist(), highest.tolist(), place - len(nodes))

    divide(list(range(len(polygons))))
    return np.array(nodes, _NODE)


@dataclass(frozen=True, eq=False)
class Tile:
    """What a file of ours holds, read back: the mesh, each edge's neighbour, the tree of boxes."""

    mesh: WalkMesh
    neighbours: tuple[tuple[int, ...], ...]
    nodes: NDArray[np.void]
    low: tuple[float, float, float]
    high: tuple[float, float, float]


def decode(data: bytes) -> Tile:
    """Read a file of one tile; whatever does not fit is an InputError."""
    try:
        magic, version, tiles = struct.unpack_from("<iii", data)
        _, size = _TILE_PREFIX.unpack_from(data, _SET_HEADER.size)
        header = _TILE_HEADER.unpack_from(data, _SET_HEADER.size + _TILE_PREFIX.size)
    except struct.error as error:
        raise InputError(f"a navigation mesh was wanted, but the file is cut off ({error})") from error
    if (magic, version, tiles) != (SET_MAGIC, SET_VERSION, 1) or header[:2] != (TILE_MAGIC, TILE_VERSION):
        raise InputError("a navigation mesh of one Detour tile of version 7 was wanted")
    polygons, vertices, links, details, detail_vertices, triangles, nodes = header[6:13]
    shapes: tuple[tuple[np.dtype[Any], int], ...] = (
        (np.dtype("<f4"), 3 * vertices),
        (_POLYGON, polygons),
        (np.dtype("u1"), _LINK_BYTES * links),
        (_DETAIL, details),
        (np.dtype("<f4"), 3 * detail_vertices),
        (np.dtype("u1"), 4 * triangles),
        (_NODE, nodes),
    )
    sizes = [kind.itemsize * count for kind, count in shapes]
    start = _SET_HEADER.size + _TILE_PREFIX.size + _TILE_HEADER.size
    if any(count < 0 for _, count in shapes) or _TILE_HEADER.size + sum(sizes) != size or start + sum(sizes) != len(data):
        raise InputError(f"a tile of {size} bytes was wanted, but its parts take {_TILE_HEADER.size + sum(sizes)}")
    arrays = []
    for kind, count in shapes:
        arrays.append(np.frombuffer(data, kind, count, start))
        start += kind.itemsize * count
    points, rows = arrays[0].reshape(-1, 3)[:, [0, 2, 1]].astype(np.float64), arrays[1]
    found = tuple(
        WalkPolygon(tuple(row["corners"][: row["count"]].tolist()), int(row["area"]), int(row["flags"])) for row in rows
    )
    beyond = tuple(tuple(row["neighbours"][: row["count"]].tolist()) for row in rows)
    return Tile(WalkMesh(points, found), beyond, arrays[6], header[18:21], header[21:24])
