"""When something begins or ends: the tests of conditions, and what a condition remembers between ticks.

By the standard a condition with an edge holds in the one tick of that edge, and all conditions of a group must hold in the same
tick. In ScenarioRunner, for whose files ``latches`` is set, a condition once met stays met.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from samepath.core.trig import sincos_deg
from samepath.openscenario.motion import Mover, Movers, along_m
from samepath.openscenario.records import (
    AccelerationIs,
    AtRoadEnd,
    DistanceIs,
    ElementIs,
    EntityTest,
    FileCondition,
    FilePlace,
    FileTrigger,
    HeadwayIs,
    JudgedAfterwards,
    OffRoad,
    ParameterIs,
    Reaches,
    Rule,
    SpeedIs,
    StandsStill,
    TimeIs,
    TimeToCollisionIs,
    Touches,
    Travelled,
)
from samepath.openscenario.roads import Roads, Spot

# More than the rounding of a sum of steps, less than any step.
ROUNDING_S: Final = 1e-6
# «Equal to» of two that change by steps: a distance, a speed or a time that is nearer than this.
_EQUAL: Final = 1e-3
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "greaterThan": operator.gt,
    "lessThan": operator.lt,
    "greaterOrEqual": operator.ge,
    "lessOrEqual": operator.le,
    "equalTo": lambda a, b: abs(a - b) <= _EQUAL,
    "notEqualTo": lambda a, b: abs(a - b) > _EQUAL,
}
_FAR_S: Final = 1e9


def compares(rule: Rule, a: float, b: float) -> bool:
    """Does the rule hold?"""
    return _COMPARE[rule](a, b)


@dataclass
class Situation:
    """What conditions look at: the time, who is where, parameters, and what became of the storyboard's parts.

    ``happened`` lists (kind, name, transition) in the order in which they happened.
    """

    time_s: float
    movers: Movers
    roads: Roads
    parameters: dict[str, str]
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    happened: list[tuple[str, str, str]] = field(default_factory=list)


class ConditionMemory:
    """One condition of the file, with what it remembers."""

    def __init__(self, condition: FileCondition, *, latches: bool) -> None:
        self._condition, self._latches = condition, latches
        self._before = False
        self._due_s: list[float] = []
        self._seen = 0
        self._met = False
        self.triggering: tuple[str, ...] = ()

    def holds(self, now: Situation) -> bool:
        """Look once a tick."""
        raw = self._raw(now)
        before, self._before = self._before, raw
        edge = self._condition.edge
        if edge == "rising":
            result = raw and not before
        elif edge == "falling":
            result = before and not raw
        elif edge == "risingOrFalling":
            result = raw != before
        else:
            result = raw
        if self._condition.delay_s > 0.0:
            if result:
                self._due_s.append(now.time_s + self._condition.delay_s)
            result = bool(self._due_s) and self._due_s[0] <= now.time_s + ROUNDING_S
            if result:
                self._due_s.pop(0)
        if self._latches:
            self._met = self._met or result
            return self._met
        return result

    def _raw(self, now: Situation) -> bool:
        test = self._condition.test
        if isinstance(test, TimeIs):
            # Equal: the first tick at or after it; a time between two ticks would else be missed.
            if test.rule == "equalTo":
                return now.time_s >= test.value_s - ROUNDING_S
            return compares(test.rule, now.time_s, test.value_s)
        if isinstance(test, ParameterIs):
            return _parameter_holds(test, now.parameters)
        if isinstance(test, ElementIs):
            return self._element(test, now)
        if isinstance(test, JudgedAfterwards):
            return False
        found = [name for name in self._condition.entities if _entity_holds(test, now.movers[name], now)]
        self.triggering = tuple(found)
        return len(found) == len(self._condition.entities) > 0 if self._condition.every else bool(found)

    def _element(self, test: ElementIs, now: Situation) -> bool:
        name = test.name.rsplit("::", 1)[-1]
        if test.state.endswith("Transition"):
            # Everything that happened since this condition was last looked at, so that none is missed and none is seen twice.
            fresh, self._seen = now.happened[self._seen :], len(now.happened)
            return (test.kind, name, test.state) in fresh
        return now.states.get((test.kind, name), "standbyState") == test.state


class TriggerMemory:
    """A trigger: any group, all of its conditions. All are looked at in every tick: each has a memory of its own."""

    def __init__(self, trigger: FileTrigger, *, latches: bool) -> None:
        self._groups = [[ConditionMemory(condition, latches=latches) for condition in group] for group in trigger]
        self.triggering: tuple[str, ...] = ()

    def fires(self, now: Situation) -> bool:
        """Does any group hold?"""
        fired = False
        for group in self._groups:
            results = [memory.holds(now) for memory in group]
            if all(results) and not fired:
                fired = True
                self.triggering = tuple(dict.fromkeys(name for memory in group for name in memory.triggering))
        return fired


def _parameter_holds(test: ParameterIs, parameters: Mapping[str, str]) -> bool:
    value = parameters.get(test.name)
    if value is None:
        return False
    try:
        return compares(test.rule, float(value), float(test.value))
    except ValueError:
        same = value == test.value
        return same if test.rule == "equalTo" else not same if test.rule == "notEqualTo" else False


def _entity_holds(test: EntityTest, mover: Mover, now: Situation) -> bool:  # noqa: PLR0911 - one return per test
    match test:
        case DistanceIs():
            return compares(test.rule, _distance_m(test, mover, now), test.value_m)
        case HeadwayIs():
            other = now.movers[test.entity]
            gap_m = _ahead_m(mover, other, freespace=test.freespace)
            headway_s = gap_m / mover.speed_mps if mover.speed_mps > 0.01 else _FAR_S
            # Who is behind is at no headway.
            return headway_s >= 0.0 and compares(test.rule, headway_s, test.value_s)
        case TimeToCollisionIs():
            left_s = _collision_s(test, mover, now)
            return left_s is not None and compares(test.rule, left_s, test.value_s)
        case Reaches(place, tolerance_m):
            there = _there(place, now)
            return math.hypot(there.x_m - mover.spot.x_m, there.y_m - mover.spot.y_m) <= tolerance_m
        case Travelled(value_m):
            return mover.travelled_m >= value_m
        case SpeedIs(value_mps, rule, entity):
            base_mps = now.movers[entity].speed_mps if entity is not None else 0.0
            return compares(rule, mover.speed_mps - base_mps, value_mps)
        case AccelerationIs(value_mps2, rule):
            return compares(rule, mover.acceleration_mps2, value_mps2)
        case StandsStill(duration_s):
            return mover.still_s > 0.0 and mover.still_s >= duration_s - ROUNDING_S
        case AtRoadEnd(duration_s):
            return mover.at_road_end and mover.road_end_s >= duration_s - ROUNDING_S
        case OffRoad(duration_s):
            return mover.off_road_s > 0.0 and mover.off_road_s >= duration_s - ROUNDING_S
        case Touches(entity):
            others = [now.movers[entity]] if entity is not None else list(now.movers.values())
            return any(other is not mover and box_distance_m(mover, other) <= 0.0 for other in others)


def _there(place: FilePlace, now: Situation) -> Spot:
    return now.roads.resolve(place, {name: mover.spot for name, mover in now.movers.items()})


def _ahead_m(mover: Mover, other: Mover, *, freespace: bool) -> float:
    gap_m = along_m(mover.spot, other.spot)
    if freespace:
        half_m = 0.5 * (mover.entity.length_m + other.entity.length_m)
        gap_m = math.copysign(max(0.0, abs(gap_m) - half_m), gap_m)
    return gap_m


def _distance_m(test: DistanceIs, mover: Mover, now: Situation) -> float:  # noqa: PLR0911 - one return per measure
    if test.entity is not None:
        other = now.movers[test.entity]
        if test.measure == "longitudinal":
            return abs(_ahead_m(mover, other, freespace=test.freespace))
        if test.measure == "lateral":
            right_m = abs(mover.spot.local(other.spot.x_m, other.spot.y_m)[1])
            return max(0.0, right_m - 0.5 * (mover.entity.width_m + other.entity.width_m)) if test.freespace else right_m
        if test.freespace:
            return box_distance_m(mover, other)
        return math.hypot(other.spot.x_m - mover.spot.x_m, other.spot.y_m - mover.spot.y_m)
    if test.place is None:
        return _FAR_S
    there = _there(test.place, now)
    ahead_m, right_m = mover.spot.local(there.x_m, there.y_m)
    if test.measure == "longitudinal":
        return abs(along_m(mover.spot, there))
    return abs(right_m) if test.measure == "lateral" else math.hypot(ahead_m, right_m)


def _collision_s(test: TimeToCollisionIs, mover: Mover, now: Situation) -> float | None:
    """Seconds until they meet at today's velocities; None where they part."""
    if test.entity is not None:
        other = now.movers[test.entity]
        there, other_mps = other.spot, other.speed_mps
        gap_m = box_distance_m(mover, other) if test.freespace else None
    elif test.place is not None:
        there, other_mps, gap_m = _there(test.place, now), 0.0, None
    else:
        return None
    dx, dy = there.x_m - mover.spot.x_m, there.y_m - mover.spot.y_m
    apart_m = math.hypot(dx, dy)
    if apart_m == 0.0:
        return 0.0
    (own_y, own_x), (other_y, other_x) = sincos_deg(mover.spot.yaw_deg), sincos_deg(there.yaw_deg)
    closing_x, closing_y = mover.speed_mps * own_x - other_mps * other_x, mover.speed_mps * own_y - other_mps * other_y
    closing_mps = (closing_x * dx + closing_y * dy) / apart_m
    return (apart_m if gap_m is None else gap_m) / closing_mps if closing_mps > 1e-6 else None


