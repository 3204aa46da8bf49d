"""The experiment behind a cause: change one input at a time, hold it, and test both against fresh runs.

1. A few runs with all inputs *pinned*: the order of hashes, memory addresses, what ``random`` draws, the clock, the traffic
   manager's mode and seed. If they still diverge and several threads call CARLA, the order of these calls is pinned too.
2. If pinned runs are the same: a few runs for each input in which it alone has another value, until one diverges as the
   compared runs did. For random numbers and the clock, the same with the values of one line alone.
3. Such an input is only a suspect: a rare difference may have come by chance. Two exact tests with fresh runs in random order
   (``trials.py``) follow. *Changed alone*: with all else pinned, runs with the other value diverge from the pinned ones and
   runs without it do not. *Held alone*: the same with nothing else pinned. An input that passes both is the cause.

All hypotheses together name a wrong cause in at most 5 % of investigations. Everything else is ``unknown``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from samepath.core.streams import unseeded
from samepath.sessions.causes import (
    CAUSES,
    ONE_CLIENT,
    ONE_THREAD,
    SYNCHRONOUS,
    SYNCHRONOUS_MANAGER,
    Place,
    ScriptCause,
    ScriptFactor,
    WatchedCall,
    Witness,
    caller_of,
    places,
    same_per_thread,
    unknown,
)
from samepath.sessions.compare import DifferenceKind, SessionComparison, SessionDifference, compare_timelines
from samepath.sessions.script_runs import Pins, ScriptRun
from samepath.sessions.trials import ERROR, TrialResult, error_of, run_trial

# Two strings in a set come out in the same order in one process of two, so hash order gets twice as many values.
_MORE_TRIES: Final = {ScriptFactor.HASH: 2}
_MAX_LINES: Final = 6
# About what a loop that ticks takes between two readings, so that one which runs for a minute does not run for an hour.
_CLOCK: Final = (1_700_000_000.0, 0.01)
# Calls that the watched interpreter does not put in order: they wait for other threads, or only begin to listen.
_UNORDERED: Final = ("wait_for_tick", "on_tick", "listen", "stop")

RunScript = Callable[[str, Pins], ScriptRun]


@dataclass(frozen=True)
class CauseFinding:
    """A cause with its evidence, the line of the script that does it, and the line of the call that differed first."""

    cause: ScriptCause
    evidence: tuple[str, ...]
    place: Place | None = None
    caller: WatchedCall | None = None


@dataclass(frozen=True)
class _Suspect:
    """An input of which a run with another value diverged: that value, what is held instead, and the line if one is enough.

    ``changed`` and ``held`` are complete pins; ``changed_alone`` and ``held_alone`` are the same two with nothing else pinned.
    """

    factor: ScriptFactor
    changed: Pins
    held: Pins
    changed_alone: Pins
    held_alone: Pins
    run: ScriptRun
    found: SessionDifference
    line: Place | None = None


def all_pinned(*, addresses: bool, manager: bool) -> Pins:
    """Return pins for everything; a traffic manager is pinned only if the script has one."""
    return Pins(0, addresses, 0, _CLOCK, manager_synchronous=manager, manager_seed=0 if manager else None)


def varied(pins: Pins, factor: ScriptFactor, number: int) -> Pins:
    """Return the same pins with another value of one thing; ``number`` counts from 1."""
    clock = (_CLOCK[0] + 298_765.432198 * number, _CLOCK[1] * (1.0 + 0.37 * number))
    changes: dict[ScriptFactor, Pins] = {
        ScriptFactor.HASH: replace(pins, hash_seed=number),
        ScriptFactor.ADDRESSES: replace(pins, addresses=False),
        ScriptFactor.RANDOM: replace(pins, random=number),
        ScriptFactor.CLOCK: replace(pins, clock=clock),
        ScriptFactor.MANAGER_MODE: replace(pins, manager_synchronous=False),
        ScriptFactor.MANAGER_SEED: replace(pins, manager_seed=number),
        ScriptFactor.ORDER: replace(pins, order=None),
    }
    return changes[factor]


# Other hashes lay out memory otherwise, so that addresses can only be held together with them. An unsynchronised manager never
# repeats, whatever its seed; and to seed it is a call, which a run must make to equal the pinned ones.
_PINS_OF: Final[dict[ScriptFactor, tuple[str, ...]]] = {
    ScriptFactor.HASH: ("hash_seed",),
    ScriptFactor.ADDRESSES: ("hash_seed", "addresses"),
    ScriptFactor.RANDOM: ("random", "line", "line_random"),
    ScriptFactor.CLOCK: ("clock", "line", "line_clock"),
    ScriptFactor.MANAGER_MODE: ("manager_synchronous", "manager_seed"),
    ScriptFactor.MANAGER_SEED: ("manager_synchronous", "manager_seed"),
    ScriptFactor.ORDER: ("order",),
}


def pinned_alone(pins: Pins, factor: ScriptFactor) -> Pins:
    """Return pins for one thing and nothing else, with its value in ``pins``."""
    return replace(Pins(), **{name: getattr(pins, name) for name in _PINS_OF[factor]})


def recurs(found: SessionDifference | None, first: SessionDifference) -> bool:
    """Return True if a difference is the first one again: not later, or of the same call."""
    if found is None:
        return False
    if found.tick is None or first.tick is None or found.tick <= first.tick:
        return True
    if found.kind is not first.kind or found.method != first.method:
        return False
    return found.kind is DifferenceKind.ARRIVAL or (found.kind is DifferenceKind.CALL and found.field == first.field)


class Investigation:
    """Looks for the cause of a difference whose source is the script.

    ``tries``: other values of each input that are tried before it counts as no suspect. ``confirm``: runs of each kind in a
    block of a test; a test has one block or two. ``shuffle`` puts runs in random order.
    """

    def __init__(
        self,
        run: RunScript,
        first: ScriptRun,
        comparison: SessionComparison,
        log: Callable[[str], None],
        *,
        pinned_runs: int = 3,
        addresses: bool = True,
        tries: int = 3,
        confirm: int = 4,
        shuffle: Callable[[list[bool]], None] | None = None,
    ) -> None:
        self._run = run
        self._first = first
        self._comparison = comparison
        self._log = log
        self._pinned_runs = pinned_runs
        self._addresses = addresses
        self._tries = tries
        self._confirm = confirm
        self._shuffle = shuffle if shuffle is not None else unseeded().shuffle
        self._count = 0
        self.notes: list[str] = []

    def findings(self) -> list[CauseFinding]:
        """Return the cause, or ``unknown`` with what was tried; empty only if nothing differs."""
        difference = self._comparison.difference
        if difference is None:
            return []
        if not difference.synchronous:
            return [self._asynchronous(difference)]
        manager = self._first.timeline.traffic_managers > 0
        pins = all_pinned(addresses=self._addresses, manager=manager)
        self._log(f"looking for the cause: {self._pinned_runs} runs with {_pinned_words(pins)} pinned")
        reference = self._run("pinned-1", pins)
        has_begun = (reference.witness or Witness()).began
        if not has_begun or reference.exit_code != self._first.exit_code:
            if has_begun:
                broken = f"with everything pinned the script {reference.ended}, it {self._first.ended} before"
                self.notes.append(f"{broken}: no experiment can be made")
            return [self._from_calls(difference, manager=manager)]
        diverged = self._recurring(reference, pins, "pinned", difference)
        if diverged is not None:
            order = _order_of(reference.witness or Witness())
            if not order:
                return [self._left_over(reference, *diverged)]
            pins = replace(pins, order=order)
            self._log(f"looking for the cause: {self._pinned_runs} runs in which the order of threads is pinned too")
            reference = self._run("ordered-1", pins)
            diverged = self._recurring(reference, pins, "ordered", difference)
            if diverged is not None:
                return [self._left_over(reference, *diverged)]
        return [self._tested(pins, reference, difference)]

    def _recurring(
        self, reference: ScriptRun, pins: Pins, label: str, difference: SessionDifference
    ) -> tuple[ScriptRun, SessionDifference] | None:
        """Return a run with the same pins that diverges from the reference run as the compared runs did."""
        for number in range(2, self._pinned_runs + 1):
            run = self._run(f"{label}-{number}", pins)
            found = compare_timelines(reference.timeline, run.timeline).difference
            if found is not None and recurs(found, difference):
                return run, found
        return None

    def _candidates(self, witness: Witness, pins: Pins) -> Iterator[ScriptFactor]:
        """Yield what the script was seen to use; hashes cannot be seen and are always tried."""
        if pins.order is not None:
            yield ScriptFactor.ORDER
        if pins.manager_seed is not None:
            yield ScriptFactor.MANAGER_MODE
            if not witness.called("TrafficManager.set_random_device_seed"):
                yield ScriptFactor.MANAGER_SEED
        if witness.draws:
            yield ScriptFactor.RANDOM
        if witness.clocks:
            yield ScriptFactor.CLOCK
        # A change of hashes moves objects too, so addresses come first.
        if self._addresses:
            yield ScriptFactor.ADDRESSES
        yield ScriptFactor.HASH

    def _tested(self, pins: Pins, reference: ScriptRun, difference: SessionDifference) -> CauseFinding:
        """Test each suspect until one is the cause."""
        evidence = [f"{self._pinned_runs} runs with {_pinned_words(pins)} pinned were the same"]
        tested, caller = 0, None
        for factor in self._candidates(reference.witness or Witness(), pins):
            suspect = self._suspected(factor, pins, reference, difference)
            if suspect is None:
                continue
            tested += 1
            error = error_of(tested)
            caller = caller or _caller(reference, suspect.run, suspect.found)
            label = factor.name.lower().replace("_", "-")
            self._log(f"looking for the cause: up to {8 * self._confirm} runs that test the {factor}")
            changed = self._trial(label, suspect.changed, suspect.held, reference, difference, error)
            words = _suspect_words(suspect)
            evidence.append(_changed_words(words, changed, error))
            if not changed.passed:
                continue
            held = self._trial(f"{label}-alone", suspect.changed_alone, suspect.held_alone, reference, difference, error)
            evidence.append(_held_words(words, held, error))
            if held.passed:
                return self._named(suspect, evidence, caller)
            evidence.append(f"so changing the {factor} matters, but holding that alone does not remove the difference")
        if not tested:
            evidence.append(f"no other value of {', '.join(self._candidates(reference.witness or Witness(), pins))} changed it")
        advice = (
            "if the difference is rare, try more values (--tries 40) or more runs (-n 20); otherwise print what decides the "
            "values of the call that differed first: files of earlier runs, process ids and /proc are not pinned"
        )
        if len(evidence) > 1 and tested:
            advice = "fix what matters above and run samepath twice again: there may be two causes; or more runs: --tries 40"
        return CauseFinding(unknown(advice), tuple(evidence), None, caller)

    def _suspected(
        self, factor: ScriptFactor, pins: Pins, reference: ScriptRun, difference: SessionDifference
    ) -> _Suspect | None:
        """Return the first other value of an input with which a run diverges, narrowed to one line if one is enough."""
        tries = self._tries * _MORE_TRIES.get(factor, 1)
        self._log(f"looking for the cause: up to {tries} runs in which only the {factor} varies")
        label = factor.name.lower().replace("_", "-")
        for number in range(1, tries + 1):
            changed = varied(pins, factor, number)
            run = self._run(f"{label}-{number}", changed)
            found = compare_timelines(reference.timeline, run.timeline).difference
            if found is None or not recurs(found, difference):
                continue
            alone = pinned_alone(changed, factor), pinned_alone(pins, factor)
            whole = _Suspect(factor, changed, pins, *alone, run, found)
            return self._narrowed(whole, number, reference, difference)
        return None

    def _narrowed(self, whole: _Suspect, number: int, reference: ScriptRun, difference: SessionDifference) -> _Suspect:
        """Change what one line draws or reads alone; if that is enough for one line only, suspect this line."""
        factor, pins = whole.factor, whole.held
        witness = whole.run.witness or Witness()
        seen = {ScriptFactor.RANDOM: witness.draws, ScriptFactor.CLOCK: witness.clocks}.get(factor, [])
        lines = list(dict.fromkeys(place for _, place in seen))
        if not 0 < len(lines) <= _MAX_LINES:
            return whole
        narrow = []
        for place in lines:
            line = (place.file, place.line)
            if factor is ScriptFactor.RANDOM:
                changed = replace(pins, line=line, line_random=number)
            else:
                changed = replace(pins, line=line, line_clock=varied(pins, factor, number).clock)
            run = self._run(f"{factor.name.lower()}-{number}-{Path(place.file).stem}-{place.line}", changed)
            found = compare_timelines(reference.timeline, run.timeline).difference
            if found is not None and recurs(found, difference):
                narrow.append(replace(whole, changed=changed, changed_alone=pinned_alone(changed, factor), line=place))
        return narrow[0] if len(narrow) == 1 else whole

    def _trial(
        self, label: str, changed: Pins, held: Pins, reference: ScriptRun, difference: SessionDifference, error: float
    ) -> TrialResult:
        """Test with fresh runs whether changed runs diverge from the reference run more often than held ones."""

        def diverges(is_changed: bool) -> bool:
            self._count += 1
            run = self._run(f"{label}-test-{self._count}", changed if is_changed else held)
            return recurs(compare_timelines(reference.timeline, run.timeline).difference, difference)

        return run_trial(diverges, self._confirm, error, self._shuffle)

    def _named(self, suspect: _Suspect, evidence: list[str], caller: WatchedCall | None) -> CauseFinding:
        """Return the finding for a suspect that passed both tests."""
        factor, place = suspect.factor, suspect.line
        witness = suspect.run.witness or Witness()
        if factor is ScriptFactor.MANAGER_MODE:
            calls = witness.called("TrafficManager.set_synchronous_mode")
            evidence.append(
                f"set_synchronous_mode is called at {calls[0].place}, but not with True before it matters"
                if calls
                else "the script never calls set_synchronous_mode of its traffic manager"
            )
            got = witness.called("Client.get_trafficmanager")
            place = got[0].place if got else None
        elif factor is ScriptFactor.MANAGER_SEED:
            evidence.append("the script never calls set_random_device_seed of its traffic manager")
        elif factor is ScriptFactor.ORDER:
            evidence.append(f"{len(witness.calling_threads)} threads call CARLA: {', '.join(witness.calling_threads[:5])}")
            started = [(name, at) for name, at in witness.threads if name in witness.calling_threads]
            if started:
                evidence.append(f"threads are started at {places(started)}")
            place = started[0][1] if len({at for _, at in started}) == 1 else None
        return CauseFinding(CAUSES[factor], tuple(evidence), place, caller)

    def _left_over(self, reference: ScriptRun, other: ScriptRun, found: SessionDifference) -> CauseFinding:
        """Return ``unknown``: all that can be pinned is, and runs still diverge."""
        ours, theirs = reference.witness or Witness(), other.witness or Witness()
        pinned = f"random, the clock, hash order{' and memory addresses' if self._addresses else ''}"
        evidence = [f"runs still diverge with {pinned} pinned: none of these alone is the cause"]
        advice = (
            "print what decides the values of the call that differed first: the process id, files of earlier runs, /proc, the "
            "environment and threads that make no call are not pinned"
        )
        threads = theirs.calling_threads or ours.calling_threads
        if self._first.timeline.lanes > 1 or len(theirs.processes) > 1:
            clients = f"{self._first.timeline.lanes} clients of {len(theirs.processes)} processes"
            evidence.append(f"{clients} call the server; their order was not held")
            advice = ONE_CLIENT
        elif len(threads) > 1:
            alike = "makes the same calls" if same_per_thread(ours, theirs) else "makes other calls"
            evidence.append(f"{len(threads)} threads call CARLA ({', '.join(threads[:5])}); each {alike} in both runs")
            evidence.append("the order of their calls was held too, and that did not remove the difference")
            advice = f"{ONE_THREAD}; then run samepath twice again"
        elif theirs.threads or theirs.called("Sensor.listen", "ServerSideSensor.listen", "World.on_tick"):
            evidence.append("other threads run but make no call: they were not tested")
        return CauseFinding(unknown(advice), tuple(evidence), None, _caller(reference, other, found))

    def _asynchronous(self, difference: SessionDifference) -> CauseFinding:
        """Return ``unknown``: the server's clock decides much, and nothing in the script can be tested against it."""
        evidence = [
            "the world was in asynchronous mode: the server's wall clock decides the tick at which a call arrives, so that no "
            "input of the script can be tested alone",
        ]
        if difference.kind is DifferenceKind.ARRIVAL:
            evidence.append(
                f"the calls are the same, but {difference.method} came {difference.values[0]} ticks after the first one in one "
                f"run and {difference.values[1]} in the other: a late command"
            )
        self._log("looking for the line: one more run, watched")
        watched = self._run("watched", Pins())
        witness = watched.witness or Witness()
        caller = None
        other = compare_timelines(self._first.timeline, watched.timeline).difference
        if witness.began and other is not None:
            caller = caller_of(watched.recording, other.calls[1], None, witness)
        if all(len(timeline.stretches) == 1 for timeline in (self._first.timeline, watched.timeline)):
            evidence.append("the script never makes it synchronous")
        for words, seen in (("random is drawn without a seed", witness.draws), ("the clock is read", witness.clocks)):
            if seen:
                self.notes.append(f"{words} at {places(seen)}: whether that matters shows when the world is synchronous")
        return CauseFinding(unknown(SYNCHRONOUS), tuple(evidence), None, caller)

    def _from_calls(self, difference: SessionDifference, *, manager: bool) -> CauseFinding:
        """Return ``unknown`` for a command that cannot be watched, with what its calls show."""
        if not self.notes:
            self.notes.append("the command is no Python script that can be watched: no experiment can be made")
        return unknown_from_calls(
            difference, lanes=self._first.timeline.lanes, manager=manager, is_crossed=self._comparison.crossed
        )


