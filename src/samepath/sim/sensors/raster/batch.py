"""The frames of one call: their arrays lie one behind the other, channel by channel."""

from collections.abc import Iterator, Sequence
from typing import Final, overload

import numpy as np

from samepath.sim.sensors.raster.arrays import Outputs
from samepath.sim.sensors.renderer import Camera, Channel, Frame

CHANNELS: Final = (Channel.COLOUR, Channel.DEPTH, Channel.LABEL, Channel.INSTANCE, Channel.NORMAL, Channel.FLOW)
"""The order of a batch's arrays."""


class FrameBatch(Sequence[Frame]):
    """The frames of one call; their arrays lie one behind the other. Hand it back as ``out`` to have it written over."""

    def __init__(self, cameras: Sequence[Camera]) -> None:
        self.layout = [(one.width, one.height, one.channels) for one in cameras]
        self.offsets = np.full((len(cameras), len(CHANNELS)), -1, np.int64)
        totals = [0] * len(CHANNELS)
        for c, camera in enumerate(cameras):
            for k, channel in enumerate(CHANNELS):
                if camera.channels & channel:
                    self.offsets[c, k] = totals[k]
                    totals[k] += camera.width * camera.height
        self.arrays = Outputs(
            np.empty(totals[0], np.uint32), np.empty(totals[1], np.float32), np.empty(totals[2], np.uint8),
            np.empty(totals[3], np.uint16), np.empty(3 * totals[4], np.int8), np.empty(2 * totals[5], np.float32),
        )  # fmt: skip
        self.cameras = cameras

    def __len__(self) -> int:
        return len(self.layout)

    def __iter__(self) -> Iterator[Frame]:
        return (self._frame(c) for c in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Frame, ...]: ...
    def __getitem__(self, index: int | slice) -> Frame | tuple[Frame, ...]:
        if isinstance(index, slice):
            return tuple(self._frame(c) for c in range(*index.indices(len(self))))
        return self._frame(range(len(self))[index])

    def _frame(self, c: int) -> Frame:
        camera, made = self.cameras[c], self.arrays
        height, width = camera.height, camera.width

        def part(k: int, array: np.ndarray, depth: int, *shape: int) -> np.ndarray | None:
            start = int(self.offsets[c, k])
            return None if start < 0 else array[depth * start : depth * (start + width * height)].reshape(height, width, *shape)

        return Frame(
            camera,
            part(0, made.colour.view(np.uint8), 4, 4),
            part(1, made.depth, 1),
            part(2, made.label, 1),
            part(3, made.instance, 1),
            part(4, made.normal, 3, 3),
            part(5, made.flow, 2, 2),
        )
