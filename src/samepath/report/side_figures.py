"""Figures that put variants side by side: a row for each, so that twenty of them can be read, and a mark for each level."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from samepath.analysis.factors import level_words, title
from samepath.analysis.side_by_side import SideBySide, SideRow, SideVariant
from samepath.report.svg import FAINT, INK, MUTED, PALETTE, WIDTH_PX, LengthAxis, draw, length_axis
from samepath.report.words import length, shorten

MAX_ROWS: Final = 40
MAX_LEVELS: Final = 5
# Rounding errors of 1e-15 m would squeeze everything else into a corner.
SMALLEST_M: Final = 1e-9
_ROW_PX: Final = 26.0
_CHAR_PX: Final = 7.0
_RIGHT_PX: Final = 24.0
_LABEL_LENGTH: Final = 33
_MARKERS: Final = ("o", "s", "D", "^", "v")
# One hue from light to dark, and another shape each: higher levels are darker.
_LIGHT, _DARK = (0x7F, 0xBF, 0xE6), (0x08, 0x2F, 0x5B)
_DASHED: Final = (0, (5, 3))
_HIT, _FLIP = PALETTE[4], PALETTE[1]

Levels = tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """Variants in rows: their labels, and the levels that have a mark of their own; none where there are too many."""

    variants: tuple[SideVariant, ...]
    labels: tuple[str, ...]
    levels: Levels

    @property
    def left_px(self) -> float:
        """Room for the labels."""
        return 14 + _CHAR_PX * max(len(one) for one in self.labels)

    def look(self, row: SideRow) -> tuple[int, dict[str, Any]]:
        """The place of a cell's level and the look of its mark."""
        if not self.levels:
            return 0, {"color": PALETTE[0], "marker": "o"}
        at = self.levels.index(row.where())
        share = at / max(1, len(self.levels) - 1)
        mixed = (round(a + share * (b - a)) for a, b in zip(_LIGHT, _DARK, strict=True))
        return at, {"color": "#" + "".join(f"{one:02x}" for one in mixed), "marker": _MARKERS[at]}


def rows_of(side: SideBySide) -> Rows:
    """Lay variants out in rows; a scenario is named where a variant has several."""
    shown = side.variants[:MAX_ROWS]
    labels = tuple(shorten(", ".join(side.names(one)), _LABEL_LENGTH) for one in shown)
    levels = tuple(dict.fromkeys(row.where() for one in shown for row in one.rows))
    return Rows(shown, labels, levels if len(levels) <= MAX_LEVELS else ())


def shared_axis(side: SideBySide, tolerance_m: float) -> LengthAxis:
    """Make one axis for both phases, with a place for exact zeros; what is below ``SMALLEST_M`` is drawn at its end."""
    rows = [row for one in side.variants for row in one.rows]
    sizes = [size for row in rows for size in (row.before_sigma_m, row.after_sigma_m) if size is not None]
    return length_axis([tolerance_m, *(max(size, SMALLEST_M) if size else size for size in sizes)])


