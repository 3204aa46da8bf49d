"""A whole episode as bytes, and back: from a snapshot the world goes on bit for bit, also in another process.

Taken between two ticks. Plain data only, nothing in it is ever executed. What a snapshot cannot hold (a recording that is being
played) prevents it, see :func:`obstacle`: whoever wants to go on from there plays the calls since an earlier one again.
"""

from functools import cache
from typing import Any, Final

import msgpack

from samepath.base.digests import LINK_BYTES, link
from samepath.base.errors import SamepathError, SimulatorError
from samepath.sim.server.actors import Entry, Registry, SignEntry, VehicleEntry, WalkerEntry
from samepath.sim.server.atlas import SENT
from samepath.sim.server.codec import token
from samepath.sim.server.episode import Episode, Lamps, Nobody, Place
from samepath.sim.server.makers import check_made_by, made_by
from samepath.sim.server.plain import Way, fields_of, read, written
from samepath.sim.server.recorder import ReplayOptions, inside
from samepath.sim.server.recording import Recorder, RecorderState
from samepath.sim.server.records import Settings, Weather
from samepath.sim.server.sensing import SensorEntry
from samepath.sim.server.sensors import instrument
from samepath.sim.server.sensors.seeing import SEEING
from samepath.sim.server.ticking import write_states
from samepath.sim.world.signals import Signals
from samepath.sim.world.world import World

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
    "weather": Weather,
    "lamps": Lamps,
    "hidden": set[int],
}
_OTHERS: Final = frozenset(
    {
        "place", "caller", "on_command", "rehearsed", "traffic_managers", "tickets", "recorder", "player", "actors", "outlook",
        "world", "scene", "listened", "signals", "debug", "spectator",
    }
)  # fmt: skip
_KINDS: Final[dict[str, type[Entry]]] = {
    one.__name__: one for one in (Entry, VehicleEntry, WalkerEntry, SignEntry, SensorEntry)
}
_INSIDE: Final = "instrument"


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
    sent = episode.place.atlas.sent
    data = {
        "made_by": made_by(),
        "map": scene.name,
        "map_digest": link(b"", scene.road_map.xodr.encode()),
        "loaded": scene.road_map.xodr if scene.name == SENT else None,
        "sent": None if sent is None or sent is scene.road_map else sent.xodr,
        "fields": {name: written(kind, getattr(episode, name)) for name, kind in _FIELDS.items()},
        "actors": [_write_entry(one) for one in episode.actors],
        "spectator": episode.spectator.id,
        "listened": [[one, list(episode.listened.homes(one))] for one in episode.listened],
        "tickets": episode.tickets.state(),
        "signals": episode.signals.snapshot(),
        "outlook": episode.outlook.state(),
        "debug": episode.debug.state(),
        "recorder": None if recorder is None else _write_recorder(episode, recorder),
        "world": episode.world.snapshot(),
    }
    content: bytes = msgpack.packb(data, use_bin_type=True)
    return MAGIC + link(MAGIC, content) + content


def restore(packed: bytes, place: Place) -> Episode:
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


def _build(data: dict[str, Any], place: Place) -> Episode:
    atlas = place.atlas
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
    episode.actors = Registry()
    for one in data["actors"]:
        episode.actors.add(_read_entry(episode, one))
    episode.spectator = episode.actors.get(data["spectator"], Entry, "the spectator")
    for stream_id, homes in data["listened"]:
        for home in homes:
            episode.listened.add(stream_id, home)
    episode.tickets.restore(data["tickets"])
    episode.signals = Signals.restore(episode.scene.signals, data["signals"])
    episode.outlook.restore(data["outlook"])
    episode.debug.restore(data["debug"])
    if data["recorder"] is not None:
        name, state = data["recorder"]
        most_bytes = place.limits.recording_bytes
        episode.recorder = Recorder.restore(inside(place.data_folder, name), read(RecorderState, state), most_bytes)
    write_states(episode)
    return episode


def go_live(episode: Episode, place: Place) -> None:
    """End the rehearsal of an episode: nobody is connected, files are taken up, sensors that see get their tools."""
    episode.place, episode.rehearsed, episode.caller = place, False, Nobody()
    let_go(episode)
    if any(isinstance(one.instrument, SEEING) for one in episode.actors.all(SensorEntry)):
        place.workshop.prepare(episode.scene.road_map)
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
    for stream_id in list(episode.listened):
        episode.listened.end(stream_id)


@cache
def _ways_of(kind: str) -> dict[str, Way]:
    return fields_of(_KINDS[kind], frozenset({_INSIDE}))


def _write_entry(entry: Entry) -> list[Any]:
    kind = type(entry).__name__
    values = [way.write(getattr(entry, name)) for name, way in _ways_of(kind).items()]
    return [kind, values, entry.instrument.state() if isinstance(entry, SensorEntry) else None]


def _read_entry(episode: Episode, data: list[Any]) -> Entry:
    kind, values, inner = data
    entry = _KINDS[kind](**{name: way.read(one) for (name, way), one in zip(_ways_of(kind).items(), values, strict=True)})
    if isinstance(entry, SensorEntry):
        entry.instrument = instrument(entry.record.description, entry.id - episode.first_actor_id)
        entry.instrument.restore(inner)
        entry.record = entry.record._replace(stream_token=token(entry.stream_id, episode.place.stream_port))
    return entry


def _write_recorder(episode: Episode, recorder: Recorder) -> list[Any]:
    name = recorder.path.relative_to(episode.place.data_folder).as_posix()
    return [name, written(RecorderState, recorder.state())]
