"""Other people's logs: a table of importers, open to more.

To add one, write a class with ``name``, ``accepts`` and ``read`` (see :class:`Importer`) and name it in an entry point of the
group ``samepath.importers``, or add it to ``BUILT_IN``. ``docs/importers.md`` has a complete example.

:func:`load_cells` opens whatever is named by paths: study folders, stored cells, and log files of any known format.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Protocol, cast

from samepath.core.errors import InputError, unknown
from samepath.core.files import regular
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.records import Header
from samepath.instrument.traces.store import HEADER_FILE, StoredCell


class Align(StrEnum):
    """How rows of different repeats are matched.

    ``time``: equal simulated time. ``start``: time since each repeat's first row. ``row``: the n-th row of each actor.
    """

    TIME = "time"
    START = "start"
    ROW = "row"


# Eight million rows of eight columns. The analysis takes some five times as much.
LOG_MIB: Final = 512


@dataclass(frozen=True)
class ImportOptions:
    """What the user says about a log: ``columns`` maps a key or channel to a column, ``x_m`` -> ``pos_x[cm]``.

    ``memory_bytes`` bounds what the numbers of all logs together take once they are read: a Parquet file or a recording of a
    few hundred kilobytes may hold gigabytes. ``accept_one_run``: a log without a repeat column is one run; otherwise it is
    refused, because most such logs have a column that names the runs and is called something else.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    align: Align = Align.TIME
    lossless: bool | None = None
    memory_bytes: int = LOG_MIB << 20
    accept_one_run: bool = False


def too_large(what: str, size_bytes: int, options: ImportOptions) -> InputError:
    """What to say of logs whose numbers do not fit."""
    wanted = f"numbers that take at most {options.memory_bytes >> 20} MiB in memory were wanted"
    came = -(-size_bytes >> 20)
    return InputError(f"{what}: {wanted}, but {came} MiB came: read fewer rows or columns, or raise --log-mib")


SOURCE: Final = "imported from "
"""How the source of a cell begins whose importer is one of ours; the name of the file or folder follows."""


def named_after_file(header: Header) -> bool:
    """Return True if a cell has its name from the file or folder of its log, not from what stands in the log."""
    if not header.source.startswith(SOURCE):
        return False
    file = header.source.removeprefix(SOURCE).partition(";")[0]  # empty for the current folder
    return not file or header.cell in (header.experiment, file)


class Importer(Protocol):
    """Turns log files into cells."""

    name: str

    def accepts(self, path: Path, head: bytes) -> bool:
        """Can this importer read the file? ``head`` is its first 4096 bytes."""
        ...

    def read(self, paths: Sequence[Path], options: ImportOptions) -> list[MemoryCell]:
        """Read files that were all accepted; raise InputError in one clear line."""
        ...


TABLE_SUFFIXES = (".csv", ".txt", ".tsv", ".parquet")
"""Files of a folder with these names are logs. Any other must be known by its first bytes."""
GENERAL = "tidy"
"""Takes any text with several fields in its first line: right for a file that was named, too eager for all of a folder."""
HEAD_BYTES = 4096

# First match wins: the particular before the general. By import path, because this package must know no simulator: how CARLA's
# recorder files are read is known in engines/carla.
BUILT_IN: Mapping[str, str] = {
    "carla-recorder": "samepath.engines.carla.recordings:CarlaRecorderImporter",
    "tsl": "samepath.instrument.traces.importers.tidy:TslImporter",
    GENERAL: "samepath.instrument.traces.importers.tidy:TidyImporter",
}


def importers() -> dict[str, Importer]:
    """Return all importers by name, those of other packages first."""
    table = {point.name: point.value for point in entry_points(group="samepath.importers")} | dict(BUILT_IN)
    found = {}
    for name, target in table.items():
        module, _, attribute = target.partition(":")
        found[name] = cast(Importer, getattr(import_module(module), attribute)())
    return found


def choose_importer(path: Path, name: str | None = None) -> Importer:
    """Return the importer for a file: the named one, or the first that accepts it."""
    known = importers()
    if name is not None:
        if name not in known:
            raise unknown("importer", name, known)
        return known[name]
    head = _head(path)
    if not head.strip():
        raise InputError(f"{path} is empty: a log with a header and rows was wanted")
    for importer in known.values():
        if importer.accepts(path, head):
            return importer
    raise InputError(f"{path}: no importer knows this format ({', '.join(known)}): write CSV or Parquet, or add an importer")


def logs_in(folder: Path) -> list[Path]:
    """Return the logs that lie in a folder: tables by their names, others by their first bytes.

    CARLA's recordings have no suffix of their own, so that only their content tells.
    """
    particular = [importer for name, importer in importers().items() if name != GENERAL]

    def is_log(path: Path) -> bool:
        if path.suffix in TABLE_SUFFIXES or not path.is_file():
            return path.suffix in TABLE_SUFFIXES
        try:
            head = _head(path)
        except InputError:  # nobody named this file: if it is no log, it does not matter
            return False
        return bool(head.strip()) and any(importer.accepts(path, head) for importer in particular)

    return sorted(path for path in folder.iterdir() if is_log(path))


def _head(path: Path) -> bytes:
    try:
        with regular(path).open("rb") as handle:
            return handle.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def load_cells(paths: Sequence[Path], options: ImportOptions | None = None, importer: str | None = None) -> list[CellTrace]:
    """Open everything named by ``paths``: folders with traces in them, or log files."""
    cells: list[CellTrace] = []
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist: a log file, a trace folder or a study folder was wanted")
        if path.is_dir():
            stored, logs = _in_folder(path)
            cells += stored
            files += logs
        else:
            files.append(regular(path))
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(choose_importer(file, importer).name, []).append(file)
    for name, members in groups.items():
        cells += choose_importer(members[0], name).read(members, options or ImportOptions())
    if not cells:
        raise InputError(f"nothing to analyse in {', '.join(str(path) for path in paths)}")
    return cells


def _in_folder(folder: Path) -> tuple[list[CellTrace], list[Path]]:
    """Find the traces of a folder, or else the logs that lie in it."""
    try:
        headers = sorted(folder.rglob(HEADER_FILE))
        logs = logs_in(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from error
    if headers:
        return [StoredCell(path.parent) for path in headers], []
    if not logs:
        raise InputError(
            f"{folder} holds no traces ({HEADER_FILE}) and no logs ({', '.join(TABLE_SUFFIXES)}, CARLA's recorder)"
        )
    return [], logs
