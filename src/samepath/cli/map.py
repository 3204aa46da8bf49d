"""``samepath map``: what an OpenDRIVE map has and lacks, with a picture."""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json, stdout_console


def map(
    file: Annotated[str, typer.Argument(metavar="FILE|NAME", help="An OpenDRIVE file, or a map of samepath's.")],
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where to draw it from above: a .png or .svg; default NAME.png here.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Only tell.")] = False,
    json: Json = False,
) -> None:
    """Tell what a map has and lacks: lanes, lights, signs, crossings, what was read past and what may be missed."""
    from rich.table import Table

    from samepath.core.errors import InputError
    from samepath.simulator.maps import load_map
    from samepath.simulator.survey import draw, readable, survey

    road_map = load_map(file)
    found = survey(road_map)
    where = None if no_picture else picture or Path(f"{road_map.name}.png")
    if where is not None:
        if where.suffix not in {".png", ".svg"}:
            raise InputError(f"--picture: a name that ends in .png or .svg was wanted, but {where} came")
        try:
            draw(road_map, where)
        except OSError as error:
            raise InputError(f"--picture {where}: it cannot be written: {error.strerror}") from error
    if json:
        typer.echo(json_module.dumps({**found.plain(), "picture": None if where is None else str(where)}))
        return
    console = stdout_console()
    table = Table(box=None, pad_edge=False, show_header=False)
    for words in readable(found):
        table.add_row(*words)
    console.print(f"map {found.name}")
    console.print(table)
    for line in found.missing:
        console.print(f"- {line}")
    if where is not None:
        console.print(f"picture: {where}")
