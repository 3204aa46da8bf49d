"""What a node knows of the episode by itself, the calls it answers from that, and how it is kept up to date.

A :class:`Replica` has the parts of an episode that these calls use, under the same names: the same handlers run on it as on the
main server, so a client gets the same answer from every node. Whatever a replica does not know (an actor spawned a moment ago)
is no error: the call goes on to the main server.

:class:`ReplicaFeed` is the main server's half: it compares the episode with what nodes were told last, and says what is new.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from samepath.cluster.identity import map_digest
from samepath.cluster.messages import FromMain, NewActors, NewEpisode, NewSettings
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import WireError, stream_of, token
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.records import Actor, Settings, WeatherParameters, write_settings
from samepath.simulator.maps import available_maps, load_map, parse_map
from samepath.simulator.server.episode import RECENT_MAPS, Episode
from samepath.simulator.server.maps import MapLibrary, ServedMap, named_maps, served_map
from samepath.simulator.server.rendering import packed, unpacked
from samepath.simulator.server.rpc import Call, Sender

ANSWERED_HERE: Final = frozenset(
    {
        "version", "get_available_maps", "get_episode_settings", "get_map_info", "get_map_data", "get_required_files",
        "request_file", "get_navigation_mesh", "get_actor_definitions", "get_spectator",
        "get_actors_by_id", "get_actor_bounding_box", "get_weather_parameters",
    }
)  # fmt: skip
"""Methods that a node answers itself: what there is, who is there. Which episode it is depends on who asks: who has loaded a
map is told of the one before, as by CARLA, and that the main server knows."""


class ReplicaContext(NamedTuple):
    """The part of a server's context that those methods use."""

    maps: MapLibrary
    stream_port: int
    limits: ServerLimits


@dataclass(frozen=True)
class ReplicaEntry:
    record: r.Actor


class ReplicaActors:
    """All actors by id."""

    def __init__(self) -> None:
        self._entries: dict[int, ReplicaEntry] = {}

    def find(self, actor_id: int) -> ReplicaEntry | None:
        """The actor of this id, if it is known here."""
        return self._entries.get(actor_id)

    def get(self, actor_id: int, _kind: object, _what: str) -> ReplicaEntry:
        """The actor of this id; whoever asks has made sure that it is there."""
        return self._entries[actor_id]

    def change(self, came: list[r.Actor], gone: Sequence[int]) -> None:
        """Take in who came or changed and who is gone."""
        for number in gone:
            self._entries.pop(number, None)
        for record in came:
            self._entries[record.id] = ReplicaEntry(record)

    def clear(self) -> None:
        self._entries.clear()


def read_actor(data: bytes) -> r.Actor:
    """An actor from CARLA's record in MessagePack."""
    try:
        number, parent, description, box, tags, stream_token = unpacked(data, "an actor")
        return r.Actor(number, parent, r.description(description), r.bounding_box(box), tags, stream_token)
    except (TypeError, ValueError) as error:
        raise WireError("an actor was wanted, but what came has another shape") from error


def read_settings(message: NewSettings) -> tuple[r.Settings, r.WeatherParameters]:
    """Settings and weather of a message."""
    return r.settings(unpacked(message.settings, "settings")), r.weather(unpacked(message.weather, "weather"))


def map_sent(shown: str, real: str, xodr: str) -> ServedMap:
    """The map that the main server named: our own copy of one of ours (digests are compared), or what was sent."""
    return served_map(shown, load_map(real) if real in available_maps() else parse_map(xodr, real))


