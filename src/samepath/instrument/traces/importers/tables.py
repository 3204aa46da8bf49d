"""Tables from CSV and Parquet files, and which of their columns is what.

:func:`open_table` looks at the names of a file's columns and at nothing else; :meth:`TableFile.read` then reads those that are
wanted, strictly: a row with a missing field is refused, not padded. Every fault is reported with its file, line and column,
because logs have millions of rows. Columns of a text stay text until they are asked for as numbers, so that an error can show
what stands there.

How much memory a table takes is for the reader to say, not for the file: run lengths and dictionaries let a Parquet file of a
few hundred kilobytes hold gigabytes. Rows and widths are known from its end, before anything is decoded; texts stay a
dictionary and numbers; and what is decoded is counted as it comes, because the end of a file may lie.

Whole numbers never pass through float64 on their way to an id, a repeat or a tick, and where a float is wanted one that float64
does not have is refused, never rounded.

:func:`map_columns` finds the column of every key and channel: the user's own mapping first, then the names people use, with the
unit in the header (``x[cm]``). It guesses no unit: where positions mix units, or have an unknown one, the log is refused.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samepath.core.channels import LARGEST, POSITION, ROTATION, STANDARD, VELOCITY
from samepath.core.errors import InputError, nearest, printable
from samepath.core.files import regular
from samepath.core.units import ANGLE_UNITS_DEG, DURATION_UNITS_S, LENGTH_UNITS_M, SPEED_UNITS_MPS
from samepath.instrument.traces.importers import ImportOptions, too_large

_PARQUET_MAGIC = b"PAR1"
# Every whole number below is a float64 of its own.
EXACT_BELOW: Final = 2**53
COLUMNS_MAX: Final = 2000
_HEAD_BYTES: Final = 1 << 16
_BATCH_ROWS: Final = 1 << 16
_CODE_BYTES: Final = 4  # of a text, as its number in a dictionary
# What pyarrow raises for a file that is not what it says; the last one for names of columns.
_DAMAGE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class TableFile:
    """A file whose columns are known and of which nothing has been read. ``delimiter`` is empty for Parquet."""

    path: Path
    names: tuple[str, ...]
    delimiter: str = ""

    def read(self, wanted: Collection[str], options: ImportOptions, taken_bytes: int = 0) -> "LogTable":
        """Read some columns, all of their rows. ``taken_bytes`` is what the logs take that were read before this one."""
        batches = _read_text(self, wanted) if self.delimiter else _read_parquet(self, wanted, options, taken_bytes)
        kept, size_bytes, counted = [], 0, set[int]()
        try:
            for batch in batches:
                size_bytes += _size_bytes(batch, counted)
                if taken_bytes + size_bytes > options.memory_bytes:
                    raise too_large(str(self.path), taken_bytes + size_bytes, options)
                kept.append(batch)
        except _DAMAGE as error:
            reason = printable(str(error).partition("\n")[0])
            if self.delimiter:
                raise InputError(f"{self.path} cannot be read as CSV ({reason})") from error
            raise InputError(f"{self.path} is not a whole Parquet file ({reason}): copy or export it again") from error
        if not sum(batch.num_rows for batch in kept):
            rows = "a header but no rows" if self.delimiter else "no rows"
            raise InputError(f"{self.path} has {rows}: a log of at least two repeats was wanted")
        table = pa.Table.from_batches(kept).unify_dictionaries()
        return LogTable(self.path, self.names, table, bool(self.delimiter), size_bytes)


@dataclass(frozen=True)
class _Distinct:
    """What stands in a column.

    Of a dictionary only the entries that are used, each once: ``row`` is the first row that has it, ``inverse`` the entry of
    every row. Other columns stand as they are, and both are None.
    """

    values: pa.ChunkedArray
    row: NDArray[np.intp] | None = None
    inverse: NDArray[np.intp] | None = None

    def row_of(self, index: int) -> int:
        return index if self.row is None else int(self.row[index])


@dataclass(frozen=True)
class LogTable:
    """A table and where it came from; ``names`` are those of all columns of the file, read or not."""

    path: Path
    names: tuple[str, ...]
    table: pa.Table
    is_text: bool
    size_bytes: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def place(self, row: int, column: str) -> str:
        """Name a cell of the table for people: file, line or row, column."""
        where = f"line {_line_of(self.path, row)}" if self.is_text else f"row {row + 1}"
        return f"{self.path}, {where}, column {column!r}"

    def floats(self, column: str) -> NDArray[np.float64]:
        """Return a column as finite numbers, or say which one is not. A whole number that float64 does not have is refused."""
        data = self._distinct(column)
        values = self._numbers(data, column)
        bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
        if bad.size:
            place, came = self.place(data.row_of(int(bad[0])), column), values[bad[0]]
            raise InputError(f"{place}: a finite number up to {LARGEST:g} was wanted, but {came} came")
        rounded = _first_rounded(data.values, values)
        if rounded is not None:
            raise self._inexact(data, rounded, column, "write it in a larger unit; for a time, --align start is exact")
        return values if data.inverse is None else values[data.inverse]

    def whole(self, column: str) -> NDArray[np.int64] | None:
        """Return a column as whole numbers, each one exact, or None if it holds something else, such as names.

        Ids, repeats and ticks never pass through float64, which has no odd numbers beyond 2**53: two actors would become one,
        or two ticks. A number that cannot be kept is refused, with its place in the file.
        """
        data = self._distinct(column)
        if pa.types.is_integer(data.values.type):
            self._refuse_missing(data, column)
            values = None
        else:
            try:
                values = self._numbers(data, column)
            except InputError:
                return None
            if not np.all(np.isfinite(values)) or np.any(values != np.rint(values)):
                return None
        exact = None
        if not pa.types.is_floating(data.values.type):
            with suppress(pa.ArrowException):  # 1.0 or 1e3 in a text, or beyond 64 bits
                exact = pc.cast(data.values, pa.int64()).to_numpy()
        if exact is None:
            if values is None:
                values = pc.cast(data.values, pa.float64(), safe=False).to_numpy()
            large = np.flatnonzero(~(np.abs(values) < EXACT_BELOW))
            if large.size:
                advice = "write it as a signed 64-bit number, without fraction or exponent"
                raise self._inexact(data, int(large[0]), column, advice)
            exact = values.astype(np.int64)
        found: NDArray[np.int64] = exact if data.inverse is None else exact[data.inverse]
        return found

    def beyond_float(self, column: str) -> NDArray[np.int64] | None:
        """Return a column of whole numbers of which some are too large to be floats one by one; None for any other column."""
        data = self._distinct(column)
        is_text = pa.types.is_string(data.values.type)
        if data.values.null_count or not (is_text or pa.types.is_integer(data.values.type)):
            return None
        if is_text and not pc.all(pc.match_substring_regex(data.values, f"^{_DIGITS.pattern}$")).as_py():
            return None
        try:
            exact: NDArray[np.int64] = pc.cast(data.values, pa.int64()).to_numpy()
        except pa.ArrowException:
            return None
        if not np.any((exact >= EXACT_BELOW) | (exact <= -EXACT_BELOW)):
            return None
        return exact if data.inverse is None else exact[data.inverse]

    def words(self, column: str) -> list[str]:
        """Return a column as text; equal texts of a dictionary are one object, however many rows there are."""
        data = self._distinct(column)
        found = [str(value) for value in data.values.to_pylist()]
        return found if data.inverse is None else [found[index] for index in data.inverse.tolist()]

    def _inexact(self, data: _Distinct, index: int, column: str, advice: str) -> InputError:
        came = printable(str(data.values[index].as_py())[:100])
        return InputError(f"{self.place(data.row_of(index), column)}: {came} cannot be kept exactly: {advice}")

    def _distinct(self, column: str) -> _Distinct:
        data = self.table[column]
        if not pa.types.is_dictionary(data.type):
            return _Distinct(data)
        codes = pa.chunked_array([chunk.indices.fill_null(-1) for chunk in data.chunks], data.type.index_type).to_numpy()
        used, row, inverse = np.unique(codes, return_index=True, return_inverse=True)
        entries = pa.array(used, pa.int64(), mask=used < 0)
        return _Distinct(pa.chunked_array([data.chunk(0).dictionary.take(entries)]), row, inverse)

    def _refuse_missing(self, data: _Distinct, column: str) -> None:
        if data.values.null_count:
            index = int(np.flatnonzero(data.values.is_null().to_numpy())[0])
            place = self.place(data.row_of(index), column)
            raise InputError(f"{place}: a number was wanted, but the value is missing")

    def _numbers(self, data: _Distinct, column: str) -> NDArray[np.float64]:
        self._refuse_missing(data, column)
        try:
            # Whole numbers as well as it goes: whether that is exactly is another question, asked where it matters.
            safe = not pa.types.is_integer(data.values.type)
            result: NDArray[np.float64] = pc.cast(data.values, pa.float64(), safe=safe).to_numpy()
        except pa.ArrowException:
            index, text = _first_non_number(data.values)
            hint = ": write the unit into the header, as in x[cm]" if text[:1].isdigit() else ""
            came = f"{text[:100]!r} came" if text else "the value is missing"
            raise InputError(f"{self.place(data.row_of(index), column)}: a number was wanted, but {came}{hint}") from None
        return result


def open_table(path: Path) -> TableFile:
    """Open a CSV (comma, semicolon or tab) or Parquet file and read the names of its columns."""
    try:
        with regular(path).open("rb") as handle:
            head = handle.read(_HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if not head.strip():
        raise InputError(f"{path} is empty: a log with a header and rows was wanted")
    if head.startswith(_PARQUET_MAGIC) or path.suffix == ".parquet":
        return _open_parquet(path)
    return _open_text(path, head)


def _open_parquet(path: Path) -> TableFile:
    try:
        with pq.ParquetFile(path) as file:
            names = tuple(name.strip() for name in file.schema_arrow.names)
    except _DAMAGE as error:
        reason = printable(str(error).partition("\n")[0])
        raise InputError(f"{path} is not a whole Parquet file ({reason}): copy or export it again") from error
    _check_names(path, names)
    return TableFile(path, names)


def _check_names(place: Path | str, names: Collection[str]) -> None:
    if len(names) > COLUMNS_MAX:
        raise InputError(
            f"{place}: at most {COLUMNS_MAX} columns were wanted, but {len(names)} came: export those that are needed"
        )
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise InputError(f"{place}: column {printable(doubled[0])!r} stands there twice: rename one")


def _read_parquet(
    source: TableFile, wanted: Collection[str], options: ImportOptions, taken_bytes: int
) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(source.path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        fields = [field for field, name in zip(schema, source.names, strict=True) if name in wanted]
        size_bytes = taken_bytes + rows * sum(_width_bytes(source.path, field) for field in fields)
        if size_bytes > options.memory_bytes:
            raise too_large(f"{source.path} ({rows} rows)", size_bytes, options)
    texts = [field.name for field in fields if _is_text(field.type)]
    # Without threads and without reading ahead, so that no more than a batch is there that has not been counted.
    with pq.ParquetFile(source.path, read_dictionary=texts, pre_buffer=False) as file:
        columns = [field.name for field in fields]
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            batch.validate(full=True)  # a text that is no UTF-8, an entry that no dictionary has
            arrays = [_readable(batch.column(name)) for name in columns]
            yield pa.record_batch(arrays, names=[name.strip() for name in columns])


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _width_bytes(path: Path, field: pa.Field) -> int:
    """What a value takes when it is read; a column of what is neither number, time nor text is refused."""
    kind = field.type
    if _is_text(kind):
        return _CODE_BYTES
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_temporal)
    if not any(check(kind) for check in checks):
        raise InputError(
            f"{path}, column {printable(field.name)!r}: numbers or text were wanted, but {printable(str(kind)[:100])} came"
        )
    return max(1, int(kind.bit_width) // 8)


def _readable(array: pa.Array) -> pa.Array:
    """A dictionary of texts, whatever they were written as; other columns as they are."""
    if not _is_text(array.type):
        return array
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    if pa.types.is_string(array.type.value_type):
        return array
    return pa.DictionaryArray.from_arrays(array.indices, pc.cast(array.dictionary, pa.string()))


def _size_bytes(batch: pa.RecordBatch, counted: set[int]) -> int:
    """What a batch adds to those before it: the dictionary of a row group comes with each of its batches and is there once."""
    size = 0
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            size += column.nbytes
            continue
        size += column.indices.nbytes
        texts = column.dictionary.buffers()[-1]
        if texts is not None and texts.address not in counted:
            counted.add(texts.address)
            size += column.dictionary.nbytes
    return size


def header_of(head: bytes) -> tuple[list[str], str]:
    """Return the column names of a text file's first line, and its delimiter."""
    line = next(iter(head.decode("utf-8-sig", "replace").lstrip("\r\n").splitlines()), "")
    delimiter = max(",;\t", key=line.count)
    return [name.strip().strip('"').strip() for name in line.split(delimiter)], delimiter


