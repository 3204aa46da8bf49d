"""Sections of the page: every number of a cell as the words and drawings the template sets in place.

Assertions have a section of their own: do they flip, in words; margins over time of the one that matters most.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from markupsafe import Markup

from samepath.core.channels import unit_of
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.assertions import Assertion, AssertionRow, quantity
from samepath.instrument.analysis.cell import CellAnalysis, Phase
from samepath.instrument.analysis.conditions import ConditionCheck
from samepath.instrument.analysis.divergence import TREE_OUTCOMES
from samepath.instrument.analysis.factors import StudyFactor, level_of, level_words, title, variant_of
from samepath.instrument.analysis.outcomes import Pattern
from samepath.instrument.analysis.sensors import SensorAnalysis, difference_words
from samepath.instrument.report import figures, published
from samepath.instrument.report.document import Document
from samepath.instrument.report.path_figure import find_zoom
from samepath.instrument.report.published import how_run_notes, isolation_words, time_words
from samepath.instrument.report.svg import DEVIATION_COLOUR, SIGMA_COLOUR, draw
from samepath.instrument.report.words import (
    NO_DATA,
    VERDICT_NAMES,
    boundary_words,
    count,
    length,
    limits,
    pattern_words,
    percent,
    resolution_words,
    sentence,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_FINDINGS: Final = 12


@dataclass(frozen=True)
class VerdictView:
    """A verdict as the page shows it: a word, and a class for its colour."""

    name: str
    style: str


@dataclass(frozen=True)
class Fact:
    """A figure with its name and, where it helps, a note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class PhaseRow:
    """A phase of the runs."""

    name: str
    pairs: int
    sigma: str
    mean_sigma: str
    deviation: str
    verdict: VerdictView | None


@dataclass(frozen=True)
class SensorRow:
    """What a sensor showed."""

    name: str
    kind: str
    frames: int
    outcomes: int
    first: str
    there: str
    differing: str
    worst: str


@dataclass(frozen=True)
class FigureView:
    """A drawing and what it shows."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class CellView:
    """A cell's section."""

    anchor: str
    name: str
    about: str
    verdict: VerdictView
    reason: str
    by_sigma: str
    folded: bool
    repeats: int
    facts: tuple[Fact, ...]
    conditions: tuple[ConditionCheck, ...]
    frame_times: str
    others: tuple[Fact, ...]
    findings: tuple[str, ...]
    findings_left_out: int
    first_divergence: str
    why: tuple[str, ...]
    boundary: str
    phases: tuple[PhaseRow, ...]
    figures: tuple[FigureView, ...]
    pattern: str
    limits: tuple[str, ...]
    sensors: tuple[SensorRow, ...] = ()


def view_verdict(verdict: Verdict) -> VerdictView:
    """Name a verdict for people."""
    return VerdictView(VERDICT_NAMES[verdict], verdict.value)


def view_figure(svg: str, caption: str) -> FigureView:
    """Trust a drawing of ours to be markup."""
    return FigureView(Markup(svg), caption)  # noqa: S704 - our own drawing, whose text the drawing escapes


def view_cell(cell: CellAnalysis, anchor: str, *, folded: bool) -> CellView:
    """Put a cell into words and drawings."""
    same = cell.judgement_by_sigma.verdict is cell.judgement.verdict
    collided = cell.boundary.first_tick is not None
    phases = (cell.before, cell.after, cell.after_involved, cell.after_uninvolved)
    return CellView(
        anchor=anchor,
        name=cell.header.cell,
        about=_about(cell),
        verdict=view_verdict(cell.judgement.verdict),
        reason=cell.judgement.reason,
        by_sigma="" if same else VERDICT_NAMES[cell.judgement_by_sigma.verdict].lower(),
        folded=folded,
        repeats=cell.repeats,
        facts=_facts(cell),
        conditions=cell.conditions,
        frame_times="" if cell.frame_times is None else cell.frame_times.words(),
        others=tuple(Fact(name, _other(name, value)) for name, value in sorted(cell.summary.other_max_sigma.items())),
        findings=tuple(finding.message for finding in cell.findings[:_MAX_FINDINGS]),
        findings_left_out=max(0, len(cell.findings) - _MAX_FINDINGS),
        first_divergence="" if cell.first_divergence is None else sentence(cell.first_divergence.words()),
        why=() if cell.why is None else tuple(cell.why.sentences()),
        boundary=boundary_words(cell.boundary, cell.header.step_s),
        phases=tuple(_phase(phase) for phase in phases) if collided else (),
        figures=tuple(_figures(cell)),
        pattern="" if cell.clusters.pattern is Pattern.SINGLE else pattern_words(cell.clusters),
        limits=limits(cell),
        sensors=tuple(_sensor(sensor, cell.header.step_s) for sensor in cell.sensors),
    )


