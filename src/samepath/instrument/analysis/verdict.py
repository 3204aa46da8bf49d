"""Judging: from figures to one of the four verdicts of :mod:`samepath.core.verdicts`, and what so many repeats can exclude.

All bounds are exact binomial statements, no normal approximation: with 0 of 100 divergent repeats the rate is only known to be
below 2.95 %, where an approximation would say 0. Three choices are made from the same runs that the bounds are about, and each
bound pays for its choice: the largest outcome (:func:`largest_outcome_upper`), the moment to stop (:func:`anytime_bounds`) and
the cells of a domain (:func:`clean_cells_upper`, :func:`each_cell_upper`). ``bench/coverage.py`` simulates all of them.

Limits of single quantities (positions, orientations, speeds, accelerations, commands, times of events, sensors) are judged here
too. Each is held against the largest deviation of any repeat from the mean (or against sigma, where the study judges by that),
over the actors it is about. Which repeats are beyond is found by a second reading, and only where any is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import ANGLES, POSITION, QUANTITIES, SPEED, VELOCITY, ChannelLimit
from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.sensors import SensorAnalysis
from samepath.instrument.analysis.spread import CellSpread, GridKind, LogResolution
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import EventKind


class Criterion(StrEnum):
    """What is held against the tolerance.

    ``deviation``  no repeat may be farther from the mean path than the tolerance (and sigma neither): the default,
                   because 3 repeats in 1000 that are 10 cm off have a max sigma of only 5.5 mm.
    ``sigma``      max sigma alone, as in the paper.
    """

    DEVIATION = "deviation"
    SIGMA = "sigma"


@dataclass(frozen=True)
class Judgement:
    """A verdict and why."""

    verdict: Verdict
    reason: str


def judge(  # noqa: PLR0911 - one return for each verdict and reason
    *,
    identical: bool,
    resolution: LogResolution,
    max_sigma_m: float | None,
    max_deviation_m: float | None,
    structural: tuple[str, ...],
    tolerance_m: float,
    criterion: Criterion,
    sensed: str = "",
    kept: str = "",
    broken: str = "",
) -> Judgement:
    """Choose the verdict; ``structural`` differences exceed every tolerance, ``sensed`` ones only mar sameness.

    ``broken`` tells of limits besides the tolerance of which one does not hold, ``kept`` of such that all do.
    """
    # Sameness is judged first and by bits: no tolerance, however small, may call two different runs the same.
    if identical and not sensed:
        if resolution.limits_equality:
            step = format_length(resolution.step_m)
            reason = f"all logs are equal; the log cannot show less than {step}"
            if resolution.kind is GridKind.RESAMPLED:
                reason = f"all logs are equal; their states lie between the engine's frames, at most {step} off"
            elif resolution.kind is GridKind.FLOAT64:
                reason = "all logs are equal; --lossless says that they hold the simulator's own numbers"
            return Judgement(Verdict.IDENTICAL_AT_RESOLUTION, reason)
        return Judgement(Verdict.BIT_IDENTICAL, "every repeat has the same bits")
    # Before any distance: where a repeat has other actors or ends elsewhere, distances are only over what both have, and small.
    if structural and not identical:
        return Judgement(Verdict.EXCEEDS_TOLERANCE, structural[0])
    # Limits that a user set for other quantities count as much as the tolerance of positions.
    if broken:
        return Judgement(Verdict.EXCEEDS_TOLERANCE, broken)
    sigma, deviation = max_sigma_m or 0.0, max_deviation_m or 0.0
    limit = format_length(tolerance_m)
    if sigma > tolerance_m:
        return Judgement(Verdict.EXCEEDS_TOLERANCE, f"max sigma {format_length(sigma)} is above {limit}")
    if criterion is Criterion.DEVIATION and deviation > tolerance_m:
        reason = f"a repeat is {format_length(deviation)} from the mean path, above {limit} (max sigma {format_length(sigma)})"
        return Judgement(Verdict.EXCEEDS_TOLERANCE, reason)
    reason = f"max sigma {format_length(sigma)} and max deviation {format_length(deviation)}, tolerance {limit}"
    reason += f"; {kept}" if kept else ""
    if identical:
        reason = f"every repeat takes the same path to the bit, but not all see the same: {sensed}"
    return Judgement(Verdict.WITHIN_TOLERANCE, reason)


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of some verdicts."""
    return max(verdicts, key=lambda verdict: verdict.rank)


CONFIDENCE = 0.95


@dataclass(frozen=True)
class RateBounds:
    """Bounds of the true rate of divergence: the probability that a run is not of the most frequent outcome.

    ``upper`` and ``lower`` are one-sided: each alone holds with ``confidence``. Which outcome is the most frequent is itself
    read off the sample, and ``upper`` pays for that. ``anytime_upper`` and ``anytime_lower`` hold at *every* n at once: look
    after each repeat and stop when you like.
    """

    divergent: int
    repeats: int
    confidence: float
    lower: float
    upper: float
    anytime_lower: float
    anytime_upper: float


