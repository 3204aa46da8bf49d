"""Figures of a report: each a pure function from analyses to inline SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.divergence import TREE_OUTCOMES
from samepath.instrument.analysis.explain import ExplainedParting
from samepath.instrument.analysis.outcomes import OutcomeTree
from samepath.instrument.analysis.partings import farthest
from samepath.instrument.analysis.spread import Accuracy, GridKind
from samepath.instrument.report.path_figure import paths
from samepath.instrument.report.svg import (
    DEVIATION_COLOUR,
    INK,
    MUTED,
    OTHERS_COLOUR,
    PALETTE,
    SIGMA_COLOUR,
    WIDTH_PX,
    ActorStyle,
    LengthAxis,
    actor_styles,
    draw,
    length_axis,
    others_label,
)
from samepath.instrument.report.words import NO_DATA, count, length, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TREE_ROW_PX: Final = 26.0
_NARROW_ROW_PX: Final = 19.0
_TREE_CHAR_PX: Final = 7.4
_PARTING_PX: Final = 300.0
_ACCURACY_PX: Final = 250.0
# Ticks before a parting that are shown: equal runs, in the band of zeros.
_LEAD_TICKS: Final = 5


@dataclass(frozen=True)
class _Stem:
    """A line of the tree: a group of repeats between two splits, hanging from ``parent_row`` where it begins."""

    row: int
    parent_row: int
    start_tick: int
    end_tick: int
    repeats: int
    colour: str
    label: str = ""
    others: bool = False
    early: bool = False


def outcome_tree(cell: CellAnalysis) -> str:
    """Draw which repeats run together and when they part: time to the right, a line's width by its repeats."""
    first, last = int(cell.spread.ticks[0]), int(cell.spread.ticks[-1])
    stems: list[_Stem] = []
    rows = _grow(cell, cell.tree, first, 0, 0, stems)
    height_px = 64 + (_TREE_ROW_PX if rows <= 8 else _NARROW_ROW_PX) * rows
    right_px = 18 + _TREE_CHAR_PX * max(len(stem.label) for stem in stems)

    def paint(figure: "Figure") -> None:
        width = (WIDTH_PX - 16 - right_px) / WIDTH_PX
        axes = figure.add_axes((16 / WIDTH_PX, 52 / height_px, width, (height_px - 58) / height_px))
        step_s = cell.header.step_s
        for stem in sorted(stems, key=lambda row: -row.repeats):
            _draw_stem(axes, stem, last * step_s, step_s, 1.4 + 7.0 * stem.repeats / cell.repeats)
            if stem.label:
                at = (last * step_s, stem.row)
                axes.annotate(stem.label, at, (8, 0), textcoords="offset points", va="center", annotation_clip=False)
        axes.set_ylim(rows - 0.5, -0.5)
        low, high = first * step_s, last * step_s
        axes.set_xlim(low, high if high > low else low + step_s)
        axes.locator_params(axis="x", nbins=7)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
        axes.set_xlabel("simulated time (s)")

    name = cell.header.cell
    return draw("tree", name, f"Tree of the {count(len(cell.outcomes), 'outcome')} of cell {name}", height_px, paint)


def _grow(cell: CellAnalysis, branch: OutcomeTree, start: int, row: int, parent_row: int, stems: list[_Stem]) -> int:
    """Lay out a branch from ``row`` down and return how many rows it takes; the first child goes straight on."""
    colour = PALETTE[0] if 0 in branch.outcomes else PALETTE[1]
    if not branch.children:
        others = branch.outcomes[0] >= TREE_OUTCOMES
        begin = _earliest_split(cell, branch.outcomes, start) if others else start
        colour = MUTED if others else colour
        end, last = _end(cell, branch), int(cell.spread.ticks[-1])
        note = " (others)" if len(branch.outcomes) > 1 else " (ends early)" if end < last else ""
        label = count(branch.repeats, "repeat") + note
        stems.append(_Stem(row, parent_row, begin, end, branch.repeats, colour, label, others, early=end < last))
        return 1
    split = branch.until_tick
    if split is None:
        # Equal states, unlike events: these part where the events do, but never before they came to be a group.
        split = max(start, _earliest_split(cell, branch.outcomes, int(cell.spread.ticks[-1])))
    stems.append(_Stem(row, parent_row, start, split, branch.repeats, colour))
    used = 0
    for child in branch.children:
        used += _grow(cell, child, split, row + used, row, stems)
    return used


