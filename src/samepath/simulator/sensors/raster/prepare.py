"""From a scene and cameras to the arrays that back ends draw from: what stays with the map, what is new at every tick.

Every back end prepares in this one way, so all of them see the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from samepath.core.errors import InputError
from samepath.simulator.sensors.raster.arrays import (
    F32,
    F64,
    I32,
    I64,
    LEVELS,
    U8,
    CameraArrays,
    FaceRows,
    InstanceArrays,
    LightArrays,
    MeshArrays,
    VisibleInstances,
)
from samepath.simulator.sensors.raster.draw import cull
from samepath.simulator.sensors.raster.shading import (
    GLOW_PER_M,
    GLOW_X,
    GLOW_Y,
    NIGHT,
    TICK,
    GlowGrid,
    add_lamps,
    head_lamps,
    light_arrays_of,
    sky_numbers_of,
)
from samepath.simulator.sensors.raster.turning import places_and_axes
from samepath.simulator.sensors.renderer import NEAR_M, Camera, Lamp, MeshInstances, RenderScene, Shapes, focal_px_of

NO_WALLS: Final = -(1 << 30)
"""Added to any mapping it stays negative: windows are drawn on fixed walls only."""

SHADOW_REACH_M: Final = 120.0
"""Shadows are drawn up to this distance from a camera."""

_SAMPLES_MAX: Final = 4


@dataclass(eq=False)
class StaticScene:
    """Everything worked out of the shapes and the fixed instances of a scene. Owned by one renderer."""

    shapes: Shapes
    fixed: MeshInstances
    meshes: MeshArrays
    sizes: I32  # faces of each mesh at each level
    fixed_rows: I32  # first row of each fixed instance at each level
    first_moving_row: int
    walls: F32
    fixed_walls: I32
    lit: U8  # of the fixed instances: which levels have been lit under the present weather
    touched: U8  # by the beams of moving lamps in the tick before
    grid: GlowGrid
    # By the meshes of what moves, of the last tick: those of cars stay what they are, so that rows are seldom others.
    placed: tuple[bytes, I32, I32, int] | None = None

    @classmethod
    def of(cls, shapes: Shapes, fixed: MeshInstances) -> "StaticScene":
        # Every instance gets rows for all of its levels at once, drawn or not: the row of a fixed face is the same for as long
        # as the map is.
        sizes = _faces_per_level(shapes, levels_of(shapes))
        rows, total = _rows(sizes[fixed.mesh], 0)
        walls, shifts = _walls(shapes, fixed)
        lit = np.zeros((len(fixed), LEVELS), np.uint8)
        touched = np.zeros(len(fixed), np.uint8)
        grid = GlowGrid.over(shapes, fixed)
        return cls(shapes, fixed, mesh_arrays_of(shapes), sizes, rows, total, walls, shifts, lit, touched, grid)

    def place(self, moving: MeshInstances, *, street_lamps_on: bool) -> tuple[InstanceArrays, int]:
        """What moves, and how many rows all faces need."""
        meshes = moving.mesh.tobytes()
        if self.placed is None or self.placed[0] != meshes:
            # Behind all fixed ones: those keep their rows, and their light, whoever comes and goes.
            rows, total = _rows(self.sizes[moving.mesh], self.first_moving_row)
            walls = np.full(len(moving), NO_WALLS, np.int32)
            rows.flags.writeable = walls.flags.writeable = False
            self.placed = meshes, rows, walls, total
        _, rows, walls, total = self.placed
        return _instance_arrays(moving, rows, walls, street_lamps_on), total


@dataclass(frozen=True, eq=False)
class MapLight:
    """What belongs to one weather over one map. It is kept, so a back end may know it again by its identity.

    ``shade`` has the walls of the map, the light of street lamps on its ground as ``glow``, and no beams. A back end that
    paints sky and glow by itself, of ``sky_numbers`` and the lamps, gets a sky without texels and a glow of zeros.
    """

    static: StaticScene
    shade: LightArrays
    sky_numbers: F64
    fixed: InstanceArrays

    @classmethod
    def of(cls, scene: RenderScene, static: StaticScene, *, paints: bool) -> "MapLight":
        """Work it out. By day nobody asks for the light of street lamps on the ground: there are no cells then."""
        shade, grid = light_arrays_of(scene, paints=paints), static.grid
        numbers, dark = shade.numbers, bool(shade.numbers[NIGHT] > 0.0)
        numbers[GLOW_X], numbers[GLOW_Y], numbers[GLOW_PER_M] = grid.x_m, grid.y_m, grid.cells_per_m
        glow = np.zeros((grid.rows, grid.columns) if dark else (2, 2), np.float32)
        if dark and paints:
            add_lamps(glow, grid.x_m, grid.y_m, grid.cells_per_m, shade.lamps)
        fixed = _instance_arrays(static.fixed, static.fixed_rows, static.fixed_walls, scene.street_lamps_on)
        return cls(static, shade._replace(walls=static.walls, glow=glow), sky_numbers_of(scene.weather), fixed)


@dataclass(frozen=True, eq=False)
class PreparedScene:
    """A scene at one tick: what stays with map and weather, the light with all lamps, what moves, and rows for all faces."""

    kept: MapLight
    shade: LightArrays
    moving: InstanceArrays
    rows: int

    @property
    def static(self) -> StaticScene:
        """What stays with the map."""
        return self.kept.static

    @property
    def instances(self) -> int:
        """How many things there are, fixed and moving."""
        return len(self.kept.fixed.mesh) + len(self.moving.mesh)

    @cached_property
    def placed(self) -> InstanceArrays:
        """All instances, the fixed ones first."""
        fixed: tuple[np.ndarray, ...] = self.kept.fixed
        moving: tuple[np.ndarray, ...] = self.moving
        return InstanceArrays(*(np.concatenate(both) for both in zip(fixed, moving, strict=True)))


class ScenePreparer:
    """Prepares scene after scene; what belongs to the map or the weather is worked out once.

    The last ``maps``, and ``lights`` of weathers over them, are remembered: one, unless worlds are drawn side by side.
    ``paints`` is whether sky and glow are painted here, or by the back end.
    """

    def __init__(self, maps: int = 1, lights: int = 1, *, paints: bool = True) -> None:
        self._maps, self._most_lights, self._paints = maps, lights, paints
        # By identity, oldest first. The records hold the objects themselves, so no other can come to have the same one.
        self._statics: dict[tuple[int, int], StaticScene] = {}
        self._lights: dict[tuple[int, object], MapLight] = {}
        self._last: MapLight | None = None

    def prepare(self, scene: RenderScene) -> PreparedScene:
        """Work out what a tick needs."""
        light = self._light_of(scene)
        # Here, because a NaN would not fail later: its triangles would silently not be drawn.
        if not (np.isfinite(scene.moving.position).all() and np.isfinite(scene.moving.axes).all()):
            raise InputError("finite coordinates were wanted for everything that moves, but others came")
        moving, total = light.static.place(scene.moving, street_lamps_on=scene.street_lamps_on)
        # A copy: the light is kept from tick to tick, and a back end writes into what it is given.
        numbers = light.shade.numbers.copy()
        numbers[TICK] = scene.tick % 65536
        shade = light.shade._replace(beams=head_lamps(scene, dark=bool(numbers[NIGHT] > 0.0)), numbers=numbers)
        return PreparedScene(light, shade, moving, total)

    def _light_of(self, scene: RenderScene) -> MapLight:
        # The very same object, not an equal one: comparing all arrays at every tick would cost more than it saves.
        place = id(scene.shapes), id(scene.fixed)
        static = self._statics.pop(place, None)
        if static is None:
            static = StaticScene.of(scene.shapes, scene.fixed)
            _shorten(self._statics, self._maps)
        self._statics[place] = static
        key = id(static), (scene.weather, scene.street_lamps_on)
        light = self._lights.pop(key, None)
        if light is None or light.static is not static:
            light = MapLight.of(scene, static, paints=self._paints)
            _shorten(self._lights, self._most_lights)
        self._lights[key] = light
        if light is not self._last:
            # Under other light every kept row is wrong.
            static.lit[:] = 0
            self._last = light
        return light


def _shorten(kept: dict[Any, Any], most: int) -> None:
    """Make room for one more, the oldest goes first."""
    while len(kept) >= most:
        del kept[next(iter(kept))]


def visible_instances(
    views: CameraArrays, static: StaticScene, placed: InstanceArrays, detail: float
) -> tuple[VisibleInstances, U8]:
    """What each view sees and in which detail, and which levels of which instances are needed by any."""
    count, instances = len(views.focal), len(placed.mesh)
    shape = (count, max(instances, 1))
    seen = VisibleInstances(np.zeros(count, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.uint8), np.zeros(shape))
    used = np.zeros((instances, LEVELS), np.uint8)
    cull(views, static.meshes, placed, seen, used, NEAR_M, detail, 0, count)
    return seen, used


def camera_arrays_of(cameras: Sequence[Camera], offsets: I64) -> CameraArrays:
    """The cameras as arrays, all of them checked."""
    sizes, focal, vignette = _lenses_of(tuple([(c.width, c.height, c.samples, c.fov_deg, c.vignette) for c in cameras]))
    place, axes = places_and_axes([camera.pose for camera in cameras])
    if not np.isfinite(place).all():
        raise InputError("finite coordinates were wanted for a camera, but others came")
    # A camera's first picture has none before it: nothing has moved.
    was_place, was_axes = place, axes
    if any(camera.was is not None for camera in cameras):
        was_place, was_axes = places_and_axes([camera.was or camera.pose for camera in cameras])
    return CameraArrays(sizes, offsets, place, axes, focal, was_place, was_axes, vignette)


@lru_cache(64)
def _lenses_of(lenses: tuple[tuple[int, int, int, float, float], ...]) -> tuple[I64, F64, F64]:
    """Sizes with samples, focal lengths and vignettes: cameras move at every tick, what they are stays."""
    for *_, samples, _, _ in lenses:
        if not 1 <= samples <= _SAMPLES_MAX:
            raise InputError(f"1 to {_SAMPLES_MAX} samples a side were wanted for a camera, but {samples} came")
    sizes = np.array([lens[:3] for lens in lenses], np.int64).reshape(-1, 3)
    focal = np.array([focal_px_of(width, fov_deg) for width, _, _, fov_deg, _ in lenses])
    vignette = np.array([lens[4] for lens in lenses])
    for array in (sizes, focal, vignette):
        array.flags.writeable = False
    return sizes, focal, vignette


def _instance_arrays(given: MeshInstances, rows: I32, walls: I32, street_lamps_on: bool) -> InstanceArrays:
    made = InstanceArrays(
        given.mesh, given.position, given.axes, given.id, given.label, given.paint, given.lamps, given.ground_z,
        given.was_position, given.was_axes, rows, walls,
    )  # fmt: skip
    return made if street_lamps_on else made._replace(lamps=given.lamps & np.uint16(0xFFFF ^ int(Lamp.STREET)))


def _rows(sizes: I32, first: int) -> tuple[I32, int]:
    """The first row of each instance and level when all stand one behind the other, and where the next would begin."""
    # 64 bits: a scene that is too large must be found by its size, not wrap around to one that fits.
    ends = np.cumsum(sizes.ravel(), dtype=np.int64)
    starts = np.concatenate([[0], ends])[:-1].reshape(sizes.shape) + first
    return starts.astype(np.int32), first + (int(ends[-1]) if len(ends) else 0)


def _walls(shapes: Shapes, fixed: MeshInstances) -> tuple[F32, I32]:
    """The mappings of fixed walls in the world, and for each instance what to add to a face's mapping to find them."""
    # At least one row, also on a map without walls: nothing cannot be concatenated.
    found: list[np.ndarray] = [np.zeros((1, 8))]
    shifts = np.zeros(len(fixed), np.int32)
    total = 1
    for i, mesh in enumerate(fixed.mesh):
        used = shapes.mappings[shapes.first_face[mesh] : shapes.first_face[mesh + 1]]
        used = used[used >= 0]
        if not len(used):
            continue
        low, high = int(used.min()), int(used.max()) + 1
        # Into the world here, once and in float64: a pixel knows where in the world it is, not where on its wall.
        own = shapes.mapping[low:high].astype(np.float64)
        axes, position = fixed.axes[i], fixed.position[i]
        world = np.zeros_like(own)
        for part in (0, 4):
            for k in range(3):
                world[:, part + k] = own[:, part] * axes[0, k] + own[:, part + 1] * axes[1, k] + own[:, part + 2] * axes[2, k]
            shift = world[:, part] * position[0] + world[:, part + 1] * position[1] + world[:, part + 2] * position[2]
            world[:, part + 3] = own[:, part + 3] - shift
        shifts[i] = total - low
        found.append(world)
        total += len(world)
    return np.concatenate(found).astype(np.float32), shifts


