"""``samepath import``: turn logs into samepath's own traces."""

import re
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.core.errors import InputError
from samepath.instrument.evaluation import load
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.importers import Align
from samepath.instrument.traces.store import store_repeats


def convert(
    paths: opt.Paths,
    out: Annotated[Path, typer.Option("--out", help="Folder for the traces; must be new or empty.")],
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
) -> None:
    """Convert CSV or Parquet logs into lossless, digested traces that are quick to read again."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not an empty folder: choose another --out")
    for cell in load(*paths, columns=opt.read_columns(columns), align=align, lossless=lossless, file_format=file_format):
        if not isinstance(cell, MemoryCell):
            raise InputError(f"cell {cell.header.cell!r} is a samepath trace already: only logs can be imported")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", cell.header.cell).strip("-.") or "cell"
        folder = out / "cells" / name
        store_repeats(folder, cell.header, cell.repeats)
        typer.echo(f"{folder}: {len(cell.runs)} repeats, {len(cell.actor_ids)} actors, {len(cell.ticks)} ticks")
