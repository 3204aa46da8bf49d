"""``samepath analyse``: how repeatable are these logs?"""

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json, command_line, stdout_console
from samepath.instrument import evaluation
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report.console import limits_line, print_document
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
