"""The road network: exact lanes, nearest waypoints, routes."""

import dataclasses
import math

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.core.streams import stream
from samepath.simulator.maps import available_maps, lanes, load_map, parse_map
from tests.support.map_texts import LANES, bends, one_road

LOOP = (("predecessor", "end"), ("successor", "start"))
BOTH = pytest.mark.parametrize("name", available_maps())


def test_a_straight_road_is_where_it_says_in_carlas_frame():
    road = parse_map(one_road(), "x")
    right = road.waypoint_at(7, 0, -1, 40.0)
    assert (right.x_m, right.y_m, right.z_m, right.yaw_deg, right.lane_width_m) == (40.0, 1.5, 0.0, 0.0, 3.0)
    left = road.waypoint_at(7, 0, 1, 40.0)
    assert (left.x_m, left.y_m, left.yaw_deg) == (40.0, -1.5, -180.0)


def test_left_and_right_are_the_drivers():
    road = parse_map(one_road(), "x")
    right = road.waypoint_at(7, 0, -1, 40.0)
    assert road.left_lane(right).lane_id == 1
    assert road.right_lane(right) is None
    assert road.left_lane(road.left_lane(right)).lane_id == -1


def test_walking_on_and_back_again():
    road = parse_map(bends(), "x")
    start = road.waypoint_at(7, 0, -1, 5.0)
    (ahead,) = road.next(start, 30.0)
    assert (ahead.section_id, ahead.lane_id, ahead.s_m) == (1, -1, 35.0)
    assert road.previous(ahead, 30.0) == (start,)
    assert road.next(start, 100.0) == ()
    oncoming = road.waypoint_at(7, 1, 1, 40.0)
    (further,) = road.next(oncoming, 30.0)
    assert (further.section_id, further.lane_id, further.s_m) == (0, 1, 10.0)


@pytest.mark.parametrize("lane_id", [1, -1])
@pytest.mark.parametrize("s_m", [3.0, 14.5, 22.0, 38.0, 47.5])
def test_the_yaw_of_a_lane_that_shifts_and_widens_in_a_bend_is_the_direction_it_moves_in(s_m, lane_id):
    road = parse_map(bends(), "x")
    section_id = int(s_m > 30.0)
    here, there = (road.waypoint_at(7, section_id, lane_id, s_m + shift_m) for shift_m in (-0.25, 0.25))
    moved_deg = math.degrees(math.atan2(there.y_m - here.y_m, there.x_m - here.x_m)) + (180.0 if lane_id > 0 else 0.0)
    yaw_deg = road.waypoint_at(7, section_id, lane_id, s_m).yaw_deg
    assert abs(math.remainder(moved_deg - yaw_deg, 360.0)) < 0.01


@pytest.mark.parametrize("distance_m", [0.0, -1.0, math.nan, math.inf])
def test_a_distance_must_be_positive(distance_m):
    road = parse_map(one_road(), "x")
    point = road.waypoint_at(7, 0, -1, 5.0)
    for call in (lambda: road.next(point, distance_m), lambda: road.generate_waypoints(distance_m)):
        with pytest.raises(InputError, match="distance"):
            call()


def test_wrong_places_are_named():
    road = parse_map(one_road(), "x")
    with pytest.raises(InputError, match="no road 8; it has 7"):
        road.speed_limit_mps(8)
    with pytest.raises(InputError, match="no lane -4"):
        road.waypoint_at(7, 0, -4, 1.0)
    with pytest.raises(InputError, match="finite"):
        road.waypoint(math.nan, 0.0)
    with pytest.raises(InputError, match="no driving lane"):
        parse_map(one_road(lanes=LANES.replace("driving", "sidewalk")), "x").waypoint(0.0, 0.0)


def test_a_road_without_a_limit_has_none():
    assert parse_map(one_road(), "x").speed_limit_mps(7) is None


@pytest.mark.parametrize(
    ("name", "limits_mps"),
    [
        ("t-junction", [30 * 0.44704]),
        ("double-mini-roundabout", [30 * 0.44704]),
        ("oval", [100 / 3.6]),
        ("town", [20 / 3.6, 30 / 3.6, 40 / 3.6]),
    ],
)
def test_our_streets_have_a_limit(name, limits_mps):
    road_map = load_map(name)
    found = {road_map.speed_limit_mps(line.key.road_id) for line in road_map.lanes}
    assert sorted(found) == pytest.approx(limits_mps)


