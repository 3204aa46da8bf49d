"""Our script in SUMO's terms: roads with one lane each that meet at a junction without right of way, and routes over them.

SUMO's y looks north, ours south; its angles count from north, ours from east, both clockwise. A vehicle's position is the
middle of its front bumper there, its own middle here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from samepath.core.errors import InputError
from samepath.engines.in_process import TICK_S, InProcessSettings
from samepath.engines.interface import Scalar, switch, whole
from samepath.scenarios.scripts import Point, Role, Script, brake_force_n, drive_force_n

# SUMO's clock counts milliseconds.
_MS: Final = 1000
_LARGEST_SEED: Final = 2**31
# The junction begins where two paths are this near to each other, and ends where they have become one: nearer than that.
_JUNCTION_M: Final = 10.0
_ONE_M: Final = 0.1
_SAMPLE_M: Final = 0.1
# Road before the first waypoint, for the rear of a car, and after the last, so that nobody leaves the net.
_SPARE_M: Final = 20.0
_LIMIT_MPS: Final = 50.0

GRID: Final = Path(__file__).parent / "project" / "grid.net.xml"
GRID_TICKS: Final = 800
GRID_CARS: Final = 36
_GRID_EVERY_S: Final = 0.5
GRID_CAR_M: Final = 4.7


@dataclass(frozen=True)
class SumoOptions:
    """How SUMO is started."""

    threads: int
    random: bool
    seed: int

    def arguments(self, step_s: float) -> list[str]:
        """Return the command line without the files."""
        chance = ["--random", "true"] if self.random else ["--seed", str(self.seed % _LARGEST_SEED)]
        return [
            *chance,
            *("--threads", str(self.threads)),
            *("--step-length", f"{step_s:.3f}"),
            *("--collision.action", "warn", "--collision.check-junctions", "true", "--collision.mingap-factor", "0"),
            *("--time-to-teleport", "-1", "--no-step-log", "true", "--no-warnings", "true", "--xml-validation", "never"),
        ]


def read_options(values: Mapping[str, Scalar], seed: int) -> SumoOptions:
    """Check a study's plain values."""
    return SumoOptions(whole(values, "threads", 1, 64), switch(values, "random"), seed)


def check_step(settings: InProcessSettings) -> None:
    """Refuse steps that are not whole milliseconds."""
    if round(TICK_S * _MS) % settings.substeps:
        raise InputError(f"substeps: 1, 2, 5, 10, 25 or 50 was wanted, because SUMO counts ms, but {settings.substeps} came")


@dataclass(frozen=True)
class JunctionRoads:
    """Ways into a junction and over it, by role, and the one way out; in our frame."""

    into: tuple[tuple[Point, ...], ...]
    over: tuple[tuple[Point, ...], ...]
    out: tuple[Point, ...]


@dataclass(frozen=True)
class SumoScene:
    """A script as two files for SUMO."""

    net: str
    routes: str


def scene_of(script: Script) -> SumoScene:
    """Return roads that have the form of the vehicles' paths, and a vehicle on each."""
    return SumoScene(_net(roads_of(script)), _routes(script.roles))


def roads_of(script: Script) -> JunctionRoads:
    """Cut two paths that become one into what lies before, in and after their junction."""
    if len(script.roles) != 2:
        raise InputError(f"scenario {script.name}: two vehicles were wanted for a net of SUMO, but {len(script.roles)} came")
    paths = [role.path for role in script.roles]
    main = 0 if _distance_m(paths[1][-1], paths[0]) < _ONE_M else 1
    side = 1 - main
    joined = next((at for at in range(len(paths[side])) if _all_near(paths[side][at:], paths[main])), None)
    if joined is None or joined == 0:
        raise InputError(f"scenario {script.name}: for SUMO two paths that become one were wanted, but these do not")
    meeting_m = _nearest_m(paths[side][joined], paths[main])
    before, out = _cut(paths[main], meeting_m)
    ways = {main: before, side: (*paths[side][:joined], out[0])}
    into, over = zip(*(_cut(ways[index], _begin_m(ways[index], ways[1 - index])) for index in range(2)), strict=True)
    return JunctionRoads(
        into=tuple((_beyond(one[1], one[0]), *one[1:]) for one in into),
        over=over,
        out=(*out[:-1], _beyond(out[-2], out[-1])),
    )


def _begin_m(path: Sequence[Point], other: Sequence[Point]) -> float:
    """How far along a path the other one is near for the first time."""
    length_m = _length_m(path)
    for index in range(1, int(length_m / _SAMPLE_M)):
        if _distance_m(_cut(path, index * _SAMPLE_M)[1][0], other) < _JUNCTION_M:
            return index * _SAMPLE_M
    return length_m / 2


def _beyond(before: Point, last: Point) -> Point:
    """Return a point farther on the way from one to another."""
    share = 1.0 + _SPARE_M / math.dist(before, last)
    return before[0] + share * (last[0] - before[0]), before[1] + share * (last[1] - before[1])


