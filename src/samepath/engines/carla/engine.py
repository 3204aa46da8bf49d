"""Driving a CARLA server: the connection, its actors, collisions as sensors report them, and frames turned into ticks.

The server is found, checked for its version, set, loaded, and left as it was found. Actors are spawned by number, each with a
collision sensor, read from snapshots, commanded, taken away. Sensors report late, in any order and from both sides: what is
recorded depends on none of that. ``run.py`` plays a run with all of this.

From frames to ticks: with a fixed step every so many frames are a tick, and its numbers are the client's own. With a variable
step a state at a tick lies between the two frames around it.
"""

import math
import re
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

from samepath.core.catalogue import ALIASES
from samepath.core.errors import InputError, SimulatorError, UnknownNameError, nearest, unknown
from samepath.core.states import Command, WalkerCommand
from samepath.core.trig import sincos_deg
from samepath.engines.carla.simulator import CURRENT_MAP, OPENDRIVE_MAP, SCENARIO_MAP, TICK_S, CarlaSettings
from samepath.engines.resampling import EngineFrame, Resampler
from samepath.scenarios import scripts
from samepath.scenarios.scripts import Chassis, Pose2D, Script

# The client has no types to speak of: its objects, by what CARLA calls them.
CarlaWorld = Any
CarlaActor = Any
CarlaActorSnapshot = Any
CarlaWorldSnapshot = Any
CarlaBlueprint = Any
CarlaTransform = Any
CarlaControl = Any
CarlaEvent = Any
CarlaWheel = Any

# How long a server may take for each of the last calls, when what is to be measured is over.
_LAST_CALLS_S: Final = 5.0
_FIND_S: Final = 5.0
# The newest Python for which CARLA's client has a wheel; ``pyproject.toml`` says the same of the extra.
NEWEST_PYTHON: Final = (3, 12)


def how_to_install(version: tuple[int, ...] = sys.version_info[:2]) -> str:
    """Say how to get the client. On a Python it has no wheel for the extra installs nothing, which would leave one guessing."""
    if version > NEWEST_PYTHON:
        newest, ours = (".".join(map(str, numbers)) for numbers in (NEWEST_PYTHON, version))
        return f"it has no wheel for Python {ours}; use Python {newest} or 3.11, and there pip install 'samepath[carla]'"
    return "pip install 'samepath[carla]'"


def import_client() -> ModuleType:
    """Import CARLA's client; only here, because it is an extra, and because it must not be there when a process forks."""
    try:
        client = import_module("carla")
    except ImportError as error:
        raise SimulatorError(f"CARLA's Python client is not there ({error}): {how_to_install()}") from error
    return client


def find_client() -> None:
    """Is the client installed? It is not imported, see above."""
    if sys.modules.get("carla", ...) is None or find_spec("carla") is None:
        raise SimulatorError(f"CARLA's Python client is not installed: {how_to_install()}")


def find_server(settings: CarlaSettings) -> None:
    """Does anybody answer? Nobody there is known at once; the client itself would wait for its whole time-out."""
    try:
        socket.create_connection((settings.host, settings.port), timeout=min(settings.timeout_s, _FIND_S)).close()
    except OSError as error:
        raise SimulatorError(
            f"no CARLA server answers at {settings.address} ({error.strerror or error}): "
            "start one, or give host and port in the settings"
        ) from error


