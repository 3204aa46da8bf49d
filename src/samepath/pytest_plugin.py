"""The pytest plugin: tests that run n times and must come out the same.

``@pytest.mark.repeatable(repeats=20, tolerance="1cm")`` calls a test 20 times and compares what it returns: a trace, the path
of a log, a report, numbers, arrays, or lists and mappings of these. Each result is copied, and each log is read, before the
next call. ``samepath.instrument.repeated_calls`` lists what a test may return.

The fixture ``samepath_runs`` (also called ``repeatable``) does the same around whatever a test has in hand: a function, a
scenario on any simulator, a CARLA script, logs, a golden file.

pytest loads this module in every session of everybody who has samepath installed, so it imports nothing of samepath before a
test asks for it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import TestCase

import pytest

if TYPE_CHECKING:
    from samepath.instrument.golden import GoldenCheck
    from samepath.instrument.repeated_calls import RepeatedCalls

MARK: Final = "repeatable"
REPEATS: Final = 20
_MOST_REPEATS: Final = 100_000
_WORDS: Final = f"{MARK}(repeats={REPEATS}, tolerance=None): call the test so often and compare what it returns, to the bit"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("samepath", "samepath: runs that must come out the same")
    group.addoption(
        "--samepath-repeats",
        type=int,
        default=None,
        metavar="N",
        help="Runs of every test marked repeatable, whatever its mark says.",
    )
    group.addoption(
        "--samepath-keep",
        default=None,
        metavar="DIR",
        help="Keep the traces of tests that do not repeat in DIR, a folder for each test.",
    )
    parser.addini("samepath_repeats", f"Runs of a test marked repeatable that says no number (default {REPEATS}).", default="")
    parser.addini("samepath_tolerance", "Tolerance of a test marked repeatable that says none, such as 1cm.", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _WORDS)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse what would silently be run once."""
    if item.get_closest_marker(MARK) is None:
        return
    owner = getattr(item, "cls", None)
    if not isinstance(item, pytest.Function) or (isinstance(owner, type) and issubclass(owner, TestCase)):
        pytest.fail(
            f"@pytest.mark.{MARK} is for test functions and methods of plain classes: {item.name} is neither", pytrace=False
        )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a marked test n times; others are pytest's own."""
    marker = pyfuncitem.get_closest_marker(MARK)
    if marker is None:
        return None
    if iscoroutinefunction(pyfuncitem.obj):
        name = pyfuncitem.name
        pytest.fail(f"@pytest.mark.{MARK} cannot call a coroutine: run it inside {name} and return its result", pytrace=False)
    # Fixtures are set up once for all calls, as for any test: what they hand over is the same each time.
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    repeats, tolerance = _asked(pyfuncitem, marker)
    runs = SamepathRuns(pyfuncitem)
    runs.call(lambda: pyfuncitem.obj(**arguments), repeats=repeats, tolerance=tolerance)
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest's terminal reporter is not public
    """One line: how many tests were repeated, and with what verdicts. Figures travel in reports, so that xdist's arrive too."""
    counts: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", "") == "call" and {"verdict", "repeats", "outcomes"} <= set(properties):
                counts[str(properties["verdict"])] = counts.get(str(properties["verdict"]), 0) + 1
    if counts:
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        terminalreporter.write_line(f"samepath: {told}")


@pytest.fixture
def samepath_runs(request: pytest.FixtureRequest) -> "SamepathRuns":
    """Run anything n times and fail the test where it does not come out the same: see samepath's docs/golden.md."""
    return SamepathRuns(request.node)


@pytest.fixture
def repeatable(samepath_runs: "SamepathRuns") -> "SamepathRuns":
    """The same as ``samepath_runs``."""
    return samepath_runs


