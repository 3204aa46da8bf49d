"""The loads of a machine, held together while repeats are measured: CPU, GPU and memory bandwidth.

The order matters. Memory comes first, because its full speed is measured before any other load runs; the CPU comes last,
because its controller counts in what the others use. A load that stays at its level from one cell to the next is left alone:
restarting it would give the first repeat of a cell another machine than the later ones. Before repeats begin the loads must
settle, for a repeat that starts on the rising edge is measured under another condition than the rest.
"""

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.instrument.conditions.cpu_load import TOLERANCE, CpuLoad, busy_ratio, chosen_tool
from samepath.instrument.conditions.gpu_load import GpuLoad
from samepath.instrument.conditions.memory_load import MemoryLoad
from samepath.instrument.conditions.worker_pool import SchedulingState
from samepath.instrument.host.gpu import GpuMeter
from samepath.instrument.host.sampler import CoreTimes, read_core_times

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
