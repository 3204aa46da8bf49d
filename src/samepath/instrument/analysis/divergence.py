"""Divergence: where, when and in what two runs part for the first time, how far each repeat strays, and what no distance shows.

The first difference is found by digests, not by distances: digests are chained, so that equal digests at a tick mean equal
bits up to it. Structure comes apart from distance. Runs of unequal length, missing actors, gaps in the log, collisions that
happen in some repeats only, runs cut off: each is a :class:`Finding` of its own, and nothing is cut to the shortest run to
make it go away.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION, RESAMPLING
from samepath.core.digests import link
from samepath.instrument.analysis.outcomes import Outcome, collided_pairs, pair_words
from samepath.instrument.analysis.spread import CellSpread
from samepath.instrument.traces.cell import Block, CellTrace, RunInfo, dense_block
from samepath.instrument.traces.records import Actor, Digests, Event, Repeat, row_digests

Floats = NDArray[np.float64]

FEATURE_COLUMNS = 96
KEPT_PATHS = 60
TREE_OUTCOMES = 12


@dataclass(frozen=True)
class RepeatDeviation:
    """How one repeat departs: from the largest outcome (bits) and from the mean path (metres, worst axis).

    ``max_deviation_before_m`` is that before the first collision, or whatever splits the phases; 0 where nothing is before.
    ``differs_before``: its states before the split are not those that most repeats have there.
    """

    repeat: int
    divergent_tick: int | None
    max_deviation_m: float
    max_deviation_tick: int
    max_deviation_actor: int
    max_deviation_before_m: float
    differs_before: bool


@dataclass(frozen=True)
class PairDistance:
    """How far two repeats that follow each other are apart: the farthest that any actor is, on the worst axis, at any tick.

    Each repeat is in one pair, so that pairs know nothing of each other: where one odd repeat moves the mean path, and with it
    the deviation of every other repeat, it moves one distance only. What is compared between cells is compared by pairs.
    """

    first: int
    second: int
    apart_m: float
    apart_before_m: float


@dataclass(frozen=True)
class FirstDivergence:
    """The first difference between two repeats, in the reader's words."""

    reference_repeat: int
    repeat: int
    tick: int
    time_s: float
    actor: int | None
    actor_type: str
    field: str
    reference_value: float | str | None
    value: float | str | None
    distance_m: float | None
    differing_fields: tuple[str, ...]
    last_common_event: str

    def words(self) -> str:
        """Say it in one line."""
        who = "the run" if self.actor is None else f"actor {self.actor} ({self.actor_type})"
        apart = "" if self.distance_m is None else f", {self.distance_m:.3g} m apart"
        return (
            f"repeat {self.repeat} parts from repeat {self.reference_repeat} at tick {self.tick} ({self.time_s:g} s): "
            f"{self.field} of {who} is {_show(self.value)} instead of {_show(self.reference_value)}{apart}; "
            f"last common event: {self.last_common_event}"
        )


@dataclass(frozen=True)
class Scan:
    """What a second reading of the cell yields.

    ``identical`` marks the (tick, actor) pairs up to which every repeat has the same history of that actor.
    """

    deviations: tuple[RepeatDeviation, ...]
    pairs: tuple[PairDistance, ...]
    identical: NDArray[np.bool_]
    features: dict[int, Floats]
    digests: dict[int, NDArray[np.uint64]]
    paths: dict[int, Floats]


