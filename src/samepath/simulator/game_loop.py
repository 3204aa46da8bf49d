"""The game loop: how simulated time follows the wall clock, or does not.

A frame has three phases: inputs (agents decide), physics, output (rendering); physics may run several times in a frame or not
at all (Section III of the paper on determinism of game engines, Fig. 2). What differs is where the size of a step comes from:

* ``lockstep``: the fixed step, once per frame, as quickly as it goes. The wall clock is never asked: the bits repeat.
* ``real-time``: the fixed step as often as is due by the clock. A frame that comes late makes up for it with several steps on
  the same inputs; beyond ``catch_up_steps`` time is lost. On time it is lockstep to the bit; late it is not.
* ``variable``: one step as long as the frame before took, times ``time_scale``, at most ``max_step_s``.
* ``semi-fixed``: the frame before, cut into steps of at most ``max_step_s``, at most ``catch_up_steps`` of them.

Only lockstep promises anything. Physics divides each step further into the substeps of the simulation's own settings.

Where a simulation replays what its agents once decided, nobody is asked and no thread started: every step takes what holds at
its simulated time. With fixed steps the clock then has no way into the world.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, unknown
from samepath.core.streams import unseeded
from samepath.scenarios.agents import View
from samepath.simulator.simulation import Arrangement, Simulation, SimulationSettings, StepResult
from samepath.simulator.sources import (
    BitFlip,
    Decider,
    Disturbance,
    Gusts,
    Inline,
    Panels,
    Threaded,
    frame_work,
    hash_order,
    loaded_actors,
    loaded_statics,
)

MODES: Final = ("lockstep", "real-time", "variable", "semi-fixed")
CONTROLLERS: Final = ("inline", "thread")
_LEAST_STEP_S: Final = 1e-5


@dataclass(frozen=True)
class LoopSettings:
    """How time passes. ``time_scale`` is simulated seconds per second of the wall clock.

    ``frame_cost_s`` is computed, not waited for: numpy work that takes so long on an idle core and longer on a busy one, as
    rendering does. ``controllers``: ``inline`` agents decide within the frame; a ``thread`` of their own lets them decide from
    the newest view whenever they get to it, and what they decided counts from the frame on at whose start it has arrived.
    """

    mode: str = "lockstep"
    time_scale: float = 1.0
    max_step_s: float = 0.1
    catch_up_steps: int = 5
    frame_cost_s: float = 0.0
    controllers: str = "inline"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise unknown("mode of the game loop", self.mode, MODES)
        if self.controllers not in CONTROLLERS:
            raise unknown("way to run controllers", self.controllers, CONTROLLERS)
        for name, value, least in (
            ("time_scale", self.time_scale, 1e-6),
            ("max_step_s", self.max_step_s, _LEAST_STEP_S),
            ("catch_up_steps", self.catch_up_steps, 1),
            ("frame_cost_s", self.frame_cost_s, 0.0),
        ):
            if not (math.isfinite(value) and value >= least):
                raise InputError(f"{name}: a number of at least {least:g} was wanted, but {value!r} came")
        if self.mode == "lockstep" and self.controllers == "thread":
            raise InputError("lockstep waits for its controllers: with controllers in a thread use mode real-time or variable")

    @property
    def is_fixed(self) -> bool:
        """Is every step the simulation's own?"""
        return self.mode in ("lockstep", "real-time")


@dataclass(frozen=True)
class Due:
    """What a frame is to simulate; None stands for the fixed step. Without steps, ``wait_s`` until there will be one."""

    steps_s: tuple[float | None, ...]
    late: bool = False
    wait_s: float = 0.0


