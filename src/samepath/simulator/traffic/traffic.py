"""Traffic: where its actors begin, and what they do next, from the world after tick n to the commands for tick n + 1.

A :class:`Traffic` moves nobody by itself. It is asked once a tick, by a scenario that is played or by a server, and what it
commands takes effect like everybody else's: the cars have engines, tyres and brakes. Actors that are not of the traffic
(a scenario's own, a client's) are seen, waited for and driven around like any other, but not steered.

Everything it will ever do follows from the map, the settings, the seed and the states it is shown. What it remembers is small
and plain data, so that a snapshot can take it along.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from samepath.core.catalogue import VEHICLES, WALKERS, ActorType, PropType, VehicleType, actor_type
from samepath.core.errors import InputError, unknown
from samepath.core.states import ActorState, Command
from samepath.core.streams import stream
from samepath.core.trig import heading_deg
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.traffic.drivers import Drivers, endless_lanes
from samepath.simulator.traffic.pedestrians import Pedestrians
from samepath.simulator.traffic.roads import RoadNet, road_net
from samepath.simulator.traffic.walkways import WalkNet, walk_net
from samepath.simulator.world.signals import TrafficLightState

VEHICLES_MAX: Final = 2000
WALKERS_MAX: Final = 2000
# Ordinary cars and vans: what is wider or longer needs more than its own lane in a narrow bend.
_WIDEST_M, _LONGEST_M = 1.92, 5.0
# The catalogue has it for older scenarios; CARLA's clients know no such blueprint, and a seed is to mean the same to them.
_UNSERVED: Final = frozenset({"vehicle.lincoln.mkz"})
TRAFFIC_CARS: Final = tuple(
    kind.name
    for kind in VEHICLES
    if kind.kind in ("car", "van") and kind.width_m <= _WIDEST_M and kind.length_m <= _LONGEST_M
    if kind.name not in _UNSERVED
)
TRAFFIC_WALKERS: Final = tuple(kind.name for kind in WALKERS)
_CAR_EVERY_M: Final = 10.0
_AFTER_JUNCTION_M: Final = 10.0
_BEFORE_GATE_M: Final = 5.0
_WALKER_EVERY_M: Final = 2.0
_WALKERS_APART_M: Final = 1.0


@dataclass(frozen=True)
class TrafficSettings:
    """How much traffic there is; with ``destinations`` drivers go from place to place, else they turn as chance has it."""

    vehicles: int = 0
    walkers: int = 0
    destinations: bool = False
    seed: int = 0

    @classmethod
    def read(cls, words: str) -> "TrafficSettings":
        """Read ``vehicles=50,walkers=20,routes=destinations,seed=1``."""
        found: dict[str, str] = {}
        for word in words.split(","):
            name, equals, value = word.strip().partition("=")
            if name not in ("vehicles", "walkers", "routes", "seed") or not equals or name in found:
                raise InputError(f"traffic: vehicles=N,walkers=N,routes=random-turns,seed=N was wanted, but {words!r} came")
            found[name] = value
        counts = {name: found.get(name, "0") for name in ("vehicles", "walkers", "seed")}
        for name, text in counts.items():
            if not (text.isascii() and text.isdecimal() and len(text) <= 6):
                raise InputError(f"traffic: {name}: a whole number was wanted, but {text!r} came")
        routes = found.get("routes", "random-turns")
        if routes not in ("random-turns", "destinations"):
            raise unknown("kind of routes for traffic", routes, ("random-turns", "destinations"))
        vehicles, walkers, seed = (int(text) for text in counts.values())
        return cls(vehicles, walkers, destinations=routes == "destinations", seed=seed)

    def __post_init__(self) -> None:
        for name, count, most in (("vehicles", self.vehicles, VEHICLES_MAX), ("walkers", self.walkers, WALKERS_MAX)):
            if not 0 <= count <= most:
                raise InputError(f"traffic.{name}: a whole number from 0 to {most} was wanted, but {count} came")


@dataclass(frozen=True)
class Newcomer:
    """An actor that is to be put into the world: its type, place on the ground, heading, and where that is on the net."""

    type: str
    x_m: float
    y_m: float
    yaw_deg: float
    lane: int = -1
    at_m: float = 0.0
    way: int = -1

    @property
    def lift_m(self) -> float:
        """How far above the ground its middle is, and a little more, so that nobody begins in the ground."""
        kind = actor_type(self.type)
        return kind.height_m / 2.0 + 0.02 if self.way >= 0 else 0.03


def newcomers(road_map: RoadMap, settings: TrafficSettings, taken: Iterable[tuple[float, float]] = ()) -> tuple[Newcomer, ...]:
    """Who begins where: vehicles, then walkers. Places are drawn without repeats from those that a map has.

    Nobody begins near a place that is ``taken``.
    """
    net, others, seed = road_net(road_map), tuple(taken), settings.seed
    found = list(_cars(net, settings.vehicles, seed, others))
    if settings.walkers:
        found += _walkers(road_map.name, walk_net(road_map, net), settings.walkers, seed, others)
    return tuple(found)


def _is_free(x_m: float, y_m: float, taken: tuple[tuple[float, float], ...]) -> bool:
    return all((x - x_m) * (x - x_m) + (y - y_m) * (y - y_m) > _CAR_EVERY_M * _CAR_EVERY_M for x, y in taken)


def _cars(net: RoadNet, count: int, seed: int, taken: tuple[tuple[float, float], ...]) -> list[Newcomer]:
    endless = endless_lanes(net)
    places: list[tuple[int, float]] = []
    for lane in net.lanes:
        if lane.is_junction or lane.number not in endless:
            continue
        end_m = min([lane.length_m, *(net.gates[number].stop_m for number in net.gates_of[lane.number])]) - _BEFORE_GATE_M
        at_m = _AFTER_JUNCTION_M
        while at_m < end_m:
            if _is_free(*lane.place(at_m), taken):
                places.append((lane.number, at_m))
            at_m += _CAR_EVERY_M
    if count > len(places):
        more = "" if endless else ": all of its lanes lead to dead ends"
        raise InputError(
            f"traffic.vehicles: at most {len(places)} were wanted on map {net.name!r}, but {count} came{more}: ask for fewer"
        )
    order = stream(seed, "traffic", "places of cars").permutation(len(places))[:count].tolist() if count else []
    found = []
    for number, place in enumerate(order):
        lane, at_m = places[place]
        (x_m, y_m), (to_x, to_y) = net.lanes[lane].place(at_m), net.lanes[lane].direction(at_m)
        kind = TRAFFIC_CARS[int(stream(seed, "traffic", "type of car", number).integers(len(TRAFFIC_CARS)))]
        found.append(Newcomer(kind, x_m, y_m, heading_deg(to_x, to_y), lane=lane, at_m=at_m))
    return found


def _walkers(name: str, net: WalkNet, count: int, seed: int, taken: tuple[tuple[float, float], ...]) -> list[Newcomer]:
    places: list[tuple[int, float, float]] = []
    cells: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for x_m, y_m, _ in net.posts:
        cells.setdefault((int(x_m // _WALKERS_APART_M), int(y_m // _WALKERS_APART_M)), []).append((x_m, y_m))
    for way in net.ways:
        if not way.is_sidewalk or len(way.doorways) < 2:
            continue
        (ax, ay), (bx, by) = way.doorways[0].point, way.doorways[-1].point
        length_m = ((bx - ax) * (bx - ax) + (by - ay) * (by - ay)) ** 0.5
        for part in range(1, int(length_m / _WALKER_EVERY_M)):
            x_m = ax + (bx - ax) * part * _WALKER_EVERY_M / length_m
            y_m = ay + (by - ay) * part * _WALKER_EVERY_M / length_m
            cell = (int(x_m // _WALKERS_APART_M), int(y_m // _WALKERS_APART_M))
            around = [cells.get((cell[0] + i, cell[1] + j), ()) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            if _is_free(x_m, y_m, taken) and all(
                (x - x_m) ** 2 + (y - y_m) ** 2 >= _WALKERS_APART_M**2 for row in around for x, y in row
            ):
                cells.setdefault(cell, []).append((x_m, y_m))
                places.append((way.number, x_m, y_m))
    if count > len(places):
        raise InputError(f"traffic.walkers: at most {len(places)} were wanted on map {name!r}, but {count} came: ask for fewer")
    order = stream(seed, "traffic", "places of walkers").permutation(len(places))[:count].tolist()
    found = []
    for number, place in enumerate(order):
        way_number, x_m, y_m = places[place]
        kind = TRAFFIC_WALKERS[int(stream(seed, "traffic", "type of walker", number).integers(len(TRAFFIC_WALKERS)))]
        found.append(Newcomer(kind, x_m, y_m, 0.0, way=way_number))
    return found


class Traffic:
    """The traffic of one world: drivers and pedestrians, and how they take turns.

    The ids of actors, counted from ``first_id``, name the chance of each: the ids themselves go on over a load of the map.
    """

    def __init__(self, road_map: RoadMap, settings: TrafficSettings, step_s: float, first_id: int = 1) -> None:
        self.settings, seed = settings, settings.seed
        self.net = road_net(road_map)
        self.drivers = Drivers(self.net, seed, step_s, destinations=settings.destinations, first_id=first_id)
        walks = walk_net(road_map, self.net) if settings.walkers else WalkNet(())
        self.pedestrians = Pedestrians(walks, len(self.net.crossings), seed, step_s, first_id)
        # Its own, not the world's: how long a server stood idle before must not matter.
        self._tick = 0

    def add(self, actor_id: int, newcomer: Newcomer, kind: ActorType) -> None:
        """Somebody was put into the world, as this ``kind``."""
        if newcomer.way >= 0:
            self.pedestrians.add(actor_id, newcomer.type, newcomer.way)
        else:
            self.drivers.add(actor_id, kind, newcomer.lane, newcomer.at_m)

    @property
    def ids(self) -> tuple[int, ...]:
        """Everybody who is of the traffic."""
        return (*self.drivers.cars, *self.pedestrians.people)

    def remove(self, actor_id: int) -> None:
        """Somebody is gone."""
        self.drivers.remove(actor_id)
        self.pedestrians.remove(actor_id)

    def decide(
        self, states: Mapping[int, ActorState], types: Mapping[int, str], shows: Sequence[TrafficLightState]
    ) -> dict[int, Command]:
        """Everybody's command for the next tick, by id.

        ``types`` are those of all actors; ``shows`` is what the lights of the map's plan show.
        """
        drivers, pedestrians, tick = self.drivers, self.pedestrians, self._tick
        self._tick += 1
        for number in [number for number in self.ids if number not in states]:
            self.remove(number)
        cars, people = drivers.cars, pedestrians.people
        vehicles: list[tuple[ActorState, float, float]] = []
        walkers: list[tuple[ActorState, float]] = []
        for number in sorted(states):
            if number in cars:
                continue
            kind, state = actor_type(types[number]), states[number]
            if isinstance(kind, VehicleType | PropType):
                vehicles.append((state, kind.length_m / 2.0, kind.width_m / 2.0))
                continue
            if number not in people:
                walkers.append((state, kind.radius_m))
            # Also those of the traffic: who is on a crossing stands in the lanes that it covers.
            if number not in people or people[number].crosses >= 0:
                vehicles.append((state, kind.radius_m, kind.radius_m))
        lights = tuple(shows)
        drivers.look(states, vehicles)
        drivers.settle(lights)
        if people:
            claims, red = drivers.claims(), TrafficLightState.RED
            stops_cars = {c.number: c.light < 0 or lights[c.light] == red for c in self.net.crossings}
            is_free = {c.number: c.number not in claims and not drivers.standing_over(c.number) for c in self.net.crossings}
            pedestrians.turns(tick, stops_cars, is_free)
        commands: dict[int, Command] = dict(pedestrians.walk(tick, states, walkers))
        drivers.give_leave(lights, pedestrians.shut(tick, states, self.net))
        commands.update(drivers.drive(tick))
        return dict(sorted(commands.items()))

    def to_plain(self) -> dict[str, Any]:
        """Everything the future depends on, as plain data."""
        return {"tick": self._tick, "cars": self.drivers.to_plain(), "walkers": self.pedestrians.to_plain()}

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up what :meth:`to_plain` returned."""
        self._tick = plain["tick"]
        self.drivers.recall(plain["cars"])
        self.pedestrians.recall(plain["walkers"])