def _open_text(path: Path, head: bytes) -> TableFile:
    names, delimiter = header_of(head)
    if len(names) < 2 or any(not name for name in names):
        raise InputError(
            f"{path}, line 1: a header of column names was wanted, but {head[:60].decode('utf-8', 'replace')!r} came"
        )
    _check_names(f"{path}, line 1", names)
    if all(_is_number(name) for name in names):
        raise InputError(f"{path}, line 1: a header of column names was wanted, but numbers came: add a header line")
    return TableFile(path, tuple(names), delimiter)


def _read_text(source: TableFile, wanted: Collection[str]) -> Iterator[pa.RecordBatch]:
    names = source.names
    columns = [name for name in names if name in wanted]
    wrong: list[tuple[int, int]] = []

    def note(row: pa_csv.InvalidRow) -> str:
        if not wrong:
            wrong.append((row.number or 0, row.actual_columns))
        return "skip"

    reader = pa_csv.open_csv(
        source.path,
        read_options=pa_csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False),
        parse_options=pa_csv.ParseOptions(delimiter=source.delimiter, invalid_row_handler=note),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()), include_columns=columns, strings_can_be_null=False
        ),
    )
    for batch in reader:
        yield pa.record_batch([pc.utf8_trim_whitespace(batch.column(name)) for name in columns], names=columns)
        if wrong:
            break
    if wrong:
        number, actual = wrong[0]
        raise InputError(f"{source.path}, line {number}: {len(names)} values were wanted, as in the header, but {actual} came")


