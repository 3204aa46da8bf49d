"""A whole episode as bytes, and back: from a snapshot the world goes on bit for bit, also in another process.

Taken between two ticks. Plain data only, nothing in it is ever executed. What a snapshot cannot hold (a recording that is being
played) prevents it, see :func:`obstacle`: whoever wants to go on from there plays the calls since an earlier one again.
"""

import dataclasses
import hashlib
import importlib.metadata
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgpack

import samepath
from samepath.core.catalogue import VehicleType, type_from, type_to
from samepath.core.digests import LINK_BYTES, link
from samepath.core.errors import InputError, SamepathError, SimulatorError
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.blueprints import Blueprint
from samepath.simulator.carla.codec import token
from samepath.simulator.carla.recorder import ReplayOptions, inside
from samepath.simulator.carla.records import Settings, WeatherParameters
from samepath.simulator.server.actors import ActorEntry, ActorRegistry, SignEntry, VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import Episode, EpisodeContext, NoCaller, StreetLights
from samepath.simulator.server.maps import SENT
from samepath.simulator.server.recorder import EpisodeRecorder, RecorderState
from samepath.simulator.server.sensors import SensorEntry, VisualSensor, build_sensor
from samepath.simulator.server.ticking import write_states
from samepath.simulator.world.signals import Signals
from samepath.simulator.world.world import World

# Who made a file that only the very same code can go on with: versions by name, and a digest of the source.

# What the bits of a world depend on.
_FOLDERS: Final = ("core", "scenarios", "simulator", "cluster")
_LIBRARIES: Final = ("rapier3d", "numpy")


@cache
def made_by() -> Mapping[str, str]:
    """The samepath that runs: its version, the libraries that compute for it, and a digest of its source."""
    root = Path(samepath.__file__).parent
    digest = hashlib.blake2b(digest_size=LINK_BYTES)
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {"samepath": samepath.__version__, **versions, "source": digest.hexdigest()}


def check_made_by(found: Mapping[str, str], what: str) -> None:
    """Refuse what another samepath made, by the name of the first difference."""
    here = made_by()
    for name in (*here, *found):
        if found.get(name) != here.get(name):
            raise InputError(
                f"{what} was made with {name} {found.get(name, 'unknown')}, but here is {here.get(name, 'none')}: "
                "only the very same code goes on bit for bit, so use that one"
            )


# Records as plain data and back, by their own annotations: lists, numbers, text and bytes, as MessagePack writes
# them.
#
# Nothing has to be listed twice: a field that is added to a record is written from then on. Numbers keep their kind
# and bits.

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


MAGIC: Final = b"samepath episode 1\n"
# What an episode is made of: plain fields, and what is written in a way of its own. A field in neither prevents snapshots.
_FIELDS: Final[dict[str, Any]] = {
    "settings": Settings,
    "frame": int,
    "id": int,
    "overruled": int,
    "next_actor_id": int,
    "next_stream_id": int,
    "gravity_mps2": float,
    "replaying": ReplayOptions,
    "elapsed_s": float,
    "delta_s": float,
    "map_changed": bool,
    "first_actor_id": int,
    "ranks": dict[int, int],
    "lights_set": bool,
    "weather": WeatherParameters,
    "lamps": StreetLights,
    "hidden": set[int],
}
_OTHERS: Final = frozenset(
    {
        "context", "caller", "on_command", "rehearsed", "traffic_managers", "tickets", "recorder", "player", "actors", "viewer",
        "world", "scene", "subscriptions", "signals", "debug", "spectator",
    }
)  # fmt: skip
_KINDS: Final[dict[str, type[ActorEntry]]] = {
    one.__name__: one for one in (ActorEntry, VehicleEntry, WalkerEntry, SignEntry, SensorEntry)
}
_INSIDE: Final = "model"


def obstacle(episode: Episode) -> str:
    """Why no snapshot can be taken now; empty: it can."""
    if episode.player is not None and not episode.player.is_over:
        return "a recording is being played"
    unknown = sorted(set(vars(episode)) - set(_FIELDS) - _OTHERS)
    strangers = sorted({type(one).__name__ for one in episode.actors} - set(_KINDS))
    if unknown or strangers:
        return f"snapshots do not know {', '.join((*unknown, *strangers))}"
    return ""


def take(episode: Episode) -> bytes:
    """Everything the future of an episode depends on; who is connected is no part of it."""
    why = obstacle(episode)
    if why:
        raise SimulatorError(f"no snapshot can be taken now: {why}")
    recorder, scene = episode.recorder, episode.scene
    sent = episode.context.maps.sent
    data = {
        "made_by": made_by(),
        "map": scene.name,
        "map_digest": link(b"", scene.road_map.xodr.encode()),
        "loaded": scene.road_map.xodr if scene.name == SENT else None,
        "sent": None if sent is None or sent is scene.road_map else sent.xodr,
        "fields": {name: written(kind, getattr(episode, name)) for name, kind in _FIELDS.items()},
        "actors": [_write_entry(one) for one in episode.actors],
        "spectator": episode.spectator.id,
        "listened": [[one, list(episode.subscriptions.homes(one))] for one in episode.subscriptions],
        "tickets": episode.tickets.state(),
        "signals": episode.signals.snapshot(),
        "outlook": episode.viewer.state(),
        "debug": episode.debug.state(),
        "recorder": None if recorder is None else _write_recorder(episode, recorder),
        "world": episode.world.snapshot(),
    }
    content: bytes = msgpack.packb(data, use_bin_type=True)
    return MAGIC + link(MAGIC, content) + content


