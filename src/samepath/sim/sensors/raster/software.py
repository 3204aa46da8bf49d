"""The renderer: many cameras in one call, spread over threads, the same bytes whatever the number of threads."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from samepath.base.errors import InputError
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.raster.arrays import I64, LEVELS, ROW_MASK, Line, Placed, Rows, Scratch, Shade, Views
from samepath.sim.sensors.raster.batch import FrameBatch
from samepath.sim.sensors.raster.frame import draw_frames
from samepath.sim.sensors.raster.glow import add_lamps
from samepath.sim.sensors.raster.lighting import GLOW_PER_M, GLOW_X, GLOW_Y, light_rows, near_lamps
from samepath.sim.sensors.raster.prepare import SHADOW_REACH_M, Preparer, seen_by, views_of
from samepath.sim.sensors.raster.stage import Stage, empty_rows, grown
from samepath.sim.sensors.renderer import FAR_M, NEAR_M, Camera, Frame
from samepath.sim.sensors.scene import Scene


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
    facts: Mapping[str, str] = MappingProxyType({})

    def __init__(self, threads: int | None = None, detail: float = 1.0) -> None:
        count = threads if threads is not None else len(os.sched_getaffinity(0))
        if not 1 <= count <= 1024:
            raise InputError(f"1 to 1024 threads were wanted for the renderer, but {count} came")
        self._threads = _Threads.of(count)
        self._detail = detail
        self._stage: Stage | None = None
        self._rows: Rows = empty_rows(1)
        self._preparer = Preparer()

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
        views = views_of(cameras, batch.offsets)
        seen, used = seen_by(views, stage, placed, self._detail)
        self._light(scene, stage, shade, placed, used)
        fine = max(one.width * one.height * one.samples**2 for one in cameras)
        averaged = fine if any(one.samples > 1 for one in cameras) else 1
        widest = max(one.width * one.samples for one in cameras)
        self._threads.reserve(fine, averaged, int(np.diff(scene.shapes.first_vertex).max()), widest)
        orders = _shares(views, self._threads.count)
        jobs = [
            (views, order, stage.meshes, placed, self._rows, seen, shade, scratch, batch.arrays, NEAR_M, FAR_M,
             SHADOW_REACH_M, int(Label.SKY))
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
        stage, shade, placed, total = self._preparer.prepare(scene)
        if total > ROW_MASK:
            raise InputError(f"a scene of at most {ROW_MASK} faces was wanted, but {total} came")
        if stage is not self._stage:
            self._stage, self._rows = stage, empty_rows(stage.first_moving_row + 1)
        self._rows = grown(self._rows, total, stage.first_moving_row)
        numbers, glow, grid = shade.numbers, stage.street_glow, stage.grid
        numbers[GLOW_X], numbers[GLOW_Y], numbers[GLOW_PER_M] = grid.x_m, grid.y_m, grid.cells_per_m
        if len(shade.beams):
            glow = glow.copy()
            add_lamps(glow, grid.x_m, grid.y_m, grid.cells_per_m, shade.beams)
        return stage, shade._replace(glow=glow), placed

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
