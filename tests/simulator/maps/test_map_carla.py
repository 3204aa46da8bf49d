"""CARLA's own map class as the oracle: it reads the same file and must see the same lanes."""

import math

import pytest

from samepath.core.streams import stream
from samepath.simulator.maps import available_maps, load_map, parse_map
from tests.support import osm_excerpts
from tests.support.map_texts import LINE, bends, ends_at, one_road

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


EXCERPTS = {
    "crossing": osm_excerpts.crossing,
    "roundabout": osm_excerpts.roundabout,
    "nodes in one place": osm_excerpts.same_place,
    **{f"town {seed}": lambda seed=seed: osm_excerpts.town(seed) for seed in (*range(6), 15)},
}
FLOAT32_PARTS = 2.0**-22  # of a coordinate: CARLA keeps places as 32-bit numbers


@pytest.mark.parametrize("center", [True, False], ids=["about the middle", "in projected coordinates"])
@pytest.mark.parametrize("excerpt", EXCERPTS)
def test_an_excerpt_of_openstreetmap_is_read_as_carla_reads_it(excerpt, center):
    settings = carla.Osm2OdrSettings()
    settings.center_map = center
    xodr = carla.Osm2Odr.convert(EXCERPTS[excerpt](), settings)
    ours, theirs = parse_map(xodr, "osm"), carla.Map("osm", xodr)
    assert ours.warning, "streets end at the edge"
    # Of a lane from which none goes on CARLA adds a pair of its start and its end.
    assert edges(ours.topology()) == [pair for pair in edges(theirs.get_topology()) if pair[0] != pair[1]]
    mine = {(w.road_id, w.section_id, w.lane_id, round(w.s_m, 3)): w for w in ours.generate_waypoints(2.0)}
    others = {(w.road_id, w.section_id, w.lane_id, round(w.s, 3)): w for w in theirs.generate_waypoints(2.0)}
    assert sorted(mine) == sorted(others)
    straight = {road.id for road in ours.document.roads if all(piece.curve.is_straight for piece in road.plan)}
    for key, other in others.items():
        waypoint = mine[key]
        assert other.is_junction == waypoint.is_junction
        assert other.lane_width == pytest.approx(waypoint.lane_width_m, abs=1e-3)
        place = other.transform.location
        off_m = math.dist((place.x, place.y, place.z), (waypoint.x_m, waypoint.y_m, waypoint.z_m))
        rounding_m = FLOAT32_PARTS * max(abs(place.x), abs(place.y))
        # Of a curve that is not as long as it says, CARLA and we read the stations between its ends differently.
        if key[0] in straight or key[3] == 0.0:
            assert off_m <= 0.01 + rounding_m


POINT = '<geometry s="{0}" x="{0}" y="0" hdg="0" length="0"><line/></geometry>'


@pytest.mark.parametrize(
    "text",
    [one_road(POINT.format(0) + LINE + POINT.format(100)), one_road(POINT.format(0), length="0.1")],
    ids=["many", "only"],
)
def test_pieces_of_no_length_hold_nothing_of_a_road(text):
    ours, theirs = parse_map(text, "x"), carla.Map("x", text)
    waypoints = theirs.generate_waypoints(2.0)
    assert len(waypoints) == len(ours.generate_waypoints(2.0))
    for other in waypoints:
        assert_same_place(other, ours.waypoint_at(other.road_id, other.section_id, other.lane_id, other.s), position_m=0.11)


ENTERED = (
    '<junction id="5" name=""><connection id="0" incomingRoad="99" connectingRoad="7" contactPoint="start">'
    '<laneLink from="-1" to="-1"/></connection></junction>'
)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (ends_at("road", 8), "road 7 links to road 8"),
        (ends_at("junction", 8), "road 7 links to junction 8"),
        (one_road().replace('junction="-1"', 'junction="5"'), "road 7 is in junction 5"),
        (one_road(top=ENTERED), "junction 5 is entered from road 99"),
    ],
    ids=["road", "junction", "road of a junction", "incoming road"],
)
def test_a_dead_link_is_the_end_of_a_road_as_in_carla(text, warning):
    ours, theirs = parse_map(text, "x"), carla.Map("x", text)
    assert ours.document.dead_links == (warning,)
    assert warning in ours.warning
    assert ours.topology() == ()
    assert [pair for pair in edges(theirs.get_topology()) if pair[0] != pair[1]] == []
    for start in theirs.generate_waypoints(7.0):
        mine = ours.waypoint_at(start.road_id, start.section_id, start.lane_id, start.s)
        assert start.is_junction == mine.is_junction
        assert len(start.next(9.37)) == len(ours.next(mine, 9.37))
        assert len(start.previous(9.37)) == len(ours.previous(mine, 9.37))
    assert ours.digest