def _first_rounded(values: pa.ChunkedArray, floats: NDArray[np.float64]) -> int | None:
    """Find the first whole number that became another one as a float."""
    for index in np.flatnonzero(np.abs(floats) >= EXACT_BELOW).tolist():
        came = values[index].as_py()
        if isinstance(came, str) and _DIGITS.fullmatch(came):
            sign, digits = ("-", came[1:]) if came[0] == "-" else ("", came.lstrip("+"))
            came = int(sign + (digits.lstrip("0") or "0"))
        if isinstance(came, Decimal) and came == came.to_integral_value():
            came = int(came)
        if isinstance(came, int) and came != int(floats[index]):
            return index
    return None


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


Number = TypeVar("Number", float, NDArray[np.float64])

KEYS: Final = ("cell", "repeat", "actor", "actor_type", "tick", "time_s")

# Names seen in logs, without unit, lower case. The first entry of each is ours.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cell": ("cell",),
    "repeat": ("repeat", "repeatno", "repeat_no", "repeat_id", "run", "run_id", "runno", "run_no", "episode"),
    "actor": (
        *("actor", "agentno", "actor_id", "agent", "agent_id", "vehicle_id", "track_id", "object_id", "obj_id", "id"),
        *("veh_id", "car_id", "entity_id", "entity", "participant_id", "road_user_id", "walker_id", "pedestrian_id"),
        *("actor_name", "vehicle_name", "object_name", "entity_ref", "role_name", "vehicle", "car", "track", "object", "name"),
    ),
    "actor_type": ("actor_type", "agenttype", "agent_type", "type", "type_id", "class", "object_type"),
    "tick": ("tick", "frame", "step", "frame_id", "frame_number"),
    "time_s": ("time", "t", "sim_time", "simtime", "simulation_time", "timestamp", "elapsed"),
    "x_m": ("x", "pos_x", "position_x", "location_x", "px", "x_pos"),
    "y_m": ("y", "pos_y", "position_y", "location_y", "py", "y_pos"),
    "z_m": ("z", "pos_z", "position_z", "location_z", "pz", "z_pos"),
    "roll_deg": ("roll",),
    "pitch_deg": ("pitch",),
    "yaw_deg": ("yaw", "heading"),
    "vx_mps": ("vx", "velocity_x", "vel_x"),
    "vy_mps": ("vy", "velocity_y", "vel_y"),
    "vz_mps": ("vz", "velocity_z", "vel_z"),
}
_UNIT: Final = re.compile(r"(?P<name>.*?)(?:\s*[\[(]\s*(?P<bracket>[^\])]*)\s*[\])]|[_ ](?P<suffix>[A-Za-zµ/]+\d?))?$")
_GROUPS: Final = (("position", POSITION), ("rotation", ROTATION), ("velocity", VELOCITY))


