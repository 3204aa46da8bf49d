"""Shrink: the smallest scenario that still does it, as Hypothesis shrinks the input of a failing test.

*It* is that repeats part, that somebody collides, or that the test's verdict flips between repeats. Conditions, settings,
actors, duration, boxes, map, waypoints and numbers are taken away or made simpler one after the other, in a fixed order, large
pieces first; what still does it is kept, until a whole round takes nothing away. The result is minimal in this sense: no single
one of these steps makes it smaller.

Parting is chance, so «still does it» is a statistical question with one easy side. Two repeats that differ *prove* that a
candidate parts: it is never kept by mistake. One whose n repeats are all equal may part all the same. If a single repeat is
in one of several outcomes, the likeliest of which has the share q, then all n are equal with a chance of at most q^(n-1). The
original is measured first; with 95 % confidence its q is at most 1 - p (Clopper and Pearson), and n is chosen so that a
candidate that parts as often as the original is overlooked with a chance of at most ``miss``. A candidate is stopped at its
first two repeats that differ, so that most cost two runs, not n.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml

from samepath.core.digests import fingerprint
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import make_folder, write_text_atomically
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.verdict import clopper_pearson
from samepath.instrument.pairs import ending_of
from samepath.instrument.progress import display_for
from samepath.instrument.search import shortest
from samepath.instrument.search_folder import SearchFolder, search_folder
from samepath.instrument.study.records import Plan, Scalar
from samepath.instrument.subjects import (
    Choice,
    SubjectRunner,
    cell_of,
    header_for,
    is_file_of_a_scenario,
    subject_of,
    subject_words,
    with_cell,
)
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.records import EventKind, Header, Repeat
from samepath.scenarios.model import ScenarioSpec, build_scenario, built_in_scenarios, load_scenario

REPEATS: Final = 20
MISS: Final = 0.01
MOST_REPEATS: Final = 200
_CONFIDENCE: Final = 0.95
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
    tick: int | None = None
    why: str = ""


@dataclass(frozen=True)
class ShrinkResult:
    """The smallest that was found. ``removed`` says step by step what is gone.

    ``rate`` and ``rate_before`` are of ``repeats`` repeats each: how many are not of the largest outcome, or collide.
    """

    question: str
    scenario_file: Path | None
    study_file: Path | None
    removed: tuple[str, ...]
    before: Mapping[str, object]
    after: Mapping[str, object]
    rate_before: int
    rate: int
    repeats: int
    runs_each: int
    miss: float
    tried: int
    rejected: int
    runs: int
    folder: Path

    @property
    def found(self) -> bool:
        """Does the original do it at all?"""
        return self.rate_before > 0

    def words(self) -> tuple[str, ...]:
        """Say it in lines, the answer first."""
        seen = f"{self.rate_before} of {self.repeats} repeats"
        if not self.found:
            upper = clopper_pearson(0, self.repeats, _CONFIDENCE)[1]
            return (f"{self.question}: in none of {self.repeats} repeats (true rate below {upper:.1%}): nothing to shrink.",)
        lines = [f"{self.question}: {seen}; what is left does it in {self.rate} of {self.repeats}."]
        lines += [f"  {name}: {self.before[name]} -> {self.after[name]}" for name in self.before if name in self.after]
        lines += ["Taken away:", *(f"  {line}" for line in self.removed)] if self.removed else ["Nothing could be taken away."]
        chance = f"{self.miss:.2g}"
        lines.append(
            f"{self.tried} candidates, {self.runs} runs. What is left was seen to do it. Each of the {self.rejected} that were "
            f"put back had up to {self.runs_each} runs: one that does it as often as the original is overlooked with a "
            f"chance of at most {chance}."
        )
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
    subject = subject_of(what, Choice(simulator=simulator, cell=cell, settings=dict(settings or {})))
    place = Path("runs") / f"shrink-{subject.name}" if folder is None else Path(folder)
    target = Path(f"{subject.name}-small.yaml") if out is None else Path(out)
    if not target.parent.is_dir() or target.suffix not in (".yaml", ".yml"):
        raise InputError(f"{target}: a YAML file in a folder that is there was wanted; choose another --out")
    first = _first_candidate(subject)
    question = {"verb": "shrink", "subject": subject.fingerprint, "candidate": first.key, "while": str(predicate)}
    with (
        search_folder(place, {**question, "repeats": repeats, "miss": miss}) as memory,
        SubjectRunner(subject.execution) as runner,
        display_for(progress).steps("shrinking", _guess(first)) as advance,
    ):
        trials = _Trials(subject, While(predicate), memory, runner, lambda name: advance(name, None))
        told = f"{subject_words(subject)} {_verb(While(predicate))}"
        rate_before = trials.measure(first, repeats)
        if not rate_before:
            result = ShrinkResult(told, None, None, (), {}, {}, 0, 0, repeats, repeats, miss, 1, 0, repeats, place)
        else:
            trials.runs_each, chance = runs_needed(rate_before, repeats, miss, While(predicate))
            search = _Shrinking(trials, first)
            search.run()
            small = search.current
            rate = trials.measure(small, repeats)
            files = _write(target, subject, small, repeats, told)
            result = ShrinkResult(
                question=told,
                scenario_file=files[0],
                study_file=files[1],
                removed=tuple(search.removed),
                before=_sizes(first),
                after=_sizes(small),
                rate_before=rate_before,
                rate=rate,
                repeats=repeats,
                runs_each=trials.runs_each,
                miss=chance,
                tried=len(trials.known),
                rejected=sum(not trial.holds for trial in trials.known.values()),
                runs=trials.total_runs,
                folder=place,
            )
        memory.finish(json.loads(result.to_json()))
    return result


def runs_needed(divergent: int, repeats: int, miss: float, predicate: While) -> tuple[int, float]:
    """Return how many runs a candidate gets, and the chance that one like the original is overlooked with that many."""
    rate = clopper_pearson(divergent, repeats, _CONFIDENCE)[0]
    # Of parting, the first run only sets what the others are held against.
    free = 0 if predicate is While.COLLIDES else 1
    needed = min(MOST_REPEATS, free + max(1, math.ceil(math.log(miss) / math.log1p(-rate))))
    return needed, (1 - rate) ** (needed - free)


def _verb(predicate: While) -> str:
    return {While.PARTS: "parts", While.COLLIDES: "collides", While.FLIPS: "flips its verdict"}[predicate]


def _first_candidate(subject: Plan) -> ShrinkCandidate:
    cell = cell_of(subject)
    if cell.scenario not in built_in_scenarios() and not is_file_of_a_scenario(cell.scenario):
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
        self, subject: Plan, predicate: While, memory: SearchFolder, runner: SubjectRunner, tell: Callable[[str], None]
    ) -> None:
        self._subject, self._predicate, self._memory, self._runner, self._tell = subject, predicate, memory, runner, tell
        self._first = _first_candidate(subject)
        self._path = memory.place / "trials.jsonl"
        self._stored = _read_lines(self._path)
        self._candidates = make_folder(memory.place / "candidates")
        self.known: dict[str, Trial] = {}
        self.runs_each = MOST_REPEATS
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
            self._tell(f"{len(self.known)} candidates, {sum(one.holds for one in self.known.values())} smaller")
        return self.known[key]

    def measure(self, candidate: ShrinkCandidate, repeats: int) -> int:
        """Return in how many of so many repeats it does it: repeats that are not of the largest outcome, or that collide."""
        name = f"measure {candidate.key}"
        if name not in self._stored:
            runs = list(self._run(candidate, repeats))
            kinds = [self._kind(run) for run in runs]
            colliding = self._predicate is While.COLLIDES
            found = sum(map(bool, kinds)) if colliding else len(kinds) - max(map(kinds.count, kinds))
            self._remember(name, {"found": found})
        self.total_runs += repeats
        return int(self._stored[name]["found"])

    def _try(self, candidate: ShrinkCandidate) -> Trial:
        if candidate.scenario is not None:
            try:
                build_scenario(candidate.scenario, "candidate")
            except SamepathError as error:
                return Trial(holds=False, runs=0, why=str(error))
        done: list[Repeat] = []
        runs = self._run(candidate, self.runs_each)
        try:
            for run in runs:
                done.append(run)
                tick = self._shown(done)
                if tick is not None:
                    return Trial(holds=True, runs=len(done), tick=tick)
        except SamepathError as error:
            # A candidate that cannot be run is no smaller version of anything.
            return Trial(holds=False, runs=len(done), why=str(error))
        finally:
            runs.close()
        return Trial(holds=False, runs=len(done))

    def _shown(self, done: Sequence[Repeat]) -> int | None:
        """Return the tick at which the newest run shows it; None where it does not, yet."""
        run = done[-1]
        if self._predicate is While.COLLIDES:
            return next((event.tick for event in run.events if event.kind == EventKind.COLLISION), None)
        if self._kind(run) == self._kind(done[0]):
            return None
        if self._predicate is While.FLIPS:
            return max(done[0].end.tick, run.end.tick)
        pair = MemoryCell(self._header(run), [replace(done[0], repeat=0), replace(run, repeat=1)])
        first = analyse_cell(pair).first_divergence
        return run.end.tick if first is None else first.tick

    def _kind(self, run: Repeat) -> object:
        if self._predicate is While.COLLIDES:
            return any(event.kind == EventKind.COLLISION for event in run.events)
        return run.digest if self._predicate is While.PARTS else ending_of(run)

    def _header(self, run: Repeat) -> Header:
        return replace(header_for(self._subject), channels=run.channels)

    @property
    def step_s(self) -> float:
        return header_for(self._subject).step_s

    def _run(self, candidate: ShrinkCandidate, repeats: int) -> "_Closing":
        subject = self._subject
        if candidate == self._first:
            return _Closing(self._runner.run(subject, range(repeats)))
        if candidate.scenario is not None:
            path = self._candidates / f"{candidate.key}.yaml"
            write_text_atomically(path, to_yaml(candidate.scenario))
            subject = with_cell(subject, scenario=str(path))
        subject = with_cell(subject, settings=dict(candidate.settings), condition=dict(candidate.condition))
        subject = replace(subject, duration_s=candidate.duration_s)
        return _Closing(self._runner.run(subject, range(repeats)))

    def _remember(self, name: str, fields: Mapping[str, Any]) -> None:
        self._stored[name] = dict(fields)
        # A line is a fact once it is whole; one that was torn by a kill is left out when it is read, and asked for again.
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, **fields}) + "\n")


class _Closing:
    """An iterator over runs that can be closed before its end, which ends what still runs."""

    def __init__(self, runs: Iterator[Repeat]) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[Repeat]:
        return self._runs

    def close(self) -> None:
        close = getattr(self._runs, "close", None)
        if close is not None:
            close()


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
        self, items: Sequence[Any], make: Callable[[tuple[Any, ...]], ShrinkCandidate], words: Callable[[Any], str]
    ) -> None:
        """Take away as many of some items as possible."""
        kept = shortest(items, lambda some: self.trials.holds(make(some)))
        if len(kept) < len(items):
            self.current = make(kept)
            gone = list(items)
            for item in kept:
                gone.remove(item)
            self.removed += [words(item) for item in gone]

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
        def make(some: tuple[tuple[str, Scalar], ...]) -> ShrinkCandidate:
            return replace(self.current, settings=dict(some))

        self._keep_some(
            list(self.current.settings.items()), make, lambda item: f"setting {item[0]} {item[1]} (its default again)"
        )
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

            self._keep_some(others, make, lambda point, number=number: f"waypoint {point} of actor {number + 1}")  # type: ignore[misc]

    def _attributes(self) -> None:
        """Give up what is said and not needed: the default takes its place."""
        if self.current.scenario is None:
            return
        for name in ("end", "substeps", "step"):
            if name in self.current.scenario:
                self._take(self._scenario(**{name: None}), f"{name} (its default)")
        for number, actor in enumerate(self.current.scenario["actors"]):
            for name in [key for key in actor if key not in ("id", "type", "path", "controller", "process")]:
                actors = [dict(one) for one in self.current.scenario["actors"]]
                value = actors[number].pop(name, None)
                self._take(self._scenario(actors=actors), f"{name} {value} of actor {number + 1} (its default)")

    def _round(self) -> None:
        """Round numbers: whole metres are easier to read than hundredths."""
        for number in range(len((self.current.scenario or {}).get("actors", ()))):
            for digits in (0, 1):
                actors = [dict(one) for one in (self.current.scenario or {})["actors"]]
                rounded = [[round(value, digits) for value in point] for point in actors[number]["path"]]
                if rounded == actors[number]["path"]:
                    break
                actors[number]["path"] = rounded
                if self._take(self._scenario(actors=actors), f"decimals of the path of actor {number + 1}"):
                    break


def to_yaml(data: Mapping[str, Any]) -> str:
    """Write plain data as YAML that people read: short lists in one line, keys in their order."""
    return yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def _write(target: Path, subject: Plan, small: ShrinkCandidate, repeats: int, told: str) -> tuple[Path | None, Path]:
    """Write the scenario, and a study beside it that runs it as it was run."""
    cell = cell_of(subject)
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
