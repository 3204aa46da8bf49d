"""``samepath.explain``: from traces on disk to why their runs part."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from samepath.core.errors import InputError, unknown
from samepath.instrument.analysis.explain import Explanation, explain_cell, explain_pair, pair_of
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.importers import LOG_MIB, Align, ImportOptions, load_cells
from samepath.instrument.traces.records import Header

TracePath = str | os.PathLike[str]


def explain(
    path: TracePath,
    other: TracePath | None = None,
    *,
    cell: str | None = None,
    repeats: tuple[int, int] | None = None,
) -> Explanation:
    r"""Say where and why runs part.

    ``path`` is a trace folder, a study folder, a log or a recording, ``cell`` one of its cells; left out, it is the first one
    that parts. ``repeats`` are two of its repeats, else all are compared. With ``other`` the largest outcome of one trace is
    compared with that of another, or one recording with another.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> explain("log.csv").cause
    'unknown'
    """
    found = cells_of(path, cell)
    if other is not None:
        pair = pair_of(only_cell(found, path), only_cell(cells_of(other, cell), other))
        return explain_cell(pair)
    if repeats is not None:
        return explain_pair(only_cell(found, path), *repeats)
    if len(found) == 1:
        return explain_cell(_with_two(found[0]))
    explained = explain_all(found)
    return next((explanation for explanation in explained if explanation.cause != "none"), explained[0])


def explain_all(cells: Sequence[CellTrace]) -> list[Explanation]:
    """Explain every cell that has two repeats to compare."""
    able = [cell for cell in cells if len(cell.runs) > 1]
    if not able:
        many = f"none of the {len(cells)} cells has more than one" if len(cells) > 1 else "there is one: name a second trace"
        raise InputError(f"two repeats to compare were wanted, but {many}")
    return [explain_cell(cell) for cell in able]


def cells_of(
    path: TracePath,
    cell: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    align: str = Align.TIME,
    lossless: bool = False,
    file_format: str | None = None,
    log_mib: int = LOG_MIB,
) -> list[CellTrace]:
    """Open the cells of a path, or the one of a name; of a recording, the run that it plays."""
    if (recorded := _recorded(Path(path))) is not None:
        return [recorded]
    options = ImportOptions(dict(columns or {}), Align(align), lossless or None, log_mib << 20)
    found = load_cells([Path(path)], options, file_format)
    if cell is None:
        return found
    named = [candidate for candidate in found if candidate.header.cell == cell]
    if not named:
        raise unknown(f"cell of {path}", cell, [candidate.header.cell for candidate in found])
    return named


def _recorded(path: Path) -> MemoryCell | None:
    """Play a recording, and return its run with what went into it; None where the file is none."""
    if not path.is_file():
        return None
    from samepath.engines.samepath import recordings

    if not recordings.is_recording(path):
        return None
    recording = recordings.read(path)
    info = recordings.engine_of(recording.simulator).described(recording.values)
    run = recordings.check(recording, str(path)).repeat
    header = Header(
        path.name,
        path.name,
        recording.scenario.name,
        info.channels,
        info.step_s,
        simulator=recording.simulator,
        lossless=info.capabilities.lossless,
        time_scale=info.time_scale,
    )
    # Its own log: what a replay takes down no longer knows which command came late.
    return MemoryCell(header, [replace(run, inputs=recording.inputs)])


def only_cell(cells: Sequence[CellTrace], path: TracePath) -> CellTrace:
    """The one cell of a path, with a run in it; of several, one must be named."""
    if len(cells) > 1:
        few = ", ".join(repr(cell.header.cell) for cell in cells[:6]) + (", ..." if len(cells) > 6 else "")
        raise InputError(f"{path} holds {len(cells)} cells ({few}): name one with --cell")
    if not cells[0].runs:
        raise InputError(f"{path}: a trace with a run in it was wanted, but there is none")
    return cells[0]


def _with_two(cell: CellTrace) -> CellTrace:
    if len(cell.runs) < 2:
        raise InputError(
            f"cell {cell.header.cell!r}: two repeats to compare were wanted, but {len(cell.runs)} came: run it again, or name "
            "a second trace"
        )
    return cell
