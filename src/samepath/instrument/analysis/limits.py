"""Is every quantity within its limit? Positions, orientations, speeds, accelerations, commands, times of events, sensors.

Each limit is held against the largest deviation of any repeat from the mean (or against sigma, where the study judges by
that), over the actors it is about. Which repeats are beyond is found by a second reading, and only where any is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import ANGLES, POSITION, VELOCITY
from samepath.core.limits import QUANTITIES, SPEED, ChannelLimit
from samepath.instrument.analysis.sensors import SensorAnalysis
from samepath.instrument.analysis.spread import CellSpread
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import EventKind

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class LimitResult:
    """A limit and what was found. ``found`` None: the quantity was not logged, and nothing is said of it."""

    name: str
    limit: float
    unit: str
    found: float | None
    tick: int | None
    actor: int | None
    beyond: tuple[int, ...]
    beyond_before: tuple[int, ...]
    beyond_limit: bool
    before_limit: bool

    def words(self) -> str:
        """Say it in a few words."""
        if self.found is None:
            return f"{self.name}: not logged"
        unit = f" {self.unit}" if self.unit else ""
        if not self.unit and self.name == "sensors":
            return "sensors: not the same" if self.beyond_limit else "sensors: the same"
        place = "" if self.tick is None else f" at tick {self.tick}" + ("" if self.actor is None else f", actor {self.actor}")
        state = f"above {self.limit:.3g}{unit}{place}" if self.beyond_limit else f"within {self.limit:.3g}{unit}"
        return f"{self.name}: {self.found:.3g}{unit}, {state}"


def limit_summary(results: Sequence[LimitResult]) -> str:
    """All limits in one line, those that are overstepped first."""
    ordered = sorted(results, key=lambda result: not result.beyond_limit)
    return "; ".join(result.words() for result in ordered)


def default_actors(cell: CellTrace, limits: Sequence[ChannelLimit]) -> Bools:
    """Which actors the study's tolerance is about: those that no limit of positions names."""
    named = [limit for limit in limits if limit.quantity == "position"]
    return np.array([not any(limit.about(actor, _kinds(cell, actor)) for limit in named) for actor in cell.actor_ids.tolist()])


def judge_limits(
    cell: CellTrace,
    spread: CellSpread,
    sensors: Sequence[SensorAnalysis],
    limits: Sequence[ChannelLimit],
    criterion: Criterion,
    before: Bools,
) -> tuple[LimitResult, ...]:
    """Hold a cell against limits; ``before`` masks the pairs of the first phase."""
    return tuple(_judge(cell, spread, sensors, index, limits, criterion, before) for index in range(len(limits)))


