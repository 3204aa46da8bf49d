"""CARLA's own map class as the oracle: it reads the same file and must see the same lanes."""

import math

import pytest

from samepath.core.streams import stream
from samepath.simulator.maps import available_maps, load_map, parse_map
from tests.support.map_texts import LINE, bends, one_road

carla = pytest.importorskip("carla")

BOTH = pytest.mark.parametrize("name", available_maps())


def edges(pairs):
    return sorted({((a.road_id, a.section_id, a.lane_id), (b.road_id, b.section_id, b.lane_id)) for a, b in pairs})


def assert_same_place(theirs, ours, *, position_m=0.01, yaw_deg=0.5, width_m=0.001):
    place, turn = theirs.transform.location, theirs.transform.rotation
    assert math.dist((place.x, place.y, place.z), (ours.x_m, ours.y_m, ours.z_m)) <= position_m
    assert abs(math.remainder(turn.yaw - ours.yaw_deg, 360.0)) <= yaw_deg
    assert abs(theirs.lane_width - ours.lane_width_m) <= width_m
    assert theirs.is_junction == ours.is_junction
    assert str(theirs.lane_type).lower() == ours.lane_type


@BOTH
def test_waypoints_every_two_metres_are_the_same(name):
    ours = load_map(name)
    theirs = carla.Map(name, ours.xodr)
    mine = {(w.road_id, w.section_id, w.lane_id, round(w.s_m, 3)): w for w in ours.generate_waypoints(2.0)}
    others = {(w.road_id, w.section_id, w.lane_id, round(w.s, 3)): w for w in theirs.generate_waypoints(2.0)}
    assert sorted(mine) == sorted(others)
    for key, waypoint in others.items():
        assert_same_place(waypoint, mine[key], position_m=1e-4, yaw_deg=1e-3, width_m=1e-6)


@BOTH
def test_the_topology_has_the_same_edges(name):
    ours = load_map(name)
    assert edges(ours.topology()) == edges(carla.Map(name, ours.xodr).get_topology())


@BOTH
def test_the_nearest_waypoint_is_the_same_for_points_on_the_road(name):
    ours = load_map(name)
    theirs = carla.Map(name, ours.xodr)
    bent_roads = {road.id for road in ours.document.roads if not all(piece.curve.is_straight for piece in road.plan)}
    random = stream(2, "oracle", name)
    for line in ours.lanes:
        if line.kind != "driving":
            continue
        for _ in range(12):
            x_m, y_m, _ = line.points[random.integers(len(line.points))] + random.uniform(-1.5, 1.5, 3)
            other, mine = theirs.get_waypoint(carla.Location(float(x_m), float(y_m), 0.0)), ours.waypoint(x_m, y_m)
            place = other.transform.location
            theirs_m, ours_m = (math.dist((x_m, y_m), at) for at in ((place.x, place.y), (mine.x_m, mine.y_m)))
            assert ours_m <= theirs_m + 1e-3
            # In bends CARLA projects onto chords of the lane and is off along it; where turns overlap either is right.
            assert theirs_m - ours_m < 0.5
            if not line.is_junction and not other.is_junction:
                assert (other.road_id, other.lane_id) == (mine.road_id, mine.lane_id)
                bent = mine.road_id in bent_roads
                assert math.dist((place.x, place.y), (mine.x_m, mine.y_m)) < (0.5 if bent else 1e-3)


@BOTH
def test_the_next_waypoints_are_the_same(name):
    ours = load_map(name)
    theirs = carla.Map(name, ours.xodr)
    for start in theirs.generate_waypoints(7.0):
        mine = ours.waypoint_at(start.road_id, start.section_id, start.lane_id, start.s)
        for step, walk in ((start.next, ours.next), (start.previous, ours.previous)):
            found = sorted((w.road_id, w.lane_id, round(w.s, 2)) for w in step(9.37))
            assert found == sorted((w.road_id, w.lane_id, round(w.s_m, 2)) for w in walk(mine, 9.37))


@BOTH
def test_the_crossings_and_signs_are_the_same(name):
    ours = load_map(name)
    theirs = carla.Map(name, ours.xodr)
    corners = [(at.x, at.y) for at in theirs.get_crosswalks()]
    for polygon in ours.crosswalks:
        for x_m, y_m, _ in polygon.vertices:
            assert min(math.dist((x_m, y_m), corner) for corner in corners) < 1e-3
    assert sorted((mark.id, mark.type) for mark in theirs.get_all_landmarks()) == sorted((s.id, s.kind) for s in ours.signals)


@BOTH
def test_both_read_the_same_neighbours(name):
    ours = load_map(name)
    for start in carla.Map(name, ours.xodr).generate_waypoints(11.0):
        mine = ours.waypoint_at(start.road_id, start.section_id, start.lane_id, start.s)
        for other, own in ((start.get_left_lane(), ours.left_lane(mine)), (start.get_right_lane(), ours.right_lane(mine))):
            assert (other.lane_id if other else None) == (own.lane_id if own else None)


BY_LENGTH = '<paramPoly3 pRange="arcLength" aU="0" bU="1" cU="0" dU="-0.0000666667" aV="0" bV="0" cV="0.01" dV="0"/>'
NORMALISED = '<paramPoly3 pRange="normalized" aU="0" bU="30" cU="0" dU="0" aV="0" bV="0" cV="6" dV="0"/>'


def shaped(curve, length="30"):
    return one_road(LINE.replace("<line/>", curve).replace('"100"', f'"{length}"'), length=length)


@pytest.mark.parametrize(
    ("text", "position_m", "yaw_deg"),
    [
        (bends(), 0.01, 0.5),
        (shaped('<arc curvature="-0.05"/>'), 0.01, 0.5),
        (shaped('<spiral curvStart="0.05" curvEnd="-0.05"/>'), 0.01, 0.5),
        (shaped('<poly3 a="0" b="0" c="0.01" d="-0.0002"/>'), 0.05, 1.0),
        (shaped(BY_LENGTH, "25"), 0.05, 1.0),
        (shaped(NORMALISED, "30.77"), 0.05, 1.0),
    ],
    ids=["bends", "arc", "spiral", "poly3", "paramPoly3 by length", "paramPoly3 normalised"],
)
def test_every_kind_of_curve_lies_where_carla_puts_it(text, position_m, yaw_deg):
    ours, theirs = parse_map(text, "x"), carla.Map("x", text)
    for waypoint in theirs.generate_waypoints(1.0):
        mine = ours.waypoint_at(waypoint.road_id, waypoint.section_id, waypoint.lane_id, waypoint.s)
        assert_same_place(waypoint, mine, position_m=position_m, yaw_deg=yaw_deg)
