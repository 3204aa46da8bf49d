"""The tables of a stored cell, version 1, and how records go into them and come out.

``states``  one row per repeat, tick and actor: keys, time, channels, chained digest. Null: the channel does not apply.
``runs``    one row per repeat: digest, end, actors, events.
``host``    one row per repeat: CPU and GPU samples, wall time per tick, conditions as measured. Apart, because equal
            runs are equal files and host samples never are.

Cells with sensors have two more, and a second spool file per repeat:

``sensors`` one row per repeat, tick and sensor: kind, digest.
``samples`` the contents that were kept, once each, by digest: type, shape, bytes.

Numbers are stored as they are: float64 and int64, no decimal text, no scaling. A repeat read back has the bits it was written
with; the digest column lets a reader check that.

What went into each repeat, in the store: ``part-000000.inputs.parquet``, only where somebody took it down.

One row per *distinct* log, with the repeats that had it: repeats of a deterministic simulator share one, and which of them had
the same inputs to the bit is read off without opening a log. A row is a row group of its own, so that the log of one repeat is
read without the others, and a part is packed with one log in memory at a time. Rows are sorted by their first repeat.

A finished repeat's log waits in ``spool/000017.inputs``, a table of one row. The order of writes is that of sensor frames:
spooled before the states, packed before ``runs``, deleted last (:mod:`samepath.instrument.traces.store`).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samepath.core.errors import InputError, StoreError
from samepath.core.files import write_atomically
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.instrument.traces.cell import RunInfo
from samepath.instrument.traces.records import (
    SCHEMA_VERSION,
    Actor,
    Event,
    FrameTable,
    Header,
    HostLog,
    HostSample,
    Repeat,
    RunEnd,
    Sample,
    SensorFrame,
    log_digest,
    samples_of,
)

_ACTOR = pa.struct([("id", pa.int64()), ("type", pa.string())])
_EVENT = pa.struct(
    [
        ("tick", pa.int64()),
        ("kind", pa.string()),
        ("actor", pa.int64()),
        ("other", pa.int64()),
        ("impulse_ns", pa.list_(pa.float64())),
        ("detail", pa.string()),
    ]
)
_SAMPLE = pa.struct(
    [
        ("tick", pa.int64()),
        ("wall_s", pa.float64()),
        ("cpu_ratio", pa.float64()),
        ("core_ratios", pa.list_(pa.float64())),
        ("gpu_ratio", pa.float64()),
    ]
)
RUNS = pa.schema(
    [
        ("repeat", pa.int64()),
        ("digest", pa.string()),
        ("end_tick", pa.int64()),
        ("end_reason", pa.string()),
        ("completed", pa.bool_()),
        ("rows", pa.int64()),
        ("actors", pa.list_(_ACTOR)),
        ("events", pa.list_(_EVENT)),
    ]
)
HOST = pa.schema(
    [
        ("repeat", pa.int64()),
        ("samples", pa.list_(_SAMPLE)),
        ("latency_ticks", pa.list_(pa.int64())),
        ("latency_s", pa.list_(pa.float64())),
        ("measured", pa.string()),
        ("frame_ticks", pa.list_(pa.int64())),
        ("frame_s", pa.list_(pa.float64())),
        ("game_s", pa.list_(pa.float64())),
        ("draw_s", pa.list_(pa.float64())),
    ]
)


def states_schema(header: Header) -> pa.Schema:
    """Return the states table's schema for a cell."""
    word = pa.dictionary(pa.int32(), pa.string())
    keys = [
        ("experiment", word),
        ("cell", word),
        ("repeat", pa.int64()),
        ("tick", pa.int64()),
        ("time_s", pa.float64()),
    ]
    keys += [("actor", pa.int64()), ("actor_type", word)]
    channels = [(name, pa.float64()) for name in header.channels]
    return pa.schema([*keys, *channels, ("digest", pa.binary(16))], metadata={"samepath": header_to_json(header)})


def header_to_json(header: Header) -> str:
    """Write a header as canonical JSON."""
    return json.dumps(asdict(header), sort_keys=True, indent=1, allow_nan=False)


