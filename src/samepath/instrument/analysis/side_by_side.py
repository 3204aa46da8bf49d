"""Variants of a study side by side: spread, outcomes, the test's own verdict, shift of the mean, pace; a line per simulator.

A variant is a simulator used in one way. Where two of them differ in settings only, and one varies less, the settings that do
that are named. Beside the spread stands the shift of the mean path against the unloaded cell: a spread that stays the same may
still move as a whole, and sigma alone would not show it.

Records come first, then :func:`find_side_by_side`, which finds for every cell its base, for every variant the settings that
remove its variance, and for every simulator a conclusion in words.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.conditions import LOADS, RunPace
from samepath.instrument.analysis.domains import Domain
from samepath.instrument.analysis.factors import (
    Level,
    MissingCell,
    StudyFactor,
    by_scenario,
    by_variant,
    joined,
    level_of,
    level_words,
    settings_of,
    title,
)
from samepath.instrument.analysis.outcomes import EndingGroup, collided, flip_words, pair_words

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)
Diff = tuple[tuple[str, Level, Level], ...]
# A variant varies clearly less than another from this factor on.
_CLEARLY: Final = 10.0
# Two variants that differ in more settings are different things, not the same with something changed.
_MOST_SETTINGS: Final = 4


@dataclass(frozen=True)
class MeanShift:
    """The largest distance between the mean positions of an actor in two cells, over the ticks that all their repeats have.

    ``error_m`` is the standard error of that distance, at the place where it is largest: so far apart chance puts the means of
    so few repeats by itself. ``tick`` and ``actor`` say where that is.
    """

    shift_m: float
    error_m: float
    tick: int
    actor: int


@dataclass(frozen=True)
class Shift:
    """Against which cell the means are held, and how far they are apart before and from the first collision of either on.

    None where there is nothing to compare, such as no tick that all repeats of both have.
    """

    against: str
    before: MeanShift | None
    after: MeanShift | None


@dataclass(frozen=True)
class SideRow:
    """A cell beside the others. ``levels`` are those of what its variant varies.

    ``after_sigma_m`` is None where no repeat collides (or has what else splits the runs): ``before_sigma_m`` is then of the
    whole run. ``shift`` is against the cell with no load, or the variant's first one; None for that cell itself.
    ``sensors_differ``: in some repeat a sensor saw something else.
    """

    cell: str
    levels: tuple[tuple[str, Level], ...]
    repeats: int
    verdict: Verdict
    max_sigma_m: float | None
    before_sigma_m: float | None
    after_sigma_m: float | None
    outcomes: int
    endings: tuple[EndingGroup, ...]
    shift: Shift | None
    pace: RunPace | None
    sensors_differ: bool = False

    @property
    def collided(self) -> int:
        """In how many repeats was there a collision?"""
        return collided(self.endings)

    @property
    def flips(self) -> bool:
        """Do repeats of this cell disagree on what the test came to?"""
        return len(self.endings) > 1

    def flip_words(self) -> str:
        """Say how the test's verdict flips within the cell; nothing where all repeats agree."""
        return flip_words(self.endings)

    def where(self) -> str:
        """Name the levels: ``95 % CPU load``; nothing where nothing was varied."""
        parts = []
        for name, level in self.levels:
            words = level_words(name, level)
            parts.append(f"{words} {title(name)}" if words.endswith("%") else f"{title(name)} {words}")
        return ", ".join(parts)


