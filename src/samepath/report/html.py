"""The HTML report: one file that needs no network and no script, verdict first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import samepath
from samepath.base.verdicts import Verdict
from samepath.report import figures
from samepath.report.cell_view import VerdictView, view_cell, view_figure, view_verdict
from samepath.report.document import Document
from samepath.report.words import VERDICT_MEANINGS, clean, headline, length, why


@dataclass(frozen=True)
class CellLink:
    """A link to a cell's section."""

    anchor: str
    name: str


@dataclass(frozen=True)
class TableRow:
    """A row of Table I."""

    simulator: str
    scenario: str
    cells: tuple[CellLink, ...]
    collision: str
    repeats: int
    unrestricted: str
    unrestricted_verdict: VerdictView
    restricted: str
    restricted_verdict: VerdictView | None


def render_html(document: Document) -> str:
    """Return the report as one self-contained HTML page."""
    environment = Environment(
        loader=PackageLoader("samepath.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    links = tuple(CellLink(f"cell-{number}", cell.header.cell) for number, cell in enumerate(document.cells, start=1))
    return environment.get_template("report.html.j2").render(
        document=document,
        version=samepath.__version__,
        verdict=view_verdict(document.verdict),
        headline=headline(document),
        why=why(document),
        tolerance=length(document.tolerance_m),
        repeats=sum(cell.repeats for cell in document.cells),
        criterion=document.cells[0].options.criterion.value,
        rows=_table(document, links),
        overview=view_figure(
            figures.max_sigma_per_cell(document.cells, document.tolerance_m),
            "Max sigma (dot) and max deviation (diamond) of every cell; exact zeros lie in the shaded band.",
        ),
        cells=[
            view_cell(cell, link.anchor, cells=len(document.cells)) for cell, link in zip(document.cells, links, strict=True)
        ],
        glossary=[(view_verdict(one), VERDICT_MEANINGS[one]) for one in Verdict],
        provenance=list(_flatten(document.provenance)),
    )


def _cleaned(value: object) -> object:
    """Strip what HTML may not hold from everything that is printed."""
    return value if isinstance(value, Markup) else clean(value)


def _table(document: Document, links: tuple[CellLink, ...]) -> list[TableRow]:
    members: dict[tuple[str, str], list[CellLink]] = {}
    for cell, link in zip(document.cells, links, strict=True):
        members.setdefault((cell.header.simulator, cell.header.scenario), []).append(link)
    return [
        TableRow(
            simulator=row.simulator or "not named",
            scenario=row.scenario,
            cells=tuple(members[row.simulator, row.scenario]),
            collision=row.collision,
            repeats=row.repeats,
            unrestricted=length(row.unrestricted_sigma_m),
            unrestricted_verdict=view_verdict(row.unrestricted),
            restricted=length(row.restricted_sigma_m),
            restricted_verdict=None if row.restricted is None else view_verdict(row.restricted),
        )
        for row in document.table
    ]


def _flatten(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted keys and printed values of nested plain data."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{name}.")
        elif isinstance(value, list | tuple) and any(isinstance(one, Mapping | list | tuple) for one in value):
            yield from _flatten({str(index): one for index, one in enumerate(value)}, f"{name}.")
        else:
            yield name, _printed(value)


def _printed(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_printed(one) for one in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == {} or (isinstance(value, float) and not math.isfinite(value)):
        return "not known"
    return str(value)
