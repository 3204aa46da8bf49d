"""Monitor files: YAML in, checked monitors out. What is wrong is told in one line, with the place and the word.

Kinds that everybody needs (time to collision, lane keeping, a red light, ...) are templates over the language of expressions:
what ``kind: ttc`` means can be read in the table below, and is judged by the same code as a user's own expression.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from samepath.core.documents import read_yaml, validate
from samepath.core.errors import InputError, SamepathError, unknown
from samepath.core.files import regular
from samepath.core.units import SPEED_UNITS_MPS, parse_duration_s, parse_length_m, parse_quantity
from samepath.instrument.monitors.expression import FUNCTIONS, TEMPORAL, UNITS, parse
from samepath.instrument.monitors.monitor import MOST_MONITORS, Monitor, MonitorSet
from samepath.instrument.monitors.view import GROUPS, MonitoredRoads, MonitoredScene, Size

LARGEST_BYTES: Final = 1 << 20
_MOST_SPANS: Final = 50
ReadRoads = Callable[[str], MonitoredRoads]


def _unread(name: str) -> MonitoredRoads:
    raise InputError(f"map {name!r} cannot be read here")


def _speed(text: str) -> float:
    return parse_quantity(text, SPEED_UNITS_MPS, "speed", "8 m/s, 30 km/h or 8")


def _plain(text: str) -> float:
    # A unit has no digits to the reader of quantities.
    plain = text.replace("m/s2", "m/s²").replace("m/s3", "m/s³")
    return parse_quantity(plain, {"m/s²": 1.0, "m/s³": 1.0, "g": 9.80665}, "number", "3.5 or 3.5 m/s2")


def _place(value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(_is_number(part) for part in value):
        raise ValueError(f"a place [x, y] in metres was wanted, but {value!r} came")
    return float(value[0]), float(value[1])


def _line(value: object) -> tuple[tuple[float, float], tuple[float, float]]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"a line [[x1, y1], [x2, y2]] in metres was wanted, but {value!r} came")
    ends = _place(value[0]), _place(value[1])
    if ends[0] == ends[1]:
        raise ValueError(f"a line between two places was wanted, but {value!r} has only one")
    return ends


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _spans(value: object) -> object:
    """Read [[from, to], ...] in seconds."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not value or len(value) > _MOST_SPANS:
        raise ValueError(f"one to {_MOST_SPANS} spans [[from, to], ...] of seconds were wanted, but {value!r} came")
    found = []
    for span in value:
        if not isinstance(span, list) or len(span) != 2:
            raise ValueError(f"a span [from, to] of seconds was wanted, but {span!r} came")
        first, last = (_seconds(part) for part in span)
        if not first < last:
            raise ValueError(f"a span [from, to] of seconds was wanted, but {span!r} does not go forward")
        found.append((first, last))
    return tuple(found)


def _seconds(value: object) -> float:
    try:
        return parse_duration_s(str(value))
    except SamepathError as error:
        raise ValueError(str(error)) from error


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, arbitrary_types_allowed=True)


class RedChannel(_Section):
    """A light whose state was logged: the channel of an actor, and the number that means red."""

    of: int | str
    channel: str
    value: float


Who = int | str


class MonitorSpec(_Section):
    """One monitor of a file."""

    name: str | None = Field(default=None, min_length=1, max_length=200)
    kind: str | None = None
    expression: str | None = None
    function: str | None = None
    for_: Who | None = Field(default=None, alias="for")
    scenarios: Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] = ()
    of: Who | None = None
    to: Who | None = None
    at_least: Any = None
    at_most: Any = None
    at: Annotated[tuple[float, float], BeforeValidator(_place)] | None = None
    radius: Any = None
    within: Any = None
    line: Annotated[tuple[tuple[float, float], tuple[float, float]], BeforeValidator(_line)] | None = None
    before: Any = None
    red: Annotated[tuple[tuple[float, float], ...] | RedChannel, BeforeValidator(_spans)] | None = None


def _either(value: object) -> object:
    """A monitor may be an expression alone."""
    return [{"expression": entry} if isinstance(entry, str) else entry for entry in value] if isinstance(value, list) else value


