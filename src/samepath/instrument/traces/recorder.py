"""The recorder: what a simulator writes a run into. It checks at the door, so that no broken record is ever stored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import COMMANDS, LARGEST, POSITION, check_channels
from samepath.core.errors import SimulatorError, nearest
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.instrument.traces.records import (
    Actor,
    Event,
    EventKind,
    HostLog,
    Repeat,
    RunEnd,
    SensorFrame,
    frame_of,
    row_digests,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
# Of one run: about 1 GB in memory. An hour of ten actors commanded twenty times a second is a seventh of it.
INPUTS_MOST: Final = 5_000_000
# An hour at 280 frames a second: the times of later frames are not kept.
FRAME_TIMES_MOST: Final = 1_000_000
# Ticks, actors, times and values of rows.
_Block = tuple[Ints, Ints, Floats, Floats]


class Recorder:
    """Collects one run. Call :meth:`actor` before an actor's first state, :meth:`state` per tick and actor, :meth:`end` once.

    ``log_every`` keeps only ticks divisible by it (events are always kept). Time is ``tick * step_s`` unless the simulator,
    running with a variable step, gives its own.
    """

    def __init__(self, repeat: int, channels: Sequence[str], step_s: float, log_every: int = 1) -> None:
        if not step_s > 0 or log_every < 1:
            raise SimulatorError(f"a step above 0 s and an interval of at least 1 tick were wanted, not {step_s}, {log_every}")
        self.repeat = repeat
        self.channels = check_channels(tuple(channels))
        self.step_s = step_s
        self.log_every = log_every
        self._index = {name: index for index, name in enumerate(self.channels)}
        self._actors: dict[int, Actor] = {}
        self._gone: dict[int, int] = {}
        self._rows: list[tuple[int, int, float]] = []
        self._values: list[list[float]] = []
        self._blocks: list[_Block] = []
        self._events: list[Event] = []
        self._end: RunEnd | None = None
        self._last: dict[int, int] = {}
        self._frames: dict[str, list[SensorFrame]] = {}
        self._inputs: InputLog | None = None
        self._is_in_step = False
        self._frame_times: list[tuple[int, float, float, float]] = []
        self._told: dict[str, str | float | int | bool] = {}

    def actor(self, actor_id: int, actor_type: str, tick: int = 0) -> None:
        """Announce an actor; its id has never been used in this run. Records a spawn event."""
        self._open()
        if actor_id in self._actors:
            raise SimulatorError(f"repeat {self.repeat}: actor id {actor_id} was used before; ids are never reused")
        self._actors[actor_id] = Actor(actor_id, actor_type)
        self._events.append(Event(tick, EventKind.SPAWN, actor_id))

    def wants(self, tick: int) -> bool:
        """Is this tick kept? Lets a simulator skip gathering what would be thrown away."""
        return tick % self.log_every == 0

    def state(self, tick: int, actor_id: int, values: Mapping[str, float], time_s: float | None = None) -> None:
        """Record an actor's state after ``tick``; a channel left out does not apply to this actor."""
        self._open()
        self._known(actor_id)
        if actor_id in self._gone:
            raise SimulatorError(f"repeat {self.repeat}: actor {actor_id} was destroyed at tick {self._gone[actor_id]}")
        if tick <= self._last.get(actor_id, -1):
            raise SimulatorError(f"repeat {self.repeat}: tick {tick} of actor {actor_id} came after {self._last[actor_id]}")
        self._last[actor_id] = tick
        if not self.wants(tick):
            return
        row = [math.nan] * len(self.channels)
        for name, value in values.items():
            index = self._index.get(name)
            if index is None:
                hint = nearest(name, self.channels)
                raise SimulatorError(f"channel {name!r} was not declared" + (f"; did you mean {hint!r}?" if hint else ""))
            if not abs(value) <= LARGEST:  # NaN is not
                raise SimulatorError(f"repeat {self.repeat}, tick {tick}, actor {actor_id}: {name} is {value}")
            row[index] = value
        self._rows.append((tick, actor_id, tick * self.step_s if time_s is None else time_s))
        self._values.append(row)

    def rows(self, tick: int, actor_ids: Sequence[int], values: Sequence[Sequence[float]], time_s: float | None = None) -> None:
        """Record many actors at once, each with a value for every channel in order; NaN: the channel does not apply.

        The quick way in for a simulator that keeps its states finite itself; positions must be there, infinities are refused.
        """
        self._open()
        time = tick * self.step_s if time_s is None else time_s
        for actor_id, row in zip(actor_ids, values, strict=True):
            self._known(actor_id)
            if tick <= self._last.get(actor_id, -1) or actor_id in self._gone:
                raise SimulatorError(f"repeat {self.repeat}: actor {actor_id} cannot have a state at tick {tick}")
            self._last[actor_id] = tick
            if self.wants(tick):
                self._rows.append((tick, actor_id, time))
                self._values.append(list(row))

    def block(self, ticks: Sequence[int], actor_ids: Sequence[int], values: Floats) -> None:
        """Record many ticks of many actors at once, ``values[tick, actor, channel]``: what :meth:`rows` would, tick by tick.

        For a simulator that reads its engine's numbers after the run. Ticks rise; those that are not wanted are left out.
        """
        self._open()
        tick, actor = np.array(ticks, np.int64), np.array(actor_ids, np.int64)
        wanted = len(tick), len(actor), len(self.channels)
        if values.shape != wanted or np.any(np.diff(tick) <= 0) or len(set(actor_ids)) != len(actor_ids):
            raise SimulatorError(
                f"repeat {self.repeat}: values of shape {wanted} at rising ticks were wanted, of no actor twice, "
                f"not {values.shape} of actors {list(actor_ids)}"
            )
        for actor_id in actor_ids if len(tick) else ():
            self._known(actor_id)
            if ticks[0] <= self._last.get(actor_id, -1) or actor_id in self._gone:
                raise SimulatorError(f"repeat {self.repeat}: actor {actor_id} cannot have a state at tick {ticks[0]}")
            self._last[actor_id] = int(ticks[-1])
        kept = tick % self.log_every == 0
        tick, chosen = tick[kept], values[kept]
        self._blocks.append(
            (
                np.repeat(tick, len(actor)),
                np.tile(actor, len(tick)),
                np.repeat(tick * self.step_s, len(actor)),
                np.array(chosen, np.float64).reshape(-1, len(self.channels)),
            )
        )

    def event(
        self,
        tick: int,
        kind: str,
        actor: int | None = None,
        other: int | None = None,
        impulse_ns: Sequence[float] | None = None,
        detail: str = "",
    ) -> None:
        """Record an event; ``destroy`` also makes the actor absent from the next tick on."""
        self._open()
        for actor_id in (actor, other):
            if actor_id is not None:
                self._known(actor_id)
        impulse = None
        if impulse_ns is not None:
            impulse = (float(impulse_ns[0]), float(impulse_ns[1]), float(impulse_ns[2]))
            if not all(map(math.isfinite, impulse)):
                raise SimulatorError(f"repeat {self.repeat}, tick {tick}: the impulse of a {kind} is {impulse}")
        if kind == EventKind.DESTROY and actor is not None:
            self._gone[actor] = tick
        self._events.append(Event(tick, str(kind), actor, other, impulse, detail))

    def sensor(self, tick: int, name: str, kind: str, values: NDArray[Any], *, keep: bool = False) -> None:
        """Record what a sensor measured at ``tick`` as a digest; with ``keep``, as a whole. Names are those of one run."""
        self._open()
        frames = self._frames.setdefault(name, [])
        if values.dtype.hasobject:
            raise SimulatorError(f"repeat {self.repeat}: sensor {name!r} measured objects of Python: give an array of numbers")
        if frames and (frames[-1].kind != kind or tick <= frames[-1].tick):
            was = f"{frames[-1].kind} at tick {frames[-1].tick}"
            raise SimulatorError(f"repeat {self.repeat}: sensor {name!r} was {was}, it cannot be {kind} at tick {tick}")
        frames.append(frame_of(tick, name, kind, values, keep=keep))

    def frame_times(self, tick: int, frame_s: float, game_s: float, draw_s: float) -> None:
        """Note how long a frame took that reached ``tick``, and in it the game and drawing; of the host, so in no digest."""
        self._open()
        if len(self._frame_times) < FRAME_TIMES_MOST:
            self._frame_times.append((tick, frame_s, game_s, draw_s))

    def inputs(self, log: InputLog) -> None:
        """Keep what went into the run, so that it can be told why runs part; once, before :meth:`end`.

        Never part of the run's digest: the same states are the same run, whatever led there.
        """
        self._open()
        if self._inputs is not None:
            raise SimulatorError(f"repeat {self.repeat}: what went into the run was given before; give one log")
        if len(log) > INPUTS_MOST:
            raise SimulatorError(f"repeat {self.repeat}: at most {INPUTS_MOST} inputs of a run are kept, but {len(log)} came")
        self._inputs = InputLog(list(log.entries), log.covers, log.step_s)

    def told(self, name: str, value: str | float | bool) -> None:
        """Say how the run was made where its bits do not show it, such as ``renderer`` "cuda"; the last word counts.

        Kept beside what was read back of the conditions (:class:`HostLog`), never part of the run's digest.
        """
        self._open()
        self._told[name] = value

    def in_step(self) -> None:
        """Say that the run goes in step: a tick is a step of its fixed length, before which every controller was asked once.

        Then the commands in the rows are all that goes in, and the log of inputs is made from them. Nothing else may drive the
        run: no clock, no thread. Instead of :meth:`inputs`, before :meth:`end`.
        """
        self._open()
        if self._inputs is not None:
            raise SimulatorError(f"repeat {self.repeat}: what went into the run was given before; give one log")
        self._is_in_step = True

    def end(self, tick: int, reason: str, *, completed: bool = True) -> None:
        """Close the run; nothing may follow."""
        self._open()
        self._end = RunEnd(tick, reason, completed)

    def finish(self, host: HostLog | None = None) -> Repeat:
        """Return the run as a record, rows in canonical order."""
        if self._end is None:
            raise SimulatorError(f"repeat {self.repeat}: the simulator returned without saying how the run ended")
        tick, actor, time_s, values = self._ordered()
        self._refuse_broken(tick, actor, values)
        actors = tuple(sorted(self._actors.values()))
        return Repeat(
            repeat=self.repeat,
            actors=actors,
            channels=self.channels,
            tick=tick,
            actor=actor,
            time_s=time_s,
            values=values,
            events=tuple(sorted(self._events, key=lambda event: event.tick)),  # stable: order within a tick is kept
            end=self._end,
            digests=row_digests(actors, self.channels, tick, actor, time_s, values),
            host=self._with_what_was_told(host or HostLog()),
            sensors=tuple(frame for _, frames in sorted(self._frames.items()) for frame in frames),
            inputs=self._step_inputs(tick, actor, values) if self._is_in_step else self._inputs,
        )

    def _with_what_was_told(self, host: HostLog) -> HostLog:
        if self._told:
            host = replace(host, measured={**self._told, **host.measured})
        if not self._frame_times:
            return host
        ticks, frame_s, game_s, draw_s = zip(*self._frame_times, strict=True)
        at = np.array(ticks, np.int64)
        took = [np.array(column, np.float64) for column in (frame_s, game_s, draw_s)]
        for array in (at, *took):
            array.setflags(write=False)
        return replace(host, frame_ticks=at, frame_s=took[0], game_s=took[1], draw_s=took[2])

    def _step_inputs(self, tick: Ints, actor: Ints, values: Floats) -> InputLog:
        """Return the commands in the rows of a run in step: that of tick t went in before step t - 1, and was decided there."""
        log = InputLog(covers=frozenset({InputKind.STEP, InputKind.COMMAND}), step_s=self.step_s)
        names = [name for name in self.channels if name in COMMANDS]
        if self.log_every != 1:
            # What was commanded between two rows is not known.
            return InputLog(covers=frozenset({InputKind.STEP}), step_s=self.step_s)
        columns = [self._index[name] for name in names]
        told: dict[int, bytes] = {}
        # As bytes, because two «does not apply» are the same command and NaN equals nothing.
        commands = np.ascontiguousarray(values[:, columns])
        for row, (at, actor_id) in enumerate(zip(tick.tolist(), actor.tolist(), strict=True)):
            bits = commands[row].tobytes()
            if at > 0 and columns and told.get(actor_id) != bits:
                told[actor_id] = bits
                known = tuple(commands[row].tolist())
                log.add(Input(at - 1, InputKind.COMMAND, " ".join(names), actor_id, known, decided_step=at - 1))
        return log

    def _ordered(self) -> _Block:
        """Return all rows by tick, then actor."""
        # Each column in its own type: in an array of float64 alone, ids beyond 2**53 would be rounded.
        rows = np.array(self._rows, [("tick", np.int64), ("actor", np.int64), ("time_s", np.float64)])
        single = np.array(self._values, np.float64).reshape(-1, len(self.channels))
        blocks = [(rows["tick"], rows["actor"], rows["time_s"], single), *self._blocks]
        tick, actor, time_s, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        order = np.lexsort((actor, tick))
        return tick[order], actor[order], time_s[order], values[order]

    def _refuse_broken(self, tick: Ints, actor: Ints, values: Floats) -> None:
        """Refuse infinities, and positions that are not there."""
        needed = [self._index[name] for name in POSITION if name in self._index]
        broken = np.abs(values) > LARGEST
        broken[:, needed] |= np.isnan(values[:, needed])
        if broken.any():
            row, column = (int(indices[0]) for indices in np.nonzero(broken))
            place = f"repeat {self.repeat}, tick {tick[row]}, actor {actor[row]}"
            raise SimulatorError(f"{place}: {self.channels[column]} is {values[row, column]}")

    def _open(self) -> None:
        if self._end is not None:
            raise SimulatorError(f"repeat {self.repeat}: the run has ended ({self._end.reason}); nothing may follow")

    def _known(self, actor_id: int) -> None:
        if actor_id not in self._actors:
            raise SimulatorError(f"repeat {self.repeat}: actor {actor_id} was never announced; call actor() first")


