"""The game loop: how simulated time follows the wall clock, or does not.

A frame has three phases: inputs (agents decide), physics, output (rendering); physics may run several times in a frame or not
at all (Section III of the paper on determinism of game engines, Fig. 2). What differs is where the size of a step comes from:

* ``lockstep``: the fixed step, once per frame, as quickly as it goes. The wall clock is never asked: the bits repeat.
* ``real-time``: the fixed step as often as is due by the clock. A frame that comes late makes up for it with several steps on
  the same inputs; beyond ``catch_up_steps`` time is lost. On time it is lockstep to the bit; late it is not.
* ``variable``: one step as long as the frame before took, times ``time_scale``, at most ``max_step_s``.
* ``semi-fixed``: the frame before, cut into steps of at most ``max_step_s``, at most ``catch_up_steps`` of them.

Only lockstep promises anything. Physics divides each step further into the substeps of the simulation's own settings.

Rendering is stood for by arithmetic that takes wall time. It is computed, not slept: whoever competes for the core makes it
longer, as with rendering, and that is how load reaches a game loop. Controllers decide within a frame, or in a thread of their
own as a client beside an engine does; then it is the operating system's scheduler that says which view a decision is made from
and which frame it reaches.

Where a simulation replays what its agents once decided, nobody is asked and no thread started: every step takes what holds at
its simulated time. With fixed steps the clock then has no way into the world.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Condition, Thread
from typing import Final, Protocol

import numpy as np

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, unknown
from samepath.core.states import Command
from samepath.scenarios.agents import WorldView
from samepath.simulator.simulation import Simulation, StepResult
from samepath.simulator.sources import Disturbance

MODES: Final = ("lockstep", "real-time", "variable", "semi-fixed")
CONTROLLERS: Final = ("inline", "thread")
# Shorter steps than this are owed to the next frame: a clock that has hardly moved must not make a step of nothing.
_LEAST_STEP_S: Final = 1e-5
# Timed once, to find out how much work takes how long: the least of so many passes.
_TRIALS: Final = 50
_RAYS: Final = np.linspace(0.1, 1.0, 4096)
_PIXELS: Final = np.zeros_like(_RAYS)

Decide = Callable[[WorldView], dict[int, Command]]


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

    def with_sources(self, names: tuple[str, ...]) -> "LoopSettings":
        """Return the loop with those sources of non-determinism that are modes of it; see :mod:`samepath.simulator.sources`."""
        mode = "variable" if "wall-clock-step" in names else self.mode
        if "async-controller" not in names:
            return replace(self, mode=mode)
        # Lockstep waits for its controllers, and nobody waits for a thread.
        return replace(self, mode="real-time" if mode == "lockstep" else mode, controllers="thread")

    @property
    def is_fixed(self) -> bool:
        """Is every step the simulation's own?"""
        return self.mode in ("lockstep", "real-time")


