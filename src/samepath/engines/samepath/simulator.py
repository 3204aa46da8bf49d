"""The adapter of the embedded simulator: scenarios in lockstep, every state and event recorded unrounded.

``samepath`` and ``samepath-game-loop`` are one world under two clocks; what they share is here. The simulator itself is
imported when a run begins, not when an adapter is described or listed: that must be quick, and must not fail where an extra is
missing.

A trace's tick is always 0.05 s, so that cells with other steps can be compared; a step must divide it.
"""

import math
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from samepath import __version__
from samepath.core.channels import STANDARD, VEHICLE_CONTROL, WALKER_CONTROL
from samepath.core.clock import SYSTEM_CLOCK, Stopwatch
from samepath.core.errors import SimulatorError
from samepath.core.files import regular
from samepath.core.states import VehicleCommand
from samepath.engines.interface import (
    NEVER,
    REPLAY_ALL,
    REPLAY_SIGHT,
    Capabilities,
    CommandLog,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    decisions_of,
    last_tick,
    log_of,
    no_tick,
)
from samepath.instrument.traces.recorder import Recorder

if TYPE_CHECKING:
    from samepath.scenarios.agents import DecisionRecorder, Decisions
    from samepath.scenarios.model import ScenarioSpec
    from samepath.simulator.game_loop import LoopFrame
    from samepath.simulator.sensors.cuda.driver import CudaDriver
    from samepath.simulator.sensors.rig import SensorSuite
    from samepath.simulator.simulation import PartlyReplayed, Simulation, StepResult

SENSOR_SETTINGS: Final[Mapping[str, Scalar]] = {"sensors": "", "sensor_samples": 20, "renderer": "software"}
_SAMPLES_MOST: Final = 1_000_000
# To open a card for the first time compiles its kernels.
_TRY_S: Final = 120.0
# Above the rounding of a sum of steps, far below any step.
_ROUNDING: Final = 1e-9
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
    "ego": "script",
    **SENSOR_SETTINGS,
}


class EmbeddedSimulator(Simulator):
    """What both adapters are: simulators whose controllers' decisions can be written down, and replayed without them."""

    _card: "CudaDriver | None" = None

    @abstractmethod
    def play(
        self,
        request: RunRequest,
        recorder: Recorder,
        decisions: "DecisionRecorder | None",
        on_tick: Callable[[int], None] = no_tick,
        kept: "KeptSteps | None" = None,
    ) -> None:
        """Run a scenario; ``decisions``, if given, takes down what the controllers decide, ``kept`` what a recording needs."""

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        self._hold_card({**self.info().settings, **request.settings})
        self.play(request, recorder, None, on_tick)

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Is there a card, or a driver, for the renderer that is asked for? Only trying tells."""
        values = {**self.info().settings, **settings}
        return _missing_renderer(str(values["renderer"])) if _draws(values) else ""

    def _hold_card(self, values: Mapping[str, Scalar]) -> None:
        """Keep the card open from the first run that draws there to :meth:`close`: opening it takes longer than a short run."""
        if self._card is not None or values["renderer"] != "cuda" or not _draws(values):
            return
        from samepath.simulator.sensors.cuda.driver import CudaDriver

        self._card = CudaDriver()

    def close(self) -> None:
        """Let go of the card, if one was held."""
        if self._card is not None:
            self._card.close()
            self._card = None

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Run once, in the request's own mode, keep no states, and return what the controllers decided."""
        from samepath.scenarios.agents import DecisionRecorder

        info, decisions = self.described(request.settings), DecisionRecorder()
        self.play(request, Recorder(request.repeat, info.channels, info.step_s, NEVER), decisions)
        return log_of(decisions)

    def prepare(self, request: RunRequest) -> None:
        """Load the code, the scenario, its map in the form that physics takes, and how it looks if there are sensors."""
        from samepath.simulator import game_loop  # noqa: F401 - not used yet, but there when a run begins
        from samepath.simulator.simulation import Arrangement

        scenario = checked_scenario(request.scenario)
        Arrangement().statics(scenario.map)
        load_sensors(scenario, request.settings)


