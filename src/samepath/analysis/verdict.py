"""Judging: from figures to one of the four verdicts of :mod:`samepath.base.verdicts`, with the reason."""

from dataclasses import dataclass
from enum import StrEnum

from samepath.analysis.resolution import Resolution
from samepath.base.units import format_length
from samepath.base.verdicts import Verdict


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


def judge(
    *,
    identical: bool,
    resolution: Resolution,
    max_sigma_m: float | None,
    max_deviation_m: float | None,
    structural: tuple[str, ...],
    tolerance_m: float,
    criterion: Criterion,
    sensed: str = "",
) -> Judgement:
    """Choose the verdict; ``structural`` differences exceed every tolerance, ``sensed`` ones only mar sameness."""
    if identical and not sensed:
        if resolution.limits_equality:
            step = format_length(resolution.step_m)
            return Judgement(Verdict.IDENTICAL_AT_RESOLUTION, f"all logs are equal; the log cannot show less than {step}")
        return Judgement(Verdict.BIT_IDENTICAL, "every repeat has the same bits")
    if structural and not identical:
        return Judgement(Verdict.EXCEEDS_TOLERANCE, structural[0])
    sigma, deviation = max_sigma_m or 0.0, max_deviation_m or 0.0
    limit = format_length(tolerance_m)
    if sigma > tolerance_m:
        return Judgement(Verdict.EXCEEDS_TOLERANCE, f"max sigma {format_length(sigma)} is above {limit}")
    if criterion is Criterion.DEVIATION and deviation > tolerance_m:
        reason = f"a repeat is {format_length(deviation)} from the mean path, above {limit} (max sigma {format_length(sigma)})"
        return Judgement(Verdict.EXCEEDS_TOLERANCE, reason)
    reason = f"max sigma {format_length(sigma)} and max deviation {format_length(deviation)}, tolerance {limit}"
    if identical:
        reason = f"every repeat takes the same path to the bit, but not all see the same: {sensed}"
    return Judgement(Verdict.WITHIN_TOLERANCE, reason)


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of some verdicts."""
    return max(verdicts, key=lambda one: one.rank)
