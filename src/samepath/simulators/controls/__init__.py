"""Control simulators: the proof that the instrument sees what is there and nothing else."""

from samepath.simulators.controls.simulator import (
    BelowResolution,
    Destroyed,
    EndsEarly,
    Exact,
    Gaussian,
    LateBystander,
    Leaky,
    Rare,
    TwoOutcomes,
)

__all__ = ["BelowResolution", "Destroyed", "EndsEarly", "Exact", "Gaussian", "LateBystander", "Leaky", "Rare", "TwoOutcomes"]
