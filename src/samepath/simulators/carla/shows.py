"""The two kinds of scenario: a script whose actors we drive, and traffic that CARLA's traffic manager drives."""

import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SimulatorError
from samepath.base.streams import stream
from samepath.sim.control.lateral import Steering
from samepath.sim.world.records import Command
from samepath.simulators.carla.cast import Cast, Entry, chassis_of
from samepath.simulators.carla.contacts import Removals
from samepath.simulators.carla.link import Link
from samepath.simulators.carla.script import read_anchor
from samepath.simulators.carla.ticks import Frame
from samepath.simulators.scripts import STANDING, WAITING, Chassis, Mind, Place, Role, Script, Seen, mind_of, moved

AUTOPILOT_S: Final = 20.0
# Where traffic drives unless another map is asked for: one without dead ends, where the traffic manager destroys vehicles.
TRAFFIC_MAP: Final = "town"
# Dropped from so high above the ground: a vehicle by its wheels, a walker by its middle.
_LIFT_M: Final = {"vehicle": 0.3, "walker": 1.1, "prop": 0.05}
# A new traffic manager begins asynchronous, in a thread of its own. A cycle that began so must be over before it is given
# vehicles, or it drives them once before the first tick; it does not tell, so it is given this time.
_FIRST_CYCLE_S: Final = 0.25
# How far off any lane or sidewalk an actor may start.
_OFF_MAP_M: Final = 10.0
_ABOVE_M: Final = 2.5
_BELOW_M: Final = 20.0


class Show(Protocol):
    """What is played on a server."""

    duration_s: float
    ends_early: bool
    notes: list[str]

    def enter(self) -> None:
        """Spawn everybody."""
        ...

    def begin(self, frame: Frame) -> None:
        """Everybody has come to rest: tick 0."""
        ...

    def act(self, frame: Frame, time_s: float) -> None:
        """Do what is to be done before the next step."""
        ...

    def is_over(self, present: Iterable[int]) -> bool:
        """Has everybody who is still there arrived?"""
        ...

    def close(self) -> None:
        """Let go of what is not an actor."""
        ...


class ScriptedShow:
    """A scenario whose vehicles and pedestrians are driven from here."""

    def __init__(self, link: Link, cast: Cast, script: Script) -> None:
        self._link, self._cast = link, cast
        settings = link.settings
        anchor = read_anchor(settings.anchor)
        place = _spawn_point(link.world, anchor) if isinstance(anchor, int) else anchor
        self._script = script if place is None else moved(script, place)
        self.duration_s, self.ends_early = script.duration_s, script.ends_early
        self.notes: list[str] = []
        self._minds: dict[int, Mind] = {}
        self._start_frame = 0
        removable = [role.number for role in script.roles if role.removed_when_hit]
        delay_frames = round(settings.remove_after_s / settings.control_s)
        self._removals = Removals(removable, delay_frames, strict=settings.synchronous)

    def enter(self) -> None:
        """Spawn everybody a little above the ground, at rest."""
        self._cast.spawn([Entry(role.number, role.type, self._transform(role)) for role in self._script.roles])
        at_rest: dict[str, Command] = {"vehicle": STANDING, "walker": WAITING}
        self._cast.command({role.number: at_rest[role.kind] for role in self._script.roles if role.kind in at_rest})

    def _transform(self, role: Role) -> Any:  # noqa: ANN401
        carla, start = self._link.carla, role.start
        z_m = _ground_m(self._link, start, f"scenario {self._script.name}: actor {role.number}") + _LIFT_M[role.kind]
        return carla.Transform(carla.Location(start.x_m, start.y_m, z_m), carla.Rotation(yaw=start.yaw_deg))

    def begin(self, frame: Frame) -> None:
        """Put somebody behind every wheel."""
        self._start_frame = frame.number
        for role in self._script.roles:
            if role.number not in frame.states:
                raise SimulatorError(f"scenario {self._script.name}: actor {role.number} was gone before the run began")
        minds = {role.number: mind_of(role, self._chassis, self._link.settings.control_s) for role in self._script.roles}
        self._minds = {number: mind for number, mind in minds.items() if mind is not None}

    def _chassis(self, role: Role) -> Chassis:
        found = chassis_of(self._cast.actor(role.number))
        if found is None:
            usual = Steering()
            found = Chassis(usual.wheel_base_m, usual.wheel_base_m / 2, usual.max_steer_deg)
            self.notes.append(f"actor {role.number}: the server tells of no plausible wheels; steering assumes {found}")
        return found

    def act(self, frame: Frame, time_s: float) -> None:
        """Remove who was hit, ask everybody else."""
        for number in self._removals.due(self._cast.reports, self._start_frame, frame.number):
            if number in frame.states:
                self._cast.remove(number)
                self._minds.pop(number, None)
        here = {number: mind for number, mind in self._minds.items() if number in frame.states}
        self._cast.command({number: mind.decide(_seen(frame.states[number]), time_s) for number, mind in here.items()})

    def is_over(self, present: Iterable[int]) -> bool:
        """Has everybody who is still there arrived?"""
        return all(self._minds[number].finished for number in present if number in self._minds)

    def close(self) -> None:
        """Everybody is an actor."""


