"""From looks to the ticks of a trace: taken as they are where the program stood still at one, else resampled."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from samepath.base.errors import SimulatorError
from samepath.simulators.remote.settings import TICK_S
from samepath.simulators.remote.world import Look
from samepath.simulators.resampling import Frame, Resampler

Ticks = list[tuple[int, dict[int, dict[str, float]]]]
# Above the rounding of a quotient of times, far below any step.
_ROUNDING: Final = 1e-6


class Clockwork(Protocol):
    """Turns looks into ticks."""

    def take(self, looks: Sequence[Look]) -> Ticks:
        """Take the next looks at everybody; return the ticks that are complete now."""
        ...

    @property
    def note(self) -> str:
        """What was done to the numbers; empty where nothing was."""
        ...


class ExactTicks:
    """Every look is a tick, and its numbers are the program's own."""

    note = ""

    def __init__(self) -> None:
        self._tick = 0

    def take(self, looks: Sequence[Look]) -> Ticks:
        """Return this tick."""
        self._tick += 1
        for look in looks:
            if abs(look.time_s / TICK_S - self._tick) > _ROUNDING:
                raise SimulatorError(f"actor {look.number} was seen at {look.time_s:g} s where tick {self._tick} was wanted")
        return [(self._tick, {look.number: look.state for look in looks})]


class ResampledTicks:
    """Everybody is resampled by the times they were seen at. A tick is complete when everybody has it."""

    def __init__(self, start: Iterable[Look]) -> None:
        self._resamplers = {look.number: Resampler(TICK_S, _frame(look)) for look in start}
        self._last = {look.number: look.time_s for look in start}
        self._known: dict[int, dict[int, dict[str, float]]] = {}
        for one in self._resamplers.values():
            one.rest()  # the start itself is no tick of a trace

    def take(self, looks: Sequence[Look]) -> Ticks:
        """Return the ticks that everybody has now; a look at a moment that was seen before adds nothing."""
        for look in looks:
            if look.time_s == self._last[look.number]:
                continue
            self._last[look.number] = look.time_s
            for tick, states in self._resamplers[look.number].take(_frame(look)):
                self._known.setdefault(tick, {}).update(states)
        complete = sorted(tick for tick, states in self._known.items() if len(states) == len(self._resamplers))
        return [(tick, dict(sorted(self._known.pop(tick).items()))) for tick in complete]

    @property
    def note(self) -> str:
        """Say how far off the worst of them may be."""
        return max(self._resamplers.values(), key=lambda one: one.largest_m).note


def _frame(look: Look) -> Frame:
    return Frame(look.time_s, {look.number: look.state})
