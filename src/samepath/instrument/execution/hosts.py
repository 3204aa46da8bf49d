"""Who runs repeats: this machine, or the hosts of a cluster. A host is asked one thing at a time and answers when it is done.

A host knows nothing of plans, folders or progress: it is given :class:`Work` and gives back repeats, so that the same
:class:`LocalHost` serves a study on this machine and, inside an actor of Ray's, a study on many. With one repeat at a time the
host is idle between two of them: storing what came is never load on what is measured.
"""

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
from samepath.instrument.execution.job import (
    CommandsRecorded,
    ErrorReply,
    Job,
    Ready,
    RecordOnce,
    RepeatDone,
    RunForever,
    RunRepeat,
    WorkerReply,
)
from samepath.instrument.execution.workers import Launcher, Worker, WorkerLostError
from samepath.instrument.study.levels import PROCESS_CONDITIONS
from samepath.instrument.study.records import Isolation, Scalar
from samepath.instrument.traces.records import Repeat

THIS_MACHINE: Final = ""
"""The name of the machine that samepath itself runs on, where no cluster is used."""
# A background simulator has as long to start as the slowest interpreter on a busy machine.
_START_S: Final = 120.0


class HostLostError(Exception):
    """A host is gone, and what it was doing with it; the text says how that was noticed."""


@dataclass(frozen=True)
class Work:
    """The repeats of one cell and how they are to be run. ``isolation`` is what is really done."""

    job: Job
    isolation: Isolation = Isolation.PROCESS
    repeats_per_process: int = 1
    processes: int = 1
    watchdog_s: float = 60.0


def real_isolation(asked: Isolation, condition: dict[str, Scalar]) -> Isolation:
    """Return the isolation that a cell's conditions permit.

    What only a new interpreter can have starts one per repeat; what is set in a process is never set in samepath's own.
    """
    if needs_new_interpreter(condition):
        return Isolation.COLD
    if asked is Isolation.INLINE and any(name in condition for name in PROCESS_CONDITIONS):
        return Isolation.PROCESS
    return asked


@dataclass(frozen=True)
class RepeatFinished:
    """A finished repeat. ``seconds`` is what the simulator took, ``cost_s`` what it took to have it, its process included."""

    repeat: Repeat
    seconds: float
    cost_s: float


@dataclass(frozen=True)
class RepeatFailed:
    """A repeat that came to nothing: why in one line, and for the journal in as many as there are."""

    number: int
    reason: str
    detail: str = ""


RepeatResult = RepeatFinished | RepeatFailed


@dataclass(frozen=True)
class HoldConditions:
    """Bring the machine into the condition of ``work``. Answered with what is measured there."""

    work: Work


@dataclass(frozen=True)
class RecordCommands:
    """Run once with the controllers in the loop. Answered with their commands."""

    work: Work


@dataclass(frozen=True)
class StartRepeats:
    """Begin to run these repeats. Answered with the first that is finished or has failed."""

    work: Work
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class NextRepeat:
    """Go on with the repeats. Answered with the next that is finished or has failed, None where there is none left."""


@dataclass(frozen=True)
class StopRepeats:
    """Run no more of the repeats. Answered with None once their processes have ended."""


HostRequest = HoldConditions | RecordCommands | StartRepeats | NextRepeat | StopRepeats
HostReply = dict[str, Scalar] | CommandLog | RepeatResult | None


class Hosts(Protocol):
    """Those who run repeats."""

    @property
    def names(self) -> tuple[str, ...]:
        """Who can be asked; who was lost is not among them any more."""
        ...

    def permits(self, host: str, cell: str) -> bool:
        """Can this cell, by its name, be run there?"""
        ...

    def ask(self, host: str, request: HostRequest) -> None:
        """Ask a host that has answered all that it was asked before."""
        ...

    def wait(self) -> tuple[str, HostReply | Exception]:
        """Wait for the next reply and return whose it is; an error is what went wrong there."""
        ...


