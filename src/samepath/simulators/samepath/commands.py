"""Between the instrument's log of commands and the simulator's own decisions: the same columns under two names."""

from typing import Any, Final, Protocol

from samepath.base.errors import InputError
from samepath.simulators.interface import CommandLog, RunRequest, SimulatorInfo
from samepath.traces.recorder import Recorder

_NEVER: Final = 1 << 62


class Taped(Protocol):
    """A simulator that lets a tape run along."""

    def info(self) -> SimulatorInfo:
        """Describe the simulator."""

    def run_with_tape(self, request: RunRequest, recorder: Recorder, tape: Any) -> None:  # noqa: ANN401
        """Run a scenario; a tape takes down what the controllers decide."""


def recorded(simulator: Taped, request: RunRequest) -> CommandLog:
    """Run once, keeping no states, and return what the controllers decided."""
    from samepath.sim.control.replay import Tape

    info, tape = simulator.info(), Tape()
    simulator.run_with_tape(request, Recorder(request.repeat, info.channels, info.step_s, _NEVER), tape)
    return log_of(tape)


def log_of(tape: Any) -> CommandLog:  # noqa: ANN401 - importing the type would import the simulator
    """Return what a tape has taken down, as the instrument keeps it."""
    from samepath.sim.control.replay import CHANNELS

    found = tape.decisions
    return CommandLog(CHANNELS, found.time_s, found.actors, found.values)


def decisions_of(log: CommandLog | None) -> Any:  # noqa: ANN401
    """Return a log as the simulator takes it; one of another simulator is refused by its channels."""
    from samepath.sim.control.replay import CHANNELS, Decisions

    if log is None:
        return None
    if tuple(log.channels) != CHANNELS:
        came = ", ".join(log.channels) or "none"
        raise InputError(f"commands: the channels {', '.join(CHANNELS)} were wanted, but {came} came: record them again")
    return Decisions(log.time_s, log.actors, log.values)
