"""Everything in a street, made of triangles by code: vehicles, people, props, and what surrounds them.

The front is :func:`actor_models`, a model for every type of actor in the catalogue. No files of art: shapes follow from the
catalogue's sizes, so a new type has a body at once, and the bits are the same on every machine.
"""

from dataclasses import dataclass
from functools import cache

from samepath.core.catalogue import CATALOGUE, PropType, VehicleType, WalkerType
from samepath.simulator.sensors.meshes.builder import MeshModel
from samepath.simulator.sensors.meshes.people import walker
from samepath.simulator.sensors.meshes.props import prop
from samepath.simulator.sensors.meshes.vehicles import bus, car, cycle, truck

_WEDGES = frozenset({"vehicle.tesla.cybertruck"})


@dataclass(frozen=True, eq=False)
class ActorModels:
    """Models by name of type; walkers have one per pose, and those of a size share them."""

    single: dict[str, MeshModel]
    posed: dict[float, tuple[MeshModel, ...]]


@cache
def actor_models() -> ActorModels:
    """All of them, in the order of the catalogue."""
    single: dict[str, MeshModel] = {}
    posed: dict[float, tuple[MeshModel, ...]] = {}
    for name, kind in CATALOGUE.items():
        if isinstance(kind, WalkerType):
            if kind.height_m not in posed:
                posed[kind.height_m] = walker(kind.height_m, len(posed))
        elif isinstance(kind, PropType):
            single[name] = prop(kind)
        else:
            single[name] = vehicle(kind)
    return ActorModels(single, posed)


def vehicle(kind: VehicleType) -> MeshModel:
    """A vehicle of any kind."""
    if kind.kind == "bus":
        return bus(kind)
    if kind.kind == "truck" and kind.name not in _WEDGES:
        return truck(kind)
    if kind.upright:
        return cycle(kind)
    return car(kind)
