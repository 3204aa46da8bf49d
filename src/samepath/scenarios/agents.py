"""Agents: what drives an actor in the simulator samepath, and how their decisions are recorded and replayed.

All agents have one shape: a view of the world after tick n in, a command for tick n + 1 out. Nobody sees what another decides
in the same tick, so that the order in which they are asked does not matter.

A recorded decision is kept with the simulated time at which the step began in which it first held, and replayed by that time:
step for step where steps are the same, held in between where they are not. After an actor's last decision that one holds. Only
changes are kept, compared by their bits: -0.0 and 0.0 are different commands to a replay that promises bits.
"""

import base64
import json
import math
import select
import struct
import subprocess
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import VehicleType, WalkerType, actor_type
from samepath.core.channels import VEHICLE_CONTROL, WALKER_CONTROL
from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import ActorState, Command, Pose, Vector, VehicleCommand, WalkerCommand
from samepath.core.trig import sincos_deg
from samepath.scenarios.drivers import VehicleFollower, VehicleObservation, VehicleState
from samepath.scenarios.paths import TimedWalk
from samepath.scenarios.walkers import WalkerFollower, WalkerObservation, WalkerObstacle, WalkerState

_ANSWER_S: Final = 10.0
# Simulated time is a sum of steps: more than its rounding, less than any step.
_CLOCK_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, eq=False)
class SensorReading:
    """What a sensor of a controller's own rig measured at the very step that the controller decides on.

    ``step`` is how many steps the world had made, ``time_s`` its time then. ``values`` is CARLA's content as a plain array,
    read-only: an image u8[height, width, 4] (blue, green, red, alpha; of labels the red one counts), points f32[n, 4]
    (x forward, y right, z up from the sensor, and intensity), numbers f64[n]. ``mount`` is where the sensor sits on its
    actor, ``attributes`` are those that the rig gives it.
    """

    name: str
    kind: str
    step: int
    time_s: float
    mount: Pose
    attributes: Mapping[str, object]
    values: NDArray[Any]


def no_sensors(actor_id: int) -> Mapping[str, SensorReading]:
    """What somebody sees who carries no sensors: an error that says how to get some."""
    raise SimulatorError(f"actor {actor_id} carries no sensors: give it a rig in the scenario (rig: driver)")


@dataclass(frozen=True)
class WorldView:
    """The world as agents see it: everything after tick ``tick``.

    ``sensors(actor_id)`` gives what the sensors of that actor's rig (``rig`` in the scenario) measure in this very state of
    the world, by their names; those that are not due at this step are left out. They measure when they are asked first:
    who does not look costs nothing.
    """

    tick: int
    time_s: float
    states: Mapping[int, ActorState]
    types: Mapping[int, str]
    sensors: Callable[[int], Mapping[str, SensorReading]] = no_sensors


class Agent(ABC):
    """Drives one actor."""

    def __init__(self, actor_id: int) -> None:
        self.actor_id = actor_id

    @abstractmethod
    def decide(self, view: WorldView) -> Command:
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
        self._start_s = start_s - _CLOCK_ROUNDING_S
        self._state = follower.initial_state()

    def decide(self, view: WorldView) -> Command:
        """Steer towards the path, at the speed it allows."""
        if view.time_s < self._start_s:
            return VehicleCommand(brake=1.0, hand_brake=True)
        state = view.states[self.actor_id]
        sine, cosine = sincos_deg(state.pose.yaw_deg)
        speed_mps = state.velocity_mps.x * cosine + state.velocity_mps.y * sine
        seen = VehicleObservation(state.pose.x_m, state.pose.y_m, cosine, sine, speed_mps)
        command, self._state = self._follower.step(seen, self._state, view.time_s)
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
        self._start_s = start_s - _CLOCK_ROUNDING_S
        self._state = follower.initial_state(*start)

    def decide(self, view: WorldView) -> Command:
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


