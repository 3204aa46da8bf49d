"""Causes: why two runs parted, from what went into them, and never more than the evidence says.

A deterministic simulator is a function of its inputs. So the question is which input differed in time to part the runs. Only
inputs of the *window* can have acted: the steps after the last tick at which the two runs were equal, up to the tick at which
they are not. What differed in it and is about an actor that parts, first in causal order, decides:

* ``step-length``: a step was longer in one run than in the other.
* ``order``: something was taken up in another order, or a sum was added up in another one.
* ``random-stream``: chance gave other numbers, or was asked more often.
* ``late-command``: a command that took effect was decided from an older view in one run, or reached it steps later.
* ``command-value``: a controller that saw the same gave another command. It is the source.
* ``sensor-data``: the same, but before that a sensor had shown it something else, of equal states.
* ``simulator``: a state was changed by no command; or everything that went in was the same. It is the source itself.
* ``unknown``: the evidence does not tell. Then it is said what to record.

An order, a draw or a plan made from it may differ long before it acts: actors that were spawned in another order part when they
touch. So where nothing differs in the window, what differed before it decides: the first that is about an actor that parts, or
else an order. And where a command differs in the window that was decided from the same view, an earlier draw is what its
controller was led by.

A draw or an order has no mechanism that is known: a paint colour may be drawn in every run and act on nothing. So it is named
only with evidence (``_Evidence``), and an input that also differs between runs of one branch is never named: it is not
sufficient. Where nothing else differs, the cause is ``unknown``.

Between two logged ticks several steps may lie. A command that was decided within the window may have been decided from states
that differed already: then nobody can tell the controller from the simulator, and it is ``unknown``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from math import comb
from typing import Final

from samepath.core.channels import RESAMPLING
from samepath.core.inputs import ASKED, RACED, Input, InputKind, InputLog
from samepath.instrument.analysis.partings import Part, Parting
from samepath.instrument.traces.records import Header

_RANK: Final = {kind: rank for rank, kind in enumerate(InputKind)}
# Inputs that come from outside of a simulator. Where these are not known, it cannot be told from them.
OUTSIDE: Final = frozenset({InputKind.STEP, InputKind.COMMAND})
# So many inputs that differ are kept; the first is what decides.
KEPT: Final = 20
# How often evidence for a draw or an order may come by chance, all inputs together that are considered at a parting.
ERROR: Final = 0.05
_TRY_ALONE: Final = (
    "make new runs with this input held (a fixed seed, a fixed order) and new runs with it varied alone, or at least 10 "
    "runs of two values"
)
_RECORD_INPUTS: Final = (
    "record what goes into the runs (step lengths, commands with the step they were decided at, orders and draws): "
    "adapters do it with Recorder.inputs"
)


class Cause(StrEnum):
    """Why two runs part; ``none``: they do not."""

    STEP_LENGTH = "step-length"
    LATE_COMMAND = "late-command"
    COMMAND_VALUE = "command-value"
    RANDOM_STREAM = "random-stream"
    ORDER = "order"
    SENSOR_DATA = "sensor-data"
    SIMULATOR = "simulator"
    UNKNOWN = "unknown"
    NONE = "none"


@dataclass(frozen=True)
class InputDifference:
    """An input that differs between two runs; None: the run does not have it."""

    step: int
    kind: InputKind
    name: str
    actor: int | None
    a: Input | None
    b: Input | None


@dataclass(frozen=True)
class SensedDifference:
    """The first frame that two runs sensed otherwise."""

    sensor: str
    tick: int


@dataclass(frozen=True)
class CauseFound:
    """A cause, the sentences that show it, what to record where it cannot be told, and the inputs that differ first."""

    cause: Cause
    evidence: tuple[str, ...]
    to_record: str = ""
    differences: tuple[InputDifference, ...] = ()


@dataclass(frozen=True)
class ActingWindow:
    """The steps, first to last, that can have acted at the parting; ``common_step``: the world was equal before it."""

    first: int
    last: int
    per_tick: float

    @property
    def common_step(self) -> int:
        return self.first


def find_cause(
    header: Header,
    parting: Parting,
    log_a: InputLog | None,
    log_b: InputLog | None,
    sensed: SensedDifference | None = None,
    like_a: Sequence[InputLog] = (),
    like_b: Sequence[InputLog] = (),
) -> CauseFound:
    """Return why two runs diverged.

    ``like_a`` and ``like_b`` are the inputs of other runs that are equal to the first and to the second up to the parting.
    """
    if log_a is None or log_b is None:
        return _from_traces(header, parting, sensed)
    window = window_of(header, parting, log_a, log_b)
    evidence = _Evidence.of(window, [log_a, *like_a], [log_b, *like_b])
    every = differing_inputs(log_a, log_b, window.last)
    listed = [difference for difference in every if _about_what(difference) not in evidence.refuted]
    effective, schedule = effective_inputs(listed, log_a, log_b)
    acting = _acting(parting, [difference for difference in effective if difference.step >= window.first])
    before = [difference for difference in effective if difference.step < window.first]
    judge = _Judge(header, parting, window, log_a, log_b, sensed, listed, schedule, evidence, every)
    if acting:
        return judge.of(_about(parting, acting), before)
    if before:
        return judge.of_earlier((_acting(parting, before) or before)[0])
    if len(listed) < len(every):
        return judge.refuted([difference for difference in every if _about_what(difference) in evidence.refuted])
    return judge.without_difference()


def _acting(parting: Parting, inside: list[InputDifference]) -> list[InputDifference]:
    """Of what differs, what is seen to act where the runs part.

    What is about an actor shows in that actor's row. An order may show anywhere, or not yet: it is what acts only where nothing
    else does.
    """
    parted = {follower.actor for follower in parting.followers if follower.tick == parting.tick}
    seen = [difference for difference in inside if difference.actor is None or not parted or difference.actor in parted]
    return [difference for difference in seen if difference.kind is not InputKind.ORDER] or seen


def _about(parting: Parting, acting: list[InputDifference]) -> InputDifference:
    """The first difference; of commands to several actors in one step, that to the actor who parts."""
    first = acting[0]
    if first.kind is not InputKind.COMMAND:
        return first
    return next(
        (
            difference
            for difference in acting
            if difference.step == first.step and difference.actor == parting.actor and difference.kind is first.kind
        ),
        first,
    )


def window_of(header: Header, parting: Parting, log_a: InputLog, log_b: InputLog) -> ActingWindow:
    """Return which steps can have acted between the last tick at which two runs were equal and the one at which they part."""
    fixed_s = log_a.step_s or header.step_s
    common = parting.last_common_tick or 0
    lengths = {entry.step: entry.values[0] for entry in log_a if entry.kind is InputKind.STEP and entry.values}
    if not lengths and not any(entry.kind is InputKind.STEP for entry in log_b):
        per_tick = max(1, round(header.step_s / fixed_s))
        return ActingWindow(common * per_tick, max(0, parting.tick * per_tick - 1), per_tick)
    # Where steps are of any length they are placed by time. Both runs agree on it up to the first step that differs.
    last = max((*lengths, *(entry.step for entry in log_b if entry.kind is InputKind.STEP)))
    ends_s = list(accumulate(lengths.get(step, fixed_s) for step in range(last + 1)))
    starts_s = [0.0, *ends_s[:-1]]
    # The margin is for the rounding of a sum of steps.
    margin_s = 1e-9
    first = max(0, bisect_right(starts_s, common * header.step_s + margin_s) - 1)
    until = max(first, bisect_left(starts_s, parting.tick * header.step_s - margin_s) - 1)
    # A state put between two steps is of both, and how far off it may be also of the step after.
    slack = 2 if RESAMPLING in header.channels else 0
    return ActingWindow(first, until + slack, header.step_s / (ends_s[-1] / len(ends_s)))


def differing_inputs(log_a: InputLog, log_b: InputLog, last_step: int) -> list[InputDifference]:
    """List the inputs up to a step that differ in any bit, in causal order; when a command was decided belongs to it."""
    found_a, found_b = (_by_key(log, last_step) for log in (log_a, log_b))
    differing = []
    for key in {**found_a, **found_b}:
        a, b = found_a.get(key), found_b.get(key)
        if a is None or b is None or a[1].to_bytes() != b[1].to_bytes():
            places = [place for place, _ in (listed_at for listed_at in (a, b) if listed_at is not None)]
            step, rank, kind, name, actor, _ = key
            entries = (None if listed_at is None else listed_at[1] for listed_at in (a, b))
            differing.append(((step, rank, min(places)), InputDifference(step, InputKind(kind), name, actor, *entries)))
    return [difference for _, difference in sorted(differing, key=lambda pair: pair[0])]


def effective_inputs(
    listed: list[InputDifference], log_a: InputLog, log_b: InputLog
) -> tuple[list[InputDifference], list[InputDifference]]:
    """Tell what reached the world from what did not: of commands, those that hold in a step, whenever they were listed.

    A command that holds in both runs with the same numbers moves nothing, though it was decided at other moments. Such ones are
    the second list: when controllers were asked, which may lead them elsewhere later on.
    """
    held_a, held_b = _HeldCommands(log_a), _HeldCommands(log_b)
    effective: list[InputDifference] = []
    schedule: list[InputDifference] = []
    for difference in listed:
        if difference.kind is not InputKind.COMMAND or difference.name == _FINISHED or _undated(difference):
            effective.append(difference)
            continue
        a, b = held_a.at(difference.actor, difference.step), held_b.at(difference.actor, difference.step)
        held = InputDifference(difference.step, difference.kind, difference.name, difference.actor, a, b)
        moves = _numbers(a) != _numbers(b) and not any(entry is not None and entry.name == ASKED for entry in (a, b))
        (effective if moves else schedule).append(held)
    return effective, schedule


def _undated(difference: InputDifference) -> bool:
    return any(entry is not None and entry.decided_step is None for entry in (difference.a, difference.b))


def _numbers(entry: Input | None) -> bytes:
    return b"" if entry is None else Input(0, entry.kind, entry.name, entry.actor, entry.values).to_bytes()


class _HeldCommands:
    """Which command an actor is under in any step, with the step it was decided at."""

    def __init__(self, log: InputLog) -> None:
        # Where steps are of one length, a command is listed again when its age changes: what holds on was decided anew.
        self._ages = not any(entry.kind is InputKind.STEP for entry in log)
        self._listed: dict[int | None, tuple[list[int], list[Input]]] = {}
        for entry in log:
            if entry.kind is InputKind.COMMAND and entry.decided_step is not None:
                steps, entries = self._listed.setdefault(entry.actor, ([], []))
                steps.append(entry.step)
                entries.append(entry)

    def at(self, actor: int | None, step: int) -> Input | None:
        steps, entries = self._listed.get(actor, ([], []))
        index = bisect_right(steps, step) - 1
        if index < 0:
            return None
        entry = entries[index]
        decided = _decided(entry)
        return replace(entry, step=step, decided_step=step - entry.step + decided if self._ages else decided)


_Key = tuple[int, int, str, str, int | None, int]


def _by_key(log: InputLog, last_step: int) -> dict[_Key, tuple[int, Input]]:
    """Entries by what they are about, each with its place in the log; the n-th of the same is about the n-th of the other."""
    found: dict[_Key, tuple[int, Input]] = {}
    for place, entry in enumerate(log):
        if entry.step > last_step:
            break
        # Commands to an actor are about the same thing, in whatever channels they come.
        name = "" if entry.kind is InputKind.COMMAND and entry.decided_step is not None else entry.name
        count = 0
        while (key := (entry.step, _RANK[entry.kind], entry.kind.value, name, entry.actor, count)) in found:
            count += 1
        found[key] = (place, entry)
    return found


# A step, a command and a push move an actor by themselves; a draw or an order need not.
_WITHOUT_MECHANISM: Final = frozenset({InputKind.DRAW, InputKind.ORDER})
_What = tuple[int, InputKind, str, int | None]


def _about_what(difference: InputDifference) -> _What:
    return difference.step, difference.kind, difference.name, difference.actor


@dataclass(frozen=True)
class _Evidence:
    """What other runs say about inputs that differ at a parting.

    ``refuted``: inputs that also differ between runs that are equal up to the parting. ``window``, ``logs_a`` and ``logs_b``
    are what the two tests of :meth:`supports` read.
    """

    window: ActingWindow
    logs_a: Sequence[InputLog]
    logs_b: Sequence[InputLog]
    refuted: frozenset[_What]

    @classmethod
    def of(cls, window: ActingWindow, logs_a: Sequence[InputLog], logs_b: Sequence[InputLog]) -> "_Evidence":
        refuted = {
            _about_what(difference)
            for first, *others in (logs_a, logs_b)
            for other in others
            for difference in differing_inputs(first, other, window.last)
            if difference.kind in _WITHOUT_MECHANISM
        }
        return cls(window, logs_a, logs_b, frozenset(refuted))

    def supports(self, first: InputDifference, listed: Sequence[InputDifference]) -> str:
        """Return the evidence that a draw or an order acts, in words; empty if there is none.

        Either it differs for the first time just where the runs diverge, after many steps in which nothing of its kind did;
        or runs with the same value are on the same side of the parting, by an exact permutation test. ``listed`` are all
        differences: the error is shared by all streams among them.
        """
        streams = {(difference.kind, difference.name, difference.actor) for difference in listed}
        limit = ERROR / max(1, len(streams)) / 2
        same = [
            difference
            for difference in listed
            if (difference.kind, difference.name, difference.actor) == (first.kind, first.name, first.actor)
        ]
        onset = min((difference.step for difference in same), default=first.step)
        steps = self.window.last - self.window.first + 1
        chance = steps / (self.window.last + 1)
        if onset >= self.window.first and chance <= limit:
            return f"it differs first at step {onset}, just before the runs diverge (by chance in {100 * chance:.2g} %)"
        p = self._p_value(first)
        if p <= limit:
            runs = len(self.logs_a) + len(self.logs_b)
            return f"which of {runs} runs diverge follows from its value (exact test: p = {p:.2g})"
        return ""

    def _p_value(self, first: InputDifference) -> float:
        """Return the chance that a random split of the runs keeps runs of equal values together; 1 if this one does not."""
        sides = [[_value_of(log, first) for log in logs] for logs in (self.logs_a, self.logs_b)]
        if set(sides[0]) & set(sides[1]):
            return 1.0
        runs, size = len(sides[0]) + len(sides[1]), len(sides[1])
        ways = [1] + [0] * size
        for value in {*sides[0], *sides[1]}:
            group = sides[0].count(value) + sides[1].count(value)
            ways = [count + (ways[at - group] if at >= group else 0) for at, count in enumerate(ways)]
        return ways[size] / comb(runs, size)


def _value_of(log: InputLog, first: InputDifference) -> bytes:
    """Return all that a log has of an input, as bytes."""
    return b"".join(
        entry.to_bytes()
        for entry in log
        if (entry.step, entry.kind, entry.name, entry.actor) == (first.step, first.kind, first.name, first.actor)
    )


@dataclass(frozen=True)
class _Judge:
    header: Header
    parting: Parting
    window: ActingWindow
    log_a: InputLog
    log_b: InputLog
    sensed: SensedDifference | None
    differences: list[InputDifference]
    schedule: list[InputDifference]
    evidence: _Evidence
    every: list[InputDifference]

    def of(self, first: InputDifference, before: list[InputDifference]) -> CauseFound:
        """Judge by the first input that differs where the runs part; ``before``: what differed without acting."""
        if self._may_follow(first):
            words = (
                f"{first.kind.value} {first.name!r} differs at step {first.step}, but the runs are only known to be equal up "
                f"to step {self.window.common_step}: it may follow from states that differed already"
            )
            return self._found(Cause.UNKNOWN, words, to_record=_EVERY_TICK)
        match first.kind:
            case InputKind.STEP:
                return self._found(Cause.STEP_LENGTH, self._step_words(first))
            case InputKind.ORDER:
                return self._supported(Cause.ORDER, first, _order_words(first))
            case InputKind.DRAW:
                return self._supported(Cause.RANDOM_STREAM, first, *self._draw_words(first))
            case InputKind.PUSH:
                return self._pushed(first)
            case InputKind.COMMAND:
                return self._commanded(first, before)

    def _supported(self, cause: Cause, first: InputDifference, *words: str) -> CauseFound:
        """Return the cause if there is evidence that this input acts."""
        support = self.evidence.supports(first, self.differences)
        if support:
            return self._found(cause, *words, support)
        doubt = "whether it acts is not known: too few runs share its values, and it did not begin to differ just here"
        return self._found(Cause.UNKNOWN, *words, doubt, to_record=_TRY_ALONE)

    def refuted(self, differences: Sequence[InputDifference]) -> CauseFound:
        """Return ``unknown``: every input that differs also differs between runs that are equal."""
        first = differences[0]
        words = (
            f"{first.kind.value} {first.name!r} at step {first.step} differs, but also between runs that do not diverge here: "
            "it is not sufficient"
        )
        more = f"the same holds for {len(differences) - 1} more inputs, and all others are the same" if differences[1:] else ""
        return self._found(Cause.UNKNOWN, words, more or "all other inputs are the same", to_record=_TRY_ALONE)

    def _may_follow(self, first: InputDifference) -> bool:
        """May this be a consequence? What only one run has, and what was pushed, may depend on where the actors are."""
        if first.step <= self.window.common_step:
            return False
        alone = first.a is None or first.b is None
        return first.kind is InputKind.PUSH or (alone and first.kind in (InputKind.ORDER, InputKind.DRAW))

    def of_earlier(self, first: InputDifference) -> CauseFound:
        """Judge by an input that differed before the runs parted, where nothing differs at the parting itself."""
        found = self.of(first, [])
        if found.cause is Cause.UNKNOWN:
            return found
        when = f"it went in at step {first.step}, before the parting at tick {self.parting.tick}"
        return CauseFound(found.cause, (*found.evidence, when), found.to_record, found.differences)

    def without_difference(self) -> CauseFound:
        """Judge where everything that was taken down was the same."""
        covered = self.log_a.covers & self.log_b.covers
        unseen = sorted(kind.value for kind in OUTSIDE - covered)
        if unseen:
            words = f"nothing that was taken down differed, but these were not: {', '.join(unseen)}"
            return self._found(Cause.UNKNOWN, words, to_record=_RECORD_INPUTS)
        said = ", ".join(_PLURALS[kind] for kind in InputKind if kind in covered)
        told = [f"everything that went in was the same to the bit up to tick {self.parting.tick} ({said}), the states were not"]
        hidden = [_PLURALS[kind] for kind in (InputKind.ORDER, InputKind.DRAW) if kind not in covered]
        if hidden:
            told.append(f"its own {' and '.join(hidden)} are not visible from outside: they may be how it came about")
        first = self.parting.fields[0] if self.parting.fields else None
        if first is not None and first.part is Part.COMMAND:
            told.append(f"its own driver of actor {first.actor} decided otherwise")
        return self._found(Cause.SIMULATOR, *told)

    def _pushed(self, first: InputDifference) -> CauseFound:
        entry = first.a or first.b
        if entry is not None and entry.text == RACED:
            words = f"the force {first.name!r} on actor {first.actor} at step {first.step} is a sum {RACED}: another order"
            return self._found(Cause.ORDER, f"{words}, another rounding ({_both(first)})")
        what = f" ({entry.text})" if entry is not None and entry.text else ""
        only = _only_in(first, self.parting)
        words = f"at step {first.step} the state of actor {first.actor} was changed by {first.name!r}{what}{only}"
        return self._found(Cause.SIMULATOR, f"{words}: no command did that, and steps, orders and draws were the same")

    def _commanded(self, first: InputDifference, before: list[InputDifference]) -> CauseFound:
        a, b = first.a, first.b
        known = [entry for entry in (a, b) if entry is not None]
        if first.name == _FINISHED and self.header.time_scale is not None:
            words = f"the controller of actor {first.actor} had finished by step {first.step} in one run and not in the other"
            return self._found(Cause.LATE_COMMAND, f"{words}{self._clock_words()}")
        if any(entry.decided_step is None for entry in known):
            words = f"the command to actor {first.actor} at step {first.step} differs; when it was decided was not taken down"
            return self._found(Cause.UNKNOWN, words, to_record="the step that controllers saw when they decided (decided_step)")
        if a is None or b is None:
            if self.header.time_scale is None:
                return self._valued(first, before, _decided(known[0]))
            missing = self.parting.a if a is None else self.parting.b
            words = f"in step {first.step} actor {first.actor} had no command yet in repeat {missing}, and one in the other"
            return self._found(Cause.LATE_COMMAND, f"{words}{self._clock_words()}")
        if a.decided_step != b.decided_step:
            return self._found(
                Cause.LATE_COMMAND, self._decided_words(first, a, b), self._late_words(abs(_decided(a) - _decided(b)))
            )
        return self._valued(first, before, _decided(a))

    def _decided_words(self, first: InputDifference, a: Input, b: Input) -> str:
        return (
            f"the command to actor {first.actor} in step {first.step} was decided from the world before step {_decided(a)} in "
            f"repeat {self.parting.a} and before step {_decided(b)} in repeat {self.parting.b}"
        )

    def _valued(self, first: InputDifference, before: list[InputDifference], decided: int) -> CauseFound:
        """A controller decided otherwise at the same moment: from the same, or from something that differed already?"""
        if (alone := self._asked_alone(first.step)) is not None:
            return self._asked(first, alone)
        # What the controller remembers: chance that it was given, and when it was asked before. An order is nobody's memory;
        # it leads a controller only where nothing else did.
        drawn = [
            difference
            for difference in before
            if difference.kind is not InputKind.ORDER and difference.actor in (None, first.actor)
        ]
        asked = [
            difference
            for difference in self.schedule
            if difference.actor in (None, first.actor) and difference.step <= first.step
        ]
        led = sorted([*drawn, *asked], key=lambda difference: (difference.step, _RANK[difference.kind]))
        if led:
            return self._asked(first, led[0]) if led[0] in asked else self.of_earlier(led[0])
        if decided > self.window.common_step:
            words = (
                f"the commands to actor {first.actor} at step {first.step} differ, decided from the world before step "
                f"{decided}, which is only known to be equal up to step {self.window.common_step}"
            )
            return self._found(Cause.UNKNOWN, words, to_record=_EVERY_TICK)
        if before:
            return self.of_earlier(before[0])
        words = (
            f"from the same states, before step {decided}, the controller of actor {first.actor} decided otherwise "
            f"({_both(first)})"
        )
        doubts = sorted(
            (step, f"{kind.value} {name!r}")
            for step, kind, name, actor in self.evidence.refuted
            if actor in (None, first.actor) and step <= first.step
        )
        if doubts:
            # It is not sufficient, but a threshold of the controller may lie between some of its values.
            doubt = f"whether {doubts[0][1]} led it is not known: that also differs between runs that are equal"
            return self._found(Cause.UNKNOWN, words, doubt, to_record=_TRY_ALONE)
        return self._sensed_or(Cause.COMMAND_VALUE, words)

    def _asked_alone(self, step: int) -> InputDifference | None:
        """The first time that controllers were asked before a step in one run and not in the other: they remember it."""
        asked = (
            difference
            for difference in self.differences
            if difference.kind is InputKind.COMMAND and difference.actor is None and difference.step <= step
        )
        return next(
            (
                difference
                for difference in asked
                if (difference.a is None) != (difference.b is None) and _name(difference) == ASKED
            ),
            None,
        )

    def _asked(self, first: InputDifference, earlier: InputDifference) -> CauseFound:
        words = f"the controller of actor {first.actor}, which remembers, had been asked at other moments before"
        if earlier.a is None or earlier.b is None:
            told = f"at step {earlier.step} in repeat {self.parting.b if earlier.a is None else self.parting.a} alone"
            return self._found(Cause.LATE_COMMAND, f"{words}, {told}{self._clock_words()}")
        if earlier.actor is None:
            told = f"the first time before step {earlier.step}, at {_times(earlier)}"
            return self._found(Cause.LATE_COMMAND, f"{words}, {told}{self._clock_words()}")
        told = self._decided_words(earlier, earlier.a, earlier.b)
        return self._found(Cause.LATE_COMMAND, f"{words}: {told}", self._late_words(_apart(earlier)))

    def _sensed_or(self, cause: Cause, words: str) -> CauseFound:
        sensed = self.sensed
        if sensed is not None and sensed.tick < self.parting.tick:
            seen = f"{sensed.sensor} had shown something else at tick {sensed.tick}, while the states were still equal"
            return self._found(Cause.SENSOR_DATA, seen, words)
        return self._found(cause, words)

    def _found(self, cause: Cause, *evidence: str, to_record: str = "") -> CauseFound:
        kept = tuple(self.every[:KEPT])
        return CauseFound(cause, tuple(words for words in evidence if words), to_record, kept)

    def _step_words(self, first: InputDifference) -> str:
        lengths = [_seconds(entry) for entry in (first.a, first.b)]
        return (
            f"step {first.step} was {lengths[0]} long in repeat {self.parting.a} and {lengths[1]} in repeat {self.parting.b}"
            f"{self._clock_words()}"
        )

    def _clock_words(self) -> str:
        return ": the wall clock drove these runs" if self.header.time_scale is not None else ""

    def _draw_words(self, first: InputDifference) -> Iterable[str]:
        about = f" for actor {first.actor}" if first.actor is not None else ""
        yield f"the stream {first.name!r}{about} gave {_both(first)} at step {first.step}"
        counts = [
            sum(entry.kind is InputKind.DRAW and entry.name == first.name and entry.step <= self.window.last for entry in log)
            for log in (self.log_a, self.log_b)
        ]
        if counts[0] != counts[1]:
            more = self.parting.b if counts[1] > counts[0] else self.parting.a
            yield f"by then repeat {more} had drawn {abs(counts[1] - counts[0])} times more from it"

    def _late_words(self, steps: int) -> str:
        ticks = steps / self.window.per_tick
        count = f"{ticks:g} tick{'' if ticks == 1 else 's'}" if ticks >= 1 else f"{steps} steps, less than a tick"
        return f"that is {count} late{self._clock_words()}"


# How a controller's news that it has nothing left to do is named; it is not decided from a view of its own.
_FINISHED: Final = "finished_bool"
_EVERY_TICK: Final = "log every step of the simulator (log_every 1), so that it is known up to which step the runs are equal"
_PLURALS: Final = {
    InputKind.STEP: "step lengths",
    InputKind.ORDER: "orders",
    InputKind.DRAW: "draws",
    InputKind.COMMAND: "commands",
    InputKind.PUSH: "pushes",
}


def _from_traces(header: Header, parting: Parting, sensed: SensedDifference | None) -> CauseFound:
    """Judge where nobody took down what went in: from rows and frames alone."""
    first = parting.fields[0] if parting.fields else None
    if first is not None and first.part is Part.TIME and header.lossless and header.simulator:
        words = f"tick {parting.tick} was at {first.a} s in repeat {parting.a} and at {first.b} s in repeat {parting.b}"
        return CauseFound(Cause.STEP_LENGTH, (words,))
    if first is not None and first.part is Part.COMMAND:
        states = [field for field in parting.fields if field.part is Part.STATE]
        words = f"at tick {parting.tick} the command to actor {first.actor} differs, and every state before it was equal"
        if sensed is not None and sensed.tick < parting.tick:
            seen = f"{sensed.sensor} had shown something else at tick {sensed.tick}, while the states were still equal"
            return CauseFound(Cause.SENSOR_DATA, (seen, words))
        late = "it came late, or its controller decided otherwise, or it was decided from states between two logged ticks"
        moved = f", with {len(states)} fields of states that it moves" if states else ""
        return CauseFound(Cause.UNKNOWN, (f"{words}{moved}", late), _RECORD_INPUTS)
    words = "what went into these runs was not taken down: states differ, and steps, commands, draws and orders may have"
    return CauseFound(Cause.UNKNOWN, (words,), _RECORD_INPUTS)


def _order_words(first: InputDifference) -> str:
    orders = ["none" if entry is None else _short(entry.text) for entry in (first.a, first.b)]
    return f"the order of {first.name} was {orders[0]} and {orders[1]}"


def _only_in(first: InputDifference, parting: Parting) -> str:
    if first.a is not None and first.b is not None:
        return f", to {_both(first)}"
    return f" in repeat {parting.b if first.a is None else parting.a} alone"


def _both(first: InputDifference) -> str:
    return " and ".join("nothing" if entry is None else _values(entry) for entry in (first.a, first.b))


def _values(entry: Input) -> str:
    return _short(", ".join(repr(value) for value in entry.values) or entry.text or entry.name)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _seconds(entry: Input | None) -> str:
    return "not given" if entry is None else f"{entry.values[0]!r} s"


def _decided(entry: Input) -> int:
    return entry.step if entry.decided_step is None else entry.decided_step


def _name(first: InputDifference) -> str:
    entry = first.a or first.b
    return "" if entry is None else entry.name


def _times(first: InputDifference) -> str:
    """When controllers were asked, on the clock that they are told."""
    return " and ".join(f"{entry.values[0]:.6g} s" for entry in (first.a, first.b) if entry is not None and entry.values)


def _apart(first: InputDifference) -> int:
    return 0 if first.a is None or first.b is None else abs(_decided(first.a) - _decided(first.b))