def _earliest_split(cell: CellAnalysis, outcomes: tuple[int, ...], otherwise: int) -> int:
    """When the first of these outcomes parts from the largest one."""
    ticks = [cell.outcomes[index].split_tick for index in outcomes]
    return min((tick for tick in ticks if tick is not None), default=otherwise)


def _end(cell: CellAnalysis, branch: OutcomeTree) -> int:
    """The last tick at which a leaf's run has any actor; the cell's last where its path was not kept."""
    path = cell.paths.get(cell.outcomes[branch.outcomes[0]].repeats[0])
    if path is None or len(branch.outcomes) > 1:
        return int(cell.spread.ticks[-1])
    there = np.flatnonzero(np.isfinite(path[:, :, 0]).any(axis=1))
    return int(cell.spread.ticks[there[-1] if there.size else -1])


def _draw_stem(axes: "Axes", stem: _Stem, last_s: float, step_s: float, width: float) -> None:
    start_s, end_s = stem.start_tick * step_s, max(stem.end_tick, stem.start_tick) * step_s
    dash = (0, (3.0, 1.0)) if stem.others else "-"
    axes.plot([start_s, start_s], [stem.parent_row, stem.row], color=stem.colour, linewidth=1.4, clip_on=False)
    axes.plot(
        [start_s, end_s],
        [stem.row] * 2,
        color=stem.colour,
        linewidth=width,
        linestyle=dash,
        clip_on=False,
        solid_capstyle="butt",
    )
    if stem.early:
        axes.plot([end_s], [stem.row], marker="s", color=INK, markersize=5, zorder=5, clip_on=False)
        axes.plot([end_s, last_s], [stem.row] * 2, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)))


__all__ = ["growth", "max_sigma_per_cell", "outcome_tree", "paths", "sigma_over_time"]

Floats = NDArray[np.float64]

_LEFT_PX: Final = 84.0
_RIGHT_PX: Final = 16.0
_LEGEND_PX: Final = 24.0
_LEGEND_ROW_PX: Final = 18.5
_CHAR_PX: Final = 7.2
_DASHED: Final = (0, (5, 3))
_DOTTED: Final = (0, (1, 2))


def sigma_over_time(cell: CellAnalysis) -> str:
    """Draw sigma of every actor (worst axis) against simulated time, as in the paper's Fig. 6a.

    Exact zeros lie in a band of their own, side by side; where fewer than two repeats have the actor there is a gap.
    """
    styles = actor_styles(cell)
    sigma = cell.spread.worst_axis("sigma").reshape(cell.spread.shape)
    step_m, tolerance_m = cell.spread.resolution.step_m, cell.options.tolerance_m
    axis = length_axis([*sigma[np.isfinite(sigma)].tolist(), tolerance_m, *([step_m] if step_m > 0 else [])])
    entries = sum(style.named for style in styles) + bool(others_label(styles)) + 1 + (step_m > 0)
    foot_px = 54 + _LEGEND_ROW_PX * math.ceil(entries / 2)
    height_px = 230 + foot_px

    def paint(figure: "Figure") -> None:
        axes = _add_axes(figure, height_px, foot_px=foot_px, head_px=24)
        times = cell.spread.ticks.astype(np.float64) * cell.header.step_s
        for style in sorted(styles, key=lambda style: style.named):
            _draw_actor(axes, axis, times, sigma[:, style.index], style, styles)
        if others_label(styles):
            axes.plot([], [], color=OTHERS_COLOUR, label=others_label(styles))
        resampled = cell.spread.resolution.kind is GridKind.RESAMPLED
        _draw_limits(axes, axis, tolerance_m, step_m, "resampled, off by at most" if resampled else "log's resolution")
        axis.apply(axes, 206, vertical=True)
        axes.set_xlim(*_span(times))
        axes.locator_params(axis="x", nbins=8)
        _draw_boundary(axes, cell)
        axes.set_ylabel("sigma, worst axis")
        axes.set_xlabel("simulated time (s)")
        figure.legend(loc="lower left", bbox_to_anchor=(_LEGEND_PX / WIDTH_PX, 2 / height_px), ncols=2)

    label = f"Sigma of each actor over time in cell {cell.header.cell}; largest {length(cell.summary.max_sigma_m)}"
    return draw("sigma", cell.header.cell, label, height_px, paint)


