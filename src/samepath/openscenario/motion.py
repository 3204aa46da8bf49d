"""How entities move while a storyboard is played: speeds, lanes, routes and trajectories, tick by tick, without physics.

A :class:`Mover` is an entity with at most one job for its speed, one for its place across the lane and one for its way. A new
job of a kind replaces the one before it, which has then ended. This is what the file asks for; what an engine's cars make of
it is the engine's.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

from samepath.core.errors import InputError
from samepath.core.trig import PI, heading_deg, sincos_deg, wrap_deg
from samepath.openscenario.curves import drawn
from samepath.openscenario.records import (
    ChangeLane,
    ChangeOffset,
    ChangeSpeed,
    DriveItself,
    Dynamics,
    Entity,
    FileAction,
    FollowRoute,
    FollowTrajectory,
    KeepBeside,
    KeepDistance,
    SpeedProfile,
    Synchronise,
)
from samepath.openscenario.roads import Roads, Spot, turned_deg
from samepath.simulator.maps import Waypoint

# The plain driver of who is under the control of the program under test: Treiber's intelligent driver model.
CRUISE_MPS: Final = 10.0
_IDM_ACCELERATION_MPS2: Final = 1.5
_IDM_BRAKING_MPS2: Final = 3.0
_IDM_GAP_M: Final = 4.0
_IDM_GAP_S: Final = 1.5
_SEEN_M: Final = 100.0
_ARRIVED_M: Final = 0.5
_PASSED_M: Final = 3.0
_BESIDE_M: Final = 0.01
# How far a way to a place is looked for, and in what steps.
_WAY_MAX_M: Final = 2000.0
_WAY_STEP_M: Final = 1.0
_PER_S: Final = 0.5


class MotionJob(Protocol):
    """Something that goes on; ``ended`` once it is over."""

    ended: bool


@dataclass(eq=False)
class Mover:
    """An entity on its way."""

    entity: Entity
    spot: Spot
    speed_mps: float = 0.0
    acceleration_mps2: float = 0.0
    travelled_m: float = 0.0
    still_s: float = 0.0
    road_end_s: float = 0.0
    off_road_s: float = 0.0
    at_road_end: bool = False
    goals: list[Spot] = field(default_factory=list)
    speed_job: "SpeedJob | None" = None
    side_job: "SideJob | None" = None
    way_job: "WayJob | None" = None

    @property
    def middle(self) -> Spot:
        """The entity's middle."""
        x_m, y_m = self.spot.shifted(self.entity.ahead_m, 0.0)
        return Spot(x_m, y_m, self.spot.yaw_deg)


Movers = Mapping[str, Mover]


def shaped(shape: str, part: float) -> float:
    """How far a change has come, both from 0 to 1."""
    if shape == "sinusoidal":
        return 0.5 * (1.0 - sincos_deg(180.0 * part)[1])
    return part * part * (3.0 - 2.0 * part) if shape == "cubic" else part


# The steepest slope of each shape over that of a straight line.
_STEEPEST: Final = {"step": 1.0, "linear": 1.0, "sinusoidal": PI / 2.0, "cubic": 1.5}


def lasts_s(dynamics: Dynamics, change: float, mean_mps: float) -> float:
    """How long a change takes: a time as it is, a distance at the mean speed on the way, a rate as the steepest slope."""
    if dynamics.dimension == "time":
        return dynamics.value
    if dynamics.dimension == "distance":
        return dynamics.value / max(mean_mps, 0.1) if dynamics.value else 0.0
    return _STEEPEST[dynamics.shape] * abs(change) / dynamics.value if dynamics.value else 0.0


