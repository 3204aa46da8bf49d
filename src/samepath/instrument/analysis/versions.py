"""Versions of an engine or of its controllers beside each other: bits, spread, the mean path, what the test came to.

Two cells are compared if they run the same scenario on the same simulator under the same settings and conditions, in two
installations (the condition ``packages``) or with two programs (a setting that names one). An update that repeats itself as
exactly as before may still drive elsewhere: neither max sigma nor a verdict of one cell shows that, the shift of the mean does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.conditions import LOADS
from samepath.instrument.analysis.factors import joined, level_words, settings_of, title
from samepath.instrument.analysis.outcomes import EndingGroup, collided, pair_words
from samepath.instrument.analysis.side_by_side import Shift, find_shift
from samepath.instrument.traces.records import Header

PACKAGES: Final = "packages"
# Settings that say where a program lies, in every engine that has one: another place may be another version of the same thing.
_PLACES: Final = (PACKAGES, "program", "python", "modules")
_MOST_CHANGES: Final = 4
_ABSENT: Final = "absent"


@dataclass(frozen=True)
class VersionComparison:
    """A cell of another version (``to``) against the same cell of the first (``from``).

    ``changed`` are packages of another version, as ``name 1.0 -> 1.1``; where none has one, ``files`` says that files differ.
    ``same_bits`` is None where repeats of either version differ among themselves: then there is no one run to compare.
    """

    simulator: str
    scenario: str
    where: str
    from_cell: str
    to_cell: str
    from_version: str
    to_version: str
    changed: tuple[str, ...]
    files: bool
    same_bits: bool | None
    from_verdict: Verdict
    to_verdict: Verdict
    from_sigma_m: float | None
    to_sigma_m: float | None
    shift: Shift
    from_endings: tuple[EndingGroup, ...]
    to_endings: tuple[EndingGroup, ...]

    @property
    def same_test(self) -> bool:
        """Does the test come to the same: who collides with whom, and how the run ends?"""
        first, other = ({_what(ending) for ending in endings} for endings in (self.from_endings, self.to_endings))
        return first == other

    def versions(self) -> str:
        """Name the two: ``mujoco 3.2.7 -> 4.0.0``, and which other packages changed with it."""
        own = f"{self.simulator} {self.from_version}"
        if self.from_version != self.to_version:
            own += f" -> {self.to_version}"
        # What only one of them has is most often what the other needs no more: told where nothing else tells the two apart.
        found = [words for words in self.changed if words != own]
        others = [words for words in found if _ABSENT not in words] or (found if self.from_version == self.to_version else [])
        more = f" and {len(others) - _MOST_CHANGES} more" if len(others) > _MOST_CHANGES else ""
        told = f" with {', '.join(others[:_MOST_CHANGES])}{more}" if others else ""
        same = self.from_version == self.to_version and not others
        return f"{own}{told}{' with other files of the same version' if same and self.files else ''}"

    def words(self) -> str:
        """Say it in one line."""
        place = f"{self.versions()}, {self.scenario}" + (f", {self.where}" if self.where else "")
        if self.same_bits:
            return f"{place}: the same bits in every repeat"
        sizes = f"max sigma {_length(self.from_sigma_m)} -> {_length(self.to_sigma_m)}"
        parts = ["each repeats itself, but the bits differ" if self.same_bits is False else sizes]
        parts.append(f"the mean path moves by {moved(self.shift)}")
        parts.append(self.test_words())
        return f"{place}: {'; '.join(parts)}"

    def test_words(self) -> str:
        """Say whether the test comes to the same, and to what else it comes where it does not."""
        hit, now = collided(self.from_endings), collided(self.to_endings)
        total, of_now = (sum(len(ending.repeats) for ending in endings) for endings in (self.from_endings, self.to_endings))
        if self.same_test and hit * of_now == now * total:
            return "the test comes to the same"
        told = f"a collision in {hit} of {total} -> {now} of {of_now} repeats"
        if hit * of_now != now * total:
            return f"the test comes to something else: {told}"
        usual, other = self.from_endings[0], self.to_endings[0]
        return (
            f"the test comes to something else: {pair_words(usual.collisions)}, {usual.reason!r} -> "
            f"{pair_words(other.collisions)}, {other.reason!r}"
        )


def find_versions(cells: Sequence[CellAnalysis]) -> tuple[VersionComparison, ...]:
    """Compare every version with the first of its group, in the order of the cells."""
    groups: dict[object, list[CellAnalysis]] = {}
    for cell in cells:
        groups.setdefault(_alike(cell.header), []).append(cell)
    return tuple(found for group in groups.values() for found in _compared(group))


def _compared(group: Sequence[CellAnalysis]) -> Iterator[VersionComparison]:
    first = group[0]
    seen = {_identity(first.header)}
    for cell in group[1:]:
        if _identity(cell.header) in seen:
            continue
        seen.add(_identity(cell.header))
        here, there = first.header, cell.header
        changed = _changed(here.settings.get(PACKAGES, ""), there.settings.get(PACKAGES, ""))
        single = len(first.outcomes) == len(cell.outcomes) == 1
        yield VersionComparison(
            simulator=here.simulator,
            scenario=here.scenario,
            where=_where(here),
            from_cell=here.cell,
            to_cell=there.cell,
            from_version=here.simulator_version,
            to_version=there.simulator_version,
            changed=changed,
            files=not changed,
            same_bits=first.outcomes[0].digest == cell.outcomes[0].digest if single else None,
            from_verdict=first.judgement.verdict,
            to_verdict=cell.judgement.verdict,
            from_sigma_m=first.summary.max_sigma_m,
            to_sigma_m=cell.summary.max_sigma_m,
            shift=find_shift(cell, first),
            from_endings=first.endings,
            to_endings=cell.endings,
        )


def _alike(header: Header) -> object:
    """What two cells must share to be the same but for their version."""
    condition = sorted((name, level) for name, level in header.condition.items() if name != PACKAGES)
    settings = sorted((name, level) for name, level in settings_of(header).items() if name not in _PLACES)
    return header.simulator, header.scenario, tuple(condition), tuple(settings)


def _identity(header: Header) -> tuple[str, object]:
    return header.simulator_version, header.settings.get(PACKAGES, "")


def _changed(before: object, after: object) -> tuple[str, ...]:
    """Name packages whose version is another, from ``cffi 2.1, pymunk 7.0; files 12ab`` of both; ``own`` names none."""
    here, there = (_packages(str(text)) for text in (before, after))
    if not here or not there:
        return ()
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    return tuple(f"{name} {here.get(name, _ABSENT)} -> {there.get(name, _ABSENT)}" for name in names)


def _packages(text: str) -> dict[str, str]:
    parts = [package.rpartition(" ") for package in text.rpartition("; ")[0].split(", ") if package]
    return {name: version for name, _, version in parts if name}


def _where(header: Header) -> str:
    """Name the conditions that both cells share, loads that are none left out."""
    told = [(name, level) for name, level in header.condition.items() if name != PACKAGES and not (name in LOADS and not level)]
    words = [(title(name), level_words(name, level)) for name, level in told]
    return joined([f"{level} {name}" if level.endswith("%") else f"{name} {level}" for name, level in words])


def _what(ending: EndingGroup) -> object:
    return ending.collisions, ending.reason, ending.completed


def moved(shift: Shift) -> str:
    """Say how far the mean path moved."""
    before, after = shift.before, shift.after
    if before is None and after is None:
        return "an unknown distance (no tick that all repeats of both have)"
    if after is None or before is None:
        only = before or after
        return "nothing" if only is None or only.shift_m == 0 else format_length(only.shift_m)
    if before.shift_m == after.shift_m == 0:
        return "nothing"
    return f"{_length(before.shift_m)} before the first collision, {_length(after.shift_m)} after"


def _length(value_m: float | None) -> str:
    return "unknown" if value_m is None else format_length(value_m)