class SamepathRuns:
    """What a test uses to run something several times. Each method fails the test where runs differ, and returns what it found.

    Figures (repeats, outcomes, max_deviation_m, max_sigma_m, digest, verdict) become properties of the test in JUnit XML.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(
        self, function: Callable[..., object], *arguments: object, repeats: int | None = None, tolerance: str | None = None
    ) -> "RepeatedCalls":
        """Call a function with these arguments n times; it returns a trace, a path, a report, numbers or arrays."""
        return self.call(lambda: function(*arguments), repeats=repeats, tolerance=tolerance)

    def call(
        self, function: Callable[[], object], *, repeats: int | None = None, tolerance: str | None = None
    ) -> "RepeatedCalls":
        """Call a function without arguments n times."""
        from samepath.core.errors import SamepathError
        from samepath.instrument.repeated_calls import call_repeatedly

        try:
            found = call_repeatedly(function, self._repeats(repeats), self._tolerance(tolerance), self._item.name)
        except SamepathError as error:
            raise _failed(f"samepath: {error}") from None
        hint = (
            "The runs share this process: what one leaves behind (a global random generator, a cache, an open simulator), the "
            "next one finds."
        )
        return self._judge(found, hint)

    def scenario(
        self,
        scenario: str,
        *,
        simulator: str | None = None,
        cell: str | None = None,
        settings: Mapping[str, str | float | int | bool] | None = None,
        repeats: int | None = None,
        tolerance: str | None = None,
    ) -> "RepeatedCalls":
        """Run a scenario, or the cell of a study, n times in fresh processes."""
        from samepath.core.errors import SamepathError
        from samepath.instrument.repeated_calls import compare_values
        from samepath.instrument.subjects import SubjectChoice, SubjectRunner, header_for, subject_of
        from samepath.instrument.traces.cell import MemoryCell

        try:
            subject = subject_of(scenario, SubjectChoice(simulator=simulator, cell=cell, settings=settings or {}))
            header = header_for(subject)
            with SubjectRunner(subject.execution) as runner:
                done = [MemoryCell(header, [run]) for run in runner.run(subject, range(self._repeats(repeats)))]
            found = compare_values(done, self._tolerance(tolerance), scenario)
        except SamepathError as error:
            raise _failed(f"samepath: {error}") from None
        return self._judge(found, "")

    def logs(self, *paths: str | Path, tolerance: str | None = None) -> "RepeatedCalls":
        """Compare runs that are there already: logs or traces of one run each, or of several repeats."""
        from samepath.core.errors import SamepathError
        from samepath.instrument.repeated_calls import compare_values, load_runs
        from samepath.instrument.traces.cell import MemoryCell

        try:
            cells = load_runs([Path(path) for path in paths])
            runs = [MemoryCell(cell.header, [cell.load(run.repeat)]) for cell in cells for run in cell.runs]
            found = compare_values(runs, self._tolerance(tolerance), self._item.name)
        except SamepathError as error:
            raise _failed(f"samepath: {error}") from None
        return self._judge(found, "")

    def golden(self, path: str | Path, *sources: str | Path, tolerance: str | None = None) -> "GoldenCheck":
        """Check a golden file: run what it holds, or compare logs with it."""
        from samepath.core.errors import SamepathError
        from samepath.instrument.golden import check_golden

        try:
            found = check_golden(path, *sources, tolerance=self._tolerance(tolerance), progress=False)
        except SamepathError as error:
            raise _failed(f"samepath: {error}") from None
        self._record(
            {
                "verdict": found.verdict.value,
                "repeats": sum(run.runs for run in found.runs),
                "outcomes": max(run.outcomes for run in found.runs),
                "digest": found.runs[0].digest,
            }
        )
        if not found.passes:
            pytest.fail("\n".join(found.words()), pytrace=False)
        return found

    def script(self, *command: str, repeats: int = 2, options: Sequence[str] = (), timeout_s: float = 1800.0) -> dict[str, Any]:
        """Run a CARLA script n times against a fresh server each (``samepath twice``); returns what that found.

        ``options`` are those of ``samepath twice``, such as ``("--map", "town")``.
        """
        ours = [sys.executable, "-m", "samepath", "twice", "-n", str(self._repeats(repeats)), "--json", *options]
        words = [*ours, "--", *map(str, command)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603 - our own
            found: dict[str, Any] = json.loads(done.stdout)
            same, runs = bool(found["same"]), int(found["runs"])
        except subprocess.TimeoutExpired:
            raise _failed(f"samepath twice took longer than {timeout_s:g} s: give script() a longer timeout_s") from None
        except (ValueError, KeyError, TypeError):
            reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode} and no answer"]
            raise _failed(f"samepath twice: {reason[0]}") from None
        verdict = "bit-identical" if same else "exceeds-tolerance"
        self._record({"verdict": verdict, "repeats": runs, "outcomes": 1 if same else 2, "cause": str(found.get("cause", ""))})
        if not same:
            first = json.dumps(found.get("first_difference"))
            lines = [f"{runs} runs of {' '.join(command)} are not the same: {found.get('source')}, {found.get('cause')}", first]
            pytest.fail("\n".join(lines), pytrace=False)
        return found

    def _judge(self, found: "RepeatedCalls", hint: str) -> "RepeatedCalls":
        self._record(found.properties)
        if found.passes:
            return found
        from samepath.instrument.repeated_calls import explained

        lines = [f"{self._item.name} does not repeat itself", found.words()]
        cause, why = explained(found)
        if cause:
            self._record({"cause": cause})
            lines += why
        folder = found.keep(self._folder()) if found.cells else None
        if folder is not None:
            lines.append(f"The traces of its runs are in {folder}; samepath explain and samepath analyse read them.")
        pytest.fail("\n".join([*lines, *([hint] if hint else [])]), pytrace=False)

    def _folder(self) -> Path:
        """A new folder for this test's traces: where the user wants them, or beside pytest's own temporary folders."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self._item.nodeid).strip("-.")[-150:]
        wanted = self._item.config.getoption("--samepath-keep")
        if wanted is None:
            factory: pytest.TempPathFactory = self._item._request.getfixturevalue("tmp_path_factory")  # type: ignore[attr-defined]
            return factory.mktemp("samepath")
        number, folder = 1, Path(wanted) / name
        while folder.exists():
            number, folder = number + 1, Path(wanted) / f"{name}-{number + 1}"
        return folder

    def _record(self, properties: Mapping[str, str | int | float]) -> None:
        self._item.user_properties.extend(properties.items())

    def _repeats(self, asked: int | None) -> int:
        config = self._item.config
        told = config.getoption("--samepath-repeats")
        repeats = told if told is not None else asked if asked is not None else config.getini("samepath_repeats") or REPEATS
        try:
            number = int(repeats)
        except (TypeError, ValueError, OverflowError):  # the last one of an infinite float
            number = 0
        if not 2 <= number <= _MOST_REPEATS:
            pytest.fail(f"samepath: 2 to {_MOST_REPEATS} repeats were wanted, but {repeats!r} came", pytrace=False)
        return number

    def _tolerance(self, asked: str | None) -> str | None:
        return asked if asked is not None else self._item.config.getini("samepath_tolerance") or None


def _failed(message: str) -> BaseException:
    """The failure of a test, as one line: ``from None`` where it is raised, or pytest prints what led to it as well."""
    return pytest.fail.Exception(message, pytrace=False)


def _asked(item: pytest.Item, marker: pytest.Mark) -> tuple[int | None, str | None]:
    """Read a mark; what it does not know is refused, because a misspelt tolerance would be none."""
    names = ("repeats", "tolerance")
    unknown = [name for name in marker.kwargs if name not in names]
    given = {**dict(zip(names, marker.args, strict=False)), **marker.kwargs}
    if unknown or len(marker.args) > len(names):
        pytest.fail(
            f"@pytest.mark.{MARK} takes repeats and tolerance, but {', '.join(unknown) or 'more'} came on {item.name}",
            pytrace=False,
        )
    return given.get("repeats"), given.get("tolerance")