class SpeedJob:
    """Changes a speed, or keeps it to somebody else's."""

    def __init__(self, action: FileAction, mover: Mover, movers: Movers, roads: Roads) -> None:
        self.ended = False
        self._action, self._mover, self._movers, self._roads = action, mover, movers, roads
        self._start_mps, self._elapsed_s = mover.speed_mps, 0.0
        self._way_m: tuple[float, float] | None = None
        self._cruise_mps = mover.speed_mps or CRUISE_MPS
        match action:
            case ChangeSpeed(dynamics=dynamics):
                mean_mps = 0.5 * (mover.speed_mps + self._target_mps(action))
                self._lasts_s = lasts_s(dynamics, self._target_mps(action) - mover.speed_mps, mean_mps)
            case Synchronise():
                spots = {name: other.spot for name, other in movers.items()}
                own, masters = roads.resolve(action.place, spots), roads.resolve(action.master_place, spots)
                master = movers[action.master]
                self._way_m = (
                    mover.travelled_m + way_m(roads, mover, own),
                    master.travelled_m + way_m(roads, master, masters),
                )

    def speed_mps(self, step_s: float) -> float:
        """The speed of the next tick."""
        self._elapsed_s += step_s
        match self._action:
            case ChangeSpeed():
                return self._changed_mps(self._action)
            case SpeedProfile():
                return self._profiled_mps(self._action)
            case KeepDistance():
                return self._kept_mps(self._action, step_s)
            case Synchronise():
                return self._synchronised_mps(self._action)
            case DriveItself():
                return self._driven_mps(step_s)
        return self._mover.speed_mps

    def _target_mps(self, action: ChangeSpeed) -> float:
        if action.entity is None:
            return action.value
        other_mps = self._movers[action.entity].speed_mps
        return max(0.0, other_mps * action.value if action.is_factor else other_mps + action.value)

    def _changed_mps(self, action: ChangeSpeed) -> float:
        target_mps = self._target_mps(action)
        part = 1.0 if self._lasts_s <= 0.0 else min(1.0, self._elapsed_s / self._lasts_s)
        if part >= 1.0 - 1e-9:
            self.ended = not action.continuous
            return target_mps
        if action.dynamics.shape == "step":
            return target_mps
        return self._start_mps + (target_mps - self._start_mps) * shaped(action.dynamics.shape, part)

    def _profiled_mps(self, action: SpeedProfile) -> float:
        base_mps = self._movers[action.entity].speed_mps if action.entity is not None else 0.0
        before_mps, start_s = self._start_mps, 0.0
        limits = self._mover.entity
        for speed_mps, given_s in action.entries:
            target_mps = max(0.0, base_mps + speed_mps)
            rate = limits.acceleration_mps2 if target_mps > before_mps else limits.deceleration_mps2
            part_s = given_s if given_s is not None else abs(target_mps - before_mps) / rate
            if self._elapsed_s < start_s + part_s:
                return before_mps + (target_mps - before_mps) * (self._elapsed_s - start_s) / part_s
            before_mps, start_s = target_mps, start_s + part_s
        self.ended = True
        return before_mps

    def _kept_mps(self, action: KeepDistance, step_s: float) -> float:
        mover, other = self._mover, self._movers[action.entity]
        gap_m = along_m(mover.spot, other.spot)
        if action.freespace:
            gap_m -= 0.5 * (mover.entity.length_m + other.entity.length_m)
        wanted_m = action.distance_m if action.distance_m is not None else (action.gap_s or 0.0) * mover.speed_mps
        if not action.continuous and abs(gap_m - wanted_m) < 0.1:
            self.ended = True
        target_mps = min(max(0.0, other.speed_mps + _PER_S * (gap_m - wanted_m)), action.speed_mps)
        lowest_mps = mover.speed_mps - action.deceleration_mps2 * step_s
        return min(max(target_mps, lowest_mps), mover.speed_mps + action.acceleration_mps2 * step_s)

    def _synchronised_mps(self, action: Synchronise) -> float:
        mover, master = self._mover, self._movers[action.master]
        if self._way_m is None:
            return mover.speed_mps
        own_m, master_m = self._way_m[0] - mover.travelled_m, self._way_m[1] - master.travelled_m
        final_mps = action.final_mps
        if final_mps is not None and action.relative_to_master:
            final_mps = max(0.0, master.speed_mps + final_mps)
        if own_m <= _ARRIVED_M or master_m <= _ARRIVED_M:
            self.ended = True
            return mover.speed_mps if final_mps is None else final_mps
        if master.speed_mps < 0.1:
            return 0.0
        arrival_s = master_m / master.speed_mps
        wanted_mps = own_m / arrival_s if final_mps is None else max(0.0, 2.0 * own_m / arrival_s - final_mps)
        return min(wanted_mps, mover.entity.speed_mps_max)

    def _driven_mps(self, step_s: float) -> float:
        mover = self._mover
        gap_m, lead_mps = _SEEN_M, mover.speed_mps
        for other in self._movers.values():
            if other is mover:
                continue
            ahead_m, right_m = mover.middle.local(other.middle.x_m, other.middle.y_m)
            free_m = ahead_m - 0.5 * (mover.entity.length_m + other.entity.length_m)
            if (
                0.0 < ahead_m < _SEEN_M
                and abs(right_m) < 0.5 * (mover.entity.width_m + other.entity.width_m) + 0.3
                and free_m < gap_m
            ):
                gap_m, lead_mps = free_m, other.speed_mps
        free = 1.0 - (mover.speed_mps / self._cruise_mps) ** 4
        if gap_m < _SEEN_M:
            closing = (
                mover.speed_mps * (mover.speed_mps - lead_mps) / (2.0 * math.sqrt(_IDM_ACCELERATION_MPS2 * _IDM_BRAKING_MPS2))
            )
            wanted_m = _IDM_GAP_M + max(0.0, mover.speed_mps * _IDM_GAP_S + closing)
            free -= (wanted_m / max(gap_m, 0.1)) ** 2
        return min(max(0.0, mover.speed_mps + max(-8.0, _IDM_ACCELERATION_MPS2 * free) * step_s), self._cruise_mps)


