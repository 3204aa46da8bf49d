"""``samepath cluster drain``: take a node out without losing a frame."""

from typing import Annotated

import typer

from samepath.cli.cluster.words import RunFolder, running

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node's name, such as node-2.", show_default=False)]


def drain(node: NodeName, run: RunFolder = None) -> None:
    """Give a node nothing more; it goes when it owes no frame and its clients have left."""
    from samepath.cluster.monitor.site import drain as ask

    typer.echo(ask(running(run), node))
