"""Small pictures of what cameras saw, for people's eyes."""

import io
import math
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

WIDTH_PX: Final = 240
_BLOCK: Final = struct.Struct("<IIf")  # width, height, field of view: before the pixels of CARLA's pictures
_NEAREST_M: Final = 0.5
_FARTHEST_M: Final = 1000.0
_GOLDEN: Final = 0.618033988749895  # steps of this part of a circle keep neighbours far apart


def thumbnail_png(kind: str, payload: bytes) -> bytes | None:
    """Return a camera's payload (behind the header that all measurements have) as a PNG; None for what is no picture."""
    if not kind.startswith("sensor.camera.") or len(payload) < _BLOCK.size:
        return None
    width, height, _ = _BLOCK.unpack_from(payload)
    pixel_bytes = 8 if kind == "sensor.camera.optical_flow" else 4
    if not width or not height or len(payload) != _BLOCK.size + width * height * pixel_bytes:
        return None
    step = math.ceil(width / WIDTH_PX)
    picture = _small(kind, np.frombuffer(payload, np.uint8, offset=_BLOCK.size).reshape(height, width, pixel_bytes), step)
    sink = io.BytesIO()
    picture.save(sink, "PNG", compress_level=1)
    return sink.getvalue()


def _small(kind: str, pixels: NDArray[np.uint8], step: int) -> "Image":
    from PIL import Image

    if kind in ("sensor.camera.rgb", "sensor.camera.normals"):
        height, width, _ = pixels.shape
        return Image.frombuffer("RGB", (width, height), pixels, "raw", "BGRX", 0, 1).reduce(step)
    # Numbers cannot be averaged: one pixel in so many stands for its neighbours.
    few = np.ascontiguousarray(pixels[::step, ::step])
    if kind == "sensor.camera.depth":
        return Image.fromarray(_depth(few))
    coloured = _flow(few.view("<f4")) if kind == "sensor.camera.optical_flow" else _labels(few)
    return Image.frombytes("HSV", (coloured.shape[1], coloured.shape[0]), coloured.tobytes()).convert("RGB")


def _depth(bgra: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey by the logarithm of the distance: near is dark."""
    blue, green, red = (bgra[..., channel].astype(np.float64) for channel in range(3))
    depth_m = 1000.0 * (red + 256.0 * green + 65536.0 * blue) / (2**24 - 1)
    part = np.log(np.clip(depth_m, _NEAREST_M, _FARTHEST_M) / _NEAREST_M) / math.log(_FARTHEST_M / _NEAREST_M)
    return (255.0 * part).astype(np.uint8)


def _labels(bgra: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A hue for every label, and another shade for every instance, where there are any; nothing is black."""
    label = bgra[..., 2].astype(np.float64)
    shade = 160 + (bgra[..., 0].astype(np.int64) * 31 + bgra[..., 1] * 57) % 96
    value = np.where(label == 0, 0, shade)
    return _hsv(label * _GOLDEN % 1.0, np.full(label.shape, 150), value)


def _flow(flow: NDArray[Any]) -> NDArray[np.uint8]:
    """The direction as hue, the size as brightness."""
    safe = np.nan_to_num(flow.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    hue = np.arctan2(safe[..., 1], safe[..., 0]) / (2 * math.pi) % 1.0
    size = np.hypot(safe[..., 0], safe[..., 1])
    return _hsv(hue, np.full(hue.shape, 200), 255.0 * np.sqrt(size / max(float(size.max()), 1e-9)))


def _hsv(hue: NDArray[Any], saturation: NDArray[Any], value: NDArray[Any]) -> NDArray[np.uint8]:
    return np.stack([hue * 255, saturation, value], axis=-1).astype(np.uint8)
