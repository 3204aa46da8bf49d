"""Tables for the terminal."""

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from samepath.analysis.cell import CellAnalysis
from samepath.base.units import format_length
from samepath.base.verdicts import Verdict
from samepath.report.document import Document
from samepath.report.study_console import STYLES, print_study
from samepath.report.words import exclusion

WIDE_COLUMNS = 100
FEW_CELLS = 3


def print_document(console: Console, document: Document) -> None:
    """Print the verdict; of few cells a row each and what stands out, of many what they show together."""
    console.print(verdict_line(document))
    if len(document.cells) > FEW_CELLS:
        print_study(console, document)
        return
    console.print(cell_table(document, phases=console.width >= WIDE_COLUMNS))
    for effect in document.study.effects.growth():
        console.print(Text(effect.growth_words()), soft_wrap=True)
    if document.study.side_by_side is not None:
        for conclusion in document.study.side_by_side.conclusions:
            console.print(Text(f"{conclusion.words()}."), soft_wrap=True)
    for one in document.missing:
        console.print(Text(one.words()), soft_wrap=True)
    for cell in document.cells:
        notes = cell_notes(cell)
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
    detail = f"{len(failing)} of {cells} exceed {limit}" if failing else f"{cells}, tolerance {limit}"
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
    return table


def cell_notes(cell: CellAnalysis) -> list[str]:
    """What a reader needs beside the figures: the reason, differences, the first divergence, the limits of n."""
    if cell.judgement.verdict is Verdict.BIT_IDENTICAL:
        return []
    notes = [cell.judgement.reason]
    unlike = [one.words(cell.header.step_s) for one in cell.sensors if not one.identical]
    notes += [words for words in unlike if words not in cell.judgement.reason][:4]
    notes += [one.message for one in cell.findings if one.message != cell.judgement.reason][:4]
    if cell.first_divergence is not None:
        notes.append(f"{cell.clusters.words()}; {cell.divergent} of {cell.repeats} repeats diverge")
        notes.append(cell.first_divergence.words())
    return notes


def limits_line(document: Document) -> str:
    """Say what the smallest sample cannot exclude."""
    return exclusion(document)


def _length(value_m: float | None) -> str:
    return "-" if value_m is None else format_length(value_m)
