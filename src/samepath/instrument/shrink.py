"""Shrink: the smallest scenario that still does it, as Hypothesis shrinks the input of a failing test.

*It* is that repeats part, that somebody collides, or that the test's verdict flips between repeats. Conditions, actors,
duration, boxes, map, waypoints and numbers are taken away or made simpler one after the other, in a fixed order, large pieces
first; what still does it is kept, until a whole round takes nothing away. Minimal in this sense: no single one of these steps
makes it smaller. Settings of the simulator stay, but for words in a list (``sources``): under others it is another simulator,
which may part for another reason.

Parting is chance, so «still does it» is a statistical question. The chance d that two repeats differ is measured by pairs of
repeats, which know nothing of each other; for collisions, by single repeats. The original is measured first: with 95 %
confidence its rate is at least d0 (Clopper and Pearson). A candidate is run, pair by pair, until the likelihood of d0 to that
of a quarter of it is above 1/miss or below miss. By Ville's inequality, then, one that does it as often as the original is put
back with a chance of at most ``miss``, and one that does it less than a quarter as often is kept with a chance of at most
``miss``: without the second, a search drifts towards scenarios that part once in a blue moon. Whatever is kept was seen to do
it.
"""

import json
import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from samepath.core.digests import fingerprint
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import make_folder, write_text_atomically
from samepath.instrument import subjects
from samepath.instrument.analysis.verdict import clopper_pearson
from samepath.instrument.progress import display_for
from samepath.instrument.search import SearchFolder, ending_of, parting_tick, search_folder, shortest
from samepath.instrument.study.records import Plan, Scalar
from samepath.instrument.traces.records import EventKind, Repeat
from samepath.scenarios.model import ScenarioSpec, build_scenario, built_in_scenarios, load_scenario

REPEATS: Final = 20
MISS: Final = 0.05
MOST_REPEATS: Final = 1000
# A candidate that is not decided by then is put back.
MOST_RUNS_EACH: Final = 200
# How much rarer it may become before a candidate is not the same thing any more.
RARER: Final = 4.0
_CONFIDENCE: Final = 0.95
_UNDECIDED: Final = "undecided"
_ROUNDS: Final = 6
# How much longer than until the parting a candidate may last, tried in this order.
_LONGER: Final = (1.0, 1.25, 1.5, 2.0)
_LOADS: Final = ("cpu_load", "gpu_load", "memory_load")


class While(StrEnum):
    """What a smaller scenario must still do.

    ``parts``: two repeats differ in any bit. ``collides``: somebody collides, in some repeat. ``verdict-flips``: two repeats
    differ in who collides or why the run ends.
    """

    PARTS = "parts"
    COLLIDES = "collides"
    FLIPS = "verdict-flips"


@dataclass(frozen=True)
class ShrinkCandidate:
    """What is made smaller: the scenario's plain data (None: one in no file of ours), settings, conditions, duration."""

    scenario: Mapping[str, Any] | None
    settings: Mapping[str, Scalar]
    condition: Mapping[str, Scalar]
    duration_s: float | None = None

    @property
    def key(self) -> str:
        return fingerprint(asdict(self))


@dataclass(frozen=True)
class Trial:
    """What came of a candidate. ``tick``: where it parted, or first collided. ``why``: the reason that it could not be run."""

    holds: bool
    runs: int
    seen: int = 0
    tick: int | None = None
    why: str = ""


class RateTest:
    """Decides, observation by observation, whether something happens as often as ``rate``, or ``RARER`` times less often."""

    def __init__(self, rate: float, miss: float) -> None:
        self._steps = math.log(RARER), math.log1p(-rate) - math.log1p(-rate / RARER)
        self._limit = -math.log(miss)
        self._evidence = 0.0

    def add(self, *, seen: bool) -> bool | None:
        """Take in an observation; True: as often, False: not, None: go on."""
        self._evidence += self._steps[0] if seen else self._steps[1]
        return None if abs(self._evidence) < self._limit else self._evidence > 0


