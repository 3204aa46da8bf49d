"""What a worker process is sent and what it sends back: plain frozen records that can go to any process.

They live in a module of their own for a reason. ``worker.py`` and ``fork_server.py`` are run with ``python -m``, where they are
called ``__main__``: a record defined there would be pickled as ``__main__.Something`` and be unknown at the other end.
"""

import sys
from dataclasses import dataclass, field
from typing import Final

from samepath.engines.interface import REPLAY_ALL, REPLAY_EGO, REPLAY_SIGHT, CommandLog, RunRequest
from samepath.instrument.conditions.packages import contents_of
from samepath.instrument.study.records import Plan, PlannedCell, Scalar
from samepath.instrument.traces.records import Repeat

# The most that the fork server reads as one request: settings and module path of a job, far below a socket's buffer.
MAX_REQUEST_BYTES: Final = 1 << 17
# Levels of the condition ``controller`` that replay a part only.
_REPLAYS: Final = {"ego-replayed": REPLAY_EGO, "sees-replayed": REPLAY_SIGHT}


@dataclass(frozen=True)
class Job:
    """What all repeats of a cell share. ``path`` is where modules are looked for, ``condition`` what is set in the child.

    ``packages`` is what the installation that ``condition`` names held when the study began; empty where it names none.
    """

    simulator: str
    scenario: str
    settings: dict[str, Scalar] = field(default_factory=dict)
    condition: dict[str, Scalar] = field(default_factory=dict)
    seed: int = 0
    log_every: int = 1
    duration_s: float | None = None
    commands: CommandLog | None = None
    path: tuple[str, ...] = ()
    packages: str = ""

    def request(self, number: int) -> RunRequest:
        """Return what the simulator is asked for one repeat."""
        replay = _REPLAYS.get(str(self.condition.get("controller")), REPLAY_ALL)
        return RunRequest(self.scenario, number, self.seed, self.settings, self.duration_s, self.commands, replay=replay)


def job_of(
    plan: Plan, cell: PlannedCell, commands: CommandLog | None = None, condition: dict[str, Scalar] | None = None
) -> Job:
    """Return the job of a cell, under its own condition unless another is given."""
    return Job(
        simulator=cell.simulator,
        scenario=cell.scenario,
        settings=cell.settings,
        condition=cell.condition if condition is None else condition,
        seed=plan.seed,
        log_every=plan.log_every,
        duration_s=plan.duration_s,
        commands=commands,
        path=tuple(sys.path),
        packages=contents_of(str(cell.condition["packages"])) if "packages" in cell.condition else "",
    )


@dataclass(frozen=True)
class RunRepeat:
    """Run this repeat and send it back."""

    number: int


@dataclass(frozen=True)
class RecordOnce:
    """Run once with the controllers in the loop and send back what they decided."""


@dataclass(frozen=True)
class RunForever:
    """Run the same again and again, throw the results away, never end by yourself: a background instance."""


WorkerRequest = RunRepeat | RecordOnce | RunForever


@dataclass(frozen=True)
class Ready:
    """The simulator is there; ``measured`` is what was read back of the conditions set in the process."""

    measured: dict[str, Scalar]


@dataclass(frozen=True)
class RepeatDone:
    """A finished repeat and how long the simulator took."""

    repeat: Repeat
    seconds: float


@dataclass(frozen=True)
class CommandsRecorded:
    """What the controllers decided."""

    commands: CommandLog


@dataclass(frozen=True)
class ErrorReply:
    """What went wrong, in one line; ``detail``, for the journal, leads to the place."""

    reason: str
    detail: str = ""


WorkerReply = Ready | RepeatDone | CommandsRecorded | ErrorReply
