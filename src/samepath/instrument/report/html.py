"""The HTML report: one file that needs no network and no script, verdict first."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import samepath
from samepath.core.files import write_text_atomically
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.report import figures, path_figure
from samepath.instrument.report.cell_view import (
    FigureView,
    cell_row,
    published_notes,
    table_rows,
    view_assertions,
    view_cell,
    view_figure,
    view_verdict,
)
from samepath.instrument.report.document import Document, to_json
from samepath.instrument.report.junit import render_junit
from samepath.instrument.report.study_view import draws_levels, study_figures, view_study
from samepath.instrument.report.words import (
    VERDICT_MEANINGS,
    clean,
    count,
    exclusion,
    headline,
    length,
    plainly,
    why,
    worst_cell,
)

# Up to so many cells fit a reader's eye: each has a section. Of more, those that are all alike have a line.
FEW_CELLS: Final = 3
# Of more than these, sections are folded, but for that of the worst cell.
_OPEN_CELLS: Final = 12
_OVERVIEW_CELLS: Final = 40
_UNIT: Final = re.compile(r"(\d) (%|km\b|m\b|cm\b|mm\b|µm\b|nm\b|s\b)")
_ALIKE: Final = (Verdict.BIT_IDENTICAL, Verdict.IDENTICAL_AT_RESOLUTION)


def render_html(document: Document) -> str:
    """Return the report as one self-contained HTML page."""
    environment = Environment(
        loader=PackageLoader("samepath.instrument.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    environment.filters["kept"] = _kept
    cells = document.cells
    anchors = [f"cell-{number}" for number in range(1, len(cells) + 1)]
    told = [has_section(cell, len(cells)) for cell in cells]
    folded = sum(told) > _OPEN_CELLS
    worst = worst_cell(document)
    rows = table_rows(document, anchors)
    return environment.get_template("report.html.j2").render(
        document=document,
        version=samepath.__version__,
        verdict=view_verdict(document.verdict),
        headline=headline(document),
        plainly=plainly(document),
        opening=_opening(document, worst),
        viewer=_viewer_address(document, worst),
        why=why(document),
        tolerance=length(document.tolerance_m),
        sizes=_sizes(document),
        criterion=cells[0].options.criterion.value,
        study=view_study(document, anchors) if len(cells) > 1 or document.missing else None,
        asserted=view_assertions(document, [anchor if shown else "cells" for anchor, shown in zip(anchors, told, strict=True)]),
        rows=rows,
        with_published=any(row.published for row in rows),
        published_notes=published_notes(document),
        figure_groups=study_figures(document),
        overview=_overview(document),
        lines=[
            cell_row(cell, anchor, told=shown)
            for cell, anchor, shown in zip(cells, anchors, told, strict=True)
            if len(cells) > FEW_CELLS
        ],
        excluded=exclusion(document),
        pictures=_pictures(cells, told),
        cells=[
            view_cell(cell, anchor, folded=folded and cell is not worst)
            for cell, anchor, shown in zip(cells, anchors, told, strict=True)
            if shown
        ],
        glossary=[(view_verdict(verdict), VERDICT_MEANINGS[verdict]) for verdict in Verdict],
        provenance=list(_flatten(document.provenance)),
    )


def _opening(document: Document, worst: CellAnalysis) -> FigureView:
    """Draw what happened in the cell that decides the verdict."""
    first = worst.first_divergence
    paths = count(len(worst.paths), "path")
    same = f"All {worst.repeats} repeats take one path" if len(worst.outcomes) == 1 else f"{paths} of {worst.repeats} repeats"
    where = ""
    if first is not None:
        # Which digits differ is told with the cell: here somebody looks at a picture.
        where = f" To the bit, repeat {first.repeat} parts from repeat {first.reference_repeat} at tick {first.tick}"
        seen_s = path_figure.seen_at_s(worst)
        far = (
            ""
            if seen_s is None
            else f"; somebody is first more than {length(worst.options.tolerance_m)} from the mean path at {seen_s:.2f} s"
        )
        where = f"{where}{far}."
    words = f"{worst.header.cell}, from above. {same}.{where}"
    return view_figure(path_figure.opening(worst, document.roads.get(worst.header.scenario, ())), words)


def _viewer_address(document: Document, worst: CellAnalysis) -> str:
    """The place in the viewer where the first runs of the worst cell part; nothing where there is no viewer."""
    if not document.viewer:
        return ""
    first = worst.first_divergence
    number = next(index for index, cell in enumerate(document.cells) if cell is worst)
    return f"{document.viewer}#cell={number}" + ("" if first is None else f"&tick={first.tick}&parting=1")


def has_section(cell: CellAnalysis, cells: int) -> bool:
    """Has a cell more to say than fits on a line? Among few, each has."""
    return cells <= FEW_CELLS or cell.judgement.verdict not in _ALIKE


def _overview(document: Document) -> FigureView | None:
    """Draw all cells in one figure, unless the levels of a factor arrange them better."""
    if draws_levels(document) or len(document.cells) > _OVERVIEW_CELLS:
        return None
    return view_figure(
        figures.max_sigma_per_cell(document.cells, document.tolerance_m),
        "Max sigma (dot) and max deviation (diamond) of every cell; exact zeros lie in the shaded band.",
    )


def _pictures(cells: Sequence[CellAnalysis], told: Sequence[bool]) -> list[FigureView]:
    """Show what happens in scenarios of which no cell has a section."""
    drawn = {cell.header.scenario for cell, shown in zip(cells, told, strict=True) if shown}
    pictures: list[FigureView] = []
    for cell in cells:
        if cell.header.scenario not in drawn and len(pictures) < _OPEN_CELLS:
            drawn.add(cell.header.scenario)
            pictures.append(view_figure(figures.paths(cell), f"Paths of {cell.header.scenario}, the same in every repeat."))
    return pictures


def _sizes(document: Document) -> str:
    """Say how much was measured, and how much was not."""
    repeats = sum(cell.repeats for cell in document.cells)
    text = f"{count(len(document.cells), 'cell')}, {count(repeats, 'repeat')}"
    return f"{text}; {count(len(document.missing), 'cell')} without figures" if document.missing else text


def _kept(text: str) -> str:
    """Keep a number and its unit on one line."""
    return _UNIT.sub("\\1\u00a0\\2", text)


def _cleaned(value: object) -> object:
    """Strip what HTML may not hold from everything that is printed."""
    return value if isinstance(value, Markup) else clean(value)


def _flatten(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted keys and printed values of nested plain data."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{name}.")
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
            yield from _flatten({str(index): item for index, item in enumerate(value)}, f"{name}.")
        else:
            yield name, _printed(value)


def _printed(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_printed(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == {} or (isinstance(value, float) and not math.isfinite(value)):
        return "not known"
    return str(value)


def write_reports(folder: Path, document: Document) -> Path:
    """Write ``report.html``, ``report.json`` and ``junit.xml``; return the page's path."""
    write_text_atomically(folder / "report.json", to_json(document))
    write_text_atomically(folder / "junit.xml", render_junit(document))
    write_text_atomically(folder / "report.html", render_html(document))
    return folder / "report.html"
