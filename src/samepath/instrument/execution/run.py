"""Running a plan: every missing repeat of every cell in the plan's order, each stored before the next begins.

What holds, whatever happens: a repeat is in its cell's store, whole, before its line is in the journal and before the next one
is asked for. The stores alone say what is finished; the journal tells the story. So a study that was interrupted or killed at
any moment goes on where it was, runs nothing twice, and ends with the same bytes as one that was not.

Each slot is a generator that yields requests to its host and is sent the replies. One loop (:class:`_StudyRun`) drives as many
of them as there are hosts, in one thread: no lock, and the order of events is the order of the journal.
"""

import os
from bisect import insort
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from samepath import __version__
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError, StoreError, StudyError
from samepath.core.files import make_folder
from samepath.instrument.execution.folder import COMMANDS_FILE, Journal, load_commands, save_commands
from samepath.instrument.execution.hosts import (
    THIS_MACHINE,
    HoldConditions,
    HostLostError,
    HostReply,
    HostRequest,
    Hosts,
    LocalHost,
    NextRepeat,
    RecordCommands,
    RepeatFailed,
    RepeatFinished,
    StartRepeats,
    StopRepeats,
    Work,
    real_isolation,
)
from samepath.instrument.execution.installed import installed
from samepath.instrument.execution.job import job_of
from samepath.instrument.execution.rehearsal import SPOOL_BYTES, Rehearsal, find, header_of, repeat_s, settle_time_s
from samepath.instrument.execution.workers import WorkerLostError
from samepath.instrument.study.levels import MACHINE_LOADS
from samepath.instrument.study.records import Isolation, Plan, PlannedCell, Scalar, Slot
from samepath.instrument.traces.recorder import RunningSpread
from samepath.instrument.traces.records import Header, Repeat
from samepath.instrument.traces.store import HEADER_FILE, StoredCell, StoreWriter, spooled_bytes, stored_repeats

# As many in a row say that the cell is broken, not unlucky.
FAILURES_IN_A_ROW: Final = 3
# A repeat may take far longer than the rehearsal under load; one that takes this much longer hangs.
_TIMES_THE_REHEARSAL: Final = 20.0
_SHORTEST_WATCHDOG_S: Final = 60.0
_GO_ON: Final = "go on with samepath resume --ray when it is back by that name, or delete the cell's folder to run it elsewhere"


@dataclass(frozen=True)
class StudyProgress:
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
    wanted: str = ""  # what is left to know, where repeats grow until it is known


class StopsEarly(Protocol):
    """Decides after every repeat of a cell whether enough is known."""

    def add(self, repeat: Repeat) -> str:
        """Take in a repeat; say why to stop, or nothing."""
        ...

    def left(self) -> str:
        """Say what is left to know."""
        ...


MakeRule = Callable[[str], StopsEarly]
"""From a cell's ``until`` to a rule that has seen nothing."""


@dataclass(frozen=True)
class Failure:
    """A repeat that failed, or a cell that was given up (``repeat`` None)."""

    cell: str
    repeat: int | None
    reason: str

    def words(self) -> str:
        place = f"cell {self.cell!r}" + ("" if self.repeat is None else f", repeat {self.repeat}")
        return f"{place}: {self.reason}"


@dataclass(frozen=True)
class RunResult:
    """How a study ended: repeats that failed; cells that were given up, and that knew enough, by name with the reason."""

    failures: tuple[Failure, ...]
    given_up: dict[str, str]
    stopped: dict[str, str] = field(default_factory=dict)


