"""``samepath new``: write a study to begin with."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from samepath.core.errors import InputError
from samepath.instrument.study.starter import study_schema_text, write_schema, write_starter


def new(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write, such as my-study.yaml.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Only the JSON Schema of study files: into FILE, or printed without one.")
    ] = False,
) -> None:
    """Write a commented study that runs as it is, and beside it the JSON Schema that lets editors check and complete it."""
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
