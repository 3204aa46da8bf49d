"""Prints a digest of every kind of sensor, in a rig and on the wire; run in processes of its own. Argument: how many threads.

The rig rides through a scenario; on the wire a car drives into another one, so that every sensor has something to say.
"""

import hashlib
import json
import struct
import sys

from samepath.instrument.traces.records import frame_of
from samepath.scenarios.model import load_scenario
from samepath.simulator.sensors.rig import SENSOR_KINDS, MountedSensor, Rig, SensorSuite, boxes_of
from samepath.simulator.server.sensors import SENSOR_MODELS
from samepath.simulator.simulation import Simulation
from tests.support.serving import call, described, episode, ticks

SCENARIO, RIG_TICKS, WIRE_TICKS = "table1-test2", 12, 24
SILENT = "sensor.other.lane_invasion"  # the client works it out by itself
PICTURE = {"image_size_x": 120, "image_size_y": 80, "fov": 80}
SCAN = {"channels": 16, "range": 60.0, "points_per_second": 160_000, "rotation_frequency": 20.0}
NOISY = {
    "sensor.camera.dvs": {**PICTURE, "sigma_positive_threshold": 0.05, "sigma_negative_threshold": 0.05},
    "sensor.lidar.ray_cast": {**SCAN, "noise_stddev": 0.02, "noise_seed": 11},
    "sensor.lidar.ray_cast_semantic": SCAN,
    "sensor.other.gnss": {"noise_lat_stddev": 1e-4, "noise_lon_bias": 1e-5, "noise_alt_stddev": 1.0, "noise_seed": 12},
    "sensor.other.imu": {f"noise_{kind}_stddev_{axis}": 0.3 for kind in ("accel", "gyro") for axis in "xyz"},
    "sensor.other.obstacle": {"distance": 60.0, "hit_radius": 0.3},
    "sensor.other.radar": {"points_per_second": 8000, "noise_seed": 13},
}


def in_order(kinds):
    """Cameras last: one more of them then moves no other sensor's noise."""
    return sorted(kinds, key=lambda kind: (".camera." in kind, kind))


def given(kind):
    return NOISY.get(kind, PICTURE if ".camera." in kind else {})


def in_a_rig(threads, renderer="software"):
    """What every kind of sensor measures on a car of a scenario."""
    sensors = tuple(
        MountedSensor(name=kind.rpartition(".")[2], type=kind, at=(0.6, 0.1, 1.7), pitch=-3.0, yaw=2.0, attributes=given(kind))
        for kind in in_order(SENSOR_KINDS)
    )
    simulation = Simulation(load_scenario(SCENARIO))
    suite = SensorSuite(
        Rig(name="all", sensors=sensors),
        simulation.world,
        boxes=boxes_of(simulation.scenario),
        threads=threads,
        renderer=renderer,
    )
    found = {kind: hashlib.blake2b(digest_size=16) for kind in SENSOR_KINDS}
    for _ in range(RIG_TICKS):
        simulation.step()
        suite.follow()
        for measurement in suite.measure(simulation.commands):
            frame = frame_of(
                simulation.world.tick_count, measurement.sensor.name, measurement.sensor.type, measurement.values, keep=False
            )
            found[measurement.sensor.type].update(frame.digest)
    suite.close()
    simulation.close()
    return {kind: found[kind].hexdigest() for kind in sorted(found)}


def on_the_wire():
    """The messages of every kind of sensor, headers included, as a client gets them."""
    host = episode("oval")
    nowhere = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    own, other = (
        call(host, "spawn_actor", described(name), ((34.0, y, 0.3), (0.0, yaw, 0.0))).id
        for name, y, yaw in (("vehicle.tesla.model3", -200.0, 90.0), ("vehicle.audi.tt", -190.0, -90.0))
    )
    ticks(host, 10)
    streams = {}
    for kind in in_order(set(SENSOR_MODELS) - {SILENT}):
        where = nowhere if kind == "sensor.other.collision" else ((2.4, 0.1, 1.2), (-3.0, 2.0, 0.0))
        sensor = call(host, "spawn_actor_with_parent", described(kind, **given(kind)), where, own, 0, "")
        streams[kind] = struct.unpack("<I", sensor.stream_token[:4])[0]
        call(host, "get_sensor_token", streams[kind])
    call(host, "set_actor_target_velocity", own, [0.0, 9.0, 0.0])
    call(host, "set_actor_target_velocity", other, [0.0, -6.0, 0.0])
    ticks(host, WIRE_TICKS)
    found = {}
    for kind, stream_id in sorted(streams.items()):
        sent = host.context.outbox.of(stream_id)
        if not sent:
            raise SystemExit(f"{kind} said nothing: {host.context.outbox.lines}")
        found[kind] = hashlib.blake2b(b"".join(sent), digest_size=16).hexdigest()
    return found


def digests(threads):
    return {"rig": in_a_rig(threads), "wire": on_the_wire()}


if __name__ == "__main__":
    print(json.dumps(digests(int(sys.argv[1]))))
