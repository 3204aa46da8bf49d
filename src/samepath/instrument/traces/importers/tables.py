"""Tables from CSV and Parquet files, and which of their columns is what.

:func:`read_table` reads a file whole and strictly: a row with a missing field is refused, not padded. Every fault is reported
with its file, line and column, because logs have millions of rows. Columns of a text stay text until they are asked for as
numbers, so that an error can show what stands there.

:func:`map_columns` finds the column of every key and channel: the user's own mapping first, then the names people use, with the
unit in the header (``x[cm]``). It guesses no unit: where positions mix units, or have an unknown one, the log is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
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
from samepath.core.units import ANGLE_UNITS_DEG, DURATION_UNITS_S, LENGTH_UNITS_M, SPEED_UNITS_MPS

_PARQUET_MAGIC = b"PAR1"
# Every whole number below is a float64 of its own.
_EXACT_BELOW: Final = 2.0**53


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
        values = self._numbers(column)
        bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
        if bad.size:
            row = int(bad[0])
            raise InputError(f"{self.place(row, column)}: a finite number up to {LARGEST:g} was wanted, but {values[row]} came")
        return values

    def whole(self, column: str) -> NDArray[np.int64] | None:
        """Return a column as whole numbers, each one exact, or None if it holds something else, such as names.

        Ids, repeats and ticks never pass through float64, which has no odd numbers beyond 2**53: two actors would become one,
        or two ticks. A number that cannot be kept is refused, with its place in the file.
        """
        data = self._column(column)
        try:
            values = self._numbers(column) if self.is_text or not pa.types.is_integer(data.type) else None
        except InputError:
            return None
        if values is not None and (not np.all(np.isfinite(values)) or np.any(values != np.rint(values))):
            return None
        if not data.null_count and not pa.types.is_floating(data.type):
            try:
                exact: NDArray[np.int64] = pc.cast(data, pa.int64()).to_numpy()
            except pa.ArrowException:  # 1.0 or 1e3 in a text, or beyond 64 bits
                pass
            else:
                return exact
        if values is None:
            values = pc.cast(data, pa.float64(), safe=False).to_numpy()
        large = np.flatnonzero(~(np.abs(values) < _EXACT_BELOW))
        if large.size:
            raise self._inexact(int(large[0]), column, "write it as a signed 64-bit number, without fraction or exponent")
        return values.astype(np.int64)

    def words(self, column: str) -> list[str]:
        """Return a column as text."""
        return [str(value) for value in self._column(column).to_pylist()]

    def _inexact(self, row: int, column: str, advice: str) -> InputError:
        came = self._column(column)[row].as_py()
        return InputError(f"{self.place(row, column)}: {came} cannot be kept exactly: {advice}")

    def _column(self, column: str) -> pa.ChunkedArray:
        return self.table[column]

    def _numbers(self, column: str) -> NDArray[np.float64]:
        data = self._column(column)
        if data.null_count:
            row = int(np.flatnonzero(data.is_null().to_numpy())[0])
            raise InputError(f"{self.place(row, column)}: a number was wanted, but the value is missing")
        try:
            result: NDArray[np.float64] = pc.cast(data, pa.float64()).to_numpy()
        except pa.ArrowException:
            if pa.types.is_integer(data.type):
                large = np.flatnonzero(np.abs(pc.cast(data, pa.float64(), safe=False).to_numpy()) >= _EXACT_BELOW)
                raise self._inexact(int(large[0]), column, "store it as a float, or in a larger unit") from None
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


Number = TypeVar("Number", float, NDArray[np.float64])

KEYS: Final = ("cell", "repeat", "actor", "actor_type", "tick", "time_s")

# Names seen in logs, without unit, lower case. The first entry of each is ours.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cell": ("cell",),
    "repeat": ("repeat", "repeatno", "repeat_no", "repeat_id", "run", "run_id", "runno", "run_no", "episode"),
    "actor": (
        "actor",
        "agentno",
        "actor_id",
        "agent",
        "agent_id",
        "agentid",
        "vehicle_id",
        "track_id",
        "object_id",
        "id",
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


def map_columns(names: list[str], wanted: Mapping[str, str], where: str) -> dict[str, Column]:
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
    return split_unit(header, units)[0].lower() == synonym or header.lower() == synonym


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


def _chosen(target: str, header: str, names: list[str], where: str) -> Column:
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


def _check(found: Mapping[str, Column], names: list[str], where: str) -> None:
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
