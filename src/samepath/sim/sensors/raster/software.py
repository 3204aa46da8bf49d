"""The renderer: many cameras in one call, spread over threads, the same bytes whatever the number of threads."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, overload

import numpy as np

from samepath.base.errors import InputError
from samepath.sim.sensors.axes import places_and_axes
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.raster.arrays import (
    I64,
    LEVELS,
    ROW_MASK,
    Line,
    Outputs,
    Placed,
    Rows,
    Scratch,
    Seen,
    Shade,
    Views,
)
from samepath.sim.sensors.raster.cull import cull
from samepath.sim.sensors.raster.frame import draw_frames
from samepath.sim.sensors.raster.glow import add_lamps
from samepath.sim.sensors.raster.lighting import (
    GLOW_PER_M,
    GLOW_X,
    GLOW_Y,
    NIGHT,
    TICK,
    head_lamps,
    light_rows,
    near_lamps,
    shade_of,
)
from samepath.sim.sensors.raster.stage import Stage, empty_rows, grown
from samepath.sim.sensors.renderer import FAR_M, NEAR_M, Camera, Channel, Frame
from samepath.sim.sensors.scene import Lamp, Scene

_CHANNELS: Final = (Channel.COLOUR, Channel.DEPTH, Channel.LABEL, Channel.INSTANCE, Channel.NORMAL, Channel.FLOW)
_SHADOW_REACH_M: Final = 120.0
_SAMPLES_MAX: Final = 4


class FrameBatch(Sequence[Frame]):
    """The frames of one call; their arrays lie one behind the other. Hand it back as ``out`` to have it written over."""

    def __init__(self, cameras: Sequence[Camera]) -> None:
        self.layout = [(one.width, one.height, one.channels) for one in cameras]
        self.offsets = np.full((len(cameras), len(_CHANNELS)), -1, np.int64)
        totals = [0] * len(_CHANNELS)
        for c, camera in enumerate(cameras):
            for k, channel in enumerate(_CHANNELS):
                if camera.channels & channel:
                    self.offsets[c, k] = totals[k]
                    totals[k] += camera.width * camera.height
        self.arrays = Outputs(
            np.empty(totals[0], np.uint32), np.empty(totals[1], np.float32), np.empty(totals[2], np.uint8),
            np.empty(totals[3], np.uint16), np.empty(3 * totals[4], np.int8), np.empty(2 * totals[5], np.float32),
        )  # fmt: skip
        self.cameras = cameras

    def __len__(self) -> int:
        return len(self.layout)

    def __iter__(self) -> Iterator[Frame]:
        return (self._frame(c) for c in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Frame, ...]: ...
    def __getitem__(self, index: int | slice) -> Frame | tuple[Frame, ...]:
        if isinstance(index, slice):
            return tuple(self._frame(c) for c in range(*index.indices(len(self))))
        return self._frame(range(len(self))[index])

    def _frame(self, c: int) -> Frame:
        camera, made = self.cameras[c], self.arrays
        height, width = camera.height, camera.width

        def part(k: int, array: np.ndarray, depth: int, *shape: int) -> np.ndarray | None:
            start = int(self.offsets[c, k])
            return None if start < 0 else array[depth * start : depth * (start + width * height)].reshape(height, width, *shape)

        return Frame(
            camera,
            part(0, made.colour.view(np.uint8), 4, 4),
            part(1, made.depth, 1),
            part(2, made.label, 1),
            part(3, made.instance, 1),
            part(4, made.normal, 3, 3),
            part(5, made.flow, 2, 2),
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
        for k, one in enumerate(self.scratches):
            has = (len(one.depth), len(one.colour), len(one.column), len(one.line.blue))
            if any(a < b for a, b in zip(has, sizes, strict=True)):
                self.scratches[k] = _scratch(*(max(a, b) for a, b in zip(has, sizes, strict=True)))


def _line(width: int) -> Line:
    blue, green, red, x, y, z, near = (np.zeros(width, np.float32) for _ in range(7))
    upper, lower = (np.zeros(3 * (width + 2), np.float32) for _ in range(2))
    soft, fine = (np.zeros(width, np.int32) for _ in range(2))
    return Line(blue, green, red, x, y, z, near, soft, fine, upper, lower)


def _scratch(pixels: int, fine: int, vertices: int, width: int) -> Scratch:
    return Scratch(
        np.zeros(pixels, np.float32), np.zeros(pixels, np.int32), np.zeros(fine, np.uint32),
        np.zeros(vertices, np.float32), np.zeros(vertices, np.float32), np.zeros(vertices, np.float32),
        _line(width), np.zeros((3, 4)), np.zeros((4, 3)), np.zeros((3, 3)), np.zeros(3),
    )  # fmt: skip


class SoftwareRenderer:
    """Draws on the CPU. ``threads`` workers share the cameras; ``detail`` 0 draws far things as finely as near ones."""

    name = "software"

    def __init__(self, threads: int | None = None, detail: float = 1.0) -> None:
        count = threads if threads is not None else len(os.sched_getaffinity(0))
        if not 1 <= count <= 1024:
            raise InputError(f"1 to 1024 threads were wanted for the renderer, but {count} came")
        self._threads = _Threads.of(count)
        self._detail = detail
        self._stage: Stage | None = None
        self._rows: Rows = empty_rows(1)
        self._shade: Shade | None = None
        self._shade_key: object = None

    def close(self) -> None:
        """End the workers."""
        if self._threads.pool is not None:
            self._threads.pool.shutdown()

    def render(self, scene: Scene, cameras: Sequence[Camera], out: Sequence[Frame] | None = None) -> FrameBatch:
        """Draw all cameras."""
        layout = [(one.width, one.height, one.channels) for one in cameras]
        batch = out if isinstance(out, FrameBatch) and out.layout == layout else FrameBatch(cameras)
        batch.cameras = cameras
        if not cameras:
            return batch
        stage, shade, placed = self._prepare(scene)
        views = _views(cameras, batch.offsets)
        seen, used = self._cull(views, stage, placed)
        self._light(scene, stage, shade, placed, used)
        fine = max(one.width * one.height * one.samples**2 for one in cameras)
        averaged = fine if any(one.samples > 1 for one in cameras) else 1
        widest = max(one.width * one.samples for one in cameras)
        self._threads.reserve(fine, averaged, int(np.diff(scene.shapes.first_vertex).max()), widest)
        orders = _shares(views, self._threads.count)
        jobs = [
            (views, order, stage.meshes, placed, self._rows, seen, shade, scratch, batch.arrays, NEAR_M, FAR_M,
             _SHADOW_REACH_M, int(Label.SKY))
            for order, scratch in zip(orders, self._threads.scratches, strict=False)
        ]  # fmt: skip
        if self._threads.pool is None or len(jobs) == 1:
            for job in jobs:
                draw_frames(*job)
        else:
            for done in [self._threads.pool.submit(draw_frames, *job) for job in jobs]:
                done.result()
        return batch

    def _prepare(self, scene: Scene) -> tuple[Stage, Shade, Placed]:
        stage = self._stage
        if stage is None or stage.shapes is not scene.shapes or stage.fixed is not scene.fixed:
            stage = self._stage = Stage.of(scene.shapes, scene.fixed)
            self._rows = empty_rows(stage.first_moving_row + 1)
            self._shade_key = None
        key = (scene.weather, scene.street_lamps_on)
        if self._shade is None or self._shade_key != key:
            self._shade, self._shade_key = shade_of(scene), key
            stage.lit[:] = 0
            stage.light_streets(self._shade.lamps, dark=self._shade.numbers[NIGHT] > 0.0)
        if not (np.isfinite(scene.moving.position).all() and np.isfinite(scene.moving.axes).all()):
            raise InputError("finite coordinates were wanted for everything that moves, but others came")
        placed, total = stage.place(scene.moving)
        if total > ROW_MASK:
            raise InputError(f"a scene of at most {ROW_MASK} faces was wanted, but {total} came")
        if not scene.street_lamps_on:
            placed = placed._replace(lamps=placed.lamps & np.uint16(0xFFFF ^ int(Lamp.STREET)))
        self._rows = grown(self._rows, total, stage.first_moving_row)
        numbers, beams, glow, grid = self._shade.numbers.copy(), head_lamps(scene), stage.street_glow, stage.grid
        numbers[TICK] = scene.tick % 65536
        numbers[GLOW_X], numbers[GLOW_Y], numbers[GLOW_PER_M] = grid.x_m, grid.y_m, grid.cells_per_m
        if len(beams):
            glow = glow.copy()
            add_lamps(glow, grid.x_m, grid.y_m, grid.cells_per_m, beams)
        return stage, self._shade._replace(beams=beams, walls=stage.walls, numbers=numbers, glow=glow), placed

    def _cull(self, views: Views, stage: Stage, placed: Placed) -> tuple[Seen, np.ndarray]:
        count, instances = len(views.focal), len(placed.mesh)
        shape = (count, max(instances, 1))
        seen = Seen(np.zeros(count, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.uint8), np.zeros(shape))
        used = np.zeros((instances, LEVELS), np.uint8)
        cull(views, stage.meshes, placed, seen, used, NEAR_M, self._detail, 0, count)
        return seen, used

    def _light(self, scene: Scene, stage: Stage, shade: Shade, placed: Placed, used: np.ndarray) -> None:
        """Light what is seen: fixed things once per weather, moving ones and those in the beam of a lamp at every tick."""
        fixed = len(scene.fixed)
        if len(shade.beams) or stage.touched.any():
            near = np.zeros(fixed, np.uint8)
            near_lamps(placed, stage.meshes, shade.beams, fixed, near)
            stage.lit[(near | stage.touched) != 0] = 0
            stage.touched[:] = near
        light_rows(stage.meshes, placed, self._rows, shade, used, stage.lit, 0, fixed)
        light_rows(
            stage.meshes, placed, self._rows, shade, used, np.zeros((len(used), LEVELS), np.uint8), fixed, len(placed.mesh)
        )


def _views(cameras: Sequence[Camera], offsets: I64) -> Views:
    for one in cameras:
        if not 1 <= one.samples <= _SAMPLES_MAX:
            raise InputError(f"1 to {_SAMPLES_MAX} samples a side were wanted for a camera, but {one.samples} came")
    place, axes = places_and_axes([one.pose for one in cameras])
    if not np.isfinite(place).all():
        raise InputError("finite coordinates were wanted for a camera, but others came")
    was_place, was_axes = places_and_axes([one.was or one.pose for one in cameras])
    sizes = np.array([(one.width, one.height, one.samples) for one in cameras], np.int64)
    focal, vignette = np.array([one.focal_px for one in cameras]), np.array([one.vignette for one in cameras])
    return Views(sizes, offsets, place, axes, focal, was_place, was_axes, vignette)


def _shares(views: Views, count: int) -> list[I64]:
    """Deal the views out to workers, the largest first, each to the one with the least to do; empty hands are left out."""
    work = views.size[:, 0] * views.size[:, 1] * views.size[:, 2] ** 2 + 20_000
    hands: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for c in np.argsort(-work, kind="stable"):
        least = loads.index(min(loads))
        hands[least].append(int(c))
        loads[least] += int(work[c])
    return [np.array(hand, np.int64) for hand in hands if hand]
