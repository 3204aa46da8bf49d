"""A simulator that fails at its third repeat."""

from samepath.base.errors import SimulatorError
from samepath.simulators.interface import Simulator, SimulatorInfo, no_tick


class Broken(Simulator):
    def info(self):
        return SimulatorInfo("broken", "1", "fails at repeat 2", ("s",), 0.1, ("x_m", "y_m"))

    def run(self, request, recorder, on_tick=no_tick):
        if request.repeat == 2:
            raise SimulatorError("engine on fire")
        recorder.actor(1, "car")
        recorder.state(1, 1, {"x_m": 0.0, "y_m": 0.0})
        recorder.end(1, "done")
