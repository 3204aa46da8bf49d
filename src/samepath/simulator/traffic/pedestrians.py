"""The walkers of a town: along sidewalks from place to place, over crossings when it is their turn, around each other.

A crossing belongs to cars or to walkers, never to both. Walkers who want to cross wait at the kerb. When their turn has come
(the light of the street they cross is red, no car has leave to drive over the crossing, and cars had it for a while) it is
theirs: who waits may go for a few seconds, and no car gets leave for a lane before everybody is past it. Who has waited long
closes the crossing to further cars.

Who comes near others chooses among some velocities: the nearest to the wanted one that touches nobody soon, if everybody goes
on as now; on a tie the one to the right. Where it leads off the walkway it is not taken. That is a small velocity obstacle
scheme (Fiorini, Shiller, Motion planning in dynamic environments using velocity obstacles, 1998) over a fixed set of
candidates, so that no solver's tolerance has a say.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import WalkerType, actor_type
from samepath.core.errors import SimulatorError
from samepath.core.states import ActorState, WalkerCommand
from samepath.core.streams import stream
from samepath.core.trig import sincos_deg
from samepath.simulator.traffic.roads import RoadNet
from samepath.simulator.traffic.walkways import Place, WalkNet

Floats = NDArray[np.float64]

_NEAR_M: Final = 3.0
_SOON_S: Final = 2.5
# More than two can come closer in a tick. A post comes no closer.
_APART_M: Final = 0.2
_APART_FROM_POST_M: Final = 0.08
# Candidates: turned by so much, right first, at these parts of the wanted speed; and to stand.
_TURNS_DEG: Final = (0.0, 15.0, -15.0, 30.0, -30.0, 50.0, -50.0, 75.0, -75.0, 105.0, -105.0)
_PARTS: Final = (1.0, 0.6, 0.3)
_WEIGHT: Final = 1.4
_LEFT_COST: Final = 0.06
# To stand must cost more than to go around: else everybody waits for a post to step aside.
_STAND_COST: Final = 1.2
_POST_AHEAD_M: Final = 4.0
_AT_ONCE_S: Final = 0.35
_TOUCHES: Final = 100.0
_TOUCHES_POST: Final = 1000.0
_ARRIVED_M: Final = 0.4
_STEP_AHEAD_S: Final = 0.4
# At a crossing: who waits this long closes it; how long walkers may start, and how long cars have it at least.
_CLOSE_S: Final = 15.0
_START_S: Final = 3.0
_CARS_S: Final = 20.0
# From the middle of a lane: half a car, a walker, and some air.
_PAST_LANE_M: Final = 2.2
# Who has got nowhere for so long goes somewhere else.
_STUCK_S: Final = 20.0
_STUCK_M: Final = 0.5


@dataclass(slots=True)
class Person:
    """A walker of the traffic. Mutable, owned by :class:`Pedestrians` alone; ``speed_mps`` follows from the id."""

    id: int
    type_name: str
    radius_m: float
    speed_mps: float
    way: int = 0
    route: list[int] = field(default_factory=list)
    """What comes after ``way``; empty: it has arrived."""
    draws: int = 0
    waits_at: int = -1
    waited: int = 0
    crosses: int = -1
    """The crossing it has leave for."""
    seen_x_m: float = 0.0
    seen_y_m: float = 0.0
    seen_tick: int = 0


_KEPT: Final = ("way", "route", "draws", "waits_at", "waited", "crosses", "seen_x_m", "seen_y_m", "seen_tick")


@dataclass(slots=True)
class _CrossingTurn:
    """Whose turn it is at a crossing: walkers may start until ``open_until``, cars have it until ``cars_until``, in ticks."""

    open_until: int = -1
    cars_until: int = 0
    closed: bool = False


class Pedestrians:
    """All walkers of the traffic."""

    def __init__(self, net: WalkNet, crossings: int, seed: int, step_s: float, first_id: int = 1) -> None:
        self.net = net
        self.people: dict[int, Person] = {}
        self._seed = seed
        self._before_first = first_id - 1  # chance is named by ids that begin with 1
        self._step_s = step_s
        self._turns = [_CrossingTurn() for _ in range(crossings)]
        self._posts_at = np.array([(x_m, y_m) for x_m, y_m, _ in net.posts]).reshape(-1, 2)
        self._posts_m = np.array([radius_m for _, _, radius_m in net.posts])
        self._goals = [way.number for way in net.ways if way.is_sidewalk]
        candidates = [(turn, part) for part in _PARTS for turn in _TURNS_DEG]
        rotations = [(*sincos_deg(turn), part) for turn, part in candidates]
        self._turned = np.array(
            [(part * cosine, part * sine) for sine, cosine, part in rotations] + [(0.0, 0.0)]
        )  # the last one stands
        self._bias = np.array([_LEFT_COST if turn < 0.0 else 0.0 for turn, _ in candidates] + [_STAND_COST])

    def add(self, actor_id: int, type_name: str, way: int) -> None:
        """Take an actor that stands on a walkway into the traffic."""
        kind = actor_type(type_name)
        if not isinstance(kind, WalkerType):
            raise SimulatorError(f"a walker was wanted for traffic, but a {type_name} came")
        speed_mps = 1.0 + 0.6 * float(stream(self._seed, "traffic", "pace", actor_id - self._before_first).random())
        self.people[actor_id] = Person(actor_id, type_name, kind.radius_m, speed_mps, way)

    def remove(self, actor_id: int) -> None:
        """Forget an actor that is gone."""
        self.people.pop(actor_id, None)

    def shut(self, tick: int, states: Mapping[int, ActorState], roads: RoadNet) -> frozenset[tuple[int, int]]:
        """Where cars may not drive now: (crossing, lane). Walkers may start, have waited long, or are not past the lane yet."""
        found: list[tuple[int, int]] = []
        on: dict[int, list[ActorState]] = {}
        for person in self.people.values():
            if person.crosses >= 0:
                on.setdefault(person.crosses, []).append(states[person.id])
        for number, turn in enumerate(self._turns):
            spans = roads.crossings[number].spans
            if turn.closed or tick <= turn.open_until:
                found += [(number, lane) for lane, _, _ in spans]
            elif number in on:
                found += [
                    (number, span[0]) for span in spans if not all(_is_past(roads, span, walker) for walker in on[number])
                ]
        return frozenset(found)

    def turns(self, tick: int, stops_cars: Mapping[int, bool], is_free: Mapping[int, bool]) -> None:
        """Decide whose turn it is at every crossing where somebody waits.

        ``stops_cars``: is the light of the street red, or is there none? ``is_free``: has no car leave, and is none there?
        """
        waiting: dict[int, int] = {}
        crossing: set[int] = set()
        for person in self.people.values():
            if person.crosses >= 0:
                crossing.add(person.crosses)
            elif person.waits_at >= 0:
                waiting[person.waits_at] = max(waiting.get(person.waits_at, 0), person.waited)
        for number, turn in enumerate(self._turns):
            if turn.open_until >= 0:
                if tick > turn.open_until and number not in crossing:
                    turn.open_until, turn.cars_until = -1, tick + round(_CARS_S / self._step_s)
                continue
            waited = waiting.get(number)
            if waited is None or not stops_cars[number]:
                turn.closed = False
                continue
            turn.closed = turn.closed or waited * self._step_s > _CLOSE_S
            if is_free[number] and (turn.closed or tick >= turn.cars_until):
                turn.closed, turn.open_until = False, tick + round(_START_S / self._step_s)

    def walk(
        self, tick: int, states: Mapping[int, ActorState], others: Iterable[tuple[ActorState, float]]
    ) -> dict[int, WalkerCommand]:
        """Everybody's command, by id; ``others`` are walkers that are not of the traffic, with their radius."""
        people = list(self.people.values())
        if not people:
            return {}
        wanted = np.zeros((len(people), 2))
        for row, person in enumerate(people):
            pose = states[person.id].pose
            wanted[row] = self._wanted(person, pose.x_m, pose.y_m, tick)
        chosen = self._around_others(people, wanted, states, list(others))
        found: dict[int, WalkerCommand] = {}
        for person, (x, y) in zip(people, chosen.tolist(), strict=True):
            speed_mps = math.sqrt(x * x + y * y)
            if speed_mps > 0.0:
                found[person.id] = WalkerCommand(x / speed_mps, y / speed_mps, speed_mps, face_ahead=True)
            else:
                found[person.id] = WalkerCommand()
        return found

    def _wanted(self, person: Person, x_m: float, y_m: float, tick: int) -> tuple[float, float]:
        """Where and how fast somebody would go without others."""
        ways = self.net.ways
        self._follow(person, x_m, y_m)
        if not person.route or self._is_stuck(person, x_m, y_m, tick):
            self._draw_goal(person)
            if not person.route:
                return 0.0, 0.0
        after = ways[person.route[0]]
        target = self.net.door(person.way, after.number).point
        dx, dy = target[0] - x_m, target[1] - y_m
        far_m = math.sqrt(dx * dx + dy * dy)
        if after.crossing >= 0 and after.crossing not in (ways[person.way].crossing, person.crosses):
            turn = self._turns[after.crossing]
            if far_m < 1.5 and 0 <= tick <= turn.open_until:
                person.crosses, person.waits_at, person.waited = after.crossing, -1, 0
            elif far_m < 0.8:
                person.waits_at = after.crossing
                person.waited += 1
                person.seen_tick = tick
                return 0.0, 0.0
        if far_m < 1e-6:
            return 0.0, 0.0
        dx, dy = self._past_posts(person, x_m, y_m, dx, dy, far_m)
        far_m = math.sqrt(dx * dx + dy * dy)
        return dx / far_m * person.speed_mps, dy / far_m * person.speed_mps

    def _past_posts(self, person: Person, x_m: float, y_m: float, dx: float, dy: float, far_m: float) -> tuple[float, float]:
        """Aim beside a post that stands in the way, on the side where there is room; else one could be caught behind it."""
        net = self.net
        here = [net.ways[person.way], net.ways[person.route[0]]]
        to_x, to_y = dx / far_m, dy / far_m
        for number in sorted({*net.posts_of[here[0].number], *net.posts_of[here[1].number]}):
            post_x, post_y, radius_m = net.posts[number]
            off_x, off_y = post_x - x_m, post_y - y_m
            along_m, right_m = off_x * to_x + off_y * to_y, off_y * to_x - off_x * to_y
            clear_m = radius_m + person.radius_m + _APART_FROM_POST_M
            if not (0.0 < along_m < min(far_m, _POST_AHEAD_M) and abs(right_m) < clear_m):
                continue
            # First the side on which it would pass anyway.
            for side in (-1.0, 1.0) if right_m > 0.0 else (1.0, -1.0):
                aside_m = side * (clear_m + 0.04)
                beside_x, beside_y = post_x - aside_m * to_y, post_y + aside_m * to_x
                if any(way.holds(beside_x, beside_y) for way in here):
                    return beside_x - x_m, beside_y - y_m
        return dx, dy

    def _follow(self, person: Person, x_m: float, y_m: float) -> None:
        """Find the walkway somebody is on now: the same, or one further on."""
        ways = self.net.ways
        while person.route:
            after = ways[person.route[0]]
            if after.crossing >= 0 and after.crossing not in (ways[person.way].crossing, person.crosses):
                break
            point = self.net.door(person.way, after.number).point
            dx, dy = point[0] - x_m, point[1] - y_m
            if not after.holds(x_m, y_m) and dx * dx + dy * dy > _ARRIVED_M * _ARRIVED_M:
                break
            person.way = person.route.pop(0)
        here = ways[person.way]
        # Off the crossing for good: not only in the next polygon, but with both feet.
        is_off = here.crossing != person.crosses and here.holds(x_m, y_m)
        if is_off and not any(ways[number].crossing == person.crosses for number in person.route[:1]):
            person.crosses = -1

    def _is_stuck(self, person: Person, x_m: float, y_m: float, tick: int) -> bool:
        dx, dy = x_m - person.seen_x_m, y_m - person.seen_y_m
        if dx * dx + dy * dy > _STUCK_M * _STUCK_M:
            person.seen_x_m, person.seen_y_m, person.seen_tick = x_m, y_m, tick
            return False
        stuck = (tick - person.seen_tick) * self._step_s > _STUCK_S and person.crosses < 0
        if stuck:
            person.seen_tick = tick
        return stuck

    def _draw_goal(self, person: Person) -> None:
        person.draws += 1
        person.waits_at, person.waited = -1, 0
        chance = stream(self._seed, "traffic", "walk", person.id - self._before_first, person.draws)
        goal = self._goals[int(chance.integers(len(self._goals)))]
        person.route = self.net.route(person.way, goal)[1:]

    def _around_others(
        self, people: list[Person], wanted: Floats, states: Mapping[int, ActorState], others: list[tuple[ActorState, float]]
    ) -> Floats:
        mine = [states[person.id] for person in people]
        everybody = [*mine, *(state for state, _ in others)]
        at = np.array([(state.pose.x_m, state.pose.y_m) for state in everybody])
        at = np.concatenate((at, self._posts_at))
        moves = np.zeros_like(at)
        moves[: len(everybody)] = [(state.velocity_mps.x, state.velocity_mps.y) for state in everybody]
        radius = np.array([*(person.radius_m for person in people), *(half_m for _, half_m in others)])
        radius = np.concatenate((radius, self._posts_m))
        dx, dy = at[None, :, 0] - at[: len(people), None, 0], at[None, :, 1] - at[: len(people), None, 1]
        near = dx * dx + dy * dy < _NEAR_M * _NEAR_M
        near[np.arange(len(people)), np.arange(len(people))] = False
        who, whom = np.nonzero(near)
        if not len(who):
            return wanted
        rows = np.unique(who)
        place = np.zeros(len(people), np.int64)
        place[rows] = np.arange(len(rows))
        speeds = np.array([person.speed_mps for person in people])[rows]
        ahead = wanted[rows]
        size = np.sqrt(ahead[:, 0] * ahead[:, 0] + ahead[:, 1] * ahead[:, 1])
        stands = size == 0.0
        unit = np.where(stands[:, None], 0.0, ahead / np.where(stands, 1.0, size)[:, None]) * speeds[:, None]
        cosine, sine = self._turned[None, :, 0], self._turned[None, :, 1]
        tries = np.stack(
            (unit[:, 0, None] * cosine - unit[:, 1, None] * sine, unit[:, 0, None] * sine + unit[:, 1, None] * cosine), axis=2
        )
        off_x, off_y = tries[:, :, 0] - ahead[:, 0, None], tries[:, :, 1] - ahead[:, 1, None]
        cost = np.sqrt(off_x * off_x + off_y * off_y) + self._bias[None, :]
        fixed = whom >= len(everybody)
        touch_m = radius[who] + radius[whom] + np.where(fixed, _APART_FROM_POST_M, _APART_M)
        soon_s = _soonest_s(tries, place[who], moves[whom], dx[who, whom], dy[who, whom], touch_m)
        cost += np.where(soon_s < _SOON_S, _WEIGHT * (1.0 / np.maximum(soon_s, _AT_ONCE_S) - 1.0 / _SOON_S), 0.0)
        touches = np.where(soon_s < _AT_ONCE_S, _TOUCHES - soon_s, 0.0)
        # Whoever stands is safe: the other one has to give way. Two who see each other come could else both go on.
        touches[:, -1] = 0.0
        cost += touches
        # People step back from each other; a post does not. Whoever is pressed from all sides still does not walk into one.
        if fixed.any():
            post_s = _soonest_s(
                tries, place[who[fixed]], moves[whom[fixed]], dx[who, whom][fixed], dy[who, whom][fixed], touch_m[fixed]
            )
            cost += np.where(post_s < _AT_ONCE_S, _TOUCHES_POST, 0.0)
        chosen = wanted.copy()
        order = np.argsort(cost, axis=1, kind="stable")
        for row, number in enumerate(rows.tolist()):
            if stands[row]:
                continue
            x_m, y_m = float(at[number, 0]), float(at[number, 1])
            chosen[number] = self._first_on_the_way(people[number], x_m, y_m, tries[row], order[row].tolist())
        return chosen

    def _first_on_the_way(self, person: Person, x_m: float, y_m: float, tries: Floats, order: list[int]) -> Place:
        ways = self.net.ways
        here = [ways[person.way]]
        if person.route:
            after = ways[person.route[0]]
            if after.crossing < 0 or after.crossing in (here[0].crossing, person.crosses):
                here.append(after)
        for number in order:
            x, y = float(tries[number, 0]), float(tries[number, 1])
            to_x, to_y = x_m + _STEP_AHEAD_S * x, y_m + _STEP_AHEAD_S * y
            if (x == 0.0 and y == 0.0) or any(way.holds(to_x, to_y) for way in here):
                return x, y
        return 0.0, 0.0

    def to_plain(self) -> dict[str, Any]:
        """Everything the future depends on, as plain data."""
        people = [[person.id, person.type_name, *(getattr(person, name) for name in _KEPT)] for person in self.people.values()]
        return {"people": people, "turns": [[turn.open_until, turn.cars_until, turn.closed] for turn in self._turns]}

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up what :meth:`to_plain` returned."""
        self.people = {}
        for actor_id, type_name, *values in plain["people"]:
            self.add(actor_id, type_name, 0)
            for name, value in zip(_KEPT, values, strict=True):
                setattr(self.people[actor_id], name, list(value) if isinstance(value, list) else value)
        for turn, (open_until, cars_until, closed) in zip(self._turns, plain["turns"], strict=True):
            turn.open_until, turn.cars_until, turn.closed = open_until, cars_until, closed


def _is_past(roads: RoadNet, span: tuple[int, float, float], walker: ActorState) -> bool:
    """Has somebody left a lane behind, going away from it?"""
    lane, at_m = roads.lanes[span[0]], 0.5 * (span[1] + span[2])
    (x_m, y_m), (to_x, to_y) = lane.place(at_m), lane.direction(at_m)
    right_m = (walker.pose.y_m - y_m) * to_x - (walker.pose.x_m - x_m) * to_y
    right_mps = walker.velocity_mps.y * to_x - walker.velocity_mps.x * to_y
    return abs(right_m) > _PAST_LANE_M and right_m * right_mps > 0.0


def _soonest_s(tries: Floats, row: NDArray[np.int64], moves: Floats, dx: Floats, dy: Floats, touch_m: Floats) -> Floats:
    """For each row and candidate the time until the first touch, if everybody else goes on as now; inf: none."""
    rel_x, rel_y = tries[row, :, 0] - moves[:, 0, None], tries[row, :, 1] - moves[:, 1, None]
    along = rel_x * dx[:, None] + rel_y * dy[:, None]
    square = rel_x * rel_x + rel_y * rel_y
    gap = (dx * dx + dy * dy - touch_m * touch_m)[:, None]
    inside = along * along - square * gap
    hits = (along > 0.0) & (inside > 0.0) & (square > 0.0)
    time_s = np.where(hits, (along - np.sqrt(np.where(hits, inside, 0.0))) / np.where(hits, square, 1.0), np.inf)
    # Too near already: only away from each other.
    time_s = np.where((gap <= 0.0) & (along > 0.0), 0.0, time_s)
    found = np.full(tries.shape[:2], np.inf)
    np.minimum.at(found, row, np.maximum(time_s, 0.0))
    return found
