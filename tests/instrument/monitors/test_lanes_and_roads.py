"""Lanes and edges of roads against ``carla.Map``, which reads the same OpenDRIVE with CARLA's own code."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from samepath.core.streams import stream
from samepath.engines.carla.roads import read_roads
from samepath.instrument.evaluation import monitor_set
from samepath.instrument.monitors.monitor import watch_cell
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header
from samepath.simulator.maps import load_map

carla = pytest.importorskip("carla")
NAMES = ["t-junction", "double-mini-roundabout", "oval"]


def places(name, count, beside_m):
    """Points around the middles of lanes, up to so far beside them."""
    draw = stream(7, "places", name)
    lanes = [line for line in load_map(name).lanes if line.kind == "driving"]
    points = np.vstack([line.points[:, :2] for line in lanes])
    chosen = points[draw.integers(0, len(points), count)]
    return chosen + draw.uniform(-beside_m, beside_m, (count, 2))


@pytest.fixture(params=NAMES)
def both(request):
    return request.param, read_roads(request.param), carla.Map(request.param, load_map(request.param).xodr)


def test_offset_and_width_are_those_of_carlas_nearest_waypoint(both):
    name, ours, theirs = both
    points = places(name, 300, 1.0)
    offset = ours.lane_offset_m(points[:, 0].copy(), points[:, 1].copy())
    width = ours.lane_width_m(points[:, 0].copy(), points[:, 1].copy())
    heading = ours.lane_heading_rad(points[:, 0].copy(), points[:, 1].copy())
    agreed = 0
    for (x, y), right, wide, yaw in zip(points.tolist(), offset, width, heading, strict=True):
        point = theirs.get_waypoint(carla.Location(x, y, 0.0))
        middle, turn = point.transform.location, math.radians(point.transform.rotation.yaw)
        across = -math.sin(turn) * (x - middle.x) + math.cos(turn) * (y - middle.y)
        # In junctions lanes lie over each other, and two may be equally near: then both are right, and only distances agree.
        if abs(math.remainder(yaw - turn, 2 * math.pi)) < 0.05:
            agreed += 1
            assert right == pytest.approx(across, abs=0.02)
            assert wide == pytest.approx(point.lane_width, abs=0.02)
        assert abs(right) <= math.hypot(x - middle.x, y - middle.y) + 0.02
    assert agreed > 200


def test_who_is_beside_the_road_is_beside_it_for_carla(both):
    name, ours, theirs = both
    points = places(name, 1500, 6.0)
    margin = ours.road_margin_m(points[:, 0].copy(), points[:, 1].copy())
    checked = 0
    for (x, y), inside in zip(points.tolist(), margin, strict=True):
        lane = theirs.get_waypoint(carla.Location(x, y, 0.0), project_to_road=False, lane_type=carla.LaneType.Driving)
        near = theirs.get_waypoint(carla.Location(x, y, 0.0), lane_type=carla.LaneType.Driving)
        middle = near.transform.location
        around = [near, *near.next(8.0), *near.previous(8.0)]
        # Past the end of a road CARLA still finds its last lane; there the two mean different things.
        at_an_end = not near.next(7.0) or not near.previous(7.0)
        if lane is not None and not at_an_end:
            assert inside > -0.05, (x, y, lane.road_id, lane.lane_id)
        # Between two lanes CARLA leaves a hair's breadth to neither; in junctions we take the whole surface between them.
        if lane is None and math.hypot(x - middle.x, y - middle.y) > near.lane_width / 2 + 0.02:
            assert inside < 0.05 or any(waypoint.is_junction for waypoint in around), (x, y, inside)
        checked += lane is None
    assert 100 < checked < 1400


def test_margins_on_a_straight_road_are_those_of_the_ruler():
    roads = read_roads("t-junction")
    lanes = [line for line in load_map("t-junction").lanes if line.kind == "driving" and not line.is_junction]
    line = max(lanes, key=lambda lane: len(lane.points))
    middle, yaw, width = line.points[len(line.points) // 2], math.radians(line.yaw_deg[len(line.points) // 2]), line.width_m[0]
    for right in (-0.7, 0.0, 0.4):
        x, y = middle[0] - math.sin(yaw) * right, middle[1] + math.cos(yaw) * right
        assert roads.lane_offset_m(np.array([x]), np.array([y]))[0] == pytest.approx(right, abs=1e-5)
        # The outer border of the lane is the edge of the road, half a lane from its middle.
        edge = roads.road_margin_m(np.array([x]), np.array([y]))[0]
        assert min(abs(edge - (width / 2 - right)), abs(edge - (width / 2 + right))) < 1e-3


def with_limits(text):
    """A map's text with other limits: of every road two, in two units, and of some lanes their own; one has none."""
    root = ElementTree.fromstring(text)
    for number, road in enumerate(root.iter("road")):
        for old in road.findall("type"):
            road.remove(old)
        half = float(road.get("length")) / 2
        for s, top, unit in ((0.0, str(20 + number), "km/h"), (half, "no limit" if number == 1 else str(10 + number), "mph")):
            kind = ElementTree.SubElement(road, "type", s=repr(s), type="town")
            ElementTree.SubElement(kind, "speed", max=top, unit=unit)
        if number % 3 == 2:
            lane = next(lane for lane in road.iter("lane") if lane.get("type") == "driving")
            ElementTree.SubElement(lane, "speed", sOffset="1.5", max=str(3 + number))  # metres per second without a unit
    return ElementTree.tostring(root, "unicode")


