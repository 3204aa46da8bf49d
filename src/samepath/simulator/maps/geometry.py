"""Geometry of OpenDRIVE 1.4 by arc length (line, arc, spiral, poly3, paramPoly3), and the way from its frame to CARLA's.

Curves are in OpenDRIVE's frame: x east, y north, heading counter-clockwise in radians, right-handed. CARLA's is left-handed: y
south, yaw clockwise seen from above, in degrees. Every public number of a map has passed through :func:`to_carla` or
:func:`yaw_to_carla`, the only places where frames change and where coordinates are put on a grid of 2**-20 m.

Only ``math`` is used for curves. Its sine and cosine may differ in the last bit between machines, some 1e-14 m at the edge of a
town; on the grid (just under a micrometre) that difference is gone. Vectorised versions may differ by more than one path within
a single machine. Multiples of 2**-20 below 2**32 m are exact in binary64, and so are their integer coordinates, on which
orientation tests are exact.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

# Gauss-Legendre, eight points on [-1, 1]. Written out because computing them takes an eigenvalue solver, whose bits vary.
_NODES: Final = (0.1834346424956498, 0.525532409916329, 0.7966664774136267, 0.9602898564975363)
_WEIGHTS: Final = (0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763)
_TABLE_INTERVALS: Final = 64
_NEWTON_STEPS: Final = 8

GRID_PER_M: Final = 1 << 20
Floats = npt.NDArray[np.float64]


class CurvePoint(NamedTuple):
    """A point of a curve with its direction and signed curvature (positive to the left)."""

    x_m: float
    y_m: float
    heading_rad: float
    curvature_per_m: float


@dataclass(frozen=True, slots=True)
class Cubic:
    """``a + b u + c u^2 + d u^3`` with ``u`` counted from ``start_m``."""

    start_m: float
    a: float
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0

    def value(self, s_m: float) -> float:
        """The polynomial at ``s_m``."""
        u = s_m - self.start_m
        return self.a + u * (self.b + u * (self.c + u * self.d))

    def slope(self, s_m: float) -> float:
        """The first derivative at ``s_m``."""
        u = s_m - self.start_m
        return self.b + u * (2.0 * self.c + u * 3.0 * self.d)

    def bend_max(self, length_m: float) -> float:
        """The second derivative is nowhere larger, as far as ``length_m`` from the start."""
        return 2.0 * abs(self.c) + 6.0 * abs(self.d) * length_m

    @property
    def is_linear(self) -> bool:
        """Does it have no curvature of its own?"""
        return self.c == 0.0 and self.d == 0.0


def cubic_at(pieces: Sequence[Cubic], s_m: float) -> Cubic | None:
    """The piece that holds at ``s_m``: the last that starts at or before it, the first for anything earlier."""
    if not pieces:
        return None
    return pieces[max(0, bisect_right(pieces, s_m, key=lambda piece: piece.start_m) - 1)]


def integrate(function: Callable[[float], float], start: float, end: float) -> float:
    """Integrate a smooth function with one eight-point Gauss-Legendre rule, always summed in the same order."""
    middle, half = 0.5 * (start + end), 0.5 * (end - start)
    total = 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total += weight * (function(middle - half * node) + function(middle + half * node))
    return total * half


class Curve(Protocol):
    """A piece of a reference line in its own frame: starts at the origin, heading along u."""

    @property
    def is_straight(self) -> bool:
        """Is it a straight line?"""
        ...

    def local(self, distance_m: float) -> CurvePoint:
        """The pose after ``distance_m`` along the curve."""
        ...


@dataclass(frozen=True)
class StraightLine:
    """A straight line."""

    is_straight = True

    def local(self, distance_m: float) -> CurvePoint:
        """The pose after ``distance_m`` along the curve."""
        return CurvePoint(distance_m, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Arc:
    """A circular arc of constant signed curvature."""

    curvature_per_m: float
    is_straight = False

    def local(self, distance_m: float) -> CurvePoint:
        """The pose after ``distance_m`` along the curve; sin(a)/a and its like keep tiny curvatures exact."""
        angle = self.curvature_per_m * distance_m
        half = 0.5 * angle
        chord = distance_m * (math.sin(half) / half if half != 0.0 else 1.0)
        return CurvePoint(chord * math.cos(half), chord * math.sin(half), angle, self.curvature_per_m)


@dataclass(frozen=True)
class Spiral:
    """A clothoid: curvature runs linearly from start to end over ``length_m`` (Fresnel integrals, by quadrature)."""

    curvature_start_per_m: float
    curvature_end_per_m: float
    length_m: float
    is_straight = False

    def heading(self, distance_m: float) -> float:
        """The heading gained after ``distance_m``."""
        rate = (self.curvature_end_per_m - self.curvature_start_per_m) / self.length_m
        return distance_m * (self.curvature_start_per_m + 0.5 * rate * distance_m)

    def local(self, distance_m: float) -> CurvePoint:
        """The pose after ``distance_m`` along the curve."""
        rate = (self.curvature_end_per_m - self.curvature_start_per_m) / self.length_m
        turn = max(abs(self.curvature_start_per_m), abs(self.curvature_end_per_m)) * abs(distance_m)
        # Over half a radian the eight points of the rule leave out less than float64 can hold.
        parts = 1 + int(turn / 0.5)
        x = y = 0.0
        for part in range(parts):
            start, end = distance_m * part / parts, distance_m * (part + 1) / parts
            x += integrate(lambda s: math.cos(self.heading(s)), start, end)
            y += integrate(lambda s: math.sin(self.heading(s)), start, end)
        return CurvePoint(x, y, self.heading(distance_m), self.curvature_start_per_m + rate * distance_m)


@dataclass(frozen=True)
class ParamPoly3:
    """A cubic in both coordinates over p in [0, ``p_max``], walked by arc length.

    The declared length and the true one differ slightly in most files; distances are scaled so that the declared end is
    the end of the curve. With ``stretch`` off (poly3, whose end is given by its length alone) distances are taken as they are.
    """

    u: Cubic
    v: Cubic
    p_max: float
    length_m: float
    stretch: bool = True
    is_straight = False

    def _speed(self, p: float) -> float:
        return math.sqrt(self.u.slope(p) ** 2 + self.v.slope(p) ** 2)

    @cached_property
    def _table(self) -> tuple[float, ...]:
        """Arc length at the ends of equal intervals of p."""
        lengths = [0.0]
        for index in range(_TABLE_INTERVALS):
            start, end = (self.p_max * i / _TABLE_INTERVALS for i in (index, index + 1))
            lengths.append(lengths[-1] + integrate(self._speed, start, end))
        return tuple(lengths)

    @property
    def true_length_m(self) -> float:
        """The arc length of the whole curve, whatever the file says."""
        return self._table[-1]

    @property
    def curvature_max_per_m(self) -> float:
        """It is nowhere bent more; infinite where its coefficients alone do not tell, as of a curve that turns far."""
        bend = math.hypot(self.u.bend_max(self.p_max), self.v.bend_max(self.p_max))
        start = math.hypot(self.u.b, self.v.b)
        slowest = start - self.p_max * bend
        return bend / slowest / slowest if slowest > 0.5 * start else math.inf

    @cached_property
    def stretch_by(self) -> float:
        """How many metres it really has for each one of its declared length."""
        return self.true_length_m / self.length_m if self.stretch else 1.0

    def parameter(self, distance_m: float) -> float:
        """The p whose arc length from the start is ``distance_m``: table, then Newton."""
        table = self._table
        wanted = distance_m * self.stretch_by
        index = min(max(bisect_right(table, wanted) - 1, 0), _TABLE_INTERVALS - 1)
        start = self.p_max * index / _TABLE_INTERVALS
        span = table[index + 1] - table[index]
        p = start + (wanted - table[index]) / span * self.p_max / _TABLE_INTERVALS if span > 0.0 else start
        for _ in range(_NEWTON_STEPS):
            speed = self._speed(p)
            if speed == 0.0:
                break
            step = (wanted - table[index] - integrate(self._speed, start, p)) / speed
            p += step
            if abs(step) <= 1e-12 * self.p_max:
                break
        return p

    def local(self, distance_m: float) -> CurvePoint:
        """The pose after ``distance_m`` along the curve."""
        p = self.parameter(distance_m)
        du, dv = self.u.slope(p), self.v.slope(p)
        ddu, ddv = 2.0 * self.u.c + 6.0 * self.u.d * p, 2.0 * self.v.c + 6.0 * self.v.d * p
        speed = math.sqrt(du * du + dv * dv)
        curvature = (du * ddv - dv * ddu) / (speed * speed * speed) if speed > 0.0 else 0.0
        return CurvePoint(self.u.value(p), self.v.value(p), math.atan2(dv, du), curvature)


def poly3(a: float, b: float, c: float, d: float, length_m: float) -> ParamPoly3:
    """The cubic v(u) as a parametric curve; ``u`` never exceeds the arc length, which bounds the table."""
    return ParamPoly3(Cubic(0.0, 0.0, 1.0), Cubic(0.0, a, b, c, d), length_m, length_m, stretch=False)


@dataclass(frozen=True)
class Geometry:
    """One ``<geometry>`` of a plan view: a curve placed in the world."""

    start_m: float
    x_m: float
    y_m: float
    heading_rad: float
    length_m: float
    curve: Curve

    def pose(self, s_m: float) -> CurvePoint:
        """The pose at road coordinate ``s_m``."""
        local = self.curve.local(s_m - self.start_m)
        cos, sin = math.cos(self.heading_rad), math.sin(self.heading_rad)
        return CurvePoint(
            self.x_m + local.x_m * cos - local.y_m * sin,
            self.y_m + local.x_m * sin + local.y_m * cos,
            self.heading_rad + local.heading_rad,
            local.curvature_per_m,
        )


def geometry_at(plan: Sequence[Geometry], s_m: float) -> Geometry:
    """The piece of a plan view that holds at ``s_m``."""
    return plan[max(0, bisect_right(plan, s_m, key=lambda piece: piece.start_m) - 1)]


def on_grid(value: float) -> float:
    """Round to the nearest multiple of 2**-20; ties to even, and no negative zero."""
    return round(value * GRID_PER_M) / GRID_PER_M + 0.0


def to_carla(x_m: float, y_m: float, z_m: float) -> tuple[float, float, float]:
    """A point of OpenDRIVE in CARLA's frame, on the grid."""
    return on_grid(x_m), on_grid(-y_m), on_grid(z_m)


def yaw_to_carla(heading_rad: float) -> float:
    """A heading of OpenDRIVE as CARLA's yaw in degrees in [-180, 180), on the grid."""
    yaw_deg = on_grid(math.remainder(-math.degrees(heading_rad), 360.0))
    return -180.0 if yaw_deg == 180.0 else yaw_deg


def from_carla(x_m: float, y_m: float) -> tuple[float, float]:
    """A point of CARLA's ground plane in OpenDRIVE's frame."""
    return x_m, -y_m


def frozen_points(points: list[tuple[float, float, float]]) -> Floats:
    """Points as a read-only array of shape [n, 3]."""
    return frozen(np.array(points, dtype=np.float64).reshape(-1, 3))


def frozen(array: Floats) -> Floats:
    """The same array, read-only."""
    array.flags.writeable = False
    return array
