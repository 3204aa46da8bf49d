"""Programs that are reached over a socket and whose clock is their own: what an adapter implements, and how they are played.

An adapter is two classes and its settings. A subclass of :class:`RemoteSimulator`, in ``simulator.py``, says what the program
is, reads its settings and tells whether the program can be reached. A subclass of :class:`RemoteWorld`, in ``engine.py``, talks
to it through the vendor's published client: it samples where the cars are, commands them, and lets time pass. The client is
imported inside functions only: it is an extra, and has threads and loops that must not be there when a worker is forked.

What holds: a sample carries the time of the program's own clock. Where the program stands still exactly at ticks, its numbers
are recorded as they are; everywhere else they are resampled, and how far off that may be is recorded beside them. No such
program promises bits, so that none is taken to be deterministic.
"""

import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import VehicleCommand
from samepath.engines.in_process import (
    CONTROLS,
    TICK_S,
    end_reason,
    installed_version,
    missing_package,
    read_plain_script,
)
from samepath.engines.interface import (
    CAR_SCENARIOS,
    GAME_LOOP,
    SYNCHRONOUS,
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    choice,
    last_tick,
    no_tick,
    number,
    whole,
    word,
)
from samepath.engines.resampling import RESAMPLING, EngineFrame, Resampler
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import (
    STANDING,
    ActorController,
    PlanarState,
    Pose2D,
    Script,
    controller_of,
    moved,
    scripted_chassis,
)

# Synchronous: the program stands still while drivers decide. Game loop: it runs on by itself, and drivers are asked at a rate
# of the wall clock.
MODES: Final = (SYNCHRONOUS, GAME_LOOP)
# Whether anybody listens is known at once, or the machine is out of reach.
_FIND_S: Final = 5.0
NO_IMPULSE: Final = "the program tells no impulse"
# Above the rounding of a quotient of times, far below any step: as parts of a tick.
_TICK_ROUNDING: Final = 1e-6
_ROUNDING: Final = 1e-9

SETTINGS: Final[Mapping[str, Scalar]] = {
    "mode": SYNCHRONOUS,
    "host": "127.0.0.1",
    "port": 0,
    "timeout_s": 20.0,
    "level": "",
    "anchor": "",
    "settle_s": 1.0,
    "frame_rate_hz": 20.0,
}


@dataclass(frozen=True)
class RemoteSettings:
    """What a study may vary about any program that is reached over a socket, checked.

    ``anchor`` is where the first actor starts, None where the script says; ``level`` may be empty.
    """

    mode: str
    host: str
    port: int
    timeout_s: float
    level: str
    anchor: Pose2D | None
    settle_s: float
    frame_rate_hz: float

    @property
    def synchronous(self) -> bool:
        """Does the program wait for the drivers?"""
        return self.mode == SYNCHRONOUS

    @property
    def time_scale(self) -> float:
        """How many simulated seconds a second of the wall clock is, while the program runs by itself."""
        return 1.0

    @property
    def control_s(self) -> float:
        """How often drivers are asked, in simulated time; in a running program, what they may expect."""
        return TICK_S if self.synchronous else self.time_scale / self.frame_rate_hz

    @property
    def exact(self) -> bool:
        """Does the program stand still exactly at the ticks of a trace?"""
        return False

    @property
    def address(self) -> str:
        """Where the program listens."""
        return f"{self.host}:{self.port}"


def remote_values(values: Mapping[str, Scalar]) -> dict[str, Any]:
    """Check the plain values that all such programs share."""
    return {
        "mode": choice(values, "mode", MODES),
        "host": word(values, "host"),
        "port": whole(values, "port", 1, 65535),
        "timeout_s": number(values, "timeout_s", 0.1, 3600.0),
        "level": str(values["level"]).strip(),
        "anchor": _anchor(str(values["anchor"])),
        "settle_s": number(values, "settle_s", 0.0, 60.0),
        "frame_rate_hz": number(values, "frame_rate_hz", 1.0, 1000.0),
    }


