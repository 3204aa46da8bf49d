"""What rays can meet, as meshes put into the world. What never moves is cut into pieces, once per map.

A piece holds a few dozen faces that lie together, so that a sensor passes over what is out of its reach without looking
at every face.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.sim.sensors.scene import Instances, Shapes

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

FACES_PER_PIECE: Final = 48
_LARGE_M: Final = 20.0
"""Faces larger than this would make the pieces of their small neighbours large: they are kept apart."""


@dataclass(frozen=True, eq=False, slots=True)
class Meshes:
    """Meshes one after the other, as :class:`~samepath.sim.sensors.scene.Shapes` has them, vertices in float64."""

    vertices: F64
    faces: I32
    first_vertex: I32
    first_face: I32
    centre: F64
    radius: F64

    @property
    def arrays(self) -> tuple[F64, I32, I32, I32, F64, F64]:
        """Everything as the compiled loops take it."""
        return self.vertices, self.faces, self.first_vertex, self.first_face, self.centre, self.radius


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """All that never moves, in the world's frame. Face ``k`` is ``face[k]`` of the shapes, put there by ``instance[k]``."""

    meshes: Meshes
    face: I32
    instance: I32


def meshes_of(shapes: Shapes) -> Meshes:
    """The shapes of a scene as rays meet them."""
    return Meshes(
        vertices=shapes.vertices.astype(np.float64),
        faces=np.array(shapes.faces),
        first_vertex=np.array(shapes.first_vertex),
        first_face=np.array(shapes.first_face),
        centre=shapes.centre.astype(np.float64),
        # The radius was rounded to float32 once; a hair more is certainly enough.
        radius=shapes.radius.astype(np.float64) * (1.0 + 1e-5) + 1e-5,
    )


def pieces_of(shapes: Shapes, fixed: Instances) -> Pieces:
    """Put everything fixed into the world and cut it into pieces."""
    corners, face, instance = _placed(shapes, fixed)
    size_m = (corners.max(axis=1) - corners.min(axis=1)).max(axis=1)
    middle = corners.mean(axis=1)
    groups: list[NDArray[np.intp]] = []
    for part in (np.flatnonzero(size_m <= _LARGE_M), np.flatnonzero(size_m > _LARGE_M)):
        limit = FACES_PER_PIECE if size_m[part].max(initial=0.0) <= _LARGE_M else 4
        groups += _halved(middle, part, limit)
    order = np.concatenate(groups) if groups else np.empty(0, np.intp)
    return Pieces(_pack(corners, groups), face[order], instance[order])


def _placed(shapes: Shapes, fixed: Instances) -> tuple[F64, I32, I32]:
    """Corners f64[n, 3, 3] of every fixed face in the world, with the face and the instance it comes from."""
    ranges = [np.arange(shapes.first_face[mesh], shapes.first_face[mesh + 1], dtype=np.int32) for mesh in fixed.mesh.tolist()]
    face = np.concatenate(ranges) if ranges else np.empty(0, np.int32)
    instance = np.repeat(np.arange(len(ranges), dtype=np.int32), [len(one) for one in ranges])
    local = shapes.vertices[shapes.faces[face]].astype(np.float64)
    axes, position = fixed.axes[instance], fixed.position[instance]
    corners = np.empty(local.shape)
    for k in range(3):
        turned = local[..., 0] * axes[:, None, 0, k] + local[..., 1] * axes[:, None, 1, k] + local[..., 2] * axes[:, None, 2, k]
        corners[..., k] = turned + position[:, None, k]
    return corners, face, instance


def _halved(middle: F64, part: NDArray[np.intp], limit: int) -> list[NDArray[np.intp]]:
    """Cut faces in two halves along the longer side until few enough are left."""
    if not len(part):
        return []
    if len(part) <= limit:
        return [part]
    points = middle[part]
    axis = int(np.argmax(points.max(axis=0) - points.min(axis=0)))
    order = part[np.argsort(points[:, axis], kind="stable")]
    half = len(order) // 2
    return [*_halved(middle, order[:half], limit), *_halved(middle, order[half:], limit)]


def _pack(corners: F64, groups: list[NDArray[np.intp]]) -> Meshes:
    """Lay groups of faces out as meshes; corners at the same place are one vertex."""
    vertices, faces, centres, radii = [np.empty((0, 3))], [np.empty((0, 3), np.int32)], [], []
    first_vertex, first_face = [0], [0]
    for group in groups:
        points, index = np.unique(corners[group].reshape(-1, 3), axis=0, return_inverse=True)
        faces.append((index.reshape(-1, 3) + first_vertex[-1]).astype(np.int32))
        vertices.append(points)
        centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
        away = points - centre
        centres.append(centre)
        radii.append(float(np.sqrt((away[:, 0] ** 2 + away[:, 1] ** 2 + away[:, 2] ** 2).max())) * (1.0 + 1e-9))
        first_vertex.append(first_vertex[-1] + len(points))
        first_face.append(first_face[-1] + len(group))
    return Meshes(
        vertices=np.concatenate(vertices),
        faces=np.concatenate(faces),
        first_vertex=np.array(first_vertex, np.int32),
        first_face=np.array(first_face, np.int32),
        centre=np.array(centres).reshape(-1, 3),
        radius=np.array(radii),
    )
