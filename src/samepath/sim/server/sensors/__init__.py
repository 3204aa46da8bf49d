"""Sensors: what happens to a vehicle, where it is and how it moves, and what there is to see.

``instrument(description, ordinal)`` builds one from its blueprint's attributes. Chance comes from streams named by the
sensor's ``noise_seed``, its ordinal in the episode and the number of the measurement: no other sensor moves it.
"""

from collections.abc import Callable
from typing import Final

from samepath.sim.sensors.cameras import KINDS as CAMERAS
from samepath.sim.sensors.events import KIND as EVENTS
from samepath.sim.server.errors import NOT_SUPPORTED, CallError
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.collision import CollisionSensor
from samepath.sim.server.sensors.gnss import GnssSensor
from samepath.sim.server.sensors.imu import ImuSensor
from samepath.sim.server.sensors.instrument import Instrument, Silent
from samepath.sim.server.sensors.obstacle import ObstacleSensor
from samepath.sim.server.sensors.seeing import CameraEye, EventEye, LidarEye, RadarEye

__all__ = ["INSTRUMENTS", "Instrument", "instrument"]

INSTRUMENTS: Final[dict[str, Callable[[Description, int], Instrument]]] = {
    **dict.fromkeys(CAMERAS, CameraEye),
    EVENTS: EventEye,
    "sensor.lidar.ray_cast": LidarEye,
    "sensor.lidar.ray_cast_semantic": LidarEye,
    "sensor.other.collision": CollisionSensor,
    "sensor.other.gnss": GnssSensor,
    "sensor.other.imu": ImuSensor,
    "sensor.other.lane_invasion": Silent,  # the client works it out by itself
    "sensor.other.obstacle": ObstacleSensor,
    "sensor.other.radar": RadarEye,
}


def instrument(description: Description, ordinal: int) -> Instrument:
    """Build what measures for a sensor."""
    build = INSTRUMENTS.get(description.id)
    if build is None:
        raise CallError(f"{NOT_SUPPORTED}: {description.id}; there are: {', '.join(INSTRUMENTS)}")
    return build(description, ordinal)