def unknown_from_calls(
    difference: SessionDifference, *, lanes: int, manager: bool, is_crossed: bool, advice: str = ""
) -> CauseFinding:
    """Return ``unknown`` with what calls alone show and what to try next."""
    if not difference.synchronous:
        words = "the world was in asynchronous mode: the server's wall clock decides the tick at which a call arrives"
        return CauseFinding(unknown(SYNCHRONOUS), (words,))
    is_arrival = difference.kind is DifferenceKind.ARRIVAL
    if manager and (is_arrival or difference.method == "apply_batch"):
        words = "a traffic manager is there, and calls come at other moments between two ticks"
        return CauseFinding(unknown(SYNCHRONOUS_MANAGER), (words,))
    if is_crossed or lanes > 1:
        return CauseFinding(unknown(ONE_CLIENT), (f"{lanes} clients call the server, and nothing orders their calls",))
    if is_arrival:
        words = "one client makes the same calls in another order or at other ticks"
        return CauseFinding(unknown(f"{ONE_THREAD}; then run samepath twice again"), (words,))
    words = "states and answers were the same until this call: its values come from outside of them"
    return CauseFinding(unknown(advice) if advice else unknown(), (words,))


def _order_of(witness: Witness) -> tuple[str, ...]:
    """Return the threads in the order of their calls; empty if it cannot be held: one thread, or several processes."""
    calls = [call for call in witness.calls if call.name.rpartition(".")[2] not in _UNORDERED]
    threads = tuple(call.thread for call in calls)
    return threads if len(set(threads)) > 1 and len(witness.processes) == 1 else ()


