"""CARLA's blueprint library for the actors of our world: ids, tags, attributes, boxes.

A blueprint is CARLA's name for something that can be spawned, with the attributes that a client may set on it.
:func:`library` gives all of them in a fixed order (uids follow it), :func:`find` the one of an id. Ids are those of CARLA
0.9.16; names of older versions, which published scripts use, are there too, behind all others.

Labels of what stands about, and the names CARLA has for them in events and map layers, are here too: :func:`label_of`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

from samepath.core.catalogue import ALIASES, CATALOGUE, CHILD_NUMBERS, ActorType, PropType, VehicleType, WalkerType
from samepath.core.errors import unknown
from samepath.simulator.sensors.labels import OF_SURFACE, Label

Triple = tuple[float, float, float]


class AttributeType(IntEnum):
    """CARLA's types of attribute; every value travels as text, a colour as ``r,g,b``."""

    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    COLOUR = 5


@dataclass(frozen=True)
class BlueprintAttribute:
    """One attribute: its default, what CARLA recommends, whether a client may change it and only to what is recommended."""

    id: str
    type: AttributeType
    value: str
    recommended: tuple[str, ...] = ()
    modifiable: bool = False
    restricted: bool = False


@dataclass(frozen=True)
class Blueprint:
    """Something that can be spawned.

    ``body`` is the type of our world's catalogue that moves for it; empty for what has none (sensors, controllers, triggers).
    The box is CARLA's bounding box: its middle in the actor's frame and half its size. ``label`` is CARLA's CityObjectLabel.
    """

    uid: int
    id: str
    tags: str
    attributes: tuple[BlueprintAttribute, ...]
    body: str = ""
    box_centre_m: Triple = (0.0, 0.0, 0.0)
    box_half_m: Triple = (0.0, 0.0, 0.0)
    label: int = 0

    def attribute(self, name: str) -> BlueprintAttribute | None:
        """The attribute called ``name``."""
        return next((attribute for attribute in self.attributes if attribute.id == name), None)


@cache
def library() -> tuple[Blueprint, ...]:
    """Every blueprint, in order of uid."""
    return tuple(everything())


@cache
def _by_id() -> dict[str, Blueprint]:
    return {blueprint.id: blueprint for blueprint in library()}


def find(blueprint_id: str) -> Blueprint:
    """The blueprint of this id."""
    found = _by_id().get(blueprint_id)
    if found is None:
        raise unknown("blueprint", blueprint_id, _by_id())
    return found


_TYPES: Final = {
    "bool": AttributeType.BOOL,
    "int": AttributeType.INT,
    "float": AttributeType.FLOAT,
    "string": AttributeType.STRING,
    "colour": AttributeType.COLOUR,
}


def variation(name: str, kind: str, recommended: Sequence[str], *, restricted: bool = False) -> BlueprintAttribute:
    """An attribute the client may change; the first recommended value is its default."""
    return BlueprintAttribute(name, _TYPES[kind], recommended[0], tuple(recommended), modifiable=True, restricted=restricted)


def fact(name: str, kind: str, value: str) -> BlueprintAttribute:
    """An attribute the client may only read."""
    return BlueprintAttribute(name, _TYPES[kind], value)


def variations(lines: str) -> Iterator[BlueprintAttribute]:
    """One attribute a line: name, type, default; several defaults are the only ones allowed."""
    for line in filter(None, lines.splitlines()):
        name, kind, *values = line.split()
        yield variation(name, kind, values, restricted=len(values) > 1)


def common(*roles: str) -> Iterator[BlueprintAttribute]:
    """What every blueprint has: a role, and the names ROS would use."""
    yield variation("role_name", "string", roles or ("default",))
    yield variation("ros_name", "string", ("",))
    yield variation("ros_frame_id", "string", ("",))
    yield variation("ros_publish_tf", "bool", ("true",))


# What CARLA's catalogue says of each vehicle beside its shape.

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


def vehicle_attributes(kind: VehicleType) -> Iterator[BlueprintAttribute]:
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


# The sensors' attributes with CARLA's documented defaults.

