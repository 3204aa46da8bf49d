"""How far two actors are apart, and when they touch: exact plane geometry of footprints, for whole arrays of moments.

A footprint is a rectangle (vehicles, props) or a disc (walkers). Two rectangles are apart if one of their four sides separates
them (the separating axis theorem); the distance of two that are apart is that of some corner of one to the other. Where they
overlap the gap is negative: how far one must be pushed to be free. The time to contact is that of two footprints that keep
their velocities and headings; rectangles touch when the last of the four sides stops separating them, a disc touches a
rectangle when its centre enters the rectangle with rounded corners. All of it is closed form: no step, no tolerance.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_SIGNS: Final = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


@dataclass(frozen=True)
class Size:
    """A rectangle of these half sides, or a disc where ``radius_m`` is more than 0."""

    half_length_m: float = 0.0
    half_width_m: float = 0.0
    radius_m: float = 0.0


@dataclass(frozen=True)
class Footprint:
    """An actor on the ground over time; the heading of a disc is not looked at."""

    size: Size
    x_m: Floats
    y_m: Floats
    heading_rad: Floats

    def axes(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Unit vectors along and across."""
        cos, sin = np.cos(self.heading_rad), np.sin(self.heading_rad)
        return (cos, sin), (-sin, cos)

    def corners(self) -> list[tuple[Floats, Floats]]:
        """The four corners of a rectangle."""
        (ax, ay), (bx, by) = self.axes()
        length_m, width_m = self.size.half_length_m, self.size.half_width_m
        return [
            (self.x_m + i * length_m * ax + j * width_m * bx, self.y_m + i * length_m * ay + j * width_m * by)
            for i, j in _SIGNS
        ]


def gap_m(a: Footprint, b: Footprint) -> Floats:
    """Return the distance between two footprints; negative where they overlap."""
    if a.size.radius_m and b.size.radius_m:
        return np.hypot(b.x_m - a.x_m, b.y_m - a.y_m) - (a.size.radius_m + b.size.radius_m)
    if a.size.radius_m or b.size.radius_m:
        box, disc = (b, a) if a.size.radius_m else (a, b)
        return _outside(box, disc.x_m, disc.y_m) - disc.size.radius_m
    separation = np.maximum.reduce([np.abs(place) - reach for place, _, reach in _separations(a, b)])
    apart = np.minimum.reduce([*(_outside(b, x, y) for x, y in a.corners()), *(_outside(a, x, y) for x, y in b.corners())])
    return np.asarray(np.where(separation > 0, apart, separation), np.float64)


def contact_s(a: Footprint, b: Footprint, vx_mps: Floats, vy_mps: Floats) -> Floats:
    """Return when two footprints touch if ``b`` goes on at this velocity relative to ``a``: 0 where they do, inf for never."""
    if a.size.radius_m and b.size.radius_m:
        return _disc_entry(b.x_m - a.x_m, b.y_m - a.y_m, vx_mps, vy_mps, a.size.radius_m + b.size.radius_m)
    if a.size.radius_m or b.size.radius_m:
        box, disc, sign = (b, a, -1.0) if a.size.radius_m else (a, b, 1.0)
        return _rounded_entry(box, disc, sign * vx_mps, sign * vy_mps)
    slabs = [_slab(place, vx_mps * axis[0] + vy_mps * axis[1], reach) for place, axis, reach in _separations(a, b)]
    return _entry(slabs)


def _separations(a: Footprint, b: Footprint) -> list[tuple[Floats, tuple[Floats, Floats], Floats]]:
    """Of each side's direction: how far ``b`` is along it, the direction, and how far both reach together."""
    found = []
    for axis in (*a.axes(), *b.axes()):
        reach = sum(
            half * np.abs(side[0] * axis[0] + side[1] * axis[1])
            for box in (a, b)
            for side, half in zip(box.axes(), (box.size.half_length_m, box.size.half_width_m), strict=True)
        )
        found.append(((b.x_m - a.x_m) * axis[0] + (b.y_m - a.y_m) * axis[1], axis, np.asarray(reach)))
    return found


def _outside(box: Footprint, x_m: Floats, y_m: Floats) -> Floats:
    """Signed distance of points to a rectangle."""
    along, across = _local(box, x_m, y_m)
    dx, dy = np.abs(along) - box.size.half_length_m, np.abs(across) - box.size.half_width_m
    return np.hypot(np.maximum(dx, 0.0), np.maximum(dy, 0.0)) + np.minimum(np.maximum(dx, dy), 0.0)


def _local(box: Footprint, x_m: Floats, y_m: Floats) -> tuple[Floats, Floats]:
    (ax, ay), (bx, by) = box.axes()
    dx, dy = x_m - box.x_m, y_m - box.y_m
    return dx * ax + dy * ay, dx * bx + dy * by


def _slab(place: Floats, speed: Floats, reach: Floats | float) -> tuple[Floats, Floats]:
    """From when to when |place + speed t| <= reach."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        meets_low, meets_high = (-reach - place) / speed, (reach - place) / speed
    still = speed == 0
    inside = np.abs(place) <= reach
    enter = np.where(still, np.where(inside, -np.inf, np.inf), np.minimum(meets_low, meets_high))
    leave = np.where(still, np.where(inside, np.inf, -np.inf), np.maximum(meets_low, meets_high))
    return enter, leave


def _entry(slabs: list[tuple[Floats, Floats]]) -> Floats:
    enter, leave = np.maximum.reduce([slab[0] for slab in slabs]), np.minimum.reduce([slab[1] for slab in slabs])
    hit = (enter <= leave) & (leave >= 0)
    # A place that is not known makes a time that is not known, never a «never».
    return np.where(np.isnan(enter) | np.isnan(leave), np.nan, np.where(hit, np.maximum(enter, 0.0), np.inf))


def _disc_entry(x: Floats, y: Floats, vx: Floats, vy: Floats, reach: float) -> Floats:
    """When |p + v t| first is <= reach."""
    square, towards, room = vx * vx + vy * vy, x * vx + y * vy, x * x + y * y - reach * reach
    root = towards * towards - square * room
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The smaller root as room / (...): the textbook form loses all its digits where contact is near.
        time = room / (-towards + np.sqrt(np.maximum(root, 0.0)))
    hit = (towards < 0) & (root >= 0)
    found = np.where(room <= 0, 0.0, np.where(hit, time, np.inf))
    return np.where(np.isnan(root), np.nan, found)


def _rounded_entry(box: Footprint, disc: Footprint, vx: Floats, vy: Floats) -> Floats:
    along, across = _local(box, disc.x_m, disc.y_m)
    (ax, ay), (bx, by) = box.axes()
    v_along, v_across = vx * ax + vy * ay, vx * bx + vy * by
    length_m, width_m, radius_m = box.size.half_length_m, box.size.half_width_m, disc.size.radius_m
    times = [
        _entry([_slab(along, v_along, length_m + radius_m), _slab(across, v_across, width_m)]),
        _entry([_slab(along, v_along, length_m), _slab(across, v_across, width_m + radius_m)]),
        *(_disc_entry(along - i * length_m, across - j * width_m, v_along, v_across, radius_m) for i, j in _SIGNS),
    ]
    return np.asarray(np.minimum.reduce(times), np.float64)
