"""What drivers know of the roads: lanes as lines to follow, where to wait, and who gets in whose way. Worked out once per map.

Positions are arc lengths along a lane's middle, in metres from its start in the direction of driving. Lanes are known by their
place in the map's own order, so that nothing here depends on the order of a container.

A *gate* is a place where a driver may have to wait: before a junction, or before a crossing in the middle of a street. Who goes
through a gate takes a *passage*: from the gate over the crossing in front of the junction, one of its lanes and the crossing
behind it. Two passages *conflict* where their lanes come closer than two cars need; each such pair is kept with the stretch of
either lane on which that is so. Lanes that begin at the same place do not conflict: there one car follows the other.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.simulator.maps.lanes import LaneKey, LaneLine
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.world.signals import STOP_SIGN, SignalPlan, StopLine, plan_of

# Lanes whose middles are nearer than this cannot be used at once: the width of a car, and what it cuts off a bend.
CONFLICT_M: Final = 2.9
# Sideways in bends, and when slowing down for them.
LATERAL_MPS2: Final = 1.8
SLOWING_MPS2: Final = 1.3
SPEED_MAX_MPS: Final = 30.0
_SPEED_WITHOUT_LIMIT_MPS: Final = 50 / 3.6
_SLOWEST_MPS: Final = 2.0
# Where a lane has no line to stop at, drivers stop so far before the junction; and so far before a crossing.
_MOUTH_M: Final = 1.0
_BEFORE_CROSSING_M: Final = 1.0
# A crossing belongs to a junction if it is no further from it.
_NEAR_JUNCTION_M: Final = 15.0
# Foreign maps are bounded elsewhere (``check_work``); this bounds the table of pairs of lanes that are held against each other.
_PAIRS_MAX: Final = 200_000
_CELL_M: Final = 4.0


@dataclass(frozen=True, slots=True)
class Crossing:
    """A crossing for walkers, and the stretch of every lane that it covers: ``(lane, from_m, to_m)``."""

    number: int
    ring: tuple[tuple[float, float], ...]
    spans: tuple[tuple[int, float, float], ...]
    light: int = -1
    """The traffic light of the street it crosses, as a place in the plan; -1: none."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A place to wait: where on which lane; the light or sign that rules it; before a junction, or only before a crossing."""

    number: int
    lane: int
    stop_m: float
    light: int
    stops_always: bool
    yields: bool
    into_junction: bool
    crossings: tuple[int, ...]
    """Those between the line and the junction, or the one it is for."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another lane that is in the way: which stretch of this lane, and of the other."""

    other: int
    from_m: float
    to_m: float
    other_from_m: float
    other_to_m: float


@dataclass(frozen=True, eq=False, slots=True)
class TrafficLane:
    """A lane to drive on. ``at_m`` are the arc lengths of its points, ``caps_mps`` the speed that bends allow at each."""

    number: int
    key: LaneKey
    xs_m: tuple[float, ...]
    ys_m: tuple[float, ...]
    at_m: tuple[float, ...]
    caps_mps: tuple[float, ...]
    length_m: float
    limit_mps: float
    is_junction: bool

    def place(self, at_m: float) -> tuple[float, float]:
        """The point at an arc length; before the start and beyond the end the line goes straight on."""
        index = min(max(bisect_right(self.at_m, at_m) - 1, 0), len(self.at_m) - 2)
        step_m = self.at_m[index + 1] - self.at_m[index]
        part = (at_m - self.at_m[index]) / step_m if step_m > 0.0 else 0.0
        x_m, y_m = self.xs_m[index], self.ys_m[index]
        return x_m + part * (self.xs_m[index + 1] - x_m), y_m + part * (self.ys_m[index + 1] - y_m)

    def direction(self, at_m: float) -> tuple[float, float]:
        """The unit vector of driving at an arc length."""
        index = min(max(bisect_right(self.at_m, at_m) - 1, 0), len(self.at_m) - 2)
        step_m = self.at_m[index + 1] - self.at_m[index] or 1.0
        return (self.xs_m[index + 1] - self.xs_m[index]) / step_m, (self.ys_m[index + 1] - self.ys_m[index]) / step_m


