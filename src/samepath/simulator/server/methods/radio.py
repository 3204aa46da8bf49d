"""Messages by radio; see ``server/radio.py``."""

from typing import Final

from samepath.simulator.carla.codec import CallError, text, u32
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.radio import CustomRadioSensor
from samepath.simulator.server.sensors import SensorEntry

TABLE: Final = Table()


@TABLE.void(u32, text)
def send(episode: Episode, actor_id: int, message: str) -> None:
    """Send a text from a ``sensor.other.v2x_custom`` in the next tick."""
    entry = episode.actors.get(actor_id, SensorEntry, "a sensor")
    if not isinstance(entry.model, CustomRadioSensor):
        raise CallError(f"actor {actor_id} is a {entry.type_id}: only sensor.other.v2x_custom sends messages")
    entry.model.send(message)
