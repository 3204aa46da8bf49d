"""A short drive by CARLA's own client in rain at dusk; prints a digest per message. Arguments: port, width, height, ticks.

Frames and times are counted from the first tick; ids of actors are left out. Everything else is what the sensors sent.
"""

import hashlib
import json
import math
import queue
import sys

import carla
import numpy as np
from wheel_scripts import car, connect  # in the same folder: it is run as a script

EVENT = np.dtype([("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("pol", "u1")])
CAMERAS = ("dvs", "rgb", "depth", "semantic_segmentation", "normals", "optical_flow")
NOISY = {
    "sensor.lidar.ray_cast": {"noise_stddev": "0.02", "range": "60"},
    "sensor.other.gnss": {"noise_alt_stddev": "1.0", "sensor_tick": "0.12"},
    "sensor.other.imu": {"noise_accel_stddev_x": "0.3"},
    "sensor.other.radar": {},
}


def content(kind, data, before_ns):
    """Return a measurement as bytes; the times of events count from the image before."""
    if kind == "sensor.other.gnss":
        return repr((data.latitude, data.longitude, data.altitude)).encode()
    if kind == "sensor.other.imu":
        readings = data.accelerometer, data.gyroscope
        return repr([*((vector.x, vector.y, vector.z) for vector in readings), data.compass]).encode()
    raw = bytes(data.raw_data)
    if kind == "sensor.camera.dvs":
        events = np.frombuffer(raw, EVENT).copy()
        events["t"] -= before_ns
        return events.tobytes()
    return raw


def drive(port, width, height, count):
    _, world = connect(port)
    weather = carla.WeatherParameters(
        cloudiness=90.0,
        precipitation=80.0,
        precipitation_deposits=70.0,
        wetness=70.0,
        sun_altitude_angle=-2.0,
    )
    world.set_weather(weather)
    vehicle = car(world)
    image = {"image_size_x": str(width), "image_size_y": str(height)}
    kinds = {**{f"sensor.camera.{name}": image for name in CAMERAS}, **NOISY}
    heard, sensors = {}, []
    where = carla.Transform(carla.Location(x=0.8, z=1.7))
    for kind, attributes in kinds.items():
        blueprint = world.get_blueprint_library().find(kind)
        for name, value in attributes.items():
            blueprint.set_attribute(name, value)
        heard[kind] = queue.Queue()
        sensors.append(world.spawn_actor(blueprint, where, attach_to=vehicle))
        sensors[-1].listen(heard[kind].put)
    vehicle.apply_control(carla.VehicleControl(throttle=1.0, steer=0.2))
    first, time_s = None, {}
    for _ in range(count):
        frame = world.tick()
        first = frame if first is None else first
        time_s[frame] = world.get_snapshot().timestamp.elapsed_seconds
    found = {}
    for kind in kinds:
        found[kind] = []
        while True:
            data = heard[kind].get(timeout=120)
            before_ns = math.floor(time_s.get(data.frame - 1, 0.0) * 1e9 + 0.5)
            digest = hashlib.blake2b(content(kind, data, before_ns), digest_size=16).hexdigest()
            found[kind].append([data.frame - first, data.timestamp - time_s[first], digest])
            last = first + count - 1
            if data.frame == last or (kind == "sensor.other.gnss" and data.frame > last - 2):
                break
    for sensor in sensors:
        sensor.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(drive(*(int(word) for word in sys.argv[1:]))))
