"""Radio messages as CARLA's client reads them: C structs of 64-bit Linux, as they lie in memory.

``sensor.other.v2x`` sends cooperative awareness messages (ETSI EN 302 637-2) in the units of that standard, as many as were
heard in a tick one behind the other: a float of power, then ``CAM_t`` of ``LibITS.h``. That struct holds two C++ vectors (path
history, protected zones), whose pointers go over the wire as they are: ours are null, which is an empty vector.
``sensor.other.v2x_custom`` sends a header and 100 characters.
"""

import struct
from dataclasses import dataclass
from typing import Final

from samepath.core.states import Vector

PROTOCOL_VERSION: Final = 2
CAM_ID, CUSTOM_ID = 2, 0
TEXT_MAX_BYTES: Final = 99
STATION_TYPES: Final = {
    "walker": 1, "bicycle": 2, "motorcycle": 4, "car": 5, "van": 5, "bus": 6, "truck": 7,
}  # fmt: skip
UNKNOWN_STATION: Final = 0
ROADSIDE_STATION: Final = 15
# Words of the standard for «not known».
_AXIS, _ANGLE, _ALTITUDE, _LENGTH, _CURVATURE, _CURVATURE_TRUST = 4095, 3601, 15, 4, 30001, 7
_RATE, _RATE_TRUST, _SPEED, _ACCELERATION, _ACCELERATION_TRUST = 32767, 8, 16383, 161, 102
_VEHICLE_PRESENT: Final = 1
_ROADSIDE_PRESENT: Final = 2
_NO_VECTOR: Final = Vector()

_HEADER: Final = struct.Struct("<3q")
_BASIC: Final = struct.Struct("<q q 2q 3q 2q")
# Heading, speed, direction, length, width, longitudinal acceleration, curvature, mode, yaw rate; then what is optional, each
# behind a flag: pedals, lane, steering wheel, lateral and vertical acceleration, class, tolling zone.
_HIGH: Final = struct.Struct("<q 2q 2q q 2q q 2q 2q q 2q ?B?5x q ?7x 2q ?7x 2q ?7x 2q ?7x q ?7x 3q ?7x")
_ZONES: Final = struct.Struct("<q 3Q")
_LOW: Final = struct.Struct("<q q B7x q 3Q")
_POWER: Final = struct.Struct("<f4x")
CAM_BYTES: Final = _HEADER.size + _BASIC.size + _HIGH.size + _ZONES.size + _LOW.size
_CUSTOM: Final = struct.Struct("<3q 100s 4x")
CUSTOM_BYTES: Final = _CUSTOM.size
# On the air messages are packed more tightly than in memory; these are usual sizes with security headers.
CAM_AIR_BYTES: Final = 300
CUSTOM_AIR_BYTES: Final = 200


@dataclass(frozen=True)
class Awareness:
    """What a station says of itself. Angles in degrees, acceleration in its own frame: ahead, right, up."""

    station_id: int
    station_type: int
    generated_ms: int
    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    heading_deg: float = 0.0
    speed_mps: float = 0.0
    backwards: bool = False
    length_m: float = 0.0
    width_m: float = 0.0
    acceleration_mps2: Vector = _NO_VECTOR
    yaw_rate_degps: float = 0.0
    role: int = 0
    lights: int | None = None

    @property
    def is_vehicle(self) -> bool:
        """Does it have what the standard tells of vehicles? Pedestrians only say where they are."""
        return self.station_type not in (UNKNOWN_STATION, STATION_TYPES["walker"], ROADSIDE_STATION)


def _tenths(acceleration_mps2: float) -> int:
    value = round(acceleration_mps2 * 10.0)
    return value if -160 <= value < _ACCELERATION else _ACCELERATION


def awareness(said: Awareness) -> bytes:
    """``CAM_t``."""
    head = _HEADER.pack(PROTOCOL_VERSION, CAM_ID, said.station_id)
    place = round(said.latitude_deg * 1e6) * 10, round(said.longitude_deg * 1e6) * 10
    basic = _BASIC.pack(
        said.generated_ms % 65536, said.station_type, *place, _AXIS, _AXIS, _ANGLE, round(said.altitude_m * 100.0), _ALTITUDE
    )
    zones, low = bytes(_ZONES.size), bytes(_LOW.size)
    if not said.is_vehicle:
        # Of a station beside the road the container holds protected zones, which are none here.
        present = _ROADSIDE_PRESENT if said.station_type == ROADSIDE_STATION else 0
        return head + basic + present.to_bytes(_HIGH.size, "little") + zones + low
    speed = min(round(max(said.speed_mps, 0.0) * 100.0), _SPEED - 1)
    rate = round(said.yaw_rate_degps * 100.0)
    ahead, right, up = said.acceleration_mps2
    high = _HIGH.pack(
        _VEHICLE_PRESENT,
        round(said.heading_deg * 10.0) % 3600, 10,
        speed, 3,
        int(said.backwards),
        round(said.length_m * 10.0), _LENGTH,
        round(said.width_m * 10.0),
        _tenths(ahead), _ACCELERATION_TRUST,
        _CURVATURE, _CURVATURE_TRUST,
        0,
        rate if abs(rate) < _RATE else _RATE, _RATE_TRUST,
        False, 0, False, 0,
        False, 0, 0,
        True, _tenths(right), _ACCELERATION_TRUST,
        True, _tenths(up), _ACCELERATION_TRUST,
        False, 0,
        False, 0, 0, 0, False,
    )  # fmt: skip
    if said.lights is not None:
        low = _LOW.pack(1, said.role, said.lights, 0, 0, 0, 0)
    return head + basic + high + zones + low


def custom(station_id: int, text: str) -> bytes:
    """``CustomV2XM_t``; the text is at most 99 bytes of UTF-8, and ends with a zero."""
    return _CUSTOM.pack(PROTOCOL_VERSION, CUSTOM_ID, station_id, text.encode("utf-8"))


def heard(power_dbm: float, message: bytes) -> bytes:
    """A message as a sensor sends it to its listeners."""
    return _POWER.pack(power_dbm) + message


def light_bits(light_state: int) -> int:
    """CARLA's vehicle lights as the standard's exterior lights, whose first one is the highest bit."""
    bits = 0
    # CARLA: position 1, low beam 2, high beam 4, brake 8, right 16, left 32, reverse 64, fog 128.
    for carla, place in ((2, 0), (4, 1), (32, 2), (16, 3), (64, 5), (128, 6), (1, 7)):
        if light_state & carla:
            bits |= 1 << (7 - place)
    return bits
