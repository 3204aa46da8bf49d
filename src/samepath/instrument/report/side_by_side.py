"""Variants side by side, on the page and on the terminal: a conclusion per simulator, figures, a row per cell.

Figures have a row for each variant, so that twenty of them can be read, and a mark for each level of a load.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from samepath.core.units import format_length
from samepath.instrument.analysis.conditions import RunPace
from samepath.instrument.analysis.factors import level_words, title
from samepath.instrument.analysis.side_by_side import Conclusion, MeanShift, SideBySide, SideRow, SideVariant, level_list
from samepath.instrument.report.cell_view import FigureView, VerdictView, view_figure, view_verdict
from samepath.instrument.report.svg import FAINT, INK, MUTED, PALETTE, WIDTH_PX, LengthAxis, draw, length_axis
from samepath.instrument.report.words import length, sentence, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_ENDLESS: Final = 10_000
# A row has the figures of so many cells beside each other, else the worst of them.
_MOST_LEVELS: Final = 4
_NONE: Final = "-"
Levels = tuple[str, ...]


@dataclass(frozen=True)
class SideRowView:
    """A cell in words; ``flips`` says how repeats disagree on what the test came to."""

    levels: str
    anchor: str
    repeats: int
    before: str
    after: str
    outcomes: str
    collided: str
    flips: str
    shift_before: str
    shift_after: str
    steps: str
    real_time: str
    verdict: VerdictView


@dataclass(frozen=True)
class SideGroup:
    """A variant on one scenario."""

    variant: str
    scenario: str
    permissible: str
    verdict: VerdictView
    rows: tuple[SideRowView, ...]


@dataclass(frozen=True)
class SideView:
    """Everything the part says."""

    conclusions: tuple[tuple[str, str, str], ...]  # simulator, what is concluded, class of its tone
    groups: tuple[SideGroup, ...]
    absent: tuple[tuple[str, str], ...]
    figures: tuple[FigureView, ...]
    note: str
    split: str
    scenarios: tuple[str, ...]


def view_side(side: SideBySide, anchors: Mapping[str, str], tolerance_m: float) -> SideView:
    """Put variants side by side in words and figures; ``anchors`` says where on the page each cell is."""
    return SideView(
        conclusions=tuple(
            (conclusion.simulator or "not named", sentence(conclusion.text), tone(conclusion, side))
            for conclusion in side.conclusions
        ),
        groups=tuple(_group(variant, anchors) for variant in side.variants),
        absent=tuple((variant.variant, variant.reason or variant.kind) for variant in side.absent),
        figures=tuple(_figures(side, tolerance_m)),
        note=_note(side),
        split=_split(side),
        scenarios=side.scenarios,
    )


def tone(conclusion: Conclusion, side: SideBySide) -> str:
    """How good a conclusion is: the worst verdict of the simulator's variants; none where nothing was measured."""
    found = [variant.verdict for variant in side.variants if variant.simulator == conclusion.simulator]
    return max(found, key=lambda verdict: verdict.rank).value if found else ""


def shift_words(shift: MeanShift | None) -> str:
    """Print a shift of the mean with its standard error: ``3.1 cm ± 1.2 cm``."""
    if shift is None:
        return ""
    if shift.error_m == 0:
        return length(shift.shift_m)
    return f"{format_length(shift.shift_m)} ± {format_length(shift.error_m)}"


def pace_words(pace: RunPace | None) -> tuple[str, str]:
    """Print steps in a second, and how many times as fast as real time that is."""
    return ("", "") if pace is None else (_three(pace.steps_per_s), _three(pace.times_real_time))


def _group(variant: SideVariant, anchors: Mapping[str, str]) -> SideGroup:
    domain = variant.domain
    return SideGroup(
        variant=variant.variant or "not named",
        scenario=variant.scenario,
        permissible="nowhere" if domain.empty else domain.region(),
        verdict=view_verdict(variant.verdict),
        rows=tuple(_row(row, anchors) for row in variant.rows),
    )