class MonitorsSpec(_Section):
    """A monitor file."""

    monitors: Annotated[list[MonitorSpec], BeforeValidator(_either)] = Field(min_length=1, max_length=MOST_MONITORS)
    actors: dict[str, Any] = Field(default_factory=dict)
    sizes: dict[str, Any] = Field(default_factory=dict)
    map: str | None = None
    coverage: bool = True


def _number(convert: Callable[[str], float], value: object) -> str:
    number = convert(str(value))
    return f"({number!r})" if number < 0 else f"{number:.17g}"


@dataclass(frozen=True)
class Kind:
    """A monitor that everybody needs: its expression, what must be given and how it is read, and what is taken otherwise."""

    expression: str
    takes: Mapping[str, Callable[[object], str]]
    otherwise: Mapping[str, Any]
    meaning: str


_WHO: Final = str
_LENGTH: Final = partial(_number, parse_length_m)
_TIME: Final = partial(_number, parse_duration_s)
_SPEED: Final = partial(_number, _speed)
_PLAIN: Final = partial(_number, _plain)


def _coordinates(value: Any) -> str:  # noqa: ANN401 - a place or a line, read by the model
    flat = [part for end in value for part in (end if isinstance(end, tuple) else (end,))]
    return ", ".join(repr(part) for part in flat)


def _clear(red: Any) -> str:  # noqa: ANN401 - spans or a channel, read by the model
    if isinstance(red, RedChannel):
        return f"{red.channel}({red.of}) != {red.value!r}"
    parts = [f"outside({first!r}, {last!r})" for first, last in red]
    # By halves: a chain of fifty would be nested too deeply.
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [f"min({', '.join(pair)})" if len(pair) == 2 else pair[0] for pair in pairs]
    return f"{parts[0]} >= 0"


KINDS: Final[Mapping[str, Kind]] = {
    "no-collision": Kind("collisions({of}) <= 0", {"of": _WHO}, {"of": "ego"}, "it touches nobody and nothing"),
    "distance": Kind(
        "distance({of}, {to}) >= {at_least}",
        {"of": _WHO, "to": _WHO, "at_least": _LENGTH},
        {"of": "ego", "to": "others"},
        "its point stays so far from those of others",
    ),
    "gap": Kind(
        "gap({of}, {to}) >= {at_least}",
        {"of": _WHO, "to": _WHO, "at_least": _LENGTH},
        {"of": "ego", "to": "others"},
        "its outline stays so far from those of others",
    ),
    "ttc": Kind(
        "ttc({of}, {to}) >= {at_least}",
        {"of": _WHO, "to": _WHO, "at_least": _TIME},
        {"of": "ego", "to": "others"},
        "at constant velocities, nobody is touched within this time",
    ),
    "speed": Kind("speed({of}) <= {at_most}", {"of": _WHO, "at_most": _SPEED}, {"of": "ego"}, "it is never faster"),
    "speed-limit": Kind(
        "speed({of}) <= speed_limit({of}) + {at_most}",
        {"of": _WHO, "at_most": _SPEED},
        {"of": "ego", "at_most": 0},
        "it keeps the map's limits; at_most is how much faster it may be",
    ),
    "braking": Kind(
        "acceleration({of}) >= -{at_most}", {"of": _WHO, "at_most": _PLAIN}, {"of": "ego"}, "it never brakes harder"
    ),
    "jerk": Kind(
        "abs(jerk({of})) <= {at_most}", {"of": _WHO, "at_most": _PLAIN}, {"of": "ego"}, "acceleration changes no faster"
    ),
    "lane-keeping": Kind(
        "lane_margin({of}) >= {at_least}",
        {"of": _WHO, "at_least": _LENGTH},
        {"of": "ego", "at_least": 0},
        "its outline stays within its lane, so far from the border",
    ),
    "on-road": Kind(
        "road_margin({of}) >= {at_least}",
        {"of": _WHO, "at_least": _LENGTH},
        {"of": "ego", "at_least": 0},
        "all corners stay on the road, so far from its edge",
    ),
    "way-point": Kind(
        "arrival({of}, {at}, {radius}) <= {within}",
        {"of": _WHO, "at": _coordinates, "radius": _LENGTH, "within": _TIME},
        {"of": "ego", "radius": 2},
        "it comes to a place in time",
    ),
    "stop-line": Kind(
        "implies(crosses({of}, {line}), slowest_near({of}, {before}, {line}) <= {at_most})",
        {"of": _WHO, "line": _coordinates, "before": _LENGTH, "at_most": _SPEED},
        {"of": "ego", "before": 5, "at_most": 0.1},
        "before it goes over the line it comes to rest near it",
    ),
    "red-light": Kind(
        "implies(crosses({of}, {line}), {red})",
        {"of": _WHO, "line": _coordinates, "red": _clear},
        {"of": "ego"},
        "it does not go over the line while the light is red",
    ),
}


