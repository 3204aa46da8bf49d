"""Sensors in an episode: when a measurement is due, and where it goes."""

from dataclasses import dataclass, field

from samepath.sim.server import frames
from samepath.sim.server.actors import Entry
from samepath.sim.server.episode import Episode
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Instrument, Sight, Silent
from samepath.sim.world.records import Collision

# A part of a step that rounding may be off by.
_ROUNDING = 1e-3


def _silent() -> Instrument:
    return Silent(Description(0, ""), 0)


@dataclass(eq=False)
class SensorEntry(Entry):
    """A sensor. ``since_s`` is the time since the last measurement was due, None before the first."""

    instrument: Instrument = field(default_factory=_silent)
    period_s: float = 0.0
    since_s: float | None = None

    def is_due(self, delta_s: float) -> bool:
        """Is a measurement due after a tick of ``delta_s``? The first at once, then every period."""
        if self.since_s is None or not self.period_s:
            self.since_s = 0.0
            return True
        self.since_s += delta_s
        if self.since_s < self.period_s - _ROUNDING * delta_s:
            return False
        self.since_s = max(self.since_s - self.period_s, 0.0)
        return True


def sense(episode: Episode, collisions: tuple[Collision, ...]) -> None:
    """Let all sensors feel a tick; those that somebody listens to send what is due."""
    for entry in episode.actors.all(SensorEntry):
        parent = episode.actors.find(entry.record.parent_id)
        sight = Sight(
            world=episode.world,
            scene=episode.scene,
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
        sensor_type = frames.SENSOR_TYPES[entry.type_id]
        head = frames.header(sensor_type, episode.moment, episode.actors.motion(entry.id))
        for payload in entry.instrument.measure(sight):
            episode.place.outbox.publish(entry.stream_id, head + payload)
