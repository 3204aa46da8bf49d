"""From distances to points, with what the air, chance and noise make of them: the compiled loop of the LiDAR.

Sums, products, quotients and square roots only, so that no bit depends on the machine.
"""

import math

import numpy as np
from numpy.typing import NDArray

from samepath.sim.sensors.raster.compiled import compiled, compiled_entry

F64 = NDArray[np.float64]
Pair = tuple[F64, F64]

_PER_LN2 = 1.4426950408889634
_LN2 = 0.6931471805599453
_HALF_PI = 1.5707963267948966
# 1 / n!, for the series of the exponential, the sine and the cosine.
_FACTORS = np.array([1.0 / math.factorial(n) for n in range(18)])
# Powers of two from 2**-1022 up to 1.
_POWERS = np.ldexp(1.0, np.arange(-1022, 1))
FAINTEST = -700.0
"""The least exponent of an intensity: what is weaker is as good as nothing."""


@compiled
def exp_below_one(x: float) -> float:
    """The exponential of a number from ``FAINTEST`` to 0."""
    power = math.floor(x * _PER_LN2 + 0.5)
    rest = x - power * _LN2
    total = 0.0
    for n in range(13, -1, -1):
        total = total * rest + _FACTORS[n]
    return total * float(_POWERS[1022 + int(power)])


@compiled
def log_of(x: float) -> float:
    """The logarithm of a number above 0, by 2 atanh((m - 1) / (m + 1)) of its mantissa."""
    mantissa, power = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, power = 2.0 * mantissa, power - 1
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = 0.0
    for n in range(12, -1, -1):
        series = series * square + 1.0 / (2 * n + 1)
    return 2.0 * ratio * series + power * _LN2


@compiled
def cos_of_turn(turn: float) -> float:
    """The cosine of a part of a whole turn, 0 to 1."""
    quarter = math.floor(4.0 * turn + 0.5)
    angle = (4.0 * turn - quarter) * _HALF_PI
    square = angle * angle
    total = 0.0
    odd = int(quarter) & 1
    for n in range(8, -1, -1):
        total = _FACTORS[2 * n + odd] - total * square
    if odd:
        total *= -angle
    return -total if int(quarter) & 2 else total


@compiled_entry
def fill(
    distance: F64,
    number: NDArray[np.int64],
    elevation: Pair,
    azimuth: Pair,
    losses: tuple[F64, F64, F64],
    values: tuple[float, float, float, float, float],
    points: NDArray[np.float32],
    rays: NDArray[np.int64],
    counts: NDArray[np.uint32],
) -> int:
    """Write x, y, z and intensity of every point that comes back, and the number of its ray; return how many.

    ``losses`` are uniform numbers for the general loss and the loss of faint points, by channel and column, and two for noise.
    ``values`` are attenuation, general rate, intensity limit, rate at intensity zero and the noise's deviation; 0 switches off.
    """
    attenuation, general, limit, zero, deviation = values
    by_rate, by_intensity, by_noise = losses
    (sin_e, cos_e), (sin_a, cos_a) = elevation, azimuth
    count = 0
    for channel in range(number.shape[0]):
        before = count
        for column in range(number.shape[1]):
            ray = number[channel, column]
            away = distance[ray]
            if not away < np.inf or (general > 0.0 and by_rate[channel, column] < general):
                continue
            exponent = -attenuation * away
            intensity = exp_below_one(exponent) if exponent > FAINTEST else exp_below_one(FAINTEST)
            faint = limit > 0.0 and zero > 0.0 and intensity <= limit
            if faint and by_intensity[channel, column] < zero * (1.0 - intensity / limit):
                continue
            if deviation > 0.0:
                at = channel * number.shape[1] + column
                size = math.sqrt(-2.0 * log_of(1.0 - by_noise[0, at]))
                away += deviation * size * cos_of_turn(by_noise[1, at])
            flat = away * cos_e[channel]
            points[count, 0], points[count, 1] = flat * cos_a[column], flat * sin_a[column]
            points[count, 2], points[count, 3] = away * sin_e[channel], intensity
            rays[count] = ray
            count += 1
        counts[channel] = count - before
    return count
