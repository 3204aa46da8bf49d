"""One episode of any environment, from its reset to its end; and what can be known of an environment before.

After each step a reader is called with the environment and its observation; it returns actors by number, each with its
channels. Ours know highway-env's vehicles and take plain numbers of any other environment; a study may name a reader of its
own.

A file of its own beside ``engine.py``, which plays our scripts among highway-env's vehicles: this one needs no highway-env.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import count
from math import hypot
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, SamepathError, SimulatorError
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.core.streams import stream
from samepath.engines.gymnasium.simulator import CONSTANT, RANDOM, CoordinateSource, EnvironmentSettings
from samepath.engines.interface import DURATION
from samepath.instrument.traces.recorder import Recorder

# Environments share no type that says what they are, and observe whatever they like.
Environment = Any
Observation = Any
EnvironmentAction = Any
States = Mapping[int, Mapping[str, float]]
StateReader = Callable[[Environment, Observation], States]

# Numbers of an observation that become channels of their own; all of a longer one are recorded as a sensor's digest.
MOST_CHANNELS: Final = 64
CRASHED: Final = "crashed_bool"
ACTION: Final = "action"
REWARD: Final = ("reward_ratio", "terminated_bool")
_LARGEST_SEED: Final = 2**31
HIGHWAY_CHANNELS: Final = ("x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps", CRASHED)


# pygame, which some environments import, greets on stdout unless asked not to.
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def flat(observation: Observation) -> NDArray[np.float64]:
    """Return all numbers of an observation in a row; single precision is widened, nothing is rounded."""
    if isinstance(observation, Mapping):
        parts = [flat(part) for part in observation.values()]
    elif isinstance(observation, list | tuple):
        parts = [flat(part) for part in observation]
    else:
        try:
            return np.asarray(observation, np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise SimulatorError(f"an observation of numbers was wanted, but {type(observation).__name__} came") from error
    return np.concatenate(parts) if parts else np.zeros(0)


def is_highway(environment: Environment) -> bool:
    """Has it a road with vehicles, as highway-env's have?"""
    return isinstance(getattr(getattr(environment.unwrapped, "road", None), "vehicles", None), list)


def reader_of(environment: Environment, settings: EnvironmentSettings) -> StateReader:
    """Return a fresh reader for an environment."""
    if settings.reader:
        return _own(settings.reader)
    return HighwayReader() if is_highway(environment) else ObservationReader(settings.x, settings.y)


def _own(name: str) -> StateReader:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"reader: {name} cannot be loaded: {error}") from error
    if isinstance(found, type):
        found = found()
    if not callable(found):
        raise InputError(f"reader: a function was wanted, but {name} is none")
    return found  # type: ignore[no-any-return] # the user's


class HighwayReader:
    """Every vehicle on highway-env's road, numbered in the order in which they appear."""

    def __init__(self) -> None:
        self._known: list[Any] = []  # also keeps those who left, so that no other gets their identity
        self._numbers: dict[int, int] = {}

    def __call__(self, environment: Environment, observation: Observation) -> States:
        """Read where everybody is."""
        states = {}
        for vehicle in environment.unwrapped.road.vehicles:
            number = self._numbers.get(id(vehicle))
            if number is None:
                self._known.append(vehicle)
                number = self._numbers[id(vehicle)] = len(self._known)
            (x, y), (vx, vy) = vehicle.position.tolist(), vehicle.velocity.tolist()
            yaw = math.degrees(math.remainder(vehicle.heading, math.tau))
            states[number] = dict(zip(HIGHWAY_CHANNELS, (x, y, yaw, vx, vy, float(vehicle.crashed)), strict=True))
        return dict(sorted(states.items()))


class ObservationReader:
    """One actor, whose channels are the numbers of the observation."""

    def __init__(self, x: CoordinateSource, y: CoordinateSource) -> None:
        self._x, self._y = x, y

    def __call__(self, environment: Environment, observation: Observation) -> States:
        """Read the observation."""
        values = flat(observation).tolist()
        named = {f"observation_{index}_ratio": value for index, value in enumerate(values[:MOST_CHANNELS])}
        return {1: {"x_m": _at(self._x, values, "x"), "y_m": _at(self._y, values, "y"), **named}}


def _at(axis: CoordinateSource, values: list[float], name: str) -> float:
    if axis.index is None:
        return axis.value
    if axis.index >= len(values):
        raise InputError(f"{name}: the observation has {len(values)} numbers, but observation[{axis.index}] was wanted")
    return values[axis.index]


