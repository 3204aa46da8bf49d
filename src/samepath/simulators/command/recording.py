"""What a program has told, into a recorder: rows gathered to ticks, or to frames that are resampled; events; the end."""

from collections.abc import Callable
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.command.lines import ActorLine, EndLine, EventLine, Item, Moment, Row
from samepath.simulators.command.settings import CommandSettings
from samepath.simulators.interface import DURATION
from samepath.simulators.resampling import Frame, Resampler, Tick
from samepath.traces.importers.tidy import GRID_TOLERANCE
from samepath.traces.recorder import Recorder

PROGRAM_ENDED: Final = "the program ended"
# More than any run has; less than fills a memory.
MAX_ROWS: Final = 10_000_000
_TYPE: Final = "actor"


class Recording:
    """One run as it comes in. ``last_tick`` ends it, where the program does not before."""

    def __init__(
        self, settings: CommandSettings, recorder: Recorder, on_tick: Callable[[int], None], last_tick: int | None
    ) -> None:
        self._settings, self._recorder, self._on_tick, self._last_tick = settings, recorder, on_tick, last_tick
        self._ticks = _Resampled(settings.step_s) if settings.resample else _AsTheyAre(settings.step_s)
        self._types: dict[int, str] = {}
        self._seen: dict[int, int] = {}
        self._events: list[EventLine] = []
        self._rows = 0
        self.tick: int | None = None
        self.reason: str | None = None

    def add(self, item: Item) -> bool:
        """Take in what was told; True when nothing more is wanted, because the time asked for is over."""
        match item:
            case Row():
                self._rows += 1
                if self._rows > MAX_ROWS:
                    raise InputError(f"more than {MAX_ROWS} rows came: more than can be kept")
                self._name(item.actor, item.type)
                return self._record(self._ticks.take(item))
            case ActorLine():
                self._name(item.actor, item.type)
            case EventLine():
                self._events.append(item)
            case EndLine():
                self.reason = item.reason or "the run is over"
        return False

    def _name(self, actor: int, word: str) -> None:
        known = self._types.get(actor)
        if word and known not in (None, word):
            raise InputError(f"actor {actor} was a {known} before: it cannot become a {word}")
        if word:
            self._types[actor] = word

    def _record(self, ticks: list[tuple[Tick, float | None]]) -> bool:
        for (tick, states), time_s in ticks:
            if self._last_tick is not None and tick > self._last_tick:
                return True
            for actor, values in sorted(states.items()):
                if actor not in self._seen:
                    self._recorder.actor(actor, self._types.get(actor, _TYPE), 0 if self.tick is None else tick)
                self._recorder.state(tick, actor, values, time_s)
                self._seen[actor] = tick
            self.tick = tick
            self._on_tick(tick)
        return False

    def finish(self) -> None:
        """Record what is left: the last tick, events, the end."""
        over = self._record(self._ticks.rest())
        if self.tick is None:
            raise InputError("no state of any actor came")
        at_the_end = self.tick == self._last_tick
        for event in self._events:
            tick = self._ticks.tick_of(event.moment)
            if tick > self.tick and (over or at_the_end):
                continue
            if tick > self.tick:
                raise InputError(f"a {event.kind} at tick {tick} came, but the run ended at tick {self.tick}")
            self._check_gone(event, tick)
            self._recorder.event(tick, event.kind, event.actor, event.other, event.impulse_ns, event.detail)
        if self._ticks.note:
            self._recorder.event(self.tick, "note", detail=self._ticks.note)
        self._recorder.end(self.tick, DURATION if at_the_end else self.reason or PROGRAM_ENDED)

    def _check_gone(self, event: EventLine, tick: int) -> None:
        if event.kind == "destroy" and event.actor is not None and self._seen.get(event.actor, 0) > tick:
            raise InputError(f"actor {event.actor} was destroyed at tick {tick}, but has a state at {self._seen[event.actor]}")


class _AsTheyAre:
    """Rows of one tick are gathered; the numbers are the program's own."""

    note = ""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._tick: int | None = None
        self._time_s: float | None = None
        self._states: dict[int, dict[str, float]] = {}

    def take(self, row: Row) -> list[tuple[Tick, float | None]]:
        """Return the tick before, if this row begins another."""
        tick = self.tick_of(row.moment)
        done: list[tuple[Tick, float | None]] = []
        if tick != self._tick:
            if self._tick is not None and tick < self._tick:
                raise InputError(f"tick {tick} came after tick {self._tick}: rows in the order of time were wanted")
            done = self.rest()
            self._tick, self._time_s = tick, row.moment.time_s
        if row.moment.time_s != self._time_s:
            raise InputError(f"tick {tick} has the times {self._time_s} and {row.moment.time_s}: one for all actors was wanted")
        if row.actor in self._states:
            raise InputError(f"actor {row.actor} has two states at tick {tick}")
        self._states[row.actor] = row.values
        return done

    def rest(self) -> list[tuple[Tick, float | None]]:
        """Return the tick that is being gathered."""
        if self._tick is None or not self._states:
            return []
        done = [(Tick(self._tick, self._states), self._time_s)]
        self._states = {}
        return done

    def tick_of(self, moment: Moment) -> int:
        """Return the tick of a moment; a time must be a whole number of steps."""
        if moment.tick is not None:
            return moment.tick
        steps = (moment.time_s or 0.0) / self._step_s
        if not 0 <= steps < 2**53 or abs(steps - round(steps)) > GRID_TOLERANCE:
            raise InputError(
                f"{moment.time_s} s is no whole number of steps of {self._step_s:g} s: give step_s as it is, or resample: true"
            )
        return round(steps)


class _Resampled:
    """Rows of one time are a frame, which comes when it comes."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._resampler: Resampler | None = None
        self._time_s: float | None = None
        self._states: dict[int, dict[str, float]] = {}

    @property
    def note(self) -> str:
        """What was done, in words."""
        return "" if self._resampler is None else self._resampler.note

    def take(self, row: Row) -> list[tuple[Tick, float | None]]:
        """Return the ticks that the frame before this row's completes."""
        time_s = row.moment.time_s
        if time_s is None or not 0 <= time_s < 1e9:
            raise InputError(f"a time from 0 s on was wanted, because resample is true, but {time_s} came")
        done: list[tuple[Tick, float | None]] = []
        if time_s != self._time_s:
            done = self._close_frame()
            self._time_s = time_s
        if row.actor in self._states:
            raise InputError(f"actor {row.actor} has two states at {time_s} s")
        self._states[row.actor] = row.values
        return done

    def _close_frame(self) -> list[tuple[Tick, float | None]]:
        if self._time_s is None or not self._states:
            return []
        frame = Frame(self._time_s, self._states)
        self._states = {}
        if self._resampler is None:
            self._resampler = Resampler(self._step_s, frame)
            return []
        return [(tick, None) for tick in self._resampler.take(frame)]

    def rest(self) -> list[tuple[Tick, float | None]]:
        """Return the ticks up to the last frame."""
        done = self._close_frame()
        return done if self._resampler is None else [*done, *((tick, None) for tick in self._resampler.rest())]

    def tick_of(self, moment: Moment) -> int:
        """Return the first tick at or after a moment."""
        if moment.tick is not None:
            return moment.tick
        return Resampler(self._step_s, Frame(0.0, {})).tick_of(moment.time_s or 0.0)
