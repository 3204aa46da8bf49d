"""Sensors: do repeats see the same, from which frame on do they not, and by how much do frames differ?

Every frame has a digest, so the first frame that differs is exact. By how much is known where the content of both frames was
kept: pixels (points, numbers) that differ, the largest and the mean difference.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import LINK_BYTES
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import FrameTable, Sample

MAX_COMPARED = 200
"""So many outcomes of a sensor are compared by content with the largest one; more would only tell the same again."""


@dataclass(frozen=True)
class FrameDifference:
    """Two frames of a tick compared by content. ``elements`` are the pixels of an image, the rows of a table of points.

    ``max_difference`` and ``mean_difference`` are over all numbers, in ``unit``: levels of colour, metres of depth or points.
    They are None where shapes are unequal, and for labels and ids, of which one is not more than another.
    """

    tick: int
    reference_repeat: int
    repeat: int
    elements: int
    differing: int
    max_difference: float | None
    mean_difference: float | None
    unit: str = ""

    @property
    def ratio(self) -> float:
        """The share of elements that differ."""
        return self.differing / self.elements if self.elements else 0.0


@dataclass(frozen=True)
class SensorAnalysis:
    """What one sensor showed over the repeats of a cell.

    ``outcomes`` are classes of repeats that saw the same in every frame, the largest first. ``first_tick`` is the first frame
    at which any repeat differs from the largest class, ``first_repeat`` one that does so there, ``first_is_gap`` whether one of
    the two has no frame there at all. ``frames_differing`` counts over all repeats. ``first`` and ``worst`` compare contents:
    the earliest kept pair, which is the first frame itself only if that was kept, and the one with most differences. ``digest``
    is a name for all that the largest class saw.
    """

    sensor: str
    kind: str
    frames: int
    repeats: int
    outcomes: tuple[tuple[int, ...], ...]
    first_tick: int | None
    first_repeat: int | None
    first_is_gap: bool
    frames_differing: int
    frames_compared: int
    samples_compared: int
    first: FrameDifference | None
    worst: FrameDifference | None
    digest: str = ""

    @property
    def identical(self) -> bool:
        """Did every repeat see the same?"""
        return len(self.outcomes) == 1

    @property
    def is_perceived(self) -> bool:
        """Is this what a controller was given to decide on? Such a sensor is named after its actor: ``actor1.road``."""
        return "." in self.sensor

    @property
    def divergent(self) -> int:
        """How many repeats are not of the largest class."""
        return sum(len(outcome) for outcome in self.outcomes[1:])

    def words(self, step_s: float) -> str:
        """Say it in one line."""
        if self.identical:
            return f"{self.sensor}: {self.frames} frames, the same bits in {self.repeats} repeats"
        text = (
            f"{self.sensor}: {self.divergent} of {self.repeats} repeats see something else, first repeat {self.first_repeat} "
            f"at tick {self.first_tick} ({(self.first_tick or 0) * step_s:g} s), in {self.frames_differing} of "
            f"{self.frames_compared} frames"
        )
        return text if self.worst is None else f"{text}; at most {difference_words(self.worst, self.kind)}"

    def first_words(self) -> str:
        """Say how much the first frame that differs does so, or at which frame that is first known; empty if none differs."""
        if self.first_tick is None:
            return ""
        if self.first is not None and self.first.tick == self.first_tick:
            return difference_words(self.first, self.kind, where=False)
        unknown = "one repeat has no frame there" if self.first_is_gap else "its content was not kept"
        return unknown if self.first is None else f"{unknown}; the next that was: {difference_words(self.first, self.kind)}"


def difference_words(frame: FrameDifference, kind: str, *, where: bool = True) -> str:
    """Say how much two frames differ, and at which tick that is."""
    what = "points" if ".lidar." in kind or kind.endswith("radar") else "numbers"
    if ".camera." in kind:
        what = "events" if kind.endswith(".dvs") else "pixels"
    text = f"{frame.differing} of {frame.elements} {what}" + (f" at tick {frame.tick} (repeat {frame.repeat})" if where else "")
    if frame.max_difference is None:
        return text
    unit = f" {frame.unit}" if frame.unit else ""
    return f"{text}, by up to {frame.max_difference:.4g}{unit} (mean over all: {frame.mean_difference:.2g})"


def analyse_sensors(cell: CellTrace) -> tuple[SensorAnalysis, ...]:
    """Compare what every sensor of a cell saw."""
    repeats = tuple(run.repeat for run in cell.runs)
    return tuple(_analyse(cell, table, repeats) for table in cell.sensor_tables())


def _analyse(cell: CellTrace, table: FrameTable, repeats: tuple[int, ...]) -> SensorAnalysis:
    outcomes = _outcomes(table, repeats)
    reference = outcomes[0][0]
    ticks_of = {outcome[0]: _rows(table, outcome[0]) for outcome in outcomes}
    first_tick, first_repeat, differing, compared = None, None, 0, 0
    unlike: dict[int, list[int]] = {}
    for outcome in outcomes:
        ticks, unequal = _unequal(ticks_of[reference], ticks_of[outcome[0]])
        compared += len(ticks) * len(outcome)
        differing += len(unequal) * len(outcome)
        if not unequal:
            continue
        unlike[outcome[0]] = sorted(unequal)
        if first_tick is None or unlike[outcome[0]][0] < first_tick:
            first_tick, first_repeat = unlike[outcome[0]][0], outcome[0]
    # The earliest one is compared in any case.
    chosen = {*list(unlike)[:MAX_COMPARED], *([] if first_repeat is None else [first_repeat])}
    ours = ticks_of[reference]
    pairs = [
        (tick, repeat, ours[tick], ticks_of[repeat][tick])
        for repeat in sorted(chosen)
        for tick in unlike[repeat]
        if tick in ours and tick in ticks_of[repeat]
    ]
    found = _contents(cell, table.kind, reference, pairs)
    return SensorAnalysis(
        sensor=table.sensor,
        kind=table.kind,
        frames=len(np.unique(table.tick)),
        repeats=len(repeats),
        outcomes=outcomes,
        first_tick=first_tick,
        first_repeat=first_repeat,
        first_is_gap=first_repeat is not None and not (first_tick in ours and first_tick in ticks_of[first_repeat]),
        frames_differing=differing,
        frames_compared=compared,
        samples_compared=len(found),
        first=min(found, key=lambda frame: (frame.tick, frame.repeat != first_repeat, frame.repeat), default=None),
        worst=max(found, key=lambda frame: (frame.ratio, frame.max_difference or 0.0, -frame.tick), default=None),
        digest=hashlib.blake2b(_content(table, reference), digest_size=LINK_BYTES).hexdigest(),
    )


def _outcomes(table: FrameTable, repeats: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Classes of repeats with the same frames; a repeat without any is one too."""
    groups: dict[bytes, list[int]] = {}
    for repeat in repeats:
        groups.setdefault(_content(table, repeat), []).append(repeat)
    return tuple(tuple(group) for group in sorted(groups.values(), key=lambda group: (-len(group), group[0])))


