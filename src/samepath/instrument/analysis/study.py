"""The analysis of a whole study: all cells together, the answers to the questions a study is run for, and Table I.

Table I has two columns, as in the paper: everything, and what is left under a :class:`Restriction` that is stated beside it. A
restriction on a condition (``cpu_load<=0.75``) changes which cells count; one on a phase (``phase=before``, before the first
collision) changes which ticks of them do.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from samepath.core.errors import InputError, unknown
from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.domains import Domain, find_domains
from samepath.instrument.analysis.effects import Effects, find_effects
from samepath.instrument.analysis.factors import (
    MissingCell,
    StudyFactor,
    by_variant,
    find_factors,
    joined,
    settings_of,
    variant_of,
)
from samepath.instrument.analysis.sensors import SensorAnalysis
from samepath.instrument.analysis.side_by_side import SideBySide, find_side_by_side
from samepath.instrument.analysis.sources import (
    ControllerSource,
    Leak,
    VarianceShares,
    find_controllers,
    find_leaks,
    find_shares,
)
from samepath.instrument.analysis.spread import SpreadSummary
from samepath.instrument.analysis.verdict import Judgement, all_alike_upper, worst
from samepath.instrument.analysis.versions import VersionComparison, find_versions

__all__ = ["DETERMINISTIC", "PERMISSIBLE", "MissingCell", "StudyAnalysis", "StudyAnswer", "analyse_study"]

DETERMINISTIC: Final = "Is it deterministic?"
PERMISSIBLE: Final = "Under which conditions is its variance permissible?"


@dataclass(frozen=True)
class StudyAnswer:
    """An answer to one of the paper's two research questions, for one variant.

    ``short`` is "yes", "no" or "not seen to vary" (a rounded log shows no more); for the second question "everywhere",
    "in a domain" or "nowhere".
    """

    question: str
    variant: str
    simulator: str
    short: str
    text: str

    def words(self) -> str:
        """Say it in one line."""
        return f"{self.variant}: {self.text}" if self.variant else self.text


@dataclass(frozen=True)
class StudyAnalysis:
    """Everything a study shows beyond its single cells.

    ``domains`` has per variant the one over all scenarios first; ``side_by_side`` is None where there is one variant only.
    """

    cells: tuple[CellAnalysis, ...]
    missing: tuple[MissingCell, ...]
    factors: tuple[StudyFactor, ...]
    domains: tuple[Domain, ...]
    effects: Effects
    leaks: tuple[Leak, ...]
    controllers: tuple[ControllerSource, ...]
    answers: tuple[StudyAnswer, ...]
    side_by_side: SideBySide | None
    versions: tuple[VersionComparison, ...] = ()
    shares: tuple[VarianceShares, ...] = ()


def analyse_study(
    cells: Sequence[CellAnalysis], missing: Sequence[MissingCell] = (), confidence: float = 0.95
) -> StudyAnalysis:
    """Analyse the cells of a study together."""
    domains = find_domains(cells, confidence)
    groups = by_variant(cells)
    firsts = {domain.variant: domain for domain in reversed(domains)}
    answers = [_deterministic(variant, members, confidence) for variant, members in groups.items()]
    repeatable = {answer.variant: answer.short for answer in answers}
    answers += [_permissible(firsts[variant]) for variant in groups]
    factors = find_factors(cells)
    return StudyAnalysis(
        cells=tuple(cells),
        missing=tuple(missing),
        factors=factors,
        domains=domains,
        effects=find_effects(cells, confidence),
        leaks=find_leaks(cells, confidence),
        controllers=find_controllers(cells, confidence),
        answers=tuple(answers),
        side_by_side=find_side_by_side(cells, missing, factors, domains, repeatable),
        versions=find_versions(cells),
        shares=find_shares(cells, confidence),
    )


def _deterministic(variant: str, cells: Sequence[CellAnalysis], confidence: float) -> StudyAnswer:
    """Answer from the bits: every repeat of a cell alike, and cells alike that differ only in conditions of the host."""
    repeats, divergent = sum(cell.repeats for cell in cells), sum(cell.divergent for cell in cells)
    verdict = worst([cell.judgement.verdict for cell in cells])
    varying = [cell for cell in cells if len(cell.outcomes) > 1]
    count = f"{repeats} repeats of {len(cells)} cell{'s' if len(cells) > 1 else ''}"
    upper = all_alike_upper([cell.repeats for cell in cells], confidence)
    mean = " on average" if len(cells) > 1 else ""
    below = f"true rate of divergence{mean} below {100 * upper:.3g} %"
    # The plainest evidence first: paths, then what sensors saw, then cells that only the host tells apart. Where there is none
    # of these, equal logs say no more than they can show: rounded ones do not make a yes.
    if varying:
        short = "no"
        far = max(varying, key=lambda cell: cell.summary.max_deviation_m or 0.0)
        most = format_length(far.summary.max_deviation_m or 0.0)
        alike = [cell.header.cell for cell in cells if len(cell.outcomes) == 1]
        some = f"; every repeat the same only in {_named(alike)}" if alike else ""
        text = (
            f"no: {len(varying)} of {len(cells)} cells vary; {divergent} of {repeats} repeats diverge from the largest outcome "
            f"of their cell, by up to {most} from the mean ({far.header.cell}){some}"
        )
    elif sensed := [(cell, sensor) for cell in cells for sensor in cell.sensors if not sensor.identical]:
        short = "no"
        cell, sensor = sensed[0]
        many = len({id(other) for other, _ in sensed})
        text = (
            f"no: every path repeats itself to the bit, but in {many} of {len(cells)} cells sensors saw something else "
            f"({cell.header.cell}: {sensor.words(cell.header.step_s)})"
        )
    elif apart := _conditions_apart(cells):
        short = "no"
        what, *names = apart
        text = (
            f"no: each cell repeats itself, but {joined(names)} differ in {what}, and otherwise in conditions of the host only"
        )
    elif verdict is Verdict.IDENTICAL_AT_RESOLUTION:
        short = "not seen to vary"
        text = (
            f"not seen to vary: the logs of all {count} are equal within each cell, but rounded ({below}, {_sure(confidence)})"
        )
    else:
        short = "yes"
        seen = ", what sensors saw included" if any(cell.sensors for cell in cells) else ""
        same = f"bit-identical within every cell{seen}{_across(cells)}"
        text = f"yes, as far as {count} show: {same} ({below}, {_sure(confidence)})"
    return StudyAnswer(DETERMINISTIC, variant, cells[0].header.simulator, short, text)


def _comparable(one: CellAnalysis, other: CellAnalysis) -> list[list[SensorAnalysis]]:
    """The sensors of two cells; where commands are replayed nobody looks, so that what controllers see is in neither."""
    in_loop = all(cell.header.condition.get("controller", "in-loop") == "in-loop" for cell in (one, other))
    return [[sensor for sensor in cell.sensors if in_loop or not sensor.is_perceived] for cell in (one, other)]


def _conditions_apart(cells: Sequence[CellAnalysis]) -> tuple[str, str, str] | None:
    """In what two cells of equal scenario and settings, of one outcome each, differ under different conditions, and which."""
    for group in _same_runs(cells):
        for other in group[1:]:
            names = group[0].header.cell, other.header.cell
            if other.outcomes[0].digest != group[0].outcomes[0].digest:
                return "bits", *names
            for ours, theirs in zip_longest(*_comparable(group[0], other)):
                if ours is None or theirs is None or (ours.sensor, ours.digest) != (theirs.sensor, theirs.digest):
                    return f"what sensor {(ours or theirs).sensor} saw", *names
    return None


def _across(cells: Sequence[CellAnalysis]) -> str:
    return ", and the same bits under all conditions of the host" if any(len(run) > 1 for run in _same_runs(cells)) else ""


def _same_runs(cells: Sequence[CellAnalysis]) -> list[list[CellAnalysis]]:
    """Group cells in which a deterministic simulator does the same."""
    groups: dict[object, list[CellAnalysis]] = {}
    for cell in cells:
        groups.setdefault((cell.header.scenario, tuple(sorted(settings_of(cell.header).items()))), []).append(cell)
    return list(groups.values())


def _permissible(domain: Domain) -> StudyAnswer:
    short = "nowhere" if domain.empty else "everywhere" if domain.everything else "in a domain"
    return StudyAnswer(PERMISSIBLE, domain.variant, domain.simulator, short, domain.words())


def _named(names: Sequence[str]) -> str:
    return joined(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _sure(confidence: float) -> str:
    return f"{100 * confidence:.3g} % confidence"


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
class ConditionFilter:
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

    filters: tuple[ConditionFilter, ...] = ()
    phase: str = "before"
    event: str = "collision"

    def __str__(self) -> str:
        words = [str(limit) for limit in self.filters]
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
            filters.append(ConditionFilter(name, relation, _value(value)))
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
    admitted = [cell for cell in cells if all(limit.admits(cell.header.condition) for limit in restriction.filters)]
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
