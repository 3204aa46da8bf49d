"""What lies in the GPU's memory: the scene, the light, the draws of a call, the sun's maps, and pictures on their way back."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.sim.sensors.opengl import records
from samepath.sim.sensors.opengl.context import Gl
from samepath.sim.sensors.raster.arrays import Shade
from samepath.sim.sensors.raster.prepare import Prepared
from samepath.sim.sensors.raster.sky import SKY_SIZE
from samepath.sim.sensors.raster.stage import Stage
from samepath.sim.sensors.raster.texture import TILE

FACES, THINGS, DRAWS, LAMPS, WALLS = range(5)
_VIEW, _NUMBERS = range(2)
UNITS: Final[Mapping[str, int]] = {"sky": 0, "noise": 1, "near_shadow": 2, "far_shadow": 3}


class Store:
    """A buffer that grows with what is written to it; ``version`` counts the buffers it has been."""

    def __init__(self, context: Any) -> None:  # noqa: ANN401 - moderngl's own
        self._context = context
        self.buffer: Any = None
        self.version = 0

    def reserve(self, size: int) -> None:
        """Make sure there is room for so many bytes."""
        if self.buffer is None or self.buffer.size < size:
            if self.buffer is not None:
                self.buffer.release()
            self.buffer = self._context.buffer(reserve=max(size + size // 2, 64))
            self.version += 1

    def write(self, values: NDArray[Any]) -> None:
        """Write an array from the beginning; what the GPU still reads of the one before is not touched."""
        content = np.ascontiguousarray(values)
        self.reserve(content.nbytes)
        self.buffer.orphan()
        if content.nbytes:
            self.buffer.write(content.view(np.uint8).reshape(-1))


class Gpu:
    """Buffers and textures of one renderer."""

    def __init__(self, gl: Gl, shadow_texels: int) -> None:
        context = gl.context
        self._context = context
        self._stage: Stage | None = None
        self._sky: object = None
        self.stores = [Store(context) for _ in range(5)]
        self.vertices, self.commands, self.draw_numbers = Store(context), Store(context), Store(context)
        self.views, self._numbers = Store(context), Store(context)
        self._sky_texture = context.texture((SKY_SIZE + 1, SKY_SIZE + 1), 4)
        self._noise = context.texture((TILE, 3 * TILE), 1, dtype="u1")
        self._sky_texture.repeat_x = self._sky_texture.repeat_y = False
        self._noise.filter = context.NEAREST, context.NEAREST
        self._textures = {"sky": self._sky_texture, "noise": self._noise}
        self.shadow_maps = []
        for name in ("near_shadow", "far_shadow") if shadow_texels else ():
            map_ = context.depth_texture((shadow_texels, shadow_texels))
            map_.repeat_x = map_.repeat_y = False
            map_.compare_func, map_.filter = "<=", (context.LINEAR, context.LINEAR)
            self._textures[name] = map_
            self.shadow_maps.append(context.framebuffer(depth_attachment=map_))

    @property
    def version(self) -> tuple[int, int]:
        """Changes when arrays of vertices must be set up anew."""
        return self.vertices.version, self.draw_numbers.version

    def write_scene(self, prepared: Prepared) -> None:
        """Write a scene: meshes once per map, sky and noise once per weather, the rest at every tick."""
        stage, shade = prepared.stage, prepared.shade
        if stage is not self._stage:
            self._stage = stage
            self.vertices.write(records.vertices_of(stage.shapes))
            self.stores[FACES].write(records.faces_of(stage.shapes))
            self.stores[WALLS].write(stage.walls)
        if shade.sky is not self._sky:
            self._write_weather(shade)
        numbers = np.zeros(-(-len(shade.numbers) // 4) * 4, np.float32)
        numbers[: len(shade.numbers)] = shade.numbers
        self._numbers.write(numbers)
        self.stores[THINGS].write(records.things_of(prepared.placed))

    def _write_weather(self, shade: Shade) -> None:
        self._sky = shade.sky
        self._sky_texture.write(shade.sky.view(np.uint8))
        self._noise.write(np.ascontiguousarray(shade.noise))

    def write_draws(self, batch: records.Batch) -> None:
        """Write the draws of a call."""
        self.stores[DRAWS].write(batch.draws)
        self.commands.write(batch.commands)
        if self.draw_numbers.buffer is None or self.draw_numbers.buffer.size < 4 * len(batch.draws):
            self.draw_numbers.reserve(4 * len(batch.draws))
            self.draw_numbers.buffer.write(np.arange(self.draw_numbers.buffer.size // 4, dtype=np.uint32))

    def bind(self) -> None:
        """Make everything visible to shaders."""
        for binding, store in enumerate(self.stores):
            store.buffer.bind_to_storage_buffer(binding)
        self._numbers.buffer.bind_to_uniform_block(_NUMBERS)
        for name, texture in self._textures.items():
            texture.use(UNITS[name])

    def look_from(self, c: int) -> None:
        """Choose the camera that shaders see with."""
        size = records.VIEW.itemsize
        self.views.buffer.bind_to_uniform_block(_VIEW, offset=c * size, size=size)
