"""Worker processes that make load: started, told how much, watched, and ended with the process that owns them."""

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Final, Self

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError

SHARE: Final = 0
"""Place on a board of the share of its time that every worker should be busy."""
START_LIMIT_S: Final = 120.0


def ready_at(worker: int) -> int:
    """Return the place where a worker says that it is ready: 0 is «not yet»."""
    return 1 + 2 * worker


def done_at(worker: int) -> int:
    """Return the place where a worker counts what it has done."""
    return 2 + 2 * worker


class SharedNumbers:
    """Numbers that processes share through memory; each place has one writer. Without ``handle`` a new one is made."""

    def __init__(self, workers: int, handle: int | None = None) -> None:
        size = 8 * (1 + 2 * workers)
        self.handle = os.memfd_create("samepath-load") if handle is None else handle
        if handle is None:
            os.ftruncate(self.handle, size)
        self._memory = mmap.mmap(self.handle, size)
        self._numbers = memoryview(self._memory).cast("d")

    def __getitem__(self, place: int) -> float:
        return self._numbers[place]

    def __setitem__(self, place: int, value: float) -> None:
        self._numbers[place] = value

    def close(self) -> None:
        """Give the memory back."""
        self._numbers.release()
        self._memory.close()
        os.close(self.handle)


@dataclass(frozen=True)
class SchedulingState:
    """What workers stand on: the cores, nice level and scheduler class that this process had before conditions were set."""

    cores: tuple[int, ...]
    nice: int
    policy: int

    @classmethod
    def here(cls) -> Self:
        """Return that of this process."""
        policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        return cls(tuple(sorted(os.sched_getaffinity(0))), os.getpriority(os.PRIO_PROCESS, 0), policy)

    def take(self) -> None:
        """Put this process on it; raises OSError where the kernel refuses."""
        os.sched_setaffinity(0, self.cores)
        if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != self.policy:
            os.sched_setscheduler(0, self.policy, os.sched_param(os.sched_get_priority_min(self.policy)))
        if os.getpriority(os.PRIO_PROCESS, 0) != self.nice:
            os.setpriority(os.PRIO_PROCESS, 0, self.nice)


def launch(
    kind: str, footing: SchedulingState, errors: IO[bytes], board: SharedNumbers | None = None, **settings: object
) -> subprocess.Popen[bytes]:
    """Start a process that ends with the calling thread; ``kind`` names a row of ``worker.KINDS``.

    It has a process group of its own: Ctrl-C is not for it, and whatever it starts can be ended with it.
    """
    orders = json.dumps({"kind": kind, "parent": os.getpid(), "footing": asdict(footing), "settings": settings})
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", "samepath.instrument.conditions.worker", orders],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=() if board is None else (board.handle,),
        process_group=0,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a launched process and all it started, and wait for it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


class WorkerPool:
    """``count`` workers of one kind. All are busy for the same share of their time."""

    def __init__(self, kind: str, count: int, footing: SchedulingState, settings: Mapping[str, object] | None = None) -> None:
        self._kind = kind
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the crew
        self._board = SharedNumbers(count)
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for index in range(count):
                orders = {**(settings or {}), "index": index, "workers": count, "handle": self._board.handle}
                self._processes.append(launch(kind, footing, self._errors, self._board, **orders))
            self._await(lambda: all(self._board[ready_at(index)] for index in range(count)))
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes."""
        return tuple(process.pid for process in self._processes)

    @property
    def share(self) -> float:
        """The share of its time that each worker should be busy, 0..1."""
        return self._board[SHARE]

    @share.setter
    def share(self, value: float) -> None:
        self._board[SHARE] = value

    @property
    def done(self) -> float:
        """What all workers have done since their start, in the unit of their kind."""
        return sum(self._board[done_at(index)] for index in range(len(self._processes)))

    @property
    def answer(self) -> int:
        """What the first worker said when it was ready, counted from 1."""
        return int(self._board[ready_at(0)])

    def _await(self, condition: Callable[[], bool]) -> None:
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
        for process in self._processes:
            end(process)
        self._board.close()
        self._errors.close()


def last_words(errors: IO[bytes], status: int) -> str:
    """Return the last line that a process left on stderr, or how it ended."""
    errors.seek(0)
    lines: Sequence[str] = errors.read().decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else f"it was killed by signal {-status}" if status < 0 else f"exit status {status}"


# A control loop: a thread that owns its workers and steers them, and the law by which it does.


def corrected(share: float, target: float, measured: float, gain: float) -> float:
    """Return the next share of a worker's time: moved against the error, never below 0 or above 1."""
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
