"""Paths in plan view: those of a cell, and the picture that a report begins with.

:func:`paths` has a zoom to where they lie farthest apart (the paper's Fig. 4). A report begins with the roads, every path that
was taken, and where the first of them part. That is drawn of the cell that decides the verdict. Roads are there where the
simulator's map is ours to know; elsewhere the paths lie on a plain sheet. Of paths that no pixel tells apart one is drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.report.svg import INK, MUTED, OTHERS_COLOUR, WIDTH_PX, ActorStyle, actor_styles, draw, others_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_LEFT_PX: Final = 64.0
_RIGHT_PX: Final = 14.0
_ZOOM_PX: Final = 186.0
_MAX_HEIGHT_PX: Final = 330.0
_LABELS_PX: Final = 52.0
_LEGEND_ROW_PX: Final = 18.5
_DASHED: Final = (0, (3, 4))
_ON_WHITE: Final = {"facecolor": "white", "edgecolor": "none", "pad": 1}
_UNITS: Final = (("m", 1.0), ("cm", 1e-2), ("mm", 1e-3), ("µm", 1e-6), ("nm", 1e-9))


@dataclass(frozen=True)
class Zoom:
    """The tick and actor whose positions spread most in the plane, and half the width of a window that shows it."""

    tick_index: int
    actor_index: int
    centre: Floats
    half_m: float


@dataclass(frozen=True)
class _Box:
    """A rectangle of the canvas in pixels, from the upper left."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class _Layout:
    height_px: float
    main: _Box
    zoom: _Box | None
    legend: tuple[float, float]
    beside: bool = False

    def share(self, box: _Box) -> tuple[float, float, float, float]:
        """Turn pixels into matplotlib's shares of the figure, counted from the lower left."""
        bottom = self.height_px - box.top - box.height
        return box.left / WIDTH_PX, bottom / self.height_px, box.width / WIDTH_PX, box.height / self.height_px


def paths(cell: CellAnalysis) -> str:
    """Draw the outcomes' paths in plan view, their mean, start, end and collisions, with a zoom to the largest spread."""
    styles, zoom = actor_styles(cell), find_zoom(cell)
    middle, half = _extent(cell)
    rows = sum(style.named for style in styles) + bool(others_label(styles)) + bool(cell.boundary.actor_first_tick) + 3
    layout = _arrange(float(half[0] / half[1]), rows, zoomed=zoom is not None)

    def paint(figure: "Figure") -> None:
        axes = figure.add_axes(layout.share(layout.main))
        _frame(axes, middle, half, layout.main)
        for style in sorted(styles, key=lambda style: style.named):
            _draw_actor(axes, cell, style, float(half.max()) / WIDTH_PX)
        _draw_marks(axes, cell, styles)
        axes.set_xlabel("x, forward (m)", bbox=_ON_WHITE)
        axes.set_ylabel("y, right, drawn downwards (m)" if layout.main.height > 180 else "y ↓ (m)")
        axes.grid(visible=True)
        axes.locator_params(axis="x", nbins=7)
        for label in axes.get_xticklabels():
            label.set_bbox(_ON_WHITE)
        axes.locator_params(axis="y", nbins=max(2, min(7, int(layout.main.height / 35))))
        left, top = layout.legend
        corner = (left / WIDTH_PX, 1 - top / layout.height_px)
        figure.legend(loc="upper left", bbox_to_anchor=corner, ncols=1 if zoom else 2)
        if zoom is not None and layout.zoom is not None:
            inset = figure.add_axes(layout.share(layout.zoom))
            _draw_zoom(inset, cell, styles[zoom.actor_index], zoom)
            _connect(figure, axes, inset, zoom, beside=layout.beside)

    return draw(
        "paths",
        cell.header.cell,
        f"Paths of the actors of cell {cell.header.cell} in plan view",
        layout.height_px,
        paint,
    )


