"""Extreme numbers for everything that a client may send: found by the signatures of the methods and the library of blueprints.

The readers of a method say what its arguments look like, so a method that is added is tried with no further word. Of each call
there is one that is usual; then one number after the other is replaced by each extreme one. What a reader refuses has been
answered. What it takes must not harm the server: after the call the world ticks, a snapshot is taken of it, and the world that
is restored from the snapshot ticks in the same way.
"""

import inspect
import math
from dataclasses import dataclass, replace
from pathlib import Path

import msgpack
import numpy as np

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.simulator.carla import blueprints, codec
from samepath.simulator.carla import records as r
from samepath.simulator.carla.blueprints import AttributeType
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server import snapshot
from samepath.simulator.server.commands import ServerResumed, WorldStep, apply
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.maps import MapLibrary
from samepath.simulator.server.methods import methods
from samepath.simulator.server.resume import NullPublisher
from samepath.simulator.server.rpc import Call
from samepath.simulator.server.sensors import SensorEntry, sensor_models
from samepath.simulator.traffic.traffic import TrafficSettings
from tests.support.journal_scenario import RENDERER
from tests.support.serving import Box, Somebody, call, described

NUMBERS = (
    5e-324, -5e-324, 2.3e-308, 1e-300, 1e-30, 1e-9, 0.0, -0.0, 1e4, -1e4, 1e6, -1e6, 1e9, -1e9, 1e15, -1e15, 1e308, math.inf,
    math.nan, 2**16 - 1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1,
)  # fmt: skip
TEXTS = (
    *(repr(number) for number in NUMBERS),
    "1" + "0" * 400, "-" + "9" * 400, "1e999", "0x10", "1_000", " 1 ", "", "true", "1,2,3", "٣", "1e-400", "infinity", "NaN",
)  # fmt: skip
TICKS = 3
# Of one tick: a town with everything takes a hundredth of it.
LONGEST_TICK_S = 20.0
# Small, so that what goes beyond costs little. Images are large enough to be drawn.
LIMITS = ServerLimits(actors=60, image_pixels=1 << 14, measurement_bytes=1 << 22)
_SMALL = {"image_size_x": 16, "image_size_y": 12, "channels": 2, "points_per_second": 400}
_SENSORS = ("sensor.other.imu", "sensor.other.gnss", "sensor.other.obstacle", "sensor.other.collision")
_RADIOS = ("sensor.other.v2x", "sensor.other.v2x_custom")
_SHAPE = {
    "query_lights_state": "a client",
    "update_lights_state": "a client",
}


