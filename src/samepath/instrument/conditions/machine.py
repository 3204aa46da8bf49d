"""The loads of a machine, held together while repeats are measured: CPU, GPU and memory bandwidth.

The order matters. Memory comes first, because its full speed is measured before any other load runs; the CPU comes last,
because its controller counts in what the others use. A load that stays at its level from one cell to the next is left alone:
restarting it would give the first repeat of a cell another machine than the later ones. Before repeats begin the loads must
settle, for a repeat that starts on the rising edge is measured under another condition than the rest.
"""

import ctypes
import importlib.util
import re
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Protocol, Self

import psutil

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.instrument.conditions.cpu_load import TOLERANCE, CpuLoad, busy_ratio, chosen_tool
from samepath.instrument.conditions.worker_pool import PooledLoad, SchedulingState, WorkerPool, corrected
from samepath.instrument.host.doctor import format_size
from samepath.instrument.host.facts import read_limits
from samepath.instrument.host.gpu import GpuMeter
from samepath.instrument.host.probe import Probe
from samepath.instrument.host.sampler import CoreTimes, read_core_times

MEMORY_CONTROL_S: Final = 0.25
"""A dozen of the workers' periods: over fewer, the byte count of one step is a matter of chance."""
MEMORY_GAIN: Final = 0.5
"""See ``worker_pool.corrected``."""
CALIBRATION_S: Final = 1.0
WARM_UP_S: Final = 0.2
"""The first copies make the pages of the target arrays, and are slower."""
MOST_WORKERS: Final = 8
"""More copying cores than this bring no more bandwidth on the machines we know, and cost memory."""
LEAST_BYTES: Final = 64 * 2**20


class MemoryLoad(PooledLoad):
    """Memory bandwidth: workers copy arrays larger than the caches, at ``target`` (0..1) of what they can take at most.

    There is no counter of memory bandwidth that every machine has and every user may read. So the workers count the bytes they
    move, and full speed is what the same workers reach when nothing holds them back, measured for a second before the first
    load, if it is not known. The share says how much of *that* is taken: it says nothing of what the simulator itself moves,
    and a busy CPU shows as a missed target.
    """

    def __init__(self, target: float, scheduling: SchedulingState, full_bps: float | None = None) -> None:
        super().__init__(target, MEMORY_CONTROL_S)
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
        self._workers.share = corrected(self._workers.share, self.target, measured, MEMORY_GAIN)

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


GPU_SAMPLE_S: Final = 0.2
MOST_SAMPLES: Final = 10_000
"""Half an hour of readings; what is measured of a longer repeat is its last half hour."""
STEPS_PER_CORRECTION: Final = 5
GPU_GAIN: Final = 0.5
"""See ``worker_pool.corrected``."""

BACKENDS: Final = ("torch", "cupy", "driver")


