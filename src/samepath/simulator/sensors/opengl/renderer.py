"""The renderer: many cameras in one call; pictures are fetched only when all of them are drawn, as fetching waits for the GPU.

One lock around the context: OpenGL has one current context per thread, and a context belongs to one thread at a time.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.simulator.sensors.images import IMAGES, numbers_for, with_images
from samepath.simulator.sensors.opengl import records
from samepath.simulator.sensors.opengl.context import (
    GlContext,
    channel_places,
    give,
    open_gl,
    shadow_sources,
    shrink_sources,
    sources,
)
from samepath.simulator.sensors.opengl.records import SunShadowMaps, sun_shadow_maps
from samepath.simulator.sensors.raster.arrays import CHANNELS, CameraArrays, FrameBatch, InstanceArrays, LightArrays, layout_of
from samepath.simulator.sensors.raster.pixels import finish
from samepath.simulator.sensors.raster.prepare import (
    PreparedScene,
    ScenePreparer,
    StaticScene,
    camera_arrays_of,
    levels_of,
    visible_instances,
)
from samepath.simulator.sensors.raster.shading import RAIN, SHADOWS, SKY_SIZE, TICK, TILE, TO_SUN
from samepath.simulator.sensors.renderer import Camera, CameraFrame, Channel, RenderScene

# Bindings of the buffers that shaders read.
FACES, THINGS, DRAWS, LAMPS, WALLS = range(5)
_VIEW, _NUMBERS = range(2)
UNITS: Final[Mapping[str, int]] = {"sky": 0, "noise": 1, "near_shadow": 2, "far_shadow": 3}


class GpuBuffer:
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


class GpuMemory:
    """Buffers and textures of one renderer."""

    def __init__(self, gl: GlContext, shadow_texels: int) -> None:
        context = gl.context
        self._context = context
        self._static: StaticScene | None = None
        self._sky: object = None
        self.stores = [GpuBuffer(context) for _ in range(5)]
        self.vertices, self.commands, self.draw_numbers = GpuBuffer(context), GpuBuffer(context), GpuBuffer(context)
        self.views, self._numbers = GpuBuffer(context), GpuBuffer(context)
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

    def write_scene(self, prepared: PreparedScene) -> None:
        """Write a scene: meshes once per map, sky and noise once per weather, the rest at every tick."""
        static, shade = prepared.static, prepared.shade
        if static is not self._static:
            self._static = static
            self.vertices.write(records.vertices_of(static.shapes))
            self.stores[FACES].write(records.faces_of(static.shapes))
            self.stores[WALLS].write(static.walls)
        if shade.sky is not self._sky:
            self._write_weather(shade)
        numbers = np.zeros(-(-len(shade.numbers) // 4) * 4, np.float32)
        numbers[: len(shade.numbers)] = shade.numbers
        self._numbers.write(numbers)
        self.stores[THINGS].write(records.things_of(prepared.placed))

    def _write_weather(self, shade: LightArrays) -> None:
        self._sky = shade.sky
        self._sky_texture.write(shade.sky.view(np.uint8))
        self._noise.write(np.ascontiguousarray(shade.noise))

    def write_draws(self, batch: records.DrawBatch) -> None:
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


# How many render targets are kept for the next picture of the same size and channels.
_KEPT: Final = 12


class ChannelFormat(NamedTuple):
    """How a channel is kept and read: components, those that are read, moderngl's type, bytes a pixel."""

    components: int
    read: int
    dtype: str
    size: int


FORMATS: Final = MappingProxyType(
    {
        Channel.COLOUR: ChannelFormat(4, 4, "f1", 4),
        Channel.DEPTH: ChannelFormat(1, 1, "f4", 4),
        Channel.LABEL: ChannelFormat(1, 1, "u1", 1),
        Channel.INSTANCE: ChannelFormat(1, 1, "u2", 2),
        # Three components of one byte cannot be drawn into everywhere.
        Channel.NORMAL: ChannelFormat(4, 3, "i1", 3),
        Channel.FLOW: ChannelFormat(2, 2, "f4", 8),
    }
)