class TimedWalkingAgent(Agent):
    """Walks by a timetable. It remembers nothing but the time of the last step it saw."""

    def __init__(self, actor_id: int, walk: TimedWalk) -> None:
        super().__init__(actor_id)
        self._walk = walk
        self._time_s = 0.0

    def decide(self, view: WorldView) -> Command:
        """Go to where to be next."""
        self._time_s = view.time_s
        here = view.states[self.actor_id].pose
        return self._walk.step(here.x_m, here.y_m, view.time_s)

    @property
    def finished(self) -> bool:
        """Is the timetable over?"""
        return self._time_s >= self._walk.timetable.end_s - _CLOCK_ROUNDING_S

    def to_plain(self) -> dict[str, Any]:
        """Return the time."""
        return {"time_s": self._time_s}

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up the time."""
        self._time_s = float(plain["time_s"])


def _obstacle(view: WorldView, number: int) -> WalkerObstacle:
    state, kind = view.states[number], actor_type(view.types[number])
    radius_m = kind.radius_m if isinstance(kind, WalkerType) else 0.5 * kind.width_m + 0.3
    velocity = state.velocity_mps
    return WalkerObstacle(state.pose.x_m, state.pose.y_m, velocity.x, velocity.y, radius_m)


class StandingAgent(Agent):
    """Does nothing: props."""

    def decide(self, view: WorldView) -> Command:
        """Stand still."""
        return WalkerCommand()

    @property
    def finished(self) -> bool:
        """Always."""
        return True


class FedAgent(Agent):
    """Says what somebody outside once said: whoever replays a run sets ``command`` before every step."""

    def __init__(self, actor_id: int) -> None:
        super().__init__(actor_id)
        self.command: Command | None = None

    def decide(self, view: WorldView) -> Command:
        """Pass on what was said."""
        if self.command is None:
            raise SimulatorError(f"no command was recorded for actor {self.actor_id} at tick {view.tick}: record the run again")
        return self.command


class CallableAgent(Agent):
    """Asks a Python callable named ``module:function``: ``function(view, actor_id) -> command``."""

    def __init__(self, actor_id: int, name: str) -> None:
        super().__init__(actor_id)
        module, _, attribute = name.partition(":")
        try:
            self._function = cast(Callable[[WorldView, int], Command], getattr(import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            raise SimulatorError(f"controller {name!r} cannot be loaded: {error}") from error
        self._name = name

    def decide(self, view: WorldView) -> Command:
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
    """Asks a process of its own: a line of JSON with the view in, a line of JSON with the command's fields out.

    With a rig the line also has ``sensors``: of each by name its type, shape and numpy type, and its bytes in base64.
    """

    def __init__(self, actor_id: int, arguments: tuple[str, ...], kind: str, *, sees: bool = False) -> None:
        super().__init__(actor_id)
        self._arguments = arguments
        self._sees = sees
        walks = isinstance(actor_type(kind), WalkerType)
        self._command: type[VehicleCommand] | type[WalkerCommand] = WalkerCommand if walks else VehicleCommand
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own controller, named in the user's own file
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as error:
            raise SimulatorError(f"controller process {arguments[0]!r} cannot be started: {error.strerror or error}") from error

    def decide(self, view: WorldView) -> Command:
        """Send the view and wait for the answer."""
        states = {str(number): _plain(view.states[number]) for number in sorted(view.states)}
        told: dict[str, Any] = {"tick": view.tick, "time_s": view.time_s, "actor": self.actor_id, "states": states}
        if self._sees:
            told["sensors"] = {name: _plain_reading(reading) for name, reading in view.sensors(self.actor_id).items()}
        line = json.dumps(told)
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


def _plain_reading(reading: SensorReading) -> dict[str, Any]:
    values = np.ascontiguousarray(reading.values, reading.values.dtype.newbyteorder("<"))
    data = base64.b64encode(values.tobytes()).decode("ascii")
    return {"type": reading.kind, "dtype": values.dtype.str, "shape": list(values.shape), "data": data}


VEHICLE_CHANNELS: Final = (*VEHICLE_CONTROL[:5], "manual_gear_bool", "manual_gear_index")
WALKER_CHANNELS: Final = (*WALKER_CONTROL[:2], WALKER_CONTROL[3], "jump_bool", "face_ahead_bool")
# What a vehicle and what a walker is told, whether there is a command at all, and whether nothing is left to do.
CHANNELS: Final = (*VEHICLE_CHANNELS, *WALKER_CHANNELS, "given_bool", "finished_bool")
_NO_VEHICLE: Final = (0.0,) * len(VEHICLE_CHANNELS)
_NO_WALKER: Final = (0.0,) * len(WALKER_CHANNELS)
_BITS: Final = struct.Struct(f"<{len(CHANNELS)}d")
_UNDECIDED: Final = _BITS.pack(*[0.0] * len(CHANNELS))
# More than the rounding of a sum of steps, less than any step.
_ROUNDING_S: Final = 1e-9


@dataclass(frozen=True)
class Decisions:
    """From ``time_s[i]`` on, ``actors[i]`` is under ``values[i]``, in the order of ``CHANNELS``. In order of time."""

    time_s: Sequence[float]
    actors: Sequence[int]
    values: Sequence[Sequence[float]]


class DecisionRecorder:
    """Takes down what is applied in every step; only what has changed is kept, by its bits."""

    def __init__(self) -> None:
        self._last: dict[int, bytes] = {}
        self._time_s: list[float] = []
        self._actors: list[int] = []
        self._values: list[tuple[float, ...]] = []

    def note(self, time_s: float, here: Iterable[int], commands: Mapping[int, Command], finished: frozenset[int]) -> None:
        """Note the step that began at ``time_s``: who was there, the commands, and who had nothing left to do after it."""
        for number in sorted(here):
            values = _values(commands.get(number), number in finished)
            bits = _BITS.pack(*values)
            if bits != self._last.get(number, _UNDECIDED):
                self._last[number] = bits
                self._time_s.append(time_s)
                self._actors.append(number)
                self._values.append(values)

    @property
    def decisions(self) -> Decisions:
        """All that was noted so far."""
        return Decisions(tuple(self._time_s), tuple(self._actors), tuple(self._values))


class DecisionReplay:
    """Applies decisions to actors of known types, by simulated time. Nobody is asked."""

    def __init__(self, decisions: Decisions, types: Mapping[int, str]) -> None:
        self.decisions = decisions
        _check(decisions, types)
        self._drives = {number: isinstance(actor_type(name), VehicleType) for number, name in types.items()}
        self._tracks: dict[int, tuple[list[float], list[Sequence[float]]]] = {number: ([], []) for number in sorted(types)}
        for time_s, number, values in zip(decisions.time_s, decisions.actors, decisions.values, strict=True):
            self._tracks[number][0].append(time_s)
            self._tracks[number][1].append(values)

    def commands(self, view: WorldView) -> dict[int, Command]:
        """Return what holds in the step that begins now, for everyone who is there and was told something, by id."""
        return self.held(view.time_s, view.states)

    def held(self, time_s: float, here: Iterable[int]) -> dict[int, Command]:
        """Return what holds at a time, for those who are there and were told something, by id."""
        found: dict[int, Command] = {}
        present = frozenset(here)
        for number in self._tracks:
            values = self._at(number, time_s) if number in present else None
            if values is not None and values[-2]:
                found[number] = _command(values, drives=self._drives[number])
        return found

    def finished(self, time_s: float) -> frozenset[int]:
        """Return who has nothing left to do after the step that began at ``time_s``."""
        return frozenset(n for n in self._tracks if (values := self._at(n, time_s)) is not None and values[-1])

    def _at(self, number: int, time_s: float) -> Sequence[float] | None:
        times_s, values = self._tracks[number]
        index = bisect_right(times_s, time_s + _ROUNDING_S) - 1
        return values[index] if index >= 0 else None


def _values(command: Command | None, finished: bool) -> tuple[float, ...]:
    vehicle, walker = _NO_VEHICLE, _NO_WALKER
    if isinstance(command, VehicleCommand):
        gear, switches = command.manual_gear, (float(command.hand_brake), float(command.reverse))
        vehicle = (command.throttle, command.steer, command.brake, *switches, float(gear is not None), float(gear or 0))
    elif command is not None:
        switches = (float(command.jump), float(command.face_ahead))
        walker = (command.direction_x, command.direction_y, command.speed_mps, *switches)
    return (*vehicle, *walker, float(command is not None), float(finished))


def _command(values: Sequence[float], *, drives: bool) -> Command:
    if drives:
        throttle, steer, brake, hand_brake, reverse, manual, gear = values[: len(VEHICLE_CHANNELS)]
        return VehicleCommand(throttle, steer, brake, bool(hand_brake), bool(reverse), int(gear) if manual else None)
    x, y, speed_mps, jump, face_ahead = values[len(VEHICLE_CHANNELS) : -2]
    return WalkerCommand(x, y, speed_mps, bool(jump), bool(face_ahead))


def _check(decisions: Decisions, types: Mapping[int, str]) -> None:
    """Refuse what cannot be replayed, before anything moves."""
    lengths = len(decisions.time_s), len(decisions.actors), len(decisions.values)
    if len(set(lengths)) != 1:
        raise InputError(f"commands: as many times as actors and values were wanted, but {lengths} came: record them again")
    strangers = sorted(set(decisions.actors) - set(types))
    if strangers:
        raise InputError(f"commands: actors {strangers} are not in the scenario: record them for this one")
    if not all(map(math.isfinite, decisions.time_s)) or any(a > b for a, b in pairwise(decisions.time_s)):
        raise InputError("commands: times that never fall were wanted: record them again")
    for values in decisions.values:
        if len(values) != len(CHANNELS) or not all(map(math.isfinite, values)):
            raise InputError(f"commands: {len(CHANNELS)} numbers each were wanted, but {tuple(values)} came: record them again")
