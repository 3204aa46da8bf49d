"""Across cells: the overall verdict, and Table I's two columns - unrestricted, and restricted by filters that are stated.

A filter is a condition, ``cpu_load<=0.75``, or a phase, ``phase=before`` (before the first collision). Restricting to a phase
changes which pairs count; restricting a condition changes which cells count.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.factors import variant_of
from samepath.analysis.spread import SpreadSummary
from samepath.analysis.verdict import Judgement, worst
from samepath.base.errors import InputError
from samepath.base.suggest import unknown
from samepath.base.verdicts import Verdict

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_FILTER = re.compile(r"\s*([A-Za-z][\w-]*)\s*(<=|>=|!=|<|>|=)\s*(.+?)\s*")
PHASES = ("all", "before", "after")


@dataclass(frozen=True)
class Filter:
    """One restriction on a condition."""

    name: str
    relation: str
    value: float | str

    def admits(self, condition: dict[str, str | float | int | bool]) -> bool:
        """Does a cell with this condition pass? A cell that does not have the condition was not varied in it: it passes."""
        if self.name not in condition:
            return True
        found = condition[self.name]
        if isinstance(self.value, str) or isinstance(found, str):
            return _OPERATORS[self.relation](str(found), str(self.value))
        return _OPERATORS[self.relation](float(found), self.value)

    def __str__(self) -> str:
        return (
            f"{self.name}{self.relation}{self.value:g}"
            if isinstance(self.value, float)
            else f"{self.name}{self.relation}{self.value}"
        )


@dataclass(frozen=True)
class Restriction:
    """Filters on conditions and a phase."""

    filters: tuple[Filter, ...] = ()
    phase: str = "before"
    event: str = "collision"

    def __str__(self) -> str:
        words = [str(one) for one in self.filters]
        if self.phase != "all":
            words.append(f"{self.phase} the first {self.event}")
        return ", ".join(words) or "nothing left out"


def parse_restriction(texts: Sequence[str], known_conditions: Sequence[str], event: str = "collision") -> Restriction:
    """Read ``cpu_load<=0.75`` and ``phase=before``; with no text at all the phase is before the first collision."""
    filters = []
    phase = "before" if not texts else "all"
    for text in texts:
        match = _FILTER.fullmatch(text)
        if match is None:
            raise InputError(f"a restriction like cpu_load<=0.75 or phase=before was wanted, but {text!r} came")
        name, relation, value = match.groups()
        if name == "phase":
            if value not in PHASES or relation != "=":
                raise InputError(f"phase=before, phase=after or phase=all was wanted, but {text!r} came")
            phase = value
        elif name not in known_conditions:
            raise unknown("condition", name, [*known_conditions, "phase"])
        else:
            filters.append(Filter(name, relation, _value(value)))
    return Restriction(tuple(filters), phase, event)


def _value(text: str) -> float | str:
    number, percent = (text[:-1], 0.01) if text.endswith("%") else (text, 1.0)
    try:
        return float(number) * percent
    except ValueError:
        return text


@dataclass(frozen=True)
class ScenarioRow:
    """A line of Table I. ``restricted`` is None when the filters leave nothing."""

    variant: str
    simulator: str
    scenario: str
    cells: int
    repeats: int
    collision: str
    unrestricted_sigma_m: float | None
    restricted_sigma_m: float | None
    unrestricted: Verdict
    restricted: Verdict | None


def table_one(cells: Sequence[CellAnalysis], restriction: Restriction) -> tuple[ScenarioRow, ...]:
    """Summarise per variant, and in it per scenario: the worst over all conditions and phases, and over those admitted."""
    groups: dict[tuple[str, str, str], list[CellAnalysis]] = {}
    for cell in cells:
        header = cell.header
        groups.setdefault((variant_of(header), header.simulator, header.scenario), []).append(cell)
    variants = list(dict.fromkeys(variant for variant, _, _ in groups))
    ordered = sorted(groups.items(), key=lambda item: variants.index(item[0][0]))
    return tuple(_row(*key, members, restriction) for key, members in ordered)


def _row(variant: str, simulator: str, scenario: str, cells: list[CellAnalysis], restriction: Restriction) -> ScenarioRow:
    admitted = [cell for cell in cells if all(one.admits(cell.header.condition) for one in restriction.filters)]
    parts: list[tuple[SpreadSummary, Judgement | None]] = []
    for cell in admitted:
        if restriction.phase == "all":
            parts.append((cell.summary, cell.judgement))
        else:
            phase = cell.before if restriction.phase == "before" else cell.after
            parts.append((phase.summary, phase.judgement))
    sigmas = [summary.max_sigma_m for summary, _ in parts if summary.max_sigma_m is not None]
    verdicts = [judgement.verdict for _, judgement in parts if judgement is not None]
    collided = {cell.first_collision_tick is not None for cell in cells}
    return ScenarioRow(
        variant=variant,
        simulator=simulator,
        scenario=scenario,
        cells=len(cells),
        repeats=sum(cell.repeats for cell in cells),
        collision={frozenset({True}): "yes", frozenset({False}): "no"}.get(frozenset(collided), "in some cells"),
        unrestricted_sigma_m=max((c.summary.max_sigma_m for c in cells if c.summary.max_sigma_m is not None), default=None),
        restricted_sigma_m=max(sigmas, default=None),
        unrestricted=worst([cell.judgement.verdict for cell in cells]),
        restricted=worst(verdicts) if verdicts else None,
    )


def overall(cells: Sequence[CellAnalysis]) -> Verdict:
    """Return the worst verdict of all cells."""
    return worst([cell.judgement.verdict for cell in cells])
