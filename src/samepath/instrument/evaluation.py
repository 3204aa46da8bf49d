"""From traces to a judged report: logs, stored traces and whole study folders, read, analysed and put together.

:func:`load`, :func:`analyse` and :func:`check` are what ``import samepath`` offers for data that is already there; the verbs of
the same names print what these return. A study's folder knows how it wants to be judged: there, whatever the caller leaves out
(None) is the study's own choice, not a default of ours.
"""

import html
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import read_limits
from samepath.core.errors import InputError
from samepath.core.units import format_length, parse_tolerance_m
from samepath.instrument.analysis.assertions import check_applied
from samepath.instrument.analysis.cell import AnalysisOptions, CellAnalysis, analyse_cell
from samepath.instrument.analysis.factors import MissingCell
from samepath.instrument.analysis.phases import COLLISION, parse_split
from samepath.instrument.analysis.study import parse_restriction
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.execution.folder import STUDY_FILE, StudyRecord, absent_cells, read_record, stored_cells, with_hosts
from samepath.instrument.monitors.file import read_file, read_monitors
from samepath.instrument.monitors.monitor import MonitorSet
from samepath.instrument.monitors.view import MonitoredRoads
from samepath.instrument.progress import Display, display_for
from samepath.instrument.report.document import Document, to_json
from samepath.instrument.report.html import render_html, write_reports
from samepath.instrument.study.records import Judging
from samepath.instrument.study.spec import CRITERIA, STRUCTURES
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.importers import LOG_MIB, Align, ImportOptions, load_cells
from samepath.instrument.traces.store import store_repeats

Source = str | os.PathLike[str] | CellTrace
Monitors = str | os.PathLike[str] | Mapping[str, Any] | MonitorSet
DEFAULT_TOLERANCE = "1cm"


@dataclass(frozen=True, eq=False, repr=False)
class Report(Document):
    """The analysed cells, the verdict over all of them, and the page that shows them. A notebook shows the page itself.

    ``traces`` are what was analysed, in the same order: from them the viewer is drawn that is written beside the page, with the
    ``monitors`` that judged them.
    """

    traces: tuple[CellTrace, ...] = ()
    monitors: MonitorSet | None = None

    @property
    def passes(self) -> bool:
        """Is every cell within the tolerance, and does no assertion flip?"""
        return self.verdict.passes and not any(cell.assertions is not None and cell.assertions.flips for cell in self.cells)

    def to_json(self) -> str:
        """Return what ``samepath analyse --json`` prints: one object, units in the names."""
        return to_json(self)

    def to_html(self) -> str:
        """Return the whole page: one file that needs no network and no script."""
        return render_html(self)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``report.html``, ``report.json`` and ``junit.xml`` into a folder that is there; return the page's path.

        Beside them ``view.html``, the runs to look at, unless they are too many for one file; the page leads there.
        """
        from samepath.instrument.viewing import write_beside  # a report that is only printed draws nothing

        viewer = write_beside(self.title, self.traces, Path(folder), self.monitors)
        return write_reports(Path(folder), replace(self, viewer=viewer))

    def _repr_html_(self) -> str:
        # In a frame of its own: the page's style must not touch the notebook, nor the notebook's the page.
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:45em;border:0" title="samepath report"></iframe>'

    def __repr__(self) -> str:
        # Not the dataclass's own: that would print every array of every cell.
        repeats = sum(cell.repeats for cell in self.cells)
        limit = format_length(self.tolerance_m)
        return f"<Report {self.title!r}: {self.verdict.value}, {len(self.cells)} cells, {repeats} repeats, tolerance {limit}>"


def load(
    *paths: str | os.PathLike[str],
    columns: Mapping[str, str] | None = None,
    align: str = Align.TIME,
    lossless: bool = False,
    file_format: str | None = None,
    log_mib: int = LOG_MIB,
) -> list[CellTrace]:
    r"""Open log files (CSV, Parquet, CARLA recordings), trace folders or study folders as cells.

    ``columns`` says which column is what (``{"repeat": "run_id", "x": "pos_x[cm]"}``), ``align`` how rows of repeats are
    matched (``time``, ``start`` or ``row``). Logs with few decimals are taken as rounded unless ``lossless``. ``log_mib``
    bounds the memory that the numbers of all logs together take once they are read, however small the files are.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> (cell,) = load("log.csv")
    >>> len(cell.runs), cell.ticks.tolist()
    (2, [0, 1])
    """
    options = ImportOptions(dict(columns or {}), Align(align), lossless or None, log_mib << 20)
    return load_cells([Path(path) for path in paths], options, file_format)


def store(cells: Sequence[CellTrace], out: str | os.PathLike[str]) -> list[Path]:
    r"""Write imported cells as samepath's own traces, lossless and quick to read again; return a folder for each.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> (folder,) = store(load("log.csv"), "traces")
    >>> analyse(folder).verdict == analyse("log.csv").verdict
    True
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not an empty folder: choose another --out")
    folders = []
    for cell in cells:
        if not isinstance(cell, MemoryCell):
            raise InputError(f"cell {cell.header.cell!r} is a samepath trace already: only logs can be imported")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", cell.header.cell).strip("-.") or "cell"
        folders.append(out / "cells" / name)
        store_repeats(folders[-1], cell.header, cell.repeats)
    return folders


