"""The document of a study's folder: its own way to judge, its cells in the plan's order, and those that have no figures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from samepath.cli import options as opt
from samepath.core.errors import InputError
from samepath.core.units import parse_tolerance_m
from samepath.instrument.analysis.cell import Options, analyse_cell
from samepath.instrument.analysis.factors import MissingCell
from samepath.instrument.analysis.phases import parse_split
from samepath.instrument.analysis.study import parse_restriction
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.execution.folder import STUDY_FILE, StudyRecord, absent_cells, read_record, stored_cells, with_hosts
from samepath.instrument.report.document import Document
from samepath.instrument.study.records import Judging


def study_document(
    folder: Path, record: StudyRecord, tolerance_m: float | None = None, judging: Judging | None = None, partial: str = ""
) -> Document | None:
    """Analyse what is in a study's folder; None where no cell has two repeats to compare."""
    plan = record.plan
    judging = judging or plan.judging
    cells = [cell for cell in stored_cells(plan, folder) if len(cell.runs) > 1]
    if not cells:
        return None
    results = []
    with opt.progress_bar("analysing", len(cells)) as advance:
        for cell in cells:
            options = Options(
                tolerance_m=plan.tolerance_m if tolerance_m is None else tolerance_m,
                criterion=Criterion(judging.criterion),
                split=parse_split(judging.split_at, cell.header.step_s),
                confidence=judging.confidence,
                structure_fails=judging.structure == "fail",
            )
            results.append(analyse_cell(cell, options))
            advance(cell.header.cell, None)
    known = sorted({name for cell in plan.cells for name in cell.condition})
    return Document(
        title=plan.name,
        cells=tuple(results),
        restriction=parse_restriction(list(judging.restrict), known, results[0].boundary.split.name),
        command=record.command,
        provenance=with_hosts(record.provenance, record.hosts),
        partial=partial,
        missing=missing_cells(folder, record),
    )


def missing_cells(folder: Path, record: StudyRecord) -> tuple[MissingCell, ...]:
    """Return the cells that were asked for and have no figures, in the plan's order."""
    return tuple(
        MissingCell(
            name=one.cell.name,
            simulator=one.cell.simulator,
            variant=one.cell.variant,
            scenario=one.cell.scenario,
            condition=one.cell.condition,
            reason=one.reason,
            kind=one.kind,
        )
        for one in absent_cells(record, folder)
    )


def study_folder_document(context: typer.Context, paths: Sequence[Path], tolerance: str | None) -> Document | None:
    """Return the document of a study's folder, judged in its own way or as the command line says; None for other paths."""
    if len(paths) != 1 or not (paths[0] / STUDY_FILE).exists():
        return None
    (folder,) = paths
    record = read_record(folder)
    said = {name: context.params[name] for name in ("criterion", "split_at", "structure", "restrict") if given(context, name)}
    if "structure" in said:
        opt.analysis_options("0", Criterion.DEVIATION, "collision", said["structure"], 1.0)
    if "restrict" in said:
        said["restrict"] = tuple(said["restrict"])
    tolerance_m = None if tolerance is None else parse_tolerance_m(tolerance)
    document = study_document(folder, record, tolerance_m, replace(record.plan.judging, **said))
    if document is None:
        raise InputError(f"{folder}: no cell has two finished repeats to compare; continue with: samepath resume {folder}")
    return document


def given(context: typer.Context, name: str) -> bool:
    """Was an option on the command line?"""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
