"""Small pictures of what cameras see, for the live page."""

import io
from typing import Final

import numpy as np

from samepath.sim.server.viewing.order import Order

_HEADER_BYTES: Final = 12
_WIDTH_PX: Final = 240


def picture_of(order: Order, payload: bytes) -> bytes | None:
    """A camera's payload as a small PNG; None for what is no picture."""
    from PIL import Image

    if not order.type_id.startswith("sensor.camera.") or len(payload) < _HEADER_BYTES:
        return None
    width, height = (int.from_bytes(payload[at : at + 4], "little") for at in (0, 4))
    pixels = np.frombuffer(payload, np.uint8, offset=_HEADER_BYTES)
    if pixels.size != width * height * 4:
        return None
    image = Image.fromarray(np.ascontiguousarray(pixels.reshape(height, width, 4)[..., 2::-1]))
    image.thumbnail((_WIDTH_PX, _WIDTH_PX))
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()
