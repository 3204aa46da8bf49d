"""Scripts about sensors for CARLA's own client, run as ``python wheel_sensor_scripts.py NAME PORT``; each prints JSON."""

import hashlib
import json
import queue
import sys

import carla
from wheel_scripts import car, connect, refused  # beside this file: it is run as a script

PICTURE = {"image_size_x": "90", "image_size_y": "60"}
KINDS = {
    **{f"sensor.camera.{kind}": PICTURE for kind in ("rgb", "depth", "semantic_segmentation", "instance_segmentation")},
    **{f"sensor.camera.{kind}": PICTURE for kind in ("normals", "optical_flow", "dvs")},
    "sensor.lidar.ray_cast": {"range": "40", "sensor_tick": "0.15"},
    "sensor.lidar.ray_cast_semantic": {"range": "40"},
    "sensor.other.gnss": {},
    "sensor.other.imu": {"sensor_tick": "0.1"},
    "sensor.other.obstacle": {"distance": "50", "hit_radius": "3", "sensor_tick": "0.1"},
    "sensor.other.radar": {"sensor_tick": "0.05"},
}
EVENTS = "sensor.camera.dvs"
TICKS = 12


def mounted(world, vehicle, kind, attributes, where=None):
    blueprint = world.get_blueprint_library().find(kind)
    for key, value in attributes.items():
        blueprint.set_attribute(key, value)
    where = where or carla.Transform(carla.Location(x=2.6, y=0.2, z=1.4), carla.Rotation(pitch=-4, yaw=7))
    return world.spawn_actor(blueprint, where, attach_to=vehicle)


def numbers(transform):
    at, turn = transform.location, transform.rotation
    return [at.x, at.y, at.z, turn.pitch, turn.yaw, turn.roll]


def exact(port):
    """Every measurement of every sensor beside the snapshot of its frame, from the very first tick on."""
    _, world = connect(port)
    vehicle = car(world)
    ahead = vehicle.get_transform()
    ahead.location += 12.0 * ahead.get_forward_vector()
    sensors, arrived = {}, queue.Queue()
    for kind, attributes in KINDS.items():
        sensors[kind] = mounted(world, vehicle, kind, attributes)
        sensors[kind].listen(lambda data, kind=kind: arrived.put((kind, data)))
    other = world.spawn_actor(world.get_blueprint_library().find("vehicle.audi.tt"), ahead)
    vehicle.apply_control(carla.VehicleControl(throttle=0.9, steer=0.3))
    began, told, moved, wanted = world.get_snapshot().frame, {kind: [] for kind in KINDS}, [], {}
    for _ in range(TICKS):
        frame = world.tick()
        snapshot = world.get_snapshot()
        wanted[frame] = (
            {kind: numbers(snapshot.find(item.id).get_transform()) for kind, item in sensors.items()},
            snapshot.timestamp.elapsed_seconds,
        )
        moved.append(wanted[frame][0]["sensor.other.gnss"])
    due = {kind: len(range(0, TICKS, round(float(item.get("sensor_tick", 0.05)) / 0.05))) for kind, item in KINDS.items()}
    due.pop(EVENTS)  # speaks when something changed
    left = sum(due.values())
    while left:
        kind, data = arrived.get(timeout=60)
        transforms, elapsed_s = wanted[data.frame]
        same = numbers(data.transform) == transforms[kind] and data.timestamp == elapsed_s
        told[kind].append([data.frame - began, same])
        left -= kind in due
    for item in sensors.values():
        item.stop()
    world.tick()
    more = 0
    while not arrived.empty():
        more += arrived.get()[0] in due
    return {
        "told": told,
        "due": due,
        "more": more,
        "places": len({tuple(item) for item in moved}),
        "other": other.id,
    }


def listeners(port):
    """Three clients that listen to one camera; one leaves, and comes back. (Twice in one client, its library aborts.)"""
    _, world = connect(port)
    vehicle = car(world)
    sensor = mounted(world, vehicle, "sensor.camera.rgb", PICTURE)
    world.tick()
    others = [connect(port, synchronous=False) for _ in range(2)]
    ears = [sensor, *(other.get_actor(sensor.id) for _, other in others)]
    heard = [queue.Queue() for _ in ears]
    vehicle.apply_control(carla.VehicleControl(throttle=0.9))

    def gather(count, who):
        frames = [world.tick() for _ in range(count)]
        found = []
        for number in who:
            got = [heard[number].get(timeout=60) for _ in range(count)]
            chain = hashlib.blake2b()
            for item in got:
                chain.update(bytes(item.raw_data))
            found.append([[item.frame for item in got] == frames, chain.hexdigest()])
        return found

    for ear, waiting in zip(ears, heard, strict=True):
        ear.listen(waiting.put)
    together = gather(6, range(3))
    ears[1].stop()
    without = gather(4, (0, 2))
    silent = heard[1].qsize()
    ears[1].listen(heard[1].put)
    again = gather(4, range(3))
    for ear in ears:
        ear.stop()
    return {"together": together, "without": without, "silent": silent, "again": again}


def limits(port):
    """What is out of range, one by one; then something within it."""
    _, world = connect(port)
    vehicle = car(world)
    wrong = json.loads(sys.stdin.read())
    said = []
    for kind, name, value in wrong:
        said.append(refused(lambda kind=kind, name=name, value=value: mounted(world, vehicle, kind, {name: value})))
    seen = queue.Queue()
    sensor = mounted(world, vehicle, "sensor.camera.depth", PICTURE)
    sensor.listen(seen.put)
    frame = world.tick()
    return {"said": said, "alive": seen.get(timeout=60).frame == frame}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]))))
