"""Where a study stands while it runs: what is finished, what has failed, what it shows so far, how long it takes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from samepath.base.errors import StudyError
from samepath.execution.check import header_of
from samepath.execution.estimate import repeat_s
from samepath.execution.hosts import THIS_MACHINE
from samepath.execution.rehearsal import Rehearsal, find
from samepath.simulators import registry
from samepath.study.records import Plan, PlannedCell, Scalar
from samepath.traces.records import Header, Repeat
from samepath.traces.running import RunningSpread
from samepath.traces.store import HEADER_FILE, StoredCell, StoreWriter, spooled_bytes, stored_repeats

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
