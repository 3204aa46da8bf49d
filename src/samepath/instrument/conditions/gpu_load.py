"""GPU utilisation, held at a target: a worker launches kernels for a share of every period, steered by what NVML reads.

The reading is late: NVML averages over up to a second. A controller that corrected faster than that would act on its own last
correction as if it had not happened, and swing. So readings are taken every 0.2 s, a correction is made every fifth one, and
only the newer readings of those five count: the older ones still show the share before.
"""

import ctypes
import importlib.util
from collections import deque
from collections.abc import Callable
from typing import Final

from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.conditions.worker_pool import PooledLoad, SchedulingState, WorkerPool, corrected
from samepath.instrument.host.gpu import GpuMeter

SAMPLE_S: Final = 0.2
MOST_SAMPLES: Final = 10_000
"""Half an hour of readings; what is measured of a longer repeat is its last half hour."""
STEPS_PER_CORRECTION: Final = 5
GAIN: Final = 0.5
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
    """Holds the busiest GPU at ``target`` (0..1) of its time, by work on the first one.

    To start may take seconds where a large library is imported.
    """

    def __init__(
        self, target: float, scheduling: SchedulingState, meter: GpuMeter, backends: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(target, SAMPLE_S)
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
            self._workers.share = corrected(self._workers.share, self.target, sum(fresh) / len(fresh), GAIN)
            self._recent = []

    def mark(self) -> None:
        self._mark_s = SYSTEM_CLOCK.monotonic_s()

    def measured(self) -> float | None:
        """Return the mean utilisation since :meth:`mark`; after less time than NVML's window takes, that window's."""
        window = [ratio for at_s, ratio in list(self._samples) if at_s >= self._mark_s]
        return sum(window) / len(window) if window else self._meter.ratio()
