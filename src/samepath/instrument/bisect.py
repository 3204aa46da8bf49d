"""Bisect: between two settings, two sets of settings or two commits of a controller, the first that changes the outcome.

An outcome is compared with that of the *reference*, the first of the two: by its digest (every bit), by how the run ended (who
collided, why it was over), or by a tolerance. Every point is run several times: one whose runs are not all like the reference
counts as changed, also where it merely stopped to repeat itself, because the reference did repeat. That a point is only now and
then unlike the reference may be missed; the words say how often is left possible.

Runs are kept in a folder. A search that was interrupted is asked again by the same command, and finds its runs there; one that
was finished begins anew, because what it ran may have changed since.

Commits of somebody's repository, each in a folder of its own, without touching that repository.

A shared clone (it borrows the objects and copies none) stands between: the user's folder is only ever read. Each commit gets a
work tree of its own rather than one that is switched: Python takes a compiled file for current if time and size of its source
fit, and two commits within a second may have both.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from samepath.core.digests import fingerprint, link
from samepath.core.documents import read_yaml
from samepath.core.errors import InputError, SamepathError, SimulatorError, StudyError, printable
from samepath.core.files import make_folder, regular, write_text_atomically
from samepath.core.units import format_length, parse_tolerance_m
from samepath.engines import registry
from samepath.instrument import subjects
from samepath.instrument.analysis.outcomes import pair_words
from samepath.instrument.analysis.verdict import clopper_pearson
from samepath.instrument.progress import Display, display_for
from samepath.instrument.search import SearchFolder, ending_of, farthest_m, first_change, minimal, parting_words, search_folder
from samepath.instrument.study.records import Plan, Scalar
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.importers import load_cells
from samepath.instrument.traces.records import Header, Repeat
from samepath.instrument.traces.store import HEADER_FILE, StoredCell, StoreWriter, store_repeats, stored_repeats

_LONGEST_S: Final = 300.0


@dataclass(frozen=True)
class Commit:
    """A commit: its full name and the first line of its message."""

    sha: str
    subject: str

    def words(self) -> str:
        return f"{self.sha[:12]} «{self.subject}»"


class CommitCheckouts:
    """Commits of the repository at ``folder``; :meth:`folder_of` makes work trees, which leaving the context removes."""

    def __init__(self, folder: Path) -> None:
        self._source = folder
        self._made: dict[str, Path] = {}
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder: the repository of the controller was wanted")
        self._git("rev-parse", "--git-dir")
        self._temporary = tempfile.TemporaryDirectory(prefix="samepath-bisect-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._temporary.cleanup()

    def commit(self, name: str) -> Commit:
        """Return the commit that a name, tag or number of the user's stands for."""
        # Before a name: what begins with a dash would be an option.
        sha = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", missing=name).strip()
        return Commit(sha, printable(self._git("show", "-s", "--format=%s", sha).strip())[:100])

    def ends(self, span: str) -> tuple[Commit, Commit]:
        """Read GOOD..BAD; the first must come before the second."""
        good, dots, bad = span.partition("..")
        if not (good and dots and bad) or bad.startswith("."):
            raise InputError(f"commits like v1.0..main were wanted, but {span!r} came")
        first, last = self.commit(good), self.commit(bad)
        if first.sha == last.sha:
            raise InputError(f"{good} and {bad} are the same commit: there is nothing between them")
        count = int(self._git("rev-list", "--count", f"{last.sha}..{first.sha}").strip())
        if count:
            raise InputError(f"{good} is not before {bad}: it has {count} commits that {bad} has not; give the older one first")
        return first, last

    def between(self, bad: str, good: Collection[str]) -> list[str]:
        """Return the commits that may be the first bad one, the one that halves them best first, ``bad`` itself last."""
        lines = self._git("rev-list", "--bisect-all", bad, *(f"^{sha}" for sha in good)).splitlines()
        found = [line.split()[0] for line in lines]
        return [*(sha for sha in found if sha != bad), bad]

    def folder_of(self, sha: str) -> Path:
        """Return a folder with the files of a commit; made when first asked for."""
        if sha not in self._made:
            clone, tree = (Path(self._temporary.name) / name for name in ("clone", sha))
            if not clone.exists():
                source = str(self._source.resolve())
                self._run(["clone", "--quiet", "--shared", "--no-checkout", "--no-tags", source, str(clone)])
            self._run(["-C", str(clone), "worktree", "add", "--quiet", "--detach", str(tree), sha])
            self._made[sha] = tree
        return self._made[sha]

    def _git(self, *words: str, missing: str = "") -> str:
        return self._run(["-C", str(self._source), *words], missing)

    def _run(self, words: Sequence[str], missing: str = "") -> str:
        # Inside a hook GIT_DIR and its like name another repository; hooks of the user's own are not ours to run.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *words]
        try:
            done = subprocess.run(  # noqa: S603 - git, with words of ours and names that git itself has checked
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LONGEST_S,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError as error:
            raise InputError("git was wanted to look at commits, but it is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise InputError(f"git took longer than {_LONGEST_S:g} s in {self._source}") from error
        if done.returncode:
            if missing:
                raise InputError(f"{self._source} has no commit called {missing!r}")
            reason = (done.stderr.strip().splitlines() or ["without a word"])[-1]
            raise InputError(f"git failed in {self._source}: {printable(reason)[:200]}")
        return done.stdout


REPEATS: Final = 2
STEPS: Final = 1024
MOST_STEPS: Final = 1_000_000
COMMAND_S: Final = 600.0
MOST_REPEATS: Final = 10_000
# Where a command writes logs, if it does.
OUT_VARIABLE: Final = "SAMEPATH_OUT"
# As for git bisect run: this commit cannot be judged, look at another.
SKIP: Final = 125
_CONFIDENCE: Final = 0.95


class Yardstick(StrEnum):
    """By what outcomes are compared."""

    DIGEST = "digest"
    ENDING = "ending"
    TOLERANCE = "tolerance"


@dataclass(frozen=True)
class BisectPoint:
    """A point that was looked at. ``same``: all its runs are like the reference's; None where it could not be run."""

    name: str
    same: bool | None
    runs: int
    outcomes: tuple[str, ...]
    reason: str = ""

    def words(self) -> str:
        if self.same is None:
            return f"{self.name}: cannot be run, {self.reason}"
        return f"{self.name}: {'same' if self.same else 'changed'} ({', '.join(self.outcomes)})"


@dataclass(frozen=True)
class BisectResult:
    """What was found. ``changed`` is the first point, or the commits or the settings, by which the outcome changes.

    ``found`` False: both ends have the same outcome. ``last_same`` is the point right before. ``parting`` says where the runs
    of the two part. ``notes`` are what the search cannot tell.
    """

    question: str
    found: bool
    last_same: str
    changed: tuple[str, ...]
    parting: str
    points: tuple[BisectPoint, ...]
    notes: tuple[str, ...]
    folder: Path

    def words(self) -> tuple[str, ...]:
        """Say it in lines, the answer first."""
        tried = f"{len(self.points)} points, {sum(point.runs for point in self.points)} runs"
        lines = [self.question]
        if not self.found:
            lines.append(f"Nothing to find: {self.points[0].name} and {self.points[1].name} have the same outcome.")
        elif len(self.changed) == 1:
            lines.append(f"{self.changed[0]} changes the outcome; {self.last_same} does not.")
        else:
            lines.append(f"{self.last_same}: the outcome changes with {', '.join(self.changed)}.")
        lines += [f"  {self.parting}"] if self.parting else []
        lines += [f"  {point.words()}" for point in self.points]
        return (*lines, *self.notes, f"{tried}; the runs are in {self.folder}")

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps({**asdict(self), "folder": str(self.folder), "words": self.words()}, indent=1)


@dataclass(frozen=True)
class _Runs:
    """The runs of a point: traces, or, where a command wrote none, a text for each run that stands for all it did."""

    name: str
    cell: CellTrace | None = None
    texts: tuple[str, ...] = ()

    def each(self) -> Iterator[Repeat | str]:
        if self.cell is None:
            yield from self.texts
        else:
            for run in self.cell.runs:
                yield self.cell.load(run.repeat)


@dataclass(frozen=True)
class _Comparison:
    """How a run is held against the reference's first."""

    by: Yardstick
    tolerance_m: float | None

    def alike(self, a: Repeat | str, b: Repeat | str) -> bool:
        if isinstance(a, str) or isinstance(b, str):
            return isinstance(a, str) and a == b
        if self.by is Yardstick.DIGEST:
            return a.digest == b.digest
        if self.by is Yardstick.ENDING:
            return ending_of(a) == ending_of(b)
        apart_m = farthest_m(a, b)
        return apart_m is not None and apart_m <= (self.tolerance_m or 0.0)

    def outcome(self, run: Repeat | str) -> str:
        if isinstance(run, str):
            return run
        if self.by is Yardstick.DIGEST:
            return run.digest[:12]
        pairs, reason, completed = ending_of(run)
        return f"collisions {pair_words(pairs)}, ended by {reason!r}" + ("" if completed else ", cut off")

    def words(self) -> str:
        return f"within {format_length(self.tolerance_m)}" if self.tolerance_m is not None else f"by {self.by.value}"


def bisect(
    what: str | None,
    *,
    setting: str | None = None,
    settings: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    commits: str | None = None,
    controller_repo: str | os.PathLike[str] | None = None,
    command: Sequence[str] = (),
    by: str = Yardstick.DIGEST,
    tolerance: str | float | None = None,
    repeats: int = REPEATS,
    steps: int | None = None,
    scan: bool = False,
    timeout_s: float = COMMAND_S,
    simulator: str | None = None,
    cell: str | None = None,
    fixed: Mapping[str, Scalar] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> BisectResult:
    """Find what changes the outcome of ``what``, a scenario or the cell of a study.

    One of three: ``setting`` ``"name=A..B"`` walks a number from A to B in ``steps`` (``scan`` looks at every one);
    ``settings`` are two YAML files, of whose differences the smallest set that changes the outcome is found; ``commits``
    ``"GOOD..BAD"`` of the repository ``controller_repo``, with each commit first on the module path, or running ``command``
    inside of it. ``fixed`` are settings held at all points.
    """
    ways = [way for way in (setting, settings, commits) if way is not None]
    if len(ways) != 1:
        raise InputError("one of --setting NAME=A..B, --settings A.yaml B.yaml and --commits GOOD..BAD was wanted")
    if not 1 <= repeats <= MOST_REPEATS:
        raise InputError(f"1 to {MOST_REPEATS} repeats were wanted, but {repeats} came")
    comparison = _comparison(by, tolerance)
    subject = None
    if what is not None:
        subject = subjects.subject_of(what, subjects.SubjectChoice(simulator=simulator, cell=cell, settings=dict(fixed or {})))
    if subject is None and not (commits and command):
        raise InputError("a scenario or a study was wanted to run; only --commits with a command needs none")
    if command and not commits:
        raise InputError("a command is run in commits: give --commits GOOD..BAD, or leave it out")
    name = "command" if subject is None else subject.name
    folder = Path("runs") / f"bisect-{name}" if out is None else Path(out)
    display = display_for(progress)
    held = _held(subject) | {"by": comparison.words(), "repeats": repeats}
    if setting is not None and subject is not None:
        grid = _Grid.read(setting, steps)
        with _memory(folder, {**held, "setting": setting, "steps": len(grid.values) - 1}) as memory:
            search = _Search(memory, comparison, repeats, display, promised=_promised(subject))
            return _bisect_setting(search, subject, grid, scan=scan)
    if settings is not None and subject is not None:
        files = tuple(Path(path) for path in settings)
        sides = _read_settings(files[0]), _read_settings(files[1])
        with _memory(folder, {**held, "settings": list(sides)}) as memory:
            search = _Search(memory, comparison, repeats, display, promised=_promised(subject))
            return _bisect_settings(search, subject, files, sides)
    if controller_repo is None:
        raise InputError("--controller-repo DIR, the repository of the commits, was wanted")
    with CommitCheckouts(Path(controller_repo)) as checkouts:
        good, bad = checkouts.ends(str(commits))
        question = {**held, "good": good.sha, "bad": bad.sha, "command": list(command)}
        with _memory(folder, question) as memory:
            search = _Search(memory, comparison, repeats, display)
            return _bisect_commits(search, checkouts, good, bad, subject, tuple(command), timeout_s)


def _comparison(by: str, tolerance: str | float | None) -> _Comparison:
    if by not in (Yardstick.DIGEST, Yardstick.ENDING):
        raise InputError(f"--by: digest or ending was wanted, but {by!r} came")
    if tolerance is None:
        return _Comparison(Yardstick(by), None)
    if by != Yardstick.DIGEST:
        raise InputError(f"--tolerance compares paths: leave out --by {by}")
    return _Comparison(Yardstick.TOLERANCE, parse_tolerance_m(str(tolerance)))


def _promised(subject: Plan) -> bool:
    """Does the simulator promise the same bits for the same request?"""
    with registry.create(subjects.cell_of(subject).simulator) as simulator:
        return simulator.described(subjects.cell_of(subject).settings).capabilities.deterministic


def _held(subject: Plan | None) -> dict[str, object]:
    """What is the same at all points of a search."""
    if subject is None:
        return {"subject": None}
    return {"subject": subject.fingerprint, "cell": subjects.subject_words(subject), "scenario": scenario_content(subject)}


def scenario_content(subject: Plan) -> str:
    """Name the content of a scenario that is a file; nothing where it is a name."""
    scenario = subjects.cell_of(subject).scenario
    if not subjects.is_file_of_a_scenario(scenario) or not Path(scenario).is_file():
        return ""
    return link(b"", Path(scenario).read_bytes()).hex()


class _Search:
    """Asks for points, remembers answers, tells progress."""

    def __init__(
        self, memory: "_Memory", comparison: _Comparison, repeats: int, display: Display, *, promised: bool = False
    ) -> None:
        self.memory, self.comparison, self.repeats, self.display = memory, comparison, repeats, display
        # A simulator that promises to repeat itself is held to it elsewhere: its points need no word about chance.
        self._promised = promised
        self.points: dict[str, BisectPoint] = {}
        self._reference: Repeat | str | None = None

    def begin(self, reference: _Runs, hint: str) -> None:
        """Take the outcome that others are held against; one that does not repeat is refused."""
        first, *others = reference.each()
        self._reference = first
        if not all(self.comparison.alike(first, other) for other in others):
            raise StudyError(
                f"{reference.name} does not repeat itself: its {len(others) + 1} runs are not alike "
                f"({self.comparison.words()}), and a bisection would follow chance; {hint}"
            )
        self._note(reference, same=True)

    def same(self, runs: _Runs) -> bool:
        """Is every run of a point like the reference?"""
        first = self._reference
        if first is None:
            raise StudyError("a search begins with its reference")
        alike = all(self.comparison.alike(first, run) for run in runs.each())
        self._note(runs, same=alike)
        return alike

    def skip(self, name: str, reason: str) -> None:
        self.points[name] = BisectPoint(name, None, 0, (), reason.removeprefix(f"{name}: "))

    def _note(self, runs: _Runs, *, same: bool) -> None:
        each = [self.comparison.outcome(run) for run in runs.each()]
        self.points[runs.name] = BisectPoint(runs.name, same, len(each), tuple(dict.fromkeys(each)))

    def finish(
        self, question: str, last_same: str, changed: Sequence[str], pair: tuple[_Runs, _Runs] | None, notes: Sequence[str]
    ) -> BisectResult:
        parting = ""
        if pair is not None and pair[0].cell is not None and pair[1].cell is not None:
            a, b = pair[0].cell, pair[1].cell
            parting = parting_words(a.header, a.load(a.runs[0].repeat), _unlike(a, b))
        told = [*notes]
        if pair is not None and not self._promised:
            rate = clopper_pearson(0, self.repeats, _CONFIDENCE)[1]
            told.append(
                f"A point counts as the same after {self.repeats} runs that are: one that differs in up to {rate:.0%} of its "
                f"runs may pass for it ({_CONFIDENCE:.0%} confidence); --repeats narrows that."
            )
        points = tuple(self.points.values())
        result = BisectResult(
            question, bool(changed), last_same, tuple(changed), parting, points, tuple(told), self.memory.folder
        )
        self.memory.finish(result)
        return result


def _unlike(a: CellTrace, b: CellTrace) -> Repeat:
    """The first run of ``b`` that is not the first of ``a``."""
    digest = a.runs[0].digest
    number = next((run.repeat for run in b.runs if run.digest != digest), b.runs[0].repeat)
    return b.load(number)


@dataclass(frozen=True)
class _Grid:
    """The values of a setting from A to B. Worked out in decimals, so that a tenth is 0.1 and not 0.1000000000000001."""

    name: str
    values: tuple[Scalar, ...]

    @classmethod
    def read(cls, text: str, steps: int | None) -> "_Grid":
        name, equals, span = text.partition("=")
        first, dots, last = span.partition("..")
        try:
            low, high = Decimal(first.strip()), Decimal(last.strip())
        except InvalidOperation as error:
            raise InputError(
                f"--setting: NAME=A..B with two numbers was wanted, such as substeps=1..10, but {text!r} came"
            ) from error
        if not (name.strip() and equals and dots) or not (low.is_finite() and high.is_finite()) or low == high:
            raise InputError(f"--setting: NAME=A..B with two different numbers was wanted, but {text!r} came")
        whole = low == low.to_integral_value() and high == high.to_integral_value() and "." not in span.replace("..", "")
        count = steps if steps is not None else int(abs(high - low)) if whole else STEPS
        if not 1 <= count <= MOST_STEPS:
            raise InputError(f"--steps: 1 to {MOST_STEPS} steps were wanted, but {count} came")
        if whole and (high - low) % count:
            whole = False
        raw = [low + (high - low) * index / count for index in range(count + 1)]
        values = [int(value) if whole else float(value) for value in raw]
        return cls(name.strip(), tuple(dict.fromkeys(values)))

    def label(self, index: int) -> str:
        return f"{self.name}={self.values[index]}"


def _bisect_setting(search: _Search, subject: Plan, grid: _Grid, *, scan: bool) -> BisectResult:
    last = len(grid.values) - 1
    points = last + 1 if scan else 2 + last.bit_length()
    with subjects.SubjectRunner(subject.execution) as runner, search.display.steps("bisecting", points) as advance:

        def runs(index: int) -> _Runs:
            changed = subjects.with_cell(
                subject, settings={**subjects.cell_of(subject).settings, grid.name: grid.values[index]}
            )
            found = search.memory.run(changed, grid.label(index), runner, search.repeats)
            advance(grid.label(index), None)
            return found

        question = (
            f"{subjects.subject_words(subject)}: {grid.name} from {grid.values[0]} to {grid.values[-1]} in {last} steps, "
        )
        question += search.comparison.words()
        search.begin(runs(0), "run samepath explain on its runs, or compare with --by ending or --tolerance")
        if search.same(runs(last)) and not scan:
            return search.finish(question, "", (), None, ("Between the two it may differ: --scan looks at every step.",))
        if scan:
            found = next((index for index in range(1, last + 1) if not search.same(runs(index))), None)
            if found is None:
                return search.finish(question, "", (), None, (f"All {last + 1} values have the same outcome.",))
        else:
            found = first_change(last, lambda index: search.same(runs(index)))
        notes = () if scan else ("Were there several changes, this is one of them: --scan finds the first.",)
        return search.finish(question, grid.label(found - 1), (grid.label(found),), (runs(found - 1), runs(found)), notes)


def _bisect_settings(
    search: _Search, subject: Plan, files: Sequence[Path], sides: tuple[dict[str, Scalar], dict[str, Scalar]]
) -> BisectResult:
    before, after = sides
    differing = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    if not differing:
        raise InputError(f"{files[0]} and {files[1]} hold the same settings: there is nothing between them")

    with subjects.SubjectRunner(subject.execution) as runner, search.display.steps("bisecting", 2 + len(differing)) as advance:

        def runs(names: Sequence[str]) -> _Runs:
            mixed = {name: value for name, value in before.items() if name not in names}
            mixed |= {name: after[name] for name in names if name in after}
            label = "with " + (", ".join(_change(name, before, after) for name in names) or f"{files[0].name} as it is")
            changed = subjects.with_cell(subject, settings={**subjects.cell_of(subject).settings, **mixed})
            found = search.memory.run(changed, label, runner, search.repeats)
            advance(label, None)
            return found

        question = f"{subjects.subject_words(subject)}: {len(differing)} settings of {files[1].name} in {files[0].name}, "
        question += search.comparison.words()
        search.begin(runs(()), "run samepath explain on its runs, or compare with --by ending or --tolerance")
        if search.same(runs(differing)):
            return search.finish(question, "", (), None, ())
        found = minimal(differing, lambda names: not search.same(runs(names)))
        fewer = "None of them alone is enough." if len(found) > 1 else ""
        notes = tuple(filter(None, (fewer, "Were there several such sets, this is one of them.")))
        changed = tuple(_change(name, before, after) for name in found)
        return search.finish(question, f"{files[0].name} as it is", changed, (runs(()), runs(found)), notes)


def _change(name: str, before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> str:
    new = f"{after[name]!r}" if name in after else "left out"
    return f"{name} {new}" + (f" instead of {before[name]!r}" if name in before else "")


def _read_settings(path: Path) -> dict[str, Scalar]:
    try:
        text = regular(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    data = read_yaml(text, str(path), "file of settings", {"NAME: VALUE": None})
    found = data["settings"] if isinstance(data.get("settings"), dict) else data
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str | float | int | bool):
            raise InputError(f"{path}: a setting with one value was wanted, but {name!r}: {value!r} came")
    return dict(found)


def _bisect_commits(
    search: _Search,
    checkouts: CommitCheckouts,
    good: Commit,
    bad: Commit,
    subject: Plan | None,
    command: tuple[str, ...],
    timeout_s: float,
) -> BisectResult:
    def runs(commit: Commit) -> _Runs:
        folder = checkouts.folder_of(commit.sha)
        if command:
            return search.memory.command(commit, command, folder, search.repeats, timeout_s)
        path = [str(folder), *([str(folder / "src")] if (folder / "src").is_dir() else [])]
        if subject is None:
            raise InputError("a scenario or a command was wanted to run in every commit")
        # A runner for each commit: processes that were forked with one on their path must not serve another.
        with subjects.SubjectRunner(subject.execution, path) as runner:
            return search.memory.run(subject, commit.words(), runner, search.repeats, salt=commit.sha)

    what = " ".join(command) if subject is None or command else subjects.subject_words(subject)
    question = f"{what}: commits {good.sha[:12]}..{bad.sha[:12]}, {search.comparison.words()}"
    total = 2 + len(checkouts.between(bad.sha, [good.sha])).bit_length()
    with search.display.steps("bisecting", total) as advance:
        reference = runs(good)
        search.begin(reference, "make it repeat first, or compare with --by ending or --tolerance")
        advance(good.words(), None)
        if search.same(runs(bad)):
            hint = "Does the scenario import its controller from that repository? Commits come first on the module path."
            return search.finish(question, "", (), None, () if command else (hint,))
        advance(bad.words(), None)
        goods, skipped, first_bad, last_good = [good.sha], set[str](), bad, good
        while True:
            left = checkouts.between(first_bad.sha, goods)
            candidates = [sha for sha in left[:-1] if sha not in skipped]
            if not candidates:
                break
            commit = checkouts.commit(candidates[0])
            try:
                alike = search.same(runs(commit))
            except (SimulatorError, StudyError, InputError) as error:
                search.skip(commit.words(), str(error))
                skipped.add(commit.sha)
                continue
            advance(commit.words(), None)
            if alike:
                goods.append(commit.sha)
                last_good = commit
            else:
                first_bad = commit
    # Commits that could not be run hide behind the first that is known to be changed.
    hidden = [checkouts.commit(sha).words() for sha in left[:-1]]
    notes = [f"One of these, too, may be the first: {', '.join(hidden)} could not be run."] if hidden else []
    return search.finish(question, last_good.words(), (first_bad.words(),), (reference, runs(first_bad)), notes)


class _Memory:
    """The runs of a search on disk, by the point they belong to."""

    def __init__(self, found: SearchFolder) -> None:
        self.folder = found.folder
        self._found = found

    def run(self, subject: Plan, name: str, runner: subjects.SubjectRunner, repeats: int, salt: str = "") -> _Runs:
        """Return the runs of a subject, those that are missing run now."""
        place = self._place(fingerprint({"subject": subject.fingerprint, "scenario": scenario_content(subject), "salt": salt}))
        try:
            header = subjects.header_for(subject)
            self._run_missing(place, header, repeats, lambda numbers: runner.run(subject, numbers))
        except SamepathError as error:
            # The same kind of error, so that who asked knows what to make of it; with the point, so that the reader does.
            raise type(error)(f"{name}: {error}") from error
        return _Runs(name, StoredCell(place))

    def _run_missing(self, place: Path, header: Header, repeats: int, run: Callable[[Sequence[int]], Iterator[Repeat]]) -> None:
        done = stored_repeats(place) if place.exists() else frozenset()
        missing = [number for number in range(repeats) if number not in done]
        if missing:
            with StoreWriter(place, header) as writer:
                for repeat in run(missing):
                    writer.write(repeat)

    def command(self, commit: Commit, command: tuple[str, ...], folder: Path, repeats: int, timeout_s: float) -> _Runs:
        """Return what a command did in a commit's folder: its traces, or its output and how it ended."""
        place = self._place(fingerprint({"commit": commit.sha, "command": list(command)}))
        told = place / "texts.json"
        if not told.exists() and not (place / HEADER_FILE).exists():
            # What an interrupted one left: half a log must not be taken for a whole one.
            shutil.rmtree(place, ignore_errors=True)
            make_folder(place)
            texts, cells = [], []
            for number in range(repeats):
                logs = make_folder(place / f"logs-{number}")
                text = _run_command(commit, command, folder, logs.resolve(), timeout_s)
                found = load_cells([logs]) if any(logs.iterdir()) else []
                is_single = len(found) == 1 and len(found[0].runs) == 1
                cells += [found[0]] if is_single else []
                digests = [run.digest for cell in found for run in cell.runs]
                texts.append(text if not found else f"{text}, runs {link(b'', ' '.join(digests).encode()).hex()[:12]}")
            if len(cells) == repeats and len({cell.header.channels for cell in cells}) == 1:
                each = [replace(cell.load(cell.runs[0].repeat), repeat=number) for number, cell in enumerate(cells)]
                store_repeats(place, cells[0].header, each)
            else:
                write_text_atomically(told, json.dumps(texts))
        if told.exists():
            return _Runs(commit.words(), None, tuple(json.loads(told.read_text("utf-8"))))
        return _Runs(commit.words(), StoredCell(place))

    def finish(self, result: BisectResult) -> None:
        self._found.finish(json.loads(result.to_json()))

    def _place(self, key: str) -> Path:
        return self._found.place / key


@contextmanager
def _memory(folder: Path, question: Mapping[str, object]) -> Iterator[_Memory]:
    with search_folder(folder, {"verb": "bisect", **question}) as found:
        yield _Memory(found)


def _run_command(commit: Commit, command: tuple[str, ...], folder: Path, logs: Path, timeout_s: float) -> str:
    """Run a command in a commit's folder and return what it did: how it ended and what it printed."""
    paths = [str(folder), str(folder / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, OUT_VARIABLE: str(logs), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    output = logs.with_suffix(".stdout")
    with output.open("wb") as file:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, start_new_session=True
            )
        except OSError as error:
            raise InputError(f"{command[0]} cannot be run in {commit.words()}: {error.strerror or error}") from error
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise SimulatorError(f"{commit.words()}: the command took longer than {timeout_s:g} s and was stopped") from error
        finally:
            # Whatever it has started ends with it, also on Ctrl-C: the next commit must not meet it. The number of a group is
            # not given to another while it has members; without any there is nothing to end.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code == SKIP:
        raise SimulatorError(f"{commit.words()}: the command ended with {SKIP}, which says that it cannot be judged")
    return printable(f"exit {code}, stdout {link(b'', output.read_bytes()).hex()[:12]}")
