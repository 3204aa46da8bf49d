"""Golden runs: written once into the user's repository, checked ever after, and a red check explains itself.

What a golden file promises is that *this run* comes out as *that run*, to the bit. So writing one from runs that differ among
themselves is refused: such a file would be red by chance. A check that finds a difference runs twice more before it speaks,
because «something changed» and «it does not repeat» send their readers to different places. What was set otherwise, which
version ran and on which machine stand in the file, and what is not the same now is told with the difference.
"""

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from samepath.core.digests import link
from samepath.core.errors import InputError, SamepathError, unknown
from samepath.core.files import regular
from samepath.core.units import format_length, parse_tolerance_m
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import AnalysisOptions, analyse_cell
from samepath.instrument.analysis.explain import explain_cell
from samepath.instrument.analysis.outcomes import classify
from samepath.instrument.execution.folder import STUDY_FILE, read_record, stored_cells
from samepath.instrument.golden_compare import LEAST_TOLERANCE_M, GoldenDifference, compare
from samepath.instrument.golden_file import Golden, GoldenRun, keep, read, write
from samepath.instrument.host.provenance import collect_provenance
from samepath.instrument.progress import Display, display_for
from samepath.instrument.report.words import clean
from samepath.instrument.study.records import Plan, Scalar
from samepath.instrument.subjects import (
    SubjectChoice,
    SubjectRunner,
    alone,
    cell_of,
    header_for,
    is_file_of_a_scenario,
    subjects_of,
    with_cell,
)
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.importers import TABLE_SUFFIXES, ImportOptions, load_cells
from samepath.instrument.traces.records import Header, Repeat
from samepath.scenarios.model import HEADER as AUTHORS_HEADER

GoldenSource = str | os.PathLike[str] | CellTrace | Plan
"""A scenario's name or file, a study (name, file or folder), logs, traces, a cell that was loaded, or a plan of one cell."""

REPEATS: Final = 3
# How often a run that differs is run in all before anybody is told: chance and change look alike in one run.
RUNS_WHEN_RED: Final = 3
MOST_REPEATS: Final = 1000
# What may change results, where it stands in the provenance, and what it is called.
_FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "samepath": ("samepath", "version"),
    "commit of samepath": ("samepath", "checkout", "commit"),
    "samepath changed since its commit": ("samepath", "checkout", "dirty"),
    "Python": ("python", "version"),
    "libraries": ("libraries",),
    "CPU": ("cpu", "model"),
    "instruction sets": ("cpu", "float_flags"),
    "architecture": ("operating_system", "machine"),
    "operating system": ("operating_system", "name"),
    "C library": ("operating_system", "libc"),
    "environment": ("environment",),
}


@dataclass(frozen=True)
class GoldenWritten:
    """What came of writing. ``changes`` say what is not as it was in the file before; ``refused`` why nothing was written."""

    path: Path
    golden: Golden | None
    written: bool
    changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    size_bytes: int = 0

    def words(self) -> tuple[str, ...]:
        """Say it in lines."""
        if self.golden is None:
            return (f"{self.path} was not written: the runs are not equal", *(f"  {line}" for line in self.refused))
        if not self.written:
            return (f"{self.path}: nothing changed, the file is left as it is",)
        lines = [f"{self.path}: {self.size_bytes / 1000:.1f} kB"]
        for run in self.golden.runs:
            rows = sum(len(actor.ticks) for actor in run.actors)
            within = "equal" if run.tolerance_m is None else f"within {format_length(run.tolerance_m)} of each other"
            runs = f"{run.equal_runs} runs, {within}" if run.equal_runs > 1 else "1 run"
            lines.append(f"{run.name}: digest {run.digest}, {len(run.actors)} actors, {rows} states, {runs}")
        return (*lines, *self.changes)

    def to_json(self) -> str:
        """Return one JSON object."""
        runs = () if self.golden is None else self.golden.runs
        return json.dumps(
            {
                "golden": str(self.path),
                "written": self.written,
                "runs": [{"name": run.name, "digest": run.digest, "equal_runs": run.equal_runs} for run in runs],
                "changes": self.changes,
                "refused": self.refused,
                "bytes": self.size_bytes,
            },
            indent=1,
        )


