"""``samepath shrink``: the smallest scenario that still parts."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json, name_values
from samepath.instrument import shrink as search
from samepath.instrument.subjects import read_scalar


def shrink(
    what: Annotated[
        str,
        typer.Argument(metavar="SCENARIO|STUDY", help="A scenario or a study: name, file or folder.", show_default=False),
    ],
    cell: Annotated[str | None, typer.Option("--cell", help="The cell of a study.")] = None,
    predicate: Annotated[
        str, typer.Option("--while", help="What the smaller one must still do: parts, collides or verdict-flips.")
    ] = "parts",
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who runs a scenario; default samepath.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", metavar="NAME=VALUE", help="A setting of the simulator, such as mode=variable; may be repeated."
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", help="Repeats that measure the original and the result.")
    ] = search.REPEATS,
    miss: Annotated[
        float, typer.Option("--miss", help="Chance at most of a mistake about a candidate: see docs/bisect.md.")
    ] = search.MISS,
    out: Annotated[Path | None, typer.Option("--out", help="The scenario file to write; default NAME-small.yaml.")] = None,
    folder: Annotated[Path | None, typer.Option("--folder", help="Where it remembers; default runs/shrink-NAME.")] = None,
    json: Json = False,
) -> None:
    """Make a scenario as small as it can be. Exit 0 done, 1 it does not do it at all, 2 bad input.

    Interrupted, it goes on where it was when the same command is given again.
    """
    result = search.shrink(
        what,
        simulator=simulator,
        cell=cell,
        settings={name: read_scalar(value) for name, value in name_values("--setting", setting, "mode=variable").items()},
        predicate=predicate,
        repeats=repeats,
        miss=miss,
        out=out,
        folder=folder,
    )
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.found else 1)
