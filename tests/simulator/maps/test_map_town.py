"""What the town and the oval promise: room for many, no dead end, lights and signs where they belong."""

import math
from collections import Counter

import numpy as np
import pytest

from samepath.core.catalogue import CATALOGUE, VehicleType
from samepath.simulator.maps import load_map

carla = pytest.importorskip("carla")

NEW = pytest.mark.parametrize("name", ["oval", "town"])
LARGEST_M = (
    max(kind.length_m for kind in CATALOGUE.values() if isinstance(kind, VehicleType)),
    max(kind.width_m for kind in CATALOGUE.values() if isinstance(kind, VehicleType)),
)


def corners(x_m, y_m, yaw_deg):
    turn = math.radians(yaw_deg)
    along, across = np.array([math.cos(turn), math.sin(turn)]), np.array([-math.sin(turn), math.cos(turn)])
    signs = ((1, 1), (1, -1), (-1, -1), (-1, 1))
    return np.array([[x_m, y_m] + 0.5 * (a * LARGEST_M[0] * along + b * LARGEST_M[1] * across) for a, b in signs])


def apart(first, second):
    """Is there a line between two boxes? It suffices to look along their sides."""
    for box in (first, second):
        for side in (box[1] - box[0], box[2] - box[1]):
            along_first, other = first @ side, second @ side
            if along_first.max() < other.min() or other.max() < along_first.min():
                return True
    return False


@NEW
def test_the_largest_vehicle_fits_on_all_spawn_points_at_once(name):
    points = load_map(name).spawn_points
    assert len(points) >= 120
    boxes = [corners(x_m, y_m, yaw_deg) for x_m, y_m, _, yaw_deg in points]
    places = np.array(points)[:, :2]
    for number, box in enumerate(boxes):
        near = np.flatnonzero(np.hypot(*(places - places[number]).T) < 12.0)
        assert all(apart(box, boxes[other]) for other in near if other > number)


@NEW
def test_spawn_points_lie_on_a_road_for_carla_without_projection(name):
    road_map = load_map(name)
    theirs = carla.Map(name, road_map.xodr)
    assert theirs.get_topology()
    for x_m, y_m, z_m, yaw_deg in road_map.spawn_points:
        point = theirs.get_waypoint(carla.Location(x_m, y_m, z_m), project_to_road=False)
        assert point is not None
        # CARLA finds the place in a bend by chords, and is off along it.
        assert abs(math.remainder(point.transform.rotation.yaw - yaw_deg, 360.0)) < 1.0


@NEW
def test_every_lane_leads_to_every_other_of_its_network(name):
    """In the oval the two directions never meet; in the town all lanes hang together."""
    road_map = load_map(name)
    following = {}
    for start, end in road_map.topology():
        following.setdefault(start.key, set()).add(end.key)
    # A driver may also change between lanes of one direction.
    for line in road_map.lanes:
        if line.kind == "driving" and not line.is_junction:
            for step in (-1, 1):
                key = line.key._replace(lane_id=line.key.lane_id + step)
                if key in following and key.lane_id * line.key.lane_id > 0:
                    following[line.key].add(key)
    keys = {line.key for line in road_map.lanes if line.kind == "driving"}
    assert set(following) == keys, "a lane is a dead end"
    sizes = Counter()
    for start in keys:
        seen, pending = {start}, [start]
        while pending:
            for key in following[pending.pop()] - seen:
                seen.add(key)
                pending.append(key)
        sizes[len(seen)] += 1
    assert sizes == ({8: 16} if name == "oval" else {len(keys): len(keys)})


def test_lane_changes_are_allowed_between_lanes_of_one_direction_only():
    theirs = carla.Map("town", load_map("town").xodr)
    seen = Counter()
    for point in theirs.generate_waypoints(15.0):
        if not point.is_junction:
            four = abs(point.lane_id) == 2 or (point.get_right_lane().lane_type == carla.LaneType.Driving)
            seen[four, abs(point.lane_id), str(point.lane_change)] += 1
    assert {key: bool(count) for key, count in seen.items()} == {
        (False, 1, "NONE"): True,
        (True, 1, "Right"): True,
        (True, 2, "Left"): True,
    }


