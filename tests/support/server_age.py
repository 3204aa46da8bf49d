"""One script against servers with different pasts, and what it is sent, without what is absolute by declaration.

A past is what happened before the script came: empty ticks by the wall clock or by another client, a session that spawned
actors and destroyed them, a load of the map. The script spawns every kind of sensor and ticks. Frames, time stamps and the ids
of actors, streams and episodes go on from the past; :func:`session` therefore counts them from the start of the script. It
changes nothing else, so the bytes of two sessions differ only if the past left a trace.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import msgpack
import numpy as np

from samepath.core.streams import stream
from samepath.simulator.carla import v2x
from samepath.simulator.carla.codec import stream_of
from samepath.simulator.carla.records import Actor, Settings, WeatherParameters, write_settings
from samepath.simulator.carla.streams import (
    ACTOR_STATE,
    GBUFFERS_BIT,
    MAP_CHANGED,
    SENSOR_TYPES,
    WORLD_OBSERVER,
    WORLD_STREAM,
    as_sent,
)
from samepath.simulator.sensors.cameras import RigRenderer
from samepath.simulator.sensors.cuda.card import CardDevice
from samepath.simulator.sensors.cuda.renderer import CudaRenderer
from samepath.simulator.sensors.events import EVENT, nanoseconds
from samepath.simulator.sensors.lidar import SEMANTIC_POINT
from samepath.simulator.server.actors import VehicleEntry
from samepath.simulator.server.rendering import LocalRenderer
from samepath.simulator.server.sensors import sensor_models
from samepath.simulator.server.ticking import tick
from samepath.simulator.traffic.traffic import TrafficSettings
from tests.support.emulated_card import EmulatedCard
from tests.support.serving import call, described, episode, ticks

NOON = WeatherParameters()
RAIN_AT_DUSK = WeatherParameters(90.0, 80.0, 70.0, 60.0, 30.0, -2.0, 10.0, 20.0, 0.5, 70.0)
WEATHERS = MappingProxyType({"noon": NOON, "rain at dusk": RAIN_AT_DUSK})
STATE, ANSWERS = "state", "answers"
EVENTS = "sensor.camera.dvs"
OTHER_TICK_S = 0.1
SYNCHRONOUS = Settings(synchronous_mode=True, fixed_delta_seconds=0.05)
SILENT = "sensor.other.lane_invasion"  # the client works it out by itself
_HEAD = struct.Struct("<QQd6f")
_EVENTS_AT = _HEAD.size + 12
_EPISODE = struct.Struct("<QdfiiiI")
_CAM_BYTES, _CUSTOM_BYTES = 8 + v2x.CAM_BYTES, 8 + v2x.CUSTOM_BYTES  # with the power
_STATION, _GENERATED = slice(24, 32), slice(32, 40)


@dataclass(frozen=True)
class Script:
    """A script: image size, weather, number and length of ticks, map and traffic."""

    width: int = 61
    height: int = 37
    weather: WeatherParameters = RAIN_AT_DUSK
    tick_count: int = 24
    step_s: float = 0.05
    map_name: str = "town"
    traffic: TrafficSettings | None = None


# What happened on a server before the script came. In real time a step is as long as the wall clock made it.
Past = Callable[[object], None]


def fresh(host):
    """The server has just started."""


def in_real_time(seconds):
    """The server was left alone: it ticks by the wall clock."""

    def run(host):
        lengths = stream(0, "age", int(seconds * 1000))
        while host.elapsed_s < seconds:
            tick(host, (1.0 + 0.2 * lengths.random()) / 30.0)

    return run


def in_lockstep(seconds, step_s=0.03):
    """Another client ticked an empty world, and went back to real time."""

    def run(host):
        call(
            host,
            "set_episode_settings",
            write_settings(SYNCHRONOUS._replace(fixed_delta_seconds=step_s)),
        )
        while host.elapsed_s < seconds:
            ticks(host, 1)
        call(host, "set_episode_settings", write_settings(Settings()))

    return run


def with_a_session(host):
    """Another client had cars, a walker and sensors, listened, and destroyed them all."""
    call(host, "set_episode_settings", write_settings(SYNCHRONOUS))
    places = [
        ((point.location.x, point.location.y, 0.5), (0.0, point.rotation.yaw, 0.0)) for point in host.map.spawn_points[3:6]
    ]
    actors = [call(host, "spawn_actor", described("vehicle.audi.tt"), at).id for at in places]
    for kind in (
        "sensor.camera.rgb",
        "sensor.other.gnss",
        "sensor.camera.dvs",
        "sensor.camera.optical_flow",
    ):
        sensor = call(
            host,
            "spawn_actor_with_parent",
            described(kind),
            ((0.0, 0.0, 3.0), (0.0, 0.0, 0.0)),
            actors[0],
            0,
            "",
        )
        actors.append(sensor.id)
        if kind == "sensor.camera.optical_flow":
            call(host, "get_sensor_token", stream_of(sensor.stream_token))
    call(host, "apply_control_to_vehicle", actors[0], (0.8, 0.3, 0.0, False, False, False, 0))
    ticks(host, 7)
    for actor in reversed(actors):
        call(host, "destroy_actor", actor)
    call(host, "set_episode_settings", write_settings(Settings()))
    for _ in range(3):
        tick(host, 0.0371)


def reloaded(before: Past):
    """A client loads the map again before the script begins, as ``reload_world`` does."""

    def run(host):
        before(host)
        call(host, "load_new_episode", "", True, 65535)
        for _ in range(3):
            tick(host, 0.0337)

    return run


PASTS = MappingProxyType(
    {
        "2 s in real time": in_real_time(2.0),
        "17.35 s in real time": in_real_time(17.35),
        "2 s in lockstep": in_lockstep(2.0),
        "17.35 s in lockstep": in_lockstep(17.35, 0.0123),
        "a session": with_a_session,
        "a reload": reloaded(fresh),
        "a session and a reload": reloaded(with_a_session),
    }
)


class EmulatedRenderer(LocalRenderer):
    """Draws with the kernels of the CUDA renderer on a GPU that the processor emulates."""

    def prepare(self, road_map):
        if self._tools is None or self._map is not road_map:
            super().prepare(road_map)
            cameras = RigRenderer(shared=CudaRenderer(CardDevice(EmulatedCard(3))))
            self._tools = self._tools._replace(cameras=cameras)


def server(script: Script, renderer=None, folder=Path("never-made")):
    """A server that has just started, in real time, without clients."""
    host = episode(script.map_name, folder=folder, draw_debug=True)
    renderer = renderer or LocalRenderer()
    host.context = replace(host.context, traffic=script.traffic, renderer=renderer)
    host.traffic_due = script.traffic is not None
    host.settings = Settings()
    return host


def attributes(kind, script: Script):
    """Attributes with which a sensor has noise, and measures in another rhythm than its neighbours."""
    if kind == "sensor.camera.dvs":
        own = {
            "sigma_positive_threshold": 0.05,
            "sigma_negative_threshold": 0.05,
            "refractory_period_ns": 1_000_000,
        }
        return {**own, "positive_threshold": 0.1, "negative_threshold": 0.1, **_image(script)}
    if kind.startswith("sensor.camera."):
        return _image(script)
    scan = {"channels": 7, "range": 60.0, "points_per_second": 40_000, "rotation_frequency": 13.0}
    return {
        "sensor.lidar.ray_cast": {
            **scan,
            "noise_stddev": 0.02,
            "noise_seed": 11,
            "sensor_tick": 0.1,
        },
        "sensor.lidar.ray_cast_semantic": scan,
        "sensor.other.gnss": {
            "noise_lat_stddev": 1e-4,
            "noise_alt_stddev": 1.0,
            "noise_seed": 12,
            "sensor_tick": 0.12,
        },
        "sensor.other.imu": {f"noise_{what}_stddev_{axis}": 0.3 for what in ("accel", "gyro") for axis in "xyz"},
        "sensor.other.obstacle": {"distance": 60.0, "hit_radius": 0.3},
        "sensor.other.radar": {"points_per_second": 4000, "noise_seed": 13},
        "sensor.other.v2x": {
            "gen_cam_min": 0.1,
            "noise_lat_stddev": 1e-5,
            "noise_seed": 14,
            "network_profile": "dsrc",
        },
        "sensor.other.v2x_custom": {"noise_seed": 15, "network_profile": "wifi"},
    }.get(kind, {})


def _image(script: Script):
    return {"image_size_x": script.width, "image_size_y": script.height, "fov": 80}


def digest(message):
    """Messages are compared by digest: images of a long session would fill the memory."""
    return hashlib.blake2b(message, digest_size=16).hexdigest()


class Session:
    """The script, call by call."""

    def __init__(self, host, script: Script) -> None:
        self.host, self.script = host, script
        self._began = len(host.context.outbox.sent)
        self.frame, self.time_s = host.frame, host.elapsed_s
        call(
            host,
            "set_episode_settings",
            write_settings(SYNCHRONOUS._replace(fixed_delta_seconds=script.step_s)),
        )
        call(host, "set_weather_parameters", script.weather)
        # Ids are counted from the script's first actor; those of the map's own signs from the first of them.
        self.signs = {entry.id: number for number, entry in enumerate(host.actors) if not isinstance(entry, VehicleEntry)}
        self.first_actor, self.first_stream = host.next_actor_id, host.next_stream_id
        self.streams: dict[int, str] = {}
        self.vehicles: set[int] = set()
        self.other_every = max(1, round(OTHER_TICK_S / script.step_s))
        self.answers: list[str] = []

    def actor(self, number):
        """An actor's id as it is on a server that has just started."""
        if not number:
            return 0
        return self.signs[number] + 1 if number in self.signs else number - self.first_actor + len(self.signs) + 1

    def spawn(self, name, at=(0.0, 0.0, 0.0), yaw=0.0, parent=0, **given):
        where = (tuple(at), (0.0, yaw, 0.0))
        if parent:
            return call(self.host, "spawn_actor_with_parent", described(name, **given), where, parent, 0, "")
        return call(self.host, "spawn_actor", described(name, **given), where)

    def listen(self, kind, parent, at, label="", **given):
        sensor = self.spawn(kind, at, parent=parent, **given)
        self.streams[stream_of(sensor.stream_token)] = kind + label
        call(self.host, "get_sensor_token", stream_of(sensor.stream_token))
        return sensor.id

    def play(self):
        """A car with all sensors drives at another one and at a walker, in the light of lamps."""
        host, script = self.host, self.script
        x, y = -71.75, -225.5
        own = self.spawn("vehicle.tesla.model3", (x, y, 0.4), 90.0).id
        other = self.spawn("vehicle.audi.tt", (x, y + 9.5, 0.4), -90.0).id
        walker = self.spawn("walker.pedestrian.0001", (x - 5.0, y + 16.0, 1.0), is_invincible="false").id
        bystander = self.spawn("walker.pedestrian.0013", (x + 4.0, y + 12.0, 1.0)).id
        self.spawn("static.prop.streetbarrier", (x + 3.0, y + 20.0, 0.1))
        for kind in sorted(set(sensor_models()) - {SILENT}):
            # An obstacle is looked for from the bumper, all others look over the car's roof.
            at = (2.6, 0.1, 0.8) if kind == "sensor.other.obstacle" else (1.6, 0.1, 1.7)
            self.listen(kind, own, at, **attributes(kind, script))
        camera = self.listen(
            "sensor.camera.rgb",
            0,
            (x, y - 6.0, 4.0),
            " in the street",
            **_image(script),
            sensor_tick=0.1,
        )
        for gbuffer in (0, 2):
            call(host, "get_gbuffer_token", camera, gbuffer)
        self.listen(
            "sensor.camera.dvs",
            other,
            (0.0, 0.0, 2.0),
            " of the other",
            **_image(script),
            sensor_tick=0.1,
        )
        self.listen("sensor.other.v2x", other, (0.0, 0.0, 2.0), " of the other")
        custom = self.listen("sensor.other.v2x_custom", other, (0.0, 0.0, 2.0), " of the other")
        call(host, "set_vehicle_light_state", own, [2])
        call(host, "set_actor_target_velocity", own, [0.0, 9.0, 0.0])
        call(host, "set_actor_target_velocity", other, [0.0, -6.0, 0.0])
        call(host, "apply_control_to_walker", walker, ((1.0, 0.0, 0.0), 1.4, False))
        call(host, "apply_control_to_walker", bystander, ((0.0, -1.0, 0.0), 0.9, False))
        red = (255, 0, 0)
        for number in range(script.tick_count):
            if number % 5 == 0:
                line = (1, ((x, y, 1.0), (x + 2.0, y + 9.0, 2.0), 0.1))
                call(host, "draw_debug_shape", (line, red, 3 * script.step_s, False))
                call(host, "send", custom, f"message {number}")
            if number == 12:
                call(host, "apply_control_to_vehicle", own, (0.9, 0.2, 0.0, False, False, False, 0))
            ticks(host, 1)
            answers = (
                call(host, "get_telemetry_data", own),
                call(host, "get_wheel_steer_angle", own, 0),
                call(host, "get_vehicle_bone_world_transforms", own),
                call(host, "get_actor_bone_world_transforms", walker),
                call(host, "cast_ray", (x, y, 1.0), (x, y + 40.0, 1.0)),
            )
            self.answers.append(digest(repr(answers).encode()))

    def messages(self):
        """Digests of all messages since the script began, by sensor, with what is absolute counted from there."""
        self.vehicles = {entry.id for entry in self.host.actors.all(VehicleEntry)}
        found: dict[str, list[str]] = {ANSWERS: self.answers}
        for number, payload in self.host.context.outbox.sent[self._began :]:
            kind = STATE if number == WORLD_STREAM else self._kind(number)
            if kind.startswith(EVENTS):
                payload = self._events(payload, 1 if kind == EVENTS else self.other_every)  # noqa: PLW2901
            found.setdefault(kind, []).append(digest(self._relative(payload)))
        return found

    def _kind(self, number):
        gbuffer = number >> GBUFFERS_BIT
        return self.streams[number & ((1 << GBUFFERS_BIT) - 1)] + (f" G-buffer {gbuffer - 1}" if gbuffer else "")

    def _events(self, payload, tick_count):
        """Events with times since the image before, which is ``tick_count`` ticks older."""
        before_s = _HEAD.unpack_from(payload)[2] - tick_count * as_sent(self.script.step_s)
        events = np.frombuffer(payload, EVENT, offset=_EVENTS_AT).copy()
        events["t"] -= nanoseconds(before_s)
        return payload[:_EVENTS_AT] + events.tobytes()

    def _relative(self, payload):
        kind, frame, time_s, *transform = _HEAD.unpack_from(payload)
        head = _HEAD.pack(kind, frame - self.frame, time_s - self.time_s, *transform)
        return head + self._content(kind, payload[_HEAD.size :])

    def _content(self, kind, payload):
        """What a sensor sent, without what is absolute in it; most sensors send nothing of the kind."""
        if kind == WORLD_OBSERVER:
            return self._state(payload)
        if kind in (SENSOR_TYPES["sensor.other.v2x"], SENSOR_TYPES["sensor.other.v2x_custom"]):
            return b"".join(self._heard(part, kind) for part in _parts(payload, kind))
        if kind in (SENSOR_TYPES["sensor.other.collision"], SENSOR_TYPES["sensor.other.obstacle"]):
            this, other, value = msgpack.unpackb(payload)
            return msgpack.packb([self._record(this), self._record(other), value])
        if kind == SENSOR_TYPES["sensor.camera.instance_segmentation"]:
            return payload[:12] + self._instances(payload[12:])
        if kind == SENSOR_TYPES["sensor.lidar.ray_cast_semantic"]:
            channels = struct.unpack_from("<I", payload, 4)[0]
            start = 8 + 4 * channels
            hits = np.frombuffer(payload, SEMANTIC_POINT, offset=start).copy()
            hits["object"] = self._own(hits["object"].astype(np.int64))
            return payload[:start] + hits.tobytes()
        return payload

    def _state(self, payload):
        """The state of all actors, without the episode's number, the wall clock and what clients were told before."""
        _, _, delta_s, *rest, flags = _EPISODE.unpack_from(payload)
        rows = np.frombuffer(payload, ACTOR_STATE, offset=_EPISODE.size).copy()
        vehicles = [number in self.vehicles for number in rows["id"].tolist()]
        rows["light_id"][vehicles] = [self.actor(number) for number in rows["light_id"][vehicles].tolist()]
        rows["id"] = [self.actor(number) for number in rows["id"].tolist()]
        return _EPISODE.pack(0, 0.0, delta_s, *rest, flags & ~MAP_CHANGED) + rows.tobytes()

    def _record(self, plain):
        """An actor in an event: its ids, and the number of its stream."""
        found = Actor(*plain)
        box = [*found.bounding_box[:-1], self.actor(found.bounding_box[-1])]
        token = (
            found.stream_token and struct.pack("<I", stream_of(found.stream_token) - self.first_stream) + found.stream_token[4:]
        )
        return [
            self.actor(found.id),
            self.actor(found.parent_id),
            found.description,
            box,
            found.semantic_tags,
            token,
        ]

    def _instances(self, pixels):
        """Ids are in green and blue; those of the scenery are higher than any actor's."""
        image = np.frombuffer(pixels, np.uint8).reshape(-1, 4).copy()
        numbers = image[:, 1].astype(np.int64) + (image[:, 0].astype(np.int64) << 8)
        own = self._own(numbers)
        image[:, 1], image[:, 0] = own & 255, own >> 8
        return image.tobytes()

    def _own(self, numbers):
        """Ids of actors, where they are any, as on a server that has just started."""
        is_actor = (numbers >= self.first_actor) & (numbers < self.host.next_actor_id)
        return np.where(is_actor, numbers - self.first_actor + len(self.signs) + 1, numbers)

    def _heard(self, message, kind):
        """A radio message: the id of its sender, and when it was made, which counts from the start of the episode."""
        station = self.actor(int.from_bytes(message[_STATION], "little")).to_bytes(8, "little")
        made = bytes(8) if kind == SENSOR_TYPES["sensor.other.v2x"] else message[_GENERATED]
        return message[: _STATION.start] + station + made + message[_GENERATED.stop :]


def _parts(payload, kind):
    size = _CAM_BYTES if kind == SENSOR_TYPES["sensor.other.v2x"] else _CUSTOM_BYTES
    assert len(payload) % size == 0
    return [payload[at : at + size] for at in range(0, len(payload), size)]


def session(past: Past, script: Script, renderer=None):
    """What the script is sent on a server with this past, by sensor."""
    host = server(script, renderer)
    past(host)
    client = Session(host, script)
    client.play()
    return client.messages()


def differences(wanted, found):
    """The first message that differs, of every sensor for which one does."""
    lines = []
    for kind in sorted({*wanted, *found}):
        ours, theirs = wanted.get(kind, []), found.get(kind, [])
        if ours == theirs:
            continue
        pairs = enumerate(zip(ours, theirs, strict=False))
        first = next((number for number, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
        count = sum(a != b for a, b in zip(ours, theirs, strict=False)) + abs(len(ours) - len(theirs))
        lines.append(f"{kind}: message {first} is the first of {count} that differ, of {len(ours)} and {len(theirs)}")
    return lines
