"""The picture that a report begins with: the roads, every path that was taken, and where the first of them part.

It is drawn of the cell that decides the verdict. Roads are there where the simulator's map is ours to know; elsewhere the paths
lie on a plain sheet. Of paths that no pixel tells apart one is drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.report.svg import INK, WIDTH_PX, ActorStyle, actor_styles, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

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
