"""From light to the numbers of a picture, with square roots only: they are exact everywhere, powers are not."""

import numpy as np

from samepath.sim.sensors.raster.arrays import Number
from samepath.sim.sensors.raster.compiled import compiled

_KNEE = 0.72


def tone_of(light: Number) -> Number:
    """A linear amount of light as 0..255 on the screen: sRGB's curve, and a soft shoulder so that nothing burns out at once."""
    y = max(light, 0.0)
    if y > _KNEE:
        over = y - _KNEE
        y = _KNEE + over / (1.0 + over / (1.0 - _KNEE))
    s1 = np.sqrt(y)
    s2 = np.sqrt(s1)
    s3 = np.sqrt(s2)
    level = 0.662002687 * s1 + 0.684122060 * s2 - 0.323583601 * s3 - 0.0225411470 * y
    return 255.0 * min(max(level, 0.0), 1.0)


tone = compiled(tone_of)