_PLACES: Final = ("front", "back", "left", "right", "front_left", "front_right", "back_left", "back_right")
_TICK: Final = "sensor_tick float 0.0\n"
_CAMERA: Final = f"""{_TICK}
image_size_x int 800
image_size_y int 600
fov float 90.0
lens_circle_falloff float 5.0
lens_circle_multiplier float 0.0
lens_k float -1.0
lens_kcube float 0.0
lens_x_size float 0.08
lens_y_size float 0.08
"""
_FILM: Final = f"""{_CAMERA}
enable_postprocess_effects bool true
gamma float 2.2
motion_blur_intensity float 0.45
motion_blur_max_distortion float 0.35
motion_blur_min_object_screen_size float 0.1
lens_flare_intensity float 0.1
bloom_intensity float 0.675
exposure_mode string histogram manual
exposure_compensation float 0.0
shutter_speed float 200.0
iso float 100.0
fstop float 1.4
exposure_min_bright float 10.0
exposure_max_bright float 12.0
exposure_speed_up float 3.0
exposure_speed_down float 1.0
calibration_constant float 16.0
focal_distance float 1000.0
blur_amount float 1.0
blur_radius float 0.0
min_fstop float 1.2
blade_count int 5
slope float 0.88
toe float 0.55
shoulder float 0.26
black_clip float 0.0
white_clip float 0.04
temp float 6500.0
tint float 0.0
chromatic_aberration_intensity float 0.0
chromatic_aberration_offset float 0.0
"""
_EVENTS: Final = f"""{_FILM}
positive_threshold float 0.3
negative_threshold float 0.3
sigma_positive_threshold float 0.0
sigma_negative_threshold float 0.0
refractory_period_ns int 0
use_log bool true
log_eps float 0.001
"""
_LIDAR: Final = f"""{_TICK}
channels int 32
range float 10.0
points_per_second int 56000
rotation_frequency float 10.0
upper_fov float 10.0
lower_fov float -30.0
horizontal_fov float 360.0
"""
_LASER: Final = f"""{_LIDAR}
atmosphere_attenuation_rate float 0.004
noise_seed int 0
dropoff_general_rate float 0.45
dropoff_intensity_limit float 0.8
dropoff_zero_intensity float 0.4
noise_stddev float 0.0
"""
_RADAR: Final = f"""{_TICK}
horizontal_fov float 30
vertical_fov float 30
range float 100
points_per_second int 1500
noise_seed int 0
"""
_POSITION_NOISE: Final = """
noise_lat_stddev float 0.0
noise_lat_bias float 0.0
noise_lon_stddev float 0.0
noise_lon_bias float 0.0
noise_alt_stddev float 0.0
noise_alt_bias float 0.0
"""
_ACCELERATION_NOISE: Final = """
noise_accel_stddev_x float 0.0
noise_accel_stddev_y float 0.0
noise_accel_stddev_z float 0.0
"""
_IMU: Final = f"""{_TICK}
noise_seed int 0
{_ACCELERATION_NOISE}
noise_gyro_stddev_x float 0.0
noise_gyro_stddev_y float 0.0
noise_gyro_stddev_z float 0.0
noise_gyro_bias_x float 0.0
noise_gyro_bias_y float 0.0
noise_gyro_bias_z float 0.0
"""
_GNSS: Final = f"""{_TICK}
noise_seed int 0
{_POSITION_NOISE}
"""
_OBSTACLE: Final = f"""{_TICK}
distance float 5.0
hit_radius float 0.5
only_dynamics bool false
debug_linetrace bool false
"""
_RADIO: Final = f"""{_TICK}
noise_seed int 0
frequency_ghz float 5.9
transmit_power float 21.5
receiver_sensitivity float -99.0
combined_antenna_gain float 10.0
scenario string highway rural urban
path_loss_exponent float 2.7
d_ref float 1.0
filter_distance float 500.0
use_etsi_fading bool true
custom_fading_stddev float 0.0
path_loss_model string winner geometric
network_profile string none dsrc wifi 5g
"""
_V2X: Final = f"""{_RADIO}
gen_cam_min float 0.1
gen_cam_max float 1.0
fixed_rate bool false
{_POSITION_NOISE}
noise_head_stddev float 0.0
noise_head_bias float 0.0
{_ACCELERATION_NOISE}
noise_yawrate_stddev float 0.0
noise_yawrate_bias float 0.0
noise_vel_stddev_x float 0.0
"""
# Collision, lane invasion and responsibility sensors speak when something happens: they have no rate.
SENSORS: Final = {
    "sensor.camera.cosmos_visualization": _CAMERA,
    "sensor.camera.depth": _CAMERA,
    "sensor.camera.dvs": _EVENTS,
    "sensor.camera.instance_segmentation": _CAMERA,
    "sensor.camera.normals": _CAMERA,
    "sensor.camera.optical_flow": _CAMERA,
    "sensor.camera.rgb": _FILM,
    "sensor.camera.semantic_segmentation": _CAMERA,
    "sensor.lidar.ray_cast": _LASER,
    "sensor.lidar.ray_cast_semantic": _LIDAR,
    "sensor.other.collision": "",
    "sensor.other.gnss": _GNSS,
    "sensor.other.imu": _IMU,
    "sensor.other.lane_invasion": "",
    "sensor.other.obstacle": _OBSTACLE,
    "sensor.other.radar": _RADAR,
    "sensor.other.rss": "",
    "sensor.other.v2x": _V2X,
    "sensor.other.v2x_custom": _RADIO,
}
_WITHOUT_PLACE: Final = frozenset({"imu", "gnss", "radar", "v2x", "v2x_custom"})