@dataclass(frozen=True, eq=False)
class RoadNet:
    """The roads of a map, for drivers. All tables are by the lane's number."""

    name: str
    lanes: tuple[TrafficLane, ...]
    after: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    gates: tuple[Gate, ...]
    gates_of: tuple[tuple[int, ...], ...]
    crossings: tuple[Crossing, ...]
    crossings_of: tuple[tuple[tuple[float, float, int], ...], ...]
    """By lane: ``(from_m, to_m, crossing)``, in the order of driving."""
    conflicts: tuple[tuple[Conflict, ...], ...]
    together_m: tuple[tuple[tuple[int, float], ...], ...]
    """By lane: other lanes that begin at the same place, and how far they stay together."""
    plan: SignalPlan
    cells: dict[tuple[int, int], tuple[tuple[int, int], ...]]
    """Points of lanes by square of the ground: ``(lane, point)``."""

    def lanes_at(self, x_m: float, y_m: float, reach_m: float) -> list[tuple[int, float, float]]:
        """The lanes whose middle is within ``reach_m`` (at most a square) of a point: lane, arc length, distance; by lane."""
        best: dict[int, tuple[float, float]] = {}
        cell_x, cell_y = math.floor(x_m / _CELL_M), math.floor(y_m / _CELL_M)
        for i in (cell_x - 1, cell_x, cell_x + 1):
            for j in (cell_y - 1, cell_y, cell_y + 1):
                for lane, point in self.cells.get((i, j), ()):
                    line = self.lanes[lane]
                    dx, dy = x_m - line.xs_m[point], y_m - line.ys_m[point]
                    square = dx * dx + dy * dy
                    if square <= reach_m * reach_m and (lane not in best or square < best[lane][0]):
                        best[lane] = (square, line.at_m[point])
        return [(lane, at_m, math.sqrt(square)) for lane, (square, at_m) in sorted(best.items())]

    def costs_to(self, goal: int) -> tuple[float, ...]:
        """How long the way from the start of each lane to that of ``goal`` is, in seconds at the limit; inf: there is none.

        A change of lane counts as a little more than staying.
        """
        costs = [math.inf] * len(self.lanes)
        costs[goal] = 0.0
        # As often as there are lanes at most; each round goes through them in order, so ties are the same everywhere.
        for _ in range(len(self.lanes)):
            changed = False
            for lane in self.lanes:
                if lane.number == goal:
                    continue
                time_s = lane.length_m / lane.limit_mps
                found = min((costs[other] + time_s for other in self.after[lane.number]), default=math.inf)
                for beside in (self.left[lane.number], self.right[lane.number]):
                    if beside >= 0:
                        found = min(found, costs[beside] + _CHANGE_S)
                if found < costs[lane.number] - 1e-9:
                    costs[lane.number] = found
                    changed = True
            if not changed:
                break
        return tuple(costs)


_CHANGE_S: Final = 4.0


@lru_cache(maxsize=4)
def road_net(road_map: RoadMap) -> RoadNet:
    """Work everything out; once per map and process."""
    lines = [line for line in road_map.lanes if line.kind == "driving"]
    if not lines:
        raise InputError(f"map {road_map.name!r} has no driving lane: traffic has nowhere to go")
    numbers = {line.key: number for number, line in enumerate(lines)}
    lanes = tuple(_lane(road_map, number, line) for number, line in enumerate(lines))
    after = tuple(tuple(numbers[key] for key in road_map.lanes_after(line.key) if key in numbers) for line in lines)
    before: list[list[int]] = [[] for _ in lanes]
    for number, following in enumerate(after):
        for other in following:
            before[other].append(number)
    plan = plan_of(road_map)
    crossings = _crossings(road_map, lanes, lines, plan)
    crossings_of: list[list[tuple[float, float, int]]] = [[] for _ in lanes]
    for crossing in crossings:
        for lane, from_m, to_m in crossing.spans:
            crossings_of[lane].append((from_m, to_m, crossing.number))
    spans = tuple(tuple(sorted(row)) for row in crossings_of)
    gates = _gates(lanes, lines, after, spans, plan)
    gates_of: list[list[int]] = [[] for _ in lanes]
    for gate in gates:
        gates_of[gate.lane].append(gate.number)
    conflicts, together_m = _conflicts(road_map.name, lanes, before)
    return RoadNet(
        name=road_map.name,
        lanes=lanes,
        after=after,
        before=tuple(map(tuple, before)),
        left=tuple(_beside(line, numbers, -1) for line in lines),
        right=tuple(_beside(line, numbers, 1) for line in lines),
        gates=gates,
        gates_of=tuple(map(tuple, gates_of)),
        crossings=crossings,
        crossings_of=spans,
        conflicts=conflicts,
        together_m=together_m,
        plan=plan,
        cells=_cells(lanes),
    )


