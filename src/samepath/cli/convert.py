"""``samepath import``: turn logs into samepath's own traces."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.instrument.evaluation import load, store
from samepath.instrument.traces.importers import LOG_MIB, Align


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
