"""Agents: what drives an actor. All have one shape: a view of the world after tick n in, a command for tick n + 1 out."""

import json
import select
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, cast

from samepath.base.errors import SimulatorError
from samepath.base.trig import sincos_deg
from samepath.sim.control.avoidance import Obstacle
from samepath.sim.control.vehicle import VehicleFollower, VehicleObservation, VehicleState
from samepath.sim.control.walker import WalkerFollower, WalkerObservation, WalkerState
from samepath.sim.world.catalogue import WalkerType, actor_type
from samepath.sim.world.records import ActorState, Command, Pose, Vector, VehicleCommand, WalkerCommand

_ANSWER_S: Final = 10.0
# Simulated time is a sum of steps: more than its rounding, less than any step.
_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True)
class View:
    """The world as agents see it: everything after tick ``tick``."""

    tick: int
    time_s: float
    states: Mapping[int, ActorState]
    types: Mapping[int, str]


class Agent(ABC):
    """Drives one actor."""

    def __init__(self, actor_id: int) -> None:
        self.actor_id = actor_id

    @abstractmethod
    def decide(self, view: View) -> Command:
        """Choose the command for the next tick."""

    @property
    def finished(self) -> bool:
        """Has the last waypoint been reached?"""
        return False

    def to_plain(self) -> dict[str, Any]:
        """Return what the agent remembers, as plain data."""
        return {}

    def recall(self, plain: Mapping[str, Any]) -> None:  # noqa: B027 - most agents remember nothing
        """Take up what :meth:`to_plain` returned."""

    def close(self) -> None:  # noqa: B027 - most agents hold nothing
        """Let go of everything."""


class DrivingAgent(Agent):
    """Follows a path with a vehicle."""

    def __init__(self, actor_id: int, follower: VehicleFollower, start_s: float) -> None:
        super().__init__(actor_id)
        self._follower = follower
        self._start_s = start_s - _ROUNDING_S
        self._state = follower.initial_state()

    def decide(self, view: View) -> Command:
        """Steer towards the path, at the speed it allows."""
        if view.time_s < self._start_s:
            return VehicleCommand(brake=1.0, hand_brake=True)
        state = view.states[self.actor_id]
        sine, cosine = sincos_deg(state.pose.yaw_deg)
        speed_mps = state.velocity_mps.x * cosine + state.velocity_mps.y * sine
        seen = VehicleObservation(state.pose.x_m, state.pose.y_m, cosine, sine, speed_mps)
        command, self._state = self._follower.step(seen, self._state)
        return command

    @property
    def finished(self) -> bool:
        """Has it stopped at the end?"""
        return self._state.stopped

    def to_plain(self) -> dict[str, Any]:
        """Return the follower's state."""
        return self._state.to_plain()

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up the follower's state."""
        self._state = VehicleState.from_plain(plain)


class WalkingAgent(Agent):
    """Walks from waypoint to waypoint, around others."""

    def __init__(self, actor_id: int, follower: WalkerFollower, start: tuple[float, float], start_s: float) -> None:
        super().__init__(actor_id)
        self._follower = follower
        self._start_s = start_s - _ROUNDING_S
        self._state = follower.initial_state(*start)

    def decide(self, view: View) -> Command:
        """Walk on along the plan, or plan again."""
        if view.time_s < self._start_s:
            return WalkerCommand()
        here = view.states[self.actor_id].pose
        others = [_obstacle(view, number) for number in sorted(view.states) if number != self.actor_id]
        command, self._state = self._follower.step(WalkerObservation(here.x_m, here.y_m), others, self._state)
        return command

    @property
    def finished(self) -> bool:
        """Has it reached the last waypoint?"""
        return self._state.finished

    def to_plain(self) -> dict[str, Any]:
        """Return the follower's state."""
        return self._state.to_plain()

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up the follower's state."""
        self._state = WalkerState.from_plain(plain)


