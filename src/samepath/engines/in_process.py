"""Engines that run in this process: what an adapter implements, and the loops that drive it and record the trace.

An adapter is two classes. A subclass of :class:`InProcessSimulator`, in ``simulator.py``, says what the engine is: its name,
its package, the modes it offers. A subclass of :class:`InProcessWorld`, in ``engine.py``, holds a script set up in the engine:
it takes commands, makes steps, says where everybody is and who touched whom. ``engine.py`` alone imports the engine, so that
describing a simulator works where the engine is not installed. All else is here, once for all engines: settings, drivers, the
three ways in which time can pass, the end of a run, recording.

What holds in every mode: drivers are asked, then time passes, then the tick is read. In synchronous mode nothing looks at the
wall clock, so that the only thing left that can differ between repeats is the engine. In the other two modes the wall clock
decides how long frames are, as in games; that is the point of them.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import ASKED, Input, InputKind, InputLog
from samepath.core.states import Command, VehicleCommand
from samepath.engines.interface import (
    CAR_SCENARIOS,
    DURATION,
    FIRST_COLLISION,
    GAME_LOOP,
    LAST_WAYPOINT,
    NEVER,
    SYNCHRONOUS,
    TIME_OVER,
    Capabilities,
    CommandLog,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    choice,
    decisions_of,
    last_tick,
    log_of,
    no_tick,
    number,
    whole,
)
from samepath.engines.resampling import RESAMPLING, EngineFrame, Resampler
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.agents import DecisionRecorder, DecisionReplay
from samepath.scenarios.run_inputs import InputFeed, InputRecorder
from samepath.scenarios.scripts import (
    STANDING,
    ActorController,
    PlanarState,
    Script,
    controller_of,
    read_script,
    scripted_chassis,
    with_run_up,
)

# The tick of a trace, and how often drivers are asked in synchronous mode.
TICK_S: Final = 0.05
# Besides the modes of the interface: frames on the wall clock, one step as long as the frame took.
VARIABLE_STEP: Final = "variable-step"
_RANK: Final = {kind: rank for rank, kind in enumerate(InputKind)}
# What a driver's command is recorded as, after the channels of a state.
CONTROLS: Final = ("throttle_ratio", "steer_ratio", "brake_ratio")
# Everybody sinks onto their wheels, brakes on, before the run begins: fixed steps in every mode.
SETTLE_TICKS: Final = 20

Vector = tuple[float, float, float]
State = Mapping[str, float]
Floats = NDArray[np.float64]
# What an engine says of a moment, in its own terms: only its world's ``rows`` knows.
Reading = Any

SETTINGS: Final[Mapping[str, Scalar]] = {
    "mode": SYNCHRONOUS,
    "substeps": 6,
    "frame_rate_hz": 60.0,
    "time_scale": 1.0,
    "max_steps": 10,
}


@dataclass(frozen=True)
class InProcessSettings:
    """What a study may vary about any engine in this process, checked.

    A tick has ``substeps`` fixed steps, a frame has at most ``max_steps`` of them. ``time_scale`` is how many simulated seconds
    a second of the wall clock is.
    """

    mode: str
    substeps: int
    frame_rate_hz: float
    time_scale: float
    max_steps: int

    @property
    def step_s(self) -> float:
        """How long a fixed step is."""
        return TICK_S / self.substeps

    @property
    def frame_s(self) -> float:
        """How long a frame is on the wall clock if nothing delays it."""
        return 1.0 / self.frame_rate_hz

    @property
    def control_s(self) -> float:
        """How often drivers are asked, in simulated time; on the wall clock, what they may expect."""
        return TICK_S if self.mode == SYNCHRONOUS else self.frame_s * self.time_scale


def read_settings(values: Mapping[str, Scalar], modes: tuple[str, ...]) -> InProcessSettings:
    """Check a study's plain values."""
    return InProcessSettings(
        mode=choice(values, "mode", modes),
        substeps=whole(values, "substeps", 1, 1000),
        frame_rate_hz=number(values, "frame_rate_hz", 1.0, 1000.0),
        time_scale=number(values, "time_scale", 0.01, 100.0),
        max_steps=whole(values, "max_steps", 1, 10_000),
    )


class InProcessContact(NamedTuple):
    """Two that touch for the first time, and the impulse upon ``actor`` in that step; ``other`` None is scenery."""

    actor: int
    other: int | None
    impulse_ns: Vector


