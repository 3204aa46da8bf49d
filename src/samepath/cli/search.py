"""``samepath search``: at which value of a parameter does the verdict of a test flip?"""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json
from samepath.instrument import border


def search(
    what: Annotated[str, typer.Argument(metavar="SCENARIO|STUDY", help="What is run.", show_default=False)],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME=A..B",
            help="What is varied: 1.start_delay=0s..4s (actor 1), cpu_load=0..0.9, or a setting; may be repeated.",
        ),
    ],
    monitors: opt.Monitors = None,
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who runs a scenario; default samepath.")] = None,
    cell: Annotated[str | None, typer.Option("--cell", help="The cell of a study.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of every point.")] = 1,
    steps: Annotated[int, typer.Option("--steps", min=2, help="How finely a range is divided.")] = border.STEPS,
    points: Annotated[
        int, typer.Option("--points", min=1, help="Points that a search over several parameters may run.")
    ] = border.EVALUATIONS,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the scenarios on both sides of the border.")] = None,
    json: Json = False,
) -> None:
    """Find the border of a test. Exit 0 found, 1 no point differs, 2 bad input."""
    result = border.search(
        what,
        vary,
        monitors=monitors,
        simulator=simulator,
        cell=cell,
        repeats=repeats,
        steps=steps,
        evaluations=points,
        out=out,
    )
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.found else 1)