def sigma_rows(rows: Rows, heading: str, sigma: Callable[[SideRow], float | None], axis: LengthAxis, tolerance_m: float) -> str:
    """Draw max sigma of every cell, a row per variant; the line of a row goes through its levels in their order."""
    named = rows.levels if len(rows.levels) > 1 else ()
    foot_px, head_px = 30.0 + 18.5 * ((len(named) + 2) // 2), 28.0
    height_px = head_px + foot_px + _ROW_PX * len(rows.variants)

    def paint(figure: Any) -> None:  # noqa: ANN401 - matplotlib's own object
        axes = _add_axes(figure, rows, height_px, foot_px, head_px)
        for place, variant in enumerate(rows.variants):
            drawn = [(row, value) for row in variant.rows if (value := sigma(row)) is not None]
            if not drawn:
                axes.text(axis.low, place, f" no {variant.split}", va="center", color=MUTED, fontsize=11)
            looks = [rows.look(row) for row, _ in drawn]
            at = axis.place([value for _, value in drawn])
            heights = [place + _offset(level, len(rows.levels)) for level, _ in looks]
            axes.plot(at, heights, color=MUTED, linewidth=0.9, zorder=2)
            for x, y, (_, look) in zip(at.tolist(), heights, looks, strict=True):
                axes.plot([x], [y], linestyle="none", markersize=5.5, clip_on=False, zorder=3, **look)
        for level in named:
            example = next(row for one in rows.variants for row in one.rows if row.where() == level)
            axes.plot([], [], linestyle="none", markersize=6, label=shorten(level, 26), **rows.look(example)[1])
        limit = float(axis.place(tolerance_m))
        axes.axvline(limit, color=INK, linestyle=_DASHED, linewidth=1.2, label=f"tolerance {length(tolerance_m)}")
        axis.apply(axes, WIDTH_PX - rows.left_px - _RIGHT_PX, vertical=False)
        _set_rows(axes, rows, heading)
        figure.legend(loc="lower left", bbox_to_anchor=(24 / WIDTH_PX, 2 / height_px), ncols=2)

    widest = max((value for one in rows.variants for row in one.rows if (value := sigma(row)) is not None), default=0.0)
    label = f"Max sigma {heading} of {len(rows.variants)} variants side by side; largest {length(widest)}"
    return draw("side-sigma", heading, label, height_px, paint)


def collision_strip(rows: Rows) -> str:
    """Draw in how many repeats of every cell there is a collision; a frame marks those whose repeats come to different ends."""
    columns, what = _columns(rows)
    foot_px, head_px = 8.0, 52.0
    height_px = head_px + foot_px + _ROW_PX * len(rows.variants)

    def paint(figure: Any) -> None:  # noqa: ANN401
        from matplotlib.patches import Rectangle

        axes = _add_axes(figure, rows, height_px, foot_px, head_px)
        for place, variant in enumerate(rows.variants):
            boxes: dict[int, list[SideRow]] = {}
            for row in variant.rows:
                boxes.setdefault(rows.look(row)[0], []).append(row)
            for x, members in boxes.items():
                row = min(members, key=lambda one: (not one.flips, one.collided / one.repeats))
                left, top, wide, high = x + 0.04, place - 0.4, 0.92, 0.8
                share = row.collided / row.repeats
                axes.add_patch(Rectangle((left, top), wide, high, facecolor="white", edgecolor="none", zorder=1))
                axes.add_patch(Rectangle((left, top), wide * share, high, facecolor=_HIT, alpha=0.45, linewidth=0, zorder=2))
                frame: dict[str, Any] = {"edgecolor": FAINT, "linewidth": 1.0}
                if row.flips:
                    frame = {"edgecolor": _FLIP, "linewidth": 2.2}
                axes.add_patch(Rectangle((left, top), wide, high, facecolor="none", zorder=3, **frame))
                words = f"{row.collided} of {row.repeats}"
                weight = "bold" if row.flips else "normal"
                axes.text(left + wide / 2, place, words, ha="center", va="center", fontsize=11.5, fontweight=weight, zorder=4)
        axes.set_xlim(0, len(columns))
        axes.xaxis.tick_top()
        axes.set_xticks(np.arange(len(columns)) + 0.5, [shorten(one, 16) for one in columns] if any(columns) else [""])
        axes.tick_params(axis="x", length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        _set_rows(axes, rows, f"repeats that collide{what}", above_px=34)

    flipping = sum(one.flips for one in rows.variants)
    label = (
        f"Repeats with a collision, {len(rows.variants)} variants side by side; the test's verdict flips in {flipping} of them"
    )
    return draw("side-collisions", "", label, height_px, paint)


def _columns(rows: Rows) -> tuple[tuple[str, ...], str]:
    """Name the levels; one factor that all are of is named in the heading."""
    levels = dict.fromkeys(row.levels for one in rows.variants for row in one.rows)
    names = {name for one in levels for name, _ in one}
    if rows.levels and len(names) == 1 and all(len(one) == 1 for one in levels):
        (name,) = names
        return tuple(level_words(name, one[0][1]) for one in levels), f", by {title(name)}"
    return rows.levels or ("worst cell",), ""


def _add_axes(figure: Any, rows: Rows, height_px: float, foot_px: float, head_px: float) -> Any:  # noqa: ANN401
    width = (WIDTH_PX - rows.left_px - _RIGHT_PX) / WIDTH_PX
    return figure.add_axes((rows.left_px / WIDTH_PX, foot_px / height_px, width, (height_px - foot_px - head_px) / height_px))


def _set_rows(axes: Any, rows: Rows, heading: str, above_px: float = 10) -> None:  # noqa: ANN401
    axes.set_yticks(np.arange(len(rows.labels)), rows.labels)
    axes.set_ylim(len(rows.labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    start = (24 - rows.left_px, above_px)
    axes.annotate(heading, (0, 1), start, "axes fraction", "offset points", fontweight="bold", va="bottom")
    last = None
    for place, one in enumerate(rows.variants):
        if last not in (None, one.simulator):
            axes.axhline(place - 0.5, color=FAINT, linewidth=1.0, zorder=0)
        last = one.simulator


def _offset(level: int, levels: int) -> float:
    """Where in its row a level stands: each a little lower than the one before, so that equal values do not hide each other."""
    return 0.0 if levels < 2 else 0.26 * (2 * level / (levels - 1) - 1)
