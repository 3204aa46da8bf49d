"""What a function gave when it was called n times: the same or not, and where it parts.

For tests. A function may return:

- a trace: a :class:`Repeat`, a cell, the path of a log, of a trace or of a folder of them, or a list of these;
- a :class:`Report` or :class:`StudyResult`;
- plain data: numbers, text, bytes, numpy arrays, and lists, tuples, sets, mappings and dataclasses of these. A path in plain
  data stands for the bytes that lie there; a text that names a file stands for the text and the bytes.

Each result is copied, and each log is read, before the next call. So a function may return the same list each time, or the path
of a log that every run overwrites. A log of one run needs no repeat column, and its file may have a new name in each run.

Traces are analysed as the repeats of a cell, with all that an analysis tells. Plain data is walked leaf by leaf and compared by
its bits, lengths and types first. Nothing is converted to be comparable: an object of another type is refused by its name,
because ``==`` of unknown objects may mean anything.
"""

import dataclasses
import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from samepath.core.errors import InputError, SamepathError
from samepath.core.files import regular
from samepath.core.units import format_length, parse_tolerance_m
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import AnalysisOptions, CellAnalysis, analyse_cell
from samepath.instrument.analysis.explain import explain_cell
from samepath.instrument.analysis.verdict import worst
from samepath.instrument.evaluation import Report
from samepath.instrument.study_run import StudyResult
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.importers import ImportOptions, load_cells, named_after_file
from samepath.instrument.traces.records import Header, Repeat, row_digests
from samepath.instrument.traces.store import store_repeats

_DEEPEST: Final = 40
_MOST_LEAVES: Final = 1_000_000
_SHOWN: Final = 3
_DECIMAL_BITS_MAX: Final = 10_000


Leaf = tuple[str, str, bytes, Any]
"""Where it is, what kind, its exact bits, and a copy of the number or array, None where it is neither."""


@dataclass(frozen=True)
class RepeatedCalls:
    """What n calls gave. ``lines`` say where they part, the first line first; ``cells`` are their traces, where they gave any.

    ``digest`` names what most calls gave. Deviations are metres for traces, and of plain numbers in whatever unit they have.
    """

    repeats: int
    outcomes: int
    verdict: Verdict
    tolerance_m: float | None
    digest: str
    max_deviation_m: float | None
    max_sigma_m: float | None
    lines: tuple[str, ...] = ()
    cells: tuple[MemoryCell, ...] = ()

    @property
    def passes(self) -> bool:
        """Equal to the bit, or near enough where a tolerance was given."""
        if self.tolerance_m is None:
            return self.verdict in (Verdict.BIT_IDENTICAL, Verdict.IDENTICAL_AT_RESOLUTION)
        return self.verdict.passes

    @property
    def properties(self) -> dict[str, str | int | float]:
        """The figures that a test's JUnit entry carries; what does not exist is left out."""
        found = {
            "verdict": self.verdict.value,
            "repeats": self.repeats,
            "outcomes": self.outcomes,
            "max_deviation_m": self.max_deviation_m,
            "max_sigma_m": self.max_sigma_m,
            "tolerance_m": self.tolerance_m,
            "digest": self.digest,
        }
        return {name: value for name, value in found.items() if value is not None}

    def words(self) -> str:
        """Say it, over as many lines as it takes."""
        limit = "" if self.tolerance_m is None else f", tolerance {format_length(self.tolerance_m)}"
        # Without a tolerance none is exceeded: the runs are not the same, and that is all.
        verdict = self.verdict.value if self.passes or self.tolerance_m is not None else "not the same"
        head = f"{verdict}: {self.outcomes} different outcomes in {self.repeats} runs{limit}"
        return "\n".join([head, *self.lines])

    def keep(self, folder: Path) -> Path | None:
        """Store the traces, for ``samepath explain``; None where there are none."""
        for index, cell in enumerate(self.cells):
            store_repeats(folder / "cells" / f"cell-{index}", cell.header, cell.repeats)
        return folder if self.cells else None


def call_repeatedly(
    function: Callable[[], object], repeats: int, tolerance: str | float | None = None, name: str = "calls"
) -> RepeatedCalls:
    """Call a function ``repeats`` times and compare what it returns.

    Each result is copied before the next call, because a function may return one list that it fills again, or the path of one
    log that every run overwrites. An exception of the function is raised, with a note of which call it was.
    """
    taken = []
    for number in range(repeats):
        try:
            value = function()
        except BaseException as error:
            error.add_note(f"samepath: this was run {number + 1} of {repeats}; those before it ended well")
            raise
        taken.append(_take(value, name))
    return _compare_taken(taken, tolerance, name)


