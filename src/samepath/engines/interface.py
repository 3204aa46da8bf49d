"""The interface every simulator is driven through: say what you are, run a scenario once into a recorder, let go.

An adapter subclasses :class:`Simulator` and implements ``info`` and ``run``; ``docs/simulators.md`` shows one in thirty lines.
Three bases do most of the work for engines that play our scripts: ``samepath.engines.in_process`` for those that are Python
packages, ``samepath.engines.subprocess.project`` for programs that a project of ours runs in, and ``samepath.engines.remote``
for programs that are reached over a socket. The functions here check requests and read settings for all of them: what a
simulator does not know is refused by its name, never ignored.

Commands of our scenarios' drivers are kept by the instrument as a :class:`CommandLog` and replayed by time as ``Decisions``;
:func:`log_of` and :func:`decisions_of` turn one into the other.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from samepath.core.channels import POSITION
from samepath.core.errors import InputError, SimulatorError, nearest, unknown
from samepath.core.inputs import InputLog
from samepath.instrument.traces.recorder import Recorder

if TYPE_CHECKING:
    from samepath.scenarios.agents import DecisionRecorder, Decisions

Scalar = str | float | int | bool

# How scenario files are named: ours, and the paper authors'.
SCENARIO_FILES: Final = (".yaml", ".yml", ".txt", ".csv", ".xosc")
# Built-in scenarios of two vehicles and nobody else: what engines are given that know no pedestrians.
CAR_SCENARIOS: Final = ("table1-test2", "table1-test1", "glancing")
# Why runs end, the first by ``RunRequest.duration_s``; the same words in every engine, so that traces can be compared.
DURATION: Final = "duration"
LAST_WAYPOINT: Final = "every actor reached its last waypoint"
FIRST_COLLISION: Final = "first collision"
TIME_OVER: Final = "simulated time is over"
_WHO_CAN: Final = "samepath simulators NAME tells what one replays"
# What drives an engine's time, the setting ``mode``: fixed steps as fast as they go, while nothing looks at the wall clock; or
# frames on the wall clock, with drivers asked once a frame, as games do it.
SYNCHRONOUS: Final = "synchronous"
GAME_LOOP: Final = "game-loop"


# What recorded commands are replayed for: everybody; the ego alone; or to show the recorded run to the ego's sensors.
REPLAY_ALL: Final = "all"
REPLAY_EGO: Final = "ego"
REPLAY_SIGHT: Final = "sight"


@dataclass(frozen=True)
class Capabilities:
    """What a simulator can do; the conformance kit holds it to every word.

    ``deterministic``: the same request gives the same bits, whichever repeat it is. ``lossless``: the recorder gets the
    simulator's own numbers, unrounded. ``collisions``: collisions are reported as events. ``durations``: a run ends at
    ``RunRequest.duration_s``. ``replays``: controllers' commands can be recorded, and replayed without the controllers.
    ``egos``: of recorded commands the ego's alone can be replayed, or the recorded run be shown to its sensors.
    ``inputs``: what goes into a run is taken down (``Recorder.inputs``), and a run can be played again from that alone.
    """

    deterministic: bool = False
    lossless: bool = True
    collisions: bool = False
    durations: bool = False
    replays: bool = False
    inputs: bool = False
    egos: bool = False


@dataclass(frozen=True)
class SimulatorInfo:
    """What a simulator is. ``settings`` lists every setting it knows, with its default.

    Where the wall clock drives it, ``time_scale`` is how many simulated seconds pass in a second of that clock; None where no
    clock does. ``frame_work_s`` is arithmetic in every frame that only stands for rendering. A spread that comes from late
    frames means little without the two, so that reports tell them beside it.
    """

    name: str
    version: str
    summary: str
    scenarios: tuple[str, ...]
    step_s: float
    channels: tuple[str, ...] = POSITION
    capabilities: Capabilities = Capabilities()
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    time_scale: float | None = None
    frame_work_s: float = 0.0


@dataclass(frozen=True)
class CommandLog:
    """What controllers decided: from ``time_s[i]`` (simulated) on, ``actors[i]`` is under command ``values[i]``.

    Entries are in order of time. ``channels`` names the values, in the simulator's own words and units.
    """

    channels: tuple[str, ...]
    time_s: tuple[float, ...]
    actors: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class RunRequest:
    """One repeat: what to run. Only ``repeat`` differs between the repeats of a cell.

    ``duration_s`` ends the run at that simulated time, if it has not ended before: see :func:`last_tick`. With ``commands`` no
    controller is asked: what they once decided is replayed, by simulated time; ``replay`` limits that to the ego
    (``REPLAY_EGO``), or to what the ego's sensors show, while everybody decides (``REPLAY_SIGHT``). With ``inputs`` a whole run
    is played again by its steps: neither a clock nor a controller nor chance is asked, so that nothing but the simulator's own
    work can differ.
    """

    scenario: str
    repeat: int
    seed: int = 0
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    duration_s: float | None = None
    commands: CommandLog | None = None
    inputs: InputLog | None = None
    replay: str = REPLAY_ALL


def no_tick(tick: int) -> None:
    """Do nothing: the default of ``on_tick``."""


class Simulator(ABC):
    """A simulator. Constructing one must be cheap and must not fail where the engine is missing; :meth:`run` may."""

    @abstractmethod
    def info(self) -> SimulatorInfo:
        """Describe the simulator, without starting it."""

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe the simulator as it is under ``settings``, where its version, step, scenarios or channels depend on them.

        Starts no run, and does not fail where the engine is missing; settings that cannot be are refused.
        """
        return self.info()

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say in one line why no run is possible here and what to do, such as what to install; nothing where one is.

        Asked before a study begins, so it is quick: is the engine there, in a version that is supported?
        """
        return ""

    @abstractmethod
    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario from its start to its end, once.

        Announce actors, record a state per tick and actor and every event, call ``on_tick`` after each tick, and end with
        ``recorder.end(tick, reason)``. A run must not depend on any run before it.
        """

    def prepare(self, request: RunRequest) -> None:  # noqa: B027 - most simulators have nothing to prepare
        """Load what every run of ``request`` needs and none changes: code, maps, meshes. Start nothing, draw no chance.

        Called once in the process that workers are forked from, so that each of them need not do it again.
        """

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Run once with the controllers in the loop and return what they decided; only with the capability ``replays``."""
        raise SimulatorError(f"{self.info().name} cannot record its controllers' commands: leave out controller=replayed")

    def close(self) -> None:  # noqa: B027 - most simulators hold nothing between runs
        """Let go of everything; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_request(info: SimulatorInfo, request: RunRequest) -> dict[str, Scalar]:
    """Return the settings of a request with defaults filled in; refuse what the simulator does not know or cannot do."""
    if request.scenario not in info.scenarios:
        raise unknown(f"scenario of {info.name}", request.scenario, info.scenarios)
    for name in request.settings:
        if name not in info.settings:
            raise unknown(f"setting of {info.name}", name, info.settings)
    _check_abilities(info, request)
    return {**info.settings, **request.settings}