@dataclass(frozen=True)
class LoopFrame:
    """One frame: where the world stands after it, how much it simulated and whether it came late.

    ``wall_s`` is from the beginning of the frame before to the beginning of this one. ``began_s`` and
    ``busy_s`` are when this one began and how long it worked, drawing and what stands for it included.
    """

    tick: int
    time_s: float
    step_s: float
    wall_s: float
    late: bool
    steps: tuple[StepResult, ...]
    began_s: float = 0.0
    busy_s: float = 0.0

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
        """``work`` stands for rendering; None: as much arithmetic as the settings say."""
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

    def frames(self) -> Iterator[LoopFrame]:
        """Run frame by frame to the end of the scenario; stop asking and the world stands still."""
        pacer = StepPacer(self.settings, self.simulation.world.settings.step_s)
        threaded = self.settings.controllers == "thread" and not self.simulation.replays
        decider = ThreadedDecider(self.simulation.decide) if threaded else InlineDecider(self.simulation.decide)
        before_s = self._clock.monotonic_s()
        # As if a frame on time had gone before: with no time passed the first frame would have nothing to simulate.
        passed_s = frame_s = pacer.first_wall_s
        try:
            while True:
                due = pacer.due(passed_s)
                if due.steps_s:
                    frame = self._frame(due, frame_s, decider)
                    frame_s = 0.0
                    # What the caller does with a frame counts as a part of it, like output does: the clock is read when he asks
                    # for the next.
                    yield frame
                    if frame.ended:
                        return
                else:
                    self._clock.sleep_s(due.wait_s)
                # Read once for both: time between two readings would belong to no frame.
                now_s = self._clock.monotonic_s()
                before_s, passed_s = now_s, now_s - before_s
                frame_s += passed_s
        finally:
            decider.close()

    def _frame(self, due: "DueSteps", wall_s: float, decider: "Decider") -> LoopFrame:
        simulation, start_s = self.simulation, self.simulation.world.time_s
        # The machine's own clock, whatever drives the loop: this is about the host, and reading the loop's would move it.
        began_s = SYSTEM_CLOCK.monotonic_s()
        # Once for the frame: steps that make up for lost time are made on the same inputs, which is what parts late runs from
        # those on time.
        step = simulation.world.tick_count
        commands = {} if simulation.replays else decider.commands(self._view(), step)
        decided_step = step if simulation.replays else decider.decided_step
        results: list[StepResult] = []
        for step_s in due.steps_s:
            for disturbance in self._disturbances:
                disturbance.before_step(simulation)
            # A replay goes by simulated time, whichever frame a step falls into.
            if simulation.replays:
                results.append(simulation.step(step_s))
            else:
                results.append(simulation.advance(commands, step_s, decided_step))
            self._on_step(results[-1])
            if results[-1].ended:
                break
        # After the steps, as an engine renders what physics has made; it delays the next frame, not this one.
        self._work()
        world = simulation.world
        self.frame_count += 1
        self.step_count += len(results)
        self.deadline_misses += due.late
        times = began_s, SYSTEM_CLOCK.monotonic_s() - began_s
        return LoopFrame(world.tick_count, world.time_s, world.time_s - start_s, wall_s, due.late, tuple(results), *times)

    def _view(self) -> WorldView:
        """What agents see. They count control periods: a frame is one only where steps are fixed."""
        # A thread looks while the world goes on: what it may look at is drawn before, as an engine draws a frame.
        view = self.simulation.view(lasting=self.settings.controllers == "thread")
        return view if self.settings.is_fixed else periods(view, self.simulation.world.settings.step_s)


def periods(view: WorldView, step_s: float) -> WorldView:
    """Return a view that counts control periods of ``step_s``, for agents in a loop whose steps vary."""
    # The margin is for the rounding of a sum of steps: a period that is over must not count as not quite over.
    return replace(view, tick=int(view.time_s / step_s + 1e-9))


@dataclass(frozen=True)
class DueSteps:
    """What a frame is to simulate; None stands for the fixed step. Without steps, ``wait_s`` until there will be one."""

    steps_s: tuple[float | None, ...]
    late: bool = False
    wait_s: float = 0.0


class StepPacer:
    """Turns the time that passed on the wall clock into steps. The first frame is given the time of one fixed step."""

    def __init__(self, settings: LoopSettings, step_s: float) -> None:
        self.settings = settings
        self.step_s = step_s
        self._owed_s = 0.0

    @property
    def first_wall_s(self) -> float:
        """Wall time of a frame that simulates one fixed step."""
        return self.step_s / self.settings.time_scale

    def due(self, wall_s: float) -> DueSteps:
        """Return what is due when ``wall_s`` have passed since the frame before began."""
        settings = self.settings
        if settings.mode == "lockstep":
            return DueSteps((None,))
        self._owed_s += wall_s * settings.time_scale
        if settings.mode == "real-time":
            return self._fixed_steps()
        owed_s, most = self._owed_s, settings.catch_up_steps if settings.mode == "semi-fixed" else 1
        if owed_s < _LEAST_STEP_S:
            return DueSteps((), wait_s=_LEAST_STEP_S / settings.time_scale)
        # What is beyond the caps is lost, not owed: owed, a slow machine would fall behind further with every frame.
        self._owed_s = 0.0
        taken_s, steps_s = min(owed_s, most * settings.max_step_s), []
        while taken_s >= _LEAST_STEP_S:
            steps_s.append(min(taken_s, settings.max_step_s))
            taken_s -= steps_s[-1]
        self._owed_s += taken_s if taken_s > 0 else 0.0
        return DueSteps(tuple(steps_s), late=owed_s > most * settings.max_step_s)

    def _fixed_steps(self) -> DueSteps:
        # The margin is far below a clock's resolution and above the rounding of a sum of frames.
        steps = int(self._owed_s / self.step_s + 1e-9)
        # All steps that were due, also those beyond ``catch_up_steps``: they are given up, or lateness would never end.
        self._owed_s = max(0.0, self._owed_s - steps * self.step_s)
        if not steps:
            return DueSteps((), wait_s=(self.step_s - self._owed_s) / self.settings.time_scale)
        return DueSteps((None,) * min(steps, self.settings.catch_up_steps), late=steps > 1)