def _row(row: SideRow, anchors: Mapping[str, str]) -> SideRowView:
    steps, real_time = pace_words(row.pace)
    shift = row.shift
    return SideRowView(
        levels=row.where() or row.cell,
        anchor=anchors.get(row.cell, ""),
        repeats=row.repeats,
        before=length(row.before_sigma_m),
        after="" if row.after_sigma_m is None else length(row.after_sigma_m),
        outcomes=f"{row.outcomes}",
        collided=f"{row.collided} of {row.repeats}",
        flips=sentence(row.flip_words()),
        shift_before="base" if shift is None else shift_words(shift.before),
        shift_after="" if shift is None else shift_words(shift.after),
        steps=steps,
        real_time=real_time,
        verdict=view_verdict(row.verdict),
    )


def _figures(side: SideBySide, tolerance_m: float) -> Iterator[FigureView]:
    if not side.variants:
        return
    rows, axis = rows_of(side), shared_axis(side, tolerance_m)
    split = _split(side)
    apart = any(row.after_sigma_m is not None for variant in side.variants for row in variant.rows)
    before = f"max sigma before the first {split}" if apart else "max sigma"
    yield view_figure(sigma_rows(rows, before, lambda row: row.before_sigma_m, axis, tolerance_m), "")
    if apart:
        yield view_figure(
            sigma_rows(rows, f"max sigma after the first {split}", lambda row: row.after_sigma_m, axis, tolerance_m), ""
        )
    if any(row.collided for variant in side.variants for row in variant.rows):
        yield view_figure(collision_strip(rows), "")


def _split(side: SideBySide) -> str:
    return side.variants[0].split if side.variants else "collision"


def _note(side: SideBySide) -> str:
    notes = [
        "Each row of the figures is a variant; exact zeros lie in the shaded band.",
        "A frame marks cells in which the test's verdict flips: repeats disagree on who collides or on how the run ends.",
    ]
    sizes = [
        size for variant in side.variants for row in variant.rows for size in (row.before_sigma_m, row.after_sigma_m) if size
    ]
    if any(size < SMALLEST_M for size in sizes):
        notes.append(f"What is below {format_length(SMALLEST_M)} and not zero is drawn there.")
    if len(side.variants) > MAX_ROWS:
        notes.append(f"The first {MAX_ROWS} of {len(side.variants)} are drawn.")
    return " ".join(notes)


