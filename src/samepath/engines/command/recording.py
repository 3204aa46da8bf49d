"""What a program has written, into a recorder: lines read, rows gathered to ticks or to frames that are resampled, the end.

Lines are CSV or JSON, whichever the first one is; ``docs/engines/command.md`` describes them::

    tick,actor,x_m,y_m,z_m                       {"tick": 1, "actor": 1, "x_m": 0.5, "y_m": 0, "z_m": 0}
    #actor,1,vehicle.tesla.model3                {"actor": 1, "type": "vehicle.tesla.model3"}
    #event,collision,216,1,2,1,8,0               {"event": "collision", "tick": 216, "actor": 1, "other": 2, ...}
    #end,everybody arrived                       {"end": "everybody arrived"}

A file may be CSV with these marks, or a Parquet table with the marks in a file beside it. The program is anybody's: every
line, name and number is bounded and checked, and nothing is made up for what is missing.
"""

import csv
import json
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from samepath.core.channels import LARGEST, POSITION, STANDARD
from samepath.core.errors import InputError, printable, unknown
from samepath.engines.command.simulator import CommandSettings
from samepath.engines.interface import DURATION
from samepath.engines.resampling import EngineFrame, ResampledTick, Resampler
from samepath.engines.subprocess.process import MAX_LINE_BYTES
from samepath.instrument.traces.importers import ImportOptions
from samepath.instrument.traces.importers.tables import EXACT_BELOW, map_columns, open_table
from samepath.instrument.traces.importers.tidy import GRID_TOLERANCE
from samepath.instrument.traces.recorder import Recorder

_MARKS: Final = ("actor", "event", "end")
_DELIMITERS: Final = ",;\t"
_LONGEST_NAME: Final = 200
_MOST_MAPS: Final = 100
PROGRAM_ENDED: Final = "the program ended"
# More than any run has; less than fills a memory.
MAX_ROWS: Final = 10_000_000
_TYPE: Final = "actor"


@dataclass(frozen=True)
class TraceMoment:
    """A tick, or a time of the program's own, or both."""

    tick: int | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class StateLine:
    """An actor's state."""

    moment: TraceMoment
    actor: int
    type: str
    values: dict[str, float]


@dataclass(frozen=True)
class ActorLine:
    """What an actor is."""

    actor: int
    type: str


@dataclass(frozen=True)
class EventLine:
    """Something that happened."""

    kind: str
    moment: TraceMoment
    actor: int | None = None
    other: int | None = None
    impulse_ns: tuple[float, float, float] | None = None
    detail: str = ""


@dataclass(frozen=True)
class EndLine:
    """The run is over."""

    reason: str


# A field of a row as CSV or JSON has it: text, a number, anything.
Field = Any
Item = StateLine | ActorLine | EventLine | EndLine


class ColumnMap:
    """Which column is what, by the importers' rules: names people use, units in headers, the user's own mapping."""

    def __init__(self, names: Sequence[str], channels: Sequence[str], wanted: Mapping[str, str]) -> None:
        own = {name: name for name in channels if name in names and name not in STANDARD and name not in wanted}
        try:
            found = map_columns(list(names), {**own, **wanted}, "columns")
        except InputError as error:
            raise InputError(str(error).replace("name it with --map ", "give it as columns: ").replace("--map ", "")) from error
        missing = [channel for channel in channels if channel not in found]
        if missing:
            raise InputError(
                f"no column for the channel {missing[0]} among: {printable(', '.join(names))}; "
                f"give it as columns: {missing[0]}=COLUMN, or leave it out of channels"
            )
        self.keys = {name: found[name] for name in ("tick", "time_s", "actor", "actor_type") if name in found}
        self.channels = {name: found[name] for name in channels}

    def row(self, fields: Mapping[str, Field]) -> StateLine:
        """Read a row; an empty field is a channel that does not apply."""
        known = {key: fields.get(column.name) for key, column in self.keys.items()}
        time = _number(known.get("time_s"), "the time")
        moment = TraceMoment(
            _whole(known.get("tick"), "a tick"),
            None if time is None else self.keys["time_s"].scaled(time),
        )
        if moment.tick is None and moment.time_s is None:
            raise InputError("a tick or a time was wanted, but there is none")
        actor = _whole(known.get("actor"), "an actor") if "actor" in self.keys else 0
        if actor is None:
            raise InputError("the number of an actor was wanted, but there is none")
        values = {}
        for name, column in self.channels.items():
            value = _number(fields.get(column.name), name)
            if value is None and name in POSITION:
                raise InputError(f"a number was wanted for {name}, but there is none")
            if value is None:
                continue
            if not abs(value) <= LARGEST:  # NaN is not
                raise InputError(f"a finite number was wanted for {name}, but {value} came")
            values[name] = column.scaled(value)
        return StateLine(moment, actor, str(known.get("actor_type") or ""), values)