@dataclass(frozen=True)
class RunCheck:
    """One run of a golden file, checked: ``runs`` were run or read now, ``equal`` of them are the golden run to the bit.

    ``difference`` is that of the run that is described, the first that is not permitted, or else not equal. ``outcomes`` is how
    many different runs there are now; ``changed`` names settings, versions and files that are not what they were.
    """

    name: str
    verdict: Verdict
    tolerance_m: float | None
    runs: int
    equal: int
    outcomes: int
    golden_digest: str
    digest: str
    difference: GoldenDifference | None
    changed: tuple[str, ...] = ()
    apart: str = ""

    @property
    def passes(self) -> bool:
        """Is it the same, or permissibly near?"""
        return self.verdict.passes

    def words(self) -> tuple[str, ...]:
        """Say it in lines, the verdict first."""
        if self.difference is None:
            return (f"{self.name}: {self.verdict.value}, {_runs(self.runs)} now",)
        exact = f"{self.equal} of {_runs(self.runs)} equal to the bit"
        limit = "" if self.tolerance_m is None else f", tolerance {format_length(self.tolerance_m)}"
        # Without a tolerance none is exceeded: the runs are not the same, and that is all.
        verdict = "not the same" if self.tolerance_m is None else self.verdict.value
        # A scenario or setting that changed is the reason of all that follows.
        lines = [*self.changed, *self.difference.words(), self._chance()]
        return (f"{self.name}: {verdict}{limit}; {exact}", *(f"  {line}" for line in lines if line))

    def _chance(self) -> str:
        if self.runs < 2:
            return ""
        if self.outcomes == 1:
            return f"All {self.runs} runs of now are equal to each other: something changed, it is not chance."
        return (
            f"The {self.runs} runs of now are {self.outcomes} different ones: it does not repeat itself. {self.apart}".strip()
        )

    def as_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        plain: dict[str, object] = {**asdict(self), "verdict": self.verdict.value, "same": self.difference is None}
        return {**plain, "passes": self.passes, "words": self.words()}


@dataclass(frozen=True)
class GoldenCheck:
    """A golden file, checked. ``written_by`` says where it was written, ``machine`` what is not the same here."""

    path: Path
    runs: tuple[RunCheck, ...]
    written_by: str
    machine: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Is every bit the same?"""
        return all(run.difference is None for run in self.runs)

    @property
    def passes(self) -> bool:
        """Is everything the same, or permissibly near?"""
        return all(run.passes for run in self.runs)

    @property
    def verdict(self) -> Verdict:
        """The worst of the runs'."""
        return max((run.verdict for run in self.runs), key=lambda verdict: verdict.rank)

    def words(self) -> tuple[str, ...]:
        """Say it in lines; of a check that is the same, one for each run."""
        lines = [line for run in self.runs for line in run.words()]
        if not self.same:
            lines.append(f"Written by {self.written_by}.")
            lines.append(f"Not the same here: {'; '.join(self.machine)}." if self.machine else "The machine is the same here.")
        if not self.passes:
            lines.append(f"If the change is meant: samepath golden write {self.path} --force ...")
        return tuple(lines)

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(
            {
                "golden": str(self.path),
                "same": self.same,
                "passes": self.passes,
                "verdict": self.verdict.value,
                "runs": [run.as_dict() for run in self.runs],
                "written_by": self.written_by,
                "machine": self.machine,
            },
            indent=1,
        )