class Scene:
    """A small world with everything in it that a number can reach, and a recording."""

    def __init__(self, folder: Path, *, sees: bool = False, traffic: TrafficSettings | None = None):
        self.lines, self.box = [], Box()
        context = EpisodeContext(
            MapLibrary({}, self.lines.append, LIMITS),
            self.box,
            folder,
            2001,
            LIMITS,
            self.lines.append,
            draw_debug=True,
            renderer=RENDERER,
            traffic=traffic,
        )
        self.episode = Episode(context, "t-junction")
        self.context = context
        self.episode.settings = self.episode.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
        spots = self.episode.map.spawn_points
        self.car = self._spawn("vehicle.tesla.model3", spots[0])
        self.bike = self._spawn("vehicle.yamaha.yzf", spots[1])
        other = self._spawn("vehicle.audi.tt", spots[2])
        at = spots[3].location
        self.walker = self._spawn("walker.pedestrian.0001", [[at.x, at.y, at.z + 1.0], [0.0, 0.0, 0.0]], is_invincible="false")
        self.prop = self._spawn("static.prop.trafficcone01", [[at.x + 5.0, at.y, at.z + 1.0], [0.0, 0.0, 0.0]])
        self.sensor = 0
        for name in (*_SENSORS, *_RADIOS, *(("sensor.camera.rgb",) if sees else ())):
            for parent in (self.car, other) if name in _RADIOS else (self.car,):
                self.sensor = self.attach(name, parent)
        if not sees:
            call(self.episode, "send", self.sensor, "hello")
        lights = [entry.id for entry in self.episode.actors if entry.type_id == "traffic.traffic_light"]
        self.light = lights[0] if lights else 1
        call(self.episode, "start_recorder", "run.log", True)
        self.tick()

    def close(self):
        self.episode.end_recording()
        self.context.maps.close()

    def _spawn(self, blueprint, transform, **attributes):
        return call(self.episode, "spawn_actor", described(blueprint, **attributes), transform).id

    def attach(self, name, parent, **attributes):
        """Spawn a sensor and listen to it."""
        known = {attribute.id for attribute in blueprints.find(name).attributes}
        small = {key: value for key, value in _SMALL.items() if key in known}
        place = [[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
        made = call(self.episode, "spawn_actor_with_parent", described(name, **{**small, **attributes}), place, parent, 0, "")
        entry = self.episode.actors.find(made.id)
        if isinstance(entry, SensorEntry):
            call(self.episode, "get_sensor_token", entry.stream_id)
        return made.id

    def tick(self, count=1):
        """Tick, as a server does; returns the longest time of one."""
        longest_s = 0.0
        for _ in range(count):
            start_s = SYSTEM_CLOCK.monotonic_s()
            call(self.episode, "tick_cue")
            if not self.episode.settings.synchronous_mode:
                apply(self.episode, WorldStep(self.episode.settings.fixed_delta_seconds or 0.03))
            longest_s = max(longest_s, SYSTEM_CLOCK.monotonic_s() - start_s)
        self.box.sent.clear()
        return longest_s

    def send(self, name, arguments):
        """Make a call as it comes over the wire; returns what is wrong, None: it was refused, "": all is well."""
        method = methods()[name]
        try:
            plain = msgpack.unpackb(msgpack.packb(arguments))
            read = method.read(plain)
        except (SamepathError, OverflowError):
            return None
        caller = Somebody()
        answer = apply(self.episode, Call(caller, 1, method, read, b""))
        shown = msgpack.unpackb(answer, strict_map_key=False)
        refused = "internal error" in str(shown) and str(shown)
        return f"the answer is {refused[:200]}" if refused else ""

    def trouble(self, ticks=TICKS):
        """Tick, and look at everything; returns what is wrong, "" if nothing is."""
        longest_s = self.tick(ticks)
        if longest_s > LONGEST_TICK_S:
            return f"a tick took {longest_s:.1f} s"
        if not np.isfinite(self.episode.actors.states.rows["motion"]).all():
            return "a state that is sent is no number"
        ours = [line for line in self.lines if "error of ours" in line]
        if ours:
            return ours[0]
        if snapshot.obstacle(self.episode):
            return ""
        copy = snapshot.restore(snapshot.take(self.episode), replace(self.context, outbox=NullPublisher()))
        apply(copy, ServerResumed())
        step_s = self.episode.settings.fixed_delta_seconds or 0.03
        for episode in (self.episode, copy):
            apply(episode, WorldStep(step_s))
        if copy.world.digest != self.episode.world.digest:
            return "a world that is restored from a snapshot goes on differently"
        return ""


def _parts(reader):
    """What a reader that was made of others holds."""
    return inspect.getclosurevars(reader).nonlocals if inspect.isfunction(reader) else {}


def usual(reader, scene):
    """Return a value that a reader takes, and that is nothing special."""
    known = {
        codec.flag: True, codec.text: "a", codec.long_text: "a", r.description: list(described("vehicle.audi.tt")),
        r.transform: [[20.0, 3.0, 2.0], [0.0, 90.0, 0.0]], r.walker_control: [[1.0, 0.0, 0.0], 1.5, False],
        r.settings: list(r.write_settings(scene.episode.settings)), r.batch: [], r.object_ids: [1],
        r.actor_ids: [scene.car],
    }  # fmt: skip
    parts = _parts(reader)
    if reader in known:
        found = known[reader]
    elif reader is r.physics_control:
        found = msgpack.unpackb(msgpack.packb(call(scene.episode, "get_physics_control", scene.car)))
    elif "readers" in parts and "count" in parts:
        found = [usual(inner, scene) for inner in parts["readers"]]
    elif "readers" in parts:  # a variant
        found = [0, usual(parts["readers"][0], scene)]
    elif "reader" in parts:  # an array, or an optional
        found = [usual(parts["reader"], scene)] if "most" in parts else [True, usual(parts["reader"], scene)]
    else:
        found = 1 if "low" in parts else 1.0
    return found


def variants_of(reader, scene):
    """Return usual values of a reader: one for each shape that it takes."""
    parts = _parts(reader)
    if "readers" in parts and "count" not in parts:
        return [[index, usual(inner, scene)] for index, inner in enumerate(parts["readers"])]
    if "readers" in parts:
        values = usual(reader, scene)
        found = [values]
        for place, inner in enumerate(parts["readers"]):
            more = variants_of(inner, scene)
            found += [[*values[:place], value, *values[place + 1 :]] for value in more[1:]]
        return found
    return [usual(reader, scene)]


def places(value, path=()):
    """Yield where the numbers are in plain data."""
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def put(value, path, number):
    """The same data with another number at a place."""
    if not path:
        return number
    copy = list(value)
    copy[path[0]] = put(copy[path[0]], path[1:], number)
    return copy


def targets(method, scene):
    """The actors for whom a method is called; a method whose first argument is no actor is called once."""
    if method.readers[:1] != (codec.u32,):
        return [None]
    return [scene.car, scene.bike, scene.walker, scene.prop, scene.sensor, scene.light, 999]


COMMANDS = {
    2: [0, r.vehicle_control], 3: [0, r.ackermann_control], 4: [0, r.walker_control], 5: [0, r.physics_control],
    6: [0, r.transform], 7: [0, r.transform, codec.number], 8: [0, r.vector], 9: [0, r.vector], 10: [0, r.vector],
    11: [0, r.vector], 12: [0, r.large_vector], 13: [0, r.large_vector], 18: [0, codec.u32], 19: [0, r.vector],
    21: [0, codec.u8],
}  # fmt: skip


def calls(scene, names=None):
    """Yield the usual calls of all methods: the name, and the arguments as plain data."""
    skipped = {"copy_opendrive_to_file", "load_new_episode"}  # what they take is a text; see the fuzzers of maps
    for name, method in sorted(methods().items()):
        if name in skipped or method.handler is None or (names and name not in names):
            continue
        for actor in targets(method, scene):
            shapes = [[]]
            for place, reader in enumerate(method.readers):
                values = variants_of(reader, scene)
                if actor is not None and place == 0:
                    values = [actor]
                shapes = [[*shape, value] for shape in shapes for value in values]
            if name == "replay_file" or name.startswith("show_recorder"):
                shapes = [["run.log", *shape[1:]] for shape in shapes]
            if name in _SHAPE:
                shapes = [[_SHAPE[name], *shape[1:]] for shape in shapes]
            if name == "update_lights_state":
                ids = list(scene.episode.lamps.states)[:1]
                shapes = [put(shape, (1, 0, 0), ids[0]) for shape in shapes] if ids else []
            for shape in shapes:
                yield name, msgpack.unpackb(msgpack.packb(shape))


def extremes(arguments, keep_first=True):
    """Yield the arguments with one number after the other replaced, then with all of them."""
    found = [path for path in places(arguments) if not (keep_first and path == (0,))]
    for number in NUMBERS:
        for path in found:
            yield put(arguments, path, number)
    for number in NUMBERS:
        every = arguments
        for path in found:
            every = put(every, path, number)
        yield every


def attributes():
    """Yield every attribute with a number of every blueprint, and the texts to try; of vehicles and walkers only some."""
    seen = set()
    for blueprint in blueprints.library():
        kind = blueprint.id.split(".")[0]
        if kind == "sensor" and blueprint.id not in sensor_models():
            continue
        family = blueprint.id if kind == "sensor" else kind if blueprint.id != "static.trigger.friction" else blueprint.id
        if family in seen:
            continue
        seen.add(family)
        for attribute in blueprint.attributes:
            if attribute.type in (AttributeType.INT, AttributeType.FLOAT, AttributeType.COLOUR):
                yield blueprint.id, attribute.id


@dataclass(frozen=True)
class ExtremeFigures:
    """What came of extreme numbers; ``failures`` names what harmed a server."""

    tried: int = 0
    refused: int = 0
    failures: tuple[str, ...] = ()


class Trial:
    """Tries one number after the other; a new scene now and then, and after every failure."""

    def __init__(self, folder: Path, *, per_scene: int = 12):
        self._folder, self._per_scene = folder, per_scene
        self._scenes = self._used = self._tried = self._refused = 0
        self._failures: dict[str, str] = {}
        self.scene = None
        self.renew()

    def close(self):
        self.scene.close()

    def renew(self):
        if self.scene is not None:
            self.scene.close()
        self._scenes, self._used = self._scenes + 1, 0
        self.scene = Scene(self._folder / str(self._scenes))

    @property
    def figures(self):
        return ExtremeFigures(self._tried, self._refused, tuple(self._failures.values()))

    def _try(self, what, attempt):
        """``attempt`` returns what is wrong, "" if nothing is, None if it was refused."""
        self._tried += 1
        try:
            found = attempt()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the physics is no Exception
            found = f"{type(error).__name__}: {str(error)[:200]}"
        if found is None:
            self._refused += 1
            return
        self._used += 1
        if found:
            self._failures.setdefault(f"{what.split('(')[0]} {found[:40]}", f"{what[:300]}: {found}")
        if found or self._used >= self._per_scene:
            self.renew()

    def call(self, name, arguments):
        def attempt():
            found = self.scene.send(name, arguments)
            return found or (self.scene.trouble() if found is not None and not methods()[name].reads else found)

        self._try(f"{name}({arguments})", attempt)

    def attribute(self, blueprint, name, text):
        def attempt():
            try:
                made = self.scene.attach(blueprint, self.scene.car, **{name: text})
            except SamepathError as error:
                return "it was refused in more than one line" if "\n" in str(error) else None
            found = self.scene.trouble()
            call(self.scene.episode, "destroy_actor", made)
            return found

        self._try(f"{blueprint}({name}={text[:40]!r})", attempt)


def all_calls(scene):
    """Return every usual call with every extreme number in every place."""
    return [
        (name, tried)
        for name, arguments in calls(scene)
        for tried in extremes(arguments, keep_first=bool(arguments) and isinstance(arguments[0], int))
    ]


def all_attributes():
    """Return every attribute with every text."""
    return [(blueprint, name, text) for blueprint, name in attributes() for text in TEXTS]
