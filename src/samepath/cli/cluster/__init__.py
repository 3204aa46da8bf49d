"""``samepath cluster``: one world, many rendering nodes. One file per verb."""

import typer

from samepath.cli.cluster import drain, node, resume, scale, start, status, stop

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command("start")(start.start)
app.command("status")(status.status)
app.command("scale")(scale.scale)
app.command("drain")(drain.drain)
app.command("stop")(stop.stop)
app.command("node")(node.node)
app.command("resume")(resume.resume)


@app.callback()
def _cluster() -> None:
    """Spread the sensors of one world over rendering nodes."""