def read_file(path: Path, roads: ReadRoads = _unread) -> MonitorSet:
    """Read a monitor file."""
    try:
        if regular(path).stat().st_size > LARGEST_BYTES:
            raise InputError(f"{path}: a monitor file of at most {LARGEST_BYTES >> 20} MiB was wanted")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError(f"{path} cannot be read: {reason}; a YAML file with monitors was wanted") from error
    return read_monitors(read_yaml(text, str(path), "monitor file", MonitorsSpec.model_fields), str(path), roads, path.parent)


def read_monitors(data: Mapping[str, Any], where: str, roads: ReadRoads = _unread, folder: Path | None = None) -> MonitorSet:
    """Check a file's plain data; functions are imported, from ``folder`` where they are named by file.

    ``folder`` None: no function is looked for, because the data may come from anybody. It is then a monitor without one.
    """
    spec = validate(MonitorsSpec, data, where, _model_at)
    names = {name: _named(name, who, f"{where}: actors.{name}") for name, who in spec.actors.items()}
    sizes = {pattern: _size(size, f"{where}: sizes.{pattern}") for pattern, size in spec.sizes.items()}
    scene = MonitoredScene(names, sizes, None if spec.map is None else roads(_map_name(spec.map, folder)))
    found: dict[str, Monitor] = {}
    for index, entry in enumerate(spec.monitors):
        place = f"{where}: monitors[{index}]"
        monitor = _monitor(entry, scene, place, folder)
        if monitor.name in found:
            raise InputError(f"{place}: the name {monitor.name!r} is taken: give each monitor a name of its own")
        found[monitor.name] = monitor
    return MonitorSet(tuple(found.values()), scene, spec.coverage, where)


def _model_at(at: list[str | int]) -> type[BaseModel]:
    return MonitorSpec if at[0] == "monitors" and len(at) > 1 else MonitorsSpec


def _map_name(name: str, folder: Path | None) -> str:
    """A file beside the monitors is meant before one of the same name elsewhere."""
    beside = None if folder is None else folder / name
    return str(beside) if beside is not None and beside.is_file() else name


def _named(name: str, who: object, where: str) -> int | str | tuple[int | str, ...]:
    if not name.isidentifier() or not name.isascii() or name in (*GROUPS[1:], "actor", *UNITS, *FUNCTIONS, *TEMPORAL):
        raise InputError(f"{where}: a name of letters and digits that means nothing else was wanted, but {name!r} came")
    parts = who if isinstance(who, list) else [who]
    if not parts or not all(isinstance(part, int | str) and not isinstance(part, bool) for part in parts):
        wanted = "an actor's number, a pattern of types such as vehicle.*, or a list of them"
        raise InputError(f"{where}: {wanted} was wanted, but {who!r} came")
    found: list[int | str] = [part for part in parts if isinstance(part, int | str)]
    return tuple(found) if isinstance(who, list) else found[0]


