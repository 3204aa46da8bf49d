"""A cell's section of the page: every number as the words and drawings the template sets in place."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from samepath.analysis.asked import ConditionCheck
from samepath.analysis.cell import CellAnalysis, Phase
from samepath.analysis.divergence import TREE_OUTCOMES
from samepath.analysis.factors import level_words, title
from samepath.analysis.outcomes import Pattern
from samepath.analysis.sensors import SensorAnalysis, difference_words
from samepath.base.verdicts import Verdict
from samepath.report import figures
from samepath.report.path_figure import find_zoom
from samepath.report.words import (
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
from samepath.traces.channels import unit_of

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
    others: tuple[Fact, ...]
    findings: tuple[str, ...]
    findings_left_out: int
    first_divergence: str
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
        others=tuple(Fact(name, _other(name, value)) for name, value in sorted(cell.summary.other_max_sigma.items())),
        findings=tuple(one.message for one in cell.findings[:_MAX_FINDINGS]),
        findings_left_out=max(0, len(cell.findings) - _MAX_FINDINGS),
        first_divergence="" if cell.first_divergence is None else sentence(cell.first_divergence.words()),
        boundary=boundary_words(cell.boundary, cell.header.step_s),
        phases=tuple(_phase(one) for one in phases) if collided else (),
        figures=tuple(_figures(cell)),
        pattern="" if cell.clusters.pattern is Pattern.SINGLE else pattern_words(cell.clusters),
        limits=limits(cell),
        sensors=tuple(_sensor(one, cell.header.step_s) for one in cell.sensors),
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
        Fact("Outcomes", str(len(cell.outcomes)), "classes of bit-identical repeats"),
        Fact("Divergent repeats", f"{bounds.divergent} of {bounds.repeats}", "not of the largest outcome"),
        Fact("Rate of divergence", _below(bounds.upper), f"upper bound, {sure} confidence"),
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


def _sensor(one: SensorAnalysis, step_s: float) -> SensorRow:
    first = (
        "" if one.first_tick is None else f"tick {one.first_tick} ({one.first_tick * step_s:g} s), repeat {one.first_repeat}"
    )
    differing = "none" if one.identical else f"{one.frames_differing} of {one.frames_compared}"
    worst = "" if one.worst is None else difference_words(one.worst, one.kind)
    unknown = "" if one.identical else "not known: no content was kept"
    return SensorRow(one.sensor, one.kind, one.frames, len(one.outcomes), first, one.first_words(), differing, worst or unknown)


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
    if len(cell.spread.growth) > 1 and any(point.max_sigma_m for point in cell.spread.growth):
        yield view_figure(figures.growth(cell), "What the first n repeats alone would have shown.")
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
