"""Priority queues that differ only in how they break ties.

A* takes the frontier's best node, and where several are equally good the queue decides. A *stable* queue takes the one that
came first. An *unstable* one, such as the plain binary heap of most libraries, takes the one its heap order puts on top:
always the same for the same history of insertions, but another history, say another order of neighbours, may give another
of the equally short paths. A *randomised* one draws lots (Section IV-F of the paper on determinism of game engines).
"""

import heapq
import os
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from samepath.base.suggest import unknown

_DRAWS_AT_ONCE: Final = 256


class PriorityQueue(Protocol):
    """Items come out smallest priority first; only the order of ties differs between queues."""

    def push(self, priority: int, item: int) -> None:
        """Add ``item``."""

    def pop(self) -> int:
        """Remove and return an item of the smallest priority; an empty queue raises IndexError."""

    def __len__(self) -> int: ...


class StableQueue:
    """Ties leave in the order in which they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []
        self._count = 0

    def push(self, priority: int, item: int) -> None:
        """Add ``item`` behind all of equal priority."""
        self._count += 1
        heapq.heappush(self._heap, (priority, self._count, item))

    def pop(self) -> int:
        """Remove and return the oldest item of the smallest priority."""
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)


class UnstableQueue:
    """A plain binary heap that looks at priorities alone; ties leave in heap order."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def push(self, priority: int, item: int) -> None:
        """Add ``item`` at the bottom and let it rise past larger priorities."""
        heap = self._heap
        entry = (priority, item)
        place = len(heap)
        heap.append(entry)
        while place:
            parent = (place - 1) >> 1
            above = heap[parent]
            if above[0] <= priority:
                break
            heap[place] = above
            place = parent
        heap[place] = entry

    def pop(self) -> int:
        """Remove and return the item on top; the last one sinks from there past smaller priorities."""
        heap = self._heap
        entry = heap.pop()
        if not heap:
            return entry[1]
        top = heap[0][1]
        priority, size, place, child = entry[0], len(heap), 0, 1
        while child < size:
            if child + 1 < size and heap[child + 1][0] < heap[child][0]:
                child += 1
            if heap[child][0] >= priority:
                break
            heap[place] = heap[child]
            place, child = child, 2 * child + 1
        heap[place] = entry
        return top

    def __len__(self) -> int:
        return len(self._heap)


class RandomisedQueue:
    """Ties leave in random order, drawn from ``generator`` or, without one, from the operating system."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self._heap: list[tuple[int, int, int, int]] = []
        self._generator = generator
        self._lots: list[int] = []
        self._count = 0

    def push(self, priority: int, item: int) -> None:
        """Add ``item`` with a lot of its own."""
        if not self._lots:
            self._lots = self._draw()
        self._count += 1
        heapq.heappush(self._heap, (priority, self._lots.pop(), self._count, item))

    def pop(self) -> int:
        """Remove and return the item with the smallest lot among those of the smallest priority."""
        return heapq.heappop(self._heap)[3]

    def __len__(self) -> int:
        return len(self._heap)

    def _draw(self) -> list[int]:
        if self._generator is None:
            return [int(lot) for lot in np.frombuffer(os.urandom(8 * _DRAWS_AT_ONCE), dtype="<u8")]
        return [int(lot) for lot in self._generator.integers(0, 1 << 63, size=_DRAWS_AT_ONCE, dtype=np.int64)]


QUEUES: Final[dict[str, Callable[[np.random.Generator | None], PriorityQueue]]] = {
    "stable": lambda _: StableQueue(),
    "unstable": lambda _: UnstableQueue(),
    "randomised": RandomisedQueue,
}
"""The queues by name; each takes a generator, which only ``randomised`` uses."""


def make_queue(name: str, generator: np.random.Generator | None = None) -> PriorityQueue:
    """Return an empty queue of the kind called ``name``."""
    if name not in QUEUES:
        raise unknown("priority queue", name, QUEUES)
    return QUEUES[name](generator)
