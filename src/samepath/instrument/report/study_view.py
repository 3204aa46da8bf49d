"""A study's part of the page: answers, domains, effects, conditions, findings and gaps, in words the template sets in place.

Figures are drawn only of what the study varied, and only where there is something to see.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.conditions import ConditionCheck
from samepath.instrument.analysis.domains import CounterExample, Domain
from samepath.instrument.analysis.effects import Effect, Evidence, RateChange
from samepath.instrument.analysis.factors import StudyFactor, by_scenario, joined, level_words, title
from samepath.instrument.analysis.sources import Leak
from samepath.instrument.analysis.study import PERMISSIBLE, MissingCell
from samepath.instrument.analysis.versions import VersionComparison, moved
from samepath.instrument.report import published
from samepath.instrument.report.cell_view import FigureView, VerdictView, view_figure, view_verdict
from samepath.instrument.report.document import Document
from samepath.instrument.report.factor_figures import (
    PAPERS_LOADS,
    DeviationGroup,
    FactorLine,
    deviation_boxes,
    find_hue,
    groups_over,
    is_share,
    lines_over,
    measured_load,
    members,
    phases_against,
    published_sigma,
    sigma_against,
)
from samepath.instrument.report.side_by_side import SideView, view_side
from samepath.instrument.report.svg import LengthAxis, length_axis
from samepath.instrument.report.words import answer_words, count, length, percent, permission_words, sentence

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
class VersionRow:
    """A version against the first one, in one scenario under one condition; ``anchor`` leads to its cell."""

    versions: str
    where: str
    anchor: str
    bits: str
    sigma: str
    moved: str
    test: str
    same: bool
    same_test: bool


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
    versions: tuple[VersionRow, ...]


def view_study(document: Document, anchors: Sequence[str]) -> StudyView:
    """Put a study into words; ``anchors`` says where on the page each cell is."""
    study = document.study
    several = len({effect.scenario for effect in study.effects.effects}) > 1
    main = [effect for effect in study.effects.effects if effect.scenario is None or not several]
    rows = tuple(_condition_rows(document.cells, anchors))
    by_name = {cell.header.cell: anchor for cell, anchor in zip(document.cells, anchors, strict=True)}
    return StudyView(
        questions=tuple(questions(document)),
        domains=tuple(_domain(domain, by_name, overall=overall) for domain, overall in _told(study.domains)),
        confidence=percent(document.cells[0].options.confidence),
        ranks=tuple(rank.words() for rank in study.effects.ranks),
        effects=tuple(_effect(effect) for effect in main),
        more_effects=tuple(_effect(effect) for effect in study.effects.effects if effect not in main),
        method=study.effects.words(),
        missed=tuple(row for row in rows if row.missed),
        conditions=rows,
        leaks=tuple(leak_lines(study.leaks)),
        controllers=(*(source.words() for source in study.controllers), *(shares.words() for shares in study.shares)),
        missing=tuple(MissingRow(cell.name, cell.kind, cell.reason) for cell in _in_order(document.missing)),
        side=None if study.side_by_side is None else view_side(study.side_by_side, by_name, document.tolerance_m),
        versions=tuple(_version(pair, by_name) for pair in study.versions),
    )


def _version(pair: VersionComparison, anchors: Mapping[str, str]) -> VersionRow:
    bits = {True: "the same", False: "differ", None: "vary by themselves"}[pair.same_bits]
    return VersionRow(
        versions=pair.versions(),
        where=pair.scenario + (f", {pair.where}" if pair.where else ""),
        anchor=anchors[pair.to_cell],
        bits=bits,
        sigma=f"{length(pair.from_sigma_m)} → {length(pair.to_sigma_m)}",
        moved=moved(pair.shift),
        test=sentence(pair.test_words()),
        same=bool(pair.same_bits),
        same_test=pair.same_test,
    )


def leak_lines(leaks: Sequence[Leak]) -> list[str]:
    """Say what was found of leaks; variants of which the same is to be said share a line, and what leaks comes first."""
    found: dict[str, list[Leak]] = {}
    for leak in sorted(leaks, key=lambda leak: not leak.leaks):
        found.setdefault(leak.text, []).append(leak)
    return [
        members[0].words() if len(members) == 1 else f"{joined(list(dict.fromkeys(leak.variant for leak in members)))}: {text}"
        for text, members in found.items()
    ]


def questions(document: Document) -> Iterator[QuestionView]:
    """Yield every variant's answers; where the variance is permissible is told from its domain over all scenarios.

    Of many variants, those with the same answer are named together, and what it rests on is left to the tables.
    """
    answers = document.study.answers
    domains = {domain.variant: domain for domain in reversed(document.study.domains)}
    for question in dict.fromkeys(answer.question for answer in answers):
        views = []
        for answer in answers:
            if answer.question == question:
                words = permission_words(domains[answer.variant]) if question == PERMISSIBLE else answer_words(answer)
                views.append(
                    AnswerView((answer.variant or "not named",), *words, TONES.get(answer.short, Verdict.WITHIN_TOLERANCE))
                )
        yield QuestionView(question, tuple(views) if len(views) <= _FEW_VARIANTS else _together(views))


def _together(views: list[AnswerView]) -> tuple[AnswerView, ...]:
    groups: dict[tuple[str, Verdict], list[str]] = {}
    for view in views:
        groups.setdefault((view.first, view.tone), []).extend(view.variants)
    ordered = sorted(groups.items(), key=lambda item: item[0][1].rank)
    return tuple(AnswerView(tuple(variants), first, "", tone) for (first, tone), variants in ordered)


def _told(domains: tuple[Domain, ...]) -> Iterator[tuple[Domain, bool]]:
    """Yield the domain of each variant over all its scenarios, and those of single ones (False) unless it implies them."""
    overall: dict[str, Domain] = {}
    for domain in domains:
        first = overall.setdefault(domain.variant, domain)
        if domain is first or not first.everything:
            yield domain, domain is first and len(domain.scenarios_measured) > 1


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
        outside=tuple((_where(example, domain), anchors.get(example.cell, ""), example.reason) for example in domain.outside),
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


def _rate(rate: RateChange) -> TestView:
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
        return ", ".join(level_words(check.name, level) for level in check.measured), ""
    span = ""
    if check.low is not None and check.high is not None:
        span = f"{level_words(check.name, check.low)} to {level_words(check.name, check.high)}"
    return level_words(check.name, check.measured), span


def _in_order(missing: tuple[MissingCell, ...]) -> list[MissingCell]:
    """Failures first, then what was not run, then what does not apply."""
    order = ("failed", "not run", "not applicable")
    return sorted(missing, key=lambda cell: order.index(cell.kind) if cell.kind in order else 0)


MAX_PANELS: Final = 8
_FEW_LINES: Final = 3
# Below a millimetre the drafts call deviation permissible.
_DRAFTS_LINE_M: Final = 1e-3


@dataclass(frozen=True)
class FigureGroup:
    """Panels that belong together, with what they show in words."""

    name: str
    note: str
    figures: tuple[FigureView, ...]


def study_figures(document: Document) -> tuple[FigureGroup, ...]:
    """Draw what the study varied: the paper's Figs 5, 6b, 7b and 8 where they apply, and their like for any other factor."""
    groups = [*_over_levels(document), *_over_phases(document), *_boxes(document), *_mean_over_loads(document)]
    return tuple(groups)


