"""What the viewer draws of a cell, from its trace: outcomes, not repeats, as offsets from one of them.

Repeats of one outcome are the same to the bit, so each outcome is drawn once. The largest is the reference; every other pose is
kept as its difference from the reference at the same tick, because that is what is magnified, and because a difference of a
nanometre at a coordinate of 100 m would be lost in numbers of 32 bits. Differences are of 16 bits, 11 of them digits: what is
drawn is within 0.05 % of the difference, and those below 6e-8 m are drawn as none. The exact figures are the report's.

Nothing is drawn that was not logged: there are no poses between two ticks, and who is absent in a repeat is not drawn there.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import ALIASES, CATALOGUE, PropType, VehicleType, WalkerType
from samepath.core.errors import InputError
from samepath.instrument.analysis.outcomes import EndingGroup, Outcome, classify, find_endings, pair_words
from samepath.instrument.monitors.monitor import MonitorSet, MonitorTrace, watch_cell
from samepath.instrument.traces.cell import Block, CellTrace
from samepath.instrument.traces.records import EventKind

Floats = NDArray[np.float64]

# A pose takes 8 bytes in the page: 1000 outcomes of 10 actors over 2000 ticks are 160 MB, which browsers and cards still take.
POSES_MOST: Final = 24_000_000
# So many ticks at least are shown of however large a cell; beyond that repeats must be left out by whoever asks.
_TICKS_LEAST: Final = 50
ACTORS_MOST: Final = 2000
MARKS_MOST: Final = 2000
MONITORS_MOST: Final = 20
_NAME_MOST: Final = 200
# Larger than any offset, and a number that 16 bits hold: who is not there. Offsets are held below.
ABSENT: Final = 65504.0
_OFFSET_MOST_M: Final = 60000.0
_PLACE_MOST_M: Final = 1e7
_CHANNELS: Final = ("x_m", "y_m", "z_m", "yaw_deg")


@dataclass(frozen=True)
class Shape:
    """How an actor is drawn: a kind of body, its size, and how far its lowest point is below the pose."""

    kind: str
    length_m: float
    width_m: float
    height_m: float
    below_m: float = 0.0


# What stands for types that nobody knows. A walker's pose is taken for its middle, as in CARLA; others stand on theirs.
_FAMILIES: Final = (
    (("walker", "pedestrian"), Shape("walker", 0.56, 0.56, 1.75, 0.875)),
    (("bike", "bicycle", "cycl"), Shape("bike", 1.8, 0.6, 1.6)),
    (("truck", "bus", "van"), Shape("van", 7.0, 2.4, 2.8)),
    (("static.", "prop"), Shape("prop", 1.0, 1.0, 1.0)),
)
_SOME_CAR: Final = Shape("car", 4.5, 1.9, 1.5)


@dataclass(frozen=True)
class ViewActor:
    id: int
    type: str
    shape: Shape


@dataclass(frozen=True)
class ViewOutcome:
    """A class of equal repeats. It parts from the reference at ``parting_tick``, first in ``parting_actor``."""

    repeats: tuple[int, ...]
    ending: int
    parting_tick: int | None = None
    parting_actor: int | None = None


@dataclass(frozen=True)
class Mark:
    """Something that happened at a tick, in so many repeats."""

    tick: int
    kind: str
    words: str
    repeats: int


@dataclass(frozen=True, eq=False)
class ViewMonitor:
    """What a monitor says of a cell: a verdict of each outcome, and the envelope of its margin over the shown ticks.

    ``worst_tick`` is where the smallest margin of any repeat is. Where it could not be judged, ``why_not`` says why. ``low``
    and ``high`` float32[tick]; NaN where nothing is said.
    """

    name: str
    source: str
    unit: str
    passes: int
    fails: int
    verdicts: tuple[bool | None, ...]
    worst_tick: int | None
    worst_margin: float | None
    why_not: str
    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles of the map; ``vertices`` float32[n, 3] in CARLA's frame, ``triangles`` uint32[m, 3]."""

    label: str
    vertices: NDArray[np.float32]
    triangles: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Ground:
    """The map under the actors."""

    name: str
    surfaces: tuple[Surface, ...]


