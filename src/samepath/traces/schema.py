"""The tables of a stored cell, version 1, and how records go into them and come out.

``states``  one row per repeat, tick and actor: keys, time, channels, chained digest. Null: the channel does not apply.
``runs``    one row per repeat: digest, end, actors, events.
``host``    one row per repeat: CPU and GPU samples, wall time per tick, conditions as measured. Apart, because equal
            runs are equal files and host samples never are.
"""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samepath.base.errors import StoreError
from samepath.traces.cell import RunInfo
from samepath.traces.records import (
    SCHEMA_VERSION,
    Actor,
    End,
    Event,
    Header,
    HostLog,
    HostSample,
    Repeat,
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
    type_names = pa.array([types[one] for one in ids.tolist()], pa.string())
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
    end = End(row["end_tick"], row["end_reason"], row["completed"])
    return RunInfo(row["repeat"], row["digest"], actors, events, end, row["rows"])


def host_row(repeat: int, host: HostLog) -> dict[str, object]:
    """Turn a host log into a row of ``host``."""
    return {
        "repeat": repeat,
        "samples": [asdict(sample) for sample in host.samples],
        "latency_ticks": host.latency_ticks.tolist(),
        "latency_s": host.latency_s.tolist(),
        "measured": json.dumps(host.measured, sort_keys=True),
    }


def host_from_row(row: dict[str, Any]) -> HostLog:
    """Read a row of ``host``."""
    samples = tuple(HostSample(**{**sample, "core_ratios": tuple(sample["core_ratios"])}) for sample in row["samples"])
    measured = json.loads(row.get("measured") or "{}")
    return HostLog(samples, np.array(row["latency_ticks"], np.int64), np.array(row["latency_s"], np.float64), measured)


def digests_of(column: pa.ChunkedArray) -> NDArray[np.uint8]:
    """Read a digest column as bytes[row, 16]."""
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