def sensor_attributes(name: str) -> Iterator[BlueprintAttribute]:
    """Everything that can be set on a sensor."""
    yield from common(*(() if name.rpartition(".")[2] in _WITHOUT_PLACE else _PLACES))
    yield from variations(SENSORS[name])


# CARLA's CityObjectLabel.
_LABELS: Final = {"car": 14, "van": 14, "truck": 15, "bus": 16, "motorcycle": 18, "bicycle": 19, "walker": 12}
_STATIC, _DYNAMIC = 20, 21
# A name of ours that CARLA 0.9.16 does not have.
_OURS_ONLY: Final = frozenset({"vehicle.lincoln.mkz"})
# Names up to CARLA 0.9.11, and what they became; the last one has no successor of its own.
OLD_NAMES: Final = {
    "vehicle.charger2020.charger2020": "vehicle.dodge.charger_2020",
    "vehicle.chargercop2020.chargercop2020": "vehicle.dodge.charger_police_2020",
    "vehicle.dodge_charger.police": "vehicle.dodge.charger_police",
    "vehicle.harley-davidson.low rider": "vehicle.harley-davidson.low_rider",
    "vehicle.lincoln.mkz2017": "vehicle.lincoln.mkz_2017",
    "vehicle.lincoln.mkz2020": "vehicle.lincoln.mkz_2020",
    "vehicle.lincoln2020.mkz2020": "vehicle.lincoln.mkz_2020",
    "vehicle.mercedesccc.mercedesccc": "vehicle.mercedes.coupe_2020",
    "vehicle.mini.cooperst": "vehicle.mini.cooper_s",
    "vehicle.mustang.mustang": "vehicle.ford.mustang",
    "vehicle.bmw.isetta": "vehicle.micro.microlino",
}
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


def _entries() -> Iterator[tuple[str, Iterable[BlueprintAttribute], ActorType | None]]:
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
    # Last: the numbers of all others stay as they were.
    for old, new in OLD_NAMES.items():
        kind = CATALOGUE[new]
        if isinstance(kind, VehicleType):
            yield old, vehicle_attributes(kind), kind


def box_of(kind: ActorType) -> tuple[Triple, Triple]:
    """CARLA's bounding box of an actor, middle and half size: down to the ground for vehicles and props, about a walker."""
    if isinstance(kind, WalkerType):
        return (0.0, 0.0, 0.0), (kind.radius_m, kind.radius_m, kind.height_m / 2)
    return (0.0, 0.0, kind.height_m / 2), (kind.length_m / 2, kind.width_m / 2, kind.height_m / 2)


def _label(kind: ActorType) -> int:
    if isinstance(kind, PropType):
        return _DYNAMIC if kind.mass_kg else _STATIC
    return _LABELS[kind.kind]


def _prop_attributes(kind: PropType) -> Iterator[BlueprintAttribute]:
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


def _walker_attributes(name: str) -> Iterator[BlueprintAttribute]:
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


ANY: Final = 255
NONE, ROADS, BUILDINGS, GROUND, OTHER = Label.NONE, Label.ROADS, Label.BUILDINGS, Label.GROUND, Label.OTHER
TRAFFIC_LIGHT, TRAFFIC_SIGNS = Label.TRAFFIC_LIGHT, Label.TRAFFIC_SIGNS

# What CARLA calls scenery that an actor bumps into.
_WORDS: Final = {
    Label.ROADS: "road",
    Label.SIDEWALKS: "sidewalk",
    Label.BUILDINGS: "building",
    Label.WALLS: "wall",
    Label.POLES: "pole",
    Label.TRAFFIC_LIGHT: "traffic_light",
    Label.TRAFFIC_SIGNS: "traffic_sign",
    Label.VEGETATION: "vegetation",
    Label.GROUND: "ground",
    Label.GUARD_RAIL: "guardrail",
    Label.STATIC: "static",
}
# Which labels a map layer holds, by its bit.
LAYERS: Final = {1: Label.BUILDINGS, 4: Label.VEGETATION, 64: Label.STATIC, 128: Label.POLES, 256: Label.WALLS}
ALL_LAYERS: Final = 0xFFFF


def label_of(mesh_label: str) -> int:
    """CARLA's label of a mesh."""
    return int(OF_SURFACE.get(mesh_label, Label.OTHER))


def word_of(label: int) -> str:
    """CARLA's id of a piece of scenery, as its events name it."""
    return f"static.{_WORDS.get(Label(label), 'unlabeled')}"
