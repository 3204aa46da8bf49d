"""A rig at work in a scenario: every sensor tells the truth about the same world."""

import numpy as np
import pytest

from samepath.core.catalogue import actor_type
from samepath.core.errors import InputError
from samepath.scenarios.model import build_scenario, load_scenario
from samepath.simulator.physics.frames import point_to
from samepath.simulator.sensors.ground_truth import visible_boxes
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.rig import SensorSuite, boxes_of, load_rig, parse_rig
from samepath.simulator.simulation import Simulation

RIG = """
name: test
sensors:
  - &eye {name: eye, type: sensor.camera.rgb, at: [0.3, 0, 1.6], attributes: {image_size_x: 240, image_size_y: 160, fov: 70}}
  - {<<: *eye, name: depth, type: sensor.camera.depth}
  - {<<: *eye, name: labels, type: sensor.camera.semantic_segmentation}
  - {<<: *eye, name: instances, type: sensor.camera.instance_segmentation}
  - {<<: *eye, name: flow, type: sensor.camera.optical_flow}
  - name: lidar
    type: sensor.lidar.ray_cast_semantic
    at: [0, 0, 2]
    attributes: {channels: 24, upper_fov: 2, lower_fov: -20, points_per_second: 240000, rotation_frequency: 20, range: 80}
  - {name: radar, type: sensor.other.radar, at: [2.5, 0, 0.7], attributes: {points_per_second: 20000}}
  - {name: imu, type: sensor.other.imu}
  - {name: gnss, type: sensor.other.gnss, attributes: {sensor_tick: 0.2}}
  - {name: obstacle, type: sensor.other.obstacle, at: [2.5, 0, 0.8], attributes: {distance: 60, hit_radius: 0.3}}
"""


def on_road(along_m):
    """A point on the right lane of a straight piece of road."""
    return [-66.92 + 0.92848 * along_m, -25.88 + 0.37139 * along_m]


# Two cars on the same road: the first looks at the second, 18 m ahead, which drives away.
SCENARIO = {
    "name": "behind",
    "map": "t-junction",
    "duration": 2.0,
    "end": "duration",
    "actors": [
        {"id": 1, "type": "vehicle.tesla.model3", "path": [on_road(-40), on_road(40)], "speed": 4.0},
        {"id": 2, "type": "vehicle.audi.tt", "path": [on_road(-22), on_road(40)], "speed": 9.0},
    ],
}


def run(suite, simulation, ticks):
    for _ in range(ticks):
        simulation.step()
        suite.follow()


@pytest.fixture(scope="module")
def looked():
    simulation = Simulation(build_scenario(SCENARIO, "test"))
    suite = SensorSuite(parse_rig(RIG, "test"), simulation.world)
    run(suite, simulation, 33)
    measured, views = suite.look(simulation.commands)
    yield simulation, suite, {found.sensor.name: found for found in measured}, views
    suite.close()


def ahead_m(simulation, pose):
    """How far the rear of the other car is, along x of a sensor."""
    other = simulation.world.state(2).pose
    middle = point_to(pose, (other.x_m, other.y_m, other.z_m + 0.7))
    return middle[0] - actor_type("vehicle.audi.tt").length_m / 2


def test_all_sensors_agree_on_how_far_the_car_ahead_is(looked):
    simulation, _, found, _ = looked
    metres = found["depth"].values[..., :3].astype(float) @ [65536.0, 256.0, 1.0] * 1000.0 / (2**24 - 1)
    car = (found["instances"].values[..., 2] == Label.CAR) & (found["instances"].values[..., 1] == 2)
    assert car.sum() > 100
    rear_m = ahead_m(simulation, found["eye"].pose)
    assert metres[car].min() == pytest.approx(rear_m, abs=0.25)
    points = found["lidar"].values
    mine = points[points[:, 4] == 2]
    assert len(mine) > 10
    assert set(mine[:, 5]) == {float(Label.CAR)}
    assert mine[:, 0].min() == pytest.approx(ahead_m(simulation, found["lidar"].pose), abs=0.25)
    detections = found["radar"].values
    moving = detections[detections[:, 0] > -3.0]
    assert len(moving) > 3
    assert moving[:, 3].min() == pytest.approx(ahead_m(simulation, found["radar"].pose), abs=0.4)
    distance_m, actor = found["obstacle"].values
    assert actor == 2
    assert distance_m + 0.3 == pytest.approx(ahead_m(simulation, found["obstacle"].pose), abs=0.3)


