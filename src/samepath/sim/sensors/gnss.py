"""The satellite receiver: where the sensor is on the globe, as CARLA 0.9.16's client works it out from the map. Pure.

The client reads ``+lat_0`` and ``+lon_0`` of the map's georeference (42 and 2 where they are missing) and inverts a spherical
transverse Mercator projection with scale 0.9996 about that point; y counts northwards. A receiver that did better would
disagree with ``carla.Map.transform_to_geolocation``. Angles come from :mod:`samepath.base.trig`: no bit depends on the machine.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np

from samepath.base.errors import InputError
from samepath.base.trig import atan2, cos, sin, to_degrees, to_radians
from samepath.sim.sensors.attributes import SEED, SENSOR_TICK, Attribute, Given, read
from samepath.sim.sensors.noise import Chance, normals

NAME: Final = "sensor.other.gnss"
_EARTH_RADIUS_M: Final = 6378137.0
_SCALE: Final = 0.9996
_FARTHEST_M: Final = 1e6
_AXES: Final = ("lat", "lon", "alt")
_UNITS: Final = ("degrees", "degrees", "m")
GNSS: Final[Mapping[str, Attribute]] = MappingProxyType(
    {
        **{f"noise_{axis}_stddev": Attribute(0.0, 0.0, 1e6, unit) for axis, unit in zip(_AXES, _UNITS, strict=True)},
        **{f"noise_{axis}_bias": Attribute(0.0, -1e6, 1e6, unit) for axis, unit in zip(_AXES, _UNITS, strict=True)},
        "noise_seed": SEED,
        "sensor_tick": SENSOR_TICK,
    }
)


class Origin(NamedTuple):
    """Where the map's origin lies on the globe."""

    latitude_deg: float = 42.0
    longitude_deg: float = 2.0


class GnssReading(NamedTuple):
    """One measurement."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float

    def to_bytes(self) -> bytes:
        """Three float64 numbers, for files and digests; the wire has its own form."""
        return np.array(self, "<f8").tobytes()


@dataclass(frozen=True, slots=True)
class Gnss:
    """A satellite receiver with CARLA's attributes."""

    values: Mapping[str, float]

    @classmethod
    def from_attributes(cls, given: Given, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read(NAME, given, GNSS, strict=strict))

    def measure(self, origin: Origin, x_m: float, y_m: float, z_m: float, chance: Chance) -> GnssReading:
        """Measure at a point of the map."""
        values, noise = self.values, [0.0, 0.0, 0.0]
        if any(values[f"noise_{axis}_stddev"] for axis in _AXES):
            noise = normals(Chance(int(values["noise_seed"]), chance.sensor, chance.tick).stream("gnss"), 3).tolist()
        exact = to_globe(origin, x_m, y_m, z_m)
        return GnssReading(
            *(
                one + values[f"noise_{axis}_stddev"] * error + values[f"noise_{axis}_bias"]
                for one, axis, error in zip(exact, _AXES, noise, strict=True)
            )
        )


def origin_of(georeference: str) -> Origin:
    """Read the origin from a projection string."""
    found: dict[str, float] = {}
    for part in georeference.split(" "):
        key, _, value = part.strip().partition("=")
        if key in ("+lat_0", "+lon_0"):
            try:
                found[key] = float(value)
            except ValueError:
                return Origin()
    return Origin(found["+lat_0"], found["+lon_0"]) if len(found) == 2 else Origin()


def to_globe(origin: Origin, x_m: float, y_m: float, z_m: float) -> GnssReading:
    """Return latitude and longitude in degrees, and the altitude in metres, of a point of the map."""
    if not (abs(x_m) <= _FARTHEST_M and abs(y_m) <= _FARTHEST_M):
        raise InputError(f"a point within {_FARTHEST_M:g} m of the map's origin was wanted, but ({x_m:g}, {y_m:g}) came")
    east = x_m / (_SCALE * _EARTH_RADIUS_M)
    north_rad = y_m / (_SCALE * _EARTH_RADIUS_M) + to_radians(origin.latitude_deg)
    sinh, cosh = _hyperbolic(east)
    sine = sin(north_rad) / cosh
    latitude_rad = atan2(sine, math.sqrt(max(1.0 - sine * sine, 0.0)))
    turn_rad = atan2(sinh, cos(north_rad))
    return GnssReading(to_degrees(latitude_rad), to_degrees(to_radians(origin.longitude_deg) + turn_rad), z_m)


def _hyperbolic(x: float) -> tuple[float, float]:
    """Hyperbolic sine and cosine by their series; below 0.2 the first term left out is below 1e-17 of the sum."""
    square = x * x
    sinh = x * (
        1.0 + square / 6.0 * (1.0 + square / 20.0 * (1.0 + square / 42.0 * (1.0 + square / 72.0 * (1.0 + square / 110.0))))
    )
    cosh = 1.0 + square / 2.0 * (1.0 + square / 12.0 * (1.0 + square / 30.0 * (1.0 + square / 56.0 * (1.0 + square / 90.0))))
    return sinh, cosh
