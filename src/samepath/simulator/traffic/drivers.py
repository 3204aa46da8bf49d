"""The drivers of a town: who is in front, whose turn it is at a junction, where to go next, when to change lanes.

All of them together are one function of the world after tick n and of what they remember, and give the commands for tick n + 1.
Everything goes by the order of actors' ids or of lanes' numbers. Chance comes from streams named by actor and purpose, so that
one more car changes nobody's turns.

**Nobody enters a junction without leave.** A driver who comes to a gate asks for a passage: over the crossing before the
junction, a way through it, the crossing behind it, and a place to stand beyond. Leave is given if the light is green, nobody
with leave is still where the two ways meet, no walker is on the crossings, and there is room. It is asked for in the order of
right of way: first those who have waited very long, then those without a sign, then those who must yield, each by how long they
have waited and then by id. Drivers with priority ask from afar, those who yield ask at the line: so a street with priority
keeps it. What one who has waited very long needs, nobody gets before; so nobody waits for ever. Whoever has leave has room to
get out again, so no junction is ever blocked.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from samepath.core.catalogue import ActorType, VehicleType, type_from, type_to
from samepath.core.errors import SimulatorError
from samepath.core.states import ActorState, VehicleCommand
from samepath.core.streams import stream
from samepath.core.trig import sincos_deg
from samepath.simulator.traffic.following import (
    COMFORTABLE_MPS2,
    follow_mps2,
    pedals,
    steer,
    stop_mps2,
)
from samepath.simulator.traffic.roads import SLOWING_MPS2, Gate, RoadNet
from samepath.simulator.world.signals import TrafficLightState

HORIZON_M: Final = 60.0
# Those with priority ask for leave so much before they would have to brake for the line; those who yield ask when they are
# nearly there.
_ASK_M: Final = 8.0
_ASK_YIELDING_M: Final = 6.0
_NEAR_LINE_M: Final = 3.0
_STOP_S: Final = 1.0
# A light that turns yellow is obeyed by who can still stop like this.
_OBEY_MPS2: Final = 3.0
# From so long a wait on others make way; and a way that stays full so long is given up for another.
_PATIENCE_S: Final = 20.0
_REROUTE_S: Final = 25.0
_ROOM_M: Final = 2.0
# Lane changes: how far from a gate, how often at most, how fast sideways, and what they must bring.
_CHANGE_BEFORE_GATE_M: Final = 35.0
_CHANGE_EVERY_S: Final = 10.0
_ASIDE_MPS: Final = 1.1
_STRADDLES_M: Final = 1.0
_GAIN_MPS2: Final = 0.4
_MOVING_MPS: Final = 0.3
_LOOK_M: Final = 1.0
_LOOK_S: Final = 0.3
_BEHIND_MOST: Final = 6
# Something that belongs to nobody's route stands in every lane whose middle is so near, beyond half its own width.
_IN_LANE_M: Final = 1.1


@dataclass(slots=True)
class TrafficCar:
    """A vehicle of the traffic: what it is, where it is on the roads, and what its driver remembers.

    Mutable, owned by :class:`Drivers` alone; everything below ``wish`` is kept in snapshots.
    """

    id: int
    kind: VehicleType
    half_m: float
    wish: float
    """What the driver makes of a speed limit, as a part of it."""
    lane: int = 0
    at_m: float = 0.0
    point: int = 0
    ahead: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    draws: int = 0
    goal: int = -1
    beside: int = -1
    """The lane it is leaving; -1: none."""
    aside_m: float = 0.0
    """How far it still is to the right of its own lane's middle while it changes."""
    changed: int = -1_000_000
    gate: int = -1
    """The gate it has leave for; -1: none."""
    vias: list[int] = field(default_factory=list)
    exit: int = -1
    waited: int = 0
    stood: int = 0
    stood_at: int = -1
    """The gate at whose sign it has stopped."""
    gear: int = 1
    # Of the last look at the world, not kept.
    x_m: float = 0.0
    y_m: float = 0.0
    forward_x: float = 1.0
    forward_y: float = 0.0
    speed_mps: float = 0.0