class SideJob(Protocol):
    """Goes to another place across the lane, or keeps one."""

    ended: bool

    def offset_m(self, step_s: float) -> float:
        """The place across the lane in the next tick."""
        ...


def side_job(action: FileAction, mover: Mover, movers: Movers, roads: Roads) -> SideJob:
    """What an action across the lane asks for."""
    if mover.spot.lane is None:
        raise InputError(f"{mover.entity.name!r}: a lane to change was wanted, but it is on no lane")
    if isinstance(action, KeepBeside):
        return BesideJob(action, mover, movers[action.entity], roads)
    return ShiftJob(action, mover, movers, roads, mover.spot.lane)


class ShiftJob:
    """Goes to another lane, or to another place across the lane."""

    def __init__(self, action: FileAction, mover: Mover, movers: Movers, roads: Roads, lane: Waypoint) -> None:
        self.ended = False
        self._mover, self._elapsed_s, self._travelled_m = mover, 0.0, mover.travelled_m
        if isinstance(action, ChangeLane):
            if action.entity is None:
                there = roads.lane_of_id(lane, action.value)
            else:
                other = movers[action.entity].spot
                if other.lane is None:
                    raise InputError(f"{action.entity!r}: a lane to change to was wanted, but it is on no lane")
                beside = roads.lane_beside(other.lane, -action.value if other.against else action.value)
                there = roads.lane_of_id(lane, beside.lane_id) if other.lane.road_id == lane.road_id else lane
            mover.spot = roads.onto(mover.spot, there)
            self._target_m = action.offset_m if there.lane_id < 0 else -action.offset_m
            self._shape, self._dynamics = action.dynamics.shape, action.dynamics
            self._lasts_s = lasts_s(action.dynamics, self._target_m - mover.spot.offset_m, mover.speed_mps)
        elif isinstance(action, ChangeOffset):
            base_m = movers[action.entity].spot.offset_m if action.entity is not None else 0.0
            self._target_m = base_m + (action.value_m if lane.lane_id < 0 else -action.value_m)
            self._shape = action.shape  # type: ignore[assignment]
            change_m = abs(self._target_m - mover.spot.offset_m)
            # A half wave of height h and length T presses with h/2 (pi/T)^2 at most.
            self._lasts_s = 0.0 if action.shape == "step" else PI * math.sqrt(0.5 * change_m / action.acceleration_mps2)
        self._start_m = mover.spot.offset_m

    def offset_m(self, step_s: float) -> float:
        """The place across the lane in the next tick."""
        if self._mover.speed_mps > 0.0 or self._lasts_s <= 0.0:
            # Nobody moves sideways who stands.
            self._elapsed_s += step_s
        part = 1.0 if self._lasts_s <= 0.0 else min(1.0, self._elapsed_s / self._lasts_s)
        if part >= 1.0 - 1e-9:
            self.ended = True
            return self._target_m
        return self._start_m + (self._target_m - self._start_m) * shaped(self._shape, part)


