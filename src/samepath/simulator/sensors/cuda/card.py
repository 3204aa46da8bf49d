"""A card as a device: uploads what has moved in any number of worlds, starts the kernels and brings the pictures back.

One stream draws, another copies. Cameras are drawn in slices, so that the pictures of one slice travel while the next is drawn;
several ticks may be under way (:meth:`CardDevice.start`). What belongs to a tick lies in a slot of its own, until its pictures
are there. What the ticks share on the card (:mod:`.worlds`, working memory) is touched by the drawing stream alone, so there is
one order for all of it.

Lists on the card can be too short. The kernels then say by how much, and the tick is drawn again with longer ones.
"""

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.cuda.driver import Driver
from samepath.simulator.sensors.cuda.jobs import JobList, Slice, jobs_of
from samepath.simulator.sensors.cuda.memory import CardPictures, DeviceMemory, blocks_of, starts_of
from samepath.simulator.sensors.cuda.records import TYPES, fitted
from samepath.simulator.sensors.cuda.worlds import COLUMN, INSTANCE_BYTES, WORLD_BYTES, WorldStore
from samepath.simulator.sensors.raster.arrays import I64, LEVELS, CameraArrays, InstanceArrays, LightArrays, Outputs
from samepath.simulator.sensors.raster.prepare import PreparedScene
from samepath.simulator.sensors.raster.shading import NUMBERS, RAIN, SHADOWS

# Sizes of the records of kernels.h; a test compares them.
SEEN_BYTES: Final = 24
SIGHT_BYTES: Final = 120
PICTURE_BYTES: Final = 112
LARGE_BYTES: Final = 112
PIECE_BYTES: Final = 16
COLOUR_BYTES: Final = 12
JOB_BYTES: Final = 72
LISTS: Final = 16
COUNT_STRIDE: Final = 16
FACE_THREADS: Final = 128
WORK: Final = struct.Struct("=19Q6q")
"""What follows the world in ``Work``."""

