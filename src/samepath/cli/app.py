"""The ``samepath`` command: a table of verbs, each loaded when it is used.

Most of a short command's time would be imports: all verbs together load numpy, Arrow, pydantic and half of the package. So the
table says in one line what each verb does, ``--help`` prints that, and a verb's module is imported when it is run. A test
watches what ``samepath --version`` loads.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from samepath import __version__
from samepath.core.errors import SamepathError

if TYPE_CHECKING:
    from typer._click import Command, Context

# Verb: (module:name, what it does), in the order of work; the name is left out where it is the module's.
# Verbs about the same thing share a module.
VERBS: Final = {
    "demo": ("view:demo", "See it in half a minute: one test, two worlds, why they part."),
    "new": ("study:new", "Write a commented study to begin with."),
    "studies": ("study:studies", "List the studies that come with samepath."),
    "plan": ("study:plan", "Say how many repeats a question needs."),
    "study": ("study", "Run a study, analyse it and write its report."),
    "resume": ("study:resume", "Run what a study has left, then report."),
    "doctor": ("doctor", "Screen this host: memory, CPU, load, limits, GPU."),
    "analyse": ("results:analyse", "Measure how far the paths of repeated runs spread."),
    "view": ("view", "Look at runs in a browser: overlaid, where they part."),
    "explain": ("explain", "Say where and why runs part: tick, actor, fields, cause."),
    "replay": ("replay", "Play a recorded run again, to the bit; stop, go back, look."),
    "fork": ("replay:fork", "Change a command of a recorded run, and compare the futures."),
    "check": ("results:check", "Gate for CI: exit 0 within the tolerance, 1 beyond it."),
    "golden": ("golden:app", "Keep a run in a small file, check that it stays the same."),
    "bisect": ("search:bisect", "Find the setting or the commit that changes the outcome."),
    "shrink": ("search:shrink", "Find the smallest scenario that still parts."),
    "tolerance": ("results:tolerance", "Find how much variance the assertions of a test can bear."),
    "search": ("search", "Find the value at which the verdict of a test flips."),
    "report": ("results:report", "Write the report of traces or logs again."),
    "import": ("results:convert", "Convert logs into traces that are quick to read."),
    "export": ("view:export", "Write repeats for Rerun, Foxglove (MCAP) or a table (CSV)."),
    "simulators": ("simulators", "List the simulators that can be measured from here."),
    "conformance": ("simulators:conformance", "Run the conformance kit on a simulator's adapter."),
    "script": ("describe:script", "Print a scenario as other engines need it."),
    "serve": ("serve", "Serve a repeatable world to CARLA's Python client."),
    "twice": ("sessions:twice", "Run a CARLA script twice: the same? If not, why?"),
    "proxy": ("sessions:proxy", "Record what CARLA clients and a server say to each other."),
    "carla": ("carla:app", "Serve from the arguments of CARLA's start script."),
    "map": ("describe:map", "Tell what an OpenDRIVE map has and lacks, and draw it."),
    "record": ("record", "Write a dataset of what sensors see of a scenario."),
    "cluster": ("cluster:app", "Spread the sensors of one world over rendering nodes."),
}


class _Verbs(TyperGroup):
    """Lists the verbs from the table, and loads the one that is run."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - Typer's to say
        super().__init__(**attributes)
        for name, (_, line) in VERBS.items():
            self.add_command(TyperCommand(name=name, help=line))

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load_verb(name), rest


def load_verb(name: str) -> "Command":
    """Import a verb, or a group of them, and make its command."""
    module, _, attribute = VERBS[name][0].partition(":")
    found = getattr(import_module(f"samepath.cli.{module}"), attribute or module)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=_Verbs,
    name="samepath",
    help="Does your driving simulator take the same path twice? Measure it exactly, gate it in CI.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
    """Run the command line; a user's error is one line and exit 2, a server that had to stop exits with 70."""
    try:
        app()
    except SamepathError as error:
        typer.echo(f"samepath: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("samepath: interrupted; what was finished is kept", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
