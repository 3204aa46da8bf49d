"""What every back end works out of a scene and cameras before it draws: arrays, light, and who sees what."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from samepath.base.errors import InputError
from samepath.sim.sensors.axes import places_and_axes
from samepath.sim.sensors.raster.arrays import I64, LEVELS, U8, Placed, Seen, Shade, Views
from samepath.sim.sensors.raster.cull import cull
from samepath.sim.sensors.raster.lighting import NIGHT, TICK, head_lamps, shade_of
from samepath.sim.sensors.raster.stage import Stage
from samepath.sim.sensors.renderer import NEAR_M, Camera
from samepath.sim.sensors.scene import Lamp, Scene

SHADOW_REACH_M: Final = 120.0
"""Shadows are drawn up to this distance from a camera."""
_SAMPLES_MAX: Final = 4


class Prepared(NamedTuple):
    """A scene at one tick: what stays with the map, the light with all lamps, the instances, how many rows their faces need."""

    stage: Stage
    shade: Shade
    placed: Placed
    rows: int


class Preparer:
    """Prepares scene after scene; what belongs to the map or the weather is worked out once."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._shade: Shade | None = None
        self._shade_key: object = None

    def prepare(self, scene: Scene) -> Prepared:
        """Work out what a tick needs."""
        stage = self._stage
        if stage is None or stage.shapes is not scene.shapes or stage.fixed is not scene.fixed:
            stage = self._stage = Stage.of(scene.shapes, scene.fixed)
            self._shade_key = None
        key = (scene.weather, scene.street_lamps_on)
        if self._shade is None or self._shade_key != key:
            self._shade, self._shade_key = shade_of(scene), key
            stage.lit[:] = 0
            stage.light_streets(self._shade.lamps, dark=self._shade.numbers[NIGHT] > 0.0)
        if not (np.isfinite(scene.moving.position).all() and np.isfinite(scene.moving.axes).all()):
            raise InputError("finite coordinates were wanted for everything that moves, but others came")
        placed, total = stage.place(scene.moving)
        if not scene.street_lamps_on:
            placed = placed._replace(lamps=placed.lamps & np.uint16(0xFFFF ^ int(Lamp.STREET)))
        numbers = self._shade.numbers.copy()
        numbers[TICK] = scene.tick % 65536
        shade = self._shade._replace(beams=head_lamps(scene), walls=stage.walls, numbers=numbers)
        return Prepared(stage, shade, placed, total)


def seen_by(views: Views, stage: Stage, placed: Placed, detail: float) -> tuple[Seen, U8]:
    """What each view sees and in which detail, and which levels of which instances are needed by any."""
    count, instances = len(views.focal), len(placed.mesh)
    shape = (count, max(instances, 1))
    seen = Seen(np.zeros(count, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.uint8), np.zeros(shape))
    used = np.zeros((instances, LEVELS), np.uint8)
    cull(views, stage.meshes, placed, seen, used, NEAR_M, detail, 0, count)
    return seen, used


def views_of(cameras: Sequence[Camera], offsets: I64) -> Views:
    """The cameras as arrays, all of them checked."""
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
