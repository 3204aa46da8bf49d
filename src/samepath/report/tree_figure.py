"""The outcome tree: how repeats part from each other over time."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.divergence import TREE_OUTCOMES
from samepath.analysis.outcomes import Branch
from samepath.report.svg import INK, MUTED, PALETTE, WIDTH_PX, draw
from samepath.report.words import count

_ROW_PX: Final = 26.0
_NARROW_ROW_PX: Final = 19.0
_CHAR_PX: Final = 7.4


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
    height_px = 64 + (_ROW_PX if rows <= 8 else _NARROW_ROW_PX) * rows
    right_px = 18 + _CHAR_PX * max(len(stem.label) for stem in stems)

    def paint(figure: Any) -> None:  # noqa: ANN401 - matplotlib's own object
        width = (WIDTH_PX - 16 - right_px) / WIDTH_PX
        axes = figure.add_axes((16 / WIDTH_PX, 52 / height_px, width, (height_px - 58) / height_px))
        step_s = cell.header.step_s
        for stem in sorted(stems, key=lambda one: -one.repeats):
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


def _grow(cell: CellAnalysis, branch: Branch, start: int, row: int, parent_row: int, stems: list[_Stem]) -> int:
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


def _end(cell: CellAnalysis, branch: Branch) -> int:
    """The last tick at which a leaf's run has any actor; the cell's last where its path was not kept."""
    path = cell.paths.get(cell.outcomes[branch.outcomes[0]].repeats[0])
    if path is None or len(branch.outcomes) > 1:
        return int(cell.spread.ticks[-1])
    there = np.flatnonzero(np.isfinite(path[:, :, 0]).any(axis=1))
    return int(cell.spread.ticks[there[-1] if there.size else -1])


def _draw_stem(axes: Any, stem: _Stem, last_s: float, step_s: float, width: float) -> None:  # noqa: ANN401
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
