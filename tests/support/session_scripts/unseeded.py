import random

import carla
from drive import connect, spawn

client, world = connect()
car = spawn(world)
for _ in range(10):
    throttle = random.random()
    car.apply_control(carla.VehicleControl(throttle=throttle))
    world.tick()