class KeptSteps:
    """What a run leaves for its recording: everybody's commands, and the digest of the world after every step."""

    def __init__(self) -> None:
        from samepath.scenarios.run_inputs import InputRecorder

        self.inputs = InputRecorder()
        self.digests = bytearray()

    def after_step(self, digest: str) -> None:
        """A step was made."""
        self.digests += bytes.fromhex(digest)


class Samepath(EmbeddedSimulator):
    """The simulator that repeats itself. A scenario is one of its own, or the path of a file."""

    def info(self) -> SimulatorInfo:
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings: nothing but the work of a frame depends on them, and that moves no bit."""
        work_s = {**SETTINGS, **settings}["frame_cost_s"]
        info = describe("samepath", "deterministic driving world, lockstep", SETTINGS, deterministic=True)
        return replace(info, frame_work_s=float(work_s)) if isinstance(work_s, int | float) else info

    def play(
        self,
        request: RunRequest,
        recorder: Recorder,
        decisions: "DecisionRecorder | None",
        on_tick: Callable[[int], None] = no_tick,
        kept: "KeptSteps | None" = None,
    ) -> None:
        """Run a scenario in lockstep."""
        from samepath.simulator.game_loop import frame_work
        from samepath.simulator.run_setup import RunSetup
        from samepath.simulator.simulation import number

        info = self.info()
        values = check_scripted_request(info, request)
        setup = RunSetup.of_values(checked_scenario(request.scenario), values, request.seed, run_time_s(info, request))
        per_tick = steps_per_tick(number(values, "step_s"))
        stand_in = frame_work(number(values, "frame_cost_s", 0.0))
        (replayed, partly), inputs = replays_of(request), kept.inputs if kept else setup.recorder()
        if request.inputs is None:
            simulation = setup.simulation(inputs, decisions=replayed, record_to=decisions, partly=partly)
        else:
            simulation = setup.fed(request.inputs, inputs, replayed).simulation
        sensing = Sensing(simulation, recorder, values, STEP_S)
        times, work = FrameTimer(recorder, sensing), sensing.timed(stand_in)
        try:
            for actor in simulation.world.actors:
                recorder.actor(actor.id, actor.type)
            ended = None
            while ended is None:
                times.begin()
                result = simulation.step()
                if kept is not None:
                    kept.after_step(simulation.world.digest)
                sensing.after_step()
                tick, ended = record_step(simulation, result, recorder, on_tick, per_tick), result.ended
                work()
                times.end(tick)
            times.close()
            recorder.inputs(inputs.log)
            recorder.end(tick, ended)
        finally:
            sensing.close()
            simulation.close()


def replays_of(request: RunRequest) -> "tuple[Decisions | None, PartlyReplayed | None]":
    """Return what a request replays of everybody, and what of the ego alone."""
    from samepath.simulator.simulation import PartlyReplayed

    decisions = decisions_of(request.commands)
    if decisions is None or request.replay == REPLAY_ALL:
        return decisions, None
    return None, PartlyReplayed(decisions, sight=request.replay == REPLAY_SIGHT)


def describe(name: str, summary: str, settings: Mapping[str, Scalar], *, deterministic: bool) -> SimulatorInfo:
    """Describe the embedded simulator under one of its names."""
    from samepath.scenarios.model import built_in_scenarios

    return SimulatorInfo(
        name=name,
        version=__version__,
        summary=summary,
        scenarios=tuple(built_in_scenarios()),
        step_s=STEP_S,
        channels=STANDARD,
        capabilities=Capabilities(
            deterministic=deterministic,
            lossless=True,
            collisions=True,
            durations=True,
            replays=True,
            inputs=True,
            egos=True,
        ),
        settings=settings,
    )


def run_time_s(info: SimulatorInfo, request: RunRequest) -> float | None:
    """Return the simulated time of the tick at which a request's duration ends the run."""
    tick = last_tick(info, request)
    return None if tick is None else tick * STEP_S