class CarlaConnection:
    """A client and what it found. Whatever CARLA raises in here comes out as one line of ours."""

    def __init__(self, carla: ModuleType, settings: CarlaSettings) -> None:
        self.carla = carla
        self.settings = settings
        self.world: CarlaWorld = None
        self._found: Any = None
        self._is_lost = False
        with self.asking("at the start"):
            find_server(settings)
            self.client = carla.Client(settings.host, settings.port)
            self.client.set_timeout(settings.timeout_s)
            self._check_version()

    @contextmanager
    def asking(self, when: str) -> Iterator[None]:
        """Turn the client's errors into ours; ``when`` says what was going on."""
        try:
            yield
        except RuntimeError as error:
            raise self._told(when, error) from error

    def _told(self, when: str, error: RuntimeError) -> SimulatorError:
        words = " ".join(str(error).split())
        if "time-out" in words:
            self._is_lost = True
            return SimulatorError(
                f"the CARLA server at {self.settings.address} gave no answer {when} within {self.settings.timeout_s:g} s: "
                "is it still running? timeout_s sets the limit"
            )
        return SimulatorError(f"the CARLA server at {self.settings.address} failed {when}: {words}")

    def _check_version(self) -> None:
        ours, theirs = self.client.get_client_version(), self.client.get_server_version()
        if ours != theirs and not self.settings.any_version:
            raise SimulatorError(
                f"the client is of CARLA {ours}, the server at {self.settings.address} of {theirs}; such a pair can crash: "
                f"install carla=={theirs}, or give any_version: true"
            )

    def load(self, scenario_map: str) -> CarlaWorld:
        """Set the time, then load the world, as CARLA asks for."""
        with self.asking("while the world was loaded"):
            self.world = self.client.get_world()
            self._found = self.world.get_settings()
            self._set_time()
            self.world = self._loaded(scenario_map)
            self._check_time()
        return self.world

    def _set_time(self) -> None:
        wanted, new = self.settings, self.world.get_settings()
        new.synchronous_mode = wanted.synchronous
        new.fixed_delta_seconds = wanted.fixed_delta_s or None
        new.no_rendering_mode = wanted.no_rendering
        new.substepping = wanted.substeps > 0
        if wanted.substeps:
            new.max_substeps = wanted.substeps
            new.max_substep_delta_time = wanted.max_substep_s
        new.deterministic_ragdolls = wanted.deterministic_ragdolls
        self.world.apply_settings(new)

    def _check_time(self) -> None:
        """What was asked for is read back: a server may do something else."""
        wanted, there = self.settings, self.world.get_settings()
        pairs = [
            ("synchronous", wanted.synchronous, there.synchronous_mode),
            ("fixed_delta_s", wanted.fixed_delta_s, there.fixed_delta_seconds or 0.0),
            ("no_rendering", wanted.no_rendering, there.no_rendering_mode),
            ("substeps", wanted.substeps, there.max_substeps if there.substepping else 0),
        ]
        for name, asked, found in pairs:
            if abs(asked - found) > 1e-9:
                raise SimulatorError(f"the CARLA server at {wanted.address} was asked for {name} {asked}, but has {found}")

    def _loaded(self, scenario_map: str) -> CarlaWorld:
        wanted = self.settings.map
        if wanted == CURRENT_MAP:
            return self.client.reload_world(False) if self._reloads else self.world
        if wanted == OPENDRIVE_MAP:
            return self._generated(scenario_map)
        names = [path.rsplit("/", 1)[-1] for path in self.client.get_available_maps()]
        if wanted == SCENARIO_MAP:
            if scenario_map not in names:
                return self._generated(scenario_map)
            wanted = scenario_map
        if wanted not in names:
            raise unknown("map of the server", wanted, names)
        if not self._reloads and self.world.get_map().name.rsplit("/", 1)[-1] == wanted:
            return self.world
        return self.client.load_world(wanted, False)

    @property
    def _reloads(self) -> bool:
        return self.settings.reload == "world"

    def _generated(self, name: str) -> CarlaWorld:
        """Let the server build its world from one of our road networks."""
        from samepath.simulator.maps import load_map

        try:
            text = load_map(name).xodr
        except UnknownNameError as error:
            raise SimulatorError(
                f"the scenario's map {name!r} is none that a CARLA server can build: give map: current, or a map of the server"
            ) from error
        if not self._reloads and self.world.get_map().to_opendrive() == text:
            return self.world
        return self.client.generate_opendrive_world(text, self.carla.OpendriveGenerationParameters(), False)

    def tidy(self, calls: Iterable[Callable[[], object]]) -> None:
        """Make the last calls, up to the first that fails: a server that is gone is not asked again and again."""
        if self._is_lost:
            return
        try:
            self.client.set_timeout(min(self.settings.timeout_s, _LAST_CALLS_S))
            for call in calls:
                call()
        except RuntimeError:
            self._is_lost = True

    def close(self) -> None:
        """Give the server back the settings it was found with."""
        if self._found is not None:
            self.tidy([lambda: self.world.apply_settings(self._found)])
        self._found = None


class CollisionReport(NamedTuple):
    """What one sensor said: ``other`` None is scenery, or an actor that is not ours, called ``detail``."""

    frame: int
    time_s: float
    actor: int
    other: int | None
    detail: str
    impulse_ns: tuple[float, float, float]


class CarlaContact(NamedTuple):
    """Two that touched for the first time."""

    tick: int
    actor: int
    other: int | None
    detail: str
    impulse_ns: tuple[float, float, float]


