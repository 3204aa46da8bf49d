"""A study from its plan to its report: what ``study`` and ``resume`` have in common."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from samepath.base.errors import StoreError
from samepath.cli import options as opt
from samepath.cli.dry_run import print_plan
from samepath.cli.live import live_progress
from samepath.cli.study_report import study_document
from samepath.conditions.provenance import collect_provenance
from samepath.execution.check import check_plan, not_applicable
from samepath.execution.disk import check_room, check_writable
from samepath.execution.estimate import estimate
from samepath.execution.folder import StudyRecord, begin, found_record, locked
from samepath.execution.rehearsal import Rehearsal, not_rehearsed, rehearse
from samepath.execution.run import Result, run_plan
from samepath.report.console import limits_line, print_document
from samepath.report.document import Document, to_json
from samepath.report.write import write_reports
from samepath.study.records import Plan
from samepath.traces.store import stored_repeats

_INTERRUPTED = "Interrupted: this report covers the repeats that were finished. Continue with: samepath resume"


def dry_run(plan: Plan, folder: Path) -> None:
    """Print what a study would do; exit 1 if it does not fit on the disk."""
    check_plan(plan)
    check_writable(folder)
    found = found_record(folder, plan)
    left_out = not_applicable(plan)
    rehearsals = _rehearse(plan, left_out, () if found is None else found.rehearsals)
    figures = estimate(plan, rehearsals, _done(plan, folder), left_out)
    fits = print_plan(opt.stdout_console(), plan, folder, rehearsals, left_out, figures)
    raise typer.Exit(0 if fits else 1)


def conduct(plan: Plan, folder: Path, again: str, tolerance_m: float | None, *, json: bool) -> None:
    """Run what is missing, analyse, write and print the report; ``again`` is the command that runs the study anew."""
    check_plan(plan)
    with _terminated_as_interrupted(), locked(folder):
        record = _begin(plan, folder, again)
        interrupted, result = "", Result((), {})
        left = plan.repeats - sum(cell.repeats for cell in plan.cells if cell.name in record.not_applicable)
        if sum(map(len, _done(plan, folder).values())) >= left:
            typer.echo(f"samepath: nothing to do: all {left} repeats are in {folder}; the report is written anew", err=True)
        try:
            result = _run(record, folder, left)
        except KeyboardInterrupt:
            interrupted = f"{_INTERRUPTED} {folder}"
        except StoreError as error:
            raise StoreError(f"{error}; what is finished is kept; continue with: samepath resume {folder}") from error
        document = study_document(folder, record, tolerance_m, partial=interrupted)
        code = _report(folder, record, document, result, interrupted, json=json)
    raise typer.Exit(code)


def _begin(plan: Plan, folder: Path, again: str) -> StudyRecord:
    """Rehearse, see that there is room, and write down what is going to be done."""
    found = found_record(folder, plan)
    left_out = not_applicable(plan)
    rehearsals = _rehearse(plan, left_out, () if found is None else found.rehearsals)
    check_room(folder, estimate(plan, rehearsals, _done(plan, folder), left_out).needed_bytes)
    command = opt.command_line()
    provenance = collect_provenance(command.split(), plan.seed).as_dict()
    return begin(folder, StudyRecord(plan, again, provenance, (command,), left_out, rehearsals))


def _rehearse(plan: Plan, left_out: dict[str, str], known: Sequence[Rehearsal]) -> tuple[Rehearsal, ...]:
    cells = [cell for cell in plan.cells if cell.name not in left_out]
    missing = not_rehearsed(cells, known)
    if not missing:
        return tuple(known)
    with opt.progress_bar("rehearsing", len(missing)) as advance:
        return rehearse(plan, missing, known, lambda name: advance(name, None))


def _done(plan: Plan, folder: Path) -> dict[str, frozenset[int]]:
    return {cell.name: stored_repeats(folder / "cells" / cell.folder) for cell in plan.cells}


def _run(record: StudyRecord, folder: Path, total: int) -> Result:
    with live_progress(total) as show:
        return run_plan(
            record.plan,
            folder,
            show,
            rehearsals=record.rehearsals,
            left_out=tuple(record.not_applicable),
            command=record.commands[-1],
        )


def _report(
    folder: Path, record: StudyRecord, document: Document | None, result: Result, interrupted: str, *, json: bool
) -> int:
    """Write and print the report; return the exit code."""
    lines = [f"{failure.words()}" for failure in result.failures]
    lines += [f"cell {name!r}: {reason}" for name, reason in result.given_up.items()]
    if document is None:
        lines.append(f"no cell has two finished repeats to compare; continue with: samepath resume {folder}")
    else:
        page = write_reports(folder, document)
        lines += _unexpected(record.plan, document)
        if json:
            typer.echo(to_json(document))
        else:
            console = opt.stdout_console()
            print_document(console, document)
            console.print(limits_line(document), style="dim")
            console.print(f"report: {page}", soft_wrap=True)
    if result.failures:
        lines.append(f"{len(result.failures)} failures; samepath resume {folder} tries those repeats again")
    for line in lines:
        typer.echo(f"samepath: {line}", err=True)
    return 130 if interrupted else 1 if lines else 0


def _unexpected(plan: Plan, document: Document) -> list[str]:
    """Name the cells whose verdict is not what the study file expects."""
    found = {cell.header.cell: cell for cell in document.cells if document.tolerance_m == plan.tolerance_m}
    lines = []
    for cell in plan.cells:
        result = found.get(cell.name)
        if cell.expect is None or result is None or result.repeats < cell.repeats:
            continue
        if result.judgement.verdict is not cell.expect:
            lines.append(f"cell {cell.name!r}: {cell.expect.value} was expected, but it is {result.judgement.verdict.value}")
    return lines


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Take a request to end (SIGTERM) as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
