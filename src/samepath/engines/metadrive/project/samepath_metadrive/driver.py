"""Drives a car along its track: pedals by PID on speed, steering by pure pursuit of a point ahead.

A track is a list of [x_m, y_m, speed_mps] in samepath's frame; the numbers of the law come with the script.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

WINDOW_M = 2.0
STANDING_MPS = 0.1
ROUNDING_S = 1e-6


class Chassis(NamedTuple):
    """What steering depends on; ``rear_m`` is how far the rear axle is behind the car's middle."""

    wheel_base_m: float
    rear_m: float
    max_steer_deg: float


class Observation(NamedTuple):
    """What a driver sees: where the car is, where it looks, and how fast it goes there."""

    x_m: float
    y_m: float
    ahead_x: float
    ahead_y: float
    speed_mps: float


class DriverCommand(NamedTuple):
    """What a driver does: pedals 0 to 1, steering -1 to 1, to the right."""

    throttle: float
    steer: float
    brake: float


class PathDriver:
    """Follows a track; asked every ``period_s``."""

    def __init__(self, actor: dict[str, Any], chassis: Chassis, period_s: float) -> None:
        self.track = actor["track"]
        self.law = actor["driving"]
        self.start_s = actor["start_s"] - ROUNDING_S
        self.chassis = chassis
        self.period_s = period_s
        self.arcs = [0.0]
        for a, b in zip(self.track, self.track[1:]):  # noqa: B905 - strict came with Python 3.10
            self.arcs.append(self.arcs[-1] + math.sqrt((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2))
        self.index = 0
        self.arrived = False
        self.stopped = False
        self.integral = 0.0
        self.speed_before: float | None = None

    def step(self, seen: Observation, time_s: float) -> DriverCommand:
        """Choose what to do until the next time."""
        if time_s < self.start_s:
            return DriverCommand(0.0, 0.0, 1.0)
        self.advance(seen.x_m, seen.y_m)
        reach_m = self.law["look_ahead_m"] + self.law["look_ahead_s"] * max(seen.speed_mps, 0.0)
        steer = self.pursue(seen, self.point_ahead(reach_m))
        if self.arrived:
            self.stopped = self.stopped or abs(seen.speed_mps) < STANDING_MPS
            self.integral = 0.0
            self.speed_before = seen.speed_mps
            return DriverCommand(0.0, steer, 1.0)
        output = self.pedals(max(self.track[self.index][2], self.law["creep_mps"]), seen.speed_mps)
        return DriverCommand(max(output, 0.0), steer, max(-output, 0.0))

    def advance(self, x_m: float, y_m: float) -> None:
        """Move on to the nearest point, at most so far ahead; never back."""
        best, best_square = self.index, math.inf
        number = self.index
        while number < len(self.track) and self.arcs[number] <= self.arcs[self.index] + WINDOW_M:
            square = self.square_to(number, x_m, y_m)
            if square < best_square:
                best, best_square = number, square
            number += 1
        self.index = best
        last, near_m = len(self.track) - 1, self.law["arrival_m"]
        at_end = self.square_to(last, x_m, y_m) <= near_m * near_m and self.arcs[last] - self.arcs[best] <= 2 * near_m
        self.arrived = self.arrived or best == last or at_end

    def square_to(self, number: int, x_m: float, y_m: float) -> float:
        """Return the square of the distance to a point of the track."""
        x, y = self.track[number][0] - x_m, self.track[number][1] - y_m
        return float(x * x + y * y)

    def point_ahead(self, reach_m: float) -> tuple[float, float]:
        """Return the point so far along the track, beyond its end on a straight line."""
        arc_m = self.arcs[self.index] + reach_m
        last, number = len(self.track) - 1, self.index + 1
        while number < last and self.arcs[number] <= arc_m:
            number += 1
        number = min(number, last)
        a, b = self.track[number - 1], self.track[number]
        share = (arc_m - self.arcs[number - 1]) / (self.arcs[number] - self.arcs[number - 1])
        return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share

    def pursue(self, seen: Observation, target: tuple[float, float]) -> float:
        """Steer the rear axle towards a point."""
        to_x = target[0] - (seen.x_m - self.chassis.rear_m * seen.ahead_x)
        to_y = target[1] - (seen.y_m - self.chassis.rear_m * seen.ahead_y)
        right = to_y * seen.ahead_x - to_x * seen.ahead_y
        if to_x * seen.ahead_x + to_y * seen.ahead_y < 0.0:
            return -1.0 if right < 0.0 else 1.0
        angle = math.atan2(2.0 * self.chassis.wheel_base_m * right, to_x * to_x + to_y * to_y)
        return min(max(angle / math.radians(self.chassis.max_steer_deg), -1.0), 1.0)

    def pedals(self, wanted_mps: float, speed_mps: float) -> float:
        """Return throttle, or brake below 0. The integral stands still while that is at its end."""
        law, error = self.law, wanted_mps - speed_mps
        change = 0.0 if self.speed_before is None else (speed_mps - self.speed_before) / self.period_s
        self.speed_before = speed_mps
        direct = law["proportional"] * error - law["derivative"] * change
        limit = law["integral_limit"]
        grown = min(max(self.integral + law["integral"] * error * self.period_s, -limit), limit)
        output = direct + grown
        if (output > 1.0 and error > 0.0) or (output < -1.0 and error < 0.0):
            output = direct + self.integral
        else:
            self.integral = grown
        return float(min(max(output, -1.0), 1.0))
