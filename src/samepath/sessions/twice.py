"""Does a script take the same path twice, and if not: the script or the simulator, which call, why, and what to change."""

import json
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from samepath.core.errors import InputError, printable
from samepath.sessions.causes import BEGINNING, SIMULATOR, UNKNOWN, describe
from samepath.sessions.compare import DifferenceKind, SessionComparison, SessionSource, compare_timelines
from samepath.sessions.investigation import CauseFinding, Investigation, unknown_from_calls
from samepath.sessions.recording import read_session
from samepath.sessions.script_runs import Pins, ScriptRun, ScriptRunner, TwiceSettings
from samepath.sessions.timeline import Timeline, timeline_of

RUNS_MOST: Final = 1000


@dataclass(frozen=True)
class TwiceReport:
    """What came of it. ``outcomes`` are groups of runs that are the same; ``first_difference`` is as in the JSON."""

    same: bool
    runs: int
    source: SessionSource
    cause: str
    first_difference: dict[str, Any] | None
    difference_words: str
    evidence: tuple[str, ...]
    advice: str
    other_causes: tuple[str, ...]
    outcomes: tuple[tuple[int, ...], ...]
    exit_codes: tuple[int | None, ...]
    ticks: int
    calls: int
    notes: tuple[str, ...]
    command: tuple[str, ...] = ()

    @property
    def kind_of_cause(self) -> str:
        """The cause in the words of ``samepath explain``, which knows runs and not scripts.

        A call that differs is a command of another value; the same call at another tick is a late one. That states or
        measurements differ after the same calls is the simulator's doing.
        """
        if self.same:
            return "none"
        if self.source is SessionSource.UNKNOWN:
            return "unknown"
        if self.source is SessionSource.SIMULATOR:
            return "sensor-data" if (self.first_difference or {}).get("kind") == DifferenceKind.SENSOR else "simulator"
        return "late-command" if (self.first_difference or {}).get("kind") == DifferenceKind.ARRIVAL else "command-value"

    def to_json(self) -> str:
        """One JSON object; keys stay as they are."""
        content = {
            "same": self.same,
            "runs": self.runs,
            "source": str(self.source),
            "cause": self.cause,
            "first_difference": self.first_difference,
            "evidence": list(self.evidence),
            "advice": self.advice,
            "other_causes": list(self.other_causes),
            "outcomes": [list(group) for group in self.outcomes],
            "exit_codes": list(self.exit_codes),
            "ticks_compared": self.ticks,
            "calls_compared": self.calls,
            "notes": list(self.notes),
            "command": list(self.command),
        }
        return json.dumps(content, indent=1, allow_nan=False, default=str)

    def words(self) -> str:
        """The same for people."""
        lines = [_verdict(self)]
        if self.difference_words:
            lines += ["", f"First difference. {self.difference_words}"]
            at = self.first_difference or {}
            if at.get("line"):
                lines.append(f"  made at {at['line']}: {at['code']}" if at.get("code") else f"  made at {at['line']}")
            if self.source is SessionSource.SCRIPT and at.get("kind") == DifferenceKind.CALL:
                lines.append("Until then all calls, answers, states and measurements were the same.")
        if not self.same:
            lines += ["", f"Cause: {self.cause}"]
            lines += [f"  - {line}" for line in self.evidence]
            lines += [f"Also: {other}" for other in self.other_causes]
            lines += ["", f"What to change: {self.advice}"] if self.advice else []
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(lines)


def _verdict(report: TwiceReport) -> str:
    if report.same:
        compared = f"{report.calls} calls, {report.ticks} ticks"
        return f"The same: {report.runs} of {report.runs} runs ({compared}), to the bit."
    groups = len(report.outcomes)
    head = f"Not the same: {report.runs} runs, {groups} different outcomes." if groups > 1 else "Not the same."
    return {
        SessionSource.SCRIPT: f"{head} The source is the script.",
        SessionSource.SIMULATOR: f"{head} The source is the simulator.",
        SessionSource.UNKNOWN: f"{head} Whether script or simulator is the source cannot be told.",
        SessionSource.NONE: head,
    }[report.source]