@dataclass(frozen=True, eq=False)
class DrawnCell:
    """What is drawn of a cell. ``reference`` float32[tick, actor, 4] is x, y, z less ``origin_m`` and the heading in degrees.

    ``offsets`` float16[outcome, actor, tick, 4] are differences from it, in the same order; a heading of :data:`ABSENT` says
    that the actor is not there. ``spread_m`` float32[tick] is the largest distance of any actor of any outcome from the
    reference. ``every``: only each so many-th logged tick is shown, where all would be too many.
    """

    name: str
    scenario: str
    simulator: str
    condition: dict[str, str | float | int | bool]
    step_s: float
    lossless: bool
    repeats: int
    actors: tuple[ViewActor, ...]
    outcomes: tuple[ViewOutcome, ...]
    endings: tuple[str, ...]
    marks: tuple[Mark, ...]
    marks_left_out: int
    ticks: NDArray[np.int64]
    every: int
    origin_m: tuple[float, float, float]
    reference: NDArray[np.float32] = field(repr=False)
    offsets: NDArray[np.float16] = field(repr=False)
    spread_m: NDArray[np.float32] = field(repr=False)
    monitors: tuple[ViewMonitor, ...] = ()
    monitors_left_out: int = 0

    @property
    def parting_tick(self) -> int | None:
        """Where the first outcome parts from the reference; None where none does in what is logged."""
        ticks = [outcome.parting_tick for outcome in self.outcomes if outcome.parting_tick is not None]
        return min(ticks, default=None)


def view_cell(
    cell: CellTrace,
    poses_most: int = POSES_MOST,
    repeats: Collection[int] | None = None,
    monitors: MonitorSet | None = None,
) -> DrawnCell:
    """Lay out a cell, or some ``repeats`` of it, for drawing; if that is too much for a page, every second, third, ... tick.

    ``monitors`` are laid over the same ticks. Their envelopes are over all repeats of the cell, drawn or not.
    """
    name = cell.header.cell
    missing = [channel for channel in _CHANNELS[:2] if channel not in cell.header.channels]
    if missing:
        raise InputError(f"cell {name!r} has no {' and '.join(missing)}: there is nothing to draw")
    if cell.columns == 0:
        raise InputError(f"cell {name!r}: none of its {len(cell.runs)} repeats logged a state: nothing to draw")
    actors = len(cell.actor_ids)
    if actors > ACTORS_MOST:
        raise InputError(f"cell {name!r} has {actors} actors, and the viewer draws {ACTORS_MOST} at most")
    outcomes = _chosen(classify(cell), repeats, name)
    every = _thinning(cell, len(outcomes), poses_most)
    shown = np.arange(0, len(cell.ticks), every)
    layout = _Layout(cell, outcomes, shown)
    layout.read()
    endings = find_endings(cell.runs)
    ending_of = {repeat: index for index, group in enumerate(endings) for repeat in group.repeats}
    marks = _marks(cell, repeats)
    watched = () if monitors is None else watch_cell(cell, replace(monitors, covers=False)).traces
    return DrawnCell(
        name=name,
        scenario=cell.header.scenario,
        simulator=cell.header.simulator,
        condition=dict(cell.header.condition),
        step_s=cell.header.step_s,
        lossless=cell.header.lossless,
        repeats=sum(len(outcome.repeats) for outcome in outcomes),
        actors=_actors(cell),
        outcomes=tuple(
            ViewOutcome(outcome.repeats, ending_of.get(outcome.repeats[0], 0), *layout.partings[number])
            for number, outcome in enumerate(outcomes)
        ),
        endings=tuple(_short(_ending_words(group)) for group in endings),
        marks=marks[:MARKS_MOST],
        marks_left_out=max(0, len(marks) - MARKS_MOST),
        ticks=cell.ticks[shown],
        every=every,
        origin_m=layout.origin_m,
        reference=layout.reference.astype(np.float32),
        offsets=layout.offsets,
        spread_m=layout.spread_m.astype(np.float32),
        monitors=tuple(_monitor(monitor, outcomes, shown) for monitor in watched[:MONITORS_MOST]),
        monitors_left_out=max(0, len(watched) - MONITORS_MOST),
    )


def _chosen(outcomes: tuple[Outcome, ...], repeats: Collection[int] | None, name: str) -> tuple[Outcome, ...]:
    if repeats is None:
        return outcomes
    kept = [replace(outcome, repeats=tuple(repeat for repeat in outcome.repeats if repeat in repeats)) for outcome in outcomes]
    if not any(outcome.repeats for outcome in kept):
        raise InputError(f"--repeats: cell {name!r} has none of the repeats that were asked for")
    return tuple(
        sorted(
            (outcome for outcome in kept if outcome.repeats), key=lambda outcome: (-len(outcome.repeats), outcome.repeats[0])
        )
    )


