"""How a run differs from a golden one: which actor, from which tick on, in which fields, both values, and how far apart.

Equal digests end it at once. Otherwise everything that the file keeps is held against the run: the tags say when each actor
parted, the bytes of fields in what, the rounded path how far, the kept rows give both values to the last bit. Nothing is
guessed in between: where rows were thinned out, the answer is a stretch of ticks and says so.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samepath.core.channels import POSITION, RESAMPLING
from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.outcomes import collided_pairs, pair_words
from samepath.instrument.analysis.partings import causal_rank
from samepath.instrument.golden_file import (
    PATH_ERROR_M,
    PATH_STEP_M,
    TAG_BYTES,
    Floats,
    GoldenActor,
    GoldenRun,
    Ints,
    KeptState,
    field_tags,
)
from samepath.instrument.traces.cell import info_of
from samepath.instrument.traces.records import Event, Repeat, RunEnd

_MOST_FIELDS: Final = 8
# Below this the rounding of the kept path, not the run, would decide.
LEAST_TOLERANCE_M: Final = 2 * PATH_ERROR_M


@dataclass(frozen=True)
class FieldChange:
    """A field of one row: what the golden run had and what the run has; None where the field does not apply."""

    field: str
    golden: float | None
    now: float | None

    def words(self) -> str:
        return f"{self.field} {_number(self.now)} instead of {_number(self.golden)}"


@dataclass(frozen=True)
class ActorDifference:
    """How one actor differs.

    It differs at ``tick``, the first one that is known to; ``equal_tick`` is the last one until which it is known to be equal,
    None where it never was. ``fields`` are those that differ at ``fields_tick``, at least; ``changes`` are exact, of the first
    row at or after ``tick`` that the golden file kept whole. ``present`` False: it is not there at ``tick`` now.
    """

    actor: int
    actor_type: str
    tick: int
    equal_tick: int | None
    present: bool = True
    expected: bool = True
    fields: tuple[str, ...] = ()
    fields_tick: int | None = None
    apart_m: float | None = None
    max_apart_m: float | None = None
    max_apart_tick: int | None = None
    changes_tick: int | None = None
    changes: tuple[FieldChange, ...] = ()
    changes_apart_m: float | None = None


@dataclass(frozen=True)
class GoldenDifference:
    """How a run differs from a golden one. ``where`` is a state, an event or the end of the run.

    ``max_apart_m`` is over all actors and kept ticks, at most ``PATH_ERROR_M`` off. ``structure`` are differences that no
    distance can express, which exceed any tolerance.
    """

    tick: int
    time_s: float
    where: str
    actors: tuple[ActorDifference, ...]
    event: tuple[str, str] | None
    end: tuple[str, str] | None
    last_common_event: str
    max_apart_m: float | None
    max_apart_tick: int | None
    max_apart_actor: int | None
    structure: tuple[str, ...]
    channels_gone: tuple[str, ...] = ()
    channels_new: tuple[str, ...] = ()
    every_rows: int = 1

    def verdict(self, tolerance_m: float | None) -> Verdict:
        """Judge the difference: without a tolerance it is one too many."""
        if tolerance_m is None or self.structure:
            return Verdict.EXCEEDS_TOLERANCE
        farthest_m = math.inf if self.max_apart_m is None else self.max_apart_m + PATH_ERROR_M
        return Verdict.WITHIN_TOLERANCE if farthest_m <= tolerance_m else Verdict.EXCEEDS_TOLERANCE

    def words(self) -> tuple[str, ...]:
        """Say it in a few lines, the first difference first."""
        lines = [self._first_line()]
        first = self.actors[0] if self.actors and self.where == "state" else None
        if first is not None:
            lines += self._values(first)
        lines += [f"{line}." for line in self.structure if line.lower() not in lines[0].lower()]
        if self.max_apart_m is not None and self.max_apart_m > 0:
            kept = "" if self.every_rows == 1 else f", of every {self.every_rows}th tick that is kept"
            where = f"actor {self.max_apart_actor}, tick {self.max_apart_tick}{kept}"
            lines.append(f"At most {_about(self.max_apart_m)} apart ({where}).")
        elif self.max_apart_m == 0:
            lines.append(f"No place differs by more than {format_length(PATH_ERROR_M)}, to which the golden file keeps them.")
        if len(self.actors) > 1:
            lines.append(f"{'Then' if first else 'States:'} {_followers(self.actors[1:] if first else self.actors)}.")
        if self.event is not None and self.where != "event":
            lines.append(f"Events differ, too: {self.event[1]} instead of {self.event[0]}.")
        lines.append(f"Last common event: {self.last_common_event}.")
        return tuple(lines)

    def _first_line(self) -> str:
        when = f"tick {self.tick} ({self.time_s:g} s)"
        if self.channels_gone or self.channels_new:
            gone = f"without {', '.join(self.channels_gone)}" if self.channels_gone else ""
            new = f"with {', '.join(self.channels_new)}" if self.channels_new else ""
            told = f"The channels are others, {' and '.join(filter(None, (gone, new)))}; what both have "
            if not self.actors and self.event is None and self.end is None:
                return f"{told}is the same."
            told += f"differs from {when} on: "
        else:
            told = f"First difference at {when}: "
        if not self.actors and self.event is None and self.end is None:
            return "The digests differ, but nothing that the golden file keeps does: the order of channels, or a later event."
        if self.where == "event" and self.event is not None:
            return f"{told}{self.event[1]} instead of {self.event[0]}."
        if self.where == "end" and self.end is not None:
            return f"{told}the run ends by {self.end[1]} instead of {self.end[0]}."
        actor = self.actors[0]
        who = f"actor {actor.actor} ({actor.actor_type})"
        since = "" if actor.equal_tick is None else f", equal until tick {actor.equal_tick}"
        if not actor.expected or not actor.present:
            what = "is not there" if actor.expected else "is there, and was not"
            return f"{told}{who} {what}{since}."
        listed = ", ".join(actor.fields[:_MOST_FIELDS]) + (", ..." if len(actor.fields) > _MOST_FIELDS else "")
        at = "" if actor.fields_tick == actor.tick else f" (at tick {actor.fields_tick})"
        apart = "" if not actor.apart_m else f", {_about(actor.apart_m)} apart"
        return f"{told}{who}, in {f'at least {listed}{at}' if listed else 'its state'}{apart}{since}."

    def _values(self, actor: ActorDifference) -> list[str]:
        if actor.changes_tick is None or not actor.changes:
            return []
        shown = "; ".join(change.words() for change in actor.changes[:_MOST_FIELDS])
        more = len(actor.changes) - _MOST_FIELDS
        rest = f"; {more} more" if more > 0 else ""
        apart = f", {format_length(actor.changes_apart_m)} apart" if actor.changes_apart_m else ""
        kept = "there" if actor.changes_tick == actor.tick else f"at tick {actor.changes_tick}, the next that is kept whole"
        return [f"Values {kept}{apart}: {shown}{rest}."]


def compare(golden: GoldenRun, now: Repeat) -> GoldenDifference | None:
    """Hold a run against a golden one; None where every bit is the same."""
    if now.digest == golden.digest:
        return None
    gone = tuple(name for name in golden.header.channels if name not in now.channels)
    new = tuple(name for name in now.channels if name not in golden.header.channels)
    actors = _actor_differences(golden, now)
    event = _event_difference(golden, now)
    end = None if golden.end == now.end else (_end_words(golden.end), _end_words(now.end))
    ends = (golden.end.tick, now.end.tick)
    of_states = actors[:1] if event is None and end is None else [found for found in actors[:1] if not _is_of_resampling(found)]
    candidates = [(actor.tick, 0, "state") for actor in of_states]
    candidates += [] if event is None else [(event[0], 1, "event")]
    candidates += [] if end is None else [(min(ends), 2, "end")]
    tick, _, where = min(candidates, default=(0, 0, "state"))
    farthest = max(
        (actor for actor in actors if actor.max_apart_m is not None), key=lambda actor: actor.max_apart_m or 0, default=None
    )
    here = set(now.actor.tolist())
    none_apart = 0.0 if any(len(kept.path) and kept.actor.id in here for kept in golden.actors) else None
    return GoldenDifference(
        tick=tick,
        time_s=tick * golden.header.step_s,
        where=where,
        actors=actors,
        event=None if event is None else event[1:],
        end=end,
        last_common_event=_last_common_event(golden, now, tick),
        max_apart_m=none_apart if farthest is None else farthest.max_apart_m,
        max_apart_tick=None if farthest is None else farthest.max_apart_tick,
        max_apart_actor=None if farthest is None else farthest.actor,
        structure=_structure(golden, now),
        channels_gone=gone,
        channels_new=new,
        every_rows=max((int(np.diff(kept.path_rows[:2])[0]) for kept in golden.actors if len(kept.path_rows) > 1), default=1),
    )


def _actor_differences(golden: GoldenRun, now: Repeat) -> tuple[ActorDifference, ...]:
    """Return every actor that differs, the earliest first. Ties are in causal order of their first field, then by id."""
    types = {actor.id: actor.type for actor in now.actors}
    found = []
    for kept in golden.actors:
        rows = np.flatnonzero(now.actor == kept.actor.id)
        if not len(rows) and not len(kept.ticks):
            continue
        same_type = types.get(kept.actor.id, kept.actor.type) == kept.actor.type
        comparable = same_type and now.channels == golden.header.channels
        difference = _Held(golden, kept, now, rows).difference(tags=comparable, same_type=same_type)
        if difference is not None:
            found.append(difference)
    known = {kept.actor.id for kept in golden.actors}
    for actor in now.actors:
        ticks = now.tick[now.actor == actor.id]
        if actor.id not in known and len(ticks):
            found.append(ActorDifference(actor.id, actor.type, int(ticks[0]), None, expected=False))
    return tuple(sorted(found, key=lambda listed: (_is_of_resampling(listed), listed.tick, _rank(listed), listed.actor)))


def _is_of_resampling(actor: ActorDifference) -> bool:
    return actor.fields == (RESAMPLING,)


def _rank(actor: ActorDifference) -> int:
    if not actor.present or not actor.expected:
        return causal_rank("presence")
    return causal_rank(actor.fields[0]) if actor.fields and actor.fields_tick == actor.tick else causal_rank("")


@dataclass(frozen=True)
class _Held:
    """One actor of the golden run held against the rows of the same actor now."""

    golden: GoldenRun
    kept: GoldenActor
    now: Repeat
    rows: Ints

    def difference(self, *, tags: bool, same_type: bool) -> ActorDifference | None:
        """Return how the actor differs. Without ``tags`` its digests began with other words, so that only fields count."""
        ticks = self.now.tick[self.rows]
        alone = np.setxor1d(self.kept.ticks, ticks)
        names = np.array(("time_s", *self._common()))
        fields_at, fields_differ = self._fields()
        counted = fields_differ & (names != RESAMPLING)
        if RESAMPLING in names and counted.any():
            # Tags cover how far resampling may be off as well, which is no quantity of the world.
            fields_differ, tags = counted, False
        differing = self._tags() if tags else (fields_at, fields_differ.any(axis=1))
        other_type = () if same_type or not len(ticks) else ticks[:1]
        places = [int(tick) for tick in (*other_type, *alone[:1], *differing[0][differing[1]][:1])]
        # What is in no kept row may still differ: then it is found in none of these, and the run's digest alone knows.
        if not places:
            return None
        tick = min(places)
        equal = differing[0][~differing[1] & (differing[0] < tick)]
        equal_tick = int(equal[-1]) if len(equal) else None
        present, expected = tick in ticks, tick in self.kept.ticks
        if not present or not expected:
            return ActorDifference(self.kept.actor.id, self.kept.actor.type, tick, equal_tick, present, expected)
        later = np.flatnonzero((fields_at >= tick) & fields_differ.any(axis=1))
        fields = [str(name) for name in names[fields_differ[later[0]]]] if len(later) else []
        fields_tick = int(fields_at[later[0]]) if len(later) else None
        if len(other_type) and fields_tick != tick:
            fields, fields_tick = ["type"], tick
        apart_at, apart_m = self._apart()
        there = apart_m[apart_at == tick]
        worst = int(np.argmax(apart_m)) if len(apart_m) else None
        state = next((state for state in self.golden.states if state.actor == self.kept.actor.id and state.tick >= tick), None)
        changes, changes_apart_m = ((), None) if state is None else self._changes(state)
        return ActorDifference(
            actor=self.kept.actor.id,
            actor_type=self.kept.actor.type,
            tick=tick,
            equal_tick=equal_tick,
            fields=tuple(sorted(fields, key=causal_rank)),
            fields_tick=fields_tick,
            apart_m=float(there[0]) if len(there) else None,
            max_apart_m=None if worst is None else float(apart_m[worst]),
            max_apart_tick=None if worst is None else int(apart_at[worst]),
            changes_tick=None if state is None else state.tick,
            changes=changes,
            changes_apart_m=changes_apart_m,
        )

    def _common(self) -> tuple[str, ...]:
        return tuple(name for name in self.golden.header.channels if name in self.now.channels)

    def _pair(self, kept_rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Return, of kept rows that the run has too: their ticks, which of the kept rows they are, and the run's rows."""
        ticks = self.kept.ticks[kept_rows]
        here = self.now.tick[self.rows]
        at = np.searchsorted(here, ticks)
        there = np.flatnonzero((at < len(here)) & (here[np.minimum(at, len(here) - 1)] == ticks)) if len(here) else at[:0]
        return ticks[there], there, self.rows[at[there]] if len(here) else self.rows

    def _tags(self) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        ticks, kept, rows = self._pair(self.kept.tag_rows)
        return ticks, np.any(self.kept.tags[kept] != self.now.digests[rows, :TAG_BYTES], axis=1)

    def _fields(self) -> tuple[Ints, np.ndarray[tuple[int, int], np.dtype[np.bool_]]]:
        """Ticks, and which of the common fields differ there, time first."""
        ticks, kept, rows = self._pair(self.kept.field_rows)
        common = self._common()
        before = [0, *(1 + self.golden.header.channels.index(name) for name in common)]
        columns = [self.now.channels.index(name) for name in common]
        found = field_tags(self.now.time_s[rows], self.now.values[rows][:, columns])
        return ticks, self.kept.fields[kept][:, before] != found

    def _apart(self) -> tuple[Ints, Floats]:
        """Ticks, and how far the actor is from where it was: over the axes that both have."""
        ticks, kept, rows = self._pair(self.kept.path_rows)
        had = [axis for axis in POSITION if axis in self.golden.header.channels]
        axes = [axis for axis in had if axis in self.now.channels]
        before = self.kept.path[kept][:, [had.index(axis) for axis in axes]] * PATH_STEP_M
        here = self.now.values[rows][:, [self.now.channels.index(axis) for axis in axes]]
        apart_m = np.sqrt(np.sum((here - before) ** 2, axis=1))
        # What is nearer than the rounding may be no distance at all.
        return ticks, np.where(apart_m <= PATH_ERROR_M, 0.0, apart_m)

    def _changes(self, state: KeptState) -> tuple[tuple[FieldChange, ...], float | None]:
        """Both values of every field that differs in a row that was kept whole, and the exact distance there."""
        at = self.rows[self.now.tick[self.rows] == state.tick]
        if not len(at):
            return (), None
        before = {"time_s": state.time_s, **dict(zip(self.golden.header.channels, state.values, strict=True))}
        here = {"time_s": float(self.now.time_s[at[0]])}
        here |= dict(zip(self.now.channels, self.now.values[at[0]].tolist(), strict=True))
        names = [name for name in before if name in here and _bits(before[name]) != _bits(here[name])]
        axes = [axis for axis in POSITION if axis in before and axis in here]
        apart_m = math.dist([before[axis] for axis in axes], [here[axis] for axis in axes])
        changes = tuple(FieldChange(name, _or_none(before[name]), _or_none(here[name])) for name in names)
        return changes, apart_m if math.isfinite(apart_m) else None


