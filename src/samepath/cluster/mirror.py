"""What a node knows of the episode by itself, and the calls it answers from that.

The mirror has the parts of an episode that these calls use, under the same names: they run on it as they run on the main
server.
"""

import hashlib
import importlib.metadata
import platform
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import samepath
from samepath.cluster.messages import Message, NewActors, NewEpisode, NewSettings
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import WireError, stream_of, token
from samepath.simulator.carla.records import Actor, Settings, Weather, write_settings
from samepath.simulator.maps import RoadMap, available_maps, load_map, parse_map
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.limits import Limits
from samepath.simulator.server.maps import SENT, Atlas, Scene, scene_of
from samepath.simulator.server.rendering import View, packed
from samepath.simulator.server.rpc import Call

HERE: Final = frozenset(
    {
        "version", "get_available_maps", "get_episode_info", "get_episode_settings", "get_map_info", "get_map_data",
        "get_required_files", "request_file", "get_navigation_mesh", "get_actor_definitions", "get_spectator",
        "get_actors_by_id", "get_actor_bounding_box", "get_weather_parameters",
    }
)  # fmt: skip
"""Methods that a node answers itself: what there is, who is there, and where their streams are."""


class MirrorPlace(NamedTuple):
    """The part of a server's place that those methods use."""

    atlas: Atlas
    stream_port: int
    limits: Limits


@dataclass(frozen=True)
class MirrorEntry:
    """An actor."""

    record: r.Actor


class MirrorActors:
    """All actors by id."""

    def __init__(self) -> None:
        self._entries: dict[int, MirrorEntry] = {}

    def find(self, actor_id: int) -> MirrorEntry | None:
        """The actor of this id, if it is known here."""
        return self._entries.get(actor_id)

    def get(self, actor_id: int, _kind: object, _what: str) -> MirrorEntry:
        """The actor of this id; whoever asks has made sure that it is there."""
        return self._entries[actor_id]

    def change(self, came: list[r.Actor], gone: list[int]) -> None:
        """Take in who came or changed and who is gone."""
        for number in gone:
            self._entries.pop(number, None)
        for record in came:
            self._entries[record.id] = MirrorEntry(record)

    def clear(self) -> None:
        """Everybody is gone."""
        self._entries.clear()


def read_actor(data: Any) -> r.Actor:  # noqa: ANN401 - plain data of any shape
    """An actor from plain data."""
    try:
        number, parent, description, box, tags, stream_token = data
        return r.Actor(number, parent, r.description(description), r.bounding_box(box), tags, stream_token)
    except (TypeError, ValueError) as error:
        raise WireError("an actor was wanted, but what came has another shape") from error


def scene_sent(shown: str, real: str, xodr: str) -> Scene:
    """The scene of a map that the main server named; one of our own is this node's own copy, whose digest is compared."""
    if real == SENT:
        return scene_of(shown, parse_map(xodr, SENT))
    if real in available_maps():
        return scene_of(shown, load_map(real))
    raise WireError(f"a map of ours was wanted, but {real[:80]!r} came")


class Mirror:
    """An episode as far as a node knows it; it belongs to the event loop. ``ready`` says whether it is all there."""

    def __init__(self, aliases: Mapping[str, str], stream_port: int, limits: Limits, log: Callable[[str], None]) -> None:
        self.place = MirrorPlace(Atlas(aliases, log, limits), stream_port, limits)
        self.id = 0
        self.scene: Scene
        self.settings = r.Settings()
        self.weather = r.Weather()
        self.actors = MirrorActors()
        self.spectator_id = 0
        self.ready = False
        self._log = log

    def load(self, episode: int, scene: Scene) -> None:
        """Take in another map."""
        self.id, self.scene = episode, scene
        self.actors.clear()

    def change(self, came: list[r.Actor], gone: list[int], spectator: int) -> None:
        """Take in who came or changed and who is gone."""
        self.actors.change(came, gone)
        self.spectator_id = spectator

    def settle(self, settings: r.Settings, weather: r.Weather) -> None:
        """Take in settings and weather."""
        self.settings, self.weather = settings, weather

    def begin(self) -> None:
        """It is all there."""
        self.ready = True

    @property
    def spectator(self) -> MirrorEntry:
        """The spectator."""
        return self.actors.get(self.spectator_id, None, "")

    def token(self, stream_id: int) -> bytes:
        """The token of a stream, at this node."""
        return token(stream_id, self.place.stream_port)

    def shown(self, record: r.Actor) -> r.Actor:
        """An actor as clients of this node are to know it."""
        if not record.stream_token:
            return record
        return record._replace(stream_token=self.token(stream_of(record.stream_token)))

    def knows(self, call: Call) -> bool:
        """Can a call be answered here? Of an actor that is not known here the main server may know more."""
        if not self.ready or call.method.name not in HERE:
            return False
        if call.method.name == "get_actors_by_id":
            return all(self.actors.find(one) is not None for one in call.arguments[0])
        if call.method.name == "get_actor_bounding_box":
            return self.actors.find(call.arguments[0]) is not None
        return call.method.name != "get_spectator" or self.actors.find(self.spectator_id) is not None

    def answer(self, call: Call) -> bytes | None:
        """Answer a call, if that can be done here."""
        return call.method.run(self, call.arguments, self._log) if self.knows(call) else None


