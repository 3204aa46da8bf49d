"""Rigs: files that say which sensors an actor carries, refused in one line that helps."""

import pytest

from samepath.core.errors import InputError, UnknownNameError
from samepath.core.states import Pose
from samepath.simulator.sensors.rig import built_in_rigs, load_rig, parse_rig


def rig(sensor):
    return f"name: test\nsensors:\n  - {sensor}\n"


@pytest.mark.parametrize("name", ["default", "small"])
def test_the_rigs_that_come_with_samepath_are_valid(name):
    assert name in built_in_rigs()
    assert load_rig(name).name == name


def test_a_sensor_sits_where_the_file_says():
    (sensor,) = parse_rig(rig("{name: a, type: sensor.other.imu, at: [1, 2, 3], roll: 4, pitch: 5, yaw: 6}"), "f").sensors
    assert sensor.pose == Pose(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (rig("{name: a, type: sensor.camera.rbg}"), "unknown type of sensor 'sensor.camera.rbg'; did you mean 'sensor.camera."),
        (rig("{name: A b, type: sensor.other.imu}"), "sensors[0].name: a name of small letters, digits, - and _ was wanted"),
        (rig("{name: ../x, type: sensor.other.imu}"), "a name of small letters"),
        (rig("{name: a, type: sensor.other.imu, at: [1, 2]}"), "sensors[0].at"),
        (rig("{name: a, type: sensor.other.imu, at: [1, 2, 1e6]}"), "at: a place within 100 m of the actor was wanted"),
        (rig("{name: a, type: sensor.other.imu, place: [1, 2, 3]}"), "unknown key 'sensors[0].place'"),
        (rig("{name: a, type: sensor.lidar.ray_cast, attributes: {channels: 1.0e+6}}"), "channels: a whole number from 1 to"),
        (rig("{name: a, type: sensor.camera.rgb, attributes: {image_size_x: 0}}"), "image_size_x: "),
        (rig("{name: a, type: sensor.camera.depth, attributes: {fov: 400}}"), "fov: "),
        (rig("{name: a, type: sensor.lidar.ray_cast, attributes: {chanels: 4}}"), "did you mean 'channels'?"),
        ("name: test\nsensors: []\n", "sensors: "),
        (rig("{name: a, type: sensor.other.imu}\n  - {name: a, type: sensor.other.gnss}"), "a is there twice"),
        ("- 1\n", "a rig with the keys name, description, actor, sensors was wanted"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(text, words):
    with pytest.raises(InputError) as refused:
        parse_rig(text, "my.yaml")
    assert str(refused.value).startswith("my.yaml: ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_rig_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'small'"):
        load_rig("smal")
    with pytest.raises(InputError, match="cannot be read"):
        load_rig(str(tmp_path / "none.yaml"))
