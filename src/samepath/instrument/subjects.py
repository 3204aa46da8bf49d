"""What golden, bisect and shrink run: single cells, found by the name of a scenario or a study, run as often as is asked.

A *subject* is a plan of exactly one cell: simulator, scenario, settings, conditions, seed, duration, isolation. So it can be
run with the very code that runs studies (fresh processes, loads that are held, a watchdog), goes through JSON unchanged, and
has the header that a study's traces would have.
"""

import json
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from samepath.core.documents import read_yaml
from samepath.core.errors import InputError, SimulatorError, StudyError, unknown
from samepath.core.files import regular
from samepath.engines.interface import SCENARIO_FILES
from samepath.instrument.execution.folder import STUDY_FILE, read_record
from samepath.instrument.execution.hosts import LocalHost, RepeatFailed, Work, real_isolation
from samepath.instrument.execution.installed import installed
from samepath.instrument.execution.job import job_of
from samepath.instrument.execution.rehearsal import LONGEST_S, check_plan, header_of, not_applicable
from samepath.instrument.study.plan import built_in_studies, load_plan, make_plan
from samepath.instrument.study.records import Execution, Isolation, Plan, PlannedCell, Scalar
from samepath.instrument.study.spec import StudySpec
from samepath.instrument.traces.records import Header, Repeat
from samepath.scenarios.model import built_in_scenarios

DEFAULT_SIMULATOR: Final = "samepath"
# A scenario or study file is written by people: one that is larger is something else.
_LARGEST_FILE_BYTES: Final = 1 << 24
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class SubjectChoice:
    """Which of the things that a name may mean: the simulator of a scenario, the cell of a study, what is set otherwise."""

    simulator: str | None = None
    cell: str | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    seed: int | None = None
    duration_s: float | None = None


def subjects_of(what: str, choice: SubjectChoice | None = None) -> tuple[Plan, ...]:
    """Return a subject for every cell that is meant: by a scenario, a study file, a built-in study or a study's folder."""
    choice = choice or SubjectChoice()
    plan = _plan(what, choice)
    if choice.seed is not None:
        plan = replace(plan, seed=choice.seed)
    if choice.duration_s is not None:
        plan = replace(plan, duration_s=choice.duration_s)
    cells = plan.cells if choice.cell is None else (_cell(plan, choice.cell, what),)
    return tuple(alone(plan, replace(cell, settings={**cell.settings, **choice.settings})) for cell in cells)


def subject_of(what: str, choice: SubjectChoice | None = None) -> Plan:
    """Return the one subject that is meant; a study of several cells is answered with their names."""
    found = subjects_of(what, choice)
    if len(found) > 1:
        names = [plan.cells[0].name for plan in found]
        shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
        raise StudyError(f"{what} has {len(names)} cells: choose one with --cell: {shown}")
    return found[0]


def alone(plan: Plan, cell: PlannedCell) -> Plan:
    """Return a plan of this one cell."""
    return replace(plan, cells=(cell,), factors=(), slots=(), notes=())


def cell_of(subject: Plan) -> PlannedCell:
    """Return the cell of a subject."""
    (cell,) = subject.cells
    return cell


def with_cell(subject: Plan, **changes: object) -> Plan:
    """Return a subject whose cell is another in some fields."""
    return replace(subject, cells=(replace(cell_of(subject), **changes),))  # type: ignore[arg-type]


def subject_words(subject: Plan) -> str:
    """Name a subject as the reader knows it: ``table1-test2 on samepath``."""
    cell = cell_of(subject)
    return f"{cell.scenario} on {cell.simulator}"


def is_file_of_a_scenario(name: str) -> bool:
    """Is a cell's scenario a file, whose content may change, and not a name?"""
    return name.endswith(SCENARIO_FILES)


def read_scalar(text: str) -> Scalar:
    """Read a setting's value as a study file has it: 4 and 0.5 are numbers, true is a switch, anything else is a word."""
    value = read_yaml(f"value: {text}", "a setting", "setting", {"value": None}).get("value") if text.strip() else ""
    return value if isinstance(value, str | float | int | bool) else text


