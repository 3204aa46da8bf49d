"""The paths in plan view, and a zoom to where they lie farthest apart (the seed paper's Fig. 4)."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.analysis.cell import CellAnalysis
from samepath.base.units import format_length
from samepath.report.actor_styles import OTHERS_COLOUR, ActorStyle, actor_styles, others_label
from samepath.report.svg import INK, MUTED, WIDTH_PX, draw

Floats = NDArray[np.float64]

_ZOOM_PX: Final = 190.0
_ZOOM_UNITS: Final = (("m", 1.0), ("cm", 1e-2), ("mm", 1e-3), ("µm", 1e-6), ("nm", 1e-9), ("pm", 1e-12))
_DASHED: Final = (0, (4, 2))


@dataclass(frozen=True)
class Zoom:
    """The pair of tick and actor whose positions in the plane spread most, and half the width of a window around it."""

    tick_index: int
    actor_index: int
    centre: tuple[float, float]
    half_m: float


@dataclass(frozen=True)
class _Layout:
    """Where things lie on the canvas, in pixels from the upper left: (left, top, width, height)."""

    height_px: float
    main: tuple[float, float, float, float]
    zoom: tuple[float, float, float, float]
    legend: tuple[float, float]

    def box(self, rectangle: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        """Turn pixels into matplotlib's shares of the figure, counted from the lower left."""
        left, top, width, height = rectangle
        bottom = self.height_px - top - height
        return left / WIDTH_PX, bottom / self.height_px, width / WIDTH_PX, height / self.height_px


def find_zoom(cell: CellAnalysis) -> Zoom | None:
    """Find the window that makes the largest spread in the plane visible; None where there is none."""
    x, y = cell.spread.channels["x_m"], cell.spread.channels["y_m"]
    sigma = np.fmax(x.sigma, y.sigma)
    sigma = np.where(np.isfinite(sigma), sigma, -1.0)
    at = int(np.argmax(sigma))
    if sigma[at] <= 0:
        return None
    tick, actor = divmod(at, len(cell.spread.actor_ids))
    centre = float(x.mean[at]), float(y.mean[at])
    there = np.array([path[tick, actor] for path in cell.paths.values()]) - centre
    far = float(np.nanmax(np.abs(there))) if np.isfinite(there).any() else 0.0
    half_m = 1.5 * max(far, 2.0 * float(sigma[at]))
    return Zoom(tick, actor, centre, half_m)


def paths(cell: CellAnalysis) -> str:
    """Draw the outcomes' paths in plan view, their mean, start, end and collisions, with a zoom to the largest spread."""
    styles, zoom = actor_styles(cell), find_zoom(cell)
    limits = _limits(cell)
    layout = _arrange(limits, zoom is not None, _legend_rows(cell, styles))

    def paint(figure: Any) -> None:  # noqa: ANN401 - matplotlib's own object
        axes = figure.add_axes(layout.box(layout.main))
        _set_limits(axes, limits, layout.main)
        for style in sorted(styles, key=lambda one: one.named):
            _draw_actor(axes, cell, style)
        _draw_collisions(axes, cell)
        axes.set_xlabel("x, forward (m)")
        axes.set_ylabel("y, right, down the page (m)" if layout.main[3] > 190 else "y, right ↓ (m)")
        axes.grid(visible=True)
        axes.plot([], [], color=INK, linestyle=_DASHED, linewidth=1.0, label="mean path")
        axes.plot([], [], "o", color=INK, markerfacecolor="white", markersize=6, label="start")
        axes.plot([], [], "s", color=INK, markersize=5, label="end")
        if others_label(styles):
            axes.plot([], [], color=OTHERS_COLOUR, label=others_label(styles))
        left, top = layout.legend
        corner = (left / WIDTH_PX, 1 - top / layout.height_px)
        figure.legend(loc="upper left", bbox_to_anchor=corner, ncols=1 if zoom else 2)
        if zoom is not None:
            _draw_zoom(figure, axes, layout, cell, styles, zoom)

    return draw("paths", cell.header.cell, f"Paths of the actors of cell {cell.header.cell} in plan view", layout.height_px, paint)


def _legend_rows(cell: CellAnalysis, styles: tuple[ActorStyle, ...]) -> int:
    return sum(style.named for style in styles) + bool(others_label(styles)) + bool(cell.boundary.actor_first_tick) + 3


def _limits(cell: CellAnalysis) -> tuple[float, float, float, float]:
    """(left, right, top, bottom) around everything drawn, never thinner than 1:5 and never empty."""
    points = np.concatenate([path.reshape(-1, 2) for path in cell.paths.values()])
    points = points[np.isfinite(points).all(axis=1)]
    if not points.size:
        return -1.0, 1.0, -1.0, 1.0
    low, high = points.min(axis=0), points.max(axis=0)
    size = float((high - low).max()) or 1.0
    half = np.maximum((high - low) / 2 * 1.08, 0.1 * size)
    middle = (high + low) / 2
    return tuple(float(one) for one in (*(middle - half), *(middle + half)))[::1]  # type: ignore[return-value]


def _arrange(limits: tuple[float, float, float, float], zoomed: bool, legend_rows: int) -> _Layout:
    """Put wide paths above the zoom and tall ones beside it."""
    raise NotImplementedError
