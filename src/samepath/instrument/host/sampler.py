"""How busy the host was during a run, and how long each tick took.

The sampler runs beside what is measured, so it must cost next to nothing: a reading every half second in a thread that
otherwise sleeps, and two list appends per tick in the thread of the run, without a lock. All readers rely on the order of
these appends.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import psutil

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError
from samepath.instrument.host.gpu import GpuMeter
from samepath.instrument.traces.records import HostLog, HostSample


@dataclass(frozen=True)
class CoreTimes:
    """A core's counters since boot: seconds spent working and seconds spent waiting."""

    busy_s: float
    idle_s: float


def read_core_times() -> tuple[CoreTimes, ...]:
    """Read the counters of every core; none where the host does not give them."""
    try:
        cores = psutil.cpu_times(percpu=True)
    except (OSError, psutil.Error):
        return ()
    times = []
    for core in cores:
        # Idle and waiting for a disk are one here: the kernel moves time between the two, also backwards.
        idle_s = core.idle + getattr(core, "iowait", 0.0)
        # Linux counts a guest's time twice, once as its own and once as the user's.
        guest_s = getattr(core, "guest", 0.0) + getattr(core, "guest_nice", 0.0)
        times.append(CoreTimes(sum(core) - idle_s - guest_s, idle_s))
    return tuple(times)


class HostSampler:
    """Samples the host from a thread of its own while a run goes on; one sampler serves one run.

    Use it as::

        with HostSampler() as sampler:
            for tick in ticks:
                ...
                sampler.tick(tick)
        log = sampler.log()

    A sample covers the time since the one before it (the first: since the start), so ``wall_s``, counted from the
    start, says over how long its ratios were taken. They are as fine as the kernel counts, 10 ms on Linux: an interval
    in which the counters of some core have not moved gives no sample and is joined to the next. A sample before the
    first call of :meth:`tick` belongs to tick 0, the state a run starts from.
    """

    def __init__(
        self,
        interval_s: float = 0.5,
        clock: Clock = SYSTEM_CLOCK,
        read_cores: Callable[[], tuple[CoreTimes, ...]] = read_core_times,
        gpu: GpuMeter | None = None,
    ) -> None:
        if not (math.isfinite(interval_s) and 0 < interval_s <= threading.TIMEOUT_MAX):
            raise InputError(f"a sampling interval above 0 s was wanted, not {interval_s}; the usual one is 0.5")
        self._interval_s = interval_s
        self._clock = clock
        self._read_cores = read_cores
        self._gpu = gpu or GpuMeter()
        self._ticks: list[int] = []
        self._tick_s: list[float] = []
        self._samples: list[HostSample] = []
        self._cores: tuple[CoreTimes, ...] = ()
        self._start_s: float | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, name="samepath-host-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Take the first reading and start sampling."""
        if self._start_s is not None:
            raise RuntimeError("a HostSampler serves one run; make another")
        self._gpu.open()  # before the start is noted: loading NVML takes time that is not the first tick's
        try:
            self._cores = self._read_cores()
            self._start_s = self._clock.monotonic_s()
            self._thread.start()
        except BaseException:
            self._gpu.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Stop the thread and take the last sample, which is the only one of a short run."""
        self._stop.set()
        self._thread.join()
        try:
            self.sample_now()
        finally:
            self._gpu.close()

    def tick(self, tick: int) -> None:
        """Note that ``tick`` is done."""
        # The reader relies on this order: a time is never there without its tick.
        self._ticks.append(tick)
        self._tick_s.append(self._clock.monotonic_s())

    def sample_now(self) -> HostSample | None:
        """Take a sample of the time since the last; None where the counters have not moved or cannot be read."""
        start_s = self._started_s()
        with self._lock:
            cores = self._read_cores()
            wall_s = self._clock.monotonic_s() - start_s
            if len(cores) != len(self._cores):
                # A core came or went: counters can no longer be told apart by position, so start over from here.
                self._cores = cores
                return None
            spent = [_spent(before, after) for before, after in zip(self._cores, cores, strict=True)]
            if not spent or any(core.busy_s + core.idle_s <= 0 for core in spent):
                return None
            self._cores = cores
            sample = HostSample(
                tick=self._ticks[-1] if self._ticks else 0,
                wall_s=wall_s,
                cpu_ratio=_ratio(sum(core.busy_s for core in spent), sum(core.idle_s for core in spent)),
                core_ratios=tuple(_ratio(core.busy_s, core.idle_s) for core in spent),
                gpu_ratio=self._gpu.ratio(),
            )
            self._samples.append(sample)
            return sample

    def log(self) -> HostLog:
        """Return what was recorded so far; a latency is the time since the tick before (the first: since the start)."""
        start_s = self._started_s()
        tick_s = np.array([start_s, *self._tick_s], np.float64)
        latency_s = np.diff(tick_s)
        ticks = np.array(self._ticks[: len(latency_s)], np.int64)
        for array in (latency_s, ticks):
            array.setflags(write=False)
        with self._lock:
            return HostLog(tuple(self._samples), ticks, latency_s)

    def _started_s(self) -> float:
        if self._start_s is None:
            raise RuntimeError("the HostSampler was not started; enter it with «with» first")
        return self._start_s

    def _sample_until_stopped(self) -> None:
        start_s = self._started_s()
        while True:
            # Counting whole intervals from the start keeps the rate when a sample comes late.
            elapsed_s = self._clock.monotonic_s() - start_s
            due_s = (math.floor(elapsed_s / self._interval_s) + 1) * self._interval_s
            if self._stop.wait(due_s - elapsed_s):
                return
            self.sample_now()


def _spent(before: CoreTimes, after: CoreTimes) -> CoreTimes:
    # Counters can step back when cores sleep; time spent cannot. They come in steps of milliseconds, so that anything
    # below a microsecond is left over from subtracting large floats.
    busy_s, idle_s = after.busy_s - before.busy_s, after.idle_s - before.idle_s
    return CoreTimes(max(0.0, round(busy_s, 6)), max(0.0, round(idle_s, 6)))


def _ratio(busy_s: float, idle_s: float) -> float:
    return busy_s / (busy_s + idle_s)
