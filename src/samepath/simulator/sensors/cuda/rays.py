"""Rays on a card: a LiDAR's or radar's rays meet what they meet on the processor, to the bit (``rays.h``).

The map's pieces and the meshes stay on the card; a scan uploads where things are and its rays in one copy, and gets codes and
distances back. What the codes mean is worked out as ever, by :class:`~samepath.simulator.sensors.rays.caster.RayCaster`. Of a
LiDAR that wants nothing but points the card makes these, too, lost ones among them: most of the processor's time was that. Its
numbers of chance are drawn here, from their streams.

The rays of one sensor do not fill a card. Several scans fly at the same time, each in a lane of its own: a stream, and memory
for all that belongs to one scan.
"""

import logging
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.states import Pose
from samepath.simulator.sensors.cuda.driver import CardError, CudaDriver, Driver
from samepath.simulator.sensors.cuda.memory import DeviceMemory, blocks_of, starts_of
from samepath.simulator.sensors.rays.caster import F64, I32, I64, Aim, Hits, Points, RayCaster, RayMeshes, described
from samepath.simulator.sensors.rays.kernels import LidarBeams, RayBundle, kept_points, points_of
from samepath.simulator.sensors.renderer import RenderScene

LOG: Final = logging.getLogger("samepath.sensors")
RAY_FACE_BYTES: Final = 120
RAY_BALL_BYTES: Final = 56
RAY_WORK: Final = struct.Struct("=34Q6q6d")
LANES: Final = 4
Found = TypeVar("Found")


@dataclass(eq=False)
class _Lane:
    """What one scan at a time uses: a stream, the event behind its answer, and memory on both sides."""

    stream: Any
    done: Any
    memory: dict[str, DeviceMemory]
    staging: NDArray[np.uint8]
    flight: "_Flight | None" = None

    @classmethod
    def of(cls, driver: Driver) -> "_Lane":
        memory = {name: DeviceMemory(driver) for name in ("scan", "faces", "balls", "found")}
        return cls(driver.stream(), driver.event(), memory, driver.pinned(1 << 16))


@dataclass(eq=False)
class _Flight:
    """Rays under way, and memory of their own for what they meet: the lane holds it, too, until they have landed.

    So nothing need be copied out of the way of the next scan, and nobody is given memory that the card still writes to.
    """

    lane: _Lane
    back: NDArray[np.uint8]
    has_landed: bool = False


