"""A whole episode as bytes, and back: from a snapshot the world goes on bit for bit, also in another process.

Taken between two ticks. A snapshot is plain data (MessagePack, typed by the records' own annotations): nothing in it is ever
executed, and a field that is added to a record is in it from then on. It is read only by the very same code that wrote it
(:func:`check_made_by`), so that its format needs no versions and may change at any time.

What a snapshot cannot hold (a recording that is being played) prevents it, see :func:`obstacle`; so does a field of the episode
that nobody has said how to keep, because leaving it out would show only later, as a world that goes on differently. Whoever
wants to go on from such a moment plays the calls since an earlier snapshot again.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

import samepath
from samepath.core.digests import LINK_BYTES, link
from samepath.core.errors import InputError, SamepathError, SimulatorError
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.codec import token
from samepath.simulator.carla.recorder import ReplayOptions, inside
from samepath.simulator.carla.records import Settings, WeatherParameters
from samepath.simulator.server.actors import ActorEntry, ActorRegistry, SignEntry, VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import Episode, EpisodeContext, StreetLights
from samepath.simulator.server.maps import SENT
from samepath.simulator.server.recorder import EpisodeRecorder, RecorderState
from samepath.simulator.server.sensors import SensorEntry, VisualSensor, build_sensor
from samepath.simulator.server.ticking import traffic_of, write_states
from samepath.simulator.world.signals import Signals
from samepath.simulator.world.world import World

# Only the very same code goes on bit for bit: whoever wrote a file says which versions and which source that was.
# What the bits of a world depend on:
_FOLDERS: Final = ("core", "scenarios", "simulator", "cluster")
_LIBRARIES: Final = ("rapier3d", "numpy")


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
    "first_tick": int,
    "ranks": dict[int, int],
    "lights_set": bool,
    "traffic_due": bool,
    "weather": WeatherParameters,
    "lamps": StreetLights,
    "hidden": set[int],
    "recordings": list[str],
}
_OTHERS: Final = frozenset(
    {
        "context", "connections", "rehearsed", "tickets", "recorder", "player", "actors", "viewer", "world", "map", "signals",
        "debug", "spectator", "traffic",
    }
)  # fmt: skip
# By name and from a closed list: a snapshot names classes, and must not be able to name any other.
_KINDS: Final[dict[str, type[ActorEntry]]] = {
    kind.__name__: kind for kind in (ActorEntry, VehicleEntry, WalkerEntry, SignEntry, SensorEntry)
}
# Fields of entries that are not in a snapshot: blueprints are named, a sensor's model is built anew and given its state.
_NOT_KEPT: Final = frozenset({"blueprint", "model"})


class _KeptEntry(msgspec.Struct, array_like=True):
    """An actor: the class of its entry, its blueprint by name, its other fields packed, and its sensor's state."""

    kind: str
    blueprint: str | None
    fields: msgspec.Raw
    sensor: list[Any] | None


class _Content(msgspec.Struct):
    """What stands in a snapshot."""

    made_by: dict[str, str]
    map: str
    map_digest: bytes
    loaded: str | None  # the OpenDRIVE of the map, if a client sent it
    sent: str | None  # that of the last map a client sent, if it is another
    fields: dict[str, msgspec.Raw]
    actors: list[_KeptEntry]
    spectator: int
    subscriptions: list[tuple[int, list[int]]]
    tickets: Any
    signals: Any
    traffic: Any
    viewer: Any
    debug: Any
    recorder: tuple[str, RecorderState] | None
    world: Any


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Content)


def _packed(value: object) -> msgspec.Raw:
    # Sets have no order of their own: equal episodes must give equal bytes.
    return msgspec.Raw(_encoder.encode(sorted(value) if isinstance(value, set) else value))


class _Maker(msgspec.Struct):
    made_by: dict[str, str]


def obstacle(episode: Episode) -> str:
    """Why no snapshot can be taken now; empty: it can."""
    if episode.player is not None and not episode.player.is_over:
        return "a recording is being played"
    # Asked of the live object: a field that somebody adds and forgets here stops snapshots at once, and a test with them.
    unknown = sorted(set(vars(episode)) - set(_FIELDS) - _OTHERS)
    strangers = sorted({type(entry).__name__ for entry in episode.actors} - set(_KINDS))
    if unknown or strangers:
        return f"snapshots do not know {', '.join((*unknown, *strangers))}"
    return ""


