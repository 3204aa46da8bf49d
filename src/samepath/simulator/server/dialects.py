"""Older versions of CARLA's protocol: what their clients send becomes 0.9.16's, what they are sent becomes theirs.

All else speaks 0.9.16: calls are translated before anything looks at them, so that journals, nodes and recordings know one
protocol, and answers and streams as the last thing before they are sent. Nothing in the handshake says which version a client
is: up to its first state message the calls of 0.9.14, 0.9.15 and 0.9.16 are the same, and a state of the wrong version ends the
client. So a server speaks one version, which its user names.

What differs, by CARLA's sources:

- up to 0.9.15: the numbers of sensors in the headers of streams (no Cosmos camera before the world's observer), the types of
  attributes (from 0, not from 1), boxes without an actor, no socket names and no kind of attachment in spawning, no offset in
  replays;
- up to 0.9.14: settings without ``spectator_as_ego``.

Clients up to 0.9.13 fetch streams without asking for a token first, which is how they are recognised, and refused in words.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from samepath.core.errors import InputError
from samepath.simulator.carla import codec
from samepath.simulator.carla.streams import GBUFFER, SENSOR_TYPES, WORLD_OBSERVER

NEWEST: Final = "0.9.16"
TOO_OLD: Final = (
    "this client is older than CARLA 0.9.14, whose protocol samepath does not speak: install carla 0.9.16, "
    "or 0.9.15 or 0.9.14 and start the server with --protocol"
)
_SPAWN: Final = 0
_BOX: Final = 3
_USUAL_OFFSET: Final = [[-10.0, 0.0, 5.0], [-25.0, 0.0, 0.0]]
_TYPE: Final = struct.Struct("<Q")
_COSMOS: Final = SENSOR_TYPES["sensor.camera.cosmos_visualization"]
_EVENTS: Final = frozenset({SENSOR_TYPES["sensor.other.collision"], SENSOR_TYPES["sensor.other.obstacle"]})
_GBUFFERS: Final = (GBUFFER, GBUFFER + 1)
_HEADER_BYTES: Final = 48


@dataclass(frozen=True)
class Dialect:
    """One older version. Whatever does not have the shape it should is passed on as it came: it is refused where it is read."""

    version: str
    has_spectator_as_ego: bool

    def request(self, message: bytes, most_bytes: int) -> bytes:
        """A client's message as 0.9.16 would send it; one that is too large to be unpacked holds a map, which is the same."""
        if len(message) > codec.PIECE_BYTES:
            return self._large_request(message, most_bytes)
        try:
            value = msgpack.unpackb(message, raw=False, unicode_errors="surrogateescape", strict_map_key=False)
            name, arguments = value[-2:]
            change = _REQUESTS.get(name)
            if change is None:
                return message
            change(self, arguments)
        except (ValueError, TypeError, IndexError, AttributeError, msgpack.UnpackException, RecursionError):
            return message
        return bytes(msgpack.packb(value, use_bin_type=True, unicode_errors="surrogateescape"))

    def _large_request(self, message: bytes, max_bytes: int) -> bytes:
        """Translate a large message without unpacking all of it in one step, which would keep other clients waiting."""
        try:
            head, found = codec.large_call(message, max_bytes)
            change = _REQUESTS.get(head[-1])
            if change is None:
                return message
            arguments = [[False], *map(codec.plain, found)]
            change(self, arguments)
            return bytes(msgpack.packb([*head, arguments], use_bin_type=True))
        except (ValueError, TypeError, IndexError, AttributeError, codec.WireError, msgpack.UnpackException, RecursionError):
            return message

    def changes(self, method: str) -> bool:
        """Is the answer to this method another one?"""
        return method in _ANSWERS

    def answer(self, method: str, result: bytes) -> bytes:
        """An answer as the older version would give it."""
        change = _ANSWERS.get(method)
        if change is None:
            return result
        value = msgpack.unpackb(result, raw=False, unicode_errors="surrogateescape")
        # Wrapped: [[1, value]], or [[0, [message]]].
        if isinstance(value, list) and value and isinstance(value[0], list) and len(value[0]) == 2 and value[0][0] == 1:
            value[0][1] = change(self, value[0][1])
        return codec.pack(value)

    def stream(self, payload: bytes) -> bytes:
        """A message of a stream as the older version would send it; empty: there is none such."""
        (kind,) = _TYPE.unpack_from(payload)
        if kind == WORLD_OBSERVER or kind in _GBUFFERS:
            return _TYPE.pack(kind - 1) + payload[_TYPE.size :]
        if kind in _EVENTS:
            value = msgpack.unpackb(payload[_HEADER_BYTES:], raw=False, unicode_errors="surrogateescape")
            return payload[:_HEADER_BYTES] + codec.pack([*(_older_actor(actor) for actor in value[:2]), *value[2:]])
        return b"" if kind >= _COSMOS else payload


