"""The narrow interface to the back ends: a scene and cameras in, frames out. All records are frozen, arrays are read-only.

CARLA's frame everywhere: x forward, y right, z up, left-handed, metres. Winding: for every face (a, b, c) the cross product
(b - a) x (c - a), computed from the coordinates as plain numbers, points outwards. Faces seen from behind are not drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, SimulatorError, unknown
from samepath.core.states import Pose
from samepath.core.trig import sincos_deg
from samepath.simulator.sensors.weather import SceneWeather

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]


class Material(IntEnum):
    """How a face takes the light. What lies flat (``ROAD`` .. ``PAINT``) also takes shadows and the light of lamps."""

    PLAIN = 0  # its colour
    BODY = 1  # its colour times the paint of its instance
    GLASS = 2  # mirrors the sky
    FOLIAGE = 3  # mottled
    FACADE = 4  # a wall with windows, see Shapes.mapping
    ROAD = 5
    PAVING = 6
    GRASS = 7
    PAINT = 8


FLAT_FROM = Material.ROAD


class Lamp(IntFlag):
    """Which lamps of an instance burn. The first eleven are CARLA's VehicleLightState; the others are those of signals."""

    POSITION = 1
    LOW_BEAM = 2
    HIGH_BEAM = 4
    BRAKE = 8
    RIGHT_BLINKER = 16
    LEFT_BLINKER = 32
    REVERSE = 64
    FOG = 128
    INTERIOR = 256
    SPECIAL_1 = 512
    SPECIAL_2 = 1024
    RED = 2048
    YELLOW = 4096
    GREEN = 8192
    STREET = 16384


NO_LAMPS = Lamp(0)


@dataclass(frozen=True, eq=False, slots=True)
class Shapes:
    """All meshes of a scene, one after the other, each in its own frame.

    ``vertices`` f32[v, 3]; ``faces`` i32[f, 3] into them; for each face its outward unit ``normals`` f32[f, 3], linear
    ``colours`` f32[f, 3] (0..1), ``labels`` u8[f], ``materials`` u8[f], ``lamps`` u16[f] (glows while one of these burns)
    and ``mappings`` i32[f] (row of ``mapping``, -1: none).
    ``mapping`` f32[k, 8]: u = x, y, z, 1 times columns 0..3 and v with columns 4..7 count windows along and storeys up a wall.
    Mesh ``m`` has vertices ``first_vertex[m]`` up to ``first_vertex[m + 1]`` and faces likewise, and lies inside the sphere of
    ``radius[m]`` about ``centre[m]``. Seen smaller than ``coarser_px[m]`` pixels in radius, ``coarser[m]`` may be drawn for it
    (-1: never); ``shadow[m]`` is the mesh that casts its shadow (-1: none).
    """

    vertices: F32
    faces: I32
    normals: F32
    colours: F32
    labels: U8
    materials: U8
    lamps: U16
    mappings: I32
    mapping: F32
    first_vertex: I32
    first_face: I32
    centre: F32
    radius: F32
    coarser: I32
    coarser_px: F32
    shadow: I32

    @property
    def count(self) -> int:
        """How many meshes there are."""
        return len(self.radius)


@dataclass(frozen=True, eq=False, slots=True)
class MeshInstances:
    """Meshes put into the world, row by row.

    ``mesh`` i32[n]; ``position`` f64[n, 3]; ``axes`` f64[n, 3, 3]: rows are the forward, right and up vectors; ``id`` i32[n];
    ``label`` u8[n] (0: the faces' own); ``paint`` f32[n, 3] linear; ``lamps`` u16[n]; ``ground_z`` f64[n]: the height on which
    its shadow and beams fall. ``was_position`` and ``was_axes``: the same one frame earlier, for the optical flow.
    """

    mesh: I32
    position: F64
    axes: F64
    id: I32
    label: U8
    paint: F32
    lamps: U16
    ground_z: F64
    was_position: F64
    was_axes: F64

    def __len__(self) -> int:
        return len(self.mesh)


@dataclass(frozen=True, eq=False, slots=True)
class RenderScene:
    """Everything at one tick.

    ``fixed`` never moves as long as the map is the same (the very same object from tick to tick, so that a back end may keep
    what it worked out of it); ``moving`` are actors, signals with their lamps, whatever changes. ``street_lamps`` f32[k, 4]:
    x, y, z of the ground below and the radius of the light. They and all that is marked ``Lamp.STREET`` burn if
    ``street_lamps_on``.
    """

    shapes: Shapes
    fixed: MeshInstances
    moving: MeshInstances
    weather: SceneWeather
    street_lamps: F32
    street_lamps_on: bool
    tick: int = 0

    def world_triangles(self, instances: MeshInstances, index: int) -> F32:
        """The triangles of one instance in the world, f32[m, 3, 3]; for oracles and rays, not for speed."""
        shapes, mesh = self.shapes, int(instances.mesh[index])
        corners = shapes.vertices[shapes.faces[shapes.first_face[mesh] : shapes.first_face[mesh + 1]]].astype(np.float64)
        axes, position = instances.axes[index], instances.position[index]
        parts = [
            corners[..., 0] * axes[0, k] + corners[..., 1] * axes[1, k] + corners[..., 2] * axes[2, k] + position[k]
            for k in range(3)
        ]
        return np.stack(parts, axis=-1).astype(np.float32)


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
    # The same as CARLA's cameras show it: four bytes a pixel, see CameraFrame.
    DEPTH_IMAGE = 64
    LABEL_IMAGE = 128
    INSTANCE_IMAGE = 256
    NORMAL_IMAGE = 512