def find_zoom(cell: CellAnalysis) -> Zoom | None:
    """Find the window that makes the largest spread in the plane visible; None where nothing spreads."""
    x, y = cell.spread.channels["x_m"], cell.spread.channels["y_m"]
    sigma = np.fmax(x.sigma, y.sigma)
    sigma = np.where(np.isfinite(sigma), sigma, -1.0)
    at = int(np.argmax(sigma))
    if sigma[at] <= 0:
        return None
    tick, actor = divmod(at, len(cell.spread.actor_ids))
    centre = np.array([x.mean[at], y.mean[at]])
    offsets = np.abs(np.array([path[tick, actor] for path in cell.paths.values()]) - centre)
    farthest = float(np.max(offsets, initial=0.0, where=np.isfinite(offsets)))
    return Zoom(tick, actor, centre, 1.5 * max(farthest, float(sigma[at])))


def _extent(cell: CellAnalysis) -> tuple[Floats, Floats]:
    """Middle and half size, per axis, of everything drawn: never empty, and never thinner than 1 to 5."""
    points = np.concatenate([path.reshape(-1, 2) for path in cell.paths.values()])
    points = points[np.isfinite(points).all(axis=1)]
    if not points.size:
        return np.zeros(2), np.ones(2)
    low, high = points.min(axis=0), points.max(axis=0)
    half = 0.54 * (high - low)
    return (low + high) / 2, np.maximum(half, 0.2 * float(half.max()) or 1.0)


def _arrange(aspect: float, legend_rows: int, *, zoomed: bool) -> _Layout:
    """Put wide paths above legend and zoom, and tall ones beside them."""
    if aspect < 0.6:
        main = _Box(_LEFT_PX, 8, 150, _MAX_HEIGHT_PX)
        height_px = main.height + 8 + _LABELS_PX
        left = main.left + main.width + 68
        zoom = _Box(left, 26, WIDTH_PX - _RIGHT_PX - left, WIDTH_PX - _RIGHT_PX - left)
        legend_px = zoom.top + zoom.height + _LABELS_PX if zoomed else 8.0
        height_px = max(height_px, legend_px + _LEGEND_ROW_PX * legend_rows)
        return _Layout(height_px, main, zoom if zoomed else None, (left - 50, legend_px), beside=True)
    width = WIDTH_PX - _LEFT_PX - _RIGHT_PX
    height = min(width / aspect, _MAX_HEIGHT_PX)
    main = _Box(_LEFT_PX, 8, width, height)
    below = main.top + main.height + _LABELS_PX
    if not zoomed:
        return _Layout(below + _LEGEND_ROW_PX * math.ceil(legend_rows / 2), main, None, (_LEFT_PX, below))
    zoom = _Box(WIDTH_PX - _RIGHT_PX - _ZOOM_PX, below + 14, _ZOOM_PX, _ZOOM_PX)
    height_px = zoom.top + max(_ZOOM_PX + _LABELS_PX, _LEGEND_ROW_PX * legend_rows + 4)
    return _Layout(height_px, main, zoom, (6, zoom.top))


def _frame(axes: "Axes", middle: Floats, half: Floats, box: _Box) -> None:
    """Set limits of equal scale on both axes, y downwards: the frame is left-handed."""
    scale = max(half[0] / box.width, half[1] / box.height)
    axes.set_xlim(middle[0] - scale * box.width, middle[0] + scale * box.width)
    axes.set_ylim(middle[1] + scale * box.height, middle[1] - scale * box.height)


def _draw_actor(axes: "Axes", cell: CellAnalysis, style: ActorStyle, pixel_m: float) -> None:
    """Draw an actor's paths; of those that no pixel tells apart only one, or large studies would make large files."""
    unlike = {np.rint(path[:, style.index] / pixel_m).tobytes(): path[:, style.index] for path in cell.paths.values()}
    for xy in unlike.values():
        axes.plot(xy[:, 0], xy[:, 1], color=style.colour, linewidth=1.5, alpha=0.6)
    mean = _mean_path(cell, style.index)
    axes.plot(mean[:, 0], mean[:, 1], color=INK, linewidth=0.8, linestyle=_DASHED)
    there = np.flatnonzero(np.isfinite(mean[:, 0]))
    if there.size:
        axes.plot(*mean[there[0]], "o", color=style.colour, markerfacecolor="white", markersize=6.5, zorder=4)
        axes.plot(*mean[there[-1]], "s", color=style.colour, markersize=5, zorder=4)


