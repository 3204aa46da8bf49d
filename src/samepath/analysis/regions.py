"""The largest box without a failing point: the search behind domains of permissible variance.

A point has one level on every axis. A box admits some levels of each axis, in one of three shapes: from the lowest level up to
a limit, a run of neighbouring levels, or any set. A box without failing points leaves each of them out by one of its levels;
so the whole space is cut at one failing point after the other, best box first, and the largest clean box is reached without
trying them all.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_BOXES: Final = 20_000

Box = tuple[int, ...]  # for every axis a bit per admitted level


class Shape(StrEnum):
    """Which sets of levels may be admitted on an axis."""

    UP_TO = "up to"
    RANGE = "range"
    SET = "set"


@dataclass(frozen=True)
class Axis:
    """``count`` levels, numbered from 0 in their order, and the shape that limits on them may have."""

    count: int
    shape: Shape


@dataclass(frozen=True)
class Point:
    """One measurement: a level on every axis, what it counts for, and whether the tolerance holds there."""

    levels: tuple[int, ...]
    weight: int
    passes: bool


@dataclass(frozen=True)
class Region:
    """The box found: levels admitted on each axis, and the weight of the points within. Not ``complete``: cut short."""

    admitted: tuple[tuple[int, ...], ...]
    weight: int
    complete: bool

    def admits(self, levels: Sequence[int]) -> bool:
        """Is a point in the box?"""
        return all(level in axis for level, axis in zip(levels, self.admitted, strict=True))

    @property
    def rank(self) -> tuple[int, int, int]:
        """Weight, levels of the first axis, levels of all axes: more is better."""
        return self.weight, len(self.admitted[0]), sum(len(axis) for axis in self.admitted)


def largest_region(axes: Sequence[Axis], points: Sequence[Point], max_boxes: int = MAX_BOXES) -> Region | None:
    """Find the box without failing points that holds the most weight; None where there is none.

    Ties go to the box with more levels on the first axis, then to the one with more levels in all, then to the first in the
    order of their levels. After ``max_boxes`` boxes the search ends with a box that cannot be widened, and the region says so.
    """
    space = _Space(axes, points)
    whole: Box = tuple((1 << axis.count) - 1 for axis in axes)
    waiting, seen = [space.ranked(whole)], {whole}
    for _ in range(max_boxes):
        if not waiting:
            return None
        # What is cut out of a box has neither more weight nor more levels: the first clean box is the best.
        rank = heapq.heappop(waiting)
        if rank[0] == 0:
            return None
        box = rank[-1]
        failing = space.first_failing(box)
        if failing is None:
            return space.region(box, complete=True)
        for part in space.without(box, failing):
            if part not in seen:
                seen.add(part)
                heapq.heappush(waiting, space.ranked(part))
    around = [space.grow(point) for point in points if point.passes]
    grown = [space.ranked(one) for one in around if one is not None]
    return space.region(min(grown)[-1], complete=False) if grown else None


class _Space:
    """Points as bits of whole numbers, so that a box's points are found by a few and-operations."""

    def __init__(self, axes: Sequence[Axis], points: Sequence[Point]) -> None:
        self._axes = axes
        self._points = points
        self._at = [[0] * axis.count for axis in axes]
        self._failing = 0
        self._passing: dict[int, int] = {}
        for index, point in enumerate(points):
            for axis, level in enumerate(point.levels):
                self._at[axis][level] |= 1 << index
            if point.passes:
                self._passing[point.weight] = self._passing.get(point.weight, 0) | 1 << index
            else:
                self._failing |= 1 << index

    def ranked(self, box: Box) -> tuple[int, int, int, Box]:
        """Order boxes, best first."""
        inside = self._inside(box)
        weight = sum(weight * (inside & members).bit_count() for weight, members in self._passing.items())
        levels = [axis.bit_count() for axis in box]
        return -weight, -levels[0], -sum(levels), box

    def first_failing(self, box: Box) -> Point | None:
        """Return the first failing point in the box."""
        failing = self._inside(box) & self._failing
        return self._points[(failing & -failing).bit_length() - 1] if failing else None

    def without(self, box: Box, point: Point) -> list[Box]:
        """Return the largest boxes within ``box`` that leave the point out, one or two for each axis."""
        parts = []
        for index, (axis, level) in enumerate(zip(self._axes, point.levels, strict=True)):
            below, above = (1 << level) - 1, -1 << (level + 1)
            kept = {Shape.UP_TO: (below,), Shape.RANGE: (below, above), Shape.SET: (below | above,)}[axis.shape]
            parts += [(*box[:index], box[index] & mask, *box[index + 1 :]) for mask in kept if box[index] & mask]
        return parts

    def grow(self, point: Point) -> Box | None:
        """Widen the smallest box around a point, level by level, until every step would take in a failing point."""
        box: Box = tuple(
            (2 << level) - 1 if axis.shape is Shape.UP_TO else 1 << level
            for axis, level in zip(self._axes, point.levels, strict=True)
        )
        if self.first_failing(box) is not None:
            return None
        steps = [(index, level) for index, axis in enumerate(self._axes) for level in range(axis.count)]
        widened = True
        while widened:
            widened = False
            for index, level in steps:
                neighbour = (box[index] << 1 | box[index] >> 1) >> level & 1 or self._axes[index].shape is Shape.SET
                wider = (*box[:index], box[index] | 1 << level, *box[index + 1 :])
                if neighbour and wider != box and self.first_failing(wider) is None:
                    box, widened = wider, True
        return box

    def region(self, box: Box, *, complete: bool) -> Region:
        """Spell a box out."""
        admitted = tuple(tuple(level for level in range(axis.bit_length()) if axis >> level & 1) for axis in box)
        return Region(admitted, -self.ranked(box)[0], complete)

    def _inside(self, box: Box) -> int:
        inside = -1
        for members, axis in zip(self._at, box, strict=True):
            found = 0
            for level, here in enumerate(members):
                if axis >> level & 1:
                    found |= here
            inside &= found
        return inside