def _anchor(text: str) -> Pose2D | None:
    if not text.strip():
        return None
    try:
        x_m, y_m, yaw_deg = map(float, text.split(","))
    except ValueError:
        raise InputError(f"anchor: x,y,yaw in metres and degrees was wanted, such as 0,0,90, but {text!r} came") from None
    return Pose2D(x_m, y_m, yaw_deg)


class ActorSample(NamedTuple):
    """An actor at a moment of the program's clock, since the run began: its state, and what its driver sees of it.

    ``told`` are the commands that led there, by channel.
    """

    number: int
    time_s: float
    state: dict[str, float]
    observed: PlanarState
    told: Mapping[str, float] = MappingProxyType({})


class RemoteContact(NamedTuple):
    """Somebody touched somebody, or scenery (``other`` None, named by ``detail``); no impulse is told."""

    time_s: float
    actor: int
    other: int | None
    detail: str


class RemoteWorld(ABC):
    """A script set up in the program, standing still: what an adapter implements. Everything is in our frame and units."""

    @abstractmethod
    def sample(self) -> list[ActorSample]:
        """Ask where everybody is, by number; in a running program each has a moment of its own."""

    @abstractmethod
    def command(self, number: int, command: VehicleCommand) -> None:
        """Put an actor under a command, until the next one."""

    @abstractmethod
    def step(self) -> None:
        """Let the program run for as long as drivers are not asked, and stand still again."""

    @abstractmethod
    def run(self) -> None:
        """Let the program run on by itself."""

    @abstractmethod
    def contacts(self) -> list[RemoteContact]:
        """Return who touched since this was last asked."""

    @abstractmethod
    def close(self) -> None:
        """Leave the program to itself, and the connection; must not fail where the program is gone."""


def find_server(name: str, host: str, port: int, how_to: str) -> None:
    """Does anybody listen there? A client would try again and again before it says no."""
    try:
        socket.create_connection((host, port), timeout=_FIND_S).close()
    except OSError as error:
        raise SimulatorError(f"{name} does not answer at {host}:{port} ({error.strerror or error}): {how_to}") from error


S = TypeVar("S", bound=RemoteSettings)


class RemoteSimulator(Simulator, Generic[S]):
    """A program of somebody else's, through its published client.

    It promises no bits, whatever its mode: no vendor does, and none was measured. A subclass sets the class variables and
    implements :meth:`read`, :meth:`unreachable` and :meth:`world`. ``package`` is the client's, of version ``oldest`` at least;
    ``name`` is also that of the pip extra. ``defaults`` replace those of the settings, ``clock`` replaces the machine's.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    own_settings: ClassVar[Mapping[str, Scalar]]

    def __init__(self, defaults: Mapping[str, Scalar] | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._defaults = {**SETTINGS, **self.own_settings, **(defaults or {})}
        self._clock = clock

    @abstractmethod
    def read(self, values: Mapping[str, Scalar]) -> S:
        """Check a study's plain values."""

    @abstractmethod
    def unreachable(self, settings: S) -> str:
        """Say in one line why the program cannot be reached or started; nothing where it can."""

    @abstractmethod
    def world(self, script: Script, settings: S) -> RemoteWorld:
        """Set up a script in the program; the client is imported here and not before."""

    def info(self) -> SimulatorInfo:
        """Describe the simulator; neither the client nor the program is needed."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode: what does not stand still at ticks is resampled."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = self.read({**self._defaults, **known})
        exact = read.exact
        resampled = () if exact else (RESAMPLING,)
        return SimulatorInfo(
            name=self.name,
            version=f"client {self.package} {installed_version(self.package) or 'not installed'}",
            summary=self.summary,
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=(*POSITION, *ROTATION, *VELOCITY, *resampled, *CONTROLS),
            capabilities=Capabilities(deterministic=False, lossless=exact, collisions=True, durations=True),
            settings=self._defaults,
            time_scale=None if read.synchronous else read.time_scale,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say what is missing: the client, a version of it, or the program."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = self.read({**self._defaults, **known})
        return missing_package(self.package, self.oldest, self.name) or self.unreachable(read)

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario; the client is not imported, because it has threads and loops that must not be forked."""
        read_plain_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in the program, set up anew."""
        info = self.described(request.settings)
        values = check_scripted_request(info, request)
        missing = self.unavailable(values)
        if missing:
            raise SimulatorError(missing)

        settings = self.read(values)
        script = read_plain_script(request.scenario)
        if settings.anchor is not None:
            script = moved(script, settings.anchor)
        world = self.world(script, settings)
        try:
            RemoteRun(world, script, settings, recorder, on_tick, last_tick(info, request)).play(self._clock)
        finally:
            world.close()


TickStates = list[tuple[int, dict[int, dict[str, float]]]]


class TickBuilder(Protocol):
    """Turns samples into the ticks of a trace."""

    def take(self, samples: Sequence[ActorSample]) -> TickStates:
        """Take the next sample of everybody; return the ticks that are complete now."""
        ...

    @property
    def note(self) -> str:
        """What was done to the numbers; empty where nothing was."""
        ...


class ExactTicks:
    """Every sample is a tick, and its numbers are the program's own."""

    note = ""

    def __init__(self) -> None:
        self._tick = 0

    def take(self, samples: Sequence[ActorSample]) -> TickStates:
        """Return this tick."""
        self._tick += 1
        for sample in samples:
            if abs(sample.time_s / TICK_S - self._tick) > _TICK_ROUNDING:
                raise SimulatorError(
                    f"actor {sample.number} was seen at {sample.time_s:g} s where tick {self._tick} was wanted"
                )
        return [(self._tick, {sample.number: {**sample.state, **sample.told} for sample in samples})]


