"""The LiDAR: lasers one above the other that turn and measure distances, with CARLA's attributes and payloads.

In a measurement of d seconds each of the ``channels`` lasers sends points_per_second d / channels rays, evenly over the angle
by which the scanner turns meanwhile, rotation_frequency horizontal_fov d. What comes back from r metres has the intensity
i = exp(-atmosphere_attenuation_rate r). Points get lost: any with the chance dropoff_general_rate, and those of an intensity
up to dropoff_intensity_limit with the chance dropoff_zero_intensity (1 - i / dropoff_intensity_limit). Noise of noise_stddev
metres moves points along their ray.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.base.trig import to_radians
from samepath.base.trig_arrays import exp, sincos_deg
from samepath.sim.sensors.attributes import SEED, SENSOR_TICK, Attribute, Given, read
from samepath.sim.sensors.noise import Chance, normals
from samepath.sim.sensors.rays.bundle import Bundle, fan
from samepath.sim.sensors.rays.caster import RayCaster
from samepath.sim.sensors.scene import Scene
from samepath.sim.world.records import Pose

RAYS_MOST: Final = 1 << 24
"""The most rays of one measurement: a gigabyte of memory."""
_SCAN: Final[Mapping[str, Attribute]] = MappingProxyType(
    {
        "channels": Attribute(32, 1, 1024, whole=True),
        "range": Attribute(10.0, 0.0, 10_000.0, "m", above=True),
        "points_per_second": Attribute(56_000, 1, 1e9, whole=True),
        "rotation_frequency": Attribute(10.0, 0.0, 10_000.0, "Hz"),
        "upper_fov": Attribute(10.0, -90.0, 90.0, "degrees"),
        "lower_fov": Attribute(-30.0, -90.0, 90.0, "degrees"),
        "horizontal_fov": Attribute(360.0, 0.0, 360.0, "degrees", above=True),
        "sensor_tick": SENSOR_TICK,
    }
)
SEMANTIC_LIDAR: Final = _SCAN
LIDAR: Final[Mapping[str, Attribute]] = MappingProxyType(
    {
        **_SCAN,
        "atmosphere_attenuation_rate": Attribute(0.004, 0.0, 1000.0, "1/m"),
        "dropoff_general_rate": Attribute(0.45, 0.0, 1.0),
        "dropoff_intensity_limit": Attribute(0.8, 0.0, 1.0),
        "dropoff_zero_intensity": Attribute(0.4, 0.0, 1.0),
        "noise_stddev": Attribute(0.0, 0.0, 1000.0, "m"),
        "noise_seed": SEED,
    }
)
POINT: Final = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4")])
SEMANTIC_POINT: Final = np.dtype(
    [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("cosine", "<f4"), ("object", "<u4"), ("label", "<u4")]
)
# The least intensity is e to this: what comes back from farther is as good as nothing.
_FAINTEST: Final = -700.0
# Of a turn.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class LidarScan:
    """One measurement: points in the sensor's frame, channel after channel from the upper one down; ``counts`` of each.

    ``points`` is an array of ``POINT`` or ``SEMANTIC_POINT``; ``horizontal_angle_rad`` is where the scanner stands afterwards.
    """

    horizontal_angle_rad: float
    counts: NDArray[np.uint32]
    points: NDArray[np.void]

    def to_bytes(self) -> bytes:
        """CARLA's payload: angle, number of channels, points per channel, points."""
        head = np.float32(self.horizontal_angle_rad).tobytes() + np.uint32(len(self.counts)).tobytes()
        return head + self.counts.astype("<u4").tobytes() + self.points.tobytes()


@dataclass(frozen=True, eq=False, slots=True)
class _Sweep:
    """Rays of one measurement by channel and column, what they met, and the unit vectors they went along."""

    distance_m: NDArray[np.float64]
    directions: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    label: NDArray[np.uint8]
    actor: NDArray[np.int32]
    cosine: NDArray[np.float64]


