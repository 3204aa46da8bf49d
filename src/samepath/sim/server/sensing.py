"""Sensors in an episode: when a measurement is due, and where it goes."""

from dataclasses import dataclass, field

from samepath.base.errors import SamepathError
from samepath.sim.sensors.schedule import is_due
from samepath.sim.server import frames
from samepath.sim.server.actors import Entry
from samepath.sim.server.episode import Episode
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Instrument, Sight, Silent
from samepath.sim.server.sensors.seeing import Eye
from samepath.sim.server.viewing.order import Order
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
    orders: list[Order] = []
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
        head = frames.header(frames.SENSOR_TYPES[entry.type_id], episode.moment, episode.actors.motion(entry.id))
        if isinstance(entry.instrument, Eye):
            orders.append(entry.instrument.order(sight, entry.stream_id, head))
            continue
        for payload in _measured(episode, entry, sight):
            episode.place.outbox.publish(entry.stream_id, head + payload)
    _look(episode, orders)


def _look(episode: Episode, orders: list[Order]) -> None:
    """Have made what is due of sensors that see."""
    if orders:
        episode.outlook.look()
    elif not episode.place.workshop.wants_every_tick:
        return
    by_sensor = {one.sensor: one for one in orders}
    for made in episode.place.workshop.work(episode.outlook.view(), orders):
        order, entry = by_sensor[made.sensor], episode.actors.get(made.sensor, SensorEntry, "a sensor")
        if isinstance(entry.instrument, Eye):
            entry.instrument.memory = made.memory
        if made.trouble:
            _be_silent(episode, entry, made.trouble)
        elif made.payload:
            episode.place.outbox.publish(order.stream, order.head + made.payload)


def _measured(episode: Episode, entry: SensorEntry, sight: Sight) -> list[bytes]:
    """What a sensor measured; one that cannot, such as a receiver beyond the map, is silent, and the log says so once."""
    try:
        return entry.instrument.measure(sight)
    except SamepathError as error:
        _be_silent(episode, entry, str(error))
        return []


def _be_silent(episode: Episode, entry: SensorEntry, why: str) -> None:
    if not entry.is_lost:
        episode.place.log(f"sensor {entry.id} is silent: {why}")
    entry.is_lost = True
