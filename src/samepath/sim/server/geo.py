"""From metres on the map to degrees on the globe, as CARLA 0.9.16's client does it.

The client reads ``+lat_0`` and ``+lon_0`` of the map's georeference (42 and 2 where they are missing) and inverts a spherical
transverse Mercator projection with scale 0.9996 about that point; y counts northwards. A receiver that did better would
disagree with ``carla.Map.transform_to_geolocation``.
"""

import math
from typing import Final, NamedTuple

_EARTH_RADIUS_M: Final = 6378137.0
_SCALE: Final = 0.9996


class Origin(NamedTuple):
    """Where the map's origin lies on the globe."""

    latitude_deg: float = 42.0
    longitude_deg: float = 2.0


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


def to_globe(origin: Origin, x_m: float, y_m: float, z_m: float) -> tuple[float, float, float]:
    """Return latitude and longitude in degrees, and the altitude in metres."""
    east = x_m / (_SCALE * _EARTH_RADIUS_M)
    north_rad = y_m / (_SCALE * _EARTH_RADIUS_M) + math.radians(origin.latitude_deg)
    latitude_rad = math.asin(math.sin(north_rad) / math.cosh(east))
    turn_rad = math.atan2(math.sinh(east), math.cos(north_rad))
    return math.degrees(latitude_rad), math.degrees(math.radians(origin.longitude_deg) + turn_rad), z_m
