"""Sensors' frames in a cell's folder, beside the states; cells without sensors have none of these files.

part-000000.sensors.parquet   one row per repeat, tick and sensor: kind, digest
part-000000.samples.parquet   kept contents, once each, by digest: type, shape, bytes
spool/000017.sensors          the frames of a finished repeat that is not in a part yet
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from samepath.base.errors import StoreError
from samepath.base.files import write_atomically
from samepath.traces.records import Repeat
from samepath.traces.schema import digests_of
from samepath.traces.sensors import FrameTable, Sample, SensorFrame, samples_of

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
    """Keep the frames of a finished repeat, to be called before its states are; return how many bytes they take."""
    path = spool_path(folder, repeat.repeat)
    if not repeat.sensors:
        path.unlink(missing_ok=True)
        return 0
    rows = [
        {
            "tick": one.tick,
            "sensor": one.sensor,
            "kind": one.kind,
            "digest": one.digest,
            "dtype": one.sample and one.sample.dtype,
            "shape": one.sample and one.sample.shape,
            "data": one.sample and one.sample.data,
        }
        for one in repeat.sensors
    ]
    write_atomically(path, lambda partial: pq.write_table(pa.Table.from_pylist(rows, _SPOOL), partial), durable=False)
    return path.stat().st_size


def pack_frames(folder: Path, part: int, repeats: Iterable[int]) -> None:
    """Move the frames of spooled repeats into a part, to be called before the part itself is whole; spools stay until then."""
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
    """Each content once, in the order of digests, without those that no frame has any more."""
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
    codes = np.stack([one.indices.to_numpy() for one in words], axis=-1)
    found = []
    for pair in np.unique(codes, axis=0):
        rows = np.flatnonzero((codes == pair).all(axis=1))
        rows = rows[np.lexsort((tick[rows], repeat[rows]))]
        sensor, kind = (one.dictionary[int(code)].as_py() for one, code in zip(words, pair, strict=True))
        content = np.ascontiguousarray(digest[rows]).view(np.uint64)
        found.append(FrameTable(sensor, kind, repeat[rows], tick[rows], content))
    return tuple(sorted(found, key=lambda one: (one.sensor, one.kind)))


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
