"""A* over the eight neighbours of a grid's cells, in whole numbers.

A straight step costs 70 and a diagonal one 99 (99/70 is within 1e-4 of the square root of 2): sums are exact, so ties are
real ties, and which of several shortest paths comes out is decided by the queue and the order of neighbours alone. A
diagonal step needs both cells beside it to be free. The octile distance never overestimates and is consistent, so every
queue returns a path of the smallest cost.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from samepath.base.errors import InputError
from samepath.sim.navigation.grid import Cell, Grid
from samepath.sim.navigation.queues import PriorityQueue, StableQueue

STRAIGHT_COST: Final = 70
DIAGONAL_COST: Final = 99
NEIGHBOURS: Final[tuple[Cell, ...]] = ((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
"""Steps (column, row) in the order in which neighbours are looked at, unless another order is asked for."""


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