class CardRayCaster(RayCaster):
    """Casts rays on a card, the first one unless another is given."""

    def __init__(self, driver: Driver | None = None) -> None:
        super().__init__(1)
        self._driver: Driver = CudaDriver() if driver is None else driver
        self.told = self._driver.told
        self._lanes = deque(_Lane.of(self._driver) for _ in range(LANES))
        self._memory = {name: DeviceMemory(self._driver) for name in ("still", "meshes")}
        # What lies on the card; held, so that no other object can come to have the same identity.
        self._there: dict[str, tuple[RayMeshes, tuple[int, ...]]] = {}

    def close(self) -> None:
        """Let go of the card."""
        super().close()
        try:
            for memory in (*self._memory.values(), *(memory for lane in self._lanes for memory in lane.memory.values())):
                memory.close()
        finally:
            self._driver.close()

    def finish(self) -> None:
        """Wait until all rays have landed."""
        self._driver.finish()

    def begin(
        self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, *, details: bool = True
    ) -> Callable[[], Hits]:
        """Begin to cast; what comes back waits for the rays and tells what they met."""
        aim = self._aim(scene, pose)
        flight = self._started(aim, bundle, reach_m)
        return lambda: described(aim, bundle, *self._found(flight), details=details)

    def begin_points(
        self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, beams: LidarBeams
    ) -> Callable[[], Points]:
        """Begin to cast the rays of a LiDAR and to make their points, all of it on the card."""
        flight = self._started(self._aim(scene, pose), bundle, reach_m, beams)

        def kept() -> Points:
            self._land(flight)
            whole = flight.back.view(np.float32).reshape(-1, 4)
            points, counts = np.empty_like(whole), np.empty(len(beams.number), np.uint32)
            return points[: kept_points(whole, points, counts)], counts

        return kept

    def _nearest(self, aim: Aim, bundle: RayBundle, reach_m: float) -> tuple[F64, I64]:
        inverse, met = self._found(self._started(aim, bundle, reach_m))
        return inverse, met.astype(np.int64)

    def _started(self, aim: Aim, bundle: RayBundle, reach_m: float, beams: LidarBeams | None = None) -> _Flight:
        """Give the card a scan, in the lane that was given one longest ago; with ``beams`` its points come back."""
        driver, count, placed, pieces = self._driver, bundle.count, aim.placed, aim.pieces
        still, meshes = self._kept("still", pieces.meshes), self._kept("meshes", self._meshes)
        lane = self._lanes[0]
        if lane.flight is not None:
            self._land(lane.flight)
        # Rising, as rays are numbered row by row: so a ray finds its row.
        row_start = bundle.number + bundle.first
        arrays: list[NDArray[Any]] = [
            placed.still_axes, placed.still_position, placed.mesh, placed.axes, placed.position,
            placed.starts.astype(np.int32), bundle.row_cos, bundle.row_sin, bundle.column_cos, bundle.column_sin, row_start,
            bundle.number, bundle.rows_before, bundle.columns_before,
        ]  # fmt: skip
        kinds = ["f8", "f8", "i4", "f8", "f8", "i4", "f8", "f8", "f8", "f8", "i4", "i4", "i4", "i4"]
        losses = (0.0,) * 5
        if beams is not None and count:
            # A LiDAR's rays are a grid: where a channel and a column lie in it tells the number of every ray.
            lost, width = beams.losses(), len(bundle.column_cos)
            arrays += [beams.number[:, 0] // width, beams.number[0] % width, lost.by_rate, lost.by_intensity, lost.by_noise]
            kinds += ["i4", "i4", "f8", "f8", "f8"]
            losses = lost[3:]
        fit = [np.require(array, kind, "C") for array, kind in zip(arrays, kinds, strict=True)]
        starts = starts_of([array.nbytes for array in fit])
        if starts[-1] > len(lane.staging):
            lane.staging = driver.pinned(starts[-1] + starts[-1] // 4)
        scan = lane.memory["scan"].reserve(starts[-1])
        for start, array in zip(starts, fit, strict=False):
            if array.nbytes:
                lane.staging[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
        faces, balls = int(placed.starts[-1]), len(pieces.meshes.radius) + len(placed.mesh)
        found = lane.memory["found"].reserve(28 * count)
        points = found + 12 * count
        given = [scan + start for start in starts[:-1]]
        work = RAY_WORK.pack(
            *still, *meshes, *given[:14],
            lane.memory["faces"].reserve(RAY_FACE_BYTES * faces), lane.memory["balls"].reserve(RAY_BALL_BYTES * balls),
            found, found + 8 * count, *(given[14:] or (0,) * 5), points,
            len(pieces.meshes.radius), len(pieces.face), len(placed.mesh), len(bundle.row_cos),
            len(bundle.column_cos), count, reach_m, *losses,
        )  # fmt: skip
        driver.upload(scan, lane.staging[: starts[-1]], lane.stream)
        if count:
            driver.launch("ray_faces", blocks_of(faces, 128), 1, 128, work, lane.stream)
            driver.launch("ray_balls", blocks_of(balls, 128), 1, 128, work, lane.stream)
            driver.launch("ray_cast", blocks_of(count, 128), 1, 128, work, lane.stream)
        if beams is not None and count:
            driver.launch("ray_points", blocks_of(count, 128), 1, 128, work, lane.stream)
        back = driver.pinned((12 if beams is None else 16) * count)
        lane.flight = _Flight(lane, back)
        driver.download(back, found if beams is None else points, lane.stream)
        driver.record(lane.done, lane.stream)
        self._lanes.rotate(-1)
        return lane.flight

    def _land(self, flight: _Flight) -> None:
        """Wait for rays."""
        if not flight.has_landed:
            # Whatever comes of it: a flight that will never land must not be waited for by the next scan.
            flight.lane.flight = None
            self._driver.wait(flight.lane.done)
            flight.has_landed = True

    def _found(self, flight: _Flight) -> tuple[F64, I32]:
        """Wait for rays: one over the distance of what each met first, and its code."""
        self._land(flight)
        count = len(flight.back) // 12
        return flight.back[: 8 * count].view(np.float64), flight.back[8 * count :].view(np.int32)

    def _kept(self, name: str, meshes: RayMeshes) -> tuple[int, ...]:
        """Where meshes lie on the card, uploaded if they do not yet."""
        there = self._there.get(name)
        if there is not None and there[0] is meshes:
            return there[1]
        arrays: tuple[NDArray[Any], ...] = (meshes.vertices, meshes.faces, meshes.first_face, meshes.centre, meshes.radius)
        fit = [np.require(array, kind, "C") for array, kind in zip(arrays, ["f8", "i4", "i4", "f8", "f8"], strict=True)]
        self._there.pop(name, None)
        # Rays of other lanes may still fly through what was there.
        self._driver.finish()
        places = self._memory[name].sections([array.nbytes for array in fit])
        for place, array in zip(places, fit, strict=True):
            self._driver.upload(place, array, self._lanes[0].stream)
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

    def begin(
        self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, *, details: bool = True
    ) -> Callable[[], Hits]:
        """Begin to cast on the card; where it fails, now or on the way, the processor casts the same rays."""
        again = super().begin(scene, pose, bundle, reach_m, details=details)
        return self._tried(lambda card: card.begin(scene, pose, bundle, reach_m, details=details), again)

    def begin_points(
        self, scene: RenderScene, pose: Pose, bundle: RayBundle, reach_m: float, beams: LidarBeams
    ) -> Callable[[], Points]:
        """Begin to make the points of a LiDAR on the card; where it fails the processor makes the same ones."""
        # By the processor's own way to cast: that of this class would ask the card once more.
        cast = partial(RayCaster.begin, self, scene, pose, bundle, reach_m, details=False)
        return self._tried(
            lambda card: card.begin_points(scene, pose, bundle, reach_m, beams),
            lambda: points_of(cast()().distance_m, beams)[:2],
        )

    def _tried(self, begin: Callable[[CardRayCaster], Callable[[], Found]], again: Callable[[], Found]) -> Callable[[], Found]:
        """Begin on the card; ``again`` is what the processor does instead, where there is none or it fails, then or later."""
        card = self._card
        if card is None:
            return again
        try:
            begun = begin(card)
        except CardError as error:
            self._drop(error)
            return again

        def landed() -> Found:
            if self._card is not card:  # let go meanwhile, with all that was under way
                return again()
            try:
                return begun()
            except CardError as error:
                self._drop(error)
                return again()

        return landed

    def _drop(self, why: CardError | None = None) -> None:
        if why is not None:
            (self._say or LOG.warning)(f"rays are cast in software from now on, with the same bytes: {why}")
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
