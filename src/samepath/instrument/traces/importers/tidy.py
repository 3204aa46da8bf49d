"""Any tidy log: one row per repeat, actor and moment, in CSV or Parquet; and the logs of the paper's authors.

Files that have no repeat column hold one repeat each; those of one folder form a cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION, STANDARD, check_channels
from samepath.core.errors import InputError, printable
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.importers import SOURCE, Align, ImportOptions, too_large
from samepath.instrument.traces.importers.hidden_actors import LoggedRows, refuse_hidden_actor
from samepath.instrument.traces.importers.tables import EXACT_BELOW, KEYS, Column, LogTable, header_of, map_columns, open_table
from samepath.instrument.traces.records import Actor, Header, Repeat, RunEnd, row_digests

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)

# A time is on the grid when it is within this part of a step of a whole number of steps.
GRID_TOLERANCE = 0.02


class TidyImporter:
    """Reads CSV and Parquet."""

    name = "tidy"

    def accepts(self, path: Path, head: bytes) -> bool:
        """Take Parquet, and text whose first line has several fields."""
        if head.startswith(b"PAR1") or path.suffix == ".parquet":
            return True
        return b"\x00" not in head and any(delimiter in head.splitlines()[0] for delimiter in (b",", b";", b"\t"))

    def read(self, paths: Sequence[Path], options: ImportOptions) -> list[MemoryCell]:
        """Read files; each with a repeat column is a cell of its own, the others one repeat each of their folder's cell."""
        cells: list[MemoryCell] = []
        single: dict[Path, list[LogTable]] = {}
        taken_bytes = 0
        for path in paths:
            file = open_table(path)
            columns = map_columns(file.names, options.columns, str(path))
            log = file.read({column.name for column in columns.values()}, options, taken_bytes)
            taken_bytes += log.size_bytes
            if "repeat" in columns:
                cells += _cells_of(log, columns, options)
            else:
                single.setdefault(path.parent, []).append(log)
        for folder, logs in single.items():
            cells.append(_cell_of_files(folder, logs, options))
        return cells


@dataclass(frozen=True)
class _Rows:
    """The rows of one cell as arrays, in file order; ``row`` is the row in its file."""

    log: LogTable
    row: Ints
    repeat: Ints
    actor: Ints
    types: dict[tuple[int, int], str]  # by repeat and actor: an id may be another type in another run
    tick: Ints | None
    time_s: Floats | None
    values: Floats


def _channels(columns: dict[str, Column]) -> tuple[str, ...]:
    named = [name for name in STANDARD if name in columns]
    return check_channels((*named, *sorted(name for name in columns if name not in STANDARD and name not in KEYS)))


def _rows(log: LogTable, columns: dict[str, Column], repeat: Ints, options: ImportOptions) -> _Rows:
    channels = _channels(columns)
    values = np.empty((log.rows, len(channels)))
    for index, channel in enumerate(channels):
        column = columns[channel]
        values[:, index] = column.scaled(log.floats(column.name))
    actor, types = _actors(log, columns, repeat)
    tick = None
    if "tick" in columns:
        tick = log.whole(columns["tick"].name)
        if tick is None:
            raise InputError(f"{log.path}: whole numbers were wanted in column {columns['tick'].name!r} (tick)")
    time_s = _times_s(log, columns["time_s"], repeat, options.align) if "time_s" in columns else None
    moment = tick if tick is not None else time_s
    if moment is not None:
        axes = [channels.index(name) for name in POSITION if name in channels]
        run = repeat
        if "cell" in columns:
            codes = np.unique(log.words(columns["cell"].name), return_inverse=True)[1]
            run = repeat + codes.astype(np.int64) * (int(repeat.max(initial=0)) + 1)
        refuse_hidden_actor(LoggedRows(log, repeat, run, actor, moment, values[:, axes]), columns, options)
    return _Rows(log, np.arange(log.rows), repeat, actor, types, tick, time_s, values)


def _times_s(log: LogTable, column: Column, repeat: Ints, align: Align) -> Floats:
    """Times in seconds. Nanoseconds since 1970 have no float64 of their own; those since a repeat's start do."""
    stamps = None if align is Align.TIME else log.beyond_float(column.name)
    if stamps is None:
        return column.scaled(log.floats(column.name))
    since = _since_first(repeat, stamps)
    # Below 0: the distance itself is beyond 64 bits.
    far = np.flatnonzero((since < 0) | (since >= EXACT_BELOW))
    if far.size:
        raise InputError(
            f"{log.place(int(far[0]), column.name)}: {stamps[far[0]]} is too far from the repeat's first time to be exact"
        )
    return column.scaled(since.astype(np.float64))


