"""CARLA's methods and a few of our own, one file per family; :func:`methods` is the whole table."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from samepath.simulator.server.methods.table import Method

OURS: Final = "samepath_"
"""What the names of our own methods begin with."""


@cache
def methods() -> Mapping[str, Method]:
    """Every method of the protocol by name, in the order of the families."""
    from samepath.simulator.server.methods import absent, actors, batch, connection, parts, recorder, scenery, vehicles

    found: dict[str, Method] = {}
    for family in (connection, actors, parts, vehicles, scenery, batch, recorder, absent):
        for method in family.TABLE:
            if method.name in found:
                raise ValueError(f"method {method.name} is there twice")
            found[method.name] = method
    return MappingProxyType(found)


class MethodCounts(NamedTuple):
    """How many of CARLA's methods are served: ``listed`` is the sum of the other three."""

    listed: int
    implemented: int
    idle: int  # answered, but doing nothing on purpose
    not_supported: int


def counts() -> MethodCounts:
    """Count CARLA's methods, from the table itself; ours are not among them."""
    carla = [method for name, method in methods().items() if not name.startswith(OURS)]
    idle = sum(1 for method in carla if method.idle)
    not_supported = sum(1 for method in carla if method.handler is None)
    return MethodCounts(len(carla), len(carla) - idle - not_supported, idle, not_supported)
