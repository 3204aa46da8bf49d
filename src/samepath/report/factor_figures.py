"""Figures over a factor: max sigma against its level (the paper's Fig. 5), before and after a collision (Figs 6b and 7b)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from samepath.analysis.factors import StudyFactor, level_words
from samepath.report.actor_styles import OTHERS_COLOUR
from samepath.report.published import LOADS, PublishedTest, as_measured
from samepath.report.series import Line, Point, axis_name, is_share
from samepath.report.svg import INK, MUTED, PALETTE, WIDTH_PX, LengthAxis, draw
from samepath.report.words import length, shorten

PUBLISHED: Final = "CARLA, published"
_LEFT_PX: Final = 84.0
_RIGHT_PX: Final = 16.0
_ROW_PX: Final = 18.5
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_LABEL_LENGTH: Final = 24
_DASHED: Final = (0, (5, 3))
_PUBLISHED_DASH: Final = (0, (2, 2))
_BEFORE, _AFTER = PALETTE[0], PALETTE[1]


def sigma_against(factor: StudyFactor, lines: Sequence[Line], axis: LengthAxis, tolerance_m: float) -> str:
    """Draw max sigma of every line of one variant against the levels of a factor.

    Loads stand where they were measured; the ticks are the levels that were asked. Exact zeros lie side by side in a band.
    """
    named = sorted(range(len(lines)), key=lambda index: -lines[index].widest_m)[: len(PALETTE)]
    entries = len(named) + (len(lines) > len(named)) + 1 + any(one.missed for line in lines for one in line.points)

    def paint(axes: Any) -> None:  # noqa: ANN401 - matplotlib's own object
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
    label = f"Max sigma against {axis_name(factor, measured=False)}, {factor.variant}; largest {length(worst)}"
    points = [one for line in lines for one in line.points]
    return _panel("sigma-over", factor, factor.variant, label, points, axis, tolerance_m, entries, paint)


def phases_against(
    factor: StudyFactor,
    scenario: str,
    before: Line,
    after: Line,
    axis: LengthAxis,
    tolerance_m: float,
    known: PublishedTest | None = None,
) -> str:
    """Draw max sigma before and after the splitting event against the levels of a factor, with what was published beside it."""
    missed = any(one.missed for one in (*before.points, *after.points))
    shown = known is not None and bool(known.before_m) and factor.name == "cpu_load"
    entries = 3 + missed + 2 * shown

    def paint(axes: Any) -> None:  # noqa: ANN401
        if known is not None and shown:
            for name, colour, values in (("before", _BEFORE, known.before_m), ("after", _AFTER, known.after_m)):
                placed = axis.place([as_measured(one) for one in values])
                look = {"color": colour, "linestyle": _PUBLISHED_DASH, "linewidth": 1.2, "alpha": 0.7}
                axes.plot(LOADS, placed, **look, label=f"CARLA, {name} (published)")
        _draw_line(axes, axis, before.points, {"color": _BEFORE, "marker": "o", "label": before.label}, 1 / 3)
        _draw_line(axes, axis, after.points, {"color": _AFTER, "marker": "D", "label": after.label}, 2 / 3)

    words = f"{scenario}, {factor.variant}"
    label = f"Max sigma {before.label} and {after.label} against {axis_name(factor, measured=False)}: {words}"
    points = [*before.points, *after.points]
    return _panel("phases-over", factor, words, label, points, axis, tolerance_m, entries, paint)


def published_sigma(tests: Sequence[PublishedTest], axis: LengthAxis, tolerance_m: float) -> str:
    """Draw the published curves of CARLA on the same scale as one's own; their zeros are zeros at the log's resolution."""
    axis = replace(axis, zero_name="0 *")
    factor = StudyFactor(PUBLISHED, "cpu_load", "condition", LOADS, ordered=True, load=True)
    lines = [
        Line(
            f"test {one.test}",
            tuple(Point(load, load, as_measured(m), missed=False) for load, m in zip(LOADS, one.max_sigma_m, strict=True)),
        )
        for one in tests
    ]

    def paint(axes: Any) -> None:  # noqa: ANN401
        for place, line in enumerate(lines):
            look = {"color": PALETTE[place], "marker": _MARKERS[place], "label": line.label, "linestyle": _PUBLISHED_DASH}
            _draw_line(axes, axis, line.points, look, (place + 1) / (len(lines) + 1))

    label = f"Published max sigma of CARLA against CPU and GPU utilisation; largest {length(max(x.widest_m for x in lines))}"
    points = [one for line in lines for one in line.points]
    return _panel("published", factor, factor.variant, label, points, axis, tolerance_m, len(lines) + 1, paint)


def _panel(
    name: str,
    factor: StudyFactor,
    heading: str,
    label: str,
    points: Sequence[Point],
    axis: LengthAxis,
    tolerance_m: float,
    entries: int,
    paint: Callable[[Any], None],
) -> str:
    """Frame a figure over a factor: heading, axes, tolerance and legend are the same in all of them."""
    foot_px, head_px = 50 + _ROW_PX * math.ceil(entries / 2), 26.0
    plot_px = 200.0
    height_px = plot_px + foot_px + head_px

    def frame(figure: Any) -> None:  # noqa: ANN401
        width = WIDTH_PX - _LEFT_PX - _RIGHT_PX
        axes = figure.add_axes((_LEFT_PX / WIDTH_PX, foot_px / height_px, width / WIDTH_PX, plot_px / height_px))
        paint(axes)
        limit = float(axis.place(tolerance_m))
        axes.axhline(limit, color=INK, linestyle=_DASHED, linewidth=1.2, label=f"tolerance {length(tolerance_m)}")
        if any(one.missed for one in points):
            axes.plot([], [], "o", color=MUTED, markerfacecolor="white", markersize=8, label="load missed its target")
        axis.apply(axes, plot_px, vertical=True)
        _set_levels(axes, factor, points, width)
        axes.set_ylabel("max sigma")
        axes.text(0, 1.06, shorten(heading, 48), transform=axes.transAxes, va="bottom", fontweight="bold")
        figure.legend(loc="lower left", bbox_to_anchor=(24 / WIDTH_PX, 2 / height_px), ncols=2)

    return draw(name, f"{factor.variant}\x1f{factor.name}\x1f{heading}", label, height_px, frame)


def _draw_line(axes: Any, axis: LengthAxis, points: Sequence[Point], look: dict[str, Any], share: float) -> None:  # noqa: ANN401
    """Draw a series from left to right; its zeros lie at a height of the band of their own, or they would hide others."""
    points = sorted(points, key=lambda one: one.place)
    values = np.array([math.nan if one.sigma_m is None else one.sigma_m for one in points], np.float64)
    placed = axis.place(values)
    if axis.zero_at is not None:
        placed[values == 0] = axis.low - share * (axis.low - axis.bottom)
    places = [one.place for one in points]
    size = 5.0 if look["marker"] != "." else 4.0
    axes.plot(places, placed, **{"linewidth": 1.4, "markersize": size, "clip_on": False, "zorder": 3, **look})
    for one, height in zip(points, placed.tolist(), strict=True):
        if one.missed and math.isfinite(height):
            ring = {"color": look["color"], "marker": look["marker"], "markerfacecolor": "white"}
            axes.plot([one.place], [height], markersize=size + 3, clip_on=False, zorder=4, **ring)


def _set_levels(axes: Any, factor: StudyFactor, points: Sequence[Point], width_px: float) -> None:  # noqa: ANN401
    """Set ticks at the levels that were asked, as many as fit; a share's axis is the whole machine."""
    if is_share(factor):
        at = [(float(one), level_words(factor.name, one)) for one in factor.levels if isinstance(one, int | float)]
        low, high = -0.03, max(1.03, *(one.place + 0.03 for one in points))
        axes.set_xlim(low, high)
    else:
        at = [(float(rank), shorten(level_words(factor.name, one), 14)) for rank, one in enumerate(factor.levels)]
        low, high = -0.3, len(factor.levels) - 0.7
        axes.set_xlim(low, high)
    shown: list[tuple[float, str]] = []
    for place, text in reversed(at):
        room = 0.5 * 7.6 * (len(text) + len(shown[0][1])) + 6 if shown else 0.0
        if not shown or (shown[0][0] - place) * width_px / (high - low) >= room:
            shown.insert(0, (place, text))
    axes.set_xticks([place for place, _ in shown], [text for _, text in shown])
    axes.grid(visible=True, axis="x")
    measured = is_share(factor) and any(one.level != one.place for one in points)
    name = axis_name(factor, measured=measured)
    axes.set_xlabel("CPU and GPU utilisation" if factor.variant == PUBLISHED else name)
