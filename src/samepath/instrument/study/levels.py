"""Levels: the conditions a study may vary, which levels of each are possible anywhere, and how a file's levels are read.

In a study file one value is held equal and a list is a factor. Every level is brought into one form when it is read (75% and
0.75 are the same level, 0,1 and 0-1 too), and a bad one is refused by its place in the file. Whether this host permits a level
is another question, asked when the study begins (``samepath.instrument.conditions``).
"""

import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from samepath.core.errors import InputError, nearest, unknown
from samepath.instrument.study.records import Isolation, Scalar

SCHEDULERS: Final = ("other", "batch", "idle", "fifo", "rr")
CONTROLLERS: Final = ("in-loop", "sees-replayed", "ego-replayed", "replayed")
MOST_CORES: Final = 4096
_PERCENT: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")
_CORES: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_NUMA: Final = re.compile(r"default|local|interleave|node\d+")

Schema = Mapping[str, object]
Reader = Callable[[Scalar], Scalar]


@dataclass(frozen=True)
class Condition:
    """One condition: what it is, what its levels look like, and how a level from a file is read.

    ``read`` returns the level in the form everything else uses; it raises ValueError with what was wanted. ``schema`` says
    the same to an editor. ``ratio`` levels are printed in per cent.
    """

    name: str
    meaning: str
    example: str
    read: Reader
    schema: Schema
    ratio: bool = False


def _ratio(value: Scalar) -> float:
    number = value
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        number = float(match[1]) / 100
    if isinstance(number, bool | str) or not 0 <= number <= 1:
        raise ValueError("a share from 0 to 1 or 0% to 100%, such as 0.75 or 75%,")
    return float(number)


_RATIO: Final[Schema] = {
    "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": r"^\s*(\d+(\.\d*)?|\.\d+)\s*%\s*$"}]
}


def _whole(low: int, high: int) -> tuple[Reader, Schema]:
    def read(value: Scalar) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return read, {"type": "integer", "minimum": low, "maximum": high}


def _word(known: Iterable[str]) -> tuple[Reader, Schema]:
    words = [str(word) for word in known]

    def read(value: Scalar) -> str:
        if value not in words:
            hint = f" (did you mean {near}?)" if isinstance(value, str) and (near := nearest(value, words)) else ""
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}{hint}")
        return str(value)

    return read, {"enum": words}


def _cores(value: Scalar) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        value = str(value)
    if value in ("all", "one"):
        return str(value)
    if isinstance(value, str) and _CORES.fullmatch(value):
        pairs = [part.partition("-") for part in value.split(",")]
        ranges = [(int(first), int(last or first)) for first, _, last in pairs]
        if all(first <= last < MOST_CORES for first, last in ranges):
            return _listed({core for first, last in ranges for core in range(first, last + 1)})
    raise ValueError("all, one, or core numbers such as 0 or 0,2-3")


def _listed(cores: set[int]) -> str:
    """Write core numbers in one form, so that 0,1 and 0-1 are the same level."""
    parts: list[list[int]] = []
    for core in sorted(cores):
        if parts and core == parts[-1][-1] + 1:
            parts[-1].append(core)
        else:
            parts.append([core])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _numa(value: Scalar) -> str:
    if isinstance(value, str) and _NUMA.fullmatch(value):
        return value
    raise ValueError("default, local, interleave or a node such as node0")


def _hash_seed(value: Scalar) -> Scalar:
    if value == "random" or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32):
        return value
    raise ValueError("random or a whole number from 0 to 4294967295")


def _switch(value: Scalar) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("on", "off"):
        return value == "on"
    raise ValueError("on or off")


def _place(value: Scalar) -> str:
    if value == "own":
        return value
    # With a slash, so that a misspelt «own» is not a folder. Whether it is there is asked when the study begins.
    if isinstance(value, str) and "/" in value and value.isprintable():
        path = os.path.normpath(value.strip())  # one form: venvs/a and venvs/a/ are the same level
        return path if "/" in path else f"./{path}"
    raise ValueError("own, or a path such as venvs/older or ./older (an environment, an interpreter, a folder of packages)")


