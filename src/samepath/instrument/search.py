"""Searches over things that are expensive to try: bisection, and delta debugging. Pure: they only ask.

All of them ask in an order that depends on nothing but their arguments and the answers, so that a search that was interrupted
and remembers its answers goes on where it was.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

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
