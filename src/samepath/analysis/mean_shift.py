"""How far the mean path of one cell is from that of another: a spread that stays the same may still move as a whole."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samepath.analysis.cell import CellAnalysis

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class MeanShift:
    """The largest distance between the mean positions of an actor in two cells, over the ticks that all their repeats have.

    ``error_m`` is the standard error of that distance, at the place where it is largest: so far apart chance puts the means of
    so few repeats by itself. ``tick`` and ``actor`` say where that is.
    """

    shift_m: float
    error_m: float
    tick: int
    actor: int


@dataclass(frozen=True)
class Shift:
    """Against which cell the means are held, and how far they are apart before and from the first collision of either on.

    None where there is nothing to compare, such as no tick that all repeats of both have.
    """

    against: str
    before: MeanShift | None
    after: MeanShift | None


def find_shift(cell: CellAnalysis, base: CellAnalysis) -> Shift:
    """Hold the mean path of ``cell`` against that of ``base``."""
    firsts = [one.boundary.first_tick for one in (cell, base) if one.boundary.first_tick is not None]
    ticks, ours, theirs = np.intersect1d(cell.spread.ticks, base.spread.ticks, assume_unique=True, return_indices=True)
    actors, our_actors, their_actors = np.intersect1d(
        cell.spread.actor_ids, base.spread.actor_ids, assume_unique=True, return_indices=True
    )
    at, base_at = _pairs(cell, ours, our_actors), _pairs(base, theirs, their_actors)
    axes = [name for name in cell.spread.axes if name in base.spread.axes]
    squares, errors = np.zeros(at.shape), np.zeros(at.shape)
    shared = np.ones(at.shape, np.bool_)
    for name in axes:
        one, other = cell.spread.channels[name], base.spread.channels[name]
        shared &= (one.count[at] == cell.repeats) & (other.count[base_at] == base.repeats)
        squares += (one.mean[at] - other.mean[base_at]) ** 2
        errors += one.variance[at] / cell.repeats + other.variance[base_at] / base.repeats
    shared &= np.isfinite(squares)
    early = (ticks < min(firsts) if firsts else np.ones(len(ticks), np.bool_))[:, np.newaxis]
    return Shift(
        against=base.header.cell,
        before=_largest(squares, errors, shared & early, ticks, actors),
        after=_largest(squares, errors, shared & ~early, ticks, actors),
    )


def _pairs(cell: CellAnalysis, ticks: NDArray[np.intp], actors: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where pairs of (tick, actor) stand in the flat arrays of a cell's spread."""
    return ticks[:, np.newaxis] * len(cell.spread.actor_ids) + actors[np.newaxis, :]


def _largest(
    squares: Floats, errors: Floats, mask: Bools, ticks: NDArray[np.int64], actors: NDArray[np.int64]
) -> MeanShift | None:
    if not mask.any():
        return None
    tick, actor = np.unravel_index(int(np.argmax(np.where(mask, squares, -1.0))), squares.shape)
    return MeanShift(
        shift_m=float(np.sqrt(squares[tick, actor])),
        error_m=float(np.sqrt(errors[tick, actor])),
        tick=int(ticks[tick]),
        actor=int(actors[actor]),
    )
