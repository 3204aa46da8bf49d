"""``samepath studies``: what can be asked without writing a study first."""

import typer
from rich.table import Table
from rich.text import Text

from samepath.cli.common import stdout_console
from samepath.core.units import format_duration
from samepath.instrument.study_run import studies as built_in


def studies() -> None:
    """List the studies that come with samepath: what each asks, and about how long it takes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("study", "repeats", "takes", "what it asks"):
        table.add_column(name, no_wrap=name != "what it asks", justify="right" if name == "repeats" else "left")
    for study in built_in():
        about = f"about {format_duration(study.about_s)}"
        table.add_row(Text(study.name), str(study.repeats), about, Text(study.description))
    stdout_console().print(table)
    typer.echo("samepath study NAME --dry-run tries it and estimates better; samepath new FILE writes one of your own")
