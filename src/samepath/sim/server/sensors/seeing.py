"""Sensors that see, on the wire: cameras, LiDARs, the radar.

Only spawning one imports the compiler that they need.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from samepath.sim.sensors.cameras import CameraSensor
from samepath.sim.sensors.noise import Chance
from samepath.sim.sensors.schedule import interval_s
from samepath.sim.server.outlook import require
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, given
from samepath.sim.world.records import Pose, Vector

if TYPE_CHECKING:
    from samepath.sim.sensors.renderer import Camera

FLOW = "sensor.camera.optical_flow"
COLOUR = "sensor.camera.rgb"


class CameraEye:
    """A camera of any kind."""

    def __init__(self, description: Description, ordinal: int) -> None:
        require()
        self._sensor = CameraSensor.from_attributes(description.id, given(description))
        self._is_flow = description.id == FLOW
        self._is_colour = description.id == COLOUR
        self._pose: Pose | None = None
        self._was: Pose | None = None

    def feel(self, sight: Sight) -> None:
        """Follow where the camera was a tick earlier: flow is motion since then, whoever listens."""
        if self._is_flow:
            self._was, self._pose = self._pose, sight.pose
            sight.outlook.scene()

    def announce(self, sight: Sight) -> None:
        """Say what will be looked at in this tick."""
        sight.outlook.want(self._camera(sight))

    def measure(self, sight: Sight) -> list[bytes]:
        """One picture."""
        frame = sight.outlook.frame(self._camera(sight))
        shapes = sight.outlook.debug_shapes if self._is_colour else ()
        if shapes:
            from samepath.sim.server.debug_drawing import painted

            frame = replace(frame, bgra=painted(frame, shapes))
        return [self._sensor.payload(frame)]

    def _camera(self, sight: Sight) -> "Camera":
        camera = self._sensor.at(sight.pose, self._was)
        if self._is_colour and sight.outlook.debug_shapes:
            from samepath.sim.sensors.renderer import Channel

            return replace(camera, channels=camera.channels | Channel.DEPTH)
        return camera


class LidarEye:
    """A LiDAR, plain or semantic."""

    def __init__(self, description: Description, ordinal: int) -> None:
        require()
        from samepath.sim.sensors.lidar import Lidar

        self._lidar = Lidar.from_attributes(given(description), semantic=description.id.endswith("_semantic"))
        self._ordinal = ordinal
        self._count = 0
        self._age_s: float | None = None

    def feel(self, sight: Sight) -> None:
        """Turn, whether or not anybody looks."""
        self._count += 1
        self._age_s = 0.0 if self._age_s is None else self._age_s + sight.delta_s

    def measure(self, sight: Sight) -> list[bytes]:
        """One scan."""
        lasts_s = interval_s(self._lidar.values["sensor_tick"], sight.delta_s)
        chance = Chance(sensor=self._ordinal, tick=self._count)
        outlook = sight.outlook
        scan = self._lidar.scan(outlook.tools.caster, outlook.scene(), sight.pose, self._age_s or 0.0, lasts_s, chance)
        return [scan.to_bytes()]


class RadarEye:
    """The radar."""

    def __init__(self, description: Description, ordinal: int) -> None:
        require()
        from samepath.sim.sensors.radar import Radar

        self._radar = Radar.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0

    def feel(self, sight: Sight) -> None:
        """Count the ticks, which name the noise."""
        self._count += 1

    def measure(self, sight: Sight) -> list[bytes]:
        """What it detects in a tick."""
        world, pose, outlook = sight.world, sight.pose, sight.outlook
        own = Vector() if sight.bearer is None else world.velocity_at(sight.bearer, Vector(pose.x_m, pose.y_m, pose.z_m))
        others = {number: state.velocity_mps for number, state in world.states().items()}
        lasts_s = interval_s(self._radar.values["sensor_tick"], sight.delta_s)
        chance = Chance(sensor=self._ordinal, tick=self._count)
        found = self._radar.detect(outlook.tools.caster, outlook.scene(), pose, own, others, lasts_s, chance)
        return [found.tobytes()]


SEEING = (CameraEye, LidarEye, RadarEye)
