"""Lines of a trace: CSV or JSON, whichever the first one is; ``docs/engines/command.md`` is their description.

tick,actor,x_m,y_m,z_m                  {"tick": 1, "actor": 1, "x_m": 0.5, "y_m": 0, "z_m": 0}
#actor,1,vehicle.tesla.model3           {"actor": 1, "type": "vehicle.tesla.model3"}
#event,collision,216,1,2,1,8,0          {"event": "collision", "tick": 216, "actor": 1, "other": 2, "impulse_ns": [1, 8, 0]}
#end,everybody arrived                  {"end": "everybody arrived"}
"""

import csv
import json
import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from samepath.base.errors import InputError
from samepath.base.suggest import unknown
from samepath.base.words import printable
from samepath.traces.channels import LARGEST, POSITION, STANDARD
from samepath.traces.importers.columns import map_columns

_MARKS: Final = ("actor", "event", "end")
_DELIMITERS: Final = ",;\t"
_LONGEST_NAME: Final = 200
_MOST_MAPS: Final = 100


@dataclass(frozen=True)
class Moment:
    """A tick, or a time of the program's own, or both."""

    tick: int | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class Row:
    """An actor's state."""

    moment: Moment
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
    moment: Moment
    actor: int | None = None
    other: int | None = None
    impulse_ns: tuple[float, float, float] | None = None
    detail: str = ""


@dataclass(frozen=True)
class EndLine:
    """The run is over."""

    reason: str


Item = Row | ActorLine | EventLine | EndLine


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

    def row(self, fields: Mapping[str, Any]) -> Row:
        """Read a row; an empty field is a channel that does not apply."""
        known = {key: fields.get(column.name) for key, column in self.keys.items()}
        time = _number(known.get("time_s"), "the time")
        moment = Moment(
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
        return Row(moment, actor, str(known.get("actor_type") or ""), values)


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

    def _csv(self, text: str) -> Row | None:
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
            moment = Moment(_whole(fields.get("tick"), "a tick"), _number(fields.get("time_s"), "the time"))
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


def _event(kind: str, moment: Moment, actor: Any, other: Any, impulse: Any, detail: Any) -> EventLine:  # noqa: ANN401
    if not kind:
        raise InputError("the kind of an event was wanted, such as collision")
    if moment.tick is None and moment.time_s is None:
        raise InputError(f"the tick of a {kind} was wanted, but there is none")
    felt = None
    if impulse is not None:
        parts = [_number(one, "an impulse") for one in impulse] if isinstance(impulse, list) else []
        if len(parts) != 3 or None in parts:
            raise InputError(f"an impulse of three numbers was wanted, but {impulse!r} came")
        felt = (float(parts[0] or 0.0), float(parts[1] or 0.0), float(parts[2] or 0.0))
    return EventLine(kind, moment, _whole(actor, "an actor"), _whole(other, "an actor"), felt, str(detail))


def _moment(text: str) -> Moment:
    if text.startswith("t="):
        return Moment(time_s=_number(text.removeprefix("t="), "the time"))
    return Moment(tick=_whole(text, "a tick"))


def _number(value: Any, what: str) -> float | None:  # noqa: ANN401
    """Read a number; None where there is nothing."""
    if value is None or value == "":
        return None
    if not isinstance(value, bool) and not (isinstance(value, str) and "_" in value):  # 1_000 is a number to Python alone
        with suppress(ValueError, TypeError, OverflowError):
            return float(value)
    raise InputError(f"a number was wanted for {what}, but {reprlib.repr(value)} came")


def _whole(value: Any, what: str) -> int | None:  # noqa: ANN401
    number = _number(value, what)
    if number is None:
        return None
    if not 0 <= number < 2**53 or number != int(number):
        raise InputError(f"a whole number was wanted for {what}, but {value!r} came")
    return int(number)


def _some_whole(value: Any, what: str) -> int:  # noqa: ANN401
    number = _whole(value, what)
    if number is None:
        raise InputError(f"a whole number was wanted for {what}, but nothing came")
    return number