@BOTH
def test_centre_lines_have_no_step_over_half_a_metre_and_run_in_the_direction_of_driving(name):
    for line in load_map(name).lanes:
        steps = np.diff(line.points, axis=0)
        sizes = np.hypot(steps[:, 0], steps[:, 1])
        assert sizes.max() <= 0.5 + 1e-5
        direction = np.degrees(np.arctan2(steps[:, 1], steps[:, 0]))
        off = (direction - line.yaw_deg[:-1] + 180.0) % 360.0 - 180.0
        assert np.abs(off).max() < 5.0


@BOTH
def test_lanes_join_without_a_step(name):
    road_map = load_map(name)
    lines = {line.key: line for line in road_map.lanes}
    for start, end in road_map.topology():
        before, after = lines[start.key], lines[end.key]
        assert np.abs(before.points[-1] - after.points[0]).max() < 1e-5
        assert abs(math.remainder(before.yaw_deg[-1] - after.yaw_deg[0], 360.0)) < 1e-4


@BOTH
def test_the_nearest_waypoint_is_no_further_than_the_best_of_all_samples(name):
    road_map = load_map(name)
    samples = np.vstack([line.points for line in road_map.lanes if line.kind == "driving"])
    random = stream(1, "nearest", name)
    x_min, y_min, x_max, y_max = road_map.bounds_m
    for x_m, y_m in zip(random.uniform(x_min, x_max, 200), random.uniform(y_min, y_max, 200), strict=True):
        found = road_map.waypoint(x_m, y_m)
        best_m = np.hypot(samples[:, 0] - x_m, samples[:, 1] - y_m).min()
        assert math.hypot(found.x_m - x_m, found.y_m - y_m) <= best_m + 1e-5


@BOTH
def test_a_waypoint_is_its_own_nearest(name):
    road_map = load_map(name)
    for point in road_map.generate_waypoints(3.0):
        found = road_map.waypoint(point.x_m, point.y_m)
        # Ways around a circle lie upon each other; the foot on another's centre line is found to half a millimetre.
        assert math.hypot(found.x_m - point.x_m, found.y_m - point.y_m) < (5e-4 if point.is_junction else 1e-4)


@BOTH
def test_spawn_points_are_half_a_metre_above_a_driving_lane(name):
    road_map = load_map(name)
    assert len(road_map.spawn_points) >= 30
    for x_m, y_m, z_m, yaw_deg in road_map.spawn_points:
        below = road_map.waypoint(x_m, y_m)
        assert math.hypot(below.x_m - x_m, below.y_m - y_m) < 1e-5
        assert z_m == below.z_m + 0.5
        assert not below.is_junction
        assert abs(math.remainder(yaw_deg - below.yaw_deg, 360.0)) < 1e-4


