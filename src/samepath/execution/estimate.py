"""How long a study will take and how much it will write: an estimate from the rehearsal, for people to plan by."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.conditions.process import needs_new_interpreter
from samepath.execution.rehearsal import Rehearsal, find
from samepath.study.records import Isolation, Plan, PlannedCell, Scalar, Slot

LOADS: Final = ("cpu_load", "gpu_load", "memory_load")
# Finished repeats wait unpacked until their cell is complete, or until all that wait are larger than this.
SPOOL_BYTES: Final = 1 << 30
# Reading, comparing and drawing a row (one actor at one tick) takes about this long on one core.
_ANALYSIS_S_PER_ROW: Final = 2e-6
_ANALYSIS_S_PER_CELL: Final = 0.5
# Storing a finished repeat and asking for the next.
_STORE_S: Final = 0.005
_SPARE: Final = 1.1


@dataclass(frozen=True)
class Estimate:
    """Times and sizes of what is still to be run. ``spool_bytes`` is the most that waits unpacked at once."""

    repeats: int
    run_s: float
    settle_s: float
    analysis_s: float
    spool_bytes: int
    stored_bytes: int

    @property
    def total_s(self) -> float:
        """Everything together."""
        return self.run_s + self.settle_s + self.analysis_s

    @property
    def needed_bytes(self) -> int:
        """The disk space to have, a tenth to spare."""
        return int((self.spool_bytes + self.stored_bytes) * _SPARE)


def estimate(
    plan: Plan,
    rehearsals: Sequence[Rehearsal],
    done: Mapping[str, Collection[int]] | None = None,
    left_out: Collection[str] = (),
) -> Estimate:
    """Add up what is missing; ``done`` has the finished repeats by the cell's name, ``left_out`` cells that are not run."""
    done = done or {}
    cells = [cell for cell in plan.cells if cell.name not in left_out]
    left = {cell.name: cell.repeats - len(done.get(cell.name, ())) for cell in cells}
    figures = {cell.name: found for cell in cells if (found := find(rehearsals, cell)) is not None}
    run_s = sum(left[name] * repeat_s(plan, cell, figures[name]) for cell in cells if (name := cell.name) in figures)
    rows = sum(cell.repeats * figures[cell.name].rows for cell in cells if cell.name in figures)
    spool = sum(left[name] * one.spool_bytes for name, one in figures.items())
    stored = sum(left[name] * one.stored_bytes for name, one in figures.items())
    largest = max((left[name] * one.spool_bytes for name, one in figures.items()), default=0)
    return Estimate(
        repeats=sum(left.values()),
        run_s=run_s,
        settle_s=settle_time_s(plan, plan.slots, left_out),
        analysis_s=len(cells) * _ANALYSIS_S_PER_CELL + rows * _ANALYSIS_S_PER_ROW,
        spool_bytes=min(spool, SPOOL_BYTES + largest),
        stored_bytes=stored,
    )


def repeat_s(plan: Plan, cell: PlannedCell, rehearsal: Rehearsal) -> float:
    """Guess what a repeat of a cell takes: the rehearsal's time, longer where it must share the machine."""
    isolation = plan.isolation_of(cell)
    shared = isolation in (Isolation.BATCH, Isolation.INLINE) and not needs_new_interpreter(cell.condition)
    alone_s = (rehearsal.run_s if shared else rehearsal.cost_s) + _STORE_S
    load = float(cell.condition.get("cpu_load", 0.0))
    crowd = max(1.0, int(cell.condition.get("instances", 1)) / (os.cpu_count() or 1))
    return alone_s * (1 + load / 2) * crowd / max(1, plan.execution.processes)


def settle_time_s(plan: Plan, slots: Iterable[Slot], left_out: Collection[str] = ()) -> float:
    """Return how long settling takes at most: once for each change to another load."""
    changes, held = 0, dict[str, Scalar]()
    for slot in slots:
        cell = plan.cells[slot.cell]
        if cell.name in left_out:
            continue
        wanted = {name: cell.condition[name] for name in LOADS if cell.condition.get(name)}
        changes += bool(wanted) and wanted != held
        held = wanted
    return changes * plan.execution.settle_s
