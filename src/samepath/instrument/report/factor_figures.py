"""Figures over a factor: max sigma against its level, before and after a collision, and box plots of single repeats.

These are the paper's Fig. 5, Figs 6b and 7b, and Fig. 8. Which cells make a line, and where each one stands, is worked out
first, as plain records; drawing comes after. A load stands where it was measured, with a ring where that is not what was
asked.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.conditions import LOADS, TOGETHER
from samepath.instrument.analysis.factors import Level, StudyFactor, level_of, level_words, number, title, variant_of
from samepath.instrument.report.published import PUBLISHED_LOADS, PublishedTest, as_measured
from samepath.instrument.report.svg import INK, MUTED, OTHERS_COLOUR, PALETTE, WIDTH_PX, LengthAxis, draw
from samepath.instrument.report.words import length, sentence, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES: Final = 6
MAX_HUES: Final = 4


@dataclass(frozen=True)
class FactorPoint:
    """A cell on the axis of a factor; ``sigma_m`` is None where the cell has no such figure.

    ``place`` is the load that was measured, else the level's number, else its rank. ``missed``: the load is not what was asked.
    """

    level: Level
    place: float
    sigma_m: float | None
    missed: bool


@dataclass(frozen=True)
class FactorLine:
    """A series of cells in the order of the factor's levels."""

    label: str
    points: tuple[FactorPoint, ...]

    @property
    def widest_m(self) -> float:
        """The largest sigma of the line."""
        return max((point.sigma_m for point in self.points if point.sigma_m is not None), default=0.0)


@dataclass(frozen=True)
class DeviationGroup:
    """The deviations of single repeats at one level of a factor, and at one of a second factor (``hue``) where there is one."""

    level: Level
    hue: Level
    deviations_m: tuple[float, ...]
    missed: bool


def measured_load(cell: CellAnalysis, factor: StudyFactor) -> float | None:
    """Return the share of a load that a cell really had; None where the factor is no such load, or nothing was read."""
    if not is_share(factor):
        return None
    names = _loads_of(factor)
    read = [check.measured for check in cell.conditions if check.name in names and isinstance(check.measured, float)]
    # Of two that were raised together the point stands midway: the table of conditions has both.
    return sum(read) / len(read) if len(read) == len(names) else None


def _loads_of(factor: StudyFactor) -> tuple[str, ...]:
    return ("cpu_load", "gpu_load") if factor.name == TOGETHER else (factor.name,)


def is_share(factor: StudyFactor) -> bool:
    """Is the factor's axis a percentage of the machine?"""
    return factor.kind == "condition" and factor.name in (*LOADS, TOGETHER)


def missed_level(cell: CellAnalysis, factor: StudyFactor) -> bool:
    """Was something else measured than the factor's level?"""
    return factor.kind == "condition" and any(
        condition.name in _loads_of(factor) and condition.missed for condition in cell.conditions
    )


def members(cells: Iterable[CellAnalysis], factor: StudyFactor) -> list[CellAnalysis]:
    """Return the cells of the factor's variant."""
    return [cell for cell in cells if variant_of(cell.header) == factor.variant]


def others(factor: StudyFactor, factors: Sequence[StudyFactor]) -> list[StudyFactor]:
    """Return the other factors of the same variant."""
    return [
        other for other in factors if other.variant == factor.variant and (other.kind, other.name) != (factor.kind, factor.name)
    ]


def lines_over(
    factor: StudyFactor,
    factors: Sequence[StudyFactor],
    cells: Sequence[CellAnalysis],
    sigma: Callable[[CellAnalysis], float | None],
) -> tuple[tuple[FactorLine, ...], bool]:
    """Make a line per scenario and per combination of the other factors; where that is too many, one per scenario.

    The second result says whether a point is the worst of several cells that differ in something else.
    """
    own = members(cells, factor)
    rest = others(factor, factors)
    scenarios = {cell.header.scenario for cell in own}
    for chosen in (rest, []):
        groups: dict[str, list[CellAnalysis]] = {}
        for cell in own:
            groups.setdefault(_label(cell, chosen, named=len(scenarios) > 1 or not chosen), []).append(cell)
        if len(groups) <= max(MAX_LINES, len(scenarios)):
            break
    lines = tuple(FactorLine(label, tuple(_points(factor, group, sigma))) for label, group in groups.items())
    folded = any(len(group) > len(line.points) for group, line in zip(groups.values(), lines, strict=True))
    return tuple(line for line in lines if line.points), folded


