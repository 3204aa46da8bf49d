"""Running a plan: every missing repeat of every cell in the plan's order, each stored before the next begins."""

import os
from bisect import insort
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from samepath import __version__
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError, StoreError, StudyError
from samepath.core.files import make_folder
from samepath.engines import registry
from samepath.instrument.execution.folder import COMMANDS_FILE, Journal, load_commands, save_commands, stored_cells
from samepath.instrument.execution.hosts import (
    THIS_MACHINE,
    Begin,
    Failed,
    Finished,
    GoOn,
    Hold,
    HostLostError,
    Hosts,
    LeaveOff,
    Question,
    RecordCommands,
    Reply,
    ThisMachine,
    Work,
    real_isolation,
)
from samepath.instrument.execution.job import job_of
from samepath.instrument.execution.rehearsal import SPOOL_BYTES, Rehearsal, find, header_of, repeat_s, settle_time_s
from samepath.instrument.execution.workers import WorkerLostError
from samepath.instrument.study.levels import MACHINE_LOADS
from samepath.instrument.study.records import Isolation, Plan, PlannedCell, Scalar, Slot
from samepath.instrument.traces.recorder import RunningSpread
from samepath.instrument.traces.records import Header, Repeat
from samepath.instrument.traces.store import HEADER_FILE, StoredCell, StoreWriter, spooled_bytes, stored_repeats

# Which slot goes to which host: all slots of a cell to one, in the plan's order.
#
# Hosts differ, and what differs between the repeats of a cell must not be the host. So a cell belongs to the host
# that takes its first slot, and to no other as long as a repeat of it is stored.


class SlotQueue:
    """The slots that wait. ``homes`` has the hosts of cells that have repeats already, by the cell's place in the plan."""

    def __init__(self, slots: Sequence[Slot], homes: Mapping[int, str]) -> None:
        self._slots = tuple(slots)
        self._waiting = list(range(len(self._slots)))
        self._homes = dict(homes)

    @property
    def waiting(self) -> tuple[Slot, ...]:
        """The slots that nobody has taken yet, in the plan's order."""
        return tuple(self._slots[index] for index in self._waiting)

    def take(self, host: str, permitted: Container[int]) -> Slot | None:
        """Give a host its next slot: the first of a cell that is its own, or that is nobody's and that it permits."""
        for index in self._waiting:
            cell = self._slots[index].cell
            if self._homes.get(cell) == host or (cell not in self._homes and cell in permitted):
                self._waiting.remove(index)
                self._homes[cell] = host
                return self._slots[index]
        return None

    def put_back(self, slot: Slot) -> None:
        """Have a slot wait again, in its old place."""
        insort(self._waiting, self._slots.index(slot))

    def home_of(self, cell: int) -> str | None:
        """Return the host that a cell belongs to."""
        return self._homes.get(cell)

    def cells_of(self, host: str) -> list[int]:
        """Return the cells that belong to a host."""
        return sorted(cell for cell, home in self._homes.items() if home == host)

    def set_free(self, cell: int) -> None:
        """Let any host take a cell."""
        del self._homes[cell]


# Where a study stands while it runs: what is finished, what has failed, what it shows so far, how long it takes.

FAILURES_IN_A_ROW: Final = 3
_TIMES_THE_REHEARSAL: Final = 20.0
_SHORTEST_WATCHDOG_S: Final = 60.0


@dataclass(frozen=True)
class Progress:
    """Where a study stands: told before each stretch of a cell, after its load has settled, and after every repeat.

    ``asked`` and ``measured`` are loads; ``max_sigma_m`` is preliminary and only of the repeats run now.
    """

    stage: str  # "settling", "running" or "packing"
    cell: PlannedCell
    done: int
    total_done: int
    total: int
    cells_done: int
    cells: int
    failed: int
    asked: dict[str, Scalar]
    measured: dict[str, Scalar]
    max_sigma_m: float | None
    left_s: float | None
    at_hosts: tuple[tuple[str, str], ...] = ()  # of a cluster: each host at work, and the name of its cell


