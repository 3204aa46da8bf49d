"""The types of actors: sizes, masses, engines, under the names CARLA's blueprint library uses.

Sizes and masses are rounded from public data sheets of such vehicles. Engines follow one honest simplification: a flat-topped
torque curve, an automatic gearbox without slip, a fixed efficiency of 0.9, drag and rolling resistance; enough for
plausible 0-100 km/h times, top speeds and braking distances, not for powertrain studies.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from samepath.base.suggest import unknown
from samepath.sim.world.catalogue.bystanders import PROPS, WALKERS
from samepath.sim.world.catalogue.records import ActorType, Engine, PropType, VehicleType, WalkerType, WheelFit
from samepath.sim.world.catalogue.vehicles import VEHICLES

__all__ = ["ALIASES", "CATALOGUE", "ActorType", "Engine", "PropType", "VehicleType", "WalkerType", "WheelFit", "actor_type"]

# Names of older CARLA versions, which existing scripts use.
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "vehicle.mercedes-benz.coupe": "vehicle.mercedes.coupe",
        "vehicle.mercedes-benz.sprinter": "vehicle.mercedes.sprinter",
    }
)

_ALL: Final[tuple[ActorType, ...]] = (*VEHICLES, *WALKERS, *PROPS)
CATALOGUE: Final[Mapping[str, ActorType]] = MappingProxyType({one.name: one for one in _ALL})


def actor_type(name: str) -> ActorType:
    """Return the type called ``name``, by its own or an older name."""
    found = CATALOGUE.get(ALIASES.get(name, name))
    if found is None:
        raise unknown("actor type", name, [*CATALOGUE, *ALIASES])
    return found