def analyse(
    *sources: Source,
    tolerance: str | float | None = None,
    criterion: str | None = None,
    split_at: str | None = None,
    structure: str | None = None,
    restrict: Sequence[str] | None = None,
    monitors: Monitors | None = None,
    limits: Mapping[str, object] | None = None,
    reference: Source | None = None,
    columns: Mapping[str, str] | None = None,
    align: str = Align.TIME,
    lossless: bool = False,
    file_format: str | None = None,
    log_mib: int = LOG_MIB,
    progress: bool = True,
    command: str | None = None,
) -> Report:
    r"""Measure how far the paths of repeated runs spread.

    ``sources`` are paths as :func:`load` takes them, or cells that it returned. The folder of a study is judged in the study's
    own way where an argument is left out. ``tolerance`` is a length with a unit or in metres (default 1 cm); ``criterion`` is
    ``deviation`` or ``sigma``; ``split_at`` is where phases part (``collision``, ``tick=120``, ``t=6s``); ``structure`` is
    ``fail`` or ``report``; ``restrict`` are the filters of the restricted column. ``monitors`` is a monitor file, or what one
    holds; ``limits`` are those of other quantities, such as ``{"speed": "0.1 m/s"}``. ``reference`` is a trace or a log of
    where the actors should have been. ``command`` is what the report says runs it again.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> report = analyse("log.csv", tolerance="10 cm")
    >>> report.verdict.value, report.cells[0].summary.max_deviation_m
    ('exceeds-tolerance', 0.25)
    """
    display = display_for(progress)
    folder = None if len(sources) != 1 or isinstance(sources[0], CellTrace) else Path(sources[0])
    if folder is not None and (folder / STUDY_FILE).exists():
        record = read_record(folder)
        judging = _judging(record.plan.judging, criterion, split_at, structure, restrict, limits)
        tolerance_m = None if tolerance is None else tolerance_in_m(tolerance)
        reading = ImportOptions(columns or {}, Align(align), lossless or None, log_mib << 20)
        truth = _references(reference, reading, file_format)
        report = study_report(folder, record, tolerance_m, judging, display=display, monitors=monitors, references=truth)
        if report is None:
            words = f"no cell has two finished repeats to compare; continue with: samepath resume {folder}"
            raise InputError(f"{folder}: {words}")
        return report
    limit = DEFAULT_TOLERANCE if tolerance is None else tolerance
    judging = _judging(Judging(), criterion, split_at, structure, restrict, limits)
    again = command if command is not None else _command("analyse", sources, tolerance)
    options = ImportOptions(columns or {}, Align(align), lossless or None, log_mib << 20)
    truth = _references(reference, options, file_format)
    return _analyse_sources(sources, limit, judging, options, file_format, display, again, monitors, truth)