def header_from_json(text: str, where: str) -> Header:
    """Read a header; refuse other versions by name."""
    try:
        fields: dict[str, Any] = json.loads(text)
        version = fields["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{where}: a samepath trace header was wanted, but it cannot be read ({error})") from error
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{where}: trace version {version}, but this samepath reads version {SCHEMA_VERSION}: "
            "use the samepath that wrote it"
        )
    try:
        return Header(**{**fields, "channels": tuple(fields["channels"])})
    except (TypeError, KeyError) as error:
        raise StoreError(f"{where}: the trace header has other fields than expected ({error})") from error


def states_table(header: Header, repeat: Repeat) -> pa.Table:
    """Turn a repeat's rows into a table."""
    count = len(repeat.tick)
    types = {actor.id: actor.type for actor in repeat.actors}
    ids = np.array(sorted(types), np.int64)
    type_index = np.searchsorted(ids, repeat.actor).astype(np.int32)
    type_names = pa.array([types[actor_id] for actor_id in ids.tolist()], pa.string())
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([header.experiment])),
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([header.cell])),
        pa.array(np.full(count, repeat.repeat)),
        pa.array(repeat.tick),
        pa.array(repeat.time_s),
        pa.array(repeat.actor),
        pa.DictionaryArray.from_arrays(pa.array(type_index), type_names),
    ]
    for index in range(len(header.channels)):
        values = np.ascontiguousarray(repeat.values[:, index])
        # Absent is absent: whoever reads the file sees no value there. Read back by us, it is NaN again.
        missing = np.isnan(values)
        columns.append(pa.array(values, mask=missing) if missing.any() else pa.array(values))
    columns.append(pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(repeat.digests.tobytes())]))
    return pa.Table.from_arrays(columns, schema=states_schema(header))


def run_row(info: RunInfo) -> dict[str, object]:
    """Turn a repeat's summary into a row of ``runs``."""
    return {
        "repeat": info.repeat,
        "digest": info.digest,
        "end_tick": info.end.tick,
        "end_reason": info.end.reason,
        "completed": info.end.completed,
        "rows": info.rows,
        "actors": [asdict(actor) for actor in info.actors],
        "events": [asdict(event) for event in info.events],
    }


def run_from_row(row: dict[str, Any]) -> RunInfo:
    """Read a row of ``runs``."""
    events = tuple(
        Event(**{**event, "impulse_ns": None if event["impulse_ns"] is None else tuple(event["impulse_ns"])})
        for event in row["events"]
    )
    actors = tuple(Actor(**actor) for actor in row["actors"])
    end = RunEnd(row["end_tick"], row["end_reason"], row["completed"])
    return RunInfo(row["repeat"], row["digest"], actors, events, end, row["rows"])


def host_row(repeat: int, host: HostLog) -> dict[str, object]:
    """Turn a host log into a row of ``host``."""
    return {
        "repeat": repeat,
        "samples": [asdict(sample) for sample in host.samples],
        "latency_ticks": host.latency_ticks.tolist(),
        "latency_s": host.latency_s.tolist(),
        "measured": json.dumps(host.measured, sort_keys=True),
        "frame_ticks": host.frame_ticks.tolist(),
        "frame_s": host.frame_s.tolist(),
        "game_s": host.game_s.tolist(),
        "draw_s": host.draw_s.tolist(),
    }


def host_from_row(row: dict[str, Any]) -> HostLog:
    """Read a row of ``host``."""
    samples = tuple(HostSample(**{**sample, "core_ratios": tuple(sample["core_ratios"])}) for sample in row["samples"])
    measured = json.loads(row.get("measured") or "{}")
    # Older traces have no times of frames.
    times = {name: np.array(row.get(name) or [], np.float64) for name in ("frame_s", "game_s", "draw_s")}
    return HostLog(
        samples,
        np.array(row["latency_ticks"], np.int64),
        np.array(row["latency_s"], np.float64),
        measured,
        frame_ticks=np.array(row.get("frame_ticks") or [], np.int64),
        **times,
    )