def test_the_radar_tells_the_car_ahead_from_the_street_by_its_speed(looked):
    simulation, _, found, _ = looked
    own, other = (simulation.world.state(number).velocity_mps for number in (1, 2))
    growing = np.hypot(other.x, other.y) - np.hypot(own.x, own.y)
    detections = found["radar"].values
    assert growing > 0.5
    receding = detections[detections[:, 0] > 0.0]
    assert np.median(receding[:, 0]) == pytest.approx(growing, rel=0.1)
    street = detections[np.abs(detections[:, 1]) > 0.15]
    np.testing.assert_allclose(street[:, 0], -np.hypot(own.x, own.y) * np.cos(street[:, 1]) * np.cos(street[:, 2]), atol=0.1)


def test_the_accelerometer_feels_what_the_car_does(looked):
    simulation, _, found, _ = looked
    felt = found["imu"].values
    assert felt[2] == pytest.approx(9.81, abs=0.5)
    state = simulation.world.state(1)
    x, y, _ = state.acceleration_mps2
    yaw = np.radians(state.pose.yaw_deg)
    assert felt[0] == pytest.approx(x * np.cos(yaw) + y * np.sin(yaw), abs=0.3)
    assert abs(felt[0]) > 0.3


def test_labels_and_instances_are_those_of_the_same_pixels(looked):
    _, _, found, views = looked
    assert np.array_equal(found["labels"].values[..., 2], found["instances"].values[..., 2])
    (view,) = views
    assert view.names == ("eye", "depth", "labels", "instances", "flow")
    number = found["instances"].values[..., 1] + 256 * found["instances"].values[..., 0].astype(int)
    assert np.array_equal(number, view.instances)
    seen = visible_boxes(view.instances, [2])[2]
    assert 0.95 * view.alone_px[2] <= seen.visible_px <= view.alone_px[2]


def test_a_car_behind_another_is_hidden_to_the_share_that_is_covered():
    actors = [*SCENARIO["actors"], {"id": 3, "type": "vehicle.audi.a2", "path": [on_road(-13), on_road(40)], "speed": 9.0}]
    simulation = Simulation(build_scenario({**SCENARIO, "actors": actors}, "test"))
    suite = SensorSuite(parse_rig(RIG, "test"), simulation.world)
    run(suite, simulation, 2)
    _, (view,) = suite.look()
    suite.close()
    seen = visible_boxes(view.instances, view.alone_px)
    hidden = {number: 1 - (seen[number].visible_px if number in seen else 0) / view.alone_px[number] for number in (2, 3)}
    assert hidden[2] < 0.05
    assert 0.3 < hidden[3] <= 1.0


def test_optical_flow_is_that_of_a_camera_that_drives_ahead(looked):
    _, _, found, _ = looked
    flow = found["flow"].values
    # Left and right of the middle the street flows outwards.
    assert np.mean(flow[100:, :60, 0]) < 0 < np.mean(flow[100:, -60:, 0])


def test_sensors_measure_when_they_are_due():
    simulation = Simulation(build_scenario(SCENARIO, "test"))
    suite = SensorSuite(parse_rig(RIG, "test"), simulation.world)
    seen = []
    for _ in range(9):
        run(suite, simulation, 1)
        seen.append("gnss" in [measured.sensor.name for measured in suite.measure()])
    suite.close()
    assert seen == [True, False, False, False, True, False, False, False, True]


def test_measurements_do_not_depend_on_which_were_asked_for_before():
    def last(asked):
        simulation = Simulation(load_scenario("table1-test2"))
        suite = SensorSuite(load_rig("small"), simulation.world)
        for tick in range(1, 13):
            run(suite, simulation, 1)
            if tick in asked:
                found = suite.measure(simulation.commands)
        suite.close()
        return [measured.values.tobytes() for measured in found]

    assert last({12}) == last({1, 2, 3, 7, 12})


def test_boxes_of_a_scenario_are_seen():
    box = {"name": "barrier", "at": on_road(-28), "size": [0.6, 3.0, 1.1], "yaw_deg": 30.0}
    scenario = build_scenario({**SCENARIO, "actors": SCENARIO["actors"][:1], "boxes": [box]}, "test")
    simulation = Simulation(scenario)
    suite = SensorSuite(parse_rig(RIG, "test"), simulation.world, boxes=boxes_of(scenario))
    run(suite, simulation, 1)
    found = {measured.sensor.name: measured.values for measured in suite.measure()}
    suite.close()
    struck = found["lidar"][found["lidar"][:, 5] == Label.STATIC]
    assert len(struck) > 20
    assert struck[:, 0].min() == pytest.approx(40.0 - 28.0 - 0.3, abs=0.4)
    assert np.count_nonzero(found["labels"][..., 2] == Label.STATIC) > 100
    # Physics has it at the same place.
    assert found["obstacle"][1] == 0
    assert found["obstacle"][0] + 2.5 + 0.3 == pytest.approx(struck[:, 0].min(), abs=0.4)