def check(
    *sources: Source,
    tolerance: str | float,
    criterion: str = Criterion.DEVIATION,
    split_at: str = COLLISION.kind,
    structure: str = "fail",
    monitors: Monitors | None = None,
    limits: Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    align: str = Align.TIME,
    lossless: bool = False,
    file_format: str | None = None,
    log_mib: int = LOG_MIB,
    progress: bool = True,
    command: str | None = None,
) -> Report:
    r"""Judge traces by the arguments alone, whatever a study's folder says of itself: the gate of a test suite.

    With ``monitors`` an assertion that flips between repeats does not pass either.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> check("log.csv", tolerance="1 m").passes
    True
    """
    judging = _judging(Judging(), criterion, split_at, structure, None, limits)
    options = ImportOptions(columns or {}, Align(align), lossless or None, log_mib << 20)
    again = command if command is not None else _command("check", sources, tolerance)
    return _analyse_sources(sources, tolerance, judging, options, file_format, display_for(progress), again, monitors)


def study_report(
    folder: Path,
    record: StudyRecord,
    tolerance_m: float | None = None,
    judging: Judging | None = None,
    partial: str = "",
    display: Display | None = None,
    monitors: Monitors | None = None,
    references: tuple[CellTrace, ...] = (),
) -> Report | None:
    """Analyse what is in a study's folder, cells in the plan's order; None where no cell has two repeats to compare."""
    plan = record.plan
    judging = judging or plan.judging
    cells = [cell for cell in stored_cells(plan, folder) if len(cell.runs) > 1]
    if not cells:
        return None
    given = judging.monitors or None if monitors is None else monitors
    options = _options(plan.tolerance_m if tolerance_m is None else tolerance_m, judging, monitor_set(given), references)
    results = _analyse_cells(cells, options, judging.split_at, display or Display())
    # Who stops when enough is known needs a bound that holds at every moment; that of a number fixed beforehand is too small.
    grown = {cell.name for cell in plan.cells if cell.until}
    results = tuple(
        replace(
            result,
            grown=True,
            bounds=replace(
                result.bounds,
                lower=result.bounds.anytime_lower,
                upper=result.bounds.anytime_upper,
            ),
        )
        if result.header.cell in grown
        else result
        for result in results
    )
    known = sorted({name for cell in plan.cells for name in cell.condition})
    return Report(
        title=plan.name,
        cells=results,
        restriction=parse_restriction(list(judging.restrict), known, results[0].boundary.split.name),
        command=record.command,
        provenance=with_hosts(record.provenance, record.hosts),
        partial=partial,
        missing=_missing_cells(folder, record),
        roads=_roads(results),
        traces=tuple(cells),
        monitors=options.monitors,
    )


def tolerance_in_m(tolerance: str | float) -> float:
    """Read a tolerance: a length with a unit, or a number of metres."""
    return parse_tolerance_m(str(tolerance))


def _judging(
    own: Judging,
    criterion: str | None = None,
    split_at: str | None = None,
    structure: str | None = None,
    restrict: Sequence[str] | None = None,
    limits: Mapping[str, object] | None = None,
) -> Judging:
    """Put what the caller says in the place of ``own``, and refuse words that mean nothing."""
    if structure not in (None, *STRUCTURES):
        raise InputError(f"--structure: fail or report was wanted, but {structure!r} came")
    if criterion not in (None, *CRITERIA):
        raise InputError(f"--criterion: deviation or sigma was wanted, but {criterion!r} came")
    return Judging(
        criterion=criterion or own.criterion,
        split_at=split_at or own.split_at,
        structure=structure or own.structure,
        restrict=own.restrict if restrict is None else tuple(restrict),
        confidence=own.confidence,
        monitors=own.monitors,
        limits=own.limits if limits is None else dict(limits),
    )