_KEPT: Final = (
    "lane", "at_m", "point", "ahead", "behind", "draws", "goal", "beside", "aside_m", "changed", "gate", "vias", "exit",
    "waited", "stood", "stood_at", "gear",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Body:
    """Somebody on a lane: from where to where, how fast along it, and whose it is."""

    rear_m: float
    front_m: float
    speed_mps: float
    owner: int


@dataclass(frozen=True, slots=True)
class _Request:
    car: TrafficCar
    gate: Gate
    vias: tuple[int, ...]
    exit: int
    left_m: float


class Drivers:
    """All cars of the traffic."""

    def __init__(self, net: RoadNet, seed: int, step_s: float, *, destinations: bool, first_id: int = 1) -> None:
        self.net = net
        self.cars: dict[int, TrafficCar] = {}
        self._seed = seed
        self._before_first = first_id - 1  # chance is named by ids that begin with 1
        self._step_s = step_s
        self._destinations = destinations
        self._endless = endless_lanes(net)
        self._costs: dict[int, tuple[float, ...]] = {}
        self._on: list[list[Body]] = [[] for _ in net.lanes]
        self._strangers: list[list[Body]] = [[] for _ in net.lanes]

    def add(self, actor_id: int, kind: ActorType, lane: int, at_m: float) -> None:
        """Take an actor that stands on a lane into the traffic; drivers know their car as the world has it."""
        if not isinstance(kind, VehicleType):
            raise SimulatorError(f"a vehicle was wanted for traffic, but a {kind.name} came")
        wish = 0.85 + 0.2 * float(stream(self._seed, "traffic", "wish", actor_id - self._before_first).random())
        self.cars[actor_id] = TrafficCar(actor_id, kind, kind.length_m / 2.0, wish, lane, at_m)

    def remove(self, actor_id: int) -> None:
        """Forget an actor that is gone."""
        self.cars.pop(actor_id, None)

    # The parts of a tick, in the order in which traffic.py calls them.

    def look(self, states: Mapping[int, ActorState], strangers: Iterable[tuple[ActorState, float, float]]) -> None:
        """Find everybody's place: cars of the traffic, and strangers with their half length and half width."""
        net, lanes = self.net, self.net.lanes
        on: list[list[Body]] = [[] for _ in lanes]
        for car in self.cars.values():
            state = states[car.id]
            pose, velocity = state.pose, state.velocity_mps
            sine, cosine = sincos_deg(pose.yaw_deg)
            car.x_m, car.y_m, car.forward_x, car.forward_y = pose.x_m, pose.y_m, cosine, sine
            car.speed_mps = velocity.x * cosine + velocity.y * sine
            self._place(car)
            self._extend(car)
            self._register(car, on)
        self._strangers = [[] for _ in lanes]
        for state, half_m, half_width_m in strangers:
            pose, velocity = state.pose, state.velocity_mps
            for lane, at_m, _ in net.lanes_at(pose.x_m, pose.y_m, half_width_m + _IN_LANE_M):
                along_x, along_y = lanes[lane].direction(at_m)
                sine, cosine = sincos_deg(pose.yaw_deg)
                # As long as it is along this lane: a car that stands across it is as long as it is wide.
                part = abs(cosine * along_x + sine * along_y)
                reach_m = part * half_m + (1.0 - part) * half_width_m
                speed_mps = max(0.0, velocity.x * along_x + velocity.y * along_y)
                body = Body(at_m - reach_m, at_m + reach_m, speed_mps, state.id)
                on[lane].append(body)
                self._strangers[lane].append(body)
        self._on = on

    def _place(self, car: TrafficCar) -> None:
        """Follow the car along its lane, and onto the next."""
        while True:
            lane = self.net.lanes[car.lane]
            xs, ys, at, last = lane.xs_m, lane.ys_m, lane.at_m, len(lane.at_m) - 2
            point = min(car.point, last)
            while True:
                step_m = at[point + 1] - at[point]
                dx, dy = xs[point + 1] - xs[point], ys[point + 1] - ys[point]
                along_m = ((car.x_m - xs[point]) * dx + (car.y_m - ys[point]) * dy) / step_m if step_m > 0.0 else 0.0
                if along_m > step_m and point < last:
                    point += 1
                elif along_m < 0.0 and point > 0 and along_m < -0.5:
                    point -= 1
                else:
                    break
            car.point, car.at_m = point, at[point] + along_m
            if car.at_m < lane.length_m or not car.ahead:
                return
            car.behind = [*car.behind, car.lane][-_BEHIND_MOST:]
            car.lane, car.point = car.ahead.pop(0), 0
            car.beside = -1

    def _extend(self, car: TrafficCar) -> None:
        """Choose the way on, far enough to see what comes, and through the whole of the next junction."""
        lanes = self.net.lanes
        left_m = lanes[car.lane].length_m - car.at_m
        left_m += sum(lanes[number].length_m for number in car.ahead)
        while left_m < HORIZON_M or lanes[car.ahead[-1] if car.ahead else car.lane].is_junction:
            chosen = self._choose(car, car.ahead[-1] if car.ahead else car.lane)
            if chosen < 0:
                return
            car.ahead.append(chosen)
            left_m += lanes[chosen].length_m

    def _choose(self, car: TrafficCar, lane: int, without: int = -1) -> int:
        ways = [number for number in self.net.after[lane] if number in self._endless]
        if without >= 0 and len(ways) > 1:
            ways = [number for number in ways if number != without]
        if not ways:
            return -1
        if self._destinations:
            if car.goal < 0 or lane == car.goal:
                self._draw_goal(car)
            costs = self._costs_to(car.goal)
            return min(ways, key=lambda number: (costs[number], number))
        if len(ways) == 1:
            return ways[0]
        car.draws += 1
        return ways[self._draw("turn", car, len(ways))]

    def _draw_goal(self, car: TrafficCar) -> None:
        car.draws += 1
        goals = [lane.number for lane in self.net.lanes if not lane.is_junction and lane.number in self._endless]
        goals = [number for number in goals if number != car.lane] or goals
        car.goal = goals[self._draw("goal", car, len(goals))]

    def _draw(self, purpose: str, car: TrafficCar, count: int) -> int:
        chance = stream(self._seed, "traffic", purpose, car.id - self._before_first, car.draws)
        return int(chance.integers(count))

    def _costs_to(self, goal: int) -> tuple[float, ...]:
        if goal not in self._costs:
            self._costs[goal] = self.net.costs_to(goal)
        return self._costs[goal]

    def _register(self, car: TrafficCar, on: list[list[Body]]) -> None:
        lanes = self.net.lanes
        rear_m, front_m, speed_mps = car.at_m - car.half_m, car.at_m + car.half_m, max(car.speed_mps, 0.0)
        on[car.lane].append(Body(rear_m, front_m, speed_mps, car.id))
        if car.beside >= 0:
            on[car.beside].append(Body(rear_m, front_m, speed_mps, car.id))
        back_m = rear_m
        for number in reversed(car.behind):
            if back_m >= 0.0:
                break
            shift_m = lanes[number].length_m + back_m - rear_m
            on[number].append(Body(rear_m + shift_m, front_m + shift_m, speed_mps, car.id))
            back_m += lanes[number].length_m
        over_m = front_m - lanes[car.lane].length_m
        if over_m > 0.0 and car.ahead:
            on[car.ahead[0]].append(Body(over_m - 2.0 * car.half_m, over_m, speed_mps, car.id))

    def bodies(self, lane: int) -> list[Body]:
        """Who is on a lane, as of the last look."""
        return self._on[lane]

    # Leave to pass.

    def settle(self, shows: tuple[TrafficLightState, ...]) -> None:
        """Take back the leave of those who are through, and of those who can still stop at a light that has changed."""
        for car in self.cars.values():
            if car.gate < 0:
                continue
            gate = self.net.gates[car.gate]
            place_m = self._passage_m(car, gate)
            if place_m is None or place_m - car.half_m > self._clear_m(car, gate):
                self._drop(car)
            elif gate.light >= 0 and shows[gate.light] != TrafficLightState.GREEN and car.lane == gate.lane:
                left_m = gate.stop_m - car.at_m - car.half_m
                if left_m > 0.3 and car.speed_mps * car.speed_mps < 2.0 * _OBEY_MPS2 * left_m:
                    self._drop(car)

    @staticmethod
    def _drop(car: TrafficCar) -> None:
        car.gate, car.vias, car.exit = -1, [], -1

    def _passage_m(self, car: TrafficCar, gate: Gate) -> float | None:
        """Where the middle of a car is, counted from the start of its way through the junction; None: it is not on it."""
        lanes = self.net.lanes
        if not gate.into_junction:
            return car.at_m if car.lane == gate.lane else None
        if car.lane == gate.lane:
            return car.at_m - lanes[gate.lane].length_m
        before_m = 0.0
        for number in car.vias:
            if car.lane == number:
                return before_m + car.at_m
            before_m += lanes[number].length_m
        return before_m + car.at_m if car.lane == car.exit else None

    def _clear_m(self, car: TrafficCar, gate: Gate) -> float:
        """Where a passage ends, on the same scale: behind the junction, and behind the crossing there."""
        if not gate.into_junction:
            return max(to_m for _, to_m, number in self.net.crossings_of[gate.lane] if number in gate.crossings)
        return sum(self.net.lanes[number].length_m for number in car.vias) + self._exit_m(car.exit)

    def _exit_m(self, lane: int) -> float:
        """How much of a lane behind a junction must stay clear for walkers."""
        if lane < 0:
            return 0.0
        spans = self.net.crossings_of[lane]
        gates = [self.net.gates[number].crossings for number in self.net.gates_of[lane]]
        own = [to_m for _, to_m, crossing in spans if not any(crossing in known for known in gates)]
        return max(own, default=0.0)

    def claims(self) -> frozenset[int]:
        """Crossings that somebody with leave has yet to drive over; walkers wait."""
        found: list[int] = []
        for car in self.cars.values():
            if car.gate < 0:
                continue
            gate = self.net.gates[car.gate]
            place_m = self._passage_m(car, gate)
            # A way round a circle and back goes over the same crossing twice.
            found += [
                crossing
                for crossing, _, to_m in self._crossings(gate, car.vias, car.exit)
                if place_m is None or place_m - car.half_m <= to_m
            ]
        return frozenset(found)

    def _crossings(self, gate: Gate, vias: Iterable[int], exit_lane: int) -> list[tuple[int, int, float]]:
        """The crossings of a passage: which, on which lane, and where on the scale of the passage they end."""
        net = self.net
        if not gate.into_junction:
            return [(number, gate.lane, to_m) for _, to_m, number in net.crossings_of[gate.lane] if number in gate.crossings]
        length_m = net.lanes[gate.lane].length_m
        found = [
            (number, gate.lane, to_m - length_m) for _, to_m, number in net.crossings_of[gate.lane] if number in gate.crossings
        ]
        before_m = 0.0
        for via in vias:
            found += [(number, via, before_m + to_m) for _, to_m, number in net.crossings_of[via]]
            before_m += net.lanes[via].length_m
        if exit_lane >= 0:
            known = {crossing for number in net.gates_of[exit_lane] for crossing in net.gates[number].crossings}
            found += [
                (number, exit_lane, before_m + to_m) for _, to_m, number in net.crossings_of[exit_lane] if number not in known
            ]
        return found

    def standing_over(self, crossing: int) -> bool:
        """Is anybody on a crossing, or about to run onto it, with leave or without?"""
        for lane, from_m, to_m in self.net.crossings[crossing].spans:
            for body in self._on[lane]:
                reach_m = (
                    0.5 + body.speed_mps * body.speed_mps / (2.0 * COMFORTABLE_MPS2) if body.owner not in self.cars else 0.5
                )
                if body.front_m + reach_m > from_m and body.rear_m - 0.5 < to_m:
                    return True
        return False

    def give_leave(self, shows: tuple[TrafficLightState, ...], shut: frozenset[tuple[int, int]]) -> None:
        """Hear everybody who is first at a gate, in the order of right of way; walkers have ``shut``: (crossing, lane)."""
        requests = [request for car in self.cars.values() if (request := self._request(car)) is not None]
        patience = round(_PATIENCE_S / self._step_s)

        def rank(request: _Request) -> tuple[int, int, int, int]:
            waited = request.car.waited
            return (0 if waited > patience else 1, int(request.gate.yields), -waited, request.car.id)

        held: list[_Request] = []
        for request in sorted(requests, key=rank):
            car = request.car
            if self._may_go(request, shows, shut, held):
                car.gate, car.vias, car.exit = request.gate.number, list(request.vias), request.exit
                car.waited, car.stood = 0, 0
                continue
            if car.speed_mps < _MOVING_MPS:
                car.waited += 1
            if car.waited > patience and self._light_allows(request, shows):
                held.append(request)
            if car.waited and car.waited % round(_REROUTE_S / self._step_s) == 0 and request.gate.into_junction:
                self._reroute(car)

    def _request(self, car: TrafficCar) -> _Request | None:
        """What a driver asks for who is near a gate, with nobody in between but those who have leave for it."""
        found = self._gate_ahead(car) if car.gate < 0 else None
        if found is None or found[0].lane != car.lane:
            return None
        gate, left_m = found
        reach_m = _ASK_YIELDING_M if gate.yields else _ASK_M
        if left_m > reach_m + car.speed_mps * car.speed_mps / (2.0 * SLOWING_MPS2) or not self._is_first(car, gate, left_m):
            return None
        if gate.stops_always and left_m < _NEAR_LINE_M and car.speed_mps < _MOVING_MPS:
            car.stood += 1
            if car.stood * self._step_s >= _STOP_S:
                car.stood_at = gate.number
        if not gate.into_junction:
            return _Request(car, gate, (), car.lane, left_m)
        vias: list[int] = []
        for number in car.ahead:
            if not self.net.lanes[number].is_junction:
                return _Request(car, gate, tuple(vias), number, left_m)
            vias.append(number)
        return None

    def _is_first(self, car: TrafficCar, gate: Gate, left_m: float) -> bool:
        """Is the way to the line free, but for somebody who may pass it?"""
        first: Body | None = None
        for body in self._on[car.lane]:
            is_between = 0.5 * (body.rear_m + body.front_m) > car.at_m and body.rear_m < car.at_m + left_m + car.half_m
            if body.owner != car.id and is_between and (first is None or body.rear_m < first.rear_m):
                first = body
        if first is None or first.rear_m >= gate.stop_m - 0.5:
            return True
        other = self.cars.get(first.owner)
        return other is not None and other.gate == gate.number

    def _light_allows(self, request: _Request, shows: tuple[TrafficLightState, ...]) -> bool:
        gate, car = request.gate, request.car
        if gate.light < 0:
            return True
        light = shows[gate.light]
        if light == TrafficLightState.YELLOW:
            return car.speed_mps * car.speed_mps > 2.0 * _OBEY_MPS2 * max(request.left_m, 0.1)
        return light in (TrafficLightState.GREEN, TrafficLightState.OFF)

    def _may_go(
        self, request: _Request, shows: tuple[TrafficLightState, ...], shut: frozenset[tuple[int, int]], held: list[_Request]
    ) -> bool:
        car, gate = request.car, request.gate
        if not self._light_allows(request, shows) or (gate.stops_always and gate.light < 0 and car.stood_at != gate.number):
            return False
        if shut and any((c, lane) in shut for c, lane, _ in self._crossings(gate, request.vias, request.exit)):
            return False
        return self._has_room(request) and self._is_nobodys(request, held) and self._is_given_to_nobody(request)

    def _is_nobodys(self, request: _Request, held: list[_Request]) -> bool:
        """Does nobody who has waited longer need the way, and does no stranger stand on it?"""
        car = request.car
        for via in request.vias:
            for conflict in self.net.conflicts[via]:
                if any(conflict.other in other.vias for other in held if other.car is not car):
                    return False
                for body in self._strangers[conflict.other]:
                    if body.front_m > conflict.other_from_m - 3.0 and body.rear_m < conflict.other_to_m:
                        return False
        return True

    def _is_given_to_nobody(self, request: _Request) -> bool:
        """Is everybody with leave past the places where the two ways meet?"""
        car = request.car
        mine = frozenset(request.vias)
        for other_car in self.cars.values():
            if other_car is car or not other_car.vias:
                continue
            place_m = self._passage_m(other_car, self.net.gates[other_car.gate])
            before_m = 0.0
            for via in other_car.vias:
                for conflict in self.net.conflicts[via]:
                    if conflict.other in mine and (place_m is None or place_m - other_car.half_m < before_m + conflict.to_m):
                        return False
                before_m += self.net.lanes[via].length_m
        return True

    def _has_room(self, request: _Request) -> bool:
        """Is there room for the whole car behind what must stay clear?"""
        car, gate = request.car, request.gate
        lane = self.net.lanes[request.exit]
        if not gate.into_junction:
            clear_m = max(to_m for _, to_m, number in self.net.crossings_of[gate.lane] if number in gate.crossings)
            ends = [
                body.rear_m + self._rolls_m(body)
                for body in self._on[gate.lane]
                if body.owner != car.id and body.rear_m > car.at_m
            ]
            return min(ends, default=math.inf) > clear_m + 2.0 * car.half_m + 1.0
        clear_m = self._exit_m(request.exit)
        stops = [self.net.gates[number].stop_m for number in self.net.gates_of[request.exit]]
        end_m = min([lane.length_m, *(stop_m for stop_m in stops if stop_m > clear_m)])
        claimed_m, others = 0.0, False
        for other in self.cars.values():
            if (
                other is not car
                and other.gate >= 0
                and other.exit == request.exit
                and other.lane != request.exit
                and other.vias
            ):
                claimed_m += 2.0 * other.half_m + _ROOM_M
                others = True
        for body in self._on[request.exit]:
            if body.owner != car.id and not self._is_coming(body.owner, request.exit):
                end_m = min(end_m, body.rear_m + self._rolls_m(body))
                others = True
        if not others:
            return True
        return end_m - claimed_m > clear_m + 2.0 * car.half_m + 1.0

    def _is_coming(self, owner: int, lane: int) -> bool:
        """Does only the nose of a car reach into a lane? Then its place there is claimed already."""
        car = self.cars.get(owner)
        return car is not None and car.exit == lane and car.lane != lane and bool(car.vias)

    @staticmethod
    def _rolls_m(body: Body) -> float:
        """How far somebody rolls at least."""
        return body.speed_mps * body.speed_mps / (2.0 * 4.0)

    def _reroute(self, car: TrafficCar) -> None:
        """Give up a way that stays full for another out of the same lane."""
        if len(self.net.after[car.lane]) > 1 and car.ahead:
            refused = car.ahead[0]
            if self._destinations:
                self._draw_goal(car)
            chosen = self._choose(car, car.lane, without=refused)
            car.ahead = [chosen]
            self._extend(car)

    # Driving.

    def drive(self, tick: int) -> dict[int, VehicleCommand]:
        """Everybody's command, by id."""
        found: dict[int, VehicleCommand] = {}
        for car in self.cars.values():
            wanted_mps = self._wanted_mps(car)
            wanted_mps2 = self._acceleration(car, wanted_mps)
            self._change_lane(car, tick, wanted_mps, wanted_mps2)
            throttle, brake, car.gear = pedals(car.kind, wanted_mps2, car.speed_mps, car.gear)
            found[car.id] = VehicleCommand(throttle, self._steer(car), brake)
        return found

    def _wanted_mps(self, car: TrafficCar) -> float:
        """The speed that limits, bends and what comes after them allow."""
        lanes = self.net.lanes
        lane = lanes[car.lane]
        wanted_mps = min(lane.limit_mps * car.wish, lane.caps_mps[min(car.point + 1, len(lane.caps_mps) - 1)])
        left_m = lane.length_m - car.at_m
        for number in car.ahead:
            if left_m > HORIZON_M:
                break
            other = lanes[number]
            next_mps = min(other.limit_mps * car.wish, other.caps_mps[0])
            wanted_mps = min(wanted_mps, math.sqrt(next_mps * next_mps + 2.0 * SLOWING_MPS2 * max(left_m, 0.0)))
            left_m += other.length_m
        return max(wanted_mps, 0.5)

    def _gate_ahead(self, car: TrafficCar) -> tuple[Gate, float] | None:
        """The first gate that the car has no leave for, and how far its front is from the line."""
        net = self.net
        before_m = -car.at_m
        for number in (car.lane, *car.ahead):
            if before_m > HORIZON_M:
                return None
            for gate_number in net.gates_of[number]:
                gate = net.gates[gate_number]
                left_m = before_m + gate.stop_m - car.half_m
                # Who is over the line by more than a slip has passed it; so has who began there.
                if gate_number != car.gate and left_m > -1.0:
                    return gate, left_m
            before_m += net.lanes[number].length_m
        return None

    def _leader(self, car: TrafficCar) -> tuple[float, float]:
        """The gap to who is in front on the way, and how fast that is; inf: nobody within the horizon."""
        net = self.net
        best_m, best_mps = math.inf, 0.0
        before_m = -car.at_m
        for place, number in enumerate((car.lane, *car.ahead)):
            if before_m > HORIZON_M or before_m > best_m + car.half_m:
                break
            beside = [(car.beside, math.inf)] if place == 0 and car.beside >= 0 else []
            for lane, reach_m in ((number, math.inf), *net.together_m[number], *beside):
                for body in self._on[lane]:
                    if body.owner == car.id or body.rear_m > reach_m:
                        continue
                    if before_m + 0.5 * (body.rear_m + body.front_m) <= 0.0:
                        continue
                    gap_m = before_m + body.rear_m - car.half_m
                    if gap_m < best_m:
                        best_m, best_mps = gap_m, body.speed_mps
            before_m += net.lanes[number].length_m
        return best_m, best_mps

    def _acceleration(self, car: TrafficCar, wanted_mps: float) -> float:
        speed_mps = max(car.speed_mps, 0.0)
        gap_m, front_mps = self._leader(car)
        found = follow_mps2(speed_mps, wanted_mps, gap_m, front_mps)
        gate = self._gate_ahead(car)
        if gate is not None:
            found = min(found, stop_mps2(speed_mps, wanted_mps, gate[1]))
        if not car.ahead:
            left_m = self.net.lanes[car.lane].length_m - car.at_m - car.half_m
            found = min(found, stop_mps2(speed_mps, wanted_mps, left_m))
        return found

    def _change_lane(self, car: TrafficCar, tick: int, wanted_mps: float, own_mps2: float) -> None:
        """Go on with a change of lane, or begin one that brings something and hinders nobody."""
        if car.aside_m:
            step_m = _ASIDE_MPS * self._step_s
            car.aside_m = 0.0 if abs(car.aside_m) <= step_m else car.aside_m - math.copysign(step_m, car.aside_m)
            if abs(car.aside_m) < _STRADDLES_M:
                car.beside = -1
            return
        net, lane = self.net, self.net.lanes[car.lane]
        if lane.is_junction or car.gate >= 0 or car.speed_mps < 3.0 or car.at_m < car.half_m + 5.0:
            return
        if (tick - car.changed) * self._step_s < _CHANGE_EVERY_S:
            return
        stops = [net.gates[number].stop_m for number in net.gates_of[car.lane]]
        if min(stops, default=lane.length_m) - car.at_m < _CHANGE_BEFORE_GATE_M:
            return
        for beside, side in ((net.left[car.lane], 1.0), (net.right[car.lane], -1.0)):
            if beside < 0 or beside not in self._endless:
                continue
            other = net.lanes[beside]
            at_m = car.at_m * other.length_m / lane.length_m
            gain = self._gain_mps2(car, beside, at_m, wanted_mps, own_mps2)
            if gain < _GAIN_MPS2:
                continue
            x_m, y_m = other.place(at_m)
            to_x, to_y = other.direction(at_m)
            aside_m = (car.y_m - y_m) * to_x - (car.x_m - x_m) * to_y
            if not 1.5 < side * aside_m < 6.0:
                continue
            car.beside, car.lane, car.at_m, car.aside_m, car.changed = car.lane, beside, at_m, aside_m, tick
            car.point = max(0, min(len(other.at_m) - 2, int(at_m / other.length_m * (len(other.at_m) - 1)) - 2))
            # The tail is in this lane's own past, not in that of the lane it left.
            car.ahead, car.behind = [], []
            self._place(car)
            self._extend(car)
            # Who decides after this one must see it in both lanes.
            self._register(car, self._on)
            return

    def _gain_mps2(self, car: TrafficCar, lane: int, at_m: float, wanted_mps: float, own_mps2: float) -> float:
        """What a change would bring: more acceleration, or a way to the goal; -inf where it is not safe."""
        front_m, front_mps = math.inf, 0.0
        for body in self._on[lane]:
            if 0.5 * (body.rear_m + body.front_m) > at_m:
                if body.rear_m - at_m - car.half_m < front_m:
                    front_m, front_mps = body.rear_m - at_m - car.half_m, body.speed_mps
            else:
                gap_m = at_m - car.half_m - body.front_m
                closing = max(0.0, body.speed_mps - car.speed_mps)
                if gap_m < 6.0 + 1.0 * body.speed_mps + closing * closing / (2.0 * COMFORTABLE_MPS2):
                    return -math.inf
        closing = max(0.0, car.speed_mps - front_mps)
        if front_m < 6.0 + 0.8 * car.speed_mps + closing * closing / (2.0 * COMFORTABLE_MPS2):
            return -math.inf
        new_mps2 = follow_mps2(car.speed_mps, wanted_mps, front_m, front_mps) if front_m < math.inf else 0.5
        if self._destinations and car.goal >= 0:
            costs = self._costs_to(car.goal)
            if costs[lane] < costs[car.lane] - 1.0 and new_mps2 > -1.0:
                return math.inf
            if costs[lane] > costs[car.lane] + 1.0:
                return -math.inf
        return new_mps2 - own_mps2

    def _steer(self, car: TrafficCar) -> float:
        lanes = self.net.lanes
        left_m = car.at_m + _LOOK_M + _LOOK_S * max(car.speed_mps, 0.0)
        number, place = car.lane, 0
        while left_m > lanes[number].length_m and place < len(car.ahead):
            left_m -= lanes[number].length_m
            number = car.ahead[place]
            place += 1
        lane = lanes[number]
        x_m, y_m = lane.place(left_m)
        if car.aside_m:
            along_x, along_y = lane.direction(left_m)
            x_m, y_m = x_m - car.aside_m * along_y, y_m + car.aside_m * along_x
        rear_m = car.kind.wheel_base_m / 2.0
        to_x, to_y = x_m - car.x_m + rear_m * car.forward_x, y_m - car.y_m + rear_m * car.forward_y
        return steer(car.kind, to_x, to_y, (car.forward_x, car.forward_y), car.speed_mps)

    # What is remembered.

    def to_plain(self) -> list[list[Any]]:
        """Everything the future depends on, as plain data."""
        return [[car.id, type_to(car.kind), *(getattr(car, name) for name in _KEPT)] for car in self.cars.values()]

    def recall(self, plain: Iterable[list[Any]]) -> None:
        """Take up what :meth:`to_plain` returned."""
        self.cars = {}
        for actor_id, kind, *values in plain:
            self.add(actor_id, type_from(kind), 0, 0.0)
            for name, value in zip(_KEPT, values, strict=True):
                setattr(self.cars[actor_id], name, list(value) if isinstance(value, list) else value)


def endless_lanes(net: RoadNet) -> frozenset[int]:
    """The lanes from which one can drive on for ever; membership only is asked of it, never its order."""
    found = set(range(len(net.lanes)))
    while True:
        dead = [number for number in found if not any(other in found for other in net.after[number])]
        if not dead:
            return frozenset(found)
        found.difference_update(dead)
