"""Timed paths: not only where an actor goes, but when it is there.

A :class:`Timetable` says how far along its path an actor is at a time, between its points in proportion. A vehicle follows it
by speed: as fast as planned, and faster or slower by what it is behind or ahead, v = v_planned + (s_planned - s) / tau. A
walker goes to where it should be after the next step.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from samepath.core.errors import InputError
from samepath.core.states import WalkerCommand
from samepath.scenarios.paths import arc_lengths

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
