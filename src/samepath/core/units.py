"""Quantities with units: on the command line, in headers of logs and in printed text.

Inside samepath a length is a float in metres, a duration a float in seconds and an angle a float in degrees (CARLA's
convention); the unit stands last in every name.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

from samepath.core.errors import InputError

LENGTH_UNITS_M: Final = {"km": 1e3, "m": 1.0, "dm": 1e-1, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "µm": 1e-6, "nm": 1e-9}
DURATION_UNITS_S: Final = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
ANGLE_UNITS_DEG: Final = {"deg": 1.0, "rad": math.degrees(1.0)}
SPEED_UNITS_MPS: Final = {"mps": 1.0, "m/s": 1.0, "kmh": 1 / 3.6, "km/h": 1 / 3.6, "mph": 0.44704}

_QUANTITY: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s.+-][^\d\s]*)?\s*")


def parse_quantity(text: str, units: Mapping[str, float], what: str, example: str) -> float:
    """Read a number with one of ``units``, or without: then it is in our own unit."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"a {what} like {example} was wanted, but {text!r} came: write a number and a unit")
    number, unit = match.groups()
    if unit is not None and unit not in units:
        raise InputError(f"a {what} like {example} was wanted, but {text!r} came: use one of {', '.join(units)}")
    # One decimal rounding instead of two: '1cm' becomes 0.01, not 0.010000000000000002 or the like. Only where the unit is a
    # whole part of ours: a km/h is none, and 3.6 rounded to 4 would make 90 km/h of 81.
    factor = 1.0 if unit is None else units[unit]
    parts = round(1 / factor) if 1e-15 < factor < 1 else 0
    value = float(number) / parts if parts and 1 / parts == factor else float(number) * factor
    if not math.isfinite(value):
        raise InputError(f"a finite {what} was wanted, but {text!r} came")
    return value


def parse_length_m(text: str) -> float:
    """Read ``1cm``, ``5 mm`` or ``0.01`` (metres) as metres."""
    return parse_quantity(text, LENGTH_UNITS_M, "length", "1cm, 5 mm or 0.01")


def parse_tolerance_m(text: str) -> float:
    """Read a tolerance: a length that is not negative."""
    value = parse_length_m(text)
    if value < 0:
        raise InputError(f"a tolerance of at least 0 was wanted, but {text!r} came")
    return value


def parse_duration_s(text: str) -> float:
    """Read ``20s``, ``100 ms`` or ``0.1`` (seconds) as seconds."""
    return parse_quantity(text, DURATION_UNITS_S, "duration", "20s, 100 ms or 0.1")


def format_length(value_m: float) -> str:
    """Print a length for people: three figures in the unit that suits; an exact zero is ``0``."""
    if value_m == 0:
        return "0"
    if not math.isfinite(value_m):
        return str(value_m)
    size = abs(value_m)
    if size < 1e-9:
        return f"{value_m:.3g} m"
    # Rounding first, so that 0.99996 mm prints as 1 mm and not as 1e+03 µm.
    size = float(f"{size:.3g}")
    for unit, factor in (("km", 1e3), ("m", 1.0), ("cm", 1e-2), ("mm", 1e-3), ("µm", 1e-6), ("nm", 1e-9)):
        if size >= factor:
            return f"{float(f'{value_m / factor:.3g}'):g} {unit}"
    return f"{value_m:.3g} m"


def format_duration(seconds: float) -> str:
    """Print a time for people: 40 s, 3 min, 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
