"""CPU load of the whole machine, held at a target while a simulator is measured.

One worker per core is busy for a share of every 20 ms. Four times a second a control loop compares the utilisation of the
whole machine, from the kernel's counters, with the target and corrects the share by half of the error
(``worker_pool.corrected``). So what the simulator uses itself is counted in, as in the paper: at 95 % load 5 % of the machine's
time is left, whoever took the rest. Without the feedback the load would depend on how much the simulator takes, which is what
differs between simulators.

``stress-ng`` cannot be told another load while it runs. Where it is used it makes the bulk of the load, a little below what is
needed, and our workers the rest, which can be corrected in both directions. It is started anew only when the rest has left its
range for some steps in a row: each start is a gap of about a hundredth of a second, and must not come with every burst of the
simulator.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.instrument.conditions.worker_pool import (
    ControlLoop,
    SchedulingState,
    WorkerPool,
    corrected,
    end,
    last_words,
    launch,
)
from samepath.instrument.host.sampler import CoreTimes, read_core_times

STRESS_NG: Final = "stress-ng"
INSTALL_STRESS_NG: Final = "install it (apt-get install stress-ng, dnf install stress-ng) or leave load_tool at auto"


def has_stress_ng() -> bool:
    """Say whether stress-ng is there."""
    return shutil.which(STRESS_NG) is not None


class StressNg:
    """One ``stress-ng --cpu`` with a worker per core, at ``percent`` of each; 0 is none at all.

    It ends with the thread that set it, and its own children end with it.
    """

    def __init__(self, scheduling: SchedulingState) -> None:
        self.percent = 0
        self._scheduling = scheduling
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the load
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return None if self._process is None else self._process.pid

    def run_at(self, percent: int) -> None:
        """End the one that runs and start another; the gap is about a hundredth of a second."""
        before, self._process, self.percent = self._process, None, percent
        if percent > 0:
            cores = str(len(self._scheduling.cores))
            argv = [STRESS_NG, "--cpu", cores, "--cpu-load", str(percent), "--timeout", "0", "--quiet", "--oomable"]
            self._process = launch("command", self._scheduling, self._errors, argv=argv)
        if before is not None:
            end(before)

    def check(self) -> None:
        """Raise StudyError if it is gone."""
        if self._process is not None and self._process.poll() is not None:
            raise StudyError(f"{STRESS_NG} ended: {last_words(self._errors, self._process.returncode)}")

    def close(self) -> None:
        """End it."""
        self.run_at(0)
        self._errors.close()


CONTROL_S: Final = 0.25
"""The kernel counts in hundredths of a second per core: over 0.25 s a reading is good to 4 points a core, less over many."""
GAIN: Final = 0.5
"""See ``worker_pool.corrected``."""
TOLERANCE: Final = 0.05
"""So near counts as settled; a cell that misses its target by more is marked in the report (``analysis.conditions``)."""
REST: Final = 0.08
"""What our workers should be left to do beside stress-ng: enough to correct downwards, little enough to be the rest."""
REST_LEAST, REST_MOST = 0.02, 0.2
PATIENCE: Final = 3
"""Steps in a row that the rest must be outside its range before stress-ng is started anew."""
BULK_LEAST: Final = 0.05
"""Below this share stress-ng is not worth a process: our workers make all of the load."""

CoreReader = Callable[[], tuple[CoreTimes, ...]]


class CpuLoad:
    """Holds the machine at ``target`` (0..1) of its CPU time. ``measured`` is what it really was since :meth:`mark`.

    ``tool`` is auto, stress-ng or samepath; auto takes stress-ng where it is installed. Utilisation is that of all cores the
    kernel counts; workers only use the cores of their ``scheduling``, so that in a limited container a target may not be
    reached.
    """

    def __init__(
        self,
        target: float,
        read_cores: CoreReader = read_core_times,
        *,
        tool: str = "auto",
        scheduling: SchedulingState | None = None,
    ) -> None:
        self.target = _checked(target)
        self.tool = chosen_tool(tool)
        self._read_cores = read_cores
        self._scheduling = scheduling or SchedulingState.of_this_process()
        self._workers: WorkerPool | None = None
        self._stress: StressNg | None = None
        self._loop = ControlLoop(CONTROL_S, self._begin, self._step, self._end)
        # The first guess: right on an idle machine, and too high by what the simulator takes, which the loop takes off again.
        self._demand = target
        self._strained = 0
        self._mark = self._before = read_cores()

    def __enter__(self) -> Self:
        # A level of 0 is the machine as it is: not even idle workers, or a loop that wakes up four times a second.
        if self.target > 0:
            self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        self._loop.start()

    def close(self) -> None:
        self._loop.close()

    def hold(self, target: float) -> None:
        # Moved by as much as the target: what the simulator itself takes is already in the old demand, and stays in it.
        self._demand = min(1.0, max(0.0, self._demand + target - self.target))
        self.target = _checked(target)

    @property
    def pids(self) -> tuple[int, ...]:
        bulk = self._stress.pid if self._stress is not None else None
        return (*(self._workers.pids if self._workers is not None else ()), *(() if bulk is None else (bulk,)))

    def check(self) -> None:
        self._loop.check()

    def _begin(self) -> None:
        # In the loop's own thread, because workers end with the thread that started them.
        self._workers = WorkerPool("CPU", len(self._scheduling.cores), self._scheduling)
        if self.tool == STRESS_NG:
            self._stress = StressNg(self._scheduling)
            self._stress.run_at(_percent(bulk_of(self._demand)))
        # Only now: starting interpreters keeps cores busy too, and must not be taken for load that has to be corrected.
        self._before = self._read_cores()
        self._share_out()

    def _step(self) -> None:
        if self._workers is None:
            return
        # Before the reading: a worker that died looks like too little load, and the others would be driven up in its place.
        self._workers.check()
        if self._stress is not None:
            self._stress.check()
        now = self._read_cores()
        measured = busy_ratio(self._before, now)
        if measured is None:
            # The counters have not moved: wait with the old reading, so that the next one covers both steps.
            return
        self._before = now
        self._demand = corrected(self._demand, self.target, measured, GAIN)
        self._share_out()

    def _share_out(self) -> None:
        if self._workers is None:
            return
        # What stress-ng really runs at, in whole percents: our workers make up for the rounding.
        bulk = 0.0 if self._stress is None else self._stress.percent / 100
        if self._stress is not None:
            # Our workers follow the demand at once; stress-ng only where it has moved for good, not for a burst.
            self._strained = 0 if suits(self._demand, bulk) else self._strained + 1
            if self._strained >= PATIENCE:
                self._strained, bulk = 0, bulk_of(self._demand)
                self._stress.run_at(_percent(bulk))
        # Workers can add and not take away: while stress-ng alone is above the demand they rest, until it is started anew.
        self._workers.share = max(0.0, self._demand - bulk)

    def _end(self) -> None:
        if self._stress is not None:
            self._stress.close()
        if self._workers is not None:
            self._workers.close()
        self._stress = self._workers = None

    def settle(self, longest_s: float = 6.0) -> float:
        """Wait until the load is near its target for a second, or the time is up; mark, and return what was measured last."""
        measured = 0.0
        near = 0
        start_s = SYSTEM_CLOCK.monotonic_s()
        # Twice in a row: a single reading may pass through the target on its way elsewhere.
        while self.target > 0 and near < 2 and SYSTEM_CLOCK.monotonic_s() - start_s < longest_s:
            # Readings of its own, twice as long as a step of the loop: good to 2 points a core, well within ``TOLERANCE``.
            before = self._read_cores()
            SYSTEM_CLOCK.sleep_s(0.5)
            # A load that has ended would never settle: its reason is raised now, not found as a missed target later.
            self.check()
            measured = busy_ratio(before, self._read_cores()) or 0.0
            near = near + 1 if abs(measured - self.target) <= TOLERANCE else 0
        self.mark()
        return measured

    def mark(self) -> None:
        self._mark = self._read_cores()

    def measured(self) -> float | None:
        """Return the utilisation of the whole machine since :meth:`mark`."""
        return busy_ratio(self._mark, self._read_cores())


def _checked(target: float) -> float:
    if not 0 <= target <= 1:
        raise StudyError(f"a CPU load between 0 and 1 was wanted, but {target:g} came: 0.95 is 95 %")
    return target


def chosen_tool(tool: str) -> str:
    """Return what makes the load: stress-ng or samepath."""
    if tool == "auto":
        return STRESS_NG if has_stress_ng() else "samepath"
    if tool == STRESS_NG and not has_stress_ng():
        raise StudyError(f"load_tool {tool} was asked for, but it is not installed: {INSTALL_STRESS_NG}")
    return tool


def busy_ratio(before: tuple[CoreTimes, ...], now: tuple[CoreTimes, ...]) -> float | None:
    """Return the busy share of all cores between two readings; None if the counters have not moved or cores came or went."""
    if len(before) != len(now):
        return None
    # Seconds of all cores are added before they are divided: a core whose counters stood still must not weigh as much as the
    # others.
    busy_s = sum(b.busy_s - a.busy_s for a, b in zip(before, now, strict=True))
    idle_s = sum(b.idle_s - a.idle_s for a, b in zip(before, now, strict=True))
    return None if busy_s + idle_s <= 1e-6 else min(1.0, max(0.0, busy_s / (busy_s + idle_s)))


def suits(demand: float, bulk: float) -> bool:
    """Say whether stress-ng at ``bulk`` leaves our workers a rest they can correct in both directions."""
    if bulk == 0:
        # Higher than where ``bulk_of`` begins with stress-ng: a demand that moves about that edge must not start and end it
        # again and again.
        return demand <= BULK_LEAST + REST_MOST
    return REST_LEAST <= demand - bulk <= REST_MOST


def bulk_of(demand: float) -> float:
    """Return the part of a demand that stress-ng should make; none where it would hardly matter."""
    bulk = demand - REST
    return bulk if bulk >= BULK_LEAST else 0.0


def _percent(bulk: float) -> int:
    return round(100 * bulk)
