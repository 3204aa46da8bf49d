"""The blueprint library: CARLA's names, each with a body of its own."""

import fnmatch
import re

import pytest

from samepath.core.catalogue import CATALOGUE, PropType, VehicleType, WalkerType, actor_type
from samepath.core.errors import UnknownNameError
from samepath.core.states import Pose
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.blueprints import AttributeType, find, library
from samepath.simulator.world.world import World
from tests.support.serving import call, described, episode

BODIES = sorted({blueprint.body for blueprint in library() if blueprint.body})

# What CARLA's examples and its own tests look up, with its documented defaults.
LOOKED_UP = {
    "vehicle.*": "color role_name sticky_control=true number_of_wheels base_type generation has_lights special_type",
    "walker.*": "generation is_invincible=true speed role_name age gender",
    "sensor.*": "role_name",
    "sensor.camera.*": "sensor_tick=0.0 image_size_x=800 image_size_y=600 fov=90.0 lens_circle_falloff=5.0 lens_k=-1.0",
    "sensor.camera.rgb": "gamma=2.2 shutter_speed=200.0 exposure_mode=histogram fstop=1.4 iso=100.0",
    "sensor.camera.dvs": "positive_threshold=0.3 use_log=true refractory_period_ns=0",
    "sensor.lidar.*": "channels=32 range=10.0 points_per_second=56000 rotation_frequency=10.0 upper_fov=10.0 lower_fov=-30.0 "
    "horizontal_fov=360.0",
    "sensor.lidar.ray_cast": "atmosphere_attenuation_rate=0.004 dropoff_general_rate=0.45 dropoff_intensity_limit=0.8 "
    "dropoff_zero_intensity=0.4 noise_seed=0 noise_stddev=0.0",
    "sensor.other.radar": "horizontal_fov=30 vertical_fov=30 range=100 points_per_second=1500 noise_seed=0 sensor_tick=0.0",
    "sensor.other.gnss": "noise_lat_stddev=0.0 noise_lon_bias=0.0 noise_alt_stddev=0.0 noise_seed=0 sensor_tick=0.0",
    "sensor.other.imu": "noise_accel_stddev_x=0.0 noise_gyro_stddev_y=0.0 noise_gyro_bias_z=0.0 noise_seed=0 sensor_tick=0.0",
    "sensor.other.obstacle": "distance=5.0 hit_radius=0.5 only_dynamics=false debug_linetrace=false sensor_tick=0.0",
    "static.trigger.friction": "friction=3.5 extent_x=1.0 extent_y=1.0 extent_z=1.0",
    "static.prop.*": "role_name",
    "controller.ai.walker": "role_name",
}


def matching(pattern):
    """As CARLA's client filters: the pattern against the id and against each tag."""
    return [
        blueprint
        for blueprint in library()
        if any(fnmatch.fnmatch(word, pattern) for word in (blueprint.id, *blueprint.tags.split(",")))
    ]


def test_numbers_and_names_are_unique_and_in_order():
    assert [blueprint.uid for blueprint in library()] == list(range(1, len(library()) + 1))
    assert len({blueprint.id for blueprint in library()}) == len(library())
    assert library() is library()


def test_every_id_has_three_parts_and_these_are_its_tags():
    for blueprint in library():
        assert re.fullmatch(r"[^.,]+\.[^.,]+\.[^.,]+", blueprint.id)
        assert blueprint.tags.split(",") == blueprint.id.split(".")


def test_it_holds_what_the_catalogue_of_carla_lists():
    count = {kind: len(matching(f"{kind}.*")) for kind in ("vehicle", "walker", "static", "sensor", "controller", "util")}
    count["vehicle"] -= len(blueprints.OLD_NAMES)
    assert count == {"vehicle": 43, "walker": 49, "static": 97, "sensor": 19, "controller": 1, "util": 1}
    kinds = {item.attribute("base_type").value for item in matching("vehicle.*")}
    assert kinds == {"car", "van", "truck", "bus", "motorcycle", "bicycle"}


@pytest.mark.parametrize("name", ["tt", "mkz_2017", "prius", "a2", "lincoln", "gazelle", "mustang", "*charger_2020"])
def test_short_names_find_vehicles_as_in_carlas_own_tests(name):
    assert matching(name)


@pytest.mark.parametrize("pattern", LOOKED_UP)
def test_attributes_that_scripts_look_up_are_there_with_their_defaults(pattern):
    found = matching(pattern)
    assert found
    for blueprint in found:
        for item in LOOKED_UP[pattern].split():
            name, _, default = item.partition("=")
            if name == "color" and blueprint.id == "vehicle.tesla.cybertruck":
                continue  # comes in steel only, in CARLA too
            assert blueprint.attribute(name) is not None, (blueprint.id, name)
            if default:
                assert blueprint.attribute(name).value == default, (blueprint.id, name)


