"""Perception in the loop: a controller is given the frames of the very step it decides on; what it does repeats to the bit."""

import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from samepath.core.errors import SamepathError
from samepath.core.states import Pose
from samepath.engines.conformance import run_request
from samepath.engines.interface import REPLAY_EGO, REPLAY_SIGHT, RunRequest
from samepath.engines.samepath import Samepath
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.recordings import check, recording_of
from samepath.scenarios.agents import SensorReading
from samepath.scenarios.camera_driver import LanePoint, PinholeView, gap_m, lane_points
from samepath.scenarios.model import build_scenario, load_scenario
from samepath.simulator.sensors.cuda import rays as card_rays
from samepath.simulator.sensors.cuda import renderer as card_renderer
from samepath.simulator.sensors.cuda.host_device import COMPILER
from samepath.simulator.simulation import Simulation
from tests.support import looking
from tests.support.emulated_card import EmulatedCard

ROAD, LINE, GRASS, CAR = 1, 24, 10, 14
EGO = {"ego": "camera"}
TEST4 = RunRequest("table1-test4", 0, settings=EGO)


def straight(**fields):
    """One car on the road of the T-junction that goes where its controller wants."""
    actor = {"id": 1, "type": "vehicle.mercedes.coupe", "path": [[-74.96, -29.1], [-37.82, -14.24]], **fields}
    return build_scenario({"name": "looks", "map": "t-junction", "duration": 0.5, "actors": [actor]}, "test")


def steps(simulation, count):
    try:
        return [simulation.step() for _ in range(count)]
    finally:
        simulation.close()


def test_a_controller_is_given_the_frames_of_the_very_step_it_decides_on():
    looking.SEEN.clear()
    simulation = Simulation(straight(controller="tests.support.looking:drive", rig="small"))
    steps(simulation, 4)
    assert [(tick, round(time_s, 9)) for tick, time_s, _ in looking.SEEN] == [(0, 0.0), (1, 0.05), (2, 0.1), (3, 0.15)]
    for tick, time_s, readings in looking.SEEN:
        assert set(readings) == {"front", "front-depth", "front-labels", "lidar", "radar", "imu", "gnss"}
        assert {(reading.step, reading.time_s) for reading in readings.values()} == {(tick, time_s)}
    moved = [readings["front"].values.tobytes() for _, _, readings in looking.SEEN]
    assert moved[3] != moved[0], "the car moves, and with it what it sees"
    with pytest.raises(ValueError, match="read-only"):
        looking.SEEN[0][2]["front"].values[0] = 0


def test_what_a_thread_looks_at_stays_while_the_world_goes_on():
    simulation = Simulation(straight(controller="tests.support.looking:drive", rig="driver"))
    view = simulation.view(lasting=True)
    before = view.sensors(1)["road"]
    steps(simulation, 3)
    assert view.sensors(1)["road"] is before
    assert before.step == 0
    given = [(actor, reading.name, reading.step) for actor, reading in simulation.perception.given()]
    assert given == [(1, name, step) for step in range(3) for name in ("road", "lidar")], "each once, however often asked for"


def test_a_process_of_its_own_is_shown_the_same():
    program = [sys.executable, "-m", "tests.support.looking"]
    simulation = Simulation(straight(process=program, rig="driver"))
    steps(simulation, 2)
    assert simulation.commands[1].throttle == 0.4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"controller": "tests.support.looking:blind"}, "actor 1 carries no sensors: give it a rig in the scenario"),
        ({"rig": "driver"}, "rig: only a controller of its own, or a process, looks through an actor's sensors"),
        ({"controller": "tests.support.looking:drive", "rig": "drivr"}, "unknown rig 'drivr': did you mean 'driver'?"),
        ({"controller": "camera", "rig": "./no-such.yaml"}, "no-such.yaml cannot be read: No such file"),
        ({"controller": "camera", "type": "walker.pedestrian.0001"}, "the controller camera drives a vehicle"),
    ],
)
def test_what_cannot_look_is_refused_in_a_line(fields, words):
    with pytest.raises(SamepathError, match=words) as error:
        steps(Simulation(straight(**fields)), 1)
    assert "\n" not in str(error.value)


def test_only_a_vehicle_on_a_map_can_be_driven_by_its_camera():
    with pytest.raises(SamepathError, match="there is none"):
        load_scenario("table1-test5").driven_by_camera()
    with pytest.raises(SamepathError, match="the flat ground has no lanes"):
        straight().model_copy(update={"map": "flat"}).driven_by_camera()
    with pytest.raises(SamepathError, match="unknown driver of the ego 'camra'"):
        run_request(Samepath(), replace(TEST4, settings={"ego": "camra"}))


