"""How the runs were made, said beside what they showed: how many processes, by which clock, with what work in a frame.

A spread that comes from late frames depends on how much time a frame has and on what it has to do in it. A game loop that is
run 20 times as fast as real time, with a little arithmetic where an engine would render, is not the loop of any engine: its
figures must not stand beside CARLA's without that being said. Bits that repeat within one process need not repeat in a fresh
one, so the number of processes is told too.
"""

from collections.abc import Sequence
from typing import Final

from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.factors import joined, variant_of

UNLIKE_PUBLISHED: Final = (
    "CARLA was stepped synchronously, waiting for no clock, and rendered with Unreal Engine: beside a game loop at another "
    "time scale, with other work in a frame, its figures show where a spread begins, not how large yours should be."
)
_SHARED: Final = {
    "process": "a fresh process for every repeat, forked from one that had run nothing",
    "cold": "a new interpreter for every repeat",
    "batch": "several repeats in a process: what one leaves, the next finds",
    "inline": "one repeat after the other in samepath's own process",
}


def processes_of(cell: CellAnalysis) -> int | None:
    """Return in how many processes the repeats ran: as many as were the first in theirs; None where nobody noted it."""
    return sum(place.position == 0 for place in cell.places) or None


def isolation_words(cell: CellAnalysis) -> tuple[str, str]:
    """Say in how many processes the repeats ran, and what they shared; nothing where nobody noted it."""
    processes = processes_of(cell)
    if processes is None:
        return "", ""
    kinds = dict.fromkeys(place.isolation for place in cell.places)
    return _processes(processes), "; ".join(_SHARED.get(kind, kind) for kind in kinds)


def time_words(cell: CellAnalysis) -> tuple[str, str]:
    """Say by which clock the runs went, and what stood for rendering; nothing where no clock drove them, or nobody noted it."""
    scale, work_s = cell.header.time_scale, cell.header.frame_work_s
    if scale is None:
        return "", ""
    pace = "real time" if scale == 1 else f"{scale:g} times real time"
    return pace, f"{1000 * work_s:g} ms of arithmetic in each frame stands for rendering" if work_s else ""


def how_run_notes(cells: Sequence[CellAnalysis], *, beside_published: bool) -> tuple[str, ...]:
    """Say the same of all cells together, and where CARLA's published figures are shown, that they are of no such loop."""
    return (*_time_notes(cells, beside_published=beside_published), *_isolation_notes(cells))


def _time_notes(cells: Sequence[CellAnalysis], *, beside_published: bool) -> list[str]:
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        words = time_words(cell)
        if words[0]:
            groups.setdefault(words, {})[variant_of(cell.header) or cell.header.cell] = None
    notes = [
        f"Run by the wall clock at {pace}: {joined(list(variants))}{f'; {work}' if work else ''}."
        for (pace, work), variants in groups.items()
    ]
    return [*notes, UNLIKE_PUBLISHED] if notes and beside_published else notes


def _isolation_notes(cells: Sequence[CellAnalysis]) -> list[str]:
    groups: dict[str, list[CellAnalysis]] = {}
    for cell in cells:
        shared = isolation_words(cell)[1]
        if shared:
            groups.setdefault(shared, []).append(cell)
    notes = []
    for shared, found in groups.items():
        repeats, processes = sum(cell.repeats for cell in found), sum(processes_of(cell) or 0 for cell in found)
        notes.append(f"{repeats} repeats in {_processes(processes)}: {shared}.")
    return notes


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def how_run_object(cell: CellAnalysis) -> dict[str, object]:
    """Return the same as plain data; null where nobody noted it, and for the time scale where no clock drove the runs."""
    return {
        "isolation": sorted({place.isolation for place in cell.places}),
        "processes": processes_of(cell),
        "time_scale": cell.header.time_scale,
        "frame_work_s": cell.header.frame_work_s,
    }