def dialect_of(version: str) -> Dialect | None:
    """The dialect of a version; None for the newest, which needs none."""
    if version == NEWEST:
        return None
    found = _DIALECTS.get(version)
    if found is None:
        raise InputError(f"--protocol: one of {', '.join((NEWEST, *_DIALECTS))} was wanted, but {version!r} came")
    return found


_DIALECTS: Final = {found.version: found for found in (Dialect("0.9.15", True), Dialect("0.9.14", False))}


def _newer_description(description: list[Any]) -> None:
    for attribute in description[2]:
        attribute[1] += 1


def _older_description(description: list[Any]) -> list[Any]:
    uid, name, attributes = description
    return [uid, name, [[key, kind - 1, value] for key, kind, value in attributes]]


def _older_actor(actor: list[Any]) -> list[Any]:
    return [*actor[:2], _older_description(actor[2]), *actor[3:]]


def _older_definition(definition: list[Any]) -> list[Any]:
    """uid, id, tags, attributes of (id, type, value, recommended, modifiable, restricted)."""
    return [*definition[:3], [[key, kind - 1, *rest] for key, kind, *rest in definition[3]]]


def _spawn(_: Dialect, arguments: list[Any]) -> None:
    _newer_description(arguments[1])


def _spawn_with_parent(_: Dialect, arguments: list[Any]) -> None:
    _newer_description(arguments[1])
    if len(arguments) == 5:
        arguments.append("")


def _batch(_: Dialect, arguments: list[Any]) -> None:
    for command in arguments[1]:
        _command(command)


def _command(command: list[Any]) -> None:
    index, fields = command[0]
    if index != _SPAWN or len(fields) != 4:
        return
    _newer_description(fields[0])
    for after in fields[3]:
        _command(after)
    fields[3:3] = [0, ""]  # how it is attached, and to which socket


def _replay(_: Dialect, arguments: list[Any]) -> None:
    if len(arguments) == 6:
        arguments.append(_USUAL_OFFSET)


def _settings(dialect: Dialect, arguments: list[Any]) -> None:
    if not dialect.has_spectator_as_ego and len(arguments[1]) == 10:
        arguments[1].append(True)


def _shape(_: Dialect, arguments: list[Any]) -> None:
    index, fields = arguments[1][0]
    if index == _BOX and len(fields[0]) == 3:
        fields[0].append(0)


# The first argument of every call is CARLA's metadata.
_REQUESTS: Final[Mapping[str, Callable[[Dialect, list[Any]], None]]] = {
    "spawn_actor": _spawn,
    "spawn_actor_with_parent": _spawn_with_parent,
    "apply_batch": _batch,
    "replay_file": _replay,
    "set_episode_settings": _settings,
    "draw_debug_shape": _shape,
}
_ANSWERS: Final[Mapping[str, Callable[[Dialect, Any], Any]]] = {
    "version": lambda dialect, _: dialect.version,
    "get_actor_definitions": lambda _, found: [_older_definition(definition) for definition in found],
    "spawn_actor": lambda _, actor: _older_actor(actor),
    "spawn_actor_with_parent": lambda _, actor: _older_actor(actor),
    "get_spectator": lambda _, actor: _older_actor(actor),
    "get_actors_by_id": lambda _, actors: [_older_actor(actor) for actor in actors],
    "get_episode_settings": lambda dialect, found: found if dialect.has_spectator_as_ego else found[:10],
}
