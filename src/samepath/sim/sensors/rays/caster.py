"""What a bundle of rays meets in a scene."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.sim.physics.frames import axes_of, quaternion_of
from samepath.sim.sensors.rays.bundle import Bundle
from samepath.sim.sensors.rays.cast import cast
from samepath.sim.sensors.rays.identify import identify
from samepath.sim.sensors.rays.pieces import Meshes, Pieces, meshes_of, pieces_of
from samepath.sim.sensors.scene import Instances, Scene, Shapes
from samepath.sim.world.records import Pose

F64 = NDArray[np.float64]
NOTHING: Final = -1


@dataclass(frozen=True, eq=False, slots=True)
class Hits:
    """What rays met, by their numbers; ``distance_m`` f64[n] is infinite where there was nothing.

    ``label`` u8[n]; ``actor`` i32[n]: the id of what moves, 0 for what never does; ``cosine`` f64[n]: of the angle between the
    ray and the normal of the face it met, 1 for a ray straight on.
    """

    distance_m: F64
    label: NDArray[np.uint8]
    actor: NDArray[np.int32]
    cosine: F64


class RayCaster:
    """Casts rays into scenes. What is worked out of a map is kept as long as scenes share it; threads change no bit."""

    def __init__(self, threads: int = 1) -> None:
        if not 1 <= threads <= 1024:
            raise InputError(f"threads: a whole number from 1 to 1024 was wanted, but {threads} came")
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "rays") if threads > 1 else None
        self._shapes: Shapes | None = None
        self._fixed: Instances | None = None
        self._meshes: Meshes
        self._faces: tuple[NDArray[np.float32], NDArray[np.uint8]]
        self._pieces: Pieces
        self._largest = 1

    def close(self) -> None:
        """Let go of the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def cast(self, scene: Scene, pose: Pose, bundle: Bundle, reach_m: float, *, details: bool = True) -> Hits:
        """Cast rays from a sensor's pose, as far as ``reach_m``; without ``details`` only distances are worked out."""
        self._learn(scene)
        moving, pieces = scene.moving, self._pieces
        axes = np.array(axes_of(quaternion_of(pose)))
        origin = np.array([pose.x_m, pose.y_m, pose.z_m])
        count = len(pieces.meshes.radius)
        sizes = np.diff(scene.shapes.first_face).astype(np.int64)[moving.mesh]
        starts = len(pieces.face) + np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        first_face = scene.shapes.first_face[moving.mesh]
        moving_axes = _turned(moving.axes, axes)
        still = (
            np.arange(count, dtype=np.int32),
            np.tile(_turned(np.eye(3), axes), (count, 1, 1)),
            np.tile(_turned(-origin, axes), (count, 1)),
            np.zeros(count, np.int64),
        )
        actors = (
            np.array(moving.mesh),
            moving_axes,
            _turned(moving.position - origin, axes),
            (starts[:-1] - first_face).astype(np.int64),
        )
        inverse, met = np.full(bundle.count, 1.0 / reach_m), np.full(bundle.count, NOTHING, np.int64)
        rays = bundle.arrays

        def sector(start: int, end: int) -> None:
            room = np.empty((self._largest, 3)), np.empty(self._largest), np.empty(self._largest)
            cast(pieces.meshes.arrays, still, rays, reach_m, start, end, inverse, met, room)
            cast(self._meshes.arrays, actors, rays, reach_m, start, end, inverse, met, room)

        self._in_sectors(sector, len(bundle.column_cos))
        label, actor, cosine = np.zeros(bundle.count, np.uint8), np.zeros(bundle.count, np.int32), np.zeros(bundle.count)
        if details:
            identify(
                met,
                rays,
                (pieces.face, pieces.instance),
                (starts, np.array(moving.id), first_face),
                self._faces,
                np.concatenate([scene.fixed.label, moving.label]),
                np.concatenate([_turned(scene.fixed.axes, axes), moving_axes]),
                (label, actor, cosine),
            )
        return Hits(np.where(met >= 0, 1.0 / inverse, np.inf), label, actor, cosine)

    def _in_sectors(self, sector: Callable[[int, int], None], width: int) -> None:
        if self._pool is None:
            sector(0, width)
            return
        edges = [width * part // self._threads for part in range(self._threads + 1)]
        for done in [self._pool.submit(sector, a, b) for a, b in itertools.pairwise(edges)]:
            done.result()

    def _learn(self, scene: Scene) -> None:
        if scene.shapes is not self._shapes:
            # Copies: arrays that may not be written to are another type, for which everything would be built again.
            self._meshes = meshes_of(scene.shapes)
            self._faces = (np.array(scene.shapes.normals), np.array(scene.shapes.labels))
        if scene.shapes is not self._shapes or scene.fixed is not self._fixed:
            self._pieces = pieces_of(scene.shapes, scene.fixed)
            largest = [int(np.diff(one.first_vertex).max(initial=1)) for one in (self._meshes, self._pieces.meshes)]
            self._largest = max(largest)
        self._shapes, self._fixed = scene.shapes, scene.fixed


def _turned(vectors: F64, axes: F64) -> F64:
    """Vectors [..., 3] of the world as the sensor sees them, by its forward, right and up. No BLAS: it may fuse."""
    parts = [vectors[..., 0] * axis[0] + vectors[..., 1] * axis[1] + vectors[..., 2] * axis[2] for axis in axes]
    return np.stack(parts, axis=-1)
