"""Which figures a study gets: only of what it varied, and only where there is something to see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.factors import StudyFactor, by_scenario, joined, title
from samepath.report import published
from samepath.report.box_figure import deviation_boxes
from samepath.report.cell_view import FigureView, view_figure
from samepath.report.document import Document
from samepath.report.factor_figures import phases_against, published_sigma, sigma_against
from samepath.report.series import Group, Line, find_hue, groups_over, is_share, lines_over, measured_load, members
from samepath.report.svg import LengthAxis, length_axis
from samepath.report.words import sentence

MAX_PANELS: Final = 8
_FEW_VARIANTS: Final = 3


@dataclass(frozen=True)
class FigureGroup:
    """Panels that belong together, with what they show in words."""

    name: str
    note: str
    figures: tuple[FigureView, ...]


def study_figures(document: Document) -> tuple[FigureGroup, ...]:
    """Draw what the study varied: the paper's Figs 5, 6b, 7b and 8 where they apply, and their like for any other factor."""
    groups = [*_over_levels(document), *_over_phases(document), *_boxes(document)]
    return tuple(groups)


def draws_levels(document: Document) -> bool:
    """Is there a figure of max sigma against some factor?"""
    return any(factor.ordered for factor in document.study.factors)


def _over_levels(document: Document) -> Iterator[FigureGroup]:
    """Max sigma against every ordered factor, a panel per variant, all on one scale."""
    factors, tolerance_m = document.study.factors, document.tolerance_m
    for name in dict.fromkeys(one.name for one in factors if one.ordered):
        drawn = [
            (one, *lines_over(one, factors, document.cells, lambda cell: cell.summary.max_sigma_m))
            for one in factors
            if one.ordered and one.name == name
        ]
        still = [factor.variant for factor, lines, _ in drawn if not any(line.widest_m for line in lines)]
        if len(drawn) <= _FEW_VARIANTS:
            still = []
        shown = [one for one in drawn if one[0].variant not in still]
        left_out = [factor.variant for factor, _, _ in shown[MAX_PANELS:]]
        known = _published(name, document.cells)
        axis = _axis(tolerance_m, [line for _, lines, _ in drawn for line in lines], known)
        panels = [view_figure(sigma_against(factor, lines, axis, tolerance_m), "") for factor, lines, _ in shown[:MAX_PANELS]]
        if known:
            panels.append(view_figure(published_sigma(known, axis, tolerance_m), ""))
        notes = [_levels_note(drawn[0][0], document.cells)]
        if any(folded for _, _, folded in shown):
            notes.append("A point is the worst of all cells that differ in other factors.")
        if still:
            notes.append(f"No spread at any level: {joined(still)}.")
        if left_out:
            notes.append(f"Not drawn: {joined(left_out)}.")
        if known:
            notes.append("The last panel shows CARLA as published, on the same scale (* 0 at the resolution of its log).")
        yield FigureGroup(f"Max sigma against {title(name)}", " ".join(notes), tuple(panels))


def _over_phases(document: Document) -> Iterator[FigureGroup]:
    """Before and after the collision against every ordered factor, a panel per scenario that has one and spreads."""
    factors, tolerance_m = document.study.factors, document.tolerance_m
    for name in dict.fromkeys(one.name for one in factors if one.ordered):
        found, still = [], []
        for factor in (one for one in factors if one.ordered and one.name == name):
            for scenario, cells in by_scenario(members(document.cells, factor)).items():
                split = [cell for cell in cells if cell.boundary.first_tick is not None]
                lines = _phase_lines(factor, split)
                if lines is None:
                    continue
                if any(line.widest_m for line in lines):
                    found.append((factor, scenario, *lines))
                else:
                    still.append(f"{scenario} ({factor.variant})")
        if not found:
            continue
        known = _published(name, document.cells)
        event = document.cells[0].boundary.split.name
        found.sort(key=lambda one: -max(one[2].widest_m, one[3].widest_m))
        kept = sorted(found[:MAX_PANELS], key=lambda one: (one[0].variant, one[1]))
        tests = [one for one in known if one.before_m and any(one.scenario == scenario for _, scenario, _, _ in kept)]
        axis = _axis(tolerance_m, [line for _, _, before, after in kept for line in (before, after)], tests)
        panels = tuple(
            view_figure(phases_against(factor, scenario, before, after, axis, tolerance_m, published.published(scenario)), "")
            for factor, scenario, before, after in kept
        )
        paper = ", as the paper's Figs 6b and 7b" if name == "cpu_load" else ""
        notes = [f"Max sigma before and from the first {event} on{paper}; the worst cell where others differ as well."]
        if still:
            notes.append(f"No spread in either phase: {joined(still)}.")
        if len(found) > MAX_PANELS:
            notes.append(f"The {MAX_PANELS} widest of {len(found)} are drawn.")
        yield FigureGroup(f"Before and after {event} against {title(name)}", " ".join(notes), panels)