def digests_of(column: pa.ChunkedArray) -> NDArray[np.uint8]:
    """Read a digest column as bytes[row, 16]."""
    # A chunk may be a slice of a longer buffer, so its offset counts.
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.uint8)[chunk.offset * 16 : (chunk.offset + len(chunk)) * 16]
        for chunk in column.chunks
    ]
    return np.concatenate(chunks or [np.empty(0, np.uint8)]).reshape(-1, 16)


def repeat_from_tables(header: Header, states: pa.Table, info: RunInfo, host: HostLog) -> Repeat:
    """Put a repeat together again, bit for bit."""
    values = np.empty((states.num_rows, len(header.channels)))
    for index, name in enumerate(header.channels):
        values[:, index] = states[name].to_numpy()
    return Repeat(
        repeat=info.repeat,
        actors=info.actors,
        channels=header.channels,
        tick=states["tick"].to_numpy(),
        actor=states["actor"].to_numpy(),
        time_s=states["time_s"].to_numpy(),
        values=values,
        events=info.events,
        end=info.end,
        digests=digests_of(states["digest"]),
        host=host,
    )


_CONTENT: Final = [("dtype", pa.string()), ("shape", pa.list_(pa.int64())), ("data", pa.binary())]
FRAMES: Final = pa.schema(
    [("repeat", pa.int64()), ("tick", pa.int64()), ("sensor", pa.string()), ("kind", pa.string()), ("digest", pa.binary(16))]
)
SAMPLES: Final = pa.schema([("digest", pa.binary(16)), *_CONTENT])
_SPOOL: Final = pa.schema(
    [("tick", pa.int64()), ("sensor", pa.string()), ("kind", pa.string()), ("digest", pa.binary(16)), *_CONTENT]
)
_COMPRESSION: Final = {"compression": "zstd", "compression_level": 3}


def spool_path(folder: Path, repeat: int) -> Path:
    """Where the frames of a finished repeat wait."""
    return folder / "spool" / f"{repeat:06d}.sensors"


def spool_frames(folder: Path, repeat: Repeat) -> int:
    """Keep the frames of a finished repeat; return how many bytes they take.

    To be called before the states are spooled: a repeat exists once its states do, and then its frames must be there.
    """
    path = spool_path(folder, repeat.repeat)
    if not repeat.sensors:
        path.unlink(missing_ok=True)
        return 0
    rows = [
        {
            "tick": frame.tick,
            "sensor": frame.sensor,
            "kind": frame.kind,
            "digest": frame.digest,
            "dtype": frame.sample and frame.sample.dtype,
            "shape": frame.sample and frame.sample.shape,
            "data": frame.sample and frame.sample.data,
        }
        for frame in repeat.sensors
    ]
    write_atomically(path, lambda partial: pq.write_table(pa.Table.from_pylist(rows, _SPOOL), partial), durable=False)
    return path.stat().st_size


def pack_frames(folder: Path, part: int, repeats: Iterable[int]) -> None:
    """Move the frames of spooled repeats into a part.

    To be called before the part's ``runs`` is written, and before any spool file is deleted: should the process end in between,
    the repeats still count as spooled, readers take their frames from the spool, and the next compaction does the same again.
    ``samples`` is written before ``sensors``, so that no frame in a part ever names a content that is not there.
    """
    fresh = {repeat: spool_path(folder, repeat) for repeat in sorted(repeats)}
    paths = {name: folder / f"part-{part:06d}.{name}.parquet" for name in ("sensors", "samples")}
    if not paths["sensors"].exists() and not any(path.exists() for path in fresh.values()):
        return
    frames, contents = [FRAMES.empty_table()], [SAMPLES.empty_table()]
    if paths["sensors"].exists():
        frames.append(_without(_read(paths["sensors"]), fresh))
        contents.append(_read(paths["samples"]))
    for repeat, path in fresh.items():
        if path.exists():
            table = _read(path)
            frames.append(_numbered(table, repeat))
            contents.append(table.filter(pc.is_valid(table["data"])).select(SAMPLES.names))
    merged = (
        pa.concat_tables(frames)
        .combine_chunks()
        .sort_by([("repeat", "ascending"), ("tick", "ascending"), ("sensor", "ascending")])
    )
    samples = _once(pa.concat_tables(contents), merged)
    for name, table in (("samples", samples), ("sensors", merged)):
        write_atomically(paths[name], lambda partial, table=table: pq.write_table(table, partial, **_COMPRESSION))  # type: ignore[misc]


