"""Two cars and their radios, by CARLA's own client; prints JSON. Argument: the port."""

import json
import queue
import sys

import carla
from wheel_scripts import connect  # beside this file: it is run as a script

TICKS = 40
FAST = 300  # cm/s: the test wants to hear of that


def speed(message):
    container = message["Message"]["CAM Parameters"]["High Frequency Container"]
    return container["Basic Vehicle Container High Frequency"]["Speed"]["Value"]


def talk(port):
    _, world = connect(port)
    library, places = world.get_blueprint_library(), world.get_map().get_spawn_points()
    cars = [world.spawn_actor(library.find("vehicle.tesla.model3"), places[number]) for number in (0, 1)]
    world.tick()
    found, sensors = {}, []
    for kind in ("v2x", "v2x_custom"):
        blueprint = library.find(f"sensor.other.{kind}")
        found[kind] = queue.Queue()
        pair = [world.spawn_actor(blueprint, carla.Transform(), attach_to=car) for car in cars]
        pair[1].listen(found[kind].put)
        sensors.append(pair)
    mast = carla.Transform(places[1].location + carla.Location(z=5.0))
    roadside = world.spawn_actor(library.find("sensor.other.v2x"), mast)
    cars[0].apply_control(carla.VehicleControl(throttle=1.0))
    world.tick()
    sensors[1][0].send("mind the gap")
    for _ in range(TICKS):
        world.tick()
    text = next(iter(found["v2x_custom"].get(timeout=60)))
    said = []
    # Over a stream of its own: when the last tick is over, what was said last may be on its way.
    while not found["v2x"].empty() or not said or speed(said[-1][1]) <= FAST:
        event = found["v2x"].get(timeout=60)
        for message in event:
            content = message.get()["Message"]
            if content["Header"]["Station ID"] == roadside.id:
                beside = content
            else:
                said.append([event.frame, content, message.power])
    return {
        "cars": [car.id for car in cars], "text": [text.get()["Message"], text.power], "said": said,
        "roadside": roadside.id, "beside": beside,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(talk(int(sys.argv[1]))))