class Pace:
    """Turns the time that passed on the wall clock into steps. The first frame is given the time of one fixed step."""

    def __init__(self, settings: LoopSettings, step_s: float) -> None:
        self.settings = settings
        self.step_s = step_s
        self._owed_s = 0.0

    @property
    def first_wall_s(self) -> float:
        """Wall time of a frame that simulates one fixed step."""
        return self.step_s / self.settings.time_scale

    def due(self, wall_s: float) -> Due:
        """Return what is due when ``wall_s`` have passed since the frame before began."""
        settings = self.settings
        if settings.mode == "lockstep":
            return Due((None,))
        self._owed_s += wall_s * settings.time_scale
        if settings.mode == "real-time":
            return self._fixed_steps()
        owed_s, most = self._owed_s, settings.catch_up_steps if settings.mode == "semi-fixed" else 1
        if owed_s < _LEAST_STEP_S:
            return Due((), wait_s=_LEAST_STEP_S / settings.time_scale)
        self._owed_s = 0.0
        taken_s, steps_s = min(owed_s, most * settings.max_step_s), []
        while taken_s >= _LEAST_STEP_S:
            steps_s.append(min(taken_s, settings.max_step_s))
            taken_s -= steps_s[-1]
        self._owed_s += taken_s if taken_s > 0 else 0.0
        return Due(tuple(steps_s), late=owed_s > most * settings.max_step_s)

    def _fixed_steps(self) -> Due:
        # The margin is far below a clock's resolution and above the rounding of a sum of frames.
        steps = int(self._owed_s / self.step_s + 1e-9)
        self._owed_s = max(0.0, self._owed_s - steps * self.step_s)
        if not steps:
            return Due((), wait_s=(self.step_s - self._owed_s) / self.settings.time_scale)
        return Due((None,) * min(steps, self.settings.catch_up_steps), late=steps > 1)


@dataclass(frozen=True)
class Frame:
    """One frame: where the world stands after it, how much it simulated and whether it came late.

    ``wall_s`` is from the beginning of the frame before to the beginning of this one.
    """

    tick: int
    time_s: float
    step_s: float
    wall_s: float
    late: bool
    steps: tuple[StepResult, ...]

    @property
    def ended(self) -> str | None:
        """Why the run is over, if it is."""
        return self.steps[-1].ended if self.steps else None


def no_step(result: StepResult) -> None:
    """Ignore a step: the default of ``on_step``."""


class GameLoop:
    """Runs a simulation frame by frame. ``on_step`` is told of every physics step, of which a frame may have several."""

    def __init__(
        self,
        simulation: Simulation,
        settings: LoopSettings,
        clock: Clock = SYSTEM_CLOCK,
        *,
        disturbances: tuple[Disturbance, ...] = (),
        on_step: Callable[[StepResult], None] = no_step,
        work: Callable[[], None] | None = None,
    ) -> None:
        self.simulation = simulation
        self.settings = settings
        self.deadline_misses = 0
        self.frame_count = 0
        self.step_count = 0
        self._clock = clock
        self._disturbances = disturbances
        self._on_step = on_step
        self._work = work or frame_work(settings.frame_cost_s)
        self._start_s = simulation.world.time_s

    @property
    def mean_step_s(self) -> float:
        """Simulated seconds per step so far; 0 before the first."""
        return (self.simulation.world.time_s - self._start_s) / self.step_count if self.step_count else 0.0

    def frames(self) -> Iterator[Frame]:
        """Run frame by frame to the end of the scenario; stop asking and the world stands still."""
        pace = Pace(self.settings, self.simulation.world.settings.step_s)
        threaded = self.settings.controllers == "thread" and not self.simulation.replays
        decider = Threaded(self.simulation.decide) if threaded else Inline(self.simulation.decide)
        before_s = self._clock.monotonic_s()
        passed_s = frame_s = pace.first_wall_s
        try:
            while True:
                due = pace.due(passed_s)
                if due.steps_s:
                    frame = self._frame(due, frame_s, decider)
                    frame_s = 0.0
                    yield frame
                    if frame.ended:
                        return
                else:
                    self._clock.sleep_s(due.wait_s)
                now_s = self._clock.monotonic_s()
                before_s, passed_s = now_s, now_s - before_s
                frame_s += passed_s
        finally:
            decider.close()

    def _frame(self, due: Due, wall_s: float, decider: Decider) -> Frame:
        simulation, start_s = self.simulation, self.simulation.world.time_s
        commands = {} if simulation.replays else decider.commands(self._view())
        results: list[StepResult] = []
        for step_s in due.steps_s:
            for one in self._disturbances:
                one.before_step(simulation)
            # A replay goes by simulated time, whichever frame a step falls into.
            results.append(simulation.step(step_s) if simulation.replays else simulation.advance(commands, step_s))
            self._on_step(results[-1])
            if results[-1].ended:
                break
        self._work()
        world = simulation.world
        self.frame_count += 1
        self.step_count += len(results)
        self.deadline_misses += due.late
        return Frame(world.tick_count, world.time_s, world.time_s - start_s, wall_s, due.late, tuple(results))

    def _view(self) -> View:
        """What agents see. They count control periods: a frame is one only where steps are fixed."""
        view = self.simulation.view()
        if self.settings.is_fixed:
            return view
        return replace(view, tick=int(view.time_s / self.simulation.world.settings.step_s + 1e-9))