@dataclass(frozen=True)
class EnvironmentShape:
    """What an environment is like: the channels of its actors, and how long a step is."""

    channels: tuple[str, ...]
    step_s: float


@contextmanager
def simulator_errors(name: str) -> Iterator[None]:
    """Turn whatever an environment raises into one line."""
    try:
        yield
    except SamepathError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise SimulatorError(f"environment {name}: {type(error).__name__}: {words}") from error


def make(settings: EnvironmentSettings) -> Environment:
    """Make an environment of our own; one that cannot be is refused."""
    try:
        if settings.module:
            import_module(settings.module)
        return gymnasium.make(settings.environment, disable_env_checker=True, **settings.keywords)
    except Exception as error:
        words = " ".join(str(error).split())
        raise InputError(f"environment: {settings.environment} cannot be made: {type(error).__name__}: {words}") from error


@cache
def shape_of(settings: EnvironmentSettings) -> EnvironmentShape:
    """Make an environment, reset it and look; nothing of it is kept."""
    environment = make(settings)
    with simulator_errors(settings.environment):
        try:
            observation, _ = environment.reset(seed=0)
            states = reader_of(environment, settings)(environment, observation)
            step_s = settings.step_s or _step_s(environment.unwrapped)
            _actions(environment, settings, 0)  # one that cannot be done is refused
        finally:
            environment.close()
    channels = dict.fromkeys(name for state in states.values() for name in state)
    return EnvironmentShape((*channels, *REWARD), step_s)


def _step_s(environment: Environment) -> float:
    """Ask how long a step is, in the words that are in use; 1 s where nobody says."""
    config = getattr(environment, "config", None)
    if isinstance(config, Mapping) and config.get("policy_frequency"):
        return 1.0 / float(config["policy_frequency"])
    for name in ("dt", "tau"):
        value = getattr(environment, name, None)
        if isinstance(value, float | int) and value > 0:
            return float(value)
    return 1.0


class EnvironmentEpisode:
    """An environment that is being run. ``last_tick`` ends it sooner; with ``inputs`` the actions of another run are done."""

    def __init__(
        self,
        settings: EnvironmentSettings,
        seed: int,
        recorder: Recorder,
        last_tick: int | None,
        inputs: InputLog | None = None,
    ) -> None:
        self._fed = inputs
        self._settings, self._recorder, self._last_tick = settings, recorder, last_tick
        self._seed = seed % _LARGEST_SEED
        self._is_in_channels = _is_in(recorder.channels)
        self._here: set[int] = set()
        self._crashed: set[int] = set()

    def play(self, on_tick: Callable[[int], None]) -> None:
        """Play from the reset to the end."""
        settings = self._settings
        environment = make(settings)
        with simulator_errors(settings.environment):
            try:
                act = _actions(environment, settings, self._seed)
                if self._fed is not None:
                    act = _fed_actions(environment, self._fed)
                observation, _ = environment.reset(seed=self._seed if settings.seeded else None)
                read = reader_of(environment, settings)
                read(environment, observation)  # whoever numbers actors begins with those who are there at the start
                self._steps(environment, act, read, on_tick)
            finally:
                environment.close()

    def _steps(
        self, environment: Environment, act: Callable[[], EnvironmentAction], read: StateReader, on_tick: Callable[[int], None]
    ) -> None:
        tick, reason = 0, ""
        log, told = InputLog(covers=frozenset({InputKind.STEP, InputKind.COMMAND})), b""
        while not reason:
            tick += 1
            action = act()
            values = _numbers(action)
            if values is None:
                log.covers = frozenset({InputKind.STEP})
            elif values.tobytes() != told:
                told = values.tobytes()
                log.add(Input(tick - 1, InputKind.COMMAND, ACTION, None, tuple(values.tolist()), decided_step=tick - 1))
            observation, reward, terminated, truncated, _ = environment.step(action)
            if isinstance(reward, list | tuple | dict):
                kind, name = type(reward).__name__, self._settings.environment
                raise SimulatorError(f"environment {name}: one agent was wanted, but its reward is a {kind}")
            self._record(tick, read(environment, observation), float(reward), bool(terminated))
            if not self._is_in_channels and self._recorder.wants(tick):
                self._recorder.sensor(tick, "observation", "gymnasium.observation", flat(observation))
            on_tick(tick)
            reason = self._why_over(tick, bool(terminated), bool(truncated))
        self._recorder.inputs(log)
        self._recorder.end(tick, reason)

    def _why_over(self, tick: int, terminated: bool, truncated: bool) -> str:
        if tick == self._last_tick:
            return DURATION
        if terminated or truncated:
            return "terminated" if terminated else "truncated"
        return "episode_steps are over" if tick >= self._settings.episode_steps else ""

    def _announce(self, states: States, tick: int) -> None:
        for number in states:
            if number not in self._here:
                self._recorder.actor(number, f"gymnasium.{self._settings.environment}", tick if tick > 1 else 0)
        self._here.update(states)

    def _record(self, tick: int, states: States, reward: float, terminated: bool) -> None:
        """Record everybody; what the whole environment has goes with the first of them."""
        for number in sorted(self._here.difference(states)):
            self._recorder.event(tick - 1, "destroy", number)
            self._here.discard(number)
        self._announce(states, tick)
        common = dict(zip(REWARD, (reward, float(terminated)), strict=True))
        for number, state in states.items():
            self._recorder.state(tick, number, {**state, **common})
            common = {}
        self._note_crashes(tick, states)

    def _note_crashes(self, tick: int, states: States) -> None:
        """Environments tell who has crashed, not into whom: the nearest of those who have, or scenery."""
        crashed = {number for number, state in states.items() if state.get(CRASHED, 0.0) > 0.0}
        told: set[frozenset[int]] = set()
        for number in sorted(crashed - self._crashed):
            other = min(
                (actor for actor in crashed if actor != number),
                key=lambda actor, number=number: (_apart_m(states[number], states[actor]), actor),  # type: ignore[misc]
                default=None,
            )
            pair = frozenset({number} if other is None else {number, other})
            if pair not in told:
                told.add(pair)
                self._recorder.event(tick, "collision", number, other, (0.0, 0.0, 0.0))
        self._crashed |= crashed


