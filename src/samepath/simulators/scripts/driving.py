"""What drives the actors of a scenario: pure steps from what was seen to a command, the same for the same sight.

Vehicles follow waypoints 0.1 m apart, speed by PID, steering by pure pursuit: the controllers of the simulator samepath.
Pedestrians walk straight from waypoint to waypoint and around nobody: where one can walk on a foreign map is not known.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from samepath.base.trig import sincos_deg
from samepath.sim.control.lateral import Steering
from samepath.sim.control.vehicle import VehicleFollower, VehicleObservation, VehicleSettings
from samepath.sim.navigation.paths import Path, interpolate
from samepath.sim.world.records import Command, VehicleCommand, WalkerCommand
from samepath.simulators.carla.script import Point, Role

ARRIVAL_M: Final = 0.1
# Simulated time is a sum of steps: more than its rounding, less than any step.
_ROUNDING_S: Final = 1e-6
STANDING: Final = VehicleCommand(brake=1.0, hand_brake=True)
WAITING: Final = WalkerCommand()


class Seen(NamedTuple):
    """What a mind sees of its own actor."""

    x_m: float
    y_m: float
    yaw_deg: float
    vx_mps: float
    vy_mps: float


@dataclass(frozen=True)
class Chassis:
    """What steering depends on, as the server tells it."""

    wheel_base_m: float
    rear_m: float
    max_steer_deg: float


class Mind(Protocol):
    """Drives one actor."""

    finished: bool

    def decide(self, seen: Seen, time_s: float) -> Command:
        """Choose the command for the next step."""
        ...


class Driver:
    """Follows a path with a vehicle."""

    def __init__(self, role: Role, chassis: Chassis, control_s: float) -> None:
        settings = VehicleSettings(
            step_s=control_s,
            cruise_mps=role.speed_mps,
            look_ahead_m=role.look_ahead_m,
            rear_m=chassis.rear_m,
            steering=Steering(chassis.wheel_base_m, chassis.max_steer_deg),
        )
        self._follower = VehicleFollower(Path(interpolate(role.path)), settings)
        self._state = self._follower.initial_state()
        self._start_s = role.start_s - _ROUNDING_S
        self.finished = False

    def decide(self, seen: Seen, time_s: float) -> Command:
        """Steer towards the path, at the speed it allows."""
        if time_s < self._start_s:
            return STANDING
        sine, cosine = sincos_deg(seen.yaw_deg)
        speed_mps = seen.vx_mps * cosine + seen.vy_mps * sine
        command, self._state = self._follower.step(VehicleObservation(seen.x_m, seen.y_m, cosine, sine, speed_mps), self._state)
        self.finished = self._state.stopped
        return command


class Stroller:
    """Walks straight from waypoint to waypoint."""

    def __init__(self, role: Role, control_s: float) -> None:
        self._ahead = list(role.path[1:])
        self._behind = role.path[0]
        self._speed_mps = role.speed_mps
        self._control_s = control_s
        self._start_s = role.start_s - _ROUNDING_S
        self.finished = False

    def decide(self, seen: Seen, time_s: float) -> Command:
        """Walk towards the next waypoint, and stop at the last."""
        if time_s < self._start_s:
            return WAITING
        here = (seen.x_m, seen.y_m)
        while self._ahead and _is_reached(here, self._behind, self._ahead[0]):
            self._behind = self._ahead.pop(0)
        if not self._ahead:
            self.finished = True
            return WAITING
        x, y = self._ahead[0][0] - here[0], self._ahead[0][1] - here[1]
        size = math.sqrt(x * x + y * y)
        speed_mps = self._speed_mps if len(self._ahead) > 1 else min(self._speed_mps, size / self._control_s)
        return WalkerCommand(x / size, y / size, speed_mps)


def _is_reached(here: Point, behind: Point, ahead: Point) -> bool:
    """Is the waypoint near, or passed on the way from the one before it?"""
    x, y = ahead[0] - here[0], ahead[1] - here[1]
    return x * x + y * y <= ARRIVAL_M * ARRIVAL_M or x * (ahead[0] - behind[0]) + y * (ahead[1] - behind[1]) <= 0.0


def mind_of(role: Role, chassis_of: Callable[[Role], Chassis], control_s: float) -> Mind | None:
    """Return who drives a role; props have nobody."""
    if role.kind == "vehicle":
        return Driver(role, chassis_of(role), control_s)
    return Stroller(role, control_s) if role.kind == "walker" else None