def _about(cell: CellAnalysis) -> str:
    header = cell.header
    parts = [
        header.variant,
        f"{header.simulator} {header.simulator_version}".strip(),
        header.scenario,
        *(f"{title(name)} {level_words(name, value)}" for name, value in header.condition.items()),
        count(cell.repeats, "repeat"),
        count(len(cell.spread.actor_ids), "actor"),
        count(len(cell.spread.ticks), "logged tick"),
    ]
    return " · ".join(part for part in parts if part)


def _facts(cell: CellAnalysis) -> tuple[Fact, ...]:
    summary, bounds = cell.summary, cell.bounds
    where = ""
    if summary.max_sigma_tick is not None and summary.max_sigma_m:
        axis = (summary.max_sigma_axis or "").removesuffix("_m")
        where = f"{axis} of actor {summary.max_sigma_actor} at {summary.max_sigma_tick * cell.header.step_s:g} s"
    limit, sure = length(cell.options.tolerance_m), percent(bounds.confidence)
    psi = NO_DATA if summary.psi_m2 is None else "0 (exact)" if summary.psi_m2 == 0 else f"{summary.psi_m2:.3g} m²"
    return (
        Fact("Max sigma", length(summary.max_sigma_m), where),
        Fact("Max sigma, all axes", length(summary.max_sigma_total_m), "root of the summed variances"),
        Fact("Psi", psi, "largest variance of any axis"),
        Fact("Mean sigma", length(summary.mean_sigma_m), "root of the mean variance"),
        Fact(
            "Max deviation",
            length(summary.max_deviation_m),
            f"{cell.beyond_tolerance} of {cell.repeats} repeats beyond {limit}",
        ),
        Fact("Range", length(summary.max_range_m), "between the two farthest repeats, worst axis"),
        Fact("Log's resolution", *resolution_words(cell.spread.resolution)),
        *(Fact(name, *words) for name, words in (("Ran in", isolation_words(cell)), ("Time", time_words(cell))) if words[0]),
        Fact("Outcomes", str(len(cell.outcomes)), "classes of bit-identical repeats"),
        Fact("Divergent repeats", f"{bounds.divergent} of {bounds.repeats}", "not of the largest outcome"),
        Fact("Rate of divergence", _below(bounds.upper), f"upper bound, {sure} confidence, any number of outcomes"),
    )


def _below(rate: float) -> str:
    """Print an upper bound; one that excludes nothing says so."""
    return f"below {percent(rate)}" if rate < 0.9995 else "no bound below 100 %"


def _other(channel: str, value: float) -> str:
    """Print a figure of a channel that is no position, in its own unit."""
    unit = unit_of(channel)
    return "0 (exact)" if value == 0 else f"{value:.3g}" if unit in ("1", "0/1") else f"{value:.3g} {unit}"


def _phase(phase: Phase) -> PhaseRow:
    summary = phase.summary
    return PhaseRow(
        name=phase.name,
        pairs=summary.pairs,
        sigma=length(summary.max_sigma_m),
        mean_sigma=length(summary.mean_sigma_m),
        deviation=length(summary.max_deviation_m),
        verdict=None if phase.judgement is None else view_verdict(phase.judgement.verdict),
    )


