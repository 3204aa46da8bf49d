"""``samepath demo``: see in half a minute what samepath is about."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.instrument import demo as demonstration
from samepath.instrument.viewing import view


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of its traces and report.")] = Path("runs/demo"),
    show: Annotated[bool, typer.Option("--open/--no-open", help="At the end serve the viewer and open a browser.")] = True,
) -> None:
    """Run one test in two worlds: one repeats, one does not. Say why, and show it in the viewer."""
    from samepath.cli.view import serve_page

    found = demonstration.demo(out)
    for line in found.lines():
        typer.echo(line)
    typer.echo(f"report: {found.folder / 'report.html'}")
    if show:
        serve_page(view(found.folder, progress=False), place=found.place)
    else:
        typer.echo(f"viewer: {found.folder / 'view.html'}{found.place}")