def golden_junit(check: GoldenCheck) -> str:
    """Return a check as JUnit XML: a test case for each run, with its figures."""
    failures = sum(not run.passes for run in check.runs)
    counts = {"name": "samepath golden", "tests": str(len(check.runs)), "failures": str(failures), "errors": "0"}
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {**counts, "name": clean(str(check.path))})
    for run in check.runs:
        case = ET.SubElement(suite, "testcase", {"classname": "samepath.golden", "name": clean(run.name)})
        apart_m = None if run.difference is None else run.difference.max_apart_m
        figures = {"verdict": run.verdict.value, "repeats": run.runs, "equal": run.equal, "outcomes": run.outcomes}
        figures |= {"digest": run.digest, "golden_digest": run.golden_digest}
        figures |= {} if apart_m is None else {"max_deviation_m": repr(apart_m)}
        properties = ET.SubElement(case, "properties")
        for name, value in figures.items():
            ET.SubElement(properties, "property", {"name": name, "value": str(value)})
        if not run.passes:
            told = {"type": run.verdict.value, "message": clean(run.words()[min(1, len(run.words()) - 1)].strip())}
            ET.SubElement(case, "failure", told).text = clean("\n".join(run.words()))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def write_golden(
    path: str | os.PathLike[str],
    *sources: GoldenSource,
    simulator: str | None = None,
    cell: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    seed: int | None = None,
    duration_s: float | None = None,
    repeats: int = REPEATS,
    tolerance: str | float | None = None,
    force: bool = False,
    progress: bool = True,
) -> GoldenWritten:
    """Write what runs are now into a small file, to be checked ever after with :func:`check_golden`.

    Scenarios and study files are run ``repeats`` times in fresh processes; a study's folder, logs and traces are taken as they
    are. Runs that differ are refused, unless they stay within ``tolerance``, by which the file is then checked. A file that is
    there is replaced with ``force`` only.
    """
    path = Path(path)
    limit_m = None if tolerance is None else _tolerance_m(tolerance)
    _check_repeats(repeats)
    before = _file_before(path, force=force)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} is not there: make it, or choose another place")
    choice = SubjectChoice(simulator, cell, dict(settings or {}), seed, duration_s)
    found = _gather(sources, choice, repeats, display_for(progress))
    runs, refused = [], []
    for candidate in found:
        differ = _differ(candidate.cell, limit_m)
        if differ:
            refused += [f"{candidate.name}: {line}" for line in differ]
            continue
        runs.append(candidate.keep(path, limit_m))
    if refused:
        hint = "A golden file of these would be red by chance: make them repeat, or write it with --tolerance."
        return GoldenWritten(path, None, written=False, refused=(*refused, hint))
    golden = Golden(tuple(runs), _provenance())
    changes = _changes(before, golden, {candidate.name: candidate.cell for candidate in found})
    if isinstance(before, Golden) and before.content == golden.content:
        return GoldenWritten(path, golden, written=False, size_bytes=path.stat().st_size)
    write(path, golden)
    return GoldenWritten(path, golden, written=True, changes=changes, size_bytes=path.stat().st_size)


def check_golden(
    path: str | os.PathLike[str],
    *sources: GoldenSource,
    repeats: int | None = None,
    tolerance: str | float | None = None,
    progress: bool = True,
) -> GoldenCheck:
    """Run what a golden file holds again, or take ``sources`` (logs, traces) for it, and say how that differs.

    Without ``repeats`` each run is run once, and twice more where it differs. ``tolerance`` permits that much distance, beside
    the exact answer; without it the file's own holds, if it was written with one.
    """
    path = Path(path)
    limit_m = None if tolerance is None else _tolerance_m(tolerance)
    if repeats is not None:
        _check_repeats(repeats)
    golden = read(path)
    display = display_for(progress)
    given = _sources_of(golden, sources) if sources else {}
    checked = []
    with display.steps("checking", len(golden.runs)) as advance:
        for run in golden.runs:
            cell, digest = (given[run.name], "") if sources else _run_again(run, path, repeats)
            checked.append(_check(run, cell, digest, run.tolerance_m if limit_m is None else limit_m))
            advance(run.name, None)
    here = _provenance()
    return GoldenCheck(path, tuple(checked), _writer(golden.provenance), _not_the_same(golden.provenance, here))


