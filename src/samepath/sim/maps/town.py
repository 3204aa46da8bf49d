"""A town of our own: a ring road, two avenues of four lanes, quiet streets, lights, stop signs, a roundabout.

All streets run along the axes and meet at right angles. Numbers are in OpenDRIVE's frame, x east and y north: 307 m by 376 m
between the middles of the outer streets. Every lane leads on to another: there is no dead end.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from samepath.sim.maps.crossroads import (
    CROSSING_M,
    LIGHT,
    STOP,
    TURN_KMPH,
    YIELD,
    Arm,
    crossroads,
    rule_sign,
    speed_sign,
)
from samepath.sim.maps.designs import Mouth, roundabout
from samepath.sim.maps.town_scenery import Run, sights
from samepath.sim.maps.writer import LANE_WIDTH_M, End, Piece, crossing, document, geometry, solid_disc, street

KERB_RADIUS_M: Final = 6.5
RING_RADIUS_M: Final = 25.0
CIRCLE_M, ENTRY_M, CIRCLE_MOUTH_M = 6.0, 12.0, 14.5
MONUMENT_RADIUS_M: Final = 3.0
SPEED_SIGN_M: Final = 20.0
_WEST, _LANE, _AVENUE, _EAST = -70.0, 28.25, 85.0, 236.75
_SOUTH, _MARKET, _STATION, _NORTH = -120.0, 28.0, 202.0, 256.0
_MARGIN_M: Final = 40.0


@dataclass(frozen=True, slots=True)
class Node:
    """A junction: its middle and its rule: a ``LIGHT``, ``STOP`` or ``YIELD`` for those who come to the ring, a ``circle``."""

    id: int
    name: str
    x_m: float
    y_m: float
    rule: str


@dataclass(frozen=True, slots=True)
class Way:
    """A street between two junctions, straight or around ``corner``; ``lanes`` each way."""

    id: int
    name: str
    start: int
    end: int
    lanes: int = 1
    speed_kmph: int = 40
    corner: tuple[float, float] | None = None


NODES: Final = (
    Node(1000, "west gate", _WEST, _STATION, LIGHT),
    Node(1001, "north gate", _AVENUE, _NORTH, LIGHT),
    Node(1002, "east gate", _EAST, _STATION, LIGHT),
    Node(1003, "mill corner", _EAST, _MARKET, LIGHT),
    Node(1004, "south gate", _AVENUE, _SOUTH, LIGHT),
    Node(1005, "school corner", _LANE, _SOUTH, STOP),
    Node(1006, "bridge corner", _WEST, _MARKET, YIELD),
    Node(1007, "station square", _AVENUE, _STATION, LIGHT),
    Node(1008, "market cross", _AVENUE, _MARKET, LIGHT),
    Node(1009, "monument", _LANE, _MARKET, "circle"),
)
WAYS: Final = (
    Way(1, "ring north-west", 1000, 1001, corner=(_WEST, _NORTH)),
    Way(2, "ring north-east", 1001, 1002, corner=(_EAST, _NORTH)),
    Way(3, "ring east", 1002, 1003),
    Way(4, "ring south-east", 1003, 1004, corner=(_EAST, _SOUTH)),
    Way(5, "ring south", 1004, 1005),
    Way(6, "ring south-west", 1005, 1006, corner=(_WEST, _SOUTH)),
    Way(7, "ring west", 1006, 1000),
    Way(8, "station avenue west", 1000, 1007, lanes=2),
    Way(9, "station avenue east", 1007, 1002, lanes=2),
    Way(10, "market street west", 1006, 1009, speed_kmph=30),
    Way(11, "market street", 1009, 1008, speed_kmph=30),
    Way(12, "market street east", 1008, 1003, speed_kmph=30),
    Way(13, "town avenue north", 1001, 1007, lanes=2),
    Way(14, "town avenue", 1007, 1008, lanes=2),
    Way(15, "town avenue south", 1008, 1004, lanes=2),
    Way(16, "school lane", 1009, 1005, speed_kmph=30),
)
_NODE: Final = {node.id: node for node in NODES}


def town() -> str:
    """The whole file."""
    arms = {node.id: list(_arms(node)) for node in NODES}
    runs = {way.id: list(_runs(way, arms)) for way in WAYS}
    squares = [(node.x_m, node.y_m, CIRCLE_MOUTH_M) for node in NODES]
    scenery = sights([run for way in WAYS for run in runs[way.id]], squares)
    parts = [_street(way, runs[way.id], scenery[way.id]) for way in WAYS]
    road_id = 100
    for node in NODES:
        middle = (node.x_m, node.y_m)
        if node.rule == "circle":
            mouths = [Mouth(arm.end, arm.heading_rad, arm.mouth_m) for arm in arms[node.id]]
            made = roundabout(
                node.id, node.name, *middle, mouths, road_id, circle_m=CIRCLE_M, entry_m=ENTRY_M, speed_kmph=TURN_KMPH
            )
        else:
            made = crossroads(node.id, node.name, middle, arms[node.id], road_id, lights=node.rule == LIGHT)
        parts.extend(made)
        road_id += len(made)
    box = (_WEST - _MARGIN_M, _SOUTH - _MARGIN_M, _EAST + _MARGIN_M, _NORTH + _MARGIN_M)
    # Controllers stand behind all roads and junctions, where readers of OpenDRIVE look for them.
    return document("town", box, sorted(parts, key=lambda lines: lines[0].startswith(" <controller")))


def _bearing_rad(node: Node, way: Way) -> float:
    """Which way a street leaves a junction."""
    other = _NODE[way.end if way.start == node.id else way.start]
    x_m, y_m = way.corner or (other.x_m, other.y_m)
    return math.atan2(y_m - node.y_m, x_m - node.x_m) % math.tau


def _arms(node: Node) -> Iterator[Arm]:
    """The streets of a junction by rising heading; each starts where the bend of the kerb to the widest street across ends."""
    ways = sorted((way for way in WAYS if node.id in {way.start, way.end}), key=lambda way: _bearing_rad(node, way))
    for way in ways:
        heading_rad = _bearing_rad(node, way)
        across = [other.lanes for other in ways if abs(math.sin(_bearing_rad(node, other) - heading_rad)) > 0.5]
        mouth_m = CIRCLE_MOUTH_M if node.rule == "circle" else max(across) * LANE_WIDTH_M + KERB_RADIUS_M
        yield Arm(End(way.id, "start" if way.start == node.id else "end", way.lanes), heading_rad, mouth_m)


def _runs(way: Way, arms: dict[int, list[Arm]]) -> Iterator[Run]:
    """The pieces of a street from mouth to mouth."""
    a, b = _NODE[way.start], _NODE[way.end]
    first = next(arm for arm in arms[a.id] if arm.end == End(way.id, "start", way.lanes))
    last = next(arm for arm in arms[b.id] if arm.end == End(way.id, "end", way.lanes))
    x_m, y_m = a.x_m + first.mouth_m * math.cos(first.heading_rad), a.y_m + first.mouth_m * math.sin(first.heading_rad)
    heading_rad = math.remainder(first.heading_rad, math.tau)
    if way.corner is None:
        pieces = [Piece(math.dist((a.x_m, a.y_m), (b.x_m, b.y_m)) - first.mouth_m - last.mouth_m, 0.0)]
    else:
        bend_rad = math.remainder(last.heading_rad + math.pi - first.heading_rad, math.tau)
        before_m = math.dist((a.x_m, a.y_m), way.corner) - first.mouth_m - RING_RADIUS_M
        after_m = math.dist(way.corner, (b.x_m, b.y_m)) - last.mouth_m - RING_RADIUS_M
        arc = Piece(RING_RADIUS_M * abs(bend_rad), math.copysign(1.0 / RING_RADIUS_M, bend_rad))
        pieces = [Piece(before_m, 0.0), arc, Piece(after_m, 0.0)]
    s_m = 0.0
    for piece in pieces:
        run = Run(way.id, way.lanes, s_m, x_m, y_m, heading_rad, piece.length_m, piece.curvature_per_m)
        yield run
        x_m, y_m = run.at(piece.length_m)
        heading_rad += piece.curvature_per_m * piece.length_m
        s_m += piece.length_m


def _street(way: Way, runs: list[Run], scenery: list[str]) -> list[str]:
    pieces = [Piece(run.length_m, run.curvature_per_m) for run in runs]
    plan = geometry(runs[0].x_m, runs[0].y_m, runs[0].heading_rad, pieces)
    length_m = plan[1]
    objects, signals = list(scenery), []
    for number, (node_id, contact) in enumerate(((way.start, "start"), (way.end, "end"))):
        node, end = _NODE[node_id], End(way.id, contact, way.lanes)
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