def mesh_arrays_of(shapes: Shapes) -> MeshArrays:
    """Lay shapes out; distances of planes are worked out in float64 from the float32 corners."""
    # One array for each coordinate: vertices are transformed several at a time.
    x, y, z = (np.ascontiguousarray(shapes.vertices[:, k]) for k in range(3))
    corner = shapes.vertices[shapes.faces[:, 0]].astype(np.float64)
    normals = shapes.normals.astype(np.float64)
    away = normals[:, 0] * corner[:, 0] + normals[:, 1] * corner[:, 1] + normals[:, 2] * corner[:, 2]
    planes = np.ascontiguousarray(np.column_stack([normals, away]).astype(np.float32))
    return MeshArrays(
        x, y, z, shapes.faces, planes, shapes.colours, shapes.labels, shapes.materials, shapes.lamps, shapes.mappings,
        shapes.first_vertex, shapes.first_face, shapes.centre.astype(np.float64), shapes.radius.astype(np.float64),
        _boxes(shapes), shapes.coarser, shapes.coarser_px.astype(np.float64), shapes.shadow,
    )  # fmt: skip


def _boxes(shapes: Shapes) -> F64:
    boxes = np.zeros((shapes.count, 2, 3))
    for mesh in range(shapes.count):
        points = shapes.vertices[shapes.first_vertex[mesh] : shapes.first_vertex[mesh + 1]]
        if len(points):
            boxes[mesh, 0], boxes[mesh, 1] = points.min(axis=0), points.max(axis=0)
    return boxes