@BOTH
def test_nothing_can_be_changed(name):
    road_map = load_map(name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        road_map.name = "other"
    arrays = [array for line in road_map.lanes for array in (line.s_m, line.points, line.yaw_deg, line.width_m)]
    arrays += [array for mesh in road_map.meshes for array in (mesh.vertices, mesh.triangles)]
    arrays += [polygon.vertices for polygon in (*road_map.drivable, *road_map.walkable)]
    assert not any(array.flags.writeable for array in arrays)


@BOTH
def test_a_map_is_read_once_per_process(name):
    assert load_map(name) is load_map(name)


def test_a_lane_that_goes_on_into_the_centre_lane_ends():
    sections = LANES.replace("<link/>", '<link><successor id="0"/><predecessor id="0"/></link>')
    road = parse_map(one_road(lanes=sections + sections.replace('s="0"', 's="50"', 1)), "x")
    assert road.next(road.waypoint_at(7, 0, -1, 40.0), 20.0) == ()
    assert road.previous(road.waypoint_at(7, 1, -1, 60.0), 20.0) == ()
    assert road.topology() == ()


def test_walking_round_a_loop_of_a_hundredth_of_a_millimetre_is_given_up_in_one_line():
    # Half a metre back from a light in a junction is all that the server itself asks for: here that would be 50,000 rounds.
    short = one_road('<geometry s="0" x="0" y="0" hdg="0" length="1e-5"><line/></geometry>', length="1e-5")
    itself = "".join(f'<{end} elementType="road" elementId="7" contactPoint="{at}"/>' for end, at in LOOP)
    lanes = '<link><predecessor id="-1"/><successor id="-1"/></link>'
    road = parse_map(short.replace("<link/><plan", f"<link>{itself}</link><plan").replace("<link/>", lanes), "x")
    here = road.waypoint_at(7, 0, -1, 0.0)
    for walk in (road.next, road.previous):
        with pytest.raises(InputError, match=r"map 'x': a way of at most 10000 lanes was wanted .* from road 7, lane -1"):
            walk(here, 0.5)


def test_lanes_that_fork_and_meet_again_are_walked_once():
    # Forty roads of two lanes, each of which goes on into both of the next road: more ways than could ever be counted.
    def links(number):
        return f'<link><predecessor id="{-number}"/><successor id="{-number}"/></link>'

    forks = "".join(
        f'<connection id="{number}" incomingRoad="{a}" connectingRoad="{a + 1}" contactPoint="start">'
        '<laneLink from="-1" to="-1"/><laneLink from="-1" to="-2"/><laneLink from="-2" to="-1"/><laneLink from="-2" to="-2"/>'
        "</connection>"
        for number, a in enumerate(range(1, 40))
    )
    width = '<width sOffset="0" a="3" b="0" c="0" d="0"/>'
    lanes = "".join(f'<lane id="{-k}" type="driving">{links(k)}{width}</lane>' for k in (1, 2))
    roads = "".join(
        f'<road id="{k}" length="10" junction="-1"><link><successor elementType="junction" elementId="99"/></link><planView>'
        f'<geometry s="0" x="{10 * k}" y="0" hdg="0" length="10"><line/></geometry></planView><lanes><laneSection s="0">'
        f'<center><lane id="0" type="none"/></center><right>{lanes}</right></laneSection></lanes></road>'
        for k in range(1, 41)
    )
    text = f'<OpenDRIVE><header revMajor="1" revMinor="4"/>{roads}<junction id="99">{forks}</junction></OpenDRIVE>'
    road = parse_map(text, "x")
    ahead = road.next(road.waypoint_at(1, 0, -1, 0.0), 395.0)
    assert [(point.road_id, point.lane_id, point.s_m) for point in ahead] == [(40, -1, 5.0), (40, -2, 5.0)]


def test_a_road_of_a_thousandth_of_a_millimetre_is_a_line_all_the_same():
    road = parse_map(one_road('<geometry s="0" x="0" y="0" hdg="0" length="1e-6"><line/></geometry>', length="1e-6"), "x")
    assert [len(line.points) for line in road.lanes] == [2, 2]
    assert road.waypoint(5.0, 5.0).lane_id == -1


def test_borders_of_a_section_are_those_of_each_lane_and_each_is_summed_up_once_a_place(monkeypatch):
    right = "".join(
        f'<lane id="{-number}" type="driving"><width sOffset="0" a="{0.1 + 0.01 * number}" b="0.001" c="0" d="0"/></lane>'
        for number in range(1, 61)
    )
    centre = '<center><lane id="0" type="none" level="false"/></center>'
    text = one_road(lanes=f'<laneSection s="0">{centre}<right>{right}</right></laneSection>')
    sums = []
    monkeypatch.setattr(lanes, "_beyond", lambda *given, own=lanes._beyond: sums.append(given) or own(*given))
    road_map = parse_map(text, "x")
    assert len(road_map.lanes) == 60
    assert len(sums) == sum(len(line.s_m) for line in road_map.lanes)
    (road,) = road_map.document.roads
    edges = lanes.SectionBorders(road, road.sections[0])
    edges.KEPT_MOST = 100  # forgets what it knows now and then
    for s_m in (0.0, 12.5, 12.5, road.length_m):
        for lane in road.sections[0].lanes:
            assert edges.at(lane, s_m) == lanes.borders(road, road.sections[0], lane, s_m)
