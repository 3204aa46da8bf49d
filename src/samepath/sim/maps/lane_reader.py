"""Read ``<lanes>``: sections, lanes, widths, links, marks, speeds, heights."""

from itertools import pairwise
from typing import Final

from samepath.sim.maps.bounds import LANE_ID_MAX, MARK_WIDTH_MAX_M, RAISED_MAX_M, WIDTH_MAX_M
from samepath.sim.maps.records import Lane, LaneHeight, LaneSection, RoadMark, SpeedLimit
from samepath.sim.maps.values import read_cubics, read_speed_mps, read_station
from samepath.sim.maps.xmlread import Node

_KNOWN_LANE_PARTS: Final = frozenset({"link", "width", "roadMark", "speed", "height"})
_MARK_WIDTH_M: Final = 0.12
_SAME_M: Final = 1e-9


def read_sections(lanes: Node, length_m: float, ignored: list[str], road_id: int) -> tuple[LaneSection, ...]:
    """All lane sections of a road, each ending where the next starts."""
    nodes = list(lanes.children("laneSection"))
    if not nodes:
        raise lanes.fail("at least one <laneSection> was wanted")
    starts_m = [node.positive("s", zero=True) for node in nodes]
    if starts_m[0] > _SAME_M or any(after <= before for before, after in pairwise(starts_m)):
        raise lanes.fail("lane sections must start at s=0 and rise")
    if starts_m[-1] >= length_m:
        raise lanes.fail(f"a lane section starts at s={starts_m[-1]:g}, which is not before the road's end at {length_m:g}")
    ends_m = [*starts_m[1:], length_m]
    return tuple(
        LaneSection(index, start_m, end_m, _read_lanes(node, end_m - start_m, ignored, road_id))
        for index, (node, start_m, end_m) in enumerate(zip(nodes, starts_m, ends_m, strict=True))
    )


def _read_lanes(section: Node, length_m: float, ignored: list[str], road_id: int) -> tuple[Lane, ...]:
    if section.text("singleSide", "false") not in {"false", "0"}:
        raise section.fail("single-sided lane sections are not supported")
    found: list[Lane] = []
    for side in section.children("left", "center", "right"):
        for node in side.children("lane"):
            lane = _read_lane(node, length_m, ignored, road_id)
            sign = (lane.id > 0) - (lane.id < 0)
            if sign != {"left": 1, "center": 0, "right": -1}[side.tag]:
                raise node.fail(f"lane {lane.id} cannot stand in <{side.tag}>")
            found.append(lane)
    if len(found) > 2 * LANE_ID_MAX + 1:
        raise section.fail(f"at most {2 * LANE_ID_MAX + 1} lanes were wanted, but {len(found)} came")
    ids = sorted((lane.id for lane in found), reverse=True)
    if 0 not in ids:
        raise section.fail("the centre lane 0 is missing")
    if ids != list(range(ids[0], ids[-1] - 1, -1)):
        raise section.fail(f"lane ids without gaps or doubles were wanted, but {ids} came")
    return tuple(sorted(found, key=lambda lane: -lane.id))


def _read_lane(node: Node, length_m: float, ignored: list[str], road_id: int) -> Lane:
    lane_id = node.integer("id", LANE_ID_MAX)
    node = node.inside(f"{node.where}, lane {lane_id}")
    for part in node.children():
        if part.tag == "border":
            raise part.fail("lanes by border are not supported; write <width>")
        if part.tag not in _KNOWN_LANE_PARTS:
            ignored.append(f"road {road_id}: lane <{part.tag}>")
    widths = read_cubics(node, "width", "sOffset", length_m, WIDTH_MAX_M)
    if lane_id != 0 and not widths:
        raise node.fail("at least one <width> was wanted")
    link = node.child("link")
    return Lane(
        id=lane_id,
        kind=node.text("type", "none"),
        widths=widths,
        predecessor=_read_lane_link(link, "predecessor"),
        successor=_read_lane_link(link, "successor"),
        marks=tuple(_read_mark(mark, length_m) for mark in node.children("roadMark")),
        speeds=tuple(
            SpeedLimit(read_station(speed, "sOffset", length_m), read_speed_mps(speed)) for speed in node.children("speed")
        ),
        heights=tuple(
            LaneHeight(
                read_station(height, "sOffset", length_m),
                height.about("inner", RAISED_MAX_M),
                height.about("outer", RAISED_MAX_M),
            )
            for height in node.children("height")
        ),
    )


def _read_lane_link(link: Node | None, tag: str) -> int | None:
    node = link.child(tag) if link else None
    return None if node is None else node.integer("id", LANE_ID_MAX)


def _read_mark(node: Node, length_m: float) -> RoadMark:
    return RoadMark(
        read_station(node, "sOffset", length_m),
        node.text("type", "none"),
        node.text("color", "standard"),
        node.about("width", MARK_WIDTH_MAX_M, _MARK_WIDTH_M),
    )