@dataclass(frozen=True, eq=False)
class RenderTarget:
    """A framebuffer and all it is made of."""

    framebuffer: Any
    parts: tuple[Any, ...]

    def release(self) -> None:
        """Give its memory back."""
        for part in (self.framebuffer, *self.parts):
            part.release()


class RenderTargets:
    """RenderTargets by size, channels and samples; those used last are kept."""

    def __init__(self, gl: GlContext) -> None:
        self._gl = gl
        self._kept: OrderedDict[tuple[int, int, Channel, int], RenderTarget] = OrderedDict()

    def get(self, width: int, height: int, channels: Channel, samples: int = 0) -> RenderTarget:
        """A target with depth; ``samples`` above 0 smooths edges."""
        key = (width, height, channels, samples)
        if key not in self._kept:
            while len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)[1].release()
            self._kept[key] = self._made(*key)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _made(self, width: int, height: int, channels: Channel, samples: int) -> RenderTarget:
        context, size = self._gl.context, (width, height)
        layers = []
        for channel in channel_places(channels):
            form = FORMATS[channel]
            make = context.renderbuffer if samples else context.texture
            layers.append(make(size, form.components, samples=samples, dtype=form.dtype))
        depth = self._gl.depth_buffer(width, height, samples)
        return RenderTarget(context.framebuffer(layers, depth), (*layers, depth))

    def release(self) -> None:
        """Give all memory back."""
        for target in self._kept.values():
            target.release()
        self._kept.clear()


_SHADOW_TEXELS: Final = 2048
_OFFSET: Final = (2.0, 2.0)
"""How far the sun's view is pushed away from it, in slopes and steps of depth: nothing shades itself."""