def _obstacle(view: View, number: int) -> Obstacle:
    state, kind = view.states[number], actor_type(view.types[number])
    radius_m = kind.radius_m if isinstance(kind, WalkerType) else 0.5 * kind.width_m + 0.3
    velocity = state.velocity_mps
    return Obstacle(state.pose.x_m, state.pose.y_m, velocity.x, velocity.y, radius_m)


class StandingAgent(Agent):
    """Does nothing: props."""

    def decide(self, view: View) -> Command:
        """Stand still."""
        return WalkerCommand()

    @property
    def finished(self) -> bool:
        """Always."""
        return True


class CallableAgent(Agent):
    """Asks a Python callable named ``module:function``: ``function(view, actor_id) -> command``."""

    def __init__(self, actor_id: int, name: str) -> None:
        super().__init__(actor_id)
        module, _, attribute = name.partition(":")
        try:
            self._function = cast(Callable[[View, int], Command], getattr(import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            raise SimulatorError(f"controller {name!r} cannot be loaded: {error}") from error
        self._name = name

    def decide(self, view: View) -> Command:
        """Ask the function; whatever it throws is told with its name."""
        try:
            command = self._function(view, self.actor_id)
            if isinstance(command, VehicleCommand | WalkerCommand):
                return _in_numbers(command)
        except Exception as error:
            raise SimulatorError(
                f"controller {self._name!r} failed at tick {view.tick}: {type(error).__name__}: {error}"
            ) from error
        raise SimulatorError(f"controller {self._name!r} gave a {type(command).__name__}, not a command")


class ProcessAgent(Agent):
    """Asks a process of its own: a line of JSON with the view in, a line of JSON with the command's fields out."""

    def __init__(self, actor_id: int, arguments: tuple[str, ...], kind: str) -> None:
        super().__init__(actor_id)
        self._arguments = arguments
        walks = isinstance(actor_type(kind), WalkerType)
        self._command: type[VehicleCommand] | type[WalkerCommand] = WalkerCommand if walks else VehicleCommand
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own controller, named in the user's own file
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as error:
            raise SimulatorError(f"controller process {arguments[0]!r} cannot be started: {error.strerror or error}") from error

    def decide(self, view: View) -> Command:
        """Send the view and wait for the answer."""
        states = {str(number): _plain(view.states[number]) for number in sorted(view.states)}
        line = json.dumps({"tick": view.tick, "time_s": view.time_s, "actor": self.actor_id, "states": states})
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise SimulatorError("the controller process has no pipes")
        try:
            process.stdin.write(line + "\n")
            ready, _, _ = select.select([process.stdout], [], [], _ANSWER_S)
            answer = process.stdout.readline() if ready else ""
            return _in_numbers(self._command(**json.loads(answer)))
        except (OSError, ValueError, TypeError) as error:
            raise SimulatorError(
                f"controller process {self._arguments[0]!r} gave no command at tick {view.tick}: {error}"
            ) from error

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _in_numbers(command: Command) -> Command:
    """Return a command from outside in plain floats: a 32-bit float, say, would compute with another rounding than its copy."""
    if isinstance(command, VehicleCommand):
        pedals, gear = (float(command.throttle), float(command.steer), float(command.brake)), command.manual_gear
        return VehicleCommand(*pedals, bool(command.hand_brake), bool(command.reverse), None if gear is None else int(gear))
    walk = float(command.direction_x), float(command.direction_y), float(command.speed_mps)
    return WalkerCommand(*walk, bool(command.jump), bool(command.face_ahead))


def _plain(state: ActorState) -> dict[str, Any]:
    parts: dict[str, Pose | Vector] = {
        "pose": state.pose,
        "velocity_mps": state.velocity_mps,
        "angular_velocity_degps": state.angular_velocity_degps,
    }
    parts["acceleration_mps2"] = state.acceleration_mps2
    return {"id": state.id, **{name: part._asdict() for name, part in parts.items()}}
