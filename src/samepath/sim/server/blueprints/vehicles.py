"""What CARLA's catalogue says of each vehicle beside its shape."""

from collections.abc import Iterator
from typing import Final

from samepath.sim.server.blueprints.attributes import common, fact, variation
from samepath.sim.server.blueprints.records import Attribute
from samepath.sim.world.catalogue import VehicleType

_PAINTS: Final = ("17,37,103", "66,63,68", "180,179,175", "123,12,12", "27,27,27", "220,220,215")
_OWN_PAINTS: Final = {
    "vehicle.carlamotors.carlacola": ("255,68,0", "217,20,20"),
    "vehicle.carlamotors.firetruck": ("171,26,18",),
    "vehicle.dodge.charger_police": ("0,0,0",),
    "vehicle.dodge.charger_police_2020": ("20,20,20", "230,230,230"),
    "vehicle.ford.ambulance": ("225,225,225", "255,210,0"),
    "vehicle.ford.crown": ("240,190,0",),
    "vehicle.tesla.cybertruck": (),
}
_SECOND_GENERATION: Final = frozenset(
    {
        "vehicle.carlamotors.european_hgv",
        "vehicle.carlamotors.firetruck",
        "vehicle.dodge.charger_2020",
        "vehicle.dodge.charger_police_2020",
        "vehicle.ford.ambulance",
        "vehicle.ford.crown",
        "vehicle.lincoln.mkz_2020",
        "vehicle.mercedes.coupe_2020",
        "vehicle.mercedes.sprinter",
        "vehicle.mini.cooper_s_2021",
        "vehicle.mitsubishi.fusorosa",
        "vehicle.nissan.patrol_2021",
        "vehicle.tesla.cybertruck",
        "vehicle.volkswagen.t2_2021",
    }
)
_UNLIT: Final = frozenset({"vehicle.carlamotors.european_hgv", "vehicle.tesla.cybertruck"})
_WITHOUT_DOORS: Final = frozenset({*_UNLIT, "vehicle.mitsubishi.fusorosa"})
_SPECIAL: Final = {
    "vehicle.audi.etron": "electric",
    "vehicle.carlamotors.firetruck": "emergency",
    "vehicle.dodge.charger_police": "emergency",
    "vehicle.dodge.charger_police_2020": "emergency",
    "vehicle.ford.ambulance": "emergency",
    "vehicle.ford.crown": "taxi",
    "vehicle.micro.microlino": "electric",
    "vehicle.tesla.cybertruck": "electric",
    "vehicle.tesla.model3": "electric",
    "vehicle.toyota.prius": "electric",
}
_DRIVERS: Final = ("0", "1", "2", "3")


def vehicle_attributes(kind: VehicleType) -> Iterator[Attribute]:
    """Everything that can be asked of or set on a vehicle; those of the second generation have lights and doors."""
    name = kind.name
    newer = name in _SECOND_GENERATION
    yield from common("autopilot", "scenario", "ego_vehicle")
    paints = _OWN_PAINTS.get(name, _PAINTS)
    if paints:
        yield variation("color", "colour", paints)
    if kind.upright or name == "vehicle.lincoln.mkz_2020":
        yield variation("driver_id", "int", _DRIVERS, restricted=True)
    yield variation("sticky_control", "bool", ("true",))
    yield variation("terramechanics", "bool", ("false",))
    yield fact("object_type", "string", "")
    yield fact("base_type", "string", kind.kind)
    yield fact("special_type", "string", _SPECIAL.get(name, ""))
    yield fact("number_of_wheels", "int", "2" if kind.upright else "4")
    yield fact("generation", "int", "2" if newer else "1")
    yield fact("has_dynamic_doors", "bool", "true" if newer and name not in _WITHOUT_DOORS else "false")
    yield fact("has_lights", "bool", "true" if newer and name not in _UNLIT else "false")
