"""Logs as tables: CSV and Parquet with the columns that importers look for, and with everything that may stand in them.

A file is made from ``(seed, number)`` alone: its ending and its bytes. Most are plausible logs with an odd value here and
there; some have columns of odd types, rows of odd lengths, far too many rows in few bytes, or bytes that were changed.
"""

import io
import math
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from samepath.core.streams import stream

ODD_SHARES: Final = (0.0, 0.0, 0.01, 0.05, 0.3)
KEYS: Final = ("repeat", "run_id", "actor", "agent_id", "tick", "frame", "time", "time_ms", "t", "cell", "actor_type", "type")
CHANNELS: Final = ("x", "y", "z", "x_m", "pos_x[cm]", "y [mm]", "yaw", "yaw_rad", "vx_mps", "vx (km/h)", "x[furlong]", "speed")
ODD_NAMES: Final = ("", " x ", '"x"', "x,y", "\u9053", "x" * 3000, "\x1b[2J", "X", "1", "nan", "repeat ")
ODD_WORDS: Final = (
    "", " ", "nan", "inf", "-inf", "1e400", "1e100", "-1e100", "1e101", "9007199254740993", "9223372036854775807",
    "-9223372036854775808", "18446744073709551616", "9" * 400, "0" * 5000 + "1", "0x10", "1_0", "1.0", "1e3", "+5", "-0", "ego",
    "\u0661", "1,5", '"', '""', "\0", "5e-324", "true", "None", "\ufeff1", "x" * 5000,
)  # fmt: skip
ODD_FLOATS: Final = (math.nan, math.inf, -math.inf, 1e100, -1e101, 5e-324, -0.0, 2.0**53, 2.0**63, 1e308)
ODD_INTS: Final = (2**53, 2**53 + 1, 2**63 - 1, -(2**63), -1, 2**31, 0)


class TableGrammar:
    """Makes one table."""

    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance
        self._share = float(chance.choice(ODD_SHARES))
        self._repeats, self._actors, self._ticks = 1 + self._below(3), 1 + self._below(3), 1 + self._below(5)

    def _below(self, count: int) -> int:
        return int(self._chance.integers(count))

    def _odd(self, times: float = 1.0) -> bool:
        return bool(self._chance.random() < self._share * times)

    def _names(self) -> list[str]:
        names = ["repeat", "actor", "tick" if self._below(2) else "time", "x", "y"]
        names += [CHANNELS[self._below(len(CHANNELS))] for _ in range(self._below(3))]
        names += [KEYS[self._below(len(KEYS))] for _ in range(self._below(2))]
        if self._odd():
            names[self._below(len(names))] = ODD_NAMES[self._below(len(ODD_NAMES))]
        if self._odd():
            del names[self._below(len(names))]
        return list(dict.fromkeys(names)) if self._below(20) else names

    def _columns(self, names: list[str]) -> list[list[float | int]]:
        grid = [(r, a, t) for r in range(self._repeats) for t in range(self._ticks) for a in range(self._actors)]
        step = (1, 0.1, 0.05, 1e-9, 1e9)[self._below(5)]
        found: list[list[float | int]] = []
        for name in names:
            if name in ("repeat", "run_id", "cell"):
                found.append([r for r, _, _ in grid])
            elif name in ("actor", "agent_id", "actor_type", "type"):
                found.append([a for _, a, _ in grid])
            elif name in ("tick", "frame"):
                found.append([t for _, _, t in grid])
            elif name.startswith("t"):
                found.append([t * step for _, _, t in grid])
            else:
                found.append([float(value) for value in self._chance.normal(0.0, 100.0, len(grid)).round(3)])
        return found

    def csv(self) -> bytes:
        """A text of rows."""
        names = self._names()
        columns = [[repr(value) for value in values] for values in self._columns(names)]
        for values in columns:
            for row in range(len(values)):
                if self._odd(0.2):
                    values[row] = ODD_WORDS[self._below(len(ODD_WORDS))]
        delimiter, end = ",;\t"[self._below(3)], ("\n", "\r\n", "\n\n", "\r")[self._below(4) if self._odd() else 0]
        lines = [delimiter.join(names), *(delimiter.join(row) for row in zip(*columns, strict=True))]
        if self._odd() and len(lines) > 1:
            lines[self._below(len(lines))] += delimiter * self._below(4000)
        data = bytearray((end.join(lines) + (end if self._below(4) else "")).encode())
        return self._changed(data)

    def _array(self, values: list[float | int]) -> pa.Array:
        """A column, of a type that fits or of another."""
        kind = self._below(12) if self._odd(3.0) else 0
        size = len(values)
        if kind == 0 or not size:
            some = [
                ODD_INTS[self._below(len(ODD_INTS))] if self._odd(0.2) and isinstance(value, int) else value for value in values
            ]
            some = [
                ODD_FLOATS[self._below(len(ODD_FLOATS))] if self._odd(0.2) and isinstance(value, float) else value
                for value in some
            ]
            return pa.array(some)
        if kind == 1:
            return pa.array([None if self._odd() else value for value in values])
        if kind == 2:
            return pa.array([str(value) if not self._odd() else ODD_WORDS[self._below(len(ODD_WORDS))] for value in values])
        if kind == 3:
            return pa.array([self._chance.bytes(self._below(9)) for _ in values], pa.binary())
        if kind == 4:
            return pa.array([self._chance.bytes(3) for _ in values], pa.binary()).cast(pa.string(), safe=False)
        whole = [abs(int(value)) for value in values]
        types = (
            pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(38, 0), pa.timestamp("ns"), pa.duration("us"),
            pa.list_(pa.int64()),
        )  # fmt: skip
        chosen = types[kind - 5]
        return pa.array([[value] for value in whole] if kind == 11 else [value % 100 for value in whole], chosen)

    def parquet(self) -> bytes:
        """A file of columns, or one whose bytes were changed."""
        names = self._names()
        columns = self._columns(names)
        arrays = [self._array(values) for values in columns]
        sink = io.BytesIO()
        table = pa.table(arrays, names=names)
        if self._odd(0.3) and table.num_rows:  # many rows in few bytes
            many = pa.array(np.zeros(20_000 * (1 + self._below(300)), np.int32))
            # Of some types there is no dictionary; of nothing but nulls there is one that cannot be written.
            if not any(pa.types.is_null(array.type) for array in arrays):
                with suppress(pa.ArrowException):
                    table = pa.table([array.slice(0, 1).dictionary_encode().take(many) for array in arrays], names=names)
        compression = ("snappy", "zstd", "gzip", "none")[self._below(4)]
        pq.write_table(
            table, sink, compression=compression, row_group_size=max(1, self._below(1 << 20)) if self._below(2) else None
        )
        return self._changed(bytearray(sink.getvalue()))

    def _changed(self, data: bytearray) -> bytes:
        if self._odd(2.0):
            for _ in range(self._below(6)):
                # Half of them in the last bytes, where a Parquet file says what it holds.
                last = min(len(data), 600)
                at = len(data) - 1 - self._below(last) if last and self._below(2) else self._below(len(data) or 1)
                if data:
                    data[at] = self._below(256)
        if self._odd():
            del data[self._below(len(data) + 1) :]
        return bytes(data)


def table_document(seed: int, number: int) -> tuple[str, bytes]:
    """The ending of a file's name, and what it holds."""
    grammar = TableGrammar(stream(seed, "tables", number))
    return ("parquet", grammar.parquet()) if number % 2 else ("csv", grammar.csv())