def _size(size: object, where: str) -> Size:
    parts = size if isinstance(size, list) else [size]
    try:
        lengths = [parse_length_m(str(part)) for part in parts]
    except SamepathError as error:
        raise InputError(f"{where}: {error}") from error
    if len(lengths) not in (1, 2) or not all(0 < length < 1000 for length in lengths):
        raise InputError(f"{where}: [length, width], or the diameter of a round one, was wanted, but {size!r} came")
    return Size(radius_m=lengths[0] / 2) if len(lengths) == 1 else Size(lengths[0] / 2, lengths[1] / 2)


def _monitor(spec: MonitorSpec, scene: MonitoredScene, place: str, folder: Path | None) -> Monitor:
    given = [key for key in ("kind", "expression", "function") if getattr(spec, key) is not None]
    if len(given) != 1:
        came = " and ".join(given) or "neither"
        raise InputError(f"{place}: one of kind, expression and function was wanted, but {came} came")
    if spec.kind is None:
        extra = [key for key in _FIELDS if getattr(spec, key) is not None]
        if extra:
            raise InputError(f"{place}.{extra[0]}: it belongs to a kind, such as kind: ttc; an expression says it itself")
    if spec.function is not None:
        function = None if folder is None else _imported(spec.function, folder, f"{place}.function")
        return Monitor(spec.name or spec.function, None, function or _not_run, None, spec.scenarios, spec.function)
    text = spec.expression if spec.expression is not None else _expand(spec, place)
    try:
        formula = parse(text, scene)
        if spec.for_ is not None:
            _check_who(spec.for_, scene)
    except SamepathError as error:
        here = f"{place}.expression" if spec.expression is not None else place
        raise InputError(f"{here}, {error}" if str(error).startswith("column") else f"{here}: {error}") from error
    if formula.each and spec.for_ is None:
        raise InputError(f"{place}: its expression says actor: say of whom, such as for: vehicles")
    each = spec.for_
    return Monitor(spec.name or formula.text, formula, None, each, spec.scenarios, formula.text, formula.unit)


_FIELDS: Final = ("of", "to", "at_least", "at_most", "at", "radius", "within", "line", "before", "red")


def _check_who(who: Who, scene: MonitoredScene) -> None:
    if isinstance(who, str) and who not in GROUPS and who not in scene.names:
        raise unknown("actor", who, [*GROUPS, *scene.names])


def _expand(spec: MonitorSpec, place: str) -> str:
    """Write a kind out as an expression."""
    kind = KINDS.get(str(spec.kind))
    if kind is None:
        raise InputError(f"{place}.kind: {unknown('kind of monitor', str(spec.kind), KINDS)}")
    words = {}
    for key in _FIELDS:
        value = getattr(spec, key)
        if key not in kind.takes:
            if value is not None:
                raise InputError(f"{place}.{key}: {spec.kind} takes {', '.join(kind.takes)}; leave {key} out")
            continue
        value = kind.otherwise.get(key) if value is None else value
        if value is None:
            raise InputError(f"{place}: {spec.kind} needs {key}: {kind.meaning}")
        try:
            words[key] = kind.takes[key](value)
        except SamepathError as error:
            raise InputError(f"{place}.{key}: {error}") from error
    return kind.expression.format(**words)


def _not_run(run: object) -> float:
    raise InputError("its function is not run from a study's folder: give the monitors with --monitors FILE")


def _from_file(path: Path) -> Any:  # noqa: ANN401 - a module of the user's own
    spec = importlib.util.spec_from_file_location(f"samepath_monitors_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _imported(reference: str, folder: Path, where: str) -> Callable[[Any], Any]:
    """Find ``module:function``, or ``file.py:function`` beside the monitor file."""
    home, colon, name = reference.rpartition(":")
    if not colon or not home or not name.isidentifier():
        raise InputError(f"{where}: MODULE:FUNCTION or FILE.py:FUNCTION was wanted, but {reference!r} came")
    try:
        if home.endswith(".py"):
            module = _from_file(folder / home)
        else:
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            module = importlib.import_module(home)
    except Exception as error:  # whatever the user's module does wrong is told as the user's
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{where}: {home} cannot be imported: {words}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{where}: {home} has no function {name!r}")
    return function  # type: ignore[no-any-return]
