"""Programs that a project of ours runs in: what an adapter implements, how a run is followed, and what the lines mean.

An adapter subclasses :class:`SubprocessSimulator`, in ``simulator.py``: it reads its settings, finds the program, says what it
cannot play, and plays a script. Its ``engine.py`` writes the script as a document for the project, a small program of ours in
the engine's own language, starts the engine with it as a :class:`ProjectProcess`, and follows it with a :class:`TraceReader`.

The project writes lines to its stdout. The first is ``samepath 1``. Then come S with states of one tick or more, C with a
contact, F with how frames fell, and E with why the run is over. Numbers are bytes in base64, so that none loses a digit. Lines
are taken in as they come but not worked out before the run is over: a reader that is slow would hold up the engine's writing,
and with it, on the wall clock, its frames.

Every repeat has a program of its own, started anew, so that no run can depend on the one before it.
"""

import binascii
import struct
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samepath.core.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import InputKind, InputLog
from samepath.core.trig import to_degrees
from samepath.core.trig_arrays import atan2
from samepath.engines.interface import (
    CAR_SCENARIOS,
    DURATION,
    FIRST_COLLISION,
    LAST_WAYPOINT,
    TIME_OVER,
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    last_tick,
    no_tick,
)
from samepath.engines.subprocess.process import EngineProcess
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script, read_script, tracks_by_place, with_run_up

GREETING: Final = b"samepath 1"
# An engine may tell about itself before the project says a word.
_BANNER_LINES: Final = 50
# Why runs of scripts end, in the projects' words and in ours.
REASONS: Final = {"duration": DURATION, "arrived": LAST_WAYPOINT, "collision": FIRST_COLLISION, "over": TIME_OVER}
_CONTACT: Final = struct.Struct("<3i3f")
_LONGEST_TOLD: Final = 60
# How long a program may take until the project says its first line, and to end after its last.
_START_S: Final = 60.0
_END_S: Final = 20.0

IN_STEP: Final = frozenset({InputKind.STEP, InputKind.COMMAND})
CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, "throttle_ratio", "steer_ratio", "brake_ratio")
# What a project tells of a car, along our axes: place; where forward, up and left point; velocity, spin; how it is driven.
CAR: Final = np.dtype([("real", "<f4", 18), ("command", "<f8", 3)])
_DEG_PER_RAD: Final = to_degrees(1.0)


class SubprocessSettings(Protocol):
    """What the settings of any such program must say."""

    @property
    def synchronous(self) -> bool:
        """Does it step when it is told to, and never by the wall clock?"""
        ...

    @property
    def time_scale(self) -> float:
        """How many simulated seconds a second of the wall clock is, where it goes by that."""
        ...


S = TypeVar("S", bound=SubprocessSettings)


class SubprocessSimulator(Simulator, Generic[S]):
    """A program that is started for every repeat with a project of ours in it. Only in synchronous mode it promises bits.

    A subclass sets the class variables and implements the abstract methods. ``program`` is what messages call it, ``known`` are
    its settings with their defaults; ``defaults`` replace those.
    """

    name: ClassVar[str]
    program: ClassVar[str]
    summary: ClassVar[str]
    known: ClassVar[Mapping[str, Scalar]]
    tick_s: ClassVar[float]

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**self.known, **(defaults or {})}

    @abstractmethod
    def read(self, values: Mapping[str, Scalar]) -> S:
        """Check a study's plain values."""

    @abstractmethod
    def version(self, settings: S) -> str:
        """Return the program's version; raises where it is not installed."""

    @abstractmethod
    def missing(self, settings: S) -> str:
        """Say in one line what is missing for a run and how to get it; nothing where a run is possible."""

    def check(self, script: Script) -> None:
        """Refuse what the project cannot play: here all but vehicles, which no project of ours has bodies for."""
        for role in script.roles:
            if role.kind != "vehicle":
                raise InputError(
                    f"scenario {script.name}: vehicles were wanted, but actor {role.number} is a {role.kind}: "
                    f"{self.program} is driven with vehicles only, as in table1-test1 and table1-test2"
                )

    @abstractmethod
    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: S,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        """Run a script in a program of its own, and record it; actors are announced already."""

    def channels(self, settings: S) -> tuple[str, ...]:
        """Return what is recorded."""
        return CHANNELS

    def covers(self, settings: S) -> frozenset[InputKind]:
        """Return which inputs are the same in every run, because nothing outside of the program decides them.

        Steps, where all are of one length; commands, where its drivers are asked by steps and not by frames of the wall clock.
        """
        return IN_STEP if settings.synchronous else frozenset()

    def lossless(self, settings: S) -> bool:
        """Are the program's own numbers recorded?"""
        return True

    def info(self) -> SimulatorInfo:
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings; where the program is missing, its version says so."""
        read = self._read(settings)
        try:
            version = self.version(read)
        except SimulatorError:
            version = "not installed"
        return SimulatorInfo(
            name=self.name,
            version=version,
            summary=self.summary,
            scenarios=CAR_SCENARIOS,
            step_s=self.tick_s,
            channels=self.channels(read),
            capabilities=Capabilities(
                deterministic=read.synchronous,
                lossless=self.lossless(read),
                collisions=True,
                durations=True,
                # Where nothing goes in from outside, to play a run again from what went in is to run it again.
                inputs=self.covers(read) >= IN_STEP,
            ),
            settings=self._defaults,
            time_scale=None if read.synchronous else read.time_scale,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        return self.missing(self._read(settings))

    def _read(self, settings: Mapping[str, Scalar]) -> S:
        # What is not known is refused where a run is asked for, by its name.
        return self.read({**self._defaults, **{name: settings[name] for name in settings if name in self._defaults}})

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and the program's version."""
        self.described(request.settings)
        read_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a program of its own."""
        info = self.described(request.settings)
        settings = self.read(check_scripted_request(info, request))
        reason = self.missing(settings)
        if reason:
            raise SimulatorError(reason)
        script = tracks_by_place(with_run_up(read_script(request.scenario)))
        self.check(script)
        for role in script.roles:
            recorder.actor(role.number, role.type)
        covers = self.covers(settings)
        if covers:
            # Drivers are in the project, and are asked by its steps: nothing that differs can have come from outside.
            recorder.inputs(InputLog(covers=covers))
        self.play(request, script, settings, last_tick(info, request), recorder, on_tick)


class ReceivedStates(NamedTuple):
    """States of these ticks have come; the reader keeps them."""

    ticks: tuple[int, ...]


@dataclass(frozen=True)
class SubprocessContact:
    """A car began to touch another or, ``other`` None, scenery; the impulse is what ``actor`` felt, in the engine's axes."""

    tick: int
    actor: int
    other: int | None
    impulse_ns: tuple[float, float, float]


