"""What went into each repeat, in the store: ``part-000000.inputs.parquet``, only where somebody took it down.

One row per *distinct* log, with the repeats that had it: repeats of a deterministic simulator share one, and which of them had
the same inputs to the bit is read off without opening a log. A row is a row group of its own, so that the log of one repeat is
read without the others, and a part is packed with one log in memory at a time. Rows are sorted by their first repeat.

A finished repeat's log waits in ``spool/000017.inputs``, a table of one row. The order of writes is that of sensor frames:
spooled before the states, packed before ``runs``, deleted last (:mod:`samepath.instrument.traces.store`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from samepath.core.errors import InputError, StoreError
from samepath.core.files import write_atomically
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.instrument.traces.records import Repeat, log_digest

LOGS: Final = pa.schema(
    [
        ("digest", pa.string()),
        ("repeats", pa.list_(pa.int64())),
        ("covers", pa.list_(pa.string())),
        ("step_s", pa.float64()),
        ("step", pa.list_(pa.int64())),
        ("kind", pa.list_(pa.string())),
        ("name", pa.list_(pa.string())),
        ("actor", pa.list_(pa.int64())),
        ("values", pa.list_(pa.list_(pa.float64()))),
        ("text", pa.list_(pa.string())),
        ("decided_step", pa.list_(pa.int64())),
    ]
)
_ENTRY: Final = LOGS.names[4:]
_COMPRESSION: Final = {"compression": "zstd", "compression_level": 3}


def inputs_spool_path(folder: Path, repeat: int) -> Path:
    """Where the log of a finished repeat waits."""
    return folder / "spool" / f"{repeat:06d}.inputs"


def spool_inputs(folder: Path, repeat: Repeat) -> int:
    """Keep the log of a finished repeat, before its states are spooled; return how many bytes it takes."""
    path = inputs_spool_path(folder, repeat.repeat)
    if repeat.inputs is None:
        path.unlink(missing_ok=True)  # of a run of the same number that was thrown away
        return 0
    table = pa.Table.from_pylist([_row(repeat.repeat, repeat.inputs)], LOGS)
    write_atomically(path, lambda partial: pq.write_table(table, partial), durable=False)
    return path.stat().st_size


def pack_inputs(folder: Path, part: int, repeats: Iterable[int]) -> None:
    """Move the logs of spooled repeats into a part; before its ``runs`` is written, and before any spool file is deleted."""
    path = part_path(folder, part)
    fresh = {repeat: inputs_spool_path(folder, repeat) for repeat in sorted(repeats)}
    spooled = {repeat: spool for repeat, spool in fresh.items() if spool.exists()}
    if not path.exists() and not spooled:
        return
    # Where each distinct log is, and who had it: digests alone are read here.
    places: dict[str, tuple[Path, int]] = {}
    owners: dict[str, list[int]] = {}
    for source, only in [(path, None), *((spool, repeat) for repeat, spool in spooled.items())]:
        for group, row in enumerate(_heads(source)):
            places.setdefault(row["digest"], (source, group))
            kept = [only] if only is not None else [repeat for repeat in row["repeats"] if repeat not in fresh]
            owners.setdefault(row["digest"], []).extend(kept)
    order = sorted((digest for digest in owners if owners[digest]), key=lambda digest: min(owners[digest]))

    def write(partial: Path) -> None:
        with pq.ParquetWriter(partial, LOGS, **_COMPRESSION) as writer:
            for digest in order:
                source, group = places[digest]
                table = _open(source).read_row_group(group).cast(LOGS)
                had = pa.array([sorted(owners[digest])], LOGS.field("repeats").type)
                writer.write_table(table.set_column(1, LOGS.field("repeats"), had))

    write_atomically(path, write)


@dataclass(frozen=True)
class StoredLogs:
    """Where the log of every repeat of a cell is, and its digest: found once, so that reading one log reads one log."""

    digests: dict[int, str]
    places: dict[int, tuple[Path, int]]

    def read(self, repeat: int) -> InputLog | None:
        """Read the log of one repeat; None where none was taken down."""
        if repeat not in self.places:
            return None
        path, group = self.places[repeat]
        return _log(_open(path).read_row_group(group).to_pylist()[0], path)


def stored_logs(folder: Path, spooled: frozenset[int]) -> StoredLogs:
    """Find the logs of a cell; what is spooled replaces what is in a part, and a repeat without a log had none taken down."""
    found: dict[int, tuple[str, Path, int]] = {}
    for path in sorted(folder.glob("part-*.inputs.parquet")):
        for group, row in enumerate(_heads(path)):
            found |= {repeat: (row["digest"], path, group) for repeat in row["repeats"] if repeat not in spooled}
    for repeat in sorted(spooled):
        path = inputs_spool_path(folder, repeat)
        for row in _heads(path):
            found[repeat] = (row["digest"], path, 0)
    ordered = sorted(found.items())
    return StoredLogs(
        {repeat: digest for repeat, (digest, _, _) in ordered},
        {repeat: (path, group) for repeat, (_, path, group) in ordered},
    )


def part_path(folder: Path, part: int) -> Path:
    """Where the logs of a part are."""
    return folder / f"part-{part:06d}.inputs.parquet"


def _row(repeat: int, log: InputLog) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [getattr(entry, name) for entry in log] for name in _ENTRY}
    return {"digest": log_digest(log), "repeats": [repeat], "covers": sorted(log.covers), "step_s": log.step_s, **columns}


def _log(row: dict[str, Any], where: Path) -> InputLog:
    try:
        columns = zip(*(row[name] for name in _ENTRY), strict=True)
        entries = [
            Input(step, InputKind(kind), name, actor, tuple(values), text, decided)
            for step, kind, name, actor, values, text, decided in columns
        ]
        log = InputLog(entries, frozenset(InputKind(kind) for kind in row["covers"]), row["step_s"])
    except (InputError, ValueError, TypeError) as error:
        raise StoreError(f"{where}: a log of inputs cannot be read ({error}): run the study again") from error
    if log_digest(log) != row["digest"]:
        raise StoreError(f"{where}: a log of inputs is not the one that was written: restore the file or run the study again")
    return log


def _heads(path: Path) -> Iterator[dict[str, Any]]:
    """Digest and repeats of every log of a file; none where there is no file."""
    if path.exists():
        file = _open(path)
        try:
            yield from file.read(columns=["digest", "repeats"]).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from error


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> StoreError:
    reason = str(error).splitlines()[0]
    return StoreError(f"{path} is not a whole Parquet file ({reason}): restore it or run the study again")