def _draw_marks(axes: "Axes", cell: CellAnalysis, styles: tuple[ActorStyle, ...]) -> None:
    """Mark each actor's own first collision on its mean path, and fill the legend."""
    for style in styles:
        if style.named:
            axes.plot([], [], color=style.colour, label=style.label)
    if others_label(styles):
        axes.plot([], [], color=OTHERS_COLOUR, label=others_label(styles))
    axes.plot([], [], color=INK, linestyle=_DASHED, linewidth=1.0, label="mean path")
    axes.plot([], [], "o", color=INK, markerfacecolor="white", markersize=6.5, label="start")
    axes.plot([], [], "s", color=INK, markersize=5, label="end")
    name: str | None = f"first {cell.boundary.split.name} in any repeat"
    ids = cell.spread.actor_ids.tolist()
    for actor_id, tick in cell.boundary.actor_first_tick.items():
        mean = _mean_path(cell, ids.index(actor_id))
        there = np.flatnonzero(np.isfinite(mean[:, 0]) & (cell.spread.ticks <= tick))
        at = mean[there[-1]] if there.size else (math.nan, math.nan)
        axes.plot([at[0]], [at[1]], "X", color=INK, markeredgecolor="white", markersize=9, zorder=5, linestyle="", label=name)
        name = None


def _draw_zoom(axes: "Axes", cell: CellAnalysis, style: ActorStyle, zoom: Zoom) -> None:
    """Draw one actor's paths as offsets from their mean position: absolute numbers have no digits left for a tiny spread."""
    unit, factor = _unit(zoom.half_m)
    sizes = {outcome.repeats[0]: len(outcome.repeats) for outcome in cell.outcomes}
    drawn = {repeat: (path[:, style.index] - zoom.centre) / factor for repeat, path in cell.paths.items()}
    reach = zoom.half_m / factor
    for offsets in drawn.values():
        near = _near(offsets, reach)
        axes.plot(offsets[near, 0], offsets[near, 1], color=style.colour, linewidth=1.1, alpha=0.55)
    mean = (_mean_path(cell, style.index) - zoom.centre) / factor
    near = _near(mean, reach)
    axes.plot(mean[near, 0], mean[near, 1], color=INK, linewidth=1.0, linestyle=_DASHED)
    for repeat, offsets in drawn.items():
        size = 4 + 7 * math.sqrt(sizes[repeat] / cell.repeats)
        at = offsets[zoom.tick_index]
        axes.plot([at[0]], [at[1]], "o", color=style.colour, markeredgecolor="white", markeredgewidth=0.5, markersize=size)
    axes.plot([0], [0], "+", color=INK, markersize=9)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(reach, -reach)
    axes.locator_params(nbins=5)
    axes.set_xlabel(f"x from the mean ({unit})")
    axes.set_ylabel(f"y ({unit})", bbox=_ON_WHITE)
    axes.grid(visible=True)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(MUTED)
    actor, time_s = cell.spread.actor_ids[style.index], cell.spread.ticks[zoom.tick_index] * cell.header.step_s
    axes.set_title(f"actor {actor} at {time_s:g} s", fontsize=11.5, pad=7, bbox=_ON_WHITE)


def _near(offsets: Floats, reach: float) -> slice:
    """The ticks that cross the window, and one more on either side; far points would only cost digits."""
    inside = np.flatnonzero(np.nanmax(np.abs(np.nan_to_num(offsets, nan=math.inf)), axis=1) <= 1.5 * reach)
    return slice(max(int(inside[0]) - 1, 0), int(inside[-1]) + 2) if inside.size else slice(0, 0)


