"""What every verb may use and what costs no start-up time: consoles, shared options, NAME=VALUE arguments."""

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from samepath.core.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Run cells on the hosts of a Ray cluster: auto or HOST:PORT of its head."),
]


def command_line() -> str:
    """Return the command that runs this again."""
    return shlex.join(["samepath", *sys.argv[1:]])


def stdout_console() -> Console:
    """Return the console for results; a pipe has no width of its own, so tables get room there."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def name_values(option: str, given: Sequence[str] | None, example: str, wanted: str = "NAME=VALUE") -> dict[str, str]:
    """Read an option that may be repeated, such as ``--weather cloudiness=80``."""
    pairs = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise InputError(f"{option}: {wanted} was wanted, such as {example}, but {text!r} came")
        pairs[name.strip()] = value.strip()
    return pairs
