"""The options of the verbs that read traces and judge them: ``analyse``, ``check``, ``report`` and ``import``."""

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from samepath.cli.common import name_values
from samepath.core.errors import InputError
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.traces.importers import Align

T = TypeVar("T")

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Log files (CSV, Parquet), trace folders or study folders.", show_default=False),
]
Tolerance = Annotated[str, typer.Option("--tolerance", help="Permissible variance: 1cm, 5 mm, 0.01 (metres).")]
CriterionOption = Annotated[
    Criterion,
    typer.Option(
        "--criterion",
        help="deviation: no repeat may stray farther than the tolerance; sigma: max sigma alone, as in the paper.",
    ),
]
SplitAt = Annotated[str, typer.Option("--split-at", help="Where phases part: an event's kind, tick=120 or t=6s.")]
Structure = Annotated[
    str,
    typer.Option(
        "--structure",
        help="fail: unequal lengths, actors or collisions exceed any tolerance; report: only report them.",
    ),
]
Restrict = Annotated[
    list[str] | None,
    typer.Option(
        "--restrict", help="Filter of the restricted column, such as cpu_load<=0.75 or phase=before; may be repeated."
    ),
]
Monitors = Annotated[
    Path | None,
    typer.Option("--monitors", metavar="FILE", help="Assertions that every repeat is judged by (YAML): do verdicts flip?"),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="WHAT=VALUE",
        help="How far another quantity may stray: speed=0.1m/s, 'walkers position=5cm', sensors=same; may be repeated.",
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option("--reference", metavar="LOG", help="Where actors should have been: a log, or traces; tells bias from spread."),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME=COLUMN",
        help="Which column is what: repeat=run_id, x=pos_x[cm], battery_ratio=soc; may be repeated.",
    ),
]
AlignOption = Annotated[
    Align, typer.Option("--align", help="How rows of repeats are matched: by time, by time since the start, or by row.")
]
Lossless = Annotated[
    bool,
    typer.Option("--lossless", help="The log holds the simulator's own numbers unrounded, even if they look rounded."),
]
LogMib = Annotated[
    int,
    typer.Option(
        "--log-mib",
        min=1,
        help="Refuse logs whose numbers take more memory than this once they are read, however small the files.",
    ),
]
Format = Annotated[str | None, typer.Option("--format", help="Importer to use (tsl, tidy, ...); found by itself if left out.")]


def read_columns(given: list[str] | None) -> dict[str, str]:
    """Read ``--map``; a key without a column would silently read the wrong one."""
    columns = name_values("--map", given, "repeat=run_id", "KEY=COLUMN")
    for key, column in columns.items():
        if not column:
            raise InputError(f"--map: KEY=COLUMN was wanted, such as repeat=run_id, but '{key}=' came")
    return columns


def read_limits(given: list[str] | None) -> dict[str, object] | None:
    """Read ``--limit``; None leaves the choice to the study that is analysed."""
    return None if given is None else dict(name_values("--limit", given, "speed=0.1m/s", "WHAT=VALUE"))


def if_given(context: typer.Context, name: str, value: T) -> T | None:
    """Return an option's value if it was on the command line; None leaves the choice to the study that is analysed."""
    source = context.get_parameter_source(name)
    return value if source is not None and source.name == "COMMANDLINE" else None
