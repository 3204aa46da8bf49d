"""The controls at full power: 1000 repeats each, every one classified as its study file expects."""

import tempfile
from pathlib import Path

from bench.tools import save, show, verdict
from samepath.core.units import format_length
from samepath.instrument.analysis.cell import AnalysisOptions, analyse_cell
from samepath.instrument.execution.folder import stored_cells
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import load_plan


def main() -> bool:
    """Run the controls study and compare verdicts."""
    plan = load_plan("controls")
    rows, figures, good = [], {}, True
    with tempfile.TemporaryDirectory() as folder:
        run_plan(plan, Path(folder), lambda progress: None)
        for planned, cell in zip(plan.cells, stored_cells(plan, Path(folder)), strict=True):
            result = analyse_cell(cell, AnalysisOptions(tolerance_m=plan.tolerance_m))
            right = result.judgement.verdict is planned.expect
            good = good and right
            figures[planned.name] = {
                "repeats": result.repeats,
                "max_sigma_m": result.summary.max_sigma_m,
                "max_deviation_m": result.summary.max_deviation_m,
                "outcomes": len(result.outcomes),
                "divergent": result.divergent,
                "verdict": result.judgement.verdict.value,
            }
            sigma, deviation = (
                format_length(value or 0.0) for value in (result.summary.max_sigma_m, result.summary.max_deviation_m)
            )
            rows.append([planned.name, str(result.repeats), sigma, deviation, str(len(result.outcomes)), str(result.divergent),
                         result.judgement.verdict.value, verdict(met=right)])  # fmt: skip
    show("controls", ["control", "n", "max sigma", "max deviation", "outcomes", "divergent", "verdict", "as expected"], rows)
    save("controls", figures)
    return good
