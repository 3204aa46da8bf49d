"""Levels as a study file has them: one value is held, a list is a factor. Each is checked, and refused by its place."""

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from samepath.base.errors import InputError
from samepath.base.suggest import nearest
from samepath.study.levels import CONDITIONS, read_level
from samepath.study.records import Scalar

Levels = tuple[Scalar, ...]
_SETTING_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
# PyYAML takes 1e-3 for a word, since YAML 1.1 wants a point and a sign: 1.0e-3.
_UNREAD_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def read_settings(raw: Mapping[str, Any], place: str, *, lists: bool = True) -> dict[str, Levels]:
    """Read settings of a simulator; which of them it knows is asked when the study begins."""
    for name in raw:
        if not _SETTING_NAME.fullmatch(name):
            raise InputError(f"{place}: the name of a setting was wanted, but {name!r} came")
    return {name: _read(name, value, f"{place}.{name}", _setting, lists=lists) for name, value in raw.items()}


def read_conditions(raw: Mapping[str, Any], place: str, *, lists: bool = True) -> dict[str, Levels]:
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
    value: Any,  # noqa: ANN401 - whatever a file holds
    here: str,
    read: Callable[[Any], Scalar],
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
    levels = [_at(f"{here}[{index}]", read, one) for index, one in enumerate(value)]
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


def _at(here: str, read: Callable[[Any], Scalar], value: Any) -> Scalar:  # noqa: ANN401
    try:
        return read(value)
    except ValueError as error:
        raise InputError(f"{here}: {error}") from error


def _condition(name: str, value: Any) -> Scalar:  # noqa: ANN401
    return read_level(name, _scalar(value))


def _setting(value: Any) -> Scalar:  # noqa: ANN401
    scalar = _scalar(value)
    if isinstance(scalar, str) and _UNREAD_NUMBER.fullmatch(scalar):
        raise ValueError(f"YAML takes {scalar} for a word: write {float(scalar)!r} with a point")
    return scalar


def _scalar(value: Any) -> Scalar:  # noqa: ANN401
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


def _shown(value: Any) -> str:  # noqa: ANN401
    """Print a level as a file has it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
