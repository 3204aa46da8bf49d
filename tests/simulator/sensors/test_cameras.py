"""CARLA's cameras: attributes and their limits, encodings, payloads; colours where they can be told."""

import re
import struct
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError, UnknownNameError
from samepath.core.states import Pose
from samepath.simulator.carla.blueprints import find
from samepath.simulator.sensors.cameras import CAMERA_KINDS, CameraSensor, RigRenderer
from samepath.simulator.sensors.images import depth_image, depth_of, normal_image
from samepath.simulator.sensors.labels import ActorAppearance, Label, paint_of
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import FAR_M, Camera, CameraFrame, Channel, Lamp
from samepath.simulator.sensors.weather import SceneWeather, is_dark, light_of
from tests.support.camera_scenes import WEATHERS, along, street, street_scene

ROAD_AHEAD = along(0.0, 0.5, 2.2, 0.0, -5.0, 2.0)


@pytest.fixture(scope="module")
def renderer():
    made = SoftwareRenderer(1)
    yield made
    made.close()


@pytest.mark.parametrize("kind", CAMERA_KINDS)
def test_every_attribute_of_carlas_blueprint_is_taken_with_its_default(kind):
    given = {attribute.id: attribute.value for attribute in find(kind).attributes}
    camera = CameraSensor.from_attributes(kind, given, strict=True)
    assert (camera.width, camera.height, camera.fov_deg, camera.period_s, camera.vignette) == (800, 600, 90.0, 0.0, 0.0)
    assert camera == CameraSensor.from_attributes(kind, {})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("image_size_x", "0", "image_size_x: a whole number from 1 to 8192 pixels"),
        ("image_size_y", "100000", "image_size_y: a whole number from 1 to 8192 pixels"),
        ("image_size_x", "0.5", "image_size_x: a whole number from 1 to 8192 pixels"),
        ("fov", "0", "fov: a number from 1 to 170 degrees"),
        ("fov", "400", "fov: a number from 1 to 170 degrees"),
        ("fov", "wide", "fov: a number"),
        ("sensor_tick", "-1", "sensor_tick: a number from 0"),
        ("gamma", "much", "gamma: a number"),
        ("lens_circle_multiplier", "11", "lens_circle_multiplier: a number from 0 to 10"),
        ("exposure_mode", "auto", "exposure_mode: one of histogram, manual"),
    ],
)
def test_what_lies_outside_its_limits_is_refused_by_name(name, value, words):
    with pytest.raises(InputError, match=words):
        CameraSensor.from_attributes("sensor.camera.rgb", {name: value})


def test_a_picture_too_large_as_a_whole_and_unknown_names_are_refused():
    with pytest.raises(InputError, match="8192 x 8192 came"):
        CameraSensor.from_attributes("sensor.camera.depth", {"image_size_x": 8192, "image_size_y": 8192})
    with pytest.raises(UnknownNameError, match="did you mean 'fov'"):
        CameraSensor.from_attributes("sensor.camera.depth", {"fow": 90}, strict=True)
    with pytest.raises(UnknownNameError, match="camera"):
        CameraSensor.from_attributes("sensor.camera.smell", {})


@given(st.lists(st.floats(0.0, FAR_M, width=32), min_size=1, max_size=50))
def test_depth_survives_its_24_bits(metres):
    frame = CameraFrame(Camera(Pose(), len(metres), 1, 90.0), depth_m=np.array([metres], np.float32))
    image = depth_image(frame)
    assert image.shape == (1, len(metres), 4)
    assert (image[..., 3] == 255).all()
    np.testing.assert_allclose(depth_of(image)[0], metres, atol=0.5 * FAR_M / (2**24 - 1) * 1.001)


def test_normals_run_from_0_to_255():
    normals = np.array([[(127, -127, 0), (0, 0, 127)]], np.int8)
    image = normal_image(CameraFrame(Camera(Pose(), 2, 1, 90.0), normal=normals))
    assert image[0].tolist() == [[127, 0, 255, 255], [255, 127, 127, 255]]