class Lidar:
    """A LiDAR. It keeps the rays of its last measurement, which most scanners send again, but nothing of what it saw."""

    def __init__(self, values: Mapping[str, float], name: str, *, semantic: bool) -> None:
        if values["upper_fov"] < values["lower_fov"]:
            low, high = values["lower_fov"], values["upper_fov"]
            raise InputError(f"{name}: upper_fov: at least lower_fov, {low:g} degrees, was wanted, but {high:g} came")
        self.values = values
        self.semantic = semantic
        self._name = name
        channels = int(values["channels"])
        step_deg = (values["upper_fov"] - values["lower_fov"]) / (channels - 1) if channels > 1 else 0.0
        self._elevation = sincos_deg(values["upper_fov"] - step_deg * np.arange(channels, dtype=np.float64))
        self._kept: (
            tuple[tuple[float, int, float], Bundle, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]] | None
        ) = None

    @classmethod
    def from_attributes(cls, given: Given, *, semantic: bool = False, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        name = "sensor.lidar.ray_cast_semantic" if semantic else "sensor.lidar.ray_cast"
        return cls(read(name, given, SEMANTIC_LIDAR if semantic else LIDAR, strict=strict), name, semantic=semantic)

    def scan(
        self, caster: RayCaster, scene: Scene, pose: Pose, elapsed_s: float, interval_s: float, chance: Chance
    ) -> LidarScan:
        """Measure: the scanner began to turn ``elapsed_s`` ago, and turns on for ``interval_s``.

        ``chance`` is the noise's; its seed is replaced by the attribute ``noise_seed``.
        """
        start_deg, end_deg = self._stands_at_deg(elapsed_s), self._stands_at_deg(elapsed_s + interval_s)
        sweep = self._sweep(caster, scene, pose, start_deg, interval_s)
        hit = np.isfinite(sweep.distance_m)
        if self.semantic:
            return self._semantic(sweep, hit, to_radians(end_deg))
        return self._noisy(sweep, hit, to_radians(end_deg), chance)

    def _stands_at_deg(self, elapsed_s: float) -> float:
        """Where the scanner stands; a turn that is whole but for rounding is whole."""
        turns = self.values["rotation_frequency"] * elapsed_s
        return max(turns - math.floor(turns + _ROUNDING), 0.0) * self.values["horizontal_fov"]

    def columns(self, interval_s: float) -> int:
        """How many rays each laser sends in a measurement; halves are rounded up, as CARLA does in single precision."""
        values = self.values
        exact = np.float32(values["points_per_second"]) * np.float32(interval_s) / np.float32(values["channels"])
        columns = int(np.floor(exact + np.float32(0.5)))
        if not columns * values["channels"] <= RAYS_MOST:
            raise InputError(
                f"{self._name}: points_per_second: at most {RAYS_MOST} rays in a measurement were wanted, "
                f"but {values['points_per_second']:.10g} a second make {columns * int(values['channels'])} in {interval_s:g} s"
            )
        return columns

    def _sweep(self, caster: RayCaster, scene: Scene, pose: Pose, start_deg: float, interval_s: float) -> _Sweep:
        bundle, number, sine, cosine = self._rays(start_deg, self.columns(interval_s), interval_s)
        hits = caster.cast(scene, pose, bundle, self.values["range"], details=self.semantic)
        sin_e, cos_e = self._elevation
        directions = (cos_e[:, None] * cosine[None], cos_e[:, None] * sine[None], np.broadcast_to(sin_e[:, None], number.shape))
        return _Sweep(hits.distance_m[number], directions, hits.label[number], hits.actor[number], hits.cosine[number])

    def _rays(
        self, start_deg: float, columns: int, interval_s: float
    ) -> tuple[Bundle, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
        key = (start_deg, columns, interval_s)
        if self._kept is None or self._kept[0] != key:
            fov_deg = self.values["horizontal_fov"]
            step_deg = self.values["rotation_frequency"] * fov_deg * interval_s / max(columns, 1)
            sine, cosine = sincos_deg((start_deg + step_deg * np.arange(columns, dtype=np.float64)) % fov_deg - fov_deg / 2.0)
            sin_e, cos_e = self._elevation
            bundle, number = fan(sin_e, cos_e, sine, cosine)
            self._kept = (key, bundle, number, sine, cosine)
        return self._kept[1:]

    def _noisy(self, sweep: _Sweep, hit: NDArray[np.bool_], angle_rad: float, chance: Chance) -> LidarScan:
        values, shape = self.values, sweep.distance_m.shape
        distance_m = np.where(hit, sweep.distance_m, 0.0)
        intensity = exp(np.maximum(-values["atmosphere_attenuation_rate"] * distance_m, _FAINTEST))
        generator = Chance(int(values["noise_seed"]), chance.sensor, chance.tick).stream("lidar")
        # All are drawn, needed or not: turning one kind of noise off leaves the others as they are.
        general, faint = generator.random(shape), generator.random(shape)
        hit &= general >= values["dropoff_general_rate"]
        limit, zero = values["dropoff_intensity_limit"], values["dropoff_zero_intensity"]
        if limit > 0.0 and zero > 0.0:
            hit &= (intensity > limit) | (faint >= zero * (1.0 - intensity / limit))
        if values["noise_stddev"] > 0.0:
            distance_m = distance_m + values["noise_stddev"] * normals(generator, distance_m.size).reshape(shape)
        points = np.empty(int(hit.sum()), POINT)
        _place(points, sweep, distance_m, hit)
        points["intensity"] = intensity[hit]
        return LidarScan(angle_rad, hit.sum(axis=1).astype(np.uint32), points)

    def _semantic(self, sweep: _Sweep, hit: NDArray[np.bool_], angle_rad: float) -> LidarScan:
        points = np.empty(int(hit.sum()), SEMANTIC_POINT)
        _place(points, sweep, np.where(hit, sweep.distance_m, 0.0), hit)
        points["cosine"], points["label"] = sweep.cosine[hit], sweep.label[hit]
        points["object"] = sweep.actor[hit].view(np.uint32)
        return LidarScan(angle_rad, hit.sum(axis=1).astype(np.uint32), points)


def _place(points: NDArray[np.void], sweep: _Sweep, distance_m: NDArray[np.float64], hit: NDArray[np.bool_]) -> None:
    for name, direction in zip("xyz", sweep.directions, strict=True):
        points[name] = (distance_m * direction)[hit]
