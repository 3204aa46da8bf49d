"""How drivers hold speed and distance, against the formulas and against the drivetrain itself."""

import math

import pytest

from samepath.core.catalogue import VEHICLES, actor_type
from samepath.core.states import VehicleCommand
from samepath.simulator.physics.drivetrain import drive
from samepath.simulator.traffic.following import HARDEST_MPS2, follow_mps2, free_mps2, pedals, steer, stop_mps2
from samepath.simulator.traffic.traffic import TRAFFIC_CARS

STEP_S = 0.05


def driven(accelerate, speed_mps, left_m, seconds=60.0):
    """Somebody who drives towards a place: speed and what is left of the way, at every step."""
    rows = []
    for _ in range(round(seconds / STEP_S)):
        change_mps2 = accelerate(speed_mps, left_m)
        assert change_mps2 >= -HARDEST_MPS2
        speed_mps = max(0.0, speed_mps + change_mps2 * STEP_S)
        left_m -= speed_mps * STEP_S
        rows.append((speed_mps, left_m))
    return rows


@pytest.mark.parametrize("speed_mps", [0.0, 5.0, 11.0, 25.0])
def test_on_a_free_road_everybody_comes_to_the_wanted_speed_and_not_beyond(speed_mps):
    rows = driven(lambda speed, _: free_mps2(speed, 11.0), speed_mps, 1e6)
    assert rows[-1][0] == pytest.approx(11.0, abs=0.01)
    assert max(speed for speed, _ in rows) <= max(speed_mps, 11.0)


@pytest.mark.parametrize(("speed_mps", "gap_m"), [(11.0, 60.0), (11.0, 30.0), (14.0, 25.0), (2.0, 4.0), (0.0, 50.0)])
def test_behind_somebody_who_stands_one_stops_with_a_gap(speed_mps, gap_m):
    rows = driven(lambda speed, gap: follow_mps2(speed, 11.0, gap, 0.0), speed_mps, gap_m)
    assert rows[-1][0] < 0.05
    assert 0.5 < min(left for _, left in rows) <= 2.6


@pytest.mark.parametrize("speed_mps", [3.0, 8.0, 11.0])
def test_at_a_line_one_stops_right_before_it(speed_mps):
    rows = driven(lambda speed, left: stop_mps2(speed, 11.0, left), speed_mps, 50.0)
    assert rows[-1][0] < 0.05
    assert 0.0 < rows[-1][1] < 1.0


def test_the_equilibrium_gap_is_that_of_the_model():
    """At the same speed as the one in front nothing changes where (s* / s)² = 1 - (v / v0)⁴."""
    speed_mps, wanted_mps = 8.0, 11.0
    gap_m = (2.0 + 1.2 * speed_mps) / math.sqrt(1.0 - (speed_mps / wanted_mps) ** 4)
    assert follow_mps2(speed_mps, wanted_mps, gap_m, speed_mps) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", TRAFFIC_CARS)
@pytest.mark.parametrize(("speed_mps", "wanted_mps2"), [(3.0, 1.0), (10.0, 0.5), (10.0, -2.0), (6.0, -6.0), (12.0, 0.0)])
def test_pedals_give_the_acceleration_that_is_wanted(name, speed_mps, wanted_mps2):
    kind, gear = actor_type(name), 1
    for _ in range(8):  # the gearbox shifts a step at a time
        throttle, brake, gear = pedals(kind, wanted_mps2, speed_mps, gear)
    forces = drive(kind, VehicleCommand(throttle, 0.0, brake), speed_mps, gear, kind.mean_friction)
    assert forces.gear == gear
    got_mps2 = (forces.engine_n - forces.brake_n - forces.resistance_n) / kind.mass_kg
    # A weak engine gives what it has.
    assert got_mps2 == pytest.approx(wanted_mps2, abs=1e-9) or (throttle == 1.0 and got_mps2 < wanted_mps2)


def test_who_stands_and_wants_nothing_holds_the_brake():
    assert pedals(VEHICLES[0], 0.0, 0.0, 1)[:2] == (0.0, 1.0)


def test_steering_points_to_the_point():
    kind = VEHICLES[0]
    assert steer(kind, 5.0, 0.0, (1.0, 0.0), 5.0) == 0.0
    assert steer(kind, 5.0, 1.0, (1.0, 0.0), 5.0) == -steer(kind, 5.0, -1.0, (1.0, 0.0), 5.0) > 0.0
    assert steer(kind, -5.0, 1.0, (1.0, 0.0), 5.0) == 1.0
