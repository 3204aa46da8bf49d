"""The border of a test: the value of a parameter at which its verdict flips, and the variance that it can bear.

A test that passes or fails far from its border says little about the simulator's variance: whatever varies, the verdict stays.
At the border the smallest difference decides. So the border is where to measure, and how far a test is from it says what margin
it has.

One parameter is halved between two values of unlike verdicts: the order of questions depends on nothing but the answers. Of
several parameters, the nearest flip to the scenario as it is written is looked for by DIRECT (Jones, Perttunen & Stuckman 1993,
from SciPy): it divides the space by rule and draws no random numbers, so that the same question has the same answer; then the
straight line from the scenario to what was found is halved. A point whose own repeats disagree belongs to neither side: the
border is then a band, and both its edges are found.

Which tolerance a test has is read from a study's own data and assertions: the largest variance at which no verdict flips
(paper, VII-A3). Repeats of all cells of a scenario are laid out by how far they stray from their cell's mean path. A repeat
*flips* an assertion if its verdict is not the usual one of its cell, or if its cell's usual one is not that of the calm cells.
A tolerance is good as far as the repeats within it do not flip; what so many repeats cannot exclude is bounded exactly
(Clopper-Pearson).

The tolerances that are tried are fixed beforehand, 1-2-5 from a micrometre to a hundred metres, and the confidence is shared
out among those that have any repeat (Bonferroni): a tolerance picked because it looked good would not keep its word.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.documents import read_yaml
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import make_folder, write_text_atomically
from samepath.core.units import DURATION_UNITS_S, LENGTH_UNITS_M, SPEED_UNITS_MPS, format_length
from samepath.instrument import subjects
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.verdict import clopper_pearson
from samepath.instrument.evaluation import Monitors, Source, analyse, monitor_set
from samepath.instrument.monitors.monitor import MonitorSet, watch_cell
from samepath.instrument.progress import display_for
from samepath.instrument.search import first_change
from samepath.instrument.study.levels import CONDITIONS
from samepath.instrument.study.records import Plan, Scalar
from samepath.instrument.traces.cell import MemoryCell
from samepath.scenarios.model import ScenarioSpec, build_scenario, built_in_scenarios

STEPS: Final = 1024
MOST_STEPS: Final = 1_000_000
SCAN: Final = 16
EVALUATIONS: Final = 150
MOST_EVALUATIONS: Final = 10_000
MOST_PARAMETERS: Final = 8
_VARY: Final = re.compile(r"\s*(?:(\d+)\.)?([A-Za-z][\w-]*)\s*=\s*([^\s.][^=]*?)\s*\.\.\s*([^=]+?)\s*")
_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)")
ACTOR_FIELDS: Final = ("start_delay", "speed", "look_ahead", "heading_deg")
# What stands for «the test passes» where nobody says otherwise.
NO_COLLISION: Final[Mapping[str, Any]] = {"monitors": [{"name": "no collision", "kind": "no-collision"}], "coverage": False}


@dataclass(frozen=True)
class Parameter:
    """What is varied: a field of an actor of the scenario, a condition of the host, or a setting of the simulator."""

    name: str
    actor: int | None
    field: str
    low: float
    high: float
    unit: str
    steps: int

    def at(self, index: int) -> float:
        """The value at a step; in decimals, so that a tenth is 0.1."""
        low, high = Decimal(repr(self.low)), Decimal(repr(self.high))
        return float(low + (high - low) * index / self.steps)

    def words(self, index: int) -> str:
        """A value with its name."""
        return f"{self.name} {self.at(index):.10g}{f' {self.unit}' if self.unit else ''}"


@dataclass(frozen=True)
class BorderPoint:
    """A point that was run: by step of every parameter, with its verdicts and the smallest margin."""

    steps: tuple[int, ...]
    name: str
    passes: int
    fails: int
    margin: float | None

    @property
    def verdict(self) -> str:
        """pass, fail, or mixed where its own repeats disagree."""
        return "mixed" if self.passes and self.fails else "pass" if self.passes else "fail"

    def words(self) -> str:
        """Say it in one line."""
        margin = "" if self.margin is None else f", margin {self.margin:.4g}"
        return f"{self.name}: {self.verdict} ({self.passes} of {self.passes + self.fails} pass{margin})"


@dataclass(frozen=True)
class BorderResult:
    """Where the verdict flips: between ``before`` and ``after``; ``found`` False where no point differs.

    ``before`` is the last point with one verdict, ``after`` the first with the other; where repeats disagree in between the
    border is a band, else the two are one step apart. ``files`` are the scenarios of both.
    """

    question: str
    found: bool
    before: BorderPoint | None
    after: BorderPoint | None
    points: tuple[BorderPoint, ...]
    notes: tuple[str, ...]
    files: tuple[str, ...]

    def words(self) -> tuple[str, ...]:
        """Say it in lines, the answer first."""
        lines = [self.question]
        if not self.found or self.before is None or self.after is None:
            same = self.points[0].verdict if self.points else "nothing"
            lines.append(f"No border found: every one of {len(self.points)} points comes to {same}.")
        else:
            lines.append(f"The verdict flips between {self.before.name} ({self.before.verdict}) and {self.after.name} "
                         f"({self.after.verdict}).")  # fmt: skip
        lines += [f"  {point.words()}" for point in self.points[-12:]]
        runs = sum(point.passes + point.fails for point in self.points)
        return (*lines, *self.notes, *(f"written: {file}" for file in self.files), f"{len(self.points)} points, {runs} runs")

    def to_json(self) -> str:
        """Return one JSON object."""
        points = [{**asdict(point), "verdict": point.verdict} for point in self.points]
        ends = {
            name: None if point is None else {**asdict(point), "verdict": point.verdict}
            for name, point in (("before", self.before), ("after", self.after))
        }
        return json.dumps({**asdict(self), **ends, "points": points, "words": self.words()}, indent=1, default=str)


def search(
    what: str,
    vary: Sequence[str],
    *,
    monitors: Monitors | None = None,
    simulator: str | None = None,
    cell: str | None = None,
    repeats: int = 1,
    steps: int = STEPS,
    evaluations: int = EVALUATIONS,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> BorderResult:
    """Find where the verdict of a scenario flips.

    ``vary`` are parameters, such as ``1.start_delay=0s..4s`` (actor 1), ``cpu_load=0..0.9`` or a setting of the simulator.
    ``monitors`` say what passing is; without any, that the first actor touches nothing. ``repeats`` are run at every point,
    ``steps`` is how finely a range is divided, ``evaluations`` bounds the points that several parameters may take. ``out`` is
    a folder for the two scenarios on either side.
    """
    if not 1 <= len(vary) <= MOST_PARAMETERS:
        raise InputError(
            f"1 to {MOST_PARAMETERS} parameters were wanted, such as --vary 1.start_delay=0s..4s, but {len(vary)} came"
        )
    if not 2 <= steps <= MOST_STEPS or not 1 <= repeats <= 10_000 or not 1 <= evaluations <= MOST_EVALUATIONS:
        raise InputError(f"2 to {MOST_STEPS} steps, 1 to 10000 repeats and 1 to {MOST_EVALUATIONS} points were wanted")
    parameters = [read_parameter(text, steps) for text in vary]
    subject = subjects.subject_of(what, subjects.SubjectChoice(simulator=simulator, cell=cell))
    chosen = monitor_set(NO_COLLISION if monitors is None else monitors)
    if chosen is None:
        raise InputError("monitors were wanted")
    folder = None if out is None else make_folder(Path(out))
    expected = (0 if len(parameters) == 1 else evaluations) + steps.bit_length() + 1
    with subjects.SubjectRunner(subject.execution) as runner, display_for(progress).steps("searching", expected) as advance:
        points = _Points(subject, parameters, replace(chosen, covers=False), repeats, runner, lambda name: advance(name, None))
        question = f"{subjects.subject_words(subject)}: where does {' and '.join(m.name for m in chosen.monitors)} flip?"
        if len(parameters) == 1:
            return _one(points, question, folder)
        return _several(points, question, folder, evaluations)


def read_parameter(text: str, steps: int) -> Parameter:
    """Read ``1.start_delay=0s..4s``."""
    match = _VARY.fullmatch(text)
    if match is None:
        raise InputError(f"--vary: ACTOR.FIELD=A..B or NAME=A..B was wanted, such as 1.start_delay=0s..4s, but {text!r} came")
    actor, field, *ends = match.groups()
    (low, unit), (high, other) = (_quantity(end, text) for end in ends)
    if actor is not None and field not in ACTOR_FIELDS:
        raise InputError(f"--vary {text}: of an actor {', '.join(ACTOR_FIELDS)} can be varied, but {field!r} came")
    if low == high:
        raise InputError(f"--vary {text}: two different ends were wanted")
    name = field if actor is None else f"{actor}.{field}"
    return Parameter(name, None if actor is None else int(actor), field, low, high, unit or other, steps)


def _quantity(text: str, whole: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    units = {**LENGTH_UNITS_M, **DURATION_UNITS_S, **SPEED_UNITS_MPS}
    if match is None or (match[2] and match[2] not in units and match[2] != "%"):
        raise InputError(f"--vary {whole}: a number, or one with a unit, was wanted, but {text!r} came")
    if not match[2]:
        return float(match[1]), ""
    if match[2] == "%":
        return float(Decimal(match[1]) / 100), ""
    bare = {
        **dict.fromkeys(LENGTH_UNITS_M, "m"),
        **dict.fromkeys(DURATION_UNITS_S, "s"),
        **dict.fromkeys(SPEED_UNITS_MPS, "m/s"),
    }
    return float(match[1]) * units[match[2]], bare[match[2]]


class _Points:
    """Runs points and remembers them."""

    def __init__(
        self,
        subject: Plan,
        parameters: Sequence[Parameter],
        monitors: MonitorSet,
        repeats: int,
        runner: subjects.SubjectRunner,
        told: Callable[[str], None],
    ) -> None:
        self.subject, self.parameters, self.monitors, self.repeats = subject, tuple(parameters), monitors, repeats
        self._runner, self._told = runner, told
        self.known: dict[tuple[int, ...], BorderPoint] = {}
        name = subjects.cell_of(subject).scenario
        self._scenario = _scenario_data(name)
        self._base = Path(name).parent if subjects.is_file_of_a_scenario(name) else None

    def base(self) -> tuple[int, ...]:
        """The scenario as it is written, as steps; a parameter that it does not state begins at its first end."""
        found = []
        for parameter in self.parameters:
            written = _written(self._scenario, parameter)
            part = 0.0 if written is None else (written - parameter.low) / (parameter.high - parameter.low)
            found.append(round(min(1.0, max(0.0, part)) * parameter.steps))
        return tuple(found)

    def ask(self, steps: tuple[int, ...]) -> BorderPoint:
        """Run a point, unless it was."""
        if steps not in self.known:
            name = ", ".join(parameter.words(step) for parameter, step in zip(self.parameters, steps, strict=True))
            self._told(name)
            self.known[steps] = self._run(steps, name)
        return self.known[steps]

    def scenario_text(self, steps: tuple[int, ...]) -> str:
        """The scenario at a point, as a file; JSON is YAML."""
        data = json.loads(json.dumps(self._scenario))
        for parameter, step in zip(self.parameters, steps, strict=True):
            if parameter.actor is not None:
                _actor(data, parameter)[parameter.field] = parameter.at(step)
        return json.dumps(data, indent=1)

    def _run(self, steps: tuple[int, ...], name: str) -> BorderPoint:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="samepath-search-") as folder:
            changes: dict[str, object] = {}
            cell = subjects.cell_of(self.subject)
            if any(parameter.actor is not None for parameter in self.parameters):
                path = Path(folder) / f"{Path(cell.scenario).stem}.yaml"
                write_text_atomically(path, self.scenario_text(steps))
                changes["scenario"] = str(path)
            others = {
                parameter.field: parameter.at(step)
                for parameter, step in zip(self.parameters, steps, strict=True)
                if parameter.actor is None
            }
            conditions = {key: value for key, value in others.items() if key in CONDITIONS}
            settings: dict[str, Scalar] = {key: _whole(value) for key, value in others.items() if key not in CONDITIONS}
            changes["condition"] = {**cell.condition, **conditions}
            changes["settings"] = {**cell.settings, **settings}
            subject = subjects.with_cell(self.subject, **changes)
            try:
                runs = list(self._runner.run(subject, range(self.repeats)))
                header = subjects.header_for(subject)
            except SamepathError as error:
                raise type(error)(f"{name}: {error}") from error
        traces = watch_cell(MemoryCell(replace(header, scenario=cell.scenario), runs), self.monitors).traces
        missing = next((trace.not_applicable for trace in traces if trace.not_applicable), "")
        if missing or not traces:
            raise InputError(f"{name}: the monitors do not fit: {missing or 'none is for this scenario'}")
        # A repeat passes if all monitors do; what a monitor says nothing of it does not hold against a repeat.
        verdicts = [
            all(verdict.passes is not False for verdict in per) for per in zip(*(t.verdicts for t in traces), strict=True)
        ]
        margins = [verdict.margin for trace in traces for verdict in trace.verdicts if verdict.passes is not None]
        finite = [margin for margin in margins if abs(margin) != float("inf")]
        return BorderPoint(steps, name, sum(verdicts), len(verdicts) - sum(verdicts), min(finite, default=None))


def _scenario_data(name: str) -> dict[str, Any]:
    known = built_in_scenarios()
    text = known[name] if name in known else Path(name).read_text("utf-8") if Path(name).is_file() else ""
    if not text:
        raise InputError(f"scenario {name!r} cannot be varied: a scenario of ours or a YAML file was wanted")
    data = read_yaml(text, f"scenario {name}", "scenario", ScenarioSpec.model_fields)
    build_scenario(data, f"scenario {name}")
    return data


def _actor(data: Mapping[str, Any], parameter: Parameter) -> dict[str, Any]:
    for actor in data.get("actors", ()):
        if actor.get("id") == parameter.actor:
            return actor  # type: ignore[no-any-return]
    ids = ", ".join(str(actor.get("id")) for actor in data.get("actors", ()))
    raise InputError(f"--vary {parameter.name}: the scenario has no actor {parameter.actor}; it has {ids}")


def _written(data: Mapping[str, Any], parameter: Parameter) -> float | None:
    """The value of a parameter in the scenario's file; None where it is not the scenario's."""
    if parameter.actor is None:
        return None
    _actor(data, parameter)
    spec = next(actor for actor in build_scenario(dict(data), "scenario").actors if actor.id == parameter.actor)
    value = getattr(spec, parameter.field)
    return None if value is None else float(value)


def _whole(value: float) -> Scalar:
    return int(value) if value.is_integer() else value


def _one(points: _Points, question: str, folder: Path | None) -> BorderResult:
    parameter = points.parameters[0]
    low, high = points.ask((0,)), points.ask((parameter.steps,))
    ends = (0, parameter.steps)
    if low.verdict == high.verdict:
        # Both ends are alike: look between, evenly, before saying that there is nothing.
        grid = sorted({round(parameter.steps * part / SCAN) for part in range(1, SCAN)})
        unlike = next((step for step in grid if points.ask((step,)).verdict != low.verdict), None)
        if unlike is None:
            return _finish(points, question, None, folder)
        before = max(step for (step,), point in points.known.items() if step < unlike and point.verdict == low.verdict)
        ends = (before, unlike)
    return _finish(points, question, _halve(points, lambda step: (step,), *ends), folder)


def _halve(points: _Points, at: Callable[[int], tuple[int, ...]], first: int, last: int) -> tuple[BorderPoint, BorderPoint]:
    """Both edges of the border between two steps of unlike verdicts."""
    verdict_first, verdict_last = points.ask(at(first)).verdict, points.ask(at(last)).verdict
    leaves = first + first_change(last - first, lambda step: points.ask(at(first + step)).verdict == verdict_first)
    if points.ask(at(leaves)).verdict == verdict_last or verdict_last == "mixed":
        return points.ask(at(leaves - 1)), points.ask(at(leaves))
    arrives = leaves + first_change(last - leaves, lambda step: points.ask(at(leaves + step)).verdict != verdict_last)
    return points.ask(at(leaves - 1)), points.ask(at(arrives))


def _several(points: _Points, question: str, folder: Path | None, evaluations: int) -> BorderResult:
    from scipy.optimize import Bounds, direct

    base = points.base()
    home = points.ask(base)
    steps = [parameter.steps for parameter in points.parameters]

    def place(part: NDArray[np.float64]) -> tuple[int, ...]:
        return tuple(round(value * count) for value, count in zip(part.tolist(), steps, strict=True))

    def cost(part: NDArray[np.float64], /, *_: Any, **__: Any) -> float:  # noqa: ANN401 - what SciPy may pass on
        at = place(part)
        point = points.ask(at)
        if point.verdict == home.verdict:
            # Unlike any flip, and better the smaller its margin: that leads towards the border from afar.
            margin = abs(point.margin) if point.margin is not None else 1e6
            return 10.0 + margin / (1.0 + margin)
        return max(abs(a - b) / count for a, b, count in zip(at, base, steps, strict=True))

    direct(cost, Bounds([0.0] * len(steps), [1.0] * len(steps)), maxfun=evaluations, locally_biased=True)
    flips = [point for point in points.known.values() if point.verdict != home.verdict]
    if not flips:
        return _finish(points, question, None, folder)
    nearest = min(
        flips, key=lambda point: (max(abs(a - b) / c for a, b, c in zip(point.steps, base, steps, strict=True)), point.steps)
    )

    def on_line(step: int) -> tuple[int, ...]:
        return tuple(round(a + (b - a) * step / STEPS) for a, b in zip(base, nearest.steps, strict=True))

    return _finish(points, question, _halve(points, on_line, 0, STEPS), folder)


def _finish(points: _Points, question: str, pair: tuple[BorderPoint, BorderPoint] | None, folder: Path | None) -> BorderResult:
    notes = []
    files = []
    if pair is not None:
        if any(point.verdict == "mixed" for point in points.known.values()):
            notes.append("Between the two repeats disagree: there the simulator's variance decides.")
        if folder is not None and any(parameter.actor is not None for parameter in points.parameters):
            for word, point in zip(("before", "after"), pair, strict=True):
                path = folder / f"{word}.yaml"
                write_text_atomically(path, points.scenario_text(point.steps))
                files.append(str(path))
    before, after = pair if pair is not None else (None, None)
    return BorderResult(question, pair is not None, before, after, tuple(points.known.values()), tuple(notes), tuple(files))


LADDER_M: Final = tuple(float(f"{digit}e{power}") for power in range(-6, 3) for digit in (1, 2, 5))[:-2]


@dataclass(frozen=True)
class ToleranceStep:
    """A tolerance that was tried: repeats that stay within it, how many of them flip, and the bound of their rate."""

    tolerance_m: float
    repeats: int
    flips: int
    rate_upper: float


@dataclass(frozen=True)
class ScenarioTolerance:
    """The answer for one scenario. ``tolerance_m`` None: verdicts flip even among the calmest repeats, or nothing strays.

    ``first_flip_m`` is the smallest deviation of a repeat that flips, ``largest_m`` the largest of any repeat. Where no repeat
    flips, the tolerance is a lower bound: nothing is known of repeats that stray farther than any did. ``judged``: is any
    assertion about this scenario?
    """

    scenario: str
    tolerance_m: float | None
    step: ToleranceStep | None
    steps: tuple[ToleranceStep, ...]
    first_flip_m: float | None
    first_flip: str
    largest_m: float
    repeats: int
    confidence: float
    judged: bool = True

    @property
    def flips(self) -> bool:
        """Does a verdict flip in any repeat?"""
        return self.first_flip_m is not None

    def words(self) -> str:
        """Say it in one line."""
        if not self.judged:
            return f"{self.scenario}: no assertion is judged there"
        if self.largest_m == 0:
            return f"{self.scenario}: nothing strays in {self.repeats} repeats: there is no variance to judge by"
        if self.step is None:
            first = format_length(self.first_flip_m or 0.0)
            return f"{self.scenario}: no tolerance: a verdict flips at {first} ({self.first_flip})"
        step = self.step
        least = "" if self.flips else "at least "
        text = (
            f"{self.scenario}: {least}{format_length(step.tolerance_m)}: 0 of {step.repeats} repeats within it flip a verdict, "
            f"the true rate is below {100 * step.rate_upper:.3g} % ({100 * self.confidence:.4g} % confidence)"
        )
        if self.first_flip_m is None:
            return f"{text}; no repeat flips, and none strays farther than {format_length(self.largest_m)}"
        return f"{text}; the first flip is at {format_length(self.first_flip_m)} ({self.first_flip})"


@dataclass(frozen=True)
class ToleranceResult:
    """The answers, one for each scenario, and the assertions they are about."""

    scenarios: tuple[ScenarioTolerance, ...]
    assertions: tuple[str, ...]

    @property
    def tolerance_m(self) -> float | None:
        """The smallest of all scenarios in which a verdict flips: what a study of all of them needs; None where one has none.

        Where none flips, the smallest of what was shown. A calm scenario beside one that flips limits nothing: its repeats only
        never strayed so far.
        """
        found = [scenario.tolerance_m for scenario in self._deciding]
        known = [value for value in found if value is not None]
        return min(known) if known and len(known) == len(found) else None

    @property
    def _deciding(self) -> list[ScenarioTolerance]:
        judged = [scenario for scenario in self.scenarios if scenario.judged and scenario.largest_m > 0]
        return [scenario for scenario in judged if scenario.flips] or judged

    def words(self) -> tuple[str, ...]:
        """Say it in lines."""
        whole, flips = self.tolerance_m, any(scenario.flips for scenario in self._deciding)
        least = "at least " if whole is not None and not flips else ""
        head = f"Largest variance at which no assertion flips: {least}{'none found' if whole is None else format_length(whole)}"
        if least:
            head += ", as far as repeats strayed in the calmest scenario; no repeat flips anywhere"
        return head, *(f"  {scenario.words()}" for scenario in self.scenarios), f"Assertions: {'; '.join(self.assertions)}"

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps({"tolerance_m": self.tolerance_m, **asdict(self), "words": self.words()}, indent=1)


def tolerance(
    *sources: Source,
    monitors: Monitors | None = None,
    columns: Mapping[str, str] | None = None,
    confidence: float = 0.95,
    progress: bool = True,
) -> ToleranceResult:
    """Find the largest variance at which no assertion flips, from traces and monitors; a study brings its own monitors."""
    report = analyse(*sources, monitors=monitors, columns=columns, progress=progress)
    return tolerances(report.cells, confidence)


def tolerances(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> ToleranceResult:
    """The same, from analysed cells."""
    names = dict.fromkeys(assertion.name for cell in cells if cell.assertions for assertion in cell.assertions.assertions)
    if not names:
        raise InputError("assertions were wanted to hold variance against, but there are none: give --monitors FILE")
    scenarios = dict.fromkeys(cell.header.scenario for cell in cells)
    found = [_scenario([cell for cell in cells if cell.header.scenario == name], name, confidence) for name in scenarios]
    return ToleranceResult(tuple(found), tuple(names))


def _scenario(cells: Sequence[CellAnalysis], scenario: str, confidence: float) -> ScenarioTolerance:
    usual = _usual(cells)
    strays: list[tuple[float, str]] = []  # deviation, and the assertion that flips, if one does
    for cell in cells:
        for place, deviation in enumerate(cell.deviations):
            strays.append((deviation.max_deviation_m, _flip(cell, place, usual)))
    strays.sort()
    flips = [stray for stray in strays if stray[1]]
    tried = [limit_m for limit_m in LADDER_M if any(stray[0] <= limit_m for stray in strays)]
    sure = 1 - (1 - confidence) / max(1, len(tried))
    steps = []
    for limit_m in tried:
        within = [stray for stray in strays if stray[0] <= limit_m]
        wrong = sum(bool(stray[1]) for stray in within)
        steps.append(ToleranceStep(limit_m, len(within), wrong, clopper_pearson(wrong, len(within), sure)[1]))
    clean = [step for step in steps if step.flips == 0]
    largest = strays[-1][0] if strays else 0.0
    # Beyond the first step that holds everything a larger tolerance says nothing more.
    wide = [step for step in clean if step.repeats < len(strays)]
    whole = [step for step in clean if step.repeats == len(strays)]
    best = whole[0] if whole else wide[-1] if wide else None
    return ScenarioTolerance(
        scenario=scenario,
        tolerance_m=None if best is None or largest == 0 else best.tolerance_m,
        step=best,
        steps=tuple(steps),
        first_flip_m=flips[0][0] if flips else None,
        first_flip=flips[0][1] if flips else "",
        largest_m=largest,
        repeats=len(strays),
        confidence=confidence,
        judged=bool(usual),
    )


def _usual(cells: Sequence[CellAnalysis]) -> dict[str, bool]:
    """The verdict of each assertion where there is least variance: what the test says of the scenario itself."""
    usual: dict[str, bool] = {}
    for cell in sorted(cells, key=lambda cell: cell.summary.max_deviation_m or 0.0):
        for assertion in () if cell.assertions is None else cell.assertions.assertions:
            if assertion.judged:
                usual.setdefault(assertion.name, assertion.passes >= assertion.fails)
    return usual


def _flip(cell: CellAnalysis, place: int, usual: Mapping[str, bool]) -> str:
    for assertion in () if cell.assertions is None else cell.assertions.assertions:
        passes = assertion.verdicts[place] if place < len(assertion.verdicts) else None
        if passes is not None and passes != usual[assertion.name]:
            return f"{assertion.name}, {cell.header.cell}"
    return ""
