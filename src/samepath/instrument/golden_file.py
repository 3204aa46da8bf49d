"""The golden file: what a run once was, small enough for a repository, and enough to say how a later one differs.

A whole trace of a few actors and seconds takes a quarter of a megabyte that no compressor shrinks. The digest of the run alone
takes 32 letters and explains nothing. In between, for each actor:

``tags``    three bytes of its chained digest at every tick. Chained, so that the first one that differs is the first tick that
            differs; that it is one tick later happens once in 2**24 times.
``fields``  one byte for each value of every row, *not* chained: which fields differ at that tick. A field that differs is
            overlooked once in 256 times, which is why the words say «at least». What never changes compresses to nothing.
``path``    its position at every tick, rounded to 2**-14 m: how far apart, at any tick. Half a step, 0.03 mm, is the error.

and of the whole run the exact values of some rows (the first, the last, those at the first collision, others evenly), events,
end, header, where it came from and the machine. What would grow beyond its share of the file is thinned: every n-th row is
kept, and the reader is told. Text, one thing a line, so that a repository can show how it changes; a digest over all of it, so
that a file that was cut off, edited or merged is refused and not compared.
"""

import base64
import binascii
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION
from samepath.core.digests import link
from samepath.core.errors import InputError, SamepathError, printable
from samepath.core.files import regular, write_text_atomically
from samepath.instrument.study.records import Plan
from samepath.instrument.traces.records import Actor, Event, EventKind, Header, Repeat, RunEnd

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

FORMAT: Final = "samepath-golden"
VERSION: Final = 1
TAG_BYTES: Final = 3
# A step of the rounded path: a power of two, so that whole numbers of it are exact.
PATH_STEP_M: Final = 2.0**-14
# How far a rounded place may be from the true one, over three axes.
PATH_ERROR_M: Final = PATH_STEP_M / 2 * math.sqrt(3)
# Shares of a run in the file, in letters; four sections, so that a file stays in the tens of kilobytes.
_TAG_LETTERS: Final = 16_000
_FIELD_BYTES: Final = 18_000
_PATH_VALUES: Final = 12_000
_STATE_LETTERS: Final = 16_000
_NUMBER_LETTERS: Final = 19
_MOST_EVENTS: Final = 80
_MOST_FINAL_STATES: Final = 32
# What is read from a repository may be anything.
_LARGEST_BYTES: Final = 1 << 24
_MOST_RUNS: Final = 500
_MOST_ACTORS: Final = 100_000
_MOST_UNPACKED: Final = 1 << 26
_LINE: Final = 110
# Farther off than any scenario, and whole steps of it still fit into 64 bits.
_FARTHEST_M: Final = 1e9


@dataclass(frozen=True)
class GoldenActor:
    """What is kept of one actor: all its ticks; tags, fields and path at the rows that ``*_rows`` number."""

    actor: Actor
    ticks: Ints
    tag_rows: Ints
    tags: Bytes
    field_rows: Ints
    fields: Bytes
    path_rows: Ints
    path: Ints


@dataclass(frozen=True)
class KeptState:
    """One row, exact to the last bit; NaN: the channel does not apply."""

    tick: int
    actor: int
    time_s: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class GoldenRun:
    """What a run was. ``plan`` runs it again; None: it came from a log or a trace, and another is needed to compare.

    ``equal_runs`` is how many runs were compared when it was written: all of them equal, or within ``tolerance_m`` where that
    is not None. ``scenario_digest`` names the content of a scenario that is a file.
    """

    name: str
    header: Header
    digest: str
    equal_runs: int
    tolerance_m: float | None
    plan: Plan | None
    scenario_digest: str
    actors: tuple[GoldenActor, ...]
    states: tuple[KeptState, ...]
    events: tuple[Event, ...]
    event_count: int
    end: RunEnd


@dataclass(frozen=True)
class Golden:
    """A golden file: its runs, and the machine, code and moment it was written by."""

    runs: tuple[GoldenRun, ...]
    provenance: Mapping[str, object] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """Name what the runs were, whoever wrote it down: two files with the same content differ in provenance alone."""
        # The digest of a run stands for all that is kept of it; how that is packed is zlib's affair.
        packed = ("actors", "states", "events")
        plain = [{key: value for key, value in _run_to_plain(run).items() if key not in packed} for run in self.runs]
        return link(b"", json.dumps(plain, sort_keys=True).encode()).hex()


