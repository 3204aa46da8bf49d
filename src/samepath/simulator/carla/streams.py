"""What goes over the streams, byte by byte: a length, a header of 48 bytes, then the state of all actors or a measurement."""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.states import Vector
from samepath.simulator.carla.codec import finite, pack
from samepath.simulator.carla.records import Actor, VehicleControl, WalkerControl

# CARLA's registry of sensors, as the client 0.9.16 has it; a wrong index makes the client crash.
SENSOR_TYPES: Final = {
    "sensor.other.collision": 0,
    "sensor.camera.depth": 1,
    "sensor.camera.normals": 2,
    "sensor.camera.dvs": 3,
    "sensor.other.gnss": 4,
    "sensor.other.imu": 5,
    "sensor.other.lane_invasion": 6,
    "sensor.other.obstacle": 7,
    "sensor.camera.optical_flow": 8,
    "sensor.other.radar": 9,
    "sensor.lidar.ray_cast_semantic": 10,
    "sensor.lidar.ray_cast": 11,
    "sensor.other.rss": 12,
    "sensor.camera.rgb": 13,
    "sensor.camera.semantic_segmentation": 14,
    "sensor.camera.instance_segmentation": 15,
    "sensor.camera.cosmos_visualization": 16,
    "sensor.other.v2x": 20,
    "sensor.other.v2x_custom": 21,
}
WORLD_OBSERVER: Final = 17
# Of a picture in a G-buffer's stream, eight bits to a channel.
GBUFFER: Final = 18
# CARLA's ``GBufferTextureID``: SceneColor, SceneDepth, SceneStencil, GBufferA to GBufferF, Velocity, SSAO, CustomDepth,
# CustomStencil.
GBUFFERS_COUNT: Final = 13
# Numbers of streams and actors below this; above are the streams of G-buffers.
GBUFFERS_BIT: Final = 26
WORLD_STREAM: Final = 1
MAP_CHANGED, LIGHTS_CHANGED = 1, 2
ACTIVE: Final = 1

_HEADER: Final = struct.Struct("<QQd6f")
_EPISODE: Final = struct.Struct("<QdfiiiI")
_LENGTH: Final = struct.Struct("<I")
_UNION: Final = 65
_VEHICLE: Final = struct.Struct("<fff???i")
_WALKER: Final = struct.Struct("<fff f?")
_NO_TRANSFORM: Final = (0.0,) * 6

# One actor. The last 54 bytes mean something else for each kind of actor: the fields lie over one another.
ACTOR_STATE: Final = np.dtype(
    {
        "names": [
            "id", "state", "motion", "gear", "speed_limit", "light_state", "at_light", "light_id", "failure",
            "sign_id", "green_s", "yellow_s", "red_s", "elapsed_s", "pole", "frozen", "colour", "union",
        ],
        "formats": [
            "<u4", "u1", ("<f4", 15), "<i4", "<f4", "u1", "u1", "<u4", "u1",
            "S32", "<f4", "<f4", "<f4", "<f4", "<u4", "u1", "u1", ("u1", 54),
        ],
        "offsets": [
            0, 4, 5, _UNION + 15, _UNION + 19, _UNION + 23, _UNION + 24, _UNION + 25, _UNION + 29,
            _UNION, _UNION + 32, _UNION + 36, _UNION + 40, _UNION + 44, _UNION + 48, _UNION + 52, _UNION + 53, _UNION,
        ],
        "itemsize": 119,
    }
)  # fmt: skip


class ActorStates:
    """The rows of all actors as one block of bytes; ``rows`` is the same memory seen by fields."""

    def __init__(self, count: int) -> None:
        self._bytes = np.zeros(count * ACTOR_STATE.itemsize, np.uint8)
        self._memory = memoryview(self._bytes.data)
        self.rows: NDArray[np.void] = self._bytes.view(ACTOR_STATE)

    def tobytes(self) -> bytes:
        """Return all rows as they are sent."""
        return self._bytes.tobytes()

    def put_vehicle_control(self, row: int, control: VehicleControl) -> None:
        """Write what drives a vehicle; its gear is the gearbox's and written apart."""
        _VEHICLE.pack_into(self._memory, row * ACTOR_STATE.itemsize + _UNION, *control)

    def put_walker_control(self, row: int, control: WalkerControl) -> None:
        """Write how a walker walks."""
        at = row * ACTOR_STATE.itemsize + _UNION
        _WALKER.pack_into(self._memory, at, *control.direction, control.speed, control.jump)


