"""CARLA's methods and a few of our own, one file per family; ``methods()`` is the whole table."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from samepath.simulator.server.methods.table import Method


@cache
def methods() -> Mapping[str, Method]:
    """Every method of the protocol by name, in the order of the families."""
    from samepath.simulator.server.methods import absent, actors, batch, connection, recorder, scenery, vehicles

    found: dict[str, Method] = {}
    for family in (connection, actors, vehicles, scenery, batch, recorder, absent):
        for method in family.TABLE:
            if method.name in found:
                raise ValueError(f"method {method.name} is there twice")
            found[method.name] = method
    return MappingProxyType(found)
