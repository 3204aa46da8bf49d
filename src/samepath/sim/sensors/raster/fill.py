"""Filling one triangle, row by row: the inner loops of the rasteriser.

A pixel belongs to a triangle when its middle lies inside; a middle on an edge belongs to the triangle to its right or below,
so that neighbours never share a pixel and never leave one out. Where an edge meets a row is worked out from its upper to its
lower end in float64, whichever triangle asks: neighbours get the same bits. 1/z is linear on the screen.
"""

from typing import NamedTuple

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, I32, ROW_MASK, SHADOW, U8, Number
from samepath.sim.sensors.raster.compiled import compiled

# A shadow is taken by a surface whose 1/z differs by no more than this part: kerbs are higher than roads.
_NEAR_ENOUGH = np.float32(0.3)


class Spans(NamedTuple):
    """A triangle as rows: its upper corner a and middle corner b, the slopes of its edges, and 1/z as a plane."""

    top: int
    bottom: int
    ax: float
    ay: float
    bx: float
    by: float
    long_slope: float
    upper_slope: float
    lower_slope: float
    long_is_left: bool
    origin: float
    by_x: float
    by_y: float


@compiled
def first_middle(edge: Number, limit: Number) -> Number:
    """The first pixel whose middle is at or beyond ``edge``, within 0..limit; 0 for what is no number."""
    at = np.ceil(edge - 0.5)
    if not at > 0.0:
        return 0
    if at >= limit:
        return limit
    return np.int64(at)


@compiled
def spans_of(
    width: Number,
    height: Number,
    ax: Number,
    ay: Number,
    aw: Number,
    bx: Number,
    by: Number,
    bw: Number,
    cx: Number,
    cy: Number,
    cw: Number,
) -> Spans:
    """Set a triangle up; no rows where it covers no pixel, faces away or has no area. Corners are column, row, 1/z."""
    top, bottom = first_middle(min(ay, by, cy), height), first_middle(max(ay, by, cy), height)
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    if top >= bottom or not area > 0.0 or first_middle(min(ax, bx, cx), width) >= first_middle(max(ax, bx, cx), width):
        return Spans(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, 0.0, 0.0, 0.0)
    gain = 1.0 / area
    by_x = ((bw - aw) * (cy - ay) - (cw - aw) * (by - ay)) * gain
    by_y = ((cw - aw) * (bx - ax) - (bw - aw) * (cx - ax)) * gain
    origin = aw + by_x * (0.5 - ax) + by_y * (0.5 - ay)
    if by < ay:
        ax, ay, bx, by = bx, by, ax, ay
    if cy < by:
        bx, by, cx, cy = cx, cy, bx, by
        if by < ay:
            ax, ay, bx, by = bx, by, ax, ay
    long_slope = (cx - ax) / (cy - ay)
    left = ax + (by - ay) * long_slope < bx
    upper_slope, lower_slope = (bx - ax) / (by - ay), (cx - bx) / (cy - by)
    return Spans(top, bottom, ax, ay, bx, by, long_slope, upper_slope, lower_slope, left, origin, by_x, by_y)


@compiled
def span(s: Spans, row: Number, width: Number) -> Number:
    """The pixels of a row: first, and first beyond."""
    y = row + 0.5
    long_x = s.ax + (y - s.ay) * s.long_slope
    short_x = s.ax + (y - s.ay) * s.upper_slope if y < s.by else s.bx + (y - s.by) * s.lower_slope
    left, right = (long_x, short_x) if s.long_is_left else (short_x, long_x)
    return first_middle(left, width), first_middle(right, width)


@compiled
def fill(
    depth: F32, ids: I32, width: Number, height: Number,
    ax: Number, ay: Number, aw: Number, bx: Number, by: Number, bw: Number, cx: Number, cy: Number, cw: Number, face: Number,
) -> None:  # fmt: skip
    """Write ``face`` and 1/z wherever the triangle is nearer than what is there."""
    s = spans_of(width, height, ax, ay, aw, bx, by, bw, cx, cy, cw)
    step, mark = np.float32(s.by_x), np.int32(face)
    for row in range(s.top, s.bottom):
        start, end = span(s, row, width)
        if start >= end:
            continue
        near = np.float32(s.origin + s.by_x * start + s.by_y * row)
        at = np.uint64(row * width + start)
        for k in range(np.uint64(end - start)):
            w = near + step * np.float32(np.int32(k))
            seen = depth[at + k]
            depth[at + k] = w if w > seen else seen
            ids[at + k] = mark if w > seen else ids[at + k]


@compiled
def darken(
    depth: F32, ids: I32, materials: U8, flat_from: Number, width: Number, height: Number,
    ax: Number, ay: Number, aw: Number, bx: Number, by: Number, bw: Number, cx: Number, cy: Number, cw: Number,
) -> None:  # fmt: skip
    """Mark the flat surfaces under a triangle on the ground as lying in shadow."""
    s = spans_of(width, height, ax, ay, aw, bx, by, bw, cx, cy, cw)
    step = np.float32(s.by_x)
    for row in range(s.top, s.bottom):
        start, end = span(s, row, width)
        near = np.float32(s.origin + s.by_x * start + s.by_y * row)
        first = np.uint64(row * width + start)
        for k in range(np.uint64(max(end - start, 0))):
            at = first + k
            seen = depth[at]
            off = near + step * np.float32(np.int32(k)) - seen
            was = ids[at]
            if (
                off > _NEAR_ENOUGH * seen
                or -off > _NEAR_ENOUGH * seen
                or seen <= np.float32(0.0)
                or materials[np.uint64(was & ROW_MASK)] < flat_from
            ):
                continue
            ids[at] = was | SHADOW
