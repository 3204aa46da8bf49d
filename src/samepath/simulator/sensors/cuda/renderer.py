"""The renderer that draws by ``core.h``, on whichever device runs it. Its bytes are those of the software renderer."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.simulator.sensors.cuda.card import CardDevice, Pending
from samepath.simulator.sensors.cuda.driver import CudaDriver
from samepath.simulator.sensors.cuda.memory import CardArray, CardPictures
from samepath.simulator.sensors.raster.arrays import I64, ROW_MASK, CameraArrays, FrameBatch, Outputs, layout_of
from samepath.simulator.sensors.raster.prepare import PreparedScene, ScenePreparer, camera_arrays_of
from samepath.simulator.sensors.renderer import Camera, CameraFrame, RenderScene, WorldCameras

# Of each array of ``Outputs`` as a frame shows it: bytes of a pixel, the type of its numbers, how many there are (0: one).
_SHOWN: Final = (
    (4, "u1", 4), (4, "f4", 0), (1, "u1", 0), (2, "u2", 0), (3, "i1", 3), (8, "f4", 2), *[(4, "u1", 4)] * 4,
)  # fmt: skip
_MAPS: Final = 16
_LIGHTS: Final = 256
"""Maps, and weathers over them, whose light is remembered: those of worlds that are drawn side by side."""
_WORLDS_MOST: Final = 1024
_ROWS_MOST: Final = 1 << 26
"""Worlds in one launch, and faces of all of them: 2 GB."""


class RenderDevice(Protocol):
    """What runs the rules: the whole of a tick in, all pictures out."""

    name: str
    told: str
    paints_sky: bool
    """Whether it paints the sky and the light of street lamps by itself."""
    facts: Mapping[str, str]

    def empty(self, count: int, kind: Any) -> NDArray[Any]:  # noqa: ANN401
        """Memory for pictures, of the kind that the device writes to best."""
        ...

    def draw(self, prepared: PreparedScene, views: CameraArrays, out: Outputs, detail: float) -> None:
        """Draw all views into ``out``; the light of street lamps is there already, that of beams is not."""
        ...

    def close(self) -> None:
        """Let go of the device."""
        ...


class CudaRenderer:
    """Draws on a device, the first graphics card unless another is given. ``detail`` 0 draws far things as finely as near ones.

    ``told`` says in words what draws; pictures do not depend on it.
    """

    name = "cuda"

    def __init__(self, device: RenderDevice | None = None, detail: float = 1.0) -> None:
        self._device: RenderDevice = CardDevice(CudaDriver()) if device is None else device
        self.told = self._device.told
        # What the pictures depend on beside scene and cameras: nothing, as every device keeps the rules.
        self.facts: Mapping[str, str] = self._device.facts
        self._detail = detail
        self._preparer = ScenePreparer(_MAPS, _LIGHTS, paints=not self._device.paints_sky)

    def close(self) -> None:
        """Let go of the device."""
        self._device.close()

    def render(self, scene: RenderScene, cameras: Sequence[Camera], out: Sequence[CameraFrame] | None = None) -> FrameBatch:
        """Draw all cameras."""
        reused = isinstance(out, FrameBatch) and out.layout == layout_of(cameras)
        batch = out if isinstance(out, FrameBatch) and reused else FrameBatch(cameras, self._device.empty)
        batch.cameras = cameras
        if not cameras:
            return batch
        self._device.draw(self.prepare(scene), camera_arrays_of(cameras, batch.offsets), batch.arrays, self._detail)
        return batch

    def render_worlds(self, groups: Sequence[WorldCameras]) -> list[Sequence[CameraFrame]]:
        """Draw cameras of several scenes, on a card as many scenes in one launch as its memory should hold."""
        device = self._device
        if not isinstance(device, CardDevice):
            return [self.render(scene, cameras) for scene, cameras in groups]
        found: list[Sequence[CameraFrame]] = []
        under_way: deque[tuple[Pending, FrameBatch, list[int]]] = deque()

        def take() -> None:
            pending, batch, counts = under_way.popleft()
            pending.wait()
            ends = np.cumsum(counts).tolist()
            found.extend(batch[end - count : end] for end, count in zip(ends, counts, strict=True))

        for worlds, cameras, numbers in self._launches(groups):
            batch = FrameBatch(cameras, device.empty)
            views = camera_arrays_of(cameras, batch.offsets)
            pending = device.start_worlds(worlds, numbers, views, batch.arrays, self._detail)
            under_way.append((pending, batch, np.bincount(numbers, minlength=len(worlds)).tolist()))
            if len(under_way) > 1:
                take()
        while under_way:
            take()
        drawn = iter(found)
        return [next(drawn) if cameras else () for _, cameras in groups]

    def render_on_card(self, groups: Sequence[WorldCameras]) -> list[list[tuple[CardArray | None, ...]]]:
        """Draw cameras of several scenes and leave the pictures on the card: for each camera an array for each channel."""
        device = self._device
        if not isinstance(device, CardDevice):
            raise InputError("a card was wanted for pictures that stay there, but the processor draws")
        found, under_way = [], []
        for worlds, cameras, numbers in self._launches(groups):
            # Memory of this machine is only wanted for its layout: nothing is brought there.
            batch = FrameBatch(cameras, lambda count, kind: np.broadcast_to(np.zeros(1, kind), count))
            sizes = [array.itemsize * array.size for array in batch.arrays]
            memory, views = device.pictures(sizes), camera_arrays_of(cameras, batch.offsets)
            shaped = Outputs(*(np.empty(0, array.dtype) for array in batch.arrays))
            under_way.append(
                device.start_worlds(worlds, numbers, views, shaped, self._detail, brings=False, into=memory.places)
            )
            arrays = iter([_on_card(batch, memory, c) for c in range(len(cameras))])
            found.extend([list(islice(arrays, count)) for count in np.bincount(numbers, minlength=len(worlds)).tolist()])
        for pending in under_way:
            pending.wait()
        drawn = iter(found)
        return [next(drawn) if cameras else [] for _, cameras in groups]

    def _launches(self, groups: Sequence[WorldCameras]) -> Iterator[tuple[list[PreparedScene], list[Camera], I64]]:
        """Scenes that are drawn in one launch, all their cameras, and the number of each camera's scene among them.

        Scenes without cameras are left out.
        """
        worlds: list[PreparedScene] = []
        cameras: list[Camera] = []
        numbers: list[int] = []
        largest = 0
        for scene, own in groups:
            if not own:
                continue
            prepared = self.prepare(scene)
            # Every world of a launch has room for the faces of the largest.
            largest = max(largest, prepared.rows)
            if worlds and (len(worlds) == _WORLDS_MOST or (len(worlds) + 1) * largest > _ROWS_MOST):
                yield worlds, cameras, np.array(numbers, np.int64)
                worlds, cameras, numbers, largest = [], [], [], prepared.rows
            numbers.extend([len(worlds)] * len(own))
            worlds.append(prepared)
            cameras.extend(own)
        if worlds:
            yield worlds, cameras, np.array(numbers, np.int64)

    def prepare(self, scene: RenderScene) -> PreparedScene:
        """Work out what a tick needs, and refuse what no renderer could draw."""
        prepared = self._preparer.prepare(scene)
        # The same limit as that of the software renderer, so that no scene is drawn by the one and refused by the other. Places
        # in the order of drawing stay far below the 30 bits that a pixel's key has for them.
        if prepared.rows > ROW_MASK:
            raise InputError(f"a scene of at most {ROW_MASK} faces was wanted, but {prepared.rows} came")
        return prepared


def _on_card(batch: FrameBatch, memory: CardPictures, c: int) -> tuple[CardArray | None, ...]:
    """The channels of one camera in the card's memory."""
    camera, found = batch.cameras[c], []
    for k, (pixel_bytes, kind, numbers) in enumerate(_SHOWN):
        start = int(batch.offsets[c, k])
        shape = (camera.height, camera.width, numbers) if numbers else (camera.height, camera.width)
        place = memory.places[k] + pixel_bytes * start
        found.append(CardArray(place, shape, kind, memory.device, memory) if start >= 0 else None)
    return tuple(found)