# By what a node can be told to be the right one: version, code, map, and a picture that all nodes draw alike.

_LIBRARIES: Final = ("numpy", "numba", "llvmlite", "msgpack")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def digest_of(*parts: bytes) -> str:
    """Name bytes; ('ab', 'c') and ('a', 'bc') have different names."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


@cache
def fingerprint() -> str:
    """Name everything that the bytes of a sensor might depend on: samepath's own code and the libraries that compute."""
    root = Path(samepath.__file__).parent
    parts = []
    for path in sorted(root.rglob("*.py")):
        parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    for name in _LIBRARIES:
        try:
            parts.append(f"{name} {importlib.metadata.version(name)}".encode())
        except importlib.metadata.PackageNotFoundError:
            parts.append(f"{name} is not installed".encode())
    parts.append(platform.machine().encode())
    return digest_of(*parts)


def map_digest(road_map: RoadMap) -> str:
    """Name a map by its content."""
    return digest_of(road_map.name.encode(), road_map.xodr.encode())


def host_name() -> str:
    """What this host calls itself."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """Name the running kernel: two processes that have the same one share their clock and their process numbers."""
    try:
        text = _BOOT.read_text("ascii").strip()
        return " ".join([text, *(str(Path("/proc/self/ns", one).readlink()) for one in ("pid", "time"))])
    except OSError:
        return ""


# What changes in an episode, for the nodes' mirrors: map, settings, weather, who is there.

# How much of who came is told at once: far below what the link takes in one message, whatever texts their attributes hold.
_PART_BYTES: Final = 1 << 20


@dataclass
class Bulletin:
    """Remembers what was said last; gives what is new since then, or everything for somebody who has just come."""

    _episode: int = -1
    _settings: Settings | None = None
    _weather: Weather | None = None
    _actors: dict[int, Actor] = field(default_factory=dict)
    _version: object = None

    def news(self, episode: Episode) -> list[tuple[Message, bytes]]:
        """What has changed since the last time, each with its bulk."""
        made: list[tuple[Message, bytes]] = []
        if episode.id != self._episode:
            self._episode, self._actors, self._version = episode.id, {}, None
            made.append(_map(episode))
        if episode.settings != self._settings or episode.weather != self._weather:
            self._settings, self._weather = episode.settings, episode.weather
            made.append((_settings(episode), b""))
        if episode.actors.version != self._version:
            self._version = episode.actors.version
            now = {entry.id: entry.record for entry in episode.actors}
            came = [record for number, record in now.items() if self._actors.get(number) != record]
            gone = [number for number in self._actors if number not in now]
            self._actors = now
            if came or gone:
                made.extend((one, b"") for one in _actors(came, gone, episode.spectator.id))
        return made

    @staticmethod
    def everything(episode: Episode) -> list[tuple[Message, bytes]]:
        """All there is to know, but for the map."""
        actors = [entry.record for entry in episode.actors]
        return [(_settings(episode), b""), *((one, b"") for one in _actors(actors, [], episode.spectator.id))]

    @staticmethod
    def map_of(episode: Episode) -> tuple[Message, bytes]:
        """The map."""
        return _map(episode)


def _map(episode: Episode) -> tuple[Message, bytes]:
    road_map = episode.scene.road_map
    message = NewEpisode(episode.id, episode.scene.name, road_map.name, map_digest(road_map))
    return message, road_map.xodr.encode()


def _settings(episode: Episode) -> NewSettings:
    return NewSettings(list(write_settings(episode.settings)), list(episode.weather))


def _actors(came: Sequence[Actor], gone: list[int], spectator: int) -> Iterator[NewActors]:
    """Who came and who is gone, in as many messages as it takes; the first says who is gone."""
    part: list[list[Any]] = []
    size_bytes = 0
    for one in came:
        plain = list(one)
        plain_bytes = len(packed(plain))
        if part and size_bytes + plain_bytes > _PART_BYTES:
            yield NewActors(part, gone, spectator)
            part, gone, size_bytes = [], [], 0
        part.append(plain)
        size_bytes += plain_bytes
    yield NewActors(part, gone, spectator)


# The digest of what a node holds of a tick: the state it gives to clients and the view it draws.


def digest_bytes(state: bytes, view: bytes) -> bytes:
    """Name a state and a view."""
    made = hashlib.blake2b(len(state).to_bytes(8, "little") + state, digest_size=16)
    made.update(view)
    return made.digest()


def held_digest(state: bytes, view: View) -> bytes:
    """The same of what was understood: the view is written anew from what was read, so that a mistake in reading shows."""
    return digest_bytes(state, view.pack())
