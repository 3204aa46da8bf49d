"""Sine, cosine, arc tangent, exponential and logarithm of arrays, whose bits depend on nothing but their arguments.

As in :mod:`samepath.core.trig`, only +, -, *, /, comparisons and exact scalings are used, each of which IEEE 754 rounds in one
way, element by element. ``sincos_deg`` and ``atan2`` give the very bits of the functions for single numbers.
"""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core import trig
from samepath.core.errors import InputError
from samepath.core.trig import _RAD_PER_DEG, _RAD_PER_DEG_REST, LIMIT_DEG, _cosine, _sine

Floats = NDArray[np.float64]

_LN2_HIGH: Final = 0.6931471803691238
_LN2_LOW: Final = 1.9082149292705877e-10
_PER_LN2: Final = 1.4426950408889634
_SQRT_HALF: Final = 0.7071067811865476
_EXP_TERMS: Final = 13
_LOG_TERMS: Final = 12
_EIGHTHS: Final = 9  # entries of each table of ``trig``: 0 to 8 eighths
_ON: Final = np.array([*trig._FROM_X, *trig._FROM_Y_ON])
_BACK: Final = np.array([*trig._FROM_MINUS_X, *trig._FROM_Y_BACK])
# By which half axis an angle is counted from and by eighths: the angle there, the sense of counting, and with that sense what
# rounding has left of the angle. ``base - (u + (rest - low))`` is then ``base + sense * (u + (rest + sense * low))``, bit for
# bit, since a change of sign is exact.
_BASES: Final = np.concatenate((_ON[:, 0], _BACK[:, 0]))
_SENSES: Final = np.repeat((1.0, -1.0), 2 * _EIGHTHS)
_LOWS: Final = _SENSES * np.concatenate((_ON[:, 1], _BACK[:, 1]))


def sincos_deg(angle_deg: Floats) -> tuple[Floats, Floats]:
    """Return sines and cosines of angles in degrees; exact on the axes."""
    size = np.abs(angle_deg)
    if not np.all(size <= LIMIT_DEG):
        raise InputError(f"angles within ±{LIMIT_DEG:g} degrees were wanted")
    quarters = np.floor(size / 90.0 + 0.5)
    rest_deg = size - 90.0 * quarters
    r: Any = rest_deg * _RAD_PER_DEG
    c: Any = rest_deg * _RAD_PER_DEG_REST
    # Sums and products only: what is written for numbers holds for arrays.
    sine, cosine = np.asarray(_sine(r, c)), np.asarray(_cosine(r, c))
    k = quarters.astype(np.int64) & 3
    # What turning (cosine, sine) by quarters gives, each change of sign made by 0 - x, as for single numbers.
    minus_sine, minus_cosine = 0.0 - sine, 0.0 - cosine
    turned_sine = np.choose(k, [sine, cosine, minus_sine, minus_cosine])
    turned_cosine = np.choose(k, [cosine, minus_sine, minus_cosine, 0.0 - minus_sine])
    return np.where(angle_deg < 0.0, 0.0 - turned_sine, turned_sine), turned_cosine


def atan2(y: Floats, x: Floats) -> Floats:
    """Return the angles of vectors (x, y) in [-pi, pi], with the usual signs of zeros; NaN and infinities are refused."""
    width, height = np.abs(x), np.abs(y)
    swapped = height > width
    small, large = np.minimum(width, height), np.maximum(width, height)
    # A NaN is the largest and the smallest of all, and compares as neither.
    least, most = (float(large.min()), float(large.max())) if large.size else (1.0, 1.0)
    if not most < np.inf:
        raise InputError("finite vectors were wanted")
    nowhere = None
    if not (least > 1e-290 and most < 1e300):
        scale = np.where(large > 1e-290, np.where(large < 1e300, 1.0, 2.0**-40), 2.0**300)
        small, large = small * scale, large * scale
        nowhere = large == 0.0
        large = np.where(nowhere, 1.0, large)
    eighths = np.floor(8.0 * (small / large) + 0.5)
    # With no eighths this is small / large: a product with 8 is exact, and so is the sum with 0.
    u = (8.0 * small - eighths * large) / (8.0 * large + eighths * small)
    z = u * u
    rest = u * z * (trig._T3 + z * (trig._T5 + z * (trig._T7 + z * (trig._T9 + z * (trig._T11 + z * trig._T13)))))
    back = swapped != np.signbit(x)
    place = eighths.astype(np.intp)
    place += _EIGHTHS * swapped
    place += 2 * _EIGHTHS * back
    angle: Floats = _BASES[place] + _SENSES[place] * (u + (rest + _LOWS[place]))
    if nowhere is not None:
        angle = np.where(nowhere, np.where(np.signbit(x), trig.PI, 0.0), angle)
    return np.copysign(angle, y)


def exp(x: Floats) -> Floats:
    """Return e to the power of numbers from -700 to 700, with an error below 2 units in the last place."""
    if not np.all(np.abs(x) <= 700.0):
        raise InputError("exponents from -700 to 700 were wanted")
    power = np.floor(x * _PER_LN2 + 0.5)
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    total = np.zeros_like(rest)
    for term in range(_EXP_TERMS, -1, -1):
        total = total * rest + 1.0 / math.factorial(term)
    return np.ldexp(total, power.astype(np.int64))


def log(x: Floats) -> Floats:
    """Return natural logarithms of finite numbers above 0, with an error below 3 units in the last place of the larger part."""
    if not np.all((x > 0.0) & (x < np.inf)):
        raise InputError("finite numbers above 0 were wanted")
    part, power = np.frexp(x)
    small = part < _SQRT_HALF
    part, power = np.where(small, 2.0 * part, part), np.where(small, power - 1, power)
    # log(part) = 2 atanh((part - 1) / (part + 1)), the argument being at most 0.172.
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for term in range(_LOG_TERMS, 0, -1):
        series = square * (series + 1.0 / (2 * term + 1))
    whole: Floats = power * _LN2_HIGH + (2.0 * ratio + (2.0 * ratio * series + power * _LN2_LOW))
    return whole