def max_sigma_per_cell(cells: Sequence[CellAnalysis], tolerance_m: float) -> str:
    """Draw max sigma and max deviation of every cell beside the tolerance."""
    names = [shorten(cell.header.cell, 28) for cell in cells]
    sigmas = [cell.summary.max_sigma_m for cell in cells]
    deviations = [cell.summary.max_deviation_m for cell in cells]
    axis = length_axis([tolerance_m, *(value for value in (*sigmas, *deviations) if value is not None)])
    height_px = 78 + 23.0 * len(cells)
    left_px = 16 + _CHAR_PX * max(len(name) for name in names)

    def paint(figure: "Figure") -> None:
        axes = _add_axes(figure, height_px, foot_px=52, head_px=4, left_px=left_px, right_px=30)
        rows = np.arange(len(cells))
        low, high = axis.place(_floats(sigmas)), axis.place(_floats(deviations))
        axes.hlines(rows, low, high, color=MUTED, linewidth=1.2)
        axes.plot(high, rows, "D", color=DEVIATION_COLOUR, markersize=7.5, label="max deviation", clip_on=False)
        axes.plot(low, rows, "o", color=SIGMA_COLOUR, markersize=5, label="max sigma", clip_on=False)
        for row in rows[np.isnan(low)]:
            axes.text(axis.low, row, f" {NO_DATA}", va="center", color=MUTED)
        axes.axvline(float(axis.place(tolerance_m)), color=INK, linestyle=_DASHED, linewidth=1.2, label=_limit(tolerance_m))
        axis.apply(axes, WIDTH_PX - left_px - 30, vertical=False)
        axes.set_yticks(rows, names)
        axes.set_ylim(len(cells) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="lower center", bbox_to_anchor=(0.5, 2 / height_px), ncols=3)

    return draw("cells", "", "Max sigma and max deviation of every cell", height_px, paint)


def growth(cell: CellAnalysis) -> str:
    """Draw how max sigma and max deviation grow with the number of repeats (the paper, VII-D)."""
    points = [point for point in cell.spread.growth if point.max_sigma_m is not None]
    tolerance_m = cell.options.tolerance_m
    series = (
        ("max deviation", "D", 7.0, DEVIATION_COLOUR, [point.max_deviation_m or 0.0 for point in points]),
        ("max sigma", "o", 4.5, SIGMA_COLOUR, [point.max_sigma_m or 0.0 for point in points]),
    )
    axis = length_axis([tolerance_m, *(value for *_, values in series for value in values)])
    foot_px, height_px = 54 + 2 * _LEGEND_ROW_PX, 320.0

    def paint(figure: "Figure") -> None:
        axes = _add_axes(figure, height_px, foot_px=foot_px, head_px=8)
        repeats = [point.repeats for point in points]
        for name, marker, size, colour, values in series:
            placed = axis.place(values)
            axes.plot(repeats, placed, marker=marker, markersize=size, color=colour, label=name, clip_on=False)
        _draw_limits(axes, axis, tolerance_m, 0.0)
        axis.apply(axes, height_px - foot_px - 8, vertical=True)
        axes.set_xscale("log")
        axes.set_xlim(repeats[0] / 1.15, repeats[-1] * 1.15)
        shown = _apart(repeats)
        axes.set_xticks(shown, [str(number) for number in shown])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("number of repeats")
        figure.legend(loc="lower left", bbox_to_anchor=(_LEGEND_PX / WIDTH_PX, 2 / height_px), ncols=2)

    return draw(
        "growth", cell.header.cell, f"Growth of max sigma with the repeats of cell {cell.header.cell}", height_px, paint
    )


