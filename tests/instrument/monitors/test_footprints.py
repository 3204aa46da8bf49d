"""Gaps and times to contact against an oracle that knows nothing of sides: the hull of all differences of corners."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from samepath.instrument.monitors.view import Footprint, Size, contact_s, gap_m

CAR, BUS, WALKER = Size(2.2, 0.9), Size(6.0, 1.25), Size(radius_m=0.3)
PLACES = st.floats(-15, 15)
TURNS = st.floats(-np.pi, np.pi)


def at(size, x, y, heading=0.0):
    return Footprint(size, np.array([x]), np.array([y]), np.array([heading]))


def corners(outline):
    if outline.size.radius_m:
        return np.array([[outline.x_m[0], outline.y_m[0]]])
    return np.array([[x[0], y[0]] for x, y in outline.corners()])


def by_differences(a, b):
    """Signed distance of the origin to the hull of b - a, less the radii: the definition, by brute force."""
    points = (corners(b)[:, None] - corners(a)[None]).reshape(-1, 2)
    radii = a.size.radius_m + b.size.radius_m
    if len(points) == 1:
        return float(np.hypot(*points[0])) - radii
    hull = ConvexHull(points)
    inside = float(hull.equations[:, 2].max())  # the origin's signed distance to the farthest side
    if inside <= 0:
        return inside - radii
    ring = points[hull.vertices]
    steps = np.roll(ring, -1, axis=0) - ring
    part = np.clip(-(ring * steps).sum(axis=1) / (steps**2).sum(axis=1), 0, 1)
    return float(np.hypot(*(ring + part[:, None] * steps).T).min()) - radii


PAIRS = [(CAR, BUS), (CAR, CAR), (WALKER, CAR), (BUS, WALKER), (WALKER, WALKER)]


@pytest.mark.parametrize("sizes", PAIRS, ids=["car bus", "car car", "walker car", "bus walker", "walkers"])
@settings(max_examples=40)
@given(x=PLACES, y=PLACES, one=TURNS, other=TURNS)
def test_the_gap_is_the_distance_of_the_difference_of_both_shapes(sizes, x, y, one, other):
    a, b = at(sizes[0], 1.0, -2.0, one), at(sizes[1], x, y, other)
    assert gap_m(a, b)[0] == pytest.approx(by_differences(a, b), abs=1e-9)


@pytest.mark.parametrize("sizes", PAIRS, ids=["car bus", "car car", "walker car", "bus walker", "walkers"])
@settings(max_examples=30)
@given(x=PLACES, y=PLACES, one=TURNS, other=TURNS, vx=st.floats(-20, 20), vy=st.floats(-20, 20))
def test_at_the_time_of_contact_outlines_touch_and_not_before(sizes, x, y, one, other, vx, vy):
    a, b = at(sizes[0], 0.0, 0.0, one), at(sizes[1], x, y, other)
    time_s = float(contact_s(a, b, np.array([vx]), np.array([vy]))[0])

    def apart(t):
        return by_differences(a, at(sizes[1], x + vx * t, y + vy * t, other))

    if apart(0.0) <= 0:
        assert time_s == 0.0
    elif np.isinf(time_s):
        assert min(apart(t) for t in np.linspace(0, 40 / max(0.5, np.hypot(vx, vy)), 25)) > -1e-6
    else:
        assert apart(time_s) == pytest.approx(0.0, abs=1e-6 * max(1.0, time_s))
        assert all(apart(time_s * part) > -1e-6 for part in np.linspace(0, 0.999, 12))


def test_two_cars_head_on_meet_after_the_gap_over_the_closing_speed():
    a, b = at(CAR, 0.0, 0.0), at(CAR, 30.0, 0.0, np.pi)
    assert contact_s(a, b, np.array([-16.0]), np.array([0.0]))[0] == pytest.approx((30.0 - 4.4) / 16.0, rel=1e-12)


def test_what_is_not_there_has_no_gap_and_no_time():
    gone = at(CAR, np.nan, 0.0)
    assert np.isnan(gap_m(at(CAR, 0.0, 0.0), gone)[0])
    assert np.isnan(contact_s(at(CAR, 0.0, 0.0), gone, np.array([1.0]), np.array([0.0]))[0])
    assert np.isnan(contact_s(at(WALKER, 0.0, 0.0), gone, np.array([1.0]), np.array([0.0]))[0])