def find_hue(factor: StudyFactor, factors: Sequence[StudyFactor]) -> StudyFactor | None:
    """Choose the factor by which boxes are told apart within a level: a load before anything else."""
    fitting = [other for other in others(factor, factors) if len(other.levels) <= MAX_HUES]
    return next(iter(sorted(fitting, key=lambda other: not other.load)), None)


def groups_over(factor: StudyFactor, hue: StudyFactor | None, cells: Iterable[CellAnalysis]) -> Iterator[DeviationGroup]:
    """Yield the deviations of single repeats, level by level; repeats that differ in a third factor are put together."""
    own = members(cells, factor)
    for level in factor.levels:
        for tone in (None,) if hue is None else hue.levels:
            chosen = [
                cell for cell in own if same(level_of(cell, factor), level) and (hue is None or same(level_of(cell, hue), tone))
            ]
            if chosen:
                yield DeviationGroup(
                    level,
                    tone,
                    tuple(deviation.max_deviation_m for cell in chosen for deviation in cell.deviations),
                    any(
                        missed_level(cell, axis_factor)
                        for cell in chosen
                        for axis_factor in (factor, hue)
                        if axis_factor is not None
                    ),
                )


def same(level: Level, other: Level) -> bool:
    """Compare levels: on and 1 are not the same."""
    return level == other and isinstance(level, bool) == isinstance(other, bool)


def axis_name(factor: StudyFactor, *, measured: bool) -> str:
    """Name the axis of a factor."""
    if not is_share(factor):
        return title(factor.name)
    names = {"cpu_load": "CPU utilisation", "gpu_load": "GPU utilisation", TOGETHER: "CPU and GPU utilisation"}
    what = names.get(factor.name, title(factor.name))
    return f"{what}, {'measured (ticks: asked)' if measured else 'asked'}"


def _label(cell: CellAnalysis, chosen: Sequence[StudyFactor], *, named: bool) -> str:
    parts = [cell.header.scenario] if named else []
    parts += [f"{title(other.name)} {level_words(other.name, level_of(cell, other))}" for other in chosen]
    return ", ".join(parts)


def _points(
    factor: StudyFactor, cells: Sequence[CellAnalysis], sigma: Callable[[CellAnalysis], float | None]
) -> Iterator[FactorPoint]:
    for rank, level in enumerate(factor.levels):
        chosen = [cell for cell in cells if same(level_of(cell, factor), level)]
        if not chosen:
            continue
        worst = max(chosen, key=lambda cell: -1.0 if (value := sigma(cell)) is None else value)
        measured = measured_load(worst, factor)
        asked = number(level) if is_share(factor) else float(rank)
        yield FactorPoint(level, asked if measured is None else measured, sigma(worst), missed_level(worst, factor))


PUBLISHED: Final = "CARLA, published"
# What is drawn beside the paper's figures: it raised both, and where there is no GPU to load the CPU's stands for it.
PAPERS_LOADS: Final = ("cpu_load", TOGETHER)
_LEFT_PX: Final = 84.0
_RIGHT_PX: Final = 16.0
_ROW_PX: Final = 18.5
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_LABEL_LENGTH: Final = 24
_DASHED: Final = (0, (5, 3))
_PUBLISHED_DASH: Final = (0, (2, 2))
_BEFORE, _AFTER = PALETTE[0], PALETTE[1]


def sigma_against(
    factor: StudyFactor,
    lines: Sequence[FactorLine],
    axis: LengthAxis,
    limit_m: float,
    *,
    what: str = "max sigma",
    limit: str = "tolerance",
) -> str:
    """Draw a figure of every line of one variant, max sigma unless it is said otherwise, against the levels of a factor.

    Loads stand where they were measured; the ticks are the levels that were asked. Exact zeros lie side by side in a band.
    """
    named = sorted(range(len(lines)), key=lambda index: -lines[index].widest_m)[: len(PALETTE)]
    entries = len(named) + (len(lines) > len(named)) + 1 + any(point.missed for line in lines for point in line.points)

    def paint(axes: "Axes") -> None:
        place = 0
        for index, line in enumerate(lines):
            if index in named:
                look = {"color": PALETTE[place], "marker": _MARKERS[place], "label": shorten(line.label, _LABEL_LENGTH)}
                place += 1
                _draw_line(axes, axis, line.points, look, place / (len(named) + 1))
            else:
                _draw_line(axes, axis, line.points, {"color": OTHERS_COLOUR, "marker": "."}, 0.5)
        if len(lines) > len(named):
            axes.plot([], [], color=OTHERS_COLOUR, marker=".", label=f"{len(lines) - len(named)} others")

    worst = max((line.widest_m for line in lines), default=0.0)
    label = f"{sentence(what)} against {axis_name(factor, measured=False)}, {factor.variant}; largest {length(worst)}"
    points = [point for line in lines for point in line.points]
    name = "sigma-over" if what == "max sigma" else "mean-over"
    return _panel(name, factor, factor.variant, label, points, axis, limit_m, entries, paint, (what, limit))


