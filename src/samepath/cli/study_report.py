"""The document of a study's folder: its own way to judge, its cells in the plan's order, and those that have no figures."""

from dataclasses import replace
from pathlib import Path

import typer

from samepath.analysis.cell import Options, analyse_cell
from samepath.analysis.factors import MissingCell
from samepath.analysis.phases import parse_split
from samepath.analysis.summary import parse_restriction
from samepath.analysis.verdict import Criterion
from samepath.cli import options as opt
from samepath.execution.absent import absent_cells
from samepath.execution.folder import StudyRecord, stored_cells
from samepath.report.document import Document
from samepath.study.records import Judging


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
        provenance=record.provenance,
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


def judged_by(context: typer.Context, judging: Judging) -> Judging:
    """Return a study's way to judge, with what the command line says instead."""
    said = {name: context.params[name] for name in ("criterion", "split_at", "structure", "restrict") if given(context, name)}
    if "restrict" in said:
        said["restrict"] = tuple(said["restrict"])
    return replace(judging, **said)


def given(context: typer.Context, name: str) -> bool:
    """Was an option on the command line?"""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