def _lane(road_map: RoadMap, number: int, line: LaneLine) -> TrafficLane:
    xs_m, ys_m = line.points[:, 0].tolist(), line.points[:, 1].tolist()
    at_m = [0.0]
    for index in range(1, len(xs_m)):
        dx, dy = xs_m[index] - xs_m[index - 1], ys_m[index] - ys_m[index - 1]
        at_m.append(at_m[-1] + math.sqrt(dx * dx + dy * dy))
    limit_mps = road_map.speed_limit_mps(line.key.road_id, float(min(line.s_m[0], line.s_m[-1])))
    limit_mps = min(max(limit_mps or _SPEED_WITHOUT_LIMIT_MPS, _SLOWEST_MPS), SPEED_MAX_MPS)
    return TrafficLane(
        number, line.key, tuple(xs_m), tuple(ys_m), tuple(at_m), tuple(_caps_mps(xs_m, ys_m, at_m)), at_m[-1], limit_mps,
        line.is_junction,
    )  # fmt: skip


def _caps_mps(xs_m: list[float], ys_m: list[float], at_m: list[float]) -> list[float]:
    """What bends allow: v² = a / curvature, and little enough before them that slowing down steadily is enough."""
    last, caps = len(xs_m) - 1, [SPEED_MAX_MPS] * len(xs_m)
    for index in range(1, last):
        low = max(bisect_right(at_m, at_m[index] - 1.5) - 1, 0)
        high = min(bisect_right(at_m, at_m[index] + 1.5), last)
        ax, ay = xs_m[index] - xs_m[low], ys_m[index] - ys_m[low]
        bx, by = xs_m[high] - xs_m[index], ys_m[high] - ys_m[index]
        cx, cy = xs_m[high] - xs_m[low], ys_m[high] - ys_m[low]
        squares = (ax * ax + ay * ay) * (bx * bx + by * by) * (cx * cx + cy * cy)
        turn = abs(ax * by - ay * bx)
        if squares > 0.0 and turn > 0.0:
            caps[index] = min(SPEED_MAX_MPS, math.sqrt(LATERAL_MPS2 * math.sqrt(squares) / (2.0 * turn)))
    for index in range(last - 1, -1, -1):
        square = caps[index + 1] * caps[index + 1] + 2.0 * SLOWING_MPS2 * (at_m[index + 1] - at_m[index])
        caps[index] = max(_SLOWEST_MPS, min(caps[index], math.sqrt(square)))
    return caps


def _beside(line: LaneLine, numbers: dict[LaneKey, int], step: int) -> int:
    """The lane beside for the same direction: -1 to the left, 1 to the right, as the driver sees it; -1 if there is none."""
    if line.is_junction:
        return -1
    lane_id = line.key.lane_id + (step if line.key.lane_id > 0 else -step)
    return numbers.get(LaneKey(line.key.road_id, line.key.section_id, lane_id), -1) if lane_id else -1


def _crossings(
    road_map: RoadMap, lanes: tuple[TrafficLane, ...], lines: list[LaneLine], plan: SignalPlan
) -> tuple[Crossing, ...]:
    found: list[Crossing] = []
    for polygon in road_map.crosswalks:
        ring = tuple((float(x), float(y)) for x, y in polygon.vertices[:, :2])
        spans = []
        for lane in lanes:
            inside = [index for index in _near_ring(lane, ring) if _contains(ring, lane.xs_m[index], lane.ys_m[index])]
            if inside:
                spans.append((lane.number, lane.at_m[inside[0]], lane.at_m[inside[-1]]))
        if spans:
            found.append(Crossing(len(found), ring, tuple(spans), _light_at(spans, lanes, lines, plan)))
    return tuple(found)


