"""Shortest paths for walkers: a grid of walkable cells, priority queues that differ in ties, A* over the grid.

Cells are (column, row): columns run along +x, rows along +y, and cell (0, 0) has its low corner at ``origin_m``. A cell is
walkable where its centre lies in, or on the boundary of, a walkable polygon.

A* takes the frontier's best node, and where several are equally good the queue decides. A *stable* queue takes the one that
came first. An *unstable* one, such as the plain binary heap of most libraries, takes the one its heap order puts on top: always
the same for the same history of insertions, but another history, say another order of neighbours, may give another of the
equally short paths. A *randomised* one draws lots (Section IV-F of the paper on determinism of game engines).

Costs are whole numbers: a straight step costs 70 and a diagonal one 99 (99/70 is within 1e-4 of the square root of 2). Sums are
exact, so ties are real ties, and which of several shortest paths comes out is decided by the queue and the order of neighbours
alone. A diagonal step needs both cells beside it to be free. The octile distance never overestimates and is consistent, so
every queue returns a path of the smallest cost.
"""

import heapq
import math
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from samepath.core.errors import InputError, unknown

Cell = tuple[int, int]
Polygon = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CELL_M: Final = 0.25
STRAIGHT_COST: Final = 70
DIAGONAL_COST: Final = 99
# Steps (column, row) in the order in which neighbours are looked at, unless another order is asked for.
NEIGHBOURS: Final[tuple[Cell, ...]] = ((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
# Lots of the randomised queue are drawn in bulk: asking a generator for each takes longer than the search.
_DRAWS_AT_ONCE: Final = 256


@dataclass(frozen=True, eq=False)
class Grid:
    """Which cells can be walked on: ``walkable`` is bool[row, column], read-only."""

    origin_m: tuple[float, float]
    walkable: Flags
    cell_m: float = CELL_M

    def __post_init__(self) -> None:
        flags = np.array(self.walkable, dtype=np.bool_, order="C")
        if flags.ndim != 2 or 0 in flags.shape:
            raise InputError(f"a grid of rows and columns was wanted, but an array of shape {flags.shape} came")
        if not 0.0 < self.cell_m < math.inf:
            raise InputError(f"cells of a positive size were wanted, but {self.cell_m!r} m came")
        flags.setflags(write=False)
        object.__setattr__(self, "walkable", flags)

    @property
    def columns(self) -> int:
        """Number of cells along x."""
        return int(self.walkable.shape[1])

    @property
    def rows(self) -> int:
        """Number of cells along y."""
        return int(self.walkable.shape[0])

    @property
    def stride(self) -> int:
        """Length of a row of :attr:`padded`."""
        return self.columns + 2

    @cached_property
    def padded(self) -> bytes:
        """The flags, row by row, inside a frame of cells that cannot be walked on: searches need no test for the edge."""
        return np.pad(self.walkable, 1).astype(np.uint8).tobytes()

    def index(self, cell: Cell) -> int:
        """Return the place of ``cell`` in :attr:`padded`."""
        return (cell[1] + 1) * self.stride + cell[0] + 1

    def contains(self, cell: Cell) -> bool:
        """Say whether ``cell`` lies on the grid."""
        return 0 <= cell[0] < self.columns and 0 <= cell[1] < self.rows

    def is_walkable(self, cell: Cell) -> bool:
        """Say whether ``cell`` lies on the grid and can be walked on."""
        return self.contains(cell) and bool(self.walkable[cell[1], cell[0]])

    def cell_of(self, x_m: float, y_m: float) -> Cell:
        """Return the cell that holds the point, which may lie off the grid."""
        return math.floor((x_m - self.origin_m[0]) / self.cell_m), math.floor((y_m - self.origin_m[1]) / self.cell_m)

    def centre_of(self, cell: Cell) -> tuple[float, float]:
        """Return the centre of ``cell`` in metres."""
        return self.origin_m[0] + (cell[0] + 0.5) * self.cell_m, self.origin_m[1] + (cell[1] + 0.5) * self.cell_m

    def find_walkable(self, x_m: float, y_m: float, limit_m: float = 1.0) -> Cell | None:
        """Return the point's own cell, or else the walkable one nearest to it within ``limit_m``, or None.

        Distance is counted in whole cells between cells; ties go to the smallest row, then the smallest column.
        """
        if not (math.isfinite(x_m) and math.isfinite(y_m)):
            raise InputError(f"a finite point was wanted, but ({x_m!r}, {y_m!r}) came")
        column, row = self.cell_of(x_m, y_m)
        reach = math.floor(limit_m / self.cell_m)
        best: tuple[int, int, int] | None = None
        for ring in range(reach + 1):
            # A ring's cells are at least `ring` away, so nothing further out can beat what is closer than that.
            if best is not None and best[0] < ring * ring:
                break
            for near_row, near_column in _ring(row, column, ring):
                if not self.is_walkable((near_column, near_row)):
                    continue
                distance = (near_row - row) ** 2 + (near_column - column) ** 2
                candidate = (distance, near_row, near_column)
                if distance <= reach * reach and (best is None or candidate < best):
                    best = candidate
        return None if best is None else (best[2], best[1])

    def nearest_walkable(self, x_m: float, y_m: float, limit_m: float = 1.0) -> Cell:
        """Return what :meth:`find_walkable` finds, and refuse the point where it finds nothing."""
        cell = self.find_walkable(x_m, y_m, limit_m)
        if cell is None:
            raise InputError(
                f"a point within {limit_m:g} m of a walkable cell was wanted, but ({x_m:.2f}, {y_m:.2f}) m came: "
                "move it or widen the limit"
            )
        return cell

    def cells_within(self, x_m: float, y_m: float, radius_m: float) -> frozenset[Cell]:
        """Return the cells whose centres are within ``radius_m`` of the point."""
        reach = math.floor(radius_m / self.cell_m) + 1
        column, row = self.cell_of(x_m, y_m)
        limit = radius_m * radius_m
        found = []
        for near_row in range(max(row - reach, 0), min(row + reach + 1, self.rows)):
            for near_column in range(max(column - reach, 0), min(column + reach + 1, self.columns)):
                centre_x, centre_y = self.centre_of((near_column, near_row))
                if (centre_x - x_m) * (centre_x - x_m) + (centre_y - y_m) * (centre_y - y_m) <= limit:
                    found.append((near_column, near_row))
        return frozenset(found)


def _ring(row: int, column: int, ring: int) -> Iterable[tuple[int, int]]:
    if ring == 0:
        yield row, column
        return
    for along in range(-ring, ring + 1):
        yield row - ring, column + along
        yield row + ring, column + along
    for along in range(-ring + 1, ring):
        yield row + along, column - ring
        yield row + along, column + ring


def rasterise(polygons: Sequence[Polygon], *, holes: Sequence[Polygon] = (), cell_m: float = CELL_M) -> Grid:
    """Return the grid that covers ``polygons``, each float[n, 2] in metres and filled by the even-odd rule.

    Overlapping polygons join. Cells inside ``holes`` are taken out; those on a hole's boundary, too. Grid lines lie on whole
    multiples of ``cell_m``, so that grids of neighbouring areas agree.
    """
    rings = [_checked(polygon) for polygon in polygons]
    if not rings:
        raise InputError("at least one polygon was wanted, but none came")
    if not 0.0 < cell_m < math.inf:
        raise InputError(f"cells of a positive size were wanted, but {cell_m!r} m came")
    first_column, first_row = (math.floor(min(float(ring[:, axis].min()) for ring in rings) / cell_m) for axis in (0, 1))
    last_column, last_row = (math.floor(max(float(ring[:, axis].max()) for ring in rings) / cell_m) for axis in (0, 1))
    origin_m = (first_column * cell_m, first_row * cell_m)
    xs = origin_m[0] + (np.arange(last_column - first_column + 1, dtype=np.float64) + 0.5) * cell_m
    ys = origin_m[1] + (np.arange(last_row - first_row + 1, dtype=np.float64) + 0.5) * cell_m
    walkable = np.zeros((len(ys), len(xs)), dtype=np.bool_)
    for ring in rings:
        walkable |= _covered(ring, xs, ys)
    for hole in holes:
        walkable &= ~_covered(_checked(hole), xs, ys)
    return Grid(origin_m, walkable, cell_m)


def _checked(polygon: Polygon) -> Polygon:
    ring = np.asarray(polygon, dtype=np.float64)
    if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3 or not np.isfinite(ring).all():
        raise InputError(f"a polygon of at least three finite points was wanted, but an array of shape {ring.shape} came")
    return ring


def _covered(ring: Polygon, xs: Polygon, ys: Polygon) -> Flags:
    """Fill row by row between pairs of crossings, both included.

    An edge counts once with its upper end left out and once with its lower end left out; together with level edges this
    makes every boundary point, peaks and troughs included, part of the polygon.
    """
    covered = np.zeros((len(ys), len(xs)), dtype=np.bool_)
    x1, y1 = ring[:, 0], ring[:, 1]
    x2, y2 = np.roll(x1, -1), np.roll(y1, -1)
    # One direction for every edge: polygons that share an edge compute the same crossings.
    swap = (y1 > y2) | ((y1 == y2) & (x1 > x2))
    x1, x2 = np.where(swap, x2, x1), np.where(swap, x1, x2)
    y1, y2 = np.where(swap, y2, y1), np.where(swap, y1, y2)
    rise = np.where(y1 == y2, 1.0, y2 - y1)
    for row in range(int(np.searchsorted(ys, y1.min())), int(np.searchsorted(ys, y2.max(), side="right"))):
        y = ys[row]
        crossings = np.where(y == y2, x2, x1 + (y - y1) * (x2 - x1) / rise)
        for crosses in ((y1 <= y) & (y < y2), (y1 < y) & (y <= y2)):
            sorted_x = np.sort(crossings[crosses])
            first = np.searchsorted(xs, sorted_x[0::2], side="left")
            last = np.searchsorted(xs, sorted_x[1::2], side="right")
            for start, stop in zip(first, last, strict=True):
                covered[row, start:stop] = True
        for edge in np.flatnonzero((y1 == y) & (y2 == y)):
            covered[row, np.searchsorted(xs, x1[edge], side="left") : np.searchsorted(xs, x2[edge], side="right")] = True
    return covered


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


def octile_cost(a: Cell, b: Cell) -> int:
    """Return the cost of the shortest path between two cells of an empty grid."""
    across, along = abs(a[0] - b[0]), abs(a[1] - b[1])
    return STRAIGHT_COST * (across + along) + (DIAGONAL_COST - 2 * STRAIGHT_COST) * min(across, along)


def path_cost(cells: Sequence[Cell]) -> int:
    """Return the cost of a path of neighbouring cells."""
    return sum(octile_cost(a, b) for a, b in pairwise(cells))


def free_cells(grid: Grid, blocked: Collection[Cell] = (), *, keep: Collection[Cell] = ()) -> bytearray:
    """Return the padded flags of ``grid`` without the ``blocked`` cells, save those to ``keep``."""
    free = bytearray(grid.padded)
    for cell in blocked:
        if grid.contains(cell) and cell not in keep:
            free[grid.index(cell)] = 0
    return free


def shortest_path(
    grid: Grid,
    start: Cell,
    goal: Cell,
    *,
    queue: PriorityQueue | None = None,
    blocked: Collection[Cell] = (),
    neighbours: Sequence[Cell] = NEIGHBOURS,
    longest: int | None = None,
) -> list[Cell] | None:
    """Return the cells of a shortest path from ``start`` to ``goal``, both included, or None where there is none.

    ``queue`` must be empty and is used up; without one a stable queue is taken. A blocked start does not hold back who
    stands there; a blocked goal cannot be reached. Paths that cost more than ``longest`` count as none, which keeps a search
    for a way that does not exist from flooding the map.
    """
    for name, cell in (("start", start), ("goal", goal)):
        if not grid.is_walkable(cell):
            raise InputError(f"a walkable {name} cell was wanted, but {cell} came: snap it with Grid.nearest_walkable")
    if sorted(neighbours) != sorted(NEIGHBOURS):
        raise InputError(f"an order of the eight neighbours was wanted, but {list(neighbours)} came")
    frontier = StableQueue() if queue is None else queue
    if len(frontier):
        raise InputError(f"an empty queue was wanted, but one with {len(frontier)} items came")
    free = free_cells(grid, blocked, keep=(start,))
    parents = _search(free, grid.stride, grid.index(start), grid.index(goal), frontier, neighbours, longest)
    if parents is None:
        return None
    place = grid.index(goal)
    path = []
    while place >= 0:
        row, column = divmod(place, grid.stride)
        path.append((column - 1, row - 1))
        place = parents[place]
    path.reverse()
    return path


def _search(
    free: bytearray,
    stride: int,
    start: int,
    goal: int,
    frontier: PriorityQueue,
    neighbours: Sequence[Cell],
    longest: int | None,
) -> dict[int, int] | None:
    """Return each reached place's predecessor (-1 for the start), or None when the goal is out of reach."""
    # For each step: how far it moves in the flat array, its cost, and the two places beside a diagonal one.
    steps = [
        (row * stride + column, DIAGONAL_COST if row and column else STRAIGHT_COST, column, row * stride)
        for column, row in neighbours
    ]
    goal_row, goal_column = divmod(goal, stride)
    extra = 2 * STRAIGHT_COST - DIAGONAL_COST
    costs = {start: 0}
    parents = {start: -1}
    done: set[int] = set()
    # The distance to the goal, kept per place: it is asked for whenever a shorter way to a place turns up.
    rest: dict[int, int] = {}
    push, pop = frontier.push, frontier.pop
    push(0, start)
    while len(frontier):
        place = pop()
        if place == goal:
            return parents
        if place in done:
            continue
        done.add(place)
        here = costs[place]
        for move, step_cost, side, other_side in steps:
            near = place + move
            if not free[near] or near in done or not free[place + side] or not free[place + other_side]:
                continue
            cost = here + step_cost
            known = costs.get(near)
            if known is None:
                row, column = divmod(near, stride)
                across, along = abs(column - goal_column), abs(row - goal_row)
                rest[near] = STRAIGHT_COST * (across + along) - extra * (across if across < along else along)
            elif known <= cost:
                continue
            if longest is not None and cost + rest[near] > longest:
                continue
            costs[near] = cost
            parents[near] = place
            push(cost + rest[near], near)
    return None


def line_of_sight(grid: Grid, a: Cell, b: Cell, free: bytes | bytearray | None = None) -> bool:
    """Say whether all cells that the segment between the two centres touches are free; a corner needs both its sides."""
    if not (grid.contains(a) and grid.contains(b)):
        return False
    flags, stride = grid.padded if free is None else free, grid.stride
    across, along = abs(b[0] - a[0]), abs(b[1] - a[1])
    step_x, step_y = (1 if b[0] > a[0] else -1), (stride if b[1] > a[1] else -stride)
    place, goal = grid.index(a), grid.index(b)
    # Twice the signed distance, in half cells, from the segment to the next corner of the grid.
    lead = across - along
    if not flags[place]:
        return False
    while place != goal:
        if lead > 0:
            place += step_x
            lead -= 2 * along
        elif lead < 0:
            place += step_y
            lead += 2 * across
        else:
            if not flags[place + step_x] or not flags[place + step_y]:
                return False
            place += step_x + step_y
            lead += 2 * (across - along)
        if not flags[place]:
            return False
    return True


def straighten(grid: Grid, cells: Sequence[Cell], blocked: Collection[Cell] = ()) -> list[Cell]:
    """Keep only the cells where a path must turn: from each kept cell the next is the last before sight is lost."""
    if len(cells) <= 2:
        return list(cells)
    free = free_cells(grid, blocked, keep=(cells[0],))
    kept = [cells[0]]
    for before, cell in pairwise(cells[1:]):
        if not line_of_sight(grid, kept[-1], cell, free):
            kept.append(before)
    kept.append(cells[-1])
    return kept