def rate_bounds(divergent: int, repeats: int, confidence: float = CONFIDENCE, first: int = 1) -> RateBounds:
    """Bound the rate of divergence; ``first`` counts runs up to the first one of the largest outcome.

    The lower bound is Clopper and Pearson's. It needs no correction: the largest outcome has at
    least as many runs as the most frequent one, so the sample shows too few divergent runs, not
    too many.
    """
    if not 0 <= divergent <= repeats or repeats < 1:
        raise ValueError(f"0 <= divergent <= repeats was wanted, but {divergent} of {repeats} came")
    lower = clopper_pearson(divergent, repeats, confidence)[0]
    upper = largest_outcome_upper(divergent, repeats, confidence)
    anytime = anytime_bounds(divergent, repeats, confidence, first)
    return RateBounds(divergent, repeats, confidence, lower, upper, *anytime)


def largest_outcome_upper(divergent: int, repeats: int, confidence: float) -> float:
    r"""Upper bound of the rate of divergence for any number of outcomes of any probabilities.

    Let q be the probability of the most frequent outcome and m the size of the largest class. The
    chance that some outcome is seen m times or more is at most :math:`\sum_j G(p_j)`, where G(p)
    is the chance of at least m of n at p. With all :math:`p_j \le q` the sum is largest where as
    much as possible lies in outcomes of probability q: at most :math:`G(q) + G(1 - q)` for q from
    1/2 on, and at most :math:`G(q) / q` below. The bound excludes each q for which that is at most
    the stated error. If no two runs are alike, it excludes nothing.
    """
    from scipy import optimize, special

    alike = repeats - divergent
    if alike < 2:
        return 1.0

    def chance(most: float) -> float:
        seen = float(special.betainc(alike, divergent + 1, most))
        if most < 0.5:
            return seen / most
        return seen + float(special.betainc(alike, divergent + 1, 1.0 - most))

    error = 1 - confidence
    return 1 - float(optimize.brentq(lambda most: chance(most) - error, 1e-30, 1.0, xtol=1e-15))


def all_alike_upper(repeats: Sequence[int], confidence: float) -> float:
    """Upper bound of the mean rate of divergence of cells in each of which all runs are alike.

    In a cell the chance of n like runs is at most (1 - rate)^(n - 1): the first run only shows
    what the others are compared with. The mean weights each cell by n - 1.
    """
    if len(repeats) == 1:
        return largest_outcome_upper(0, repeats[0], confidence)
    compared = sum(count - 1 for count in repeats)
    return clopper_pearson(0, compared, confidence)[1] if compared else 1.0


def clopper_pearson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """One-sided exact bounds of a binomial rate (Clopper & Pearson 1934): each holds with ``confidence`` on its own."""
    from scipy.special import betaincinv

    lower = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, 1.0 - confidence))
    upper = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, confidence))
    return lower, upper


def repeats_needed(rate: float, probability: float) -> int:
    """Return how many repeats show at least one divergence of ``rate`` with ``probability``: (1 - p)^n <= 1 - q."""
    if not 0 < rate < 1 or not 0 < probability < 1:
        raise ValueError(f"a rate and a probability between 0 and 1 were wanted, but {rate} and {probability} came")
    needed = math.ceil(math.log1p(-probability) / math.log1p(-rate))
    # The quotient may land a rounding error above a whole number.
    while needed > 1 and (needed - 1) * math.log1p(-rate) <= math.log1p(-probability):
        needed -= 1
    return needed


def chance_to_see(rate: float, repeats: int) -> float:
    """Return the probability that n repeats show at least one divergence of ``rate``."""
    return -math.expm1(repeats * math.log1p(-rate))


