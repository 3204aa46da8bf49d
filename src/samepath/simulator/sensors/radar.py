"""The radar: rays at random inside an elliptic cone; distance, direction and speed of what they meet.

In a measurement of d seconds points_per_second d rays go out. Each goes to a point of the ellipse that spans
``horizontal_fov`` by ``vertical_fov``, at a random angle and a random share of the radius, so that they lie denser in the
middle. The velocity is the rate at which the distance grows, as in CARLA: negative for what comes nearer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.core.states import Pose, Vector
from samepath.core.trig import atan2, sincos_deg
from samepath.core.trig_arrays import sincos_deg as sincos_of
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.rays.caster import Hits, RayCaster
from samepath.simulator.sensors.rays.kernels import ray_list
from samepath.simulator.sensors.renderer import RenderScene
from samepath.simulator.sensors.sensor import SEED, SENSOR_TICK, GivenAttributes, NoiseKey, NumberAttribute, read_attributes

NAME: Final = "sensor.other.radar"
RAYS_MOST: Final = 1 << 16
RADAR: Final[Mapping[str, NumberAttribute]] = MappingProxyType(
    {
        "horizontal_fov": NumberAttribute(30.0, 0.0, 175.0, "degrees", above=True),
        "vertical_fov": NumberAttribute(30.0, 0.0, 175.0, "degrees", above=True),
        "range": NumberAttribute(100.0, 0.0, 10_000.0, "m", above=True),
        "points_per_second": NumberAttribute(1500, 1, 1e9, whole=True),
        "noise_seed": SEED,
        "sensor_tick": SENSOR_TICK,
    }
)
DETECTION: Final = np.dtype([("velocity", "<f4"), ("azimuth", "<f4"), ("altitude", "<f4"), ("depth", "<f4")])


@dataclass(frozen=True, slots=True)
class Radar:
    """A radar with CARLA's attributes."""

    values: Mapping[str, float]

    @classmethod
    def from_attributes(cls, given: GivenAttributes, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read_attributes(NAME, given, RADAR, strict=strict))

    def begin(
        self,
        caster: RayCaster,
        scene: RenderScene,
        pose: Pose,
        velocity_mps: Vector,
        velocities_mps: Mapping[int, Vector],
        interval_s: float,
        noise_key: NoiseKey,
    ) -> Callable[[], NDArray[np.void]]:
        """Begin to measure; what comes back waits for the rays and returns ``DETECTION`` after ``DETECTION``, in their order.

        ``velocity_mps`` is the radar's own, ``velocities_mps`` those of actors by id, all in the world's frame.
        """
        angles = self._rays(interval_s, noise_key)
        bundle, number = ray_list(*angles)
        landed = caster.begin(scene, pose, bundle, self.values["range"])
        return lambda: self._detections(landed(), angles, number, pose, velocity_mps, velocities_mps)

    @staticmethod
    def _detections(
        hits: Hits,
        angles: tuple[NDArray[np.float64], ...],
        number: NDArray[np.int64],
        pose: Pose,
        velocity_mps: Vector,
        velocities_mps: Mapping[int, Vector],
    ) -> NDArray[np.void]:
        sin_e, cos_e, sin_a, cos_a = angles
        depth_m, actor = hits.distance_m[number], hits.actor[number]
        found = np.flatnonzero(np.isfinite(depth_m))
        detections = np.empty(len(found), DETECTION)
        axes = axes_of(quaternion_of(pose))
        for row, ray in enumerate(found.tolist()):
            local = (cos_e[ray] * cos_a[ray], cos_e[ray] * sin_a[ray], sin_e[ray])
            ahead = [sum(part * axis[k] for part, axis in zip(local, axes, strict=True)) for k in range(3)]
            other = velocities_mps.get(int(actor[ray]), Vector())
            growing_mps = sum((a - b) * c for a, b, c in zip(other, velocity_mps, ahead, strict=True))
            towards = atan2(sin_a[ray], cos_a[ray]), atan2(sin_e[ray], cos_e[ray])
            detections[row] = (growing_mps, *towards, depth_m[ray])
        return detections

    def count(self, interval_s: float) -> int:
        """How many rays go out in a measurement."""
        count = int(self.values["points_per_second"] * interval_s + 1e-6)
        if count > RAYS_MOST:
            raise InputError(
                f"{NAME}: points_per_second: at most {RAYS_MOST} rays in a measurement were wanted, "
                f"but {self.values['points_per_second']:.10g} a second make {count} in {interval_s:g} s"
            )
        return count

    def payload_bytes(self, interval_s: float) -> int:
        """How long a payload of this radar is when every ray meets something."""
        return self.count(interval_s) * DETECTION.itemsize

    def _rays(self, interval_s: float, noise_key: NoiseKey) -> tuple[NDArray[np.float64], ...]:
        """Sines and cosines of elevation and azimuth of every ray."""
        count = self.count(interval_s)
        generator = NoiseKey(int(self.values["noise_seed"]), noise_key.sensor, noise_key.tick).stream("radar")
        radius, turn = generator.random(count), generator.random(count)
        sine, cosine = sincos_of(360.0 * turn)
        right = _tangent(self.values["horizontal_fov"] / 2.0) * radius * cosine
        up = _tangent(self.values["vertical_fov"] / 2.0) * radius * sine
        ground = np.sqrt(1.0 + right * right)
        length = np.sqrt(1.0 + right * right + up * up)
        return up / length, ground / length, right / ground, 1.0 / ground


def _tangent(angle_deg: float) -> float:
    sine, cosine = sincos_deg(angle_deg)
    return sine / cosine