@dataclass(frozen=True)
class SideVariant:
    """A variant on one scenario: its cells, where its variance is permissible (on this scenario), and its answer.

    ``repeatable`` is "yes", "no" or "not seen to vary", over all conditions.
    """

    variant: str
    simulator: str
    scenario: str
    split: str
    repeatable: str
    rows: tuple[SideRow, ...]
    domain: Domain

    @property
    def verdict(self) -> Verdict:
        """The worst of its cells."""
        return max((row.verdict for row in self.rows), key=lambda verdict: verdict.rank)

    @property
    def max_sigma_m(self) -> float | None:
        """The largest of its cells."""
        return _most(row.max_sigma_m for row in self.rows)

    @property
    def before_sigma_m(self) -> float | None:
        """The largest before the collision."""
        return _most(row.before_sigma_m for row in self.rows)

    @property
    def after_sigma_m(self) -> float | None:
        """The largest after the collision; None where there is none in any cell."""
        return _most(row.after_sigma_m for row in self.rows)

    @property
    def flips(self) -> bool:
        """Does the test come to something else in some repeat, under the same condition or another?"""
        return len({(ending.collisions, ending.reason, ending.completed) for row in self.rows for ending in row.endings}) > 1

    def flip_words(self) -> str:
        """Say how the test's verdict flips, within cells and between them; nothing where it never does."""
        if not self.flips:
            return ""
        endings = [ending for row in self.rows for ending in row.endings]
        collisions, reason = _usual(endings, lambda ending: ending.collisions), _usual(endings, lambda ending: ending.reason)
        hit, repeats = sum(row.collided for row in self.rows), sum(row.repeats for row in self.rows)
        parts = []
        if 0 < hit < repeats:
            rare = 2 * hit < repeats
            counts = self._counts(lambda ending: bool(ending.collisions) == rare, every=True)
            parts.append(f"{'a' if rare else 'no'} collision in {counts}")
        elsewhere = dict.fromkeys(
            ending.collisions for ending in endings if ending.collisions and ending.collisions != collisions
        )
        if collisions and elsewhere:
            told = (
                f"{pair_words(next(iter(elsewhere)))}{', ...' if len(elsewhere) > 1 else ''}; usually {pair_words(collisions)}"
            )
            parts.append(f"other collisions ({told}) in {self._counts(lambda ending: ending.collisions in elsewhere)}")
        if len({(ending.collisions, ending.reason) for ending in endings}) > len({ending.collisions for ending in endings}):
            counts = self._counts(lambda ending: ending.reason != reason)
            others = dict.fromkeys(ending.reason for ending in endings if ending.reason != reason)
            told = f"{next(iter(others))!r}{' or otherwise' if len(others) > 1 else ''}"
            parts.append(f"the run ends by {told} instead of {reason!r} in {counts}")
        return "; ".join(parts)

    def _counts(self, which: Callable[[EndingGroup], bool], *, every: bool = False) -> str:
        """Count repeats by level: ``1 of 10 repeats at 75 % and 3 of 10 at 95 % CPU load``; where any do, or ``every``."""
        found = [(row, sum(len(ending.repeats) for ending in row.endings if which(ending))) for row in self.rows]
        found = [(row, few) for row, few in found if few or every]
        levels = level_list([row for row, _ in found])
        parts = [
            f"{few} of {row.repeats}{' repeats' if index == 0 else ''}{f' at {level}' if level else ''}"
            for index, ((row, few), level) in enumerate(zip(found, levels, strict=True))
        ]
        return joined(parts)


@dataclass(frozen=True)
class SettingChange:
    """From a variant that varies to one that varies less: they differ in ``settings`` (name, from, to) and in nothing else.

    Sigmas are the largest over the conditions that both were run under.
    """

    simulator: str
    scenario: str
    from_variant: str
    to_variant: str
    settings: tuple[tuple[str, Level, Level], ...]
    from_sigma_m: float
    to_sigma_m: float
    to_verdict: Verdict

    def words(self) -> str:
        """Say what the settings do: ``controller frame -> physics: max sigma 7.9 cm -> 0; bit-identical, ...``."""
        what = joined(
            [f"{name} {level_words(name, before)} -> {level_words(name, after)}" for name, before, after in self.settings]
        )
        sizes = f"max sigma {format_length(self.from_sigma_m)} -> {format_length(self.to_sigma_m)}"
        gone = "; bit-identical, the variance is gone" if self.to_verdict is Verdict.BIT_IDENTICAL else ""
        return f"{what}: {sizes}{gone}"


@dataclass(frozen=True)
class AbsentVariant:
    """A variant without any figures, and why: most often its engine is not installed."""

    variant: str
    simulator: str
    kind: str
    reason: str

    def words(self) -> str:
        """Say it in one line."""
        return f"{self.variant}: {self.reason or self.kind}"


