import time

import carla
from drive import connect, spawn

client, world = connect(synchronous=False)
car = spawn(world)
car.apply_control(carla.VehicleControl(throttle=0.8))
time.sleep(0.4)
car.apply_control(carla.VehicleControl(brake=1.0))
time.sleep(0.2)
car.destroy()
