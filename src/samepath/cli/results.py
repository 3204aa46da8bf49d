"""The verbs that read traces and logs: ``analyse``, ``check`` (the gate for CI), ``report``, ``import``, ``tolerance``."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json, command_line, stdout_console
from samepath.core.files import make_folder, write_text_atomically
from samepath.instrument import evaluation
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.evaluation import load, store
from samepath.instrument.report.console import limits_line, print_document
from samepath.instrument.report.junit import render_junit
from samepath.instrument.traces.importers import LOG_MIB, Align


def analyse(
    context: typer.Context,
    paths: opt.Paths,
    tolerance: opt.Tolerance = "1cm",
    json: Json = False,
    criterion: opt.CriterionOption = Criterion.DEVIATION,
    split_at: opt.SplitAt = COLLISION.kind,
    structure: opt.Structure = "fail",
    restrict: opt.Restrict = None,
    monitors: opt.Monitors = None,
    limits: opt.Limits = None,
    reference: opt.Reference = None,
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
    log_mib: opt.LogMib = LOG_MIB,
) -> None:
    """Measure how far the paths of repeated runs spread."""
    report = evaluation.analyse(
        *paths,
        tolerance=opt.if_given(context, "tolerance", tolerance),
        criterion=opt.if_given(context, "criterion", criterion),
        split_at=opt.if_given(context, "split_at", split_at),
        structure=opt.if_given(context, "structure", structure),
        restrict=restrict,
        monitors=monitors,
        limits=opt.read_limits(limits),
        reference=reference,
        columns=opt.read_columns(columns),
        align=align,
        lossless=lossless,
        file_format=file_format,
        log_mib=log_mib,
        command=command_line(),
    )
    if json:
        typer.echo(report.to_json())
        return
    console = stdout_console()
    print_document(console, report)
    console.print(limits_line(report), style="dim")


def check(
    paths: opt.Paths,
    tolerance: opt.Tolerance,
    json: Json = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML to this file.")] = None,
    criterion: opt.CriterionOption = Criterion.DEVIATION,
    split_at: opt.SplitAt = COLLISION.kind,
    structure: opt.Structure = "fail",
    monitors: opt.Monitors = None,
    limits: opt.Limits = None,
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
    log_mib: opt.LogMib = LOG_MIB,
) -> None:
    """Exit 0 if every cell is within the tolerance, 1 if one exceeds it, 2 if the input is bad."""
    report = evaluation.check(
        *paths,
        tolerance=tolerance,
        criterion=criterion,
        split_at=split_at,
        structure=structure,
        monitors=monitors,
        limits=opt.read_limits(limits),
        columns=opt.read_columns(columns),
        align=align,
        lossless=lossless,
        file_format=file_format,
        log_mib=log_mib,
        command=command_line(),
    )
    if junit is not None:
        write_text_atomically(junit, render_junit(report))
    if json:
        typer.echo(report.to_json())
    else:
        print_document(stdout_console(), report)
    raise typer.Exit(0 if report.passes else 1)


def report(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="DIR", help="A study folder, a trace folder, or a log file.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write into; default DIR itself.")] = None,
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Judge by this; default the study's own, or 1cm.")
    ] = None,
    criterion: opt.CriterionOption = Criterion.DEVIATION,
    split_at: opt.SplitAt = COLLISION.kind,
    structure: opt.Structure = "fail",
    restrict: opt.Restrict = None,
    monitors: opt.Monitors = None,
    limits: opt.Limits = None,
    reference: opt.Reference = None,
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
    log_mib: opt.LogMib = LOG_MIB,
) -> None:
    """Analyse traces and write report.html, report.json and junit.xml."""
    made = evaluation.analyse(
        path,
        tolerance=tolerance,
        criterion=opt.if_given(context, "criterion", criterion),
        split_at=opt.if_given(context, "split_at", split_at),
        structure=opt.if_given(context, "structure", structure),
        restrict=restrict,
        monitors=monitors,
        limits=opt.read_limits(limits),
        reference=reference,
        columns=opt.read_columns(columns),
        align=align,
        lossless=lossless,
        file_format=file_format,
        log_mib=log_mib,
        command=command_line(),
    )
    folder = out or (path if path.is_dir() else Path("runs") / path.stem)
    typer.echo(str(made.write(make_folder(folder))))


def convert(
    paths: opt.Paths,
    out: Annotated[Path, typer.Option("--out", help="Folder for the traces; must be new or empty.")],
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
    log_mib: opt.LogMib = LOG_MIB,
) -> None:
    """Convert CSV or Parquet logs into lossless, digested traces that are quick to read again."""
    cells = load(
        *paths, columns=opt.read_columns(columns), align=align, lossless=lossless, file_format=file_format, log_mib=log_mib
    )
    for folder, cell in zip(store(cells, out), cells, strict=True):
        typer.echo(f"{folder}: {len(cell.runs)} repeats, {len(cell.actor_ids)} actors, {len(cell.ticks)} ticks")


def tolerance(paths: opt.Paths, monitors: opt.Monitors = None, columns: opt.Map = None, json: Json = False) -> None:
    """Find the largest variance at which no assertion flips. Exit 0 found, 1 none."""
    from samepath.instrument import border

    result = border.tolerance(*paths, monitors=monitors, columns=opt.read_columns(columns))
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.tolerance_m is not None else 1)