def _numbers(action: EnvironmentAction) -> NDArray[np.float64] | None:
    """Return an action as it is taken down; None where it is no short row of numbers, such as an image or a text."""
    try:
        values = flat(action)
    except SimulatorError:
        return None
    return values if len(values) <= MOST_CHANNELS and np.isfinite(values).all() else None


def _is_in(channels: tuple[str, ...]) -> bool:
    """Do channels hold a whole observation? One more than there may be would have been left out."""
    return channels.count("observation_0_ratio") == 1 and f"observation_{MOST_CHANNELS - 1}_ratio" not in channels


def _apart_m(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    return hypot(a["x_m"] - b["x_m"], a["y_m"] - b["y_m"])


def _fed_actions(environment: Environment, log: InputLog) -> Callable[[], EnvironmentAction]:
    """Return what does the actions of a log: the last one that was listed holds."""
    space, steps = environment.action_space, count()
    listed = {entry.step: entry.values for entry in log if entry.kind is InputKind.COMMAND and entry.name == ACTION}
    held: list[tuple[float, ...]] = []

    def act() -> EnvironmentAction:
        held[:] = [listed.get(next(steps), held[0] if held else ())]
        if isinstance(space, gymnasium.spaces.Discrete) and len(held[0]) == 1:
            return int(held[0][0])
        if isinstance(space, gymnasium.spaces.Box) and len(held[0]) == np.prod(space.shape):
            return np.array(held[0], space.dtype).reshape(space.shape)
        raise InputError(f"inputs: an action of {space} was wanted, but {held[0]} came: such actions are not replayed")

    return act


def _actions(environment: Environment, settings: EnvironmentSettings, seed: int) -> Callable[[], EnvironmentAction]:
    """Return what decides each step's action."""
    space = environment.action_space
    if settings.actions == RANDOM:
        chance = stream(seed, "gymnasium", "actions")
        space.seed(int(chance.integers(_LARGEST_SEED)))
        return space.sample  # type: ignore[no-any-return]
    action = settings.action_value if settings.actions == CONSTANT else _idle(environment)
    if isinstance(space, gymnasium.spaces.Box):
        action = np.broadcast_to(np.asarray(action, space.dtype), space.shape)
    if not space.contains(action):
        raise InputError(f"action: one of {space} was wanted, but {action!r} came")
    return lambda: action


def _idle(environment: Environment) -> EnvironmentAction:
    """Doing nothing is 0 where actions are real numbers, and what highway-env calls IDLE; elsewhere nobody knows."""
    if isinstance(environment.action_space, gymnasium.spaces.Box):
        return 0.0
    indexes = getattr(getattr(environment.unwrapped, "action_type", None), "actions_indexes", {})
    if "IDLE" not in indexes:
        space = environment.action_space
        raise InputError(f"actions: idle is not known of {space}: take constant and an action, or random-stream")
    return indexes["IDLE"]