def phases_against(
    factor: StudyFactor,
    scenario: str,
    before: FactorLine,
    after: FactorLine,
    axis: LengthAxis,
    tolerance_m: float,
    known: PublishedTest | None = None,
) -> str:
    """Draw max sigma before and after the splitting event against the levels of a factor, with what was published beside it."""
    missed = any(point.missed for point in (*before.points, *after.points))
    shown = known is not None and bool(known.before_m) and factor.name in PAPERS_LOADS
    entries = 3 + missed + 2 * shown

    def paint(axes: "Axes") -> None:
        if known is not None and shown:
            for name, colour, values in (("before", _BEFORE, known.before_m), ("after", _AFTER, known.after_m)):
                placed = axis.place([as_measured(value) for value in values])
                look: dict[str, Any] = {"color": colour, "linestyle": _PUBLISHED_DASH, "linewidth": 1.2, "alpha": 0.7}
                axes.plot(PUBLISHED_LOADS, placed, **look, label=f"CARLA, {name} (published)")
        _draw_line(axes, axis, before.points, {"color": _BEFORE, "marker": "o", "label": before.label}, 1 / 3)
        _draw_line(axes, axis, after.points, {"color": _AFTER, "marker": "D", "label": after.label}, 2 / 3)

    words = f"{scenario}, {factor.variant}"
    label = f"Max sigma {before.label} and {after.label} against {axis_name(factor, measured=False)}: {words}"
    points = [*before.points, *after.points]
    return _panel("phases-over", factor, words, label, points, axis, tolerance_m, entries, paint)


def published_sigma(tests: Sequence[PublishedTest], axis: LengthAxis, tolerance_m: float) -> str:
    """Draw the published curves of CARLA on the same scale as one's own; their zeros are zeros at the log's resolution."""
    axis = replace(axis, zero_name="0 *")
    factor = StudyFactor(PUBLISHED, TOGETHER, "condition", PUBLISHED_LOADS, ordered=True, load=True)
    lines = [
        FactorLine(
            f"test {test.test}",
            tuple(
                FactorPoint(load, load, as_measured(m), missed=False)
                for load, m in zip(PUBLISHED_LOADS, test.max_sigma_m, strict=True)
            ),
        )
        for test in tests
    ]

    def paint(axes: "Axes") -> None:
        for place, line in enumerate(lines):
            look = {"color": PALETTE[place], "marker": _MARKERS[place], "label": line.label, "linestyle": _PUBLISHED_DASH}
            _draw_line(axes, axis, line.points, look, (place + 1) / (len(lines) + 1))

    label = f"Published max sigma of CARLA against CPU and GPU utilisation; largest {length(max(x.widest_m for x in lines))}"
    points = [point for line in lines for point in line.points]
    return _panel("published", factor, factor.variant, label, points, axis, tolerance_m, len(lines) + 1, paint)