def test_sensors_that_speak_on_events_have_no_rate():
    for name in ("sensor.other.collision", "sensor.other.lane_invasion", "sensor.other.rss"):
        assert find(name).attribute("sensor_tick") is None


def test_values_are_what_their_types_say():
    parsers = {
        AttributeType.BOOL: lambda text: {"true": True, "false": False}[text],
        AttributeType.INT: int,
        AttributeType.FLOAT: float,
        AttributeType.STRING: str,
        AttributeType.COLOUR: lambda text: [int(part) for part in text.split(",")] + [0] * (3 - len(text.split(","))),
    }
    for blueprint in library():
        assert len({attribute.id for attribute in blueprint.attributes}) == len(blueprint.attributes)
        for attribute in blueprint.attributes:
            for value in (attribute.value, *attribute.recommended):
                parsers[attribute.type](value)
            if attribute.modifiable:
                assert attribute.value == attribute.recommended[0]
            else:
                assert not attribute.recommended


def test_wheels_and_boxes_agree_with_the_body():
    for blueprint in matching("vehicle.*"):
        kind = actor_type(blueprint.body)
        assert int(blueprint.attribute("number_of_wheels").value) == (2 if kind.upright else 4)
        assert blueprint.box_half_m == (kind.length_m / 2, kind.width_m / 2, kind.height_m / 2)
        assert blueprint.box_centre_m == (0.0, 0.0, kind.height_m / 2)
        assert kind.wheel_base_m < kind.length_m
        assert kind.track_m < kind.width_m
        assert 0.0 < kind.clearance_m < kind.height_m / 2
    for blueprint in matching("walker.*"):
        assert blueprint.box_centre_m == (0.0, 0.0, 0.0)


def test_old_names_are_there_for_old_scripts_and_drive_the_new_body():
    assert find("vehicle.mercedes-benz.coupe").body == "vehicle.mercedes.coupe"
    assert find("vehicle.mercedes-benz.coupe").uid != find("vehicle.mercedes.coupe").uid


def test_children_are_smaller_than_adults_and_slower():
    for blueprint in matching("walker.*"):
        child = blueprint.attribute("age").value == "child"
        assert (actor_type(blueprint.body).height_m < 1.5) == child
        assert float(blueprint.attribute("speed").recommended[2]) == (2.0 if child else 2.5)


def test_everything_that_has_a_body_can_be_put_into_one_world():
    world = World()
    for index, name in enumerate(BODIES):
        kind = actor_type(name)
        lift_m = kind.height_m / 2 if isinstance(kind, WalkerType) else 0.0
        world.spawn(name, Pose(20.0 * (index % 16), 20.0 * (index // 16), 0.05 + lift_m))
    before = world.states()
    for _ in range(20):
        assert not world.tick()
    for number, state in world.states().items():
        pose = state.pose
        assert abs(pose.x_m - before[number].pose.x_m) < 0.02
        assert abs(pose.y_m - before[number].pose.y_m) < 0.02
        # A sprung body settles by some centimetres.
        assert abs(pose.z_m - before[number].pose.z_m) < 0.16, world.kind(number)


def test_types_differ_in_size_or_mass():
    vehicles = [kind for kind in CATALOGUE.values() if isinstance(kind, VehicleType)]
    shapes = {(kind.length_m, kind.width_m, kind.height_m, kind.mass_kg) for kind in vehicles}
    assert len(shapes) == len(vehicles) - 1  # our own lincoln.mkz is CARLA's mkz_2017
    assert {kind.mass_kg > 0 for kind in CATALOGUE.values() if isinstance(kind, PropType)} == {True, False}


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean 'vehicle\.audi\.tt'"):
        find("vehicle.audi.ttt")


def test_names_of_older_versions_are_there_behind_all_others():
    """Published scripts ask for them; a name that is missing ends the script."""
    listed = [blueprint.id for blueprint in blueprints.library()]
    old = [name for name in listed if name in blueprints.OLD_NAMES]
    assert old == listed[-len(old) :] == list(blueprints.OLD_NAMES)
    for name, new in blueprints.OLD_NAMES.items():
        former, latter = blueprints.find(name), blueprints.find(new)
        assert (former.body, former.attributes, former.box_half_m) == (latter.body, latter.attributes, latter.box_half_m)
    host = episode()
    car = call(host, "spawn_actor", described("vehicle.lincoln.mkz2017"), call(host, "get_map_info")[1][0])
    assert car.description.id == "vehicle.lincoln.mkz2017"
    assert host.world.kind(car.id).name == "vehicle.lincoln.mkz_2017"
