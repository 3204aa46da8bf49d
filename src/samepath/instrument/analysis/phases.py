"""Phases: before and after the first collision, or any other event or moment the user names.

A boundary is the *earliest* tick at which the event happened in any repeat, so that nothing from after it, in any repeat,
leaks into the phase before. The state logged at the tick of a collision already bears it: that tick is «after».
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.core.units import parse_duration_s
from samepath.instrument.analysis.spread import CellSpread
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import EventKind

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """Where a run is cut in two: at the first event of a kind, or at a tick."""

    kind: str = EventKind.COLLISION.value
    tick: int | None = None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.kind if self.tick is None else f"tick {self.tick}"


COLLISION = Split()


def parse_split(text: str, step_s: float) -> Split:
    """Read ``collision``, any event's kind, ``tick=120`` or ``t=6s``."""
    key, equals, value = text.partition("=")
    if not equals:
        return Split(text)
    if key == "tick" and value.strip().isdigit():
        return Split("tick", int(value))
    if key == "t":
        return Split("tick", math.ceil(parse_duration_s(value) / step_s - 1e-9))
    raise InputError(f"an event such as collision, or tick=120, or t=6s was wanted, but {text!r} came")


@dataclass(frozen=True)
class PhaseBoundary:
    """When the event happened: per repeat and per actor involved.

    ``first_tick`` is None where no repeat has the event. ``ticks`` counts repeats by the tick of their first one (None:
    never), ``actor_first_tick`` gives the earliest tick in any repeat at which an actor was involved.
    """

    split: Split
    first_tick: int | None
    ticks: dict[int | None, int]
    actor_first_tick: dict[int, int]

    def before(self, spread: CellSpread) -> Bools:
        """Mask the pairs before the first event of the whole population."""
        ticks = np.repeat(spread.ticks, len(spread.actor_ids))
        return np.ones(len(ticks), np.bool_) if self.first_tick is None else ticks < self.first_tick

    def after(self, spread: CellSpread, *, involved: bool | None = None) -> Bools:
        """Mask the pairs from the first event on; of the actors involved in any, of the others, or of all."""
        mask = ~self.before(spread)
        if involved is not None:
            member = np.isin(spread.actor_ids, sorted(self.actor_first_tick))
            mask &= np.tile(member if involved else ~member, len(spread.ticks))
        return mask

    def before_own(self, spread: CellSpread) -> Bools:
        """Mask the pairs before each actor's own first involvement (an uninvolved actor: all of its pairs)."""
        limits = np.array([self.actor_first_tick.get(int(known), np.iinfo(np.int64).max) for known in spread.actor_ids])
        return np.repeat(spread.ticks, len(limits)) < np.tile(limits, len(spread.ticks))


def find_boundary(cell: CellTrace, split: Split | None = None) -> PhaseBoundary:
    """Find when the splitting event happened in each repeat."""
    split = split or COLLISION
    if split.tick is not None:
        return PhaseBoundary(split, split.tick, {split.tick: len(cell.runs)}, {})
    counts: dict[int | None, int] = {}
    per_actor: dict[int, int] = {}
    for run in cell.runs:
        events = [event for event in run.events if event.kind == split.kind]
        first = min((event.tick for event in events), default=None)
        counts[first] = counts.get(first, 0) + 1
        for event in events:
            for actor in (event.actor, event.other):
                if actor is not None:
                    per_actor[actor] = min(event.tick, per_actor.get(actor, event.tick))
    known = [tick for tick in counts if tick is not None]
    ordered = dict(sorted(counts.items(), key=lambda item: (item[0] is None, item[0] or 0)))
    return PhaseBoundary(split, min(known) if known else None, ordered, dict(sorted(per_actor.items())))
