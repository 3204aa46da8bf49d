"""Two maps of our own design: ``town``, and ``oval``, a test track.

The town has a ring road, two avenues of four lanes, quiet streets, lights, stop signs and a roundabout. All streets run along
the axes and meet at right angles. Numbers are in OpenDRIVE's frame, x east and y north: 307 m by 376 m between the middles of
the outer streets. Every lane leads on to another: there is no dead end. Junctions are of streets with one or two lanes each
way; along the streets stand lamps, trees, houses and garden walls, wherever there is room.

The oval has two lanes each way, two straights of 330 m and bends of 50 m radius; no junction, no dead end.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from samepath.simulator.maps.designs import Mouth, roundabout
from samepath.simulator.maps.writer import (
    LANE_WIDTH_M,
    SIDEWALK_WIDTH_M,
    PlanPiece,
    RoadEnd,
    Turn,
    controller,
    crossing,
    document,
    geometry,
    junction,
    signal,
    solid_disc,
    street,
    thing,
    turn,
)

CROSSING_M: Final = 4.0  # the middle of a zebra crossing, from the mouth of its street
STOP_LINE_M: Final = 6.5
POST_M: Final = 0.7  # beside the kerb
THROUGH_KMPH, TURN_KMPH = 40, 20
LIGHT, STOP, YIELD, SPEED = "1000001", "206", "205", "274"
_NAMES: Final = {LIGHT: "traffic light", STOP: "stop", YIELD: "give way"}

LAMP_EVERY_M, TREE_EVERY_M, HOUSE_EVERY_M = 38.0, 26.0, 24.0

# Beyond the sidewalk: lamps, trees, the middles of houses.
LAMP_M, TREE_M, HOUSE_M = 0.4, 3.0, 10.5

# From the middle of a house to the sidewalk of any street, and to the middle of any other house.
HOUSE_CLEAR_M, HOUSE_APART_M = 9.75, 20.0
_SMALL_CLEAR_M: Final = 0.3
_ARC_PARTS: Final = 6

KERB_RADIUS_M: Final = 6.5
RING_RADIUS_M: Final = 25.0
CIRCLE_M, ENTRY_M, CIRCLE_MOUTH_M = 6.0, 12.0, 14.5
MONUMENT_RADIUS_M: Final = 3.0
SPEED_SIGN_M: Final = 20.0
_WEST, _LANE, _AVENUE, _EAST = -70.0, 28.25, 85.0, 236.75
_SOUTH, _MARKET, _STATION, _NORTH = -120.0, 28.0, 202.0, 256.0
_MARGIN_M: Final = 40.0

# The oval.
STRAIGHT_M: Final = 330.0
RADIUS_M: Final = 50.0
LANES: Final = 2
SPEED_KMPH: Final = 100
_X_M, _Y_M = 32.0, 265.0
_LAMP_T_M, _WALL_T_M = 9.4, 14.0


@dataclass(frozen=True, slots=True)
class TownJunction:
    """A junction: its middle and its rule: a ``LIGHT``, ``STOP`` or ``YIELD`` for those who come to the ring, a ``circle``."""

    id: int
    name: str
    x_m: float
    y_m: float
    rule: str


@dataclass(frozen=True, slots=True)
class TownStreet:
    """A street between two junctions, straight or around ``corner``; ``lanes`` each way."""

    id: int
    name: str
    start: int
    end: int
    lanes: int = 1
    speed_kmph: int = 40
    corner: tuple[float, float] | None = None


JUNCTIONS: Final = (
    TownJunction(1000, "west gate", _WEST, _STATION, LIGHT),
    TownJunction(1001, "north gate", _AVENUE, _NORTH, LIGHT),
    TownJunction(1002, "east gate", _EAST, _STATION, LIGHT),
    TownJunction(1003, "mill corner", _EAST, _MARKET, LIGHT),
    TownJunction(1004, "south gate", _AVENUE, _SOUTH, LIGHT),
    TownJunction(1005, "school corner", _LANE, _SOUTH, STOP),
    TownJunction(1006, "bridge corner", _WEST, _MARKET, YIELD),
    TownJunction(1007, "station square", _AVENUE, _STATION, LIGHT),
    TownJunction(1008, "market cross", _AVENUE, _MARKET, LIGHT),
    TownJunction(1009, "monument", _LANE, _MARKET, "circle"),
)
STREETS: Final = (
    TownStreet(1, "ring north-west", 1000, 1001, corner=(_WEST, _NORTH)),
    TownStreet(2, "ring north-east", 1001, 1002, corner=(_EAST, _NORTH)),
    TownStreet(3, "ring east", 1002, 1003),
    TownStreet(4, "ring south-east", 1003, 1004, corner=(_EAST, _SOUTH)),
    TownStreet(5, "ring south", 1004, 1005),
    TownStreet(6, "ring south-west", 1005, 1006, corner=(_WEST, _SOUTH)),
    TownStreet(7, "ring west", 1006, 1000),
    TownStreet(8, "station avenue west", 1000, 1007, lanes=2),
    TownStreet(9, "station avenue east", 1007, 1002, lanes=2),
    TownStreet(10, "market street west", 1006, 1009, speed_kmph=30),
    TownStreet(11, "market street", 1009, 1008, speed_kmph=30),
    TownStreet(12, "market street east", 1008, 1003, speed_kmph=30),
    TownStreet(13, "town avenue north", 1001, 1007, lanes=2),
    TownStreet(14, "town avenue", 1007, 1008, lanes=2),
    TownStreet(15, "town avenue south", 1008, 1004, lanes=2),
    TownStreet(16, "school lane", 1009, 1005, speed_kmph=30),
)
_JUNCTION_BY_ID: Final = {node.id: node for node in JUNCTIONS}


@dataclass(frozen=True, slots=True)
class StreetPiece:
    """A straight or bent piece of a street: where it starts and from which s on, which way it runs, how it bends."""

    road_id: int
    lanes: int
    s_m: float
    x_m: float
    y_m: float
    heading_rad: float
    length_m: float
    curvature_per_m: float = 0.0

    def at(self, along_m: float, left_m: float = 0.0) -> tuple[float, float]:
        """A point ``along_m`` further and ``left_m`` to the left."""
        half_rad = 0.5 * self.curvature_per_m * along_m
        chord_m = along_m * (math.sin(half_rad) / half_rad if half_rad else 1.0)
        heading_rad = self.heading_rad + 2.0 * half_rad
        return (
            self.x_m + chord_m * math.cos(self.heading_rad + half_rad) - left_m * math.sin(heading_rad),
            self.y_m + chord_m * math.sin(self.heading_rad + half_rad) + left_m * math.cos(heading_rad),
        )

    @property
    def edge_m(self) -> float:
        """From the middle of the street to the outer edge of its sidewalk."""
        return self.lanes * LANE_WIDTH_M + SIDEWALK_WIDTH_M


def town() -> str:
    """The whole file."""
    arms = {node.id: list(_arms(node)) for node in JUNCTIONS}
    runs = {way.id: list(_runs(way, arms)) for way in STREETS}
    squares = [(node.x_m, node.y_m, CIRCLE_MOUTH_M) for node in JUNCTIONS]
    scenery = street_objects([run for way in STREETS for run in runs[way.id]], squares)
    parts = [_street(way, runs[way.id], scenery[way.id]) for way in STREETS]
    road_id = 100
    for node in JUNCTIONS:
        middle = (node.x_m, node.y_m)
        if node.rule == "circle":
            made = roundabout(
                node.id, node.name, *middle, arms[node.id], road_id, circle_m=CIRCLE_M, entry_m=ENTRY_M, speed_kmph=TURN_KMPH
            )
        else:
            made = crossroads(node.id, node.name, middle, arms[node.id], road_id, lights=node.rule == LIGHT)
        parts.extend(made)
        road_id += len(made)
    box = (_WEST - _MARGIN_M, _SOUTH - _MARGIN_M, _EAST + _MARGIN_M, _NORTH + _MARGIN_M)
    # Controllers stand behind all roads and junctions, where readers of OpenDRIVE look for them.
    return document("town", box, sorted(parts, key=lambda lines: lines[0].startswith(" <controller")))


def _bearing_rad(node: TownJunction, way: TownStreet) -> float:
    """Which way a street leaves a junction."""
    other = _JUNCTION_BY_ID[way.end if way.start == node.id else way.start]
    x_m, y_m = way.corner or (other.x_m, other.y_m)
    return math.atan2(y_m - node.y_m, x_m - node.x_m) % math.tau


def _arms(node: TownJunction) -> Iterator[Mouth]:
    """The streets of a junction by rising heading; each starts where the bend of the kerb to the widest street across ends."""
    ways = sorted((way for way in STREETS if node.id in {way.start, way.end}), key=lambda way: _bearing_rad(node, way))
    for way in ways:
        heading_rad = _bearing_rad(node, way)
        across = [other.lanes for other in ways if abs(math.sin(_bearing_rad(node, other) - heading_rad)) > 0.5]
        mouth_m = CIRCLE_MOUTH_M if node.rule == "circle" else max(across) * LANE_WIDTH_M + KERB_RADIUS_M
        yield Mouth(RoadEnd(way.id, "start" if way.start == node.id else "end", way.lanes), heading_rad, mouth_m)


def _runs(way: TownStreet, arms: dict[int, list[Mouth]]) -> Iterator[StreetPiece]:
    """The pieces of a street from mouth to mouth."""
    a, b = _JUNCTION_BY_ID[way.start], _JUNCTION_BY_ID[way.end]
    first = next(arm for arm in arms[a.id] if arm.end == RoadEnd(way.id, "start", way.lanes))
    last = next(arm for arm in arms[b.id] if arm.end == RoadEnd(way.id, "end", way.lanes))
    x_m, y_m = a.x_m + first.distance_m * math.cos(first.heading_rad), a.y_m + first.distance_m * math.sin(first.heading_rad)
    heading_rad = math.remainder(first.heading_rad, math.tau)
    if way.corner is None:
        pieces = [PlanPiece(math.dist((a.x_m, a.y_m), (b.x_m, b.y_m)) - first.distance_m - last.distance_m, 0.0)]
    else:
        bend_rad = math.remainder(last.heading_rad + math.pi - first.heading_rad, math.tau)
        before_m = math.dist((a.x_m, a.y_m), way.corner) - first.distance_m - RING_RADIUS_M
        after_m = math.dist(way.corner, (b.x_m, b.y_m)) - last.distance_m - RING_RADIUS_M
        arc = PlanPiece(RING_RADIUS_M * abs(bend_rad), math.copysign(1.0 / RING_RADIUS_M, bend_rad))
        pieces = [PlanPiece(before_m, 0.0), arc, PlanPiece(after_m, 0.0)]
    s_m = 0.0
    for piece in pieces:
        run = StreetPiece(way.id, way.lanes, s_m, x_m, y_m, heading_rad, piece.length_m, piece.curvature_per_m)
        yield run
        x_m, y_m = run.at(piece.length_m)
        heading_rad += piece.curvature_per_m * piece.length_m
        s_m += piece.length_m


def _street(way: TownStreet, runs: list[StreetPiece], scenery: list[str]) -> list[str]:
    pieces = [PlanPiece(run.length_m, run.curvature_per_m) for run in runs]
    plan = geometry(runs[0].x_m, runs[0].y_m, runs[0].heading_rad, pieces)
    length_m = plan[1]
    objects, signals = list(scenery), []
    for number, (node_id, contact) in enumerate(((way.start, "start"), (way.end, "end"))):
        node, end = _JUNCTION_BY_ID[node_id], RoadEnd(way.id, contact, way.lanes)
        at_start = contact == "start"
        if node.rule in {LIGHT, "circle"}:
            objects.append(crossing(9000 + 10 * way.id + number, CROSSING_M if at_start else length_m - CROSSING_M, way.lanes))
        on_ring = way.name.startswith("ring")
        if node.rule == "circle":
            signals.append(rule_sign(YIELD, end, length_m))
        elif node.rule == LIGHT or not on_ring:
            signals.append(rule_sign(node.rule, end, length_m))
        if length_m > 3.0 * SPEED_SIGN_M:
            s_m = SPEED_SIGN_M if at_start else length_m - SPEED_SIGN_M
            signals.append(speed_sign(10 * way.id + 5 + number, end, s_m, way.speed_kmph))
    if way.name == "school lane":
        objects.append(solid_disc(9900, "monument", -CIRCLE_MOUTH_M, MONUMENT_RADIUS_M, 5.0))
    return street(way.id, way.name, (way.start, way.end), plan, way.lanes, way.speed_kmph, objects, signals)


def crossroads(
    junction_id: int, name: str, middle: tuple[float, float], arms: Sequence[Mouth], road_id: int, *, lights: bool
) -> list[list[str]]:
    """The connecting roads, the junction, and with ``lights`` a controller for each street: one has green at a time.

    So nobody who turns left meets somebody who comes the other way, which is how CARLA's own towns do it.
    """
    made = list(turns_of(junction_id, middle, arms, road_id))
    ids = [10 * junction_id + index for index in range(len(arms))] if lights else []
    controllers = [
        controller(number, f"{name} phase {index}", [signal_id(arm.end)])
        for index, (number, arm) in enumerate(zip(ids, arms if lights else (), strict=True))
    ]
    return [*(lines for lines, _ in made), junction(junction_id, name, [turning for _, turning in made], ids), *controllers]


def turns_of(
    junction_id: int, middle: tuple[float, float], arms: Sequence[Mouth], road_id: int
) -> Iterator[tuple[list[str], Turn]]:
    """Every way through: left from the inner lane, right from the outer, straight on from each.

    ``road_id`` is that of the first connecting road.
    The sidewalk follows the kerb: around the corner to the right, or straight on where no street leaves to the right.
    """
    for start in arms:
        bends = [
            (end, math.remainder(end.heading_rad - start.heading_rad - math.pi, math.tau)) for end in arms if end is not start
        ]
        closed_right = all(bend_rad > -0.1 for _, bend_rad in bends)
        for end, bend_rad in bends:
            if bend_rad > 0.1:
                pairs = [(1, 1)]
            elif bend_rad < -0.1:
                pairs = [(start.end.lanes, end.end.lanes)]
            else:
                pairs = [(lane, lane) for lane in range(1, min(start.end.lanes, end.end.lanes) + 1)]
            for lanes in pairs:
                outer = lanes == (start.end.lanes, end.end.lanes)
                sidewalk = outer and (bend_rad < -0.1 or (closed_right and bend_rad < 0.1))
                plan = _plan(middle, start, end, lanes, bend_rad)
                ends = (start.end, end.end)
                speed_kmph = THROUGH_KMPH if abs(bend_rad) < 0.1 else TURN_KMPH
                yield (
                    turn(road_id, junction_id, ends, plan, sidewalk=sidewalk, lanes=lanes, speed_kmph=speed_kmph),
                    Turn(road_id, start.end, sidewalk, lanes[0]),
                )
                road_id += 1


def _plan(
    middle: tuple[float, float], start: Mouth, end: Mouth, lanes: tuple[int, int], bend_rad: float
) -> tuple[list[str], float]:
    """The left edge of the way from lane to lane: straight, or a quarter circle with a straight piece at its longer side."""
    in_x, in_y = -math.cos(start.heading_rad), -math.sin(start.heading_rad)
    shift_in_m, shift_out_m = ((lane - 1) * LANE_WIDTH_M for lane in lanes)
    x_m = middle[0] - start.distance_m * in_x + shift_in_m * in_y
    y_m = middle[1] - start.distance_m * in_y - shift_in_m * in_x
    heading_rad = math.remainder(start.heading_rad + math.pi, math.tau)
    if abs(bend_rad) < 0.1:
        return geometry(x_m, y_m, heading_rad, [PlanPiece(start.distance_m + end.distance_m, 0.0)])
    side = math.copysign(1.0, bend_rad)
    ahead_m = start.distance_m + side * shift_out_m
    beyond_m = end.distance_m + side * shift_in_m
    radius_m = min(ahead_m, beyond_m)
    pieces = [
        PlanPiece(ahead_m - radius_m, 0.0),
        PlanPiece(0.5 * math.pi * radius_m, side / radius_m),
        PlanPiece(beyond_m - radius_m, 0.0),
    ]
    return geometry(x_m, y_m, heading_rad, [piece for piece in pieces if piece.length_m > 1e-9])


def signal_id(end: RoadEnd) -> int:
    """The id of the light or sign at one end of a street."""
    return 10 * end.road_id + (1 if end.contact == "start" else 2)


def rule_sign(kind: str, end: RoadEnd, length_m: float) -> str:
    """A light or sign at the stop line, to the right of those who come."""
    at_start = end.contact == "start"
    s_m = STOP_LINE_M if at_start else length_m - STOP_LINE_M
    side = 1.0 if at_start else -1.0
    lanes = (end.lane_in, end.lane_in * end.lanes)
    place = side * (end.lanes * LANE_WIDTH_M + POST_M)
    return signal(signal_id(end), _NAMES[kind], kind, s_m, place, lanes, light=kind == LIGHT)


def speed_sign(number: int, end: RoadEnd, s_m: float, speed_kmph: int) -> str:
    """A speed limit for those who leave the junction at this end of a street."""
    lane = end.lane_out
    place = math.copysign(end.lanes * LANE_WIDTH_M + POST_M, lane)
    return signal(
        number, f"speed {speed_kmph}", SPEED, s_m, place, (lane, lane * end.lanes), value=str(speed_kmph), unit="km/h"
    )


def street_objects(runs: Sequence[StreetPiece], squares: Sequence[tuple[float, float, float]]) -> dict[int, list[str]]:
    """Objects for each road. ``squares`` are further places to keep free: x, y and how far around."""
    segments = [_segment(run, part) for run in runs for part in range(_ARC_PARTS if run.curvature_per_m else 1)]
    found: dict[int, list[str]] = {run.road_id: [] for run in runs}
    houses: list[tuple[float, float]] = []
    numbers = {run.road_id: count(100 * run.road_id) for run in runs}

    def clear_m(x_m: float, y_m: float) -> float:
        streets = min(_distance_m(x_m, y_m, a, b) - edge_m for a, b, edge_m in segments)
        return min(streets, *(math.dist((x_m, y_m), (sx, sy)) - around_m for sx, sy, around_m in squares))

    for run in runs:
        if run.curvature_per_m:
            continue
        add = found[run.road_id].append
        number = numbers[run.road_id]
        for index, (s_m, side) in enumerate(_places(run, HOUSE_EVERY_M)):
            t_m = side * (run.edge_m + HOUSE_M)
            x_m, y_m = run.at(s_m, t_m)
            apart_m = min((math.dist((x_m, y_m), other) for other in houses), default=math.inf)
            if clear_m(x_m, y_m) >= HOUSE_CLEAR_M and apart_m >= HOUSE_APART_M:
                houses.append((x_m, y_m))
                size = f'length="{14 + index % 3}" width="{9 + index % 2}" height="{6 + 3 * (index % 4)}"'
                add(thing(next(number), "building", run.s_m + s_m, t_m, size))
                wall_m = side * (run.edge_m + 2.0)
                if index % 4 == 1 and clear_m(*run.at(s_m - 4.0, wall_m)) > 1.0 and clear_m(*run.at(s_m + 4.0, wall_m)) > 1.0:
                    add(thing(next(number), "wall", run.s_m + s_m, wall_m, 'length="8" width="0.3" height="1"'))
        for kind, every_m, beyond_m, size in (
            ("pole", LAMP_EVERY_M, LAMP_M, 'radius="0.1" height="6"'),
            ("tree", TREE_EVERY_M, TREE_M, 'radius="1.5" height="6"'),
        ):
            for s_m, side in _places(run, every_m):
                t_m = side * (run.edge_m + beyond_m)
                if clear_m(*run.at(s_m, t_m)) >= min(_SMALL_CLEAR_M, beyond_m):
                    add(thing(next(number), kind, run.s_m + s_m, t_m, size))
    return found


def _places(run: StreetPiece, every_m: float) -> Iterator[tuple[float, float]]:
    """Places along a street on its left and right, centred between its ends, the right ones half a step on."""
    steps = int((run.length_m - 6.0) / every_m)
    first_m = 0.5 * (run.length_m - steps * every_m)
    for step in range(steps + 1):
        for side, ahead_m in ((1.0, 0.0), (-1.0, 0.5 * every_m)):
            s_m = round(first_m + step * every_m + ahead_m, 3)
            if s_m <= run.length_m - 3.0:
                yield s_m, side


def _segment(run: StreetPiece, part: int) -> tuple[tuple[float, float], tuple[float, float], float]:
    parts = _ARC_PARTS if run.curvature_per_m else 1
    return run.at(run.length_m * part / parts), run.at(run.length_m * (part + 1) / parts), run.edge_m


def _distance_m(x_m: float, y_m: float, a: tuple[float, float], b: tuple[float, float]) -> float:
    step_x, step_y = b[0] - a[0], b[1] - a[1]
    part = ((x_m - a[0]) * step_x + (y_m - a[1]) * step_y) / (step_x * step_x + step_y * step_y)
    part = min(max(part, 0.0), 1.0)
    return math.hypot(x_m - a[0] - part * step_x, y_m - a[1] - part * step_y)


def oval() -> str:
    """Four roads in a circle: straight, bend, straight, bend; anticlockwise is the direction of rising s.

    Not two: CARLA's map takes a lane that leads back after one other for an error.
    """
    bend, straight = PlanPiece(math.pi * RADIUS_M, 1.0 / RADIUS_M), PlanPiece(STRAIGHT_M, 0.0)
    east_m, south_m = _X_M + 2.0 * RADIUS_M, _Y_M - STRAIGHT_M
    parts = []
    for road_id, name, piece, x_m, y_m, heading_rad in (
        (1, "west straight", straight, _X_M, _Y_M, -0.5 * math.pi),
        (2, "south bend", bend, _X_M, south_m, -0.5 * math.pi),
        (3, "east straight", straight, east_m, south_m, 0.5 * math.pi),
        (4, "north bend", bend, east_m, _Y_M, 0.5 * math.pi),
    ):
        ends = (RoadEnd((road_id - 2) % 4 + 1, "end", LANES), RoadEnd(road_id % 4 + 1, "start", LANES))
        objects, signals = (_beside(road_id), _signs(road_id)) if piece is straight else ([], [])
        plan = geometry(x_m, y_m, heading_rad, [piece])
        parts.append(street(road_id, name, ends, plan, LANES, SPEED_KMPH, objects, signals))
    edge_m = RADIUS_M + 30.0
    middle_m = _X_M + RADIUS_M
    return document("oval", (middle_m - edge_m, south_m - edge_m, middle_m + edge_m, _Y_M + edge_m), parts)


def _beside(road_id: int) -> list[str]:
    """Lamps on both sides, a wall on the outer one, a crossing near the end."""
    objects = [crossing(100 * road_id + 90, STRAIGHT_M - 30.0, LANES)]
    for index in range(8):
        for side in (1.0, -1.0):
            lamp = 'radius="0.1" height="8"'
            objects.append(thing(100 * road_id + len(objects), "pole", 20.0 + 40.0 * index, side * _LAMP_T_M, lamp))
    wall = 'length="280" width="0.4" height="1.2"'
    return [*objects, thing(100 * road_id + len(objects), "wall", 150.0, -_WALL_T_M, wall)]


def _signs(road_id: int) -> list[str]:
    """The speed limit, for either direction."""
    return [
        speed_sign(10 * road_id + number, RoadEnd(road_id, contact, LANES), s_m, SPEED_KMPH)
        for number, (contact, s_m) in enumerate((("start", 30.0), ("end", STRAIGHT_M - 50.0)), start=5)
    ]
