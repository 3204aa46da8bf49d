"""A study's part of the page: answers, domains, effects, conditions, findings and gaps, in words the template sets in place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.analysis.asked import ConditionCheck
from samepath.analysis.cell import CellAnalysis
from samepath.analysis.domains import CounterExample, Domain
from samepath.analysis.effects import Effect, Evidence, Rate
from samepath.analysis.factors import level_words, title
from samepath.analysis.study import PERMISSIBLE, MissingCell
from samepath.base.verdicts import Verdict
from samepath.report.cell_view import VerdictView, view_verdict
from samepath.report.document import Document
from samepath.report.side_view import SideView, view_side
from samepath.report.words import answer_words, count, length, percent, permission_words, sentence

_NAMED_CELLS: Final = 1
_FEW_VARIANTS: Final = 4
TONES: Final = {
    "yes": Verdict.BIT_IDENTICAL,
    "everywhere": Verdict.BIT_IDENTICAL,
    "not seen to vary": Verdict.IDENTICAL_AT_RESOLUTION,
    "in a domain": Verdict.WITHIN_TOLERANCE,
    "no": Verdict.EXCEEDS_TOLERANCE,
    "nowhere": Verdict.EXCEEDS_TOLERANCE,
}


@dataclass(frozen=True)
class AnswerView:
    """The answer of a variant, or of several: what is said first, the rest of the sentence, and how good that is."""

    variants: tuple[str, ...]
    first: str
    rest: str
    tone: Verdict


@dataclass(frozen=True)
class QuestionView:
    """A question and the answers to it; ``rest`` is empty where variants are grouped by their answer."""

    question: str
    answers: tuple[AnswerView, ...]


@dataclass(frozen=True)
class DomainRow:
    """A domain of permissible variance: of a variant (``overall``) or of one of its scenarios."""

    variant: str
    scope: str
    overall: bool
    region: str
    beyond: str
    rate: str
    rate_in_cell: str
    deviation: str
    outside: tuple[tuple[str, str, str], ...]  # what is overstepped, where that is told, and the reason
    notes: tuple[str, ...]
    verdict: VerdictView | None


@dataclass(frozen=True)
class TestView:
    """What a test compares and its p-value; ``shown``: more than chance."""

    text: str
    chance: str
    shown: bool


@dataclass(frozen=True)
class EffectRow:
    """What a factor does in one scenario and phase: how far repeats are apart, how often they part, how often by too much."""

    variant: str
    factor: str
    where: str
    levels: str
    size: TestView
    diverging: TestView
    beyond: TestView


@dataclass(frozen=True)
class ConditionRow:
    """A condition of a cell as asked and as measured."""

    cell: str
    anchor: str
    name: str
    asked: str
    measured: str
    span: str
    missed: bool


@dataclass(frozen=True)
class MissingRow:
    """A cell without figures, and why."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class StudyView:
    """Everything the page says about all cells together."""

    questions: tuple[QuestionView, ...]
    domains: tuple[DomainRow, ...]
    confidence: str
    ranks: tuple[str, ...]
    effects: tuple[EffectRow, ...]
    more_effects: tuple[EffectRow, ...]
    method: str
    missed: tuple[ConditionRow, ...]
    conditions: tuple[ConditionRow, ...]
    leaks: tuple[str, ...]
    controllers: tuple[str, ...]
    missing: tuple[MissingRow, ...]
    side: SideView | None


def view_study(document: Document, anchors: Sequence[str]) -> StudyView:
    """Put a study into words; ``anchors`` says where on the page each cell is."""
    study = document.study
    several = len({one.scenario for one in study.effects.effects}) > 1
    main = [one for one in study.effects.effects if one.scenario is None or not several]
    rows = tuple(_condition_rows(document.cells, anchors))
    by_name = {cell.header.cell: anchor for cell, anchor in zip(document.cells, anchors, strict=True)}
    return StudyView(
        questions=tuple(questions(document)),
        domains=tuple(_domain(one, by_name, overall=overall) for one, overall in _told(study.domains)),
        confidence=percent(document.cells[0].options.confidence),
        ranks=tuple(sentence(one.words()) for one in study.effects.ranks),
        effects=tuple(_effect(one) for one in main),
        more_effects=tuple(_effect(one) for one in study.effects.effects if one not in main),
        method=study.effects.words(),
        missed=tuple(one for one in rows if one.missed),
        conditions=rows,
        leaks=tuple(sentence(one.words()) for one in study.leaks),
        controllers=tuple(sentence(one.words()) for one in study.controllers),
        missing=tuple(MissingRow(one.name, one.kind, one.reason) for one in _in_order(document.missing)),
        side=None if study.side_by_side is None else view_side(study.side_by_side, by_name, document.tolerance_m),
    )


def questions(document: Document) -> Iterator[QuestionView]:
    """Yield every variant's answers; where the variance is permissible is told from its domain over all scenarios.

    Of many variants, those with the same answer are named together, and what it rests on is left to the tables.
    """
    answers = document.study.answers
    domains = {one.variant: one for one in reversed(document.study.domains)}
    for question in dict.fromkeys(one.question for one in answers):
        views = []
        for one in answers:
            if one.question == question:
                words = permission_words(domains[one.variant]) if question == PERMISSIBLE else answer_words(one)
                views.append(AnswerView((one.variant or "not named",), *words, TONES.get(one.short, Verdict.WITHIN_TOLERANCE)))
        yield QuestionView(question, tuple(views) if len(views) <= _FEW_VARIANTS else _together(views))