class BesideJob:
    """Keeps a distance to somebody's side: as quickly as it may, braking in time."""

    def __init__(self, action: KeepBeside, mover: Mover, other: Mover, roads: Roads) -> None:
        if other is mover:
            raise InputError(f"{mover.entity.name!r}: somebody else was wanted, beside whom to be")
        self.ended = False
        self._action, self._mover, self._other, self._roads = action, mover, other, roads
        self._speed_mps = 0.0
        there_m, right = self._reference()
        away_m = right * (mover.spot.offset_m - there_m)
        self._side = action.side or (1 if away_m >= 0.0 else -1)
        room_m = 0.5 * (mover.entity.width_m + other.entity.width_m) if action.freespace else 0.0
        self._away_m = self._side * away_m if action.distance_m is None else action.distance_m + room_m

    def offset_m(self, step_s: float) -> float:
        """The place across the lane in the next tick."""
        here_m = self._mover.spot.offset_m
        if self._mover.speed_mps <= 0.0:
            self._speed_mps = 0.0  # nobody moves sideways who stands
            return here_m
        there_m, right = self._reference()
        gap_m = there_m + right * self._side * self._away_m - here_m
        action = self._action
        fastest_mps = min(action.speed_mps, math.sqrt(2.0 * action.deceleration_mps2 * abs(gap_m)), abs(gap_m) / step_s)
        wanted_mps = math.copysign(fastest_mps, gap_m)
        slows = abs(wanted_mps) < abs(self._speed_mps)
        change_mps = (action.deceleration_mps2 if slows else action.acceleration_mps2) * step_s
        self._speed_mps = min(max(wanted_mps, self._speed_mps - change_mps), self._speed_mps + change_mps)
        moved_m = self._speed_mps * step_s
        self.ended = not action.continuous and abs(gap_m - moved_m) < _BESIDE_M
        return here_m + moved_m

    def _reference(self) -> tuple[float, int]:
        """Where the other is across our lane, and on which side of it its right is: 1 or -1."""
        spot, lane, other = self._mover.spot, self._mover.spot.lane, self._other.spot
        if lane is None:
            return spot.offset_m, 1
        right = 1 if turned_deg(lane.yaw_deg, other.yaw_deg) <= 90.0 else -1
        if other.lane is not None and other.lane.road_id == lane.road_id and self._roads.has_lane(other.lane, lane.lane_id):
            return self._roads.onto(other, self._roads.lane_of_id(other.lane, lane.lane_id)).offset_m, right
        return Spot(lane.x_m, lane.y_m, lane.yaw_deg).local(other.x_m, other.y_m)[1], right