@dataclass(frozen=True)
class Column:
    """A column of the log and the factor that brings it to our unit."""

    name: str
    factor: float = 1.0
    unit: str = ""

    def scaled(self, values: Number) -> Number:
        """Bring values, a number or an array, to our unit.

        Dividing keeps a decimal grid (1234 cm is 12.34 m to the last bit), multiplying by 0.01 does not.
        """
        if self.factor == 1.0:
            return values
        inverse = round(1 / self.factor)
        return values / inverse if self.factor < 1 and abs(1 / self.factor - inverse) < 1e-6 else values * self.factor


def _units_for(target: str) -> Mapping[str, float]:
    if target in POSITION:
        return LENGTH_UNITS_M
    if target in ROTATION:
        return ANGLE_UNITS_DEG
    if target in VELOCITY:
        return SPEED_UNITS_MPS
    return DURATION_UNITS_S if target == "time_s" else {}


def split_unit(header: str, units: Mapping[str, float]) -> tuple[str, str | None]:
    """Split ``x[cm]``, ``x (cm)`` or ``x_cm`` into the name and the unit; the unit is None if there is none of ``units``."""
    match = _UNIT.match(header.strip())
    if match is None:
        return header.strip(), None
    bracket, suffix = match["bracket"], match["suffix"]
    if bracket is not None:
        return match["name"].strip(), bracket.strip()
    if suffix is not None and suffix in units:
        return match["name"].strip(), suffix
    return header.strip(), None


