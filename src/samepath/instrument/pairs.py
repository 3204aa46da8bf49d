"""Two runs held against each other: how far apart they ever are, and where they part, in one line."""

from dataclasses import replace
from itertools import zip_longest

import numpy as np

from samepath.core.channels import POSITION
from samepath.core.units import format_length
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.outcomes import Pair, collided_pairs
from samepath.instrument.traces.cell import MemoryCell, info_of
from samepath.instrument.traces.records import Header, Repeat

Ending = tuple[tuple[Pair, ...], str, bool]


def ending_of(run: Repeat) -> Ending:
    """What the run came to: who collided, why it ended, whether it was completed. Ticks do not count."""
    return collided_pairs(info_of(run)), run.end.reason, run.end.completed


def farthest_m(a: Repeat, b: Repeat) -> float | None:
    """How far any actor ever is from where it is in the other run; None where they differ in ways no distance can express."""
    same_rows = np.array_equal(a.tick, b.tick) and np.array_equal(a.actor, b.actor) and a.actors == b.actors
    if not same_rows or ending_of(a) != ending_of(b) or a.end.tick != b.end.tick:
        return None
    axes = [axis for axis in POSITION if axis in a.channels and axis in b.channels]
    places = [run.values[:, [run.channels.index(axis) for axis in axes]] for run in (a, b)]
    return float(np.sqrt(np.sum((places[0] - places[1]) ** 2, axis=1)).max(initial=0.0))


def parting_tick(a: Repeat, b: Repeat) -> int | None:
    """The first tick at which two runs differ, in a state, an event or their end; None where they are equal."""
    if a.digest == b.digest:
        return None
    ticks = [min(a.end.tick, b.end.tick)]
    shared = min(len(a.tick), len(b.tick))
    rows = [np.column_stack([run.tick[:shared], run.actor[:shared], run.digests[:shared]]) for run in (a, b)]
    odd = np.flatnonzero(np.any(rows[0] != rows[1], axis=1))
    # Rows are in the order of ticks: the first that differs, or that only one has, is of the first tick that does.
    ticks += [int(min(a.tick[odd[0]], b.tick[odd[0]]))] if len(odd) else []
    ticks += [int(run.tick[shared]) for run in (a, b) if not len(odd) and len(run.tick) > shared]
    for event_a, event_b in zip_longest(a.events, b.events):
        if event_a is None or event_b is None or event_a.to_bytes() != event_b.to_bytes():
            ticks.append(min(event.tick for event in (event_a, event_b) if event is not None))
            break
    return min(ticks)


def parting_words(header: Header, a: Repeat, b: Repeat) -> str:
    """Say where ``b`` parts from ``a``; nothing where they are equal."""
    if a.channels != b.channels:
        return "they log other channels"
    if a.digest == b.digest:
        return ""
    pair = MemoryCell(replace(header, channels=a.channels), [replace(a, repeat=0), replace(b, repeat=1)])
    first = analyse_cell(pair).first_divergence
    if first is None:
        return ""
    who = "the run" if first.actor is None else f"actor {first.actor} ({first.actor_type})"
    values = [repr(value) if isinstance(value, float) else str(value) for value in (first.value, first.reference_value)]
    apart = "" if first.distance_m is None else f", {format_length(first.distance_m)} apart"
    more = f" and {len(first.differing_fields) - 1} more fields" if len(first.differing_fields) > 1 else ""
    return (
        f"at tick {first.tick} ({first.time_s:g} s) {first.field}{more} of {who} part: {values[0]} instead of {values[1]}"
        f"{apart}; last common event: {first.last_common_event}"
    )