def _panel(
    name: str,
    factor: StudyFactor,
    heading: str,
    label: str,
    points: Sequence[FactorPoint],
    axis: LengthAxis,
    tolerance_m: float,
    entries: int,
    paint: Callable[["Axes"], None],
    words: tuple[str, str] = ("max sigma", "tolerance"),
) -> str:
    """Frame a figure over a factor: heading, axes, tolerance and legend are the same in all of them."""
    foot_px, head_px = 50 + _ROW_PX * math.ceil(entries / 2), 26.0
    plot_px = 200.0
    height_px = plot_px + foot_px + head_px

    def frame(figure: "Figure") -> None:
        width = WIDTH_PX - _LEFT_PX - _RIGHT_PX
        axes = figure.add_axes((_LEFT_PX / WIDTH_PX, foot_px / height_px, width / WIDTH_PX, plot_px / height_px))
        paint(axes)
        limit = float(axis.place(tolerance_m))
        axes.axhline(limit, color=INK, linestyle=_DASHED, linewidth=1.2, label=f"{words[1]} {length(tolerance_m)}")
        if any(point.missed for point in points):
            axes.plot([], [], "o", color=MUTED, markerfacecolor="white", markersize=8, label="load missed its target")
        axis.apply(axes, plot_px, vertical=True)
        _set_levels(axes, factor, points, width)
        axes.set_ylabel(words[0])
        axes.text(0, 1.06, shorten(heading, 48), transform=axes.transAxes, va="bottom", fontweight="bold")
        figure.legend(loc="lower left", bbox_to_anchor=(24 / WIDTH_PX, 2 / height_px), ncols=2)

    return draw(name, f"{factor.variant}\x1f{factor.name}\x1f{heading}", label, height_px, frame)


def _draw_line(axes: "Axes", axis: LengthAxis, points: Sequence[FactorPoint], look: dict[str, Any], share: float) -> None:
    """Draw a series from left to right; its zeros lie at a height of the band of their own, or they would hide others."""
    points = sorted(points, key=lambda point: point.place)
    values = np.array([math.nan if point.sigma_m is None else point.sigma_m for point in points], np.float64)
    placed = axis.place(values)
    if axis.zero_at is not None:
        placed[values == 0] = axis.low - share * (axis.low - axis.bottom)
    places = [point.place for point in points]
    size = 5.0 if look["marker"] != "." else 4.0
    axes.plot(places, placed, **{"linewidth": 1.4, "markersize": size, "clip_on": False, "zorder": 3, **look})
    for point, height in zip(points, placed.tolist(), strict=True):
        if point.missed and math.isfinite(height):
            ring = {"color": look["color"], "marker": look["marker"], "markerfacecolor": "white"}
            axes.plot([point.place], [height], markersize=size + 3, clip_on=False, zorder=4, **ring)


def _set_levels(axes: "Axes", factor: StudyFactor, points: Sequence[FactorPoint], width_px: float) -> None:
    """Set ticks at the levels that were asked, as many as fit; a share's axis is the whole machine."""
    if is_share(factor):
        at = [(float(level), level_words(factor.name, level)) for level in factor.levels if isinstance(level, int | float)]
        low, high = -0.03, max(1.03, *(point.place + 0.03 for point in points))
        axes.set_xlim(low, high)
    else:
        at = [(float(rank), shorten(level_words(factor.name, level), 14)) for rank, level in enumerate(factor.levels)]
        low, high = -0.3, len(factor.levels) - 0.7
        axes.set_xlim(low, high)
    shown: list[tuple[float, str]] = []
    for place, text in reversed(at):
        room = 0.5 * 7.6 * (len(text) + len(shown[0][1])) + 6 if shown else 0.0
        if not shown or (shown[0][0] - place) * width_px / (high - low) >= room:
            shown.insert(0, (place, text))
    axes.set_xticks([place for place, _ in shown], [text for _, text in shown])
    axes.grid(visible=True, axis="x")
    measured = is_share(factor) and any(point.level != point.place for point in points)
    name = axis_name(factor, measured=measured)
    axes.set_xlabel("CPU and GPU utilisation" if factor.variant == PUBLISHED else name)


_BOX_RIGHT_PX: Final = 30.0
_BOX_ROW_PX: Final = 19.0
_GAP_PX: Final = 9.0
_BOX_CHAR_PX: Final = 7.4
_BOX_LABEL_LENGTH: Final = 22
_LEGEND_COLUMNS: Final = 3


