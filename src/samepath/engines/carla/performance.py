"""One run from its first frame to its last: the server is set up, everybody spawned, played, recorded and taken away again."""

import queue
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final, Protocol

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.core.states import Command
from samepath.core.streams import stream
from samepath.engines.carla.engine import (
    CarlaConnection,
    CarlaFrame,
    DelayedRemovals,
    SpawnedActors,
    SpawnRequest,
    States,
    chassis_of,
    first_contacts,
    read_anchor,
    ticks_from,
)
from samepath.engines.carla.simulator import TICK_S, CarlaSettings
from samepath.engines.interface import DURATION
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.drivers import Steering
from samepath.scenarios.scripts import (
    STANDING,
    WAITING,
    ActorController,
    Chassis,
    PlanarState,
    Pose2D,
    Role,
    Script,
    controller_of,
    moved,
)

# Who makes time pass: we, step by step, or the server by itself.


class ServerClock(Protocol):
    """Hands out the server's snapshots, oldest first."""

    def advance(self) -> list[Any]:
        """Wait for at least one more frame and return all that are there."""
        ...

    def close(self) -> None:
        """Let go of the server."""
        ...


class Synchronous:
    """The server waits for us. Frames must follow each other: if they do not, somebody else ticks the same server."""

    def __init__(self, link: CarlaConnection) -> None:
        self._link = link
        # The client may not have seen yet what it ticked itself while it loaded the world.
        self._frame: int | None = None

    def advance(self) -> list[Any]:
        """Let the server make one step."""
        world = self._link.world
        world.tick(self._link.settings.timeout_s)
        snapshot = world.get_snapshot()
        if self._frame is not None and snapshot.frame != self._frame + 1:
            raise SimulatorError(
                f"frame {snapshot.frame} came after {self._frame}: another client ticks the server at "
                f"{self._link.settings.address}; a study needs it alone"
            )
        self._frame = snapshot.frame
        return [snapshot]

    def close(self) -> None:
        """Nothing is held."""


class Asynchronous:
    """The server runs on; frames that arrive while we are busy wait here."""

    def __init__(self, link: CarlaConnection) -> None:
        self._link = link
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._callback = link.world.on_tick(self._frames.put)

    def advance(self) -> list[Any]:
        """Return what has come since the last time, waiting for the first."""
        settings = self._link.settings
        try:
            found = [self._frames.get(timeout=settings.timeout_s)]
        except queue.Empty:
            raise RuntimeError("time-out") from None
        while not self._frames.empty():
            found.append(self._frames.get())
        return found

    def close(self) -> None:
        """Hear no more."""
        with suppress(RuntimeError):
            self._link.world.remove_on_tick(self._callback)


def clock_of(link: CarlaConnection) -> ServerClock:
    """Return the clock that the settings ask for."""
    return Synchronous(link) if link.settings.synchronous else Asynchronous(link)


