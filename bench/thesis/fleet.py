"""The vehicles of an experiment: where new ones are put, and how each is driven around its closed route.

Pure pursuit steers, a PID controller has the pedals; whoever is close behind another slows down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.scenarios.drivers import SpeedGains, SpeedState, Steering, control_speed, curvatures_per_m, pure_pursuit
from samepath.scenarios.paths import Path, interpolate
from samepath.simulator.carla.records import VehicleControl
from samepath.simulator.carla.streams import ACTOR_STATE
from samepath.simulator.maps import RoadMap
from samepath.simulator.maps.lanes import LaneKey, LaneLine, lane_successors

# Closed routes over the lanes of a map: around every block, always to the right, so that no two of them cross.
#
# Each lane has one follower, the one that turns most to the right; where people drive on the right those followers
# form rings, which touch but do not cross. Along them vehicles can drive for ever without lights or rules of
# priority.

Floats = NDArray[np.float64]

SPACING_M: Final = 0.5
_CRUISE_MPS: Final = 7.0
_LATERAL_MPS2: Final = 1.2
_BRAKING_MPS2: Final = 1.5
_DRIVING: Final = "driving"


@dataclass(frozen=True, eq=False)
class Route:
    """A closed route: points every half metre in the direction of driving, float64[n, 2]; the first follows the last."""

    points: Floats

    @property
    def length_m(self) -> float:
        """Once around."""
        return SPACING_M * len(self.points)

    @cached_property
    def xy(self) -> list[tuple[float, float]]:
        """The points as plain numbers."""
        return [(x, y) for x, y in self.points.tolist()]

    @cached_property
    def yaw_deg(self) -> Floats:
        """The direction of driving at each point."""
        ahead = np.roll(self.points, -1, axis=0) - self.points
        return np.degrees(np.arctan2(ahead[:, 1], ahead[:, 0]))

    @cached_property
    def speeds_mps(self) -> list[float]:
        """The speed at each point: less in bends, and little enough before them that gentle braking does."""
        count = len(self.points)
        twice = Path(np.concatenate([self.points, self.points]))
        bends = np.array(curvatures_per_m(twice, 3.0))[count // 2 : count // 2 + count]
        bends = np.roll(bends, count // 2)
        squares = np.minimum(_CRUISE_MPS**2, _LATERAL_MPS2 / np.maximum(bends, 1e-6)).tolist()
        for index in range(2 * count - 2, -1, -1):
            after = squares[(index + 1) % count]
            squares[index % count] = min(squares[index % count], after + 2.0 * _BRAKING_MPS2 * SPACING_M)
        return [float(square) ** 0.5 for square in squares]


def routes_of(road_map: RoadMap) -> tuple[Route, ...]:
    """All closed routes of a map, in the order of its lanes."""
    lines = {line.key: line for line in road_map.lanes if line.kind == _DRIVING}
    after = lane_successors(road_map.document)
    follower = {key: _rightmost([lines[key_after] for key_after in after[key] if key_after in lines]) for key in lines}
    found: list[list[LaneKey]] = []
    seen: set[LaneKey] = set()
    for start in lines:
        ring: list[LaneKey] = []
        at: LaneKey | None = start
        while at is not None and at not in seen:
            seen.add(at)
            ring.append(at)
            at = follower[at]
        if at in ring:
            found.append(ring[ring.index(at) :])
    if not found:
        raise InputError(f"a map on which one can drive in circles was wanted, but {road_map.name} has no closed route")
    return tuple(_route([lines[key] for key in ring]) for ring in found)


def _rightmost(lines: list[LaneLine]) -> LaneKey | None:
    """The lane that turns most to the right; of equals the first."""
    turns = [float((line.yaw_deg[-1] - line.yaw_deg[0] + 180.0) % 360.0 - 180.0) for line in lines]
    return lines[turns.index(max(turns))].key if lines else None


def _route(ring: list[LaneLine]) -> Route:
    points = np.concatenate([line.points[:-1, :2] for line in ring] + [ring[0].points[:1, :2]])
    even = interpolate(points, SPACING_M)
    return Route(even[:-1])


_HEAD_BYTES: Final = 48 + 36  # of a message of the world's stream, before the actors
_STEERING: Final = Steering()
_GAINS: Final = SpeedGains()
_LOOK_AHEAD_M: Final = 2.0
_LOOK_AHEAD_S: Final = 0.15
_REAR_M: Final = 1.4
_EAGER: Final = 1.7  # tyres slip: in bends a vehicle turns less than its wheels
_WINDOW: Final = 24  # points ahead among which the nearest is looked for
_STOP_GAP_M: Final = 8.0  # between middles: a vehicle and a little more
_GAP_S: Final = 1.0
_PLACE_EVERY_M: Final = 4.0
_ROOM_M: Final = 9.0

Rows = NDArray[np.void]


def states_of(message: bytes) -> tuple[int, Rows]:
    """The frame and the rows of all actors of a message of the world's stream."""
    return int.from_bytes(message[8:16], "little"), np.frombuffer(message, ACTOR_STATE, offset=_HEAD_BYTES)


