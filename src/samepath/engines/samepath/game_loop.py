"""The adapter of the embedded simulator in game-loop time, with sources of non-determinism to switch on.

In lockstep and real-time mode every step is fixed and the trace holds the simulator's own numbers. In variable and semi-fixed
mode steps end when they end, while a trace has a tick of 0.05 s. There, a state at a tick is interpolated linearly between the
two steps around it, angles the short way round. On straight and steady motion that is exact; with acceleration a and steps of
T seconds it is off by at most a T^2 / 8 (0.3 mm for 1 m/s^2 and 0.05 s), the error of a chord. Controls are those of the
later step; events keep the tick at or after their time; an actor that is destroyed has no state after its last whole step.
A duration ends a run at its tick in every mode: what the last step brings beyond it is cut off, its events are of that tick.

Replayed commands hold from the simulated time on at which they were recorded. With fixed steps these are the steps of the
recorded run, whichever frame they fall into, so that its bits come back; steps that vary begin at other times, and take what
holds then.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Final

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.engines.interface import (
    CommandLog,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    last_tick,
    no_tick,
)
from samepath.engines.resampling import interpolated
from samepath.engines.samepath.simulator import (
    SETTINGS,
    STEP_S,
    Sensing,
    checked_scenario,
    control_of,
    decisions_of,
    describe,
    load_scenery,
    record_events,
    record_step,
    recorded,
    run_time_s,
    steps_per_tick,
)
from samepath.instrument.traces.recorder import Recorder

LOOP_SETTINGS: Final[Mapping[str, Scalar]] = {
    "mode": "variable",
    "time_scale": 20.0,
    "frame_cost_s": 0.001,
    "max_step_s": 0.1,
    "catch_up_steps": 5,
    "controllers": "inline",
    "sources": "",
    "gusts_n": 0.0,
    "panels": 0,
}
# Above the rounding of a sum of steps, far below any step.
_ROUNDING: Final = 1e-9


class SamepathGameLoop(Simulator):
    """The simulator as a game engine would run it; ``defaults`` replace those of the settings, ``clock`` the machine's."""

    def __init__(self, defaults: Mapping[str, Scalar] | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._defaults = {**SETTINGS, **LOOP_SETTINGS, **(defaults or {})}
        self._clock = clock

    def info(self) -> SimulatorInfo:
        """Describe the simulator."""
        summary = "driving world on the wall clock, as game engines run; varying steps are interpolated to 0.05 s ticks"
        return describe("samepath-game-loop", summary, self._defaults, deterministic=False)

    def prepare(self, request: RunRequest) -> None:
        """Load the scenario and its map."""
        from samepath.simulator import game_loop as loop  # noqa: F401 - not used yet, but there when a run begins
        from samepath.simulator import game_loop as table  # noqa: F401

        load_scenery(request.scenario, request.settings)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario frame by frame."""
        self.run_with_tape(request, recorder, None, on_tick)

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Run once, in the request's own mode, and return what the controllers decided."""
        return recorded(self, request)

    def run_with_tape(
        self,
        request: RunRequest,
        recorder: Recorder,
        tape: Any,  # noqa: ANN401 - importing the type would import the simulator
        on_tick: Callable[[int], None] = no_tick,
    ) -> None:
        """Run a scenario; a tape takes down what the controllers decide."""
        from samepath.simulator import game_loop as table
        from samepath.simulator.game_loop import GameLoop
        from samepath.simulator.simulation import Simulation, number, settings_from, whole

        info = self.info()
        values = check_scripted_request(info, request)
        until_s, last = run_time_s(info, request), last_tick(info, request)
        sources = table.parse_sources(str(values["sources"]))
        loop = table.loop_with(_loop_settings(values), sources)
        settings = table.simulation_with(settings_from(values, request.seed, until_s), sources)
        per_tick = steps_per_tick(number(values, "step_s"))
        gusts_n, panels = number(values, "gusts_n", 0.0), whole(values, "panels", 0, 1_000_000)
        scenario = checked_scenario(request.scenario)
        ticks = scenario.ticks if last is None else min(last, scenario.ticks)
        disturbances = table.disturbances_with(
            sources, gusts_n=gusts_n, panels=panels, seed=request.seed, ticks=ticks * per_tick // 2
        )
        simulation = Simulation(
            scenario, settings, table.arrangement_with(sources), decisions=decisions_of(request.commands), tape=tape
        )
        for actor in simulation.world.actors:
            recorder.actor(actor.id, actor.type)

        def on_fixed_step(result: Any) -> int:  # noqa: ANN401 - importing the type would import the simulator
            return record_step(simulation, result, recorder, on_tick, per_tick)

        record = on_fixed_step if loop.is_fixed else Resampled(simulation, recorder, on_tick, last).on_step
        ends: list[tuple[int, str]] = []

        sensing = Sensing(simulation, recorder, values, STEP_S, last)
        was_s = simulation.world.time_s

        def on_step(result: Any) -> None:  # noqa: ANN401
            nonlocal was_s
            sensing.after_step(None if loop.is_fixed else simulation.world.time_s - was_s)
            was_s = simulation.world.time_s
            tick = record(result)
            if result.ended:
                ends.append((tick, result.ended))

        game = GameLoop(simulation, loop, self._clock, disturbances=disturbances, on_step=on_step)
        try:
            for _ in game.frames():
                pass
            tick, reason = ends[-1]
            # Late or not, the fixed steps of a replay are the same: nothing of it reaches the world.
            if game.deadline_misses and not (loop.is_fixed and simulation.replays):
                recorder.event(tick, "late-frames", detail=f"{game.deadline_misses} of {game.frame_count} frames came late")
            recorder.end(tick, reason)
        finally:
            sensing.close()
            simulation.close()
            for one in disturbances:
                one.close()


def _loop_settings(values: Mapping[str, Scalar]) -> Any:  # noqa: ANN401
    from samepath.simulator.game_loop import LoopSettings
    from samepath.simulator.simulation import number, whole

    return LoopSettings(
        mode=str(values["mode"]),
        time_scale=number(values, "time_scale"),
        max_step_s=number(values, "max_step_s"),
        catch_up_steps=whole(values, "catch_up_steps", 1, 1_000_000),
        frame_cost_s=number(values, "frame_cost_s"),
        controllers=str(values["controllers"]),
    )


@dataclass(frozen=True)
class Instant:
    """All actors after a step."""

    time_s: float
    states: Mapping[int, Mapping[str, float]]


class Resampled:
    """Records steps of any length at the ticks of the trace, up to ``last`` if there is a last one."""

    def __init__(
        self,
        simulation: Any,  # noqa: ANN401
        recorder: Recorder,
        on_tick: Callable[[int], None],
        last: int | None = None,
    ) -> None:
        self._simulation = simulation
        self._most = sys.maxsize if last is None else last
        self._recorder = recorder
        self._on_tick = on_tick
        self._before = instant_of(simulation)

    def on_step(self, result: Any) -> int:  # noqa: ANN401
        """Record the ticks this step has passed, then what happened in it."""
        before, after = self._before, instant_of(self._simulation)
        self._before = after
        first = floor(before.time_s / STEP_S + _ROUNDING) + 1
        last = min(floor(after.time_s / STEP_S + _ROUNDING), self._most)
        at_or_after = min(ceil(after.time_s / STEP_S - _ROUNDING), self._most)
        for tick in range(first, last + 1):
            self._record(tick, before, after)
        record_events(result, self._recorder, at_or_after)
        # A destroyed actor may lack a state at the tick of its end; the run itself still has that tick.
        for tick in range(first, at_or_after + 1 if result.ended else last + 1):
            self._on_tick(tick)
        return at_or_after

    def _record(self, tick: int, before: Instant, after: Instant) -> None:
        if not self._recorder.wants(tick):
            return
        share = (tick * STEP_S - before.time_s) / (after.time_s - before.time_s)
        controls = {number: control_of(self._simulation, number) for number in after.states}
        for number, state in after.states.items():
            between = interpolated(before.states[number], state, min(max(share, 0.0), 1.0))
            self._recorder.state(tick, number, {**between, **controls[number]})


def instant_of(simulation: Any) -> Instant:  # noqa: ANN401
    """Return where everybody is now."""
    from samepath.simulator.world.world import STATE_FIELDS

    ids, values = simulation.world.state_array()
    states = {n: dict(zip(STATE_FIELDS, row, strict=True)) for n, row in zip(ids.tolist(), values.tolist(), strict=True)}
    return Instant(simulation.world.time_s, states)