def keep(
    name: str,
    header: Header,
    repeat: Repeat,
    *,
    equal_runs: int,
    tolerance_m: float | None = None,
    plan: Plan | None = None,
    scenario_digest: str = "",
) -> GoldenRun:
    """Take from a run what a golden file keeps of it."""
    rows_of = {actor.id: np.flatnonzero(repeat.actor == actor.id) for actor in repeat.actors}
    total = len(repeat.tick)
    tag_stride = _stride(total * _letters(TAG_BYTES), _TAG_LETTERS)
    field_stride = _stride(total * (len(repeat.channels) + 1), _FIELD_BYTES)
    axes = [repeat.channels.index(axis) for axis in POSITION if axis in repeat.channels]
    path_stride = _stride(total * len(axes), _PATH_VALUES)
    actors = []
    for actor in repeat.actors:
        rows = rows_of[actor.id]
        tag_rows, field_rows, path_rows = (_every(len(rows), stride) for stride in (tag_stride, field_stride, path_stride))
        path = rounded_path(repeat.values[rows[path_rows]][:, axes])
        actors.append(
            GoldenActor(
                actor=actor,
                ticks=repeat.tick[rows],
                tag_rows=tag_rows,
                tags=repeat.digests[rows[tag_rows], :TAG_BYTES],
                field_rows=field_rows,
                fields=field_tags(repeat.time_s[rows[field_rows]], repeat.values[rows[field_rows]]),
                path_rows=path_rows if len(path) else path_rows[:0],
                path=path,
            )
        )
    return GoldenRun(
        name=name,
        header=header,
        digest=repeat.digest,
        equal_runs=equal_runs,
        tolerance_m=tolerance_m,
        plan=plan,
        scenario_digest=scenario_digest,
        actors=tuple(actors),
        states=tuple(_kept_states(repeat, rows_of)),
        events=repeat.events[:_MOST_EVENTS],
        event_count=len(repeat.events),
        end=repeat.end,
    )


def field_tags(time_s: Floats, values: Floats) -> Bytes:
    """Return a byte for each value of some rows, ``[row, 1 + channel]``, time first: equal values have equal bytes.

    The finaliser of SplitMix64, whole numbers that wrap: the same on every machine.
    """
    exact = np.concatenate([time_s[:, None], values], axis=1).astype("<f8")
    exact[np.isnan(exact)] = np.nan  # «does not apply» has one bit pattern, as in digests of rows
    mixed = exact.view("<u8").copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(56)).astype(np.uint8)


def rounded_path(positions: Floats) -> Ints:
    """Return positions as whole steps of ``PATH_STEP_M``; nothing where they are no places that could be rounded."""
    if positions.size and not np.all(np.abs(positions) < _FARTHEST_M):  # NaN is not, either
        return np.empty((0, positions.shape[1]), np.int64)
    return np.rint(positions / PATH_STEP_M).astype(np.int64)


