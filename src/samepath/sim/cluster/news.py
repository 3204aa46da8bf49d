"""What changes in an episode, for the nodes' mirrors: map, settings, weather, who is there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from samepath.sim.cluster.identity import map_digest
from samepath.sim.cluster.messages import Message, NewActors, NewEpisode, NewSettings
from samepath.sim.server.episode import Episode
from samepath.sim.server.records import Actor, Settings, Weather, write_settings
from samepath.sim.server.viewing.packing import packed

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