def parting(explained: ExplainedParting, cell: str, step_s: float) -> str:
    """Draw how two runs come apart: the distance of every actor over time, and what happened meanwhile."""
    apart, growth_of = explained.parting, explained.growth
    ticks, most_m = farthest(apart)
    named = [follower.actor for follower in apart.followers[: len(PALETTE)]]
    lead = np.arange(max(0, apart.tick - _LEAD_TICKS), apart.tick)
    axis = length_axis([0.0, *most_m.tolist()])

    def paint(figure: "Figure") -> None:
        foot_px, head_px = 52.0, 44.0
        axes = _add_axes(figure, _PARTING_PX, foot_px=foot_px, head_px=head_px, left_px=74.0, right_px=16.0)
        axis.apply(axes, _PARTING_PX - foot_px - head_px, vertical=True)
        for distances in apart.series:
            since = distances.ticks >= lead[0] if len(lead) else distances.ticks >= apart.tick
            place = named.index(distances.actor) if distances.actor in named else None
            colour = OTHERS_COLOUR if place is None else PALETTE[place]
            label = f"actor {distances.actor}" if place is not None else None
            axes.plot(distances.ticks[since] * step_s, axis.place(distances.distance_m[since]), color=colour, label=label)
        axes.axvline(apart.tick * step_s, color=INK, linewidth=1.0, linestyle=(0, (2, 2)))
        note = f"part: {explained.cause.cause.value}"
        axes.annotate(note, (apart.tick * step_s, axis.high), (4, 4), textcoords="offset points", color=INK)
        if growth_of.jump_tick is not None and growth_of.jump_tick != apart.tick:
            at_s = growth_of.jump_tick * step_s
            axes.axvline(at_s, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)))
            words = shorten(growth_of.event.split(" at tick")[0] or "jump", 28)
            axes.annotate(words, (at_s, axis.high), (4, -12), textcoords="offset points", color=MUTED)
        last_tick = int(ticks[-1]) if len(ticks) else apart.tick
        low_s = (lead[0] if len(lead) else apart.tick) * step_s
        axes.set_xlim(low_s, max(last_tick * step_s, low_s + step_s))
        axes.locator_params(axis="x", nbins=7)
        axes.set_xlabel("simulated time (s); upwards the distance between the two runs")
        if named and apart.series:
            axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.06), ncols=min(5, len(named)))

    label = f"Distance of repeats {apart.a} and {apart.b} of cell {cell} over time"
    return draw("parting", f"{cell} {apart.a} {apart.b}", label, _PARTING_PX, paint)


def accuracy(found: Accuracy, name: str) -> tuple[str, str]:
    """Draw bias and spread of the actor that is farthest from the reference; return the drawing and its caption."""
    actor = max(found.actors, key=lambda other: other.bias_max_m)

    def paint(figure: "Figure") -> None:
        axes = figure.add_axes((0.15, 0.2, 0.82, 0.76))
        low = np.maximum(actor.bias_m - actor.spread_m, 0.0)
        axes.fill_between(actor.time_s, low, actor.bias_m + actor.spread_m, color=MUTED, alpha=0.35, linewidth=0)
        axes.plot(actor.time_s, actor.bias_m, color=DEVIATION_COLOUR, linewidth=1.4, label="bias")
        axes.plot(actor.time_s, actor.spread_m, color=SIGMA_COLOUR, linewidth=1.2, label="spread")
        axes.legend(loc="upper left")
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("simulated time (s)")
        axes.set_ylabel("metres")
        axes.grid(visible=True)

    words = f"Against {found.reference}: how far the mean path of actor {actor.actor} is off (bias), how far repeats stray."
    return draw("accuracy", name, f"Bias and spread of actor {actor.actor} in {name}", _ACCURACY_PX, paint), words


