"""A study from its file to its report: checked, rehearsed, run, analysed, written.

The order matters. Whatever can be refused is refused before the first repeat (the plan, the hosts, one rehearsal of each kind
of run, room on the disk), because a study may take a night. The folder is locked meanwhile, so that two processes never write
into one study. ``study.json`` is written before anything is run: from then on the folder alone is enough to go on. A repeat is
stored before the next one begins, so that an interrupt, a full disk or a kill loses at most the one that was running.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from samepath.core.errors import StoreError
from samepath.core.units import format_duration
from samepath.engines import registry
from samepath.instrument.analysis.stopping import RateRule, SigmaRule, StopRule
from samepath.instrument.evaluation import Report, monitor_set, study_report, tolerance_in_m
from samepath.instrument.execution.folder import (
    StudyRecord,
    begin,
    check_room,
    check_writable,
    differences,
    found_record,
    free_bytes,
    locked,
    read_record,
    size,
)
from samepath.instrument.execution.ray_hosts import RayHosts, ray_hosts
from samepath.instrument.execution.rehearsal import (
    Estimate,
    Rehearsal,
    check_plan,
    estimate,
    guess_study_s,
    not_applicable,
    not_rehearsed,
    rehearse,
)
from samepath.instrument.execution.run import Failure, RunResult, run_plan
from samepath.instrument.host.provenance import collect_provenance
from samepath.instrument.progress import Display, ShowStudy, display_for
from samepath.instrument.study.plan import TIME_SCALE, built_in_studies, in_real_time, load_plan, make_plan
from samepath.instrument.study.records import Plan
from samepath.instrument.study.spec import parse_until
from samepath.instrument.traces.store import stored_repeats

StudySource = str | os.PathLike[str] | Mapping[str, Any] | Plan
"""The name of a study that comes with samepath, a YAML file, what such a file holds, or a plan."""


@dataclass(frozen=True)
class StudyResult:
    """How a study ended. A notebook shows its report.

    ``report`` is None where no cell has two repeats to compare. ``problems`` has a line for everything that is not as it
    should be: repeats that failed, cells that were given up, verdicts that the study file did not expect. ``stopped`` has the
    cells whose repeats grew until enough was known, and why it was.
    """

    plan: Plan
    folder: Path
    report: Report | None
    failures: tuple[Failure, ...]
    given_up: dict[str, str]
    problems: tuple[str, ...]
    interrupted: bool = False
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Was everything run, and is everything as the study file expects?"""
        return not self.problems and not self.interrupted

    @property
    def page(self) -> Path:
        """Where the report was written."""
        return self.folder / "report.html"

    def _repr_html_(self) -> str | None:
        return None if self.report is None else self.report._repr_html_()

    def __repr__(self) -> str:
        # Not the dataclass's own: that would print the whole plan.
        verdict = "no figures" if self.report is None else self.report.verdict.value
        ended = ", interrupted" if self.interrupted else ""
        return f"<StudyResult {self.plan.name!r} in {self.folder}: {verdict}, {len(self.problems)} problems{ended}>"


class StudyInterrupted(KeyboardInterrupt):
    """Ctrl-C while a study ran: ``result`` covers the repeats that were finished, and they are kept."""

    def __init__(self, result: StudyResult) -> None:
        # In words: in a notebook the last line of the traceback is all that most people read.
        kept = sum(map(len, _done(result.plan, result.folder).values()))
        words = f"{kept} of {result.plan.repeats} repeats are kept in {result.folder}"
        super().__init__(f"{words}: go on with samepath.resume_study({str(result.folder)!r})")
        self.result = result


@dataclass(frozen=True)
class StudySummary:
    """A study that comes with samepath. ``about_s`` is a guess for an idle desktop with everything installed."""

    name: str
    description: str
    cells: int
    repeats: int
    about_s: float


