"""Sensors in an episode: when a measurement is due, and where it goes."""

from dataclasses import dataclass, field

from samepath.base.errors import SamepathError
from samepath.sim.sensors.schedule import is_due
from samepath.sim.server import frames
from samepath.sim.server.actors import Entry
from samepath.sim.server.episode import Episode
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Instrument, Sight, Silent
from samepath.sim.server.sensors.seeing import CameraEye
from samepath.sim.world.records import Collision


def _silent() -> Instrument:
    return Silent(Description(0, ""), 0)


@dataclass(eq=False)
class SensorEntry(Entry):
    """A sensor; ``age_s`` is the time since its first tick, None before it."""

    instrument: Instrument = field(default_factory=_silent)
    period_s: float = 0.0
    age_s: float | None = None
    is_lost: bool = False

    def is_due(self, delta_s: float) -> bool:
        """Is a measurement due after a tick of ``delta_s``? The first at once, then every period."""
        self.age_s = 0.0 if self.age_s is None else self.age_s + delta_s
        return is_due(self.period_s, self.age_s, delta_s)


def sense(episode: Episode, collisions: tuple[Collision, ...]) -> None:
    """Let all sensors feel a tick; those that somebody listens to send what is due."""
    episode.outlook.follow()
    due = []
    for entry in episode.actors.all(SensorEntry):
        parent = episode.actors.find(entry.record.parent_id)
        sight = Sight(
            world=episode.world,
            scene=episode.scene,
            outlook=episode.outlook,
            collisions=collisions,
            gravity_mps2=episode.gravity_mps2,
            delta_s=episode.delta_s,
            this=entry.record,
            parent=parent.record if parent is not None else None,
            pose=entry.pose,
            bearer=parent.id if parent is not None and parent.has_body else None,
            actor=episode.actor,
            scenery=episode.scenery,
        )
        entry.instrument.feel(sight)
        if not entry.is_due(episode.delta_s) or entry.stream_id not in episode.listened:
            continue
        due.append((entry, sight))
        if isinstance(entry.instrument, CameraEye):
            entry.instrument.announce(sight)
    for entry, sight in due:
        sensor_type = frames.SENSOR_TYPES[entry.type_id]
        head = frames.header(sensor_type, episode.moment, episode.actors.motion(entry.id))
        for payload in _measured(episode, entry, sight):
            episode.place.outbox.publish(entry.stream_id, head + payload)


def _measured(episode: Episode, entry: SensorEntry, sight: Sight) -> list[bytes]:
    """What a sensor measured; one that cannot, such as a receiver beyond the map, is silent, and the log says so once."""
    try:
        return entry.instrument.measure(sight)
    except SamepathError as error:
        if not entry.is_lost:
            episode.place.log(f"sensor {entry.id} is silent: {error}")
        entry.is_lost = True
        return []
