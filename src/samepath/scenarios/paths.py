"""Waypoints along a polyline, and where on them an actor is.

Waypoints are spaced by 0.1 m, as in the paper's case study (Section V-C). Lengths are added from the first point to the
last, one after the other: the sum has one order, hence one value.

Timed paths: not only where an actor goes, but when it is there.

A :class:`Timetable` says how far along its path an actor is at a time, between its points in proportion. A vehicle follows it
by speed: as fast as planned, and faster or slower by what it is behind or ahead, v = v_planned + (s_planned - s) / tau. A
walker goes to where it should be after the next step.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from samepath.core.errors import InputError
from samepath.core.states import WalkerCommand

Points = npt.NDArray[np.float64]

SPACING_M: Final = 0.1


def _checked(points: npt.ArrayLike) -> Points:
    array = np.array(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1:] != (2,) or len(array) == 0 or not np.isfinite(array).all():
        raise InputError(
            f"finite points float[n, 2] with n of at least 1 were wanted, but an array of shape {array.shape} came"
        )
    return array


def _frozen(array: Points) -> Points:
    array.setflags(write=False)
    return array


def arc_lengths(points: npt.ArrayLike) -> Points:
    """Return the length from the first point to each point along the polyline: float64[n] in metres, from 0."""
    array = _checked(points)
    steps = array[1:] - array[:-1]
    lengths = np.sqrt(steps[:, 0] * steps[:, 0] + steps[:, 1] * steps[:, 1])
    total, sums = 0.0, [0.0]
    for length in lengths.tolist():
        total += length
        sums.append(total)
    return _frozen(np.array(sums))


def interpolate(points: npt.ArrayLike, spacing_m: float = SPACING_M) -> Points:
    """Return points every ``spacing_m`` along the polyline; the first and the last are the polyline's own, to the bit.

    The last interval may be shorter, but never a mere rounding error: a rest below a thousandth of the spacing is joined to
    the interval before it.
    """
    if not 0.0 < spacing_m < math.inf:
        raise InputError(f"a positive spacing was wanted, but {spacing_m!r} m came")
    array = _checked(points)
    arcs = arc_lengths(array)
    total = float(arcs[-1])
    if total == 0.0:
        return _frozen(array[:1].copy())
    count = math.ceil(total / spacing_m - 1e-3)
    wanted = np.arange(max(count, 1)) * spacing_m
    segment = np.searchsorted(arcs, wanted, side="right") - 1
    start, step = array[segment], array[segment + 1] - array[segment]
    share = (wanted - arcs[segment]) / (arcs[segment + 1] - arcs[segment])
    inner = start + step * share[:, np.newaxis]
    return _frozen(np.concatenate([array[:1], inner[1:], array[-1:]]))


def smooth(points: npt.ArrayLike, rounds: int = 2) -> Points:
    """Round the corners of a polyline by Chaikin's corner cutting; the end points stay.

    Each round replaces a corner by two points, a quarter of the way along the segments that meet there.
    """
    array = _checked(points)
    for _ in range(rounds):
        if len(array) < 3:
            break
        before, after = array[:-1], array[1:]
        cut = np.empty((2 * len(before), 2))
        cut[0::2] = before + (after - before) * 0.25
        cut[1::2] = before + (after - before) * 0.75
        array = np.concatenate([array[:1], cut[1:-1], array[-1:]])
    return _frozen(array)


@dataclass(frozen=True, eq=False)
class Path:
    """A polyline to follow: ``points_m`` float64[n, 2], read-only, and its arc lengths."""

    points_m: Points

    def __post_init__(self) -> None:
        object.__setattr__(self, "points_m", _frozen(_checked(self.points_m)))

    @cached_property
    def arc_m(self) -> Points:
        """Length from the start to each point."""
        return arc_lengths(self.points_m)

    @cached_property
    def arcs(self) -> list[float]:
        """:attr:`arc_m` as Python floats, which a step reads one by one."""
        return [float(arc) for arc in self.arc_m]

    @cached_property
    def points(self) -> list[tuple[float, float]]:
        """:attr:`points_m` as Python floats."""
        return [(float(x), float(y)) for x, y in self.points_m]

    @property
    def length_m(self) -> float:
        """Length of the whole path."""
        return self.arcs[-1]

    def point_at(self, arc_m: float) -> tuple[float, float]:
        """Return the point ``arc_m`` along the path; before the start and past the end, the end points."""
        if arc_m <= 0.0:
            return self.points[0]
        if arc_m >= self.arcs[-1]:
            return self.points[-1]
        after = bisect_right(self.arcs, arc_m)
        (x1, y1), (x2, y2) = self.points[after - 1], self.points[after]
        share = (arc_m - self.arcs[after - 1]) / (self.arcs[after] - self.arcs[after - 1])
        return x1 + (x2 - x1) * share, y1 + (y2 - y1) * share

    def last_direction(self) -> tuple[float, float]:
        """Return the unit vector along the last interval that has a length; (1, 0) for a single point."""
        end_x, end_y = self.points[-1]
        for x, y in reversed(self.points):
            size = math.sqrt((end_x - x) * (end_x - x) + (end_y - y) * (end_y - y))
            if size > 0.0:
                return (end_x - x) / size, (end_y - y) / size
        return 1.0, 0.0


@dataclass(frozen=True)
class TrackerState:
    """How far along its path an actor is: the index of the waypoint nearest to it, which never falls."""

    index: int = 0
    finished: bool = False

    def to_plain(self) -> dict[str, object]:
        """Return the state as plain data."""
        return {"index": self.index, "finished": self.finished}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "TrackerState":
        """Read what :meth:`to_plain` wrote."""
        index = plain["index"]
        if not isinstance(index, int):
            raise InputError(f"a whole number as index was wanted, but {index!r} came")
        return cls(index, bool(plain["finished"]))


@dataclass(frozen=True)
class PathTracker:
    """Follows progress along ``path``; arrived once within ``arrival_m`` of its last point with the path behind."""

    path: Path
    look_ahead_m: float = 2.0
    arrival_m: float = 0.3
    window_m: float = 5.0

    def __post_init__(self) -> None:
        for name in ("look_ahead_m", "arrival_m", "window_m"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise InputError(f"a positive {name} was wanted, but {value!r} came")

    def advance(self, state: TrackerState, x_m: float, y_m: float) -> TrackerState:
        """Move on to the waypoint nearest to the actor, at most ``window_m`` ahead; ties go to the earlier one."""
        points, arcs = self.path.points, self.path.arcs
        stop = bisect_right(arcs, arcs[state.index] + self.window_m)
        best, best_square = state.index, math.inf
        for index in range(state.index, stop):
            x, y = points[index]
            square = (x - x_m) * (x - x_m) + (y - y_m) * (y - y_m)
            if square < best_square:
                best, best_square = index, square
        end_x, end_y = points[-1]
        end_square = (end_x - x_m) * (end_x - x_m) + (end_y - y_m) * (end_y - y_m)
        # A path that comes back past its own end is not done when the end is near, only when it is near along the path.
        at_end = best == len(points) - 1 or (
            end_square <= self.arrival_m * self.arrival_m and self.path.length_m - arcs[best] <= 2.0 * self.arrival_m
        )
        return TrackerState(best, state.finished or at_end)

    def remaining_m(self, state: TrackerState) -> float:
        """Return the length from the nearest waypoint to the end."""
        return self.path.length_m - self.path.arcs[state.index]

    def look_ahead_point(self, state: TrackerState, *, beyond: bool = False) -> tuple[float, float]:
        """Return the point ``look_ahead_m`` further along the path.

        Past the end this is the last point, or with ``beyond`` a point on the straight continuation: a steering law keeps
        its distance there instead of turning ever harder towards a point that comes ever nearer.
        """
        arc_m = self.path.arcs[state.index] + self.look_ahead_m
        over_m = arc_m - self.path.length_m
        if not beyond or over_m <= 0.0:
            return self.path.point_at(arc_m)
        (x, y), (direction_x, direction_y) = self.path.points[-1], self.path.last_direction()
        return x + direction_x * over_m, y + direction_y * over_m


# How soon what is missing is made up for: slow enough for brakes and engine, quick enough for a lane change.
_TAU_S: Final = 2.0
# Beyond the planned speed by no more than this, however far behind: a car that was held up does not race.
_HURRY_MPS: Final = 3.0
_STANDS_MPS: Final = 0.05
_NEAR_M: Final = 0.2


@dataclass(frozen=True)
class Timetable:
    """``arcs_m`` from the start of the path, and ``times_s`` at which to be there; both never fall."""

    arcs_m: tuple[float, ...]
    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.arcs_m) != len(self.times_s) or len(self.times_s) < 2:
            raise InputError(f"a time for each of 2 or more points was wanted, but {len(self.times_s)} times came")

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.times_s[-1]

    def arc_m(self, time_s: float) -> float:
        """How far along the path to be at a time."""
        number = self._interval(time_s)
        start_s, end_s = self.times_s[number], self.times_s[number + 1]
        share = min(1.0, max(0.0, (time_s - start_s) / (end_s - start_s)))
        return self.arcs_m[number] + (self.arcs_m[number + 1] - self.arcs_m[number]) * share

    def speed_mps(self, time_s: float) -> float:
        """The planned speed at a time; 0 when it is over."""
        if time_s >= self.end_s:
            return 0.0
        number = self._interval(time_s)
        return (self.arcs_m[number + 1] - self.arcs_m[number]) / (self.times_s[number + 1] - self.times_s[number])

    def _interval(self, time_s: float) -> int:
        return min(max(bisect_right(self.times_s, time_s) - 1, 0), len(self.times_s) - 2)

    def wanted_mps(self, time_s: float, arc_m: float) -> float:
        """The speed for somebody who is ``arc_m`` along the path; 0: stand."""
        planned_mps = self.speed_mps(time_s)
        missing_m = self.arc_m(time_s) - arc_m
        if planned_mps < _STANDS_MPS and missing_m < _NEAR_M:
            return 0.0
        return max(0.0, planned_mps + min(missing_m / _TAU_S, _HURRY_MPS))

    @cached_property
    def waits(self) -> bool:
        """Does it stand on its way, to go on later?"""
        moving = [number for number in range(len(self.arcs_m) - 1) if self.arcs_m[number + 1] > self.arcs_m[number]]
        return bool(moving) and any(self.arcs_m[n + 1] == self.arcs_m[n] for n in range(moving[0], moving[-1]))

    @property
    def starts_s(self) -> float:
        """When it first moves; the end for one that never does."""
        return next((self.times_s[n] for n in range(len(self.arcs_m) - 1) if self.arcs_m[n + 1] > self.arcs_m[n]), self.end_s)

    def speed_at_arc_mps(self, arc_m: float) -> float:
        """The planned speed at a place: for whoever can follow places only."""
        number = min(max(bisect_right(self.arcs_m, arc_m) - 1, 0), len(self.arcs_m) - 2)
        return (self.arcs_m[number + 1] - self.arcs_m[number]) / (self.times_s[number + 1] - self.times_s[number])


def timetable_of(path: Sequence[tuple[float, float]], times_s: Sequence[float]) -> Timetable:
    """Return the timetable of a path whose points have times."""
    return Timetable(tuple(float(arc) for arc in arc_lengths(path)), tuple(times_s))


@dataclass(frozen=True)
class TimedWalk:
    """Goes along a path by its timetable, straight between points and around nobody."""

    path: tuple[tuple[float, float], ...]
    timetable: Timetable
    step_s: float
    speed_mps_max: float = 10.0

    def step(self, x_m: float, y_m: float, time_s: float) -> WalkerCommand:
        """Go to where to be after the step that begins now."""
        target_x, target_y = self.point(self.timetable.arc_m(time_s + self.step_s))
        dx, dy = target_x - x_m, target_y - y_m
        away_m = math.sqrt(dx * dx + dy * dy)
        if away_m < 1e-3:
            return WalkerCommand()
        return WalkerCommand(dx / away_m, dy / away_m, min(away_m / self.step_s, self.speed_mps_max))

    def point(self, arc_m: float) -> tuple[float, float]:
        """The point so far along the path."""
        arcs = self.timetable.arcs_m
        number = min(max(bisect_right(arcs, arc_m) - 1, 0), len(arcs) - 2)
        length_m = arcs[number + 1] - arcs[number]
        share = min(1.0, max(0.0, (arc_m - arcs[number]) / length_m)) if length_m > 0.0 else 0.0
        (ax, ay), (bx, by) = self.path[number], self.path[number + 1]
        return ax + (bx - ax) * share, ay + (by - ay) * share
