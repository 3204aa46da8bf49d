"""The narrow interface to the back ends: a scene and cameras in, frames out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from importlib import import_module
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import SimulatorError
from samepath.base.suggest import unknown
from samepath.base.trig import sincos_deg
from samepath.sim.sensors.scene import Scene
from samepath.sim.world.records import Pose

FAR_M: Final = 1000.0
"""The depth of the sky, and the largest of anything: CARLA's 24 bits end here."""
NEAR_M: Final = 0.05
"""Nothing nearer than this is seen."""


class Channel(IntFlag):
    """What a frame holds."""

    COLOUR = 1
    DEPTH = 2
    LABEL = 4
    INSTANCE = 8
    NORMAL = 16
    FLOW = 32


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera: x of the pose looks along the optical axis; ``fov_deg`` is horizontal.

    A point (x, y, z) of the camera's frame is seen at column ``width / 2 + focal_px * y / x`` and row
    ``height / 2 - focal_px * z / x``; the middle of the first pixel is (0.5, 0.5). ``was`` is the pose one frame earlier, for
    the optical flow. ``vignette`` darkens the corners, ``samples`` squared rays give one pixel of colour.
    """

    pose: Pose
    width: int
    height: int
    fov_deg: float
    channels: Channel = Channel.COLOUR | Channel.DEPTH | Channel.LABEL
    was: Pose | None = None
    samples: int = 1
    vignette: float = 0.0

    @property
    def focal_px(self) -> float:
        """The focal length in pixels."""
        sine, cosine = sincos_deg(self.fov_deg / 2)
        return 0.5 * self.width * cosine / sine


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """What a camera saw; None for channels it was not asked for.

    ``bgra`` u8[h, w, 4]; ``depth_m`` f32[h, w] along the optical axis, at most ``FAR_M``; ``label`` u8[h, w]; ``instance``
    u16[h, w] (an actor's id modulo 65536; static things count down from 65535; 0: sky); ``normal`` i8[h, w, 3]: the outward
    normal in the world times 127, 0 for the sky; ``flow`` f32[h, w, 2]: motion since the frame before, in half widths to the
    right and half heights up.
    """

    camera: Camera
    bgra: NDArray[np.uint8] | None = None
    depth_m: NDArray[np.float32] | None = None
    label: NDArray[np.uint8] | None = None
    instance: NDArray[np.uint16] | None = None
    normal: NDArray[np.int8] | None = None
    flow: NDArray[np.float32] | None = None


class Renderer(Protocol):
    """A back end. Equal scenes and cameras give equal frames, as far as the back end promises.

    ``facts`` are what its pictures depend on beside scene and cameras, such as a driver's version; none where that is nothing.
    """

    name: str
    facts: Mapping[str, str]

    def render(self, scene: Scene, cameras: Sequence[Camera], out: Sequence[Frame] | None = None) -> tuple[Frame, ...]:
        """Draw all cameras; ``out`` are earlier frames of the same sizes and channels whose arrays may be written over."""
        ...

    def close(self) -> None:
        """Let go of threads, contexts and memory."""
        ...


RENDERERS: Final = MappingProxyType(
    {
        "software": "samepath.sim.sensors.raster.software:SoftwareRenderer",
        "opengl": "samepath.sim.sensors.opengl.renderer:OpenGLRenderer",
    }
)

EXTRAS: Final = MappingProxyType({"software": "sensors", "opengl": "opengl"})
"""Which extra of samepath brings what a back end needs."""


def check_renderer(name: str) -> str:
    """Refuse a name that no back end has."""
    if name not in RENDERERS:
        raise unknown("renderer", name, RENDERERS)
    return name


def create_renderer(name: str = "software", **options: object) -> Renderer:
    """Make the back end called ``name``; it is never exchanged for another one silently."""
    module, _, attribute = RENDERERS[check_renderer(name)].partition(":")
    try:
        made: Renderer = getattr(import_module(module), attribute)(**options)
    except ModuleNotFoundError as error:
        extra = EXTRAS[name]
        raise SimulatorError(f"renderer {name!r} needs {error.name}: pip install 'samepath[{extra}]'") from None
    return made
