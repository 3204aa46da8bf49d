"""The page's tables of cells: Table I, with what was published beside it, and one line per cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.factors import StudyFactor, level_of, level_words, variant_of
from samepath.report import published
from samepath.report.cell_view import VerdictView, view_verdict
from samepath.report.document import Document
from samepath.report.words import length


@dataclass(frozen=True)
class CellLink:
    """A link to where a cell is told."""

    anchor: str
    name: str
    style: str


@dataclass(frozen=True)
class TableRow:
    """A row of Table I; ``published`` are the two columns for CARLA, empty where nothing was published."""

    variant: str
    scenario: str
    cells: tuple[CellLink, ...]
    collision: str
    repeats: int
    unrestricted: str
    unrestricted_verdict: VerdictView
    restricted: str
    restricted_verdict: VerdictView | None
    published: tuple[str, ...]


@dataclass(frozen=True)
class CellRow:
    """A cell in one line. ``anchor`` is set where this line is all the page says about it, ``link`` where there is more."""

    name: str
    anchor: str
    link: str
    repeats: int
    sigma: str
    deviation: str
    before: str
    outcomes: int
    divergent: int
    sensors: str
    verdict: VerdictView


def table_rows(document: Document, anchors: Sequence[str]) -> list[TableRow]:
    """Return Table I; a cell is linked by the levels that tell it apart in its row."""
    groups: dict[tuple[str, str, str], list[tuple[CellAnalysis, str]]] = {}
    for cell, anchor in zip(document.cells, anchors, strict=True):
        key = (variant_of(cell.header), cell.header.simulator, cell.header.scenario)
        groups.setdefault(key, []).append((cell, anchor))
    factors = document.study.factors
    rows = []
    for row in document.table:
        known = published.published(row.scenario)
        both = () if known is None else (known.unrestricted_sigma_m, known.restricted_sigma_m)
        rows.append(
            TableRow(
                variant=row.variant or "not named",
                scenario=row.scenario,
                cells=_links(groups[row.variant, row.simulator, row.scenario], factors),
                collision=row.collision,
                repeats=row.repeats,
                unrestricted=length(row.unrestricted_sigma_m),
                unrestricted_verdict=view_verdict(row.unrestricted),
                restricted=length(row.restricted_sigma_m),
                restricted_verdict=None if row.restricted is None else view_verdict(row.restricted),
                published=tuple(published.published_length(one) for one in both),
            )
        )
    return rows


def published_notes(document: Document) -> tuple[str, ...]:
    """Say where the published figures come from and where they disagree; nothing where none are shown."""
    known = published.published_among(cell.header.scenario for cell in document.cells)
    if not known:
        return ()
    notes = [published.NOTE_SOURCE]
    if any(published.as_measured(value) == 0 for one in known for value in (one.restricted_sigma_m, *one.max_sigma_m)):
        notes.append(f"* {published.NOTE_ZERO}")
    if any(one.test == 4 for one in known):
        notes.append(published.NOTE_TEST_4)
    if any(one.before_m for one in known):
        notes.append(published.NOTE_PHASES)
    return tuple(notes)


def cell_row(cell: CellAnalysis, anchor: str, *, told: bool) -> CellRow:
    """Put a cell on one line; ``told`` says that it has a section of its own."""
    collided = cell.boundary.first_tick is not None
    return CellRow(
        name=cell.header.cell,
        anchor="" if told else anchor,
        link=anchor if told else "",
        repeats=cell.repeats,
        sigma=length(cell.summary.max_sigma_m),
        deviation=length(cell.summary.max_deviation_m),
        before=length(cell.before.summary.max_sigma_m) if collided else "",
        outcomes=len(cell.outcomes),
        divergent=cell.divergent,
        sensors=_sensors(cell),
        verdict=view_verdict(cell.judgement.verdict),
    )


def _sensors(cell: CellAnalysis) -> str:
    """How many sensors saw the same in every repeat."""
    unlike, every = sum(not one.identical for one in cell.sensors), len(cell.sensors)
    if not every:
        return ""
    words = f"{every} identical" if not unlike else f"{unlike} of {every} differ"
    return words.replace(" ", "\u00a0")


def _links(group: Sequence[tuple[CellAnalysis, str]], factors: Sequence[StudyFactor]) -> tuple[CellLink, ...]:
    own = [one for one in factors if one.variant == variant_of(group[0][0].header)]
    labels = [_levels(cell, own) for cell, _ in group]
    return tuple(
        CellLink(
            anchor,
            label if len(group) > 1 and label and labels.count(label) == 1 else cell.header.cell,
            cell.judgement.verdict.value,
        )
        for (cell, anchor), label in zip(group, labels, strict=True)
    )


def _levels(cell: CellAnalysis, factors: Sequence[StudyFactor]) -> str:
    """The levels of a cell; those that are words without a unit are told with the factor's name where there are several."""
    named = len(factors) > 1
    parts = [(one.name, level_words(one.name, level_of(cell, one))) for one in factors]
    return ", ".join(f"{name} {words}" if named and not words.endswith("%") else words for name, words in parts)
