"""The driver in a closed loop with a kinematic bicycle."""

import json
import math
import pickle

import pytest

from samepath.core.errors import InputError
from samepath.scenarios.drivers import VehicleFollower, VehicleObservation, VehicleState, curvatures_per_m
from samepath.scenarios.paths import Path, interpolate
from tests.support.closed_loop import bicycle_drive, curved_path, drive_settings, off_path_m


@pytest.mark.parametrize("cruise_mps", [4.0, 6.0, 8.0])
def test_a_curved_path_is_followed_within_half_a_metre_to_a_stop_at_its_end(cruise_mps):
    path = curved_path()
    trace = bicycle_drive(path, drive_settings(cruise_mps=cruise_mps))
    assert trace[-1][4].hand_brake
    assert trace[-1][2] < 0.1
    assert math.dist(trace[-1][:2], path.points[-1]) <= 0.5
    assert max(off_path_m(path, *row[:2]) for row in trace) < 0.5
    assert max(row[2] for row in trace) == pytest.approx(cruise_mps, rel=0.1)


@pytest.mark.parametrize("look_ahead_m", [0.4, 2.0])
def test_the_papers_look_ahead_distances_keep_to_the_path(look_ahead_m):
    path = curved_path()
    trace = bicycle_drive(path, drive_settings(cruise_mps=5.0, look_ahead_m=look_ahead_m))
    assert trace[-1][4].hand_brake
    assert max(off_path_m(path, *row[:2]) for row in trace) < 0.5


def test_a_vehicle_that_starts_beside_its_path_comes_back_to_it():
    path = Path(interpolate([(0.0, 0.0), (60.0, 0.0)]))
    trace = bicycle_drive(path, drive_settings(), lateral_m=1.5)
    assert abs(trace[-1][1]) < 0.05


def test_bends_are_taken_slowly_enough():
    trace = bicycle_drive(curved_path(), drive_settings(cruise_mps=12.0, lateral_acceleration_mps2=2.0))
    assert max(abs(row[3]) for row in trace) < 2.0 * 1.35


def test_the_wanted_speed_falls_at_the_braking_rate_to_rest():
    follower = VehicleFollower(Path(interpolate([(0.0, 0.0), (50.0, 0.0)])), drive_settings(cruise_mps=8.0, braking_mps2=2.0))
    speeds, arcs = follower.speeds_mps, follower.path.arcs
    assert speeds[0] == 8.0
    assert speeds[-1] == 0.0
    assert speeds[-41] == pytest.approx(math.sqrt(2 * 2.0 * (arcs[-1] - arcs[-41])), rel=1e-9)


def test_the_curvature_of_a_circle_is_one_over_its_radius():
    circle = [(7.0 * math.cos(k / 70), 7.0 * math.sin(k / 70)) for k in range(200)]
    assert curvatures_per_m(Path(circle)) == pytest.approx([1 / 7] * 200, rel=1e-6)


@pytest.mark.parametrize(
    "rebuild",
    [lambda s: VehicleState.from_plain(json.loads(json.dumps(s.to_plain()))), lambda s: pickle.loads(pickle.dumps(s))],
)
def test_a_stored_state_goes_on_to_the_same_bits(rebuild):
    path, settings = curved_path(), drive_settings()
    whole = bicycle_drive(path, settings, ticks=700)
    assert bicycle_drive(path, settings, ticks=700, pause_at=333, rebuild=rebuild) == whole


def test_a_stopped_vehicle_stays_stopped():
    follower = VehicleFollower(Path(interpolate([(0.0, 0.0), (1.5, 0.0)])), drive_settings())
    state = follower.initial_state()
    for _ in range(3):
        command, state = follower.step(VehicleObservation(1.5, 0.0, 1.0, 0.0, 0.0), state)
        assert (command.throttle, command.brake, command.hand_brake, command.reverse) == (0.0, 1.0, True, False)
    command, _ = follower.step(VehicleObservation(0.0, 0.0, 1.0, 0.0, 2.0), state)
    assert command.hand_brake


def test_wrong_settings_are_refused():
    with pytest.raises(InputError, match="positive cruise_mps"):
        drive_settings(cruise_mps=0.0)
