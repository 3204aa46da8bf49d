"""What searches share (``bisect``, ``shrink``, ``search``): how they ask, where they remember, how two runs are compared.

Bisection and delta debugging only ask. They do so in an order that depends on nothing but their arguments and the answers, so
that a search that was interrupted and remembers its answers goes on where it was.

A search that runs things for a long time has a folder: what was asked, what is known, and the answer. Interrupted, it goes on
when the same is asked again, because it asks in the same order and finds its answers there. One that was finished is not
believed again: code and files that it ran may be others by now. Another question begins anew. A folder that holds anything else
is refused.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from samepath.core.channels import POSITION
from samepath.core.digests import fingerprint
from samepath.core.errors import StoreError
from samepath.core.files import write_text_atomically
from samepath.core.units import format_length
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.outcomes import Pair, collided_pairs
from samepath.instrument.execution.folder import LOCK_FILE, locked
from samepath.instrument.traces.cell import MemoryCell, info_of
from samepath.instrument.traces.records import Header, Repeat

T = TypeVar("T")


def first_change(last: int, same: Callable[[int], bool]) -> int:
    """Return an index whose answer is no while the one before it is yes, where 0 is known to be yes and ``last`` to be no.

    Of several such places one is found: only where there is one, it is the first.
    """
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if same(middle) else (low, middle)
    return high


def minimal(items: Sequence[T], holds: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a part of ``items`` for which ``holds`` is true, and of which no single item can be left out (Zeller's ddmin).

    ``holds(items)`` is known to be true, ``holds(())`` to be false. Order is kept.
    """
    kept = tuple(items)
    parts = 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        # One part alone first: where it holds, everything else is gone at once.
        found = next((chunk for chunk in chunks if len(chunk) < len(kept) and holds(chunk)), None)
        if found is not None:
            kept, parts = found, 2
            continue
        found = next((rest for chunk in chunks if (rest := _without(kept, chunk)) and _new(rest, chunks) and holds(rest)), None)
        if found is not None:
            kept, parts = found, max(parts - 1, 2)
            continue
        if size == 1:
            break
        parts = min(len(kept), parts * 2)
    return kept


def shortest(items: Sequence[T], holds: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Remove what can be removed, in large pieces first, then one by one until no single one can; ``holds(items)`` is true."""
    kept = tuple(items)
    size = len(kept)
    while size >= 1:
        start, removed = 0, False
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if rest != kept and holds(rest):
                kept, removed = rest, True
            else:
                start += size
        # Once nothing of this size goes, smaller pieces; at size one, again until a whole round removes nothing.
        size = size // 2 if size > 1 else 1 if removed else 0
    return kept


def _without(items: tuple[T, ...], chunk: tuple[T, ...]) -> tuple[T, ...]:
    start = next(index for index in range(len(items)) if items[index : index + len(chunk)] == chunk)
    return items[:start] + items[start + len(chunk) :]


def _new(rest: tuple[T, ...], chunks: Sequence[tuple[T, ...]]) -> bool:
    """Of two halves each is the rest of the other, and was asked for."""
    return rest not in chunks


SEARCH_FILE: Final = "search.json"
_FORMAT: Final = "samepath-search"
_VERSION: Final = 1


class SearchFolder:
    """A folder with the memory of one search; what it knows is in ``place``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "known"

    def finish(self, answer: Mapping[str, Any]) -> None:
        """Write the answer down: from now on the same question is asked anew."""
        path = self.folder / SEARCH_FILE
        write_text_atomically(
            path, json.dumps({**json.loads(path.read_text("utf-8")), "answer": answer}, indent=1, default=str)
        )


@contextmanager
def search_folder(folder: Path, question: Mapping[str, object]) -> Iterator[SearchFolder]:
    """Open the folder of a search, and keep every other samepath out of it."""
    with locked(folder):
        path = folder / SEARCH_FILE
        asked = fingerprint(question)
        if path.exists():
            found = _read(path)
            if found.get("fingerprint") != asked or "answer" in found:
                shutil.rmtree(folder / "known", ignore_errors=True)
                path.unlink()
        elif any(entry.name != LOCK_FILE for entry in folder.iterdir()):
            raise StoreError(f"{folder} is not an empty folder and holds no search: choose another --out folder")
        if not path.exists():
            fields = {"format": _FORMAT, "version": _VERSION, "fingerprint": asked, "question": question}
            write_text_atomically(path, json.dumps(fields, indent=1, default=str))
        opened = SearchFolder(folder)
        opened.place.mkdir(exist_ok=True)
        yield opened


def _read(path: Path) -> dict[str, object]:
    try:
        found = dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}): choose another --out folder") from error
    if (found.get("format"), found.get("version")) != (_FORMAT, _VERSION):
        raise StoreError(f"{path} is no search that this samepath can go on with: choose another --out folder")
    return found


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
