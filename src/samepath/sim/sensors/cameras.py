"""CARLA's cameras: their attributes with limits, and the encodings of what they see.

Every attribute of CARLA's blueprints is read. Those of a real lens and film (``gamma``, ``iso``, ``bloom_intensity``, ...) are
accepted and change nothing: the picture is that of an ideal pinhole camera. ``lens_circle_multiplier`` darkens the corners.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.base.suggest import unknown
from samepath.sim.sensors.attributes import SENSOR_TICK, Attribute, Flag, Given, Table, read
from samepath.sim.sensors.renderer import FAR_M, Camera, Channel, Frame
from samepath.sim.world.records import Pose

SIDE_PX_MAX: Final = 8192
FOV_DEG_MIN, FOV_DEG_MAX = 1.0, 170.0
PIXELS_MAX: Final = 8192 * 4096
DEPTH_MAX: Final = (1 << 24) - 1
_ANY: Final = 1e9

_GEOMETRY: Final[Table] = MappingProxyType(
    {
        "image_size_x": Attribute(800, 1, SIDE_PX_MAX, "pixels", whole=True),
        "image_size_y": Attribute(600, 1, SIDE_PX_MAX, "pixels", whole=True),
        "fov": Attribute(90.0, FOV_DEG_MIN, FOV_DEG_MAX, "degrees"),
        "sensor_tick": SENSOR_TICK,
        "lens_circle_falloff": Attribute(5.0, 0.0, 10.0),
        "lens_circle_multiplier": Attribute(0.0, 0.0, 10.0),
        "lens_k": Attribute(-1.0, -_ANY, _ANY),
        "lens_kcube": Attribute(0.0, -_ANY, _ANY),
        "lens_x_size": Attribute(0.08, 0.0, 1.0),
        "lens_y_size": Attribute(0.08, 0.0, 1.0),
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
_FILM: Final[Table] = MappingProxyType(
    {
        **_GEOMETRY,
        "enable_postprocess_effects": Flag(default=True),
        **{name: Attribute(value, -_ANY, _ANY) for name, value in _FILM_DEFAULTS.items()},
    }
)
_EXPOSURE_MODES: Final = ("histogram", "manual")
# Names every blueprint has, and words beside the numbers: not for us.
_OTHERS: Final = frozenset({"role_name", "ros_name", "ros_frame_id", "ros_publish_tf", "exposure_mode"})

Encode = Callable[[Frame], NDArray[Any]]


def colour_image(frame: Frame) -> NDArray[np.uint8]:
    """Blue, green, red, 255."""
    return _there(frame.bgra)


def depth_image(frame: Frame) -> NDArray[np.uint8]:
    """Metres as 24 bits, the lowest in red, then green, then blue: 1000 (R + 256 G + 65536 B) / (2**24 - 1)."""
    steps = (_there(frame.depth_m).astype(np.float64) * (DEPTH_MAX / FAR_M) + 0.5).astype(np.uint32)
    return _bgra(steps >> 16, (steps >> 8) & 255, steps & 255)


def depth_of(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The metres in a depth image."""
    blue, green, red = (image[..., k].astype(np.uint32) for k in range(3))
    metres: NDArray[np.float64] = (red + (green << 8) + (blue << 16)) * (FAR_M / DEPTH_MAX)
    return metres


def label_image(frame: Frame) -> NDArray[np.uint8]:
    """The label in red."""
    label = _there(frame.label)
    nothing = np.zeros_like(label)
    return _bgra(nothing, nothing, label)


def instance_image(frame: Frame) -> NDArray[np.uint8]:
    """The label in red, the lower byte of the instance in green, the upper one in blue."""
    number = _there(frame.instance)
    return _bgra(number >> 8, number & 255, _there(frame.label))


def normal_image(frame: Frame) -> NDArray[np.uint8]:
    """The normal's x, y, z in the world, from -1..1 as 0..255, in red, green, blue; the sky has none: 127."""
    level = (_there(frame.normal).astype(np.int32) * 255 + 127 * 255) // 254
    return _bgra(level[..., 2], level[..., 1], level[..., 0])


def flow_image(frame: Frame) -> NDArray[np.float32]:
    """Motion since the frame before, in half widths to the right and half heights up, at most 2 either way."""
    return _there(frame.flow)


def _there(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise ValueError("the frame was drawn without this channel")
    return array


def _bgra(blue: NDArray[Any], green: NDArray[Any], red: NDArray[Any]) -> NDArray[np.uint8]:
    made = np.empty((*blue.shape, 4), np.uint8)
    made[..., 0], made[..., 1], made[..., 2], made[..., 3] = blue, green, red, 255
    return made


@dataclass(frozen=True, slots=True)
class Kind:
    """A camera of CARLA: what it needs drawn, how that is encoded, which attributes it has."""

    channels: Channel
    encode: Encode
    attributes: Table


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "sensor.camera.depth": Kind(Channel.DEPTH, depth_image, _GEOMETRY),
        "sensor.camera.instance_segmentation": Kind(Channel.LABEL | Channel.INSTANCE, instance_image, _GEOMETRY),
        "sensor.camera.normals": Kind(Channel.NORMAL, normal_image, _GEOMETRY),
        "sensor.camera.optical_flow": Kind(Channel.FLOW, flow_image, _GEOMETRY),
        "sensor.camera.rgb": Kind(Channel.COLOUR, colour_image, _FILM),
        "sensor.camera.semantic_segmentation": Kind(Channel.LABEL, label_image, _GEOMETRY),
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
    def from_attributes(cls, kind: str, given: Given, *, strict: bool = False, samples: int = 1) -> Self:
        """Build one from CARLA's attributes, text or numbers; ``strict`` refuses names it does not know."""
        if kind not in KINDS:
            raise unknown("camera", kind, KINDS)
        return cls(kind, **shape_of(kind, given, KINDS[kind].attributes, strict=strict), samples=samples)

    def at(self, pose: Pose, was: Pose | None = None) -> Camera:
        """The camera at a pose, and where it was one frame earlier."""
        channels = KINDS[self.kind].channels
        return Camera(pose, self.width, self.height, self.fov_deg, channels, was, self.samples, self.vignette)

    def encode(self, frame: Frame) -> NDArray[Any]:
        """CARLA's content of a frame: u8[h, w, 4] of blue, green, red, alpha, or f32[h, w, 2] of flow."""
        return KINDS[self.kind].encode(frame)

    def payload(self, frame: Frame) -> bytes:
        """What a client is sent after the header: width, height, field of view, pixels."""
        return image_header(self.width, self.height, self.fov_deg) + np.ascontiguousarray(self.encode(frame)).tobytes()


def image_header(width: int, height: int, fov_deg: float) -> bytes:
    """The twelve bytes before the pixels of any camera."""
    return struct.pack("<IIf", width, height, fov_deg)


def shape_of(kind: str, given: Given, table: Table, *, strict: bool) -> dict[str, Any]:
    """The fields of a camera from its attributes, all of them checked."""
    ours = {name: value for name, value in given.items() if name not in _OTHERS}
    values = read(kind, ours, table, strict=strict)
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
