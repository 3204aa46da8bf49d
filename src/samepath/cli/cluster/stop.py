"""``samepath cluster stop``: end a running cluster."""

import typer

from samepath.cli.cluster.words import RunFolder, running


def stop(run: RunFolder = None) -> None:
    """End a cluster: its nodes, what placed them, and the main server."""
    from samepath.cluster.monitor.site import stop as ask

    typer.echo(ask(running(run)))