def draws_levels(document: Document) -> bool:
    """Is there a figure of max sigma against some factor?"""
    return any(factor.ordered for factor in document.study.factors)


def _over_levels(document: Document) -> Iterator[FigureGroup]:
    """Max sigma against every ordered factor, a panel per variant, all on one scale."""
    factors, tolerance_m = document.study.factors, document.tolerance_m
    for name in dict.fromkeys(factor.name for factor in factors if factor.ordered):
        drawn = [
            (factor, *lines_over(factor, factors, document.cells, lambda cell: cell.summary.max_sigma_m))
            for factor in factors
            if factor.ordered and factor.name == name
        ]
        still = [factor.variant for factor, lines, _ in drawn if not any(line.widest_m for line in lines)]
        if len(drawn) <= _FEW_LINES:
            still = []
        shown = [drawing for drawing in drawn if drawing[0].variant not in still]
        left_out = [factor.variant for factor, _, _ in shown[MAX_PANELS:]]
        known = _published(name, document.cells)
        axis = _axis(tolerance_m, [line for _, lines, _ in drawn for line in lines], known)
        panels = [view_figure(sigma_against(factor, lines, axis, tolerance_m), "") for factor, lines, _ in shown[:MAX_PANELS]]
        if known:
            panels.append(view_figure(published_sigma(known, axis, tolerance_m), ""))
        notes = [_levels_note(drawn[0][0], document.cells)]
        if any(folded for _, _, folded in shown):
            notes.append("A point is the worst of all cells that differ in other factors.")
        if still:
            notes.append(f"No spread at any level: {joined(still)}.")
        if left_out:
            notes.append(f"Not drawn: {joined(left_out)}.")
        if known:
            notes.append("The last panel shows CARLA as published, on the same scale (* 0 at the resolution of its log).")
        yield FigureGroup(f"Max sigma against {title(name)}", " ".join(notes), tuple(panels))


