"""A* finds shortest paths with every queue; which of them is the queue's choice."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from samepath.core.errors import InputError
from samepath.core.streams import stream
from samepath.scenarios.astar import (
    NEIGHBOURS,
    QUEUES,
    Grid,
    RandomisedQueue,
    StableQueue,
    UnstableQueue,
    line_of_sight,
    make_queue,
    octile_cost,
    path_cost,
    shortest_path,
    straighten,
)

SIZE = 9
flag_bits = st.integers(0, 2 ** (SIZE * SIZE) - 1)
cells = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1))


def grid_of(*bits, free=()):
    """A cell is a wall where every number has its bit: enough walls to go around, enough ways to go."""
    flags = np.array([not all(number >> i & 1 for number in bits) for i in range(SIZE * SIZE)]).reshape(SIZE, SIZE)
    for column, row in free:
        flags[row, column] = True
    return Grid((0.0, 0.0), flags, 1.0)


def open_grid(columns, rows):
    return Grid((0.0, 0.0), np.ones((rows, columns), dtype=bool), 1.0)


def oracle_cost(grid, start, goal):
    sources, targets, costs = [], [], []
    for row in range(grid.rows):
        for column in range(grid.columns):
            for across, along in NEIGHBOURS:
                touched = [(column, row), (column + across, row), (column, row + along), (column + across, row + along)]
                if all(grid.is_walkable(cell) for cell in touched):
                    sources.append(row * grid.columns + column)
                    targets.append((row + along) * grid.columns + column + across)
                    costs.append(99 if across and along else 70)
    size = grid.rows * grid.columns
    graph = coo_array((np.array(costs, dtype=float), (sources, targets)), shape=(size, size)).tocsr()
    return dijkstra(graph, indices=start[1] * grid.columns + start[0])[goal[1] * grid.columns + goal[0]]


@pytest.mark.parametrize("name", sorted(QUEUES))
@settings(max_examples=60, deadline=None)
@given(first=flag_bits, second=flag_bits, start=cells, goal=cells)
def test_every_queue_gives_a_path_of_the_smallest_cost(name, first, second, start, goal):
    grid = grid_of(first, second, free=(start, goal))
    path = shortest_path(grid, start, goal, queue=make_queue(name, stream(1, "astar")))
    expected = oracle_cost(grid, start, goal)
    if path is None:
        assert expected == np.inf
        return
    assert path_cost(path) == expected
    assert (path[0], path[-1]) == (start, goal)
    for (c1, r1), (c2, r2) in pairwise(path):
        assert max(abs(c1 - c2), abs(r1 - r2)) == 1
        assert grid.is_walkable((c1, r2))
        assert grid.is_walkable((c2, r1))


@settings(max_examples=60, deadline=None)
@given(first=flag_bits, second=flag_bits, start=cells, goal=cells, order=st.permutations(NEIGHBOURS))
def test_the_order_of_neighbours_never_changes_the_cost(first, second, start, goal, order):
    grid = grid_of(first, second, free=(start, goal))
    paths = [
        shortest_path(grid, start, goal, queue=make_queue(name, stream(1, "astar")), neighbours=neighbours)
        for name in QUEUES
        for neighbours in (NEIGHBOURS, order)
    ]
    assert len({None if path is None else path_cost(path) for path in paths}) == 1


def test_another_order_of_neighbours_changes_the_path_of_the_unstable_queue():
    grid = open_grid(8, 8)
    orders = [NEIGHBOURS[k:] + NEIGHBOURS[:k] for k in range(8)]
    paths = {tuple(shortest_path(grid, (0, 0), (6, 3), queue=UnstableQueue(), neighbours=order)) for order in orders}
    assert len(paths) > 1
    assert {path_cost(path) for path in paths} == {octile_cost((0, 0), (6, 3))}


def test_the_stable_and_the_unstable_queue_may_choose_different_paths_of_equal_cost():
    grid = open_grid(12, 12)
    stable = shortest_path(grid, (0, 0), (9, 4), queue=StableQueue())
    unstable = shortest_path(grid, (0, 0), (9, 4), queue=UnstableQueue())
    assert stable != unstable
    assert path_cost(stable) == path_cost(unstable)


@pytest.mark.parametrize("queue", [StableQueue, UnstableQueue])
def test_deterministic_queues_give_one_path_however_often_they_are_asked(queue):
    grid = grid_of(2**81 // 3, 2**81 // 7)
    free = [(c, r) for r in range(SIZE) for c in range(SIZE) if grid.is_walkable((c, r))]
    paths = {str(shortest_path(grid, free[0], free[-1], queue=queue())) for _ in range(5)}
    assert len(paths) == 1


def test_the_order_in_which_blocked_cells_are_given_does_not_matter():
    grid, blocked = open_grid(12, 12), [(5, r) for r in range(2, 10)] + [(6, 4), (7, 4)]
    assert shortest_path(grid, (2, 5), (10, 6), blocked=blocked) == shortest_path(grid, (2, 5), (10, 6), blocked=blocked[::-1])


def test_the_randomised_queue_gives_several_paths_of_one_cost_and_repeats_under_one_seed():
    grid = open_grid(12, 12)

    def path(seed):
        return tuple(shortest_path(grid, (0, 0), (10, 5), queue=RandomisedQueue(stream(seed, "astar"))))

    paths = {path(seed) for seed in range(10)}
    assert len(paths) > 1
    assert len({path_cost(p) for p in paths}) == 1
    assert path(3) == path(3)


def test_blocked_cells_are_walked_around_and_a_wall_has_no_way_through():
    grid = open_grid(9, 9)
    path = shortest_path(grid, (0, 4), (8, 4), blocked=[(4, r) for r in range(8)])
    assert (4, 8) in path
    assert shortest_path(grid, (0, 4), (8, 4), blocked=[(4, r) for r in range(9)]) is None


def test_a_blocked_start_does_not_hold_back_but_a_blocked_goal_cannot_be_reached():
    grid = open_grid(5, 5)
    assert shortest_path(grid, (0, 0), (4, 0), blocked=[(0, 0)])[0] == (0, 0)
    assert shortest_path(grid, (0, 0), (4, 0), blocked=[(4, 0)]) is None


def test_corners_are_not_cut():
    grid = Grid((0.0, 0.0), np.array([[True, False], [True, True]]), 1.0)
    assert shortest_path(grid, (0, 0), (1, 1)) == [(0, 0), (0, 1), (1, 1)]


def test_a_path_to_where_one_is_has_one_cell():
    assert shortest_path(open_grid(3, 3), (1, 1), (1, 1)) == [(1, 1)]


def test_wrong_questions_are_refused():
    grid = Grid((0.0, 0.0), np.array([[True, False]]), 1.0)
    with pytest.raises(InputError, match="walkable goal"):
        shortest_path(grid, (0, 0), (1, 0))
    with pytest.raises(InputError, match="walkable start"):
        shortest_path(grid, (-1, 0), (0, 0))
    with pytest.raises(InputError, match="eight neighbours"):
        shortest_path(grid, (0, 0), (0, 0), neighbours=NEIGHBOURS[:4])
    used = StableQueue()
    used.push(1, 1)
    with pytest.raises(InputError, match="empty queue"):
        shortest_path(grid, (0, 0), (0, 0), queue=used)


def touched(a, b):
    """Cells whose closed square the segment between centres meets, in whole numbers: |cross| against the square's reach."""
    found = set()
    dx, dy = b[0] - a[0], b[1] - a[1]
    for column in range(min(a[0], b[0]), max(a[0], b[0]) + 1):
        for row in range(min(a[1], b[1]), max(a[1], b[1]) + 1):
            cross = dx * (row - a[1]) - dy * (column - a[0])
            if 2 * abs(cross) <= abs(dx) + abs(dy):
                found.add((column, row))
    return found


@settings(max_examples=200, deadline=None)
@given(first=flag_bits, second=flag_bits, third=flag_bits, a=cells, b=cells)
def test_sight_needs_every_touched_cell_and_is_mutual(first, second, third, a, b):
    grid = grid_of(first, second, third)
    assert line_of_sight(grid, a, b) == all(grid.is_walkable(cell) for cell in touched(a, b))
    assert line_of_sight(grid, a, b) == line_of_sight(grid, b, a)


@settings(max_examples=60, deadline=None)
@given(first=flag_bits, second=flag_bits, start=cells, goal=cells)
def test_a_straightened_path_keeps_its_ends_and_sees_from_corner_to_corner(first, second, start, goal):
    grid = grid_of(first, second, free=(start, goal))
    path = shortest_path(grid, start, goal)
    assume(path is not None)
    corners = straighten(grid, path)
    assert (corners[0], corners[-1]) == (start, goal)
    assert set(corners) <= set(path)
    assert all(line_of_sight(grid, a, b) for a, b in pairwise(corners))


def test_an_open_way_is_straightened_to_its_ends():
    grid = open_grid(12, 12)
    assert straighten(grid, shortest_path(grid, (0, 0), (10, 5))) == [(0, 0), (10, 5)]