@lru_cache(1024)
def _half_angle(fov_deg: float) -> tuple[float, float]:
    """Sine and cosine of half a field of view: hundreds of cameras share one, at every tick."""
    return sincos_deg(fov_deg / 2)


def focal_px_of(width: int, fov_deg: float) -> float:
    """The focal length in pixels of a picture so wide, with this horizontal field of view."""
    sine, cosine = _half_angle(fov_deg)
    return 0.5 * width * cosine / sine


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
        return focal_px_of(self.width, self.fov_deg)

    @property
    def view(self) -> tuple[object, ...]:
        """Everything but the channels: cameras that agree in this see the same."""
        return (self.pose, self.width, self.height, self.fov_deg, self.was, self.samples, self.vignette)


@dataclass(frozen=True, eq=False, slots=True)
class CameraFrame:
    """What a camera saw; None for channels it was not asked for.

    ``bgra`` u8[h, w, 4]; ``depth_m`` f32[h, w] along the optical axis, at most ``FAR_M``; ``label`` u8[h, w]; ``instance``
    u16[h, w] (an actor's id modulo 65536; static things count down from 65535; 0: sky); ``normal`` i8[h, w, 3]: the outward
    normal in the world times 127, 0 for the sky; ``flow`` f32[h, w, 2]: motion since the frame before, in half widths to the
    right and half heights up. ``depth_image`` to ``normal_image`` u8[h, w, 4] are CARLA's pictures of the same, as
    :mod:`.cameras` describes them.
    """

    camera: Camera
    bgra: NDArray[np.uint8] | None = None
    depth_m: NDArray[np.float32] | None = None
    label: NDArray[np.uint8] | None = None
    instance: NDArray[np.uint16] | None = None
    normal: NDArray[np.int8] | None = None
    flow: NDArray[np.float32] | None = None
    depth_image: NDArray[np.uint8] | None = None
    label_image: NDArray[np.uint8] | None = None
    instance_image: NDArray[np.uint8] | None = None
    normal_image: NDArray[np.uint8] | None = None


class Renderer(Protocol):
    """A back end. Equal scenes and cameras give equal frames, as far as the back end promises."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def facts(self) -> Mapping[str, str]:
        """What its pictures depend on beside scene and cameras, such as a driver's version; none where that is nothing."""
        ...

    def render(
        self, scene: RenderScene, cameras: Sequence[Camera], out: Sequence[CameraFrame] | None = None
    ) -> Sequence[CameraFrame]:
        """Draw all cameras; ``out`` are earlier frames of the same sizes and channels whose arrays may be written over."""
        ...

    def close(self) -> None:
        """Let go of threads, contexts and memory."""
        ...


WorldCameras = tuple[RenderScene, Sequence[Camera]]
"""A scene and the cameras that look at it."""


@runtime_checkable
class WorldsRenderer(Renderer, Protocol):
    """A back end that draws several scenes at once faster than one after the other."""

    def render_worlds(self, groups: Sequence[WorldCameras]) -> list[Sequence[CameraFrame]]:
        """Draw the cameras of all scenes; the frames of each scene, in the order given."""
        ...


RENDERERS: Final = MappingProxyType(
    {
        "software": "samepath.simulator.sensors.raster.software:SoftwareRenderer",
        "opengl": "samepath.simulator.sensors.opengl.renderer:OpenGLRenderer",
        "cuda": "samepath.simulator.sensors.cuda.renderer:CudaRenderer",
        "auto": "samepath.simulator.sensors.auto:AutoRenderer",
    }
)

EXTRAS: Final = MappingProxyType({"software": "sensors", "opengl": "opengl", "cuda": "cuda", "auto": "sensors"})
"""Which extra of samepath brings what a back end needs."""

SAME_BYTES: Final = ("software", "cuda", "auto")
"""Back ends that promise the bytes of the software renderer: whichever of them draws, nothing downstream can tell."""


def check_renderer(name: str) -> str:
    """Refuse a name that no back end has."""
    if name not in RENDERERS:
        raise unknown("renderer", name, RENDERERS)
    return name


def check_same_bytes(name: str) -> str:
    """Refuse a back end that does not promise the software renderer's bytes, where several machines must draw alike."""
    if check_renderer(name) not in SAME_BYTES:
        wanted = ", ".join(SAME_BYTES)
        raise InputError(f"one of {wanted} was wanted for a cluster's nodes, but {name!r} came: its bytes depend on a driver")
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
