"""Outcomes: classes of bit-identical repeats, when they split, whether they form clusters, and what the test came to.

Three questions that one sigma cannot answer. How many different runs are there (:func:`classify`)? Do they fall into a few
groups, as after a collision that happens or does not, or are they spread (:func:`find_clusters`)? And do repeats agree on what
a test is run for, who collides with whom and why the run ends (:func:`find_endings`)? Where they do not, the test's verdict
flips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import link
from samepath.instrument.traces.cell import CellTrace, RunInfo
from samepath.instrument.traces.records import Event, EventKind

Floats = NDArray[np.float64]

MAX_CLUSTERED = 2000
MAX_CLUSTERS = 8
MIN_REPEATS = 10
# Smallest ratio of the gap between clusters to the widest step within one, by the number of repeats.
# Repeats of one mode exceed these ratios in at most 5 % of cells, whether they are normal, uniform,
# exponential, of Student's t with 3 degrees, or spread evenly over 1 to 12 decades, as errors that
# grow exponentially are. ``bench/coverage.py`` counts. Few repeats need a wide gap; a lone repeat far
# out needs a wider one than two clusters, because heavy tails make lone repeats.
MIN_GAP_RATIO = {10: 6.0, 20: 6.5, 39: 6.0, 50: 3.5, 100: 2.5}
MIN_OUTLIER_RATIO = {20: 460.0, 30: 110.0, 50: 32.0, 100: 23.0}
_LEAST_RATIO = min(*MIN_GAP_RATIO.values(), *MIN_OUTLIER_RATIO.values())


class Pattern(StrEnum):
    """How the outcomes are spread."""

    SINGLE = "single"
    BIFURCATION = "bifurcation"
    OUTLIERS = "outliers"
    SAME_PATHS = "same-paths"
    NOISE = "noise"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Outcome:
    """A class of bit-identical repeats. ``split_tick``: where it parts from the largest class (None for that class)."""

    digest: str
    repeats: tuple[int, ...]
    split_tick: int | None = None


@dataclass(frozen=True)
class OutcomeTree:
    """A node of the outcome tree: these outcomes are identical until ``until_tick``, then part into ``children``."""

    outcomes: tuple[int, ...]
    repeats: int
    until_tick: int | None
    children: tuple["OutcomeTree", ...] = ()


@dataclass(frozen=True)
class Clusters:
    """Repeats grouped by how near their paths are, when the gaps between groups dwarf the spread within."""

    pattern: Pattern
    sizes: tuple[int, ...]
    gap_m: float | None
    within_m: float | None
    sampled: int | None

    def words(self) -> str:
        """Say it in one line."""
        sizes = " + ".join(str(size) for size in self.sizes[:MAX_CLUSTERS]) + (
            " + ..." if len(self.sizes) > MAX_CLUSTERS else ""
        )
        match self.pattern:
            case Pattern.SINGLE:
                return "one outcome"
            case Pattern.BIFURCATION:
                return f"bifurcation into {len(self.sizes)} clusters ({sizes})"
            case Pattern.OUTLIERS:
                return f"one cluster and outliers ({sizes})"
            case Pattern.SAME_PATHS:
                return f"equal paths where all repeats have them; {len(self.sizes)} classes by length or events ({sizes})"
            case Pattern.NOISE:
                return "spread: no clusters"
            case Pattern.UNDECIDED:
                return f"too few repeats to tell clusters from spread ({MIN_REPEATS} are needed)"


def classify(cell: CellTrace) -> tuple[Outcome, ...]:
    """Group repeats by their digest: largest class first, ties by the lowest repeat."""
    classes: dict[str, list[int]] = {}
    for run in cell.runs:
        classes.setdefault(run.digest, []).append(run.repeat)
    outcomes = [Outcome(digest, tuple(repeats)) for digest, repeats in classes.items()]
    return tuple(sorted(outcomes, key=lambda outcome: (-len(outcome.repeats), outcome.repeats[0])))


def find_clusters(outcomes: tuple[Outcome, ...], features: dict[int, Floats], step_m: float = 0.0) -> Clusters:
    """Tell a few clusters from noise by single linkage over the largest distance between paths.

    ``features`` maps the first repeat of each outcome (of at most ``MAX_CLUSTERED`` of them) to positions at the pairs
    where the cell spreads most. ``step_m`` is the resolution of a rounded log: distances within a
    cluster count as at least that, because noise on a coarse grid looks like clusters.
    """
    total = sum(len(outcome.repeats) for outcome in outcomes)
    if len(outcomes) == 1:
        return Clusters(Pattern.SINGLE, (total,), None, None, None)
    from scipy.cluster import hierarchy
    from scipy.spatial import distance

    chosen = [outcome for outcome in outcomes if outcome.repeats[0] in features]
    sampled = len(chosen) if len(chosen) < len(outcomes) else None
    if total < MIN_REPEATS:
        return Clusters(Pattern.UNDECIDED, (), None, None, sampled)
    weights = np.array([len(outcome.repeats) for outcome in chosen])
    points = np.array([features[outcome.repeats[0]] for outcome in chosen])
    if len(chosen) < 2 or points.shape[1] == 0:
        return Clusters(Pattern.UNDECIDED, (), None, None, sampled)
    tree = hierarchy.linkage(distance.pdist(points, "chebyshev"), "single")
    # Repeats of one outcome merge at height zero before the distinct ones do.
    heights = np.concatenate([np.zeros(total - len(chosen) if sampled is None else 0), tree[:, 2]])
    if not heights.any():
        return Clusters(Pattern.SAME_PATHS, tuple(weights.tolist()), None, None, sampled)
    found = Clusters(Pattern.NOISE, (), None, None, sampled)
    widest = 0.0
    for count in range(2, min(MAX_CLUSTERS, len(heights) - 1) + 1):
        gap, within = float(heights[-count + 1]), float(heights[-count])
        if gap == within:
            continue
        floor = max(within, step_m)
        ratio = gap / floor if floor else np.inf
        if ratio <= widest or ratio < _LEAST_RATIO:
            continue
        labels = hierarchy.fcluster(tree, count, "maxclust")
        sizes = sorted((int(weights[labels == label].sum()) for label in np.unique(labels)), reverse=True)
        pattern = _pattern(sizes, ratio)
        if pattern is not Pattern.NOISE:
            found, widest = Clusters(pattern, tuple(sizes), gap, within, sampled), ratio
    return found


def _pattern(sizes: Sequence[int], ratio: float) -> Pattern:
    """Name a cut into clusters of these sizes, largest first, at this ratio of gap to step."""
    total = sum(sizes)
    rest = total - sizes[0]
    if rest <= 0.05 * total or (np.isinf(ratio) and sizes[-1] < 2 and rest < sizes[0]):
        enough = ratio >= _needed_ratio(MIN_OUTLIER_RATIO, total)
        return Pattern.OUTLIERS if enough else Pattern.NOISE
    # One repeat is no cluster.
    if sizes[-1] < 2 or ratio < _needed_ratio(MIN_GAP_RATIO, total):
        return Pattern.NOISE
    return Pattern.BIFURCATION


def _needed_ratio(ratios: dict[int, float], total: int) -> float:
    """Interpolate between the numbers of repeats, on logarithmic scales."""
    counts, values = np.log(list(ratios)), np.log(list(ratios.values()))
    return float(np.exp(np.interp(np.log(total), counts, values)))


def grow_tree(
    outcomes: tuple[Outcome, ...],
    digests: dict[int, NDArray[np.uint64]],
    events: dict[int, tuple[Event, ...]],
    ticks: NDArray[np.int64],
) -> OutcomeTree:
    """Build the tree of how outcomes part, in states or events, from each outcome's first repeat.

    ``digests[repeat]`` are chained, ``[tick, actor]``. Outcomes without digests (beyond the largest few) hang below the root
    as one branch of their own.
    """
    known = [index for index, outcome in enumerate(outcomes) if outcome.repeats[0] in digests]
    rest = [index for index, outcome in enumerate(outcomes) if outcome.repeats[0] not in digests]
    histories = {
        index: _history(digests[outcomes[index].repeats[0]], events[outcomes[index].repeats[0]], ticks) for index in known
    }
    root = _grow(outcomes, known, histories, ticks, 0)
    if not rest:
        return root
    others = OutcomeTree(tuple(rest), sum(len(outcomes[index].repeats) for index in rest), None)
    splits = [outcomes[index].split_tick for index in rest]
    until = min(tick for tick in (root.until_tick, *splits) if tick is not None)
    return OutcomeTree((*root.outcomes, *rest), root.repeats + others.repeats, until, (*(root.children or (root,)), others))


def _history(raw: NDArray[np.uint64], events: tuple[Event, ...], ticks: NDArray[np.int64]) -> list[bytes]:
    """One name per tick for everything until then: the actors' chained digests and the events so far."""
    names = []
    chain, position = b"", 0
    for index, tick in enumerate(ticks.tolist()):
        while position < len(events) and events[position].tick <= tick:
            chain = link(chain, events[position].to_bytes())
            position += 1
        names.append(raw[index].tobytes() + chain)
    return names


