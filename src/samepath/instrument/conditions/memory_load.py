"""Memory bandwidth taken by workers that copy arrays larger than the caches, held at a share of what they can take at most.

There is no counter of memory bandwidth that every machine has and every user may read. So the workers count the bytes they
move, and full speed is what the same workers reach when nothing holds them back, measured for a second before the first load.
The share says how much of *that* is taken: it says nothing of what the simulator itself moves, and a busy CPU shows as a missed
target.
"""

import re
from typing import Final

import psutil

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.instrument.conditions.worker_pool import PooledLoad, SchedulingState, WorkerPool, corrected
from samepath.instrument.host.doctor import format_size
from samepath.instrument.host.facts import read_limits
from samepath.instrument.host.probe import Probe

CONTROL_S: Final = 0.25
"""A dozen of the workers' periods: over fewer, the byte count of one step is a matter of chance."""
GAIN: Final = 0.5
"""See ``worker_pool.corrected``."""
CALIBRATION_S: Final = 1.0
WARM_UP_S: Final = 0.2
"""The first copies make the pages of the target arrays, and are slower."""
MOST_WORKERS: Final = 8
"""More copying cores than this bring no more bandwidth on the machines we know, and cost memory."""
LEAST_BYTES: Final = 64 * 2**20


class MemoryLoad(PooledLoad):
    """Holds the bytes moved at ``target`` (0..1) of full speed, which is measured at the start if it is not known."""

    def __init__(self, target: float, scheduling: SchedulingState, full_bps: float | None = None) -> None:
        super().__init__(target, CONTROL_S)
        self.full_bps = full_bps or 0.0
        self._scheduling = scheduling
        self._before = (0.0, 0.0)
        self._mark = (0.0, 0.0)

    def start(self) -> None:
        """Start the workers and measure their full speed."""
        # The thread of the controller runs from here on: what is measured must not begin with the calibration at full speed.
        super().start()
        self.mark()

    def _begin(self) -> None:
        workers = worker_count(len(self._scheduling.cores))
        size = array_bytes(Probe(), workers, read_room_bytes(Probe()))
        self._workers = WorkerPool("memory", workers, self._scheduling, {"array_bytes": size})
        if not self.full_bps:
            # Kept by the owner once it is known: measured anew under another load, the same level would mean fewer bytes.
            self._workers.share = 1.0
            SYSTEM_CLOCK.sleep_s(WARM_UP_S)
            before = self._reading()
            SYSTEM_CLOCK.sleep_s(CALIBRATION_S)
            self.full_bps = _rate(before, self._reading())
        # Near the level already: the controller corrects from there instead of climbing from zero through half of a repeat.
        self._workers.share = self.target
        self._before = self._reading()

    def _step(self) -> None:
        if self._workers is None:
            return
        self._workers.check()
        now = self._reading()
        measured = _rate(self._before, now) / self.full_bps
        self._before = now
        self._workers.share = corrected(self._workers.share, self.target, measured, GAIN)

    def _reading(self) -> tuple[float, float]:
        workers = self._workers
        return SYSTEM_CLOCK.monotonic_s(), 0.0 if workers is None else workers.done

    def mark(self) -> None:
        self._mark = self._reading()

    def measured(self) -> float:
        """Return the bytes moved since :meth:`mark`, as a share of full speed."""
        return _rate(self._mark, self._reading()) / self.full_bps


def worker_count(cores: int) -> int:
    """Return how many workers copy on so many cores."""
    return min(cores, MOST_WORKERS)


def _rate(before: tuple[float, float], now: tuple[float, float]) -> float:
    # Two readings of a coarse clock may be equal.
    return (now[1] - before[1]) / max(now[0] - before[0], 1e-9)


def last_level_cache_bytes(probe: Probe) -> int:
    """Return the size of the largest cache that the kernel shows; 0 where it shows none."""
    paths = probe.find("sys/devices/system/cpu/cpu0/cache/index*/size")
    sizes = (re.fullmatch(r"(\d+)([KMG]?)", probe.read(path)) for path in paths)
    units = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
    return max((int(size[1]) * units[size[2]] for size in sizes if size), default=0)


def read_room_bytes(probe: Probe) -> int:
    """Return the memory that is free for use, the control group's limit considered."""
    limit = read_limits(probe).memory_limit_bytes
    free = int(psutil.virtual_memory().available)
    return min(free, limit) if isinstance(limit, int) else free


def array_bytes(probe: Probe, workers: int, room_bytes: int) -> int:
    """Return how large a worker's source array is (its target is as large): twice the last cache, at least 64 MiB.

    Raises StudyError where all arrays together would take more than a quarter of the memory.
    """
    # An array that fits into a cache would load the cache and leave the memory alone.
    wanted = max(LEAST_BYTES, 2 * last_level_cache_bytes(probe))
    # A load that makes the machine swap would measure the disk; and what the simulator needs must still be there.
    if 2 * workers * wanted > room_bytes // 4:
        needed, quarter = format_size(2 * workers * wanted), format_size(room_bytes // 4)
        raise StudyError(f"a memory load needs {needed} for its arrays, but a quarter of the free memory is only {quarter}")
    return wanted