@pytest.fixture(scope="module")
def seen():
    """Test 4, in which the driver with a script hits the pedestrian at tick 139, driven by camera."""
    return run_request(Samepath(), replace(TEST4, duration_s=9.0))


def test_the_ego_brakes_for_the_pedestrian_whom_the_script_hits(seen):
    assert [event for event in seen.events if event.kind == "collision"] == []
    ego = seen.values[seen.actor == 1]
    speed = np.hypot(*(ego[:, seen.channels.index(name)] for name in ("vx_mps", "vy_mps")))
    assert speed[60:100].min() > 5.0
    assert speed[139:145].max() < 0.5, "it has stopped"
    assert speed[175:].max() > 1.0, "and goes on once the way is free"


def test_it_keeps_its_lane_by_what_it_sees(seen):
    start, end = np.array([-74.96, -29.1]), np.array([-28.54, -10.53])
    along = (end - start) / np.linalg.norm(end - start)
    at = seen.values[seen.actor == 1][:, :2] - start
    assert np.abs(at[:, 0] * along[1] - at[:, 1] * along[0]).max() < 0.3
    simulation = Simulation(load_scenario("table1-test4").driven_by_camera())
    agent = simulation.agents[1]
    steps(simulation, 60)
    assert (agent.state.by_camera, agent.state.by_route) == (60, 0)


def test_what_it_was_given_is_in_the_trace_by_its_digest(seen):
    frames = {(frame.sensor, frame.kind) for frame in seen.sensors}
    assert frames == {("actor1.road", "sensor.camera.semantic_segmentation"), ("actor1.lidar", "sensor.lidar.ray_cast")}
    assert [frame.tick for frame in seen.sensors if frame.sensor == "actor1.road"] == list(range(180))


def test_the_times_of_every_frame_are_in_the_trace(seen):
    host = seen.host
    assert len(host.frame_s) == 180
    assert host.frame_ticks.tolist() == list(range(1, 181))
    assert (host.draw_s > 0).all()
    assert (host.frame_s >= (host.game_s + host.draw_s) * 0.999).all()


def test_a_snapshot_in_the_middle_goes_on_to_the_bit():
    simulation = Simulation(load_scenario("table1-test4").driven_by_camera())
    for _ in range(8):
        simulation.step()
    again = Simulation.restore(simulation.snapshot())
    steps(again, 8)
    steps(simulation, 8)
    assert again.world.digest == simulation.world.digest
    assert again.agents[1].state == simulation.agents[1].state


def test_in_lockstep_a_part_that_is_replayed_changes_no_bit():
    request = replace(TEST4, duration_s=1.0)
    commands = Samepath().record_commands(request)
    whole = replace(request, commands=commands)
    requests = [*(replace(whole, replay=replay) for replay in (REPLAY_EGO, REPLAY_SIGHT)), whole, request]
    runs = [run_request(Samepath(), repeated) for repeated in requests]
    assert len({run.digest for run in runs}) == 1
    assert [len(run.sensors) for run in runs] == [0, 40, 0, 40], "who is replayed does not look"
    assert [frame.digest for frame in runs[1].sensors] == [frame.digest for frame in runs[3].sensors]


def test_shown_another_run_the_ego_goes_by_that(seen):
    # That of the script, which never brakes: its car hits the pedestrian and drives on along an empty road.
    request = replace(TEST4, duration_s=9.0)
    commands = Samepath().record_commands(replace(request, settings={}))
    shown = run_request(Samepath(), replace(request, commands=commands, replay=REPLAY_SIGHT))
    assert shown.digest != seen.digest
    assert [frame.digest for frame in shown.sensors] != [frame.digest for frame in seen.sensors]


def test_a_run_with_an_ego_beside_the_loop_is_played_again_without_it():
    loop = {"mode": "real-time", "controllers": "thread", "time_scale": 5.0, **EGO}
    request = RunRequest("table1-test4", 0, settings=loop, duration_s=1.0)
    stored = run_request(SamepathGameLoop(), request)
    assert stored.sensors
    recording = recording_of(request, "samepath-game-loop", stored)
    assert check(recording, "test").steps == 20


def picture(*parts, rows=96):
    """A row of labels as wide as a picture, repeated: (label, columns) from left to right."""
    row = np.concatenate([np.full(columns, label, np.uint8) for label, columns in parts])
    return np.tile(row, (rows, 1))