def _grow(
    outcomes: tuple[Outcome, ...], group: list[int], histories: dict[int, list[bytes]], ticks: NDArray[np.int64], start: int
) -> OutcomeTree:
    repeats = sum(len(outcomes[index].repeats) for index in group)
    if len(group) == 1:
        return OutcomeTree(tuple(group), repeats, None)
    for position in range(start, len(ticks)):
        parts: dict[bytes, list[int]] = {}
        for index in group:
            parts.setdefault(histories[index][position], []).append(index)
        if len(parts) > 1:
            children = tuple(_grow(outcomes, part, histories, ticks, position) for part in parts.values())
            return OutcomeTree(tuple(group), repeats, int(ticks[position]), children)
    # Equal to the last logged tick: they differ in how the run ended.
    children = tuple(OutcomeTree((index,), len(outcomes[index].repeats), None) for index in group)
    return OutcomeTree(tuple(group), repeats, None, children)


Pair = tuple[int | None, int | None]


@dataclass(frozen=True)
class EndingGroup:
    """What a test came to in some repeats: which pairs collided (None is scenery) and why the run ended; ticks do not count."""

    collisions: tuple[Pair, ...]
    reason: str
    completed: bool
    repeats: tuple[int, ...]


def collided_pairs(run: RunInfo) -> tuple[Pair, ...]:
    """Return which pairs collided: the outcome of the test, not the tick."""
    pairs = set()
    for event in run.events:
        if event.kind == EventKind.COLLISION:
            a, b = sorted((event.actor, event.other), key=_scenery_first)
            pairs.add((a, b))
    return tuple(sorted(pairs, key=lambda pair: (_scenery_first(pair[0]), _scenery_first(pair[1]))))


