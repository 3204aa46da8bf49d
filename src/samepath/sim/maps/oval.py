"""A test track: an oval of two lanes each way, two straights of 330 m and bends of 50 m radius; no junction, no dead end."""

import math
from typing import Final

from samepath.sim.maps.crossroads import speed_sign
from samepath.sim.maps.writer import End, Piece, crossing, document, geometry, street, thing

STRAIGHT_M: Final = 330.0
RADIUS_M: Final = 50.0
LANES: Final = 2
SPEED_KMPH: Final = 100
_X_M, _Y_M = 32.0, 265.0
_LAMP_T_M, _WALL_T_M = 9.4, 14.0


def oval() -> str:
    """Four roads in a circle: straight, bend, straight, bend; anticlockwise is the direction of rising s.

    Not two: CARLA's map takes a lane that leads back after one other for an error.
    """
    bend, straight = Piece(math.pi * RADIUS_M, 1.0 / RADIUS_M), Piece(STRAIGHT_M, 0.0)
    east_m, south_m = _X_M + 2.0 * RADIUS_M, _Y_M - STRAIGHT_M
    parts = []
    for road_id, name, piece, x_m, y_m, heading_rad in (
        (1, "west straight", straight, _X_M, _Y_M, -0.5 * math.pi),
        (2, "south bend", bend, _X_M, south_m, -0.5 * math.pi),
        (3, "east straight", straight, east_m, south_m, 0.5 * math.pi),
        (4, "north bend", bend, east_m, _Y_M, 0.5 * math.pi),
    ):
        ends = (End((road_id - 2) % 4 + 1, "end", LANES), End(road_id % 4 + 1, "start", LANES))
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
        speed_sign(10 * road_id + number, End(road_id, contact, LANES), s_m, SPEED_KMPH)
        for number, (contact, s_m) in enumerate((("start", 30.0), ("end", STRAIGHT_M - 50.0)), start=5)
    ]
