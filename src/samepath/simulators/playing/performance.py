"""One run from its first step to its last: drivers are asked, the engine goes on, every tick is recorded."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from samepath.base.clock import Clock
from samepath.base.errors import SimulatorError
from samepath.simulators.interface import DURATION
from samepath.simulators.playing.settings import GAME_LOOP, SYNCHRONOUS, TICK_S, PlaySettings
from samepath.simulators.playing.world import CONTROLS, State, Touch, World
from samepath.simulators.resampling import RESAMPLING, Frame, Resampler
from samepath.simulators.scripts import STANDING, Mind, Script, VehicleCommand, mind_of, scripted_chassis
from samepath.traces.recorder import Recorder

LAST_WAYPOINT: Final = "every actor reached its last waypoint"
FIRST_COLLISION: Final = "first collision"
TIME_OVER: Final = "simulated time is over"
# Everybody sinks onto their wheels, brakes on, before the run begins: fixed steps in every mode.
SETTLE_TICKS: Final = 20


class _Kept(NamedTuple):
    """What was taken down at a tick; commands are in the order of the actors."""

    tick: int
    reading: Any
    commands: tuple[VehicleCommand, ...]


class Performance:
    """A script played in an engine's world. ``last_tick`` ends it sooner."""

    def __init__(
        self,
        world: World,
        script: Script,
        settings: PlaySettings,
        recorder: Recorder,
        on_tick: Callable[[int], None],
        last_tick: int | None,
    ) -> None:
        self._world, self._script, self._settings = world, script, settings
        self._recorder, self._on_tick, self._last_tick = recorder, on_tick, last_tick
        minds = {role.number: mind_of(role, scripted_chassis, settings.control_s) for role in script.roles}
        self._minds: dict[int, Mind] = {number: mind for number, mind in minds.items() if mind is not None}
        self._commands: dict[int, VehicleCommand] = dict.fromkeys(self._minds, STANDING)
        self._touches: list[tuple[int, Touch]] = []
        self._numbers: list[int] = []
        self._kept: list[_Kept] = []
        self._ended = ""
        self._tick = 0

    def play(self, clock: Clock) -> None:
        """Play from the start to the end."""
        for role in self._script.roles:
            self._recorder.actor(role.number, role.type)
        self._settle()
        self._check_channels()
        notes: list[str] = []
        if self._settings.mode == SYNCHRONOUS:
            self._play_in_step()
        elif self._settings.mode == GAME_LOOP:
            self._play_frames(clock)
        else:
            notes.append(self._play_stretched(clock))
        self._record_kept()
        for tick, touch in self._touches:
            if tick <= self._tick:
                self._recorder.event(tick, "collision", touch.actor, touch.other, touch.impulse_ns)
        for note in notes:
            self._recorder.event(self._tick, "note", detail=note)
        self._recorder.end(self._tick, self._ended)

    def _settle(self) -> None:
        for number in self._minds:
            self._world.command(number, STANDING)
        self._world.step(SETTLE_TICKS * self._settings.substeps)
        self._world.touches()

    def _check_channels(self) -> None:
        """States are recorded as they come: their order is that of the channels, or numbers would change places."""
        wanted = tuple(name for name in self._recorder.channels if name not in (*CONTROLS, RESAMPLING))
        states = self._world.states()
        self._numbers = list(states)
        for state in states.values():
            if tuple(state) != wanted:
                raise SimulatorError(f"states with {', '.join(wanted)} were wanted, but {', '.join(state)} came")

    def _play_in_step(self) -> None:
        world, substeps = self._world, self._settings.substeps
        while not self._ended:
            self._decide(self._tick * TICK_S)
            world.step(substeps)
            self._note_touches(self._tick + 1)
            self._keep(self._tick + 1)

    def _play_frames(self, clock: Clock) -> None:
        """Drivers go by the game's clock, the trace by the engine's: each tick is so many of its steps."""
        world, substeps, made = self._world, self._settings.substeps, 0

        def on_step() -> None:
            nonlocal made
            made += 1
            if self._ended:
                return
            self._note_touches(self._tick + 1)
            if made % substeps == 0:
                self._keep(self._tick + 1)

        self._frames(clock, lambda frame_s: world.advance(frame_s, on_step))

    def _play_stretched(self, clock: Clock) -> str:
        """Frames end when they end; what a trace has at its ticks lies between them."""
        world, now_s = self._world, 0.0
        resampler = Resampler(TICK_S, Frame(0.0, self._copied()))
        resampler.rest()  # the start itself is no tick of a trace

        def one_step(frame_s: float) -> None:
            nonlocal now_s
            world.stretch(frame_s)
            now_s += frame_s
            self._note_touches(max(1, resampler.tick_of(now_s)))
            for tick, states in resampler.take(Frame(now_s, self._copied())):
                if not self._ended:
                    self._record(tick, states)

        self._frames(clock, one_step)
        return resampler.note

    def _frames(self, clock: Clock, go_on: Callable[[float], None]) -> None:
        """Call ``go_on`` with the time of each frame, from the wall clock; a late frame begins at once."""
        settings = self._settings
        last_s = clock.monotonic_s()
        due_s, game_s = last_s + settings.frame_s, 0.0
        while not self._ended:
            wait_s = due_s - clock.monotonic_s()
            if wait_s > 0:
                clock.sleep_s(wait_s)
            now_s = clock.monotonic_s()
            frame_s = (now_s - last_s) * settings.time_scale
            last_s, due_s = now_s, max(due_s, now_s) + settings.frame_s
            if frame_s > 0:
                game_s += frame_s
                self._decide(game_s)
                go_on(frame_s)

    def _decide(self, time_s: float) -> None:
        world = self._world
        for number, mind in self._minds.items():
            command = mind.decide(world.see(number), time_s)
            if not isinstance(command, VehicleCommand):
                raise SimulatorError(f"actor {number}: only vehicles can be driven in this engine")
            self._commands[number] = command
            world.command(number, command)

    def _copied(self) -> dict[int, dict[str, float]]:
        return {number: dict(state) for number, state in self._world.states().items()}

    def _note_touches(self, tick: int) -> None:
        self._touches += [(tick, touch) for touch in self._world.touches()]

    def _keep(self, tick: int) -> None:
        """Take down a tick: what the engine says, and what everybody was told to do. What follows from it waits for the end."""
        if self._recorder.wants(tick):
            self._kept.append(_Kept(tick, self._world.reading(), tuple(self._commands.values())))
        self._pass(tick)

    def _record_kept(self) -> None:
        """Record all that was taken down: everybody's state in the order of the channels, then their commands."""
        if self._kept:
            told = [[(one.throttle, one.steer, one.brake) for one in kept.commands] for kept in self._kept]
            rows = self._world.rows([kept.reading for kept in self._kept])
            self._recorder.block([kept.tick for kept in self._kept], self._numbers, np.concatenate((rows, told), axis=-1))

    def _record(self, tick: int, states: Mapping[int, State]) -> None:
        """Record a tick at once: everybody's state in the order of the channels, then what they were told to do."""
        if self._recorder.wants(tick):
            told = self._commands
            rows = [
                [*state.values(), told[number].throttle, told[number].steer, told[number].brake]
                for number, state in states.items()
            ]
            self._recorder.rows(tick, list(states), rows)
        self._pass(tick)

    def _pass(self, tick: int) -> None:
        self._tick = tick
        self._on_tick(tick)
        self._ended = self._why_over(tick)

    def _why_over(self, tick: int) -> str:
        if tick == self._last_tick:
            return DURATION
        if self._script.ends_early and all(mind.finished for mind in self._minds.values()):
            return LAST_WAYPOINT
        if self._script.end == "first-collision" and any(touched <= tick for touched, _ in self._touches):
            return FIRST_COLLISION
        return TIME_OVER if tick >= self._script.ticks else ""
