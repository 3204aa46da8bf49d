"""CARLA's clients of several versions against ``samepath serve``: each does the same things in its own protocol.

``python -m tests.compatibility.clients PYTHON...``, where each PYTHON is an interpreter with a ``carla`` wheel installed
(0.9.15 and 0.9.14 are on PyPI for Python 3.7 and 3.8, 0.9.15 also for 3.9 and 3.10). The version is asked of the wheel, and the
server started with ``--protocol``. A wheel older than 0.9.14 must be refused in words.

No sensor listens when a batch ticks: ``apply_batch_sync(..., True)`` waits for the state of the tick and keeps Python's lock
meanwhile, which callbacks of sensors want; where they take all of the client's threads (two sensors on two cores), nobody is
left to take the state, and the call runs into its time-out. That is so with any server, one time in ten on a busy machine.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

PORT = 3780
SERVED = ("0.9.16", "0.9.15", "0.9.14")
LONGEST_S = 300.0

# Runs in the other interpreter; a line for each thing that worked.
SCRIPT = """
import os, queue, sys, carla
port = int(sys.argv[1])
client = carla.Client("127.0.0.1", port)
client.set_timeout(30.0)
world = client.get_world()
print("world", world.get_map().name.split("/")[-1], flush=True)
settings = world.get_settings()
settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
world.apply_settings(settings)
library, places = world.get_blueprint_library(), world.get_map().get_spawn_points()
blueprint = library.find("vehicle.tesla.model3")
blueprint.set_attribute("color", "10,20,30")
assert blueprint.get_attribute("number_of_wheels").as_int() == 4
car = world.spawn_actor(blueprint, places[0])
world.tick()
assert car.attributes["color"] == "10,20,30" and car.get_location().distance(places[0].location) < 1.0
print("spawn", flush=True)
later = carla.command.SpawnActor(library.find("vehicle.audi.a2"), places[5])
answers = client.apply_batch_sync([later.then(carla.command.SetAutopilot(carla.command.FutureActor, True, port + 7))], True)
assert not answers[0].error
frames, scans = queue.Queue(), queue.Queue()
camera = library.find("sensor.camera.rgb")
camera.set_attribute("image_size_x", "160")
camera.set_attribute("image_size_y", "120")
up = carla.Transform(carla.Location(z=2.0))
first = world.spawn_actor(camera, up, attach_to=car)
first.listen(frames.put)
second = world.spawn_actor(library.find("sensor.lidar.ray_cast"), up, attach_to=car)
second.listen(scans.put)
for _ in range(5):
    world.tick()
image = frames.get(timeout=120.0)
assert (image.width, image.height) == (160, 120) and len(scans.get(timeout=120.0)) > 0
print("camera, lidar", flush=True)
manager = client.get_trafficmanager(port + 7)
manager.set_synchronous_mode(True)
manager.set_random_device_seed(7)
car.set_autopilot(True, port + 7)
for _ in range(200):
    world.tick()
assert car.get_location().distance(places[0].location) > 5.0
print("batch, traffic manager", flush=True)
there = carla.Transform(world.get_random_location_from_navigation())
walker = world.spawn_actor(library.filter("walker.pedestrian.*")[0], there)
controller = world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), walker)
world.tick()
controller.start()
controller.go_to_location(world.get_random_location_from_navigation())
start = walker.get_location()
for _ in range(40):
    world.tick()
assert walker.get_location().distance(start) > 0.5
print("walker", flush=True)
client.start_recorder("clients.log")
world.tick()
client.stop_recorder()
assert "Replaying" in client.replay_file("clients.log", 0, 0, 0)
print("recorder", flush=True)
os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", type=Path, help="interpreters with a carla wheel")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    table = Table("carla", "protocol", "result", box=None)
    good = True
    results: dict[str, object] = {}
    for python in arguments.pythons:
        version, language = _versions(python)
        protocol = version if version in SERVED else SERVED[0]
        passed, words = run(python, protocol, arguments.port, refused=version not in SERVED)
        good = good and passed
        table.add_row(version, protocol, words)
        results[version] = {"python": language, "protocol": protocol, "good": passed, "words": words}
    Console(width=140).print(table)
    if arguments.save:
        save("clients", {"clients": results}, ["python", "-m", "tests.compatibility.clients", "PYTHON..."])
    return 0 if good else 1


def _versions(python: Path) -> tuple[str, str]:
    """Of the client, and of Python."""
    asked = "import carla, platform; print(carla.Client('127.0.0.1', 1).get_client_version(), platform.python_version())"
    done = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True, timeout=60)
    client, language = done.stdout.split()
    return client, language


def run(python: Path, protocol: str, port: int, *, refused: bool) -> tuple[bool, str]:
    """Did a client do everything, or was it told that it is too old? And what it said."""
    with serving(port, ["--map", "t-junction", "--protocol", protocol]):
        done = subprocess.run(
            [str(python), "-c", SCRIPT, str(port)], check=False, capture_output=True, text=True, timeout=LONGEST_S
        )
    said = ", ".join(line for line in done.stdout.splitlines() if "WARNING" not in line)
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip() and "WARNING" not in line), "")
    if refused:
        return "older than CARLA 0.9.14" in last, f"refused: {last[:300]}"
    return done.returncode == 0 and said.endswith("recorder"), said if done.returncode == 0 else f"{said}; {last[:90]}"


if __name__ == "__main__":
    sys.exit(main())
