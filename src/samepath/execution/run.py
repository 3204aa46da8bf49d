"""Running a plan: every missing repeat of every cell in the plan's order, each stored before the next begins."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from samepath import __version__
from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SimulatorError, StoreError, StudyError
from samepath.base.files import make_folder
from samepath.execution.commands import COMMANDS_FILE, load_commands, save_commands
from samepath.execution.estimate import SPOOL_BYTES, settle_time_s
from samepath.execution.folder import stored_cells
from samepath.execution.job import job_of
from samepath.execution.journal import Journal
from samepath.execution.processes import WorkerLostError
from samepath.execution.rehearsal import Rehearsal
from samepath.execution.runner import Failed, Finished, HostRunner, Work, real_isolation
from samepath.execution.state import CellState, Failure, Progress, open_cells, watchdog_s
from samepath.study.levels import MACHINE_LOADS
from samepath.study.records import Isolation, Plan, Scalar, Slot
from samepath.traces.store import StoreWriter

__all__ = ["Failure", "Progress", "Result", "run_plan", "stored_cells"]


@dataclass(frozen=True)
class Result:
    """How a study ended: repeats that failed, and cells that were given up, by name with the reason."""

    failures: tuple[Failure, ...]
    given_up: dict[str, str]


def ignore(progress: Progress) -> None:
    """Show nothing."""


def run_plan(
    plan: Plan,
    folder: Path,
    on_progress: Callable[[Progress], None] = ignore,
    *,
    rehearsals: Sequence[Rehearsal] = (),
    left_out: Sequence[str] = (),
    command: str = "",
) -> Result:
    """Run what is missing. Interrupting keeps every finished repeat; calling again continues."""
    _sweep(make_folder(folder))
    states = open_cells(plan, folder, rehearsals, left_out)
    execution = plan.execution
    with (
        Journal(folder) as journal,
        HostRunner(execution.load_tool, execution.settle_s) as runner,
    ):
        stored = sum(len(state.done) for state in states.values())
        journal.add("resumed" if stored else "begun", command=command, samepath=__version__, pid=os.getpid(), stored=stored)
        study = _Study(plan, states, journal, runner, on_progress)
        try:
            study.run()
        except KeyboardInterrupt:
            with suppress(StoreError):
                journal.add("interrupted", stored=study.total_done)
            raise
        failures = tuple(failure for state in states.values() for failure in state.failures)
        journal.add("finished", stored=study.total_done, failed=len(failures))
    return Result(failures, {state.cell.name: state.given_up for state in states.values() if state.given_up})


class _Study:
    """The loop over the plan's slots."""

    def __init__(
        self,
        plan: Plan,
        states: dict[int, CellState],
        journal: Journal,
        runner: HostRunner,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._plan = plan
        self._states = states
        self._journal = journal
        self._runner = runner
        self._on_progress = on_progress
        self._slots = plan.slots or tuple(Slot(0, index, 0, cell.repeats) for index, cell in enumerate(plan.cells))
        self._left = self._slots
        self._measured: dict[str, Scalar] = {}

    @property
    def total_done(self) -> int:
        """How many repeats are stored."""
        return sum(len(state.done) for state in self._states.values())

    def run(self) -> None:
        """Run all slots."""
        for index, slot in enumerate(self._slots):
            self._left = self._slots[index:]
            state = self._states.get(slot.cell)
            if state is None or state.given_up:
                continue
            missing = [number for number in range(slot.first, slot.stop) if number not in state.done]
            if missing:
                self._run_slot(slot, state, missing)
                self._pack(state)
        for state in self._states.values():
            self._compact(state)

    def _run_slot(self, slot: Slot, state: CellState, missing: list[int]) -> None:
        self._measured = {}
        self._show("settling", state)
        with _writing(state) as writer:
            try:
                work = self._work(state, writer)
                self._measured = loads_in(self._runner.hold(work))
            except (WorkerLostError, StudyError, SimulatorError) as error:
                self._fail(state, None, str(error))
                return
            self._left = self._left[1:]
            asked = loads_in(state.cell.condition)
            place = {"block": slot.block, "cell": state.cell.name, "first": slot.first, "stop": slot.stop}
            self._journal.add("slot", **place, asked=asked, settled=self._measured)
            self._show("running", state)
            self._run_repeats(work, missing, state, writer)

    def _work(self, state: CellState, writer: StoreWriter) -> Work:
        plan, cell = self._plan, state.cell
        isolation = real_isolation(plan.isolation_of(cell), cell.condition)
        many = {Isolation.BATCH: plan.execution.repeats_per_process, Isolation.INLINE: cell.repeats}
        work = Work(
            job=job_of(plan, cell),
            isolation=isolation,
            repeats_per_process=many.get(isolation, 1),
            processes=plan.execution.processes,
            watchdog_s=watchdog_s(plan, state.rehearsal),
        )
        if cell.condition.get("controller") != "replayed":
            return work
        commands = load_commands(writer.folder)
        if commands is None:
            if state.done:
                raise StudyError(
                    f"{writer.folder / COMMANDS_FILE} is gone: restore it, or delete the folder to run the cell anew"
                )
            self._runner.hold(work)
            commands = self._runner.record(work)
            save_commands(writer.folder, commands)
        return replace(work, job=replace(work.job, commands=commands))

    def _run_repeats(self, work: Work, missing: list[int], state: CellState, writer: StoreWriter) -> None:
        name, since_s = state.cell.name, SYSTEM_CLOCK.monotonic_s()
        with closing(self._runner.run(work, missing)) as outcomes:
            for outcome in outcomes:
                match outcome:
                    case Finished(repeat, seconds):
                        measured = repeat.host.measured
                        state.store(repeat, writer)
                        fields = {"digest": repeat.digest, "seconds": round(seconds, 6), "measured": measured}
                        self._journal.add("repeat", cell=name, repeat=repeat.repeat, **fields)
                        self._measured = loads_in(measured)
                    case Failed(number, reason, detail):
                        if self._fail(state, number, reason, detail):
                            return
                now_s = SYSTEM_CLOCK.monotonic_s()
                state.spent_s, state.run_now, since_s = state.spent_s + now_s - since_s, state.run_now + 1, now_s
                self._show("running", state)

    def _fail(self, state: CellState, number: int | None, reason: str, detail: str = "") -> bool:
        """Note a failure; True when the cell is given up."""
        if number is not None:
            extra = {"detail": detail} if detail else {}
            self._journal.add("failed", cell=state.cell.name, repeat=number, reason=reason, **extra)
        if state.fail(number, reason):
            self._journal.add("given up", cell=state.cell.name, reason=state.given_up)
        self._show("running", state)
        return bool(state.given_up)

    def _pack(self, state: CellState) -> None:
        """Move finished repeats into their parts: once a cell is complete, or when too many wait on disk."""
        if state.complete:
            self._compact(state)
        waiting = sorted(self._states.values(), key=lambda one: -one.spool_bytes)
        total = sum(one.spool_bytes for one in waiting)
        for one in waiting if total > SPOOL_BYTES else ():
            if total > SPOOL_BYTES // 2:
                total -= one.spool_bytes
                self._compact(one)

    def _compact(self, state: CellState) -> None:
        if state.spool_bytes:
            self._show("packing", state)
            with _writing(state) as writer:
                writer.compact()
            state.spool_bytes = 0

    def _show(self, stage: str, state: CellState) -> None:
        states = list(self._states.values())
        guesses = [one.left_s() for one in states]
        left_s = None
        if None not in guesses:
            left_s = sum(guess for guess in guesses if guess is not None) + settle_time_s(self._plan, self._left)
        self._on_progress(
            Progress(
                stage=stage,
                cell=state.cell,
                done=len(state.done),
                total_done=self.total_done,
                total=sum(one.cell.repeats for one in states),
                cells_done=sum(one.complete for one in states),
                cells=len(states),
                failed=sum(len(one.failures) for one in states),
                asked=loads_in(state.cell.condition),
                measured=self._measured,
                max_sigma_m=state.spread.max_sigma_m,
                left_s=left_s,
            )
        )


def loads_in(condition: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the loads among conditions, asked for or measured."""
    return {name: condition[name] for name in MACHINE_LOADS if name in condition}


@contextmanager
def _writing(state: CellState) -> Iterator[StoreWriter]:
    """Open a cell's store; packing its repeats has a time of its own."""
    writer = StoreWriter(state.folder, state.header)
    try:
        yield writer
    finally:
        writer.close_lock()


def _sweep(folder: Path) -> None:
    """Remove what a killed samepath was writing: unfinished, and under names that no reader looks at."""
    for path in folder.rglob(".*.partial"):
        with suppress(OSError):
            path.unlink()