def compare_values(values: Iterable[object], tolerance: str | float | None = None, name: str = "calls") -> RepeatedCalls:
    """Compare what several calls returned. Each value is copied before the next one is asked for."""
    return _compare_taken([_take(value, name) for value in values], tolerance, name)


def load_runs(paths: Sequence[Path]) -> list[CellTrace]:
    """Load logs, traces and studies; a log without a repeat column is one run."""
    return load_cells(paths, ImportOptions(accept_one_run=True))


@dataclass(frozen=True)
class _Taken:
    """A copy of what one call returned: traces, a report, or else the leaves of plain data. ``is_none``: it returned None."""

    is_none: bool = False
    traces: dict[str, MemoryCell] | None = None
    report: Report | None = None
    leaves: tuple[Leaf, ...] = ()

    @property
    def kind(self) -> str:
        return "traces or logs" if self.traces is not None else "a report" if self.report is not None else "plain data"


def _take(value: object, name: str) -> _Taken:
    traces = _traces(value)
    if traces is not None:
        return _Taken(traces=traces)
    report = _report(value)
    if report is not None:
        return _Taken(report=report)
    return _Taken(is_none=value is None, leaves=tuple(_leaves(value, name)))


def _compare_taken(taken: Sequence[_Taken], tolerance: str | float | None, name: str) -> RepeatedCalls:
    tolerance_m = None if tolerance is None else parse_tolerance_m(str(tolerance))
    if len(taken) < 2:
        raise InputError(f"{name}: at least 2 runs were wanted to compare, but {len(taken)} came")
    if all(value.is_none for value in taken):
        raise InputError(f"{name} returned nothing to compare: return a trace, a path to logs, a report, numbers or arrays")
    kinds = [value.kind for value in taken]
    if len(set(kinds)) > 1:
        odd = next(number for number, kind in enumerate(kinds) if kind != kinds[0])
        return _structural(len(taken), tolerance_m, f"run {odd} returned {kinds[odd]}, run 0 returned {kinds[0]}", kinds)
    traces = [value.traces for value in taken if value.traces is not None]
    if traces:
        return _compare_traces(traces, tolerance_m)
    reports = [value.report for value in taken if value.report is not None]
    if reports:
        return _compare_reports(reports, tolerance_m)
    return _compare_plain([value.leaves for value in taken], tolerance_m)


def _traces(value: object) -> dict[str, MemoryCell] | None:
    """Return copies of the cells that a value holds, by name; None where it is no trace."""
    if isinstance(value, Repeat):
        header = Header("test", "run", "run", value.channels, _step_s(value))
        return {"run": MemoryCell(header, [_copy(value)])}
    if isinstance(value, CellTrace):
        return _named([value])
    if _is_path(value):
        return _named(load_runs([Path(str(value))]))
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(item, CellTrace | Repeat) or _is_path(item) for item in value)
    ):
        found: dict[str, MemoryCell] = {}
        for index, item in enumerate(value):
            found |= {f"{index}: {name}": cell for name, cell in (_traces(item) or {}).items()}
        return found
    return None


def _is_trace(value: object) -> bool:
    return isinstance(value, CellTrace | Repeat) or _is_path(value)


def _is_path(value: object) -> bool:
    return isinstance(value, os.PathLike) or (isinstance(value, str) and len(value) < 4096 and _exists(value))


def _named(cells: Sequence[CellTrace]) -> dict[str, MemoryCell]:
    """Read cells into memory and name them. Names that were taken from files are replaced: each run may write a new file."""
    found = {}
    for index, cell in enumerate(cells):
        name = f"log {index}" if named_after_file(cell.header) else cell.header.cell
        found[name] = MemoryCell(cell.header, [_copy(cell.load(run.repeat)) for run in cell.runs])
    return found


def _copy(run: Repeat) -> Repeat:
    """Copy a run whose arrays its owner may change; its digests are computed again from its rows."""
    if not any(array.flags.writeable for array in (run.tick, run.actor, run.time_s, run.values)):
        return run
    tick, actor, time_s, values = run.tick.copy(), run.actor.copy(), run.time_s.copy(), run.values.copy()
    digests = row_digests(run.actors, run.channels, tick, actor, time_s, values)
    return replace(run, tick=tick, actor=actor, time_s=time_s, values=values, digests=digests)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a text that could be no path at all
        return False


