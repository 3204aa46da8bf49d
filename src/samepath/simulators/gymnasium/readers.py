"""What is read of an environment after each step: actors by number, each with its channels.

A reader is called with the environment and its observation. Ours know highway-env and take plain numbers of any other; a study
may name one of its own.
"""

import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError, SimulatorError
from samepath.simulators.gymnasium.settings import Axis, EnvironmentSettings

States = Mapping[int, Mapping[str, float]]
Reader = Callable[[Any, Any], States]

# Numbers of an observation that become channels of their own; all of a longer one are recorded as a sensor's digest.
MOST_CHANNELS: Final = 64
CRASHED: Final = "crashed_bool"
HIGHWAY_CHANNELS: Final = ("x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps", CRASHED)


def flat(observation: Any) -> NDArray[np.float64]:  # noqa: ANN401 - whatever an environment observes
    """Return all numbers of an observation in a row; single precision is widened, nothing is rounded."""
    if isinstance(observation, Mapping):
        parts = [flat(one) for one in observation.values()]
    elif isinstance(observation, list | tuple):
        parts = [flat(one) for one in observation]
    else:
        try:
            return np.asarray(observation, np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise SimulatorError(f"an observation of numbers was wanted, but {type(observation).__name__} came") from error
    return np.concatenate(parts) if parts else np.zeros(0)


def is_highway(environment: Any) -> bool:  # noqa: ANN401
    """Has it a road with vehicles, as highway-env's have?"""
    return isinstance(getattr(getattr(environment.unwrapped, "road", None), "vehicles", None), list)


def reader_of(environment: Any, settings: EnvironmentSettings) -> Reader:  # noqa: ANN401
    """Return a fresh reader for an environment."""
    if settings.reader:
        return _own(settings.reader)
    return HighwayReader() if is_highway(environment) else ObservationReader(settings.x, settings.y)


def _own(name: str) -> Reader:
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

    def __call__(self, environment: Any, observation: Any) -> States:  # noqa: ANN401
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

    def __init__(self, x: Axis, y: Axis) -> None:
        self._x, self._y = x, y

    def __call__(self, environment: Any, observation: Any) -> States:  # noqa: ANN401
        """Read the observation."""
        values = flat(observation).tolist()
        named = {f"observation_{index}_ratio": value for index, value in enumerate(values[:MOST_CHANNELS])}
        return {1: {"x_m": _at(self._x, values, "x"), "y_m": _at(self._y, values, "y"), **named}}


def _at(axis: Axis, values: list[float], name: str) -> float:
    if axis.index is None:
        return axis.value
    if axis.index >= len(values):
        raise InputError(f"{name}: the observation has {len(values)} numbers, but observation[{axis.index}] was wanted")
    return values[axis.index]
