"""Everything at once, done as it should be: traffic manager, walkers, sensors, a reload, batches."""

import queue
import sys

import carla
from drive import connect, spawn

client, world = connect()
world = client.reload_world(False)
world.reset_all_traffic_lights()
manager = client.get_trafficmanager(int(sys.argv[1]))
manager.set_synchronous_mode(True)
manager.set_random_device_seed(1)
world.set_pedestrians_seed(1)
library = world.get_blueprint_library()
points = world.get_map().get_spawn_points()
model = library.find("vehicle.tesla.model3")
autopilot = carla.command.SetAutopilot(carla.command.FutureActor, True, manager.get_port())
batch = [carla.command.SpawnActor(model, point).then(autopilot) for point in points[1:5]]
answers = client.apply_batch_sync(batch, True)
ego = spawn(world)
seen, sensors = queue.Queue(), []
for name in ("sensor.other.imu", "sensor.other.gnss", "sensor.other.collision"):
    sensors.append(world.spawn_actor(library.find(name), carla.Transform(), attach_to=ego))
    sensors[-1].listen(seen.put)
at = world.get_random_location_from_navigation()
walker = at and world.try_spawn_actor(library.filter("walker.pedestrian.*")[0], carla.Transform(at))
if walker:
    guide = world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), walker)
    world.tick()
    guide.start()
    guide.go_to_location(world.get_random_location_from_navigation())
for step in range(40):
    ego.apply_control(carla.VehicleControl(throttle=0.6, steer=0.002 * step))
    world.tick()
    [seen.get(timeout=60) for _ in range(2)]
client.apply_batch([carla.command.DestroyActor(answer.actor_id) for answer in answers])
for sensor in sensors:
    sensor.destroy()
manager.set_synchronous_mode(False)
settings = world.get_settings()
settings.synchronous_mode = False
world.apply_settings(settings)
