"""The whole library, in a fixed order: controllers, sensors, props, triggers, vehicles, walkers."""

from collections.abc import Iterable, Iterator
from typing import Final

from samepath.sim.server.blueprints.attributes import common, fact, variation, variations
from samepath.sim.server.blueprints.records import Attribute, Blueprint, Triple
from samepath.sim.server.blueprints.sensors import SENSORS, sensor_attributes
from samepath.sim.server.blueprints.vehicles import vehicle_attributes
from samepath.sim.world.catalogue import ALIASES, CATALOGUE, ActorType, PropType, VehicleType, WalkerType
from samepath.sim.world.catalogue.bystanders import CHILD_NUMBERS

# CARLA's CityObjectLabel.
_LABELS: Final = {"car": 14, "van": 14, "truck": 15, "bus": 16, "motorcycle": 18, "bicycle": 19, "walker": 12}
_STATIC, _DYNAMIC = 20, 21
# A name of ours that CARLA 0.9.16 does not have.
_OURS_ONLY: Final = frozenset({"vehicle.lincoln.mkz"})
_ELDERLY: Final = frozenset({16, 17, 24, 25})
_CHILD_SPEEDS, _ADULT_SPEEDS = ("0.0", "1.0", "2.0"), ("0.0", "1.432", "2.5")
_FRICTION: Final = """
friction float 3.5
extent_x float 1.0
extent_y float 1.0
extent_z float 1.0
"""


def everything() -> Iterator[Blueprint]:
    """All blueprints; uids rise from 1."""
    for uid, (name, attributes, kind) in enumerate(_entries(), start=1):
        tags = ",".join(name.split("."))
        if kind is None:
            yield Blueprint(uid, name, tags, tuple(attributes))
        else:
            centre, half = box_of(kind)
            yield Blueprint(uid, name, tags, tuple(attributes), kind.name, centre, half, _label(kind))


def _entries() -> Iterator[tuple[str, Iterable[Attribute], ActorType | None]]:
    yield "controller.ai.walker", common(), None
    for name in SENSORS:
        yield name, sensor_attributes(name), None
    for name, kind in sorted(CATALOGUE.items()):
        if isinstance(kind, PropType):
            yield name, _prop_attributes(kind), kind
    yield "static.trigger.friction", (*common(), *variations(_FRICTION)), None
    yield "util.actor.empty", common(), None
    for name, kind in sorted({**CATALOGUE, **{old: CATALOGUE[new] for old, new in ALIASES.items()}}.items()):
        if isinstance(kind, VehicleType) and name not in _OURS_ONLY:
            yield name, vehicle_attributes(kind), kind
    for name, kind in sorted(CATALOGUE.items()):
        if isinstance(kind, WalkerType):
            yield name, _walker_attributes(name), kind


def box_of(kind: ActorType) -> tuple[Triple, Triple]:
    """CARLA's bounding box of an actor, middle and half size: down to the ground for vehicles and props, about a walker."""
    if isinstance(kind, WalkerType):
        return (0.0, 0.0, 0.0), (kind.radius_m, kind.radius_m, kind.height_m / 2)
    return (0.0, 0.0, kind.height_m / 2), (kind.length_m / 2, kind.width_m / 2, kind.height_m / 2)


def _label(kind: ActorType) -> int:
    if isinstance(kind, PropType):
        return _DYNAMIC if kind.mass_kg else _STATIC
    return _LABELS[kind.kind]


def _prop_attributes(kind: PropType) -> Iterator[Attribute]:
    yield from common("prop")
    if kind.name == "static.prop.mesh":
        yield variation("mesh_path", "string", ("",))
        yield variation("mass", "float", ("0.0",))
        yield variation("scale", "float", ("1.0",))
    else:
        yield fact("size", "string", _size_word(max(kind.length_m, kind.width_m, kind.height_m)))


def _size_word(largest_m: float) -> str:
    for limit_m, word in ((0.2, "tiny"), (0.6, "small"), (1.5, "medium"), (3.0, "big")):
        if largest_m <= limit_m:
            return word
    return "huge"


def _walker_attributes(name: str) -> Iterator[Attribute]:
    number = int(name.rpartition(".")[2])
    age = "child" if number in CHILD_NUMBERS else "elderly" if number in _ELDERLY else "adult"
    yield from common("pedestrian")
    yield variation("speed", "float", _CHILD_SPEEDS if age == "child" else _ADULT_SPEEDS)
    yield variation("is_invincible", "bool", ("true",))
    yield variation("use_wheelchair", "bool", ("false",), restricted=True)
    yield fact("gender", "string", "female" if number % 2 == 0 else "male")
    yield fact("generation", "int", "2" if number >= 15 else "1")
    yield fact("age", "string", age)
    yield fact("can_use_wheelchair", "bool", "false")