def levels_of(shapes: Shapes) -> I32:
    """The mesh of each level of detail of every mesh, i32[m, LEVELS]; -1 where there is none."""
    levels = np.full((shapes.count, LEVELS), -1, np.int32)
    levels[:, 0] = np.arange(shapes.count)
    for level in range(1, LEVELS):
        has = levels[:, level - 1] >= 0
        levels[has, level] = shapes.coarser[levels[has, level - 1]]
    return levels


def _faces_per_level(shapes: Shapes, levels: I32) -> I32:
    counts = np.diff(shapes.first_face)
    # A level of -1 reads the last mesh's count, which is then not taken.
    return np.where(levels >= 0, counts[levels], 0).astype(np.int32)


def empty_rows(count: int) -> FaceRows:
    """Room for ``count`` rows."""
    return FaceRows(
        np.zeros((count, 4), np.float32), np.zeros(count, np.uint8), np.zeros(count, np.uint16), np.zeros(count, np.uint8),
        np.zeros((count, 3), np.int8), np.zeros(count, np.int32),
    )  # fmt: skip


def grown(rows: FaceRows, count: int, kept: int) -> FaceRows:
    """The same rows with room for ``count``; the first ``kept`` are copied."""
    # A quarter more than asked for: actors come and go, and every growth copies the rows of what is fixed.
    if len(rows.label) >= count:
        return rows
    bigger = empty_rows(count + count // 4)
    for name in FaceRows._fields:
        getattr(bigger, name)[:kept] = getattr(rows, name)[:kept]
    return bigger