def test_the_town_has_every_kind_of_junction():
    road_map = load_map("town")
    arms = Counter()
    for junction in road_map.document.junctions:
        incoming = {connection.incoming_road for connection in junction.connections}
        arms[len(incoming), bool(junction.controllers)] += 1
    assert arms == {(3, True): 5, (4, True): 2, (3, False): 3}
    assert [junction.name for junction in road_map.document.junctions if not junction.controllers][-1] == "monument"
    assert len(road_map.document.controllers) == 23


def test_carla_sees_the_lights_and_signs():
    theirs = carla.Map("town", load_map("town").xodr)
    kinds = Counter(mark.type for mark in theirs.get_all_landmarks())
    assert kinds == {"1000001": 23, "206": 1, "205": 4, "274": 26}
    for mark in theirs.get_all_landmarks_of_type("1000001"):
        assert mark.is_dynamic
        assert theirs.get_all_landmarks_from_id(mark.id)
        lanes = mark.get_lane_validities()
        point = theirs.get_waypoint_xodr(mark.road_id, lanes[0][0], mark.s)
        assert all(after.is_junction for after in point.next(8.0))
    limits = {(mark.value, mark.unit) for mark in theirs.get_all_landmarks_of_type("274")}
    assert limits == {(30.0, "km/h"), (40.0, "km/h")}


def test_a_driver_meets_the_sign_of_the_rule_before_the_junction():
    theirs = carla.Map("town", load_map("town").xodr)
    met = set()
    for point in theirs.generate_waypoints(20.0):
        if not point.is_junction:
            for mark in point.get_landmarks(25.0):
                assert (mark.orientation == carla.LandmarkOrientation.Positive) == (mark.waypoint.lane_id < 0)
                met.add(mark.type)
    assert met == {"1000001", "205", "206", "274"}


def test_speed_signs_say_what_the_road_allows():
    road_map = load_map("town")
    for signal in road_map.signals:
        if signal.kind == "274":
            assert signal.value / 3.6 == pytest.approx(road_map.speed_limit_mps(signal.road_id))


def test_the_town_is_built_up():
    labels = Counter(mesh.label for mesh in load_map("town").meshes)
    assert labels["building"] > 80
    assert labels["pole"] > 150
    assert labels["barrier"] > 15
    assert labels["traffic-light"] == 23
    assert labels["sign"] == 31
    assert labels["crosswalk"] == 26


def test_houses_do_not_stand_in_each_other():
    boxes = [mesh.vertices[:, :2] for mesh in load_map("town").meshes if mesh.label == "building"]
    for number, box in enumerate(boxes):
        low, high = box.min(axis=0), box.max(axis=0)
        for other in boxes[number + 1 :]:
            assert (high <= other.min(axis=0)).any() or (low >= other.max(axis=0)).any()


def test_the_monument_stands_in_the_middle_of_the_roundabout_clear_of_its_lanes():
    road_map = load_map("town")
    (drum,) = (mesh for mesh in road_map.meshes if mesh.name == "road 16 object 9900 obstacle")
    assert drum.vertices[:, :2].mean(axis=0) == pytest.approx((28.25, -28.0), abs=1e-5)
    lanes = np.vstack([line.points[:, :2] for line in road_map.lanes if line.kind == "driving"])
    nearest_m = min(np.hypot(*(lanes - corner).T).min() for corner in drum.vertices[:, :2])
    assert nearest_m > LARGEST_M[1] / 2 + 1.5


def test_the_georeference_is_one_carla_understands():
    theirs = carla.Map("town", load_map("town").xodr)
    place = theirs.transform_to_geolocation(carla.Location(0.0, -100.0, 0.0))
    origin = theirs.transform_to_geolocation(carla.Location(0.0, 0.0, 0.0))
    assert abs(place.latitude - origin.latitude) * 111_195.0 == pytest.approx(100.0, rel=0.01)
    assert origin.latitude == pytest.approx(51.4545, abs=1e-4)
