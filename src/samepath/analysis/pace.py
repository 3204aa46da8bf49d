"""How fast repeats ran, from the wall time of their ticks."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from samepath.traces.records import HostLog

# Ticks that come all at once, after the run, say nothing about its pace: then the whole run does.
_ALL_AT_ONCE: Final = 0.9


@dataclass(frozen=True)
class Pace:
    """The median repeat of a cell: ``steps_per_s`` ticks in a second, ``run_s`` from its start to its last tick.

    What comes before the first tick, such as the start of an engine, is part of ``run_s`` alone. ``times_real_time`` is how
    many simulated seconds a second of the wall clock has.
    """

    steps_per_s: float
    times_real_time: float
    run_s: float


class PaceFinder:
    """Notes the pace of every repeat while somebody else reads the host logs."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._steps_per_s: list[float] = []
        self._run_s: list[float] = []

    def watch(self, host_logs: Iterable[tuple[int, HostLog]]) -> Iterator[tuple[int, HostLog]]:
        """Yield the logs as they come."""
        for repeat, log in host_logs:
            self._note(log)
            yield repeat, log

    def result(self) -> Pace | None:
        """Return the median; None where no times were noted, as in imported logs."""
        if not self._steps_per_s:
            return None
        steps_per_s = statistics.median(self._steps_per_s)
        return Pace(steps_per_s, steps_per_s * self._step_s, statistics.median(self._run_s))

    def _note(self, log: HostLog) -> None:
        if len(log.latency_s) < 2:
            return
        run_s, before_s = float(log.latency_s.sum()), float(log.latency_s[0])
        late = before_s > _ALL_AT_ONCE * run_s
        steps = int(log.latency_ticks[-1]) - (0 if late else int(log.latency_ticks[0]))
        spent_s = run_s if late else run_s - before_s
        if steps > 0 and spent_s > 0:
            self._steps_per_s.append(steps / spent_s)
            self._run_s.append(run_s)