def _caller(reference: ScriptRun, run: ScriptRun, found: SessionDifference) -> WatchedCall | None:
    """Return the line that made the call that differs, in whichever run has it."""
    return caller_of(run.recording, found.calls[1], found.actor, run.witness or Witness()) or caller_of(
        reference.recording, found.calls[0], found.actor, reference.witness or Witness()
    )


def _suspect_words(suspect: _Suspect) -> str:
    """Say what is changed: other random numbers, drawn without a seed at drive.py:9 (random.random)."""
    factor = suspect.factor
    words = f"other {factor}" if factor in (ScriptFactor.RANDOM, ScriptFactor.ADDRESSES) else f"another {factor}"
    if suspect.line is None:
        return words
    witness = suspect.run.witness or Witness()
    names = [(name, place) for name, place in (*witness.draws, *witness.clocks) if place == suspect.line]
    done = "drawn without a seed at" if suspect.factor is ScriptFactor.RANDOM else "read at"
    return f"{words} {done} {places(names[:1])}"


def _changed_words(words: str, result: TrialResult, error: float) -> str:
    changed, held, runs = result.counts
    return (
        f"changed alone, all else pinned: {changed} of {runs} runs with {words} diverged, {held} of {runs} fresh controls "
        f"({_numbers(result, error)})"
    )


def _held_words(words: str, result: TrialResult, error: float) -> str:
    changed, held, runs = result.counts
    return (
        f"held alone, nothing else pinned: {held} of {runs} runs diverged, {changed} of {runs} with {words} "
        f"({_numbers(result, error)})"
    )


def _numbers(result: TrialResult, error: float) -> str:
    return f"exact test: p = {result.p:.2g}, may be {error:.2g} of {ERROR:g} in all"


def _pinned_words(pins: Pins) -> str:
    names = ["random", "the clock", "hash order"]
    if pins.addresses:
        names.append("memory addresses")
    if pins.manager_seed is not None:
        names.append("the traffic manager")
    if pins.order is not None:
        names.append("the order of threads")
    return ", ".join(names[:-1]) + f" and {names[-1]}"