class OpenGLRenderer:
    """Draws through EGL.

    ``msaa`` samples smooth the edges of colours (1: none), beside what a camera's own ``samples`` ask for; ``shadows`` fall on
    everything; ``detail`` 0 draws far things as finely as near ones; ``device`` is the number of an EGL device.
    """

    name = "opengl"

    def __init__(self, msaa: int = 4, detail: float = 1.0, device: int | None = None, *, shadows: bool = True) -> None:
        self._gl = open_gl(device)
        self._context = self._gl.context
        self._msaa, self._detail, self._shadows = msaa, detail, shadows
        self._lock = threading.Lock()
        self._preparer = ScenePreparer()
        self._levels: tuple[StaticScene, np.ndarray] | None = None
        self._programs: dict[tuple[Channel, bool], dict[str, Any]] = {}
        self._arrays: dict[int, tuple[object, Any]] = {}
        with self._context:
            if not 1 <= msaa <= self._context.max_samples:
                most = self._context.max_samples
                raise InputError(f"1 to {most} samples were wanted for the edges of colours on this device, but {msaa} came")
            self._side_px_max = int(self._context.info["GL_MAX_TEXTURE_SIZE"])
            self.facts: Mapping[str, str] = {**self._gl.info, "msaa": str(msaa), "shadows": str(shadows).lower()}
            self._gpu = GpuMemory(self._gl, _SHADOW_TEXELS if shadows else 0)
            self._targets = RenderTargets(self._gl)
            self._pictures = {channel: GpuBuffer(self._context) for channel in FORMATS}
            self._shadow_program = self._program(*shadow_sources())
            self._shrink_program = self._program(*shrink_sources())
            self._gl.depth_runs_from_zero_to_one()
            self._context.front_face, self._context.cull_face, self._context.multisample = "ccw", "back", True

    def close(self) -> None:
        """Close the context, and with it everything in the GPU's memory."""
        with self._lock:
            self._context.release()

    def render(
        self, scene: RenderScene, cameras: Sequence[Camera], out: Sequence[CameraFrame] | None = None
    ) -> Sequence[CameraFrame]:
        """Draw all cameras."""
        if any(camera.channels & IMAGES for camera in cameras):
            return with_images(self.render(scene, numbers_for(cameras)), cameras)
        batch = out if isinstance(out, FrameBatch) and out.layout == layout_of(cameras) else FrameBatch(cameras)
        batch.cameras = cameras
        if not cameras:
            return batch
        views = camera_arrays_of(cameras, batch.offsets)
        side = int((views.size[:, :2] * views.size[:, 2:]).max())
        if side > self._side_px_max:
            raise InputError(f"pictures of at most {self._side_px_max} pixels a side were wanted here, but {side} came")
        with self._lock, self._context:
            prepared = self._preparer.prepare(scene)
            self._draw(prepared, views, batch)
        numbers = prepared.shade.numbers
        for c, camera in enumerate(cameras):
            if camera.channels & Channel.COLOUR:
                finish(
                    batch.arrays.colour, int(batch.offsets[c, 0]), camera.width, camera.height, float(numbers[RAIN]),
                    int(numbers[TICK]), prepared.shade.noise, float(camera.vignette),
                )  # fmt: skip
        return batch

    def _draw(self, prepared: PreparedScene, views: CameraArrays, batch: FrameBatch) -> None:
        static, shade, placed = prepared.static, prepared.shade, prepared.placed
        seen, _ = visible_instances(views, static, placed, self._detail)
        parts = records.seen_parts(seen, placed, self._levels_of(static))
        sunlight = self._sunlight(prepared, views) if self._shadows and shade.numbers[SHADOWS] > 0.0 else []
        for c, light in enumerate(sunlight):
            parts.extend(records.DrawList(c, things.astype(np.int32), placed.mesh[things]) for things in light.casters)
        draws = records.batch_of(parts, views, placed, static.shapes.first_face)
        lamps, lamp_counts = records.lamps_of(views, np.concatenate([shade.lamps, shade.beams]))
        gpu, count = self._gpu, len(views.focal)
        gpu.write_scene(prepared)
        gpu.write_draws(draws)
        gpu.stores[LAMPS].write(lamps)
        gpu.views.write(records.views_of(views, lamp_counts, sunlight))
        gpu.bind()
        for k, channel in enumerate(CHANNELS):
            used = batch.offsets[:, k] >= 0
            if used.any():
                self._pictures[channel].reserve(FORMATS[channel].size * int((views.size[used, 0] * views.size[used, 1]).sum()))
        for c, camera in enumerate(batch.cameras):
            gpu.look_from(c)
            has_colour = bool(camera.channels & Channel.COLOUR)
            if has_colour and sunlight:
                for far in (False, True):
                    self._draw_shadow_map(draws.first, count + 2 * c + far, far=far)
            apart = has_colour and (self._msaa > 1 or camera.samples > 1)
            measured = camera.channels & ~Channel.COLOUR if apart else camera.channels
            if measured:
                target = self._targets.get(camera.width, camera.height, measured)
                self._draw_view(target, c, measured, draws.first)
                self._fetch(target, measured, batch, c)
            if apart:
                self._fetch(self._draw_smooth(camera, c, draws.first), Channel.COLOUR, batch, c)
        self._collect(batch)

    def _levels_of(self, static: StaticScene) -> np.ndarray:
        if self._levels is None or self._levels[0] is not static:
            self._levels = static, levels_of(static.shapes)
        return self._levels[1]

    def _sunlight(self, prepared: PreparedScene, views: CameraArrays) -> list[SunShadowMaps]:
        """The maps of every camera; those who see no colour need none, but keep their place."""
        static, shade, placed = prepared.static, prepared.shade, prepared.placed
        casting = np.flatnonzero(_throws_shadow(static, placed))
        middles, radii = records.world_spheres(static.meshes, placed)
        to_sun = shade.numbers[TO_SUN : TO_SUN + 3]
        found = []
        for c, place in enumerate(views.place):
            some = casting if views.offset[c, 0] >= 0 else casting[:0]
            light = sun_shadow_maps(to_sun, place, views.axes[c, 0], middles[some], radii[some], _SHADOW_TEXELS)
            near, far = (some[casters] for casters in light.casters)
            found.append(SunShadowMaps(light.axes, light.reaches_m, light.areas, (near, far)))
        return found

    def _draw_shadow_map(self, first: list[int], part: int, *, far: bool) -> None:
        context, target = self._context, self._gpu.shadow_maps[far]
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE)
        context.depth_func, context.polygon_offset = "<=", _OFFSET
        target.use()
        target.clear(depth=1.0)
        give(self._shadow_program, is_far=far)
        self._render(self._shadow_program, first, part)
        context.polygon_offset = 0.0, 0.0

    def _draw_view(self, target: RenderTarget, c: int, channels: Channel, first: list[int]) -> None:
        context, programs = self._context, self._programs_for(channels)
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE)
        context.depth_func = ">"
        target.framebuffer.use()
        target.framebuffer.clear(depth=0.0)
        self._render(programs["scene"], first, c)
        context.depth_func = ">="
        self._over_all(programs["sky"])

    def _draw_smooth(self, camera: Camera, c: int, first: list[int]) -> RenderTarget:
        """Colours drawn finer than they are wanted, and mixed."""
        width, height = camera.width * camera.samples, camera.height * camera.samples
        target = self._targets.get(width, height, Channel.COLOUR, self._msaa if self._msaa > 1 else 0)
        self._draw_view(target, c, Channel.COLOUR, first)
        if self._msaa > 1:
            mixed = self._targets.get(width, height, Channel.COLOUR)
            self._context.copy_framebuffer(mixed.framebuffer, target.framebuffer)
            target = mixed
        if camera.samples == 1:
            return target
        small = self._targets.get(camera.width, camera.height, Channel.COLOUR)
        target.parts[0].use(len(UNITS))
        give(self._shrink_program, fine=len(UNITS), samples=camera.samples)
        self._context.enable_only(self._context.NOTHING)
        small.framebuffer.use()
        self._over_all(self._shrink_program)
        return small

    def _fetch(self, target: RenderTarget, channels: Channel, batch: FrameBatch, c: int) -> None:
        """Ask for a picture; it is on its way while the next one is drawn."""
        for channel, attachment in channel_places(channels).items():
            form, start = FORMATS[channel], int(batch.offsets[c, CHANNELS.index(channel)])
            target.framebuffer.read_into(
                self._pictures[channel].buffer, components=form.read, attachment=attachment, alignment=1, dtype=form.dtype,
                write_offset=form.size * start,
            )  # fmt: skip

    def _collect(self, batch: FrameBatch) -> None:
        arrays: tuple[NDArray[Any], ...] = batch.arrays
        for channel, array in zip(CHANNELS, arrays, strict=True):
            if len(array):
                content = array.view(np.uint8)
                self._pictures[channel].buffer.read_into(content, size=content.nbytes)

    def _program(self, vertex: str, fragment: str) -> Any:  # noqa: ANN401 - moderngl's own
        return self._context.program(vertex_shader=vertex, fragment_shader=fragment)

    def _programs_for(self, channels: Channel) -> dict[str, Any]:
        key = (channels, self._shadows)
        if key not in self._programs:
            made = {name: self._program(*texts) for name, texts in sources(channels, shadows=self._shadows).items()}
            for program in made.values():
                give(program, **UNITS)
            self._programs[key] = made
        return self._programs[key]

    def _render(self, program: Any, first: list[int], part: int) -> None:  # noqa: ANN401 - moderngl's own
        """Draw one part of a batch."""
        count = first[part + 1] - first[part]
        if not count:
            return
        gpu = self._gpu
        version, array = self._arrays.get(program.glo, (None, None))
        if version != gpu.version:
            if array is not None:
                array.release()
            # A driver leaves out what a shader does not use: some channels need no face.
            form = ("3f 1u", "place", "face") if "face" in program else ("3f 4x", "place")
            content = [(gpu.vertices.buffer, *form), (gpu.draw_numbers.buffer, "1u/i", "draw")]
            array = self._context.vertex_array(program, content)
            self._arrays[program.glo] = gpu.version, array
        array.render_indirect(gpu.commands.buffer, self._context.TRIANGLES, count, first[part])

    def _over_all(self, program: Any) -> None:  # noqa: ANN401 - moderngl's own
        _, array = self._arrays.get(program.glo, (None, None))
        if array is None:
            array = self._context.vertex_array(program, [])
            self._arrays[program.glo] = None, array
        array.render(self._context.TRIANGLES, vertices=3)


def _throws_shadow(static: StaticScene, placed: InstanceArrays) -> np.ndarray:
    thrown: np.ndarray = static.shapes.shadow[placed.mesh] >= 0
    return thrown