def deviation_boxes(
    factor: StudyFactor,
    hue: StudyFactor | None,
    scenario: str,
    groups: Sequence[DeviationGroup],
    axis: LengthAxis,
    tolerance_m: float,
    remark: str = "",
) -> str:
    """Draw a box per group: quartiles, median, whiskers to the farthest repeat within 1.5 quartile ranges, dots beyond.

    Levels are rows, so that long names have room; zeros lie in a band of their own. ``remark`` stands in the figure itself,
    for whoever sees it without the page.
    """
    names = [shorten(level_words(factor.name, level), _BOX_LABEL_LENGTH) for level in factor.levels]
    left_px = 18 + _BOX_CHAR_PX * max(len(name) for name in names)
    tops = [_GAP_PX * index for index in range(len(factor.levels))]
    rows: list[float] = []
    used = dict.fromkeys(range(len(factor.levels)), 0)
    ranks = [next(rank for rank, level in enumerate(factor.levels) if same(level, group.level)) for group in groups]
    counts = [ranks.count(rank) for rank in range(len(factor.levels))]
    for rank in ranks:
        start = _BOX_ROW_PX * sum(counts[:rank]) + tops[rank]
        rows.append(start + _BOX_ROW_PX * (used[rank] + 0.5))
        used[rank] += 1
    plot_px = _BOX_ROW_PX * len(groups) + tops[-1] + 8
    entries = 1 + (0 if hue is None else len(hue.levels))
    foot_px, head_px = 50 + 18.5 * math.ceil(entries / _LEGEND_COLUMNS), 44.0 if remark else 26.0
    height_px = plot_px + foot_px + head_px
    width_px = WIDTH_PX - left_px - _BOX_RIGHT_PX

    def paint(figure: "Figure") -> None:
        axes = figure.add_axes((left_px / WIDTH_PX, foot_px / height_px, width_px / WIDTH_PX, plot_px / height_px))
        for row, group in zip(rows, groups, strict=True):
            _draw_box(axes, axis, row, group, _colour(hue, group))
        axes.axvline(float(axis.place(tolerance_m)), color=INK, linestyle=_DASHED, linewidth=1.2, label=_limit(tolerance_m))
        if hue is not None:
            for rank, level in enumerate(hue.levels):
                words = f"{title(hue.name)} {level_words(hue.name, level)}"
                axes.barh([0], [0], color=PALETTE[rank], alpha=0.55, label=shorten(words, 24))
        axis.apply(axes, width_px, vertical=False)
        axes.set_ylim(plot_px - 4, -4)
        middles = [
            np.mean([row for row, row_rank in zip(rows, ranks, strict=True) if row_rank == rank]) for rank in sorted(set(ranks))
        ]
        axes.set_yticks(middles, [names[rank] for rank in sorted(set(ranks))])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("largest deviation of a repeat")
        head = f"{title(factor.name)}: {scenario}, {factor.variant}"
        axes.text(8 / WIDTH_PX, 1 - 18 / height_px, shorten(head, 56), transform=figure.transFigure, fontweight="bold")
        axes.text(8 / WIDTH_PX, 1 - 36 / height_px, remark, transform=figure.transFigure, color=MUTED)
        figure.legend(loc="lower center", bbox_to_anchor=(0.5, 2 / height_px), ncols=_LEGEND_COLUMNS)

    return draw("boxes", f"{factor.variant}\x1f{factor.name}\x1f{scenario}", _words(factor, scenario), height_px, paint)


def _draw_box(axes: "Axes", axis: LengthAxis, row: float, group: DeviationGroup, colour: str) -> None:
    from matplotlib.cbook import boxplot_stats

    values = np.asarray(group.deviations_m, np.float64)
    stats = boxplot_stats(values)[0]
    names = ("whislo", "q1", "med", "q3", "whishi")
    low, first, middle, third, high = axis.place([stats[name] for name in names]).tolist()
    axes.plot([low, high], [row, row], color=colour, linewidth=1.2, clip_on=False)
    axes.barh([row], [third - first], left=[first], height=_BOX_ROW_PX * 0.62, color=colour, alpha=0.55, linewidth=0)
    tick = _BOX_ROW_PX * 0.31
    axes.plot([middle, middle], [row - tick, row + tick], color=INK, linewidth=1.6, clip_on=False)
    # Of dots that no pixel tells apart only one, or a thousand repeats would make a large file.
    far = np.unique(np.round(axis.place(stats["fliers"]), 2))
    axes.plot(far, [row] * len(far), ".", color=colour, markersize=4, clip_on=False)


def _colour(hue: StudyFactor | None, group: DeviationGroup) -> str:
    if hue is None:
        return PALETTE[0]
    return PALETTE[next(rank for rank, level in enumerate(hue.levels) if same(level, group.hue))]


def _limit(tolerance_m: float) -> str:
    return f"tolerance {length(tolerance_m)}"


def _words(factor: StudyFactor, scenario: str) -> str:
    return f"Box plots of the repeats' largest deviations per level of {title(factor.name)} in {scenario}, {factor.variant}"
