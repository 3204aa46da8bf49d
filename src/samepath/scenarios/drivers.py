"""A driver for a vehicle: follow a path, slow down for its bends, stop at its end.

The speed at each waypoint is known before the drive: the cruising speed, less where the bend would press harder than the
limit of lateral acceleration, v² = a_lateral / curvature, and little enough everywhere that braking at a steady rate meets
the next slow place, v² = v_next² + 2 a_brake ds. The pedals follow it by PID, the steering by pure pursuit.

*Pure pursuit* steers onto the circle through the look-ahead point. The rear axle drives along a circle that is tangent to the
vehicle's direction and passes through the point at (ahead, right) in its own frame, at distance d. Its curvature is
2 right / d², and a bicycle of wheel base L follows it with the steering angle atan(2 L right / d²) (Coulter, Implementation of
the Pure Pursuit Path Tracking Algorithm, 1992). CARLA's frame: x forward, y right; a positive angle turns right.

*Speed* is u = kp e + ki ∫e dt - kd dv/dt with e = target speed - speed, and u in [-1, 1]: the positive part opens the throttle,
the negative part brakes. The derivative is taken of the measured speed, so that a jump of the target gives no kick. The
integral stands still while u is saturated in the direction of the error.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from samepath.core.errors import InputError
from samepath.core.states import VehicleCommand
from samepath.core.trig import PI, atan2, to_radians
from samepath.scenarios.paths import Path, PathTracker, Timetable, TrackerState

# How far ahead the nearest waypoint is looked for: several times what a vehicle covers in a control period.
_WINDOW_M: Final = 2.0
# Of timetables: above this speed one looks further ahead, as drivers do.
_FAST_MPS: Final = 10.0
_FAST_LOOK_AHEAD_S: Final = 0.5


@dataclass(frozen=True)
class Steering:
    """The geometry that turns a curvature into a steering wheel position."""

    wheel_base_m: float = 2.87
    max_steer_deg: float = 70.0

    def __post_init__(self) -> None:
        if not 0.0 < self.wheel_base_m < math.inf:
            raise InputError(f"a positive wheel base was wanted, but {self.wheel_base_m!r} m came")
        if not 0.0 < self.max_steer_deg <= 90.0:
            raise InputError(f"a steering angle in (0, 90] degrees was wanted, but {self.max_steer_deg!r} came")


def pure_pursuit(
    steering: Steering,
    rear_x_m: float,
    rear_y_m: float,
    forward_x: float,
    forward_y: float,
    target_x_m: float,
    target_y_m: float,
) -> float:
    """Return the steer ratio in [-1, 1] that leads the rear axle through the target; (forward_x, forward_y) is a unit vector.

    A target behind the vehicle asks for the full lock on its side, straight behind for the right one.
    """
    to_x, to_y = target_x_m - rear_x_m, target_y_m - rear_y_m
    ahead = to_x * forward_x + to_y * forward_y
    right = to_y * forward_x - to_x * forward_y
    square = to_x * to_x + to_y * to_y
    if square == 0.0:
        return 0.0
    if ahead < 0.0:
        return -1.0 if right < 0.0 else 1.0
    angle_rad = atan2(2.0 * steering.wheel_base_m * right, square)
    return max(-1.0, min(1.0, angle_rad / _max_steer_rad(steering)))


def _max_steer_rad(steering: Steering) -> float:
    return PI / 2.0 if steering.max_steer_deg == 90.0 else to_radians(steering.max_steer_deg)


@dataclass(frozen=True)
class SpeedGains:
    """Gains per m/s of error; ``integral_limit`` bounds the integral's share of the output."""

    proportional: float = 0.5
    integral: float = 0.15
    derivative: float = 0.02
    integral_limit: float = 0.6
    throttle_max: float = 1.0
    brake_max: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 <= value < math.inf:
                raise InputError(f"a gain of at least 0 was wanted for {name}, but {value!r} came")
        if self.throttle_max > 1.0 or self.brake_max > 1.0:
            raise InputError(f"pedals within 0 and 1 were wanted, but {self.throttle_max!r} and {self.brake_max!r} came")


@dataclass(frozen=True)
class SpeedState:
    """What the controller remembers: the integral's share of the output, and the last measured speed if there was one."""

    integral: float = 0.0
    previous_speed_mps: float | None = None

    def to_plain(self) -> dict[str, object]:
        """Return the state as plain data."""
        return {"integral": self.integral, "previous_speed_mps": self.previous_speed_mps}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "SpeedState":
        """Read what :meth:`to_plain` wrote."""
        integral, previous = plain["integral"], plain["previous_speed_mps"]
        if not isinstance(integral, float) or not (previous is None or isinstance(previous, float)):
            raise InputError(f"floats were wanted in a speed state, but {dict(plain)!r} came")
        return cls(integral, previous)