# The two kinds of scenario: a script whose actors we drive, and traffic that CARLA's traffic manager drives.

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

    def begin(self, frame: CarlaFrame) -> None:
        """Everybody has come to rest: tick 0."""
        ...

    def act(self, frame: CarlaFrame, time_s: float) -> None:
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

    def __init__(self, link: CarlaConnection, cast: SpawnedActors, script: Script) -> None:
        self._link, self._cast = link, cast
        settings = link.settings
        anchor = read_anchor(settings.anchor)
        place = _spawn_point(link.world, anchor) if isinstance(anchor, int) else anchor
        self._script = script if place is None else moved(script, place)
        self.duration_s, self.ends_early = script.duration_s, script.ends_early
        self.notes: list[str] = []
        self._minds: dict[int, ActorController] = {}
        self._start_frame = 0
        removable = [role.number for role in script.roles if role.removed_when_hit]
        delay_frames = round(settings.remove_after_s / settings.control_s)
        self._removals = DelayedRemovals(removable, delay_frames, strict=settings.synchronous)

    def enter(self) -> None:
        """Spawn everybody a little above the ground, at rest."""
        self._cast.spawn([SpawnRequest(role.number, role.type, self._transform(role)) for role in self._script.roles])
        at_rest: dict[str, Command] = {"vehicle": STANDING, "walker": WAITING}
        self._cast.command({role.number: at_rest[role.kind] for role in self._script.roles if role.kind in at_rest})

    def _transform(self, role: Role) -> Any:  # noqa: ANN401
        carla, start = self._link.carla, role.start
        z_m = _ground_m(self._link, start, f"scenario {self._script.name}: actor {role.number}") + _LIFT_M[role.kind]
        return carla.Transform(carla.Location(start.x_m, start.y_m, z_m), carla.Rotation(yaw=start.yaw_deg))

    def begin(self, frame: CarlaFrame) -> None:
        """Put somebody behind every wheel."""
        self._start_frame = frame.number
        for role in self._script.roles:
            if role.number not in frame.states:
                raise SimulatorError(f"scenario {self._script.name}: actor {role.number} was gone before the run began")
        minds = {role.number: controller_of(role, self._chassis, self._link.settings.control_s) for role in self._script.roles}
        self._minds = {number: mind for number, mind in minds.items() if mind is not None}

    def _chassis(self, role: Role) -> Chassis:
        found = chassis_of(self._cast.actor(role.number))
        if found is None:
            usual = Steering()
            found = Chassis(usual.wheel_base_m, usual.wheel_base_m / 2, usual.max_steer_deg)
            self.notes.append(f"actor {role.number}: the server tells of no plausible wheels; steering assumes {found}")
        return found

    def act(self, frame: CarlaFrame, time_s: float) -> None:
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


def _seen(state: Mapping[str, float]) -> PlanarState:
    return PlanarState(state["x_m"], state["y_m"], state["yaw_deg"], state["vx_mps"], state["vy_mps"])


def _spawn_point(world: Any, index: int) -> Pose2D:  # noqa: ANN401
    points = world.get_map().get_spawn_points()
    if index >= len(points):
        raise SimulatorError(f"anchor: spawn:{index} was wanted, but the map has spawn points 0 to {len(points) - 1}")
    place = points[index]
    return Pose2D(place.location.x, place.location.y, place.rotation.yaw)


def _ground_m(link: CarlaConnection, start: Pose2D, who: str) -> float:
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

    def __init__(self, link: CarlaConnection, cast: SpawnedActors, seed: int) -> None:
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
        entries = [SpawnRequest(n, cars[(n - 1) % len(cars)], points[order[n - 1]]) for n in self._numbers]
        self._cast.spawn(entries)
        self._cast.command(dict.fromkeys(self._numbers, STANDING))

    def begin(self, frame: CarlaFrame) -> None:
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

    def act(self, frame: CarlaFrame, time_s: float) -> None:
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


LAST_WAYPOINT: Final = "every actor reached its last waypoint"
TIME_OVER: Final = "simulated time is over"
# How often stragglers among the sensors' messages are waited for, at most.
_WAITS: Final = 20