class Decider(Protocol):
    """Runs the agents."""

    decided_step: int | None
    """The step before which those saw the world who decided what :meth:`commands` returned; None: nobody has decided yet."""

    def commands(self, view: WorldView, step: int = 0) -> dict[int, Command]:
        """Return what holds in the frame that begins with ``view``, before this step."""

    def close(self) -> None:
        """Stop."""


class InlineDecider:
    """Agents decide at once, in the first frame of each control period; until the next one their commands hold."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._period = -1
        self._commands: dict[int, Command] = {}
        self.decided_step: int | None = None

    def commands(self, view: WorldView, step: int = 0) -> dict[int, Command]:
        # By period, not by frame: short frames must not let agents decide more often than their period says.
        if view.tick > self._period:
            self._period, self._commands, self.decided_step = view.tick, self._decide(view), step
        return self._commands

    def close(self) -> None:
        """Nothing to stop."""


class ThreadedDecider:
    """Agents decide in a thread of their own, as a client beside a game engine does.

    They see the newest view when they are ready for one, and whatever they said last counts. The view, the commands and the end
    are handed over under one lock, so that a frame never waits for a decision: it publishes, takes what is there and goes on.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._changed = Condition()
        self._view: tuple[WorldView, int] | None = None
        self._commands: dict[int, Command] = {}
        self._commands_step: int | None = None
        self.decided_step: int | None = None
        self._error: BaseException | None = None
        self._stopped = False
        self._thread = Thread(target=self._run, name="controllers", daemon=True)
        self._thread.start()

    def commands(self, view: WorldView, step: int = 0) -> dict[int, Command]:
        """Publish the view and return what has arrived so far."""
        with self._changed:
            # Raised here, in the loop's own thread: an error in a thread that nobody joins would only be printed.
            if self._error is not None:
                raise self._error
            self._view = view, step
            self._changed.notify()
            # Both under the lock, or commands might be told with the step of those before them.
            self.decided_step = self._commands_step
            return self._commands

    def close(self) -> None:
        """Stop after the decision in hand."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        # The decision in hand still uses the simulation's agents: it must be over before anybody else does.
        self._thread.join()

    def _run(self) -> None:
        period = -1
        while True:
            with self._changed:
                # Sleeps until a newer period is published; views that came meanwhile are skipped, as a client that is too slow
                # skips frames.
                while not self._stopped and (self._view is None or self._view[0].tick <= period):
                    self._changed.wait()
                seen = self._view
            if self._stopped or seen is None:
                return
            view, step = seen
            period = view.tick
            # Without the lock: how long it takes to decide must not hold up a frame.
            try:
                commands = self._decide(view)
            except Exception as error:  # told to the loop, which raises it in the caller's thread
                self._error = error
                return
            with self._changed:
                self._commands, self._commands_step = commands, step


def frame_work(cost_s: float) -> Callable[[], None]:
    """Return work that takes ``cost_s`` on an idle core: as many passes of :func:`_shade` as fit."""
    passes = round(cost_s / _pass_s()) if cost_s > 0 else 0

    def work() -> None:
        for _ in range(passes):
            _shade()

    return work


def _shade() -> None:
    """Light 4096 pixels: a few dozen microseconds of arithmetic during which other threads may run, as while rendering."""
    np.multiply(_RAYS, _RAYS, out=_PIXELS)
    np.add(_PIXELS, 1.0, out=_PIXELS)
    np.sqrt(_PIXELS, out=_PIXELS)
    np.divide(_RAYS, _PIXELS, out=_PIXELS)


@lru_cache(maxsize=1)
def _pass_s() -> float:
    """Seconds of one pass: the least of many, so that a busy machine gets the same amount of work as an idle one."""
    times_s = []
    for _ in range(_TRIALS):
        start_s = SYSTEM_CLOCK.monotonic_s()
        _shade()
        times_s.append(SYSTEM_CLOCK.monotonic_s() - start_s)
    return max(min(times_s), 1e-7)