def restore(packed: bytes, place: EpisodeContext) -> Episode:
    """The episode of :func:`take`; it is rehearsed, that is, it touches no file, until :func:`go_live`."""
    data = _content(packed)
    check_made_by(data["made_by"], "the snapshot")
    try:
        return _build(data, place)
    except SamepathError as error:
        raise SimulatorError(f"the snapshot cannot be restored: {error}") from error


def _content(packed: bytes) -> dict[str, Any]:
    start = len(MAGIC) + LINK_BYTES
    if not packed.startswith(MAGIC):
        raise SimulatorError(f"a {MAGIC.decode().strip()!r} snapshot was wanted, but {packed[:20]!r} came")
    if link(MAGIC, packed[start:]) != packed[len(MAGIC) : start]:
        raise SimulatorError("the snapshot is damaged: its digest does not fit")
    found: dict[str, Any] = msgpack.unpackb(packed[start:], raw=False, strict_map_key=True)
    return found


def _build(data: dict[str, Any], place: EpisodeContext) -> Episode:
    atlas = place.maps
    if data["loaded"] is not None:
        atlas.receive(data["loaded"], tried=True)
    episode = Episode(place, data["map"])
    if data["sent"] is not None:
        atlas.receive(data["sent"], tried=True)
    if link(b"", episode.scene.road_map.xodr.encode()) != data["map_digest"]:
        raise SimulatorError(f"map {data['map']} is not the one that it was taken on")
    episode.rehearsed = True
    for name, kind in _FIELDS.items():
        setattr(episode, name, read(kind, data["fields"][name]))
    episode.world = World.restore(data["world"])
    episode.actors = ActorRegistry()
    for one in data["actors"]:
        episode.actors.add(_read_entry(episode, one))
    episode.spectator = episode.actors.get(data["spectator"], ActorEntry, "the spectator")
    for stream_id, homes in data["listened"]:
        for home in homes:
            episode.subscriptions.add(stream_id, home)
    episode.tickets.restore(data["tickets"])
    episode.signals = Signals.restore(episode.scene.signals, data["signals"])
    episode.viewer.restore(data["outlook"])
    episode.debug.restore(data["debug"])
    if data["recorder"] is not None:
        name, state = data["recorder"]
        most_bytes = place.limits.recording_bytes
        episode.recorder = EpisodeRecorder.restore(inside(place.data_folder, name), read(RecorderState, state), most_bytes)
    write_states(episode)
    return episode


def go_live(episode: Episode, place: EpisodeContext) -> None:
    """End the rehearsal of an episode: nobody is connected, files are taken up, sensors that see get their tools."""
    episode.context, episode.rehearsed, episode.caller = place, False, NoCaller()
    let_go(episode)
    if any(isinstance(entry.model, VisualSensor) for entry in episode.actors.all(SensorEntry)):
        place.renderer.prepare(episode.scene.road_map)
    recorder = episode.recorder
    if recorder is None:
        return
    try:
        recorder.go_on()
    except SamepathError as error:
        place.log(f"the recording is not continued: {error}")
        episode.recorder = None


def let_go(episode: Episode) -> None:
    """All clients are gone, as they are when a server dies."""
    episode.traffic_managers.clear()
    for stream_id in list(episode.subscriptions):
        episode.subscriptions.end(stream_id)


@cache
def _ways_of(kind: str) -> dict[str, Way]:
    return fields_of(_KINDS[kind], frozenset({_INSIDE}))


def _write_entry(entry: ActorEntry) -> list[Any]:
    kind = type(entry).__name__
    values = [way.write(getattr(entry, name)) for name, way in _ways_of(kind).items()]
    return [kind, values, entry.model.state() if isinstance(entry, SensorEntry) else None]


def _read_entry(episode: Episode, data: list[Any]) -> ActorEntry:
    kind, values, inner = data
    entry = _KINDS[kind](**{name: way.read(one) for (name, way), one in zip(_ways_of(kind).items(), values, strict=True)})
    if isinstance(entry, SensorEntry):
        entry.model = build_sensor(entry.record.description, entry.id - episode.first_actor_id)
        entry.model.restore(inner)
        entry.record = entry.record._replace(stream_token=token(entry.stream_id, episode.context.stream_port))
    return entry


def _write_recorder(episode: Episode, recorder: EpisodeRecorder) -> list[Any]:
    name = recorder.path.relative_to(episode.context.data_folder).as_posix()
    return [name, written(RecorderState, recorder.state())]
