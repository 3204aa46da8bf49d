"""Who runs repeats: this machine, or the hosts of a cluster. A host is asked one thing at a time, and answers when done."""

from collections.abc import Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from samepath.base.errors import SimulatorError, StudyError
from samepath.execution.processes import WorkerLostError
from samepath.execution.runner import HostRunner, Outcome, Work
from samepath.simulators.interface import CommandLog
from samepath.study.records import Scalar

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
