"""``samepath check``: the gate for CI."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json, command_line, stdout_console
from samepath.core.files import write_text_atomically
from samepath.instrument import evaluation
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report.console import print_document
from samepath.instrument.report.junit import render_junit
from samepath.instrument.traces.importers import LOG_MIB, Align


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
