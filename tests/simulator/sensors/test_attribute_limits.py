"""Every attribute of every kind of sensor: what lies outside is refused by name and limit, what lies on the limit is taken."""

from pathlib import Path

import pytest

from samepath.core.errors import InputError
from samepath.scenarios.model import load_scenario
from samepath.simulator.sensors.cameras import CAMERA_KINDS as CAMERAS
from samepath.simulator.sensors.events import ATTRIBUTES as EVENTS
from samepath.simulator.sensors.inertial import GNSS, IMU, OBSTACLE
from samepath.simulator.sensors.lidar import LIDAR, SEMANTIC_LIDAR
from samepath.simulator.sensors.radar import RADAR
from samepath.simulator.sensors.rig import SENSOR_KINDS, SensorSuite, parse_rig
from samepath.simulator.sensors.sensor import NumberAttribute
from samepath.simulator.simulation import Simulation

TABLES = {
    **{kind: camera.attributes for kind, camera in CAMERAS.items()},
    "sensor.camera.dvs": EVENTS,
    "sensor.lidar.ray_cast": LIDAR,
    "sensor.lidar.ray_cast_semantic": SEMANTIC_LIDAR,
    "sensor.other.gnss": GNSS,
    "sensor.other.imu": IMU,
    "sensor.other.obstacle": OBSTACLE,
    "sensor.other.radar": RADAR,
}
PICTURES = [kind for kind in TABLES if ".camera." in kind]
LIDARS = ("sensor.lidar.ray_cast", "sensor.lidar.ray_cast_semantic")
# Of two attributes that limit one another, the other is put out of the way.
BESIDE = {"upper_fov": {"lower_fov": -90.0}, "lower_fov": {"upper_fov": 90.0}}
BESIDE |= {"image_size_x": {"image_size_y": 1}, "image_size_y": {"image_size_x": 1}}


def rig_of(kind, attributes):
    given = ", ".join(f"{name}: {value}" for name, value in attributes.items())
    return parse_rig(f"name: r\nsensors:\n  - {{name: a, type: {kind}, attributes: {{{given}}}}}\n", "my.yaml")


def test_every_kind_of_a_rig_has_its_table():
    assert set(TABLES) == set(SENSOR_KINDS)


@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind not in PICTURES])
def test_limits_and_defaults_are_documented(kind):
    text = (Path(__file__).parents[3] / "docs" / "other-sensors.md").read_text("utf-8")
    for name, attribute in TABLES[kind].items():
        if isinstance(attribute, NumberAttribute):
            assert f"| `{name}` | {attribute.default:g} | {attribute.wanted} |" in text
        else:
            assert f"| `{name}` | {str(attribute.default).lower()} | true or false |" in text


@pytest.mark.parametrize("kind", TABLES)
def test_limits_are_taken_and_what_lies_beyond_is_refused_by_name_and_limit(kind):
    numbers = {name: attribute for name, attribute in TABLES[kind].items() if isinstance(attribute, NumberAttribute)}
    assert "sensor_tick" in numbers
    for name, attribute in numbers.items():
        widest = max(abs(attribute.most), abs(attribute.least))
        step = max(1.0, widest * 2.0**-51) if attribute.whole else widest * 1e-6
        beside = BESIDE.get(name, {})
        SENSOR_KINDS[kind]({name: attribute.most, **beside})
        SENSOR_KINDS[kind]({name: attribute.least + step if attribute.above else attribute.least, **beside})
        wrong = [
            attribute.most + step,
            attribute.least - step,
            "nan",
            "inf",
            "-inf",
            "",
            "many",
            True,
            *([attribute.least] if attribute.above else []),
        ]
        for value in wrong:
            with pytest.raises(InputError) as refused:
                SENSOR_KINDS[kind]({name: value, **beside})
            said = str(refused.value)
            assert said.startswith(f"{kind}: {name}: {attribute.wanted} was wanted, but ")
            assert (f"{int(attribute.most)}" if attribute.whole else f"{attribute.most:.10g}") in said
            assert "\n" not in said


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        *((kind, {"image_size_x": 0}, "image_size_x: a whole number from 1 to 8192 pixels was wanted") for kind in PICTURES),
        *((kind, {"image_size_y": 100000}, "image_size_y: a whole number from 1 to 8192 pixels") for kind in PICTURES),
        *((kind, {"fov": 0}, "fov: a number from 1 to 170 degrees was wanted, but 0 came") for kind in PICTURES),
        *((kind, {"fov": 400}, "fov: a number from 1 to 170 degrees was wanted, but 400 came") for kind in PICTURES),
        *((kind, {"range": -1}, "range: a number above 0 and at most 10000 m") for kind in (*LIDARS, "sensor.other.radar")),
        *((kind, {"channels": 1000000}, "channels: a whole number from 1 to 1024 was wanted") for kind in LIDARS),
    ],
)  # fmt: skip
def test_a_rigs_file_is_refused_in_one_line(kind, attributes, words):
    with pytest.raises(InputError) as refused:
        rig_of(kind, attributes)
    said = str(refused.value)
    assert said.startswith(f"my.yaml: sensor 'a': {kind}: {words}")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        ("sensor.lidar.ray_cast", {"points_per_second": 10**9}, "at most 16777216 rays in a measurement were wanted"),
        ("sensor.lidar.ray_cast_semantic", {"points_per_second": 10**8, "sensor_tick": 60}, "at most 16777216 rays"),
        ("sensor.other.radar", {"points_per_second": 10**8}, "at most 65536 rays in a measurement were wanted"),
        ("sensor.other.radar", {"points_per_second": 2000, "sensor_tick": 3600}, "make 7200000 in 3600 s"),
    ],
)
def test_more_rays_than_fit_into_memory_are_refused_before_anything_runs(kind, attributes, words):
    simulation = Simulation(load_scenario("table1-test2"))
    with pytest.raises(InputError) as refused:
        SensorSuite(rig_of(kind, attributes), simulation.world)
    assert str(refused.value).startswith(f"{kind}: points_per_second: ")
    assert words in str(refused.value)
    simulation.close()