def usable_backends(
    has_module: Callable[[str], bool] = lambda name: importlib.util.find_spec(name) is not None,
    has_driver: Callable[[], bool] | None = None,
) -> tuple[str, ...]:
    """Return the ways to load a GPU that may work here, best first; whether one does, only trying tells."""
    found = [name for name in ("torch", "cupy") if has_module(name)]
    return (*found, "driver") if (has_driver or _has_driver)() else tuple(found)


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class GpuLoad(PooledLoad):
    """Holds the busiest GPU at ``target`` (0..1) of its time, by kernels that a worker launches on the first.

    They run for a share of every period. The reading is late: NVML averages over up to a second. A controller that corrected
    faster than that would act on its own last correction as if it had not happened, and swing. So readings are taken every 0.2
    s, a correction is made every fifth one, and only the newer readings of those five count: the older ones still show the
    share before. To start may take seconds where a large library is imported.
    """

    def __init__(
        self, target: float, scheduling: SchedulingState, meter: GpuMeter, backends: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(target, GPU_SAMPLE_S)
        self.backend = ""
        self._scheduling = scheduling
        self._meter = meter
        self._backends = usable_backends() if backends is None else backends
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST_SAMPLES)
        self._recent: list[float] = []
        self._mark_s = 0.0

    def _begin(self) -> None:
        # One worker: it can fill a card by itself, and kernels of a second process would only take turns with its own.
        self._workers = WorkerPool("GPU", 1, self._scheduling, {"backends": list(self._backends)})
        self.backend = self._backends[self._workers.first_answer - 1]
        self._workers.share = self.target

    def _step(self) -> None:
        if self._workers is None:
            return
        self._workers.check()
        # A reading that fails now and then (a driver that is busy) is left out; no number stands in for it.
        ratio = self._meter.ratio()
        if ratio is None:
            return
        self._samples.append((SYSTEM_CLOCK.monotonic_s(), ratio))
        self._recent.append(ratio)
        if len(self._recent) >= STEPS_PER_CORRECTION:
            fresh = self._recent[len(self._recent) // 2 :]  # the newer ones, see above
            self._workers.share = corrected(self._workers.share, self.target, sum(fresh) / len(fresh), GPU_GAIN)
            self._recent = []

    def mark(self) -> None:
        self._mark_s = SYSTEM_CLOCK.monotonic_s()

    def measured(self) -> float | None:
        """Return the mean utilisation since :meth:`mark`; after less time than NVML's window takes, that window's."""
        window = [ratio for at_s, ratio in list(self._samples) if at_s >= self._mark_s]
        return sum(window) / len(window) if window else self._meter.ratio()


Scalar = str | float | int | bool

Reading = tuple[float, tuple[CoreTimes, ...]]

LOADS: Final = ("memory_load", "gpu_load", "cpu_load")
"""In the order in which they are started."""
WINDOW_S: Final = 0.5
"""The kernel counts busy time in hundredths of a second: over less than this, a share of it means nothing."""
OLDEST_S: Final = 2.0
"""For a repeat shorter than the window an older reading counts as its start, but none from before this long."""


class HeldLoad(Protocol):
    """A load that is held at a target, by processes that end with this one."""

    target: float

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that make the load."""
        ...

    def start(self) -> None:
        """Start it; raises StudyError where that cannot be done."""
        ...

    def hold(self, target: float) -> None:
        """Go on with another target above 0."""
        ...

    def check(self) -> None:
        """Raise StudyError if it has ended by itself."""
        ...

    def mark(self) -> None:
        """Begin to measure."""
        ...

    def measured(self) -> float | None:
        """Return what it was since :meth:`mark`."""
        ...

    def close(self) -> None:
        """End it; nothing of it is left."""
        ...


class MachineLoads:
    """Holds the loads that a cell asks for, and tells what was really there.

    Use it as::

        with MachineLoads() as loads:
            loads.hold({"cpu_load": 0.75})
            loads.mark()
            ...                     # a repeat
            loads.measured()        # {"cpu_load": 0.748}

    ``tool`` makes the CPU load: auto, stress-ng or samepath. ``settle_s`` is the longest that :meth:`hold` waits for the loads
    to come near their levels. Make it before conditions of this process are set: workers run on the cores, and at the
    priority, that the process has at this moment.
    """

    def __init__(self, *, tool: str = "auto", settle_s: float = 6.0, meter: GpuMeter | None = None) -> None:
        self.tool = chosen_tool(tool)
        self._settle_s = settle_s
        # Now, because cells set priorities and cores later: a load that inherited a cell's would be another load in each.
        self._scheduling = SchedulingState.of_this_process()
        self._meter = meter or GpuMeter()
        self._meter.open()
        self._held: dict[str, HeldLoad] = {}
        self.full_bps: float | None = None
        """Bytes per second that a memory load of 1 means; None until the first one."""
        self._readings: deque[Reading] = deque(maxlen=100)
        self.mark()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all loads; nothing of them is left. May be called twice."""
        # The last started goes first. Should the wait for its end be interrupted, it ends all the same: it has been told to.
        while self._held:
            self._held.popitem()[1].close()
        self._meter.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that make load at this moment."""
        return tuple(pid for load in self._held.values() for pid in load.pids)

    def hold(self, wanted: Mapping[str, Scalar]) -> None:
        """Set the levels of ``cpu_load``, ``gpu_load`` and ``memory_load``; a missing one, like 0, adds nothing.

        What is held at its level already runs on undisturbed. Returns when the loads have settled, or the time for it is up:
        whether the levels were met, :meth:`measured` tells.
        """
        self.check()
        levels = {name: _level(name, wanted.get(name, 0.0)) for name in LOADS}
        if levels["memory_load"] and self.full_bps is None and "cpu_load" in self._held:
            # Its full speed is measured at the start, and a CPU load beside it would make it too low.
            self._held.pop("cpu_load").close()
        changed = [self._set(name, level) for name, level in levels.items()]
        if any(changed) and self._held:
            self._settle()
        self.mark()

    def _set(self, name: str, level: float) -> bool:
        """Bring one load to its level; say whether that changed something."""
        load = self._held.get(name)
        if load is None and level > 0:
            # Kept before it starts, so that an interrupt in between leaves nothing running.
            load = self._held[name] = self._make(name, level)
            try:
                load.start()
            except StudyError:
                self._held.pop(name).close()
                raise
            if isinstance(load, MemoryLoad):
                self.full_bps = load.full_bps
            return True
        if load is None or load.target == level:
            return False
        if level > 0:
            load.hold(level)
        else:
            self._held.pop(name).close()
        return True

    def _make(self, name: str, level: float) -> HeldLoad:
        if name == "memory_load":
            return MemoryLoad(level, self._scheduling, self.full_bps)
        if name == "cpu_load":
            return CpuLoad(level, self._read_cores, tool=self.tool, scheduling=self._scheduling)
        if self._meter.ratio() is None:
            raise StudyError(
                "gpu_load was asked for, but no GPU's utilisation can be read: install samepath[gpu] (nvidia-ml-py)"
            )
        return GpuLoad(level, self._scheduling, self._meter)

    def _settle(self) -> None:
        """Wait until all loads are near their levels twice in a row, or the time is up."""
        # A load that cannot reach its level must not hold up the study: after the limit repeats run, and the miss is marked.
        start_s, near = SYSTEM_CLOCK.monotonic_s(), 0
        while near < 2 and SYSTEM_CLOCK.monotonic_s() - start_s < self._settle_s:
            self.mark()
            SYSTEM_CLOCK.sleep_s(WINDOW_S)
            found = self.measured()
            errors = [abs(float(found.get(name, 0.0)) - load.target) for name, load in self._held.items()]
            near = near + 1 if max(errors) <= TOLERANCE else 0

    def check(self) -> None:
        """Raise StudyError if a load has ended by itself."""
        for load in self._held.values():
            load.check()

    def _read_cores(self) -> tuple[CoreTimes, ...]:
        self._readings.append((SYSTEM_CLOCK.monotonic_s(), read_core_times()))
        return self._readings[-1][1]

    def mark(self) -> None:
        """Begin to measure; call it when a repeat starts."""
        self._mark = SYSTEM_CLOCK.monotonic_s(), self._read_cores()
        for load in self._held.values():
            load.mark()

    def measured(self) -> dict[str, Scalar]:
        """Return what was there since :meth:`mark`: ``cpu_load`` always, the others where they are held or can be read.

        After less than half a second the CPU's is that of about the last half second.
        """
        self.check()
        cpu = self._cpu_ratio()
        if cpu is None:
            SYSTEM_CLOCK.sleep_s(0.02)  # nothing was counted yet: a moment later there is
            cpu = self._cpu_ratio()
        gpu, memory = self._held.get("gpu_load"), self._held.get("memory_load")
        found = {
            "cpu_load": cpu,
            "gpu_load": self._meter.ratio() if gpu is None else gpu.measured(),
            "memory_load": None if memory is None else memory.measured(),
        }
        return {name: round(value, 4) for name, value in found.items() if value is not None}

    def _cpu_ratio(self) -> float | None:
        readings, now = list(self._readings), self._read_cores()
        now_s = SYSTEM_CLOCK.monotonic_s()
        before = self._mark[1]
        if now_s - self._mark[0] < WINDOW_S:
            wider = [cores for at_s, cores in readings if WINDOW_S <= now_s - at_s <= OLDEST_S]
            before = wider[-1] if wider else before
        return busy_ratio(before, now)


def _level(name: str, value: Scalar) -> float:
    if isinstance(value, bool | str) or not 0 <= value <= 1:
        raise StudyError(f"{name}: a share from 0 to 1 was wanted, but {value!r} came: 0.75 is 75 %")
    return float(value)
