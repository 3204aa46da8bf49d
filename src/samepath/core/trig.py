"""Sine, cosine and arc tangent whose bits depend on nothing but their arguments.

The C library picks another routine, with another last bit, where the processor has fused multiply-add, and numpy's depend
on the width of its vectors. The functions here use +, -, *, / and comparisons of Python floats only, each of which IEEE 754
rounds in one way. Errors stay below 2 units in the last place (``tests/core/test_trig.py``).

Method. Angles are reduced by a multiple k of pi/2, whose value is split into two parts of 33 bits, so that k times a part is
exact, and a rest; the reduced angle is r + c, with c the rounding error of r. The Taylor series around 0 then suffice:
on [-pi/4, pi/4] the first term left out is below 1e-19. The arc tangent subtracts the nearest angle atan(i/8),

    atan(a/b) = atan(i/8) + atan((8a - ib) / (8b + ia)),

after which the argument is at most 1/16 and seven terms of the series suffice.
"""

import math
from typing import Final

from samepath.core.errors import InputError

PI: Final = 3.141592653589793
"""The float nearest to pi."""
LIMIT_RAD: Final = 1e6
"""Larger angles are refused: the reduction is exact for up to 2**20 quarter turns."""
LIMIT_DEG: Final = 1e9
"""Larger angles are refused: whole turns must stay exact."""

_DEG_PER_RAD: Final = 57.29577951308232
_RAD_PER_DEG: Final = 0.017453292519943295
_RAD_PER_DEG_REST: Final = 2.9486522708701687e-19
_QUARTERS_PER_RAD: Final = 0.6366197723675814
_QUARTER_1: Final = 1.5707963267341256
_QUARTER_2: Final = 6.077100506303966e-11
_QUARTER_3: Final = 2.0222662487959506e-21
_HALF_PI: Final = 1.5707963267948966
_HALF_PI_REST: Final = 6.123233995736766e-17

# 1/n! with its sign, divided once so that each is the float nearest to the rational number.
_S3, _S5, _S7, _S9 = -1 / 6, 1 / 120, -1 / 5040, 1 / 362880
_S11, _S13, _S15, _S17 = -1 / 39916800, 1 / 6227020800, -1 / 1307674368000, 1 / 355687428096000
_C4, _C6, _C8, _C10 = 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800
_C12, _C14, _C16, _C18 = 1 / 479001600, -1 / 87178291200, 1 / 20922789888000, -1 / 6402373705728000
_T3, _T5, _T7, _T9, _T11, _T13 = -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11, 1 / 13

# atan(i/8) as the nearest float and what is left.
_ATAN_EIGHTHS: Final = (
    (0.0, 0.0),
    (0.12435499454676144, -3.1253241424539383e-18),
    (0.24497866312686414, 1.0698755618734451e-17),
    (0.35877067027057225, -2.4623815582638635e-17),
    (0.4636476090008061, 2.2698777452961687e-17),
    (0.5585993153435624, -5.4556305485916264e-18),
    (0.6435011087932844, 1.5834785051444286e-17),
    (0.7188299996216245, -2.1478388444456983e-17),
    (0.7853981633974483, 3.061616997868383e-17),
)


def _offset(quarters: int, sign: float) -> tuple[tuple[float, float], ...]:
    """Return ``quarters`` * pi/2 + ``sign`` * atan(i/8) for each i, as float and rest."""
    large, large_rest = quarters * _HALF_PI, quarters * _HALF_PI_REST
    table = []
    for angle, rest in _ATAN_EIGHTHS:
        small = sign * angle
        total = large + small
        back = total - large
        error = (large - (total - back)) + (small - back)
        table.append((total, error + (large_rest + sign * rest)))
    return tuple(table)


# The angle of (x, y) in the upper half plane, counted from the nearest half axis.
_FROM_X: Final = _offset(0, 1.0)
_FROM_Y_BACK: Final = _offset(1, -1.0)
_FROM_Y_ON: Final = _offset(1, 1.0)
_FROM_MINUS_X: Final = _offset(2, -1.0)


def _sine(r: float, c: float) -> float:
    z = r * r
    high = _S11 + z * (_S13 + z * (_S15 + z * _S17))
    series = _S3 + z * (_S5 + z * (_S7 + z * (_S9 + z * high)))
    return r + (r * z * series + c * (1.0 - 0.5 * z))


def _cosine(r: float, c: float) -> float:
    z = r * r
    high = _C12 + z * (_C14 + z * (_C16 + z * _C18))
    series = _C4 + z * (_C6 + z * (_C8 + z * (_C10 + z * high)))
    half = 0.5 * z
    first = 1.0 - half
    return first + (((1.0 - first) - half) + (z * z * series - r * c))


