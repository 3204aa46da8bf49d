"""``samepath golden``: runs kept in a small file of your repository, and checked against it."""

from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.common import Json, name_values
from samepath.core.files import write_text_atomically
from samepath.core.units import parse_duration_s
from samepath.instrument import golden as golden_runs
from samepath.instrument.subjects import read_scalar

app = typer.Typer(
    name="golden",
    help="Keep a run in a small file, and check that it still comes out the same.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The golden file.", show_default=False)]
Simulator = Annotated[
    str | None, typer.Option("--simulator", help="Who runs a scenario (see samepath simulators); default samepath.")
]
Cell = Annotated[str | None, typer.Option("--cell", help="Only this cell of a study.")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--setting", metavar="NAME=VALUE", help="A setting of the simulator, such as substeps=5; may be repeated."),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Another seed than the study's or 0.")]
Duration = Annotated[str | None, typer.Option("--duration", help="Longest simulated time, such as 8s.")]


@app.command("write")
def write(
    file: File,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Scenarios or studies (name or file) to run; or folders of studies, traces and logs to take as they are.",
            show_default=False,
        ),
    ],
    simulator: Simulator = None,
    cell: Cell = None,
    setting: Setting = None,
    seed: Seed = None,
    duration: Duration = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs that must be equal before one is kept.")] = (
        golden_runs.REPEATS
    ),
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Permit runs that differ by so much, now and in every check: 1cm.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there, and say what changes.")] = False,
    json: Json = False,
) -> None:
    """Write what runs are now into FILE. Exit 0 written, 1 the runs are not equal, 2 bad input."""
    settings = name_values("--setting", setting, "substeps=5")
    result = golden_runs.write_golden(
        file,
        *sources,
        simulator=simulator,
        cell=cell,
        settings={name: read_scalar(value) for name, value in settings.items()},
        seed=seed,
        duration_s=None if duration is None else parse_duration_s(duration),
        repeats=repeats,
        tolerance=tolerance,
        force=force,
    )
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(1 if result.golden is None else 0)


@app.command("check")
def check(
    file: File,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG",
            help="Logs or traces to compare; left out, the file's scenarios are run again.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, help="Runs to compare; default 1, and 2 more where it differs.")
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Permit so much distance, such as 1cm; the exact answer is told, too.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML to this file.")] = None,
    json: Json = False,
) -> None:
    """Compare with FILE. Exit 0 the same (or within the tolerance), 1 not, 2 bad input."""
    result = golden_runs.check_golden(file, *(sources or ()), repeats=repeats, tolerance=tolerance)
    if junit is not None:
        write_text_atomically(junit, golden_runs.golden_junit(result))
    typer.echo(result.to_json() if json else "\n".join(result.words()))
    raise typer.Exit(0 if result.passes else 1)
