"""The adapter of the embedded simulator: scenarios in lockstep, every state and event recorded unrounded."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from samepath import __version__
from samepath.base.errors import SimulatorError
from samepath.simulators.interface import (
    Capabilities,
    CommandLog,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    last_tick,
    no_tick,
)
from samepath.simulators.samepath.commands import decisions_of, recorded
from samepath.simulators.samepath.sensing import SETTINGS as SENSOR_SETTINGS
from samepath.simulators.samepath.sensing import Sensing, load_sensors
from samepath.traces.channels import STANDARD, VEHICLE_CONTROL, WALKER_CONTROL
from samepath.traces.recorder import Recorder

STEP_S: Final = 0.05
CONTROL: Final = (*VEHICLE_CONTROL, *WALKER_CONTROL)
_NO_CONTROL: Final = [math.nan] * len(CONTROL)
SETTINGS: Final[Mapping[str, Scalar]] = {
    "step_s": STEP_S,
    "substeps": 0,
    "solver_iterations": 4,
    "physics_threads": 0,
    "grid_m": 0.25,
    "queue": "stable",
    "frame_cost_s": 0.0,
    **SENSOR_SETTINGS,
}


class Samepath(Simulator):
    """The simulator that repeats itself. A scenario is one of its own, or the path of a file."""

    def info(self) -> SimulatorInfo:
        """Describe the simulator."""
        return describe("samepath", "deterministic driving world, lockstep", SETTINGS, deterministic=True)

    def prepare(self, request: RunRequest) -> None:
        """Load the scenario and its map, and how it looks if there are sensors."""
        load_scenery(request.scenario, request.settings)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in lockstep."""
        self.run_with_tape(request, recorder, None, on_tick)

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Run once and return what the controllers decided."""
        return recorded(self, request)

    def run_with_tape(
        self,
        request: RunRequest,
        recorder: Recorder,
        tape: Any,  # noqa: ANN401 - importing the type would import the simulator
        on_tick: Callable[[int], None] = no_tick,
    ) -> None:
        """Run a scenario; a tape takes down what the controllers decide."""
        from samepath.sim.scenarios.settings import number, settings_from
        from samepath.sim.scenarios.simulation import Simulation
        from samepath.sim.sources.frame_work import frame_work

        values = check_scripted_request(self.info(), request)
        settings = settings_from(values, request.seed, run_time_s(self.info(), request))
        per_tick = steps_per_tick(number(values, "step_s"))
        work = frame_work(number(values, "frame_cost_s", 0.0))
        scenario = checked_scenario(request.scenario)
        simulation = Simulation(scenario, settings, decisions=decisions_of(request.commands), tape=tape)
        sensing = Sensing(simulation, recorder, values, STEP_S)
        try:
            for actor in simulation.world.actors:
                recorder.actor(actor.id, actor.type)
            ended = None
            while ended is None:
                result = simulation.step()
                sensing.after_step()
                tick, ended = record_step(simulation, result, recorder, on_tick, per_tick), result.ended
                work()
            recorder.end(tick, ended)
        finally:
            sensing.close()
            simulation.close()


def describe(name: str, summary: str, settings: Mapping[str, Scalar], *, deterministic: bool) -> SimulatorInfo:
    """Describe the embedded simulator under one of its names."""
    from samepath.sim.scenarios.model import built_in_scenarios

    return SimulatorInfo(
        name=name,
        version=__version__,
        summary=summary,
        scenarios=tuple(built_in_scenarios()),
        step_s=STEP_S,
        channels=STANDARD,
        capabilities=Capabilities(deterministic=deterministic, lossless=True, collisions=True, durations=True, replays=True),
        settings=settings,
    )


def run_time_s(info: SimulatorInfo, request: RunRequest) -> float | None:
    """Return the simulated time of the tick at which a request's duration ends the run."""
    tick = last_tick(info, request)
    return None if tick is None else tick * STEP_S


@cache
def checked_scenario(name: str) -> Any:  # noqa: ANN401 - importing the type would import the simulator
    """Load a scenario and hold it against its map; once per process."""
    from samepath.sim.scenarios.model import load_scenario
    from samepath.sim.scenarios.simulation import check_on_map

    scenario = load_scenario(name)
    check_on_map(scenario)
    return scenario


def load_scenery(scenario: str, settings: Mapping[str, Scalar]) -> None:
    """Load the code, a scenario, and its map in the form that physics takes; later runs in this process find them there."""
    from samepath.sim.scenarios.simulation import Arrangement

    Arrangement().statics(checked_scenario(scenario).map)
    load_sensors(checked_scenario(scenario), settings)


def steps_per_tick(step_s: float) -> int:
    """The trace's tick is always 0.05 s, so that cells with other steps can be compared; the step must divide it."""
    steps = round(STEP_S / step_s) if step_s > 0 else 0
    if steps < 1 or abs(steps * step_s - STEP_S) > 1e-12:
        raise SimulatorError(f"step_s: a whole part of {STEP_S} s was wanted, such as 0.05, 0.025 or 0.01, but {step_s} came")
    return steps


def record_step(
    simulation: Any,  # noqa: ANN401
    result: Any,  # noqa: ANN401
    recorder: Recorder,
    on_tick: Callable[[int], None],
    per_tick: int,
) -> int:
    """Record what a fixed step brought, of which there are ``per_tick`` in a tick of the trace; return that tick."""
    tick: int = -(-result.tick // per_tick)
    if result.tick % per_tick == 0 or result.ended:
        _record_states(simulation, recorder, tick)
    record_events(result, recorder, tick)
    if result.tick % per_tick == 0 or result.ended:
        on_tick(tick)
    return tick


def record_events(result: Any, recorder: Recorder, tick: int) -> None:  # noqa: ANN401
    """Record a step's collisions and who was destroyed."""
    for one in result.collisions:
        impulse = (one.impulse_ns.x, one.impulse_ns.y, one.impulse_ns.z)
        recorder.event(tick, "collision", one.actor, one.other, impulse, one.scenery)
    for number in result.destroyed:
        recorder.event(tick, "destroy", number)


def _record_states(simulation: Any, recorder: Recorder, tick: int) -> None:  # noqa: ANN401
    if not recorder.wants(tick):
        return
    ids = list(simulation.world.states())
    recorder.rows(tick, ids, [[*simulation.world.state_row(number), *_control_row(simulation, number)] for number in ids])


def control_of(simulation: Any, number: int) -> dict[str, float]:  # noqa: ANN401
    """The command that led to this state, in the trace's channels."""
    row = _control_row(simulation, number)
    return {name: value for name, value in zip(CONTROL, row, strict=True) if not math.isnan(value)}


def _control_row(simulation: Any, number: int) -> list[float]:  # noqa: ANN401
    """The same in the order of ``CONTROL``; NaN where a channel does not apply."""
    command = simulation.commands.get(number)
    if command is None:
        return _NO_CONTROL
    if hasattr(command, "throttle"):
        pedals = (command.throttle, command.steer, command.brake, float(command.hand_brake), float(command.reverse))
        return [*pedals, float(simulation.world.gear(number)), *_NO_CONTROL[len(VEHICLE_CONTROL) :]]
    return [*_NO_CONTROL[: len(VEHICLE_CONTROL)], command.direction_x, command.direction_y, 0.0, command.speed_mps]
