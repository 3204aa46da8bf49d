"""One run from its first frame to its last: the server is set up, everybody spawned, played, recorded and taken away again."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.simulators.carla.cast import Cast
from samepath.simulators.carla.clocks import ServerClock, clock_of
from samepath.simulators.carla.contacts import first_contacts
from samepath.simulators.carla.link import Link
from samepath.simulators.carla.settings import TICK_S, CarlaSettings
from samepath.simulators.carla.shows import TRAFFIC_MAP, ScriptedShow, Show, TrafficShow
from samepath.simulators.carla.ticks import Frame, States, ticks_from
from samepath.simulators.interface import DURATION
from samepath.simulators.scripts import Script
from samepath.traces.recorder import Recorder

LAST_WAYPOINT: Final = "every actor reached its last waypoint"
TIME_OVER: Final = "simulated time is over"
# How often stragglers among the sensors' messages are waited for, at most.
_WAITS: Final = 20


def perform(
    carla: Any,  # noqa: ANN401
    settings: CarlaSettings,
    script: Script | None,
    seed: int,
    last_tick: int | None,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Play a script, or traffic where there is none, and leave the server as it was found, whatever happens."""
    link = Link(carla, settings)
    with ExitStack() as stack:
        stack.callback(link.close)
        link.load(TRAFFIC_MAP if script is None else script.map)
        with link.asking("before the run"):
            clock = clock_of(link)
            stack.callback(clock.close)
            late = _lead(link, clock)
            cast = Cast(link)
            stack.callback(cast.close)
            show = TrafficShow(link, cast, seed) if script is None else ScriptedShow(link, cast, script)
            stack.callback(show.close)
            show.enter()
            start = _settled(link, clock, cast)
            show.begin(start)
        Run(link, cast, show, recorder, on_tick).play(clock, start, last_tick, late)


def _lead(link: Link, clock: ServerClock) -> str:
    """Bring the episode to the same time in every repeat: loading it makes the client tick as often as it takes.

    Returns a note where the episode was beyond that time already.
    """
    settings = link.settings
    now_s = link.world.get_snapshot().timestamp.elapsed_seconds
    late = ""
    if settings.reload == "world":
        lead_s = settings.lead_s - settings.control_s / 2
        if settings.synchronous and now_s > settings.lead_s + settings.control_s / 2:
            late = "the world was older than lead_s when it was loaded; repeats may begin at different ages: raise lead_s"
        while now_s < lead_s:
            now_s = clock.advance()[-1].timestamp.elapsed_seconds
    link.world.reset_all_traffic_lights()
    return late


def _settled(link: Link, clock: ServerClock, cast: Cast) -> Frame:
    """Let everybody drop onto their wheels and feet; at least one step, before which nobody has a state."""
    settings = link.settings
    snapshot = clock.advance()[-1]
    begun_s = snapshot.timestamp.elapsed_seconds
    while snapshot.timestamp.elapsed_seconds - begun_s < settings.settle_s - settings.control_s / 2:
        snapshot = clock.advance()[-1]
    return cast.frame(snapshot, controls=settings.synchronous)


class Run:
    """The recorded part of a performance."""

    def __init__(self, link: Link, cast: Cast, show: Show, recorder: Recorder, on_tick: Callable[[int], None]) -> None:
        self._link, self._cast, self._show = link, cast, show
        self._recorder, self._on_tick = recorder, on_tick
        self._gone: dict[int, int] = {}
        self._types = cast.types

    def play(self, clock: ServerClock, start: Frame, last_tick: int | None, late: str) -> None:
        """Play until the end; ``start`` is tick 0."""
        settings, show = self._link.settings, self._show
        for number, name in self._types.items():
            self._recorder.actor(number, name)
        ticks = ticks_from(start, settings)
        over = round(show.duration_s / TICK_S)
        frame, tick, ended, missed = start, 0, "", 0
        while not ended:
            with self._link.asking(f"after tick {tick}"):
                show.act(frame, ticks.time_s(frame))
                snapshots = clock.advance()
                for snapshot in snapshots:
                    missed += snapshot.frame - frame.number - 1
                    frame = self._cast.frame(snapshot, controls=settings.synchronous)
                    for tick, states in ticks.take(frame):
                        self._record(tick, states)
                        ended = self._ended(tick, states, last_tick, over)
                        if ended:
                            break
                    if ended:
                        break
        self._wait_for_sensors()
        notes = [*([late] if late else []), *show.notes]
        if missed:
            notes.append(f"{missed} frames of the server never arrived")
        self._record_events(ticks.of_report, tick, notes)
        self._recorder.end(tick, ended)

    def _ended(self, tick: int, states: States, last_tick: int | None, over: int) -> str:
        if last_tick is not None and tick >= last_tick:
            return DURATION
        if self._show.ends_early and self._show.is_over(states):
            return LAST_WAYPOINT
        return TIME_OVER if tick >= over else ""

    def _record(self, tick: int, states: States) -> None:
        for number in self._types:
            if number not in states:
                self._gone.setdefault(number, tick)
        if self._recorder.wants(tick):
            for number, values in states.items():
                if number not in self._gone:
                    self._recorder.state(tick, number, values)
        self._on_tick(tick)

    def _wait_for_sensors(self) -> None:
        """A sensor's last message may still be on its way: wait until none has come for a while."""
        for _ in range(_WAITS):
            count = len(self._cast.reports)
            SYSTEM_CLOCK.sleep_s(self._link.settings.sensor_wait_s)
            if len(self._cast.reports) == count:
                return

    def _record_events(self, tick_of: Callable[..., int], last_tick: int, notes: list[str]) -> None:
        for one in first_contacts(self._cast.reports, tick_of, last_tick):
            self._recorder.event(one.tick, "collision", one.actor, one.other, one.impulse_ns, one.detail)
        for number, tick in sorted(self._gone.items()):
            self._recorder.event(tick, "destroy", number)
        for note in notes:
            self._recorder.event(0, "note", detail=note)