def take(episode: Episode) -> bytes:
    """Everything the future of an episode depends on; who is connected is no part of it."""
    why = obstacle(episode)
    if why:
        raise SimulatorError(f"no snapshot can be taken now: {why}")
    recorder, served, sent = episode.recorder, episode.map, episode.context.maps.sent
    subscriptions = episode.connections.subscriptions
    content = _encoder.encode(
        _Content(
            made_by=dict(made_by()),
            map=served.name,
            map_digest=link(b"", served.road_map.xodr.encode()),
            loaded=served.road_map.xodr if served.name == SENT else None,
            sent=None if sent is None or sent is served.road_map else sent.xodr,
            fields={name: _packed(getattr(episode, name)) for name in _FIELDS},
            actors=[_keep_entry(entry) for entry in episode.actors],
            spectator=episode.spectator.id,
            subscriptions=[(stream, list(subscriptions.homes(stream))) for stream in subscriptions],
            tickets=episode.tickets.state(),
            signals=episode.signals.snapshot(),
            traffic=None if episode.traffic is None else episode.traffic.to_plain(),
            viewer=episode.viewer.state(),
            debug=episode.debug.state(),
            recorder=None if recorder is None else (_recording_name(episode, recorder), recorder.state()),
            world=episode.world.snapshot(),
        )
    )
    # The digest is about damage, not about trust: whoever can write the file can write its digest.
    return MAGIC + link(MAGIC, content) + content


def restore(packed: bytes, context: EpisodeContext) -> Episode:
    """The episode of :func:`take`; it is rehearsed, that is, it touches no file, until :func:`go_live`."""
    start = len(MAGIC) + LINK_BYTES
    if not packed.startswith(MAGIC):
        raise SimulatorError(f"a {MAGIC.decode().strip()!r} snapshot was wanted, but {packed[:20]!r} came")
    # Before anything is decoded: a torn file is called damaged, not one of strange content.
    if link(MAGIC, packed[start:]) != packed[len(MAGIC) : start]:
        raise SimulatorError("the snapshot is damaged: its digest does not fit")
    content = _decoded(packed[start:])
    check_made_by(content.made_by, "the snapshot")
    try:
        return _build(content, context)
    except (SamepathError, msgspec.MsgspecError) as error:
        raise SimulatorError(f"the snapshot cannot be restored: {error}") from error