@dataclass(frozen=True)
class ShrinkResult:
    """The smallest that was found. ``removed`` says step by step what is gone.

    ``seen_before`` and ``seen``: how many of ``of`` pairs of repeats, or repeats, do it, before and after. ``miss`` is the
    chance, at most, of either mistake about a single candidate; ``undecided`` ones were put back without an answer.
    """

    question: str
    predicate: While
    scenario_file: Path | None
    study_file: Path | None
    removed: tuple[str, ...]
    before: Mapping[str, object]
    after: Mapping[str, object]
    seen_before: int
    seen: int
    of: int
    miss: float
    tried: int
    rejected: int
    undecided: int
    runs: int
    folder: Path

    @property
    def found(self) -> bool:
        """Does the original do it at all?"""
        return self.seen_before > 0

    def words(self) -> tuple[str, ...]:
        """Say it in lines, the answer first."""
        things = "repeats" if self.predicate is While.COLLIDES else "pairs of repeats"
        if not self.found:
            upper = clopper_pearson(0, self.of, _CONFIDENCE)[1]
            return (f"{self.question}: in none of {self.of} {things} (true rate below {upper:.1%}): nothing to shrink.",)
        lines = [f"{self.question}: {self.seen_before} of {self.of} {things}; what is left: {self.seen} of {self.of}."]
        sizes = [name for name in self.before if self.before[name] or self.after.get(name)]
        lines += [f"  {name}: {self.before[name]} -> {self.after.get(name, 'none')}" for name in sizes]
        lines += ["Taken away:", *(f"  {line}" for line in self.removed)] if self.removed else ["Nothing could be taken away."]
        lines.append(
            f"{self.tried} candidates, {self.rejected} of them put back, {self.runs} runs. One that does it as often as the "
            f"original is put back with a chance of at most {self.miss:.1%}; one that does it less than a quarter as often is "
            f"kept with a chance of at most {self.miss:.1%}."
        )
        if self.undecided:
            lines.append(f"{self.undecided} candidates were put back undecided after {MOST_RUNS_EACH} runs.")
        if self.scenario_file is not None:
            lines.append(f"scenario: {self.scenario_file}")
        return (*lines, f"study: {self.study_file}")

    def to_json(self) -> str:
        """Return one JSON object."""
        plain = {**asdict(self), "found": self.found, "words": self.words()}
        return json.dumps(plain, indent=1, default=str)


