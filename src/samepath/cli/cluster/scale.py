"""``samepath cluster scale``: more nodes, or fewer."""

from typing import Annotated

import typer

from samepath.cli.cluster.words import RunFolder, running

Count = Annotated[int, typer.Argument(metavar="NODES", min=1, max=1024, help="How many there are to be.", show_default=False)]


def scale(nodes: Count, run: RunFolder = None) -> None:
    """Have so many nodes: new ones are started, the last ones drained. No frame is lost."""
    from samepath.cluster.monitor.site import scale as ask

    typer.echo(ask(running(run), nodes))