@dataclass(frozen=True)
class StudyPreview:
    """What a study would do: which cells are left out and why, how long it takes and how much it writes."""

    plan: Plan
    folder: Path
    rehearsals: tuple[Rehearsal, ...]
    not_applicable: dict[str, str]
    estimate: Estimate
    free_bytes: int

    @property
    def fits(self) -> bool:
        """Is there room for it on the disk?"""
        return self.estimate.needed_bytes <= self.free_bytes

    def __repr__(self) -> str:
        # Not the dataclass's own: that would print the whole plan.
        figures = self.estimate
        time = f"{figures.repeats} repeats to run, about {format_duration(figures.total_s)}"
        room = f"at most {size(figures.stored_bytes + figures.spool_bytes)} of {size(self.free_bytes)} free"
        left_out = f"{len(self.not_applicable)} cells not applicable"
        return f"<StudyPreview {self.plan.name!r} in {self.folder}: {time}, {room}, {left_out}>"


def run_study(
    study: StudySource,
    out: str | os.PathLike[str] | None = None,
    *,
    repeats: int | None = None,
    full: bool = False,
    real_time: bool = False,
    tolerance: str | float | None = None,
    ray: str | None = None,
    progress: bool | ShowStudy = True,
    command: str | None = None,
) -> StudyResult:
    """Run every cell of a study as often as it says, analyse it, write the report. Called again, it continues.

    ``out`` is the folder of traces and report, ``runs/NAME`` if left out. ``repeats`` overrides every number in the study,
    ``full`` takes its full size, ``real_time`` runs every game loop in real time, however fast the study has it, ``tolerance``
    judges by another than its own. ``ray`` is the address of a Ray cluster that is to run it. ``progress`` is True for bars on
    stderr or in the notebook, False for silence, or a function that is called with a :class:`StudyProgress` after every
    repeat. ``command`` is what the report says runs it again.

    Ctrl-C raises :class:`StudyInterrupted`, a KeyboardInterrupt that carries the report of what was finished.

    >>> design = {"simulators": ["control-exact", "control-gaussian"], "scenarios": "crossing", "repeats": 3}
    >>> result = run_study({"name": "tiny", "design": design}, progress=False)
    >>> [(cell.header.cell, cell.judgement.verdict.value) for cell in result.report.cells]
    [('control-exact', 'bit-identical'), ('control-gaussian', 'within-tolerance')]
    >>> result.ok, str(result.page)
    (True, 'runs/tiny/report.html')
    """
    plan = plan_of(study, repeats, full=full, real_time=real_time)
    tolerance_m = None if tolerance is None else tolerance_in_m(tolerance)
    folder = Path("runs") / plan.name if out is None else Path(out)
    if command is None:
        command = _command(study, folder, repeats, full=full, real_time=real_time)
    return _run(plan, folder, command, command, tolerance_m, ray, display_for(progress))


def resume_study(
    folder: str | os.PathLike[str],
    *,
    tolerance: str | float | None = None,
    ray: str | None = None,
    progress: bool | ShowStudy = True,
    command: str | None = None,
) -> StudyResult:
    """Run what a study has left, failed repeats included, from its folder alone; otherwise as :func:`run_study`."""
    folder = Path(folder)
    tolerance_m = None if tolerance is None else tolerance_in_m(tolerance)
    record = read_record(folder)
    now = shlex.join(["samepath", "resume", str(folder)]) if command is None else command
    return _run(record.plan, folder, record.command, now, tolerance_m, ray, display_for(progress))