def test_payloads_are_what_carlas_client_reads(renderer):
    scene = street_scene()
    frames = {}
    for kind in CAMERA_KINDS:
        camera = CameraSensor.from_attributes(kind, {"image_size_x": "40", "image_size_y": "30", "fov": "70.5"})
        frame = renderer.render(scene, [camera.at(ROAD_AHEAD)])[0]
        payload = camera.payload(frame)
        size = 8 if kind.endswith("flow") else 4
        assert struct.unpack("<IIf", payload[:12]) == (40, 30, 70.5)
        assert len(payload) == 12 + size * 40 * 30
        frames[kind.rpartition(".")[2]] = np.frombuffer(payload[12:], np.float32 if size == 8 else np.uint8).reshape(30, 40, -1)
    labels, instances = frames["semantic_segmentation"], frames["instance_segmentation"]
    assert set(np.unique(labels[..., 2])) >= {Label.ROADS, Label.SKY, Label.CAR, Label.BUILDINGS}
    assert not labels[..., :2].any()
    np.testing.assert_array_equal(labels[..., 2], instances[..., 2])
    number = instances[..., 1].astype(int) + 256 * instances[..., 0].astype(int)
    assert set(np.unique(number[labels[..., 2] == Label.CAR])) <= {1, 2, 3}
    assert (frames["depth"][labels[..., 2] == Label.SKY][:, :3] == 255).all()


def look(renderer, weather, actors=(), pose=ROAD_AHEAD, **changes):
    scene = street().scene(list(actors), weather, **changes)
    frame = renderer.render(scene, [Camera(pose, 96, 64, 90.0, Channel.COLOUR | Channel.LABEL)])[0]
    return frame.bgra[..., :3].astype(int), frame.label


def test_noon_is_brighter_than_dusk_and_dusk_than_night(renderer):
    noon, dusk, night = (look(renderer, WEATHERS[name])[0].mean() for name in ("noon", "dusk", "night"))
    assert noon > 1.2 * dusk > 1.2 * 1.2 * night > 0


def test_head_lamps_light_the_road_at_night(renderer):
    car = ActorAppearance(1, "vehicle.tesla.model3", along(-4.0, 0.0))
    lit = ActorAppearance(1, "vehicle.tesla.model3", along(-4.0, 0.0), lamps=Lamp.LOW_BEAM)
    dark, labels = look(renderer, WEATHERS["night"], [car], street_lamps_on=False)
    bright, _ = look(renderer, WEATHERS["night"], [lit], street_lamps_on=False)
    road = labels == Label.ROADS
    assert bright[road].mean() > 1.5 * dark[road].mean()
    assert look(renderer, WEATHERS["noon"], [lit])[0].tobytes() == look(renderer, WEATHERS["noon"], [car])[0].tobytes()


def test_the_sun_throws_shadows_on_the_ground_only_and_clouds_take_them_away(renderer):
    from_above = along(10.0, 0.0, 12.0, 0.0, -90.0, 0.0)
    car = ActorAppearance(1, "vehicle.mercedes.sprinter", along(10.0, 0.0))
    clear, grey = (SceneWeather(sun_azimuth_angle=111.8, sun_altitude_angle=45.0, cloudiness=clouds) for clouds in (0.0, 100.0))
    for weather, changed in ((clear, True), (grey, False)):
        without, _ = look(renderer, weather, pose=from_above)
        having, labels = look(renderer, weather, [car], pose=from_above)
        ground = np.isin(labels, [Label.ROADS, Label.ROAD_LINES])
        darker = (having.sum(-1) < 0.8 * without.sum(-1)) & ground
        assert darker.any() == changed
        if changed:
            # The sun stands to the right of the street, so the shadow lies to the left, also in the picture.
            assert np.nonzero(darker)[1].mean() < np.nonzero(labels == Label.CAR)[1].mean()


def test_fog_swallows_what_is_far(renderer):
    clear, labels = look(renderer, SceneWeather())
    foggy, _ = look(renderer, SceneWeather(fog_density=80.0, fog_falloff=0.0))
    thin, _ = look(renderer, SceneWeather(fog_density=80.0, fog_falloff=0.0, fog_distance=60.0))
    houses = labels == Label.BUILDINGS
    assert foggy[houses].std() < 0.6 * clear[houses].std()
    assert foggy[houses].std() < 0.9 * thin[houses].std()


def test_rain_wets_the_road_and_falls_otherwise_at_every_tick(renderer):
    weather = WEATHERS["rain"]
    picture, other, again = (look(renderer, weather, tick=tick)[0] for tick in (1, 2, 1))
    assert picture.tobytes() == again.tobytes() != other.tobytes()


def test_traffic_lights_show_what_they_are_told(renderer):
    from samepath.simulator.maps import load_map
    from samepath.simulator.sensors.scene_builder import scene_builder_of

    town = scene_builder_of(load_map("town"))
    thing = town._lights[0][0]
    sine, cosine = np.sin(np.radians(thing.pose.yaw_deg)), np.cos(np.radians(thing.pose.yaw_deg))
    before_it = Pose(thing.pose.x_m - 3.0 * cosine, thing.pose.y_m - 3.0 * sine, 2.55, yaw_deg=thing.pose.yaw_deg)
    for shown, channel in ((0, 2), (2, 1)):
        frame = renderer.render(
            town.scene([], lights=[shown]), [Camera(before_it, 60, 60, 30.0, Channel.COLOUR | Channel.LABEL)]
        )[0]
        light = frame.bgra[frame.label == Label.TRAFFIC_LIGHT][:, :3].astype(int)
        brightest = light[light[:, channel].argmax()]
        assert brightest[channel] > 200
        assert brightest[channel] > brightest[2 if channel == 1 else 1] + 60


