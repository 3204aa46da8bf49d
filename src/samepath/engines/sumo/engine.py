"""Driving SUMO through libsumo: it is started, told speeds, stepped and read. There is one SUMO in a process at a time.

A script becomes roads with one lane each that meet at a junction without right of way, and routes over them. SUMO's y looks
north, ours south; its angles count from north, ours from east, both clockwise. A vehicle's position is the middle of its front
bumper there, its own middle here.
"""

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import InputKind, InputLog
from samepath.core.states import VehicleCommand
from samepath.engines.in_process import (
    CONTROLS,
    FirstContacts,
    InProcessContact,
    InProcessSettings,
    InProcessWorld,
    State,
    StepAccumulator,
)
from samepath.engines.interface import DURATION, TIME_OVER
from samepath.engines.sumo.simulator import SumoOptions
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import STANDING, PlanarState, Point, Role, Script, brake_force_n, drive_force_n

with redirect_stdout(StringIO()):  # it prints a warning where pyarrow is not the one that it brings for itself
    import libsumo
    from libsumo import simulation, vehicle

# The junction begins where two paths are this near to each other, and ends where they have become one: nearer than that.
_JUNCTION_M: Final = 10.0
_ONE_M: Final = 0.1
_SAMPLE_M: Final = 0.1
# Road before the first waypoint, for the rear of a car, and after the last, so that nobody leaves the net.
_SPARE_M: Final = 20.0
_LIMIT_MPS: Final = 50.0

# SUMO's own traffic: a grid of streets with lights, in which nobody is driven by us.
GRID: Final = Path(__file__).parent / "project" / "grid.net.xml"
GRID_TICKS: Final = 800
GRID_CARS: Final = 36
_GRID_EVERY_S: Final = 0.5
GRID_CAR_M: Final = 4.7
_GRID_TYPE: Final = "vehicle.sumo.car"
_NOBODY_DRIVES: Final = [math.nan] * len(CONTROLS)
_CROSSINGS: Final = tuple(f"{column}{row}" for column in "ABC" for row in "012")

_MOST_WORDS: Final = 60
# Bits of SUMO's speed mode: what a vehicle can do is regarded (2, 4); what is safe (1) or a duty (8, 16, not 32) is not.
_OBEDIENT: Final = 2 + 4 + 32
_ERRORS: Final = (libsumo.TraCIException, libsumo.FatalTraCIError)


@contextmanager
def simulator_errors() -> Iterator[None]:
    """Turn what SUMO raises into one line."""
    try:
        yield
    except _ERRORS as error:
        raise simulator_error(error) from error


def simulator_error(error: Exception) -> SimulatorError:
    """Return what SUMO raised as one line."""
    return SimulatorError(f"SUMO: {' '.join(str(error).split()) or type(error).__name__}")


def start(net: Path | str, routes: str, step_s: float, options: SumoOptions) -> None:
    """Start SUMO with a net (a file, or its text) and routes; files are needed no longer once it has read them."""
    libsumo.close()
    with tempfile.TemporaryDirectory(prefix="samepath-sumo-") as folder:
        net_file, routes_file, said = (Path(folder) / name for name in ("scene.net.xml", "scene.rou.xml", "said.txt"))
        net_file.write_text(net if isinstance(net, str) else net.read_text("utf-8"), "utf-8")
        routes_file.write_text(routes, "utf-8")
        try:
            with _stderr_to(said):
                libsumo.start(["sumo", "-n", str(net_file), "-r", str(routes_file), *options.arguments(step_s)])
            make_step()  # vehicles that begin at 0 are there now
        except _ERRORS as error:
            words = " ".join(said.read_text("utf-8", "replace").split()[:_MOST_WORDS])
            raise SimulatorError(f"SUMO cannot be started: {words or error}") from error


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Keep what SUMO says on stderr: reasons when it fails, the same warning in every run when it does not."""
    sys.stderr.flush()
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def make_step() -> None:
    """Make one of SUMO's steps."""
    libsumo.simulationStep()


def stop() -> None:
    """End SUMO; what it has in this process is gone."""
    libsumo.close()