def _step_s(repeat: Repeat) -> float:
    """The length of a tick, from the first row that has one; a run alone does not say it."""
    rows = np.flatnonzero(repeat.tick > 0)
    return float(repeat.time_s[rows[0]] / repeat.tick[rows[0]]) if len(rows) and repeat.time_s[rows[0]] > 0 else 1.0


def _compare_traces(found: Sequence[dict[str, MemoryCell]], tolerance_m: float | None) -> RepeatedCalls:
    names = list(found[0])
    for number, cells in enumerate(found):
        if list(cells) != names:
            line = f"run {number} has the cells {', '.join(cells)}, run 0 has {', '.join(names)}"
            return _structural(len(found), tolerance_m, line, [",".join(named) for named in found])
    pooled, analyses = [], []
    for name in names:
        group = [cells[name] for cells in found]
        head = group[0].header
        for number, cell in enumerate(group):
            if (cell.header.channels, cell.header.step_s) != (head.channels, head.step_s):
                line = f"run {number} logs other channels or another step in {name} than run 0"
                return _structural(len(found), tolerance_m, line, [str(trace.header.channels) for trace in group])
        runs = [run for cell in group for run in cell.repeats]
        pooled.append(MemoryCell(head, [replace(run, repeat=number) for number, run in enumerate(runs)]))
        analyses.append(analyse_cell(pooled[-1], AnalysisOptions(tolerance_m=tolerance_m or 0.0)))
    digests = [",".join(run.digest for name in names for run in cells[name].runs) for cells in found]
    return RepeatedCalls(
        repeats=len(found),
        outcomes=len(set(digests)),
        verdict=worst([analysis.judgement.verdict for analysis in analyses]),
        tolerance_m=tolerance_m,
        digest=_name(_usual(digests)),
        max_deviation_m=_largest([analysis.summary.max_deviation_m for analysis in analyses]),
        max_sigma_m=_largest([analysis.summary.max_sigma_m for analysis in analyses]),
        lines=tuple(line for analysis in analyses for line in _parting(analysis, named=len(analyses) > 1)),
        cells=tuple(pooled),
    )


def _parting(analysis: CellAnalysis, *, named: bool) -> Iterator[str]:
    if len(analysis.outcomes) < 2:
        return
    before = f"{analysis.header.cell}: " if named else ""
    yield f"{before}{analysis.judgement.reason}"
    if analysis.first_divergence is not None:
        yield analysis.first_divergence.words()


def _shown_name(header: Header) -> str:
    return "log" if named_after_file(header) else header.cell


def _report(value: object) -> Report | None:
    if isinstance(value, StudyResult):
        return value.report
    return value if isinstance(value, Report) else None


def _compare_reports(reports: Sequence[Report], tolerance_m: float | None) -> RepeatedCalls:
    """Reports are equal where every cell has the same outcomes; one that fails by its own tolerance fails here."""
    told = [
        json.dumps(
            [
                [_shown_name(cell.header), sorted([outcome.digest, len(outcome.repeats)] for outcome in cell.outcomes)]
                for cell in report.cells
            ]
        )
        for report in reports
    ]
    verdict = worst([report.verdict for report in reports])
    lines = [f"run {number}: {report!r}" for number, report in enumerate(reports) if not report.passes][:_SHOWN]
    if len(set(told)) > 1:
        odd = next(number for number, text in enumerate(told) if text != told[0])
        lines.append(f"run {odd} found other outcomes than run 0: {_other_cell(reports[0], reports[odd])}")
        # Reports carry their own tolerance; that they are equal is another question, and only a tolerance for it answers it.
        least = Verdict.EXCEEDS_TOLERANCE if tolerance_m is None else Verdict.WITHIN_TOLERANCE
        verdict = max(verdict, least, key=lambda candidate: candidate.rank)
    cells = [cell for report in reports for cell in report.cells]
    return RepeatedCalls(
        repeats=len(reports),
        outcomes=len(set(told)),
        verdict=verdict,
        tolerance_m=reports[0].tolerance_m if tolerance_m is None else tolerance_m,
        digest=_name(_usual(told)),
        max_deviation_m=_largest([cell.summary.max_deviation_m for cell in cells]),
        max_sigma_m=_largest([cell.summary.max_sigma_m for cell in cells]),
        lines=tuple(lines),
    )


