"""What runs on every host of a Ray cluster: a process of Ray's that answers questions, and what it must first put right.

Ray starts its processes at a lower priority and with variables of its own, the number of threads among them. A measured repeat
is to find its host as Ray itself was started there: priority, environment and module path are put back before anything is run.
"""

import pickle
import sys
from dataclasses import dataclass, replace

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import StudyError
from samepath.base.ray_worker import undo_environment, undo_priority
from samepath.conditions.applicable import missing_tool
from samepath.conditions.provenance import collect_provenance
from samepath.execution.check import not_applicable, simulators_of
from samepath.execution.hosts import Begin, Desk, Hold, Question, RecordCommands, Reply
from samepath.execution.job import Trouble
from samepath.execution.processes import WorkerLostError
from samepath.execution.rehearsal import Rehearsal, rehearse
from samepath.execution.runner import Finished, HostRunner, Work
from samepath.execution.worker import trouble
from samepath.study.records import Plan, PlannedCell, Scalar


@dataclass(frozen=True)
class Survey:
    """What a host says of itself before the first run.

    ``not_applicable`` has the cells that it does not permit, by name, and why; ``simulators`` those that the study uses, by
    name, each with its version; ``load_tool`` why the one asked for is not there.
    """

    provenance: dict[str, object]
    not_applicable: dict[str, str]
    simulators: dict[str, str]
    load_tool: str | None


class HostActor:
    """One host. All its methods answer with a pickled record; one that goes wrong answers with :class:`Trouble`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._desk: Desk

    def survey(self, plan: Plan) -> bytes:
        """Put the process right and look at the host."""
        try:
            put_right()
            self._desk = Desk(HostRunner(plan.execution.load_tool, plan.execution.settle_s))
            return pickle.dumps(
                Survey(
                    provenance=collect_provenance([], plan.seed).as_dict(),
                    not_applicable=not_applicable(plan),
                    simulators={name: info.version for name, info in simulators_of(plan).items()},
                    load_tool=missing_tool(plan.execution.load_tool),
                )
            )
        except Exception as error:  # whatever it is, it is told where samepath runs
            return pickle.dumps(trouble(error))

    def rehearse(self, plan: Plan, cell: PlannedCell) -> bytes:
        """Try what a cell runs, once."""
        answer: Rehearsal | Trouble
        try:
            (answer,) = rehearse(plan, [cell], ())
        except Exception as error:
            answer = trouble(error)
        return pickle.dumps(answer)

    def answer(self, question: Question) -> bytes:
        """Answer a question as :class:`Desk` does."""
        answer: Reply | Trouble
        try:
            answer = self._desk.answer(self._here(question))
            if isinstance(answer, Finished):
                answer = self._signed(answer)
        except WorkerLostError as error:
            answer = Trouble(str(error))
        except Exception as error:
            answer = trouble(error)
        return pickle.dumps(answer)

    def _here(self, question: Question) -> Question:
        """Look for modules where this host has them."""
        if isinstance(question, Hold | RecordCommands | Begin):
            work: Work = question.work
            return replace(question, work=replace(work, job=replace(work.job, path=tuple(sys.path))))
        return question

    def _signed(self, outcome: Finished) -> Finished:
        """Say where a repeat was run, and from when to when on this host's own clock."""
        stop_s = SYSTEM_CLOCK.monotonic_s()
        where: dict[str, Scalar] = {
            "host": self._name,
            "host_from_s": round(stop_s - outcome.cost_s, 6),
            "host_to_s": round(stop_s, 6),
        }
        log = outcome.repeat.host
        return replace(outcome, repeat=replace(outcome.repeat, host=replace(log, measured={**log.measured, **where})))


def put_right() -> None:
    """Give this process the priority, the variables and the module path that it would have without Ray."""
    undo_environment()
    wanted, found = undo_priority()
    if found != wanted:
        raise StudyError(
            f"Ray runs its processes at nice {found} there and the kernel does not let them back to {wanted}: "
            "start Ray with RAY_worker_niceness=0"
        )
