"""The LiDAR: lasers one above the other that turn and measure distances, with CARLA's attributes and payloads.

In a measurement of d seconds each of the ``channels`` lasers sends points_per_second d / channels rays, evenly over the angle
by which the scanner turns meanwhile, rotation_frequency horizontal_fov d. What comes back from r metres has the intensity
i = exp(-atmosphere_attenuation_rate r). Points get lost: any with the chance dropoff_general_rate, and those of an intensity
up to dropoff_intensity_limit with the chance dropoff_zero_intensity (1 - i / dropoff_intensity_limit). Noise of noise_stddev
metres moves points along their ray.

CARLA's LiDAR does not feel the weather, and ours only with ``weather_attenuation``, which CARLA does not have. The light then
goes through rain, fog or dust twice, so that the rate grows by two extinctions; and since what comes back falls with the square
of the distance, a scanner that just sees ``range`` metres through clear air sees r metres, r = range exp(-extinction r).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.core.trig import to_radians
from samepath.core.trig_arrays import sincos_deg
from samepath.simulator.sensors.rays.caster import Hits, RayCaster
from samepath.simulator.sensors.rays.kernels import (
    FAINTEST,
    LidarBeams,
    LidarLosses,
    RayBundle,
    exp_below_one,
    points_of,
    ray_grid,
)
from samepath.simulator.sensors.renderer import RenderScene
from samepath.simulator.sensors.sensor import (
    SEED,
    SENSOR_TICK,
    AttributeTable,
    FlagAttribute,
    GivenAttributes,
    NoiseKey,
    NumberAttribute,
    read_attributes,
)
from samepath.simulator.sensors.weather import extinction_per_m

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
RAYS_MOST: Final = 1 << 24
"""The most rays of one measurement: a gigabyte of memory."""
WEATHER: Final = "weather_attenuation"
_SCAN: Final[Mapping[str, NumberAttribute]] = MappingProxyType(
    {
        "channels": NumberAttribute(32, 1, 1024, whole=True),
        "range": NumberAttribute(10.0, 0.0, 10_000.0, "m", above=True),
        "points_per_second": NumberAttribute(56_000, 1, 1e9, whole=True),
        "rotation_frequency": NumberAttribute(10.0, 0.0, 10_000.0, "Hz"),
        "upper_fov": NumberAttribute(10.0, -90.0, 90.0, "degrees"),
        "lower_fov": NumberAttribute(-30.0, -90.0, 90.0, "degrees"),
        "horizontal_fov": NumberAttribute(360.0, 0.0, 360.0, "degrees", above=True),
        "sensor_tick": SENSOR_TICK,
    }
)
SEMANTIC_LIDAR: Final = _SCAN
LIDAR: Final[AttributeTable] = MappingProxyType(
    {
        **_SCAN,
        "atmosphere_attenuation_rate": NumberAttribute(0.004, 0.0, 1000.0, "1/m"),
        "dropoff_general_rate": NumberAttribute(0.45, 0.0, 1.0),
        "dropoff_intensity_limit": NumberAttribute(0.8, 0.0, 1.0),
        "dropoff_zero_intensity": NumberAttribute(0.4, 0.0, 1.0),
        "noise_stddev": NumberAttribute(0.0, 0.0, 1000.0, "m"),
        "noise_seed": SEED,
        WEATHER: FlagAttribute(default=False),
    }
)
POINT: Final = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4")])
SEMANTIC_POINT: Final = np.dtype(
    [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("cosine", "<f4"), ("object", "<u4"), ("label", "<u4")]
)
_NONE: Final = np.zeros((0, 0))
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
        return b"".join((head, self.counts.astype("<u4").tobytes(), self.points.view(np.uint8).data))


def reach_m(range_m: float, extinction: float) -> float:
    """How far a scanner sees that sees ``range_m`` through clear air: r = range exp(-extinction r), by halving."""
    if extinction <= 0.0:
        return range_m
    low_m, high_m = 0.0, range_m
    # As often as the range has bits: the result is the same on every machine, since the exponential is our own.
    for _ in range(60):
        middle_m = (low_m + high_m) / 2.0
        if middle_m < range_m * exp_below_one(max(-extinction * middle_m, FAINTEST)):
            low_m = middle_m
        else:
            high_m = middle_m
    return low_m


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
        self._kept: tuple[tuple[float, int, float], RayBundle, NDArray[np.int64], Pair] | None = None

    @classmethod
    def from_attributes(cls, given: GivenAttributes, *, semantic: bool = False, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        name = "sensor.lidar.ray_cast_semantic" if semantic else "sensor.lidar.ray_cast"
        return cls(read_attributes(name, given, SEMANTIC_LIDAR if semantic else LIDAR, strict=strict), name, semantic=semantic)

    def scan(
        self, caster: RayCaster, scene: RenderScene, pose: Pose, elapsed_s: float, interval_s: float, noise_key: NoiseKey
    ) -> LidarScan:
        """Measure: the scanner began to turn ``elapsed_s`` ago, and turns on for ``interval_s``.

        The seed of ``noise_key`` is replaced by the attribute ``noise_seed``.
        """
        return self.begin(caster, scene, pose, elapsed_s, interval_s, noise_key)()

    def begin(
        self, caster: RayCaster, scene: RenderScene, pose: Pose, elapsed_s: float, interval_s: float, noise_key: NoiseKey
    ) -> Callable[[], LidarScan]:
        """Begin to measure, as :meth:`scan` does; what comes back waits for the rays and returns the points."""
        start_deg, end_deg = self._stands_at_deg(elapsed_s), self._stands_at_deg(elapsed_s + interval_s)
        bundle, number, azimuth = self._rays(start_deg, self.columns(interval_s), interval_s)
        extinction = extinction_per_m(scene.weather) if self.values.get(WEATHER) else 0.0
        far_m, angle_rad = reach_m(self.values["range"], extinction), to_radians(end_deg)
        losses = partial(self._losses, number.shape, noise_key, extinction)
        beams = LidarBeams(number, self._elevation, azimuth, losses)
        if self.semantic:
            hits = caster.begin(scene, pose, bundle, far_m)
            return lambda: LidarScan(angle_rad, *_named(hits(), beams))
        landed = caster.begin_points(scene, pose, bundle, far_m, beams)

        def scan() -> LidarScan:
            points, counts = landed()
            return LidarScan(angle_rad, counts, points.view(POINT).reshape(-1))

        return scan

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

    def payload_bytes(self, interval_s: float) -> int:
        """How long a payload of this scanner is when every ray meets something."""
        channels = int(self.values["channels"])
        point = SEMANTIC_POINT if self.semantic else POINT
        return 8 + 4 * channels + self.columns(interval_s) * channels * point.itemsize

    def rest(self) -> None:
        """Let go of the rays, which are most of what it holds: they are worked out again when it next measures."""
        self._kept = None

    def _rays(self, start_deg: float, columns: int, interval_s: float) -> tuple[RayBundle, NDArray[np.int64], Pair]:
        key = (start_deg, columns, interval_s)
        if self._kept is None or self._kept[0] != key:
            fov_deg = self.values["horizontal_fov"]
            step_deg = self.values["rotation_frequency"] * fov_deg * interval_s / max(columns, 1)
            azimuth = sincos_deg((start_deg + step_deg * np.arange(columns, dtype=np.float64)) % fov_deg - fov_deg / 2.0)
            bundle, number = ray_grid(*self._elevation, *azimuth)
            self._kept = (key, bundle, number, azimuth)
        return self._kept[1:]

    def _losses(self, shape: tuple[int, ...], noise_key: NoiseKey, extinction: float) -> LidarLosses:
        """Noise for every ray, each kind from a stream of its own: switching one off leaves the others as they are."""
        if self.semantic:
            return LidarLosses(_NONE, _NONE, _NONE, 0.0, 0.0, 0.0, 0.0, 0.0)
        values = self.values
        attenuation, general = values["atmosphere_attenuation_rate"] + 2.0 * extinction, values["dropoff_general_rate"]
        limit, zero = values["dropoff_intensity_limit"], values["dropoff_zero_intensity"]
        own = NoiseKey(int(values["noise_seed"]), noise_key.sensor, noise_key.tick)
        by_rate = own.stream("lidar loss").random(shape) if general > 0.0 else _NONE
        by_intensity = own.stream("lidar faint").random(shape) if limit > 0.0 and zero > 0.0 else _NONE
        deviation = values["noise_stddev"]
        by_noise = own.stream("lidar noise").random((2, shape[0] * shape[1])) if deviation > 0.0 else _NONE
        return LidarLosses(by_rate, by_intensity, by_noise, attenuation, general, limit, zero, deviation)


def _named(hits: Hits, beams: LidarBeams) -> tuple[NDArray[np.uint32], NDArray[np.void]]:
    """The counts and points of a semantic LiDAR."""
    points, counts, rays = points_of(hits.distance_m, beams)
    named = np.empty(len(points), SEMANTIC_POINT)
    for column, name in enumerate("xyz"):
        named[name] = points[:, column]
    named["cosine"], named["label"] = hits.cosine[rays], hits.label[rays]
    named["object"] = hits.actor[rays].view(np.uint32)
    return counts, named
