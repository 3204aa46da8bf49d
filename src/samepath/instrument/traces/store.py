"""The lossless columnar store of one cell: a folder of a handful of Parquet files.

    cell.json                     what all repeats share (the header)
    part-000000.states.parquet    repeats 0..999; ``tables`` says what is in which table
    part-000000.runs.parquet
    part-000000.host.parquet
    part-000000.sensors.parquet   only where something was sensed; with part-000000.samples.parquet
    part-000000.inputs.parquet    only where somebody took down what went into the runs
    spool/000017.arrow            a finished repeat that is not in a part yet
    spool/000017.sensors          its sensor frames, if there are any
    spool/000017.inputs           what went into it, if somebody took it down
    .lock                         held (flock) by the writer, let go by the kernel when that ends in any way

What survives. Every file is written beside its place and renamed into it: a reader, or a killed writer, sees the old file or
the new one, never half of one. A finished repeat is spooled at once. So kill -9 loses the repeat in flight and nothing else,
at any moment. Spool files are not flushed to disk, because a flush per repeat would compete with the simulator being
measured: a power cut may lose repeats that are in no part yet, and a torn one is refused by name, not read. Parts are flushed,
file and folder.

Order of writes. A repeat counts as stored when its ``.arrow`` is in the spool, or when ``runs`` of a part lists it. Hence its
sensor frames and inputs are spooled before its states, and ``runs`` is written last of a part; only then are spool files
deleted, states before the others. Between any two of these steps the spool has the last word: readers leave out of parts what
is spooled, and the next compaction does the same work again with the same result.

Equal runs are equal files. Parts hold fixed ranges of repeats in a fixed order with fixed encodings, and no time stamps; so
equal runs give byte-identical ``states`` and ``runs`` files, however often the writer was interrupted. That is why a part that
gets new repeats is written anew, never appended to. What differs from run to run by nature (``host``, and ``inputs`` where a
clock drives the runs) has a file of its own.
"""

import fcntl
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samepath.core.errors import StoreError
from samepath.core.files import make_folder, regular, sync_folder, write_atomically, write_text_atomically
from samepath.core.inputs import InputLog
from samepath.instrument.traces import tables as schema
from samepath.instrument.traces.cell import Block, CellTrace, RunInfo, dense_block, info_of, place, scatter, scatter_digests
from samepath.instrument.traces.records import FrameTable, Header, HostLog, Repeat, Sample
from samepath.instrument.traces.tables import (
    StoredLogs,
    inputs_spool_path,
    pack_frames,
    pack_inputs,
    spool_frames,
    spool_inputs,
    spool_path,
    stored_logs,
    stored_samples,
    stored_tables,
)

# Few enough to be written anew when one repeat is added, many enough for a handful of files per cell.
REPEATS_PER_PART: Final = 1000
# What a reader holds in memory at a time: a row group, about 30 MB of a cell with twenty channels.
ROWS_PER_GROUP: Final = 1 << 17
HEADER_FILE: Final = "cell.json"
_COMPRESSION: Final = {"compression": "zstd", "compression_level": 3}


