"""One run from its first frame to its last: the server is set up, everybody spawned, played, recorded and taken away again.

What holds here, and what would break otherwise:

- *A repeat begins where the last one began.* The world is loaded anew, brought to the same age (loading ticks it as often as
  the client happens to need), the lights are reset, and everybody drops onto wheels and feet before tick 0.
- *Nothing is decided by when a message arrives.* In synchronous time frames must follow each other without a gap, commands go
  out before the tick they are for, and who was hit is removed a fixed simulated time later, however soon the sensor told of
  it. Collisions are recorded at the end, in an order of their own: sensors report late, in any order and from both sides.
- *The server is left as it was found*, whatever happens: what is set up is put on a stack of things to undo, last first.

Sensors of a rig are spawned with the client, and what they send becomes digests of the trace's ticks. A sensor's message comes
when it comes, in a thread of the client's, and may be of any frame. In synchronous time a tick waits until every sensor has
sent that of its frame: then nothing depends on when a message arrived. On the server's own clock nobody waits, and a tick has
what was there; a frame that is missing is missing in the trace.

Whether pictures repeat themselves is what a study finds out: on our own server they do, to the bit. The server's age, by which
a LiDAR turns, is the same in every repeat: the world is loaded anew and led to one time before anybody is spawned.
"""