def _boxes(document: Document) -> Iterator[FigureGroup]:
    """Box plots of single repeats per level of every factor that is no load; loads tell boxes apart within a level."""
    factors, tolerance_m = document.study.factors, document.tolerance_m
    for name in dict.fromkeys(one.name for one in factors if not one.load):
        found: list[tuple[StudyFactor, StudyFactor | None, str, list[Group]]] = []
        still = []
        for factor in (one for one in factors if one.name == name):
            hue = find_hue(factor, factors)
            for scenario, cells in by_scenario(members(document.cells, factor)).items():
                groups = list(groups_over(factor, hue, cells))
                if any(any(one.deviations_m) for one in groups):
                    found.append((factor, hue, scenario, groups))
                else:
                    still.append(f"{scenario} ({factor.variant})")
        if not found:
            continue
        found.sort(key=lambda one: -max(max(group.deviations_m) for group in one[3]))
        kept = sorted(found[:MAX_PANELS], key=lambda one: (one[0].variant, one[2]))
        axis = length_axis([tolerance_m, *(d for *_, groups in kept for group in groups for d in group.deviations_m)])
        panels = tuple(view_figure(deviation_boxes(*one, axis, tolerance_m), "") for one in kept)
        paper = ", as the paper's Fig. 8" if name == "nice" else ""
        notes = [
            f"How far single repeats are from the mean path at each level{paper}: box from the first to the third quartile, "
            "bar at the median, whiskers to the farthest repeat within 1.5 quartile ranges, dots beyond."
        ]
        if any(hue is not None and is_share(hue) for _, hue, _, _ in kept):
            notes.append("Loads are named as they were asked.")
        if still:
            notes.append(f"No repeat strays: {joined(still)}.")
        if len(found) > MAX_PANELS:
            notes.append(f"The {MAX_PANELS} widest of {len(found)} are drawn.")
        yield FigureGroup(f"Single repeats per level of {title(name)}", " ".join(notes), panels)


def _phase_lines(factor: StudyFactor, cells: Sequence[CellAnalysis]) -> tuple[Line, Line] | None:
    """The lines before and after, over at least two levels; whatever else differs, the worst cell counts."""
    if not cells:
        return None
    (before, *_), _ = lines_over(factor, (), cells, lambda cell: cell.before.summary.max_sigma_m)
    (after, *_), _ = lines_over(factor, (), cells, lambda cell: cell.after.summary.max_sigma_m)
    if len(before.points) < 2:
        return None
    return replace(before, label=cells[0].before.name), replace(after, label=cells[0].after.name)


def _levels_note(factor: StudyFactor, cells: Sequence[CellAnalysis]) -> str:
    paper = ", as the paper's Fig. 5" if factor.name == "cpu_load" else ""
    text = f"Largest sigma of whole runs{paper}. Lines between points are only a guide; exact zeros lie in the shaded band."
    if is_share(factor):
        read = any(measured_load(cell, factor) is not None for cell in cells)
        where = (
            "Points stand at the load that was measured" if read else "No load was measured: points stand where it was asked"
        )
        text += f" {where}."
    return sentence(text)


def _published(name: str, cells: Sequence[CellAnalysis]) -> tuple[published.PublishedTest, ...]:
    return published.published_among(cell.header.scenario for cell in cells) if name == "cpu_load" else ()


def _axis(tolerance_m: float, lines: Sequence[Line], known: Sequence[published.PublishedTest]) -> LengthAxis:
    values = [tolerance_m, *(one.sigma_m for line in lines for one in line.points if one.sigma_m is not None)]
    for test in known:
        values += [published.as_measured(one) for one in (*test.max_sigma_m, *test.before_m, *test.after_m)]
    return length_axis(values)