class InProcessWorld(ABC):
    """A script set up in an engine: what an adapter implements.

    Everything is in our frame and units (CARLA's: x forward, y right, z up, metres and degrees); the engine's own stay behind
    this class. Actors are named by their numbers in the script.
    """

    @abstractmethod
    def observe(self, number: int) -> PlanarState:
        """Return what the driver of an actor sees of it."""

    @abstractmethod
    def command(self, number: int, command: VehicleCommand) -> None:
        """Put an actor under a command, until the next one."""

    @abstractmethod
    def states(self) -> Mapping[int, State]:
        """Return where everybody is after the last step, or in ``on_step`` after this one; channels in the adapter's order."""

    def reading(self) -> Reading:
        """Copy what :meth:`rows` will need of this moment; later steps must not change it.

        A run is read once a tick, and reading takes time from it: whatever can be worked out afterwards is left for then.
        """
        return [[*state.values()] for state in self.states().values()]

    def rows(self, readings: Sequence[Reading]) -> Floats:
        """Return readings as float64[reading, vehicle, channel], to the bit what :meth:`states` said at those moments."""
        return np.array(readings, np.float64)

    @abstractmethod
    def step(self, count: int) -> None:
        """Make this many fixed steps."""

    @abstractmethod
    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the fixed steps due after a frame of this length, at most ``max_steps``; call ``on_step`` after each."""

    def step_variable(self, frame_s: float) -> None:
        """Make one step as long as a frame was; only engines that offer the mode ``variable-step`` can."""
        raise SimulatorError(f"{type(self).__name__} makes fixed steps only, but one of {frame_s:g} s was wanted")

    @abstractmethod
    def contacts(self) -> list[InProcessContact]:
        """Return who touched for the first time since this was last asked."""

    def close(self) -> None:  # noqa: B027 - most engines let go by themselves
        """Let go of the engine."""


class InProcessSimulator(Simulator):
    """An engine that is installed with pip and runs in this process.

    A subclass sets the class variables and implements :meth:`world`. ``name`` is also the name of the pip extra; ``oldest`` is
    the oldest version of ``package`` that works; ``channels`` are those of its world's states, in their order. ``defaults``
    replace those of the settings, ``clock`` replaces the machine's.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    modes: ClassVar[tuple[str, ...]]
    channels: ClassVar[tuple[str, ...]] = (*POSITION, *ROTATION, *VELOCITY)
    own_settings: ClassVar[Mapping[str, Scalar]] = {}

    def __init__(self, defaults: Mapping[str, Scalar] | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._defaults = {**SETTINGS, **self.own_settings, **(defaults or {})}
        self._clock = clock

    @abstractmethod
    def world(self, script: Script, settings: InProcessSettings, values: Mapping[str, Scalar]) -> InProcessWorld:
        """Set up a script in the engine; the engine is imported here and not before."""

    def promises_bits(self, settings: InProcessSettings, values: Mapping[str, Scalar]) -> bool:
        """Does the engine promise to repeat itself to the bit?"""
        return settings.mode == SYNCHRONOUS

    def info(self) -> SimulatorInfo:
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode: only synchronous steps promise bits, only variable ones are resampled."""
        values = {**self._defaults, **settings}
        read = read_settings(values, self.modes)
        resampled = (RESAMPLING,) if read.mode == VARIABLE_STEP else ()
        return SimulatorInfo(
            name=self.name,
            version=installed_version(self.package) or "not installed",
            summary=self.summary,
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=(*self.channels, *resampled, *CONTROLS),
            capabilities=Capabilities(
                deterministic=self.promises_bits(read, values),
                lossless=read.mode != VARIABLE_STEP,
                collisions=True,
                durations=True,
                replays=True,
                inputs=True,
            ),
            settings=self._defaults,
            time_scale=None if read.mode == SYNCHRONOUS else read.time_scale,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        return missing_package(self.package, self.oldest, self.name)

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and import the engine."""
        read_plain_script(request.scenario)
        if not self.unavailable(request.settings):
            import_module(f"{type(self).__module__.rpartition('.')[0]}.engine")

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a fresh world."""
        self._play(request, recorder, on_tick)

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Run once, in the request's own mode, keep no states, and return what the drivers said."""
        info, said = self.described(request.settings), DecisionRecorder()
        self._play(request, Recorder(request.repeat, info.channels, info.step_s, NEVER), no_tick, said)
        return log_of(said)

    def _play(
        self,
        request: RunRequest,
        recorder: Recorder,
        on_tick: Callable[[int], None],
        record_to: DecisionRecorder | None = None,
    ) -> None:
        info = self.described({name: value for name, value in request.settings.items() if name in self._defaults})
        values = check_scripted_request(info, request)
        missing = self.unavailable(values)
        if missing:
            raise SimulatorError(missing)

        settings = read_settings(values, self.modes)
        script = read_plain_script(request.scenario)
        decisions, types = decisions_of(request.commands), {role.number: role.type for role in script.roles}
        world = self.world(script, settings, values)
        try:
            InProcessRun(
                world,
                script,
                settings,
                recorder,
                on_tick,
                last_tick(info, request),
                feed=None if request.inputs is None else InputFeed(request.inputs),
                decisions=None if decisions is None else DecisionReplay(decisions, types),
                record_to=record_to,
            ).play(self._clock)
        finally:
            world.close()


def read_plain_script(scenario: str) -> Script:
    """Read a script of vehicles that go on after a collision, at our tick: others need more than these engines are given."""
    script = read_script(scenario)
    where = f"scenario {script.name}"
    if script.step_s != TICK_S:
        raise InputError(f"{where}: a step of {TICK_S} s was wanted, but {script.step_s:g} s came")
    for role in script.roles:
        if role.kind != "vehicle" or role.after_collision != "go on":
            raise InputError(
                f"{where}: only vehicles that go on after a collision were wanted, but actor {role.number} is not one"
            )
    if script.boxes:
        raise InputError(f"{where}: no boxes were wanted: this engine is given a plain")
    return with_run_up(script)


def installed_version(package: str) -> str:
    """Return a package's version, or nothing where it is not installed; it is not imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def missing_package(package: str, oldest: tuple[int, ...], extra: str) -> str:
    """Say what to install where a package is missing or older than ``oldest``; nothing where it will do."""
    how = f"pip install 'samepath[{extra}]'"
    version = installed_version(package)
    if not version:
        return f"{package} is not installed: {how}"
    match = re.match(r"\d+(\.\d+)*", version)
    numbers = tuple(map(int, match[0].split("."))) if match else ()
    if numbers < oldest:
        return f"{package} {'.'.join(map(str, oldest))} or newer was wanted, but {version} is installed: {how}"
    return ""


def end_reason(script: Script, tick: int, last_tick: int | None, *, arrived: bool, collided: bool) -> str:
    """Say why ``tick`` is the last of a run; nothing where the run goes on."""
    if tick == last_tick:
        return DURATION
    if script.ends_early and arrived:
        return LAST_WAYPOINT
    if script.end == "first-collision" and collided:
        return FIRST_COLLISION
    return TIME_OVER if tick >= script.ticks else ""


class _Reading(NamedTuple):
    """What was copied at a tick; commands are in the order of the actors."""

    tick: int
    reading: Reading
    commands: tuple[VehicleCommand, ...]


class _Frame(NamedTuple):
    """What went in at a frame of the wall clock: before which step, when drivers were asked, what they said, how many steps.

    ``step_s`` None: steps are of their fixed length. In synchronous mode a tick is a step, and ``frame_s`` is 0.
    """

    step: int
    time_s: float
    frame_s: float
    commands: tuple[VehicleCommand, ...]
    finished: frozenset[int]
    steps: int
    step_s: float | None


class InProcessRun:
    """One run of a script from its first step to its last. ``last_tick`` ends it sooner.

    With fixed steps only readings are kept while the run goes on, and states are worked out from them at its end: on the wall
    clock, time spent on arithmetic between two frames would change how long the next one is.

    With a ``feed`` the run is played again: frames are as long as they were then, and nobody is asked. With ``decisions``
    drivers are not asked either, but what they once said holds by simulated time, whatever the frames are; ``record_to`` takes
    down what they say.
    """

    def __init__(
        self,
        world: InProcessWorld,
        script: Script,
        settings: InProcessSettings,
        recorder: Recorder,
        on_tick: Callable[[int], None],
        last_tick: int | None,
        *,
        feed: InputFeed | None = None,
        decisions: DecisionReplay | None = None,
        record_to: DecisionRecorder | None = None,
    ) -> None:
        self._world, self._script, self._settings = world, script, settings
        self._feed, self._decisions, self._record_to = feed, decisions, record_to
        self._finished = frozenset[int]()
        self._recorder, self._on_tick, self._last_tick = recorder, on_tick, last_tick
        drivers = {role.number: controller_of(role, scripted_chassis, settings.control_s) for role in script.roles}
        self._drivers: dict[int, ActorController] = {actor: driver for actor, driver in drivers.items() if driver is not None}
        self._commands: dict[int, VehicleCommand] = dict.fromkeys(self._drivers, STANDING)
        self._contacts: list[tuple[int, InProcessContact]] = []
        self._numbers: list[int] = []
        self._readings: list[_Reading] = []
        self._frames_made: list[_Frame] = []
        self._ended = ""
        self._tick = 0

    def play(self, clock: Clock) -> None:
        for role in self._script.roles:
            self._recorder.actor(role.number, role.type)
        self._settle()
        self._check_channels()
        notes: list[str] = []
        if self._settings.mode == SYNCHRONOUS:
            self._play_in_step()
        elif self._settings.mode == GAME_LOOP:
            self._play_frames(clock)
        else:
            notes.append(self._play_variable(clock))
        self._record_readings()
        for tick, contact in self._contacts:
            if tick <= self._tick:
                self._recorder.event(tick, "collision", contact.actor, contact.other, contact.impulse_ns)
        for note in notes:
            self._recorder.event(self._tick, "note", detail=note)
        self._recorder.inputs(self._inputs())
        self._recorder.end(self._tick, self._ended)

    def _settle(self) -> None:
        for actor_id in self._drivers:
            self._world.command(actor_id, STANDING)
        self._world.step(SETTLE_TICKS * self._settings.substeps)
        self._world.contacts()  # who touches already when the run begins has not collided in it

    def _check_channels(self) -> None:
        """States are recorded as they come: their order is that of the channels, or numbers would change places."""
        wanted = tuple(name for name in self._recorder.channels if name not in (*CONTROLS, RESAMPLING))
        states = self._world.states()
        self._numbers = list(states)
        for state in states.values():
            if tuple(state) != wanted:
                raise SimulatorError(f"states with {', '.join(wanted)} were wanted, but {', '.join(state)} came")

    def _play_in_step(self) -> None:
        world, substeps = self._world, self._settings.substeps
        while not self._ended:
            step, time_s = self._tick, self._tick * TICK_S
            self._decide(step, time_s)
            self._frames_made.append(_Frame(step, time_s, 0.0, tuple(self._commands.values()), self._finished, 1, None))
            world.step(substeps)
            self._note_contacts(self._tick + 1)
            self._read(self._tick + 1)

    def _play_frames(self, clock: Clock) -> None:
        """Drivers go by the game's clock, the trace by the engine's: each tick is ``substeps`` of its steps."""
        world, substeps, made = self._world, self._settings.substeps, 0

        def on_step() -> None:
            nonlocal made
            made += 1
            if self._ended:
                return
            self._note_contacts(self._tick + 1)
            if made % substeps == 0:
                self._read(self._tick + 1)

        def advance(frame_s: float) -> tuple[int, None]:
            before = made
            world.advance(frame_s, on_step)
            return made - before, None

        self._frames(clock, advance)

    def _play_variable(self, clock: Clock) -> str:
        """Frames end when they end; what a trace has at its ticks lies between them. Returns what was done to the numbers."""
        world, now_s = self._world, 0.0
        resampler = Resampler(TICK_S, EngineFrame(0.0, self._copied()))
        resampler.rest()  # the start itself is no tick of a trace

        def one_step(frame_s: float) -> tuple[int, float]:
            nonlocal now_s
            world.step_variable(frame_s)
            now_s += frame_s
            self._note_contacts(max(1, resampler.tick_of(now_s)))
            # Ticks come a frame late: each frame keeps the commands that led to it, or a tick would have those of the next.
            for tick, states in resampler.take(EngineFrame(now_s, self._copied(), self._told())):
                if not self._ended:
                    self._record(tick, states)
            return 1, frame_s

        self._frames(clock, one_step)
        return resampler.note

    def _frames(self, clock: Clock, go_on: Callable[[float], tuple[int, float | None]]) -> None:
        """Call ``go_on`` with the time of each frame, from the wall clock; a late frame begins at once.

        It says how many steps it has made, and of which length if that varies.
        """
        step, game_s = 0, 0.0
        for frame_s in self._clock_frames(clock) if self._feed is None else self._fed_frames(self._feed):
            game_s += frame_s
            self._decide(step, game_s)
            told = tuple(self._commands.values())
            count, step_s = go_on(frame_s)
            # Kept as it is: what follows from it waits for the end, as with readings.
            self._frames_made.append(_Frame(step, game_s, frame_s, told, self._finished, count, step_s))
            step += count
            if self._ended:
                return

    def _clock_frames(self, clock: Clock) -> Iterator[float]:
        settings = self._settings
        last_s = clock.monotonic_s()
        due_s = last_s + settings.frame_s
        while True:
            wait_s = due_s - clock.monotonic_s()
            if wait_s > 0:
                clock.sleep_s(wait_s)
            now_s = clock.monotonic_s()
            frame_s = (now_s - last_s) * settings.time_scale
            # The next frame is due one period after this one was, unless this one was late: lost time is not made up for.
            last_s, due_s = now_s, max(due_s, now_s) + settings.frame_s
            if frame_s > 0:
                yield frame_s

    def _fed_frames(self, feed: InputFeed) -> Iterator[float]:
        for _, _, frame_s in feed.asked:
            yield frame_s
        raise InputError(f"inputs: {len(feed.asked)} frames were written down, but the run goes on after them")

    def _inputs(self) -> InputLog:
        """Return what went in: when a clock had drivers asked, what held in every step, and how long it was."""
        recorder = InputRecorder()
        log = recorder.log
        in_step = self._settings.mode == SYNCHRONOUS
        log.covers = frozenset({InputKind.STEP, InputKind.COMMAND})
        log.step_s = TICK_S if in_step else self._settings.step_s
        asked: list[Input] = []
        for frame in self._frames_made:
            if not in_step:
                told = (frame.time_s,), frame.frame_s.hex()
                asked.append(Input(frame.step, InputKind.COMMAND, ASKED, None, *told, decided_step=frame.step))
            commands = dict(zip(self._drivers, frame.commands, strict=True))
            for step in range(frame.step, frame.step + frame.steps):
                recorder.step(step, frame.step_s, self._drivers, commands, frame.step, frame.finished)
        log.entries = sorted([*log.entries, *asked], key=lambda entry: (entry.step, _RANK[entry.kind]))
        return log

    def _decide(self, step: int, time_s: float) -> None:
        world = self._world
        commands = self._said(step, time_s)
        for actor_id, command in commands.items():
            if not isinstance(command, VehicleCommand):
                raise SimulatorError(f"actor {actor_id}: only vehicles can be driven in this engine")
            self._commands[actor_id] = command
            world.command(actor_id, command)
        if self._record_to is not None:
            self._record_to.note(time_s, self._drivers, commands, self._finished)

    def _said(self, step: int, time_s: float) -> dict[int, Command]:
        """What drivers say, or once said, and who of them has nothing left to do."""
        if self._feed is not None:
            self._finished = self._feed.finished(step)
            return self._feed.commands(step, self._drivers)
        if self._decisions is not None:
            self._finished = self._decisions.finished(time_s)
            return self._decisions.held(time_s, self._drivers)
        observe = self._world.observe
        commands = {actor_id: driver.decide(observe(actor_id), time_s) for actor_id, driver in self._drivers.items()}
        self._finished = frozenset(actor_id for actor_id, driver in self._drivers.items() if driver.finished)
        return commands

    def _copied(self) -> dict[int, dict[str, float]]:
        return {actor_id: dict(state) for actor_id, state in self._world.states().items()}

    def _note_contacts(self, tick: int) -> None:
        self._contacts += [(tick, contact) for contact in self._world.contacts()]

    def _read(self, tick: int) -> None:
        """Copy what the engine says at a tick and what everybody was told to do; what follows from it waits for the end."""
        if self._recorder.wants(tick):
            self._readings.append(_Reading(tick, self._world.reading(), tuple(self._commands.values())))
        self._pass(tick)

    def _record_readings(self) -> None:
        """Record all that was read: everybody's state in the order of the channels, then their commands."""
        if self._readings:
            commands = [[(told.throttle, told.steer, told.brake) for told in kept.commands] for kept in self._readings]
            rows = self._world.rows([kept.reading for kept in self._readings])
            ticks = [kept.tick for kept in self._readings]
            self._recorder.block(ticks, self._numbers, np.concatenate((rows, commands), axis=-1))

    def _record(self, tick: int, states: Mapping[int, State]) -> None:
        """Record a tick at once: everybody's state in the order of the channels, then what they were told to do."""
        if self._recorder.wants(tick):
            self._recorder.rows(tick, list(states), [list(state.values()) for state in states.values()])
        self._pass(tick)

    def _told(self) -> dict[int, dict[str, float]]:
        """What everybody is told to do now, in the order of the channels."""
        return {
            actor_id: dict(zip(CONTROLS, (command.throttle, command.steer, command.brake), strict=True))
            for actor_id, command in self._commands.items()
        }

    def _pass(self, tick: int) -> None:
        self._tick = tick
        self._on_tick(tick)
        arrived = all(actor_id in self._finished for actor_id in self._drivers)
        collided = any(touched <= tick for touched, _ in self._contacts)
        self._ended = end_reason(self._script, tick, self._last_tick, arrived=arrived, collided=collided)


class StepAccumulator:
    """Time that frames have brought and fixed steps have not yet used, for engines without a game loop of their own.

    What is beyond ``most`` steps in one frame is dropped: otherwise a machine that is too slow would fall behind ever farther.
    """

    def __init__(self, step_s: float, most: int) -> None:
        self._step_s, self._most = step_s, most
        self._left_s = 0.0

    def due(self, frame_s: float) -> int:
        """Return how many steps are due after a frame of this length."""
        self._left_s += frame_s
        count = int(self._left_s / self._step_s)
        self._left_s -= count * self._step_s
        return min(count, self._most)


class FirstContacts:
    """Keeps the first contact of each pair: engines report a contact in every step that it lasts."""

    def __init__(self) -> None:
        self._met: set[tuple[int, int]] = set()
        self._new: list[InProcessContact] = []

    def has_met(self, actor: int, other: int | None) -> bool:
        """Have these two touched before? None is scenery."""
        return _pair(actor, other) in self._met

    def add(self, actor: int, other: int | None, impulse_on_actor: Vector) -> None:
        """Note that two touch, unless they did before; the lower number comes first, whatever order the engine has."""
        pair = _pair(actor, other)
        if pair in self._met:
            return
        self._met.add(pair)
        if other is not None and other < actor:
            x, y, z = impulse_on_actor
            self._new.append(InProcessContact(other, actor, (-x, -y, -z)))
        else:
            self._new.append(InProcessContact(actor, other, impulse_on_actor))

    def take(self) -> list[InProcessContact]:
        """Return those that are new, by number, once."""
        if not self._new:
            return []
        found = sorted(self._new, key=lambda contact: (contact.actor, contact.other or 0))
        self._new.clear()
        return found


def _pair(actor: int, other: int | None) -> tuple[int, int]:
    return min(actor, other or 0), max(actor, other or 0)


def angles_deg(forward: Vector, right_z: float, up_z: float) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of an upright frame from its axes, in CARLA's sense: yaw to the right, pitch nose up."""
    roll = math.atan2(-right_z, up_z)
    pitch = math.asin(max(-1.0, min(1.0, forward[2])))
    yaw = math.atan2(forward[1], forward[0])
    return math.degrees(roll), math.degrees(pitch), math.degrees(yaw)


def angle_columns_deg(forward: tuple[Floats, Floats, Floats], right_z: Floats, up_z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return :func:`angles_deg` of many frames, with the same bits: NumPy's own functions may round otherwise."""
    return (
        _each_deg(math.atan2, -right_z, up_z),
        _each_deg(math.asin, np.clip(forward[2], -1.0, 1.0)),
        _each_deg(math.atan2, forward[1], forward[0]),
    )


def _each_deg(angle_of: Callable[..., float], *columns: Floats) -> Floats:
    found = map(math.degrees, map(angle_of, *(column.ravel().tolist() for column in columns)))
    return np.fromiter(found, np.float64, columns[0].size).reshape(columns[0].shape)