def _mean_over_loads(document: Document) -> Iterator[FigureGroup]:
    """Mean deviation against load, as the drafts' Fig. 4 has it, with its line at a millimetre; only of what spreads."""
    factors = document.study.factors
    for name in dict.fromkeys(factor.name for factor in factors if factor.ordered and factor.load):
        drawn = [
            (factor, lines_over(factor, factors, document.cells, lambda cell: cell.summary.mean_sigma_m)[0])
            for factor in factors
            if factor.ordered and factor.name == name
        ]
        shown = [drawing for drawing in drawn if any(line.widest_m for line in drawing[1])][:MAX_PANELS]
        if not shown:
            continue
        axis = _axis(_DRAFTS_LINE_M, [line for _, lines in shown for line in lines], ())
        look = {"what": "mean deviation", "limit": "the drafts' line,"}
        panels = tuple(view_figure(sigma_against(factor, lines, axis, _DRAFTS_LINE_M, **look), "") for factor, lines in shown)
        note = "Root of the mean variance over all actors and ticks, as the drafts' Fig. 4: one bad moment moves it little."
        yield FigureGroup(f"Mean deviation against {title(name)}", note, panels)


def _over_phases(document: Document) -> Iterator[FigureGroup]:
    """Before and after the collision against every ordered factor, a panel per scenario that has one and spreads."""
    factors, tolerance_m = document.study.factors, document.tolerance_m
    for name in dict.fromkeys(factor.name for factor in factors if factor.ordered):
        found, still = [], []
        for factor in (factor for factor in factors if factor.ordered and factor.name == name):
            for scenario, cells in by_scenario(members(document.cells, factor)).items():
                split = [cell for cell in cells if cell.boundary.first_tick is not None]
                lines = _phase_lines(factor, split)
                if lines is None:
                    continue
                if any(line.widest_m for line in lines):
                    found.append((factor, scenario, *lines))
                else:
                    still.append(f"{scenario} ({factor.variant})")
        if not found:
            continue
        known = _published(name, document.cells)
        event = document.cells[0].boundary.split.name
        found.sort(key=lambda drawing: -max(drawing[2].widest_m, drawing[3].widest_m))
        kept = sorted(found[:MAX_PANELS], key=lambda drawing: (drawing[0].variant, drawing[1]))
        tests = [test for test in known if test.before_m and any(test.scenario == scenario for _, scenario, _, _ in kept)]
        axis = _axis(tolerance_m, [line for _, _, before, after in kept for line in (before, after)], tests)
        panels = tuple(
            view_figure(phases_against(factor, scenario, before, after, axis, tolerance_m, published.published(scenario)), "")
            for factor, scenario, before, after in kept
        )
        paper = ", as the paper's Figs 6b and 7b" if name in PAPERS_LOADS else ""
        notes = [f"Max sigma before and from the first {event} on{paper}; the worst cell where others differ as well."]
        if still:
            notes.append(f"No spread in either phase: {joined(still)}.")
        if len(found) > MAX_PANELS:
            notes.append(f"The {MAX_PANELS} widest of {len(found)} are drawn.")
        yield FigureGroup(f"Before and after {event} against {title(name)}", " ".join(notes), panels)


