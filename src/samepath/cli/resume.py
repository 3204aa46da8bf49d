"""``samepath resume``: go on with a study from its folder alone."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.conduct import conduct
from samepath.core.units import parse_tolerance_m
from samepath.instrument.execution.folder import read_record


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a study.", show_default=False)],
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="Judge by this instead of the study's own.")] = None,
    ray: opt.Ray = None,
    json: opt.Json = False,
) -> None:
    """Run what a study has left, failed repeats included, then report as ``study`` does. The study file is not needed."""
    tolerance_m = None if tolerance is None else parse_tolerance_m(tolerance)
    record = read_record(folder)
    conduct(record.plan, folder, record.command, tolerance_m, json=json, ray=ray)