class LineReader:
    """Reads one line after the other, in the format of the first."""

    def __init__(self, channels: Sequence[str], columns: Mapping[str, str]) -> None:
        self._channels, self._wanted = tuple(channels), columns
        self._format = ""
        self._delimiter = ","
        self._header: list[str] = []
        self._maps: dict[tuple[str, ...], ColumnMap] = {}

    def read(self, line: bytes) -> Item | None:
        """Return what a line says; None for a header, a comment and nothing."""
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise InputError("text in UTF-8 was wanted") from error
        if not text or text == "#" or text.startswith("# "):
            return None
        if not self._format:
            self._format = "json" if text.startswith("{") else "csv"
        if self._format == "json":
            return self._json(text)
        return self._mark(text) if text.startswith("#") else self._csv(text)

    def _csv(self, text: str) -> StateLine | None:
        if not self._header:
            self._delimiter = max(_DELIMITERS, key=text.count)
            names = self._fields(text)
            if len(set(names)) != len(names) or not all(0 < len(name) <= _LONGEST_NAME for name in names):
                raise InputError("a header of distinct column names was wanted")
            self._maps[tuple(names)] = ColumnMap(names, self._channels, self._wanted)
            self._header = names
            return None
        fields = self._fields(text)
        if len(fields) != len(self._header):
            raise InputError(f"{len(self._header)} values were wanted, as in the header, but {len(fields)} came")
        return self._maps[tuple(self._header)].row(dict(zip(self._header, fields, strict=True)))

    def _fields(self, text: str) -> list[str]:
        if '"' not in text:
            return [field.strip() for field in text.split(self._delimiter)]
        try:
            return [field.strip() for field in next(csv.reader([text], delimiter=self._delimiter, strict=True))]
        except csv.Error as error:
            raise InputError(f"not a line of CSV ({error})") from error

    def _mark(self, text: str) -> Item:
        word, *fields = self._fields(text[1:])
        if word not in _MARKS:
            raise InputError(str(unknown("mark", word, _MARKS)))
        if word == "end":
            return EndLine(self._delimiter.join(fields).strip())
        if word == "actor":
            if len(fields) != 2:
                raise InputError("#actor,NUMBER,TYPE was wanted")
            return ActorLine(_some_whole(fields[0], "an actor"), fields[1])
        if len(fields) < 2:
            raise InputError("#event,KIND,TICK,ACTOR,OTHER,X,Y,Z,DETAIL was wanted, from the fourth on as far as known")
        kind, when, actor, other, x, y, z, *detail = [*fields, *[""] * 5]
        impulse = None if not (x or y or z) else [x, y, z]
        return _event(kind, _moment(when), actor, other, impulse, self._delimiter.join(detail).strip(self._delimiter))

    def _json(self, text: str) -> Item:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError("a line of JSON was wanted") from error
        if not isinstance(fields, dict):
            raise InputError("a JSON object was wanted")
        if "end" in fields:
            return EndLine(str(fields["end"]))
        if "event" in fields:
            moment = TraceMoment(_whole(fields.get("tick"), "a tick"), _number(fields.get("time_s"), "the time"))
            words = (fields.get("actor"), fields.get("other"), fields.get("impulse_ns"), fields.get("detail") or "")
            return _event(str(fields["event"]), moment, *words)
        if "type" in fields and "actor" in fields and len(fields) == 2:
            return ActorLine(_some_whole(fields["actor"], "an actor"), str(fields["type"]))
        names = tuple(fields)
        if names not in self._maps:
            if len(self._maps) > _MOST_MAPS or max(map(len, names), default=0) > _LONGEST_NAME:
                raise InputError("rows with the same short keys were wanted")
            self._maps[names] = ColumnMap(names, self._channels, self._wanted)
        return self._maps[names].row(fields)


