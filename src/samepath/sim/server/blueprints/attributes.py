"""Attributes from short lines of text, and those every blueprint has."""

from collections.abc import Iterator, Sequence
from typing import Final

from samepath.sim.server.blueprints.records import Attribute, AttributeType

_TYPES: Final = {
    "bool": AttributeType.BOOL,
    "int": AttributeType.INT,
    "float": AttributeType.FLOAT,
    "string": AttributeType.STRING,
    "colour": AttributeType.COLOUR,
}


def variation(name: str, kind: str, recommended: Sequence[str], *, restricted: bool = False) -> Attribute:
    """An attribute the client may change; the first recommended value is its default."""
    return Attribute(name, _TYPES[kind], recommended[0], tuple(recommended), modifiable=True, restricted=restricted)


def fact(name: str, kind: str, value: str) -> Attribute:
    """An attribute the client may only read."""
    return Attribute(name, _TYPES[kind], value)


def variations(lines: str) -> Iterator[Attribute]:
    """One attribute a line: name, type, default; several defaults are the only ones allowed."""
    for line in filter(None, lines.splitlines()):
        name, kind, *values = line.split()
        yield variation(name, kind, values, restricted=len(values) > 1)


def common(*roles: str) -> Iterator[Attribute]:
    """What every blueprint has: a role, and the names ROS would use."""
    yield variation("role_name", "string", roles or ("default",))
    yield variation("ros_name", "string", ("",))
    yield variation("ros_frame_id", "string", ("",))
    yield variation("ros_publish_tf", "bool", ("true",))
