"""Box plots of how far single repeats stray at each level of a factor, told apart by a second one (the paper's Fig. 8)."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from samepath.analysis.factors import StudyFactor, level_words, title
from samepath.report.series import Group, same
from samepath.report.svg import INK, PALETTE, WIDTH_PX, LengthAxis, draw
from samepath.report.words import length, shorten

_RIGHT_PX: Final = 30.0
_ROW_PX: Final = 19.0
_GAP_PX: Final = 9.0
_CHAR_PX: Final = 7.4
_LABEL_LENGTH: Final = 22
_LEGEND_COLUMNS: Final = 3
_DASHED: Final = (0, (5, 3))


def deviation_boxes(
    factor: StudyFactor,
    hue: StudyFactor | None,
    scenario: str,
    groups: Sequence[Group],
    axis: LengthAxis,
    tolerance_m: float,
) -> str:
    """Draw a box per group: quartiles, median, whiskers to the farthest repeat within 1.5 quartile ranges, dots beyond.

    Levels are rows, so that long names have room; zeros lie in a band of their own.
    """
    names = [shorten(level_words(factor.name, level), _LABEL_LENGTH) for level in factor.levels]
    left_px = 18 + _CHAR_PX * max(len(name) for name in names)
    tops = [_GAP_PX * index for index in range(len(factor.levels))]
    rows: list[float] = []
    used = dict.fromkeys(range(len(factor.levels)), 0)
    ranks = [next(rank for rank, level in enumerate(factor.levels) if same(level, one.level)) for one in groups]
    counts = [ranks.count(rank) for rank in range(len(factor.levels))]
    for rank in ranks:
        start = _ROW_PX * sum(counts[:rank]) + tops[rank]
        rows.append(start + _ROW_PX * (used[rank] + 0.5))
        used[rank] += 1
    plot_px = _ROW_PX * len(groups) + tops[-1] + 8
    entries = 1 + (0 if hue is None else len(hue.levels))
    foot_px, head_px = 50 + 18.5 * math.ceil(entries / _LEGEND_COLUMNS), 26.0
    height_px = plot_px + foot_px + head_px
    width_px = WIDTH_PX - left_px - _RIGHT_PX

    def paint(figure: Any) -> None:  # noqa: ANN401 - matplotlib's own object
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
        middles = [np.mean([row for row, one in zip(rows, ranks, strict=True) if one == rank]) for rank in sorted(set(ranks))]
        axes.set_yticks(middles, [names[rank] for rank in sorted(set(ranks))])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("largest deviation of a repeat")
        head = f"{title(factor.name)}: {scenario}, {factor.variant}"
        axes.text(8 / WIDTH_PX, 1 - 18 / height_px, shorten(head, 56), transform=figure.transFigure, fontweight="bold")
        figure.legend(loc="lower center", bbox_to_anchor=(0.5, 2 / height_px), ncols=_LEGEND_COLUMNS)

    return draw("boxes", f"{factor.variant}\x1f{factor.name}\x1f{scenario}", _words(factor, scenario), height_px, paint)


def _draw_box(axes: Any, axis: LengthAxis, row: float, group: Group, colour: str) -> None:  # noqa: ANN401
    from matplotlib.cbook import boxplot_stats

    values = np.asarray(group.deviations_m, np.float64)
    stats = boxplot_stats(values)[0]
    names = ("whislo", "q1", "med", "q3", "whishi")
    low, first, middle, third, high = axis.place([stats[name] for name in names]).tolist()
    axes.plot([low, high], [row, row], color=colour, linewidth=1.2, clip_on=False)
    axes.barh([row], [third - first], left=[first], height=_ROW_PX * 0.62, color=colour, alpha=0.55, linewidth=0)
    tick = _ROW_PX * 0.31
    axes.plot([middle, middle], [row - tick, row + tick], color=INK, linewidth=1.6, clip_on=False)
    # Of dots that no pixel tells apart only one, or a thousand repeats would make a large file.
    far = np.unique(np.round(axis.place(stats["fliers"]), 2))
    axes.plot(far, [row] * len(far), ".", color=colour, markersize=4, clip_on=False)


def _colour(hue: StudyFactor | None, group: Group) -> str:
    if hue is None:
        return PALETTE[0]
    return PALETTE[next(rank for rank, level in enumerate(hue.levels) if same(level, group.hue))]


def _limit(tolerance_m: float) -> str:
    return f"tolerance {length(tolerance_m)}"


def _words(factor: StudyFactor, scenario: str) -> str:
    return f"Box plots of the repeats' largest deviations per level of {title(factor.name)} in {scenario}, {factor.variant}"
