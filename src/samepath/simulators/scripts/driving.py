"""What drives the actors of a script from outside an engine: pure steps from what was seen to a command.

The same for the same sight, whichever engine shows it. Vehicles follow waypoints 0.1 m apart, speed by PID, steering by pure
pursuit: the controllers of the simulator samepath. Pedestrians walk straight from waypoint to waypoint and around nobody: where
one can walk in a foreign world is not known.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from samepath.base.errors import SimulatorError
from samepath.base.trig import sincos_deg
from samepath.sim.control.lateral import Steering
from samepath.sim.control.vehicle import VehicleFollower, VehicleObservation, VehicleSettings
from samepath.sim.navigation.paths import Path, interpolate
from samepath.sim.world.records import Command, VehicleCommand, WalkerCommand
from samepath.simulators.scripts.records import Chassis, Point, Role, Wheels

__all__ = [
    "STANDING",
    "WAITING",
    "Command",
    "Driver",
    "Mind",
    "Seen",
    "Stroller",
    "VehicleCommand",
    "WalkerCommand",
    "brake_force_n",
    "drive_force_n",
    "follower_of",
    "mind_of",
    "scripted_chassis",
]

ARRIVAL_M: Final = 0.1
# Simulated time is a sum of steps: more than its rounding, less than any step.
_ROUNDING_S: Final = 1e-6
STANDING: Final = VehicleCommand(brake=1.0, hand_brake=True)
WAITING: Final = WalkerCommand()
_GRAVITY_MPS2: Final = 9.81
# Below this speed the engine gives what it gives here: power divided by no speed is no force.
_SLOWEST_MPS: Final = 1.0


class Seen(NamedTuple):
    """What a mind sees of its own actor."""

    x_m: float
    y_m: float
    yaw_deg: float
    vx_mps: float
    vy_mps: float


class Mind(Protocol):
    """Drives one actor."""

    finished: bool

    def decide(self, seen: Seen, time_s: float) -> Command:
        """Choose the command for the next step."""
        ...


class Driver:
    """Follows a path with a vehicle."""

    def __init__(self, role: Role, chassis: Chassis, control_s: float) -> None:
        self._follower = follower_of(role, chassis, control_s)
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


def follower_of(role: Role, chassis: Chassis, control_s: float) -> VehicleFollower:
    """Return the controller of a vehicle: its path every 0.1 m, the speed wanted there, and a pure step."""
    settings = VehicleSettings(
        step_s=control_s,
        cruise_mps=role.speed_mps,
        look_ahead_m=role.look_ahead_m,
        rear_m=chassis.rear_m,
        steering=Steering(chassis.wheel_base_m, chassis.max_steer_deg),
    )
    return VehicleFollower(Path(interpolate(role.path)), settings)


def scripted_chassis(role: Role) -> Chassis:
    """What steering depends on where an engine's vehicle is built from the script's own numbers."""
    return _wheels(role).chassis


def mind_of(role: Role, chassis_of: Callable[[Role], Chassis], control_s: float) -> Mind | None:
    """Return who drives a role, asked every ``control_s``; props have nobody.

    ``chassis_of`` tells what a vehicle is like in the engine; where it was built from the script, :func:`scripted_chassis`.
    """
    if role.kind == "vehicle":
        return Driver(role, chassis_of(role), control_s)
    return Stroller(role, control_s) if role.kind == "walker" else None


def drive_force_n(role: Role, throttle: float, speed_mps: float) -> float:
    """What all driven wheels of a vehicle push with: the engine's power at this speed, as far as the tyres hold.

    For engines that take forces instead of pedals: F = throttle min(P / v, friction m g share of the weight on driven wheels).
    """
    wheels, mass_kg = _wheels(role), role.body.mass_kg
    grip_n = wheels.friction * mass_kg * _GRAVITY_MPS2 * wheels.driven_share
    return throttle * min(wheels.power_w / max(abs(speed_mps), _SLOWEST_MPS), grip_n)


def brake_force_n(role: Role, brake: float) -> float:
    """What all brakes of a vehicle hold it back with, as far as the tyres hold."""
    wheels = _wheels(role)
    return brake * min(wheels.brake_n, wheels.friction * role.body.mass_kg * _GRAVITY_MPS2)


def _wheels(role: Role) -> Wheels:
    if role.wheels is None:
        raise SimulatorError(f"actor {role.number}, a {role.type}, has no wheels")
    return role.wheels