def first_contacts(
    reports: Iterable[CollisionReport], tick_of: Callable[[CollisionReport], int], last_tick: int
) -> list[CarlaContact]:
    """Return when each pair first touched within ticks 1 to ``last_tick``, as the actor with the lower number felt it.

    Who touches already when the run begins is not counted until the last tick either: it is no collision of this run.
    """
    met: set[tuple[int, int | None, str]] = set()
    found = []
    for report in sorted(reports, key=_order):
        pair = _pair(report)
        if pair in met:
            continue
        met.add(pair)
        tick = tick_of(report)
        if 0 < tick <= last_tick:
            found.append(CarlaContact(tick, report.actor, report.other, report.detail, report.impulse_ns))
    return found


def _order(report: CollisionReport) -> tuple[int, int, int, str, tuple[float, float, float]]:
    return report.frame, report.actor, report.other or 0, report.detail, report.impulse_ns


def _pair(report: CollisionReport) -> tuple[int, int | None, str]:
    if report.other is None:
        return report.actor, None, report.detail
    return min(report.actor, report.other), max(report.actor, report.other), ""


class DelayedRemovals:
    """Which actors are destroyed, and when: so many frames after the first contact, however soon the sensor told of it.

    A sensor's message takes its time. Acting on it at once would make the run depend on the network; acting on it after a
    fixed simulated time does not, as long as it is there by then. With ``strict`` a message that is not is an error.
    """

    def __init__(self, numbers: Collection[int], delay_frames: int, *, strict: bool) -> None:
        self._left = set(numbers)
        self._delay = delay_frames
        self._strict = strict
        self._hit: dict[int, int] = {}
        self._read = 0

    def due(self, reports: Sequence[CollisionReport], start_frame: int, frame: int) -> list[int]:
        """Return who is to go before the step after ``frame``. ``reports`` only ever grows."""
        count = len(reports)
        for report in reports[self._read : count]:
            for number in (report.actor, report.other):
                if number in self._left and report.frame > start_frame:
                    self._hit[number] = min(report.frame, self._hit.get(number, report.frame))
                    self._check_in_time(self._hit[number], frame)
        self._read = count
        due = sorted(number for number, hit in self._hit.items() if hit + self._delay <= frame)
        for number in due:
            self._left.discard(number)
            del self._hit[number]
        return due

    def _check_in_time(self, hit: int, frame: int) -> None:
        if self._strict and hit + self._delay < frame:
            raise SimulatorError(
                f"a collision was told of {frame - hit} frames after it happened, too late to act on it after {self._delay}: "
                "raise remove_after_s"
            )


States = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class CarlaFrame:
    """Everybody after a step of the server; ``time_s`` is the episode's."""

    number: int
    time_s: float
    states: States


class Ticks(Protocol):
    """Turns frames into ticks; the frame it was made with is tick 0."""

    @property
    def note(self) -> str:
        """What was done to the numbers; empty where nothing was."""
        ...

    def take(self, frame: CarlaFrame) -> list[tuple[int, States]]:
        """Return the ticks that this frame completes."""
        ...

    def time_s(self, frame: CarlaFrame) -> float:
        """Return the time of a frame since tick 0."""
        ...

    def of_report(self, report: CollisionReport) -> int:
        """Return the first tick at or after a report."""
        ...


