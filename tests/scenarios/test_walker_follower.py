"""Walkers alone, among others, and head on: tests 6 to 8 of the paper's earlier drafts."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.core.streams import stream
from samepath.scenarios.astar import rasterise
from samepath.scenarios.paths import interpolate
from samepath.scenarios.walkers import WalkerObservation, WalkerObstacle, WalkerSettings, WalkerState, meetings
from tests.support.closed_loop import walk_together, walker

FIELD = rasterise([np.array([[-5.0, -5.0], [30.0, -5.0], [30.0, 5.0], [-5.0, 5.0]])])
WALLED = rasterise(
    [np.array([[-5.0, -5.0], [30.0, -5.0], [30.0, 5.0], [-5.0, 5.0]])],
    holes=[np.array([[10.0, -5.0], [11.0, -5.0], [11.0, 3.0], [10.0, 3.0]])],
)


def settings(**changes):
    return WalkerSettings(**{"step_s": 0.05, **changes})


def head_on(look_ahead_m, *, spaced=False, second_mps=1.4, **pause):
    there, back = [(25.0, 0.0)], [(0.0, 0.0)]
    if spaced:
        there, back = (interpolate([(a, 0.0), (25.0 - a, 0.0)]).tolist() for a in (0.0, 25.0))
    followers = [
        walker(FIELD, there, settings(look_ahead_m=look_ahead_m)),
        walker(FIELD, back, settings(look_ahead_m=look_ahead_m, speed_mps=second_mps)),
    ]
    return walk_together(followers, [(0.0, 0.0), (25.0, 0.0)], **pause)


def nearest_m(trace):
    return min(math.dist(a, b) for a, b in trace)


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("second_mps", [1.4, 1.0])
def test_two_walkers_head_on_avoid_each_other_when_they_look_20_m_ahead(spaced, second_mps):
    trace = head_on(20.0, spaced=spaced, second_mps=second_mps)
    assert nearest_m(trace) > 0.6 + 0.2
    assert math.dist(trace[-1][0], (25.0, 0.0)) <= 0.1
    assert math.dist(trace[-1][1], (0.0, 0.0)) <= 0.1


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("second_mps", [1.4, 1.0])
def test_they_bump_into_each_other_when_they_look_0_4_m_ahead(spaced, second_mps):
    assert nearest_m(head_on(0.4, spaced=spaced, second_mps=second_mps)) < 0.4


def test_the_further_they_look_the_more_room_they_leave():
    rooms = [nearest_m(head_on(look_ahead_m)) for look_ahead_m in (0.4, 2.0, 20.0)]
    assert rooms == sorted(rooms)


def test_walkers_keep_right():
    trace = head_on(20.0)
    # In the left-handed frame the right of +x is +y.
    assert max(y for (_, y), _ in trace) > 0.3
    assert min(y for _, (_, y) in trace) < -0.3


def test_a_wall_is_walked_around():
    follower = walker(WALLED, [(20.0, -2.0)], settings())
    trace = walk_together([follower], [(0.0, -2.0)])
    assert math.dist(trace[-1][0], (20.0, -2.0)) <= 0.1
    # Plans run between centres of cells but start where the walker stands, up to half a cell beside one.
    for ((x, y),) in trace:
        assert any(WALLED.is_walkable(WALLED.cell_of(x + dx, y + dy)) for dx in (-0.13, 0.0, 0.13) for dy in (-0.13, 0.0, 0.13))


def test_waypoints_are_visited_in_turn():
    waypoints = [(5.0, 0.0), (5.0, 4.0), (0.0, 4.0), (0.0, 0.0)]
    trace = [place for (place,) in walk_together([walker(FIELD, waypoints, settings())], [(0.0, 0.0)])]
    visits = [min(range(len(trace)), key=lambda tick, w=w: (math.dist(trace[tick], w) > 0.11, tick)) for w in waypoints[:3]]
    assert visits == sorted(visits)
    assert all(math.dist(trace[tick], w) <= 0.11 for tick, w in zip(visits, waypoints[:3], strict=True))
    assert math.dist(trace[-1], (0.0, 0.0)) <= 0.1


def test_somebody_standing_in_the_way_is_walked_around():
    standing = WalkerObstacle(12.0, 0.1, 0.0, 0.0, 0.3)
    trace = walk_together([walker(FIELD, [(25.0, 0.0)], settings(look_ahead_m=2.0))], [(0.0, 0.0)], bodies=[standing])
    assert min(math.dist(place, (12.0, 0.1)) for (place,) in trace) > 0.6
    assert math.dist(trace[-1][0], (25.0, 0.0)) <= 0.1


def test_nobody_replans_for_those_who_are_elsewhere():
    follower = walker(FIELD, [(25.0, 0.0)], settings(look_ahead_m=20.0))
    state = follower.initial_state(0.0, 0.0)
    aside = [WalkerObstacle(5.0, 3.0, 0.0, 0.0, 0.3), WalkerObstacle(8.0, 4.0, -1.0, 0.0, 0.3)]
    _, after = follower.step(WalkerObservation(0.0, 0.0), aside, state)
    assert after.plans == state.plans


def test_looks_ahead_come_at_a_fixed_period():
    follower = walker(FIELD, [(25.0, 0.0)], settings(look_ahead_m=20.0, replan_ticks=7))
    state, searches = follower.initial_state(0.0, 0.0), []
    for tick in range(30):
        _, after = follower.step(WalkerObservation(0.0, 0.0), [WalkerObstacle(5.0 + tick, 0.0, 0.0, 0.0, 2.0)], state)
        searches += [tick] if after.plans > state.plans else []
        # The plan is forgotten, so that every look ahead finds the obstacle in the way again.
        state = WalkerState(0, state.plan if not searches else ((25.0, 0.0),), after.tick, after.plans)
    assert searches == [tick for tick in searches if tick % 7 == 0]
    assert len(searches) >= 2


def test_the_order_of_others_does_not_matter():
    others = [
        WalkerObstacle(5.0, 0.0, -1.0, 0.0, 0.3),
        WalkerObstacle(7.0, 0.4, 0.0, 0.0, 0.3),
        WalkerObstacle(9.0, -0.4, 0.0, 0.0, 0.5),
    ]
    follower = walker(FIELD, [(25.0, 0.0)], settings(look_ahead_m=20.0))
    state = follower.initial_state(0.0, 0.0)
    first = follower.step(WalkerObservation(0.0, 0.0), others, state)
    assert first == follower.step(WalkerObservation(0.0, 0.0), others[::-1], state)
    assert first[1].plan != state.plan


@pytest.mark.parametrize(
    "rebuild", [lambda s: WalkerState.from_plain(json.loads(json.dumps(s.to_plain()))), lambda s: pickle.loads(pickle.dumps(s))]
)
@pytest.mark.parametrize("tick", [0, 37, 150])
def test_a_stored_state_goes_on_to_the_same_bits(rebuild, tick):
    assert head_on(20.0, pause_at=tick, rebuild=rebuild) == head_on(20.0)


def randomised_walk(seed):
    standing = [WalkerObstacle(6.0 + 4 * k, 0.0, 0.0, 0.0, 0.4) for k in range(4)]
    follower = walker(
        FIELD, [(25.0, 3.1)], settings(look_ahead_m=20.0, queue="randomised"), lambda n: stream(seed, "walker", n)
    )
    return walk_together([follower], [(0.0, -3.1)], bodies=standing)


def test_the_randomised_queue_repeats_under_one_seed():
    assert randomised_walk(1) == randomised_walk(1)


def test_the_last_waypoint_is_reached_at_rest():
    follower = walker(FIELD, [(3.0, 0.0)], settings())
    state = follower.initial_state(0.0, 0.0)
    command, state = follower.step(WalkerObservation(2.98, 0.0), [], state)
    assert (command.direction_x, command.direction_y, command.speed_mps) == (0.0, 0.0, 0.0)
    assert state.finished
    command, _ = follower.step(WalkerObservation(0.0, 0.0), [], state)
    assert command.speed_mps == 0.0


def test_meetings_are_predicted_from_velocities():
    crossing = WalkerObstacle(5.0, -5.0, 0.0, 1.0, 0.3)
    (meeting,) = meetings((0.0, 0.0), [(20.0, 0.0)], 1.0, 20.0, 0.3, [crossing])
    assert (meeting.x_m, meeting.y_m) == pytest.approx((5.0, -0.5), abs=0.15)
    away = WalkerObstacle(5.0, -5.0, 0.0, -1.0, 0.3)
    assert meetings((0.0, 0.0), [(20.0, 0.0)], 1.0, 20.0, 0.3, [away]) == []
    assert meetings((0.0, 0.0), [(20.0, 0.0)], 1.0, 2.0, 0.3, [crossing]) == []


def test_starts_and_waypoints_without_a_way_are_refused():
    island = rasterise(
        [np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 3.0], [0.0, 3.0]]), np.array([[9.0, 0.0], [12.0, 0.0], [12.0, 3.0]])]
    )
    with pytest.raises(InputError, match="no way leads from number 0"):
        walker(island, [(1.0, 1.0), (11.0, 1.0)], settings())
    with pytest.raises(InputError, match="way to the first waypoint"):
        walker(island, [(1.0, 1.0)], settings()).initial_state(11.0, 1.0)
    with pytest.raises(InputError, match="walkable cell"):
        walker(island, [(50.0, 1.0)], settings())
    with pytest.raises(InputError, match="at least one waypoint"):
        walker(island, [], settings())
    with pytest.raises(InputError, match="positive speed_mps"):
        settings(speed_mps=0.0)


places = st.tuples(st.floats(-6, 31), st.floats(-6, 6))
discs = st.builds(WalkerObstacle, st.floats(-5, 30), st.floats(-5, 5), st.floats(-8, 8), st.floats(-8, 8), st.floats(0.2, 1.5))


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.lists(places, min_size=1, max_size=8), st.lists(discs, max_size=5), st.sampled_from([0.4, 2.0, 20.0]))
def test_a_walker_pushed_about_in_a_crowd_always_has_a_sound_command(pushes, crowd, look_ahead_m):
    follower = walker(WALLED, [(5.0, 0.0), (20.0, 0.0), (5.0, 0.0)], settings(look_ahead_m=look_ahead_m, replan_ticks=1))
    state = follower.initial_state(0.0, 0.0)
    for x, y in pushes:
        command, state = follower.step(WalkerObservation(x, y), crowd, state)
        size = math.hypot(command.direction_x, command.direction_y)
        assert 0.0 <= command.speed_mps <= 1.4
        assert size == pytest.approx(1.0) if command.speed_mps else size == 0.0
        assert WalkerState.from_plain(json.loads(json.dumps(state.to_plain()))) == state


def test_a_detour_leaves_out_only_the_waypoints_in_the_way():
    waypoints = [(float(x), 0.0) for x in range(1, 26)]
    follower = walker(FIELD, waypoints, settings(look_ahead_m=20.0))
    standing = WalkerObstacle(6.0, 0.0, 0.0, 0.0, 0.3)
    trace = [place for (place,) in walk_together([follower], [(0.0, 0.0)], bodies=[standing])]
    visited = [w for w in waypoints if min(math.dist(w, place) for place in trace) <= 0.11]
    assert visited[-10:] == waypoints[-10:]
    assert (6.0, 0.0) not in visited
    assert len(visited) >= 15