def twice(
    command: Sequence[str],
    runs: int = 2,
    *,
    server: str | None = None,
    map_name: str = "t-junction",
    port: int | None = None,
    timeout_s: float = 600.0,
    keep: str | Path | None = None,
    loads: dict[str, float] | None = None,
    sources: Sequence[str] = (),
    maps: Sequence[str | Path] = (),
    protocol: str | None = None,
    investigate: bool = True,
    pinned_runs: int = 3,
    tries: int = 3,
    log: Callable[[str], None] = lambda _: None,
) -> TwiceReport:
    """Run a CARLA script ``runs`` times, unchanged, against a fresh server each, and compare what happened.

    ``command`` is the script with its interpreter and arguments, such as ``["python", "drive.py"]``. It finds the server
    through CARLA_HOST and CARLA_PORT in its environment, or at port 2000 where that is free. ``server`` (HOST:PORT) takes a
    server that runs already, and loads its map anew before each run. ``loads`` holds the machine at shares such as
    ``{"cpu_load": 0.75}``.
    ``maps`` are folders of OpenDRIVE files that the fresh servers offer, ``protocol`` is the version of CARLA that they speak.
    ``sources`` makes the fresh servers non-deterministic on purpose (``unseeded-random``), to see what that looks like.
    ``investigate``: if the script is the source, run it some 20 times more to find out why. ``tries``: other values of each
    input that are tried; a rare cause needs more.
    """
    if not command:
        raise InputError("twice: a script to run was wanted, but none came: samepath twice -- python my_script.py")
    if not 2 <= runs <= RUNS_MOST:
        raise InputError(f"twice: 2 to {RUNS_MOST} runs were wanted, but {runs} came")
    if not 1 <= tries <= RUNS_MOST:
        raise InputError(f"twice: expected 1 to {RUNS_MOST} tries, got {tries}")
    if not 0 < timeout_s <= 86400 * 7:
        raise InputError(f"twice: a time-out of more than 0 s and at most a week was wanted, but {timeout_s:g} came")
    folder = Path(keep) if keep is not None else None
    if sources and server is not None:
        raise InputError("twice: sources of non-determinism are those of a fresh server: leave out either --source or --server")
    if (maps or protocol) and server is not None:
        raise InputError("twice: a server that runs already has its maps and its version: leave out --maps and --protocol")
    told = tuple(map(str, command))
    given = TwiceSettings(
        told,
        server,
        map_name,
        "127.0.0.1",
        port,
        timeout_s,
        folder,
        loads,
        tuple(sources),
        tuple(map(Path, maps)),
        protocol,
    )
    with ScriptRunner(given, log) as runner:
        done = []
        for number in range(1, runs + 1):
            log(f"run {number} of {runs}")
            done.append(runner.run(f"run-{number}"))
            _check(done[-1], number, runner)
        return _judged(done, given, runner, log, investigate=investigate, pinned_runs=pinned_runs, tries=tries)


def _check(run: ScriptRun, number: int, runner: ScriptRunner) -> None:
    if not run.timeline.calls:
        said = f"; it said last: {run.last_line}" if run.last_line else ""
        where = f"port {runner.port}" if runner.port else "the port in CARLA_PORT"
        raise InputError(
            f"run {number}: the script {run.ended} and never called the server: it should connect to {where}, or take "
            f"CARLA_HOST and CARLA_PORT from its environment{said}"
        )
    # Only of the first run: a script that has ended in one run and hangs in another is a finding, not a short time-out.
    if run.exit_code is None and number == 1:
        raise InputError(
            f"the script did not end within {runner.settings.timeout_s:g} s and was stopped: give it longer with --timeout, or "
            "let it end by itself"
        )


