"""Spread of a cell: sigma of every actor at every logged tick, how it grows with repeats, and how fine the log is.

The cell is read once, in blocks, and summed exactly (``exact``): memory does not grow with the number of repeats, and identical
repeats give a sigma of exactly 0. Columns whose last bit the fast method cannot prove are read a second time and worked out
with fractions; this has never been needed outside tests.

The log's resolution is found from the numbers themselves, whatever the log claims to be: numbers printed with three decimals
lie on a grid of 1 mm. Two identical logs prove that the runs were identical only as finely as the log can tell.

Accuracy apart from precision: how far the mean path is from a reference (bias), and how far repeats stray from it (spread).

A simulator that repeats itself to the bit may still be wrong (paper, II). The reference is any trace: a measured drive, another
simulator, a closed form written as a log. It is read between its own moments on straight lines, never beyond its ends. At
every tick and actor that both have, over the position axes: bias is the distance of the mean path from the reference, spread
the root of the summed variances, and the mean square error of a single run is the sum of their squares.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import ANGLES, POSITION, RESAMPLING, VELOCITY
from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument.analysis.exact import Spread, SpreadAccumulator, exact_columns, with_exact_columns
from samepath.instrument.traces.cell import Block, CellTrace

Floats = NDArray[np.float64]

MAX_DECIMALS = 12


class GridKind(StrEnum):
    """What the stored numbers look like."""

    LOSSLESS = "lossless"
    DECIMAL = "decimal"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    RESAMPLED = "resampled"


@dataclass(frozen=True)
class LogResolution:
    """The finest difference that the log can show; 0.0 where its numbers lie on no grid that was found.

    Of a resampled log ``step_m`` is how far off a state may be at most: it lies between two frames of the engine.
    """

    step_m: float
    kind: GridKind

    @property
    def limits_equality(self) -> bool:
        """Return True if equal logs can come from unequal runs.

        Only a log that is known to hold the simulator's own numbers excludes that. A rounded log may look like full numbers:
        feet that became metres, a moved origin, a unit of a third.
        """
        return self.kind is not GridKind.LOSSLESS


class LogResolutionFinder:
    """Streams position values and finds the coarsest grid that all of them lie on; each axis may have an origin of its own."""

    def __init__(self) -> None:
        self._decimals = 0
        self._float32 = True
        self._float32_cm = True
        self._largest = 0.0
        self._samples: dict[str, Floats] = {}

    def add(self, values: Floats, axis: str = "") -> None:
        """Look at more values; NaN (absent) is passed over."""
        finite = values[np.isfinite(values)]
        if finite.size == 0:
            return
        self._largest = max(self._largest, float(np.abs(finite).max()))
        with np.errstate(over="ignore", under="ignore"):  # numbers beyond float32's range are no float32
            self._float32 = self._float32 and bool(np.all(finite.astype(np.float32) == finite))
            # Unreal counts in centimetres: its numbers are 32-bit floats only in that unit.
            as_cm = (finite * 100.0).astype(np.float32).astype(np.float64)
            self._float32_cm = self._float32_cm and bool(np.all(as_cm / 100.0 == finite))
        while self._decimals <= MAX_DECIMALS and not _on_grid(finite, self._decimals):
            self._decimals += 1
        sample = self._samples.get(axis, np.empty(0))
        if sample.size < _SAMPLED_MAX:
            self._samples[axis] = np.unique(np.concatenate([sample, finite[: _SAMPLED_MAX - sample.size]]))

    def result(self) -> LogResolution:
        """Return the coarsest grid of all values."""
        with np.errstate(over="ignore"):
            if self._float32:
                single_m = float(np.spacing(np.float32(self._largest)))
            else:
                single_m = float(np.spacing(np.float32(self._largest * 100.0))) / 100.0 if self._float32_cm else 0.0
        single_m = single_m if math.isfinite(single_m) else 0.0
        decimal_m = 10.0**-self._decimals if self._decimals <= MAX_DECIMALS else 0.0
        # A log may be rounded twice, to a grid and then to 32 bits.
        errors = {4.0 * float(np.spacing(self._largest)), single_m}
        # An axis on which little moves has a coarse step by itself: the step of a log is one that every axis has.
        moving = [sample for sample in self._samples.values() if len(sample) >= _DISTINCT_MIN]
        steps_m = [max(_common_step(sample, error) for error in errors if error) for sample in moving]
        coarse_m = max(decimal_m, min(steps_m, default=0.0))
        if coarse_m > single_m:
            return LogResolution(coarse_m, GridKind.DECIMAL)
        return LogResolution(single_m, GridKind.FLOAT32) if single_m else LogResolution(0.0, GridKind.FLOAT64)


# Values looked at for a grid of any step, how many of them a grid must explain, and of how many gaps it is worked out.
_SAMPLED_MAX: Final = 1 << 16
_DISTINCT_MIN: Final = 20
_MULTIPLES_MIN: Final = 3
_GAPS_MAX: Final = 2000
_ROUNDS_MAX: Final = 64
# Metres, feet and inches, in decimals, halves and quarters of them.
_USUAL_STEPS_M: Final = sorted(
    (unit * part / 10**power for unit in (1.0, 0.3048, 0.0254) for part in (1.0, 0.5, 0.25) for power in range(10)),
    reverse=True,
)


def _common_step(values: Floats, error: float) -> float:
    """Return the coarsest step of which all gaps between sorted values are multiples, or 0 if there is none.

    ``error`` is how far a gap may be off by rounding. Gaps have no origin, so that a moved origin does not hide a step.
    """
    return max(_usual_step(values, error), _found_step(values, error))


def _usual_step(values: Floats, error: float) -> float:
    """Return the coarsest of the steps that people use: in noise of rounding, these are found where Euclid finds none."""
    for step in _USUAL_STEPS_M:
        if step <= 20 * error:
            break
        places = (values - values[0]) / step
        whole = np.rint(places)
        if np.all(np.abs(places - whole) <= 2 * error / step) and len(np.unique(np.diff(whole))) >= _MULTIPLES_MIN:
            return float(step)
    return 0.0


def _found_step(values: Floats, error: float) -> float:
    """Return the greatest common divisor of all gaps, by Euclid's algorithm on real numbers."""
    gaps = np.unique(np.diff(values))
    gaps = gaps[gaps > 4 * error]
    if not len(gaps):
        return 0.0
    gaps = gaps[:: -(-len(gaps) // _GAPS_MAX)]
    step, doubt = float(gaps[0]), error  # the doubt is how far the step may be off
    for _ in range(_ROUNDS_MAX):
        multiples = set()
        for gap in gaps.tolist():
            multiple = round(gap / step)
            slack, away = error + multiple * doubt, abs(gap - multiple * step)
            if slack > step / 4:  # so far that rounding hides which multiple it is
                continue
            if away > slack:
                step, doubt = away, slack
                break
            multiples.add(multiple)
            if error / multiple < doubt:
                step, doubt = gap / multiple, error / multiple
        else:
            break
        if step < 8 * error:
            return 0.0
    else:
        return 0.0
    places = (values - values[0]) / step
    slack_steps = (error + places * doubt) / step
    clear = slack_steps < 0.25
    on_grid = bool(np.all(np.abs(places - np.rint(places))[clear] <= slack_steps[clear]))
    found = len(multiples) >= _MULTIPLES_MIN and on_grid and int(clear.sum()) >= max(_DISTINCT_MIN, len(values) // 2)
    return float(f"{step:.6g}") if found else 0.0


def _on_grid(values: Floats, decimals: int) -> bool:
    """Is every value the float64 nearest to a decimal number with so many decimals?

    k / 10**d is correctly rounded for whole k below 2**53, so it equals what any correct parser makes of the printed text.
    """
    scale = 10.0**decimals
    with np.errstate(over="ignore"):  # what overflows is above 2**53 and on no grid
        whole = np.rint(values * scale)
    return bool(np.all(np.abs(whole) < 2.0**53) and np.all(whole / scale == values))


Bools = NDArray[np.bool_]

SPEED = "speed_mps"


@dataclass(frozen=True)
class GrowthPoint:
    """What the first ``repeats`` repeats alone would have shown (the paper, VII-D: grow n by orders of magnitude)."""

    repeats: int
    max_sigma_m: float | None
    max_deviation_m: float | None


@dataclass(frozen=True)
class CellSpread:
    """Spread per channel; arrays are flat over (tick, actor) pairs, tick-major, as in ``traces.cell``."""

    ticks: NDArray[np.int64]
    actor_ids: NDArray[np.int64]
    channels: dict[str, Spread]
    growth: tuple[GrowthPoint, ...]
    resolution: LogResolution
    presence: dict[bytes, tuple[int, ...]]

    @property
    def axes(self) -> tuple[str, ...]:
        """The position axes that were logged."""
        return tuple(name for name in POSITION if name in self.channels)

    @property
    def shape(self) -> tuple[int, int]:
        """(ticks, actors)."""
        return len(self.ticks), len(self.actor_ids)

    def worst_axis(self, what: str) -> Floats:
        """Return the largest over the position axes of ``sigma``, ``variance``, ``max_deviation`` or ``range``; NaN: none."""
        return _max_ignoring_nan([getattr(self.channels[axis], what) for axis in self.axes])

    def total_sigma(self) -> Floats:
        """Square root of the sum of the axes' variances."""
        total = np.zeros(len(self.channels[self.axes[0]].variance))
        for axis in self.axes:
            total = total + self.channels[axis].variance
        return np.sqrt(total)


@dataclass(frozen=True)
class SpreadSummary:
    """The figures of a set of (tick, actor) pairs: a whole cell, a phase, an actor."""

    pairs: int
    max_sigma_m: float | None
    max_sigma_total_m: float | None
    psi_m2: float | None
    mean_sigma_m: float | None
    max_deviation_m: float | None
    max_range_m: float | None
    max_sigma_tick: int | None
    max_sigma_actor: int | None
    max_sigma_axis: str | None
    other_max_sigma: dict[str, float]


NOTHING = SpreadSummary(0, None, None, None, None, None, None, None, None, None, {})


def measure(cell: CellTrace, sizes: Sequence[int] = ()) -> CellSpread:
    """Read the cell once and work out the spread of every channel, at each of ``sizes`` repeats on the way."""
    logged = cell.header.channels
    with_speed = all(name in logged for name in VELOCITY)
    names = (*logged, SPEED) if with_speed else logged
    sums = {name: SpreadAccumulator(cell.columns) for name in names}
    angles = {name: _Unwrapper() for name in logged if name in ANGLES}
    finder = LogResolutionFinder()
    bound_m = 0.0
    growth: list[GrowthPoint] = []
    presence: dict[bytes, list[int]] = {}
    done = 0
    marks = sorted({size for size in sizes if 2 <= size < len(cell.runs)})
    axes = [name for name in POSITION if name in logged]
    for block in cell.blocks(logged):
        _note_presence(presence, block, cell.columns)
        if not cell.header.lossless:
            for axis in axes:
                finder.add(block.values[axis], axis)
        if RESAMPLING in logged:
            bound_m = max(bound_m, float(np.nanmax(block.values[RESAMPLING], initial=0.0)))
        columns = _columns_to_measure(block, angles, with_speed=with_speed)
        start, count = 0, len(block.repeats)
        while start < count:
            ahead = [mark for mark in marks if mark > done]
            stop = min(count, start + ahead[0] - done) if ahead else count
            for name, (values, present) in columns.items():
                sums[name].add(values[start:stop], None if present is None else present[start:stop])
            done += stop - start
            start = stop
            if done in marks:
                growth.append(_growth_point(done, [sums[axis] for axis in axes]))
    channels = {name: _certified(cell, name, total.result()) for name, total in sums.items()}
    spread = CellSpread(
        ticks=cell.ticks,
        actor_ids=cell.actor_ids,
        channels=channels,
        growth=(),
        resolution=_resolution(cell, finder, bound_m),
        presence={key: tuple(repeats) for key, repeats in presence.items()},
    )
    last = GrowthPoint(done, _largest(spread.worst_axis("sigma")), _largest(spread.worst_axis("max_deviation")))
    return CellSpread(**{**spread.__dict__, "growth": (*growth, last)})


def _resolution(cell: CellTrace, finder: LogResolutionFinder, bound_m: float) -> LogResolution:
    """Name how fine a log is. Resampled states are that before anything else, whatever the header says."""
    if RESAMPLING in cell.header.channels:
        return LogResolution(max(bound_m, 0.0 if cell.header.lossless else finder.result().step_m), GridKind.RESAMPLED)
    return LogResolution(0.0, GridKind.LOSSLESS) if cell.header.lossless else finder.result()


def summarise(spread: CellSpread, mask: Bools | None = None) -> SpreadSummary:
    """Reduce the pairs chosen by ``mask`` (all if None) that at least two repeats share."""
    variance = spread.worst_axis("variance")
    chosen = np.isfinite(variance) | np.isposinf(variance)
    if mask is not None:
        chosen &= mask
    if not chosen.any():
        return NOTHING
    sigma = spread.worst_axis("sigma")
    at = int(np.flatnonzero(chosen)[np.argmax(sigma[chosen])])
    actors = len(spread.actor_ids)
    axis = max(spread.axes, key=lambda name: _number(spread.channels[name].sigma[at]))
    others = {}
    for name, channel in spread.channels.items():
        if name not in POSITION:
            values = channel.sigma[chosen & np.isfinite(channel.sigma)]
            if values.size:
                others[name] = float(values.max())
    return SpreadSummary(
        pairs=int(chosen.sum()),
        max_sigma_m=float(sigma[at]),
        max_sigma_total_m=float(spread.total_sigma()[chosen].max()),
        psi_m2=float(variance[chosen].max()),
        mean_sigma_m=math.sqrt(math.fsum(variance[chosen]) / int(chosen.sum())),
        max_deviation_m=float(spread.worst_axis("max_deviation")[chosen].max()),
        max_range_m=float(spread.worst_axis("range")[chosen].max()),
        max_sigma_tick=int(spread.ticks[at // actors]),
        max_sigma_actor=int(spread.actor_ids[at % actors]),
        max_sigma_axis=axis,
        other_max_sigma=others,
    )


class _Unwrapper:
    """Brings angles to within half a turn of the first one seen, so that -179.9 and 179.9 are 0.2 degrees apart."""

    def __init__(self) -> None:
        self._first: Floats | None = None

    def __call__(self, values: Floats) -> Floats:
        if self._first is None:
            self._first = np.full(values.shape[1], np.nan)
        unknown = np.isnan(self._first)
        if unknown.any():
            valid = ~np.isnan(values)
            candidate = values[valid.argmax(axis=0), np.arange(values.shape[1])]
            self._first = np.where(unknown & valid.any(axis=0), candidate, self._first)
        turns = np.rint((values - self._first) / 360.0)
        turning = np.nan_to_num(turns) != 0
        return np.where(turning, values - 360.0 * turns, values) if turning.any() else values


def _columns_to_measure(
    block: Block, angles: dict[str, _Unwrapper], *, with_speed: bool
) -> dict[str, tuple[Floats, Bools | None]]:
    columns = {name: angles[name](values) if name in angles else values for name, values in block.values.items()}
    if with_speed:
        vx, vy, vz = (block.values[name] for name in VELOCITY)
        columns[SPEED] = np.sqrt(vx * vx + vy * vy + vz * vz)
    result: dict[str, tuple[Floats, Bools | None]] = {}
    for name, values in columns.items():
        applies = ~np.isnan(values)
        result[name] = (values, None if applies.all() else applies)
    return result


def _note_presence(presence: dict[bytes, list[int]], block: Block, columns: int) -> None:
    """Group repeats by which (tick, actor) pairs they have."""
    if block.present is None:
        presence.setdefault(np.packbits(np.ones(columns, np.bool_)).tobytes(), []).extend(block.repeats)
        return
    for repeat, row in zip(block.repeats, block.present, strict=True):
        presence.setdefault(np.packbits(row).tobytes(), []).append(repeat)


def _certified(cell: CellTrace, name: str, spread: Spread) -> Spread:
    """Work out by rational arithmetic the columns whose last bit is not proved; reads the cell again for these alone."""
    if spread.uncertified.size == 0:
        return spread
    angles = {name: _Unwrapper()} if name in ANGLES else {}
    logged, with_speed = (VELOCITY, True) if name == SPEED else ((name,), False)
    parts = [
        _columns_to_measure(block, angles, with_speed=with_speed)[name][0][:, spread.uncertified]
        for block in cell.blocks(logged)
    ]
    values = np.concatenate(parts)
    return with_exact_columns(spread, exact_columns(values, ~np.isnan(values)))


def _growth_point(done: int, sums: list[SpreadAccumulator]) -> GrowthPoint:
    results = [total.result() for total in sums]
    return GrowthPoint(
        done,
        _largest(_max_ignoring_nan([result.sigma for result in results])),
        _largest(_max_ignoring_nan([result.max_deviation for result in results])),
    )


def _max_ignoring_nan(arrays: list[Floats]) -> Floats:
    result = arrays[0]
    for other in arrays[1:]:
        result = np.fmax(result, other)
    return result


def _largest(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else None


def _number(value: float) -> float:
    return -1.0 if math.isnan(value) else float(value)


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
