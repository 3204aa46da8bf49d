"""``samepath simulators``: what can be measured from here, and what is not installed."""

import typer
from rich.table import Table
from rich.text import Text

from samepath.base.errors import SamepathError
from samepath.cli.options import stdout_console
from samepath.simulators import registry


def simulators() -> None:
    """List the known simulators with version, scenarios and settings; of what is not installed, how to."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("simulator", "version", "scenarios", "settings", "what it is"):
        table.add_column(name, no_wrap=name == "simulator", overflow="fold")
    missing = []
    for name in sorted(registry.table()):
        try:
            with registry.create(name) as simulator:
                info, reason = simulator.described({}), simulator.unavailable({})
        except SamepathError as error:
            missing.append(f"{name}: {error}")
            table.add_row(Text(name), Text("cannot be loaded", style="yellow"))
            continue
        if reason:
            missing.append(f"{name}: {reason}")
        settings = ", ".join(f"{key}={value}" for key, value in info.settings.items())
        version = Text("see below", style="yellow") if reason else Text(info.version or "-")
        table.add_row(Text(name), version, Text(", ".join(info.scenarios)), Text(settings or "-"), Text(info.summary))
    console = stdout_console()
    console.print(table)
    for line in missing:
        console.print(Text(line, style="yellow"), soft_wrap=True)
    typer.echo("more: install a package that announces one (entry point group samepath.simulators), or name MODULE:CLASS")
