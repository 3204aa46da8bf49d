"""Running repeats on this host: loads held, workers started, watched and replaced; finished repeats and failures come out.

Knows nothing of plans, folders or progress, so that it can do its work on another machine as well.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from types import TracebackType
from typing import Self

from samepath.base.clock import SYSTEM_CLOCK, Clock
from samepath.base.errors import SimulatorError, StudyError
from samepath.conditions.machine import MachineLoads
from samepath.conditions.process import needs_new_interpreter
from samepath.execution.instances import Instances
from samepath.execution.job import Answer, Done, Job, Order, Ready, Record, Recorded, Run, Trouble
from samepath.execution.processes import Launcher, Worker, WorkerLostError
from samepath.simulators.interface import CommandLog
from samepath.study.levels import PROCESS_CONDITIONS
from samepath.study.records import Isolation, Scalar
from samepath.traces.records import Repeat


@dataclass(frozen=True)
class Work:
    """The repeats of one cell and how they are to be run. ``isolation`` is what is really done."""

    job: Job
    isolation: Isolation = Isolation.PROCESS
    repeats_per_process: int = 1
    processes: int = 1
    watchdog_s: float = 60.0


@dataclass(frozen=True)
class Finished:
    """A finished repeat. ``seconds`` is what the simulator took, ``cost_s`` what it took to have it, its process included."""

    repeat: Repeat
    seconds: float
    cost_s: float


@dataclass(frozen=True)
class Failed:
    """A repeat that came to nothing: why in one line, and for the journal in as many as there are."""

    number: int
    reason: str
    detail: str = ""


Outcome = Finished | Failed


def real_isolation(asked: Isolation, condition: dict[str, Scalar]) -> Isolation:
    """Return the isolation that a cell's conditions permit.

    What only a new interpreter can have starts one per repeat; what is set in a process is never set in samepath's own.
    """
    if needs_new_interpreter(condition):
        return Isolation.COLD
    if asked is Isolation.INLINE and any(name in condition for name in PROCESS_CONDITIONS):
        return Isolation.PROCESS
    return asked


class HostRunner:
    """Runs repeats on this host, ``Work.processes`` at once."""

    def __init__(self, tool: str = "auto", settle_s: float = 6.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self._tool, self._settle_s = tool, settle_s
        self._launcher = Launcher()
        self._instances = Instances(self._launcher)
        self._loads = MachineLoads(tool=tool, settle_s=settle_s)
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._instances.close()
        finally:
            self._launcher.close()
            self._loads.close()

    def hold(self, work: Work) -> dict[str, Scalar]:
        """Bring the machine into the condition that ``work`` asks for and return what is measured there."""
        self._instances.hold(work.job, work.isolation)
        self._loads.hold(work.job.condition)
        return self._loads.measured()

    def _hold_anew(self, work: Work) -> None:
        """A load has ended by itself: begin again with new ones."""
        self._loads.close()
        self._loads = MachineLoads(tool=self._tool, settle_s=self._settle_s)
        self._loads.hold(work.job.condition)

    def record(self, work: Work) -> CommandLog:
        """Run once with the controllers in the loop, in a process like any other of this work, and return their commands."""
        try:
            seat = self._sit(work, 0)
            try:
                self._ready([seat])
                answer = seat.receive(work.watchdog_s)
                if isinstance(answer, Ready):
                    seat.give(Record(), work.watchdog_s)
                    self._ready([seat])
                    answer = seat.receive(work.watchdog_s)
            finally:
                seat.worker.end()
        except WorkerLostError as error:
            answer = Trouble(str(error))
        if not isinstance(answer, Recorded):
            reason = answer.reason if isinstance(answer, Trouble) else f"{answer} came"
            raise SimulatorError(f"recording the controllers' commands failed: {reason}")
        return answer.commands

    def run(self, work: Work, numbers: Sequence[int]) -> Generator[Outcome]:
        """Run repeats and yield each as soon as it is finished or has failed. Closing the generator ends its processes."""
        waiting, busy = deque(numbers), list[_Seat]()
        try:
            while waiting or busy:
                while waiting and len(busy) < (work.processes if work.isolation is not Isolation.INLINE else 1):
                    number = waiting.popleft()
                    try:
                        busy.append(self._sit(work, number))
                    except WorkerLostError as error:
                        yield Failed(number, str(error))
                for seat in self._ready(busy):
                    outcome = self._next(seat, work)
                    if outcome is None:
                        continue
                    last = isinstance(outcome, Failed) or not waiting or seat.position + 1 >= work.repeats_per_process
                    if last:
                        busy.remove(seat)
                        seat.worker.end()
                    yield outcome  # while it is being stored, this seat runs nothing
                    if not last:
                        seat.move_on(waiting.popleft())
                        self._go(seat, work)
        finally:
            for seat in busy:
                seat.worker.end(0.0)

    def _sit(self, work: Work, number: int) -> "_Seat":
        return _Seat(self._launcher.start(work.job, work.isolation), number, self._clock, work.watchdog_s)

    def _ready(self, busy: list["_Seat"]) -> list["_Seat"]:
        """Wait until a seat has an answer or has run out of time, and return those that have."""
        at_once = [seat for seat in busy if seat.worker.waitable is None]
        if at_once:
            return at_once
        left_s = max(0.0, min((seat.deadline_s for seat in busy), default=0.0) - self._clock.monotonic_s())
        answered = wait([seat.worker.waitable for seat in busy if seat.worker.waitable is not None], left_s)
        now_s = self._clock.monotonic_s()
        return [seat for seat in busy if seat.worker.waitable in answered or seat.deadline_s <= now_s]

    def _next(self, seat: "_Seat", work: Work) -> Outcome | None:
        """Take a seat's answer: None where it is not about a repeat yet."""
        try:
            match seat.receive(work.watchdog_s):
                case Ready(measured):
                    seat.measured = measured
                    self._go(seat, work)
                    return None
                case Done(repeat, seconds):
                    host = replace(repeat.host, measured=self._measured(seat, work))
                    cost_s = self._clock.monotonic_s() - seat.begun_s
                    return Finished(replace(repeat, host=host), seconds, cost_s)
                case Trouble(reason, detail):
                    return Failed(seat.number, reason, detail)
                case Recorded():
                    return Failed(seat.number, "the worker recorded commands instead of running")
        except WorkerLostError as error:
            return Failed(seat.number, str(error))
        except StudyError as error:
            self._hold_anew(work)
            return Failed(seat.number, str(error))

    def _go(self, seat: "_Seat", work: Work) -> None:
        self._loads.mark()  # with several at once, what is measured begins with the last of them
        seat.give(Run(seat.number), work.watchdog_s)

    def _measured(self, seat: "_Seat", work: Work) -> dict[str, Scalar]:
        asked = work.job.condition
        found: dict[str, Scalar] = {**self._loads.measured(), **seat.measured}
        found |= {"isolation": work.isolation.value, "position": seat.position}
        if "instances" in asked:
            found["instances"] = self._instances.count()
        if "controller" in asked:
            found["controller"] = "in-loop" if work.job.commands is None else "replayed"
        return found


class _Seat:
    """A worker at work: which repeat, the how-manieth of its process, and until when."""

    def __init__(self, worker: Worker, number: int, clock: Clock, watchdog_s: float) -> None:
        self.worker = worker
        self.number = number
        self.position = 0
        self.measured: dict[str, Scalar] = {}
        self._clock = clock
        self.begun_s = clock.monotonic_s()
        self.deadline_s = self.begun_s + watchdog_s

    def give(self, order: Order, watchdog_s: float) -> None:
        """Give an order and start the watch anew."""
        self.deadline_s = self._clock.monotonic_s() + watchdog_s
        self.worker.send(order)

    def move_on(self, number: int) -> None:
        """Turn to the next repeat in the same process."""
        self.number, self.position, self.begun_s = number, self.position + 1, self._clock.monotonic_s()

    def receive(self, watchdog_s: float) -> Answer:
        """Return the answer; where it is not there in time the worker is killed."""
        connection = self.worker.waitable
        if connection is not None and not connection.poll(0):
            self.worker.end(0.0)
            raise WorkerLostError(f"took longer than {watchdog_s:g} s and was stopped; execution.watchdog sets the limit")
        return self.worker.receive()