class ResampledTicks:
    """Everybody is resampled by the times they were seen at. A tick is complete when everybody has it."""

    def __init__(self, start: Iterable[ActorSample]) -> None:
        self._resamplers = {sample.number: Resampler(TICK_S, _frame(sample)) for sample in start}
        self._last = {sample.number: sample.time_s for sample in start}
        self._known: dict[int, dict[int, dict[str, float]]] = {}
        for resampler in self._resamplers.values():
            resampler.rest()  # the start itself is no tick of a trace

    def take(self, samples: Sequence[ActorSample]) -> TickStates:
        """Return the ticks that everybody has now; a sample of a moment that is known already adds nothing."""
        for sample in samples:
            if sample.time_s == self._last[sample.number]:
                continue
            self._last[sample.number] = sample.time_s
            for tick, states in self._resamplers[sample.number].take(_frame(sample)):
                self._known.setdefault(tick, {}).update(states)
        complete = sorted(tick for tick, states in self._known.items() if len(states) == len(self._resamplers))
        return [(tick, dict(sorted(self._known.pop(tick).items()))) for tick in complete]

    @property
    def note(self) -> str:
        """Say how far off the worst of them may be."""
        return max(self._resamplers.values(), key=lambda resampler: resampler.largest_m).note


def _frame(sample: ActorSample) -> EngineFrame:
    return EngineFrame(sample.time_s, {sample.number: sample.state}, {sample.number: sample.told})