def run_plan(
    plan: Plan,
    folder: Path,
    on_progress: Callable[[StudyProgress], None] = lambda progress: None,
    *,
    rehearsals: Sequence[Rehearsal] = (),
    left_out: Sequence[str] = (),
    command: str = "",
    hosts: Hosts | None = None,
    make_rule: MakeRule | None = None,
) -> RunResult:
    """Run what is missing, on this machine unless ``hosts`` are given; ``make_rule`` says when a cell that grows is known.

    Interrupting keeps every finished repeat; calling again continues.
    """
    _sweep(make_folder(folder))
    # Before the journal: a folder that is refused gets no line in it.
    states = open_cells(plan, folder, rehearsals, left_out)
    if make_rule is not None:
        for state in states.values():
            state.take_rule(make_rule)
    execution = plan.execution
    with (
        Journal(folder) as journal,
        LocalHost(execution.load_tool, execution.settle_s) if hosts is None else nullcontext(hosts) as those,
    ):
        stored = sum(len(state.done) for state in states.values())
        journal.add("resumed" if stored else "begun", command=command, samepath=__version__, pid=os.getpid(), stored=stored)
        study = _StudyRun(plan, states, journal, those, on_progress)
        try:
            study.run()
        except KeyboardInterrupt:
            # A full disk must not turn an interrupt into an error.
            with suppress(StoreError):
                journal.add("interrupted", stored=study.total_done)
            raise
        failures = tuple(failure for state in states.values() for failure in state.failures)
        journal.add("finished", stored=study.total_done, failed=len(failures))
    given_up = {state.cell.name: state.given_up for state in states.values() if state.given_up}
    return RunResult(failures, given_up, {state.cell.name: state.stopped for state in states.values() if state.stopped})


@dataclass
class CellState:
    """A cell while it is run: what is stored, what failed, what it shows so far, how long it takes."""

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
    rule: StopsEarly | None = None
    stopped: str = ""  # why fewer repeats are enough

    @property
    def complete(self) -> bool:
        return bool(self.stopped) or len(self.done) >= self.cell.repeats

    def take_rule(self, make_rule: MakeRule) -> None:
        """Begin to ask whether enough is known; what is stored is asked first, in its order, as if it were run now."""
        if not self.cell.until:
            return
        self.rule = make_rule(self.cell.until)
        stored = StoredCell(self.folder) if self.done else None
        for number in sorted(self.done):
            if stored is not None and not self.stopped:
                self.stopped = self.rule.add(stored.load(number))

    def store(self, repeat: Repeat, writer: StoreWriter) -> None:
        self.spool_bytes += writer.write(repeat)
        self.done.add(repeat.repeat)
        self.spread.add(repeat)
        self.in_a_row = 0
        if self.rule is not None and not self.stopped:
            self.stopped = self.rule.add(repeat)

    def left_s(self) -> float | None:
        """Guess how long the rest takes: by what repeats took until now, else by the rehearsal."""
        left = 0 if self.given_up or self.stopped else self.cell.repeats - len(self.done)
        each_s = self.spent_s / self.run_now if self.run_now else self.first_guess_s
        return None if each_s is None else left * each_s

    def fail(self, number: int | None, reason: str) -> bool:
        """Note a failure; True when it is time to give up."""
        self.failures.append(Failure(self.cell.name, number, reason))
        self.in_a_row += 1
        if number is None or self.in_a_row >= FAILURES_IN_A_ROW:
            self.given_up = reason if number is None else f"given up after {self.in_a_row} failures in a row: {reason}"
        return bool(self.given_up)


Steps = Generator[HostRequest, Any, None]
"""A slot being run: asks its host one thing after the other and is sent the replies, whose types follow from the requests."""


@dataclass
class _ActiveSlot:
    """A slot that a host has now. ``measured`` are the loads there."""

    slot: Slot
    state: CellState
    steps: Steps
    settled: bool = False
    measured: dict[str, Scalar] = field(default_factory=dict)


