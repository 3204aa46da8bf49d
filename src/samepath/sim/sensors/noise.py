"""Chance for sensors: streams named by the sensor's seed, its number and the tick, and a normal distribution to the bit.

A measurement draws for all its rays, also for those that meet nothing, so that the noise of a ray depends on no other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samepath.base.streams import stream
from samepath.base.trig_arrays import log, sincos_deg

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chance:
    """Where the noise of one measurement comes from: the sensor's seed, its number among all, and the tick.

    Nobody else's measurements, nor how many there were before, move it.
    """

    seed: int = 0
    sensor: int = 0
    tick: int = 0

    def stream(self, purpose: str) -> np.random.Generator:
        """The numbers for one purpose, such as ``lidar``."""
        return stream(self.seed, purpose, self.sensor, self.tick)


def normals(generator: np.random.Generator, count: int) -> Floats:
    """Draw from the normal distribution of mean 0 and deviation 1, by Box and Muller.

    numpy's own method takes its tails from the C library, whose last bit depends on the machine.
    """
    half = (count + 1) // 2
    uniform = generator.random(2 * half)
    radius = np.sqrt(-2.0 * log(1.0 - uniform[:half]))
    sine, cosine = sincos_deg(360.0 * uniform[half:])
    return np.concatenate([radius * cosine, radius * sine])[:count]
