"""Tables from CSV and Parquet files, with the place of every fault: file, line and column."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.traces.channels import LARGEST

_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True)
class LogTable:
    """A table and where it came from. Columns of a text file are text until they are asked for as numbers."""

    path: Path
    table: pa.Table
    is_text: bool

    @property
    def names(self) -> list[str]:
        """The column names, stripped."""
        return list(self.table.schema.names)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def place(self, row: int, column: str) -> str:
        """Name a cell of the table for people: file, line or row, column."""
        where = f"line {_line_of(self.path, row)}" if self.is_text else f"row {row + 1}"
        return f"{self.path}, {where}, column {column!r}"

    def floats(self, column: str) -> NDArray[np.float64]:
        """Return a column as finite numbers, or say which one is not."""
        values = self._numbers(column, pa.float64())
        bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
        if bad.size:
            row = int(bad[0])
            raise InputError(f"{self.place(row, column)}: a finite number up to {LARGEST:g} was wanted, but {values[row]} came")
        return values

    def whole(self, column: str) -> NDArray[np.int64] | None:
        """Return a column as whole numbers, or None if it holds something else."""
        try:
            values = self._numbers(column, pa.float64())
        except InputError:
            return None
        if not np.all(np.isfinite(values)) or np.any(values != np.rint(values)):
            return None
        return values.astype(np.int64)

    def words(self, column: str) -> list[str]:
        """Return a column as text."""
        return [str(value) for value in self._column(column).to_pylist()]

    def _column(self, column: str) -> pa.ChunkedArray:
        return self.table[column]

    def _numbers(self, column: str, kind: pa.DataType) -> NDArray[np.float64]:
        data = self._column(column)
        if data.null_count:
            row = int(np.flatnonzero(data.is_null().to_numpy())[0])
            raise InputError(f"{self.place(row, column)}: a number was wanted, but the value is missing")
        try:
            result: NDArray[np.float64] = pc.cast(data, kind).to_numpy()
        except pa.ArrowException:
            row, text = _first_non_number(data)
            hint = ": write the unit into the header, as in x[cm]" if text[:1].isdigit() else ""
            came = f"{text!r} came" if text else "the value is missing"
            raise InputError(f"{self.place(row, column)}: a number was wanted, but {came}{hint}") from None
        return result


def read_table(path: Path) -> LogTable:
    """Read a CSV (comma, semicolon or tab) or Parquet file."""
    try:
        with path.open("rb") as handle:
            head = handle.read(1 << 16)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if not head.strip():
        raise InputError(f"{path} is empty: a log with a header and rows was wanted")
    if head.startswith(_PARQUET_MAGIC) or path.suffix == ".parquet":
        return _read_parquet(path)
    return _read_text(path, head)


def _read_parquet(path: Path) -> LogTable:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is not a whole Parquet file ({reason}): copy or export it again") from error
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows: a log of at least two repeats was wanted")
    return LogTable(path, table.rename_columns([name.strip() for name in table.schema.names]), is_text=False)


def header_of(head: bytes) -> tuple[list[str], str]:
    """Return the column names of a text file's first line, and its delimiter."""
    line = head.decode("utf-8-sig", "replace").lstrip("\r\n").splitlines()[0]
    delimiter = max(",;\t", key=line.count)
    return [name.strip().strip('"').strip() for name in line.split(delimiter)], delimiter


def _read_text(path: Path, head: bytes) -> LogTable:
    names, delimiter = header_of(head)
    if len(names) < 2 or any(not name for name in names):
        raise InputError(
            f"{path}, line 1: a header of column names was wanted, but {head[:60].decode('utf-8', 'replace')!r} came"
        )
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{path}, line 1: column {doubled[0]!r} stands there twice: rename one")
    if all(_is_number(name) for name in names):
        raise InputError(f"{path}, line 1: a header of column names was wanted, but numbers came: add a header line")
    wrong: list[tuple[int, int]] = []

    def note(row: pa_csv.InvalidRow) -> str:
        wrong.append((row.number or 0, row.actual_columns))
        return "skip"

    try:
        table = pa_csv.read_csv(
            path,
            read_options=pa_csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as CSV ({str(error).splitlines()[0]})") from error
    if wrong:
        number, actual = wrong[0]
        raise InputError(f"{path}, line {number}: {len(names)} values were wanted, as in the header, but {actual} came")
    if table.num_rows == 0:
        raise InputError(f"{path} has a header but no rows: a log of at least two repeats was wanted")
    columns = [pc.utf8_trim_whitespace(table[name]) for name in names]
    return LogTable(path, pa.table(columns, names=names), is_text=True)


def _first_non_number(data: pa.ChunkedArray) -> tuple[int, str]:
    for row, value in enumerate(data.to_pylist()):
        text = str(value)
        if not _is_number(text):
            return row, text
    return 0, str(data[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _line_of(path: Path, row: int) -> int:
    """Find the line of a data row: the header and empty lines do not count as rows."""
    seen = -1
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if line.strip(b"\r\n"):
                seen += 1
                if seen == row + 1:
                    return number
    return row + 2