def _seen(state: Mapping[str, float]) -> Seen:
    return Seen(state["x_m"], state["y_m"], state["yaw_deg"], state["vx_mps"], state["vy_mps"])


def _spawn_point(world: Any, index: int) -> Place:  # noqa: ANN401
    points = world.get_map().get_spawn_points()
    if index >= len(points):
        raise SimulatorError(f"anchor: spawn:{index} was wanted, but the map has spawn points 0 to {len(points) - 1}")
    place = points[index]
    return Place(place.location.x, place.location.y, place.rotation.yaw)


def _ground_m(link: Link, start: Place, who: str) -> float:
    """Return the height of the ground: what a ray from just above the nearest lane meets, or that lane itself."""
    carla, world_map = link.carla, link.world.get_map()
    near = world_map.get_waypoint(carla.Location(start.x_m, start.y_m, 0.0), True, carla.LaneType.Any)
    lane = near.transform.location if near is not None else carla.Location()
    if near is None or lane.distance_2d(carla.Location(start.x_m, start.y_m, 0.0)) > _OFF_MAP_M:
        raise SimulatorError(
            f"{who} would start at ({start.x_m:.1f}, {start.y_m:.1f}), off the map {world_map.name}: "
            "give anchor, such as spawn:0, or the map the scenario is for"
        )
    hit = link.world.ground_projection(carla.Location(start.x_m, start.y_m, lane.z + _ABOVE_M), _BELOW_M)
    return float(lane.z if hit is None else hit.location.z)


class TrafficShow:
    """Vehicles from recommended spawn points under the traffic manager; works on any map."""

    def __init__(self, link: Link, cast: Cast, seed: int) -> None:
        self._link, self._cast, self._seed = link, cast, seed
        self.duration_s, self.ends_early = AUTOPILOT_S, False
        self.notes: list[str] = []
        self._manager: Any = None
        self._numbers = range(1, link.settings.vehicles + 1)

    def enter(self) -> None:
        """Spawn cars of all types in turn, at spawn points drawn from the study's seed."""
        world, count = self._link.world, len(self._numbers)
        points = world.get_map().get_spawn_points()
        if len(points) < count:
            raise SimulatorError(
                f"vehicles: {count} were wanted, but the map {world.get_map().name} has {len(points)} spawn points"
            )
        order = stream(self._seed, "carla", "spawn points").permutation(len(points)).tolist()
        cars = sorted(blueprint.id for blueprint in world.get_blueprint_library().filter("vehicle.*") if _is_car(blueprint))
        entries = [Entry(n, cars[(n - 1) % len(cars)], points[order[n - 1]]) for n in self._numbers]
        self._cast.spawn(entries)
        self._cast.command(dict.fromkeys(self._numbers, STANDING))

    def begin(self, frame: Frame) -> None:
        """Hand everybody to a traffic manager made for this run."""
        settings, client = self._link.settings, self._link.client
        manager = client.get_trafficmanager(settings.traffic_manager_port or _free_port())
        self._manager = manager
        manager.set_synchronous_mode(settings.synchronous)
        manager.set_hybrid_physics_mode(settings.hybrid_physics)
        manager.set_random_device_seed(self._seed if settings.tm_seed < 0 else settings.tm_seed)
        if settings.synchronous:
            SYSTEM_CLOCK.sleep_s(_FIRST_CYCLE_S)
        port = manager.get_port()
        if not settings.batch:
            for number in self._numbers:
                self._cast.actor(number).set_autopilot(True, port)
            return
        commands = [self._link.carla.command.SetAutopilot(self._cast.actor(n).id, True, port) for n in self._numbers]
        client.apply_batch_sync(commands, False)

    def act(self, frame: Frame, time_s: float) -> None:
        """The traffic manager does."""

    def is_over(self, present: Iterable[int]) -> bool:
        """Traffic never ends."""
        return False

    def close(self) -> None:
        """End the traffic manager: the next run makes its own."""
        if self._manager is not None:
            self._link.tidy([self._manager.shut_down])
        self._manager = None


def _is_car(blueprint: Any) -> bool:  # noqa: ANN401
    if blueprint.has_attribute("base_type") and blueprint.get_attribute("base_type").as_str() != "car":
        return False
    return int(blueprint.get_attribute("number_of_wheels")) == 4


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