def _reduced(size: float) -> tuple[int, float, float]:
    """Return k, r and c with ``size`` = k pi/2 + r + c and r within about pi/4."""
    if not size <= LIMIT_RAD:
        raise InputError(f"an angle within ±{LIMIT_RAD:g} rad was wanted, but ±{size!r} came: wrap it first")
    k = math.floor(size * _QUARTERS_PER_RAD + 0.5)
    rough = size - k * _QUARTER_1
    step = k * _QUARTER_2
    r = rough - step
    return k & 3, r, ((rough - r) - step) - k * _QUARTER_3


def sin(angle_rad: float) -> float:
    """Return the sine; exactly odd."""
    if angle_rad < 0.0:
        return -sin(-angle_rad)
    k, r, c = _reduced(angle_rad)
    if k == 0:
        return _sine(r, c) if angle_rad else angle_rad
    value = _cosine(r, c) if k & 1 else _sine(r, c)
    return -value if k & 2 else value


def cos(angle_rad: float) -> float:
    """Return the cosine; exactly even."""
    k, r, c = _reduced(abs(angle_rad))
    value = _sine(r, c) if k & 1 else _cosine(r, c)
    return -value if k in (1, 2) else value


def sincos(angle_rad: float) -> tuple[float, float]:
    """Return sine and cosine, the same bits as :func:`sin` and :func:`cos`."""
    return sin(angle_rad), cos(angle_rad)


def sincos_deg(angle_deg: float) -> tuple[float, float]:
    """Return sine and cosine of an angle in degrees; exact on the axes: ``sincos_deg(90.0) == (1.0, 0.0)``."""
    size = abs(angle_deg)
    if not size <= LIMIT_DEG:
        raise InputError(f"an angle within ±{LIMIT_DEG:g} degrees was wanted, but {angle_deg!r} came")
    k = math.floor(size / 90.0 + 0.5)
    rest_deg = size - 90.0 * k
    r, c = rest_deg * _RAD_PER_DEG, rest_deg * _RAD_PER_DEG_REST
    s, co = _sine(r, c), _cosine(r, c)
    for _ in range(k & 3):
        # A zero keeps the sign +, so that a heading along an axis has one spelling.
        s, co = co, 0.0 - s
    return (0.0 - s if angle_deg < 0.0 else s), co


def atan2(y: float, x: float) -> float:
    """Return the angle of the vector (x, y) in [-pi, pi], with the usual signs of zeros; NaN and infinities are refused."""
    width, height = abs(x), abs(y)
    swapped = height > width
    small, large = (width, height) if swapped else (height, width)
    if not small <= large < math.inf:
        raise InputError(f"a finite vector was wanted, but ({x!r}, {y!r}) came")
    if not 1e-290 < large < 1e300:
        # A power of two: exact, but for results that are nothing beside the other term.
        scale = 2.0**-40 if large > 1.0 else 2.0**300
        small, large = small * scale, large * scale
    if large == 0.0:
        return math.copysign(PI if math.copysign(1.0, x) < 0.0 else 0.0, y)
    i = math.floor(8.0 * (small / large) + 0.5)
    u = (8.0 * small - i * large) / (8.0 * large + i * small) if i else small / large
    z = u * u
    rest = u * z * (_T3 + z * (_T5 + z * (_T7 + z * (_T9 + z * (_T11 + z * _T13)))))
    negative = math.copysign(1.0, x) < 0.0
    if swapped == negative:
        base, low = _FROM_Y_ON[i] if swapped else _FROM_X[i]
        angle = base + (u + (rest + low)) if base else u + rest
    else:
        base, low = _FROM_Y_BACK[i] if swapped else _FROM_MINUS_X[i]
        angle = base - (u + (rest - low))
    return math.copysign(angle, y)


def to_degrees(angle_rad: float) -> float:
    """Convert radians to degrees, with one rounded product."""
    return angle_rad * _DEG_PER_RAD


def to_radians(angle_deg: float) -> float:
    """Convert degrees to radians, with one rounded product."""
    return angle_deg * _RAD_PER_DEG


def heading_deg(x: float, y: float) -> float:
    """Return the heading of the vector (x, y) in [-180, 180), 0 along +x and 90 along +y."""
    return wrap_deg(to_degrees(atan2(y, x)))


def wrap_deg(angle_deg: float) -> float:
    """Return the angle in [-180, 180) that differs by whole turns; angles already there keep their bits."""
    if -180.0 <= angle_deg < 180.0:
        return angle_deg
    if not -LIMIT_DEG <= angle_deg <= LIMIT_DEG:
        raise InputError(f"an angle within ±{LIMIT_DEG:g} degrees was wanted, but {angle_deg!r} came")
    wrapped = angle_deg - 360.0 * math.floor((angle_deg + 180.0) / 360.0)
    # The quotient may have been rounded across a whole number.
    if wrapped < -180.0:
        wrapped += 360.0
    return wrapped - 360.0 if wrapped >= 180.0 else wrapped