def _event(kind: str, moment: TraceMoment, actor: Field, other: Field, impulse: Field, detail: Field) -> EventLine:
    if not kind:
        raise InputError("the kind of an event was wanted, such as collision")
    if moment.tick is None and moment.time_s is None:
        raise InputError(f"the tick of a {kind} was wanted, but there is none")
    felt = None
    if impulse is not None:
        parts = [_number(part, "an impulse") for part in impulse] if isinstance(impulse, list) else []
        if len(parts) != 3 or None in parts:
            raise InputError(f"an impulse of three numbers was wanted, but {impulse!r} came")
        felt = (float(parts[0] or 0.0), float(parts[1] or 0.0), float(parts[2] or 0.0))
    return EventLine(kind, moment, _whole(actor, "an actor"), _whole(other, "an actor"), felt, str(detail))


def _moment(text: str) -> TraceMoment:
    if text.startswith("t="):
        return TraceMoment(time_s=_number(text.removeprefix("t="), "the time"))
    return TraceMoment(tick=_whole(text, "a tick"))


def _number(value: Field, what: str) -> float | None:
    """Read a number; None where there is nothing."""
    if value is None or value == "":
        return None
    if not isinstance(value, bool) and not (isinstance(value, str) and "_" in value):  # 1_000 is a number to Python alone
        with suppress(ValueError, TypeError, OverflowError):
            number = float(value)
            is_whole = isinstance(value, int) or str(value).lstrip("+-").isdecimal()
            if abs(number) >= EXACT_BELOW and is_whole and int(value) != number:
                raise InputError(f"{what}: {reprlib.repr(value)} cannot be kept exactly: write it in a larger unit")
            return number
    raise InputError(f"a number was wanted for {what}, but {reprlib.repr(value)} came")


def _whole(value: Field, what: str) -> int | None:
    number = _number(value, what)
    if number is None:
        return None
    if not 0 <= number < 2**53 or number != int(number):
        raise InputError(f"a whole number was wanted for {what}, but {value!r} came")
    return int(number)


def _some_whole(value: Field, what: str) -> int:
    number = _whole(value, what)
    if number is None:
        raise InputError(f"a whole number was wanted for {what}, but nothing came")
    return number


class CommandRecording:
    """One run as it comes in. ``last_tick`` ends it, where the program does not before."""

    def __init__(
        self, settings: CommandSettings, recorder: Recorder, on_tick: Callable[[int], None], last_tick: int | None
    ) -> None:
        self._settings, self._recorder, self._on_tick, self._last_tick = settings, recorder, on_tick, last_tick
        self._ticks = _ResampledTicks(settings.step_s) if settings.resample else _ExactTicks(settings.step_s)
        self._types: dict[int, str] = {}
        self._seen: dict[int, int] = {}
        self._events: list[EventLine] = []
        self._rows = 0
        self.tick: int | None = None
        self.reason: str | None = None

    def add(self, item: Item) -> bool:
        """Take in what was told; True when nothing more is wanted, because the time asked for is over."""
        match item:
            case StateLine():
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

    def _record(self, ticks: list[tuple[ResampledTick, float | None]]) -> bool:
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


