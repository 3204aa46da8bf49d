"""``samepath serve`` under CARLA's own client, on both large maps: round trips, ticks, pictures and batches per second.

The server has one core and the client another, where there are two. Vehicles are parked, drive in circles, or are driven by the
traffic manager of CARLA's client, which takes more of the client's core than the server takes of its own.
"""

import os
import queue
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from bench.tools import best_s, save, show, verdict

MAPS = ("town", "oval")
# Ticks a second with so many vehicles that drive, and pictures a second; of ``town``.
TICK_AIMS = {10: 1200.0, 100: 250.0}
CAMERA_AIMS = {(800, 600): 150.0, (1920, 1080): 45.0}
COUNTS = (10, 100)
MANY = 300
# CARLA's own figures (its documentation: physics and traffic manager on, no rendering, GTX 1080 Ti), frames per second.
CARLA_TICKS = {10: 98.0, 100: 15.0}
STEP_M = 20.0


@contextmanager
def serving(map_name: str = "oval", *, apart: bool = True) -> Iterator[int]:
    """Run a server on one core and this process on another, where there are two, unless told otherwise; yields the port."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--map", map_name, "--data", folder]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        own, cores = psutil.Process(), psutil.Process().cpu_affinity()
        try:
            lines = server.stderr or ()
            found = next((match for line in lines if (match := re.search(r":(\d+), streams", line))), None)
            if found is None:
                raise RuntimeError("the server did not start")
            if apart:
                psutil.Process(server.pid).cpu_affinity(cores[:1])
                own.cpu_affinity(cores[1:] or cores)
            yield int(found[1])
        finally:
            own.cpu_affinity(cores)
            server.terminate()
            server.wait(20)
            if server.stderr:
                server.stderr.close()


def main() -> bool:
    """Measure; return whether the aims were met."""
    os.environ.setdefault("CARLA_CACHE_DIR", tempfile.mkdtemp())
    try:
        import carla
    except ImportError:
        print("server: CARLA's client is not installed; nothing was measured")
        return True
    figures: dict[str, Any] = {"maps": {}}
    for map_name in MAPS:
        with serving(map_name) as port:
            client = carla.Client("127.0.0.1", port)
            client.set_timeout(120.0)
            _synchronous(client.get_world())
            figures["round_trips_per_s"] = per_s(client.get_server_version, 1000)
            figures["maps"][map_name] = {
                "0": per_s(client.get_world().tick, 500),
                "parked": {str(count): _ticks(carla, client, count, "parked") for count in COUNTS},
                "driving": {str(count): _ticks(carla, client, count, "driving") for count in COUNTS},
                "traffic manager": {str(count): _ticks(carla, client, count, "managed") for count in COUNTS},
                "camera": {f"{width} x {height}": _pictures(carla, client, width, height) for width, height in CAMERA_AIMS},
            }
            if map_name == "oval":
                ids = _fill(carla, client, MANY, driving=True)
                batch = [
                    carla.command.ApplyVehicleControl(number, carla.VehicleControl(throttle=0.2, steer=0.8)) for number in ids
                ]
                figures["batch_300_and_tick_per_s"] = per_s(lambda: client.apply_batch_sync(batch, True), 30)  # noqa: B023
    town = figures["maps"]["town"]
    aims = {f"driving, {count}": (town["driving"][str(count)], aim) for count, aim in TICK_AIMS.items()}
    aims |= {f"camera, {w} x {h}": (town["camera"][f"{w} x {h}"], aim) for (w, h), aim in CAMERA_AIMS.items()}
    rows = [["round trips (version)", "", f"{figures['round_trips_per_s']:,.0f}", "", ""]]
    for what, found in town.items():
        for key in found if isinstance(found, dict) else ("",):
            rates = [rates_of[what][key] if key else rates_of[what] for rates_of in (figures["maps"][name] for name in MAPS)]
            rate, aim = aims.get(f"{what}, {key}", (0.0, 0.0))
            name = f"{what}, {key}" if key else "no vehicles"
            shown = [f"{aim:,.0f}", verdict(met=rate >= aim)] if aim else ["", ""]
            rows.append([name, *(f"{rate:,.0f}" for rate in rates), *shown])
    rows.append(["300 controls in a batch, and a tick", "", f"{figures['batch_300_and_tick_per_s']:,.0f}", "", ""])
    show("samepath serve and CARLA's client, ticks or pictures per second", ["what", *MAPS, "aim (town)", ""], rows)
    save("server", figures | {"carla_ticks_per_s_for_orientation": CARLA_TICKS})
    return all(rate >= aim for rate, aim in aims.values())


def _ticks(carla: Any, client: Any, count: int, how: str) -> float:  # noqa: ANN401 - CARLA's own objects
    """Ticks of 0.05 s a second with so many vehicles."""
    ids = _fill(carla, client, count, driving=how == "driving")
    world, manager = client.get_world(), None
    if how == "managed":
        manager = client.get_trafficmanager(_free_port())
        manager.set_synchronous_mode(True)
        for vehicle in world.get_actors(ids):
            vehicle.set_autopilot(True, manager.get_port())
    for _ in range(20):
        world.tick()
    rate = per_s(world.tick, 200 if count < 100 else 60)
    if manager is not None:
        manager.set_synchronous_mode(False)
        manager.shut_down()
    return rate


def _pictures(carla: Any, client: Any, width: int, height: int) -> float:  # noqa: ANN401 - CARLA's own objects
    """Pictures a second of one colour camera on a car that drives; each is waited for."""
    (car,) = _fill(carla, client, 1, driving=True)
    world = client.get_world()
    blueprint = world.get_blueprint_library().find("sensor.camera.rgb")
    blueprint.set_attribute("image_size_x", str(width))
    blueprint.set_attribute("image_size_y", str(height))
    camera = world.spawn_actor(blueprint, carla.Transform(carla.Location(0.5, 0.0, 1.8)), attach_to=world.get_actor(car))
    came: queue.SimpleQueue[int] = queue.SimpleQueue()
    camera.listen(lambda image: came.put(image.frame))

    def tick_and_picture() -> None:
        frame = world.tick()
        while came.get(timeout=120.0) < frame:
            pass

    for _ in range(5):
        tick_and_picture()
    rate = per_s(tick_and_picture, 40)
    camera.stop()
    camera.destroy()
    return rate


def _free_port() -> int:
    """A port that nobody has, for a traffic manager; loopback only."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def per_s(work: Callable[[], object], count: int) -> float:
    """How often a second, in the best of five rounds."""
    return count / best_s(lambda: [work() for _ in range(count)])


def _synchronous(world: Any) -> None:  # noqa: ANN401 - CARLA's world
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)


def _fill(carla: Any, client: Any, count: int, *, driving: bool) -> list[int]:  # noqa: ANN401 - CARLA's own objects
    """Put so many vehicles where the map has places for them, or on a grid if these are too few; in circles, if they drive."""
    world = client.reload_world(False)
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    command = carla.command
    control = carla.VehicleControl(throttle=0.2, steer=0.8) if driving else carla.VehicleControl(hand_brake=True)
    points = world.get_map().get_spawn_points()
    places = [points[number * len(points) // count] for number in range(count)] if len(points) >= count else []
    places += [carla.Transform(carla.Location(x * STEP_M, y * STEP_M, 0.3)) for x in range(-2, 11) for y in range(-17, 17)]
    ids: list[int] = []
    for place in places:
        spawn = command.SpawnActor(blueprint, place)
        (answer,) = client.apply_batch_sync([spawn.then(command.ApplyVehicleControl(command.FutureActor, control))])
        if not answer.error:
            ids.append(answer.actor_id)
        if len(ids) == count:
            return ids
    raise RuntimeError(f"only {len(ids)} of {count} vehicles found a place")


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