def _other_cell(first: Report, other: Report) -> str:
    before = {_shown_name(cell.header): cell for cell in first.cells}
    for cell in other.cells:
        known = before.get(_shown_name(cell.header))
        if known is None or known.outcomes[0].digest != cell.outcomes[0].digest or len(known.outcomes) != len(cell.outcomes):
            count = f"{len(cell.outcomes)} outcomes" + ("" if known is None else f" instead of {len(known.outcomes)}")
            return f"cell {cell.header.cell!r}, {count}"
    return "other cells"


def _compare_plain(walked: Sequence[Sequence[Leaf]], tolerance_m: float | None) -> RepeatedCalls:
    digests = [_name(*(place.encode() + kind.encode() + bits for place, kind, bits, _ in leaves)) for leaves in walked]
    outcomes = len(set(digests))
    deviation, sigma, numbers_only = _spread(walked)
    if outcomes == 1:
        verdict = Verdict.BIT_IDENTICAL
    elif tolerance_m is not None and numbers_only and deviation is not None and deviation <= tolerance_m:
        verdict = Verdict.WITHIN_TOLERANCE
    else:
        verdict = Verdict.EXCEEDS_TOLERANCE
    usual = digests.index(_usual(digests))
    odd = [number for number, digest in enumerate(digests) if digest != digests[usual]]
    lines = [_first_difference(walked[usual], walked[number], usual, number) for number in odd[:_SHOWN]]
    if len(odd) > _SHOWN:
        lines.append(f"{len(odd)} of {len(walked)} runs differ from the most frequent outcome")
    return RepeatedCalls(len(walked), outcomes, verdict, tolerance_m, digests[usual], deviation, sigma, tuple(lines))


def _leaves(value: object, name: str) -> list[Leaf]:
    found: list[Leaf] = []

    def walk(item: object, place: str, depth: int) -> None:
        if depth > _DEEPEST or len(found) > _MOST_LEAVES:
            raise InputError(f"{name} returned more than can be compared at {place}: {_DEEPEST} levels, {_MOST_LEAVES} values")
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
            found.append((place, type(item).__name__, b"", None))
            for key, inner in fields.items():
                walk(inner, f"{place}.{key}", depth + 1)
        elif isinstance(item, Mapping):
            # Order counts: that of a dict is part of what a program does with it, and of a set it is compared sorted.
            found.append((place, f"mapping of {len(item)}", b"", None))
            for key, inner in item.items():
                walk(inner, f"{place}[{key!r}]", depth + 1)
        elif isinstance(item, list | tuple):
            found.append((place, f"sequence of {len(item)}", b"", None))
            for index, inner in enumerate(item):
                walk(inner, f"{place}[{index}]", depth + 1)
        elif isinstance(item, set | frozenset):
            found.append((place, f"set of {len(item)}", b"", None))
            for index, inner in enumerate(sorted(item, key=repr)):
                walk(inner, f"{place}{{{index}}}", depth + 1)
        else:
            found.append(_leaf(item, place, name))

    walk(value, "result", 0)
    return found


