"""``samepath bisect``: which setting, or which commit of a controller, changes the outcome."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json, name_values
from samepath.core.errors import InputError
from samepath.core.units import parse_duration_s
from samepath.instrument import bisect as search
from samepath.instrument.subjects import read_scalar


def bisect(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO|STUDY] [-- COMMAND...]",
            help="What is run: a scenario or study; with --commits, a command that is run inside of every commit.",
            show_default=False,
        ),
    ] = None,
    setting: Annotated[
        str | None, typer.Option("--setting", metavar="NAME=A..B", help="A setting that is a number, from A to B.")
    ] = None,
    settings: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--settings", metavar="A.yaml B.yaml", help="Two files of settings: which of the differences matter?"),
    ] = None,
    commits: Annotated[
        str | None, typer.Option("--commits", metavar="GOOD..BAD", help="Commits of --controller-repo, the older one first.")
    ] = None,
    controller_repo: Annotated[
        Path | None,
        typer.Option("--controller-repo", metavar="DIR", help="The repository of the commits; it is read, never changed."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help=f"Steps from A to B; default 1 apart for whole numbers, else {search.STEPS}.")
    ] = None,
    scan: Annotated[bool, typer.Option("--scan", help="Look at every step, from A on, instead of halving.")] = False,
    by: Annotated[
        str, typer.Option("--by", help="digest: every bit of the run; ending: who collides and why the run ends.")
    ] = "digest",
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Paths that stay within this of A's are the same: 1cm.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of every point.")] = search.REPEATS,
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who runs a scenario; default samepath.")] = None,
    cell: Annotated[str | None, typer.Option("--cell", help="The cell of a study.")] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--fix", metavar="NAME=VALUE", help="A setting held at all points; may be repeated.")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", help="Longest time of a command.")] = f"{search.COMMAND_S:g}s",
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the runs; default runs/bisect-NAME.")] = None,
    json: Json = False,
) -> None:
    """Find what changes the outcome. Exit 0 found, 1 both ends are the same, 2 bad input.

    Interrupted, it goes on where it was when the same command is given again.
    """
    before, command = _split(words or [])
    if len(before) > 1:
        raise InputError(f"one scenario or study was wanted, but {' '.join(before)} came; a command comes after --")
    result = search.bisect(
        before[0] if before else None,
        setting=setting,
        settings=settings,
        commits=commits,
        controller_repo=controller_repo,
        command=command,
        by=by,
        tolerance=tolerance,
        repeats=repeats,
        steps=steps,
        scan=scan,
        timeout_s=parse_duration_s(timeout),
        simulator=simulator,
        cell=cell,
        fixed={name: read_scalar(value) for name, value in name_values("--fix", fixed, "substeps=5").items()},
        out=out,
    )
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.found else 1)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Tell what stands before -- from the command after it: the parser of options drops the dashes and keeps the words."""
    after = len(sys.argv) - sys.argv.index("--") - 1 if "--" in sys.argv else 0
    return words[: len(words) - after], words[len(words) - after :]
