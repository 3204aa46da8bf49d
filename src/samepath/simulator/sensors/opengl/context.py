"""Opening OpenGL through EGL, without a display (a GPU where there is one, else Mesa on the CPU), and the shaders.

Shaders are put together from their files for the channels that are asked for; numbers they share with Python are handed in as
defines, so that each is written down once.
"""

import ctypes
import os
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from samepath.core.errors import InputError, SimulatorError
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.raster import shading
from samepath.simulator.sensors.raster.arrays import CHANNELS
from samepath.simulator.sensors.renderer import FAR_M, Channel

DEVICE_VARIABLE: Final = "SAMEPATH_GL_DEVICE"
VERSION: Final = 450
_DEVICES_MAX: Final = 64
_ON_CPU: Final = ("llvmpipe", "softpipe", "swrast", "software")
_INSTALL: Final = "install a GPU's driver with EGL, or Mesa (Debian: apt-get install libegl1 libgl1 libgl1-mesa-dri)"
_LOWER_LEFT, _ZERO_TO_ONE, _DEPTH_32F = 0x8CA1, 0x935F, 0x8CAC


@dataclass(frozen=True, eq=False)
class GlContext:
    """An open context and the two calls that moderngl does not have; they work while the context is current."""

    context: Any
    device: int
    _clip_control: Any
    _renderbuffer_storage: Any

    @property
    def info(self) -> dict[str, str]:
        """Who draws: vendor, renderer and version as the driver names them."""
        names = {"gl_vendor": "GL_VENDOR", "gl_renderer": "GL_RENDERER", "gl_version": "GL_VERSION"}
        return {name: str(self.context.info[key]) for name, key in names.items()}

    def depth_runs_from_zero_to_one(self) -> None:
        """Keep depth as it comes: floats near zero are the finest, and the far away lies there."""
        self._clip_control(_LOWER_LEFT, _ZERO_TO_ONE)

    def depth_buffer(self, width: int, height: int, samples: int) -> Any:  # noqa: ANN401 - moderngl's own
        """A buffer of depths in 32 bits of floating point; moderngl's own have 24 bits of fixed point."""
        made = self.context.depth_renderbuffer((width, height), samples=samples)
        self._renderbuffer_storage(made.glo, samples, _DEPTH_32F, width, height)
        return made


def open_gl(device: int | None = None) -> GlContext:
    """Open the EGL device of that number; without one, that of the environment, or the first GPU, or the first of all."""
    import moderngl

    # glcontext, which moderngl opens contexts with, lets the user name the libraries.
    egl, gl = (os.environ.get(f"GLCONTEXT_LINUX_LIB{name}") or find_library(name) for name in ("EGL", "GL"))
    if egl is None or gl is None:
        raise SimulatorError(f"renderer 'opengl' needs libEGL and libGL, which are not installed: {_INSTALL}")
    wanted = _asked_for() if device is None else device
    context, number = _open(moderngl, wanted) if wanted is not None else _first_gpu(moderngl)
    find = ctypes.CDLL(egl).eglGetProcAddress
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    unsigned, signed = ctypes.c_uint, ctypes.c_int
    with context:
        clip = ctypes.CFUNCTYPE(None, unsigned, unsigned)(find(b"glClipControl"))
        storage = ctypes.CFUNCTYPE(None, unsigned, signed, unsigned, signed, signed)(
            find(b"glNamedRenderbufferStorageMultisample")
        )
    return GlContext(context, number, clip, storage)


def _asked_for() -> int | None:
    text = os.environ.get(DEVICE_VARIABLE)
    if not text:
        return None
    if not text.isdecimal():
        raise InputError(f"{DEVICE_VARIABLE}: the number of an EGL device was wanted, such as 0, but {text!r} came")
    return int(text)


def _open(moderngl: Any, device: int) -> tuple[Any, int]:  # noqa: ANN401 - imported where it is used
    try:
        return moderngl.create_context(require=VERSION, standalone=True, backend="egl", device_index=device), device
    # Whatever a driver or its loader says, in whatever class: it is one line for the user.
    except Exception as error:
        said = " ".join(str(error).split())[:120] or type(error).__name__
        wanted = f"OpenGL {VERSION / 100:.1f} on EGL device {device}"
        raise SimulatorError(f"renderer 'opengl' wanted {wanted}, but none came ({said}): {_INSTALL}") from error


