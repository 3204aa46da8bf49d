"""``samepath view``: from traces, logs and recordings to a page that shows them, served or as one file."""

import base64
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import samepath
from samepath.core.errors import InputError, unknown
from samepath.core.files import write_text_atomically
from samepath.core.states import Pose
from samepath.instrument.evaluation import Monitors, monitor_set
from samepath.instrument.execution.folder import STUDY_FILE, read_record, stored_cells
from samepath.instrument.explaining import cells_of
from samepath.instrument.progress import Display, display_for
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.importers import LOG_MIB, Align
from samepath.instrument.traces.records import Header, Repeat
from samepath.instrument.viewer.page import (
    IndexRow,
    ViewServer,
    ViewSource,
    cell_block,
    ground_block,
    index_of,
    index_row,
    number_in,
    served_page,
    whole_page,
)
from samepath.instrument.viewer.scene import POSES_MOST, DrawnCell, Ground, Surface, view_cell

if TYPE_CHECKING:
    from samepath.engines.samepath.looking import MapPictures, PosedActor
    from samepath.instrument.monitors.monitor import MonitorSet

PathLike = str | os.PathLike[str]
# Of one file, all cells together: 64 MB of poses, which pack to about a third.
FILE_POSES_MOST: Final = 8_000_000
_CACHE_BYTES: Final = 1 << 30
CELLS_MOST: Final = 2000
VIEW_FILE: Final = "view.html"
# Of one file, all cells together: 50 kB each.
PICTURES_MOST: Final = 200
_POSE_CHANNELS: Final = ("x_m", "y_m", "z_m", "roll_deg", "pitch_deg", "yaw_deg")
_PLACE_MOST_M: Final = 1e6


@dataclass(frozen=True)
class _Drawn:
    """A cell and the map that it is drawn on; None: a plain sheet."""

    cell: CellTrace
    map_name: str | None


