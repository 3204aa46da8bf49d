"""``samepath analyse``: how repeatable are these logs?"""

from pathlib import Path

import typer

from samepath.cli import options as opt
from samepath.cli.study_report import given, study_folder_document
from samepath.instrument.analysis.phases import COLLISION
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report.console import limits_line, print_document
from samepath.instrument.report.document import Document, to_json
from samepath.instrument.traces.importers import Align
from samepath.instrument.traces.load import load_cells


def read_and_analyse(
    paths: list[Path],
    tolerance: str,
    criterion: Criterion,
    split_at: str,
    structure: str,
    restrict: list[str] | None,
    columns: list[str] | None,
    align: Align,
    file_format: str | None,
    *,
    lossless: bool,
) -> Document:
    """Load logs and analyse them: what ``analyse``, ``check`` and ``report`` have in common."""
    # Options are checked first: a typo in one must not cost the reading of a long log.
    opt.analysis_options(tolerance, criterion, split_at, structure, 1.0)
    cells = load_cells(paths, opt.import_options(columns, align, lossless=lossless), file_format)
    results = opt.analyse_all(cells, tolerance, criterion, split_at, structure)
    return opt.make_document(", ".join(path.name or str(path) for path in paths), results, restrict)


def analyse(
    context: typer.Context,
    paths: opt.Paths,
    tolerance: opt.Tolerance = "1cm",
    json: opt.Json = False,
    criterion: opt.CriterionOption = Criterion.DEVIATION,
    split_at: opt.SplitAt = COLLISION.kind,
    structure: opt.Structure = "fail",
    restrict: opt.Restrict = None,
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
) -> None:
    """Measure how far the paths of repeated runs spread."""
    document = study_folder_document(context, paths, tolerance if given(context, "tolerance") else None)
    if document is None:
        document = read_and_analyse(
            paths, tolerance, criterion, split_at, structure, restrict, columns, align, file_format, lossless=lossless
        )
    if json:
        typer.echo(to_json(document))
        return
    console = opt.stdout_console()
    print_document(console, document)
    console.print(limits_line(document), style="dim")