class RunningSpread:
    """A quick look at the spread while repeats still come in: what progress shows, never what a report says.

    Sample deviation of every actor's position at every tick that the first repeat has; later ones are added one by one.
    Welford's method on differences from the first repeat: identical repeats give exactly 0. Pairs of tick and actor that the
    first repeat does not have are left out, which is one reason why the figure is preliminary.
    """

    def __init__(self) -> None:
        self._first: Repeat | None = None
        self._columns: list[int] = []
        self._count = np.empty(0)
        self._mean = self._squares = np.empty((0, 0))

    def add(self, repeat: Repeat) -> None:
        """Take in a repeat."""
        if self._first is None:
            self._first = repeat
            self._columns = [index for index, name in enumerate(repeat.channels) if name in POSITION]
            self._count = np.ones(len(repeat.tick))
            self._mean = np.zeros((len(repeat.tick), len(self._columns)))
            self._squares = np.zeros_like(self._mean)
            return
        here, there = self._common(self._first, repeat)
        self._count[here] += 1
        away = repeat.values[there][:, self._columns] - self._first.values[here][:, self._columns]
        before = away - self._mean[here]
        self._mean[here] += before / self._count[here, None]
        self._squares[here] += before * (away - self._mean[here])

    @property
    def max_sigma_m(self) -> float | None:
        """The largest deviation of any axis so far; None before two repeats can be compared."""
        seen = self._count > 1
        if not seen.any() or not self._columns:
            return None
        variance = self._squares[seen] / (self._count[seen, None] - 1)
        return math.sqrt(max(0.0, float(np.max(variance))))

    @staticmethod
    def _common(a: Repeat, b: Repeat) -> tuple[NDArray[np.intp] | slice, NDArray[np.intp] | slice]:
        """Return the rows of two repeats that are about the same tick and actor."""
        if np.array_equal(a.tick, b.tick) and np.array_equal(a.actor, b.actor):
            return slice(None), slice(None)
        pairs = [np.rec.fromarrays([repeat.tick, repeat.actor]) for repeat in (a, b)]
        _, here, there = np.intersect1d(pairs[0], pairs[1], assume_unique=True, return_indices=True)
        return here, there
