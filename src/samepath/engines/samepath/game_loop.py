"""The adapter of the embedded simulator in game-loop time, with sources of non-determinism to switch on.

With fixed steps (modes ``lockstep`` and ``real-time``) the trace holds the simulator's own numbers. In ``variable`` and
``semi-fixed`` mode steps end when they end, while a trace has a tick of 0.05 s: states are resampled as in every other engine.
:mod:`samepath.engines.resampling` tells how, how far off that may be, and how it is said. Commands are not interpolated: a
tick has those of the step that reaches it. Events belong to the tick at or after their time, and an actor that is destroyed
has no state after its last whole step. A duration ends a run at its tick in every mode: what the last step brings beyond it is
cut off, its events are of that tick.

Replayed commands hold from the simulated time on at which they were recorded. With fixed steps these are the steps of the
recorded run, whichever frame they fall into, so that its bits come back; steps that vary begin at other times, and take what
holds then. Played again from its inputs (``RunRequest.inputs``) a run goes by its steps instead, each as long as it was: then
the bits come back in every mode, and no clock is asked.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.engines.interface import (
    RunRequest,
    Scalar,
    SimulatorInfo,
    check_scripted_request,
    last_tick,
    no_tick,
)
from samepath.engines.resampling import RESAMPLING, EngineFrame, ResampledTick, Resampler
from samepath.engines.samepath.simulator import (
    SETTINGS,
    STEP_S,
    EmbeddedSimulator,
    FrameTimer,
    KeptSteps,
    Sensing,
    checked_scenario,
    control_of,
    describe,
    record_events,
    record_step,
    replays_of,
    run_time_s,
    steps_per_tick,
)
from samepath.instrument.traces.recorder import Recorder

if TYPE_CHECKING:  # the simulator itself is imported when a run begins: describing it must be quick
    from samepath.scenarios.agents import DecisionRecorder
    from samepath.simulator.simulation import Simulation, StepResult

# What describing a run needs to know of the loop without importing it: which modes have steps of one length, which of them asks
# no clock, and the two sources that make a mode of the wall clock of any other (see samepath.simulator.game_loop.LoopSettings).
LOCKSTEP: Final = "lockstep"
FIXED_MODES: Final = (LOCKSTEP, "real-time")
VARYING_SOURCE: Final = "wall-clock-step"
THREAD_SOURCE: Final = "async-controller"
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


class SamepathGameLoop(EmbeddedSimulator):
    """The simulator as a game engine would run it; ``defaults`` replace those of the settings, ``clock`` the machine's."""

    def __init__(self, defaults: Mapping[str, Scalar] | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._defaults = {**SETTINGS, **LOOP_SETTINGS, **(defaults or {})}
        self._clock = clock

    def info(self) -> SimulatorInfo:
        """Describe the simulator as its defaults make it."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode: only fixed steps give the simulator's own numbers, steps that vary are resampled."""
        values = {**self._defaults, **settings}
        sources = {name.strip() for name in str(values["sources"]).split(",")}
        is_fixed = values["mode"] in FIXED_MODES and VARYING_SOURCE not in sources
        by_clock = values["mode"] != LOCKSTEP or bool(sources & {VARYING_SOURCE, THREAD_SOURCE})
        scale, work_s = values["time_scale"], values["frame_cost_s"]
        summary = "driving world on the wall clock, as game engines run; varying steps are interpolated to 0.05 s ticks"
        info = describe("samepath-game-loop", summary, self._defaults, deterministic=False)
        info = replace(
            info,
            # What is no number is refused when a run is asked for, by name.
            time_scale=float(scale) if by_clock and isinstance(scale, int | float) else None,
            frame_work_s=float(work_s) if isinstance(work_s, int | float) else 0.0,
        )
        if is_fixed:
            return info
        return replace(info, channels=(*info.channels, RESAMPLING), capabilities=replace(info.capabilities, lossless=False))

    def play(
        self,
        request: RunRequest,
        recorder: Recorder,
        decisions: "DecisionRecorder | None",
        on_tick: Callable[[int], None] = no_tick,
        kept: KeptSteps | None = None,
    ) -> None:
        """Run a scenario frame by frame."""
        from samepath.simulator import game_loop
        from samepath.simulator.run_setup import RunSetup
        from samepath.simulator.simulation import number

        info = self.info()
        values = check_scripted_request(info, request)
        last = last_tick(info, request)
        scenario, per_tick = checked_scenario(request.scenario), steps_per_tick(number(values, "step_s"))
        ticks = scenario.ticks if last is None else min(last, scenario.ticks)
        setup = RunSetup.of_values(scenario, values, request.seed, run_time_s(info, request), ticks * per_tick // 2)
        (replayed, partly), loop, inputs = replays_of(request), setup.loop, kept.inputs if kept else setup.recorder()
        again = None if request.inputs is None else setup.fed(request.inputs, inputs, replayed)
        simulation = (
            again.simulation if again else setup.simulation(inputs, decisions=replayed, record_to=decisions, partly=partly)
        )
        disturbances = () if again else setup.disturbances()
        for actor in simulation.world.actors:
            recorder.actor(actor.id, actor.type)
        resampled = None if loop.is_fixed else ResampledRun(simulation, recorder, on_tick, last)
        sensing = Sensing(simulation, recorder, values, STEP_S, last)
        was_s, end_tick, reason = simulation.world.time_s, 0, ""

        def on_step(result: "StepResult") -> None:
            nonlocal was_s, end_tick, reason
            now_s = simulation.world.time_s
            if kept is not None:
                kept.after_step(simulation.world.digest)
            # Sensors count time by the steps they are told of; the fixed step is not measured, or it would carry rounding.
            sensing.after_step(None if resampled is None else now_s - was_s)
            was_s = now_s
            if resampled is None:
                end_tick = record_step(simulation, result, recorder, on_tick, per_tick)
            else:
                end_tick = resampled.on_step(result)
            reason = result.ended or ""

        loop_run = game_loop.GameLoop(
            simulation,
            loop,
            self._clock,
            disturbances=disturbances,
            on_step=on_step,
            work=sensing.timed(game_loop.frame_work(loop.frame_cost_s)),
        )
        try:
            if again is None:
                FrameTimer(recorder, sensing).follow(loop_run.frames(), lambda: end_tick)
            else:
                for result in again.steps():
                    on_step(result)
            # Late or not, the fixed steps of a replay are the same: nothing of it reaches the world.
            if loop_run.deadline_misses and not (loop.is_fixed and simulation.replays):
                late = f"{loop_run.deadline_misses} of {loop_run.frame_count} frames came late"
                recorder.event(end_tick, "late-frames", detail=late)
            if resampled is not None:
                recorder.event(end_tick, "note", detail=resampled.note)
            recorder.inputs(inputs.log)
            recorder.end(end_tick, reason)
        finally:
            sensing.close()
            simulation.close()
            for disturbance in disturbances:
                disturbance.close()
            if again is not None:
                again.close()


class ResampledRun:
    """Records steps of any length at the ticks of the trace, up to ``last`` if there is a last one.

    Ticks come one step late, because their bound needs the step after. Events wait as long: an actor that is destroyed in a
    step still has the states of the step before, which a recorder would refuse after the news of its end.
    """

    def __init__(
        self, simulation: "Simulation", recorder: Recorder, on_tick: Callable[[int], None], last: int | None = None
    ) -> None:
        self._simulation, self._recorder, self._on_tick = simulation, recorder, on_tick
        self._most = sys.maxsize if last is None else last
        self._resampler = Resampler(STEP_S, _frame_of(simulation))
        self._resampler.rest()  # the start itself is no tick of a trace
        self._tick = 0
        self._waiting: tuple[StepResult, int] | None = None

    @property
    def note(self) -> str:
        """What was done to the numbers, for the end of the trace."""
        return self._resampler.note

    def on_step(self, result: "StepResult") -> int:
        """Record the ticks before this step, and the last ones if it ends the run; return the tick at or after it."""
        frame = _frame_of(self._simulation)
        self._record(self._resampler.take(frame))
        tick = min(self._resampler.tick_of(frame.time_s), self._most)
        self._waiting = (result, tick)
        if result.ended:
            self._record(self._resampler.rest())
            # The run has the tick of its end, even where nobody is left who has a state at it.
            self._pass(tick)
        return tick

    def _record(self, ticks: list[ResampledTick]) -> None:
        for tick, states in ticks:
            if tick > self._most:
                break
            for number, state in states.items():
                self._recorder.state(tick, number, state)
            self._pass(tick)
        if self._waiting is not None:
            record_events(self._waiting[0], self._recorder, self._waiting[1])
            self._waiting = None

    def _pass(self, tick: int) -> None:
        if tick > self._tick:
            self._tick = tick
            self._on_tick(tick)


def _frame_of(simulation: "Simulation") -> EngineFrame:
    """Where everybody is now, and the commands that led there."""
    from samepath.simulator.world.state_table import STATE_FIELDS

    ids, values = simulation.world.state_array()
    states = {n: dict(zip(STATE_FIELDS, row, strict=True)) for n, row in zip(ids.tolist(), values.tolist(), strict=True)}
    return EngineFrame(simulation.world.time_s, states, {number: control_of(simulation, number) for number in states})
