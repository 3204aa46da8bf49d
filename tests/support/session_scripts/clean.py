import random

import carla
from drive import connect, spawn

random.seed(7)
client, world = connect()
car = spawn(world)
for _ in range(10):
    car.apply_control(carla.VehicleControl(throttle=random.random()))
    world.tick()
settings = world.get_settings()
settings.synchronous_mode = False
world.apply_settings(settings)
car.destroy()
