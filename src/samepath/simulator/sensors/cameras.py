"""CARLA's cameras: their attributes with limits, the encodings of what they see, and the pictures of a whole rig.

Every attribute of CARLA's blueprints is read. Those of a real lens and film (``gamma``, ``iso``, ``bloom_intensity``, ...) are
accepted and change nothing: the picture is that of an ideal pinhole camera. ``lens_circle_multiplier`` darkens the corners.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, unknown
from samepath.core.states import Pose
from samepath.simulator.sensors.ground_truth import INSTANCES
from samepath.simulator.sensors.images import (
    colour_image,
    depth_image,
    flow_image,
    instance_image,
    label_image,
    normal_image,
)
from samepath.simulator.sensors.renderer import (
    Camera,
    CameraFrame,
    Channel,
    MeshInstances,
    Renderer,
    RenderScene,
    create_renderer,
)
from samepath.simulator.sensors.sensor import (
    SENSOR_TICK,
    AttributeTable,
    FlagAttribute,
    GivenAttributes,
    NumberAttribute,
    read_attributes,
)

SIDE_PX_MAX: Final = 8192
FOV_DEG_MIN, FOV_DEG_MAX = 1.0, 170.0
PIXELS_MAX: Final = 8192 * 4096
_ANY: Final = 1e9
IMAGE_HEADER: Final = struct.Struct("<IIf")

_GEOMETRY: Final[AttributeTable] = MappingProxyType(
    {
        "image_size_x": NumberAttribute(800, 1, SIDE_PX_MAX, "pixels", whole=True),
        "image_size_y": NumberAttribute(600, 1, SIDE_PX_MAX, "pixels", whole=True),
        "fov": NumberAttribute(90.0, FOV_DEG_MIN, FOV_DEG_MAX, "degrees"),
        "sensor_tick": SENSOR_TICK,
        "lens_circle_falloff": NumberAttribute(5.0, 0.0, 10.0),
        "lens_circle_multiplier": NumberAttribute(0.0, 0.0, 10.0),
        "lens_k": NumberAttribute(-1.0, -_ANY, _ANY),
        "lens_kcube": NumberAttribute(0.0, -_ANY, _ANY),
        "lens_x_size": NumberAttribute(0.08, 0.0, 1.0),
        "lens_y_size": NumberAttribute(0.08, 0.0, 1.0),
    }
)

# Post-processing of CARLA's colour cameras, with CARLA's defaults: read, checked to be numbers, and without effect.
_FILM_DEFAULTS: Final = {
    "gamma": 2.2,
    "motion_blur_intensity": 0.45,
    "motion_blur_max_distortion": 0.35,
    "motion_blur_min_object_screen_size": 0.1,
    "lens_flare_intensity": 0.1,
    "bloom_intensity": 0.675,
    "exposure_compensation": 0.0,
    "shutter_speed": 200.0,
    "iso": 100.0,
    "fstop": 1.4,
    "exposure_min_bright": 10.0,
    "exposure_max_bright": 12.0,
    "exposure_speed_up": 3.0,
    "exposure_speed_down": 1.0,
    "calibration_constant": 16.0,
    "focal_distance": 1000.0,
    "blur_amount": 1.0,
    "blur_radius": 0.0,
    "min_fstop": 1.2,
    "blade_count": 5,
    "slope": 0.88,
    "toe": 0.55,
    "shoulder": 0.26,
    "black_clip": 0.0,
    "white_clip": 0.04,
    "temp": 6500.0,
    "tint": 0.0,
    "chromatic_aberration_intensity": 0.0,
    "chromatic_aberration_offset": 0.0,
}
_FILM: Final[AttributeTable] = MappingProxyType(
    {
        **_GEOMETRY,
        "enable_postprocess_effects": FlagAttribute(default=True),
        **{name: NumberAttribute(value, -_ANY, _ANY) for name, value in _FILM_DEFAULTS.items()},
    }
)
_EXPOSURE_MODES: Final = ("histogram", "manual")

# Names every blueprint has, and words beside the numbers: not for us.
_OTHERS: Final = frozenset({"role_name", "ros_name", "ros_frame_id", "ros_publish_tf", "exposure_mode"})

Encode = Callable[[CameraFrame], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CameraKind:
    """A camera of CARLA: what it measures, the picture that is made of it, how, and which attributes it has."""

    channels: Channel
    image: Channel
    encode: Encode
    attributes: AttributeTable


CAMERA_KINDS: Final[Mapping[str, CameraKind]] = MappingProxyType(
    {
        "sensor.camera.depth": CameraKind(Channel.DEPTH, Channel.DEPTH_IMAGE, depth_image, _GEOMETRY),
        "sensor.camera.instance_segmentation": CameraKind(
            Channel.LABEL | Channel.INSTANCE, Channel.INSTANCE_IMAGE, instance_image, _GEOMETRY
        ),
        "sensor.camera.normals": CameraKind(Channel.NORMAL, Channel.NORMAL_IMAGE, normal_image, _GEOMETRY),
        "sensor.camera.optical_flow": CameraKind(Channel.FLOW, Channel.FLOW, flow_image, _GEOMETRY),
        "sensor.camera.rgb": CameraKind(Channel.COLOUR, Channel.COLOUR, colour_image, _FILM),
        "sensor.camera.semantic_segmentation": CameraKind(Channel.LABEL, Channel.LABEL_IMAGE, label_image, _GEOMETRY),
    }
)
FILM: Final = _FILM
"""The attributes of cameras that take colours."""


@dataclass(frozen=True, slots=True)
class CameraSensor:
    """A camera as CARLA's attributes describe it."""

    kind: str
    width: int
    height: int
    fov_deg: float
    period_s: float = 0.0
    vignette: float = 0.0
    samples: int = 1

    @classmethod
    def from_attributes(cls, kind: str, given: GivenAttributes, *, strict: bool = False, samples: int = 1) -> Self:
        """Build one from CARLA's attributes, text or numbers; ``strict`` refuses names it does not know."""
        if kind not in CAMERA_KINDS:
            raise unknown("camera", kind, CAMERA_KINDS)
        return cls(kind, **shape_of(kind, given, CAMERA_KINDS[kind].attributes, strict=strict), samples=samples)

    def at(self, pose: Pose, was: Pose | None = None, *, image: bool = False) -> Camera:
        """The camera at a pose, and where it was one frame earlier.

        Its frame has the numbers that are measured, or with ``image`` CARLA's picture of them alone, which is made while it is
        drawn. :meth:`encode` takes either.
        """
        kind = CAMERA_KINDS[self.kind]
        channels = kind.image if image else kind.channels
        return Camera(pose, self.width, self.height, self.fov_deg, channels, was, self.samples, self.vignette)

    @property
    def payload_bytes(self) -> int:
        """How long every payload of this camera is."""
        return IMAGE_HEADER.size + self.width * self.height * (8 if self.kind == "sensor.camera.optical_flow" else 4)

    def encode(self, frame: CameraFrame) -> NDArray[Any]:
        """CARLA's content of a frame: u8[h, w, 4] of blue, green, red, alpha, or f32[h, w, 2] of flow."""
        return CAMERA_KINDS[self.kind].encode(frame)

    def payload(self, frame: CameraFrame) -> bytes:
        """What a client is sent after the header: width, height, field of view, pixels."""
        pixels = np.ascontiguousarray(self.encode(frame)).data.cast("B")
        # Copied once: a picture of 1920 x 1080 is 8 MB.
        return b"".join((image_header(self.width, self.height, self.fov_deg), pixels))


