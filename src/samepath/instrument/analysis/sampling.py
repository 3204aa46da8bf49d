"""Sampling: were two runs logged at other moments? Then their rows differ, and their paths may not.

A log that a script writes whenever it gets round to it has other moments in every repeat, whether or not its time column says
so. Row by row such logs part at once, and a spread computed from them is mostly the road driven between two moments. So each
row of one run is looked for on the paths of the other, at *one* moment for all actors, no farther off than the time between two
rows: the moment is that of the actor that moves fastest, and everybody else must be in place then as well. The straight line
between two samples is off by at most an eighth of the second difference there (h² |a| / 8), and each number by the rounding of
the log. Where all rows of everybody lie within that, nobody can tell the paths apart: the moments differ. Where a car has
driven otherwise, no common moment puts it and the others back in place.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION
from samepath.core.units import format_length
from samepath.instrument.traces.records import Repeat

Floats = NDArray[np.float64]

# The second difference is itself taken from samples: it may be larger between two of them.
_MARGIN: Final = 2.0
_DECIMALS_MOST: Final = 9
# So many rows are looked for, evenly spread: more would only tell the same again.
_ROWS_MOST: Final = 400
_LEAST_ROWS: Final = 5


@dataclass(frozen=True)
class Sampling:
    """Two runs that were logged at other moments, as far as their paths tell.

    ``shift_low_s`` to ``shift_high_s``: how much later on the path of the second run the rows of the first are. ``apart_m`` is
    how far paths are apart at the row where that exceeds ``open_m`` most, which is what sampling and rounding leave open there.
    """

    rows: int
    moments_elsewhere: int
    shift_low_s: float
    shift_high_s: float
    apart_m: float
    open_m: float

    @property
    def same_paths(self) -> bool:
        """Is no difference of the paths to be seen?"""
        return self.apart_m <= self.open_m

    def words(self) -> str:
        """Say it in one sentence."""
        low, high = f"{self.shift_low_s:.3g}", f"{self.shift_high_s:.3g}"
        when = f"{low} s" if low == high else f"{low} to {high} s"
        apart, room = format_length(self.apart_m), format_length(self.open_m)
        if self.same_paths:
            return (
                f"the runs were logged at other moments: every row of one is on the paths of the other {when} later, for all "
                f"actors at once, within {apart} where sampling and rounding leave {room} open. "
                "The moments differ, not the paths"
            )
        return (
            f"the runs were logged at other moments ({self.moments_elsewhere} are in one log only), and their paths differ as "
            f"well: {apart} apart where sampling and rounding leave {room} open"
        )


def find_sampling(a: Repeat, b: Repeat) -> Sampling | None:
    """Look for the rows of one run on the paths of the other; None where other moments explain nothing."""
    paths = _paths(a, b)
    if not paths:
        return None
    moments_a, moments_b = np.unique(a.time_s), np.unique(b.time_s)
    low, high = max(moments_a[0], moments_b[0]), min(moments_a[-1], moments_b[-1])
    within = [moments[(moments >= low) & (moments <= high)] for moments in (moments_a, moments_b)]
    elsewhere = len(np.setxor1d(*within)) + int(moments_a[0] != moments_b[0])
    gap_s = max(float(np.median(np.diff(moments))) for moments in (moments_a, moments_b))
    rows = within[0][:: max(1, -(-len(within[0]) // _ROWS_MOST))]
    # Of the whole log: somebody who stands at a round number does not make it a coarse one.
    rounding_m = _rounding(np.concatenate([path[1] for pair in paths for path in pair]))
    shifts, worst = [], (-np.inf, 0.0, 0.0)
    for at_s in rows.tolist():
        found = _row(paths, at_s, gap_s, rounding_m)
        if found is not None:
            shifts.append(found[0])
            worst = max(worst, (found[1] - found[2], found[1], found[2]))
    if len(shifts) < _LEAST_ROWS:
        return None
    sampling = Sampling(len(shifts), elsewhere, min(shifts), max(shifts), worst[1], worst[2])
    # Other moments are other throughout: a gap or two are findings of their own, and equal moments explain nothing.
    if sampling.same_paths:
        return sampling if elsewhere or sampling.shift_low_s or sampling.shift_high_s else None
    return sampling if elsewhere * 10 >= len(within[0]) else None


# Moments, positions, and how far a straight line between neighbours may be off, of one actor.
_Path = tuple[Floats, Floats, Floats]


def _paths(a: Repeat, b: Repeat) -> list[tuple[_Path, _Path]]:
    axes = [a.channels.index(name) for name in POSITION if name in a.channels]
    found = []
    for actor in sorted({listed.id for listed in a.actors} & {listed.id for listed in b.actors}):
        ours, theirs = ((run.time_s[run.actor == actor], run.values[run.actor == actor][:, axes]) for run in (a, b))
        rising = all(len(path[0]) >= _LEAST_ROWS and np.all(np.diff(path[0]) > 0) for path in (ours, theirs))
        if rising and not np.isnan(ours[1]).any() and not np.isnan(theirs[1]).any():
            found.append(((*ours, _open(*ours)), (*theirs, _open(*theirs))))
    return found


def _row(paths: list[tuple[_Path, _Path]], at_s: float, gap_s: float, rounding_m: float) -> tuple[float, float, float] | None:
    """Find the moment of the second run at which everybody is where the first has them at ``at_s``.

    Returns how much later that is, and the distance and what is left open of the actor who is farthest beyond it.
    """
    there = [(ours, theirs) for ours, theirs in paths if ours[0][0] <= at_s <= ours[0][-1] and _spans(theirs, at_s, gap_s)]
    if not there:
        return None
    ours, theirs = max(there, key=lambda pair: _speed(pair[0], at_s))
    moment_s = _nearest(theirs, _position(ours, at_s), at_s, gap_s)
    worst = (-np.inf, 0.0, 0.0)
    for ours, theirs in there:
        apart_m = float(np.sqrt(np.sum((_position(ours, at_s) - _position(theirs, moment_s)) ** 2)))
        open_m = _at_interval(theirs[2], theirs, moment_s) + _at_interval(ours[2], ours, at_s) + rounding_m
        worst = max(worst, (apart_m - open_m, apart_m, open_m))
    return moment_s - at_s, worst[1], worst[2]


def _spans(path: _Path, at_s: float, gap_s: float) -> bool:
    """Does a path have all moments within a gap of this one? At its ends a row may lie beyond it."""
    return bool(path[0][0] + gap_s <= at_s <= path[0][-1] - gap_s)


def _nearest(path: _Path, point: Floats, at_s: float, gap_s: float) -> float:
    """The moment within a gap of ``at_s`` at which a path is nearest to a point; of equally near ones, the nearest in time."""
    time_s, position, _ = path
    first, last = np.searchsorted(time_s, [at_s - gap_s, at_s + gap_s])
    segments = np.arange(max(0, int(first) - 1), min(len(time_s) - 1, int(last) + 1))
    along = position[segments + 1] - position[segments]
    squares = np.sum(along * along, axis=1)
    share = np.sum((point - position[segments]) * along, axis=1) / np.where(squares > 0, squares, 1.0)
    moments = time_s[segments] + np.clip(share, 0.0, 1.0) * (time_s[segments + 1] - time_s[segments])
    # Where nobody moves every moment is as near: then it is the same one.
    moments = np.append(np.clip(moments, at_s - gap_s, at_s + gap_s), at_s)
    apart = [float(np.sum((point - _position(path, moment)) ** 2)) for moment in moments.tolist()]
    return float(min(zip(apart, np.abs(moments - at_s).tolist(), moments.tolist(), strict=True))[2])


def _position(path: _Path, at_s: float) -> Floats:
    return np.array([np.interp(at_s, path[0], column) for column in path[1].T])


def _speed(path: _Path, at_s: float) -> float:
    interval = _interval(path, at_s)
    moved = path[1][interval + 1] - path[1][interval]
    return float(np.sqrt(np.sum(moved * moved)) / (path[0][interval + 1] - path[0][interval]))


def _interval(path: _Path, at_s: float) -> int:
    return int(np.clip(np.searchsorted(path[0], at_s, side="right") - 1, 0, len(path[0]) - 2))


def _at_interval(values: Floats, path: _Path, at_s: float) -> float:
    """What is left open at a moment; nothing at a sample itself."""
    interval = _interval(path, at_s)
    return 0.0 if at_s in (path[0][interval], path[0][interval + 1]) else float(values[interval])


def _open(time_s: Floats, position: Floats) -> Floats:
    """How far a straight line between two samples may be off, by interval."""
    gaps = np.diff(time_s)
    speeds = np.diff(position, axis=0) / gaps[:, None]
    bends = np.sqrt(np.sum(np.diff(speeds, axis=0) ** 2, axis=1)) / (0.5 * (gaps[1:] + gaps[:-1]))
    # The bend of an interval: of both its ends together, because a start or a stop within it shows half at each.
    ends = np.concatenate(([bends[0]], bends[1:] + bends[:-1], [bends[-1]]))
    result: Floats = _MARGIN * gaps**2 * ends / 8.0
    return result


def _rounding(values: Floats) -> float:
    """How far two rounded positions may be apart that were equal; 0 where a log has all its digits."""
    for decimals in range(_DECIMALS_MOST):
        if np.array_equal(np.round(values, decimals), values):
            return float(10.0**-decimals * np.sqrt(values.shape[1]))
    return 0.0