def _check(run: GoldenRun, cell: CellTrace, scenario_digest: str, tolerance_m: float | None) -> RunCheck:
    outcomes = classify(cell)
    differences = {outcome.digest: compare(run, cell.load(outcome.repeats[0])) for outcome in outcomes}
    equal = sum(len(outcome.repeats) for outcome in outcomes if differences[outcome.digest] is None)
    same = Verdict.BIT_IDENTICAL if run.header.lossless and cell.header.lossless else Verdict.IDENTICAL_AT_RESOLUTION
    verdicts = {digest: same if found is None else found.verdict(tolerance_m) for digest, found in differences.items()}
    # The worst run is told about; of several, the one that most runs are.
    told = max(outcomes, key=lambda outcome: (verdicts[outcome.digest].rank, len(outcome.repeats), -outcome.repeats[0]))
    apart = ""
    if len(outcomes) > 1:
        explanation = explain_cell(cell)
        first = explanation.partings[0].parting if explanation.partings else None
        where = "" if first is None else f"repeat {first.b} parts from repeat {first.a} at tick {first.tick}, "
        apart = f"Among themselves: {where}cause: {explanation.cause}."
    return RunCheck(
        name=run.name,
        verdict=verdicts[told.digest],
        tolerance_m=tolerance_m,
        runs=len(cell.runs),
        equal=equal,
        outcomes=len(outcomes),
        golden_digest=run.digest,
        digest=told.digest,
        difference=differences[told.digest],
        changed=_changed(run, cell.header, scenario_digest),
        apart=apart,
    )


def _changed(run: GoldenRun, now: Header, scenario_digest: str) -> tuple[str, ...]:
    """Name what went into the run and is not what it was."""
    before = run.header
    lines = []
    if scenario_digest and scenario_digest != run.scenario_digest:
        lines.append(f"The scenario file {now.scenario} is not what it was when the golden file was written.")
    pairs = {"simulator": (before.simulator, now.simulator), "its version": (before.simulator_version, now.simulator_version)}
    pairs["the step"] = (f"{before.step_s:g} s", f"{now.step_s:g} s")
    lines += [f"Changed: {name} is {here}, was {then or 'not said'}." for name, (then, here) in pairs.items() if then != here]
    for what, then, here in (("Setting", before.settings, now.settings), ("Condition", before.condition, now.condition)):
        for name in sorted({*then, *here}):
            if then.get(name) != here.get(name):
                told = [repr(side[name]) if name in side else "not there" for side in (here, then)]
                lines.append(f"{what} {name} is {told[0]}, was {told[1]}.")
    return tuple(lines)


def _run_again(run: GoldenRun, path: Path, repeats: int | None) -> tuple[CellTrace, str]:
    """Run what a golden run was made by; where it differs, often enough to tell a change from chance."""
    if run.plan is None:
        raise InputError(
            f"{path}: {run.name} came from a log or a trace, which samepath cannot run: "
            f"samepath golden check {path} -- LOG compares another with it"
        )
    subject = run.plan
    scenario = cell_of(subject).scenario
    digest = ""
    if is_file_of_a_scenario(scenario):
        found = path.parent / scenario
        if not found.is_file():
            raise InputError(f"{path}: {run.name} is played from {found}, which is not there: restore it")
        subject, digest = with_cell(subject, scenario=os.path.relpath(found)), _file_digest(found)
    header = header_for(subject)
    with SubjectRunner(subject.execution) as runner:
        done = list(runner.run(subject, range(repeats or 1)))
        if repeats is None and done[0].digest != run.digest:
            done += list(runner.run(subject, range(1, RUNS_WHEN_RED)))
    return MemoryCell(header, done), digest


def _sources_of(golden: Golden, sources: Sequence[GoldenSource]) -> dict[str, CellTrace]:
    """Say which of the given cells each run is compared with: by name, or the only one with the only one."""
    cells = []
    for source in sources:
        if isinstance(source, Plan):
            raise InputError("a check compares with logs or traces: to run again, give nothing but the golden file")
        cells += [source] if isinstance(source, CellTrace) else load_cells([Path(source)], ImportOptions(accept_one_run=True))
    if len(cells) == len(golden.runs) == 1:
        return {golden.runs[0].name: cells[0]}
    known = {cell.header.cell: cell for cell in cells}
    for run in golden.runs:
        if run.name not in known:
            raise InputError(f"none of the given cells is called {run.name!r}: {', '.join(sorted(known))} came")
    return {run.name: known[run.name] for run in golden.runs}


