"""The one resampler of all engines: from frames at an engine's own times to the ticks of a trace, and how far off that may be.

An engine whose steps end when they end has no state at the ticks of a trace. A state at a tick is put on the straight line
between the two frames around it, angles the short way round; a frame on a tick is taken as it is, bit for bit. Whoever
resamples says so: the channel ``resampling_m`` is declared and holds the bound below for every tick and actor, the capability
``lossless`` is False, and a note at the end of the trace has the largest bound. The analysis calls such logs at best identical
at resolution: equal rows do not show that the frames they were made from were equal. The conformance kit holds adapters to it.

**The bound.** Over a gap of h seconds let an actor's velocity along an axis lie between lo and hi, and let m be its mean, the
slope of the line. The path leaves the first frame no faster than hi and must still reach the second no faster than hi and no
slower than lo, so it is farthest from the line where it runs at hi first and at lo afterwards (or the reverse)::

    off <= h (hi - m) (m - lo) / (hi - lo)  <=  h V / 4,    V = hi - lo

A sudden change in the middle of the gap, such as a collision, reaches h V / 4. Steady acceleration a has V = a h, yet strays by
no more than the a h^2 / 8 of a chord: a bound must hold for both, and a log does not tell which it was.

V is not logged, so it is taken from the mean velocities v0 and v2 of the gaps before and after, as |m - v0| + |v2 - m|. That is
enough where the velocity only rises or only falls over the three gaps, suddenly or not: it was v0 at some moment of the gap
before and will be v2 at some moment of the gap after. It is also enough for a short push and its end within the gap, as long as
the peak is no farther beyond m than m is beyond the nearer neighbour; nothing in the log could show a sharper peak.

The first gap of an actor has none before it and the last none after. There one of lo and hi is unknown, and the limit of the
formula is used, h |m - v0| or h |v2 - m|. (To count the one change that is seen twice would be too little: a collision late in
the last gap hardly shows in m.) The bound of a tick is the length of the axes' bounds. It is of positions; other channels have
none.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from samepath.core.channels import ANGLES, POSITION, RESAMPLING
from samepath.core.errors import SimulatorError

__all__ = ["RESAMPLING", "EngineFrame", "ResampledTick", "Resampler", "States", "interpolated", "watch_resampling"]

# A frame this near to a tick, as a part of a step, is on it: above the rounding of a sum of steps in double precision.
_ROUNDING: Final = 1e-9

States = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class EngineFrame:
    """Everybody at a moment of the engine's choice; ``time_s`` counts from the start of the run.

    ``held`` are values that are set once a step and have nothing between two steps, such as commands and gears: a tick has
    those of the frame that reaches it.
    """

    time_s: float
    states: States
    held: States = field(default_factory=dict)


class ResampledTick(NamedTuple):
    """Everybody at a tick, the bound among the channels of each."""

    tick: int
    states: dict[int, dict[str, float]]


class InterpolationCount:
    """How many states were put between two frames while somebody watched."""

    def __init__(self) -> None:
        self.count = 0


# Of the context, not of the process: checks that run side by side do not see each other's runs.
_watched: ContextVar[InterpolationCount | None] = ContextVar("watched resampling", default=None)


@contextmanager
def watch_resampling() -> Iterator[InterpolationCount]:
    """Count what is interpolated from here on. A trace alone does not show it, and an adapter may forget to say so."""
    seen = InterpolationCount()
    token = _watched.set(seen)
    try:
        yield seen
    finally:
        _watched.reset(token)


class Resampler:
    """Turns frames into ticks of ``step_s``.

    Ticks come one frame late, because a bound needs the frame after; when no more frames come, :meth:`rest` has the last ones.
    """

    def __init__(self, step_s: float, start: EngineFrame) -> None:
        if not (step_s > 0 and math.isfinite(step_s)):
            raise SimulatorError(f"a step above 0 s was wanted, but {step_s} came")
        self.step_s = step_s
        self._frames = deque([start], maxlen=3)
        self._next = max(0, math.ceil(start.time_s / step_s - _ROUNDING))
        self.largest_m = 0.0
        self.largest_at: tuple[int, int] | None = None  # tick and actor
        self.longest_gap_s = 0.0

    def take(self, frame: EngineFrame) -> list[ResampledTick]:
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

    def rest(self) -> list[ResampledTick]:
        """Return the ticks up to the last frame; its gap has no other after it, so that the bound is wider there."""
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

    def _gap(self, after: EngineFrame | None) -> list[ResampledTick]:
        """Return the ticks after the last frame but one and up to the last."""
        frames = list(self._frames)
        last = frames[-1]
        before = frames[-2] if len(frames) > 1 else None
        found: list[ResampledTick] = []
        while self._time_s(self._next) <= last.time_s + _ROUNDING * self.step_s:
            found.append(self._tick(self._next, frames[-3] if len(frames) > 2 else None, before, last, after))
            self._next += 1
        return found

    def _time_s(self, tick: int) -> float:
        return tick * self.step_s

    def _tick(
        self, tick: int, earlier: EngineFrame | None, a: EngineFrame | None, b: EngineFrame, later: EngineFrame | None
    ) -> ResampledTick:
        time_s = self._time_s(tick)
        if a is None or abs(time_s - b.time_s) <= _ROUNDING * self.step_s:
            return ResampledTick(
                tick, {number: {**state, RESAMPLING: 0.0, **b.held.get(number, {})} for number, state in b.states.items()}
            )
        share = (time_s - a.time_s) / (b.time_s - a.time_s)
        states = {}
        for number, state in b.states.items():
            # Who is in only one of the two frames came or went between them: where it was at the tick is not known.
            if number not in a.states:
                continue
            bound_m = _bound_m(number, earlier, a, b, later)
            bound = {} if bound_m is None else {RESAMPLING: bound_m}
            states[number] = {**interpolated(a.states[number], state, share), **bound, **b.held.get(number, {})}
            if bound_m is not None and bound_m > self.largest_m:
                self.largest_m, self.largest_at = bound_m, (tick, number)
        watched = _watched.get()
        if watched is not None:
            watched.count += len(states)
        return ResampledTick(tick, states)


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


def _bound_m(
    number: int, earlier: EngineFrame | None, a: EngineFrame, b: EngineFrame, later: EngineFrame | None
) -> float | None:
    """Return how far from the line an actor can have been from ``a`` to ``b``; None where it has no frame beside these two."""
    mean = _velocity(number, a, b)
    changes = [
        [abs(m - neighbour) for m, neighbour in zip(mean, _velocity(number, *pair), strict=True)]
        for pair in ((earlier, a), (b, later))
        if pair[0] is not None and pair[1] is not None and number in pair[0].states and number in pair[1].states
    ]
    if not changes:
        return None
    # With both neighbours V h / 4; with one, what V h / 4 and its exact form tend to when the other end may be anything.
    part = 4 if len(changes) == 2 else 1
    gap_s = b.time_s - a.time_s
    return math.hypot(*(sum(axis) * gap_s / part for axis in zip(*changes, strict=True)))


def _velocity(number: int, a: EngineFrame, b: EngineFrame) -> list[float]:
    """Mean velocity from one frame to the next, along each axis that is there."""
    start, end, gap_s = a.states[number], b.states[number], b.time_s - a.time_s
    return [(end[axis] - start[axis]) / gap_s for axis in POSITION if axis in start]
