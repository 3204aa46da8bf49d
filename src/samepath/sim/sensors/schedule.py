"""When a sensor with a ``sensor_tick`` measures: the first time at once, then every so many simulated seconds."""

import math
from typing import Final

# The part of a step that the rounding of sums of steps may be off by.
_ROUNDING: Final = 1e-3


def is_due(period_s: float, elapsed_s: float, step_s: float) -> bool:
    """Is a measurement due ``elapsed_s`` after the sensor's first tick, the step before having taken ``step_s``?

    Depends on nothing but the time: whoever skips a tick, or begins in the middle, gets the same answers. A period of 0, or
    one shorter than the step, is due at every tick.
    """
    slack_s = _ROUNDING * step_s
    if period_s <= 0.0 or elapsed_s < slack_s:
        return True
    return math.floor((elapsed_s + slack_s) / period_s) > math.floor((elapsed_s - step_s + slack_s) / period_s)


def interval_s(period_s: float, step_s: float) -> float:
    """The time one measurement stands for: how long a LiDAR turns and a radar shines for it."""
    return max(math.ceil(period_s / step_s - _ROUNDING), 1) * step_s
