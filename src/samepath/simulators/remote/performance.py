"""One run from its first look to its last: drivers are asked, time passes in the program, every tick is recorded."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from samepath.base.clock import Clock
from samepath.base.errors import SimulatorError
from samepath.simulators.interface import DURATION
from samepath.simulators.playing.performance import FIRST_COLLISION, LAST_WAYPOINT, TIME_OVER
from samepath.simulators.remote.settings import TICK_S, RemoteSettings
from samepath.simulators.remote.ticks import Clockwork, ExactTicks, ResampledTicks
from samepath.simulators.remote.world import Contact, Look, RemoteWorld
from samepath.simulators.scripts import STANDING, Mind, Script, VehicleCommand, mind_of, scripted_chassis
from samepath.traces.recorder import Recorder

NO_IMPULSE: Final = "the program tells no impulse"
_ROUNDING: Final = 1e-9


class RemotePerformance:
    """A script played in a program; ``last_tick`` ends it sooner."""

    def __init__(
        self,
        world: RemoteWorld,
        script: Script,
        settings: RemoteSettings,
        recorder: Recorder,
        on_tick: Callable[[int], None],
        last_tick: int | None,
    ) -> None:
        self._world, self._script, self._settings = world, script, settings
        self._recorder, self._on_tick, self._last_tick = recorder, on_tick, last_tick
        minds = {role.number: mind_of(role, scripted_chassis, settings.control_s) for role in script.roles}
        self._minds: dict[int, Mind] = {number: mind for number, mind in minds.items() if mind is not None}
        self._commands = dict.fromkeys(self._minds, STANDING)
        self._met: dict[tuple[int, int | None, str], Contact] = {}
        self._ended = ""
        self._tick = 0

    def play(self, clock: Clock) -> None:
        """Play from the start to the end."""
        world, settings = self._world, self._settings
        for role in self._script.roles:
            self._recorder.actor(role.number, role.type)
        looks = world.look()
        ticks: Clockwork = ExactTicks() if settings.exact else ResampledTicks(looks)
        world.contacts()  # who touches already when the run begins has not collided in it
        if not settings.synchronous:
            world.run()
        pace = _Pace(clock, settings)
        while not self._ended:
            self._decide(looks)
            if settings.synchronous:
                world.step()
            else:
                pace.wait()
            looks = world.look()
            pace.check(looks)
            self._meet(world.contacts())
            for tick, states in ticks.take(looks):
                if not self._ended:
                    self._record(tick, states)
        self._finish(ticks.note)

    def _decide(self, looks: Sequence[Look]) -> None:
        for look in looks:
            command = self._minds[look.number].decide(look.seen, look.time_s)
            if not isinstance(command, VehicleCommand):
                raise SimulatorError(f"actor {look.number}: only vehicles can be driven in this program")
            self._commands[look.number] = command
            self._world.command(look.number, command)

    def _meet(self, contacts: Sequence[Contact]) -> None:
        """Keep the first contact of each pair, under the lower number."""
        for contact in contacts:
            if contact.other is not None and contact.other < contact.actor:
                contact = contact._replace(actor=contact.other, other=contact.actor)  # noqa: PLW2901
            self._met.setdefault((contact.actor, contact.other, contact.detail), contact)

    def _record(self, tick: int, states: dict[int, dict[str, float]]) -> None:
        self._tick = tick
        if self._recorder.wants(tick):
            for number, state in states.items():
                told = self._commands[number]
                controls = {"throttle_ratio": told.throttle, "steer_ratio": told.steer, "brake_ratio": told.brake}
                self._recorder.state(tick, number, {**state, **controls})
        self._on_tick(tick)
        self._ended = self._why_over(tick)

    def _why_over(self, tick: int) -> str:
        if tick == self._last_tick:
            return DURATION
        if self._script.ends_early and all(mind.finished for mind in self._minds.values()):
            return LAST_WAYPOINT
        if self._script.end == "first-collision" and any(_tick_of(one) <= tick for one in self._met.values()):
            return FIRST_COLLISION
        return TIME_OVER if tick >= self._script.ticks else ""

    def _finish(self, note: str) -> None:
        for one in sorted(self._met.values(), key=lambda one: (one.time_s, one.actor, one.other or 0, one.detail)):
            if _tick_of(one) <= self._tick:
                words = f"{one.detail}; {NO_IMPULSE}" if one.detail else NO_IMPULSE
                self._recorder.event(_tick_of(one), "collision", one.actor, one.other, detail=words)
        if note:
            self._recorder.event(self._tick, "note", detail=note)
        self._recorder.end(self._tick, self._ended)


def _tick_of(contact: Contact) -> int:
    """The first tick at or after a moment, and not before the first."""
    return max(1, math.ceil(contact.time_s / TICK_S - _ROUNDING))


class _Pace:
    """Asks at the rate of the wall clock, and tells of a program whose own clock stands still."""

    def __init__(self, clock: Clock, settings: RemoteSettings) -> None:
        self._clock, self._settings = clock, settings
        self._due_s = clock.monotonic_s()
        self._moved_s = self._due_s
        self._last: tuple[float, ...] = ()

    def wait(self) -> None:
        """Wait for the next time to ask; a late one is asked at once."""
        now_s = self._clock.monotonic_s()
        self._due_s = max(self._due_s + 1.0 / self._settings.frame_rate_hz, now_s)
        if self._due_s > now_s:
            self._clock.sleep_s(self._due_s - now_s)

    def check(self, looks: Sequence[Look]) -> None:
        """Has time passed since the last look, or at least not stood still for too long?"""
        now_s, times = self._clock.monotonic_s(), tuple(look.time_s for look in looks)
        if times != self._last:
            self._moved_s, self._last = now_s, times
        elif now_s - self._moved_s > self._settings.timeout_s:
            raise SimulatorError(
                f"the clock of the program at {self._settings.address} stood still for {self._settings.timeout_s:g} s: "
                "is it paused?"
            )
