"""``samepath simulators``: what can be measured from here."""

import typer
from rich.table import Table

from samepath.base.errors import SimulatorError
from samepath.cli.options import stdout_console
from samepath.simulators import registry


def simulators() -> None:
    """List the known simulators, their scenarios and settings."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("simulator", "scenarios", "settings", "what it is"):
        table.add_column(name, no_wrap=name == "simulator", overflow="fold")
    for name in sorted(registry.table()):
        try:
            with registry.create(name) as simulator:
                info = simulator.info()
        except SimulatorError as error:
            table.add_row(name, "", "", str(error))
            continue
        settings = ", ".join(f"{key}={value}" for key, value in info.settings.items())
        table.add_row(name, ", ".join(info.scenarios), settings or "-", info.summary)
    stdout_console().print(table)
    typer.echo("more: install a package that announces one (entry point group samepath.simulators), or name MODULE:CLASS")
