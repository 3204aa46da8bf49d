"""Perception in the loop: the sensors that controllers of a scenario look through, measured in the step they decide on.

An actor with a rig has a :class:`~samepath.simulator.sensors.rig.SensorSuite` of its own. It follows every step of the world,
and measures when its controller asks, at most once in a step: all who ask in one step are given the same arrays, and who does
not ask costs nothing. What it measures depends on the world and the step alone, so that it does not matter when in the step,
or whether before, somebody asked.

Controllers in a thread must not look at a world that moves on meanwhile. For them the loop measures before it hands the view
over (:meth:`Perception.look_now`), as an engine draws a frame before it sends it.

:meth:`Perception.given` is what controllers were given, for the trace: the digest of a frame that a decision was made from,
not of one that was drawn beside it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from samepath.core.clock import Stopwatch
from samepath.core.errors import SimulatorError
from samepath.core.states import Command
from samepath.scenarios.agents import SensorReading, no_sensors
from samepath.scenarios.model import ScenarioSpec
from samepath.simulator.sensors.rig import SensorSuite, boxes_of, load_rig
from samepath.simulator.sensors.sensor import require_sensors
from samepath.simulator.world.world import World

# Sensors that remember pictures: a snapshot, which holds numbers, could not give them back.
_REMEMBERING: Final = ("sensor.camera.dvs", "sensor.camera.optical_flow")

Readings = Mapping[str, SensorReading]


class Perception:
    """The rigs of all actors whose controllers look through one."""

    def __init__(self, scenario: ScenarioSpec, world: World, renderer: str) -> None:
        require_sensors()
        self._world = world
        self.timer = Stopwatch()
        """How long sensors took so far: the draw time of frames."""
        rigs = {spec.id: load_rig(spec.looks_through) for spec in scenario.actors if spec.looks_through is not None}
        boxes = boxes_of(scenario)
        self._suites = {
            number: SensorSuite(rig.model_copy(update={"actor": number}), world, boxes=boxes, renderer=renderer)
            for number, rig in rigs.items()
        }
        self._readings: dict[int, tuple[int, Readings]] = {}
        # Given out in the controllers' thread perhaps, and taken down in the loop's: a deque takes and gives at once.
        self._given: deque[tuple[int, Readings]] = deque()
        self._given_step: dict[int, int] = {}
        self._commands: Mapping[int, Command] = {}

    @classmethod
    def of(cls, scenario: ScenarioSpec, world: World, renderer: str) -> "Perception | None":
        """Return the perception of a scenario; None where nobody looks through anything."""
        return cls(scenario, world, renderer) if any(spec.looks_through for spec in scenario.actors) else None

    @property
    def drawn_by(self) -> dict[str, str]:
        """Who draws the pictures: the back end, and what they depend on beside the world."""
        return next(iter(self._suites.values())).drawn_by

    def follow(self, step_s: float | None, commands: Mapping[int, Command]) -> None:
        """Follow a step of the world, of the fixed length unless another is given; ``commands`` make lamps burn."""
        self._commands = commands
        with self.timer:
            for suite in self._suites.values():
                suite.follow(step_s, commands)

    def sensors(self, actor_id: int) -> Readings:
        """What an actor's sensors measure now, by name. Measured once in a step, whoever asks how often."""
        return self._give(actor_id, *self._measure(actor_id)) if actor_id in self._suites else no_sensors(actor_id)

    def _measure(self, actor_id: int) -> tuple[int, Readings]:
        step, kept = self._world.tick_count, self._readings.get(actor_id)
        if kept is None or kept[0] != step:
            with self.timer:
                kept = self._readings[actor_id] = step, self._measured(self._suites[actor_id], step)
        return kept

    def _give(self, actor_id: int, step: int, readings: Readings) -> Readings:
        if self._given_step.get(actor_id, -1) < step:
            self._given_step[actor_id] = step
            self._given.append((actor_id, readings))
        return readings

    def _measured(self, suite: SensorSuite, step: int) -> Readings:
        found = {}
        for measured in suite.measure(self._commands):
            measured.values.setflags(write=False)  # one array for all who look: nobody may scribble on it
            mounted = measured.sensor
            found[mounted.name] = SensorReading(
                mounted.name, mounted.type, step, self._world.time_s, mounted.pose, mounted.attributes, measured.values
            )
        return MappingProxyType(found)

    def look_now(self) -> Callable[[int], Readings]:
        """Measure for everybody at once; return what gives it out, also while the world goes on."""
        seen = {number: self._measure(number) for number in self._suites if number in self._world.states()}

        def sensors(actor_id: int) -> Readings:
            return self._give(actor_id, *seen[actor_id]) if actor_id in seen else no_sensors(actor_id)

        return sensors

    def given(self) -> Iterator[tuple[int, SensorReading]]:
        """Return what controllers were given since this was asked last, in that order, with whose it was."""
        while self._given:
            number, readings = self._given.popleft()
            for reading in readings.values():
                yield number, reading

    def to_plain(self) -> dict[str, Any]:
        """Return what the suites remember, as plain data."""
        for suite in self._suites.values():
            for sensor in suite.rig.sensors:
                if sensor.type in _REMEMBERING:
                    raise SimulatorError(f"sensor {sensor.name!r}: a {sensor.type} remembers pictures, which no snapshot holds")
        return {str(number): suite.to_plain() for number, suite in self._suites.items()}

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up what :meth:`to_plain` returned."""
        for number, suite in self._suites.items():
            suite.recall(plain[str(number)])

    def close(self) -> None:
        """Let go of the sensors."""
        for suite in self._suites.values():
            suite.close()