class Replica:
    """An episode as far as a node knows it; it belongs to the event loop. ``ready`` says whether it is all there."""

    def __init__(self, aliases: Mapping[str, str], stream_port: int, limits: ServerLimits, log: Callable[[str], None]) -> None:
        self.context = ReplicaContext(named_maps(aliases, log, limits), stream_port, limits)
        self.id = 0
        self.map: ServedMap
        self.recent_maps: deque[ServedMap] = deque(maxlen=RECENT_MAPS)
        self.settings = r.Settings()
        self.weather = r.WeatherParameters()
        self.actors = ReplicaActors()
        self.spectator_id = 0
        self.ready = False
        self._log = log

    def load(self, episode: int, served: ServedMap) -> None:
        """Take in another map."""
        self.id, self.map = episode, served
        self.recent_maps.appendleft(served)
        self.actors.clear()

    def change(self, came: list[r.Actor], gone: Sequence[int], spectator: int) -> None:
        """Take in who came or changed and who is gone."""
        self.actors.change(came, gone)
        self.spectator_id = spectator

    def settle(self, settings: r.Settings, weather: r.WeatherParameters) -> None:
        """Take in settings and weather."""
        self.settings, self.weather = settings, weather

    def begin(self) -> None:
        """It is all there."""
        self.ready = True

    @property
    def spectator(self) -> ReplicaEntry:
        return self.actors.get(self.spectator_id, None, "")

    def token(self, stream_id: int, _: Sender) -> bytes:
        """The token of a stream, at this node."""
        return token(stream_id, self.context.stream_port)

    def shown(self, record: r.Actor, sender: Sender) -> r.Actor:
        """An actor as clients of this node are to know it."""
        if not record.stream_token:
            return record
        return record._replace(stream_token=self.token(stream_of(record.stream_token), sender))

    def knows(self, call: Call) -> bool:
        """Can a call be answered here? Of an actor that is not known here the main server may know more."""
        if not self.ready or call.method.name not in ANSWERED_HERE:
            return False
        if call.method.name == "get_actors_by_id":
            return all(self.actors.find(actor) is not None for actor in call.arguments[0])
        if call.method.name == "get_actor_bounding_box":
            return self.actors.find(call.arguments[0]) is not None
        return call.method.name != "get_spectator" or self.actors.find(self.spectator_id) is not None

    def answer(self, call: Call) -> bytes | None:
        """Answer a call, if that can be done here."""
        if not self.knows(call):
            return None
        return call.method.run(self, Sender(call.caller, call.caller.home), call.arguments, self._log)


# How much of who came is told at once: far below what the link takes in one message, whatever texts their attributes hold.
_ACTORS_BYTES: Final = 1 << 20


@dataclass
class ReplicaFeed:
    """Remembers what nodes were told last; gives what is new since then, or everything for a node that has just joined."""

    _episode: int = -1
    _settings: Settings | None = None
    _weather: WeatherParameters | None = None
    _actors: dict[int, Actor] = field(default_factory=dict)
    _version: object = None

    def news(self, episode: Episode) -> list[tuple[FromMain, bytes]]:
        """What has changed since the last time, each with its bulk."""
        made: list[tuple[FromMain, bytes]] = []
        if episode.id != self._episode:
            self._episode, self._actors, self._version = episode.id, {}, None
            made.append(map_message(episode))
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
                made.extend((message, b"") for message in _actors(came, gone, episode.spectator.id))
        return made

    @staticmethod
    def everything(episode: Episode) -> list[tuple[FromMain, bytes]]:
        """All there is to know, but for the map."""
        actors = [entry.record for entry in episode.actors]
        return [(_settings(episode), b""), *((message, b"") for message in _actors(actors, [], episode.spectator.id))]


def map_message(episode: Episode) -> tuple[NewEpisode, bytes]:
    """The map of an episode, and its bulk."""
    road_map = episode.map.road_map
    message = NewEpisode(episode.id, episode.map.name, road_map.name, map_digest(road_map))
    return message, road_map.xodr.encode()


def _settings(episode: Episode) -> NewSettings:
    return NewSettings(packed(write_settings(episode.settings)), packed(episode.weather))


def _actors(came: Sequence[Actor], gone: list[int], spectator: int) -> Iterator[NewActors]:
    """Who came and who is gone, in as many messages as it takes; the first says who is gone."""
    part: list[bytes] = []
    size_bytes = 0
    for actor in came:
        record = packed(actor)
        if part and size_bytes + len(record) > _ACTORS_BYTES:
            yield NewActors(tuple(part), tuple(gone), spectator)
            part, gone, size_bytes = [], [], 0
        part.append(record)
        size_bytes += len(record)
    yield NewActors(tuple(part), tuple(gone), spectator)