def _cut(path: Sequence[Point], at_m: float) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Cut a path in two at a distance from its beginning, between its ends; both parts have the point of the cut."""
    for index, (one, two) in enumerate(pairwise(path)):
        gap_m = math.dist(one, two)
        if at_m < gap_m:
            share = at_m / gap_m
            point = (one[0] + share * (two[0] - one[0]), one[1] + share * (two[1] - one[1]))
            return (*path[: index + 1], point), (point, *path[index + 1 :])
        at_m -= gap_m
    return tuple(path), (path[-1], path[-1])


def _length_m(path: Iterable[Point]) -> float:
    return sum(math.dist(one, two) for one, two in pairwise(path))


def _all_near(points: Sequence[Point], path: Sequence[Point]) -> bool:
    return all(_distance_m(point, path) < _ONE_M for point in points)


def _distance_m(point: Point, path: Sequence[Point]) -> float:
    return _nearest(point, path)[0]


def _nearest_m(point: Point, path: Sequence[Point]) -> float:
    return _nearest(point, path)[1]


def _nearest(point: Point, path: Sequence[Point]) -> tuple[float, float]:
    """Return how far from a path a point is, and how far along it its nearest point is."""
    found, along_m = (math.inf, 0.0), 0.0
    for one, two in pairwise(path):
        gap_m = math.dist(one, two)
        x, y = (two[0] - one[0]) / gap_m, (two[1] - one[1]) / gap_m
        at_m = min(gap_m, max(0.0, (point[0] - one[0]) * x + (point[1] - one[1]) * y))
        found = min(found, (math.dist(point, (one[0] + at_m * x, one[1] + at_m * y)), along_m + at_m))
        along_m += gap_m
    return found


def _net(roads: JunctionRoads) -> str:
    """Return a net as netconvert would write it, with all digits; nobody at the junction has to give way, all are foes."""
    net = Element("net", version="1.20")
    count = len(roads.into)
    for index, points in enumerate(roads.over):
        edge = SubElement(net, "edge", id=f":j_{index}", function="internal")
        _lane(edge, f":j_{index}_0", points)
    ways = {f"in{index}": (f"n{index}", "j", points) for index, points in enumerate(roads.into)}
    for name, (begin, end, points) in {**ways, "out": ("j", "end", roads.out)}.items():
        edge = SubElement(net, "edge", {"id": name, "from": begin, "to": end, "priority": "1"})
        _lane(edge, f"{name}_0", points)
    for index, points in enumerate(roads.into):
        _junction(net, f"n{index}", points[0], "dead_end")
    _junction(net, "end", roads.out[-1], "dead_end", "out_0")
    lanes, inner = (" ".join(form.format(index) for index in range(count)) for form in ("in{}_0", ":j_{}_0"))
    junction = _junction(net, "j", roads.out[0], "priority", lanes, inner)
    for index in range(count):
        foes = "".join("0" if one == index else "1" for one in reversed(range(count)))
        SubElement(junction, "request", index=str(index), response="0" * count, foes=foes, cont="0")
    for index in range(count):
        _connection(net, f"in{index}", via=f":j_{index}_0")
        _connection(net, f":j_{index}")
    return tostring(net, "unicode")


def _lane(edge: Element, name: str, points: Sequence[Point]) -> None:
    shape = " ".join(f"{x!r},{-y!r}" for x, y in points)
    SubElement(edge, "lane", id=name, index="0", speed=repr(_LIMIT_MPS), length=repr(_length_m(points)), shape=shape)


def _junction(net: Element, name: str, at: Point, kind: str, lanes: str = "", inner: str = "") -> Element:
    place = {"id": name, "type": kind, "x": repr(at[0]), "y": repr(-at[1])}
    return SubElement(net, "junction", {**place, "incLanes": lanes, "intLanes": inner, "shape": ""})


def _connection(net: Element, start: str, **via: str) -> None:
    SubElement(net, "connection", {"from": start, "to": "out", "fromLane": "0", "toLane": "0", **via, "dir": "s", "state": "M"})


def _routes(roles: Sequence[Role]) -> str:
    """Return a vehicle for each role, standing with its middle on its first waypoint; chance has no part in its driving."""
    routes = Element("routes")
    for index, role in enumerate(roles):
        body = role.body
        kind = {"id": f"type{role.number}", "length": body.length_m, "width": body.width_m, "height": body.height_m}
        kind |= {"mass": body.mass_kg, "minGap": 0, "sigma": 0, "speedFactor": 1, "speedDev": 0, "maxSpeed": _LIMIT_MPS}
        decel = brake_force_n(role, 1.0) / body.mass_kg
        kind |= {"accel": drive_force_n(role, 1.0, 0.0) / body.mass_kg, "decel": decel, "emergencyDecel": decel}
        SubElement(routes, "vType", {name: str(value) for name, value in kind.items()})
        front = repr(_SPARE_M + body.length_m / 2)
        start = {"depart": "0", "departLane": "0", "departPos": front, "departSpeed": "0"}
        vehicle = SubElement(routes, "vehicle", {"id": str(role.number), "type": f"type{role.number}", **start})
        SubElement(vehicle, "route", edges=f"in{index} out")
    return tostring(routes, "unicode")


def grid_routes() -> str:
    """Return traffic for the grid: a car every half second, from one street to another, with SUMO's own drivers.

    They dawdle and keep to the limit as SUMO's chance has it: by its seed, or by the clock.
    """
    routes = Element("routes")
    SubElement(routes, "vType", id="car", length=str(GRID_CAR_M), sigma="0.5", speedFactor="normc(1,0.1,0.2,2)")
    streets = [f"{one}{two}" for one in _CROSSINGS for two in _CROSSINGS if _are_neighbours(one, two)]
    for index in range(GRID_CARS):
        start, end = streets[index * 7 % len(streets)], streets[(index * 7 + 5 + index % 11) % len(streets)]
        trip = {"id": str(index + 1), "type": "car", "depart": f"{index * _GRID_EVERY_S:.1f}", "from": start, "to": end}
        SubElement(routes, "trip", {**trip, "departSpeed": "0", "departPos": "base"})
    return tostring(routes, "unicode")


_CROSSINGS: Final = tuple(f"{column}{row}" for column in "ABC" for row in "012")


def _are_neighbours(one: str, two: str) -> bool:
    return abs(ord(one[0]) - ord(two[0])) + abs(ord(one[1]) - ord(two[1])) == 1
