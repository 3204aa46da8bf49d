"""The two maps of the published case study, and a straight road, in OpenDRIVE's frame.

Every arm's reference line is the middle of a street. The two are placed on the ground that the published case study drove over
(its logs give car waypoints between (-61.5, -22.6) and (15.7, -33.9) in CARLA's frame). Those waypoints trace two
mini-roundabouts some 20 m apart with four arms, driven on the left.
``double-mini-roundabout`` follows them; ``t-junction`` takes their main stream as its main road.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from samepath.simulator.maps.writer import (
    LANE_WIDTH_M,
    PlanPiece,
    RoadEnd,
    Turn,
    arm,
    crossing,
    document,
    geometry,
    give_way,
    junction,
    number,
    painted_disc,
    thing,
    turn,
)

LAMP_T_M: Final = 5.9
TREE_T_M: Final = 8.5
HOUSE_T_M: Final = 16.0
CIRCLE_RADIUS_M: Final = 3.0
ENTRY_RADIUS_M: Final = 9.75
ISLAND_RADIUS_M: Final = 1.5


@dataclass(frozen=True, slots=True)
class Mouth:
    """An arm as a junction sees it: which way it leaves and how far from the middle it starts."""

    end: RoadEnd
    heading_rad: float
    distance_m: float


def t_junction() -> str:
    """354 m x 170 m: a straight main road, a side road at right angles, kerbs of 6.5 m radius."""
    x_m, y_m, radius_m = -23.75, 10.5, 10.0
    headings = [math.radians(degrees) for degrees in (-21.8, 68.2, 158.2)]
    lengths_m = (176.0, 88.0, 176.0)
    mouths = [Mouth(RoadEnd(number, "start"), heading, radius_m) for number, heading in zip((1, 2, 3), headings, strict=True)]
    parts = []
    scenery = (
        _street(100, range(20, 160, 40), left=range(40, 130, 22), right=range(12, 130, 22)),
        _street(200, range(20, 80, 40), left=range(34, 70, 22), right=range(34, 70, 22)),
        _street(300, range(20, 160, 40), left=range(38, 150, 22), right=range(40, 150, 22)),
    )
    extra: tuple[list[str], ...] = ([], [crossing(290, 4.0)], [crossing(390, 4.0)])
    signs: tuple[list[str], ...] = ([], [give_way(1, 1.0, LANE_WIDTH_M + 0.7)], [])
    for mouth, name, length_m, objects, more, sign in zip(
        mouths, ("main road east", "side road", "main road west"), lengths_m, scenery, extra, signs, strict=True
    ):
        plan = _arm_plan(x_m, y_m, mouth, length_m)
        parts.append(arm(mouth.end.road_id, name, 1000, None, plan, [*objects, *more], sign))
    turns = []
    for index, (first, second) in enumerate(((0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2))):
        start, end = mouths[first], mouths[second]
        bend_rad = math.remainder(end.heading_rad - start.heading_rad - math.pi, math.tau)
        straight = abs(bend_rad) < 0.1
        piece = (
            PlanPiece(2.0 * radius_m, 0.0)
            if straight
            else PlanPiece(radius_m * abs(bend_rad), math.copysign(1.0 / radius_m, bend_rad))
        )
        # The way to the next arm runs along the kerb. With a sidewalk on the others too, sidewalks would cross the road.
        sidewalk = (second - first) % 3 == 1
        parts.append(_turn(10 + index, 1000, x_m, y_m, (start, end), [piece], sidewalk=sidewalk))
        turns.append(Turn(10 + index, start.end, sidewalk))
    parts.append(junction(1000, "t-junction", turns))
    return document("t-junction", (x_m - 177.0, y_m - 76.0, x_m + 177.0, y_m + 94.0), parts)


def double_mini_roundabout() -> str:
    """Two painted mini-roundabouts of 6.5 m inscribed radius, 24 m apart, with two further arms each."""
    middles = ((-43.0, 10.5), (-19.2, 13.0))
    (x1_m, y1_m), (x2_m, y2_m) = middles
    link_rad, link_m = math.atan2(y2_m - y1_m, x2_m - x1_m), math.hypot(x2_m - x1_m, y2_m - y1_m)
    mouth_m = 8.5
    west = [
        Mouth(RoadEnd(5, "start"), link_rad, mouth_m),
        Mouth(RoadEnd(1, "start"), math.radians(145.0), 11.5),
        Mouth(RoadEnd(2, "start"), math.radians(229.0), 11.5),
    ]
    east = [
        Mouth(RoadEnd(3, "start"), math.radians(-31.0), 14.5),
        Mouth(RoadEnd(4, "start"), math.radians(32.0), 14.5),
        Mouth(RoadEnd(5, "end"), link_rad + math.pi, mouth_m),
    ]
    parts = []
    names = {1: "north-west arm", 2: "south-west arm", 3: "south-east arm", 4: "north-east arm"}
    for (x_m, y_m), mouths, junction_id in zip(middles, (west, east), (1000, 1001), strict=True):
        for mouth in mouths:
            road_id = mouth.end.road_id
            if road_id in names:
                objects = _street(100 * road_id, range(14, 80, 30), left=range(30, 70, 22), right=range(30, 70, 22))
                objects.append(crossing(100 * road_id + 90, 5.0))
                if road_id in {1, 3}:
                    objects.append(painted_disc(100 * road_id + 91, -mouth.distance_m, ISLAND_RADIUS_M))
                sign = [give_way(road_id, 1.0, LANE_WIDTH_M + 0.7)]
                parts.append(arm(road_id, names[road_id], junction_id, None, _arm_plan(x_m, y_m, mouth, 80.0), objects, sign))
    parts.append(arm(5, "link", 1000, 1001, _arm_plan(x1_m, y1_m, west[0], link_m - 2.0 * mouth_m)))
    for (x_m, y_m), mouths, junction_id in zip(middles, (west, east), (1000, 1001), strict=True):
        number = junction_id - 999
        parts.extend(roundabout(junction_id, f"mini-roundabout {number}", x_m, y_m, mouths, 10 * number))
    return document("double-mini-roundabout", (-134.0, -72.0, 78.0, 78.0), parts)


def roundabout(
    junction_id: int,
    name: str,
    x_m: float,
    y_m: float,
    mouths: Sequence[Mouth],
    road_id: int,
    *,
    circle_m: float = CIRCLE_RADIUS_M,
    entry_m: float = ENTRY_RADIUS_M,
    speed_kmph: int | None = None,
) -> list[list[str]]:
    """Every way in joined to every way out, the U-turn included, anticlockwise around the middle.

    ``mouths`` are three, by rising heading; ``road_id`` is the first of the connecting roads.
    """
    parts = []
    turns = []
    for first, start in enumerate(mouths):
        for step in (1, 2, 3):
            end = mouths[(first + step) % 3]
            sidewalk = step == 1
            way = _around(start, end, circle_m, entry_m)
            both = (start, end)
            parts.append(_turn(road_id, junction_id, x_m, y_m, both, way, sidewalk=sidewalk, speed_kmph=speed_kmph))
            turns.append(Turn(road_id, start.end, sidewalk))
            road_id += 1
    return [*parts, junction(junction_id, name, turns)]


def _around(start: Mouth, end: Mouth, circle_m: float, entry_m: float) -> list[PlanPiece]:
    """From one arm to another: right into the circle, along it, right out of it; or straight round a near corner.

    With the circle of radius r and entry arcs of radius q, both tangent, the entry touches the circle at atan2(q, y) from its
    arm, where y = sqrt((r + q)^2 - q^2) is also how far from the middle the entry arc begins.
    """
    between_rad = (end.heading_rad - start.heading_rad) % math.tau or math.tau
    begin_m = math.sqrt((circle_m + entry_m) ** 2 - entry_m**2)
    touch_rad = math.atan2(entry_m, begin_m)
    circle_rad = between_rad - 2.0 * touch_rad
    if circle_rad > 0.0:
        bend = PlanPiece(entry_m * (0.5 * math.pi - touch_rad), -1.0 / entry_m)
        circle = PlanPiece(circle_m * circle_rad, 1.0 / circle_m)
        pieces = [PlanPiece(start.distance_m - begin_m, 0.0), bend, circle, bend, PlanPiece(end.distance_m - begin_m, 0.0)]
    else:
        corner_m = min(start.distance_m, end.distance_m) - 0.5
        radius_m = corner_m * math.tan(0.5 * between_rad)
        bend = PlanPiece(radius_m * (math.pi - between_rad), -1.0 / radius_m)
        pieces = [PlanPiece(start.distance_m - corner_m, 0.0), bend, PlanPiece(end.distance_m - corner_m, 0.0)]
    return pieces


def _turn(
    road_id: int,
    junction_id: int,
    x_m: float,
    y_m: float,
    mouths: tuple[Mouth, Mouth],
    pieces: list[PlanPiece],
    *,
    sidewalk: bool,
    speed_kmph: int | None = None,
) -> list[str]:
    start, end = mouths
    cos, sin = math.cos(start.heading_rad), math.sin(start.heading_rad)
    heading_rad = math.remainder(start.heading_rad + math.pi, math.tau)
    plan = geometry(x_m + start.distance_m * cos, y_m + start.distance_m * sin, heading_rad, pieces)
    return turn(road_id, junction_id, (start.end, end.end), plan, sidewalk=sidewalk, speed_kmph=speed_kmph)


def _arm_plan(x_m: float, y_m: float, mouth: Mouth, length_m: float) -> tuple[list[str], float]:
    cos, sin = math.cos(mouth.heading_rad), math.sin(mouth.heading_rad)
    return geometry(x_m + mouth.distance_m * cos, y_m + mouth.distance_m * sin, mouth.heading_rad, [PlanPiece(length_m, 0.0)])


def _street(first_id: int, lamps_m: range, *, left: range, right: range) -> list[str]:
    """Lamps and trees along both sides, houses set back from them; sizes follow a fixed pattern."""
    found: list[str] = []
    for s_m in lamps_m:
        for side in (1, -1):
            found.append(thing(first_id + len(found), "pole", s_m + 5.0 * side, side * LAMP_T_M, 'radius="0.1" height="6"'))
    for side, starts in ((1, left), (-1, right)):
        for index, s_m in enumerate(starts):
            size = f'length="{14 + index % 3}" width="{9 + index % 2}" height="{6 + 2 * (index % 3)}"'
            found.append(thing(first_id + len(found), "building", float(s_m), side * HOUSE_T_M, size))
            if index % 2 == 0:
                tree = thing(first_id + len(found), "tree", s_m + 11.0, side * TREE_T_M, 'radius="1.8" height="6"')
                found.append(tree)
    return found


STRAIGHT_LENGTH_M: Final = 160.0
_STRAIGHT_LANE_M: Final = 6.0


def straight(start_m: float) -> str:
    """A straight road along x with two wide lanes each way and nothing beside it, from ``start_m`` on: the same anywhere."""
    lane = '<lane id="{}" type="driving" level="false"><width sOffset="0" a="{}" b="0" c="0" d="0"/></lane>'
    width = number(_STRAIGHT_LANE_M)
    left, right = (
        "".join(lane.format(sign * place, width) for place in places) for sign, places in ((1, (2, 1)), (-1, (1, 2)))
    )
    length, x = number(STRAIGHT_LENGTH_M), number(start_m)
    return "\n".join(
        (
            '<?xml version="1.0"?>',
            '<OpenDRIVE><header revMajor="1" revMinor="4" name="straight" version="1"/>',
            f'<road name="straight" length="{length}" id="1" junction="-1">',
            f'<planView><geometry s="0" x="{x}" y="0" hdg="0" length="{length}"><line/></geometry></planView>',
            f'<lanes><laneSection s="0"><left>{left}</left>',
            '<center><lane id="0" type="none" level="false"/></center>',
            f"<right>{right}</right></laneSection></lanes></road></OpenDRIVE>",
            "",
        )
    )
