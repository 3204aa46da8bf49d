"""What a scenario (``script``) or an OpenDRIVE map (``map``) holds, for people and for other engines."""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json, stdout_console


def script(
    scenario: Annotated[str, typer.Argument(help="A scenario of samepath's, or a scenario file.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="Print the whole script as JSON, for programs.")] = False,
) -> None:
    """Print who is in a scenario, where they start and go, and how they are driven."""
    from rich.table import Table

    from samepath.scenarios.scripts import read_script, to_json

    read = read_script(scenario)
    if json:
        typer.echo(to_json(read))
        return
    typer.echo(f"{read.name}: {read.description}" if read.description else read.name)
    lasts = f"{read.duration_s:g} s in ticks of {read.step_s:g} s"
    typer.echo(f"map {read.map}, {lasts}, end: {read.end}, boxes of scenery: {len(read.boxes)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("actor", "type", "size", "mass", "starts at", "goes to", "speed", "from", "when hit"):
        table.add_column(name)
    for role in read.roles:
        body, start, last = role.body, role.start, role.path[-1]
        table.add_row(
            str(role.number),
            role.type,
            f"{body.length_m:g} x {body.width_m:g} x {body.height_m:g} m",
            f"{body.mass_kg:g} kg",
            f"({start.x_m:g}, {start.y_m:g}), {start.yaw_deg:.1f}°",
            f"({last[0]:g}, {last[1]:g}) by {len(role.path)} points",
            f"{role.speed_mps:g} m/s",
            f"{role.start_s:g} s",
            role.after_collision,
        )
    stdout_console().print(table)


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