def _analyse_sources(
    sources: Sequence[Source],
    tolerance: str | float,
    judging: Judging,
    reading: ImportOptions,
    file_format: str | None,
    display: Display,
    command: str,
    monitors: Monitors | None,
    references: tuple[CellTrace, ...] = (),
) -> Report:
    # AnalysisOptions are checked first: a typo in one must not cost the reading of a long log.
    options = _options(tolerance_in_m(tolerance), judging, monitor_set(monitors), references)
    parse_split(judging.split_at, 1.0)
    cells = [source for source in sources if isinstance(source, CellTrace)]
    paths = [Path(source) for source in sources if not isinstance(source, CellTrace)]
    if paths or not cells:
        cells += load_cells(paths, reading, file_format)
    results = _analyse_cells(cells, options, judging.split_at, display)
    names = [path.name or str(path) for path in paths] or [cell.header.cell for cell in cells]
    known = sorted({name for cell in results for name in cell.header.condition})
    restriction = parse_restriction(list(judging.restrict), known, results[0].boundary.split.name)
    return Report(
        ", ".join(names), results, restriction, command, roads=_roads(results), traces=tuple(cells), monitors=options.monitors
    )


def monitor_set(monitors: Monitors | None) -> MonitorSet | None:
    """Read monitors: a file, what one holds, or a set that was read already.

    Functions are looked for beside a file alone: what a study's folder holds may come from anybody.
    """
    if monitors is None or isinstance(monitors, MonitorSet):
        return monitors
    if isinstance(monitors, Mapping):
        return read_monitors(monitors, "monitors", _monitored_roads)
    return read_file(Path(monitors), _monitored_roads)


def _monitored_roads(name: str) -> MonitoredRoads:
    # Reading maps costs imports that most analyses have no use for.
    from samepath.engines.carla.roads import read_roads

    return read_roads(name)


def _references(reference: Source | None, reading: ImportOptions, file_format: str | None) -> tuple[CellTrace, ...]:
    """Open what says where the actors should have been."""
    if reference is None:
        return ()
    return (reference,) if isinstance(reference, CellTrace) else tuple(load_cells([Path(reference)], reading, file_format))


def _options(
    tolerance_m: float, judging: Judging, monitors: MonitorSet | None = None, references: tuple[CellTrace, ...] = ()
) -> AnalysisOptions:
    return AnalysisOptions(
        tolerance_m=tolerance_m,
        criterion=Criterion(judging.criterion),
        confidence=judging.confidence,
        structure_fails=judging.structure == "fail",
        monitors=monitors,
        limits=read_limits(judging.limits),
        references=references,
    )


def _analyse_cells(
    cells: Sequence[CellTrace], options: AnalysisOptions, split_at: str, display: Display
) -> tuple[CellAnalysis, ...]:
    results = []
    with display.steps("analysing", len(cells)) as advance:
        for cell in cells:
            # A moment in seconds is another tick in a cell with another step.
            results.append(analyse_cell(cell, replace(options, split=parse_split(split_at, cell.header.step_s))))
            advance(cell.header.cell, None)
    if options.monitors is not None:
        check_applied([(cell.header.cell, cell.header.scenario, cell.assertions) for cell in results], options.monitors)
    return tuple(results)


def _roads(cells: Sequence[CellAnalysis]) -> dict[str, tuple[NDArray[np.float64], ...]]:
    """The roads that paths lie on, by scenario, where the map is ours to know."""
    from samepath.engines.samepath import looking

    names = sorted({cell.header.scenario for cell in cells if cell.header.simulator.startswith("samepath")})
    maps = {name: looking.map_of(name) for name in names}
    return {name: looking.roads_of(place) for name, place in maps.items() if place is not None}


def _missing_cells(folder: Path, record: StudyRecord) -> tuple[MissingCell, ...]:
    """Return the cells that were asked for and have no figures, in the plan's order."""
    return tuple(
        MissingCell(
            name=absent.cell.name,
            simulator=absent.cell.simulator,
            variant=absent.cell.variant,
            scenario=absent.cell.scenario,
            condition=absent.cell.condition,
            reason=absent.reason,
            kind=absent.kind,
        )
        for absent in absent_cells(record, folder)
    )


def _command(verb: str, sources: Sequence[Source], tolerance: str | float | None) -> str:
    """Return the command line that does the same, where there is one: cells in memory have none."""
    if any(isinstance(source, CellTrace) for source in sources):
        return ""
    limit = [] if tolerance is None else ["--tolerance", str(tolerance)]
    return shlex.join(["samepath", verb, *(str(source) for source in sources), *limit])