def _actors(log: LogTable, columns: dict[str, Column], repeat: Ints) -> tuple[Ints, dict[tuple[int, int], str]]:
    """Number the actors by their own whole numbers, or by the sorted order of their names; types are by repeat and actor."""
    if "actor" not in columns:
        ids = np.zeros(log.rows, np.int64)
        labels = [""] * log.rows
    else:
        name = columns["actor"].name
        whole = log.whole(name)
        labels = [""] * log.rows
        if whole is None:
            labels = log.words(name)
            order = {label: number for number, label in enumerate(sorted(set(labels)))}
            whole = np.array([order[label] for label in labels], np.int64)
        ids = whole
    types = log.words(columns["actor_type"].name) if "actor_type" in columns else labels
    first = {}
    order_of_rows = np.lexsort((ids, repeat))
    pairs = np.stack([repeat[order_of_rows], ids[order_of_rows]])
    starts = np.flatnonzero(np.concatenate([[True], np.any(pairs[:, 1:] != pairs[:, :-1], axis=0)]))
    for index in order_of_rows[starts].tolist():
        word = " ".join(part for part in dict.fromkeys((types[index], labels[index])) if part)
        first[int(repeat[index]), int(ids[index])] = word or "actor"
    return ids, first


def _repeat_numbers(log: LogTable, column: str) -> Ints:
    numbers = log.whole(column)
    if numbers is not None:
        return numbers
    order: dict[str, int] = {}
    return np.array([order.setdefault(word, len(order)) for word in log.words(column)], np.int64)


def _cells_of(log: LogTable, columns: dict[str, Column], options: ImportOptions) -> list[MemoryCell]:
    rows = _rows(log, columns, _repeat_numbers(log, columns["repeat"].name), options)
    if "cell" not in columns:
        return [_build(log.path.stem, log.path, [rows], columns, options)]
    words = log.words(columns["cell"].name)
    order = {word: number for number, word in enumerate(sorted(set(words)))}
    names = list(order)
    groups = _groups(np.array([order[word] for word in words], np.int64))
    return [_build(names[number], log.path, [_take(rows, chosen)], columns, options) for number, chosen in groups]


def _groups(keys: Ints) -> list[tuple[int, NDArray[np.intp]]]:
    """The rows of each key, by rising key. One sort: looking for every key in all rows takes rows times keys."""
    order = np.argsort(keys, kind="stable")
    numbers, starts = np.unique(keys[order], return_index=True)
    return list(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))


def _take(rows: _Rows, chosen: NDArray[np.intp]) -> _Rows:
    tick = None if rows.tick is None else rows.tick[chosen]
    time_s = None if rows.time_s is None else rows.time_s[chosen]
    picked = (rows.row[chosen], rows.repeat[chosen], rows.actor[chosen])
    return _Rows(rows.log, *picked, rows.types, tick, time_s, rows.values[chosen])


def _cell_of_files(folder: Path, logs: list[LogTable], options: ImportOptions) -> MemoryCell:
    if len(logs) == 1 and not options.accept_one_run:
        raise InputError(
            f"{logs[0].path}: no column tells the repeats apart among: {', '.join(logs[0].names)}; "
            "name it with --map repeat=COLUMN, or give one file per repeat"
        )
    mapped = [map_columns(log.names, options.columns, str(log.path)) for log in logs]
    for log, columns in zip(logs, mapped, strict=True):
        if _channels(columns) != _channels(mapped[0]):
            raise InputError(
                f"{log.path}: channels {', '.join(_channels(columns))}, "
                f"but {logs[0].path.name} has {', '.join(_channels(mapped[0]))}"
            )
    parts = [
        _rows(log, columns, np.full(log.rows, number), options)
        for number, (log, columns) in enumerate(zip(logs, mapped, strict=True))
    ]
    return _build(folder.name or str(folder), folder, parts, mapped[0], options)


def _build(name: str, path: Path, parts: list[_Rows], columns: dict[str, Column], options: ImportOptions) -> MemoryCell:
    channels = _channels(columns)
    step_s, ticks = _ticks(parts, options.align, path)
    _refuse_sparse(path, parts, ticks, options)
    repeats: list[Repeat] = []
    for part, tick in zip(parts, ticks, strict=True):
        for number, chosen in _groups(part.repeat):
            repeats.append(_one_repeat(part, chosen, tick[chosen], number, step_s, channels, options.align))
    _refuse_mixed_units(repeats, path)
    used = {column.name for column in columns.values()}
    ignored = [column for column in parts[0].log.names if column not in used]
    source = f"{SOURCE}{path.name}" + (f"; columns ignored: {', '.join(ignored)}" if ignored else "")
    header = Header(
        experiment=path.stem,
        cell=name,
        scenario=name,
        channels=channels,
        step_s=step_s,
        simulator="imported log",
        lossless=bool(options.lossless),
        source=source,
    )
    return MemoryCell(header, repeats)


