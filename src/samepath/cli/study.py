"""``samepath study``: run a study and report on it."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.conduct import conduct, dry_run
from samepath.core.errors import StudyError
from samepath.core.units import parse_tolerance_m
from samepath.instrument.study.plan import load_plan


def study(
    study: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="A study that comes with samepath (case-study, controls), or a YAML file."),
    ],
    repeats: Annotated[int | None, typer.Option("--repeats", help="Run so many repeats of every cell.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Run the study at its full size, where it has one.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for traces and report; default runs/NAME.")] = None,
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="Judge by this instead of the study's own.")] = None,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be run, how long it takes and how much it writes.")
    ] = False,
    ray: opt.Ray = None,
    json: opt.Json = False,
) -> None:
    """Run every cell of a study as often as it says, analyse it, write the report. Run again to continue."""
    plan = load_plan(study, repeats, full=full)
    tolerance_m = None if tolerance is None else parse_tolerance_m(tolerance)
    folder = out or Path("runs") / plan.name
    if dry:
        if json:
            raise StudyError("--dry-run prints text only: leave out --json")
        dry_run(plan, folder, ray)
    conduct(plan, folder, opt.command_line(), tolerance_m, json=json, ray=ray)
