"""A drive with an event camera and a colour camera at one place, by CARLA's own client; prints JSON. Argument: the port."""

import base64
import json
import queue
import sys

import carla
from wheel_scripts import car, connect  # beside this file: it is run as a script

ATTRIBUTES = {"image_size_x": "90", "image_size_y": "60", "positive_threshold": "0.2", "negative_threshold": "0.25"}
TICKS = 12


def drive(port):
    _, world = connect(port)
    vehicle = car(world)
    found, sensors = {}, []
    where = carla.Transform(carla.Location(x=0.4, z=1.7), carla.Rotation(pitch=-5))
    for kind in ("dvs", "rgb"):
        blueprint = world.get_blueprint_library().find(f"sensor.camera.{kind}")
        for key, value in ATTRIBUTES.items():
            if blueprint.has_attribute(key):
                blueprint.set_attribute(key, value)
        found[kind] = queue.Queue()
        sensors.append(world.spawn_actor(blueprint, where, attach_to=vehicle))
        sensors[-1].listen(found[kind].put)
    vehicle.apply_control(carla.VehicleControl(throttle=1.0, steer=0.4))
    for _ in range(TICKS):
        world.tick()
    pictures = [found["rgb"].get(timeout=60) for _ in range(TICKS)]
    world.tick()
    last = found["rgb"].get(timeout=60).frame
    changes = []
    while True:
        image = found["dvs"].get(timeout=60)
        if image.frame == last:
            break
        changes.append(image)
    for sensor in sensors:
        sensor.stop()
    return {
        "pictures": [[picture.frame, picture.timestamp, base64.b64encode(picture.raw_data).decode()] for picture in pictures],
        "changes": [
            [
                change.frame,
                change.timestamp,
                change.width,
                change.height,
                [[event.x, event.y, event.t, bool(event.pol)] for event in change],
            ]
            for change in changes
        ],
    }


if __name__ == "__main__":
    print(json.dumps(drive(int(sys.argv[1]))))