def check_scripted_request(info: SimulatorInfo, request: RunRequest) -> dict[str, Scalar]:
    """Do the same for a simulator that also takes the path of a scenario file; whether that is a good one, reading it tells."""
    is_file = request.scenario not in info.scenarios and request.scenario.endswith(SCENARIO_FILES)
    return check_request(info, replace(request, scenario=info.scenarios[0]) if is_file else request)


def _check_abilities(info: SimulatorInfo, request: RunRequest) -> None:
    duration_s = request.duration_s
    if duration_s is not None and not (math.isfinite(duration_s) and duration_s > 0):
        raise InputError(f"duration: a time above 0 s was wanted, but {duration_s} came")
    if duration_s is not None and not info.capabilities.durations:
        raise SimulatorError(f"{info.name} cannot end a run at a time of ours: leave out the duration")
    if request.commands is not None and not info.capabilities.replays:
        raise SimulatorError(f"{info.name} cannot replay commands: leave out controller=replayed")
    if request.commands is not None and request.replay != REPLAY_ALL and not info.capabilities.egos:
        raise SimulatorError(f"{info.name} cannot replay commands for an ego alone: choose controller in-loop or replayed")
    if request.inputs is not None and not info.capabilities.inputs:
        raise SimulatorError(f"{info.name} cannot play a run again from what went into it: {_WHO_CAN}")


def last_tick(info: SimulatorInfo, request: RunRequest) -> int | None:
    """Return the tick at which ``duration_s`` ends the run, the first one at or after that time; None without a duration.

    The run ends with ``recorder.end(tick, DURATION)`` and counts as completed.
    """
    if request.duration_s is None:
        return None
    return max(1, math.ceil(request.duration_s / info.step_s - 1e-9))


