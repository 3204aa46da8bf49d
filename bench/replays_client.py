"""One session of CARLA's own client for ``bench replays``: traffic manager, walkers with their controllers, sensors, ticks.

``python bench/replays_client.py PORT SEED TICKS sync|async``; prints how many sensor messages it got.
"""

import socket
import sys
import time

import carla

SENSORS = {
    "sensor.camera.rgb": {"image_size_x": "64", "image_size_y": "48"},
    "sensor.lidar.ray_cast": {"channels": "8", "points_per_second": "8000"},
    "sensor.other.imu": {},
    "sensor.other.gnss": {},
    "sensor.other.collision": {},
}


def listen(world: carla.World, car: carla.Actor, got: list[int]) -> list[carla.Actor]:
    """Put all sensors on a car, and note the frames of what they send."""
    sensors = []
    for kind, attributes in SENSORS.items():
        blueprint = world.get_blueprint_library().find(kind)
        for name, value in attributes.items():
            blueprint.set_attribute(name, value)
        place = carla.Transform(carla.Location(1.0, 0.0, 1.8))
        sensors.append(world.spawn_actor(blueprint, place, attach_to=car))
        sensors[-1].listen(lambda data: got.append(data.frame))
    return sensors


def main() -> None:
    """Drive a session."""
    port, seed, ticks = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    synchronous = sys.argv[4] == "sync"
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(120.0)
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode = synchronous
    settings.fixed_delta_seconds = 0.05 if synchronous else None
    world.apply_settings(settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        manager_port = free.getsockname()[1]
    manager = client.get_trafficmanager(manager_port)
    manager.set_synchronous_mode(synchronous)
    manager.set_random_device_seed(seed)
    library, spots = world.get_blueprint_library(), world.get_map().get_spawn_points()
    cars = library.filter("vehicle.*.*")
    vehicles = []
    for number in range(8):
        found = world.try_spawn_actor(cars[(7 * number + seed) % len(cars)], spots[(3 * number + seed) % len(spots)])
        if found is not None:
            found.set_autopilot(True, manager.get_port())
            vehicles.append(found)
    walkers = []
    world.set_pedestrians_seed(seed)
    for number in range(4):
        place = world.get_random_location_from_navigation()
        if place is None:
            continue
        place.z += 1.0
        walker = world.try_spawn_actor(library.filter("walker.pedestrian.*")[number], carla.Transform(place))
        if walker is not None:
            walkers.append((walker, world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), walker)))
    got: list[int] = []
    sensors = listen(world, vehicles[0], got)
    go_on = world.tick if synchronous else world.wait_for_tick
    go_on()
    for _, controller in walkers:
        controller.start()
        target = world.get_random_location_from_navigation()
        if target is not None:
            controller.go_to_location(target)
        controller.set_max_speed(1.4)
    for _ in range(ticks):
        go_on()
    for sensor in sensors:
        sensor.stop()
    for _, controller in walkers:
        controller.stop()
    manager.set_synchronous_mode(False)
    settings.synchronous_mode = False
    world.apply_settings(settings)
    time.sleep(0.2)
    print(f"{len(vehicles)} {len(walkers)} {len(got)}", flush=True)


if __name__ == "__main__":
    main()
