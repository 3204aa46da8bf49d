"""Playing a script in a program of its own that a client talks to over a socket, and whose clock is its own."""

import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, SimulatorError
from samepath.engines.in_process import (
    CONTROLS,
    FIRST_COLLISION,
    LAST_WAYPOINT,
    TIME_OVER,
    installed_version,
    numbers,
    read_plain_script,
)
from samepath.engines.interface import (
    CAR_SCENARIOS,
    DURATION,
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
from samepath.engines.resampling import RESAMPLING, Frame, Resampler
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import (
    STANDING,
    ActorController,
    PlanarState,
    Pose2D,
    Script,
    VehicleCommand,
    controller_of,
    moved,
    scripted_chassis,
)

# What a study may vary about any program that is reached from afar.

# The tick of a trace, and how often drivers are asked in synchronous mode.
TICK_S: Final = 0.05
# The program stands still while drivers decide.
SYNCHRONOUS: Final = "synchronous"
# The program runs on by itself; drivers are asked at a rate of the wall clock.
GAME_LOOP: Final = "game-loop"
MODES: Final = (SYNCHRONOUS, GAME_LOOP)

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
    """The same, checked. ``anchor`` is where the first actor starts, None where the script says; ``level`` may be empty."""

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


# What an adapter must offer to be played with from afar: looks at the cars, commands to them, and time that passes.

# Whether anybody listens is known at once, or the machine is out of reach.
_FIND_S: Final = 5.0


class ActorSample(NamedTuple):
    """An actor at a moment of the program's clock, since the run began: its state, and what its driver sees of it."""

    number: int
    time_s: float
    state: dict[str, float]
    seen: PlanarState


class RemoteContact(NamedTuple):
    """Somebody touched somebody, or scenery (``other`` None, named by ``detail``); no impulse is told."""

    time_s: float
    actor: int
    other: int | None
    detail: str


class RemoteWorld(ABC):
    """A script set up in the program, standing still. Everything is in our frame and units."""

    @abstractmethod
    def look(self) -> list[ActorSample]:
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


# The adapter that such programs share; each says what it is, reads its settings and sets up a world.


class RemoteSimulator(Simulator):
    """A program of somebody else's, through its published client; ``defaults`` replace those of the settings.

    It promises no bits, whatever its mode: no vendor does, and none was measured. A subclass says what it is, and which
    ``package`` of which version the client is; its name is that of the extra too.
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
    def read(self, values: Mapping[str, Scalar]) -> RemoteSettings:
        """Check a study's plain values."""

    @abstractmethod
    def reachable(self, settings: RemoteSettings) -> str:
        """Say in one line why the program cannot be reached or started; nothing where it can."""

    @abstractmethod
    def world(self, script: Script, settings: RemoteSettings) -> RemoteWorld:
        """Set up a script in the program; the client is imported here and not before."""

    def info(self) -> SimulatorInfo:
        """Describe the simulator; neither the client nor the program is needed."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode: what does not stand still at ticks is resampled."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        exact = self.read({**self._defaults, **known}).exact
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
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say what is missing: the client, a version of it, or the program."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = self.read({**self._defaults, **known})
        how = f"pip install 'samepath[{self.name}]'"
        version = installed_version(self.package)
        if not version:
            return f"{self.package} is not installed: {how}"
        if numbers(version) < self.oldest:
            return f"{self.package} {'.'.join(map(str, self.oldest))} or newer was wanted, but {version} is installed: {how}"
        return self.reachable(read)

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


__all__ = [
    "GAME_LOOP",
    "MODES",
    "SETTINGS",
    "SYNCHRONOUS",
    "TICK_S",
    "RemoteContact",
    "ActorSample",
    "RemoteSettings",
    "RemoteSimulator",
    "RemoteWorld",
    "find_server",
    "remote_values",
]


# From looks to the ticks of a trace: taken as they are where the program stood still at one, else resampled.

TickStates = list[tuple[int, dict[int, dict[str, float]]]]
# Above the rounding of a quotient of times, far below any step.
_TICK_ROUNDING: Final = 1e-6


class TickBuilder(Protocol):
    """Turns looks into ticks."""

    def take(self, looks: Sequence[ActorSample]) -> TickStates:
        """Take the next looks at everybody; return the ticks that are complete now."""
        ...

    @property
    def note(self) -> str:
        """What was done to the numbers; empty where nothing was."""
        ...


class ExactTicks:
    """Every look is a tick, and its numbers are the program's own."""

    note = ""

    def __init__(self) -> None:
        self._tick = 0

    def take(self, looks: Sequence[ActorSample]) -> TickStates:
        """Return this tick."""
        self._tick += 1
        for look in looks:
            if abs(look.time_s / TICK_S - self._tick) > _TICK_ROUNDING:
                raise SimulatorError(f"actor {look.number} was seen at {look.time_s:g} s where tick {self._tick} was wanted")
        return [(self._tick, {look.number: look.state for look in looks})]


class ResampledTicks:
    """Everybody is resampled by the times they were seen at. A tick is complete when everybody has it."""

    def __init__(self, start: Iterable[ActorSample]) -> None:
        self._resamplers = {look.number: Resampler(TICK_S, _frame(look)) for look in start}
        self._last = {look.number: look.time_s for look in start}
        self._known: dict[int, dict[int, dict[str, float]]] = {}
        for one in self._resamplers.values():
            one.rest()  # the start itself is no tick of a trace

    def take(self, looks: Sequence[ActorSample]) -> TickStates:
        """Return the ticks that everybody has now; a look at a moment that was seen before adds nothing."""
        for look in looks:
            if look.time_s == self._last[look.number]:
                continue
            self._last[look.number] = look.time_s
            for tick, states in self._resamplers[look.number].take(_frame(look)):
                self._known.setdefault(tick, {}).update(states)
        complete = sorted(tick for tick, states in self._known.items() if len(states) == len(self._resamplers))
        return [(tick, dict(sorted(self._known.pop(tick).items()))) for tick in complete]

    @property
    def note(self) -> str:
        """Say how far off the worst of them may be."""
        return max(self._resamplers.values(), key=lambda one: one.largest_m).note


def _frame(look: ActorSample) -> Frame:
    return Frame(look.time_s, {look.number: look.state})


# One run from its first look to its last: drivers are asked, time passes in the program, every tick is recorded.

NO_IMPULSE: Final = "the program tells no impulse"
_ROUNDING: Final = 1e-9


class RemoteRun:
    """A script played in a program; ``last_tick`` ends it sooner."""

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
        minds = {role.number: controller_of(role, scripted_chassis, settings.control_s) for role in script.roles}
        self._minds: dict[int, ActorController] = {number: mind for number, mind in minds.items() if mind is not None}
        self._commands = dict.fromkeys(self._minds, STANDING)
        self._met: dict[tuple[int, int | None, str], RemoteContact] = {}
        self._ended = ""
        self._tick = 0

    def play(self, clock: Clock) -> None:
        """Play from the start to the end."""
        world, settings = self._world, self._settings
        for role in self._script.roles:
            self._recorder.actor(role.number, role.type)
        looks = world.look()
        ticks: TickBuilder = ExactTicks() if settings.exact else ResampledTicks(looks)
        world.contacts()  # who touches already when the run begins has not collided in it
        if not settings.synchronous:
            world.run()
        pace = _Pace(clock, settings)
        while not self._ended:
            self._decide(looks)
            if settings.synchronous:
                world.step()
            else:
                pace.wait()
            looks = world.look()
            pace.check(looks)
            self._meet(world.contacts())
            for tick, states in ticks.take(looks):
                if not self._ended:
                    self._record(tick, states)
        self._finish(ticks.note)

    def _decide(self, looks: Sequence[ActorSample]) -> None:
        for look in looks:
            command = self._minds[look.number].decide(look.seen, look.time_s)
            if not isinstance(command, VehicleCommand):
                raise SimulatorError(f"actor {look.number}: only vehicles can be driven in this program")
            self._commands[look.number] = command
            self._world.command(look.number, command)

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
                told = self._commands[number]
                controls = {"throttle_ratio": told.throttle, "steer_ratio": told.steer, "brake_ratio": told.brake}
                self._recorder.state(tick, number, {**state, **controls})
        self._on_tick(tick)
        self._ended = self._why_over(tick)

    def _why_over(self, tick: int) -> str:
        if tick == self._last_tick:
            return DURATION
        if self._script.ends_early and all(mind.finished for mind in self._minds.values()):
            return LAST_WAYPOINT
        if self._script.end == "first-collision" and any(_tick_of(one) <= tick for one in self._met.values()):
            return FIRST_COLLISION
        return TIME_OVER if tick >= self._script.ticks else ""

    def _finish(self, note: str) -> None:
        for one in sorted(self._met.values(), key=lambda one: (one.time_s, one.actor, one.other or 0, one.detail)):
            if _tick_of(one) <= self._tick:
                words = f"{one.detail}; {NO_IMPULSE}" if one.detail else NO_IMPULSE
                self._recorder.event(_tick_of(one), "collision", one.actor, one.other, detail=words)
        if note:
            self._recorder.event(self._tick, "note", detail=note)
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

    def check(self, looks: Sequence[ActorSample]) -> None:
        """Has time passed since the last look, or at least not stood still for too long?"""
        now_s, times = self._clock.monotonic_s(), tuple(look.time_s for look in looks)
        if times != self._last:
            self._moved_s, self._last = now_s, times
        elif now_s - self._moved_s > self._settings.timeout_s:
            raise SimulatorError(
                f"the clock of the program at {self._settings.address} stood still for {self._settings.timeout_s:g} s: "
                "is it paused?"
            )