class StoreWriter:
    """Writes one cell. Only one writer at a time: a second one on the same folder is refused."""

    def __init__(self, folder: Path, header: Header) -> None:
        self.folder = make_folder(folder)
        self.header = header
        # A lock of the kernel, not a file that exists: it is let go however the process ends, and never left behind.
        self._lock = (folder / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise StoreError(f"{folder} is being written by another samepath: wait for it or choose another folder") from error
        try:
            self._begin()
        except BaseException:
            self.close_lock()
            raise

    def _begin(self) -> None:
        """Check the header, or write it. Under the lock: of two writers on one empty folder one is refused."""
        existing = self.folder / HEADER_FILE
        if existing.exists():
            found = schema.header_from_json(existing.read_text("utf-8"), str(existing))
            if found != self.header:
                raise StoreError(
                    f"{self.folder} holds another cell ({found.cell} of {found.experiment}): choose an empty folder"
                )
        else:
            write_text_atomically(existing, schema.header_to_json(self.header))
        make_folder(self.folder / "spool")

    def done(self) -> frozenset[int]:
        """Return the repeats that are stored already."""
        return stored_repeats(self.folder)

    def write(self, repeat: Repeat) -> int:
        """Store one finished repeat, whole or not at all; return how many bytes it takes until it is in a part."""
        if repeat.channels != self.header.channels:
            raise StoreError(f"repeat {repeat.repeat} has channels {repeat.channels}, the cell {self.header.channels}")
        # Run and host travel inside the file of the states: one rename makes all of a repeat exist, and none can be there
        # without its end.
        extra = {"run": schema.run_row(info_of(repeat)), "host": schema.host_row(repeat.repeat, repeat.host)}
        table = schema.states_table(self.header, repeat).replace_schema_metadata({"repeat": json.dumps(extra)})
        path = _spool_path(self.folder, repeat.repeat)
        # Frames and inputs first: the repeat exists once its states do.
        beside = spool_frames(self.folder, repeat) + spool_inputs(self.folder, repeat)
        # Not durable: see «What survives» above.
        write_atomically(path, lambda partial: _write_arrow(partial, table), durable=False)
        return path.stat().st_size + beside

    def compact(self) -> None:
        """Move spooled repeats into parts."""
        spooled = sorted((self.folder / "spool").glob("*.arrow"))
        for part in sorted({int(path.stem) // REPEATS_PER_PART for path in spooled}):
            self._compact_part(part)

    def _compact_part(self, part: int) -> None:
        spooled = [p for p in sorted((self.folder / "spool").glob("*.arrow")) if int(p.stem) // REPEATS_PER_PART == part]
        fresh = {int(path.stem): path for path in spooled}
        # The part as it is on disk, also what a spool file replaces: a compaction that was killed after ``runs`` and before its
        # spool was gone is done again here, with the same bytes.
        old = StoredCell(self.folder, only_part=part)
        # Both are read one repeat at a time and merged: a part of a thousand repeats never has to be in memory.
        kept = (repeat for repeat in old.each_in_parts() if repeat.repeat not in fresh)
        added = (_read_spool(self.header, path) for path in spooled)
        runs: list[dict[str, object]] = []
        hosts: list[dict[str, object]] = []

        # ``runs`` and ``hosts`` fill up as the states go by: they are whole only when the states are written.
        def collected() -> Iterator[pa.Table]:
            for repeat in heapq.merge(kept, added, key=lambda repeat: repeat.repeat):
                runs.append(schema.run_row(info_of(repeat)))
                hosts.append(schema.host_row(repeat.repeat, repeat.host))
                yield schema.states_table(self.header, repeat)

        # ``runs`` last: a part is whole when it is there, and readers begin with it.
        write_atomically(_part_path(self.folder, part, "states"), lambda path: _write_states(path, self.header, collected()))
        pack_frames(self.folder, part, fresh)
        pack_inputs(self.folder, part, fresh)
        tables = {"host": (hosts, schema.HOST), "runs": (runs, schema.RUNS)}
        for name, (rows, table_schema) in tables.items():
            write_atomically(_part_path(self.folder, part, name), partial(_write_rows, rows, table_schema))
        # The part is whole and on disk; only now may the spool go, states before what belongs to them.
        for number, path in fresh.items():
            path.unlink()
            spool_path(self.folder, number).unlink(missing_ok=True)
            inputs_spool_path(self.folder, number).unlink(missing_ok=True)

    def close_lock(self) -> None:
        """Let go of the folder."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            # After an error nothing more is written: the disk may be full, and the spool is readable as it is.
            if kind is None or issubclass(kind, KeyboardInterrupt):
                self.compact()
                sync_folder(self.folder)
        finally:
            self.close_lock()


class StoredCell(CellTrace):
    """Reads a cell from its folder."""

    def __init__(self, folder: Path, only_part: int | None = None) -> None:
        self.folder = folder
        path = folder / HEADER_FILE
        try:
            text = regular(path).read_text("utf-8")
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
        self.header = schema.header_from_json(text, str(path))
        self._only_part = only_part

    @cached_property
    def _part_runs(self) -> list[tuple[int, tuple[RunInfo, ...]]]:
        """The parts and the repeats in them, less those that a newer spool file replaces."""
        # A compaction reads one part and decides by itself what its spool files replace; everybody else believes the spool.
        spool = {} if self._only_part is not None else self._spool
        found = []
        for path in _parts(self.folder, "runs"):
            part = int(path.name.split(".")[0].removeprefix("part-"))
            # Parts are found by their ``runs``: ``states`` without one are of a compaction that was killed, and count for
            # nothing.
            if self._only_part in (None, part):
                found.append((part, tuple(info for info in _read_runs(path) if info.repeat not in spool)))
        return found

    @cached_property
    def _spool(self) -> dict[int, Path]:
        return {int(path.stem): path for path in sorted((self.folder / "spool").glob("*.arrow"))}

    @cached_property
    def _spool_runs(self) -> tuple[RunInfo, ...]:
        if self._only_part is not None:
            return ()
        return tuple(info_of(_read_spool(self.header, path)) for path in self._spool.values())

    @cached_property
    def runs(self) -> tuple[RunInfo, ...]:
        infos = [info for _, part in self._part_runs for info in part] + list(self._spool_runs)
        return tuple(sorted(infos, key=lambda info: info.repeat))

    @cached_property
    def ticks(self) -> NDArray[np.int64]:
        found = [np.empty(0, np.int64)]
        for part, _ in self._part_runs:
            with _open(_part_path(self.folder, part, "states")) as file:
                # One column, one group at a time: the ticks of all repeats are needed before the first block can be laid out.
                groups = (file.read_row_group(group, columns=["tick"]) for group in range(file.num_row_groups))
                found += [np.unique(table["tick"].to_numpy()) for table in groups]
        found += [np.unique(_read_spool(self.header, path).tick) for path in self._spool.values()]
        return np.unique(np.concatenate(found))

    def blocks(self, channels: Sequence[str], *, digests: bool = False) -> Iterator[Block]:
        """Read all repeats in order, one row group at a time."""
        names = ["repeat", "tick", "actor", *channels, *(["digest"] if digests else [])]
        for part, infos in self._part_runs:
            wanted = np.array([info.repeat for info in infos], np.int64)
            with _open(_part_path(self.folder, part, "states")) as file:
                for group in range(file.num_row_groups):
                    # A group holds whole repeats (see :func:`_write_states`), so it can be laid out without its neighbours.
                    block = self._block(file.read_row_group(group, columns=names), wanted, channels, digests=digests)
                    if block is not None:
                        yield block
        # Repeats without a single row are in no row group, but they are repeats: absent everywhere.
        silent = tuple(info.repeat for _, infos in self._part_runs for info in infos if info.rows == 0)
        if silent:
            nothing = np.full((len(silent), self.columns), np.nan)
            raw = np.zeros((*nothing.shape, 2), np.uint64) if digests else None
            yield Block(silent, dict.fromkeys(channels, nothing), np.zeros(nothing.shape, np.bool_), raw)
        for path in self._spool.values() if self._only_part is None else ():
            repeat = _read_spool(self.header, path)
            yield dense_block(self, [repeat], channels, digests=digests)

    def _block(self, table: pa.Table, wanted: NDArray[np.int64], channels: Sequence[str], *, digests: bool) -> Block | None:
        number = table["repeat"].to_numpy()
        # ``states`` may be newer than ``runs``, or hold what a spool file replaces: only what is wanted counts.
        keep = np.isin(number, wanted)
        if not keep.all():
            table = table.filter(pa.array(keep))
            number = number[keep]
        if len(number) == 0:
            return None
        # Repeats of one group come in order and none is in two groups, so the numbers of a block rise like those of the cell.
        repeats, row_repeat = np.unique(number, return_inverse=True)
        positions, present = place(self, table["tick"].to_numpy(), table["actor"].to_numpy(), row_repeat, len(repeats))
        values = {name: scatter(_floats(table[name]), positions, present) for name in channels}
        raw = scatter_digests(schema.digests_of(table["digest"]), positions, present) if digests else None
        return Block(tuple(repeats.tolist()), values, None if present.all() else present, raw)

    def load(self, repeat: int) -> Repeat:
        if self._only_part is None and repeat in self._spool:
            return _read_spool(self.header, self._spool[repeat])
        part = repeat // REPEATS_PER_PART
        info = next(info for info in self.runs if info.repeat == repeat)
        with _open(_part_path(self.folder, part, "states")) as file:
            states = _filtered(file, repeat)
        with _open(_part_path(self.folder, part, "host")) as file:
            table = file.read()
        # The row of this repeat alone is read into Python: a thousand host logs would take longer than the states.
        rows = table.filter(pc.equal(table["repeat"], repeat)).to_pylist()
        return schema.repeat_from_tables(self.header, states, info, schema.host_from_row(rows[0]) if rows else HostLog())

    def each_in_parts(self) -> Iterator[Repeat]:
        """Read the repeats of all parts whole, in order, one row group in memory at a time."""
        for part, infos in self._part_runs:
            hosts = dict(self._part_hosts(part))
            rows = self._rows_of_part(part)
            number, table = next(rows, (-1, None))
            for info in infos:
                # ``states`` may be newer than ``runs``: rows of a repeat that is not listed are passed over.
                while table is not None and number < info.repeat:
                    number, table = next(rows, (-1, None))
                states = table if number == info.repeat else None
                # A run that ended before its first state has no rows, but it is a repeat.
                if states is None:
                    states = schema.states_schema(self.header).empty_table()
                yield schema.repeat_from_tables(self.header, states, info, hosts.get(info.repeat, HostLog()))

    def _rows_of_part(self, part: int) -> Iterator[tuple[int, pa.Table | None]]:
        with _open(_part_path(self.folder, part, "states")) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                # Rows are sorted by repeat: each is one slice of the table, and nothing is copied.
                numbers, starts = np.unique(table["repeat"].to_numpy(), return_index=True)
                ends = [*starts[1:].tolist(), table.num_rows]
                for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
                    yield number, table.slice(start, end - start)

    def host_logs(self) -> Iterator[tuple[int, HostLog]]:
        for part, infos in self._part_runs:
            kept = {info.repeat for info in infos}
            yield from ((number, log) for number, log in self._part_hosts(part) if number in kept)
        for path in self._spool.values():
            repeat = _read_spool(self.header, path)
            yield repeat.repeat, repeat.host

    def sensor_tables(self) -> tuple[FrameTable, ...]:
        return stored_tables(self.folder, frozenset(self._spool))

    def sensor_samples(self, digests: frozenset[bytes]) -> dict[bytes, Sample]:
        return stored_samples(self.folder, frozenset(self._spool), digests)

    def input_digests(self) -> dict[int, str]:
        return dict(self._logs.digests)

    def inputs(self, repeat: int) -> InputLog | None:
        return self._logs.read(repeat)

    @cached_property
    def _logs(self) -> StoredLogs:
        return stored_logs(self.folder, frozenset(self._spool))

    def _part_hosts(self, part: int) -> Iterator[tuple[int, HostLog]]:
        with _open(_part_path(self.folder, part, "host")) as file:
            for row in file.read().to_pylist():
                yield row["repeat"], schema.host_from_row(row)


def stored_repeats(folder: Path) -> frozenset[int]:
    """Return the numbers of the repeats in a cell's folder, without reading their rows."""
    spooled = {int(path.stem) for path in (folder / "spool").glob("*.arrow")}
    parts: set[int] = set()
    for path in _parts(folder, "runs"):
        with _open(path) as file:
            parts.update(file.read(columns=["repeat"])["repeat"].to_pylist())
    # A union: between ``runs`` of a part and the last file of its spool a repeat is in both.
    return frozenset(spooled | parts)


def spooled_bytes(folder: Path) -> int:
    """Return the size of the repeats of a cell's folder that are not in a part yet."""
    # By the first digit: what a killed writer left half written begins with a dot.
    return sum(path.stat().st_size for path in (folder / "spool").glob("[0-9]*"))


def store_repeats(folder: Path, header: Header, repeats: Iterable[Repeat]) -> StoredCell:
    """Write repeats that are at hand and return the stored cell."""
    with StoreWriter(folder, header) as writer:
        for repeat in repeats:
            writer.write(repeat)
    return StoredCell(folder)


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    result: NDArray[np.float64] = column.to_numpy()
    return result


def _filtered(file: pq.ParquetFile, repeat: int) -> pa.Table:
    """Read the rows of one repeat: by row-group statistics, so that the rest is not touched."""
    index = file.schema_arrow.get_field_index("repeat")
    groups = []
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(index).statistics
        if statistics is None or statistics.min <= repeat <= statistics.max:
            groups.append(group)
    table = file.read_row_groups(groups)
    return table.filter(pc.equal(table["repeat"], repeat))


def _spool_path(folder: Path, repeat: int) -> Path:
    return folder / "spool" / f"{repeat:06d}.arrow"


def _part_path(folder: Path, part: int, name: str) -> Path:
    return folder / f"part-{part:06d}.{name}.parquet"


def _parts(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"part-*.{name}.parquet"))


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(f"{path} is not a whole Parquet file ({reason}): restore it or run the study again") from error


def _read_runs(path: Path) -> list[RunInfo]:
    with _open(path) as file:
        return [schema.run_from_row(row) for row in file.read().to_pylist()]


def _write_arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_rows(rows: list[dict[str, object]], table_schema: pa.Schema, path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=table_schema), path, **_COMPRESSION)


def _read_spool(header: Header, path: Path) -> Repeat:
    try:
        with pa.OSFile(str(path), "rb") as source:
            table = pa.ipc.open_file(source).read_all()
        extra: dict[str, Any] = json.loads(table.schema.metadata[b"repeat"])
    # Spool files are not flushed: a power cut leaves them empty, short or full of zeros. Whatever is wrong is one error that
    # names the file.
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}): delete it and run the study again to repeat that run") from error
    return schema.repeat_from_tables(header, table, schema.run_from_row(extra["run"]), schema.host_from_row(extra["host"]))


