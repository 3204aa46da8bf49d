"""Worker processes that make load: started, told how much, watched, and ended with the process that owns them.

The owner's side; ``worker`` is what runs in each process. What holds, and why:

- **No worker outlives its owner**, even one killed by SIGKILL: a forgotten load would silently spoil every later measurement on
  the machine. The kernel ends a worker with the *thread* that started it (PR_SET_PDEATHSIG), so a :class:`ControlLoop` starts
  its workers in the thread that also steers them; and each worker looks for its parent once per period, for the case that the
  parent died before the kernel was told.
- **Telling a worker its share cannot block.** Owner and workers share a page of memory (:class:`SharedNumbers`). Each slot is
  an aligned 8-byte number with a single writer, so no lock is needed: a reader sees the old number or the new one, and a
  stopped worker cannot hold up the owner, as it could with a full pipe.
- **Workers run as the study ran at its start**, not as the simulator does (:class:`SchedulingState`): a child inherits cores,
  nice level and scheduler class, and a condition such as ``cores: one`` must move the simulator, not the load.
"""

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Final, Self

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError

SHARE: Final = 0
"""The slot with the share of its time that every worker should be busy."""
START_LIMIT_S: Final = 120.0
"""Importing PyTorch and opening a GPU takes seconds, on a loaded machine tens of them. Beyond this nothing will come."""


def ready_at(worker: int) -> int:
    """Return the slot in which a worker says that it is ready: 0 is «not yet»."""
    return 1 + 2 * worker


def done_at(worker: int) -> int:
    """Return the slot in which a worker counts what it has done."""
    return 2 + 2 * worker


class SharedNumbers:
    """Numbers that processes share through memory; each slot has one writer. Without ``handle`` a new page is made."""

    def __init__(self, workers: int, handle: int | None = None) -> None:
        # A memfd has no name in any file system: nothing to clean up after a kill.
        size = 8 * (1 + 2 * workers)
        self.handle = os.memfd_create("samepath-load") if handle is None else handle
        if handle is None:
            os.ftruncate(self.handle, size)
        self._memory = mmap.mmap(self.handle, size)
        self._numbers = memoryview(self._memory).cast("d")

    def __getitem__(self, slot: int) -> float:
        return self._numbers[slot]

    def __setitem__(self, slot: int, value: float) -> None:
        self._numbers[slot] = value

    def close(self) -> None:
        """Give the memory back."""
        self._numbers.release()
        self._memory.close()
        os.close(self.handle)


@dataclass(frozen=True)
class SchedulingState:
    """Cores, nice level and scheduler class of a process: what load workers get, whatever is set for the simulator."""

    cores: tuple[int, ...]
    nice: int
    policy: int

    @classmethod
    def of_this_process(cls) -> Self:
        """Read them, to be done before conditions are set."""
        policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        return cls(tuple(sorted(os.sched_getaffinity(0))), os.getpriority(os.PRIO_PROCESS, 0), policy)

    def apply(self) -> None:
        """Give them to this process; raises OSError where the kernel refuses."""
        os.sched_setaffinity(0, self.cores)
        if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != self.policy:
            os.sched_setscheduler(0, self.policy, os.sched_param(os.sched_get_priority_min(self.policy)))
        if os.getpriority(os.PRIO_PROCESS, 0) != self.nice:
            os.setpriority(os.PRIO_PROCESS, 0, self.nice)


