"""A study from its plan to its report: what ``study`` and ``resume`` have in common."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType

import typer

from samepath.cli import options as opt
from samepath.cli.dry_run import print_plan
from samepath.cli.live import live_progress
from samepath.cli.study_report import study_document
from samepath.core.errors import StoreError
from samepath.instrument.execution.folder import (
    StudyRecord,
    begin,
    check_room,
    check_writable,
    differences,
    found_record,
    locked,
)
from samepath.instrument.execution.ray_hosts import RayHosts, ray_hosts
from samepath.instrument.execution.rehearsal import Rehearsal, check_plan, estimate, not_applicable, not_rehearsed, rehearse
from samepath.instrument.execution.run import Result, run_plan
from samepath.instrument.host.provenance import collect_provenance
from samepath.instrument.report.console import limits_line, print_document
from samepath.instrument.report.document import Document, to_json
from samepath.instrument.report.html import write_reports
from samepath.instrument.study.records import Plan
from samepath.instrument.traces.store import stored_repeats

_INTERRUPTED = "Interrupted: this report covers the repeats that were finished. Continue with:"


def dry_run(plan: Plan, folder: Path, ray: str | None = None) -> None:
    """Print what a study would do; exit 1 if it does not fit on the disk."""
    check_plan(plan, here=ray is None)
    check_writable(folder)
    found = found_record(folder, plan)
    with _cluster(plan, ray) as hosts:
        left_out = _not_applicable(plan, hosts)
        rehearsals = _rehearse(plan, left_out, () if found is None else found.rehearsals, hosts)
        at_once = 1 if hosts is None else max(1, min(len(hosts.names), len(plan.cells) - len(left_out)))
    figures = estimate(plan, rehearsals, _done(plan, folder), left_out)
    figures = replace(figures, run_s=figures.run_s / at_once, settle_s=figures.settle_s / at_once)
    fits = print_plan(opt.stdout_console(), plan, folder, rehearsals, left_out, figures)
    raise typer.Exit(0 if fits else 1)


def conduct(plan: Plan, folder: Path, again: str, tolerance_m: float | None, *, json: bool, ray: str | None = None) -> None:
    """Run what is missing, analyse, write and print the report; ``again`` is the command that runs the study anew.

    ``ray`` is the address of the cluster that is to run it.
    """
    check_plan(plan, here=ray is None)
    go_on = f"samepath resume {folder}" + ("" if ray is None else f" --ray {ray}")
    with _terminated_as_interrupted(), locked(folder):
        interrupted, result = "", Result((), {})
        with _cluster(plan, ray) as hosts:
            record = _begin(plan, folder, again, hosts)
            left = plan.repeats - sum(cell.repeats for cell in plan.cells if cell.name in record.not_applicable)
            if sum(map(len, _done(plan, folder).values())) >= left:
                _say(f"nothing to do: all {left} repeats are in {folder}; the report is written anew")
            try:
                result = _run(record, folder, left, hosts)
            except KeyboardInterrupt:
                interrupted = f"{_INTERRUPTED} {go_on}"
            except StoreError as error:
                raise StoreError(f"{error}; what is finished is kept; continue with: {go_on}") from error
        document = study_document(folder, record, tolerance_m, partial=interrupted)
        code = _report(folder, record, document, result, interrupted, go_on, json=json)
    raise typer.Exit(code)


@contextmanager
def _cluster(plan: Plan, ray: str | None) -> Iterator[RayHosts | None]:
    """Make a cluster's hosts ready; None where the study is run on this machine."""
    with nullcontext() if ray is None else ray_hosts(ray, plan, _say) as hosts:
        yield hosts


def _say(line: str) -> None:
    typer.echo(f"samepath: {line}", err=True)


def _begin(plan: Plan, folder: Path, again: str, hosts: RayHosts | None) -> StudyRecord:
    """Rehearse, see that there is room, and write down what is going to be done."""
    found = found_record(folder, plan)
    left_out = _not_applicable(plan, hosts)
    rehearsals = _rehearse(plan, left_out, () if found is None else found.rehearsals, hosts)
    check_room(folder, estimate(plan, rehearsals, _done(plan, folder), left_out).needed_bytes)
    command = opt.command_line()
    provenance = collect_provenance(command.split(), plan.seed).as_dict()
    now = {} if hosts is None else hosts.provenance
    record = begin(folder, StudyRecord(plan, again, provenance, (command,), left_out, rehearsals, now))
    for name, host in now.items():
        changed = differences({"then": record.hosts[name], "now": host})
        if changed:
            _say(f"host {name} is not as it was when the study began: {', '.join(changed)} changed")
    return record


def _not_applicable(plan: Plan, hosts: RayHosts | None) -> dict[str, str]:
    return not_applicable(plan) if hosts is None else hosts.not_applicable()


def _rehearse(
    plan: Plan, left_out: dict[str, str], known: Sequence[Rehearsal], hosts: RayHosts | None
) -> tuple[Rehearsal, ...]:
    cells = [cell for cell in plan.cells if cell.name not in left_out]
    missing = not_rehearsed(cells, known)
    if not missing:
        return tuple(known)
    with opt.progress_bar("rehearsing", len(missing)) as advance:
        if hosts is not None:
            return hosts.rehearse(missing, known, lambda name: advance(name, None))
        return rehearse(plan, missing, known, lambda name: advance(name, None))


def _done(plan: Plan, folder: Path) -> dict[str, frozenset[int]]:
    return {cell.name: stored_repeats(folder / "cells" / cell.folder) for cell in plan.cells}


def _run(record: StudyRecord, folder: Path, total: int, hosts: RayHosts | None) -> Result:
    with live_progress(total) as show:
        return run_plan(
            record.plan,
            folder,
            show,
            rehearsals=record.rehearsals,
            left_out=tuple(record.not_applicable),
            command=record.commands[-1],
            hosts=hosts,
        )


def _report(
    folder: Path, record: StudyRecord, document: Document | None, result: Result, interrupted: str, go_on: str, *, json: bool
) -> int:
    """Write and print the report; return the exit code."""
    lines = [f"{failure.words()}" for failure in result.failures]
    lines = list(dict.fromkeys([*lines, *(f"cell {name!r}: {reason}" for name, reason in result.given_up.items())]))
    if document is None:
        lines.append(f"no cell has two finished repeats to compare; continue with: {go_on}")
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
        lines.append(f"{len(result.failures)} failures; {go_on} tries those repeats again")
    for line in lines:
        _say(line)
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