def shrink(
    what: str,
    *,
    simulator: str | None = None,
    cell: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    predicate: str = While.PARTS,
    repeats: int = REPEATS,
    miss: float = MISS,
    out: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> ShrinkResult:
    """Make a scenario, or the cell of a study, as small as it can be while it still parts, collides or flips its verdict.

    ``repeats`` measure the original and the result. ``out`` is the scenario file to write (``NAME-small.yaml``), beside which a
    study that runs it is written. ``folder`` is where the search remembers (``runs/shrink-NAME``): interrupted, the same call
    goes on.
    """
    if predicate not in list(While):
        raise InputError(f"--while: {', '.join(While)} was wanted, but {predicate!r} came")
    if not 2 <= repeats <= MOST_REPEATS:
        raise InputError(f"2 to {MOST_REPEATS} repeats were wanted, but {repeats} came")
    if not 0 < miss < 1:
        raise InputError(f"--miss: a chance between 0 and 1 was wanted, but {miss} came")
    subject = subjects.subject_of(what, subjects.SubjectChoice(simulator=simulator, cell=cell, settings=dict(settings or {})))
    place = Path("runs") / f"shrink-{subject.name}" if folder is None else Path(folder)
    target = Path(f"{subject.name}-small.yaml") if out is None else Path(out)
    if not target.parent.is_dir() or target.suffix not in (".yaml", ".yml"):
        raise InputError(f"{target}: a YAML file in a folder that is there was wanted; choose another --out")
    first = _first_candidate(subject)
    question = {"verb": "shrink", "subject": subject.fingerprint, "candidate": first.key, "while": str(predicate)}
    with (
        search_folder(place, {**question, "repeats": repeats, "miss": miss}) as memory,
        subjects.SubjectRunner(subject.execution) as runner,
        display_for(progress).steps("shrinking", _guess(first)) as advance,
    ):
        trials = _Trials(subject, While(predicate), memory, runner, lambda name: advance(name, None))
        told = f"{subjects.subject_words(subject)} {_verb(While(predicate))}"
        of = repeats if predicate == While.COLLIDES else repeats // 2
        before = trials.measure(first, of)
        search = _Shrinking(trials, first)
        files: tuple[Path | None, Path | None] = (None, None)
        after = 0
        if before:
            trials.rate, trials.miss = clopper_pearson(before, of, _CONFIDENCE)[0], miss
            search.run()
            after = trials.measure(search.current, of)
            files = _write(target, subject, search.current, repeats, told)
        result = ShrinkResult(
            question=told,
            predicate=While(predicate),
            scenario_file=files[0],
            study_file=files[1],
            removed=tuple(search.removed),
            before=_sizes(first),
            after=_sizes(search.current),
            seen_before=before,
            seen=after,
            of=of,
            miss=miss,
            tried=len(trials.known),
            rejected=sum(not trial.holds for trial in trials.known.values()),
            undecided=sum(trial.why == _UNDECIDED for trial in trials.known.values()),
            runs=trials.total_runs,
            folder=place,
        )
        memory.finish(json.loads(result.to_json()))
    return result


def _verb(predicate: While) -> str:
    return {While.PARTS: "parts", While.COLLIDES: "collides", While.FLIPS: "flips its verdict"}[predicate]


def _first_candidate(subject: Plan) -> ShrinkCandidate:
    cell = subjects.cell_of(subject)
    if cell.scenario not in built_in_scenarios() and not subjects.is_file_of_a_scenario(cell.scenario):
        return ShrinkCandidate(None, cell.settings, cell.condition, subject.duration_s)
    return ShrinkCandidate(_plain(load_scenario(cell.scenario)), cell.settings, cell.condition, subject.duration_s)


def _plain(spec: ScenarioSpec) -> dict[str, Any]:
    """A scenario as its file would have it, without what is left out anyway."""
    data: dict[str, Any] = json.loads(spec.model_dump_json(exclude_defaults=True))
    data.pop("description", None)
    return data


def _sizes(candidate: ShrinkCandidate) -> dict[str, object]:
    sizes: dict[str, object] = {"conditions": len(candidate.condition), "settings": len(candidate.settings)}
    if candidate.scenario is not None:
        spec = build_scenario(candidate.scenario, "scenario")
        sizes |= {"actors": len(spec.actors), "waypoints": sum(len(actor.path) for actor in spec.actors)}
        sizes |= {"boxes": len(spec.boxes), "map": spec.map}
        shorter_s = min(spec.duration, candidate.duration_s or math.inf)
        return {**sizes, "duration": f"{shorter_s:g} s"}
    return sizes if candidate.duration_s is None else {**sizes, "duration": f"{candidate.duration_s:g} s"}


def _guess(candidate: ShrinkCandidate) -> int:
    """About how many candidates there will be, for the bar: twice what can be taken away one by one."""
    actors = (candidate.scenario or {}).get("actors", ())
    return 2 * (
        len(candidate.condition) + len(candidate.settings) + sum(len(actor) + len(actor["path"]) for actor in actors) + 4
    )


class _Trials:
    """Runs candidates until it is known whether they do it, and remembers."""

    def __init__(
        self, subject: Plan, predicate: While, memory: SearchFolder, runner: subjects.SubjectRunner, tell: Callable[[str], None]
    ) -> None:
        self._subject, self._predicate, self._memory, self._runner, self._tell = subject, predicate, memory, runner, tell
        self._first = _first_candidate(subject)
        self._path = memory.place / "trials.jsonl"
        self._stored = _read_lines(self._path)
        self._candidates = make_folder(memory.place / "candidates")
        self.known: dict[str, Trial] = {}
        self.rate, self.miss = 0.5, MISS
        self.total_runs = 0

    def holds(self, candidate: ShrinkCandidate) -> bool:
        return self.trial(candidate).holds

    def trial(self, candidate: ShrinkCandidate) -> Trial:
        """Run a candidate as often as it takes; one that was tried before is not run again."""
        key = candidate.key
        if key not in self.known:
            stored = self._stored.get(f"trial {key}")
            if stored is None:
                trial = self._try(candidate)
                self._remember(f"trial {key}", asdict(trial))
            else:
                trial = Trial(**stored)
            self.known[key] = trial
            self.total_runs += trial.runs
            self._tell(f"{len(self.known)} candidates, {sum(tried.holds for tried in self.known.values())} smaller")
        return self.known[key]

    def measure(self, candidate: ShrinkCandidate, of: int) -> int:
        """Return in how many of so many pairs of repeats, or repeats, it does it."""
        name = f"measure {candidate.key}"
        if name not in self._stored:
            self._remember(name, {"seen": sum(tick is not None for _, tick in self._observe(candidate, of))})
        self.total_runs += of * self._each
        return int(self._stored[name]["seen"])

    @property
    def _each(self) -> int:
        """How many runs an observation takes."""
        return 1 if self._predicate is While.COLLIDES else 2

    def _try(self, candidate: ShrinkCandidate) -> Trial:
        if candidate.scenario is not None:
            try:
                build_scenario(candidate.scenario, "candidate")
            except SamepathError as error:
                return Trial(holds=False, runs=0, why=str(error))
        test = RateTest(self.rate, self.miss)
        seen, runs, first = 0, 0, None
        try:
            for runs, tick in self._observe(candidate, MOST_RUNS_EACH // self._each):
                seen += tick is not None
                first = tick if first is None else first
                decided = test.add(seen=tick is not None)
                if decided is not None:
                    return Trial(decided, runs, seen, first)
        except SamepathError as error:
            # A candidate that cannot be run is no smaller version of anything.
            return Trial(holds=False, runs=runs, seen=seen, why=str(error))
        return Trial(holds=False, runs=runs, seen=seen, why=_UNDECIDED)

    def _observe(self, candidate: ShrinkCandidate, of: int) -> Iterator[tuple[int, int | None]]:
        """Yield, for each pair of repeats or each repeat, how many were run so far, and the tick at which it does it."""
        runs = self._run(candidate, of * self._each)
        try:
            waiting: Repeat | None = None
            for number, run in enumerate(runs, 1):
                if self._predicate is While.COLLIDES:
                    yield number, next((event.tick for event in run.events if event.kind == EventKind.COLLISION), None)
                elif waiting is None:
                    waiting = run
                else:
                    yield number, self._parts(waiting, run)
                    waiting = None
        finally:
            runs.close()

    def _parts(self, a: Repeat, b: Repeat) -> int | None:
        """The tick at which two repeats part, or by which their verdicts have; None where they do not."""
        if self._predicate is While.FLIPS:
            return None if ending_of(a) == ending_of(b) else max(a.end.tick, b.end.tick)
        return parting_tick(a, b)

    @cached_property
    def step_s(self) -> float:
        return subjects.header_for(self._subject).step_s

    def _run(self, candidate: ShrinkCandidate, repeats: int) -> Generator[Repeat]:
        subject = self._subject
        if candidate == self._first:
            return self._runner.run(subject, range(repeats))
        if candidate.scenario is not None:
            path = self._candidates / f"{candidate.key}.yaml"
            path.write_text(to_yaml(candidate.scenario), "utf-8")
            subject = subjects.with_cell(subject, scenario=str(path))
        subject = subjects.with_cell(subject, settings=dict(candidate.settings), condition=dict(candidate.condition))
        subject = replace(subject, duration_s=candidate.duration_s)
        return self._runner.run(subject, range(repeats))

    def _remember(self, name: str, fields: Mapping[str, Any]) -> None:
        self._stored[name] = dict(fields)
        # A line is a fact once it is whole; one that was torn by a kill is left out when it is read, and asked for again.
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, **fields}) + "\n")


