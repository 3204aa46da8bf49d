"""Running a plan: every missing repeat of every cell in the plan's order, each stored before the next begins."""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from samepath import __version__
from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SimulatorError, StoreError, StudyError
from samepath.base.files import make_folder
from samepath.execution.commands import COMMANDS_FILE, load_commands, save_commands
from samepath.execution.estimate import SPOOL_BYTES, settle_time_s
from samepath.execution.folder import stored_cells
from samepath.execution.hosts import (
    THIS_MACHINE,
    Begin,
    GoOn,
    Hold,
    HostLostError,
    Hosts,
    LeaveOff,
    Question,
    RecordCommands,
    Reply,
    ThisMachine,
)
from samepath.execution.job import job_of
from samepath.execution.journal import Journal
from samepath.execution.processes import WorkerLostError
from samepath.execution.rehearsal import Rehearsal
from samepath.execution.runner import Failed, Finished, Work, real_isolation
from samepath.execution.slot_queue import SlotQueue
from samepath.execution.state import CellState, Failure, Progress, open_cells, watchdog_s
from samepath.study.levels import MACHINE_LOADS
from samepath.study.records import Isolation, Plan, Scalar, Slot
from samepath.traces.store import StoreWriter

__all__ = ["Failure", "Progress", "Result", "run_plan", "stored_cells"]

_GO_ON: Final = "go on with samepath resume --ray when it is back by that name, or delete the cell's folder to run it elsewhere"


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
    hosts: Hosts | None = None,
) -> Result:
    """Run what is missing, on this machine unless ``hosts`` are given.

    Interrupting keeps every finished repeat; calling again continues.
    """
    _sweep(make_folder(folder))
    states = open_cells(plan, folder, rehearsals, left_out)
    execution = plan.execution
    with (
        Journal(folder) as journal,
        ThisMachine(execution.load_tool, execution.settle_s) if hosts is None else nullcontext(hosts) as those,
    ):
        stored = sum(len(state.done) for state in states.values())
        journal.add("resumed" if stored else "begun", command=command, samepath=__version__, pid=os.getpid(), stored=stored)
        study = _Study(plan, states, journal, those, on_progress)
        try:
            study.run()
        except KeyboardInterrupt:
            with suppress(StoreError):
                journal.add("interrupted", stored=study.total_done)
            raise
        failures = tuple(failure for state in states.values() for failure in state.failures)
        journal.add("finished", stored=study.total_done, failed=len(failures))
    return Result(failures, {state.cell.name: state.given_up for state in states.values() if state.given_up})


Steps = Generator[Question, Any, None]
"""A slot being run: asks its host one thing after the other and is sent the replies."""


@dataclass
class _Flight:
    """A slot at a host. ``measured`` are the loads there."""

    slot: Slot
    state: CellState
    steps: Steps
    settled: bool = False
    measured: dict[str, Scalar] = field(default_factory=dict)


