"""Who runs repeats: this machine, or the hosts of a cluster. A host is asked one thing at a time, and answers when done."""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from types import TracebackType
from typing import Final, Protocol, Self

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import SimulatorError, StudyError
from samepath.engines.interface import CommandLog
from samepath.instrument.conditions.machine import MachineLoads
from samepath.instrument.conditions.process import needs_new_interpreter
from samepath.instrument.execution.job import Answer, Done, Job, Loop, Order, Ready, Record, Recorded, Run, Trouble
from samepath.instrument.execution.workers import Launcher, Worker, WorkerLostError
from samepath.instrument.study.levels import PROCESS_CONDITIONS
from samepath.instrument.study.records import Isolation, Scalar
from samepath.instrument.traces.records import Repeat

# Several of the simulator at once: all but the measured one run the same request in a loop, unseen.

# A background simulator has as long to start as the slowest interpreter on a busy machine.
START_S = 120.0


class Instances:
    """Keeps so many background simulators running as the condition ``instances`` asks for; they end with samepath."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._job: Job | None = None
        self._workers: list[Worker] = []

    def hold(self, job: Job, isolation: Isolation) -> None:
        """Have ``instances`` - 1 of ``job`` running; those of another job are ended, those that died are replaced."""
        wanted = int(job.condition.get("instances", 1)) - 1
        if job != self._job:
            self.close()
        self._job = job
        self._drop_dead()
        while len(self._workers) < wanted:
            self._workers.append(self._start(job, Isolation.COLD if isolation is Isolation.COLD else Isolation.PROCESS))

    def count(self) -> int:
        """Return how many simulators there are now, the measured one included."""
        self._drop_dead()
        return len(self._workers) + 1

    def close(self) -> None:
        """End them all."""
        workers, self._workers, self._job = self._workers, [], None
        for worker in workers:
            worker.end(0.0)

    def _start(self, job: Job, isolation: Isolation) -> Worker:
        worker = self._launcher.start(job, isolation)
        connection = worker.waitable
        answer = worker.receive() if connection is None or connection.poll(START_S) else Trouble(f"not ready in {START_S:g} s")
        if not isinstance(answer, Ready):
            worker.end(0.0)
            raise WorkerLostError(f"another instance could not be started: {getattr(answer, 'reason', answer)}")
        worker.send(Loop())
        return worker

    def _drop_dead(self) -> None:
        """Forget those that have something to say: a running one is silent."""
        for worker in [one for one in self._workers if one.waitable is not None and one.waitable.poll(0)]:
            self._workers.remove(worker)
            worker.end(0.0)


# Running repeats on this host: loads held, workers started, watched and replaced; finished repeats and failures come
# out.
#
# Knows nothing of plans, folders or progress, so that it can do its work on another machine as well.


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


THIS_MACHINE: Final = ""
"""The name of the machine that samepath itself runs on, where no cluster is used."""


class HostLostError(Exception):
    """A host is gone, and what it was doing with it; the text says how that was noticed."""


@dataclass(frozen=True)
class Hold:
    """Bring the machine into the condition of ``work``. Answered with what is measured there."""

    work: Work


@dataclass(frozen=True)
class RecordCommands:
    """Run once with the controllers in the loop. Answered with their commands."""

    work: Work


@dataclass(frozen=True)
class Begin:
    """Begin to run these repeats. Answered with the first that is finished or has failed."""

    work: Work
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class GoOn:
    """Go on with the repeats. Answered with the next that is finished or has failed, None where there is none left."""


@dataclass(frozen=True)
class LeaveOff:
    """Run no more of the repeats. Answered with None once their processes have ended."""


Question = Hold | RecordCommands | Begin | GoOn | LeaveOff
Reply = dict[str, Scalar] | CommandLog | Outcome | None


class Hosts(Protocol):
    """Those who run repeats."""

    @property
    def names(self) -> tuple[str, ...]:
        """Who can be asked; who was lost is not among them any more."""
        ...

    def permits(self, host: str, cell: str) -> bool:
        """Can this cell, by its name, be run there?"""
        ...

    def ask(self, host: str, question: Question) -> None:
        """Ask a host that has answered all that it was asked before."""
        ...

    def wait(self) -> tuple[str, Reply | Exception]:
        """Wait for the next reply and return whose it is; an error is what went wrong there."""
        ...


class Desk:
    """Answers questions with the runner of the machine it stands on."""

    def __init__(self, runner: HostRunner) -> None:
        self._runner = runner
        self._outcomes: Generator[Outcome] | None = None

    def answer(self, question: Question) -> Reply:
        """Do what is asked, and raise what goes wrong."""
        match question:
            case Hold(work):
                return self._runner.hold(work)
            case RecordCommands(work):
                return self._runner.record(work)
            case Begin(work, numbers):
                self._outcomes = self._runner.run(work, numbers)
                return next(self._outcomes, None)
            case GoOn():
                return None if self._outcomes is None else next(self._outcomes, None)
            case LeaveOff():
                self.leave_off()
                return None

    def leave_off(self) -> None:
        """End the processes of repeats that are running."""
        if self._outcomes is not None:
            self._outcomes.close()


class ThisMachine:
    """The one host of a study that uses no cluster: a question is answered when its reply is waited for."""

    names: tuple[str, ...] = (THIS_MACHINE,)

    def __init__(self, load_tool: str, settle_s: float) -> None:
        self._runner = HostRunner(load_tool, settle_s)
        self._desk = Desk(self._runner)
        self._question: Question = LeaveOff()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._desk.leave_off()
        finally:
            self._runner.__exit__(kind, error, trace)

    def permits(self, host: str, cell: str) -> bool:
        """What this machine does not permit is not begun at all."""
        return True

    def ask(self, host: str, question: Question) -> None:
        """Keep the question."""
        self._question = question

    def wait(self) -> tuple[str, Reply | Exception]:
        """Do what was asked."""
        try:
            return THIS_MACHINE, self._desk.answer(self._question)
        except (WorkerLostError, StudyError, SimulatorError) as error:
            return THIS_MACHINE, error