def _boxes(document: Document) -> Iterator[FigureGroup]:
    """Box plots of single repeats per level of every factor that is no load; loads tell boxes apart within a level."""
    factors, tolerance_m = document.study.factors, document.tolerance_m
    for name in dict.fromkeys(factor.name for factor in factors if not factor.load):
        found: list[tuple[StudyFactor, StudyFactor | None, str, list[DeviationGroup]]] = []
        still = []
        for factor in (factor for factor in factors if factor.name == name):
            hue = find_hue(factor, factors)
            for scenario, cells in by_scenario(members(document.cells, factor)).items():
                groups = list(groups_over(factor, hue, cells))
                if any(any(group.deviations_m) for group in groups):
                    found.append((factor, hue, scenario, groups))
                else:
                    still.append(f"{scenario} ({factor.variant})")
        if not found:
            continue
        found.sort(key=lambda drawing: -max(max(group.deviations_m) for group in drawing[3]))
        kept = sorted(found[:MAX_PANELS], key=lambda drawing: (drawing[0].variant, drawing[2]))
        axis = length_axis([tolerance_m, *(d for *_, groups in kept for group in groups for d in group.deviations_m)])
        one_node = name == "cores" and any("one NUMA node" in cell.reason for cell in document.missing)
        remark = "One NUMA node here: policies of memory cannot differ." if one_node else ""
        panels = tuple(view_figure(deviation_boxes(*drawing, axis, tolerance_m, remark), "") for drawing in kept)
        paper = ", as the paper's Fig. 8" if name == "nice" else ""
        notes = [
            f"How far single repeats are from the mean path at each level{paper}: box from the first to the third quartile, "
            "bar at the median, whiskers to the farthest repeat within 1.5 quartile ranges, dots beyond."
        ]
        if any(hue is not None and is_share(hue) for _, hue, _, _ in kept):
            notes.append("Loads are named as they were asked.")
        if one_node:
            notes.append("This machine has one NUMA node: policies of memory cannot differ here, and their cells were not run.")
        if still:
            notes.append(f"No repeat strays: {joined(still)}.")
        if len(found) > MAX_PANELS:
            notes.append(f"The {MAX_PANELS} widest of {len(found)} are drawn.")
        yield FigureGroup(f"Single repeats per level of {title(name)}", " ".join(notes), panels)


def _phase_lines(factor: StudyFactor, cells: Sequence[CellAnalysis]) -> tuple[FactorLine, FactorLine] | None:
    """The lines before and after, over at least two levels; whatever else differs, the worst cell counts."""
    if not cells:
        return None
    (before, *_), _ = lines_over(factor, (), cells, lambda cell: cell.before.summary.max_sigma_m)
    (after, *_), _ = lines_over(factor, (), cells, lambda cell: cell.after.summary.max_sigma_m)
    if len(before.points) < 2:
        return None
    return replace(before, label=cells[0].before.name), replace(after, label=cells[0].after.name)


def _levels_note(factor: StudyFactor, cells: Sequence[CellAnalysis]) -> str:
    paper = ", as the paper's Fig. 5" if factor.name in PAPERS_LOADS else ""
    text = f"Largest sigma of whole runs{paper}. Lines between points are only a guide; exact zeros lie in the shaded band."
    if is_share(factor):
        read = any(measured_load(cell, factor) is not None for cell in cells)
        where = (
            "Points stand at the load that was measured" if read else "No load was measured: points stand where it was asked"
        )
        text += f" {where}."
    return sentence(text)


def _published(name: str, cells: Sequence[CellAnalysis]) -> tuple[published.PublishedTest, ...]:
    return published.published_among(cell.header.scenario for cell in cells) if name in PAPERS_LOADS else ()


def _axis(tolerance_m: float, lines: Sequence[FactorLine], known: Sequence[published.PublishedTest]) -> LengthAxis:
    values = [tolerance_m, *(point.sigma_m for line in lines for point in line.points if point.sigma_m is not None)]
    for test in known:
        values += [published.as_measured(value) for value in (*test.max_sigma_m, *test.before_m, *test.after_m)]
    return length_axis(values)