def _refuse_sparse(path: Path, parts: list[_Rows], ticks: list[Ints], options: ImportOptions) -> None:
    """Refuse what the analysis cannot lay out: it compares every actor at every tick, there or not, one repeat at a time."""
    moments = len(np.unique(np.concatenate(ticks)))
    actors = len(np.unique(np.concatenate([part.actor for part in parts])))
    size_bytes = 8 * len(POSITION) * moments * actors
    if size_bytes > options.memory_bytes:
        raise too_large(f"{path} ({moments} ticks times {actors} actors)", size_bytes, options)


def _ticks(parts: list[_Rows], align: Align, path: Path) -> tuple[float, list[Ints]]:
    """Give every row a whole tick; the step is the smallest distance between two times, which all must fit."""
    if align is Align.ROW:
        return _step_by_row(parts), [_row_numbers(part) for part in parts]
    if all(part.tick is not None for part in parts):
        ticks = [part.tick for part in parts if part.tick is not None]
        if align is Align.START:
            ticks = [_since_first(part.repeat, tick) for part, tick in zip(parts, ticks, strict=True)]
            for part, tick in zip(parts, ticks, strict=True):
                if np.any(tick < 0):  # the distance has no 64-bit number
                    raise InputError(f"{part.log.path}: ticks of a repeat are too far apart to be counted from its first one")
        return _step_of(parts, ticks), ticks
    times = []
    for part in parts:
        if part.time_s is None:
            raise InputError(f"{part.log.path}: no time and no tick column, but other files have them")
        times.append(_since_first(part.repeat, part.time_s) if align is Align.START else part.time_s)
    distinct = np.unique(np.concatenate(times))
    gaps = np.diff(distinct)
    gaps = gaps[gaps > 1e-9]
    if gaps.size == 0:
        raise InputError(f"{path}: all rows have the same time: a log over time was wanted")
    step = _round_step(float(np.median(gaps)), distinct)
    for part, time in zip(parts, times, strict=True):
        far = np.flatnonzero(~(np.abs(time / step) < EXACT_BELOW))
        if far.size:
            place = part.log.place(int(part.row[far[0]]), "time")
            raise InputError(f"{place}: {time[far[0]]:g} s is too many steps of {step:g} s to be counted exactly")
        off = np.flatnonzero(np.abs(time / step - np.rint(time / step)) > GRID_TOLERANCE)
        if off.size:
            row = int(part.row[off[0]])
            raise InputError(
                f"{part.log.place(row, 'time')}: {time[off[0]]:g} s is not on the grid of {step:g} s of the other times; "
                "use --align start if repeats start at different times, --align row for a variable step"
            )
    return step, [np.rint(time / step).astype(np.int64) for time in times]


def _round_step(step: float, distinct: Floats) -> float:
    """Print times have few decimals: prefer the step with the fewest decimals that fits all times as well."""
    for decimals in range(7):
        candidate = round(step, decimals)
        if candidate > 0 and abs(candidate - step) < step * 0.01:
            worst = np.abs(distinct / candidate - np.rint(distinct / candidate)).max()
            if worst <= GRID_TOLERANCE:
                return float(candidate)
    return step


def _since_first(repeat: Ints, values: NDArray[Number]) -> NDArray[Number]:
    """Each value less the smallest of its repeat."""
    since = np.empty_like(values)
    for _, rows in _groups(repeat):
        since[rows] = values[rows] - values[rows].min()
    return since


def _row_numbers(part: _Rows) -> Ints:
    tick = np.zeros(len(part.row), np.int64)
    seen: dict[tuple[int, int], int] = {}
    for index, key in enumerate(zip(part.repeat.tolist(), part.actor.tolist(), strict=True)):
        tick[index] = seen.get(key, 0)
        seen[key] = int(tick[index]) + 1
    return tick


def _step_by_row(parts: list[_Rows]) -> float:
    times = [part.time_s for part in parts if part.time_s is not None]
    if not times:
        return 1.0
    gaps = np.diff(np.unique(np.concatenate(times)))
    return float(np.median(gaps)) if gaps.size else 1.0


