"""A card as a device: keeps the map on the card, uploads what has moved, starts the kernels and brings the pictures back.

One stream draws, another copies. Cameras are drawn in slices, so that the pictures of one slice travel while the next is drawn;
several ticks may be under way (:meth:`CardDevice.start`). What belongs to a tick lies in a slot of its own, until its pictures
are there. What the ticks share on the card (the map, placed things, lit faces, working memory) is touched by the drawing stream
alone, so there is one order for all of it.

Two lists on the card can be too short. The kernels then say by how much, and the tick is drawn again with longer ones.
"""

import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.cuda.driver import Driver
from samepath.simulator.sensors.cuda.records import SCENE_BYTES, Arrays, fitted, packed_scene
from samepath.simulator.sensors.raster.arrays import I64, LEVELS, CameraArrays, LightArrays, Outputs
from samepath.simulator.sensors.raster.prepare import PreparedScene, StaticScene
from samepath.simulator.sensors.raster.shading import RAIN, SHADOWS

# Sizes of the records of kernels.h; a test compares them.
SEEN_BYTES: Final = 24
SIGHT_BYTES: Final = 120
PICTURE_BYTES: Final = 112
LARGE_BYTES: Final = 112
PIECE_BYTES: Final = 16
COLOUR_BYTES: Final = 12
JOB_BYTES: Final = 48
ROW_BYTES: Final = (16, 1, 2, 1, 3, 4)
"""Of each array of ``FaceRows``."""
NUMBERS_A_PIXEL: Final = (1, 1, 1, 1, 3, 2)
"""In each array of ``Outputs``."""
WORK: Final = struct.Struct("=20Q4q")
"""What follows the scene in ``Work``."""

SKY_STRIDE: Final = 0.02
"""Nodes of the sky, in radians; ``picture_of`` in paint.h."""

_MEASURES, _PAINTS = 1, 2
_SLOTS: Final = 2
_ALIGNED: Final = 256
_SLICE_PX_LEAST: Final = 4_000_000
_SLICE_PX_MOST: Final = 64_000_000
_SLICES: Final = 4
_JOBS_MOST: Final = 32_768
"""A card starts at most 65,535 rows of blocks at once."""
_SIGHTS_MOST: Final = 4_000_000
"""Instances times jobs of a slice: about 1.2 GB of lists."""


class Slice(NamedTuple):
    """Jobs that are drawn in one go, the cameras they belong to, and what working memory they take."""

    first_job: int
    jobs: int
    first_camera: int
    last_camera: int
    keys: int
    nodes: int
    fine: int
    largest_px: int
    most_nodes: int
    delivered_px: int
    tallest: int
    paints: bool


class JobList(NamedTuple):
    """The passes over pictures, as ``Job`` in kernels.h, cut into slices."""

    content: I64
    slices: tuple[Slice, ...]

    @property
    def most(self) -> int:
        """How many the largest slice has."""
        return max((part.jobs for part in self.slices), default=1)


