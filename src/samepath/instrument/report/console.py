"""The report on the terminal: a study's answers, results by scenario, what matters and what is missing; then single cells."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.conditions import ConditionCheck
from samepath.instrument.analysis.factors import MissingCell, Scalar, joined, level_words, title
from samepath.instrument.report.document import Document
from samepath.instrument.report.published import how_run_notes, published, published_length
from samepath.instrument.report.side_by_side import print_side
from samepath.instrument.report.study_view import QuestionView, leak_lines, questions
from samepath.instrument.report.words import count, exclusion

STUDY_COLUMNS: Final = 110
_MAX_LINES: Final = 8
_NO_REASON: Final = "no reason is known"
STYLES: Final = {
    Verdict.BIT_IDENTICAL: "bold green",
    Verdict.IDENTICAL_AT_RESOLUTION: "green",
    Verdict.WITHIN_TOLERANCE: "yellow",
    Verdict.EXCEEDS_TOLERANCE: "bold red",
}


def print_study(console: Console, document: Document) -> None:
    """Print what a study of many cells shows, for one look."""
    for question in questions(document):
        console.print()
        console.print(Text(question.question, style="bold"))
        console.print(_answers(question))
    side = document.study.side_by_side
    if side is not None:
        print_side(console, side, {verdict.value: style for verdict, style in STYLES.items()})
    console.print()
    console.print(_table_one(document, wide=console.width >= STUDY_COLUMNS))
    _print_list(console, "Assertions", [row.words() for row in document.assertions])
    _print_list(console, "Different versions", [pair.words() for pair in document.study.versions])
    _print_list(console, "What matters", [rank.words() for rank in document.study.effects.ranks])
    _print_list(console, "Asked, but not reached", list(_missed(document)))
    study = document.study
    found = [*leak_lines(study.leaks), *(source.words() for source in study.controllers)]
    found += [shares.words() for shares in study.shares]
    _print_list(console, "Where variance comes from", found)
    absent = [] if side is None else [variant.variant for variant in side.absent]
    for kind, heading in (("failed", "Failed"), ("not run", "Not run"), ("not applicable", "Not applicable here")):
        lines = list(_missing([cell for cell in document.missing if cell.kind == kind], absent))
        _print_list(console, heading, lines, "bold red" if kind == "failed" else "bold")


def _answers(question: QuestionView) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=bool(question.answers[0].rest))
    table.add_column()
    for answer in question.answers:
        first = Text(answer.first, style=STYLES[answer.tone])
        if answer.rest:
            table.add_row(Text(f"  {answer.variants[0]}"), first.append(f"{answer.rest}.", style="default not bold"))
        else:
            table.add_row(Text("  ").append_text(first), Text(", ".join(answer.variants)))
    return table


def _table_one(document: Document, *, wide: bool) -> Table:
    """Table I; CARLA's published figures stand beside it where there is room."""
    known = [published(row.scenario) for row in document.table]
    beside = wide and any(value is not None for value in known)
    title_text = f"Max sigma by scenario. Restricted: {document.restriction}."
    table = Table(box=None, pad_edge=False, header_style="bold", title=title_text, title_justify="left", title_style="bold")
    for name in ("variant", "scenario"):
        table.add_column(name, no_wrap=True)
    for name in ("repeats", "unrestricted", "restricted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if beside:
        table.add_column("CARLA, unrestricted", justify="right", no_wrap=True, style="dim")
        table.add_column("restricted", justify="right", no_wrap=True, style="dim")
    last = None
    for row, test in zip(document.table, known, strict=True):
        both = ("", "") if test is None else (test.unrestricted_sigma_m, test.restricted_sigma_m)
        table.add_row(
            Text(row.variant if row.variant != last else ""),
            Text(row.scenario),
            str(row.repeats),
            Text(_length(row.unrestricted_sigma_m), style=STYLES[row.unrestricted]),
            Text(_length(row.restricted_sigma_m), style="" if row.restricted is None else STYLES[row.restricted]),
            Text(row.unrestricted.value, style=STYLES[row.unrestricted]),
            *((value if isinstance(value, str) else published_length(value) for value in both) if beside else ()),
        )
        last = row.variant
    captions = list(how_run_notes(document.cells, beside_published=beside))
    if beside:
        captions.append("CARLA: published by Chance et al. for another machine; * 0 at the log's resolution (1 mm)")
    if captions:
        table.caption, table.caption_justify, table.caption_style = Text("\n".join(captions)), "left", "dim"
    return table


def _missing(cells: Sequence[MissingCell], absent: Sequence[str]) -> Iterator[str]:
    """Say what is missing and why; variants without any figures that have one reason are told together, not cell by cell."""
    variants: dict[str, dict[str, None]] = {}
    for cell in cells:
        variant = cell.variant or cell.simulator
        if variant in absent:
            variants.setdefault(cell.reason, {})[variant] = None
        else:
            yield f"{cell.name}: {cell.reason or _NO_REASON}"
    for reason, names in variants.items():
        yield f"{joined(list(names))}: {reason or _NO_REASON}"


def _missed(document: Document) -> Iterator[str]:
    """Say what was asked for and not reached, cells of the same level together."""
    groups: dict[tuple[str, Scalar | None], list[tuple[str, ConditionCheck]]] = {}
    for cell in document.cells:
        for check in cell.conditions:
            if check.missed:
                groups.setdefault((check.name, check.asked), []).append((cell.header.cell, check))
    for (name, asked), found in groups.items():
        read = {level: None for _, check in found for level in _levels(check)}
        numbers = sorted(value for value in read if isinstance(value, float))
        if len(numbers) == len(read) > 1:
            got = f"{level_words(name, numbers[0])} to {level_words(name, numbers[-1])}"
        else:
            got = joined([level_words(name, value) for value in read])
        where = found[0][0] if len(found) == 1 else count(len(found), "cell")
        yield f"{title(name)} {level_words(name, asked)} asked, {got} measured: {where}"


def _levels(check: ConditionCheck) -> tuple[Scalar | None, ...]:
    return check.measured if isinstance(check.measured, tuple) else (check.measured,)


def _print_list(console: Console, heading: str, lines: Sequence[str], style: str = "bold") -> None:
    """Print lines under a heading, each with a mark of its own; too many are counted."""
    if not lines:
        return
    console.print()
    console.print(Text(heading, style=style))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    for line in lines[:_MAX_LINES]:
        table.add_row("  -", Text(line))
    if len(lines) > _MAX_LINES:
        table.add_row("  -", Text(f"and {len(lines) - _MAX_LINES} more, in the report", style="dim"))
    console.print(table)


def _length(value_m: float | None) -> str:
    return "-" if value_m is None else format_length(value_m)


WIDE_COLUMNS = 100
FEW_CELLS = 3


def print_document(console: Console, document: Document) -> None:
    """Print the verdict; of few cells a row each and what stands out, of many what they show together."""
    console.print(verdict_line(document))
    if len(document.cells) > FEW_CELLS:
        print_study(console, document)
    else:
        _print_cells(console, document)
    if differing := document.differs_from_lock:
        shown = ", ".join(differing[:_MAX_LINES]) + (f" and {more} more" if (more := len(differing) - _MAX_LINES) > 0 else "")
        console.print(Text(f"Versions that differ from the lock: {shown}", style="dim"), soft_wrap=True)


def _print_cells(console: Console, document: Document) -> None:
    console.print(cell_table(document, phases=console.width >= WIDE_COLUMNS))
    for note in how_run_notes(document.cells, beside_published=False):
        console.print(Text(note, style="dim"), soft_wrap=True)
    for effect in document.study.effects.growth():
        console.print(Text(effect.growth_words()), soft_wrap=True)
    if document.study.side_by_side is not None:
        for conclusion in document.study.side_by_side.conclusions:
            console.print(Text(f"{conclusion.words()}."), soft_wrap=True)
    for missing in document.missing:
        console.print(Text(missing.words()), soft_wrap=True)
    for cell in document.cells:
        truth = () if cell.accuracy is None else cell.accuracy.actors
        notes = [*cell_notes(cell), *(actor.words() for actor in truth), *assertion_notes(cell)]
        if notes:
            console.print(Text(cell.header.cell, style="bold"))
            for note in notes:
                console.print(Text(f"  {note}"), soft_wrap=True)


def verdict_line(document: Document) -> RenderableType:
    """Say the overall verdict in one line."""
    failing = [cell for cell in document.cells if not cell.judgement.verdict.passes]
    limit = format_length(document.tolerance_m)
    count = len(document.cells)
    cells = "1 cell" if count == 1 else f"{count} cells"
    limits = f"{limit} or another limit" if any(cell.limits for cell in document.cells) else limit
    detail = f"{len(failing)} of {cells} exceed {limits}" if failing else f"{cells}, tolerance {limit}"
    lines = [Text.assemble((document.verdict.value, STYLES[document.verdict]), f"  {detail}")]
    if document.partial:
        lines.append(Text(document.partial, style="bold yellow"))
    return Group(*lines)


def cell_table(document: Document, *, phases: bool) -> Table:
    """One row per cell; on a narrow terminal without the columns of phases."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = ["cell", "n", "max sigma", "max dev.", "outcomes", "divergent", "verdict"]
    if phases:
        names[4:4] = ["sigma before", "after collision"]
    for name in names:
        table.add_column(name, justify="left" if name in ("cell", "verdict") else "right", no_wrap=name != "cell")
    for cell in document.cells:
        verdict = cell.judgement.verdict
        before = cell.before.summary.max_sigma_m if cell.boundary.first_tick is not None else None
        table.add_row(
            Text(cell.header.cell),
            str(cell.repeats),
            _length(cell.summary.max_sigma_m),
            _length(cell.summary.max_deviation_m),
            *((_length(before), _length(cell.after.summary.max_sigma_m)) if phases else ()),
            str(len(cell.outcomes)),
            str(cell.divergent),
            Text(verdict.value, style=STYLES[verdict]),
        )
    figures = [(cell.summary.max_sigma_m or 0.0, cell.summary.max_deviation_m or 0.0) for cell in document.cells]
    if any(sigma_m > deviation_m for sigma_m, deviation_m in figures):
        told = "Sigma divides by n - 1, for all runs there could be; max dev. is of these n: of few runs sigma may be larger."
        table.caption, table.caption_justify, table.caption_style = Text(told), "left", "dim"
    return table


def cell_notes(cell: CellAnalysis) -> list[str]:
    """What a reader needs beside the figures: the reason, differences, the first divergence, the limits of n."""
    if cell.judgement.verdict is Verdict.BIT_IDENTICAL:
        return []
    notes = [cell.judgement.reason]
    unlike = [sensor.words(cell.header.step_s) for sensor in cell.sensors if not sensor.identical]
    notes += [words for words in unlike if words not in cell.judgement.reason][:4]
    notes += [finding.message for finding in cell.findings if finding.message != cell.judgement.reason][:4]
    if cell.first_divergence is not None:
        notes.append(f"{cell.clusters.words()}; {cell.divergent} of {cell.repeats} repeats diverge")
        notes.append(cell.first_divergence.words())
    return notes


def assertion_notes(cell: CellAnalysis) -> list[str]:
    """What monitors say of a cell: a line each, and whether its repeats come to the same situations."""
    if cell.assertions is None:
        return []
    notes = []
    for assertion in cell.assertions.assertions:
        limits = assertion.limits()
        notes.append(f"{assertion.words()}; {limits}" if limits and not assertion.flips else assertion.words())
    coverage = cell.assertions.coverage
    return notes if coverage is None else [*notes, f"coverage: {coverage.words()}"]


def limits_line(document: Document) -> str:
    """Say what the smallest sample cannot exclude."""
    return exclusion(document)