def _step_of(parts: list[_Rows], ticks: list[Ints]) -> float:
    """Seconds per tick, from rows that have both; 1 where there is no time."""
    for part, tick in zip(parts, ticks, strict=True):
        if part.time_s is not None and tick.max() > tick.min():
            a, b = int(np.argmin(tick)), int(np.argmax(tick))
            step = float((part.time_s[b] - part.time_s[a]) / (tick[b] - tick[a]))
            if step > 0:
                return round(step, 9)
    return 1.0


def _one_repeat(
    part: _Rows,
    chosen: NDArray[np.intp],
    tick: Ints,
    number: int,
    step_s: float,
    channels: tuple[str, ...],
    align: Align,
) -> Repeat:
    actor = part.actor[chosen]
    order = np.lexsort((actor, tick))
    tick, actor, rows = tick[order], actor[order], chosen[order]
    doubled = np.flatnonzero((np.diff(tick) == 0) & (np.diff(actor) == 0))
    if doubled.size:
        first, second = int(part.row[rows[doubled[0]]]), int(part.row[rows[doubled[0] + 1]])
        earlier, later = sorted((first, second))
        raise InputError(
            f"{part.log.place(later, 'actor')}: a duplicate row: repeat {number}, actor {actor[doubled[0]]} "
            f"at the same time as in {part.log.place(earlier, 'actor').split(', ')[-2]}; remove one"
        )
    time_s: Floats = (tick * step_s).astype(np.float64)
    if align is Align.TIME and part.time_s is not None:
        time_s = part.time_s[rows]
    known = int(part.repeat[chosen[0]])
    actors = tuple(Actor(actor_id, part.types[known, actor_id]) for actor_id in np.unique(actor).tolist())
    values = part.values[rows]
    return Repeat(
        repeat=number,
        actors=actors,
        channels=channels,
        tick=tick,
        actor=actor,
        time_s=time_s,
        values=values,
        events=(),
        end=RunEnd(int(tick[-1]), "end of log"),
        digests=row_digests(actors, channels, tick, actor, time_s, values),
    )


def _refuse_mixed_units(repeats: list[Repeat], path: Path) -> None:
    """Refuse repeats whose path is another one times 10, 100 or 1000: the same run in another unit, not a divergence."""
    axes = [repeats[0].channels.index(axis) for axis in POSITION if axis in repeats[0].channels]
    sizes = np.array([np.abs(repeat.values[:, axes]).mean() for repeat in repeats])
    usual = int(np.argsort(sizes)[len(sizes) // 2])
    base = repeats[usual].values[:, axes]
    for repeat, size in zip(repeats, sizes, strict=True):
        if sizes[usual] == 0 or not (size / sizes[usual] > 5 or size / sizes[usual] < 0.2):
            continue
        for factor in (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001):
            values = repeat.values[:, axes]
            if values.shape == base.shape and np.abs(values / factor - base).max() < 0.05 * np.abs(base).max():
                raise InputError(
                    f"{path}: mixed units: the positions of repeat {repeat.repeat} are those of repeat {repeats[usual].repeat} "
                    f"times {factor:g}; write all repeats in one unit"
                )


HEADER = ("repeatNo", "agentNo", "agentID", "agentType", "agentTypeNo", "time", "fps", "x", "y", "z", "yaw")
COLUMNS = {
    "repeat": "repeatNo",
    "actor": "agentNo",
    "actor_type": "agentType",
    "time_s": "time",
    "x_m": "x",
    "y_m": "y",
    "z_m": "z",
    "yaw_deg": "yaw",
}


class TslImporter:
    """Reads the logs of the paper's authors (Trustworthy Systems Lab, University of Bristol).

    Metres, degrees and seconds with three decimals: the log is rounded to 1 mm, whatever the user says. ``agentID`` is CARLA's
    id, new in every repeat; ``agentNo`` names the actor.
    """

    name = "tsl"

    def accepts(self, path: Path, head: bytes) -> bool:
        """Take files with exactly the authors' header."""
        return b"\x00" not in head and tuple(header_of(head)[0]) == HEADER

    def read(self, paths: Sequence[Path], options: ImportOptions) -> list[MemoryCell]:
        """Read each file as a cell."""
        for path in paths:
            with path.open("rb") as handle:
                names = header_of(handle.read(4096))[0]
            if tuple(names) != HEADER:
                came = printable(", ".join(names))
                raise InputError(f"{path}, line 1: the header {', '.join(HEADER)} was wanted, but {came} came")
        fixed = ImportOptions(columns={**COLUMNS, **options.columns}, align=options.align, lossless=False)
        return TidyImporter().read(paths, fixed)
