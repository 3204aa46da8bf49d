"""Before a study: ``samepath new`` writes one to begin with, ``samepath plan`` says how many repeats a question needs."""

import json as json_module
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json
from samepath.core.errors import InputError
from samepath.core.units import parse_quantity


def new(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write, such as my-study.yaml.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Only the JSON Schema of study files: into FILE, or printed without one.")
    ] = False,
) -> None:
    """Write a commented study that runs as it is, and beside it the JSON Schema that lets editors check and complete it."""
    from samepath.instrument.study.starter import study_schema_text, write_schema, write_starter

    if file is None and schema:
        typer.echo(study_schema_text(), nl=False)
    elif file is None:
        raise InputError("a file to write was wanted, such as samepath new my-study.yaml")
    elif schema:
        write_schema(file)
        typer.echo(f"wrote {file}; the first line of a study names it: # yaml-language-server: $schema={file.name}")
    else:
        beside = write_starter(file)
        typer.echo(f"wrote {file}, and {beside} for editors")
        again = f"samepath study {shlex.quote(str(file))} --dry-run"
        typer.echo(f"next: {again} shows what it would run; without --dry-run it does")


def plan(
    rate: Annotated[str, typer.Option("--rate", help="The rate of divergence that matters: 1%, 0.001.")] = "1%",
    power: Annotated[str, typer.Option("--power", help="With which probability it is to be seen: 95%.")] = "95%",
    confidence: Annotated[str, typer.Option("--confidence", help="Of bounds: 95%.")] = "95%",
    json: Json = False,
) -> None:
    """Say how many repeats show a rate of divergence, or show that it is smaller."""
    from samepath.instrument.analysis.stopping import plan_size

    size = plan_size(_share("--rate", rate), _share("--power", power), _share("--confidence", confidence))
    typer.echo(json_module.dumps(asdict(size), indent=1) if json else "\n".join(size.words()))


def _share(option: str, text: str) -> float:
    value = parse_quantity(text, {"%": 0.01}, "share", "1% or 0.01")
    if not 1e-6 <= value <= 1 - 1e-6:
        raise InputError(f"{option}: a share from 0.0001% to 99.9999% was wanted, but {text!r} came")
    return value
