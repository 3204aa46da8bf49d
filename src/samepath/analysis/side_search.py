"""Finding what stands side by side: which cell is the base of which, which settings remove a variance, and what to conclude."""

from collections.abc import Mapping, Sequence
from typing import Final

from samepath.analysis.asked import LOADS
from samepath.analysis.cell import CellAnalysis
from samepath.analysis.domains import Domain
from samepath.analysis.factors import Level, MissingCell, StudyFactor, by_scenario, by_variant, joined, level_of, settings_of
from samepath.analysis.mean_shift import find_shift
from samepath.analysis.side_by_side import (
    AbsentVariant,
    Conclusion,
    SettingChange,
    SideBySide,
    SideRow,
    SideVariant,
    find_absent,
    short_name,
)
from samepath.base.units import format_length

# A variant varies clearly less than another from this factor on.
_CLEARLY: Final = 10.0
# Two variants that differ in more settings are different things, not the same with something changed.
_MOST_SETTINGS: Final = 4

Diff = tuple[tuple[str, Level, Level], ...]


def find_side_by_side(
    cells: Sequence[CellAnalysis],
    missing: Sequence[MissingCell],
    factors: Sequence[StudyFactor],
    domains: Mapping[str, Domain],
    repeatable: Mapping[str, str],
) -> SideBySide | None:
    """Put the variants side by side; None where there is one only. ``repeatable`` is each one's answer to that question."""
    groups = by_variant(cells)
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
            domain=domains[variant],
        )
        for variant, members in groups.items()
        for scenario, group in by_scenario(members).items()
    )
    simulators = dict.fromkeys([*(one.simulator for one in variants), *(one.simulator for one in absent)])
    return SideBySide(
        variants,
        absent,
        tuple(
            _conclude(
                simulator,
                [one for one in variants if one.simulator == simulator],
                [one for one in absent if one.simulator == simulator],
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


def _row(cell: CellAnalysis, group: Sequence[CellAnalysis], factors: Sequence[StudyFactor]) -> SideRow:
    own = [one for one in factors if one.variant == (cell.header.variant or cell.header.simulator)]
    base = _base(cell, group)
    return SideRow(
        cell=cell.header.cell,
        levels=tuple((one.name, level_of(cell, one)) for one in own),
        repeats=cell.repeats,
        verdict=cell.judgement.verdict,
        max_sigma_m=cell.summary.max_sigma_m,
        before_sigma_m=cell.before.summary.max_sigma_m,
        after_sigma_m=cell.after.summary.max_sigma_m,
        outcomes=len(cell.outcomes),
        endings=cell.endings,
        shift=None if base is None else find_shift(cell, base),
        pace=cell.pace,
        sensors_differ=any(not one.identical for one in cell.sensors),
    )


def _base(cell: CellAnalysis, group: Sequence[CellAnalysis]) -> CellAnalysis | None:
    """Return the cell with no load and all else equal; where no load was varied, the first cell of the same settings."""
    alike = [one for one in group if settings_of(one.header) == settings_of(cell.header)]
    unloaded = [one for one in alike if not any(one.header.condition.get(name) for name in LOADS)]
    base = alike[0]
    if len(unloaded) < len(alike):
        base = next((one for one in unloaded if _without_loads(one) == _without_loads(cell)), base)
    return None if base is cell else base


def _without_loads(cell: CellAnalysis) -> dict[str, object]:
    return {name: level for name, level in cell.header.condition.items() if name not in LOADS}


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
    scenario: str, one: tuple[str, Sequence[CellAnalysis]], other: tuple[str, Sequence[CellAnalysis]], *, still: bool
) -> SettingChange | None:
    """Compare two variants under the conditions that both have; None where the second does not vary clearly less."""
    pairs = [
        (ours, theirs)
        for ours in one[1]
        for theirs in other[1]
        if theirs.header.scenario == scenario and ours.header.condition == theirs.header.condition
    ]
    diffs = {_diff(ours, theirs) for ours, theirs in pairs}
    if len(diffs) != 1:
        return None
    (settings,) = diffs
    before_m, after_m = (max(cell.summary.max_sigma_m or 0.0 for cell in side) for side in zip(*pairs, strict=True))
    less = still or after_m * _CLEARLY <= before_m
    if not 0 < len(settings) <= _MOST_SETTINGS or not less or after_m > before_m:
        return None
    worst = max((theirs.judgement.verdict for _, theirs in pairs), key=lambda verdict: verdict.rank)
    return SettingChange(pairs[0][0].header.simulator, scenario, one[0], other[0], settings, before_m, after_m, worst)


def _diff(one: CellAnalysis, other: CellAnalysis) -> Diff:
    ours, theirs = settings_of(one.header), settings_of(other.header)
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
    names = list(dict.fromkeys(one.variant for one in variants))
    several = len(names) + len(absent) > 1
    parts = [
        *_still_words([one for one in variants if one.repeatable != "no"], simulator, several=several, same_bits=same_bits),
        *_varying_words([one for one in variants if one.repeatable == "no"], simulator, several=several),
        *(_change_words(one, several=len({two.scenario for two in variants}) > 1) for one in changes),
        *_flip_words(variants, simulator, several=several),
        *_absent_words(absent, simulator, several=bool(names)),
    ]
    return Conclusion(
        simulator=simulator,
        variants=(*names, *(one.variant for one in absent)),
        text=". ".join(parts),
        changes=changes,
        flips=any(one.flips for one in variants),
        installed=bool(names),
    )


def _still_words(variants: Sequence[SideVariant], simulator: str, *, several: bool, same_bits: bool) -> list[str]:
    parts = []
    for answer, words in (("yes", "Bit-identical"), ("not seen to vary", "Not seen to vary, in a log that is rounded,")):
        found = [one for one in variants if one.repeatable == answer]
        if found:
            names = joined(list(dict.fromkeys(short_name(one.variant, simulator) for one in found)))
            repeats = sum(row.repeats for one in found for row in one.rows)
            same = ", the same bits in all of them" if same_bits and answer == "yes" else ""
            parts.append(f"{words} in all {repeats} repeats{f': {names}{same}' if several else ''}")
    return parts


def _varying_words(variants: Sequence[SideVariant], simulator: str, *, several: bool) -> list[str]:
    if not variants:
        return []
    words = []
    for name in dict.fromkeys(one.variant for one in variants):
        found = [one for one in variants if one.variant == name]
        most = max(found, key=lambda one: one.max_sigma_m or 0.0)
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
    for one in variants:
        if one.flips:
            name = short_name(one.variant, simulator) if several else ""
            if sum(two.variant == one.variant for two in variants) > 1:
                name = f"{name} {one.scenario}".strip()
            flips.append(f"{name}: {one.flip_words()}" if name else one.flip_words())
    between = _between_words(variants, simulator)
    if flips:
        return [f"The test's verdict flips: {'; '.join(flips)}", *between]
    if between:
        return between
    varying = [one for one in variants if one.repeatable == "no"]
    if not varying:
        return []
    if len({one.scenario for one in varying}) > 1:
        return ["The test's verdict is the same in every repeat"]
    hit, total = (
        sum(counts) for counts in zip(*((row.collided, row.repeats) for one in varying for row in one.rows), strict=True)
    )
    return [f"The test's verdict is the same in every repeat: {hit} of {total} of what varies collide"]


def _between_words(variants: Sequence[SideVariant], simulator: str) -> list[str]:
    """Say in how many repeats of each variant there was a collision, where variants of one test disagree about that."""
    words = []
    for scenario in dict.fromkeys(one.scenario for one in variants):
        found = [one for one in variants if one.scenario == scenario]
        counts = [(sum(row.collided for row in one.rows), sum(row.repeats for row in one.rows)) for one in found]
        if len({hit / total for hit, total in counts}) > 1:
            told = [
                f"{short_name(one.variant, simulator)} in {hit} of {total}"
                for one, (hit, total) in zip(found, counts, strict=True)
            ]
            words.append(f"Repeats with a collision: {', '.join(told)}")
    return words


def _absent_words(absent: Sequence[AbsentVariant], simulator: str, *, several: bool) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for one in absent:
        reasons.setdefault(one.reason or one.kind, []).append(short_name(one.variant, simulator))
    if not several and len(reasons) == 1:
        return list(reasons)
    return [f"No figures of {joined(names)}: {reason}" for reason, names in reasons.items()]