def scan(
    cell: CellTrace, spread: CellSpread, outcomes: tuple[Outcome, ...], max_features: int, before: NDArray[np.bool_]
) -> Scan:
    """Read the cell a second time, against the mean path and the largest outcome; ``before`` masks the phase before."""
    reference = outcomes[0].repeats[0]
    reference_digests = next(
        block.digests[block.repeats.index(reference)]
        for block in compared_blocks(cell, [])
        if reference in block.repeats and block.digests is not None
    )
    runs = {run.repeat: run for run in cell.runs}
    means = {axis: spread.channels[axis].mean for axis in spread.axes}
    top = _widest_columns(spread)
    first_of = [outcome.repeats[0] for outcome in outcomes]
    # Clusters cost the square of their number: of very many outcomes every so manieth stands for all, evenly over their sizes.
    keep_features = set(first_of[:: max(1, -(-len(first_of) // max_features))])
    keep_paths, keep_digests = set(first_of[:KEPT_PATHS]), set(first_of[:TREE_OUTCOMES])
    actors = len(spread.actor_ids)
    pairs = _Pairs(before)
    departures: list[tuple[int, int | None, float, int, int, float]] = []
    histories: list[bytes] = []
    identical = np.ones(cell.columns, np.bool_)
    features: dict[int, Floats] = {}
    digests: dict[int, NDArray[np.uint64]] = {}
    paths: dict[int, Floats] = {}
    for block in compared_blocks(cell, spread.axes):
        # The worst axis, not the length of the difference: sigma is per axis too, and the two must be comparable.
        worst = np.zeros((len(block.repeats), cell.columns))
        for axis in spread.axes:
            np.fmax(worst, np.abs(block.values[axis] - means[axis]), out=worst)
        pairs.add(block)
        if block.digests is not None:
            identical &= np.all(block.digests == reference_digests, axis=(0, 2))
        for row, repeat in enumerate(block.repeats):
            raw = block.digests[row] if block.digests is not None else reference_digests
            column = int(np.argmax(worst[row]))
            tick = _first_difference(raw, reference_digests, spread, runs[repeat], runs[reference])
            if tick is None and runs[repeat].digest != runs[reference].digest:
                tick = _first_bound(cell, spread, repeat, reference)
            where = (int(spread.ticks[column // actors]), int(spread.actor_ids[column % actors]))
            early_m = float(worst[row][before].max(initial=0.0))
            departures.append((repeat, tick, float(worst[row, column]), *where, early_m))
            # A digest of digests: whole histories of a thousand repeats would not fit into memory.
            histories.append(link(b"", raw[before].tobytes()))
            if repeat in keep_features:
                stacked = np.concatenate([block.values[axis][row, top] for axis in spread.axes])
                base = np.concatenate([means[axis][top] for axis in spread.axes])
                features[repeat] = np.where(np.isnan(stacked), 0.0, stacked - base)
            if repeat in keep_digests:
                digests[repeat] = raw.reshape(len(spread.ticks), actors, 2).copy()
            if repeat in keep_paths:
                xy = [block.values[axis][row] for axis in POSITION[:2]]
                paths[repeat] = np.stack(xy, axis=-1).reshape(len(spread.ticks), actors, 2)
    usual = Counter(histories).most_common(1)[0][0]
    deviations = tuple(
        RepeatDeviation(*departure, differs_before=history != usual)
        for departure, history in zip(departures, histories, strict=True)
    )
    return Scan(deviations, tuple(pairs.found), identical, features, digests, paths)


class _Pairs:
    """Pairs repeats as they come, the first with the second, the third with the fourth; of an odd number the last is left."""

    def __init__(self, before: NDArray[np.bool_]) -> None:
        self.found: list[PairDistance] = []
        self._before = before
        self._waiting: tuple[int, dict[str, Floats]] | None = None

    def add(self, block: Block) -> None:
        for row, repeat in enumerate(block.repeats):
            positions = {axis: values[row] for axis, values in block.values.items()}
            if self._waiting is None:
                self._waiting = (repeat, positions)
                continue
            first, others = self._waiting
            apart = np.zeros(len(self._before))
            for axis, values in positions.items():
                np.fmax(apart, np.abs(values - others[axis]), out=apart)  # NaN: one of the two is not there
            early_m = float(apart[self._before].max(initial=0.0))
            self.found.append(PairDistance(first, repeat, float(apart.max(initial=0.0)), early_m))
            self._waiting = None


def _widest_columns(spread: CellSpread) -> NDArray[np.int64]:
    """The pairs with the largest sigma, where clusters show best."""
    sigma = np.nan_to_num(spread.worst_axis("sigma"), nan=-1.0)
    return np.argsort(-sigma, kind="stable")[:FEATURE_COLUMNS]


def _first_difference(
    raw: NDArray[np.uint64], reference: NDArray[np.uint64], spread: CellSpread, run: RunInfo, reference_run: RunInfo
) -> int | None:
    """Return the first tick at which states, events or the end differ, or None."""
    # One comparison settles it for most repeats; columns are only searched where bits are known to differ.
    if run.digest == reference_run.digest:
        return None
    candidates = []
    differing = np.flatnonzero(np.any(raw != reference, axis=1))
    if differing.size:
        candidates.append(int(spread.ticks[differing[0] // len(spread.actor_ids)]))
    event = first_event_difference(run.events, reference_run.events)
    if event is not None:
        candidates.append(min(event_side.tick for event_side in event if event_side is not None))
    if run.end != reference_run.end:
        candidates.append(min(run.end.tick, reference_run.end.tick))
    return min(candidates, default=None)


def _first_bound(cell: CellTrace, spread: CellSpread, repeat: int, reference: int) -> int | None:
    """Return the first tick at which two runs of equal states have other bounds of resampling."""
    digests = dense_block(cell, [cell.load(reference), cell.load(repeat)], [], digests=True).digests
    if digests is None:
        return None
    differing = np.flatnonzero(np.any(digests[0] != digests[1], axis=1))
    return int(spread.ticks[differing[0] // len(spread.actor_ids)]) if len(differing) else None


def state_digests(run: Repeat) -> Digests:
    """Return the chained digests of a run's rows without the bound of resampling, which is no quantity of the world."""
    if RESAMPLING not in run.channels:
        return run.digests
    kept = [index for index, name in enumerate(run.channels) if name != RESAMPLING]
    channels = tuple(run.channels[index] for index in kept)
    return row_digests(run.actors, channels, run.tick, run.actor, run.time_s, run.values[:, kept])


def with_state_digests(run: Repeat) -> Repeat:
    """Return a run whose rows can be compared by their digests: see :func:`state_digests`."""
    return replace(run, digests=state_digests(run)) if RESAMPLING in run.channels else run


def compared_blocks(cell: CellTrace, channels: Sequence[str]) -> Iterator[Block]:
    """Read all repeats in order, with the digests by which their rows are compared."""
    if RESAMPLING not in cell.header.channels:
        yield from cell.blocks(channels, digests=True)
        return
    for run in cell.runs:
        yield dense_block(cell, [with_state_digests(cell.load(run.repeat))], channels, digests=True)


def first_event_difference(events: tuple[Event, ...], reference: tuple[Event, ...]) -> tuple[Event | None, Event | None] | None:
    """The first event that one of two runs has and the other has not, or has otherwise; None: they have the same."""
    for index in range(max(len(events), len(reference))):
        a = events[index] if index < len(events) else None
        b = reference[index] if index < len(reference) else None
        if a is None or b is None or a.to_bytes() != b.to_bytes():
            return a, b
    return None


def last_common_event(reference: Repeat, other: Repeat, tick: int) -> str:
    """Name the last event that two runs share before they have other ones, no later than ``tick``."""
    common = "start"
    for a, b in zip(reference.events, other.events, strict=False):
        if a.to_bytes() != b.to_bytes() or a.tick > tick:
            break
        common = event_words(a)
    return common


def event_words(event: Event) -> str:
    """Name an event: what, who, with whom, when."""
    who = "" if event.actor is None else f" of actor {event.actor}"
    other = "" if event.other is None else f" with actor {event.other}"
    detail = f" ({event.detail})" if event.detail else ""
    return f"{event.kind}{who}{other} at tick {event.tick}{detail}"


def event_words_in_full(event: Event) -> str:
    """The same with the impulse, to the bit."""
    if event.impulse_ns is None:
        return event_words(event)
    return f"{event_words(event)} [impulse {', '.join(repr(component) for component in event.impulse_ns)} N s]"


def _show(value: float | str | None) -> str:
    return "not there" if value is None else repr(value) if isinstance(value, float) else value


Bools = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)


class FindingKind(StrEnum):
    """What differs."""

    LENGTH = "length"
    MISSING_ACTOR = "missing-actor"
    ACTOR_LENGTH = "actor-length"
    MISSING_TICKS = "missing-ticks"
    END = "end"
    INCOMPLETE = "incomplete"
    COLLISIONS = "collisions"
    ACTOR_TYPE = "actor-type"


@dataclass(frozen=True)
class Finding:
    """A structural difference: which repeats depart from the rest, and how."""

    kind: FindingKind
    repeats: tuple[int, ...]
    message: str


def find_differences(cell: CellTrace, spread: CellSpread) -> tuple[Finding, ...]:
    """List every structural difference between the repeats, most telling first."""
    findings = [*_presence(cell, spread)]
    findings += _by_value(cell, FindingKind.END, "ended by", lambda run: (run.end.reason, run.end.tick), _end_words)
    cut_off = tuple(run.repeat for run in cell.runs if not run.end.completed)
    if cut_off:
        reasons = sorted({run.end.reason for run in cell.runs if not run.end.completed})
        text = f"{_count(cut_off, cell)} cut off ({', '.join(reasons)}): {_named(cut_off)}"
        findings.append(Finding(FindingKind.INCOMPLETE, cut_off, text))
    findings += _by_value(cell, FindingKind.COLLISIONS, "collided as", collided_pairs, pair_words)
    findings += _type_conflicts(cell)
    return tuple(findings)


def _presence(cell: CellTrace, spread: CellSpread) -> list[Finding]:
    if len(spread.presence) < 2:
        return []
    groups = sorted(spread.presence.items(), key=lambda item: (-len(item[1]), item[1][0]))
    usual = _mask(groups[0][0], spread)
    findings = []
    for packed, repeats in groups[1:]:
        found = _mask(packed, spread)
        findings += _presence_findings(cell, spread, usual, found, repeats)
    return findings


def _mask(packed: bytes, spread: CellSpread) -> Bools:
    ticks, actors = spread.shape
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=ticks * actors).astype(np.bool_).reshape(ticks, actors)


def _presence_findings(
    cell: CellTrace,
    spread: CellSpread,
    usual: Bools,
    found: Bools,
    repeats: tuple[int, ...],
) -> list[Finding]:
    findings = []
    who, named = _count(repeats, cell), _named(repeats)
    last_usual, last_found = _last(usual, spread), _last(found, spread)
    if not found.any():
        return [Finding(FindingKind.LENGTH, repeats, f"{who} have no states at all: {named}")]
    if last_usual != last_found:
        word = "end early" if last_found < last_usual else "go on longer"
        text = f"{who} {word}, at tick {last_found} instead of {last_usual}: {named}"
        findings.append(Finding(FindingKind.LENGTH, repeats, text))
    shared = spread.ticks <= min(last_usual, last_found)
    for index, actor in enumerate(spread.actor_ids.tolist()):
        a, b = usual[shared, index], found[shared, index]
        if bool(np.all(a == b)):
            continue
        ticks = spread.ticks[shared]
        if a.any() != b.any():
            word = "lack" if a.any() else "have an extra"
            text = f"{who} {word} actor {actor}: {named}"
            findings.append(Finding(FindingKind.MISSING_ACTOR, repeats, text))
        elif int(ticks[a].max()) != int(ticks[b].max()):
            text = f"{who} log actor {actor} until tick {int(ticks[b].max())} instead of {int(ticks[a].max())}: {named}"
            findings.append(Finding(FindingKind.ACTOR_LENGTH, repeats, text))
        else:
            first = int(ticks[a != b][0])
            text = f"{who} differ in {int((a != b).sum())} logged ticks of actor {actor}, first at tick {first}: {named}"
            findings.append(Finding(FindingKind.MISSING_TICKS, repeats, text))
    return findings


def _last(mask: Bools, spread: CellSpread) -> int:
    """The last tick at which any actor was logged; -1 if none was."""
    rows = np.flatnonzero(mask.any(axis=1))
    return int(spread.ticks[rows[-1]]) if rows.size else -1


def _by_value(
    cell: CellTrace,
    kind: FindingKind,
    verb: str,
    key: Callable[[RunInfo], Key],
    words: Callable[[Key], str],
) -> list[Finding]:
    """Group repeats by a property and report every group but the largest."""
    groups: dict[Key, list[int]] = {}
    for run in cell.runs:
        groups.setdefault(key(run), []).append(run.repeat)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0]))
    usual = ordered[0][0]
    findings = []
    for value, repeats in ordered[1:]:
        text = f"{_count(repeats, cell)} {verb} {words(value)}, the others {words(usual)}: {_named(repeats)}"
        findings.append(Finding(kind, tuple(repeats), text))
    return findings


def _type_conflicts(cell: CellTrace) -> list[Finding]:
    """Report ids that stand for different types of actor in different repeats."""
    by_id: dict[int, list[Actor]] = {}
    for actor in cell.actors:
        by_id.setdefault(actor.id, []).append(actor)
    findings = []
    for actor_id, versions in by_id.items():
        if len(versions) > 1:
            types = " and ".join(actor.type for actor in versions)
            affected = tuple(run.repeat for run in cell.runs if versions[1] in run.actors)
            text = f"actor {actor_id} is a {types} in different repeats: {_named(affected)} differ"
            findings.append(Finding(FindingKind.ACTOR_TYPE, affected, text))
    return findings


def _end_words(end: tuple[str, int]) -> str:
    return f"{end[0]!r} at tick {end[1]}"


def _count(repeats: Sequence[int], cell: CellTrace) -> str:
    return f"{len(repeats)} of {len(cell.runs)} repeats"


def _named(repeats: Sequence[int]) -> str:
    shown = ", ".join(str(repeat) for repeat in repeats[:8])
    return f"repeat{'s' if len(repeats) > 1 else ''} {shown}" + (", ..." if len(repeats) > 8 else "")
