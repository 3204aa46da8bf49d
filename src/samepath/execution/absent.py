"""Cells of a study that have no figures, and why."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from samepath.execution.folder import StudyRecord
from samepath.execution.journal import read_journal
from samepath.study.records import PlannedCell
from samepath.traces.store import stored_repeats

NOT_APPLICABLE: Final = "not applicable"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"


@dataclass(frozen=True)
class AbsentCell:
    """A cell with fewer than the two repeats that a comparison needs."""

    cell: PlannedCell
    kind: str
    reason: str


def absent_cells(record: StudyRecord, folder: Path) -> list[AbsentCell]:
    """Return them in the plan's order; why a cell failed is what the journal said last."""
    there = {cell.name for cell in record.plan.cells if len(stored_repeats(folder / "cells" / cell.folder)) > 1}
    reasons = {
        entry["cell"]: str(entry.get("reason", ""))
        for entry in read_journal(folder)
        if entry["what"] in ("failed", "given up") and "cell" in entry
    }
    found = []
    for cell in record.plan.cells:
        if cell.name in there:
            continue
        if cell.name in record.not_applicable:
            found.append(AbsentCell(cell, NOT_APPLICABLE, record.not_applicable[cell.name]))
        else:
            reason = reasons.get(cell.name)
            kind = NOT_RUN if reason is None else FAILED
            found.append(AbsentCell(cell, kind, reason or "fewer than two repeats were finished"))
    return found
