"""Sensors that see, in an episode: cameras, those that see only changes among them, LiDARs, the radar.

Here they follow the world and say what is due, as an order; the pictures, scans and echoes are made in a studio, in this
process or elsewhere. Only spawning one imports the compiler that they need.
"""

from abc import ABC, abstractmethod
from typing import Any

from samepath.sim.sensors.cameras import CameraSensor
from samepath.sim.sensors.events import EventCamera
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, given
from samepath.sim.server.viewing.order import Order
from samepath.sim.server.viewing.studio import require
from samepath.sim.world.records import Pose, Vector

FLOW = "sensor.camera.optical_flow"


class Eye(ABC):
    """What all of them have: attributes that were checked, the number of ticks they felt, what they remember."""

    def __init__(self, description: Description, ordinal: int) -> None:
        require()
        self.check(description)
        self._type_id = description.id
        self._attributes = tuple((one.id, one.value) for one in description.attributes)
        self._ordinal = ordinal
        self._count = 0
        self._age_s: float | None = None
        self.memory = b""

    @abstractmethod
    def check(self, description: Description) -> None:
        """Refuse attributes that cannot be."""

    def feel(self, sight: Sight) -> None:
        """Follow a tick, whether or not anybody looks."""
        self._count += 1
        self._age_s = 0.0 if self._age_s is None else self._age_s + sight.delta_s

    def order(self, sight: Sight, stream_id: int, head: bytes) -> Order:
        """What is due after this tick."""
        return Order(
            sensor=sight.this.id,
            stream=stream_id,
            type_id=self._type_id,
            attributes=self._attributes,
            head=head,
            pose=sight.pose,
            was=self.was,
            ordinal=self._ordinal,
            count=self._count,
            age_s=self._age_s or 0.0,
            delta_s=sight.delta_s,
            own_mps=self.own_mps(sight),
            memory=self.memory,
        )

    @property
    def was(self) -> Pose | None:
        """Where it was a tick earlier, for those to whom it matters."""
        return None

    def own_mps(self, _: Sight) -> Vector:
        """How fast it moves, for those to whom it matters."""
        return Vector()

    def measure(self, sight: Sight) -> list[bytes]:
        """Nothing: it is measured elsewhere."""
        return []

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [self._count, self._age_s, self.memory]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._count, self._age_s, self.memory = data


class CameraEye(Eye):
    """A camera of any kind."""

    def __init__(self, description: Description, ordinal: int) -> None:
        super().__init__(description, ordinal)
        self._is_flow = description.id == FLOW
        self._pose: Pose | None = None
        self._was: Pose | None = None

    def check(self, description: Description) -> None:
        """Refuse images and lenses that cannot be."""
        CameraSensor.from_attributes(description.id, given(description))

    def feel(self, sight: Sight) -> None:
        """Follow where the camera was a tick earlier: flow is motion since then, whoever listens."""
        super().feel(sight)
        if self._is_flow:
            self._was, self._pose = self._pose, sight.pose
            sight.outlook.look()

    @property
    def was(self) -> Pose | None:
        """Where it was a tick earlier, if it sees motion."""
        return self._was

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [*super().state(), *(None if one is None else list(one) for one in (self._pose, self._was))]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        *base, pose, was = data
        super().restore(base)
        self._pose, self._was = (None if one is None else Pose(*one) for one in (pose, was))


class EventEye(Eye):
    """The event camera. It remembers its last picture, the one that somebody last listened to."""

    def check(self, description: Description) -> None:
        """Refuse images and thresholds that cannot be."""
        EventCamera.from_attributes(given(description))


class LidarEye(Eye):
    """A LiDAR, plain or semantic."""

    def check(self, description: Description) -> None:
        """Refuse channels and ranges that cannot be."""
        from samepath.sim.sensors.lidar import Lidar

        Lidar.from_attributes(given(description), semantic=description.id.endswith("_semantic"))


class RadarEye(Eye):
    """The radar."""

    def check(self, description: Description) -> None:
        """Refuse ranges that cannot be."""
        from samepath.sim.sensors.radar import Radar

        Radar.from_attributes(given(description))

    def own_mps(self, sight: Sight) -> Vector:
        """How fast what bears it moves at its place."""
        if sight.bearer is None:
            return Vector()
        return sight.world.velocity_at(sight.bearer, Vector(sight.pose.x_m, sight.pose.y_m, sight.pose.z_m))


SEEING = (CameraEye, EventEye, LidarEye, RadarEye)
