"""From light to the numbers of a picture, with square roots only: they are exact everywhere, powers are not."""

import numpy as np

from samepath.sim.sensors.raster.arrays import Number
from samepath.sim.sensors.raster.compiled import compiled

KNEE = 0.72
"""Where the shoulder begins."""
CURVE = (0.662002687, 0.684122060, -0.323583601, -0.0225411470)
"""sRGB's curve: parts of the square root, the fourth root, the eighth root and the light itself."""


def tone_of(light: Number) -> Number:
    """A linear amount of light as 0..255 on the screen: sRGB's curve, and a soft shoulder so that nothing burns out at once."""
    y = max(light, 0.0)
    if y > KNEE:
        over = y - KNEE
        y = KNEE + over / (1.0 + over / (1.0 - KNEE))
    s1 = np.sqrt(y)
    s2 = np.sqrt(s1)
    s3 = np.sqrt(s2)
    level = CURVE[0] * s1 + CURVE[1] * s2 + CURVE[2] * s3 + CURVE[3] * y
    return 255.0 * min(max(level, 0.0), 1.0)


tone = compiled(tone_of)
