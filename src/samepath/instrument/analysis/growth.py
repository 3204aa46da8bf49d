"""Growth: how two runs come apart after they have parted, by one rule with its numbers in sight.

The distance d of two runs at a tick is that of the actor farthest apart. From the first tick at which it is not zero:

1. It never reaches ``GROWS`` times its first value. If it also stays above half of its largest it is a ``step``, made at the
   parting itself; otherwise ``bounded``: it goes up and down.
2. Between two neighbouring ticks ln d rises by at least ``JUMPS`` and by at least half of its whole rise: a ``step``. An event
   within a tick of it, in either run, is its name.
3. Two curves are fitted to ln d, over the ticks until d is half of its largest: exponential, ln d = c + r t, and power,
   ln d = c + p ln t with t from the tick before the parting. It is ``exponential``, chaos, with the rate r per second and the
   time ln 2 / r in which d doubles, if that curve explains ``SURE`` of the variance, leaves less than half of the squares that
   the power leaves, and d rises by ``CHAOS`` times at least: over less, the two look alike. It is ``linear``, a timing that
   differs (p near 1) or an acceleration (p near 2), if the power explains ``FAIR`` of it and p is from ``SLOWEST`` to
   ``FASTEST``.
4. Anything else, and less than ``POINTS`` ticks, is ``undecided``.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.units import format_length
from samepath.instrument.analysis.divergence import event_words
from samepath.instrument.analysis.partings import Parting
from samepath.instrument.traces.records import Event, EventKind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GROWS: Final = 3.0
JUMPS: Final = math.log(10.0)
CHAOS: Final = 1000.0
SURE, FAIR = 0.9, 0.8
SLOWEST, FASTEST = 0.5, 3.0
POINTS: Final = 8


class GrowthKind(StrEnum):
    """How the distance grows."""

    NONE = "none"
    EXPONENTIAL = "exponential"
    STEP = "step"
    LINEAR = "linear"
    BOUNDED = "bounded"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Growth:
    """How two runs come apart.

    ``rate_per_s`` and ``doubling_s`` are of exponential growth, ``speed_mps`` and ``power`` of linear growth, ``jump_tick`` and
    ``event`` of a step (``event`` is empty where nothing was reported there).
    """

    kind: GrowthKind
    first_m: float = 0.0
    max_m: float = 0.0
    last_m: float = 0.0
    rate_per_s: float | None = None
    doubling_s: float | None = None
    speed_mps: float | None = None
    power: float | None = None
    jump_tick: int | None = None
    event: str = ""

    def words(self) -> str:
        """Say it in one sentence."""
        ends = f"from {format_length(self.first_m)} to at most {format_length(self.max_m)}"
        match self.kind:
            case GrowthKind.NONE:
                return "no position ever differs"
            case GrowthKind.EXPONENTIAL:
                pace = f"{self.rate_per_s:.3g} per second, doubling every {self.doubling_s:.3g} s"
                return f"the distance grows exponentially ({pace}), {ends}: chaos makes a small difference large"
            case GrowthKind.STEP:
                what = f", the {self.event}" if self.event else ", where no event was reported"
                return f"the distance jumps at tick {self.jump_tick}{what}; it goes {ends}"
            case GrowthKind.LINEAR:
                how = (
                    "as time passes"
                    if self.power is not None and self.power < 1.5
                    else f"as time to the power {self.power:.2g}"
                )
                pace = f"about {self.speed_mps:.2g} m/s"
                return f"the distance grows {how}, {pace}, {ends}: as a difference of timing does, not chaos"
            case GrowthKind.BOUNDED:
                return f"the distance does not grow: it goes {ends} and comes back"
            case GrowthKind.UNDECIDED:
                return f"the distance goes {ends}; its growth is of no plain kind"


def find_growth(parting: Parting, events_a: tuple[Event, ...], events_b: tuple[Event, ...], step_s: float) -> Growth:
    """Say how the distance of two runs grows after they have parted."""
    ticks, distance_m = farthest(parting)
    positive = np.flatnonzero(distance_m > 0)
    if not len(positive):
        return Growth(GrowthKind.NONE)
    ticks, distance_m = ticks[positive[0] :], distance_m[positive[0] :]
    kept = distance_m > 0  # runs that meet again for a tick have no logarithm there
    ticks, d = ticks[kept], distance_m[kept]
    first_m, max_m, last_m = float(d[0]), float(d.max()), float(d[-1])
    sizes = Growth(GrowthKind.UNDECIDED, first_m, max_m, last_m)
    if max_m < GROWS * first_m:
        return _without_growth(ticks, d, sizes, events_a, events_b)
    y = np.log(d)
    rises = np.diff(y)
    jump = int(np.argmax(rises))
    if rises[jump] >= max(JUMPS, 0.5 * (y.max() - y[0])):
        at = int(ticks[jump + 1])
        return replace(sizes, kind=GrowthKind.STEP, jump_tick=at, event=_event_at(at, events_a, events_b))
    half = int(np.flatnonzero(d >= 0.5 * max_m)[0]) + 1
    return _fitted(ticks[:half], d[:half], sizes, step_s)


def _without_growth(ticks: Ints, d: Floats, sizes: Growth, events_a: tuple[Event, ...], events_b: tuple[Event, ...]) -> Growth:
    if len(d) < POINTS:
        return sizes
    if d.min() < 0.5 * d.max():
        return replace(sizes, kind=GrowthKind.BOUNDED)
    at = int(ticks[0])
    return replace(sizes, kind=GrowthKind.STEP, jump_tick=at, event=_event_at(at, events_a, events_b))


def _fitted(ticks: Ints, d: Floats, sizes: Growth, step_s: float) -> Growth:
    if len(d) < POINTS:
        return sizes
    since_s = (ticks - ticks[0] + 1) * step_s
    y = np.log(d)
    whole = float(np.sum((y - y.mean()) ** 2))
    rate_per_s, exponential = _fit(since_s, y)
    power, powered = _fit(np.log(since_s), y)
    rises = sizes.max_m >= CHAOS * sizes.first_m
    if rises and rate_per_s > 0 and exponential < 0.5 * powered and exponential <= (1 - SURE) * whole:
        return replace(sizes, kind=GrowthKind.EXPONENTIAL, rate_per_s=rate_per_s, doubling_s=math.log(2.0) / rate_per_s)
    if SLOWEST <= power <= FASTEST and powered <= (1 - FAIR) * whole:
        return replace(sizes, kind=GrowthKind.LINEAR, speed_mps=float(np.median(d / since_s)), power=power)
    return sizes


def farthest(parting: Parting) -> tuple[Ints, Floats]:
    """The distance of the actor farthest apart at every tick from the parting on."""
    ticks = np.unique(np.concatenate([series.ticks for series in parting.series] or [np.empty(0, np.int64)]))
    most = np.zeros(len(ticks))
    for series in parting.series:
        at = np.searchsorted(ticks, series.ticks)
        most[at] = np.maximum(most[at], series.distance_m)
    since = ticks >= parting.tick
    return ticks[since], most[since]


def _fit(x: Floats, y: Floats) -> tuple[float, float]:
    """Fit a line; return its slope and the sum of squares that it leaves."""
    centred = x - x.mean()
    slope = float(np.sum(centred * (y - y.mean())) / np.sum(centred * centred))
    left = y - y.mean() - slope * centred
    return slope, float(np.sum(left * left))


def _event_at(tick: int, events_a: tuple[Event, ...], events_b: tuple[Event, ...]) -> str:
    """Name what happened within a tick of ``tick``: what one run alone has first, then collisions, then the nearest."""
    both = {event.to_bytes() for event in events_a} & {event.to_bytes() for event in events_b}
    every = (*events_a, *events_b)
    near = [
        (event.to_bytes() in both, event.kind != EventKind.COLLISION, abs(event.tick - tick), index)
        for index, event in enumerate(every)
        if abs(event.tick - tick) <= 1 and event.kind != EventKind.SPAWN
    ]
    return event_words(every[min(near)[-1]]) if near else ""