def _decoded(data: bytes) -> _Content:
    """The content, or at least who made it: other code may have written another shape, and that is what is to be said."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        with contextlib.suppress(msgspec.MsgspecError):
            check_made_by(msgspec.msgpack.decode(data, type=_Maker).made_by, "the snapshot")
        raise SimulatorError(f"the snapshot cannot be read: {error}") from error


def _build(content: _Content, context: EpisodeContext) -> Episode:
    maps = context.maps
    # Tried when they were sent: to try a map again takes a process of its own, and whoever resumes waits for it.
    if content.loaded is not None:
        maps.keep(maps.read(content.loaded, tried=True))
    episode = Episode(context, content.map)
    # Behind the episode's own: the library keeps one map, and the one that was sent last may not be the one that is loaded.
    if content.sent is not None:
        maps.keep(maps.read(content.sent, tried=True))
    if link(b"", episode.map.road_map.xodr.encode()) != content.map_digest:
        raise SimulatorError(f"map {content.map} is not the one that it was taken on")
    episode.rehearsed = True
    for name, kind in _FIELDS.items():
        setattr(episode, name, msgspec.msgpack.decode(content.fields[name], type=kind))
    episode.world = World.restore(content.world)
    episode.actors = ActorRegistry()
    # In the order they were kept, which is that of the registry: everything that walks over actors walks in it.
    for kept in content.actors:
        episode.actors.add(_entry(episode, kept))
    episode.spectator = episode.actors.get(content.spectator, ActorEntry, "the spectator")
    for stream_id, homes in content.subscriptions:
        for home in homes:
            episode.connections.subscriptions.add(stream_id, home)
    episode.tickets.restore(content.tickets)
    episode.signals = Signals.restore(episode.map.signals, content.signals)
    episode.traffic = None if content.traffic is None else traffic_of(episode)
    if episode.traffic is not None:
        episode.traffic.recall(content.traffic)
    episode.viewer.restore(content.viewer)
    episode.debug.restore(content.debug)
    if content.recorder is not None:
        name, state = content.recorder
        episode.recorder = EpisodeRecorder.restore(inside(context.data_folder, name), state, context.limits.recording_bytes)
    # Not kept, because it follows from the rest: clients' states and their sum in the journal are of this table.
    write_states(episode)
    return episode


def go_live(episode: Episode, context: EpisodeContext) -> None:
    """End the rehearsal of an episode: nobody is connected, files are taken up, visual sensors get their renderer."""
    episode.go_live(context)
    if any(isinstance(entry.model, VisualSensor) for entry in episode.actors.all(SensorEntry)):
        context.renderer.prepare(episode.map.road_map)
    recorder = episode.recorder
    if recorder is None:
        return
    # A recording is a file beside the world: if it is gone, the world goes on without it.
    try:
        recorder.go_on()
    except SamepathError as error:
        context.log(f"the recording is not continued: {error}")
        episode.recorder = None


@cache
def _shape(kind: str) -> "tuple[tuple[str, ...], msgspec.msgpack.Decoder[tuple[Any, ...]]]":
    """The names of the fields that are kept of a kind of entry, and what reads them back with their types."""
    hints = get_type_hints(_KINDS[kind])
    names = tuple(field.name for field in dataclasses.fields(_KINDS[kind]) if field.name not in _NOT_KEPT)
    return names, msgspec.msgpack.Decoder(tuple[tuple(hints[name] for name in names)])  # type: ignore[misc]  # made at run time


def _keep_entry(entry: ActorEntry) -> _KeptEntry:
    names, _ = _shape(type(entry).__name__)
    return _KeptEntry(
        type(entry).__name__,
        None if entry.blueprint is None else entry.blueprint.id,
        _packed([getattr(entry, name) for name in names]),
        entry.model.state() if isinstance(entry, SensorEntry) else None,
    )


def _entry(episode: Episode, kept: _KeptEntry) -> ActorEntry:
    names, decoder = _shape(kept.kind)
    blueprint = None if kept.blueprint is None else blueprints.find(kept.blueprint)
    entry = _KINDS[kept.kind](blueprint=blueprint, **dict(zip(names, decoder.decode(kept.fields), strict=True)))
    if isinstance(entry, SensorEntry) and kept.sensor is not None:
        # Counted from the first actor of the episode, as when it was spawned: a sensor's noise belongs to that number.
        ordinal, felt = episode.ordinal(entry.id), episode.context.weather_felt
        entry.model = build_sensor(entry.record.description, ordinal, weather_felt=felt)
        entry.model.restore(kept.sensor)
        # The port of the streams may be another than that of the server that died.
        entry.record = entry.record._replace(stream_token=token(entry.stream_id, episode.context.stream_port))
    return entry


def _recording_name(episode: Episode, recorder: EpisodeRecorder) -> str:
    return recorder.path.relative_to(episode.context.data_folder).as_posix()


@cache
def made_by() -> Mapping[str, str]:
    """The samepath that runs: its version, the libraries that compute for it, and a digest of its source."""
    root = Path(samepath.__file__).parent
    digest = hashlib.blake2b(digest_size=LINK_BYTES)
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            # With its path: code that moves between modules without a change of text is other code.
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {"samepath": samepath.__version__, **versions, "source": digest.hexdigest()}


def check_made_by(found: Mapping[str, str], what: str) -> None:
    """Refuse what another samepath made, by the name of the first difference."""
    here = made_by()
    # Both ways: a library that only one of them knows is a difference too.
    for name in (*here, *found):
        if found.get(name) != here.get(name):
            raise InputError(
                f"{what} was made with {name} {found.get(name, 'unknown')}, but here is {here.get(name, 'none')}: "
                "only the very same code goes on bit for bit, so use that one"
            )