def _plan(what: str, choice: SubjectChoice) -> Plan:
    path = Path(what)
    # A simulator is named for a scenario only: studies say their own.
    if choice.simulator is not None:
        return _scenario_plan(what, choice.simulator)
    if what in built_in_studies():
        return load_plan(what)
    if (path / STUDY_FILE).is_file():
        return read_record(path).plan
    if path.is_file():
        # Both are YAML; a scenario has actors, a study has none.
        if path.suffix in (".yaml", ".yml") and "actors" not in _keys(path):
            return load_plan(what)
        return _scenario_plan(what, DEFAULT_SIMULATOR)
    scenarios = built_in_scenarios()
    if what not in scenarios:
        if regular(path).suffix in SCENARIO_FILES or path.is_dir():
            kind = "holds no study" if path.is_dir() else "does not exist"
            raise InputError(f"{what} {kind}: a scenario, a study or the folder of one was wanted")
        raise unknown("scenario or study", what, [*scenarios, *built_in_studies()])
    return _scenario_plan(what, DEFAULT_SIMULATOR)


def _keys(path: Path) -> Mapping[str, object]:
    try:
        if regular(path).stat().st_size > _LARGEST_FILE_BYTES:
            raise InputError(f"{path}: a scenario or study was wanted, but the file has {path.stat().st_size} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return read_yaml(text, str(path), "scenario or study", StudySpec.model_fields)


def _scenario_plan(scenario: str, simulator: str) -> Plan:
    name = _NOT_IN_A_NAME.sub("-", Path(scenario).stem).strip("-.")[:80] or "scenario"
    study = {"name": name, "design": {"simulators": simulator, "scenarios": scenario, "repeats": 2}}
    plan = make_plan(json.dumps(study), f"scenario {scenario}")
    words = scenario if not is_file_of_a_scenario(scenario) else Path(scenario).stem
    return with_cell(plan, name=f"{words} on {simulator}")


def _cell(plan: Plan, name: str, what: str) -> PlannedCell:
    for cell in plan.cells:
        if name in (cell.name, cell.folder):
            return cell
    raise unknown(f"cell of {what}", name, [cell.name for cell in plan.cells])


class SubjectRunner:
    """Runs repeats of subjects on this machine, each in a fresh process unless a subject asks for another isolation.

    ``path`` is looked through for modules before everything else: the checkout of a controller under test. Workers that were
    forked with one path must not serve another, so that a runner has one path for its whole life.
    """

    def __init__(self, execution: Execution | None = None, path: Sequence[str] = ()) -> None:
        execution = execution or Execution()
        self._host = LocalHost(execution.load_tool, execution.settle_s)
        self._path = (*path, *sys.path)
        self._checked: set[str] = set()

    def __enter__(self) -> Self:
        self._host.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._host.__exit__(kind, error, trace)

    def run(self, subject: Plan, numbers: Sequence[int]) -> Generator[Repeat]:
        """Run repeats one after the other and yield each; closing the generator ends what runs.

        Raises a line that names the subject where it cannot be run here, or where a repeat fails.
        """
        self._check(subject)
        cell = cell_of(subject)
        isolation = real_isolation(subject.isolation_of(cell), cell.condition)
        many = {Isolation.BATCH: subject.execution.repeats_per_process, Isolation.INLINE: len(numbers)}
        work = Work(
            job=replace(job_of(subject, cell), path=self._path),
            isolation=isolation,
            repeats_per_process=many.get(isolation, 1),
            watchdog_s=subject.execution.watchdog_s or LONGEST_S,
        )
        self._host.hold(work)
        if cell.condition.get("controller") == "replayed":
            work = replace(work, job=replace(work.job, commands=self._host.record(work)))
        results = self._host.run(work, numbers)
        try:
            for result in results:
                if isinstance(result, RepeatFailed):
                    raise SimulatorError(f"{subject_words(subject)}, repeat {result.number}: {result.reason}")
                yield result.repeat
        finally:
            results.close()

    def _check(self, subject: Plan) -> None:
        """Refuse what cannot be run, once for each subject: the same one is asked for again and again."""
        if subject.fingerprint in self._checked:
            return
        check_plan(subject)
        reason = not_applicable(subject).get(cell_of(subject).name)
        if reason is not None:
            raise StudyError(f"{subject_words(subject)} cannot be run here: {reason}")
        self._checked.add(subject.fingerprint)


def header_for(subject: Plan) -> Header:
    """Return the header that traces of a subject have."""
    cell = cell_of(subject)
    return header_of(subject, cell, installed(cell).info)