@cache
def checked_scenario(name: str) -> "ScenarioSpec":
    """Load a scenario and hold it against its map; once per process."""
    from samepath.scenarios.model import load_scenario
    from samepath.simulator.simulation import check_on_map

    scenario = load_scenario(name)
    check_on_map(scenario)
    return scenario


def steps_per_tick(step_s: float) -> int:
    """Return how many steps are a tick of the trace; a step that does not divide it is refused."""
    steps = round(STEP_S / step_s) if step_s > 0 else 0
    if steps < 1 or abs(steps * step_s - STEP_S) > 1e-12:
        raise SimulatorError(f"step_s: a whole part of {STEP_S} s was wanted, such as 0.05, 0.025 or 0.01, but {step_s} came")
    return steps


def record_step(
    simulation: "Simulation",
    result: "StepResult",
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


def record_events(result: "StepResult", recorder: Recorder, tick: int) -> None:
    """Record a step's collisions and who was destroyed."""
    for collision in result.collisions:
        impulse = collision.impulse_ns
        told = (impulse.x, impulse.y, impulse.z)
        recorder.event(tick, "collision", collision.actor, collision.other, told, collision.scenery)
    for number in result.destroyed:
        recorder.event(tick, "destroy", number)


def _record_states(simulation: "Simulation", recorder: Recorder, tick: int) -> None:
    if not recorder.wants(tick):
        return
    ids = list(simulation.world.states())
    recorder.rows(tick, ids, [[*simulation.world.state_row(number), *_control_row(simulation, number)] for number in ids])


def control_of(simulation: "Simulation", number: int) -> dict[str, float]:
    """The command that led to this state, in the trace's channels."""
    row = _control_row(simulation, number)
    return {name: value for name, value in zip(CONTROL, row, strict=True) if not math.isnan(value)}


def _control_row(simulation: "Simulation", number: int) -> list[float]:
    """The same in the order of ``CONTROL``; NaN where a channel does not apply."""
    command = simulation.commands.get(number)
    if command is None:
        return _NO_CONTROL
    if isinstance(command, VehicleCommand):
        pedals = (command.throttle, command.steer, command.brake, float(command.hand_brake), float(command.reverse))
        return [*pedals, float(simulation.world.gear(number)), *_NO_CONTROL[len(VEHICLE_CONTROL) :]]
    return [*_NO_CONTROL[: len(VEHICLE_CONTROL)], command.direction_x, command.direction_y, 0.0, command.speed_mps]


class FrameTimer:
    """Takes down how long every frame of a run took, and in it the game and drawing: Unreal's ``stat unit``.

    A frame lasts until the next one begins, waiting included. What counts as drawing is what ``Sensing.timer`` has timed:
    sensors, and the arithmetic that stands for rendering.
    """

    def __init__(self, recorder: Recorder, sensing: "Sensing") -> None:
        self._recorder, self._sensing = recorder, sensing
        self._began_s: float | None = None
        self._drawn_s = 0.0
        self._done: tuple[int, float, float] | None = None

    def begin(self, began_s: float | None = None) -> None:
        """A frame begins, now unless it is said when: the one before is over."""
        now_s = SYSTEM_CLOCK.monotonic_s() if began_s is None else began_s
        self._tell(now_s)
        self._began_s = now_s

    def end(self, tick: int, busy_s: float | None = None) -> None:
        """A frame has done its work, which took so long unless it ends just now; it reached a tick of the trace."""
        if self._began_s is None:
            return
        if busy_s is None:
            busy_s = SYSTEM_CLOCK.monotonic_s() - self._began_s
        draw_s, self._drawn_s = self._sensing.timer.seconds - self._drawn_s, self._sensing.timer.seconds
        self._done = tick, max(busy_s - draw_s, 0.0), draw_s

    def close(self) -> None:
        """The last frame is as long as its work."""
        if self._began_s is not None and self._done is not None:
            self._tell(self._began_s + self._done[1] + self._done[2])

    def follow(self, frames: "Iterable[LoopFrame]", tick: Callable[[], int]) -> None:
        """Take down all frames of a game loop; ``tick`` tells which one it has reached."""
        for frame in frames:
            self.begin(frame.began_s)
            self.end(tick(), frame.busy_s)
        self.close()

    def _tell(self, now_s: float) -> None:
        if self._done is not None and self._began_s is not None:
            tick, game_s, draw_s = self._done
            self._recorder.frame_times(tick, now_s - self._began_s, game_s, draw_s)
            self._done = None


class Sensing:
    """What a run does about sensors: :meth:`after_step` and :meth:`close`; without a rig, nothing.

    A sensor measures at the first step at or after a tick of the trace, if the recorder keeps that tick, and its frame is kept
    as a whole at every ``sensor_samples``-th of these. What controllers of the scenario look at is recorded as they are given
    it, under the name of the actor and the sensor (``actor1.road``).
    """

    def __init__(
        self,
        simulation: "Simulation",
        recorder: Recorder,
        values: Mapping[str, Scalar],
        tick_s: float,
        last: int | None = None,
    ) -> None:
        from samepath.simulator.simulation import whole

        self._samples_every = whole(values, "sensor_samples", 0, _SAMPLES_MOST) * recorder.log_every
        self._simulation = simulation
        self._recorder = recorder
        self._tick_s = tick_s
        self._most = sys.maxsize if last is None else last
        self._tick = 0
        self._seen_ticks: dict[str, int] = {}
        self._suite: SensorSuite | None = None
        self._drawn_by: list[str] = []
        self.timer = Stopwatch() if simulation.perception is None else simulation.perception.timer
        if simulation.perception is not None and values["renderer"] not in ("software", "cuda", "auto"):
            told = "; ".join(f"{name} {value}" for name, value in simulation.perception.drawn_by.items())
            recorder.event(0, "renderer", detail=f"what controllers look at: {told}")
        if _rig_of(values):
            from samepath.simulator.sensors.sensor import require_sensors

            require_sensors()
            from samepath.simulator.sensors import rig as rigs
            from samepath.simulator.sensors.renderer import SAME_BYTES

            rig, boxes = rigs.load_rig(_rig_of(values)), rigs.boxes_of(simulation.scenario)
            self._suite = rigs.SensorSuite(rig, simulation.world, boxes=boxes, renderer=str(values["renderer"]))
            if values["renderer"] not in SAME_BYTES:
                # Pictures then depend on a driver: the trace says on which. Of the others nothing is said among the events: a
                # run's digest covers those, and whether a card or the processor has drawn must not make two runs differ. The
                # settings that come with the trace name the renderer.
                told = "; ".join(f"{name} {value}" for name, value in self._suite.drawn_by.items())
                recorder.event(0, "renderer", detail=told)

    def after_step(self, step_s: float | None = None) -> None:
        """Follow a step, of the fixed length unless another is given, and measure if it reached a tick."""
        self._record_seen()
        if self._suite is None:
            return
        with self.timer:
            self._suite.follow(step_s, self._simulation.commands)
        tick = self._tick_of(self._simulation.world.time_s)
        if not self._tick < tick <= self._most:
            return
        self._tick = tick
        if self._recorder.wants(tick):
            with self.timer:
                found = self._suite.measure(self._simulation.commands)
            self._tell_who_draws(self._suite.drawn_by["name"])
            for measured in found:
                keep = self._keeps(tick)
                self._recorder.sensor(tick, measured.sensor.name, measured.sensor.type, measured.values, keep=keep)

    def timed(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return work that counts as drawing."""

        def drawing() -> None:
            with self.timer:
                work()

        return drawing

    def _record_seen(self) -> None:
        """Record what controllers were given to decide on, at the tick it was measured at; where steps vary, its first."""
        perception = self._simulation.perception
        for actor, reading in () if perception is None else perception.given():
            tick, name = self._tick_of(reading.time_s), f"actor{actor}.{reading.name}"
            if self._seen_ticks.get(name, -1) < tick <= self._most and self._recorder.wants(tick):
                self._seen_ticks[name] = tick
                self._recorder.sensor(tick, name, reading.kind, reading.values, keep=self._keeps(tick))
        if perception is not None and self._seen_ticks:
            self._tell_who_draws(perception.drawn_by["name"])

    def _tell_who_draws(self, name: str) -> None:
        """Keep who has drawn with the trace, beside the bits: a card that is lost is followed by the processor."""
        if name not in self._drawn_by:
            self._drawn_by.append(name)
            self._recorder.told("renderer", ", then ".join(self._drawn_by))

    def _tick_of(self, time_s: float) -> int:
        return floor(time_s / self._tick_s + _ROUNDING)

    def _keeps(self, tick: int) -> bool:
        return self._samples_every > 0 and tick % self._samples_every == 0

    def close(self) -> None:
        """Let go of the sensors."""
        if self._suite is not None:
            self._suite.close()


def _draws(values: Mapping[str, Scalar]) -> bool:
    """Does anything of a run draw, by its settings? A scenario's own rigs are not known before it is read."""
    return bool(_rig_of(values)) or values.get("ego") == "camera"


@cache
def _missing_renderer(name: str) -> str:
    """Say in a line why a renderer cannot draw here; nothing where it can.

    Tried in a process of its own: a process that has opened a card must not fork workers that open it too.
    """
    if name in ("software", "auto"):
        return ""
    script = f"from samepath.simulator.sensors.renderer import create_renderer as c; c({name!r}).close()"
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter, and a name that is one of ours or refused
            [sys.executable, "-c", script], capture_output=True, text=True, errors="replace", timeout=_TRY_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"renderer {name!r} could not be tried: {error}"
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return said[-1].partition("Error: ")[2] or said[-1] if said else f"renderer {name!r} ended with status {done.returncode}"


def rig_text(values: Mapping[str, Scalar]) -> str:
    """The text of the rig that rides along, so that its file need not be there later; empty if none does."""
    name = _rig_of(values)
    if not name:
        return ""
    from samepath.simulator.sensors.rig import built_in_rigs, load_rig

    load_rig(name)  # refuses what is none
    return built_in_rigs().get(name) or regular(Path(name)).read_text("utf-8")


def _rig_of(values: Mapping[str, Scalar]) -> str:
    """The rig that rides along; empty if none does."""
    name = str(values.get("sensors", ""))
    return "" if name == "none" else name


def load_sensors(scenario: "ScenarioSpec", values: Mapping[str, Scalar]) -> None:
    """Load what every run with these sensors needs: their code, and the map as it looks."""
    if _draws(values) or any(spec.looks_through for spec in scenario.actors):
        from samepath.simulator.sensors.building import build_code

        build_code(lambda line: print(f"samepath: {line}", file=sys.stderr, flush=True))
    if _rig_of(values):
        from samepath.simulator.sensors.sensor import require_sensors

        require_sensors()
        from samepath.simulator.maps import load_map
        from samepath.simulator.sensors.renderer import check_renderer
        from samepath.simulator.sensors.rig import boxes_of, load_rig
        from samepath.simulator.sensors.scene_builder import scene_builder_of

        load_rig(_rig_of(values))
        check_renderer(str(values.get("renderer", SENSOR_SETTINGS["renderer"])))
        if scenario.map != "flat":
            scene_builder_of(load_map(scenario.map), boxes_of(scenario))
