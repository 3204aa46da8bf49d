"""Variants of a study side by side: spread, outcomes, the test's own verdict, shift of the mean, pace; a line per engine.

A variant is a simulator used in one way. Where two of them differ in settings only, and one varies less, the settings that do
that are named.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from samepath.analysis.domains import Domain
from samepath.analysis.endings import Ending, collided, flip_words, pair_words
from samepath.analysis.factors import Level, MissingCell, joined, level_words, title
from samepath.analysis.mean_shift import Shift
from samepath.analysis.pace import Pace
from samepath.base.units import format_length
from samepath.base.verdicts import Verdict

Key = TypeVar("Key", bound=Hashable)


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
    endings: tuple[Ending, ...]
    shift: Shift | None
    pace: Pace | None
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
    """A variant on one scenario: its cells, where its variance is permissible (over all its scenarios), and its answer.

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
        return max((row.verdict for row in self.rows), key=lambda one: one.rank)

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
        return len({(one.collisions, one.reason, one.completed) for row in self.rows for one in row.endings}) > 1

    def flip_words(self) -> str:
        """Say how the test's verdict flips, within cells and between them; nothing where it never does."""
        if not self.flips:
            return ""
        endings = [one for row in self.rows for one in row.endings]
        collisions, reason = _usual(endings, lambda one: one.collisions), _usual(endings, lambda one: one.reason)
        hit, repeats = sum(row.collided for row in self.rows), sum(row.repeats for row in self.rows)
        parts = []
        if 0 < hit < repeats:
            rare = 2 * hit < repeats
            counts = self._counts(lambda one: bool(one.collisions) == rare, every=True)
            parts.append(f"{'a' if rare else 'no'} collision in {counts}")
        elsewhere = dict.fromkeys(one.collisions for one in endings if one.collisions and one.collisions != collisions)
        if collisions and elsewhere:
            told = (
                f"{pair_words(next(iter(elsewhere)))}{', ...' if len(elsewhere) > 1 else ''}; usually {pair_words(collisions)}"
            )
            parts.append(f"other collisions ({told}) in {self._counts(lambda one: one.collisions in elsewhere)}")
        if len({(one.collisions, one.reason) for one in endings}) > len({one.collisions for one in endings}):
            counts = self._counts(lambda one: one.reason != reason)
            others = dict.fromkeys(one.reason for one in endings if one.reason != reason)
            told = f"{next(iter(others))!r}{' or otherwise' if len(others) > 1 else ''}"
            parts.append(f"the run ends by {told} instead of {reason!r} in {counts}")
        return "; ".join(parts)

    def _counts(self, which: Callable[[Ending], bool], *, every: bool = False) -> str:
        """Count repeats by level: ``1 of 10 repeats at 75 % and 3 of 10 at 95 % CPU load``; where any do, or ``every``."""
        found = [(row, sum(len(one.repeats) for one in row.endings if which(one))) for row in self.rows]
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
        return tuple(dict.fromkeys(one.scenario for one in self.variants))

    def names(self, variant: SideVariant) -> tuple[str, ...]:
        """What tells a variant apart: its name, and its scenario where it has several."""
        several = sum(one.variant == variant.variant for one in self.variants) > 1
        return (variant.variant, variant.scenario) if several else (variant.variant,)


def find_absent(missing: Iterable[MissingCell], present: Sequence[str]) -> tuple[AbsentVariant, ...]:
    """Return the variants of which no cell has figures, with the first reason told."""
    found: dict[str, AbsentVariant] = {}
    for one in missing:
        name = one.variant or one.simulator
        if name not in present:
            known = found.get(name)
            if known is None or (not known.reason and one.reason):
                found[name] = AbsentVariant(name, one.simulator, one.kind, one.reason)
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


def _usual(endings: Sequence[Ending], of: Callable[[Ending], Key]) -> Key:
    """What most repeats of all cells have in common."""
    counts: dict[Key, int] = {}
    for one in endings:
        counts[of(one)] = counts.get(of(one), 0) + len(one.repeats)
    return max(counts, key=lambda key: counts[key])


def _most(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)