class View:
    """Runs to look at. ``write`` makes one file of them, ``serve`` a page on loopback, which draws as many as there are."""

    def __init__(
        self,
        title: str,
        cells: Sequence[_Drawn],
        repeats: Collection[int] | None,
        display: Display,
        monitors: "MonitorSet | None" = None,
    ) -> None:
        self.title = title
        self._cells, self._repeats, self._display, self._monitors = cells, repeats, display, monitors
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        # A repeat is read once for the pictures of all its ticks.
        self._repeat = lru_cache(maxsize=4)(lambda number, repeat: self._cells[number].cell.load(repeat))
        self._pictures_of = lru_cache(maxsize=4)(_map_pictures)

    def write(self, path: PathLike, pictures: int = 0) -> Path:
        """Write one HTML file that needs nothing else; large cells are thinned to every second, third, ... tick.

        ``pictures`` is how many pictures of a camera are kept of each cell on a map of ours, at most.
        """
        if not 0 <= pictures * len(self._cells) <= PICTURES_MOST:
            raise InputError(
                f"--pictures: at most {PICTURES_MOST} in one file were wanted, but {pictures} of each of {len(self._cells)} "
                "cells came: choose fewer, or cells with --cell"
            )
        blocks: list[bytes] = []
        kept: list[list[dict[str, object]]] = []

        def take(number: int, drawn: DrawnCell) -> None:
            blocks.append(cell_block(drawn))
            kept.append(self._kept_pictures(number, drawn, pictures))

        rows = self._read(max(1, FILE_POSES_MOST // len(self._cells)), take)
        index = {**self._index(rows), "pictures": kept}
        write_text_atomically(Path(path), whole_page(index, blocks, [ground_block(ground) for ground in self._grounds]))
        return Path(path)

    def serve(self, port: int = 0) -> ViewServer:
        """Return a server of the page, not started; a port of 0 is a free one."""
        from samepath.engines.samepath.looking import MOUNTS

        page = served_page(
            self._index(self._read(POSES_MOST, lambda number, drawn: self._keep(number, cell_block(drawn))), MOUNTS)
        )
        source = ViewSource(lambda: page, self._block, lambda number: ground_block(self._grounds[number]), self.picture)
        return ViewServer(source, port)

    def picture(self, fields: Mapping[str, str]) -> bytes:
        """Draw what a camera sees of a repeat at a tick, as JPEG.

        ``cell``, ``repeat`` and ``tick`` say of what; a camera goes with an ``actor`` (``from``: behind, ahead, above), or is
        at ``x``, ``y``, ``z``, looking along ``yaw`` and ``pitch``, all in CARLA's frame.
        """
        number = int(number_in(fields, "cell", 0, len(self._cells) - 1))
        repeat, tick = int(number_in(fields, "repeat", 0, 1e9)), int(number_in(fields, "tick", -1e9, 1e9))
        if repeat not in {run.repeat for run in self._cells[number].cell.runs}:
            raise InputError(f"cell {self._cells[number].cell.header.cell!r} has no repeat {repeat}")
        return self._drawn_picture(number, repeat, tick, fields)

    def _drawn_picture(self, number: int, repeat: int, tick: int, fields: Mapping[str, str]) -> bytes:
        from samepath.engines.samepath.looking import mounted

        shown = self._cells[number]
        if shown.map_name is None:
            raise InputError("a map of samepath's was wanted to draw a picture on, but this cell has none")
        there = _posed(shown.cell, self._repeat(number, repeat), tick)
        without: tuple[int, ...] = ()
        if "from" in fields:
            actor = int(number_in(fields, "actor", 0, 2**63))
            poses = {posed.id: posed.pose for posed in there}
            if actor not in poses:
                raise InputError(f"actor {actor} is not there in repeat {repeat} at tick {tick}")
            camera = mounted(poses[actor], fields["from"])
            without = (actor,) if fields["from"] == "ahead" else ()  # or its own bonnet and roof hide the road
        else:
            camera = free_camera(fields)
        return self._pictures_of(shown.map_name).jpeg(there, camera, without=without)

    def _kept_pictures(self, number: int, drawn: DrawnCell, most: int) -> list[dict[str, object]]:
        """Pictures from behind the actor that parts first, where something happens, then evenly between."""
        if not most or self._cells[number].map_name is None:
            return []
        first = next(
            (
                outcome
                for outcome in drawn.outcomes
                if outcome.parting_tick == drawn.parting_tick and outcome.parting_tick is not None
            ),
            None,
        )
        actor = drawn.actors[0].id if first is None or first.parting_actor is None else first.parting_actor
        told = [drawn.parting_tick, *(mark.tick for mark in drawn.marks), *(monitor.worst_tick for monitor in drawn.monitors)]
        even = drawn.ticks[np.linspace(0, len(drawn.ticks) - 1, max(2, most)).round().astype(int)].tolist()
        repeats = [drawn.outcomes[0].repeats[0], *(() if first is None else (first.repeats[0],))]
        kept: dict[tuple[int, int], dict[str, object]] = {}
        for tick in dict.fromkeys([*(tick for tick in told if tick is not None), *even]):
            for repeat in repeats:
                if len(kept) == most:
                    break
                if actor not in {posed.id for posed in _posed(self._cells[number].cell, self._repeat(number, repeat), tick)}:
                    continue
                data = self._drawn_picture(number, repeat, tick, {"from": "behind", "actor": str(actor)})
                text = base64.b64encode(data).decode()
                kept[tick, repeat] = {"tick": tick, "repeat": repeat, "words": f"behind actor {actor}", "jpeg": text}
        return [kept[key] for key in sorted(kept)]

    @cached_property
    def _maps(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(shown.map_name for shown in self._cells if shown.map_name is not None))

    @cached_property
    def _grounds(self) -> tuple[Ground, ...]:
        from samepath.engines.samepath.looking import surfaces_of

        return tuple(
            Ground(name, tuple(Surface(surface.label, surface.vertices, surface.triangles) for surface in surfaces_of(name)))
            for name in self._maps
        )

    def _read(self, poses_most: int, take: Callable[[int, DrawnCell], None]) -> list[IndexRow]:
        """Read all cells, one after the other: of each what is drawn is taken, and what the index says of it remains."""
        rows = []
        with self._display.steps("reading", len(self._cells)) as advance:
            for number, shown in enumerate(self._cells):
                drawn = view_cell(shown.cell, poses_most, self._repeats, self._monitors)
                take(number, drawn)
                rows.append(index_row(drawn, None if shown.map_name is None else self._maps.index(shown.map_name)))
                advance(drawn.name, None)
        return rows

    def _index(self, rows: Sequence[IndexRow], mounts: Sequence[str] = ()) -> dict[str, Any]:
        return index_of(self.title, samepath.__version__, rows, self._maps, mounts)

    def _block(self, number: int) -> bytes:
        """Return a cell's block; those that were let go of are made again."""
        with self._lock:
            if number in self._blocks:
                self._blocks.move_to_end(number)
                return self._blocks[number]
            if not 0 <= number < len(self._cells):
                raise KeyError(number)
            self._keep(number, cell_block(view_cell(self._cells[number].cell, POSES_MOST, self._repeats, self._monitors)))
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
    monitors: Monitors | None = None,
    progress: bool = True,
) -> View:
    r"""Open runs to look at them in a browser.

    ``path`` is a study folder, a trace folder, a log or a recording, of a run or of what a server did for its clients.
    ``cells`` are some of its cells, by name, ``repeats`` some of their repeats; all by default. ``monitors`` is a monitor file,
    or what one holds; those of a study are taken where none are given.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> view("log.csv", progress=False).write("log.html").name
    'log.html'
    """
    place = Path(path)
    found = _drawn(place, columns, align, file_format, log_mib)
    if cells:
        names = [shown.cell.header.cell for shown in found]
        for name in cells:
            if name not in names:
                raise unknown(f"cell of {place}", name, names)
        found = [shown for shown in found if shown.cell.header.cell in cells]
    found = [shown for shown in found if shown.cell.runs]
    if not found:
        raise InputError(f"{place}: runs to look at were wanted, but none is finished")
    if len(found) > CELLS_MOST:
        raise InputError(f"{place} holds {len(found)} cells, more than {CELLS_MOST}: choose some with --cell")
    if monitors is None and (place / STUDY_FILE).exists():
        monitors = read_record(place).plan.judging.monitors or None
    return View(place.resolve().name or str(place), found, repeats, display_for(progress), monitor_set(monitors))


def write_beside(title: str, traces: Sequence[CellTrace], folder: Path, monitors: "MonitorSet | None" = None) -> str:
    """Write ``view.html`` of what a report is about, and return its name; nothing where that would be too much for a file."""
    from samepath.engines.samepath import looking

    if not traces or len(traces) > CELLS_MOST:
        return ""
    drawn = [_Drawn(cell, looking.map_of(cell.header.scenario) if _is_ours(cell) else None) for cell in traces]
    try:
        return View(title, drawn, None, Display(), monitors).write(folder / VIEW_FILE).name
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


def free_camera(fields: Mapping[str, str]) -> Pose:
    """Read where a camera is that goes with nobody."""
    x_m, y_m, z_m = (number_in(fields, name, -_PLACE_MOST_M, _PLACE_MOST_M) for name in ("x", "y", "z"))
    pitch_deg, yaw_deg = number_in(fields, "pitch", -90.0, 90.0, 0.0), number_in(fields, "yaw", -360.0, 360.0, 0.0)
    return Pose(x_m, y_m, z_m, pitch_deg=pitch_deg, yaw_deg=yaw_deg)


def _map_pictures(name: str) -> "MapPictures":
    from samepath.engines.samepath.looking import MapPictures

    return MapPictures.of_name(name)


def _posed(cell: CellTrace, run: Repeat, tick: int) -> "list[PosedActor]":
    """Who is there at the last logged tick that is not after ``tick``, and where, to the bit of the log."""
    from samepath.engines.samepath.looking import PosedActor

    at = np.searchsorted(cell.ticks, tick, side="right") - 1
    if at < 0:
        raise InputError(f"cell {cell.header.cell!r} begins at tick {int(cell.ticks[0])}, after tick {tick}")
    rows = np.flatnonzero(run.tick == cell.ticks[at])
    types = {actor.id: actor.type for actor in run.actors}
    columns = [run.channels.index(name) if name in run.channels else None for name in _POSE_CHANNELS]
    found = []
    for row in rows.tolist():
        values = [0.0 if column is None else float(run.values[row, column]) for column in columns]
        # A log without heights or turns is drawn flat and unturned, as the page draws it.
        pose = Pose(*values[:2], *(0.0 if np.isnan(value) else value for value in values[2:]))
        number = int(run.actor[row])
        found.append(PosedActor(number, types.get(number, ""), pose))
    return found


def _is_ours(cell: CellTrace) -> bool:
    return cell.header.simulator.startswith("samepath")
