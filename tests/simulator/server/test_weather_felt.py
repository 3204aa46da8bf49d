"""Weather that is felt: less grip on wet roads, shorter sight for LiDARs; off by default, and a part of all that repeats."""

import dataclasses
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from test_episode import place, spawn, state

from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import Pose, VehicleCommand
from samepath.scenarios.model import build_scenario
from samepath.simulator.carla.records import WeatherParameters
from samepath.simulator.sensors.weather import SceneWeather, extinction_per_m, light_of, tyre_grip
from samepath.simulator.server import snapshot
from samepath.simulator.server.journal import JournalOrigin
from samepath.simulator.world.world import FrictionVolume, World
from tests.support.serving import call, described, episode, ticks

RAIN = SceneWeather(precipitation=100.0, precipitation_deposits=100.0, wetness=100.0)
FOG = SceneWeather(fog_density=100.0)
DRY = 1.0
DOCS = Path(__file__).parents[3] / "docs" / "serve.md"


def felt(**changes):
    host = episode(**changes)
    host.context = dataclasses.replace(host.context, weather_felt=True)
    return host


def set_weather(host, weather):
    call(host, "set_weather_parameters", list(WeatherParameters(*dataclasses.astuple(weather))))


def stopping_m(grip, friction=None):
    """How far a car rolls on from 15 m/s with the brake fully down."""
    world = World()
    world.set_grip(grip)
    world.spawn("vehicle.tesla.model3", Pose(0.0, 0.0, 0.1))
    if friction is not None:
        world.add_friction_volume(FrictionVolume(0.0, 0.0, 500.0, 500.0, friction))
    world.apply(1, VehicleCommand(throttle=1.0))
    while world.state(1).velocity_mps.x < 15.0:
        world.tick()
    start_m = world.state(1).pose.x_m
    world.apply(1, VehicleCommand(brake=1.0))
    while world.state(1).velocity_mps.x > 0.05:
        world.tick()
    return world.state(1).pose.x_m - start_m


def test_a_wet_road_leaves_seven_tenths_and_standing_water_half():
    assert tyre_grip(SceneWeather()) == tyre_grip(SceneWeather(fog_density=100.0, cloudiness=100.0)) == 1.0
    assert tyre_grip(SceneWeather(wetness=100.0)) == pytest.approx(0.7)
    assert tyre_grip(RAIN) == pytest.approx(0.5)
    for field in ("wetness", "precipitation", "precipitation_deposits"):
        grips = [tyre_grip(SceneWeather(**{field: float(value)})) for value in range(-50, 151, 10)]
        assert grips == sorted(grips, reverse=True)
        assert min(grips) >= 0.5


def test_a_car_needs_so_much_longer_to_stop():
    """v^2 / (2 mu g), where the tyres are what limits; dry, they are not."""
    for grip in (0.7, 0.5):
        assert stopping_m(grip) == pytest.approx(15.0 * 15.0 / (2 * 0.9 * grip * 9.81), rel=0.08)
    assert stopping_m(DRY) < stopping_m(0.7) < stopping_m(0.5)
    # A patch has the friction that whoever put it there said.
    assert stopping_m(0.5, friction=0.3) == stopping_m(DRY, friction=0.3)


def test_a_dry_road_changes_no_bit_and_a_wet_one_is_a_part_of_snapshots():
    plain, dry = World(), World()
    dry.set_grip(DRY)
    assert plain.digest == dry.digest
    wet = World()
    wet.set_grip(0.6)
    assert wet.digest != dry.digest
    wet.spawn("vehicle.tesla.model3", Pose(0.0, 0.0, 0.1))
    wet.apply(1, VehicleCommand(throttle=1.0, steer=0.5))
    for _ in range(20):
        wet.tick()
    again = World.restore(wet.snapshot())
    for world in (wet, again):
        world.spawn("vehicle.audi.tt", Pose(30.0, 30.0, 0.1))  # comes to a wet road
        world.apply(2, VehicleCommand(throttle=1.0, steer=-0.5))
        for _ in range(40):
            world.tick()
    assert again.digest == wet.digest
    assert again.grip == 0.6
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(SimulatorError, match="from 0 to 1 was wanted"):
            wet.set_grip(bad)


def test_a_server_feels_the_weather_only_if_it_was_told_to():
    for host, grip in ((episode(), 1.0), (felt(), 0.5)):
        car = spawn(host).id
        set_weather(host, RAIN)
        assert host.world.grip == pytest.approx(grip)
        call(host, "apply_control_to_vehicle", car, (1.0, 0.0, 0.0, False, False, False, 0))
        ticks(host, 20)
        assert math.hypot(*state(host, car)["motion"][6:8]) > 0.5
        call(host, "load_new_episode", "t-junction", True, 0xFFFF)
        assert host.world.grip == 1.0, "a new episode has CARLA's weather, which is dry"