def perform(
    carla: Any,  # noqa: ANN401
    settings: CarlaSettings,
    script: Script | None,
    seed: int,
    last_tick: int | None,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Play a script, or traffic where there is none, and leave the server as it was found, whatever happens."""
    link = CarlaConnection(carla, settings)
    with ExitStack() as stack:
        stack.callback(link.close)
        link.load(TRAFFIC_MAP if script is None else script.map)
        with link.asking("before the run"):
            clock = clock_of(link)
            stack.callback(clock.close)
            late = _lead(link, clock)
            cast = SpawnedActors(link)
            stack.callback(cast.close)
            show = TrafficShow(link, cast, seed) if script is None else ScriptedShow(link, cast, script)
            stack.callback(show.close)
            show.enter()
            start = _settled(link, clock, cast)
            show.begin(start)
        Run(link, cast, show, recorder, on_tick).play(clock, start, last_tick, late)


def _lead(link: CarlaConnection, clock: ServerClock) -> str:
    """Bring the episode to the same time in every repeat: loading it makes the client tick as often as it takes.

    Returns a note where the episode was beyond that time already.
    """
    settings = link.settings
    now_s = link.world.get_snapshot().timestamp.elapsed_seconds
    late = ""
    if settings.reload == "world":
        lead_s = settings.lead_s - settings.control_s / 2
        if settings.synchronous and now_s > settings.lead_s + settings.control_s / 2:
            late = "the world was older than lead_s when it was loaded; repeats may begin at different ages: raise lead_s"
        while now_s < lead_s:
            now_s = clock.advance()[-1].timestamp.elapsed_seconds
    link.world.reset_all_traffic_lights()
    return late


def _settled(link: CarlaConnection, clock: ServerClock, cast: SpawnedActors) -> CarlaFrame:
    """Let everybody drop onto their wheels and feet; at least one step, before which nobody has a state."""
    settings = link.settings
    snapshot = clock.advance()[-1]
    begun_s = snapshot.timestamp.elapsed_seconds
    while snapshot.timestamp.elapsed_seconds - begun_s < settings.settle_s - settings.control_s / 2:
        snapshot = clock.advance()[-1]
    return cast.frame(snapshot, controls=settings.synchronous)


class Run:
    """The recorded part of a performance."""

    def __init__(
        self, link: CarlaConnection, cast: SpawnedActors, show: Show, recorder: Recorder, on_tick: Callable[[int], None]
    ) -> None:
        self._link, self._cast, self._show = link, cast, show
        self._recorder, self._on_tick = recorder, on_tick
        self._gone: dict[int, int] = {}
        self._types = cast.types

    def play(self, clock: ServerClock, start: CarlaFrame, last_tick: int | None, late: str) -> None:
        """Play until the end; ``start`` is tick 0."""
        settings, show = self._link.settings, self._show
        for number, name in self._types.items():
            self._recorder.actor(number, name)
        ticks = ticks_from(start, settings)
        over = round(show.duration_s / TICK_S)
        frame, tick, ended, missed = start, 0, "", 0
        while not ended:
            with self._link.asking(f"after tick {tick}"):
                show.act(frame, ticks.time_s(frame))
                snapshots = clock.advance()
                for snapshot in snapshots:
                    missed += snapshot.frame - frame.number - 1
                    frame = self._cast.frame(snapshot, controls=settings.synchronous)
                    for tick, states in ticks.take(frame):
                        self._record(tick, states)
                        ended = self._ended(tick, states, last_tick, over)
                        if ended:
                            break
                    if ended:
                        break
        self._wait_for_sensors()
        notes = [*([late] if late else []), *show.notes]
        if ticks.note:
            notes.append(ticks.note)
        if missed:
            notes.append(f"{missed} frames of the server never arrived")
        self._record_events(ticks.of_report, tick, notes)
        self._recorder.end(tick, ended)

    def _ended(self, tick: int, states: States, last_tick: int | None, over: int) -> str:
        if last_tick is not None and tick >= last_tick:
            return DURATION
        if self._show.ends_early and self._show.is_over(states):
            return LAST_WAYPOINT
        return TIME_OVER if tick >= over else ""

    def _record(self, tick: int, states: States) -> None:
        for number in self._types:
            if number not in states:
                self._gone.setdefault(number, tick)
        if self._recorder.wants(tick):
            for number, values in states.items():
                if number not in self._gone:
                    self._recorder.state(tick, number, values)
        self._on_tick(tick)

    def _wait_for_sensors(self) -> None:
        """A sensor's last message may still be on its way: wait until none has come for a while."""
        for _ in range(_WAITS):
            count = len(self._cast.reports)
            SYSTEM_CLOCK.sleep_s(self._link.settings.sensor_wait_s)
            if len(self._cast.reports) == count:
                return

    def _record_events(self, tick_of: Callable[..., int], last_tick: int, notes: list[str]) -> None:
        for one in first_contacts(self._cast.reports, tick_of, last_tick):
            self._recorder.event(one.tick, "collision", one.actor, one.other, one.impulse_ns, one.detail)
        for number, tick in sorted(self._gone.items()):
            self._recorder.event(tick, "destroy", number)
        for note in notes:
            self._recorder.event(0, "note", detail=note)