def _judge(
    cell: CellTrace,
    spread: CellSpread,
    sensors: Sequence[SensorAnalysis],
    index: int,
    limits: Sequence[ChannelLimit],
    criterion: Criterion,
    before: Bools,
) -> LimitResult:
    limit = limits[index]
    unit = QUANTITIES[limit.quantity].unit
    if limit.quantity == "sensors":
        odd = tuple(sorted({repeat for sensor in sensors for group in sensor.outcomes[1:] for repeat in group}))
        unlike = any(not sensor.identical for sensor in sensors)
        return LimitResult(limit.name, 0.0, unit, float(len(odd)) if sensors else None, None, None, odd, (), unlike, False)
    if limit.quantity == "event-time":
        return _event_times(cell, limit, unit)
    channels = [name for name in QUANTITIES[limit.quantity].channels if name in spread.channels]
    member = np.array([_is_mine(cell, limits, index, actor) for actor in cell.actor_ids.tolist()])
    mask = np.tile(member, len(spread.ticks))
    if not channels or not mask.any():
        return LimitResult(limit.name, limit.limit, unit, None, None, None, (), (), False, False)
    what = "sigma" if criterion is Criterion.SIGMA else "max_deviation"
    worst = np.fmax.reduce([getattr(spread.channels[name], what) for name in channels])
    worst = np.where(mask & np.isfinite(worst), worst, -1.0)
    at = int(np.argmax(worst))
    found = float(worst[at])
    if found < 0:
        return LimitResult(limit.name, limit.limit, unit, None, None, None, (), (), False, False)
    actors = len(spread.actor_ids)
    early = found > limit.limit and bool(np.any(worst[before] > limit.limit))
    odd, odd_before = ((), ()) if found <= limit.limit else _beyond(cell, spread, channels, mask, before, limit.limit)
    place = int(spread.ticks[at // actors]), int(spread.actor_ids[at % actors])
    return LimitResult(limit.name, limit.limit, unit, found, *place, odd, odd_before, found > limit.limit, early)


def _kinds(cell: CellTrace, actor: int) -> tuple[str, ...]:
    return tuple(sorted({known.type for known in cell.actors if known.id == actor}))


def _is_mine(cell: CellTrace, limits: Sequence[ChannelLimit], index: int, actor: int) -> bool:
    """Is this the last limit of its quantity that is about an actor?"""
    kinds = _kinds(cell, actor)
    about = [i for i, limit in enumerate(limits) if limit.quantity == limits[index].quantity and limit.about(actor, kinds)]
    return bool(about) and about[-1] == index


def _beyond(
    cell: CellTrace, spread: CellSpread, channels: list[str], mask: Bools, before: Bools, limit: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which repeats stray farther, in whole runs and in the first phase."""
    logged = list(VELOCITY) if channels == [SPEED] else channels
    whole: list[int] = []
    early: list[int] = []
    for block in cell.blocks(logged):
        values = block.values
        if channels == [SPEED]:
            values = {SPEED: np.sqrt(sum(block.values[name] ** 2 for name in VELOCITY))}
        far = np.zeros((len(block.repeats), len(mask)), np.bool_)
        for name in channels:
            away = values[name] - spread.channels[name].mean
            if name in ANGLES:
                away = away - 360.0 * np.rint(away / 360.0)
            far |= np.abs(away) > limit
        far &= mask
        whole += [repeat for repeat, row in zip(block.repeats, far, strict=True) if row.any()]
        early += [repeat for repeat, row in zip(block.repeats, far & before, strict=True) if row.any()]
    return tuple(whole), tuple(early)


def _event_times(cell: CellTrace, limit: ChannelLimit, unit: str) -> LimitResult:
    """Times of the same event: the first collision of 1 and 2, the second, ...; a missing one is a matter of structure."""
    times: dict[tuple[object, ...], dict[int, int]] = {}
    for run in cell.runs:
        seen: dict[tuple[object, ...], int] = {}
        for event in run.events:
            if event.kind in (EventKind.SPAWN, EventKind.END):
                continue
            key = (event.kind, event.actor, event.other)
            seen[key] = seen.get(key, -1) + 1
            times.setdefault((*key, seen[key]), {})[run.repeat] = event.tick
    step_s, found, where = cell.header.step_s, 0.0, None
    odd: set[int] = set()
    for ticks in times.values():
        mean = math.fsum(ticks.values()) / len(ticks)
        for repeat, tick in ticks.items():
            away = abs(tick - mean) * step_s
            if away > limit.limit:
                odd.add(repeat)
            if away > found:
                found, where = away, tick
    known = found if times else None
    return LimitResult(limit.name, limit.limit, unit, known, where, None, tuple(sorted(odd)), (), found > limit.limit, False)


def position_beyond(
    cell: CellTrace, spread: CellSpread, actors: Bools, before: Bools, tolerance_m: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Repeats of which an actor that only the tolerance is about is beyond it."""
    axes: list[str] = [name for name in POSITION if name in spread.channels]
    return _beyond(cell, spread, axes, np.tile(actors, len(spread.ticks)), before, tolerance_m)
