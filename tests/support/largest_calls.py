"""For every RPC method the largest request that a client may make of it, and what answering it costs.

A request is the largest by what it makes the server do: lists as long as their readers take them, within the bytes that a
message may have; texts as long as names may be; every actor, every object, every label. What depends on the world depends on
how full it is, so worlds are made here as well.
"""

import gc
import math
import sys
import time
import tracemalloc
from dataclasses import dataclass

import msgpack

from samepath.simulator.carla.codec import WireError, pack
from samepath.simulator.carla.records import write_settings
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Sender, parse
from samepath.simulator.server.sensors import SensorEntry
from tests.support.serving import Somebody, call, described, episode

FAR = [1e6, 1e6, 1e6]
TRANSFORM = [FAR, [180.0, 180.0, 180.0]]
IDS_MOST = 100_000
LOG = "largest.log"


def filled(actors, folder, map_name="town", **changes):
    """A world with so many actors besides those of the map: half of them vehicles, then props, walkers and sensors."""
    host = episode(map_name, folder=folder, **changes)
    side = math.ceil(math.sqrt(actors))
    kinds = ("vehicle.tesla.model3", "static.prop.streetbarrier", "vehicle.audi.tt", "walker.pedestrian.0001")
    for k in range(actors):
        at = [[2000.0 + 8.0 * (k % side), 2000.0 + 8.0 * (k // side), 1.0], [0.0, 0.0, 0.0]]
        kind = "sensor.other.gnss" if k % 10 == 9 else kinds[k % 4]
        names = {} if kind.startswith("sensor.") else {"role_name": "x" * (4000 if k % 50 == 0 else 10)}
        call(host, "spawn_actor", described(kind, **names), at)
    # The first camera of a map waits for its renderer to be built, which is no part of what a call costs.
    call(host, "destroy_actor", call(host, "spawn_actor", described("sensor.camera.rgb"), TRANSFORM).id)
    return host


def recorded(host, ticks=20):
    """A recording of everybody in a world, in its data folder."""
    call(host, "start_recorder", LOG, True)
    for _ in range(ticks):
        call(host, "tick_cue")
    call(host, "stop_recorder")


def largest_requests(host, share=1.0):
    """The arguments of the largest requests, by method and, where there are several kinds, what is large about each.

    With a ``share`` below 1 long lists have only that part of their length: enough to see what an item costs.
    """
    limits, text = host.context.limits, "x" * host.context.limits.name_characters
    ids = [entry.id for entry in host.actors]
    vehicle, walker, light = (
        next((entry.id for entry in host.actors if entry.type_id.startswith(kind)), ids[0])
        for kind in ("vehicle.", "walker.", "traffic.traffic_light")
    )
    streams = [entry.stream_id for entry in host.actors.all(SensorEntry)]
    lamps = [_plain(lamp) for lamp in host.lamps.states.values()] or [[1, [0.0] * 3, 1.0, 2, [255, 255, 255], True]]
    objects = [thing.id for thing in host.map.objects]
    prop = described("static.prop.streetbarrier")
    absent = [[1, [4_000_000_000]]]
    commands, ids_most = int(share * limits.batch_commands), int(share * IDS_MOST)
    nested = [absent] * (commands // limits.batch_depth // 3)
    for _ in range(limits.batch_depth - 1):
        nested = [absent] * (commands // limits.batch_depth // 3) + [_spawn(prop, nested)]
    every = {
        "add_traffic_manager_running": [[text, 65_535]],
        "apply_ackermann_control_to_vehicle": [vehicle, [1e9] * 5],
        "apply_ackermann_controller_settings": [vehicle, [1e9] * 6],
        "apply_batch: actors that are not there": [[absent] * commands, True],
        "apply_batch: more spawned than there may be": [[_spawn(prop, [])] * commands, False],
        "apply_batch: commands behind commands": [[_spawn(prop, nested)], True],
        "apply_batch: more commands than there may be, behind others": [[_spawn(prop, [absent] * 1000)] * 20, True],
        "apply_batch: what is no command": [[0] * commands, True],
        "apply_control_to_vehicle": [vehicle, [1.0, 1.0, 1.0, True, True, True, 7]],
        "apply_control_to_walker": [walker, [FAR, 1e9, True]],
        "apply_physics_control": [vehicle, _wordy_physics(host, vehicle)],
        "cast_ray": [[-9e8, 0.0, 0.5], [9e8, 0.0, 0.5]],
        "copy_opendrive_to_file": ["<" * limits.opendrive_bytes, [2.0, 50.0, 1.0, 0.6, True, True, True]],
        "draw_debug_shape": [[[4, [FAR, text, True]], [255, 255, 255], -1.0, True]],
        "enable_environment_objects": [(objects + list(range(1, ids_most)))[:ids_most], False],
        "get_actor_bone_names": [walker],
        "get_actor_bone_relative_transforms": [walker],
        "get_actor_bone_world_transforms": [walker],
        "get_bones_transform": [walker],
        "get_actors_by_id: everybody, over and over": [(ids * (ids_most // len(ids) + 1))[:ids_most]],
        "get_actors_by_id: nobody": [list(range(4_000_000_000, 4_000_000_000 + ids_most))],
        "get_all_level_BBs": [255],
        "get_environment_objects": [255],
        "get_sensor_token": [streams[-1] if streams else 1],
        "load_new_episode": ["", True, 0],
        "project_point": [[0.0, 0.0, 9e8], [0.0, 0.0, -1.0], 1e9],
        "replay_file": [LOG, 0.0, 0.0, 0, True, [[0.0] * 3, [0.0] * 3]],
        "request_file": [host.map.navigation[0]],
        "samepath_call": ["c" * 32, 1, "apply_batch", msgpack.packb([["", ""], [absent] * commands, False])],
        "samepath_pace": [1.0, 0],
        "samepath_ticket": ["c" * 32, 1],
        "set_episode_settings": [_plain(write_settings(host.settings))],
        "set_vehicle_light_state": [vehicle, [0xFFFF_FFFF]],
        "set_walker_state": [walker, TRANSFORM, 1e9],
        "set_weather_parameters": [[1e9] * 14],
        "show_recorder_actors_blocked": [LOG, -1e9, 0.0],
        "show_recorder_collisions": [LOG, ord("a"), ord("a")],
        "show_recorder_file_info": [LOG, True],
        "spawn_actor": [_wordy("sensor.camera.rgb", text), TRANSFORM],
        "spawn_actor_with_parent": [_wordy("sensor.camera.rgb", text), TRANSFORM, vehicle, 2, text],
        "update_lights_state": [text, (lamps * 20_000)[: int(share * 40_000)], True],
    }
    samples = {
        "u8": 1, "u16": 65_535, "u32": vehicle, "flag": True, "number": 1e9, "vector": FAR, "large_vector": FAR,
        "transform": TRANSFORM, "text": text,
    }  # fmt: skip
    there = {name.partition(":")[0] for name in every}
    for name, method in methods().items():
        if name not in there:
            lit = "traffic_light" in name or name == "get_light_boxes"
            words = [_word(reader) for reader in method.readers]
            every[name] = [light if lit and word == "u32" else samples[word] for word in words]
    return every


def _spawn(description, after):
    return [[0, [_plain(description), TRANSFORM, [False], 0, "", after]]]


def _wordy(kind, text):
    """A description as long as a message may be; all but the attributes of the blueprint are left out as it is taken."""
    uid, name, attributes = _plain(described(kind, role_name=text))
    return [uid, name, attributes + [[f"{k}{text[:1000]}", 0, text] for k in range(300)]]


def _wordy_physics(host, vehicle):
    """A vehicle's physics with as long a curve as a message may carry."""
    control = _plain(call(host, "get_physics_control", vehicle))
    curve = max((field for field in control if isinstance(field, list) and field and isinstance(field[0], list)), key=len)
    at = control.index(curve)
    return [*control[:at], [[float(k), 400.0] for k in range(1_000)], *control[at + 1 :]]


def _plain(value):
    return msgpack.unpackb(pack(value))


def _word(reader):
    from samepath.simulator.carla import codec, records

    for module in (codec, records):
        for name, value in vars(module).items():
            if value is reader:
                return name
    raise LookupError(f"no sample for {reader}")


@dataclass(frozen=True)
class Cost:
    """What a call cost: bytes of request and answer, the most memory at once, calls of functions, and processor time.

    ``work`` is the processor time in units of a loop of a million additions, made just before: it counts what compiled code
    does, too, and hardly depends on the machine.
    """

    request_bytes: int
    answer_bytes: int
    peak_bytes: int
    calls: int
    work: float
    failed: str


@dataclass(frozen=True)
class Ceiling:
    """What a call may cost at most, see :class:`Cost`."""

    peak_bytes: int
    calls: int
    work: float


MIB = 1 << 20
ANY = Ceiling(3 * MIB, 12_000, 15.0)
"""Of every call, whatever it is. To it comes what a list in the request may cost, for those who look at everybody, more."""
_GLANCE, _LOOK, _TICK = Ceiling(64, 5, 0.001), Ceiling(1024, 100, 0.02), Ceiling(4096, 250, 0.1)
PER_ACTOR = {
    "apply_batch": _TICK,
    "destroy_actor": _GLANCE,
    "get_actors_by_id": _LOOK,
    "get_all_level_BBs": _LOOK,
    "get_group_traffic_lights": _GLANCE,
    "get_sensor_token": _GLANCE,
    "get_vehicle_light_states": _GLANCE,
    "load_new_episode": _TICK,
    "tick_cue": _TICK,
    # Twenty ticks of everybody are in the recording.
    "replay_file": Ceiling(16_384, 2000, 0.5),
    "show_recorder_actors_blocked": Ceiling(16_384, 2000, 0.5),
    "show_recorder_collisions": Ceiling(16_384, 2000, 0.5),
    "show_recorder_file_info": Ceiling(16_384, 3000, 0.5),
}
"""What an actor in the world adds, by method: a glance, a look, a tick. All others must not notice how many there are."""
CEILINGS = {
    "apply_batch: actors that are not there": Ceiling(32 * MIB, 1_000_000, 250.0),
    "apply_batch: more spawned than there may be": Ceiling(64 * MIB, 6_000_000, 3000.0),
    "apply_batch: commands behind commands": Ceiling(32 * MIB, 1_000_000, 250.0),
    "apply_batch: more commands than there may be, behind others": Ceiling(64 * MIB, 1_000_000, 250.0),
    "apply_batch: what is no command": Ceiling(32 * MIB, 1_000_000, 250.0),
    "copy_opendrive_to_file": Ceiling(1024 * MIB, 1_000_000, 500.0),  # most of it in a child, with limits of its own
    "enable_environment_objects": Ceiling(32 * MIB, 500_000, 100.0),
    "get_actors_by_id: everybody, over and over": Ceiling(64 * MIB, 1_000_000, 250.0),
    "get_actors_by_id: nobody": Ceiling(32 * MIB, 1_000_000, 250.0),
    "samepath_call": Ceiling(64 * MIB, 1_000_000, 250.0),
    "update_lights_state": Ceiling(64 * MIB, 3_000_000, 600.0),
}
"""What the longest list that a request may hold costs, by request; without one it is only what every call may cost."""


def ceiling_of(name, actors, share=1.0):
    """The ceiling of a request in a world of so many actors, with lists of that share of their length."""
    nothing = Ceiling(0, 0, 0.0)
    own, each = CEILINGS.get(name, nothing), PER_ACTOR.get(name.partition(":")[0], nothing)
    return Ceiling(
        int(ANY.peak_bytes + actors * each.peak_bytes + share * own.peak_bytes),
        int(ANY.calls + actors * each.calls + share * own.calls),
        ANY.work + actors * each.work + share * own.work,
    )


def cost_of(host, name, arguments):
    """Make a call as the server would, from the bytes of the message to those of the answer."""
    name = name.partition(":")[0]
    message = msgpack.packb([0, 7, name, [["", ""], *_plain(arguments)]])
    assert len(message) <= host.context.limits.message_bytes
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    def run():
        method = methods()[name]
        request = parse(message, host.context.limits)
        try:
            read = method.read(request.arguments) if method.handler is not None else ()
        except WireError as error:
            return str(error), len(method.error(str(error)))
        caller = Somebody()
        try:
            return "", len(method.result(method.call(host, Sender(caller, caller.home), read)))
        except Exception as error:
            words = method.words(error, host.context.log)
            return words, len(method.error(words))

    gc.disable()  # what is collected meanwhile was somebody else's
    unit_s = _unit_s()
    tracemalloc.start()
    sys.setprofile(count)
    start_s = time.thread_time()
    try:
        failed, answer_bytes = run()
    finally:
        spent_s = time.thread_time() - start_s
        sys.setprofile(None)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.enable()
    return Cost(len(message), answer_bytes, peak_bytes, calls, spent_s / unit_s, failed)


def _unit_s():
    start_s = time.thread_time()
    total = 0
    for k in range(200_000):
        total += k
    return 5.0 * (time.thread_time() - start_s)