def _write_states(path: Path, header: Header, tables: Iterator[pa.Table]) -> None:
    """Write whole repeats into row groups of about ``ROWS_PER_GROUP`` rows, in bounded memory."""
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = []
    rows = 0
    try:
        for table in tables:
            waiting.append(table)
            rows += table.num_rows
            if rows >= ROWS_PER_GROUP:
                writer = _write_group(writer, path, header, waiting)
                waiting, rows = [], 0
        # A part of repeats without a single row still gets its file: readers open ``states`` of every part that has ``runs``.
        if waiting or writer is None:
            writer = _write_group(writer, path, header, waiting)
    finally:
        if writer is not None:
            writer.close()


def _write_group(writer: pq.ParquetWriter | None, path: Path, header: Header, waiting: list[pa.Table]) -> pq.ParquetWriter:
    full = schema.states_schema(header)
    table = pa.concat_tables(waiting).unify_dictionaries() if waiting else full.empty_table()
    if writer is None:
        writer = pq.ParquetWriter(path, full, data_page_version="2.0", **_encodings(header, table), **_COMPRESSION)
    # Exactly one group per call, so that no repeat is cut in two; pyarrow refuses groups of 0 rows, even of an empty table.
    writer.write_table(table, row_group_size=max(1, table.num_rows))
    return writer


def _encodings(header: Header, table: pa.Table) -> dict[str, Any]:
    """Choose per channel by its first row group: repeated values as a dictionary, noise split by bytes (both lossless)."""
    noisy = []
    # By the numbers alone: the choice must come out the same for equal runs. Where more than half of the values are different a
    # dictionary would be longer than the column itself.
    for name in ("time_s", *header.channels):
        sample = table[name].slice(0, 1 << 16)
        if len(sample) and len(sample.unique()) > len(sample) // 2:
            noisy.append(name)
    dictionary = [name for name in table.schema.names if name not in noisy]
    return {"use_dictionary": dictionary, "column_encoding": dict.fromkeys(noisy, "BYTE_STREAM_SPLIT")}