@dataclass(frozen=True)
class Pedals:
    """Throttle and brake in [0, 1]; at most one is pressed."""

    throttle: float
    brake: float


def control_speed(
    gains: SpeedGains, state: SpeedState, target_mps: float, speed_mps: float, step_s: float
) -> tuple[Pedals, SpeedState]:
    """Return the pedals for this control period of ``step_s`` and the state for the next."""
    if not step_s > 0.0:
        raise InputError(f"a positive control period was wanted, but {step_s!r} s came")
    error = target_mps - speed_mps
    change = 0.0 if state.previous_speed_mps is None else (speed_mps - state.previous_speed_mps) / step_s
    direct = gains.proportional * error - gains.derivative * change
    integral = _within(state.integral + gains.integral * error * step_s, -gains.integral_limit, gains.integral_limit)
    wanted = direct + integral
    if (wanted > gains.throttle_max and error > 0.0) or (wanted < -gains.brake_max and error < 0.0):
        integral = state.integral
        wanted = direct + integral
    output = _within(wanted, -gains.brake_max, gains.throttle_max)
    pedals = Pedals(throttle=output, brake=0.0) if output > 0.0 else Pedals(throttle=0.0, brake=0.0 - output)
    return pedals, SpeedState(integral, speed_mps)


def _within(value: float, low: float, high: float) -> float:
    if value < low:
        return low
    return high if value > high else value


@dataclass(frozen=True)
class VehicleObservation:
    """What the driver sees: position of the vehicle's centre, unit forward vector, speed along it."""

    x_m: float
    y_m: float
    forward_x: float
    forward_y: float
    speed_mps: float


@dataclass(frozen=True)
class VehicleSettings:
    """How a vehicle is driven; ``step_s`` is the control period, ``rear_m`` how far the rear axle is behind the centre."""

    step_s: float
    cruise_mps: float = 8.0
    look_ahead_m: float = 2.0
    look_ahead_s: float = 0.15
    arrival_m: float = 0.5
    lateral_acceleration_mps2: float = 2.5
    braking_mps2: float = 2.0
    creep_mps: float = 0.6
    rear_m: float = 1.4
    steering: Steering = field(default_factory=Steering)
    gains: SpeedGains = field(default_factory=SpeedGains)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int | float) or 0.0 < value < math.inf:
                continue
            if value != 0.0 or name not in ("look_ahead_s", "rear_m"):
                raise InputError(f"a positive {name} was wanted, but {value!r} came")


@dataclass(frozen=True)
class VehicleState:
    """What the driver remembers between steps."""

    tracker: TrackerState = field(default_factory=TrackerState)
    speed: SpeedState = field(default_factory=SpeedState)
    stopped: bool = False

    def to_plain(self) -> dict[str, object]:
        """Return the state as plain data."""
        return {"tracker": self.tracker.to_plain(), "speed": self.speed.to_plain(), "stopped": self.stopped}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "VehicleState":
        """Read what :meth:`to_plain` wrote."""
        tracker, speed = plain["tracker"], plain["speed"]
        if not isinstance(tracker, Mapping) or not isinstance(speed, Mapping):
            raise InputError(f"a vehicle state as written by to_plain was wanted, but {dict(plain)!r} came")
        return cls(TrackerState.from_plain(tracker), SpeedState.from_plain(speed), bool(plain["stopped"]))


def curvatures_per_m(path: Path, reach_m: float = 1.0) -> list[float]:
    """Return the curvature at each waypoint: that of the circle through it and the waypoints ``reach_m`` before and after.

    Near the ends the circle shrinks to what is there; an end point takes its neighbour's value.
    """
    points, arcs = path.points, path.arcs
    last = len(points) - 1
    values = [0.0] * len(points)
    for index in range(1, last):
        reach = min(reach_m, arcs[index], arcs[last] - arcs[index])
        before = min(bisect_left(arcs, arcs[index] - reach), index - 1)
        after = max(bisect_right(arcs, arcs[index] + reach) - 1, index + 1)
        values[index] = _menger(points[before], points[index], points[after])
    if last >= 2:
        values[0], values[last] = values[1], values[last - 1]
    return values


