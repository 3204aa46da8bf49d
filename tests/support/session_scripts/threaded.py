import threading
import time

import carla
from drive import connect, spawn

client, world = connect()
car = spawn(world)
over = threading.Event()


def drive():
    step = 0
    while not over.is_set():
        step += 1
        car.apply_control(carla.VehicleControl(throttle=0.5, steer=0.01 * step))
        time.sleep(0.003)


driver = threading.Thread(target=drive, name="driver")
driver.start()
for _ in range(30):
    world.tick()
over.set()
driver.join()