@dataclass(frozen=True)
class Conclusion:
    """What a study shows of one simulator, over its variants; ``text`` needs nothing else to be understood."""

    simulator: str
    variants: tuple[str, ...]
    text: str
    changes: tuple[SettingChange, ...]
    flips: bool
    installed: bool

    def words(self) -> str:
        """Say it in one line."""
        return f"{self.simulator}: {self.text}"


@dataclass(frozen=True)
class SideBySide:
    """The variants of a study and a conclusion for each simulator, in the order of the study."""

    variants: tuple[SideVariant, ...]
    absent: tuple[AbsentVariant, ...]
    conclusions: tuple[Conclusion, ...]

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The distinct scenarios."""
        return tuple(dict.fromkeys(variant.scenario for variant in self.variants))

    def names(self, variant: SideVariant) -> tuple[str, ...]:
        """What tells a variant apart: its name, and its scenario where it has several."""
        several = sum(other.variant == variant.variant for other in self.variants) > 1
        return (variant.variant, variant.scenario) if several else (variant.variant,)


def find_side_by_side(
    cells: Sequence[CellAnalysis],
    missing: Sequence[MissingCell],
    factors: Sequence[StudyFactor],
    domains: Sequence[Domain],
    repeatable: Mapping[str, str],
) -> SideBySide | None:
    """Put the variants side by side; None where there is one only. ``repeatable`` is each one's answer to that question."""
    groups = by_variant(cells)
    own = {(domain.variant, domain.scope): domain for domain in domains}
    # An engine that is not installed belongs into the comparison as well: left out in silence it would look as if never asked.
    absent = find_absent(missing, list(groups))
    if len(groups) + len(absent) < 2:
        return None
    variants = tuple(
        SideVariant(
            variant=variant,
            simulator=members[0].header.simulator,
            scenario=scenario,
            split=members[0].boundary.split.name,
            repeatable=repeatable[variant],
            rows=tuple(_row(cell, group, factors) for cell in group),
            domain=own[variant, scenario],
        )
        for variant, members in groups.items()
        for scenario, group in by_scenario(members).items()
    )
    simulators = dict.fromkeys([*(variant.simulator for variant in variants), *(variant.simulator for variant in absent)])
    return SideBySide(
        variants,
        absent,
        tuple(
            _conclude(
                simulator,
                [variant for variant in variants if variant.simulator == simulator],
                [variant for variant in absent if variant.simulator == simulator],
                _find_changes(
                    {name: group for name, group in groups.items() if group[0].header.simulator == simulator}, repeatable
                ),
                same_bits=_same_bits(
                    [
                        group
                        for name, group in groups.items()
                        if repeatable[name] == "yes" and group[0].header.simulator == simulator
                    ]
                ),
            )
            for simulator in simulators
        ),
    )


def find_absent(missing: Iterable[MissingCell], present: Sequence[str]) -> tuple[AbsentVariant, ...]:
    """Return the variants of which no cell has figures, with the first reason told."""
    found: dict[str, AbsentVariant] = {}
    for cell in missing:
        name = cell.variant or cell.simulator
        if name not in present:
            known = found.get(name)
            if known is None or (not known.reason and cell.reason):
                found[name] = AbsentVariant(name, cell.simulator, cell.kind, cell.reason)
    return tuple(found.values())


def level_list(rows: Sequence[SideRow]) -> list[str]:
    """Name the levels of rows in turn, what they are of with the last only: ``0 %``, ``75 %``, ``95 % CPU load``."""
    names = {tuple(name for name, _ in row.levels) for row in rows}
    told = [row.where() for row in rows]
    if len(names) != 1 or len(next(iter(names))) != 1:
        return told
    ((name,),) = names
    short = [level_words(name, row.levels[0][1]) for row in rows]
    return [*short[:-1], told[-1]] if all(words.endswith("%") for words in short) else told


def short_name(variant: str, simulator: str) -> str:
    """Name a variant among those of its simulator: ``godot frame callback`` is ``frame callback``."""
    return variant.removeprefix(simulator).strip(" ,:-") or variant


