"""``samepath report``: write the page again, or for logs that no study made."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.analyse import read_and_analyse
from samepath.cli.study_report import study_folder_document
from samepath.core.files import make_folder
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report.html import write_reports
from samepath.instrument.traces.importers import Align


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
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
) -> None:
    """Analyse traces and write report.html, report.json and junit.xml."""
    document = study_folder_document(context, [path], tolerance)
    if document is None:
        limit = tolerance or "1cm"
        document = read_and_analyse(
            [path], limit, criterion, split_at, structure, restrict, columns, align, file_format, lossless=lossless
        )
    folder = out or (path if path.is_dir() else Path("runs") / path.stem)
    typer.echo(str(write_reports(make_folder(folder), document)))