def _content(table: FrameTable, repeat: int) -> bytes:
    """Everything that a repeat saw."""
    rows = table.by_repeat.get(repeat, slice(0, 0))
    return table.tick[rows].tobytes() + table.digest[rows].tobytes()


def _rows(table: FrameTable, repeat: int) -> dict[int, bytes]:
    rows = table.by_repeat.get(repeat, slice(0, 0))
    return {tick: digest.tobytes() for tick, digest in zip(table.tick[rows].tolist(), table.digest[rows], strict=True)}


def _unequal(ours: Mapping[int, bytes], theirs: Mapping[int, bytes]) -> tuple[set[int], set[int]]:
    """All ticks of either, and those at which the frames differ or one is missing."""
    ticks = {*ours, *theirs}
    return ticks, {tick for tick in ticks if ours.get(tick) != theirs.get(tick)}


def _contents(cell: CellTrace, kind: str, reference: int, pairs: list[tuple[int, int, bytes, bytes]]) -> list[FrameDifference]:
    """Compare the pairs of frames of which both contents were kept."""
    samples = cell.sensor_samples(frozenset(digest for _, _, a, b in pairs for digest in (a, b))) if pairs else {}
    return [
        compare(kind, (tick, reference, repeat), samples[a], samples[b])
        for tick, repeat, a, b in pairs
        if a in samples and b in samples
    ]


def compare(kind: str, where: tuple[int, int, int], a: Sample, b: Sample) -> FrameDifference:
    """Count the elements of two frames that differ, and by how much; ``where`` is tick, reference and repeat."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return _unequal_shapes(where, a, b)
    elements = _elements(a)
    # By bytes: as numbers, a NaN would differ from itself and -0.0 would equal 0.0, and the digests say otherwise.
    unlike = np.frombuffer(a.data, np.uint8) != np.frombuffer(b.data, np.uint8)
    differing = int(unlike.reshape(elements, -1).any(axis=1).sum()) if elements else 0
    ours, theirs = _quantities(kind, a.array), _quantities(kind, b.array)
    if ours is None or theirs is None:
        return FrameDifference(*where, elements, differing, None, None)
    apart = np.abs(ours - theirs)
    # An infinite depth has no distance from another. That the two differ has been counted already.
    apart = apart[np.isfinite(apart)]
    mean = float(apart.mean()) if apart.size else 0.0
    return FrameDifference(*where, elements, differing, float(apart.max(initial=0.0)), mean, _unit(kind))


def _quantities(kind: str, array: NDArray[Any]) -> NDArray[np.float64] | None:
    """What can be subtracted in a frame; None where numbers are names."""
    match kind.removeprefix("sensor."):
        case "camera.semantic_segmentation" | "camera.instance_segmentation" | "camera.dvs":
            return None
        case "camera.depth" if array.shape[-1:] == (4,):
            blue, green, red = (array[..., k].astype(np.float64) for k in range(3))
            return np.asarray((red + 256.0 * green + 65536.0 * blue) * (1000.0 / (2**24 - 1)))
        case "camera.rgb" | "lidar.ray_cast" | "lidar.ray_cast_semantic":
            return array[..., :3].astype(np.float64)
        case _:
            return array.astype(np.float64)


def _unit(kind: str) -> str:
    return "of 255" if kind.endswith(".rgb") else "m" if ".lidar." in kind or kind.endswith(".depth") else ""


def _unequal_shapes(where: tuple[int, int, int], a: Sample, b: Sample) -> FrameDifference:
    """Frames of unequal length: an element counts as different unless it is in both, wherever it stands."""
    counts = [_bag(sample.array) for sample in (a, b)]
    shared = sum(min(count, counts[1].get(key, 0)) for key, count in counts[0].items())
    elements = max(_elements(a), _elements(b))
    return FrameDifference(*where, elements, elements - shared, None, None)


def _bag(array: NDArray[Any]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for row in array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1):
        key = row.tobytes()
        found[key] = found.get(key, 0) + 1
    return found


def _elements(sample: Sample) -> int:
    """Pixels of an image, rows of a table, numbers of a list."""
    shape = sample.shape
    return int(np.prod(shape[:2])) if len(shape) == 3 else shape[0] if shape else 1