def _kept_states(repeat: Repeat, rows_of: Mapping[int, Ints]) -> list[KeptState]:
    """Choose rows whose values are kept: the last of each actor, those at the first collision, then evenly."""
    some = [rows for rows in rows_of.values() if len(rows)][:_MOST_FINAL_STATES]
    wanted = {int(rows[-1]) for rows in some}
    hits = [event.tick for event in repeat.events if event.kind == EventKind.COLLISION][:1]
    for tick in hits:
        wanted |= {int(rows[at]) for rows in some if (at := int(np.searchsorted(repeat.tick[rows], tick))) < len(rows)}
    used = max(1, int(np.sum(~np.isnan(repeat.values).all(axis=0)))) if len(repeat.tick) else 1
    most = max(len(wanted), _STATE_LETTERS // (_NUMBER_LETTERS * (used + 1)))
    each = max(2, (most - len(wanted)) // max(1, len(some)))
    for rows in some:
        places = {round(index * (len(rows) - 1) / each) for index in range(each)}
        wanted |= {int(rows[place]) for place in sorted(places)} if len(wanted) + len(places) <= most else set()
    return [
        KeptState(int(repeat.tick[row]), int(repeat.actor[row]), float(repeat.time_s[row]), tuple(repeat.values[row].tolist()))
        for row in sorted(wanted)
    ]


def _letters(count: int) -> int:
    return -(-count * 4 // 3)


def _stride(needed: int, share: int) -> int:
    return max(1, -(-needed // share))


def _every(count: int, stride: int) -> Ints:
    """Every so many rows, and the last."""
    rows = np.arange(0, count, stride, dtype=np.int64)
    return rows if not count or rows[-1] == count - 1 else np.append(rows, np.int64(count - 1))


def write(path: Path, golden: Golden) -> None:
    """Write a golden file, whole or not at all."""
    document: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "provenance": golden.provenance,
        "runs": [_run_to_plain(run) for run in golden.runs],
    }
    # The name of everything above it; last, so that a file that was cut off has none.
    write_text_atomically(path, json.dumps({**document, "digest": _digest(document)}, indent=1, allow_nan=False) + "\n")


def read(path: Path) -> Golden:
    """Read a golden file; one that is cut off, changed, foreign or newer is refused in one line."""
    try:
        if regular(path).stat().st_size > _LARGEST_BYTES:
            raise InputError(f"{path}: a golden file of at most {_LARGEST_BYTES} bytes was wanted, {path.stat().st_size} came")
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a golden file: it is no text; samepath golden write makes one") from error
    except OSError as error:
        hint = "; samepath golden write makes one" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{path} cannot be read: {error.strerror or error}{hint}") from error
    head = text[:200].replace(" ", "").replace("\n", "")
    ours = head.startswith(f'{{"format":"{FORMAT}"')
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not ours:
            raise InputError(f"{path} is not a golden file; samepath golden write makes one") from error
        if not text.rstrip().endswith("}"):
            raise InputError(f"{path} is cut off after {len(text)} letters: restore it from the repository") from error
        raise InputError(f"{path} is damaged ({_one_line(error)}): restore it from the repository") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path} is not a golden file; samepath golden write makes one")
    version = document.get("version")
    if version != VERSION:
        raise InputError(
            f"{path} has version {printable(str(version))[:20]} of the format, but this samepath reads {VERSION}: "
            "use the samepath that wrote it, or write it anew with samepath golden write --force"
        )
    if document.pop("digest", None) != _digest(document):
        raise InputError(
            f"{path} is not as it was written: its digest does not fit; restore it from the repository, "
            "or write it anew with samepath golden write --force"
        )
    return _golden_of(document, path)


def _golden_of(document: Mapping[str, Any], path: Path) -> Golden:
    try:
        runs = document["runs"]
        if not isinstance(runs, list) or not 0 < len(runs) <= _MOST_RUNS:
            raise InputError(f"1 to {_MOST_RUNS} runs were wanted")
        return Golden(tuple(_run_from_plain(run) for run in runs), dict(document["provenance"]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, SamepathError, zlib.error) as error:
        raise InputError(f"{path} is damaged ({_one_line(error)}): restore it from the repository") from error


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()))[:120] or type(error).__name__


def _digest(document: Mapping[str, object]) -> str:
    return link(b"", json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hex()


def _run_to_plain(run: GoldenRun) -> dict[str, object]:
    return {
        "name": run.name,
        "digest": run.digest,
        "equal_runs": run.equal_runs,
        "tolerance_m": run.tolerance_m,
        "header": asdict(run.header),
        "scenario_digest": run.scenario_digest,
        "plan": None if run.plan is None else run.plan.as_dict(),
        "end": asdict(run.end),
        "event_count": run.event_count,
        "events": [
            [event.tick, event.kind, event.actor, event.other, event.impulse_ns and list(event.impulse_ns), event.detail]
            for event in run.events
        ],
        "states": [_state_to_text(state) for state in run.states],
        "actors": [_actor_to_plain(actor) for actor in run.actors],
    }


def _state_to_text(state: KeptState) -> str:
    """A row as people read it: tick, actor, time, then a value for each channel. ``repr`` is the shortest that is exact."""
    numbers = ["-" if math.isnan(value) else repr(value) for value in (state.time_s, *state.values)]
    return " ".join([str(state.tick), str(state.actor), *numbers])


def _state_from_text(text: str, channels: int) -> KeptState:
    tick, actor, *numbers = text.split(" ")
    if len(numbers) != channels + 1:
        raise InputError(f"a state of {channels} values was wanted")
    time_s, *values = (math.nan if number == "-" else float(number) for number in numbers)
    return KeptState(int(tick), int(actor), time_s, tuple(values))


def _actor_to_plain(kept: GoldenActor) -> dict[str, object]:
    return {
        "id": kept.actor.id,
        "type": kept.actor.type,
        "ticks": _pack_whole(kept.ticks[:, None]),
        "tag_rows": _pack_whole(kept.tag_rows[:, None]),
        "tags": _lines(kept.tags.tobytes()),
        "field_rows": _pack_whole(kept.field_rows[:, None]),
        # By channel: a channel that never changes is one byte again and again.
        "fields": _lines(zlib.compress(np.ascontiguousarray(kept.fields.T).tobytes(), 9)),
        "path_rows": _pack_whole(kept.path_rows[:, None]),
        "path": _pack_whole(kept.path),
    }


def _run_from_plain(data: Mapping[str, Any]) -> GoldenRun:
    header = Header(**{**data["header"], "channels": tuple(data["header"]["channels"])})
    if len(data["actors"]) > _MOST_ACTORS:
        raise InputError(f"at most {_MOST_ACTORS} actors were wanted")
    events = tuple(
        Event(int(tick), str(kind), actor, other, None if impulse is None else _triple(impulse), str(detail))
        for tick, kind, actor, other, impulse, detail in data["events"]
    )
    return GoldenRun(
        name=str(data["name"]),
        header=header,
        digest=str(data["digest"]),
        equal_runs=int(data["equal_runs"]),
        tolerance_m=None if data["tolerance_m"] is None else float(data["tolerance_m"]),
        plan=None if data["plan"] is None else Plan.from_dict(data["plan"]),
        scenario_digest=str(data["scenario_digest"]),
        actors=tuple(_actor_from_plain(actor, header) for actor in data["actors"]),
        states=tuple(_state_from_text(text, len(header.channels)) for text in data["states"]),
        events=events,
        event_count=int(data["event_count"]),
        end=RunEnd(int(data["end"]["tick"]), str(data["end"]["reason"]), bool(data["end"]["completed"])),
    )


def _triple(impulse: list[float]) -> tuple[float, float, float]:
    x, y, z = map(float, impulse)
    return x, y, z


def _actor_from_plain(data: Mapping[str, Any], header: Header) -> GoldenActor:
    axes = sum(axis in header.channels for axis in POSITION)
    ticks = _unpack_whole(data["ticks"], 1)[:, 0]
    tag_rows, field_rows, path_rows = (_rows(data[name], len(ticks)) for name in ("tag_rows", "field_rows", "path_rows"))
    fields = np.frombuffer(_inflate(_joined(data["fields"])), np.uint8).reshape(len(header.channels) + 1, len(field_rows)).T
    path = _unpack_whole(data["path"], axes)
    return GoldenActor(
        actor=Actor(int(data["id"]), str(data["type"])),
        ticks=ticks,
        tag_rows=tag_rows,
        tags=np.frombuffer(_joined(data["tags"]), np.uint8).reshape(len(tag_rows), TAG_BYTES),
        field_rows=field_rows,
        fields=fields,
        path_rows=path_rows,
        path=path.reshape(len(path_rows), axes),
    )


def _rows(lines: list[str], count: int) -> Ints:
    rows = _unpack_whole(lines, 1)[:, 0]
    if np.any(rows < 0) or np.any(rows >= count) or np.any(np.diff(rows) <= 0):
        raise InputError("rows that are not there")
    return rows


def _pack_whole(numbers: Ints) -> list[str]:
    """Pack columns of whole numbers that change slowly: second differences, by bytes of equal weight, compressed."""
    padded = np.concatenate([np.zeros((2, numbers.shape[1]), np.int64), numbers])
    # Wrapping on purpose: what wraps here wraps back when it is summed up again.
    second = (padded[2:] - padded[1:-1]) - (padded[1:-1] - padded[:-2])
    folded = (second << 1) ^ (second >> 63)
    planes = np.ascontiguousarray(folded.T.astype("<i8")).view(np.uint8).reshape(-1, 8).T
    return _lines(zlib.compress(np.ascontiguousarray(planes).tobytes(), 9))


def _unpack_whole(lines: list[str], columns: int) -> Ints:
    raw = np.frombuffer(_inflate(_joined(lines)), np.uint8)
    planes = np.ascontiguousarray(raw.reshape(8, -1).T)
    folded = planes.view("<u8").reshape(columns, -1).T
    second = (folded >> np.uint64(1)).astype(np.int64) ^ -((folded & np.uint64(1)).astype(np.int64))
    return np.asarray(np.cumsum(np.cumsum(second, axis=0), axis=0), np.int64).reshape(-1, columns)


def _inflate(data: bytes) -> bytes:
    """Decompress, but only so far: a few letters can stand for any number of bytes."""
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(data, _MOST_UNPACKED)
    if not unpacker.eof or unpacker.unused_data:
        raise InputError("packed numbers that do not end where they should")
    return found


def _lines(data: bytes) -> list[str]:
    text = base64.b64encode(data).decode()
    return [text[start : start + _LINE] for start in range(0, len(text), _LINE)]


def _joined(lines: list[str]) -> bytes:
    try:
        return base64.b64decode("".join(lines), validate=True)
    except binascii.Error as error:
        raise InputError(f"letters that are no base64 ({error})") from error