def _judged(
    done: list[ScriptRun],
    given: TwiceSettings,
    runner: ScriptRunner,
    log: Callable[[str], None],
    *,
    investigate: bool,
    pinned_runs: int,
    tries: int,
) -> TwiceReport:
    comparisons = [compare_timelines(done[0].timeline, run.timeline) for run in done[1:]]
    outcomes = _outcomes([run.timeline for run in done], [run.exit_code for run in done])
    notes = list(dict.fromkeys(note for comparison in comparisons for note in comparison.notes))
    codes = tuple(run.exit_code for run in done)
    if len(set(codes)) == 1 and codes[0] != 0:
        notes.append(f"the script {done[0].ended} in every run; it said last: {done[0].last_line}")
    elif len(set(codes)) > 1:
        notes += [f"run {number}: the script {run.ended}" for number, run in enumerate(done, 1)]
    parted = _first_parted(comparisons)
    if parted is None:
        return _undivided(done, comparisons, outcomes, codes, notes, given)
    other, comparison = parted
    findings: list[CauseFinding] = []
    source = comparison.source
    if codes[other] is None and comparison.difference is not None and None in comparison.difference.calls:
        source = SessionSource.UNKNOWN  # it was stopped: that it made no more calls is our doing
    if source is SessionSource.SCRIPT and investigate:
        from samepath.instrument.conditions.applicable import attempt

        addresses = attempt("aslr", False) is None

        def run(label: str, pins: Pins) -> ScriptRun:
            return runner.run(label, pins)

        investigation = Investigation(run, done[0], comparison, log, pinned_runs=pinned_runs, addresses=addresses, tries=tries)
        findings = investigation.findings()
        notes += investigation.notes
    return _report(len(done), other, comparison, source, findings, outcomes, codes, notes, given.command)


def compare_recorded(*recordings: str | Path) -> TwiceReport:
    """Compare recordings that ``samepath proxy`` or ``samepath twice --keep`` wrote: script or simulator?"""
    if len(recordings) < 2:
        raise InputError("two recordings at least were wanted: --recorded ONE --recorded OTHER")
    timelines = [timeline_of(read_session(Path(path))) for path in recordings]
    comparisons = [compare_timelines(timelines[0], other) for other in timelines[1:]]
    outcomes = _outcomes(timelines, [0] * len(timelines))
    notes = list(dict.fromkeys(note for comparison in comparisons for note in comparison.notes))
    parted = _first_parted(comparisons)
    if parted is None:
        ticks, calls = max(c.ticks for c in comparisons), max(c.calls for c in comparisons)
        whole = all(comparison.complete for comparison in comparisons)
        return TwiceReport(
            same=whole,
            runs=len(timelines),
            source=SessionSource.NONE if whole else SessionSource.UNKNOWN,
            cause="none" if whole else "a recording is cut off: what it holds is the same",
            first_difference=None,
            difference_words="",
            evidence=(),
            advice="" if whole else "record the session again, to its end",
            other_causes=(),
            outcomes=outcomes,
            exit_codes=(),
            ticks=ticks,
            calls=calls,
            notes=tuple(notes),
        )
    other, comparison = parted
    findings: list[CauseFinding] = []
    if comparison.source is SessionSource.SCRIPT:
        findings = [_from_recordings(timelines[0], comparison)]
    return _report(len(timelines), other, comparison, comparison.source, findings, outcomes, (), notes, ())


def _from_recordings(timeline: Timeline, comparison: SessionComparison) -> CauseFinding:
    """Return what calls alone show; without the script no experiment can be made."""
    if comparison.difference is None:
        raise ValueError("expected a difference, got none")
    return unknown_from_calls(
        comparison.difference,
        lanes=timeline.lanes,
        manager=timeline.traffic_managers > 0,
        is_crossed=comparison.crossed,
        advice="to find out why, run the script itself: samepath twice -- python my_script.py",
    )


def _undivided(
    done: list[ScriptRun],
    comparisons: list[SessionComparison],
    outcomes: tuple[tuple[int, ...], ...],
    codes: tuple[int | None, ...],
    notes: list[str],
    given: TwiceSettings,
) -> TwiceReport:
    """All sessions are the same; the scripts' ends may still differ."""
    same = len(set(codes)) == 1
    ends = {"kind": "exit", "values": list(codes)}
    return TwiceReport(
        same=same,
        runs=len(done),
        source=SessionSource.NONE if same else SessionSource.SCRIPT,
        cause="none" if same else "the script ended otherwise after the same session",
        first_difference=None if same else ends,
        difference_words="" if same else f"The script's exit codes are {', '.join(map(str, codes))}.",
        evidence=() if same else ("all calls, answers, states and measurements were the same to the end",),
        advice="" if same else "look at what the script does after its last call",
        other_causes=(),
        outcomes=outcomes,
        exit_codes=codes,
        ticks=max(comparison.ticks for comparison in comparisons),
        calls=max(comparison.calls for comparison in comparisons),
        notes=tuple(notes),
        command=given.command,
    )