class RemoteRun:
    """One run of a script from its first sample to its last. ``last_tick`` ends it sooner."""

    def __init__(
        self,
        world: RemoteWorld,
        script: Script,
        settings: RemoteSettings,
        recorder: Recorder,
        on_tick: Callable[[int], None],
        last_tick: int | None,
    ) -> None:
        self._world, self._script, self._settings = world, script, settings
        self._recorder, self._on_tick, self._last_tick = recorder, on_tick, last_tick
        drivers = {role.number: controller_of(role, scripted_chassis, settings.control_s) for role in script.roles}
        self._drivers: dict[int, ActorController] = {actor: driver for actor, driver in drivers.items() if driver is not None}
        self._commands = dict.fromkeys(self._drivers, STANDING)
        self._met: dict[tuple[int, int | None, str], RemoteContact] = {}
        self._ended = ""
        self._tick = 0

    def play(self, clock: Clock) -> None:
        world, settings = self._world, self._settings
        for role in self._script.roles:
            self._recorder.actor(role.number, role.type)
        samples = world.sample()
        ticks: TickBuilder = ExactTicks() if settings.exact else ResampledTicks(samples)
        world.contacts()  # who touches already when the run begins has not collided in it
        if not settings.synchronous:
            world.run()
        pace = _Pace(clock, settings)
        while not self._ended:
            self._decide(samples)
            if settings.synchronous:
                world.step()
            else:
                pace.wait()
            # Resampled ticks come one sample late: each sample keeps its commands, or a tick would have those of the next.
            samples = [sample._replace(told=self._told(sample.number)) for sample in world.sample()]
            pace.check(samples)
            self._meet(world.contacts())
            for tick, states in ticks.take(samples):
                if not self._ended:
                    self._record(tick, states)
        self._finish(ticks.note)

    def _decide(self, samples: Sequence[ActorSample]) -> None:
        for sample in samples:
            command = self._drivers[sample.number].decide(sample.observed, sample.time_s)
            if not isinstance(command, VehicleCommand):
                raise SimulatorError(f"actor {sample.number}: only vehicles can be driven in this program")
            self._commands[sample.number] = command
            self._world.command(sample.number, command)

    def _told(self, number: int) -> dict[str, float]:
        command = self._commands[number]
        return {"throttle_ratio": command.throttle, "steer_ratio": command.steer, "brake_ratio": command.brake}

    def _meet(self, contacts: Sequence[RemoteContact]) -> None:
        """Keep the first contact of each pair, under the lower number."""
        for contact in contacts:
            if contact.other is not None and contact.other < contact.actor:
                contact = contact._replace(actor=contact.other, other=contact.actor)  # noqa: PLW2901
            self._met.setdefault((contact.actor, contact.other, contact.detail), contact)

    def _record(self, tick: int, states: dict[int, dict[str, float]]) -> None:
        self._tick = tick
        if self._recorder.wants(tick):
            for number, state in states.items():
                self._recorder.state(tick, number, state)
        self._on_tick(tick)
        arrived = all(driver.finished for driver in self._drivers.values())
        collided = any(_tick_of(contact) <= tick for contact in self._met.values())
        self._ended = end_reason(self._script, tick, self._last_tick, arrived=arrived, collided=collided)

    def _finish(self, note: str) -> None:
        # Ties in time are broken by actor, never by the order in which the program told of them.
        for contact in sorted(self._met.values(), key=lambda met: (met.time_s, met.actor, met.other or 0, met.detail)):
            if _tick_of(contact) <= self._tick:
                detail = f"{contact.detail}; {NO_IMPULSE}" if contact.detail else NO_IMPULSE
                self._recorder.event(_tick_of(contact), "collision", contact.actor, contact.other, detail=detail)
        if note:
            self._recorder.event(self._tick, "note", detail=note)
        if self._settings.exact:
            self._recorder.in_step()
        self._recorder.end(self._tick, self._ended)


def _tick_of(contact: RemoteContact) -> int:
    """The first tick at or after a moment, and not before the first."""
    return max(1, math.ceil(contact.time_s / TICK_S - _ROUNDING))


class _Pace:
    """Asks at the rate of the wall clock, and tells of a program whose own clock stands still."""

    def __init__(self, clock: Clock, settings: RemoteSettings) -> None:
        self._clock, self._settings = clock, settings
        self._due_s = clock.monotonic_s()
        self._moved_s = self._due_s
        self._last: tuple[float, ...] = ()

    def wait(self) -> None:
        """Wait for the next time to ask; a late one is asked at once."""
        now_s = self._clock.monotonic_s()
        self._due_s = max(self._due_s + 1.0 / self._settings.frame_rate_hz, now_s)
        if self._due_s > now_s:
            self._clock.sleep_s(self._due_s - now_s)

    def check(self, samples: Sequence[ActorSample]) -> None:
        """Has time passed since the last sample, or at least not stood still for too long?"""
        now_s, times = self._clock.monotonic_s(), tuple(sample.time_s for sample in samples)
        if times != self._last:
            self._moved_s, self._last = now_s, times
        elif now_s - self._moved_s > self._settings.timeout_s:
            raise SimulatorError(
                f"the clock of the program at {self._settings.address} stood still for {self._settings.timeout_s:g} s: "
                "is it paused?"
            )
