"""Everything that a run of our simulator is set up with, as one record: what it began with beside what went in later.

A run is a function of its setup and its inputs. Whoever plays one (the adapters, a replay, a fork) sets it up here, so that all
of them build the same world in the same order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from samepath.core.errors import InputError, unknown
from samepath.core.inputs import InputKind, InputLog
from samepath.core.states import Command
from samepath.scenarios.agents import DecisionRecorder, Decisions, WorldView
from samepath.scenarios.model import CAMERA, ScenarioSpec
from samepath.scenarios.run_inputs import InputFeed, InputRecorder, driven_from_outside
from samepath.simulator.game_loop import LoopSettings, periods
from samepath.simulator.simulation import (
    PartlyReplayed,
    Simulation,
    SimulationSettings,
    StepResult,
    number,
    settings_from,
    whole,
)
from samepath.simulator.sources import (
    Disturbance,
    arrangement_fed,
    arrangement_with,
    disturbances_with,
    parse_sources,
    simulation_with,
)

Values = Mapping[str, str | float | int | bool]
# The ego as the scenario has it.
SCRIPT = "script"


@dataclass(frozen=True)
class RunSetup:
    """A scenario, how it is simulated, how time passes, and which sources of non-determinism are on.

    ``flip_ticks``: a bit flips before one of the first so many steps, where that source is on.
    """

    scenario: ScenarioSpec
    settings: SimulationSettings
    loop: LoopSettings = field(default_factory=LoopSettings)
    sources: tuple[str, ...] = ()
    gusts_n: float = 0.0
    panels: int = 0
    flip_ticks: int = 0

    @classmethod
    def of_values(
        cls, scenario: ScenarioSpec, values: Values, seed: int, duration_s: float | None, flip_ticks: int = 0
    ) -> "RunSetup":
        """Read a study's plain values; without a mode it is lockstep."""
        scenario = with_ego(scenario, str(values.get("ego", "")))
        settings = settings_from(values, seed, duration_s)
        if "mode" not in values:
            return cls(scenario, settings)
        names = parse_sources(str(values["sources"]))
        loop = LoopSettings(
            mode=str(values["mode"]),
            time_scale=number(values, "time_scale"),
            max_step_s=number(values, "max_step_s"),
            catch_up_steps=whole(values, "catch_up_steps", 1, 1_000_000),
            frame_cost_s=number(values, "frame_cost_s"),
            controllers=str(values["controllers"]),
        )
        return cls(
            scenario,
            simulation_with(settings, names),
            loop.with_sources(names),
            names,
            number(values, "gusts_n", 0.0),
            whole(values, "panels", 0, 1_000_000),
            flip_ticks,
        )

    @property
    def is_lockstep(self) -> bool:
        """Does every step follow from the state before it, whatever the clock says?"""
        return self.loop.mode == "lockstep"

    def recorder(self, *, everything: bool = False) -> InputRecorder:
        """Return what takes down a run's inputs: what does not follow from the rest, or also the commands that do."""
        # In lockstep the scenario's own agents decide from states alone. On the wall clock, the clock says from which.
        return InputRecorder(None if everything or not self.is_lockstep else driven_from_outside(self.scenario))

    def simulation(
        self,
        inputs: InputRecorder | None = None,
        *,
        decisions: Decisions | None = None,
        record_to: DecisionRecorder | None = None,
        partly: PartlyReplayed | None = None,
    ) -> Simulation:
        """Put the scenario together, as its sources let it fall this time."""
        arrangement = arrangement_with(self.sources, inputs)
        return Simulation(
            self.scenario,
            self.settings,
            arrangement,
            decisions=decisions,
            record_to=record_to,
            inputs=inputs,
            partly=partly,
        )

    def disturbances(self, feed: InputFeed | None = None) -> tuple[Disturbance, ...]:
        """Return what meddles before each step; with a ``feed``, as it did then."""
        return disturbances_with(
            self.sources,
            gusts_n=self.gusts_n,
            panels=self.panels,
            seed=self.settings.seed,
            ticks=self.flip_ticks,
            feed=feed,
        )

    def is_open_loop(self, log: InputLog) -> bool:
        """Does a log have everybody's commands, so that no agent is needed? On the wall clock it always has."""
        if not self.is_lockstep:
            return True
        told = {entry.actor for entry in log if entry.kind is InputKind.COMMAND and entry.step == 0}
        return all(number in told for number in range(1, self.scenario.population + 1))

    def fed(self, log: InputLog, inputs: InputRecorder | None = None, decisions: Decisions | None = None) -> "FedRun":
        """Set the run up again from what went into it; ``decisions`` where it replayed some itself."""
        return FedRun(self, InputFeed(log), inputs, decisions, open_loop=self.is_open_loop(log))