def map_columns(names: Sequence[str], wanted: Mapping[str, str], where: str) -> dict[str, Column]:
    """Find the column of every key and channel; ``wanted`` is the user's mapping and wins."""
    found: dict[str, Column] = {}
    for target, header in wanted.items():
        found[_target(target, where)] = _chosen(_target(target, where), header, names, where)
    taken = {column.name for column in found.values()}
    for target, synonyms in _SYNONYMS.items():
        if target in found:
            continue
        units = _units_for(target)
        for synonym in synonyms:
            hits = [name for name in names if name not in taken and _is_called(name, synonym, units)]
            if hits:
                found[target] = _with_unit(target, hits[0], where)
                taken.add(hits[0])
                break
    for name in names:
        if name in STANDARD and name not in taken and name not in found:
            found[name] = Column(name)
    _check(found, names, where)
    return found


def _is_called(header: str, synonym: str, units: Mapping[str, float]) -> bool:
    """Return True if a header has this name: VehicleID, vehicleId, vehicle-id and vehicle_id are one."""
    return _plain(synonym) in (_plain(split_unit(header, units)[0]), _plain(header))


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]+", "", name).lower()


def _target(text: str, where: str) -> str:
    """Accept ``x`` for ``x_m`` and the like."""
    for target, synonyms in _SYNONYMS.items():
        if text == target or text == synonyms[0]:
            return target
    if text in STANDARD or re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+", text):
        return text
    hint = nearest(text, [*_SYNONYMS, *STANDARD])
    meant = f" did you mean {hint!r}?" if hint else ""
    raise InputError(
        f"{where}: a key or a channel ending in its unit was wanted on the left of --map, but {text!r} came.{meant}"
    )


def _chosen(target: str, header: str, names: Sequence[str], where: str) -> Column:
    units = _units_for(target)
    name, unit = (header, None) if header in names else split_unit(header, units)
    if name not in names:
        hint = nearest(name, names)
        meant = f" did you mean {hint!r}?" if hint else ""
        raise InputError(f"{where}: no column {name!r} for {target}:{meant} there are: {printable(', '.join(names))}")
    return Column(name, _factor(target, unit, name, where), unit or "") if unit else _with_unit(target, name, where)


def _with_unit(target: str, name: str, where: str) -> Column:
    unit = split_unit(name, _units_for(target))[1]
    return Column(name, _factor(target, unit, name, where), unit or "")


def _factor(target: str, unit: str | None, name: str, where: str) -> float:
    units = _units_for(target)
    if unit is None or not units:
        return 1.0
    if unit not in units:
        raise InputError(f"{where}: column {name!r} has the unit {unit!r}, but {target} takes {', '.join(units)}")
    return units[unit]


def _check(found: Mapping[str, Column], names: Sequence[str], where: str) -> None:
    missing = [target for target in ("x_m", "y_m") if target not in found]
    if "tick" not in found and "time_s" not in found:
        missing.append("time_s or tick")
    if missing:
        example = missing[0].split()[0]
        raise InputError(
            f"{where}: no column for {', '.join(missing)} among: {printable(', '.join(names))}; "
            f"name it with --map {example}=COLUMN"
        )
    for kind, group in _GROUPS:
        units = {target: found[target].unit for target in group if target in found}
        if len(set(units.values())) > 1:
            listed = ", ".join(f"{found[target].name!r} in {unit or 'no unit'}" for target, unit in units.items())
            raise InputError(f"{where}: mixed units of {kind}: {listed}; give every one its unit, as in --map x=COLUMN[cm]")
