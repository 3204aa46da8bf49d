"""What an engine must offer to be played with, and small things that engines have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import SimulatorError
from samepath.simulators.scripts import Seen, VehicleCommand

# What a driver's command is recorded as, after the channels of a state.
CONTROLS: Final = ("throttle_ratio", "steer_ratio", "brake_ratio")

Vector = tuple[float, float, float]
State = Mapping[str, float]
Floats = NDArray[np.float64]


class Touch(NamedTuple):
    """Two that touch for the first time, and the impulse upon ``actor`` in that step; ``other`` None is scenery."""

    actor: int
    other: int | None
    impulse_ns: Vector


class World(ABC):
    """A script set up in an engine. Everything is in our frame and units; the engine's own stay behind this."""

    @abstractmethod
    def see(self, number: int) -> Seen:
        """Return what the driver of an actor sees."""

    @abstractmethod
    def command(self, number: int, command: VehicleCommand) -> None:
        """Put an actor under a command, until the next one."""

    @abstractmethod
    def states(self) -> Mapping[int, State]:
        """Return where everybody is after the last step, or in ``on_step`` after this one; channels in the adapter's order."""

    def reading(self) -> Any:  # noqa: ANN401 - what an engine says, in its own words
        """Take down what :meth:`rows` will need of this moment; later steps must not change it.

        A run is read once a tick, and this takes its time: whatever can be worked out afterwards is left for then.
        """
        return [[*state.values()] for state in self.states().values()]

    def rows(self, readings: Sequence[Any]) -> Floats:
        """Return readings as float64[reading, vehicle, channel], to the bit what :meth:`states` said at those moments."""
        return np.array(readings, np.float64)

    @abstractmethod
    def step(self, count: int) -> None:
        """Make so many fixed steps."""

    @abstractmethod
    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the fixed steps that a frame of so long is due, at most so many as were set; call ``on_step`` after each."""

    def stretch(self, frame_s: float) -> None:
        """Make one step as long as a frame was; only engines that offer the mode ``variable-step`` can."""
        raise SimulatorError(f"{type(self).__name__} makes fixed steps only, but one of {frame_s:g} s was wanted")

    @abstractmethod
    def touches(self) -> list[Touch]:
        """Return who touched for the first time since this was last asked."""

    def close(self) -> None:  # noqa: B027 - most engines let go by themselves
        """Let go of the engine."""


class Backlog:
    """Time that frames have brought and steps have not yet used; what is beyond ``most`` steps in one frame is dropped."""

    def __init__(self, step_s: float, most: int) -> None:
        self._step_s, self._most = step_s, most
        self._left_s = 0.0

    def due(self, frame_s: float) -> int:
        """Return how many steps a frame of so long is due."""
        self._left_s += frame_s
        count = int(self._left_s / self._step_s)
        self._left_s -= count * self._step_s
        return min(count, self._most)


class Touches:
    """Remembers which pairs have touched, and who is new among them."""

    def __init__(self) -> None:
        self._met: set[tuple[int, int]] = set()
        self._new: list[Touch] = []

    def has_met(self, one: int, other: int | None) -> bool:
        """Have these two touched before? 0 stands for scenery."""
        return _pair(one, other) in self._met

    def add(self, one: int, other: int | None, impulse_on_one: Vector) -> None:
        """Take down that two touch, unless they did before."""
        pair = _pair(one, other)
        if pair in self._met:
            return
        self._met.add(pair)
        if other is not None and other < one:
            x, y, z = impulse_on_one
            self._new.append(Touch(other, one, (-x, -y, -z)))
        else:
            self._new.append(Touch(one, other, impulse_on_one))

    def take(self) -> list[Touch]:
        """Return those who are new, by number, once."""
        if not self._new:
            return []
        found = sorted(self._new, key=lambda touch: (touch.actor, touch.other or 0))
        self._new.clear()
        return found


def _pair(one: int, other: int | None) -> tuple[int, int]:
    return min(one, other or 0), max(one, other or 0)


def angles_deg(forward: Vector, right_z: float, up_z: float) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of an upright frame from its axes, in CARLA's sense: yaw to the right, pitch nose up."""
    roll = math.atan2(-right_z, up_z)
    pitch = math.asin(max(-1.0, min(1.0, forward[2])))
    yaw = math.atan2(forward[1], forward[0])
    return math.degrees(roll), math.degrees(pitch), math.degrees(yaw)


def angle_columns_deg(forward: tuple[Floats, Floats, Floats], right_z: Floats, up_z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return :func:`angles_deg` of many frames, with the same bits: NumPy's own functions may round otherwise."""
    return (
        _each_deg(math.atan2, -right_z, up_z),
        _each_deg(math.asin, np.clip(forward[2], -1.0, 1.0)),
        _each_deg(math.atan2, forward[1], forward[0]),
    )


def _each_deg(angle_of: Callable[..., float], *columns: Floats) -> Floats:
    found = map(math.degrees, map(angle_of, *(column.ravel().tolist() for column in columns)))
    return np.fromiter(found, np.float64, columns[0].size).reshape(columns[0].shape)