def _first_gpu(moderngl: Any) -> tuple[Any, int]:  # noqa: ANN401 - imported where it is used
    """The first device that is no CPU, else the first that works."""
    spare: tuple[Any, int] | None = None
    first_error: SimulatorError | None = None
    for number in range(_DEVICES_MAX):
        try:
            context, _ = _open(moderngl, number)
        except SimulatorError as error:
            first_error = first_error or error
            if "but found" in str(error.__cause__):  # there are no more
                break
            continue
        if not is_on_cpu(str(context.info["GL_RENDERER"])):
            if spare is not None:
                spare[0].release()
            return context, number
        if spare is None:
            spare = context, number
        else:
            context.release()
    if spare is not None:
        return spare
    raise first_error or SimulatorError(f"renderer 'opengl' found no EGL device: {_INSTALL}")


def is_on_cpu(renderer: str) -> bool:
    """Does the driver of that name draw on the processor?"""
    return any(name in renderer.lower() for name in _ON_CPU)


_WHOLE: Final = (
    "TO_SUN", "SUN", "ABOVE", "BELOW", "HIGH", "LOW", "FOG", "FOG_PER_M", "FOG_FROM_M", "FALLOFF", "SHADOWS", "NIGHT", "WET",
    "PUDDLES", "DARK", "BODY", "GLASS", "FOLIAGE", "FACADE", "ROAD", "PAVING", "GRASS",
)  # fmt: skip
"""Names of :mod:`samepath.simulator.sensors.raster.shading`: places in its table of numbers, and materials."""


def _shared() -> dict[str, str]:
    found = {name: str(int(getattr(shading, name))) for name in _WHOLE}
    found |= {f"CURVE_{k}": repr(float(factor)) for k, factor in enumerate(shading.CURVE)}
    numbers = {
        "KNEE": shading.KNEE,
        "SKY_SIZE": shading.SKY_SIZE,
        "SKY_REACH": shading.REACH,
        "SHADOW_SKY": shading.SHADOW_SKY,
        "SHADOW_SUN": shading.SHADOW_SUN,
        "FAR_M": FAR_M,
    }
    found |= {name: repr(float(value)) for name, value in numbers.items()}
    found |= {"SKY_LABEL": str(int(Label.SKY)), "SIGNAL": f"{shading.SIGNAL}u", "NUMBERS_4": str(-(-shading.NUMBERS // 4))}
    # What a vertex tells of its face beside label and material: a lamp that burns, a signal's lamp that does not.
    return found | {"BURNS": "65536u", "OUT": "131072u"}


@cache
def _text(name: str) -> str:
    return (resources.files("samepath.simulator.sensors.opengl") / "shaders" / name).read_text("utf-8")


def source(defines: Mapping[str, str], *names: str) -> str:
    """A shader made of files, after the numbers they share."""
    lines = [f"#version {VERSION} core", *(f"#define {name} {value}" for name, value in (_shared() | dict(defines)).items())]
    return "\n".join(lines) + "\n" + "\n".join(_text(name) for name in names)


def channel_places(channels: Channel) -> dict[Channel, int]:
    """Where each channel is written to, in the order of a batch."""
    return {channel: k for k, channel in enumerate(channel for channel in CHANNELS if channels & channel)}


def channel_defines(channels: Channel, *, shadows: bool) -> dict[str, str]:
    """The channels a shader writes, by their places."""
    found = {f"{channel.name}_AT": str(k) for channel, k in channel_places(channels).items()}
    return found | ({"SHADOW_MAPS": "1"} if shadows and channels & Channel.COLOUR else {})


def sources(channels: Channel, *, shadows: bool) -> dict[str, tuple[str, str]]:
    """Vertex and fragment shaders for pictures of some channels."""
    defines = channel_defines(channels, shadows=shadows)
    paint = ("light.glsl", "paint.glsl") if channels & Channel.COLOUR else ()
    return {
        "scene": (
            source(defines, "common.glsl", "scene.vert"),
            source(defines, "common.glsl", "outputs.glsl", *paint, "scene.frag"),
        ),
        "sky": (
            source(defines, "common.glsl", "screen.vert"),
            source(defines, "common.glsl", "outputs.glsl", *paint[:1], "sky.frag"),
        ),
    }


def shadow_sources() -> tuple[str, str]:
    """Shaders for the sun's view."""
    return source({}, "common.glsl", "shadow.vert"), source({}, "shadow.frag")


def shrink_sources() -> tuple[str, str]:
    """Shaders that make a picture from a finer one."""
    return source({}, "screen.vert"), source({}, "shrink.frag")


def give(program: Any, **values: object) -> None:  # noqa: ANN401 - moderngl's own
    """Set uniforms; a shader may have been built without some of them."""
    for name, value in values.items():
        if name in program:
            program[name].value = value