def word(values: Mapping[str, Scalar], name: str) -> str:
    """Return the setting ``name``, a text that is not empty. These functions refuse any other value by the setting's name."""
    value = values[name]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name}: a word was wanted, but {value!r} came")
    return value.strip()


def choice(values: Mapping[str, Scalar], name: str, known: tuple[str, ...]) -> str:
    """Return one of some words; any other is answered with the nearest."""
    value = values[name]
    if value not in known:
        near = nearest(str(value), known)
        hint = f"; did you mean {near}?" if near else ""
        raise InputError(f"{name}: {' or '.join(known)} was wanted, but {value!r} came{hint}")
    return str(value)


def switch(values: Mapping[str, Scalar], name: str) -> bool:
    """Return true or false."""
    value = values[name]
    if not isinstance(value, bool):
        raise InputError(f"{name}: true or false was wanted, but {value!r} came")
    return value


def number(values: Mapping[str, Scalar], name: str, least: float, most: float) -> float:
    """Return a finite number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name}: a number from {least:g} to {most:g} was wanted, but {value!r} came")
    return float(value)


def one_of(values: Mapping[str, Scalar], name: str, known: tuple[int, ...]) -> int:
    """Return one of some whole numbers."""
    value = number(values, name, known[0], known[-1])
    if value not in known:
        *first, last = map(str, known)
        raise InputError(f"{name}: {', '.join(first)} or {last} was wanted, but {values[name]!r} came")
    return int(value)


def whole(values: Mapping[str, Scalar], name: str, least: int, most: int) -> int:
    """Return a whole number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not least <= value <= most or value != int(value):
        raise InputError(f"{name}: a whole number from {least} to {most} was wanted, but {value!r} came")
    return int(value)


class Preset(Simulator):
    """``simulator`` with other defaults and, if any are given, only some of its ``scenarios``.

    What it knows and can do stays the same; what it does when nothing is asked for is ``settings``.
    """

    def __init__(self, simulator: Simulator, settings: Mapping[str, Scalar], scenarios: Sequence[str] = ()) -> None:
        self._simulator = simulator
        known = simulator.info()
        for name in settings:
            if name not in known.settings:
                raise unknown(f"setting of {known.name}", name, known.settings)
        info = simulator.described(settings)
        for name in scenarios:
            if name not in info.scenarios:
                raise unknown(f"scenario of {info.name}", name, info.scenarios)
        self._settings = dict(settings)
        self._scenarios = tuple(dict.fromkeys(scenarios)) or info.scenarios

    def info(self) -> SimulatorInfo:
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        info = self._simulator.described({**self._settings, **settings})
        return replace(info, settings={**info.settings, **self._settings}, scenarios=self._scenarios)

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        return self._simulator.unavailable({**self._settings, **settings})

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        self._simulator.run(self._with_defaults(request), recorder, on_tick)

    def prepare(self, request: RunRequest) -> None:
        self._simulator.prepare(self._with_defaults(request))

    def record_commands(self, request: RunRequest) -> CommandLog:
        return self._simulator.record_commands(self._with_defaults(request))

    def close(self) -> None:
        self._simulator.close()

    def _with_defaults(self, request: RunRequest) -> RunRequest:
        return replace(request, settings={**self._settings, **request.settings})


# An interval of logged ticks that no run reaches: where only the commands are wanted, no state is kept.
NEVER: Final = 1 << 62


def log_of(decisions: "DecisionRecorder") -> CommandLog:
    """Return what was decided as the instrument keeps it: the same columns under other names."""
    from samepath.scenarios.agents import CHANNELS

    found = decisions.decisions
    return CommandLog(CHANNELS, tuple(found.time_s), tuple(found.actors), tuple(tuple(values) for values in found.values))


def decisions_of(log: CommandLog | None) -> "Decisions | None":
    """Return a log as it is replayed; one of another simulator is refused by its channels."""
    from samepath.scenarios.agents import CHANNELS, Decisions

    if log is None:
        return None
    if tuple(log.channels) != CHANNELS:
        came = ", ".join(log.channels) or "none"
        raise InputError(f"commands: the channels {', '.join(CHANNELS)} were wanted, but {came} came: record them again")
    return Decisions(log.time_s, log.actors, log.values)