def _menger(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    ab_x, ab_y, bc_x, bc_y = b[0] - a[0], b[1] - a[1], c[0] - b[0], c[1] - b[1]
    ac_x, ac_y = c[0] - a[0], c[1] - a[1]
    squares = (ab_x * ab_x + ab_y * ab_y) * (bc_x * bc_x + bc_y * bc_y) * (ac_x * ac_x + ac_y * ac_y)
    return 2.0 * abs(ab_x * bc_y - ab_y * bc_x) / math.sqrt(squares) if squares > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class VehicleFollower:
    """Drives along ``path``: a pure step from observation and state to command and state.

    With a ``timetable`` the speeds are those it plans, whatever the bends, and more or less where it is behind or ahead.
    """

    path: Path
    settings: VehicleSettings
    timetable: Timetable | None = None

    @cached_property
    def speeds_mps(self) -> list[float]:
        """The speed wanted at each waypoint."""
        settings, arcs = self.settings, self.path.arcs
        speeds = [0.0] * len(arcs)
        bends = curvatures_per_m(self.path)
        for index in range(len(arcs) - 2, -1, -1):
            after = speeds[index + 1]
            square = after * after + 2.0 * settings.braking_mps2 * (arcs[index + 1] - arcs[index])
            square = min(square, settings.cruise_mps * settings.cruise_mps)
            if bends[index] > 0.0:
                square = min(square, settings.lateral_acceleration_mps2 / bends[index])
            speeds[index] = math.sqrt(square)
        return speeds

    @property
    def planned_mps(self) -> list[float]:
        """The speed at each waypoint: the timetable's where there is one."""
        if self.timetable is None:
            return self.speeds_mps
        return [self.timetable.speed_at_arc_mps(arc) for arc in self.path.arcs]

    def initial_state(self) -> VehicleState:
        """Return the state before the first step."""
        return VehicleState()

    def step(
        self, observation: VehicleObservation, state: VehicleState, time_s: float = 0.0
    ) -> tuple[VehicleCommand, VehicleState]:
        """Return this control period's command and the state for the next; ``time_s`` is for timetables."""
        settings = self.settings
        reach_m = settings.look_ahead_m + settings.look_ahead_s * max(observation.speed_mps, 0.0)
        window_m = _WINDOW_M
        if self.timetable is not None:
            # On a motorway a control period is longer than the usual window, and steering on 3 m is nervous.
            window_m = max(_WINDOW_M, 3.0 * observation.speed_mps * settings.step_s)
            reach_m += _FAST_LOOK_AHEAD_S * max(observation.speed_mps - _FAST_MPS, 0.0)
        tracker = PathTracker(self.path, reach_m, settings.arrival_m, window_m=window_m)
        tracked = tracker.advance(state.tracker, observation.x_m, observation.y_m)
        rear_x = observation.x_m - settings.rear_m * observation.forward_x
        rear_y = observation.y_m - settings.rear_m * observation.forward_y
        target_x, target_y = tracker.look_ahead_point(tracked, beyond=True)
        steer = pure_pursuit(
            settings.steering, rear_x, rear_y, observation.forward_x, observation.forward_y, target_x, target_y
        )
        if tracked.finished:
            stopped = state.stopped or abs(observation.speed_mps) < 0.1
            command = VehicleCommand(throttle=0.0, steer=steer, brake=1.0, hand_brake=stopped, reverse=False)
            return command, VehicleState(tracked, SpeedState(0.0, observation.speed_mps), stopped)
        if self.timetable is None:
            wanted = max(self.speeds_mps[tracked.index], settings.creep_mps)
        else:
            wanted = self.timetable.wanted_mps(time_s, self._arc_m(tracked, observation))
            if wanted == 0.0:
                # Planned to stand: hold, and let the integral of the drive before be forgotten.
                stands = abs(observation.speed_mps) < 0.1
                held = VehicleCommand(throttle=0.0, steer=steer, brake=1.0, hand_brake=stands, reverse=False)
                return held, VehicleState(tracked, SpeedState(0.0, observation.speed_mps), stopped=False)
        pedals, speed = control_speed(settings.gains, state.speed, wanted, observation.speed_mps, settings.step_s)
        command = VehicleCommand(pedals.throttle, steer, pedals.brake, hand_brake=False, reverse=False)
        return command, VehicleState(tracked, speed, stopped=False)

    def _arc_m(self, tracked: TrackerState, observation: VehicleObservation) -> float:
        """How far along the path the vehicle is, between waypoints too: a tenth of a metre is a jerk at a standstill."""
        x, y = self.path.points[tracked.index]
        ahead_m = (observation.x_m - x) * observation.forward_x + (observation.y_m - y) * observation.forward_y
        return self.path.arcs[tracked.index] + ahead_m
