"""The renderer on the CPU: many cameras in one call, spread over threads.

A camera is drawn by one thread from beginning to end, into working memory of that thread and a part of the output that no other
thread writes: the bytes are the same whatever the number of threads, and whichever thread a camera is dealt to.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from samepath.core.errors import InputError
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.raster.arrays import (
    F64,
    I64,
    LEVELS,
    ROW_MASK,
    CameraArrays,
    FaceRows,
    FrameBatch,
    InstanceArrays,
    LightArrays,
    MeshArrays,
    Number,
    Outputs,
    RowBuffer,
    Scratch,
    VisibleInstances,
    layout_of,
)
from samepath.simulator.sensors.raster.compiled import compiled, compiled_apart, compiled_entry
from samepath.simulator.sensors.raster.draw import draw_mesh, is_hidden, view_matrix
from samepath.simulator.sensors.raster.pixels import average, lay_over, measure, paint
from samepath.simulator.sensors.raster.prepare import (
    SHADOW_REACH_M,
    ScenePreparer,
    StaticScene,
    camera_arrays_of,
    empty_rows,
    grown,
    visible_instances,
)
from samepath.simulator.sensors.raster.shading import (
    RAIN,
    ROAD,
    SHADOWS,
    TICK,
    TO_SUN,
    add_lamps,
    light_rows,
    near_lamps,
)
from samepath.simulator.sensors.renderer import FAR_M, NEAR_M, Camera, CameraFrame, RenderScene

_STEEPEST = 0.14
"""Shadows of a sun lower than about 8 degrees are drawn as if it stood there: they would have no end."""

_SMALLEST_PX = 3.0
"""Shadows that would look smaller than this are left out."""


class SoftwareRenderer:
    """Draws on the CPU. ``threads`` workers share the cameras; ``detail`` 0 draws far things as finely as near ones."""

    name = "software"
    facts: Mapping[str, str] = MappingProxyType({})

    def __init__(self, threads: int | None = None, detail: float = 1.0) -> None:
        # The cores this process may use, not those of the machine: in a container or under taskset there are fewer.
        count = threads if threads is not None else len(os.sched_getaffinity(0))
        if not 1 <= count <= 1024:
            raise InputError(f"1 to 1024 threads were wanted for the renderer, but {count} came")
        self._threads = _Threads.of(count)
        self._detail = detail
        self._static: StaticScene | None = None
        self._rows: FaceRows = empty_rows(1)
        self._preparer = ScenePreparer()

    def close(self) -> None:
        """End the workers."""
        if self._threads.pool is not None:
            self._threads.pool.shutdown()

    def render(self, scene: RenderScene, cameras: Sequence[Camera], out: Sequence[CameraFrame] | None = None) -> FrameBatch:
        """Draw all cameras."""
        # Written over only where the caller has handed it back: frames of the tick before may still be under way to somebody.
        batch = out if isinstance(out, FrameBatch) and out.layout == layout_of(cameras) else FrameBatch(cameras)
        batch.cameras = cameras
        if not cameras:
            return batch
        static, shade, placed = self._prepare(scene)
        views = camera_arrays_of(cameras, batch.offsets)
        seen, used = visible_instances(views, static, placed, self._detail)
        self._light(scene, static, shade, placed, used)
        # For the largest of all cameras, not for each: a thread draws one after the other in the same memory.
        fine = max(camera.width * camera.height * camera.samples**2 for camera in cameras)
        averaged = fine if any(camera.samples > 1 for camera in cameras) else 1
        widest = max(camera.width * camera.samples for camera in cameras)
        self._threads.reserve(fine, averaged, int(np.diff(scene.shapes.first_vertex).max()), widest)
        orders = _shares(views, self._threads.count)
        jobs = [
            (views, order, static.meshes, placed, self._rows, seen, shade, scratch, batch.arrays, NEAR_M, FAR_M,
             SHADOW_REACH_M, int(Label.SKY))
            # With fewer cameras than threads some have nothing to do.
            for order, scratch in zip(orders, self._threads.scratches, strict=False)
        ]  # fmt: skip
        if self._threads.pool is None or len(jobs) == 1:
            for job in jobs:
                draw_frames(*job)
        else:
            # The compiled loop releases the interpreter's lock, so threads run side by side; result() raises what went wrong.
            for done in [self._threads.pool.submit(draw_frames, *job) for job in jobs]:
                done.result()
        return batch

    def _prepare(self, scene: RenderScene) -> tuple[StaticScene, LightArrays, InstanceArrays]:
        prepared = self._preparer.prepare(scene)
        static, shade, total = prepared.static, prepared.shade, prepared.rows
        # A pixel has 24 bits for its row: one more face would be seen as another.
        if total > ROW_MASK:
            raise InputError(f"a scene of at most {ROW_MASK} faces was wanted, but {total} came")
        if static is not self._static:
            self._static, self._rows = static, empty_rows(static.first_moving_row + 1)
        self._rows = grown(self._rows, total, static.first_moving_row)
        if len(shade.beams):
            # Added to a copy, and never taken off again: a float32 sum does not come back to the bits it had.
            grid, glow = static.grid, shade.glow.copy()
            add_lamps(glow, grid.x_m, grid.y_m, grid.cells_per_m, shade.beams)
            shade = shade._replace(glow=glow)
        return static, shade, prepared.placed

    def _light(
        self, scene: RenderScene, static: StaticScene, shade: LightArrays, placed: InstanceArrays, used: np.ndarray
    ) -> None:
        """Light what is seen: fixed things once per weather, moving ones and those in the beam of a lamp at every tick.

        What is kept was worked out by the same function from the same numbers, so keeping it changes nothing. Things that a
        beam has just left are lit again as well: they still have its light.
        """
        fixed = len(scene.fixed)
        # By day neither, and nothing of this is done.
        if len(shade.beams) or static.touched.any():
            near = np.zeros(fixed, np.uint8)
            near_lamps(placed, static.meshes, shade.beams, fixed, near)
            static.lit[(near | static.touched) != 0] = 0
            static.touched[:] = near
        light_rows(static.meshes, placed, self._rows, shade, used, static.lit, 0, fixed)
        light_rows(
            static.meshes, placed, self._rows, shade, used, np.zeros((len(used), LEVELS), np.uint8), fixed, len(placed.mesh)
        )


@dataclass(eq=False)
class _Threads:
    """Workers and their working memory."""

    count: int
    pool: ThreadPoolExecutor | None
    scratches: list[Scratch]

    @classmethod
    def of(cls, count: int) -> "_Threads":
        pool = ThreadPoolExecutor(count, "samepath-render") if count > 1 else None
        return cls(count, pool, [_scratch(1, 1, 1, 1) for _ in range(count)])

    def reserve(self, *sizes: int) -> None:
        """Make sure every worker has room for so many pixels, pixels before averaging, vertices and columns."""
        for k, scratch in enumerate(self.scratches):
            has = (len(scratch.depth), len(scratch.colour), len(scratch.column), len(scratch.line.blue))
            if any(a < b for a, b in zip(has, sizes, strict=True)):
                self.scratches[k] = _scratch(*(max(a, b) for a, b in zip(has, sizes, strict=True)))


def _scratch(pixels: int, fine: int, vertices: int, width: int) -> Scratch:
    blue, green, red, x, y, z, near = (np.zeros(width, np.float32) for _ in range(7))
    upper, lower = (np.zeros(3 * (width + 2), np.float32) for _ in range(2))
    soft, fine_cells = (np.zeros(width, np.int32) for _ in range(2))
    line = RowBuffer(blue, green, red, x, y, z, near, soft, fine_cells, upper, lower)
    return Scratch(
        np.zeros(pixels, np.float32), np.zeros(pixels, np.int32), np.zeros(fine, np.uint32),
        np.zeros(vertices, np.float32), np.zeros(vertices, np.float32), np.zeros(vertices, np.float32),
        line, np.zeros((3, 4)), np.zeros((4, 3)), np.zeros((3, 3)), np.zeros(3),
    )  # fmt: skip


def _shares(views: CameraArrays, count: int) -> list[I64]:
    """Deal the views out to workers, the largest first, each to the one with the least to do; empty hands are left out."""
    # A picture costs its pixels, and about as much as 20,000 more of them for culling and transforming. A wrong guess costs
    # time only.
    work = views.size[:, 0] * views.size[:, 1] * views.size[:, 2] ** 2 + 20_000
    hands: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for c in np.argsort(-work, kind="stable"):
        least = loads.index(min(loads))
        hands[least].append(int(c))
        loads[least] += int(work[c])
    return [np.array(hand, np.int64) for hand in hands if hand]


@compiled_entry
def draw_frames(
    views: CameraArrays, order: I64, meshes: MeshArrays, placed: InstanceArrays, rows: FaceRows, seen: VisibleInstances,
    shade: LightArrays, scratch: Scratch, out: Outputs, near_m: Number, far_m: Number, reach_m: Number, sky_label: Number,
) -> None:  # fmt: skip
    """Draw the whole pictures of the views named in ``order``.

    With several samples a side, colours are drawn again on a finer grid and averaged; what is measured has one sample a pixel.
    """
    for c in order:
        samples, start = views.size[c, 2], views.offset[c, 0]
        width, height = views.size[c, 0], views.size[c, 1]
        more = False
        for k in range(1, views.offset.shape[1]):
            more = more or views.offset[c, k] >= 0
        # With one sample a pixel, colours come from the same pass as what is measured.
        if more or (start >= 0 and samples == 1):
            _draw(views, c, 1, meshes, placed, rows, seen, shade, scratch, near_m, reach_m, start >= 0)
            measure(views, c, placed, rows, scratch, out, far_m, sky_label)
        if start < 0:
            continue
        if samples == 1:
            paint(views, c, width, height, views.focal[c], rows, scratch, shade, out.colour, start)
        else:
            _draw(views, c, samples, meshes, placed, rows, seen, shade, scratch, near_m, reach_m, True)
            paint(
                views, c, width * samples, height * samples, views.focal[c] * samples, rows, scratch, shade,
                scratch.colour, 0,
            )  # fmt: skip
            average(scratch.colour, out.colour, start, width, height, samples)
        # Last, on the averaged picture: rain and lens are as coarse as the pixels that are delivered.
        lay_over(
            out.colour, start, width, height, shade.numbers[RAIN], np.int64(shade.numbers[TICK]), shade.noise,
            views.vignette[c],
        )  # fmt: skip


@compiled_apart
def _draw(
    views: CameraArrays, c: Number, samples: Number, meshes: MeshArrays, placed: InstanceArrays, rows: FaceRows,
    seen: VisibleInstances, shade: LightArrays, scratch: Scratch, near_m: Number, reach_m: Number, shadows: bool,
) -> None:  # fmt: skip
    """Fill 1/z and ids of one camera: clear, draw from near to far, then shadows on what is seen.

    Only 1/z is cleared: an id counts where 1/z is above 0.
    """
    width, height, focal = views.size[c, 0] * samples, views.size[c, 1] * samples, views.focal[c] * samples
    matrix, corners = scratch.matrix, scratch.corners
    for at in range(np.uint64(width * height)):
        scratch.depth[at] = np.float32(0.0)
    place = views.place[c]
    for k in range(seen.total[c]):
        i, level = seen.instance[c, k], seen.level[c, k]
        mesh = placed.mesh[i]
        for _ in range(level):
            mesh = meshes.coarser[mesh]
        turn, position = placed.axes[i], placed.position[i]
        view_matrix(matrix, views.axes[c], place, focal, turn, position)
        if is_hidden(meshes, mesh, matrix, near_m, width, height, scratch.depth):
            continue
        # The camera's place in the mesh's frame tells which faces are turned to it.
        x, y, z = place[0] - position[0], place[1] - position[1], place[2] - position[2]
        draw_mesh(
            meshes, mesh, matrix,
            turn[0, 0] * x + turn[0, 1] * y + turn[0, 2] * z,
            turn[1, 0] * x + turn[1, 1] * y + turn[1, 2] * z,
            turn[2, 0] * x + turn[2, 1] * y + turn[2, 2] * z,
            True, near_m, width, height, scratch, corners, placed.rows[i, level], True, rows.material, ROAD,
        )  # fmt: skip
    # After all faces: a shadow falls on what is seen, so what hides the ground must have been drawn.
    if shadows and shade.numbers[SHADOWS] > 0.0:
        _shadows(
            meshes, placed, views, c, focal, width, height, near_m, scratch, matrix, corners, scratch.turn, scratch.position,
            rows, shade.numbers[TO_SUN : TO_SUN + 3], reach_m,
        )  # fmt: skip


@compiled
def _shadows(
    meshes: MeshArrays, placed: InstanceArrays, views: CameraArrays, c: Number, focal: Number, width: Number, height: Number,
    near_m: Number, scratch: Scratch, matrix: F64, corners: F64, flat_turn: F64, flat_position: F64, rows: FaceRows, sun: F64,
    reach_m: Number,
) -> None:  # fmt: skip
    """Lay every caster flat on the ground along the sun's rays and mark what it covers.

    The ground is the level ``ground_z`` under the caster. Casters farther away than ``reach_m``, smaller than a few pixels, or
    seen from below their ground throw none: that is part of the picture. The result does not depend on the order of casters.
    """
    steep = max(sun[2], _STEEPEST)
    lean_x, lean_y = sun[0] / steep, sun[1] / steep
    half_x, half_y = 0.5 * width / focal, 0.5 * height / focal
    stretch = np.sqrt(1.0 + lean_x * lean_x + lean_y * lean_y)
    far_per_m = focal / _SMALLEST_PX
    for i in range(placed.mesh.shape[0]):
        mesh = meshes.shadow[placed.mesh[i]]
        if mesh < 0:
            continue
        turn, position, ground, middle = placed.axes[i], placed.position[i], placed.ground_z[i], meshes.centre[mesh]
        if views.place[c, 2] <= ground:
            continue
        x = middle[0] * turn[0, 0] + middle[1] * turn[1, 0] + middle[2] * turn[2, 0] + position[0]
        y = middle[0] * turn[0, 1] + middle[1] * turn[1, 1] + middle[2] * turn[2, 1] + position[1]
        up = middle[0] * turn[0, 2] + middle[1] * turn[1, 2] + middle[2] * turn[2, 2] + position[2] - ground
        x, y, radius = x - lean_x * up, y - lean_y * up, meshes.radius[mesh] * stretch
        dx, dy = x - views.place[c, 0], y - views.place[c, 1]
        # Whichever is nearer: too far, or too small to be seen. Plus the radius, as it is the nearest edge that counts.
        reach = min(reach_m, far_per_m * radius) + radius
        if dx * dx + dy * dy > reach * reach or _outside(views, c, x, y, ground, radius, half_x, half_y):
            continue
        for k in range(3):
            flat_turn[k, 0], flat_turn[k, 1] = turn[k, 0] - lean_x * turn[k, 2], turn[k, 1] - lean_y * turn[k, 2]
            flat_turn[k, 2] = 0.0
        # The instance's own matrix, sheared along the sun's rays and with its height taken out: the same drawing code does the
        # rest.
        high = position[2] - ground
        flat_position[0], flat_position[1], flat_position[2] = position[0] - lean_x * high, position[1] - lean_y * high, ground
        view_matrix(matrix, views.axes[c], views.place[c], focal, flat_turn, flat_position)
        draw_mesh(
            meshes, mesh, matrix,
            # A direction, not a point: seen from the sun, faces turned away lie behind those turned to it.
            turn[0, 0] * lean_x + turn[0, 1] * lean_y + turn[0, 2],
            turn[1, 0] * lean_x + turn[1, 1] * lean_y + turn[1, 2],
            turn[2, 0] * lean_x + turn[2, 1] * lean_y + turn[2, 2],
            False, near_m, width, height, scratch, corners, 0, False, rows.material, ROAD,
        )  # fmt: skip


@compiled
def _outside(
    views: CameraArrays, c: Number, x: Number, y: Number, z: Number, radius: Number, half_x: Number, half_y: Number
) -> Number:
    """Is a sphere out of sight?"""
    axes, place = views.axes[c], views.place[c]
    x, y, z = x - place[0], y - place[1], z - place[2]
    ahead = axes[0, 0] * x + axes[0, 1] * y + axes[0, 2] * z
    aside = abs(axes[1, 0] * x + axes[1, 1] * y + axes[1, 2] * z)
    above = abs(axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * z)
    return (
        ahead + radius < 0.0
        or aside - ahead * half_x > radius * np.sqrt(1.0 + half_x * half_x)
        or above - ahead * half_y > radius * np.sqrt(1.0 + half_y * half_y)
    )