# The table of sources: which can be switched on, what of the paper they stand for, and what they do.

DEFAULT_GUSTS_N: Final = 50.0
DEFAULT_PANELS: Final = 64


@dataclass(frozen=True)
class Source:
    """A source of non-determinism: the paper's section, what it does, and what to run for comparison."""

    name: str
    section: str
    summary: str
    twin: str


SOURCES: Final[Mapping[str, Source]] = {
    one.name: one
    for one in (
        Source("wall-clock-step", "III, IV-E", "each step is as long as the frame before took", "mode lockstep"),
        Source("async-controller", "IV-B", "controllers run in a thread of their own", "controllers inline"),
        Source("unseeded-random", "IV-E", "gusts of wind drawn from entropy", "gusts_n without the source: a seeded stream"),
        Source("hash-order", "IV-F", "actors are spawned in the order of a set of strings", "no source, or PYTHONHASHSEED=0"),
        Source("unstable-queue", "IV-F", "walkers plan with a plain binary heap", "queue stable"),
        Source("random-queue", "IV-F", "walkers' planner breaks ties by lots from entropy", "queue randomised: seeded lots"),
        Source(
            "parallel-accumulation", "IV-A, IV-B", "forces are added as threads finish", "panels without the source: in order"
        ),
        Source("bit-flip", "IV-D", "one low bit of one actor's state turns over at a random tick", "no source"),
        Source("load-order", "IV-E", "meshes and actors enter physics as threads finish loading them", "no source"),
    )
}


def parse_sources(text: str) -> tuple[str, ...]:
    """Read names separated by commas; nothing is no source."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if name not in SOURCES:
            raise unknown("source of non-determinism", name, SOURCES)
    return names


def loop_with(settings: LoopSettings, names: tuple[str, ...]) -> LoopSettings:
    """Return the loop with the sources that are modes of it; controllers in a thread cannot keep lockstep."""
    mode = "variable" if "wall-clock-step" in names else settings.mode
    if "async-controller" not in names:
        return replace(settings, mode=mode)
    return replace(settings, mode="real-time" if mode == "lockstep" else mode, controllers="thread")


def simulation_with(settings: SimulationSettings, names: tuple[str, ...]) -> SimulationSettings:
    """Return the simulation's settings with the walkers' queue that the sources ask for."""
    wanted = [queue for name, queue in (("unstable-queue", "unstable"), ("random-queue", "randomised")) if name in names]
    if len(wanted) > 1:
        raise InputError("sources: unstable-queue and random-queue are both the walkers' queue: choose one")
    return replace(settings, queue=wanted[0]) if wanted else settings


def arrangement_with(names: tuple[str, ...]) -> Arrangement:
    """Return how the scenario is put together."""
    arrangement = Arrangement()
    if "hash-order" in names and "load-order" in names:
        raise InputError("sources: hash-order and load-order both order the actors: choose one")
    if "hash-order" in names:
        arrangement = replace(arrangement, order=hash_order)
    if "load-order" in names:
        arrangement = replace(arrangement, order=loaded_actors, statics=loaded_statics)
    if "random-queue" in names:
        arrangement = replace(arrangement, chance=_entropy)
    return arrangement


def disturbances_with(
    names: tuple[str, ...], *, gusts_n: float = 0.0, panels: int = 0, seed: int = 0, ticks: int = 0
) -> tuple[Disturbance, ...]:
    """Return what meddles before each step. ``gusts_n`` and ``panels`` alone give the deterministic twins.

    ``ticks``: a bit flips before one of the first so many.
    """
    if not gusts_n >= 0 or panels < 0:
        raise InputError(f"gusts_n and panels of at least 0 were wanted, but {gusts_n} and {panels} came")
    found: list[Disturbance] = []
    unseeded_gusts, parallel = "unseeded-random" in names, "parallel-accumulation" in names
    if gusts_n or unseeded_gusts:
        found.append(Gusts(gusts_n or DEFAULT_GUSTS_N, None if unseeded_gusts else seed))
    if panels or parallel:
        found.append(Panels(panels or DEFAULT_PANELS, parallel=parallel))
    if "bit-flip" in names:
        found.append(BitFlip(ticks, None))
    return tuple(found)


def _entropy(*key: str | int) -> np.random.Generator:
    return unseeded()
