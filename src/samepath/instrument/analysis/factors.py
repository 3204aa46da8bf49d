"""Factors: what differs between the cells of one variant, found from the cells themselves, so that any traces will do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.conditions import LOADS, TOGETHER
from samepath.instrument.traces.records import Header

Scalar = str | float | int | bool
Level = Scalar | None  # None: the cell does not state it

SHARES: Final = (*LOADS, TOGETHER)
_BOTH: Final = LOADS[:2]
# Loads on the machine, and what it means that a cell does not mention one.
_UNLOADED: Final[dict[str, Scalar]] = {**dict.fromkeys(SHARES, 0.0), "instances": 1}
# Noted among the settings, but how a cell was run and not what was run: two cells that differ in it run the same.
_HOW_RUN: Final = ("isolation", "repeats_per_process")
_LABELS: Final = ("hash_seed", "seed")  # numbers that only name something
_TITLES: Final = {"cpu_load": "CPU load", "gpu_load": "GPU load", "memory_load": "memory load", TOGETHER: "CPU and GPU load"}


@dataclass(frozen=True)
class StudyFactor:
    """A condition or setting that takes several values among the cells of one variant and scenario.

    ``levels`` ascend where ``ordered``, else stand in the order of the cells: the first one is the base. ``load`` marks a
    load on the machine, which is limited from above only.
    """

    variant: str
    name: str
    kind: str  # "condition" or "setting"
    levels: tuple[Level, ...]
    ordered: bool
    load: bool


@dataclass(frozen=True)
class MissingCell:
    """A cell that a study asked for and that has no figures. ``kind``: "not applicable", "failed" or "not run"."""

    name: str
    simulator: str
    variant: str
    scenario: str
    condition: dict[str, Scalar]
    reason: str
    kind: str

    def words(self) -> str:
        """Say it in one line."""
        return f"{self.name}: {self.kind}" + (f": {self.reason}" if self.reason else "")


def variant_of(header: Header) -> str:
    """Name the way in which a simulator is used; it is the simulator's own name where there is only one."""
    return header.variant or header.simulator


def by_variant(cells: Iterable[CellAnalysis]) -> dict[str, list[CellAnalysis]]:
    """Group cells by variant, in the order they come."""
    groups: dict[str, list[CellAnalysis]] = {}
    for cell in cells:
        groups.setdefault(variant_of(cell.header), []).append(cell)
    return groups


def by_scenario(cells: Iterable[CellAnalysis]) -> dict[str, list[CellAnalysis]]:
    """Group cells by scenario, in the order they come."""
    groups: dict[str, list[CellAnalysis]] = {}
    for cell in cells:
        groups.setdefault(cell.header.scenario, []).append(cell)
    return groups


def find_factors(cells: Sequence[CellAnalysis]) -> tuple[StudyFactor, ...]:
    """Find what was varied, per variant. What differs only between scenarios is part of the scenario."""
    found = []
    for variant, members in by_variant(cells).items():
        names = {("condition", name): None for cell in members for name in cell.header.condition}
        # A setting of a condition's name is what was found where the condition led (``packages``): one thing, told twice.
        names |= {
            ("setting", name): None for cell in members for name in settings_of(cell.header) if ("condition", name) not in names
        }
        if all(cell.header.condition.get(_BOTH[0], 0.0) == cell.header.condition.get(_BOTH[1]) for cell in members):
            # Raised together they are one factor: what either does alone such a study cannot tell.
            kept = [pair for pair in names if pair[1] not in _BOTH]
            names = {("condition", TOGETHER): None, **dict.fromkeys(kept)}
        for kind, name in names:
            if any(len(_levels(kind, name, group)) > 1 for group in by_scenario(members).values()):
                levels = _levels(kind, name, members)
                ordered = name not in _LABELS and all(_is_number(level) for level in levels)
                found.append(
                    StudyFactor(
                        variant=variant,
                        name=name,
                        kind=kind,
                        levels=tuple(sorted(levels, key=number)) if ordered else levels,
                        ordered=ordered,
                        load=kind == "condition" and name in _UNLOADED,
                    )
                )
    return tuple(found)


def find_twins(cells: Iterable[CellAnalysis], condition: str) -> list[dict[Level, CellAnalysis]]:
    """Group cells that are equal in everything but one condition, by its level; a cell that does not state it has no twin."""
    groups: dict[object, dict[Level, CellAnalysis]] = {}
    for cell in cells:
        header = cell.header
        level = _level(header, "condition", condition)
        if level is not None:
            rest = sorted((name, other) for name, other in header.condition.items() if name != condition)
            key = (variant_of(header), header.scenario, tuple(rest), tuple(sorted(settings_of(header).items())))
            groups.setdefault(key, {})[level] = cell
    return [twins for twins in groups.values() if len(twins) > 1]


def level_of(cell: CellAnalysis, factor: StudyFactor) -> Level:
    """Return the level of a factor that a cell was asked to have."""
    return _level(cell.header, factor.kind, factor.name)


def load_missed(cell: CellAnalysis, factor: StudyFactor) -> float | None:
    """Return the load that was measured where it missed the one asked for, else None."""
    for check in cell.conditions:
        wanted = _BOTH if factor.name == TOGETHER else (factor.name,)
        if check.name in wanted and factor.load and check.missed and isinstance(check.measured, float):
            return check.measured
    return None


def level_words(name: str, level: Level) -> str:
    """Print a level: a share of a load in percent, a switch as on or off."""
    if level is None:
        return "not set"
    if isinstance(level, bool):
        return "on" if level else "off"
    if isinstance(level, int | float):
        return f"{100 * level:.3g} %" if name in SHARES else f"{level:g}"
    return level or "none"


def title(name: str) -> str:
    """Print a factor's name in a sentence."""
    return _TITLES.get(name, name)


def joined(words: Sequence[str], last: str = "and") -> str:
    """Print a list: ``a, b and c``."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def number(level: Level) -> float:
    """Return a level that is known to be a number."""
    if not _is_number(level):
        raise TypeError(f"a number was wanted, but the level {level!r} came")
    return float(level or 0)


def settings_of(header: Header) -> dict[str, Scalar]:
    """Return the settings that say what was run."""
    return {name: level for name, level in header.settings.items() if name not in _HOW_RUN}


def _level(header: Header, kind: str, name: str) -> Level:
    if kind == "setting":
        return header.settings.get(name)
    if name == TOGETHER:
        name = _BOTH[0]
    usual = header.settings.get(name) if name in _HOW_RUN else _UNLOADED.get(name)
    return header.condition.get(name, usual)


def _levels(kind: str, name: str, cells: Sequence[CellAnalysis]) -> tuple[Level, ...]:
    """The distinct levels, in the order of the cells."""
    return tuple(dict.fromkeys(_level(cell.header, kind, name) for cell in cells))


def _is_number(level: Level) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)
