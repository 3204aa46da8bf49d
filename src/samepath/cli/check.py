"""``samepath check``: the gate for CI."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.analyse import read_and_analyse
from samepath.core.files import write_text_atomically
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report.console import print_document
from samepath.instrument.report.document import to_json
from samepath.instrument.report.junit import render_junit
from samepath.instrument.traces.importers import Align


def check(
    paths: opt.Paths,
    tolerance: opt.Tolerance,
    json: opt.Json = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML to this file.")] = None,
    criterion: opt.CriterionOption = Criterion.DEVIATION,
    split_at: opt.SplitAt = COLLISION.kind,
    structure: opt.Structure = "fail",
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
) -> None:
    """Exit 0 if every cell is within the tolerance, 1 if one exceeds it, 2 if the input is bad."""
    document = read_and_analyse(
        paths, tolerance, criterion, split_at, structure, None, columns, align, file_format, lossless=lossless
    )
    if junit is not None:
        write_text_atomically(junit, render_junit(document))
    if json:
        typer.echo(to_json(document))
    else:
        print_document(opt.stdout_console(), document)
    raise typer.Exit(0 if document.verdict.passes else 1)