_SLOTS: Final = 2
_COUNTS: Final = 2 * LISTS * COUNT_STRIDE  # of each slice: pieces of faces, then of shadows, in every list
_NUMBERS, _BEAMS, _GLOW = (COLUMN["LightArrays"] + LightArrays._fields.index(name) for name in ("numbers", "beams", "glow"))


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where everything of a tick lies in the memory that is uploaded; the same as long as nobody comes or goes."""

    key: object
    to: tuple[NDArray[Any], ...]
    at: tuple[int, ...]
    size: int
    longest_move: int
    out_at: tuple[int, ...]


@dataclass(eq=False)
class _Slot:
    """One tick: what is uploaded for it, where its pictures lie on the card, and the event behind them."""

    tick: DeviceMemory
    pictures: DeviceMemory
    staging: NDArray[np.uint8]
    counted: NDArray[np.uint8]
    copied: Any
    layout: _Layout | None = None
    room: int = 0  # of each list of pieces
    pending: "Pending | None" = None

    @classmethod
    def of(cls, driver: Driver) -> "_Slot":
        tick, pictures = (DeviceMemory(driver) for _ in range(2))
        return cls(tick, pictures, driver.pinned(1 << 16), driver.pinned(4096), driver.event())


@dataclass(frozen=True, eq=False)
class _Plan:
    """All that it takes to draw a tick, again if need be: nothing in it changes while the tick is under way."""

    records: I64
    jobs: JobList
    layout: _Layout
    instances: int
    rows: int
    glow_cells: int  # of the largest world that beams fall into, 0 without
    shadows: bool
    rain: bool
    has_vignette: bool
    has_samples: bool
    out_at: tuple[int, ...]

    @property
    def worlds(self) -> int:
        """How many there are."""
        return len(self.records)


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
    """Runs the rules on a card. ``pieces`` is how long each of its lists is to begin with."""

    name = "card"
    paints_sky = True
    facts: Mapping[str, str] = MappingProxyType({})

    def __init__(self, driver: Driver, pieces: int = 1 << 14) -> None:
        self.driver = driver
        self.told = driver.told
        self._drawing, self._copying, self._drawn = driver.stream(), driver.stream(), driver.event()
        names = (
            "glow", "pictures", "found", "seen", "sights", "casters", "caster_first", "face_rows", "totals", "keys", "nodes",
            "fine", "larges", "pieces",
        )  # fmt: skip
        self._memory = {name: DeviceMemory(driver) for name in names}
        self._store = WorldStore(driver, self._drawing, self._settle)
        self._slots = [_Slot.of(driver) for _ in range(_SLOTS)]
        self._ring: deque[_Slot] = deque(self._slots)
        self._pieces = pieces
        self._jobs: tuple[object, JobList] = (None, JobList(np.zeros((0, 9), np.int64), (), ()))
        self._lists: tuple[JobList, int, tuple[int, ...]] = (self._jobs[1], -1, ())

    def close(self) -> None:
        """Let go of the card, also of one that has failed."""
        try:
            for slot in self._slots:
                slot.tick.close()
                slot.pictures.close()
            for memory in self._memory.values():
                memory.close()
            self._store.close()
        finally:
            self._slots, self._ring = [], deque()
            self.driver.close()

    def empty(self, count: int, kind: Any) -> NDArray[Any]:  # noqa: ANN401
        """Memory for pictures that the card can copy to by itself, while it draws the next ones."""
        size = np.dtype(kind).itemsize * count
        return self.driver.pinned(size).view(kind) if size else np.empty(0, kind)

    def pictures(self, sizes: Sequence[int]) -> CardPictures:
        """Memory of the card for pictures that stay there."""
        return CardPictures(self.driver, sizes)

    def draw(self, prepared: PreparedScene, views: CameraArrays, out: Outputs, detail: float) -> None:
        """Draw all views into ``out``."""
        self.start(prepared, views, out, detail).wait()

    def start(
        self, prepared: PreparedScene, views: CameraArrays, out: Outputs, detail: float, *, brings: bool = True
    ) -> Pending:
        """Start to draw all views of one world into ``out``; see :meth:`start_worlds`."""
        return self.start_worlds([prepared], np.zeros(len(views.focal), np.int64), views, out, detail, brings=brings)

    def start_worlds(
        self,
        worlds: Sequence[PreparedScene],
        world: I64,
        views: CameraArrays,
        out: Outputs,
        detail: float,
        *,
        brings: bool = True,
        into: tuple[int, ...] = (),
    ) -> Pending:
        """Start to draw all views into ``out``, which must be left alone until the pictures were waited for.

        ``world`` is the number of each view's world, never falling. Without ``brings`` the pictures stay on the card, in memory
        of the slot, or at the addresses of ``into``, one for each array of ``out``.
        """
        wanted, slot = Outputs(*fitted(out)), self._ring[0]
        if slot.pending is not None:
            self.collect(slot.pending)
        self._store.keep(worlds)
        plan = self._stage(slot, worlds, world, views, wanted, detail, into)
        pending = Pending(self, wanted, plan.out_at, slot, plan, brings)
        self._enqueue(pending, slot)
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
                self._pieces = max(self._pieces, needs)
                pending.redrawn += 1
                self._light_afresh(pending.plan, slot)
                self._enqueue(pending, slot)
                self.driver.wait(slot.copied)
        finally:
            # Also where the card has failed: a tick that will never come must not be waited for by the next one.
            slot.pending = pending.slot = None

    def _settle(self) -> None:
        for slot in self._slots:
            if slot.pending is not None:
                self.collect(slot.pending)

    @staticmethod
    def _overflow(slot: _Slot, plan: _Plan) -> int | None:
        """How long the lists must be, where one was too short."""
        counts = slot.counted[: 8 * _COUNTS * len(plan.jobs.slices)].view(np.uint64)
        pieces = int(counts[::COUNT_STRIDE].max(initial=0))
        return None if pieces <= slot.room else pieces + pieces // 4

    def _light_afresh(self, plan: _Plan, slot: _Slot) -> None:
        """Take nothing from ticks before a tick that is drawn again, nor from it later: others may have come in between."""
        plan.records[:, COLUMN["kept"]] = 0
        slot.layout.to[_RECORDS][:] = plan.records  # type: ignore[union-attr]
        self._store.forget_light(plan.worlds)

    def _stage(
        self,
        slot: _Slot,
        worlds: Sequence[PreparedScene],
        world: I64,
        views: CameraArrays,
        out: Outputs,
        detail: float,
        into: tuple[int, ...],
    ) -> _Plan:
        """Put all that is new at this tick into one piece of memory, which goes to the card in one copy."""
        moving = _together([scene.moving for scene in worlds])
        beams = _one([scene.shade.beams for scene in worlds])
        numbers = _one([scene.shade.numbers[None] for scene in worlds])
        jobs = self._jobs_of(views, world, worlds)
        layout = self._layout_of(slot, worlds, views, beams, jobs, out)
        given = (*views, numbers, beams, *moving)
        for to, array in zip(layout.to[:_RECORDS], given, strict=True):
            to[...] = array
        dark = [scene.shade.glow.size for scene in worlds if len(scene.shade.beams)]

        def fill(records: I64) -> None:
            count = len(worlds)
            records[:, COLUMN["CameraArrays"] : COLUMN["CameraArrays"] + len(views)] = layout.at[: len(views)]
            records[:, COLUMN["Outputs"] : COLUMN["Outputs"] + len(out)] = into or layout.out_at
            records[:, COLUMN["cameras"]] = len(views.focal)
            records[:, COLUMN["detail"]] = np.float64(detail).view(np.int64)
            records[:, _NUMBERS] = layout.at[len(views)] + 8 * NUMBERS * np.arange(count)
            lamps = records[:, COLUMN["beams"]]
            records[:, _BEAMS] = layout.at[len(views) + 1] + 32 * (np.cumsum(lamps) - lamps)
            if dark:
                # Beams are added to a copy, a cell by cell sum of its own for each world that has any.
                shone = np.flatnonzero(lamps)
                glow = self._memory["glow"]
                if not glow.holds(4 * max(dark) * len(shone)):
                    # It moves: what was to be drawn again from it must be drawn before.
                    self._settle()
                at = glow.reserve(4 * max(dark) * len(shone))
                records[shone, _GLOW] = at + 4 * max(dark) * np.arange(len(shone))

        records = self._store.records_of(worlds, fill)
        layout.to[_RECORDS][:] = records
        return _Plan(
            records, jobs, layout, max([scene.instances for scene in worlds]), max([scene.rows for scene in worlds]),
            max(dark, default=0), bool((numbers[:, SHADOWS] > 0.0).any()), bool((numbers[:, RAIN] > 0.0).any()),
            bool((views.vignette > 0.0).any()), bool((views.size[:, 2] > 1).any()), into or layout.out_at,
        )  # fmt: skip

    def _layout_of(
        self,
        slot: _Slot,
        worlds: Sequence[PreparedScene],
        views: CameraArrays,
        beams: NDArray[np.float32],
        jobs: JobList,
        out: Outputs,
    ) -> _Layout:
        """Where everything lies; jobs, moves and zeros are there already when this returns."""
        counts = tuple([len(scene.moving.mesh) for scene in worlds])
        cameras, slices = len(views.focal), len(jobs.slices)
        sizes = tuple([array.nbytes for array in out])
        # The jobs themselves, not an equal list: they are kept as long as cameras stay what they are.
        key = (self._store.version, counts, cameras, len(beams), sizes, slot.tick.address, slot.pictures.address)
        if slot.layout is not None and slot.layout.key == key and slot.layout.to[_JOBS_OBJECT] is jobs.content:
            return slot.layout
        total = sum(counts)
        shapes: list[tuple[str, tuple[int, ...]]] = [
            *(zip(TYPES[CameraArrays].split(), ((cameras, *array.shape[1:]) for array in views), strict=True)),
            ("f8", (len(worlds), NUMBERS)), ("f4", (len(beams), 8)),
            *(zip(TYPES[InstanceArrays].split(), ((total, *shape) for shape in _INSTANCE_SHAPES), strict=True)),
            ("i8", (len(worlds), COLUMN["end"])), ("i8", jobs.content.shape), ("i8", (len(counts) * len(INSTANCE_BYTES), 3)),
            ("u8", (_COUNTS * slices,)),
        ]  # fmt: skip
        lengths = [np.dtype(kind).itemsize * int(np.prod(shape)) for kind, shape in shapes]
        starts = starts_of(lengths)
        if starts[-1] > len(slot.staging):
            slot.staging = self.driver.pinned(starts[-1] + starts[-1] // 4)
        if 8 * _COUNTS * slices > len(slot.counted):
            slot.counted = self.driver.pinned(16 * _COUNTS * slices)
        tick, out_at = slot.tick.reserve(starts[-1]), slot.pictures.sections(sizes)
        to = [
            slot.staging[start : start + length].view(kind).reshape(shape)
            for start, length, (kind, shape) in zip(starts, lengths, shapes, strict=False)
        ]
        at = [tick + start for start in starts]
        moves = to[_MOVES].reshape(len(counts), len(INSTANCE_BYTES), 3)
        fixed = np.array([len(scene.kept.fixed.mesh) for scene in worlds], np.int64)[:, None]
        each, count = np.array(INSTANCE_BYTES), np.array(counts, np.int64)[:, None]
        first = len(views) + 2
        moves[:, :, 0] = self._store.instances_at[: len(counts)] + fixed * each
        moves[:, :, 1] = np.array(at[first : first + len(each)]) + (np.cumsum(count, axis=0) - count) * each
        moves[:, :, 2] = count * each
        to[_JOBS][:] = jobs.content
        to[_ZEROS][:] = 0
        key = (*key[:-2], slot.tick.address, slot.pictures.address)
        slot.layout = _Layout(key, (*to, jobs.content), tuple(at[:-1]), starts[-1], int((count * each).max(initial=0)), out_at)
        return slot.layout

    def _jobs_of(self, views: CameraArrays, world: I64, worlds: Sequence[PreparedScene]) -> JobList:
        """The jobs of a tick, kept while cameras stay what they are."""
        instances, rows = (np.array(counts, np.int64) for counts in zip(*[(o.instances, o.rows) for o in worlds], strict=True))
        arrays = (views.size, views.offset, views.focal, world, instances, rows)
        key = tuple([array.tobytes() for array in arrays])
        if key != self._jobs[0]:
            self._jobs = key, jobs_of(views, world, instances, rows)
        return self._jobs[1]

    def _enqueue(self, pending: Pending, slot: _Slot) -> None:
        """Give the card a tick."""
        plan, driver, drawing = pending.plan, self.driver, self._drawing
        layout, slices = plan.layout, plan.jobs.slices
        # For the whole tick at once: no memory may grow, and so move, between two slices.
        record = self._record_of(plan, slot)
        common, many = record(_NO_SLICE, 0), plan.worlds > 1
        driver.upload(slot.tick.address, slot.staging[: layout.size], drawing)
        # What has moved, and the marks of every world.
        longest, rows = max(layout.longest_move, LEVELS * plan.instances), plan.worlds * (len(INSTANCE_BYTES) + 1)
        driver.launch("scatter", blocks_of(longest, 256), rows, 256, common, drawing, many=many)
        if plan.glow_cells:
            driver.launch("glow", blocks_of(plan.glow_cells, 256), plan.worlds, 256, common, drawing, many=many)
        for number, part in enumerate(slices):
            self._draw_slice(plan, part, record(part, number))
            driver.record(self._drawn, drawing)
            driver.hold(self._copying, self._drawn)
            if pending.brings:
                for channel, start, end in plan.jobs.parts[number]:
                    array = pending.out[channel]
                    driver.download(array[start:end], plan.out_at[channel] + start * array.itemsize, self._copying)
        driver.download(slot.counted[: 8 * _COUNTS * len(slices)], layout.at[_ZEROS], self._copying)
        driver.record(slot.copied, self._copying)

    def _draw_slice(self, plan: _Plan, part: Slice, work: bytes) -> None:
        driver, drawing = self.driver, self._drawing
        jobs, wide, many = part.jobs, driver.multiprocessors, plan.worlds > 1

        def launch(kernel: str, blocks: int, rows: int, threads: int) -> None:
            driver.launch(kernel, blocks, rows, threads, work, drawing, many=many)

        # As many blocks for each picture as keep the card busy; with many pictures few will do.
        share = max(blocks_of(16 * wide, jobs), 8)
        launch("begin", min(blocks_of(max(jobs, part.keys), 256), 16 * wide), 1, 256)
        launch("cull", blocks_of(max(plan.instances, part.most_nodes), 128), jobs, 128)
        launch("rank", blocks_of(plan.instances, 128), jobs, 128)
        launch("light", blocks_of(plan.rows, 128), part.worlds, 128)
        launch("raster", share, jobs, FACE_THREADS)
        launch("fill", 8 * wide, 1, 256)
        if part.paints and plan.shadows:
            launch("shadow_raster", share, jobs, FACE_THREADS)
            launch("shadow_fill", 8 * wide, 1, 256)
        launch("paint", blocks_of(part.largest_px, 256), jobs, 256)
        if plan.has_samples:
            launch("average", blocks_of(part.delivered_px, 256), jobs, 256)
        if part.paints and plan.rain:
            launch("rain", blocks_of(part.tallest, 64), jobs, 64)
        if part.paints and plan.has_vignette:
            launch("vignette", blocks_of(part.delivered_px, 256), jobs, 256)

    def _record_of(self, plan: _Plan, slot: _Slot) -> "_WorkRecord":
        """What kernels work on, with room for the largest slice."""
        at, slot.room = plan.layout.at, self._pieces
        if self._lists[0] is not plan.jobs or self._lists[1] != self._pieces:
            # Nobody else asks for this memory, so that it stays where it is until other jobs or longer lists are wanted. What
            # was known is forgotten first: the card may have no room, and then some of it lies nowhere.
            self._lists = plan.jobs, -1, ()
            self._lists = plan.jobs, self._pieces, self._room_for(plan.jobs)
        world_record, moves = plan.records[0].tobytes(), plan.worlds * len(INSTANCE_BYTES)
        return _WorkRecord(
            world_record, at[_RECORDS], at[_JOBS], self._lists[2], at[_ZEROS], at[_MOVES], moves, self._pieces
        )  # fmt: skip

    def _room_for(self, wanted: JobList) -> tuple[int, ...]:
        """Where the lists of all slices lie."""
        memory, slices, jobs = self._memory, wanted.slices, wanted.most
        listed = max([part.listed for part in slices], default=1)
        pieces = LISTS * self._pieces
        totals = memory["totals"].reserve(16 * jobs)
        return (
            memory["pictures"].reserve(PICTURE_BYTES * jobs), memory["found"].reserve(SEEN_BYTES * listed),
            memory["seen"].reserve(SEEN_BYTES * listed), memory["sights"].reserve(SIGHT_BYTES * listed),
            memory["casters"].reserve(SIGHT_BYTES * listed), memory["caster_first"].reserve(4 * listed),
            memory["face_rows"].reserve(4 * max([part.faces for part in slices], default=1)),
            totals, totals + 4 * jobs, totals + 8 * jobs,
            memory["keys"].reserve(8 * max([part.keys for part in slices], default=1)),
            memory["nodes"].reserve(COLOUR_BYTES * max([part.nodes for part in slices], default=1)),
            memory["fine"].reserve(4 * max([part.fine for part in slices], default=1)),
            memory["larges"].reserve(LARGE_BYTES * pieces), memory["pieces"].reserve(PIECE_BYTES * pieces),
        )  # fmt: skip


# Where in what is uploaded: cameras, numbers, beams and instances come first.
_RECORDS: Final = len(CameraArrays._fields) + 2 + len(InstanceArrays._fields)
_JOBS, _MOVES, _ZEROS, _JOBS_OBJECT = (_RECORDS + k for k in range(1, 5))
_NO_SLICE: Final = Slice(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, paints=False)
_INSTANCE_SHAPES: Final[tuple[tuple[int, ...], ...]] = (
    (), (3,), (3, 3), (), (), (3,), (), (), (3,), (3, 3), (LEVELS,), (),
)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class _WorkRecord:
    """``Work`` of kernels.h, for one slice of a tick after the other."""

    world_record: bytes
    worlds: int
    jobs: int
    lists: tuple[int, ...]
    counts: int
    moves: int
    moves_count: int
    pieces: int

    def __call__(self, part: Slice, number: int) -> bytes:
        """The record of the slice with a number."""
        return self.world_record + WORK.pack(
            self.worlds, self.jobs + JOB_BYTES * part.first_job, *self.lists, self.counts + 8 * _COUNTS * number, self.moves,
            part.jobs, part.first_world, part.worlds, self.moves_count, part.keys, self.pieces,
        )  # fmt: skip


def records_bytes() -> int:
    """How long ``Work`` is."""
    return WORLD_BYTES + WORK.size


def _one(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _together(moving: Sequence[InstanceArrays]) -> InstanceArrays:
    """What moves in several worlds, one behind the other."""
    return moving[0] if len(moving) == 1 else InstanceArrays(*(np.concatenate(field) for field in zip(*moving, strict=True)))