def test_once_the_bearer_is_gone_nothing_is_measured():
    simulation = Simulation(build_scenario(SCENARIO, "test"))
    suite = SensorSuite(load_rig("small"), simulation.world)
    run(suite, simulation, 1)
    simulation.world.destroy(1)
    suite.follow()
    assert suite.measure() == ()
    assert suite.look() == ((), ())


def test_a_rig_needs_an_actor_and_a_map():
    simulation = Simulation(build_scenario(SCENARIO, "test"))
    with pytest.raises(InputError, match="rig test: actor: one of 1, 2 was wanted, but 7 came"):
        SensorSuite(parse_rig(f"actor: 7\n{RIG}", "test"), simulation.world)
    flat = Simulation(build_scenario({**SCENARIO, "map": "flat"}, "test"))
    with pytest.raises(InputError, match="the flat ground has nothing to see: give the scenario a map"):
        SensorSuite(load_rig("small"), flat.world)


EVENTS_RIG = """
name: events
sensors:
  - &dvs {name: dvs, type: sensor.camera.dvs, at: [0, 0, 2], attributes: {image_size_x: 90, image_size_y: 60, sensor_tick: 0.1}}
  - {<<: *dvs, name: noisy, attributes: {image_size_x: 90, image_size_y: 60, sigma_positive_threshold: 0.1}}
"""


def events_of(wanted, ticks=10):
    """What event cameras tell at some ticks, whichever others are asked for."""
    simulation = Simulation(build_scenario(SCENARIO, "test"))
    suite = SensorSuite(parse_rig(EVENTS_RIG, "events"), simulation.world)
    found = {}
    for tick in range(1, ticks + 1):
        simulation.step()
        suite.follow(commands=simulation.commands)
        if tick in wanted:
            found[tick] = {measured.sensor.name: measured.values for measured in suite.measure(simulation.commands)}
    suite.close()
    simulation.close()
    return found


def test_event_cameras_tell_what_changed_since_their_picture_before_whoever_asks():
    always, seldom = events_of(range(1, 11)), events_of({9})
    assert {tick: sorted(names) for tick, names in always.items() if "dvs" in names} == {
        tick: ["dvs", "noisy"] for tick in (1, 3, 5, 7, 9)
    }
    assert len(always[1]["dvs"]) == len(always[1]["noisy"]) == 0  # nothing to compare the first picture with
    assert always[9].keys() == seldom[9].keys()
    for name, values in seldom[9].items():
        assert values.tobytes() == always[9][name].tobytes()
        column, row, time_ns, polarity = values.T
        assert len(values) > 20
        assert column.max() < 90
        assert row.max() < 60
        assert set(polarity) == {0.0, 1.0}
        since_ns = 350_000_000 if name == "dvs" else 400_000_000
        assert since_ns <= time_ns.min() <= time_ns.max() <= 450_000_000


@pytest.mark.parametrize(
    "car", ["vehicle.tesla.model3", "vehicle.audi.tt", "vehicle.mini.cooper_s", "vehicle.lincoln.mkz_2017"]
)
def test_cameras_of_the_default_rig_see_the_street_and_hardly_the_car_that_bears_them(car):
    rig = load_rig("default")
    colour = [sensor for sensor in rig.sensors if sensor.type == "sensor.camera.rgb"]
    assert [sensor.name for sensor in colour] == ["front", "rear"]
    instances = [sensor.model_copy(update={"type": "sensor.camera.instance_segmentation"}) for sensor in colour]
    actors = [{**SCENARIO["actors"][0], "type": car}]
    simulation = Simulation(build_scenario({**SCENARIO, "actors": actors}, "test"))
    suite = SensorSuite(rig.model_copy(update={"sensors": tuple(instances)}), simulation.world)
    run(suite, simulation, 3)
    for measurement in suite.measure():
        blue, green, label = (measurement.values[..., channel].astype(int) for channel in range(3))
        own = (label == Label.CAR) & (green + 256 * blue == 1)
        assert own.mean() < 0.02, measurement.sensor.name