@dataclass(frozen=True)
class FrameStats:
    """How many frames there were, the most physics steps in one and, where it is told, the most things drawn in one."""

    count: int
    most_steps: int
    most_drawn: int = 0

    @property
    def summary(self) -> str:
        """For the trace."""
        return f"{self.count} frames, at most {self.most_steps} physics steps in one"


@dataclass(frozen=True)
class ProjectEnd:
    """Why the run is over and, where the project says so, at which tick."""

    reason: str
    tick: int | None = None


@dataclass(frozen=True)
class RunSummary:
    """A run that came to its end: its last tick and why it was the last, contacts, and frames where there were any."""

    tick: int
    reason: str
    contacts: tuple[SubprocessContact, ...]
    frames: FrameStats | None


class TraceReader:
    """Reads the lines of a run with these cars; ``car`` is what is told of each, ``reasons`` are the ends that there are.

    Of states only the bytes are kept as they come, so that reading takes no time from a run; :meth:`cars` reads them.
    """

    def __init__(
        self,
        engine: str,
        car: np.dtype[Any],
        numbers: Sequence[int],
        steps_per_tick: int,
        reasons: Mapping[str, str],
    ) -> None:
        self._engine, self._reasons, self._steps_per_tick = engine, dict(reasons), steps_per_tick
        self._numbers = set(numbers)
        self._tick = np.dtype([("step", "<u4"), ("cars", car, len(numbers))])
        self._kept: list[bytes] = []

    def read(self, line: bytes) -> ReceivedStates | SubprocessContact | FrameStats | ProjectEnd:
        """Return what a line says; any other line is an error."""
        mark, _, rest = line.partition(b" ")
        try:
            if mark == b"S":
                return self._told(binascii.a2b_base64(rest, strict_mode=True))
            if mark == b"C":
                return self._contact(_CONTACT.unpack(binascii.a2b_base64(rest, strict_mode=True)))
            if mark == b"F":
                count, most_steps, *most_drawn = map(int, rest.split())
                return FrameStats(count, most_steps, *most_drawn)
            if mark == b"E":
                return ProjectEnd(self._reasons[rest.decode()])
        except (binascii.Error, struct.error, ValueError, KeyError, TypeError):
            pass
        raise SimulatorError(f"{self._engine} wrote {line[:_LONGEST_TOLD]!r} where a state, a contact or the end was wanted")

    def _told(self, data: bytes) -> ReceivedStates:
        steps = np.frombuffer(data, self._tick)["step"]
        if np.any(steps % self._steps_per_tick):
            raise ValueError(steps)
        self._kept.append(data)
        return ReceivedStates(tuple((steps // self._steps_per_tick).tolist()))

    def _contact(self, values: tuple[int | float, ...]) -> SubprocessContact:
        step, actor, other, x, y, z = values
        if {actor, other} - {-1} - self._numbers or actor == -1:
            raise ValueError(actor)
        tick = -(-int(step) // self._steps_per_tick)
        return SubprocessContact(tick, int(actor), None if other < 0 else int(other), (x, y, z))

    def cars(self) -> NDArray[Any]:
        """Return what was told, [tick, car], in the engine's own numbers; one that is no number is an error."""
        cars: NDArray[Any] = np.frombuffer(b"".join(self._kept), self._tick)["cars"]
        for name in cars.dtype.names or ():
            broken = ~np.isfinite(cars[name]).reshape(len(cars), -1).all(axis=1)
            if broken.any():
                raise SimulatorError(f"{self._engine} wrote a state at tick {int(np.argmax(broken)) + 1} that is not a number")
        return cars


class ProjectProcess:
    """An engine that was started with a project of ours in it; it has said the first line.

    ``helpers`` are processes that the run needs: where one of them is gone, that is the reason for whatever went wrong.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        timeout_s: float,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        scratch: Path | None = None,
        helpers: Sequence[EngineProcess] = (),
    ) -> None:
        self._longest_s, self._helpers = timeout_s, tuple(helpers)
        self.process = EngineProcess(name, command, folder=folder, environment=environment, scratch=scratch)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        self.process.end_of_input()
        for _ in range(_BANNER_LINES):
            line = self.process.line(max(self._longest_s, _START_S))
            if line is None:
                self.process.finish(_END_S)
                break
            if line == GREETING:
                return
        raise self.process.trouble("did not start the project")

    def line(self) -> bytes:
        """Return the next line; silence, or an end without a word, is an error."""
        line = self.process.line(self._longest_s)
        if line is None:
            self.finish()
            raise SimulatorError(f"{self.process.name} ended before the run did")
        return line

    def finish(self) -> None:
        """Wait for a good end; the helpers must still be there."""
        self.check_helpers()
        self.process.finish(_END_S)

    def check_helpers(self) -> None:
        """Fail where a helper has ended."""
        for helper in self._helpers:
            if not helper.running:
                raise helper.trouble("ended before the run did")

    def follow(self, reader: TraceReader, on_tick: Callable[[int], None]) -> RunSummary:
        """Read a run from its first tick to its end, and wait until the engine has ended too."""
        contacts: list[SubprocessContact] = []
        tick, frames, reason = 0, None, ""
        while not reason:
            line = self.line()
            try:
                item = reader.read(line)
            except SimulatorError:
                self.check_helpers()  # a line that was cut off has a reason
                raise
            if isinstance(item, ReceivedStates):
                for told in item.ticks:
                    if told != tick + 1:
                        raise SimulatorError(f"{self.process.name} wrote tick {told} where tick {tick + 1} was wanted")
                    tick = told
                    on_tick(tick)
            elif isinstance(item, SubprocessContact):
                contacts.append(item)
            elif isinstance(item, FrameStats):
                frames = item
            else:
                reason = item.reason
        if tick == 0:
            raise SimulatorError(f"{self.process.name} ended its run without a single state")
        self.finish()
        return RunSummary(tick, reason, tuple(contacts), frames)

    def close(self) -> None:
        """End everything that was started."""
        self.process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def first_contacts(contacts: Sequence[SubprocessContact]) -> list[SubprocessContact]:
    """Return when each pair first touched in the run, as the actor with the lower number felt it.

    Both cars of a pair may tell of it. Who touches already when the run begins is not counted.
    """
    met: set[tuple[int, int]] = set()
    found = []
    for contact in contacts:
        low, high = (contact.actor, -1) if contact.other is None else sorted((contact.actor, contact.other))
        if (low, high) in met:
            continue
        met.add((low, high))
        if contact.tick < 1:
            continue
        if contact.other is None or contact.actor < contact.other:
            found.append(contact)
        else:
            x, y, z = contact.impulse_ns
            found.append(SubprocessContact(contact.tick, contact.other, contact.actor, (-x, -y, -z)))
    return found


def record_contacts(recorder: Recorder, contacts: Sequence[SubprocessContact], last_tick: int) -> None:
    """Record when each pair first touched, at its tick or, where the run was over by then, at the last."""
    for contact in first_contacts(contacts):
        recorder.event(min(contact.tick, last_tick), "collision", contact.actor, contact.other, contact.impulse_ns)


def rows(cars: NDArray[Any], heights_m: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return states as float64[tick, car, channel], in the order of :data:`CHANNELS`.

    Numbers are widened, not rounded. ``heights_m`` is what the z that is told of each car is above the one that is meant.
    """
    real = np.moveaxis(cars["real"].astype(np.float64), -1, 0)
    x, y, z, fx, fy, fz, _, _, uz, _, _, lz, vx, vy, vz, wx, wy, wz = real
    # A turn that is one way round in a right-handed frame is the other way round in a left-handed one.
    angles = (atan2(lz, uz), atan2(fz, np.sqrt(fx * fx + fy * fy)), atan2(fy, fx), -wx, -wy, -wz)
    roll, pitch, yaw, *spin = (np.asarray(angle) * _DEG_PER_RAD for angle in angles)
    yaw = np.where(yaw < 180.0, yaw, yaw - 360.0)
    columns = (x, y, z - np.asarray(heights_m), roll, pitch, yaw, vx, vy, vz, *spin)
    return np.concatenate([np.stack(columns, axis=-1), cars["command"]], axis=-1)