def _without(frames: pa.Table, repeats: Iterable[int]) -> pa.Table:
    gone = pc.is_in(frames["repeat"], pa.array(sorted(repeats), pa.int64()))
    return frames.filter(pc.invert(gone)).cast(FRAMES)


def _numbered(spooled: pa.Table, repeat: int) -> pa.Table:
    number = pa.array([repeat] * spooled.num_rows, pa.int64())
    return spooled.drop_columns(["dtype", "shape", "data"]).add_column(0, "repeat", number).cast(FRAMES)


def _once(contents: pa.Table, frames: pa.Table) -> pa.Table:
    """Each content once, in the order of digests, without those that no frame has any more: equal runs give equal files."""
    rows: dict[bytes, int] = {}
    for row, digest in enumerate(contents["digest"].to_pylist()):
        rows.setdefault(digest, row)
    wanted = set(frames["digest"].to_pylist())
    kept = pa.array([rows[digest] for digest in sorted(rows) if digest in wanted], pa.int64())  # there may be none
    return contents.take(kept).combine_chunks()


def stored_tables(folder: Path, spooled: frozenset[int]) -> tuple[FrameTable, ...]:
    """Read the frames of all repeats of a cell; what is spooled replaces what is in a part."""
    parts = [_without(_read(path), spooled) for path in sorted(folder.glob("part-*.sensors.parquet"))]
    fresh = [_numbered(_read(path), repeat) for repeat in sorted(spooled) if (path := spool_path(folder, repeat)).exists()]
    table = pa.concat_tables([FRAMES.empty_table(), *parts, *fresh]).combine_chunks()
    if not table.num_rows:
        return ()
    repeat, tick, digest = table["repeat"].to_numpy(), table["tick"].to_numpy(), digests_of(table["digest"])
    words = [table[name].combine_chunks().dictionary_encode() for name in ("sensor", "kind")]
    codes = np.stack([encoded.indices.to_numpy() for encoded in words], axis=-1)
    found = []
    for pair in np.unique(codes, axis=0):
        rows = np.flatnonzero((codes == pair).all(axis=1))
        rows = rows[np.lexsort((tick[rows], repeat[rows]))]
        sensor, kind = (encoded.dictionary[int(code)].as_py() for encoded, code in zip(words, pair, strict=True))
        content = np.ascontiguousarray(digest[rows]).view(np.uint64)
        found.append(FrameTable(sensor, kind, repeat[rows], tick[rows], content))
    return tuple(sorted(found, key=lambda table: (table.sensor, table.kind)))


def stored_samples(folder: Path, spooled: frozenset[int], digests: frozenset[bytes]) -> dict[bytes, Sample]:
    """Read the kept contents of some frames, by digest."""
    wanted = pa.array(sorted(digests), pa.binary(16))
    found = {}
    for path in sorted(folder.glob("part-*.samples.parquet")):
        table = _read(path)
        for row in table.filter(pc.is_in(table["digest"], wanted)).to_pylist():
            found[row["digest"]] = Sample(row["dtype"], tuple(row["shape"]), row["data"])
    for repeat in sorted(spooled):
        found |= {digest: sample for digest, sample in samples_of(_spooled(folder, repeat)) if digest in digests}
    return found


def _spooled(folder: Path, repeat: int) -> Iterator[SensorFrame]:
    path = spool_path(folder, repeat)
    for row in _read(path).to_pylist() if path.exists() else ():
        sample = None if row["data"] is None else Sample(row["dtype"], tuple(row["shape"]), row["data"])
        yield SensorFrame(row["tick"], row["sensor"], row["kind"], row["digest"], sample)


def _read(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(f"{path} is not a whole Parquet file ({reason}): restore it or run the study again") from error


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
