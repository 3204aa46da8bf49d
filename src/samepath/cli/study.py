"""``samepath study`` runs one; ``resume`` goes on with one from its folder alone; ``studies`` lists those that come with us.

Before a study: ``new`` writes one to begin with, ``plan`` says how many repeats a question needs.
"""

import json as json_module
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from samepath.cli.common import Json, Ray, command_line, stdout_console
from samepath.core.errors import InputError, StudyError
from samepath.core.units import format_duration, parse_quantity
from samepath.instrument.execution.folder import size
from samepath.instrument.execution.hosts import real_isolation
from samepath.instrument.execution.rehearsal import find
from samepath.instrument.report.console import limits_line, print_document
from samepath.instrument.study.levels import level_text
from samepath.instrument.study.records import Isolation, Plan, PlannedCell
from samepath.instrument.study_run import StudyInterrupted, StudyPreview, StudyResult, preview_study, resume_study, run_study
from samepath.instrument.study_run import studies as built_in

_RIGHT = ("repeats", "a repeat takes")


def study(
    study: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="A study that comes with samepath (see samepath studies), or a YAML file."),
    ],
    repeats: Annotated[int | None, typer.Option("--repeats", help="Run so many repeats of every cell.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Run the study at its full size, where it has one.")] = False,
    real_time: Annotated[
        bool, typer.Option("--real-time", help="Run every game loop in real time, however fast the study has it.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for traces and report; default runs/NAME.")] = None,
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="Judge by this instead of the study's own.")] = None,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be run, how long it takes and how much it writes.")
    ] = False,
    ray: Ray = None,
    json: Json = False,
) -> None:
    """Run every cell of a study as often as it says, analyse it, write the report. Run again to continue.

    A study is code: the programs and Python modules that it names are run with your rights, with --dry-run too.
    """
    if dry:
        if json:
            raise StudyError("--dry-run prints text only: leave out --json")
        preview = preview_study(study, out, repeats=repeats, full=full, real_time=real_time, ray=ray)
        print_preview(stdout_console(), preview)
        raise typer.Exit(0 if preview.fits else 1)
    run_and_print(
        lambda: run_study(
            study,
            out,
            repeats=repeats,
            full=full,
            real_time=real_time,
            tolerance=tolerance,
            ray=ray,
            command=command_line(),
        ),
        json=json,
    )


def run_and_print(run: Callable[[], StudyResult], *, json: bool) -> None:
    """Run a study, print its report to stdout and its problems to stderr, and exit: 0 good, 1 problems, 130 interrupted."""
    with _terminated_as_interrupted():
        try:
            result = run()
        except StudyInterrupted as interrupt:
            result = interrupt.result
    if result.report is not None and json:
        typer.echo(result.report.to_json())
    elif result.report is not None:
        console = stdout_console()
        print_document(console, result.report)
        console.print(limits_line(result.report), style="dim")
        console.print(f"report: {result.page}", soft_wrap=True)
    for name, reason in result.stopped.items():
        typer.echo(f"cell {name!r} knew enough before its last repeat: {reason}", err=True)
    for line in result.problems:
        typer.echo(f"samepath: {line}", err=True)
    raise typer.Exit(130 if result.interrupted else 0 if result.ok else 1)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Take a request to end (SIGTERM) as Ctrl-C, so that what was finished is reported before the process ends."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_preview(console: Console, preview: StudyPreview) -> None:
    """Print what would be run, how long that takes and whether it fits on the disk."""
    plan, figures = preview.plan, preview.estimate
    console.print(_cell_table(preview))
    for line in _design(plan):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    left_out = [cell for cell in plan.cells if cell.name in preview.not_applicable]
    console.print(f"{len(plan.cells) - len(left_out)} cells, {figures.repeats} repeats to run", highlight=False)
    for words in _left_out(left_out, preview.not_applicable):
        console.print(f"not applicable here: {words}", soft_wrap=True, markup=False)
    each = {"running": figures.run_s, "settling": figures.settle_s, "analysis": figures.analysis_s}
    times = ", ".join(f"{what} {format_duration(seconds)}" for what, seconds in each.items())
    console.print(f"estimated time: {format_duration(figures.total_s)} ({times})", highlight=False)
    disk = f"at most {size(figures.stored_bytes)} in the end, {size(figures.spool_bytes)} more while running"
    verdict = "it fits" if preview.fits else "it does NOT fit"
    free = f"{size(preview.free_bytes)} free at {preview.folder}"
    console.print(f"estimated disk: {disk}; {free}: {verdict}", soft_wrap=True, highlight=False)


def _cell_table(preview: StudyPreview) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("cell", "simulator", "scenario", "repeats", "isolation", "a repeat takes"):
        table.add_column(name, overflow="fold", justify="right" if name in _RIGHT else "left")
    for cell in preview.plan.cells:
        found = find(preview.rehearsals, cell)
        known = "?" if found is None else f"{found.cost_s:.2f} s"
        takes = "not applicable" if cell.name in preview.not_applicable else known
        words = (cell.name, cell.simulator, cell.scenario, str(cell.repeats), _isolation(preview.plan, cell), takes)
        table.add_row(*map(Text, words))
    return table


def _left_out(cells: Sequence[PlannedCell], reasons: dict[str, str]) -> list[str]:
    """Say why cells are left out; those of one variant with the same reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        groups.setdefault((cell.variant, reasons[cell.name]), []).append(cell.name)
    return [
        f"{names[0] if len(names) == 1 else f'{variant} ({len(names)} cells)'}: {reason}"
        for (variant, reason), names in groups.items()
    ]


def _isolation(plan: Plan, cell: PlannedCell) -> str:
    asked = plan.isolation_of(cell)
    real = real_isolation(asked, cell.condition)
    many = f" of {plan.execution.repeats_per_process}" if real is Isolation.BATCH else ""
    return f"{real.value}{many}" + ("" if real is asked else f" (for its conditions; {asked.value} was asked)")


def _design(plan: Plan) -> list[str]:
    run = plan.execution
    lines = [
        f"factor {factor.name} ({factor.kind}): {', '.join(level_text(factor.name, level) for level in factor.levels)}"
        for factor in plan.factors
    ]
    if plan.factors:
        lines.append(f"combination: {plan.combination.value}")
    at_once = f", {run.processes} repeats at once" if run.processes > 1 else ""
    blocks = f"{run.blocks} block" + ("s" if run.blocks != 1 else "")
    lines.append(f"order: {run.order.value}, {blocks}, drawn from seed {plan.seed}{at_once}")
    return [*lines, *(f"note: {note}" for note in plan.notes)]


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


def studies() -> None:
    """List the studies that come with samepath: what each asks, and about how long it takes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("study", "repeats", "takes", "what it asks"):
        table.add_column(name, no_wrap=name != "what it asks", justify="right" if name == "repeats" else "left")
    for study in built_in():
        about = f"about {format_duration(study.about_s)}"
        table.add_row(Text(study.name), str(study.repeats), about, Text(study.description))
    stdout_console().print(table)
    typer.echo("samepath study NAME --dry-run tries it and estimates better; samepath new FILE writes one of your own")


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
