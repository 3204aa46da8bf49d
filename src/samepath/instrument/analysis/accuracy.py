"""Accuracy apart from precision: how far the mean path is from a reference (bias), and how far repeats stray from it (spread).

A simulator that repeats itself to the bit may still be wrong (paper, II). The reference is any trace: a measured drive, another
simulator, a closed form written as a log. It is read between its own moments on straight lines, never beyond its ends. At
every tick and actor that both have, over the position axes: bias is the distance of the mean path from the reference, spread
the root of the summed variances, and the mean square error of a single run is the sum of their squares.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION
from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument.analysis.spread import CellSpread, measure
from samepath.instrument.traces.cell import CellTrace

Floats = NDArray[np.float64]
# How far a moment may lie outside of the reference, as rounding makes it.
_SLACK: Final = 1e-9


@dataclass(frozen=True)
class ActorAccuracy:
    """One actor against the reference; arrays over ``time_s`` are for drawing."""

    actor: int
    moments: int
    bias_max_m: float
    bias_max_time_s: float
    bias_rms_m: float
    spread_rms_m: float
    error_rms_m: float
    time_s: Floats
    bias_m: Floats
    spread_m: Floats

    def words(self) -> str:
        """Say it in one line."""
        return (
            f"actor {self.actor}: mean path up to {format_length(self.bias_max_m)} from the reference "
            f"(at {self.bias_max_time_s:.4g} s, rms {format_length(self.bias_rms_m)}), "
            f"repeats stray {format_length(self.spread_rms_m)} rms; a single run is {format_length(self.error_rms_m)} off"
        )


@dataclass(frozen=True)
class Accuracy:
    """A cell against a reference. ``left_out`` are actors that only one of the two has."""

    reference: str
    actors: tuple[ActorAccuracy, ...]
    left_out: tuple[int, ...]

    @property
    def bias_max_m(self) -> float:
        """The largest of all actors."""
        return max(actor.bias_max_m for actor in self.actors)


def compare(cell: CellTrace, spread: CellSpread, reference: CellTrace) -> Accuracy:
    """Hold a cell against a reference: one run, or the mean path of several."""
    truth = measure(reference)
    axes: list[str] = [axis for axis in POSITION if axis in spread.channels and axis in truth.channels]
    shared = [actor for actor in spread.actor_ids.tolist() if actor in truth.actor_ids.tolist()]
    found = [_actor(cell, spread, reference, truth, axes, actor) for actor in shared]
    known = tuple(actor for actor in found if actor is not None)
    if not known:
        raise InputError(
            f"cell {cell.header.cell!r} and the reference {reference.header.cell!r} share no moment of any actor: "
            f"actors {_ids(spread)} and {_ids(truth)}; use the same ids, and times from the same start"
        )
    both = {actor.actor for actor in known}
    rest = {*spread.actor_ids.tolist(), *truth.actor_ids.tolist()} - both
    return Accuracy(reference.header.cell, known, tuple(sorted(rest)))


def _actor(
    cell: CellTrace, spread: CellSpread, reference: CellTrace, truth: CellSpread, axes: list[str], actor: int
) -> ActorAccuracy | None:
    here, there = _columns(spread, actor), _columns(truth, actor)
    time_s, known_s = spread.ticks * cell.header.step_s, truth.ticks * reference.header.step_s
    square, variance = np.zeros(len(time_s)), np.zeros(len(time_s))
    for axis in axes:
        path, known = spread.channels[axis].mean[here], truth.channels[axis].mean[there]
        logged = np.isfinite(known)
        if logged.sum() < 1:
            return None
        wanted = np.interp(time_s, known_s[logged], known[logged])
        outside = (time_s < known_s[logged][0] - _SLACK) | (time_s > known_s[logged][-1] + _SLACK)
        square += np.where(outside, np.nan, (path - wanted) ** 2)
        spread_here = spread.channels[axis].variance[here]
        variance += np.where(np.isnan(spread_here), 0.0, spread_here)
    at = np.flatnonzero(np.isfinite(square))
    if not len(at):
        return None
    bias, strays = np.sqrt(square[at]), np.sqrt(variance[at])
    worst = int(np.argmax(bias))
    bias_rms, spread_rms = (math.sqrt(math.fsum(values**2) / len(at)) for values in (bias, strays))
    return ActorAccuracy(
        actor=actor,
        moments=len(at),
        bias_max_m=float(bias[worst]),
        bias_max_time_s=float(time_s[at[worst]]),
        bias_rms_m=bias_rms,
        spread_rms_m=spread_rms,
        error_rms_m=math.hypot(bias_rms, spread_rms),
        time_s=np.asarray(time_s[at], np.float64),
        bias_m=bias,
        spread_m=strays,
    )


def _columns(spread: CellSpread, actor: int) -> slice:
    """Where an actor's pairs are, tick after tick."""
    place = int(np.searchsorted(spread.actor_ids, actor))
    return slice(place, None, len(spread.actor_ids))


def _ids(spread: CellSpread) -> str:
    return ", ".join(map(str, spread.actor_ids.tolist()[:20]))