def image_header(width: int, height: int, fov_deg: float) -> bytes:
    """The twelve bytes before the pixels of any camera."""
    return IMAGE_HEADER.pack(width, height, fov_deg)


def shape_of(kind: str, given: GivenAttributes, table: AttributeTable, *, strict: bool) -> dict[str, Any]:
    """The fields of a camera from its attributes, all of them checked."""
    ours = {name: value for name, value in given.items() if name not in _OTHERS}
    values = read_attributes(kind, ours, table, strict=strict)
    mode = str(given.get("exposure_mode", _EXPOSURE_MODES[0]))
    if "gamma" in table and mode not in _EXPOSURE_MODES:
        raise InputError(f"{kind}: exposure_mode: one of {', '.join(_EXPOSURE_MODES)} was wanted, but {mode[:40]!r} came")
    width, height = int(values["image_size_x"]), int(values["image_size_y"])
    if width * height > PIXELS_MAX:
        raise InputError(
            f"{kind}: image_size_x times image_size_y: at most {PIXELS_MAX} was wanted, but {width} x {height} came"
        )
    # CARLA's vignette: the multiplier says how dark the corners are, the falloff how near to the middle it begins.
    darkness = values["lens_circle_multiplier"] * values["lens_circle_falloff"] / 5.0
    return {
        "width": width,
        "height": height,
        "fov_deg": values["fov"],
        "period_s": values["sensor_tick"],
        "vignette": min(darkness, 1.0),
    }


@dataclass(frozen=True, eq=False)
class CameraView:
    """What cameras that share a view have before them: the image of instances, and actors' pixels when drawn alone."""

    names: tuple[str, ...]
    camera: Camera
    instances: NDArray[np.uint16]
    alone_px: Mapping[int, int]


