"""Settings as a study file has them, plain values, read one by one: each is checked and refused by its name."""

import math
from collections.abc import Mapping

from samepath.base.errors import InputError
from samepath.base.suggest import nearest
from samepath.simulators.interface import Scalar


def word(values: Mapping[str, Scalar], name: str) -> str:
    """Return a text that is not empty."""
    value = values[name]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name}: a word was wanted, but {value!r} came")
    return value.strip()


def choice(values: Mapping[str, Scalar], name: str, known: tuple[str, ...]) -> str:
    """Return one of some words; any other is answered with the nearest."""
    value = values[name]
    if value not in known:
        near = nearest(str(value), known)
        hint = f"; did you mean {near}?" if near else ""
        raise InputError(f"{name}: {' or '.join(known)} was wanted, but {value!r} came{hint}")
    return str(value)


def switch(values: Mapping[str, Scalar], name: str) -> bool:
    """Return true or false."""
    value = values[name]
    if not isinstance(value, bool):
        raise InputError(f"{name}: true or false was wanted, but {value!r} came")
    return value


def number(values: Mapping[str, Scalar], name: str, least: float, most: float) -> float:
    """Return a finite number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name}: a number from {least:g} to {most:g} was wanted, but {value!r} came")
    return float(value)


def one_of(values: Mapping[str, Scalar], name: str, known: tuple[int, ...]) -> int:
    """Return one of some whole numbers."""
    value = number(values, name, known[0], known[-1])
    if value not in known:
        *first, last = map(str, known)
        raise InputError(f"{name}: {', '.join(first)} or {last} was wanted, but {values[name]!r} came")
    return int(value)


def whole(values: Mapping[str, Scalar], name: str, least: int, most: int) -> int:
    """Return a whole number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not least <= value <= most or value != int(value):
        raise InputError(f"{name}: a whole number from {least} to {most} was wanted, but {value!r} came")
    return int(value)