def _three(value: float) -> str:
    """Print three figures, never as a power of ten."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if rounded >= 100 else f"{rounded:g}"


def print_side(console: Console, side: SideBySide, styles: dict[str, str]) -> None:
    """Print what is concluded of each simulator, then the figures of every variant."""
    console.print()
    console.print(Text("Side by side", style="bold"))
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for conclusion in side.conclusions:
        lines.add_row(
            Text(f"  {conclusion.simulator or 'not named'}", style=styles.get(tone(conclusion, side), "dim")),
            Text(f"{conclusion.text}."),
        )
    console.print(lines)
    if side.variants:
        console.print()
        every = _table(side, each=True)
        # A table that is too wide would be pressed until names and figures are gone.
        fits = console.measure(every, options=console.options.update(width=_ENDLESS)).maximum <= console.width
        console.print(every if fits else _table(side, each=False))


def _table(side: SideBySide, *, each: bool) -> Table:
    """One row per variant and scenario: the figures of its cells beside each other, if all have the same few, or the worst."""
    levels = {tuple(level_list(variant.rows)) for variant in side.variants}
    each = each and len(levels) == 1 and all(len(variant.rows) <= _MOST_LEVELS for variant in side.variants)
    several = any(len(side.names(variant)) > 1 for variant in side.variants)
    split = side.variants[0].split
    title = f"Max sigma before and after the first {split}, outcomes, repeats that collide"
    if each and any(next(iter(levels))):
        title += f", at {' / '.join(next(iter(levels)))}"
    elif any(len(variant.rows) > 1 for variant in side.variants):
        title += "; the worst of each variant's cells"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for name in ("variant", *(("scenario",) if several else ())):
        table.add_column(name, overflow="fold")
    for name in ("before", "after", "outcomes", "collide", "steps/s"):
        table.add_column(name, justify="right", no_wrap=True)
    last = None
    for variant in side.variants:
        table.add_row(
            Text(variant.variant if variant.variant != last else ""),
            *((Text(variant.scenario),) if several else ()),
            *(_cells(variant) if each else _worst(variant)),
        )
        last = variant.variant
    return table


def _cells(variant: SideVariant) -> Sequence[str]:
    def every(words: Callable[[SideRow], str]) -> str:
        return " / ".join(words(row) for row in variant.rows)

    return (
        every(lambda row: _length(row.before_sigma_m)),
        every(lambda row: _length(row.after_sigma_m)),
        every(lambda row: str(row.outcomes)),
        f"{every(lambda row: str(row.collided))} of {variant.rows[0].repeats}",
        every(lambda row: pace_words(row.pace)[0] or _NONE),
    )


def _worst(variant: SideVariant) -> Sequence[str]:
    hit = [row.collided for row in variant.rows]
    paces = [row.pace for row in variant.rows if row.pace is not None]
    slowest = min(paces, key=lambda pace: pace.steps_per_s, default=None)
    return (
        _length(variant.before_sigma_m),
        _length(variant.after_sigma_m),
        str(max(row.outcomes for row in variant.rows)),
        f"{_span(hit)} of {_span([row.repeats for row in variant.rows])}",
        pace_words(slowest)[0] or _NONE,
    )


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _length(value_m: float | None) -> str:
    return _NONE if value_m is None else format_length(value_m)


@dataclass(frozen=True)
class SideLayout:
    """Variants in rows: their labels, and the levels that have a mark of their own; none where there are too many."""

    variants: tuple[SideVariant, ...]
    labels: tuple[str, ...]
    levels: Levels

    @property
    def left_px(self) -> float:
        """Room for the labels."""
        return 14 + _CHAR_PX * max(len(label) for label in self.labels)

    def look(self, row: SideRow) -> tuple[int, dict[str, Any]]:
        """The place of a cell's level and the look of its mark."""
        if not self.levels:
            return 0, {"color": PALETTE[0], "marker": "o"}
        at = self.levels.index(row.where())
        share = at / max(1, len(self.levels) - 1)
        mixed = (round(a + share * (b - a)) for a, b in zip(_LIGHT, _DARK, strict=True))
        return at, {"color": "#" + "".join(f"{part:02x}" for part in mixed), "marker": _MARKERS[at]}


def rows_of(side: SideBySide) -> SideLayout:
    """Lay variants out in rows; a scenario is named where a variant has several."""
    shown = side.variants[:MAX_ROWS]
    labels = tuple(shorten(", ".join(side.names(variant)), _LABEL_LENGTH) for variant in shown)
    levels = tuple(dict.fromkeys(row.where() for variant in shown for row in variant.rows))
    return SideLayout(shown, labels, levels if len(levels) <= MAX_LEVELS else ())


def shared_axis(side: SideBySide, tolerance_m: float) -> LengthAxis:
    """Make one axis for both phases, with a place for exact zeros; what is below ``SMALLEST_M`` is drawn at its end."""
    rows = [row for variant in side.variants for row in variant.rows]
    sizes = [size for row in rows for size in (row.before_sigma_m, row.after_sigma_m) if size is not None]
    return length_axis([tolerance_m, *(max(size, SMALLEST_M) if size else size for size in sizes)])