_PLACE_SCHEMA: Final[Schema] = {"type": "string", "pattern": "^own$|/"}
_CORES_SCHEMA: Final[Schema] = {
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^(all|one|{_CORES.pattern})$"}]
}
_NUMA_SCHEMA: Final[Schema] = {"type": "string", "pattern": f"^({_NUMA.pattern})$"}
_HASH_SEED_SCHEMA: Final[Schema] = {"anyOf": [{"const": "random"}, {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}]}
_SWITCH_SCHEMA: Final[Schema] = {"enum": [True, False, "on", "off"]}

# One factor that is two loads: a cell has both at its level.
TOGETHER: Final = "cpu_and_gpu_load"

CONDITIONS: Final = {
    condition.name: condition
    for condition in (
        Condition(
            "cpu_load",
            "CPU utilisation of the whole machine; 0 adds none",
            "[0, 50%, 75%, 95%]",
            _ratio,
            _RATIO,
            ratio=True,
        ),
        Condition("gpu_load", "GPU utilisation; 0 adds none", "[0, 75%]", _ratio, _RATIO, ratio=True),
        Condition(
            TOGETHER,
            "CPU and GPU utilisation raised together, as one factor; 0 adds none",
            "[0, 75%]",
            _ratio,
            _RATIO,
            ratio=True,
        ),
        Condition("memory_load", "share of the memory bandwidth that is taken", "[0, 50%]", _ratio, _RATIO, ratio=True),
        Condition(
            "instances", "how many of the simulator run at once, the measured one included", "[1, 2, 4]", *_whole(1, 256)
        ),
        Condition("nice", "scheduling priority, -20 (first) to 19 (last)", "[-20, 0, 19]", *_whole(-20, 19)),
        Condition("scheduler", "scheduler class", "[other, batch, fifo]", *_word(SCHEDULERS)),
        Condition("cores", "cores the simulator may use", "[all, one]", _cores, _CORES_SCHEMA),
        Condition("numa", "memory placement", "[default, local]", _numa, _NUMA_SCHEMA),
        Condition("hash_seed", "Python's hash seed", "[0, random]", _hash_seed, _HASH_SEED_SCHEMA),
        Condition("threads", "threads of numerical libraries", "[1, 2]", *_whole(1, 1024)),
        Condition("aslr", "address space layout randomisation", "[on, off]", _switch, _SWITCH_SCHEMA),
        Condition(
            "packages",
            "installation that the engine and controllers are taken from: own, a virtual environment, an interpreter, a folder",
            "[own, venvs/older]",
            _place,
            _PLACE_SCHEMA,
        ),
        Condition("isolation", "what repeats share", "[process, batch]", *_word(Isolation)),
        Condition(
            "controller",
            "in the loop; its sensors shown a recorded run; the ego's recorded commands replayed; everybody's replayed",
            "[in-loop, replayed]",
            *_word(CONTROLLERS),
        ),
    )
}
MACHINE_LOADS: Final = ("cpu_load", "gpu_load", "memory_load", "instances")
# Set on the process of a repeat: without a process of its own there is nothing to set them on.
PROCESS_CONDITIONS: Final = ("nice", "scheduler", "cores", "numa", "hash_seed", "threads", "aslr", "packages")
# Those of them that only a new interpreter can have.
START_CONDITIONS: Final = ("hash_seed", "aslr", "threads", "numa", "packages")


def read_level(name: str, value: Scalar) -> Scalar:
    """Return a level in its one form; raises ValueError in one line where it is impossible on any machine."""
    condition = CONDITIONS.get(name)
    if condition is None:
        raise ValueError(str(unknown("condition", name, CONDITIONS)))
    try:
        return condition.read(value)
    except ValueError as error:
        raise ValueError(f"{error} was wanted, but {value!r} came") from error


