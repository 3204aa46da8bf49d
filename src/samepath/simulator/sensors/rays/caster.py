"""What a bundle of rays meets in a scene: distances, and the label, actor and slant of what was met.

What never moves is put into the world and cut into pieces of a few dozen faces that lie together, once per map, so that a
sensor passes over what is out of its reach without looking at every face.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.raster.compiled import compiled_entry
from samepath.simulator.sensors.rays.kernels import LidarBeams, RayBundle, Rays, cast, points_of
from samepath.simulator.sensors.renderer import MeshInstances, RenderScene, Shapes

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Points = tuple[NDArray[np.float32], NDArray[np.uint32]]
"""Points of a LiDAR that came back, f32[n, 4], channel after channel, and how many there are of each."""

FACES_PER_PIECE: Final = 48
_LARGE_M: Final = 20.0
"""Faces larger than this would make the pieces of their small neighbours large: they are kept apart."""

NOTHING: Final = -1


@dataclass(frozen=True, eq=False, slots=True)
class RayMeshes:
    """RayMeshes one after the other, as :class:`~samepath.simulator.sensors.renderer.Shapes` has them, vertices in float64."""

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
class StaticPieces:
    """All that never moves, in the world's frame. Face ``k`` is ``face[k]`` of the shapes, put there by ``instance[k]``."""

    meshes: RayMeshes
    face: I32
    instance: I32


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


class PlacedForRays(NamedTuple):
    """Everything as a sensor sees it: what never moves, already put into the world, and instances that move.

    ``still_axes`` f64[3, 3], ``still_position`` f64[3]; ``mesh`` i32[n], ``axes`` f64[n, 3, 3], ``position`` f64[n, 3];
    ``starts`` i64[n + 1]: the code of each instance's first face, and of one behind the last.
    """

    still_axes: F64
    still_position: F64
    mesh: I32
    axes: F64
    position: F64
    starts: I64


