"""Which lane follows which: the directed graph of lanes, in the direction of driving."""

from collections.abc import Iterator
from typing import NamedTuple

from samepath.sim.maps.records import Junction, Lane, OpenDrive, Road, RoadLink


class LaneKey(NamedTuple):
    """A lane of a section of a road; sorts by road, section, lane."""

    road_id: int
    section_id: int
    lane_id: int


def lane_successors(document: OpenDrive) -> dict[LaneKey, tuple[LaneKey, ...]]:
    """The lanes that can be driven onto from the end of each lane, without repeats, in the order of the file."""
    roads = {road.id: road for road in document.roads}
    junctions = {junction.id: junction for junction in document.junctions}
    return {
        LaneKey(road.id, section.index, lane.id): tuple(dict.fromkeys(_following(road, section.index, lane, roads, junctions)))
        for road in document.roads
        for section in road.sections
        for lane in section.lanes
        if lane.id != 0
    }


def lane_predecessors(successors: dict[LaneKey, tuple[LaneKey, ...]]) -> dict[LaneKey, tuple[LaneKey, ...]]:
    """The same graph, turned round."""
    found: dict[LaneKey, list[LaneKey]] = {key: [] for key in successors}
    for key, following in successors.items():
        for other in following:
            found[other].append(key)
    return {key: tuple(before) for key, before in found.items()}


def _following(
    road: Road, section_id: int, lane: Lane, roads: dict[int, Road], junctions: dict[int, Junction]
) -> Iterator[LaneKey]:
    """Right lanes (negative ids) run with s, left lanes against it."""
    forward = lane.id < 0
    linked = lane.successor if forward else lane.predecessor
    beyond = section_id + (1 if forward else -1)
    if 0 <= beyond < len(road.sections):
        if linked is not None and road.sections[beyond].lane(linked) is not None:
            yield LaneKey(road.id, beyond, linked)
        return
    link = road.successor if forward else road.predecessor
    if link is None:
        return
    if link.kind == "junction":
        yield from _through(junctions[link.id], road.id, lane.id, roads)
    elif linked is not None:
        yield from _onto(roads[link.id], link, linked)


def _onto(road: Road, link: RoadLink, lane_id: int) -> Iterator[LaneKey]:
    section = road.sections[0 if link.contact == "start" else -1]
    if lane_id != 0 and section.lane(lane_id) is not None:
        yield LaneKey(road.id, section.index, lane_id)


def _through(junction: Junction, road_id: int, lane_id: int, roads: dict[int, Road]) -> Iterator[LaneKey]:
    for connection in junction.connections:
        if connection.incoming_road == road_id:
            for from_id, to_id in connection.lane_links:
                if from_id == lane_id:
                    target = RoadLink("road", connection.connecting_road, connection.contact)
                    yield from _onto(roads[connection.connecting_road], target, to_id)