def _leaf(item: object, place: str, name: str) -> Leaf:
    if item is None or isinstance(item, bool | str | bytes):
        bits = repr(item).encode()
        if isinstance(item, str) and len(item) < 4096 and _is_file(item):
            bits += b", a file of digest " + _content(Path(item))  # one name, which each run may overwrite
        return place, type(item).__name__, bits, None
    if isinstance(item, int):
        # Python refuses to write very long integers in decimal digits.
        digits = str(item) if item.bit_length() <= _DECIMAL_BITS_MAX else hex(item)
        return place, "int", digits.encode(), float(item) if abs(item) < 2**1000 else None
    if isinstance(item, float):  # numpy's float64 too
        return place, "float", struct.pack("<d", math.nan if math.isnan(item) else item), float(item)
    if isinstance(item, os.PathLike):
        # Its name may be new in every run: what counts is what lies there.
        return place, "path", _content(Path(item)), None
    array = np.array(item) if isinstance(item, np.ndarray | np.generic) and not np.ma.isMaskedArray(item) else None
    if array is None or array.dtype.hasobject:
        raise InputError(
            f"{name} returned a {type(item).__name__} at {place}, which cannot be compared exactly: "
            "return a trace, a path to logs, numbers, arrays, text, or lists and mappings of these"
        )
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)  # one bit pattern for «no number»
    bits = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return place, f"{array.dtype.name}{list(array.shape)}", bits, array if array.dtype.kind in "iuf" else None


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _content(path: Path) -> bytes:
    """Name what lies at a path: the bytes of a file, or of all files of a folder under their names in it."""
    try:
        if path.is_dir():
            files = sorted(found for found in path.rglob("*") if found.is_file())
            parts = [part for file in files for part in (file.relative_to(path).as_posix(), regular(file).read_bytes())]
            return _name(*parts).encode()
        return _name(regular(path).read_bytes()).encode()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _spread(walked: Sequence[Sequence[Leaf]]) -> tuple[float | None, float | None, bool]:
    """Largest deviation from the mean and largest sigma of any number, and whether numbers are all that differs."""
    shapes = {tuple((place, kind) for place, kind, _, _ in leaves) for leaves in walked}
    if len(shapes) > 1:
        return None, None, False
    deviation, sigma, numbers_only = 0.0, 0.0, True
    any_number = False
    for column in zip(*walked, strict=True):
        numbers = [leaf[3] for leaf in column]
        if any(number is None for number in numbers):
            numbers_only &= len({leaf[2] for leaf in column}) == 1
            continue
        any_number = True
        if len({leaf[2] for leaf in column}) == 1:
            continue
        stacked = np.array(numbers, np.float64)
        away = stacked - stacked[0]  # equal numbers give exactly zero
        if not np.all(np.isfinite(away)):
            return math.inf, math.inf, numbers_only
        deviation = max(deviation, float(np.max(np.abs(away - away.mean(axis=0)), initial=0.0)))
        sigma = max(sigma, float(np.max(away.std(axis=0, ddof=1), initial=0.0)))
    return (deviation, sigma, numbers_only) if any_number else (None, None, numbers_only)


def _first_difference(usual: Sequence[Leaf], odd: Sequence[Leaf], usual_number: int, number: int) -> str:
    for before, here in zip(usual, odd, strict=False):
        if before[:3] != here[:3]:
            if before[0] != here[0] or before[1] != here[1]:
                told = f"{here[0]} is a {here[1]} instead of {before[0]}, a {before[1]}"
            else:
                told = f"{here[0]} is {_show(here, before)} instead of {_show(before, here)}"
            return f"run {number} parts from run {usual_number}: {told}"
    return f"run {number} has {len(odd)} values, run {usual_number} has {len(usual)}"


def _show(leaf: Leaf, other: Leaf) -> str:
    _, _, bits, number = leaf
    if isinstance(number, np.ndarray) and number.size and len(bits) == len(other[2]):
        # By bits: 0.0 and -0.0 differ, too.
        pairs = zip(bits, other[2], strict=True)
        item = next(index for index, (a, b) in enumerate(pairs) if a != b) // number.dtype.itemsize
        at = [int(index) for index in np.unravel_index(item, number.shape)]
        return f"{number.flat[item].item()!r}" + (f" at {at}" if number.ndim else "")
    if isinstance(number, np.ndarray) or (number is None and not bits[:60].isascii()):
        return f"{len(bits)} bytes of digest {_name(bits)[:12]}"
    return repr(number) if number is not None else bits.decode("utf-8", "replace")[:80]


def _structural(repeats: int, tolerance_m: float | None, line: str, kinds: Sequence[str]) -> RepeatedCalls:
    usual = _name(_usual(kinds))
    return RepeatedCalls(repeats, len(set(kinds)), Verdict.EXCEEDS_TOLERANCE, tolerance_m, usual, None, None, (line,))


def _usual(words: Sequence[str]) -> str:
    """The most frequent, ties by who came first."""
    return max(dict.fromkeys(words), key=words.count)


def _name(*parts: str | bytes) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _largest(figures: Sequence[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)


def explained(calls: RepeatedCalls) -> tuple[str, tuple[str, ...]]:
    """Say why traces part: the cause in a word, and in as many lines as it takes. Empty where there are no traces that do."""
    for cell in calls.cells:
        try:
            explanation = explain_cell(cell)
        except SamepathError:  # what was found before must be told, whether or not it can be explained
            continue
        if explanation.partings:
            return str(explanation.cause), tuple(explanation.words().splitlines())
    return "", ()
