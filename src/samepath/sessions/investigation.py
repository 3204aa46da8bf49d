"""The experiment behind a cause: hold everything still that can be, then let one thing vary at a time.

1. A few runs with all *pinned*: the order of hashes, memory addresses, what ``random`` draws, the clock, the traffic manager's
   mode and seed. If they still part, it is none of these, and what is left is said from what was seen: threads, callbacks,
   several clients.
2. If they are the same, the cause is among them. For each that the script was seen to use: a few runs in which it alone has
   other values. If they part, it is a cause, whatever else may be one too.

That runs are the same when pinned *and* part when it varies is evidence; either alone might be chance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from samepath.sessions.causes import (
    ASYNCHRONOUS,
    CAUSES,
    CLIENTS,
    THREAD,
    UNKNOWN,
    Place,
    ScriptCause,
    ScriptFactor,
    WatchedCall,
    Witness,
    caller_of,
    places,
    same_per_thread,
)
from samepath.sessions.compare import DifferenceKind, SessionComparison, SessionDifference, compare_timelines
from samepath.sessions.script_runs import Pins, ScriptRun

# Values that vary: so many are tried before something counts as innocent. Two strings in a set come out in the same order in
# one process of two, so of all this one needs most.
_TRIES: Final = {ScriptFactor.HASH: 6}
_TRIES_ELSE: Final = 3
# About what a loop that ticks takes between two readings, so that one which runs for a minute does not run for an hour.
_CLOCK: Final = (1_700_000_000.0, 0.01)

RunScript = Callable[[str, Pins], ScriptRun]


@dataclass(frozen=True)
class CauseFinding:
    """A cause with its evidence, the line of the script that does it, and the line of the call that differed first."""

    cause: ScriptCause
    evidence: tuple[str, ...]
    place: Place | None = None
    caller: WatchedCall | None = None


def all_pinned(*, addresses: bool, manager: bool) -> Pins:
    """Everything held still; a traffic manager only where there is one."""
    return Pins(0, addresses, 0, _CLOCK, manager_synchronous=manager, manager_seed=0 if manager else None)


def varied(pins: Pins, factor: ScriptFactor, number: int) -> Pins:
    """The same pins with another value of one thing; ``number`` counts from 1."""
    changes: dict[ScriptFactor, Pins] = {
        ScriptFactor.HASH: replace(pins, hash_seed=number),
        ScriptFactor.ADDRESSES: replace(pins, addresses=False),
        ScriptFactor.RANDOM: replace(pins, random=number),
        ScriptFactor.CLOCK: replace(pins, clock=(_CLOCK[0] + 12_345.678 * number, _CLOCK[1] * (1.0 + 0.37 * number))),
        ScriptFactor.MANAGER_MODE: replace(pins, manager_synchronous=False),
        ScriptFactor.MANAGER_SEED: replace(pins, manager_seed=number),
    }
    return changes[factor]


class Investigation:
    """Looks for the cause of a difference whose source is the script."""

    def __init__(
        self,
        run: RunScript,
        first: ScriptRun,
        comparison: SessionComparison,
        log: Callable[[str], None],
        *,
        pinned_runs: int = 3,
        addresses: bool = True,
    ) -> None:
        self._run = run
        self._first = first
        self._comparison = comparison
        self._log = log
        self._pinned_runs = pinned_runs
        self._addresses = addresses
        self.notes: list[str] = []

    def findings(self) -> list[CauseFinding]:
        """All causes that were found, the likeliest first; never none."""
        difference = self._comparison.difference
        if difference is None:
            return []
        if not difference.synchronous:
            return [self._asynchronous(difference)]
        manager = self._first.timeline.traffic_managers > 0
        pins = all_pinned(addresses=self._addresses, manager=manager)
        pinned, parted = self._pinned(pins)
        if not (pinned[0].witness or Witness()).began or pinned[0].exit_code != self._first.exit_code:
            if (pinned[0].witness or Witness()).began:
                broken = f"with everything pinned the script {pinned[0].ended}, it {self._first.ended} before"
                self.notes.append(f"{broken}: no experiment can be made, and the cause is told from its calls alone")
            return [self._from_calls(difference, manager=manager)]
        if parted is not None:
            return [self._left_over(pinned, parted)]
        rare = (
            f"{len(pinned)} runs with {_pinned_words(pins)} pinned were the same, but letting each of them vary alone changed "
            "nothing in as many runs as were tried: it may be a rare difference; run it more often (-n 10)"
        )
        return list(self._guilty(pins, pinned, difference, manager=manager)) or [CauseFinding(UNKNOWN, (rare,))]

    def _pinned(self, pins: Pins) -> tuple[list[ScriptRun], SessionComparison | None]:
        """Runs with everything pinned, and the first comparison among them that differs."""
        self._log(f"looking for the cause: {self._pinned_runs} runs with {_pinned_words(pins)} pinned")
        runs = [self._run("pinned-1", pins)]
        for number in range(2, self._pinned_runs + 1):
            if runs[0].exit_code != self._first.exit_code or not (runs[0].witness or Witness()).began:
                break
            runs.append(self._run(f"pinned-{number}", pins))
            comparison = compare_timelines(runs[0].timeline, runs[-1].timeline)
            if comparison.difference is not None:
                return runs, comparison
        return runs, None

    def _candidates(self, witness: Witness, *, manager: bool) -> Iterator[ScriptFactor]:
        """What the script was seen to use; hashes cannot be seen and are always tried."""
        if manager:
            yield ScriptFactor.MANAGER_MODE
            if not witness.called("TrafficManager.set_random_device_seed"):
                yield ScriptFactor.MANAGER_SEED
        if witness.draws:
            yield ScriptFactor.RANDOM
        if witness.clocks:
            yield ScriptFactor.CLOCK
        yield ScriptFactor.HASH
        if self._addresses:
            yield ScriptFactor.ADDRESSES

    def _guilty(
        self, pins: Pins, pinned: list[ScriptRun], difference: SessionDifference, *, manager: bool
    ) -> Iterator[CauseFinding]:
        witness = pinned[0].witness or Witness()
        explained = False
        for factor in self._candidates(witness, manager=manager):
            if explained:
                # What comes after the cause of the first difference is looked at when that one is mended.
                break
            tries = _TRIES.get(factor, _TRIES_ELSE)
            self._log(f"looking for the cause: up to {tries} runs in which only the {factor} varies")
            for number in range(1, tries + 1):
                run = self._run(f"{factor.name.lower().replace('_', '-')}-{number}", varied(pins, factor, number))
                comparison = compare_timelines(pinned[0].timeline, run.timeline)
                found = comparison.difference
                if found is None:
                    continue
                yield self._blamed(factor, pins, pinned, run, found, number)
                explained = _alike(found, difference)
                break

    def _blamed(
        self, factor: ScriptFactor, pins: Pins, pinned: list[ScriptRun], run: ScriptRun, found: SessionDifference, number: int
    ) -> CauseFinding:
        witness = run.witness or Witness()
        caller = caller_of(run.recording, found.calls[1], found.actor, witness) or caller_of(
            pinned[0].recording, found.calls[0], found.actor, pinned[0].witness or Witness()
        )
        evidence = [
            f"{len(pinned)} runs with {_pinned_words(pins)} pinned were the same",
            f"with everything pinned but the {factor}, run {number} parted from them"
            + (f" at {found.method}" if found.method else "")
            + (f", tick {found.tick}" if found.tick is not None else ""),
        ]
        seen = {ScriptFactor.RANDOM: witness.draws, ScriptFactor.CLOCK: witness.clocks}.get(factor, [])
        words = {ScriptFactor.RANDOM: "drawn without a seed at", ScriptFactor.CLOCK: "the clock is read at"}
        place = None
        if seen:
            place = next((place for _, place in reversed(seen) if caller and place == caller.place), seen[0][1])
            evidence.append(f"{words[factor]} {places(seen)}")
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
        return CauseFinding(CAUSES[factor], tuple(evidence), place, caller)

    def _left_over(self, pinned: list[ScriptRun], parted: SessionComparison) -> CauseFinding:
        """All that can be pinned is, and runs still part."""
        difference = parted.difference
        ours, theirs = pinned[0].witness or Witness(), pinned[-1].witness or Witness()
        caller = None
        if difference is not None:
            caller = caller_of(pinned[-1].recording, difference.calls[1], difference.actor, theirs) or caller_of(
                pinned[0].recording, difference.calls[0], difference.actor, ours
            )
        evidence = [f"runs still part with random, clock, hash order{' and addresses' if self._addresses else ''} pinned"]
        threads = theirs.calling_threads or ours.calling_threads
        listeners = [call for call in theirs.calls if call.name in _CALLBACKS]
        if len(threads) > 1:
            evidence.append(f"{len(threads)} threads call CARLA: {', '.join(threads[:5])}")
            if same_per_thread(ours, theirs):
                evidence.append("each thread, taken for itself, makes the same calls in both runs: only their order differs")
            started = theirs.threads or ours.threads
            if started:
                evidence.append(f"threads are started at {places(started)}")
            return CauseFinding(THREAD, tuple(evidence), started[0][1] if started else None, caller)
        if self._first.timeline.lanes > 1 or len(theirs.processes) > 1:
            clients = f"{self._first.timeline.lanes} clients of {len(theirs.processes)} processes"
            evidence.append(f"{clients} call the server, and nothing orders their calls")
            return CauseFinding(CLIENTS, tuple(evidence), None, caller)
        if listeners or theirs.threads:
            what = [(call.name, call.place) for call in listeners] or theirs.threads
            evidence.append(f"what runs in threads of its own: {places(what)}; no other cause is left")
            return CauseFinding(THREAD, tuple(evidence), what[0][1], caller)
        evidence.append("no thread, no callback and no second client was seen; what differs in them is not known")
        return CauseFinding(UNKNOWN, tuple(evidence), None, caller)

    def _asynchronous(self, difference: SessionDifference) -> CauseFinding:
        evidence = [
            "the world was in asynchronous mode: it goes on by the server's wall clock, which decides the tick a call meets",
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
        return CauseFinding(ASYNCHRONOUS, tuple(evidence), None, caller)

    def _from_calls(self, difference: SessionDifference, *, manager: bool) -> CauseFinding:
        """For what is no Python script, or does not run when watched: only what calls show."""
        if not self.notes:
            self.notes.append("the command is no Python script that can be watched: the cause is told from its calls alone")
        if manager and (difference.method == "apply_batch" or difference.kind is DifferenceKind.ARRIVAL):
            evidence = "a traffic manager is there, and its batches come at other moments between two ticks"
            return CauseFinding(CAUSES[ScriptFactor.MANAGER_MODE], (evidence,))
        if self._comparison.crossed or self._first.timeline.lanes > 1:
            return CauseFinding(
                CLIENTS, (f"{self._first.timeline.lanes} clients call the server, and nothing orders their calls",)
            )
        if difference.kind is DifferenceKind.ARRIVAL:
            return CauseFinding(THREAD, ("one client makes the same calls in another order or at other ticks",))
        return CauseFinding(
            UNKNOWN, ("states and answers were the same until this call: its values come from outside of them",)
        )


_CALLBACKS: Final = ("Sensor.listen", "ServerSideSensor.listen", "World.on_tick")


def _alike(a: SessionDifference, b: SessionDifference) -> bool:
    """Is this the same difference, as far as two pairs of runs can have the same?"""
    return (a.method, a.tick) == (b.method, b.tick) or (a.method == b.method and a.kind == b.kind)


def _pinned_words(pins: Pins) -> str:
    names = ["random", "the clock", "hash order"]
    if pins.addresses:
        names.append("memory addresses")
    if pins.manager_seed is not None:
        names.append("the traffic manager")
    return ", ".join(names[:-1]) + f" and {names[-1]}"
