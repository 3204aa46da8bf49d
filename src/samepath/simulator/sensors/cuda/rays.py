"""Rays on a card: a LiDAR's or radar's rays meet what they meet on the processor, to the bit (``rays.h``).

The map's pieces and the meshes stay on the card; a scan uploads where things are and its rays in one copy, and gets codes and
distances back. What the codes mean is worked out as ever, by :class:`~samepath.simulator.sensors.rays.caster.RayCaster`.
"""

import logging
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.cuda.driver import CardError, CudaDriver, Driver
from samepath.simulator.sensors.cuda.memory import DeviceMemory, blocks_of, starts_of
from samepath.simulator.sensors.rays.caster import F64, I32, I64, PlacedForRays, RayCaster, RayMeshes
from samepath.simulator.sensors.rays.kernels import RayBundle

LOG: Final = logging.getLogger("samepath.sensors")
RAY_FACE_BYTES: Final = 120
RAY_BALL_BYTES: Final = 56
RAY_WORK: Final = struct.Struct("=28Q6qd")


class CardRayCaster(RayCaster):
    """Casts rays on a card, the first one unless another is given."""

    def __init__(self, driver: Driver | None = None) -> None:
        super().__init__(1)
        self._driver: Driver = CudaDriver() if driver is None else driver
        self.told = self._driver.told
        self._stream, self._done = self._driver.stream(), self._driver.event()
        self._memory = {name: DeviceMemory(self._driver) for name in ("still", "meshes", "scan", "faces", "balls", "found")}
        self._staging = self._driver.pinned(1 << 16)
        self._back = self._driver.pinned(1 << 16)
        # What lies on the card; held, so that no other object can come to have the same identity.
        self._there: dict[str, tuple[RayMeshes, tuple[int, ...]]] = {}

    def close(self) -> None:
        """Let go of the card."""
        super().close()
        try:
            for memory in self._memory.values():
                memory.close()
        finally:
            self._driver.close()

    def nearest(self, placed: PlacedForRays, first_face: I32, bundle: RayBundle, reach_m: float) -> tuple[F64, I64]:
        """One over the distance of what each ray meets first, and its code."""
        driver, count = self._driver, bundle.count
        still, meshes = self._kept("still", self._pieces.meshes), self._kept("meshes", self._meshes)
        # Rising, as rays are numbered row by row: so a ray finds its row.
        row_start = bundle.number + bundle.first
        arrays: list[NDArray[Any]] = [
            placed.still_axes, placed.still_position, placed.mesh, placed.axes, placed.position,
            placed.starts.astype(np.int32), bundle.row_cos, bundle.row_sin, bundle.column_cos, bundle.column_sin, row_start,
            bundle.number, bundle.rows_before, bundle.columns_before,
        ]  # fmt: skip
        kinds = ["f8", "f8", "i4", "f8", "f8", "i4", "f8", "f8", "f8", "f8", "i4", "i4", "i4", "i4"]
        fit = [np.require(array, kind, "C") for array, kind in zip(arrays, kinds, strict=True)]
        starts = starts_of([array.nbytes for array in fit])
        if starts[-1] > len(self._staging):
            self._staging = driver.pinned(starts[-1] + starts[-1] // 4)
        if 12 * count > len(self._back):
            self._back = driver.pinned(16 * count)
        scan = self._memory["scan"].reserve(starts[-1])
        for start, array in zip(starts, fit, strict=False):
            if array.nbytes:
                self._staging[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
        faces, balls = int(placed.starts[-1]), len(self._pieces.meshes.radius) + len(placed.mesh)
        found = self._memory["found"].reserve(12 * count)
        work = RAY_WORK.pack(
            *still, *meshes, *(scan + start for start in starts[:-1]),
            self._memory["faces"].reserve(RAY_FACE_BYTES * faces), self._memory["balls"].reserve(RAY_BALL_BYTES * balls),
            found, found + 8 * count,
            len(self._pieces.meshes.radius), len(self._pieces.face), len(placed.mesh), len(bundle.row_cos),
            len(bundle.column_cos), count, reach_m,
        )  # fmt: skip
        driver.upload(scan, self._staging[: starts[-1]], self._stream)
        if count:
            driver.launch("ray_faces", blocks_of(faces, 128), 1, 128, work, self._stream)
            driver.launch("ray_balls", blocks_of(balls, 128), 1, 128, work, self._stream)
            driver.launch("ray_cast", blocks_of(count, 128), 1, 128, work, self._stream)
        driver.download(self._back[: 12 * count], found, self._stream)
        driver.record(self._done, self._stream)
        driver.wait(self._done)
        # Copies: the memory is written over by the next scan.
        inverse = self._back[: 8 * count].view(np.float64).copy()
        return inverse, self._back[8 * count : 12 * count].view(np.int32).astype(np.int64)

    def _kept(self, name: str, meshes: RayMeshes) -> tuple[int, ...]:
        """Where meshes lie on the card, uploaded if they do not yet."""
        there = self._there.get(name)
        if there is not None and there[0] is meshes:
            return there[1]
        arrays: tuple[NDArray[Any], ...] = (meshes.vertices, meshes.faces, meshes.first_face, meshes.centre, meshes.radius)
        fit = [np.require(array, kind, "C") for array, kind in zip(arrays, ["f8", "i4", "i4", "f8", "f8"], strict=True)]
        self._there.pop(name, None)
        places = self._memory[name].sections([array.nbytes for array in fit])
        for place, array in zip(places, fit, strict=True):
            self._driver.upload(place, array, self._stream)
        self._driver.finish()
        self._there[name] = meshes, places
        return places


class AutoRayCaster(RayCaster):
    """Casts on a card as long as that works, then on the processor with its ``threads``; ``say`` or the log is told."""

    def __init__(
        self,
        threads: int,
        say: Callable[[str], None] | None = None,
        card: Callable[[], CardRayCaster] = CardRayCaster,
    ) -> None:
        super().__init__(threads)
        self._say = say
        self._card: CardRayCaster | None = None
        try:
            self._card = card()
        except CardError as error:
            (say or LOG.info)(f"rays are cast in software: {error}")

    def nearest(self, placed: PlacedForRays, first_face: I32, bundle: RayBundle, reach_m: float) -> tuple[F64, I64]:
        """One over the distance of what each ray meets first, and its code."""
        if self._card is not None:
            self._card.take_map(self)
            try:
                return self._card.nearest(placed, first_face, bundle, reach_m)
            except CardError as error:
                (self._say or LOG.warning)(f"rays are cast in software from now on, with the same bytes: {error}")
                self._drop()
        return super().nearest(placed, first_face, bundle, reach_m)

    def _drop(self) -> None:
        lost, self._card = self._card, None
        try:
            if lost is not None:
                lost.close()
        except CardError as error:
            LOG.debug("the card was not closed: %s", error)

    def close(self) -> None:
        """Let go of threads and card."""
        super().close()
        self._drop()