def _connect(figure: "Figure", axes: "Axes", inset: "Axes", zoom: Zoom, *, beside: bool) -> None:
    """Frame the window in the whole picture, large enough to be seen, and tie it to the zoom."""
    from matplotlib.patches import ConnectionPatch, Rectangle

    low, high = axes.get_xlim()
    seen_px = 6.0
    half = max(zoom.half_m, seen_px * (high - low) / (axes.get_position().width * WIDTH_PX))
    x, y = zoom.centre
    axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, edgecolor=INK, linewidth=1.1, zorder=6))
    corners = [((x + half, y - half), (0, 1)), ((x + half, y + half), (0, 0))]
    if not beside:
        corners = [((x - half, y + half), (0, 1)), ((x + half, y + half), (1, 1))]
    for start, end in corners:
        line = ConnectionPatch(start, end, "data", "axes fraction", axesA=axes, axesB=inset, color=OTHERS_COLOUR, linewidth=0.8)
        line.set_zorder(-1)
        figure.add_artist(line)


def _mean_path(cell: CellAnalysis, index: int) -> Floats:
    means = [cell.spread.channels[axis].mean.reshape(cell.spread.shape)[:, index] for axis in ("x_m", "y_m")]
    return np.stack(means, axis=-1)


def _unit(half_m: float) -> tuple[str, float]:
    """A unit in which numbers of this size are short."""
    for name, factor in _UNITS:
        if half_m >= factor:
            return name, factor
    power = 3 * math.floor(math.log10(half_m) / 3)
    return f"1e{power} m", 10.0**power


_ROAD: Final = "#e3e6ea"
_HEIGHT_PX: Final = 236.0
_LEAST_M: Final = 12.0
_BAR_PX: Final = 90.0
# So far from the paths roads are drawn at all: a map is a town, the picture a junction.
_MARGIN: Final = 0.12
# Rings nearer to each other than this share of the picture are one, and their words would lie over each other.
_APART_SHARE: Final = 0.12


def opening(cell: CellAnalysis, rings: Sequence[Floats] = ()) -> str:
    """Draw what happened; ``rings`` are the outlines of the roads, x and y in metres."""
    styles, (middle, half) = actor_styles(cell), _window(cell)
    pixel_m = 2 * float(half[0]) / WIDTH_PX

    def paint(figure: "Figure") -> None:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
        axes.set_ylim(middle[1] + half[1], middle[1] - half[1])  # y to the right, seen from above: downwards
        _roads(axes, rings, middle, half)
        for style in sorted(styles, key=lambda style: style.named):
            _paths(axes, cell, style, pixel_m)
        _partings(axes, cell, styles, middle, half)
        _bar(axes, middle, half, pixel_m)

    return draw("opening", cell.header.cell, f"From above: all paths of {cell.header.cell}", _HEIGHT_PX, paint)


def _window(cell: CellAnalysis) -> tuple[Floats, Floats]:
    """Middle and half size of what is shown, with the shape of the picture."""
    points = np.concatenate([path.reshape(-1, 2) for path in cell.paths.values()])
    points = points[np.isfinite(points).all(axis=1)]
    if not points.size:
        return np.zeros(2), np.array([_LEAST_M, _LEAST_M * _HEIGHT_PX / WIDTH_PX])
    low, high = points.min(axis=0), points.max(axis=0)
    half = np.maximum((0.5 + _MARGIN) * (high - low), _LEAST_M / 2)
    scale = max(float(half[0]) / WIDTH_PX, float(half[1]) / _HEIGHT_PX)
    return (low + high) / 2, np.array([WIDTH_PX, _HEIGHT_PX]) * scale


def _roads(axes: "Axes", rings: Sequence[Floats], middle: Floats, half: Floats) -> None:
    from matplotlib.collections import PolyCollection

    near = [ring for ring in rings if np.all(ring.max(axis=0) > middle - half) and np.all(ring.min(axis=0) < middle + half)]
    if near:
        axes.add_collection(PolyCollection(near, facecolors=_ROAD, edgecolors=_ROAD, linewidths=0.6, zorder=0))