UNITS_MPS = {"km/h": 1 / 3.6, "mph": 1609.344 / 3600, None: 1.0}


def written_limit(root, point):
    """The limit of a way-point of CARLA's, looked up in the file by hand: its lane's last record before it, else its road's."""
    road = next(road for road in root.iter("road") if road.get("id") == str(point.road_id))
    section = road.findall("lanes/laneSection")[point.section_id]
    lane = next(lane for lane in section.iter("lane") if lane.get("id") == str(point.lane_id))
    own = [record for record in lane.findall("speed") if float(section.get("s")) + float(record.get("sOffset")) <= point.s]
    every = own or [kind.find("speed") for kind in road.findall("type") if float(kind.get("s")) <= point.s]
    last = every[-1]
    return math.nan if last.get("max") == "no limit" else float(last.get("max")) * UNITS_MPS[last.get("unit")]


@pytest.mark.parametrize("name", NAMES)
def test_the_speed_limit_is_what_the_file_says_of_carlas_waypoint(name, tmp_path):
    """CARLA's own code says which lane and station a place belongs to; the limit there is read off the XML by hand."""
    text = with_limits(load_map(name).xodr)
    path = tmp_path / f"{name}-limits.xodr"
    path.write_text(text, encoding="utf-8")
    ours, theirs, root = read_roads(str(path)), carla.Map(name, text), ElementTree.fromstring(text)
    points = places(name, 400, 0.3)
    limits = ours.speed_limit_mps(points[:, 0].copy(), points[:, 1].copy())
    heading = ours.lane_heading_rad(points[:, 0].copy(), points[:, 1].copy())
    seen = set()
    for (x, y), limit, yaw in zip(points.tolist(), limits.tolist(), heading, strict=True):
        point = theirs.get_waypoint(carla.Location(x, y, 0.0))
        same_way = abs(math.remainder(yaw - math.radians(point.transform.rotation.yaw), 2 * math.pi)) < 0.02
        if point.is_junction or not same_way:
            continue  # lanes lie over each other there, and two may be equally near
        wanted = written_limit(root, point)
        assert limit == pytest.approx(wanted, nan_ok=True), (x, y, point.road_id, point.lane_id, point.s)
        seen.add("none" if math.isnan(wanted) else f"{wanted:.3f}")
    assert len(seen) >= 4, "several limits were met"


def test_the_lanes_that_are_covered_are_those_of_carlas_waypoints():
    """A car along one lane after the other: coverage names every lane that CARLA's own map finds on its way, and no other."""
    name = "t-junction"
    theirs = carla.Map(name, load_map(name).xodr)
    start = max(theirs.get_topology(), key=lambda pair: pair[0].transform.location.distance(pair[1].transform.location))[0]
    way = [start]
    while len(way) < 800 and (ahead := way[-1].next(0.5)):
        way.append(ahead[0])
    recorder = Recorder(0, ("x_m", "y_m", "yaw_deg"), 0.1)
    recorder.actor(1, "vehicle.mercedes.coupe")
    for tick, point in enumerate(way):
        place = point.transform
        recorder.state(tick, 1, {"x_m": place.location.x, "y_m": place.location.y, "yaw_deg": place.rotation.yaw})
    recorder.end(len(way), "done")
    cell = MemoryCell(Header("test", "cell", "s", ("x_m", "y_m", "yaw_deg"), 0.1), [recorder.finish()])
    watched = watch_cell(cell, monitor_set({"monitors": ["speed(1) < 90"], "map": name}))
    ours = {situation.what for situation, _ in watched.coverage.situations if situation.kind == "lane"}
    wanted = {
        f"road {waypoint.road_id} section {waypoint.section_id} lane {waypoint.lane_id}"
        for waypoint in way
        if not waypoint.is_junction
    }
    crossed = {
        f"road {waypoint.road_id} section {waypoint.section_id} lane {waypoint.lane_id}"
        for waypoint in way
        if waypoint.is_junction
    }
    assert wanted <= ours
    assert len(wanted) >= 2
    # In the junction lanes lie over each other: those of the way are among them.
    inside = {waypoint.road_id for pair in theirs.get_topology() for waypoint in pair if waypoint.is_junction}
    assert {int(what.split()[1]) for what in ours - wanted} <= inside
    assert crossed & ours