class FixedTicks:
    """Every ``per_tick`` frames are a tick. Frames that a client did not get leave gaps; synchronous time has none."""

    note = ""

    def __init__(self, start: CarlaFrame, settings: CarlaSettings) -> None:
        self._start = start
        self._per_tick = settings.frames_per_tick
        self._delta_s = settings.fixed_delta_s

    def take(self, frame: CarlaFrame) -> list[tuple[int, States]]:
        """Return the tick that this frame completes, if it does."""
        count = frame.number - self._start.number
        self._check_time(frame, count)
        return [] if count % self._per_tick else [(count // self._per_tick, frame.states)]

    def time_s(self, frame: CarlaFrame) -> float:
        """Count steps: differences of the episode's time would carry its rounding."""
        return (frame.number - self._start.number) * self._delta_s

    def of_report(self, report: CollisionReport) -> int:
        """Return the first tick at or after a report's frame."""
        return -(-(report.frame - self._start.number) // self._per_tick)

    def _check_time(self, frame: CarlaFrame, count: int) -> None:
        passed_s = frame.time_s - self._start.time_s
        if abs(passed_s - count * self._delta_s) > self._delta_s / 2:
            raise SimulatorError(
                f"the server's clock went {passed_s:g} s in {count} frames of {self._delta_s:g} s: "
                "is another client changing its settings?"
            )


class VariableTicks:
    """Steps end when they end: states are resampled to ticks, as in every other engine."""

    def __init__(self, start: CarlaFrame) -> None:
        self._start_s = start.time_s
        self._resampler = Resampler(TICK_S, EngineFrame(0.0, start.states))
        self._resampler.rest()  # the start itself is no tick of a trace

    @property
    def note(self) -> str:
        """Say what was done and how far off it may be."""
        return self._resampler.note

    def take(self, frame: CarlaFrame) -> list[tuple[int, States]]:
        """Return the ticks up to the frame before this one: a bound needs the frame after."""
        taken = self._resampler.take(EngineFrame(self.time_s(frame), frame.states))
        return [(tick, states) for tick, states in taken]

    def time_s(self, frame: CarlaFrame) -> float:
        """Return what has passed on the episode's clock."""
        return frame.time_s - self._start_s

    def of_report(self, report: CollisionReport) -> int:
        """Return the first tick at or after a report's time."""
        return self._resampler.tick_of(report.time_s - self._start_s)


def ticks_from(start: CarlaFrame, settings: CarlaSettings) -> Ticks:
    """Return how frames of these settings become ticks."""
    return FixedTicks(start, settings) if settings.is_fixed else VariableTicks(start)


_SENSOR: Final = "sensor.other.collision"
_OLDER: Final = {new: old for old, new in ALIASES.items()}


@dataclass(frozen=True)
class SpawnRequest:
    """Who is to be spawned: ``transform`` is CARLA's."""

    number: int
    type: str
    transform: CarlaTransform


class SpawnedActors:
    """Everybody that this run has spawned. Numbers are the order of spawning; CARLA's own ids differ from run to run."""

    def __init__(self, connection: CarlaConnection) -> None:
        self._connection = connection
        self._carla, self._client = connection.carla, connection.client
        self._library = connection.world.get_blueprint_library()
        self._actors: dict[int, CarlaActor] = {}
        self._sensors: dict[int, CarlaActor] = {}
        self._numbers: dict[int, int] = {}
        self._left: list[CarlaActor] = []
        self.reports: list[CollisionReport] = []

    @property
    def types(self) -> dict[int, str]:
        """What everybody is, in CARLA's words."""
        return {number: str(actor.type_id) for number, actor in self._actors.items()}

    def actor(self, number: int) -> CarlaActor:
        """Return CARLA's object."""
        return self._actors[number]

    def blueprint(self, name: str) -> CarlaBlueprint:
        """Return a blueprint by the name of this or an older version of CARLA."""
        for known in (name, ALIASES.get(name), _OLDER.get(name)):
            if known is not None:
                with suppress(IndexError):
                    return self._library.find(known)
        near = nearest(name, [blueprint.id for blueprint in self._library])
        hint = f"; the nearest is {near}" if near else ""
        raise SimulatorError(f"the CARLA server at {self._connection.settings.address} has no {name}{hint}")

    def spawn(self, entries: Sequence[SpawnRequest]) -> None:
        """Spawn everybody in order, then a collision sensor on everybody that can move."""
        blueprints = [self._made(entry) for entry in entries]
        places = [(blueprint, entry.transform, 0) for blueprint, entry in zip(blueprints, entries, strict=True)]
        for entry, actor in zip(entries, self._spawned(places, [entry.type for entry in entries]), strict=True):
            self._actors[entry.number] = actor
            self._numbers[actor.id] = entry.number
        movers = [number for number, actor in self._actors.items() if actor.type_id.startswith(("vehicle.", "walker."))]
        sensor, middle = self.blueprint(_SENSOR), self._carla.Transform()
        on_everybody = [(sensor, middle, self._actors[number].id) for number in movers]
        for number, attached in zip(movers, self._spawned(on_everybody, [_SENSOR] * len(movers)), strict=True):
            self._sensors[number] = attached
            attached.listen(self._listener(number))

    def _made(self, entry: SpawnRequest) -> CarlaBlueprint:
        blueprint = self.blueprint(entry.type)
        if blueprint.has_attribute("is_invincible"):
            blueprint.set_attribute("is_invincible", "false")
        return blueprint

    def _spawned(self, places: Sequence[tuple[CarlaBlueprint, CarlaTransform, int]], names: Sequence[str]) -> list[CarlaActor]:
        """Spawn in one batch, or one by one; the third of a place is the actor to be attached to, or 0."""
        first = len(self._left)
        world = self._connection.world
        if not self._connection.settings.batch:
            for (blueprint, transform, parent), name in zip(places, names, strict=True):
                attach = {"attach_to": world.get_actor(parent)} if parent else {}
                try:
                    self._left.append(world.spawn_actor(blueprint, transform, **attach))
                except RuntimeError as error:
                    raise self._refused(name, transform, str(error)) from error
            return self._left[first:]
        command = self._carla.command.SpawnActor
        batch = [command(*place) if place[2] else command(*place[:2]) for place in places]
        answers = self._client.apply_batch_sync(batch, False)
        self._left += [world.get_actor(answer.actor_id) for answer in answers if not answer.error]
        for answer, name, place in zip(answers, names, places, strict=True):
            if answer.error:
                raise self._refused(name, place[1], answer.error)
        return self._left[first:]

    def _refused(self, name: str, transform: CarlaTransform, words: str) -> SimulatorError:
        place = transform.location
        return SimulatorError(
            f"{name} could not be spawned at ({place.x:.1f}, {place.y:.1f}, {place.z:.1f}): {' '.join(words.split())}"
        )

    def _listener(self, number: int) -> Callable[[CarlaEvent], None]:
        reports, numbers = self.reports, self._numbers

        def on_event(event: CarlaEvent) -> None:
            """Runs in a thread of the client's: takes down what was said, and nothing else."""
            other, impulse = event.other_actor, event.normal_impulse
            known = numbers.get(other.id) if other is not None else None
            detail = "" if known is not None or other is None else str(other.type_id)
            felt = (impulse.x, impulse.y, impulse.z)
            reports.append(CollisionReport(event.frame, event.timestamp, number, known, detail, felt))

        return on_event

    def frame(self, snapshot: CarlaWorldSnapshot, *, controls: bool) -> CarlaFrame:
        """Read a snapshot: exactly the client's numbers. ``controls``: also what the server says it applies now."""
        states = {}
        for number, actor in self._actors.items():
            seen = snapshot.find(actor.id)
            if seen is not None:
                states[number] = {**_motion(seen), **(_control(actor) if controls else {})}
        return CarlaFrame(snapshot.frame, snapshot.timestamp.elapsed_seconds, states)

    def command(self, commands: Mapping[int, Command]) -> None:
        """Send everybody's commands, by number."""
        pairs = [(self._actors[number], self._control(command)) for number, command in sorted(commands.items())]
        if not self._connection.settings.batch:
            for actor, control in pairs:
                actor.apply_control(control)
            return
        kinds = self._carla.command
        self._client.apply_batch_sync(
            [
                (kinds.ApplyWalkerControl if isinstance(control, self._carla.WalkerControl) else kinds.ApplyVehicleControl)(
                    actor.id, control
                )
                for actor, control in pairs
            ],
            False,
        )

    def _control(self, command: Command) -> CarlaControl:
        carla = self._carla
        if isinstance(command, WalkerCommand):
            direction = carla.Vector3D(command.direction_x, command.direction_y, 0.0)
            return carla.WalkerControl(direction, command.speed_mps, command.jump)
        return carla.VehicleControl(command.throttle, command.steer, command.brake, command.hand_brake, command.reverse)

    def remove(self, number: int) -> None:
        """Destroy an actor, sensor first."""
        sensor, actor = self._sensors.pop(number, None), self._actors[number]
        gone = {actor.id}
        if sensor is not None:
            sensor.stop()
            gone.add(sensor.id)
        self._destroy([actor for actor in self._left if actor.id in gone])
        self._left = [actor for actor in self._left if actor.id not in gone]

    def _destroy(self, actors: Sequence[CarlaActor]) -> None:
        if self._connection.settings.batch:
            self._client.apply_batch_sync([self._carla.command.DestroyActor(actor.id) for actor in actors], False)
            return
        for actor in actors:
            actor.destroy()

    def close(self) -> None:
        """Destroy everybody who is left; sensors fall silent even where the server is gone."""
        for sensor in self._sensors.values():
            with suppress(RuntimeError):
                sensor.stop()
        left = self._left[::-1]
        if left:
            self._connection.tidy([lambda: self._destroy(left)])
        self._sensors.clear()
        self._actors.clear()
        self._left.clear()


def _motion(seen: CarlaActorSnapshot) -> dict[str, float]:
    transform, velocity = seen.get_transform(), seen.get_velocity()
    turning, pushed = seen.get_angular_velocity(), seen.get_acceleration()
    place, turn = transform.location, transform.rotation
    return {
        "x_m": place.x,
        "y_m": place.y,
        "z_m": place.z,
        "roll_deg": turn.roll,
        "pitch_deg": turn.pitch,
        "yaw_deg": turn.yaw,
        "vx_mps": velocity.x,
        "vy_mps": velocity.y,
        "vz_mps": velocity.z,
        "wx_degps": turning.x,
        "wy_degps": turning.y,
        "wz_degps": turning.z,
        "ax_mps2": pushed.x,
        "ay_mps2": pushed.y,
        "az_mps2": pushed.z,
    }


def _control(actor: CarlaActor) -> dict[str, float]:
    if actor.type_id.startswith("vehicle."):
        control = actor.get_control()
        return {
            "throttle_ratio": control.throttle,
            "steer_ratio": control.steer,
            "brake_ratio": control.brake,
            "hand_brake_bool": float(control.hand_brake),
            "reverse_bool": float(control.reverse),
            "gear_index": float(control.gear),
        }
    if not actor.type_id.startswith("walker."):
        return {}
    control = actor.get_control()
    way = control.direction
    return {"walk_x_ratio": way.x, "walk_y_ratio": way.y, "walk_z_ratio": way.z, "walk_speed_mps": control.speed}


def chassis_of(actor: CarlaActor) -> Chassis | None:
    """Ask where the wheels are (in cm, in the world's frame) and how far they turn; None where the answer is no vehicle's."""
    wheels = actor.get_physics_control().wheels
    pose = actor.get_transform()
    here = pose.location
    sine, cosine = sincos_deg(pose.rotation.yaw)

    def ahead_m(wheel: CarlaWheel) -> float:
        return float((wheel.position.x / 100.0 - here.x) * cosine + (wheel.position.y / 100.0 - here.y) * sine)

    front = [ahead_m(wheel) for wheel in wheels if wheel.max_steer_angle > 0.0]
    rear = [ahead_m(wheel) for wheel in wheels if not wheel.max_steer_angle > 0.0]
    if not front or not rear:
        return None
    front_m, rear_m = sum(front) / len(front), sum(rear) / len(rear)
    most_deg = max(wheel.max_steer_angle for wheel in wheels)
    if not (0.5 <= front_m - rear_m <= 12.0 and -10.0 <= rear_m <= 0.0 and most_deg <= 90.0):
        return None
    return Chassis(front_m - rear_m, -rear_m, most_deg)


_SPAWN_POINT: Final = re.compile(r"\s*spawn\s*:\s*(\d{1,6})\s*")


def read_script(name_or_path: str) -> Script:
    """Read one of our scenarios or a file; what a server of somebody else cannot be asked for is refused."""
    script = scripts.read_script(name_or_path)
    where = f"scenario {script.name}"
    if script.boxes:
        raise InputError(f"{where}: boxes cannot be put into a CARLA world: use props, such as static.prop.streetbarrier")
    if script.end == "first-collision":
        raise InputError(f"{where}: end: last-waypoint or duration was wanted, because CARLA tells of collisions late")
    for index, role in enumerate(script.roles):
        if role.after_collision == "fall":
            raise InputError(f"{where}: actors[{index}]: after_collision: go on or remove was wanted: how to fall is CARLA's")
    return script


def read_anchor(text: str) -> int | Pose2D | None:
    """Read ``spawn:12`` (a recommended spawn point of the map), ``x,y,yaw`` in metres and degrees, or nothing."""
    if not text.strip():
        return None
    match = _SPAWN_POINT.fullmatch(text)
    if match:
        return int(match[1])
    try:
        x_m, y_m, yaw_deg = (float(part) for part in text.split(","))
    except ValueError:
        x_m = math.nan
    if not (abs(x_m) <= 1e6 and abs(y_m) <= 1e6 and abs(yaw_deg) <= 1e6):
        raise InputError(f"anchor: spawn:12 or x,y,yaw such as 10.5,-3,90 was wanted, but {text!r} came")
    return Pose2D(x_m, y_m, yaw_deg)
