"""What a node knows of the episode by itself, and the calls it answers from that.

The mirror has the parts of an episode that these calls use, under the same names: they run on it as they run on the main
server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from samepath.sim.maps import available_maps, load_map, parse_map
from samepath.sim.server import records as r
from samepath.sim.server.atlas import SENT, Atlas
from samepath.sim.server.codec import WireError, stream_of, token
from samepath.sim.server.limits import Limits
from samepath.sim.server.rpc import Call
from samepath.sim.server.scene import Scene, scene_of

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
