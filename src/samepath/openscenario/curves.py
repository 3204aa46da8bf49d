"""The lines that trajectories are made of, as points: corners, clothoids and NURBS.

Angles are turned into directions by the portable functions of ``core``, the rest is arithmetic: a curve has the same points on
every machine.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final

from samepath.core.trig import cos, sin, to_degrees, to_radians, wrap_deg
from samepath.openscenario.records import ClothoidPiece, Clothoids, Curve, FilePlace, Nurbs
from samepath.openscenario.roads import Spot
from samepath.simulator.maps.geometry import integrate

# How far the points of a curve are apart, and how many there are at least and at most in NURBS.
_STEP_M: Final = 0.5
_POINTS_MIN: Final = 50
_POINTS_MAX: Final = 5_000

Times = tuple[float, ...] | None


def drawn(curve: Curve, times_s: Times, here: Spot, resolve: Callable[[FilePlace], Spot]) -> tuple[list[Spot], Times]:
    """The points of a curve that somebody ``here`` is to follow, with their headings, and when to be at each of them."""
    match curve:
        case Clothoids():
            return _clothoids(curve, times_s, here, resolve)
        case Nurbs():
            return _nurbs(curve, times_s, [resolve(place) for place in curve.places])
        case _:
            return [resolve(place) for place in curve], times_s


def _clothoids(curve: Clothoids, times_s: Times, here: Spot, resolve: Callable[[FilePlace], Spot]) -> tuple[list[Spot], Times]:
    """Times are told of the beginning of each piece and of the end of the last one, and pass evenly between them."""
    points: list[Spot] = []
    passed_s: list[float] = []
    x_m, y_m, yaw_rad = here.x_m, here.y_m, to_radians(here.yaw_deg)
    for number, piece in enumerate(curve.pieces):
        if piece.start is not None:
            start = resolve(piece.start)
            x_m, y_m, yaw_rad = start.x_m, start.y_m, to_radians(start.yaw_deg)
        yaw_rad += to_radians(piece.turn_deg)
        if number == 0 or piece.start is not None:
            points.append(Spot(x_m, y_m, wrap_deg(to_degrees(yaw_rad))))
            passed_s += [times_s[number]] if times_s is not None else []
        count = max(1, math.ceil(piece.length_m / _STEP_M))
        for part in range(count):
            from_m, to_m = piece.length_m * part / count, piece.length_m * (part + 1) / count
            x_m += integrate(partial(_slope, cos, piece, yaw_rad), from_m, to_m)
            y_m += integrate(partial(_slope, sin, piece, yaw_rad), from_m, to_m)
            points.append(Spot(x_m, y_m, wrap_deg(to_degrees(_heading_rad(piece, yaw_rad, to_m)))))
            if times_s is not None:
                passed_s.append(times_s[number] + (times_s[number + 1] - times_s[number]) * (part + 1) / count)
        yaw_rad = _heading_rad(piece, yaw_rad, piece.length_m)
    return points, None if times_s is None else tuple(passed_s)


def _heading_rad(piece: ClothoidPiece, first_rad: float, s_m: float) -> float:
    change_per_m = piece.bend_end_per_m - piece.bend_start_per_m
    return first_rad + s_m * (piece.bend_start_per_m + 0.5 * change_per_m * (s_m / piece.length_m))


def _slope(function: Callable[[float], float], piece: ClothoidPiece, first_rad: float, s_m: float) -> float:
    return function(_heading_rad(piece, first_rad, s_m))


def _nurbs(curve: Nurbs, times_s: Times, places: list[Spot]) -> tuple[list[Spot], Times]:
    """Points at equal steps of the parameter; times are a dimension of the control points like their places."""
    corners = [
        (weight * spot.x_m, weight * spot.y_m, weight * time_s, weight)
        for spot, weight, time_s in zip(places, curve.weights, times_s or (0.0,) * len(places), strict=True)
    ]
    length_m = sum(math.hypot(b.x_m - a.x_m, b.y_m - a.y_m) for a, b in pairwise(places))
    count = min(max(math.ceil(length_m / _STEP_M), _POINTS_MIN), _POINTS_MAX)
    first, last = curve.knots[curve.order - 1], curve.knots[len(places)]
    points, passed_s = [], []
    span = curve.order - 1
    for part in range(count + 1):
        u = first + (last - first) * part / count
        while span < len(places) - 1 and curve.knots[span + 1] <= u:
            span += 1
        x, y, time, weight = _de_boor(curve, corners, span, u)
        points.append(Spot(x / weight, y / weight, 0.0))
        passed_s.append(time / weight)
    return points, None if times_s is None else tuple(passed_s)


Corner = tuple[float, float, float, float]


def _de_boor(curve: Nurbs, corners: list[Corner], span: int, u: float) -> Corner:
    """A point of a B-spline by its last ``order`` control points (de Boor's algorithm, in homogeneous coordinates)."""
    degree, knots = curve.order - 1, curve.knots
    found = corners[span - degree : span + 1]
    for level in range(1, degree + 1):
        for j in range(degree, level - 1, -1):
            low, high = knots[span - degree + j], knots[j + 1 + span - level]
            share = (u - low) / (high - low) if high > low else 0.0
            before, after = found[j - 1], found[j]
            found[j] = (
                before[0] + share * (after[0] - before[0]),
                before[1] + share * (after[1] - before[1]),
                before[2] + share * (after[2] - before[2]),
                before[3] + share * (after[3] - before[3]),
            )
    return found[degree]
