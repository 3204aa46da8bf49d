import time

import carla
from drive import connect, spawn

client, world = connect()
car = spawn(world)
start = time.time()
for _ in range(10):
    car.apply_control(carla.VehicleControl(throttle=min(1.0, 10 * (time.time() - start))))
    world.tick()