def preview_study(
    study: StudySource,
    out: str | os.PathLike[str] | None = None,
    *,
    repeats: int | None = None,
    full: bool = False,
    real_time: bool = False,
    ray: str | None = None,
    progress: bool = True,
) -> StudyPreview:
    """Try each kind of run once and say what the study would take. Nothing is kept."""
    plan = plan_of(study, repeats, full=full, real_time=real_time)
    folder = Path("runs") / plan.name if out is None else Path(out)
    display = display_for(progress)
    check_plan(plan, here=ray is None)
    check_writable(folder)
    found = found_record(folder, plan)
    with _cluster(plan, ray, display) as hosts:
        left_out = not_applicable(plan) if hosts is None else hosts.not_applicable()
        rehearsals = _rehearse(plan, left_out, () if found is None else found.rehearsals, hosts, display)
        at_once = 1 if hosts is None else max(1, min(len(hosts.names), len(plan.cells) - len(left_out)))
    figures = estimate(plan, rehearsals, _done(plan, folder), left_out)
    figures = replace(figures, run_s=figures.run_s / at_once, settle_s=figures.settle_s / at_once)
    return StudyPreview(plan, folder, rehearsals, left_out, figures, free_bytes(folder))


def studies() -> tuple[StudySummary, ...]:
    """List the studies that come with samepath, by name.

    >>> next(study.description for study in studies() if study.name == "table1")
    'Table I of the paper on the embedded simulator, in lockstep'
    """
    plans = [load_plan(name) for name in built_in_studies()]
    return tuple(
        StudySummary(plan.name, plan.description, len(plan.cells), plan.repeats, guess_study_s(plan)) for plan in plans
    )


def plan_of(study: StudySource, repeats: int | None = None, *, full: bool = False, real_time: bool = False) -> Plan:
    """Read a study, wherever it comes from, and spell it out; with ``real_time``, every game loop in it at real time."""
    if isinstance(study, Plan):
        plan = study
    elif isinstance(study, Mapping):
        plan = make_plan(json.dumps(study), "study", repeats, full)  # JSON is YAML: one reader, the same checks
    else:
        plan = load_plan(os.fspath(study), repeats, full)
    return in_real_time(plan, _scaled(plan)) if real_time else plan


def _scaled(plan: Plan) -> frozenset[str]:
    """Return the simulators of a plan that can be run faster than real time."""
    found = set()
    for name in {cell.simulator for cell in plan.cells}:
        with registry.create(name) as simulator:
            if TIME_SCALE in simulator.info().settings:
                found.add(name)
    return frozenset(found)


def _run(
    plan: Plan, folder: Path, again: str, command: str, tolerance_m: float | None, ray: str | None, display: Display
) -> StudyResult:
    """Run what is missing, analyse, write the report. ``again`` runs the study anew, ``command`` is what was called now."""
    check_plan(plan, here=ray is None)
    monitor_set(plan.judging.monitors or None)  # a map that is not there is told before the first repeat, not after the last
    go_on = f"samepath resume {folder}" + ("" if ray is None else f" --ray {ray}")
    with locked(folder):
        partial, result = "", RunResult((), {})
        with _cluster(plan, ray, display) as hosts:
            record = _begin(plan, folder, again, command, hosts, display)
            left = plan.repeats - sum(cell.repeats for cell in plan.cells if cell.name in record.not_applicable)
            if sum(map(len, _done(plan, folder).values())) >= left:
                display.say(f"nothing to do: all {left} repeats are in {folder}; the report is written anew")
            try:
                with display.study(left) as show:
                    result = run_plan(
                        plan,
                        folder,
                        show,
                        rehearsals=record.rehearsals,
                        left_out=tuple(record.not_applicable),
                        command=command,
                        hosts=hosts,
                        make_rule=lambda until: _rule(until, plan.judging.confidence),
                    )
            except KeyboardInterrupt:
                partial = f"Interrupted: this report covers the repeats that were finished. Continue with: {go_on}"
            except StoreError as error:
                raise StoreError(f"{error}; what is finished is kept; continue with: {go_on}") from error
        report = study_report(folder, record, tolerance_m, partial=partial, display=display)
        if report is not None:
            report.write(folder)
    problems = _problems(plan, report, result, go_on)
    ended = StudyResult(plan, folder, report, result.failures, result.given_up, problems, bool(partial), result.stopped)
    if partial:
        raise StudyInterrupted(ended)
    return ended