@dataclass(eq=False)
class Vehicle:
    """One vehicle: its actor, its camera's home, its route and how far along it is."""

    actor: int
    home: int
    route: Route
    index: int
    speed: SpeedState = field(default_factory=SpeedState)


@dataclass(frozen=True)
class Spot:
    """A place for another vehicle: a point of a route."""

    route: Route
    index: int

    @property
    def x_m(self) -> float:
        """Where it is."""
        return self.route.xy[self.index][0]

    @property
    def y_m(self) -> float:
        """Where it is."""
        return self.route.xy[self.index][1]

    @property
    def yaw_deg(self) -> float:
        """Which way one drives there."""
        return float(self.route.yaw_deg[self.index])


class Fleet:
    """All vehicles, and who drives them."""

    def __init__(self, routes: tuple[Route, ...], step_s: float) -> None:
        self._routes = routes
        self._step_s = step_s
        self._at: dict[int, tuple[float, float]] = {}
        self.vehicles: list[Vehicle] = []
        step = round(_PLACE_EVERY_M / SPACING_M)
        self._spots = [Spot(route, index) for route in routes for index in range(0, len(route.points), step)]
        self._places = np.array([(spot.x_m, spot.y_m) for spot in self._spots])

    def spot(self) -> Spot:
        """The free place that is farthest from everybody."""
        if not self._at:
            return self._spots[0]
        others = np.array(list(self._at.values()))
        far_m = np.hypot(*(self._places[:, None, :] - others[None, :, :]).transpose(2, 0, 1)).min(axis=1)
        best = int(far_m.argmax())
        if far_m[best] < _ROOM_M:
            raise InputError(f"fewer vehicles were wanted: there is no room on this map beside {len(self._at)} of them")
        return self._spots[best]

    def add(self, actor: int, home: int, spot: Spot) -> None:
        """Drive another vehicle."""
        self.vehicles.append(Vehicle(actor, home, spot.route, spot.index))
        self._at[actor] = (spot.x_m, spot.y_m)

    def forget(self, actors: Sequence[int]) -> None:
        """These are gone, or all of them if none is named."""
        gone = set(actors) or set(self._at)
        self.vehicles = [vehicle for vehicle in self.vehicles if vehicle.actor not in gone]
        self._at = {actor: at for actor, at in self._at.items() if actor not in gone}

    def decide(self, rows: Rows) -> dict[int, VehicleControl]:
        """For every actor its next pedals, from the state of everybody."""
        motion = dict(zip(rows["id"].tolist(), rows["motion"].tolist(), strict=True))
        for vehicle in self.vehicles:
            seen = motion.get(vehicle.actor)
            if seen is not None:
                self._at[vehicle.actor] = (seen[0], seen[1])
                vehicle.index = _nearest(vehicle.route, vehicle.index, seen[0], seen[1])
        gaps_m = self._gaps_m()
        return {
            vehicle.actor: self._pedals(vehicle, motion[vehicle.actor], gaps_m[vehicle.actor])
            for vehicle in self.vehicles
            if vehicle.actor in motion
        }

    def _gaps_m(self) -> dict[int, float]:
        """How far ahead on its route the next one is, for every vehicle."""
        made: dict[int, float] = {}
        for route in self._routes:
            own = sorted(
                (vehicle for vehicle in self.vehicles if vehicle.route is route),
                key=lambda vehicle: (vehicle.index, vehicle.actor),
            )
            for here, ahead in zip(own, [*own[1:], *own[:1]], strict=True):
                made[here.actor] = SPACING_M * ((ahead.index - here.index) % len(route.points)) or route.length_m
        return made

    def _pedals(self, vehicle: Vehicle, motion: list[float], gap_m: float) -> VehicleControl:
        x_m, y_m, yaw_rad = motion[0], motion[1], math.radians(motion[4])
        forward_x, forward_y = math.cos(yaw_rad), math.sin(yaw_rad)
        speed_mps = motion[6] * forward_x + motion[7] * forward_y
        ahead = round((_LOOK_AHEAD_M + _LOOK_AHEAD_S * max(speed_mps, 0.0)) / SPACING_M)
        target = vehicle.route.xy[(vehicle.index + ahead) % len(vehicle.route.xy)]
        rear_x, rear_y = x_m - _REAR_M * forward_x, y_m - _REAR_M * forward_y
        steer = max(-1.0, min(_EAGER * pure_pursuit(_STEERING, rear_x, rear_y, forward_x, forward_y, *target), 1.0))
        wanted_mps = max(min(vehicle.route.speeds_mps[vehicle.index], (gap_m - _STOP_GAP_M) / _GAP_S), 0.0)
        pedals, vehicle.speed = control_speed(_GAINS, vehicle.speed, wanted_mps, speed_mps, self._step_s)
        return VehicleControl(throttle=pedals.throttle, steer=steer, brake=pedals.brake)


def _nearest(route: Route, index: int, x_m: float, y_m: float) -> int:
    """The nearest of the next points, beginning with the present one."""
    count = len(route.xy)
    best, least = index, math.inf
    for step in range(_WINDOW):
        at = (index + step) % count
        px, py = route.xy[at]
        square = (px - x_m) * (px - x_m) + (py - y_m) * (py - y_m)
        if square < least:
            best, least = at, square
    return best
