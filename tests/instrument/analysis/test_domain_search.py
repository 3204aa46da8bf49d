"""The search for the largest clean box, against trying every box there is."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.instrument.analysis.domains import LimitShape, SearchAxis, SearchPoint, largest_region


def shapes(axis):
    """Every set of levels that the axis may admit."""
    count = axis.count
    match axis.shape:
        case LimitShape.UP_TO:
            return [range(stop) for stop in range(1, count + 1)]
        case LimitShape.RANGE:
            return [range(start, stop) for start in range(count) for stop in range(start + 1, count + 1)]
        case LimitShape.SET:
            return [[level for level in range(count) if chosen >> level & 1] for chosen in range(1, 1 << count)]


def best_of_all(axes, points):
    """The rank of the best clean box, by trying all."""
    ranks = []
    for box in product(*(shapes(axis) for axis in axes)):
        inside = [point for point in points if all(level in held for level, held in zip(point.levels, box, strict=True))]
        if inside and all(point.passes for point in inside):
            ranks.append((sum(point.weight for point in inside), len(box[0]), sum(len(held) for held in box)))
    return max(ranks, default=None)


@st.composite
def spaces(draw):
    axes = draw(st.lists(st.builds(SearchAxis, st.integers(1, 4), st.sampled_from(LimitShape)), min_size=1, max_size=3))
    levels = st.tuples(*(st.integers(0, axis.count - 1) for axis in axes))
    points = draw(st.lists(st.builds(SearchPoint, levels, st.integers(1, 2), st.booleans()), min_size=1, max_size=14))
    return axes, points


@given(spaces())
@settings(max_examples=300, deadline=None)
def test_the_box_found_is_the_best_of_all_boxes(space):
    axes, points = space
    region = largest_region(axes, points)
    assert (None if region is None else region.rank) == best_of_all(axes, points)


@given(spaces())
@settings(max_examples=200, deadline=None)
def test_the_box_admits_no_failing_point_and_none_that_contains_it_is_clean(space):
    axes, points = space
    for max_boxes in (1, 10_000):
        region = largest_region(axes, points, max_boxes)
        if region is None:
            continue
        assert all(point.passes for point in points if region.admits(point.levels))
        for box in product(*(shapes(axis) for axis in axes)):
            wider = all(set(held) <= set(more) for held, more in zip(region.admitted, box, strict=True))
            if wider and tuple(map(tuple, box)) != region.admitted:
                inside = [p for p in points if all(level in held for level, held in zip(p.levels, box, strict=True))]
                assert not all(point.passes for point in inside)


@given(spaces())
@settings(max_examples=100, deadline=None)
def test_a_search_cut_short_still_finds_a_box_where_there_is_one_and_says_so(space):
    axes, points = space
    whole, short = largest_region(axes, points), largest_region(axes, points, max_boxes=0)
    assert (whole is None) == (short is None)
    if short is not None:
        assert not short.complete
        assert short.weight <= whole.weight


def test_a_large_space_is_searched_to_the_end():
    axes = [SearchAxis(6, LimitShape.SET), *(SearchAxis(3, LimitShape.RANGE) for _ in range(6))]
    points = [
        SearchPoint((n % 6, *((n * n * (k + 2) + n // (k + 1)) % 3 for k in range(6))), 1, n * 37 % 10 < 7) for n in range(150)
    ]
    region = largest_region(axes, points)
    assert region.complete
    assert region.weight >= 10