class WayJob:
    """Follows a route along lanes, or a line of points across everything."""

    def __init__(self, action: FileAction, mover: Mover, movers: Movers, roads: Roads, time_s: float, *, first: bool) -> None:
        self.ended = False
        self._mover, self._roads = mover, roads
        spots = {name: other.spot for name, other in movers.items()}
        self._line: list[tuple[float, float]] | None = None
        self._times_s: tuple[float, ...] | None = None
        self._start_s = time_s
        self._done_m = 0.0
        self._ends = True
        if isinstance(action, FollowRoute):
            goals = [roads.resolve(place, spots) for place in action.route.places]
            self._ends = action.ends
            if mover.spot.lane is not None and all(goal.lane is not None for goal in goals):
                mover.goals = goals
                self.ended = not action.ends
            else:
                self._set_line([(mover.spot.x_m, mover.spot.y_m), *((goal.x_m, goal.y_m) for goal in goals)])
        elif isinstance(action, FollowTrajectory):
            line, times_s = drawn(action.curve, action.times_s, mover.spot, lambda place: roads.resolve(place, spots))
            points = [(spot.x_m, spot.y_m) for spot in line]
            away_m = math.hypot(points[0][0] - mover.spot.x_m, points[0][1] - mover.spot.y_m)
            if first:
                mover.spot = Spot(*points[0], heading_deg(points[1][0] - points[0][0], points[1][1] - points[0][1]))
            elif action.times_s is not None and away_m > _PASSED_M:
                raise InputError(
                    f"{mover.entity.name!r}: a trajectory that starts where it is was wanted, but it starts {away_m:.1f} m away"
                )
            elif away_m > _ARRIVED_M and action.times_s is None:
                points = [(mover.spot.x_m, mover.spot.y_m), *points]
            if times_s is not None:
                self._times_s = times_s
                self._start_s = 0.0 if action.from_start else time_s
            self._set_line(points)

    def _set_line(self, points: list[tuple[float, float]]) -> None:
        self._line = points
        self._arcs = [0.0]
        for (ax, ay), (bx, by) in pairwise(points):
            self._arcs.append(self._arcs[-1] + math.hypot(bx - ax, by - ay))
        self._mover.goals = []

    @property
    def points(self) -> int:
        """How many points it has."""
        return len(self._line or self._mover.goals)

    @property
    def is_line(self) -> bool:
        """Does it leave the lanes?"""
        return self._line is not None and not self.ended

    def along_line(self, step_s: float, time_s: float) -> None:
        """Move along the points: by their times, or at the mover's own speed."""
        mover, line = self._mover, self._line
        if line is None:
            return
        before_m = self._done_m
        if self._times_s is not None:
            self._done_m = _interpolated(self._times_s, self._arcs, time_s + step_s - self._start_s)
            over = time_s + step_s - self._start_s >= self._times_s[-1]
            if not over or self._done_m > before_m:
                mover.speed_mps = (self._done_m - before_m) / step_s
        else:
            self._done_m += mover.speed_mps * step_s
            over = self._done_m >= self._arcs[-1]
        part = next((number for number, arc in enumerate(self._arcs[1:]) if self._done_m <= arc), len(line) - 2)
        while part > 0 and self._arcs[part + 1] == self._arcs[part]:
            part -= 1
        (ax, ay), (bx, by) = line[part], line[part + 1]
        length_m = self._arcs[part + 1] - self._arcs[part]
        yaw_deg = heading_deg(bx - ax, by - ay) if length_m > 0.0 else mover.spot.yaw_deg
        share = min(1.0, (self._done_m - self._arcs[part]) / length_m) if length_m > 0.0 else 1.0
        mover.spot = Spot(ax + (bx - ax) * share, ay + (by - ay) * share, yaw_deg)
        mover.travelled_m += self._done_m - before_m
        if over:
            self.ended = True
            if mover.entity.kind == "vehicle":
                mover.spot = self._roads.attached(mover.spot.x_m, mover.spot.y_m, yaw_deg)
            else:
                # A walker who has arrived stands; a car goes on as it was, as the standard has it.
                mover.speed_mps = 0.0

    def check_goals(self) -> None:
        """Pass what was passed; the way is over at its last place."""
        mover = self._mover
        while mover.goals:
            goal = mover.goals[0]
            ahead_m, right_m = mover.spot.local(goal.x_m, goal.y_m)
            if math.hypot(ahead_m, right_m) > _PASSED_M:
                return
            mover.goals = mover.goals[1:]
        if self._ends and not self.ended:
            self.ended = True
            mover.speed_mps = 0.0


def _interpolated(times_s: tuple[float, ...], arcs: list[float], at_s: float) -> float:
    if at_s <= times_s[0]:
        return arcs[0]
    for number in range(1, len(times_s)):
        if at_s <= times_s[number]:
            share = (at_s - times_s[number - 1]) / (times_s[number] - times_s[number - 1])
            return arcs[number - 1] + (arcs[number] - arcs[number - 1]) * share
    return arcs[-1]


