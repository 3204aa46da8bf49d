"""Values that roads and lanes write alike: speeds and cubic polynomials."""

from samepath.base.units import SPEED_UNITS_MPS
from samepath.sim.maps.geometry import Cubic
from samepath.sim.maps.xmlread import Node


def read_speed_mps(node: Node) -> float | None:
    """The ``max`` of a speed record in m/s; None for 'no limit' and 'undefined'."""
    if node.text("max") in {"no limit", "undefined"}:
        return None
    unit = node.text("unit", "m/s")
    if unit not in SPEED_UNITS_MPS:
        raise node.fail(f"a unit of {', '.join(SPEED_UNITS_MPS)} was wanted, but {unit!r} came")
    return node.positive("max", zero=True) * SPEED_UNITS_MPS[unit]


def read_cubics(parent: Node, tag: str, key: str) -> tuple[Cubic, ...]:
    """The cubic polynomials called ``tag``, by rising start."""
    cubics = [
        Cubic(node.number(key), node.number("a"), node.number("b"), node.number("c"), node.number("d"))
        for node in parent.children(tag)
    ]
    return tuple(sorted(cubics, key=lambda cubic: cubic.start_m))
