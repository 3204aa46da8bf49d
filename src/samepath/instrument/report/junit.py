"""JUnit XML: one test case per cell, so that any CI server can gate on the verdict."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Final

from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.study import MissingCell
from samepath.instrument.report.document import Document
from samepath.instrument.report.words import clean, headline, length, rate_span, sentence

FAILED: Final = "failed"
FLIPS: Final = "assertion-flips"


def render_junit(document: Document) -> str:
    """Return the report as JUnit XML.

    A cell beyond its tolerance, or with an assertion that flips, is a failure, a broken one an error; others are skipped.
    """
    failures = sum(_fails(cell) for cell in document.cells)
    errors = sum(cell.kind == FAILED for cell in document.missing)
    counts = {
        "tests": str(len(document.cells) + len(document.missing)),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": str(len(document.missing) - errors),
    }
    root = ET.Element("testsuites", {"name": "samepath", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": clean(document.title), **counts})
    _properties(
        suite,
        {
            "verdict": document.verdict.value,
            "headline": headline(document),
            "tolerance_m": repr(document.tolerance_m),
            "criterion": document.cells[0].options.criterion.value,
            "command": document.command,
            "partial": document.partial,
            "differs_from_lock": ", ".join(document.differs_from_lock),
        },
    )
    for cell in document.cells:
        _case(suite, cell)
    for missing in document.missing:
        _missing(suite, missing)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, cell: CellAnalysis) -> None:
    header, judgement = cell.header, cell.judgement
    case = ET.SubElement(suite, "testcase", {"classname": clean(header.simulator) or "samepath", "name": clean(header.cell)})
    _properties(case, _figures(cell))
    if not judgement.verdict.passes:
        failure = ET.SubElement(case, "failure", {"type": judgement.verdict.value, "message": clean(judgement.reason)})
        failure.text = clean("\n".join([*_details(cell), *_flips(cell)]))
    elif _fails(cell):
        # The paths are within the tolerance, but a verdict is not the same in all repeats: the gate is closed as well.
        failure = ET.SubElement(case, "failure", {"type": FLIPS, "message": clean(_flips(cell)[0])})
        failure.text = clean("\n".join(_flips(cell)))


def _fails(cell: CellAnalysis) -> bool:
    return not cell.judgement.verdict.passes or bool(_flips(cell))


def _flips(cell: CellAnalysis) -> list[str]:
    """Name the assertions whose verdict is not the same in all repeats."""
    return (
        []
        if cell.assertions is None
        else [f"{assertion.words()}." for assertion in cell.assertions.assertions if assertion.flips]
    )


def _missing(suite: ET.Element, missing: MissingCell) -> None:
    names = {"classname": clean(missing.simulator) or "samepath", "name": clean(missing.name)}
    case = ET.SubElement(suite, "testcase", names)
    _properties(case, {"scenario": missing.scenario, **_conditions(missing.condition)})
    message = clean(f"{missing.kind}: {missing.reason}" if missing.reason else missing.kind)
    if missing.kind == FAILED:
        ET.SubElement(case, "error", {"type": missing.kind, "message": message}).text = message
    else:
        ET.SubElement(case, "skipped", {"message": message})


def _conditions(condition: Mapping[str, object]) -> dict[str, str]:
    return {f"condition.{name}": str(value) for name, value in condition.items()}


def _figures(cell: CellAnalysis) -> dict[str, str]:
    """The main figures, exact to the last bit; what does not exist is left out."""
    summary = cell.summary
    numbers = {
        "max_sigma_m": summary.max_sigma_m,
        "max_deviation_m": summary.max_deviation_m,
        "max_range_m": summary.max_range_m,
        "mean_sigma_m": summary.mean_sigma_m,
        "psi_m2": summary.psi_m2,
        "log_resolution_m": cell.spread.resolution.step_m,
        "divergence_rate_upper": cell.bounds.upper,
    }
    return {
        "verdict": cell.judgement.verdict.value,
        "scenario": cell.header.scenario,
        **_conditions(cell.header.condition),
        "repeats": str(cell.repeats),
        "outcomes": str(len(cell.outcomes)),
        "divergent_repeats": str(cell.divergent),
        **{name: repr(value) for name, value in numbers.items() if value is not None},
    }


def _details(cell: CellAnalysis) -> list[str]:
    """Tell what went wrong, for the reader of a CI log."""
    summary, bounds = cell.summary, cell.bounds
    lines = [
        f"{sentence(cell.judgement.reason)}.",
        f"Max sigma {length(summary.max_sigma_m)}, max deviation {length(summary.max_deviation_m)}, "
        f"tolerance {length(cell.options.tolerance_m)}.",
        f"{cell.divergent} of {cell.repeats} repeats diverged into {len(cell.outcomes)} outcomes; "
        f"the true rate is {rate_span(bounds)}.",
        *(f"{sentence(finding.message)}." for finding in cell.findings),
    ]
    if cell.first_divergence is not None:
        lines.append(f"First divergence: {cell.first_divergence.words()}.")
    return lines


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    """Add properties; an empty one is left out."""
    element = ET.SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            ET.SubElement(element, "property", {"name": clean(name), "value": clean(value)})
