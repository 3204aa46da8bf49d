"""Waypoints, arc lengths and the tracker that only moves forward."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.scenarios.paths import Path, PathTracker, TrackerState, arc_lengths, interpolate, smooth

coordinates = st.floats(-500, 500)
polylines = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=8)


@given(polylines, st.floats(0.05, 3.0))
def test_interpolated_paths_have_the_exact_end_points_and_no_longer_steps(points, spacing_m):
    path = interpolate(points, spacing_m)
    assert tuple(path[0]) == tuple(points[0])
    if arc_lengths(points)[-1] > 0:
        assert path[-1].tobytes() == np.array(points[-1], dtype=float).tobytes()
        steps = np.sqrt(((path[1:] - path[:-1]) ** 2).sum(axis=1))
        assert steps.max() <= spacing_m * 1.002


def test_waypoints_are_a_tenth_of_a_metre_apart():
    path = interpolate([(0.0, 0.0), (25.0, 0.0)])
    assert len(path) == 251
    assert np.allclose(np.diff(path[:, 0]), 0.1, atol=1e-12)
    assert path[-1, 0] == 25.0


def test_a_short_rest_makes_a_short_last_interval():
    assert interpolate([(0.0, 0.0), (0.25, 0.0)])[:, 0].tolist() == [0.0, 0.1, 0.2, 0.25]


def test_repeated_points_do_no_harm():
    assert interpolate([(0.0, 0.0), (0.0, 0.0), (0.2, 0.0), (0.2, 0.0)])[:, 0].tolist() == [0.0, 0.1, 0.2]
    assert interpolate([(3.0, 4.0), (3.0, 4.0)]).tolist() == [[3.0, 4.0]]


@given(polylines)
def test_arc_lengths_are_sums_in_order(points):
    arcs = arc_lengths(points)
    expected = math.fsum(math.dist(a, b) for a, b in pairwise(points))
    assert arcs[0] == 0.0
    assert arcs[-1] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert (np.diff(arcs) >= 0).all()


@given(polylines, st.integers(0, 4))
def test_smoothing_keeps_the_ends_and_stays_in_the_hull(points, rounds):
    rounded = smooth(points, rounds)
    assert rounded[0].tolist() == list(points[0])
    assert rounded[-1].tolist() == list(points[-1])
    assert rounded.min() >= np.min(points) - 1e-9
    assert rounded.max() <= np.max(points) + 1e-9


def test_smoothing_rounds_a_corner():
    rounded = smooth([(0.0, 0.0), (4.0, 0.0), (4.0, 4.0)], 1)
    assert rounded.tolist() == [[0.0, 0.0], [3.0, 0.0], [4.0, 1.0], [4.0, 4.0]]


def straight_tracker(**changes):
    return PathTracker(Path(interpolate([(0.0, 0.0), (20.0, 0.0)])), **changes)


@given(st.lists(st.tuples(st.floats(-5, 25), st.floats(-5, 5)), max_size=30))
def test_the_index_never_falls_and_finished_stays_finished(places):
    tracker, state = straight_tracker(), TrackerState()
    for x, y in places:
        after = tracker.advance(state, x, y)
        assert after.index >= state.index
        assert after.finished >= state.finished
        state = after


def test_the_nearest_waypoint_is_sought_in_a_window_only():
    # There and back: the way back passes the start.
    tracker = PathTracker(Path(interpolate([(0.0, 0.0), (20.0, 0.0), (20.0, 0.5), (0.0, 0.5)])))
    assert tracker.advance(TrackerState(), 1.0, 0.5).index == 10
    assert not tracker.advance(TrackerState(), 0.0, 0.5).finished


def test_the_look_ahead_point_lies_along_the_path():
    tracker = PathTracker(Path(interpolate([(0.0, 0.0), (2.0, 0.0), (2.0, 5.0)])), look_ahead_m=2.0)
    assert tracker.look_ahead_point(TrackerState(10)) == pytest.approx((2.0, 1.0))
    assert tracker.remaining_m(TrackerState(10)) == pytest.approx(6.0)
    assert tracker.look_ahead_point(TrackerState(65)) == (2.0, 5.0)
    assert tracker.look_ahead_point(TrackerState(65), beyond=True) == pytest.approx((2.0, 6.5))


@pytest.mark.parametrize("look_ahead_m", [0.4, 2.0, 20.0])
def test_the_papers_look_ahead_distances_are_met(look_ahead_m):
    tracker = PathTracker(Path(interpolate([(0.0, 0.0), (30.0, 0.0)])), look_ahead_m=look_ahead_m)
    assert tracker.look_ahead_point(TrackerState(50)) == pytest.approx((5.0 + look_ahead_m, 0.0))


def test_arrival_is_within_the_given_distance():
    tracker = straight_tracker(arrival_m=0.3)
    assert not tracker.advance(TrackerState(160), 19.6, 0.0).finished
    assert tracker.advance(TrackerState(160), 19.75, 0.1).finished


def test_a_single_point_is_a_path_already_walked():
    tracker = PathTracker(Path(np.array([[1.0, 2.0]])))
    state = tracker.advance(TrackerState(), 1.0, 2.0)
    assert state.finished
    assert tracker.look_ahead_point(state) == (1.0, 2.0)


def test_states_survive_as_json():
    state = TrackerState(17, True)
    assert TrackerState.from_plain(json.loads(json.dumps(state.to_plain()))) == state


def test_wrong_values_are_refused():
    with pytest.raises(InputError, match="positive spacing"):
        interpolate([(0.0, 0.0), (1.0, 0.0)], 0.0)
    with pytest.raises(InputError, match="finite points"):
        interpolate([(0.0, math.nan)])
    with pytest.raises(InputError, match="positive look_ahead_m"):
        straight_tracker(look_ahead_m=-1.0)