@dataclass(frozen=True)
class Failure:
    """A repeat that failed, or a cell that was given up (``repeat`` None)."""

    cell: str
    repeat: int | None
    reason: str

    def words(self) -> str:
        """Say it in one line."""
        place = f"cell {self.cell!r}" + ("" if self.repeat is None else f", repeat {self.repeat}")
        return f"{place}: {self.reason}"


@dataclass
class CellState:
    """A cell while it is run."""

    cell: PlannedCell
    folder: Path
    header: Header
    done: set[int]
    rehearsal: Rehearsal | None
    first_guess_s: float | None
    spread: RunningSpread = field(default_factory=RunningSpread)
    failures: list[Failure] = field(default_factory=list)
    in_a_row: int = 0
    given_up: str = ""
    spool_bytes: int = 0
    spent_s: float = 0.0
    run_now: int = 0
    home: str | None = None  # the host of its repeats; None where there are none

    @property
    def complete(self) -> bool:
        """Are all repeats there?"""
        return len(self.done) >= self.cell.repeats

    def store(self, repeat: Repeat, writer: StoreWriter) -> None:
        """Keep a finished repeat."""
        self.spool_bytes += writer.write(repeat)
        self.done.add(repeat.repeat)
        self.spread.add(repeat)
        self.in_a_row = 0

    def left_s(self) -> float | None:
        """Guess how long the rest takes: by what repeats took until now, else by the rehearsal."""
        left = 0 if self.given_up else self.cell.repeats - len(self.done)
        each_s = self.spent_s / self.run_now if self.run_now else self.first_guess_s
        return None if each_s is None else left * each_s

    def fail(self, number: int | None, reason: str) -> bool:
        """Note a failure; True when it is time to give up."""
        self.failures.append(Failure(self.cell.name, number, reason))
        self.in_a_row += 1
        if number is None or self.in_a_row >= FAILURES_IN_A_ROW:
            self.given_up = reason if number is None else f"given up after {self.in_a_row} failures in a row: {reason}"
        return bool(self.given_up)


def open_cells(plan: Plan, folder: Path, rehearsals: Sequence[Rehearsal], left_out: Sequence[str]) -> dict[int, CellState]:
    """Look at every cell that is to be run, by its place in the plan; refuse stores of other cells and larger studies."""
    states = {}
    for index, cell in enumerate(plan.cells):
        if cell.name in left_out:
            continue
        with registry.create(cell.simulator) as simulator:
            header = header_of(plan, cell, simulator.described(cell.settings))
        place = folder / "cells" / cell.folder
        done = _stored(place, header)
        if any(number >= cell.repeats for number in done):
            raise StudyError(
                f"{place} holds {len(done)} repeats already, more than the {cell.repeats} asked for: "
                "ask for as many, or choose another --out folder"
            )
        found = find(rehearsals, cell)
        guess_s = None if found is None else repeat_s(plan, cell, found)
        home, spool_bytes = _home(place) if done else None, spooled_bytes(place)
        states[index] = CellState(cell, place, header, done, found, guess_s, spool_bytes=spool_bytes, home=home)
    return states


def _home(place: Path) -> str | None:
    """Return the host of a cell's first repeat; all its repeats have the same."""
    return next((str(log.measured.get("host", THIS_MACHINE)) for _, log in StoredCell(place).host_logs()), None)


def watchdog_s(plan: Plan, rehearsal: Rehearsal | None) -> float:
    """Return how long a repeat may take."""
    if plan.execution.watchdog_s is not None:
        return plan.execution.watchdog_s
    return max(_SHORTEST_WATCHDOG_S, _TIMES_THE_REHEARSAL * (0.0 if rehearsal is None else rehearsal.cost_s))


def _stored(place: Path, header: Header) -> set[int]:
    if not (place / HEADER_FILE).exists():
        return set()
    found = StoredCell(place).header
    if found.simulator_version != header.simulator_version:
        was, now = f"{found.simulator} {found.simulator_version}", header.simulator_version
        raise StudyError(f"{place} holds repeats of {was}, but {now} is installed: use that, or choose another --out folder")
    other = [name for name, value in asdict(found).items() if value != asdict(header)[name]]
    if other:
        raise StudyError(f"{place} holds repeats with another {' and '.join(other)}: choose another --out folder")
    return set(stored_repeats(place))


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
