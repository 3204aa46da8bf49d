"""``samepath script``: a scenario as other people's engines need it."""

from typing import Annotated

import typer

from samepath.cli.common import stdout_console


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