def _together(views: list[AnswerView]) -> tuple[AnswerView, ...]:
    groups: dict[tuple[str, Verdict], list[str]] = {}
    for one in views:
        groups.setdefault((one.first, one.tone), []).extend(one.variants)
    ordered = sorted(groups.items(), key=lambda item: item[0][1].rank)
    return tuple(AnswerView(tuple(variants), first, "", tone) for (first, tone), variants in ordered)


def _told(domains: tuple[Domain, ...]) -> Iterator[tuple[Domain, bool]]:
    """Yield the domain of each variant over all its scenarios, and those of single ones (False) unless it implies them."""
    overall: dict[str, Domain] = {}
    for one in domains:
        first = overall.setdefault(one.variant, one)
        if one is first or not first.everything:
            yield one, one is first and len(one.scenarios_measured) > 1


def _where(example: CounterExample, domain: Domain) -> str:
    """Say what a counter-example oversteps, and the scenario where nothing else does."""
    told = len(domain.scenarios_measured) == 1 or example.scenario in example.beyond_what
    return example.beyond_what if told else f"{example.beyond_what}, {example.scenario}"


def _domain(domain: Domain, anchors: dict[str, str], *, overall: bool) -> DomainRow:
    notes = []
    if domain.whole_run is not None:
        notes.append(f"Whole runs: {domain.whole_run.region()}.")
    if domain.before_split is not None:
        notes.append(f"Also {domain.before_split.region()}.")
    if domain.unmeasured:
        notes.append(f"{count(domain.unmeasured, 'combination')} of these levels not measured.")
    if domain.missed:
        some = ", ".join(domain.missed) if len(domain.missed) <= _NAMED_CELLS else count(len(domain.missed), "cell")
        notes.append(f"With the load measured, not the one asked: {some}.")
    if not domain.complete:
        notes.append("There may be a larger one: the search was cut short.")
    return DomainRow(
        variant=domain.variant or "not named",
        scope=domain.scope,
        overall=overall,
        region="nowhere" if domain.empty else domain.region(),
        beyond="" if domain.empty else f"{domain.beyond} of {domain.repeats}",
        rate=_below(domain.rate_upper),
        rate_in_cell=_below(domain.rate_upper_cell),
        deviation="" if domain.empty else length(domain.max_deviation_m),
        outside=tuple((_where(one, domain), anchors.get(one.cell, ""), one.reason) for one in domain.outside),
        notes=tuple(notes),
        verdict=None if domain.verdict is None else view_verdict(domain.verdict),
    )


def _below(rate: float | None) -> str:
    return "" if rate is None else percent(rate)


def _effect(effect: Effect) -> EffectRow:
    size = effect.size
    farther = f"farther with probability {size.superiority:.2f}"
    medians = f"{length(size.median_low_m)} → {length(size.median_high_m)}"
    return EffectRow(
        variant=effect.variant or "not named",
        factor=title(effect.factor),
        where=effect.where,
        levels=f"{level_words(effect.factor, effect.low)} → {level_words(effect.factor, effect.high)}",
        size=_test(medians if size.evidence.corrected is None else f"{medians}; {farther}", size.evidence),
        diverging=_rate(effect.diverging),
        beyond=_rate(effect.beyond),
    )


def _rate(rate: Rate) -> TestView:
    return _test(f"{percent(rate.low)} → {percent(rate.high)}", rate.evidence)


def _test(text: str, evidence: Evidence) -> TestView:
    if evidence.corrected is None:
        return TestView(text, "no difference", shown=False)
    if not evidence.tellable and not evidence.shown:
        return TestView(text, "too few repeats to tell", shown=False)
    return TestView(text, evidence.words(), evidence.shown)


def _condition_rows(cells: tuple[CellAnalysis, ...], anchors: Sequence[str]) -> Iterator[ConditionRow]:
    for cell, anchor in zip(cells, anchors, strict=True):
        for check in cell.conditions:
            measured, span = _measured(check)
            yield ConditionRow(
                cell=cell.header.cell,
                anchor=anchor,
                name=title(check.name),
                asked="nothing" if check.asked is None else level_words(check.name, check.asked),
                measured=measured,
                span=span,
                missed=check.missed,
            )


def _measured(check: ConditionCheck) -> tuple[str, str]:
    """Print what was read back, and the range over single repeats where there is one."""
    if check.measured is None:
        return "not read back", ""
    if isinstance(check.measured, tuple):
        return ", ".join(level_words(check.name, one) for one in check.measured), ""
    span = ""
    if check.low is not None and check.high is not None:
        span = f"{level_words(check.name, check.low)} to {level_words(check.name, check.high)}"
    return level_words(check.name, check.measured), span


def _in_order(missing: tuple[MissingCell, ...]) -> list[MissingCell]:
    """Failures first, then what was not run, then what does not apply."""
    order = ("failed", "not run", "not applicable")
    return sorted(missing, key=lambda one: order.index(one.kind) if one.kind in order else 0)
