"""Radio sensors of an episode: ``sensor.other.v2x`` and ``sensor.other.v2x_custom``.

In a tick every station first says what it has to say, then every station hears what arrives: two rounds over the sensors in
the order of their ids, so that nobody hears more or less for having been spawned earlier. What is under way when a tick ends
(a network profile delays messages) waits with its receiver, and is part of the receiver's state. Sensors of the two kinds do
not hear each other, as in CARLA, nor do two on the same actor.

A radio without a parent, or on a traffic light or a prop, is a station beside the road. It sends under the id of the actor that
bears it, or under its own id, and its antenna is where the sensor is.

When a station says something: EN 302 637-2 as CARLA has it. Not before ``gen_cam_min`` after the last message; then at once
after 4 degrees of heading, 4 m or 0.5 m/s of change, and at the latest after ``gen_cam_max``. Time stamps count from the start
of the episode, and not, as CARLA's, from when the server was started.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from samepath.core.catalogue import VehicleType, WalkerType
from samepath.core.errors import SamepathError
from samepath.core.states import Pose, Vector
from samepath.core.streams import stream
from samepath.core.trig import sincos_deg, wrap_deg
from samepath.simulator.carla import v2x
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.records import Description
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.inertial import acceleration_of, to_globe
from samepath.simulator.sensors.radio import CAM_NAME, CUSTOM_NAME, Link, Radio, link_between
from samepath.simulator.sensors.sensor import FlagAttribute, NumberAttribute, normals, read_attributes
from samepath.simulator.server.actors import VehicleEntry
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.sensors import SensorContext, SensorEntry, given, silence

# How far above its bearer's roof an antenna is, as in CARLA.
_ANTENNA_M: Final = 0.02
# One who stands nowhere near a million messages: what waits for a receiver is bounded, the oldest go first.
WAITING_MAX: Final = 10_000
_LOW_EVERY_S: Final = 0.5
_LOW_DYNAMICS: Final = 3
# How often a station beside the road sends an awareness message, as in CARLA.
_ROADSIDE_EVERY_S: Final = 0.5
# How far the ground under such a station is looked for, from above its antenna because that may lie on the ground.
_GROUND_ABOVE_M, _GROUND_REACH_M = 1.0, 1e3
_TURN_DEG, _WAY_M, _SPEED_MPS = 4.0, 4.0, 0.5
_NORTH_DEG: Final = 90.0
# Sums of steps: more than their rounding, less than any step.
_ROUNDING_S: Final = 1e-6
_AXES: Final = ("x", "y", "z")
AWARENESS: Final[Mapping[str, NumberAttribute | FlagAttribute]] = MappingProxyType(
    {
        "gen_cam_min": NumberAttribute(0.1, 0.0, 3600.0, "s"),
        "gen_cam_max": NumberAttribute(1.0, 0.0, 3600.0, "s"),
        "fixed_rate": FlagAttribute(default=False),
        **{f"noise_{quantity}_{kind}": NumberAttribute(0.0, -1e6 if kind == "bias" else 0.0, 1e6)
           for quantity in ("lat", "lon", "alt", "head", "yawrate") for kind in ("stddev", "bias")},
        **{f"noise_accel_stddev_{axis}": NumberAttribute(0.0, 0.0, 1e6, "m/s²") for axis in _AXES},
        "noise_vel_stddev_x": NumberAttribute(0.0, 0.0, 1e6, "m/s"),
        "noise_seed": NumberAttribute(0, -(2.0**53), 2.0**53, whole=True),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Station:
    """A radio sensor in a tick: its antenna, the ground under it, and the vehicle, walker or prop that bears it, if any.

    ``id`` is the sender's in messages: that of the sensor's parent, or of the sensor where it has none.
    """

    sensor: int
    ordinal: int
    antenna: Vector
    ground_m: float
    bearer: int | None
    id: int


@dataclass(frozen=True)
class Transmission:
    """A message on the air."""

    station: Station
    power_dbm: float
    message: bytes
    air_bytes: int


class RadioSensor(ABC):
    """What both kinds share: hearing."""

    name = CUSTOM_NAME

    def __init__(self, description: Description, ordinal: int) -> None:
        self.radio = Radio.from_attributes(self.name, given(description))
        self.ordinal = ordinal
        self._count = 0
        self._busy_s = 0.0
        self._heard: list[tuple[float, bytes]] = []
        self._waiting: list[tuple[float, float, bytes]] = []
        self._began_s: float | None = None

    @abstractmethod
    def say(self, episode: Episode, station: Station) -> Transmission | None:
        """What it sends in this tick."""

    def hear(self, now_s: float, on_air: list[tuple[Transmission, Link]]) -> None:
        """Take up what is on the air, and what was under way and is here now."""
        # Counted from the radio's first tick: how a time of the episode is rounded depends on the server's age, and with it
        # the order of messages that arrive together. The difference of two such times is exact.
        self._began_s = now_s if self._began_s is None else self._began_s
        now_s -= self._began_s
        self._count += 1
        for sent, link in on_air:
            normal, lost, late = self.radio.chance(self.ordinal, sent.station.ordinal, self._count)
            power_dbm = self.radio.received_dbm(sent.power_dbm, link, normal)
            if power_dbm is None:
                continue
            arrival_s, self._busy_s = self.radio.arrives_s(now_s, self._busy_s, sent.air_bytes, lost, late)
            if arrival_s is not None:
                self._waiting.append((arrival_s, power_dbm, sent.message))
        here = [arrival for arrival in self._waiting if arrival[0] <= now_s + _ROUNDING_S]
        self._waiting = [arrival for arrival in self._waiting if arrival[0] > now_s + _ROUNDING_S][-WAITING_MAX:]
        # By arrival; those that arrive together in the order of their senders' ids, in which they were taken up.
        self._heard = [(power_dbm, message) for _, power_dbm, message in sorted(here, key=lambda arrival: arrival[0])]

    def follow(self, context: SensorContext) -> None:  # noqa: B027 - no kind has more to do
        """Nothing: :func:`exchange` has done it, for all of them together."""

    def measure(self, _: SensorContext) -> list[bytes]:
        return [b"".join(v2x.heard(*message) for message in self._heard)] if self._heard else []

    def state(self) -> list[Any]:
        return [
            self._count,
            self._busy_s,
            [list(arrival) for arrival in self._waiting],
            [list(message) for message in self._heard],
            self._began_s,
        ]

    def restore(self, data: list[Any]) -> None:
        self._count, self._busy_s, waiting, heard, self._began_s = data
        self._waiting = [(float(a), float(b), bytes(c)) for a, b, c in waiting]
        self._heard = [(float(a), bytes(b)) for a, b in heard]


class CustomRadioSensor(RadioSensor):
    """Sends what its user has it send."""

    def __init__(self, description: Description, ordinal: int) -> None:
        super().__init__(description, ordinal)
        self._text: str | None = None

    def send(self, text: str) -> None:
        """Send a text in the next tick; of two in one tick the later counts, as in CARLA."""
        size = len(text.encode("utf-8"))
        if size > v2x.TEXT_MAX_BYTES or "\0" in text:
            raise CallError(f"send: at most {v2x.TEXT_MAX_BYTES} bytes of text without zeros were wanted, but {size} came")
        self._text = text

    def say(self, episode: Episode, station: Station) -> Transmission | None:
        if self._text is None:
            return None
        message, self._text = v2x.custom(station.id, self._text), None
        return Transmission(station, self.radio.transmit_dbm, message, v2x.CUSTOM_AIR_BYTES)

    def state(self) -> list[Any]:
        return [*super().state(), self._text]

    def restore(self, data: list[Any]) -> None:
        *base, self._text = data
        super().restore(base)


@dataclass(frozen=True)
class _LastSaid:
    """The last message: when, where, how fast, and how it was headed."""

    time_s: float
    x_m: float
    y_m: float
    z_m: float
    speed_mps: float
    yaw_deg: float


class AwarenessSensor(RadioSensor):
    """Says where its bearer is and how it moves, as often as the standard wants it."""

    name = CAM_NAME

    def __init__(self, description: Description, ordinal: int) -> None:
        super().__init__(description, ordinal)
        self._values = read_attributes(self.name, given(description), AWARENESS)
        self._last: _LastSaid | None = None
        self._every_s = self._values["gen_cam_max"]
        self._calm = 0
        self._low_s: float | None = None
        self._velocity: Vector | None = None
        self._said = 0

    def say(self, episode: Episode, station: Station) -> Transmission | None:
        bearer = station.bearer
        if bearer is None:
            return self._say_beside_the_road(episode, station)
        state, now_s = episode.world.state(bearer), episode.moment.elapsed_s
        acceleration = acceleration_of(self._velocity, state.velocity_mps, episode.delta_s)
        self._velocity = state.velocity_mps
        sine, cosine = sincos_deg(state.pose.yaw_deg)
        speed_mps = state.velocity_mps.x * cosine + state.velocity_mps.y * sine
        if not self._is_time(now_s, state.pose, speed_mps):
            return None
        pose = state.pose
        self._last = _LastSaid(now_s, pose.x_m, pose.y_m, pose.z_m, speed_mps, pose.yaw_deg)
        said = self._awareness(episode, bearer, pose, speed_mps, acceleration, state.angular_velocity_degps.z)
        return Transmission(station, self.radio.transmit_dbm, v2x.awareness(said), v2x.CAM_AIR_BYTES)

    def _say_beside_the_road(self, episode: Episode, station: Station) -> Transmission | None:
        now_s, place = episode.moment.elapsed_s, station.antenna
        if self._last is not None and now_s - self._last.time_s + _ROUNDING_S < _ROADSIDE_EVERY_S:
            return None
        self._last = _LastSaid(now_s, place.x, place.y, place.z, 0.0, 0.0)
        self._said += 1
        latitude_deg, longitude_deg, altitude_m = self._globe(episode, place, self._noise())
        said = v2x.Awareness(
            station_id=station.id,
            station_type=v2x.ROADSIDE_STATION,
            generated_ms=round(now_s * 1000.0),
            latitude_deg=latitude_deg,
            longitude_deg=longitude_deg,
            altitude_m=altitude_m,
        )
        return Transmission(station, self.radio.transmit_dbm, v2x.awareness(said), v2x.CAM_AIR_BYTES)

    def _noise(self) -> list[float]:
        """The draws of deviation 1 for one message."""
        return list(normals(stream(int(self._values["noise_seed"]), "cam", self.ordinal, self._said), 9).tolist())

    def _globe(self, episode: Episode, place: Vector, noise: list[float]) -> list[float]:
        """Latitude, longitude and altitude as the station measures them."""
        values = self._values
        return [
            value + values[f"noise_{name}_bias"] + values[f"noise_{name}_stddev"] * noise[number]
            for number, (name, value) in enumerate(
                zip(("lat", "lon", "alt"), to_globe(episode.map.origin, place.x, place.y, place.z), strict=True)
            )
        ]

    def _is_time(self, now_s: float, pose: Pose, speed_mps: float) -> bool:
        last = self._last
        if last is None:
            return True
        since_s = now_s - last.time_s + _ROUNDING_S
        if since_s < self._values["gen_cam_min"]:
            return False
        if self._values["fixed_rate"]:
            return True
        way_m = float(np.sqrt((pose.x_m - last.x_m) ** 2 + (pose.y_m - last.y_m) ** 2 + (pose.z_m - last.z_m) ** 2))
        turned_deg = abs(wrap_deg(pose.yaw_deg - last.yaw_deg))
        if turned_deg > _TURN_DEG or way_m > _WAY_M or abs(speed_mps - last.speed_mps) > _SPEED_MPS:
            self._every_s, self._calm = min(since_s - _ROUNDING_S, self._values["gen_cam_max"]), 0
            return True
        if since_s < self._every_s:
            return False
        self._calm += 1
        if self._calm >= _LOW_DYNAMICS:
            self._every_s = self._values["gen_cam_max"]
        return True

    def _awareness(
        self, episode: Episode, bearer: int, pose: Pose, speed_mps: float, acceleration_mps2: Vector, yaw_rate_degps: float
    ) -> v2x.Awareness:
        values, kind, entry = self._values, episode.world.kind(bearer), episode.actors.find(bearer)
        self._said += 1
        noise = self._noise()
        places = self._globe(episode, Vector(pose.x_m, pose.y_m, pose.z_m), noise)
        x, y, z = acceleration_mps2.x, acceleration_mps2.y, acceleration_mps2.z + episode.gravity_mps2
        felt = [axis[0] * x + axis[1] * y + axis[2] * z for axis in axes_of(quaternion_of(pose))]
        felt = [value + values[f"noise_accel_stddev_{axis}"] * noise[3 + n]
                for n, (axis, value) in enumerate(zip(_AXES, felt, strict=True))]  # fmt: skip
        heading_deg = pose.yaw_deg + _NORTH_DEG + values["noise_head_bias"] + values["noise_head_stddev"] * noise[6]
        now_s, lights, role = episode.moment.elapsed_s, None, 0
        if isinstance(entry, VehicleEntry) and (self._low_s is None or now_s - self._low_s >= _LOW_EVERY_S - _ROUNDING_S):
            self._low_s, lights = now_s, v2x.light_bits(entry.lights)
            role = 1 if kind.kind == "bus" else 0
        size = (kind.length_m, kind.width_m) if isinstance(kind, VehicleType) else (0.0, 0.0)
        return v2x.Awareness(
            station_id=bearer,
            station_type=v2x.STATION_TYPES.get(kind.kind, v2x.UNKNOWN_STATION)
            if isinstance(kind, VehicleType | WalkerType)
            else v2x.ROADSIDE_STATION,
            generated_ms=round(now_s * 1000.0),
            latitude_deg=places[0],
            longitude_deg=places[1],
            altitude_m=places[2],
            heading_deg=heading_deg % 360.0,
            speed_mps=max(0.0, abs(speed_mps) + values["noise_vel_stddev_x"] * noise[7]),
            backwards=speed_mps < -0.01,
            length_m=size[0],
            width_m=size[1],
            acceleration_mps2=Vector(*felt),
            # The standard counts to the left, yaw to the right.
            yaw_rate_degps=-yaw_rate_degps + values["noise_yawrate_bias"] + values["noise_yawrate_stddev"] * noise[8],
            role=role,
            lights=lights,
        )

    def state(self) -> list[Any]:
        last = None if self._last is None else [*vars(self._last).values()]
        velocity = None if self._velocity is None else list(self._velocity)
        return [*super().state(), last, self._every_s, self._calm, self._low_s, velocity, self._said]

    def restore(self, data: list[Any]) -> None:
        *base, last, self._every_s, self._calm, self._low_s, velocity, self._said = data
        super().restore(base)
        self._last = None if last is None else _LastSaid(*last)
        self._velocity = None if velocity is None else Vector(*velocity)


def exchange(episode: Episode) -> None:
    """Let all radios of a tick speak, then hear."""
    radios = [(entry, entry.model) for entry in episode.actors.all(SensorEntry) if isinstance(entry.model, RadioSensor)]
    if not radios:
        return
    stations = {entry.id: _station(episode, entry, model) for entry, model in radios}
    on_air = []
    for entry, model in radios:
        try:
            sent = model.say(episode, stations[entry.id])
        except SamepathError as error:  # such as a station beyond the edge of its map
            silence(episode, entry, str(error))
            continue
        if sent is not None:
            on_air.append((model.name, sent))
    now_s = episode.moment.elapsed_s
    for entry, model in radios:
        station = stations[entry.id]
        others = [
            message
            for name, message in on_air
            # Two radios on one traffic light have the same id, two without a parent have not.
            if name == model.name and message.station.id != station.id
        ]
        try:
            model.hear(
                now_s, [(sent, _link(episode, sent.station, station)) for sent in others if _is_near(sent, station, model)]
            )
        except SamepathError as error:
            silence(episode, entry, str(error))


def _station(episode: Episode, entry: SensorEntry, model: RadioSensor) -> Station:
    parent = episode.actors.find(entry.record.parent_id)
    pose = entry.pose
    if parent is None or not parent.has_body:
        antenna = Vector(pose.x_m, pose.y_m, pose.z_m)
        number = entry.id if parent is None else parent.id
        return Station(entry.id, model.ordinal, antenna, _ground_under(episode, antenna), None, number)
    kind, body = episode.world.kind(parent.id), episode.world.state(parent.id).pose
    ground_m = body.z_m - kind.height_m / 2 if isinstance(kind, WalkerType) else body.z_m
    antenna = Vector(body.x_m, body.y_m, ground_m + kind.height_m + _ANTENNA_M)
    return Station(entry.id, model.ordinal, antenna, ground_m, parent.id, parent.id)


def _ground_under(episode: Episode, antenna: Vector) -> float:
    """The height of the ground under an antenna, which is always a little above it: two rays at height 0 would cancel."""
    start = Vector(antenna.x, antenna.y, antenna.z + _GROUND_ABOVE_M)
    hits = episode.world.ray_hits(start, Vector(z=-1.0), _GROUND_REACH_M)
    ground_m = next((start.z - hit.distance_m for hit in hits if hit.what == "ground"), antenna.z)
    return min(ground_m, antenna.z - _ANTENNA_M)


def _is_near(sent: Transmission, station: Station, model: RadioSensor) -> bool:
    """Before any ray is cast: who is farther than the filter is not heard at all."""
    dx, dy, dz = (a - b for a, b in zip(sent.station.antenna, station.antenna, strict=True))
    return dx * dx + dy * dy + dz * dz < model.radio.values["filter_distance"] ** 2


def _link(episode: Episode, sender: Station, receiver: Station) -> Link:
    """What is between two antennas: scenery, roofs of vehicles, or nothing. The ground is none, walkers are too small."""
    start, end = sender.antenna, receiver.antenna
    dx, dy, dz = (b - a for a, b in zip(start, end, strict=True))
    distance_m = float(np.sqrt(dx * dx + dy * dy + dz * dz))
    buildings, roofs = False, []
    if distance_m > _ANTENNA_M:
        direction = Vector(dx / distance_m, dy / distance_m, dz / distance_m)
        for hit in episode.world.ray_hits(start, direction, distance_m):
            if isinstance(hit.what, str):
                buildings = buildings or hit.what != "ground"
                continue
            kind = episode.world.kind(hit.what)
            if hit.what not in (sender.bearer, receiver.bearer) and isinstance(kind, VehicleType):
                body = episode.world.state(hit.what).pose
                roofs.append((hit.distance_m / distance_m, body.z_m + kind.height_m))
    return link_between(start, end, min(sender.ground_m, receiver.ground_m), buildings, tuple(roofs))