def along_m(here: Spot, there: Spot) -> float:
    """How far another is ahead: along the road where both are on one, else straight ahead."""
    if here.lane is not None and there.lane is not None and here.lane.road_id == there.lane.road_id:
        rising = (here.lane.lane_id < 0) != here.against
        return (there.lane.s_m - here.lane.s_m) * (1.0 if rising else -1.0)
    return here.local(there.x_m, there.y_m)[0]


def way_m(roads: Roads, mover: Mover, goal: Spot) -> float:
    """How far it is to a place along the way that a mover will take; as the crow flies where the way does not lead there."""
    crow_m = math.hypot(goal.x_m - mover.spot.x_m, goal.y_m - mover.spot.y_m)
    if mover.spot.lane is None:
        return crow_m
    spot: Spot | None = mover.spot
    done_m, best = 0.0, (crow_m, 0.0)
    while spot is not None and done_m < min(_WAY_MAX_M, 5.0 * crow_m + 50.0):
        away_m = math.hypot(goal.x_m - spot.x_m, goal.y_m - spot.y_m)
        best = min(best, (away_m, done_m))
        if away_m > best[0] + 20.0 and best[0] < 5.0:
            break
        spot = roads.forward(spot, _WAY_STEP_M, mover.goals)
        done_m += _WAY_STEP_M
    return best[1] if best[0] < 5.0 else crow_m


def move(mover: Mover, roads: Roads, step_s: float, time_s: float) -> None:
    """One tick of one mover."""
    before_mps = mover.speed_mps
    if mover.speed_job is not None:
        mover.speed_mps = min(mover.speed_job.speed_mps(step_s), mover.entity.speed_mps_max)
        if mover.speed_job.ended:
            mover.speed_job = None
    if mover.way_job is not None and mover.way_job.is_line:
        mover.way_job.along_line(step_s, time_s)
    else:
        _along_lane(mover, roads, step_s)
    if mover.way_job is not None:
        mover.way_job.check_goals() if not mover.way_job.is_line and not mover.way_job.ended else None
        if mover.way_job.ended:
            mover.way_job = None
    mover.acceleration_mps2 = (mover.speed_mps - before_mps) / step_s
    mover.still_s = mover.still_s + step_s if mover.speed_mps < 0.01 else 0.0
    mover.road_end_s = mover.road_end_s + step_s if mover.at_road_end else 0.0
    mover.off_road_s = mover.off_road_s + step_s if roads.map is not None and mover.spot.lane is None else 0.0


def _along_lane(mover: Mover, roads: Roads, step_s: float) -> None:
    before = mover.spot
    offset_m = before.offset_m
    if mover.side_job is not None:
        offset_m = mover.side_job.offset_m(step_s)
        if mover.side_job.ended:
            mover.side_job = None
    distance_m = mover.speed_mps * step_s
    after = roads.forward(before, distance_m, mover.goals)
    if after is None:
        # Nothing beyond the end of the road: who arrives there stands.
        mover.at_road_end, mover.speed_mps = True, 0.0
        mover.speed_job = None
        return
    if after.lane is not None and after.offset_m != offset_m:
        after = roads.spot(after.lane, offset_m, against=after.against)
        sideways_m = offset_m - before.offset_m
        if distance_m > 0.0:
            lean_deg = heading_deg(distance_m, -sideways_m if after.against else sideways_m)
            after = Spot(after.x_m, after.y_m, wrap_deg(after.yaw_deg + lean_deg), after.lane, offset_m, after.against)
    mover.spot = after
    mover.travelled_m += distance_m
    while mover.goals and mover.way_job is None:
        ahead_m, right_m = mover.spot.local(mover.goals[0].x_m, mover.goals[0].y_m)
        passed = math.hypot(ahead_m, right_m) < _PASSED_M or _is_on_road_of(mover.spot, mover.goals[0], len(mover.goals))
        if not passed:
            break
        mover.goals = mover.goals[1:]


def _is_on_road_of(spot: Spot, goal: Spot, left: int) -> bool:
    """A way-point on the road we are on has done its work, unless it is the last one."""
    return left > 1 and spot.lane is not None and goal.lane is not None and spot.lane.road_id == goal.lane.road_id
