"""What is measured, as CARLA's cameras show it: four bytes a pixel, blue, green, red, 255.

This is the rule. The software renderer and the CUDA renderer follow it while they draw (``pixels.measure``, ``paint.h``), so
that no picture is gone through twice; a back end that does not is helped by :func:`with_images`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.renderer import FAR_M, Camera, CameraFrame, Channel

DEPTH_MAX: Final = (1 << 24) - 1
DEPTH_STEPS_PER_M: Final = DEPTH_MAX / FAR_M

_MADE_OF: Final = {
    Channel.DEPTH_IMAGE: Channel.DEPTH,
    Channel.LABEL_IMAGE: Channel.LABEL,
    Channel.INSTANCE_IMAGE: Channel.INSTANCE | Channel.LABEL,
    Channel.NORMAL_IMAGE: Channel.NORMAL,
}
IMAGES: Final = Channel.DEPTH_IMAGE | Channel.LABEL_IMAGE | Channel.INSTANCE_IMAGE | Channel.NORMAL_IMAGE
"""All of them."""


def colour_image(frame: CameraFrame) -> NDArray[np.uint8]:
    """Blue, green, red, 255."""
    return _there(frame.bgra)


def depth_image(frame: CameraFrame) -> NDArray[np.uint8]:
    """Metres as 24 bits, the lowest in red, then green, then blue: 1000 (R + 256 G + 65536 B) / (2**24 - 1)."""
    if frame.depth_image is not None:
        return frame.depth_image
    steps = (_there(frame.depth_m).astype(np.float64) * DEPTH_STEPS_PER_M + 0.5).astype(np.uint32)
    return _bgra(steps >> 16, (steps >> 8) & 255, steps & 255)


def depth_of(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The metres in a depth image."""
    blue, green, red = (image[..., k].astype(np.uint32) for k in range(3))
    metres: NDArray[np.float64] = (red + (green << 8) + (blue << 16)) * (FAR_M / DEPTH_MAX)
    return metres


def label_image(frame: CameraFrame) -> NDArray[np.uint8]:
    """The label in red."""
    if frame.label_image is not None:
        return frame.label_image
    label = _there(frame.label)
    nothing = np.zeros_like(label)
    return _bgra(nothing, nothing, label)


def instance_image(frame: CameraFrame) -> NDArray[np.uint8]:
    """The label in red, the lower byte of the instance in green, the upper one in blue."""
    if frame.instance_image is not None:
        return frame.instance_image
    number = _there(frame.instance)
    return _bgra(number >> 8, number & 255, _there(frame.label))


def normal_image(frame: CameraFrame) -> NDArray[np.uint8]:
    """The normal's x, y, z in the world, from -1..1 as 0..255, in red, green, blue; the sky has none: 127."""
    if frame.normal_image is not None:
        return frame.normal_image
    level = (_there(frame.normal).astype(np.int32) * 255 + 127 * 255) // 254
    return _bgra(level[..., 2], level[..., 1], level[..., 0])


def flow_image(frame: CameraFrame) -> NDArray[np.float32]:
    """Motion since the frame before, in half widths to the right and half heights up, at most 2 either way."""
    return _there(frame.flow)


def numbers_for(cameras: Sequence[Camera]) -> list[Camera]:
    """The same cameras, asked for the numbers that their images are made of instead of the images."""
    made = []
    for camera in cameras:
        channels = camera.channels & ~IMAGES
        for image, numbers in _MADE_OF.items():
            if camera.channels & image:
                channels |= numbers
        made.append(replace(camera, channels=channels))
    return made


def with_images(frames: Sequence[CameraFrame], cameras: Sequence[Camera]) -> tuple[CameraFrame, ...]:
    """Frames of :func:`numbers_for` as their cameras have asked for them."""
    made = []
    for frame, camera in zip(frames, cameras, strict=True):
        asked = camera.channels
        made.append(CameraFrame(
            camera, frame.bgra, frame.depth_m if asked & Channel.DEPTH else None,
            frame.label if asked & Channel.LABEL else None,
            frame.instance if asked & Channel.INSTANCE else None, frame.normal if asked & Channel.NORMAL else None, frame.flow,
            depth_image(frame) if asked & Channel.DEPTH_IMAGE else None,
            label_image(frame) if asked & Channel.LABEL_IMAGE else None,
            instance_image(frame) if asked & Channel.INSTANCE_IMAGE else None,
            normal_image(frame) if asked & Channel.NORMAL_IMAGE else None,
        ))  # fmt: skip
    return tuple(made)


def _there(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise ValueError("the frame was drawn without this channel")
    return array


def _bgra(blue: NDArray[Any], green: NDArray[Any], red: NDArray[Any]) -> NDArray[np.uint8]:
    made = np.empty((*blue.shape, 4), np.uint8)
    made[..., 0], made[..., 1], made[..., 2], made[..., 3] = blue, green, red, 255
    return made