def launch(
    kind: str, scheduling: SchedulingState, errors: IO[bytes], shared: SharedNumbers | None = None, **settings: object
) -> subprocess.Popen[bytes]:
    """Start a process that ends with the calling thread; ``kind`` names a row of ``worker.KINDS``.

    It has a process group of its own: Ctrl-C is not for it, and whatever it starts can be ended with it.
    """
    task = json.dumps({"kind": kind, "parent": os.getpid(), "scheduling": asdict(scheduling), "settings": settings})
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", "samepath.instrument.conditions.worker", task],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=() if shared is None else (shared.handle,),
        process_group=0,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a launched process and all it started, and wait for it."""
    if process.poll() is None:
        # The group first: stress-ng has children of its own. SIGKILL, because a worker has nothing to put in order.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


class WorkerPool:
    """``count`` workers of one kind. All are busy for the same share of their time."""

    def __init__(
        self, kind: str, count: int, scheduling: SchedulingState, settings: Mapping[str, object] | None = None
    ) -> None:
        self._kind = kind
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the pool
        self._shared = SharedNumbers(count)
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for index in range(count):
                own = {**(settings or {}), "index": index, "workers": count, "handle": self._shared.handle}
                self._processes.append(launch(kind, scheduling, self._errors, self._shared, **own))
            self._await(lambda: all(self._shared[ready_at(index)] for index in range(count)))
        except BaseException:  # an interrupt too: half a pool would go on loading the machine
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes."""
        return tuple(process.pid for process in self._processes)

    @property
    def share(self) -> float:
        """The share of its time that each worker should be busy, 0..1."""
        return self._shared[SHARE]

    @share.setter
    def share(self, value: float) -> None:
        self._shared[SHARE] = value

    @property
    def done(self) -> float:
        """What all workers have done since their start, in the unit of their kind."""
        return sum(self._shared[done_at(index)] for index in range(len(self._processes)))

    @property
    def first_answer(self) -> int:
        """What the first worker said when it was ready, counted from 1: which of its back ends a GPU worker took."""
        return int(self._shared[ready_at(0)])

    def _await(self, condition: Callable[[], bool]) -> None:
        # Polled, because a worker that dies must be noticed as well; 5 ms are nothing beside the start of an interpreter.
        start_s = SYSTEM_CLOCK.monotonic_s()
        while not condition():
            self.check()
            if SYSTEM_CLOCK.monotonic_s() - start_s > START_LIMIT_S:
                raise StudyError(
                    f"the {self._kind} load did not start within {START_LIMIT_S:g} s: the machine may be overloaded"
                )
            SYSTEM_CLOCK.sleep_s(0.005)

    def check(self) -> None:
        """Raise StudyError if a worker is gone."""
        for process in self._processes:
            if process.poll() is not None:
                raise StudyError(f"a worker of the {self._kind} load ended: {last_words(self._errors, process.returncode)}")

    def close(self) -> None:
        """End all workers."""
        # Workers before the page they write to.
        for process in self._processes:
            end(process)
        self._shared.close()
        self._errors.close()


def last_words(errors: IO[bytes], status: int) -> str:
    """Return the last line that a process left on stderr, or how it ended."""
    errors.seek(0)
    lines: Sequence[str] = errors.read().decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    # The last line: what Python and stress-ng end with is the reason.
    return said[-1] if said else f"it was killed by signal {-status}" if status < 0 else f"exit status {status}"


def corrected(share: float, target: float, measured: float, gain: float) -> float:
    """Return the next share of a worker's time: moved against the error, never below 0 or above 1.

    An integrating controller: the share itself is the sum of all corrections, so that a constant neighbour (the simulator)
    leaves no lasting error. Measured load moves at most one for one with the share, so a gain of 0.5 takes at most half of the
    error away with every step and cannot overshoot, while a gain of 1 would ring as soon as a reading is late by a step.
    Clamping the sum itself keeps it from winding up while a target cannot be reached: it is back at once when it can.
    """
    return min(1.0, max(0.0, share + gain * (target - measured)))


class ControlLoop:
    """Runs ``begin`` once, ``step`` every ``period_s`` and ``end`` at last, all in one thread of its own.

    The thread starts the workers because the kernel ends them with the thread that started them: they live exactly as long as
    they are steered. What goes wrong in a step ends the loop and is raised by the next :meth:`check`.
    """

    def __init__(self, period_s: float, begin: Callable[[], None], step: Callable[[], None], end: Callable[[], None]) -> None:
        self._period_s = period_s
        self._begin, self._step, self._end = begin, step, end
        self._begun = threading.Event()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="samepath-load-control", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until ``begin`` is done; raises what it raised."""
        self._thread.start()
        self._begun.wait()
        self.check()

    def _run(self) -> None:
        try:
            self._begin()
            self._begun.set()
            while not self._stop.wait(self._period_s):
                self._step()
        except Exception as error:  # handed to whoever asks next
            self._error = error
        finally:
            # Before the waiting ``start`` is let go: whoever sees the error finds nothing left running.
            self._end()
            self._begun.set()

    def check(self) -> None:
        """Raise what ended the loop, if something did."""
        if self._error is not None:
            raise self._error if isinstance(self._error, StudyError) else StudyError(f"a load ended: {self._error}")

    def close(self) -> None:
        """Stop the loop and wait until ``end`` is done."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()


class PooledLoad(ABC):
    """A load that one pool of workers makes, held at ``target`` by a loop of its own, as those of memory and GPU are."""

    def __init__(self, target: float, period_s: float) -> None:
        self.target = target
        self._workers: WorkerPool | None = None
        self._loop = ControlLoop(period_s, self._begin, self._step, self._end)

    def start(self) -> None:
        self._loop.start()

    def close(self) -> None:
        self._loop.close()

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._workers is None else self._workers.pids

    def hold(self, target: float) -> None:
        # Moved by as much as the target: what the simulator itself takes is already in the old share, and stays in it.
        if self._workers is not None:
            self._workers.share = min(1.0, max(0.0, self._workers.share + target - self.target))
        self.target = target

    def check(self) -> None:
        self._loop.check()

    @abstractmethod
    def _begin(self) -> None:
        """Start the workers, in the loop's thread."""

    @abstractmethod
    def _step(self) -> None:
        """Correct their share by what is measured."""

    def _end(self) -> None:
        if self._workers is not None:
            self._workers.close()
        self._workers = None
