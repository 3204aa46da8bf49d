"""From frames at an engine's own times to the common ticks of a trace, and how far off that may be.

A state at a tick lies on the straight line between the two frames around it, angles the short way round; a frame on a tick is
taken as it is, bit for bit. What the engine would have had at the tick itself is not known, only how far from the line it can
be: over a gap of h seconds in which the velocity of an actor changes by no more than V, a position strays from the line by no
more than V h / 4. A sudden change in the middle of the gap, such as a collision, reaches that; steady acceleration strays by
V h / 8. V is taken from the mean velocities v0, v1, v2 of the gap before, of this gap and of the one after it, as |v1 - v0| +
|v2 - v1|: enough as long as the velocity along each axis only rises or only falls over the three. The bound of every tick
and actor is recorded beside its state, as the channel ``resampling_m``.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from samepath.core.channels import ANGLES, POSITION
from samepath.core.errors import SimulatorError

# The channel of the bound, for a simulator that resamples to declare.
RESAMPLING: Final = "resampling_m"
# A frame this near to a tick, as a part of a step, is on it: above the rounding of a sum of steps in double precision.
_ROUNDING: Final = 1e-9

States = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Frame:
    """Everybody at a moment of the engine's choice; ``time_s`` counts from the start of the run."""

    time_s: float
    states: States


class Tick(NamedTuple):
    """Everybody at a tick, the bound among the channels of each."""

    tick: int
    states: dict[int, dict[str, float]]


class Resampler:
    """Turns frames into ticks of ``step_s``.

    Ticks come one frame late, because a bound needs the frame after; when no more frames come, :meth:`rest` has the last ones.
    """

    def __init__(self, step_s: float, start: Frame) -> None:
        if not (step_s > 0 and math.isfinite(step_s)):
            raise SimulatorError(f"a step above 0 s was wanted, but {step_s} came")
        self.step_s = step_s
        self._frames = deque([start], maxlen=3)
        self._next = max(0, math.ceil(start.time_s / step_s - _ROUNDING))
        self.largest_m = 0.0
        self.largest_at: tuple[int, int] | None = None  # tick and actor
        self.longest_gap_s = 0.0

    def take(self, frame: Frame) -> list[Tick]:
        """Take the next frame; return the ticks of the gap before it, or none where there was no tick in that gap."""
        last = self._frames[-1]
        if frame.time_s == last.time_s and frame.states == last.states:
            return []
        if not frame.time_s > last.time_s:
            raise SimulatorError(f"a frame at {frame.time_s!r} s came after one at {last.time_s!r} s: time must rise")
        self.longest_gap_s = max(self.longest_gap_s, frame.time_s - last.time_s)
        found = self._gap(frame)
        self._frames.append(frame)
        return found

    def rest(self) -> list[Tick]:
        """Return the ticks up to the last frame; its gap has no other after it, so that the one before it counts twice."""
        return self._gap(None)

    def tick_of(self, time_s: float) -> int:
        """Return the first tick at or after a moment, such as a collision's."""
        return max(0, math.ceil(time_s / self.step_s - _ROUNDING))

    @property
    def note(self) -> str:
        """Say what was done and how far off it may be, for the end of a trace."""
        where = "" if self.largest_at is None else f" (tick {self.largest_at[0]}, actor {self.largest_at[1]})"
        return (
            f"resampled from the engine's frames, linear between neighbours, to ticks of {self.step_s:g} s: "
            f"at most {self.largest_m:.3g} m off{where}; longest gap between frames {self.longest_gap_s:.3g} s"
        )

    def _gap(self, after: Frame | None) -> list[Tick]:
        """Return the ticks after the last frame but one and up to the last."""
        frames = list(self._frames)
        last = frames[-1]
        before = frames[-2] if len(frames) > 1 else None
        found: list[Tick] = []
        while self._time_s(self._next) <= last.time_s + _ROUNDING * self.step_s:
            found.append(self._tick(self._next, frames[-3] if len(frames) > 2 else None, before, last, after))
            self._next += 1
        return found

    def _time_s(self, tick: int) -> float:
        return tick * self.step_s

    def _tick(self, tick: int, earlier: Frame | None, a: Frame | None, b: Frame, later: Frame | None) -> Tick:
        time_s = self._time_s(tick)
        if a is None or abs(time_s - b.time_s) <= _ROUNDING * self.step_s:
            return Tick(tick, {number: {**state, RESAMPLING: 0.0} for number, state in b.states.items()})
        share = (time_s - a.time_s) / (b.time_s - a.time_s)
        states = {}
        for number, state in b.states.items():
            if number in a.states:
                states[number] = interpolated(a.states[number], state, share)
                bound_m = _bound_m(number, earlier, a, b, later)
                if bound_m is None:
                    continue
                states[number][RESAMPLING] = bound_m
                if bound_m > self.largest_m:
                    self.largest_m, self.largest_at = bound_m, (tick, number)
        return Tick(tick, states)


def interpolated(before: Mapping[str, float], after: Mapping[str, float], share: float) -> dict[str, float]:
    """Return the state at ``share`` of the way, 0 to 1; angles go the short way round and stay within -180..180 degrees."""
    return {name: _between(before[name], value, share, name in ANGLES) for name, value in after.items()}


def _between(a: float, b: float, share: float, angle: bool) -> float:
    if share == 1.0:
        return b
    if not angle:
        return a + share * (b - a)
    turn = (b - a + 180.0) % 360.0 - 180.0
    return (a + share * turn + 180.0) % 360.0 - 180.0


def _bound_m(number: int, earlier: Frame | None, a: Frame, b: Frame, later: Frame | None) -> float | None:
    """Return how far from the line an actor can have been from ``a`` to ``b``; None where it has no frame beside these two."""
    middle = _velocity(number, a, b)
    changes = [
        [abs(one - other) for one, other in zip(middle, _velocity(number, *pair), strict=True)]
        for pair in ((earlier, a), (b, later))
        if pair[0] is not None and pair[1] is not None and number in pair[0].states and number in pair[1].states
    ]
    if not changes:
        return None
    if len(changes) == 1:
        changes *= 2
    gap_s = b.time_s - a.time_s
    return math.hypot(*(sum(axis) * gap_s / 4 for axis in zip(*changes, strict=True)))


def _velocity(number: int, a: Frame, b: Frame) -> list[float]:
    one, other, gap_s = a.states[number], b.states[number], b.time_s - a.time_s
    return [(other[axis] - one[axis]) / gap_s for axis in POSITION if axis in one]
