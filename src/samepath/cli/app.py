"""The ``samepath`` command."""

import sys
from typing import Annotated

import typer

from samepath import __version__
from samepath.cli import (
    analyse,
    check,
    cluster,
    conformance,
    convert,
    doctor,
    new,
    record,
    report,
    resume,
    script,
    serve,
    simulators,
    study,
)
from samepath.core.errors import SamepathError

app = typer.Typer(
    name="samepath",
    help="Does your driving simulator take the same path twice? Measure it exactly, explain it, gate it in CI.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("new")(new.new)
app.command("study")(study.study)
app.command("resume")(resume.resume)
app.command("doctor")(doctor.doctor)
app.command("analyse")(analyse.analyse)
app.command("check")(check.check)
app.command("report")(report.report)
app.command("import")(convert.convert)
app.command("simulators")(simulators.simulators)
app.command("conformance")(conformance.conformance)
app.command("script")(script.script)
app.command("serve")(serve.serve)
app.command("record")(record.record)
app.add_typer(cluster.app, name="cluster")


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"samepath {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=lambda wanted: _version(wanted=wanted), is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a user's error is one line and exit 2."""
    try:
        app()
    except SamepathError as error:
        typer.echo(f"samepath: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("samepath: interrupted; what was finished is kept", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
