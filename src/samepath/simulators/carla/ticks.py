"""From the server's frames to the ticks of a trace.

With a fixed step every so many frames are a tick, and its numbers are the client's own. With a variable step a state at a
tick is interpolated between the two frames around it, as in the simulator samepath-game-loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Final, Protocol

from samepath.base.errors import SimulatorError
from samepath.simulators.carla.contacts import Report
from samepath.simulators.carla.settings import TICK_S, CarlaSettings
from samepath.simulators.resampling import interpolated

States = Mapping[int, Mapping[str, float]]
# Above the rounding of a sum of steps, far below any step.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class Frame:
    """Everybody after a step of the server; ``time_s`` is the episode's."""

    number: int
    time_s: float
    states: States


class Ticks(Protocol):
    """Turns frames into ticks; the frame it was made with is tick 0."""

    def take(self, frame: Frame) -> list[tuple[int, States]]:
        """Return the ticks that this frame completes."""
        ...

    def time_s(self, frame: Frame) -> float:
        """Return the time of a frame since tick 0."""
        ...

    def of_report(self, report: Report) -> int:
        """Return the first tick at or after a report."""
        ...


class FixedTicks:
    """Every ``per_tick`` frames are a tick. Frames that a client did not get leave gaps; synchronous time has none."""

    def __init__(self, start: Frame, settings: CarlaSettings) -> None:
        self._start = start
        self._per_tick = settings.frames_per_tick
        self._delta_s = settings.fixed_delta_s

    def take(self, frame: Frame) -> list[tuple[int, States]]:
        """Return the tick that this frame completes, if it does."""
        count = frame.number - self._start.number
        self._check_time(frame, count)
        return [] if count % self._per_tick else [(count // self._per_tick, frame.states)]

    def time_s(self, frame: Frame) -> float:
        """Count steps: differences of the episode's time would carry its rounding."""
        return (frame.number - self._start.number) * self._delta_s

    def of_report(self, report: Report) -> int:
        """Return the first tick at or after a report's frame."""
        return -(-(report.frame - self._start.number) // self._per_tick)

    def _check_time(self, frame: Frame, count: int) -> None:
        passed_s = frame.time_s - self._start.time_s
        if abs(passed_s - count * self._delta_s) > self._delta_s / 2:
            raise SimulatorError(
                f"the server's clock went {passed_s:g} s in {count} frames of {self._delta_s:g} s: "
                "is another client changing its settings?"
            )


class VariableTicks:
    """Steps end when they end: states are interpolated to ticks."""

    def __init__(self, start: Frame) -> None:
        self._start_s = start.time_s
        self._before = start

    def take(self, frame: Frame) -> list[tuple[int, States]]:
        """Return the ticks between the frame before and this one."""
        before, self._before = self._before, frame
        a_s, b_s = before.time_s - self._start_s, frame.time_s - self._start_s
        found: list[tuple[int, States]] = []
        for tick in range(floor(a_s / TICK_S + _ROUNDING) + 1, floor(b_s / TICK_S + _ROUNDING) + 1):
            share = min(max((tick * TICK_S - a_s) / (b_s - a_s), 0.0), 1.0)
            both = [number for number in frame.states if number in before.states]
            found.append((tick, {n: interpolated(before.states[n], frame.states[n], share) for n in both}))
        return found

    def time_s(self, frame: Frame) -> float:
        """Return what has passed on the episode's clock."""
        return frame.time_s - self._start_s

    def of_report(self, report: Report) -> int:
        """Return the first tick at or after a report's time."""
        return ceil((report.time_s - self._start_s) / TICK_S - _ROUNDING)


def ticks_from(start: Frame, settings: CarlaSettings) -> Ticks:
    """Return how frames of these settings become ticks."""
    return FixedTicks(start, settings) if settings.is_fixed else VariableTicks(start)
