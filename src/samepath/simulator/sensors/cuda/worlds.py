"""What stays on the card from tick to tick: maps, weathers, and of each world in a launch its things and their light.

Worlds of one launch have numbers, and a number has its place in every array: instances, lit faces, marks. A world that keeps
its map and weather from tick to tick finds its fixed things, and their light, at its number again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.cuda.driver import Driver
from samepath.simulator.sensors.cuda.memory import DeviceMemory, blocks_of
from samepath.simulator.sensors.cuda.records import TYPES, fitted
from samepath.simulator.sensors.raster.arrays import (
    I64,
    LEVELS,
    CameraArrays,
    FaceRows,
    InstanceArrays,
    LightArrays,
    MeshArrays,
    Outputs,
)
from samepath.simulator.sensors.raster.prepare import MapLight, PreparedScene, StaticScene
from samepath.simulator.sensors.raster.shading import SKY_SIZE

ROW_BYTES: Final = (16, 1, 2, 1, 3, 4)
"""Of each array of ``FaceRows``."""
INSTANCE_BYTES: Final = (4, 24, 72, 4, 1, 12, 2, 8, 24, 72, 12, 4)
"""Of one row of each array of ``InstanceArrays``."""

_MAPS_MOST: Final = 8
LIGHTS_MOST: Final = 32
"""Weathers over maps that are kept, beyond those that a launch needs at once; each is 1 to 18 MB."""


def _columns() -> dict[str, int]:
    """Where in ``World`` of kernels.h, counted in eight bytes, each group and each number begins."""
    found, at = {}, 0
    for group in (MeshArrays, InstanceArrays, FaceRows, LightArrays, CameraArrays, Outputs):
        found[group.__name__] = at
        at += len(TYPES[group].split())
    for name in (
        "instances", "lamps", "beams", "glow_rows", "glow_columns", "cameras", "detail", "used", "lit", "street_glow",
        "sky_numbers", "rows", "kept",
    ):  # fmt: skip
        found[name] = at
        at += 1
    return found | {"end": at}


COLUMN: Final = _columns()
WORLD_BYTES: Final = 8 * COLUMN["end"]
_LIGHT: Final = {name: COLUMN["LightArrays"] + k for k, name in enumerate(LightArrays._fields)}


@dataclass(eq=False)
class _KeptLight:
    """A weather over a map on the card. The record itself is held, so that no other can come to have the same identity."""

    of: MapLight
    memory: DeviceMemory
    at: dict[str, int]


class WorldStore:
    """Keeps it all. ``settle`` is called before anything is exchanged that ticks under way may have to be drawn again from."""

    def __init__(self, driver: Driver, stream: Any, settle: Callable[[], None]) -> None:  # noqa: ANN401
        self._driver, self._stream, self._settle = driver, stream, settle
        names = ("instances", "rows", "marks", "noise")
        self._memory = {name: DeviceMemory(driver) for name in names}
        self._maps: dict[int, tuple[StaticScene, DeviceMemory, tuple[int, ...]]] = {}
        self._lights: dict[int, _KeptLight] = {}
        self._noise: object = None
        self._room = (0, 0, 0)  # worlds, instances, rows
        self._there: list[MapLight | None] = []
        self._relight = np.zeros(0, bool)
        self._had_beams = np.zeros(0, bool)
        self.instances_at: I64 = np.zeros((0, len(INSTANCE_BYTES)), np.int64)
        """For each world where each of its arrays of instances begins."""
        self.records: I64 = np.zeros((0, COLUMN["end"]), np.int64)
        """``World`` of kernels.h, row by row; what belongs to a tick is filled in by :meth:`records_of`."""
        self.version = 0
        """Changes when something has another address, or another world has a number."""

    def close(self) -> None:
        """Give the memory back."""
        memories = [*self._memory.values(), *(kept[1] for kept in self._maps.values())]
        for memory in (*memories, *(light.memory for light in self._lights.values())):
            memory.close()
        self._maps, self._lights, self._there = {}, {}, []

    def keep(self, worlds: Sequence[PreparedScene]) -> None:
        """Bring what stays onto the card, as far as it is not there: maps, weathers, and fixed things of every world."""
        count, instances = len(worlds), max([world.instances for world in worlds])
        rows = max([world.rows for world in worlds])
        room = self._room
        grows = count > room[0] or instances > room[1] or rows > room[2]
        if not grows and all(there is world.kept for there, world in zip(self._there, worlds, strict=False)):
            return
        self._settle()
        if grows:
            # More than asked for, where it was too little: actors come and go.
            self._grow(
                max(count, room[0]), room[1] if instances <= room[1] else instances + instances // 4 + 64,
                room[2] if rows <= room[2] else rows + rows // 4,
            )  # fmt: skip
        needed = {id(world.kept) for world in worlds} | {id(world.static) for world in worlds}
        for number, world in enumerate(worlds):
            if self._there[number] is world.kept:
                continue
            # Until all is there, nothing is: an upload may fail half way.
            self._there[number] = None
            light = self._light_of(world.kept, needed)
            self._place(number, world.kept, light)
        # What was uploaded may be copies that nobody else holds.
        self._driver.finish()
        for number, world in enumerate(worlds):
            if self._there[number] is None:
                self._there[number], self._relight[number] = world.kept, True
        self.version += 1

    def records_of(self, worlds: Sequence[PreparedScene], fill: Callable[[I64], None]) -> I64:
        """The records of worlds that were just kept; ``fill`` writes what belongs to the tick.

        Fixed things keep their light, unless beams fall on them now or have just left them. What moves is always lit anew.
        """
        count = len(worlds)
        made = self.records[:count].copy()
        made[:, COLUMN["instances"]] = [world.instances for world in worlds]
        made[:, COLUMN["rows"]] = [world.rows for world in worlds]
        beams = np.array([len(world.shade.beams) for world in worlds], np.int64)
        made[:, COLUMN["beams"]] = beams
        fill(made)
        afresh = self._relight[:count] | self._had_beams[:count] | (beams > 0)
        made[afresh, COLUMN["kept"]] = 0
        self._relight[:count], self._had_beams[:count] = False, beams > 0
        return made

    def forget_light(self, count: int) -> None:
        """The light on the card is that of another tick than the last: nothing of it may be kept."""
        self._relight[:count] = True

    def _grow(self, worlds: int, instances: int, rows: int) -> None:
        """Room for so many worlds, each with so many instances and rows; nothing of what was there stays."""
        self._there, self._room = [None] * worlds, (0, 0, 0)
        all_instances = self._memory["instances"].sections([worlds * instances * each for each in INSTANCE_BYTES])
        all_rows = self._memory["rows"].sections([worlds * rows * each for each in ROW_BYTES])
        marks = LEVELS * instances
        used = self._memory["marks"].reserve(2 * worlds * marks)
        number = np.arange(worlds, dtype=np.int64)[:, None]
        self.instances_at = np.array(all_instances) + number * instances * np.array(INSTANCE_BYTES)
        self.records = np.zeros((worlds, COLUMN["end"]), np.int64)
        start = COLUMN["InstanceArrays"]
        self.records[:, start : start + len(INSTANCE_BYTES)] = self.instances_at
        start = COLUMN["FaceRows"]
        self.records[:, start : start + len(ROW_BYTES)] = np.array(all_rows) + number * rows * np.array(ROW_BYTES)
        self.records[:, COLUMN["used"]] = used + number[:, 0] * marks
        self.records[:, COLUMN["lit"]] = used + (worlds + number[:, 0]) * marks
        self._relight, self._had_beams = np.ones(worlds, bool), np.zeros(worlds, bool)
        self._room = (worlds, instances, rows)

    def _place(self, number: int, kept: MapLight, light: _KeptLight) -> None:
        """Give a world its map, its weather and its fixed things."""
        _, _, meshes_and_walls = self._maps[id(kept.static)]
        for address, array in zip(self.instances_at[number].tolist(), fitted(kept.fixed), strict=True):
            self._driver.upload(address, array, self._stream)
        record, shade = self.records[number], kept.shade
        start = COLUMN["MeshArrays"]
        record[start : start + len(MeshArrays._fields)] = meshes_and_walls[:-1]
        for name in ("flat", "sky", "noise", "lamps", "glow"):
            record[_LIGHT[name]] = light.at[name]
        record[_LIGHT["walls"]] = meshes_and_walls[-1]
        record[COLUMN["street_glow"]], record[COLUMN["sky_numbers"]] = light.at["glow"], light.at["sky_numbers"]
        record[COLUMN["lamps"]] = len(shade.lamps)
        record[COLUMN["glow_rows"]], record[COLUMN["glow_columns"]] = shade.glow.shape
        record[COLUMN["kept"]] = LEVELS * len(kept.fixed.mesh)

    def _map_of(self, static: StaticScene, needed: set[int]) -> None:
        found = self._maps.pop(id(static), None)
        if found is None:
            arrays: list[NDArray[Any]] = [*fitted(static.meshes), np.require(static.walls, "=f4", "C")]
            memory = DeviceMemory(self._driver)
            old = next((number for number in self._maps if number not in needed), None)
            if len(self._maps) >= _MAPS_MOST and old is not None:
                # Whoever had it must bring its own again.
                gone, memory, _ = self._maps.pop(old)
                self._there = [None if there is None or there.static is gone else there for there in self._there]
            found = static, memory, self._upload(memory, arrays)
        self._maps[id(static)] = found

    def _light_of(self, kept: MapLight, needed: set[int]) -> _KeptLight:
        self._map_of(kept.static, needed)
        found = self._lights.pop(id(kept), None)
        if found is None:
            memory = DeviceMemory(self._driver)
            old = next((number for number in self._lights if number not in needed), None)
            if len(self._lights) >= LIGHTS_MOST and old is not None:
                # Whoever had it must bring its own again.
                memory, gone = self._lights[old].memory, self._lights.pop(old).of
                self._there = [None if there is gone else there for there in self._there]
            found = self._painted(kept, memory)
        self._lights[id(kept)] = found
        return found

    def _painted(self, kept: MapLight, memory: DeviceMemory) -> _KeptLight:
        """Sky and street lamps' light of a weather, painted on the card."""
        shade = kept.shade
        if shade.noise is not self._noise:
            self._upload(self._memory["noise"], [np.require(shade.noise, "=u1", "C")])
            self._noise = shade.noise
        arrays = [np.require(a, f"={k}", "C") for a, k in
                  ((shade.numbers, "f8"), (kept.sky_numbers, "f8"), (shade.flat, "f4"), (shade.lamps, "f4"))]  # fmt: skip
        texels, cells = (SKY_SIZE + 1) ** 2, shade.glow.size
        places = memory.sections([*(array.nbytes for array in arrays), 4 * texels, 4 * cells])
        for place, array in zip(places, arrays, strict=False):
            self._driver.upload(place, array, self._stream)
        at = dict(zip(("numbers", "sky_numbers", "flat", "lamps", "sky", "glow"), places, strict=True))
        at["noise"] = self._memory["noise"].address
        record = np.zeros(COLUMN["end"], np.int64)
        for name in ("numbers", "flat", "sky", "noise", "lamps", "glow"):
            record[_LIGHT[name]] = at[name]
        record[COLUMN["street_glow"]], record[COLUMN["sky_numbers"]] = at["glow"], at["sky_numbers"]
        record[COLUMN["lamps"]] = len(shade.lamps)
        record[COLUMN["glow_rows"]], record[COLUMN["glow_columns"]] = shade.glow.shape
        work = record.tobytes() + bytes(WORK_REST_BYTES)
        self._driver.launch("sky", blocks_of(texels, 128), 1, 128, work, self._stream)
        self._driver.launch("streets", blocks_of(cells, 128), 1, 128, work, self._stream)
        # The arrays may be copies that nobody else holds.
        self._driver.finish()
        return _KeptLight(kept, memory, at)

    def _upload(self, memory: DeviceMemory, arrays: Sequence[NDArray[Any]]) -> tuple[int, ...]:
        places = memory.sections([array.nbytes for array in arrays])
        for place, array in zip(places, arrays, strict=True):
            self._driver.upload(place, array, self._stream)
        # The arrays may be copies that nobody else holds.
        self._driver.finish()
        return places


WORK_REST_BYTES: Final = 8 * 25
"""What follows the world in ``Work``; see :mod:`.card`."""