class LocalHost:
    """The machine this process runs on: holds loads, starts, watches and replaces workers, gives back repeats.

    It is also the only one of the :class:`Hosts` of a study that uses no cluster: a request is carried out when its reply is
    waited for, in this thread.
    """

    names: tuple[str, ...] = (THIS_MACHINE,)

    def __init__(self, load_tool: str = "auto", settle_s: float = 6.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self._load_tool, self._settle_s = load_tool, settle_s
        self._clock = clock
        self._launcher = Launcher(clock)
        self._instances = Instances(self._launcher)
        self._loads = MachineLoads(tool=load_tool, settle_s=settle_s)
        self._results: Generator[RepeatResult] | None = None
        self._request: HostRequest = StopRepeats()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Each of these has processes to end, whatever goes wrong with the others. Repeats and instances before the launcher: it
        # is the fork server that ends and reaps them.
        try:
            self._stop_repeats()
        finally:
            try:
                self._instances.close()
            finally:
                self._launcher.close()
                self._loads.close()

    def permits(self, host: str, cell: str) -> bool:
        """What this machine does not permit is left out before the study begins."""
        return True

    def ask(self, host: str, request: HostRequest) -> None:
        self._request = request

    def wait(self) -> tuple[str, HostReply | Exception]:
        try:
            return THIS_MACHINE, self.reply(self._request)
        # What can go wrong with a cell is a reply about that cell; anything else is ours, and ends the study.
        except (WorkerLostError, StudyError, SimulatorError) as error:
            return THIS_MACHINE, error

    def reply(self, request: HostRequest) -> HostReply:
        """Do what is asked, and raise what goes wrong."""
        match request:
            case HoldConditions(work):
                return self.hold(work)
            case RecordCommands(work):
                return self.record(work)
            case StartRepeats(work, numbers):
                self._results = self.run(work, numbers)
                return next(self._results, None)
            case NextRepeat():
                return None if self._results is None else next(self._results, None)
            case StopRepeats():
                self._stop_repeats()
                return None

    def hold(self, work: Work) -> dict[str, Scalar]:
        """Bring the machine into the condition that ``work`` asks for and return what is measured there."""
        # Instances before loads: the CPU's controller counts in what they take, and settles beside them.
        self._instances.hold(work.job, work.isolation)
        self._loads.hold(work.job.condition)
        return self._loads.measured()

    def record(self, work: Work) -> CommandLog:
        """Run once with the controllers in the loop, in a process like any other of this work, and return their commands."""
        reply: WorkerReply
        try:
            worker = self._launcher.start(work.job, work.isolation, 0, work.watchdog_s)
            try:
                self._wait_for_any([worker])
                reply = worker.receive()
                if isinstance(reply, Ready):
                    worker.send(RecordOnce())
                    self._wait_for_any([worker])
                    reply = worker.receive()
            finally:
                worker.end()
        except WorkerLostError as error:
            reply = ErrorReply(str(error))
        if not isinstance(reply, CommandsRecorded):
            reason = reply.reason if isinstance(reply, ErrorReply) else f"{reply} came"
            raise SimulatorError(f"recording the controllers' commands failed: {reason}")
        return reply.commands

    def run(self, work: Work, numbers: Sequence[int]) -> Generator[RepeatResult]:
        """Run repeats, ``work.processes`` at once, and yield each as soon as it is finished or has failed.

        Closing the generator ends its processes.
        """
        waiting, busy = deque(numbers), list[Worker]()
        # Inline there is one process, this one.
        at_once = 1 if work.isolation is Isolation.INLINE else work.processes
        try:
            while waiting or busy:
                while waiting and len(busy) < at_once:
                    number = waiting.popleft()
                    try:
                        busy.append(self._launcher.start(work.job, work.isolation, number, work.watchdog_s))
                    except WorkerLostError as error:
                        # A worker that cannot be started fails its repeat, not the others: a fork server that was killed is
                        # started anew for the next.
                        yield RepeatFailed(number, str(error))
                for worker in self._wait_for_any(busy):
                    result = self._take(worker, work)
                    if result is None:
                        continue
                    # After a failure nobody knows what state the process is in: the next repeat gets a new one.
                    last = isinstance(result, RepeatFailed) or not waiting or worker.position + 1 >= work.repeats_per_process
                    if last:
                        busy.remove(worker)
                        worker.end()
                    yield result  # while it is being stored, this worker runs nothing
                    if not last:
                        worker.move_on(waiting.popleft())
                        self._start_repeat(worker)
        finally:
            # No grace: nobody wants their results any more, and a simulator in the middle of a run would use all of it.
            for worker in busy:
                worker.end(0.0)

    def _stop_repeats(self) -> None:
        if self._results is not None:
            self._results.close()

    def _wait_for_any(self, busy: list[Worker]) -> list[Worker]:
        """Wait until a worker has a reply or has run out of time, and return those that have."""
        # An inline worker has done its work when it was asked: there is nothing to wait on.
        at_once = [worker for worker in busy if worker.waitable is None]
        if at_once:
            return at_once
        # Until the nearest deadline: a worker that hangs is found when its time is up, whether or not others reply.
        left_s = max(0.0, min((worker.deadline_s for worker in busy), default=0.0) - self._clock.monotonic_s())
        replied = wait([worker.waitable for worker in busy if worker.waitable is not None], left_s)
        now_s = self._clock.monotonic_s()
        return [worker for worker in busy if worker.waitable in replied or worker.deadline_s <= now_s]

    def _take(self, worker: Worker, work: Work) -> RepeatResult | None:
        """Take a worker's reply: None where it is not about a repeat yet."""
        try:
            match worker.receive():
                case Ready(measured):
                    # Kept until the repeat is done: conditions are read back when they are set, in the process itself.
                    worker.measured = measured
                    self._start_repeat(worker)
                    return None
                case RepeatDone(repeat, seconds):
                    # Read before anything else is done: what this process does with the repeat is no load that the repeat had.
                    host = replace(repeat.host, measured={**repeat.host.measured, **self._measured(worker, work)})
                    cost_s = self._clock.monotonic_s() - worker.begun_s
                    return RepeatFinished(replace(repeat, host=host), seconds, cost_s)
                case ErrorReply(reason, detail):
                    return RepeatFailed(worker.number, reason, detail)
                case CommandsRecorded():
                    return RepeatFailed(worker.number, "the worker recorded commands instead of running")
        except WorkerLostError as error:
            return RepeatFailed(worker.number, str(error))
        except StudyError as error:
            # A load has ended by itself: begin again with new ones, and count this repeat as not measured.
            self._loads.close()
            self._loads = MachineLoads(tool=self._load_tool, settle_s=self._settle_s)
            self._loads.hold(work.job.condition)
            return RepeatFailed(worker.number, str(error))

    def _start_repeat(self, worker: Worker) -> None:
        self._loads.mark()  # with several at once, what is measured begins with the last of them
        worker.send(RunRepeat(worker.number))

    def _measured(self, worker: Worker, work: Work) -> dict[str, Scalar]:
        asked = work.job.condition
        # What was really done, beside what was asked in the cell's header: isolation may be another (``real_isolation``), and
        # an instance may have died.
        found: dict[str, Scalar] = {**self._loads.measured(), **worker.measured}
        found |= {"isolation": work.isolation.value, "position": worker.position}
        if "instances" in asked:
            found["instances"] = self._instances.count()
        if "controller" in asked:
            found["controller"] = "in-loop" if work.job.commands is None else asked["controller"]
        return found


class Instances:
    """The condition ``instances``: keeps that many of the simulator running, all but the measured one in a loop, unseen."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._job: Job | None = None
        self._workers: list[Worker] = []

    def hold(self, job: Job, isolation: Isolation) -> None:
        """Have ``instances`` - 1 of ``job`` running; those of another job are ended, those that died are replaced."""
        wanted = int(job.condition.get("instances", 1)) - 1
        # Another job's instances would be another load: the condition is so many of *this* simulator.
        if job != self._job:
            self.close()
        self._job = job
        self._drop_dead()
        while len(self._workers) < wanted:
            # Never inline: the first of them would run for ever in this process.
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
        worker = self._launcher.start(job, isolation, watchdog_s=_START_S)
        connection = worker.waitable
        # Waited for: the condition is simulators that run beside the measured one, not interpreters that still import.
        ready = connection is None or connection.poll(_START_S)
        reply = worker.receive() if ready else ErrorReply(f"not ready in {_START_S:g} s")
        if not isinstance(reply, Ready):
            worker.end(0.0)
            raise WorkerLostError(f"another instance could not be started: {getattr(reply, 'reason', reply)}")
        worker.send(RunForever())
        return worker

    def _drop_dead(self) -> None:
        """Forget those that have something to say: a running one is silent."""
        for worker in [found for found in self._workers if found.waitable is not None and found.waitable.poll(0)]:
            self._workers.remove(worker)
            worker.end(0.0)
