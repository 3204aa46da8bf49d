"""A busy scenario as calls on the wire, tick by tick, and a desk that makes them through the server's own runner."""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import msgpack

from samepath.core.catalogue import actor_type
from samepath.core.states import Pose, Vector
from samepath.core.streams import stream
from samepath.core.trig import sincos_deg
from samepath.simulator.carla.records import Colour, Point2, Settings, StreetLight, WeatherParameters, write_settings
from samepath.simulator.server.episode import EpisodeContext
from samepath.simulator.server.maps import MapLibrary
from samepath.simulator.server.methods import methods
from samepath.simulator.server.physics_control import control_of
from samepath.simulator.server.rendering import LocalRenderer
from samepath.simulator.server.resume import JournalConfig, open_episode
from samepath.simulator.server.rpc import Call, parse
from samepath.simulator.server.runner import AnswerEvent, EpisodeRunner, Outbox, StreamMessage
from samepath.simulator.server.sensors import SensorEntry
from tests.support.serving import LIMITS, described

SEED = 7
CARS, WALKERS = 40, 8
SEES = find_spec("numba") is not None
_FEELING = ("sensor.other.imu", "sensor.other.gnss", "sensor.other.collision", "sensor.other.obstacle")
_SEEING = (
    "sensor.camera.rgb",
    "sensor.camera.optical_flow",
    "sensor.camera.dvs",
    "sensor.lidar.ray_cast",
    "sensor.other.radar",
)
_SMALL = {
    "sensor.camera.rgb": {"image_size_x": 48, "image_size_y": 32, "sensor_tick": 0.1},
    "sensor.camera.optical_flow": {"image_size_x": 48, "image_size_y": 32},
    "sensor.camera.dvs": {"image_size_x": 48, "image_size_y": 32},
    "sensor.lidar.ray_cast": {"channels": 4, "points_per_second": 4000},
    "sensor.other.radar": {"points_per_second": 400},
    "sensor.other.imu": {"noise_accel_stddev_x": 0.1},
    "sensor.other.gnss": {"noise_lat_stddev": 1e-6},
}


RENDERER = LocalRenderer()
"""One for all desks: its tools take a while to build."""


class Client:
    """Somebody who calls."""

    home = 0
    stream_port = None
    name = "test"

    def answer(self, call_id, result):
        raise AssertionError("answers go through the outbox")


def _never(failure):
    raise AssertionError(failure.words)


class Desk:
    """An episode with its runner, without sockets or threads. ``sent`` are the sensors' messages, ``lines`` the log."""

    open: ClassVar[list] = []

    def __init__(self, journal=None, *, map_name="town", data=Path("never-made"), limits=LIMITS, **more):
        self.lines, self.events, self.sent = [], [], []
        outbox = Outbox(self.events.extend)
        maps = MapLibrary({}, self.lines.append, limits)
        context = EpisodeContext(maps, outbox, data, 2001, limits, self.lines.append, **{"renderer": RENDERER, **more})
        self.episode, self.journal = open_episode(context, map_name, journal)
        self._outbox, self._number, self.client = outbox, 0, Client()
        self.runner = EpisodeRunner(self.episode, outbox, _never, journal=self.journal)
        Desk.open.append(self)

    def close(self):
        """Let go of everything, as the end of a process does."""
        if self.episode.recorder is not None:
            self.episode.recorder.close()
        if self.journal is not None:
            self.journal.close()

    def send(self, name, *arguments):
        """Call, and return the answer as it is packed."""
        self._number += 1
        raw = msgpack.packb([0, self._number, name, [[False], *arguments]])
        method = methods()[name]
        self.runner._do(Call(self.client, self._number, method, method.read(parse(raw, LIMITS).arguments), raw))
        self.runner._send_answers(self.runner._spawned.all())  # no tick comes by itself here that a spawn could wait for
        self._outbox.post()
        if self.journal is not None:
            self.journal.drain()  # a snapshot is put away by another thread: tests look at files that stay as they are
        events, self.events[:] = list(self.events), []
        self.sent += [
            (event.stream_id, event.payload) for event in events if isinstance(event, StreamMessage) and event.stream_id != 1
        ]
        (answer,) = [event for event in events if isinstance(event, AnswerEvent)]
        return answer.result

    def ask(self, name, *arguments):
        """Call, and return the value."""
        result = msgpack.unpackb(self.send(name, *arguments))
        if name == "apply_batch":
            return result
        assert result[0][0] in (1, False), result
        return result[0][1] if result[0][0] == 1 else None

    def listen(self):
        """Listen to every sensor, as a client does that has just connected."""
        for entry in self.episode.actors.all(SensorEntry):
            self.ask("get_sensor_token", entry.stream_id)

    def state(self):
        """Everything that must be the same: the world's history, the state of all, who and how many."""
        episode = self.episode
        states = hashlib.sha256(episode.actors.states.tobytes()).hexdigest()
        return episode.frame, episode.elapsed_s, episode.world.digest, states, episode.next_actor_id, episode.next_stream_id


def spawned(blueprint, transform, parent=None, **attributes):
    """A command that spawns."""
    optional = [False] if parent is None else [True, parent]
    return [[0, [described(blueprint, **attributes), transform, optional, 0, "", []]]]


def at(x, y, z, yaw=0.0):
    return [[x, y, z], [0.0, yaw, 0.0]]


