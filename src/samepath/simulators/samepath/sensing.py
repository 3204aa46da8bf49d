"""Sensors in a run: a rig rides along, and what it sees is recorded tick by tick, as digests and now and then as a whole."""

import sys
from collections.abc import Mapping
from math import floor
from typing import Any, Final

from samepath.simulators.interface import Scalar
from samepath.traces.recorder import Recorder

SETTINGS: Final[Mapping[str, Scalar]] = {"sensors": "", "sensor_samples": 20, "renderer": "software"}
_SAMPLES_MOST: Final = 1_000_000
# Above the rounding of a sum of steps, far below any step.
_ROUNDING: Final = 1e-9


def _rig_of(values: Mapping[str, Scalar]) -> str:
    """The rig that rides along; empty if none does."""
    name = str(values.get("sensors", ""))
    return "" if name == "none" else name


class Sensing:
    """What a run does about sensors: :meth:`after_step` and :meth:`close`; without a rig, nothing.

    A sensor measures at the first step at or after a tick of the trace, if the recorder keeps that tick, and its frame is kept
    as a whole at every ``sensor_samples``-th of these.
    """

    def __init__(
        self,
        simulation: Any,  # noqa: ANN401 - importing the type would import the simulator
        recorder: Recorder,
        values: Mapping[str, Scalar],
        tick_s: float,
        last: int | None = None,
    ) -> None:
        from samepath.sim.scenarios.settings import whole

        self._samples_every = whole(values, "sensor_samples", 0, _SAMPLES_MOST) * recorder.log_every
        self._simulation = simulation
        self._recorder = recorder
        self._tick_s = tick_s
        self._most = sys.maxsize if last is None else last
        self._tick = 0
        self._suite: Any = None
        if _rig_of(values):
            from samepath.sim.sensors.extra import require_sensors

            require_sensors()
            from samepath.sim.sensors.rig import load_rig
            from samepath.sim.sensors.suite import Suite, boxes_of

            rig, boxes = load_rig(_rig_of(values)), boxes_of(simulation.scenario)
            self._suite = Suite(rig, simulation.world, boxes=boxes, renderer=str(values["renderer"]))
            if values["renderer"] != SETTINGS["renderer"]:
                # Pictures then depend on a driver: the trace says on which.
                told = "; ".join(f"{name} {value}" for name, value in self._suite.drawn_by.items())
                recorder.event(0, "renderer", detail=told)

    def after_step(self, step_s: float | None = None) -> None:
        """Follow a step, of the fixed length unless another is given, and measure if it reached a tick."""
        if self._suite is None:
            return
        self._suite.follow(step_s, self._simulation.commands)
        tick = floor(self._simulation.world.time_s / self._tick_s + _ROUNDING)
        if not self._tick < tick <= self._most:
            return
        self._tick = tick
        if self._recorder.wants(tick):
            keep = self._samples_every > 0 and tick % self._samples_every == 0
            for one in self._suite.measure(self._simulation.commands):
                self._recorder.sensor(tick, one.sensor.name, one.sensor.type, one.values, keep=keep)

    def close(self) -> None:
        """Let go of the sensors."""
        if self._suite is not None:
            self._suite.close()


def load_sensors(scenario: Any, values: Mapping[str, Scalar]) -> None:  # noqa: ANN401 - importing the type would import the simulator
    """Load what every run with these sensors needs: the map as it looks."""
    if _rig_of(values):
        from samepath.sim.sensors.extra import require_sensors

        require_sensors()
        from samepath.sim.maps import load_map
        from samepath.sim.sensors.renderer import check_renderer
        from samepath.sim.sensors.rig import load_rig
        from samepath.sim.sensors.street import street_of
        from samepath.sim.sensors.suite import boxes_of

        load_rig(_rig_of(values))
        check_renderer(str(values.get("renderer", SETTINGS["renderer"])))
        if scenario.map != "flat":
            street_of(load_map(scenario.map), boxes_of(scenario))
