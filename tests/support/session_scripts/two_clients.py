import subprocess
import sys
import time

import carla
from drive import connect, spawn

if len(sys.argv) > 2:
    client, world = connect(synchronous=False)
    car = world.get_actor(int(sys.argv[2]))
    for step in range(10):
        car.apply_control(carla.VehicleControl(throttle=0.5, steer=0.01 * step))
        time.sleep(0.01)
else:
    client, world = connect()
    car = spawn(world)
    world.tick()
    other = subprocess.Popen([sys.executable, __file__, sys.argv[1], str(car.id)])
    while other.poll() is None:
        world.tick()
        time.sleep(0.005)
