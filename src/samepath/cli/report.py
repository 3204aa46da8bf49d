"""``samepath report``: write the page again, or for logs that no study made."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.common import command_line
from samepath.core.files import make_folder
from samepath.instrument import evaluation
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.traces.importers import LOG_MIB, Align


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