def _near_ring(lane: TrafficLane, ring: tuple[tuple[float, float], ...]) -> list[int]:
    xs, ys = [x for x, _ in ring], [y for _, y in ring]
    low_x, high_x, low_y, high_y = min(xs), max(xs), min(ys), max(ys)
    return [
        index
        for index, (x_m, y_m) in enumerate(zip(lane.xs_m, lane.ys_m, strict=True))
        if low_x <= x_m <= high_x and low_y <= y_m <= high_y
    ]


def _contains(ring: tuple[tuple[float, float], ...], x_m: float, y_m: float) -> bool:
    inside = False
    for (ax, ay), (bx, by) in zip(ring, (*ring[1:], ring[0]), strict=True):
        if (ay > y_m) != (by > y_m) and x_m < ax + (bx - ax) * (y_m - ay) / (by - ay):
            inside = not inside
    return inside


def _light_at(
    spans: list[tuple[int, float, float]], lanes: tuple[TrafficLane, ...], lines: list[LaneLine], plan: SignalPlan
) -> int:
    """The light for those who drive over these lanes and stop before the crossing."""
    for number, light in enumerate(plan.lights):
        for stop in light.stops:
            for lane, from_m, _ in spans:
                at_m = _stop_at_m(lanes[lane], lines[lane], stop)
                if at_m is not None and 0.0 <= from_m - at_m <= _NEAR_JUNCTION_M:
                    return number
    return -1


def _stop_at_m(lane: TrafficLane, line: LaneLine, stop: StopLine) -> float | None:
    """Where a stop line is on a lane; None: on another."""
    if (stop.road_id, stop.lane_id) != (lane.key.road_id, lane.key.lane_id):
        return None
    first, last = float(line.s_m[0]), float(line.s_m[-1])
    if not min(first, last) - 1e-6 <= stop.s_m <= max(first, last) + 1e-6:
        return None
    index = int(np.argmin(np.abs(line.s_m - stop.s_m)))
    return lane.at_m[index]


def _gates(
    lanes: tuple[TrafficLane, ...],
    lines: list[LaneLine],
    after: tuple[tuple[int, ...], ...],
    spans: tuple[tuple[tuple[float, float, int], ...], ...],
    plan: SignalPlan,
) -> tuple[Gate, ...]:
    lights, signs = _rules(lanes, lines, plan)
    gates: list[Gate] = []
    for lane in lanes:
        if lane.is_junction:
            continue
        leads_in = any(lanes[other].is_junction for other in after[lane.number])
        light, light_m = lights.get(lane.number, (-1, lane.length_m))
        stops, sign_m = signs.get(lane.number, (None, lane.length_m))
        mouth: list[tuple[float, float, int]] = []
        for from_m, to_m, crossing in spans[lane.number]:
            if leads_in and lane.length_m - to_m <= _NEAR_JUNCTION_M and from_m > _NEAR_JUNCTION_M:
                mouth.append((from_m, to_m, crossing))
            elif from_m > _NEAR_JUNCTION_M or not _leaves_junction(lane, lanes, after):
                # In the middle of a street. One right behind a junction belongs to the passage through that.
                stop_m = max(0.0, from_m - _BEFORE_CROSSING_M)
                gates.append(
                    Gate(len(gates), lane.number, stop_m, -1, stops_always=False, yields=False, into_junction=False,
                        crossings=(crossing,))
                )  # fmt: skip
        if leads_in:
            line_m = min(light_m, sign_m, lane.length_m - _MOUTH_M, *(from_m - _BEFORE_CROSSING_M for from_m, _, _ in mouth))
            gates.append(
                Gate(
                    len(gates), lane.number, max(line_m, 0.0), light, stops_always=stops is True,
                    yields=light < 0 and stops is not None, into_junction=True,
                    crossings=tuple(number for _, _, number in mouth),
                )
            )  # fmt: skip
    return tuple(gates)


def _leaves_junction(lane: TrafficLane, lanes: tuple[TrafficLane, ...], after: tuple[tuple[int, ...], ...]) -> bool:
    return any(lanes[number].is_junction and lane.number in following for number, following in enumerate(after))


