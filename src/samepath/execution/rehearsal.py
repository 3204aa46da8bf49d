"""The rehearsal: one trial repeat of every distinct simulator, scenario and settings, under no load and not kept.

Finds what is broken before the first run, and says how long a repeat takes and how much it writes.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from samepath.base.errors import SimulatorError
from samepath.execution.check import header_of
from samepath.execution.job import job_of
from samepath.execution.runner import Failed, Finished, HostRunner, Work, real_isolation
from samepath.simulators import registry
from samepath.study.records import Isolation, Plan, PlannedCell, Scalar
from samepath.traces.store import StoreWriter

# Nothing is known yet of how long a run takes; a study whose runs take longer says so.
LONGEST_S: Final = 600.0


@dataclass(frozen=True)
class Rehearsal:
    """What one trial repeat took: ``cost_s`` with its process, ``spool_bytes`` when just finished, ``stored_bytes`` packed."""

    simulator: str
    scenario: str
    settings: dict[str, Scalar]
    cost_s: float
    run_s: float
    rows: int
    spool_bytes: int
    stored_bytes: int

    def is_of(self, cell: PlannedCell) -> bool:
        """Is this what ``cell`` runs?"""
        return (self.simulator, self.scenario, self.settings) == (cell.simulator, cell.scenario, cell.settings)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def find(rehearsals: Iterable[Rehearsal], cell: PlannedCell) -> Rehearsal | None:
    """Return the rehearsal of a cell."""
    return next((one for one in rehearsals if one.is_of(cell)), None)


def not_rehearsed(cells: Iterable[PlannedCell], known: Sequence[Rehearsal]) -> list[PlannedCell]:
    """Return one cell of each kind that has not been tried."""
    chosen: list[PlannedCell] = []
    for cell in cells:
        alike = [
            one
            for one in chosen
            if (one.simulator, one.scenario, one.settings) == (cell.simulator, cell.scenario, cell.settings)
        ]
        if not alike and find(known, cell) is None:
            chosen.append(cell)
    return chosen


def rehearse(
    plan: Plan, cells: Sequence[PlannedCell], known: Sequence[Rehearsal], on_progress: Callable[[str], None] = lambda name: None
) -> tuple[Rehearsal, ...]:
    """Try what ``cells`` run and is not ``known`` yet; return all that is known then. Raises SimulatorError where one fails."""
    found = list(known)
    missing = not_rehearsed(cells, known)
    with HostRunner() as runner:
        for cell in missing:
            found.append(_try(plan, cell, runner))
            on_progress(cell.name)
    return tuple(found)


def _try(plan: Plan, cell: PlannedCell, runner: HostRunner) -> Rehearsal:
    asked = plan.isolation_of(cell)
    # Never in samepath's own process: the first measured repeat there is to find nothing that a trial left behind.
    isolation = Isolation.COLD if real_isolation(asked, cell.condition) is Isolation.COLD else Isolation.PROCESS
    job = job_of(plan, cell, condition={})
    work = Work(job, isolation, watchdog_s=plan.execution.watchdog_s or LONGEST_S)
    (outcome,) = runner.run(work, [0])
    if isinstance(outcome, Failed):
        raise SimulatorError(f"cell {cell.name!r} was tried before the study and failed: {outcome.reason}")
    spool_bytes, stored_bytes = _sizes(plan, cell, outcome)
    return Rehearsal(
        simulator=cell.simulator,
        scenario=cell.scenario,
        settings=dict(cell.settings),
        cost_s=outcome.cost_s,
        run_s=outcome.seconds,
        rows=len(outcome.repeat.tick),
        spool_bytes=spool_bytes,
        stored_bytes=stored_bytes,
    )


def _sizes(plan: Plan, cell: PlannedCell, outcome: Finished) -> tuple[int, int]:
    """Store a repeat somewhere else and weigh it."""
    with registry.create(cell.simulator) as simulator:
        header = header_of(plan, cell, simulator.described(cell.settings))
    with tempfile.TemporaryDirectory(prefix="samepath-") as name:
        with StoreWriter(Path(name) / "cell", header) as writer:
            writer.write(outcome.repeat)
            spool_bytes = sum(path.stat().st_size for path in writer.folder.glob("spool/*"))
        return spool_bytes, sum(path.stat().st_size for path in writer.folder.glob("*.parquet"))