def sigma_rows(
    rows: SideLayout, heading: str, sigma: Callable[[SideRow], float | None], axis: LengthAxis, tolerance_m: float
) -> str:
    """Draw max sigma of every cell, a row per variant; the line of a row goes through its levels in their order."""
    named = rows.levels if len(rows.levels) > 1 else ()
    foot_px, head_px = 30.0 + 18.5 * ((len(named) + 2) // 2), 28.0
    height_px = head_px + foot_px + _ROW_PX * len(rows.variants)

    def paint(figure: "Figure") -> None:
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
            example = next(row for variant in rows.variants for row in variant.rows if row.where() == level)
            axes.plot([], [], linestyle="none", markersize=6, label=shorten(level, 26), **rows.look(example)[1])
        limit = float(axis.place(tolerance_m))
        axes.axvline(limit, color=INK, linestyle=_DASHED, linewidth=1.2, label=f"tolerance {length(tolerance_m)}")
        axis.apply(axes, WIDTH_PX - rows.left_px - _RIGHT_PX, vertical=False)
        _set_rows(axes, rows, heading)
        figure.legend(loc="lower left", bbox_to_anchor=(24 / WIDTH_PX, 2 / height_px), ncols=2)

    widest = max((value for variant in rows.variants for row in variant.rows if (value := sigma(row)) is not None), default=0.0)
    label = f"Max sigma {heading} of {len(rows.variants)} variants side by side; largest {length(widest)}"
    return draw("side-sigma", heading, label, height_px, paint)


def collision_strip(rows: SideLayout) -> str:
    """Draw in how many repeats of every cell there is a collision; a frame marks those whose repeats come to different ends."""
    columns, what = _columns(rows)
    foot_px, head_px = 8.0, 52.0
    height_px = head_px + foot_px + _ROW_PX * len(rows.variants)

    def paint(figure: "Figure") -> None:
        from matplotlib.patches import Rectangle

        axes = _add_axes(figure, rows, height_px, foot_px, head_px)
        for place, variant in enumerate(rows.variants):
            boxes: dict[int, list[SideRow]] = {}
            for row in variant.rows:
                boxes.setdefault(rows.look(row)[0], []).append(row)
            for x, members in boxes.items():
                row = min(members, key=lambda row: (not row.flips, row.collided / row.repeats))
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
        axes.set_xticks(np.arange(len(columns)) + 0.5, [shorten(column, 16) for column in columns] if any(columns) else [""])
        axes.tick_params(axis="x", length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        _set_rows(axes, rows, f"repeats that collide{what}", above_px=34)

    flipping = sum(variant.flips for variant in rows.variants)
    label = (
        f"Repeats with a collision, {len(rows.variants)} variants side by side; the test's verdict flips in {flipping} of them"
    )
    return draw("side-collisions", "", label, height_px, paint)


def _columns(rows: SideLayout) -> tuple[tuple[str, ...], str]:
    """Name the levels; one factor that all are of is named in the heading."""
    levels = dict.fromkeys(row.levels for variant in rows.variants for row in variant.rows)
    names = {name for level in levels for name, _ in level}
    if rows.levels and len(names) == 1 and all(len(level) == 1 for level in levels):
        (name,) = names
        return tuple(level_words(name, level[0][1]) for level in levels), f", by {title(name)}"
    return rows.levels or ("worst cell",), ""


def _add_axes(figure: "Figure", rows: SideLayout, height_px: float, foot_px: float, head_px: float) -> "Axes":
    width = (WIDTH_PX - rows.left_px - _RIGHT_PX) / WIDTH_PX
    return figure.add_axes((rows.left_px / WIDTH_PX, foot_px / height_px, width, (height_px - foot_px - head_px) / height_px))


def _set_rows(axes: "Axes", rows: SideLayout, heading: str, above_px: float = 10) -> None:
    axes.set_yticks(np.arange(len(rows.labels)), rows.labels)
    axes.set_ylim(len(rows.labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    start = (24 - rows.left_px, above_px)
    axes.annotate(heading, (0, 1), start, "axes fraction", "offset points", fontweight="bold", va="bottom")
    last = None
    for place, variant in enumerate(rows.variants):
        if last not in (None, variant.simulator):
            axes.axhline(place - 0.5, color=FAINT, linewidth=1.0, zorder=0)
        last = variant.simulator


def _offset(level: int, levels: int) -> float:
    """Where in its row a level stands: each a little lower than the one before, so that equal values do not hide each other."""
    return 0.0 if levels < 2 else 0.26 * (2 * level / (levels - 1) - 1)