class _ExactTicks:
    """Rows of one tick are gathered; the numbers are the program's own."""

    note = ""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._tick: int | None = None
        self._time_s: float | None = None
        self._states: dict[int, dict[str, float]] = {}

    def take(self, row: StateLine) -> list[tuple[ResampledTick, float | None]]:
        """Return the tick before, if this row begins another."""
        tick = self.tick_of(row.moment)
        done: list[tuple[ResampledTick, float | None]] = []
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

    def rest(self) -> list[tuple[ResampledTick, float | None]]:
        """Return the tick that is being gathered."""
        if self._tick is None or not self._states:
            return []
        done = [(ResampledTick(self._tick, self._states), self._time_s)]
        self._states = {}
        return done

    def tick_of(self, moment: TraceMoment) -> int:
        """Return the tick of a moment; a time must be a whole number of steps."""
        if moment.tick is not None:
            return moment.tick
        steps = (moment.time_s or 0.0) / self._step_s
        if not 0 <= steps < 2**53 or abs(steps - round(steps)) > GRID_TOLERANCE:
            raise InputError(
                f"{moment.time_s} s is no whole number of steps of {self._step_s:g} s: give step_s as it is, or resample: true"
            )
        return round(steps)


class _ResampledTicks:
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

    def take(self, row: StateLine) -> list[tuple[ResampledTick, float | None]]:
        """Return the ticks that the frame before this row's completes."""
        time_s = row.moment.time_s
        if time_s is None or not 0 <= time_s < 1e9:
            raise InputError(f"a time from 0 s on was wanted, because resample is true, but {time_s} came")
        done: list[tuple[ResampledTick, float | None]] = []
        if time_s != self._time_s:
            done = self._close_frame()
            self._time_s = time_s
        if row.actor in self._states:
            raise InputError(f"actor {row.actor} has two states at {time_s} s")
        self._states[row.actor] = row.values
        return done

    def _close_frame(self) -> list[tuple[ResampledTick, float | None]]:
        if self._time_s is None or not self._states:
            return []
        frame = EngineFrame(self._time_s, self._states)
        self._states = {}
        if self._resampler is None:
            self._resampler = Resampler(self._step_s, frame)
            return []
        return [(tick, None) for tick in self._resampler.take(frame)]

    def rest(self) -> list[tuple[ResampledTick, float | None]]:
        """Return the ticks up to the last frame."""
        done = self._close_frame()
        return done if self._resampler is None else [*done, *((tick, None) for tick in self._resampler.rest())]

    def tick_of(self, moment: TraceMoment) -> int:
        """Return the first tick at or after a moment."""
        if moment.tick is not None:
            return moment.tick
        return Resampler(self._step_s, EngineFrame(0.0, {})).tick_of(moment.time_s or 0.0)


def items_of(settings: CommandSettings, output: Path, events: Path) -> Iterator[Item]:
    """Return what was written: rows in the order of time, whatever their order in the file, then the rest, then the end."""
    if not output.is_file():
        raise InputError(f"no file {output.name} was written")
    found = list(_parquet(settings, output) if settings.trace == "parquet" else _lines(settings, output))
    if events.is_file():
        found += [item for item in _lines(settings, events) if not isinstance(item, StateLine)]
    rows = [item for item in found if isinstance(item, StateLine)]
    by_tick = not settings.resample and all(row.moment.tick is not None for row in rows)
    rows.sort(key=lambda row: (row.moment.tick if by_tick else row.moment.time_s) or 0)
    yield from (item for item in found if isinstance(item, ActorLine))
    yield from rows
    yield from (item for item in found if isinstance(item, EventLine))
    yield from (item for item in found if isinstance(item, EndLine))


def _lines(settings: CommandSettings, path: Path) -> Iterator[Item]:
    reader = LineReader(settings.channels, settings.columns)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            try:
                item = reader.read(line)
            except InputError as error:
                raise InputError(f"{path.name}, line {number}: {error}") from error
            if item is not None:
                yield item


def _parquet(settings: CommandSettings, path: Path) -> Iterator[StateLine]:
    try:
        file = open_table(path)
        columns = ColumnMap(file.names, settings.channels, settings.columns)
        log = file.read({column.name for column in (*columns.keys.values(), *columns.channels.values())}, ImportOptions())
    except InputError as error:
        raise InputError(str(error).replace(str(path), path.name).replace(", or raise --log-mib", "")) from error
    names = log.table.column_names
    for number, values in enumerate(zip(*(log.table[name].to_pylist() for name in names), strict=True), start=1):
        try:
            yield columns.row(dict(zip(names, values, strict=True)))
        except InputError as error:
            raise InputError(f"{path.name}, row {number}: {error}") from error
