"""Options that several verbs share, and how they become records."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from samepath.core.errors import InputError
from samepath.core.units import parse_tolerance_m
from samepath.instrument.analysis.cell import CellAnalysis, Options, analyse_cell
from samepath.instrument.analysis.phases import parse_split
from samepath.instrument.analysis.study import parse_restriction
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report.document import Document
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.importers import Align, ImportOptions

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Log files (CSV, Parquet), trace folders or study folders.", show_default=False),
]
Tolerance = Annotated[str, typer.Option("--tolerance", help="Permissible variance: 1cm, 5 mm, 0.01 (metres).")]
CriterionOption = Annotated[
    Criterion,
    typer.Option(
        "--criterion",
        help="deviation: no repeat may stray farther than the tolerance; sigma: max sigma alone, as in the paper.",
    ),
]
SplitAt = Annotated[str, typer.Option("--split-at", help="Where phases part: an event's kind, tick=120 or t=6s.")]
Structure = Annotated[
    str,
    typer.Option(
        "--structure",
        help="fail: unequal lengths, actors or collisions exceed any tolerance; report: only report them.",
    ),
]
Restrict = Annotated[
    list[str] | None,
    typer.Option(
        "--restrict", help="Filter of the restricted column, such as cpu_load<=0.75 or phase=before; may be repeated."
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", help="Which column is what: repeat=run_id, x=pos_x[cm], battery_ratio=soc; may be repeated."),
]
AlignOption = Annotated[
    Align, typer.Option("--align", help="How rows of repeats are matched: by time, by time since the start, or by row.")
]
Lossless = Annotated[
    bool,
    typer.Option("--lossless", help="The log holds the simulator's own numbers unrounded, even if they look rounded."),
]
Format = Annotated[str | None, typer.Option("--format", help="Importer to use (tsl, tidy, ...); found by itself if left out.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Run cells on the hosts of a Ray cluster: auto or HOST:PORT of its head."),
]


def import_options(columns: list[str] | None, align: Align, *, lossless: bool) -> ImportOptions:
    """Read ``--map`` and its kin."""
    mapping = {}
    for text in columns or []:
        target, equals, column = text.partition("=")
        if not equals or not target.strip() or not column.strip():
            raise InputError(f"--map: KEY=COLUMN was wanted, such as repeat=run_id, but {text!r} came")
        mapping[target.strip()] = column.strip()
    return ImportOptions(mapping, align, lossless or None)


def analysis_options(tolerance: str, criterion: Criterion, split_at: str, structure: str, step_s: float) -> Options:
    """Read the options of judging."""
    if structure not in ("fail", "report"):
        raise InputError(f"--structure: fail or report was wanted, but {structure!r} came")
    return Options(
        tolerance_m=parse_tolerance_m(tolerance),
        criterion=criterion,
        split=parse_split(split_at, step_s),
        structure_fails=structure == "fail",
    )


def analyse_all(
    cells: Sequence[CellTrace], tolerance: str, criterion: Criterion, split_at: str, structure: str
) -> tuple[CellAnalysis, ...]:
    """Analyse cells one after the other, with a progress bar on long work."""
    results = []
    with progress_bar("analysing", len(cells)) as advance:
        for cell in cells:
            options = analysis_options(tolerance, criterion, split_at, structure, cell.header.step_s)
            results.append(analyse_cell(cell, options))
            advance(cell.header.cell, None)
    return tuple(results)


def make_document(title: str, cells: tuple[CellAnalysis, ...], restrict: list[str] | None) -> Document:
    """Put analyses into a document that also knows the command line it came from."""
    known = sorted({name for cell in cells for name in cell.header.condition})
    return Document(title, cells, parse_restriction(restrict or [], known, cells[0].boundary.split.name), command_line())


def command_line() -> str:
    """Return the command that runs this again."""
    return shlex.join(["samepath", *sys.argv[1:]])


def stdout_console() -> Console:
    """Return the console for results; a pipe has no width of its own, so tables get room there."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def stderr_console() -> Console:
    """Return the console for everything that is not the result."""
    return Console(stderr=True)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[str, int | None], None]]:
    """Show a bar on stderr when that is a terminal and there is more than one step."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = stderr_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal or total < 2) as bar:
        task = bar.add_task(what, total=total)

        def advance(description: str, completed: int | None = None) -> None:
            bar.update(task, description=f"{what} {description}", advance=1 if completed is None else None, completed=completed)

        yield advance