import queue
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import Command
from samepath.core.streams import stream
from samepath.core.trig import sincos_deg
from samepath.engines.carla.engine import (
    CarlaActor,
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

CarlaData = Any
# Frames that wait for their tick, of one sensor: seconds of them, far more than a client is ever behind.
_KEPT_MOST: Final = 256
# What says something when something happens, and nothing at most frames: no digest could be waited for.
_SILENT: Final = ("sensor.other.obstacle", "sensor.other.collision", "sensor.other.lane_invasion")
_NUMBERS: Final[dict[str, Callable[[CarlaData], list[float]]]] = {
    "sensor.other.gnss": lambda data: [data.latitude, data.longitude, data.altitude],
    "sensor.other.imu": lambda data: [
        *(data.accelerometer.x, data.accelerometer.y, data.accelerometer.z),
        *(data.gyroscope.x, data.gyroscope.y, data.gyroscope.z),
        data.compass,
    ],
}
# The rows of what comes as raw bytes and is no picture: type of the numbers, and how many there are in a row.
_ROWS: Final = {
    "sensor.lidar.ray_cast": ("<f4", 4),
    "sensor.lidar.ray_cast_semantic": ("<u4", 6),
    "sensor.other.radar": ("<f4", 4),
}


class CarlaSensing:
    """The sensors of a rig on one actor: :meth:`record` what they saw at a tick, :meth:`close` them."""

    def __init__(self, connection: CarlaConnection, actors: SpawnedActors, rig: str, recorder: Recorder, samples: int) -> None:
        from samepath.simulator.sensors.rig import load_rig
        from samepath.simulator.sensors.sensor import require_sensors

        require_sensors()
        self._connection, self._recorder = connection, recorder
        self._samples_every = samples * recorder.log_every
        self._rig = load_rig(rig)
        self._heard: dict[str, queue.SimpleQueue[tuple[int, NDArray[Any]]]] = {}
        self._waiting: dict[str, deque[tuple[int, NDArray[Any]]]] = {}
        self._sensors: list[CarlaActor] = []
        for sensor in self._rig.sensors:
            if sensor.type in _SILENT or sensor.attributes.get("sensor_tick", 0):
                raise InputError(f"rig {self._rig.name}: sensor {sensor.name!r}: one that measures at every frame was wanted")
        parent = self._parent(actors)
        for sensor in self._rig.sensors:
            self._spawn(actors, sensor, parent)

    def _parent(self, actors: SpawnedActors) -> CarlaActor:
        types = actors.types
        wanted = self._rig.actor or next((number for number, name in types.items() if name.startswith("vehicle.")), None)
        if wanted not in types:
            raise InputError(f"rig {self._rig.name}: actor: a vehicle or one of {sorted(types)} was wanted, but {wanted} came")
        return actors.actor(wanted)

    def _spawn(self, actors: SpawnedActors, sensor: Any, parent: CarlaActor) -> None:  # noqa: ANN401 - a MountedSensor
        carla, blueprint = self._connection.carla, actors.blueprint(sensor.type)
        for name, value in sensor.attributes.items():
            if not blueprint.has_attribute(name):
                raise InputError(f"rig {self._rig.name}: sensor {sensor.name!r}: the server's {sensor.type} has no {name!r}")
            blueprint.set_attribute(name, str(value))
        place = carla.Transform(
            carla.Location(*sensor.at), carla.Rotation(pitch=sensor.pitch, yaw=sensor.yaw, roll=sensor.roll)
        )
        made = self._connection.world.spawn_actor(blueprint, place, attach_to=parent)
        self._sensors.append(made)
        heard: queue.SimpleQueue[tuple[int, NDArray[Any]]] = queue.SimpleQueue()
        self._heard[sensor.name], self._waiting[sensor.name] = heard, deque(maxlen=_KEPT_MOST)
        # Copied in the client's thread: the memory of a message is the client's, and gone when the listener returns.
        made.listen(lambda data, kind=sensor.type: heard.put((data.frame, content_of(kind, data))))

    def record(self, tick: int, frame: int) -> None:
        """Record what every sensor saw at a frame of the server, which is this tick of the trace."""
        if not self._recorder.wants(tick):
            return
        keep = self._samples_every > 0 and tick % self._samples_every == 0
        for sensor in self._rig.sensors:
            seen = self._of_frame(sensor.name, frame)
            if seen is not None:
                self._recorder.sensor(tick, sensor.name, sensor.type, seen, keep=keep)

    def _of_frame(self, name: str, frame: int) -> NDArray[Any] | None:
        """Return what a sensor saw at a frame, waiting for it where the server waits for us; None: nothing came."""
        settings, waiting, heard = self._connection.settings, self._waiting[name], self._heard[name]
        until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
        while True:
            while waiting and waiting[0][0] < frame:
                waiting.popleft()
            if waiting:
                return waiting.popleft()[1] if waiting[0][0] == frame else None
            try:
                waiting.append(heard.get(block=settings.synchronous, timeout=max(0.0, until_s - SYSTEM_CLOCK.monotonic_s())))
            except queue.Empty:
                if not settings.synchronous:
                    return None
                raise SimulatorError(
                    f"sensor {name!r} sent nothing of frame {frame} within {settings.timeout_s:g} s: timeout_s sets the limit"
                ) from None

    def close(self) -> None:
        """Let the sensors fall silent and go, even where the server is gone."""
        for sensor in self._sensors:
            with suppress(RuntimeError):
                sensor.stop()
                sensor.destroy()
        self._sensors.clear()


def content_of(kind: str, data: CarlaData) -> NDArray[Any]:
    """A message of CARLA's client as a plain array of its own: every bit that the sensor sent."""
    if kind in _NUMBERS:
        return np.array(_NUMBERS[kind](data), np.float64)
    raw = np.frombuffer(bytes(data.raw_data), np.uint8)
    if kind in _ROWS:
        numbers, many = _ROWS[kind]
        return raw.view(numbers).reshape(-1, many)
    if kind == "sensor.camera.optical_flow":
        return raw.view("<f4").reshape(data.height, data.width, 2)
    if kind == "sensor.camera.dvs":
        return raw
    return raw.reshape(data.height, data.width, -1)


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
LAST_WAYPOINT: Final = "every actor reached its last waypoint"
TIME_OVER: Final = "simulated time is over"
# How often stragglers among the sensors' messages are waited for, at most.
_WAITS: Final = 20


def run_on_server(
    carla: Any,  # noqa: ANN401
    settings: CarlaSettings,
    script: Script | None,
    seed: int,
    last_tick: int | None,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Play a script, or traffic where there is none, and leave the server as it was found, whatever happens."""
    connection = CarlaConnection(carla, settings)
    with ExitStack() as stack:
        stack.callback(connection.close)
        connection.load(TRAFFIC_MAP if script is None else script.map)
        with connection.asking("before the run"):
            clock = clock_of(connection)
            stack.callback(clock.close)
            late = _lead(connection, clock)
            actors = SpawnedActors(connection)
            stack.callback(actors.close)
            scenario = (
                TrafficScenario(connection, actors, seed) if script is None else ScriptedScenario(connection, actors, script)
            )
            stack.callback(scenario.close)
            scenario.enter()
            sensing = None
            if settings.sensors:
                # While everybody drops onto wheels, so that the first frame of the run has them all.
                sensing = CarlaSensing(connection, actors, settings.sensors, recorder, settings.sensor_samples)
                stack.callback(sensing.close)
            start = _settled(connection, clock, actors)
            scenario.begin(start)
        CarlaRun(connection, actors, scenario, recorder, on_tick, sensing).play(clock, start, last_tick, late)


def _lead(connection: CarlaConnection, clock: "ServerClock") -> str:
    """Bring the episode to the same time in every repeat: loading it makes the client tick as often as it takes.

    Returns a note where the episode was beyond that time already.
    """
    settings = connection.settings
    now_s = connection.world.get_snapshot().timestamp.elapsed_seconds
    late = ""
    if settings.reload == "world":
        lead_s = settings.lead_s - settings.control_s / 2
        if settings.synchronous and now_s > settings.lead_s + settings.control_s / 2:
            late = "the world was older than lead_s when it was loaded; repeats may begin at different ages: raise lead_s"
        while now_s < lead_s:
            now_s = clock.advance()[-1].timestamp.elapsed_seconds
    connection.world.reset_all_traffic_lights()
    return late


def _settled(connection: CarlaConnection, clock: "ServerClock", actors: SpawnedActors) -> CarlaFrame:
    """Let everybody drop onto their wheels and feet; at least one step, before which nobody has a state."""
    settings = connection.settings
    snapshot = clock.advance()[-1]
    begun_s = snapshot.timestamp.elapsed_seconds
    while snapshot.timestamp.elapsed_seconds - begun_s < settings.settle_s - settings.control_s / 2:
        snapshot = clock.advance()[-1]
    return actors.frame(snapshot, controls=settings.synchronous)


class CarlaRun:
    """The recorded part of a run: from tick 0 to its end."""

    def __init__(
        self,
        connection: CarlaConnection,
        actors: SpawnedActors,
        scenario: "CarlaScenario",
        recorder: Recorder,
        on_tick: Callable[[int], None],
        sensing: CarlaSensing | None = None,
    ) -> None:
        self._connection, self._actors, self._scenario = connection, actors, scenario
        self._recorder, self._on_tick, self._sensing = recorder, on_tick, sensing
        self._gone: dict[int, int] = {}
        self._types = actors.types

    def play(self, clock: "ServerClock", start: CarlaFrame, last_tick: int | None, late: str) -> None:
        """Play until the end; ``start`` is tick 0."""
        settings, scenario = self._connection.settings, self._scenario
        for number, name in self._types.items():
            self._recorder.actor(number, name)
        ticks = ticks_from(start, settings)
        over = round(scenario.duration_s / TICK_S)
        frame, tick, ended, missed = start, 0, "", 0
        while not ended:
            with self._connection.asking(f"after tick {tick}"):
                scenario.act(frame, ticks.time_s(frame))
                snapshots = clock.advance()
                for snapshot in snapshots:
                    missed += snapshot.frame - frame.number - 1
                    frame = self._actors.frame(snapshot, controls=settings.synchronous)
                    for tick, states in ticks.take(frame):
                        if self._sensing is not None:
                            self._sensing.record(tick, frame.number)
                        self._record(tick, states)
                        ended = self._ended(tick, states, last_tick, over)
                        if ended:
                            break
                    if ended:
                        break
        self._wait_for_sensors()
        notes = [*([late] if late else []), *scenario.notes]
        if ticks.note:
            notes.append(ticks.note)
        if missed:
            notes.append(f"{missed} frames of the server never arrived")
        self._record_events(ticks.of_report, tick, notes)
        if settings.synchronous and settings.is_fixed and settings.frames_per_tick == 1:
            self._recorder.in_step()
        self._recorder.end(tick, ended)

    def _ended(self, tick: int, states: States, last_tick: int | None, over: int) -> str:
        if last_tick is not None and tick >= last_tick:
            return DURATION
        if self._scenario.ends_early and self._scenario.is_over(states):
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
            count = len(self._actors.reports)
            SYSTEM_CLOCK.sleep_s(self._connection.settings.sensor_wait_s)
            if len(self._actors.reports) == count:
                return

    def _record_events(self, tick_of: Callable[..., int], last_tick: int, notes: list[str]) -> None:
        for contact in first_contacts(self._actors.reports, tick_of, last_tick):
            self._recorder.event(contact.tick, "collision", contact.actor, contact.other, contact.impulse_ns, contact.detail)
        for number, tick in sorted(self._gone.items()):
            self._recorder.event(tick, "destroy", number)
        for note in notes:
            self._recorder.event(0, "note", detail=note)


class ServerClock(Protocol):
    """Hands out the server's snapshots, oldest first."""

    def advance(self) -> list[Any]:
        """Wait for at least one more frame and return all that are there."""
        ...

    def close(self) -> None:
        """Let go of the server."""
        ...


class SynchronousClock:
    """The server waits for us. Frames must follow each other: if they do not, somebody else ticks the same server."""

    def __init__(self, connection: CarlaConnection) -> None:
        self._connection = connection
        # The client may not have seen yet what it ticked itself while it loaded the world.
        self._frame: int | None = None

    def advance(self) -> list[Any]:
        """Let the server make one step."""
        world = self._connection.world
        world.tick(self._connection.settings.timeout_s)
        snapshot = world.get_snapshot()
        if self._frame is not None and snapshot.frame != self._frame + 1:
            raise SimulatorError(
                f"frame {snapshot.frame} came after {self._frame}: another client ticks the server at "
                f"{self._connection.settings.address}; a study needs it alone"
            )
        self._frame = snapshot.frame
        return [snapshot]

    def close(self) -> None:
        """Nothing is held."""


class AsynchronousClock:
    """The server runs on; frames that arrive while we are busy wait here."""

    def __init__(self, connection: CarlaConnection) -> None:
        self._connection = connection
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._callback = connection.world.on_tick(self._frames.put)

    def advance(self) -> list[Any]:
        """Return what has come since the last time, waiting for the first."""
        settings = self._connection.settings
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
            self._connection.world.remove_on_tick(self._callback)


def clock_of(connection: CarlaConnection) -> ServerClock:
    """Return the clock that the settings ask for."""
    return SynchronousClock(connection) if connection.settings.synchronous else AsynchronousClock(connection)


class CarlaScenario(Protocol):
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


class ScriptedScenario:
    """A scenario whose vehicles and pedestrians are driven from here."""

    def __init__(self, connection: CarlaConnection, actors: SpawnedActors, script: Script) -> None:
        self._connection, self._actors = connection, actors
        settings = connection.settings
        anchor = read_anchor(settings.anchor)
        place = _spawn_point(connection.world, anchor) if isinstance(anchor, int) else anchor
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
        self._actors.spawn([SpawnRequest(role.number, role.type, self._transform(role)) for role in self._script.roles])
        at_rest: dict[str, Command] = {"vehicle": STANDING, "walker": WAITING}
        self._actors.command({role.number: at_rest[role.kind] for role in self._script.roles if role.kind in at_rest})

    def _transform(self, role: Role) -> Any:  # noqa: ANN401
        carla, start = self._connection.carla, role.start
        z_m = _ground_m(self._connection, start, f"scenario {self._script.name}: actor {role.number}") + _LIFT_M[role.kind]
        return carla.Transform(carla.Location(start.x_m, start.y_m, z_m), carla.Rotation(yaw=start.yaw_deg))

    def begin(self, frame: CarlaFrame) -> None:
        """Put somebody behind every wheel."""
        self._start_frame = frame.number
        for role in self._script.roles:
            if role.number not in frame.states:
                raise SimulatorError(f"scenario {self._script.name}: actor {role.number} was gone before the run began")
        minds = {
            role.number: controller_of(role, self._chassis, self._connection.settings.control_s) for role in self._script.roles
        }
        self._minds = {number: mind for number, mind in minds.items() if mind is not None}
        for role in self._script.roles:
            if role.start_mps:
                sine, cosine = sincos_deg(role.start.yaw_deg)
                velocity = self._connection.carla.Vector3D(role.start_mps * cosine, role.start_mps * sine, 0.0)
                self._actors.actor(role.number).set_target_velocity(velocity)

    def _chassis(self, role: Role) -> Chassis:
        found = chassis_of(self._actors.actor(role.number))
        if found is None:
            usual = Steering()
            found = Chassis(usual.wheel_base_m, usual.wheel_base_m / 2, usual.max_steer_deg)
            self.notes.append(f"actor {role.number}: the server tells of no plausible wheels; steering assumes {found}")
        return found

    def act(self, frame: CarlaFrame, time_s: float) -> None:
        """Remove who was hit, ask everybody else."""
        for number in self._removals.due(self._actors.reports, self._start_frame, frame.number):
            if number in frame.states:
                self._actors.remove(number)
                self._minds.pop(number, None)
        here = {number: mind for number, mind in self._minds.items() if number in frame.states}
        self._actors.command({number: mind.decide(_seen(frame.states[number]), time_s) for number, mind in here.items()})

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


def _ground_m(connection: CarlaConnection, start: Pose2D, who: str) -> float:
    """Return the height of the ground: what a ray from just above the nearest lane meets, or that lane itself."""
    carla, world_map = connection.carla, connection.world.get_map()
    near = world_map.get_waypoint(carla.Location(start.x_m, start.y_m, 0.0), True, carla.LaneType.Any)
    lane = near.transform.location if near is not None else carla.Location()
    if near is None or lane.distance_2d(carla.Location(start.x_m, start.y_m, 0.0)) > _OFF_MAP_M:
        raise SimulatorError(
            f"{who} would start at ({start.x_m:.1f}, {start.y_m:.1f}), off the map {world_map.name}: "
            "give anchor, such as spawn:0, or the map the scenario is for"
        )
    hit = connection.world.ground_projection(carla.Location(start.x_m, start.y_m, lane.z + _ABOVE_M), _BELOW_M)
    return float(lane.z if hit is None else hit.location.z)


class TrafficScenario:
    """Vehicles from recommended spawn points under the traffic manager; works on any map."""

    def __init__(self, connection: CarlaConnection, actors: SpawnedActors, seed: int) -> None:
        self._connection, self._actors, self._seed = connection, actors, seed
        self.duration_s, self.ends_early = AUTOPILOT_S, False
        self.notes: list[str] = []
        self._manager: Any = None
        self._numbers = range(1, connection.settings.vehicles + 1)

    def enter(self) -> None:
        """Spawn cars of all types in turn, at spawn points drawn from the study's seed."""
        world, count = self._connection.world, len(self._numbers)
        points = world.get_map().get_spawn_points()
        if len(points) < count:
            raise SimulatorError(
                f"vehicles: {count} were wanted, but the map {world.get_map().name} has {len(points)} spawn points"
            )
        order = stream(self._seed, "carla", "spawn points").permutation(len(points)).tolist()
        cars = sorted(blueprint.id for blueprint in world.get_blueprint_library().filter("vehicle.*") if _is_car(blueprint))
        entries = [SpawnRequest(n, cars[(n - 1) % len(cars)], points[order[n - 1]]) for n in self._numbers]
        self._actors.spawn(entries)
        self._actors.command(dict.fromkeys(self._numbers, STANDING))

    def begin(self, frame: CarlaFrame) -> None:
        """Hand everybody to a traffic manager made for this run."""
        settings, client = self._connection.settings, self._connection.client
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
                self._actors.actor(number).set_autopilot(True, port)
            return
        commands = [self._connection.carla.command.SetAutopilot(self._actors.actor(n).id, True, port) for n in self._numbers]
        client.apply_batch_sync(commands, False)

    def act(self, frame: CarlaFrame, time_s: float) -> None:
        """The traffic manager does."""

    def is_over(self, present: Iterable[int]) -> bool:
        """Traffic never ends."""
        return False

    def close(self) -> None:
        """End the traffic manager: the next run makes its own."""
        if self._manager is not None:
            self._connection.tidy([self._manager.shut_down])
        self._manager = None


def _is_car(blueprint: Any) -> bool:  # noqa: ANN401
    if blueprint.has_attribute("base_type") and blueprint.get_attribute("base_type").as_str() != "car":
        return False
    return int(blueprint.get_attribute("number_of_wheels")) == 4


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
