"""What there is to see in an episode, tick by tick, as plain data; and which of it was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from samepath.base.errors import InputError
from samepath.sim.sensors.looks import ActorLook, Odometer, paint_of
from samepath.sim.sensors.scene import Lamp
from samepath.sim.sensors.weather import Weather
from samepath.sim.server.actors import Entry, VehicleEntry, WalkerEntry
from samepath.sim.server.viewing.view import View

if TYPE_CHECKING:
    from samepath.sim.server.episode import Episode
    from samepath.sim.world.records import Pose

_LAMPS: Final = (Lamp.SPECIAL_2 << 1) - 1
"""The lamps that clients can switch."""
_WEATHER_MOST: Final = 1e6

Places = tuple[tuple[int, "Pose"], ...]


class Outlook:
    """What can be seen in an episode."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._odometer = Odometer()
        self._seen: tuple[int, Places] | None = None
        self._past: Places | None = None

    def follow(self) -> None:
        """Follow a tick: walkers have walked on."""
        world = self._episode.world
        self._odometer.advance(world.state(one.id) for one in self._episode.actors.all(WalkerEntry))
        frame = self._episode.frame
        self._past = self._seen[1] if self._seen is not None and self._seen[0] == frame - 1 else None

    def look(self) -> None:
        """Somebody looks at this tick: where things are now is what they will have moved from in the next one."""
        episode = self._episode
        if self._seen is None or self._seen[0] != episode.frame:
            bodies = [entry.id for entry in episode.actors if entry.has_body]
            self._seen = (episode.frame, tuple((number, episode.world.state(number).pose) for number in bodies))

    def view(self) -> View:
        """Everything as it is after this tick; if the tick before was looked at, with where things were then."""
        episode = self._episode
        bodies = [entry for entry in episode.actors if entry.has_body]
        return View(
            episode=episode.id,
            frame=episode.frame,
            # Not the frame: how long a server stood idle leaves no trace.
            tick=episode.world.tick_count,
            looks=tuple(self._look(entry) for entry in bodies),
            velocities=tuple(episode.world.state(entry.id).velocity_mps for entry in bodies),
            weather=Weather(*(min(max(value, -_WEATHER_MOST), _WEATHER_MOST) for value in episode.weather)),
            lights=tuple(int(episode.signals.shows(number)) for number in range(len(episode.scene.signals.lights))),
            hidden=self._hidden(),
            past=self._past,
            shapes=episode.debug.shapes if episode.place.draw_debug else (),
        )

    def _hidden(self) -> tuple[str, ...]:
        """What clients have taken away, by the names of the street; there a tree is one thing, and goes with its crown."""
        hidden = self._episode.hidden
        if not hidden:
            return ()
        return tuple(sorted({one.name.removesuffix(" crown") for one in self._episode.scene.objects if one.id in hidden}))

    def _look(self, entry: Entry) -> ActorLook:
        state = self._episode.world.state(entry.id)
        body = entry.blueprint.body if entry.blueprint is not None else entry.type_id
        lamps = Lamp(entry.lights & _LAMPS) if isinstance(entry, VehicleEntry) else Lamp(0)
        walked_m = self._odometer.walked_m(state) if isinstance(entry, WalkerEntry) else None
        return ActorLook(entry.id, body, state.pose, _paint(entry), lamps, walked_m)

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        seen = None if self._seen is None else [self._seen[0], [[number, list(pose)] for number, pose in self._seen[1]]]
        return [self._odometer.state(), seen]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        from samepath.sim.world.records import Pose

        walked, seen = data
        self._odometer = Odometer.restore(walked)
        self._seen = None if seen is None else (seen[0], tuple((number, Pose(*pose)) for number, pose in seen[1]))


def _paint(entry: Entry) -> tuple[float, float, float] | None:
    """The colour a client has chosen; one that is none is left to the id."""
    try:
        return paint_of(entry.record.description.get("color", ""))
    except InputError:
        return None
