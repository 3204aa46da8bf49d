"""``samepath study``: run a study and report on it."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.analysis.cell import Options, analyse_cell
from samepath.analysis.summary import parse_restriction
from samepath.base.units import parse_tolerance_m
from samepath.cli import options as opt
from samepath.conditions.provenance import collect_provenance
from samepath.execution.folder import open_folder
from samepath.execution.run import Progress, check_plan, run_plan, stored_cells
from samepath.report.console import limits_line, print_document
from samepath.report.document import Document, to_json
from samepath.report.write import write_reports
from samepath.study.plan import Plan, load_plan


def study(
    study: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A study that comes with samepath (controls), or a YAML file.")
    ],
    repeats: Annotated[int | None, typer.Option("--repeats", help="Run so many repeats of every cell.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for traces and report; default runs/NAME.")] = None,
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="Judge by this instead of the study's own.")] = None,
    json: opt.Json = False,
) -> None:
    """Run every cell of a study as often as it says, analyse it, write the report. Run again to continue."""
    plan = load_plan(study, repeats)
    tolerance_m = plan.tolerance_m if tolerance is None else parse_tolerance_m(tolerance)
    folder = out or Path("runs") / plan.name
    check_plan(plan)
    command = opt.command_line()
    provenance = collect_provenance(command.split(), plan.seed).as_dict()
    open_folder(folder, plan, command, provenance)
    interrupted = ""
    try:
        _run(plan, folder)
    except KeyboardInterrupt:
        interrupted = "Interrupted: this report covers the repeats that were finished. Run the same command to continue."
    document = _analyse(plan, folder, tolerance_m, command, provenance, interrupted)
    if document is None:
        typer.echo(
            "samepath: interrupted before two repeats of any cell were finished; run the same command to continue",
            err=True,
        )
        raise typer.Exit(130)
    page = write_reports(folder, document)
    wrong = _unexpected(plan, document)
    if json:
        typer.echo(to_json(document))
    else:
        console = opt.stdout_console()
        print_document(console, document)
        console.print(limits_line(document), style="dim")
        console.print(f"report: {page}", soft_wrap=True)
    for line in wrong:
        typer.echo(f"samepath: {line}", err=True)
    if interrupted:
        raise typer.Exit(130)
    raise typer.Exit(1 if wrong else 0)


def _run(plan: Plan, folder: Path) -> None:
    with opt.progress_bar("running", plan.repeats) as advance:

        def show(progress: Progress) -> None:
            advance(f"{progress.cell.name}, {progress.done} of {progress.cell.repeats}", progress.total_done)

        run_plan(plan, folder, show)


def _analyse(
    plan: Plan, folder: Path, tolerance_m: float, command: str, provenance: dict[str, object], partial: str
) -> Document | None:
    cells = [cell for cell in stored_cells(plan, folder) if len(cell.runs) > 1]
    if not cells:
        return None
    results = []
    with opt.progress_bar("analysing", len(cells)) as advance:
        for cell in cells:
            results.append(analyse_cell(cell, Options(tolerance_m=tolerance_m)))
            advance(cell.header.cell, None)
    return Document(plan.name, tuple(results), parse_restriction([], []), command, provenance, partial)


def _unexpected(plan: Plan, document: Document) -> list[str]:
    """Name the cells whose verdict is not what the study file expects."""
    found = {cell.header.cell: cell for cell in document.cells if document.tolerance_m == plan.tolerance_m}
    lines = []
    for cell in plan.cells:
        result = found.get(cell.name)
        if cell.expect is None or result is None or result.repeats < cell.repeats:
            continue
        if result.judgement.verdict is not cell.expect:
            lines.append(f"cell {cell.name!r}: {cell.expect.value} was expected, but it is {result.judgement.verdict.value}")
    return lines
