"""What drivers and walkers know of a map: checked against the map itself and against plain geometry."""

import math
from itertools import pairwise

import pytest

from samepath.core.errors import SamepathError
from samepath.simulator.maps import available_maps, load_map
from samepath.simulator.traffic.drivers import endless_lanes
from samepath.simulator.traffic.roads import CONFLICT_M, road_net
from samepath.simulator.traffic.traffic import TRAFFIC_CARS, TrafficSettings, newcomers
from samepath.simulator.traffic.walkways import walk_net
from samepath.simulator.world.signals import plan_of


@pytest.fixture(scope="module")
def town():
    return load_map("town")


@pytest.fixture(scope="module")
def net(town):
    return road_net(town)


def length_m(lane):
    return sum(math.dist(a, b) for a, b in pairwise(zip(lane.xs_m, lane.ys_m, strict=True)))


def test_lanes_are_as_long_as_their_lines_and_follow_each_other_where_they_end(net):
    for lane in net.lanes:
        assert lane.length_m == pytest.approx(length_m(lane), rel=1e-9)
        for other in net.after[lane.number]:
            gap_m = math.dist((lane.xs_m[-1], lane.ys_m[-1]), (net.lanes[other].xs_m[0], net.lanes[other].ys_m[0]))
            assert gap_m < 0.01


def test_every_light_and_sign_of_the_plan_has_its_gate(town, net):
    plan = plan_of(town)
    ruled = {(net.lanes[gate.lane].key.road_id, net.lanes[gate.lane].key.lane_id): gate for gate in net.gates}
    for number, light in enumerate(plan.lights):
        for stop in light.stops:
            gate = ruled[stop.road_id, stop.lane_id]
            assert gate.light == number
            assert math.dist(net.lanes[gate.lane].place(gate.stop_m), (stop.x_m, stop.y_m)) < 0.6
    stops = [gate for gate in net.gates if gate.stops_always]
    assert len(stops) == sum(len(sign.stops) for sign in plan.signs if sign.signal.kind == "206") > 0
    assert all(gate.yields and gate.light < 0 for gate in stops)


def test_conflicts_are_where_two_lanes_come_too_near_and_nowhere_else(net):
    """Against every pair of points: the stretches that are kept hold all that are near, and their ends are near."""
    inside = [lane for lane in net.lanes if lane.is_junction][:24]
    for lane in inside:
        kept = {conflict.other: conflict for conflict in net.conflicts[lane.number]}
        shared = {other for other, _ in net.together_m[lane.number]}
        for other in inside:
            if other is lane or other.number in shared:
                continue
            near = [
                at_m
                for x, y, at_m in zip(lane.xs_m, lane.ys_m, lane.at_m, strict=True)
                if any(math.dist((x, y), point) < CONFLICT_M for point in zip(other.xs_m, other.ys_m, strict=True))
            ]
            assert bool(near) == (other.number in kept)
            if near:
                assert (kept[other.number].from_m, kept[other.number].to_m) == (near[0], near[-1])


def test_only_lanes_with_one_beginning_are_together(net):
    for number, others in enumerate(net.together_m):
        for other, reach_m in others:
            assert set(net.before[number]) & set(net.before[other])
            assert 0.0 < reach_m <= net.lanes[number].length_m


def test_from_every_street_of_the_town_one_can_drive_for_ever_and_in_a_blind_alley_not(net):
    assert len(endless_lanes(net)) == len(net.lanes)
    blind = road_net(load_map("t-junction"))
    assert not endless_lanes(blind)


def test_the_cost_to_a_goal_falls_along_the_best_way_to_it(net):
    goal = 5
    costs = net.costs_to(goal)
    assert costs[goal] == 0.0
    for start in (0, 12, 40):
        lane, steps = start, 0
        while lane != goal:
            ways = [*net.after[lane], *(other for other in (net.left[lane], net.right[lane]) if other >= 0)]
            best = min(ways, key=lambda number: (costs[number], number))
            assert costs[best] < costs[lane]
            lane, steps = best, steps + 1
            assert steps < 100


@pytest.mark.parametrize("name", [name for name in available_maps() if name != "oval"])
def test_all_sidewalks_and_crossings_of_a_map_can_be_reached_from_each_other(name):
    road_map = load_map(name)
    walks = walk_net(road_map, road_net(road_map))
    assert len(walks.ways) > 10
    first, last = walks.ways[0].number, walks.ways[-1].number
    row = walks.route(first, last)
    assert (row[0], row[-1]) == (first, last)
    for a, b in pairwise(row):
        door = walks.door(a, b)
        # The place to go through is on the edge, to the right of its middle.
        assert math.dist(door.left, door.point) + math.dist(door.point, door.right) == pytest.approx(
            math.dist(door.left, door.right)
        )
        assert math.dist(door.point, door.right) <= math.dist(door.point, door.left)


def test_every_crossing_that_cars_use_is_a_part_of_the_walkways(town, net):
    walks = walk_net(town, net)
    assert {way.crossing for way in walks.ways if way.crossing >= 0} == {crossing.number for crossing in net.crossings}


def test_newcomers_are_drawn_from_streams_by_their_seed_and_never_at_one_place(town):
    settings = TrafficSettings(vehicles=200, walkers=100, seed=3)
    found = newcomers(town, settings)
    assert found == newcomers(town, settings) != newcomers(town, TrafficSettings(vehicles=200, walkers=100, seed=4))
    cars = [placed for placed in found if placed.lane >= 0]
    assert (len(cars), len(found)) == (200, 300)
    assert {car.type for car in cars} <= set(TRAFFIC_CARS)
    apart_m = min(math.dist((a.x_m, a.y_m), (b.x_m, b.y_m)) for i, a in enumerate(cars) for b in cars[:i])
    assert apart_m > 3.0


def test_nobody_begins_where_somebody_stands(town):
    first = newcomers(town, TrafficSettings(vehicles=300))
    place = first[7].x_m, first[7].y_m
    second = newcomers(town, TrafficSettings(vehicles=300), [place])
    assert min(math.dist(place, (placed.x_m, placed.y_m)) for placed in second) > 10.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: newcomers(load_map("town"), TrafficSettings(vehicles=2000)), r"traffic.vehicles: at most \d+ were wanted"),
        (lambda: newcomers(load_map("t-junction"), TrafficSettings(vehicles=1)), "all of its lanes lead to dead ends"),
        (lambda: TrafficSettings(vehicles=-1), "a whole number from 0 to 2000 was wanted, but -1 came"),
        (lambda: TrafficSettings.read("vehicles=ten"), "traffic: vehicles: a whole number was wanted, but 'ten' came"),
        (lambda: TrafficSettings.read("cars=10"), "was wanted, but 'cars=10' came"),
        (lambda: TrafficSettings.read("routes=home"), "unknown kind of routes for traffic 'home'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make, words):
    with pytest.raises(SamepathError, match=words) as told:
        make()
    assert "\n" not in str(told.value)


def test_words_of_the_command_line_are_read():
    assert TrafficSettings.read("vehicles=50, walkers=20,routes=destinations,seed=7") == TrafficSettings(50, 20, True, 7)
