"""The kinds of sensors a rig may carry, by CARLA's names, and how each is built from its attributes."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from samepath.sim.sensors.attributes import Given
from samepath.sim.sensors.cameras import KINDS as CAMERAS
from samepath.sim.sensors.cameras import CameraSensor
from samepath.sim.sensors.events import KIND as EVENTS
from samepath.sim.sensors.events import EventCamera
from samepath.sim.sensors.gnss import Gnss
from samepath.sim.sensors.imu import Imu
from samepath.sim.sensors.lidar import Lidar
from samepath.sim.sensors.obstacle import ObstacleSensor
from samepath.sim.sensors.radar import Radar

Instrument = CameraSensor | EventCamera | Lidar | Radar | Imu | Gnss | ObstacleSensor
KINDS: Final[Mapping[str, Callable[[Given], Instrument]]] = MappingProxyType(
    {
        **{kind: partial(CameraSensor.from_attributes, kind, strict=True) for kind in CAMERAS},
        EVENTS: partial(EventCamera.from_attributes, strict=True),
        "sensor.lidar.ray_cast": partial(Lidar.from_attributes, strict=True),
        "sensor.lidar.ray_cast_semantic": partial(Lidar.from_attributes, semantic=True, strict=True),
        "sensor.other.gnss": partial(Gnss.from_attributes, strict=True),
        "sensor.other.imu": partial(Imu.from_attributes, strict=True),
        "sensor.other.obstacle": partial(ObstacleSensor.from_attributes, strict=True),
        "sensor.other.radar": partial(Radar.from_attributes, strict=True),
    }
)
