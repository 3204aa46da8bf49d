"""``samepath resume``: go on with a study from its folder alone."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json, Ray, command_line
from samepath.cli.study import run_and_print
from samepath.instrument.study_run import resume_study


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a study.", show_default=False)],
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="Judge by this instead of the study's own.")] = None,
    ray: Ray = None,
    json: Json = False,
) -> None:
    """Run what a study has left, failed repeats included, then report as ``study`` does. The study file is not needed.

    What the folder's study.json names is run with your rights: resume no folder that you would not run.
    """
    run_and_print(lambda: resume_study(folder, tolerance=tolerance, ray=ray, command=command_line()), json=json)