def _read_lines(path: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for line in path.read_text("utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            fields = dict(json.loads(line))
            found[str(fields.pop("name"))] = fields
        except (ValueError, TypeError, KeyError):
            continue
    return found


@dataclass
class _Shrinking:
    """The steps. Each makes the current candidate smaller as far as it still does it, and says what went."""

    trials: _Trials
    current: ShrinkCandidate
    removed: list[str] = field(default_factory=list)

    def run(self) -> None:
        # What costs most comes first: loads take seconds to settle, and an actor less makes every later run cheaper.
        steps = (
            self._conditions,
            self._settings,
            self._actors,
            self._duration,
            self._boxes,
            self._map,
            self._waypoints,
            self._attributes,
            self._round,
        )
        for _ in range(_ROUNDS):
            before = self.current
            for step in steps:
                step()
            if self.current == before:
                return

    def _take(self, candidate: ShrinkCandidate, words: str) -> bool:
        """Go on with a candidate if it still does it."""
        if candidate == self.current or not self.trials.holds(candidate):
            return False
        self.current = candidate
        self.removed.append(words)
        return True

    def _keep_some(
        self, items: Sequence[Any], make: Callable[[tuple[Any, ...]], ShrinkCandidate], words: Callable[[Any], str] | str
    ) -> None:
        """Take away as many of some items as possible; ``words`` name each that is gone, or all of them together."""
        kept = shortest(items, lambda some: self.trials.holds(make(some)))
        if len(kept) < len(items):
            self.current = make(kept)
            gone = list(items)
            for item in kept:
                gone.remove(item)
            self.removed += [f"{len(gone)} {words}"] if isinstance(words, str) else [words(item) for item in gone]

    def _conditions(self) -> None:
        def make(some: tuple[tuple[str, Scalar], ...]) -> ShrinkCandidate:
            return replace(self.current, condition=dict(some))

        self._keep_some(list(self.current.condition.items()), make, lambda item: f"condition {item[0]} {item[1]}")
        for name, value in list(self.current.condition.items()):
            lower = [level for level in (0.25, 0.5, 0.75) if level < float(value)] if name in _LOADS else []
            if name == "instances":
                lower = list(range(2, int(value)))
            for level in lower:
                changed = replace(self.current, condition={**self.current.condition, name: level})
                if self._take(changed, f"condition {name}: {value} -> {level}"):
                    break

    def _settings(self) -> None:
        """Shorten lists of words, such as sources of non-determinism; other settings stay what they are."""
        for name, value in list(self.current.settings.items()):
            words = [word.strip() for word in value.split(",")] if isinstance(value, str) else []
            if len(words) < 2:
                continue

            def listed(some: tuple[str, ...], name: str = name) -> ShrinkCandidate:
                return replace(self.current, settings={**self.current.settings, name: ",".join(some)})

            self._keep_some(words, listed, lambda word, name=name: f"{word} of setting {name}")  # type: ignore[misc]

    def _scenario(self, **changes: object) -> ShrinkCandidate:
        data = {**(self.current.scenario or {}), **changes}
        return replace(self.current, scenario={name: value for name, value in data.items() if value is not None})

    def _actors(self) -> None:
        if self.current.scenario is None:
            return

        def make(some: tuple[Mapping[str, Any], ...]) -> ShrinkCandidate:
            return self._scenario(actors=[{**actor, "id": number} for number, actor in enumerate(some, 1)])

        self._keep_some(self.current.scenario["actors"], make, lambda actor: f"actor {actor['id']} ({actor['type']})")

    def _boxes(self) -> None:
        if self.current.scenario is None or not self.current.scenario.get("boxes"):
            return
        boxes = self.current.scenario["boxes"]
        self._keep_some(boxes, lambda some: self._scenario(boxes=list(some) or None), lambda box: f"box {box['name']}")

    def _duration(self) -> None:
        """Cut the run off where it has done it: first half of that, then just that, then a little more."""
        tick = self.trials.trial(self.current).tick
        if tick is None:
            return
        until_s = tick * self.trials.step_s
        for longer in (0.5, *_LONGER):
            changed, words = self._cut(until_s * longer)
            if changed is not None and self._take(changed, words):
                return

    def _cut(self, until_s: float) -> tuple[ShrinkCandidate | None, str]:
        scenario = self.current.scenario
        if scenario is None:
            before_s = self.current.duration_s
            after_s = math.ceil(until_s / self.trials.step_s - 1e-9) * self.trials.step_s
            shorter = after_s > 0 and (before_s is None or after_s < before_s)
            told = "its end" if before_s is None else f"{before_s:g} s"
            return (replace(self.current, duration_s=after_s), f"duration {told} -> {after_s:g} s") if shorter else (None, "")
        spec = build_scenario(scenario, "candidate")
        before_s = min(spec.duration, self.current.duration_s or math.inf)
        after_s = round(max(1, math.ceil(until_s / spec.step - 1e-9)) * spec.step, 9)
        if after_s >= before_s:
            return None, ""
        cut = replace(self._scenario(duration=after_s), duration_s=None)
        return cut, f"duration {before_s:g} s -> {after_s:g} s"

    def _map(self) -> None:
        scenario = self.current.scenario
        if scenario is not None and scenario.get("map", "flat") != "flat":
            self._take(self._scenario(map=None), f"map {scenario['map']} (flat ground)")

    def _waypoints(self) -> None:
        for number in range(len((self.current.scenario or {}).get("actors", ()))):
            actors = list((self.current.scenario or {})["actors"])
            first, *others = actors[number]["path"]
            if len(others) < 2:
                continue

            def make(some: tuple[Any, ...], number: int = number, first: Any = first) -> ShrinkCandidate:  # noqa: ANN401 - a point
                changed = [dict(actor) for actor in (self.current.scenario or {})["actors"]]
                changed[number]["path"] = [first, *some]
                return self._scenario(actors=changed)

            self._keep_some(others, make, f"waypoints of what is actor {number + 1} now")

    def _attributes(self) -> None:
        """Give up what is said and not needed: the default takes its place."""
        if self.current.scenario is None:
            return
        for name in ("end", "substeps", "step"):
            if name in self.current.scenario:
                self._take(self._scenario(**{name: None}), f"{name} (its default)")
        for number, actor in enumerate(self.current.scenario["actors"]):
            for name in [key for key in actor if key not in ("id", "type", "path", "controller", "process")]:
                actors = [dict(listed) for listed in self.current.scenario["actors"]]
                value = actors[number].pop(name, None)
                self._take(self._scenario(actors=actors), f"{name} {value} of what is actor {number + 1} now (its default)")

    def _round(self) -> None:
        """Round numbers: whole metres are easier to read than hundredths."""
        for number in range(len((self.current.scenario or {}).get("actors", ()))):
            for digits in (0, 1):
                actors = [dict(listed) for listed in (self.current.scenario or {})["actors"]]
                rounded = [[round(value, digits) for value in point] for point in actors[number]["path"]]
                if rounded == actors[number]["path"]:
                    break
                actors[number]["path"] = rounded
                if self._take(self._scenario(actors=actors), f"decimals in the path of what is actor {number + 1} now"):
                    break


def to_yaml(data: Mapping[str, Any]) -> str:
    """Write plain data as YAML that people read: short lists in one line, keys in their order."""
    return yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def _write(target: Path, subject: Plan, small: ShrinkCandidate, repeats: int, told: str) -> tuple[Path | None, Path]:
    """Write the scenario, and a study beside it that runs it as it was run."""
    cell = subjects.cell_of(subject)
    scenario = cell.scenario
    file: Path | None = None
    if small.scenario is not None:
        data = {"name": f"{subject.name}-small", "description": f"the smallest of {told} that was found"}
        write_text_atomically(target, to_yaml({**data, **{k: v for k, v in small.scenario.items() if k != "name"}}))
        file, scenario = target, str(target)
    design: dict[str, object] = {"simulators": cell.simulator, "scenarios": scenario, "repeats": repeats, "seed": subject.seed}
    if small.duration_s is not None:
        design["duration"] = f"{small.duration_s:g} s"
    study: dict[str, object] = {"name": f"{subject.name}-small", "description": f"the smallest of {told} that was found"}
    study["design"] = design
    study |= {"settings": dict(small.settings)} if small.settings else {}
    study |= {"conditions": dict(small.condition)} if small.condition else {}
    if "isolation" not in small.condition:
        study["execution"] = {"isolation": subject.execution.isolation.value}
    beside = target.with_name(f"{target.stem}-study.yaml")
    write_text_atomically(beside, to_yaml(study))
    return file, beside