@contextmanager
def _cluster(plan: Plan, ray: str | None, display: Display) -> Iterator[RayHosts | None]:
    """Make a cluster's hosts ready; None where the study is run on this machine."""
    with nullcontext() if ray is None else ray_hosts(ray, plan, display.say) as hosts:
        yield hosts


def _begin(plan: Plan, folder: Path, again: str, command: str, hosts: RayHosts | None, display: Display) -> StudyRecord:
    """Rehearse, see that there is room, and write down what is going to be done."""
    found = found_record(folder, plan)
    left_out = not_applicable(plan) if hosts is None else hosts.not_applicable()
    rehearsals = _rehearse(plan, left_out, () if found is None else found.rehearsals, hosts, display)
    check_room(folder, estimate(plan, rehearsals, _done(plan, folder), left_out).needed_bytes)
    provenance = collect_provenance(command.split(), plan.seed).as_dict()
    now = {} if hosts is None else hosts.provenance
    record = begin(folder, StudyRecord(plan, again, provenance, (command,), left_out, rehearsals, now))
    for name, host in now.items():
        changed = differences({"then": record.hosts[name], "now": host})
        if changed:
            display.say(f"host {name} is not as it was when the study began: {', '.join(changed)} changed")
    return record


def _rehearse(
    plan: Plan, left_out: dict[str, str], known: Sequence[Rehearsal], hosts: RayHosts | None, display: Display
) -> tuple[Rehearsal, ...]:
    missing = not_rehearsed([cell for cell in plan.cells if cell.name not in left_out], known)
    if not missing:
        return tuple(known)
    with display.steps("rehearsing", len(missing)) as advance:
        if hosts is not None:
            return hosts.rehearse(missing, known, lambda name: advance(name, None))
        return rehearse(plan, missing, known, lambda name: advance(name, None))


def _done(plan: Plan, folder: Path) -> dict[str, frozenset[int]]:
    return {cell.name: stored_repeats(folder / "cells" / cell.folder) for cell in plan.cells}


def _problems(plan: Plan, report: Report | None, result: RunResult, go_on: str) -> tuple[str, ...]:
    lines = [failure.words() for failure in result.failures]
    lines += [f"cell {name!r}: {reason}" for name, reason in result.given_up.items()]
    lines = list(dict.fromkeys(lines))
    if report is None:
        lines.append(f"no cell has two finished repeats to compare; continue with: {go_on}")
    else:
        lines += _unexpected(plan, report, result.stopped)
    if result.failures:
        lines.append(f"{len(result.failures)} failures; {go_on} tries those repeats again")
    return tuple(lines)


def _rule(until: str, confidence: float) -> StopRule:
    """Make the rule that a study file asks for."""
    wanted = parse_until(until)
    return RateRule(wanted.share, confidence) if wanted.what == "rate" else SigmaRule(wanted.share, confidence)


def _unexpected(plan: Plan, report: Report, stopped: Mapping[str, str]) -> list[str]:
    """Name the cells whose verdict is not what the study file expects; it expects nothing under another tolerance."""
    found = {cell.header.cell: cell for cell in report.cells if report.tolerance_m == plan.tolerance_m}
    lines = []
    for cell in plan.cells:
        result = found.get(cell.name)
        if cell.expect is None or result is None or (result.repeats < cell.repeats and cell.name not in stopped):
            continue
        if result.judgement.verdict is not cell.expect:
            lines.append(f"cell {cell.name!r}: {cell.expect.value} was expected, but it is {result.judgement.verdict.value}")
    return lines


def _command(study: StudySource, folder: Path, repeats: int | None, *, full: bool, real_time: bool) -> str:
    """Return the command line that does the same; a study that is in no file goes on from its folder."""
    if isinstance(study, Plan | Mapping):
        return shlex.join(["samepath", "resume", str(folder)])
    words = ["samepath", "study", os.fspath(study), "--out", str(folder)]
    words += [] if repeats is None else ["--repeats", str(repeats)]
    return shlex.join([*words, *(["--full"] if full else []), *(["--real-time"] if real_time else [])])