def _row(cell: CellAnalysis, group: Sequence[CellAnalysis], factors: Sequence[StudyFactor]) -> SideRow:
    own = [factor for factor in factors if factor.variant == (cell.header.variant or cell.header.simulator)]
    base = _base(cell, group)
    return SideRow(
        cell=cell.header.cell,
        levels=tuple((factor.name, level_of(cell, factor)) for factor in own),
        repeats=cell.repeats,
        verdict=cell.judgement.verdict,
        max_sigma_m=cell.summary.max_sigma_m,
        before_sigma_m=cell.before.summary.max_sigma_m,
        after_sigma_m=cell.after.summary.max_sigma_m,
        outcomes=len(cell.outcomes),
        endings=cell.endings,
        shift=None if base is None else find_shift(cell, base),
        pace=cell.pace,
        sensors_differ=any(not sensor.identical for sensor in cell.sensors),
    )


def _base(cell: CellAnalysis, group: Sequence[CellAnalysis]) -> CellAnalysis | None:
    """Return the cell with no load and all else equal; where no load was varied, the first cell of the same settings."""
    alike = [other for other in group if settings_of(other.header) == settings_of(cell.header)]
    unloaded = [other for other in alike if not any(other.header.condition.get(name) for name in LOADS)]
    base = alike[0]
    if len(unloaded) < len(alike):
        base = next((other for other in unloaded if _without_loads(other) == _without_loads(cell)), base)
    return None if base is cell else base


def _without_loads(cell: CellAnalysis) -> dict[str, object]:
    return {name: level for name, level in cell.header.condition.items() if name not in LOADS}


def find_shift(cell: CellAnalysis, base: CellAnalysis) -> Shift:
    """Hold the mean path of ``cell`` against that of ``base``."""
    firsts = [side.boundary.first_tick for side in (cell, base) if side.boundary.first_tick is not None]
    ticks, ours, theirs = np.intersect1d(cell.spread.ticks, base.spread.ticks, assume_unique=True, return_indices=True)
    actors, our_actors, their_actors = np.intersect1d(
        cell.spread.actor_ids, base.spread.actor_ids, assume_unique=True, return_indices=True
    )
    at, base_at = _pairs(cell, ours, our_actors), _pairs(base, theirs, their_actors)
    # Logs of two engines may have other axes; a plane one is compared on the plane.
    axes = [name for name in cell.spread.axes if name in base.spread.axes]
    squares, errors = np.zeros(at.shape), np.zeros(at.shape)
    shared = np.ones(at.shape, np.bool_)
    for name in axes:
        here, there = cell.spread.channels[name], base.spread.channels[name]
        # Only where every repeat of both is there: the mean of those that are left after a removal is another actor's mean.
        shared &= (here.count[at] == cell.repeats) & (there.count[base_at] == base.repeats)
        squares += (here.mean[at] - there.mean[base_at]) ** 2
        errors += here.variance[at] / cell.repeats + there.variance[base_at] / base.repeats
    shared &= np.isfinite(squares)
    early = (ticks < min(firsts) if firsts else np.ones(len(ticks), np.bool_))[:, np.newaxis]
    return Shift(
        against=base.header.cell,
        before=_largest_shift(squares, errors, shared & early, ticks, actors),
        after=_largest_shift(squares, errors, shared & ~early, ticks, actors),
    )