class _StudyRun:
    """The loop over the plan's slots: each host has one at a time, and whoever answers first is heard first."""

    def __init__(
        self,
        plan: Plan,
        states: dict[int, CellState],
        journal: Journal,
        hosts: Hosts,
        on_progress: Callable[[StudyProgress], None],
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
        self._active: dict[str, _ActiveSlot] = {}

    @property
    def total_done(self) -> int:
        return sum(len(state.done) for state in self._states.values())

    def run(self) -> None:
        # A cell that was begun on a host that is not here is not run elsewhere: its repeats would differ in more than chance.
        for index, state in self._states.items():
            home = self._queue.home_of(index)
            if home is not None and home not in self._hosts.names and not state.complete:
                self._fail(state, None, _not_here(home))
        try:
            while self._hand_out():
                host, reply = self._hosts.wait()
                self._step(host, reply)
        finally:
            for active in self._active.values():
                # A slot that is closed closes its store: its lock must be free for whoever resumes in this process.
                active.steps.close()
        # What still waits now was permitted only by hosts that were lost on the way.
        for slot in self._queue.waiting:
            left = self._states.get(slot.cell)
            if left is not None and not left.complete and not left.given_up:
                self._fail(left, None, "no host that permits it is left: go on with samepath resume when one is back")
        # Incomplete cells too: what waits in the spool survives a kill, but only parts survive a power cut.
        for state in self._states.values():
            self._compact(state)

    def _hand_out(self) -> bool:
        """Give every host that is free a slot; say whether any is at work."""
        for host in self._hosts.names:
            while host not in self._active:
                slot = self._queue.take(host, self._permitted[host])
                if slot is None:
                    break
                state = self._states.get(slot.cell)
                # Slots of a cell that was given up are taken and dropped: its later blocks would fail in the same way.
                if state is None or state.given_up or state.stopped:
                    continue
                missing = [number for number in range(slot.first, slot.stop) if number not in state.done]
                if missing:
                    self._active[host] = _ActiveSlot(slot, state, self._run_slot(host, slot, state, missing))
                    self._step(host, None)
        return bool(self._active)

    def _step(self, host: str, reply: HostReply | Exception) -> None:
        """Let a slot take the reply of its host and ask the next thing."""
        active = self._active[host]
        try:
            # Thrown inside of the slot, which knows what its cell makes of an error. A lost host it does not know: that comes
            # out again, and is about more cells than one.
            request = active.steps.throw(reply) if isinstance(reply, Exception) else active.steps.send(reply)
        except StopIteration:
            del self._active[host]
            self._pack(active.state)
        except HostLostError as error:
            del self._active[host]
            self._lose(host, active, error)
        else:
            self._hosts.ask(host, request)

    def _lose(self, host: str, active: _ActiveSlot, error: HostLostError) -> None:
        """A host is gone: cells without a repeat go to another one, the others wait until it is back."""
        self._journal.add("host lost", host=host, cell=active.state.cell.name, reason=str(error))
        # In its old place, so that a study that lost a host still goes by the plan's order.
        self._queue.put_back(active.slot)
        for cell in self._queue.cells_of(host):
            state = self._states.get(cell)
            if state is None or not state.done:
                self._queue.set_free(cell)
            elif not state.complete:
                count = f"{len(state.done)} of {state.cell.repeats} repeats"
                self._fail(state, None, f"host {host} was lost with {count} run: {_GO_ON}")

    def _run_slot(self, host: str, slot: Slot, state: CellState, missing: list[int]) -> Steps:
        # A generator's body begins with its first step: by then it is in the table.
        active = self._active[host]
        self._show("settling", state)
        with _writing(state) as writer:
            try:
                work = yield from self._work(state, writer)
                # Held anew for every slot: another cell may have been at this host in between. What is held already runs on
                # undisturbed.
                active.measured = loads_in((yield HoldConditions(work)))
                active.settled = True
                asked = loads_in(state.cell.condition)
                place = {"block": slot.block, "cell": state.cell.name, "first": slot.first, "stop": slot.stop}
                where = {} if host == THIS_MACHINE else {"host": host}
                self._journal.add("slot", **place, **where, asked=asked, settled=active.measured)
                self._show("running", state)
                yield from self._run_repeats(active, work, missing, writer)
            except (WorkerLostError, StudyError, SimulatorError) as error:
                self._fail(state, None, str(error))

    def _work(self, state: CellState, writer: StoreWriter) -> Generator[HostRequest, Any, Work]:
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
        if cell.condition.get("controller", "in-loop") == "in-loop":
            return work
        # Without a repeat they are recorded anew: by then the cell may be at another host.
        commands = load_commands(writer.folder) if state.done else None
        if commands is None:
            if state.done:
                raise StudyError(
                    f"{writer.folder / COMMANDS_FILE} is gone: restore it, or delete the folder to run the cell anew"
                )
            yield HoldConditions(work)
            commands = yield RecordCommands(work)
            # On disk before the first repeat that replays them: repeats of one cell must never replay two recordings.
            save_commands(writer.folder, commands)
        return replace(work, job=replace(work.job, commands=commands))

    def _run_repeats(self, active: _ActiveSlot, work: Work, missing: list[int], writer: StoreWriter) -> Steps:
        state, since_s = active.state, SYSTEM_CLOCK.monotonic_s()
        name = state.cell.name
        outcome = yield StartRepeats(work, tuple(missing))
        while outcome is not None:
            match outcome:
                case RepeatFinished(repeat, seconds):
                    measured = repeat.host.measured
                    # The store, then the journal, then the next request. A line about a repeat that is not stored would be a
                    # lie; the other way round, a kill in between costs a line.
                    state.store(repeat, writer)
                    fields = {"digest": repeat.digest, "seconds": round(seconds, 6), "measured": measured}
                    self._journal.add("repeat", cell=name, repeat=repeat.repeat, **fields)
                    active.measured = loads_in(measured)
                    if state.stopped:
                        self._journal.add("known", cell=name, repeats=len(state.done), reason=state.stopped)
                        self._show("running", state)
                        yield StopRepeats()
                        return
                case RepeatFailed(number, reason, detail):
                    if self._fail(state, number, reason, detail):
                        yield StopRepeats()
                        return
            now_s = SYSTEM_CLOCK.monotonic_s()
            # From one repeat to the next, storing included: that is what the rest will take.
            state.spent_s, state.run_now, since_s = state.spent_s + now_s - since_s, state.run_now + 1, now_s
            self._show("running", state)
            outcome = yield NextRepeat()

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
        # A cell that is being run has its store open and locked, also against this process.
        being_run = [active.slot.cell for active in self._active.values()]
        waiting = [cell for index, cell in self._states.items() if index not in being_run]
        waiting.sort(key=lambda cell: -cell.spool_bytes)
        total = sum(cell.spool_bytes for cell in waiting)
        if total <= SPOOL_BYTES:
            return
        # Down to half, the largest first: packing after every slot would rewrite the same parts again and again.
        for cell in waiting:
            if total > SPOOL_BYTES // 2:
                total -= cell.spool_bytes
                self._compact(cell)

    def _compact(self, state: CellState) -> None:
        if state.spool_bytes:
            self._show("packing", state)
            with _writing(state) as writer:
                writer.compact()
            state.spool_bytes = 0

    def _show(self, stage: str, state: CellState) -> None:
        states = list(self._states.values())
        guesses = [cell.left_s() for cell in states]
        left_s = None
        # One cell without a guess makes the whole a guess at nothing: then no time is shown.
        if None not in guesses:
            unsettled = [active.slot for active in self._active.values() if not active.settled]
            settling_s = settle_time_s(self._plan, (*unsettled, *self._queue.waiting))
            # Hosts work side by side, but all slots of a cell go to one of them: more hosts than cells do not help.
            at_once = max(1, min(len(self._hosts.names), sum(not cell.complete for cell in states)))
            left_s = (sum(guess for guess in guesses if guess is not None) + settling_s) / at_once
        here = {host: active for host, active in self._active.items() if active.state is state}
        self._on_progress(
            StudyProgress(
                stage=stage,
                cell=state.cell,
                done=len(state.done),
                total_done=self.total_done,
                total=sum(cell.cell.repeats for cell in states),
                cells_done=sum(cell.complete for cell in states),
                cells=len(states),
                failed=sum(len(cell.failures) for cell in states),
                asked=loads_in(state.cell.condition),
                measured=next((active.measured for active in here.values()), {}),
                max_sigma_m=state.spread.max_sigma_m,
                left_s=left_s,
                wanted=state.stopped or ("" if state.rule is None else state.rule.left()),
                at_hosts=tuple((host, slot.state.cell.name) for host, slot in self._active.items() if host != THIS_MACHINE),
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
    try:
        writer = StoreWriter(state.folder, state.header)
        try:
            yield writer
        finally:
            writer.close_lock()
    except OSError as error:  # the disk cannot be read; errors of writing have their own message
        raise StoreError(f"{state.folder} cannot be read: {error.strerror or error}; what is finished is kept") from error


def _sweep(folder: Path) -> None:
    """Remove what a killed samepath was writing: unfinished, and under names that no reader looks at."""
    for path in folder.rglob(".*.partial"):
        with suppress(OSError):
            path.unlink()


def open_cells(plan: Plan, folder: Path, rehearsals: Sequence[Rehearsal], left_out: Sequence[str]) -> dict[int, CellState]:
    """Look at every cell that is to be run, by its place in the plan; refuse stores of other cells and larger studies."""
    states = {}
    for index, cell in enumerate(plan.cells):
        if cell.name in left_out:
            continue
        header = header_of(plan, cell, installed(cell).info)
        place = folder / "cells" / cell.folder
        done = _stored(place, header)
        # Not cut off in silence: whoever asks for fewer may not know what lies there.
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
    # First and by itself, because it has a remedy of its own.
    if found.simulator_version != header.simulator_version:
        was, now = f"{found.simulator} {found.simulator_version}", header.simulator_version
        raise StudyError(f"{place} holds repeats of {was}, but {now} is installed: use that, or choose another --out folder")
    other = [name for name, value in asdict(found).items() if value != asdict(header)[name]]
    if other:
        raise StudyError(f"{place} holds repeats with another {' and '.join(other)}: choose another --out folder")
    return set(stored_repeats(place))


class SlotQueue:
    """The slots that wait: all slots of a cell go to one host, in the plan's order.

    Hosts differ, and what differs between the repeats of a cell must not be the host. So a cell belongs to the host that takes
    its first slot, and to no other as long as a repeat of it is stored. ``homes`` has the hosts of cells that have repeats
    already, by the cell's place in the plan.
    """

    def __init__(self, slots: Sequence[Slot], homes: Mapping[int, str]) -> None:
        self._slots = tuple(slots)
        self._waiting = list(range(len(self._slots)))
        self._homes = dict(homes)

    @property
    def waiting(self) -> tuple[Slot, ...]:
        return tuple(self._slots[index] for index in self._waiting)

    def take(self, host: str, permitted: Container[int]) -> Slot | None:
        """Give a host its next slot: the first of a cell that is its own, or that is nobody's and that it permits."""
        for index in self._waiting:
            cell = self._slots[index].cell
            if self._homes.get(cell) == host or (cell not in self._homes and cell in permitted):
                self._waiting.remove(index)
                # From the first slot on, before there is a repeat: two hosts must not begin the same cell.
                self._homes[cell] = host
                return self._slots[index]
        return None

    def put_back(self, slot: Slot) -> None:
        """Have a slot wait again, in its old place."""
        insort(self._waiting, self._slots.index(slot))

    def home_of(self, cell: int) -> str | None:
        return self._homes.get(cell)

    def cells_of(self, host: str) -> list[int]:
        return sorted(cell for cell, home in self._homes.items() if home == host)

    def set_free(self, cell: int) -> None:
        """Let any host take a cell."""
        del self._homes[cell]
