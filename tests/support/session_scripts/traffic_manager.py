import sys

from drive import connect, spawn

client, world = connect()
manager = client.get_trafficmanager(int(sys.argv[1]))
manager.set_random_device_seed(1)
cars = [spawn(world, place) for place in range(3)]
for car in cars:
    car.set_autopilot(True, manager.get_port())
for _ in range(30):
    world.tick()