class SumoWorld(InProcessWorld):
    """Roads with the vehicles of a script on them."""

    def __init__(self, script: Script, settings: InProcessSettings, options: SumoOptions) -> None:
        self._step_s = settings.step_s
        self._accumulator = StepAccumulator(settings.step_s, settings.max_steps)
        scene = scene_of(script)
        start(scene.net, scene.routes, settings.step_s, options)
        with simulator_errors():
            self._cars = {role.number: Car(role) for role in script.roles}
        self._contacts = FirstContacts()
        self._seen: dict[int, PlanarState] = {}  # since the last step

    def observe(self, number: int) -> PlanarState:
        """Return where the middle of a vehicle is and how it moves; it is read once after a step."""
        seen = self._seen.get(number)
        if seen is None:
            try:
                seen = self._seen[number] = self._cars[number].read()
            except _ERRORS as error:
                raise simulator_error(error) from error
        return seen

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set what a vehicle does in every step from now on."""
        self._cars[number].command = command

    def states(self) -> Mapping[int, State]:
        """Read every vehicle."""
        return {number: state_of(self.observe(number)) for number in self._cars}

    def reading(self) -> list[PlanarState]:
        """Take down every vehicle; what is seen are the numbers of the channels, in their order."""
        return [self.observe(number) for number in self._cars]

    def step(self, count: int) -> None:
        """Make fixed steps; forces are those of each step."""
        cars, step_s = list(self._cars.values()), self._step_s
        try:
            for _ in range(count):
                for car in cars:
                    car.act(step_s)
                make_step()
                self._seen.clear()
                for collider, victim in collisions():
                    self._contacts.add(collider, victim, (0.0, 0.0, 0.0))
        except _ERRORS as error:
            raise simulator_error(error) from error

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the steps that a frame is due."""
        for _ in range(self._accumulator.due(frame_s)):
            self.step(1)
            on_step()

    def contacts(self) -> list[InProcessContact]:
        """Return who touched for the first time; SUMO knows no impulses."""
        return self._contacts.take()

    def close(self) -> None:
        """End SUMO."""
        stop()


class Car:
    """A vehicle whose speed is what its driver's pedals make of it; where the lane goes, it goes."""

    def __init__(self, role: Role) -> None:
        self._role, self._name, self._half_m = role, str(role.number), role.body.length_m / 2
        self.command = STANDING
        vehicle.setSpeedMode(self._name, _OBEDIENT)
        vehicle.setLaneChangeMode(self._name, 0)

    def act(self, step_s: float) -> None:
        """Tell the speed of the next step: force over mass, never backwards."""
        speed_mps, command = vehicle.getSpeed(self._name), self.command
        brake = 1.0 if command.hand_brake else command.brake
        force_n = drive_force_n(self._role, command.throttle, speed_mps) - brake_force_n(self._role, brake)
        vehicle.setSpeed(self._name, max(0.0, speed_mps + force_n / self._role.body.mass_kg * step_s))

    def read(self) -> PlanarState:
        """Return where its middle is, its yaw and its velocity, in our frame."""
        return placed(self._name, self._half_m)


def placed(name: str, half_m: float) -> PlanarState:
    """Return the middle of a vehicle, its yaw and velocity in our frame: y turned over, angles from east."""
    (x, y), speed_mps = vehicle.getPosition(name), vehicle.getSpeed(name)
    yaw_deg = math.remainder(vehicle.getAngle(name) - 90.0, 360.0)
    yaw_rad = math.radians(yaw_deg)
    ahead_x, ahead_y = math.cos(yaw_rad), math.sin(yaw_rad)
    return PlanarState(x - half_m * ahead_x, -y - half_m * ahead_y, yaw_deg, speed_mps * ahead_x, speed_mps * ahead_y)


def state_of(seen: PlanarState) -> State:
    """Name the numbers, in the order of the channels."""
    x, y, yaw, vx, vy = seen
    return {"x_m": x, "y_m": y, "yaw_deg": yaw, "vx_mps": vx, "vy_mps": vy}


def present() -> list[int]:
    """Return who is on the road, by number."""
    return sorted(map(int, vehicle.getIDList()))


def collisions() -> list[tuple[int, int]]:
    """Return who ran into whom in the last step, as SUMO tells it."""
    if not simulation.getCollidingVehiclesNumber():
        return []
    return [(int(collision.collider), int(collision.victim)) for collision in simulation.getCollisions()]