def with_ego(scenario: ScenarioSpec, ego: str) -> ScenarioSpec:
    """The scenario with another driver in its first vehicle: ``camera`` for one that goes by what it sees."""
    if ego in ("", SCRIPT) or (ego == CAMERA and any(actor.controller == CAMERA for actor in scenario.actors)):
        return scenario
    if ego != CAMERA:
        raise unknown("driver of the ego", ego, (SCRIPT, CAMERA))
    return scenario.driven_by_camera()


class FedRun:
    """A run that is played again from its inputs, step by step: no clock is read, no thread started, no chance drawn."""

    def __init__(
        self,
        setup: RunSetup,
        feed: InputFeed,
        inputs: InputRecorder | None = None,
        decisions: Decisions | None = None,
        *,
        open_loop: bool = True,
    ) -> None:
        self.setup = setup
        self.feed = feed
        self.open_loop = open_loop
        self.simulation = Simulation(
            setup.scenario,
            setup.settings,
            arrangement_fed(setup.sources, feed),
            decisions=None if open_loop else decisions,
            inputs=inputs,
            feed=feed,
            open_loop=open_loop,
        )
        self._disturbances = setup.disturbances(feed)

    @property
    def step_count(self) -> int:
        """How many steps were made: the number of the next one."""
        return self.simulation.world.tick_count

    def period_view(self) -> WorldView:
        """What agents see who are asked now: they count control periods, which are no steps where those vary."""
        view = self.simulation.view()
        return view if self.setup.loop.is_fixed else periods(view, self.simulation.world.settings.step_s)

    def step(self, commands: dict[int, Command] | None = None) -> StepResult:
        """Make the next step, as long as it was then; under these commands, unless those of the feed are to hold."""
        step_s = self.feed.step_s(self.step_count)
        if step_s is None and not self.setup.loop.is_fixed and self.feed.fork_seed is None:
            raise InputError(f"inputs: the length of step {self.step_count} was wanted, but none was written down")
        # In this order, as in a game loop: agents see the world as the step before left it, not as it is pushed.
        commands = self.simulation.decide(self.simulation.view()) if commands is None else commands
        for disturbance in self._disturbances:
            disturbance.before_step(self.simulation)
        return self.simulation.advance(commands, step_s)

    def steps(self) -> Iterator[StepResult]:
        """Make all steps to the end of the scenario."""
        ended = None
        while ended is None:
            result = self.step()
            yield result
            ended = result.ended

    def restore(self, packed: bytes) -> None:
        """Go back, or on, to where a snapshot of this run's simulation was taken."""
        self.simulation.close()
        self.simulation = Simulation.restore(packed, self.feed, open_loop=self.open_loop)
        if self.open_loop and self.step_count:
            # Not in a snapshot, since nothing that follows depends on it: what everybody was told in the step before.
            self.simulation.commands = self.feed.commands(self.step_count - 1, self.simulation.world.states())

    def close(self) -> None:
        """Let go of everything."""
        self.simulation.close()
        for disturbance in self._disturbances:
            disturbance.close()
