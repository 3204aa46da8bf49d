"""``samepath tolerance``: how much variance can a test bear before its verdict flips?"""

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json
from samepath.instrument import tolerances


def tolerance(paths: opt.Paths, monitors: opt.Monitors = None, columns: opt.Map = None, json: Json = False) -> None:
    """Find the largest variance at which no assertion flips. Exit 0 found, 1 none."""
    result = tolerances.tolerance(*paths, monitors=monitors, columns=opt.read_columns(columns))
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.tolerance_m is not None else 1)
