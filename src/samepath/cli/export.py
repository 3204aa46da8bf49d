"""``samepath export``: repeats on one timeline, for other viewers and tables."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.view import read_repeats
from samepath.instrument import exporting


def export(
    path: Annotated[
        Path, typer.Argument(metavar="DIR|TRACE|REC", help="A study or trace folder, a log or a recording.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="csv|mcap|rerun", help="What for: a table, Foxglove, or Rerun.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where; default the cell's place, here.")] = None,
    cell: Annotated[str | None, typer.Option("--cell", help="The cell; not needed where there is one.")] = None,
    repeats: Annotated[
        str | None, typer.Option("--repeats", metavar="0-9,12", help="Only these repeats; all by default.", show_default=False)
    ] = None,
) -> None:
    """Write the repeats of a cell on one timeline into one file that tables, Foxglove or Rerun read."""
    chosen = None if repeats is None else sorted(read_repeats(repeats))
    place = out or Path(f"{path.resolve().stem}{exporting.SUFFIXES.get(to, '')}")
    typer.echo(str(exporting.export(path, place, to=to, cell=cell, repeats=chosen)))
