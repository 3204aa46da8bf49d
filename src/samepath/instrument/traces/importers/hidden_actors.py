"""Logs whose actor column has an unknown name: found by their rows, and refused with the name of that column.

Read as one actor, two cars are two rows for one moment, or, where their times are staggered, one car that jumps to and fro.
The column that tells them apart is one of whole numbers or names whose values give every moment one row, and short paths.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samepath.core.errors import InputError, printable
from samepath.instrument.traces.importers import Align, ImportOptions
from samepath.instrument.traces.importers.tables import Column, LogTable, open_table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Turns of one car are small. Rows that turn by a quarter of the way may be of several, whose own paths then must be shorter
# than the path through all rows by this factor.
_TURNS: Final = 0.25
_SHORTER: Final = 3.0
_ROWS_MIN: Final = 4
_ACTORS_MAX: Final = 10_000


@dataclass(frozen=True)
class LoggedRows:
    """The rows of a log as they were read: repeat, actor, moment (ticks or seconds) and the axes of the position.

    ``run`` numbers the runs: a log may hold several cells with the same repeats.
    """

    log: LogTable
    repeat: Ints
    run: Ints
    actor: Ints
    moment: Floats | Ints
    position_m: Floats


@dataclass(frozen=True)
class _Tracks:
    """How many tracks a column makes of the rows, their rows that share a moment, and the length of all paths."""

    count: int
    doubled: int
    first_doubled: tuple[int, int] | None
    length_m: float
    turning_m: float


def refuse_hidden_actor(rows: LoggedRows, columns: Mapping[str, Column], options: ImportOptions) -> None:
    """Refuse a log in which several actors would become one, and name the unread column that looks like the actor."""
    as_read = _tracks(rows, rows.actor)
    jumps = "actor" not in columns and as_read.turning_m > _TURNS * as_read.length_m > 0
    if not as_read.doubled and not jumps:
        return
    by_row = options.align is Align.ROW  # then equal times are no fault: the number of a row tells its moment
    found = []
    for name, codes in _candidates(rows.log, columns, options):
        # Together with the actor that is known: ids may start again in each group of vehicles.
        apart = _tracks(rows, codes if "actor" not in columns else rows.actor * (int(codes.max()) + 1) + codes)
        # A number for every row makes paths of no length: tracks have rows.
        shorter = apart.length_m * _SHORTER < as_read.length_m and apart.count * _ROWS_MIN <= len(codes)
        if not apart.doubled and (shorter or (as_read.doubled and not by_row)):
            found.append((apart.length_m, int(codes.max()), name))
    if not found and (by_row or not as_read.doubled or "actor" in columns):
        return
    if not as_read.doubled or as_read.first_doubled is None:
        name = printable(min(found)[2])
        jumping = f"{rows.log.path}: the rows of one actor jump to and fro"
        raise InputError(f"{jumping}: column {name!r} looks like the actor; name it with --map actor={name}")
    first, second = as_read.first_doubled
    place = rows.log.place(second, "x_m").rpartition(",")[0]
    earlier = rows.log.place(first, "x_m").split(", ")[-2]
    what = f"{place}: several rows of repeat {rows.repeat[second]} for one moment, as in {earlier}"
    or_repeat = "" if "repeat" in columns else ", or --map repeat=COLUMN if it tells runs apart"
    if found:
        name = printable(min(found)[2])
        raise InputError(f"{what}: column {name!r} looks like the actor; name it with --map actor={name}{or_repeat}")
    names = printable(", ".join(rows.log.names))
    raise InputError(f"{what}: no column tells actors apart among: {names}; name it with --map actor=COLUMN{or_repeat}")


def _tracks(rows: LoggedRows, codes: Ints) -> _Tracks:
    order = np.lexsort((rows.moment, codes, rows.run))
    keys = [column[order] for column in (rows.run, codes)]
    together = np.logical_and.reduce([key[1:] == key[:-1] for key in keys])
    doubled = np.flatnonzero(together & (rows.moment[order][1:] == rows.moment[order][:-1]))
    steps_m = np.diff(rows.position_m[order], axis=0)
    steps_m[~together] = 0.0
    turns_m = np.sqrt(np.sum(np.diff(steps_m, axis=0) ** 2, axis=1)) if len(steps_m) > 1 else np.zeros(1)
    first = tuple(sorted((int(order[doubled[0]]), int(order[doubled[0] + 1])))) if len(doubled) else None
    return _Tracks(
        count=len(order) - int(together.sum()),
        doubled=len(doubled),
        first_doubled=None if first is None else (first[0], first[1]),
        length_m=float(np.sum(np.sqrt(np.sum(steps_m**2, axis=1)))),
        turning_m=float(np.sum(turns_m)),
    )


def _candidates(log: LogTable, columns: Mapping[str, Column], options: ImportOptions) -> Iterator[tuple[str, Ints]]:
    """Yield unread columns of whole numbers or names, with a number for each value."""
    read = {column.name for column in columns.values()}
    unread = [name for name in log.names if name not in read]
    # A text file is parsed as a whole anyway; of Parquet, a column that cannot be read must not hide the others.
    for names in [unread] if log.is_text and unread else [[name] for name in unread]:
        with suppress(InputError):
            table = open_table(log.path).read(set(names), options)
            for name in names:
                codes = _codes(table, name)
                if codes is not None:
                    yield name, codes


def _codes(table: LogTable, name: str) -> Ints | None:
    data = table.table[name].combine_chunks()
    if pa.types.is_floating(data.type) or data.null_count:
        return None
    if not pa.types.is_dictionary(data.type):
        data = pc.dictionary_encode(data)
    known: Sequence[str] = [str(value) for value in data.dictionary.to_pylist()]
    if not 2 <= len(known) <= min(_ACTORS_MAX, max(2, table.rows // 2)) or any(map(_is_fraction, known)):
        return None
    codes: Ints = data.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _is_fraction(text: str) -> bool:
    try:
        return not float(text).is_integer()
    except (ValueError, OverflowError):
        return False
