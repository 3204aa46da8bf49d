"""What is drawn into: buffers of one size for some channels, kept for the next picture of that size."""

from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from samepath.sim.sensors.opengl.context import Gl
from samepath.sim.sensors.opengl.programs import channel_places
from samepath.sim.sensors.renderer import Channel

_KEPT: Final = 12


class Format(NamedTuple):
    """How a channel is kept and read: components, those that are read, moderngl's type, bytes a pixel."""

    components: int
    read: int
    dtype: str
    size: int


FORMATS: Final = MappingProxyType(
    {
        Channel.COLOUR: Format(4, 4, "f1", 4),
        Channel.DEPTH: Format(1, 1, "f4", 4),
        Channel.LABEL: Format(1, 1, "u1", 1),
        Channel.INSTANCE: Format(1, 1, "u2", 2),
        # Three components of one byte cannot be drawn into everywhere.
        Channel.NORMAL: Format(4, 3, "i1", 3),
        Channel.FLOW: Format(2, 2, "f4", 8),
    }
)


@dataclass(frozen=True, eq=False)
class Target:
    """A framebuffer and all it is made of."""

    framebuffer: Any
    parts: tuple[Any, ...]

    def release(self) -> None:
        """Give its memory back."""
        for one in (self.framebuffer, *self.parts):
            one.release()


class Targets:
    """Targets by size, channels and samples; those used last are kept."""

    def __init__(self, gl: Gl) -> None:
        self._gl = gl
        self._kept: OrderedDict[tuple[int, int, Channel, int], Target] = OrderedDict()

    def get(self, width: int, height: int, channels: Channel, samples: int = 0) -> Target:
        """A target with depth; ``samples`` above 0 smooths edges."""
        key = (width, height, channels, samples)
        if key not in self._kept:
            while len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)[1].release()
            self._kept[key] = self._made(*key)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _made(self, width: int, height: int, channels: Channel, samples: int) -> Target:
        context, size = self._gl.context, (width, height)
        layers = []
        for one in channel_places(channels):
            form = FORMATS[one]
            make = context.renderbuffer if samples else context.texture
            layers.append(make(size, form.components, samples=samples, dtype=form.dtype))
        depth = self._gl.depth_buffer(width, height, samples)
        return Target(context.framebuffer(layers, depth), (*layers, depth))

    def release(self) -> None:
        """Give all memory back."""
        for one in self._kept.values():
            one.release()
        self._kept.clear()