def play_grid(
    settings: InProcessSettings, options: SumoOptions, recorder: Recorder, on_tick: Callable[[int], None], last: int | None
) -> None:
    """Run the grid from its first car to its last tick."""
    start(GRID, grid_routes(), settings.step_s, options)
    try:
        with simulator_errors():
            _play(settings.substeps, recorder, on_tick, min(GRID_TICKS, last or GRID_TICKS))
        # Fixed steps, and everybody is driven by SUMO itself: nothing goes in from outside.
        recorder.inputs(InputLog(covers=frozenset({InputKind.STEP, InputKind.COMMAND})))
        recorder.end(min(GRID_TICKS, last or GRID_TICKS), DURATION if last and last <= GRID_TICKS else TIME_OVER)
    finally:
        stop()


def _play(substeps: int, recorder: Recorder, on_tick: Callable[[int], None], ticks: int) -> None:
    contacts = FirstContacts()
    here: set[int] = set()
    half_m = GRID_CAR_M / 2
    for tick in range(1, ticks + 1):
        for _ in range(substeps):
            make_step()
            for collider, victim in collisions():
                contacts.add(collider, victim, (0.0, 0.0, 0.0))
        now = present()
        for number in sorted(here.difference(now)):
            recorder.event(tick - 1, "destroy", number, detail="arrived")
        for number in now:
            if number not in here:
                recorder.actor(number, _GRID_TYPE, tick if tick > 1 else 0)
        here = set(now)
        recorder.rows(tick, now, [[*placed(str(number), half_m), *_NOBODY_DRIVES] for number in now])
        for contact in contacts.take():
            recorder.event(tick, "collision", contact.actor, contact.other, contact.impulse_ns)
        on_tick(tick)


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
        into=tuple((_beyond(way[1], way[0]), *way[1:]) for way in into),
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
    for index, (a, b) in enumerate(pairwise(path)):
        gap_m = math.dist(a, b)
        if at_m < gap_m:
            share = at_m / gap_m
            point = (a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]))
            return (*path[: index + 1], point), (point, *path[index + 1 :])
        at_m -= gap_m
    return tuple(path), (path[-1], path[-1])


def _length_m(path: Iterable[Point]) -> float:
    return sum(math.dist(a, b) for a, b in pairwise(path))


def _all_near(points: Sequence[Point], path: Sequence[Point]) -> bool:
    return all(_distance_m(point, path) < _ONE_M for point in points)


def _distance_m(point: Point, path: Sequence[Point]) -> float:
    return _nearest(point, path)[0]


def _nearest_m(point: Point, path: Sequence[Point]) -> float:
    return _nearest(point, path)[1]


def _nearest(point: Point, path: Sequence[Point]) -> tuple[float, float]:
    """Return how far from a path a point is, and how far along it its nearest point is."""
    found, along_m = (math.inf, 0.0), 0.0
    for a, b in pairwise(path):
        gap_m = math.dist(a, b)
        x, y = (b[0] - a[0]) / gap_m, (b[1] - a[1]) / gap_m
        at_m = min(gap_m, max(0.0, (point[0] - a[0]) * x + (point[1] - a[1]) * y))
        found = min(found, (math.dist(point, (a[0] + at_m * x, a[1] + at_m * y)), along_m + at_m))
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
        foes = "".join("0" if foe == index else "1" for foe in reversed(range(count)))
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
        car = SubElement(routes, "vehicle", {"id": str(role.number), "type": f"type{role.number}", **start})
        SubElement(car, "route", edges=f"in{index} out")
    return tostring(routes, "unicode")


def grid_routes() -> str:
    """Return traffic for the grid: a car every half second, from one street to another, with SUMO's own drivers.

    They dawdle and keep to the limit as SUMO's chance has it: by its seed, or by the clock.
    """
    routes = Element("routes")
    SubElement(routes, "vType", id="car", length=str(GRID_CAR_M), sigma="0.5", speedFactor="normc(1,0.1,0.2,2)")
    streets = [f"{a}{b}" for a in _CROSSINGS for b in _CROSSINGS if _are_neighbours(a, b)]
    for index in range(GRID_CARS):
        start, end = streets[index * 7 % len(streets)], streets[(index * 7 + 5 + index % 11) % len(streets)]
        trip = {"id": str(index + 1), "type": "car", "depart": f"{index * _GRID_EVERY_S:.1f}", "from": start, "to": end}
        SubElement(routes, "trip", {**trip, "departSpeed": "0", "departPos": "base"})
    return tostring(routes, "unicode")


def _are_neighbours(a: str, b: str) -> bool:
    return abs(ord(a[0]) - ord(b[0])) + abs(ord(a[1]) - ord(b[1])) == 1
