"""Clothoids and NURBS have the points that mathematics says: circles, Fresnel's integrals, and SciPy's splines."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.special import fresnel

from samepath.core.errors import InputError
from samepath.openscenario import plan_file, play
from samepath.openscenario.curves import drawn
from samepath.openscenario.records import ClothoidPiece, Clothoids, Nurbs, WorldPlace
from samepath.openscenario.roads import Spot
from tests.support.xosc import after, at, document, event, init, speed, story, vehicle, world, write

HERE = Spot(3.0, -2.0, 30.0)


def resolved(place):
    return Spot(place.x_m, place.y_m, 0.0)


def points_of(curve, times_s=None, here=HERE):
    points, passed_s = drawn(curve, times_s, here, resolved)
    return np.array([(spot.x_m, spot.y_m) for spot in points]), passed_s


def test_constant_curvature_is_a_circle_from_where_the_entity_is():
    points, _ = points_of(Clothoids((ClothoidPiece(None, 0.05, 0.05, 10.0 * math.pi),)))
    right = math.radians(HERE.yaw_deg + 90.0)
    middle = (HERE.x_m + 20.0 * math.cos(right), HERE.y_m + 20.0 * math.sin(right))
    assert np.hypot(*(points - middle).T) == pytest.approx(20.0, abs=1e-9)
    assert points[0] == pytest.approx((HERE.x_m, HERE.y_m))
    assert np.dot(points[0] - middle, points[-1] - middle) == pytest.approx(0.0, abs=1e-6)  # a quarter of it
    assert np.hypot(*np.diff(points, axis=0).T).max() <= 0.5


@settings(max_examples=30)
@given(st.floats(0.001, 0.2), st.floats(1.0, 60.0))
def test_curvature_that_grows_is_fresnels_integrals(end_per_m, length_m):
    points, _ = points_of(Clothoids((ClothoidPiece(None, 0.0, end_per_m, length_m),)), here=Spot(0.0, 0.0, 0.0))
    scale = math.sqrt(math.pi * length_m / end_per_m)
    sine, cosine = fresnel(length_m / scale)
    assert points[-1] == pytest.approx((scale * cosine, scale * sine), abs=1e-7)


def test_pieces_go_on_where_the_one_before_ends_or_at_a_place_of_their_own_and_times_pass_evenly():
    straight, bend = ClothoidPiece(None, 0.0, 0.0, 10.0), ClothoidPiece(None, 0.0, 0.0, 5.0, turn_deg=90.0)
    elsewhere = ClothoidPiece(WorldPlace(100.0, 50.0, None), 0.0, 0.0, 2.0)
    curve = Clothoids((straight, bend, elsewhere))
    points, passed_s = points_of(curve, (1.0, 2.0, 4.0, 5.0), Spot(0.0, 0.0, 0.0))
    assert points[20] == pytest.approx((10.0, 0.0))
    assert points[30] == pytest.approx((10.0, 5.0))
    assert (points[31], points[-1]) == (pytest.approx((100.0, 50.0)), pytest.approx((102.0, 50.0)))
    assert passed_s is not None
    assert len(passed_s) == len(points)
    assert (passed_s[0], passed_s[10], passed_s[20], passed_s[30], passed_s[-1]) == pytest.approx((1.0, 1.5, 2.0, 4.0, 5.0))


def test_a_piece_as_short_as_numbers_can_be_is_no_bend():
    grain, bend = ClothoidPiece(None, 0.0, 0.1, 1e-310), ClothoidPiece(None, 0.0, 0.1, 5.0)
    with_grain, _ = points_of(Clothoids((grain, bend)))
    assert with_grain[1:] == pytest.approx(points_of(Clothoids((bend,)))[0])


@settings(max_examples=40)
@given(st.integers(2, 5), st.integers(0, 5), st.randoms(use_true_random=False))
def test_nurbs_are_splines_of_weighted_points(order, more, random):
    count = order + more
    corners = [(random.uniform(-30, 30), random.uniform(-30, 30), random.uniform(0.3, 3.0)) for _ in range(count)]
    inner = sorted(random.choice((0.2, 0.4, 0.5, 0.5, 0.7)) for _ in range(more))
    knots = (*([0.0] * order), *inner, *([1.0] * order))
    times_s = tuple(float(number) for number in range(count))
    curve = Nurbs(order, tuple(WorldPlace(x, y, None) for x, y, _ in corners), tuple(w for _, _, w in corners), knots)
    points, passed_s = points_of(curve, times_s)
    weights = np.array(curve.weights)[:, None]
    flat = np.column_stack([[corner[:2] for corner in corners], times_s]) * weights
    spline = BSpline(np.array(knots), np.column_stack([flat, weights]), order - 1)
    # A knot as often as the order: the spline jumps there, and which side the knot itself is on is a matter of taste.
    at = np.linspace(0.0, 1.0, len(points))
    sure = ~np.isin(at, [knot for knot in inner if inner.count(knot) >= order])
    wanted = spline(np.minimum(at, 1.0 - 1e-15))
    assert points[sure] == pytest.approx((wanted[:, :2] / wanted[:, 3:])[sure], abs=1e-6)
    assert np.array(passed_s)[sure] == pytest.approx((wanted[:, 2] / wanted[:, 3])[sure], abs=1e-6)


def test_a_quarter_of_a_circle_by_weights_is_one():
    corners = tuple(WorldPlace(x, y, None) for x, y in ((10.0, 0.0), (10.0, 10.0), (0.0, 10.0)))
    points, passed_s = points_of(Nurbs(3, corners, (1.0, math.sqrt(0.5), 1.0), (0.0, 0.0, 0.0, 1.0, 1.0, 1.0)))
    assert np.hypot(*points.T) == pytest.approx(10.0, abs=1e-9)
    assert (points[0], points[-1]) == (pytest.approx((10.0, 0.0)), pytest.approx((0.0, 10.0)))
    assert passed_s is None


def follow(shape, timing="", closed="false"):
    return (
        f"<RoutingAction><FollowTrajectoryAction><TrajectoryRef><Trajectory name='way' closed='{closed}'><Shape>{shape}</Shape>"
        f"</Trajectory></TrajectoryRef>{timing}<TrajectoryFollowingMode followingMode='position'/>"
        "</FollowTrajectoryAction></RoutingAction>"
    )


def planned(tmp_path, action):
    text = document(
        vehicle("ego"), init(ego=[at(world(0, 0)), speed(10)]), story("ego", event("e", action, after(-1))), end_s=6.0
    )
    _, plan = plan_file(write(tmp_path, text))
    return dict(plan.tracks)["ego"].points


TIMED = '<TimeReference><Timing domainAbsoluteRelative="relative" scale="1" offset="0"/></TimeReference>'
LEFT = (
    '<Clothoid curvature="0.05" curvatureDot="0" length="31.4159265" {}><Position><WorldPosition x="0" y="0" h="0"/></Position>'
    "</Clothoid>"
)


def test_curvature_of_a_file_is_to_the_left_and_its_times_are_kept(tmp_path):
    as_fast, timed = (
        planned(tmp_path, action)
        for action in (follow(LEFT.format("")), follow(LEFT.format('startTime="0" stopTime="5"'), TIMED))
    )
    # A quarter of a circle of 20 m to the left; y of CARLA's frame is to the right.
    assert min(math.dist(point, (20.0, -20.0)) for point in as_fast) < 0.5
    assert timed[101] == pytest.approx((20.0, -20.0), abs=0.35)
    half = math.radians(45.0)
    assert timed[51] == pytest.approx((20.0 * math.sin(half), -20.0 + 20.0 * math.cos(half)), abs=0.35)


def test_a_closed_way_comes_back_to_its_first_corner(tmp_path):
    corners = "".join(f"<Vertex><Position>{world(x, y)}</Position></Vertex>" for x, y in ((0, 0), (15, 0), (15, -15)))
    points = planned(tmp_path, follow(f"<Polyline>{corners}</Polyline>", closed="true"))
    assert min(math.dist(point, (0.0, 0.0)) for point in points[60:]) < 0.5


def nurbs(order, knots, points=3, weight="1"):
    corners = "".join(
        f'<ControlPoint weight="{weight}"><Position>{world(10 * k, k)}</Position></ControlPoint>' for k in range(points)
    )
    between = "".join(f'<Knot value="{knot}"/>' for knot in knots)
    return f'<Nurbs order="{order}">{corners}{between}</Nurbs>'


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (nurbs(3, (0, 0, 0, 1, 1)), "6 knots were wanted"),
        (nurbs(3, (0, 0, 0, 1, 1, 0)), "knots that rise were wanted"),
        (nurbs(3, (1, 1, 1, 1, 1, 1)), "knots that rise were wanted"),
        (nurbs(4, (0, 0, 0, 0, 1, 1, 1)), "an order from 2 to 10"),
        (nurbs(3, (0, 0, 0, 1, 1, 1), weight="0"), "'weight' from 0.001 to 1000"),
        (LEFT.format("").replace("31.4159265", "0"), "a length of more than 0"),
        (LEFT.format("").replace("31.4159265", "9999"), "a turn of at most 100 rad"),
        (LEFT.format("").replace("0.05", "nan"), "curvature"),
        ("<ClothoidSpline/>", "1 to 1000 segments were wanted"),
        ("", "Shape"),
    ],
)
def test_a_curve_that_is_none_is_refused_in_a_line(tmp_path, shape, told):
    with pytest.raises(InputError) as caught:
        planned(tmp_path, follow(shape))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_closed_curve_is_refused(tmp_path):
    with pytest.raises(InputError, match="closed is supported as a polyline without times only"):
        planned(tmp_path, follow(LEFT.format(""), closed="true"))


def test_ways_that_are_begun_again_and_again_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(play, "POINTS_MAX", 1000)
    once, often = (
        document(
            vehicle("ego"),
            init(ego=[at(world(0, 0)), speed(10)]),
            story("ego", *(event(f"e{k}", follow(LEFT.format("")), after(0.1 * k)) for k in range(times))),
            end_s=3.0,
            road_map="",
        )
        for times in (1, 20)
    )
    plan_file(write(tmp_path, once))
    with pytest.raises(InputError, match="ways of at most 1000 points in all were wanted"):
        plan_file(write(tmp_path, often))