class _Study:
    """The loop over the plan's slots: each host has one at a time, and whoever answers first is heard first."""

    def __init__(
        self,
        plan: Plan,
        states: dict[int, CellState],
        journal: Journal,
        hosts: Hosts,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._plan = plan
        self._states = states
        self._journal = journal
        self._hosts = hosts
        self._on_progress = on_progress
        slots = plan.slots or tuple(Slot(0, index, 0, cell.repeats) for index, cell in enumerate(plan.cells))
        homes = {index: state.home for index, state in states.items() if state.home is not None}
        self._queue = SlotQueue(slots, homes)
        self._permitted = {
            host: {index for index, cell in enumerate(plan.cells) if hosts.permits(host, cell.name)} for host in hosts.names
        }
        self._flights: dict[str, _Flight] = {}

    @property
    def total_done(self) -> int:
        """How many repeats are stored."""
        return sum(len(state.done) for state in self._states.values())

    def run(self) -> None:
        """Run all slots."""
        for index, state in self._states.items():
            home = self._queue.home_of(index)
            if home is not None and home not in self._hosts.names and not state.complete:
                self._fail(state, None, _not_here(home))
        try:
            while self._hand_out():
                host, reply = self._hosts.wait()
                self._step(host, reply)
        finally:
            for flight in self._flights.values():
                flight.steps.close()
        for slot in self._queue.waiting:
            left = self._states.get(slot.cell)
            if left is not None and not left.complete and not left.given_up:
                self._fail(left, None, "no host that permits it is left: go on with samepath resume when one is back")
        for state in self._states.values():
            self._compact(state)

    def _hand_out(self) -> bool:
        """Give every host that is free a slot; say whether any is at work."""
        for host in self._hosts.names:
            while host not in self._flights:
                slot = self._queue.take(host, self._permitted[host])
                if slot is None:
                    break
                state = self._states.get(slot.cell)
                if state is None or state.given_up:
                    continue
                missing = [number for number in range(slot.first, slot.stop) if number not in state.done]
                if missing:
                    self._flights[host] = _Flight(slot, state, self._run_slot(host, slot, state, missing))
                    self._step(host, None)
        return bool(self._flights)

    def _step(self, host: str, reply: Reply | Exception) -> None:
        """Let a slot take the reply of its host and ask the next question."""
        flight = self._flights[host]
        try:
            question = flight.steps.throw(reply) if isinstance(reply, Exception) else flight.steps.send(reply)
        except StopIteration:
            del self._flights[host]
            self._pack(flight.state)
        except HostLostError as error:
            del self._flights[host]
            self._lose(host, flight, error)
        else:
            self._hosts.ask(host, question)

    def _lose(self, host: str, flight: _Flight, error: HostLostError) -> None:
        """A host is gone: cells without a repeat go to another one, the others wait until it is back."""
        self._journal.add("host lost", host=host, cell=flight.state.cell.name, reason=str(error))
        self._queue.put_back(flight.slot)
        for cell in self._queue.cells_of(host):
            state = self._states.get(cell)
            if state is None or not state.done:
                self._queue.set_free(cell)
            elif not state.complete:
                count = f"{len(state.done)} of {state.cell.repeats} repeats"
                self._fail(state, None, f"host {host} was lost with {count} run: {_GO_ON}")

    def _run_slot(self, host: str, slot: Slot, state: CellState, missing: list[int]) -> Steps:
        flight = self._flights[host]
        self._show("settling", state)
        with _writing(state) as writer:
            try:
                work = yield from self._work(state, writer)
                flight.measured = loads_in((yield Hold(work)))
                flight.settled = True
                asked = loads_in(state.cell.condition)
                place = {"block": slot.block, "cell": state.cell.name, "first": slot.first, "stop": slot.stop}
                where = {} if host == THIS_MACHINE else {"host": host}
                self._journal.add("slot", **place, **where, asked=asked, settled=flight.measured)
                self._show("running", state)
                yield from self._run_repeats(flight, work, missing, writer)
            except (WorkerLostError, StudyError, SimulatorError) as error:
                self._fail(state, None, str(error))

    def _work(self, state: CellState, writer: StoreWriter) -> Generator[Question, Any, Work]:
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
        # Without a repeat they are recorded anew: by then the cell may be at another host.
        commands = load_commands(writer.folder) if state.done else None
        if commands is None:
            if state.done:
                raise StudyError(
                    f"{writer.folder / COMMANDS_FILE} is gone: restore it, or delete the folder to run the cell anew"
                )
            yield Hold(work)
            commands = yield RecordCommands(work)
            save_commands(writer.folder, commands)
        return replace(work, job=replace(work.job, commands=commands))

    def _run_repeats(self, flight: _Flight, work: Work, missing: list[int], writer: StoreWriter) -> Steps:
        state, since_s = flight.state, SYSTEM_CLOCK.monotonic_s()
        name = state.cell.name
        outcome = yield Begin(work, tuple(missing))
        while outcome is not None:
            match outcome:
                case Finished(repeat, seconds):
                    measured = repeat.host.measured
                    state.store(repeat, writer)
                    fields = {"digest": repeat.digest, "seconds": round(seconds, 6), "measured": measured}
                    self._journal.add("repeat", cell=name, repeat=repeat.repeat, **fields)
                    flight.measured = loads_in(measured)
                case Failed(number, reason, detail):
                    if self._fail(state, number, reason, detail):
                        yield LeaveOff()
                        return
            now_s = SYSTEM_CLOCK.monotonic_s()
            state.spent_s, state.run_now, since_s = state.spent_s + now_s - since_s, state.run_now + 1, now_s
            self._show("running", state)
            outcome = yield GoOn()

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
        being_run = [flight.slot.cell for flight in self._flights.values()]
        waiting = [one for index, one in self._states.items() if index not in being_run]
        waiting.sort(key=lambda one: -one.spool_bytes)
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
            unsettled = [flight.slot for flight in self._flights.values() if not flight.settled]
            settling_s = settle_time_s(self._plan, (*unsettled, *self._queue.waiting))
            at_once = max(1, min(len(self._hosts.names), sum(not one.complete for one in states)))
            left_s = (sum(guess for guess in guesses if guess is not None) + settling_s) / at_once
        here = {host: flight for host, flight in self._flights.items() if flight.state is state}
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
                measured=next((flight.measured for flight in here.values()), {}),
                max_sigma_m=state.spread.max_sigma_m,
                left_s=left_s,
                at_hosts=tuple((host, one.state.cell.name) for host, one in self._flights.items() if host != THIS_MACHINE),
            )
        )


def loads_in(condition: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the loads among conditions, asked for or measured."""
    return {name: condition[name] for name in MACHINE_LOADS if name in condition}


def _not_here(home: str) -> str:
    """Say why a cell that belongs to a host cannot be run without it."""
    if home == THIS_MACHINE:
        return "its first repeats were run without --ray: go on with samepath resume without it, or delete the cell's folder"
    return f"its first repeats were run on host {home}, which is not here: {_GO_ON}"


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