class RigRenderer:
    """Draws the cameras of a rig with the back end that was chosen. ``threads`` of the software one change no bit.

    ``said`` is told who draws where that was left open (``auto``).

    Views that several cameras share are drawn once. Actors are drawn once more, each alone, to tell how much of them is hidden;
    a second renderer does that, as the first one keeps what it worked out of the fixed part of the scene.

    ``shared`` draws instead, together with other worlds (``RenderGatherer``). ``overwrites``: frames are good until the next
    call, which draws into the same memory; for those who are done with them by then.
    """

    def __init__(
        self,
        threads: int = 1,
        renderer: str = "software",
        said: Callable[[str], None] | None = None,
        shared: Renderer | None = None,
        *,
        overwrites: bool = False,
    ) -> None:
        self._overwrites = overwrites
        self._frames: Sequence[CameraFrame] | None = None
        self._layout: list[tuple[int, int, Channel]] = []
        self._options: dict[str, object] = {"threads": threads} if renderer in {"software", "auto"} else {}
        self._asked = renderer
        told: dict[str, object] = {"say": said} if renderer == "auto" else {}
        self._renderer = create_renderer(renderer, **self._options, **told) if shared is None else shared
        # One that worlds share keeps several maps, so it can draw actors alone as well.
        self._alone: Renderer | None = shared

    @property
    def facts(self) -> dict[str, str]:
        """Who draws: the back end's name, and what its pictures depend on."""
        return {"name": self._renderer.name, **self._renderer.facts}

    def close(self) -> None:
        """Let go of threads and memory."""
        self.rest()
        self._renderer.close()
        if self._alone is not None and self._alone is not self._renderer:
            self._alone.close()

    def draw(self, scene: RenderScene, cameras: Sequence[Camera]) -> list[CameraFrame]:
        """Draw cameras; those that differ in nothing but their channels are drawn in one go."""
        numbers: dict[tuple[object, ...], int] = {}
        views: list[Camera] = []
        shown: list[int] = []
        for camera in cameras:
            number = numbers.setdefault(camera.view, len(views))
            shown.append(number)
            if number == len(views):
                views.append(camera)
            elif camera.channels != views[number].channels:
                views[number] = replace(camera, channels=camera.channels | views[number].channels)
        layout = [(view.width, view.height, view.channels) for view in views]
        if layout != self._layout:
            self.rest()  # before anything is drawn: there is never memory for two ticks
        drawn = self._renderer.render(scene, views, self._frames)
        if self._overwrites:
            self._frames, self._layout = drawn, layout
        frames = list(drawn)
        return [frames[number] for number in shown]

    def rest(self) -> None:
        """Let go of the memory that is drawn into."""
        self._frames, self._layout = None, []

    def views(self, scene: RenderScene, drawn: Mapping[str, CameraFrame], ids: Iterable[int]) -> tuple[CameraView, ...]:
        """The truth behind frames, by name of the camera, that were drawn with their instances."""
        names: dict[int, list[str]] = {}
        for name, frame in drawn.items():
            names.setdefault(id(frame), []).append(name)
        frames = [drawn[shared[0]] for shared in names.values()]
        alone = self._alone_px(scene, [frame.camera for frame in frames], ids) if frames else []
        return tuple(
            CameraView(tuple(shared), frame.camera, frame.instance, pixels)
            for shared, frame, pixels in zip(names.values(), frames, alone, strict=True)
            if frame.instance is not None
        )

    def _alone_px(self, scene: RenderScene, cameras: Sequence[Camera], ids: Iterable[int]) -> list[dict[int, int]]:
        """For each camera, the pixels of actors that it would see if each were alone; those it could not see are left out."""
        wanted = [replace(camera, channels=Channel.INSTANCE, samples=1) for camera in cameras]
        found: list[dict[int, int]] = [{} for _ in cameras]
        if self._alone is None:
            self._alone = create_renderer(self._asked, **self._options)
        for number in ids:
            own = _rows(scene.moving, np.flatnonzero(scene.moving.id == number))
            frames = self._alone.render(replace(scene, fixed=_nothing(), moving=own), wanted)
            for k, frame in enumerate(frames):
                if frame.instance is not None and (pixels := int(np.count_nonzero(frame.instance == number % INSTANCES))):
                    found[k][number] = pixels
        return found


@cache
def _nothing() -> MeshInstances:
    """No things. One object for all: a renderer knows maps by what is fixed on them, and here that is the same everywhere."""
    place, axes, number = np.zeros((0, 3)), np.zeros((0, 3, 3)), np.zeros(0, np.int32)
    return MeshInstances(
        number, place, axes, number, np.zeros(0, np.uint8), np.zeros((0, 3), np.float32), np.zeros(0, np.uint16), np.zeros(0),
        place, axes,
    )  # fmt: skip


def _rows(instances: MeshInstances, rows: NDArray[np.intp]) -> MeshInstances:
    return MeshInstances(*(getattr(instances, name)[rows] for name in MeshInstances.__slots__))
