"""The shaders, put together from their files for what is asked for; numbers they share with Python are handed in."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.opengl.context import VERSION
from samepath.sim.sensors.raster import lighting, sky, tones
from samepath.sim.sensors.raster.batch import CHANNELS
from samepath.sim.sensors.renderer import FAR_M, Channel

_WHOLE: Final = (
    "TO_SUN", "SUN", "ABOVE", "BELOW", "HIGH", "LOW", "FOG", "FOG_PER_M", "FOG_FROM_M", "FALLOFF", "SHADOWS", "NIGHT", "WET",
    "PUDDLES", "DARK", "BODY", "GLASS", "FOLIAGE", "FACADE", "ROAD", "PAVING", "GRASS",
)  # fmt: skip
"""Names of :mod:`..raster.lighting`: places in its table of numbers, and materials."""


def _shared() -> dict[str, str]:
    found = {name: str(int(getattr(lighting, name))) for name in _WHOLE}
    found |= {f"CURVE_{k}": repr(float(one)) for k, one in enumerate(tones.CURVE)}
    numbers = {
        "KNEE": tones.KNEE,
        "SKY_SIZE": sky.SKY_SIZE,
        "SKY_REACH": sky.REACH,
        "SHADOW_SKY": lighting.SHADOW_SKY,
        "SHADOW_SUN": lighting.SHADOW_SUN,
        "FAR_M": FAR_M,
    }
    found |= {name: repr(float(value)) for name, value in numbers.items()}
    found |= {"SKY_LABEL": str(int(Label.SKY)), "SIGNAL": f"{lighting.SIGNAL}u", "NUMBERS_4": str(-(-lighting.NUMBERS // 4))}
    # What a vertex tells of its face beside label and material: a lamp that burns, a signal's lamp that does not.
    return found | {"BURNS": "65536u", "OUT": "131072u"}


@cache
def _text(name: str) -> str:
    return (resources.files("samepath.sim.sensors.opengl") / "shaders" / name).read_text("utf-8")


def source(defines: Mapping[str, str], *names: str) -> str:
    """A shader made of files, after the numbers they share."""
    lines = [f"#version {VERSION} core", *(f"#define {name} {value}" for name, value in (_shared() | dict(defines)).items())]
    return "\n".join(lines) + "\n" + "\n".join(_text(name) for name in names)


def channel_places(channels: Channel) -> dict[Channel, int]:
    """Where each channel is written to, in the order of a batch."""
    return {one: k for k, one in enumerate(one for one in CHANNELS if channels & one)}


def channel_defines(channels: Channel, *, shadows: bool) -> dict[str, str]:
    """The channels a shader writes, by their places."""
    found = {f"{one.name}_AT": str(k) for one, k in channel_places(channels).items()}
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