def begin(desk, *, sees=False):
    """The first calls: settings, actors, sensors. Returns the first car's id."""
    desk.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
    spots = desk.ask("get_map_info")[1]
    cars = ["vehicle.tesla.model3", "vehicle.audi.tt", "vehicle.ford.ambulance", "vehicle.yamaha.yzf", "vehicle.nissan.micra"]
    commands = []
    for number in range(CARS - 2):
        (x, y, z), (_, yaw, _) = spots[number]
        commands.append(spawned(cars[number % len(cars)], at(x, y, z + 0.3, yaw)))
    (x, y, z), (_, yaw, _) = spots[0]
    sin, cos = sincos_deg(yaw)
    commands.append(spawned(cars[0], at(x + 7.0 * cos, y + 7.0 * sin, z + 0.3, yaw)))  # in the way of the first
    (x, y, z), (_, yaw, _) = spots[2]
    commands.append(spawned(cars[1], at(x, y, z + 4.0, yaw)))  # will fall onto the third
    for number in range(WALKERS):
        (x, y, z), _ = spots[number]
        commands.append(spawned(f"walker.pedestrian.{number + 1:04d}", at(x + 4.0, y + 3.0, z + 1.5)))
    answers = desk.ask("apply_batch", commands, False)
    made = [answer[0][1] for answer in answers if answer[0][0] == 1]
    assert len(made) == CARS + WALKERS, answers
    first = made[0]
    for number, blueprint in enumerate((*_FEELING, *(_SEEING if sees else ()))):
        parent = first + number % 3
        (answer,) = desk.ask("apply_batch", [spawned(blueprint, at(1.0, 0.0, 0.8), parent, **_SMALL.get(blueprint, {}))], False)
        assert answer[0][0] == 1, answer
    desk.listen()
    return first


def calls_of(first, number):
    """The calls of one tick, the last of which is the tick."""
    chance = stream(SEED, "calls", number)
    throttle, steer = chance.uniform(0.2, 1.0, CARS), chance.uniform(-0.4, 0.4, CARS)
    alive = [item for item in range(CARS) if item != 5 or number < 20]
    commands = [
        [[2, [first + item, [throttle[item], steer[item], 0.0, False, False, False, 0]]]]
        for item in alive
        if item not in (2, 7)
    ]
    x, y = chance.uniform(-1.0, 1.0, 2)
    commands += [[[4, [first + CARS + number, [[x, y, 0.0], 1.5, bool(number % 2)]]]] for number in range(WALKERS)]
    yield "apply_ackermann_control_to_vehicle", first + 2, [0.1, 0.0, 5.0 + number * 0.1, 0.0, 0.0]
    yield from SPECIAL.get(number, lambda _: ())(first)
    yield "apply_batch", commands, number % 3 == 0
    if number % 3:
        yield ("tick_cue",)


def _physics(first):
    yield "set_actor_simulate_physics", first + 11, False
    yield "enable_actor_constant_velocity", first + 7, [6.0, 0.0, 0.0]
    yield "add_actor_impulse", first + 8, [0.0, 9000.0, 2000.0]
    yield "set_vehicle_light_state", first + 1, [3]
    yield "open_vehicle_door", first + 1, 6
    steering = (Point2(0.0, 1.0), Point2(50.0, 0.5))
    physics = control_of(actor_type("vehicle.audi.tt"), Pose())._replace(mass=2222.0, steering_curve=steering)
    yield "apply_physics_control", first + 6, physics
    yield "set_actor_enable_gravity", first + 9, False


def _scene(first):
    yield "set_weather_parameters", WeatherParameters(cloudiness=70.0, sun_altitude_angle=-10.0)
    yield "set_traffic_light_green_time", 1, 0.4
    yield "set_imui_gravity", 9.5
    yield "draw_debug_shape", [[1, [[0.0, 0.0, 1.0], [5.0, 5.0, 1.0], 0.1]], [255, 0, 0], 1.0, False]
    yield "start_recorder", "run.log", True
    yield "samepath_call", "c0ffee" + "0" * 26, 1, "set_actor_location", msgpack.packb([[False], first + 12, [1.0, 2.0, 3.0]])
    yield "query_lights_state", "a client"
    yield "update_lights_state", "another", [StreetLight(1, Vector(), 77.0, 2, Colour(1, 2, 3), active=True)], False


def _change(first):
    yield "destroy_actor", first + 5
    yield "spawn_actor", described("static.prop.trafficcone01"), at(3.0, 3.0, 1.0)
    yield "spawn_actor", described("static.trigger.friction", friction=0.2, extent_x=9000, extent_y=9000), at(0.0, 0.0, 0.0)
    yield "unload_map_layer", 0xFFFF
    yield "set_actor_dead", first + CARS + 1
    yield "apply_ackermann_controller_settings", first + 2, [0.2, 0.01, 0.25, 0.01, 0.0, 0.01]


SPECIAL = {4: _physics, 9: _scene, 20: _change}


def play(desk, first, numbers):
    """Make the calls of some ticks."""
    for number in numbers:
        for name, *arguments in calls_of(first, number):
            desk.ask(name, *arguments)


def kept(folder, **settings):
    from samepath.simulator.server.journal import JournalSettings

    return JournalConfig(Path(folder), JournalSettings(**{"every_s": None, **settings}))


def resumed(folder):
    return JournalConfig(Path(folder), resume=True)