class FrameTime(NamedTuple):
    """When a message was made: the frame, and simulated seconds since the episode began."""

    frame: int
    elapsed_s: float


def as_sent(step_s: float) -> float:
    """A step as clients get it: ``delta_seconds`` has 32 bits on the wire, and 0.05 is a little more in them.

    CARLA's clocks (``UCarlaEpisode::TickTimers``, the recorder, the replayer) are 64-bit sums of such steps. Ours must be too:
    by rounding alone two steps of 0.05 s exactly are now more, now less than 0.1 s, so that how often a script acts which waits
    for 0.1 s to pass would depend on how long the server has been running.

    Such sums are exact, and so is the difference of any two of them: for a year at steps of 0.05 s, and for 18 hours even if
    some steps are as short as a tick may be, 0.1 ms. What must not depend on the server's age counts such differences.
    """
    return float(np.float32(step_s))


def length_of(payload: bytes, head: bytes = b"") -> bytes:
    """What stands before a message when it is sent."""
    return _LENGTH.pack(len(head) + len(payload))


def framed(payload: bytes, head: bytes = b"") -> bytes:
    """A message as it is sent: its length first. Where its head is apart, this is the only time that it is copied."""
    return b"".join((length_of(payload, head), head, payload))


def header(sensor_type: int, moment: FrameTime, transform: tuple[float, ...] = _NO_TRANSFORM) -> bytes:
    """The 48 bytes before every payload; the transform is x, y, z, pitch, yaw, roll."""
    return _HEADER.pack(sensor_type, moment.frame, moment.elapsed_s, *transform)


def episode_state(moment: FrameTime, episode_id: int, wall_s: float, delta_s: float, flags: int, states: ActorStates) -> bytes:
    """The state of all actors."""
    block = _EPISODE.pack(episode_id, wall_s, delta_s, 0, 0, 0, flags)
    return header(WORLD_OBSERVER, moment) + block + states.tobytes()


def ids_in(state: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    """Whom a state of all actors tells of, in its order."""
    rows: NDArray[np.void] = np.frombuffer(state, ACTOR_STATE, offset=_HEADER.size + _EPISODE.size)
    ids: np.ndarray[tuple[int], np.dtype[np.uint32]] = rows["id"]
    return ids


def gbuffer_number(number: int, gbuffer: int) -> int:
    """A camera's G-buffer by the number of the camera or of its stream: it follows from that, so that nothing need be kept."""
    return (gbuffer + 1) << GBUFFERS_BIT | number


def with_gbuffers(numbers: Iterable[int]) -> Iterator[int]:
    """Numbers of cameras, or of anything else, and of the G-buffers that go with them."""
    for number in numbers:
        yield number
        yield from (gbuffer_number(number, gbuffer) for gbuffer in range(GBUFFERS_COUNT))


def _checked(*values: float) -> None:
    if not finite(values):
        raise ValueError(f"a measurement of {values} is no measurement")


def collision(this: Actor, other: Actor, impulse_ns: Vector) -> bytes:
    """Payload of the collision sensor."""
    _checked(*impulse_ns)
    return pack((this, other, impulse_ns))


def obstacle(this: Actor, other: Actor, distance_m: float) -> bytes:
    """Payload of the obstacle sensor."""
    _checked(distance_m)
    return pack((this, other, distance_m))


def gnss(latitude_deg: float, longitude_deg: float, altitude_m: float) -> bytes:
    """Payload of the satellite receiver."""
    _checked(latitude_deg, longitude_deg, altitude_m)
    return pack((latitude_deg, longitude_deg, altitude_m))


def imu(accelerometer_mps2: Vector, gyroscope_radps: Vector, compass_rad: float) -> bytes:
    """Payload of the inertial measurement unit."""
    _checked(*accelerometer_mps2, *gyroscope_radps, compass_rad)
    return pack((accelerometer_mps2, gyroscope_radps, compass_rad))