def test_paint_is_the_colour_of_the_car(renderer):
    beside = along(10.0, -8.0, 1.2, yaw_deg=90.0)
    for text, channel in (("200,0,0", 2), ("0,0,200", 0)):
        car = ActorAppearance(1, "vehicle.tesla.model3", along(10.0, 0.0), paint=paint_of(text))
        picture, labels = look(renderer, SceneWeather(sun_azimuth_angle=-68.0), [car], pose=beside)
        assert picture[labels == Label.CAR].mean(axis=0).argmax() == channel
    for wrong in ("red", "1,2", "1,2,300", "-1,0,0"):
        with pytest.raises(InputError, match="a colour like"):
            paint_of(wrong)


def test_vignettes_darken_the_corners(renderer):
    plain = Camera(ROAD_AHEAD, 60, 40, 90.0, Channel.COLOUR)
    camera = CameraSensor.from_attributes(
        "sensor.camera.rgb", {"image_size_x": 60, "image_size_y": 40, "lens_circle_multiplier": 1}
    )
    clear, dark = (frame.bgra[..., :3].astype(int) for frame in renderer.render(street_scene(), [plain, camera.at(ROAD_AHEAD)]))
    assert dark[0, 0].sum() < 0.3 * clear[0, 0].sum()
    assert abs(dark[20, 30] - clear[20, 30]).max() <= 2


def test_pictures_may_be_drawn_into_the_memory_of_the_last_ones_with_the_same_bytes(renderer):
    scene, other = street_scene(), along(3.0, 0.5, 2.2, 0.0, -5.0, 20.0)
    colour, depth = Channel.COLOUR, Channel.DEPTH
    ticks = [[Camera(pose, 60, 40, 90.0, colour), Camera(pose, 60, 40, 90.0, depth)] for pose in (ROAD_AHEAD, other)]
    rig = RigRenderer(overwrites=True)
    try:
        last = None
        for cameras in ticks:
            both = [Camera(cameras[0].pose, 60, 40, 90.0, colour | depth)]
            (wanted,) = renderer.render(scene, both)
            first, second = rig.draw(scene, cameras)
            assert first is second, "cameras that differ in their channels alone are drawn in one go"
            assert (first.bgra.tobytes(), first.depth_m.tobytes()) == (wanted.bgra.tobytes(), wanted.depth_m.tobytes())
            assert first.camera == both[0]
            assert last is None or np.shares_memory(first.bgra, last.bgra)
            last = first
        (larger,) = rig.draw(scene, [Camera(other, 61, 40, 90.0, colour)])
        assert not np.shares_memory(larger.bgra, last.bgra)
        rig.rest()
        (again,) = rig.draw(scene, [Camera(other, 61, 40, 90.0, colour)])
        assert not np.shares_memory(again.bgra, larger.bgra)
    finally:
        rig.close()
    keeps = RigRenderer()
    first, second = (keeps.draw(scene, [Camera(pose, 60, 40, 90.0, colour)])[0] for pose in (ROAD_AHEAD, other))
    assert not np.shares_memory(first.bgra, second.bgra), "frames that somebody keeps are not written over"
    keeps.close()


def test_the_example_of_the_documentation_runs():
    text = (Path(__file__).parents[3] / "docs" / "sensors.md").read_text("utf-8")
    names = {}
    exec(compile(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "docs", "exec"), names)
    assert names["image"].shape == (180, 320, 4)
    assert names["image"].std() > 20
    assert names["depths"].depth_m.min() > 2.0


def test_every_camera_and_weather_parameter_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "sensors.md").read_text("utf-8")
    for name in (*CAMERA_KINDS, *(field.name for field in fields(SceneWeather))):
        assert f"`{name}`" in text, name


def test_light_changes_without_a_jump():
    levels = [sum(light_of(SceneWeather(sun_altitude_angle=0.1 * step)).above) for step in range(-300, 900)]
    assert max(abs(a - b) for a, b in pairwise(levels)) < 0.02
    assert is_dark(SceneWeather(sun_altitude_angle=-5.0))
    assert not is_dark(SceneWeather())
    with pytest.raises(InputError, match="cloudiness"):
        SceneWeather(cloudiness=float("nan"))