def _structure(golden: GoldenRun, now: Repeat) -> tuple[str, ...]:
    """Name what no distance can express: other actors, other lengths, other collisions, another end."""
    lines = []
    before, here = {kept.actor for kept in golden.actors}, set(now.actors)
    if before != here:
        gone, new = sorted(before - here), sorted(here - before)
        named = (("without", gone), ("with", new))
        told = [f"{word} {', '.join(f'{actor.id} ({actor.type})' for actor in some[:5])}" for word, some in named if some]
        lines.append(f"Other actors: {' and '.join(told)}")
    else:
        for kept in golden.actors:
            ticks = now.tick[now.actor == kept.actor.id]
            if not np.array_equal(ticks, kept.ticks):
                lines.append(f"Actor {kept.actor.id} has {len(ticks)} states instead of {len(kept.ticks)}")
                break
    # Collisions can be told apart only where all events were kept.
    if golden.event_count == len(golden.events):
        info = info_of(now)
        pairs = [collided_pairs(replace(info, events=events)) for events in (golden.events, now.events)]
        if pairs[0] != pairs[1]:
            lines.append(f"Collisions: {pair_words(pairs[1])} instead of {pair_words(pairs[0])}")
    elif golden.event_count != len(now.events):
        lines.append(f"{len(now.events)} events instead of {golden.event_count}")
    if golden.end != now.end:
        lines.append(f"The run ends by {_end_words(now.end)} instead of {_end_words(golden.end)}")
    return tuple(lines)