def _first_parted(comparisons: list[SessionComparison]) -> tuple[int, SessionComparison] | None:
    """The comparison that parts earliest, and the number of its run counted from 0."""
    parted = [(number, found) for number, found in enumerate(comparisons, 1) if found.difference is not None]

    def key(item: tuple[int, SessionComparison]) -> tuple[int, int, int]:
        difference = item[1].difference
        tick = -1 if difference is None or difference.tick is None else difference.tick
        return tick, (difference.calls[0] or 0) if difference is not None else 0, item[0]

    return min(parted, key=key) if parted else None


def _outcomes(timelines: list[Timeline], codes: list[int | None]) -> tuple[tuple[int, ...], ...]:
    """Runs that are the same, in groups, each compared with the first of a group."""
    groups: list[list[int]] = []
    for number, timeline in enumerate(timelines):
        for group in groups:
            same_end = codes[group[0]] == codes[number]
            if same_end and compare_timelines(timelines[group[0]], timeline).difference is None:
                group.append(number)
                break
        else:
            groups.append([number])
    return tuple(tuple(number + 1 for number in group) for group in groups)


def _report(
    runs: int,
    other: int,
    comparison: SessionComparison,
    source: SessionSource,
    findings: list[CauseFinding],
    outcomes: tuple[tuple[int, ...], ...],
    codes: tuple[int | None, ...],
    notes: list[str],
    command: tuple[str, ...],
) -> TwiceReport:
    difference = comparison.difference
    if difference is None:
        raise ValueError("a difference was wanted")
    cause = {SessionSource.SIMULATOR: SIMULATOR}.get(source, UNKNOWN)
    if difference.kind is DifferenceKind.BEGINNING:
        cause = BEGINNING
    evidence: tuple[str, ...] = ()
    first = findings[0] if findings else None
    if first is not None:
        cause, evidence = first.cause, first.evidence
    elif source is SessionSource.SIMULATOR:
        evidence = ("until then both runs made the same calls at the same ticks and had the same answers and states",)
    name = cause.name
    if first is not None and first.place is not None:
        name += f" ({first.place})"
    caller = first.caller if first is not None else None
    at = {
        "kind": str(difference.kind),
        "runs": [1, other + 1],
        "synchronous": difference.synchronous,
        "tick": difference.tick,
        "frames": list(difference.frames),
        "connection": difference.connection,
        "calls": list(difference.calls),
        "method": difference.method or None,
        "actor": difference.actor,
        "actor_type": difference.actor_type or None,
        "field": difference.field or None,
        "values": [_json_value(value) for value in difference.values],
        "fields": list(difference.fields),
        "line": str(caller.place) if caller is not None else None,
        "code": _code(caller.place.file, caller.place.line) if caller is not None else None,
        "thread": caller.thread if caller is not None else None,
    }
    return TwiceReport(
        same=False,
        runs=runs,
        source=source,
        cause=name,
        first_difference=at,
        difference_words=describe(difference, (1, other + 1)),
        evidence=evidence,
        advice=cause.advice,
        other_causes=tuple(f"{finding.cause.name}: {'; '.join(finding.evidence)}" for finding in findings[1:]),
        outcomes=outcomes,
        exit_codes=codes,
        ticks=comparison.ticks,
        calls=comparison.calls,
        notes=tuple(notes),
        command=command,
    )


def _json_value(value: Any) -> Any:  # noqa: ANN401 - any value of a call
    """A value as JSON can say it; a number that is none is said in words."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value if isinstance(value, int | float | bool | None) else printable(str(value))[:500]


def _code(file: str, line: int) -> str | None:
    return printable(linecache.getline(file, line).strip())[:200] or None