def _paths(axes: "Axes", cell: CellAnalysis, style: ActorStyle, pixel_m: float) -> None:
    unlike = {np.rint(path[:, style.index] / pixel_m).tobytes(): path[:, style.index] for path in cell.paths.values()}
    for xy in unlike.values():
        axes.plot(xy[:, 0], xy[:, 1], color=style.colour, linewidth=1.1, alpha=0.65 if len(unlike) > 1 else 0.95, zorder=2)
    first = next(iter(unlike.values()))
    there = np.flatnonzero(np.isfinite(first[:, 0]))
    if there.size:
        start = first[there[0]]
        axes.plot(*start, "o", color=style.colour, markerfacecolor="white", markersize=4.5, zorder=3)
        if style.named:
            axes.annotate(style.label, start, (6, 6), textcoords="offset points", color=INK, fontsize=7.5, zorder=5)


def _partings(axes: "Axes", cell: CellAnalysis, styles: Sequence[ActorStyle], middle: Floats, half: Floats) -> None:
    """Ring the place where the first two repeats part, to the bit, and the one where it is first more than is tolerated."""
    first = cell.first_divergence
    ids = cell.spread.actor_ids.tolist()
    if first is None or first.actor not in ids:
        return
    path = cell.paths.get(first.reference_repeat)
    if path is None:
        return
    at = path[min(int(np.searchsorted(cell.spread.ticks, first.tick)), len(path) - 1), styles[ids.index(first.actor)].index]
    if np.isfinite(at).all():
        _ring(axes, at, f"they part at {first.time_s:.2f} s", middle, half)
    seen = _where_seen(cell)
    if seen is None:
        return
    row, actor = seen
    there = path[min(row, len(path) - 1), styles[actor].index]
    if np.isfinite(there).all() and not bool(np.all(np.abs(there - at) < _APART_SHARE * half)):
        words = f"{format_length(cell.options.tolerance_m)} off at {_time_s(cell, row):.2f} s"
        _ring(axes, there, words, middle, half, second=True)


def seen_at_s(cell: CellAnalysis) -> float | None:
    """Return when somebody is first farther from the mean path than the tolerance; None: nobody is."""
    seen = _where_seen(cell)
    return None if seen is None else _time_s(cell, seen[0])


def _where_seen(cell: CellAnalysis) -> tuple[int, int] | None:
    """Return the first row of ticks, and the column of the actor, that is farther from its mean than the tolerance."""
    deviation = np.nan_to_num(cell.spread.worst_axis("max_deviation").reshape(cell.spread.shape), nan=0.0)
    rows = np.flatnonzero((deviation > cell.options.tolerance_m).any(axis=1))
    return (int(rows[0]), int(np.argmax(deviation[rows[0]]))) if rows.size else None


def _time_s(cell: CellAnalysis, row: int) -> float:
    first = cell.first_divergence
    tick = int(cell.spread.ticks[row])
    return tick * cell.header.step_s if first is None else first.time_s + (tick - first.tick) * cell.header.step_s


def _ring(axes: "Axes", at: Floats, words: str, middle: Floats, half: Floats, *, second: bool = False) -> None:
    axes.plot(*at, "o", color=INK, markerfacecolor="none", markersize=13, markeredgewidth=1.1, zorder=4)
    # Away from the names, which stand to the right of where actors begin, and the second on the other side of the first.
    left = bool(at[0] > middle[0]) != (second and bool(abs(at[0] - middle[0]) < 0.5 * half[0]))
    up = bool(at[1] > middle[1] - 0.4 * half[1])
    axes.annotate(
        words,
        (float(at[0]), float(at[1])),
        xytext=(-11, -3) if left else (11, -3) if second else (10, 20 if up else -22),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=8.5,
        fontweight="bold",
        color=INK,
        zorder=5,
    )


def _bar(axes: "Axes", middle: Floats, half: Floats, pixel_m: float) -> None:
    room_m = _BAR_PX * pixel_m
    power = 10.0 ** np.floor(np.log10(room_m))
    length_m = next(factor * power for factor in (5.0, 2.0, 1.0) if factor * power <= room_m)
    x, y = middle[0] + half[0] - 14 * pixel_m - length_m, middle[1] + half[1] - 12 * pixel_m
    axes.plot([x, x + length_m], [y, y], color=INK, linewidth=1.4, solid_capstyle="butt", zorder=5)
    axes.text(x + length_m / 2, y - 4 * pixel_m, f"{length_m:g} m", ha="center", va="bottom", fontsize=7.5, zorder=5)