def confidence_sequence(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    r"""Bounds of a binomial rate that are valid under peeking.

    The mixture :math:`M_n(p) = \frac{B(k + a, n - k + b)}{B(a, b)\,p^k (1-p)^{n-k}}` with a = b = 1/2 is a martingale of
    mean 1 under the true p, so by Ville's inequality it ever reaches 1/alpha with probability at most alpha (Robbins 1970).
    The p with M_n(p) < 1/alpha form an interval that covers the truth at all n simultaneously, two-sided.
    """
    from scipy import optimize, special

    threshold = -math.log(1.0 - confidence)
    failures = trials - successes
    mixture = special.betaln(successes + 0.5, failures + 0.5) - special.betaln(0.5, 0.5)

    def excess(p: float) -> float:
        return float(mixture - special.xlogy(successes, p) - special.xlog1py(failures, -p)) - threshold

    mode = successes / trials
    lower = 0.0 if successes == 0 else float(optimize.brentq(excess, 1e-300, mode, xtol=1e-15))
    upper = 1.0 if failures == 0 else float(optimize.brentq(excess, mode, 1 - 1e-16, xtol=1e-15))
    return lower, upper


# Share of the error that belongs to outcomes first seen in the first run. Nearly always that is
# the most frequent outcome or there is none; a later one may still be shown to be frequent.
_FIRST_SHARE = 0.8


def anytime_bounds(divergent: int, repeats: int, confidence: float, first: int = 1) -> tuple[float, float]:
    """Bounds of the rate of divergence that hold at every n at once; see :func:`rate_bounds`.

    *Lower:* the most frequent outcome has a confidence sequence of its own, whichever it is, and
    the largest class has at least as many runs. So the sequence of the largest class is valid.

    *Upper:* an outcome is known from its first run on; later runs repeat it or not, at one rate.
    Run i may name an outcome, and has a share of the error of its own: 0.8 for the first run and
    0.2 / (i (i - 1)) for run i, which adds up to 1. So any outcome may be chosen at any time.
    """
    lower = confidence_sequence(divergent, repeats, confidence)[0]
    if repeats - divergent < 2:
        return lower, 1.0
    share = _FIRST_SHARE if first == 1 else (1 - _FIRST_SHARE) / (first * (first - 1))
    unlike = divergent - (first - 1)
    return lower, confidence_sequence(unlike, repeats - first, 1 - (1 - confidence) * share)[1]


def may_stop(bounds: RateBounds, target_rate: float) -> str | None:
    """Say why repeating may stop, or None to go on: valid however often it is asked.

    Stop when the rate is shown to be below the target, or shown to be above it.
    """
    if bounds.anytime_upper <= target_rate:
        return f"rate is at most {bounds.anytime_upper:.3g}, below the target {target_rate:g}"
    if bounds.anytime_lower > target_rate:
        return f"rate is at least {bounds.anytime_lower:.3g}, above the target {target_rate:g}"
    return None


def repeats_until_stop(target_rate: float, confidence: float = CONFIDENCE) -> int:
    """Return how many repeats without any divergence the stopping rule needs to accept ``target_rate``."""

    def accepts(repeats: int) -> bool:
        return anytime_bounds(0, repeats, confidence)[1] <= target_rate

    low, high = 1, 2
    while not accepts(high):
        low, high = high, high * 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if accepts(middle) else (middle, high)
    return high


def clean_cells_upper(clean: int, cells: int, inside: Sequence[int], confidence: float) -> tuple[float, float]:
    r"""Bounds for a region chosen because its cells are clean: of the mean rate and of any cell's.

    ``clean`` of ``cells`` cells have no run beyond the tolerance; ``inside`` are the numbers of
    runs of those in the region. Both bounds hold together with ``confidence``, whichever clean
    cells were chosen. Runs are independent.

    A cell of n runs and rate p is clean with probability :math:`e^{-w}`, :math:`w = -n \ln(1-p)`.
    Let q be the lower Clopper-Pearson bound of the share of clean cells, and q' the same for one
    clean cell. Over the clean cells the sum of w is at most :math:`-clean \ln q`, and each w is at
    most :math:`-\ln q'`. For equal cells that is exact. For unequal ones ``bench/coverage.py``
    searches for the worst case; it is the one where all cells are clean. That one needs no
    correction, because nothing was chosen: 0 of 240 runs in 24 of 24 clean cells bound the mean
    rate at 1.24 %, as if they were one cell. With 6 of 12 clean cells of 10 runs the bound of the
    mean is 13.1 % (4.87 % without the correction), that of one cell 42.2 % (25.9 %).
    """
    total = -clean * math.log(clopper_pearson(clean, cells, confidence)[0])
    each = min(total, -math.log(clopper_pearson(1, cells, confidence)[0]))
    mean = min(total, len(inside) * each)
    return -math.expm1(-mean / sum(inside)), -math.expm1(-each / min(inside))


def each_cell_upper(
    counts: Sequence[tuple[int, int]], cells: int, confidence: float, *, grown: bool = False
) -> tuple[float, float]:
    """Bounds as :func:`clean_cells_upper`, for chosen cells that need not be clean.

    ``counts`` are (beyond, runs) of each cell chosen out of ``cells``. Each cell's bound holds
    with so much confidence that all of them hold together. ``grown``: the numbers of runs were
    decided while they were made.
    """
    sure: float = confidence ** (1 / cells)
    bound = confidence_sequence if grown else clopper_pearson
    uppers = [bound(beyond, runs, sure)[1] for beyond, runs in counts]
    runs = [runs for _, runs in counts]
    mean = math.fsum(upper * n for upper, n in zip(uppers, runs, strict=True)) / sum(runs)
    return mean, max(uppers)


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