def shape_of(type_name: str) -> Shape:
    """The body of an actor by its type; of one that nobody knows, by the family that its name says."""
    known = CATALOGUE.get(ALIASES.get(type_name, type_name))
    match known:
        case VehicleType():
            kind = "bike" if known.upright else "van" if known.height_m > 2.2 else "car"
            return Shape(kind, known.length_m, known.width_m, known.height_m)
        case WalkerType():
            return Shape("walker", 2 * known.radius_m, 2 * known.radius_m, known.height_m, known.height_m / 2)
        case PropType():
            return Shape("prop", known.length_m, known.width_m, known.height_m)
    family = type_name.lower()
    return next((shape for words, shape in _FAMILIES if any(word in family for word in words)), _SOME_CAR)


def _thinning(cell: CellTrace, outcomes: int, poses_most: int) -> int:
    per_tick = outcomes * len(cell.actor_ids)
    room = poses_most // max(1, per_tick)
    if room < min(_TICKS_LEAST, len(cell.ticks)):
        raise InputError(
            f"cell {cell.header.cell!r} has {outcomes} outcomes of {len(cell.actor_ids)} actors: more than a page can draw; "
            "choose repeats with --repeats"
        )
    return -(-len(cell.ticks) // room)


class _Layout:
    """Reads a cell block by block into the arrays of a :class:`DrawnCell`."""

    def __init__(self, cell: CellTrace, outcomes: tuple[Outcome, ...], shown: NDArray[np.int64]) -> None:
        self._cell, self._shown = cell, shown
        self._channels = [channel for channel in _CHANNELS if channel in cell.header.channels]
        self._first = {outcome.repeats[0]: number for number, outcome in enumerate(outcomes)}
        actors = len(cell.actor_ids)
        self.origin_m = (0.0, 0.0, 0.0)
        self.reference = np.full((len(shown), actors, 4), np.nan)
        self.offsets = np.full((len(outcomes), actors, len(shown), 4), ABSENT, np.float16)
        self.spread_m = np.zeros(len(shown))
        self.partings: list[tuple[int | None, int | None]] = [(None, None)] * len(outcomes)

    def read(self) -> None:
        history = self._read_reference()
        middle = np.nanmean(self.reference[..., :3], axis=(0, 1)) if np.isfinite(self.reference[..., :2]).any() else np.zeros(3)
        # Whole metres: what is added back to label a place stays exact.
        self.origin_m = (float(np.rint(middle[0])), float(np.rint(middle[1])), 0.0)
        for block in self._cell.blocks(self._channels, digests=True):
            for row, repeat in enumerate(block.repeats):
                number = self._first.get(repeat)
                if number is not None:
                    self._place(number, self._poses(block, row))
                    if number:
                        self.partings[number] = self._parting(block, row, history)
        self.reference[..., :3] -= self.origin_m
        self.reference[~np.isfinite(self.reference)] = 0.0

    def _read_reference(self) -> NDArray[np.uint64]:
        """Take the reference from the first repeat of the largest outcome, and where that has nobody, from the first that has.

        The latter is never drawn as the reference, which stays absent there; it is what the others' offsets count from.
        """
        history: NDArray[np.uint64] | None = None
        for block in self._cell.blocks(self._channels, digests=True):
            for row, repeat in enumerate(block.repeats):
                if self._first.get(repeat) == 0:
                    self.reference = self._poses(block, row)
                    history = _history(block, row)
            if history is not None and np.isfinite(self.reference).all():
                return history
        if history is None:
            raise InputError(f"cell {self._cell.header.cell!r} lost its repeat {next(iter(self._first))} while it was read")
        for block in self._cell.blocks(self._channels):
            for row, repeat in enumerate(block.repeats):
                if repeat in self._first:
                    poses = self._poses(block, row)
                    gaps = ~np.isfinite(self.reference).all(axis=-1)
                    self.reference[gaps] = poses[gaps]
        return history

    def _poses(self, block: Block, row: int) -> Floats:
        """The poses of a repeat at the shown ticks, float64[tick, actor, 4]; NaN throughout where one is not there."""
        shape = (len(self._cell.ticks), len(self._cell.actor_ids))
        poses = np.zeros((len(self._shown), shape[1], 4))
        for index, channel in enumerate(_CHANNELS):
            if channel in block.values:
                values = block.values[channel][row].reshape(shape)[self._shown]
                # Only the place in the plane must be there: a log without heights or headings is drawn flat and unturned.
                poses[..., index] = values if index < 2 else np.nan_to_num(values, nan=0.0, posinf=np.nan, neginf=np.nan)
        wrong = ~np.isfinite(poses).all(axis=-1) | (np.abs(poses[..., :3]) > _PLACE_MOST_M).any(axis=-1)
        if block.present is not None:
            wrong |= ~block.present[row].reshape(shape)[self._shown]
        poses[wrong] = np.nan
        return poses

    def _place(self, number: int, poses: Floats) -> None:
        offset = poses - self.reference
        offset[..., 3] = (offset[..., 3] + 180.0) % 360.0 - 180.0
        there = np.isfinite(offset).all(axis=-1)
        far = np.where(there, np.linalg.norm(np.where(there[..., None], offset[..., :3], 0.0), axis=-1), 0.0)
        self.spread_m = np.maximum(self.spread_m, far.max(axis=1))
        held = np.clip(np.nan_to_num(offset), -_OFFSET_MOST_M, _OFFSET_MOST_M).astype(np.float16)
        held[~there] = ABSENT
        self.offsets[number] = held.swapaxes(0, 1)

    def _parting(self, block: Block, row: int, history: NDArray[np.uint64]) -> tuple[int | None, int | None]:
        """The first logged tick at which a history differs; digests are chained, so that one look per tick does."""
        differs = np.flatnonzero((_history(block, row) != history).any(axis=-1))
        if not differs.size:
            return None, None
        tick, actor = divmod(int(differs[0]), len(self._cell.actor_ids))
        return int(self._cell.ticks[tick]), int(self._cell.actor_ids[actor])


def _history(block: Block, row: int) -> NDArray[np.uint64]:
    if block.digests is None:
        raise InputError("this trace has no digests: read it with samepath import first")
    history: NDArray[np.uint64] = block.digests[row]
    return history


def _actors(cell: CellTrace) -> tuple[ViewActor, ...]:
    types: dict[int, str] = {}
    for actor in cell.actors:
        types.setdefault(actor.id, actor.type)
    return tuple(ViewActor(number, _short(types[number]), shape_of(types[number])) for number in cell.actor_ids.tolist())


def _marks(cell: CellTrace, repeats: Collection[int] | None) -> tuple[Mark, ...]:
    """Events by tick, each with the number of repeats that have it; the births of actors say nothing on a timeline."""
    found: Counter[tuple[int, str, str]] = Counter()
    for run in cell.runs:
        if repeats is not None and run.repeat not in repeats:
            continue
        here = set()
        for event in run.events:
            if event.kind == EventKind.SPAWN:
                continue
            who = "" if event.actor is None else f"actor {event.actor}"
            if event.kind == EventKind.COLLISION:
                other = "scenery" if event.other is None else f"actor {event.other}"
                words = f"{who} hits {other}" if who else f"collision with {other}"
            else:
                words = " ".join(part for part in (event.kind, who, event.detail) if part)
            here.add((event.tick, _short(event.kind), _short(words)))
        here.add((run.end.tick, EventKind.END.value, _short(f"end: {run.end.reason}")))
        found.update(here)
    return tuple(Mark(*key, repeats) for key, repeats in sorted(found.items()))


def _monitor(trace: MonitorTrace, outcomes: tuple[Outcome, ...], shown: NDArray[np.int64]) -> ViewMonitor:
    found = {verdict.repeat: verdict for verdict in trace.verdicts}
    # Repeats of one outcome are equal to the bit: the first speaks for all.
    firsts = [found.get(outcome.repeats[0]) for outcome in outcomes]
    judged = [
        (len(outcome.repeats), verdict)
        for outcome, verdict in zip(outcomes, firsts, strict=True)
        if verdict is not None and verdict.passes is not None
    ]
    worst = min((verdict for _, verdict in judged), key=lambda verdict: (verdict.margin, verdict.repeat), default=None)
    return ViewMonitor(
        name=_short(trace.name),
        source=_short(trace.source),
        unit=_short(trace.unit),
        passes=sum(count for count, verdict in judged if verdict.passes),
        fails=sum(count for count, verdict in judged if not verdict.passes),
        verdicts=tuple(None if verdict is None else verdict.passes for verdict in firsts),
        worst_tick=None if worst is None else worst.tick,
        worst_margin=None if worst is None or not np.isfinite(worst.margin) else worst.margin,
        why_not=_short(trace.not_applicable),
        low=trace.low[shown].astype(np.float32),
        high=trace.high[shown].astype(np.float32),
    )


def _ending_words(ending: EndingGroup) -> str:
    hit = f"collision {pair_words(ending.collisions)}" if ending.collisions else "no collision"
    return f"{hit}; {ending.reason}{'' if ending.completed else ', cut off'}"


def _short(text: str) -> str:
    return text if len(text) <= _NAME_MOST else f"{text[: _NAME_MOST - 1]}…"
