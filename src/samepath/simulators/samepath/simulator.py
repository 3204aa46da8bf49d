"""The adapter of the embedded simulator: scenarios in lockstep, every state and event recorded unrounded."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from samepath import __version__
from samepath.base.errors import SimulatorError
from samepath.simulators.interface import (
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_request,
    no_tick,
)
from samepath.traces.channels import STANDARD, VEHICLE_CONTROL, WALKER_CONTROL
from samepath.traces.recorder import Recorder

STEP_S: Final = 0.05
CONTROL: Final = (*VEHICLE_CONTROL, *WALKER_CONTROL)
SETTINGS: Final[Mapping[str, Scalar]] = {
    "step_s": STEP_S,
    "substeps": 0,
    "solver_iterations": 4,
    "physics_threads": 0,
    "grid_m": 0.25,
    "queue": "stable",
}


class Samepath(Simulator):
    """The simulator that repeats itself. A scenario is one of its own, or the path of a file."""

    def info(self) -> SimulatorInfo:
        """Describe the simulator."""
        from samepath.sim.scenarios.model import built_in_scenarios

        return SimulatorInfo(
            name="samepath",
            version=__version__,
            summary="deterministic driving world, lockstep",
            scenarios=tuple(built_in_scenarios()),
            step_s=STEP_S,
            channels=STANDARD,
            capabilities=Capabilities(deterministic=True, lossless=True, collisions=True),
            settings=SETTINGS,
        )

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in lockstep."""
        from samepath.sim.scenarios.simulation import Simulation, settings_from

        info = self.info()
        known = request.scenario in info.scenarios or not request.scenario.endswith((".yaml", ".yml", ".txt", ".csv"))
        values = check_request(
            info, request if known else RunRequest(info.scenarios[0], request.repeat, settings=request.settings)
        )
        scenario = checked_scenario(request.scenario)
        per_tick = steps_per_tick(float(values["step_s"]))
        simulation = Simulation(scenario, settings_from(values, request.seed))
        try:
            _record(simulation, recorder, on_tick, per_tick)
        finally:
            simulation.close()


@cache
def checked_scenario(name: str) -> Any:  # noqa: ANN401 - importing the type would import the simulator
    """Load a scenario and hold it against its map; once per process."""
    from samepath.sim.scenarios.model import load_scenario
    from samepath.sim.scenarios.simulation import check_on_map

    scenario = load_scenario(name)
    check_on_map(scenario)
    return scenario


def steps_per_tick(step_s: float) -> int:
    """The trace's tick is always 0.05 s, so that cells with other steps can be compared; the step must divide it."""
    steps = round(STEP_S / step_s) if step_s > 0 else 0
    if steps < 1 or abs(steps * step_s - STEP_S) > 1e-12:
        raise SimulatorError(f"step_s: a whole part of {STEP_S} s was wanted, such as 0.05, 0.025 or 0.01, but {step_s} came")
    return steps


def _record(simulation: Any, recorder: Recorder, on_tick: Callable[[int], None], per_tick: int) -> None:  # noqa: ANN401
    world = simulation.world
    for actor in world.actors:
        recorder.actor(actor.id, actor.type)
    ended: str | None = None
    while ended is None:
        result = simulation.step()
        record_step(simulation, result, recorder, on_tick, per_tick)
        ended = result.ended


def record_step(
    simulation: Any,  # noqa: ANN401
    result: Any,  # noqa: ANN401
    recorder: Recorder,
    on_tick: Callable[[int], None],
    per_tick: int,
) -> None:
    """Record what a fixed step brought, of which there are ``per_tick`` in a tick of the trace."""
    tick = -(-result.tick // per_tick)
    if result.tick % per_tick == 0 or result.ended:
        _record_states(simulation, recorder, tick)
    record_events(result, recorder, tick)
    if result.tick % per_tick == 0 or result.ended:
        on_tick(tick)
    if result.ended:
        recorder.end(tick, result.ended)


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
    ids = [one.id for one in simulation.world.actors]
    rows = []
    for number in ids:
        control = control_of(simulation, number)
        rows.append([*simulation.world.state_row(number), *(control.get(name, math.nan) for name in CONTROL)])
    recorder.rows(tick, ids, rows)


def control_of(simulation: Any, number: int) -> dict[str, float]:  # noqa: ANN401
    """The command that led to this state, in the trace's channels."""
    command = simulation.commands.get(number)
    if command is None:
        return {}
    fields = command.__dict__
    if "throttle" in fields:
        values = (fields["throttle"], fields["steer"], fields["brake"], float(fields["hand_brake"]), float(fields["reverse"]))
        return dict(zip(VEHICLE_CONTROL, (*values, float(simulation.world.gear(number))), strict=True))
    return dict(zip(WALKER_CONTROL, (fields["direction_x"], fields["direction_y"], 0.0, fields["speed_mps"]), strict=True))
