"""From paths to cells: study folders, stored cells, and log files of any known format."""

from collections.abc import Sequence
from pathlib import Path

from samepath.core.errors import InputError
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.importers import TABLE_SUFFIXES, ImportOptions, choose_importer, logs_in
from samepath.instrument.traces.store import HEADER_FILE, StoredCell


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
            files.append(path)
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
