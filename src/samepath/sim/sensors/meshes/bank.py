"""Meshes gathered into one set of arrays with their levels of detail and shadows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from samepath.base.errors import InputError
from samepath.sim.sensors.meshes.builder import Shape
from samepath.sim.sensors.scene import Shapes

# Radius in pixels below which the next coarser mesh is drawn.
COARSER_PX: Final = (34.0, 11.0)


@dataclass(frozen=True, eq=False, slots=True)
class Model:
    """A thing in falling detail; ``shadow`` casts its shadow."""

    levels: tuple[Shape, ...]
    shadow: Shape | None = None


class Bank:
    """Gathers models; the number of a model is that of its most detailed mesh."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._coarser: list[int] = []
        self._coarser_px: list[float] = []
        self._shadow: list[int] = []

    def add(self, model: Model, coarser_px: Sequence[float] = COARSER_PX) -> int:
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

    def _add(self, shape: Shape) -> int:
        self._shapes.append(shape)
        self._coarser.append(-1)
        self._coarser_px.append(0.0)
        self._shadow.append(-1)
        return len(self._shapes) - 1

    def shapes(self) -> Shapes:
        """Everything in one."""
        all_of = self._shapes
        for one in all_of:
            if not np.isfinite(one.vertices).all():
                raise InputError("finite coordinates were wanted for the vertices of a mesh, but others came")
        vertex_counts = [len(one.vertices) for one in all_of]
        face_counts = [len(one.faces) for one in all_of]
        mapping_counts = [len(one.mapping) for one in all_of]
        first_vertex, first_face, first_mapping = (
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32) for counts in (vertex_counts, face_counts, mapping_counts)
        )
        spheres = [_sphere(one) for one in all_of]
        made = Shapes(
            vertices=np.concatenate([one.vertices for one in all_of]),
            faces=np.concatenate([one.faces + first for one, first in zip(all_of, first_vertex, strict=False)]).astype(
                np.int32
            ),
            normals=np.concatenate([one.normals for one in all_of]),
            colours=np.concatenate([one.colours for one in all_of]),
            labels=np.concatenate([one.labels for one in all_of]),
            materials=np.concatenate([one.materials for one in all_of]),
            lamps=np.concatenate([one.lamps for one in all_of]),
            mappings=np.concatenate(
                [
                    np.where(one.mappings >= 0, one.mappings + first, -1)
                    for one, first in zip(all_of, first_mapping, strict=False)
                ]
            ).astype(np.int32),
            mapping=np.concatenate([one.mapping for one in all_of]).astype(np.float32),
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


def _sphere(shape: Shape) -> tuple[tuple[float, ...], float]:
    """A sphere about the middle of the bounding box, a little larger than needed, so that rounding cuts nothing off."""
    if not len(shape.vertices):
        return (0.0, 0.0, 0.0), 0.0
    points = shape.vertices.astype(np.float64)
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    away = points - centre
    square = away[:, 0] * away[:, 0] + away[:, 1] * away[:, 1] + away[:, 2] * away[:, 2]
    return tuple(float(one) for one in centre), float(np.sqrt(square.max())) * 1.0001 + 1e-4