def jobs_of(views: CameraArrays, instances: int) -> JobList:
    """Which passes the cameras need: what is measured, and colours with one sample, in one; colours of more in another."""
    size, paints = views.size, views.offset[:, 0] >= 0
    several = size[:, 2] > 1
    measures = np.any(views.offset[:, 1:] >= 0, axis=1)
    first, second = np.flatnonzero(measures | (paints & ~several)), np.flatnonzero(paints & several)
    camera = np.concatenate([first, second])
    samples = np.concatenate([np.ones(len(first), np.int64), size[second, 2]])
    flags = np.concatenate([
        np.where(measures[first], _MEASURES, 0) + np.where(~several[first] & paints[first], _PAINTS, 0),
        np.full(len(second), _PAINTS),
    ])  # fmt: skip
    # Passes of one camera stay together. Where a slice ends between them its pictures travel twice, the second time complete.
    order = np.argsort(camera, kind="stable")
    camera, samples, flags = camera[order], samples[order], flags[order]
    width, height = size[camera, 0] * samples, size[camera, 1] * samples
    pixels = width * height
    stride = np.maximum((views.focal[camera] * samples * SKY_STRIDE).astype(np.int64), 2)
    nodes = np.where(flags & _PAINTS, ((height - 1) // stride + 2) * (width // stride + 2), 0)
    fine = np.where(samples > 1, pixels, 0)
    # Small enough for copies to overlap, large enough to fill a card, bounded in memory.
    share = int(min(max(int(pixels.sum()) // _SLICES, _SLICE_PX_LEAST), _SLICE_PX_MOST))
    most = min(_JOBS_MOST, max(_SIGHTS_MOST // max(instances, 1), 1))
    before = np.cumsum(pixels) - pixels
    parts = np.stack([before // share, np.arange(len(camera)) // most])
    starts = [0, *(np.flatnonzero((parts[:, 1:] != parts[:, :-1]).any(axis=0)) + 1).tolist(), len(camera)]
    content = np.zeros((len(camera), 6), np.int64)
    content[:, 0], content[:, 1], content[:, 5] = camera, samples, flags
    slices = []
    for start, end in pairwise(starts):
        part = slice(start, end)
        for column, amount in ((2, pixels), (3, nodes), (4, fine)):
            content[part, column] = np.cumsum(amount[part]) - amount[part]
        delivered = size[camera[part], 0] * size[camera[part], 1]
        slices.append(Slice(
            start, end - start, int(camera[start]), int(camera[end - 1]), int(pixels[part].sum()), int(nodes[part].sum()),
            int(fine[part].sum()), int(pixels[part].max()), int(nodes[part].max()), int(delivered.max()),
            int(size[camera[part], 1].max()), bool((flags[part] & _PAINTS).any()),
        ))  # fmt: skip
    return JobList(content, tuple(slices) if len(camera) else ())


class DeviceMemory:
    """Memory of the card that grows when more is asked for than it has; what it held is then lost."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self.address, self._room = driver, 0, 0

    def reserve(self, size: int) -> int:
        """Make sure of so many bytes, and say where they are."""
        if size > self._room:
            # A quarter more than asked for: actors and cameras come and go.
            room = _aligned(size + size // 4)
            self.close()
            self.address, self._room = self._driver.allocate(room), room
        return self.address

    def sections(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Room for several arrays, one behind the other; where each begins."""
        starts = starts_of(sizes)
        base = self.reserve(starts[-1])
        return tuple(base + start for start in starts[:-1])

    def close(self) -> None:
        """Give it back, once nobody draws from it."""
        if self.address:
            self._driver.finish()
            address, self.address, self._room = self.address, 0, 0
            self._driver.release(address)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def starts_of(sizes: Sequence[int]) -> list[int]:
    """Where arrays of so many bytes begin when they lie one behind the other, and where the last one ends."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + _aligned(size))
    return starts


def blocks_of(amount: int, threads: int) -> int:
    """How many blocks of so many threads an amount of work takes."""
    return max(-(-amount // threads), 1)


class CardPictures:
    """Memory of the card that lives as long as somebody looks into it. ``places`` are where each array begins."""

    def __init__(self, driver: Driver, sizes: Sequence[int]) -> None:
        self._memory = DeviceMemory(driver)
        # At least a byte: an array without numbers has an address all the same.
        self.places = self._memory.sections([max(size, 1) for size in sizes])
        self.device = driver.dlpack_device

    def __del__(self) -> None:
        # Whoever looked into it last may do so when the card is gone already: nobody is left to be told.
        with suppress(Exception):
            self._memory.close()


@dataclass(frozen=True, eq=False)
class _Plan:
    """All that it takes to draw a tick, again if need be: nothing in it changes while the tick is under way."""

    light: LightArrays
    jobs: JobList
    cameras: int
    instances: int
    fixed: int
    rows: int
    detail: float
    has_vignette: bool
    has_samples: bool
    staged: int
    moves: int
    longest_move: int
    tick_at: Mapping[str, int]
    views_at: tuple[int, ...]
    out_at: tuple[int, ...]
    parts: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each slice: of which channel, from which number up to which."""


@dataclass(eq=False)
class _Slot:
    """One tick: what is uploaded for it, where its pictures lie on the card, and the event behind them."""

    tick: DeviceMemory
    pictures: DeviceMemory
    counts: DeviceMemory
    staging: NDArray[np.uint8]
    counted: NDArray[np.uint8]
    copied: Any
    lists: tuple[int, int] = (0, 0)
    pending: "Pending | None" = None

    @classmethod
    def of(cls, driver: Driver) -> "_Slot":
        tick, pictures, counts = (DeviceMemory(driver) for _ in range(3))
        return cls(tick, pictures, counts, driver.pinned(1 << 16), driver.pinned(4096), driver.event())


@dataclass(eq=False)
class Pending:
    """Pictures under way: they are in ``out`` once :meth:`wait` has returned.

    ``addresses`` are where the arrays of ``out`` lie on the card, until the second tick after this one is started.
    """

    device: "CardDevice"
    out: Outputs
    addresses: tuple[int, ...]
    slot: _Slot | None
    plan: _Plan
    brings: bool
    redrawn: int = 0

    def wait(self) -> None:
        """Wait for the pictures; draw them again where a list was too short."""
        self.device.collect(self)


class CardDevice:
    """Runs the rules on a card. ``larges`` and ``pieces`` are how long its two lists are to begin with."""

    name = "card"
    facts: Mapping[str, str] = MappingProxyType({})

    def __init__(self, driver: Driver, larges: int = 1 << 16, pieces: int = 1 << 18) -> None:
        self.driver = driver
        self.told = driver.told
        self._drawing, self._copying, self._drawn = driver.stream(), driver.stream(), driver.event()
        names = (
            "meshes", "walls", "weather", "glow", "instances", "rows", "marks", "pictures", "found", "seen", "sights",
            "casters", "caster_first", "totals", "keys", "nodes", "fine", "larges", "pieces",
        )  # fmt: skip
        self._memory = {name: DeviceMemory(driver) for name in names}
        self._slots = [_Slot.of(driver) for _ in range(_SLOTS)]
        self._ring: deque[_Slot] = deque(self._slots)
        self._larges, self._pieces = larges, pieces
        # What lies on the card. The objects themselves are held, so that no other can come to have the same identity.
        self._static: StaticScene | None = None
        self._sky: object = None
        self._room_instances = self._room_rows = 0
        self._mesh_at: tuple[int, ...] = ()
        self._wall_at = 0
        self._weather_at: Mapping[str, int] = {}
        self._instances_at: tuple[int, ...] = ()
        self._rows_at: tuple[int, ...] = ()
        self._relight, self._had_beams = True, False
        self._jobs_key: object = None
        self._jobs: tuple[JobList, tuple[tuple[tuple[int, int, int], ...], ...]]

    def close(self) -> None:
        """Let go of the card, also of one that has failed."""
        try:
            for slot in self._slots:
                for memory in (slot.tick, slot.pictures, slot.counts):
                    memory.close()
            for memory in self._memory.values():
                memory.close()
        finally:
            self._slots, self._ring = [], deque()
            self.driver.close()

    def empty(self, count: int, kind: Any) -> NDArray[Any]:  # noqa: ANN401
        """Memory for pictures that the card can copy to by itself, while it draws the next ones."""
        size = np.dtype(kind).itemsize * count
        return self.driver.pinned(size).view(kind) if size else np.empty(0, kind)

    def pictures(self, sizes: Sequence[int]) -> "CardPictures":
        """Memory of the card for pictures that stay there."""
        return CardPictures(self.driver, sizes)

    def draw(self, prepared: PreparedScene, views: CameraArrays, out: Outputs, detail: float) -> None:
        """Draw all views into ``out``."""
        self.start(prepared, views, out, detail).wait()

    def start(
        self,
        prepared: PreparedScene,
        views: CameraArrays,
        out: Outputs,
        detail: float,
        *,
        brings: bool = True,
        into: tuple[int, ...] = (),
    ) -> Pending:
        """Start to draw all views into ``out``, which must be left alone until the pictures were waited for.

        Without ``brings`` the pictures stay on the card, in memory of the slot, or at the addresses of ``into``, one for each
        array of ``out``.
        """
        wanted, slot = Outputs(*fitted(out)), self._ring[0]
        if slot.pending is not None:
            self.collect(slot.pending)
        self._keep(prepared)
        plan = self._stage(slot, prepared, CameraArrays(*fitted(views)), wanted, detail)
        if into:
            plan = replace(plan, out_at=into)
        pending = Pending(self, wanted, plan.out_at, slot, plan, brings)
        self._enqueue(pending, slot, afresh=False)
        slot.pending = pending
        self._ring.rotate(-1)
        return pending

    def collect(self, pending: Pending) -> None:
        """Wait until the pictures of a tick are there."""
        slot = pending.slot
        if slot is None:
            return
        try:
            self.driver.wait(slot.copied)
            # Twice at most: the counts say how long the lists must be, and drawing again counts the same.
            while (needs := self._overflow(slot, pending.plan)) is not None:
                self._larges, self._pieces = max(self._larges, needs[0]), max(self._pieces, needs[1])
                pending.redrawn += 1
                self._enqueue(pending, slot, afresh=True)
                self.driver.wait(slot.copied)
        finally:
            # Also where the card has failed: a tick that will never come must not be waited for by the next one.
            slot.pending = pending.slot = None

    @staticmethod
    def _overflow(slot: _Slot, plan: _Plan) -> tuple[int, int] | None:
        """How long the two lists must be, where one was too short."""
        slices = len(plan.jobs.slices)
        counts = slot.counted[: 32 * slices].view(np.uint64).reshape(2 * slices, 2)
        larges, pieces = (int(k) for k in counts.max(axis=0))
        if larges <= slot.lists[0] and pieces <= slot.lists[1]:
            return None
        return larges + larges // 4, pieces + pieces // 4

    def _keep(self, prepared: PreparedScene) -> None:
        """Bring what stays from tick to tick onto the card: the map, the weather, and room for all that is placed."""
        static, light, placed, rows = prepared
        instances = len(placed.mesh)
        new_map, new_light = static is not self._static, static is not self._static or light.sky is not self._sky
        grows = instances > self._room_instances or rows > self._room_rows
        if not (new_light or grows):
            return
        # All of this exchanges what ticks under way may have to be drawn again from, so they must be there first.
        for slot in self._slots:
            if slot.pending is not None:
                self.collect(slot.pending)
        # Until all is there, nothing is: an upload may fail half way.
        self._static = self._sky = None
        if new_map:
            self._mesh_at = self._kept("meshes", fitted(static.meshes))
            (self._wall_at,) = self._kept("walls", fitted(light)[6:7])
        if new_light:
            arrays = fitted(light._replace(glow=static.street_glow))
            names = ("flat", "sky", "noise", "lamps", "glow")
            chosen = tuple(arrays[LightArrays._fields.index(name)] for name in names)
            self._weather_at = dict(zip(names, self._kept("weather", chosen), strict=True))
        if grows:
            self._room_instances, self._room_rows = instances + instances // 4 + 64, rows + rows // 4
        all_placed = fitted(placed)
        self._instances_at = self._memory["instances"].sections([self._room_instances * _row_bytes(a) for a in all_placed])
        self._rows_at = self._memory["rows"].sections([self._room_rows * each for each in ROW_BYTES])
        for address, array in zip(self._instances_at, all_placed, strict=True):
            self.driver.upload(address, array, self._drawing)
        self.driver.finish()
        self._static, self._sky, self._relight = static, light.sky, True

    def _kept(self, name: str, arrays: Arrays) -> tuple[int, ...]:
        places = self._memory[name].sections([array.nbytes for array in arrays])
        for place, array in zip(places, arrays, strict=True):
            self.driver.upload(place, array, self._drawing)
        # The arrays may be copies that nobody else holds.
        self.driver.finish()
        return places

    def _stage(self, slot: _Slot, prepared: PreparedScene, views: CameraArrays, out: Outputs, detail: float) -> _Plan:
        """Put all that is new at this tick into one piece of memory, which goes to the card in one copy."""
        static, light, placed, rows = prepared
        light = light._replace(glow=static.street_glow)
        fixed, instances = len(static.fixed), len(placed.mesh)
        jobs, parts = self._jobs_of(views, instances)
        moving = tuple(array[fixed:] for array in fitted(placed)) if instances > fixed else ()
        numbers, beams = (np.require(array, kind, "C") for array, kind in ((light.numbers, "f8"), (light.beams, "f4")))
        moves = np.zeros((len(moving), 3), np.int64)
        arrays: list[NDArray[Any]] = [*views, numbers, beams, jobs.content, moves, *moving]
        starts = starts_of([array.nbytes for array in arrays])
        if starts[-1] > len(slot.staging):
            slot.staging = self.driver.pinned(starts[-1] + starts[-1] // 4)
        tick = slot.tick.reserve(starts[-1])
        at = [tick + start for start in starts]
        first = len(arrays) - len(moving)
        for k, array in enumerate(moving):
            moves[k] = self._instances_at[k] + fixed * _row_bytes(array), at[first + k], array.nbytes
        for start, array in zip(starts, arrays, strict=False):
            # Bytes as they lie there: the array is in one piece, and empty ones have no bytes to look at.
            if array.nbytes:
                slot.staging[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
        slices = len(jobs.slices)
        if 32 * slices > len(slot.counted):
            slot.counted = self.driver.pinned(64 * slices)
        slot.counts.reserve(32 * slices)
        named = dict(zip(("numbers", "beams", "jobs", "moves"), at[len(views) : first], strict=True))
        return _Plan(
            light, jobs, len(views.focal), instances, fixed, rows, detail, bool((views.vignette > 0.0).any()),
            bool((views.size[:, 2] > 1).any()), starts[-1], len(moving), max((array.nbytes for array in moving), default=0),
            named, tuple(at[: len(views)]), slot.pictures.sections([array.nbytes for array in out]),
            parts,
        )  # fmt: skip

    def _jobs_of(self, views: CameraArrays, instances: int) -> tuple[JobList, tuple[tuple[tuple[int, int, int], ...], ...]]:
        """The jobs of a tick, and which numbers of which channels each slice brings; kept while cameras stay the same."""
        key = (views.size.tobytes(), views.offset.tobytes(), views.focal.tobytes(), instances)
        if key != self._jobs_key:
            jobs = jobs_of(views, instances)
            self._jobs = jobs, tuple(tuple(_parts(views, part)) for part in jobs.slices)
            self._jobs_key = key
        return self._jobs

    def _enqueue(self, pending: Pending, slot: _Slot, *, afresh: bool) -> None:
        """Give the card a tick. ``afresh`` takes nothing from ticks before it: others may have come in between."""
        plan, driver, drawing = pending.plan, self.driver, self._drawing
        record = self._record_of(plan, slot)
        # For the whole tick at once: no memory may grow, and so move, between two slices.
        common = record(0, 0)
        driver.upload(slot.tick.address, slot.staging[: plan.staged], drawing)
        if plan.moves:
            driver.launch("scatter", blocks_of(plan.longest_move, 256), plan.moves, 256, common, drawing)
        beams = len(plan.light.beams) > 0
        if beams:
            driver.launch("glow", blocks_of(plan.light.glow.size, 256), 1, 256, common, drawing)
        # Fixed things keep their light, unless beams fall on them now or have just left them. What moves is always lit anew.
        kept = 0 if afresh or self._relight or beams or self._had_beams else LEVELS * plan.fixed
        lit = self._memory["marks"].address + LEVELS * self._room_instances
        driver.clear(lit + kept, LEVELS * plan.instances - kept, drawing)
        self._relight, self._had_beams = False, beams
        driver.clear(slot.counts.address, 32 * len(plan.jobs.slices), drawing)
        for number, part in enumerate(plan.jobs.slices):
            self._draw_slice(plan, part, record(part.first_job, part.jobs, number))
            driver.record(self._drawn, drawing)
            driver.hold(self._copying, self._drawn)
            if pending.brings:
                for channel, start, end in plan.parts[number]:
                    array = pending.out[channel]
                    driver.download(array[start:end], plan.out_at[channel] + start * array.itemsize, self._copying)
        driver.download(slot.counted[: 32 * len(plan.jobs.slices)], slot.counts.address, self._copying)
        driver.record(slot.copied, self._copying)

    def _draw_slice(self, plan: _Plan, part: Slice, work: bytes) -> None:
        driver, drawing, memory = self.driver, self._drawing, self._memory
        jobs, wide = part.jobs, driver.multiprocessors

        def launch(kernel: str, blocks: int, rows: int, threads: int) -> None:
            driver.launch(kernel, blocks, rows, threads, work, drawing)

        # As many blocks for each picture as keep the card busy; with many pictures few will do.
        share = max(blocks_of(16 * wide, jobs), 8)
        # All of them: the three counts of a picture lie as far apart as the largest slice needs.
        driver.clear(memory["totals"].address, 16 * plan.jobs.most, drawing)
        driver.clear(memory["marks"].address, LEVELS * plan.instances, drawing)
        driver.clear(memory["keys"].address, 8 * part.keys, drawing)
        launch("begin", blocks_of(jobs, 64), 1, 64)
        launch("cull", blocks_of(plan.instances, 128), jobs, 128)
        launch("rank", blocks_of(plan.instances, 128), jobs, 128)
        launch("light", blocks_of(plan.rows, 128), 1, 128)
        launch("settle", blocks_of(LEVELS * plan.instances, 256), 1, 256)
        launch("raster", share, jobs, 128)
        launch("fill", 8 * wide, 1, 256)
        if part.paints:
            launch("nodes", blocks_of(part.most_nodes, 128), jobs, 128)
            if plan.light.numbers[SHADOWS] > 0.0:
                launch("cast", blocks_of(plan.instances, 128), jobs, 128)
                launch("shadow_raster", share, jobs, 128)
                launch("shadow_fill", 8 * wide, 1, 256)
        launch("paint", blocks_of(part.largest_px, 256), jobs, 256)
        if plan.has_samples:
            launch("average", blocks_of(part.delivered_px, 256), jobs, 256)
        if part.paints and plan.light.numbers[RAIN] > 0.0:
            launch("rain", blocks_of(part.tallest, 64), jobs, 64)
        if part.paints and plan.has_vignette:
            launch("vignette", blocks_of(part.delivered_px, 256), jobs, 256)

    def _record_of(self, plan: _Plan, slot: _Slot) -> "_WorkRecord":
        """What kernels work on, with room for the largest slice."""
        memory, slices = self._memory, plan.jobs.slices
        jobs = plan.jobs.most
        listed = jobs * plan.instances
        slot.lists = (self._larges, self._pieces)
        totals = memory["totals"].reserve(16 * jobs)
        marks = memory["marks"].reserve(2 * LEVELS * self._room_instances)
        glow = self._weather_at["glow"]
        if len(plan.light.beams):
            glow = memory["glow"].reserve(plan.light.glow.nbytes)
        weather, tick = self._weather_at, plan.tick_at
        light_at = (
            tick["numbers"], weather["flat"], weather["sky"], weather["noise"], weather["lamps"], tick["beams"], self._wall_at,
            glow,
        )  # fmt: skip
        scene = packed_scene(
            [*self._mesh_at, *self._instances_at, *self._rows_at, *light_at, *plan.views_at, *plan.out_at],
            plan.instances, plan.light, plan.cameras, plan.detail,
        )  # fmt: skip
        lists = (
            memory["pictures"].reserve(PICTURE_BYTES * jobs), memory["found"].reserve(SEEN_BYTES * listed),
            memory["seen"].reserve(SEEN_BYTES * listed), memory["sights"].reserve(SIGHT_BYTES * listed),
            memory["casters"].reserve(SIGHT_BYTES * listed), memory["caster_first"].reserve(4 * listed),
            totals, totals + 4 * jobs, totals + 8 * jobs, marks, marks + LEVELS * self._room_instances,
            memory["keys"].reserve(8 * max((part.keys for part in slices), default=1)),
            memory["nodes"].reserve(COLOUR_BYTES * max((part.nodes for part in slices), default=1)),
            memory["fine"].reserve(4 * max((part.fine for part in slices), default=1)),
            memory["larges"].reserve(LARGE_BYTES * self._larges), memory["pieces"].reserve(PIECE_BYTES * self._pieces),
        )  # fmt: skip
        counts, street_glow = slot.counts.address, weather["glow"]
        return _WorkRecord(scene, lists, tick, counts, street_glow, self._larges, self._pieces, plan.rows)


@dataclass(frozen=True, eq=False, slots=True)
class _WorkRecord:
    """``Work`` of kernels.h, for one slice of a tick after the other."""

    scene: bytes
    lists: tuple[int, ...]
    tick: Mapping[str, int]
    counts: int
    street_glow: int
    larges: int
    pieces: int
    rows: int

    def __call__(self, first_job: int, jobs: int, number: int = 0) -> bytes:
        """The record of the slice with a number."""
        return self.scene + WORK.pack(
            self.tick["jobs"] + JOB_BYTES * first_job, *self.lists, self.counts + 32 * number, self.tick["moves"],
            self.street_glow, jobs, self.larges, self.pieces, self.rows,
        )  # fmt: skip


def records_bytes() -> int:
    """How long ``Work`` is."""
    return SCENE_BYTES + WORK.size


def _row_bytes(array: NDArray[Any]) -> int:
    """What one row of an array takes."""
    return array.itemsize * int(np.prod(array.shape[1:]))


def _parts(views: CameraArrays, part: Slice) -> Iterator[tuple[int, int, int]]:
    """Which numbers of which channels the pictures of a slice are; those of neighbouring cameras lie side by side."""
    cameras = slice(part.first_camera, part.last_camera + 1)
    pixels = views.size[cameras, 0] * views.size[cameras, 1]
    for channel, each in enumerate(NUMBERS_A_PIXEL):
        offset = views.offset[cameras, channel]
        has = np.flatnonzero(offset >= 0)
        if len(has):
            yield channel, each * int(offset[has[0]]), each * int(offset[has[-1]] + pixels[has[-1]])
