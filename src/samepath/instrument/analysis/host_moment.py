"""What the host did when two runs parted: how busy it was, how long the tick took, and whether one before it came late."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from samepath.instrument.traces.records import HostLog

# A tick that took so many times as long as usual came late: its frame, or its command, is the next one's.
LATE: Final = 2.0
# A late tick acts on those right after it.
_NEAR: Final = 5


@dataclass(frozen=True)
class HostMoment:
    """The host at a tick of a repeat. ``usual_s`` is the median time of a tick; ``late_tick`` the last late one just before.

    None: nobody noted it.
    """

    repeat: int
    tick: int
    cpu_ratio: float | None = None
    busiest_core_ratio: float | None = None
    gpu_ratio: float | None = None
    latency_s: float | None = None
    usual_s: float | None = None
    late_tick: int | None = None
    late_s: float | None = None

    def words(self) -> str:
        """Say it in a line; empty where nothing is known."""
        parts = []
        if self.cpu_ratio is not None:
            parts.append(f"CPU {100 * self.cpu_ratio:.0f} % busy (busiest core {100 * (self.busiest_core_ratio or 0.0):.0f} %)")
        if self.gpu_ratio is not None:
            parts.append(f"GPU {100 * self.gpu_ratio:.0f} %")
        if self.latency_s is not None and self.usual_s is not None:
            parts.append(f"tick {self.tick} took {1e3 * self.latency_s:.3g} ms (usually {1e3 * self.usual_s:.3g} ms)")
        if self.late_tick is not None and self.late_s is not None:
            parts.append(f"tick {self.late_tick} came late, after {1e3 * self.late_s:.3g} ms")
        return f"repeat {self.repeat}: {', '.join(parts)}" if parts else ""


def host_at(repeat: int, log: HostLog, tick: int) -> HostMoment:
    """Look up what the host did at a tick."""
    sample = next((sample for sample in log.samples if sample.tick >= tick), log.samples[-1] if log.samples else None)
    ratios: tuple[float | None, float | None, float | None] = (None, None, None)
    if sample is not None:
        ratios = (sample.cpu_ratio, max(sample.core_ratios, default=sample.cpu_ratio), sample.gpu_ratio)
    if len(log.latency_s) < 2:
        return HostMoment(repeat, tick, *ratios)
    # The first tick has the time in which the run was set up: it is late by nature.
    usual_s = float(np.median(log.latency_s[1:]))
    at = int(np.searchsorted(log.latency_ticks, tick))
    there = at < len(log.latency_ticks) and int(log.latency_ticks[at]) == tick
    near = range(max(1, at - _NEAR), min(at + 1, len(log.latency_s)))
    late = [index for index in near if log.latency_s[index] > LATE * usual_s]
    return HostMoment(
        repeat,
        tick,
        *ratios,
        latency_s=float(log.latency_s[at]) if there and at > 0 else None,
        usual_s=usual_s,
        late_tick=int(log.latency_ticks[late[-1]]) if late else None,
        late_s=float(log.latency_s[late[-1]]) if late else None,
    )
