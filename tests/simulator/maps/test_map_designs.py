"""What our maps promise."""

import math

import numpy as np
import pytest

from samepath.simulator.maps import available_maps, load_map
from samepath.simulator.maps.surfaces import contains

# The car waypoints of the published case study (Determinisim_TEST_Cars and _CarsCollision), in CARLA's frame.
FIRST_CAR = (
    (-61.54, -22.64), (-56.34, -20.84), (-48.94, -18.14), (-44.14, -16.24), (-39.64, -14.54), (-35.44, -14.84),
    (-30.64, -13.74), (-23.74, -15.34), (-18.94, -15.04), (-13.24, -9.44), (-6.54, -6.64), (13.85, 2.35),
)  # fmt: skip
ONCOMING_CAR = (
    (-1.93, 1.13),
    (-11.14, -2.48),
    (-19.53, -8.07),
    (-22.63, -10.37),
    (-26.64, -10.17),
    (-36.94, -6.27),
    (-54.12, 4.75),
)
CROSSING_CAR = (
    (-51.74, 2.15), (-46.84, -2.34), (-43.34, -6.34), (-38.74, -13.04), (-32.74, -13.24), (-27.44, -14.84),
    (-23.64, -18.34), (-17.94, -18.24), (15.65, -33.94),
)  # fmt: skip


def off_road_m(road_map, x_m, y_m):
    """How far a point lies outside everything drivable."""
    nearest_m = math.inf
    for polygon in road_map.drivable:
        ring = [tuple(map(float, corner)) for corner in polygon.vertices]
        if contains(ring, x_m, y_m):
            return 0.0
        corners = polygon.vertices[:, :2]
        steps = np.roll(corners, -1, axis=0) - corners
        gap = np.array([x_m, y_m]) - corners
        part = np.clip((gap * steps).sum(axis=1) / (steps * steps).sum(axis=1), 0.0, 1.0)
        nearest_m = min(nearest_m, float(np.hypot(*(gap - part[:, None] * steps).T).min()))
    return nearest_m


def test_the_names():
    assert available_maps() == ("double-mini-roundabout", "oval", "t-junction", "town")


def test_the_t_junction_measures_354_by_170_metres():
    x_min, y_min, x_max, y_max = load_map("t-junction").bounds_m
    assert (x_max - x_min, y_max - y_min) == (354.0, 170.0)


@pytest.mark.parametrize("name", available_maps())
def test_everything_that_stands_is_inside_the_bounds(name):
    road_map = load_map(name)
    x_min, y_min, x_max, y_max = road_map.bounds_m
    for mesh in road_map.meshes:
        if mesh.name != "ground":
            low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
            assert x_min <= low[0] and y_min <= low[1] and high[0] <= x_max and high[1] <= y_max, mesh.name


def test_the_t_junction_has_all_six_turns():
    road_map = load_map("t-junction")
    connecting = {road.id: road for road in road_map.document.roads if road.junction_id is not None}
    ways = {(road.predecessor.id, road.successor.id) for road in connecting.values()}
    assert ways == {(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)}


def test_the_published_main_stream_lies_on_the_t_junction():
    road_map = load_map("t-junction")
    for x_m, y_m in (*FIRST_CAR, *ONCOMING_CAR[:5], *CROSSING_CAR[3:8]):
        assert off_road_m(road_map, x_m, y_m) == 0.0


def test_every_published_car_waypoint_lies_within_two_metres_of_the_double_mini_roundabout():
    road_map = load_map("double-mini-roundabout")
    off_m = [off_road_m(road_map, x_m, y_m) for x_m, y_m in (*FIRST_CAR, *ONCOMING_CAR, *CROSSING_CAR)]
    assert max(off_m) < 2.0
    assert sum(off == 0.0 for off in off_m) >= 23


def test_traffic_keeps_right_and_circulates_anticlockwise_in_the_real_world():
    road_map = load_map("double-mini-roundabout")
    for (x_m, y_m), junction_id in (((-43.0, -10.5), 1000), ((-19.2, -13.0), 1001)):
        roads = {road.id for road in road_map.document.roads if road.junction_id == junction_id}
        for line in road_map.lanes:
            if line.key.road_id not in roads or line.kind != "driving":
                continue
            arms = line.points[:, :2] - (x_m, y_m)
            steps = np.diff(line.points[:, :2], axis=0)
            # CARLA's y points south: anticlockwise seen from above is a negative turn of its numbers.
            turned = arms[:-1, 0] * steps[:, 1] - arms[:-1, 1] * steps[:, 0]
            assert (turned < 1e-6).all()
    for line in road_map.lanes:
        if line.kind == "driving" and not line.is_junction:
            right = road_map.right_lane(road_map.waypoint_at(*line.key, float(line.s_m[0])))
            assert right.lane_type == "sidewalk"


def test_from_every_way_into_a_roundabout_every_way_out_can_be_reached():
    road_map = load_map("double-mini-roundabout")
    for start in road_map.generate_waypoints(1000.0):
        if start.is_junction:
            assert len(road_map.next(start, 1.0)) >= 1
    entries = [road_map.waypoint_at(road_id, 0, 1, 1.0) for road_id in (1, 2, 3, 4)]
    for entry in entries:
        assert len({point.road_id for point in road_map.next(entry, 2.0)}) == 3


@pytest.mark.parametrize(("name", "count"), [("t-junction", 1), ("double-mini-roundabout", 4)])
def test_give_way_signs_stand_beside_the_road_and_speak_to_the_traffic_that_comes(name, count):
    road_map = load_map(name)
    assert [signal.kind for signal in road_map.signals] == ["205"] * count
    for signal in road_map.signals:
        lane = road_map.waypoint_at(signal.road_id, 0, 1, signal.s_m)
        assert abs(math.remainder(signal.yaw_deg - lane.yaw_deg, 360.0)) < 1e-4
        assert 2.0 < math.hypot(signal.x_m - lane.x_m, signal.y_m - lane.y_m) < 4.0


def test_the_sidewalk_goes_all_the_way_round():
    for name in available_maps():
        road_map = load_map(name)
        ends = [end for line in road_map.lanes if line.kind == "sidewalk" for end in (line.points[0], line.points[-1])]
        loose = [a for i, a in enumerate(ends) if not any(np.abs(a - b).max() < 1e-4 for j, b in enumerate(ends) if i != j)]
        dead_ends = sum(road.successor is None for road in road_map.document.roads)
        assert len(loose) == 2 * dead_ends