def _event_difference(golden: GoldenRun, now: Repeat) -> tuple[int, str, str] | None:
    """The first event that is not the same: its tick, what it was, what it is."""
    for index, before in enumerate(golden.events):
        here = now.events[index] if index < len(now.events) else None
        if here is None or here.to_bytes() != before.to_bytes():
            tick = before.tick if here is None else min(before.tick, here.tick)
            return tick, _event_words(before), _event_words(here)
    if len(now.events) > len(golden.events) == golden.event_count:
        return now.events[len(golden.events)].tick, "no event", _event_words(now.events[len(golden.events)])
    if len(now.events) != golden.event_count:
        return now.end.tick, f"{golden.event_count} events in all", f"{len(now.events)}"
    return None


def _last_common_event(golden: GoldenRun, now: Repeat, tick: int) -> str:
    common = "start"
    for before, here in zip(golden.events, now.events, strict=False):
        if before.to_bytes() != here.to_bytes() or before.tick > tick:
            break
        common = _event_words(before)
    return common


def _event_words(event: Event | None) -> str:
    if event is None:
        return "no event"
    who = "" if event.actor is None else f" of actor {event.actor}"
    other = "" if event.other is None else f" with actor {event.other}"
    impulse = "" if event.impulse_ns is None else f" [impulse {', '.join(map(repr, event.impulse_ns))} N s]"
    detail = f" ({event.detail})" if event.detail else ""
    return f"{event.kind}{who}{other} at tick {event.tick}{detail}{impulse}"


def _end_words(end: RunEnd) -> str:
    return f"{end.reason!r} at tick {end.tick}" + ("" if end.completed else ", cut off")


def _followers(actors: Sequence[ActorDifference]) -> str:
    """Say who parts, and when."""
    told = [f"actor {actor.actor} from tick {actor.tick} on" for actor in actors[:5]]
    return ", ".join(told) + (f" and {len(actors) - 5} more" if len(actors) > 5 else "")


def _about(distance_m: float) -> str:
    """Print a distance from a rounded place with no more figures than are true."""
    return format_length(float(f"{distance_m:.{3 if distance_m > 100 * PATH_ERROR_M else 1}g}"))


def _bits(value: float) -> bytes:
    # «Does not apply» has one bit pattern, whatever NaN it was: nan itself gives it.
    return struct.pack("<d", math.nan if math.isnan(value) else value)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _number(value: float | None) -> str:
    return "not there" if value is None else repr(value)