def _sensor(sensor: SensorAnalysis, step_s: float) -> SensorRow:
    first = (
        ""
        if sensor.first_tick is None
        else f"tick {sensor.first_tick} ({sensor.first_tick * step_s:g} s), repeat {sensor.first_repeat}"
    )
    differing = "none" if sensor.identical else f"{sensor.frames_differing} of {sensor.frames_compared}"
    worst = "" if sensor.worst is None else difference_words(sensor.worst, sensor.kind)
    unknown = "" if sensor.identical else "not known: no content was kept"
    return SensorRow(
        sensor.sensor,
        sensor.kind,
        sensor.frames,
        len(sensor.outcomes),
        first,
        sensor.first_words(),
        differing,
        worst or unknown,
    )


def _figures(cell: CellAnalysis) -> Iterator[FigureView]:
    """Draw what has something to show: one outcome needs no tree, and zeros do not grow."""
    yield view_figure(
        figures.sigma_over_time(cell),
        "Sigma per actor (worst axis) over simulated time. Exact zeros lie in the shaded band; a line has a gap where fewer "
        "than two repeats have the actor.",
    )
    if len(cell.outcomes) > 1:
        others = len(cell.outcomes) - TREE_OUTCOMES
        more = f" The smallest ({count(others, 'outcome')}) share one dashed line." if others > 0 else ""
        yield view_figure(
            figures.outcome_tree(cell), f"Which repeats run together and when they part; wider lines hold more of them.{more}"
        )
    if cell.why is not None and cell.why.parting.series:
        parting = cell.why.parting
        yield view_figure(
            figures.parting(cell.why, cell.header.cell, cell.header.step_s),
            f"How repeats {parting.a} and {parting.b} come apart: the distance of every actor that parts, over time.",
        )
    if len(cell.spread.growth) > 1 and any(point.max_sigma_m for point in cell.spread.growth):
        yield view_figure(figures.growth(cell), "What the first n repeats alone would have shown.")
    if cell.accuracy is not None:
        yield view_figure(*figures.accuracy(cell.accuracy, cell.header.cell))
    yield view_figure(figures.paths(cell), _paths_caption(cell))


def _paths_caption(cell: CellAnalysis) -> str:
    drawn = f"{len(cell.paths)} of {count(len(cell.outcomes), 'outcome')} drawn, one repeat each"
    text = f"Paths in plan view: {drawn}. The frame is left-handed: y points right and is drawn downwards."
    zoom = find_zoom(cell)
    if zoom is None:
        return text
    time_s = cell.spread.ticks[zoom.tick_index] * cell.header.step_s
    where = f"actor {cell.spread.actor_ids[zoom.actor_index]} at {time_s:g} s"
    return f"{text} The zoom shows {where}, where the paths lie farthest apart: a dot is an outcome, larger for more repeats."


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
                published=tuple(published.published_length(value) for value in both),
            )
        )
    return rows


def published_notes(document: Document) -> tuple[str, ...]:
    """Say how the runs were made and, where published figures are shown, where those come from and where they disagree."""
    known = published.published_among(cell.header.scenario for cell in document.cells)
    how_run = how_run_notes(document.cells, beside_published=bool(known))
    if not known:
        return how_run
    notes = [*how_run, published.NOTE_SOURCE]
    if any(published.as_measured(value) == 0 for test in known for value in (test.restricted_sigma_m, *test.max_sigma_m)):
        notes.append(f"* {published.NOTE_ZERO}")
    if any(test.test == 4 for test in known):
        notes.append(published.NOTE_TEST_4)
    if any(test.before_m for test in known):
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
    unlike, every = sum(not sensor.identical for sensor in cell.sensors), len(cell.sensors)
    if not every:
        return ""
    words = f"{every} identical" if not unlike else f"{unlike} of {every} differ"
    return words.replace(" ", "\u00a0")


def _links(group: Sequence[tuple[CellAnalysis, str]], factors: Sequence[StudyFactor]) -> tuple[CellLink, ...]:
    own = [factor for factor in factors if factor.variant == variant_of(group[0][0].header)]
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
    parts = [(factor.name, level_words(factor.name, level_of(cell, factor))) for factor in factors]
    return ", ".join(f"{name} {words}" if named and not words.endswith("%") else words for name, words in parts)


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
