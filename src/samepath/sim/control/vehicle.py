"""A driver for a vehicle: follow a path, slow down for its bends, stop at its end.

The speed at each waypoint is known before the drive: the cruising speed, less where the bend would press harder than the
limit of lateral acceleration, v² = a_lateral / curvature, and little enough everywhere that braking at a steady rate meets
the next slow place, v² = v_next² + 2 a_brake ds. The pedals follow it by PID, the steering by pure pursuit.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from samepath.base.errors import InputError
from samepath.sim.control.lateral import Steering, pure_pursuit
from samepath.sim.control.longitudinal import SpeedGains, SpeedState, control_speed
from samepath.sim.navigation.paths import Path, PathTracker, TrackerState
from samepath.sim.world.records import VehicleCommand

# How far ahead the nearest waypoint is looked for: several times what a vehicle covers in a control period.
_WINDOW_M: Final = 2.0


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
    """Drives along ``path``: a pure step from observation and state to command and state."""

    path: Path
    settings: VehicleSettings

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

    def initial_state(self) -> VehicleState:
        """Return the state before the first step."""
        return VehicleState()

    def step(self, observation: VehicleObservation, state: VehicleState) -> tuple[VehicleCommand, VehicleState]:
        """Return this control period's command and the state for the next."""
        settings = self.settings
        reach_m = settings.look_ahead_m + settings.look_ahead_s * max(observation.speed_mps, 0.0)
        tracker = PathTracker(self.path, reach_m, settings.arrival_m, window_m=_WINDOW_M)
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
        wanted = max(self.speeds_mps[tracked.index], settings.creep_mps)
        pedals, speed = control_speed(settings.gains, state.speed, wanted, observation.speed_mps, settings.step_s)
        command = VehicleCommand(pedals.throttle, steer, pedals.brake, hand_brake=False, reverse=False)
        return command, VehicleState(tracked, speed, stopped=False)