VIEW = PinholeView(ahead_m=2.4, right_m=0.0, height_m=1.5, pitch_deg=-12.0, focal_px=96.0, width=192, height=96)


def test_a_row_of_the_picture_lies_as_far_ahead_as_geometry_says():
    """Against the ray of a pixel, worked out from the camera's matrix."""
    pitch = np.deg2rad(VIEW.pitch_deg)
    for ahead_m in (5.0, 8.0, 12.0):
        row = VIEW.row_of(ahead_m)
        tilted = np.array([[np.cos(pitch), np.sin(pitch)], [np.sin(pitch), -np.cos(pitch)]])
        rays = [tilted @ np.array([1.0, (edge - 48) / 96.0]) for edge in (row + 1, row)]
        near, far = (VIEW.ahead_m - VIEW.height_m * ray[0] / ray[1] for ray in rays)
        assert near <= ahead_m <= far
    assert VIEW.row_of(2.0) is None, "behind the camera"


def test_the_middle_lies_between_two_lines_or_half_a_lane_from_the_right_one():
    row = VIEW.row_of(8.0)
    per_m = 1.0 / VIEW.metres_per_column(row)
    left, right = round(96 - 1.5 * per_m), round(96 + 1.9 * per_m)
    labels = np.full((96, 192), GRASS, np.uint8)
    labels[row, left:right] = ROAD
    (point,) = [point for point in lane_points(labels, VIEW) if point.ahead_m == 8.0] or [None]
    assert point is None or abs(point.right_m - 0.2) < 0.1
    alone = lane_points(picture((LINE, 96 - 40), (ROAD, 80), (LINE, 56)), VIEW)
    assert all(abs(point.right_m) < 0.02 for point in alone if 80 * VIEW.metres_per_column(VIEW.row_of(point.ahead_m)) >= 2.4)
    assert alone
    assert lane_points(picture((ROAD, 192)), VIEW) == [], "road everywhere: a junction tells nothing"
    assert lane_points(picture((GRASS, 192)), VIEW) == []
    assert lane_points(picture((LINE, 56), (ROAD, 30), (CAR, 20), (ROAD, 30), (LINE, 56)), VIEW) == [], "a car hides the ground"


def test_a_yawed_camera_is_refused():
    reading = SensorReading("eye", "sensor.camera.semantic_segmentation", 0, 0.0, Pose(yaw_deg=90.0), {}, np.zeros((2, 2, 4)))
    with pytest.raises(SamepathError, match="looks straight ahead"):
        PinholeView.of(reading, 1.4)


def test_the_nearest_thing_in_the_way_counts_and_nothing_else():
    def points(*places):
        return np.array([[x, y, z, 1.0] for x, y, z in places], np.float32)

    wall = points((10.0, 0.0, -1.0), (10.0, 0.1, -1.0))
    assert gap_m(wall, 1.4, 2.0, 0.0, 1.3) == pytest.approx(11.4)
    assert gap_m(points((10.0, 0.0, -1.0)), 1.4, 2.0, 0.0, 1.3) is None, "one return may be a stray"
    assert gap_m(points((10.0, 0.0, -1.9), (9.0, 0.0, -1.95)), 1.4, 2.0, 0.0, 1.3) is None, "the ground"
    assert gap_m(points((10.0, 2.0, -1.0), (9.0, -2.0, -1.0)), 1.4, 2.0, 0.0, 1.3) is None, "beside the way"
    assert gap_m(points((10.0, 2.0, -1.0), (10.0, 2.1, -1.0)), 1.4, 2.0, 0.03, 1.3) is not None, "but on the bend"
    assert LanePoint(1.0, 2.0).right_m == 2.0


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
def test_a_card_shows_the_ego_the_same_bytes(monkeypatch):
    for module in (card_renderer, card_rays):
        monkeypatch.setattr(module, "CudaDriver", EmulatedCard)
    runs = []
    for renderer in ("software", "cuda"):
        simulator = Samepath()
        simulator._card = SimpleNamespace(close=lambda: None)  # nothing to hold open: there is no card
        runs.append(run_request(simulator, replace(TEST4, settings={**EGO, "renderer": renderer}, duration_s=0.15)))
        simulator.close()
    ours, theirs = runs
    assert theirs.digest == ours.digest
    assert [frame.digest for frame in theirs.sensors] == [frame.digest for frame in ours.sensors]
    assert len(ours.sensors) == 6