class RayCaster:
    """Casts rays into scenes. What is worked out of a map is kept as long as scenes share it; threads change no bit."""

    def __init__(self, threads: int = 1) -> None:
        if not 1 <= threads <= 1024:
            raise InputError(f"threads: a whole number from 1 to 1024 was wanted, but {threads} came")
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "rays") if threads > 1 else None
        self._shapes: Shapes | None = None
        self._fixed: MeshInstances | None = None
        self._meshes: RayMeshes
        self._faces: tuple[NDArray[np.float32], NDArray[np.uint8]]
        self._sizes: I64  # faces of each mesh
        self._pieces: StaticPieces
        self._largest = 1

    def close(self) -> None:
        """Let go of the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def cast(self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, *, details: bool = True) -> Hits:
        """Cast rays from a sensor's pose, as far as ``reach_m``; without ``details`` only distances are worked out."""
        return self.begin(scene, pose, bundle, reach_m, details=details)()

    def begin(
        self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, *, details: bool = True
    ) -> Callable[[], Hits]:
        """Begin to cast; what comes back tells what the rays met, once, and waits for them if need be.

        On a card the rays of several sensors fly at the same time, while the processor works on what others met. The processor
        itself casts when it is asked for the hits: nothing is gained by holding them.
        """

        def hits() -> Hits:
            aim = self._aim(scene, pose)
            return described(aim, bundle, *self._nearest(aim, bundle, reach_m), details=details)

        return hits

    def begin_points(
        self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, beams: LidarBeams
    ) -> Callable[[], Points]:
        """Begin to cast the rays of a LiDAR; what comes back waits for them and tells its points, as :meth:`begin` does."""
        landed = self.begin(scene, pose, bundle, reach_m, details=False)
        return lambda: points_of(landed().distance_m, beams)[:2]

    def _aim(self, scene: RenderScene, pose: Pose) -> "Aim":
        """Everything as the sensor at ``pose`` sees it."""
        self._learn(scene)
        moving, pieces = scene.moving, self._pieces
        axes = np.array(axes_of(quaternion_of(pose)))
        origin = np.array([pose.x_m, pose.y_m, pose.z_m])
        starts = np.empty(len(moving.mesh) + 1, np.int64)
        starts[0] = len(pieces.face)
        np.cumsum(self._sizes[moving.mesh], out=starts[1:])
        starts[1:] += len(pieces.face)
        placed = PlacedForRays(
            _turned(np.eye(3), axes),
            _turned(-origin, axes),
            np.array(moving.mesh),
            _turned(moving.axes, axes),
            _turned(moving.position - origin, axes),
            starts,
        )
        return Aim(placed, scene, axes, scene.shapes.first_face[moving.mesh], pieces, self._faces)

    def _nearest(self, aim: "Aim", bundle: RayBundle, reach_m: float) -> tuple[F64, I64]:
        """One over the distance of what each ray meets first, and its code; ``NOTHING`` and one over the reach otherwise."""
        placed, pieces = aim.placed, aim.pieces
        count = len(pieces.meshes.radius)
        still = (
            np.arange(count, dtype=np.int32),
            np.tile(placed.still_axes, (count, 1, 1)),
            np.tile(placed.still_position, (count, 1)),
            np.zeros(count, np.int64),
        )
        codes = (placed.starts[:-1] - aim.first_face).astype(np.int64)
        actors = (placed.mesh, placed.axes, placed.position, codes)
        inverse, met = np.full(bundle.count, 1.0 / reach_m), np.full(bundle.count, NOTHING, np.int64)
        rays = bundle.arrays

        def sector(start: int, end: int) -> None:
            room = np.empty((self._largest, 3)), np.empty(self._largest), np.empty(self._largest)
            cast(pieces.meshes.arrays, still, rays, reach_m, start, end, inverse, met, room)
            cast(self._meshes.arrays, actors, rays, reach_m, start, end, inverse, met, room)

        self._in_sectors(sector, len(bundle.column_cos))
        return inverse, met

    def _in_sectors(self, sector: Callable[[int, int], None], width: int) -> None:
        if self._pool is None:
            sector(0, width)
            return
        # Whole columns of rays to a thread: no two write to the same ray, so that no bit depends on how many there are.
        edges = [width * part // self._threads for part in range(self._threads + 1)]
        for done in [self._pool.submit(sector, a, b) for a, b in itertools.pairwise(edges)]:
            done.result()

    def _learn(self, scene: RenderScene) -> None:
        if scene.shapes is not self._shapes:
            # Copies: arrays that may not be written to are another type, for which everything would be built again.
            self._meshes = ray_meshes_of(scene.shapes)
            self._faces = (np.array(scene.shapes.normals), np.array(scene.shapes.labels))
            self._sizes = np.diff(scene.shapes.first_face).astype(np.int64)
        if scene.shapes is not self._shapes or scene.fixed is not self._fixed:
            self._pieces = pieces_of(scene.shapes, scene.fixed)
            largest = [int(np.diff(meshes.first_vertex).max(initial=1)) for meshes in (self._meshes, self._pieces.meshes)]
            self._largest = max(largest)
        self._shapes, self._fixed = scene.shapes, scene.fixed


class Aim(NamedTuple):
    """What one sensor casts at: everything as it sees it, and what the codes of faces mean."""

    placed: PlacedForRays
    scene: RenderScene
    axes: F64
    first_face: I32
    pieces: StaticPieces
    faces: tuple[NDArray[np.float32], NDArray[np.uint8]]


def described(aim: Aim, bundle: RayBundle, inverse: F64, met: I32 | I64, *, details: bool) -> Hits:
    """What rays met, from the code of the face that each met first and one over how far it was."""
    label, actor, cosine = np.zeros(bundle.count, np.uint8), np.zeros(bundle.count, np.int32), np.zeros(bundle.count)
    if details:
        scene, placed = aim.scene, aim.placed
        identify(
            met.astype(np.int64, copy=False),
            bundle.arrays,
            (aim.pieces.face, aim.pieces.instance),
            (placed.starts, np.array(scene.moving.id), aim.first_face),
            aim.faces,
            np.concatenate([scene.fixed.label, scene.moving.label]),
            np.concatenate([_turned(scene.fixed.axes, aim.axes), placed.axes]),
            (label, actor, cosine),
        )
    distance_m = 1.0 / inverse
    distance_m[met < 0] = np.inf
    return Hits(distance_m, label, actor, cosine)


def _turned(vectors: F64, axes: F64) -> F64:
    """Vectors [..., 3] of the world as the sensor sees them, by its forward, right and up. No BLAS: it may fuse."""
    # A copy, also because arrays that may not be written to are another type to compiled code.
    flat = np.array(vectors).reshape(-1, 3)
    made = np.empty_like(flat)
    _turn(flat, axes, made)
    return made.reshape(vectors.shape)


@compiled_entry
def _turn(vectors: F64, axes: F64, made: F64) -> None:
    for i in range(vectors.shape[0]):
        for k in range(3):
            made[i, k] = vectors[i, 0] * axes[k, 0] + vectors[i, 1] * axes[k, 1] + vectors[i, 2] * axes[k, 2]


@compiled_entry
def identify(
    met: I64,
    rays: Rays,
    still: tuple[I32, I32],
    moving: tuple[I64, I32, I32],
    faces: tuple[NDArray[np.float32], NDArray[np.uint8]],
    labels: NDArray[np.uint8],
    axes: F64,
    found: tuple[NDArray[np.uint8], I32, F64],
) -> None:
    """Fill ``found``, label, actor and cosine, for every ray that has met a face.

    ``met`` holds codes. Below the length of ``still``, faces and the fixed instances that placed them, they name a fixed face;
    those of a moving instance begin at its start: ``moving`` are starts, ids and the first face of its mesh. ``faces`` are
    normals and labels; ``labels`` and ``axes`` (as the sensor sees them) those of fixed instances followed by moving ones.
    """
    row_cos, row_sin, column_cos, column_sin, first, last, number, _, _ = rays
    still_face, still_instance = still
    starts, ids, first_face = moving
    normals, face_labels = faces
    label, actor, cosine = found
    fixed = len(labels) - len(ids)
    for row in range(len(row_cos)):
        for column in range(first[row], last[row]):
            at = number[row] + column
            code = met[at]
            if code < 0:
                continue
            if code < len(still_face):
                face, owner = still_face[code], still_instance[code]
            else:
                mover = np.searchsorted(starts, code, side="right") - 1
                face, owner = first_face[mover] + (code - starts[mover]), fixed + mover
                actor[at] = ids[mover]
            label[at] = labels[owner] if labels[owner] != 0 else face_labels[face]
            x, y, z = np.float64(normals[face, 0]), np.float64(normals[face, 1]), np.float64(normals[face, 2])
            forward = x * axes[owner, 0, 0] + y * axes[owner, 1, 0] + z * axes[owner, 2, 0]
            right = x * axes[owner, 0, 1] + y * axes[owner, 1, 1] + z * axes[owner, 2, 1]
            up = x * axes[owner, 0, 2] + y * axes[owner, 1, 2] + z * axes[owner, 2, 2]
            ground = forward * column_cos[column] + right * column_sin[column]
            cosine[at] = -(ground * row_cos[row] + up * row_sin[row])


def ray_meshes_of(shapes: Shapes) -> RayMeshes:
    """The shapes of a scene as rays meet them."""
    return RayMeshes(
        vertices=shapes.vertices.astype(np.float64),
        faces=np.array(shapes.faces),
        first_vertex=np.array(shapes.first_vertex),
        first_face=np.array(shapes.first_face),
        centre=shapes.centre.astype(np.float64),
        # The radius was rounded to float32 once; a hair more is certainly enough.
        radius=shapes.radius.astype(np.float64) * (1.0 + 1e-5) + 1e-5,
    )


def pieces_of(shapes: Shapes, fixed: MeshInstances) -> StaticPieces:
    """Put everything fixed into the world and cut it into pieces."""
    corners, face, instance = _placed(shapes, fixed)
    size_m = (corners.max(axis=1) - corners.min(axis=1)).max(axis=1)
    middle = corners.mean(axis=1)
    groups: list[NDArray[np.intp]] = []
    for part in (np.flatnonzero(size_m <= _LARGE_M), np.flatnonzero(size_m > _LARGE_M)):
        # A piece is passed over by the ball around it; around many large faces that ball would be everywhere.
        limit = FACES_PER_PIECE if size_m[part].max(initial=0.0) <= _LARGE_M else 4
        groups += _halved(middle, part, limit)
    order = np.concatenate(groups) if groups else np.empty(0, np.intp)
    return StaticPieces(_pack(corners, groups), face[order], instance[order])


def _placed(shapes: Shapes, fixed: MeshInstances) -> tuple[F64, I32, I32]:
    """Corners f64[n, 3, 3] of every fixed face in the world, with the face and the instance it comes from."""
    ranges = [np.arange(shapes.first_face[mesh], shapes.first_face[mesh + 1], dtype=np.int32) for mesh in fixed.mesh.tolist()]
    face = np.concatenate(ranges) if ranges else np.empty(0, np.int32)
    instance = np.repeat(np.arange(len(ranges), dtype=np.int32), [len(faces) for faces in ranges])
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
    # Stable: faces at the same place keep the order of the map, on every machine.
    order = part[np.argsort(points[:, axis], kind="stable")]
    half = len(order) // 2
    return [*_halved(middle, order[:half], limit), *_halved(middle, order[half:], limit)]


def _pack(corners: F64, groups: list[NDArray[np.intp]]) -> RayMeshes:
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
    return RayMeshes(
        vertices=np.concatenate(vertices),
        faces=np.concatenate(faces),
        first_vertex=np.array(first_vertex, np.int32),
        first_face=np.array(first_face, np.int32),
        centre=np.array(centres).reshape(-1, 3),
        radius=np.array(radii),
    )