def level_text(name: str, level: Scalar) -> str:
    """Print a level of a condition or setting as people write it: 75 %, on, 0.05."""
    condition = CONDITIONS.get(name)
    if isinstance(level, bool):
        return "on" if level else "off"
    if condition is not None and condition.ratio and not isinstance(level, str):
        return f"{100 * level:.10g} %"
    return str(level)


Levels = tuple[Scalar, ...]
_SETTING_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
# PyYAML takes 1e-3 for a word, since YAML 1.1 wants a point and a sign: 1.0e-3.
_UNREAD_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def read_settings(raw: Mapping[str, object], place: str, *, lists: bool = True) -> dict[str, Levels]:
    """Read settings of a simulator; which of them it knows is asked when the study begins."""
    for name in raw:
        if not _SETTING_NAME.fullmatch(name):
            raise InputError(f"{place}: the name of a setting was wanted, but {name!r} came")
    return {name: _read(name, value, f"{place}.{name}", _setting, lists=lists) for name, value in raw.items()}


def read_conditions(raw: Mapping[str, object], place: str, *, lists: bool = True) -> dict[str, Levels]:
    """Read conditions of the host; the names and levels that are possible anywhere are known."""
    for name in raw:
        if name not in CONDITIONS:
            where, _, stage = place.rpartition(": ")
            hint = nearest(name, CONDITIONS)
            known = f"known conditions: {', '.join(CONDITIONS)}; a simulator's own setting belongs under 'settings'"
            advice = f"did you mean {hint!r}?" if hint else known
            raise InputError(f"{where}: unknown key {f'{stage}.{name}'!r}; {advice}")
    return {
        name: _read(name, value, f"{place}.{name}", partial(_condition, name), lists=lists, mixed=True)
        for name, value in raw.items()
    }


def _read(
    name: str,
    value: object,
    here: str,
    read: Callable[[object], Scalar],
    *,
    lists: bool,
    mixed: bool = False,
) -> Levels:
    if not isinstance(value, list):
        return (_at(here, read, value),)
    if not lists:
        raise InputError(f"{here}: one level was wanted, but a list came: what a study varies stands in its own stage")
    if not value:
        raise InputError(f"{here}: an empty list has no level: give two or more, or leave {name} out")
    levels = [_at(f"{here}[{index}]", read, level) for index, level in enumerate(value)]
    if len(levels) == 1:
        raise InputError(f"{here}: a list of one level varies nothing: write {name}: {_shown(value[0])} to hold it")
    for index, level in enumerate(levels):
        if not mixed and _kind(level) != _kind(levels[0]):
            raise InputError(f"{here}[{index}]: {_kind(level)} came, but the first level is {_kind(levels[0])}: use one kind")
        if level in levels[:index]:
            raise InputError(
                f"{here}[{index}]: {_shown(value[index])} is the same level as {_shown(value[levels.index(level)])}"
            )
    return tuple(levels)


def _at(here: str, read: Callable[[object], Scalar], value: object) -> Scalar:
    try:
        return read(value)
    except ValueError as error:
        raise InputError(f"{here}: {error}") from error


def _condition(name: str, value: object) -> Scalar:
    return read_level(name, _scalar(value))


def _setting(value: object) -> Scalar:
    scalar = _scalar(value)
    if isinstance(scalar, str) and _UNREAD_NUMBER.fullmatch(scalar):
        raise ValueError(f"YAML takes {scalar} for a word: write {float(scalar)!r} with a point")
    return scalar


def _scalar(value: object) -> Scalar:
    if value is None:
        raise ValueError("a value was wanted, but nothing came")
    if isinstance(value, list):
        raise ValueError("one level was wanted, but a list within a list came")  # noqa: TRY004 - told with its place, as a value
    if not isinstance(value, str | int | float):
        raise ValueError(f"a number, a word, on or off was wanted, but {reprlib.repr(value)} came")  # noqa: TRY004
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a finite number was wanted, but {value} came")
    return value


def _kind(level: Scalar) -> str:
    if isinstance(level, bool):
        return "on or off"
    return "a word" if isinstance(level, str) else "a number"


def _shown(value: object) -> str:
    """Print a level as a file has it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