def _pairs(cell: CellAnalysis, ticks: NDArray[np.intp], actors: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where pairs of (tick, actor) stand in the flat arrays of a cell's spread."""
    return ticks[:, np.newaxis] * len(cell.spread.actor_ids) + actors[np.newaxis, :]


def _largest_shift(
    squares: Floats, errors: Floats, mask: Bools, ticks: NDArray[np.int64], actors: NDArray[np.int64]
) -> MeanShift | None:
    if not mask.any():
        return None
    tick, actor = np.unravel_index(int(np.argmax(np.where(mask, squares, -1.0))), squares.shape)
    return MeanShift(
        shift_m=float(np.sqrt(squares[tick, actor])),
        error_m=float(np.sqrt(errors[tick, actor])),
        tick=int(ticks[tick]),
        actor=int(actors[actor]),
    )


def _find_changes(groups: Mapping[str, Sequence[CellAnalysis]], repeatable: Mapping[str, str]) -> tuple[SettingChange, ...]:
    """For every variant that varies, find the one that differs in the fewest settings and varies clearly less."""
    changes = []
    for name, cells in groups.items():
        if repeatable[name] != "no":
            continue
        for scenario, members in by_scenario(cells).items():
            found = [
                (len(change.settings), change.to_verdict.rank, change.to_sigma_m, order, change)
                for order, (other, others) in enumerate(groups.items())
                if other != name
                and (change := _change(scenario, (name, members), (other, others), still=repeatable[other] != "no")) is not None
            ]
            if found:
                changes.append(min(found)[-1])
    return tuple(changes)


def _change(
    scenario: str, varying: tuple[str, Sequence[CellAnalysis]], other: tuple[str, Sequence[CellAnalysis]], *, still: bool
) -> SettingChange | None:
    """Compare two variants under the conditions that both have; None where the second does not vary clearly less."""
    pairs = [
        (ours, theirs)
        for ours in varying[1]
        for theirs in other[1]
        if theirs.header.scenario == scenario and ours.header.condition == theirs.header.condition
    ]
    # Several differences among the pairs would mean that the settings themselves are varied: then no one of them did it.
    diffs = {_diff(ours, theirs) for ours, theirs in pairs}
    if len(diffs) != 1:
        return None
    (settings,) = diffs
    before_m, after_m = (max(cell.summary.max_sigma_m or 0.0 for cell in side) for side in zip(*pairs, strict=True))
    less = still or after_m * _CLEARLY <= before_m
    if not 0 < len(settings) <= _MOST_SETTINGS or not less or after_m > before_m:
        return None
    worst = max((theirs.judgement.verdict for _, theirs in pairs), key=lambda verdict: verdict.rank)
    return SettingChange(pairs[0][0].header.simulator, scenario, varying[0], other[0], settings, before_m, after_m, worst)


def _diff(cell: CellAnalysis, other: CellAnalysis) -> Diff:
    ours, theirs = settings_of(cell.header), settings_of(other.header)
    names = dict.fromkeys([*ours, *theirs])
    return tuple((name, ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name))


def _same_bits(groups: Sequence[Sequence[CellAnalysis]]) -> bool:
    """Do all of these variants, each of which repeats itself, do the very same?"""
    kinds = {frozenset((cell.header.scenario, cell.outcomes[0].digest) for cell in group) for group in groups}
    return len(groups) > 1 and len(kinds) == 1


def _conclude(
    simulator: str,
    variants: Sequence[SideVariant],
    absent: Sequence[AbsentVariant],
    changes: tuple[SettingChange, ...],
    *,
    same_bits: bool,
) -> Conclusion:
    names = list(dict.fromkeys(variant.variant for variant in variants))
    several = len(names) + len(absent) > 1
    parts = [
        *_still_words(
            [variant for variant in variants if variant.repeatable != "no"], simulator, several=several, same_bits=same_bits
        ),
        *_varying_words([variant for variant in variants if variant.repeatable == "no"], simulator, several=several),
        *(_change_words(change, several=len({variant.scenario for variant in variants}) > 1) for change in changes),
        *_flip_words(variants, simulator, several=several),
        *_absent_words(absent, simulator, several=bool(names)),
    ]
    return Conclusion(
        simulator=simulator,
        variants=(*names, *(variant.variant for variant in absent)),
        text=". ".join(parts),
        changes=changes,
        flips=any(variant.flips for variant in variants),
        installed=bool(names),
    )


def _still_words(variants: Sequence[SideVariant], simulator: str, *, several: bool, same_bits: bool) -> list[str]:
    parts = []
    for answer, words in (("yes", "Bit-identical"), ("not seen to vary", "Equal logs, but rounded,")):
        found = [variant for variant in variants if variant.repeatable == answer]
        if found:
            names = joined(list(dict.fromkeys(short_name(variant.variant, simulator) for variant in found)))
            repeats = sum(row.repeats for variant in found for row in variant.rows)
            same = ", the same bits in all of them" if same_bits and answer == "yes" else ""
            parts.append(f"{words} in all {repeats} repeats{f': {names}{same}' if several else ''}")
    return parts


def _varying_words(variants: Sequence[SideVariant], simulator: str, *, several: bool) -> list[str]:
    if not variants:
        return []
    words = []
    for name in dict.fromkeys(variant.variant for variant in variants):
        found = [variant for variant in variants if variant.variant == name]
        most = max(found, key=lambda variant: variant.max_sigma_m or 0.0)
        words.append(f"{short_name(name, simulator)} ({_sigma_words(most)})" if several else _sigma_words(most))
    return [f"Varies: {joined(words)}"]


def _sigma_words(variant: SideVariant) -> str:
    if not variant.max_sigma_m:
        if any(row.outcomes > 1 for row in variant.rows):
            return "in structure, with the same paths"
        if any(row.sensors_differ for row in variant.rows):
            return "paths repeat themselves to the bit, what sensors saw does not"
        return "each cell repeats itself, but not under another condition"
    before_m, after_m = variant.before_sigma_m, variant.after_sigma_m
    if after_m is None or before_m is None:
        return f"max sigma {format_length(variant.max_sigma_m)}"
    return f"max sigma {format_length(before_m)} before the first {variant.split}, {format_length(after_m)} after"


def _change_words(change: SettingChange, *, several: bool) -> str:
    return f"{change.scenario}: {change.words()}" if several else change.words()


def _flip_words(variants: Sequence[SideVariant], simulator: str, *, several: bool) -> list[str]:
    """Say where the test's verdict flips; where something varies and it does not, say that too."""
    flips = []
    for variant in variants:
        if variant.flips:
            name = short_name(variant.variant, simulator) if several else ""
            if sum(other.variant == variant.variant for other in variants) > 1:
                name = f"{name} {variant.scenario}".strip()
            flips.append(f"{name}: {variant.flip_words()}" if name else variant.flip_words())
    between = _between_words(variants, simulator)
    if flips:
        return [f"The test's verdict flips: {'; '.join(flips)}", *between]
    if between:
        return between
    varying = [variant for variant in variants if variant.repeatable == "no"]
    if not varying:
        return []
    if len({variant.scenario for variant in varying}) > 1:
        return ["The test's verdict is the same in every repeat"]
    hit, total = (
        sum(counts)
        for counts in zip(*((row.collided, row.repeats) for variant in varying for row in variant.rows), strict=True)
    )
    return [f"The test's verdict is the same in every repeat: a collision in {hit} of {total} repeats that vary"]


def _between_words(variants: Sequence[SideVariant], simulator: str) -> list[str]:
    """Say in how many repeats of each variant there was a collision, where variants of one test disagree about that."""
    words = []
    for scenario in dict.fromkeys(variant.scenario for variant in variants):
        found = [variant for variant in variants if variant.scenario == scenario]
        counts = [(sum(row.collided for row in variant.rows), sum(row.repeats for row in variant.rows)) for variant in found]
        if len({hit / total for hit, total in counts}) > 1:
            told = [
                f"{short_name(variant.variant, simulator)} in {hit} of {total}"
                for variant, (hit, total) in zip(found, counts, strict=True)
            ]
            words.append(f"Repeats with a collision: {', '.join(told)}")
    return words


def _absent_words(absent: Sequence[AbsentVariant], simulator: str, *, several: bool) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for variant in absent:
        reasons.setdefault(variant.reason or variant.kind, []).append(short_name(variant.variant, simulator))
    if not several and len(reasons) == 1:
        return list(reasons)
    return [f"No figures of {joined(names)}: {reason}" for reason, names in reasons.items()]


def _usual(endings: Sequence[EndingGroup], of: Callable[[EndingGroup], Key]) -> Key:
    """What most repeats of all cells have in common."""
    counts: dict[Key, int] = {}
    for ending in endings:
        counts[of(ending)] = counts.get(of(ending), 0) + len(ending.repeats)
    return max(counts, key=lambda key: counts[key])


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
