"""Records as plain data and back, by their own annotations: lists, numbers, text and bytes, as MessagePack writes them.

Nothing has to be listed twice: a field that is added to a record is written from then on. Numbers keep their kind and bits.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from samepath.base.errors import InputError
from samepath.sim.server import blueprints
from samepath.sim.server.blueprints import Blueprint
from samepath.sim.world.catalogue import VehicleType
from samepath.sim.world.catalogue.packing import type_from, type_to

T = TypeVar("T")
Turn = Callable[[Any], Any]
_PLAIN: Final = (bool, int, float, str, bytes, type(None), Any, object)


class Way(NamedTuple):
    """How values of a type become plain data, and back."""

    write: Turn
    read: Turn


def _same(value: Any) -> Any:  # noqa: ANN401 - plain data of any kind
    return value


_AS_IT_IS: Final = Way(_same, _same)
# Types that are named rather than spelled out.
_BY_NAME: Final[Mapping[type, Way]] = {
    Blueprint: Way(lambda one: one.id, blueprints.find),
    VehicleType: Way(type_to, type_from),
}


def written(kind: Any, value: object) -> Any:  # noqa: ANN401 - a type, and plain data
    """A value of a type as plain data."""
    return way_of(kind).write(value)


def read(kind: type[T], data: Any) -> T:  # noqa: ANN401 - plain data
    """The value of :func:`written`."""
    return cast(T, way_of(cast(Any, kind)).read(data))


@cache
def way_of(kind: Any) -> Way:  # noqa: ANN401 - any annotation
    """The way of a type."""
    if kind in _PLAIN:
        return _AS_IT_IS
    if kind in _BY_NAME:
        return _BY_NAME[kind]
    origin = get_origin(kind)
    if origin is not None:
        return _GENERIC[origin](get_args(kind))
    if issubclass(kind, Enum):
        return Way(lambda one: one.value, kind)
    return _record(kind)


def fields_of(kind: type, without: frozenset[str] = frozenset()) -> dict[str, Way]:
    """The ways of a dataclass's or named tuple's fields."""
    hints = get_type_hints(kind)
    names = kind._fields if hasattr(kind, "_fields") else tuple(one.name for one in dataclasses.fields(kind))
    return {name: way_of(hints[name]) for name in names if name not in without}


def _record(kind: type) -> Way:
    ways = list(fields_of(kind).items())

    def write(value: Any) -> list[Any]:  # noqa: ANN401
        return [way.write(getattr(value, name)) for name, way in ways]

    def build(data: list[Any]) -> Any:  # noqa: ANN401
        if len(data) != len(ways):
            raise InputError(f"a {kind.__name__} of {len(ways)} fields was wanted, but {len(data)} came")
        return kind(**{name: way.read(one) for (name, way), one in zip(ways, data, strict=True)})

    return Way(write, build)


def _one_of(kinds: tuple[Any, ...]) -> Way:
    """An optional value, or one of several records by name."""
    some = [one for one in kinds if one is not type(None)]
    if len(some) == 1:
        way = way_of(some[0])
        return Way(
            lambda value: None if value is None else way.write(value), lambda data: None if data is None else way.read(data)
        )
    if all(one in _PLAIN for one in some):
        return _AS_IT_IS
    ways = {one.__name__: way_of(one) for one in some}

    def write(value: Any) -> Any:  # noqa: ANN401
        name = type(value).__name__
        return None if value is None else [name, ways[name].write(value)]

    return Way(write, lambda data: None if data is None else ways[data[0]].read(data[1]))


def _tuple_of(inner: tuple[Any, ...]) -> Way:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return _many_of(tuple, inner)
    ways = [way_of(one) for one in inner]
    return Way(
        lambda value: [way.write(one) for way, one in zip(ways, value, strict=True)],
        lambda data: tuple(way.read(one) for way, one in zip(ways, data, strict=True)),
    )


def _many_of(kind: Any, inner: tuple[Any, ...]) -> Way:  # noqa: ANN401 - a kind of collection
    way, ordered = way_of(inner[0]), kind in (list, tuple)
    return Way(
        lambda value: [way.write(one) for one in (value if ordered else sorted(value))],
        lambda data: kind([way.read(one) for one in data]),
    )


def _dict_of(inner: tuple[Any, ...]) -> Way:
    keys, values = way_of(inner[0]), way_of(inner[1])
    return Way(
        lambda value: [[keys.write(key), values.write(one)] for key, one in value.items()],
        lambda data: {keys.read(key): values.read(one) for key, one in data},
    )


_GENERIC: Final[Mapping[Any, Callable[[tuple[Any, ...]], Way]]] = {
    Union: _one_of,
    types.UnionType: _one_of,
    tuple: _tuple_of,
    dict: _dict_of,
    **{kind: partial(_many_of, kind) for kind in (list, set, frozenset)},
}
