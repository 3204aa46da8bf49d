"""``samepath bench``: measurements of samepath itself. One file per verb."""

import typer

from samepath.cli.bench import cluster

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command("cluster")(cluster.cluster)


@app.callback()
def _bench() -> None:
    """Measure how fast samepath is on this machine."""