def _corners(mover: Mover) -> list[tuple[float, float]]:
    middle, length_m, width_m = mover.middle, 0.5 * mover.entity.length_m, 0.5 * mover.entity.width_m
    return [middle.shifted(a * length_m, b * width_m) for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))]


def box_distance_m(mover: Mover, other: Mover) -> float:
    """The distance between the rectangles of two, 0 where they overlap."""
    mine, theirs = _corners(mover), _corners(other)
    if _overlap(mine, theirs):
        return 0.0
    return min(_to_edges_m(mine, theirs), _to_edges_m(theirs, mine))


def _overlap(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> bool:
    """Rectangles are apart if one of their edges' directions shows a gap."""
    for corners in (a, b):
        for first, second in ((0, 1), (1, 2)):
            axis_x, axis_y = corners[second][0] - corners[first][0], corners[second][1] - corners[first][1]
            on_a = [x * axis_x + y * axis_y for x, y in a]
            on_b = [x * axis_x + y * axis_y for x, y in b]
            if max(on_a) < min(on_b) or max(on_b) < min(on_a):
                return False
    return True


def _to_edges_m(points: list[tuple[float, float]], ring: list[tuple[float, float]]) -> float:
    best = math.inf
    for number, (ax, ay) in enumerate(ring):
        bx, by = ring[(number + 1) % len(ring)]
        square = (bx - ax) ** 2 + (by - ay) ** 2
        for x, y in points:
            share = min(1.0, max(0.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square)) if square > 0.0 else 0.0
            best = min(best, math.hypot(x - ax - share * (bx - ax), y - ay - share * (by - ay)))
    return best
