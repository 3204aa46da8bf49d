"""The part of the report about assertions: do they flip, in words; margins over time of the one that matters most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from samepath.instrument.analysis.assertions import Assertion, AssertionRow, quantity
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.report.cell_view import FigureView, view_figure
from samepath.instrument.report.document import Document
from samepath.instrument.report.svg import DEVIATION_COLOUR, SIGMA_COLOUR, draw
from samepath.instrument.report.words import count, percent, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SENTENCES: Final = 8
_MOST_ROWS: Final = 40
# Which kind of situation tells a reader most, first: a frame that was late is only why.
_TELLING: Final = ("collision", "end", "lane", "distance", "speed", "event")
_HEIGHT_PX: Final = 250.0


@dataclass(frozen=True)
class AssertionLine:
    """One assertion in one cell, as a row of the folded table; ``anchor`` leads to the cell."""

    name: str
    cell: str
    anchor: str
    passes: str
    upper: str
    least: str
    needed: str
    flips: bool


@dataclass(frozen=True)
class AssertionsView:
    """``sentences`` are what a reader needs, ``lines`` the figures behind them, in a part that can be unfolded."""

    head: str
    sentences: tuple[str, ...]
    lines: tuple[AssertionLine, ...]
    left_out: int
    coverage: tuple[str, ...]
    figures: tuple[FigureView, ...]
    confidence: str


def view_assertions(document: Document, anchors: Sequence[str]) -> AssertionsView | None:
    """Put what monitors found into words; None where there were none."""
    rows = sorted(document.assertions, key=lambda row: (not row.flipping, not row.unlike))
    if not rows:
        return None
    flipping = [row for row in rows if row.flipping]
    entries = [
        (cell, anchor, assertion)
        for cell, anchor in zip(document.cells, anchors, strict=True)
        for assertion in (() if cell.assertions is None else cell.assertions.assertions)
        if assertion.judged
    ]
    entries.sort(key=lambda entry: (not entry[2].flips, entry[2].fails == 0))
    lines = tuple(_line(cell, anchor, assertion) for cell, anchor, assertion in entries[:_MOST_ROWS])
    worst = next((entry for entry in entries if entry[2].flips), None)
    return AssertionsView(
        head=_head(rows, flipping),
        sentences=tuple(f"{row.words()}." for row in rows[:_MOST_SENTENCES]),
        lines=lines,
        left_out=max(0, len(entries) - _MOST_ROWS),
        coverage=tuple(_coverage(document.cells)),
        figures=() if worst is None else (margin_figure(worst[0], worst[2]),),
        confidence=percent(document.cells[0].options.confidence),
    )


def _head(rows: Sequence[AssertionRow], flipping: Sequence[AssertionRow]) -> str:
    if not flipping:
        return f"No: {'the assertion has' if len(rows) == 1 else f'all {len(rows)} assertions have'} one verdict in each cell."
    if len(rows) == 1:
        return "Yes: the assertion passes in some repeats and fails in others of the same cell."
    verbs = ("passes", "fails") if len(flipping) == 1 else ("pass", "fail")
    which = f"{len(flipping)} of {count(len(rows), 'assertion')}"
    return f"Yes: {which} {verbs[0]} in some repeats and {verbs[1]} in others of the same cell."


def _line(cell: CellAnalysis, anchor: str, assertion: Assertion) -> AssertionLine:
    return AssertionLine(
        name=assertion.name,
        cell=cell.header.cell,
        anchor=anchor,
        passes=f"{assertion.passes} of {assertion.judged}",
        upper="" if assertion.flip_rate_upper is None else percent(assertion.flip_rate_upper),
        least=_number(assertion.margin_min, assertion.unit),
        needed=_number(assertion.margin_needed, assertion.unit),
        flips=assertion.flips,
    )


def _number(value: float | None, unit: str) -> str:
    return "none" if value is None else "no bound" if np.isinf(value) else quantity(value, unit)


def _coverage(cells: Sequence[CellAnalysis]) -> list[str]:
    """Say in a line whether repeats come to the same situations, with the most telling example where they do not."""
    known = [(cell.header.cell, cell.assertions.coverage) for cell in cells if cell.assertions and cell.assertions.coverage]
    odd = [(name, coverage.repeats, situation, times) for name, coverage in known for situation, times in coverage.unstable]
    if not known:
        return []
    if not odd:
        where = "" if len(known) == 1 else f" in each of {len(known)} cells"
        return [f"Every repeat comes to the same situations (lanes, speeds, distances, events){where}."]
    name, repeats, situation, times = min(odd, key=lambda entry: _TELLING.index(entry[2].kind))
    unstable = len({cell for cell, *_ in odd})
    where = "" if len(known) == 1 else f"in {unstable} of {len(known)} cells "
    text = sentence(f"{where}repeats do not come to the same situations, so that they do not test the same")
    return [f"{text}. For example {situation.words()} comes about in {times} of {repeats} repeats of {name}."]


def margin_figure(cell: CellAnalysis, assertion: Assertion) -> FigureView:
    """Draw the envelope of a margin over time: below zero the assertion fails."""
    time_s = assertion.ticks * cell.header.step_s
    known = np.isfinite(assertion.low) & np.isfinite(assertion.high)

    def paint(figure: "Figure") -> None:
        axes = figure.add_axes((0.13, 0.2, 0.84, 0.76))
        axes.fill_between(
            time_s[known], assertion.low[known], assertion.high[known], color=SIGMA_COLOUR, alpha=0.35, linewidth=0
        )
        axes.plot(time_s[known], assertion.low[known], color=SIGMA_COLOUR, linewidth=1.2)
        axes.axhline(0.0, color=DEVIATION_COLOUR, linewidth=1.2)
        axes.set_xlabel("simulated time (s)")
        axes.set_ylabel(f"margin ({assertion.unit})" if assertion.unit else "margin")
        axes.grid(visible=True)

    name = f"{assertion.name}, {cell.header.cell}"
    drawn = draw("margin", name, f"Margin of {name} over time", _HEIGHT_PX, paint)
    return view_figure(drawn, f"Margin of {name}: the smallest and largest of all repeats. Below the line it fails.")
