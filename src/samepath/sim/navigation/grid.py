"""A grid of walkable cells.

Cells are (column, row): columns run along +x, rows along +y, and cell (0, 0) has its low corner at ``origin_m``. A cell is
walkable where its centre lies in, or on the boundary of, a walkable polygon.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from samepath.base.errors import InputError

Cell = tuple[int, int]
Polygon = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CELL_M: Final = 0.25


@dataclass(frozen=True, eq=False)
class Grid:
    """Which cells can be walked on: ``walkable`` is bool[row, column], read-only."""

    origin_m: tuple[float, float]
    walkable: Flags
    cell_m: float = CELL_M

    def __post_init__(self) -> None:
        flags = np.array(self.walkable, dtype=np.bool_, order="C")
        if flags.ndim != 2 or 0 in flags.shape:
            raise InputError(f"a grid of rows and columns was wanted, but an array of shape {flags.shape} came")
        if not 0.0 < self.cell_m < math.inf:
            raise InputError(f"cells of a positive size were wanted, but {self.cell_m!r} m came")
        flags.setflags(write=False)
        object.__setattr__(self, "walkable", flags)

    @property
    def columns(self) -> int:
        """Number of cells along x."""
        return int(self.walkable.shape[1])

    @property
    def rows(self) -> int:
        """Number of cells along y."""
        return int(self.walkable.shape[0])

    @property
    def stride(self) -> int:
        """Length of a row of :attr:`padded`."""
        return self.columns + 2

    @cached_property
    def padded(self) -> bytes:
        """The flags, row by row, inside a frame of cells that cannot be walked on: searches need no test for the edge."""
        return np.pad(self.walkable, 1).astype(np.uint8).tobytes()

    def index(self, cell: Cell) -> int:
        """Return the place of ``cell`` in :attr:`padded`."""
        return (cell[1] + 1) * self.stride + cell[0] + 1

    def contains(self, cell: Cell) -> bool:
        """Say whether ``cell`` lies on the grid."""
        return 0 <= cell[0] < self.columns and 0 <= cell[1] < self.rows

    def is_walkable(self, cell: Cell) -> bool:
        """Say whether ``cell`` lies on the grid and can be walked on."""
        return self.contains(cell) and bool(self.walkable[cell[1], cell[0]])

    def cell_of(self, x_m: float, y_m: float) -> Cell:
        """Return the cell that holds the point, which may lie off the grid."""
        return math.floor((x_m - self.origin_m[0]) / self.cell_m), math.floor((y_m - self.origin_m[1]) / self.cell_m)

    def centre_of(self, cell: Cell) -> tuple[float, float]:
        """Return the centre of ``cell`` in metres."""
        return self.origin_m[0] + (cell[0] + 0.5) * self.cell_m, self.origin_m[1] + (cell[1] + 0.5) * self.cell_m

    def find_walkable(self, x_m: float, y_m: float, limit_m: float = 1.0) -> Cell | None:
        """Return the point's own cell, or else the walkable one nearest to it within ``limit_m``, or None.

        Distance is counted in whole cells between cells; ties go to the smallest row, then the smallest column.
        """
        if not (math.isfinite(x_m) and math.isfinite(y_m)):
            raise InputError(f"a finite point was wanted, but ({x_m!r}, {y_m!r}) came")
        column, row = self.cell_of(x_m, y_m)
        reach = math.floor(limit_m / self.cell_m)
        best: tuple[int, int, int] | None = None
        for ring in range(reach + 1):
            # A ring's cells are at least `ring` away, so nothing further out can beat what is closer than that.
            if best is not None and best[0] < ring * ring:
                break
            for near_row, near_column in _ring(row, column, ring):
                if not self.is_walkable((near_column, near_row)):
                    continue
                distance = (near_row - row) ** 2 + (near_column - column) ** 2
                candidate = (distance, near_row, near_column)
                if distance <= reach * reach and (best is None or candidate < best):
                    best = candidate
        return None if best is None else (best[2], best[1])

    def nearest_walkable(self, x_m: float, y_m: float, limit_m: float = 1.0) -> Cell:
        """Return what :meth:`find_walkable` finds, and refuse the point where it finds nothing."""
        cell = self.find_walkable(x_m, y_m, limit_m)
        if cell is None:
            raise InputError(
                f"a point within {limit_m:g} m of a walkable cell was wanted, but ({x_m:.2f}, {y_m:.2f}) m came: "
                "move it or widen the limit"
            )
        return cell

    def cells_within(self, x_m: float, y_m: float, radius_m: float) -> frozenset[Cell]:
        """Return the cells whose centres are within ``radius_m`` of the point."""
        reach = math.floor(radius_m / self.cell_m) + 1
        column, row = self.cell_of(x_m, y_m)
        limit = radius_m * radius_m
        found = []
        for near_row in range(max(row - reach, 0), min(row + reach + 1, self.rows)):
            for near_column in range(max(column - reach, 0), min(column + reach + 1, self.columns)):
                centre_x, centre_y = self.centre_of((near_column, near_row))
                if (centre_x - x_m) * (centre_x - x_m) + (centre_y - y_m) * (centre_y - y_m) <= limit:
                    found.append((near_column, near_row))
        return frozenset(found)


def _ring(row: int, column: int, ring: int) -> Iterable[tuple[int, int]]:
    if ring == 0:
        yield row, column
        return
    for along in range(-ring, ring + 1):
        yield row - ring, column + along
        yield row + ring, column + along
    for along in range(-ring + 1, ring):
        yield row + along, column - ring
        yield row + along, column + ring


def rasterise(polygons: Sequence[Polygon], *, holes: Sequence[Polygon] = (), cell_m: float = CELL_M) -> Grid:
    """Return the grid that covers ``polygons``, each float[n, 2] in metres and filled by the even-odd rule.

    Overlapping polygons join. Cells inside ``holes`` are taken out; those on a hole's boundary, too. Grid lines lie on whole
    multiples of ``cell_m``, so that grids of neighbouring areas agree.
    """
    rings = [_checked(polygon) for polygon in polygons]
    if not rings:
        raise InputError("at least one polygon was wanted, but none came")
    if not 0.0 < cell_m < math.inf:
        raise InputError(f"cells of a positive size were wanted, but {cell_m!r} m came")
    first_column, first_row = (math.floor(min(float(ring[:, axis].min()) for ring in rings) / cell_m) for axis in (0, 1))
    last_column, last_row = (math.floor(max(float(ring[:, axis].max()) for ring in rings) / cell_m) for axis in (0, 1))
    origin_m = (first_column * cell_m, first_row * cell_m)
    xs = origin_m[0] + (np.arange(last_column - first_column + 1, dtype=np.float64) + 0.5) * cell_m
    ys = origin_m[1] + (np.arange(last_row - first_row + 1, dtype=np.float64) + 0.5) * cell_m
    walkable = np.zeros((len(ys), len(xs)), dtype=np.bool_)
    for ring in rings:
        walkable |= _covered(ring, xs, ys)
    for hole in holes:
        walkable &= ~_covered(_checked(hole), xs, ys)
    return Grid(origin_m, walkable, cell_m)


def _checked(polygon: Polygon) -> Polygon:
    ring = np.asarray(polygon, dtype=np.float64)
    if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3 or not np.isfinite(ring).all():
        raise InputError(f"a polygon of at least three finite points was wanted, but an array of shape {ring.shape} came")
    return ring


def _covered(ring: Polygon, xs: Polygon, ys: Polygon) -> Flags:
    """Fill row by row between pairs of crossings, both included.

    An edge counts once with its upper end left out and once with its lower end left out; together with level edges this
    makes every boundary point, peaks and troughs included, part of the polygon.
    """
    covered = np.zeros((len(ys), len(xs)), dtype=np.bool_)
    x1, y1 = ring[:, 0], ring[:, 1]
    x2, y2 = np.roll(x1, -1), np.roll(y1, -1)
    # One direction for every edge: polygons that share an edge compute the same crossings.
    swap = (y1 > y2) | ((y1 == y2) & (x1 > x2))
    x1, x2 = np.where(swap, x2, x1), np.where(swap, x1, x2)
    y1, y2 = np.where(swap, y2, y1), np.where(swap, y1, y2)
    rise = np.where(y1 == y2, 1.0, y2 - y1)
    for row in range(int(np.searchsorted(ys, y1.min())), int(np.searchsorted(ys, y2.max(), side="right"))):
        y = ys[row]
        crossings = np.where(y == y2, x2, x1 + (y - y1) * (x2 - x1) / rise)
        for crosses in ((y1 <= y) & (y < y2), (y1 < y) & (y <= y2)):
            sorted_x = np.sort(crossings[crosses])
            first = np.searchsorted(xs, sorted_x[0::2], side="left")
            last = np.searchsorted(xs, sorted_x[1::2], side="right")
            for start, stop in zip(first, last, strict=True):
                covered[row, start:stop] = True
        for edge in np.flatnonzero((y1 == y) & (y2 == y)):
            covered[row, np.searchsorted(xs, x1[edge], side="left") : np.searchsorted(xs, x2[edge], side="right")] = True
    return covered
