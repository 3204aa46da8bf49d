"""CPU load of the whole machine, held at a target while a simulator is measured.

One worker per core burns a share of every 20 ms; a controller thread compares the machine's measured utilisation with the
target and corrects the share, so that what the simulator itself uses is counted in. Workers end with their parent, however
it ends.
"""

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import StudyError
from samepath.conditions.sampler import CoreTimes, read_core_times

PERIOD_S: Final = 0.02
CONTROL_S: Final = 0.25
GAIN: Final = 0.5
TOLERANCE: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1


class CpuLoad:
    """Holds the machine at ``target`` (0..1) of its CPU time. ``measured`` is what it really was since :meth:`settle`."""

    def __init__(self, target: float, read_cores: Callable[[], tuple[CoreTimes, ...]] = read_core_times) -> None:
        if not 0 <= target <= 1:
            raise StudyError(f"a CPU load between 0 and 1 was wanted, but {target:g} came: 0.95 is 95 %")
        self.target = target
        self._read_cores = read_cores
        self._stop = threading.Event()
        self._workers: list[Any] = []
        self._thread: threading.Thread | None = None
        self._mark = read_cores()

    def __enter__(self) -> Self:
        if self.target > 0:
            context = multiprocessing.get_context("spawn")
            self._share = context.Value("d", self.target)
            for _ in range(len(os.sched_getaffinity(0))):
                worker = context.Process(target=burn, args=(self._share, os.getpid()), daemon=True)
                worker.start()
                self._workers.append(worker)
            self._thread = threading.Thread(target=self._control, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for worker in self._workers:
            worker.kill()
            worker.join()

    def _control(self) -> None:
        before = self._read_cores()
        while not self._stop.wait(CONTROL_S):
            now = self._read_cores()
            measured = busy_ratio(before, now)
            if measured is not None:
                before = now
                self._share.value = corrected(self._share.value, self.target, measured)

    def settle(self, longest_s: float = 6.0) -> float:
        """Wait until the load is near its target for a second, or the time is up; return what was measured last."""
        measured = 0.0
        near = 0
        start = SYSTEM_CLOCK.monotonic_s()
        while self.target > 0 and near < 2 and SYSTEM_CLOCK.monotonic_s() - start < longest_s:
            before = self._read_cores()
            self._stop.wait(0.5)
            measured = busy_ratio(before, self._read_cores()) or 0.0
            near = near + 1 if abs(measured - self.target) <= TOLERANCE else 0
        self._mark = self._read_cores()
        return measured

    def measured(self) -> float | None:
        """Return the utilisation of the whole machine since :meth:`settle`."""
        return busy_ratio(self._mark, self._read_cores())


def busy_ratio(before: tuple[CoreTimes, ...], now: tuple[CoreTimes, ...]) -> float | None:
    """Return the busy share of all cores between two readings; None if the counters have not moved."""
    busy = sum(b.busy_s - a.busy_s for a, b in zip(before, now, strict=True))
    idle = sum(b.idle_s - a.idle_s for a, b in zip(before, now, strict=True))
    return None if busy + idle <= 0 else busy / (busy + idle)


def corrected(share: float, target: float, measured: float) -> float:
    """Return the next share of a worker's time: moved against the error, never below 0 or above 1."""
    return min(1.0, max(0.0, share + GAIN * (target - measured)))


def burn(share: Any, parent: int) -> None:  # noqa: ANN401 - a shared number
    """Be busy for a share of every period; end as soon as the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    idle = threading.Event()
    while os.getppid() == parent:
        start = SYSTEM_CLOCK.monotonic_s()
        end = start + share.value * PERIOD_S
        while SYSTEM_CLOCK.monotonic_s() < end:
            pass
        rest = start + PERIOD_S - SYSTEM_CLOCK.monotonic_s()
        if rest > 0:
            idle.wait(rest)
