"""Rasterised polygons, against exact rational geometry."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.scenarios.astar import Grid, rasterise

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
eighths = st.integers(-16, 16).map(lambda n: n / 8)


def shifted(ring, x, y):
    return ring + np.array([x, y])


def on_segment(p, a, b):
    cross = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
    return cross == 0 and min(a[0], b[0]) <= p[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= p[1] <= max(a[1], b[1])


def inside(p, ring):
    """Even-odd with boundary, in fractions."""
    within = False
    for a, b in zip(ring, ring[1:] + ring[:1], strict=True):
        if on_segment(p, a, b):
            return True
        if (a[1] <= p[1]) != (b[1] <= p[1]) and p[0] < a[0] + (p[1] - a[1]) * (b[0] - a[0]) / (b[1] - a[1]):
            within = not within
    return within


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(eighths, eighths), min_size=3, max_size=8))
def test_a_cell_is_walkable_when_its_centre_is_in_the_polygon_or_on_its_boundary(points):
    grid = rasterise([np.array(points)])
    ring = [(Fraction(x), Fraction(y)) for x, y in points]
    for row in range(grid.rows):
        for column in range(grid.columns):
            centre = tuple(Fraction(value) for value in grid.centre_of((column, row)))
            # A slanted edge through a centre may be missed by the rounding of its crossing; level and upright ones may not.
            slanted = any(
                on_segment(centre, a, b) and a[0] != b[0] and a[1] != b[1]
                for a, b in zip(ring, ring[1:] + ring[:1], strict=True)
            )
            if not slanted:
                assert grid.is_walkable((column, row)) == inside(centre, ring)


def test_boundaries_belong_to_the_polygon():
    # Corners at cell centres: the outermost centres lie on the boundary.
    grid = rasterise([SQUARE + 0.125])
    assert (grid.columns, grid.rows) == (9, 5)
    assert grid.walkable.all()


def test_a_peak_that_touches_a_centre_is_walkable():
    grid = rasterise([np.array([[0.0, 0.0], [1.25, 0.0], [0.625, 0.875]])])
    assert grid.is_walkable(grid.cell_of(0.625, 0.875))


def test_neighbouring_polygons_leave_no_gap_and_overlapping_ones_no_hole():
    both = rasterise([SQUARE, shifted(SQUARE, 2.0, 0.0), shifted(SQUARE, 1.0, 0.0)])
    assert both.walkable[:4, :16].all()


def test_holes_are_taken_out():
    grid = rasterise([SQUARE * 4], holes=[shifted(SQUARE, 2.0, 1.0)])
    assert not grid.is_walkable(grid.cell_of(3.1, 1.6))
    assert grid.is_walkable(grid.cell_of(1.6, 1.6))


def test_the_order_and_the_direction_of_polygons_do_not_matter():
    ring = np.array([[0.1, 0.2], [5.3, 0.7], [4.1, 3.9], [2.2, 1.9], [0.4, 4.4]])
    other = shifted(ring, 3.3, 1.1)
    a, b = rasterise([ring, other]), rasterise([other[::-1], np.roll(ring, 2, axis=0)])
    assert a.origin_m == b.origin_m
    assert np.array_equal(a.walkable, b.walkable)


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_point_lies_in_its_own_cell(x, y):
    grid = Grid((-3.0, 1.0), np.ones((4, 4), dtype=bool))
    centre_x, centre_y = grid.centre_of(grid.cell_of(x, y))
    assert abs(centre_x - x) <= 0.126
    assert abs(centre_y - y) <= 0.126


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**36 - 1), st.integers(-3, 8), st.integers(-3, 8))
def test_points_are_snapped_to_the_nearest_walkable_cell(bits, column, row):
    flags = np.array([bits >> i & 1 for i in range(36)], dtype=bool).reshape(6, 6)
    grid = Grid((0.0, 0.0), flags, 1.0)
    near = [((r - row) ** 2 + (c - column) ** 2, r, c) for r, c in zip(*(a.tolist() for a in np.nonzero(flags)), strict=True)]
    best = min((entry for entry in near if entry[0] <= 16), default=None)
    found = grid.find_walkable(column + 0.3, row + 0.6, 4.0)
    assert found == (None if best is None else (best[2], best[1]))


def test_points_too_far_away_are_refused():
    grid = rasterise([SQUARE])
    assert grid.nearest_walkable(-0.5, 0.1) == (0, 0)
    with pytest.raises(InputError, match="within 1 m of a walkable cell"):
        grid.nearest_walkable(-5.0, 0.1)
    with pytest.raises(InputError, match="finite"):
        grid.nearest_walkable(float("nan"), 0.1)


def test_cells_within_a_radius_are_those_whose_centres_are():
    grid = Grid((0.0, 0.0), np.ones((8, 8), dtype=bool), 0.5)
    found = grid.cells_within(1.1, 2.2, 0.8)
    assert found == {
        (c, r) for c in range(8) for r in range(8) if (c * 0.5 + 0.25 - 1.1) ** 2 + (r * 0.5 + 0.25 - 2.2) ** 2 <= 0.64
    }


@pytest.mark.parametrize("shape", [(0, 3), (4,), (2, 2, 2)])
def test_grids_without_cells_are_refused(shape):
    with pytest.raises(InputError, match="rows and columns"):
        Grid((0.0, 0.0), np.ones(shape, dtype=bool))


def test_polygons_that_are_none_are_refused():
    with pytest.raises(InputError, match="three finite points"):
        rasterise([np.array([[0.0, 0.0], [1.0, 1.0]])])
    with pytest.raises(InputError, match="at least one polygon"):
        rasterise([])


def test_a_grid_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        rasterise([SQUARE]).walkable[0, 0] = False
