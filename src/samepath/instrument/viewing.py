"""``samepath view``: from traces, logs and recordings to a page that shows them, served or as one file."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import samepath
from samepath.core.errors import InputError, unknown
from samepath.core.files import write_text_atomically
from samepath.instrument.execution.folder import STUDY_FILE, read_record, stored_cells
from samepath.instrument.explaining import cells_of
from samepath.instrument.progress import Display, display_for
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.importers import LOG_MIB, Align
from samepath.instrument.traces.records import Header
from samepath.instrument.viewer.packing import IndexRow, cell_block, ground_block, index_of, index_row
from samepath.instrument.viewer.page import served_page, whole_page
from samepath.instrument.viewer.scene import POSES_MOST, Ground, Surface, view_cell
from samepath.instrument.viewer.server import ViewServer, ViewSource

PathLike = str | os.PathLike[str]
# Of one file, all cells together: 64 MB of poses, which pack to about a third.
FILE_POSES_MOST: Final = 8_000_000
_CACHE_BYTES: Final = 1 << 30
CELLS_MOST: Final = 2000
VIEW_FILE: Final = "view.html"


@dataclass(frozen=True)
class _Drawn:
    """A cell and the map that it is drawn on; None: a plain sheet."""

    cell: CellTrace
    map_name: str | None


class View:
    """Runs to look at. ``write`` makes one file of them, ``serve`` a page on loopback, which draws as many as there are."""

    def __init__(self, title: str, cells: Sequence[_Drawn], repeats: Collection[int] | None, display: Display) -> None:
        self.title = title
        self._cells, self._repeats, self._display = cells, repeats, display
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def write(self, path: PathLike) -> Path:
        """Write one HTML file that needs nothing else; large cells are thinned to every second, third, ... tick."""
        blocks: list[bytes] = []
        rows = self._read(max(1, FILE_POSES_MOST // len(self._cells)), lambda _, block: blocks.append(block))
        write_text_atomically(Path(path), whole_page(self._index(rows), blocks, [ground_block(one) for one in self._grounds]))
        return Path(path)

    def serve(self, port: int = 0) -> ViewServer:
        """Return a server of the page, not started; a port of 0 is a free one."""
        page = served_page(self._index(self._read(POSES_MOST, self._keep)))
        return ViewServer(ViewSource(lambda: page, self._block, lambda number: ground_block(self._grounds[number])), port)

    @cached_property
    def _maps(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.map_name for one in self._cells if one.map_name is not None))

    @cached_property
    def _grounds(self) -> tuple[Ground, ...]:
        from samepath.engines.samepath.looking import surfaces_of

        return tuple(
            Ground(name, tuple(Surface(one.label, one.vertices, one.triangles) for one in surfaces_of(name)))
            for name in self._maps
        )

    def _read(self, poses_most: int, take: Callable[[int, bytes], None]) -> list[IndexRow]:
        """Read all cells, one after the other: of each its block is taken, and what the index says of it remains."""
        rows = []
        with self._display.steps("reading", len(self._cells)) as advance:
            for number, one in enumerate(self._cells):
                drawn = view_cell(one.cell, poses_most, self._repeats)
                take(number, cell_block(drawn))
                rows.append(index_row(drawn, None if one.map_name is None else self._maps.index(one.map_name)))
                advance(drawn.name, None)
        return rows

    def _index(self, rows: Sequence[IndexRow]) -> dict[str, Any]:
        return index_of(self.title, samepath.__version__, rows, self._maps)

    def _block(self, number: int) -> bytes:
        """Return a cell's block; those that were let go of are made again."""
        with self._lock:
            if number in self._blocks:
                self._blocks.move_to_end(number)
                return self._blocks[number]
            if not 0 <= number < len(self._cells):
                raise KeyError(number)
            self._keep(number, cell_block(view_cell(self._cells[number].cell, POSES_MOST, self._repeats)))
            return self._blocks[number]

    def _keep(self, number: int, block: bytes) -> None:
        self._blocks[number] = block
        while sum(map(len, self._blocks.values())) > _CACHE_BYTES and len(self._blocks) > 1:
            self._blocks.popitem(last=False)


def view(
    path: PathLike,
    *,
    cells: Sequence[str] | None = None,
    repeats: Collection[int] | None = None,
    columns: dict[str, str] | None = None,
    align: str = Align.TIME,
    file_format: str | None = None,
    log_mib: int = LOG_MIB,
    progress: bool = True,
) -> View:
    r"""Open runs to look at them in a browser.

    ``path`` is a study folder, a trace folder, a log or a recording, of a run or of what a server did for its clients.
    ``cells`` are some of its cells, by name, ``repeats`` some of their repeats; all by default.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> view("log.csv", progress=False).write("log.html").name
    'log.html'
    """
    place = Path(path)
    found = _drawn(place, columns, align, file_format, log_mib)
    if cells:
        names = [one.cell.header.cell for one in found]
        for name in cells:
            if name not in names:
                raise unknown(f"cell of {place}", name, names)
        found = [one for one in found if one.cell.header.cell in cells]
    found = [one for one in found if one.cell.runs]
    if not found:
        raise InputError(f"{place}: runs to look at were wanted, but none is finished")
    if len(found) > CELLS_MOST:
        raise InputError(f"{place} holds {len(found)} cells, more than {CELLS_MOST}: choose some with --cell")
    return View(place.resolve().name or str(place), found, repeats, display_for(progress))


def write_beside(title: str, traces: Sequence[CellTrace], folder: Path) -> str:
    """Write ``view.html`` of what a report is about, and return its name; nothing where that would be too much for a file."""
    from samepath.engines.samepath import looking

    if not traces or len(traces) > CELLS_MOST:
        return ""
    drawn = [_Drawn(cell, looking.map_of(cell.header.scenario) if _is_ours(cell) else None) for cell in traces]
    try:
        return View(title, drawn, None, Display()).write(folder / VIEW_FILE).name
    except InputError:
        # A cell that no file can hold: samepath view serves it, or says what to leave out.
        return ""


def _drawn(place: Path, columns: dict[str, str] | None, align: str, file_format: str | None, log_mib: int) -> list[_Drawn]:
    from samepath.engines.samepath import looking

    if looking.is_session(place):
        session = looking.session_trace(place)
        header = Header(place.name, place.name, "", session.channels, session.step_s, simulator="samepath serve")
        return [_Drawn(MemoryCell(header, [session.repeat]), None if session.map_name == looking.FLAT else session.map_name)]
    if (place / STUDY_FILE).exists():
        # In the plan's order, as the report has them: a number of a cell means the same in both.
        cells: list[CellTrace] = list(stored_cells(read_record(place).plan, place))
    else:
        cells = cells_of(place, columns=columns, align=align, file_format=file_format, log_mib=log_mib)
    # Of a simulator of somebody else's only the scenario is ours: its own map may be another one.
    return [_Drawn(cell, looking.map_of(cell.header.scenario) if _is_ours(cell) else None) for cell in cells]


def _is_ours(cell: CellTrace) -> bool:
    return cell.header.simulator.startswith("samepath")
