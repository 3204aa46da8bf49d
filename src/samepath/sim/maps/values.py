"""Values that roads and lanes write alike: speeds and cubic polynomials."""

import math

from samepath.base.units import SPEED_UNITS_MPS
from samepath.sim.maps.bounds import BESIDE_M, SPEED_MAX
from samepath.sim.maps.geometry import Cubic
from samepath.sim.maps.xmlread import Node


def read_speed_mps(node: Node) -> float | None:
    """The ``max`` of a speed record in m/s; None for 'no limit' and 'undefined'."""
    if node.text("max") in {"no limit", "undefined"}:
        return None
    unit = node.text("unit", "m/s")
    if unit not in SPEED_UNITS_MPS:
        raise node.fail(f"a unit of {', '.join(SPEED_UNITS_MPS)} was wanted, but {unit!r} came")
    return node.within("max", 0.0, SPEED_MAX) * SPEED_UNITS_MPS[unit]


def read_station(node: Node, key: str, length_m: float, default: float | None = None) -> float:
    """A place along a road or a section of this length."""
    return node.within(key, -BESIDE_M, length_m + BESIDE_M, default)


def read_cubics(parent: Node, tag: str, key: str, length_m: float, most_m: float) -> tuple[Cubic, ...]:
    """The cubic polynomials called ``tag``, by rising start; where each of them holds it stays below ``most_m``."""
    found = [
        (Cubic(read_station(node, key, length_m), *(node.number(power) for power in "abcd")), node)
        for node in parent.children(tag)
    ]
    found.sort(key=lambda one: one[0].start_m)
    starts_m = [0.0, *(cubic.start_m for cubic, _ in found[1:]), length_m]  # the first one holds from the beginning
    for index, (cubic, node) in enumerate(found):
        largest_m = _largest(cubic, starts_m[index], max(starts_m[index], starts_m[index + 1]))
        if largest_m > most_m:
            raise node.fail(
                f"at most {most_m:g} m was wanted along its road, but a={cubic.a:g} b={cubic.b:g} c={cubic.c:g} d={cubic.d:g} "
                f"from {key}={cubic.start_m:g} come to {largest_m:g} m"
            )
    return tuple(cubic for cubic, _ in found)


def _largest(cubic: Cubic, low_m: float, high_m: float) -> float:
    """The largest size of a polynomial on an interval: at an end, or where its slope is 0."""
    places_m = [low_m, high_m]
    b, c, d = cubic.b, 2.0 * cubic.c, 3.0 * cubic.d
    if d != 0.0 and c * c >= 4.0 * b * d:
        root = math.sqrt(c * c - 4.0 * b * d)
        places_m += [cubic.start_m + (-c + root) / (2.0 * d), cubic.start_m + (-c - root) / (2.0 * d)]
    elif d == 0.0 and c != 0.0:
        places_m.append(cubic.start_m - b / c)
    return max(abs(cubic.value(s_m)) for s_m in places_m if low_m <= s_m <= high_m)