@dataclass(frozen=True)
class _Found:
    """A cell to make a golden run of; ``plan`` runs it again, if there is one."""

    name: str
    cell: CellTrace
    plan: Plan | None = None

    def keep(self, path: Path, tolerance_m: float | None) -> GoldenRun:
        plan, digest = self.plan, ""
        file = Path(cell_of(plan).scenario) if plan is not None else Path()
        if plan is not None and is_file_of_a_scenario(file.name) and not file.is_file():
            plan = None  # the folder of a study that was run elsewhere: its runs can be compared, not run again
        elif plan is not None and is_file_of_a_scenario(file.name):
            digest = _file_digest(file)
            # From the golden file on: the two lie in one repository, which is somewhere else on the next machine.
            plan = with_cell(plan, scenario=Path(os.path.relpath(file, path.parent)).as_posix())
        usual = classify(self.cell)[0]
        return keep(
            self.name,
            self.cell.header,
            self.cell.load(usual.repeats[0]),
            equal_runs=len(self.cell.runs),
            tolerance_m=tolerance_m,
            plan=plan,
            scenario_digest=digest,
        )


def _gather(sources: Sequence[GoldenSource], choice: SubjectChoice, repeats: int, display: Display) -> list[_Found]:
    if not sources:
        raise InputError("a scenario, a study, a log or a trace was wanted to make a golden file of, but none came")
    found: list[_Found] = []
    subjects: list[Plan] = []
    for source in sources:
        if isinstance(source, CellTrace):
            found.append(_Found(source.header.cell, source))
        elif isinstance(source, Plan):
            subjects += [alone(source, cell) for cell in source.cells]
        elif _is_trace(Path(source), choice):
            found += _from_traces(Path(source), choice)
        else:
            subjects += subjects_of(os.fspath(source), choice)
    with display.steps("running", len(subjects)) as advance:
        for subject in subjects:
            with SubjectRunner(subject.execution) as runner:
                done: Iterable[Repeat] = list(runner.run(subject, range(repeats)))
            found.append(_Found(cell_of(subject).name, MemoryCell(header_for(subject), done), subject))
            advance(found[-1].name, None)
    return _named_apart(found)


def _named_apart(found: list[_Found]) -> list[_Found]:
    """Two scenarios on one simulator are two cells of one name in two studies: number them."""
    taken: dict[str, int] = {}
    named = []
    for candidate in found:
        taken[candidate.name] = taken.get(candidate.name, 0) + 1
        named.append(
            candidate if taken[candidate.name] == 1 else replace(candidate, name=f"{candidate.name} ({taken[candidate.name]})")
        )
    return named


def _is_trace(path: Path, choice: SubjectChoice) -> bool:
    """Is this a log or a trace, and not something to be run?"""
    if choice.simulator is not None or not path.exists():
        return False
    if path.is_dir():
        return True
    if path.suffix not in TABLE_SUFFIXES:
        return path.suffix not in (".yaml", ".yml")
    # The paper authors' scenarios are tables too, and begin with these words.
    with regular(path).open("rb") as file:
        first = file.readline(4096).decode("utf-8", "replace")
    return [word.strip() for word in first.split(",")] != AUTHORS_HEADER


def _from_traces(path: Path, choice: SubjectChoice) -> list[_Found]:
    plans: dict[str, Plan] = {}
    if (path / STUDY_FILE).is_file():
        plan = read_record(path).plan
        cells: list[CellTrace] = [*stored_cells(plan, path)]
        plans = {cell.name: alone(plan, cell) for cell in plan.cells}
    else:
        cells = load_cells([path], ImportOptions(accept_one_run=True))
    names = [cell.header.cell for cell in cells]
    if choice.cell is not None and choice.cell not in names:
        raise unknown(f"cell of {path}", choice.cell, names)
    return [
        _Found(cell.header.cell, cell, plans.get(cell.header.cell))
        for cell in cells
        if choice.cell in (None, cell.header.cell) and cell.runs
    ]


def _differ(cell: CellTrace, tolerance_m: float | None) -> list[str]:
    """Say how the runs of a cell differ; nothing where they are equal, or near enough."""
    outcomes = classify(cell)
    if len(outcomes) == 1:
        return []
    analysis = analyse_cell(cell, AnalysisOptions(tolerance_m=tolerance_m or 0.0))
    if tolerance_m is not None and analysis.judgement.verdict.passes:
        return []
    lines = [f"{len(outcomes)} different outcomes in {len(cell.runs)} runs"]
    if analysis.first_divergence is not None:
        lines.append(analysis.first_divergence.words())
    return lines


