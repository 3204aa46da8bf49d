"""The verbs that search: ``bisect``, ``shrink`` and ``search``.

They find which setting or which commit of a controller changes the outcome, the smallest scenario that still parts, and the
value of a parameter at which the verdict of a test flips.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json, name_values
from samepath.core.errors import InputError
from samepath.core.units import parse_duration_s
from samepath.instrument import bisect as bisecting
from samepath.instrument import border
from samepath.instrument import shrink as shrinking
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
        int | None,
        typer.Option("--steps", help=f"Steps from A to B; default 1 apart for whole numbers, else {bisecting.STEPS}."),
    ] = None,
    scan: Annotated[bool, typer.Option("--scan", help="Look at every step, from A on, instead of halving.")] = False,
    by: Annotated[
        str, typer.Option("--by", help="digest: every bit of the run; ending: who collides and why the run ends.")
    ] = "digest",
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Paths that stay within this of A's are the same: 1cm.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of every point.")] = bisecting.REPEATS,
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who runs a scenario; default samepath.")] = None,
    cell: Annotated[str | None, typer.Option("--cell", help="The cell of a study.")] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--fix", metavar="NAME=VALUE", help="A setting held at all points; may be repeated.")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", help="Longest time of a command.")] = f"{bisecting.COMMAND_S:g}s",
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the runs; default runs/bisect-NAME.")] = None,
    json: Json = False,
) -> None:
    """Find what changes the outcome. Exit 0 found, 1 both ends are the same, 2 bad input.

    Interrupted, it goes on where it was when the same command is given again.
    """
    before, command = _split(words or [])
    if len(before) > 1:
        raise InputError(f"one scenario or study was wanted, but {' '.join(before)} came; a command comes after --")
    result = bisecting.bisect(
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


def shrink(
    what: Annotated[
        str,
        typer.Argument(metavar="SCENARIO|STUDY", help="A scenario or a study: name, file or folder.", show_default=False),
    ],
    cell: Annotated[str | None, typer.Option("--cell", help="The cell of a study.")] = None,
    predicate: Annotated[
        str, typer.Option("--while", help="What the smaller one must still do: parts, collides or verdict-flips.")
    ] = "parts",
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who runs a scenario; default samepath.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", metavar="NAME=VALUE", help="A setting of the simulator, such as mode=variable; may be repeated."
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", help="Repeats that measure the original and the result.")
    ] = shrinking.REPEATS,
    miss: Annotated[
        float, typer.Option("--miss", help="Chance at most of a mistake about a candidate: see docs/bisect.md.")
    ] = shrinking.MISS,
    out: Annotated[Path | None, typer.Option("--out", help="The scenario file to write; default NAME-small.yaml.")] = None,
    folder: Annotated[Path | None, typer.Option("--folder", help="Where it remembers; default runs/shrink-NAME.")] = None,
    json: Json = False,
) -> None:
    """Make a scenario as small as it can be. Exit 0 done, 1 it does not do it at all, 2 bad input.

    Interrupted, it goes on where it was when the same command is given again.
    """
    result = shrinking.shrink(
        what,
        simulator=simulator,
        cell=cell,
        settings={name: read_scalar(value) for name, value in name_values("--setting", setting, "mode=variable").items()},
        predicate=predicate,
        repeats=repeats,
        miss=miss,
        out=out,
        folder=folder,
    )
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.found else 1)


def search(
    what: Annotated[str, typer.Argument(metavar="SCENARIO|STUDY", help="What is run.", show_default=False)],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME=A..B",
            help="What is varied: 1.start_delay=0s..4s (actor 1), cpu_load=0..0.9, or a setting; may be repeated.",
        ),
    ],
    monitors: opt.Monitors = None,
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who runs a scenario; default samepath.")] = None,
    cell: Annotated[str | None, typer.Option("--cell", help="The cell of a study.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of every point.")] = 1,
    steps: Annotated[int, typer.Option("--steps", min=2, help="How finely a range is divided.")] = border.STEPS,
    points: Annotated[
        int, typer.Option("--points", min=1, help="Points that a search over several parameters may run.")
    ] = border.EVALUATIONS,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the scenarios on both sides of the border.")] = None,
    json: Json = False,
) -> None:
    """Find the border of a test. Exit 0 found, 1 no point differs, 2 bad input."""
    result = border.search(
        what,
        vary,
        monitors=monitors,
        simulator=simulator,
        cell=cell,
        repeats=repeats,
        steps=steps,
        evaluations=points,
        out=out,
    )
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.found else 1)