def test_a_snapshot_and_a_journal_know_it():
    host = felt()
    set_weather(host, RAIN)
    spawn(host)
    again = snapshot.restore(snapshot.take(host), host.context)
    assert again.world.grip == host.world.grip == pytest.approx(0.5)
    assert JournalOrigin.of(JournalOrigin("town", weather_felt=True).plain()).weather_felt
    assert "weather_felt" not in JournalOrigin("town").plain()


def test_a_lidar_sees_as_far_as_the_light_comes_back():
    pytest.importorskip("numba")
    from samepath.simulator.sensors.lidar import reach_m

    for range_m, extinction in ((100.0, 0.075), (100.0, 0.0035), (10.0, 0.02), (10_000.0, 0.1175)):
        seen_m = reach_m(range_m, extinction)
        assert seen_m == pytest.approx(range_m * math.exp(-extinction * seen_m), rel=1e-9)
    assert reach_m(50.0, 0.0) == 50.0
    assert extinction_per_m(SceneWeather()) == 0.0
    for weather in (RAIN, FOG, SceneWeather(fog_density=30.0, dust_storm=50.0)):
        haze = light_of(SceneWeather()).fog_per_m
        assert extinction_per_m(weather) == pytest.approx(light_of(weather).fog_per_m - haze), "what cameras see"
    rain_m, fog_m = (reach_m(100.0, extinction_per_m(weather)) for weather in (RAIN, FOG))
    assert f"of 100 m that is {rain_m:.0f} m in the heaviest rain and {fog_m:.0f} m in the thickest fog" in DOCS.read_text(
        "utf-8"
    )


def points_of(host, weather, kind="sensor.lidar.ray_cast"):
    """What a LiDAR in the middle of the map sees: distances and intensities."""
    set_weather(host, weather)
    quiet = {"dropoff_general_rate": "0", "dropoff_intensity_limit": "0", "dropoff_zero_intensity": "0"}
    more = quiet if kind == "sensor.lidar.ray_cast" else {}
    actor = call(host, "spawn_actor", described(kind, range="100", points_per_second="40000", **more), place(z=2.0))
    stream = struct.unpack("<I", actor.stream_token[:4])[0]
    call(host, "get_sensor_token", stream)
    ticks(host, 1)
    (payload,) = host.context.outbox.of(stream)
    body = payload[48:]
    channels = struct.unpack_from("<I", body, 4)[0]
    points = np.frombuffer(body[8 + 4 * channels :], "<f4").reshape(-1, 4 if kind == "sensor.lidar.ray_cast" else 6)
    return np.linalg.norm(points[:, :3], axis=1), points[:, 3]


def test_a_served_lidar_loses_sight_in_fog_and_its_semantic_sister_does_not():
    pytest.importorskip("numba")
    clear_m, clear = points_of(felt(), SceneWeather())
    fog_m, fog = points_of(felt(), FOG)
    unfelt_m, unfelt = points_of(episode(), FOG)
    assert np.array_equal(clear_m, unfelt_m), "off by default, as in CARLA"
    assert np.array_equal(clear, unfelt)
    assert clear_m.max() > 40.0
    assert 10.0 < fog_m.max() < 21.0
    assert len(fog_m) == (clear_m <= fog_m.max() + 1e-3).sum()
    np.testing.assert_allclose(fog, np.exp(-(0.004 + 2 * 0.075) * fog_m), rtol=1e-5)
    semantic = "sensor.lidar.ray_cast_semantic"
    assert np.array_equal(points_of(felt(), FOG, semantic)[0], points_of(felt(), SceneWeather(), semantic)[0])


def test_a_dataset_feels_it_too(tmp_path):
    pytest.importorskip("numba")
    from samepath.simulator.dataset.files import RecordSettings
    from samepath.simulator.dataset.recording import record
    from samepath.simulator.sensors.rig import parse_rig

    lidar = "{name: lidar, type: sensor.lidar.ray_cast, at: [0, 0, 2], attributes: {range: 90}}"
    rig = parse_rig(f"name: r\nsensors:\n  - {lidar}", "r")
    path = [[-104.06, -40.74], [-29.78, -11.02]]
    data = {"name": "x", "map": "t-junction", "duration": 0.5, "end": "duration"}
    scenario = build_scenario({**data, "actors": [{"id": 1, "type": "vehicle.tesla.model3", "path": path, "speed": 4.0}]}, "s")
    far_m = {}
    for is_felt in (False, True):
        settings = RecordSettings(scenario=scenario, rig=rig, weather=FOG, weather_felt=is_felt)
        folder = tmp_path / str(is_felt)
        record(settings, folder)
        points = np.load(folder / "frames" / "000010" / "lidar.npy")
        far_m[is_felt] = np.linalg.norm(points[:, :3], axis=1).max()
        assert ('"weather_felt": true' in (folder / "dataset.json").read_text()) is is_felt
    assert far_m[True] < 21.0 < far_m[False]
    with pytest.raises(InputError, match="another dataset"):
        record(RecordSettings(scenario=scenario, rig=rig, weather=FOG), tmp_path / "True")