def _rules(
    lanes: tuple[TrafficLane, ...], lines: list[LaneLine], plan: SignalPlan
) -> tuple[dict[int, tuple[int, float]], dict[int, tuple[bool, float]]]:
    """By lane: its light, and its sign (True: stop), each with the place of the line."""
    by_road: dict[tuple[int, int], list[int]] = {}
    for lane in lanes:
        by_road.setdefault((lane.key.road_id, lane.key.lane_id), []).append(lane.number)
    lights: dict[int, tuple[int, float]] = {}
    signs: dict[int, tuple[bool, float]] = {}
    for number, light in enumerate(plan.lights):
        for stop in light.stops:
            for lane_number in by_road.get((stop.road_id, stop.lane_id), ()):
                at_m = _stop_at_m(lanes[lane_number], lines[lane_number], stop)
                if at_m is not None:
                    lights.setdefault(lane_number, (number, at_m))
    for sign in plan.signs:
        for stop in sign.stops:
            for lane_number in by_road.get((stop.road_id, stop.lane_id), ()):
                at_m = _stop_at_m(lanes[lane_number], lines[lane_number], stop)
                if at_m is not None:
                    signs.setdefault(lane_number, (sign.signal.kind == STOP_SIGN, at_m))
    return lights, signs


def _conflicts(
    name: str, lanes: tuple[TrafficLane, ...], before: list[list[int]]
) -> tuple[tuple[tuple[Conflict, ...], ...], tuple[tuple[tuple[int, float], ...], ...]]:
    inside = [lane for lane in lanes if lane.is_junction]
    points = {lane.number: np.column_stack((lane.xs_m, lane.ys_m)) for lane in inside}
    boxes = {number: (rows.min(axis=0) - CONFLICT_M, rows.max(axis=0)) for number, rows in points.items()}
    found: list[list[Conflict]] = [[] for _ in lanes]
    together: list[list[tuple[int, float]]] = [[] for _ in lanes]
    pairs = 0
    for place, lane in enumerate(inside):
        for other in inside[place + 1 :]:
            (low_a, high_a), (low_b, high_b) = boxes[lane.number], boxes[other.number]
            if np.any(low_a > high_b) or np.any(low_b > high_a):
                continue
            pairs += 1
            if pairs > _PAIRS_MAX:
                raise InputError(
                    f"map {name!r}: at most {_PAIRS_MAX} pairs of lanes that meet in junctions were wanted for traffic, but "
                    "there are more: use a smaller map"
                )
            near = _near(points[lane.number], points[other.number])
            rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
            if not len(rows):
                continue
            a_m, b_m = lane.at_m, other.at_m
            from_m, to_m, other_from_m, other_to_m = a_m[rows[0]], a_m[rows[-1]], b_m[columns[0]], b_m[columns[-1]]
            if set(before[lane.number]) & set(before[other.number]):
                apart = np.flatnonzero(~near[: len(b_m), : len(a_m)].any(axis=1))
                reach_m = a_m[apart[0]] if len(apart) else to_m
                together[lane.number].append((other.number, reach_m))
                together[other.number].append((lane.number, reach_m))
                continue
            found[lane.number].append(Conflict(other.number, from_m, to_m, other_from_m, other_to_m))
            found[other.number].append(Conflict(lane.number, other_from_m, other_to_m, from_m, to_m))
    return tuple(map(tuple, found)), tuple(map(tuple, together))


def _near(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    dx, dy = a[:, None, 0] - b[None, :, 0], a[:, None, 1] - b[None, :, 1]
    near: NDArray[np.bool_] = dx * dx + dy * dy < CONFLICT_M * CONFLICT_M
    return near


def _cells(lanes: tuple[TrafficLane, ...]) -> dict[tuple[int, int], tuple[tuple[int, int], ...]]:
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for lane in lanes:
        for point, (x_m, y_m) in enumerate(zip(lane.xs_m, lane.ys_m, strict=True)):
            found.setdefault((math.floor(x_m / _CELL_M), math.floor(y_m / _CELL_M)), []).append((lane.number, point))
    return {cell: tuple(rows) for cell, rows in found.items()}