def _changes(before: Golden | str, golden: Golden, cells: Mapping[str, CellTrace]) -> tuple[str, ...]:
    """Say what is not as it was in the file that is replaced."""
    if isinstance(before, str):
        return (before,) if before else ()
    old, new = ({run.name: run for run in file.runs} for file in (before, golden))
    lines = []
    for name in dict.fromkeys((*old, *new)):
        if name not in new or name not in old:
            lines.append(f"{name}: {'no more in it' if name in old else 'new'}")
            continue
        usual = cells[name].load(classify(cells[name])[0].repeats[0])
        difference = compare(old[name], usual)
        lines += [f"{name}: changed"] if difference is not None else [f"{name}: the same run"]
        lines += [] if difference is None else [f"  {line}" for line in difference.words()]
        lines += [f"  {line}" for line in _changed(old[name], new[name].header, new[name].scenario_digest)]
    return tuple(lines)


def _file_before(path: Path, *, force: bool) -> Golden | str:
    """Read the file that is to be replaced; a text where there is none that can be read."""
    if not path.exists():
        return ""
    if not force:
        raise InputError(f"{path} is there already: samepath golden check tells how runs differ from it, --force replaces it")
    try:
        return read(path)
    except SamepathError as error:
        return f"replaced: {error}"


def _check_repeats(repeats: int) -> None:
    if not 1 <= repeats <= MOST_REPEATS:
        raise InputError(f"1 to {MOST_REPEATS} repeats were wanted, but {repeats} came")


def _tolerance_m(tolerance: str | float) -> float:
    limit_m = parse_tolerance_m(str(tolerance))
    if limit_m < LEAST_TOLERANCE_M:
        least = format_length(LEAST_TOLERANCE_M)
        raise InputError(
            f"a tolerance of at least {least} was wanted, but {tolerance} came: a golden file keeps paths to half of that; "
            "leave it out to compare bits"
        )
    return limit_m


def _file_digest(path: Path) -> str:
    try:
        return link(b"", path.read_bytes()).hex()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _provenance() -> dict[str, object]:
    """Describe this machine: what may change results, and no more; a file in a repository is read by everybody."""
    found = collect_provenance([], None).as_dict()
    kept: dict[str, object] = {"date_utc": found["date_utc"]}
    for place in _FACTS.values():
        here = kept
        for name in place[:-1]:
            inner = here.setdefault(name, {})
            here = inner if isinstance(inner, dict) else {}
        here[place[-1]] = _at(found, place)
    return kept


def _at(record: object, place: Sequence[str]) -> object:
    for name in place:
        record = record.get(name, "unknown") if isinstance(record, Mapping) else "unknown"
    return record


def _writer(provenance: Mapping[str, object]) -> str:
    version = _at(provenance, ("samepath", "version"))
    commit = str(_at(provenance, ("samepath", "checkout", "commit")))
    changed = " and changes of its own" if _at(provenance, ("samepath", "checkout", "dirty")) is True else ""
    code = f"samepath {version}" + ("" if commit == "unknown" else f" ({commit[:10]}{changed})")
    words = [code, f"Python {_at(provenance, ('python', 'version'))}", str(_at(provenance, ("cpu", "model")))]
    return ", ".join([*words, str(_at(provenance, ("operating_system", "libc"))), str(_at(provenance, ("date_utc",)))])


def _not_the_same(then: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """Name the facts that differ, with both sides; of mappings, only what differs in them."""
    lines = []
    for name, place in _FACTS.items():
        before, here = _at(then, place), _at(now, place)
        if before == here:
            continue
        if isinstance(before, Mapping) and isinstance(here, Mapping):
            keys = [key for key in sorted({*before, *here}) if before.get(key) != here.get(key)]
            told = [f"{key} {here.get(key, 'not there')} instead of {before.get(key, 'not there')}" for key in keys[:4]]
            lines.append(f"{name}: {', '.join(told)}")
        else:
            lines.append(f"{name} {here} instead of {before}")
    return tuple(lines)


def _runs(count: int) -> str:
    return f"{count} run" + ("" if count == 1 else "s")