def _apart(repeats: Sequence[int]) -> list[int]:
    """Choose the numbers whose labels do not touch on a logarithmic axis; the last one always."""
    least = (math.log(repeats[-1] / repeats[0]) + 0.3) * 40 / (WIDTH_PX - _LEFT_PX - _RIGHT_PX)
    shown = [repeats[-1]]
    for number in reversed(repeats[:-1]):
        if math.log(shown[0] / number) >= least:
            shown.insert(0, number)
    return shown


def _add_axes(
    figure: "Figure",
    height_px: float,
    *,
    foot_px: float,
    head_px: float,
    left_px: float = _LEFT_PX,
    right_px: float = _RIGHT_PX,
) -> "Axes":
    width = (WIDTH_PX - left_px - right_px) / WIDTH_PX
    return figure.add_axes((left_px / WIDTH_PX, foot_px / height_px, width, (height_px - foot_px - head_px) / height_px))


def _draw_actor(
    axes: "Axes",
    axis: LengthAxis,
    times: Floats,
    sigma: Floats,
    style: ActorStyle,
    styles: tuple[ActorStyle, ...],
) -> None:
    """Draw one actor; zeros of several actors lie side by side, or the last one drawn would hide all others."""
    placed = axis.place(sigma)
    named = [style.index for style in styles if style.named]
    if axis.zero_at is not None and style.named:
        share = (named.index(style.index) + 1) / (len(named) + 1) - 0.5
        placed[sigma == 0] -= share * 0.8 * (axis.low - axis.bottom)
    label = style.label if style.named else None
    axes.plot(times, placed, color=style.colour, linestyle=style.dash, label=label)
    known = np.concatenate([[False], np.isfinite(placed), [False]])
    alone = known[1:-1] & ~known[:-2] & ~known[2:]
    axes.plot(times[alone], placed[alone], ".", color=style.colour, markersize=4)


def _draw_limits(axes: "Axes", axis: LengthAxis, tolerance_m: float, step_m: float, step_name: str = "") -> None:
    tolerance = float(axis.place(tolerance_m))
    axes.axhline(tolerance, color=INK, linestyle=_DASHED, linewidth=1.2, label=_limit(tolerance_m))
    if step_m > 0:
        name = f"{step_name} {length(step_m)}"
        axes.axhline(float(axis.place(step_m)), color=MUTED, linestyle=_DOTTED, linewidth=1.4, label=name)


def _draw_boundary(axes: "Axes", cell: CellAnalysis) -> None:
    """Mark where the runs are split; shade the time over which the event moves between repeats."""
    boundary, step_s = cell.boundary, cell.header.step_s
    if boundary.first_tick is None:
        return
    low, high = axes.get_xlim()
    first_s, last_s = boundary.first_tick * step_s, max(tick for tick in boundary.ticks if tick is not None) * step_s
    if not low <= first_s <= high:
        return
    if last_s > first_s:
        axes.axvspan(first_s, last_s, color=MUTED, alpha=0.18, linewidth=0)
    axes.axvline(first_s, color=MUTED, linewidth=1.2)
    event = "" if boundary.split.tick is not None else "first "
    place = (first_s - low) / (high - low)
    side = "left" if place < 0.25 else "right" if place > 0.75 else "center"
    words = shorten(f"{event}{boundary.split.name}, {first_s:g} s", 40)
    axes.text(first_s, 1.02, words, transform=axes.get_xaxis_transform(), ha=side, va="bottom", fontsize=11.5, color=INK)


def _limit(tolerance_m: float) -> str:
    return f"tolerance {length(tolerance_m)}"


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in values], np.float64)


def _span(times: Floats) -> tuple[float, float]:
    """Limits of a time axis, apart even where there is one tick only."""
    low, high = float(times.min(initial=math.inf)), float(times.max(initial=-math.inf))
    return (low, high) if low < high else (low - 0.5, low + 0.5) if low == high else (0.0, 1.0)
