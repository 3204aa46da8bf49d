"""Curves against closed forms, SciPy's quadrature and Fresnel integrals."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import fresnel

from samepath.simulator.maps.geometry import Arc, Cubic, Geometry, ParamPoly3, Spiral, StraightLine, cubic_at, poly3

lengths = st.floats(1.0, 200.0)
curvatures = st.floats(-0.3, 0.3)
slopes = st.floats(-0.5, 0.5)


@given(lengths, curvatures)
def test_an_arc_is_the_circle_it_says(length_m, curvature):
    pose = Arc(curvature).local(length_m)
    assert pose.heading_rad == pytest.approx(curvature * length_m)
    if abs(curvature) > 1e-3:
        centre = (0.0, 1.0 / curvature)
        assert math.dist(centre, pose[:2]) == pytest.approx(1.0 / abs(curvature), rel=1e-9)


def test_an_arc_without_curvature_is_a_line():
    assert Arc(0.0).local(12.5)[:3] == StraightLine().local(12.5)[:3]


@settings(max_examples=50, deadline=None)
@given(lengths, curvatures, curvatures)
def test_a_spiral_is_the_integral_of_its_heading(length_m, start, end):
    spiral = Spiral(start, end, length_m)
    pose = spiral.local(length_m)
    x, _ = quad(lambda s: math.cos(spiral.heading(s)), 0.0, length_m, limit=500, epsabs=1e-11)
    y, _ = quad(lambda s: math.sin(spiral.heading(s)), 0.0, length_m, limit=500, epsabs=1e-11)
    assert (pose.x_m, pose.y_m) == pytest.approx((x, y), abs=1e-8)
    assert pose.heading_rad == pytest.approx(0.5 * (start + end) * length_m)


def test_a_spiral_from_zero_agrees_with_fresnel():
    length_m, rate = 40.0, 0.002
    pose = Spiral(0.0, rate * length_m, length_m).local(length_m)
    scale = math.sqrt(math.pi / rate)
    sine, cosine = fresnel(length_m / scale)
    assert (pose.x_m, pose.y_m) == pytest.approx((scale * cosine, scale * sine), abs=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.floats(5.0, 60.0), slopes, st.floats(-0.02, 0.02), st.floats(-5e-4, 5e-4), st.floats(0.05, 1.0))
def test_poly3_is_walked_by_arc_length(length_m, b, c, d, part):
    curve = poly3(0.0, b, c, d, length_m)
    wanted_m = part * length_m
    end = curve.local(wanted_m)
    walked_m, _ = quad(lambda u: math.hypot(1.0, b + 2 * c * u + 3 * d * u * u), 0.0, end.x_m, epsabs=1e-11)
    assert walked_m == pytest.approx(wanted_m, abs=1e-7)
    assert end.y_m == pytest.approx(b * end.x_m + c * end.x_m**2 + d * end.x_m**3, abs=1e-9)


@pytest.mark.parametrize("p_max", [1.0, 30.0])
def test_param_poly3_starts_and_ends_where_its_polynomials_do(p_max):
    u, v = Cubic(0.0, 0.0, 30.0 / p_max), Cubic(0.0, 0.0, 0.0, 6.0 / p_max**2)
    curve = ParamPoly3(u, v, p_max, 31.0)
    assert curve.local(0.0)[:2] == pytest.approx((0.0, 0.0))
    assert curve.local(31.0)[:2] == pytest.approx((30.0, 6.0), abs=1e-9)
    middle = curve.parameter(15.5)
    halves = [quad(lambda p: math.hypot(u.slope(p), v.slope(p)), a, b)[0] for a, b in ((0.0, middle), (middle, p_max))]
    assert halves[0] == pytest.approx(halves[1], abs=1e-7)


@settings(max_examples=60)
@given(
    st.floats(0.8, 1.2), st.tuples(*(st.floats(-most, most) for most in (0.002, 1e-5, 0.2, 0.002, 1e-5))), st.floats(0.0, 1.0)
)
def test_a_polynomial_is_nowhere_bent_more_than_its_bound(start, powers, part):
    curve = ParamPoly3(Cubic(0.0, 0.0, start, *powers[:2]), Cubic(0.0, 0.0, *powers[2:]), 40.0, 40.0)
    p = part * curve.p_max
    slopes = [axis.slope(p) for axis in (curve.u, curve.v)]
    bends = [2.0 * axis.c + 6.0 * axis.d * p for axis in (curve.u, curve.v)]
    across = slopes[0] * bends[1] - slopes[1] * bends[0]
    assert abs(across) / math.hypot(*slopes) ** 3 <= curve.curvature_max_per_m * (1.0 + 1e-9) < math.inf


def test_of_a_polynomial_that_turns_back_no_bound_is_told():
    assert ParamPoly3(Cubic(0.0, 0.0, 1.0, -0.02), Cubic(0.0, 0.0), 40.0, 40.0).curvature_max_per_m == math.inf


def test_the_bound_of_a_gentle_polynomial_is_near_what_it_has():
    circle = poly3(0.0, 0.0, 0.5 / 400.0, 0.0, 30.0)  # as good as an arc of 400 m
    assert 1.0 / 400.0 <= circle.curvature_max_per_m < 1.3 / 400.0


CURVES = [StraightLine(), Arc(0.05), Arc(-0.2), Spiral(-0.1, 0.2, 30.0), poly3(0.0, 0.1, 0.01, -1e-4, 30.0)]


@settings(max_examples=60)
@given(st.sampled_from(CURVES), st.floats(0.0, 29.9), st.floats(-3.0, 3.0))
def test_every_curve_is_continuous_and_moves_one_metre_per_metre(curve, s_m, heading_rad):
    placed = Geometry(0.0, 5.0, -3.0, heading_rad, 30.0, curve)
    step_m = 1e-4
    a, b = placed.pose(s_m), placed.pose(s_m + step_m)
    assert math.dist(a[:2], b[:2]) == pytest.approx(step_m, rel=1e-4)
    direction = math.atan2(b.y_m - a.y_m, b.x_m - a.x_m)
    assert abs(math.remainder(direction - a.heading_rad, math.tau)) < 1e-4
    assert math.remainder(b.heading_rad - a.heading_rad, math.tau) == pytest.approx(a.curvature_per_m * step_m, abs=1e-7)


def test_the_piece_that_holds_is_the_last_that_has_started():
    pieces = (Cubic(0.0, 1.0), Cubic(10.0, 2.0))
    assert [cubic_at(pieces, s).a for s in (-1.0, 0.0, 9.99, 10.0, 50.0)] == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert cubic_at((), 3.0) is None