def pair_words(pairs: tuple[Pair, ...]) -> str:
    """Print pairs: ``1 with 2, 2 with scenery``."""
    return ", ".join(f"{'scenery' if a is None else a} with {'scenery' if b is None else b}" for a, b in pairs) or "none"


def find_endings(runs: Sequence[RunInfo]) -> tuple[EndingGroup, ...]:
    """Group repeats by what the test came to: the usual one first."""
    groups: dict[tuple[tuple[Pair, ...], str, bool], list[int]] = {}
    for run in runs:
        groups.setdefault((collided_pairs(run), run.end.reason, run.end.completed), []).append(run.repeat)
    endings = [EndingGroup(*key, tuple(repeats)) for key, repeats in groups.items()]
    return tuple(sorted(endings, key=lambda ending: (-len(ending.repeats), ending.repeats[0])))


def collided(endings: Sequence[EndingGroup]) -> int:
    """In how many repeats was there a collision?"""
    return sum(len(ending.repeats) for ending in endings if ending.collisions)


def flip_words(endings: Sequence[EndingGroup]) -> str:
    """Say how the verdict flips between repeats, as a sentence without a subject's name; nothing where all agree."""
    if len(endings) < 2:
        return ""
    total = sum(len(ending.repeats) for ending in endings)
    hit = collided(endings)
    parts = []
    if 0 < hit < total:
        missed = total - hit
        parts.append(
            f"{_repeats(hit, total)} {_verb(hit, 'collide')}" if hit < missed else f"{_repeats(missed, total)} {_not(missed)}"
        )
    usual = endings[0]
    others = [ending for ending in endings[1:] if bool(ending.collisions) == bool(usual.collisions)]
    if elsewhere := [ending for ending in others if ending.collisions != usual.collisions]:
        few, how = sum(len(ending.repeats) for ending in elsewhere), pair_words(elsewhere[0].collisions)
        told = f"{how}{', ...' if len({ending.collisions for ending in elsewhere}) > 1 else ''}"
        parts.append(
            f"{_repeats(few, total)} {_verb(few, 'collide')} otherwise ({told}; usually {pair_words(usual.collisions)})"
        )
    if ends := [ending for ending in others if ending.collisions == usual.collisions]:
        few, how = sum(len(ending.repeats) for ending in ends), ends[0].reason
        told = f"by {how!r}{' and others' if len({ending.reason for ending in ends}) > 1 else ''}"
        parts.append(f"{_repeats(few, total)} {_verb(few, 'end')} {told}, the others by {usual.reason!r}")
    return "; ".join(parts)


def _repeats(few: int, total: int) -> str:
    return f"{few} of {total} repeats"


def _verb(few: int, verb: str) -> str:
    return f"{verb}s" if few == 1 else verb


def _not(few: int) -> str:
    return "does not collide" if few == 1 else "do not collide"


def _scenery_first(actor: int | None) -> int:
    return -1 if actor is None else actor
