"""``samepath new``: write a study to begin with."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from samepath.core.errors import InputError
from samepath.core.files import write_text_atomically
from samepath.instrument.study.plan import make_plan
from samepath.instrument.study.starter import FILE_NAME, TITLE, starter_text, study_schema_text


def new(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write, such as my-study.yaml.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Only the JSON Schema of study files: into FILE, or printed without one.")
    ] = False,
) -> None:
    """Write a commented study that runs as it is, and beside it the JSON Schema that lets editors check and complete it."""
    if file is not None:
        _write_schema(file) if schema else _write_starter(file)
    elif schema:
        typer.echo(study_schema_text(), nl=False)
    else:
        raise InputError("a file to write was wanted, such as samepath new my-study.yaml")


def _write_starter(file: Path) -> None:
    if file.suffix not in (".yaml", ".yml"):
        raise InputError(f"a file that ends in .yaml was wanted, but {file} came")
    text = starter_text(file.stem)
    try:
        make_plan(text, str(file))
    except InputError as error:
        raise InputError(
            f"{file.stem!r} cannot be the name of a study: choose a shorter one of letters, digits and -"
        ) from error
    beside = file.parent / FILE_NAME
    _check_free(file)
    if not _is_schema(beside):
        raise InputError(f"{beside} is there already and is no schema of samepath's: move it away first")
    write_text_atomically(beside, study_schema_text())
    write_text_atomically(file, text)
    typer.echo(f"wrote {file}, and {beside} for editors")
    typer.echo(f"next: samepath study {shlex.quote(str(file))} --dry-run shows what it would run; without --dry-run it does")


def _write_schema(file: Path) -> None:
    _check_free(file)
    write_text_atomically(file, study_schema_text())
    typer.echo(f"wrote {file}; the first line of a study names it: # yaml-language-server: $schema={file.name}")


def _check_free(file: Path) -> None:
    """Nothing is overwritten."""
    try:
        if not file.parent.is_dir():
            raise InputError(f"{file.parent} is not a folder: make it first, or name another")
        if file.exists() or file.is_symlink():
            raise InputError(f"{file} is there already and is left as it is: choose another name")
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def _is_schema(file: Path) -> bool:
    """May this be written: is it not there, or an older schema of ours?"""
    try:
        return not file.exists() or json.loads(file.read_text("utf-8"))["title"] == TITLE
    except (OSError, ValueError, TypeError, KeyError):
        return False
