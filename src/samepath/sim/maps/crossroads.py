"""Junctions of streets that meet at right angles, of one or two lanes each way: turns, kerbs, lights and signs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.sim.maps.writer import LANE_WIDTH_M, End, Piece, Turn, controller, geometry, junction, signal, turn

CROSSING_M: Final = 4.0  # the middle of a zebra crossing, from the mouth of its street
STOP_LINE_M: Final = 6.5
POST_M: Final = 0.7  # beside the kerb
THROUGH_KMPH, TURN_KMPH = 40, 20
LIGHT, STOP, YIELD, SPEED = "1000001", "206", "205", "274"
_NAMES: Final = {LIGHT: "traffic light", STOP: "stop", YIELD: "give way"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A street as its junction sees it: which end, which way it leaves, how far from the middle its mouth is."""

    end: End
    heading_rad: float
    mouth_m: float


def turns_of(
    junction_id: int, middle: tuple[float, float], arms: Sequence[Arm], road_id: int
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
    middle: tuple[float, float], start: Arm, end: Arm, lanes: tuple[int, int], bend_rad: float
) -> tuple[list[str], float]:
    """The left edge of the way from lane to lane: straight, or a quarter circle with a straight piece at its longer side."""
    in_x, in_y = -math.cos(start.heading_rad), -math.sin(start.heading_rad)
    shift_in_m, shift_out_m = ((lane - 1) * LANE_WIDTH_M for lane in lanes)
    x_m = middle[0] - start.mouth_m * in_x + shift_in_m * in_y
    y_m = middle[1] - start.mouth_m * in_y - shift_in_m * in_x
    heading_rad = math.remainder(start.heading_rad + math.pi, math.tau)
    if abs(bend_rad) < 0.1:
        return geometry(x_m, y_m, heading_rad, [Piece(start.mouth_m + end.mouth_m, 0.0)])
    side = math.copysign(1.0, bend_rad)
    ahead_m = start.mouth_m + side * shift_out_m
    beyond_m = end.mouth_m + side * shift_in_m
    radius_m = min(ahead_m, beyond_m)
    pieces = [
        Piece(ahead_m - radius_m, 0.0),
        Piece(0.5 * math.pi * radius_m, side / radius_m),
        Piece(beyond_m - radius_m, 0.0),
    ]
    return geometry(x_m, y_m, heading_rad, [piece for piece in pieces if piece.length_m > 1e-9])


def crossroads(
    junction_id: int, name: str, middle: tuple[float, float], arms: Sequence[Arm], road_id: int, *, lights: bool
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
    return [*(lines for lines, _ in made), junction(junction_id, name, [one for _, one in made], ids), *controllers]


def signal_id(end: End) -> int:
    """The id of the light or sign at one end of a street."""
    return 10 * end.road_id + (1 if end.contact == "start" else 2)


def rule_sign(kind: str, end: End, length_m: float) -> str:
    """A light or sign at the stop line, to the right of those who come."""
    at_start = end.contact == "start"
    s_m = STOP_LINE_M if at_start else length_m - STOP_LINE_M
    side = 1.0 if at_start else -1.0
    lanes = (end.lane_in, end.lane_in * end.lanes)
    place = side * (end.lanes * LANE_WIDTH_M + POST_M)
    return signal(signal_id(end), _NAMES[kind], kind, s_m, place, lanes, light=kind == LIGHT)


def speed_sign(number: int, end: End, s_m: float, speed_kmph: int) -> str:
    """A speed limit for those who leave the junction at this end of a street."""
    lane = end.lane_out
    place = math.copysign(end.lanes * LANE_WIDTH_M + POST_M, lane)
    return signal(
        number, f"speed {speed_kmph}", SPEED, s_m, place, (lane, lane * end.lanes), value=str(speed_kmph), unit="km/h"
    )
